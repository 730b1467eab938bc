"""Small functions that tests submit; workers import them from here.

Functions written inside a test travel by value; these travel by name. Tasks that must be caught in
the act wait for a file instead of sleeping, so that no test depends on timing.
"""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def inc(x: Any) -> Any:
    return x + 1


def dec(x: Any) -> Any:
    return x - 1


def add(x: Any, y: Any) -> Any:
    return x + y


def double(x: Any) -> Any:
    return x * 2


def total(*args: Any) -> Any:
    return sum(args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args)


def div(x: Any, y: Any) -> Any:
    return x / y


def keywords(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    return args, dict(sorted(kwargs.items()))


def throws(message: str) -> None:
    raise RuntimeError(message)


def until(condition: Callable[[], Any], what: str = "condition", timeout: float = 120) -> Any:
    """Waits for a true value and gives it; fails by deadline, not by count of tries."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(0.01)
    return found


def workers_of(client) -> dict[str, Any]:
    """What the scheduler says of its workers. `Client.scheduler_info` may answer with none: the
    client asks for a short form by itself, and the later answer wins."""
    return client.sync(client.scheduler.identity, n_workers=-1)["workers"]


def ask(client, op: str, **fields: Any) -> Any:
    """The scheduler's answer to one operation."""
    return client.sync(getattr(client.scheduler, op), **fields)


def arrived(client, futures: Iterable[Any]) -> None:
    """Waits until the scheduler knows the tasks. Questions travel beside the stream of submissions
    and may overtake it."""
    keys = [future.key for future in futures]
    until(lambda: all(ask(client, "get_task_status", keys=keys).values()), "the tasks to arrive")


def at_rest(client) -> bool:
    """Nothing is held or under way, for any client."""
    return not client.who_has() and not any(client.processing().values())


def free_port() -> int:
    """A port for one process to listen at, of those that are never given to one who asks for any."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.sample(range(10_000, max(first, 20_000)), 1000):
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise RuntimeError("no port is free")


class Gate:
    """A task that reports that it has started and then waits to be let through.

    Travels by name and works between processes by two files. Every run adds a line with the
    process id to `started`.
    """

    def __init__(self, directory: str | Path, name: str = "gate"):
        self.started_file = Path(directory) / f"{name}.started"
        self.open_file = Path(directory) / f"{name}.open"

    def __call__(self, value: Any = None) -> Any:
        with open(self.started_file, "a") as file:
            file.write(f"{os.getpid()}\n")
        # A test that is over has taken its directory with it.
        until(lambda: self.open_file.exists() or not self.open_file.parent.exists(), "the gate", 300)
        return value

    def started(self) -> list[int]:
        """Process ids of the runs so far."""
        if not self.started_file.exists():
            return []
        return [int(line) for line in self.started_file.read_text().splitlines()]

    def wait_started(self, runs: int = 1) -> int:
        """Waits for that many runs; gives the process id of the last."""
        until(lambda: len(self.started()) >= runs, f"{runs} runs of {self.started_file}")
        return self.started()[-1]

    def open(self) -> None:
        self.open_file.touch()


def print_lines(count: int, width: int) -> int:
    """Prints count * width bytes; gives the count."""
    for _ in range(count // 1000):
        print(("x" * (width - 1) + "\n") * 1000, end="")
    return count


def sign(signature: str) -> None:
    """Leaves the id of the process that runs this in a file, whole or not at all."""
    Path(f"{signature}.part").write_text(str(os.getpid()))
    os.rename(f"{signature}.part", signature)


def sign_and_sleep(signature: str) -> None:
    sign(signature)
    time.sleep(1e6)


def sign_and_write(signature: str, descriptor: int, data: bytes) -> int:
    sign(signature)
    return os.write(descriptor, data)
