"""The graph process's end of the link: Dask frames over a socketpair, big ones as memfds.

Frame 0 of a message is a msgpack map, the rest are bytes (scheduler/frontend/README.md). A frame
of at least MEMFD_MIN bytes does not pass through the socket: its length in the prelude is 0, the
map lists it under "fds", and its memfd travels as ancillary data. So a 500 MB argument exists once,
mapped by both processes.

Invariant: frames given out are writable and stay valid as long as somebody refers to them. All calls
block; there is one thread.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import mmap
import os
import socket
import struct
from collections import deque

import msgpack

MEMFD_MIN = 1 << 20
_HELD_MAX = 1 << 17  # messages are collected up to this size and sent with one call
_READ = 1 << 16
_IOV_MAX = 512
_FDS_MAX = 64  # descriptors per call; the kernel's limit is 253
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


class Closed(Exception):
    """The scheduler is gone; so are we."""


class Region:
    """A memfd, mapped. `frame` is its number in the message it came with."""

    __slots__ = ("frame", "view", "address", "length")

    def __init__(self, frame: int, fd: int, length: int):
        # Shared and writable: an array in it must look as writable as the client's was, and a
        # private mapping would cost a copy of every page that user code touches.
        self.frame = frame
        self.view = memoryview(mmap.mmap(fd, length))
        self.length = length
        self.address = address_of(self.view)


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def address_of(view: memoryview) -> int:
    """Where the bytes of a contiguous buffer lie in memory."""
    buffer = _PyBuffer()
    get = ctypes.pythonapi.PyObject_GetBuffer
    if get(ctypes.py_object(view), ctypes.byref(buffer), 0) != 0:
        raise BufferError("not a simple buffer")
    address = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address or 0


class Message:
    """One received message."""

    __slots__ = ("header", "frames", "regions")

    def __init__(self, header: dict, frames: list, regions: list[Region]):
        self.header = header
        self.frames = frames
        self.regions = regions


class Link:
    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._rest = bytearray()  # received, not yet consumed
        self._fds: list[int] = []
        self._early: deque[Message] = deque()  # came while an answer was waited for
        self._held: list = []  # small messages that leave together
        self._held_bytes = 0

    # ---- reading ------------------------------------------------------------------------------

    def read(self) -> Message:
        """The next message; blocks. Raises Closed when the scheduler closes the link."""
        return self._early.popleft() if self._early else self._received()

    def ask(self, header: dict, frames=()) -> Message:
        """Sends a question; the answer has its op and id. What comes before it is read later."""
        self.write(header, frames)
        self.flush()
        while True:
            message = self._received()
            if all(message.header.get(name) == header[name] for name in ("op", "id")):
                return message
            self._early.append(message)

    def _received(self) -> Message:
        _, count = struct.unpack("<QQ", self._take(16))
        lengths = struct.unpack(f"<{count}Q", self._take(8 * count))
        body = memoryview(self._take(sum(lengths)))
        frames, at = [], 0
        for length in lengths:
            frames.append(body[at : at + length])
            at += length
        header = msgpack.unpackb(frames[0], use_list=False, strict_map_key=False)
        regions = []
        for frame, length in header.get("fds", ()):
            fd = self._fds.pop(0)
            region = Region(frame, fd, length)
            os.close(fd)
            regions.append(region)
            frames[frame] = region.view
        return Message(header, frames, regions)

    def readable(self) -> bool:
        """True if a message has begun to arrive."""
        if self._early or self._rest:
            return True
        try:
            self._receive(_READ, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return True

    def _take(self, size: int) -> bytearray:
        if size <= len(self._rest):
            taken = self._rest[:size]
            del self._rest[:size]
            return taken
        if size <= _READ:
            while len(self._rest) < size:
                self._receive(_READ)
            return self._take(size)
        # Long: read straight into its place.
        taken = bytearray(size)
        have = len(self._rest)
        taken[:have] = self._rest
        self._rest.clear()
        view = memoryview(taken)
        while have < size:
            have += self._receive_into(view[have:])
        return taken

    def _receive(self, size: int, flags: int = 0) -> None:
        data, ancillary, _, _ = self._sock.recvmsg(
            size, socket.CMSG_SPACE(4 * _FDS_MAX), flags | socket.MSG_CMSG_CLOEXEC
        )
        self._keep_fds(ancillary)
        if not data:
            raise Closed
        self._rest += data

    def _receive_into(self, view: memoryview) -> int:
        size, ancillary, _, _ = self._sock.recvmsg_into(
            [view], socket.CMSG_SPACE(4 * _FDS_MAX), socket.MSG_CMSG_CLOEXEC
        )
        self._keep_fds(ancillary)
        if not size:
            raise Closed
        return size

    def _keep_fds(self, ancillary) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
                self._fds.extend(fds)

    # ---- writing ------------------------------------------------------------------------------

    def write(self, header: dict, frames=()) -> None:
        """Sends one message, now or with the next flush; may block."""
        frames = list(frames)
        fds, listed = [], []
        for i, frame in enumerate(frames):
            size = memoryview(frame).nbytes
            if size >= MEMFD_MIN and len(fds) < _FDS_MAX:
                fds.append(_memfd(frame, size))
                listed.append((i + 1, size))
                frames[i] = b""
        if listed:
            header = {**header, "fds": listed}
        try:
            self._send([msgpack.packb(header, use_bin_type=True), *frames], fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _send(self, frames: list, fds: list[int]) -> None:
        lengths = [memoryview(f).nbytes for f in frames]
        count, total = len(frames), sum(lengths)
        prelude = struct.pack(f"<{count + 2}Q", 8 * (count + 1) + total, count, *lengths)
        if fds:
            self.flush()  # the descriptors must arrive with this message's first byte
        self._held.append(prelude)
        self._held += frames
        self._held_bytes += len(prelude) + total
        if fds or self._held_bytes > _HELD_MAX:
            self.flush(fds)

    def flush(self, fds: list[int] = ()) -> None:
        """Hands everything written so far to the kernel; blocks until it has taken it."""
        if not self._held:
            return
        if self._held_bytes <= 2 * _HELD_MAX:
            pieces = [b"".join(self._held)]
        else:
            pieces = self._held
        self._held, self._held_bytes = [], 0
        ancillary = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        )
        views = [v for p in pieces if (v := memoryview(p).cast("B"))]
        while views:
            try:
                sent = self._sock.sendmsg(views[:_IOV_MAX], ancillary)
            except (BrokenPipeError, ConnectionResetError):
                raise Closed from None
            ancillary = []
            done = 0
            while done < len(views) and sent >= len(views[done]):
                sent -= len(views[done])
                done += 1
            del views[:done]
            if sent:
                views[0] = views[0][sent:]


def _memfd(data, size: int) -> int:
    """A sealed memfd with a copy of the bytes; the scheduler maps it."""
    fd = os.memfd_create("rask-graph", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(fd, view) :]
    # Without the seals a shrunken file would be a SIGBUS in the scheduler, which refuses it.
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return fd
