"""The client programs that the rows time.

A program has `n` (tasks or objects per run), `prime` (a small run first), `before` (not timed),
`timed`, `check` (are the values right? a wrong answer is not a fast one) and `after` (let go of
everything). The same object runs against stock, rask and the null scheduler, so it uses the public
client API only.
"""

from __future__ import annotations

import os
import signal
import statistics
import time

from distributed import wait

from bed import tasks


class Program:
    n = 1

    def __init__(self, client, params: dict, job: dict):
        self.client = client
        self.params = params
        self.job = job
        self.held = None
        self.n = params.get("n", 1)

    def prime(self) -> None:
        """Makes everybody import and connect."""
        wait(self.client.map(tasks.inc, range(100), pure=False))

    def before(self) -> None:
        pass

    def timed(self) -> dict | None:
        raise NotImplementedError

    def check(self) -> None:
        pass

    def after(self) -> None:
        self.held = None


class Map(Program):
    """W1: `client.map(f, range(n), pure=False)` and wait."""

    def function(self):
        kind = self.params.get("function", "importable")
        if kind == "importable":
            return tasks.inc
        if kind == "lambda":
            f = lambda x: x + 1  # noqa: E731
        else:
            payload = bytes(range(256)) * (self.params["closure_bytes"] // 256 + 1)
            f = lambda x: x + 1 + payload[0]  # noqa: E731
        f.__module__ = "__main__"  # as a notebook's: pickled by value, not by name
        return f

    def before(self):
        self.f = self.function()

    def timed(self):
        self.held = self.client.map(self.f, range(self.n), pure=False)
        wait(self.held)

    def check(self):
        sample = list(range(0, self.n, max(1, self.n // 50)))
        values = self.client.gather([self.held[i] for i in sample])
        assert values == [i + 1 for i in sample], "map returned wrong values"
        assert all(f.status == "finished" for f in self.held)


class MapWithLoss(Map):
    """W12: every tenth zero worker dies in the middle of the map."""

    def timed(self):
        self.held = self.client.map(self.f, range(self.n), pure=False)
        half = self.held[self.n // 2]
        wait(half)
        os.kill(self.job["roles"]["workers"][0], signal.SIGUSR1)
        wait(self.held)


class Soak(Map):
    """W14: the same map over and over on one cluster; does it get slower, does memory stay?"""

    def timed(self):
        rounds = self.params["rounds"]
        size = self.n // rounds
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            wait(self.client.map(self.f, range(size), pure=False))
            times.append(time.perf_counter() - started)
        third = rounds // 3
        drift = statistics.median(times[-third:]) / statistics.median(times[:third]) - 1
        return {"drift_percent": 100 * drift}

    def check(self):
        pass


class Sleeps(Program):
    """W13: independent tasks that sleep; how much of the ideal time is lost."""

    def timed(self):
        started = time.perf_counter()
        seconds = [self.params["seconds"]] * self.n
        self.held = self.client.map(tasks.sleep, seconds, pure=False)
        wait(self.held)
        wall = time.perf_counter() - started
        ideal = self.n * self.params["seconds"] / self.params["threads"]
        return {"efficiency": ideal / wall}


PROGRAMS = {"map": Map, "map-with-loss": MapWithLoss, "soak": Soak, "sleeps": Sleeps}
