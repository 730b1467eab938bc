"""Dask's configuration, resolved and made readable without Python.

The launchers read YAML files, `DASK_*` variables and inherited configuration through
`dask.config`, exactly as stock Dask does, and hand the result to the native side as one flat
msgpack map: dotted key -> null, bool, number, string or list. Durations become seconds and sizes
bytes here, so that the native side never parses "5 minutes" or "1 kiB".

Invariant: every leaf below `distributed`, `rask` and `temporary-directory` is in the map.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import dask.config
import msgpack
from dask.utils import parse_bytes, parse_timedelta

ROOTS = ("distributed", "rask", "temporary-directory")

SECONDS = (
    "distributed.scheduler.events-cleanup-delay",
    "distributed.scheduler.idle-timeout",
    "distributed.scheduler.no-workers-timeout",
    "distributed.scheduler.work-stealing-interval",
    "distributed.scheduler.worker-ttl",
    "distributed.scheduler.unknown-task-duration",
    "distributed.scheduler.default-task-durations.",
    "distributed.scheduler.locks.",
    "distributed.scheduler.active-memory-manager.interval",
    "distributed.worker.memory.recent-to-old-time",
    "distributed.worker.memory.monitor-interval",
    "distributed.worker.lifetime.duration",
    "distributed.worker.lifetime.stagger",
    "distributed.worker.profile.interval",
    "distributed.worker.profile.cycle",
    "distributed.client.heartbeat",
    "distributed.client.scheduler-info-interval",
    "distributed.deploy.lost-worker-timeout",
    "distributed.adaptive.interval",
    "distributed.adaptive.target-duration",
    "distributed.comm.retry.delay.",
    "distributed.comm.timeouts.",
    "distributed.p2p.comm.retry.delay.",
    "distributed.admin.tick.",
    "distributed.admin.system-monitor.interval",
    "rask.memory.patience",
    "rask.memory.too-large-grace",
    "rask.worker.prefetch",
)
BYTES = (
    "distributed.scheduler.bandwidth",
    "distributed.scheduler.default-data-size",
    "distributed.worker.transfer.message-bytes-limit",
    "distributed.worker.memory.max-spill",
    "distributed.comm.shard",
    "distributed.comm.offload",
    "distributed.comm.websockets.shard",
    "distributed.p2p.comm.buffer",
    "distributed.p2p.comm.message-bytes-limit",
    "distributed.p2p.storage.buffer",
    "distributed.admin.large-graph-warning-threshold",
)

FREE = (".default-task-durations", ".resources", ".environ", ".pre-spawn-environ")


def flat_config() -> dict[str, Any]:
    """The resolved configuration as a flat map of plain values."""
    import distributed  # noqa: F401  its defaults and renamed keys join dask.config on import

    found: dict[str, Any] = {}
    for root in ROOTS:
        value = dask.config.get(root, None)
        found |= {key: _plain(key, leaf) for key, leaf in _leaves(root, value)}
    return found


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            # "-" and "_" mean the same to dask.config, except in names that users made up.
            plain = str(name) if prefix.endswith(FREE) else str(name).replace("_", "-")
            yield from _leaves(f"{prefix}.{plain}", inner)
    else:
        yield prefix, value


def _plain(key: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain("", item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain("", inner) for name, inner in value.items()}
    if value is None or isinstance(value, bool):
        return value
    if any(key == name or (name.endswith(".") and key.startswith(name)) for name in SECONDS):
        return float(parse_timedelta(value))
    if key in BYTES:
        return int(parse_bytes(value))
    if key == "distributed.scheduler.worker-saturation":
        return float(value)  # "inf" is allowed
    return value if isinstance(value, (int, float, str)) else str(value)


def config_file() -> str:
    """Writes the map to an anonymous file that survives exec; gives a path to open it by."""
    descriptor = os.memfd_create("rask-config", 0)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(msgpack.packb(flat_config()))
    return f"/proc/self/fd/{descriptor}"
