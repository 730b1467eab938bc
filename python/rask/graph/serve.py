"""The loop of a graph process: one message after the other, blocking."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
import sys
from collections import deque

from distributed.versions import get_versions

from rask.graph import walk
from rask.graph.link import Closed, Link
from rask.graph.submission import run
from rask.graph.template import trusted
from rask.graph.uploads import load


def serve(fd: int) -> None:
    """Answers until the scheduler closes the link."""
    os.set_inheritable(fd, False)  # a child that user code starts must not keep the link open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the scheduler; it ends us
    _die_with_parent()
    link = Link(socket.socket(fileno=fd))
    walk.install()
    # What is imported stays: collections need not look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        link.write(
            {"op": "hello", "pid": os.getpid(), "versions": get_versions(), "template": trusted()}
        )
        link.flush()
        _loop(link)
    except Closed:
        pass


def _die_with_parent() -> None:
    """A scheduler that is killed takes us along, even out of an endless loop in user code."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except Exception:
        pass  # then the end of the link ends us


def _loop(link: Link) -> None:
    queue: deque = deque()
    while True:
        # A client that left takes its waiting submissions with it, so look ahead.
        while not queue or link.readable():
            message = link.read()
            if message.header["op"] == "graph":
                queue.append(message)
            elif message.header["op"] == "drop":
                _drop(queue, message.header["id"])
            else:
                load(link, message)
                _flush_output()
        message = queue.popleft()
        if message.frames:
            run(link, message)
        else:
            link.write({"op": "commit", "id": message.header["id"]})
            link.flush()
        message = None  # a mapped argument may go
        _flush_output()


def _drop(queue: deque, gone: int) -> None:
    for message in queue:
        if message.header["id"] == gone:
            message.frames = message.regions = []


def _flush_output() -> None:
    """What user code printed belongs to this submission's time in the log."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
