"""The SplIter bench: four applications in all modes, on stock Dask and on rask, in one command.

    python bench/spliter/run.py                       everything, under 20 minutes on 2 cores
    python bench/spliter/run.py --only histogram      one application; or histogram.floor, knn.*
    python bench/spliter/run.py --only knn.real --backends rask/rask
    python bench/spliter/run.py --resume              what an earlier run left undone
    python bench/spliter/run.py --quick               a smoke test, about two minutes
    python bench/spliter/run.py --render --docs       tables and plots again, from what is kept

Results are kept per experiment and backend in bench/results/spliter and merged into one report, so
that parts can be run at different times. When the time is up (--minutes), what has not been measured is
left out, and the run says so and fails; --resume does it. `--docs` also writes the pages and plots to
docs/spliter, and the tables into docs/SPLITER.md.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

BENCH = Path(__file__).resolve().parents[1]
REPO = BENCH.parent
if __name__ == "__main__":
    # This file's folder must not be first: its modules would stand for others of the same name.
    sys.path[0] = str(BENCH)

from bed import kept as store  # noqa: E402
from bed.progress import Progress  # noqa: E402
from spliter import plan  # noqa: E402

SHARE = 0.92  # of the time, that is planned; the rest is for machines that are slower than thought


def environment() -> dict[str, str]:
    rask = os.environ.get("RASK_PYTHON", str(REPO / "python"))
    path = [str(BENCH), rask, os.environ.get("PYTHONPATH", "")]
    return {"RASK_START_TIMEOUT": "180", **os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, path))}


def describe(row: dict) -> str:
    where = " ".join(f"{key}={row[key]}" for key in ("nodes", "workers", "per_slot", "fit", "blocks",
                                                    "trees") if isinstance(row.get(key), int))
    cell = f"{row['what']:<17}{row['mode']:<18} {where}: "
    if "error" in row:
        return f"{cell}FAILED: {row['error']}"
    return f"{cell}{median(row['seconds']):.3f} s{'' if row['agrees'] else '  RESULTS DIFFER'}"


def run_job(job: dict, progress: Progress, keep: Callable[[dict], None], timeout: float) -> str | None:
    """One experiment on one backend, in a process of its own; `keep` gets its rows. Gives what went wrong."""
    name = f"{job['experiment']} {job['backend']}{' (probe)' if job['probe'] else ''}"
    progress.say(name)
    with subprocess.Popen([sys.executable, "-m", "spliter.cell"], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE, cwd=BENCH, env=environment()) as process:
        ends = time.monotonic() + timeout
        process.stdin.write(json.dumps(job))
        process.stdin.close()
        rows = []
        watch = threading.Timer(timeout, process.terminate)
        watch.start()
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    rows.append(json.loads(line))
                    keep(rows[-1])
                    progress.say(f"  {job['backend']:<10} {describe(rows[-1])}")
        finally:
            watch.cancel()
    broken = sum("error" in row for row in rows)
    if process.returncode == 0:
        return f"{name}: {broken} of {len(rows)} cells" if broken else None
    reason = "took too long" if time.monotonic() >= ends else f"ended with {process.returncode}"
    progress.say(f"  {name} {reason}; what it measured until then is kept")
    return f"{name} {reason}"


class Run:
    """The experiments, one after the other, each on one cluster after the other."""

    def __init__(self, chosen: list[plan.Experiment], args: argparse.Namespace):
        self.args = args
        self.chosen = chosen
        self.where = folder(args)
        self.end = time.monotonic() + 60 * args.minutes
        self.failed: list[str] = []  # sentences
        probes = {e.probe for e in chosen if self.probed(e)}
        self.progress = Progress(sum(len(self.wanted(e)) for e in chosen) + 2 * len(probes))
        self.better: dict[str, str] = {}  # stock's setting, by the experiment that was probed
        self.due = time.monotonic()  # when what was begun so far should be over
        planned = sum(e.seconds[backend] for e in chosen for backend in self.wanted(e))
        planned += len(store.STOCK) * len(probes) * plan.PROBE
        self.slack = SHARE * 60 * args.minutes / max(planned, 1)

    def wanted(self, experiment: plan.Experiment) -> list[str]:
        only = self.args.backends.split(",") if self.args.backends else experiment.backends
        return [backend for backend in experiment.backends if backend in only]

    def probed(self, experiment: plan.Experiment) -> bool:
        return bool(experiment.probe) and not self.args.quick and "stock" in self.wanted(experiment)

    def all(self) -> list[str]:
        for experiment in self.chosen:
            backends = self.wanted(experiment)
            if self.probed(experiment):
                best = self.better_stock(experiment.probe)
                backends = [best if backend == "stock" else backend for backend in backends]
                other = next(name for name in store.STOCK if name != best)
                store.forget(self.where, experiment.key, other)
            random.shuffle(backends)
            expected = {backend: experiment.seconds.get(backend, experiment.seconds.get("stock", 0))
                        for backend in backends}
            fewer = self.behind(sum(expected.values()))
            for backend in backends:
                self.one(experiment.key, backend, expected[backend], fewer)
        return self.failed

    def behind(self, seconds: float) -> bool:
        """Whether an experiment that is expected to take so long should do with fewer places. Asked once
        for all clusters, so that they are measured at the same ones."""
        mine = self.slack * seconds
        return self.due + mine - time.monotonic() < plan.BEHIND * mine

    def one(self, experiment: str, backend: str, seconds: float, fewer: bool) -> None:
        if self.args.resume and store.whole(self.where, experiment, backend):
            self.progress.step()
            self.progress.say(f"{experiment} {backend} is kept from an earlier run")
            return
        store.forget(self.where, experiment, backend)
        began, rows = time.monotonic(), []

        def keep(row: dict) -> None:
            rows.append(row)
            store.save(self.where, experiment, backend, rows, time.monotonic() - began, whole=False)

        if self.job(experiment, backend, keep, seconds, fewer=fewer) and not fewer:
            store.save(self.where, experiment, backend, rows, time.monotonic() - began)

    def better_stock(self, probe: str) -> str:
        """The faster of stock's two settings, by the probed experiment's baseline at a small size."""
        if probe in self.better:
            return self.better[probe]
        if self.args.resume and store.whole(self.where, probe, "probe"):
            rows = store.rows_of(self.where, probe, "probe")
        else:
            rows = []
            done = [self.job(probe, backend, rows.append, plan.PROBE, probe=True)
                    for backend in store.STOCK]
            store.save(self.where, probe, "probe", [row for row in rows if row["seconds"]], 0,
                       whole=all(done))
        timed = [row for row in rows if row["seconds"]]
        best = min(timed, key=lambda row: median(row["seconds"]), default={"backend": "stock"})
        self.better[probe] = best["backend"]
        return self.better[probe]

    def job(self, experiment: str, backend: str, keep: Callable[[dict], None], seconds: float,
            probe: bool = False, fewer: bool = False) -> bool:
        """Whether it went well to its end; else there is one more sentence. It is expected to take
        `seconds`; what the ones before have saved or lost, it may spend on repeats or must save."""
        self.progress.step()
        left = self.end - time.monotonic()
        self.due += self.slack * seconds
        if fewer:
            self.progress.say(f"{experiment} {backend}: the run is behind its plan; fewer places are measured")
        if left <= 0:
            wrong: str | None = f"{experiment} {backend}: left out, the time was up"
            self.progress.say(str(wrong))
        else:
            wrong = run_job({"experiment": experiment, "backend": backend, "quick": self.args.quick,
                             "probe": probe, "scale": self.args.scale, "blocks": self.args.blocks,
                             "pace": self.due - time.monotonic(), "fewer": fewer}, self.progress, keep,
                            min(self.args.timeout, left))
        self.failed += [wrong] if wrong else []
        return wrong is None


def folder(args: argparse.Namespace) -> Path:
    return store.folder(args.results, "spliter", args.quick)


def render(args: argparse.Namespace) -> None:
    from spliter import plots, report

    rows = store.Rows.load(folder(args))
    places = [folder(args)] + ([REPO / "docs" / "spliter"] if args.docs else [])
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        report.write(rows, place)
        plots.draw(rows, place)
    if args.docs:
        report.into(REPO / "docs" / "SPLITER.md", rows, "spliter")
    print("\n" + report.screen(rows))
    print("\nPages and plots: " + ", ".join(str(place) for place in places))


def choose(only: str | None) -> list[plan.Experiment]:
    wanted = only.split(",") if only else ["*"]
    chosen = [e for e in plan.EXPERIMENTS if e.key in wanted or not e.named and
              any(fnmatch.fnmatch(e.key, name) or e.app == name for name in wanted)]
    if not chosen:
        raise SystemExit(f"--only {only}: none of {', '.join(e.key for e in plan.EXPERIMENTS)}")
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="applications or experiments, separated by commas")
    parser.add_argument("--backends", help="some of local, stock, stock-inf, rask/rask")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; shapes mean nothing")
    parser.add_argument("--docs", action="store_true", help="write pages and plots to docs/spliter too")
    parser.add_argument("--render", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, help="another folder to keep results in")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--scale", type=float, help="of the virtual nodes; 1 is the paper's 48 slots")
    parser.add_argument("--blocks", type=lambda text: [int(n) for n in text.split(",")],
                        help="of histogram.floor, separated by commas, instead of 2 to 18 432")
    parser.add_argument("--timeout", type=float, default=900, help="seconds per experiment and backend")
    parser.add_argument("--minutes", type=float, default=19.5, help="when they are over, it ends")
    parser.add_argument("--resume", action="store_true", help="not what is kept whole")
    args = parser.parse_args()
    if args.list:
        for experiment in plan.EXPERIMENTS:
            print(f"{experiment.key:<18} {experiment.about}{' (only when named)' if experiment.named else ''}")
        return 0
    if args.docs and args.quick:
        raise SystemExit("--docs wants real figures, --quick has none")
    failed = [] if args.render else Run(choose(args.only), args).all()
    render(args)
    for sentence in failed:
        print(f"FAILED: {sentence}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
