"""`Worker.state`: what plugins, dumps and user code read of a worker's state machine.

The machine itself is native. This is stock's class, kept for its attributes (nthreads, address,
actors, resources, plugins); what moves is read from the native side when asked for, as snapshots:
changing a TaskState found here changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from distributed._stories import worker_story
from distributed.worker_state_machine import TaskState, WorkerState

from rask.worker.packing import unpack


def task_state(found: dict) -> TaskState:
    """A stock TaskState with what the native side says about a task."""
    ts = TaskState(found["key"], state=found["state"], run_id=found["run_id"])
    ts.priority = found["priority"]
    ts.nbytes = found["nbytes"]
    ts.who_has = set(found["who_has"])
    ts.resource_restrictions = dict(found["resource_restrictions"])
    annotations = found["annotations"]
    ts.annotations = unpack(annotations) if annotations is not None else {}
    for name in ("dependencies", "dependents", "waiting_for_data"):
        setattr(ts, name, {TaskState(key) for key in found[name]})
    return ts


class NativeTasks(Mapping):
    """`state.tasks`: key -> TaskState, made on access."""

    def __init__(self, runtime) -> None:
        self.runtime = runtime

    def __getitem__(self, key) -> TaskState:
        found = self.runtime.task(key)
        if found is None:
            raise KeyError(key)
        return task_state(found)

    def __iter__(self) -> Iterator:
        return iter(self.runtime.tasks())

    def __len__(self) -> int:
        return sum(self.runtime.counts().values())

    def __reduce__(self):
        return dict, (dict(self),)


def _in_state(*names: str) -> property:
    """All tasks in these states."""

    def read(self) -> set[TaskState]:
        tasks = self.tasks.values() if self.runtime is not None else ()
        return {ts for ts in tasks if ts.state in names}

    def ignore(self, value) -> None:
        """Stock's constructor makes an empty set here; there is nothing to keep."""

    return property(read, ignore)


def native_level(name: str) -> property:
    """A number the native side keeps."""

    def read(self) -> int:
        return self.runtime.levels()[name] if self.runtime is not None else 0

    def ignore(self, value) -> None:
        """Stock's constructor begins with 0."""

    return property(read, ignore)


class NativeCounter:
    """`state.task_counter`: how many tasks are in which state, counted when asked."""

    def __init__(self, state: NativeState) -> None:
        self.state = state

    def current_count(self, by_prefix: bool = True) -> Counter:
        if not by_prefix:
            return Counter({name: n for name, n in self.state.runtime.counts().items() if n})
        return Counter((ts.prefix, ts.state) for ts in self.state.tasks.values())


class NativeState(WorkerState):
    runtime = None

    def attach(self, runtime) -> None:
        self.runtime = runtime
        self.tasks = NativeTasks(runtime)
        self.task_counter = NativeCounter(self)

    executing = _in_state("executing")
    long_running = _in_state("long-running")
    waiting = _in_state("waiting")
    ready = _in_state("ready")
    constrained = _in_state("constrained")
    in_flight_tasks = _in_state("flight")
    missing_dep_flight = _in_state("missing")

    def _count(self, *names: str) -> int:
        counts = self.runtime.counts() if self.runtime is not None else {}
        return sum(counts.get(name, 0) for name in names)

    nbytes = native_level("nbytes")
    executed_count = native_level("executed_count")
    transfer_incoming_count = native_level("transfer_incoming_count")
    transfer_incoming_bytes = native_level("transfer_incoming_bytes")
    transfer_incoming_count_total = native_level("transfer_incoming_count_total")

    @property
    def available_resources(self) -> dict[str, float]:
        return dict(self.runtime.available_resources()) if self.runtime is not None else {}

    @available_resources.setter
    def available_resources(self, value) -> None:
        """Stock's constructor fills in the totals."""

    @property
    def executing_count(self) -> int:
        return self._count("executing")

    @property
    def in_flight_tasks_count(self) -> int:
        return self._count("flight")

    @property
    def log(self) -> list[tuple]:
        """The last transitions, in the form of stock's log."""
        if self.runtime is None:
            return []
        return [
            (key, start, finish, finish, {}, stimulus, time)
            for key, start, finish, stimulus, time in self.runtime.story()
        ]

    @log.setter
    def log(self, value) -> None:
        """Stock's constructor makes an empty log."""

    def story(self, *keys_or_tasks_or_stimuli) -> list[tuple]:
        wanted = {e.key if isinstance(e, TaskState) else e for e in keys_or_tasks_or_stimuli}
        return worker_story(wanted, self.log)

    def _to_dict(self, *, exclude=()) -> dict:
        tasks = {key: ts._to_dict_no_nest() for key, ts in self.tasks.items()}
        info = {
            "address": self.address,
            "nthreads": self.nthreads,
            "data": dict.fromkeys(self.data),
            "tasks": tasks,
            "task_counts": self.runtime.counts() if self.runtime is not None else {},
            "log": self.log,
        }
        return {name: value for name, value in info.items() if name not in exclude}
