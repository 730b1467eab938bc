"""The start of a worker: options for the native side, listening, registration.

Answers to: distributed/worker.py, Worker.start_unsafe and _register_with_scheduler.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import signal
import threading
import weakref

import dask
import msgpack
from dask.utils import format_bytes, parse_bytes, parse_timedelta
from distributed.comm import get_address_host, get_address_host_port
from distributed.comm.addressing import address_from_user_args
from distributed.core import Status
from distributed.http import get_handlers
from distributed.metrics import time
from distributed.node import ServerNode
from distributed.proctitle import setproctitle
from distributed.utils import get_ip, parse_ports
from distributed.versions import get_versions
from distributed.worker import WORKER_ANY_RUNNING, enable_gc_diagnosis

from rask._native import _worker
from rask.worker.execute import Execution
from rask.worker.pack_thread import pack_loop
from rask.worker.service import Service

logger = logging.getLogger("distributed.worker")

#: Periodic work of a stock worker that is native here; "tick" measures a loop that matters less.
NATIVE_CALLBACKS = ("heartbeat", "keep-alive", "find-missing", "memory_monitor", "tick", "ticks")

LONGEST_CLOSE = 30  # seconds


class Startup:
    async def start_unsafe(self):
        await ServerNode.start_unsafe(self)
        enable_gc_diagnosis()
        self.thread_id = threading.get_ident()
        self._start_http()
        self.runtime = _worker.Runtime(await self._native_options())
        atexit.register(self.runtime.leave)
        leave_forked_children(self.runtime)
        self.data.attach(self.runtime)
        self.state.attach(self.runtime)
        self.memory_manager.attach(self.runtime)
        self._service = Service(self)
        self._service.start()
        threading.Thread(target=pack_loop, args=(self,), name="rask-pack", daemon=True).start()
        self._listen()
        await self.preloads.start()
        self._log_start()
        for plugin in self._pending_plugins:
            await self.plugin_add(plugin=plugin, catch_errors=False)
        self._pending_plugins = ()
        self._follow_plugins()
        await self._register()
        self.executors["default"].start_pumps(Execution(self))
        for name in NATIVE_CALLBACKS:
            self.periodic_callbacks.pop(name, None)
        if (profile := self.periodic_callbacks.pop("profile", None)) is not None:
            self.sample_every(profile.callback_time / 1000)
        self.start_periodic_callbacks()
        self._guard = asyncio.create_task(self._close_with_loop())
        return self

    async def _close_with_loop(self) -> None:
        """A signal ends the command's event loop, and that cancels this: plugins and preloads are torn down.

        Unlike stock nobody waits for what runs: its result could reach nobody any more.
        """
        try:
            await self.finished()
        except asyncio.CancelledError:
            if self.status in WORKER_ANY_RUNNING:  # else whoever closes it was cancelled too
                closing = self.close(executor_wait=False, nanny=False, reason="event-loop-ends")
                await asyncio.wait_for(closing, LONGEST_CLOSE)
            raise

    def _start_http(self) -> None:
        """The worker's web server is stock's, on the service loop."""
        self._start_address = address_from_user_args(
            host=self._start_host,
            port=0,
            interface=self._interface,
            protocol=self._protocol,
            security=self.security,
        )
        for address in (self._start_address, self.scheduler.address):
            refuse_unless_tcp(address)
        get_address_host_port(self.scheduler.address, strict=True)  # raises if it cannot be one
        modules = dask.config.get("distributed.worker.http.routes")
        routes = get_handlers(server=self, modules=modules, prefix=self._http_prefix)
        self.start_http_server(routes, self._dashboard_address)
        if not self._dashboard:
            return
        try:
            from distributed.dashboard.worker import connect
        except ImportError:
            logger.debug("To start diagnostics web server please install Bokeh")
        else:
            connect(self.http_application, self.http_server, self, prefix=self._http_prefix)

    async def _native_options(self) -> dict:
        manager = self.memory_manager
        memory = "distributed.worker.memory."
        pin = os.environ.get("RASK_WORKER_PIN", "none")
        extra = await self.get_startup_information()
        extra.update(msgpack.loads(_worker.topology(pin)))
        options = {
            "id": self.id,
            "scheduler_address": self.scheduler.address,
            "contact_address": self.contact_address or "",
            "nthreads": self.state.nthreads,
            **{f"memory_{name}": value for name, value in manager.bounds().items()},
            "memory_transfer": float(dask.config.get(memory + "transfer") or 0),
            "max_spill": int(parse_bytes(dask.config.get(memory + "max-spill") or 0)),
            "memory_monitor_seconds": float(manager.memory_monitor_interval),
            "resources": [(k, float(v)) for k, v in self.state.total_resources.items()],
            "local_directory": self.local_directory,
            "nanny_address": self.nanny if isinstance(self.nanny, str) else "",
            "versions": msgpack.dumps(get_versions()),
            "extra": msgpack.dumps(extra, default=str),
            "heartbeat_seconds": self.heartbeat_interval,
            "connect_timeout_seconds": float(
                parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"), default="seconds")
            ),
            "incoming_connections": self.transfer_outgoing_count_limit or 1_000_000,
            "outgoing_connections": self.state.transfer_incoming_count_limit,
            "message_bytes_limit": int(self.state.transfer_message_bytes_limit),
            "story_lines": dask.config.get("distributed.admin.low-level-log-length") or 0,
            "pin": pin,
            "services": list(self.service_ports.items()),
        }
        options.update(self._addresses())
        if self.name is not None:
            options["name"] = msgpack.dumps(self.name)
        return options

    def _addresses(self) -> dict:
        """Where to listen, and how others call us if that is everywhere."""
        everywhere = self._start_address == "tcp://"  # stock's word for no --host, which it cannot take apart
        host = "" if everywhere else get_address_host_port(self._start_address, strict=False)[0]
        if host in ("", "0.0.0.0"):
            return {"contact_host": get_ip(get_address_host(self.scheduler.address))}
        return {"listen_host": host}

    def _listen(self) -> None:
        ports = parse_ports(self._start_port)
        for port in ports:
            try:
                self.runtime.listen(port or 0)
                break
            except RuntimeError as error:
                if port == ports[-1]:
                    raise OSError(errno.EADDRINUSE, str(error)) from None
        self._address = self.runtime.address
        self.contact_address = self.contact_address or self._address
        self.ip = get_address_host(self._address)
        if self.name is None:
            self.name = self._address
        self.state.address = self._address

    def _log_start(self) -> None:
        logger.info("      Start worker at: %26s", self.address)
        logger.info("         Listening to: %26s", self.address)
        if self.name != self.address_safe:
            logger.info("          Worker name: %26s", self.name)
        for name, port in self.service_ports.items():
            logger.info("  %16s at: %26s", name, f"{self.ip}:{port}")
        logger.info("Waiting to connect to: %26s", self.scheduler.address)
        logger.info("-" * 49)
        logger.info("              Threads: %26d", self.state.nthreads)
        if self.memory_manager.memory_limit:
            logger.info("               Memory: %26s", format_bytes(self.memory_manager.memory_limit))
        logger.info("      Local Directory: %26s", self.local_directory)
        setproctitle(f"rask worker [{self.address}]")

    async def _register(self) -> None:
        """Tries until there is a scheduler; `--death-timeout` ends it from outside."""
        while True:
            try:
                start = time()
                reply = await self._service.register()
                break
            except OSError:
                logger.info("Waiting to connect to: %26s", self.scheduler.address)
                await asyncio.sleep(0.1)
        if reply.get("warning"):
            logger.warning(reply["warning"])
        self.scheduler_delay = reply["time"] - (start + time()) / 2
        for name, plugin in reply["worker-plugins"].items():
            await self.plugin_add(plugin=plugin, name=name)
        self.runtime.run()
        ServerNode.status.__set__(self, Status.running)
        logger.info("        Registered to: %26s", self.scheduler.address)
        logger.info("-" * 49)


def refuse_unless_tcp(address: str) -> None:
    scheme = address.partition("://")[0]
    if scheme == "tls":
        raise NotImplementedError("rask workers cannot encrypt yet: use tcp://, or dask worker")
    if scheme != "tcp":
        raise NotImplementedError(f"rask workers speak tcp://, not {scheme}://: use dask worker")


def leave_forked_children(runtime) -> None:
    """A child made by multiprocessing must not speak on this worker's connections."""
    found = weakref.ref(runtime)

    def call(name: str) -> None:
        if (alive := found()) is not None:
            getattr(alive, name)()

    def in_child() -> None:
        call("after_fork_in_child")
        # The worker's command catches these signals; a child must die of them, or whoever ends it
        # (multiprocessing.Pool does so once, and then waits) waits for ever.
        for number in (signal.SIGINT, signal.SIGTERM):
            if getattr(signal.getsignal(number), "__module__", "") == "distributed._signals":
                signal.signal(number, signal.SIG_DFL)

    os.register_at_fork(
        before=lambda: call("before_fork"),
        after_in_parent=lambda: call("after_fork_in_parent"),
        after_in_child=in_child,
    )
