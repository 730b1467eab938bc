"""The programs that are timed: unmodified Dask, the same on stock and on rask, pass on or off.

split: one array to a file per block. merge: a file per block to one array. A block file holds the
bytes of its block and is read or written in one go.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

import dask
import dask.array as da
import numpy as np

import rask.io

SELECT = {"all": np.s_[...], "rows": np.s_[:, ::2], "corner": np.s_[:1, :1, :1]}


def opened(kind: str, path: str, shape, block: int, order: str) -> da.Array:
    """The array in a file of this format."""
    if kind == "raw":
        return da.from_array(rask.io.raw(path, "u2", shape, 0, order), chunks=block)
    if kind == "npy":
        return da.from_array(rask.io.npy(path), chunks=block)
    if kind == "hdf5":
        import h5py

        return da.from_array(h5py.File(path, "r")["x"], chunks=block)
    if kind == "zarr":
        return da.from_zarr(path, chunks=block)
    import xarray

    return xarray.open_dataset(path, engine="h5netcdf", chunks=dict.fromkeys("abc", block)).x.data


def save(block: np.ndarray, folder: str, block_info=None) -> np.ndarray:
    place = block_info[0]["array-location"]
    with open(os.path.join(folder, "-".join(str(a) for a, _ in place)), "wb", buffering=0) as f:
        data = np.ascontiguousarray(block).reshape(-1).view("u1").data
        while len(data):
            data = data[f.write(data):]
    return np.zeros((1,) * block.ndim, "u1")


def fetch(folder: str, block_info=None) -> np.ndarray:
    place = block_info[None]["array-location"]
    block = np.empty([b - a for a, b in place], "u2")
    rest = block.reshape(-1).view("u1").data
    with open(os.path.join(folder, "-".join(str(a) for a, _ in place)), "rb", buffering=0) as f:
        while len(rest):
            if not (n := f.readinto(rest)):
                raise OSError(f"{f.name} is too short")
            rest = rest[n:]
    return block


def split(x: da.Array, folder: str, select: str, renamed) -> da.Array:
    """One file per block. `renamed` gives the place of a block before the selection."""
    x = x.blocks[SELECT[select]]
    chunks = tuple((1,) * n for n in x.numblocks)
    saved = renamed_save if select != "all" else save
    extra = {"origins": renamed} if select != "all" else {}
    return x.map_blocks(saved, folder, dtype="u1", chunks=chunks, meta=np.zeros((0,) * x.ndim, "u1"), **extra)


def renamed_save(block, folder, origins, block_info=None):
    at = block_info[0]["chunk-location"]
    place = [(origins[axis][i], None) for axis, i in enumerate(at)]
    return save(block, folder, block_info={0: {"array-location": place}})


def merge(folder: str, shape, block: int, target) -> object:
    """All block files into one array."""
    chunks = da.core.normalize_chunks(block, shape)
    x = da.map_blocks(fetch, folder, chunks=chunks, dtype="u2", meta=np.zeros((0,) * len(shape), "u2"))
    return da.store(x, target, lock=False, compute=False)


def switched(bound: int | None):
    """The pass with buffers of so many bytes; None: plain Dask."""
    return nullcontext() if bound is None else dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": bound}})
