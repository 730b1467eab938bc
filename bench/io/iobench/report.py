"""Markdown from measured rows: what must hold, and a table per experiment."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bed.kept import Rows
from bed.verdicts import table
from iobench import must
from iobench.plan import EXPERIMENTS

BEGIN, END = "<!-- bench-io:begin -->", "<!-- bench-io:end -->"
MB = 1e6


def _table(heads: list[str], lines: list[list]) -> str:
    if not lines:
        return "Not run.\n"
    rows = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(rows + ["| " + " | ".join(map(str, line)) + " |" for line in lines]) + "\n"


def _buffers(row: dict) -> str:
    many = "" if row["blocks"] == 1 else "s"
    return "naive blocks" if row["blocks"] is None else f"clustered, {row['blocks']} block{many}"


def planner(rows: Rows) -> str:
    return _table(["blocks", "bound, blocks", "best, s", "worst"],
                  [[row["of"], row["blocks"], f"{min(row['seconds']):.3f}", f"{max(row['seconds']):.3f}"]
                   for row in rows.all(experiment="planner") if row["seconds"]])


def strategies(rows: Rows) -> str:
    lines: dict[tuple, dict] = {}
    for row in rows.all(experiment="strategies"):
        name = row["strategy"]
        naive = name.startswith("naive") or name == "one by one"
        target = f"{name}, to {row['to']}³" if "to" in row else name
        place = f"{row['cube']}³", target, "" if naive else row["blocks"]
        found = lines.setdefault(place, {"predicted": sum(row["predicted"])})
        found[row["direction"]] = row["array_seeks"] + row["block_seeks"]
    return _table(["numbers", "strategy", "bound, blocks", "seeks predicted", "split, counted", "merge, counted",
                   "blocks to blocks, counted"],
                  [[*place, found["predicted"], *(found.get(d, "") for d in ("split", "merge", "repartition"))]
                   for place, found in sorted(lines.items(), key=lambda item: (*item[0][:2], item[0][2] or 0))])


def seeks(rows: Rows) -> str:
    lines: dict[tuple, dict] = {}
    for row in rows.all(experiment="seeks"):
        if "predicted" in row:
            found = lines.setdefault((row["case"], _buffers(row)), {"predicted": sum(row["predicted"])})
            found[row["direction"]] = row["array_seeks"] + row["block_seeks"]
    return _table(["data", "loads and stores", "seeks predicted", "split, counted", "merge, counted"],
                  [[*place, found["predicted"], found.get("split", ""), found.get("merge", "–")]
                   for place, found in lines.items()])


def timed(rows: Rows, experiment: str) -> str:
    found = rows.all(experiment=experiment)
    base = {(row["format"], row["threads"]): median(row["seconds"]) for row in found
            if row["backend"] == "stock" and row["seconds"]}
    lines = []
    for row in found:
        if not row["seconds"]:
            lines.append([row["format"], row["backend"], row["threads"], _buffers(row), "failed", "", "", ""])
            continue
        took, stock = median(row["seconds"]), base.get((row["format"], row["threads"]))
        lines.append([row["format"], row["backend"], row["threads"], _buffers(row), f"{took:.1f}",
                      f"{stock / took:.1f} ×" if stock else "", f"{row['reads']} / {row['writes']}",
                      f"{row['peak'] / MB:.0f}"])
    return _table(["format", "cluster", "threads", "loads and stores", "seconds", "faster than stock",
                   "requests read / written", "peak MB"], lines)


def fast(rows: Rows) -> str:
    lines = []
    for row in rows.all(experiment="fast"):
        if not row["seconds"]:
            continue
        over = must.beside_naive(rows, row)
        lines.append([row["direction"], row["format"], row["backend"], _buffers(row), f"{min(row['seconds']):.2f}",
                      f"{median(row['seconds']):.2f}", f"{max(row['seconds']):.2f}",
                      "" if over is None else f"{over:+.1f} %"])
    return _table(["", "format", "cluster", "loads and stores", "best, s", "median", "worst",
                   "beside naive on rask"], lines)


def text(rows: Rows, folder: str) -> str:
    """Everything, with pictures from `folder`."""
    parts = ["Made by `make bench-io`; nothing here is typed.", "", "### What must hold", "",
             table(must.verdicts(rows), must.HEADS), ""]
    pictures = {"strategies": "strategies.png", "seeks": "seeks.png", "split": "split.png", "merge": "merge.png"}
    for name, about in EXPERIMENTS.items():
        made = {"planner": planner, "strategies": strategies, "seeks": seeks, "fast": fast}.get(name)
        meta = rows.meta.get(f"{name}.io")
        parts += [f"### {about[0].upper()}{about[1:]}", ""]
        if meta:
            parts += [f"Measured {meta['when']} UTC in {meta['took']:.0f} s on {meta['cores']} cores, load "
                      f"{meta['load']:.1f}.", ""]
        if name in pictures:
            parts += [f"![{about}]({folder}{pictures[name]})", ""]
        parts += [made(rows) if made else timed(rows, name)]
    return "\n".join(parts)


def into(path: Path, made: str) -> None:
    """Replaces what stands between the markers of a page."""
    page = path.read_text()
    head, rest = page.split(BEGIN)
    _, tail = rest.split(END)
    path.write_text(f"{head}{BEGIN}\n{made}{END}{tail}")
