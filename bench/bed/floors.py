"""Floors that are not a client program: what no scheduler can beat.

F1 is not here: it is the row's own program run against the null scheduler (backend `F1`).
F8 is the C++ echo, run with the row's number of connections and depth in flight.
F5 is a raw loopback socket into fresh memory, one object after the other, as a row's workers do it.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import time

from bed import meter
from bed.cluster import binary
from bed.rows import Row
from bed.tasks import array_of

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


def loopback(count: int, nbytes: int, repeats: int = 3) -> dict:
    """F5: `count` objects through a socket, each asked for and read into memory of its own.

    It does what a row does: what is sent are different arrays, made before each round, what arrives is
    kept until the round's end, memory is at hand, and the first round is not timed. A sender of one
    and the same block would read it from its cache.
    """
    server = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        with socket.create_connection(server.getsockname()) as out:
            for _ in range(repeats + 1):
                _send_round(out, count, nbytes)
        os._exit(0)
    conn, _ = server.accept()
    walls = [_receive_round(conn, count, nbytes) for _ in range(repeats + 1)][1:]
    os.waitpid(child, 0)
    return {"wall_us": 1e6 * statistics.median(walls) / count,
            "walls_us": [1e6 * wall / count for wall in walls], "n": count}


def _send_round(out: socket.socket, count: int, nbytes: int) -> None:
    made = [array_of(nbytes) for _ in range(count)]
    out.sendall(b"m")
    for block in made:
        out.recv(1)
        out.sendall(block)


def _receive_round(conn: socket.socket, count: int, nbytes: int) -> float:
    import numpy

    conn.recv(1)
    meter.touch_memory(2 * count * nbytes)
    kept = []
    started = time.perf_counter()
    for _ in range(count):
        conn.sendall(b"k")
        kept.append(numpy.empty(nbytes, dtype="u1"))
        view = memoryview(kept[-1])
        while view:
            view = view[conn.recv_into(view):]
    return time.perf_counter() - started


def measure(name: str, row: Row) -> dict:
    if name == "F8":
        return echo(row.shape.workers, row.depth)
    return loopback(row.params["n"], row.params["nbytes"])
