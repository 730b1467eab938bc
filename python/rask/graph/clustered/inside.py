"""Looks into tasks: calls of known functions in them, what their arguments are, and new ones.

A task calls a function either directly or inside a fused task, whose inner graph Dask's blockwise
fusion shares between siblings. Rewritten inner graphs are shared in the same way: what differs
between siblings is passed in from outside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, _execute_subgraph

_FUSED_NAME = re.compile(r"(_\.\d+)+$")


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that is another task's result."""

    key: Any


class Inside(Exception):
    """An argument is computed inside the fused task."""


class Call:
    """A call of one of the sought functions: the site, and what is passed in to it here."""

    __slots__ = ("key", "site", "_args")

    def __init__(self, key, site: Site, args):
        self.key = key  #: of the task it is part of
        self.site = site
        self._args = args

    @property
    def inner(self):
        """Its key inside a fused task; None: it is the task."""
        return self.site.inner

    def argument(self, position: int, name: str, default=None):
        """Ref, or the value itself; Inside if it is neither."""
        known, value = self.site.argument(position, name, default)
        if known:
            return value
        arg = self._args[value]
        return arg.value if type(arg) is DataNode else _outer(arg)

    def raw(self, position: int):
        return self.site.task.args[position]

    def passed(self, name):
        """What the fused task passes in under this name; None: nothing."""
        at = self.site.inputs.get(name)
        return None if at is None else self._args[at]


class Site:
    """The place of a call in a task, or in the inner graph that fused siblings share.

    What is the same for all siblings is found once.
    """

    def __init__(self, key, inner, task: Task, inkeys=()):
        self.inner = inner
        self.task = task
        self.inputs = {name: i for i, name in enumerate(inkeys)}
        name = key if inner is None else inner
        self.layer = _layer(str(name[0] if isinstance(name, tuple) else name))
        self._arguments: dict[str, tuple] = {}

    def argument(self, position: int, name: str, default) -> tuple:
        """(True, value), or (False, which of the fused task's inputs it is)."""
        found = self._arguments.get(name)
        if found is None:
            given, args = self.task.kwargs, self.task.args
            arg = given[name] if name in given else args[position] if position < len(args) else default
            found = self._arguments[name] = self._resolved(arg)
        return found

    def _resolved(self, arg) -> tuple:
        if self.inner is not None and isinstance(arg, TaskRef | Alias):
            key = arg.target if isinstance(arg, Alias) else arg.key
            if key not in self.inputs:
                raise Inside(key)
            return False, self.inputs[key]
        return True, _outer(arg)


@lru_cache(1000)
def _layer(name: str) -> str:
    """The layer that a task of this name came from, also inside fused tasks."""
    return _FUSED_NAME.sub("", name)


def _outer(arg):
    if isinstance(arg, DataNode):
        return arg.value
    if isinstance(arg, Alias):
        return Ref(arg.target)
    if isinstance(arg, TaskRef):
        return Ref(arg.key)
    if isinstance(arg, GraphNode):
        if arg.dependencies:
            raise Inside(arg)
        return arg()
    return arg


class Calls:
    """Finds calls of given functions in tasks."""

    def __init__(self, functions):
        self._functions = set(functions)
        self._known: dict[tuple, tuple] = {}  # inner graph, names of its inputs -> (it, its sites)

    def of(self, key, node) -> list[Call]:
        if not isinstance(node, Task):
            return []
        if node.func is not _execute_subgraph:
            return [Call(key, Site(key, None, node), ())] if self._sought(node) else []
        if node.kwargs or len(node.args) < 3:
            return []
        inner, _, inkeys, args = opened(node)
        place = id(inner), tuple(inkeys)
        known = self._known.get(place)
        if known is None:
            sites = [Site(key, k, task, inkeys) for k, task in inner.items()
                     if isinstance(task, Task) and self._sought(task)]  # fmt: skip
            known = self._known[place] = inner, sites
        return [Call(key, site, args) for site in known[1]] if known[1] else []

    def _sought(self, task: Task) -> bool:
        try:
            return task.func in self._functions
        except TypeError:  # a function that cannot be hashed
            return False


class Rewriter:
    """Makes tasks in which some calls are others; inner graphs of siblings stay shared."""

    def __init__(self):
        self._made: dict[tuple, tuple] = {}

    def task(self, node: Task, calls: dict, data_producer: bool) -> Task:
        """`calls`: inner key (None: the task itself) -> (function, arguments)."""
        if None in calls:
            function, arguments = calls[None]
            return Task(node.key, function, *arguments, _data_producer=data_producer)
        inner, outkey, inkeys, args = opened(node)
        shape = tuple((k, function, len(arguments)) for k, (function, arguments) in calls.items())
        made = self._made.get((id(inner), shape))
        if made is None:
            made = self._made[id(inner), shape] = *self._inner(inner, inkeys, calls), inner
        new_inner, kept, added, _ = made
        passed = [args[i] for i in kept]
        for _, arguments in calls.values():
            passed.extend(arguments)
        keys = tuple(inkeys[i] for i in kept) + added
        return Task(node.key, _execute_subgraph, new_inner, outkey, keys, *passed,
                    _data_producer=data_producer)  # fmt: skip

    @staticmethod
    def _inner(inner: dict, inkeys, calls: dict) -> tuple:
        """(inner graph, which of the old inputs it still needs, names of new inputs)."""
        new, added = dict(inner), []
        for k, (function, arguments) in calls.items():
            names = [f"rask-io-{len(added) + i}" for i in range(len(arguments))]
            added.extend(names)
            new[k] = Task(k, function, *map(TaskRef, names))
        return new, still_needed(new, inkeys), tuple(added)


def opened(node: Task) -> tuple:
    """(inner graph, its output, names of its inputs, inputs) of a fused task."""
    inner, outkey, inkeys, *args = node.args
    if isinstance(inner, DataNode) or isinstance(outkey, DataNode) or isinstance(inkeys, DataNode):
        inner, outkey, inkeys = (a.value if isinstance(a, DataNode) else a for a in node.args[:3])
    return inner, outkey, inkeys, args


def still_needed(inner: dict, inkeys) -> list[int]:
    used = set()
    for node in inner.values():
        used |= node.dependencies
    return [i for i, k in enumerate(inkeys) if k in used]
