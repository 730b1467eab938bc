"""`rask.worker.Worker`: what `get_worker()` returns on a rask worker.

It *is* a `distributed.Worker` with all its attributes, so plugins, preloads, worker clients and
P2P shuffles find what they expect; but its state machine, connections, transfers, heartbeats and
spilling are native. Stock's constructor runs (it only fills in attributes, and following it keeps
us true to every release); stock's `start`, `handle_stimulus` and `batched_send` do not: those are
the places where work would enter or leave, and they lead to the native side.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref

import msgpack
from dask.system import CPU_COUNT
from dask.utils import format_bytes
from distributed import Worker as StockWorker
from distributed.comm import get_address_host
from distributed.core import Status
from distributed.metrics import time
from distributed.node import ServerNode
from distributed.proctitle import setproctitle
from distributed.protocol import dumps
from distributed.utils import get_ip, parse_ports
from distributed.versions import get_versions
from distributed.worker import (
    WORKER_ANY_RUNNING,
    _run_task_async,
    _run_task_simple,
    _worker_cvar,
)
from distributed.worker_state_machine import SecedeEvent, UpdateDataEvent
from tornado.ioloop import PeriodicCallback

from rask._native import _worker
from rask.worker.data import NativeData
from rask.worker.execute import Execution, load_annotations, load_inputs, load_spec
from rask.worker.pack_thread import pack_loop
from rask.worker.pool import JobPool
from rask.worker.service import Service
from rask.worker.state import NativeState

logger = logging.getLogger("distributed.worker")


class Worker(StockWorker):
    def __init__(self, scheduler_ip=None, *args, nthreads=None, name=None, **kwargs):
        nthreads = nthreads or CPU_COUNT
        prefix = f"{name}-" if name is not None else ""
        kwargs.setdefault("data", NativeData())
        kwargs.setdefault("WorkerStateClass", NativeState)
        kwargs["executor"] = {"default": JobPool(nthreads, f"{prefix}Dask-Default-Threads")}
        self.runtime = None
        super().__init__(scheduler_ip, *args, nthreads=nthreads, name=name, **kwargs)
        self._service: Service | None = None

    # ---- life -----------------------------------------------------------------------------------

    async def start_unsafe(self):
        await ServerNode.start_unsafe(self)
        self.thread_id = threading.get_ident()
        self.runtime = _worker.Runtime(self._native_options())
        atexit.register(self._leave_native_code)
        self.data.attach(self.runtime)
        self.state.attach(self.runtime)
        self._close_in_forked_children()
        self._service = Service(self)
        self._service.start()
        self._pack_thread = threading.Thread(
            target=pack_loop, args=(self,), name="rask-pack", daemon=True
        )
        self._pack_thread.start()
        await self.preloads.start()
        self.runtime.listen()
        self._address = self.runtime.address
        self.contact_address = self.contact_address or self._address
        self.ip = get_address_host(self._address)
        if self.name is None:
            self.name = self._address
        self.state.address = self._address
        self._log_start()
        await self._add_pending_plugins()
        await self._register()
        self.executors["default"].start_pumps(Execution(self))
        self._start_callbacks()
        return self

    def _native_options(self) -> dict:
        manager = self.memory_manager
        host = self._start_host or get_ip(get_address_host(self.scheduler.address))
        options = {
            "scheduler_address": self.scheduler.address,
            "listen_host": get_address_host(host) if "://" in host else host,
            "listen_port": parse_ports(self._start_port)[0] or 0,
            "contact_address": self.contact_address or "",
            "nthreads": self.state.nthreads,
            "memory_limit": manager.memory_limit or 0,
            "memory_target": float(manager.memory_target_fraction or 0),
            "memory_spill": float(manager.memory_spill_fraction or 0),
            "memory_pause": float(manager.memory_pause_fraction or 0),
            "resources": [(k, float(v)) for k, v in self.state.total_resources.items()],
            "local_directory": self.local_directory,
            "nanny_address": self.nanny if isinstance(self.nanny, str) else "",
            "versions": msgpack.dumps(get_versions()),
            "id": self.id,
            "heartbeat_seconds": self.heartbeat_interval,
            "incoming_connections": self.transfer_outgoing_count_limit,
            "outgoing_connections": self.state.transfer_incoming_count_limit,
            "message_bytes_limit": int(self.state.transfer_message_bytes_limit),
            "pin": os.environ.get("RASK_WORKER_PIN", "none"),
        }
        if self.name is not None:
            options["name"] = msgpack.dumps(self.name)
        return options

    def _leave_native_code(self) -> None:
        """At exit: no native thread may outlive the interpreter, and no thread of Python's may wait
        in native code while it ends (the interpreter would tear it down there)."""
        self.runtime.stop()
        self._pack_thread.join(timeout=2)
        self.executors["default"].leave_native_code(timeout=2)

    def _close_in_forked_children(self) -> None:
        """A child made by multiprocessing must not speak on this worker's connections."""
        runtime = weakref.ref(self.runtime)

        def close() -> None:
            if (alive := runtime()) is not None:
                alive.after_fork_in_child()

        os.register_at_fork(after_in_child=close)

    def _log_start(self) -> None:
        logger.info("      Start worker at: %26s", self.address)
        logger.info("         Listening to: %26s", self.address)
        if self.name != self.address_safe:
            logger.info("          Worker name: %26s", self.name)
        logger.info("Waiting to connect to: %26s", self.scheduler.address)
        logger.info("-" * 49)
        logger.info("              Threads: %26d", self.state.nthreads)
        if self.memory_manager.memory_limit:
            logger.info("               Memory: %26s", format_bytes(self.memory_manager.memory_limit))
        logger.info("      Local Directory: %26s", self.local_directory)
        setproctitle(f"rask worker [{self.address}]")

    async def _add_pending_plugins(self) -> None:
        for plugin in self._pending_plugins:
            await self.plugin_add(plugin=plugin, catch_errors=False)
        self._pending_plugins = ()

    async def _register(self) -> None:
        self.runtime.start()
        reply = await self._service.on_registered
        self.scheduler_delay = reply["time"] - time()
        for name, plugin in reply["worker-plugins"].items():
            await self.plugin_add(plugin=plugin, name=name)
        self.runtime.run()
        ServerNode.status.__set__(self, Status.running)
        logger.info("        Registered to: %26s", self.scheduler.address)
        logger.info("-" * 49)

    def _start_callbacks(self) -> None:
        """Periodic work that stays in Python; heartbeats, memory and the like are native."""
        for name in ("heartbeat", "keep-alive", "find-missing", "memory_monitor"):
            self.periodic_callbacks.pop(name, None)
        self.periodic_callbacks["extensions"] = PeriodicCallback(self._post_extensions, 500)
        self.start_periodic_callbacks()

    def _post_extensions(self) -> None:
        """Leaves what extensions want in the heartbeat where the native side finds it."""
        extensions = {}
        for name, extension in self.extensions.items():
            if hasattr(extension, "heartbeat"):
                extensions[name] = extension.heartbeat()
        self.runtime.set_heartbeat_extensions(dumps(extensions)[0])

    async def close(
        self, timeout=30, executor_wait=True, nanny=True, reason="worker-close"
    ):
        if self.status in (Status.closed, Status.closing, Status.failed):
            await self.finished()
            return None
        logger.info("Stopping worker at %s. Reason: %s", self._address, reason)
        ServerNode.status.__set__(self, Status.closing)
        setproctitle("rask worker [closing]")
        if self.runtime is not None and self._address:
            self.log_event(self.address, {"action": "closing-worker", "reason": reason})
            self.runtime.announce_closing()
        if nanny and self.nanny:
            async with self.rpc(self.nanny) as r:
                await r.close_gracefully(reason=reason)
        for name in list(self.plugins):
            await self.plugin_remove(name)
        await self.preloads.teardown()
        for callback in self.periodic_callbacks.values():
            callback.stop()
        if self._client:
            self._client._asynchronous = True
            if self._client.asynchronous:
                await self._client.close()
        await self.rpc.close()
        if self.runtime is not None:
            if self._service is not None:
                self._service.stop()
            await asyncio.to_thread(self.runtime.stop)
        for executor in self.executors.values():
            executor.shutdown(wait=False)
        self.stop()
        ServerNode.status.__set__(self, Status.closed)
        setproctitle("rask worker [closed]")
        await ServerNode.close(self)
        return "OK"

    # ---- where stock's state machine would be -----------------------------------------------

    def batched_send(self, msg) -> None:
        if self.runtime is not None:
            self.runtime.send_to_scheduler(dumps(msg))

    def handle_stimulus(self, *stims) -> None:
        for event in stims:
            if isinstance(event, SecedeEvent):
                self.runtime.seceded(event.key, event.compute_duration)
                self.executors["default"].replace_pump()
            elif isinstance(event, UpdateDataEvent):
                self.data.update(event.data)
            else:
                raise TypeError(f"{type(event).__name__} is handled by the native worker")

    def set_native_status(self, status: Status) -> None:
        """The native side changed status (paused, running, closing_gracefully) and said so."""
        if self._status in WORKER_ANY_RUNNING and status != self._status:
            ServerNode.status.__set__(self, status)

    async def get_metrics(self) -> dict:
        return msgpack.loads(self.runtime.metrics(), strict_map_key=False)

    # ---- jobs that do not run on the default pool -------------------------------------------

    def run_coroutine_job(self, job, spec, data) -> None:
        """Called on an executor: the task is a coroutine and runs on the service loop."""
        self.loop.add_callback(self._start, self._await_coroutine(job, spec, data))

    def run_named_job(self, job) -> None:
        self._start(self._run_on_named_executor(job))

    def _start(self, coroutine) -> None:
        self._ongoing_background_tasks.call_soon(lambda: coroutine)

    async def _await_coroutine(self, job, spec, data) -> None:
        token = _worker_cvar.set(self)
        try:
            outcome = await _run_task_async(spec, data, self.scheduler_delay)
        finally:
            _worker_cvar.reset(token)
        self._deliver(job, spec, outcome)

    async def _run_on_named_executor(self, job) -> None:
        execution = Execution(self)
        start = time()
        spec = None
        try:
            data = load_inputs(job, self)
            spec = load_spec(job)
            name = load_annotations(job).get("executor", "default")
            if name not in self.executors:
                raise ValueError(
                    f"Invalid executor {name!r}; expected one of: {sorted(self.executors)}"
                )
            executor = self.executors[name]
            if spec.is_coro:
                await self._await_coroutine(job, spec, data)
            elif "ThreadPoolExecutor" in str(type(executor)):
                await self.loop.run_in_executor(executor, execution.run, job)
            else:
                outcome = await self.loop.run_in_executor(
                    executor, _run_task_simple, spec, data, self.scheduler_delay
                )
                self._deliver(job, spec, outcome)
        except Exception as error:
            execution.fail(job, error, start, time(), spec)

    def _deliver(self, job, spec, outcome: dict) -> None:
        execution = Execution(self)
        start = outcome["start"] - self.scheduler_delay
        stop = outcome["stop"] - self.scheduler_delay
        if outcome["op"] == "task-finished":
            execution.finish(job, outcome["result"], start, stop)
        else:
            execution.fail(job, outcome["actual_exception"], start, stop, spec)
