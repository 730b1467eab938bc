"""Places in the collection: of blocks in the grid, and of items along an axis. Pure.

Chunks may be ragged and the grid may have any number of axes. Items are counted along one axis, in
the order in which the partition hands them out: block after block, so that the numbers fit the
concatenation of the blocks along that axis. "flat" counts single elements in C order of the whole
array, block after block, each block in C order.
"""

from __future__ import annotations

import math
from bisect import bisect
from itertools import accumulate
from typing import Any

import numpy as np

Chunks = tuple[tuple[int, ...], ...]


def default_axis(shape: tuple[int, ...]) -> int:
    """The only axis with several blocks; the first axis if there are several or none."""
    split = [axis for axis, length in enumerate(shape) if length > 1]
    return split[0] if len(split) == 1 else 0


def even_cuts(total: int, count: int) -> list[int]:
    """Borders of `count` runs of about equal length."""
    return [total * i // count for i in range(count + 1)]


def blocks_cut(chunks: Chunks, count: int) -> int:
    """How many blocks a rechunk to `count` blocks along the default axis takes apart."""
    shape = tuple(len(axis) for axis in chunks)
    axis = default_axis(shape)
    borders = {0, *accumulate(chunks[axis])}
    apart = {bisect(sorted(borders), cut) for cut in even_cuts(max(borders), count) if cut not in borders}
    return len(apart) * math.prod(shape) // shape[axis]


def ranges(indexes: list[tuple[int, ...]], chunks: Chunks, axis: int) -> list[tuple[int, int]]:
    """(start, stop) along `axis` of each block."""
    ends = list(accumulate(chunks[axis]))
    return [(ends[i[axis]] - chunks[axis][i[axis]], ends[i[axis]]) for i in indexes]


def items(indexes: list[tuple[int, ...]], chunks: Chunks, axis: int) -> np.ndarray:
    """Positions along `axis` of the items of all blocks, in the order of the blocks."""
    runs = [np.arange(start, stop) for start, stop in ranges(indexes, chunks, axis)]
    return np.concatenate(runs) if runs else np.arange(0)


def flat_items(indexes: list[tuple[int, ...]], chunks: Chunks) -> np.ndarray:
    """Positions in the flattened array of the elements of all blocks."""
    shape = tuple(sum(axis) for axis in chunks)
    per_axis = [ranges(indexes, chunks, axis) for axis in range(len(chunks))]
    runs: list[Any] = []
    for block in zip(*per_axis):
        grid = np.ix_(*(np.arange(start, stop) for start, stop in block))
        runs.append(np.ravel_multi_index(np.broadcast_arrays(*grid), shape).ravel()
                    if shape else np.zeros(1, int))
    return np.concatenate(runs) if runs else np.arange(0)


Layout = tuple[str, Any, int | None]


def layout(indexes: list[tuple[int, ...]], chunks: Chunks | None) -> Layout:
    """How blocks can be joined: ("box", blocks of the box along each axis, length) or ("axis",
    number, length); ValueError. The length is that along the one axis where they meet, if any."""
    if not indexes or len(indexes[0]) == 0:
        return "box", (), None
    sides = [sorted({index[axis] for index in indexes}) for axis in range(len(indexes[0]))]
    lengths = tuple(len(side) for side in sides)
    # Distinct places as many as the box has: then they fill it, in C order.
    if int(np.prod(lengths)) == len(indexes) and _same_order(indexes):
        return "box", lengths, _joined_length(indexes, chunks, lengths)
    for axis in range(len(sides)):
        others = [a for a in range(len(sides)) if a != axis]
        if chunks is None or all(len({chunks[a][i] for i in sides[a]}) == 1 for a in others):
            return "axis", axis, chunks and sum(chunks[axis][index[axis]] for index in indexes)
    raise ValueError("the blocks of a partition neither fill a box of the grid nor fit along one "
                     "axis; take them as a list, or rechunk so that one axis has several blocks")


def _joined_length(indexes: list[tuple[int, ...]], chunks: Chunks | None,
                   lengths: tuple[int, ...]) -> int | None:
    axes = [axis for axis, length in enumerate(lengths) if length > 1]
    if chunks is None or len(axes) != 1:
        return None
    return sum(chunks[axes[0]][index[axes[0]]] for index in indexes)


def _same_order(indexes: list[tuple[int, ...]]) -> bool:
    return all(a < b for a, b in zip(indexes, indexes[1:]))
