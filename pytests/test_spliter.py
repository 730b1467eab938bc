"""rask.spliter by a stock client: the same programs on rask and on stock clusters, against NumPy."""

from __future__ import annotations

import math
import operator

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from conftest import SCHEDULER
from distributed import Future, wait
from programs import until, workers_of

import rask
from rask.spliter import partitions, placement

GRIDS = [
    ((40,), ((7, 1, 12, 0, 15, 5),)),
    ((12, 6), ((3, 4, 5), (6,))),
    ((6, 12), ((6,), (2, 2, 8))),
    ((9, 8), ((2, 3, 4), (5, 3))),
    ((4, 5, 6), ((2, 2), (3, 2), (1, 5))),
    ((2, 3, 4, 5), ((1, 1), (3,), (2, 2), (4, 1))),
]


def numbered(shape, chunks):
    """An array whose elements are their own flat positions."""
    x = np.arange(int(np.prod(shape)), dtype=float).reshape(shape)
    return x, da.from_array(x, chunks=chunks).persist()


def held_once(parts, client):
    """Every block is in one partition, on a worker that holds it, and no partition is empty."""
    numbers = sorted(i for part in parts for i in part.numbers)
    assert numbers == list(range(len(parts.source.blocks)))
    assert all(len(part) for part in parts)
    holders = client.who_has(parts.source.blocks)
    return all(part.worker in holders[block.key] for part in parts for block in part)


def test_item_indexes_are_right_for_ragged_chunks_on_any_axis(same):
    def prog(client):
        for shape, chunks in GRIDS:
            x, y = numbered(shape, chunks)
            for per in ("worker", "thread", "numa", 3):
                parts = rask.spliter(y, per=per)
                assert held_once(parts, client)
                for part in parts:
                    check(x, y, part, client.gather(part.blocks))
        return True

    def check(x, y, part, blocks):
        assert part.get_indexes() == sorted(part.get_indexes())
        flat = np.concatenate([block.ravel() for block in blocks])
        assert (x.ravel()[part.get_item_indexes("flat")] == flat).all()
        for axis in range(x.ndim):
            edges = np.cumsum([0, *y.chunks[axis]])
            rows = [range(edges[i[axis]], edges[i[axis] + 1]) for i in part.get_indexes()]
            assert part.get_item_indexes(axis).tolist() == [row for run in rows for row in run]

    assert same(prog)


def test_map_hands_out_blocks_in_array_order_in_three_forms(same):
    def prog(client):
        x, y = numbered((30, 2), ((4, 6, 10, 3, 7), (2,)))
        parts = rask.spliter(y, per=2)
        found = []
        for pass_as, take in [("iter", lambda b: np.concatenate(list(b))),
                              ("list", np.concatenate), ("concat", np.array)]:
            values = client.gather(parts.map(take, pass_as=pass_as))
            expected = [x[part.get_item_indexes()] for part in parts]
            found.append(all((a == b).all() for a, b in zip(values, expected)))
        return found

    assert same(prog) == [True, True, True]


def test_submit_on_one_partition_takes_arguments_of_its_own(same):
    def prog(client):
        x, y = numbered((40, 3), ((7, 1, 12, 15, 5), (3,)))
        parts = rask.spliter(y, per=2)
        sums = [part.submit(lambda block, rows: (block.sum(), x[rows].sum()), part.get_item_indexes(),
                            pass_as="concat") for part in parts]
        with pytest.raises(ValueError, match="pass_as"):
            parts[0].submit(sum, pass_as="pieces")
        return all(found == wanted for found, wanted in client.gather(sums))

    assert same(prog)


def test_arguments_may_be_futures_and_names_of_submit(same):
    def prog(client):
        _, y = numbered((10,), (3,))
        more = client.submit(operator.add, 1, 1)
        values = rask.spliter(y).map(lambda blocks, a, b, key: sum(map(np.sum, blocks)) * a + b + key,
                                     more, 0.5, key=0.25)
        return sum(client.gather(values)) - 0.75 * len(values)

    assert same(prog) == 90.0


@pytest.mark.parametrize("options", [{}, {"many": True}, {"ordered": True},
                                     {"ordered": True, "many": True}])
def test_reduce_gives_one_future_of_all_blocks(same, options):
    def combine(a, b=None):
        return sum(a) if options.get("many") else a + b

    def prog(client):
        x, y = numbered((50, 3), ((7, 8, 9, 10, 16), (2, 1)))
        parts = rask.spliter(y, per=3)
        return [parts.reduce(combine, np.sum, **options).result(),
                parts.reduce(combine, lambda b, k: b.sum() * k, k=2, **options).result()]

    x = np.arange(150.0)
    assert same(prog) == [x.sum(), 2 * x.sum()]


def test_a_combine_that_is_not_associative_is_right_when_ordered(same):
    def prog(client):
        _, y = numbered((24,), (3,))
        values = rask.spliter(y, per="worker").reduce(lambda a, b: a - b, np.sum, ordered=True)
        words = rask.spliter(client.map(str, range(12)), cut="cyclic", per=2)
        return values.result(), words.reduce(operator.add, ordered=True).result()

    sums = np.arange(24.0).reshape(8, 3).sum(1)
    assert same(prog) == (sums[0] - sums[1:].sum(), "01234567891011")


def test_map_blocks_keeps_places_and_becomes_a_collection(same):
    def prog(client):
        x, y = numbered((9, 8), ((2, 3, 4), (5, 3)))
        doubled = rask.spliter(y, per=2).map_blocks(lambda b: b * 2)
        cut = doubled.map_blocks(lambda b: b[:1].astype(int)).to_dask()
        again = doubled.to_dask()
        sums = doubled.reduce(operator.add, np.sum).result()
        return ((again.compute() == 2 * x).all(), again.chunks, cut.chunks, str(cut.dtype),
                (cut.compute() == 2 * x[[0, 2, 5]]).all(), sums == 2 * x.sum())

    assert same(prog) == (True, ((2, 3, 4), (5, 3)), ((1, 1, 1), (5, 3)), "int64", True, True)


def test_materialized_partitions_are_one_contiguous_object_each(same):
    def prog(client):
        x, y = numbered((31, 4), ((4, 6, 10, 3, 7, 1), (4,)))
        whole = rask.spliter(y, per="worker").materialize()
        values = client.gather([part.held for part in whole])
        rows = [part.get_item_indexes() for part in whole]
        again = whole.to_dask()
        return (all(v.flags.c_contiguous and (v == x[r]).all() for v, r in zip(values, rows)),
                (again.compute() == x[np.concatenate(rows)]).all(),
                sorted(np.concatenate(rows)) == list(range(31)),
                whole.reduce(operator.add, np.sum).result() == x.sum(),
                client.gather(whole.map(lambda b: [len(i) for i in b])) == [[len(v)] for v in values],
                all([*client.who_has([part.held]).values()][0] == (part.worker,) for part in whole))

    assert same(prog) == (True,) * 6


def on_one_worker(client, blocks):
    """Copies all blocks to one worker and splits as if it were the only holder."""
    home = min(client.nthreads())
    client.submit(len, blocks, workers=[home], pure=False).result()
    return home


def test_materialized_boxes_of_a_grid(same):
    def prog(client):
        x, y = numbered((9, 8), ((2, 3, 4), (5, 3)))
        home = on_one_worker(client, list(y.dask.values()))
        source = rask.spliter(y).source
        found = []
        for numbers in ([0, 1, 2, 3, 4, 5], [0, 2, 4], [1, 5], [4], [0, 1, 4, 5], [0, 1, 2]):
            parts = rask.spliter.Partitions(source, 1, "bytes", [(home, numbers)])
            try:
                (part,) = parts.materialize()
            except rask.spliter.SpliterError as error:
                found.append(str(error)[:43])
                continue
            rows = np.ix_(part.get_item_indexes(0), part.get_item_indexes(1))
            found.append(bool((client.gather(part.held) == x[rows]).all()))
        return found

    assert same(prog) == [True] * 5 + ["the blocks of a partition neither fill a bo"]


def test_held_partitions_are_one_dependency_and_the_same_blocks(same):
    def prog(client):
        x, y = numbered((40,), (2,))
        parts = rask.spliter(y, per=2).hold()
        sums = [parts.reduce(operator.add, np.sum, pure=False).result() for _ in range(3)]
        first = client.gather(parts[0].blocks)
        return sums, (np.concatenate(first) == x[parts[0].get_item_indexes()]).all()

    assert same(prog) == ([780.0] * 3, True)


def test_a_dataframe_a_series_and_a_bag(same):
    def prog(client):
        frame = pd.DataFrame({"a": range(50), "b": np.arange(50) % 3})
        df = dd.from_pandas(frame, npartitions=6).persist()
        parts = rask.spliter(df, per=2)
        rows = [part.get_item_indexes() for part in parts]
        joined = client.gather(parts.map(len, pass_as="concat"))
        head = parts.map_blocks(lambda b: b.head(1)).to_dask().compute()
        series = rask.spliter(df.a.persist())
        bag = db.from_sequence(range(20), npartitions=7).persist()
        items = rask.spliter(bag)
        same_rows = [frame.iloc[r].equals(f) for r, f in zip(rows, client.gather(
            parts.map(lambda b: b, pass_as="concat")))]
        return (sum(joined), all(same_rows), sorted(np.concatenate(rows)) == list(range(50)),
                head.a.tolist(), series.reduce(operator.add, lambda s: int(s.sum())).result(),
                items.reduce(operator.add, sum).result(),
                sorted(items.materialize().to_dask().compute()),
                items.map_blocks(len).map(sum, pass_as="list") is not None,
                parts.rechunk().npartitions == len(parts),
                parts.to_dask() is df)

    result = same(prog)
    assert result[:3] == (50, True, True)
    assert result[4:7] == (1225, 190, list(range(20)))
    assert result[7:] == (True, True, True)


def test_every_cut_and_scheme_covers_all_blocks(same):
    def prog(client):
        _, y = numbered((500,), (5,))
        found = set()
        for cut in placement.CUTS:
            parts = rask.spliter(y, per=4, cut=cut)
            assert held_once(parts, client)
            found.add(parts.reduce(operator.add, np.sum, pure=False).result())
        return found

    assert same(prog) == {np.arange(500.0).sum()}


@pytest.mark.parametrize("scheme,sizes", [
    ("STATIC", [250] * 4), ("SS", [1] * 1000), ("MFSC", [31] * 32 + [8]),
    ("TSS", [125, 117, 109, 101, 93, 85, 77, 69, 61, 53, 45, 37, 28]),
    ("FAC2", [125] * 4 + [63] * 4 + [32] * 4 + [16] * 4 + [8] * 4 + [4] * 4 + [2] * 4),
    ("GSS", [250, 188, 141, 106, 79, 59, 45, 33, 25, 19, 14, 11, 8, 6, 4, 3, 3, 2] + [1] * 4),
    ("TFSS", [113] * 4 + [81] * 4 + [49] * 4 + [17, 11]),
    ("FISS", [27] * 4 + [29] * 4 + [31] * 4 + [33] * 4 + [35] * 4 + [37] * 4 + [39] * 4 + [41, 35]),
    ("VISS", [27] * 4 + [40] * 4 + [47] * 4 + [50] * 4 + [52] * 4 + [53, 53, 30]),
    ("PLS", [125] * 5 + [94, 71, 53, 40, 30, 22, 17, 12, 9, 7, 5, 4, 3, 2, 2] + [1] * 4),
    ("PSS", [167, 139, 116, 97, 81, 67, 56, 47, 39, 32, 27, 22, 19, 16, 13, 11, 9, 7, 6, 5, 4, 4,
             3, 3, 2, 2] + [1] * 6),
])
def test_schemes_are_those_of_the_scheduler(scheme, sizes):
    assert placement.chunks(scheme, 1000, 4) == sizes
    assert placement.chunks("FISS", 1000, 4, batches=3) == [50] * 4 + [83] * 4 + [116] * 4 + [4]


@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_rechunk_has_a_block_per_partition(same, method):
    def prog(client):
        x, y = numbered((30, 4), ((1,) * 30, (4,)))
        z = rask.spliter(y, per=2).rechunk(method=method)
        return z.numblocks, (z.compute() == x).all()

    assert same(prog) == ((4, 1), True)


def test_refresh_follows_blocks_that_moved(same):
    def prog(client):
        x, y = numbered((40,), (4,))
        parts = rask.spliter(y)
        assert parts.refresh() is parts

        def spread():  # copies nobody waits for may be dropped again at any time
            for worker in client.nthreads():
                client.submit(len, list(y.dask.values()), workers=[worker], pure=False).result()
            moved = parts.refresh()
            return moved if len(moved) == 2 and abs(len(moved[0]) - len(moved[1])) <= 1 else None

        moved = until(spread, "blocks on both workers")
        return parts.reduce(operator.add, np.sum).result(), \
            moved.reduce(operator.add, np.sum).result()

    assert same(prog) == (780.0, 780.0)


def test_no_block_moves(fresh):
    cluster = fresh(n_workers=3)
    with cluster.connected() as client:
        x = da.random.default_rng(1).random((90_000, 5), chunks=(1000, 5)).persist()
        wait(x)
        before = sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
                     .values())
        parts = rask.spliter(x, per="thread")
        wait(parts.map(lambda blocks: None and list(blocks)))
        wait([part.held for part in parts.materialize()])
        after = sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
                    .values())
    assert after == before


@pytest.mark.parametrize("scheduler", ["rask", "stock"])
def test_stock_and_rask_workers_in_one_cluster(fresh, scheduler):
    """Each takes its blocks as its kind does: a rask worker one by one, a stock worker all at once."""
    cluster = fresh(scheduler, "stock", n_workers=1)
    cluster.kinds = (scheduler, "rask")
    cluster.add_worker()
    with cluster.connected() as client:
        workers = sorted(workers_of(client))
        assert len(workers) == 2
        x = np.arange(600.0)
        blocks = [client.submit(np.arange, 10.0 * i, 10.0 * i + 10, workers=[workers[i % 2]])
                  for i in range(60)]
        parts = rask.spliter(blocks)
        assert [part.worker for part in parts] == workers and held_once(parts, client)
        for pass_as in partitions.PASS_AS:
            found = client.gather(parts.map(lambda b: np.concatenate([np.ravel(i) for i in b]).sum(),
                                            pass_as=pass_as))
            assert sum(found) == x.sum()
        assert parts.reduce(operator.add, np.sum).result() == x.sum()
        assert parts.reduce(operator.sub, np.sum, ordered=True).result() == 2 * x[:10].sum() - x.sum()
        joined = client.gather([part.held for part in parts.materialize()])
        rows = [np.concatenate([x[10 * i:10 * i + 10] for i in part.get_indexes()]) for part in parts]
        assert all((a == b).all() for a, b in zip(joined, rows))
        assert all(len(held) == 1 for held in client.who_has(blocks).values())


@pytest.mark.parametrize(("shape", "chunks"), [((600,), (1,)), ((1, 600), (1, 1)),
                                               ((30, 5, 6), (1, 1, 1))])
def test_partitions_of_many_blocks(same, shape, chunks):
    """Blocks that travel as a name and numbers, to rask workers and to stock ones."""
    def prog(client):
        x = np.arange(math.prod(shape), dtype=float).reshape(shape)
        worker = min(client.nthreads())
        y = da.from_array(x, chunks=chunks).persist(workers=[worker])
        parts = rask.spliter(y)
        assert [len(part) for part in parts] == [x.size]
        assert len(parts[0]) >= partitions.MANY
        taken = client.gather(parts.map(lambda blocks: [float(b.ravel()[0]) for b in blocks]))
        assert taken == [x.ravel().tolist()]
        return (parts.reduce(operator.add, np.sum).result(),
                parts.hold().reduce(operator.add, np.sum).result(),
                (parts.map_blocks(np.negative).to_dask().compute() == -x).all(),
                client.gather(parts.materialize()[0].held).sum())

    total = sum(range(math.prod(shape)))
    assert same(prog) == (total, total, True, total)


@pytest.mark.skipif(SCHEDULER != "rask", reason="an operation of rask's scheduler")
def test_a_rask_scheduler_says_where_the_blocks_of_an_array_are(fresh):
    """Without their keys: `rask_holders` says what `who_has` says."""
    # The memory manager would drop the copies.
    cluster = fresh(n_workers=3, env={"DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False"})
    with cluster.connected() as client:
        for shape, chunks in GRIDS:
            x = numbered(shape, chunks)[1]
            wait(x)
            names = [(x.name, *place) for place in np.ndindex(*x.numblocks)]
            client.submit(len, [Future(names[0]), Future(names[-1])], pure=False,
                          workers=[list(workers_of(client))[0]]).result()  # makes copies
            told = client.sync(client.scheduler.rask_holders, name=x.name, shape=list(x.numblocks))
            holders = [told["sets"][number] for number in np.frombuffer(told["of"], "<u4")]
            assert dict(zip(names, map(sorted, holders))) == \
                {key: sorted(held) for key, held in client.sync(client.scheduler.who_has, keys=names).items()}
        ask = client.scheduler.rask_holders
        nobody = client.sync(ask, name="unknown", shape=[2])
        assert (nobody["sets"], nobody["of"]) == (((),), bytes(8))
        for shape in ([1 << 40, 1 << 40], [-1], ["x"], [1] * 65):
            with pytest.raises(ValueError, match="no such blocks"):
                client.sync(ask, name="unknown", shape=shape)
        with pytest.raises(Exception, match="name"):
            client.sync(ask, shape=[1])
