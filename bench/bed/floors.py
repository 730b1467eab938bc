"""Floors that are not a client program: what no scheduler can beat.

F1 is not here: it is the row's own program run against the null scheduler (backend `F1`).
F8 is the C++ echo, run with the row's number of connections and depth in flight.
F5 is a raw loopback socket into fresh memory, one object after the other.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time

from bed.cluster import binary
from bed.rows import Row

# What `distributed.protocol.dumps` makes of them for one `map` task, prelude included.
COMPUTE_TASK_BYTES = 450
TASK_FINISHED_BYTES = 304


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


def loopback(count: int, nbytes: int) -> dict:
    """F5: seconds for `count` objects through a socket, each read into memory nobody touched."""
    import numpy

    count = min(count, max(4, (1 << 30) // nbytes))
    server = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        with socket.create_connection(server.getsockname()) as out:
            block = bytes(nbytes)
            for _ in range(count):
                out.sendall(block)
                out.recv(1)
        os._exit(0)
    conn, _ = server.accept()
    kept = []
    started = time.perf_counter()
    for _ in range(count):
        view = memoryview(numpy.empty(nbytes, dtype="u1"))
        kept.append(view)
        while view:
            view = view[conn.recv_into(view):]
        conn.sendall(b"k")
    wall = time.perf_counter() - started
    os.waitpid(child, 0)
    return {"wall_us": 1e6 * wall / count, "n": count}


def measure(name: str, row: Row) -> dict:
    if name == "F8":
        return echo(row.shape.workers, row.depth)
    return loopback(row.params["n"], row.params["nbytes"])
