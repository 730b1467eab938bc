"""The order of a graph's tasks: the one place that decides it.

The native ordering works on numbers with the GIL released; `rask.graph.order: dask` in Dask's
configuration asks for dask.order instead, which also serves where the extension is not built.

Answers to: the call of dask.order.order in distributed.scheduler.Scheduler.update_graph.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import count

import dask
import dask.order
from dask._task_spec import DataNode

try:
    from rask._native import _graph
except ImportError:
    _graph = None


def order(dsk: dict) -> dict:
    """Key -> place; a small place runs early. `dsk` is a graph of nodes."""
    if _graph is None or dask.config.get("rask.graph.order", "native") == "dask":
        return dask.order.order(dsk=dsk)
    places = array("q")
    try:
        places.frombytes(_graph.order(*_columns(dsk)))
    except _graph.CycleError:
        return dask.order.order(dsk=dsk)  # words it as stock does
    return dict(zip(dsk, places))


def _columns(dsk: dict) -> tuple[array, array, bytearray]:
    """Dependencies as numbers: offsets, numbers, and 1 for nodes that are data."""
    numbers = defaultdict(count(len(dsk)).__next__, zip(dsk, count()))  # what is elsewhere: behind
    ends = array("I", [0])
    dependencies = array("I")
    kinds = bytearray(len(dsk))
    for i, node in enumerate(dsk.values()):
        dependencies.extend(map(numbers.__getitem__, node.dependencies))
        ends.append(len(dependencies))
        if type(node) is DataNode:
            kinds[i] = 1
    return ends, dependencies, kinds
