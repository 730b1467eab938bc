"""An array that a file holds in one piece: `raw` for plain bytes, `npy` for NumPy's own files.

A small picklable object with NumPy's indexing, for `da.from_array` and `da.store`. It opens the
file anew for each access, so it works in any process that sees the path. (A `np.memmap` is shipped
whole by the client instead.)
"""

from __future__ import annotations

import errno
import math
import operator
import os
import stat

import numpy as np

from rask.io import native
from rask.io.storage import Stamp


class RawArray:
    """Array-like over the bytes of a file.

    `head` are the bytes before the array that say what it is; a file that has come to begin
    otherwise holds another array, which is an error.
    """

    def __init__(self, path, dtype, shape, offset=0, order="C", mode="r", head=b""):
        self.path = os.path.abspath(os.fspath(path))
        self.dtype = np.dtype(dtype)
        if self.dtype.hasobject:
            raise ValueError(f"{self.path}: a file cannot hold Python objects ({self.dtype})")
        self.shape = tuple(operator.index(n) for n in np.atleast_1d(shape))
        self.offset = operator.index(offset)
        if self.offset < 0 or any(n < 0 for n in self.shape):
            raise ValueError(f"{self.path}: negative offset or shape")
        if order not in ("C", "F"):
            raise ValueError(f"{self.path}: order is neither 'C' nor 'F': {order!r}")
        if mode not in ("r", "r+", "w+"):
            raise ValueError(f"{self.path}: mode is none of 'r', 'r+', 'w+': {mode!r}")
        self.order = order
        self.mode = mode
        self._head, self._stamp = head, Stamp.of(self.path) if head else None
        if mode != "w+":
            self._check_length()

    def _check_length(self) -> None:
        """Where the file can be seen, it must be long enough; elsewhere the read finds out."""
        try:
            found = os.stat(self.path)
        except OSError:
            return
        size = found.st_size
        if stat.S_ISREG(found.st_mode) and size < self.offset + self.nbytes:
            raise ValueError(
                f"{self.path} has {size} bytes, but {self.dtype}{list(self.shape)} at offset "
                f"{self.offset} needs {self.offset + self.nbytes}"
            )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<rask.io array {self.path}: {self.dtype}{list(self.shape)}, order {self.order}>"

    def __dask_tokenize__(self):
        try:
            found = os.stat(self.path)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
        except OSError:
            stamp = None
        return ("rask.io.raw", self.path, self.dtype, self.shape, self.offset, self.order, stamp)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[...], dtype=dtype)

    def _source(self) -> tuple:
        return self.path, self.offset, self.dtype, self.shape, self.order

    def _check_head(self) -> None:
        """The file is the one that was opened, or begins as that one did."""
        if not self._head or (stamp := Stamp.of(self.path)) == self._stamp or stamp is None:
            return
        with open(self.path, "rb", buffering=0) as f:
            if f.read(len(self._head)) != self._head:
                reason = f"the file holds another array by now{native.here()}"
                raise OSError(errno.ESTALE, reason, self.path)
        self._stamp = stamp

    def read_boxes(self, boxes) -> list[np.ndarray]:
        """One array per ((start, stop), …); neighbours on disk are one access."""
        self._check_head()
        return native.read(*self._source(), boxes)

    def write_boxes(self, boxes, arrays) -> tuple:
        """The counterpart of read_boxes."""
        self._writable()
        self._check_head()
        return native.write(*self._source(), boxes, arrays)

    def _writable(self) -> None:
        """With mode "w+" the first write in a process makes the file at its full length."""
        if self.mode == "r":
            raise ValueError(f"{self.path} was opened for reading; mode 'r+' writes")
        if self.mode == "r+" or getattr(self, "_made", False):
            return
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                os.posix_fallocate(fd, 0, max(1, self.offset + self.nbytes))
            finally:
                os.close(fd)
        except OSError as e:
            raise OSError(e.errno, f"{e.strerror}{native.here()}", self.path) from e
        self._made = True

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_made"}

    def _box(self, index) -> tuple | None:
        """(box, what is left to do to it) of a basic index; None: some other kind of index."""
        index = index if isinstance(index, tuple) else (index,)
        if any(i is None or not isinstance(i, slice | int | np.integer) and i is not Ellipsis
               or isinstance(i, bool) for i in index):  # fmt: skip
            return None
        if Ellipsis in index:
            at = index.index(Ellipsis)
            fill = (slice(None),) * (self.ndim - len(index) + 1)
            index = index[:at] + fill + index[at + 1 :]
        index += (slice(None),) * (self.ndim - len(index))
        if len(index) != self.ndim or Ellipsis in index:
            return None
        box, rest = [], []
        for i, n in zip(index, self.shape, strict=True):
            if not isinstance(i, slice):
                i = operator.index(i)
                if not -n <= i < n:
                    raise IndexError(f"index {i} is out of bounds for an axis of size {n}")
                i += n if i < 0 else 0
                box.append((i, i + 1))
                rest.append(0)
                continue
            start, stop, step = i.indices(n)
            if step < 1:
                return None
            box.append((start, max(start, stop)))
            rest.append(slice(None, None, step))
        return tuple(box), tuple(rest)

    def __getitem__(self, index):
        found = self._box(index)
        if found is None:
            return np.array(self._mapped("r")[index])
        box, rest = found
        (block,) = self.read_boxes([box])
        if all(isinstance(i, slice) and i.step == 1 for i in rest):
            return block
        part = block[rest]
        return part.copy(order="K") if part.size < block.size and part.ndim else part

    def __setitem__(self, index, value) -> None:
        found = self._box(index)
        if found is None or any(i not in (0, slice(None, None, 1)) for i in found[1]):
            self._writable()
            mapped = self._mapped("r+")
            mapped[index] = value
            mapped.flush()
            return
        box, rest = found
        lengths = [b - a for a, b in box]
        kept = tuple(n for n, i in zip(lengths, rest, strict=True) if i != 0)
        block = np.broadcast_to(np.asarray(value), kept).reshape(lengths)
        self.write_boxes([box], [block])

    def _mapped(self, mode: str) -> np.memmap:
        self._check_head()
        return np.memmap(self.path, self.dtype, mode, self.offset, self.shape, self.order)


def raw(path, dtype, shape, offset=0, order="C", mode="r") -> RawArray:
    """The array of `shape` that lies in a file from byte `offset` on.

    Mode "r+" can be stored to; "w+" makes the file if it is not there.
    """
    return RawArray(path, dtype, shape, offset, order, mode)


def npy(path, mode="r") -> RawArray:
    """The array in a `.npy` file."""
    path = os.path.abspath(os.fspath(path))
    with open(path, "rb") as f:
        try:
            version = np.lib.format.read_magic(f)
            reader = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            shape, fortran, dtype = reader(f)
        except (ValueError, AttributeError) as e:
            raise ValueError(f"{path}: not a .npy file that can be read in place: {e}") from e
        offset = f.tell()
        f.seek(0)
        head = f.read(offset)
    return RawArray(path, dtype, shape, offset, "F" if fortran else "C", mode, head)
