"""Which blocks make a partition: homes, counts and cuts. Pure: numbers and addresses only.

Every block gets one home among the workers that hold it; replicas are used to even out bytes per
thread. The blocks of a home, in array order, are cut into p runs of about equal bytes (or dealt out
by a self-scheduling scheme), so that order survives and index lists stay short.

Invariant: each block is in exactly one partition, no partition is empty, and all blocks of a
partition have one home.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Any

from rask.spliter.collection import SpliterError
from rask.spliter.states import WorkerView

SCHEMES = ("STATIC", "SS", "MFSC", "GSS", "TSS", "FAC2", "TFSS", "FISS", "VISS", "PLS", "PSS")
PER = ("worker", "thread", "numa")
CUTS = ("bytes", "cyclic", *SCHEMES)


def check_options(per: str | int, cut: str) -> None:
    if isinstance(per, bool) or not isinstance(per, (str, int)):
        raise TypeError(f"per= takes one of {PER} or a number, not {type(per).__name__}")
    if isinstance(per, str) and per not in PER:
        raise ValueError(f"per={per!r} is not one of {PER} or a number")
    if isinstance(per, int) and per < 1:
        raise ValueError(f"per={per}: a worker has at least one partition")
    if cut not in CUTS:
        raise ValueError(f"cut={cut!r} is not one of {CUTS}")


def homes(holders: list[tuple[str, ...]], weights: list[int],
          workers: dict[str, WorkerView]) -> list[str]:
    """One worker per block. Blocks that no running worker holds go to the least loaded one."""
    running = [address for address, view in workers.items() if view.running]
    if not running:
        raise SpliterError("no worker is running: all are paused or closing")
    load = dict.fromkeys(running, 0)
    # Most blocks have one holder, and different sets of holders are few.
    only = {held: held[0] for held in set(holders) if len(held) == 1 and held[0] in load}
    home: list[Any] = list(map(only.get, holders))
    if None not in home:
        return home
    for worker, weight in zip(home, weights):
        if worker is not None:
            load[worker] += weight
    choice = [i for i, worker in enumerate(home) if worker is None]
    for i in sorted(choice, key=lambda i: (-weights[i], i)):
        candidates = [w for w in holders[i] if w in load] or running
        home[i] = min(candidates, key=lambda w: (load[w] / max(1, workers[w].nthreads), w))
        load[home[i]] += weights[i]
    return home


def share(per: str | int, view: WorkerView) -> int:
    """How many partitions a worker wants."""
    if isinstance(per, int):
        return per
    return {"worker": 1, "thread": max(1, view.nthreads), "numa": view.numa or 1}[per]


def partition(home: list[str], weights: list[int], workers: dict[str, WorkerView],
              per: str | int, cut: str) -> list[tuple[str, list[int]]]:
    """(worker, block numbers in array order) of each partition, in order of the first block."""
    of_worker: dict[str, list[int]] = {worker: [] for worker in dict.fromkeys(home)}
    take = {worker: blocks.append for worker, blocks in of_worker.items()}
    for i, worker in enumerate(home):
        take[worker](i)
    found = []
    for worker, blocks in of_worker.items():
        wanted = min(share(per, workers[worker]), len(blocks))
        if cut == "bytes":
            groups = _runs(blocks, _cut(list(map(weights.__getitem__, blocks)), wanted))
        elif cut == "cyclic":
            groups = [blocks[k::wanted] for k in range(wanted)]
        else:
            groups = _runs(blocks, chunks(cut, len(blocks), wanted))
        found += [(worker, group) for group in groups]
    return sorted(found, key=lambda pair: pair[1][0])


def _runs(blocks: list[int], lengths: list[int]) -> list[list[int]]:
    ends = list(accumulate(lengths))
    return [blocks[end - length:end] for end, length in zip(ends, lengths)]


def _cut(weights: list[int], parts: int) -> list[int]:
    """Lengths of `parts` runs of about equal weight, none of them empty."""
    if parts == 1:
        return [len(weights)]
    sums = list(accumulate(weights))
    total = sums[-1]
    if total <= 0:
        sums = list(range(1, len(weights) + 1))
        total = sums[-1]
    ends = []
    for part in range(1, parts):
        wanted = total * part / parts
        end = bisect_left(sums, wanted)
        # The block on the border goes to the side where more of it lies.
        before = sums[end - 1] if end else 0
        end += sums[end] - wanted <= wanted - before
        least = (ends[-1] if ends else 0) + 1
        ends.append(min(max(end, least), len(weights) - (parts - part)))
    return [end - start for start, end in zip([0, *ends], [*ends, len(weights)])]


def chunks(scheme: str, items: int, workers: int, **options: float) -> list[int]:
    """Sizes in which `scheme` deals out `items` to `workers`: scheduler/core/schemes.h."""
    from rask._native import _graph

    return _graph.chunk_sizes(scheme, items, workers, **options)
