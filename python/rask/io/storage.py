"""How an array lies on disk: what the planner of clustered I/O must know, and who tells it.

A *describer* looks at an array object and gives its `Storage`, or None for "leave it alone". Those
of h5py, zarr, xarray and rask's own arrays are in formats.py; `register_loader` adds more. They run
in the graph process, next to the scheduler.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

logger = logging.getLogger("rask.io")


@dataclass(frozen=True)
class Stamp:
    """Which file it was: another one under the same name is not read at the old offsets."""

    inode: int
    size: int
    modified: int

    @staticmethod
    def of(path: str) -> Stamp | None:
        try:
            found = os.stat(path)
        except OSError:
            return None
        return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Storage:
    """Where and how the elements of an array are stored."""

    shape: tuple[int, ...]
    dtype: np.dtype  #: of what indexing gives
    path: str  #: file or store, for errors and for the device it is on
    order: str = "C"  #: how elements (in one piece) follow each other
    chunk: tuple[int, ...] | None = None  #: shape of the pieces that are read at once; None: one piece
    write_chunk: tuple[int, ...] | None = None  #: of those written at once, if it differs
    offset: int | None = None  #: first byte in the file, if its bytes are the elements themselves
    stamp: Stamp | None = None  #: the file the offset was found in; None: the user gave it

    @property
    def native(self) -> bool:
        return self.offset is not None and self.chunk is None

    def source(self) -> tuple:
        return self.path, self.offset, self.dtype, self.shape, self.order


Describer = Callable[[object], Storage | None]
_describers: dict[type | str, Describer] = {}
_warned: set[str] = set()


def register_loader(kind: type | str, describe: Describer) -> None:
    """Arrays of this type (or full type name, for libraries not imported yet) can be clustered.

    `describe(array)` gives the array's Storage, or None to leave this one alone. Indexing the array
    with slices must give NumPy arrays. Call it where graphs are opened: in a module that the
    scheduler's Python imports, such as one that your array's own class is defined in.
    """
    _describers[kind] = describe


def describe(array) -> Storage | None:
    """The Storage of an array, or None if it cannot be clustered. Never raises."""
    if isinstance(array, np.memmap):
        warn_once(
            "memmap",
            "a np.memmap travels whole inside the graph and is not clustered; "
            "rask.io.raw or rask.io.npy read the file where the task runs",
        )
        return None
    for kind in type(array).__mro__:
        found = _describers.get(kind) or _describers.get(f"{kind.__module__}.{kind.__qualname__}")
        if found is not None:
            break
    else:
        return None
    try:
        storage = found(array)
        return storage if storage is not None and _usable(storage, array) else None
    except Exception:
        logger.warning("cannot tell how %s is stored; plain loads", type(array), exc_info=True)
        return None


def _usable(storage: Storage, array) -> bool:
    if storage.dtype.hasobject or storage.dtype.itemsize == 0 or not storage.shape:
        return False
    return tuple(array.shape) == storage.shape


def warn_once(what: str, text: str) -> None:
    if what not in _warned:
        _warned.add(what)
        logger.warning(text)
