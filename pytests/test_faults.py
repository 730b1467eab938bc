"""Faults of workers and clients: rows W*, C* of the fault catalogue, against real processes.

Programs that have a stock counterpart go through `same`. Tasks are caught in the act by a Gate
(programs.py), never by sleeping. Bad bytes on the wire are in test_bad_bytes.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading

import pytest
from conftest import ENV
from programs import Gate, add, double, inc, until, workers_of


def addresses(client):
    return sorted(workers_of(client))


class BadLoad:
    """An object that can be pickled but not unpickled."""

    def __reduce__(self):
        return int, ("not a number",)


# ---- workers -----------------------------------------------------------------------------------


@pytest.mark.fault("W1")
def test_queued_and_running_tasks_of_a_killed_worker_finish_elsewhere(same):
    def prog(client, cluster):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            first = client.submit(gate, 0)
            pid = gate.wait_started()
            many = client.map(inc, range(200), pure=False)
            more = client.map(double, many)
            os.kill(pid, signal.SIGKILL)
            gate.open()
            return first.result(), sum(client.gather(more))

    assert same(prog) == (0, 2 * sum(range(1, 201)))


@pytest.mark.fault("W1", "W15")
def test_a_task_that_kills_every_worker_it_meets_errs(same):
    def prog(client, cluster):
        future = client.submit(os._exit, 3, key="poison")
        while future.status == "pending":
            cluster.repair()
            until(lambda: future.status != "pending"
                  or any(not w.alive() for w in cluster.workers.values()), "the next death")
        error = future.exception()
        cluster.repair()
        return type(error).__name__, str(error).split("tcp:")[0], client.submit(inc, 1).result()

    found = same(prog)
    assert (found[0], found[2]) == ("KilledWorker", 2)


@pytest.mark.smoke
@pytest.mark.fault("W2")
def test_lost_ancestors_are_computed_again(same):
    def prog(client, cluster):
        one, two = addresses(client)
        a = client.submit(inc, 1, key="anc-a", workers=[one], allow_other_workers=True)
        b = client.submit(double, a, key="anc-b", workers=[one], allow_other_workers=True)
        b.result()
        del a
        holders = {holder for held in client.who_has([b]).values() for holder in held}
        for holder in holders:
            cluster.worker_process(holder).kill()
        return client.submit(add, b, 100).result(), b.result()

    assert same(prog) == (104, 4)


@pytest.mark.fault("W3")
def test_scattered_data_that_is_lost_is_reported(same):
    def prog(client, cluster):
        future = client.scatter(41, hash=False)
        ((holder,),) = client.who_has([future]).values()
        cluster.worker_process(holder).kill()
        until(lambda: len(addresses(client)) == 1, "the loss")
        return client.submit(inc, future, key="on-lost").result()

    with pytest.raises(Exception):
        same(prog)


@pytest.mark.fault("W9")
def test_tasks_wait_for_the_first_worker_to_return(same):
    def prog(client, cluster):
        futures = client.map(inc, range(10))
        client.gather(futures)
        for worker in cluster.workers.values():
            worker.kill()
        until(lambda: not addresses(client), "all to be gone")
        later = client.map(double, futures)
        new = client.submit(inc, 100)
        cluster.repair()
        return client.gather(later), new.result(), client.gather(futures)

    assert same(prog)[1] == 101


@pytest.mark.smoke
@pytest.mark.fault("W16")
@pytest.mark.parametrize("make", [threading.Lock, BadLoad], ids=["pickle", "unpickle"])
def test_a_result_that_cannot_travel_errs_for_its_reader_alone(same, make):
    def prog(client):
        bad = client.submit(make, pure=False)
        good = client.map(inc, range(5))
        try:
            bad.result()
        except Exception as error:
            found = type(error).__name__, str(error).splitlines()[0]
        return found, client.gather(good), client.submit(inc, 41).result()

    assert same(prog)[1:] == ([1, 2, 3, 4, 5], 42)


@pytest.mark.op("register-worker")
@pytest.mark.fault("W19")
def test_a_worker_with_a_taken_name_is_refused(same):
    def prog(client, cluster):
        taken = next(iter(cluster.workers.values()))
        stranger = cluster._spawn("stranger", [
            *taken.popen.args[:taken.popen.args.index("--name") + 2], "--no-nanny",
            "--host", "127.0.0.1", "--no-dashboard", "--dashboard-address", "127.0.0.1:0",
            "--local-directory", str(cluster.directory)])
        stranger.wait_for("name taken")
        stranger.stop()
        return client.gather(client.map(inc, range(4))), len(addresses(client))

    assert same(prog) == ([1, 2, 3, 4], 2)


# ---- clients -----------------------------------------------------------------------------------

VANISH = """
import os, sys
from distributed import Client
from programs import inc
client = Client(sys.argv[1], set_as_default=False)
print("connected", flush=True)
futures = client.map(inc, range(20_000), pure=False)
{pause}
os.kill(os.getpid(), 9)
"""
PAUSES = {
    "before it is sent": "",
    "while it is parsed": "import time; time.sleep(0.05)",
    "while it runs": "futures[0].result()",
}


@pytest.mark.fault("C1", "C2")
@pytest.mark.parametrize("moment", PAUSES)
def test_a_client_that_dies_in_a_submission_leaves_nothing(rask_cluster, rask_client, moment):
    program = VANISH.format(pause=PAUSES[moment])
    subprocess.run([sys.executable, "-c", program, rask_cluster.address], timeout=120,
                   env={**os.environ, **ENV}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert rask_client.submit(inc, 1).result() == 2
    until(lambda: not any(rask_client.processing().values()), "the work to stop")
    until(lambda: len(rask_client.who_has()) <= 1, "the results to leave")


@pytest.mark.fault("C6")
def test_a_cyclic_graph_errs_and_nobody_else_notices(same):
    def prog(client):
        other = client.submit(inc, 1)
        try:
            client.get({"cy-a": (inc, "cy-b"), "cy-b": (inc, "cy-a")}, "cy-a",
                       optimize_graph=False)
        except Exception as error:
            # The cycle may be told from either end.
            found = type(error).__name__, str(error).splitlines()[0]
        return found, other.result(), client.submit(inc, 41).result()

    assert same(prog) == (("RuntimeError", "Cycle detected between the following keys:"), 2, 42)


@pytest.mark.fault("C6")
def test_a_dependency_nobody_knows_errs(same):
    def prog(client):
        from dask._task_spec import Task, TaskRef

        return client.get({"on-nothing": Task("on-nothing", inc, TaskRef("nothing"))},
                          "on-nothing", optimize_graph=False)

    with pytest.raises(Exception):
        same(prog)


@pytest.mark.fault("C6")
def test_a_key_used_twice_with_different_specs_keeps_the_first(same):
    def prog(client):
        first = client.submit(inc, 1, key="collision")
        on_first = client.submit(double, first, key="collision-2")
        on_first.result()
        again = client.submit(add, 10, 20, key="collision")
        return first.result(), again.result(), on_first.result()

    assert same(prog) == (2, 2, 4)


@pytest.mark.smoke
@pytest.mark.fault("C5")
def test_a_graph_that_cannot_be_unpickled_errs_for_its_client_alone(same):
    def prog(client, cluster):
        class Bad:
            def __call__(self):
                return 1

            def __reduce__(self):
                return int, ("boo",)

        with cluster.client() as other:
            neighbour = other.map(inc, range(100))
            try:
                client.submit(Bad(), key="bad-graph").result()
            except Exception as error:
                found = error
            return found, sum(other.gather(neighbour)), client.submit(inc, 1).result()

    assert same(prog)[1:] == (5050, 2)
