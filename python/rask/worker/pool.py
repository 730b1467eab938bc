"""The default executor: stock's thread pool whose threads pull jobs from the native side.

Each pool thread runs a *pump*: take a job, run it, take the next. Because the threads belong to
`distributed.threadpoolexecutor`, stock's `secede()` and `rejoin()` work on them unchanged: a thread
that secedes leaves the pool, its replacement gets a pump of its own; a pump ends whenever its
thread is wanted back by the pool.
"""

from __future__ import annotations

import logging
import threading
import time

from distributed.threadpoolexecutor import ThreadPoolExecutor

logger = logging.getLogger("distributed.worker")

_bound = threading.local()


class JobPool(ThreadPoolExecutor):
    def __init__(self, nthreads: int, thread_name_prefix: str) -> None:
        super().__init__(nthreads, thread_name_prefix=thread_name_prefix)
        self.nthreads = nthreads
        self.execution = None
        self._waiting: set[threading.Thread] = set()  # for a job, in native code

    def start_pumps(self, execution) -> None:
        self.execution = execution
        for _ in range(self.nthreads):
            super().submit(self._pump)

    def replace_pump(self) -> None:
        """A task seceded: its thread no longer pulls jobs, a fresh one does."""
        super().submit(self._pump)

    def submit(self, fn, *args, **kwargs):
        """Other work for the pool (rejoin, benchmarks): make a pump let go of its thread."""
        future = super().submit(fn, *args, **kwargs)
        if self.execution is not None:
            super().submit(self._pump)
            self.execution.runtime.interrupt_executor()
        return future

    def _pump(self) -> None:
        runtime = self.execution.runtime
        me = threading.current_thread()
        self._pin(runtime)
        while (job := self._next_job(runtime, me)) is not None:
            try:
                self.execution.run(job)
            except BaseException:  # a bug of ours: the thread must survive it
                logger.exception("Executor failed outside the task")
            del job
            if me not in self._threads:  # seceded and never came back
                return
            if self._rejoin_list:
                super().submit(self._pump)
                return

    def _next_job(self, runtime, me):
        self._waiting.add(me)
        try:
            return runtime.next_job()
        finally:
            self._waiting.discard(me)

    def leave_native_code(self, timeout: float) -> None:
        """Waits until no thread waits for a job any more; the runtime has been stopped."""
        deadline = time.monotonic() + timeout
        while self._waiting and time.monotonic() < deadline:
            time.sleep(0.001)

    @staticmethod
    def _pin(runtime) -> None:
        """Binds the thread once; a machine that refuses is no reason not to work."""
        if getattr(_bound, "done", False):
            return
        _bound.done = True
        try:
            runtime.pin_executor()
        except RuntimeError as error:
            logger.warning("%s", error)
