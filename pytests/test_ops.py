"""Questions to the scheduler by the name of their operation, each answered as stock answers it.

What a client asks through its own calls is in test_introspection.py; what workers and nannies say is
in test_worker_ops.py. What is not supported is in test_refusals.py.
"""

from __future__ import annotations

import logging
import tempfile
import uuid

import pytest
from conftest import SCHEDULER
from programs import Gate, arrived, ask, double, inc, throws, until, workers_of


@pytest.mark.op("echo")
def test_echo_gives_back_what_it_gets(same):
    things = [1, 2.5, "text", b"bytes", None, {"deep": [True, {"a": ()}]}, 2**63, -(2**63)]
    assert same(lambda client: [ask(client, "echo", data=thing) for thing in things])[2] == "text"


# ---- tasks ------------------------------------------------------------------------------------


@pytest.mark.op("get_task_status", "get_task_prefix_states")
def test_states_of_tasks_and_prefixes(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            done = client.submit(inc, 1, key="stated-done")
            bad = client.submit(throws, "no", key="stated-bad")
            running = client.submit(gate, 1, key="stated-gate")
            waiting = client.submit(inc, running, key="stated-wait")
            done.result(), bad.exception(), gate.wait_started()
            arrived(client, [waiting])
            keys = [f.key for f in (done, bad, running, waiting)] + ["stated-unknown", ("t", 1)]
            found = ask(client, "get_task_status", keys=keys)
            prefixes = {name: counts for name, counts in ask(client, "get_task_prefix_states").items()
                        if name.startswith("stated")}
            gate.open()
            return found, prefixes, waiting.result()

    found = same(prog)
    assert list(found[0].values()) == ["memory", "erred", "processing", "waiting", None, None]


def changes(client, key):
    """Stock also tells of the tasks whose change led to one of this key; see deviations.py."""
    return [tuple(line[:3]) for line in ask(client, "get_story", keys_or_stimuli=[key])
            if line[0] == key]


@pytest.mark.op("get_story")
def test_a_story_tells_every_change_of_state(same):
    def prog(client):
        done = client.submit(inc, 1, key="told-done", pure=False)
        after = client.submit(double, done, key="told-after")
        bad = client.submit(throws, "no", key="told-bad")
        after.result(), bad.exception()
        found = [changes(client, key) for key in ("told-done", "told-after", "told-bad")]
        line = ask(client, "get_story", keys_or_stimuli=["told-done"])[-1]
        kind = line[4].rpartition("-")[0]
        return found, len(line), kind, type(line[5]), \
            ask(client, "get_story", keys_or_stimuli=["told-nothing"])

    told = same(prog)[0]
    assert told[0] == [("told-done", "released", "waiting"), ("told-done", "waiting", "processing"),
                       ("told-done", "processing", "memory")]


@pytest.mark.op("get_story")
def test_a_story_tells_what_each_change_led_to(same):
    def prog(client):
        client.submit(inc, 1, key="led-to").result()
        return [line[3] for line in ask(client, "get_story", keys_or_stimuli=["led-to"])]

    same(prog)


@pytest.mark.op("get_runspec")
@pytest.mark.api("Client.recreate_task_locally")
def test_a_task_can_be_run_again_here(same):
    def prog(client):
        a = client.submit(inc, 20)
        b = client.submit(lambda x, y=1: x * y, a, y=2)
        b.result()
        return client.recreate_task_locally(b)

    assert same(prog) == 42


@pytest.mark.op("get_runspec", "get_error_cause")
@pytest.mark.api("Client.recreate_error_locally")
def test_an_error_can_be_had_again_here(same):
    def prog(client):
        zero = client.submit(inc, -1)
        bad = client.submit(lambda x: 1 / x, zero)
        after = client.submit(inc, bad)
        with pytest.raises(ZeroDivisionError):
            after.result()
        client.recreate_error_locally(after)

    with pytest.raises(ZeroDivisionError):
        same(prog)


@pytest.mark.op("set_restrictions")
def test_restrictions_set_later_hold(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            first = client.submit(gate, 1, key="restrict-gate")
            gate.wait_started()
            futures = [client.submit(inc, first, key=f"restricted-{i}", pure=False) for i in range(6)]
            arrived(client, futures)
            target = sorted(workers_of(client))[1]
            ask(client, "set_restrictions",
                worker={f.key: target if i % 2 else [target] for i, f in enumerate(futures)})
            gate.open()
            client.gather(futures)
            return {tuple(w) == (target,) for w in client.who_has(futures).values()}

    assert same(prog) == {True}


@pytest.mark.op("check_idle")
def test_a_busy_scheduler_is_not_idle(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            future = client.submit(gate, 1)
            gate.wait_started()
            busy = ask(client, "check_idle")
            gate.open()
            future.result()
            return busy

    assert same(prog) is None


@pytest.mark.api("span")
def test_tasks_may_belong_to_spans(same):
    def prog(client):
        from distributed import span

        with span("outer"), span("inner"):
            futures = client.map(inc, range(10), pure=False)
        return client.gather(futures)

    assert same(prog) == list(range(1, 11))


# ---- data -------------------------------------------------------------------------------------


@pytest.mark.op("update_data")
@pytest.mark.api("Client.scatter")
def test_data_scattered_past_the_scheduler_is_known_to_it(same):
    def prog(client):
        one, many = client.scatter(41, direct=True), client.scatter([1, 2, 3], direct=True)
        return client.submit(inc, one).result(), client.gather(many), one.status

    assert same(prog) == (42, [1, 2, 3], "finished")


@pytest.mark.op("update_data")
def test_data_scattered_by_a_task_is_known_to_the_scheduler(same):
    def prog(client):
        def work():
            from distributed import worker_client

            with worker_client() as inner:
                held = inner.scatter([10, 20])
                return inner.submit(sum, held).result(), [len(w) for w in inner.who_has(held).values()]

        return client.submit(work, pure=False).result()

    assert same(prog) == (30, [1, 1])


@pytest.mark.op("update-data")
def test_data_may_be_told_of_by_the_stream(same):
    def prog(client):
        from distributed import Future

        (held,) = client.scatter([7])
        ((holder,),) = client.who_has([held]).values()
        client._send_to_scheduler({"op": "update-data", "who_has": {held.key: [holder]},
                                   "nbytes": {held.key: 1234}, "client": client.id})
        until(lambda: client.nbytes([held.key], summary=False)[held.key] == 1234, "the size")
        return Future(held.key, client).result(timeout=120)

    assert same(prog) == 7


@pytest.mark.op("add_keys")
def test_a_worker_may_have_keys_added(same):
    def prog(client):
        future = client.submit(inc, 1, key="added")
        future.result()
        ((holder,),) = client.who_has([future]).values()
        answers = (ask(client, "add_keys", worker=holder, keys=["added", "never heard of"]),
                   ask(client, "add_keys", worker=holder), ask(client, "add_keys", worker="tcp://1.2.3.4:5"))
        return answers, client.gather(future), [len(w) for w in client.who_has([future]).values()]

    assert same(prog) == (("OK", "OK", "not found"), 2, [1])


# ---- logs and events --------------------------------------------------------------------------


@pytest.mark.op("get_logs", "logs")
@pytest.mark.api("Client.get_scheduler_logs")
def test_the_log_of_the_scheduler_can_be_read(same):
    def prog(client):
        lines = client.get_scheduler_logs()
        last = client.get_scheduler_logs(n=1)
        text = "\n".join(line for _, line in lines)
        return {level for level, _ in lines} <= {"INFO", "WARNING", "ERROR", "CRITICAL"}, \
            "Receive client connection" in text, len(last), \
            [type(line).__name__ for line in last], len(ask(client, "logs", n=2))

    assert same(prog)[:3] == (True, True, 1)


@pytest.mark.op("worker_logs")
@pytest.mark.api("Client.get_worker_logs")
def test_the_logs_of_workers_can_be_read(same):
    def note():
        logging.getLogger("distributed.worker").warning("a line of the test's own")

    def prog(client):
        client.run(note)
        address = sorted(workers_of(client))[0]
        one = client.get_worker_logs(workers=[address])
        everywhere = client.get_worker_logs()
        ours = [[tuple(line) for line in lines if "the test's own" in line[1]][-1][0]
                for lines in everywhere.values()]
        return list(one) == [address], ours, [len(v) for v in client.get_worker_logs(n=1).values()]

    assert same(prog) == (True, ["WARNING", "WARNING"], [1, 1])


@pytest.mark.op("log_event", "events", "log-event")
@pytest.mark.api("Client.log_event", "Client.get_events")
def test_events_of_clients_and_tasks_are_kept_by_topic(same):
    def prog(client, cluster):
        first, second, never = (f"topic-{name}-{uuid.uuid4()}" for name in "abc")

        def work():
            from distributed import get_worker

            get_worker().log_event([first, second], {"from": "a task"})

        client.log_event(first, {"from": "the client", "n": 1})
        client.log_event([first, second], "text")
        client.submit(work, pure=False).result()
        until(lambda: len(client.get_events(second)) == 2, "the events")
        assert client.get_events(second)[0][0] <= client.get_events(second)[1][0]
        found = [[event for _, event in client.get_events(topic)] for topic in (first, second, never)]
        assert {found[0][-1].pop("worker"), found[1][-1].pop("worker")} <= set(workers_of(client))
        return found, [type(time).__name__ for time, _ in client.get_events(second)]

    found = same(prog)[0]
    assert found == [[{"from": "the client", "n": 1}, "text", {"from": "a task"}], ["text", {"from": "a task"}], []]


@pytest.mark.skipif(SCHEDULER != "rask", reason="stock ends the connection if any event of any program before "
                                                "cannot be packed")
def test_events_of_all_topics(rask_client):
    topic = f"topic-{uuid.uuid4()}"
    rask_client.log_event(topic, "text")
    until(lambda: [event for _, event in rask_client.get_events().get(topic, [])] == ["text"], "the event")


@pytest.mark.op("subscribe-topic", "unsubscribe-topic", "log_event")
@pytest.mark.api("Client.subscribe_topic", "Client.unsubscribe_topic")
def test_subscribers_are_told_of_events(same):
    def prog(client, cluster):
        seen, others = [], []
        news, other_news = (f"{name}-{uuid.uuid4()}" for name in ("news", "other"))
        client.subscribe_topic(news, lambda event: seen.append(event[1]))
        with cluster.client() as other:
            other.subscribe_topic(other_news, lambda event: others.append(event[1]))
            # A task that is submitted behind a subscription runs after it.
            client.submit(inc, 1, pure=False).result(), other.submit(inc, 1, pure=False).result()
            other.log_event(news, {"n": 1})
            until(lambda: len(seen) == 1, "the first event")
            client.log_event(other_news, {"n": 2})
            until(lambda: len(others) == 1, "the other event")
        client.unsubscribe_topic(news)
        client.submit(inc, 1, pure=False).result()
        client.log_event(news, {"n": 3})
        until(lambda: len(client.get_events(news)) == 2, "the last event")
        return seen, others

    assert same(prog) == ([{"n": 1}], [{"n": 2}])


@pytest.mark.api("Client.forward_logging", "Client.unforward_logging")
def test_logging_of_workers_can_be_forwarded(same, caplog):
    def note(text):
        logging.getLogger("forwarded").error(text)

    def prog(client):
        caplog.clear()
        client.forward_logging("forwarded", level=logging.WARNING)
        client.submit(inc, 1, pure=False).result()  # the subscription has arrived
        client.submit(note, "here", pure=False).result()
        until(lambda: any(r.name == "forwarded" for r in caplog.records), "the record")
        client.unforward_logging("forwarded")
        client.submit(note, "not here", pure=False).result()
        return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "forwarded"]

    assert same(prog) == [("ERROR", "here")]


@pytest.mark.op("call_stack")
@pytest.mark.api("Client.call_stack")
def test_call_stacks_show_running_tasks(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            future = client.submit(gate, 1, key="stacked")
            after = client.submit(inc, future, key="stacked-after")
            gate.wait_started()
            arrived(client, [after])
            by_future = client.call_stack([after])  # names what the key waits for
            by_key = client.call_stack(keys=["stacked"])
            everywhere = client.call_stack()
            gate.open()
            after.result()
            finished = client.call_stack(keys=["stacked-after"])
            shown = [[list(stacks) for stacks in answer.values()]
                     for answer in (by_future, by_key, everywhere, finished)]
            (stacks,) = by_key.values()
            return shown, any("__call__" in line for line in stacks["stacked"])

    assert same(prog) == ([[["stacked"]], [["stacked"]], [["stacked"]], []], True)


# ---- workers, seen from outside -----------------------------------------------------------------


@pytest.mark.op("proxy")
def test_a_message_is_passed_on_to_a_worker(same):
    def prog(client):
        future = client.submit(inc, 1, key="proxied")
        future.result()
        ((holder,),) = client.who_has([future]).values()
        return "proxied" in ask(client, "proxy", msg={"op": "keys"}, worker=holder), \
            ask(client, "proxy", msg={"op": "ping"}, worker=holder)

    assert same(prog) == (True, b"pong")


@pytest.mark.op("adaptive_target")
def test_how_many_workers_are_wanted(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            idle = ask(client, "adaptive_target")
            gate = Gate(directory)
            futures = [client.submit(gate, i, pure=False) for i in range(10)]
            gate.wait_started()
            arrived(client, futures)
            wanted = [ask(client, "adaptive_target", target_duration=t) for t in ("1 day", 0.001)]
            gate.open()
            client.gather(futures)
            return idle, wanted

    assert same(prog) == (0, [2, 10])


@pytest.mark.op("workers_to_close")
def test_which_workers_may_be_closed(same):
    def prog(client, cluster):
        held = client.submit(inc, 1, key="weighs", pure=False)
        held.result()
        ((holder,),) = client.who_has([held]).values()
        one = ask(client, "workers_to_close", n=1)
        names = ask(client, "workers_to_close", n=2, attribute="name")
        return [w == holder for w in one], set(names) == set(cluster.workers), \
            len(ask(client, "workers_to_close", target=2)), \
            len(ask(client, "workers_to_close", n=2, minimum=1))

    assert same(prog)[0] == [False]
