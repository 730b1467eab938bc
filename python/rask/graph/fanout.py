"""client.map without building a Task per element: the columnar form of the template path.

A _MapExpr is a function, columns of arguments and a list of keys. If no argument holds a Future or
node, every task is `f(*row)`: its own bytes are the pickled row and the key, and all tasks share one
tail. An argument that is the same object in every row goes into the tail, too. Columns of Futures are
dependencies; without any the graph cannot fail as a whole once it is open, and slices take effect at once.

Answers to: distributed.client._MapExpr._layer.
"""

from __future__ import annotations

import pickle
from array import array
from itertools import repeat
from operator import add, is_
from types import FunctionType

from dask._task_spec import GraphNode, Task, parse_input
from dask.sizeof import sizeof
from distributed.client import Future, _MapExpr

from rask.graph import opcodes
from rask.graph.annotations import AnnotationSets
from rask.graph.emit import NONE, SLICE_RECORDS, Emitter
from rask.graph.opcodes import PROTO, Unspliceable
from rask.graph.pack import Packer
from rask.graph.template import (
    ALIAS,
    ATOMS,
    LARGE_BYTES,
    LATE,
    SHARED_MIN,
    VALUE,
    pickle_value,
    reached,
    task_tail,
    trusted,
)

_KWARG_NODE_MIN = 1e5  # stock turns a larger keyword argument into a node of its own
_SHORT_MAX = 4096  # strings up to this length go through the fast path


def emitted(expr, wanted: tuple, everywhere: dict | None, emitter: Emitter) -> bool:
    """Sends the whole submission if this path fits it; else does nothing and returns False."""
    if type(expr) is not _MapExpr or not trusted():
        return False
    keys = list(expr.keys)
    columns = [c if type(c) is list else list(c) for c in expr.iterables]
    if not columns or len(keys) > min(map(len, columns)) or len(columns) > opcodes.SLOTS_MAX:
        return False
    distinct = set(keys)
    if not keys or not len(distinct) == len(keys) == len(wanted):
        return False
    if not distinct.issuperset(wanted):
        return False
    columns = [c[: len(keys)] for c in columns]
    if not all(map(_is_fit, columns)) or not _small_kwargs(expr.kwargs):
        return False
    if _meet(*columns, expr.kwargs.values(), [expr.func, getattr(expr.func, "__self__", None)]):
        return False
    if _meet_deeply(columns, expr.kwargs):
        return False
    fanout = _Fanout(expr, keys, columns, emitter)
    if not fanout.fits(distinct):
        return False
    fanout.emit(everywhere)
    return True


def _is_fit(column: list) -> bool:
    return _are_futures(column) or _free_of_nodes(column)


def _are_futures(column: list) -> bool:
    return set(map(type, column)) == {Future}


def _free_of_nodes(column: list) -> bool:
    if set(map(type, column)) <= ATOMS:
        return True
    if all(map(is_, column, repeat(column[0]))):
        column = column[:1]
    return not any(isinstance(parse_input(v), GraphNode) for v in column)


def _meet(*places) -> bool:
    """Whether one object stands in several places: it must be one object when a task gets it, too.

    Or functions that share their globals: if they travel by value, those are a part of them.
    """
    seen: set[int] = set()
    for values in places:
        here = {id(v) for v in values if type(v) not in ATOMS and type(v) is not Future}
        here |= {id(v.__globals__) for v in values if type(v) is FunctionType and opcodes.by_reference(v) is None}
        if not seen.isdisjoint(here):
            return True
        seen |= here
    return False


def _meet_deeply(columns: list[list], kwargs: dict) -> bool:
    """Whether an object inside a row is also in what all rows share, which is pickled apart."""
    columns = [c for c in columns if not _are_futures(c) and not set(map(type, c)) <= ATOMS]
    shared, rows = list(kwargs.values()), []
    for column in columns:
        if all(map(is_, column, repeat(column[0]))):
            shared.append(column[0])
        else:
            rows.append(column)
    apart = reached(shared)
    return bool(apart) and any(not apart.isdisjoint(reached(column)) for column in rows)


def _small_kwargs(kwargs: dict) -> bool:
    return all(
        sizeof(v) <= _KWARG_NODE_MIN and not isinstance(parse_input(v), GraphNode)
        for v in kwargs.values()
    )


class _Fanout:
    def __init__(self, expr, keys: list, columns: list[list], emitter: Emitter):
        self._function = expr.func
        self._kwargs = expr.kwargs
        self._keys = keys
        self._columns = columns
        self._emitter = emitter
        self._packer = Packer(emitter)
        self._joint: list[list] = []  # columns pickled together, row by row
        self._late: list[list] = []  # columns whose large values repeat: one blob per value
        self._large: dict[int, tuple[bytes, list[int]]] = {}
        self._refs: list[list] = []  # keys of columns of futures
        self._kinds = [self._kind(column) for column in columns]
        outside = dict.fromkeys(key for column in self._refs for key in column)
        self._outside = {key: len(keys) + i for i, key in enumerate(outside)}

    def fits(self, keys: set) -> bool:
        """Whether its futures are those of other graphs, and lie on the stack where task_tail looks."""
        if not self._refs:
            return True
        try:
            opcodes.keys(list(self._outside))
        except Unspliceable:
            return False
        return not self._late and keys.isdisjoint(self._outside)

    def emit(self, everywhere: dict | None) -> None:
        sets = AnnotationSets(None, everywhere)
        annotations = b"" if sets.empty else array("I", map(sets.number, self._keys))
        kwargs = opcodes.embedded(self._kwargs) if self._kwargs else b"}"
        tail = task_tail(opcodes.embedded(self._function), self._kinds, kwargs)
        emitter = self._emitter
        emitter.open(append=not self._refs, tasks=len(self._keys))
        if self._refs:
            emitter.keys(self._keys)
            emitter.keys(list(self._outside), outside=True)
        emitter.annotations(sets.take())
        number = emitter.blob(tail)
        simple = not self._late and all(map(_is_short, self._joint))
        for at in range(0, len(self._keys), SLICE_RECORDS):
            end = min(at + SLICE_RECORDS, len(self._keys))
            if not self._refs:
                emitter.keys(self._keys[at:end])
            part = annotations[at:end]
            if simple:
                emitter.records(self._simple_rows(at, end), number, self._dependencies(at, end),
                                annotations=part)  # fmt: skip
            else:
                self._emit_rows(at, end, number, part)
        emitter.commit()

    def _dependencies(self, at: int, end: int) -> tuple | None:
        """Where each task's dependencies end, and their numbers."""
        if not self._refs:
            return None
        ends, numbers = array("I", [0]), array("I")
        for row in zip(*(column[at:end] for column in self._refs)):
            numbers.extend(self._numbers(row))
            ends.append(len(numbers))
        return ends, numbers

    def _numbers(self, row: tuple) -> list[int]:
        return [self._outside[key] for key in (row if len(row) == 1 else dict.fromkeys(row))]

    def _kind(self, column: list):
        """The kind of an argument for task_tail; files its column under how it is pickled."""
        if _are_futures(column):
            self._refs.append([future.key for future in column])
            return ALIAS
        first = column[0]
        if type(first) is bytes and len(first) >= LARGE_BYTES:
            self._late.append(column)
            return LATE
        if len(column) > 1 and all(map(is_, column, repeat(first))):
            if type(first) in ATOMS:
                return opcodes.body(pickle.dumps(first, 5))
            if not _has_buffers(first):
                return opcodes.nested(opcodes.dask_dumps(first))
        elif not _is_short(column) and len(set(map(id, column))) < len(column):
            if not any(map(_has_buffers, column)):
                self._late.append(column)
                return LATE
        self._joint.append(column)
        return VALUE

    def _simple_rows(self, at: int, end: int) -> list[bytes]:
        """Own bytes of rows of short atoms. Protocol 3 has no frames that would have to go."""
        keys = opcodes.keys(self._keys[at:end])
        for column in reversed(self._refs):
            keys = list(map(add, opcodes.keys(column[at:end]), keys))
        dumps = pickle.dumps
        joint = [column[at:end] for column in self._joint]
        if not joint:
            return [PROTO + key for key in keys]
        if len(joint) == 1:
            return [dumps(v, 3)[:-1] + key for v, key in zip(joint[0], keys)]
        # A row ends with its TUPLE, BINPUT and STOP; a long one begins with a MARK.
        rows = zip(zip(*joint), keys)
        if len(joint) <= 3:
            return [dumps(row, 3)[:-4] + key for row, key in rows]
        return [PROTO + dumps(row, 3)[3:-4] + key for row, key in rows]

    def _emit_rows(self, at: int, end: int, tail: int, annotations) -> None:
        emitter = self._emitter
        for i in range(at, end):
            key, refs = self._keys[i], tuple(column[i] for column in self._refs)
            try:
                buffers: list[int] = []
                late = b"".join(map(opcodes.key, refs))
                own, own_tail = self._row(i, buffers) + late + opcodes.key(key), tail
            except Unspliceable:
                row = [parse_input(column[i]) for column in self._columns]
                node = Task(key, self._function, *row, **self._kwargs)
                own, own_tail, buffers = self._packer.spec(node, None)
            annotation = annotations[i - at] if annotations else NONE
            emitter.record(own, own_tail, self._numbers(refs), buffers, 0, annotation, i)
        emitter.flush()

    def _row(self, i: int, buffers: list[int]) -> bytes:
        parts = [PROTO]
        if len(self._joint) == 1:
            pickled = pickle_value(self._joint[0][i], self._emitter, buffers)
            parts.append(opcodes.body(pickled, nestable=not buffers))
        elif self._joint:
            row = tuple(column[i] for column in self._joint)
            parts.append(opcodes.bodies(row, pickle_value(row, self._emitter, buffers)))
        for column in self._late:
            opcode, blobs = self._late_value(column[i])
            parts.append(opcode)
            buffers.extend(blobs)
        return b"".join(parts)

    def _late_value(self, value) -> tuple[bytes, list[int]]:
        found = self._large.get(id(value))
        if found is None:
            if type(value) is bytes and len(value) >= SHARED_MIN:
                found = opcodes.BYTES_BUFFER, [self._emitter.blob(value)]
            elif len(pickled := opcodes.dask_dumps(value)) < SHARED_MIN:
                found = opcodes.nested(pickled), []
            else:
                found = opcodes.LOADS_BUFFER, [self._emitter.blob(pickled)]
            self._large[id(value)] = found
        return found


def _has_buffers(value) -> bool:
    """True for what pickles with buffers of its own, which are shared without our doing."""
    found: list = []
    try:
        pickle.dumps(value, 5, buffer_callback=found.append)
    except Exception:
        return False
    return any(buffer.raw().nbytes >= SHARED_MIN for buffer in found)


def _is_short(column: list) -> bool:
    """Atoms only, none of them long."""
    types = set(map(type, column))
    if not types <= ATOMS:
        return False
    if str in types or bytes in types:
        return max(len(v) for v in column if type(v) in (str, bytes)) <= _SHORT_MAX
    return True
