"""The pack thread: pickles live values that somebody asked for, and drops dead references.

Executors pack what is cheap; everything else waits until a peer or a client wants it and is packed
here, so that the native loop can send it without the GIL.
"""

from __future__ import annotations

import logging

from distributed.actor import Actor

from rask.worker.execute import revive
from rask.worker.packing import describe_type, pack

logger = logging.getLogger("distributed.worker")


def pack_loop(worker) -> None:
    runtime = worker.runtime
    while (request := runtime.next_pack()) is not None:
        if request:  # else woken to drop references, which next_pack has done
            answer(worker, *request)
        del request


def answer(worker, kind: str, value_id: int, key, live: bool, value, actor: bool) -> None:
    try:
        if kind == "describe":
            if not live:
                value = revive(worker.runtime, value_id, value)
            worker.runtime.described(value_id, describe_type(type(value)))
            return
        if actor:
            value = Actor(type(value), worker.address, key, worker)
        payload, failure = pack(value)
    except BaseException as error:
        logger.exception("Could not serialize a value of type %s", type(value).__name__)
        if kind == "pack":
            payload, failure = pack(error)[0], repr(error)
        else:
            worker.runtime.described(value_id, describe_type(object))
            return
    if failure:
        logger.error("%s, key %s", failure, key)
    worker.runtime.packed(value_id, payload, failure)
