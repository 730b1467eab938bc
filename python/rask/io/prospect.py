"""Predictions for one array in a file: seeks and bytes of every strategy, and a picture of the plan.

The figures are those of the planner in C++ (scheduler/frontend/io); nothing is read but metadata.
"""

from __future__ import annotations

import math
import os
from functools import reduce

import numpy as np
from dask.utils import format_bytes

from rask._native import _graph
from rask.io.raw import npy, raw
from rask.io.storage import Storage, describe

_PANELS = 8  #: slices that are drawn
_MOST_BLOCKS = 20_000_000


def storage_of(path: str, dataset: str | None, dtype, shape, offset: int) -> Storage:
    """How the array named on the command line is stored; a ValueError that names the file says why not."""
    try:
        found = describe(_opened(path, dataset, dtype, shape, offset))
    except (OSError, ValueError, KeyError, TypeError) as e:
        said = e.args[0] if isinstance(e, KeyError) and e.args else e
        raise ValueError(str(said) if path in str(said) else f"{path}: {said}") from e
    if found is None:
        raise ValueError(f"{path}: cannot tell how this is stored")
    return found


def _opened(path: str, dataset: str | None, dtype, shape, offset: int):
    if (dtype is None) != (shape is None):
        raise ValueError("plain bytes need both --dtype and --shape")
    if dtype is not None:
        return raw(path, dtype, shape, offset)
    if os.path.isdir(path):
        import zarr

        found = zarr.open(path, mode="r")
        return _named(found, dataset, zarr.Array)
    with open(path, "rb") as f:
        magic = f.read(8)
    if magic.startswith(b"\x93NUMPY"):
        return npy(path)
    if magic == b"\x89HDF\r\n\x1a\n":
        import h5py

        return _named(h5py.File(path, "r"), dataset, h5py.Dataset)
    raise ValueError("not a known format; give --dtype and --shape for plain bytes")


def _named(group, name: str | None, kind: type):
    """The array of this name, or the only one there is."""
    if isinstance(group, kind):
        return group
    arrays = [key for key in group if isinstance(group[key], kind)]
    if name is None and len(arrays) != 1:
        raise ValueError(f"name one of its datasets: {', '.join(arrays) or 'there is none'}")
    found = group[name or arrays[0]]
    if not isinstance(found, kind):
        raise ValueError(f"{name} is no array")
    return found


class Prospect:
    """A plan for one array and one bound."""

    def __init__(self, storage: Storage, chunks, bound: int, order: str = "auto"):
        self.storage, self.bound = storage, bound
        self.order = storage.order if order == "auto" else order
        if not 0 < bound < 2**63:
            raise ValueError(f"a buffer of {bound} bytes")
        if 0 in storage.shape:
            raise ValueError(f"{storage.path}: an array without elements: {_by(storage.shape)}")
        self.chunks = self._fitting(chunks)
        self.axes = [
            (n, list(range(0, n, c)), [*range(c, n, c), n])
            for n, c in zip(storage.shape, self.chunks, strict=True)
        ]
        self.blocks = math.prod(len(starts) for _, starts, _ in self.axes)
        self.ids, self.counts, self.seeks = self._planned(bound)

    def _fitting(self, chunks) -> tuple[int, ...]:
        """One length per axis."""
        shape = self.storage.shape
        chunks = chunks * len(shape) if len(chunks) == 1 else chunks
        if len(chunks) != len(shape) or min(chunks) < 1:
            raise ValueError(f"blocks of {_by(chunks)} do not fit an array of shape {_by(shape)}")
        if (many := math.prod(-(-n // c) for n, c in zip(shape, chunks, strict=True))) > _MOST_BLOCKS:
            raise ValueError(f"{many} blocks of {_by(chunks)}; at most {_MOST_BLOCKS} are planned here")
        return tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))

    def _planned(self, bound: int) -> tuple:
        """(numbers of blocks in storage order, buffer by buffer; blocks per buffer; seeks)."""
        ids, counts, seeks = _graph.io_plan(self.axes, self.storage.dtype.itemsize, self.order, b"", bound,
                                            list(self.storage.chunk or ()))  # fmt: skip
        return np.frombuffer(ids, np.uint64).astype(np.int64), np.frombuffer(counts, np.uint64).astype(np.int64), seeks

    def rows(self) -> list[tuple]:
        """(strategy, seeks in the array, seeks in block files, bytes, largest buffer)."""
        size, storage = self.storage.dtype.itemsize, self.storage
        if storage.chunk is None:
            return _graph.io_predict(self.axes, size, self.order, b"", self.bound)
        lengths = [np.subtract(stops, starts) for _, starts, stops in self.axes]
        each = reduce(np.multiply.outer, lengths).ravel(self.order) * size
        rows = []
        for name, bound in (("naive blocks", 1), ("clustered", self.bound)):
            ids, counts, seeks = self._planned(bound)
            buffers = np.add.reduceat(each[ids], np.cumsum(counts) - counts)
            rows.append((name, seeks, self.blocks, int(each.sum()), int(buffers.max())))
        return rows

    def table(self, to_chunks=None) -> str:
        """What the command prints."""
        storage = self.storage
        how = "one piece" if storage.chunk is None else f"chunks of {_by(storage.chunk)}"
        lines = [
            f"{storage.path}: {_by(storage.shape)} {storage.dtype}, in {how}, order {self.order}",
            f"{self.blocks} blocks of {_by(self.chunks)}, buffers of at most "
            f"{format_bytes(self.bound)}: {len(self.counts)} buffers",
            "",
            f"{'strategy':<16}{'seeks in array':>16}{'in blocks':>12}{'seeks':>12}"
            f"{'bytes':>14}{'largest buffer':>16}",
        ]
        for name, array, blocks, total, peak in self.rows():
            lines.append(f"{name:<16}{array:>16}{blocks:>12}{array + blocks:>12}"
                         f"{format_bytes(total):>14}{format_bytes(peak):>16}")  # fmt: skip
        if to_chunks:
            lines += self._keep(to_chunks)
        return "\n".join(lines)

    def _keep(self, to_chunks) -> list[str]:
        to_chunks = self._fitting(to_chunks)
        read, seeks, peak, fits, baseline = _graph.io_keep(
            list(self.storage.shape), list(self.chunks), list(to_chunks),
            self.storage.dtype.itemsize, self.bound, self.order)  # fmt: skip
        return ["", f"block files of {_by(self.chunks)} to block files of {_by(to_chunks)}:",
                f"  one by one: {baseline} seeks",
                f"  KEEP, reading {_by(read)}: {seeks} seeks, {format_bytes(peak)} at most"
                + ("" if fits else " (does not fit the bound)")]  # fmt: skip

    def draw(self, path: str) -> None:
        """Blocks coloured by their buffer, slice by slice along the slowest axis."""
        import matplotlib

        matplotlib.use("agg")
        import matplotlib.pyplot as plt

        panels, rows, columns = self._panels()
        figure, axes = plt.subplots(1, len(panels), squeeze=False,
                                    figsize=(1 + 2.2 * len(panels), 3.2))  # fmt: skip
        colours = plt.get_cmap("tab20")
        for at, (axis, panel) in enumerate(zip(axes[0], panels, strict=True)):
            axis.imshow(colours(panel % 20), aspect="equal" if rows * columns > 1 else "auto")
            if rows * columns <= 400:
                for y, x in np.ndindex(rows, columns):
                    axis.text(x, y, panel[y, x], ha="center", va="center", fontsize=6)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.set_title(f"slice {at}", fontsize=8)
        figure.suptitle(
            f"{os.path.basename(self.storage.path)}: {self.blocks} blocks in "
            f"{len(self.counts)} buffers of ≤ {format_bytes(self.bound)}", fontsize=9)  # fmt: skip
        figure.savefig(path, dpi=150, bbox_inches="tight")
        plt.close(figure)

    def _panels(self) -> tuple[list, int, int]:
        """Numbers of buffers, as one table of blocks per slice: fastest axis across."""
        number = np.empty(self.blocks, int)
        number[self.ids] = np.repeat(np.arange(len(self.counts)), self.counts)
        table = number.reshape([len(starts) for _, starts, _ in self.axes], order=self.order)
        if self.order == "F":
            table = table.transpose()
        columns = table.shape[-1]
        rows = table.shape[-2] if table.ndim > 1 else 1
        slices = table.reshape(-1, rows, columns)
        return list(slices[:_PANELS]), rows, columns


def _by(extents) -> str:
    return "×".join(map(str, extents))
