"""Memory-bounded admission: annotated loads on any worker, learned sizes on rask workers.

Loads wait at a gate, so that what runs at once and what waits is seen without timing.
"""

from __future__ import annotations

from collections import Counter

import dask
import numpy as np
import pytest
from conftest import SCHEDULER, WORKER
from programs import Gate, inc, until, workers_of

import rask

MB = 1_000_000
of_our_scheduler = pytest.mark.skipif(SCHEDULER != "rask", reason="admission is the scheduler's")


def load(gate: Gate, i: int, megabytes: int) -> np.ndarray:
    gate(i)
    return np.ones(megabytes * MB // 8)


def size(array: np.ndarray) -> int:
    return array.size


def memory(client, **changes) -> dict:
    return client.sync(client.scheduler.rask_memory, **changes)


def states(client, keys) -> dict[str, int]:
    """How many of the keys are in each state."""
    status = client.sync(client.scheduler.get_task_status, keys=list(keys))
    return dict(Counter(status.values()))


def bounded_cluster(fresh, threads=4, limit=1000 * MB, **options):
    return fresh(n_workers=1, nthreads=threads, worker_options=("--memory-limit", str(limit)),
                 **options)


@pytest.mark.api("dask.annotate")
def test_an_annotation_of_memory_changes_no_result(same):
    def prog(client):
        with dask.annotate(memory="3 MB"):
            values = [dask.delayed(inc)(i) for i in range(20)]
            total = dask.delayed(sum)(values)
            futures = client.map(inc, range(100))
        return total.compute(optimize_graph=False), client.gather(futures)

    assert same(prog)[0] == 210


@of_our_scheduler
def test_annotated_loads_wait_for_memory_and_start_in_order(fresh, tmp_path):
    cluster = bounded_cluster(fresh)
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        with dask.annotate(memory="250 MB"):
            loads = [client.submit(load, gate, i, 250, key=f"load-{i}", priority=-i)
                     for i in range(5)]
        keys = [future.key for future in loads]
        until(lambda: states(client, keys) == {"processing": 2, "queued": 3}, "two loads to start")
        report = memory(client)
        assert report["reserved"] == 500 * MB
        assert report["delayed_tasks"] == 3
        assert report["delayed_bytes"] == 750 * MB
        ((_, worker),) = report["workers"].items()
        assert worker["budget"] == 600 * MB and worker["delayed_bytes"] == 750 * MB
        (told,) = workers_of(client).values()
        assert told["metrics"]["rask"] == {"memory_budget": 600 * MB, "reserved_bytes": 500 * MB, "in_flight_bytes": 0,
                                           "delayed_tasks": 3, "delayed_bytes": 750 * MB}
        gate.open()
        client.gather([client.submit(size, future) for future in loads[:2]])
        assert states(client, keys[2:]) in ({"queued": 3}, {"processing": 1, "queued": 2})
        done = [client.submit(size, future) for future in loads]
        del loads
        assert client.gather(done) == [250 * MB // 8] * 5
        assert memory(client)["delayed_tasks"] == 0
        assert memory(client)["reserved"] == 0


@of_our_scheduler
def test_the_story_says_why_a_load_waited(fresh, tmp_path):
    cluster = bounded_cluster(fresh)
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        with dask.annotate(memory=400 * MB):
            loads = [client.submit(load, gate, i, 1, key=f"load-{i}", priority=-i)
                     for i in range(2)]
        until(lambda: states(client, ["load-1"]) == {"queued": 1}, "the second to wait")
        reasons = [line[4] for line in
                   client.sync(client.scheduler.get_story, keys_or_stimuli=["load-1"])]
        assert any("waits for memory: needs 400 MB" in reason and "of 600 MB" in reason
                   for reason in reasons), reasons
        memory(client, budget=0.9)  # and more room lets it start
        until(lambda: states(client, ["load-1"]) == {"processing": 1}, "the second to start")
        gate.open()
        assert [array.size for array in client.gather(loads)] == [MB // 8] * 2


@of_our_scheduler
def test_a_load_larger_than_every_worker_is_an_error_that_says_so(fresh):
    cluster = bounded_cluster(fresh, env={"DASK_RASK__MEMORY__TOO_LARGE_GRACE": "100ms"})
    with cluster.connected() as client:
        with dask.annotate(memory="2 GiB"):
            future = client.submit(inc, 1, key="huge")
        with pytest.raises(MemoryError, match=r"Task 'huge' is annotated to need 2\.00 GiB of memory,"
                                              r" but the largest worker, tcp://.*, has memory_limit"
                                              r" set to 0\.93 GiB"):
            future.result(timeout=60)
        assert client.submit(inc, 1).result() == 2


@of_our_scheduler
@pytest.mark.parametrize("value", ["two", -1, True, [1], "inf GB"])
def test_a_bad_annotation_of_memory_fails_its_submission_alone(rask_client, value):
    with dask.annotate(memory=value), pytest.raises(Exception, match="is not a number of bytes"):
        dask.delayed(inc)(1).compute(optimize_graph=False)
    assert rask_client.submit(inc, 1, pure=False).result() == 2


@of_our_scheduler
def test_loads_of_one_device_run_one_at_a_time(fresh, tmp_path):
    cluster = bounded_cluster(fresh)
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        with dask.annotate(rask={"io": {"device": "hdd", "concurrency": 1}}):
            loads = [client.submit(load, gate, i, 1, key=f"load-{i}") for i in range(3)]
        keys = [future.key for future in loads]
        until(lambda: states(client, keys) == {"processing": 1, "queued": 2}, "one to start")
        gate.open()
        assert len(client.gather(loads)) == 3


@of_our_scheduler
def test_the_budget_can_be_configured_while_loads_wait(fresh, tmp_path):
    cluster = bounded_cluster(fresh)
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        with dask.annotate(memory="250 MB"):
            loads = [client.submit(load, gate, i, 1, key=f"load-{i}") for i in range(4)]
        keys = [future.key for future in loads]
        until(lambda: states(client, keys) == {"processing": 2, "queued": 2}, "two to start")
        rask.configure(client, {"memory.budget": 0.8})
        until(lambda: states(client, keys) == {"processing": 3, "queued": 1}, "a third to start")
        rask.configure(client, {"io.cluster": None})
        assert memory(client)["fraction"] == 0.8
        rask.configure(client, {"memory.budget": None})
        assert memory(client)["fraction"] == 0.6
        gate.open()
        client.gather(loads)
        with pytest.raises(ValueError, match="memory.budget is 2, expected a part"):
            rask.configure(client, {"memory.budget": 2})


@of_our_scheduler
def test_a_configured_grace_holds_for_what_is_too_large(fresh):
    cluster = bounded_cluster(fresh, env={"DASK_RASK__MEMORY__TOO_LARGE_GRACE": "1 h"})
    with cluster.connected() as client:
        rask.configure(client, {"memory.too-large-grace": "100 ms"})
        with dask.annotate(memory="2 GiB"):
            huge = client.submit(inc, 1, key="huge")
        with pytest.raises(MemoryError, match="Task 'huge'"):
            huge.result(timeout=120)


@of_our_scheduler
def test_with_admission_off_nothing_waits_for_memory(fresh, tmp_path):
    cluster = bounded_cluster(fresh, env={"DASK_RASK__MEMORY__BUDGET": "0"})
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        with dask.annotate(memory="500 MB"):
            loads = [client.submit(load, gate, i, 1, key=f"load-{i}") for i in range(4)]
        keys = [future.key for future in loads]
        until(lambda: states(client, keys) == {"processing": 4}, "all to start")
        gate.open()
        client.gather(loads)


@of_our_scheduler
@pytest.mark.skipif(WORKER != "rask", reason="without annotation only rask workers are spared")
def test_without_annotation_loads_wait_once_memory_would_pass_the_target(fresh, tmp_path):
    """Results of 100 MB on a worker of 1 GB with 8 threads: stock would have nine on their way."""
    cluster = bounded_cluster(fresh, threads=8)
    first, gate = Gate(tmp_path, "first"), Gate(tmp_path)
    with cluster.connected() as client:
        first.open()
        seen = client.submit(load, first, 0, 100, key="load-1000")
        seen.result()
        loads = client.map(load, [gate] * 40, range(40), [100] * 40,
                           key=[f"load-{i}" for i in range(40)])
        keys = [future.key for future in loads]
        until(lambda: states(client, keys) == {"processing": 5, "queued": 35}, "five to start")
        report = memory(client)
        assert report["managed"] + report["reserved"] <= 600 * MB
        assert report["delayed_tasks"] == 35
        sizes = client.map(size, loads)
        del loads, seen
        gate.open()
        assert client.gather(sizes) == [100 * MB // 8] * 40
        ((_, worker),) = client.sync(client.scheduler.identity, n_workers=-1)["workers"].items()
        assert worker["metrics"]["spilled_bytes"]["disk"] == 0


@of_our_scheduler
def test_loads_survive_a_killed_worker(fresh, tmp_path):
    cluster = fresh(n_workers=2, nthreads=2, worker_options=("--memory-limit", str(1000 * MB)))
    gate = Gate(tmp_path)
    with cluster.connected() as client:
        with dask.annotate(memory="400 MB"):
            loads = [client.submit(load, gate, i, 1, key=f"load-{i}") for i in range(6)]
        keys = [future.key for future in loads]
        until(lambda: states(client, keys) == {"processing": 2, "queued": 4}, "two to start")
        next(iter(cluster.workers.values())).kill()
        until(lambda: states(client, keys) == {"processing": 1, "queued": 5}, "one to go back")
        assert memory(client)["reserved"] == 400 * MB
        gate.open()
        assert [array.size for array in client.gather(loads)] == [MB // 8] * 6
