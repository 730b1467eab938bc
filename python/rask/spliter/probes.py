"""What `rask.compare` runs on workers: counted kernels, samples of rates, counters. By value.

Nothing here may refer to another module of rask, as in tasks.py; functions of that module are
passed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

COUNTS = "_rask_compare"


def size_of(block: Any) -> int:
    """Items of a block: what all modes must have looked at equally often."""
    size = getattr(block, "size", None)
    if hasattr(size, "__index__"):
        return int(size)
    return len(block) if hasattr(block, "__len__") else 1


def counted(block: Any, fn: Callable[[Any], Any], run: str) -> Any:
    """`fn(block)`, noted on the worker that did it."""
    from distributed import get_worker

    # Appending is one step under the GIL, so threads need no lock.
    vars(get_worker()).setdefault(COUNTS, {}).setdefault(run, []).append(size_of(block))
    return fn(block)


def take_counts(run: str, dask_worker: Any) -> tuple[int, int]:
    """(calls, items) of a run on this worker, which forgets them."""
    sizes = vars(dask_worker).get(COUNTS, {}).pop(run, [])
    return len(sizes), sum(sizes)


def sent_bytes(dask_worker: Any) -> int:
    """Bytes this worker sent so far; of a shuffle also what it sent to itself."""
    digests = getattr(dask_worker, "digests_total", None) or {}
    shuffled = sum(value for name, value in list(digests.items())
                   if isinstance(name, tuple) and name[0] == "p2p"
                   and name[2:] == ("background-comms", "process", "bytes"))
    return int(dask_worker.transfer_outgoing_bytes_total + shuffled)


def reset_peak() -> int:
    """Resident bytes now; the process's peak is counted anew from here."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass
    return _memory("VmRSS")


def peak() -> int:
    return _memory("VmHWM")


def _memory(field: str) -> int:
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def nothing(*_: Any) -> None:
    return None


def walked(blocks: Any) -> int:
    """As a partition's task with no kernel."""
    return sum(1 for _ in blocks)


def copied(blocks: list[Any]) -> list[Any]:
    """Blocks of their own, to be sent somewhere and forgotten."""
    return [block.copy() if hasattr(block, "copy") else block for block in blocks]


def sampled(blocks: list[Any], fn: Callable[[Any], Any],
            join: Callable[..., Any], layout: Any) -> tuple[float, float, float]:
    """(seconds of the kernel block by block, of joining, of the kernel on the joined)."""
    fn(blocks[0])
    begin = time.perf_counter()
    for block in blocks:
        fn(block)
    by_blocks = time.perf_counter() - begin
    if layout is None:
        return by_blocks, 0.0, by_blocks
    begin = time.perf_counter()
    whole = join(blocks, layout, copy=True)
    joining = time.perf_counter() - begin
    begin = time.perf_counter()
    fn(whole)
    return by_blocks, joining, time.perf_counter() - begin
