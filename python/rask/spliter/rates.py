"""Measures the rates of the cost model on small samples, all workers at once."""

from __future__ import annotations

import math
import time
from typing import Any

from distributed import wait

from rask.spliter import probes, states, tasks
from rask.spliter.collection import SpliterError
from rask.spliter.cost import Rates, Work
from rask.spliter.indexes import blocks_cut
from rask.spliter.partitions import Partition, Partitions, block_bytes
from rask.spliter.tasks import by_value

SAMPLE_BLOCKS = 8
SAMPLE_TASKS = 200
LINK_BLOCKS = 64


def work_of(parts: Partitions, passes: int) -> Work:
    """The size of the work, from where the blocks are."""
    weights = block_bytes(parts.source)
    threads = _threads(parts)
    per_worker: dict[str, list[tuple[int, int]]] = {}
    for part in parts:
        found = per_worker.setdefault(part.worker, [])
        found.append((sum(weights[i] for i in part.numbers), len(part)))
    share = {worker: min(threads.get(worker, 1), len(found)) for worker, found in per_worker.items()}
    busiest = max(per_worker, key=lambda w: sum(b for b, _ in per_worker[w]) / share[w])
    found = per_worker[busiest]
    return Work(nbytes=sum(weights), busiest=sum(b for b, _ in found) // share[busiest],
                blocks=len(weights),
                blocks_on_busiest=math.ceil(sum(n for _, n in found) / share[busiest]),
                partitions=len(parts), workers=len(per_worker), passes=passes,
                moved=_moved_by_rechunk(parts, weights), cut=_cut_by_rechunk(parts))


def _cut_by_rechunk(parts: Partitions) -> int:
    source = parts.source
    known = source.kind == "array" and source.known() and source.chunks
    return blocks_cut(source.chunks, len(parts)) if known else 0


def _moved_by_rechunk(parts: Partitions, weights: list[int]) -> int:
    """Bytes that change their worker if runs of about equal bytes are each joined where most of them is."""
    home = {i: part.worker for part in parts for i in part.numbers}
    per_run = max(1, math.ceil(sum(weights) / len(parts)))
    runs: list[dict[str, int]] = [{} for _ in parts]
    begun = 0
    for i, weight in enumerate(weights):
        run = runs[min(begun // per_run, len(runs) - 1)]
        run[home[i]] = run.get(home[i], 0) + weight
        begun += weight
    return sum(sum(run.values()) - max(run.values(), default=0) for run in runs)


def measure(parts: Partitions, fn: Any, query: float, work: Work) -> Rates:
    client = parts.client
    per_task = _per_task(client)
    begin = time.perf_counter()
    wait(parts.map(by_value(probes.walked), pure=False))
    walking = time.perf_counter() - begin
    per_call = max(0.0, walking - len(parts) * per_task) / work.blocks_on_busiest
    # One sample per thread that will be busy later, so that they share processors as then.
    samples = parts[:sum(_threads(parts).values())]
    weights = block_bytes(parts.source)
    nbytes = [sum(weights[i] for i in _sample(part)) for part in samples]
    futures = [_sampled(parts, part, fn) for part in samples]
    seconds = client.gather(futures)
    blocks, joining, whole = (max(s[i] / max(1, n) for s, n in zip(seconds, nbytes))
                              for i in range(3))
    return Rates(query=query, per_task=per_task, per_call=per_call, kernel_blocks=blocks,
                 kernel_whole=whole, copy=1 / joining if joining else math.inf,
                 link=_link(parts, weights))


def _threads(parts: Partitions) -> dict[str, int]:
    return {address: view.nthreads for address, view in states.workers_now(parts.client).items()}


def _sample(part: Partition) -> list[int]:
    return part.numbers[:SAMPLE_BLOCKS]


def _sampled(parts: Partitions, part: Partition, fn: Any) -> Any:
    source = parts.source
    try:
        layout = parts.layout_for(_sample(part))
    except SpliterError:
        layout = None
    return parts.client.submit(
        by_value(probes.sampled), [source.blocks[i] for i in _sample(part)], fn,
        by_value(tasks.join), layout, workers=[part.worker], allow_other_workers=True, pure=False)


def _per_task(client: Any) -> float:
    nothing = by_value(probes.nothing)
    wait(client.map(nothing, range(SAMPLE_TASKS // 4), pure=False))
    begin = time.perf_counter()
    wait(client.map(nothing, range(SAMPLE_TASKS), pure=False))
    return (time.perf_counter() - begin) / SAMPLE_TASKS


def _link(parts: Partitions, weights: list[int]) -> float:
    """Bytes per second from one worker to another, by blocks of the size that will travel."""
    client, homes = parts.client, list(dict.fromkeys(part.worker for part in parts))
    if len(homes) < 2:
        return math.inf
    part = next(part for part in parts if part.worker == homes[0])
    numbers = part.numbers[:LINK_BLOCKS]
    copies = [client.submit(by_value(probes.copied), [parts.source.blocks[i]], workers=[homes[0]],
                            allow_other_workers=True, pure=False) for i in numbers]
    wait(copies)

    def used_on(worker: str) -> float:
        begin = time.perf_counter()
        wait(client.submit(by_value(probes.nothing), copies, workers=[worker],
                           allow_other_workers=True, pure=False))
        return time.perf_counter() - begin

    # What a task costs that finds them where they are is not the link's.
    beside = min(used_on(homes[0]) for _ in range(2))
    seconds = max(used_on(homes[1]) - beside, 1e-4)
    return max(1, sum(weights[i] for i in numbers)) / seconds
