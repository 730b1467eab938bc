"""What each experiment runs on one cluster, cell by cell. Sizes come from `plan.py`.

Every cell is reported as soon as it is measured, so that a run that is cut short keeps what it has.
Modes that move blocks get data of their own each time: replicas left by the one before would make
their transfers look free.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import dask.array as da
from distributed import wait

import rask.spliter
from rask.spliter.states import workers_now
from spliter import bare, kernels, programs
from spliter.measure import Cells
from spliter.modes import FAN_IN, MODES, Data
from spliter.plan import BLOCKS_PER_SLOT, PIECE_ROWS, Sizes, Virtual

MOVES = ("rechunk-lazy", "rechunk-persisted", "rechunk-p2p", "rechunk-2023")
FEW = ("baseline", "spliter", "materialized", "rechunk-persisted")
TOUCHED = 96  # up to so few blocks of the floor's data, kernels need new memory for each
_names = iter(range(1 << 30))


def array_of(client: Any, futures: dict[Any, Any], name: str, rows: int, columns: int,
             pieces: int, per: str = "thread") -> Data:
    graph = {(name, i, 0): futures[name, i, 0] for i in range(len(futures))}
    chunks = ((rows,) * len(graph), (columns,))
    return Data(client, da.Array(graph, name, chunks, dtype=float), pieces, per)


def computed(client: Any, fn: Callable[..., Any], columns: list[list[Any]], rows: int, width: int,
             pieces: int, per: str = "thread", dealt: bool = False) -> Data:
    """Blocks made by tasks, where the scheduler likes or `dealt` out to the workers in turn;
    `fn(*column[i])` is block i."""
    name = f"x{next(_names)}"
    keys = [(name, i, 0) for i in range(len(columns[0]))]
    futures: list[Any] = [None] * len(keys)
    workers: list[Any] = sorted(workers_now(client)) if dealt else [None]
    for k, worker in enumerate(workers):
        own = slice(k, None, len(workers))
        futures[own] = client.map(fn, *(column[own] for column in columns), key=keys[own],
                                  workers=worker and [worker])
    wait(futures)
    return array_of(client, dict(zip(keys, futures)), name, rows, width, pieces, per)


def scattered(client: Any, blocks: int, rows: int, columns: int, pieces: int) -> Data:
    """Blocks dealt out to the workers' slots in turn."""
    name = f"x{next(_names)}"
    values = {(name, i, 0): kernels.whole_numbers(i, rows, columns) for i in range(blocks)}
    return array_of(client, client.scatter(values), name, rows, columns, pieces)


def warm(cells: Cells, run: Callable[[Data, str], Any], make: Callable[[], Data],
         modes: tuple[str, ...]) -> None:
    """Imports and connections of new workers, outside of what is timed."""
    for mode in modes:
        run(make(), mode)


# ---- virtual nodes -------------------------------------------------------------------------------


class Nodes:
    """Figs 9–14: weak scaling of fragmented and balanced data, and the sweep between them."""

    PLAIN = ("baseline", "spliter", "rechunk-persisted")

    def __init__(self, cells: Cells, app: str, virtual: Virtual, repeats: int):
        self.cells = cells
        self.app = app
        self.virtual = virtual
        self.repeats = repeats

    def run(self) -> None:
        v = self.virtual
        for nodes in v.nodes:
            modes = self.modes(nodes)
            self.grow(nodes, modes)
            self.at(nodes, BLOCKS_PER_SLOT, modes, "fragmented")
            if nodes in v.d9_nodes:
                self.at(nodes, BLOCKS_PER_SLOT, ("baseline-blocks",), "fragmented")
            if nodes in v.balanced:
                self.at(nodes, 1, self.PLAIN, "balanced")
            if nodes == v.sweep_nodes and nodes in v.d9_nodes:
                self.at(nodes, 1, ("baseline-blocks",), "balanced")
            if nodes == v.sweep_nodes:
                for per_slot in v.sweep[1:-1]:
                    self.at(nodes, per_slot, self.PLAIN, "sweep")

    def modes(self, nodes: int) -> tuple[str, ...]:
        """What runs on fragmented data."""
        if nodes not in self.virtual.all_modes:
            return self.PLAIN
        return (*MODES, "rechunk-2023") if self.app == "histogram" else MODES

    def probe(self) -> None:
        nodes = self.virtual.nodes[0]
        self.grow(nodes, ("baseline",))
        self.at(nodes, BLOCKS_PER_SLOT, ("baseline",), "probe")

    def grow(self, nodes: int, modes: tuple[str, ...]) -> None:
        self.cells.bed.grow(nodes)
        slots = nodes * self.virtual.slots
        make = functools.partial(scattered, self.cells.client, 2 * slots, 2, self.virtual.columns,
                                 slots)
        warm(self.cells, lambda data, mode: programs.virtual_kmeans(data, mode, 0.0, 2), make, modes)

    def at(self, nodes: int, per_slot: int, modes: tuple[str, ...], what: str) -> None:
        v, client = self.virtual, self.cells.client
        slots = nodes * v.slots
        rows = v.rows * BLOCKS_PER_SLOT // per_slot
        make = functools.partial(scattered, client, slots * per_slot, rows, v.columns, slots)
        kept = make() if any(mode not in MOVES for mode in modes) else None
        run = {"histogram": lambda data, mode: programs.virtual_histogram(data, mode,
                                                                          v.seconds_per_row),
               "kmeans": lambda data, mode: programs.virtual_kmeans(
                   data, mode, v.seconds_per_row, v.iterations)}[self.app]
        for mode in modes:
            again = mode in ("baseline", "spliter") and self.app == "histogram"
            self.cells.cell(self.app, mode, make if mode in MOVES else lambda: kept, run,
                            self.repeats if again else 1,
                            same_as=(nodes, per_slot), what=v.label + what, nodes=nodes, slots=slots,
                            per_slot=per_slot, blocks=slots * per_slot,
                            ideal=BLOCKS_PER_SLOT * v.rows * v.seconds_per_row * v.iterations)


def histogram_nodes(cells: Cells, sizes: Sizes, probe: bool) -> None:
    nodes = Nodes(cells, "histogram", sizes.histogram, sizes.repeats)
    nodes.probe() if probe else nodes.run()


def kmeans_nodes(cells: Cells, sizes: Sizes, probe: bool) -> None:
    nodes = Nodes(cells, "kmeans", sizes.kmeans, sizes.repeats)
    nodes.probe() if probe else nodes.run()


def histogram_large(cells: Cells, sizes: Sizes, probe: bool) -> None:
    Nodes(cells, "histogram", sizes.histogram_large, 1).run()


def kmeans_large(cells: Cells, sizes: Sizes, probe: bool) -> None:
    Nodes(cells, "kmeans", sizes.kmeans_large, 1).run()


# ---- the floor and the split -----------------------------------------------------------------------


def floor_data(client: Any, blocks: int, pieces: int) -> Data:
    """As many blocks on each worker as the bare processes have: else the larger share is what is timed."""
    cut = [range(pieces * i // blocks, pieces * (i + 1) // blocks) for i in range(blocks)]
    rows = pieces * PIECE_ROWS // blocks
    return computed(client, kernels.uniform,
                    [cut, [PIECE_ROWS] * blocks, [kernels.DIMENSIONS] * blocks], rows,
                    kernels.DIMENSIONS, 2, dealt=True)


def tasks_of(blocks: int) -> int:
    """Tasks of the baseline: a kernel per block, and the tree that merges them."""
    total, level = blocks, blocks
    while level > 1:
        level = -(-level // FAN_IN)
        total += level
    return total


def histogram_floor(cells: Cells, sizes: Sizes, probe: bool) -> None:
    """On rask, F(B) is measured between the runs it is compared with: others may use this machine."""
    cells.bed.grow(2)
    warm(cells, programs.histogram, functools.partial(floor_data, cells.client, 8, 8), MODES)
    backend = cells.labels["backend"]
    for blocks in sizes.floor_blocks:
        make = functools.partial(floor_data, cells.client, blocks, sizes.floor_pieces)
        started = time.perf_counter()
        data = make()
        made = time.perf_counter() - started
        floor = bare.Floor(blocks, sizes.floor_pieces, PIECE_ROWS,
                           kernels.DIMENSIONS) if backend == "rask/rask" else None
        compared = ("baseline",) if backend == "stock-inf" else ("spliter", "baseline")
        if blocks <= TOUCHED:
            # The first to touch memory waits until the machine's host has found some: nobody's fault.
            for mode in compared:
                programs.histogram(data, mode)
                if floor:
                    floor.run()
                    floor.seconds.clear()
        cells.by_turns("histogram", compared, lambda _: data, programs.histogram,
                       sizes.repeats + 2 * (blocks < sizes.floor_blocks[-1]) if floor else 1, same_as="all",
                       beside=floor.run if floor else None, least=sizes.repeats if floor else 1,
                       what="floor", blocks=blocks, made=made, tasks=tasks_of(blocks))
        modes = []
        if backend != "stock-inf" and blocks in (sizes.floor_rechunk + sizes.floor_blocks[-1:]):
            modes.append("materialized")
        if backend != "stock-inf" and blocks in sizes.floor_rechunk:
            modes += ["rechunk-persisted", *["rechunk-p2p"] * (blocks <= 1_536)]
        for mode in modes:
            if mode == "rechunk-p2p":
                data = make()
            cells.cell("histogram", mode, lambda: data, programs.histogram, same_as="all", what="floor",
                       blocks=blocks, made=made, tasks=tasks_of(blocks))
        if floor:
            cells.say({**cells.labels, "app": "histogram", "backend": "bare", "mode": "floor",
                       "what": "floor", "blocks": blocks, "seconds": floor.seconds[:],
                       "agrees": int(floor.total.sum()) == sizes.floor_pieces * PIECE_ROWS})
        if blocks == sizes.floor_blocks[-1]:
            light_floor(cells, data, floor, sizes.repeats)
        if floor:
            floor.close()
        del data


def light_floor(cells: Cells, data: Data, floor: bare.Floor | None, repeats: int) -> None:
    """The same blocks with a kernel that takes next to no time: what is left is what each mode costs."""
    blocks, seconds = data.x.numblocks[0], []

    def beside() -> float:
        assert floor is not None
        seconds.append(floor.run(kernels.largest, kernels.larger))
        return seconds[-1]

    modes = ("baseline",) if cells.labels["backend"] == "stock-inf" else ("spliter", "baseline")
    cells.by_turns("histogram", modes, lambda _: data, programs.extremes, repeats if floor else 1,
                   same_as="light", beside=beside if floor else None, what="light", blocks=blocks,
                   tasks=tasks_of(blocks))
    if floor:
        cells.say({**cells.labels, "app": "histogram", "backend": "bare", "mode": "floor",
                   "what": "light", "blocks": blocks, "seconds": seconds,
                   "agrees": programs.agree("histogram", floor.total,
                                            cells.expected.get(("histogram", "light")))})


def histogram_split(cells: Cells, sizes: Sizes, probe: bool) -> None:
    """Seconds of `spliter()` alone: tiny blocks, so many. Stock needs minutes to make them all: a tenth."""
    cells.bed.grow(2)
    count = sizes.split_blocks // (1 if cells.labels["backend"] == "rask/rask" else 10)
    data = computed(cells.client, kernels.whole_numbers, [range(count), [1] * count, [1] * count], 1,
                    1, 2)
    seconds = []
    for _ in range(sizes.repeats):
        started = time.perf_counter()
        parts = rask.spliter(data.x, per="worker")
        seconds.append(time.perf_counter() - started)
    cells.say({**cells.labels, "app": "histogram", "mode": "spliter", "what": "split",
               "blocks": count, "seconds": seconds, "partitions": len(parts), "agrees":
               sum(map(len, parts)) == count})


# ---- real kernels ----------------------------------------------------------------------------------


def kmeans_real(cells: Cells, sizes: Sizes, probe: bool) -> None:
    blocks, rows = sizes.kmeans_real
    workers = sizes.workers[-1]
    cells.bed.grow(workers)
    count = blocks * workers

    def make(rows: int = rows) -> Data:
        return computed(cells.client, kernels.uniform,
                        [[range(i, i + 1) for i in range(count)], [rows] * count,
                         [kernels.FEATURES] * count], rows, kernels.FEATURES, workers)

    warm(cells, lambda data, mode: programs.kmeans(data, mode, 1), lambda: make(16), MODES)
    kept = make()
    for mode in ("baseline",) if probe else MODES:
        cells.cell("kmeans", mode, make if mode in MOVES else lambda: kept, programs.kmeans,
                   same_as=probe, what="probe" if probe else "real", workers=workers, blocks=count)


def csvm_real(cells: Cells, sizes: Sizes, probe: bool) -> None:
    def make(workers: int, per_slot: int, piece: int) -> Data:
        # The data does not depend on how it is cut: pieces of the smallest block size.
        count, pieces = workers * per_slot, sizes.csvm_blocks // per_slot
        return computed(cells.client, kernels.labelled,
                        [range(count), [pieces] * count, [piece] * count], piece * pieces,
                        kernels.FEATURES + 1, workers)

    def run(workers: int, per_slot: int, modes: tuple[str, ...], what: str) -> None:
        fresh = functools.partial(make, workers, per_slot, sizes.csvm_rows)
        kept = fresh()
        cells.by_turns("csvm", modes, lambda mode: fresh() if mode in MOVES else kept, programs.csvm,
                       sizes.repeats, same_as=workers, what=what, workers=workers, per_slot=per_slot,
                       blocks=workers * per_slot)

    for workers in sizes.workers[:1] if probe else sizes.workers:
        cells.bed.grow(workers)
        warm(cells, lambda data, mode: programs.csvm(data, mode, 1),
             functools.partial(make, workers, 2, 16), MODES)
        if probe:
            run(workers, sizes.csvm_blocks, ("baseline",), "probe")
            continue
        all_modes = workers in (sizes.workers[0], sizes.workers[-1])
        run(workers, sizes.csvm_blocks, MODES if all_modes else FEW, "fragmented")
        run(workers, 1, ("baseline", "spliter", "rechunk-persisted"), "balanced")
    if not probe:
        for per_slot in sizes.csvm_sweep:
            if per_slot not in (1, sizes.csvm_blocks):
                run(sizes.workers[-1], per_slot, FEW, "sweep")


def _points(client: Any, blocks: int, rows: int, first: int, pieces: int) -> Data:
    return computed(client, kernels.uniform,
                    [[range(first + i, first + i + 1) for i in range(blocks)], [rows] * blocks,
                     [3] * blocks], rows, 3, pieces, "worker")


def knn_cells(cells: Cells, sizes: Sizes, workers: int, fit: int, queries: int,
              modes: tuple[str, ...], what: str) -> None:
    asked = _points(cells.client, queries * workers, sizes.knn_rows, 1_000_000, workers)
    make = functools.partial(_points, cells.client, fit * workers, sizes.knn_rows, 0, workers)
    warm(cells, lambda data, mode: programs.knn(data, mode, data),
         functools.partial(_points, cells.client, 2 * workers, 16, 0, workers), modes)
    kept = make()
    cells.by_turns("knn", modes, lambda mode: make() if mode in MOVES else kept,
                   lambda data, mode: programs.knn(data, mode, asked), sizes.repeats,
                   same_as=(workers, fit, queries), what=what, workers=workers, fit=fit,
                   queries=queries, blocks=fit * workers)


def knn_real(cells: Cells, sizes: Sizes, probe: bool) -> None:
    for workers in sizes.workers[:1] if probe else sizes.workers:
        cells.bed.grow(workers)
        modes = MODES if workers == sizes.workers[-1] else FEW
        knn_cells(cells, sizes, workers, sizes.knn_fit, sizes.knn_queries,
                  ("baseline",) if probe else modes, "probe" if probe else "real")


def knn_growing(cells: Cells, sizes: Sizes, probe: bool) -> None:
    workers = sizes.workers[-1]
    cells.bed.grow(workers)
    for fit in sizes.knn_growth[:1] if probe else sizes.knn_growth:
        knn_cells(cells, sizes, workers, fit, sizes.knn_growth_queries,
                  ("baseline",) if probe else ("baseline", "spliter", "rechunk-persisted"),
                  "probe" if probe else "growing")


SERIES: dict[str, Callable[[Cells, Sizes, bool], None]] = {
    "histogram.floor": histogram_floor, "histogram.split": histogram_split,
    "histogram.nodes": histogram_nodes, "histogram.large": histogram_large, "kmeans.nodes": kmeans_nodes,
    "kmeans.large": kmeans_large, "kmeans.real": kmeans_real,
    "csvm.real": csvm_real, "knn.real": knn_real, "knn.growing": knn_growing,
}
