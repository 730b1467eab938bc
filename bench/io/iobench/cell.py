"""The process of one cell: a cluster of one worker, one program, some bounds; times, counts, a check.

Reads a job as JSON from stdin and prints one JSON line per bound. A process of its own, so that no file
is open on the device between cells.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from bed.cluster import BACKENDS, environment
from iobench import data, programs
from iobench.device import sync
from iobench.trace import Attached
from rask.processes import ProcessCluster


def status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def requests(stat: str | None) -> tuple[int, int]:
    fields = Path(stat).read_text().split() if stat else ["0"] * 8
    return int(fields[0]), int(fields[4])


class Cell:
    """One program on one cluster."""

    def __init__(self, job: dict, client, pid: int):
        self.job, self.client, self.pid = job, client, pid
        self.shape, self.block = tuple(job["shape"]), job["block"]
        self.folder, self.array = job["folder"], job["array"]

    def once(self, blocks: int | None) -> dict:
        """One run: with buffers of so many blocks, or without the pass."""
        job, bound = self.job, None
        if blocks is not None:
            bound = blocks * self.block ** 3 * 2
        splits = job["direction"] == "split"
        if splits:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder)
            x = programs.opened(job["format"], self.array, self.shape, self.block, job["order"])
            work = programs.split(x, self.folder, job["select"], self._origins())
        else:
            Path(self.array).unlink(missing_ok=True)
            target = programs.rask.io.raw(self.array, "u2", self.shape, 0, job["order"], "w+")
            work = programs.merge(self.folder, self.shape, self.block, target)
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak starts anew
        base, before = status(self.pid, "VmRSS"), requests(job.get("stat"))
        trace = Attached(self.pid) if job["trace"] else nullcontext()
        with trace, programs.switched(bound):
            begin = time.perf_counter()
            work.compute()
            if job["sync"]:
                sync(os.path.dirname(self.array))
            took = time.perf_counter() - begin
        after = requests(job.get("stat"))
        row = {"seconds": took, "peak": status(self.pid, "VmHWM") - base,
               "reads": after[0] - before[0], "writes": after[1] - before[1]}
        if job["trace"]:
            row |= {"array_seeks": trace.seeks.of(self.array), "block_seeks": trace.seeks.of(self.folder),
                    "array_bytes": trace.seeks.of(self.array, "bytes")}
        return row

    def agrees(self) -> bool:
        """The outputs are what they should be."""
        if self.job["direction"] == "merge":
            return data.same_array(self.array, self.shape, self.job["order"])
        return data.same_blocks(self.folder, self.boxes(), self.shape)

    def boxes(self) -> list:
        return selected(self.shape, self.block, self.job["select"])

    def _origins(self) -> list[list[int]]:
        return [sorted({box[axis][0] for box in self.boxes()}) for axis in range(len(self.shape))]


def selected(shape, block: int, select: str) -> list:
    """The blocks that a program touches."""
    chosen = {"all": lambda box: True, "rows": lambda box: box[1][0] // block % 2 == 0,
              "corner": lambda box: all(a < block for a, _ in box)}[select]
    return [box for box in data.blocks_of(shape, block) if chosen(box)]


def main() -> None:
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    job = json.loads(sys.stdin.read())
    backend = BACKENDS[job["backend"]]
    options = ("--memory-limit", job["limit"])
    with ProcessCluster(backend.scheduler, backend.worker, 1, job["threads"], worker_options=options,
                        env=environment(backend)) as cluster, cluster.connected() as client:
        client.run(_imports)
        with programs.switched(1000):  # the graph process, too, has its imports behind it
            programs.da.ones(8, chunks=4).map_blocks(programs.np.negative).sum().compute()
        (worker,) = cluster.workers.values()
        cell = Cell(job, client, worker.pid)
        rows: dict = {blocks: [] for blocks in job["budgets"]}
        right: dict = {}  # the first run of each is compared with what it must be
        for repeat in range(job["repeats"] + job["warm"]):
            for blocks in job["budgets"] if repeat % 2 else reversed(job["budgets"]):
                row = cell.once(blocks)
                right[blocks] = right.get(blocks, True) and (repeat > 0 or cell.agrees())
                if repeat >= job["warm"]:
                    rows[blocks].append(row)
        for blocks, found in rows.items():
            first = {name: found[0][name] for name in found[0] if name not in ("seconds", "peak")}
            print(json.dumps({**job["labels"], "backend": job["backend"], "threads": job["threads"],
                              "direction": job["direction"], "format": job["format"], "order": job["order"],
                              "select": job["select"], "shape": job["shape"], "block": job["block"],
                              "blocks": blocks, **first, "peak": max(row["peak"] for row in found),
                              "seconds": [row["seconds"] for row in found],
                              "agrees": right[blocks]}), flush=True)


def _imports() -> None:
    """What the first task would import otherwise."""
    import h5py  # noqa: F401
    import xarray  # noqa: F401
    import zarr  # noqa: F401

    import rask.io.buffers  # noqa: F401


if __name__ == "__main__":
    main()
