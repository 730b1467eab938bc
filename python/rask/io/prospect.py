"""Predictions for one array in a file: seeks and bytes of every strategy, and a picture of the plan.

The figures are those of the planner in C++ (scheduler/frontend/io); nothing is read but metadata.
"""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
from dask.utils import format_bytes

from rask._native import _graph
from rask.graph.clustered.layout import planned
from rask.io.raw import npy, raw
from rask.io.storage import Storage, describe

_PANELS = 8  #: slices that are drawn


def storage_of(path: str, dataset: str | None, dtype, shape, offset: int) -> Storage:
    """How the array named on the command line is stored."""
    found = describe(_opened(path, dataset, dtype, shape, offset))
    if found is None:
        raise ValueError(f"{path}: cannot tell how this is stored")
    return found


def _opened(path: str, dataset: str | None, dtype, shape, offset: int):
    if dtype is not None and shape is not None:
        return raw(path, dtype, shape, offset)
    if os.path.isdir(path):
        import zarr

        found = zarr.open(path, mode="r")
        return found[dataset] if dataset else found
    with open(path, "rb") as f:
        magic = f.read(8)
    if magic.startswith(b"\x93NUMPY"):
        return npy(path)
    if magic == b"\x89HDF\r\n\x1a\n":
        import h5py

        opened = h5py.File(path, "r")
        arrays = [name for name in opened if isinstance(opened[name], h5py.Dataset)]
        if dataset is None and len(arrays) != 1:
            raise ValueError(f"{path}: name one of its datasets: {', '.join(arrays)}")
        return opened[dataset or arrays[0]]
    raise ValueError(f"{path}: not a known format; give --dtype and --shape for plain bytes")


class Prospect:
    """A plan for one array and one bound."""

    def __init__(self, storage: Storage, chunks, bound: int, order: str = "auto"):
        self.storage, self.bound = storage, bound
        self.order = storage.order if order == "auto" else order
        chunks = chunks * len(storage.shape) if len(chunks) == 1 else chunks
        if len(chunks) != len(storage.shape) or min(chunks) < 1:
            raise ValueError(f"blocks of {chunks} do not fit an array of shape {storage.shape}")
        self.chunks = tuple(min(c, n) for c, n in zip(chunks, storage.shape, strict=True))
        self.intervals = [
            [(a, min(a + c, n)) for a in range(0, n, c)]
            for c, n in zip(self.chunks, storage.shape, strict=True)
        ]
        self.boxes = list(itertools.product(*self.intervals))
        self.buffers = planned(self.boxes, storage, self.order, bound)

    def _axes(self) -> list:
        return [
            (n, [a for a, _ in axis], [b for _, b in axis])
            for n, axis in zip(self.storage.shape, self.intervals, strict=True)
        ]

    def rows(self) -> list[tuple]:
        """(strategy, seeks in the array, seeks in block files, bytes, largest buffer)."""
        size, storage = self.storage.dtype.itemsize, self.storage
        if storage.chunk is None:
            return _graph.io_predict(self._axes(), size, self.order, b"", self.bound)
        total = math.prod(storage.shape) * size
        rows = []
        for name, bound in (("naive blocks", 1), ("clustered", self.bound)):
            *_, seeks = _graph.io_plan(self._axes(), size, self.order, b"", bound, list(storage.chunk))
            found = planned(self.boxes, storage, self.order, bound)
            rows.append((name, seeks, len(self.boxes), total, max(map(self._bytes, found))))
        return rows

    def _bytes(self, members) -> int:
        elements = sum(math.prod(b - a for a, b in self.boxes[i]) for i in members)
        return elements * self.storage.dtype.itemsize

    def table(self, to_chunks=None) -> str:
        """What the command prints."""
        storage = self.storage
        how = "one piece" if storage.chunk is None else f"chunks of {_by(storage.chunk)}"
        lines = [
            f"{storage.path}: {_by(storage.shape)} {storage.dtype}, in {how}, order {self.order}",
            f"{len(self.boxes)} blocks of {_by(self.chunks)}, buffers of at most "
            f"{format_bytes(self.bound)}: {len(self.buffers)} buffers",
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
        to_chunks = to_chunks * len(self.chunks) if len(to_chunks) == 1 else to_chunks
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
            f"{os.path.basename(self.storage.path)}: {len(self.boxes)} blocks in "
            f"{len(self.buffers)} buffers of ≤ {format_bytes(self.bound)}", fontsize=9)  # fmt: skip
        figure.savefig(path, dpi=150, bbox_inches="tight")
        plt.close(figure)

    def _panels(self) -> tuple[list, int, int]:
        """Numbers of buffers, as one table of blocks per slice: fastest axis across."""
        number = np.empty(len(self.boxes), int)
        for i, members in enumerate(self.buffers):
            number[members] = i
        table = number.reshape([len(axis) for axis in self.intervals])
        if self.order == "F":
            table = table.transpose()
        columns = table.shape[-1]
        rows = table.shape[-2] if table.ndim > 1 else 1
        slices = table.reshape(-1, rows, columns)
        return list(slices[:_PANELS]), rows, columns


def _by(extents) -> str:
    return "×".join(map(str, extents))
