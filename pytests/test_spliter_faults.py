"""rask.spliter while workers die and blocks move: the right result or stock's error, never a hang.

Partition tasks are caught in the act by a Gate; blocks say in a file when they are computed, so
that a test can count what was computed again.
"""

from __future__ import annotations

import operator
import random
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from distributed import wait
from programs import Gate, until, workers_of

import rask

BLOCKS, ROWS = 12, 5


def made(i: int, log: str) -> np.ndarray:
    """Block `i` of a column of numbers; leaves a line in the log."""
    with open(log, "a") as file:
        file.write(f"{i}\n")
    return np.arange(i * ROWS, (i + 1) * ROWS, dtype=float)


def stopped_sum(blocks, gate) -> float:
    """Sum of a partition that waits at its first block."""
    total = 0.0
    for position, block in enumerate(blocks):
        if position == 0:
            gate()
        total += block.sum()
    return total


class Scene:
    """Blocks spread over all workers, their partitions, and a gate for the tasks on them."""

    def __init__(self, client, tmp_path: Path, name: str, **options):
        self.client = client
        self.log = tmp_path / f"{name}.made"
        self.gate = Gate(tmp_path, name)
        addresses = sorted(workers_of(client))
        self.blocks = [client.submit(made, i, str(self.log), workers=[addresses[i % len(addresses)]],
                                     allow_other_workers=True, pure=False) for i in range(BLOCKS)]
        self.parts = rask.spliter(self.blocks, **options)
        self.sums = self.parts.map(stopped_sum, self.gate, pure=False)

    def wait_inside(self) -> None:
        """All workers (of one thread) are inside a partition."""
        self.gate.wait_started(len({part.worker for part in self.parts}))

    def runs(self) -> list[int]:
        return [int(line) for line in self.log.read_text().split()]

    def total(self) -> float:
        return sum(self.client.gather(self.sums))


EXPECTED = float(np.arange(BLOCKS * ROWS).sum())


def copy_to(client, blocks, worker):
    """A task that brings the blocks to a worker; they stay there as long as its result is wanted."""
    return client.submit(len, blocks, workers=[worker], pure=False, priority=10)


@pytest.fixture
def names(tmp_path):
    """Names for the things of one run each; programs run twice."""
    return iter(f"run{i}" for i in range(100))


@pytest.mark.fault("W1", "W2")
def test_a_worker_killed_inside_its_partition(same, tmp_path, names):
    def prog(client, cluster):
        scene = Scene(client, tmp_path, next(names))
        scene.wait_inside()
        lost = scene.parts[0]
        cluster.worker_process(lost.worker).kill()
        scene.gate.open()
        total, runs = scene.total(), scene.runs()
        again = scene.parts.reduce(operator.add, np.sum).result()
        moved = scene.parts.refresh()
        return (total, again, sorted(runs) == sorted([*range(BLOCKS), *lost.numbers]),
                lost.worker in {part.worker for part in moved},
                moved.reduce(operator.add, np.sum, pure=False).result())

    assert same(prog) == (EXPECTED, EXPECTED, True, False, EXPECTED)


@pytest.mark.fault("W1", "W2")
def test_two_of_three_workers_killed_one_after_the_other(fresh, tmp_path):
    cluster = fresh(n_workers=3)
    with cluster.connected() as client:
        scene = Scene(client, tmp_path, "three", per=2)
        homes = list(dict.fromkeys(part.worker for part in scene.parts))
        scene.wait_inside()
        for home in homes[:2]:
            before = len(scene.gate.started())
            cluster.worker_process(home).kill()
            until(lambda home=home: home not in workers_of(client), "the loss to be noticed")
            assert len(scene.gate.started()) >= before
        scene.gate.open()
        assert scene.total() == EXPECTED
        assert [part.worker for part in scene.parts.refresh()] == [homes[2]] * 2


@pytest.mark.fault("W3")
def test_the_only_holder_of_a_scattered_block_killed(same, tmp_path, names):
    def prog(client, cluster):
        one, two = sorted(workers_of(client))
        gate = Gate(tmp_path, next(names))
        blocks = client.scatter([np.ones(3), np.ones(4)], workers=[one], hash=False)
        blocks += client.scatter([np.ones(5)], workers=[two], hash=False)
        parts = rask.spliter(blocks)
        sums = parts.map(stopped_sum, gate, pure=False)
        gate.wait_started(2)
        cluster.worker_process(one).kill()
        until(lambda: one not in workers_of(client), "the loss to be noticed")
        gate.open()
        later = parts.map(len, pass_as="list")
        # One call is one graph, and Dask cancels a graph whole if any of its data is lost for good.
        return (ended(sums[0]), ended(later[0]), sums[1].result(), ended(later[1])[0],
                said(lambda: rask.spliter(blocks, timeout=60)))

    def ended(future):
        name, text = said(future.result)
        return name, text.replace(str(future.key), "KEY")

    def said(call):
        with pytest.raises(BaseException) as caught:  # noqa: PT011: cancelled is no Exception
            call()
        return type(caught.value).__name__, str(caught.value).split("; the first")[0]

    running, queued, *others, split = same(prog)
    assert running[0] == queued[0] == "FutureCancelledError"
    assert "lost dependencies" in queued[1]
    assert others == [5.0, "FutureCancelledError"]
    assert split == ("SpliterError", "2 of 3 blocks were cancelled")


@pytest.mark.fault("C14", "W17")
def test_a_worker_retired_while_partitions_run(same, tmp_path, names):
    def prog(client, cluster):
        scene = Scene(client, tmp_path, next(names), per=2)
        scene.wait_inside()
        leaver = scene.parts[0].worker
        client.retire_workers([leaver])
        until(lambda: leaver not in workers_of(client), "the worker to leave")
        scene.gate.open()
        total = scene.total()
        moved = scene.parts.refresh()
        return (total, leaver in {part.worker for part in moved},
                moved.reduce(operator.add, np.sum).result(), sorted(scene.runs()))

    assert same(prog) == (EXPECTED, False, EXPECTED, list(range(BLOCKS)))


def test_blocks_copied_to_all_workers_while_partitions_run(same, tmp_path, names):
    def prog(client):
        scene = Scene(client, tmp_path, next(names), per=3)
        scene.wait_inside()
        copies = [copy_to(client, scene.blocks[:6], worker) for worker in workers_of(client)]
        scene.gate.open()
        wait(copies)
        total = scene.total()
        moved = scene.parts.refresh()
        return (total, moved.reduce(operator.add, np.sum, pure=False).result(),
                sum(map(len, moved)), sorted(scene.runs()) == list(range(BLOCKS)))

    assert same(prog) == (EXPECTED, EXPECTED, BLOCKS, True)


def test_the_collection_is_released_while_partitions_wait(same, tmp_path, names):
    def prog(client):
        scene = Scene(client, tmp_path, next(names), per=3)
        scene.wait_inside()
        keys = [block.key for block in scene.blocks]
        del scene.blocks, scene.parts
        scene.gate.open()
        total = scene.total()
        until(lambda: not any(client.sync(client.scheduler.who_has, keys=keys).values()),
              "the blocks to be forgotten")
        return total, sorted(scene.runs()) == list(range(BLOCKS))

    assert same(prog) == (EXPECTED, True)


def test_cancelling_partition_tasks_leaves_the_blocks(same, tmp_path, names):
    def prog(client):
        scene = Scene(client, tmp_path, next(names), per=3)
        scene.wait_inside()
        client.cancel(scene.sums)
        scene.gate.open()
        states = {future.status for future in scene.sums}
        return states, scene.parts.reduce(operator.add, np.sum).result(), len(scene.runs())

    assert same(prog) == ({"cancelled"}, EXPECTED, BLOCKS)


@pytest.mark.fault("C14", "W1")
def test_k_means_while_workers_leave_and_die(fresh):
    """Iterations reuse partitions; a worker retires in the third and one is killed in the fifth."""
    x = np.random.default_rng(7).random((600, 3))
    start = x[:4]

    def assign(block, centres):
        nearest = ((block[:, None] - centres) ** 2).sum(2).argmin(1)
        sums = np.zeros((len(centres), block.shape[1]))
        np.add.at(sums, nearest, block)
        return sums, np.bincount(nearest, minlength=len(centres))

    def together(a, b):
        return a[0] + b[0], a[1] + b[1]

    def next_centres(sums, counts):
        return sums / np.maximum(counts, 1)[:, None]

    cluster = fresh(n_workers=3)
    with cluster.connected() as client:
        y = da.from_array(x, chunks=((7,) * 85 + (5,), 3)).persist()
        parts = rask.spliter(y, per="thread")
        expected = centres = start
        for iteration in range(7):
            if iteration == 2:
                client.retire_workers([parts[0].worker])
            if iteration == 4:
                cluster.worker_process(parts[0].worker).kill()
            parts = parts.refresh()
            centres = next_centres(*parts.reduce(together, assign, centres).result())
            expected = next_centres(*assign(x, expected))
            assert np.allclose(centres, expected)
        assert len({part.worker for part in parts}) == 1


@pytest.mark.fault("W1", "W2")
@pytest.mark.parametrize("seed", range(6))
def test_random_chunks_places_and_losses_against_numpy(rask_cluster, tmp_path, seed):
    """Whatever is done to the cluster meanwhile, partitions give what NumPy gives."""
    draw = random.Random(seed)
    sides = [draw.randint(1, 12) for _ in range(draw.randint(1, 3))]
    chunks = tuple(ragged(draw, side) for side in sides)
    x = np.random.default_rng(seed).integers(0, 100, sides).astype(float)
    with rask_cluster.connected() as client:
        y = da.from_array(x, chunks=chunks).persist()
        wait(y)
        blocks = list(y.dask.values())
        if draw.random() < 0.5:
            wait([copy_to(client, draw.sample(blocks, draw.randint(1, len(blocks))), worker)
                  for worker in workers_of(client)])
        parts = rask.spliter(y, per=draw.choice(["worker", "thread", "numa", 2, 5]),
                             cut=draw.choice(rask.spliter.placement.CUTS))
        gate = Gate(tmp_path)
        sums = parts.map(stopped_sum, gate, pure=False)
        gate.wait_started(len({part.worker for part in parts}))
        harm(draw, rask_cluster, client, draw.choice(parts).worker)
        gate.open()
        assert sum(client.gather(sums)) == x.sum()
        if draw.random() < 0.7:
            parts = parts.refresh()
        doubled = parts.map_blocks(np.multiply, 2)
        assert (doubled.to_dask().compute() == 2 * x).all()
        assert parts.reduce(operator.add, np.sum, ordered=True).result() == x.sum()
        flat = np.concatenate([part.get_item_indexes("flat") for part in parts])
        taken = np.concatenate(client.gather(parts.map(
            lambda blocks: np.concatenate([b.ravel() for b in blocks]))))
        assert (x.ravel()[flat] == taken).all() and len(flat) == x.size


def ragged(draw: random.Random, side: int) -> tuple[int, ...]:
    cuts = sorted(draw.randint(0, side) for _ in range(draw.randint(0, 4)))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, side]))


def harm(draw: random.Random, cluster, client, worker: str) -> None:
    what = draw.choice(["kill", "kill", "kill and replace", "retire", "nothing"])
    if what == "retire":
        process = cluster.worker_process(worker)
        client.retire_workers([worker])
        until(lambda: not process.alive(), "the worker to end")  # or the next test counts on it
    elif what != "nothing":
        cluster.worker_process(worker).kill()
        if what == "kill and replace":
            cluster.repair()
