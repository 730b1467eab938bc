"""The graphs on which rask's order is compared with dask.order: real collections, made small.

Each shape gives a graph as the scheduler gets it (optimised by the client, expanded, culled) with
the size of every result. Sizes are found by running the graph once with small chunks; results that
cannot be had without a cluster (P2P) have the size that the array declares. One entry of SHAPES
per row of the table that bench/ordering.py prints.
"""

from __future__ import annotations

import array
import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import xarray as xr
from dask._expr import LLGExpr
from dask._task_spec import DataNode, convert_legacy_graph
from dask.base import collections_to_expr
from dask.core import flatten
from dask.delayed import delayed
from dask.sizeof import sizeof

SHAPES: dict[str, Callable[[], Any]] = {}


def shape(name: str):
    def register(build: Callable[[], Any]) -> Callable[[], Any]:
        SHAPES[name] = build
        return build

    return register


@dataclass
class Shape:
    """A graph as numbers: task t needs deps[offsets[t]:offsets[t + 1]]; sizes in bytes."""

    name: str
    dsk: dict
    offsets: array.array
    deps: array.array
    kinds: bytes
    sizes: list[int]


def load(name: str) -> Shape:
    """Build a shape by name."""
    with tempfile.TemporaryDirectory() as folder, dask.config.set({"temporary-directory": folder}):
        collections = SHAPES[name]()
        dsk = materialise(collections)
        sizes = declared(collections) | measure(dsk)
    return to_csr(name, dsk, sizes)


def materialise(collections: Any) -> dict:
    """What distributed's client and scheduler make of collections before ordering."""
    collections = collections if isinstance(collections, tuple) else (collections,)
    expr = collections_to_expr(collections, True).optimize()
    dsk = convert_legacy_graph(expr.__dask_graph__())
    return cull(dsk, expr.__dask_keys__()) if isinstance(expr, LLGExpr) else dsk


def cull(dsk: dict, wanted: list) -> dict:
    """The part of the graph that the wanted keys need, in the graph's own order."""
    needed, work = set(), list(flatten(wanted))
    while work:
        key = work.pop()
        if key not in needed and key in dsk:
            needed.add(key)
            work.extend(dsk[key].dependencies)
    return {key: node for key, node in dsk.items() if key in needed}


def to_csr(name: str, dsk: dict, sizes: dict) -> Shape:
    number = {key: i for i, key in enumerate(dsk)}
    offsets, deps = array.array("I", [0]), array.array("I")
    for node in dsk.values():
        deps.extend(sorted(number[d] for d in node.dependencies if d in number))
        offsets.append(len(deps))
    kinds = bytes(isinstance(node, DataNode) for node in dsk.values())
    return Shape(name, dsk, offsets, deps, kinds, [sizes.get(key, 1) for key in dsk])


def measure(dsk: dict) -> dict:
    """Bytes of each result, by running the graph; what cannot run here counts as one byte."""
    results: dict = {}
    for key in topological(dsk):
        node = dsk[key]
        try:
            results[key] = node({d: results[d] for d in node.dependencies})
        except Exception:
            continue
    return {key: size_of(value) for key, value in results.items()}


def declared(collections: Any) -> dict:
    """Bytes of each chunk of every array that the collections are made of, as far as known."""
    sizes: dict = {}
    for collection in collections if isinstance(collections, tuple) else (collections,):
        layers = getattr(collection.__dask_graph__(), "layers", {})
        for name, layer in layers.items():
            about = layer.collection_annotations or {}
            if "chunks" not in about:
                continue
            lengths = [list(enumerate(axis)) for axis in about["chunks"]]
            for block in itertools.product(*lengths):
                items = np.prod([length for _, length in block])
                nbytes = int(items) * np.dtype(about["dtype"]).itemsize
                sizes[(name, *(i for i, _ in block))] = max(1, nbytes)
    return sizes


def size_of(value: Any) -> int:
    if isinstance(value, (tuple, list)):
        return sum(map(size_of, value)) or 1
    if isinstance(value, dict):
        return sum(map(size_of, value.values())) or 1
    return max(1, int(getattr(value, "nbytes", 0) or sizeof(value)))


def topological(dsk: dict) -> list:
    missing = {key: sum(d in dsk for d in node.dependencies) for key, node in dsk.items()}
    dependents: dict = {key: [] for key in dsk}
    for key, node in dsk.items():
        for d in node.dependencies:
            if d in dsk:
                dependents[d].append(key)
    ready = [key for key, n in missing.items() if not n]
    for key in ready:
        for dependent in dependents[key]:
            missing[dependent] -= 1
            if not missing[dependent]:
                ready.append(dependent)
    return ready


def random(shape: tuple, chunks: Any) -> da.Array:
    return da.random.default_rng(0).random(shape, chunks=chunks)


def inc(x: Any, *others: Any) -> Any:
    return x


@shape("chain x 1000")
def chain():
    x = delayed(inc, pure=False)(1)
    for _ in range(999):
        x = delayed(inc, pure=False)(x)
    return x


@shape("1000 chains")
def chains():
    bag = dask.bag.from_sequence(range(1000), npartitions=1000)
    out = []
    for part in bag.to_delayed():
        for _ in range(4):
            part = delayed(inc, pure=False)(part)
        out.append(part)
    return tuple(out)


@shape("binary tree")
def binary_tree():
    level = [delayed(inc, pure=False)(i) for i in range(2048)]
    while len(level) > 1:
        level = [delayed(inc, pure=False)(a, b) for a, b in zip(level[::2], level[1::2])]
    return level[0]


@shape("wide merge")
def wide_merge():
    return delayed(sum)([delayed(inc, pure=False)(i) for i in range(3000)])


@shape("x + x.T, sum")
def transpose_sum():
    x = random((640, 640), (20, 20))
    return (x + x.T).sum()


@shape("map_overlap 2-D")
def map_overlap():
    x = random((320, 320), (20, 20))
    return x.map_overlap(lambda b: b, depth=1, boundary="reflect").sum(axis=0)


@shape("map_overlap 2-D, kept")
def map_overlap_kept():
    x = random((240, 240), (20, 20))
    return x.map_overlap(lambda b: b, depth=1, boundary="none")


@shape("tensordot")
def tensordot():
    x, y = random((200, 200), (20, 20)), random((200, 200), (20, 20))
    return da.tensordot(x, y, axes=1)


@shape("matmul, mean")
def matmul_mean():
    x = random((160, 160), (20, 20))
    return (x @ x.T).mean()


@shape("tall-skinny QR")
def tall_skinny_qr():
    return da.linalg.qr(random((6400, 20), (100, 20)))


@shape("svd_compressed")
def svd_compressed():
    return da.linalg.svd_compressed(random((1600, 400), (100, 100)), k=5, seed=0)


@shape("Cholesky")
def cholesky():
    x = random((320, 320), (20, 20))
    return da.linalg.cholesky(x @ x.T + 400 * da.eye(320, chunks=20), lower=True)


@shape("blocked FFT")
def blocked_fft():
    x = random((512, 512), (16, 512))
    y = da.fft.fft(x, axis=1).rechunk((512, 16), method="tasks", threshold=10_000)
    return abs(da.fft.fft(y, axis=0)).sum(axis=0)


@shape("rechunk by tasks")
def rechunk_tasks():
    x = random((320, 320), (5, 320))
    return x.rechunk((320, 5), method="tasks", threshold=10_000).sum(axis=0)


@shape("rechunk in stages")
def rechunk_stages():
    x = random((512, 512), (2, 512))
    return x.rechunk((512, 2), method="tasks", block_size_limit=16_384).sum(axis=0)


@shape("rechunk by P2P")
def rechunk_p2p():
    with dask.config.set({"array.rechunk.method": "p2p"}):
        x = random((640, 640), (10, 640)).rechunk((640, 10), method="p2p")
        return x.sum(axis=0)


@shape("groupby-mean anomaly")
def anomaly():
    time = xr.date_range("2000-01-01", periods=480, freq="D")
    x = xr.DataArray(
        random((480, 24, 24), (10, 12, 12)), dims=("time", "y", "x"), coords={"time": time}
    )
    by_month = x.groupby("time.month")
    return (by_month - by_month.mean()).data


@shape("anomaly, mean of squares")
def anomaly_mean():
    x = xr.DataArray(
        random((120, 24, 24), (1, 24, 24)),
        dims=("time", "y", "x"),
        coords={"day": ("time", np.arange(120) % 30)},
    )
    by_day = x.groupby("day")
    return ((by_day - by_day.mean(dim="time")) ** 2).mean(dim="time").data


@shape("vorticity")
def vorticity():
    def field(seed: int) -> xr.DataArray:
        data = da.random.default_rng(seed).random((40, 96, 96), chunks=(1, 48, 48))
        return xr.DataArray(data, dims=("time", "y", "x"))

    u, v = field(1), field(2)
    dx, dy = random((96, 96), (48, 48)), random((96, 96), (48, 48))
    curl = (v.roll(x=-1) - v) / dx - (u.roll(y=-1) - u) / dy
    return curl.mean("time").data


@shape("zarr to zarr")
def zarr_to_zarr():
    import zarr

    def stored(chunks: tuple) -> zarr.Array:
        store = zarr.storage.MemoryStore()
        return zarr.create_array(store=store, shape=(640, 320), chunks=chunks, dtype="f8")

    x = da.from_zarr(stored((20, 80)))
    y = (x - x.mean(axis=0)).rechunk((40, 40), method="tasks")
    return y.store(stored((40, 40)), compute=False, lock=False)


@shape("mean of a quadratic product")
def quadratic_means():
    shape_, chunks = (3000, 20, 10), (50, 20, 1)
    rng = da.random.default_rng(0)
    fields = {
        name: (("time", "y", "x"), rng.random(shape_, chunks=chunks)) for name in ("u", "v", "w")
    }
    ds = xr.Dataset(fields)
    products = ds**2
    products["uv"] = ds.u * ds.v
    return tuple(v.data for v in products.mean("time").values())


def frame(partitions: int, rows: int = 40, seed: int = 0) -> dd.DataFrame:
    def part(i: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed * 10_000 + i)
        return pd.DataFrame({"k": rng.integers(0, 1000, rows), "v": rng.random(rows)})

    return dd.from_map(part, range(partitions), meta=part(0).iloc[:0])


@shape("DataFrame tree groupby")
def tree_groupby():
    return frame(500).groupby("k").agg({"v": ["mean", "max"]})


@shape("task shuffle of 64")
def task_shuffle():
    return frame(64).shuffle("k", shuffle_method="tasks", max_branch=32)


@shape("merge of two shuffles")
def merge_of_shuffles():
    left, right = frame(40), frame(40, seed=1).rename(columns={"v": "w"})
    return left.merge(right, on="k", shuffle_method="tasks").groupby("k").v.sum()


@shape("stencil 100x20")
def stencil():
    row = [delayed(inc, pure=False)(i) for i in range(100)]
    for _ in range(19):
        row = [delayed(inc, pure=False)(*row[max(0, i - 1) : i + 2]) for i in range(100)]
    return tuple(row)
