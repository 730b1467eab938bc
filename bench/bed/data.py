"""Programs that move data: W9 scatter and gather, W10 worker to worker, W11 reads under the GIL,
and one large argument.
"""

from __future__ import annotations

import time

from distributed import wait
from distributed.worker import get_data_from_worker

from bed import meter, tasks
from bed.holder import Holder
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
    """W10: n values of `nbytes` bytes made on one worker and used on another.

    Arrays are what people move; Python's own bytes have to be copied once more when they arrive.
    """

    def before(self):
        first, second = sorted(self.client.ncores())
        self.to = second
        make = {"array": tasks.array_of, "bytes": tasks.block}[self.params["kind"]]
        sizes = [self.params["nbytes"]] * self.n
        self.made = self.client.map(make, sizes, workers=[first], pure=False)
        wait(self.made)
        meter.touch_memory(2 * sum(sizes))  # as F5 does

    def timed(self):
        self.held = self.client.map(tasks.length, self.made, workers=[self.to], pure=False)
        wait(self.held)

    def check(self):
        assert set(self.client.gather(self.held)) == {self.params["nbytes"]}, "wrong lengths"

    def after(self):
        self.held = self.made = None


class LargeArgument(Program):
    """`submit(f, array)` with an array of `nbytes`: what the scheduler's side holds at its peak.

    Memory is watched in the first run, which is not timed: to count the pages of 500 MB every 10 ms
    takes a processor, and holds up whoever adds some.
    """

    held_over_payload: float | None = None

    def before(self):
        import numpy

        self.array = numpy.ones(self.params["nbytes"], dtype="u1")

    def timed(self):
        if self.held_over_payload is None:
            roles = meter.Roles(**self.job["roles"])
            with meter.Watch([roles.scheduler, *meter.children(roles.scheduler)]) as watch:
                self.submit()
            self.held_over_payload = watch.growth / self.params["nbytes"]
        else:
            self.submit()
        return {"held_over_payload": self.held_over_payload}

    def submit(self):
        self.held = self.client.submit(tasks.first_byte, self.array, pure=False)
        wait(self.held)

    def check(self):
        assert self.held.result() == 1


class UnderGil(Program):
    """W11: reads values from a worker while its threads are idle, spin in Python, or hold the GIL.

    `received` came from another worker, and the load uses it, so that the copy is kept; `live` are
    objects nobody asked for before, which have to be pickled, with the GIL: for comparison. Each read
    has its floor beside it: a read of the same value from a process that does nothing but hold it.
    """

    seconds = 6
    live_reads = 40  # at most, each of an object of its own

    def before(self):
        self.worker, other = sorted(self.client.ncores())
        here = {"workers": [self.worker], "pure": False}
        self.values = {"int": self.client.submit(tasks.inc, 1, **here),
                       "bytes": self.client.submit(tasks.block, 100, **here),
                       "dict": self.client.submit(tasks.small_dict, 3, **here),
                       "array": self.client.submit(tasks.array_of, 8_000_000, **here),
                       "received": self.client.submit(tasks.array_of, 1_000_000, workers=[other],
                                                      pure=False)}
        frames = self.client.map(tasks.frame, [1000] * 3 * self.live_reads, **here)
        wait([*self.values.values(), *frames])
        self.live = iter(frames)
        self.copies = {future.key: future.result() for future in self.values.values()}

    def reads(self, kinds, load) -> dict:
        """Percentiles of reads of each value, and of control messages, while `load` runs."""
        floors = [f"{kind} floor" for kind in kinds if kind in self.values]
        waits: dict[str, list[float]] = {kind: [] for kind in [*kinds, *floors, "control"]}
        end = time.monotonic() + self.seconds
        while time.monotonic() < end and not any(f.done() for f in load):
            for kind in waits:
                started = time.perf_counter()
                self.client.sync(self.ask_worker if kind == "control" else self.read, kind)
                waits[kind].append(time.perf_counter() - started)
            if len(waits.get("live", ())) == self.live_reads:
                break
            time.sleep(0.01)
        return {kind: summary(values) for kind, values in waits.items()}

    async def read(self, kind):
        """What a gather straight from the workers does once it knows who has the key."""
        kind, _, floor = kind.partition(" ")
        key = (next(self.live) if kind == "live" else self.values[kind]).key
        holder = self.holder.address if floor else self.worker
        got = await get_data_from_worker(self.client.rpc, [key], holder)
        assert list(got["data"]) == [key], f"{kind} is not there"

    async def ask_worker(self, _kind):
        return await self.client.rpc(self.worker).identity()

    def timed(self):
        with Holder(self.copies) as self.holder:
            return self.rounds()

    def rounds(self):
        plain = ["int", "bytes", "dict", "array"]
        result = {"idle": self.reads(plain, []), "idle, live": self.reads(["live"], [])}
        # Live objects make a round wait for the GIL: they have rounds of their own.
        for name, f, kinds in (("spin", tasks.spin, [*plain, "received"]),
                               ("hold", tasks.hold_gil, [*plain, "received"]),
                               ("spin, live", tasks.spin, ["live"]),
                               ("hold, live", tasks.hold_gil, ["live"])):
            load = [self.client.submit(f, self.seconds, self.values["received"],
                                       workers=[self.worker], pure=False) for _ in range(2)]
            time.sleep(0.5)
            result[name] = self.reads(kinds, load)
            wait(load)
        return result

    def after(self):
        self.values, self.copies, self.live = {}, {}, None


PROGRAMS = {"scatter": Scatter, "gather": Gather, "transfer": Transfer,
            "large-argument": LargeArgument, "under-gil": UnderGil}
