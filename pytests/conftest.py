"""Clusters for the tests, and the fixture `same` that compares rask with stock Dask.

The clusters are real processes (rask.processes). `RASK_PAIRING` names the pairing under test as
scheduler-worker: rask-rask by default; stock-stock checks the tests themselves. One stock cluster
and one cluster of the pairing serve the whole session; workers a test killed are replaced before
the next test, and a failed test gets its clusters replaced, so that it cannot fail its neighbours.

Answers to design.md §7.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compare import Outcome, describe_difference
from deviations import DEVIATIONS, LATER
from programs import at_rest, until, workers_of

from rask.processes import ProcessCluster

PAIRING = os.environ.get("RASK_PAIRING", "rask-rask")
SCHEDULER, WORKER = PAIRING.split("-")
HERE = str(Path(__file__).parent)
# Modules next to the tests can be imported by schedulers and workers too.
ENV = {"PYTHONPATH": os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))}


def make_cluster(scheduler: str = SCHEDULER, worker: str = WORKER,
                 **options: Any) -> ProcessCluster:
    """A cluster that is not started; the pairing under test unless told otherwise."""
    options["env"] = {**ENV, **options.get("env", {})}
    return ProcessCluster(scheduler, worker, **options)


def pytest_report_header() -> str:
    return f"pairing under test: {SCHEDULER} scheduler, {WORKER} workers; beside it: stock, stock"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SCHEDULER == "rask" and item.name in LATER:
            item.add_marker(pytest.mark.xfail(reason=LATER[item.name], strict=True))


# The clusters of a session: scheduler, worker, options of workers.
ROLES = {
    "stock": ("stock", "stock", ()),
    "rask": (SCHEDULER, WORKER, ()),
    "stock workers": (SCHEDULER, "stock", ()),
    "nannies": (SCHEDULER, "stock", ("--nanny",)),
    "own nannies": (SCHEDULER, WORKER, ("--nanny",)),
    "stock nannies": ("stock", "stock", ("--nanny",)),
}


class Pool:
    """The session's clusters, started on first use and repaired between tests."""

    def __init__(self) -> None:
        self.running: dict[str, ProcessCluster] = {}

    def get(self, role: str) -> ProcessCluster:
        if role in self.running:
            self.running[role].repair()
        else:
            scheduler, worker, options = ROLES[role]
            cluster = make_cluster(scheduler, worker, worker_options=options)
            self.running[role] = cluster
            cluster.start()
        return self.running[role]

    def drop_all(self) -> None:
        while self.running:
            self.running.popitem()[1].close()


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.drop_all()


@pytest.fixture
def stock_cluster(pool: Pool, request: pytest.FixtureRequest) -> ProcessCluster:
    """The session's stock scheduler with two stock workers of one thread."""
    return _noted(request, pool.get("stock"))


@pytest.fixture
def rask_cluster(pool: Pool, request: pytest.FixtureRequest) -> ProcessCluster:
    """The session's cluster of the pairing under test: two workers of one thread."""
    return _noted(request, pool.get("rask"))


@pytest.fixture
def rask_client(rask_cluster: ProcessCluster) -> Iterator[Any]:
    """A stock client of `rask_cluster`, current during the test."""
    with settled(rask_cluster) as client:
        yield client


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Iterator[Callable[..., ProcessCluster]]:
    """Starts clusters of one test's own: `fresh(n_workers=3)`, `fresh("stock", "stock")`."""
    started: list[ProcessCluster] = []

    def start(*args: Any, **options: Any) -> ProcessCluster:
        cluster = make_cluster(*args, **options)
        started.append(_noted(request, cluster))
        return cluster.start()

    yield start
    for cluster in started:
        cluster.close()


@pytest.fixture
def same(stock_cluster: ProcessCluster, rask_cluster: ProcessCluster,
         request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs `prog(client)` or `prog(client, cluster)` on both and demands the same outcome.

    The same means: equal value and type, deeply; or an exception of the same type and text.
    Gives the value, or raises the exception, so that the test can say what it should be.
    """
    return _comparison(request, stock_cluster, rask_cluster)


@pytest.fixture
def same_on_stock_workers(stock_cluster: ProcessCluster, pool: Pool,
                          request: pytest.FixtureRequest) -> Callable[..., Any]:
    """As `same`, with stock workers under the scheduler of the pairing."""
    role = "rask" if WORKER == "stock" else "stock workers"
    return _comparison(request, stock_cluster, _noted(request, pool.get(role)))


@pytest.fixture(params=["nannies"] if WORKER == "stock" else ["nannies", "own nannies"])
def same_under_nannies(pool: Pool, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """As `same`, with workers that have nannies, stock ones and ours, under the scheduler of the pairing."""
    both = [_noted(request, pool.get(role)) for role in ("stock nannies", request.param)]
    return _comparison(request, *both)


def _comparison(request: pytest.FixtureRequest, stock: ProcessCluster,
                ours: ProcessCluster) -> Callable[..., Any]:
    deviation = DEVIATIONS.get(request.node.originalname)
    if deviation and {"scheduler": SCHEDULER, "worker": WORKER}[deviation[0]] != "rask":
        deviation = None

    def compare(prog: Callable[..., Any]) -> Any:
        expected = run(prog, stock)
        found = run(prog, ours)
        difference = describe_difference(expected, found)
        if difference and not deviation:
            pytest.fail(f"stock and {PAIRING} differ: {difference}\n"
                        f"stock: {expected.describe()}\n{PAIRING}: {found.describe()}")
        if deviation and not difference:
            pytest.fail(f"deviations.py lists {request.node.originalname}, but nothing differs")
        return found.get()

    return compare


def run(prog: Callable[..., Any], cluster: ProcessCluster) -> Outcome:
    """One run of a program on one cluster, by a client of its own."""
    wants_cluster = len(inspect.signature(prog).parameters) > 1
    with settled(cluster) as client:
        return Outcome.of(prog, client, *([cluster] if wants_cluster else []))


@contextlib.contextmanager
def settled(cluster: ProcessCluster) -> Iterator[Any]:
    """A current client, once nothing of the test before is left: tasks, values, workers on their way out.

    A stock scheduler that keeps something for good is replaced; ours must not.
    """
    def as_started() -> bool:
        cluster.repair()
        known = workers_of(client).values()
        return {w["name"] for w in known} == set(cluster.workers) and \
            all(w["status"] == "running" for w in known) and at_rest(client)

    with cluster.connected() as client:
        try:
            until(as_started, "the end of what the test before has left", timeout=60)
        except TimeoutError:
            if cluster.kinds[0] != "stock":
                raise
            cluster.scheduler.kill()
        else:
            yield client
            return
    cluster.repair()
    with cluster.connected() as client:
        yield client


# ---- logs of the clusters in the reports of failed tests ---------------------------------------

NOTED = pytest.StashKey[list[ProcessCluster]]()


def _noted(request: pytest.FixtureRequest, cluster: ProcessCluster) -> ProcessCluster:
    request.node.stash.setdefault(NOTED, []).append(cluster)
    return cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.failed:
        for cluster in item.stash.get(NOTED, []):
            report.sections.append(("cluster logs", cluster.logs()))
        if "pool" in getattr(item, "funcargs", {}):
            item.funcargs["pool"].drop_all()
    return report
