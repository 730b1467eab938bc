"""Statistical profiles of running tasks: stock's, cut off where our own frames begin.

A hundred times a second a thread of its own looks at what runs. That stack it only counts: what
stock keeps, two trees with the text of each line, is made of the counts when somebody asks, or once
a second. So a sample costs as little as it can while the thread that it interrupts waits for the GIL.

Answers to: distributed/worker.py, Worker.trigger_profile.
"""

from __future__ import annotations

import sys
import threading
from time import sleep
from types import FrameType

from dask.utils import key_split
from distributed import profile
from distributed.metrics import time

from rask._native import _worker

#: Frames from here outwards are ours, not the task's.
STOP = "rask/worker/execute.py"
#: As deep as stock looks.
MOST_FRAMES = 101
#: Different stacks, until they are put into the trees.
MOST_STACKS = 1_000


class Seen:
    """What stock reads of a frame, as it was when it was looked at."""

    __slots__ = ("f_code", "f_globals", "f_lineno")

    def __init__(self, frame: FrameType):
        self.f_code = frame.f_code
        self.f_globals = frame.f_globals
        self.f_lineno = frame.f_lineno or frame.f_code.co_firstlineno


def frames_of(stack: list[FrameType]) -> list[FrameType]:
    """The task's frames of a stack, innermost first."""
    for depth, frame in enumerate(stack):
        if depth and frame.f_code.co_filename.endswith(STOP):
            return stack[:depth]
    return stack


def stack_of(frames: list[FrameType]) -> list[tuple]:
    """(identifier, what was seen) of frames, outermost first."""
    return [(profile.identifier(frame), Seen(frame)) for frame in reversed(frames)]


def add_stack(state: dict, stack: list[tuple], count: int = 1) -> dict:
    """What `profile.process` does, of a stack that was seen `count` times. Gives the innermost node."""
    for identifier, frame in stack:
        state["count"] += count
        children = state["children"]
        state = children.get(identifier)
        if state is None:
            state = children[identifier] = {
                "count": 0, "description": profile.info_frame(frame), "children": {},
                "identifier": identifier}
    return state


class Profiled:
    _sampling = False

    def __init__(self, *args, **kwargs):
        self._seen: dict[tuple, list] = {}  # by prefix and codes: how often, prefix, stack
        self._seen_lock = threading.Lock()
        self._seen_seconds = 0.0
        super().__init__(*args, **kwargs)

    def sample_every(self, seconds: float) -> None:
        def run() -> None:
            while self._sampling:
                sleep(seconds)
                self.trigger_profile()

        self._sampling = True
        threading.Thread(target=run, name="rask-profile", daemon=True).start()

    def stop_sampling(self) -> None:
        self._sampling = False

    def trigger_profile(self) -> None:
        active = self.active_threads.copy()
        if not active:
            return
        start = time()
        stacks = _worker.stacks(list(active), MOST_FRAMES)
        with self._seen_lock:
            for ident, stack in stacks.items():
                self._count(key_split(active[ident]), frames_of(stack), ident)
        del stacks
        if len(self._seen) > MOST_STACKS:
            self._settle()
        self._seen_seconds += time() - start

    def _count(self, prefix: str, frames: list[FrameType], ident: int) -> None:
        name = prefix, *[id(frame.f_code) for frame in frames]
        seen = self._seen.get(name)
        if seen is None:  # it holds the code objects, so their ids stay theirs
            seen = self._seen[name] = [0, prefix, stack_of(frames)]
        seen[0] += 1
        if self.low_level_profiler:
            state = add_stack(self._profile_recent, seen[2], 0)
            profile.llprocess(profile.ll_get_stack(ident), None, state)

    def _settle(self) -> None:
        """Puts what was counted into the trees."""
        with self._seen_lock:
            for count, prefix, stack in self._seen.values():
                add_stack(self._profile_recent, stack, count)
                add_stack(self._profile_keys[prefix], stack, count)
            self._seen.clear()

    @property
    def profile_recent(self) -> dict:
        self._settle()
        return self._profile_recent

    @profile_recent.setter
    def profile_recent(self, state: dict) -> None:
        self._profile_recent = state

    @property
    def profile_keys(self) -> dict:
        self._settle()
        return self._profile_keys

    @profile_keys.setter
    def profile_keys(self, states: dict) -> None:
        self._profile_keys = states

    def cycle_profile(self) -> None:
        super().cycle_profile()
        spent, self._seen_seconds = self._seen_seconds, 0.0
        self.digest_metric("profile-duration", spent)

    def get_call_stack(self, keys=None) -> dict:
        """As stock; but threads come and go without a lock here, so a copy is read."""
        active = self.active_threads.copy()
        stacks = _worker.stacks(list(active), sys.getrecursionlimit())
        return {active[ident]: [profile.repr_frame(frame) for frame in reversed(stack)]
                for ident, stack in stacks.items() if keys is None or active[ident] in keys}
