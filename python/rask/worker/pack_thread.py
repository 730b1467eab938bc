"""The pack thread: pickles live values that somebody asked for, and drops dead references.

Executors pack what is cheap; everything else waits until a peer or a client wants it and is packed
here, so that the native loop can send it without the GIL.
"""

from __future__ import annotations

import logging

from distributed.actor import Actor

from rask.worker.packing import pack

logger = logging.getLogger("distributed.worker")


def pack_loop(worker) -> None:
    runtime = worker.runtime
    while (request := runtime.next_pack()) is not None:
        if not request:  # woken to drop references, which next_pack has done
            continue
        value_id, key, value, is_actor = request
        try:
            if is_actor:
                value = Actor(type(value), worker.address, key, worker)
            payload = pack(value)
        except BaseException as error:
            logger.exception("Could not serialize a value of type %s", type(value).__name__)
            runtime.pack_failed(value_id, repr(error))
        else:
            runtime.packed(value_id, payload)
        del request, value
