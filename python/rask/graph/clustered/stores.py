"""Stores of neighbouring blocks become buffer stores.

`da.store` (and `to_zarr`) ends in one call of `load_store_chunk` per block, mostly fused with what
computes the block. Here the call is taken off, blocks of a buffer meet in one task that writes them,
and the original keys give back what they did.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dask._task_spec import DataNode, Task, TaskRef, _execute_subgraph
from dask.array.core import load_store_chunk
from dask.array.optimization import fuse_slice
from dask.base import tokenize

from rask.graph.clustered.inside import Call, Calls, Inside, Ref, opened, still_needed
from rask.graph.clustered.layout import Box, box_of, digest, planned, volume
from rask.graph.clustered.work import Work
from rask.io import buffers
from rask.graph.clustered.settings import Settings, bound


@dataclass
class Store:
    """One block on its way into a target."""

    call: Call
    box: Box
    back: tuple  #: what the key gives back: the last arguments of buffers.stored


@dataclass
class Group:
    """Stores of one array into one target."""

    out: object
    storage: object
    settings: Settings
    layer: str
    lock: object
    stores: list[Store] = field(default_factory=list)


def cluster_stores(work: Work) -> None:
    """Rewrites the stores of the graph in place."""
    calls = Calls([load_store_chunk])
    groups: dict[tuple, Group] = {}
    for key, node in work.dsk.items():
        for call in calls.of(key, node):
            _sort_in(work, call, groups)
    splitter = _Splitter()
    for group in groups.values():
        _plan(work, group, splitter)


def _sort_in(work: Work, call: Call, groups: dict) -> None:
    if call.inner is not None and call.inner != opened(work.dsk[call.key])[1]:
        return  # something else follows inside the same task
    if not call.site.task.args or not isinstance(call.raw(0), TaskRef):
        return
    try:
        out, index, region, lock, return_stored, load_stored = (
            call.argument(i, name)
            for i, name in enumerate(
                ("out", "index", "region", "lock", "return_stored", "load_stored"), 1
            )
        )
    except Inside:
        return
    if any(isinstance(v, Ref) for v in (index, region, lock, return_stored, load_stored)):
        return
    layer = call.site.layer
    settings = work.settings(layer)
    if not (settings.cluster and settings.stores):
        return
    identity, storage = work.storage(out)
    if storage is None:
        return
    try:
        whole = fuse_slice(region, index) if region and index else (region or index)
    except NotImplementedError:
        return
    box = box_of(whole, storage.shape)
    if box is None:
        return
    place = identity, layer, work.annotated(call.key), id(lock)
    group = groups.get(place)
    if group is None:
        argument = TaskRef(out.key) if isinstance(out, Ref) else DataNode(None, out)
        if not settings.native:
            storage = work.without_offset(storage)
        group = groups[place] = Group(argument, storage, settings, layer, lock)
    back = () if not return_stored else ((group.out, whole) if load_stored else (group.out,))
    group.stores.append(Store(call, box, back))


def _plan(work: Work, group: Group, splitter: _Splitter) -> None:
    boxes = [store.box for store in group.stores]
    if len(set(boxes)) != len(boxes):
        return  # which of two blocks for one place is last is not for us to say
    storage, settings = group.storage, group.settings
    size = storage.dtype.itemsize
    most = bound(settings, sum(map(volume, boxes)) * size, work.workers)
    order = settings.order if settings.order != "auto" else storage.order
    numbers = planned(boxes, storage, order, most, stores=True)
    if numbers is None:
        return
    at_once = settings.at_once(storage.path)
    name = tokenize(group.layer, storage.path, storage.offset)
    for members in numbers:
        if len(members) == 1:
            continue
        stores = [group.stores[i] for i in members]
        chosen = tuple(store.box for store in stores)
        writes = f"rask-io-store-{name}", digest(chosen)
        blocks = [splitter.block(work, store.call, name) for store in stores]
        work.dsk[writes] = Task(writes, buffers.store, group.out, DataNode(None, storage), chosen,
                                group.lock, *blocks)  # fmt: skip
        work.annotate(writes, stores[0].call.key, None, at_once)
        for store in stores:
            key = store.call.key
            work.dsk[key] = Task(key, buffers.stored, TaskRef(writes), *store.back)
    work.count("stores", len(boxes), len(numbers))


class _Splitter:
    """Takes the store off the end of a task; inner graphs of siblings stay shared."""

    def __init__(self):
        self._made: dict[int, tuple] = {}

    def block(self, work: Work, call: Call, name: str) -> TaskRef:
        """The block that a store task stores, as a task of its own if it is none yet."""
        source = call.raw(0)
        if call.inner is None:
            return source
        if (passed := call.passed(source.key)) is not None:
            return passed
        node = work.dsk[call.key]
        inner, _, inkeys, args = opened(node)
        made = self._made.get(id(inner))
        if made is None:
            rest = {k: v for k, v in inner.items() if k != call.inner}
            made = self._made[id(inner)] = rest, still_needed(rest, inkeys), inner
        rest, kept, _ = made
        at = call.key[1:] if isinstance(call.key, tuple) else (call.key,)
        key = (f"rask-io-block-{name}", *at)
        work.dsk[key] = Task(key, _execute_subgraph, rest, source.key,
                             tuple(inkeys[i] for i in kept), *(args[i] for i in kept),
                             _data_producer=node.data_producer)  # fmt: skip
        work.annotate(key, call.key, None, None)
        return TaskRef(key)
