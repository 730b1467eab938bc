"""`Worker.data`: the values this worker holds, as a mapping.

The values live on the native side, alive, packed or on disk; reading one makes it alive. Writing
is for the few places in stock code that put values without a task.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping

from distributed.sizeof import safe_sizeof as sizeof
from distributed.spill import SpilledSize

from rask.worker.execute import revive
from rask.worker.packing import describe_type


class NativeData(MutableMapping):
    def __init__(self) -> None:
        self.runtime = None

    def attach(self, runtime) -> None:
        self.runtime = runtime

    def __getitem__(self, key):
        found = self.runtime.value(key) if self.runtime is not None else None
        if found is None:
            raise KeyError(key)
        value_id, live, value = found
        return value if live else revive(self.runtime, value_id, value)

    def __setitem__(self, key, value) -> None:
        self.runtime.put(key, value, sizeof(value), describe_type(type(value)))

    def __delitem__(self, key) -> None:
        raise TypeError(f"{key!r}: values are released by the scheduler, not by hand")

    def __contains__(self, key) -> bool:
        return self.runtime is not None and self.runtime.holds(key)

    def __iter__(self) -> Iterator:
        return iter(self.runtime.keys() if self.runtime is not None else ())

    def __len__(self) -> int:
        return len(self.runtime.keys()) if self.runtime is not None else 0

    def __reduce__(self):
        return dict, (dict(self),)

    @property
    def spilled_total(self) -> SpilledSize:
        """As of a stock SpillBuffer, for metrics."""
        levels = self.runtime.levels() if self.runtime is not None else {}
        return SpilledSize(levels.get("spilled_memory", 0), levels.get("spilled_disk", 0))
