"""What workers and nannies say to the scheduler, and the calls that change the set of workers.

Some messages are provoked inside a stock worker, by its own Python; those tests take stock workers
under the scheduler of the pairing. Nannies are stock ones: `rask worker` has none.
"""

from __future__ import annotations

import os
import tempfile
import time

import pytest
from distributed import NannyPlugin
from programs import Gate, ask, inc, until, workers_of


# ---- streams ------------------------------------------------------------------------------------


@pytest.mark.op("register-worker")
@pytest.mark.op("heartbeat_worker")
def test_a_worker_that_joins_is_seen_and_its_heartbeats_are_counted(same):
    def prog(client, cluster):
        before = set(workers_of(client))
        name = cluster.add_worker().name
        (address,) = set(workers_of(client)) - before
        joined = workers_of(client)[address]
        future = client.submit(inc, 1, workers=[name], pure=False)
        value = future.result()
        until(lambda: workers_of(client)[address]["last_seen"] > joined["last_seen"], "a heartbeat")
        metrics = workers_of(client)[address]["metrics"]
        cluster.workers.pop(name).kill()
        until(lambda: address not in workers_of(client), "the loss")
        return value, joined["name"] == name, joined["nthreads"], joined["status"], \
            isinstance(metrics["memory"], int), "memory" in metrics["task_counts"]

    assert same(prog)[:5] == (2, True, 1, "running", True)


@pytest.mark.op("heartbeat_worker")
def test_a_heartbeat_of_a_stranger_says_that_it_is_missing(same):
    def prog(client):
        answer = ask(client, "heartbeat_worker", address="tcp://127.0.0.1:9", now=time.time(),
                     resolve_address=False, metrics={"task_counts": {}, "memory": 1,
                                                     "spilled_bytes": {"memory": 0, "disk": 0}},
                     host_info={}, executing={}, extensions={})
        return answer["status"], sorted(answer)

    assert same(prog)[0] == "missing"


@pytest.mark.op("unregister")
def test_a_worker_that_is_unregistered_is_gone(same):
    def prog(client, cluster):
        address = sorted(workers_of(client))[0]
        process = cluster.worker_process(address)
        first = ask(client, "unregister", address=address, stimulus_id="unregister-test")
        second = ask(client, "unregister", address=address, stimulus_id="unregister-test")
        until(lambda: not process.alive(), "the worker to end")
        return first, second, len(workers_of(client)), client.submit(inc, 1).result()

    assert same(prog) == ("OK", "already-removed", 1, 2)


@pytest.mark.op("keep-alive")
def test_a_worker_may_say_that_it_is_alive(same_on_stock_workers):
    def say(dask_worker):
        dask_worker.batched_send({"op": "keep-alive"})

    def prog(client):
        client.run(say)
        return client.gather(client.map(inc, range(4), pure=False)), len(workers_of(client))

    assert same_on_stock_workers(prog) == ([1, 2, 3, 4], 2)


@pytest.mark.op("release-worker-data")
def test_a_replica_that_a_worker_drops_is_computed_again(same_on_stock_workers):
    def drop(dask_worker):
        from distributed.worker_state_machine import RemoveReplicasEvent

        if "dropped" in dask_worker.data:
            dask_worker.handle_stimulus(RemoveReplicasEvent(keys=["dropped"], stimulus_id="test"))

    def prog(client):
        future = client.submit(inc, 1, key="dropped")
        after = client.submit(inc, future)
        after.result()
        before = len(ask(client, "get_story", keys_or_stimuli=["dropped"]))
        client.run(drop)
        until(lambda: len(ask(client, "get_story", keys_or_stimuli=["dropped"])) > before
              and ask(client, "get_task_status", keys=["dropped"])["dropped"] == "memory",
              "the key to come back")
        return future.result(), [len(w) for w in client.who_has([future]).values()]

    assert same_on_stock_workers(prog) == (2, [1])


@pytest.mark.op("request-refresh-who-has")
def test_a_worker_may_ask_who_has_what(same_on_stock_workers):
    def request(keys, dask_worker):
        dask_worker.batched_send({"op": "request-refresh-who-has", "keys": keys,
                                  "stimulus_id": "refresh-test"})

    def answers(dask_worker):
        return [event.who_has for event in dask_worker.state.stimulus_log
                if type(event).__name__ == "RefreshWhoHasEvent" and "refreshed" in event.who_has]

    def prog(client):
        future = client.submit(inc, 1, key="refreshed", pure=False)
        future.result()
        ((holder,),) = client.who_has([future]).values()
        asker = [address for address in workers_of(client) if address != holder]
        client.run(request, ["refreshed", "nobody-has-this"], workers=asker)
        ((told,),) = until(lambda: [v for v in client.run(answers, workers=asker).values() if v],
                           "the answer")
        return list(told["refreshed"]) == [holder], sorted(told)

    assert same_on_stock_workers(prog) == (True, ["refreshed"])


@pytest.mark.op("worker-status-change")
def test_a_paused_worker_gets_no_tasks(same_on_stock_workers):
    def set_status(name, dask_worker):
        from distributed.core import Status

        # Otherwise the memory monitor resumes the worker.
        dask_worker.memory_manager.memory_pause_fraction = False if name == "paused" else 0.8
        dask_worker.status = Status[name]

    def prog(client):
        paused, other = sorted(workers_of(client))
        client.run(set_status, "paused", workers=[paused])
        until(lambda: workers_of(client)[paused]["status"] == "paused", "the pause")
        futures = client.map(inc, range(10), pure=False)
        client.gather(futures)
        holders = {w for ws in client.who_has(futures).values() for w in ws}
        waiting = client.submit(inc, 1, workers=[paused], pure=False)
        running = ask(client, "ncores_running")
        client.run(set_status, "running", workers=[paused])
        return holders == {other}, list(running) == [other], waiting.result(timeout=120)

    assert same_on_stock_workers(prog) == (True, True, 2)


@pytest.mark.op("steal-response")
def test_an_idle_worker_takes_tasks_of_a_busy_one(same, tmp_path_factory):
    def until_both_work(x, directory):
        """Says where it runs; the first tasks of the busy worker wait until another says so too."""
        open(f"{directory}/{os.getpid()}", "w").close()
        until(lambda: len(os.listdir(directory)) == 2, "a task of the idle worker")
        return x

    def prog(client):
        busy, idle = sorted(workers_of(client))
        # Too many different inputs for the tasks to be queued as root tasks.
        data = client.map(inc, range(40), workers=[busy], pure=False)
        client.gather(data)
        directory = str(tmp_path_factory.mktemp("busy"))
        futures = client.map(until_both_work, data, directory=directory, pure=False)
        values = client.gather(futures)
        return {w for ws in client.who_has(futures).values() for w in ws} == {busy, idle}, \
            sorted(values)

    assert same(prog) == (True, list(range(1, 41)))


@pytest.mark.op("subscribe_worker_status")
def test_a_subscriber_is_told_of_workers_that_come_and_go(same):
    def prog(client, cluster):
        from distributed.comm import connect

        async def talk():
            comm = await connect(cluster.address)
            await comm.write({"op": "subscribe_worker_status"})
            return comm, await comm.read()

        comm, first = client.sync(talk)

        def next_one():
            return client.sync(comm.read)

        known = set(first["workers"])
        name = cluster.add_worker().name
        ((kind, added),) = next_one()
        (address,) = added["workers"]
        cluster.workers.pop(name).kill()
        ((gone, which),) = next_one()
        client.sync(comm.close)
        shown = sorted(set(added["workers"][address]) - {"topology"})
        return len(known), kind, added["workers"][address]["name"] == name, shown, gone, \
            which == address, sorted(set(next(iter(first["workers"].values()))) - {"topology"}) == shown

    found = same(prog)
    assert (found[1], found[4]) == ("add", "remove")


# ---- clients' streams -----------------------------------------------------------------------------


@pytest.mark.op("heartbeat-client")
def test_a_clients_heartbeat_is_answered(same):
    def prog(client):
        callback = client._periodic_callbacks["heartbeat"]
        callback.callback_time = 1
        client._send_to_scheduler({"op": "heartbeat-client"})
        until(lambda: callback.callback_time > 1, "the interval")
        return callback.callback_time

    same(prog)


@pytest.mark.op("close-client")
def test_a_client_that_says_goodbye_is_forgotten_at_once(same):
    def prog(client, cluster):
        with cluster.client() as other:
            future = other.submit(inc, 1, key="goodbye")
            future.result()
            other._send_to_scheduler({"op": "close-client"})
            until(lambda: "goodbye" not in client.who_has(), "the key to leave")
        return client.submit(inc, 1).result()

    assert same(prog) == 2


# ---- restarts -------------------------------------------------------------------------------------


@pytest.mark.op("restart", "register_nanny")
@pytest.mark.api("Client.restart")
def test_a_restart_ends_all_tasks_and_starts_workers_anew(same_under_nannies):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            pids = set(client.run(os.getpid).values())
            futures = client.map(inc, range(10))
            client.gather(futures)
            gate = Gate(directory)
            waiting = client.submit(gate, pure=False)
            # A restart travels beside the stream of submissions and would overtake one on its way.
            gate.wait_started()
            client.restart(timeout=120)
            after = set(client.run(os.getpid).values())
            return not pids & after, len(after), {f.status for f in futures}, waiting.status, client.who_has(), \
                client.gather(client.map(inc, range(10)))

    found = same_under_nannies(prog)
    assert found[:5] == (True, 2, {"cancelled"}, "cancelled", {})


@pytest.mark.op("restart_workers")
@pytest.mark.api("Client.restart_workers")
def test_one_worker_can_be_restarted_and_its_keys_are_computed_again(same_under_nannies):
    def prog(client):
        names = {w["name"]: a for a, w in workers_of(client).items()}
        victim = sorted(names)[0]
        futures = client.map(inc, range(20), pure=False)
        client.gather(futures)
        pids = client.run(os.getpid)
        answer = client.restart_workers([names[victim]], timeout=120)
        client.wait_for_workers(2, timeout=120)
        after = {w["name"]: a for a, w in workers_of(client).items()}
        others = [name for name in names if name != victim]
        with pytest.raises(Exception, match="no-such-worker"):
            client.restart_workers(["no-such-worker"])
        return list(answer.values()), list(answer) == [names[victim]], sorted(after) == sorted(names), \
            {names[n] == after[n] for n in others}, \
            client.run(os.getpid)[after[victim]] != pids[names[victim]], client.gather(futures)

    found = same_under_nannies(prog)
    assert found[:5] == (["OK"], True, True, {True}, True)


@pytest.mark.op("restart")
def test_workers_without_nannies_do_not_survive_a_restart(same):
    def prog(client, cluster):
        processes = list(cluster.workers.values())
        future = client.submit(inc, 1)
        future.result()
        client.restart(wait_for_workers=False, timeout=120)
        until(lambda: not any(process.alive() for process in processes), "the workers to end")
        left = len(workers_of(client))
        cluster.repair()
        return left, future.status, client.submit(inc, 1).result()

    assert same(prog) == (0, "cancelled", 2)


class Marks(NannyPlugin):
    name = "marks"

    def __init__(self, directory):
        self.directory = directory

    def setup(self, nanny):
        open(f"{self.directory}/up-{os.getpid()}", "w").close()

    def teardown(self, nanny):
        open(f"{self.directory}/down-{os.getpid()}", "w").close()


@pytest.mark.op("register_nanny_plugin", "unregister_nanny_plugin", "register_nanny")
@pytest.mark.api("Client.register_plugin")
def test_nannies_have_plugins(same_under_nannies, tmp_path_factory):
    def prog(client, cluster):
        directory = tmp_path_factory.mktemp("nannies")
        client.register_plugin(Marks(str(directory)))
        before = len(list(directory.glob("up-*")))
        name = cluster.add_worker().name  # a nanny that comes later has it too
        later = len(list(directory.glob("up-*")))
        client.unregister_nanny_plugin("marks") if hasattr(client, "unregister_nanny_plugin") \
            else client.unregister_worker_plugin("marks", nanny=True)
        down = len(list(directory.glob("down-*")))
        process = cluster.workers.pop(name)
        process.stop()
        until(lambda: len(workers_of(client)) == 2, "the third to leave")
        return before, later, down

    assert same_under_nannies(prog) == (2, 3, 3)
