"""One cell: an application in one mode on one cluster, timed, counted, and compared.

Counted per run: kernel calls, rows given to kernels, bytes between workers, and bytes of blocks that
have more holders afterwards than before. The first mode's result is what the others must agree with.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bed import meter
from spliter import kernels, programs
from spliter.clusters import Bed
from spliter.modes import Data


class Cells:
    """Measures on one cluster; `say(row)` is told of every finished cell. After `due` (of the
    monotonic clock) nothing is repeated."""

    def __init__(self, bed: Bed, client: Any, say: Callable[[dict], None], due: float, **labels: Any):
        self.bed = bed
        self.due = due
        self.client = client
        self.say = say
        self.labels = labels
        self.expected: dict[Any, Any] = {}

    def roles(self) -> meter.Roles:
        return meter.Roles(self.bed.scheduler.pid, [w.pid for w in self.bed.workers.values()])

    def counts(self) -> dict[str, list[int]]:
        """Calls and rows per kernel over all workers since the last time."""
        found: dict[str, list[int]] = {}
        for taken in self.client.run(kernels.take_counts).values():
            for name, (calls, rows) in taken.items():
                entry = found.setdefault(name, [0, 0])
                entry[0] += calls
                entry[1] += rows
        return found

    def holders(self, data: Data) -> dict[Any, int]:
        return {key: len(held) for key, held in self.client.who_has(data.futures()).items()}

    def expect_all_workers(self) -> None:
        """What fewer workers take says nothing of a mode."""
        here = len(self.client.scheduler_info(n_workers=-1)["workers"])
        if here < self.bed.n_workers:
            raise RuntimeError(f"only {here} of {self.bed.n_workers} workers are left")

    def cell(self, app: str, mode: str, make: Callable[[], Data], run: Callable[..., Any],
             repeats: int = 1, same_as: Any = None, **labels: Any) -> None:
        """`by_turns` with one mode."""
        self.by_turns(app, (mode,), lambda _: make(), run, repeats, same_as, **labels)

    def by_turns(self, app: str, modes: tuple[str, ...], make: Callable[[str], Data],
                 run: Callable[..., Any], repeats: int = 1, same_as: Any = None,
                 beside: Callable[[], float] | None = None, least: int = 1, **labels: Any) -> None:
        """Runs `run(data, mode)` for each mode, up to so often in turn, and reports a row for each.

        What the machine does meanwhile so meets all modes alike. `make(mode)` gives the data each time;
        results with the same `same_as` must agree. `beside` is run before each run; the row has its
        seconds too. When time is short, `least` turns are enough.
        """
        rows = {mode: {**self.labels, "app": app, "mode": mode, **labels, "seconds": [], "parts": {},
                       "beside": []} for mode in modes}
        for turn in range(repeats):
            if turn >= least and time.monotonic() > self.due:
                break
            for mode, row in rows.items():
                if "error" not in row:
                    self._try(row, app, mode, make, run, same_as, beside)
        for row in rows.values():
            self.say(row)

    def _try(self, row: dict, app: str, mode: str, make: Callable[[str], Data], run: Callable[..., Any],
             same_as: Any, beside: Callable[[], float] | None) -> None:
        try:
            self.expect_all_workers()
            if beside is not None:
                row["beside"].append(beside())
            self._once(row, app, mode, make(mode), run, same_as)
        except Exception as error:  # the other cells are worth having
            row |= {"error": f"{type(error).__name__}: {error}"[:500], "agrees": False, "seconds": []}

    def _once(self, row: dict, app: str, mode: str, data: Data, run: Callable[..., Any],
              same_as: Any) -> None:
        self.counts()
        before, moved = self.holders(data), self.bed.moved()
        roles = self.roles()
        gc.collect()
        cpu = roles.cpu()
        started = time.perf_counter()
        result, parts = run(data, mode)
        row["seconds"].append(time.perf_counter() - started)
        row["cpu"] = {role: spent - cpu[role] for role, spent in roles.cpu().items()}
        row.setdefault("each", []).append(parts)
        row["parts"] = {name: median(turn[name] for turn in row["each"]) for name in parts}
        row["moved"] = None if moved is None else self.bed.moved() - moved
        after = self.holders(data)
        each = data.x.nbytes / max(1, data.x.numblocks[0])
        extra = sum(max(0, after.get(key, 0) - held) for key, held in before.items())
        row["blocks_moved"] = extra
        row["block_bytes_moved"] = int(extra * each)
        row["kernels"] = self.counts()
        expected = self.expected.setdefault((app, same_as), result)
        row["agrees"] = row.get("agrees", True) and programs.agree(app, result, expected)
        if app == "csvm":
            row["overlap"] = programs.jaccard(result, expected)
            row["vectors"] = len(result)
