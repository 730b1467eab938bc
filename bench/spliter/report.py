"""Markdown from measured rows: figures, every cell, and what must hold with its verdicts."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bed.kept import Rows
from bed.verdicts import table
from spliter import figures, must
from spliter.plan import EXPERIMENTS

BEGIN, END = "<!-- bench-spliter:begin -->", "<!-- bench-spliter:end -->"
APPS = {"histogram": "Histogram", "kmeans": "k-means", "csvm": "Cascade SVM",
        "knn": "k nearest neighbours"}
PLACE = ("nodes", "workers", "slots", "per_slot", "fit", "queries", "rows", "trees", "blocks", "tasks")
HEADS = {"per_slot": "blocks/slot", "fit": "fit blocks/worker", "queries": "query blocks/worker"}


def _seconds(row: dict) -> str:
    times = row["seconds"]
    if not times:
        return "–"
    spread = f" ({min(times):.3g}–{max(times):.3g})" if len(times) > 1 else ""
    return f"{median(times):.3g}{spread}"


def _bytes(count: int | None) -> str:
    if count is None:
        return "not counted"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.3g} {unit}"
    return f"{max(0, count)} B"


def _kernels(row: dict) -> str:
    return ", ".join(f"{name} {calls}" for name, (calls, _) in sorted(row.get("kernels", {}).items()))


def _parts(row: dict) -> str:
    return ", ".join(f"{name} {seconds:.3g}" for name, seconds in row.get("parts", {}).items())


def experiment_table(rows: Rows, key: str) -> str:
    found = [row for row in rows.rows if row["experiment"] == key]
    if not found:
        return "Not run.\n"
    places = [place for place in PLACE if any(isinstance(row.get(place), int) for row in found)]
    clustered = any("kernels" in row for row in found)
    heads = ["figure part", *(HEADS.get(place, place) for place in places), "mode", "cluster",
             "seconds"]
    heads += ["of which", "kernel calls", "between workers", "blocks moved", "agrees"] * clustered
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in sorted(found, key=lambda row: [str(row["what"]), *(row.get(p) or 0 for p in places),
                                              row["mode"], row["backend"]]):
        cells = [row["what"], *(str(row.get(place, "")) for place in places), row["mode"],
                 row["backend"], _seconds(row)]
        if clustered:
            cells += [_parts(row), _kernels(row), _bytes(row.get("moved", None)) if "moved" in row
                      else "", _bytes(row["block_bytes_moved"]) if "block_bytes_moved" in row else "",
                      row.get("error") or ("yes" if row.get("agrees") else "**NO**")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def notes(rows: Rows, app: str) -> list[str]:
    """What a reader must know of how the figures came about, from the rows themselves."""
    said = []
    reasons = {row["no_namespaces"] for row in rows.rows
               if row["app"] == app and row.get("no_namespaces")}
    if reasons:
        said.append("Left out: links of a chosen rate, and bytes between workers. They need network "
                    f"namespaces, which this machine refused ({'; '.join(sorted(reasons))}).")
    links = sorted({row["link"] for row in rows.rows if row["app"] == app and row.get("link")})
    if links:
        said.append(f"Every worker in its own network namespace; links of {' and '.join(links)}.")
    for row in rows.all(app=app, what="probe"):
        said.append(f"Probe of stock's settings, {row['experiment']}: {row['backend']} took "
                    f"{median(row['seconds']):.3g} s; the better one was used.")
    d9 = [(row["nodes"], side, median(row["seconds"])) for side in ("stock", "rask")
          for row in rows.all(app=app, mode="baseline-blocks", what="fragmented", side=side) if row["seconds"]]
    for n, side, t in d9:
        plain = rows.seconds(app=app, mode="baseline", what="fragmented", side=side, nodes=n)
        if plain:
            said.append(f"{side}, {n} nodes: blocks taken by `x.blocks[k]`, as published, {t:.3g} s; "
                        f"taken as futures {plain:.3g} s: the rest is the client's.")
    for row in rows.all(app=app, mode="baseline", what="fragmented"):
        if "nodes" in row and row["seconds"]:
            each = 1e3 * median(row["seconds"]) / row["blocks"]
            said.append(f"{row['backend']}, {row['nodes']} nodes: {each:.2f} ms per block of the baseline.")
    return said


def page(rows: Rows, app: str, image: str) -> str:
    lines = [f"# {APPS[app]}", "", "Made by `make bench-spliter`; nothing here is typed.", "",
             f"![{APPS[app]}]({image})", "", "## Figures", "",
             "Seconds, medians where a cell was repeated. Spread, kernel calls and bytes are at the end.", ""]
    for title, text in figures.of(rows, app):
        lines += [f"### {title}", "", text, ""]
    lines += ["## What must hold", "", table([v for v in must.verdicts(rows) if v.app == app]), ""]
    said = notes(rows, app)
    if said:
        lines += ["## Notes", "", *(f"- {line}" for line in said), ""]
    lines += ["## Every cell", ""]
    for experiment in EXPERIMENTS:
        if experiment.app == app:
            when = [f"{meta['when']} UTC, {meta['took']:.0f} s, load {meta['load']:.1f}"
                    for name, meta in rows.meta.items() if name.startswith(experiment.key + ".")]
            lines += [f"### {experiment.about[0].upper()}{experiment.about[1:]}", "",
                      *([f"Measured {'; '.join(when)}.", ""] if when else []),
                      experiment_table(rows, experiment.key)]
    return "\n".join(lines)


def screen(rows: Rows) -> str:
    """All figures and verdicts, for the terminal."""
    lines = []
    for app, name in APPS.items():
        for title, text in figures.of(rows, app):
            lines += [f"== {name}, {title}", text, ""]
    return "\n".join([*lines, "== What must hold", table(must.verdicts(rows))])


def measured(rows: Rows, folder: str) -> str:
    """The part of docs/SPLITER.md that is generated."""
    metas = list(rows.meta.values())
    found = must.verdicts(rows)
    missed = [v for v in found if v.holds is False]
    whens, loads = sorted(meta["when"] for meta in metas), sorted(meta["load"] for meta in metas)
    took, unknown = sum(meta["took"] for meta in metas) / 60, sum(v.holds is None for v in found)
    lines = [f"Measured {whens[0]} to {whens[-1]} UTC on {metas[0]['cores']} cores, {took:.1f} minutes in all; load at "
             f"the end of an experiment {loads[0]:.1f} to {loads[-1]:.1f}. Seconds, unless a line says otherwise.", "",
             f"Of {len(found)} things that must hold {len(found) - len(missed) - unknown} do, {len(missed)} are "
             f"missed and {unknown} were not run ([all of them]({folder}/acceptance.md)).", ""]
    if missed:
        lines += ["| missed | what must hold | measured |", "|---|---|---|",
                  *(f"| {APPS.get(v.app, v.app)}, {v.figure} | {v.claim} | {v.measured} |" for v in missed), ""]
    for app, name in APPS.items():
        tables = figures.of(rows, app)
        if tables:
            lines += [f"### {name}", "", f"![{name}]({folder}/{app}.png)", ""]
            for title, text in tables:
                lines += [f"{title}.", "", text, ""]
            lines += [f"Every cell: [{folder}/{app}.md]({folder}/{app}.md).", ""]
    return "\n".join(lines)


def into(page: Path, rows: Rows, folder: str) -> None:
    """Replaces what stands between the markers of a page."""
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{measured(rows, folder)}{END}{after}")


def write(rows: Rows, where: Path) -> None:
    """A page per application, and all verdicts on one page."""
    for app in APPS:
        (where / f"{app}.md").write_text(page(rows, app, f"{app}.png"))
    text = "\n".join(["# SplIter: what must hold", "", "Made by `make bench-spliter`. C baseline, D rechunk, "
                      "E SplIter in the notes; F(B) = the same kernel calls and sums in two bare processes.",
                      "", table(must.verdicts(rows)), ""])
    (where / "acceptance.md").write_text(text)
