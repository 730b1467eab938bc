"""Runs one task on the calling thread and hands the outcome to the native side.

What user code can see is stock's: `get_worker()`, `thread_state`, the active span, exceptions and
tracebacks as `error_message` packs them. What differs is who waits for whom: nothing here waits
for an event loop, and the loop that speaks to the cluster never waits for this thread.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import sys
import threading
from types import FunctionType

import dask
from distributed.actor import Actor
from distributed.exceptions import Reschedule
from distributed.metrics import time
from distributed.protocol import pickle
from distributed.sizeof import safe_sizeof as sizeof
from distributed.worker import _worker_cvar, thread_state

from rask.errors import message_of
from rask.worker.functions import load_spec_pickle
from rask.worker.lazy import lazy_inputs
from rask.worker.packing import SIMPLE_TYPES, describe_type, own, pack, pack_if_cheap, unpack

logger = logging.getLogger("distributed.worker")

LARGEST = 1 << 62  # bytes of a value
LONG_LOAD = 0.001  # seconds; inputs that took longer to load are kept out of the task's CPU time


def load_spec(job):
    """The task's graph node. The native side hands over the pickle in up to two pieces."""
    spec = job.spec()
    if isinstance(spec[0], int):
        return unpack(spec)
    own, tail, buffers = spec
    if tail is not None:
        own = b"".join((own, tail))
    return load_spec_pickle(own, buffers)


def load_inputs(job, worker, spec) -> dict:
    """The task's dependencies as live objects, or as what stands for them until they are needed."""
    if job.lazy:
        return lazy_inputs(job, spec, load_annotations(job)["rask"]["lazy"], worker)
    data = {}
    for key, value_id, live, value, actor in job.inputs():
        if actor:
            value = Actor(type(worker.state.actors[key]), worker.address, key, worker)
        elif not live:
            value = revive(worker.runtime, value_id, value)
        data[key] = value
    return data


def revive(runtime, value_id: int, payload):
    """The value of a payload; from now on the worker holds it alive."""
    value = unpack(payload)
    runtime.set_live(value_id, value, payload[2])
    return value


def load_annotations(job) -> dict:
    payload = job.annotations()
    return unpack(payload) if payload is not None else {}


def is_coroutine(spec) -> bool:
    """`spec.is_coro`, with a short way for plain functions."""
    func = getattr(spec, "func", None)
    if type(func) is FunctionType and not func.__dict__:
        return bool(func.__code__.co_flags & inspect.CO_COROUTINE)
    return spec.is_coro


class Execution:
    """Everything a thread needs to run jobs of one worker; one per worker."""

    def __init__(self, worker) -> None:
        self.worker = worker
        self.runtime = worker.runtime
        self.active_threads = worker.active_threads
        self.jobs = worker.jobs

    def run(self, job) -> None:
        """Runs a job, start to end, on a thread of a pool."""
        begun = start = time()
        spec = None
        try:
            spec = load_spec(job)
            data = load_inputs(job, self.worker, spec) if job.has_inputs else {}
            coroutine = is_coroutine(spec)
        except BaseException as error:  # the task could not even be started
            self.fail(job, error, start, time(), None)
            return
        if coroutine:
            self.worker.run_coroutine_job(job, spec, data)
            return
        ident = threading.get_ident()
        # Single operations on a dict need no lock, and whoever reads it copies it first.
        self.active_threads[ident] = thread_state.key = job.key
        self.jobs[ident] = job
        thread_state.execution_state = self.worker.execution_state
        token = _worker_cvar.set(self.worker)
        thread_state.start_time = start = time()
        if start - begun > LONG_LOAD:
            self.runtime.skip_cpu()
        try:
            if job.annotated:
                with self.span(job):
                    value = spec(data)
            else:
                value = spec(data)
        except BaseException as error:
            # Handed on, not raised again: the exception must not gain a context of ours.
            failure = error
        else:
            failure = None
        stop = time()
        if job.lazy and job.spoiled:
            failure = Reschedule()
        _worker_cvar.reset(token)
        del self.active_threads[ident], self.jobs[ident], data
        if failure is None:
            self.finish(job, value, start, stop)
        else:
            self.fail(job, failure, start, stop, spec)

    @staticmethod
    def span(job):
        annotations = load_annotations(job)
        if "span" in annotations:
            return dask.annotate(span=annotations["span"])
        return contextlib.nullcontext()

    def finish(self, job, value, start: float, stop: float) -> None:
        value = own(value)
        kind = type(value)
        try:
            described = describe_type(kind)
            if job.actor:
                self.worker.state.actors[job.key] = value
                packed = None
            else:
                packed = pack_if_cheap(value)
            nbytes = sys.getsizeof(value) if kind in SIMPLE_TYPES else measure(value)
        except BaseException as error:
            self.fail(job, error, start, stop, None)
            return
        self.runtime.finished(
            job, value, nbytes, packed, described, start, stop, threading.get_ident()
        )

    def fail(self, job, error: BaseException, start: float, stop: float, spec) -> None:
        if isinstance(error, Reschedule):
            self.runtime.rescheduled(job)
            return
        try:
            message = describe_failure(job, error, spec)
        except Exception as second:  # raised by a __repr__: as in stock, it takes the place of the first
            message = describe_error(second)
        self.runtime.failed(job, *error_payloads(message), start, stop, threading.get_ident())


def measure(value) -> int:
    """`sizeof`, but whatever somebody registered for a type, it is a number of bytes."""
    return min(max(int(sizeof(value)), 0), LARGEST)


def describe_failure(job, error: BaseException, spec):
    message = describe_error(error)
    logger.error(
        "Compute Failed\nKey:       %s\nState:     executing\nTask:  %s\n"
        "Exception: %r\nTraceback: %r\n",
        job.key,
        repr(spec)[:1000],
        message["exception_text"],
        message["traceback_text"],
    )
    return message


def describe_error(error: BaseException):
    """Stock's error message, with a traceback that begins in the user's code.

    Stock strips its own leading frames by file name; ours are stripped here. The exception is
    raised once more because `error_message` asks for the one being handled.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    try:
        raise error
    except BaseException as raised:
        raised.__traceback__ = trace
        message = message_of(raised)
    # For a traceback that cannot be pickled (a very deep one) stock sends its text, which stock's
    # client does not understand and waits for ever.
    packed = message["traceback"]
    if packed is not None and packed.data == pickle.dumps(message["traceback_text"]):
        message["traceback"] = None
    return message


def error_payloads(message) -> tuple:
    """(exception, traceback, exception_text, traceback_text) of an error message, packed."""
    traceback = message["traceback"]
    return (
        pack(message["exception"].data)[0],
        pack(traceback.data)[0] if traceback is not None else None,
        message["exception_text"],
        message["traceback_text"],
    )
