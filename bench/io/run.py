"""The clustered I/O bench: seeks counted and predicted, split and merge on a slow and a fast device.

    python bench/io/run.py                    everything, under 20 minutes on 2 cores; wants root
    python bench/io/run.py --only seeks,fast  some experiments; kept rows of the others are merged
    python bench/io/run.py --resume           what an earlier run left undone
    python bench/io/run.py --quick            a smoke test; its times mean nothing
    python bench/io/run.py --render --docs    tables and plots into docs, from what is kept

Results are kept per experiment in bench/results/io, cell by cell. When the time is up (--minutes), cells
that have not begun are left out, and the run says so and fails; --resume does them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BENCH = HERE.parent
REPO = BENCH.parent
if __name__ == "__main__":
    # A folder called io must not be found as a module, so the package inside it is.
    sys.path[0:1] = [str(HERE), str(BENCH), str(REPO / "python")]

from bed import kept  # noqa: E402
from bed.progress import Progress  # noqa: E402
from bed.verdicts import table  # noqa: E402
from iobench import device, must, plan, report, trace  # noqa: E402


def describe(row: dict) -> str:
    what = row.get("case") or row.get("strategy") or row.get("format")
    size = "" if row.get("blocks") is None else f"{row['blocks']} blocks"
    cell = f"  {row['backend']:<10} {row['direction']:<12}{what:<17}{size:<10}"
    if "error" in row:
        return f"{cell}FAILED: {row['error'].strip().splitlines()[-1]}"
    if row["seconds"]:
        cell += f" {min(row['seconds']):8.2f} s"
    if "predicted" in row:
        cell += f" {row['array_seeks'] + row['block_seeks']:>8} seeks, predicted {sum(row['predicted'])}"
    return cell + ("" if row["agrees"] else "  WRONG RESULT")


def run(names: list[str], args: argparse.Namespace, where: Path) -> list[str]:
    """Runs the experiments; gives the sentences about what failed."""
    from iobench.series import Bench

    sizes = plan.QUICK if args.quick else plan.FULL
    progress, failed = Progress(len(names)), []
    end = time.monotonic() + 60 * args.minutes
    for name in names:
        progress.step()
        progress.say(f"{name}: {plan.EXPERIMENTS[name]}")
        if args.resume and kept.whole(where, name, "io"):
            progress.say("  kept from an earlier run")
            continue
        if time.monotonic() >= end:
            progress.say("  left out: the time is up")
            failed.append(f"{name}: left out, the time was up")
            continue
        rows: list[dict] = []
        began = time.monotonic()

        def say(row: dict, name: str = name, rows: list[dict] = rows, began: float = began) -> None:
            rows.append(row)
            kept.save(where, name, "io", rows, time.monotonic() - began, whole=False)
            progress.say(describe(row))

        bench = Bench(sizes, say, tuple(args.backends.split(",")), end)
        reason = trace.why_not() if name in ("strategies", "seeks") else None
        reason = reason or (device.why_not() if name in plan.THROTTLED else None)
        if reason:
            progress.say(f"  left out: {reason}")
            kept.save(where, name, "io", [], 0, whole=False)
            continue
        if name in plan.THROTTLED:
            with device.Throttled(sizes.image, sizes.iops, sizes.dirty) as slow:
                getattr(bench, name)(slow)
        else:
            getattr(bench, name)()
        wrong = sum(not row["agrees"] for row in rows)
        kept.save(where, name, "io", rows, time.monotonic() - began, whole=not (bench.left or wrong))
        failed += [f"{name}: {bench.left} cells left out, the time was up"] if bench.left else []
        failed += [f"{name}: {wrong} of {len(rows)} cells"] if wrong else []
    return failed


def render(args: argparse.Namespace, where: Path) -> None:
    from iobench import plots

    rows = kept.Rows.load(where)
    places = [where] + ([REPO / "docs" / "io"] if args.docs else [])
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        plots.draw(rows, place)
    (where / "report.md").write_text(report.text(rows, ""))
    if args.docs:
        report.into(REPO / "docs" / "CLUSTERED_IO.md", report.text(rows, "io/"))
    print("\n" + table(must.verdicts(rows), must.HEADS))
    print("\nTables and plots: " + ", ".join(str(place) for place in places))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="experiments, separated by commas")
    parser.add_argument("--backends", default="stock,rask/rask,bare")
    parser.add_argument("--resume", action="store_true", help="not what is kept whole")
    parser.add_argument("--minutes", type=float, default=19, help="after which no cell begins")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; times mean nothing")
    parser.add_argument("--docs", action="store_true", help="write tables and plots to docs too")
    parser.add_argument("--render", action="store_true", help="run nothing")
    parser.add_argument("--results", type=Path, help="another folder to keep results in")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        print("\n".join(f"{name:<12} {about}" for name, about in plan.EXPERIMENTS.items()))
        return 0
    if args.docs and args.quick:
        raise SystemExit("--docs wants real figures, --quick has none")
    names = args.only.split(",") if args.only else list(plan.EXPERIMENTS)
    if unknown := set(names) - set(plan.EXPERIMENTS):
        raise SystemExit(f"--only {args.only}: {', '.join(unknown)} is none of {', '.join(plan.EXPERIMENTS)}")
    where = kept.folder(args.results, "io", args.quick)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the device must not be left behind
    failed = [] if args.render else run(names, args, where)
    render(args, where)
    for sentence in failed:
        print(f"FAILED: {sentence}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
