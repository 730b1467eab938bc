"""What is run, and how large. One `Sizes` for `make bench-spliter`, one for `--quick`.

The multi-node experiments are virtual: kernels sleep, a node is a worker with many threads. `scale`
shrinks slots per node and kernel time alike, which leaves the ratio of framework time to kernel time
as it was: at 1/6 a node has 8 slots, and 18 ms stand for the 108 ms of a histogram block. Bytes and
link rates are a thousandth of the paper's, so transfers take the paper's time times `scale`. Nodes, blocks per
slot and iterations are the paper's. What grows with the square of the number of blocks does not scale: the
published programs' `x.blocks[k]`. The `large` experiments have the paper's own slots, or a quarter of them; they take
longer than all others together and run only when they are named.

Everything is measured once at least. How often more, time decides: `seconds` of an experiment say what it is
expected to take on stock and on rask, and repeats are made while the run is not behind that plan. An experiment
that begins far behind it leaves out places on the x axis (`fewer`), never an end of one and never a mode.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

# The floor: 18 432 pieces of 1 456 rows of 5 doubles are 1 GiB less 0.02 %.
PIECES, PIECE_ROWS = 18_432, 1_456
SLOTS_PER_NODE = 48
BLOCKS_PER_SLOT = 48


@dataclass(frozen=True)
class Virtual:
    """A virtual application: what the paper ran per node."""

    columns: int
    rows: int  # of a fragmented block, a thousandth of the paper's
    milliseconds: float  # of the kernel on such a block
    iterations: int
    scale: float
    label: str = ""  # before the names of its parts, where one application has two of these
    nodes: tuple[int, ...] = (1, 2, 4, 8, 16)
    all_modes: tuple[int, ...] = (1, 4, 16)  # nodes at which the dear ones run too
    balanced: tuple[int, ...] = (1, 8, 16)
    sweep_nodes: int = 8  # balanced data runs there too: it is the sweep's first place
    sweep: tuple[int, ...] = (1, 4, 16, 48)
    d9_nodes: tuple[int, ...] = (1, 4, 8, 16)  # where the baseline also runs as it was published

    @property
    def slots(self) -> int:
        return max(2, round(SLOTS_PER_NODE * self.scale))

    @property
    def seconds_per_row(self) -> float:
        return self.milliseconds * 1e-3 * (self.slots / SLOTS_PER_NODE) / self.rows


@dataclass(frozen=True)
class Sizes:
    floor_blocks: tuple[int, ...] = (2, 96, 1_536, 6_144, 18_432)
    floor_pieces: int = PIECES
    floor_rechunk: tuple[int, ...] = (1_536,)
    split_blocks: int = 100_000
    histogram: Virtual = Virtual(5, 384, 108, 1, 1 / 6)
    kmeans: Virtual = Virtual(20, 64, 54, 10, 1 / 16, d9_nodes=(8, 16))
    histogram_large: Virtual = Virtual(5, 384, 108, 1, 1, "large ", all_modes=())
    kmeans_large: Virtual = Virtual(20, 64, 54, 10, 1 / 4, "large ", nodes=(8,), all_modes=(), balanced=(8,),
                                    sweep=(1, 48), d9_nodes=(8,))
    workers: tuple[int, ...] = (1, 2, 4)
    kmeans_real: tuple[int, int] = (16, 4_096)  # blocks per worker, rows per block
    csvm_blocks: int = 8
    csvm_rows: int = 256
    csvm_sweep: tuple[int, ...] = (1, 2, 4, 8)
    knn_rows: int = 2_500
    knn_fit: int = 6
    knn_queries: int = 24
    knn_growth: tuple[int, ...] = (2, 4, 8, 12)
    knn_growth_queries: int = 6
    tree_rows: tuple[int, ...] = (300_000, 150_000, 100_000, 50_000)
    tree_query_rows: int = 50_000
    repeats: int = 3
    extra: dict[str, Any] = field(default_factory=dict)


FULL = Sizes()
QUICK = Sizes(
    floor_blocks=(2, 96), floor_pieces=192, floor_rechunk=(96,), split_blocks=5_000,
    histogram=replace(FULL.histogram, scale=1 / 12, nodes=(1, 2), all_modes=(2,), balanced=(1, 2),
                      sweep_nodes=2, sweep=(1, 4, 48), d9_nodes=()),
    kmeans=replace(FULL.kmeans, scale=1 / 24, nodes=(1, 2), all_modes=(2,), balanced=(1, 2),
                   sweep_nodes=2, sweep=(1, 4, 48), d9_nodes=(), iterations=2),
    workers=(2,), kmeans_real=(2, 256), csvm_blocks=4, csvm_rows=32, csvm_sweep=(2,), knn_rows=200,
    knn_fit=2, knn_queries=2, knn_growth=(2, 4), knn_growth_queries=2,
    tree_rows=(6_000, 1_000), tree_query_rows=1_000, repeats=1)


def ends(places: tuple[int, ...], *also: int) -> tuple[int, ...]:
    return tuple(place for place in places if place in (places[0], places[-1], *also))


def fewer(sizes: Sizes) -> Sizes:
    """For a run that is far behind: the ends of each axis."""
    def virtual(v: Virtual) -> Virtual:
        nodes = ends(v.nodes, v.sweep_nodes)
        return replace(v, nodes=nodes, all_modes=ends(nodes), sweep=ends(v.sweep, v.sweep[-2]),
                       balanced=ends(v.balanced, v.sweep_nodes), d9_nodes=ends(v.d9_nodes, v.sweep_nodes))

    return replace(sizes, histogram=virtual(sizes.histogram), kmeans=virtual(sizes.kmeans), repeats=1,
                   workers=ends(sizes.workers), csvm_sweep=ends(sizes.csvm_sweep, 4),
                   knn_growth=ends(sizes.knn_growth))


BEHIND = 0.6  # of the expected seconds: who has less begins with fewer places


@dataclass(frozen=True)
class Experiment:
    """A part of the bench that can be run alone."""

    app: str
    name: str
    about: str
    seconds: dict[str, float]  # by backend, as expected: for the pace of the whole
    probe: str = ""  # the experiment whose baseline says which of stock's settings is better
    named: bool = False  # runs only when it is named

    @property
    def key(self) -> str:
        return f"{self.app}.{self.name}"

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(self.seconds)


def _both(stock: float, rask: float) -> dict[str, float]:
    return {"stock": stock, "rask/rask": rask}


PROBE = 10.0  # seconds of the probe of one of stock's settings
EXPERIMENTS = [
    Experiment("histogram", "floor", "1 GiB in 2 … 18 432 blocks beside two bare processes",
               {"stock": 80, "stock-inf": 55, "rask/rask": 150}),
    Experiment("histogram", "split", "spliter() on 100 000 blocks", _both(15, 20)),
    Experiment("histogram", "kernel", "histogramdd: many small blocks or one", {"local": 4}),
    Experiment("histogram", "nodes", "Figs 9, 10, 11: sleeping kernels, 1 … 16 nodes", _both(210, 110),
               "histogram.nodes"),
    Experiment("kmeans", "nodes", "Figs 12, 13, 14: sleeping kernels, 1 … 16 nodes", _both(250, 120),
               "histogram.nodes"),
    Experiment("histogram", "large", "Figs 9, 10, 11 with the paper's 48 slots per node, up to 36 864 blocks",
               _both(560, 400), "histogram.nodes", named=True),
    Experiment("kmeans", "large", "Fig 14 with 12 slots per node", _both(160, 120), "histogram.nodes", named=True),
    Experiment("kmeans", "real", "the real kernel in all modes", _both(20, 15), "histogram.nodes"),
    Experiment("csvm", "real", "Figs 15, 16, 17: real kernels, 5 iterations with feedback", _both(60, 50),
               "csvm.real"),
    Experiment("knn", "trees", "Table 1, Figs 18, 19: one core", {"local": 20}),
    Experiment("knn", "real", "Fig 20: real kernels", _both(60, 50), "csvm.real"),
    Experiment("knn", "growing", "Fig 21: more and more fit data", _both(50, 40), "csvm.real"),
]
