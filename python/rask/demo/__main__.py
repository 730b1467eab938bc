"""Runs the demo and prints it. Ends with 1 if a value differs from stock Dask's."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

import numpy as np

from rask.demo import bounded
from rask.demo.shows import SHOWS
from rask.demo.speed import measure
from rask.processes import ProcessCluster

WIDTH = 26  # of a value


def shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def run(show: Any, cluster: ProcessCluster) -> tuple[Any, float]:
    """The value and how long it took, the second time: the first imports libraries everywhere."""
    if show.repeatable:
        with cluster.connected() as client:  # what it computed goes with it
            show.run(client, cluster)
    with cluster.connected() as client:
        begin = time.perf_counter()
        value = show.run(client, cluster)
        return value, time.perf_counter() - begin


def compare(clusters: dict[str, ProcessCluster]) -> int:
    """Runs every show on all clusters; the number of values that are not stock Dask's."""
    print(f"\n{'':2}{'call':<34}{'value':<28}" + "".join(f"{name:>14}" for name in clusters))
    differ = 0
    for show in SHOWS:
        ran = {name: run(show, cluster) for name, cluster in clusters.items()}
        expected = ran["stock"][0]
        odd = {name: value for name, (value, _) in ran.items()
               if type(value) is not type(expected) or not show.equal(value, expected)}
        differ += len(odd)
        seconds = "".join(f"{spent * 1e3:>11.0f} ms" for _, spent in ran.values())
        print(f"{'✗' if odd else '✓'} {show.name:<34}{shown(expected):<28}{seconds}", flush=True)
        for name, value in odd.items():
            print(f"    {name} gave {shown(value)}")
        for cluster in clusters.values():
            cluster.repair()
    return differ


def speed(clusters: dict[str, ProcessCluster]) -> None:
    tasks = 5000
    figures = {name: measure(cluster, tasks) for name, cluster in clusters.items()}
    rows = dict.fromkeys(row for found in figures.values() for row in found)
    title = f"map of {tasks} tasks, µs per task"
    print(f"\n{'':2}{title:<62}" + "".join(f"{name:>14}" for name in figures))
    for row in rows:
        cells = [found.get(row, 0) for found in figures.values()]
        print(f"  {row:<62}" + "".join(f"{cell:>14.1f}" if cell else f"{'—':>14}" for cell in cells))


def plan() -> None:
    """What clustered I/O would do to a file; nothing of it is read."""
    from rask.io.prospect import Prospect
    from rask.io.storage import Storage

    cube = Storage((700, 700, 700), np.dtype("u2"), "cube.npy", offset=128)
    table = Prospect(cube, (140,), 25 * 140**3 * 2).table()
    print("\n  rask io-plan: seeks of splitting a file, before anything runs")
    print("\n".join(f"  {line}" for line in table.splitlines()))


def partitions(clusters: dict[str, ProcessCluster]) -> None:
    """One reduction over an array in many small blocks, by blocks, partitions and rechunk."""
    import dask.array as da

    import rask
    from rask.demo.shows import histogram

    for name in ("rask", "stock"):
        with clusters[name].connected():
            x = da.random.default_rng(1).random((600_000, 5), chunks=(1000, 5)).persist()
            print(f"\n  rask.compare on {name}: histograms of ", end="", flush=True)
            print(str(rask.compare(x, histogram, show=False)).replace("\n", "\n  "), flush=True)


def main() -> int:
    print("Starting three clusters of two workers: all rask, rask's scheduler with stock workers, "
          "all stock …", flush=True)
    kinds = {"rask": ("rask", "rask"), "rask + stock": ("rask", "stock"),
             "stock": ("stock", "stock")}
    with contextlib.ExitStack() as stack:
        clusters = {name: stack.enter_context(ProcessCluster(*kind))
                    for name, kind in kinds.items()}
        for cluster in clusters.values():
            print(f"  {cluster}")
        differ = compare(clusters)
        speed(clusters)
        partitions(clusters)
    plan()
    bounded.show()
    values = len(SHOWS) * (len(kinds) - 1)
    print(f"\n{values - differ} of {values} values equal stock Dask's.")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
