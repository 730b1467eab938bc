"""The order of a graph's tasks: the one place that decides it."""

from __future__ import annotations

import dask.order


def order(dsk: dict) -> dict:
    """Key -> place; a small place runs early. `dsk` is a graph of nodes."""
    return dask.order.order(dsk=dsk)
