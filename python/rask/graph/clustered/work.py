"""The graph in work, and what the steps of the pass look up: settings, storage, annotations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dask._task_spec import Alias, DataNode

from rask.graph.clustered.inside import Ref
from rask.graph.clustered.settings import Settings, SettingsOf
from rask.io.storage import Storage, describe


class Work:
    """One graph while the pass rewrites it. Dictionaries given in are changed."""

    def __init__(self, dsk: dict, by_type: dict, layers: dict, settings: SettingsOf,
                 workers: Mapping | None, memory_everywhere: bool = False):  # fmt: skip
        self.dsk = dsk
        self.by_type = by_type
        self.workers = workers
        self.counts: dict[str, tuple[int, int]] = {}
        self._layers = layers
        self._settings = settings
        self._settings_of: dict[str, Settings] = {}
        self._storages: dict = {}
        self._alive: list = []  # identities are addresses
        self._annotations: dict = {}
        self._needs: dict = {}
        self._memory_everywhere = memory_everywhere

    def settings(self, layer: str) -> Settings:
        found = self._settings_of.get(layer)
        if found is None:
            found = self._settings_of[layer] = self._settings.layer(self._layers.get(layer))
        return found

    def storage(self, array) -> tuple[object, Storage | None]:
        """(identity, storage) of an array that a task names or holds."""
        if isinstance(array, Ref):
            key, node = array.key, self.dsk.get(array.key)
            while isinstance(node, Alias) and node.target in self.dsk:
                key, node = node.target, self.dsk[node.target]
            if not isinstance(node, DataNode):
                return key, None
            identity, array = ("key", key), node.value
        else:
            identity = "object", id(array)
        if identity not in self._storages:
            self._alive.append(array)
            self._storages[identity] = describe(array)
        return identity, self._storages[identity]

    @staticmethod
    def without_offset(storage: Storage) -> Storage:
        return dataclasses.replace(storage, offset=None, stamp=None)

    def annotated(self, key) -> int:
        """A number for the annotations of a task: equal ones may share a buffer."""
        if not self.by_type:
            return 0
        own = repr(sorted((n, v[key]) for n, v in self.by_type.items() if key in v))
        return self._annotations.setdefault(own, len(self._annotations))

    def annotate(self, key, like, memory: int | None, at_once) -> None:
        """A new task is annotated as another one, and with the bytes it will hold."""
        for values in self.by_type.values():
            if like in values:
                values[key] = values[like]
        if memory is not None:
            self.by_type.setdefault("memory", {})[key] = memory
        self.limit(key, at_once)

    def limit(self, key, at_once: tuple[str, int] | None) -> None:
        """How many tasks like this one may use its device at once on a worker."""
        if at_once is not None:
            rask = self.by_type.setdefault("rask", {})
            limit = {"device": at_once[0], "concurrency": at_once[1]}
            rask[key] = {**(rask.get(key) or {}), "io": limit}

    def needs(self, key, memory: int) -> None:
        """A task of the graph loads so many bytes; what the user said about it holds."""
        annotated = self.by_type.setdefault("memory", {})
        if not self._said_by_user(annotated, key):
            self._needs[key] = annotated[key] = self._needs.get(key, 0) + memory

    def _said_by_user(self, annotated: dict, key) -> bool:
        return self._memory_everywhere or (key in annotated and key not in self._needs)

    def count(self, what: str, blocks: int, buffers: int) -> None:
        b, n = self.counts.get(what, (0, 0))
        self.counts[what] = b + blocks, n + buffers
