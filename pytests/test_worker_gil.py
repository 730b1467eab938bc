"""A rask worker while a task holds the GIL: it must live on as if nothing happened (W11).

The tasks hold it until they are told to stop, so that a slow machine shows the same as a fast one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from conftest import WORKER
from distributed import wait
from distributed.core import rpc
from distributed.worker import get_data_from_worker
from programs import inc, until, workers_of

pytestmark = pytest.mark.skipif(WORKER != "rask", reason="a stock worker stands still")


def hold_gil(fifo: str, started: str) -> int:
    """Reads a byte in C without giving up the GIL; stock's event loop would stand still."""
    with open(fifo, "rb", buffering=0) as file:
        Path(started).touch()
        return ctypes.PyDLL(None).read(file.fileno(), ctypes.create_string_buffer(1), 1)


def spin(flag: str, started: str) -> int:
    """Runs Python until the file's first byte is set, and asks to be left alone while it does."""
    count = 0
    with open(flag, "rb") as file, mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ) as byte:
        Path(started).touch()
        sys.setswitchinterval(1000)
        while byte[0] == 0:
            count += 1
        sys.setswitchinterval(0.005)
    return count


@contextmanager
def held_open(fifo: Path) -> Iterator[int]:
    """A named pipe with a writer; who reads from it is let go at the latest when this ends."""
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)
    try:
        yield writer
    finally:
        os.close(writer)


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
        with held_open(tmp_path / "fifo") as writer:
            hold = client.submit(hold_gil, str(tmp_path / "fifo"), str(started), **here)
            until(started.exists, "the task to start")
            first_seen = seen(client, busy)
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
            until(lambda: seen(client, busy) > first_seen + 30, "30 s of heartbeats")
            # Work elsewhere goes on, with data fetched from the worker that stands still.
            assert client.submit(np.sum, packed[3], workers=[other]).result(timeout=120) == 499999500000
            assert hold.status == "pending"
            os.write(writer, b"x")
            assert hold.result(timeout=120) == 1


@pytest.mark.fault("W11", "W12")
def test_values_come_go_to_disk_and_are_read_while_a_task_holds_the_gil(fresh, tmp_path):
    """A worker retires onto one whose Python stands still and which has no room for its data."""
    names = {"TARGET": "0.1", "SPILL": "False", "PAUSE": "False"}
    cluster = fresh(
        n_workers=2, worker_options=("--memory-limit", "500MB"),
        env={f"DASK_DISTRIBUTED__WORKER__MEMORY__{name}": value for name, value in names.items()})
    fifo, started = tmp_path / "fifo", tmp_path / "started"
    with cluster.connected() as client, held_open(fifo) as writer:
        busy, leaving = sorted(workers_of(client))
        directory = Path(workers_of(client)[busy]["local_directory"])
        arrays = client.map(np.full, [2_500_000] * 6, range(6), workers=[leaving],
                            allow_other_workers=True, pure=False)  # 20 MB each
        wait(arrays)
        hold = client.submit(hold_gil, str(fifo), str(started), workers=[busy], pure=False)
        until(started.exists, "the task to start")
        client.retire_workers([leaving])
        until(lambda: len(list(directory.glob("spilled-*"))) >= 3, "values on disk")
        for i, array in enumerate(client.gather(arrays)):
            assert array.shape == (2_500_000,) and (array == i).all()
        assert hold.status == "pending", "all of this was done without the GIL"
        os.write(writer, b"x")
        assert hold.result(timeout=120) == 1
        assert client.submit(np.sum, arrays[5]).result(timeout=120) == 5 * 2_500_000


@pytest.mark.fault("W11")
def test_values_are_served_while_threads_spin_in_python(fresh, tmp_path):
    flag, started = tmp_path / "flag", tmp_path / "started"
    flag.write_bytes(b"\0")
    cluster = fresh(n_workers=1, nthreads=2)
    with cluster.connected() as client:
        value = client.submit(inc, 41)
        value.result()
        spins = [client.submit(spin, str(flag), str(started), pure=False) for _ in range(2)]
        try:
            until(started.exists, "the first to run")
            for _ in range(50):
                assert client.gather(value) == 42
            assert not any(future.done() for future in spins)
        finally:
            with open(flag, "r+b") as file:  # which is mapped: it must not get shorter
                file.write(b"\1")
        assert sum(client.gather(spins)) > 0
