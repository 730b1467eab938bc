"""Homes, cuts and item indexes of rask.spliter without a cluster, over random cases."""

from __future__ import annotations

import array
import pickle
import random

import numpy as np
import pytest
from dask._task_spec import DataNode, TaskRef

from rask.spliter import indexes, placement, tasks
from rask.spliter.collection import SpliterError
from rask.spliter.states import WorkerView


def random_case(seed):
    draw = random.Random(seed)
    workers = {f"tcp://{i}": WorkerView(draw.randint(1, 4), draw.random() > 0.2, draw.randint(1, 2))
               for i in range(draw.randint(1, 6))}
    next(iter(workers.values())).running = True
    count = draw.randint(1, 60)
    holders = [tuple(draw.sample(list(workers), draw.randint(1, min(3, len(workers)))))
               for _ in range(count)]
    weights = [draw.choice([0, 1, 8, 100]) for _ in range(count)]
    return draw, workers, holders, weights


@pytest.mark.parametrize("seed", range(200))
def test_each_block_is_in_one_partition_and_none_is_empty(seed):
    draw, workers, holders, weights = random_case(seed)
    home = placement.homes(holders, weights, workers)
    per, cut = draw.choice(["worker", "thread", "numa", 1, 5]), draw.choice(placement.CUTS)
    found = placement.partition(home, weights, workers, per, cut)
    assert sorted(i for _, blocks in found for i in blocks) == list(range(len(holders)))
    assert all(blocks and blocks == sorted(blocks) for _, blocks in found)
    assert all(home[i] == worker for worker, blocks in found for i in blocks)
    for i, worker in enumerate(home):
        running = [w for w in holders[i] if workers[w].running]
        assert worker in (running or [w for w in workers if workers[w].running])
    if cut in ("bytes", "cyclic"):
        for worker in set(home):
            expected = min(placement.share(per, workers[worker]), home.count(worker))
            assert sum(w == worker for w, _ in found) == expected


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_runs_differ_from_the_ideal_by_less_than_one_block(parts):
    draw = random.Random(parts)
    for _ in range(200):
        weights = [draw.randint(1, 50) for _ in range(draw.randint(parts, 80))]
        lengths = placement._cut(weights, parts)
        assert sum(lengths) == len(weights) and min(lengths) >= 1
        end, total = 0, sum(weights)
        for part, length in enumerate(lengths[:-1], 1):
            end += length
            if len(weights) > 3 * parts:
                assert abs(sum(weights[:end]) - total * part / parts) <= max(weights) * (parts + 1)


def test_replicas_even_out_bytes_per_thread():
    workers = {"a": WorkerView(1, True), "b": WorkerView(3, True)}
    home = placement.homes([("a", "b")] * 40, [10] * 40, workers)
    assert home.count("a") == 10


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_which_half_have_a_copy_are_balanced_within_one_block(seed):
    """Where copies allow it at all: homes of single blocks are dealt evenly, as a scatter leaves them."""
    draw = random.Random(seed)
    names = [f"tcp://{i}" for i in range(draw.randint(2, 6))]
    workers = {name: WorkerView(1, True) for name in names}
    holders, weights = [], []
    for i in range(40 * len(names)):
        first = names[i % len(names)]
        copied = draw.random() < 0.5
        holders.append((first, draw.choice([n for n in names if n != first])) if copied else (first,))
        weights.append(draw.randint(50, 100))
    home = placement.homes(holders, weights, workers)
    assert all(worker in held for worker, held in zip(home, holders))
    loads = [sum(w for w, h in zip(weights, home) if h == name) for name in names]
    assert max(loads) - sum(loads) / len(loads) <= max(weights)


def test_workers_that_do_not_run_get_nothing():
    workers = {"a": WorkerView(1, False), "b": WorkerView(1, True)}
    assert placement.homes([("a",), ("a", "b")], [1, 1], workers) == ["b", "b"]
    with pytest.raises(SpliterError, match="paused or closing"):
        placement.homes([("a",)], [1], {"a": WorkerView(1, False)})


@pytest.mark.parametrize("seed", range(100))
def test_item_indexes_equal_what_numpy_cuts(seed):
    draw = random.Random(seed)
    chunks = tuple(tuple(draw.randint(0, 4) for _ in range(draw.randint(1, 4)))
                   for _ in range(draw.randint(0, 4)))
    shape = tuple(len(axis) for axis in chunks)
    x = np.arange(int(np.prod([sum(axis) for axis in chunks]))).reshape(
        [sum(axis) for axis in chunks])
    numbers = sorted(draw.sample(range(int(np.prod(shape))),
                                 draw.randint(1, int(np.prod(shape)))))
    found = [tasks.place_of(i, shape) for i in numbers]
    assert found == [tuple(map(int, np.unravel_index(i, shape))) for i in numbers]
    blocks = []
    for index in found:
        edges = [np.cumsum([0, *axis]) for axis in chunks]
        blocks.append(x[tuple(slice(e[i], e[i + 1]) for e, i in zip(edges, index))])
    flat = np.concatenate([block.ravel() for block in blocks])
    assert (indexes.flat_items(found, chunks) == flat).all()
    for axis in range(len(chunks)):
        assert len(indexes.items(found, chunks, axis)) == sum(b.shape[axis] for b in blocks)


@pytest.mark.parametrize("per,cut,error", [
    ("core", "bytes", ValueError), (0, "bytes", ValueError), (True, "bytes", TypeError),
    (1.5, "bytes", TypeError), ("worker", "size", ValueError),
])
def test_bad_options_are_refused(per, cut, error):
    with pytest.raises(error):
        placement.check_options(per, cut)


def test_blocks_told_by_name_and_numbers_are_a_list_of_references():
    """As Dask's own nodes: what they depend on, give, and become when a key is replaced."""
    for shape, index in (((6,), lambda i: (i,)), ((2, 3), lambda i: (i // 3, i % 3)),
                         ((1, 6, 1), lambda i: (0, i, 0))):
        node = tasks.refs("x", shape, array.array("I", [0, 1, 4, 5]))
        keys = [("x", *index(i)) for i in (0, 1, 4, 5)]
        assert node.dependencies == set(keys)
        values = {key: number for number, key in enumerate(keys)}
        assert node(values) == [0, 1, 2, 3]
        again = pickle.loads(pickle.dumps(node))
        assert again(values) == [0, 1, 2, 3] and again.dependencies == node.dependencies
        assert node.substitute({"y": "z"}) is node
        other = node.substitute({keys[1]: "y", keys[2]: DataNode(None, 7)})
        assert other.dependencies == {keys[0], "y", keys[3]}
        assert other({**values, "y": 5}) == [0, 5, 7, 3]


def test_a_task_on_many_blocks_names_them_once_in_its_pickle():
    count = 5_000
    blocks = tasks.refs("x", (count,), array.array("I", range(count)))
    task = tasks.PartitionTask("t", sum, blocks)
    more = tasks.PartitionTask("u", max, blocks, TaskRef("other"))
    assert task.dependencies == {("x", i) for i in range(count)}
    assert more.dependencies == task.dependencies | {"other"}
    again = pickle.loads(pickle.dumps(task))
    assert len(pickle.dumps(task)) - len(pickle.dumps(blocks)) < 200
    assert again.key == "t" and again.dependencies == task.dependencies
    assert again({("x", i): i for i in range(count)}) == sum(range(count))
    renamed = task.substitute({("x", 0): ("y", 0)})
    assert ("y", 0) in renamed.dependencies and ("x", 0) not in renamed.dependencies
    assert pickle.loads(pickle.dumps(renamed)).dependencies == renamed.dependencies


@pytest.mark.parametrize("chunks,count,cut", [
    (((5,) * 6,), 2, 0), (((5,) * 6,), 4, 2), (((7, 3),), 2, 1), (((5,) * 4, (2, 2)), 3, 4),
    (((4,),), 1, 0), (((0, 4),), 2, 1),
])
def test_blocks_that_a_rechunk_takes_apart(chunks, count, cut):
    assert indexes.blocks_cut(chunks, count) == cut


@pytest.mark.parametrize("count", (1, 15, 16, 17, 31, 32, 100))
def test_many_partials_are_folded_a_few_at_a_time(count):
    alive, most = 0, 0

    class Partial:
        def __init__(self, text):
            nonlocal alive, most
            self.text = text
            alive += 1
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= 1

    def joined(partials):
        return Partial(" ".join(partial.text for partial in partials))

    found = tasks.fold(joined, True, (Partial(str(i)) for i in range(count)))
    assert found.text == " ".join(map(str, range(count)))
    assert most <= tasks.AT_ONCE + 2


def test_partials_in_order_are_folded_at_once():
    taken = []
    found = tasks.merge_in_order(lambda some: taken.append(len(some)) or sum(some), True,
                                 list(reversed(range(40))), [[1] * 25, [2] * 15])
    assert (found, taken) == (55, [40])
