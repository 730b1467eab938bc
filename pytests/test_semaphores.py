"""Locks and semaphores: who holds what, who waits, and what happens to those who leave."""

from __future__ import annotations

import os
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from conftest import SCHEDULER
from distributed import Lock, Semaphore
from programs import until, workers_of

import rask.io


def alone(lock, folder: str, i: int) -> int:
    """How many tasks were inside with this one."""
    with lock:
        mine = Path(folder) / str(i)
        mine.touch()
        inside = len(os.listdir(folder))
        time.sleep(0.01)
        mine.unlink()
    return inside


@pytest.mark.api("Lock")
@pytest.mark.op("semaphore_register", "semaphore_acquire", "semaphore_release")
def test_one_task_at_a_time_is_inside_a_lock(same, tmp_path):
    def prog(client):
        futures = client.map(lambda i: alone(Lock("door"), str(tmp_path), i), range(20), pure=False)
        return client.gather(futures)

    assert same(prog) == [1] * 20


@pytest.mark.api("Semaphore")
@pytest.mark.op("semaphore_value")
def test_a_semaphore_gives_out_so_many_leases(same):
    def prog(client):
        semaphore = Semaphore(2, "two", loop=client.loop)
        got = [semaphore.acquire(timeout=60), semaphore.acquire(timeout=60), semaphore.acquire(timeout=0.1)]
        held = semaphore.get_value()
        given = semaphore.release()
        again = semaphore.acquire(timeout=60)
        semaphore.release()
        semaphore.release()
        left = semaphore.get_value()
        semaphore.close()
        return got, held, given, again, left

    assert same(prog) == ([True, True, False], 2, True, True, 0)


@pytest.mark.api("Semaphore")
@pytest.mark.op("semaphore_close")
def test_wrong_uses_are_the_errors_of_stock(same):
    def prog(client):
        said = []
        semaphore = Semaphore(2, "mine", loop=client.loop)
        semaphore.acquire(timeout=60)
        for wrong in (lambda: client.sync(client.scheduler.semaphore_register, name="mine", max_leases=3,
                                          lease_timeout=30),
                      lambda: client.sync(client.scheduler.semaphore_acquire, name="nobody's", timeout=1,
                                          lease_id="x")):
            try:
                wrong()
            except Exception as e:
                said.append((type(e).__name__, str(e)))
        semaphore.close()
        unknown = client.sync(client.scheduler.semaphore_release, name="mine", lease_id="x")
        return said, unknown, client.sync(client.scheduler.semaphore_value, name="mine")

    said, unknown, value = same(prog)
    assert [name for name, _ in said] == ["ValueError", "RuntimeError"]
    assert (unknown, value) == (None, 0)


@pytest.mark.op("semaphore_refresh_leases")
def test_a_lease_that_nobody_speaks_for_is_taken_back(fresh):
    cluster = fresh(env={"DASK_DISTRIBUTED__SCHEDULER__LOCKS__LEASE_VALIDATION_INTERVAL": "100ms"})
    with cluster.connected() as client:
        ask = client.scheduler
        for name, lasts in (("long", 3600), ("short", 0.5)):
            client.sync(ask.semaphore_register, name=name, max_leases=1, lease_timeout=lasts)
            assert client.sync(ask.semaphore_acquire, name=name, timeout=60, lease_id="first")
            client.sync(ask.semaphore_refresh_leases, name=name, lease_ids=["first"])
        assert not client.sync(ask.semaphore_acquire, name="long", timeout=0, lease_id="second")
        assert client.sync(ask.semaphore_acquire, name="short", timeout=120, lease_id="second")
        # Who holds a lease may ask for it again.
        assert client.sync(ask.semaphore_acquire, name="long", timeout=0, lease_id="first")
        assert client.sync(ask.semaphore_value, name="long") == 1


@pytest.mark.skipif(SCHEDULER == "stock", reason="there, a lease goes to the dead and must expire first")
def test_who_left_while_waiting_holds_nobody_up(fresh, tmp_path):
    """A killed worker's tasks stood in line for the lock."""
    cluster = fresh(n_workers=2, nthreads=1)
    with cluster.connected() as client:
        # A lease that went to the dead would not expire while this test runs.
        with dask.config.set({"distributed.scheduler.locks.lease-timeout": "1h"}):
            door = Lock("door")
            assert door.acquire(timeout=60)
        first = list(workers_of(client))[0]
        waits = client.submit(lambda: alone(Lock("door"), str(tmp_path), 0), workers=[first], pure=False,
                              allow_other_workers=True)
        until(lambda: client.processing()[first], "the task to start")
        cluster.worker_process(first).kill()
        until(lambda: first not in workers_of(client), "the worker to be gone")
        door.release()
        assert waits.result(timeout=120) >= 1


@pytest.mark.parametrize("on", [False, True])
@pytest.mark.parametrize("kind", ["raw", "zarr"])
def test_stores_under_a_lock(same, tmp_path, kind, on):
    """`da.store` takes a lock of the cluster unless told otherwise."""
    values = np.arange(8000, dtype="f4").reshape(20, 20, 20)

    def prog(client):
        if kind == "raw":
            out = rask.io.raw(tmp_path / "raw", "f4", values.shape, 0, "C", "w+")
        else:
            out = zarr.create_array(str(tmp_path / "z"), shape=values.shape, chunks=(10, 20, 20),
                                    dtype="f4", overwrite=True)
        with dask.annotate(**({"rask": {"io": {"cluster": True, "buffer-bytes": "8 kB"}}} if on else {})):
            given = da.store(da.from_array(values, chunks=7) + 1, out)
        return given, out[...]

    _, found = same(prog)
    np.testing.assert_array_equal(found, values + 1)
