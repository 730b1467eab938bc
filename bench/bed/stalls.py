"""Messages that concern many tasks at once: how long the scheduler's loop is held up by each.

    cd bench && python -m bed.stalls [--tasks N] [CASE ...]

One fresh rask scheduler per case. Printed are the longest turn of its loop as the scheduler itself
says when it ends, the turns above 50 ms, the RPC ping of a bystander while it happens, and the
most memory the scheduler had. Building and submitting the tasks is part of each case.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path

from distributed import Client, wait

from bed import tasks
from bed.cluster import BACKENDS, Cluster, Shape
from bed.graphs import Poison
from bed.ping import Ping

CASES: dict[str, tuple[Callable[[Client, int, Cluster], None], Shape | None]] = {}


def case(name: str, shape: Shape | None = None):
    def register(function):
        CASES[name] = function, shape
        return function

    return register


def fails_later(seconds: float) -> None:
    time.sleep(seconds)
    raise RuntimeError("the input of many " + "x" * 3000)


def ends_later(seconds: float) -> int:
    time.sleep(seconds)
    return 1


def plus(x: int, y: int) -> int:
    return x + y


def ended(futures: list) -> None:
    """Waits for the last ones. `wait` on a million keeps the client from reading for so long that
    its connection times out."""
    while any(future.status == "pending" for future in futures[-100:]):
        time.sleep(0.05)


def taken_in(client: Client) -> None:
    """Waits until all that was submitted so far has been taken in; see Poison."""
    wait(client.submit(Poison(), pure=False))


@case("a graph that cannot be opened")
def failing_graph(client: Client, n: int, _cluster: Cluster) -> None:
    futures = client.map(tasks.inc, range(n), pure=False, y=Poison())
    ended(futures)
    assert futures[-1].status == "error"


@case("release of all keys")
def release(client: Client, n: int, _cluster: Cluster) -> None:
    futures = client.map(tasks.inc, range(n), pure=False)
    taken_in(client)
    del futures
    taken_in(client)


@case("cancel of all keys")
def cancel(client: Client, n: int, _cluster: Cluster) -> None:
    futures = client.map(tasks.inc, range(n), pure=False)
    taken_in(client)
    client.cancel(futures)
    while not futures[-1].cancelled():
        time.sleep(0.05)
    taken_in(client)


@case("restart")
def restart(client: Client, n: int, _cluster: Cluster) -> None:
    futures = client.map(tasks.inc, range(n), pure=False)
    taken_in(client)
    client.restart(wait_for_workers=False)
    taken_in(client)
    del futures


@case("a long wait for a worker that never comes", Shape(1))
def no_fit(client: Client, n: int, _cluster: Cluster) -> None:
    futures = client.map(tasks.inc, range(n), pure=False, workers=["tcp://127.0.0.1:1"])
    taken_in(client)
    time.sleep(15)  # longer than rask.memory.too-large-grace
    client.cancel(futures)


@case("error of one input", Shape(1))
def error_of_input(client: Client, n: int, _cluster: Cluster) -> None:
    root = client.submit(fails_later, n * 4e-5 + 5)
    futures = client.map(plus, [root] * n, range(n), pure=False)
    ended(futures)
    assert futures[-1].status == "error"


@case("end of one input", Shape(1))
def end_of_input(client: Client, n: int, _cluster: Cluster) -> None:
    root = client.submit(ends_later, n * 4e-5 + 5)
    futures = client.map(plus, [root] * n, range(n), pure=False)
    wait(root)
    taken_in(client)
    time.sleep(2)
    client.cancel(futures)


@case("loss of the workers that hold all results", Shape(2, 1, zero=True))
def lost_workers(client: Client, n: int, cluster: Cluster) -> None:
    futures = client.map(tasks.inc, range(n), pure=False)
    ended(futures)
    cluster.extra[0].kill()
    while futures[-1].status == "finished":
        time.sleep(0.05)
    taken_in(client)


def most_memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


def run(name: str, n: int) -> str:
    function, shape = CASES[name]
    with Cluster(BACKENDS["rask"], shape) as cluster:
        with Client(cluster.address, timeout=60) as client, Ping(cluster.address, 0.005) as ping:
            function(client, n, cluster)
            memory = most_memory(cluster.roles.scheduler)
        longest, piece, cpu, over = cluster.longest_turn()
    return (f"{name}, {n} tasks: longest turn {longest} ms ({piece}), most work in one {cpu} ms, "
            f"{over} above 50 ms; ping {ping.result}; {memory:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--tasks", type=int, default=1_000_000)
    options = parser.parse_args()
    for name in options.cases:
        print(run(name, options.tasks), flush=True)


if __name__ == "__main__":
    main()
