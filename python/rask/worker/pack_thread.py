"""The pack thread: pickles live values that somebody asked for, and drops dead references.

Executors pack what is cheap; everything else waits until a peer or a client wants it and is packed
here, so that the native loop can send it without the GIL.
"""

from __future__ import annotations

import logging

from rask.worker.execute import describe_error, error_payloads
from rask.worker.packing import pack

logger = logging.getLogger("distributed.worker")


def pack_loop(runtime) -> None:
    while (request := runtime.next_pack()) is not None:
        if not request:  # woken to drop references, which next_pack has done
            continue
        value_id, value = request
        try:
            payload = pack(value)
        except BaseException as error:
            logger.exception("Could not serialize a value of type %s", type(value).__name__)
            runtime.pack_failed(value_id, *error_payloads(describe_error(error)))
        else:
            runtime.packed(value_id, payload)
        del request, value
