"""What runs on the workers. Travels by value: workers need neither rask nor this version of it.

Blocks reach a partition's task as ordinary arguments, so a stock worker has them all in memory while
the task runs. A rask worker passes what stands for them (python/rask/worker/lazy.py), and a block
is read when its turn comes. An error inside user code gets a note that names the block it was
looking at.

Nothing here may refer to another module of rask: `by_value` pickles these functions whole.
"""

from __future__ import annotations

import array
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from dask._task_spec import GraphNode, List, Task, TaskRef


class Blocks:
    """The blocks of a partition as one value on their worker, next to the blocks themselves.

    It refers to the blocks and copies nothing, so it says it is small: the worker counts the
    blocks already. Sent elsewhere or written to disk it carries them along.
    """

    def __init__(self, blocks: list[Any]):
        self.blocks = blocks

    def __sizeof__(self) -> int:
        return 64 + 8 * len(self.blocks)


def unwrapped(blocks: Any) -> list[Any]:
    # By name: a class that travels by value is another class in another process.
    return blocks.blocks if type(blocks).__name__ == "Blocks" else blocks


def loaded(block: Any) -> Any:
    """The block itself, where a worker passed something that stands for it."""
    return block._rask_load_() if hasattr(type(block), "_rask_load_") else block


def hold(blocks: list[Any]) -> Blocks:
    return Blocks(list(blocks))


def run(spec: dict[str, Any], blocks: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One partition: `spec` says how user code wants the blocks."""
    blocks, at = unwrapped(blocks), [-1]

    def walk() -> Iterator[Any]:
        for position, block in enumerate(blocks):
            at[0] = position
            yield loaded(block)

    try:
        return ACTIONS[spec["action"]](spec, blocks, walk(), args, kwargs)
    except Exception as error:
        _note(error, spec, at[0])
        raise


def _whole(spec: Any, blocks: list[Any], walk: Any, args: Any, kwargs: Any) -> Any:
    taken = {"iter": lambda: walk, "list": lambda: [loaded(block) for block in blocks],
             "concat": lambda: join(blocks, spec["layout"])}[spec["pass_as"]]()
    return spec["fn"](taken, *args, **kwargs)


def _each(spec: Any, blocks: Any, walk: Any, args: Any, kwargs: Any) -> Any:
    return [spec["fn"](block, *args, **kwargs) for block in walk]


def _reduced(spec: Any, blocks: Any, walk: Any, args: Any, kwargs: Any) -> Any:
    fn = spec["fn"]
    return fold(spec["combine"], spec["many"],
                walk if fn is None else (fn(block, *args, **kwargs) for block in walk))


def _joined(spec: Any, blocks: Any, walk: Any, args: Any, kwargs: Any) -> Any:
    return join(blocks, spec["layout"], copy=True)


def _measured(spec: Any, blocks: Any, walk: Any, args: Any, kwargs: Any) -> Any:
    return [extent(block) for block in walk]


ACTIONS = {"whole": _whole, "each": _each, "reduce": _reduced, "join": _joined,
           "measure": _measured}


AT_ONCE = 6  # more results, and what they are views of, would push the blocks out of the caches


def fold(combine: Callable[..., Any], many: bool, values: Any) -> Any:
    """All values combined, left to right, a few at a time: the others need not be there yet, or any more."""
    if not many:
        return functools.reduce(combine, values)
    values = iter(values)
    found = combine(list(itertools.islice(values, AT_ONCE)))
    for value in values:
        found = combine([found, value, *itertools.islice(values, AT_ONCE - 2)])
    return found


def merge(combine: Callable[..., Any], many: bool, partials: list[Any]) -> Any:
    return fold(combine, many, partials) if many or len(partials) > 1 else partials[0]


def merge_in_order(combine: Callable[..., Any], many: bool, order: list[int],
                   partials: list[list[Any]]) -> Any:
    """Folds results of single blocks in array order, however they were grouped."""
    values = [value for part in partials for value in part]
    ordered = [values[i] for i in order]
    return combine(ordered) if many else functools.reduce(combine, ordered)


def extent(block: Any) -> tuple[Any, Any]:
    """(lengths per axis, dtype) of a block."""
    if hasattr(block, "shape") and hasattr(block, "dtype"):
        return tuple(block.shape), block.dtype
    return (len(block),) if hasattr(block, "__len__") else (), None


def join(blocks: list[Any], layout: Any, copy: bool = False) -> Any:
    """One contiguous object: arrays by their layout, frames and lists end to end."""
    first = loaded(blocks[0])
    if hasattr(first, "iloc"):
        import pandas

        return pandas.concat([first, *map(loaded, blocks[1:])])
    if isinstance(first, (list, tuple)) or not hasattr(first, "__array__"):
        if not hasattr(first, "__iter__") or isinstance(first, (str, bytes)):
            raise TypeError(f"blocks of type {type(first).__name__} cannot be joined into one")
        return [item for block in blocks for item in loaded(block)]
    import numpy

    how, where, length = layout
    axis = where if how == "axis" else _only(where)
    if axis is not None and length is not None and type(first) is numpy.ndarray and first.ndim:
        streamed = _filled(first, blocks, axis, length)
        if streamed is not None:
            return streamed
    blocks = [first, *map(loaded, blocks[1:])]
    if how == "axis":
        return numpy.concatenate(blocks, axis=where if numpy.ndim(first) else None)
    for axis in reversed(range(len(where))):
        step = where[axis]
        if step > 1:
            blocks = [numpy.concatenate(blocks[i:i + step], axis=axis)
                      for i in range(0, len(blocks), step)]
    # A lone block is the worker's own object: whoever keeps the result must not share it.
    return blocks[0].copy() if copy and blocks[0] is first else blocks[0]


def _only(box: tuple[int, ...]) -> int | None:
    """The one axis along which a box has several blocks."""
    axes = [axis for axis, count in enumerate(box) if count > 1]
    return axes[0] if len(axes) == 1 else None


def _filled(first: Any, blocks: list[Any], axis: int, length: int) -> Any:
    """The blocks one after the other in a new array, one of them in memory at a time beside it.

    None if they turn out not to be alike.
    """
    import numpy

    shape = (*first.shape[:axis], length, *first.shape[axis + 1:])
    out, end = numpy.empty(shape, first.dtype), 0
    ahead = (slice(None),) * axis
    for position in range(len(blocks)):
        block, first = first if position == 0 else loaded(blocks[position]), None
        begin, end = end, end + block.shape[axis] if block.ndim == out.ndim else length + 1
        if type(block) is not numpy.ndarray or block.dtype != out.dtype or end > length:
            return None
        if out[(*ahead, slice(begin, end))].shape != block.shape:
            return None
        out[(*ahead, slice(begin, end))] = block
        del block
    return out if end == length else None


class Payload:
    """A function that arrives whole: its pickle, from which every process makes it anew."""

    def __init__(self, payload: bytes):
        self.payload = payload

    def __call__(self, *args: Any) -> Any:  # pickle wants it to be callable as it stands
        import pickle

        return pickle.loads(self.payload)(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        import pickle

        return pickle.loads, (self.payload,)


class Refs(GraphNode):
    """Results of many blocks of one array, as one argument: a list of them.

    Dask has an object per dependency, made, pickled and opened again in every process that a graph
    passes. Keys of blocks are a name and a place, so here they are a name and an array of numbers.
    """

    __slots__ = ("called",)

    def __init__(self, payload: bytes, name: str, shape: tuple[int, ...],
                 numbers: array.array[int]):
        self.key = None
        self.called = payload, name, shape, numbers
        self._dependencies = frozenset(self.keys())

    def keys(self) -> Iterator[tuple[Any, ...]]:
        _, name, shape, numbers = self.called
        if sum(length != 1 for length in shape) <= 1:  # most arrays: one axis is cut
            axis = max(range(len(shape)), key=shape.__getitem__)
            before, after = [(0,)] * axis, [(0,)] * (len(shape) - axis - 1)
            return itertools.product((name,), *before, numbers, *after)
        return ((name, *place_of(number, shape)) for number in numbers)

    def __call__(self, values: Any = ()) -> list[Any]:
        return [values[key] for key in self.keys()]

    def copy(self) -> Refs:
        return self

    def substitute(self, subs: Any, key: Any = None) -> Any:
        if self._dependencies.isdisjoint(subs):
            return self
        new = (subs.get(k, k) for k in self.keys())
        return List(*(k if isinstance(k, GraphNode) else TaskRef(k) for k in new))

    def __sizeof__(self) -> int:
        return 200 + 4 * len(self.called[3])

    def __dask_tokenize__(self) -> Any:
        _, name, shape, numbers = self.called
        return name, shape, numbers.tobytes()

    def __reduce__(self) -> tuple[Any, ...]:
        return Payload(self.called[0]), ("refs", *self.called)


class PartitionTask(Task):
    """A task on many blocks. Its arguments name them, so its pickle does not list them once more."""

    __slots__ = ()

    def __init__(self, key: Any, func: Callable[..., Any], /, *args: Any, **kwargs: Any):
        blocks = [argument for argument in args if _is_refs(argument)]
        super().__init__(key, func, *(a for a in args if not _is_refs(a)), **kwargs)
        self.args = args
        # Shared where it can be: a set of many thousands takes as long to copy as to make.
        self._dependencies = blocks[0].dependencies if len(blocks) == 1 and not self._dependencies \
            else self._dependencies.union(*(block.dependencies for block in blocks))

    def __reduce__(self) -> tuple[Any, ...]:
        first = next(filter(_is_refs, self.args), None)
        if first is None:  # Dask has put the keys themselves in the place of the numbers
            return Task, (self.key, self.func, *self.args)
        return Payload(first.called[0]), ("task", self.key, self.func, *self.args)


def _is_refs(argument: Any) -> bool:
    return hasattr(argument, "called")


def remade(kind: str, *called: Any) -> Refs | PartitionTask:
    """What is unpickled where rask need not be installed: with this function both classes travel."""
    return (Refs if kind == "refs" else PartitionTask)(*called)


def refs(name: str, shape: tuple[int, ...], numbers: array.array[int]) -> Refs:
    return Refs(by_value(remade).payload, name, shape, numbers)


def place_of(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Place in the grid of the block with this number, C order."""
    place: tuple[int, ...] = ()
    for length in reversed(shape):
        number, last = divmod(number, length)
        place = (last, *place)
    return place


def same(block: Any) -> Any:
    return block


def pick(blocks: Any, position: int) -> Any:
    return unwrapped(blocks)[position]


def _note(error: Exception, spec: dict[str, Any], position: int) -> None:
    text = f"in partition {spec['number']} of {spec['of']}"
    if position >= 0 and spec["numbers"]:
        index = place_of(spec["numbers"][position], spec["shape"])
        keys = spec["keys"]
        key = (keys, *index) if isinstance(keys, str) else keys[position]
        text += f", at block {index if len(index) != 1 else index[0]}, key {key!r}"
    if hasattr(error, "add_note"):
        error.add_note(text)


def numa_nodes() -> int:
    """Over how many NUMA nodes the processors this process may use are spread."""
    import glob
    import os

    mine, nodes = os.sched_getaffinity(0), 0
    for path in glob.glob("/sys/devices/system/node/node[0-9]*/cpulist"):
        with open(path) as file:
            spans = [span.split("-") for span in file.read().strip().split(",") if span]
        nodes += any(int(span[0]) <= cpu <= int(span[-1]) for span in spans for cpu in mine)
    return max(1, nodes)


class ByValue:
    """A function of this module or of probes.py that arrives whole on a worker without rask."""

    def __init__(self, function: Callable[..., Any], payload: bytes):
        self.function = function
        self.payload = payload
        self.__name__ = function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        import pickle

        return pickle.loads, (self.payload,)


@functools.lru_cache(maxsize=None)
def by_value(function: Callable[..., Any]) -> ByValue:
    import cloudpickle

    module = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        return ByValue(function, cloudpickle.dumps(function))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
