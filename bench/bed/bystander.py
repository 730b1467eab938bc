"""Another client: `submit(inc, 1).result()` over and over from a process of its own.

What it waits is mostly its own 10 ms of batching; what is above that somebody else caused. Run as
`python -m bed.bystander ADDRESS`; prints one line when warm and on SIGTERM one JSON line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

from distributed import Client

from bed import tasks
from bed.ping import Stop, summary


def main(address: str) -> None:
    client = Client(address, timeout=60)
    client.submit(tasks.inc, 1, pure=False).result()
    waits: list[float] = []
    started = time.perf_counter()

    def stop(*_):
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    try:
        while True:
            started = time.perf_counter()
            client.submit(tasks.inc, 1, pure=False).result()
            waits.append(time.perf_counter() - started)
    except Stop:
        waits.append(time.perf_counter() - started)
    print(json.dumps(summary(waits)), flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    client.close(timeout=5)


class Bystander:
    """The other client as a block: `with Bystander(address) as b: …`, then `b.result`."""

    def __init__(self, address: str):
        self.argv = [sys.executable, "-m", "bed.bystander", address]
        self.result: dict = {}

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        self.process.stdout.readline()
        return self

    def __exit__(self, *exc):
        self.process.terminate()
        out, _ = self.process.communicate(timeout=120)
        lines = out.strip().splitlines()
        self.result = json.loads(lines[-1]) if lines else {"count": 0}


if __name__ == "__main__":
    main(sys.argv[1])
