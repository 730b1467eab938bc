"""What a run costs: CPU per role, memory, kernel calls, bytes on the wire.

A *role* is client, scheduler, graph or workers; a role may be several processes and may gain
some while it is watched. CPU time is read from each process's CPU clock (nanoseconds; the ticks
in /proc are 10 ms, which is more than rask spends on a whole row), plus what its ended children
left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and kernel time of one process so far, all its threads, ended children included."""
    try:
        own = time.clock_gettime((~pid << 3) | 2)  # the kernel's name for "CPU clock of pid"
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return own + (int(fields[13]) + int(fields[14])) / _TICK
    except (OSError, ProcessLookupError):
        return 0.0


def rss_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as f:
            return int(f.read().split()[1]) * _PAGE
    except OSError:
        return 0


def wait_until_steady(pid: int, deadline: float = 120) -> None:
    """Waits until a process has neither worked nor changed its size for a moment."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        before = rss_bytes(pid), cpu_seconds(pid)
        time.sleep(0.25)
        if rss_bytes(pid) == before[0] and cpu_seconds(pid) - before[1] < 0.05:
            return


def touch_memory(nbytes: int) -> None:
    """Writes to so much memory and frees it, so that what is allocated next is memory at hand.

    A virtual machine gives its host what was free for some seconds; to get it back costs several
    times a transfer, and whether that falls into a timed part is chance.
    """
    import numpy

    with open("/proc/meminfo", encoding="ascii") as file:
        free = int(re.search(r"MemAvailable:\s+(\d+)", file.read()).group(1)) * 1024
    numpy.ones(min(nbytes, free // 2), dtype="u1")


def reset_peak(pid: int) -> None:
    with open(f"/proc/{pid}/clear_refs", "w") as f:
        f.write("5")


def peak_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as f:
            return int(re.search(r"VmHWM:\s+(\d+) kB", f.read()).group(1)) * 1024
    except (OSError, AttributeError):
        return 0


def children(pid: int) -> list[int]:
    """All living descendants of a process."""
    found, front = [], [pid]
    while front:
        parent = front.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as f:
                    kids = [int(word) for word in f.read().split()]
                found += kids
                front += kids
        except OSError:
            continue
    return found


def command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


@dataclass
class Roles:
    """Which processes play which role. Roots are fixed; children are looked up at each reading."""

    scheduler: int | None = None
    workers: list[int] = field(default_factory=list)

    def pids(self) -> dict[str, list[int]]:
        roles = {"client": [os.getpid()], "scheduler": [], "graph": [], "workers": []}
        if self.scheduler:
            roles["scheduler"] = [self.scheduler]
            roles["graph"] = children(self.scheduler)
        for worker in self.workers:
            roles["workers"] += [worker, *children(worker)]
        return roles

    def cpu(self) -> dict[str, float]:
        return {role: sum(map(cpu_seconds, pids)) for role, pids in self.pids().items()}

    def rss(self) -> dict[str, int]:
        return {role: sum(map(rss_bytes, pids)) for role, pids in self.pids().items()}

    def peak(self) -> dict[str, int]:
        return {role: sum(map(peak_bytes, pids)) for role, pids in self.pids().items()}

    def reset_peaks(self) -> None:
        for pids in self.pids().values():
            for pid in pids:
                try:
                    reset_peak(pid)
                except OSError:
                    pass


def socket_bytes(pid: int) -> dict[str, int]:
    """Bytes sent and received so far by a process on the TCP sockets that it has open."""
    totals = {"sent": 0, "received": 0}
    if not shutil.which("ss"):
        return totals
    text = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True).stdout
    for line in text.splitlines():
        if f"pid={pid}," not in line:
            continue
        for direction in totals:
            found = re.search(rf"bytes_{direction}:(\d+)", line)
            totals[direction] += int(found.group(1)) if found else 0
    return totals


class KernelCalls:
    """Counts the system calls of one process while the block runs; None where perf cannot."""

    def __init__(self, pid: int | None):
        self.pid = pid
        self.count: int | None = None

    def __enter__(self):
        self.perf = None
        if self.pid and shutil.which("perf"):
            argv = ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p", str(self.pid)]
            self.perf = subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                         text=True)
            time.sleep(0.3)  # perf gives no sign when it has attached
        return self

    def __exit__(self, *exc):
        if self.perf is None:
            return
        self.perf.send_signal(signal.SIGINT)
        _, text = self.perf.communicate(timeout=30)
        first = text.strip().split(",")[0].splitlines()[-1:] or [""]
        self.count = int(first[0]) if first[0].isdigit() else None


class Watch:
    """The largest memory that some processes held together while the block ran.

    Pages of memfds count once, however many processes map them or merely hold the descriptor.
    """

    def __init__(self, pids: list[int]):
        self.argv = [sys.executable, "-m", "bed.watch", *map(str, pids)]
        self.growth = 0

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        out, _ = self.process.communicate(timeout=60)
        self.growth = int(out.strip())
