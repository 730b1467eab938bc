"""The pass as one function: decides whether there is anything to do, then does it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from dask import config
from dask._expr import Expr
from dask.highlevelgraph import HighLevelGraph

from rask.graph.expand import reachable
from rask.graph.clustered.settings import SettingsOf, from_annotation

logger = logging.getLogger("rask.io")


def layer_annotations(expr) -> dict:
    """Layer name -> its `rask` annotation. Dask drops these when it fuses, so look before."""
    found: dict = {}
    work, seen = [expr], set()
    while work:
        node = work.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, HighLevelGraph):
            for name, layer in node.layers.items():
                if layer.annotations and (own := layer.annotations.get("rask")) is not None:
                    found[name] = own
        elif isinstance(node, Expr):  # never getattr on the rest: a Delayed has every attribute
            work.extend(o for o in node.operands if isinstance(o, HighLevelGraph | Expr))
    return found


def without_settings(annotation):
    """A `rask` annotation without what was for this pass; a limit of a device is for the core."""
    if not isinstance(annotation, Mapping) or not isinstance(annotation.get("io"), Mapping | bool):
        return annotation
    if isinstance(annotation["io"], Mapping) and "device" in annotation["io"]:
        return annotation
    return {name: value for name, value in annotation.items() if name != "io"} or None


def settings_are_used_up(by_type: dict, everywhere: dict | None) -> None:
    """What was said to this pass is not said to every task."""
    if everywhere and "rask" in everywhere:
        everywhere["rask"] = without_settings(everywhere["rask"])
        if everywhere["rask"] is None:
            del everywhere["rask"]
    if "rask" in by_type:
        by_type["rask"] = {k: without_settings(v) for k, v in by_type["rask"].items()}


def clustered(dsk: dict, wanted: set, by_type: dict, layers: Mapping, everywhere: Mapping | None,
              header: Mapping) -> dict:  # fmt: skip
    """The graph with loads and stores in buffers; `by_type` gets the new tasks' annotations.

    `header` has what `rask.configure` set (`settings`) and the `workers` there are.
    """
    everywhere = everywhere or {}
    configured = header.get("settings")
    own = layers or "rask" in everywhere or configured or config.get("rask.io", None)
    if not own or any(map(callable, everywhere.values())):
        return dsk
    settings = SettingsOf(configured, everywhere)
    if settings.quiet and not any(map(from_annotation, layers.values())):
        return dsk
    from rask.graph.clustered.loads import cluster_loads
    from rask.graph.clustered.stores import cluster_stores
    from rask.graph.clustered.work import Work

    work = Work(_needed(dsk, wanted), by_type, dict(layers), settings, header.get("workers"),
                "memory" in everywhere)  # fmt: skip
    for layer in layers:
        work.settings(layer)  # a wrong one is the user's error
    try:
        cluster_stores(work)
        cluster_loads(work)
    except Exception:
        logger.warning("clustered I/O gave up on a graph; it runs as it was", exc_info=True)
        return dsk
    for what, (blocks, buffers) in work.counts.items():
        logger.info("%s of %d blocks in %d buffers", what, blocks, buffers)
    return work.dsk


def _needed(dsk: dict, wanted: set) -> dict:
    """A copy of what is needed, in the graph's own order: tasks that are equal otherwise run in it."""
    needed = reachable(dsk, wanted)
    return {key: node for key, node in dsk.items() if key in needed}
