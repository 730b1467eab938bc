"""One submission from the first byte to commit: the story of a graph.

A `map` goes out as it is expanded (fanout.py); everything else is materialised, ordered and then
packed node by node. Either way the scheduler gets keys, blobs and slices of records.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import count, islice

import msgpack
from dask import config

from rask.graph import expand, fanout, opcodes
from rask.graph.annotations import AnnotationSets
from rask.graph.barriers import barriers
from rask.graph.clustered.run import clustered, layer_annotations, settings_are_used_up
from rask.graph.emit import Emitter, pack_keys
from rask.graph.errors import error
from rask.graph.link import Closed, Link, Message
from rask.graph.ordering import order
from rask.graph.pack import Packer

_DATA_PRODUCER = 1


def run(link: Link, message: Message) -> None:
    """Answers one `graph` message. Raises Closed only."""
    header = message.header
    try:
        _answer(link, message)
    except Closed:
        raise
    except BaseException as e:  # noqa: BLE001 - user code may raise anything, SystemExit too
        link.write(error(header["id"], e))
    link.flush()


def _answer(link: Link, message: Message) -> None:
    header, frames = message.header, message.frames
    wanted = msgpack.unpackb(frames[header["keys"]], use_list=False, strict_map_key=False)
    expr = expand.opened(frames, header["expr"])
    everywhere = expand.annotations(frames, header.get("annotations"))
    emitter = Emitter(link, header["id"], message.regions)
    if "fifo_timeout" in header:
        emitter.fifo_timeout = expand.fifo_timeout(frames, header["fifo_timeout"])
    message.frames = frames = None  # what the graph does not refer to may go
    if not header["order"] and fanout.emitted(expr, wanted, everywhere, emitter):
        return
    wanted = set(wanted)
    layers = layer_annotations(expr)  # before Dask fuses them away
    dsk, by_type = expand.materialized(expr, wanted)
    del expr
    if header["order"]:
        dsk = clustered(dsk, wanted, by_type, layers, everywhere, header)
        if _home_first_is_on(header.get("settings")):
            from rask.graph.homefirst import home_first  # and with it all of dask.array

            dsk = home_first(dsk, wanted, by_type, everywhere, _Homes(link, header["id"]))
    settings_are_used_up(by_type, everywhere)
    places = order(dsk) if header["order"] else None
    _emit_graph(emitter, dsk, wanted, places, AnnotationSets(by_type, everywhere))


def _home_first_is_on(settings: dict | None) -> bool:
    """Whether `rask.configure`, or else the scheduler's configuration, says "reduce"."""
    mode = (settings or {}).get("spliter.auto")
    return (config.get("rask.spliter.auto", None) if mode is None else mode) == "reduce"


class _Homes:
    """Asks the scheduler which worker holds each of these keys, once per graph."""

    def __init__(self, link: Link, submission: int):
        self._link = link
        self._id = submission

    def __call__(self, keys: list) -> array:
        answer = self._link.ask({"op": "homes", "id": self._id}, [pack_keys(keys)])
        found = array("I")
        found.frombytes(answer.frames[1])
        return found


def _emit_graph(emitter: Emitter, dsk: dict, wanted: set, places, sets: AnnotationSets) -> None:
    needed = expand.reachable(dsk, wanted)
    keys = sorted(needed, key=places.__getitem__) if places else list(needed)
    # Keys outside of the graph get their numbers when they are met, and stand behind the others.
    numbers = defaultdict(count(len(keys)).__next__, zip(keys, count()))
    dependencies = [array("I", map(numbers.__getitem__, needed[key].dependencies)) for key in keys]
    outside = list(islice(numbers, len(keys), None))
    # Annotation callables are user code: they run before anything is said, for all tasks.
    annotations = None if sets.empty else [sets.number(key) for key in keys]
    emitter.open(append=False, tasks=len(keys))
    emitter.keys(keys)
    emitter.keys(outside, outside=True)
    emitter.annotations(sets.take())
    emitter.barriers(barriers(keys, needed, emitter))
    packer = Packer(emitter)
    for i, key in enumerate(keys):
        node = needed[key]
        own, tail, buffers = packer.spec(node, _spliceable_key(node, key))
        emitter.record(
            own,
            tail,
            dependencies[i],
            buffers,
            _DATA_PRODUCER if node.data_producer else 0,
            annotations[i] if annotations else 0xFFFFFFFF,
            places[key] if places else i,
        )
    emitter.commit()


def _spliceable_key(node, key) -> bytes | None:
    try:
        return opcodes.key(node.key)
    except opcodes.Unspliceable:
        return None
