"""The service loop: what a worker does that is Python by nature, on asyncio's main thread.

The native side queues events and makes a descriptor readable; this drains them. Requests go to
the same `handlers` and `stream_handlers` dictionaries a stock worker has, so plugins that add to
them work unchanged. One request at a time per connection is the native side's rule, not ours.
"""

from __future__ import annotations

import asyncio
import inspect
import logging

from distributed.core import Status, _expects_comm
from distributed.protocol import dumps, loads
from distributed.utils import has_keyword

from rask.errors import message_of

logger = logging.getLogger("distributed.worker")


class Refused(ValueError):
    """The scheduler does not want this worker."""


class PeerStub:
    """Stands for the connection in handlers that want one; they only look at the address."""

    def __init__(self, peer_address: str) -> None:
        self.peer_address = peer_address

    def closed(self) -> bool:
        return False


class Service:
    def __init__(self, worker) -> None:
        self.worker = worker
        self.runtime = worker.runtime
        self.on_registered: asyncio.Future | None = None
        self._tasks: set[asyncio.Task] = set()
        self._act = {
            "request": lambda token, content: self._spawn(self._serve(token, *content)),
            "stream": lambda _, content: self._spawn(self._stream(content[0])),
            "job": lambda _, job: worker.run_named_job(job),
            "registered": lambda _, content: self._settle(_load(content[0])),
            "refused": lambda _, text: self._settle(Refused(text)),
            "unreachable": lambda _, text: self._settle(OSError(text)),
            "log": lambda _, text: logger.warning(text),
            "status": lambda _, name: worker.set_native_status(Status.lookup[name]),
            "heartbeat": lambda _, seconds: worker.on_heartbeat(seconds),
            "transitions": lambda _, seen: self._tell_plugins(seen),
            "actor_gone": lambda _, key: worker.state.actors.pop(key, None),
            "close": lambda _, reason: self._spawn(worker.close(reason=reason)),
        }

    def start(self) -> None:
        asyncio.get_running_loop().add_reader(self.runtime.service_fd(), self._drain)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self.runtime.service_fd())

    async def register(self) -> dict:
        """One attempt; gives the scheduler's answer or raises."""
        self.on_registered = asyncio.get_running_loop().create_future()
        self.runtime.start()
        return await self.on_registered

    def _settle(self, outcome) -> None:
        if self.on_registered is None or self.on_registered.done():
            return
        if isinstance(outcome, Exception):
            self.on_registered.set_exception(outcome)
        else:
            self.on_registered.set_result(outcome)

    def _drain(self) -> None:
        for kind, token, content in self.runtime.take_service_events():
            try:
                self._act[kind](token, content)
            except Exception:
                logger.exception("Worker service event %s failed", kind)

    def _tell_plugins(self, seen: list) -> None:
        for plugin in self.worker.watching_plugins():
            for key, start, finish, _, _ in seen:
                try:
                    plugin.transition(key, start, finish)
                except Exception:
                    logger.info("Plugin %s failed with exception", plugin, exc_info=True)

    def _spawn(self, coroutine) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, token: int, frames: list, peer: str) -> None:
        try:
            message = _load(frames)
        except Exception as error:
            self.runtime.reply(token, dumps(message_of(error, "uncaught-error")))
            return
        op = message.pop("op")
        serializers = message.pop("serializers", None)
        close = message.pop("close", False)
        message.pop("reply", None)
        try:
            result = await self._call(op, message, serializers, peer)
        except BaseException:  # of user code: whoever asked is not left waiting
            self.runtime.reply(token, [], True)
            raise
        if result == Status.dont_reply:
            return
        try:
            reply = dumps(result, serializers=serializers)
        except Exception as error:
            reply = dumps(message_of(error, "uncaught-error"))
        self.runtime.reply(token, reply, close)

    async def _call(self, op: str, message: dict, serializers, peer: str):
        worker = self.worker
        try:
            if op in worker.blocked_handlers:
                raise ValueError(
                    f"The {op!r} handler has been explicitly disallowed "
                    f"in {type(worker).__name__}, possibly due to security concerns."
                )
            handler = worker.handlers.get(op)
            if handler is None:
                logger.warning("No handler %s found in %s", op, type(worker).__name__)
                return None
            if serializers is not None and has_keyword(handler, "serializers"):
                message["serializers"] = serializers
            if _expects_comm(handler):
                result = handler(PeerStub(peer), **message)
            else:
                result = handler(**message)
            return await result if inspect.isawaitable(result) else result
        except Exception as error:
            logger.exception("Exception while handling op %s", op)
            return message_of(error, "uncaught-error")

    async def _stream(self, frames: list) -> None:
        message = _load(frames)
        op = message.pop("op")
        handler = self.worker.stream_handlers.get(op)
        if handler is None:
            await self.worker.close(reason=f"unknown stream op {op!r}")
            return
        result = handler(**message)
        if inspect.isawaitable(result):
            await result


def _load(frames: list):
    return loads([memoryview(frame) for frame in frames])
