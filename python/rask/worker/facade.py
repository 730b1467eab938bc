"""`rask.worker.Worker`: what `get_worker()` returns on a rask worker.

It *is* a `distributed.Worker` with all its attributes, so plugins, preloads, worker clients and
P2P shuffles find what they expect; but its state machine, connections, transfers, heartbeats and
spilling are native. Stock's constructor runs (it only fills in attributes, and following it keeps
us true to every release); stock's `start`, `handle_stimulus` and `batched_send` do not: those are
the places where work would enter or leave, and they lead to the native side.
"""

from __future__ import annotations

import asyncio
import logging
from inspect import isawaitable

import msgpack
from dask.system import CPU_COUNT
from distributed import Worker as StockWorker
from distributed import utils
from distributed.actor import Actor
from distributed.core import Status
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.node import ServerNode
from distributed.proctitle import setproctitle
from distributed.protocol import dumps, to_serialize
from distributed.worker import WORKER_ANY_RUNNING, disable_gc_diagnosis
from distributed.worker_state_machine import (
    PauseEvent,
    SecedeEvent,
    UnpauseEvent,
    UpdateDataEvent,
)

from rask.worker.data import NativeData
from rask.worker.functions import forget_functions
from rask.worker.heartbeat import Digests, offer
from rask.worker.memory import NativeMemory
from rask.worker.named import NamedJobs
from rask.worker.pool import JobPool
from rask.worker.profiling import Profiled
from rask.worker.startup import Startup
from rask.worker.state import NativeState, native_level

logger = logging.getLogger("distributed.worker")

#: Ops the native side answers itself unless Python claims them.
NATIVE_OPS = ("get_data", "ping", "identity", "keys", "versions", "free_keys")


class Worker(Startup, NamedJobs, Profiled, Digests, StockWorker):
    def __init__(self, scheduler_ip=None, *args, nthreads=None, name=None, **kwargs):
        nthreads = nthreads or CPU_COUNT
        prefix = f"{name}-" if name is not None else ""
        if kwargs.get("data") is not None:
            raise NotImplementedError("rask workers keep and spill values themselves: not in `data`")
        kwargs["data"] = NativeData()
        kwargs.setdefault("WorkerStateClass", NativeState)
        executors = kwargs.pop("executor", None) or {}
        if not isinstance(executors, dict) or "default" in executors:
            raise NotImplementedError("the default executor of rask workers is their own: name others")
        executors = {**executors, "default": JobPool(nthreads, f"{prefix}Dask-Default-Threads")}
        self.runtime = None
        self._service = None
        self.jobs = {}  # that run now, by thread
        super().__init__(
            scheduler_ip, *args, nthreads=nthreads, name=name, executor=executors, **kwargs
        )
        self.memory_manager.__class__ = NativeMemory  # stock's constructor names its own class
        self._stock_handlers = {op: self.handlers.get(op) for op in NATIVE_OPS}

    # ---- the end --------------------------------------------------------------------------------

    async def close(self, timeout=30, executor_wait=True, nanny=True, reason="worker-close"):
        if self.status in (Status.closed, Status.closing, Status.failed):
            await self.finished()
            return None
        starting = self.status == Status.init
        disable_gc_diagnosis()
        logger.info("Stopping worker at %s. Reason: %s", self._address, reason)
        if self.runtime is not None and self._address and not starting:
            self.log_event(self.address, {"action": "closing-worker", "reason": reason})
        ServerNode.status.__set__(self, Status.closing)
        setproctitle("rask worker [closing]")
        if self.runtime is not None:
            self.runtime.set_status("closing")
        if nanny and self.nanny and not starting:
            async with self.rpc(self.nanny) as r:
                await r.close_gracefully(reason=reason)
        try:
            await self._close_python_side()
        except Exception:  # of a preload or an extension: the worker must end all the same
            logger.exception("Failed to tear down")
        if self.runtime is not None:
            if self._service is not None:
                self._service.stop()
            await asyncio.to_thread(self.runtime.stop)
        await self._close_executors(timeout, executor_wait)
        self.stop()
        ServerNode.status.__set__(self, Status.closed)
        setproctitle("rask worker [closed]")
        await ServerNode.close(self)
        return "OK"

    async def _close_python_side(self) -> None:
        for name in list(self.plugins):
            await self.plugin_remove(name)
        for extension in self.extensions.values():
            if hasattr(extension, "close"):
                result = extension.close()
                if isawaitable(result):
                    await result
        await self.preloads.teardown()
        for callback in self.periodic_callbacks.values():
            callback.stop()
        self.stop_sampling()
        if self._client:
            self._client._asynchronous = True
            if self._client.asynchronous:
                await self._client.close()
        await self._stop_http_server()
        await self.rpc.close()

    async def _stop_http_server(self) -> None:
        if hasattr(self, "_stop_services"):
            await self._stop_services()
        else:  # older releases: the plain call does not wait for the loop it is made on
            self.stop_services()

    async def _close_executors(self, timeout: float, wait: bool) -> None:
        """As stock: running tasks are waited for, but not longer than `timeout`."""
        for executor in self.executors.values():
            if executor is utils._offload_executor:
                continue
            if isinstance(executor, JobPool) or hasattr(executor, "_rejoin_list"):
                await asyncio.to_thread(executor.shutdown, wait=wait, timeout=timeout)
            else:
                await asyncio.to_thread(executor.shutdown, wait=wait)

    # ---- where stock's state machine would be -----------------------------------------------

    def batched_send(self, msg) -> None:
        if self.runtime is not None:
            self.runtime.send_to_scheduler(dumps(msg))

    def handle_stimulus(self, *stims) -> None:
        for event in stims:
            if isinstance(event, SecedeEvent):
                self.runtime.seceded(event.key, event.compute_duration)
            elif isinstance(event, UpdateDataEvent):
                self.data.update(event.data)
            elif isinstance(event, (PauseEvent, UnpauseEvent)):
                pass  # the status said so already
            else:
                raise TypeError(f"{type(event).__name__} is handled by the native worker")

    @ServerNode.status.setter
    def status(self, value: Status) -> None:
        """Set by user code; what the native side decides comes in by set_native_status."""
        ServerNode.status.__set__(self, value)
        if self.runtime is not None and value in WORKER_ANY_RUNNING:
            self.state.running = value == Status.running
            self.runtime.set_status(value.name)

    def set_native_status(self, status: Status) -> None:
        """The native side changed status (paused, running, closing_gracefully) and said so."""
        if self._status in WORKER_ANY_RUNNING and status != self._status:
            ServerNode.status.__set__(self, status)
            self.state.running = status == Status.running

    async def set_resources(self, **resources: float) -> None:
        self.runtime.set_resources([(name, float(amount)) for name, amount in resources.items()])
        await super().set_resources(**resources)

    transfer_outgoing_count = native_level("transfer_outgoing_count")
    transfer_outgoing_bytes = native_level("transfer_outgoing_bytes")
    transfer_outgoing_count_total = native_level("transfer_outgoing_count_total")
    transfer_outgoing_bytes_total = native_level("transfer_outgoing_bytes_total")
    bandwidth = native_level("bandwidth")

    async def get_data(self, keys, who=None, serializers=None) -> dict:
        """Only if the asker named serializers, or a plugin took this op: else it is native."""
        held = {key: self.data[key] for key in keys if key in self.data}
        for key in held.keys() & self.state.actors.keys():
            held[key] = Actor(type(self.state.actors[key]), self.address, key, worker=self)
        return {"status": "OK", "data": {key: to_serialize(value) for key, value in held.items()}}

    # ---- heartbeats ---------------------------------------------------------------------------

    def on_heartbeat(self, clock_ahead: float) -> None:
        """The scheduler answered a heartbeat: leave what the next one should carry."""
        self.scheduler_delay = clock_ahead
        self._ongoing_background_tasks.call_soon(offer, self)

    async def get_metrics(self) -> dict:
        if self.runtime is None:
            return await super().get_metrics()
        return msgpack.loads(self.runtime.metrics(), strict_map_key=False)

    # ---- plugins ------------------------------------------------------------------------------

    async def upload_file(self, *args, **kwargs):
        forget_functions()
        return await super().upload_file(*args, **kwargs)

    async def plugin_add(self, plugin, name=None, catch_errors=True):
        forget_functions()
        answer = await super().plugin_add(plugin, name=name, catch_errors=catch_errors)
        self._follow_plugins()
        return answer

    async def plugin_remove(self, name: str):
        answer = await super().plugin_remove(name)
        self._follow_plugins()
        return answer

    def watching_plugins(self) -> list:
        """Plugins that want to hear of transitions."""
        quiet = (None, WorkerPlugin.transition)
        plugins = list(self.plugins.values())
        return [p for p in plugins if getattr(type(p), "transition", None) not in quiet]

    def _follow_plugins(self) -> None:
        """Tells the native side what plugins (or configuration) took out of its hands."""
        if self.runtime is None or not self._address:
            return
        self.runtime.watch_transitions(bool(self.watching_plugins()))
        for op, handler in self._stock_handlers.items():
            if self.handlers.get(op) != handler or op in self.blocked_handlers:
                self.runtime.claim_op(op)
