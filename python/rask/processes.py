"""Schedulers and workers, stock or rask, as real processes on this machine.

The tests, the demo and the benchmarks start their clusters here, so that rask and stock Dask are
always started the same way and differ in one word. Everything listens on loopback with a free
port; standard error goes to one log file per process; no process outlives the one that started it.

Invariant: after `close()` none of the processes started here runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("rask", "stock")
PR_SET_PDEATHSIG = 1
# A deadline for failures only: a busy machine may take a minute for a start.
START_TIMEOUT = float(os.environ.get("RASK_START_TIMEOUT", 120))
_libc = ctypes.CDLL(None)


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class ProcessFailed(RuntimeError):
    """A process ended, or did not say what it should have said; the text holds its log."""


class Process:
    """One child process and its log."""

    def __init__(self, name: str, command: list[str], log: Path, env: dict[str, str]):
        self.name = name
        self.log = log
        with open(log, "ab") as sink:
            self.popen = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env=env,
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    def alive(self) -> bool:
        return self.popen.poll() is None

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: str, timeout: float = START_TIMEOUT,
                 interval: float = 0.02) -> re.Match[str]:
        """Waits until the log holds `pattern`, looking every `interval` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            ended = not self.alive()
            if found := re.search(pattern, self.log_text(), re.MULTILINE):
                return found
            if ended or time.monotonic() > deadline:
                state = f"ended with {self.popen.returncode}" if ended else "is silent"
                raise ProcessFailed(f"{self.name} {state}; expected /{pattern}/ in its log:\n"
                                    f"{self.log_text()}")
            time.sleep(interval)

    def signal(self, number: int) -> None:
        if self.alive():
            self.popen.send_signal(number)

    def kill(self) -> None:
        """kill -9, and waits for the end."""
        self.signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self, timeout: float = 10) -> int:
        """Asks politely, then kills. Gives the exit code."""
        self.signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.popen.returncode


class ProcessCluster:
    """One scheduler and some workers; `scheduler` and `worker` say which kind each is."""

    def __init__(
        self,
        scheduler: str = "rask",
        worker: str = "stock",
        n_workers: int = 2,
        nthreads: int = 1,
        *,
        scheduler_options: tuple[str, ...] = (),
        worker_options: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
    ):
        for kind in (scheduler, worker):
            if kind not in KINDS:
                raise ValueError(f"{kind!r} is not one of {KINDS}")
        self.kinds = (scheduler, worker)
        self.n_workers = n_workers
        self.nthreads = nthreads
        self.worker_options = worker_options
        self.scheduler_options = scheduler_options
        self.directory = Path(tempfile.mkdtemp(prefix="rask-cluster-"))
        self.env = {**os.environ, **(env or {})}
        self.workers: dict[str, Process] = {}
        self._names = 0
        self.scheduler: Process | None = None
        self.address = ""

    def __repr__(self) -> str:
        scheduler, worker = self.kinds
        return f"<{scheduler} scheduler at {self.address}, {len(self.workers)} {worker} workers>"

    def __enter__(self) -> ProcessCluster:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- start and stop --------------------------------------------------------------------

    def start(self) -> ProcessCluster:
        self.start_scheduler()
        for _ in range(self.n_workers):
            self.add_worker(wait=False)
        self.wait_for_workers()
        return self

    def start_scheduler(self) -> None:
        options = ["--host", "127.0.0.1", "--port", "0", *self.scheduler_options]
        if self.kinds[0] == "rask":
            command = [sys.executable, "-m", "rask", "scheduler", "--no-dashboard", *options]
        else:
            command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard",
                       "--dashboard-address", "127.0.0.1:0", *options]
        self.scheduler = self._spawn("scheduler", command)
        self.address = self.scheduler.wait_for(r"Scheduler at:\s+(\S+)$").group(1)

    def add_worker(self, wait: bool = True, options: tuple[str, ...] = ()) -> Process:
        name = f"w{self._names}"
        self._names += 1
        stock = self.kinds[1] == "stock"
        module = ["distributed.cli.dask_worker"] if stock else ["rask", "worker"]
        command = [sys.executable, "-m", *module, self.address,
                   "--name", name, "--host", "127.0.0.1", "--no-nanny", "--no-dashboard",
                   "--dashboard-address", "127.0.0.1:0", "--nthreads", str(self.nthreads),
                   "--local-directory", str(self.directory), *self.worker_options, *options]
        self.workers[name] = self._spawn(name, command)
        if wait:
            self.wait_for_workers()
        return self.workers[name]

    def wait_for_workers(self) -> None:
        """Waits until every worker process says it is registered."""
        for worker in self.workers.values():
            worker.wait_for(r"Registered to:")

    def close(self) -> None:
        for worker in self.workers.values():
            worker.signal(signal.SIGTERM)
        if self.scheduler is not None:
            self.scheduler.stop()
        for worker in self.workers.values():
            worker.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _spawn(self, name: str, command: list[str]) -> Process:
        return Process(name, command, self.directory / f"{name}.log", self.env)

    # ---- what tests do to a cluster ----------------------------------------------------------

    def repair(self) -> None:
        """Replaces workers that ended, and the whole cluster if its scheduler did."""
        if self.scheduler is None or not self.scheduler.alive():
            for worker in self.workers.values():
                worker.kill()
            self.workers.clear()
            self.start_scheduler()
        for name in [name for name, worker in self.workers.items() if not worker.alive()]:
            del self.workers[name]
        while len(self.workers) < self.n_workers:
            self.add_worker(wait=False)
        self.wait_for_workers()

    def worker_process(self, address: str) -> Process:
        """The process of the worker that listens at `address`."""
        for worker in self.workers.values():
            if re.search(re.escape(address) + r"\s*$", worker.log_text(), re.MULTILINE):
                return worker
        raise KeyError(f"no worker listens at {address}")

    def graph_processes(self) -> list[int]:
        """Process ids of the scheduler's graph processes; none on a stock scheduler."""
        import psutil

        assert self.scheduler is not None
        found = []
        for child in psutil.Process(self.scheduler.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if "rask.graph_process" in child.cmdline():
                    found.append(child.pid)
        return found

    def cpu_seconds(self) -> dict[str, float]:
        """User + system time so far of scheduler, graph processes and workers."""
        assert self.scheduler is not None
        return {
            "scheduler": _cpu_seconds([self.scheduler.pid]),
            "graph process": _cpu_seconds(self.graph_processes()),
            "workers": _cpu_seconds([worker.pid for worker in self.workers.values()]),
        }

    def logs(self) -> str:
        """The end of every process's log, for error reports."""
        processes = ([self.scheduler] if self.scheduler else []) + list(self.workers.values())
        parts = [f"--- {self!r}"]
        for process in processes:
            tail = "\n".join(process.log_text().splitlines()[-60:]) if process.log.exists() else ""
            state = "alive" if process.alive() else f"ended with {process.popen.returncode}"
            parts.append(f"--- {process.name} (pid {process.pid}, {state})\n{tail}")
        return "\n".join(parts)

    def client(self, **options: Any) -> Any:
        """A stock client of this cluster that is not the default one."""
        from distributed import Client

        options = {"set_as_default": False, "timeout": START_TIMEOUT, **options}
        return Client(self.address, **options)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """A client that is the current one inside the block."""
        with self.client() as client, client.as_current():
            yield client


def _cpu_seconds(pids: list[int]) -> float:
    """CPU time of the processes' threads in nanosecond steps; the usual counters tick in 10 ms."""
    total = 0
    for pid in pids:
        for schedstat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(schedstat.read_text().split()[0])
    return total / 1e9
