"""`rask.configure`: switches of a running scheduler, set from a stock client.

A client's `dask.config` does not travel; scheduler metadata does, so that is where settings are
kept: one entry per dotted name under `rask-settings`. The scheduler hands them to graph processes
with every graph, and its core hears of `spliter.*`, `worker.prefetch` and `memory.*` at once. A
stock scheduler keeps them too and does nothing with them.

Every name is listed here with its check, so that a misspelled one is an error at once.
This module can be called: `rask.configure(client, {…})` is its `configure`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

#: Where settings are kept in the scheduler's metadata.
PLACE = "rask-settings"


def _switch(value):
    if not isinstance(value, bool):
        raise ValueError("True or False")
    return value


def _bytes(value):
    from dask.utils import parse_bytes

    number = parse_bytes(value)
    if number < 1:
        raise ValueError("a number of bytes")
    return number


def _order(value):
    if value not in ("auto", "C", "F"):
        raise ValueError('"auto", "C" or "F"')
    return value


def _count(value):
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("a number of tasks, or a map of folders to numbers")
    return value


def _concurrency(value):
    if isinstance(value, Mapping):
        return {str(folder): _count(n) for folder, n in value.items()}
    return _count(value)


def _fraction(value):
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ValueError("a part of a worker's memory, above 0 and at most 1")
    return float(value)


def _automatic(value):
    if value is False:  # what YAML makes of a bare off
        return "off"
    if value not in ("off", "batch", "reduce"):
        raise ValueError('"off", "batch" or "reduce"')
    return value


def _scheme(value):
    from rask.spliter.placement import SCHEMES

    if value not in SCHEMES:
        raise ValueError(f"one of {', '.join(SCHEMES)}")
    return value


def _seconds(value):
    from dask.utils import parse_timedelta

    try:
        seconds = parse_timedelta(value)
    except KeyError:
        seconds = -1
    if not 0 <= seconds < 3600:
        raise ValueError("a time like \"2 ms\"")
    return float(seconds)


#: Dotted name -> check, which gives the value to keep or says what it should be.
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "io.cluster": _switch,
    "io.stores": _switch,
    "io.native": _switch,
    "io.buffer-bytes": _bytes,
    "io.order": _order,
    "io.concurrency": _concurrency,
    "memory.budget": _fraction,
    "memory.patience": _seconds,
    "memory.too-large-grace": _seconds,
    "spliter.auto": _automatic,
    "spliter.batches": _scheme,
    "worker.prefetch": _seconds,
}


def checked(name: str, value: Any, where: str = "rask.configure") -> tuple[str, Any]:
    """(canonical name, value to keep); None unsets. ValueError for what is not a setting."""
    canonical = str(name).replace("_", "-")
    check = SETTINGS.get(canonical)
    if check is None:
        known = ", ".join(sorted(SETTINGS))
        raise ValueError(f"{where}: no setting is called {name!r}; there are {known}")
    if value is None:
        return canonical, None
    try:
        return canonical, check(value)
    except (ValueError, TypeError, AttributeError) as e:
        raise ValueError(f"{where}: {canonical} is {value!r}, expected {e}") from e


def configure(client, settings: Mapping[str, Any]):
    """Sets switches of the scheduler that `client` is connected to, for all its clients.

    `rask.configure(client, {"io.cluster": True, "io.buffer-bytes": "256 MiB"})`; None takes a
    setting back. To be awaited with an asynchronous client.
    """
    items = [checked(name, value) for name, value in settings.items()]
    return client.sync(_send, client, items)


async def _send(client, items: list[tuple[str, Any]]) -> None:
    for name, value in items:
        await client.scheduler.set_metadata(keys=[PLACE, name], value=value)


class _Callable(ModuleType):
    def __call__(self, client, settings):
        return configure(client, settings)


sys.modules[__name__].__class__ = _Callable
