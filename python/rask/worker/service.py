"""The service loop: what a worker does that is Python by nature, on asyncio's main thread.

The native side queues events and makes a descriptor readable; this drains them. Requests go to
the same `handlers` and `stream_handlers` dictionaries a stock worker has, so plugins that add to
them work unchanged. One request at a time per connection is the native side's rule, not ours.
"""

from __future__ import annotations

import asyncio
import inspect
import logging

from distributed.core import Status, _expects_comm, error_message
from distributed.protocol import dumps, loads
from distributed.utils import has_keyword

logger = logging.getLogger("distributed.worker")


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
        self.on_registered: asyncio.Future = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task] = set()

    def start(self) -> None:
        asyncio.get_running_loop().add_reader(self.runtime.service_fd(), self._drain)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self.runtime.service_fd())

    def _drain(self) -> None:
        for kind, token, frames, text, job in self.runtime.take_service_events():
            try:
                self._dispatch(kind, token, frames, text, job)
            except Exception:
                logger.exception("Worker service event %s failed", kind)

    def _dispatch(self, kind: str, token: int, frames: list, text: str, job) -> None:
        if kind == "request":
            self._spawn(self._serve(token, frames, text))
        elif kind == "stream":
            self._spawn(self._stream(frames))
        elif kind == "job":
            self.worker.run_named_job(job)
        elif kind == "registered":
            if not self.on_registered.done():
                self.on_registered.set_result(_load(frames))
        elif kind == "refused":
            if not self.on_registered.done():
                self.on_registered.set_exception(ValueError(f"Unexpected response from register: {text}"))
        elif kind == "log":
            logger.warning(text)
        elif kind == "status":
            self.worker.set_native_status(Status.lookup[text])
        elif kind == "close":
            self._spawn(self.worker.close(reason=text))

    def _spawn(self, coroutine) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, token: int, frames: list, peer: str) -> None:
        try:
            message = _load(frames)
        except Exception as error:
            self.runtime.reply(token, dumps(error_message(error, status="uncaught-error")))
            return
        op = message.pop("op")
        serializers = message.pop("serializers", None)
        close = message.pop("close", False)
        message.pop("reply", None)
        result = await self._call(op, message, serializers, peer)
        if result == Status.dont_reply:
            return
        try:
            reply = dumps(result, serializers=serializers)
        except Exception as error:
            reply = dumps(error_message(error, status="uncaught-error"))
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
            return error_message(error, status="uncaught-error")

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
