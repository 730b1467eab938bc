"""What dask.annotate says about each task, resolved and numbered.

Siblings mostly share their annotations, so each distinct set is sent once and tasks name it by
number. Global annotations may be callables of the key; those of layers and keys win over global ones.

Answers to: distributed.scheduler.Scheduler._apply_annotations and the user part of _set_priorities.
"""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Mapping

import msgpack
from dask.utils import parse_bytes
from distributed.comm.addressing import unparse_host_port
from distributed.protocol.pickle import dumps as dask_dumps
from distributed.protocol.serialize import msgpack_encode_default

from rask.graph.emit import NONE

MOST_BYTES = 2**60

class AnnotationSets:
    """Numbers the annotation sets of one submission."""

    def __init__(self, by_type: dict | None, everywhere: dict | None):
        self._by_type = {k: v for k, v in (by_type or {}).items() if v}
        self._everywhere = everywhere or {}
        self._constant = not self._by_type and not any(map(callable, self._everywhere.values()))
        self._numbers: dict[bytes, int] = {}
        self._constant_number: int | None = None
        self.unsent: list[dict] = []

    @property
    def empty(self) -> bool:
        return self._constant and not self._everywhere

    def number(self, key) -> int:
        """The set of one task; NONE if it has no annotations. May raise what user code raises."""
        if self._constant:
            if self._constant_number is None:
                self._constant_number = self._numbered(self._everywhere)
            return self._constant_number
        resolved = {
            name: value(key) if callable(value) else value
            for name, value in self._everywhere.items()
        }
        for name, values in self._by_type.items():
            if (value := values.get(key)) is not None:
                resolved[name] = value
        return self._numbered(resolved)

    def take(self) -> list[dict]:
        """Sets not sent yet."""
        unsent, self.unsent = self.unsent, []
        return unsent

    def _numbered(self, resolved: dict) -> int:
        if not resolved:
            return NONE
        fields = _fields(resolved)
        identity = msgpack.packb(fields, use_bin_type=True)
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = len(self._numbers)
            self.unsent.append(fields)
        return number


def _bytes(value) -> int:
    """Bytes of an annotation `memory`: a number, or text like "2 GB"."""
    number = None
    if isinstance(value, (numbers.Real, str)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            number = parse_bytes(value) if isinstance(value, str) else int(value)
    if number is None or not 0 <= number <= MOST_BYTES:
        raise ValueError(f"annotation memory={value!r} is not a number of bytes")
    return number


def _device_limit(rask) -> dict | None:
    """How many tasks of one device may run at once on a worker; None if that is not said."""
    io = rask.get("io") if isinstance(rask, Mapping) else None
    if not isinstance(io, Mapping) or "device" not in io or "concurrency" not in io:
        return None
    most = io["concurrency"]
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ValueError(f"annotation rask: io concurrency {most!r} is not a positive number")
    return {"device": str(io["device"]), "concurrency": min(most, 2**32 - 1)}


def _workers(value) -> list:
    """Names, addresses and hosts of workers. A number may be a worker's name; the scheduler knows."""
    return [_worker(w) for w in (value if isinstance(value, (list, tuple, set)) else [value])]


def _worker(value):
    hash(value)  # stock looks it up among the names of workers
    if isinstance(value, tuple):
        return unparse_host_port(*value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if not isinstance(value, (str, float, bytes)):
        raise TypeError(f"addresses should be strings or tuples, got {value!r}")
    return value


def _resources(value) -> dict:
    assert isinstance(value, dict)
    resources = {str(k): float(v) for k, v in value.items()}
    if any(map(math.isnan, resources.values())):
        raise ValueError(f"annotation resources={value!r} has an amount that is not a number")
    return resources


def _priority(value) -> float:
    priority = float(-(-value))  # a priority that cannot be negated is an error
    return 0.0 if math.isnan(priority) else priority


def _fields(resolved: dict) -> dict:
    fields: dict = {"priority": 0.0, "retries": 0, "workers": [], "allow_other_workers": False,
                    "resources": {}}  # fmt: skip
    for name, value in resolved.items():
        if name in ("restrictions", "workers"):
            fields["workers"] = _workers(value)
        elif name in ("loose_restrictions", "allow_other_workers"):
            fields["allow_other_workers"] = bool(value)
        elif name == "resources":
            fields["resources"] = _resources(value)
        elif name == "retries":
            assert isinstance(value, int)
            fields["retries"] = min(max(int(value), 0), 2**32 - 1)
        elif name == "priority":
            fields["priority"] = _priority(value)
        elif name == "memory" and value is not None:
            fields["memory"] = _bytes(value)
        elif name == "rask" and (limit := _device_limit(value)):
            fields["io"] = limit
    try:
        fields["raw"] = msgpack.packb(
            resolved, use_bin_type=True, default=msgpack_encode_default
        )
    except Exception:
        fields["pickled"] = dask_dumps(resolved)
    return fields
