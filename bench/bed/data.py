"""Programs that move data: W9 scatter and gather, W10 worker to worker, W11 reads under the GIL,
and one large argument.
"""

from __future__ import annotations

import time

from distributed import wait

from bed import meter, tasks
from bed.ping import summary
from bed.programs import Program


class Scatter(Program):
    """W9: n objects of `nbytes` bytes to the workers."""

    def before(self):
        size = self.params["nbytes"]
        self.objects = [i.to_bytes(8, "little") + bytes(size - 8) for i in range(self.n)]

    def timed(self):
        self.held = self.client.scatter(self.objects, hash=False)

    def check(self):
        assert self.client.gather(self.held[-1]) == self.objects[-1], "wrong bytes"


class Gather(Scatter):
    """W9: the way back."""

    def before(self):
        super().before()
        self.held = self.client.scatter(self.objects, hash=False)

    def timed(self):
        self.values = self.client.gather(self.held)

    def check(self):
        assert self.values == self.objects, "wrong bytes"

    def after(self):
        self.held = self.values = None


class Transfer(Program):
    """W10: n values of `nbytes` bytes made on one worker and used on another."""

    def before(self):
        first, second = sorted(self.client.ncores())
        self.to = second
        sizes = [self.params["nbytes"]] * self.n
        self.made = self.client.map(tasks.block, sizes, range(self.n), workers=[first], pure=False)
        wait(self.made)

    def timed(self):
        self.held = self.client.map(tasks.length, self.made, workers=[self.to], pure=False)
        wait(self.held)

    def check(self):
        assert set(self.client.gather(self.held)) == {self.params["nbytes"]}, "wrong lengths"

    def after(self):
        self.held = self.made = None


class LargeArgument(Program):
    """`submit(f, array)` with an array of `nbytes`: what the scheduler's side holds at its peak."""

    def before(self):
        import numpy

        self.array = numpy.ones(self.params["nbytes"], dtype="u1")

    def timed(self):
        roles = meter.Roles(**self.job["roles"])
        watched = [roles.scheduler, *meter.children(roles.scheduler)]
        with meter.Watch(watched) as watch:
            self.held = self.client.submit(tasks.first_byte, self.array, pure=False)
            wait(self.held)
        return {"held_over_payload": watch.growth / self.params["nbytes"]}

    def check(self):
        assert self.held.result() == 1


class UnderGil(Program):
    """W11: reads values from a worker while its threads are idle, spin in Python, or hold the GIL."""

    seconds = 6

    def before(self):
        (self.worker,) = self.client.ncores()
        makers = {"int": tasks.inc, "bytes": tasks.block, "dict": tasks.small_dict,
                  "array": tasks.array_of}
        arguments = {"int": 1, "bytes": 100, "dict": 3, "array": 8_000_000}
        self.values = {kind: self.client.submit(f, arguments[kind], pure=False)
                       for kind, f in makers.items()}
        wait(list(self.values.values()))

    def reads(self, load) -> dict:
        """Percentiles of direct reads of each value, and of control messages, while `load` runs."""
        waits: dict[str, list[float]] = {kind: [] for kind in [*self.values, "control"]}
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not (load and all(f.done() for f in load)):
            for kind, future in self.values.items():
                started = time.perf_counter()
                self.client.gather(future, direct=True)
                waits[kind].append(time.perf_counter() - started)
            started = time.perf_counter()
            self.client.sync(self.ask_worker)
            waits["control"].append(time.perf_counter() - started)
            time.sleep(0.01)
        return {kind: summary(values) for kind, values in waits.items()}

    async def ask_worker(self):
        return await self.client.rpc(self.worker).identity()

    def timed(self):
        result = {"idle": self.reads(None)}
        for name, f in (("spin", tasks.spin), ("hold", tasks.hold_gil)):
            load = [self.client.submit(f, self.seconds, pure=False) for _ in range(2)]
            time.sleep(0.2)
            result[name] = self.reads(load)
            wait(load)
        return result

    def after(self):
        self.values = {}


PROGRAMS = {"scatter": Scatter, "gather": Gather, "transfer": Transfer,
            "large-argument": LargeArgument, "under-gil": UnderGil}
