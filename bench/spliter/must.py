"""What must hold, and whether it does: the paper's shapes and the figures this project set itself.

A verdict is computed from measured rows and from nothing else: "holds", "MISSED", or "not run".
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from bed.kept import Rows
from bed.verdicts import Verdict, check, ratio

SIDES = ("stock", "rask")
MICRO = 1e6


# ---- the floor -------------------------------------------------------------------------------------


def floor(rows: Rows) -> Iterator[Verdict]:
    app, what = "histogram", "floor"
    blocks = rows.values("blocks", what=what, mode="floor")
    for count in blocks:
        pairs = beside(rows, what=what, mode="spliter", blocks=count)
        yield check(app, f"floor, {count} blocks", "rask with SplIter ≤ 1.10 × F(B)",
                    median(ours / bare for ours, bare in pairs) if pairs else None,
                    "{:.3f} × F(B)", high=1.10)
    for count in blocks:
        pairs = beside(rows, what=what, mode="baseline", blocks=count)
        over, note = None, ""
        if pairs:
            floors = sorted(1e3 * bare for _, bare in pairs)
            note = f" ({floors[0]:.0f} to {floors[-1]:.0f} ms)"
            tasks = rows.all(what=what, mode="baseline", backend="rask/rask", blocks=count)[0]["tasks"]
            over = median(ours - bare for ours, bare in pairs) * MICRO / tasks
        yield check(app, f"floor, {count} blocks", "rask unmodified ≤ F(B) + 80 µs × tasks", over,
                    "{:.0f} µs per task over F(B)", high=80, note=note)
    most = blocks[-1] if blocks else 18_432
    for kernel, part in (("histogram", what), ("light kernel", "light")):
        stock = rows.seconds(what=part, mode="baseline", side="stock", blocks=most)
        split = rows.seconds(what=part, mode="spliter", backend="rask/rask", blocks=most)
        bare = rows.seconds(what=part, mode="floor", blocks=most)
        out_of_reach = f" (F(B) is {stock / bare:.1f} ×)" if stock and bare else ""
        yield check(app, f"floor, {most} blocks, {kernel}",
                    "SplIter on rask ≥ 10 × faster than stock's better setting", ratio(stock, split),
                    "{:.1f} ×", low=10, note=out_of_reach)
    least = blocks[0] if blocks else 2
    turns = [row["seconds"] for mode in ("baseline", "spliter")
             for row in rows.all(what=what, mode=mode, backend="rask/rask", blocks=least)]
    over = 100 * (median(split / plain for plain, split in zip(*turns)) - 1) if len(turns) == 2 and all(turns) \
        else None
    yield check(app, f"floor, {least} blocks", "overhead on balanced data ≤ 3 %", over, "{:+.1f} %",
                high=3)
    took = rows.seconds(what="split", backend="rask/rask")
    count = max(rows.values("blocks", what="split"), default=100_000)
    yield check(app, "split", f"spliter() on {count} blocks ≤ 0.5 s", took, "{:.2f} s", high=0.5)
    one = rows.seconds(what="kernel", blocks=1)
    many = rows.seconds(what="kernel", blocks=16)
    gain = None if one is None or many is None else 100 * (1 - many / one)
    yield check(app, "kernel", "16 small histograms 5–30 % faster than one", gain, "{:.0f} %", 5, 30)


def beside(rows: Rows, **labels: Any) -> list[tuple[float, float]]:
    """(seconds on rask, seconds of F(B) just before) of every repeat: the machine's pace drifts."""
    return [pair for row in rows.all(backend="rask/rask", **labels)
            for pair in zip(row["seconds"], row.get("beside", ()))]


# ---- virtual nodes -----------------------------------------------------------------------------------


def nodes(rows: Rows, app: str, figures: tuple[str, str, str]) -> Iterator[Verdict]:
    weak, balanced, sweep = figures
    base = {"app": app, "what": "fragmented"}
    at = rows.values("nodes", **base)
    top = at[-1] if at else 16
    for side in SIDES:
        split = [rows.seconds(mode="spliter", side=side, nodes=n, **base) for n in at]
        flat = max(split) / min(split) if split and None not in split else None
        if app == "histogram":
            yield check(app, weak, f"{side}: SplIter flat within 15 % over nodes", flat,
                        "slowest ÷ fastest {:.2f}", high=1.15)
        gains = [ratio(rows.seconds(mode="baseline", side=side, nodes=n, **base), e)
                 for n, e in zip(at, split)]
        if side == "stock" and app == "histogram":
            known = bool(gains) and None not in gains
            yield Verdict(app, weak, "stock: baseline ÷ SplIter grows with nodes",
                          " → ".join(f"{gain:.2f}" for gain in gains) if known else "–",
                          gains == sorted(gains) if known else None)
        if side == "stock":
            what, size = largest(rows, top, "fragmented", app=app, side=side, mode="baseline-blocks")
            times = [rows.seconds(mode=mode, side=side, nodes=top, app=app, what=what)
                     for mode in ("baseline-blocks", "baseline", "spliter")]
            plain = ratio(*times[1:])
            yield check(app, weak, f"stock: baseline as published ÷ SplIter ≥ 10 at {top} nodes{size}",
                        ratio(times[0], times[2]), "{:.1f}", low=10,
                        note=f" ({plain:.1f} without x.blocks[k])" if plain else "")
    yield from _rechunked(rows, app, weak)
    yield from _balanced(rows, app, balanced)
    for side in SIDES:
        for mode, name, low, high in (("spliter", "SplIter", None, 1.2),
                                      ("baseline-blocks", "baseline as published", 8, None)):
            if low and side == "rask":
                continue
            found = rows.values("nodes", app=app, what="sweep", side=side)
            n = found[0] if found else top
            (many, size), (one, _) = (largest(rows, n, part, app=app, side=side, mode=mode)
                                        for part in ("fragmented", "balanced"))
            times = [rows.seconds(mode=mode, side=side, nodes=n, per_slot=per_slot, app=app, what=what)
                     for what, per_slot in ((many, 48), (one, 1))]
            claim = "≤ 1.2" if high else "≥ 8"
            yield check(app, sweep, f"{side}: {name}, 48 blocks ÷ 1 block per slot {claim}{size}",
                        ratio(*times), "{:.2f}", low, high)


def largest(rows: Rows, nodes: int, part: str, **labels: Any) -> tuple[str, str]:
    """The part of the experiment with the most slots per node, if that has run, and words for it.

    What the published programs' `x.blocks[k]` costs grows with the square of the number of blocks, so their
    factors are those of the paper only at the paper's size.
    """
    found = [row for row in rows.all(what=f"large {part}", nodes=nodes, **labels) if row["seconds"]]
    return (f"large {part}", f", {found[0]['slots'] // nodes} slots each") if found else (part, "")


def _rechunked(rows: Rows, app: str, figure: str) -> Iterator[Verdict]:
    base = {"app": app, "what": "fragmented"}
    at = rows.values("nodes", mode="rechunk-persisted", **base)
    top = at[-1] if at else 16

    def time_of(side: str, mode: str) -> float | None:
        return rows.seconds(side=side, mode=mode, nodes=top, **base)

    if app == "histogram":
        order = [time_of("stock", mode) for mode in ("spliter", "baseline", "rechunk-2023")]
        known = None not in order
        yield Verdict(app, figure, f"stock, {top} nodes: SplIter < baseline < P2P rechunk of 2023",
                      " < ".join(f"{t:.2f} s" for t in order) if known else "–",
                      order == sorted(order) if known else None)
        return
    for side in SIDES:
        split = time_of(side, "spliter")
        yield check(app, figure, f"{side}, {top} nodes: lazy rechunk ÷ SplIter > 1.5",
                    ratio(time_of(side, "rechunk-lazy"), split), "{:.2f}", low=1.5)
        yield check(app, figure, f"{side}, {top} nodes: persisted rechunk ÷ SplIter in 0.8–1.3",
                    ratio(time_of(side, "rechunk-persisted"), split), "{:.2f}", 0.8, 1.3)


def _balanced(rows: Rows, app: str, figure: str) -> Iterator[Verdict]:
    label = "workers" if app == "csvm" else "nodes"
    for side in SIDES:
        base = {"app": app, "what": "balanced", "side": side}
        worst, where = 0.0, 0
        for n in rows.values(label, **base):
            times = [rows.seconds(mode=mode, **{label: n}, **base)
                     for mode in ("baseline", "spliter", "rechunk-persisted")]
            if None not in times and max(times) / min(times) > worst:
                worst, where = max(times) / min(times), n
        yield check(app, figure, f"{side}: all modes within 15 % of each other", worst or None,
                    "slowest ÷ fastest {:.2f}", high=1.15, note=f" ({where} {label})")
    if app == "csvm":
        return
    fragmented = rows.all(app=app, what="fragmented", mode="spliter", side="rask")
    share = max((100 * row["parts"]["split"] / max(row["seconds"]) for row in rows.all(
        app=app, what="balanced", mode="spliter", side="rask") if row["seconds"]), default=None)
    yield check(app, figure, "rask: making the split ≤ 2 % of the run", share, "{:.1f} %", high=2)
    each = max((MICRO * row["parts"]["split"] / row["blocks"] for row in fragmented
                if row["blocks"] >= 2_000 and row["seconds"]), default=None)
    yield check(app, figure, "rask: the split < 5 µs per block (2 000 blocks and more)", each,
                "{:.1f} µs", high=5)


# ---- real kernels --------------------------------------------------------------------------------------


def csvm(rows: Rows) -> Iterator[Verdict]:
    found = [row for row in rows.all(app="csvm") if "overlap" in row]
    least = min((row["overlap"] for row in found), default=None)
    yield check("csvm", "15–17", "the same support vectors in all modes", least,
                "smallest overlap {:.4f}", low=1.0, note=f" over {len(found)} runs")
    base = {"app": "csvm", "what": "fragmented"}
    at = rows.values("workers", **base)
    for side in SIDES:
        for n in at[-1:] or [4]:
            yield check("csvm", "15", f"{side}, {n} workers: materialised SplIter ≤ 1.05 × persisted rechunk",
                        ratio(rows.seconds(mode="materialized", side=side, workers=n, **base),
                               rows.seconds(mode="rechunk-persisted", side=side, workers=n, **base)),
                        "{:.3f}", high=1.05)
    yield from _balanced(rows, "csvm", "16")


def knn(rows: Rows) -> Iterator[Verdict]:
    trees = sorted(rows.all(app="knn", what="trees"), key=lambda row: row["trees"])
    look = ratio(trees[-1]["lookup"], trees[0]["lookup"]) if trees else None
    fit = ratio(trees[-1]["fit"], trees[0]["fit"]) if trees else None
    yield check("knn", "T1", "lookup in 6 small trees ÷ 1 big tree in 3–5.5", look, "{:.2f}", 3, 5.5)
    yield check("knn", "T1", "fit of 6 small trees ÷ 1 big tree in 0.55–0.85", fit, "{:.2f}", .55, .85)
    base = {"app": "knn", "what": "real", "part": "kneighbors"}
    at = rows.values("workers", app="knn", what="real")
    top = at[-1] if at else 4
    for side in SIDES:
        split = rows.seconds(mode="spliter", side=side, workers=top, **base)
        yield check("knn", "20", f"{side}, {top} workers: baseline ÷ SplIter ≥ 1.5",
                    ratio(rows.seconds(mode="baseline", side=side, workers=top, **base), split),
                    "{:.2f}", low=1.5)
        yield check("knn", "20", f"{side}, {top} workers: persisted rechunk ÷ SplIter in 0.9–1.15",
                    ratio(rows.seconds(mode="rechunk-persisted", side=side, workers=top, **base),
                           split), "{:.2f}", 0.9, 1.15)
    yield _lookups(rows, top)
    for side in SIDES:
        yield from _growth(rows, side)


def _lookups(rows: Rows, top: int) -> Verdict:
    claim = "lookups: query blocks × trees, a tree per block or per worker"
    said, good = [], []
    for mode in ("baseline", "spliter"):
        for row in rows.all(app="knn", what="real", mode=mode, workers=top)[:1]:
            if not row["seconds"]:
                continue
            per = row["fit"] if mode == "baseline" else 1
            wanted = row["queries"] * top * per * top
            calls = row["kernels"]["lookup"][0]
            said.append(f"{mode} {calls}")
            good.append(calls == wanted)
    return Verdict("knn", "20", claim, ", ".join(said) or "–", all(good) if good else None)


def _growth(rows: Rows, side: str) -> Iterator[Verdict]:
    base = {"app": "knn", "what": "growing", "side": side}
    at = rows.values("fit", **base)

    def rates(mode: str) -> list[float]:
        found = [(n, rows.seconds("kneighbors", mode=mode, fit=n, **base)) for n in at]
        return [n / t for n, t in found if t]

    plain, split = rates("baseline"), rates("spliter")
    flat = max(abs(rate / plain[0] - 1) for rate in plain) * 100 if plain else None
    yield check("knn", "21", f"{side}: baseline's blocks per second flat ± 10 %", flat,
                "largest change {:.0f} %", high=10)
    yield check("knn", "21", f"{side}: SplIter's blocks per second grow ≥ 4 × over 6 × the data",
                split[-1] / split[0] if split else None, "{:.2f} ×", low=4)


# ---- all of them ---------------------------------------------------------------------------------------


def honest(rows: Rows) -> Iterator[Verdict]:
    """Results agree, work is equal, and blocks stay where they are."""
    compared = [row for row in rows.rows if "agrees" in row]
    broken = [row for row in compared if "error" in row]
    note = f", {len(broken)} ended with an error ({', '.join(row['backend'] for row in broken)})" if broken else ""
    agree = sum(row["agrees"] for row in compared)
    yield Verdict("all", "results", "every mode gives the result of the first",
                  f"{agree} of {len(compared)} runs agree{note}", agree == len(compared) if compared else None)
    sums: dict[tuple, set[int]] = {}
    for row in rows.rows:
        if "kernels" not in row or row["app"] == "knn" or row["what"] == "probe":
            continue
        place = tuple(str(row.get(key)) for key in ("app", "what", "nodes", "workers", "per_slot",
                                                    "blocks"))
        sums.setdefault(place, set()).add(sum(r for _, r in row["kernels"].values()))
    uneven = sum(len(found) > 1 for found in sums.values())
    yield Verdict("all", "work", "kernels are given the same rows in every mode",
                  f"{len(sums) - uneven} of {len(sums)} comparisons", not uneven if sums else None)
    for side in SIDES:
        # Query blocks of k-NN must meet every tree; the fit data is what is split.
        found = [row for mode in ("spliter", "materialized") for row in rows.all(mode=mode, side=side)
                 if "block_bytes_moved" in row]
        moved = sum(row["block_bytes_moved"] for row in found)
        yield Verdict("all", "bytes", f"{side}: 0 bytes of blocks move between workers under SplIter",
                      f"{moved} bytes in {len(found)} runs", moved == 0 if found else None)


def verdicts(rows: Rows) -> list[Verdict]:
    found = [*honest(rows), *floor(rows), *nodes(rows, "histogram", ("9", "10", "11")),
             *nodes(rows, "kmeans", ("12", "13", "14")), *csvm(rows), *knn(rows)]
    return found
