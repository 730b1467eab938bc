"""How long the scheduler makes a bystander wait: an RPC every few ms from a process of its own.

Speaks the wire with a raw socket and ready-made bytes, so that on two cores the ping itself takes
next to nothing from those it watches. Run as `python -m bed.ping ADDRESS PERIOD_S`; it prints
one line when connected and on SIGTERM one JSON line with the waits.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import time

import msgpack

HANDSHAKE = {"compression": None, "python": list(sys.version_info[:3]), "pickle-protocol": 5}
_REQUEST = {"op": "identity", "n_workers": 0, "reply": True}


def packed(message) -> bytes:
    frame = msgpack.packb(message)
    return struct.pack("<QQQ", 16 + len(frame), 1, len(frame)) + frame


def read_exactly(sock: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = sock.recv(min(count, 1 << 20))
        if not part:
            raise EOFError("the scheduler closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_message(sock: socket.socket) -> None:
    """Reads one message and drops it."""
    nosplit, frames = struct.unpack("<QQ", read_exactly(sock, 16))
    lengths = struct.unpack(f"<{frames}Q", read_exactly(sock, 8 * frames))
    read_exactly(sock, sum(lengths))


def percentile(sorted_values: list[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def summary(waits: list[float]) -> dict:
    waits = sorted(waits)
    if not waits:
        return {"count": 0}
    return {"count": len(waits), "p50_ms": 1e3 * percentile(waits, 0.5),
            "p99_ms": 1e3 * percentile(waits, 0.99), "max_ms": 1e3 * waits[-1]}


class Stop(Exception):
    pass


def main(address: str, period: float) -> None:
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(packed(HANDSHAKE))
    read_message(sock)
    request = packed(_REQUEST)
    waits: list[float] = []
    started: float | None = None

    def stop(*_):
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    try:
        while True:
            started = time.perf_counter()
            sock.sendall(request)
            read_message(sock)
            waits.append(time.perf_counter() - started)
            started = None
            time.sleep(period)
    except Stop:
        if started is not None:  # the answer that has not come yet is a wait too
            waits.append(time.perf_counter() - started)
    print(json.dumps(summary(waits)), flush=True)


class Ping:
    """The ping process as a block: `with Ping(address) as p: …`, then `p.result`."""

    def __init__(self, address: str, period: float = 0.02):
        self.argv = [sys.executable, "-m", "bed.ping", address, str(period)]
        self.result: dict = {}

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        out, _ = self.process.communicate(timeout=60)
        self.result = json.loads(out.strip().splitlines()[-1])


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
