"""Reading ahead: while tasks work on one buffer, the kernel fetches what this worker loads next.

A device that is read only while a task loads stands still while tasks work. So each buffer names
those that follow it, and when one is loaded the kernel is asked for the first follower that nobody here
has begun with. Only where buffers come here one after another: of several workers each would otherwise
fetch what another one loads.

Invariant: hints and nothing else. None fails, none is waited for, none takes memory of this process.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections import OrderedDict

from rask.io.storage import Storage

_MOST_RUNS = 64  #: pieces of a file that one hint may name
_REMEMBERED = 1000


class _Latest:
    """The names added last."""

    def __init__(self):
        self._names: OrderedDict = OrderedDict()

    def add(self, name) -> None:
        self._names[name] = None
        if len(self._names) > _REMEMBERED:
            self._names.popitem(last=False)

    def __contains__(self, name) -> bool:
        return name in self._names


class Ahead:
    """Which buffers were begun with here, and which were asked for."""

    def __init__(self):
        self._lock = threading.Lock()
        self._begun, self._asked, self._expected = _Latest(), _Latest(), _Latest()

    def begins(self, storage: Storage, box, followers) -> None:
        with self._lock:
            self._begun.add(_name(storage, box))
            if followers:
                self._expected.add(_name(storage, followers[0]))

    def next(self, storage: Storage, box, followers):
        """The box to ask for when this one is loaded; None: none."""
        with self._lock:
            names = [_name(storage, follower) for follower in followers]
            if not names or not (_name(storage, box) in self._expected or names[0] in self._begun):
                return None
            for follower, name in zip(followers, names, strict=True):
                if name not in self._begun and name not in self._asked:
                    self._asked.add(name)
                    return follower
            return None


def _name(storage: Storage, box) -> tuple:
    return storage.path, storage.offset, box


def ask(array, storage: Storage, box) -> None:
    """Asks the kernel for the bytes of a box."""
    try:
        for path, offset, length in pieces(array, storage, box):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(fd, offset, length, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(fd)
    except Exception:  # noqa: BLE001 - the load itself will say what is wrong
        return


def pieces(array, storage: Storage, box) -> list[tuple[str, int, int]]:
    """(file, offset, length) of what a box lies in; nothing if that is not known, or in too many pieces."""
    if storage.native:
        return _runs(storage, box)
    chunk = storage.write_chunk or storage.chunk
    root = getattr(getattr(array, "store", None), "root", None)
    key = getattr(getattr(array, "metadata", None), "encode_chunk_key", None)
    if chunk is None or root is None or key is None:
        return []
    places = [range(a // n, -(-b // n)) for (a, b), n in zip(box, chunk, strict=True)]
    if math.prod(map(len, places)) > _MOST_RUNS:
        return []
    return [(os.path.join(root, array.path, key(at)), 0, 0) for at in itertools.product(*places)]


def _runs(storage: Storage, box) -> list[tuple[str, int, int]]:
    axes = list(zip(box, storage.shape, strict=True))
    if storage.order == "F":
        axes.reverse()
    unit, outer = storage.dtype.itemsize, len(axes)
    while outer and axes[outer - 1][0] == (0, axes[outer - 1][1]):
        outer -= 1
        unit *= axes[outer][1]
    if not outer:
        return [(storage.path, storage.offset, unit)]
    (start, stop), extent = axes[outer - 1]
    rows = [range(a, b) for (a, b), _ in axes[: outer - 1]]
    if math.prod(map(len, rows)) > _MOST_RUNS:
        return []
    found = []
    for at in itertools.product(*rows):
        row = 0
        for i, (_, n) in zip(at, axes, strict=False):
            row = row * n + i
        found.append((storage.path, storage.offset + unit * (row * extent + start), unit * (stop - start)))
    return found


here = Ahead()  #: of this process
