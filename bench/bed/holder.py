"""The floor of W11: a process that holds ready-made answers to `get_data` and does nothing else.

A read from it takes what the client, the kernel and the wait for a processor take; what a read from
a worker takes beyond that is the worker's. It speaks the wire with raw sockets, one thread for
each connection, and finds the answer by the key asked for. Run as `python -m bed.holder` with a
pickled {key: whole message} on stdin; prints its address.
"""

from __future__ import annotations

import pickle
import socket
import struct
import subprocess
import sys
import threading

import msgpack
from distributed.protocol import dumps, to_serialize

from bed.ping import HANDSHAKE, packed, read_exactly


def message_of(frames: list) -> bytes:
    """Frames as they stand on the wire."""
    lengths = [len(memoryview(frame).cast("B")) for frame in frames]
    prelude = struct.pack(f"<{len(frames) + 1}Q", len(frames), *lengths)
    return struct.pack("<Q", len(prelude) + sum(lengths)) + prelude + b"".join(frames)


def answer(key: str, value) -> bytes:
    """What a worker that holds `value` would say; not compressed, as on any connection within a machine."""
    said = {"status": "OK", "data": {key: to_serialize(value)}}
    return message_of(dumps(said, context={"compression": None}))


def read_message(sock: socket.socket):
    _, count = struct.unpack("<QQ", read_exactly(sock, 16))
    lengths = struct.unpack(f"<{count}Q", read_exactly(sock, 8 * count))
    frames = [read_exactly(sock, length) for length in lengths]
    return msgpack.unpackb(frames[0], strict_map_key=False) if frames else None


def serve(sock: socket.socket, answers: dict[str, bytes]) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(packed(HANDSHAKE))
    read_message(sock)
    try:
        while True:
            asked = read_message(sock)
            if isinstance(asked, dict) and asked.get("op") == "get_data":
                sock.sendall(answers[asked["keys"][0]])
    except (EOFError, OSError):
        sock.close()


def main() -> None:
    answers = pickle.load(sys.stdin.buffer)
    server = socket.create_server(("127.0.0.1", 0))
    print(f"tcp://127.0.0.1:{server.getsockname()[1]}", flush=True)
    while True:
        sock, _ = server.accept()
        threading.Thread(target=serve, args=(sock, answers), daemon=True).start()


class Holder:
    """That process as a block: `with Holder({key: value}) as holder: … holder.address`."""

    def __init__(self, values: dict):
        self.answers = pickle.dumps({key: answer(key, value) for key, value in values.items()})

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-m", "bed.holder"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(self.answers)
        self.process.stdin.close()
        self.address = self.process.stdout.readline().decode().strip()
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    main()
