"""Bad input to rask.spliter: a clear error, the same on rask and on stock clusters."""

from __future__ import annotations

import asyncio
import operator
from functools import reduce

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, wait
from programs import Gate, inc, until

import rask
from rask.spliter import SpliterError


def said(call):
    """Type and text of what a call raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return type(caught.value).__name__, str(caught.value)


def test_collections_that_are_not_persisted(same):
    def prog(client):
        array = da.ones((6,), chunks=2)
        frame = dd.from_pandas(pd.DataFrame({"a": range(6)}), npartitions=2)
        kept = array.persist()
        return [said(lambda: rask.spliter(x)) for x in (
            array, kept + 1, kept[:3], da.concatenate([kept, array]), frame,
            frame.persist() + 1, frame.persist().a,
            db.from_sequence(range(4)))]

    for name, text in same(prog):
        assert name == "SpliterError"
        assert "is not persisted" in text and "persist()" in text


def test_things_that_are_no_collections(same):
    def prog(client):
        a = client.submit(inc, 1)
        return [said(lambda: rask.spliter(x)) for x in (
            5, np.ones(3), [1, 2], [a, 3], {"a": a}, [], [a, a])]

    assert same(prog) == [
        ("TypeError", "spliter takes a persisted Dask array, DataFrame or bag, or a list of "
                      f"futures; got {name}") if name else other
        for name, other in (
            ("int", 0), ("ndarray", 0), ("", ("TypeError", "element 0 of the list is a int, not a "
                                                            "future")),
            ("", ("TypeError", "element 1 of the list is a int, not a future")), ("dict", 0),
            ("", ("SpliterError", "nothing to split: the futures has no blocks")),
            ("", ("SpliterError", "a block occurs twice; each block may be in one partition "
                                  "only")))]


def test_failed_and_cancelled_blocks_are_named(same):
    def prog(client):
        futures = client.map(lambda i: 1 / i, range(-2, 3), key=[f"block-{i}" for i in range(5)])
        failed = said(lambda: rask.spliter(futures))
        with pytest.raises(SpliterError) as caught:
            rask.spliter(futures)
        cause = type(caught.value.__cause__).__name__
        gone = client.map(inc, range(3), key=["gone-0", "gone-1", "gone-2"])
        wait(gone)
        client.cancel(gone[1])
        return failed, cause, said(lambda: rask.spliter(gone))

    assert same(prog) == (
        ("SpliterError", "1 of 5 blocks failed; the first is 'block-2': ZeroDivisionError: "
                         "division by zero"), "ZeroDivisionError",
        ("SpliterError", "1 of 3 blocks were cancelled; the first is 'gone-1'"))


def test_collections_of_which_a_part_failed(same):
    def prog(client):
        def picky(part):
            if len(part) and 7 in np.asarray(part):
                raise KeyError("seven")
            return part

        array = da.arange(12, chunks=3).map_blocks(picky, dtype=int)
        frame = dd.from_pandas(pd.DataFrame({"a": range(12)}), npartitions=4)
        frame = frame.map_partitions(picky, meta=frame)
        bag = db.from_sequence(range(12), npartitions=4).map_partitions(lambda p: picky(list(p)))
        return [said(lambda: rask.spliter(x.persist()))[1].split("; the first")[0]
                for x in (array, frame, bag)]

    assert same(prog) == ["1 of 4 blocks failed"] * 3


def test_collections_without_items(same):
    def prog(client):
        found = []
        for x in (da.ones((0,), chunks=2), da.ones((0, 3), chunks=(1, 1)),
                  dd.from_pandas(pd.DataFrame({"a": []}), npartitions=1),
                  db.from_sequence([1, 2, 3], npartitions=3).filter(lambda i: i > 5)):
            parts = rask.spliter(x.persist(), per=5)
            sizes = parts.reduce(operator.add, len).result()
            rows = [len(part.get_item_indexes()) for part in parts]
            found.append((sum(map(len, parts)), min(map(len, parts)) > 0, sizes, sum(rows)))
        return found

    # Items count along the axis that is cut: of no rows in three columns there are three.
    assert same(prog) == [(1, True, 0, 0), (3, True, 0, 3), (1, True, 0, 0), (3, True, 0, 0)]


def test_blocks_on_several_workers_are_in_one_partition_each(same):
    def prog(client):
        blocks = client.scatter([np.full(4, i) for i in range(10)], broadcast=True, hash=False)
        parts = rask.spliter(blocks)
        return (sorted(map(len, parts)), len({part.worker for part in parts}),
                sorted(i for part in parts for i in part.numbers) == list(range(10)),
                parts.reduce(operator.add, np.sum).result())

    assert same(prog) == ([5, 5], 2, True, 180)


def test_blocks_still_computed_are_waited_for_or_time_out(same, tmp_path):
    names = iter("abcdef")

    def prog(client):
        gate = Gate(tmp_path, next(names))
        slow = client.submit(gate, 5, key="slow")
        blocks = [client.submit(inc, 1), slow]
        blocks[0].result()
        late = said(lambda: rask.spliter(blocks, timeout=0.2))
        until(gate.started)
        gate.open_file.touch()
        return late, rask.spliter(blocks).reduce(operator.add).result()

    assert same(prog) == (
        ("TimeoutError", "1 of 2 blocks are not computed after 0.2 s; the first is slow"), 7)


def test_unknown_chunk_sizes_are_measured_and_rechunk_refuses(same):
    def prog(client):
        x = np.arange(20.0)
        y = da.from_array(x, chunks=5)
        y = y[y % 3 == 0].persist()
        parts = rask.spliter(y, per=2)
        rows = np.concatenate([part.get_item_indexes() for part in parts])
        values = np.concatenate(client.gather(parts.map(lambda b: b, pass_as="concat")))
        return ((x[::3][rows] == values).all(), parts.to_dask() is y,
                (parts.map_blocks(inc).to_dask().compute() == x[::3] + 1).all(),
                said(parts.rechunk))

    assert same(prog) == (True, True, True, (
        "SpliterError", "rechunk needs known chunk sizes; call x.compute_chunk_sizes() first"))


def test_the_error_of_a_function_says_at_which_block(same):
    def prog(client):
        y = da.from_array(np.arange(12.0).reshape(6, 2), chunks=(1, 1)).persist()
        parts = rask.spliter(y, per="worker")

        def picky(block):
            if 7.0 in block:
                raise KeyError("seven")
            return block

        found = []
        for futures in (parts.map(lambda blocks: [picky(b) for b in blocks]),
                        [part.held for part in parts.map_blocks(picky)],
                        [parts.reduce(operator.add, picky)]):
            wait(futures)
            errors = [future.exception() for future in futures if future.status == "error"]
            notes = [note.split("at ")[-1] for e in errors for note in e.__notes__]
            found.append((type(errors[0]).__name__, str(errors[0]), notes))
        named = client.map(float, range(6), key=[f"number-{i}" for i in range(6)])
        (bad,) = [future for future in rask.spliter(named).map(lambda b: [1 / (x - 3) for x in b])
                  if wait(future) and future.status == "error"]
        found.append((type(bad.exception()).__name__, bad.exception().__notes__[0].split("at ")[-1]))
        joined = parts.materialize().map(lambda blocks: [picky(b) for b in blocks])
        wait(joined)
        found.append([e.__notes__[0].split(",")[0].split(" of ")[-1] for e in
                      (f.exception() for f in joined) if e])
        return y.name, found

    name, found = same(prog)
    at = f"block (3, 1), key {(name, 3, 1)!r}"
    assert found == [("KeyError", "'seven'", [at])] * 3 + [
        ("ZeroDivisionError", "block 3, key 'number-3'"), ["2"]]


def test_a_combine_that_is_not_associative_folds_partitions_then_workers(same):
    """What docs/SPLITER.md promises of such a combine without ordered=True: no error, this value."""
    def prog(client):
        blocks = client.map(float, range(1, 13))
        parts = rask.spliter(blocks, per=3)
        found = parts.reduce(operator.sub).result()
        by_worker = {}
        for part in parts:
            values = [float(i + 1) for i in part.numbers]
            by_worker.setdefault(part.worker, []).append(reduce(operator.sub, values))
        partials = [reduce(operator.sub, values) for values in by_worker.values()]
        return found == reduce(operator.sub, partials)

    assert same(prog)


def test_results_that_cannot_be_joined_or_collected(same):
    def prog(client):
        y = da.ones((6,), chunks=2).persist()
        futures = rask.spliter(client.map(inc, range(4)))
        whole = futures.materialize()
        wait([part.held for part in whole])
        return [said(lambda: client.gather(whole[0].held)),
                said(lambda: rask.spliter(y).map_blocks(str).to_dask()),
                said(lambda: futures[0].get_item_indexes()),
                said(futures.rechunk),
                said(lambda: rask.spliter(y).rechunk(method="magic")),
                said(lambda: rask.spliter(y)[0].get_item_indexes(3)),
                said(lambda: rask.spliter(y).map(5)),
                said(lambda: rask.spliter(y).reduce(None)),
                said(lambda: rask.spliter(y).map(len, pass_as="tuple"))]

    assert [text.split(";")[0] for _, text in same(prog)] == [
        "blocks of type int cannot be joined into one",
        "the results are not arrays",
        "block (0,) has no length, so its items have no numbers",
        "a list of futures has no order to cut anew",
        "method='magic' is not \"tasks\" or \"p2p\"",
        "axis=3: the blocks have 1 axes",
        "fn must be callable, not int",
        "combine must be callable, not NoneType",
        "pass_as='tuple' is not one of ('iter', 'list', 'concat')"]


def test_clients_that_do_not_fit(rask_cluster, stock_cluster):
    with rask_cluster.client() as one, stock_cluster.client() as other:
        mixed = [one.submit(inc, 1), other.submit(inc, 2)]
        with pytest.raises(SpliterError, match="different clients"):
            rask.spliter(mixed)


def test_an_asynchronous_client_is_refused(rask_cluster):
    async def prog():
        async with Client(rask_cluster.address, asynchronous=True) as client:
            with pytest.raises(TypeError, match="asynchronous"):
                rask.spliter([client.submit(inc, 1)])

    asyncio.run(prog())


def test_the_switch_for_unmodified_programs_is_the_schedulers():
    with pytest.raises(AttributeError, match="DASK_RASK__SPLITER__AUTO"):
        rask.spliter.auto = "batch"
