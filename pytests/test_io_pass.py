"""The pass of clustered I/O without a cluster: what it makes of graphs, and that results stay.

Graphs are rewritten as a graph process does it and run by Dask's threaded scheduler, against plain
loading. Seeds are fixed; each case of the property tests is its own.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr
from dask._task_spec import DataNode, Task, TaskRef, convert_legacy_graph
from dask.array.core import getter
from dask.base import collections_to_expr, flatten
from dask.threaded import get

import rask.io
from rask.graph.clustered.run import clustered, layer_annotations
from rask.graph.ordering import order
from rask.io import ahead, native
from rask.io.buffers import Buffer, load, load_one
from rask.graph.clustered.settings import Settings, bound


class Passed:
    """A collection after Dask's optimisation and the pass."""

    def __init__(self, x, everywhere=None, header=None, **io):
        expr = collections_to_expr([x], True).optimize()
        self.keys = list(flatten(expr.__dask_keys__()))
        layers = layer_annotations(expr)
        self.before = convert_legacy_graph(dict(expr.__dask_graph__()))
        self.annotations: dict = {}
        if everywhere is None:
            everywhere = {"rask": {"io": {"cluster": True, **io}}}
        self.graph = clustered(
            dict(self.before), set(self.keys), self.annotations, layers, everywhere, header or {}
        )
        self.shape = [len(c) for c in getattr(x, "chunks", ())]

    def named(self, prefix: str) -> list:
        return [k for k in self.graph if str(k[0] if isinstance(k, tuple) else k).startswith(prefix)]

    @property
    def buffers(self) -> list:
        return self.named("rask-io-load-")

    def results(self) -> list:
        return get(self.graph, self.keys)

    def array(self, x):
        """The array that the blocks make."""
        found = iter(self.results())
        blocks = np.empty(x.numblocks, object)
        for place in np.ndindex(*x.numblocks):
            blocks[place] = next(found)
        return da.core.concatenate3(blocks.tolist()) if x.ndim else blocks[()]


def same_bytes(x, **io) -> Passed:
    """Runs the pass on an array and demands what plain loading gives."""
    passed = Passed(x, **io)
    expected = x.compute(scheduler="sync")
    found = passed.array(x)
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()
    return passed


@pytest.fixture
def cube(tmp_path):
    """20³ numbers in a .npy file."""
    values = np.arange(8000, dtype="u2").reshape(20, 20, 20)
    np.save(tmp_path / "cube.npy", values)
    return rask.io.npy(tmp_path / "cube.npy")


def spoil(block):
    block[...] = 0
    return block


def cuts(rng, n):
    inner = rng.sample(range(1, n), min(n - 1, rng.randint(0, 3))) if n > 1 else []
    edges = [0, *sorted(inner), n]
    return tuple(b - a for a, b in itertools.pairwise(edges))


def random_source(rng, folder, name):
    """(array in a file, the same in memory) of any format, order, type and place."""
    shape = tuple(rng.randint(1, 14) for _ in range(rng.randint(1, 4)))
    dtype = rng.choice(["u1", "<i2", ">f4", "f8", "c16"])
    values = np.frombuffer(rng.randbytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype)
    values = np.nan_to_num(values).reshape(shape)
    kind = rng.choice(["raw", "npy", "h5", "h5 chunked", "zarr"])
    path = os.path.join(folder, name)
    if kind == "raw":
        order, offset = rng.choice("CF"), rng.randint(0, 100)
        with open(path, "wb") as f:
            f.write(b"x" * offset + values.tobytes(order=order))
        return rask.io.raw(path, dtype, shape, offset, order), values
    if kind == "npy":
        np.save(path + ".npy", np.asarray(values, order=rng.choice("CF")))
        return rask.io.npy(path + ".npy"), values
    chunk = tuple(rng.randint(1, n) for n in shape)
    if kind == "zarr":
        z = zarr.create_array(path, shape=shape, chunks=chunk, dtype=dtype)
        z[...] = values
        return z, values
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=values, chunks=chunk if kind == "h5 chunked" else None)
    return h5py.File(path, "r")["x"], values


@pytest.mark.parametrize("seed", range(150))
def test_random_loads_are_byte_for_byte_those_of_plain_loading(seed, tmp_path):
    rng = random.Random(seed)
    source, values = random_source(rng, str(tmp_path), "x")
    chunks = tuple(cuts(rng, n) for n in source.shape)
    x = da.from_array(source, chunks=chunks, inline_array=rng.random() < 0.3)
    if rng.random() < 0.4:  # gaps, and indices that Dask pushes into the loads
        x = x[tuple(slice(rng.randint(0, n - 1), None, rng.choice([None, None, 2])) for n in x.shape)]
    if rng.random() < 0.4 and x.numblocks[0] > 1:
        x = x.blocks[:: rng.randint(1, 2)]
    if rng.random() < 0.5:
        x = x + x if rng.random() < 0.5 else x[...].astype(x.dtype)
    io = {"buffer-bytes": rng.choice([1, 50, 500, 10**6]), "order": rng.choice(["auto", "auto", "C", "F"]),
          "native": rng.random() < 0.8}  # fmt: skip
    passed = same_bytes(x, **io)
    size = values.dtype.itemsize
    for key in passed.buffers:
        boxes = passed.graph[key].args[2]
        held = sum(int(np.prod([b - a for a, b in box])) for box in boxes) * size
        assert passed.annotations["memory"][key] == held <= io["buffer-bytes"]
        assert len(boxes) > 1


@pytest.mark.parametrize("seed", range(100))
def test_random_stores_are_byte_for_byte_those_of_plain_storing(seed, tmp_path):
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 12) for _ in range(rng.randint(1, 3)))
    values = np.frombuffer(rng.randbytes(int(np.prod(shape)) * 4), "i4").reshape(shape)
    x = da.from_array(values, chunks=tuple(cuts(rng, n) for n in shape)) + 1
    order = rng.choice("CF")
    margin = [rng.randint(0, 2) for _ in shape]
    region = tuple(slice(m, m + n) for m, n in zip(margin, shape, strict=True))
    whole = tuple(n + 2 * m for m, n in zip(margin, shape, strict=True))
    chunk = tuple(rng.randint(1, n) for n in whole)
    io = {"buffer-bytes": rng.choice([1, 40, 400, 10**6])}
    target = rask.io.raw(tmp_path / "raw", "i4", whole, rng.randint(0, 9), order, "w+")
    stack = zarr.create_array(str(tmp_path / "z"), shape=whole, chunks=chunk, dtype="i4")
    expected = np.zeros(whole, "i4")
    expected[region] = values + 1
    for out in (target, stack):
        # Blocks that share a chunk of zarr's must not be stored at once, buffers or not.
        stored = da.store(x, out, regions=region, lock=out is stack, compute=False)
        assert set(Passed(stored, **io).results()) == {None}
        np.testing.assert_array_equal(out[...], expected)


def test_a_bound_of_rows_and_slices_gives_those_buffers(cube):
    x = da.from_array(cube, chunks=4)  # 5×5×5 blocks of 128 bytes
    sizes = {}
    for blocks in (3, 5, 10, 25, 75, 125):
        passed = same_bytes(x, **{"buffer-bytes": blocks * 128})
        sizes[blocks] = sorted(len(passed.graph[k].args[2]) for k in passed.buffers)
    assert sizes == {3: [2] * 25 + [3] * 25, 5: [5] * 25, 10: [5] * 5 + [10] * 10, 25: [25] * 5,
                     75: [50, 75], 125: [125]}  # fmt: skip


def test_loads_fused_with_work_take_their_block_inside_the_task(cube):
    x = da.from_array(cube, chunks=10)
    passed = same_bytes((x + 1) * 2, **{"buffer-bytes": 10**6})
    assert len(passed.graph) == len(passed.before) + 1
    assert all("original" not in str(d) for k in passed.keys
               for d in passed.graph[k].dependencies)  # fmt: skip


def test_array_expressions_are_seen_too(cube):
    program = f"""
import dask
dask.config.set({{"array.query-planning": True}})
import test_io_pass as t, rask.io, dask.array as da
x = da.from_array(rask.io.npy({cube.path!r}), chunks=10)
assert "array_expr" in type(x).__module__
assert len(t.same_bytes(x + 1, **{{"buffer-bytes": 10**6}}).buffers) == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=os.path.dirname(__file__),
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip


def test_a_block_keeps_nothing_alive_but_itself(cube):
    x = da.from_array(cube, chunks=10)
    passed = Passed(x, **{"buffer-bytes": 10**6})
    (key,) = passed.buffers
    (buffer,) = get(passed.graph, [key])
    assert isinstance(buffer, Buffer)
    assert all(block.base is None and block.flags.c_contiguous for block in buffer.blocks)
    assert dask.sizeof.sizeof(buffer) >= 16000


def test_two_loads_of_one_block_do_not_share_memory(cube):
    """Fused tasks that load the same: each may change what it loaded, as without buffers."""
    halves = [tuple(slice(a, a + 10) if i == 0 else slice(20) for i in range(3)) for a in (0, 10)]
    dsk = {}
    for i, half in enumerate(halves):
        for name, function in (("spoilt", spoil), ("kept", np.copy)):
            load = Task(("x", i), getter, DataNode(None, cube), half)
            work = Task((name, i), function, TaskRef(("x", i)))
            dsk[name, i] = Task.fuse(load, work)
    everywhere = {"rask": {"io": {"cluster": True, "buffer-bytes": 10**6}}}
    graph = clustered(dsk, set(dsk), {}, {}, everywhere, {})
    (key,) = set(graph) - set(dsk)
    graph[key] = DataNode(key, get(graph, key))  # one buffer for all that follows
    get(graph, [("spoilt", 0), ("spoilt", 1)])
    assert (np.concatenate(get(graph, [("kept", 0), ("kept", 1)])) == cube[...]).all()


def test_annotations_win_over_settings_and_settings_over_configuration(cube):
    def buffers(everywhere=None, settings=None, own=None, layer=None):
        with dask.annotate(rask={"io": layer}) if layer else dask.annotate():
            x = da.from_array(cube, chunks=10, name=f"x{layer}")
        with dask.config.set({"rask.io": own or {}}):
            return len(Passed(x + 1, everywhere or {}, {"settings": settings}).buffers)

    on, off = {"cluster": True, "buffer-bytes": "1 MB"}, {"cluster": False}
    assert buffers() == 0
    assert buffers(own=on) == 1
    assert buffers(own=on, settings={"io.cluster": False}) == 0
    assert buffers(own=off, settings={"io.cluster": True, "io.buffer-bytes": 10**6}) == 1
    assert buffers({"rask": {"io": on}}, {"io.cluster": False}) == 1
    assert buffers({"rask": {"io": on}}, layer=off) == 0
    assert buffers({"rask": {"io": off}}, layer=on) == 1
    assert buffers({"rask": {"io": True}}, {"io.buffer-bytes": 8000}) == 2


def test_each_array_can_have_a_bound_an_order_and_a_device_of_its_own(cube, tmp_path):
    arrays = []
    for name, io in (("a", {"buffer-bytes": 4000}), ("b", {"buffer-bytes": 8000, "concurrency": 3}),
                     ("c", {"cluster": False})):  # fmt: skip
        with dask.annotate(rask={"io": {"cluster": True, **io}}):
            arrays.append(da.from_array(cube, chunks=10, name=name))
    a, b, c = arrays
    passed = same_bytes(a + b + c, **{"buffer-bytes": 16000})
    held = sorted(passed.annotations["memory"][key] for key in passed.buffers)
    assert held == [4000] * 4 + [8000] * 2
    limited = [key for key, value in passed.annotations["rask"].items() if value["io"]["concurrency"] == 3]
    assert {passed.annotations["memory"][key] for key in limited} == {8000} and len(limited) == 2


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), ()])
def test_arrays_without_elements_or_axes_are_left_alone(tmp_path, shape):
    np.save(tmp_path / "x.npy", np.ones(shape))
    x = da.from_array(rask.io.npy(tmp_path / "x.npy"), chunks=-1)
    assert same_bytes(x + 1, **{"buffer-bytes": 100}).buffers == []


def test_unknown_settings_and_values_are_errors(cube):
    x = da.from_array(cube, chunks=10)
    for io, said in [({"bufer-bytes": 1}, "no setting is called 'io.bufer-bytes'"),
                     ({"buffer-bytes": "much"}, "io.buffer-bytes is 'much'"),
                     ({"order": "X"}, "io.order is 'X', expected"),
                     ({"concurrency": 0}, "io.concurrency is 0, expected")]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            Passed(x, **io)
    with pytest.raises(ValueError, match="no setting is called 'io.clusters'"):
        rask.configure(None, {"io.clusters": True})


def test_the_default_bound_comes_from_the_workers():
    workers = {"memory": 10**9, "threads": 4, "all-threads": 8}
    assert bound(Settings(), 10**12, workers) == int(0.3 * 10**9 / 4)
    assert bound(Settings(), 16_000, workers) == 1000  # every thread gets some
    assert bound(Settings(), 10**12, {}) == 256 << 20
    assert bound(Settings(buffer_bytes=7), 10**12, workers) == 7


@pytest.mark.parametrize("index", [np.s_[::2], np.s_[3], np.s_[[1, 2, 5]], np.s_[::-1], np.s_[:0]])
def test_other_indices_are_left_alone(cube, index):
    same_bytes(da.from_array(cube, chunks=10)[index], **{"buffer-bytes": 10**6})


def test_what_cannot_be_described_is_left_alone(tmp_path, caplog):
    mapped = np.memmap(tmp_path / "m", "u1", "w+", shape=(8, 8))
    words = np.array([["a", "b"], ["c", "d"]], object)
    mapped_array = da.from_array(mapped, chunks=4)
    for x in (mapped_array, mapped_array + 1, da.from_array(words, chunks=1), da.ones(8, chunks=2)):
        passed = Passed(x)
        assert passed.graph == passed.before
    assert sum("np.memmap travels whole" in r.message for r in caplog.records) == 1
    unknown = da.from_array(words, chunks=1)[:, 0]
    unknown = unknown[unknown != "a"]  # chunks of unknown size
    assert Passed(unknown).graph == Passed(unknown).before


def test_an_array_of_another_kind_can_be_registered(cube):
    class Doubled:
        shape, dtype, ndim = cube.shape, cube.dtype, 3

        def __getitem__(self, index):
            return cube[index] * 2

    rask.io.register_loader(Doubled, lambda a: rask.io.Storage(a.shape, a.dtype, cube.path))
    passed = same_bytes(da.from_array(Doubled(), chunks=10, name="doubled"), **{"buffer-bytes": 10**6})
    assert len(passed.buffers) == 1


def test_a_describer_that_fails_leaves_the_array_alone(cube):
    class Broken(rask.io.RawArray):
        pass

    rask.io.register_loader(Broken, lambda a: 1 / 0)
    x = da.from_array(Broken(cube.path, "u2", cube.shape, cube.offset), chunks=10)
    assert Passed(x).buffers == []


def test_blocks_larger_than_the_bound_are_loaded_one_by_one(cube, caplog):
    passed = same_bytes(da.from_array(cube, chunks=10), **{"buffer-bytes": 10})
    assert passed.buffers == []
    assert any("larger than io.buffer-bytes = 10" in r.message for r in caplog.records)


def test_callables_in_annotations_switch_the_pass_off(cube):
    x = da.from_array(cube, chunks=10)
    everywhere = {"rask": {"io": True}, "priority": lambda key: 1}
    assert Passed(x, everywhere).buffers == []


def test_buffers_are_annotated_like_their_loads(cube):
    x = da.from_array(cube, chunks=10)
    expr = collections_to_expr([x], True).optimize()
    dsk = convert_legacy_graph(dict(expr.__dask_graph__()))
    keys = list(flatten(expr.__dask_keys__()))
    by_type = {"workers": {k: ["alice" if k[1] == 0 else "bob"] for k in keys}}
    graph = clustered(dsk, set(keys), by_type, {}, {"rask": {"io": {"cluster": True, "buffer-bytes": 10**6}}}, {})
    loads = [k for k in graph if str(k[0]).startswith("rask-io-load")]
    assert sorted(by_type["workers"][k] for k in loads) == [["alice"], ["bob"]]


def test_a_hdf5_file_replaced_by_another_is_read_by_its_library(tmp_path):
    path = tmp_path / "x.h5"

    def written(values, **how):
        with h5py.File(path, "w") as f:
            f.create_dataset("padding", data=np.ones(how.pop("padding", 1)))
            f.create_dataset("x", data=values, **how)

    written(np.zeros((8, 8)))
    with h5py.File(path, "r") as f:
        storage = rask.io.describe(f["x"])
        assert storage.native
    os.remove(path)
    written(np.ones((8, 8)), padding=1000)
    with h5py.File(path, "r") as f:
        (block,) = load(f["x"], storage, [((0, 8), (0, 8))]).blocks
    assert (block == 1).all()


def test_one_unreadable_block_fails_alone_and_names_file_and_reason(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(range(100)))
    source = rask.io.raw(path, "u1", (10, 10))
    x = da.from_array(source, chunks=(5, 10))
    passed = Passed(x, **{"buffer-bytes": 1000})
    os.truncate(path, 60)
    (buffer,) = get(passed.graph, passed.buffers)
    assert (buffer.blocks[0].ravel() == np.arange(50)).all()
    with pytest.raises(OSError, match="ends at byte 60.*short"):
        get(passed.graph, passed.keys)


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path):
    x = da.zeros((4, 4), chunks=2, dtype="u1")
    target = rask.io.raw("/dev/full", "u1", (4, 4), 0, "C", "r+")
    with pytest.raises(OSError, match="No space left on device.*full"):
        da.store(x, target, lock=False, scheduler="sync")

    def broken(block, block_info=None):
        if block_info[None]["chunk-location"] == (1, 1):
            raise RuntimeError("block")
        return block

    with pytest.raises(RuntimeError, match="block"):
        rask.io.to_npy(x.map_blocks(broken, dtype="u1"), tmp_path / "x.npy", scheduler="sync")
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("order", "CF")
def test_whole_files_are_written(tmp_path, order):
    values = np.arange(60, dtype=">i4").reshape(3, 4, 5)
    x = da.from_array(values, chunks=2)
    path = rask.io.to_npy(x, tmp_path / "x.npy", order=order, scheduler="sync")
    np.testing.assert_array_equal(np.load(path), values)
    assert np.load(path, mmap_mode="r").flags.f_contiguous == (order == "F")
    later = rask.io.to_raw(x, tmp_path / "x.raw", order=order, compute=False)
    assert not (tmp_path / "x.raw").exists()
    later.compute(scheduler="sync")
    np.testing.assert_array_equal(rask.io.raw(tmp_path / "x.raw", ">i4", x.shape, 0, order)[...], values)
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.raw"]
    with pytest.raises(ValueError, match="Python objects"):
        rask.io.to_npy(x.astype(object), tmp_path / "o.npy")


def test_reads_are_few_and_without_bytes_nobody_asked_for(cube):
    boxes = [((0, 4), (0, 20), (a, a + 4)) for a in range(0, 20, 4)]
    arrays = [np.empty((4, 20, 4), "u2") for _ in boxes]
    done = native.move(*cube._source(), boxes, arrays, write=False)
    assert done == (4 * 20 * 20 * 2, 1, 1)


def test_raw_arrays_index_like_numpy(cube):
    values = np.load(cube.path)
    for index in (np.s_[...], np.s_[3], np.s_[2, 5, 7], np.s_[..., 3], np.s_[1:5, ::3], np.s_[-2:],
                  np.s_[::-1], np.s_[[1, 4]], np.s_[values > 7000], np.s_[5:2]):  # fmt: skip
        np.testing.assert_array_equal(cube[index], values[index])
    with pytest.raises(IndexError):
        cube[20]
    with pytest.raises(ValueError, match="opened for reading"):
        cube[0] = 1
    with pytest.raises(ValueError, match="needs 16129"):
        rask.io.raw(cube.path, "u1", 16001, cube.offset)
    with pytest.raises(ValueError, match="Python objects"):
        rask.io.raw(cube.path, object, 1)
    with pytest.raises(ValueError, match="not a .npy file"):
        rask.io.npy(__file__)


def test_a_graph_the_pass_stumbles_over_runs_as_it_was(cube, monkeypatch, caplog):
    from rask.graph.clustered import layout

    monkeypatch.setattr(layout._graph, "io_plan", lambda *_: 1 / 0)
    passed = same_bytes(da.from_array(cube, chunks=10), **{"buffer-bytes": 10**6})
    assert passed.graph == passed.before
    assert any("gave up on a graph" in r.message for r in caplog.records)


@pytest.mark.parametrize(("chunks", "natively"), [((10, 64, 64), True), ((10, 8, 8), False)])
def test_hdf5_in_one_piece_is_read_natively_unless_runs_are_short(tmp_path, chunks, natively):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=np.random.default_rng(1).random((40, 64, 64)))
    x = da.from_array(h5py.File(tmp_path / "x.h5", "r")["x"], chunks=chunks)
    size = 8 * int(np.prod(chunks))
    for blocks in (1, 2):  # alone, and in buffers of two
        passed = same_bytes(x, **{"buffer-bytes": blocks * size})
        reads = [t for t in passed.graph.values() if isinstance(t, Task) and t.func in (load, load_one)]
        assert all(t.args[1].value.native == natively for t in reads)
        assert bool(reads) == (natively or blocks == 2)


def test_buffers_are_loaded_in_the_order_of_the_graph(cube):
    """Not in that of a set: blocks come, and files are read, from front to back."""
    passed = Passed(da.from_array(cube, chunks=4) + 1, **{"buffer-bytes": 5 * 128})
    places = order(passed.graph)
    first = [passed.graph[key].args[2][0] for key in sorted(passed.buffers, key=places.__getitem__)]
    assert len(first) == 25 and first == sorted(first)


def extents(array, boxes) -> list:
    storage = rask.io.describe(array)
    return [piece for box in boxes for piece in ahead.pieces(array, storage, box)]


@pytest.mark.parametrize("order", "CF")
def test_what_is_read_ahead_is_what_the_box_lies_in(tmp_path, order):
    shape = (6, 5, 4)
    values = np.arange(120, dtype="u2").reshape(shape, order=order)
    (tmp_path / "x").write_bytes(b"head" + values.tobytes(order="A"))
    array = rask.io.raw(tmp_path / "x", "u2", shape, 4, order)
    content = (tmp_path / "x").read_bytes()
    for box in itertools.product(*([(0, n), (1, 3)] for n in shape)):
        block = values[tuple(slice(*axis) for axis in box)]
        found = b"".join(content[at : at + n] for _, at, n in extents(array, [box]))
        assert found == block.tobytes(order=order)
    assert not ahead.pieces(array, rask.io.Storage((99, 99, 9), np.dtype("u1"), "x", offset=0),
                            ((0, 9), (0, 9), (0, 5)))  # fmt: skip


@pytest.mark.parametrize(("form", "shards"), [(2, None), (3, None), (3, (4, 8))])
def test_files_of_zarr_are_read_ahead(tmp_path, form, shards):
    z = zarr.create_array(str(tmp_path / "z"), shape=(8, 8), chunks=(4, 4), dtype="u2", zarr_format=form,
                          shards=shards)  # fmt: skip
    z[...] = 1
    found = [path for path, *_ in extents(z, [((0, 4), (0, 8))])]
    assert len(found) == (1 if shards else 2) and all(map(os.path.isfile, found))


def test_only_buffers_that_come_one_after_another_are_read_ahead(cube):
    storage = rask.io.describe(cube)
    boxes = [((4 * i, 4 * i + 4), (0, 20), (0, 20)) for i in range(5)]
    asked = []
    mine = ahead.Ahead()

    def loads(i):
        mine.begins(storage, boxes[i], boxes[i + 1 : i + 3])
        asked.append(mine.next(storage, boxes[i], boxes[i + 1 : i + 3]))

    for i in (0, 2, 3, 4):  # the second is another worker's
        loads(i)
    assert asked == [None, None, boxes[4], None]


def test_a_hint_that_fails_is_no_error(cube):
    storage = rask.io.describe(cube)
    os.remove(cube.path)
    ahead.ask(cube, storage, ((0, 4), (0, 20), (0, 20)))


def test_tasks_that_load_say_what_they_need_unless_the_user_did(cube):
    x = da.from_array(cube, chunks=(20, 20, (10, 5, 5)))  # blocks of 8, 4 and 4 kB
    passed = Passed(x + x, **{"buffer-bytes": 8000})
    assert list(passed.annotations["memory"].values()) == [8000, 8000]  # a block, and a buffer of two
    assert len(passed.buffers) == 1
    own = {"rask": {"io": {"cluster": True, "buffer-bytes": 8000}}, "memory": "1 GB"}
    assert len(Passed(x + x, own).annotations["memory"]) == 1  # the block's is the user's


@pytest.mark.parametrize("kind", ["npy", "zarr", "hdf5 chunked"])
def test_a_plan_that_merges_nothing_leaves_the_graph_as_it_was(cube, tmp_path, kind):
    """A bound of one block, or chunks of the storage that are the blocks: nothing to gain."""
    values = np.load(cube.path)
    io = {"buffer-bytes": 2000 if kind == "npy" else 10**6}
    source = cube
    if kind == "zarr":
        source = zarr.create_array(str(tmp_path / "z"), shape=cube.shape, chunks=(5, 10, 10), dtype="u2")
        source[...] = values
    elif kind == "hdf5 chunked":
        with h5py.File(tmp_path / "x.h5", "w") as f:
            f.create_dataset("x", data=values, chunks=(10, 5, 10))
        source = h5py.File(tmp_path / "x.h5", "r")["x"]
    x = da.from_array(source, chunks=10)
    passed = same_bytes(x + 1, **io)
    assert passed.graph == passed.before and not passed.annotations
    assert order(passed.graph) == order(passed.before)
    stored = da.store(x, rask.io.raw(tmp_path / "out", "u2", x.shape, 0, "C", "w+"), lock=False, compute=False)
    passed = Passed(stored, **{"buffer-bytes": 2000})
    assert passed.graph == passed.before and not passed.annotations
    limited = Passed(x + 1, **io, concurrency=2)  # but a device that must be spared is
    assert {v["io"]["concurrency"] for v in limited.annotations["rask"].values()} == {2}
    assert limited.graph == limited.before and len(limited.annotations["rask"]) == 8
