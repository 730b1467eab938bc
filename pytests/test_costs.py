"""What the scheduler may cost, with the numbers printed. Speed is measured in bench/.

The goal is 5 MB. What is resident also holds what came in and was let go, which depends on how the graph
was cut into messages: on a busy machine up to 1 MB more. So the limit here is twice what is held, and the
printed figure is the one to read.
"""

from __future__ import annotations

import psutil
import pytest
from conftest import SCHEDULER
from programs import ask, inc, until

TASKS = 10_000


def added_by_map(cluster, function) -> float:
    """MB that a map of TASKS adds to a fresh scheduler that has nowhere to run it."""

    def known(futures):
        return all(ask(client, "get_task_status", keys=[f.key for f in futures[-3:]]).values())

    scheduler = psutil.Process(cluster.scheduler.pid)
    with cluster.connected() as client:
        warm = client.map(inc, range(10))
        until(lambda: known(warm), "the first tasks")
        before = scheduler.memory_info().rss
        futures = client.map(function, range(TASKS), pure=False)
        until(lambda: known(futures), "the tasks")
        return (scheduler.memory_info().rss - before) / 1e6


@pytest.mark.skipif(SCHEDULER != "rask", reason="a stock scheduler keeps the closure once per task")
def test_a_map_over_a_closure_takes_a_few_megabytes(fresh, capsys):
    table = bytes(range(250)) * 200
    plain = added_by_map(fresh(n_workers=0), inc)
    closure = added_by_map(fresh(n_workers=0), lambda i: table[i % len(table)])
    with capsys.disabled():
        print(f"\nscheduler, map of {TASKS}: +{plain:.1f} MB of an importable function, "
              f"+{closure:.1f} MB over a closure of {len(table) // 1000} kB")
    assert closure < 9  # a copy of the closure for each task would be 500 MB
    assert plain < 9
