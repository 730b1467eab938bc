"""Every strategy with plain reads and writes, without Dask: a program that strace watches.

    python -m iobench.bare '{"strategy": "clustered", "direction": "split", …}'

Split reads loads of the array and writes their parts to the files they belong to; merge goes the other
way. The strategies differ in what a load is. A file is opened for each load that touches it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections.abc import Iterator

import numpy as np

from iobench.data import blocks_of, name_of, values

Box = tuple[tuple[int, int], ...]


def lengths(box: Box) -> tuple[int, ...]:
    return tuple(b - a for a, b in box)


def overlap(a: Box, b: Box) -> Box | None:
    part = tuple((max(x, u), min(y, v)) for (x, y), (u, v) in zip(a, b))
    return part if all(x < y for x, y in part) else None


def within(part: Box, box: Box) -> tuple[slice, ...]:
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(part, box))


def segments(box: Box, shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(first element, elements) of each run of a box, in the order of the file."""
    axis = max((i for i, n in enumerate(shape) if lengths(box)[i] < n), default=0)
    run = math.prod(lengths(box)[axis:])
    strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
    first = sum(a * s for (a, _), s in zip(box, strides))
    for at in itertools.product(*(range(n) for n in lengths(box)[:axis])):
        yield first + sum(i * s for i, s in zip(at, strides)), run


def move(path: str, shape: tuple[int, ...], box: Box, memory: np.ndarray, write: bool) -> None:
    """A box of a file from or to memory, one call per run."""
    flat = memory.reshape(-1)
    fd = os.open(path, os.O_RDWR | os.O_CREAT if write else os.O_RDONLY, 0o666)
    at = 0
    for first, count in segments(box, shape):
        piece = flat[at:at + count]
        if write:
            done = os.pwrite(fd, piece.data, first * flat.itemsize)
        else:
            done = os.preadv(fd, [piece.data], first * flat.itemsize)
        if done != piece.nbytes:
            raise OSError(f"{path}: {done} of {piece.nbytes} bytes")
        at += count
    os.close(fd)


class Job:
    """One array, the files it is split into, and the loads between them."""

    def __init__(self, array: str, folder: str, shape: list[int], block: int, bound: int, strategy: str):
        self.array, self.folder = array, folder
        self.shape = tuple(shape)
        self.files = blocks_of(self.shape, block)
        self.kept = False  # descriptors of files stay open
        if strategy.endswith("slabs"):
            self._slabs(bound if strategy == "buffered slabs" else None)
        elif strategy == "multiple":
            self.loads = self._multiple(bound)
        else:
            self.loads = self._clustered(bound if strategy == "clustered" else 0)

    def _slabs(self, bound: int | None) -> None:
        """The array as one line; files are equal parts of it."""
        size, n = math.prod(self.shape), len(self.files)
        self.shape = (size,)
        self.files = [((i * size // n, (i + 1) * size // n),) for i in range(n)]
        step = bound // 2 if bound else size // n
        self.loads = [((a, min(size, a + step)),) for a in range(0, size, step)] if bound else self.files
        self.kept = True

    def _multiple(self, bound: int) -> list[Box]:
        axis, unit = len(self.shape) - 1, 2
        while axis > 0 and unit * self.shape[axis] <= bound:
            unit *= self.shape[axis]
            axis -= 1
        step, extent = max(1, bound // unit), self.shape[axis]
        rest = [(0, n) for n in self.shape[axis + 1:]]
        return [(*((i, i + 1) for i in at), (a, min(extent, a + step)), *rest)
                for at in itertools.product(*map(range, self.shape[:axis])) for a in range(0, extent, step)]

    def _clustered(self, bound: int) -> list[Box]:
        from rask.graph.clustered.layout import planned
        from rask.io import Storage
        from rask.io.buffers import bounding

        storage = Storage(self.shape, np.dtype("u2"), self.array)
        return [bounding([self.files[i] for i in members])
                for members in planned(self.files, storage, "C", bound)]

    def run(self, split: bool) -> None:
        held: dict[str, int] = {}
        for load in self.loads:
            memory = np.empty(lengths(load), "u2")
            if split:
                move(self.array, self.shape, load, memory, False)
            for file in self.files:
                if part := overlap(file, load):
                    path = os.path.join(self.folder, name_of(file))
                    local = tuple((s.start, s.stop) for s in within(part, file))
                    self._piece(held, path, lengths(file), local, memory[within(part, load)], split)
            if not split:
                move(self.array, self.shape, load, memory, True)
        for fd in held.values():
            os.close(fd)

    def _piece(self, held, path, shape, local, memory, split) -> None:
        piece = np.ascontiguousarray(memory)
        if self.kept:  # slabs: their parts follow each other
            if path not in held:
                held[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            (os.write(held[path], piece.data) if split else os.readv(held[path], [piece.data]))
        else:
            move(path, shape, local, piece, split)
        if not split:
            memory[...] = piece


def keep(folder: str, out: str, shape: tuple[int, ...], block: int, to: int, read: list[int]) -> None:
    """Blocks to blocks: each output block is written once, when all of it has been read."""
    files, targets = blocks_of(shape, block), blocks_of(shape, to)
    waiting: dict[Box, tuple[np.ndarray, int]] = {}
    for load in blocks_of(shape, read):
        memory = np.empty(lengths(load), "u2")
        for file in files:
            if part := overlap(file, load):
                piece = np.empty(lengths(part), "u2")
                local = tuple((s.start, s.stop) for s in within(part, file))
                move(os.path.join(folder, name_of(file)), lengths(file), local, piece, False)
                memory[within(part, load)] = piece
        for target in targets:
            if part := overlap(target, load):
                block_, done = waiting.pop(target, (None, 0))
                block_ = np.empty(lengths(target), "u2") if block_ is None else block_
                block_[within(part, target)] = memory[within(part, load)]
                done += math.prod(lengths(part))
                if done < block_.size:
                    waiting[target] = block_, done
                else:
                    whole = tuple((0, n) for n in lengths(target))
                    move(os.path.join(out, name_of(target)), lengths(target), whole, block_, True)


def one_by_one(folder: str, out: str, shape: tuple[int, ...], block: int, to: int) -> None:
    """KEEP's baseline: each input block is read once, its parts go where they belong."""
    for file in blocks_of(shape, block):
        memory = np.empty(lengths(file), "u2")
        whole = tuple((0, n) for n in lengths(file))
        move(os.path.join(folder, name_of(file)), lengths(file), whole, memory, False)
        for target in blocks_of(shape, to):
            if part := overlap(target, file):
                local = tuple((s.start, s.stop) for s in within(part, target))
                piece = np.ascontiguousarray(memory[within(part, file)])
                move(os.path.join(out, name_of(target)), lengths(target), local, piece, True)


def check(path: str, box: Box, shape: tuple[int, ...]) -> None:
    found = np.fromfile(path, "u2").reshape(lengths(box))
    if not (found == values(box, shape)).all():
        raise AssertionError(f"{path} is wrong")


def main(job: dict) -> None:
    shape = tuple(job["shape"])
    if job["strategy"] == "KEEP":
        keep(job["folder"], job["out"], shape, job["block"], job["to"], job["read"])
    elif job["strategy"] == "one by one":
        one_by_one(job["folder"], job["out"], shape, job["block"], job["to"])
    else:
        Job(job["array"], job["folder"], shape, job["block"], job["bound"], job["strategy"]).run(
            job["direction"] == "split")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
