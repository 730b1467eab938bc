"""A pytest plugin that runs somebody else's tests on a cluster: those inside the installed dask.

Those tests mostly ask for the synchronous scheduler by name. Here every scheduler name means "the
cluster named by RASK_PAIRING", so each computation of each test travels to real workers and back.
Outcomes are written as JSON to the file RASK_OUTCOMES names. Started by tools/test_collections.py.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from rask.processes import ProcessCluster

RANK = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2}


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
        self.client = self.cluster.client(set_as_default=True)
        for name in list(dask.base.named_schedulers):
            dask.base.named_schedulers[name] = self.client.get

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        before = self.outcomes.get(report.nodeid, "passed")
        if RANK[outcome] >= RANK[before]:
            self.outcomes[report.nodeid] = outcome

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
        with open(os.environ["RASK_OUTCOMES"], "w") as file:
            json.dump(self.outcomes, file)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OnCluster())
