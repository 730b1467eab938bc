"""Describers of the formats rask knows: its own files, HDF5, zarr, and xarray's lazy arrays.

A library is touched only through an array that came from it, so none is imported here.
"""

from __future__ import annotations

import dataclasses
import os

import numpy as np

from rask.io.raw import RawArray
from rask.io.storage import Stamp, Storage, register_loader

#: Types whose bytes in an HDF5 file are those of the NumPy array.
_PLAIN_KINDS = "biufc"


def _raw(array: RawArray) -> Storage:
    return Storage(array.shape, array.dtype, array.path, array.order, offset=array.offset)


def describe_hdf5(dataset) -> Storage | None:
    if dataset.is_virtual or dataset.shape is None:
        return None
    path = os.path.abspath(dataset.file.filename)
    plain = Storage(tuple(dataset.shape), dataset.dtype, path, chunk=dataset.chunks)
    in_one_piece = dataset.chunks is None and not dataset.external and dataset.compression is None
    if (
        in_one_piece
        and dataset.dtype.kind in _PLAIN_KINDS
        and dataset.file.driver == "sec2"
        and not dataset.file.userblock_size
        and (offset := dataset.id.get_offset()) is not None
        and dataset.id.get_storage_size() == dataset.nbytes
        and (stamp := Stamp.of(path)) is not None
    ):
        return dataclasses.replace(plain, offset=offset, stamp=stamp)
    return plain


def _zarr(array) -> Storage | None:
    chunk = tuple(array.chunks)
    shards = getattr(array, "shards", None)
    where = getattr(array, "store_path", None) or array.store
    return Storage(tuple(array.shape), np.dtype(array.dtype), str(where).removeprefix("file://"),
                   getattr(array, "order", "C"), chunk,
                   tuple(shards) if shards else None)  # fmt: skip


#: Wrappers of xarray that hand an index on as it is and give the elements as they are.
_TRANSPARENT = {"ImplicitToExplicitIndexingAdapter", "CopyOnWriteArray", "MemoryCachedArray",
                "LazilyIndexedArray"}  # fmt: skip
#: Those that change each element by itself.
_ELEMENTWISE = {"_ElementwiseFunctionArray", "NativeEndiannessArray", "BoolTypeArray"}


def _xarray(array) -> Storage | None:
    """The variable in the file below xarray's wrappers."""
    decoded = False
    inner = array
    while (name := type(inner).__name__) in _TRANSPARENT or name in _ELEMENTWISE:
        decoded = decoded or name in _ELEMENTWISE
        if name == "LazilyIndexedArray" and not _whole(inner.key.tuple):
            return None
        inner = inner.array
    if name == "H5NetCDFArrayWrapper":
        below = describe_hdf5(inner.get_array(needs_lock=False)._h5ds)
    elif name == "ZarrArrayWrapper":
        below = _zarr(inner._array)
    else:
        return None
    if below is None:
        return None
    if decoded or below.dtype != array.dtype:
        below = dataclasses.replace(below, offset=None, stamp=None, dtype=np.dtype(array.dtype))
    return below


def _whole(index: tuple) -> bool:
    return all(isinstance(i, slice) and i == slice(None) for i in index)


register_loader(RawArray, _raw)
register_loader("h5py._hl.dataset.Dataset", describe_hdf5)
register_loader("zarr.core.array.Array", _zarr)
register_loader("zarr.core.Array", _zarr)
register_loader("xarray.core.indexing.ImplicitToExplicitIndexingAdapter", _xarray)
