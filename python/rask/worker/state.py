"""`Worker.state`: what plugins and user code read of a worker's state machine.

The machine itself is native. This is stock's class, kept for its attributes (nthreads, address,
actors, resources); counts are read from the native side when asked for.
"""

from __future__ import annotations

from distributed.worker_state_machine import WorkerState


class NativeState(WorkerState):
    runtime = None

    def attach(self, runtime) -> None:
        self.runtime = runtime

    def _count(self, name: str) -> int:
        return self.runtime.counts().get(name, 0) if self.runtime is not None else 0

    @property
    def executing_count(self) -> int:
        return self._count("executing")

    @property
    def in_flight_tasks_count(self) -> int:
        return self._count("flight")
