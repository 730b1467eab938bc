"""Makes walking a graph of many layers linear.

HighLevelGraph.cull hands every layer the set of all keys wanted so far, and a materialised layer
looks at each of them. A wide `delayed` merge has one layer per task, so stock walks it in quadratic
time. Here a layer is handed only the keys it has; what it answers stays the same, because a layer
ignores keys it does not know.

Called once per graph process, before the first graph.
"""

from __future__ import annotations

import functools

from dask.highlevelgraph import MaterializedLayer


def install() -> None:
    """Replaces MaterializedLayer.cull in this process."""
    stock = MaterializedLayer.cull
    if getattr(stock, "linear", False) or not hasattr(MaterializedLayer, "has_legacy_tasks"):
        return  # done already, or a release before this became quadratic

    @functools.wraps(stock)
    def cull(self, keys, all_hlg_keys):
        mine = self.mapping.keys()
        if isinstance(keys, set) and len(keys) >= len(mine):
            keys = mine & keys
            if len(keys) == len(mine) and not self.has_legacy_tasks:
                return self, {k: set(v.dependencies) for k, v in self.mapping.items()}
        return stock(self, keys, all_hlg_keys)

    cull.linear = True
    MaterializedLayer.cull = cull
