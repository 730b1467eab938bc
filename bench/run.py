"""Runs rows of the benchmark side by side: stock Dask, rask, and the floors, in one run.

    python bench/run.py --quick              W1 and W1z with their floors
    python bench/run.py --set core           what the issues ask for, about twelve minutes
    python bench/run.py --rows W1a,W1z       some rows
    python bench/run.py --list
    python bench/run.py --show FILE          the table of an earlier run
    python bench/run.py --render FILE        writes that table into docs/PERFORMANCE.md

Backends of a row run in random order, each on a cluster of its own. All rows are printed, also
those where rask loses or ties.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

from bed import cluster, floors, report, rows  # noqa: E402

DEFAULT_BACKENDS = ("stock", "stock-inf", "rask")


def run_client(job: dict, env: dict, timeout: float) -> dict:
    """Runs the row's program in a client process of its own and returns what it measured."""
    done = subprocess.run([sys.executable, "-m", "bed.client"], input=json.dumps(job), text=True,
                          capture_output=True, env=env, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError(f"the client failed\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run_row(row: rows.Row, backend: cluster.Backend, repeats: int, timeout: float) -> dict:
    """One cell of the table: a fresh cluster, the client, the result or the error."""
    null = backend.scheduler == "null"
    real = not null and not (row.shape and row.shape.zero)
    entry = {"row": row.name, "backend": backend.name, "shape": str(row.shape or "")}
    with cluster.Cluster(backend, row.shape, row.null_options) as running:
        job = {"address": running.address, "program": row.program, "params": row.params,
               "repeats": repeats if row.repeats is None else min(repeats, row.repeats),
               "real": real, "null": null,
               "observe": row.observe and not null, "roles": vars(running.roles), "backend": backend.name}
        try:
            entry.update(run_client(job, running.env, timeout))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            entry["error"] = f"{error}\n{running.log_text()}"
        if (turns := running.longest_turn()) is not None:
            entry.update(zip(("longest_turn_ms", "longest_turn_for", "longest_turn_cpu_ms", "turns_over_50_ms"),
                             turns))
        if running.registered:
            entry["register_s"] = float(running.registered)
    return entry


def run_all(chosen: list[rows.Row], args) -> list[dict]:
    results = []
    for row in chosen:
        names = list(row.backends or args.backends.split(","))
        if "F1" in row.floors:
            names.append("F1")
        random.shuffle(names)
        for name in names:
            started = time.monotonic()
            try:
                entry = run_row(row, cluster.BACKENDS[name], args.repeats, args.timeout)
            except (RuntimeError, TimeoutError, OSError) as error:
                entry = {"row": row.name, "backend": name, "error": str(error)}
            results.append(entry)
            took = time.monotonic() - started
            print(f"  {row.name} {name}: {report.brief(entry)} ({took:.0f} s)", file=sys.stderr)
            if "error" in entry:
                print(entry["error"], file=sys.stderr)
        for name in row.floors:
            if name != "F1":
                results.append({"row": row.name, "backend": name, **floors.measure(name, row)})
    return results


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the quick rows, one repeat")
    parser.add_argument("--set", choices=rows.SETS, help="a choice of rows, backends and repeats")
    parser.add_argument("--rows", default="", help="names, separated by commas; a prefix* works")
    parser.add_argument("--backends", default=",".join(DEFAULT_BACKENDS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=900, help="seconds per client")
    parser.add_argument("--out", default="", help="JSON file (default: bench/results/<time>.json)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--show", metavar="FILE")
    parser.add_argument("--render", metavar="FILE", nargs="+", help="runs for docs/PERFORMANCE.md")
    return parser.parse_args()


def choose(args) -> list[rows.Row]:
    if args.quick:
        args.repeats = 1
        return [row for row in rows.ROWS.values() if row.quick]
    wanted = [name for name in args.rows.split(",") if name]
    known = rows.SETS[args.set] if args.set else list(rows.ROWS.values())
    if not wanted:
        return known
    chosen = []
    for name in wanted:
        hits = [row for row in known
                if row.name == name or (name.endswith("*") and row.name.startswith(name[:-1]))]
        if not hits:
            sys.exit(f"no row {name!r}; --list shows them")
        chosen += hits
    return chosen


def main() -> None:
    args = parse()
    if args.list:
        for row in choose(args):
            print(f"{row.name:14} {row.title} ({row.shape})")
        return
    if args.render:
        runs = [json.loads(Path(file).read_text()) for file in args.render]
        report.render(runs, BENCH.parent / "docs" / "PERFORMANCE.md")
        return
    if args.show:
        print(report.text(json.loads(Path(args.show).read_text())))
        return
    chosen = choose(args)
    run = {"machine": report.machine(), "argv": sys.argv[1:], "results": run_all(chosen, args)}
    out = Path(args.out or BENCH / "results" / time.strftime("%Y%m%d-%H%M%S.json"))
    out.parent.mkdir(exist_ok=True, parents=True)
    out.write_text(json.dumps(run, indent=1))
    print(report.text(run))
    print(f"\nraw figures: {os.path.relpath(out)}")
    if any("error" in entry for entry in run["results"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
