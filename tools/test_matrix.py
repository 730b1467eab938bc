#!/usr/bin/env python3
"""The client suite over releases of Dask and pairings of scheduler and worker.

Each release gets an environment of its own in .venvs, with the NumPy and pandas of its time; it is
made once, and again when the list of packages changes. The native parts are those of the checkout.
Counts go to docs/matrix.json.

    tools/test_matrix.py                                        everything; no time limit
    tools/test_matrix.py --releases 2025.4.0 --pairings rask-stock -- -m smoke
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIRINGS = ["rask-rask", "rask-stock", "stock-rask", "stock-stock"]
# Release -> what else it needs to be of its time. The newest is the checkout's own .venv.
RELEASES = {
    "2025.4.0": ["numpy<2.3", "pandas<2.3", "pyarrow<20", "xarray==2025.4.0", "zarr<3.1"],
    "2025.12.0": ["numpy<2.4", "pandas<3", "pyarrow<23", "xarray<2026", "zarr<3.2"],
    "newest": [],
}


def environment(release: str) -> Path:
    """The interpreter for one release; makes its environment on first use."""
    if release == "newest":
        return ROOT / ".venv/bin/python"
    folder = ROOT / ".venvs" / release
    stamp = folder / "packages.txt"
    packages = "\n".join(_packages(release))
    if not stamp.exists() or stamp.read_text() != packages:
        print(f"== environment for {release}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)],
                       check=True)
        subprocess.run([sys.executable, "-m", "pip", "--python", str(folder), "install", "-q",
                        *packages.splitlines()], check=True)
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "rask-checkout.pth").write_text(f"{ROOT / 'python'}\n")
        stamp.write_text(packages)
    return folder / "bin/python"


def _packages(release: str) -> list[str]:
    listed = (ROOT / "tools/requirements.txt").read_text().splitlines()
    of_its_time = ("#", "dask", "distributed", "numpy", "pandas", "pyarrow", "xarray", "zarr")
    return [f"dask[array,dataframe]=={release}", f"distributed=={release}", *RELEASES[release],
            *(line for line in listed if line and not line.startswith(of_its_time))]


def run(release: str, pairing: str, arguments: list[str]) -> dict[str, int]:
    log = ROOT / "build/logs" / f"matrix-{release}-{pairing}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [str(environment(release)), "-m", "pytest", "pytests", "-q", *arguments]
    with open(log, "w") as sink:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "RASK_PAIRING": pairing},
                              stdout=sink, stderr=sink)
    closing = closing_line(log.read_text())
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", closing.partition(" in ")[0])}
    if done.returncode:
        print(log.read_text())
        counts["failed"] = max(1, counts.get("failed", 0))
    print(f"pytest, {release}, {pairing}: {closing.strip('= ')}", flush=True)
    return counts


def closing_line(text: str) -> str:
    """pytest's; a process that ends may still say something after it."""
    lines = text.splitlines() or ["nothing was said"]
    return next((line for line in reversed(lines) if re.search(r"\d+ \w+.* in [\d.]+s", line)), lines[-1])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--releases", default=",".join(RELEASES))
    parser.add_argument("--pairings", default=",".join(PAIRINGS))
    parser.add_argument("rest", nargs="*", help="arguments for pytest, after --")
    options = parser.parse_args()
    table: dict[str, dict[str, dict[str, int]]] = {}
    for release in options.releases.split(","):
        for pairing in options.pairings.split(","):
            table.setdefault(release, {})[pairing] = run(release, pairing, options.rest)
    if not options.rest and list(table) == list(RELEASES):
        (ROOT / "docs/matrix.json").write_text(json.dumps(table, indent=2) + "\n")
    good = all("passed" in counts and not counts.get("failed", 0) + counts.get("error", 0)
               for row in table.values() for counts in row.values())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
