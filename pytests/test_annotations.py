"""Where and how tasks run: annotations, restrictions, resources, priorities, actors."""

from __future__ import annotations

import tempfile

import dask
import pytest
from programs import Gate, arrived, inc, until, workers_of


def whereabouts(*_):
    """Name of the worker this runs on."""
    from distributed import get_worker

    return get_worker().name


def names_by_address(client):
    return {addr: w["name"] for addr, w in workers_of(client).items()}


@pytest.mark.api("Client.submit")
def test_workers_may_be_named_by_address_or_name(same):
    def prog(client):
        found = []
        for address, name in sorted(names_by_address(client).items()):
            by_address = client.map(whereabouts, range(4), workers=[address], pure=False)
            by_name = client.map(whereabouts, range(4), workers=name, pure=False)
            found.append(set(client.gather(by_address + by_name)) == {name})
        return found

    assert same(prog) == [True, True]


@pytest.mark.api("Client.submit")
def test_allow_other_workers_lets_a_task_run_elsewhere(same):
    def prog(client):
        future = client.submit(inc, 1, workers=["tcp://127.0.0.1:9"], allow_other_workers=True)
        return future.result()

    assert same(prog) == 2


@pytest.mark.api("dask.annotate")
def test_annotations_reach_the_scheduler(same):
    def prog(client):
        (name, *_) = sorted(names_by_address(client).values())
        with dask.annotate(workers=[name], retries=2, priority=5):
            values = [dask.delayed(whereabouts)(i) for i in range(4)]
        return set(dask.compute(*values, optimize_graph=False)) == {name}

    assert same(prog)


@pytest.mark.smoke
@pytest.mark.api("Client.submit")
def test_a_task_waits_for_a_worker_with_its_resource(same):
    def prog(client, cluster):
        before = len(cluster.workers)
        future = client.submit(whereabouts, resources={"GPU": 1})
        plain = client.submit(inc, 1).result()
        waiting = future.status
        worker = cluster.add_worker(options=("--resources", "GPU=2"))
        at_worker = future.result() == worker.name
        cluster.workers.pop(worker.name).stop()
        until(lambda: len(workers_of(client)) == before, "the third to leave")
        return before, plain, waiting, at_worker

    assert same(prog) == (2, 2, "pending", True)


@pytest.mark.api("Client.submit")
def test_higher_priority_runs_first(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            order = f"{directory}/order"

            def note(name):
                with open(order, "a") as file:
                    file.write(name + "\n")

            (target, *_) = names_by_address(client)
            gate = Gate(directory)
            first = client.submit(gate, 0, workers=[target])
            gate.wait_started()
            low = [client.submit(note, f"low{i}", priority=-10, workers=[target])
                   for i in range(3)]
            high = [client.submit(note, f"high{i}", priority=10, workers=[target])
                    for i in range(3)]
            arrived(client, [*low, *high])
            gate.open()
            client.gather([first, *low, *high])
            return [name.rstrip("012") for name in open(order).read().split()]

    assert same(prog) == ["high"] * 3 + ["low"] * 3


@pytest.mark.api("Client.submit")
def test_an_executor_may_be_chosen(same):
    def prog(client):
        import threading

        with dask.annotate(executor="offload"):
            name = client.submit(lambda: threading.current_thread().name, pure=False).result()
        return "Offload" in name or name.split("_")[0]

    same(prog)


# ---- actors ------------------------------------------------------------------------------------


class Counter:
    """A thing with state for the actor tests."""

    n = 0

    def __init__(self, start=0):
        self.n = start

    def increment(self, by=1):
        self.n += by
        return self.n

    def fail(self):
        raise ValueError(f"at {self.n}")


@pytest.mark.smoke
@pytest.mark.api("Actor")
def test_an_actor_keeps_state_on_its_worker(same):
    def prog(client):
        counter = client.submit(Counter, 10, actor=True).result()
        values = [counter.increment().result() for _ in range(3)]
        values.append(counter.increment(by=7).result())
        return values, counter.n, type(counter).__name__

    assert same(prog) == ([11, 12, 13, 20], 20, "Actor")


@pytest.mark.api("Actor")
def test_an_actor_raises_to_its_caller(same):
    def prog(client):
        return client.submit(Counter, 3, actor=True).result().fail().result()

    with pytest.raises(ValueError, match="at 3"):
        same(prog)


@pytest.mark.api("Actor")
def test_an_actor_is_called_from_tasks(same):
    def prog(client):
        counter = client.submit(Counter, actor=True).result()

        def bump(counter):
            return counter.increment().result()

        return sorted(client.gather(client.map(bump, [counter] * 6, pure=False)))

    assert same(prog) == [1, 2, 3, 4, 5, 6]
