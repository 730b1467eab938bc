#!/usr/bin/env python3
"""Runs the tests that ship inside the installed dask on a stock cluster and on a rask one.

Every test that passes on stock must pass on rask. Writes counts per folder to docs/COLLECTIONS.md
and names each test that parts. Module by module, so a run that is cut short loses one module.

    tools/test_collections.py                       all folders, pairing rask-stock
    tools/test_collections.py --only bag            folders or files whose name contains "bag"
    tools/test_collections.py --pairing rask-rask
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import dask

ROOT = Path(__file__).resolve().parents[1]
DASK = Path(dask.__file__).parent
FOLDERS = ("bag/tests", "array/tests", "dataframe/tests", "dataframe/dask_expr/tests", "tests")
IN_TESTS = ("test_delayed.py", "test_graph_manipulation.py", "test_highgraph.py")
Outcomes = dict[str, str]


def modules(only: str) -> list[str]:
    found = []
    for folder in FOLDERS:
        for path in sorted((DASK / folder).glob("test_*.py")):
            name = path.relative_to(DASK).as_posix()
            if folder == "tests" and path.name not in IN_TESTS:
                continue
            if only in name:
                found.append(name)
    return found


def run(module: str, pairing: str, timeout: int) -> Outcomes:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        env = {**os.environ, "RASK_PAIRING": pairing, "RASK_OUTCOMES": file.name,
               "PYTHONPATH": str(ROOT / "pytests")}
        command = [sys.executable, "-m", "pytest", "-p", "collections_plugin", "-p",
                   "no:cacheprovider", "-q", "--no-header", "--timeout", str(timeout),
                   "-W", "ignore", "-c", os.devnull, "--rootdir", str(DASK), str(DASK / module)]
        log = ROOT / "build/logs/collections" / pairing / (module.replace("/", ".") + ".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w") as sink:
            subprocess.run(command, cwd=tempfile.gettempdir(), env=env, stdout=sink, stderr=sink)
        text = Path(file.name).read_text()
        return json.loads(text) if text else {module: "failed"}


def row(name: str, outcomes: dict[str, Outcomes], pairing: str) -> tuple[str, list[str]]:
    stock, ours = outcomes["stock-stock"], outcomes[pairing]
    parted = [test for test, outcome in stock.items()
              if outcome == "passed" and ours.get(test) != "passed"]
    counts = [Counter(found.values()) for found in (stock, ours)]
    cells = [f"{c['passed']} / {c['failed']}" for c in counts]
    return f"| `{name}` | {len(stock)} | {cells[0]} | {cells[1]} | {len(parted)} |", parted


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--pairing", default="rask-stock")
    parser.add_argument("--timeout", type=int, default=120)
    options = parser.parse_args()
    rows, parted = [], []
    for module in modules(options.only):
        outcomes: dict[str, Outcomes] = defaultdict(dict)
        for pairing in ("stock-stock", options.pairing):
            outcomes[pairing] = run(module, pairing, options.timeout)
        line, differ = row(module, outcomes, options.pairing)
        rows.append(line)
        parted += differ
        print(line, *(f"    {test}" for test in differ), sep="\n", flush=True)
    if not options.only:
        write(rows, options.pairing)
    print(f"{len(parted)} tests pass on stock but not on {options.pairing}")
    return 1 if parted else 0


def write(rows: list[str], pairing: str) -> None:
    head = [f"# dask's own tests on a cluster: stock and {pairing}", "",
            f"Tests inside the installed dask {dask.__version__}, every computation on a cluster of "
            "processes.", "Made by `make test-collections`; cells are passed / failed.", "",
            "| module | tests | stock | rask | pass on stock only |", "|---|---|---|---|---|"]
    (ROOT / "docs/COLLECTIONS.md").write_text("\n".join([*head, *rows, ""]))


if __name__ == "__main__":
    sys.exit(main())
