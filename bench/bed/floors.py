"""Floors that are not a client program: what no scheduler can beat.

F1 is not here: it is the row's own program run against the null scheduler (backend `F1`).
F8 is the C++ echo, run with the row's number of connections and depth in flight.
"""

from __future__ import annotations

import json
import subprocess

from bed.cluster import binary

# Measured on the wire (stock scheduler, `map` of an importable function, with the frame prelude).
COMPUTE_TASK_BYTES = 620
TASK_FINISHED_BYTES = 420


def echo(connections: int, depth: int, round_trips: int = 200_000) -> dict:
    """F8: CPU per round trip of a C++ echo, per side; the middle one of three runs."""
    round_trips = max(round_trips, connections * depth * 10)
    argv = [binary("bench_echo"), connections, depth, round_trips, TASK_FINISHED_BYTES,
            COMPUTE_TASK_BYTES]
    runs = []
    for _ in range(3):
        out = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True)
        runs.append(json.loads(out.stdout))
    return sorted(runs, key=lambda run: run["scheduler"]["cpu_us"])[1]
