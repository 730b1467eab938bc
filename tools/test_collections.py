#!/usr/bin/env python3
"""Runs the tests that ship inside the installed dask on a rask cluster, and what does not pass there on stock.

Every test that passes on stock must pass on rask. So a session on rask is followed by one on a stock cluster with only
the tests that did not pass: each of them must fail, or be skipped, there too. Outcomes are kept per pairing and module
in pytests/collections_outcomes.json, so that a run can be gone on with; docs/COLLECTIONS.md is made from that file.

There are 16 000 tests, most of them one function with many parameters. --each 3 runs three of each function's
parameter sets, evenly spread, and the table says how many were left out.

    tools/test_collections.py                       all modules, pairing rask-rask
    tools/test_collections.py --pairing rask-stock  the same with stock workers
    tools/test_collections.py --only bag            modules whose path contains "bag"
    tools/test_collections.py --each 3 --jobs 2     a share of the tests, two clusters at a time
    tools/test_collections.py --missing             modules without outcomes, after a cut-off run
    tools/test_collections.py --missing --sessions 1   one session only: to share a machine with others
    tools/test_collections.py --table               only write docs/COLLECTIONS.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

import dask

ROOT = Path(__file__).resolve().parents[1]
DASK = Path(dask.__file__).parent
KEPT = ROOT / "pytests/collections_outcomes.json"
TABLE = ROOT / "docs/COLLECTIONS.md"
STOCK = "stock-stock"
FOLDERS = ("tests", "bag/tests", "array/tests", "dataframe/dask_expr/tests", "dataframe/tests")
IN_TESTS = ("test_delayed.py", "test_graph_manipulation.py", "test_highgraph.py")
NO_OUTCOME = "lost"  # the test began, or should have, and nothing more was heard of it
LEFT_OUT = "left out"  # by --each
Found = dict[str, dict[str, str]]  # module -> test -> outcome


def modules(only: str) -> list[str]:
    """Modules under test; those for graphics cards are left out, nothing in them can run here."""
    found = []
    for folder in FOLDERS:
        for path in sorted((DASK / folder).glob("test_*.py")):
            name = path.relative_to(DASK).as_posix()
            wanted = path.name in IN_TESTS if folder == "tests" else "cupy" not in name
            if wanted and only in name:
                found.append(name)
    return found


@dataclass
class Outcomes:
    """What one module did on ours. Passed tests are only counted; the others have stock's outcome beside ours."""

    passed: int = 0
    left_out: int = 0
    each: int = 0  # parameter sets per test function; 0: all
    others: dict[str, list[str]] = field(default_factory=dict)  # test -> [on ours, on stock]

    def count(self, outcome: str) -> int:
        return Counter(ours for ours, _ in self.others.values())[outcome]

    def parted(self) -> list[str]:
        """Tests that pass on stock and not here."""
        return [test for test, (_, stock) in self.others.items() if stock == "passed"]


class Kept:
    """The file of outcomes: pairing -> module -> outcomes, all of one release of dask."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Outcomes]] = {}
        text = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        if text.get("dask") == dask.__version__:
            for pairing, found in text["runs"].items():
                self.runs[pairing] = {name: Outcomes(**kept) for name, kept in found.items()}

    def of(self, pairing: str) -> dict[str, Outcomes]:
        return self.runs.setdefault(pairing, {})

    def save(self) -> None:
        runs = {pairing: {name: vars(found[name]) for name in sorted(found)}
                for pairing, found in sorted(self.runs.items())}
        KEPT.write_text(json.dumps({"dask": dask.__version__, "runs": runs}, indent=1) + "\n")


def session(names: list[str], pairing: str, options: argparse.Namespace, tests: list[str] | None = None) -> Found:
    """Runs modules on one cluster: the tests that are named, or as many of each function as were asked for."""
    with tempfile.TemporaryDirectory(prefix="rask-collections-") as folder:
        outcomes, chosen = Path(folder, "outcomes"), Path(folder, "tests")
        env = {**os.environ, "RASK_PAIRING": pairing, "RASK_OUTCOMES": str(outcomes), "RASK_EACH": str(options.each),
               "PYTHONHASHSEED": "0", "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'pytests'}"}
        if tests is not None:
            chosen.write_text(json.dumps(tests))
            env["RASK_TESTS"] = str(chosen)
        command = [sys.executable, "-m", "pytest", "-p", "collections_plugin", "-p",
                   "no:cacheprovider", "-q", "--no-header", "--timeout", str(options.timeout),
                   "--tb", "short", "-W", "ignore", "-c", os.devnull, "--rootdir", str(DASK),
                   "--durations", "20", *(str(DASK / name) for name in names)]
        log = ROOT / "build/logs/collections" / pairing / (title(names).replace("/", ".") + ".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w") as sink:
            subprocess.run(command, cwd=folder, env=env, stdout=sink, stderr=sink)
        return by_module(names, outcomes)


def title(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}+{len(names) - 1}"


def by_module(names: list[str], file: Path) -> Found:
    """Reads lines [test, outcome]; collected tests come first with the outcome NO_OUTCOME."""
    found: Found = {name: {} for name in names}
    lines = file.read_text().splitlines() if file.exists() else []
    for line in lines:
        test, outcome = json.loads(line)
        name, _, rest = test.partition("::")
        found[name][rest] = outcome
    return found


def compare(names: list[str], options: argparse.Namespace) -> dict[str, Outcomes]:
    """Modules on ours, then what did not pass on stock. A module whose session died, on either, has no outcome."""
    ours = session(names, options.pairing, options)
    open_ = {name: [test for test, outcome in tests.items() if outcome not in ("passed", LEFT_OUT)]
             for name, tests in ours.items()}
    wanted = [f"{name}::{test}" for name, tests in open_.items() for test in tests]
    stock = session([name for name in names if open_[name]], STOCK, options, wanted) if wanted else {}
    whole = {}
    for name, tests in ours.items():
        others = {test: [tests[test], stock[name].get(test, NO_OUTCOME)] for test in open_[name]}
        if any(NO_OUTCOME in both for both in others.values()):
            print(f"| `{name}` | a session died: see build/logs/collections |", flush=True)
            continue
        counts = Counter(tests.values())
        whole[name] = Outcomes(counts["passed"], counts[LEFT_OUT], options.each, others)
    return whole


def chunks(names: list[str], size: int) -> list[list[str]]:
    """Small neighbours share a cluster; the biggest modules get their own and begin first."""
    groups: list[list[str]] = []
    room = 0
    for name in names:
        weight = (DASK / name).stat().st_size
        folder = name.rpartition("/")[0]
        if not groups or weight > room or not groups[-1][0].startswith(folder):
            groups.append([])
            room = size
        groups[-1].append(name)
        room -= weight
    return sorted(groups, key=lambda group: -sum((DASK / name).stat().st_size for name in group))


def row(name: str, found: Outcomes | None) -> str:
    if found is None:
        return f"| `{name}` | not run | | | | |"
    return (f"| `{name}` | {found.passed} | {found.count('failed')} | "
            f"{found.count('skipped') + found.count('xfailed')} | {len(found.parted())} | {found.left_out} |")


def section(pairing: str, found: dict[str, Outcomes]) -> list[str]:
    names = modules("")
    lines = [f"## {pairing}", "", closing(pairing, found) + ".", "",
             "| module | passed | failed | skipped | of these passed on stock | left out |",
             "|---|---|---|---|---|---|", *(row(name, found.get(name)) for name in names), ""]
    parted = [f"- `{name}::{test}`" for name in names if name in found for test in found[name].parted()]
    return lines + (["Pass on stock only:", "", *parted, ""] if parted else [])


def table(kept: Kept) -> str:
    return "\n".join([
        "# dask's own tests on a cluster", "",
        f"The tests inside the installed dask {dask.__version__} with every scheduler name standing for a cluster of "
        "processes, named\nscheduler-worker. What does not pass on ours is run on stock Dask as well and must not pass "
        "there either. Written by\n`make test-collections`; left out are parameter sets of tests of which others were "
        "run (`--each`).", "",
        *(line for pairing, found in sorted(kept.runs.items()) for line in section(pairing, found))])


def closing(pairing: str, found: dict[str, Outcomes]) -> str:
    run = found.values()
    return (f"{len(found)} of {len(modules(''))} modules run; "
            f"{sum(each.passed for each in run)} tests passed on {pairing}, "
            f"{sum(len(each.others) for each in run)} did not; {sum(len(each.parted()) for each in run)} pass on "
            f"stock only; {sum(each.left_out for each in run)} parameter sets left out")


def run_all(kept: Kept, groups: list[list[str]], options: argparse.Namespace) -> None:
    """Runs the sessions; saves and says how far it is as they end."""
    begun = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        pending = {pool.submit(compare, names, options): names for names in groups}
        for done, job in enumerate(as_completed(pending), 1):
            found = job.result()
            kept.of(options.pairing).update(found)
            kept.save()
            TABLE.write_text(table(kept))
            spent = time.monotonic() - begun
            print(f"session {done} of {len(groups)}, {spent:.0f} s: {title(pending[job])}", flush=True)
            for name, outcomes in found.items():
                print(row(name, outcomes), *(f"\n    {test}" for test in outcomes.parted()), sep="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--pairing", default="rask-rask")
    parser.add_argument("--missing", action="store_true", help="modules without outcomes for this choice of tests")
    parser.add_argument("--table", action="store_true", help="write the table, run nothing")
    parser.add_argument("--timeout", type=int, default=300, help="seconds per test")
    parser.add_argument("--chunk", type=int, default=60_000, help="bytes of test code per cluster")
    parser.add_argument("--each", type=int, default=0, help="parameter sets per test; 0: all")
    parser.add_argument("--sessions", type=int, default=None, help="end after so many")
    parser.add_argument("--jobs", type=int, default=1, help="clusters at a time")
    options = parser.parse_args()
    kept = Kept()
    known = kept.of(options.pairing)
    wanted = [] if options.table else modules(options.only)
    if options.missing:
        wanted = [name for name in wanted if name not in known or known[name].each != options.each]
    run_all(kept, chunks(wanted, options.chunk)[:options.sessions], options)
    TABLE.write_text(table(kept))
    print(closing(options.pairing, known))
    parted = any(found.parted() for found in known.values())
    return 1 if parted or len(known) < len(modules("")) else 0  # of a module that was not run nothing is known


if __name__ == "__main__":
    sys.exit(main())
