"""Out of core: load → map → tree reduction over data larger than the workers' memory.

    python bench/memory.py                      # two workers of 2, 4 and 8 threads, 3 x their memory
    python bench/memory.py --threads 2 --backends rask-rask --repeats 5
    python bench/memory.py --render --docs      # the tables of docs/MEMORY.md, from what is kept

Each backend runs on fresh workers with the memory limit and with ample memory, in turn. Printed are
the times, the peak of each worker (VmHWM less what it was before the first task), bytes spilled and
pauses; a worker that dies shows as a failure. The loader is unmodified NumPy code that reads a file.

Invariant: the program checks its result, so a run that lost or mixed up a block is a failure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

REPO = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(1, str(REPO / "python"))

import numpy as np  # noqa: E402
from bed import kept  # noqa: E402
from bed.verdicts import Verdict, check, ratio, table  # noqa: E402
from rask.processes import ProcessCluster  # noqa: E402

MB = 1_000_000
BUDGET = 0.6  # of a worker's memory limit: rask.memory.budget
BEGIN, END = "<!-- bench-memory:begin -->", "<!-- bench-memory:end -->"


def load(path: str, i: int) -> np.ndarray:
    return np.fromfile(path, dtype="f8")


def transform(block: np.ndarray) -> np.ndarray:
    return block * 2.0


def add(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left + right


def mean(block: np.ndarray) -> float:
    return float(block.mean())


def program(client, path: str, blocks: int) -> float:
    """Unmodified dask.delayed code: loads, a map, and a binary tree of sums of whole blocks."""
    import dask

    level = [dask.delayed(transform)(dask.delayed(load)(path, i)) for i in range(blocks)]
    while len(level) > 1:
        pairs = [dask.delayed(add)(a, b) for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(pairs) * 2:]
    return client.compute(dask.delayed(mean)(level[0]), optimize_graph=False).result(timeout=600)


def status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


class Watch:
    """Pauses and spilled bytes as the scheduler hears of them, while a program runs."""

    def __init__(self, client):
        self.client, self.paused, self.spilled = client, 0, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._over.wait(0.25):
            workers = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
            self.paused += sum(w["status"] == "paused" for w in workers.values())
            spilled = sum(w["metrics"]["spilled_bytes"]["disk"] for w in workers.values())
            self.spilled = max(self.spilled, spilled)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._over.set()
        self._thread.join()


def run(backend: str, threads: int, limit: int, path: str, block: int, blocks: int) -> dict:
    scheduler, worker = backend.split("-")
    options = ("--memory-limit", str(limit), "--no-nanny")
    with ProcessCluster(scheduler, worker, 2, threads, worker_options=options) as cluster:
        with cluster.connected() as client:
            pids = list(client.run(lambda: __import__("os").getpid()).values())
            client.run(lambda: __import__("numpy"))
            before = [status_bytes(pid, "VmRSS") for pid in pids]
            with Watch(client) as watch:
                begin = time.perf_counter()
                value = program(client, path, blocks)
                took = time.perf_counter() - begin
            assert value == 2.0 * blocks, (value, blocks)
            peaks = [status_bytes(pid, "VmHWM") - base for pid, base in zip(pids, before)]
    return {"seconds": took, "peak": max(peaks), "spilled": watch.spilled, "paused": watch.paused}


def measure(args: argparse.Namespace, threads: int, path: str, blocks: int) -> list[dict]:
    """All backends, ample and tight in turn, so many times."""
    rows: dict[tuple, dict] = {}
    for _ in range(args.repeats):
        for backend in args.backends:
            for memory, limit in (("ample", 16 * args.limit), ("tight", args.limit)):
                row = rows.setdefault((backend, memory), {
                    "backend": backend, "threads": threads, "memory": memory, "limit": limit * MB, "seconds": [],
                    "blocks": blocks, "block": args.block * MB, "peak": 0, "spilled": 0, "paused": 0, "failed": ""})
                try:
                    found = run(backend, threads, limit * MB, path, args.block, blocks)
                except Exception as error:  # noqa: BLE001  a lost worker is a result here
                    row["failed"] = f"{type(error).__name__}: {error}"[:200]
                    print(f"  {backend:12} {threads} threads, {memory}: {row['failed']}", flush=True)
                    continue
                row["seconds"].append(found["seconds"])
                for name in ("peak", "spilled", "paused"):
                    row[name] = max(row[name], found[name])
                print(f"  {backend:12} {threads} threads, {memory}: {found['seconds']:.2f} s, peak "
                      f"{found['peak'] / MB:.0f} MB, spilled {found['spilled'] / MB:.0f} MB, "
                      f"pauses {found['paused']}", flush=True)
    return list(rows.values())


def table_of(rows: kept.Rows) -> str:
    heads = ["threads", "cluster", "memory", "seconds", "peak MB", "spilled MB", "pauses", ""]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in sorted(rows.rows, key=lambda row: (row["threads"], row["backend"], row["memory"])):
        took = f"{median(row['seconds']):.2f}" if row["seconds"] else "–"
        lines.append(f"| {row['threads']} | {row['backend']} | {row['memory']} | {took} | {row['peak'] / MB:.0f} | "
                     f"{row['spilled'] / MB:.0f} | {row['paused']} | {row['failed']} |")
    return "\n".join(lines)


def verdicts(rows: kept.Rows) -> Iterator[Verdict]:
    for threads in rows.values("threads"):
        where = f"{threads} threads"
        tight = next(iter(rows.all(backend="rask-rask", threads=threads, memory="tight")), None)
        if tight is None:
            continue
        quiet = not (tight["spilled"] or tight["paused"] or tight["failed"])
        yield Verdict("rask", where, "3 × the workers' memory without spilling, pausing or dying",
                      tight["failed"] or f"{tight['spilled'] / MB:.0f} MB spilled, {tight['paused']} pauses", quiet)
        slower = ratio(rows.seconds(backend="rask-rask", threads=threads, memory="tight"),
                       rows.seconds(backend="rask-rask", threads=threads, memory="ample"))
        yield check("rask", where, "at most 5 % slower than with ample memory",
                    None if slower is None else 100 * (slower - 1), "{:+.1f} %", high=5)
        bound = BUDGET * tight["limit"]
        yield check("rask", where, f"peak of a worker under the bound of {bound / MB:.0f} MB", tight["peak"] / MB,
                    "{:.0f} MB", high=bound / MB)


def render(where: Path, docs: bool) -> None:
    rows = kept.Rows.load(where)
    measured = "; ".join(f"{meta['when']} UTC, load {meta['load']:.1f}" for meta in rows.meta.values())
    first = rows.rows[0] if rows.rows else {"blocks": 0, "block": 0, "limit": 0}
    size = min((row["limit"] for row in rows.rows), default=0)
    data = f"{first['blocks']} blocks of {first['block'] // MB} MB on two workers of {size // MB} MB"
    text = "\n".join([f"{data}; ample: 16 × that. Measured {measured}.", "",
                      table(list(verdicts(rows)), "cluster | where"), "",
                      table_of(rows), ""])
    print("\n" + text)
    if docs:
        page = REPO / "docs" / "MEMORY.md"
        head, rest = page.read_text().split(BEGIN)
        page.write_text(f"{head}{BEGIN}\n{text}{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--limit", type=int, default=1000, help="MB per worker")
    parser.add_argument("--block", type=int, default=40, help="MB per block")
    parser.add_argument("--times", type=float, default=3, help="data over the workers' memory")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--backends", nargs="+", default=["rask-rask", "stock-stock"])
    parser.add_argument("--render", action="store_true", help="run nothing")
    parser.add_argument("--docs", action="store_true", help="write the tables to docs/MEMORY.md too")
    parser.add_argument("--results", type=Path, help="another folder to keep results in")
    args = parser.parse_args()
    where = kept.folder(args.results, "memory", False)
    blocks = int(args.times * 2 * args.limit / args.block)
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/block"
        np.ones(args.block * MB // 8).tofile(path)
        for threads in [] if args.render else args.threads:
            began = time.monotonic()
            rows = measure(args, threads, path, blocks)
            kept.save(where, f"threads-{threads}", "memory", rows, time.monotonic() - began)
    render(where, args.docs)


if __name__ == "__main__":
    main()
