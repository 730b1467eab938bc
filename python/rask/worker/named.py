"""Jobs that do not run on the default pool: coroutines, and executors named by annotation.

Both are started by the service loop, as in stock; the native side only waits for their outcome.

Answers to: distributed/worker.py, Worker.execute.
"""

from __future__ import annotations

import asyncio

from distributed.metrics import time
from distributed.worker import _run_task_async, _run_task_simple, _worker_cvar

from rask.worker.execute import (
    Execution,
    is_coroutine,
    load_annotations,
    load_inputs,
    load_spec,
)


class NamedJobs:
    def run_coroutine_job(self, job, spec, data) -> None:
        """Called on an executor: the task is a coroutine and runs on the service loop."""
        self.loop.add_callback(self._start, self._await_coroutine, job, spec, data)

    def run_named_job(self, job) -> None:
        self._start(self._run_named, job)

    def _start(self, function, *args) -> None:
        self._ongoing_background_tasks.call_soon(function, *args)

    async def _await_coroutine(self, job, spec, data) -> None:
        token = _worker_cvar.set(self)
        start = time()
        try:
            with Execution.span(job):
                outcome = await _run_task_async(spec, data, 0)
        # Those that end a stock worker, and one that could not even be described.
        except (SystemExit, KeyboardInterrupt, Exception) as error:
            Execution(self).fail(job, error, start, time(), spec)
            return
        finally:
            _worker_cvar.reset(token)
        self._deliver(job, spec, outcome)

    async def _run_named(self, job) -> None:
        execution = Execution(self)
        start = time()
        spec = None
        try:
            name = load_annotations(job).get("executor", "default")
            if name not in self.executors:
                raise ValueError(
                    f"Invalid executor {name!r}; expected one of: {sorted(self.executors)}"
                )
            if not await asyncio.to_thread(self.runtime.read_inputs, job):
                return
            executor = self.executors[name]
            if "ThreadPoolExecutor" in str(type(executor)) or name == "default":
                await self.loop.run_in_executor(executor, execution.run, job)
                return
            spec = load_spec(job)
            data = load_inputs(job, self, spec)
            if is_coroutine(spec):
                await self._await_coroutine(job, spec, data)
            else:
                outcome = await self.loop.run_in_executor(
                    executor, _run_task_simple, spec, data, 0
                )
                self._deliver(job, spec, outcome)
        except Exception as error:
            execution.fail(job, error, start, time(), spec)

    def _deliver(self, job, spec, outcome: dict) -> None:
        execution = Execution(self)
        start, stop = outcome["start"], outcome["stop"]
        if outcome["op"] == "task-finished":
            execution.finish(job, outcome["result"], start, stop)
        else:
            execution.fail(job, outcome["actual_exception"], start, stop, spec)
