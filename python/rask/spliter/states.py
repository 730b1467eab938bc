"""Where the blocks are now: one question to the scheduler, asked again while blocks are missing.

Blocks that are still being computed, or computed again, are waited for; failed and cancelled ones end
the split with an error that names the first of them. A snapshot may be stale the moment it is made:
nothing but speed depends on it, because partitions depend on their blocks by key.
"""

from __future__ import annotations

import asyncio
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import CancelledError, Future, wait

from rask.spliter.collection import Source, SpliterError

ATTEMPTS = 20


@dataclass
class WorkerView:
    """What a split wants to know of a worker."""

    nthreads: int
    running: bool
    numa: int | None = None  # nodes; None: not asked yet


def workers_now(client: Any) -> dict[str, WorkerView]:
    """All workers of the cluster, by address."""
    async def ask() -> Any:
        return await client.scheduler.identity(n_workers=-1)

    return _views(client.sync(ask))


def _views(identity: dict[str, Any]) -> dict[str, WorkerView]:
    return {address: WorkerView(int(info["nthreads"]), info.get("status", "running") == "running",
                                _numa(info))
            for address, info in identity["workers"].items()}


def _numa(info: dict[str, Any]) -> int | None:
    """NUMA nodes that a rask worker tells of; stock workers tell of none."""
    topology = info.get("topology")
    found = topology.get("numa_nodes") if isinstance(topology, dict) else None
    return max(1, found) if isinstance(found, int) else None


def with_numa(client: Any, workers: dict[str, WorkerView]) -> None:
    """Asks workers that do not tell over how many NUMA nodes the processors they may use are
    spread. One that leaves before it answers counts as one node."""
    from rask.spliter.tasks import by_value, numa_nodes

    silent = [address for address, view in workers.items() if view.numa is None and view.running]
    answers = client.run(by_value(numa_nodes), workers=silent, on_error="return") if silent else {}
    for address, view in workers.items():
        count = answers.get(address, view.numa)
        view.numa = max(1, count) if isinstance(count, int) else 1


def await_blocks(blocks: list[Future], timeout: float | None) -> None:
    """Returns when every block was in memory; raises for failed and cancelled ones.

    "lost" is no end: its worker left and the scheduler computes it again, or says that it cannot.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    now = _statuses(blocks)
    while not {"pending", "lost"}.isdisjoint(now):
        waiting = [block for block, status in zip(blocks, now) if status in ("pending", "lost")]
        try:
            wait(waiting, timeout=None if deadline is None else max(1e-3, deadline - time.monotonic()))
        except (TimeoutError, asyncio.TimeoutError) as error:
            late = [block.key for block in waiting if block.status in ("pending", "lost")]
            raise TimeoutError(f"{len(late)} of {len(blocks)} blocks are not computed after "
                               f"{timeout} s; the first is {late[0] if late else None}") from error
        except CancelledError:
            pass  # said below, like those that were cancelled before
        now = _statuses(blocks)
    seen = set(now)
    for state in ("error", "cancelled"):
        if state in seen:
            first = blocks[now.index(state)]
            cause = first.exception() if state == "error" else None
            said = f": {type(cause).__name__}: {cause}" if cause is not None else ""
            raise SpliterError(f"{now.count(state)} of {len(blocks)} blocks {_WORDS[state]}; the "
                               f"first is {first.key!r}{said}") from cause


def _statuses(blocks: list[Future]) -> list[str | None]:
    """`Future.status` of each, without a call for each."""
    try:
        return [block._state.status for block in blocks]
    except AttributeError:  # a future that came by a pickle gets its state when somebody asks
        return [block.status for block in blocks]


_WORDS = {"error": "failed", "cancelled": "were cancelled"}


def locate(source: Source,
           timeout: float | None) -> tuple[list[tuple[str, ...]], dict[str, WorkerView]]:
    """Holders of each block, and the workers. Blocks on the move are asked for again."""
    client, blocks = source.client, source.blocks
    deadline = None if timeout is None else time.monotonic() + timeout
    await_blocks(blocks, timeout)

    async def ask() -> Any:
        return await asyncio.gather(_held(source), client.scheduler.identity(n_workers=-1))

    for attempt in range(ATTEMPTS):
        (sets, numbers), identity = client.sync(ask)
        workers = _views(identity)
        known = [tuple(worker for worker in some if worker in workers) for some in sets]
        holders = list(map(known.__getitem__, numbers))
        missing = [i for i, held in enumerate(holders) if not held]
        if not missing:
            return holders, workers
        if deadline is not None and time.monotonic() > deadline:
            break
        # In memory a moment ago and on no worker now: its worker left, and the scheduler computes
        # it again. The wait ends when it is there, or says why it cannot be.
        time.sleep(0.05 * (attempt + 1))
        await_blocks([blocks[i] for i in missing], timeout)
    raise SpliterError(f"{len(missing)} of {len(blocks)} blocks are on no worker; the first is "
                       f"{blocks[missing[0]].key!r}; workers seem to come and go, try again")


async def _held(source: Source) -> tuple[list[tuple[str, ...]], Sequence[int]]:
    """The different sets of holders, and the number of its set for each block: blocks are many, sets
    are few. A rask scheduler makes the keys of an array itself; any other is told them."""
    client = source.client
    told = getattr(client.scheduler_comm.comm, "remote_info", {})  # by the scheduler's greeting
    if source.name is not None and "rask" in told:
        answer = await client.scheduler.rask_holders(name=source.name, shape=list(source.shape))
        numbers = array("I", answer["of"])
        if sys.byteorder == "big":
            numbers.byteswap()
        return answer["sets"], numbers
    keys = [block.key for block in source.blocks]
    answer = await client.scheduler.who_has(keys=keys)
    in_order = list(answer) == keys
    held = list(map(tuple, answer.values() if in_order else [answer.get(key, ()) for key in keys]))
    sets = {some: number for number, some in enumerate(dict.fromkeys(held))}
    return list(sets), list(map(sets.__getitem__, held))


def sizes_of(client: Any, keys: list[Any]) -> list[int]:
    """Bytes of each block as its worker measured them."""
    async def ask() -> Any:
        return await client.scheduler.nbytes(keys=keys, summary=False)

    found = client.sync(ask)
    return [int(found.get(key, 0) or 0) for key in keys]
