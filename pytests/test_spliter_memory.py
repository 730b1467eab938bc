"""Blocks of a partition on rask workers: read one at a time, from wherever they are by then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import WORKER
from programs import Gate, until, workers_of

import rask

pytestmark = pytest.mark.skipif(WORKER != "rask", reason="stock workers pass all blocks at once")

MB = 1_000_000
LIMIT, BLOCK, BLOCKS = 500 * MB, 20 * MB, 40  # 800 MB of blocks


def block(i: int) -> np.ndarray:
    return np.random.default_rng(i).integers(0, 2**62, BLOCK // 8)


def checked(blocks) -> list[int]:
    """Sums of the blocks, one after the other."""
    return [int(b.sum()) for b in blocks]


def peak() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


def read_bytes() -> int:
    """What this process read through the kernel so far, page cache or not."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("rchar"))


def only(answers):
    (answer,) = answers.values()
    return answer


def spilled(client) -> int:
    """Bytes on disk only, as the worker's last heartbeat told."""
    return only(workers_of(client))["metrics"]["spilled_bytes"]["memory"]


def files(cluster) -> list[Path]:
    return list(cluster.directory.glob("dask-scratch-space/worker-*/spilled-*"))


@pytest.fixture
def small(fresh):
    """A worker that keeps 200 of 500 MB in memory and spills the rest."""
    names = {"TARGET": "0.4", "SPILL": "False", "PAUSE": "False"}
    return fresh(n_workers=1, worker_options=("--memory-limit", str(LIMIT)),
                 env={f"DASK_DISTRIBUTED__WORKER__MEMORY__{k}": v for k, v in names.items()})


@pytest.mark.fault("W12")
def test_a_partition_larger_than_the_memory_streams_through_it(small):
    with small.connected() as client:
        blocks = []
        for i in range(BLOCKS):
            blocks.append(client.submit(block, i, pure=False))
            until(lambda: blocks[-1].done(), "the block")
        until(lambda: spilled(client) >= BLOCKS * BLOCK - LIMIT // 2, "blocks on disk")
        expected = [int(block(i).sum()) for i in range(BLOCKS)]
        parts = rask.spliter(blocks)
        assert len(parts) == 1
        client.run(rask.spliter.probes.reset_peak)  # making blocks is not what is tested
        for _ in range(2):
            on_disk, before = spilled(client), only(client.run(read_bytes))
            assert client.gather(parts.map(checked, pure=False)) == [expected]
            read = only(client.run(read_bytes)) - before
            # Each block that was on disk is read, once; the slack is a block that moved meanwhile.
            assert on_disk - BLOCK <= read <= on_disk + BLOCK + 5 * MB
        assert parts.reduce(max, np.sum).result() == max(expected)
        assert only(client.run(peak)) < LIMIT
        with pytest.raises(MemoryError, match="memory_limit"):  # all at once, they would end it
            client.gather(parts.map(checked, pass_as="list"))


@pytest.mark.fault("W14")
def test_a_block_whose_file_is_damaged_is_made_again(small):
    with small.connected() as client:
        blocks = client.map(block, range(20), pure=False)
        until(lambda: files(small), "blocks on disk")
        parts = rask.spliter(blocks)
        expected = [int(block(i).sum()) for i in range(20)]
        path = sorted(files(small))[0]
        path.write_bytes(path.read_bytes()[:-8] + b"damaged!")
        assert client.gather(parts.map(checked)) == [expected]


@pytest.mark.fault("W14")
def test_code_that_swallows_the_loss_of_a_block_does_not_get_away_with_it(small):
    def careless(blocks):
        found = []
        while True:
            try:
                found.append(int(next(blocks).sum()))
            except StopIteration:
                return found
            except Exception:
                return "lost"

    with small.connected() as client:
        blocks = client.map(block, range(20), pure=False)
        until(lambda: files(small), "blocks on disk")
        path = sorted(files(small))[0]
        path.write_bytes(path.read_bytes()[:-8] + b"damaged!")
        expected = [int(block(i).sum()) for i in range(20)]
        assert client.gather(rask.spliter(blocks).map(careless)) == [expected]


def test_blocks_that_are_also_arguments_arrive_as_values(rask_client):
    blocks = rask_client.map(np.full, range(1, 5), range(4))
    parts = rask.spliter(blocks, per="worker")
    found = rask_client.gather(parts.map(
        lambda blocks, other, more: [float(b.sum()) for b in blocks] + [other.shape, more[0].shape],
        blocks[0], more=[blocks[1]]))
    assert [f[-2:] for f in found] == [[(1,), (2,)]] * len(parts)
    assert sorted(x for f in found for x in f[:-2]) == [0.0, 2.0, 6.0, 12.0]


def test_materialized_partitions_take_one_block_beside_the_result(fresh):
    """Blocks on disk are copied one by one into the joined array."""
    import dask.array as da

    names = {"TARGET": "0.2", "SPILL": "False", "PAUSE": "False"}
    cluster = fresh(n_workers=1, worker_options=("--memory-limit", str(LIMIT)),
                    env={f"DASK_DISTRIBUTED__WORKER__MEMORY__{k}": v for k, v in names.items()})
    with cluster.connected() as client:
        x = da.arange(12 * BLOCK // 8, chunks=BLOCK // 8).persist()
        until(lambda: spilled(client) >= 7 * BLOCK, "blocks on disk")
        start = only(client.run(rask.spliter.probes.reset_peak))
        (whole,) = rask.spliter(x).materialize()
        until(lambda: whole.held.done(), "the joined array")
        assert only(client.run(peak)) < start + 12 * BLOCK + 4 * BLOCK
        assert client.submit(lambda a: bool((a == np.arange(a.size)).all()), whole.held).result()


def test_a_cancelled_task_whose_blocks_are_gone_ends(rask_client, tmp_path):
    def slowly(blocks, gate):
        first = next(blocks)
        gate()
        return first.sum() + sum(b.sum() for b in blocks)

    gate = Gate(tmp_path)
    blocks = rask_client.map(np.ones, range(2, 8), pure=False)
    sums = rask.spliter(blocks).map(slowly, gate, pure=False)
    gate.wait_started(2)
    keys = [b.key for b in blocks]
    del sums, blocks
    until(lambda: not any(rask_client.sync(rask_client.scheduler.who_has, keys=keys).values()),
          "the blocks to be forgotten")
    gate.open()
    assert rask_client.submit(sum, [1, 2], pure=False).result() == 3
