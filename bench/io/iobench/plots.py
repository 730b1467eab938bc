"""Pictures: seeks of every bound, and times on the throttled device beside stock's."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from bed.kept import Rows  # noqa: E402

GREY, BLUE = "#868e96", "#1c7ed6"


def draw(rows: Rows, where: Path) -> None:
    _seeks(rows, where / "seeks.png")
    for experiment in ("split", "merge"):
        _times(rows, experiment, where / f"{experiment}.png")


def _save(figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


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
            ax.plot([f[0] for f in found], [f[1] for f in found], "o", color=colour, label=case)
    ax.set(xscale="log", yscale="log", xlabel="blocks in a buffer, at most", ylabel="seeks",
           title="seeks of a split: lines predicted, dots counted by strace")
    ticks = sorted({row["blocks"] for row in rows.all(experiment="seeks") if row["blocks"]})
    ax.set_xticks(ticks, [str(t) for t in ticks], minor=False)
    ax.minorticks_off()
    if cases:
        ax.legend(frameon=False, fontsize=8)
    _save(figure, path)


def _times(rows: Rows, experiment: str, path: Path) -> None:
    found = [row for row in rows.all(experiment=experiment) if row["seconds"]]
    figure, ax = plt.subplots(figsize=(7, 0.4 * len(found) + 1.4))
    names = [f"{row['backend']}, {row['threads']} thread{'s' * (row['threads'] > 1)}, "
             + ("naive blocks" if row["blocks"] is None else f"{row['blocks']} blocks") for row in found]
    times = [median(row["seconds"]) for row in found]
    ax.barh(names, times, color=[GREY if row["backend"] == "stock" else BLUE for row in found])
    for name, seconds in zip(names, times):
        ax.text(seconds, name, f" {seconds:.1f} s", va="center", fontsize=8)
    ax.invert_yaxis()
    iops = next((row["iops"] for row in found if "iops" in row), "")
    ax.set(xlabel="seconds", title=f"{experiment}, a device of {iops} requests a second")
    ax.margins(x=0.12)
    _save(figure, path)
