"""A pytest plugin that runs somebody else's tests on a cluster: those inside the installed dask.

Those tests mostly ask for the synchronous scheduler by name. Here every scheduler name means "the
cluster named by RASK_PAIRING", so each computation of each test travels to real workers and back.
Outcomes are added line by line to the file RASK_OUTCOMES names, first "lost" for every
test that was collected, so that a session that dies says what it missed. Started by
tools/test_collections.py.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from distributed import Client

from rask.processes import START_TIMEOUT, ProcessCluster

RANK = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2}


def spread(family: list[pytest.Item], each: int) -> list[pytest.Item]:
    """`each` of the family at even distances, the first always among them; 0: all."""
    if each == 0 or len(family) <= each:
        return family
    return [family[i * len(family) // each] for i in range(each)]


class Settled(Client):
    """A client that lets go of what earlier calls had before it asks for more.

    A stock client counts a key's new reference at once, but drops the old one, and tells the scheduler, in two
    steps of its loop. So a test that gives one key to other contents each time may get those of before.
    """

    def get(self, *args: Any, **kwargs: Any) -> Any:
        for _ in range(2):
            self.sync(_step)
        return super().get(*args, **kwargs)


async def _step() -> None:
    """Done once the loop has done what it was told before."""


class OnCluster:
    """Holds the cluster and its client for one test session."""

    def __init__(self) -> None:
        self.pairing = os.environ["RASK_PAIRING"].split("-")
        self.outcomes: dict[str, str] = {}
        self.cluster: ProcessCluster | None = None
        self.client: Any = None

    def pytest_sessionstart(self) -> None:
        self.connect()

    def connect(self) -> None:
        import dask.base

        self.cluster = ProcessCluster(*self.pairing).start()
        self.client = Settled(self.cluster.address, timeout=START_TIMEOUT)
        for name in list(dask.base.named_schedulers):
            dask.base.named_schedulers[name] = self.client.get

    def write(self, test: str, outcome: str) -> None:
        with open(os.environ["RASK_OUTCOMES"], "a") as file:
            file.write(json.dumps([test, outcome]) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config,
                                      items: list[pytest.Item]) -> None:
        """Keeps the tests in the file RASK_TESTS, else RASK_EACH parameter sets of each function; 0 keeps all."""
        if chosen := os.environ.get("RASK_TESTS"):
            with open(chosen) as file:
                wanted = set(json.load(file))
            items[:] = [item for item in items if item.nodeid in wanted]
            return
        each = int(os.environ.get("RASK_EACH", 0))
        families: dict[str, list[pytest.Item]] = {}
        for item in items:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
        kept = {item.nodeid for family in families.values() for item in spread(family, each)}
        left_out = [item for item in items if item.nodeid not in kept]
        for item in left_out:
            self.write(item.nodeid, "left out")
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in kept]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.write(item.nodeid, "lost")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if RANK[outcome] >= RANK[self.outcomes.get(report.nodeid, "passed")]:
            self.outcomes[report.nodeid] = outcome
        if report.when == "teardown":
            self.write(report.nodeid, self.outcomes.pop(report.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A test that made and closed a client of its own leaves none behind as the default."""
        from distributed.client import _set_global_client

        _set_global_client(self.client)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        assert self.cluster is not None and self.cluster.scheduler is not None
        if not self.cluster.scheduler.alive():
            self.disconnect()
            self.connect()
        self.cluster.repair()

    def disconnect(self) -> None:
        self.client.close(timeout=2)
        self.cluster.close()

    def pytest_sessionfinish(self) -> None:
        self.disconnect()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OnCluster())
