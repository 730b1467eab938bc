"""How tasks run on a worker: executors, actors, errors that cannot travel, replicas, priorities."""

from __future__ import annotations

import asyncio
import os
import threading

import dask
import numpy as np
import pytest
from conftest import SCHEDULER, WORKER
from distributed import get_worker, wait, worker_client
from programs import Gate, add, double, inc, until, workers_of

rask_workers = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


def addresses(client) -> list[str]:
    return sorted(workers_of(client))


# ---- executors -----------------------------------------------------------------------------------


def test_threads_of_every_executor_have_stocks_names(same):
    def name():
        return threading.current_thread().name.partition("-D")[2].partition("-")[0]

    def prog(client):
        found = [client.submit(name, pure=False).result()]
        for executor in ("offload", "actor", "default"):
            with dask.annotate(executor=executor):
                found.append(client.submit(name, pure=False).result())
        return found

    same(prog)


@rask_workers
def test_a_small_result_does_not_keep_the_large_array_it_was_cut_from(rask_client):
    cut = rask_client.submit(lambda: np.arange(10_000)[:10], pure=False)
    assert rask_client.submit(lambda found: found.base is None, cut).result()
    assert (cut.result() == np.arange(10)).all()


def test_executors_of_a_plugin_run_tasks(same):
    from concurrent.futures import ProcessPoolExecutor

    from distributed import WorkerPlugin

    class Pool(WorkerPlugin):
        name = "pool"

        def setup(self, worker):
            worker.executors["processes"] = ProcessPoolExecutor(1)

        def teardown(self, worker):
            worker.executors.pop("processes").shutdown()

    def prog(client):
        client.register_plugin(Pool())
        try:
            workers = set(client.run(os.getpid).values())
            with dask.annotate(executor="processes"):
                pid = client.submit(os.getpid, pure=False)
                wrong = client.submit(int, "x", pure=False)
                on = client.submit(add, client.submit(inc, 1), 1)
            error = wrong.exception()
            return pid.result() in workers, type(error).__name__, str(error), on.result()
        finally:
            client.unregister_worker_plugin("pool")

    assert same(prog) == (False, "ValueError", "invalid literal for int() with base 10: 'x'", 3)


def test_threads_of_the_default_pool_are_as_many_as_told(fresh, tmp_path):
    cluster = fresh(n_workers=1, nthreads=4)
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        futures = [client.submit(gate, i, pure=False) for i in range(9)]
        gate.wait_started(4)
        until(lambda: sum(f.status == "pending" for f in futures) == 9, "all to wait")
        assert len(gate.started()) == 4
        gate.open()
        assert sorted(client.gather(futures)) == list(range(9))


# ---- actors --------------------------------------------------------------------------------------


class Keeper:
    items: list = []
    worker = ""

    def __init__(self):
        self.items = []
        self.worker = get_worker().address

    def add(self, item):
        self.items.append(item)
        return len(self.items)

    async def add_later(self, item):
        await asyncio.sleep(0.01)
        return self.add(item)

    def threads(self):
        return threading.current_thread().name.partition("Dask-")[2].partition("-")[0]


def test_actors_may_be_asynchronous_and_are_released(same):
    def prog(client):
        future = client.submit(Keeper, actor=True, pure=False)
        keeper = future.result()
        counts = [keeper.add_later(i).result() for i in range(3)]
        counts.append(keeper.add("x").result())
        found = counts, keeper.items, keeper.threads().result()

        def actors(dask_worker):
            return len(dask_worker.state.actors)

        before = sum(client.run(actors).values())
        del keeper, future
        until(lambda: not sum(client.run(actors).values()), "the actor to be let go")
        return *found, before

    assert same(prog)[:2] == ([1, 2, 3, 4], [0, 1, 2, "x"])


def test_an_actors_worker_dies(same):
    def prog(client, cluster):
        future = client.submit(Keeper, actor=True, pure=False)
        keeper = future.result()
        keeper.add(1).result()
        cluster.worker_process(keeper.worker).kill()
        try:
            keeper.add(2).result(timeout=5)  # stock waits for ever
        except (OSError, RuntimeError):  # which one is a matter of time
            found = "lost"
        cluster.repair()
        return found, client.submit(inc, 1).result()

    assert same(prog) == ("lost", 2)


# ---- errors --------------------------------------------------------------------------------------


class Stubborn(Exception):
    """Can be neither pickled nor unpickled."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


def test_errors_that_cannot_be_pickled_are_told_as_text(same):
    def fail():
        raise Stubborn("cannot travel")

    def prog(client):
        error = client.submit(fail, pure=False).exception()
        return type(error).__name__, "cannot travel" in str(error), client.submit(inc, 1).result()

    same(prog)


def test_causes_contexts_and_tracebacks_arrive(same):
    import traceback

    def inner():
        raise KeyError("inner")

    def outer():
        try:
            inner()
        except KeyError as error:
            raise ValueError("outer") from error

    def prog(client):
        future = client.submit(outer, pure=False)
        error = future.exception()
        frames = [frame.name for frame in traceback.extract_tb(future.traceback())]
        return error, type(error.__cause__).__name__, frames

    found = same(prog)
    assert str(found[0]) == "outer" and found[2][-1] == "outer"


@rask_workers  # the stock client waits for ever
def test_base_exceptions_and_exits_are_errors_of_the_task(rask_client):
    class Base(BaseException):
        pass

    def raise_base():
        raise Base("base")

    def leave():
        raise SystemExit(3)

    def interrupt():
        raise KeyboardInterrupt

    found = []
    for function in (raise_base, leave, interrupt):
        error = rask_client.submit(function, pure=False).exception(timeout=120)
        found.append((type(error).__name__, str(error)))
    assert found == [("Base", "base"), ("SystemExit", "3"), ("KeyboardInterrupt", "")]
    assert rask_client.gather(rask_client.map(inc, range(4), pure=False)) == [1, 2, 3, 4]


def test_an_error_in_a_functions_pickle(same):
    class Poison:
        def __reduce__(self):
            return (int, ("not a number",))

    def prog(client):
        error = client.submit(len, Poison(), pure=False).exception()
        return type(error).__name__, str(error), client.submit(inc, 1).result()

    assert same(prog)[2] == 2


def test_results_that_err_when_measured(same):
    """sizeof of a result fails: stock counts a default, and the task is done."""
    class Odd:
        def __sizeof__(self):
            raise RuntimeError("no size")

    def prog(client):
        future = client.submit(Odd, pure=False)
        wait(future)
        return future.status, client.submit(lambda odd: type(odd).__name__, future).result()

    same(prog)


@rask_workers  # with stock workers the client waits for ever
def test_a_deep_recursion_is_an_error_of_its_task(rask_client):
    def dive(n):
        return dive(n + 1)

    error = rask_client.submit(dive, 0, pure=False).exception(timeout=120)
    assert "maximum recursion depth exceeded" in str(error)
    assert rask_client.submit(inc, 1, pure=False).result() == 2


def test_a_task_that_asks_for_too_much_memory_errs(same):
    def limit(extra):
        """Lets the process grow by `extra` bytes; gives the former limit."""
        import resource

        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        former = resource.getrlimit(resource.RLIMIT_AS)
        most = pages * 4096 + extra if extra else former[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, former[1]))

    def prog(client):
        address = addresses(client)[0]
        client.run(limit, 500_000_000, workers=[address])
        try:
            future = client.submit(bytes, 4_000_000_000, workers=[address], pure=False)
            error = future.exception(timeout=120)
            fine = client.gather(client.map(inc, range(20), workers=[address], pure=False))
        finally:
            client.run(limit, 0, workers=[address])
        return type(error).__name__, sum(fine)

    assert same(prog) == ("MemoryError", 210)


# ---- replicas, priorities, stealing, cancelling --------------------------------------------------


def test_tasks_of_a_worker_run_by_priority(same, tmp_path_factory):
    def note(name, path):
        with open(path, "a") as file:
            file.write(name + "\n")

    def prog(client):
        directory = tmp_path_factory.mktemp("order")
        here = {"workers": addresses(client)[:1], "pure": False}
        gate = Gate(directory)
        first = client.submit(gate, **here)
        gate.wait_started()
        path = str(directory / "order")
        futures = [client.submit(note, f"p{p}", path, priority=p, **here) for p in (1, 5, -3, 3)]
        until(lambda: len(client.processing()[addresses(client)[0]]) == 5, "all to be known")
        gate.open()
        client.gather([first, *futures])
        return (directory / "order").read_text().split()

    assert same(prog) == ["p5", "p3", "p1", "p-3"]


@rask_workers  # stock's order differs from run to run
def test_dependencies_of_urgent_tasks_are_used_first(rask_client, tmp_path):
    """One worker fetches from the other; what a task of higher priority needs comes first."""
    def note(value, name, path):
        with open(path, "a") as file:
            file.write(name + "\n")

    client = rask_client
    here, there = addresses(client)
    values = client.map(np.ones, [200_000] * 4, workers=[there], pure=False)
    wait(values)
    gate = Gate(tmp_path)
    first = client.submit(gate, workers=[here], pure=False)
    gate.wait_started()
    path = str(tmp_path / "order")
    futures = [client.submit(note, value, f"p{p}", path, priority=p, workers=[here], pure=False)
               for value, p in zip(values, (1, 4, 2, 3))]
    until(lambda: len(client.processing()[here]) == 5, "all to be known")
    gate.open()
    client.gather([first, *futures])
    assert (tmp_path / "order").read_text().split() == ["p4", "p3", "p2", "p1"]


def test_a_cancelled_task_that_runs_ends_and_is_forgotten(same, tmp_path_factory):
    def known(dask_worker):
        return sorted(dask_worker.state.tasks)

    def prog(client):
        gate = Gate(tmp_path_factory.mktemp("gate"))
        address = addresses(client)[0]
        future = client.submit(gate, 1, key="cancelled", workers=[address])
        gate.wait_started()
        client.cancel([future])
        until(lambda: future.status == "cancelled", "the cancelling")
        gate.open()
        until(lambda: not client.run(known, workers=[address])[address], "the end")
        return client.submit(inc, 1, workers=[address]).result()

    assert same(prog) == 2


def test_a_cancelled_task_is_wanted_again_while_it_runs(same, tmp_path_factory):
    def prog(client):
        gate = Gate(tmp_path_factory.mktemp("gate"))
        address = addresses(client)[0]
        future = client.submit(gate, 1, key="again", workers=[address])
        gate.wait_started()
        del future
        until(lambda: not client.futures, "the client to let go")
        until(lambda: not any(client.processing().values()), "the scheduler to let go")
        second = client.submit(gate, 1, key="again", workers=[address])
        gate.open()
        return second.result(timeout=120), len(gate.started()) in (1, 2)

    assert same(prog) == (1, True)


def test_queued_work_is_stolen_by_a_worker_that_joins(same, tmp_path_factory):
    def where(i, path):
        gate = Gate(path)
        gate(i)
        return os.getpid()

    def prog(client, cluster):
        directory = str(tmp_path_factory.mktemp("gate"))
        futures = client.map(where, range(12), path=directory, pure=False)
        gate = Gate(directory)
        gate.wait_started(2)
        extra = cluster.add_worker()
        gate.open()
        found = client.gather(futures)
        cluster.workers.pop(extra.name).stop()
        return len(found), len(set(found)) >= 2

    assert same(prog) == (12, True)


@pytest.mark.skipif(SCHEDULER == "rask", reason="run_on_scheduler is not there yet")
def test_replicas_are_acquired_and_removed_as_told(same):
    def prog(client):
        here, there = addresses(client)
        value = client.submit(np.ones, 1000, workers=[here], pure=False)
        wait(value)

        def holders():
            return len(client.who_has([value])[value.key])

        key = value.key
        client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.request_acquire_replicas(
            there, [key], stimulus_id="test"))
        until(lambda: holders() == 2, "the second replica")
        client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.request_remove_replicas(
            there, [key], stimulus_id="test"))
        until(lambda: holders() == 1, "its end")
        return client.gather(value).sum()

    assert same(prog) == 1000


@pytest.mark.skipif(SCHEDULER == "rask", reason="replicate is not there yet")
def test_replicate_and_rebalance(same):
    def prog(client):
        here, there = addresses(client)
        value = client.submit(np.ones, 1000, workers=[here], pure=False)
        wait(value)
        client.replicate(value)
        both = len(client.who_has([value])[value.key])
        client.replicate(value, n=1)
        until(lambda: len(client.who_has([value])[value.key]) == 1, "one to be removed")
        many = client.map(np.ones, [100_000] * 8, workers=[here], pure=False)
        wait(many)
        client.rebalance()
        return both, client.gather(value).sum(), len(client.gather(many))

    assert same(prog) == (2, 1000, 8)


def scatter_to_all(client):
    def share():
        with worker_client() as inner:
            future = inner.scatter(np.arange(10), broadcast=True, direct=True, hash=False)
            return len(inner.who_has([future])[future.key]), int(future.result().sum())

    return client.submit(share, pure=False).result()


@pytest.mark.skipif(SCHEDULER == "rask", reason="replicate is not there yet")
def test_a_task_scatters_to_all_workers(same):
    assert same(scatter_to_all) == (2, 45)


@pytest.mark.skipif(SCHEDULER != "rask", reason="of a rask scheduler")
def test_a_task_that_scatters_to_all_workers_is_told_what_is_missing(fresh):
    with fresh().connected() as client:  # of its own: what was scattered stays there, wanted by the worker's client
        with pytest.raises(NotImplementedError, match="'replicate'.*docs/COMPATIBILITY.md"):
            scatter_to_all(client)
        assert client.submit(inc, 1, pure=False).result() == 2


def test_a_lost_replica_is_looked_for_elsewhere(same):
    """A worker asks a peer that has just dropped the value: the scheduler tells who has it."""
    def prog(client):
        from distributed.core import rpc

        here, there = addresses(client)
        value = client.submit(inc, 1, workers=[here], allow_other_workers=True, key="dropped")
        wait(value)

        async def free():
            async with rpc(here) as peer:
                await peer.free_keys(keys=["dropped"], stimulus_id="test")

        client.sync(free)
        return client.submit(double, value, workers=[there]).result(timeout=120)

    assert same(prog) == 4
