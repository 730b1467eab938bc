"""`Worker.memory_manager`: stock's attributes; whoever sets one sets it for the native side too.

Answers to: distributed/worker_memory.py, WorkerMemoryManager.
"""

from __future__ import annotations

from distributed.worker_memory import WorkerMemoryManager

BOUNDS = {
    "limit": "memory_limit",
    "target": "memory_target_fraction",
    "spill": "memory_spill_fraction",
    "pause": "memory_pause_fraction",
}


class NativeMemory(WorkerMemoryManager):
    runtime = None

    def attach(self, runtime) -> None:
        self.runtime = runtime

    def bounds(self) -> dict[str, float]:
        """As the native side wants them: 0 is off."""
        return {
            name: (int if name == "limit" else float)(getattr(self, attribute) or 0)
            for name, attribute in BOUNDS.items()
        }

    def __setattr__(self, name: str, value) -> None:
        super().__setattr__(name, value)
        if self.runtime is not None and name in BOUNDS.values():
            self.runtime.set_memory(**self.bounds())
