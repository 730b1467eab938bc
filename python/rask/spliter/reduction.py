"""Local-first reduction: inside the partition, then on the worker, then over the workers.

What crosses the network is one partial per worker. The shape of the tree depends on where blocks
are, so `combine` must be associative and commutative; the ordered form needs neither and moves
every block's result to one place instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask._task_spec import TaskRef
from distributed import Future

from rask.spliter import tasks
from rask.spliter.submission import Batch, call_token, key_for

if TYPE_CHECKING:
    from rask.spliter.partitions import Partitions


def tree(parts: Partitions, combine: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
         *, many: bool, ordered: bool, split_every: int, pure: bool,
         options: dict[str, Any]) -> Future:
    if not callable(combine):
        raise TypeError(f"combine must be callable, not {type(combine).__name__}")
    if split_every < 2:
        raise ValueError(f"split_every={split_every}: a tree joins at least two partials")
    token = call_token(pure, "reduce", combine, fn, args, kwargs, many, ordered)
    batch = Batch(parts.client)
    if ordered:
        root = _in_order(batch, parts, combine, fn, args, kwargs, many, token, options)
        return batch.send([root])[0]
    partials = [parts.add(batch, part, "reduce", fn, token, args, kwargs, options,
                          combine=combine, many=many) for part in parts]
    by_worker: dict[str, list[str]] = {}
    for part, partial in zip(parts, partials):
        by_worker.setdefault(part.worker, []).append(partial)
    level = [_merged(batch, combine, many, found, token, worker, options)
             for worker, found in by_worker.items()]
    while len(level) > 1:
        level = [_merged(batch, combine, many, level[i:i + split_every], token, None, options)
                 for i in range(0, len(level), split_every)]
    return batch.send(level)[0]


def _merged(batch: Batch, combine: Any, many: bool, partials: list[str], token: str,
            home: str | None, options: dict[str, Any]) -> str:
    if len(partials) == 1:
        return partials[0]
    key = key_for(combine, token, home or "", *partials)
    return batch.add(key, tasks.merge, combine, many, [*map(TaskRef, partials)], home=home, **options)


def _in_order(batch: Batch, parts: Partitions, combine: Any, fn: Any, args: tuple[Any, ...],
              kwargs: dict[str, Any], many: bool, token: str, options: dict[str, Any]) -> str:
    each = fn or tasks.by_value(tasks.same)
    lists = [parts.add(batch, part, "each", each, token, args, kwargs, options) for part in parts]
    numbers = [i for part in parts for i in (part.numbers if parts.joined is None
                                             else part.numbers[:1])]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    key = key_for(combine, token, *lists)
    return batch.add(key, tasks.merge_in_order, combine, many, order, [*map(TaskRef, lists)], **options)
