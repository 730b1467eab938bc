"""Run specs without pickling a node: the template path.

Siblings differ in their key, their arguments and their dependencies; the rest of the pickle, the
tail, is the same bytes and is sent once as a blob. One tail serves all nodes with the same class,
function, keyword arguments and kinds of arguments.

A node that does not fit (nested nodes in its arguments, a subclass of Task, …) is left to pack.py.
Whether the path may be used at all is decided by `trusted`, once per process: the layout below
depends on how the installed dask lays out a Task.
"""

from __future__ import annotations

import io
import pickle
from types import BuiltinFunctionType, FunctionType

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef

from rask.graph import opcodes
from rask.graph.opcodes import Unspliceable, get

#: Values the pickler writes without running Python code, and that hold nothing else.
ATOMS = frozenset({int, float, str, bool, bytes, complex, type(None)})
_NO_OBJECTS = ATOMS | {TaskRef, Alias}  # which of two equal ones a task gets makes no difference
#: Values of which one is as good as another that equals it.
_PLAIN = _NO_OBJECTS | {slice, range, type, FunctionType, BuiltinFunctionType}
_CONTAINERS = frozenset({list, tuple, set, frozenset})
SHARED_MIN = 512  # a value that several tasks hold is sent once from this size on
LARGE_BYTES = 1 << 16  # bytes of this size go out-of-band, which spares copying them

#: Kinds of arguments, by what lies on the stack: a value, or after all values a key or a value.
VALUE, REF, ALIAS, LATE = range(4)
_FIELDS = {
    "_data_producer", "_dependencies", "_is_coro", "_repr", "_token", "args", "func", "key", "kwargs"
}  # fmt: skip
_TASK = opcodes.name("dask._task_spec", "Task") + b")\x81"
_REFERENCE = opcodes.name("dask._task_spec", "TaskRef")
_ALIAS_CLASS = opcodes.name("dask._task_spec", "Alias")
_DATA_TAIL = (
    opcodes.store(2)
    + opcodes.called(opcodes.name("dask._task_spec", "DataNode"), 2, get(1) + get(0))
    + opcodes.STOP
)
_ALIAS_TAIL = opcodes.store(2) + opcodes.called(_ALIAS_CLASS, 2, get(1) + get(0)) + opcodes.STOP


def task_tail(
    function: bytes,
    kinds: list,
    kwargs: bytes = b"}",
    data_producer: bool = False,
    token: bool = False,
) -> bytes:
    """The end of a Task's pickle.

    `kinds`: one per argument, or (bytes) the opcodes of a constant. On the stack lie the VALUEs,
    then what the other kinds need, then the token if any, then the key.
    """
    value = 0
    late = kinds.count(VALUE)
    arguments, dependencies = [], []
    for kind in kinds:
        if kind is VALUE:
            arguments.append(get(value))
            value += 1
        elif isinstance(kind, bytes):
            arguments.append(kind)
        else:
            arguments.append(_late_argument(kind, get(late)))
            if kind is not LATE:
                dependencies.append(get(late))
            late += 1
    count = late + (2 if token else 1)
    fields = {
        "_data_producer": b"\x88" if data_producer else b"\x89",
        "_dependencies": b"(" + b"".join(dependencies) + b"\x91",
        "_is_coro": b"N",
        "_repr": b"N",
        "_token": get(late) if token else b"N",
        "args": opcodes.tuple_of(len(arguments), b"".join(arguments)),
        "func": function,
        "key": get(count - 1),
        "kwargs": kwargs,
    }
    state = b"".join(fields[slot] for slot in Task.get_all_slots())
    return opcodes.store(count) + _TASK + b"(" + state + b"tb" + opcodes.STOP


def _late_argument(kind: int, fetched: bytes) -> bytes:
    if kind is REF:
        return opcodes.called(_REFERENCE, 1, fetched)
    if kind is ALIAS:
        return opcodes.called(_ALIAS_CLASS, 2, fetched + fetched)
    return fetched


class Templates:
    """The templates of one submission."""

    def __init__(self, emitter):
        self._emitter = emitter
        self._tails: dict = {}
        self._functions: dict[int, bytes] = {}
        self._spellings: dict[bytes, bytes] = {}
        self._alive: list = []  # what the ids in the dicts belong to
        self._large: dict[int, int] = {}  # id of an argument -> its pickled size
        self._constants: dict[int, bytes] = {}
        self._data_tail: int | None = None
        self._alias_tail: int | None = None
        self._served = 0

    def spec(self, node, key: bytes) -> tuple[bytes, int, list[int]]:
        """(own bytes, blob of the tail, out-of-band blobs). Raises Unspliceable."""
        kind = type(node)
        if kind is Task:
            return self._task(node, key)
        if kind is DataNode:
            if self._data_tail is None:
                self._data_tail = self._emitter.blob(_DATA_TAIL)
            value, buffers = self._values((node.value,))
            return opcodes.PROTO + value + key, self._data_tail, buffers
        if kind is Alias:
            if self._alias_tail is None:
                self._alias_tail = self._emitter.blob(_ALIAS_TAIL)
            own = opcodes.PROTO + opcodes.key(node.target) + key
            return own, self._alias_tail, []
        raise Unspliceable

    def function(self, value) -> bytes:
        """Opcodes that push a function; pickled once per submission."""
        found = self._functions.get(id(value))
        if found is None:
            found = opcodes.embedded(value)
            # A lambda made anew for each task is the same bytes each time.
            found = self._functions[id(value)] = self._spellings.setdefault(found, found)
            self._alive.append(value)
        return found

    def _task(self, node: Task, key: bytes) -> tuple[bytes, int, list[int]]:
        if node._repr is not None or node._is_coro is not None or _has_twice(node) or _shares_globals(node):
            raise Unspliceable
        if node.kwargs and _meets_deeply(node):
            raise Unspliceable
        kinds, values, late, large = [], [], [], []
        for argument in node.args:
            kind = type(argument)
            if kind is TaskRef:
                kinds.append(REF)
                late.append(opcodes.key(argument.key))
            elif kind is bytes and len(argument) >= LARGE_BYTES:
                kinds.append(LATE)
                late.append(opcodes.BYTES_BUFFER)
                large.append(self._emitter.buffer(pickle.PickleBuffer(argument)))
            elif kind in ATOMS and id(argument) not in self._large:
                kinds.append(VALUE)
                values.append(argument)
            elif kind is Alias and argument.key is argument.target:
                kinds.append(ALIAS)
                late.append(opcodes.key(argument.key))
            elif isinstance(argument, (GraphNode, TaskRef)):
                raise Unspliceable
            elif id(argument) in self._large:
                kinds.append(self._constant(argument))
            else:
                kinds.append(VALUE)
                values.append(argument)
        if len(values) + len(late) > opcodes.SLOTS_MAX:
            raise Unspliceable
        own, buffers = self._values(tuple(values))
        token = node._token
        parts = [opcodes.PROTO, own, *late, key]
        if token is not None:
            parts.insert(-1, opcodes.key(token))
        return b"".join(parts), self._tail_of(node, kinds), buffers + large

    def _tail_of(self, node: Task, kinds: list) -> int:
        kwargs = node.kwargs
        same = (
            self.function(node.func),
            tuple(kinds),
            tuple((k, *_identity(v)) for k, v in kwargs.items()) if kwargs else None,
            node._data_producer,
            node._token is None,
        )
        tail = self._tails.get(same)
        self._served += 1
        if tail is None:
            if len(self._tails) > 64 and len(self._tails) * 4 > self._served:
                raise Unspliceable  # not siblings: tails would outweigh what they save
            tail = self._tails[same] = self._emitter.blob(
                task_tail(
                    self.function(node.func),
                    kinds,
                    self._kwargs(kwargs),
                    node._data_producer,
                    node._token is not None,
                )
            )
            self._alive.append(kwargs)
        return tail

    def _kwargs(self, kwargs: dict) -> bytes:
        if not kwargs:
            return b"}"
        if any(isinstance(v, (GraphNode, TaskRef)) for v in kwargs.values()):
            raise Unspliceable
        return opcodes.embedded(kwargs)

    def _values(self, values: tuple) -> tuple[bytes, list[int]]:
        """Opcodes that push the values, and the blobs of their out-of-band buffers."""
        if not values:
            return b"", []
        buffers: list[int] = []
        whole = values if len(values) > 1 else values[0]
        pickled = pickle_value(whole, self._emitter, buffers)
        if len(pickled) >= SHARED_MIN:
            for value in values:
                self._note_size(value)
        if len(values) > 1:
            return opcodes.bodies(values, pickled), buffers
        return opcodes.body(pickled, nestable=not buffers), buffers

    def _note_size(self, value) -> None:
        """Remembers a large argument, so that its next use becomes a shared constant."""
        buffers: list = []
        try:
            size = len(pickle.dumps(value, 5, buffer_callback=buffers.append))
        except Exception:
            return
        if size >= SHARED_MIN and not buffers:
            self._large[id(value)] = size
            self._alive.append(value)

    def _constant(self, value) -> bytes:
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = opcodes.nested(opcodes.dask_dumps(value))
        return found


def _has_twice(node: Task) -> bool:
    """Whether one object is there as two arguments: it must be one object when the task gets it, too."""
    values = (*node.args, *node.kwargs.values(), getattr(node.func, "__self__", None))
    objects = [id(v) for v in values if type(v) not in _NO_OBJECTS]
    return len(objects) > 1 and len(set(objects)) < len(objects)


def _meets_deeply(node: Task) -> bool:
    """Whether an object inside an argument is also in a keyword argument, which is pickled apart."""
    apart = [v for v in node.kwargs.values() if type(v) not in _PLAIN]
    if not apart:
        return False
    values = [v for v in node.args if type(v) not in _PLAIN]
    return bool(values) and not reached(apart).isdisjoint(reached(values))


def reached(values) -> set[int]:
    """Ids of the objects in these values, as far as containers lead to them."""
    found: set[int] = set()
    work = list(values)
    while work:
        value = work.pop()
        kind = type(value)
        if kind in _PLAIN or id(value) in found:
            continue
        if kind is not tuple or value:  # there is one empty tuple
            found.add(id(value))
        inside = value.values() if kind is dict else value if kind in _CONTAINERS else ()
        if not set(map(type, inside)) <= _PLAIN:
            work.extend(inside)
    return found


def _shares_globals(node: Task) -> bool:
    """Whether a keyword argument is a function that travels by value with the same globals as the task's own."""
    if not node.kwargs:
        return False
    names = getattr(node.func, "__globals__", None)
    return any(
        type(v) is FunctionType and v.__globals__ is names and opcodes.by_reference(v) is None
        for v in node.kwargs.values()
    )


def _identity(value) -> tuple:
    """What tells two keyword arguments apart: their value if that is cheap, else their identity."""
    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)  # 0.0 == -0.0
    return (kind, value) if kind in ATOMS else (kind, id(value))


def pickle_value(value, emitter, buffers: list[int]) -> bytes:
    """A plain pickle; big buffers go out-of-band. Raises Unspliceable where stock would not use it."""
    if type(value) in ATOMS:
        return pickle.dumps(value, 5)

    def out_of_band(buffer):
        if buffer.raw().nbytes < SHARED_MIN:
            return True
        buffers.append(emitter.buffer(buffer))
        return False

    try:
        pickled = pickle.dumps(value, 5, buffer_callback=out_of_band)
    except Exception:
        raise Unspliceable from None
    if b"__main__" in pickled:
        raise Unspliceable
    return pickled


# ---- the self-test ------------------------------------------------------------------------------


class _Blobs:
    """Collects blobs in place of an emitter."""

    def __init__(self):
        self.blobs: list = []

    def blob(self, data) -> int:
        self.blobs.append(bytes(data))
        return len(self.blobs) - 1

    def buffer(self, buffer) -> int:
        return self.blob(buffer.raw())


def _samples():
    offset = 3
    word = "w" * 600
    return [
        Task("a", max, 1, 2),
        Task(("a", 1, 2.5), max, 70_000, -5, 1 << 70, "é", b"x"),
        Task("r", sum, TaskRef("a"), [1, [2, word], word], TaskRef(("a", 1))),
        Task("k" * 300, sorted, [3, 1, 2], reverse=True),
        Task("l", lambda x, y: x + y + offset, 4, y=5),
        Task("p", divmod, 7, 2, _data_producer=True),
        Task("i", _ends, word, word),
        Task("i2", _ends, word, word),
        DataNode("d", {"x": [1, 2]}),
        Alias("n", "a"),
    ]


def _ends(first, *rest):
    return first[:1], len(rest)


def _same(left, right) -> bool:
    """Equal in all slots and as seen from outside; functions by value are compared by calling."""
    if type(left) is not type(right) or left.dependencies != right.dependencies:
        return False
    if type(left) is Task:
        for slot in Task.get_all_slots():
            if slot != "func" and getattr(left, slot) != getattr(right, slot):
                return False
        if left.func.__name__ != right.func.__name__:
            return False
    values = {"a": 1, ("a", 1): [0]}
    try:
        expected = right(values)
    except Exception:
        expected = None
    if expected is not None and left(values) != expected:
        return False
    return left.key == right.key and repr(left) == repr(right)


_trusted: bool | None = None


def trusted() -> bool:
    """True if spliced pickles give the nodes that pickling would give, with both unpicklers."""
    global _trusted
    if _trusted is None:
        try:
            _trusted = set(Task.get_all_slots()) == _FIELDS and _round_trip()
        except Exception:
            _trusted = False
    return _trusted


def _round_trip() -> bool:
    emitter = _Blobs()
    templates = Templates(emitter)
    for node in _samples():
        own, tail, buffers = templates.spec(node, opcodes.key(node.key))
        spliced = own + emitter.blobs[tail]
        plain = opcodes.dask_dumps(node)
        out_of_band = [emitter.blobs[b] for b in buffers]
        # The pure Python unpickler is stricter about frames and memo entries.
        for unpickler in (pickle.Unpickler, pickle._Unpickler):
            unpickled = unpickler(io.BytesIO(spliced), buffers=out_of_band).load()
            if not _same(unpickled, pickle.loads(plain)):
                return False
    return True
