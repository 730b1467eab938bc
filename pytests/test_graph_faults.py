"""Graphs that do harm when they are opened, against a whole cluster: nobody else may notice.

Opening a graph is running user code, and the rask scheduler leaves that to its graph processes. So
most of these graphs would end or stall a stock scheduler; the others go through `same`.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import types
from pathlib import Path

import pytest
from conftest import ENV, SCHEDULER
from dask._task_spec import List, Task, TaskRef
from distributed import wait
from programs import (
    add,
    inc,
    keywords,
    print_lines,
    sign_and_sleep,
    sign_and_write,
    throws,
    total,
    until,
)
from rawpeer import encode

ours = pytest.mark.skipif(SCHEDULER != "rask", reason="would harm a stock scheduler")


class WhenOpened:
    """A callable argument whose unpickling calls a function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.fixture
def neighbour(rask_cluster):
    """Work of another client that is under way during the test and must end well."""
    with rask_cluster.client() as client:
        futures = client.map(inc, range(200), pure=False)
        yield client
        assert sum(client.gather(futures)) == sum(range(1, 201))
        assert client.submit(inc, 1, pure=False).result(timeout=120) == 2


@ours
@pytest.mark.fault("C5")
def test_opening_a_graph_aborts_the_process(rask_client, neighbour):
    future = rask_client.submit(inc, WhenOpened(os.abort), key="aborts")
    with pytest.raises(RuntimeError, match="died: signal 6"):
        future.result(timeout=120)
    assert rask_client.submit(inc, 41, key="after-abort").result(timeout=120) == 42


@ours
@pytest.mark.fault("C5")
def test_opening_a_graph_never_ends(rask_cluster, neighbour, tmp_path):
    # Which process opens a graph is the scheduler's choice, so it names itself.
    signature = tmp_path / "sleeper"
    with rask_cluster.client() as client:
        future = client.submit(inc, WhenOpened(sign_and_sleep, str(signature)), key="sleeps")
        until(signature.exists, "the graph to be opened")
        for i in range(20):
            assert neighbour.submit(inc, i, pure=False).result(timeout=120) == i + 1
        assert future.status == "pending"
        assert int(signature.read_text()) in rask_cluster.graph_processes()
    # Its client has left: nobody waits for the graph any more, so its process is ended.
    until(lambda: int(signature.read_text()) not in rask_cluster.graph_processes(), "the sleeper's end")


@ours
@pytest.mark.fault("C5")
def test_opening_a_graph_prints_without_measure(rask_cluster, rask_client, neighbour):
    before = rask_cluster.scheduler.log.stat().st_size
    future = rask_client.submit(inc, WhenOpened(print_lines, 1_000_000, 100), key="prints")
    assert future.result(timeout=120) == 1_000_001
    assert rask_cluster.scheduler.log.stat().st_size - before < 10_000_000


@pytest.mark.fault("C5")
def test_a_graph_needs_a_module_that_the_scheduler_lacks(same):
    def prog(client):
        module = types.ModuleType("only_on_the_client")
        exec("def function(x): return x", module.__dict__)
        sys.modules[module.__name__] = module
        try:
            client.submit(module.function, 1, key="lacks-a-module").result(timeout=120)
        except Exception as error:
            cause = error.__cause__
            return type(error).__name__, str(error), type(cause).__name__, str(cause), \
                client.submit(inc, 1).result(timeout=120)
        finally:
            del sys.modules[module.__name__]

    assert same(prog)[2:] == ("ModuleNotFoundError", "No module named 'only_on_the_client'", 2)


VANISH = """
import os, sys
from distributed import Client
from programs import inc
client = Client(sys.argv[1], set_as_default=False)
futures = client.map(inc, range(1_000_000), pure=False)
client.submit(inc, 1)  # behind the map: the loop has sent some of it when this is queued
print("submitted", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


@ours
@pytest.mark.timeout(400)
@pytest.mark.fault("C1", "C2", "C4")
def test_a_client_leaves_in_the_middle_of_a_million_tasks(rask_cluster, neighbour):
    with subprocess.Popen([sys.executable, "-c", VANISH, rask_cluster.address],
                          env={**os.environ, **ENV}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdout.readline() == "submitted\n"
            until(lambda: any(neighbour.processing().values()) or neighbour.who_has(), "its start")
            client.stdin.write("go\n")
            client.stdin.flush()
            client.wait(120)
        finally:
            client.kill()
    until(lambda: len(neighbour.who_has()) <= 201, "its results to leave", timeout=120)
    until(lambda: not any(neighbour.processing().values()), "its work to stop", timeout=120)


# ---- graph processes that lie --------------------------------------------------------------------

LINK = 3  # the descriptor on which a graph process talks to the scheduler
LIES = {
    "garbage": b"\xff" * 4096,
    "an endless message": struct.pack("<QQ", 1 << 60, 1),
    "no such operation": encode({"op": "obey"}),
    "the end of another's graph": encode({"op": "commit", "id": 4_000_000_000}),
    "records without columns": encode({"op": "records", "id": 0, "first": 0, "n": 1 << 40}),
    "keys that are no keys": encode({"op": "keys", "id": 0, "outside": "perhaps"}),
}


@ours
@pytest.mark.fault("X16", "C5")
@pytest.mark.parametrize("lie", LIES)
def test_user_code_speaks_to_the_scheduler_in_the_name_of_its_graph_process(
        rask_cluster, rask_client, neighbour, lie, tmp_path):
    signature = tmp_path / "liar"
    liar = WhenOpened(sign_and_write, str(signature), LINK, LIES[lie])
    future = rask_client.submit(inc, liar, key=f"lies-{lie}")
    with pytest.raises(RuntimeError, match="process that read this graph"):
        future.result(timeout=120)
    # Which process opens a graph is the scheduler's choice, so the liar names itself.
    until(lambda: int(signature.read_text()) not in rask_cluster.graph_processes(), "the liar's end")
    assert rask_client.submit(inc, 41, pure=False).result(timeout=120) == 42


# ---- large and deep ------------------------------------------------------------------------------


@ours
@pytest.mark.timeout(300)
@pytest.mark.fault("C4")
def test_an_error_runs_down_a_chain_of_a_hundred_thousand(rask_client, neighbour):
    depth = 100_000
    graph = {"deep-0": Task("deep-0", throws, "at the root")}
    for i in range(1, depth):
        graph[f"deep-{i}"] = Task(f"deep-{i}", inc, TaskRef(f"deep-{i - 1}"))
    (future,) = rask_client.get(graph, [f"deep-{depth - 1}"], sync=False, optimize_graph=False)
    with pytest.raises(RuntimeError, match="at the root"):
        future.result(timeout=240)
    assert rask_client.submit(inc, 1, pure=False).result(timeout=120) == 2


@pytest.mark.fault("C4")
def test_an_error_with_ten_thousand_dependents_and_their_cancellation(same):
    """More than one step of the scheduler does at once, and more than one slice of keys."""

    def prog(client):
        root = client.submit(throws, "at the root", key="ten-thousand-root")
        futures = client.map(add, [root] * 10_000, range(10_000))
        wait(futures, timeout=120)
        statuses = {future.status for future in futures}
        texts = {repr(future.exception()) for future in futures[::1000]}
        client.cancel(futures)
        until(lambda: all(future.cancelled() for future in futures), "the cancellation")
        return statuses, texts, client.submit(inc, 1, pure=False).result(timeout=60)

    assert same(prog) == ({"error"}, {"RuntimeError('at the root')"}, 2)


def most_memory(process) -> int:
    """Bytes the process had at most, so far."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1))


@ours
@pytest.mark.fault("C4", "C5")
def test_one_error_for_many_keys_is_not_copied_for_each(fresh):
    cluster = fresh(n_workers=0)
    with cluster.connected() as client:
        wait(client.submit(inc, WhenOpened(throws, "a first one")))
        before = most_memory(cluster.scheduler)
        futures = client.map(keywords, range(20_000), pure=False, y=WhenOpened(throws, "x" * 5000))
        wait(futures, timeout=120)
        assert {future.status for future in futures} == {"error"}
        assert "x" * 5000 in repr(futures[-1].exception().__cause__)
    # 20 000 copies would be 100 MB.
    assert most_memory(cluster.scheduler) - before < 50e6


@pytest.mark.fault("C4")
def test_a_task_of_ten_megabytes(same):
    def prog(client):
        text = bytes(range(256)) * 40_000
        futures = [client.submit(lambda blob, i: (i, len(blob), blob[i]), text, i)
                   for i in range(3)]
        return client.gather(futures), client.submit(len, text).result()

    assert same(prog)[1] == 10_240_000


# ---- graphs that overlap -------------------------------------------------------------------------


@pytest.mark.fault("C6", "W2")
def test_two_clients_need_a_key_that_is_released_while_its_worker_dies(same):
    def prog(client, cluster):
        shared = client.submit(inc, 1, key="overlap-shared")
        shared.result()
        ((holder,),) = client.who_has([shared]).values()

        def graph(name):
            tasks = {"overlap-shared": Task("overlap-shared", inc, 1)}
            for i in range(2000):
                tasks[f"overlap-{i}"] = Task(f"overlap-{i}", add, TaskRef("overlap-shared"), i)
            tasks[name] = Task(name, total, List(*(TaskRef(f"overlap-{i}") for i in range(2000))))
            return tasks

        with cluster.client() as other:
            (mine,) = client.get(graph("mine"), ["mine"], sync=False, optimize_graph=False)
            (theirs,) = other.get(graph("theirs"), ["theirs"], sync=False, optimize_graph=False)
            shared.release()
            cluster.worker_process(holder).kill()
            return mine.result(timeout=120), theirs.result(timeout=120)

    assert same(prog) == (2 * 2000 + sum(range(2000)),) * 2
