"""The paper's figures as tables of numbers: a line per mode and cluster, a column per place on the x axis.

The same tables stand on the screen, on the pages and in docs/SPLITER.md; `plots.py` draws them.
Nothing is typed: a cell that was not measured is a dash, a figure without rows is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from bed.kept import Rows
from bed.verdicts import ratio
from spliter import must
from spliter.plan import FULL

NAMES = {"baseline": "a task per block", "baseline-blocks": "… by x.blocks[k]", "spliter": "SplIter",
         "materialized": "SplIter materialised", "rechunk-lazy": "rechunk, every pass",
         "rechunk-persisted": "rechunk once", "rechunk-p2p": "rechunk P2P",
         "rechunk-2023": "rechunk P2P of 2023"}
SIDES = ("stock", "rask")
DASH = "–"


def number(value: float | None) -> str:
    """Three digits, never as a power of ten."""
    if value is None:
        return DASH
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def block(head: str, places: list[Any], lines: list[tuple[str, list[str]]]) -> str:
    """A Markdown table that can also be read as it is. Lines without a single number are left out."""
    cells = [[head, *(f"{place:,}".replace(",", " ") if isinstance(place, int) else place for place in places)]]
    cells += [[name, *values] for name, values in lines if set(values) != {DASH}]
    wide = [max(len(line[k]) for line in cells) for k in range(len(places) + 1)]
    text = [" | ".join([line[0].ljust(wide[0]), *(cell.rjust(w) for cell, w in zip(line[1:], wide[1:]))])
            for line in cells]
    rule = "|".join(["-" * (wide[0] + 2), *("-" * (w + 1) + ":" for w in wide[1:])])
    return "\n".join([f"| {text[0]} |", f"|{rule}|", *(f"| {line} |" for line in text[1:])])


@dataclass(frozen=True)
class Figure:
    """Seconds over `place`, per mode and cluster; the last columns compare two modes."""

    app: str
    name: str
    title: str
    place: str
    head: str
    what: tuple[str, ...]
    part: str | None = None  # of the run that is timed; None: all of it
    compared: tuple[str, str] = ("baseline", "spliter")

    @property
    def swept(self) -> str:
        """The part that only a sweep has."""
        return next((what for what in self.what if what.endswith("sweep")), "")

    def rows(self, rows: Rows) -> Rows:
        """Those of the figure. A sweep has parts of several experiments at one size of the cluster."""
        found = [row for row in rows.rows if row["app"] == self.app and row["what"] in self.what]
        if self.swept:
            at = "workers" if self.app == "csvm" else "nodes"
            swept = {row[at] for row in found if row["what"] == self.swept}
            found = [row for row in found if row[at] in swept]
        return Rows(found, rows.meta)

    def heading(self, rows: Rows) -> str:
        """With the size of the cluster, if the figure is drawn at one only."""
        at = "workers" if self.app in ("csvm", "knn") else "nodes"
        size = {row[at] for row in self.rows(rows).rows} if self.swept else set()
        return f"{self.name}: {self.title}" + "".join(f", {n} {at}" for n in size)

    def table(self, rows: Rows) -> str | None:
        own = self.rows(rows)
        places = own.values(self.place)
        if not any(row["seconds"] for row in own.rows):
            return None

        def time(mode: str, side: str, place: Any) -> float | None:
            return own.seconds(self.part, mode=mode, side=side, **{self.place: place})

        a, b = self.compared
        lines = [(f"{NAMES[mode]}, {side}", [number(time(mode, side, place)) for place in places])
                 for mode in NAMES for side in SIDES]
        lines += [(f"{NAMES[a]} ÷ {NAMES[b]}, {side}",
                   [number(ratio(time(a, side, place), time(b, side, place))) for place in places])
                  for side in SIDES]
        return block(self.head, places, lines)


def floor_table(rows: Rows) -> str | None:
    """The fragmentation that this project measures itself by: beside two bare processes."""
    counts = rows.values("blocks", what="floor")

    def line(name: str, mode: str, backend: str | None = None) -> tuple[str, list[str]]:
        labels = {} if backend is None else {"backend": backend}
        return name, [number(rows.seconds(what="floor", blocks=count, mode=mode, **labels)) for count in counts]

    def times(count: int) -> str:
        pairs = must.beside(rows, what="floor", mode="spliter", blocks=count)
        return f"{median(ours / bare for ours, bare in pairs):.2f}" if pairs else DASH

    def over(count: int) -> str:
        pairs = must.beside(rows, what="floor", mode="baseline", blocks=count)
        tasks = next((row["tasks"] for row in rows.all(what="floor", mode="baseline", blocks=count)), 1)
        return number(median(ours - bare for ours, bare in pairs) * 1e6 / tasks) if pairs and count > 2 else DASH

    lines = [line("F(B): two bare processes", "floor"), line("SplIter, rask", "spliter", "rask/rask"),
             ("… ÷ F(B)", [times(count) for count in counts]),
             line("a task per block, rask", "baseline", "rask/rask"),
             ("… over F(B), µs per task", [over(count) for count in counts]),
             line("SplIter, stock", "spliter", "stock"), line("a task per block, stock", "baseline", "stock"),
             line("… saturation=inf", "baseline", "stock-inf")]
    lines += [line(f"{NAMES[mode]}, {side}", mode, backend)
              for mode in ("materialized", "rechunk-persisted", "rechunk-p2p")
              for side, backend in (("stock", "stock"), ("rask", "rask/rask"))]
    return block("blocks", counts, lines) if counts else None


def light_table(rows: Rows) -> str | None:
    """What each mode costs where the kernel is next to nothing."""
    counts = rows.values("blocks", what="light")
    sides = (("bare", "floor", "F(B): two bare processes"), ("rask/rask", "spliter", "SplIter, rask"),
             ("rask/rask", "baseline", "a task per block, rask"), ("stock", "spliter", "SplIter, stock"),
             ("stock", "baseline", "a task per block, stock"), ("stock-inf", "baseline", "… saturation=inf"))
    lines = [(name, [number(rows.seconds(what="light", blocks=count, mode=mode, backend=backend)) for count in counts])
             for backend, mode, name in sides]
    return block("blocks", counts, lines) if counts else None


def trees_table(rows: Rows) -> str | None:
    """Table 1, and what Figs 18 and 19 draw: one tree's share of it."""
    found = sorted(rows.all(app="knn", what="trees"), key=lambda row: row["trees"])
    places = [f"{row['trees']} × {row['rows'] // 1000} k" for row in found]
    lines = []
    for part, name, figure in (("fit", "fit", 18), ("lookup", "look up in", 19)):
        lines += [(f"{name} all", [number(row[part]) for row in found]),
                  ("… ÷ one tree of all points", [number(row[part] / found[0][part]) for row in found]),
                  (f"{name} one of them (Fig. {figure})", [number(row[part] / row["trees"]) for row in found])]
    return block("trees × points", places, lines) if found else None


def growth_table(rows: Rows) -> str | None:
    """Fig. 21 is a rate: blocks of fit data per worker over seconds of the lookups."""
    base = {"app": "knn", "what": "growing"}
    places = rows.values("fit", **base)
    lines = [(f"{NAMES[mode]}, {side}", [number(ratio(place, rows.seconds(
        "kneighbors", mode=mode, side=side, fit=place, **base))) for place in places])
        for mode in NAMES for side in SIDES]
    return block("fit blocks per worker", places, lines) if places else None


NODES = ("nodes", "virtual nodes")
WORKERS = ("workers", "workers")
SLOT = ("per_slot", "blocks per slot")
SWEPT = ("fragmented", "balanced", "sweep")
LARGE = tuple(f"large {part}" for part in SWEPT)
FIGURES = [
    Figure("histogram", "Fig. 9", "48 blocks per slot, more and more nodes", *NODES, ("fragmented",)),
    Figure("histogram", "Fig. 10", "one block per slot: nothing to win", *NODES, ("balanced",)),
    Figure("histogram", "Fig. 11", "the same data in more blocks", *SLOT, SWEPT),
    Figure("histogram", "Fig. 9, 48 slots", "as many slots per node as in the paper", *NODES, ("large fragmented",)),
    Figure("histogram", "Fig. 10, 48 slots", "one block per slot", *NODES, ("large balanced",)),
    Figure("histogram", "Fig. 11, 48 slots", "the same data in more blocks", *SLOT, LARGE),
    Figure("kmeans", "Fig. 12", "48 blocks per slot, more and more nodes", *NODES, ("fragmented",)),
    Figure("kmeans", "Fig. 13", "one block per slot: nothing to win", *NODES, ("balanced",)),
    Figure("kmeans", "Fig. 14", "the same data in more blocks", *SLOT, SWEPT),
    Figure("kmeans", "Fig. 14, 12 slots", "small blocks or large ones on 8 nodes", *SLOT,
           ("large fragmented", "large balanced")),
    Figure("kmeans", "Real kernel", "10 iterations, no sleeping", *WORKERS, ("real",)),
    Figure("csvm", "Fig. 15", f"8 blocks of {FULL.csvm_rows} points per worker, of 128 in the paper", *WORKERS,
           ("fragmented",), compared=("materialized", "rechunk-persisted")),
    Figure("csvm", "Fig. 16", "one block per worker", *WORKERS, ("balanced",)),
    Figure("csvm", "Fig. 17", "the same data in more blocks", *SLOT, SWEPT,
           compared=("materialized", "rechunk-persisted")),
    Figure("knn", "Fig. 20", "seconds of the lookups", *WORKERS, ("real",), "kneighbors"),
    Figure("knn", "Fig. 20, fit", "seconds of building the trees", *WORKERS, ("real",), "fit"),
]
SPECIAL: list[tuple[str, str, str, Callable[[Rows], str | None]]] = [
    ("histogram", "The floor", "1 GiB in more and more blocks on 2 workers; F(B) is two bare processes", floor_table),
    ("histogram", "A light kernel", "the largest of each column instead of a histogram", light_table),
    ("knn", "Table 1, Figs 18 and 19", "one big tree or many small ones, one core, CPU seconds", trees_table),
    ("knn", "Fig. 21", "more fit data: fit blocks per worker ÷ seconds of the lookups", growth_table),
]


def of(rows: Rows, app: str) -> list[tuple[str, str]]:
    """(title, table) of every figure of an application that has rows, in the paper's order."""
    found = [(f"{name}: {title}", make(rows)) for own, name, title, make in SPECIAL if own == app]
    found[1:1] = [(figure.heading(rows), figure.table(rows)) for figure in FIGURES if figure.app == app]
    return [(title, table) for title, table in found if table]
