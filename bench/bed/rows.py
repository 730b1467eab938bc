"""The rows of the table: which program, on which cluster, beside which floors.

Numbers and names follow performance.md §5.1. `quick` rows are what `make bench-quick` prints.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    observe: bool = True  # one more run with the ping and the counters
    null_options: tuple[str, ...] = ()
    limits: dict = field(default_factory=dict)  # what issue 3..5 ask for, printed beside


TWO = Shape(2, 1)
ONE = Shape(1, 2)


def zero(workers: int) -> Shape:
    return Shape(workers, 1, zero=True)


_MAP = [
    Row("W1a", "map of 10 000 importable functions", "map", {"n": 10_000}, TWO, quick=True,
        limits={"wall_over_f1": 2.0, "workers_us": 40.0}),
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

_MIB = 1 << 20

_GRAPHS = [
    Row("W2", "delayed tree of 2^15", "tree", {"exponent": 15}, TWO, repeats=3,
        limits={"graph_us": 40.0}),
    Row("W2z", "delayed tree of 2^15", "tree", {"exponent": 15}, zero(24), repeats=3,
        limits={"graph_us": 40.0}),
    *[Row(f"W3-{n // 1000}k", f"delayed merge of {n}", "merge", {"n": n}, TWO, observe=False,
          repeats=3 if n < 10_000 else 1 if n < 20_000 else 0)
      for n in (5_000, 10_000, 25_000)],
    # A stock worker takes a millisecond per task, whoever schedules: what a merge costs the
    # scheduler and the graph process shows on workers that answer at once.
    *[Row(f"W3z-{n // 1000}k", f"delayed merge of {n}, zero workers", "merge", {"n": n}, zero(24),
          observe=False, repeats=3, limits={"total_s": 1.5} if n == 25_000 else {})
      for n in (5_000, 25_000)],
    Row("W4", "stencil of 500 × 20", "stencil", {"width": 500, "steps": 20}, TWO, repeats=3),
    Row("W4-1ms", "stencil of 500 × 20, 1 ms tasks", "stencil",
        {"width": 500, "steps": 20, "function": "stencil_slow"}, TWO, repeats=2),
    Row("W4-chain", "delayed chain of 500, fusion off", "chain", {"n": 500}, TWO, unit="step",
        limits={"wall_us": 100.0}),
    Row("W8", "map of 1 000 000 taken in, no workers", "submission", {"n": 1_000_000}, None,
        repeats=0, observe=False, null_options=("100000",),
        limits={"over_f1_s": 6.0, "ping_p99_ms": 20.0, "ping_max_ms": 50.0,
                "longest_turn_ms": 50.0, "longest_turn_cpu_ms": 50.0, "scheduler_bytes_per_task": 600.0,
                "kept_bytes_per_task": 60.0}),
    Row("W8-200k", "map of 200 000 taken in, no workers", "submission", {"n": 200_000}, None,
        repeats=0, observe=False, null_options=("100000",)),
    Row("W8b", "map of 1 000 000 taken in while another client works", "submission",
        {"n": 1_000_000, "bystander": True}, zero(2), repeats=0, observe=False,
        null_options=("100000",), limits={"client_b_p99_ms": 110.0, "ping_p99_ms": 20.0,
                                         "longest_turn_ms": 50.0, "longest_turn_cpu_ms": 50.0}),
]

_DATA = [
    *[Row(f"W9-{kind}-{label}", f"{kind} of {n} × {label}", kind, {"n": n, "nbytes": size}, TWO,
          unit="object", floors=("F1", "F5") if size > _MIB else ("F1",), repeats=3,
          observe=size < _MIB)
      for kind in ("scatter", "gather")
      for n, size, label in ((10_000, 8, "8B"), (1_000, 10_240, "10KiB"), (4, 256 * _MIB, "256MiB"))],
    *[Row(f"W10-{label}{'' if kind == 'array' else '-' + kind}",
          f"worker to worker, {n} × {label}, {kind}", "transfer",
          {"n": n, "nbytes": size, "kind": kind}, TWO, unit="object", floors=("F5",), repeats=3,
          observe=False, limits=limits)
      for n, size, label, kind, limits in (
          (6, 256 * _MIB, "256MiB", "array", {}),
          (24, 64 * _MIB, "64MiB", "array", {"wall_over_f5": 1 / 0.9}),
          (24, 64 * _MIB, "64MiB", "bytes", {}),
          (500, _MIB, "1MiB", "array", {}),
          (3_000, 10_240, "10KiB", "array", {"wall_us": 200.0}))],
    Row("W11", "reads of values while the worker spins or holds the GIL", "under-gil", {},
        Shape(2, 2), unit="run", floors=(), repeats=0, observe=False,
        limits={"reads_p99_ms": 10.0}),
    Row("M500", "submit(f, 500 MB array)", "large-argument", {"nbytes": 500_000_000}, TWO,
        unit="submit", floors=("F1",), repeats=1, observe=False,
        limits={"held_over_payload": 1.2}),
]

_MANY = [
    *[Row(f"W12-{n}", f"map of 25 000 on {n} zero workers", "map", {"n": 25_000}, zero(n),
          floors=("F1", "F8"), repeats=3) for n in (24, 168, 500)],
    Row("W12-loss", "map of 25 000 on 168 zero workers, a tenth of them dies", "map-with-loss",
        {"n": 25_000}, zero(168), floors=(), repeats=0, observe=False),
]

_LONG = [
    *[Row(f"W13-{ms}ms", f"1000 tasks of {ms} ms", "sleeps",
          {"n": 1_000, "seconds": ms / 1e3, "threads": 2}, TWO, floors=(), repeats=2,
          observe=False)
      for ms in (0.8, 1.6, 6.4, 25.6)],
    Row("W14", "20 maps of 2 000 one after the other", "soak", {"n": 40_000, "rounds": 20}, TWO,
        floors=(), repeats=0, observe=False),
]

ROWS = {row.name: row for row in [*_MAP, *_GRAPHS, *_DATA, *_MANY, *_LONG]}

# What the issues ask for, in about twelve minutes: backends and repeats of each row. Stock is left
# out where one of its runs takes minutes (a merge of 25 000 is quadratic there).
_BOTH = ("stock", "rask")
_WORKERS = ("stock", "rask/rask")
_CORE = {
    "W1a": (("stock", "stock-inf", "rask", "rask/rask"), 1),
    "W1z": (("stock", "stock-inf", "rask"), 3),
    "W1z-lambda": (("rask",), 3),
    "W1a-closure": (("rask",), 0),
    "W2z": (_BOTH, 1),
    "W3-5k": (_BOTH, 1),
    "W3-10k": (_BOTH, 0),
    "W3-25k": (("rask/rask",), 0),
    "W3z-5k": (("rask",), 1),
    "W3z-25k": (("rask",), 1),
    "W8-200k": (_BOTH, 0),
    "W8": (("rask",), 0),
    "W8b": (("rask",), 0),
    "M500": (_BOTH, 1),
    "W4-chain": (_WORKERS, 3),
    "W10-64MiB": (_WORKERS, 3),
    "W10-64MiB-bytes": (_WORKERS, 3),
    "W10-10KiB": (_WORKERS, 3),
    "W11": (_WORKERS, 0),
}
SETS = {"core": [replace(ROWS[name], backends=backends, repeats=repeats)
                 for name, (backends, repeats) in _CORE.items()]}
