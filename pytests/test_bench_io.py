"""The clustered I/O bench runs, and seeks that strace counts are those that were predicted. Sizes are tiny.

On rask alone: the same on stock takes as long again and says nothing about rask.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
BENCH = REPO / "bench"
sys.path[:0] = [str(BENCH / "io"), str(BENCH)]

from iobench.trace import Seeks, why_not  # noqa: E402

LOG = """\
11 openat(AT_FDCWD</>, "a", O_RDONLY) = 5</d/a>
11 pread64(5</d/a>, ""..., 100, 0) = 100
12 preadv(5</d/a>, [{iov_base=""..., iov_len=50}], 1, 100 <unfinished ...>
11 write(6</d/b/x>, ""..., 10)          = 10
12 <... preadv resumed>)   = 50
11 write(6</d/b/x>, ""..., 10) = 10
11 lseek(6</d/b/x>, 100, SEEK_SET) = 100
11 write(6</d/b/x>, ""..., 10) = 10
11 pread64(5</d/a>, ""..., 10, 140) = 10
11 pread64(5</d/a>, ""..., 10, 150) = -1 EIO (Input/output error)
11 close(5</d/a>) = 0
11 openat(AT_FDCWD</>, "a", O_RDONLY) = 5</d/a>
11 read(5</d/a>, ""..., 7) = 7
"""


def test_seeks_are_accesses_that_do_not_go_on_where_the_last_one_ended():
    seeks = Seeks(LOG.splitlines())
    assert seeks.of("/d/a") == 3  # the first, back to 140, the first after opening again
    assert seeks.of("/d/b") == 2
    assert seeks.of("/d/a", "bytes") == 167
    assert seeks.of("/d") == 5


@pytest.mark.timeout(900)
@pytest.mark.skipif(why_not() is not None, reason=f"seeks cannot be counted: {why_not()}")
def test_quick_bench(tmp_path):
    done = subprocess.run([sys.executable, "bench/io/run.py", "--quick", "--backends", "bare,rask/rask",
                           "--results", str(tmp_path)],
                          cwd=REPO, capture_output=True, text=True, timeout=850)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = [row for path in tmp_path.glob("*.json") for row in json.loads(path.read_text())["rows"]]
    assert all(row["agrees"] for row in rows)
    counted = [row for row in rows if "predicted" in row]
    assert len(counted) >= 40
    assert {row["strategy"] for row in counted if "strategy" in row} == {
        "naive slabs", "naive blocks", "buffered slabs", "clustered", "multiple", "one by one", "KEEP"}
    for row in counted:
        assert [row["array_seeks"], row["block_seeks"]] == row["predicted"], row
    for line in done.stdout.splitlines():
        if line.startswith(("| all | results |", "| strategies |", "| seeks |")):
            assert line.endswith("| holds |"), line
    assert (tmp_path / "seeks.png").stat().st_size > 10_000
    assert "What must hold" in (tmp_path / "report.md").read_text()


def planner(where: Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "bench/io/run.py", "--quick", "--only", "planner", "--results", str(where),
                           *options], cwd=REPO, capture_output=True, text=True, timeout=300)


def test_a_run_that_was_cut_short_says_so_and_goes_on_later(tmp_path):
    late = planner(tmp_path, "--minutes", "0")
    assert late.returncode == 1
    assert "planner: left out, the time was up" in late.stderr
    first = planner(tmp_path, "--resume")
    assert first.returncode == 0 and "kept from an earlier run" not in first.stdout
    kept = (tmp_path / "planner.io.json").read_text()
    again = planner(tmp_path, "--resume")
    assert again.returncode == 0 and "kept from an earlier run" in again.stdout
    assert (tmp_path / "planner.io.json").read_text() == kept
