"""`rask.spliter.auto = "reduce"`: Dask's reductions, combined on the workers that hold the blocks first.

The graph process is driven over its link for what it makes of a tree; clusters for what users see. The
rule everywhere: a commutative tree over blocks in memory is regrouped, everything else is left as it was,
and values differ in rounding at most.
"""

from __future__ import annotations

import functools
import operator

import dask
import dask.array as da
import numpy as np
import pytest
from conftest import PAIRING
from dask._task_spec import TaskRef
from dask.base import collections_to_expr
from distributed import wait
from graph_link import NONE, GraphProcess
from programs import Gate, until, workers_of

import rask

ON = {"spliter.auto": "reduce"}


@pytest.fixture(scope="module")
def process():
    with GraphProcess() as process:
        yield process


# ---- one graph, read by a graph process ------------------------------------------------------


def numbers(shape=(24, 6), dtype=float):
    return (np.arange(np.prod(shape)).reshape(shape) * 7919 % 101).astype(dtype)


def held(values, chunks):
    """A persisted array as a graph sees it: blocks are keys of another graph."""
    x = da.from_array(values, chunks=chunks)
    places = list(np.ndindex(*x.numblocks))
    graph = {("held", *place): TaskRef(("held", *place)) for place in places}
    blocks = {("held", *place): np.asarray(x.blocks[place]) for place in places}
    return da.Array(graph, "held", x.chunks, dtype=values.dtype), blocks


class Read:
    """What a graph process made of a collection whose blocks lie on `homes(key)`."""

    def __init__(self, process, y, homes=lambda key: key[1] % 2, settings=ON, wanted=(), fuse=True,
                 compute=False, **options):
        process.homes, process.asked = homes, []
        expr = collections_to_expr([y], fuse)
        expr = (expr.finalize_compute() if compute else expr).optimize()
        self.wanted = [*dask.core.flatten(expr.__dask_keys__()), *wanted]
        self.answer = process.submit(expr, self.wanted, settings=settings, **options)
        assert self.answer.error is None, self.answer.error
        self.asked, self.homes = process.asked, homes
        self.nodes = {key: record.node() for key, record in self.answer.records.items()}

    def value(self, key, blocks, memo=None):
        memo = {} if memo is None else memo
        if key not in memo:
            node = self.nodes.get(key)
            memo[key] = blocks[key] if node is None else node(
                {d: self.value(d, blocks, memo) for d in node.dependencies})
        return memo[key]

    def moved(self):
        """Results that cross workers when every task runs where most of its inputs are."""
        places, crossed = {}, [0]

        def place(key):
            if key not in places:
                node = self.nodes.get(key)
                if node is None:
                    places[key] = self.homes(key)
                else:
                    at = [place(d) for d in node.dependencies]
                    places[key] = max(sorted(set(at)), key=at.count)
                    crossed[0] += sum(p != places[key] for p in at)
            return places[key]

        for key in self.wanted:
            place(key)
        return crossed[0]


REDUCTIONS = {
    "sum": lambda x: x.sum(), "sum of ints": lambda x: x.astype(int).sum(),
    "sum along 0": lambda x: x.sum(axis=0), "sum along 1": lambda x: x.sum(axis=1),
    "prod": lambda x: (x % 3 + 1).prod(), "min": lambda x: x.min(), "max": lambda x: x.max(axis=0),
    "any": lambda x: (x > 99).any(), "all": lambda x: (x >= 0).all(axis=0),
    "mean": lambda x: x.mean(), "mean along 0": lambda x: (x + 1).mean(axis=0),
    "var": lambda x: x.var(), "third moment": lambda x: da.reductions.moment(x, 3),
    "nansum": lambda x: da.nansum(da.where(x == 3, np.nan, x)),
    "nanmax": lambda x: da.nanmax(da.where(x == 3, np.nan, x)),
    "nanmean": lambda x: da.nanmean(da.where(x == 3, np.nan, x)),
    "keepdims": lambda x: x.sum(axis=0, keepdims=True),
    "split_every": lambda x: x.sum(split_every=8),
    "std": lambda x: x.std(axis=0), "sum and on": lambda x: (x.sum(axis=0) + 1) * 2,
    "seventeen": lambda x: x[:17].sum(axis=0),
}


@pytest.mark.parametrize("compute", [False, True], ids=["persisted", "computed"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_tree_is_combined_at_home_first_and_gives_the_same(process, name, compute):
    x, blocks = held(numbers(), (1, 3) if name != "sum along 1" else (3, 1))
    y = REDUCTIONS[name](x)
    column = 1 if name != "sum along 1" else 2
    homes = lambda key: key[column] % 2  # noqa: E731 - neighbours along the tree never together
    plain, regrouped = (Read(process, y, homes, on, compute=compute) for on in (None, ON))
    assert not plain.asked and len(regrouped.asked) == 1
    for key, ours in zip(plain.wanted, regrouped.wanted):  # names of computations are unique
        expected, found = plain.value(key, blocks), regrouped.value(ours, blocks)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        exact = name not in ("mean", "mean along 0", "nanmean", "var", "std", "third moment")
        (np.testing.assert_array_equal if exact else np.testing.assert_allclose)(found, expected)
    trees = y.npartitions
    joins = trees - 1 if compute else 0  # that Dask puts blocks of the result together is none of ours
    assert trees <= regrouped.moved() <= trees + joins < plain.moved()  # one partial per tree
    assert len(regrouped.nodes) <= len(plain.nodes) + trees


def user_max(block, axis, keepdims):
    return np.max(block, axis=axis, keepdims=keepdims)


LEFT_ALONE = {
    "argmin": lambda x: x.argmin(axis=0), "topk": lambda x: da.topk(x, 2, axis=0),
    "concatenation": lambda x: x.rechunk((24, 6)),
    "a user's combine": lambda x: da.reduction(x, np.max, user_max, dtype=x.dtype),
    "a user's chunk": lambda x: da.reduction(x, user_max, np.sum, dtype=x.dtype),
    "objects": lambda x: x.astype(object).sum(),
    "a running sum": lambda x: da.cumsum(x, axis=0),
    "no reduction": lambda x: x + 1,
    "one level": lambda x: x[:4].sum(axis=0),
    "not in memory": lambda x: da.ones((24, 6), chunks=(1, 3)).sum(),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_is_not_known_to_commute_is_left_alone(process, name):
    x, _ = held(numbers(), (1, 3))
    y = LEFT_ALONE[name](x)
    assert set(Read(process, y).nodes) == set(Read(process, y, settings=None).nodes)


def test_a_tree_that_is_at_home_already_keeps_dasks_names(process):
    x, _ = held(numbers((16, 6)), (1, 3))
    plain = set(Read(process, x.sum(), settings=None).nodes)
    for homes in (lambda key: 5, lambda key: key[1] // 8, lambda key: NONE,
                  lambda key: NONE if key[1] == 7 else key[1] % 2):
        assert set(Read(process, x.sum(), homes).nodes) == plain
    for mode in ("off", "batch", None):
        read = Read(process, x.sum(), settings={"spliter.auto": mode})
        assert set(read.nodes) == plain and not read.asked


def test_names_say_which_leaves_a_partial_holds(process):
    """Else a partial of one grouping would be combined with one of another."""
    x, _ = held(numbers(), (1, 3))
    groupings = [lambda key: key[1] % 2, lambda key: key[1] % 3, lambda key: (key[1] + key[2]) % 2]
    made = [Read(process, x.sum(), homes) for homes in groupings]
    assert set(made[0].nodes) == set(Read(process, x.sum(), groupings[0]).nodes)

    def leaves(read, key):
        node = read.nodes.get(key)
        return {key} if node is None else set().union(*(leaves(read, d) for d in node.dependencies))

    seen = {}
    for read in [*made, Read(process, x.sum(), settings=None)]:
        for key in read.nodes:
            assert seen.setdefault(key, leaves(read, key)) == leaves(read, key), key
    assert made[0].wanted == made[1].wanted


def test_a_partial_that_is_wanted_keeps_its_name_and_its_leaves(process):
    x, blocks = held(numbers((64, 3)), (1, 3))
    y = x.sum()
    plain = Read(process, y, settings=None)
    partials = sorted(k for k in plain.nodes if k[0].startswith("sum-partial"))
    lowest = max({k[0] for k in partials}, key=lambda name: sum(k[0] == name for k in partials))
    kept = [(lowest, 1, 0)]
    upper = [next(k for k in partials if k[0] != lowest)]
    for wanted in (kept, upper):
        read = Read(process, y, wanted=wanted)
        for key in read.wanted:
            np.testing.assert_array_equal(read.value(key, blocks), plain.value(key, blocks))
        assert read.moved() < Read(process, y, settings=None, wanted=wanted).moved()


def test_annotations_go_along(process):
    x, _ = held(numbers(), (1, 3))
    with dask.annotate(priority=7, retries=2):
        y = x.sum()
    read = Read(process, y, fuse=False)  # fusing, Dask drops them
    plain = Read(process, y, settings=None, fuse=False)
    made = set(read.nodes) - set(plain.nodes)
    told = [read.answer.records[key].annotations for key in made]
    assert made and all(a and a["priority"] == 7 and a["retries"] == 2 for a in told)
    called = Read(process, y, fuse=False, annotations={"retries": lambda key: 1})
    assert set(called.nodes) == set(plain.nodes)  # what it would say of new keys is not known


def test_graphs_that_come_while_it_asks_wait_their_turn(process):
    x, _ = held(numbers(), (1, 3))
    process.homes = lambda key: key[1] % 2
    exprs = [collections_to_expr([y], True).optimize() for y in (x.sum(), x.mean(), x.max())]
    keys = [[("sum",)], [("mean",)], [("max",)]]
    keys = [list(dask.core.flatten(expr.__dask_keys__())) for expr in exprs]
    numbers_of = [process.post(e, k, settings=ON) for e, k in zip(exprs, keys)]
    for number, wanted in zip(numbers_of, keys):
        answer = process.answer(number)
        assert answer.error is None and set(wanted) <= set(answer.records)


# ---- on clusters -----------------------------------------------------------------------------


def block_of(place, rows, columns):
    return np.arange(rows * columns, dtype=float).reshape(rows, columns) * 3 % 17 + place


def placed(client, blocks=32, rows=64, columns=64):
    """A persisted array whose neighbours are on different workers."""
    addresses = sorted(workers_of(client))
    futures = {("x", i, 0): client.submit(block_of, i, rows, columns, key=("x", i, 0),
                                          workers=[addresses[i % len(addresses)]],
                                          allow_other_workers=True) for i in range(blocks)}
    wait(list(futures.values()))
    return da.Array(futures, "x", ((rows,) * blocks, (columns,)), dtype=float)


@pytest.fixture
def reducing(same):
    """`same`, with "reduce" switched on where there is such a switch, and off again."""
    def compare(prog):
        def switched(client, *cluster):
            rask.configure(client, ON)
            try:
                return prog(client, *cluster)
            finally:
                rask.configure(client, {"spliter.auto": None})
        if prog.__code__.co_argcount == 1:
            return same(lambda client: switched(client))
        return same(lambda client, cluster: switched(client, cluster))
    return compare


def test_values_are_those_of_stock(reducing):
    def prog(client):
        x = placed(client)
        exact = [x.astype(int).sum(), x.min(), x.max(axis=0).sum(), (x > 40).any(), x.sum(axis=1)[:5],
                 x.argmin(), x.sum()]
        rounded = [x.mean(axis=0), x.var(), x.std(axis=0)]
        found = client.gather(client.compute(exact + rounded))
        return found[:len(exact)], [np.round(value, 9) for value in found[len(exact):]]

    exact, _ = reducing(prog)
    whole = np.concatenate([block_of(i, 64, 64) for i in range(32)])
    assert exact[0] == int(whole.sum()) and exact[5] == whole.argmin()


@pytest.mark.skipif("rask" not in PAIRING.split("/")[0], reason="a switch of rask's scheduler")
def test_fewer_partials_move_than_with_batch(fresh):
    """Counted by the workers that send them."""
    cluster = fresh(n_workers=2, env={"DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False"})

    def sent(dask_worker):
        return dask_worker.transfer_outgoing_bytes_total, dask_worker.transfer_outgoing_count_total

    moved = {}
    with cluster.connected() as client:
        x = placed(client, rows=2, columns=4096)
        for mode in ("batch", "reduce"):
            rask.configure(client, {"spliter.auto": mode})
            before = client.run(sent)
            total = x.sum(axis=0).compute()
            after = client.run(sent)
            moved[mode] = [sum(after[w][i] - before[w][i] for w in after) for i in range(2)]
            assert total.shape == (4096,)
    partial = 4096 * 8
    assert moved["batch"][0] >= 16 * partial, moved  # eight groups of four neighbours, two from abroad
    assert moved["reduce"][0] < 3 * partial, moved  # the other worker's, and the result to the client
    assert moved["reduce"][1] < moved["batch"][1], moved


def slow_block(block, gate):
    gate()
    return block


@pytest.mark.fault("W1", "W2")
def test_a_worker_killed_while_partials_are_combined(reducing, tmp_path):
    runs = iter(range(10))

    def prog(client, cluster):
        gate = Gate(tmp_path, f"run{next(runs)}")
        x = placed(client, blocks=24)
        total = client.compute(x.map_blocks(slow_block, gate, meta=np.empty((0, 0))).sum())
        gate.wait_started(2)
        cluster.worker_process(sorted(workers_of(client))[0]).kill()
        gate.open()
        value = total.result()
        until(lambda: len(workers_of(client)) >= 1, "a worker")
        return value, x.sum().compute() == value

    whole = sum(block_of(i, 64, 64).sum() for i in range(24))
    assert reducing(prog) == (whole, True)


def test_blocks_with_copies_and_blocks_that_are_released(reducing):
    def prog(client):
        x = placed(client, blocks=20)
        blocks = [x.__dask_graph__()["x", i, 0] for i in range(6)]
        copies = [client.submit(len, blocks, workers=[w], pure=False) for w in workers_of(client)]
        wait(copies)
        first = client.compute(x.sum())
        again = client.compute([x.sum(), x.mean(), x.sum(axis=0).sum()])
        del x
        values = client.gather([first, *again])
        return values[0] == values[1] == values[3], float(values[2])

    whole = functools.reduce(operator.add, (block_of(i, 64, 64).sum() for i in range(20)))
    assert reducing(prog) == (True, whole / (20 * 64 * 64))
