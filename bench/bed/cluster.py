"""Clusters of real processes: a scheduler and its workers, stock or rask, real or zero.

A cluster is a `with` block. Every process is started here, waits for nobody else, and is ended by
its pid when the block ends. All processes see bench/ on PYTHONPATH, because a scheduler unpickles
graphs that name `bed.tasks`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgpack

from bed import meter

BENCH = Path(__file__).resolve().parents[1]
REPO = BENCH.parent
BUILD = Path(os.environ.get("RASK_BUILD", REPO / "build" / "release"))


@dataclass(frozen=True)
class Backend:
    """One column of a comparison: who schedules and who works."""

    name: str
    scheduler: str  # stock | rask | null
    worker: str = "stock"
    saturation: str | None = None


BACKENDS = {
    b.name: b
    for b in (
        Backend("stock", "stock"),
        Backend("stock-inf", "stock", saturation="inf"),
        Backend("rask", "rask"),
        Backend("rask-inf", "rask", saturation="inf"),
        Backend("rask/rask", "rask", worker="rask"),
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
    return env


class Cluster:
    """Starts in `__enter__`, knows its address and roles, ends everything in `__exit__`."""

    def __init__(self, backend: Backend, shape: Shape | None):
        self.backend = backend
        self.shape = shape
        self.processes: list[subprocess.Popen] = []
        self.roles = meter.Roles()
        self.directory = tempfile.TemporaryDirectory(prefix="rask-bench-")
        self.env = environment(backend)
        self.register_seconds: float | None = None

    def __enter__(self):
        try:
            self.address = self._start_scheduler()
            if self.shape and self.backend.scheduler != "null":
                started = time.perf_counter()
                self._start_workers()
                self._wait_for_workers()
                self.register_seconds = time.perf_counter() - started
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.directory.cleanup()

    def log_text(self) -> str:
        """The last lines that each process printed, for when something went wrong."""
        parts = []
        for path in sorted(Path(self.directory.name).glob("*.log")):
            parts.append(f"--- {path.name}\n" + path.read_text(errors="replace")[-3000:])
        return "\n".join(parts)

    def _spawn(self, name: str, argv: list[str]) -> subprocess.Popen:
        with open(os.path.join(self.directory.name, f"{name}.log"), "wb") as log:
            process = subprocess.Popen(argv, env=self.env, stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, cwd=self.directory.name)
        self.processes.append(process)
        return process

    def _start_scheduler(self) -> str:
        file = os.path.join(self.directory.name, "scheduler.json")
        options = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", file]
        if self.backend.scheduler == "null":
            argv = [binary("bench_nullsched"), "--scheduler-file", file]
        elif self.backend.scheduler == "rask":
            argv = [sys.executable, "-m", "rask", "scheduler", *options, "--no-dashboard"]
        else:
            argv = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options,
                    "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        process = self._spawn("scheduler", argv)
        address = self._read_address(process, file)
        self.roles.scheduler = self._scheduler_pid(process.pid)
        return address

    def _read_address(self, process: subprocess.Popen, file: str) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                return json.loads(Path(file).read_text())["address"]
            except (OSError, ValueError, KeyError):
                if process.poll() is not None:
                    raise RuntimeError(f"the scheduler ended early\n{self.log_text()}") from None
                time.sleep(0.02)
        raise TimeoutError(f"the scheduler wrote no scheduler file\n{self.log_text()}")

    def _scheduler_pid(self, pid: int) -> int:
        """`rask scheduler` may be a launcher: the scheduler is the native process below it."""
        for child in meter.children(pid):
            if "rask-scheduler" in meter.command(child).split(" ", 1)[0]:
                return child
        return pid

    def _start_workers(self) -> None:
        if self.shape.zero:
            versions = os.path.join(self.directory.name, "versions.msgpack")
            Path(versions).write_bytes(package_versions())
            process = self._spawn("zero", [binary("bench_zero_worker"), self.address,
                                           "--workers", str(self.shape.workers),
                                           "--nthreads", str(self.shape.threads),
                                           "--versions", versions])
            self.roles.workers = [process.pid]
            return
        for i in range(self.shape.workers):
            module = ["rask", "worker"] if self.backend.worker == "rask" else [
                "distributed.cli.dask_worker"]
            argv = [sys.executable, "-m", *module, self.address, "--nthreads",
                    str(self.shape.threads), "--no-nanny", "--no-dashboard", "--memory-limit",
                    "8GB", "--name", f"w{i}", "--host", "127.0.0.1", "--local-directory",
                    self.directory.name]
            self.roles.workers.append(self._spawn(f"worker{i}", argv).pid)

    def _wait_for_workers(self) -> None:
        import asyncio

        from distributed.core import rpc

        async def wait():
            async with rpc(self.address) as scheduler:
                while True:
                    info = await scheduler.identity(n_workers=-1)
                    ready = sum(w["status"] == "running" for w in info["workers"].values())
                    if ready >= self.shape.workers:
                        return
                    for process in self.processes:
                        if process.poll() is not None:
                            raise RuntimeError(f"a process ended early\n{self.log_text()}")
                    await asyncio.sleep(0.05)

        async def main():
            await asyncio.wait_for(wait(), 120)

        asyncio.run(main())


def package_versions() -> bytes:
    """What a stock worker would report of its packages, so that nobody warns of a mismatch."""
    from distributed.versions import get_versions

    return msgpack.packb(get_versions())
