"""`rask.spliter.auto = "reduce"`: Dask's own reductions of arrays, combined where the blocks are first.

Dask's tree combines neighbours, wherever they are. Here a tree over persisted blocks is built anew: the
leaves of each worker are combined there, then one partial per worker. So that no result changes but in
rounding:

- Only trees whose chunk, combine and aggregate functions are Dask's own and commutative (`_FAMILIES`);
  never argmin (ties go to the first), nothing that concatenates, no user's function, no objects.
- A partial of other leaves is another value, so it has another key: the tree's inner keys are named
  after their leaves. A key that a client wants, or that something outside the tree needs, keeps its
  name and its leaves.
- Homes are a hint. A worker that dies or a block that moves costs time, nothing else.

Invariant: the graph that comes out has the wanted keys of the one that went in, each with the same leaves.
"""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from dask._task_spec import Alias, List, Task, TaskRef, _execute_subgraph, _identity_cast
from dask.array import chunk as chunks
from dask.array import reductions as r
from dask.array.core import _concatenate2
from tlz.functoolz import Compose

from rask.graph.clustered.inside import opened, still_needed
from rask.graph.emit import NONE
from rask.graph.expand import reachable

logger = logging.getLogger("rask.spliter")

_LOOK = 64  #: nodes below a leaf that are looked at for its blocks

#: combine -> (aggregate, chunk functions that may feed it)
_FAMILIES: dict[Any, tuple[Any, tuple[Any, ...]]] = {
    chunks.sum: (chunks.sum, (chunks.sum, chunks.nansum)),
    chunks.prod: (chunks.prod, (chunks.prod, chunks.nanprod)),
    chunks.any: (chunks.any, (chunks.any,)),
    chunks.all: (chunks.all, (chunks.all,)),
    r.chunk_min: (chunks.min, (r.chunk_min,)),
    r.chunk_max: (chunks.max, (r.chunk_max,)),
    r._nanmin_skip: (r._nanmin_skip, (r._nanmin_skip,)),
    r._nanmax_skip: (r._nanmax_skip, (r._nanmax_skip,)),
    r.mean_combine: (r.mean_agg, (r.mean_chunk,)),
    r.moment_combine: (r.moment_agg, (r.moment_chunk,)),
}

Ask = Callable[[list], "array[int]"]


def home_first(dsk: dict, wanted: set, by_type: dict, everywhere: Mapping | None, ask: Ask) -> dict:
    """The graph with its reductions regrouped; `by_type` gets the new keys' annotations.

    `ask` tells for keys of other graphs which worker holds each, as a number; NONE: nobody."""
    if any(map(callable, (everywhere or {}).values())):
        return dsk
    dsk = reachable(dsk, wanted)
    trees = Trees(dsk, wanted).found()
    if not trees:
        return dsk
    below = {leaf: _blocks_below(dsk, leaf) for tree in trees for leaf in tree.leaves}
    outside = list({key for keys in below.values() for key in keys})
    if not outside:
        return dsk
    holder = dict(zip(outside, ask(outside), strict=False))
    homes = {leaf: _home(holder.get(key, NONE) for key in keys) for leaf, keys in below.items()}
    count = sum(_regrouped(dsk, tree, homes, by_type) for tree in trees)
    logger.info("%d of %d reductions are combined at home first", count, len(trees))
    return reachable(dsk, wanted)


# ---- which trees ------------------------------------------------------------------------------


@dataclass
class Function:
    """A function that combines partials, as Dask's `reduction` spells it."""

    base: Any
    keywords: dict[str, Any]
    concatenates: bool

    @property
    def axis(self) -> tuple[int, ...]:
        return self.keywords["axis"]

    @property
    def family(self) -> Any:
        """The combine function of its kind, for combines and for aggregates."""
        if self.base in _FAMILIES:
            return self.base
        return next((c for c, (aggregate, _) in _FAMILIES.items() if aggregate is self.base), None)

    def feeds(self, parent: Function) -> bool:
        """Whether its results are what `parent` takes, so that both are levels of one tree."""
        if self.base not in _FAMILIES or not self.keywords["keepdims"]:
            return False
        if self.axis != parent.axis or self.concatenates != parent.concatenates:
            return False
        if self.base is parent.base:
            return {**self.keywords, "keepdims": None} == {**parent.keywords, "keepdims": None}
        return _FAMILIES[self.base][0] is parent.base


def _plain(func: Any) -> tuple[Any, dict[str, Any]] | None:
    """(function, keywords) of a function or a partial of one."""
    if not isinstance(func, partial):
        return func, {}
    return None if func.args else (func.func, dict(func.keywords))


def _ours(keywords: Mapping[str, Any]) -> bool:
    """No user's function and no objects, whose sum may depend on the order, among keywords."""
    for value in keywords.values():
        if callable(value) and not isinstance(value, type | np.dtype):
            if not str(getattr(value, "__module__", "")).startswith(("numpy", "dask.")):
                return False
    dtype = keywords.get("dtype")
    return dtype is None or not np.dtype(dtype).hasobject


def _function(func: Any) -> Function | None:
    """What a task calls, if that is a combine or an aggregate of `_FAMILIES`."""
    concatenates = isinstance(func, Compose)
    if concatenates:
        joined = _plain(func.first)
        if joined is None or joined[0] is not _concatenate2 or len(func.funcs) != 1:
            return None
        func = func.funcs[0]
    plain = _plain(func)
    if plain is None or not _ours(plain[1]):
        return None
    found = Function(*plain, concatenates)
    axis = found.keywords.get("axis")
    if not isinstance(axis, tuple) or not axis or "keepdims" not in found.keywords:
        return None
    if concatenates and joined[1] != {"axes": sorted(axis)}:
        return None
    try:
        return found if found.family is not None else None
    except TypeError:  # a function that cannot be hashed
        return None


def _inputs(node: Task, depth: int) -> list | None:
    """Keys in the lists of lists that a combine takes."""
    if len(node.args) != 1 or node.kwargs:
        return None
    level: list[Any] = list(node.args)
    for _ in range(depth):
        if not all(map(_is_list, level)):
            return None
        level = [inner for item in level for inner in item.args]
    keys = []
    for item in level:
        if not isinstance(item, Alias | TaskRef):
            return None
        keys.append(item.target if isinstance(item, Alias) else item.key)
    return keys


def _is_list(item: Any) -> bool:
    return isinstance(item, List) or (
        type(item) is Task and item.func is _identity_cast and item.kwargs == {"typ": list})


@dataclass
class Combine:
    """A task that combines partials."""

    key: Any
    func: Any
    function: Function
    inputs: list
    inside: Any = None  #: its key in a fused task that goes on with what it gives


@dataclass
class Tree:
    """A combine that keeps its name, those below it that do not, and what they stand on."""

    top: Combine
    inner: list[Combine]
    leaves: list

    @property
    def fan_in(self) -> int:
        return max(2, *(len(node.inputs) for node in (self.top, *self.inner)))


class Trees:
    """Finds the trees of a graph."""

    def __init__(self, dsk: dict, wanted: set):
        self._dsk = dsk
        self._wanted = wanted
        self._functions: dict[int, Function | None] = {}  # the graph keeps the functions alive
        self._combines: dict[Any, Combine] = {}
        self._parents: dict[Any, list] = defaultdict(list)

    def found(self) -> list[Tree]:
        for key, node in self._dsk.items():
            if (combine := self._combine(key, node)) is not None:
                self._combines[key] = combine
        if not self._combines:
            return []
        for key, node in self._dsk.items():
            if self._real(key) == key:
                for dependency in map(self._real, node.dependencies):
                    if dependency in self._combines:
                        self._parents[dependency].append(key)
        for combine in self._combines.values():
            combine.inputs = list(map(self._real, combine.inputs))
        tops = [node for node in self._combines.values() if not self._is_inner(node)]
        trees = [self._tree(top) for top in tops]
        return [tree for tree in trees if tree.inner and self._sound(tree)]

    def _combine(self, key: Any, node: Any) -> Combine | None:
        if type(node) is not Task:
            return None
        if node.func is _execute_subgraph and len(node.args) > 3:
            return self._fused(key, node)
        function = self._function(node.func)
        inputs = function and _inputs(node, len(function.axis))
        return Combine(key, node.func, function, inputs) if inputs else None

    def _function(self, func: Any) -> Function | None:
        if id(func) not in self._functions:
            self._functions[id(func)] = _function(func)
        return self._functions[id(func)]

    def _fused(self, key: Any, node: Task) -> Combine | None:
        """The one combine in a fused task. Dask fuses chains: combines of one input with what is below
        them, and the last of a tree with what is done to the result."""
        inner, outkey, inkeys, args = opened(node)
        found = {k: c for k, task in inner.items() if (c := self._combine(k, task)) is not None}
        tops = found.keys() - {k for c in found.values() for k in c.inputs}
        if len(tops) != 1:
            return None
        top = lowest = found[tops.pop()]
        while len(lowest.inputs) == 1 and lowest.inputs[0] in inner:
            below = found.get(lowest.inputs[0])
            if below is None or not below.function.feeds(lowest.function):
                return None
            lowest = below
        outside = {k: a.key for k, a in zip(inkeys, args, strict=False) if isinstance(a, TaskRef)}
        others = (task for k, task in inner.items() if k != lowest.key)
        if not outside.keys() >= set(lowest.inputs) or any(
                not task.dependencies.isdisjoint(lowest.inputs) for task in others):
            return None
        return Combine(key, top.func, top.function, [outside[k] for k in lowest.inputs],
                       None if top.key == outkey else top.key)

    def _real(self, key: Any) -> Any:
        """The combine that a key only stands for."""
        node = self._dsk.get(key)
        if isinstance(node, Alias) and key not in self._wanted and node.target in self._combines:
            return node.target
        return key

    def _is_inner(self, node: Combine) -> bool:
        parents = self._parents[node.key]
        if node.key in self._wanted or node.inside is not None or len(parents) != 1:
            return False
        if type(node.key) is not tuple or not isinstance(node.key[0], str):
            return False  # not a name that Dask gave
        parent = self._combines.get(parents[0])
        return parent is not None and node.function.feeds(parent.function)

    def _tree(self, top: Combine) -> Tree:
        inner, leaves, work = [], [], list(reversed(top.inputs))
        while work:
            key = work.pop()
            node = self._combines.get(key)
            if node is not None and self._is_inner(node):
                inner.append(node)
                work.extend(reversed(node.inputs))
            else:
                leaves.append(key)
        return Tree(top, inner, leaves)

    def _sound(self, tree: Tree) -> bool:
        function = tree.inner[0].function
        return (all(node.function == function for node in tree.inner)
                and len(set(tree.leaves)) == len(tree.leaves)
                and all(self._is_partial(leaf, function) for leaf in tree.leaves))

    def _is_partial(self, key: Any, function: Function) -> bool:
        """Whether a leaf is what one of Dask's chunk functions, or this combine, gives."""
        node = _followed(self._dsk, self._dsk.get(key))
        if type(node) is Task and node.func is _execute_subgraph and len(node.args) > 3:
            inner, outkey, _, _ = opened(node)
            node = _followed(inner, inner.get(outkey))
        if type(node) is not Task:
            return False
        if (combine := _function(node.func)) is not None and not node.kwargs:
            return combine.feeds(function)
        if (plain := _plain(node.func)) is None:
            return False
        keywords = {**plain[1], **node.kwargs}
        allowed = _FAMILIES[function.base][1]
        return (any(plain[0] is chunk for chunk in allowed) and _ours(keywords)
                and keywords.get("keepdims") is True and keywords.get("axis") == function.axis)


def _followed(dsk: Mapping, node: Any) -> Any:
    while isinstance(node, Alias) and node.target in dsk and dsk[node.target] is not node:
        node = dsk[node.target]
    return node


# ---- where ------------------------------------------------------------------------------------


def _blocks_below(dsk: dict, leaf: Any) -> list:
    """Keys of other graphs that a leaf stands on; none if it stands on too much to tell."""
    found, seen, work = [], {leaf}, [leaf]
    while work:
        node = dsk.get(key := work.pop())
        if node is None:
            found.append(key)
            continue
        for dependency in node.dependencies - seen:
            seen.add(dependency)
            work.append(dependency)
        if len(seen) > _LOOK:
            return []
    return found


def _home(holders: Iterable[int]) -> int:
    """The worker that holds most of them; NONE if nobody holds any."""
    counts = Counter(holder for holder in holders if holder != NONE)
    return min(counts, key=lambda home: (-counts[home], home)) if counts else NONE


# ---- the new tree -----------------------------------------------------------------------------


def _regrouped(dsk: dict, tree: Tree, homes: dict, by_type: dict) -> bool:
    """Builds the tree anew in place; False if it stays as it is."""
    if any(homes[leaf] == NONE for leaf in tree.leaves):
        return False  # not computed yet: the scheduler gives runs of neighbours to one worker
    groups: dict[int, list] = defaultdict(list)
    for leaf in tree.leaves:
        groups[homes[leaf]].append(leaf)
    if _crossings(tree, homes) <= len(groups) - 1:
        return False
    annotations = _annotations(tree, by_type)
    if annotations is None:
        return False
    for node in tree.inner:
        del dsk[node.key]
    grow = Grower(dsk, tree, annotations, by_type)
    partials = [grow.narrowed(leaves, 1)[0] for leaves in groups.values()]
    grow.top(tree.top, grow.narrowed(partials, tree.fan_in))
    return True


def _crossings(tree: Tree, homes: dict) -> int:
    """How many partials Dask's own tree would move: each combine runs where most of its inputs are."""
    at, moved = dict(homes), 0
    for node in (*reversed(tree.inner), tree.top):  # those below come after those above
        at[node.key] = _home(at[key] for key in node.inputs)
        moved += sum(at[key] != at[node.key] for key in node.inputs)
    return moved


def _annotations(tree: Tree, by_type: dict) -> dict | None:
    """Annotation -> value of all inner keys; None if they differ."""
    found: dict = {}
    for name, values in by_type.items():
        told = [values[node.key] for node in tree.inner if node.key in values]
        if told and (len(told) < len(tree.inner) or any(value != told[0] for value in told)):
            return None
        if told:
            found[name] = told[0]
    return found


class Grower:
    """Makes a tree's new inner tasks."""

    def __init__(self, dsk: dict, tree: Tree, annotations: dict, by_type: dict):
        self._dsk = dsk
        self._annotations = annotations
        self._by_type = by_type
        self._model = tree.inner[0]
        self._fan_in = tree.fan_in
        self._axes = len(tree.top.function.axis)

    def narrowed(self, keys: list, most: int) -> list:
        """Keys of at most so many combines of these."""
        while len(keys) > most:
            keys = [self._combined(keys[i:i + self._fan_in]) for i in range(0, len(keys), self._fan_in)]
        return keys

    def top(self, top: Combine, keys: list) -> None:
        """Gives the tree's last combine these inputs."""
        if top.inside is None:
            self._dsk[top.key] = Task(top.key, top.func, self.nested(keys))
            return
        inner, outkey, inkeys, args = opened(self._dsk[top.key])
        names = [f"rask-home-{i}" for i in range(len(keys))]
        inner = {**inner, top.inside: Task(top.inside, top.func, self.nested(names))}
        inner = reachable(inner, {outkey})
        kept = still_needed(inner, inkeys)
        self._dsk[top.key] = Task(top.key, _execute_subgraph, inner, outkey,
                                  (*(inkeys[i] for i in kept), *names),
                                  *(args[i] for i in kept), *map(TaskRef, keys))

    def nested(self, keys: list) -> List:
        """The keys one below the other along the first axis, as lists of lists."""
        items: list[Any] = [TaskRef(key) for key in keys]
        for _ in range(self._axes - 1):
            items = [List(item) for item in items]
        return List(*items)

    def _combined(self, keys: list) -> Any:
        if len(keys) == 1:
            return keys[0]
        name, *places = self._model.key
        layer, _, token = name.rpartition("-")
        digest = hashlib.blake2b(repr((token, keys)).encode(), digest_size=16).hexdigest()
        key = (f"{layer}-{digest}", *(0 for _ in places))
        self._dsk[key] = Task(key, self._model.func, self.nested(keys))
        for what, value in self._annotations.items():
            self._by_type[what][key] = value
        return key
