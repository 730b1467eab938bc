"""The graph process, driven over its link, against what stock's scheduler makes of the same bytes.

Every run spec must unpickle to the node that a stock worker would get, with the same dependencies
and priorities that are an order.
"""

from __future__ import annotations

import functools
import operator
import os
import pickle
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import msgpack
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from dask._expr import FinalizeCompute, HLGExpr, LLGExpr
from dask._task_spec import Alias, DataNode, Task, TaskRef
from dask.base import collections_to_expr, flatten
from distributed.client import Future, _MapExpr
from distributed.protocol.serialize import Serialized, serialize, to_serialize
from graph_link import Died, GraphProcess
from nodes import StockProcess, differences

OFFSET = 3


@pytest.fixture(scope="module")
def process():
    with GraphProcess() as process:
        yield process


@pytest.fixture(scope="module")
def stock():
    with StockProcess() as stock:
        yield stock


def computed(*collections, optimize_graph=True):
    """The expression client.compute sends, and the keys it wants."""
    expr = FinalizeCompute(collections_to_expr(list(collections), optimize_graph)).optimize()
    return expr, list(flatten(expr.__dask_keys__()))


def persisted(*collections):
    expr = collections_to_expr(list(collections)).optimize()
    return expr, list(flatten(expr.__dask_keys__()))


def graph(dsk):
    """The expression client.submit and client.get send."""
    return LLGExpr(dsk, _determ_token=uuid.uuid4().hex)


def mapped(function, *columns, kwargs=None, keys=None):
    """The expression client.map sends."""
    keys = keys or [f"f-{i}" for i in range(min(map(len, columns)))]
    return _MapExpr(function, list(columns), "f", False, {}, kwargs or {}, keys), list(keys)


def assert_like_stock(process, stock, expr, wanted, order=True):
    answer = process.submit(expr, wanted, order=order)
    assert answer.error is None, answer.error["exception_text"] + answer.error["traceback_text"]
    expected = stock(expr, wanted, order)
    assert set(answer.keys) == set(expected.nodes)
    assert set(answer.records) == set(answer.keys)
    numbered = answer.all_keys()
    for key, record in answer.records.items():
        (spec, buffers), dependencies, data_producer = expected.nodes[key]
        assert {numbered[d] for d in record.dependencies} == set(dependencies)
        assert len(record.dependencies) == len(dependencies)
        assert bool(record.flag & 1) == data_producer
        node = pickle.loads(spec, buffers=buffers)
        assert not (found := differences(record.node(), node, repr(key))), found[:5]
    needed = {d for _, dependencies, _ in expected.nodes.values() for d in dependencies}
    assert set(answer.outside) == needed - set(expected.nodes)
    if order:
        assert_an_order(answer, expected.nodes)
    return answer


def assert_an_order(answer, nodes):
    """Each place once, and no task before what it needs.

    Which of several good orders it is depends on how sets of strings are hashed, also in stock;
    how good it is, is measured in test_ordering.py.
    """
    places = {key: record.priority for key, record in answer.records.items()}
    assert sorted(places.values()) == list(range(len(places)))
    for key, (_, dependencies, _) in nodes.items():
        for dependency in dependencies:
            assert places.get(dependency, -1) < places[key]


# ---- map and submit -----------------------------------------------------------------------------


def inc(x, by=1):
    return x + by


class Point:
    def __init__(self, x):
        self.x = x


MAPS = {
    "importable": lambda: mapped(operator.neg, list(range(300))),
    "by value": lambda: mapped(lambda x: x + OFFSET, list(range(300))),
    "three columns": lambda: mapped(max, [1, 2, 300], [2.5, -1.0, 1e9], [True, 2**40, -(2**70)]),
    "five columns": lambda: mapped(max, *[list(range(i, i + 9)) for i in range(5)]),
    "strings": lambda: mapped(str.upper, ["a", "é" * 300, "a", "", "x" * 5000]),
    "kwargs": lambda: mapped(inc, [1, 2, 3], kwargs={"by": 7}),
    "constant column": lambda: mapped(operator.getitem, [{"a": 1}] * 5, ["a"] * 5),
    "large values": lambda: mapped(len, [b"x" * 100_000, b"y" * 70_000, "z" * 200_000]),
    "large repeats": lambda: mapped(len, [b"x" * 2000] * 4 + [b"y" * 2000] * 4),
    "large values in a row": lambda: mapped(max, [b"", b"x" * 100_000, b"y" * 7], [b"z", b"y" * 70_000, b"w"]),
    "large values in containers": lambda: mapped(len, [[b"x" * 100_000, 1, 2], ("y" * 70_000, "z")]),
    "arrays": lambda: mapped(np.sum, [np.arange(i * 100) for i in range(10)]),
    "a shared array": lambda: mapped(np.add, [np.ones(1000)] * 9, list(range(9))),
    "containers": lambda: mapped(len, [[1, [2]], (3,), {"a": {4}}, set(), None]),
    "same object twice in a row": lambda: mapped(operator.is_, [[1], [2]], [[1], [2]]),
    "instances": lambda: mapped(repr, [Point(i) for i in range(5)]),
    "functions as values": lambda: mapped(callable, [lambda: 1, len, inc, functools.partial(inc, 2)]),
    "partial": lambda: mapped(functools.partial(inc, by=OFFSET), [1, 2]),
    "bound method": lambda: mapped([1, 2, 3].__getitem__, [0, 1]),
    "a class": lambda: mapped(Point, [1, 2]),
    "futures": lambda: mapped(inc, [Future("a"), Future("b"), 5]),
    "a column of futures": lambda: mapped(inc, [Future(("x", i, 0)) for i in range(5000)]),
    "futures beside values": lambda: mapped(max, list(range(9)), [Future(f"x{i % 4}") for i in range(9)],
                                            ["s", b"t", None] * 3, [Future("y")] * 9),
    "a future twice": lambda: mapped(max, [Future("a"), Future("b")], [Future("a"), Future("a")],
                                     kwargs={"default": 3}),
    "futures and arrays": lambda: mapped(np.add, [np.arange(i * 100) for i in range(5)],
                                         [Future(("x", i)) for i in range(5)]),
    "futures and large repeats": lambda: mapped(max, [Future("a"), Future("b")] * 3,
                                                [b"x" * 2000] * 3 + [b"y" * 2000] * 3),
    "futures and functions": lambda: mapped(map, [lambda x: x, inc], [Future("a"), Future("b")]),
    "futures with odd keys": lambda: mapped(inc, [Future(b"a"), Future(2.5), Future(("b", ("c", -1)))]),
    "futures of its own": lambda: mapped(inc, [Future("f-1"), Future("b")]),
    "nested futures": lambda: mapped(sum, [[Future("a"), 1], [2, {"k": Future(("b", 1))}]]),
    "equal keys": lambda: mapped(inc, [1, 1, 2], keys=["a", "a", "b"]),
    "tuple keys": lambda: mapped(inc, [1, 2, 3], keys=[("a", 1), ("a", 2.5), ("b", ("c", -1))]),
    "odd keys": lambda: mapped(inc, [1, 2, 3], keys=["", "k" * 300, "é"]),
    "number keys": lambda: mapped(inc, [1, 2, 3], keys=[1, 2.5, 2**40]),
    "large kwarg": lambda: mapped(inc, [1, 2, 3], kwargs={"by": np.ones(20_000)}),
    "future kwarg": lambda: mapped(inc, [1, 2, 3], kwargs={"by": Future("z")}),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_is_what_stock_makes_of_it(process, stock, name):
    expr, wanted = MAPS[name]()
    assert_like_stock(process, stock, expr, wanted, order=False)


def test_spliced_pickles_satisfy_both_unpicklers(process):
    for name in ("three columns", "five columns", "strings", "large repeats", "kwargs", "large values",
                 "large values in a row", "large values in containers",
                 "futures beside values", "futures and arrays"):
        expr, wanted = MAPS[name]()
        answer = process.submit(expr, wanted, order=False)
        for record in answer.records.values():
            assert not differences(record.node(pickle._Unpickler), record.node())


def test_a_map_takes_effect_slice_by_slice(process):
    expr, wanted = mapped(operator.neg, list(range(10_000)))
    answer = process.submit(expr, wanted, order=False)
    assert answer.opened["append"] and answer.opened["tasks"] == 10_000
    assert answer.slices == 5
    assert answer.records["f-9999"].node()() == -9999


def test_what_siblings_share_is_sent_once(process):
    text = "x" * 50_000
    expr, wanted = mapped(lambda i: text[i], list(range(10_000)))
    assert process.submit(expr, wanted, order=False).bytes < 1_500_000
    blob = os.urandom(50_000)
    table = {i: os.urandom(60) for i in range(1000)}
    for shared in (blob, table):
        expr, wanted = mapped(operator.contains, [shared] * 2000, list(range(2000)))
        assert process.submit(expr, wanted, order=False).bytes < 500_000
    values = [os.urandom(5000) for _ in range(4)]
    expr, wanted = mapped(len, values * 500)
    assert process.submit(expr, wanted, order=False).bytes < 500_000
    dsk = {f"t{i}": Task(f"t{i}", operator.contains, table, i) for i in range(1000)}
    assert process.submit(graph(dsk), list(dsk)).bytes < 500_000
    dsk = {f"t{i}": Task(f"t{i}", lambda *a: text[0], [TaskRef("x")]) for i in range(1000)}
    assert process.submit(graph(dsk), list(dsk)).bytes < 500_000


SUBMITS = {
    "importable": lambda: Task("k", operator.add, 1, 2),
    "by value": lambda: Task("k", lambda x, y: x + y, 1, y=2),
    "two functions by value": lambda: Task("k", lambda f: f(OFFSET), lambda x: x),
    "instance": lambda: Task("k", repr, Point(Point(2))),
    "future": lambda: Task("k", inc, Alias("other")),
    "data producer": lambda: Task("k", inc, 1, _data_producer=True),
    "no arguments": lambda: Task("k", dict),
    "many arguments": lambda: Task("k", max, *range(300)),
    "array": lambda: Task("k", np.sum, np.arange(10_000)),
    "read-only array": lambda: Task("k", np.sum, _frozen(np.arange(10_000))),
    "frame": lambda: Task("k", len, pd.DataFrame({"a": range(1000), "b": list("xy") * 500})),
    "named tuple": lambda: Task("k", len, pd.Timestamp("2020-01-01").to_pydatetime().timetuple()),
    "data": lambda: DataNode("k", {"a": [1, 2, 3]}),
    "alias": lambda: Alias("k", "other"),
    "nested task": lambda: Task("k", inc, Task("inner", inc, TaskRef("dep"))),
}


def _frozen(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("name", SUBMITS)
def test_a_submit_is_what_stock_makes_of_it(process, stock, name):
    assert_like_stock(process, stock, graph({"k": SUBMITS[name]()}), ["k"], order=False)


def test_legacy_graphs_are_converted_and_culled(process, stock):
    dsk = {
        "x": 1,
        "y": (inc, "x"),
        ("z", 0): (sum, ["x", "y", 10]),
        "same": "same",
        "alias": "y",
        "data": {"a": [1, 2]},
        "unwanted": (inc, "y"),
        "future": Future("elsewhere"),
        "lambda": (lambda x: x + OFFSET, ("z", 0)),
    }
    assert_like_stock(process, stock, graph(dsk), [("z", 0), "alias", "data", "future", "lambda"])


# ---- collections --------------------------------------------------------------------------------


def _merge(n):
    return delayed(sum)([delayed(inc)(i) for i in range(n)])


def _tree(n):
    layer = [delayed(inc)(i) for i in range(n)]
    while len(layer) > 1:
        layer = [delayed(operator.add)(a, b) for a, b in zip(layer[::2], layer[1::2])]
    return layer[0]


def _ones(chunks):
    return da.ones((40, 40), chunks=chunks)


def _block(block_info=None):
    return np.zeros(3)


def _frame(n=200, npartitions=8):
    pdf = pd.DataFrame({"a": np.arange(n) % 7, "b": np.arange(n) * 1.5, "c": list("xyzw") * (n // 4)})
    return dd.from_pandas(pdf, npartitions=npartitions)


def _annotated():
    with dask.annotate(priority=3, retries=2):
        x = delayed(inc)(1, dask_key_name="x")
    with dask.annotate(workers=["alice"], allow_other_workers=True, resources={"GPU": 1}):
        y = delayed(inc)(x, dask_key_name="y")
    return delayed(inc)(y, dask_key_name="z")


def _xarray():
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(da.ones((40, 6, 6), chunks=(10, 3, 3)), dims=("time", "x", "y"))
    data = data.assign_coords(month=("time", np.arange(40) % 4))
    grouped = data.groupby("month")
    return (grouped - grouped.mean()).data


COLLECTIONS = {
    "delayed merge": lambda: computed(_merge(50)),
    "delayed tree": lambda: computed(_tree(32)),
    "delayed with a lambda": lambda: computed(delayed(lambda x: x + OFFSET)(delayed(inc)(1))),
    "delayed pure kwargs": lambda: computed(delayed(inc, pure=True)(1, by=delayed(inc)(2))),
    "delayed nested": lambda: computed(delayed(len)([{"a": delayed(inc)(1)}, (delayed(inc)(2), 3)])),
    "delayed attributes": lambda: computed(delayed("abc").upper().split("b")[0]),
    "several delayed": lambda: computed(_tree(4), _merge(3), delayed(5)),
    "delayed unoptimised": lambda: computed(_tree(8), optimize_graph=False),
    "delayed persisted": lambda: persisted(_merge(5), _tree(4)),
    "bag": lambda: computed(db.range(40, npartitions=4).map(lambda x: x % 3).frequencies()),
    "bag fold": lambda: computed(db.range(40, npartitions=4).filter(lambda x: x % 2).sum()),
    "bag groupby": lambda: computed(db.range(20, npartitions=3).groupby(lambda x: x % 3)),
    "array sum": lambda: computed((x := da.ones((40, 40), chunks=10)) + x.T, (x + x.T).sum()),
    "array persisted": lambda: persisted(da.random.random((40, 40), chunks=10) @ _ones(10)),
    "array overlap": lambda: computed(_ones(10).map_overlap(lambda b: b * 2, depth=1)),
    "array rechunk": lambda: computed(_ones((40, 1)).rechunk((1, 40), method="tasks").sum()),
    "array rechunk p2p": lambda: computed(_ones((40, 10)).rechunk((10, 40), method="p2p")),
    "array qr": lambda: computed(*da.linalg.qr(da.ones((80, 5), chunks=(20, 5)))),
    "array from numpy": lambda: computed(da.from_array(np.eye(40), chunks=10).mean(axis=0)),
    "array and delayed": lambda: computed(da.ones(10, chunks=5).sum(), _tree(4)),
    "array blocks": lambda: computed(da.map_blocks(_block, chunks=((3,) * 4,), dtype=float)),
    "frame groupby": lambda: computed(_frame().groupby("a").b.mean()),
    "frame merge": lambda: computed(_frame().merge(_frame(40, 3), on="a", shuffle_method="tasks")),
    "frame shuffle": lambda: computed(_frame().shuffle("a", shuffle_method="tasks")),
    "frame shuffle p2p": lambda: computed(_frame().shuffle("a", shuffle_method="p2p")),
    "frame merge p2p": lambda: computed(_frame().merge(_frame(160, 6), on="a", shuffle_method="p2p")),
    "frame map_partitions": lambda: persisted(_frame().map_partitions(lambda d: d.assign(z=1))),
    "frame and array": lambda: computed(_frame().b.sum(), da.ones(10, chunks=5).sum()),
    "annotated": lambda: computed(_annotated(), optimize_graph=False),
    "xarray": lambda: computed(_xarray()),
    "high level graph": lambda: ((e := HLGExpr(da.ones(10, chunks=5).sum().dask)), list(e.__dask_keys__())),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_collection_is_what_stock_makes_of_it(process, stock, name):
    expr, wanted = COLLECTIONS[name]()
    assert_like_stock(process, stock, expr, wanted)


# ---- annotations --------------------------------------------------------------------------------


def test_annotations_are_resolved_per_task_with_layers_over_global(process):
    expr, wanted = computed(_annotated(), optimize_graph=False)
    answer = process.submit(expr, wanted, annotations={"priority": 1, "span": {"name": ("a",)}})
    sets = {key: record.annotations for key, record in answer.records.items()}
    assert (sets["x"]["priority"], sets["x"]["retries"], sets["x"]["workers"]) == (3, 2, ())
    assert (sets["y"]["priority"], sets["y"]["workers"]) == (1, ("alice",))
    assert sets["y"]["allow_other_workers"] and sets["y"]["resources"] == {"GPU": 1.0}
    assert (sets["z"]["priority"], sets["z"]["retries"]) == (1, 0)
    raw = msgpack.unpackb(sets["z"]["raw"])
    assert raw == {"priority": 1, "span": {"name": ["a"]}}


def test_annotation_callables_are_called_with_the_key(process):
    expr, wanted = mapped(operator.neg, [1, 2, 3])
    answer = process.submit(
        expr, wanted, order=False, annotations={"priority": lambda key: int(key[2:]), "other": {1, 2}}
    )
    assert [r.annotations["priority"] for r in answer.records.values()] == [0, 1, 2]
    raw = msgpack.unpackb(answer.records["f-2"].annotations["raw"])
    assert raw["other"] == {"__Set__": True, "as-list": [1, 2]}


def test_annotations_that_msgpack_cannot_hold_are_pickled(process):
    expr, wanted = mapped(operator.neg, [1])
    answer = process.submit(expr, wanted, order=False, annotations={"other": 1 + 2j, "retries": 4})
    annotations = answer.records["f-0"].annotations
    assert annotations["retries"] == 4
    assert pickle.loads(annotations["pickled"]) == {"other": 1 + 2j, "retries": 4}


@pytest.mark.parametrize(
    "annotations",
    [{"retries": "many"}, {"resources": ["GPU"]}, {"priority": "high"}, {"priority": lambda k: 1 / 0}],
)
def test_annotations_that_make_no_sense_fail_the_submission(process, annotations):
    expr, wanted = mapped(operator.neg, [1])
    answer = process.submit(expr, wanted, order=False, annotations=annotations)
    assert type(answer.exception()) in (AssertionError, TypeError, ZeroDivisionError)


# ---- what goes wrong ----------------------------------------------------------------------------


class Explodes:
    """Raises when it is unpickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        return _explode, (self.error,)


def _explode(error):
    raise error


class Calls:
    """Calls something when it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def test_a_graph_that_cannot_be_unpickled_errs_as_stock_does(process):
    expr = graph({"x": Task("x", inc, Explodes(ModuleNotFoundError("No module named 'nope'")))})
    answer = process.submit(expr, ["x"])
    error = answer.exception()
    assert type(error) is RuntimeError
    assert str(error).startswith("\nError during deserialization") or "deserialization" in str(error)
    assert type(error.__cause__) is ModuleNotFoundError
    assert pickle.loads(answer.error["traceback"]) is not None


def test_a_graph_that_cannot_be_materialised_errs_with_its_exception(process):
    class Refuses:
        def __dask_graph__(self):
            raise KeyError("no graph")

    error = process.submit(Refuses(), ["x"]).exception()
    assert type(error) is KeyError and error.args == ("no graph",)


def test_a_cyclic_graph_errs(process):
    dsk = {"a": Task("a", inc, TaskRef("b")), "b": Task("b", inc, TaskRef("a"))}
    error = process.submit(graph(dsk), ["a"]).exception()
    assert "cycle" in str(error).lower()


def test_system_exit_while_unpickling_errs_only_that_submission(process):
    expr = graph({"x": Task("x", inc, Calls(sys.exit, 3))})
    assert process.submit(expr, ["x"]).error["exception_text"].startswith("SystemExit")
    assert_still_works(process)


def test_an_empty_dict_is_an_empty_graph(process):
    answer = process.submit(None, ["x"], expr_ser=Serialized(*serialize(to_serialize({}))))
    assert answer.error is None and not answer.records


def test_a_task_that_cannot_be_pickled_again_raises_on_its_worker(process):
    dsk = {"x": Task("x", inc, Calls(threading.Lock)), "y": Task("y", inc, 1)}
    answer = process.submit(graph(dsk), ["x", "y"])
    assert answer.records["y"].node()() == 2
    with pytest.raises(TypeError, match="cannot pickle"):
        answer.records["x"].node()()


def test_illegal_keys_err(process):
    dsk = {None: Task(None, inc, 1), "x": Task("x", inc, TaskRef(None))}
    assert type(process.submit(graph(dsk), ["x"]).exception()) is TypeError


def test_a_process_that_is_killed_by_its_graph_is_gone():
    with GraphProcess() as process:
        with pytest.raises(Died, match="-6"):
            process.submit(graph({"x": Task("x", inc, Calls(os.abort))}), ["x"])


def test_prints_do_not_reach_the_link():
    with GraphProcess(stdout=subprocess.DEVNULL) as process:
        noise = Calls(print, "x" * 10_000_000)
        answer = process.submit(graph({"x": Task("x", inc, noise)}), ["x"])
        assert answer.error is None


def test_a_dropped_submission_is_skipped(process):
    first = process.post(*mapped(operator.neg, list(range(50_000))), order=False)
    second = process.post(*mapped(operator.neg, [1, 2]), order=False)
    process.send({"op": "drop", "id": second})
    assert len(process.answer(first).records) == 50_000
    answer = process.answer(second)
    assert answer.error is None


def assert_still_works(process):
    expr, wanted = mapped(operator.neg, [1])
    assert process.submit(expr, wanted, order=False).records["f-0"].node()() == -1


# ---- large arguments ----------------------------------------------------------------------------


def test_a_large_argument_is_a_reference_into_what_was_sent(process):
    array = np.random.default_rng(0).random(1_000_000)
    answer = process.submit(graph({"x": Task("x", np.sum, array)}), ["x"], order=False)
    assert answer.bytes < 100_000
    node = answer.records["x"].node()
    assert node() == array.sum() and node.args[0].flags.writeable


def _memory(process, name):
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_large_array_is_not_copied(process, tasks):
    array = np.ones(25_000_000)
    before = _memory(process, "VmHWM")
    expr, wanted = mapped(np.sum, [array] * tasks)
    assert process.submit(expr, wanted, order=False).bytes < 100_000
    assert process.submit(graph({"x": Task("x", np.sum, array)}), ["x"], order=False).bytes < 100_000
    assert _memory(process, "VmHWM") - before < array.nbytes / 10


def test_large_bytes_made_while_expanding_come_as_memfd(process):
    make = Calls(operator.mul, b"x", 3_000_000)
    answer = process.submit(graph({"x": Task("x", len, make)}), ["x"], order=False)
    assert answer.records["x"].node()() == 3_000_000


# ---- order --------------------------------------------------------------------------------------


def test_the_native_order_puts_dependencies_first():
    pytest.importorskip("rask._native._graph")
    with GraphProcess(order="native") as process:
        for name in ("array sum", "frame merge", "delayed tree"):
            expr, wanted = COLLECTIONS[name]()
            answer = process.submit(expr, wanted)
            places = {key: record.priority for key, record in answer.records.items()}
            assert len(set(places.values())) == len(places)
            for key, record in answer.records.items():
                for number in record.dependencies:
                    assert places[answer.keys[number]] < places[key]
        dsk = {"a": Task("a", inc, TaskRef("b")), "b": Task("b", inc, TaskRef("a"))}
        assert "cycle" in str(process.submit(graph(dsk), ["a"]).exception()).lower()


def test_a_wide_merge_is_walked_in_linear_time(process):
    def cost(n):
        # Not one list of them: the client itself walks that in quadratic time.
        expr, wanted = computed(delayed(max)(*[delayed(inc)(i) for i in range(n)]))
        before = process.cpu()
        assert process.submit(expr, wanted).error is None
        return process.cpu() - before

    cost(500)
    small, large = cost(2000), cost(16_000)
    assert large < 8 * small * 3 + 0.1


# ---- cost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["importable", "by value"])
def test_front_end_cost_of_a_map(process, name, capsys):
    n = 100_000
    function = operator.neg if name == "importable" else (lambda x: x + OFFSET)
    keys = [f"f-{i:032x}" for i in range(n)]
    expr, wanted = mapped(function, list(range(n)), keys=keys)
    expr_ser = Serialized(*serialize(to_serialize(expr), on_error="raise"))
    before = process.cpu()
    assert len(process.submit(None, wanted, order=False, expr_ser=expr_ser).records) == n
    cost = (process.cpu() - before) / n * 1e6
    with capsys.disabled():
        print(f"\nfront-end CPU, map of {n}, {name}: {cost:.2f} µs per task")


# ---- P2P ----------------------------------------------------------------------------------------


def test_barriers_of_a_rechunk_tell_the_new_chunks(process):
    array = da.ones((40, 60), chunks=(40, 10)).rechunk((10, 20), method="p2p")
    answer = process.submit(*persisted(array))
    assert answer.barriers
    for barrier in answer.barriers:
        assert answer.keys[barrier["key"]] == "shuffle-barrier-" + barrier["shuffle"]
        spec = pickle.loads(answer.blobs[barrier["spec"]])
        assert barrier["kind"] == "array" and spec.id == barrier["shuffle"]
        assert list(barrier["chunks"]) == [len(axis) for axis in spec.new]


def test_barriers_of_a_merge_tell_the_partitions(process):
    merged = _frame().merge(_frame(160, 6), on="a", shuffle_method="p2p")
    answer = process.submit(*persisted(merged))
    assert len(answer.barriers) == 2
    for barrier in answer.barriers:
        spec = pickle.loads(answer.blobs[barrier["spec"]])
        assert barrier["kind"] == "dataframe"
        assert barrier["npartitions"] == spec.npartitions
        assert list(barrier["parts_out"]) == list(spec.output_partitions)
