"""Workers under stock's nannies, as `rask worker --nanny` and `--nworkers` start them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from conftest import WORKER
from programs import Gate, inc, until, workers_of

rask_workers = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


def running(client) -> dict[str, dict]:
    return {a: w for a, w in workers_of(client).items() if w["status"] == "running"}


def test_a_worker_that_is_killed_is_started_again(same_under_nannies):
    def prog(client):
        old = sorted(running(client))
        kept = client.submit(inc, 1, workers=old[:1], allow_other_workers=True, pure=False)
        kept.result()
        os.kill(client.run(os.getpid, workers=old[:1])[old[0]], signal.SIGKILL)
        until(lambda: old[0] not in workers_of(client) and len(running(client)) == 2, "the next worker")
        return kept.result(timeout=120), client.gather(client.map(inc, range(20), pure=False))

    assert same_under_nannies(prog)[0] == 2


def test_nannies_run_functions_too(same_under_nannies):
    def prog(client):
        kinds = client.run(lambda dask_worker: type(dask_worker).__name__, nanny=True)
        pids = client.run(os.getpid, nanny=True)
        return sorted(kinds.values()), set(pids.values()).isdisjoint(client.run(os.getpid).values())

    assert same_under_nannies(prog) == (["Nanny", "Nanny"], True)


def grow(gate: Gate) -> int:
    return gate(np.ones(90_000_000).nbytes)  # 720 MB


@pytest.mark.fault("W12")
def test_a_worker_that_outgrows_its_memory_is_ended_by_its_nanny(fresh, tmp_path):
    names = {"WORKER__MEMORY__PAUSE": "False", "WORKER__MEMORY__SPILL": "False",
             "SCHEDULER__ALLOWED_FAILURES": "0"}
    cluster = fresh(n_workers=1, worker_options=("--nanny", "--memory-limit", "600MB"),
                    env={f"DASK_DISTRIBUTED__{name}": value for name, value in names.items()})
    with cluster.connected() as client:
        kept = client.submit(inc, 1, pure=False)
        kept.result()
        error = client.submit(grow, Gate(tmp_path), pure=False).exception(timeout=120)
        assert type(error).__name__ == "KilledWorker"
        assert client.submit(inc, kept).result(timeout=120) == 3, "what was lost with it is made again"
        assert "95% memory budget" in cluster.logs()


@rask_workers
def test_a_worker_whose_life_is_over_is_replaced(fresh):
    cluster = fresh(n_workers=1, worker_options=("--nanny", "--lifetime", "10s", "--lifetime-restart"))
    with cluster.connected() as client:
        (old,) = running(client)
        until(lambda: running(client) and old not in workers_of(client), "the next worker")
        assert client.submit(inc, 1).result(timeout=120) == 2  # by this one or one after it
        assert cluster.workers["w0"].alive()


def test_a_nanny_that_is_told_to_end_ends_its_worker(fresh, tmp_path):
    cluster = fresh(n_workers=1, worker_options=("--nanny",))
    with cluster.connected() as client:
        gate = Gate(tmp_path)
        client.submit(gate, pure=False)
        pid = gate.wait_started()
        cluster.workers["w0"].signal(signal.SIGTERM)
        until(lambda: not workers_of(client), "the worker to leave")
        until(lambda: not os.path.exists(f"/proc/{pid}"), "its process to end")
        until(lambda: not cluster.workers["w0"].alive(), "the nanny to end")
