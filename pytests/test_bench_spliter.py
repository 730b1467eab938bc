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
    for app in APPS:
        assert (tmp_path / f"{app}.png").stat().st_size > 20_000
        assert "What must hold" in (tmp_path / f"{app}.md").read_text()


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
