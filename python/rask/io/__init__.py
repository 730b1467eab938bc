"""Clustered I/O: arrays in files, and how they are read and written in few large accesses.

`raw`, `npy` and `hdf5` are arrays for `da.from_array` and `da.store`; `to_npy`, `to_raw` and `to_hdf5` write one
whole file from a Dask array; `register_loader` lets the scheduler's pass cluster further kinds of arrays.
docs/CLUSTERED_IO.md says how to switch the pass on.
"""

from __future__ import annotations

from rask.io import formats  # noqa: F401 - registers them
from rask.io.hdf5 import Hdf5Array, hdf5
from rask.io.raw import RawArray, npy, raw
from rask.io.storage import Storage, describe, register_loader
from rask.io.whole import to_hdf5, to_npy, to_raw

__all__ = ["Hdf5Array", "RawArray", "Storage", "describe", "hdf5", "npy", "raw", "register_loader",
           "to_hdf5", "to_npy", "to_raw"]  # fmt: skip
