"""The numbers of the bench: every place of the array has its own, so that a wrong block is seen."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np


def values(box, shape, order: str = "C") -> np.ndarray:
    """A box of the array: the place of each element in C order times a prime, in 16 bits."""
    total = np.zeros((), "u2")
    for axis, (a, b) in enumerate(box):
        stride = math.prod(shape[axis + 1:]) * 40503 % 65536
        line = (np.arange(a, b, dtype="u4") * np.uint32(stride)).astype("u2")
        total = total[..., None] + line
    return np.asarray(total, order=order)


def blocks_of(shape, block) -> list[tuple]:
    """The boxes of a grid; `block` is one length, or one per axis."""
    sizes = [block] * len(shape) if isinstance(block, int) else block
    return list(itertools.product(*([(a, min(a + c, n)) for a in range(0, n, c)]
                                    for n, c in zip(shape, sizes))))


def name_of(box) -> str:
    return "-".join(str(a) for a, _ in box)


def write_array(path: str, shape, order: str = "C", step: int = 20) -> None:
    """The array in one piece, in bounded memory."""
    n = shape[0] if order == "C" else shape[-1]
    with open(path, "wb") as f:
        for a in range(0, n, step):
            cut = (a, min(n, a + step))
            box = [cut if i == (0 if order == "C" else len(shape) - 1) else (0, m) for i, m in enumerate(shape)]
            f.write(values(box, shape).tobytes(order=order))


def write_blocks(folder: str, shape, block: int) -> None:
    os.makedirs(folder, exist_ok=True)
    for box in blocks_of(shape, block):
        values(box, shape).tofile(os.path.join(folder, name_of(box)))


def same_array(path: str, shape, order: str = "C", step: int = 20) -> bool:
    """The file holds the array and nothing else."""
    n = shape[0] if order == "C" else shape[-1]
    if os.path.getsize(path) != math.prod(shape) * 2:
        return False
    with open(path, "rb") as f:
        for a in range(0, n, step):
            cut = (a, min(n, a + step))
            box = [cut if i == (0 if order == "C" else len(shape) - 1) else (0, m) for i, m in enumerate(shape)]
            expected = values(box, shape).tobytes(order=order)
            if f.read(len(expected)) != expected:
                return False
    return True


def same_blocks(folder: str, boxes, shape) -> bool:
    """The folder holds these blocks and no other."""
    if sorted(os.listdir(folder)) != sorted(map(name_of, boxes)):
        return False
    for box in boxes:
        found = np.fromfile(os.path.join(folder, name_of(box)), "u2")
        if found.tobytes() != values(box, shape).tobytes():
            return False
    return True
