"""Pictures: seeks of every bound, and times on the throttled device beside stock's."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from bed.kept import Rows  # noqa: E402

GREY, BLUE = "#868e96", "#1c7ed6"


def draw(rows: Rows, where: Path) -> None:
    _strategies(rows, where / "strategies.png")
    _seeks(rows, where / "seeks.png")
    _times(rows, ("split", "single"), where / "split.png")
    _times(rows, ("merge",), where / "merge.png")


def _save(figure, path: Path) -> None:
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _whole_decades(ax) -> None:
    """A logarithmic axis between two ticks has none, and then says nothing."""
    low, high = ax.get_ylim()
    ax.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    ax.minorticks_off()


def _strategies(rows: Rows, path: Path) -> None:
    """Seeks of every strategy at every bound; those without a bound are a line across."""
    figure, ax = plt.subplots(figsize=(7, 4))
    found: dict[str, dict[int, int]] = {}
    cube = min(rows.values("cube", experiment="strategies"), default=0)
    for row in rows.all(experiment="strategies", direction="split", cube=cube):
        found.setdefault(row["strategy"], {})[row["blocks"]] = row["array_seeks"] + row["block_seeks"]
    bounds = sorted({blocks for counts in found.values() for blocks in counts})
    for number, (name, counts) in enumerate(found.items()):
        if name.startswith("naive"):
            ax.axhline(next(iter(counts.values())), color=f"C{number}", lw=1, ls="--", label=name)
        else:
            ax.plot(list(counts), list(counts.values()), "o-", color=f"C{number}", lw=1, label=name)
    ax.set(xscale="log", yscale="log", xlabel="blocks in memory, at most", ylabel="seeks",
           title=f"splitting {cube}³ numbers into 125 blocks, by plain reads and writes")
    ax.set_xticks(bounds, [str(b) for b in bounds], minor=False)
    _whole_decades(ax)
    if found:
        ax.legend(frameon=False, fontsize=8)
    _save(figure, path)


def _seeks(rows: Rows, path: Path) -> None:
    """Seeks over the bound, by case; what was counted lies on what was predicted."""
    figure, ax = plt.subplots(figsize=(7, 4))
    cases = list(dict.fromkeys(row["case"] for row in rows.all(experiment="seeks")))
    for number, case in enumerate(cases):
        found = sorted((row["blocks"], row["array_seeks"] + row["block_seeks"], sum(row["predicted"]))
                       for row in rows.all(experiment="seeks", case=case, direction="split")
                       if row["blocks"] is not None and "predicted" in row)
        if found:
            colour = f"C{number}"
            ax.plot([f[0] for f in found], [f[2] for f in found], color=colour, lw=1)
            # Rings of different sizes: cases with equal counts lie on each other.
            ax.plot([f[0] for f in found], [f[1] for f in found], "o", color=colour, label=case, mfc="none",
                    ms=11 - 2 * number, mew=1.5)
    ax.set(xscale="log", yscale="log", xlabel="blocks in a buffer, at most", ylabel="seeks",
           title="seeks of a split with Dask: lines predicted, rings counted by strace")
    ticks = sorted({row["blocks"] for row in rows.all(experiment="seeks") if row["blocks"]})
    ax.set_xticks(ticks, [str(t) for t in ticks], minor=False)
    _whole_decades(ax)
    if cases:
        ax.legend(frameon=False, fontsize=8)
    _save(figure, path)


def _times(rows: Rows, experiments: tuple[str, ...], path: Path) -> None:
    found = [row for name in experiments for row in rows.all(experiment=name) if row["seconds"]]
    figure, ax = plt.subplots(figsize=(7, 0.4 * len(found) + 1.4))
    names = [f"{row['backend']}, {row['threads']} thread{'s' * (row['threads'] > 1)}, "
             + ("naive blocks" if row["blocks"] is None else f"buffers of {row['blocks']}") for row in found]
    times = [median(row["seconds"]) for row in found]
    ax.barh(names, times, color=[GREY if row["backend"] == "stock" else BLUE for row in found])
    for name, seconds in zip(names, times):
        ax.text(seconds, name, f" {seconds:.1f} s", va="center", fontsize=8)
    ax.invert_yaxis()
    iops = next((row["iops"] for row in found if "iops" in row), "")
    ax.set(xlabel="seconds", title=f"{experiments[0]}, a device of {iops} requests a second")
    ax.margins(x=0.12)
    _save(figure, path)
