"""F(B): the same kernel calls and sums in two bare processes that hold the blocks. No Dask.

What is left is Python calling the kernel; nothing that schedules can be faster. Its malloc keeps what kernels
give back, as rask's workers' does: else the time of some sizes of blocks is that of page faults.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from typing import Any

from spliter import kernels

PROCESSES = 2
KEEPS = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}  # worker/shell/heap.cc


def _hold(pipe: Any, pieces: list[range], rows: int, columns: int) -> None:
    blocks = [kernels.uniform(piece, rows, columns) for piece in pieces]
    pipe.send("ready")
    while (work := pipe.recv()) is not None:
        kernel, merge = work
        pipe.send(merge(kernel(block) for block in blocks))


class Floor:
    """The two processes. `pieces` of `rows` rows are cut into `blocks`."""

    def __init__(self, blocks: int, pieces: int, rows: int, columns: int):
        context = multiprocessing.get_context("spawn")
        cut = [range(pieces * i // blocks, pieces * (i + 1) // blocks) for i in range(blocks)]
        self._started = []
        os.environ.update(KEEPS)
        for k in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=_hold, args=(theirs, cut[k::PROCESSES], rows, columns),
                                      daemon=True)
            process.start()
            self._started.append((process, ours))
        for name in KEEPS:
            del os.environ[name]
        for _, pipe in self._started:
            pipe.recv()
        self.seconds: list[float] = []
        self.total: Any = None

    def run(self, kernel: Callable[..., Any] = kernels.histogram,
            merge: Callable[..., Any] = kernels.add) -> float:
        """Once more; its time is given and goes to `seconds`, what is merged of all blocks to `total`."""
        begin = time.perf_counter()
        for _, pipe in self._started:
            pipe.send((kernel, merge))
        self.total = merge(pipe.recv() for _, pipe in self._started)
        self.seconds.append(time.perf_counter() - begin)
        return self.seconds[-1]

    def close(self) -> None:
        for process, pipe in self._started:
            pipe.send(None)
            process.join()
