"""What runs on the workers: the paper's kernels, and kernels that sleep in their place.

Workers import this module. Every kernel counts its calls and the rows it was given, per process, so
that modes which do unequal work are found out.

Invariant: equal rows in all modes of one application; calls may differ, because one call takes a
block in some modes and a whole partition in others.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import threading
import time
from typing import Any

import numpy as np

_lock = threading.Lock()
_counts: dict[str, list[int]] = {}


def counted(name: str, rows: int) -> None:
    with _lock:
        entry = _counts.setdefault(name, [0, 0])
        entry[0] += 1
        entry[1] += rows


def take_counts() -> dict[str, list[int]]:
    """Calls and rows per kernel since the last time, in this process."""
    with _lock:
        taken = {name: list(entry) for name, entry in _counts.items()}
        _counts.clear()
    return taken


# ---- blocks ------------------------------------------------------------------------------------


def uniform(pieces: range, rows: int, columns: int) -> Any:
    """A block of uniform numbers, made of pieces: however they are grouped, the data is the same."""
    return np.concatenate([np.random.default_rng(piece).random((rows, columns))
                           for piece in pieces])


def whole_numbers(number: int, rows: int, columns: int) -> Any:
    """A block for sleeping kernels: sums of whole numbers are exact in any order."""
    return np.full((rows, columns), float(number % 97))


CENTRES, FEATURES = 8, 20


def blobs(number: int, rows: int, spread: float) -> Any:
    """Labelled points around eight centres: 20 features, then the label (0 or 1)."""
    middle = np.random.default_rng(7).uniform(-1, 1, (CENTRES, FEATURES))
    rng = np.random.default_rng([11, number])
    which = rng.integers(0, CENTRES, rows)
    points = middle[which] + rng.normal(0, spread, (rows, FEATURES))
    return np.column_stack([points, which % 2])


def labelled(number: int, pieces: int, rows: int) -> Any:
    """Blobs in pieces: however they are grouped, the data is the same."""
    return np.vstack([blobs(number * pieces + i, rows, 0.6) for i in range(pieces)])


# ---- sleeping kernels ----------------------------------------------------------------------------


def nap(block: Any, centre: float, seconds_per_row: float) -> Any:
    """Sleeps as long as the real kernel would take; gives rows and a sum that any order agrees on."""
    counted("nap", len(block))
    time.sleep(len(block) * seconds_per_row)
    return np.array([len(block), float(block.sum())])


def add(partials: Any) -> Any:
    return sum(partials)


# ---- histogram -----------------------------------------------------------------------------------

BINS, DIMENSIONS = 4, 5


def histogram(block: Any) -> Any:
    """4 bins in each of 5 dimensions: 1024 counts."""
    counted("histogram", len(block))
    counts, _ = np.histogramdd(block, bins=[BINS] * DIMENSIONS, range=[(0.0, 1.0)] * DIMENSIONS)
    return counts


def largest(block: Any) -> Any:
    """The largest number of each column: a kernel that is done with a small block in some microseconds."""
    counted("largest", len(block))
    return block.max(axis=0)


def larger(partials: Any) -> Any:
    return functools.reduce(np.maximum, partials)


# ---- k-means -------------------------------------------------------------------------------------


def assign(block: Any, centres: Any) -> Any:
    """Sums (and in the last column the numbers) of the points nearest to each centre."""
    from sklearn.metrics import pairwise_distances

    counted("assign", len(block))
    nearest = pairwise_distances(block, centres).argmin(axis=1)
    found = np.zeros((len(centres), block.shape[1] + 1))
    for centre in range(len(centres)):
        members = block[nearest == centre]
        found[centre, :-1] = members.sum(axis=0)
        found[centre, -1] = len(members)
    return found


def moved_centres(found: Any, centres: Any) -> Any:
    """Means of the members; a centre without members stays where it is."""
    numbers = found[:, -1:]
    return np.where(numbers > 0, found[:, :-1] / np.maximum(numbers, 1), centres)


# ---- Cascade SVM ---------------------------------------------------------------------------------

# SVC() takes its kernel's width from the points of each fit, so the fits of a cascade would solve
# different problems and their support vectors depend on how the data was cut. This is the width
# that SVC() takes on all of the data; with it every cut converges to the one SVM of all points.
GAMMA, TOLERANCE = 0.0722, 1e-6


def fit_svm(block: Any, rows: Any, feedback: Any = None) -> Any:
    """Support vectors of a block: (points, labels, row numbers).

    `rows` numbers the block's rows in the whole array: an array, or the first of a run.
    """
    rows = np.arange(rows, rows + len(block)) if np.isscalar(rows) else np.asarray(rows)
    vectors = [(block[:, :-1], block[:, -1], rows)]
    if feedback is not None:
        vectors.append(feedback)
    counted("fit_svm", len(block))
    return _fitted(vectors)


def fit_svm_parts(blocks: Any, rows: Any, feedback: Any = None) -> Any:
    """The same for a partition: its blocks stacked."""
    return fit_svm(np.vstack(list(blocks)), rows, feedback)


def merge_svm(vectors: Any) -> Any:
    """Support vectors of several sets of support vectors."""
    counted("merge_svm", 0)
    return _fitted(vectors)


def _fitted(vectors: Any) -> Any:
    from sklearn.svm import SVC

    points, labels, rows = (np.concatenate(column) for column in zip(*vectors))
    rows, first = np.unique(rows, return_index=True)
    points, labels = points[first], labels[first]
    if len(np.unique(labels)) < 2:  # one class only: nothing to separate, all are kept
        return points, labels, rows
    support = SVC(gamma=GAMMA, tol=TOLERANCE).fit(points, labels).support_
    return points[support], labels[support], rows[support]


# ---- nearest neighbours --------------------------------------------------------------------------

NEIGHBOURS = 5


class Tree:
    """A k-d tree over some rows of the fit data. Says how large it is: Dask would not know."""

    def __init__(self, points: Any, rows: Any):
        from sklearn.neighbors import NearestNeighbors

        self.rows = np.arange(rows, rows + len(points)) if np.isscalar(rows) else np.asarray(rows)
        self.nn = NearestNeighbors(n_neighbors=NEIGHBOURS, algorithm="kd_tree").fit(points)
        self.bytes = int(points.nbytes * 1.5) + self.rows.nbytes

    def __sizeof__(self) -> int:
        return self.bytes

    def lookup(self, block: Any) -> tuple[Any, Any]:
        # A query keeps state in the tree's handle; threads that share a tree need one each.
        nn = copy.copy(self.nn)
        nn._tree = copy.copy(self.nn._tree)
        distance, local = nn.kneighbors(block)
        return distance, self.rows[local]


def fit_tree(block: Any, rows: Any) -> Tree:
    counted("fit_tree", len(block))
    return Tree(block, rows)


def fit_tree_parts(blocks: Any, rows: Any) -> Tree:
    blocks = list(blocks)
    return fit_tree(blocks[0] if len(blocks) == 1 else np.vstack(blocks), rows)


def lookup(tree: Tree, block: Any) -> tuple[Any, Any]:
    counted("lookup", len(block))
    return tree.lookup(block)


def nearest(found: Any) -> str:
    """The k nearest over all trees, as a digest of their row numbers in order of distance."""
    distance = np.hstack([d for d, _ in found])
    rows = np.hstack([r for _, r in found])
    order = np.argsort(distance, axis=1, kind="stable")[:, :NEIGHBOURS]
    best = np.take_along_axis(rows, order, axis=1)
    return hashlib.blake2b(best.astype(np.int64).tobytes(), digest_size=8).hexdigest()
