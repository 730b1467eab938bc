"""Several workers of one command, without nannies: one forked process each.

Stock refuses `--nworkers 2 --no-nanny`; here it starts two processes that nobody restarts. The
parent only waits and hands signals on. It forks before any thread exists, so a child is as good as
a process of its own; if the parent is killed, its children end too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

from dask.system import CPU_COUNT
from distributed.deploy.utils import nprocesses_nthreads

PR_SET_PDEATHSIG = 1


def count_workers(given: str | int | None, nthreads: int) -> tuple[int, int]:
    """How many workers, and with how many threads each, by stock's rules."""
    if given == "auto":
        return nprocesses_nthreads()
    count = 1 if given is None else int(given)
    if count < 0:
        count += CPU_COUNT + 1
    return count, nthreads or CPU_COUNT // max(count, 1)


def become_one_of(count: int) -> int:
    """Forks; each child gets its number and goes on. The parent waits for them and exits."""
    parent = os.getpid()
    children: set[int] = set()
    for number in range(count):
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                sys.exit(1)
            return number
        children.add(child)
    sys.exit(_wait_for(children))


def _wait_for(children: set[int]) -> int:
    """The worst exit code of all."""

    def hand_on(number, frame) -> None:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hand_on)
    worst = 0
    while children:
        child, status = os.wait()
        children.discard(child)
        code = os.waitstatus_to_exitcode(status)
        worst = max(worst, code if code >= 0 else 128 - code)
    return worst
