"""Rask's order beside dask.order: what simulated runs hold in memory, and what ordering costs.

For every shape of ordering_shapes.py the peak number and the peak bytes of held results on 2 and
on 8 executors (ordering_sim.py), ours/stock, and the CPU time of both orders per task. Fails if
ours is worse than stock's by more than 5 % anywhere. Then graphs of a million tasks: CPU seconds
of ours.

    PYTHONPATH=python python bench/ordering.py [--shapes WORD] [--no-large]
"""

from __future__ import annotations

import argparse
import array
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dask.order  # noqa: E402
import ordering_large  # noqa: E402
import ordering_shapes  # noqa: E402
from ordering_sim import Pressure, Run  # noqa: E402

from rask._native import _graph  # noqa: E402

EXECUTORS = (2, 8)
WORSE_MAX = 1.05


def compare(name: str) -> tuple[dict, float, float]:
    """{executors: (ours, stock)} and the CPU seconds per task of both orders."""
    shape = ordering_shapes.load(name)
    start = time.process_time()
    places = dask.order.order(shape.dsk)
    stock_seconds = time.process_time() - start
    start = time.process_time()
    ours = array.array("q", bytes(_graph.order(shape.offsets, shape.deps, shape.kinds)))
    our_seconds = time.process_time() - start
    stock = [places[key] for key in shape.dsk]
    run, n = Run(shape), len(stock)
    peaks = {k: (run.simulate(ours, k), run.simulate(stock, k)) for k in EXECUTORS}
    return peaks, our_seconds / n, stock_seconds / n


def worst_ratio(peaks: dict[int, tuple[Pressure, Pressure]]) -> float:
    """How much worse ours is at its worst, in count or bytes; below 1 it is better everywhere."""
    return max(
        max(ours.count / stock.count, ours.bytes / stock.bytes) for ours, stock in peaks.values()
    )


def print_shapes(word: str) -> bool:
    heads = [f"{k} ex. {what}" for k in EXECUTORS for what in ("count", "bytes")]
    print(f"{'ours/stock':28}" + "".join(f"{head:>18}" for head in heads) + "  µs per task")
    good = True
    for name in ordering_shapes.SHAPES:
        if word not in name:
            continue
        peaks, ours, stock = compare(name)
        line = f"{name:28}"
        for a, b in peaks.values():
            line += f"{f'{a.count}/{b.count}':>18}{a.bytes / b.bytes:>18.2f}"
        line += f"  {ours * 1e6:5.2f}/{stock * 1e6:.0f}"
        if worst_ratio(peaks) > WORSE_MAX:
            good, line = False, line + "  WORSE"
        print(line, flush=True)
    return good


def print_large(tasks: int) -> None:
    print(f"\n{'large graphs':28}{'tasks':>10}{'edges':>10}{'CPU s':>9}{'steps per item':>25}")
    for name, build in ordering_large.GRAPHS.items():
        offsets, deps = build(tasks)
        start = time.process_time()
        _graph.order(offsets, deps)
        seconds = time.process_time() - start
        steps = _graph.order_operations(offsets, deps) / (len(offsets) + len(deps))
        print(f"{name:28}{len(offsets) - 1:>10}{len(deps):>10}{seconds:>9.2f}{steps:>25.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="", help="only shapes whose name holds this word")
    parser.add_argument("--no-large", action="store_true", help="leave out the large graphs")
    parser.add_argument("--tasks", type=int, default=1_000_000, help="size of the large graphs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # dask warns of the chunk counts we ask for
    good = print_shapes(options.shapes)
    if not options.no_large:
        print_large(options.tasks)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
