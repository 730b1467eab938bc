"""Short tasks by the hundred: what a worker is handed ahead of its turn shows nowhere.

On rask/rask these programs run in batches and chains; every key must end as it does on stock.
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import dask
import numpy as np
import pytest
from conftest import PAIRING
from programs import Gate, add, arrived, inc, until, workers_of

import rask
from rask.spliter.placement import SCHEMES


def warm(client, function=inc):
    """Runs the function often enough that the scheduler knows how short it is."""
    client.gather(client.map(function, range(1000, 1100)))


def block(client, gate, workers=None):
    """One task per thread that holds it until the gate opens."""
    known = workers_of(client)
    count = sum(known[name]["nthreads"] for name in (workers or known))
    held = client.map(gate, range(count), pure=False, workers=workers, priority=100)
    gate.wait_started(count)
    return held


def settle(futures):
    until(lambda: all(future.done() for future in futures), "the futures")


def outcomes(futures):
    settle(futures)
    return [(f.status, repr(f.exception()) if f.status == "error" else None) for f in futures]


def picky(x):
    if x % 97 == 5:
        raise ValueError(f"not {x}")
    return x


def test_errors_in_the_middle_of_a_batch(same):
    def prog(client):
        warm(client, picky_warm)
        return outcomes(client.map(picky, range(500)))

    found = same(prog)
    assert found[5] == ("error", "ValueError('not 5')") and found[6] == ("finished", None)
    assert sum(status == "error" for status, _ in found) == 6


def picky_warm(x):
    return picky(0)


@pytest.mark.api("Client.cancel")
def test_cancelling_half_of_a_map(same):
    def prog(client):
        warm(client)
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            blocked = block(client, gate)
            futures = client.map(inc, range(300))
            client.cancel(futures[::2])
            gate.open()
            settle(blocked)
            values = client.gather(futures[1::2])
            return [future.status for future in futures[:10]], values

    states, values = same(prog)
    assert states[0] == "cancelled" and values == list(range(2, 302, 2))


def flaky(directory, x):
    mark = Path(directory) / str(x)
    if x % 10 == 3 and not mark.exists():
        mark.touch()
        raise RuntimeError("the first time")
    return x


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_of_single_tasks(same, retries):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            futures = client.map(flaky, [directory] * 200, range(200), retries=retries)
            return [status for status, _ in outcomes(futures)]

    assert same(prog).count("error") == (0 if retries else 20)


def note(directory, name):
    with open(Path(directory) / f"order-{os.getpid()}", "a") as file:
        file.write(f"{name}\n")


def overtaken(order):
    """How many of the low ones one worker ran before its last urgent one."""
    urgent = [place for place, name in enumerate(order) if name.startswith("high")]
    return sum(name.startswith("low") for name in order[: urgent[-1]]) if urgent else 0


def test_urgent_tasks_overtake_a_batch(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            client.gather(client.map(note, [directory] * 50, [f"warm-{i}" for i in range(50)]))
            gate = Gate(directory)
            blocked = block(client, gate)
            many = client.map(note, [directory] * 200, [f"low-{i}" for i in range(200)])
            urgent = client.map(note, [directory] * 8, [f"high-{i}" for i in range(8)], priority=50)
            arrived(client, [*many, *urgent])
            gate.open()
            client.gather([many, urgent])
            settle(blocked)
            orders = [path.read_text().split() for path in Path(directory).glob("order-*")]
            # One worker may be far ahead of the other, but each runs before its urgent tasks only
            # what it was handed before they came: a batch (a quarter of the queue) and its slots.
            return sorted(sum(orders, []))[:3], max(map(overtaken, orders)) <= 64

    assert same(prog)[1]


@pytest.mark.api("Client.processing")
def test_what_is_handed_ahead_is_not_processing(same):
    def prog(client):
        warm(client)
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            blocked = block(client, gate)
            futures = client.map(inc, range(2000, 2200))
            arrived(client, futures)
            counts = sorted(len(keys) for keys in client.processing().values())
            told = client.sync(client.scheduler.get_task_prefix_states)["inc"]["processing"]
            gate.open()
            client.gather(futures)
            settle(blocked)
            return counts, told

    counts, told = same(prog)
    assert counts == [2, 2] and told == 2  # one slot of each worker holds a blocking task


@pytest.mark.fault("W1")
def test_a_worker_killed_with_a_batch(same):
    def prog(client, cluster):
        warm(client)
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            blocked = block(client, gate)
            futures = client.map(inc, range(300))
            os.kill(gate.started()[0], signal.SIGKILL)
            gate.open()
            return client.gather(futures) == list(range(1, 301)), client.gather(blocked)

    assert same(prog)[0]


def step(x):
    if x == 150:
        raise ArithmeticError("half way")
    return x + 1


def test_a_chain_of_short_tasks(same):
    def prog(client):
        with dask.config.set({"optimization.fuse.active": False}):
            value = dask.delayed(inc)(0)
            for _ in range(300):
                value = dask.delayed(inc)(value)
            return client.compute(value).result()

    assert same(prog) == 301


def test_a_chain_that_breaks_in_the_middle(same):
    def prog(client):
        futures = [client.submit(step, 0, pure=False)]
        for _ in range(200):
            futures.append(client.submit(step, futures[-1], pure=False))
        return outcomes(futures)[148:153]

    found = same(prog)
    assert found[0] == ("finished", None) and found[4][0] == "error"


def test_chains_that_meet(same):
    def prog(client):
        rows = [client.submit(inc, i, pure=False) for i in range(16)]
        for _ in range(10):
            rows = [client.submit(inc, row) for row in rows]
        while len(rows) > 1:
            rows = [client.submit(add, *pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
        return rows[0].result()

    assert same(prog) == sum(range(16)) + 16 * 11


def test_shared_closures_and_single_arguments(same):
    def prog(client):
        table = bytes(range(256)) * 400
        looked_up = client.map(lambda i: table[i], range(300))
        arrays = client.map(np.sum, [np.full(20_000, i) for i in range(20)])
        again = client.map(lambda i: table[-i - 1], range(300))
        return client.gather(looked_up), client.gather(arrays), client.gather(again)

    looked_up, arrays, again = same(prog)
    assert looked_up[255] == 255 and arrays[3] == 60_000 and again[0] == 255


def test_releasing_a_map_that_was_handed_ahead(same):
    def prog(client):
        warm(client)
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            blocked = block(client, gate)
            futures = client.map(inc, range(300))
            for future in futures:
                future.release()
            del futures
            gate.open()
            settle(blocked)
        return client.gather(client.map(inc, range(100)))

    assert same(prog) == list(range(1, 101))


def known_to(client) -> int:
    """The most tasks that a worker knows of."""
    return max(client.run(lambda dask_worker: len(dask_worker.state.tasks)).values())


@pytest.mark.skipif(PAIRING != "rask-rask", reason="batches are between rask and rask")
def test_batches_can_be_switched_while_tasks_wait(rask_client, tmp_path):
    # By default it is 2 ms of work, and a busy machine makes even the shortest task look longer.
    rask.configure(rask_client, {"worker.prefetch": "10 s"})
    warm(rask_client)
    gate = Gate(tmp_path)
    blocked = block(rask_client, gate)
    futures = rask_client.map(inc, range(500))
    arrived(rask_client, futures)
    try:
        # What was there when the first slice of the graph came in may have been little, and workers that are
        # blocked do not ask for more.
        for automatic in ("off", None):
            rask.configure(rask_client, {"spliter.auto": automatic})
        until(lambda: known_to(rask_client) > 10, "tasks ahead")
        rask.configure(rask_client, {"spliter.auto": "off"})
        until(lambda: known_to(rask_client) <= 3, "tasks to be taken back")
        rask.configure(rask_client, {"spliter.auto": "reduce", "worker.prefetch": 0})
        assert known_to(rask_client) <= 3  # allowed again, but no time ahead to fill
        rask.configure(rask_client, {"spliter.auto": None, "worker.prefetch": "10 s"})
        until(lambda: known_to(rask_client) > 10, "tasks ahead again")
    finally:
        rask.configure(rask_client, {"spliter.auto": None, "worker.prefetch": None})
        gate.open()
    assert rask_client.gather(futures) == list(range(1, 501))
    assert len(rask_client.gather(blocked)) == len(blocked)


@pytest.mark.skipif(PAIRING != "rask-rask", reason="batches are between rask and rask")
def test_batches_of_the_size_that_the_scheme_says(rask_client, tmp_path):
    """Equal shares of 40 tasks to two workers, half of each share, single tasks: so many a worker gets to know."""
    known = {"STATIC": range(20, 40), "FAC2": range(10, 20), "SS": range(1, 5)}
    warm(rask_client)
    rask.configure(rask_client, {"worker.prefetch": "10 s"})
    try:
        for scheme in SCHEMES:
            rask.configure(rask_client, {"spliter.batches": scheme})
            until(lambda: known_to(rask_client) == 0, "the tasks before to be forgotten")
            gate = Gate(tmp_path, scheme)
            blocked = block(rask_client, gate)
            futures = rask_client.map(inc, range(40), pure=False)
            arrived(rask_client, futures)
            until(lambda: known_to(rask_client) in known.get(scheme, range(1, 41)), f"a batch by {scheme}")
            gate.open()
            assert rask_client.gather(futures) == list(range(1, 41))
            settle(blocked)
            del futures, blocked
    finally:
        rask.configure(rask_client, {"spliter.batches": None, "worker.prefetch": None})


def test_settings_that_are_none(same):
    def prog(client):
        found = []
        for name, value in (("spliter.auto", "always"), ("spliter.auto", True),
                            ("spliter.batches", "fac2"), ("spliter.batches", True),
                            ("worker.prefetch", "soon"), ("worker.prefetch", -1)):
            with pytest.raises(ValueError, match="expected") as caught:
                rask.configure(client, {name: value})
            found.append(str(caught.value).split(", expected")[0])
        rask.configure(client, {"spliter.auto": "off"})  # a stock scheduler keeps it, no more
        value = client.submit(inc, 1).result()
        rask.configure(client, {"spliter.auto": None})
        return found, value

    found, value = same(prog)
    assert value == 2 and found[0] == "rask.configure: spliter.auto is 'always'"
