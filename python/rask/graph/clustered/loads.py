"""Loads of neighbouring blocks become buffer loads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from dask._task_spec import DataNode, Task, TaskRef
from dask.array.core import getter, getter_inline, getter_nofancy
from dask.base import tokenize

from rask.graph.clustered.inside import Call, Calls, Inside, Ref, Rewriter
from rask.graph.clustered.layout import Box, box_of, digest, planned, run_bytes, volume
from rask.graph.clustered.work import Work
from rask.io import buffers
from rask.graph.clustered.settings import Settings, bound
from rask.io.storage import Storage, warn_once

_SHORT_RUN = 4096  #: bytes that lie together on disk
_MOST_AHEAD = 4  #: buffers that a buffer names as those that come next


class Load(NamedTuple):
    """One loader and the block it loads."""

    call: Call
    box: Box


@dataclass
class Group:
    """Loaders of one layer of one array."""

    array: object  #: as an argument of a task
    storage: object
    settings: Settings
    layer: str
    lock: object
    asarray: bool
    variant: tuple  #: what tells it from other groups of the same layer
    loads: list[Load] = field(default_factory=list)


def cluster_loads(work: Work) -> None:
    """Rewrites the loaders of the graph in place."""
    calls = Calls([getter, getter_nofancy, getter_inline])
    groups: dict[tuple, Group] = {}
    seen: dict = defaultdict(int)
    for key, node in work.dsk.items():
        for call in calls.of(key, node):
            seen[key] += 1
            _sort_in(work, call, groups)
    changes: dict = defaultdict(dict)
    for group in groups.values():
        _plan(work, group, changes)
    rewriter = Rewriter()
    for key, calls_of in changes.items():
        work.dsk[key] = rewriter.task(work.dsk[key], calls_of, len(calls_of) < seen[key])


def _sort_in(work: Work, call: Call, groups: dict) -> None:
    try:
        array = call.argument(0, "a")
        index = call.argument(1, "b")
        asarray = call.argument(2, "asarray", True)
        lock = call.argument(3, "lock")
    except Inside:
        return
    if isinstance(index, Ref) or isinstance(asarray, Ref) or isinstance(lock, Ref):
        return
    layer = call.site.layer
    settings = work.settings(layer)
    if not settings.cluster:
        return
    identity, storage = work.storage(array)
    if storage is None:
        return
    box = box_of(index, storage.shape)
    if box is None:
        return
    variant = work.annotated(call.key), bool(lock), bool(asarray)
    place = identity, layer, id(lock), variant
    group = groups.get(place)
    if group is None:
        argument = TaskRef(array.key) if isinstance(array, Ref) else DataNode(None, array)
        if not settings.native:
            storage = work.without_offset(storage)
        group = groups[place] = Group(argument, storage, settings, layer, lock, bool(asarray),
                                      variant)  # fmt: skip
    group.loads.append(Load(call, box))


def _plan(work: Work, group: Group, changes: dict) -> None:
    by_box: dict[Box, list[Load]] = defaultdict(list)
    for load in group.loads:
        by_box[load.box].append(load)
    boxes = list(by_box)
    storage, settings = group.storage, group.settings
    size = storage.dtype.itemsize
    volumes = list(map(volume, boxes))
    most = bound(settings, sum(volumes) * size, work.workers)
    largest = max(volumes) * size
    if settings.buffer_bytes is not None and largest > most:
        warn_once(
            f"bound {storage.path}",
            f"{storage.path}: a block of {largest} bytes is larger than io.buffer-bytes = {most}; "
            "such blocks are loaded one by one",
        )
    order = settings.order if settings.order != "auto" else storage.order
    numbers = planned(boxes, storage, order, most)
    if numbers is None:
        return
    token = tokenize(group.layer, storage.path, storage.offset, group.variant)
    name = f"rask-io-load-{token}"
    at_once = settings.at_once(storage.path)
    merges = len(numbers) < len(boxes)
    followers = _followers(numbers, boxes, work.workers)
    for members in numbers:
        if len(members) == 1:
            loads = by_box[boxes[members[0]]]
            if merges or at_once:  # else there is nothing to gain, so nothing is said either
                _say(work, loads, storage, at_once)
            _read_natively(work, group, loads, changes)
            continue
        chosen = tuple(boxes[i] for i in members)
        key = name, digest(chosen)
        how = _reader(work, storage, buffers.bounding(chosen))
        work.dsk[key] = Task(key, buffers.load, group.array, DataNode(None, how), chosen,
                             group.lock, group.asarray, followers[members[0]],
                             _data_producer=True)  # fmt: skip
        work.annotate(key, group.loads[0].call.key, sum(map(volume, chosen)) * size, at_once)
        for number, box in enumerate(chosen):
            take = buffers.pick if len(by_box[box]) == 1 else buffers.pick_copy
            for load in by_box[box]:
                changes[load.call.key][load.call.inner] = take, (TaskRef(key), number)
    work.count("loads", len(boxes), len(numbers))


def _followers(numbers: list[list[int]], boxes: list[Box], workers) -> dict:
    """First member of each buffer -> boxes around those that come next in the graph, one per thread."""
    merged = sorted((members for members in numbers if len(members) > 1), key=min)
    around = [buffers.bounding([boxes[i] for i in members]) for members in merged]
    depth = min(_MOST_AHEAD, max(1, (workers or {}).get("threads") or 1))
    return {members[0]: tuple(around[i + 1 : i + 1 + depth]) for i, members in enumerate(merged)}


def _reader(work: Work, storage: Storage, box: Box) -> Storage:
    """Short runs are better left to a library that has a cache; rask's own arrays have none."""
    if storage.stamp is None or run_bytes(box, storage) >= _SHORT_RUN:
        return storage
    return work.without_offset(storage)


def _say(work: Work, loads: list[Load], storage: Storage, at_once) -> None:
    """A block that has no neighbour: its tasks say what they load, and from which device."""
    for load in loads:
        work.needs(load.call.key, volume(load.box) * storage.dtype.itemsize)
        work.limit(load.call.key, at_once)


def _read_natively(work: Work, group: Group, loads: list[Load], changes: dict) -> None:
    """The same load in the same task, without its library if that is better."""
    how = group.storage
    if how.stamp is None or _reader(work, how, loads[0].box).offset is None:
        return  # the array's own indexing is as good
    for load in loads:
        arguments = (group.array, DataNode(None, how), load.box, group.lock,
                     group.asarray)  # fmt: skip
        changes[load.call.key][load.call.inner] = buffers.load_one, arguments
