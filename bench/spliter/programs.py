"""The four applications, each written once for all modes. Each gives a `Result` to be compared.

Invariant: iterations, feedback and rows are the same in every mode; only the units differ.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from distributed import wait

from spliter import kernels
from spliter.modes import Data, prepare, tree

KMEANS_ITERATIONS = 10
CSVM_ITERATIONS = 5
CSVM_ARITY = 48


def histogram(data: Data, mode: str) -> tuple[Any, dict[str, float]]:
    units, seconds = prepare(mode, data)
    return units.total(kernels.histogram, kernels.add).result(), seconds


def extremes(data: Data, mode: str) -> tuple[Any, dict[str, float]]:
    units, seconds = prepare(mode, data)
    return units.total(kernels.largest, kernels.larger).result(), seconds


def virtual_histogram(data: Data, mode: str, seconds_per_row: float) -> Any:
    units, seconds = prepare(mode, data)
    total = units.total(kernels.nap, kernels.add, centre=0.0, seconds_per_row=seconds_per_row)
    return total.result(), seconds


def kmeans(data: Data, mode: str, iterations: int = KMEANS_ITERATIONS) -> Any:
    units, seconds = prepare(mode, data, iterations)
    centres = np.random.default_rng(3).random((kernels.CENTRES, data.x.shape[1]))
    for _ in range(iterations):
        found = units.total(kernels.assign, kernels.add, centres=centres).result()
        centres = kernels.moved_centres(found, centres)
    return centres, seconds


def virtual_kmeans(data: Data, mode: str, seconds_per_row: float,
                   iterations: int = KMEANS_ITERATIONS) -> Any:
    units, seconds = prepare(mode, data, iterations)
    centre = 0.0
    for _ in range(iterations):
        rows, total = units.total(kernels.nap, kernels.add, centre=centre,
                                  seconds_per_row=seconds_per_row).result()
        centre = (centre + total / rows) / 2
    return np.array([rows, centre]), seconds


def csvm(data: Data, mode: str, iterations: int = CSVM_ITERATIONS) -> Any:
    """Row numbers of the support vectors after `iterations` cascades, each fed with the last."""
    units, seconds = prepare(mode, data, iterations)
    feedback = None
    for _ in range(iterations):
        level = units.each(kernels.fit_svm, feedback)
        feedback = tree(data.client, level, kernels.merge_svm, CSVM_ARITY)
        feedback.result()
    return np.sort(feedback.result()[2]), seconds


def knn(data: Data, mode: str, queries: Data) -> Any:
    """Digests of the neighbours of every query block; each block meets every tree."""
    units, seconds = prepare(mode, data)
    client, blocks = data.client, queries.futures()
    started = time.perf_counter()
    trees = units.each(kernels.fit_tree)
    wait(trees)
    fitted = time.perf_counter()
    pairs = list(itertools.product(range(len(blocks)), range(len(trees))))
    found = client.map(kernels.lookup, [trees[t] for _, t in pairs], [blocks[b] for b, _ in pairs],
                       pure=False)
    merged = [client.submit(kernels.nearest, found[i:i + len(trees)], pure=False)
              for i in range(0, len(found), len(trees))]
    result = np.array(client.gather(merged))
    seconds |= {"fit": fitted - started, "kneighbors": time.perf_counter() - fitted}
    return result, seconds


def agree(app: str, found: Any, expected: Any) -> bool:
    """Whether two results of an application are the same; float sums may differ in the last bits."""
    if app == "kmeans":
        return bool(np.allclose(found, expected, rtol=1e-9, atol=1e-12))
    return bool(np.array_equal(found, expected))


def jaccard(found: Any, expected: Any) -> float:
    """How much two sets of row numbers overlap: 1 if equal."""
    both = len(np.intersect1d(found, expected))
    return both / max(1, len(found) + len(expected) - both)
