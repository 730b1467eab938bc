"""Blocks of a file that holds an array in one piece, read and written without the GIL.

One call moves all blocks of a buffer in the order of the file (worker/io/boxes.h). An error names
the file, the worker and the reason.
"""

from __future__ import annotations

import os

import numpy as np

from rask._native import _io


def move(path: str, offset: int, dtype, shape, order: str, boxes, arrays, *, write: bool) -> tuple:
    """Fills `arrays` from boxes of the file, or the other way round: (bytes, calls, segments).

    A box is ((start, stop), …) in the order in which the array is indexed. Arrays have the boxes'
    shapes, the file's dtype, and lie in memory without gaps in the file's order.
    """
    turn = -1 if order == "F" else 1
    wanted = []
    for box, array in zip(boxes, arrays, strict=True):
        whole = array.flags.f_contiguous if order == "F" else array.flags.c_contiguous
        if array.dtype != dtype or not whole or array.shape != tuple(b - a for a, b in box):
            raise ValueError("memory does not fit its box of the file")
        if not write and not array.flags.writeable:
            raise ValueError("memory cannot be written")
        wanted.append(
            ([a for a, _ in box][::turn], [b for _, b in box][::turn], array.ctypes.data)
        )
    error, reason, *done = _io.move(
        os.fspath(path), offset, np.dtype(dtype).itemsize, list(shape)[::turn], wanted, write
    )
    if error:
        raise OSError(error, f"{reason}{here()}", path)
    return tuple(done)


def read(path: str, offset: int, dtype, shape, order: str, boxes) -> list[np.ndarray]:
    """One array per box, each with memory of its own."""
    arrays = [np.empty([b - a for a, b in box], dtype, order) for box in boxes]
    move(path, offset, dtype, shape, order, boxes, arrays, write=False)
    return arrays


def write(path: str, offset: int, dtype, shape, order: str, boxes, arrays) -> tuple:
    """Each array to its box of the file; (bytes, calls, segments)."""
    arrays = [np.asarray(array, dtype, order) for array in arrays]
    return move(path, offset, dtype, shape, order, boxes, arrays, write=True)


def here() -> str:
    """" on worker <address>", inside a task."""
    try:
        from distributed import get_worker

        return f" on worker {get_worker().address}"
    except (ImportError, ValueError, AttributeError):
        return ""
