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


#: As deep as stock looks.
MOST_FRAMES = 101


def stack_of(frame) -> list[tuple]:
    """(identifier, frame) of the task's frames, outermost first."""
    found = []
    while frame is not None and len(found) < MOST_FRAMES:
        if found and frame.f_code.co_filename.endswith(STOP):
            break
        found.append((profile.identifier(frame), frame))
        frame = frame.f_back
    found.reverse()
    return found


def add_stack(state: dict, stack: list[tuple]) -> dict:
    """What `profile.process` does, of a stack that was walked once for both profiles. Gives the innermost node."""
    for identifier, frame in stack:
        state["count"] += 1
        children = state["children"]
        state = children.get(identifier)
        if state is None:
            state = children[identifier] = {
                "count": 0, "description": profile.info_frame(frame), "children": {},
                "identifier": identifier}
    return state


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
            stack = stack_of(frame)
            state = add_stack(self.profile_recent, stack)
            if self.low_level_profiler:
                profile.llprocess(profile.ll_get_stack(ident), None, state)
            add_stack(self.profile_keys[key_split(task)], stack)
        del frames
        self.digest_metric("profile-duration", time() - start)
