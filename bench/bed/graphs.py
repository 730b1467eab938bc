"""Programs that submit whole graphs: W2 tree, W3 merge, W4 stencil and chain, W8 one million.

Building a `delayed` graph is the client's own work (100 µs per task and the same for everybody), so
it happens in `before`; timed is the submission and the run.
"""

from __future__ import annotations

import dask
from dask import delayed
from distributed import wait

from bed import tasks
from bed.bystander import Bystander
from bed.ping import Ping
from bed.programs import Program


class Tree(Program):
    """W2: pairwise sum of 2^exponent numbers by `delayed`."""

    def __init__(self, client, params, job):
        super().__init__(client, params, job)
        self.leaves = 2 ** params["exponent"]
        self.n = self.leaves - 1

    def before(self):
        add = delayed(tasks.add, pure=False)
        level = [add(i, i + 1) for i in range(0, self.leaves, 2)]
        while len(level) > 1:
            level = [add(level[i], level[i + 1]) for i in range(0, len(level), 2)]
        self.graph = level[0]

    def timed(self):
        self.held = self.client.compute(self.graph)
        self.value = self.held.result()

    def check(self):
        assert self.value == self.leaves * (self.leaves - 1) // 2, "wrong sum"


class Merge(Program):
    """W3: n independent `delayed` calls, then one that takes them all."""

    def before(self):
        inc = delayed(tasks.inc, pure=False)
        self.graph = delayed(tasks.total, pure=False)([inc(i) for i in range(self.n)])

    def timed(self):
        self.held = self.client.compute(self.graph)
        self.value = self.held.result()

    def check(self):
        assert self.value == self.n * (self.n + 1) // 2, "wrong sum"


class Stencil(Program):
    """W4: `width` cells × `steps`; each cell needs itself and its neighbours one step earlier."""

    def __init__(self, client, params, job):
        super().__init__(client, params, job)
        self.n = params["width"] * params["steps"]

    def before(self):
        step = delayed(getattr(tasks, self.params.get("function", "stencil")), pure=False)
        width = self.params["width"]
        cells = [step(i) for i in range(width)]
        for _ in range(self.params["steps"] - 1):
            cells = [step(*cells[max(0, i - 1): i + 2]) for i in range(width)]
        self.graph = cells

    def timed(self):
        self.held = self.client.compute(self.graph)
        wait(self.held)

    def check(self):
        width = self.params["width"]
        row = [tasks.stencil(i) for i in range(width)]
        for _ in range(self.params["steps"] - 1):
            row = [tasks.stencil(*row[max(0, i - 1): i + 2]) for i in range(width)]
        assert self.client.gather(self.held) == row, "wrong cells"


class Chain(Program):
    """W4: n steps, each on the result of the one before; fusion is off."""

    def before(self):
        inc = delayed(tasks.inc, pure=False)
        link = inc(0)
        for _ in range(self.n - 1):
            link = inc(link)
        self.graph = link

    def timed(self):
        self.held = self.client.compute(self.graph, optimize_graph=False)
        self.value = self.held.result()

    def check(self):
        assert self.value == self.n, "wrong end of the chain"


class Poison:
    """A function that cannot be unpickled: the scheduler answers its submission with an error.

    That answer comes on the client's stream after everything the client sent before has been
    taken in, so it tells when a graph is ready without a worker that runs anything.
    """

    def __reduce__(self):
        return _refuse, ()

    def __call__(self):
        return None


def _refuse():
    raise RuntimeError("this submission only marks a moment")


class Submission(Program):
    """W8: a map of a million tasks until the scheduler has taken all of them in.

    With `bystander`, zero workers are there for another client only (the million is pinned to a
    worker that does not exist), and that client's round trips are measured meanwhile.
    """

    def timed(self):
        bystander = self.params.get("bystander") and not self.job["null"]
        pins = {"workers": ["tcp://127.0.0.1:1"]} if bystander else {}
        ping = Ping(self.job["address"], period=0.005)
        other = Bystander(self.job["address"]) if bystander else None
        if other:
            other.__enter__()
        with ping:
            self.held = self.client.map(tasks.inc, range(self.n), pure=False, **pins)
            marker = self.client.submit(Poison(), pure=False)
            wait(marker)
            assert marker.status == ("finished" if self.job["null"] else "error"), marker
        extra = {"ping": ping.result}
        if other:
            other.__exit__(None, None, None)
            extra["client_b"] = other.result
        return extra

    def prime(self):
        self.client.sync(self.client.scheduler.identity)


dask.config.set({"optimization.fuse.active": False})
PROGRAMS = {"tree": Tree, "merge": Merge, "stencil": Stencil, "chain": Chain,
            "submission": Submission}
