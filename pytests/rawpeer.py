"""A peer that writes bytes by hand: for messages no honest client would send.

Builds messages with stock's own codec, so that the bytes up to the point of the lie are right.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from distributed.protocol import dumps, loads

HANDSHAKE = {"compression": None, "python": (3, 11, 7), "pickle-protocol": 5}


def encode(message: Any) -> bytes:
    """A message as it stands on the wire: total length, frame count, frame lengths, frames."""
    frames = [bytes(frame) for frame in dumps(message)]
    lengths = struct.pack(f"<Q{len(frames)}Q", len(frames), *map(len, frames))
    body = lengths + b"".join(frames)
    return struct.pack("<Q", len(body)) + body


class RawPeer:
    """One TCP connection to a scheduler or worker."""

    def __init__(self, address: str, timeout: float = 120):
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Any:
        """The next whole message, or None at the end of the connection."""
        head = self._exactly(8)
        if head is None:
            return None
        body = self._exactly(struct.unpack("<Q", head)[0])
        if body is None:
            return None
        (count,) = struct.unpack_from("<Q", body)
        lengths = struct.unpack_from(f"<{count}Q", body, 8)
        frames, at = [], 8 * (1 + count)
        # The first length covers the small frames only; big ones follow behind it.
        rest = self._exactly(at + sum(lengths) - len(body))
        if rest is None:
            return None
        body += rest
        for length in lengths:
            frames.append(body[at:at + length])
            at += length
        return loads(frames)

    def _exactly(self, count: int) -> bytes | None:
        parts = b""
        while len(parts) < count:
            try:
                got = self.socket.recv(count - len(parts))
            except ConnectionError:
                return None
            if not got:
                return None
            parts += got
        return parts

    def shake_hands(self) -> Any:
        self.send(encode(HANDSHAKE))
        return self.receive()

    def ended_by_peer(self) -> bool:
        """Waits until the other side has closed; what it says before that is ignored."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            return True
        return True

    def reset(self) -> None:
        """Closes with RST instead of FIN, as a crashed machine would."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
