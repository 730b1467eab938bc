"""Clusters of real processes: a scheduler and its workers, stock or rask, real or zero.

A cluster is a `with` block; no process outlives it. All processes see bench/ on PYTHONPATH,
because a scheduler unpickles graphs that name `bed.tasks`.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import msgpack

BENCH = Path(__file__).resolve().parents[1]
REPO = BENCH.parent
sys.path.append(os.environ.get("RASK_PYTHON", str(REPO / "python")))

from bed import meter  # noqa: E402
from rask.processes import Process, ProcessCluster  # noqa: E402

BUILD = Path(os.environ.get("RASK_BUILD", REPO / "build" / "release"))


@dataclass(frozen=True)
class Backend:
    """One column of a comparison: who schedules and who works."""

    name: str
    scheduler: str  # stock | rask | null
    worker: str = "stock"
    saturation: str | None = None
    automatic: str | None = None  # rask.spliter.auto


BACKENDS = {
    b.name: b
    for b in (
        Backend("stock", "stock"),
        Backend("stock-inf", "stock", saturation="inf"),
        Backend("rask", "rask"),
        Backend("rask-inf", "rask", saturation="inf"),
        Backend("rask/rask", "rask", worker="rask"),
        Backend("rask/rask-off", "rask", worker="rask", automatic="off"),
        Backend("stock/rask", "stock", worker="rask"),
        Backend("F1", "null"),
    )
}
STOCK = ("stock", "stock-inf")


@dataclass(frozen=True)
class Shape:
    """How many workers with how many threads; `zero` ones answer at once and run nothing."""

    workers: int
    threads: int = 1
    zero: bool = False

    def __str__(self):
        kind = " zero workers" if self.zero else ""
        return f"{self.workers}×{self.threads}{kind}"


def binary(name: str) -> str:
    """Path of one of our executables in the build tree."""
    found = sorted(BUILD.rglob(name))
    for path in found:
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    raise FileNotFoundError(f"{name} is not in {BUILD}: build it, or set RASK_BUILD")


def environment(backend: Backend) -> dict[str, str]:
    env = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
    rask = os.environ.get("RASK_PYTHON", str(REPO / "python"))
    path = [str(BENCH), rask, env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(p for p in path if p)
    env["DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT"] = "120s"
    if backend.saturation:
        env["DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION"] = backend.saturation
    if backend.automatic:
        env["DASK_RASK__SPLITER__AUTO"] = backend.automatic
    return env


class Cluster:
    """Starts in `__enter__`, knows its address and roles, ends everything in `__exit__`.

    Real schedulers and workers are started by `rask.processes`, as in the tests and the demo; the
    null scheduler and the zero workers are added here.
    """

    def __init__(self, backend: Backend, shape: Shape | None, null_options: tuple[str, ...] = ()):
        self.backend = backend
        self.null_options = null_options
        self.shape = shape
        self.env = environment(backend)
        self.null = backend.scheduler == "null"
        real = shape is not None and not shape.zero and not self.null
        self.processes = ProcessCluster(
            "stock" if self.null else backend.scheduler, backend.worker,
            n_workers=shape.workers if real else 0, nthreads=shape.threads if shape else 1,
            worker_options=("--memory-limit", "8GB"), env=self.env)
        self.extra: list[Process] = []
        self.roles = meter.Roles()
        self.registered: str | None = None  # seconds that the zero workers took

    def __enter__(self):
        try:
            if self.null:
                self.roles.scheduler = self._start_null()
            else:
                self.processes.start()
                self.address = self.processes.address
                self.roles.scheduler = self.processes.scheduler.pid
                self.roles.workers = [w.pid for w in self.processes.workers.values()]
                if self.shape and self.shape.zero:
                    self.roles.workers = [self._start_zero()]
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for process in self.extra:
            process.stop()
        self.processes.close()

    def longest_turn(self) -> tuple[float, str, float, int] | None:
        """Ends a rask scheduler, which says how many ms the longest turn of its loop took and what for, the most
        processor time of any turn, and how many turns took more than 50 ms."""
        if self.backend.scheduler != "rask":
            return None
        self.processes.scheduler.stop()
        said = re.search(r"Longest turn of the loop: (\S+) ms, .*?at work, (.*); "
                         r"most work in a turn: (\S+) ms; (\d+) of", self.processes.scheduler.log_text())
        if not said:
            return None
        longest, piece, cpu, over = said.groups()
        return float(longest), piece, float(cpu), int(over)

    def log_text(self) -> str:
        """The last lines that each process printed, for when something went wrong."""
        extra = [f"--- {p.name}\n{p.log_text()[-3000:]}" for p in self.extra]
        return "\n".join([self.processes.logs(), *extra])

    def _spawn(self, name: str, argv: list[str]) -> Process:
        process = Process(name, argv, self.processes.directory / f"{name}.log", self.env)
        self.extra.append(process)
        return process

    def _start_null(self) -> int:
        process = self._spawn("null", [binary("bench_nullsched"), *self.null_options])
        self.address = process.wait_for(r"Scheduler at:\s+(\S+)$").group(1)
        return process.pid

    def _start_zero(self) -> int:
        versions = self.processes.directory / "versions.msgpack"
        versions.write_bytes(package_versions())
        process = self._spawn("zero", [
            binary("bench_zero_worker"), self.address, "--workers", str(self.shape.workers),
            "--nthreads", str(self.shape.threads), "--versions", str(versions)])
        self.registered = process.wait_for(r"registered in (\S+) s").group(1)
        return process.pid


def package_versions() -> bytes:
    """What a stock worker would report of its packages, so that nobody warns of a mismatch."""
    from distributed.versions import get_versions

    return msgpack.packb(get_versions())
