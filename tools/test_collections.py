#!/usr/bin/env python3
"""Runs the tests that ship inside the installed dask on a stock cluster and on a rask one.

Every test that passes on stock must pass on rask. Outcomes are kept per module and pairing in
pytests/collections_outcomes.json, so that a later run does not run stock again (for the same
release of dask and the same choice of tests); docs/COLLECTIONS.md is made from that file. A
module counts as run only if both pairings ran the same tests of it.

There are 16 000 tests, and a cluster takes up to a second for each; most are one function with many
parameters. --each 3 runs three of each function's parameter sets, evenly spread, and the
table says how many were left out.

    tools/test_collections.py                       all modules, pairing rask-stock
    tools/test_collections.py --only bag            modules whose path contains "bag"
    tools/test_collections.py --each 3 --jobs 2     a share of the tests, two clusters at a time
    tools/test_collections.py --missing             modules without outcomes, after a cut-off run
    tools/test_collections.py --missing --sessions 1   one session only: to share a machine with others
    tools/test_collections.py --stock               run stock again as well
    tools/test_collections.py --table               only write docs/COLLECTIONS.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
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
    """What one module did on one pairing. Passed tests are only counted: they are the most."""

    passed: int
    others: dict[str, str]
    left_out: int = 0
    each: int = 0  # parameter sets per test function; 0: all

    @classmethod
    def of(cls, found: dict[str, str], each: int) -> Outcomes:
        counts = Counter(found.values())
        uncommon = {test: outcome for test, outcome in found.items()
                    if outcome not in ("passed", LEFT_OUT)}
        return cls(counts["passed"], uncommon, counts[LEFT_OUT], each)

    def count(self, outcome: str) -> int:
        return self.passed if outcome == "passed" else Counter(self.others.values())[outcome]

    def failed(self) -> int:
        return self.count("failed") + self.count(NO_OUTCOME)

    def parted(self, stock: Outcomes) -> list[str]:
        """Tests that pass on stock and not here."""
        return [test for test in self.others if test not in stock.others]

    def same_tests(self, other: Outcomes) -> bool:
        return self.each == other.each or self.left_out == other.left_out == 0


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


def run(names: list[str], pairing: str, timeout: int, each: int) -> dict[str, Outcomes]:
    """Runs modules in one session, hence on one cluster."""
    with tempfile.TemporaryDirectory(prefix="rask-collections-") as folder:
        outcomes = Path(folder, "outcomes")
        env = {**os.environ, "RASK_PAIRING": pairing, "RASK_OUTCOMES": str(outcomes),
               "RASK_EACH": str(each), "PYTHONHASHSEED": "0", "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'pytests'}"}
        command = [sys.executable, "-m", "pytest", "-p", "collections_plugin", "-p",
                   "no:cacheprovider", "-q", "--no-header", "--timeout", str(timeout),
                   "--tb", "short", "-W", "ignore", "-c", os.devnull, "--rootdir", str(DASK),
                   "--durations", "20", *(str(DASK / name) for name in names)]
        label = names[0] if len(names) == 1 else f"{names[0]}+{len(names) - 1}"
        log = ROOT / "build/logs/collections" / pairing / (label.replace("/", ".") + ".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w") as sink:
            subprocess.run(command, cwd=folder, env=env, stdout=sink, stderr=sink)
        return by_module(names, outcomes, each)


def by_module(names: list[str], file: Path, each: int) -> dict[str, Outcomes]:
    """Reads lines [test, outcome]; collected tests come first with the outcome NO_OUTCOME."""
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    lines = file.read_text().splitlines() if file.exists() else []
    for line in lines:
        test, outcome = json.loads(line)
        name, _, rest = test.partition("::")
        found[name][rest] = outcome
    return {name: Outcomes.of(tests, each) for name, tests in found.items()}


def chunks(names: list[str], size: int) -> list[list[str]]:
    """Small neighbours share a cluster; the biggest modules get their own."""
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
    return groups


def compared(stock: Outcomes | None, ours: Outcomes | None) -> bool:
    return stock is not None and ours is not None and ours.same_tests(stock)


def row(name: str, stock: Outcomes | None, ours: Outcomes | None) -> str:
    if not compared(stock, ours):
        return f"| `{name}` | not run | not run | | | |"
    skipped = stock.count("skipped") + stock.count("xfailed")
    return (f"| `{name}` | {stock.passed} | {ours.passed} | {len(ours.parted(stock))} | "
            f"{stock.failed()} / {skipped} | {ours.left_out} |")


def table(kept: Kept, pairing: str) -> str:
    stock, ours = kept.of(STOCK), kept.of(pairing)
    names = modules("")
    both = [name for name in names if compared(stock.get(name), ours.get(name))]
    total = [sum(found[name].passed for name in both) for found in (stock, ours)]
    parted = {name: ours[name].parted(stock[name]) for name in both}
    lines = [
        "# dask's own tests on a cluster", "",
        f"The tests inside the installed dask {dask.__version__} with every scheduler name standing"
        f" for a cluster of\nprocesses: stock, and `{pairing}` (scheduler-worker). Written by "
        "`make test-collections`.", "",
        f"{len(both)} of {len(names)} modules run; passed on stock {total[0]}, on ours {total[1]}; "
        f"on stock only {sum(map(len, parted.values()))}.\n"
        "Left out are parameter sets of tests of which others were run (`--each`); a module whose "
        "session died is\nnot run.", "",
        "| module | passed on stock | passed on ours | passed on stock only | failed / skipped on "
        "stock | left out |", "|---|---|---|---|---|---|",
        *(row(name, stock.get(name), ours.get(name)) for name in names), ""]
    if any(parted.values()):
        lines += ["## Pass on stock only", ""]
        lines += [f"- `{name}::{test}`" for name in both for test in parted[name]] + [""]
    return "\n".join(lines)


def fresh(known: Outcomes | None, each: int) -> bool:
    """There are outcomes of this module, of just the tests that are asked for now."""
    return known is not None and known.each == each


def sessions(kept: Kept, groups: list[list[str]], options: argparse.Namespace) -> list[tuple[str, list[str]]]:
    """What is to be run: pairing and modules. Stock only where it is missing."""
    todo = []
    for names in groups:
        stock = [name for name in names
                 if options.stock or not fresh(kept.of(STOCK).get(name), options.each)]
        ours = [name for name in names
                if not options.missing or not fresh(kept.of(options.pairing).get(name), options.each)]
        todo += [(pairing, which) for pairing, which in ((STOCK, stock), (options.pairing, ours))
                 if which]
    return todo[:options.sessions] if options.sessions else todo


def run_all(kept: Kept, todo: list[tuple[str, list[str]]], options: argparse.Namespace) -> None:
    """Runs the sessions; saves and says how far it is as they end."""
    with ThreadPoolExecutor(options.jobs) as pool:
        pending = {pool.submit(run, names, pairing, options.timeout, options.each): (pairing, names)
                   for pairing, names in todo}
        for done, job in enumerate(as_completed(pending), 1):
            pairing, names = pending[job]
            found = job.result()
            kept.of(pairing).update(whole(found, pairing))
            kept.save()
            TABLE.write_text(table(kept, options.pairing))
            print(f"session {done} of {len(todo)}, {pairing}:", *names, flush=True)
            show(kept, names, options.pairing)


def whole(found: dict[str, Outcomes], pairing: str) -> dict[str, Outcomes]:
    """Without the modules whose session died half-way: those count as not run."""
    for name, outcomes in found.items():
        if NO_OUTCOME in outcomes.others.values():
            print(f"| `{name}` | the session on {pairing} died: see build/logs/collections |",
                  flush=True)
    return {name: outcomes for name, outcomes in found.items()
            if NO_OUTCOME not in outcomes.others.values()}


def show(kept: Kept, names: list[str], pairing: str) -> None:
    for name in names:
        stock, ours = kept.of(STOCK).get(name), kept.of(pairing).get(name)
        if compared(stock, ours):
            parted = (f"\n    {test}" for test in ours.parted(stock))
            print(row(name, stock, ours), *parted, sep="", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="modules whose path contains this")
    parser.add_argument("--pairing", default="rask-stock")
    parser.add_argument("--missing", action="store_true", help="modules without outcomes on ours")
    parser.add_argument("--stock", action="store_true", help="run stock again although it is kept")
    parser.add_argument("--table", action="store_true", help="write the table, run nothing")
    parser.add_argument("--timeout", type=int, default=300, help="seconds per test")
    parser.add_argument("--chunk", type=int, default=60_000, help="bytes of test code per cluster")
    parser.add_argument("--each", type=int, default=0, help="parameter sets per test; 0: all")
    parser.add_argument("--sessions", type=int, default=0, help="end after so many; 0: all")
    parser.add_argument("--jobs", type=int, default=1, help="clusters at a time")
    options = parser.parse_args()
    kept = Kept()
    wanted = [] if options.table else modules(options.only)
    if options.missing:
        stock, ours = kept.of(STOCK), kept.of(options.pairing)
        wanted = [name for name in wanted if not compared(stock.get(name), ours.get(name))]
    run_all(kept, sessions(kept, chunks(wanted, options.chunk), options), options)
    TABLE.write_text(table(kept, options.pairing))
    return finish(kept, options.pairing)


def finish(kept: Kept, pairing: str) -> int:
    """The closing line. Modules that were not compared are a failure too: nothing is known of them."""
    stock, ours = kept.of(STOCK), kept.of(pairing)
    both = [name for name in modules("") if compared(stock.get(name), ours.get(name))]
    parted = sum(len(ours[name].parted(stock[name])) for name in both)
    missing = len(modules("")) - len(both)
    print(f"{len(both)} modules compared, {missing} not; passed on stock "
          f"{sum(stock[name].passed for name in both)}, on {pairing} "
          f"{sum(ours[name].passed for name in both)}; {parted} tests pass on stock only")
    return 1 if parted or missing else 0


if __name__ == "__main__":
    sys.exit(main())
