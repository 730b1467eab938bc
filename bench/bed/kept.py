"""Measured rows on disk: a file per experiment and backend, so that parts can be run again alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results"
STOCK = ("stock", "stock-inf")


def folder(chosen: Path | None, bench: str, quick: bool) -> Path:
    found = chosen or RESULTS / (f"{bench}-quick" if quick else bench)
    found.mkdir(parents=True, exist_ok=True)
    return found


def path_of(where: Path, experiment: str, backend: str) -> Path:
    return where / f"{experiment}.{backend.replace('/', '-')}.json"


def save(where: Path, experiment: str, backend: str, rows: list[dict], took: float, whole: bool = True) -> None:
    """`whole`: nothing is missing, so a run that goes on need not do it again."""
    meta = {"when": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()), "load": os.getloadavg()[0],
            "cores": len(os.sched_getaffinity(0)), "took": took, "whole": whole}
    path_of(where, experiment, backend).write_text(json.dumps({"meta": meta, "rows": rows}, indent=0))


def whole(where: Path, experiment: str, backend: str) -> bool:
    path = path_of(where, experiment, backend)
    return path.exists() and bool(json.loads(path.read_text())["meta"].get("whole"))


def forget(where: Path, experiment: str, *backends: str) -> None:
    """Removes what an earlier run left."""
    for name in backends:
        path_of(where, experiment, name).unlink(missing_ok=True)


def rows_of(where: Path, experiment: str, backend: str) -> list[dict]:
    return json.loads(path_of(where, experiment, backend).read_text())["rows"]


class Rows:
    """All kept rows, with ways to ask for some."""

    def __init__(self, rows: Iterable[dict], meta: dict[str, dict]):
        self.rows = list(rows)
        self.meta = meta

    @classmethod
    def load(cls, where: Path) -> Rows:
        rows, meta = [], {}
        for path in sorted(where.glob("*.json")):
            kept = json.loads(path.read_text())
            rows += kept["rows"]
            meta[path.stem] = kept["meta"]
        return cls(rows, meta)

    def all(self, **labels: Any) -> list[dict]:
        """Rows with these labels. `side` is "stock", at either setting, or "rask"."""
        backends = {None: None, "stock": STOCK, "rask": ("rask/rask",)}[labels.pop("side", None)]
        return [row for row in self.rows
                if all(row.get(key) == value for key, value in labels.items())
                and (backends is None or row["backend"] in backends)]

    def seconds(self, part: str | None = None, **labels: Any) -> float | None:
        """Median seconds of the rows with these labels, or of a part of the run that was timed by
        itself; the better one if stock ran twice."""
        found = [row["parts"][part] if part else median(row["seconds"])
                 for row in self.all(**labels) if row["seconds"]]
        return min(found) if found else None

    def values(self, label: str, **labels: Any) -> list[Any]:
        return sorted({row[label] for row in self.all(**labels) if label in row})
