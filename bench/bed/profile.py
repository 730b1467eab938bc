"""Where the scheduler's CPU goes in one row: `python -m bed.profile ROW [--backend rask]`.

Runs the row's program a few times while `perf record` samples the scheduler process, and prints
µs of CPU per task: the total, by kernel and user, and by function (self time).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from bed import cluster, meter
from bed.rows import ROWS

_RUNS = 4


def job_of(row, running) -> dict:
    return {"address": running.address, "program": row.program, "params": row.params,
            "repeats": _RUNS - 1, "real": False, "null": False, "observe": False,
            "roles": vars(running.roles), "backend": "profile"}


def recorded(row, backend: str, who: str, frequency: int) -> tuple[str, float, dict]:
    """(perf data file, CPU seconds of the process while it was sampled, the client's result)"""
    data = os.path.join(tempfile.mkdtemp(prefix="rask-perf-"), "perf.data")
    with cluster.Cluster(cluster.BACKENDS[backend], row.shape) as running:
        roles = running.roles.pids()
        argv = ["perf", "record", "-q", "-F", str(frequency), "-g", "-o", data]
        for pid in roles[who]:
            argv += ["-p", str(pid)]
        perf = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        time.sleep(0.5)  # perf gives no sign when it has attached
        before = sum(map(meter.cpu_seconds, roles[who]))
        done = subprocess.run([sys.executable, "-m", "bed.client"], text=True, env=running.env,
                              input=json.dumps(job_of(row, running)), stdout=subprocess.PIPE)
        spent = sum(map(meter.cpu_seconds, roles[who])) - before
        perf.send_signal(signal.SIGINT)
        perf.wait()
    return data, spent, json.loads(done.stdout.strip().splitlines()[-1])


def shares(data: str, sort: str) -> list[tuple[float, str]]:
    text = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-g", "none",
                           "--sort", sort, "--percent-limit", "0.4"],
                          capture_output=True, text=True).stdout
    found = []
    for line in text.splitlines():
        if match := re.match(r"\s+(\d+\.\d+)%\s+(.*\S)", line):
            found.append((float(match[1]), match[2]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("--backend", default="rask")
    parser.add_argument("--role", default="scheduler", choices=("scheduler", "graph", "workers"))
    parser.add_argument("--frequency", type=int, default=4000)
    args = parser.parse_args()
    row = ROWS[args.row]
    data, spent, result = recorded(row, args.backend, args.role, args.frequency)
    per_task = 1e6 * spent / (result["n"] * _RUNS)
    print(f"{args.row} on {args.backend}: {per_task:.2f} µs of CPU per task in the {args.role} "
          f"({_RUNS} runs of {result['n']}, idle time and releases included)")
    for sort in ("dso", "symbol"):
        print()
        for share, name in shares(data, sort):
            print(f"{per_task * share / 100:8.3f} µs {share:6.2f} %  {name.removesuffix('-      -').rstrip()[:110]}")
    print(f"\nperf report -i {data}")


if __name__ == "__main__":
    main()
