"""The SplIter bench runs, its modes agree, and it writes its pages and pictures. Sizes are tiny.

On rask alone: the same on stock takes two minutes more and says nothing about rask.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
APPS = ("histogram", "kmeans", "csvm", "knn")


@pytest.mark.timeout(900)
def test_quick_bench(tmp_path):
    done = subprocess.run([sys.executable, "bench/spliter/run.py", "--quick",
                           "--backends", "local,rask/rask", "--results", str(tmp_path)],
                          cwd=REPO, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = [row for path in tmp_path.glob("*.json") for row in json.loads(path.read_text())["rows"]]
    assert {row["app"] for row in rows} == set(APPS)
    assert all(row["agrees"] for row in rows)
    split = [row for row in rows if row["mode"] == "spliter" and "block_bytes_moved" in row]
    assert len(split) >= 10 and not sum(row["block_bytes_moved"] for row in split)
    for line in done.stdout.splitlines():
        if line.startswith("| all |") and not line.endswith("| not run |"):
            assert line.endswith("| holds |"), line
    for figure in ("The floor", "Table 1", *(f"Fig. {number}" for number in (*range(9, 18), 20, 21))):
        assert f", {figure}" in done.stdout, figure
    for app in APPS:
        assert (tmp_path / f"{app}.png").stat().st_size > 20_000
        assert "What must hold" in (tmp_path / f"{app}.md").read_text()


def test_figures_are_tables_of_what_was_measured_and_go_into_a_page(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(REPO / "bench"))
    from bed.kept import Rows
    from spliter import figures, report

    def row(nodes, mode, backend, seconds):
        return {"experiment": "histogram.nodes", "app": "histogram", "what": "fragmented", "mode": mode,
                "backend": backend, "nodes": nodes, "blocks": 9, "seconds": seconds, "parts": {"split": 0.1},
                "agrees": True}

    meta = {"when": "2026-01-01 00:00:00", "cores": 2, "took": 60.0, "load": 1.0}
    rows = Rows([row(1, "baseline", "stock-inf", [3.0, 1.0, 2.0]), row(1, "spliter", "stock-inf", [0.5]),
                 row(4, "baseline", "rask/rask", [123.4]), row(4, "spliter", "rask/rask", [])],
                {"histogram.nodes.stock-inf": meta})
    ((title, table),) = figures.of(rows, "histogram")
    assert title == "Fig. 9: 48 blocks per slot, more and more nodes"
    assert table.splitlines() == [
        "| virtual nodes                     |   1 |   4 |",
        "|-----------------------------------|----:|----:|",
        "| a task per block, stock           |   2 |   – |",
        "| a task per block, rask            |   – | 123 |",
        "| SplIter, stock                    | 0.5 |   – |",
        "| a task per block ÷ SplIter, stock |   4 |   – |"]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nstale\n{report.END}\nafter\n")
    for _ in range(2):  # rendering again changes nothing
        report.into(page, rows, "here")
        text = page.read_text()
        assert text.startswith(f"before\n{report.BEGIN}\nMeasured 2026-01-01")
        assert text.endswith(f"{report.END}\nafter\n") and "stale" not in text
        assert text.count(table) == 1 and "![Histogram](here/histogram.png)" in text


def test_what_is_kept_whole_is_not_run_again_and_what_is_not_is(tmp_path):
    def bench(*options):
        return subprocess.run([sys.executable, "bench/spliter/run.py", "--quick", "--only",
                               "histogram.kernel,knn.trees", "--results", str(tmp_path), *options],
                              cwd=REPO, capture_output=True, text=True, timeout=300)

    cut = bench("--minutes", "0")
    assert cut.returncode == 1
    assert "histogram.kernel local: left out, the time was up" in cut.stderr
    assert not list(tmp_path.glob("*.json"))
    assert bench("--only", "histogram.kernel").returncode == 0
    rest = bench("--resume")
    assert rest.returncode == 0
    assert "histogram.kernel local is kept from an earlier run" in rest.stdout
    assert {path.name for path in tmp_path.glob("*.json")} == {"histogram.kernel.local.json",
                                                               "knn.trees.local.json"}
