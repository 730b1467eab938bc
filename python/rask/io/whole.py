"""Writes a Dask array into one file that is there whole or not at all.

Blocks go into a file of another name, which (but for HDF5) gets its full length at the first of them, so a
disk without room is an error early. Only when all blocks are written and on disk does it get its head and
its name. Plain Dask graphs: they run on any scheduler, and where clustered I/O is switched on the
stores are gathered.
"""

from __future__ import annotations

import io
import os
import uuid

import numpy as np
from dask._task_spec import List, Task, TaskRef
from dask.core import flatten
from dask.delayed import Delayed

from rask.io import native
from rask.io.raw import RawArray


def to_npy(x, path, order="C", compute=True, **kwargs):
    """The array as a `.npy` file. Gives the path; with compute=False a Delayed of it."""
    head = io.BytesIO()
    shape = _known(x, path)
    fields = {"descr": np.lib.format.dtype_to_descr(x.dtype), "fortran_order": order == "F",
              "shape": shape}  # fmt: skip
    np.lib.format.write_array_header_1_0(head, fields)
    return _written(x, path, shape, head.getvalue(), order, compute, kwargs)


def to_raw(x, path, order="C", compute=True, **kwargs):
    """The array's bytes and nothing else; `rask.io.raw` reads them back."""
    return _written(x, path, _known(x, path), b"", order, compute, kwargs)


def to_hdf5(x, path, name: str, compute=True, create=None, **kwargs):
    """The array as the dataset `name` of a new HDF5 file. `create`: how h5py makes it, as chunks.

    `da.to_hdf5` cannot be used on a cluster: files that h5py has open for writing do not travel.
    """
    import h5py

    from rask.io.hdf5 import hdf5

    shape, path = _known(x, path), os.path.abspath(os.fspath(path))
    token = uuid.uuid4().hex
    part = _part(path, token)
    with h5py.File(part, "x") as f:
        f.create_dataset(name, shape, x.dtype, **(create or {}))
    try:
        return _stored(x, hdf5(part, name), token, (_named, part, path), compute, kwargs)
    except BaseException:
        if compute:
            os.unlink(part)
        raise


def _part(path: str, token: str) -> str:
    return f"{path}.{token[:8]}.part"


def _known(x, path) -> tuple[int, ...]:
    if x.dtype.hasobject:
        raise ValueError(f"{path}: a file cannot hold Python objects ({x.dtype})")
    if any(n != n for n in x.shape):
        raise ValueError(f"{path}: the array's shape is unknown: {x.shape}")
    return tuple(map(int, x.shape))


class _File(Delayed):
    """A Delayed whose graph is optimised as an array's, so that blocks and stores are fused."""

    __slots__ = ()

    @staticmethod
    def __dask_optimize__(dsk, keys, **kwargs):
        import dask.array as da

        return da.Array.__dask_optimize__(dsk, keys, **kwargs)


def _written(x, path, shape, head: bytes, order: str, compute: bool, kwargs: dict):
    path = os.path.abspath(os.fspath(path))
    token = uuid.uuid4().hex
    target = RawArray(_part(path, token), x.dtype, shape, len(head), order, "w+")
    return _stored(x, target, token, (_finish, target, head, path), compute, kwargs)


def _stored(x, target, token: str, then: tuple, compute: bool, kwargs: dict):
    """All blocks into the target, and when they are there a function with its arguments."""
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    stored = da.store(x, target, lock=False, compute=False)
    name = f"rask-io-file-{token}"
    finish, *arguments = then
    task = Task(name, finish, List(*map(TaskRef, flatten(stored.__dask_keys__()))), *arguments)
    graph = HighLevelGraph.from_collections(name, {name: task}, dependencies=[stored])
    done = _File(name, graph)
    return done.compute(**kwargs) if compute else done


def _finish(_stored, target: RawArray, head: bytes, path: str) -> str:
    """All blocks are in the file: it gets its head, goes to disk, and gets its name."""
    part = target.path
    try:
        fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.ftruncate(fd, target.offset + target.nbytes)
            os.pwrite(fd, head, 0)
        finally:
            os.close(fd)
    except OSError as e:
        raise OSError(e.errno, f"{e.strerror}{native.here()}", path) from e
    return _named(None, part, path)


def _named(_stored, part: str, path: str) -> str:
    """What is in the file goes to disk, and the file gets its name."""
    try:
        fd = os.open(part, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(part, path)
    except OSError as e:
        raise OSError(e.errno, f"{e.strerror}{native.here()}", path) from e
    return path
