"""Runs one task on the calling thread and hands the outcome to the native side.

What user code can see is stock's: `get_worker()`, `thread_state`, the active span, exceptions and
tracebacks as `error_message` packs them. What differs is who waits for whom: nothing here waits
for an event loop, and the loop that speaks to the cluster never waits for this thread.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import threading

import dask
from dask.sizeof import sizeof
from dask.utils import typename
from distributed.actor import Actor
from distributed.core import error_message
from distributed.exceptions import Reschedule
from distributed.metrics import time
from distributed.worker import _worker_cvar, dumps_function, thread_state

from rask.worker.packing import pack, pack_if_cheap, unpack

logger = logging.getLogger("distributed.worker")

_type_names: dict[type, tuple[str, bytes]] = {}


def describe_type(kind: type) -> tuple[str, bytes]:
    """The name and the pickle of a result's class, as task-finished carries them."""
    try:
        return _type_names[kind]
    except KeyError:
        described = typename(kind), dumps_function(kind)
        if len(_type_names) < 10_000:
            _type_names[kind] = described
        return described


def load_spec(job):
    """The task's graph node. The native side hands over the pickle in up to two pieces."""
    spec = job.spec()
    if isinstance(spec[0], int):
        return unpack(spec)
    own, tail, buffers = spec
    if tail is not None:
        own = b"".join((own, tail))
    return pickle.loads(own, buffers=buffers) if buffers else pickle.loads(own)


def load_inputs(job, worker) -> dict:
    """The task's dependencies as live objects."""
    data = {}
    for key, value_id, live, value, actor in job.inputs():
        if actor:
            value = Actor(type(worker.state.actors[key]), worker.address, key, worker)
        elif not live:
            value = unpack(value)
            worker.runtime.set_live(value_id, value)
        data[key] = value
    return data


def load_annotations(job) -> dict:
    payload = job.annotations()
    return unpack(payload) if payload is not None else {}


class Execution:
    """Everything a thread needs to run jobs of one worker; one per worker."""

    def __init__(self, worker) -> None:
        self.worker = worker
        self.runtime = worker.runtime

    def run(self, job) -> None:
        """Runs a job of the default pool, start to end."""
        start = time()
        spec = None
        try:
            data = load_inputs(job, self.worker)
            spec = load_spec(job)
        except BaseException as error:  # the task could not even be started
            self.fail(job, error, start, time(), None)
            return
        if spec.is_coro:
            self.worker.run_coroutine_job(job, spec, data)
            return
        value, error, start = self._call(job, spec, data)
        stop = time()
        del data
        if error is None:
            self.finish(job, value, start, stop)
        else:
            self.fail(job, error, start, stop, spec)

    def _call(self, job, spec, data):
        """Calls the task where `get_worker()` and friends work: (value, error, start)."""
        worker = self.worker
        ident = threading.get_ident()
        with worker.active_threads_lock:
            worker.active_threads[ident] = job.key
        thread_state.execution_state = worker.execution_state
        thread_state.key = job.key
        token = _worker_cvar.set(worker)
        thread_state.start_time = start = time()
        try:
            if job.annotated:
                with self._span(job):
                    return spec(data), None, start
            return spec(data), None, start
        except BaseException as error:
            # Handed on, not raised again: the exception must not gain a context of ours.
            return None, error, start
        finally:
            _worker_cvar.reset(token)
            with worker.active_threads_lock:
                del worker.active_threads[ident]

    @staticmethod
    def _span(job):
        annotations = load_annotations(job)
        if "span" in annotations:
            return dask.annotate(span=annotations["span"])
        return contextlib.nullcontext()

    def finish(self, job, value, start: float, stop: float) -> None:
        delay = self.worker.scheduler_delay
        type_name, type_pickle = describe_type(type(value))
        if job.actor:
            self.worker.state.actors[job.key] = value
            packed = None
        else:
            packed = pack_if_cheap(value)
        try:
            nbytes = sizeof(value)
        except Exception as error:
            self.fail(job, error, start, stop, None)
            return
        self.runtime.finished(
            job,
            value,
            nbytes,
            packed,
            type_name,
            type_pickle,
            start + delay,
            stop + delay,
            threading.get_ident(),
        )

    def fail(self, job, error: BaseException, start: float, stop: float, spec) -> None:
        if isinstance(error, Reschedule):
            self.runtime.rescheduled(job)
            return
        delay = self.worker.scheduler_delay
        message = describe_error(error)
        logger.error(
            "Compute Failed\nKey:       %s\nState:     executing\nTask:  %s\n"
            "Exception: %r\nTraceback: %r\n",
            job.key,
            repr(spec)[:1000],
            message["exception_text"],
            message["traceback_text"],
        )
        self.runtime.failed(
            job,
            *error_payloads(message),
            start + delay,
            stop + delay,
            threading.get_ident(),
        )


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
        return error_message(raised)


def error_payloads(message) -> tuple:
    """(exception, traceback, exception_text, traceback_text) of an error message, packed."""
    traceback = message["traceback"]
    return (
        pack(message["exception"].data),
        pack(traceback.data) if traceback is not None else None,
        message["exception_text"],
        message["traceback_text"],
    )
