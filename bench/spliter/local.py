"""Experiments without a cluster: what the kernels themselves cost on one core.

They are timed by their CPU clock, which a busy machine hardly disturbs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spliter import kernels
from spliter.plan import PIECE_ROWS, Sizes

Say = Callable[[dict], None]


def _median(repeats: int, run: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds)


def histogram_kernel(sizes: Sizes, say: Say) -> None:
    """The same points as one block and as sixteen."""
    pieces = min(sizes.floor_pieces, 16 * 64)
    whole = kernels.uniform(range(pieces), PIECE_ROWS, kernels.DIMENSIONS)
    parts = [part.copy() for part in np.array_split(whole, 16)]
    assert (kernels.histogram(whole) == kernels.add(map(kernels.histogram, parts))).all()
    for count, blocks in ((1, [whole]), (16, parts)):
        say({"app": "histogram", "backend": "local", "mode": "kernel", "what": "kernel",
             "blocks": count, "rows": len(whole), "agrees": True,
             "seconds": [_median(1, lambda: [kernels.histogram(b) for b in blocks])
                         for _ in range(max(3, sizes.repeats))]})


def knn_trees(sizes: Sizes, say: Say) -> None:
    """Table 1 and Figs 18, 19: one big tree or several small ones over the same points."""
    total = sizes.tree_rows[0]
    points = kernels.uniform(range(1), total, 3)
    query = kernels.uniform(range(1, 2), sizes.tree_query_rows, 3)
    expected = None
    for rows in sizes.tree_rows:
        starts = range(0, total, rows)
        trees = [kernels.Tree(points[i:i + rows], i) for i in starts]
        fit = _median(sizes.repeats, lambda: [kernels.Tree(points[i:i + rows], i) for i in starts])
        look = _median(sizes.repeats, lambda: [tree.lookup(query) for tree in trees])
        found = kernels.nearest([tree.lookup(query) for tree in trees])
        expected = expected or found
        say({"app": "knn", "backend": "local", "mode": "trees", "what": "trees", "rows": rows,
             "trees": len(trees), "seconds": [fit + look], "fit": fit, "lookup": look,
             "query_rows": len(query), "agrees": found == expected})


LOCAL: dict[tuple[str, str], Callable[[Sizes, Say], None]] = {
    ("histogram.kernel", "local"): histogram_kernel,
    ("knn.trees", "local"): knn_trees,
}
