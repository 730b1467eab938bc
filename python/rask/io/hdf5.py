"""A dataset of an HDF5 file as a picklable array, to read and to write.

h5py's own objects can travel only if they are read-only, so `da.store` cannot write to them on a
cluster. This one opens the file for each access. HDF5 lets one process write at a time: accesses
take turns by a lock on the file's folder, on one machine or on file systems that share locks.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from threading import RLock

import numpy as np

from rask.io.storage import Stamp, Storage, register_loader

_in_this_process = RLock()


class Hdf5Array:
    """Array-like over a dataset."""

    def __init__(self, path, name: str):
        from rask.io.formats import describe_hdf5

        self.path = os.path.abspath(os.fspath(path))
        self.name = name
        with self._open("r") as dataset:
            self._storage = describe_hdf5(dataset)
            self.shape, self.dtype, self.chunks = dataset.shape, dataset.dtype, dataset.chunks
        self.ndim = len(self.shape)

    def __repr__(self) -> str:
        return f"<rask.io dataset {self.path}:{self.name}: {self.dtype}{list(self.shape)}>"

    def __dask_tokenize__(self):
        return "rask.io.hdf5", self.path, self.name, Stamp.of(self.path)

    @contextmanager
    def _open(self, mode: str):
        import h5py

        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _in_this_process:
                fcntl.flock(folder, fcntl.LOCK_SH if mode == "r" else fcntl.LOCK_EX)
                with h5py.File(self.path, mode) as f:
                    yield f[self.name]
        finally:
            os.close(folder)

    def __getitem__(self, index):
        with self._open("r") as dataset:
            return dataset[index]

    def __setitem__(self, index, value) -> None:
        try:
            with self._open("r+") as dataset:
                dataset[index] = value
        except RuntimeError as e:  # what HDF5 makes of a full disk when it closes the file
            raise OSError(f"{self.path}: {e}") from e

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[...], dtype=dtype)


def hdf5(path, name: str) -> Hdf5Array:
    """The dataset `name` of an HDF5 file, for `da.from_array` and as a target of `da.store`."""
    return Hdf5Array(path, name)


def _describe(array: Hdf5Array) -> Storage | None:
    return array._storage


register_loader(Hdf5Array, _describe)
