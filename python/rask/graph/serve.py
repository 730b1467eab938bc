"""The loop of a graph process: one message after the other, blocking."""

from __future__ import annotations

import gc
import os
import socket
from collections import deque

from distributed.versions import get_versions

from rask.graph.link import Closed, Link
from rask.graph.submission import run
from rask.graph.template import trusted


def serve(fd: int) -> None:
    """Answers until the scheduler closes the link."""
    os.set_inheritable(fd, False)  # a child that user code starts must not keep the link open
    link = Link(socket.socket(fileno=fd))
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


def _loop(link: Link) -> None:
    queue: deque = deque()
    while True:
        # A client that left takes its waiting submissions with it, so look ahead.
        while not queue or link.readable():
            message = link.read()
            if message.header["op"] == "graph":
                queue.append(message)
            elif message.header["op"] == "drop":
                gone = message.header["id"]
                queue = deque(m for m in queue if m.header["id"] != gone)
        run(link, queue.popleft())
