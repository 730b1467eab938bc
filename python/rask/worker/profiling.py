"""Statistical profiles of running tasks: stock's, cut off where our own frames begin.

Answers to: distributed/worker.py, Worker.trigger_profile.
"""

from __future__ import annotations

import asyncio
import sys

from dask.utils import key_split
from distributed import profile
from distributed.metrics import time

#: Frames from here outwards are ours, not the task's.
STOP = "rask/worker/execute.py"


class Profiled:
    _next_sample = None

    def sample_every(self, seconds: float) -> None:
        """As a PeriodicCallback would, a hundred times a second, at a third of its cost."""
        loop = asyncio.get_running_loop()

        def sample() -> None:
            self._next_sample = loop.call_later(seconds, sample)
            self.trigger_profile()

        self._next_sample = loop.call_later(seconds, sample)

    def stop_sampling(self) -> None:
        if self._next_sample is not None:
            self._next_sample.cancel()

    def get_call_stack(self, keys=None) -> dict:
        """As stock; but threads come and go without a lock here, so a copy is read."""
        active = self.active_threads.copy()
        frames = sys._current_frames()
        return {
            key: profile.call_stack(frames[ident])
            for ident, key in active.items()
            if ident in frames and (keys is None or key in keys)
        }

    def trigger_profile(self) -> None:
        active = self.active_threads.copy()
        if not active:
            return
        start = time()
        frames = sys._current_frames()
        for ident, task in active.items():
            frame = frames.get(ident)
            if frame is None:
                continue
            state = profile.process(frame, True, self.profile_recent, stop=STOP)
            if self.low_level_profiler:
                profile.llprocess(profile.ll_get_stack(ident), None, state)
            profile.process(frame, True, self.profile_keys[key_split(task)], stop=STOP)
        del frames
        self.digest_metric("profile-duration", time() - start)
