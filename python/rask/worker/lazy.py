"""Inputs that a task takes one at a time while it runs, each from wherever it is by then.

A task annotated `rask={"lazy": n}` gets its n-th argument, a list of results, as `LazyInput`s:
`_rask_load_()` gives the value. The blocks of a SplIter partition travel so
(python/rask/spliter/tasks.py); stock workers ignore the annotation and pass plain values.

Invariant: nothing here keeps a value. One that was on disk stays there unless there is room for it,
so a task may walk along more bytes than the worker's memory holds, and each is read once.
"""

from __future__ import annotations

from dask._task_spec import TaskRef
from distributed.actor import Actor
from distributed.exceptions import Reschedule

from rask.worker.packing import unpack


class LazyInput:
    __slots__ = ("_job", "_number", "_worker")

    def __init__(self, job, number: int, worker):
        self._job = job
        self._number = number
        self._worker = worker

    def _rask_load_(self):
        """The value. Raises Reschedule if it is lost: the task will run again elsewhere or later."""
        runtime = self._worker.runtime
        if (alive := runtime.live_input(self._job, self._number)) is not None:
            return alive[0]
        found = runtime.read_input(self._job, self._number)
        if found is None:
            raise Reschedule
        value_id, live, value, actor, from_disk = found
        if actor:
            key = self._job.input_keys()[self._number]
            return Actor(type(self._worker.state.actors[key]), self._worker.address, key, self._worker)
        if live:
            return value
        payload, value = value, unpack(value)
        (runtime.set_live_if_room if from_disk else runtime.set_live)(value_id, value, payload[2])
        return value


def lazy_inputs(job, spec, number: int, worker) -> dict:
    """The task's dependencies: those of its argument `number` alone as LazyInputs, others as values."""
    arguments = getattr(spec, "args", ())
    lazy, others = frozenset(), set()
    for place, argument in enumerate([*arguments, *getattr(spec, "kwargs", {}).values()]):
        found = [argument.key] if isinstance(argument, TaskRef) \
            else getattr(argument, "dependencies", ())
        if place == number < len(arguments):
            lazy = frozenset(found)  # no copy of what is one already
        else:
            others.update(found)
    keys = job.input_keys()
    if not others and len(lazy) == len(keys):  # the blocks of a partition, often many thousands
        return {key: LazyInput(job, place, worker) for place, key in enumerate(keys)}
    data = {}
    for place, key in enumerate(keys):
        handle = LazyInput(job, place, worker)
        data[key] = handle if key in lazy and key not in others else handle._rask_load_()
    return data
