"""The default executor: stock's thread pool whose threads pull jobs from the native side.

Each pool thread runs a *pump*: take a job, run it, take the next. Because the threads belong to
`distributed.threadpoolexecutor`, stock's `secede()` and `rejoin()` work on them unchanged: a thread
that secedes leaves the pool and a pump starts on its replacement; a pump ends whenever its thread
is wanted back by the pool. Invariant: as many pumps as threads run or wait in the pool's queue.
"""

from __future__ import annotations

import logging
import threading

from distributed.metrics import context_meter
from distributed.threadpoolexecutor import ThreadPoolExecutor

logger = logging.getLogger("distributed.worker")


class _Local(threading.local):
    bound = False  # to a core or node
    pumping = False  # runs a job for a pump that nobody replaces


_local = _Local()


class JobPool(ThreadPoolExecutor):
    def __init__(self, nthreads: int, thread_name_prefix: str) -> None:
        super().__init__(nthreads, thread_name_prefix=thread_name_prefix)
        self.nthreads = nthreads
        self.execution = None

    def start_pumps(self, execution) -> None:
        self.execution = execution
        for _ in range(self.nthreads):
            super().submit(self._pump)

    def _adjust_thread_count(self) -> None:
        """Called by `secede()` on the thread that just left: a pump must run elsewhere instead."""
        super()._adjust_thread_count()
        if _local.pumping and threading.current_thread() not in self._threads:
            _local.pumping = False  # whatever becomes of this thread, it was replaced
            super().submit(self._pump)

    def submit(self, fn, *args, **kwargs):
        """Other work for the pool (rejoin, benchmarks): make a pump let go of its thread."""
        future = super().submit(fn, *args, **kwargs)
        if self.execution is not None:
            super().submit(self._pump)
            self.execution.runtime.interrupt_executor()
        return future

    def _pump(self) -> None:
        with context_meter.add_callback(self.execution.worker.on_metric):
            self._run_jobs(self.execution.runtime)

    def _run_jobs(self, runtime) -> None:
        self._pin(runtime)
        while (job := runtime.next_job()) is not None:
            _local.pumping = True
            try:
                self.execution.run(job)
            except BaseException:  # a bug of ours: the thread must survive it
                logger.exception("Executor failed outside the task")
            del job
            if not _local.pumping:
                return
            _local.pumping = False
            if self._rejoin_list:
                super().submit(self._pump)
                return

    @staticmethod
    def _pin(runtime) -> None:
        """Binds the thread once; a machine that refuses is no reason not to work."""
        if _local.bound:
            return
        _local.bound = True
        try:
            runtime.pin_executor()
        except RuntimeError as error:
            logger.warning("%s", error)
