"""Values on their way between workers, and workers killed under them (W4, W5)."""

from __future__ import annotations

import os
import random
import time

import numpy as np
import pytest
from conftest import SCHEDULER, WORKER
from distributed.comm import connect
from programs import inc, until, workers_of

BIG = 12_000_000  # 96 MB
rask_workers = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


def big(i: int) -> np.ndarray:
    return np.full(BIG, i, dtype=np.int64)


def addresses(client) -> list[str]:
    return sorted(workers_of(client))


def metrics(client, address) -> dict:
    return workers_of(client)[address]["metrics"]


@pytest.mark.fault("W4")
def test_a_source_killed_in_a_transfer_is_replaced(same):
    def prog(client, cluster):
        chance = random.Random(4)
        found = []
        for i in range(3):
            source, target = addresses(client)
            value = client.submit(big, i, workers=[source], allow_other_workers=True, pure=False)
            client.gather(client.submit(len, value))
            total = client.submit(np.sum, value, workers=[target], allow_other_workers=True)
            time.sleep(chance.random() * 0.1)
            cluster.worker_process(source).kill()
            found.append(int(total.result(timeout=120)))
            cluster.repair()
        return found

    assert same(prog) == [0, BIG, 2 * BIG]


@pytest.mark.fault("W5")
def test_receivers_that_vanish_leave_no_slot_taken(rask_cluster, rask_client):
    client = rask_client
    source, target = addresses(client)
    value = client.submit(big, 7, workers=[source], pure=False)
    client.gather(client.submit(len, value, workers=[source]))

    async def ask_and_vanish(count):
        for _ in range(count):
            comm = await connect(source)
            await comm.write({"op": "get_data", "keys": [value.key], "who": target, "reply": True})
            comm.abort()

    client.sync(ask_and_vanish, 25)  # more than the slots for peers
    total = client.submit(np.sum, value, workers=[target])
    assert total.result(timeout=120) == 7 * BIG
    until(lambda: metrics(client, source)["transfer"]["outgoing_count"] == 0, "free slots")
    assert metrics(client, source)["transfer"]["outgoing_bytes"] == 0


@pytest.mark.fault("W5")
def test_a_receiver_killed_in_a_transfer_is_replaced(same):
    def prog(client, cluster):
        chance = random.Random(5)
        source, target = addresses(client)
        value = client.submit(big, 3, workers=[source], pure=False)
        client.gather(client.submit(len, value, workers=[source]))
        total = client.submit(np.sum, value, workers=[target], allow_other_workers=True)
        time.sleep(chance.random() * 0.1)
        cluster.worker_process(target).kill()
        found = int(total.result(timeout=120))
        cluster.repair()
        return found, client.submit(inc, 1).result()

    assert same(prog) == (3 * BIG, 2)


@rask_workers
def test_large_objects_are_shared_not_copied(rask_cluster, rask_client):
    """Thirty-two tasks use one received array: it is in memory once."""
    client = rask_client
    source, target = addresses(client)

    def base(array):
        while isinstance(array.base, np.ndarray):
            array = array.base
        return type(array.base).__name__, array.flags.owndata, array.ctypes.data

    value = client.submit(big, 1, workers=[source], pure=False)
    bases = client.gather([client.submit(base, value, workers=[target], pure=False)
                           for _ in range(8)])
    assert len(set(bases)) == 1
    assert bases[0][1] is False, "the array lies where it was received"


def test_many_small_values_from_many_workers(same):
    def prog(client):
        one, two = addresses(client)
        left = client.map(inc, range(200), workers=[one], pure=False)
        right = client.map(inc, range(200), workers=[two], pure=False)
        return client.submit(sum, left + right, workers=[one]).result()

    assert same(prog) == 2 * sum(range(1, 201))


@pytest.mark.skipif(SCHEDULER == "rask", reason="get_task_stream is not there yet")
def test_the_task_stream_tells_of_transfers(same):
    def prog(client):
        client.get_task_stream()  # it is recorded from now on
        one, two = addresses(client)
        value = client.submit(big, 1, workers=[one], pure=False)
        client.gather(client.submit(len, value, workers=[one]))
        total = client.submit(np.sum, value, workers=[two], pure=False)
        total.result()
        (found,) = until(lambda: [m for m in client.get_task_stream() if m["key"] == total.key],
                         "the stream")
        actions = [s["action"] for s in found["startstops"]]
        first = found["startstops"][0]
        return actions, first["stop"] >= first["start"] > 1e9, "source" in first

    assert same(prog)[0] == ["transfer", "compute"]


@rask_workers
def test_bandwidth_is_measured(rask_cluster, rask_client):
    client = rask_client
    source, target = addresses(client)
    value = client.submit(big, 1, workers=[source], pure=False)
    client.submit(np.sum, value, workers=[target], pure=False).result()
    until(lambda: metrics(client, target)["bandwidth"]["total"] != 100e6, "a measured bandwidth")


def resident() -> int:
    """Bytes in memory, without what the allocator keeps for later."""
    import ctypes
    import gc

    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@rask_workers
def test_transfers_leave_memory_flat(rask_cluster, rask_client):
    """RASK_TRANSFER_GB=10 makes a long run of it."""
    client = rask_client
    source, target = addresses(client)

    def move(i):
        value = client.submit(big, i, workers=[source], pure=False)
        total = client.submit(np.sum, value, workers=[target], pure=False)
        assert total.result(timeout=120) == i * BIG

    def most():
        return max(client.run(resident).values())

    for i in range(3):
        move(i)
    until(lambda: not client.who_has(), "everything to be released")
    before = most()
    for i in range(max(4, int(float(os.environ.get("RASK_TRANSFER_GB", 0)) * 1e9 / BIG / 8))):
        move(i)
    # The scheduler lets go of a value before its workers hear of it.
    until(lambda: most() - before < 60_000_000, f"less than {before / 1e6:.0f} + 60 MB resident")


LAYOUTS = {
    "C": lambda i: np.arange(12.0).reshape(3, 4) + i, "F": lambda i: np.asfortranarray(np.eye(3) * i),
    "scalar": lambda i: np.array(i), "empty": lambda i: np.empty((0, 3)),
    "read only": lambda i: np.broadcast_to(np.float32(i), (4, 2)),
    "of ones": lambda i: np.full((1, 1, 5), i, dtype="u2"), "big end first": lambda i: np.array([i], ">i4"),
    "bools": lambda i: np.array([i % 2 == 0] * 9), "records": lambda i: np.array([(i, 2.0)], "i4,f8"),
    "times": lambda i: np.array([i], "M8[s]"), "complex": lambda i: np.array([i + 1j]),
    "a part": lambda i: np.arange(40)[i::4], "a core": lambda i: np.full((4, 4, 4), i)[1:-1, 1:-1, 1:-1],
    "objects": lambda i: np.array([i, "x"], dtype=object),
}


def laid_out(name: str, i: int) -> np.ndarray:
    array = LAYOUTS[name](i)
    if name == "C" and i == 3:
        array.flags.writeable = False
    return array


def seen(array: np.ndarray) -> tuple:
    return (array.dtype.str, array.shape, array.strides, array.flags.writeable,
            array.flags.f_contiguous, repr(array.tolist()))


def test_arrays_of_every_kind_arrive_as_they_were_made(same):
    """Four of each: what a worker remembers of one kind of array must fit the next."""
    def prog(client):
        source, target = addresses(client)
        calls = [(name, i) for i in range(4) for name in LAYOUTS]
        made = [client.submit(laid_out, *call, workers=[source]) for call in calls]
        moved = [client.submit(seen, array, workers=[target]) for array in made]
        return list(map(seen, client.gather(made))), client.gather(moved)

    here, there = same(prog)
    assert [text for *_, text in here] == [text for *_, text in there] == [
        repr(LAYOUTS[name](i).tolist()) for i in range(4) for name in LAYOUTS]
