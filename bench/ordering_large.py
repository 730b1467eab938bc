"""Large graphs as plain arrays, for the cost of ordering: no keys, no task objects.

Each entry of GRAPHS makes (offsets, dependencies) as uint32 arrays with about the asked number of
tasks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Columns = tuple[np.ndarray, np.ndarray]


def columns(n: int, tasks: np.ndarray, needs: np.ndarray) -> Columns:
    """Flat arrays of the edges tasks[i] -> needs[i]."""
    offsets = np.zeros(n + 1, np.uint32)
    offsets[1:] = np.cumsum(np.bincount(tasks, minlength=n))
    return offsets, needs[np.argsort(tasks, kind="stable")].astype(np.uint32)


def flat_map(n: int) -> Columns:
    return np.zeros(n + 1, np.uint32), np.zeros(0, np.uint32)


def chain(n: int) -> Columns:
    return columns(n, np.arange(1, n), np.arange(n - 1))


def binary_tree(n: int) -> Columns:
    first = 1 << max(0, (n - 1).bit_length() - 1)
    joins = np.arange(first, 2 * first - 1)
    left = 2 * (joins - first)
    return columns(2 * first - 1, np.repeat(joins, 2), np.stack([left, left + 1], 1).ravel())


def wide_merge(n: int) -> Columns:
    return columns(n, np.full(n - 1, n - 1), np.arange(n - 1))


def stencil(n: int) -> Columns:
    width = max(2, int(n**0.5))
    task = np.arange(width, n)
    pairs = [(task, task - width + shift, task % width + shift) for shift in (-1, 0, 1)]
    kept = [(t[(0 <= x) & (x < width)], d[(0 <= x) & (x < width)]) for t, d, x in pairs]
    return columns(n, *(np.concatenate(side) for side in zip(*kept)))


def random_layers(n: int) -> Columns:
    width = max(2, n // 10)
    task = np.repeat(np.arange(width, n), 3)
    pick = np.random.default_rng(0).integers(0, width, len(task))
    return columns(n, task, (task // width - 1) * width + pick)


def all_to_all(n: int) -> Columns:
    """Every input is cut into one piece for every output, as a rechunk by tasks does."""
    k = max(2, int(n**0.5) - 1)
    piece = np.arange(k * k)
    tasks = np.concatenate([k + piece, k + k * k + piece % k])
    return columns(2 * k + k * k, tasks, np.concatenate([piece // k, k + piece]))


def matrix_product(n: int) -> Columns:
    k = max(2, int(n ** (1 / 3)))
    row, column, inner = (axis.ravel() for axis in np.indices((k, k, k)))
    product = 2 * k * k + (row * k + column) * k + inner
    total = 2 * k * k + k**3 + row * k + column
    needs = np.concatenate([row * k + inner, k * k + inner * k + column, product])
    return columns(3 * k * k + k**3, np.concatenate([product, product, total]), needs)


GRAPHS: dict[str, Callable[[int], Columns]] = {
    "flat map": flat_map,
    "chain": chain,
    "binary tree": binary_tree,
    "wide merge": wide_merge,
    "stencil": stencil,
    "random layers": random_layers,
    "all to all": all_to_all,
    "matrix product": matrix_product,
}
