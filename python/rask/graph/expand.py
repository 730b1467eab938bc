"""Opens a submission: bytes to expression, expression to graph.

Everything here runs user code and may raise anything; what it raises reaches the client as stock's
scheduler would have reported it.

Answers to: distributed.scheduler.Scheduler.update_graph (first half), _materialize_graph, _cull.
"""

from __future__ import annotations

import textwrap

import msgpack
from dask._expr import LLGExpr
from dask._task_spec import convert_legacy_graph
from dask.utils import parse_timedelta
from distributed.protocol.compression import decompress
from distributed.protocol.pickle import loads as dask_loads
from distributed.protocol.serialize import deserialize, msgpack_decode_default


def _unpack(frame):
    return msgpack.unpackb(
        frame,
        object_hook=msgpack_decode_default,
        use_list=False,
        raw=False,
        strict_map_key=False,
    )


def opened(frames: list, value):
    """The expression of an update-graph message; `value` as it stands in frame 0."""
    try:
        at = value["__Serialized__"]
        header = _unpack(frames[at])
        return deserialize(header, frames[at + 1 : at + 1 + header["num-sub-frames"]])
    except Exception as e:
        raise RuntimeError(_unreadable()) from e


def annotations(frames: list, value) -> dict | None:
    """The global annotations of an update-graph message."""
    if not isinstance(value, dict) or "__Pickled__" not in value:
        return value
    at = value["__Pickled__"]
    header = msgpack.unpackb(frames[at], strict_map_key=False)
    buffers = frames[at + 1 : at + 1 + header["num-sub-frames"]]
    if "compression" in header:
        buffers = decompress(header, buffers)
    return dask_loads(header["pickled-obj"], buffers=buffers)


def fifo_timeout(frames: list, value) -> float:
    """Seconds of an update-graph's fifo_timeout that the scheduler could not read."""
    if isinstance(value, dict) and "__Serialized__" in value:
        at = value["__Serialized__"]
        header = _unpack(frames[at])
        value = deserialize(header, frames[at + 1 : at + 1 + header["num-sub-frames"]])
    else:
        value = annotations(frames, value)
    return 0.0 + parse_timedelta(value)


def _unreadable() -> str:
    """Stock's text for a graph that cannot be unpickled, from the installed stock itself."""
    from distributed.scheduler import Scheduler

    code = getattr(Scheduler.update_graph, "__wrapped__", Scheduler.update_graph).__code__
    for constant in code.co_consts:
        if isinstance(constant, str) and "deserialization" in constant:
            return textwrap.dedent(constant)
    return "The task graph cannot be unpickled on the scheduler"


def materialized(expr, wanted: set) -> tuple[dict, dict]:
    """(graph of nodes, annotations by type). May hold tasks that `wanted` does not need."""
    if isinstance(expr, dict) and not expr:
        return {}, {}  # what replaying a task sends
    dsk = expr.__dask_graph__()
    by_type = {k: dict(v) for k, v in expr.__dask_annotations__().items()}
    dsk = convert_legacy_graph(dsk)
    if isinstance(expr, LLGExpr):
        dsk = reachable(dsk, wanted)
    return dsk, by_type


def reachable(dsk: dict, wanted: set) -> dict:
    """The part of the graph that the wanted keys need."""
    found: dict = {}
    work = [k for k in wanted if k in dsk]
    while work:
        key = work.pop()
        if key in found:
            continue
        found[key] = node = dsk[key]
        work.extend((dsk.keys() & node.dependencies).difference(found))
    return found
