"""Python around a worker: plugins, preloads, run, dumps, the ways it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import SCHEDULER, WORKER
from distributed import Worker, WorkerPlugin, get_worker
from programs import Gate, double, inc, until, workers_of

rask_workers = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


class Watcher(WorkerPlugin):
    name = "watcher"

    def __init__(self, directory):
        self.directory = Path(directory)

    def setup(self, worker):
        self.worker = worker
        self.lines = []
        (self.directory / f"setup-{worker.name}").touch()

    def teardown(self, worker):
        (self.directory / f"teardown-{worker.name}").touch()

    def transition(self, key, start, finish, **kwargs):
        self.lines.append((key, start, finish))


@pytest.mark.op("register_worker_plugin", "unregister_worker_plugin")
@pytest.mark.api("Client.register_plugin", "Client.unregister_worker_plugin")
def test_plugins_are_set_up_told_of_transitions_and_torn_down(same, tmp_path_factory):
    def lines(dask_worker):
        return dask_worker.plugins["watcher"].lines

    def prog(client, cluster):
        directory = tmp_path_factory.mktemp("plugin")
        client.register_plugin(Watcher(directory))
        count = len(cluster.workers)
        assert len(list(directory.glob("setup-*"))) == count
        future = client.submit(inc, 1, key="watched")
        future.result()

        def seen():
            told = [line for found in client.run(lines).values() for line in found]
            return [(start, finish) for key, start, finish in told if key == "watched"]

        until(lambda: ("executing", "memory") in seen(), "the transitions")
        found = seen()
        client.unregister_worker_plugin("watcher")
        return found, len(list(directory.glob("teardown-*"))) == count

    found = same(prog)
    assert found[0][-1] == ("executing", "memory") and found[1]


@pytest.mark.op("register_worker_plugin")
def test_a_plugin_that_fails_to_set_up_is_reported(same):
    class Broken(WorkerPlugin):
        name = "broken"

        def setup(self, worker):
            raise ValueError("no setup")

    def prog(client):
        try:
            client.register_plugin(Broken())
        except ValueError as error:
            return str(error), client.submit(inc, 1).result()
        finally:
            client.unregister_worker_plugin("broken")

    assert same(prog) == ("no setup", 2)


@rask_workers
def test_a_plugin_may_add_and_replace_handlers(rask_cluster, rask_client):
    class Handlers(WorkerPlugin):
        name = "handlers"

        def setup(self, worker):
            self.ping = worker.handlers["ping"]
            worker.handlers["hello"] = lambda name: f"hello {name}"
            worker.handlers["ping"] = lambda: "not pong"

        def teardown(self, worker):
            worker.handlers["ping"] = self.ping  # others ask this worker too
            del worker.handlers["hello"]

    from distributed.core import rpc

    rask_client.register_plugin(Handlers())
    address = sorted(workers_of(rask_client))[0]

    async def ask(op, **arguments):
        async with rpc(address) as worker:
            return await getattr(worker, op)(**arguments)

    assert rask_client.sync(ask, "hello", name="you") == "hello you"
    assert rask_client.sync(ask, "ping") == "not pong"
    rask_client.unregister_worker_plugin("handlers")
    assert rask_client.sync(ask, "ping") == b"pong"
    assert rask_client.sync(ask, "hello", name="you") is None  # as stock answers what it does not know


def test_functions_and_coroutines_run_on_workers(same):
    async def later(x, dask_worker=None):
        import asyncio

        await asyncio.sleep(0.01)
        return x, isinstance(dask_worker, Worker)

    def fails():
        raise OSError("out of band")

    def prog(client):
        found = list(client.run(later, 3).values())
        try:
            client.run(fails)
        except OSError as error:
            return found, str(error), list(client.run(os.path.basename, "/a/b").values())

    assert same(prog)[1:] == ("out of band", ["b", "b"])


@pytest.mark.skipif(SCHEDULER == "rask", reason="`profile` is not there yet")
def test_call_stacks_and_profiles_show_the_task(same, tmp_path_factory):
    def prog(client):
        gate = Gate(tmp_path_factory.mktemp("gate"))
        future = client.submit(gate, 1, key="stacked")
        gate.wait_started()
        (stacks,) = [s for s in client.call_stack(keys=["stacked"]).values() if s]
        until(lambda: client.profile()["count"] > 3, "samples")
        gate.open()
        future.result()
        return list(stacks), any("__call__" in line for line in stacks["stacked"])

    assert same(prog) == (["stacked"], True)


@pytest.mark.api("Client.story")
def test_stories_and_dumps_name_a_task(same):
    def prog(client):
        future = client.submit(inc, 1, key="told")
        future.result()
        story = [line for line in client.story("told") if line[0].startswith("tcp")]
        changes = [line[2:4] for line in story if len(line) == 8]
        return ("executing", "memory") in changes, all(line[1] == "told" for line in story)

    assert same(prog) == (True, True)


@rask_workers
def test_what_a_worker_says_of_its_tasks(rask_cluster, rask_client):
    def tasks(dask_worker):
        ts = dask_worker.state.tasks.get("sized")
        return ts and (ts.state, ts.nbytes, len(ts.dependencies)), repr(dask_worker)[:7]

    base = rask_client.submit(inc, 1)
    future = rask_client.submit(double, base, key="sized")
    future.result()
    found = [f for f in rask_client.run(tasks).values() if f[0]]
    assert found[0] == (("memory", 28, 1), "<Worker")


@pytest.mark.op("set_resources")
def test_resources_can_be_changed(same):
    async def grow(dask_worker):
        await dask_worker.set_resources(GROWN=2)  # a name no other test waits for

    def prog(client):
        client.run(grow)
        future = client.submit(inc, 1, resources={"GROWN": 2}, pure=False)
        return future.result(timeout=120)

    assert same(prog) == 2


PRELOAD = """
import click

@click.command()
@click.option("--mark", default="")
def dask_setup(worker, mark):
    worker.mark = mark

def dask_teardown(worker):
    open(worker.mark + ".down", "w").close()
"""


def test_preloads_are_run(fresh, tmp_path):
    (tmp_path / "preloaded_here.py").write_text(PRELOAD)
    mark = str(tmp_path / "mark")
    cluster = fresh(n_workers=1, worker_options=(
        "--preload", str(tmp_path / "preloaded_here.py"), "--mark", mark))
    with cluster.connected() as client:
        assert list(client.run(lambda dask_worker: dask_worker.mark).values()) == [mark]
        client.retire_workers(list(workers_of(client)))
        until(Path(mark + ".down").exists, "the teardown")


@rask_workers
def test_a_preload_that_fails_to_tear_down_keeps_no_worker_alive(fresh, tmp_path):
    (tmp_path / "clinging.py").write_text("def dask_teardown(worker):\n    raise ValueError('no')\n")
    cluster = fresh(n_workers=1, worker_options=("--preload", str(tmp_path / "clinging.py")))
    with cluster.connected() as client:
        client.retire_workers(list(workers_of(client)))
        until(lambda: not any(worker.alive() for worker in cluster.workers.values()), "the end")


def test_a_worker_whose_lifetime_is_over_hands_its_data_on(fresh):
    cluster = fresh(n_workers=1)
    with cluster.connected() as client:
        assert client.submit(inc, 1).result() == 2  # what is slow the first time is over
        for lifetime in (5, 20, 60):  # a busy machine may need longer for one task
            old = cluster.add_worker(options=("--lifetime", f"{lifetime}s", "--resources", "OLD=1"))
            value = client.submit(inc, 1, resources={"OLD": 1}, pure=False)
            until(lambda: value.done() or not old.alive(), "the task or the end")
            if value.done():
                break
        until(lambda: len(workers_of(client)) == 1, "the end")
        assert value.status == "finished" and value.result() == 2
        assert client.submit(double, value).result() == 4


def test_running_tasks_are_waited_for_when_a_worker_retires(same, tmp_path_factory):
    def prog(client, cluster):
        gate = Gate(tmp_path_factory.mktemp("gate"))
        future = client.submit(gate, 5, key="last", pure=False)
        gate.wait_started()
        (address,) = [a for a, keys in client.processing().items() if "last" in keys]
        gate.open()
        client.retire_workers([address], close_workers=True)
        return future.result(timeout=120)

    assert same(prog) == 5


def test_current_tasks_know_their_worker_by_name(same):
    def name():
        return get_worker().name

    def prog(client, cluster):
        return {client.submit(name, pure=False).result() for _ in range(4)} <= set(cluster.workers)

    assert same(prog) is True


@pytest.mark.api("Client.register_worker_callbacks")
def test_callbacks_run_on_workers_that_are_there_and_that_come(same):
    def mark(dask_worker):
        dask_worker.called = getattr(dask_worker, "called", 0) + 1

    def prog(client, cluster):
        client.register_worker_callbacks(mark)
        name = cluster.add_worker().name
        found = sorted(client.run(lambda dask_worker: dask_worker.called).values())
        cluster.workers.pop(name).stop()
        until(lambda: len(workers_of(client)) == 2, "the third to leave")
        return found

    assert same(prog) == [1, 1, 1]


@pytest.mark.api("Client.write_scheduler_file")
def test_a_client_writes_a_scheduler_file(same, tmp_path_factory):
    def prog(client):
        from distributed import Client

        path = str(tmp_path_factory.mktemp("file") / "scheduler.json")

        def written():
            try:
                client.write_scheduler_file(path)
            except TypeError as error:  # a heartbeat that tells of tasks has keys that JSON has not
                assert "keys must be str" in str(error)
                client.scheduler_file = None  # else it says that it has been written
                return False
            return True

        until(written, "a heartbeat without tasks")
        with Client(scheduler_file=path, set_as_default=False) as other:
            return other.submit(inc, 1).result()

    assert same(prog) == 2
