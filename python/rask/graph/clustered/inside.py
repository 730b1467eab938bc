"""Looks into tasks: calls of known functions in them, what their arguments are, and new ones.

A task calls a function either directly or inside a fused task, whose inner graph Dask's blockwise
fusion shares between siblings. Rewritten inner graphs are shared in the same way: what differs
between siblings is passed in from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef, _execute_subgraph


@dataclass(frozen=True)
class Ref:
    """An argument that is another task's result."""

    key: Any


class Inside(Exception):
    """An argument is computed inside the fused task."""


@dataclass(slots=True)
class Call:
    """A call of one of the sought functions."""

    key: Any  #: the task it is part of
    inner: Any  #: its key inside a fused task; None: it is the task
    task: Task
    env: dict  #: what the fused task passes in

    def argument(self, position: int, name: str, default=None):
        """Ref, or the value itself; Inside if it is neither."""
        if name in self.task.kwargs:
            return self._resolved(self.task.kwargs[name])
        if position < len(self.task.args):
            return self._resolved(self.task.args[position])
        return default

    def raw(self, position: int):
        return self.task.args[position]

    def _resolved(self, arg):
        if isinstance(arg, TaskRef | Alias):
            key = arg.target if isinstance(arg, Alias) else arg.key
            if self.inner is None:
                return Ref(key)
            if key not in self.env:
                raise Inside(key)
            return _outer(self.env[key])
        return _outer(arg)


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
        self._known: dict[int, tuple] = {}  # inner graph -> (it, its calls)

    def of(self, key, node) -> list[Call]:
        if not isinstance(node, Task):
            return []
        if node.func is not _execute_subgraph:
            return [Call(key, None, node, {})] if self._sought(node) else []
        if node.kwargs or len(node.args) < 3:
            return []
        inner, _, inkeys, *args = node.args
        inner = inner.value if isinstance(inner, DataNode) else inner
        inkeys = inkeys.value if isinstance(inkeys, DataNode) else inkeys
        if id(inner) not in self._known:
            found = [(k, t) for k, t in inner.items() if isinstance(t, Task) and self._sought(t)]
            self._known[id(inner)] = inner, found
        found = self._known[id(inner)][1]
        if not found:
            return []
        env = dict(zip(inkeys, args, strict=False))
        return [Call(key, k, task, env) for k, task in found]

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
    plain = [a.value if isinstance(a, DataNode) else a for a in (inner, outkey, inkeys)]
    return *plain, args


def still_needed(inner: dict, inkeys) -> list[int]:
    used = set()
    for node in inner.values():
        used |= node.dependencies
    return [i for i, k in enumerate(inkeys) if k in used]
