"""Memory of a rask worker: spilling, pausing, full disks, damaged files (W12, W13, W14)."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from conftest import WORKER
from distributed import wait
from programs import Gate, inc, until, workers_of

MB = 1_000_000
LIMIT = 500 * MB
pytestmark = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


def block(i: int, size: int = 20 * MB) -> np.ndarray:
    """Noise, so that nothing can make it smaller."""
    return np.random.default_rng(i).integers(0, 2**62, size // 8)


def listing(i: int) -> list:
    """A value that can only be pickled, not exported."""
    return [f"{i}-{j}" * 5 for j in range(50_000)]


def check(i: int, array: np.ndarray) -> bool:
    return bool((array == block(i)).all())


def spilled(client) -> int:
    (worker,) = workers_of(client).values()
    return worker["metrics"]["spilled_bytes"]["disk"]


def files(cluster) -> list[Path]:
    return list(cluster.directory.glob("dask-scratch-space/worker-*/spilled-*"))


def small_worker(fresh, *options, limit=LIMIT, **env):
    names = {f"DASK_DISTRIBUTED__WORKER__MEMORY__{k.upper()}": str(v) for k, v in env.items()}
    return fresh(n_workers=1, env=names,
                 worker_options=("--memory-limit", str(limit), *options))


@pytest.mark.fault("W12")
def test_values_beyond_the_target_go_to_disk_and_come_back_right(fresh):
    cluster = small_worker(fresh, target=0.2, spill=False, pause=False)
    with cluster.connected() as client:
        arrays = client.map(block, range(12), pure=False)
        lists = client.map(listing, range(4), pure=False)
        until(lambda: spilled(client) > 80 * MB, "values on disk")
        assert files(cluster)
        metrics = next(iter(workers_of(client).values()))["metrics"]
        assert metrics["managed_bytes"] > metrics["spilled_bytes"]["memory"] > 80 * MB
        (total,) = client.run(lambda dask_worker: dask_worker.data.spilled_total).values()
        assert total.memory > 80 * MB and total.disk > 80 * MB
        assert all(client.gather(client.map(check, range(12), arrays)))
        assert all(check(i, array) for i, array in enumerate(client.gather(arrays)))
        assert client.gather(lists) == [listing(i) for i in range(4)]
        del arrays, lists
        until(lambda: not files(cluster), "the files to be removed")


@pytest.mark.fault("W12")
def test_a_worker_near_its_limit_spills_frees_and_unspills(fresh):
    """Stock's own thresholds; more values than the worker may hold in memory."""
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def trim():
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)

    count = 60
    cluster = small_worker(fresh, limit=600 * MB)
    with cluster.connected() as client:
        arrays = client.map(block, range(count), size=10 * MB, pure=False)
        wait(arrays)
        until(lambda: spilled(client) > 200 * MB, "values on disk")
        until(lambda: max(client.run(resident).values()) < 480 * MB, "memory to be given back")
        right = client.map(lambda i, array: bool((array == block(i, 10 * MB)).all()),
                           range(count), arrays, pure=False)
        assert all(client.gather(right))
        assert max(client.run(resident).values()) < 600 * MB
        (worker,) = workers_of(client).values()
        assert worker["status"] == "running"
        del arrays, right
        until(lambda: not files(cluster), "the files to be removed")
        until(lambda: spilled(client) == 0, "nothing on disk")
        # What the allocator keeps for the next value, as it may, is given back first.
        until(lambda: client.run(trim) and max(client.run(resident).values()) < 300 * MB, "memory to be free")


@pytest.mark.fault("W12")
def test_a_worker_killed_with_values_on_disk_leaves_none_behind(fresh):
    cluster = small_worker(fresh, target=0.2, spill=False, pause=False)
    with cluster.connected() as client:
        arrays = client.map(block, range(10), pure=False)
        wait(arrays)
        until(lambda: len(files(cluster)) >= 3, "values on disk")
        old = set(files(cluster))
        cluster.worker_process(*workers_of(client)).kill()
        cluster.repair()
        assert all(client.gather(client.map(check, range(10), arrays, pure=False)))
        # As in stock, the next worker clears what a killed one left in the same place.
        until(lambda: not old & set(files(cluster)), "the dead worker's files to go")


@pytest.mark.fault("W12")
def test_a_worker_above_its_limit_pauses_and_resumes(fresh):
    def waste(dask_worker):
        dask_worker.wasted = np.ones(LIMIT // 8)

    def tidy(dask_worker):
        del dask_worker.wasted

    def status():
        (worker,) = workers_of(client).values()
        return worker["status"]

    cluster = small_worker(fresh)
    with cluster.connected() as client:
        assert client.submit(inc, 1).result() == 2
        client.run(waste)
        until(lambda: status() == "paused", "the pause")
        waiting = client.submit(inc, 2)
        client.run(tidy)
        until(lambda: status() == "running", "the worker to resume")
        assert waiting.result(timeout=120) == 3
        assert "Pausing worker" in cluster.logs()


@pytest.mark.fault("W12")
def test_bounds_set_while_a_worker_runs_hold_at_once(fresh):
    def set_bounds(dask_worker, **bounds):
        for name, value in bounds.items():
            setattr(dask_worker.memory_manager, name, value)

    def limit(dask_worker):
        return dask_worker.memory_manager.memory_limit

    def status():
        (worker,) = workers_of(client).values()
        return worker["status"]

    cluster = small_worker(fresh, target=False, spill=False)
    with cluster.connected() as client:
        arrays = client.map(block, range(4), pure=False)
        wait(arrays)
        client.run(set_bounds, memory_pause_fraction=0.01)
        until(lambda: status() == "paused", "the pause")
        client.run(set_bounds, memory_limit=200 * LIMIT)
        until(lambda: status() == "running", "the worker to resume")
        assert list(client.run(limit).values()) == [200 * LIMIT]
        assert not files(cluster)
        client.run(set_bounds, memory_pause_fraction=False, memory_limit=LIMIT,
                   memory_target_fraction=0.05, memory_spill_fraction=0.06)
        until(lambda: spilled(client) > 40 * MB, "values on disk")
        client.run(set_bounds, memory_limit=None)
        assert client.submit(inc, 1).result() == 2
        assert all(client.gather(client.map(check, range(4), arrays, pure=False)))


@pytest.mark.fault("W12")
def test_memory_that_is_free_is_given_back_and_neither_spilled_nor_paused_for(fresh):
    def waste(dask_worker):
        """The allocator keeps all of it: the blocks are too small for pages of their own, and what
        lies between them stays."""
        import ctypes

        libc = ctypes.CDLL(None)
        libc.malloc.restype = libc.memset.restype = ctypes.c_void_p
        libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
        libc.free.argtypes = (ctypes.c_void_p,)
        blocks = [libc.memset(libc.malloc(100_000), 1, 100_000) for _ in range(4_000)]
        dask_worker.between = blocks[::100]
        for i, each in enumerate(blocks):
            if i % 100:
                libc.free(each)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    cluster = small_worker(fresh, limit=500 * MB)
    with cluster.connected() as client:
        value = client.submit(block, 1)
        wait(value)
        client.run(waste)
        until(lambda: max(client.run(resident).values()) < 300 * MB, "memory to be given back")
        until(lambda: {w["status"] for w in workers_of(client).values()} == {"running"}, "a worker that runs")
        assert check(1, value.result())


@pytest.mark.fault("W13")
def test_nothing_is_lost_when_the_disk_is_full(fresh):
    """A limit on the size of files makes every large write fail, as a full disk would."""
    def shrink(dask_worker):
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 * MB, resource.RLIM_INFINITY))

    cluster = small_worker(fresh, target=0.2, spill=False, pause=False)
    with cluster.connected() as client:
        client.run(shrink)
        arrays = client.map(block, range(12), pure=False)
        assert all(client.gather(client.map(check, range(12), arrays)))
        until(lambda: "Spill to disk failed" in cluster.logs(), "the failed write")
        assert all(check(i, array) for i, array in enumerate(client.gather(arrays)))
        assert not files(cluster)


@pytest.mark.fault("W13")
def test_nothing_is_lost_on_a_small_disk(fresh, tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a disk of its own")
    try:
        # A later --local-directory is the one that counts.
        cluster = small_worker(fresh, "--local-directory", str(tmp_path), target=0.2, spill=False,
                               pause=False)
        with cluster.connected() as client:
            arrays = client.map(block, range(12), pure=False)
            assert all(client.gather(client.map(check, range(12), arrays)))
            until(lambda: "Spill to disk failed" in cluster.logs(), "the failed write")
            until(lambda: spilled(client) > 0, "a heartbeat that tells of it")
            assert spilled(client) < 50 * MB
            assert all(check(i, array) for i, array in enumerate(client.gather(arrays)))
        cluster.close()
    finally:
        # At once for all who look, and for good when the last file on it is closed.
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@pytest.mark.fault("W13")
def test_values_that_cannot_be_pickled_stay_in_memory(fresh):
    class Stubborn:
        def __init__(self):
            self.lock = threading.Lock()
            self.bytes = bytes(60 * MB)

        def __sizeof__(self):
            return len(self.bytes)

    cluster = small_worker(fresh, target=0.2, spill=False, pause=False)
    with cluster.connected() as client:
        stubborn = [client.submit(Stubborn, pure=False) for _ in range(3)]
        arrays = client.map(block, range(8), pure=False)
        until(lambda: spilled(client) > 50 * MB, "the others on disk")
        sizes = client.gather(client.map(lambda s: len(s.bytes), stubborn))
        assert sizes == [60 * MB] * 3
        assert all(client.gather(client.map(check, range(8), arrays)))
        assert "Failed to pickle" in cluster.logs()


def overwrite(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(-8, 2)
        file.write(b"garbage!")


def truncate(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


@pytest.mark.fault("W14")
@pytest.mark.parametrize("damage", [overwrite, truncate, Path.unlink], ids=lambda f: f.__name__)
def test_a_damaged_spill_file_is_a_lost_copy_not_a_wrong_value(fresh, damage):
    cluster = small_worker(fresh, target=0.2, spill=False, pause=False)
    with cluster.connected() as client:
        arrays = client.map(block, range(12), pure=False)
        client.gather(client.map(check, range(12), arrays))
        until(lambda: len(files(cluster)) >= 4, "files")
        for path in files(cluster):
            with contextlib.suppress(FileNotFoundError):  # its value was used since
                damage(path)
        assert all(client.gather(client.map(check, range(12), arrays, pure=False)))
        assert all(check(i, array) for i, array in enumerate(client.gather(arrays)))


@pytest.mark.fault("W14")
def test_a_value_damaged_while_a_task_runs_with_it_is_made_again_for_others(fresh, tmp_path):
    """The running task has read the value and is not held up; the others do not wait for its end."""
    gate = Gate(tmp_path)

    def hold(array):
        return gate(int(array[0]))

    cluster = small_worker(fresh, "--nthreads", "2", target=0.2, spill=False, pause=False)
    with cluster.connected() as client:
        first = client.submit(block, 0, pure=False)
        running = client.submit(hold, first)
        gate.wait_started()
        others = client.map(block, range(1, 12), pure=False)
        wait(others)
        until(lambda: len(files(cluster)) >= 4, "files")
        for path in files(cluster):
            with contextlib.suppress(FileNotFoundError):
                truncate(path)
        assert client.submit(check, 0, first).result(timeout=120)
        gate.open()
        assert running.result(timeout=120) == block(0)[0]


@pytest.mark.fault("W12")
def test_spilling_can_be_bounded(fresh):
    cluster = small_worker(fresh, target=0.2, spill=False, pause=False, max_spill=50 * MB)
    with cluster.connected() as client:
        arrays = client.map(block, range(12), pure=False)
        assert all(client.gather(client.map(check, range(12), arrays)))
        until(lambda: spilled(client) > 30 * MB, "some on disk")
        assert spilled(client) <= 50 * MB
        assert all(check(i, array) for i, array in enumerate(client.gather(arrays)))
