"""What the tasks of clustered I/O do on a worker, rask's or stock: buffers in, blocks out, and back.

A buffer is loaded in one go but holds an array of its own for each block, so taking a block out
copies nothing and a block keeps nothing alive but itself. Data in one piece is scattered straight
into the blocks by native reads; what a library reads comes slab by slab, each chunk once.

A block that cannot be read fails alone: the others of its buffer are given out.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np

from rask.io import ahead, native
from rask.io.storage import Stamp, Storage

_SLAB_BYTES = 32 << 20  #: read or written through a library at once, in memory besides the buffer


class Buffer:
    """Blocks that were loaded together; what could not be loaded is the error that says why."""

    __slots__ = ("blocks",)

    def __init__(self, blocks: list):
        self.blocks = blocks

    def __sizeof__(self) -> int:
        return 64 + sum(getattr(block, "nbytes", 64) for block in self.blocks)

    def __getstate__(self):
        return self.blocks

    def __setstate__(self, blocks) -> None:
        self.blocks = blocks

    def __repr__(self) -> str:
        return f"<rask.io.Buffer of {len(self.blocks)} blocks>"


def load(array, storage: Storage, boxes, lock=None, asarray=True, followers=()) -> Buffer:
    """All blocks of a buffer. `boxes`: ((start, stop), …) per block; `followers`: boxes around those
    buffers that come next."""
    around = bounding(boxes)
    ahead.here.begins(storage, around, followers)
    buffer = _loaded(array, storage, boxes, lock, asarray)
    if (follower := ahead.here.next(storage, around, followers)) is not None:
        ahead.ask(array, storage, follower)
    return buffer


def _loaded(array, storage: Storage, boxes, lock, asarray) -> Buffer:
    if storage.native and (storage.stamp is None or Stamp.of(storage.path) == storage.stamp):
        try:
            return Buffer(_natively(array, storage, boxes))
        except OSError:
            pass  # some of it may be readable
    try:
        if (blocks := _by_slabs(array, storage, boxes, lock, asarray)) is not None:
            return Buffer(blocks)
    except MemoryError:
        raise
    except Exception:
        pass  # whose fault it was comes out when each is loaded alone
    return Buffer([_alone(array, storage, box, lock, asarray) for box in boxes])


def _natively(array, storage: Storage, boxes) -> list:
    """Blocks of a file that holds the array in one piece; rask's own arrays check that it still does."""
    return array.read_boxes(boxes) if hasattr(array, "read_boxes") else native.read(*storage.source(), boxes)


def pick(buffer: Buffer, number: int):
    """One block of a buffer."""
    block = buffer.blocks[number]
    if isinstance(block, Exception):
        raise block
    return block


def pick_copy(buffer: Buffer, number: int):
    """One block of a buffer for one of several tasks that load the same: each may change it."""
    return pick(buffer, number).copy()


def load_one(array, storage: Storage, box, lock=None, asarray=True):
    """A block that is in no buffer."""
    return pick(_loaded(array, storage, [box], lock, asarray), 0)


def _alone(array, storage: Storage, box, lock, asarray):
    """One block as a plain load gives it, or the error."""
    try:
        return _getter(array, _slices(box), asarray, lock)
    except MemoryError:
        raise
    except Exception as e:
        return _worded(e, storage.path)


def _getter(array, index, asarray, lock):
    from dask.array.core import getter

    return getter(array, index, asarray=asarray, lock=lock)


def _worded(e: Exception, path: str) -> Exception:
    """The same error, naming file and worker."""
    where = f"{path}{native.here()}"
    if isinstance(e, OSError) and e.errno is not None:
        return e if e.filename == path else OSError(e.errno, f"{e.strerror}{native.here()}", path)
    try:
        worded = type(e)(f"{where}: {e}")
    except Exception:
        worded = OSError(f"{where}: {type(e).__name__}: {e}")
    worded.__cause__ = e
    return worded


def _by_slabs(array, storage: Storage, boxes, lock, asarray) -> list | None:
    """Blocks through the library; None: it gives something else than plain arrays."""
    around = bounding(boxes)
    blocks: list = [None] * len(boxes)
    with lock or nullcontext():
        for slab in _slabs(around, storage.dtype.itemsize, storage.chunk):
            values = _getter(array, _slices(slab), asarray, None)
            if type(values) is not np.ndarray or values.shape != _lengths(slab):
                return None
            order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
            for i, box in enumerate(boxes):
                part = _overlap(box, slab)
                if part is None:
                    continue
                if blocks[i] is None:
                    blocks[i] = np.empty(_lengths(box), values.dtype, order)
                blocks[i][_within(part, box)] = values[_within(part, slab)]
    return blocks


def store(out, storage: Storage, boxes, lock, *blocks) -> None:
    """All blocks of a buffer into the target."""
    if not _plain(boxes, blocks):
        return _store_each(out, storage, boxes, lock, blocks)
    with lock or nullcontext():
        try:
            if storage.native and hasattr(out, "write_boxes"):
                out.write_boxes(boxes, blocks)
            else:
                _store_slabs(out, storage, boxes, blocks)
        except Exception as e:
            raise _worded(e, storage.path)  # noqa: B904 - it has its cause
    return None


def _store_slabs(out, storage: Storage, boxes, blocks) -> None:
    """Through the library, each chunk once."""
    dtype = blocks[0].dtype
    for slab in _slabs(bounding(boxes), dtype.itemsize, storage.write_chunk or storage.chunk):
        values = np.empty(_lengths(slab), dtype)
        for box, block in zip(boxes, blocks, strict=True):
            if (part := _overlap(box, slab)) is not None:
                values[_within(part, slab)] = block[_within(part, box)]
        out[_slices(slab)] = values


def _plain(boxes, blocks) -> bool:
    """Arrays of one type that fill the box around them."""
    fits = all(type(b) is np.ndarray and b.shape == _lengths(box) and b.dtype == blocks[0].dtype
               for b, box in zip(blocks, boxes, strict=True))  # fmt: skip
    return fits and sum(b.size for b in blocks) == math.prod(_lengths(bounding(boxes)))


def _store_each(out, storage: Storage, boxes, lock, blocks) -> None:
    with lock or nullcontext():
        for box, block in zip(boxes, blocks, strict=True):
            try:
                if block is not None and block.size:
                    out[_slices(box)] = block if hasattr(block, "dtype") else np.asanyarray(block)
            except Exception as e:
                raise _worded(e, storage.path)  # noqa: B904 - it has its cause


def stored(_done, out=None, index=None):
    """What a store task gives back: nothing, the target, or the block as the target has it."""
    return out if index is None else out[index]


# ---- boxes: ((start, stop), …) ------------------------------------------------------------------


def bounding(boxes) -> tuple:
    """The smallest box around others."""
    return tuple((min(a for a, _ in axis), max(b for _, b in axis))
                 for axis in zip(*boxes, strict=True))  # fmt: skip


def _lengths(box) -> tuple:
    return tuple(b - a for a, b in box)


def _slices(box) -> tuple:
    return tuple(slice(a, b) for a, b in box)


def _overlap(box, other) -> tuple | None:
    part = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))
    return part if all(a < b for a, b in part) else None


def _within(part, box) -> tuple:
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(part, box, strict=True))


def _slabs(box, itemsize: int, chunk):
    """A box cut along its first axis, at the borders of chunks, into pieces of bounded size."""
    if not box:
        yield box
        return
    (start, stop), *rest = box
    row = max(1, itemsize * math.prod(_lengths(rest)))
    step = max(1, _SLAB_BYTES // row)
    unit = chunk[0] if chunk else 1
    step = max(unit, step // unit * unit)
    while start < stop:
        end = min(stop, (start // unit) * unit + step)
        yield ((start, end), *rest)
        start = end
