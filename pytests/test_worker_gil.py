"""A rask worker while a task holds the GIL in C: it must live on as if nothing happened (W11)."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import WORKER
from distributed.core import rpc
from distributed.worker import get_data_from_worker
from programs import inc, until, workers_of

HOLD = 30
pytestmark = pytest.mark.skipif(WORKER != "rask", reason="a stock worker stands still")


def hold_gil(seconds: float, started: str) -> float:
    """Sleeps in C without giving up the GIL; stock's event loop would stand still."""
    Path(started).touch()
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return seconds


def seen(client, address):
    return workers_of(client)[address]["last_seen"]


@pytest.mark.fault("W11")
def test_heartbeats_data_and_questions_pass_while_a_task_holds_the_gil(fresh, tmp_path):
    # Else the copy of `fetched` would be taken away as one too many.
    cluster = fresh(n_workers=2, env={
        "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False"})
    with cluster.connected() as client:
        busy, other = sorted(workers_of(client))
        here = {"workers": [busy], "pure": False}
        packed = [
            client.submit(inc, 1, **here),
            client.submit(dict, a=1, b=[2, 3], **here),
            client.submit(bytes, 3_000_000, **here),
            client.submit(np.arange, 1_000_000, **here),
        ]
        fetched = client.submit(np.ones, 100_000, workers=[other], pure=False)
        total = client.submit(np.sum, fetched, **here)  # now `busy` has a copy of it
        client.gather([*packed, total])
        until(lambda: busy in client.who_has([fetched])[fetched.key], "the copy to be known")

        started = tmp_path / "started"
        hold = client.submit(hold_gil, HOLD, str(started), **here)
        until(started.exists, "the task to start")
        begun, first_seen = time.monotonic(), seen(client, busy)
        one, mapping, raw, array = client.gather(packed)
        assert (one, mapping, raw) == (2, {"a": 1, "b": [2, 3]}, bytes(3_000_000))
        assert array.sum() == 499999500000

        async def ask():
            got = await get_data_from_worker(client.rpc, [fetched.key], busy)
            async with rpc(busy) as worker:
                return await worker.ping(), await worker.identity(), await worker.keys(), got

        pong, identity, keys, got = client.sync(ask)
        assert pong == b"pong" and identity["type"] == "Worker"
        assert fetched.key in keys and list(got["data"]) == [fetched.key]
        until(lambda: seen(client, busy) > first_seen + 1, "heartbeats", timeout=HOLD)
        assert time.monotonic() - begun < HOLD and hold.status == "pending"
        # Work elsewhere goes on, with data fetched from the worker that stands still.
        assert client.submit(np.sum, packed[3], workers=[other]).result() == 499999500000
        assert hold.status == "pending", "the machine was too slow to show anything"
        assert hold.result(timeout=60) == HOLD


@pytest.mark.fault("W11")
def test_values_are_served_while_threads_spin_in_python(fresh):
    def spin(seconds):
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            count += 1
        return count

    cluster = fresh(n_workers=1, nthreads=2)
    with cluster.connected() as client:
        value = client.submit(inc, 41)
        value.result()
        spins = client.map(spin, [6, 6.1])
        until(lambda: sum(map(len, client.processing().values())) == 2, "both to run")
        waits = []
        while not any(future.done() for future in spins):
            start = time.monotonic()
            assert client.gather(value) == 42
            waits.append(time.monotonic() - start)
        assert len(waits) > 20
        assert sorted(waits)[len(waits) // 2] < 0.25, sorted(waits)[-5:]
