"""What must hold, from measured rows alone: counts equal predictions, and times beside stock's."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bed.kept import Rows
from bed.verdicts import Verdict, check, ratio

HEADS = "experiment | where"


def _total(row: dict) -> int:
    return row["array_seeks"] + row["block_seeks"]


def _bounds(rows: Rows, **labels) -> list[int]:
    return sorted({row["blocks"] for row in rows.all(**labels) if row["blocks"] is not None})


def counts(rows: Rows) -> Iterator[Verdict]:
    for experiment, where in (("strategies", "plain reads and writes"), ("seeks", "Dask on rask")):
        found = [row for row in rows.all(experiment=experiment) if "predicted" in row]
        right = sum([row["array_seeks"], row["block_seeks"]] == row["predicted"] for row in found)
        yield Verdict(experiment, where, "seeks counted = seeks predicted", f"{right} of {len(found)} runs",
                      right == len(found) if found else None)
    found = [row for row in rows.all(experiment="seeks") if "predicted" in row]
    naive = {_place(row): _total(row) for row in found if row["blocks"] is None}
    pairs = [(_total(row), naive[_place(row)]) for row in found if row["blocks"] is not None]
    yield Verdict("seeks", "every case and bound", "clustered ≤ naive blocks",
                  f"{sum(a <= b for a, b in pairs)} of {len(pairs)} runs",
                  all(a <= b for a, b in pairs) if pairs else None)


def _place(row: dict) -> tuple:
    return row["case"], row["direction"]


def planner(rows: Rows) -> Iterator[Verdict]:
    found = [row for row in rows.all(experiment="planner") if row["seconds"]]
    slowest = max((max(row["seconds"]) for row in found), default=None)
    blocks = max((row["of"] for row in found), default=1_000_000)
    yield check("planner", f"{blocks} blocks", "planned in less than 1 s", slowest, "{:.3f} s", high=1)


def slow(rows: Rows) -> Iterator[Verdict]:
    for what, times, low in (("merge", "3", 3), ("split", "2", 2)):
        naive = rows.seconds(experiment=what, backend="stock", threads=2)
        most = max(_bounds(rows, experiment=what, backend="rask/rask", threads=2), default=None)
        best = rows.seconds(experiment=what, backend="rask/rask", threads=2, blocks=most)
        yield check(what, "throttled device, 2 threads", f"by full slices ≥ {times} × faster than naive blocks",
                    ratio(naive, best), "{:.1f} ×", low=low)
    alone = ratio(rows.seconds(experiment="single", backend="stock"),
                  rows.seconds(experiment="single", backend="rask/rask"))
    yield check("split", "throttled device, 1 thread", "by full slices ≥ 2 × faster than naive blocks", alone,
                "{:.1f} ×", low=2)
    # zarr's row chunks leave nothing to gain, but nothing should be lost either.
    for kind, times in (("npy", 2), ("hdf5", 2), ("netcdf", 2), ("zarr", 1)):
        yield check("formats", kind, f"by full slices ≥ {times} × as fast as naive blocks",
                    ratio(rows.seconds(experiment="formats", format=kind, backend="stock"),
                          rows.seconds(experiment="formats", format=kind, backend="rask/rask")), "{:.2f} ×", low=times)
    found = [row for name in ("split", "single", "merge", "formats")
             for row in rows.all(experiment=name, backend="rask/rask") if row["seconds"]]
    peak = max((row["peak"] for row in found), default=None)
    yield check("all", "throttled device", "peak of the worker under 60 % of its 1 GB, less what it had before",
                peak and peak / 1e6, "{:.0f} MB", high=600)


def beside_naive(rows: Rows, row: dict) -> float | None:
    """How much slower than naive blocks on rask, in per cent: the median over runs next to each other."""
    naive = next(iter(rows.all(experiment="fast", backend="rask/rask", direction=row["direction"],
                               format=row["format"], blocks=None)), None)
    if naive is None or not naive["seconds"] or not row["seconds"]:
        return None
    return 100 * (median(a / b for a, b in zip(row["seconds"], naive["seconds"])) - 1)


def fast(rows: Rows) -> Iterator[Verdict]:
    for direction in ("split", "merge"):
        for row in rows.all(experiment="fast", backend="rask/rask", direction=direction):
            if row["blocks"] is not None:
                where = f"{direction}, {row['format']}, buffers of {row['blocks']}"
                yield check("fast", where, "at most 3 % slower than naive blocks",
                            beside_naive(rows, row), "{:+.1f} %", high=3)


def threads(rows: Rows) -> Iterator[Verdict]:
    for row in rows.all(experiment="threads", backend="rask/rask"):
        yield check("threads", f"{row['threads']} threads, buffers of {row['blocks']} blocks",
                    "peak of the worker under 60 % of its 1 GB, less what it had before",
                    row["peak"] / 1e6 if row["seconds"] else None, "{:.0f} MB", high=600)


def honest(rows: Rows) -> Iterator[Verdict]:
    wrong = sum(not row["agrees"] for row in rows.rows)
    all_of_them = len(rows.rows)
    yield Verdict("all", "results", "every byte is where it belongs",
                  f"{all_of_them - wrong} of {all_of_them} runs", not wrong if rows.rows else None)


def verdicts(rows: Rows) -> list[Verdict]:
    return [*honest(rows), *planner(rows), *counts(rows), *slow(rows), *fast(rows), *threads(rows)]
