"""What a task costs: wall time, and CPU time of each process that has a part in it.

One map of trivial tasks per cluster after a smaller one to warm up. CPU time is what the kernel
counted for the processes, so it holds on a busy machine too; wall time wants a quiet one.
"""

from __future__ import annotations

import resource
import time

from rask.demo.shows import inc
from rask.processes import ProcessCluster


def measure(cluster: ProcessCluster, tasks: int) -> dict[str, float]:
    """µs per task: wall, and CPU of client, scheduler, graph process, workers."""
    with cluster.client() as client:
        client.gather(client.map(inc, range(tasks // 5), pure=False))
        before, own, begin = cluster.cpu_seconds(), _own_cpu(), time.perf_counter()
        total = sum(client.gather(client.map(inc, range(tasks), pure=False)))
        wall = time.perf_counter() - begin
        spent = {name: seconds - before[name] for name, seconds in cluster.cpu_seconds().items()}
        assert total == sum(range(1, tasks + 1))
    found = {"wall time": wall, "CPU of the client": _own_cpu() - own}
    found |= {f"CPU of the {name}": seconds for name, seconds in spent.items()}
    return {name: seconds / tasks * 1e6 for name, seconds in found.items()}


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
