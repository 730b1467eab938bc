"""The pack thread: pickles live values that somebody asked for, and drops dead references.

Executors pack what is cheap; everything else waits until a peer or a client wants it and is packed
here, so that the native loop can send it without the GIL.
"""

from __future__ import annotations

import logging
from time import perf_counter

from distributed.actor import Actor

from rask.worker.execute import revive
from rask.worker.packing import describe_type, pack, pack_failure

logger = logging.getLogger("distributed.worker")

PATIENCE = 0.001  # seconds


def pack_loop(worker) -> None:
    runtime = worker.runtime
    while (requests := runtime.next_packs()) is not None:  # [] to drop references, which it has done
        answers, since = [], perf_counter()
        while requests:
            answers += answer(worker, *requests.pop(0))
            # Told together, because telling gives up the GIL; but nobody waits long for others.
            if answers and (not requests or perf_counter() - since > PATIENCE):
                runtime.packed(answers)
                answers, since = [], perf_counter()


def answer(worker, kind: str, value_id: int, key, live: bool, value, actor: bool) -> list[tuple]:
    """What to tell of a packed value, if anything is."""
    try:
        if kind == "describe":
            if not live:
                value = revive(worker.runtime, value_id, value)
            worker.runtime.described(value_id, describe_type(type(value)))
            return []
        if actor:
            value = Actor(type(value), worker.address, key, worker)
        payload, failure = pack(value)
    except BaseException as error:
        logger.exception("Could not serialize a value of type %s", type(value).__name__)
        if kind == "describe":
            worker.runtime.described(value_id, describe_type(object))
            return []
        payload, failure = pack_failure(value, error), repr(error)
    if failure:
        logger.error("%s, key %s", failure, key)
    return [(value_id, payload, failure)]
