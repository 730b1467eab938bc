"""A run on paper: greedy list scheduling by priority, and what it holds in memory.

Every task takes one unit of time. Each free executor takes the ready task with the lowest
priority, also when that is a root task: as with distributed's queueing of root-ish tasks nothing is
handed out ahead of time. A result is held from the end of its task until all its dependents have
ended. Results that the client wants stay until the end of any run and would only blur the
comparison: they count only while other tasks need them.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from ordering_shapes import Shape


@dataclass
class Pressure:
    """Peaks of what a run holds."""

    count: int = 0
    bytes: int = 0


class Run:
    """The dependents of a shape are worked out once and used for every simulated run."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        n = len(shape.sizes)
        self.dependencies = [shape.deps[shape.offsets[t] : shape.offsets[t + 1]] for t in range(n)]
        self.dependents: list[list[int]] = [[] for _ in range(n)]
        for t, deps in enumerate(self.dependencies):
            for d in deps:
                self.dependents[d].append(t)

    def simulate(self, priorities: Sequence[int], executors: int) -> Pressure:
        """Peaks of a run of all tasks with this many executors."""
        sizes, peak = self.shape.sizes, Pressure()
        missing = [len(deps) for deps in self.dependencies]
        users = [len(deps) for deps in self.dependents]
        ready = [(priorities[t], t) for t, n in enumerate(missing) if not n]
        heapq.heapify(ready)
        held = held_bytes = 0
        while ready:
            running = [heapq.heappop(ready)[1] for _ in range(min(executors, len(ready)))]
            # New results exist beside their inputs for a moment: that moment is the peak.
            held += sum(bool(users[t]) for t in running)
            held_bytes += sum(sizes[t] for t in running if users[t])
            peak.count, peak.bytes = max(peak.count, held), max(peak.bytes, held_bytes)
            for t in running:
                for d in self.dependencies[t]:
                    users[d] -= 1
                    if not users[d]:
                        held -= 1
                        held_bytes -= sizes[d]
                for dependent in self.dependents[t]:
                    missing[dependent] -= 1
                    if not missing[dependent]:
                        heapq.heappush(ready, (priorities[dependent], dependent))
        return peak
