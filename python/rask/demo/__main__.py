"""Runs the demo and prints it. Ends with 1 if a value differs from stock Dask's."""

from __future__ import annotations

import sys
import time
from typing import Any

from rask.demo.shows import SHOWS
from rask.demo.speed import measure
from rask.processes import ProcessCluster

WIDTHS = (34, 26, 9, 9)


def shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= WIDTHS[1] else text[: WIDTHS[1] - 1] + "…"


def run(show: Any, cluster: ProcessCluster) -> tuple[Any, float]:
    with cluster.connected() as client:
        begin = time.perf_counter()
        value = show.run(client, cluster)
        return value, time.perf_counter() - begin


def compare(rask: ProcessCluster, stock: ProcessCluster) -> int:
    print(f"\n{'':2}{'call':<34}{'value on rask':<28}{'rask':>9}{'stock':>10}")
    differ = 0
    for show in SHOWS:
        expected, stock_seconds = run(show, stock)
        value, seconds = run(show, rask)
        good = type(value) is type(expected) and show.equal(value, expected)
        differ += not good
        mark = "✓" if good else "✗"
        print(f"{mark} {show.name:<34}{shown(value):<28}{seconds * 1e3:>6.0f} ms"
              f"{stock_seconds * 1e3:>7.0f} ms", flush=True)
        if not good:
            print(f"    stock gave {shown(expected)}")
        for cluster in (rask, stock):
            cluster.repair()
    return differ


def speed(rask: ProcessCluster, stock: ProcessCluster) -> None:
    tasks = 5000
    print(f"\n{'':2}map of {tasks} tasks, µs per task   {'rask':>10}{'stock':>10}   stock/rask")
    figures = {name: measure(cluster, tasks) for name, cluster in
               (("rask", rask), ("stock", stock))}
    for row in figures["rask"]:
        ours, theirs = figures["rask"][row], figures["stock"][row]
        if ours == theirs == 0:
            continue
        ratio = f"{theirs / ours:>9.1f} ×" if ours and theirs else f"{'—':>9}"
        print(f"  {row:<32}{ours:>10.1f}{theirs:>10.1f}{ratio}")


def main() -> int:
    print("Starting two clusters of stock workers: rask-scheduler, and dask scheduler beside it …",
          flush=True)
    with ProcessCluster("rask", "stock") as rask, ProcessCluster("stock", "stock") as stock:
        print(f"  {rask}\n  {stock}")
        differ = compare(rask, stock)
        speed(rask, stock)
    print(f"\n{len(SHOWS) - differ} of {len(SHOWS)} values equal stock Dask's.")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
