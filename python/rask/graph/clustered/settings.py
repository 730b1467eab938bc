"""Which settings of clustered I/O hold for an array.

In order of precedence: `dask.annotate(rask={"io": {…}})` around the array's making, the same around
compute, `rask.configure`, and the scheduler's own configuration `rask.io.*`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dask import config

from rask.configure import checked

_PREFIX = "io."
#: Of a worker's memory, all buffers that its threads may hold at once.
_SHARE = 0.3
_UNKNOWN_MEMORY = 256 << 20


@dataclass(frozen=True)
class Settings:
    """Settings of one array."""

    cluster: bool = False
    stores: bool = True
    native: bool = True
    buffer_bytes: int | None = None
    order: str = "auto"
    concurrency: int | tuple | None = None

    def at_once(self, path: str) -> tuple[str, int] | None:
        """(device, tasks of a worker that may use it at once) of a file."""
        if self.concurrency is None:
            return None
        if isinstance(self.concurrency, int):
            return "default", self.concurrency
        best = None
        for folder, n in self.concurrency:
            whole = os.path.join(folder, "")
            if path.startswith(whole) and (best is None or len(folder) > len(best[0])):
                best = folder, n
        return best or next(((f, n) for f, n in self.concurrency if f == "default"), None)


class SettingsOf:
    """Resolves the settings of layers, given what holds for the whole submission."""

    def __init__(self, configured: Mapping | None, everywhere: Mapping | None):
        self._common = _own_configuration()
        for name, value in (configured or {}).items():
            if value is not None and name.startswith(_PREFIX):
                self._common.update([checked(name, value)])
        self._common.update(from_annotation((everywhere or {}).get("rask")))

    def layer(self, annotation) -> Settings:
        """Settings of a layer with this `rask` annotation."""
        named = {**self._common, **from_annotation(annotation)}
        fields = {n.removeprefix(_PREFIX).replace("-", "_"): v for n, v in named.items()}
        if isinstance(fields.get("concurrency"), Mapping):
            fields["concurrency"] = tuple(sorted(fields["concurrency"].items()))
        return Settings(**fields)

    @property
    def quiet(self) -> bool:
        """Nothing is switched on for the submission as a whole."""
        return not self._common.get("io.cluster")


def from_annotation(annotation) -> dict:
    """The settings in `rask={"io": {…}}`; `{"io": True}` switches on with defaults."""
    if not isinstance(annotation, Mapping) or annotation.get("io") is None:
        return {}
    given = annotation["io"]
    if isinstance(given, bool):
        given = {"cluster": given}
    if not isinstance(given, Mapping):
        raise ValueError(f'dask.annotate(rask={{"io": …}}): a map of settings, not {given!r}')
    given = {n: v for n, v in given.items() if n != "device"}  # a hint to admission
    where = 'dask.annotate(rask={"io": …})'
    return dict(checked(_PREFIX + str(n), v, where) for n, v in given.items() if v is not None)


def _own_configuration() -> dict:
    found = config.get("rask.io", None) or {}
    items = (checked(_PREFIX + str(n), v, "configuration rask.io") for n, v in found.items())
    return {n: v for n, v in items if v is not None}


def bound(settings: Settings, total: int, workers: Mapping | None) -> int:
    """Bytes of one buffer: as set, or so that all threads get some and none can fill a worker."""
    if settings.buffer_bytes is not None:
        return settings.buffer_bytes
    workers = workers or {}
    limit, threads = workers.get("memory") or 0, max(1, workers.get("threads") or 1)
    most = int(_SHARE * limit / threads) if limit else _UNKNOWN_MEMORY
    return max(1, min(most, -(-total // (2 * max(1, workers.get("all-threads") or 1)))))
