"""A picture per application. Colour says the mode, line and fill say the cluster; floors are dotted.

Only kept rows are drawn; a panel without rows says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: E402

from bed.kept import Rows  # noqa: E402
from spliter.figures import NAMES  # noqa: E402

COLOURS = {"baseline": "#7a7a7a", "spliter": "#0b7285", "materialized": "#2f9e44",
           "rechunk-lazy": "#f08c00", "rechunk-persisted": "#c2255c", "rechunk-p2p": "#7048e8",
           "rechunk-2023": "#862e9c"}
FIT, LOOKUP = "#74c0fc", "#1864ab"  # work of one core: no mode and no cluster
SIDES = {"stock": {"linestyle": (0, (4, 2)), "markerfacecolor": "white"}, "rask": {"linestyle": "-"}}
STYLE = {"font.size": 10, "font.family": "DejaVu Sans", "axes.spines.top": False,
         "axes.spines.right": False, "axes.grid": True, "grid.color": "#e9ecef", "axes.axisbelow": True,
         "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left",
         "legend.frameon": False, "legend.fontsize": 8, "figure.dpi": 110,
         "axes.edgecolor": "#868e96", "xtick.color": "#495057", "ytick.color": "#495057"}


def _plain(value: float, _: Any = None) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 1 else f"{value:g}"


def _axes(ax: Any, title: str, x: str, ticks: list[float], y: str = "seconds, log scale",
          log: bool = True) -> None:
    ax.set_title(title, pad=10)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_xscale("log")
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(_plain))
        ax.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    if ticks:
        ax.set_xticks(ticks, [_plain(tick) for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())


def _empty(ax: Any, title: str) -> None:
    ax.set_title(title, pad=10)
    ax.text(0.5, 0.5, "not run", ha="center", va="center", transform=ax.transAxes, color="#868e96")
    ax.set_xticks([])
    ax.set_yticks([])


def _line(ax: Any, points: list[tuple[float, float]], mode: str, side: str) -> Any:
    if not points:
        return None
    style = dict(SIDES[side], markeredgecolor=COLOURS[mode])
    return ax.plot(*zip(*points), color=COLOURS[mode], marker="o", markersize=5,
                   linewidth=2.2 if mode == "spliter" else 1.6, **style)[0]


def lines(ax: Any, rows: Rows, x: str, modes: tuple[str, ...], part: str | None = None,
          **labels: Any) -> list[float]:
    """Seconds over `x`, a line per mode and cluster. Gives the places on the x axis."""
    places = rows.values(x, **labels)
    for side in SIDES:
        for mode in modes:
            points = [(place, rows.seconds(part, side=side, mode=mode, **{**labels, x: place}))
                      for place in places]
            _line(ax, [(a, b) for a, b in points if b], mode, side)
    return places


def bars(ax: Any, rows: Rows, x: str, modes: tuple[str, ...], title: str, label: str,
         **labels: Any) -> None:
    """Seconds at each `x`, a bar per mode and cluster."""
    places = rows.values(x, **labels)
    if not places:
        return _empty(ax, title)
    series = [(side, mode) for mode in modes for side in SIDES]
    width = 0.8 / len(series)
    for k, (side, mode) in enumerate(series):
        heights = [rows.seconds(side=side, mode=mode, **{**labels, x: place}) or 0 for place in places]
        at = [i - 0.4 + (k + 0.5) * width for i in range(len(places))]
        fill = COLOURS[mode] if side == "rask" else "white"
        ax.bar(at, heights, width * 0.88, color=fill, edgecolor=COLOURS[mode], linewidth=1.2,
               hatch=None if side == "rask" else "////")
    ax.set_title(title, pad=10)
    ax.set_xticks(range(len(places)), [_plain(place) for place in places])
    ax.set_xlabel(label)
    ax.set_ylabel("seconds")
    ax.grid(axis="x", visible=False)
    return None


def _legend(figure: Any) -> None:
    """One legend for all panels: colours are modes, line and fill are clusters."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    used = {colour for ax in figure.axes for colour in _colours(ax)}
    handles: list[Any] = [Patch(color=colour, label=NAMES[mode]) for mode, colour in COLOURS.items()
                          if colour in used]
    line = {"color": "#343a40", "linewidth": 1.6}
    handles += [Line2D([], [], marker="o", markersize=5, **line, **SIDES["stock"], label="stock Dask"),
                Line2D([], [], marker="o", markersize=5, **line, **SIDES["rask"], label="rask")]
    if any(drawn.get_marker() == "^" for ax in figure.axes for drawn in ax.lines):
        handles.append(Line2D([], [], marker="^", markersize=6, **line, **SIDES["stock"],
                              label="stock, saturation=inf"))
    if any(drawn.get_linestyle() == ":" for ax in figure.axes for drawn in ax.lines):
        handles.append(Line2D([], [], color="black", linewidth=1.4, linestyle=":",
                              label="floor: kernels alone, no Dask"))
    figure.legend(handles=handles, loc="lower center", ncol=min(6, len(handles)), fontsize=9.5)


def _colours(ax: Any) -> list[str]:
    from matplotlib.colors import to_hex

    return [to_hex(drawn.get_color()) for drawn in ax.lines] + [
        to_hex(patch.get_edgecolor()) for patch in ax.patches]


def _ideal(ax: Any, rows: Rows, **labels: Any) -> None:
    found = [row["ideal"] for row in rows.all(**labels) if "ideal" in row]
    if found:
        ax.axhline(found[0], color="black", linewidth=1.3, linestyle=":")


# ---- panels ------------------------------------------------------------------------------------------


def floor_panel(ax: Any, rows: Rows) -> None:
    title = "1 GiB in more and more blocks, 2 cores"
    bare = [(n, rows.seconds(what="floor", mode="floor", blocks=n))
            for n in rows.values("blocks", what="floor", mode="floor")]
    if not bare:
        return _empty(ax, title)
    for backend, style in (("stock", "stock"), ("stock-inf", "stock"), ("rask/rask", "rask")):
        for mode in ("baseline", "spliter", "rechunk-persisted"):
            points = [(n, rows.seconds(what="floor", backend=backend, mode=mode, blocks=n)) for n, _ in bare]
            drawn = _line(ax, [(a, b) for a, b in points if b], mode, style)
            if backend == "stock-inf" and drawn:
                drawn.set_marker("^")
    ax.plot(*zip(*bare), color="black", linewidth=1.4, linestyle=":", marker="_")
    _axes(ax, title, "blocks, log scale", [n for n, _ in bare])
    return None


def weak_panel(ax: Any, rows: Rows, app: str, figure: str, modes: tuple[str, ...]) -> None:
    title = f"Fig. {figure}: 48 blocks per slot, more and more nodes"
    places = lines(ax, rows, "nodes", modes, app=app, what="fragmented")
    if not places:
        return _empty(ax, title)
    _ideal(ax, rows, app=app, what="fragmented")
    _axes(ax, title, "virtual nodes, log scale", places)
    return None


def sweep_panel(ax: Any, rows: Rows, app: str, figure: str, place: str) -> None:
    """One cluster size, all fragmentations: rows of three parts of the experiment together."""
    size = max(rows.values(place, app=app, what="sweep"), default=None)
    title = f"Fig. {figure}: the same data in more blocks" + (f", {size} {place}" if size else "")
    if size is None:
        return _empty(ax, title)
    parts = Rows([{**row, "what": "sweep"} for row in rows.all(app=app, **{place: size})
                  if row["what"] in ("sweep", "balanced", "fragmented")], {})
    modes = ("baseline", "spliter", "materialized", "rechunk-persisted")
    places = lines(ax, parts, "per_slot", modes if app == "csvm" else (*modes[:2], modes[3]), what="sweep")
    _ideal(ax, parts, what="sweep")
    _axes(ax, title, "blocks per slot, log scale", places)
    return None


def trees_panel(ax: Any, rows: Rows) -> None:
    title = "Table 1: one big tree or many small ones, one core"
    found = sorted(rows.all(app="knn", what="trees"), key=lambda row: row["trees"])
    if not found:
        return _empty(ax, title)
    at = range(len(found))
    ax.bar(at, [row["fit"] for row in found], 0.6, color=FIT, label="fit all trees")
    ax.bar(at, [row["lookup"] for row in found], 0.6, bottom=[row["fit"] for row in found],
           color=LOOKUP, label=f"k neighbours of {_plain(found[0]['query_rows'])} points in all")
    ax.set_xticks(at, [f"{row['trees']} × {row['rows'] // 1000} k" for row in found])
    ax.set_xlabel("trees × points each")
    ax.set_ylabel("seconds")
    ax.set_title(title, pad=10)
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper left")
    return None


def tree_size_panel(ax: Any, rows: Rows) -> None:
    title = "Figs 18, 19: one tree, larger and larger, one core"
    found = sorted(rows.all(app="knn", what="trees"), key=lambda row: row["rows"])
    if not found:
        return _empty(ax, title)
    for part, colour, label in (("fit", FIT, "fit one tree"), ("lookup", LOOKUP, "look up in one tree")):
        ax.plot([row["rows"] for row in found], [row[part] / row["trees"] for row in found], color=colour,
                marker="o", markersize=5, linewidth=2, label=label)
    _axes(ax, title, "points in the tree", [], "seconds", log=False)
    ax.set_xscale("linear")
    ax.set_xticks([row["rows"] for row in found], [_plain(row["rows"]) for row in found])
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left")
    return None


def growth_panel(ax: Any, rows: Rows) -> None:
    title = "Fig. 21: more fit data, higher is better"
    places = rows.values("fit", app="knn", what="growing")
    if not places:
        return _empty(ax, title)
    for side in SIDES:
        for mode in ("baseline", "spliter", "rechunk-persisted"):
            points = [(n, rows.seconds("kneighbors", app="knn", what="growing", side=side, mode=mode,
                                       fit=n)) for n in places]
            _line(ax, [(n, n / t) for n, t in points if t], mode, side)
    _axes(ax, title, "fit blocks per worker", [], "fit blocks per worker ÷ seconds", log=False)
    ax.set_xscale("linear")
    ax.set_xticks(places)
    ax.set_ylim(bottom=0)
    return None


# ---- pictures ------------------------------------------------------------------------------------------

COMPARED = ("baseline", "spliter", "rechunk-persisted")
SIX = tuple(COLOURS)[:6]


def histogram(rows: Rows) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(13.5, 10))
    floor_panel(axes[0, 0], rows)
    weak_panel(axes[0, 1], rows, "histogram", "9", ("baseline", "spliter", "rechunk-persisted", "rechunk-2023"))
    bars(axes[1, 0], rows, "nodes", COMPARED, "Fig. 10: one block per slot: nothing to win", "virtual nodes",
         app="histogram", what="balanced")
    _ideal(axes[1, 0], rows, app="histogram", what="balanced")
    sweep_panel(axes[1, 1], rows, "histogram", "11", "nodes")
    return figure


def kmeans(rows: Rows) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(13.5, 10))
    weak_panel(axes[0, 0], rows, "kmeans", "12", ("baseline", "spliter", "rechunk-lazy", "rechunk-persisted"))
    bars(axes[0, 1], rows, "nodes", COMPARED, "Fig. 13: one block per slot: nothing to win", "virtual nodes",
         app="kmeans", what="balanced")
    _ideal(axes[0, 1], rows, app="kmeans", what="balanced")
    sweep_panel(axes[1, 0], rows, "kmeans", "14", "nodes")
    bars(axes[1, 1], rows, "workers", SIX, "The real kernel, all modes", "workers",
         app="kmeans", what="real")
    return figure


def csvm(rows: Rows) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(17, 5.2))
    bars(axes[0], rows, "workers", SIX, "Fig. 15: 8 blocks per worker", "workers",
         app="csvm", what="fragmented")
    bars(axes[1], rows, "workers", COMPARED, "Fig. 16: one block per worker", "workers", app="csvm",
         what="balanced")
    sweep_panel(axes[2], rows, "csvm", "17", "workers")
    return figure


def knn(rows: Rows) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(13.5, 10))
    trees_panel(axes[0, 0], rows)
    tree_size_panel(axes[0, 1], rows)
    title = "Fig. 20: time of the lookups"
    places = lines(axes[1, 0], rows, "workers", ("baseline", "spliter", "materialized", "rechunk-persisted"),
                   "kneighbors", app="knn", what="real")
    if places:
        _axes(axes[1, 0], title, "workers, log scale", places)
    else:
        _empty(axes[1, 0], title)
    growth_panel(axes[1, 1], rows)
    return figure


PICTURES = {"histogram": histogram, "kmeans": kmeans, "csvm": csvm, "knn": knn}
TITLES = {"histogram": "Histogram", "kmeans": "k-means", "csvm": "Cascade SVM",
          "knn": "k nearest neighbours"}


def draw(rows: Rows, where: Path) -> None:
    """A PNG per application. Dashed lines and hatched bars are stock Dask, solid ones rask."""
    with plt.rc_context(STYLE):
        for app, picture in PICTURES.items():
            figure = picture(rows)
            figure.suptitle(f"{TITLES[app]}: stock Dask (dashed, hatched) and rask (solid)", x=0.01,
                            ha="left", fontsize=14, fontweight="bold")
            _legend(figure)
            figure.tight_layout(rect=(0, 0.9 / figure.get_figheight(), 1, 0.985))
            figure.savefig(where / f"{app}.png")
            plt.close(figure)
