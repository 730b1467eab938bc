"""What Python adds to a worker's heartbeats: extensions, fine metrics, custom metrics.

Heartbeats themselves are native and wait for nobody. After each one this leaves what the next
should carry; what counts since the last time (digests, extensions) is sent exactly once.

Answers to: distributed/worker.py, Worker.get_metrics and heartbeat.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from inspect import isawaitable

import msgpack
from dask.utils import key_split
from distributed.protocol import dumps
from distributed.spans import CONTEXTS_WITH_SPAN_ID

logger = logging.getLogger("distributed.worker")

#: Names the native side measures itself.
NATIVE = frozenset(
    "task_counts bandwidth digests_total_since_heartbeat managed_bytes spilled_bytes transfer "
    "event_loop_interval cpu memory time host_net_io host_disk_io num_fds".split()
)


class Digests:
    """`Worker.digests_total`: what the native side measured is added when somebody looks."""

    @property
    def digests_total(self) -> dict:
        if self.runtime is not None and threading.get_ident() == self.thread_id:
            self.add_spent()
        return self._digests_total

    @digests_total.setter
    def digests_total(self, value: dict) -> None:
        self._digests_total = value

    def add_spent(self) -> None:
        for span, family, what, seconds in self.runtime.take_spent():
            name = ("execute", span or None, family, what, "seconds")
            self._digests_total[name] += seconds
            self.digests_total_since_heartbeat[name] += seconds

    def on_metric(self, label, value: float, unit: str) -> None:
        """A task measured something with distributed.metrics.context_meter."""
        job = self.jobs.get(threading.get_ident())
        if job is None:  # the context was copied to a thread of the task's own
            return
        if unit == "seconds":
            self.runtime.told_seconds(value)
        name = ("execute", job.span or None, key_split(job.key), label, unit)
        self.loop.add_callback(self.digest_metric, name, value)


async def offer(worker) -> None:
    worker.add_spent()
    digests = worker.digests_total_since_heartbeat
    worker.digests_total_since_heartbeat = defaultdict(int)
    if spans := worker.extensions.get("spans"):
        spans.collect_digests({name: value for name, value in digests.items() if _has_span(name)})
    extensions = {
        name: extension.heartbeat()
        for name, extension in worker.extensions.items()
        if hasattr(extension, "heartbeat")
    }
    recent = worker.monitor.recent()
    worker.runtime.offer_heartbeat(
        _packed(extensions),
        _packed(_without_spans(digests)),
        _packed(await _metrics(worker, recent)),
        _rates(recent, "host_net_io"),
        _rates(recent, "host_disk_io"),
    )


def _packed(value: dict) -> bytes:
    """A msgpack map; nothing, if it holds what msgpack cannot carry."""
    if not value:
        return b""
    frames = dumps(value)
    return bytes(frames[0]) if len(frames) == 1 else b""


def _has_span(name) -> bool:
    return isinstance(name, tuple) and name[0] in CONTEXTS_WITH_SPAN_ID and bool(name[1])


def _without_spans(digests: dict) -> dict:
    out: dict = defaultdict(int)
    for key, value in digests.items():
        if isinstance(key, tuple) and key[0] in CONTEXTS_WITH_SPAN_ID:
            key = key[:1] + key[2:]
        out[key] += value
    return dict(out)


def _rates(recent: dict, name: str) -> tuple[float, float]:
    return float(recent.get(f"{name}.read_bps", 0)), float(recent.get(f"{name}.write_bps", 0))


async def _metrics(worker, recent: dict) -> dict:
    """Metrics of the system monitor and of plugins, as far as they are not native."""
    out: dict = {}
    for name, value in recent.items():
        outer, _, inner = name.partition(".")
        if outer in NATIVE:
            continue
        if inner:
            out.setdefault(outer, {})[inner] = value
        else:
            out[name] = value
    for name, metric in worker.metrics.items():
        try:
            value = metric(worker)
            value = await value if isawaitable(value) else value
            msgpack.dumps(value)
        except Exception:
            logger.debug("metric %s failed", name, exc_info=True)
        else:
            if name not in NATIVE:
                out.setdefault(name, value)
    return out
