"""What user code may do inside a task: leave its thread, fork, await, ask its worker, die."""

from __future__ import annotations

import asyncio
import ctypes
import math
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from types import FunctionType

import cloudpickle
import dask
import distributed
import pytest
from conftest import SCHEDULER, WORKER
from distributed import Reschedule, get_client, get_worker, rejoin, secede, worker_client
from programs import Gate, add, double, inc, until, workers_of

from rask.worker.functions import load_function


def test_tasks_run_on_after_tasks_that_left_and_came_back(same):
    def restless(x):
        for _ in range(3):
            secede()
            rejoin()
        return x + 1

    def gone(x):
        secede()
        return x + 1

    def prog(client):
        some = client.map(restless, range(6), pure=False)
        others = client.map(gone, range(6), pure=False)
        return client.gather(some), client.gather(others), client.gather(client.map(inc, range(50)))

    assert same(prog)[0] == [1, 2, 3, 4, 5, 6]


@pytest.mark.op("long-running")
@pytest.mark.api("secede")
def test_a_seceded_task_frees_its_thread(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)

            def wait():
                secede()
                return gate(1)

            waiting = [client.submit(wait, pure=False) for _ in range(4)]
            gate.wait_started(4)
            done = client.gather(client.map(inc, range(20)))
            gate.open()
            return client.gather(waiting), done

    assert same(prog)[0] == [1, 1, 1, 1]


def test_clients_inside_tasks_see_the_same_cluster(same):
    def nested(n):
        with worker_client() as client:
            return sum(client.gather(client.map(inc, range(n))))

    def open_client(n):
        client = get_client()
        secede()
        data = client.scatter(n)
        return client.submit(inc, data).result()

    def prog(client):
        return client.submit(nested, 20).result(), client.gather(client.map(open_client, range(4)))

    assert same(prog) == (210, [1, 2, 3, 4])


async def slow_double(x):
    await asyncio.sleep(0.01)
    return 2 * x


async def who_am_i():
    return get_worker().address.startswith("tcp://")


async def breaks():
    await asyncio.sleep(0)
    raise KeyError("inside")


@pytest.mark.smoke
def test_coroutines_are_tasks(same):
    def prog(client):
        doubled = client.map(slow_double, range(10))
        on_it = client.submit(sum, doubled)
        try:
            client.submit(breaks).result()
        except KeyError as error:
            found = error
        return client.gather(doubled), on_it.result(), client.submit(who_am_i).result(), found

    assert same(prog)[:3] == ([2 * i for i in range(10)], 90, True)


@pytest.mark.api("get_worker")
def test_a_task_may_ask_its_worker(same):
    def ask(x):
        worker = get_worker()
        return (
            isinstance(worker, distributed.Worker),
            worker.get_current_task(),
            worker.state.nthreads,
            worker.scheduler.address.startswith("tcp://"),
            worker.address in str(worker),
            sorted(worker.data),
            worker.data["ask-input"],
            worker.name == worker.name,
            os.path.isdir(worker.local_directory),
            worker.status.name,
            worker.state.tasks["ask"].state,
        )

    def prog(client):
        x = client.submit(inc, 1, key="ask-input")
        return client.submit(ask, x, key="ask").result()

    assert same(prog)[1] == "ask"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_task_may_start_processes(same, method):
    def work(method):
        pool = multiprocessing.get_context(method).Pool(2)
        found = pool.map(double, range(4))
        pool.close()
        pool.join()
        return found

    def prog(client):
        # Workers are no daemons, so this is allowed; afterwards they must work as before.
        found = client.submit(work, method, pure=False).result(timeout=120)
        return found, client.gather(client.map(inc, range(10)))

    assert same(prog) == ([0, 2, 4, 6], list(range(1, 11)))


@pytest.mark.skipif(WORKER != "rask", reason="forked children of stock workers survive SIGTERM")
def test_a_task_may_end_the_processes_it_forked(rask_client):
    def work():
        with multiprocessing.get_context("fork").Pool(2) as pool:  # ends with SIGTERM
            return pool.map(double, range(4))

    for _ in range(3):
        assert rask_client.submit(work, pure=False).result(timeout=120) == [0, 2, 4, 6]


@pytest.mark.skipif(WORKER != "rask", reason="children of stock workers keep the sockets")
def test_a_forked_child_that_lives_on_does_not_keep_connections(rask_cluster, rask_client):
    def fork():
        if pid := os.fork():
            return pid
        time.sleep(60)
        os._exit(0)

    worker = sorted(workers_of(rask_client))[0]
    child = rask_client.submit(fork, workers=[worker], pure=False).result()
    rask_cluster.worker_process(worker).kill()
    until(lambda: worker not in workers_of(rask_client), "the loss")
    os.kill(child, 9)
    rask_cluster.repair()
    assert rask_client.gather(rask_client.map(inc, range(4))) == [1, 2, 3, 4]


@pytest.mark.smoke
@pytest.mark.api("print", "warn")
@pytest.mark.op("log-event", "subscribe-topic")
def test_prints_and_warnings_reach_the_client(same, capsys):
    def speak():
        distributed.print("hello from", "a task", sep="; ")
        distributed.warn("careful", UserWarning)
        return 1

    def prog(client):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client.submit(speak, pure=False).result()
            said = []
            until(lambda: said.append(capsys.readouterr().out) or "hello" in "".join(said), "text")
            until(lambda: any("careful" in str(w.message) for w in caught), "the warning")
        return "".join(said)

    assert "hello from; a task" in same(prog)


@pytest.mark.op("reschedule")
@pytest.mark.api("Reschedule")
def test_a_task_may_ask_to_be_rescheduled(same):
    def once(path):
        try:
            open(path, "x").close()
        except FileExistsError:
            return "second"
        raise Reschedule()

    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            return client.submit(once, directory + "/seen").result(timeout=120)

    assert same(prog) == "second"


def kill_self(number):
    os.kill(os.getpid(), number)


@pytest.mark.fault("W15")
@pytest.mark.parametrize("deadly, argument", [(ctypes.string_at, 0), (os._exit, 0), (kill_self, 9)],
                         ids=["segfault", "exit", "kill"])
def test_a_task_that_ends_its_process_kills_no_more_than_it_may(same, deadly, argument):
    def prog(client, cluster):
        future = client.submit(deadly, argument, key="deadly")
        while future.status == "pending":
            cluster.repair()
            until(lambda: future.status != "pending"
                  or any(not w.alive() for w in cluster.workers.values()), "the next death")
        error = future.exception()
        cluster.repair()
        return type(error).__name__, client.submit(inc, 1, pure=False).result()

    assert same(prog) == ("KilledWorker", 2)


def test_results_of_every_kind_are_what_they_were(same):
    import numpy as np
    import pandas as pd

    makers = [
        lambda: None, lambda: [], lambda: {}, lambda: (1, (2, [3])), lambda: {"a": {1, 2}},
        lambda: "ä" * 100_000, lambda: b"x" * 100_000, lambda: bytearray(b"abc"),
        lambda: np.arange(10)[::2], lambda: np.asfortranarray(np.ones((3, 4))),
        lambda: np.array(["a", None], dtype=object), lambda: np.zeros((0, 3)),
        lambda: pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), lambda: 2**100, lambda: 1 + 2j,
        lambda: frozenset({1}), lambda: range(5), lambda: np.float64(1.5), lambda: type,
        lambda: [np.ones(3), "x"], lambda: slice(1, 2), lambda: Ellipsis,
    ]

    def touch(value):
        return value

    def prog(client):
        futures = [client.submit(make, pure=False) for make in makers]
        here, there = sorted(workers_of(client))
        moved = [client.submit(touch, f, workers=[w], pure=False)
                 for f in futures for w in (here, there)]
        return client.gather(futures), client.gather(moved)

    same(prog)


def test_received_arrays_are_as_writable_as_on_stock(same):
    import numpy as np

    def writable(array):
        return array.flags.writeable, array.flags.owndata, array.sum()

    def prog(client):
        here, there = sorted(workers_of(client))
        array = client.submit(np.ones, 1000, workers=[here], pure=False)
        return client.submit(writable, array, workers=[there]).result()[::2]

    assert same(prog) == (True, 1000.0)


def test_named_executors_run_tasks_and_wrong_names_err(same):
    def thread():
        import threading

        return threading.current_thread().name.split("-")[0]

    def prog(client):
        with dask.annotate(executor="offload"):
            offloaded = client.submit(thread, pure=False)
            on = client.submit(add, client.submit(inc, 1), 2)
        with dask.annotate(executor="nowhere"):
            lost = client.submit(inc, 1, key="nowhere")
        return offloaded.result(), on.result(), str(lost.exception()).split(";")[0]

    assert same(prog)[1] == 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_tasks_leave_memory_flat(rask_cluster, rask_client):
    def resident():
        """Bytes in memory, without what the allocator keeps for later."""
        import gc

        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    # RASK_LEAK_TASKS=100000 makes a long run of it; a stock scheduler takes its time.
    count = int(os.environ.get("RASK_LEAK_TASKS", 20_000 if SCHEDULER == "rask" else 4000)) // 4

    def burst():
        futures = rask_client.map(inc, range(count), pure=False)
        assert sum(rask_client.gather(futures)) == sum(range(1, count + 1))

    burst()
    before = max(rask_client.run(resident).values())
    for _ in range(4):
        burst()
    # The scheduler lets go of a value before its workers hear of it.
    until(lambda: max(rask_client.run(resident).values()) - before < 20_000_000,
          f"less than {before / 1e6:.0f} + 20 MB resident")


# ---- what functions keep ------------------------------------------------------------------------


def counters():
    """Functions that count their calls, each in another place."""
    calls, count = [], 0

    def in_a_list(x):
        calls.append(x)
        return len(calls)

    def in_a_cell(x):
        nonlocal count
        count += 1
        return count

    def in_a_default(x, calls=[]):  # noqa: B006 - on purpose
        calls.append(x)
        return len(calls)

    def in_itself(x):
        in_itself.calls = getattr(in_itself, "calls", 0) + 1
        return in_itself.calls

    def in_another(x):
        return in_a_list(x) + in_a_default(x)

    return in_a_list, in_a_cell, in_a_default, in_itself, in_another


def test_what_a_function_by_value_keeps_is_its_own_tasks(same):
    def prog(client):
        functions = [cloudpickle.loads(cloudpickle.dumps(f)) for f in local(counters)()]
        return [client.gather(client.map(f, range(6), pure=False)) for f in functions]

    assert same(prog) == [[1] * 6] * 4 + [[2] * 6]


def local(function):
    """The same function, as one of a module that workers do not have."""
    return FunctionType(function.__code__, {"__name__": "only_here", "__builtins__": __builtins__})


@pytest.mark.parametrize("name, once", [
    ("lambda x: x + 1", True), ("lambda x: (lambda: x)() + offset", True), ("lambda x: math.sqrt(x)", True),
    ("lambda x: double(x)", True), ("lambda x: calls.append(x)", False), ("lambda x, add=[].append: add(x)", False)])
def test_functions_that_can_keep_nothing_are_unpickled_once(name, once):
    names = {"__name__": "only_here", "math": math, "offset": 3, "double": double, "calls": []}
    data = cloudpickle.dumps(eval(name, names))
    assert (load_function(data) is load_function(data)) is once
