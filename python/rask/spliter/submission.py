"""How a partition becomes a task: real dependencies, a soft pin, and a key that says what it is.

All tasks of one call travel in one graph: what a graph costs, the client and the scheduler pay once.

The pin is `workers=[home], allow_other_workers=True`: the scheduler runs the task at home if home
is there and somewhere else otherwise. Keys are named after the user's function, so dashboards and
duration estimates see that function; equal calls on equal partitions share a key when pure.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

import dask
from dask._expr import HLGExpr
from dask._task_spec import Task, parse_input
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.utils import funcname
from distributed import Future

from rask.spliter.tasks import PartitionTask, Refs, by_value


def token_of(worker: str, label: bytes) -> str:
    """Names a partition by its blocks."""
    digest = hashlib.blake2b(worker.encode(), digest_size=16)
    digest.update(label)
    return digest.hexdigest()


def call_token(pure: bool, *call: Any) -> str:
    return tokenize(*call) if pure else uuid.uuid4().hex


def key_for(fn: Any, *tokens: str) -> str:
    digest = hashlib.blake2b("/".join(tokens).encode(), digest_size=16)
    return f"{funcname(fn)}-{digest.hexdigest()}"


class Batch:
    """Tasks that go to the scheduler together, as one graph; a layer of it per home.

    `add` gives a task's key, which later tasks of the batch may take by `TaskRef`; `send` gives
    futures of those that somebody wants. The others are the scheduler's to forget.
    """

    def __init__(self, client: Any):
        self.client = client
        self._layers: dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Task]]] = {}

    def add(self, key: str, task: Callable[..., Any], *args: Any, home: str | None = None,
            lazy: dict[str, Any] | None = None, retries: int = 0, priority: int = 0) -> str:
        """A task that prefers `home`. A rask worker reads the results in argument `lazy["lazy"]`
        one by one, when the task asks for each; others pass them all."""
        kind = home, lazy is None or tuple(lazy.items()), retries, priority
        if kind not in self._layers:
            self._layers[kind] = _annotations(home, lazy, retries, priority), {}
        args = tuple(map(parse_input, args))
        make = PartitionTask if any(isinstance(argument, Refs) for argument in args) else Task
        self._layers[kind][1][key] = make(key, by_value(task), *args)
        return key

    def send(self, wanted: list[str]) -> list[Future]:
        """Futures of the wanted keys. Those the client has already are not asked for again."""
        with self.client._refcount_lock:  # as submit: what it has must not go meanwhile
            found = {key: Future(key, self.client) for key in wanted if key in self.client.futures}
        new = [key for key in wanted if key not in found]
        if new:
            layers = {f"spliter-{uuid.uuid4().hex}": MaterializedLayer(tasks, annotations or None)
                      for annotations, tasks in self._layers.values()}
            graph = HighLevelGraph(layers, {name: set() for name in layers})
            futures = self.client.get(HLGExpr(graph, output_keys=new), new, sync=False)
            found.update(zip(new, futures))
        return [found[key] for key in wanted]


def _annotations(home: str | None, lazy: dict[str, Any] | None, retries: int,
                 priority: int) -> dict[str, Any]:
    found: dict[str, Any] = {"workers": [home], "allow_other_workers": True} if home else {}
    if lazy is not None:
        found["rask"] = {**(dask.get_annotations().get("rask") or {}), **lazy}
    if retries:
        found["retries"] = retries
    if priority:
        found["priority"] = priority
    return found
