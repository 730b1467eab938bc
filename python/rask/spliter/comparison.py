"""`rask.compare`: the same reduction over a collection by blocks, partitions and rechunk, side by side.

Every mode does the same work or the comparison fails: results must be equal, every kernel call is
counted on the worker that makes it, and every mode must have looked at the same number of items.
Beside seconds stand the bytes that workers sent to each other, how far their memory grew, and what
the cost model (cost.py) had predicted from small samples.

Rechunked and materialised collections are made once and kept for all passes.
"""

from __future__ import annotations

import operator
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distributed import futures_of, wait

from rask.spliter import probes, tasks
from rask.spliter.collection import SpliterError
from rask.spliter.cost import predict
from rask.spliter.partitions import Partitions, split
from rask.spliter.rates import measure, work_of
from rask.spliter.tasks import by_value

MODES = ("blocks", "spliter", "materialized", "rechunk-tasks", "rechunk-p2p")
FAN_IN = 8


@dataclass
class Row:
    """What one mode took."""

    mode: str
    seconds: float
    predicted: float
    pieces: int  # that the kernel is called on in a pass
    calls: int  # of the kernel, all passes
    items: int  # it was given, all calls together
    moved: int  # bytes between workers
    grown: int  # bytes by which the workers' memory grew at its peak, all together
    value: Any
    skipped: str = ""  # why the mode does not apply to this collection

    @property
    def error(self) -> float:
        """Of the prediction, as a share of what it took."""
        return self.predicted / self.seconds - 1


class Comparison(Sequence[Row]):
    """Rows in the order of the modes; prints as a table."""

    def __init__(self, title: str, rows: list[Row]):
        self.title = title
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return next(row for row in self.rows if row.mode == index)
        return self.rows[index]

    @property
    def fastest(self) -> Row:
        return min((row for row in self.rows if not row.skipped), key=lambda row: row.seconds)

    def __str__(self) -> str:
        lines = [self.title, f"{'mode':<15}{'seconds':>9}{'predicted':>11}{'error':>8}"
                             f"{'calls':>9}{'moved, MB':>11}{'memory grew, MB':>17}"]
        for row in self.rows:
            if row.skipped:
                lines.append(f"{row.mode:<15}{'—':>9}  {row.skipped}")
                continue
            lines.append(f"{row.mode:<15}{row.seconds:>9.3f}{row.predicted:>11.3f}"
                         f"{row.error:>+8.0%}{row.calls:>9}{row.moved / 1e6:>11.2f}"
                         f"{row.grown / 1e6:>17.1f}")
        return "\n".join(lines)


def compare(x: Any, fn: Callable[[Any], Any], modes: Sequence[str] = MODES, *,
            combine: Callable[[Any, Any], Any] = operator.add, passes: int = 1,
            per: str | int = "worker", equal: Callable[[Any, Any], bool] | None = None,
            client: Any = None, show: bool = True) -> Comparison:
    """Reduces `fn(block)` over all blocks of persisted `x` by `combine`, once per mode.

    modes    "blocks": a task per block, as Dask does it; "spliter": a task per partition;
             "materialized": partitions joined first; "rechunk-tasks", "rechunk-p2p": Dask's
             rechunk to as many blocks as there are partitions, persisted
    passes   how often the kernel goes over the data, as iterative programs do
    equal    decides whether two results are the same; by default numbers may differ by rounding

    Prints the table unless `show=False` and gives it. Raises AssertionError if modes give
    different results or do different work. `fn` must mean the same on any cut of the data.
    """
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or not modes:
        raise ValueError(f"modes={modes!r}: choose among {MODES}")
    if passes < 1:
        raise ValueError(f"passes={passes}: at least one")
    parts = split(x, per, client=client)
    begin = time.perf_counter()
    parts = parts.refresh()  # now that no block is waited for
    query = time.perf_counter() - begin
    work = work_of(parts, passes)
    rates = measure(parts, fn, query, work)
    rows = [_measured(mode, parts, fn, combine, passes, query, predict(mode, rates, work))
            for mode in modes]
    _check(rows, passes, equal or same_value)
    title = (f"{work.blocks} blocks, {work.nbytes / 1e6:.1f} MB, {work.partitions} partitions on "
             f"{work.workers} workers, {passes} pass{'es' if passes > 1 else ''}")
    found = Comparison(title, rows)
    if show:
        print(found)
    return found


# ---- one mode -------------------------------------------------------------------------------------


def _measured(mode: str, parts: Partitions, fn: Any, combine: Any, passes: int, query: float,
              predicted: float) -> Row:
    client, run = parts.client, uuid.uuid4().hex
    sent = sum(client.run(by_value(probes.sent_bytes)).values())
    before = client.run(by_value(probes.reset_peak))
    begin = time.perf_counter()
    try:
        kept, pieces, once = _prepared(mode, parts)
    except SpliterError as error:
        return Row(mode, 0, 0, 0, 0, 0, 0, 0, None, skipped=str(error))
    for _ in range(passes):
        total = once(by_value(probes.counted), combine, fn, run)
        wait(total)
    seconds = time.perf_counter() - begin + (query if mode in ("spliter", "materialized") else 0)
    after = client.run(by_value(probes.peak))
    moved = sum(client.run(by_value(probes.sent_bytes)).values()) - sent
    counts = client.run(by_value(probes.take_counts), run)
    row = Row(mode, seconds, predicted, pieces, sum(c for c, _ in counts.values()),
              sum(i for _, i in counts.values()), moved,
              sum(max(0, after[w] - before.get(w, after[w])) for w in after), total.result())
    keys = [future.key for future in kept]
    del kept, once, total
    _wait_gone(client, keys)
    return row


def _prepared(mode: str, parts: Partitions) -> tuple[list[Any], int, Callable[..., Any]]:
    """(futures made for the mode, pieces of a pass, what makes the future of one pass)."""
    client, blocks = parts.client, parts.source.blocks
    if mode == "blocks":
        return [], len(blocks), lambda *call: _by_blocks(client, blocks, *call)
    if mode == "spliter":
        return [], len(blocks), lambda *call: _by_parts(parts, *call)
    if mode == "materialized":
        joined = parts.materialize()
        return [part.held for part in joined], len(joined), lambda *call: _by_parts(joined, *call)
    cut = parts.rechunk(method=mode.removeprefix("rechunk-")).persist()
    kept = futures_of(cut)
    wait(kept)
    return kept, len(kept), lambda *call: _by_blocks(client, kept, *call)


def _by_parts(parts: Partitions, counted: Any, combine: Any, fn: Any, run: str) -> Any:
    return parts.reduce(combine, counted, fn, run, split_every=FAN_IN, pure=False)


def _by_blocks(client: Any, blocks: list[Any], counted: Any, combine: Any, fn: Any,
               run: str) -> Any:
    level = client.map(counted, blocks, fn=fn, run=run, pure=False)
    while len(level) > 1:
        level = [client.submit(by_value(tasks.merge), combine, False, level[i:i + FAN_IN],
                               pure=False) for i in range(0, len(level), FAN_IN)]
    return level[0]


def _wait_gone(client: Any, keys: list[Any], timeout: float = 10) -> None:
    """What a mode made must not take memory from the next."""
    async def ask() -> Any:
        return await client.scheduler.who_has(keys=keys)

    deadline = time.monotonic() + timeout
    while keys and any(client.sync(ask).values()) and time.monotonic() < deadline:
        time.sleep(0.02)


# ---- equal work -----------------------------------------------------------------------------------


def _check(rows: list[Row], passes: int, equal: Callable[[Any, Any], bool]) -> None:
    ran = [row for row in rows if not row.skipped]
    for row in ran:
        first = ran[0]
        if row.calls != passes * row.pieces:
            raise AssertionError(f"{row.mode} called the kernel {row.calls} times for {row.pieces} "
                                 f"pieces in {passes} passes; did a worker leave?")
        if row.items != first.items:
            raise AssertionError(f"{row.mode} looked at {row.items} items, {first.mode} at "
                                 f"{first.items}: the work is not the same")
        if not equal(row.value, first.value):
            raise AssertionError(f"{row.mode} and {first.mode} give different results: "
                                 f"{row.value!r} and {first.value!r}")


def same_value(a: Any, b: Any) -> bool:
    """Equal, but for the rounding of sums in another order."""
    import numpy

    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(map(same_value, a, b))
    if hasattr(a, "equals") and type(a) is type(b):
        return bool(a.equals(b)) or bool(numpy.allclose(a, b, equal_nan=True))
    try:
        return bool(numpy.allclose(a, b, rtol=1e-7, equal_nan=True))
    except TypeError:
        return bool(numpy.all(a == b))
