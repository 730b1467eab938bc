"""The rows of the table: which program, on which cluster, beside which floors.

Numbers and names follow performance.md §5.1. `quick` rows are what `make bench-quick` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bed.cluster import Shape


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    program: str
    params: dict
    shape: Shape | None
    unit: str = "task"  # what one of n is
    floors: tuple[str, ...] = ("F1",)
    quick: bool = False
    repeats: int | None = None  # fewer than asked for, where one run takes long
    backends: tuple[str, ...] | None = None
    depth: int = 2  # in flight per worker, for F8
    limits: dict = field(default_factory=dict)  # what issue 3..5 ask for, printed beside


TWO = Shape(2, 1)
ONE = Shape(1, 2)


def zero(workers: int) -> Shape:
    return Shape(workers, 1, zero=True)


_MAP = [
    Row("W1a", "map of 10 000 importable functions", "map", {"n": 10_000}, TWO, quick=True),
    Row("W1b", "map of 10 000 importable functions", "map", {"n": 10_000}, ONE),
    Row("W1a-lambda", "map of 10 000 lambdas", "map", {"n": 10_000, "function": "lambda"}, TWO),
    Row("W1a-closure", "map of 10 000 over a 50 kB closure", "map",
        {"n": 10_000, "function": "closure", "closure_bytes": 50_000}, TWO,
        limits={"scheduler_peak_bytes": 5_000_000}),
    Row("W1z", "map of 10 000 on 24 zero workers", "map", {"n": 10_000}, zero(24),
        floors=("F1", "F8"), quick=True,
        limits={"scheduler_over_f8_us": 8.0, "graph_us": 3.0}),
    Row("W1z-lambda", "map of 10 000 lambdas on 24 zero workers", "map",
        {"n": 10_000, "function": "lambda"}, zero(24), limits={"graph_us": 3.0}),
    Row("W1z2", "map of 10 000 on 2 zero workers", "map", {"n": 10_000}, zero(2),
        floors=("F1", "F8")),
    Row("W1z500", "map of 10 000 on 500 zero workers", "map", {"n": 10_000}, zero(500),
        floors=("F1", "F8")),
    Row("W1z-100k", "map of 100 000 on 24 zero workers", "map", {"n": 100_000}, zero(24),
        floors=("F1", "F8"), repeats=2),
]

ROWS = {row.name: row for row in [*_MAP]}
