"""Samples the memory of some processes every 10 ms: `python -m bed.watch PID…`.

Prints a line when it has taken its first sample and, on SIGTERM, by how much the largest sum
exceeded it. Private and file pages are shared out fairly (Pss); pages of memfds are counted once,
whether they are mapped or only held by a descriptor, because passing a descriptor is how the
scheduler hands large frames to its graph process.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time


def private_and_file(pid: int) -> tuple[int, int]:
    """(anonymous + file pages, shared memory pages) of a process, in bytes."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        text = f.read()
    found = {name: int(kib) * 1024 for name, kib in re.findall(r"Pss_(\w+):\s+(\d+) kB", text)}
    return found.get("Anon", 0) + found.get("File", 0), found.get("Shmem", 0)


def memfds(pid: int) -> dict[tuple[int, int], int]:
    """Bytes held by each memfd that a process has open."""
    found = {}
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            if "memfd:" in os.readlink(entry.path):
                status = os.stat(entry.path)
                found[status.st_dev, status.st_ino] = status.st_blocks * 512
        except OSError:
            continue
    return found


def held(pids: list[int]) -> int:
    own = shared = 0
    descriptors: dict = {}
    for pid in pids:
        try:
            mine, mapped = private_and_file(pid)
            descriptors.update(memfds(pid))
        except (OSError, ProcessLookupError):
            continue
        own += mine
        shared += mapped
    return own + max(shared, sum(descriptors.values()))


class Stop(Exception):
    pass


def main(pids: list[int]) -> None:
    def stop(*_):
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    first = largest = held(pids)
    print("ready", flush=True)
    try:
        while True:
            largest = max(largest, held(pids))
            time.sleep(0.01)
    except Stop:
        print(largest - first, flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]])
