"""Seeks of a process, counted from outside by strace.

An access to a descriptor that does not begin where the last one of that descriptor ended is a seek;
so is the first one after opening.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

CALLS = "openat,open,creat,close,read,readv,pread64,preadv,preadv2,write,writev,pwrite64,pwritev,pwritev2,lseek"
OPTIONS = ["strace", "-f", "-y", "-s", "0", "-e", f"trace={CALLS}", "-e", "signal=none"]
_LINE = re.compile(r"^(\d+) +(.*)$")
_OPEN = re.compile(r"^(?:openat|open|creat)\(.*\) += (\d+)<(.*)>$")
_CALL = re.compile(r"^(\w+)\((\d+)<([^>]*)>(?:, (.*))?\) += (-?\d+)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"^<\.\.\. \w+ resumed>(.*)$")


def why_not() -> str | None:
    """Why seeks cannot be counted here; None: they can."""
    try:
        done = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, text=True)
    except FileNotFoundError:
        return "strace is not installed"
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


class Seeks:
    """Counts of one process, by file."""

    def __init__(self, lines: Iterable[str]):
        self.seeks: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.bytes: dict[str, int] = {}
        self._at: dict[int, int] = {}  # descriptor -> place of the next read or write
        self._last: dict[int, int] = {}  # descriptor -> end of its last access
        pending: dict[str, str] = {}
        for line in lines:
            if not (found := _LINE.match(line.rstrip("\n"))):
                continue
            thread, text = found.groups()
            if text.endswith(_UNFINISHED):
                pending[thread] = text.removesuffix(_UNFINISHED)
                continue
            if resumed := _RESUMED.match(text):
                text = pending.pop(thread, "") + resumed.group(1)
            self._call(text)

    def _call(self, text: str) -> None:
        if found := _OPEN.match(text):
            descriptor = int(found.group(1))
            self._at[descriptor] = 0
            self._last.pop(descriptor, None)
            return
        if not (found := _CALL.match(text)):
            return
        name, descriptor, path, arguments, result = found.groups()
        descriptor, result = int(descriptor), int(result)
        if name == "lseek" and result >= 0:
            self._at[descriptor] = result
        elif name.startswith(("read", "write")) and result > 0:
            at = self._at.get(descriptor, 0)
            self._at[descriptor] = at + result
            self._access(descriptor, path, at, result)
        elif name.startswith(("pread", "pwrite")) and result > 0:
            place = arguments.rsplit(", ", 2)[-2:] if name.endswith("v2") else [arguments.rsplit(", ", 1)[-1]]
            self._access(descriptor, path, int(place[0]), result)

    def _access(self, descriptor: int, path: str, at: int, length: int) -> None:
        if self._last.get(descriptor) != at:
            self.seeks[path] = self.seeks.get(path, 0) + 1
        self._last[descriptor] = at + length
        self.calls[path] = self.calls.get(path, 0) + 1
        self.bytes[path] = self.bytes.get(path, 0) + length

    def of(self, path: str | os.PathLike, counts: str = "seeks") -> int:
        """Of a file, or of all files in a folder."""
        found, whole = getattr(self, counts), os.fspath(path)
        return sum(n for name, n in found.items() if name == whole or name.startswith(whole + "/"))


class Attached:
    """Traces a running process inside the block; `seeks` has the counts afterwards."""

    def __init__(self, pid: int, timeout: float = 30):
        self.pid, self.timeout = pid, timeout
        self.seeks: Seeks | None = None

    def __enter__(self) -> Attached:
        self._log = Path(tempfile.mkdtemp(prefix="rask-strace-", dir="/dev/shm")) / "log"
        self._strace = subprocess.Popen([*OPTIONS, "-o", str(self._log), "-p", str(self.pid)],
                                        stderr=subprocess.PIPE, text=True)
        with selectors.DefaultSelector() as selector:
            selector.register(self._strace.stderr, selectors.EVENT_READ)
            if not selector.select(self.timeout):
                raise TimeoutError("strace does not attach")
        said = self._strace.stderr.readline()
        if "attached" not in said:
            raise OSError(f"strace: {said.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.05)  # the last calls of the program are on their way into the log
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait(30)
        self._strace.stderr.close()
        with open(self._log) as f:
            self.seeks = Seeks(f)
        self._log.unlink()
        self._log.parent.rmdir()


def traced(command: list[str], **options) -> Seeks:
    """Runs a program to its end."""
    with tempfile.TemporaryDirectory(prefix="rask-strace-", dir="/dev/shm") as folder:
        log = Path(folder) / "log"
        subprocess.run([*OPTIONS, "--seccomp-bpf", "-o", str(log), *command], check=True, **options)
        with open(log) as f:
            return Seeks(f)
