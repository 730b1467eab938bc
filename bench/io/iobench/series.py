"""What each experiment runs: lists of cells, and the files they need."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from iobench import data, trace
from iobench.cell import selected
from iobench.device import Throttled, sync
from iobench.plan import Sizes
from rask._native import _graph

BENCH = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    rask = os.environ.get("RASK_PYTHON", str(BENCH.parent / "python"))
    path = [str(BENCH / "io"), str(BENCH), rask, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, path))}


class Bench:
    """One experiment; `say(row)` is told of every finished cell. After `end` none begins: `left` counts."""

    def __init__(self, sizes: Sizes, say: Callable[[dict], None], backends: tuple[str, ...],
                 end: float = math.inf):
        self.sizes, self.say, self.backends, self.end = sizes, say, backends, end
        self.left = 0

    def late(self) -> bool:
        late = time.monotonic() >= self.end
        self.left += late
        return late

    def cell(self, **job: Any) -> None:
        """One cell in a process of its own; what it prints becomes rows."""
        block = job.pop("block", self.sizes.block)
        job = {"backend": "rask/rask", "threads": 2, "limit": self.sizes.limit, "direction": "split",
               "format": "raw", "order": "C", "select": "all", "repeats": 1, "warm": 0, "trace": False,
               "sync": True, "budgets": [None], "labels": {}, **job, "block": block}
        if job["backend"] not in self.backends or self.late():
            return
        done = subprocess.run([sys.executable, "-m", "iobench.cell"], input=json.dumps(job), text=True,
                              capture_output=True, cwd=BENCH, env=environment())
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0:
            rows = [{**job["labels"], "backend": job["backend"], "direction": job["direction"],
                     "format": job["format"], "blocks": job["budgets"][0], "threads": job["threads"],
                     "order": job["order"], "select": job["select"], "block": block, "seconds": [],
                     "agrees": False, "error": done.stderr[-2000:]}]
        for row in rows:
            self.say(row)

    # ---- counting --------------------------------------------------------------------------------------

    def planner(self) -> None:
        """The plan of a large grid at each bound, as the pass asks for it."""
        n = self.sizes.planned
        axes = [(2 * n, list(range(0, 2 * n, 2)), list(range(2, 2 * n + 1, 2)))] * 3
        blocks = np.arange(n ** 3, dtype="u8").tobytes()
        for bound in (1, n, n * n):
            seconds = []
            for _ in range(3):
                begin = time.perf_counter()
                found, counts, _seeks = _graph.io_plan(axes, 2, "C", blocks, bound * 16, [])
                seconds.append(time.perf_counter() - begin)
            agrees = np.frombuffer(counts, "u8").tolist() == [bound] * (n ** 3 // bound) and found == blocks
            self.say({"experiment": "planner", "backend": "bare", "direction": "plan", "strategy": "clustered",
                      "blocks": bound, "of": n ** 3, "seconds": seconds, "agrees": agrees})

    def strategies(self) -> None:
        """Strategies by plain reads and writes under strace, in both directions."""
        sizes = self.sizes
        with _folder() as base:
            self._plain(base, sizes.plain_cube, sizes.plain_block, sizes.budgets)
            self._keep(base)
        with _folder() as base:
            self._plain(base, sizes.cube, sizes.block, sizes.large_budgets, sizes.large_seeks)

    def _plain(self, base: str, cube: int, block: int, budgets: tuple[int, ...], most: float = math.inf) -> None:
        """Those that seek at most so often."""
        shape, array, parts = (cube,) * 3, f"{base}/array", f"{base}/parts"
        for blocks in budgets:
            bound = blocks * block ** 3 * 2
            for name, array_seeks, block_seeks, *_ in predicted(shape, block, "C", "all", bound):
                if name.startswith("naive") and blocks != budgets[0] or array_seeks + block_seeks > most:
                    continue
                if name == "clustered" and blocks == 1:
                    continue  # it is naive blocks, access by access
                for direction in ("split", "merge"):
                    job = {"strategy": name, "direction": direction, "array": array, "folder": parts,
                           "shape": shape, "block": block, "bound": bound}
                    self._bare(job, blocks, (array_seeks, block_seeks), array, parts)

    def _bare(self, job: dict, blocks: int, expected: tuple[int, int], array: str, parts: str) -> None:
        if self.late():
            return
        shutil.rmtree(parts, ignore_errors=True)
        os.makedirs(parts)
        slabs, split = job["strategy"].endswith("slabs"), job["direction"] == "split"
        boxes = data.blocks_of(job["shape"], job["block"])
        if split:
            data.write_array(array, job["shape"])
        elif slabs:
            _write_slabs(parts, job["shape"], len(boxes))
        else:
            data.write_blocks(parts, job["shape"], job["block"])
        if not split:
            Path(array).unlink(missing_ok=True)
        seeks = _traced(job)
        if split:
            agrees = _same_slabs(parts, job["shape"], len(boxes)) if slabs else data.same_blocks(
                parts, boxes, job["shape"])
        else:
            agrees = data.same_array(array, job["shape"])
        self.say({"experiment": "strategies", "backend": "bare", "strategy": job["strategy"], "blocks": blocks,
                  "cube": job["shape"][0], "direction": job["direction"], "predicted": list(expected),
                  "agrees": agrees, "seconds": [], "array_seeks": seeks.of(array), "block_seeks": seeks.of(parts)})

    def _keep(self, base: str) -> None:
        sizes, shape = self.sizes, (self.sizes.plain_cube,) * 3
        parts = f"{base}/in"
        data.write_blocks(parts, shape, sizes.plain_block)
        for to in sizes.keep_to:
            for blocks in sizes.budgets:
                bound = blocks * sizes.plain_block ** 3 * 2
                read, keep, peak, fits, plain = _graph.io_keep(list(shape), [sizes.plain_block] * 3, [to] * 3,
                                                               2, bound, "C")
                for strategy, expected in (("one by one", plain), ("KEEP", keep)):
                    if strategy == "one by one" and blocks != sizes.budgets[0] or self.late():
                        continue
                    out = f"{base}/out"
                    shutil.rmtree(out, ignore_errors=True)
                    os.makedirs(out)
                    job = {"strategy": strategy, "folder": parts, "out": out, "shape": shape, "read": read,
                           "block": sizes.plain_block, "to": to}
                    seeks = _traced(job)
                    self.say({"experiment": "strategies", "backend": "bare", "strategy": strategy, "to": to,
                              "blocks": blocks, "cube": sizes.plain_cube, "direction": "repartition",
                              "predicted": [expected, 0],
                              "array_seeks": seeks.of(parts) + seeks.of(out), "block_seeks": 0,
                              "fits": fits,
                              "peak": peak, "read": read, "seconds": [],
                              "agrees": data.same_blocks(out, data.blocks_of(shape, to), shape)})

    def seeks(self) -> None:
        """Dask programs on a cluster whose worker is traced."""
        sizes = self.sizes
        cube, tail = (sizes.count_cube,) * 3, (sizes.ragged,) * 3
        cases = [("whole", cube, "C", "all"), ("every other row", cube, "C", "rows"),
                 ("one corner", cube, "C", "corner"), ("ragged tail", tail, "C", "all"),
                 ("Fortran order", cube, "F", "all")]
        with _folder() as base:
            for case, shape, order, select in cases:
                data.write_array(f"{base}/array", shape, order)
                self._counted(base, case, shape, order, select, "split")
                if select == "all":
                    shutil.rmtree(f"{base}/parts", ignore_errors=True)
                    data.write_blocks(f"{base}/parts", shape, sizes.count_block)
                    self._counted(base, case, shape, order, select, "merge")

    def _counted(self, base: str, case: str, shape, order: str, select: str, direction: str) -> None:
        sizes, say = self.sizes, self.say

        def predict(row: dict) -> None:
            bound = (row["blocks"] or 0) * sizes.count_block ** 3 * 2
            found = {name: seeks for name, *seeks in predicted(shape, sizes.count_block, order, select, bound)}
            row["predicted"] = found["clustered" if row["blocks"] else "naive blocks"][:2]
            say(row)

        self.say = predict
        try:
            self.cell(labels={"experiment": "seeks", "case": case}, direction=direction, order=order,
                      select=select, shape=shape, block=sizes.count_block, array=f"{base}/array",
                      folder=f"{base}/parts", budgets=[None, *sizes.budgets], trace=True, sync=False, threads=1)
        finally:
            self.say = say

    # ---- the throttled device ----------------------------------------------------------------------------

    def split(self, device: Throttled) -> None:
        sizes, shape = self.sizes, (self.sizes.cube,) * 3
        array = f"{device.folder}/array"
        data.write_array(array, shape)
        for backend, blocks in [("stock", None), *(("rask/rask", blocks) for blocks in sizes.budgets)]:
            self._slow(device, "split", backend=backend, shape=shape, array=array, budgets=[blocks])
        os.remove(array)

    def single(self, device: Throttled) -> None:
        shape, array = (self.sizes.cube,) * 3, f"{device.folder}/array"
        data.write_array(array, shape)
        for backend, blocks in (("stock", None), ("rask/rask", self.sizes.budgets[-1])):
            self._slow(device, "single", backend=backend, threads=1, shape=shape, array=array, budgets=[blocks])
        os.remove(array)

    def formats(self, device: Throttled) -> None:
        sizes = self.sizes
        shape = (sizes.format_depth, sizes.cube, sizes.cube)
        for kind in ("npy", "hdf5", "netcdf", "zarr"):
            array = f"{device.folder}/array.{kind}"
            write_format(kind, array, shape, sizes.block)
            cells = [{"backend": backend, "shape": shape, "array": array, "format": kind, "budgets": [blocks]}
                     for backend, blocks in (("stock", None), ("rask/rask", sizes.budgets[-1]))]
            self._in_turn(device, "formats", cells, sizes.close_repeats if kind == "zarr" else 1)
            shutil.rmtree(array) if os.path.isdir(array) else os.remove(array)

    def merge(self, device: Throttled) -> None:
        sizes, shape = self.sizes, (self.sizes.cube,) * 3
        parts = f"{device.folder}/parts"
        data.write_blocks(parts, shape, sizes.block)
        for backend, blocks in [("stock", None), *(("rask/rask", blocks) for blocks in sizes.merge_budgets)]:
            self._slow(device, "merge", backend=backend, shape=shape, array=f"{device.folder}/array",
                       folder=parts, budgets=[blocks], direction="merge")
            Path(f"{device.folder}/array").unlink(missing_ok=True)

    def _in_turn(self, device: Throttled, experiment: str, cells: list[dict], times: int) -> None:
        """Cells next to each other, so many times; a row for each of them."""
        say, found = self.say, [[] for _ in cells]
        try:
            for _ in range(times):
                for job, rows in zip(cells, found):
                    self.say = rows.append
                    self._slow(device, experiment, **job)
        finally:
            self.say = say
        for rows in filter(None, found):
            row = next((row for row in rows if "error" in row), rows[-1])
            self.say({**row, "seconds": [seconds for each in rows for seconds in each["seconds"]],
                      "peak": max(each.get("peak", 0) for each in rows),
                      "agrees": all(each["agrees"] for each in rows)})

    def _slow(self, device: Throttled, experiment: str, **job: Any) -> None:
        """A cell that begins with nothing in memory."""
        folder = f"{device.folder}/parts"
        if job.get("direction") != "merge":
            shutil.rmtree(folder, ignore_errors=True)
        sync(device.folder)
        device.forget()
        device.throttle()
        try:
            self.cell(labels={"experiment": experiment, "iops": device.iops}, stat=str(device.block / "stat"),
                      **{"folder": folder, **job})
        finally:
            device.free()

    # ---- the fast device -----------------------------------------------------------------------------------

    def fast(self) -> None:
        sizes, shape = self.sizes, (self.sizes.cube,) * 3
        with _folder() as base:
            array, parts = f"{base}/array", f"{base}/parts"
            data.write_array(array, shape)
            common = {"labels": {"experiment": "fast"}, "shape": shape, "array": array, "folder": parts,
                      "sync": False, "repeats": sizes.fast_repeats, "warm": 1}
            self.cell(**{**common, "repeats": 2}, backend="stock")
            self.cell(**common, budgets=[None, *sizes.budgets])
            part = (sizes.format_depth, *shape[1:])
            write_format("zarr", f"{array}.zarr", part, sizes.block)
            self.cell(**{**common, "shape": part, "array": f"{array}.zarr"}, format="zarr",
                      budgets=[None, sizes.budgets[-1]])
            shutil.rmtree(f"{array}.zarr")
            shutil.rmtree(parts, ignore_errors=True)
            data.write_blocks(parts, shape, sizes.block)
            self.cell(**{**common, "repeats": 2}, backend="stock", direction="merge")
            self.cell(**common, direction="merge", budgets=[None, *sizes.budgets])

    def threads(self) -> None:
        """Several threads that each could load a buffer: together these would pass the bound."""
        sizes, shape = self.sizes, (self.sizes.cube,) * 3
        with _folder() as base:
            data.write_array(f"{base}/array", shape)
            for threads in sizes.threads:
                self.cell(labels={"experiment": "threads"}, threads=threads, shape=shape, array=f"{base}/array",
                          folder=f"{base}/parts", sync=False, repeats=2, budgets=[sizes.budgets[-1]])


def predicted(shape, block: int, order: str, select: str, bound: int) -> list[tuple]:
    """(strategy, seeks in the array, in block files, …) of the planner."""
    axes = []
    boxes = selected(shape, block, select)
    for axis, n in enumerate(shape):
        cuts = sorted({box[axis] for box in boxes})
        axes.append((n, [a for a, _ in cuts], [b for _, b in cuts]))
    return _graph.io_predict(axes, 2, order, b"", bound)


def write_format(kind: str, path: str, shape, block: int) -> None:
    """The array as a file of this format, in one piece if the format can; zarr in rows of blocks."""
    if kind == "npy":
        with open(path, "wb") as f:
            np.lib.format.write_array_header_1_0(f, {"descr": "<u2", "fortran_order": False, "shape": shape})
            for a in range(0, shape[0], 20):
                f.write(data.values([(a, min(a + 20, shape[0])), *((0, n) for n in shape[1:])], shape).tobytes())
        return
    if kind == "zarr":
        import zarr

        target = zarr.create_array(path, shape=shape, dtype="u2", chunks=(block, block, shape[-1]), compressors=None)
        for box in data.blocks_of(shape, (block, block, shape[-1])):
            target[tuple(slice(a, b) for a, b in box)] = data.values(box, shape)
        return
    whole = data.values([(0, n) for n in shape], shape)
    if kind == "hdf5":
        import h5py

        with h5py.File(path, "w") as f:
            f.create_dataset("x", data=whole)
        return
    import xarray

    xarray.Dataset({"x": (("a", "b", "c"), whole)}).to_netcdf(path, engine="h5netcdf")


def _traced(job: dict) -> trace.Seeks:
    return trace.traced([sys.executable, "-m", "iobench.bare", json.dumps(job)], cwd=BENCH, env=environment())


def _write_slabs(folder: str, shape, n: int) -> None:
    whole = data.values([(0, m) for m in shape], shape).reshape(-1)
    for i in range(n):
        a, b = i * whole.size // n, (i + 1) * whole.size // n
        whole[a:b].tofile(f"{folder}/{a}")


def _same_slabs(folder: str, shape, n: int) -> bool:
    whole = data.values([(0, m) for m in shape], shape).reshape(-1)
    names = sorted(map(int, os.listdir(folder)))
    found = b"".join(Path(f"{folder}/{name}").read_bytes() for name in names)
    return len(names) == n and found == whole.tobytes()


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder in memory."""
    with tempfile.TemporaryDirectory(prefix="rask-bench-io-", dir="/dev/shm") as folder:
        yield folder
