"""The client process of one row on one backend.

Reads a job as JSON from stdin, runs the row's program against the address it names, measures the
roles around exactly the timed part, and prints one JSON line. It is a process of its own so that
every backend and every floor meets the very same client.

Order: a small prime (imports, connections), one full run that is not timed and shows the growth of
memory on a fresh scheduler, the timed repeats, and one observed repeat with the ping and the
counters running, whose times are not used.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time

from distributed import Client

from bed import data, graphs, meter, programs
from bed.ping import Ping


PROGRAMS = {**programs.PROGRAMS, **graphs.PROGRAMS, **data.PROGRAMS}


def wait_until_forgotten(client: Client, deadline: float = 60) -> bool:
    """Waits until the scheduler holds no task any more; False if it still does at the deadline."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        if not client.sync(client.scheduler.who_has):
            return True
        time.sleep(0.01)
    return False


class Bench:
    def __init__(self, job: dict):
        self.job = job
        self.roles = meter.Roles(**job["roles"])
        self.client = Client(job["address"], timeout=60)
        self.program = PROGRAMS[job["program"]](self.client, job["params"], job)

    def repeat(self) -> dict:
        """One timed run: wall and CPU of each role around `timed`, nothing else."""
        self.program.before()
        gc.collect()
        cpu = self.roles.cpu()
        started = time.perf_counter()
        extra = self.program.timed()
        wall = time.perf_counter() - started
        spent = {role: after - cpu[role] for role, after in self.roles.cpu().items()}
        if self.job["real"]:
            self.program.check()
        return {"wall_s": wall, "cpu_s": spent, **(extra or {})}

    def forget(self) -> bool:
        self.program.after()
        gc.collect()
        done = self.program.n > 200_000 or wait_until_forgotten(self.client)
        if not self.job["null"]:
            meter.wait_until_steady(self.roles.scheduler)
        return done

    def first(self) -> dict:
        """The run that is not timed: what a scheduler that never saw such work grows by."""
        before = self.roles.rss()
        self.roles.reset_peaks()
        row = self.repeat()
        peak = self.roles.peak()
        forgotten = self.forget()
        after = self.roles.rss()
        grown = {role: peak[role] - before[role] for role in before}
        kept = {role: after[role] - before[role] for role in before}
        return {"peak_growth": grown, "kept": kept, "forgotten": forgotten, "first": row}

    def observed(self) -> dict:
        """One more run with the bystander and the counters on."""
        scheduler = self.roles.scheduler
        counts = meter.KernelCalls(scheduler)
        ping = Ping(self.job["address"])
        moved = meter.socket_bytes(scheduler)
        with contextlib.ExitStack() as stack:
            stack.enter_context(counts)
            stack.enter_context(ping)
            self.repeat()
        after = meter.socket_bytes(scheduler)
        self.forget()
        return {"ping": ping.result, "kernel_calls": counts.count,
                "sent": after["sent"] - moved["sent"],
                "received": after["received"] - moved["received"]}

    def run(self) -> dict:
        self.program.prime()
        self.forget()
        result = {"n": self.program.n, **self.first(), "repeats": []}
        for _ in range(self.job["repeats"]):
            result["repeats"].append(self.repeat())
            self.forget()
        if self.job["observe"]:
            result["observed"] = self.observed()
        return result


def main() -> None:
    job = json.loads(sys.stdin.read())
    bench = Bench(job)
    result = bench.run()
    with contextlib.suppress(Exception):
        bench.client.close(timeout=10)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
