"""A graph process alone: CPU µs per task to open, expand, order and pack a graph.

    python -m bed.frontend [--profile SHAPE]

Catches the `update-graph` message that a stock client would have sent (it talks to the null
scheduler meanwhile), hands it to a graph process over a socketpair as the scheduler does, and
reads the answer until `commit`. `--profile` runs the same work inside this process under cProfile.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import threading

import msgpack
from distributed import Client

from bed import cluster, graphs, meter, programs

SHAPES = {
    "map": (programs.Map, {"n": 10_000}),
    "map-lambda": (programs.Map, {"n": 10_000, "function": "lambda"}),
    "map-closure": (programs.Map, {"n": 10_000, "function": "closure", "closure_bytes": 50_000}),
    "map-100k": (programs.Map, {"n": 100_000}),
    "tree": (graphs.Tree, {"exponent": 15}),
    "merge-10k": (graphs.Merge, {"n": 10_000}),
    "merge-25k": (graphs.Merge, {"n": 25_000}),
    "stencil": (graphs.Stencil, {"width": 500, "steps": 20}),
}


class Caught(Exception):
    pass


def caught_message(client: Client, shape: str) -> dict:
    """The update-graph message of a shape, as the client was about to send it."""
    kind, params = SHAPES[shape]
    program = kind(client, params, {"null": True})
    program.before()
    found = []
    send = client._send_to_scheduler

    def catch(message):
        if message["op"] == "update-graph":
            found.append(message)
            raise Caught
        send(message)

    client._send_to_scheduler = catch
    try:
        program.timed()
    except Caught:
        pass
    finally:
        client._send_to_scheduler = send
    return {"n": program.n, **found[0]}


def request(message: dict) -> bytes:
    """The `graph` message of scheduler/frontend/README.md, framed."""
    header, frames = message["expr_ser"].header, message["expr_ser"].frames
    frames = [bytes(f) for f in frames]
    sub = msgpack.packb({**header, "num-sub-frames": len(frames)}, use_bin_type=True)
    keys = msgpack.packb(list(message["keys"]), use_bin_type=True)
    top = {"op": "graph", "id": 1, "expr": {"__Serialized__": 1},
           "order": message["internal_priority"] is None, "keys": 2 + len(frames)}
    all_frames = [msgpack.packb(top), sub, *frames, keys]
    lengths = [len(f) for f in all_frames]
    prelude = struct.pack(f"<{len(lengths) + 2}Q", 8 * (len(lengths) + 1) + sum(lengths),
                          len(lengths), *lengths)
    return prelude + b"".join(all_frames)


def read_until(link, op: str) -> dict:
    """Reads messages up to one of that op (or an error) and returns its map."""
    while True:
        header = link.read().header
        if header["op"] in (op, "error"):
            return header


def measure(shape: str, sent: bytes, n: int, env: dict) -> float:
    """CPU µs per task that a fresh graph process takes, the second time it sees the shape."""
    from rask.graph.link import Link

    ours, theirs = socket.socketpair()
    child = subprocess.Popen([sys.executable, "-c", _CHILD.format(fd=theirs.fileno())],
                             pass_fds=[theirs.fileno()], env=env)
    theirs.close()
    link = Link(ours)
    read_until(link, "hello")
    spent = 0.0
    for _ in range(2):
        before = meter.cpu_seconds(child.pid)
        writer = threading.Thread(target=ours.sendall, args=(sent,))
        writer.start()
        answer = read_until(link, "commit")
        writer.join()
        assert answer["op"] == "commit", answer
        spent = meter.cpu_seconds(child.pid) - before
    ours.close()
    child.wait(timeout=30)
    return 1e6 * spent / n


_CHILD = "import os; os.dup2({fd}, 3); from rask.graph_process import main; main()"


def profile(sent: bytes) -> None:
    """The same work in this process, under cProfile."""
    import cProfile
    import pstats

    from rask.graph import walk
    from rask.graph.link import Link
    from rask.graph.submission import run

    walk.install()  # as a graph process does when it starts
    ours, theirs = socket.socketpair()
    threading.Thread(target=ours.sendall, args=(sent,), daemon=True).start()
    drain = threading.Thread(target=lambda: read_until(Link(ours), "commit"))
    drain.start()
    link = Link(theirs)
    message = link.read()
    profiler = cProfile.Profile()
    profiler.runcall(run, link, message)
    drain.join()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", metavar="SHAPE", choices=SHAPES)
    args = parser.parse_args()
    with cluster.Cluster(cluster.BACKENDS["F1"], None) as null:
        os.environ["PYTHONPATH"] = null.env["PYTHONPATH"]
        client = Client(null.address)
        for shape in [args.profile] if args.profile else SHAPES:
            message = caught_message(client, shape)
            sent = request(message)
            if args.profile:
                profile(sent)
            else:
                cost = measure(shape, sent, message["n"], null.env)
                print(f"{shape:12} {message['n']:7} tasks {len(sent):9} bytes: {cost:7.2f} µs per task")
        client.close()


if __name__ == "__main__":
    main()
