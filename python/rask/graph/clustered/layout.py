"""From boxes of an array to buffers: the planner's view of a group of loads or stores."""

from __future__ import annotations

import hashlib
import math

import numpy as np

from rask._native import _graph
from rask.io.storage import Storage

Box = tuple[tuple[int, int], ...]


def box_of(index, shape) -> Box | None:
    """The box that an index of plain slices names; None for any other index."""
    index = index if isinstance(index, tuple) else (index,)
    if len(index) != len(shape):
        return None
    box = []
    for part, n in zip(index, shape, strict=True):
        if not isinstance(part, slice) or (part.step is not None and part.step != 1):
            return None
        start, stop, _ = part.indices(n)
        if start >= stop:
            return None
        box.append((start, stop))
    return tuple(box)


def volume(box: Box) -> int:
    return math.prod(b - a for a, b in box)


def run_bytes(box: Box, storage: Storage) -> int:
    """Bytes of a box that lie together in an array stored in one piece."""
    axes = list(zip(box, storage.shape, strict=True))
    length = storage.dtype.itemsize
    for (start, stop), extent in axes if storage.order == "F" else reversed(axes):
        length *= stop - start
        if stop - start != extent:
            break
    return length


def digest(boxes) -> str:
    """A name for these boxes: the same in every submission that loads or stores them together."""
    return hashlib.blake2b(repr(boxes).encode(), digest_size=8).hexdigest()


def planned(boxes: list[Box], storage: Storage, order: str, bound: int, *, stores=False):
    """Numbers of boxes, buffer by buffer; None: they are no grid. Boxes are distinct."""
    axes, places = [], []
    for axis, extent in enumerate(storage.shape):
        intervals = sorted({box[axis] for box in boxes})
        if any(a[1] > b[0] for a, b in zip(intervals, intervals[1:], strict=False)):
            return None
        axes.append((extent, [a for a, _ in intervals], [b for _, b in intervals]))
        places.append({interval: i for i, interval in enumerate(intervals)})
    numbers = [len(axis[1]) for axis in axes]
    if math.prod(numbers) >= 2**63:
        return None
    coordinates = [[place[box[axis]] for box in boxes] for axis, place in enumerate(places)]
    ids = np.ravel_multi_index(coordinates, numbers, order=order).astype(np.uint64)
    chunk = (storage.write_chunk or storage.chunk) if stores else storage.chunk
    by_id = {int(i): n for n, i in enumerate(ids)}
    found, counts, _ = _graph.io_plan(
        axes, storage.dtype.itemsize, order, ids.tobytes(), bound, list(chunk or ())
    )
    found = iter(np.frombuffer(found, np.uint64).tolist())
    return [
        [by_id[next(found)] for _ in range(count)]
        for count in np.frombuffer(counts, np.uint64).tolist()
    ]
