"""A bounded run: three times a worker's memory goes through it, by eight threads that load.

Each load is annotated with what it needs; rask's scheduler starts it when there is room. Stock Dask runs
the same program and spills.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import dask
import numpy as np

from rask.processes import ProcessCluster

MB = 1_000_000
LIMIT, BLOCK, THREADS = 800, 50, 8
BLOCKS = 3 * LIMIT // BLOCK


def load(i: int) -> np.ndarray:
    return np.full(BLOCK * MB // 8, float(i))


def centred(block: np.ndarray) -> np.ndarray:
    return block - 1.0


def total(block: np.ndarray) -> float:
    return float(block.sum())


class Peak:
    """The most that a process had in memory, and the most that its worker had spilled."""

    def __init__(self, client: Any, pid: int):
        self.client, self.status = client, Path(f"/proc/{pid}/status")
        self.base, self.spilled = self._field("VmRSS"), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _field(self, name: str) -> int:
        lines = self.status.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))

    def _look(self) -> None:
        while not self._over.wait(0.1):
            (worker,) = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"].values()
            self.spilled = max(self.spilled, worker["metrics"]["spilled_bytes"]["disk"])

    def end(self) -> tuple[int, int]:
        self._over.set()
        self._thread.join()
        return self._field("VmHWM") - self.base, self.spilled


def run(kind: str) -> dict[str, Any]:
    """The program on one worker of this kind, with its scheduler."""
    options = ("--memory-limit", f"{LIMIT}MB")
    with ProcessCluster(kind, kind, 1, THREADS, worker_options=options) as cluster, cluster.connected() as client:
        (worker,) = cluster.workers.values()
        peak = Peak(client, worker.pid)
        begin = time.perf_counter()
        with dask.annotate(memory=2 * BLOCK * MB):  # the block, and what is made of it
            blocks = [dask.delayed(load)(i) for i in range(BLOCKS)]
        sums = [dask.delayed(total)(dask.delayed(centred)(block)) for block in blocks]
        value = dask.delayed(sum)(sums).compute(optimize_graph=False)
        took = time.perf_counter() - begin
        most, spilled = peak.end()
    assert value == sum((i - 1.0) * (BLOCK * MB // 8) for i in range(BLOCKS)), value
    return {"seconds": took, "peak": most, "spilled": spilled}


def show() -> None:
    print(f"\n  bounded run: {BLOCKS} blocks of {BLOCK} MB through one worker of {LIMIT} MB with {THREADS} threads")
    for kind in ("rask", "stock"):
        found = run(kind)
        print(f"  {kind:<8}{found['seconds']:6.2f} s, peak {found['peak'] / MB:5.0f} MB, "
              f"spilled {found['spilled'] / MB:5.0f} MB", flush=True)
