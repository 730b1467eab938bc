"""Values a client's API lets through and nobody can use: they err where stock's do, and nothing else ends.

The connection must stay the same one: all other futures of the client hang on it.
"""

from __future__ import annotations

from datetime import timedelta

import dask
import pytest
from conftest import SCHEDULER, make_cluster
from distributed import Future
from programs import Gate, inc, keywords, until

ours = pytest.mark.skipif(SCHEDULER != "rask", reason="stock takes them, and waits or fails for ever")


@pytest.fixture(scope="module")
def pair():
    with make_cluster("stock", "stock") as stock, make_cluster() as ours:
        yield stock, ours


@pytest.fixture
def same(pair):
    """As conftest's, but does not wait for clusters at rest: stock keeps tasks of a graph that erred half-way."""
    def compare(prog):
        values = []
        for cluster in pair:
            with cluster.connected() as client:
                values.append(prog(client))
        assert values[1] == values[0]
        return values[1]

    return compare


def outcome(client, call):
    """What a call gives or raises, and whether the client is as well off as before."""
    comm = client.scheduler_comm.comm
    before = client.submit(inc, 5, pure=False)
    try:
        found = call(client)
    except Exception as error:
        found = type(error).__name__, str(error)
    after = client.submit(inc, 1, pure=False).result(timeout=120)
    return found, after, before.result(timeout=120), client.scheduler_comm.comm is comm


SPANS = ["bad", None, [], {}, (1,), True, float("nan"), float("inf"), -1, "-5", "", " ", "inf", b"1s", "1.5.2s", "é",
         timedelta(seconds=1), "1 S", "5 Minutes", "1e2 ms"]


@pytest.mark.api("Client.submit")
@pytest.mark.parametrize("span", SPANS, ids=ascii)
def test_a_fifo_timeout_that_is_no_span_of_time(same, span):
    def prog(client):
        return outcome(client, lambda c: c.submit(inc, 1, pure=False, fifo_timeout=span).result(timeout=120))

    assert same(prog)[1:] == (2, 6, True)


@pytest.mark.api("Client.map", "Client.compute", "Client.get")
@pytest.mark.parametrize("call", [
    lambda c: c.gather(c.map(inc, range(3), pure=False, fifo_timeout="bad")),
    lambda c: c.compute(dask.delayed(inc)(1), fifo_timeout="bad").result(timeout=120),
    lambda c: c.get({"x": (inc, 1)}, "x", fifo_timeout="bad"),
    lambda c: c.gather(c.map(inc, range(3), pure=False, fifo_timeout=timedelta(seconds=2))),
], ids=["map", "compute", "get", "a good one"])
def test_a_bad_fifo_timeout_of_other_calls(same, call):
    assert same(lambda client: outcome(client, call))[1:] == (2, 6, True)


@pytest.mark.parametrize("actor", [5, "nobody", b"x", 1.5, ["x"]], ids=ascii)
def test_an_actor_that_is_no_task(same, actor):
    def prog(client):
        return outcome(client, lambda c: c.submit(inc, 1, pure=False, actor=actor).result(timeout=120))

    assert same(prog)[0][0] == "KeyError"


@ours
@pytest.mark.parametrize("actor", [[None], {"a": 1}, object()], ids=["None", "dict", "object"])
def test_an_actor_that_cannot_be_a_key(rask_client, actor):
    call = lambda c: c.submit(inc, 1, pure=False, actor=actor).result(timeout=120)  # noqa: E731
    found = outcome(rask_client, call)
    assert found[0][0] == "TypeError" and found[1:] == (2, 6, True)


@pytest.mark.api("Client.submit")
@pytest.mark.parametrize("workers", [5, 1.5, [5], ("a", 5), ["a", 5], [None], b"x", {"a": 1}, [["a"]]],
                         ids=ascii)
def test_workers_that_can_be_no_address(same, workers):
    def prog(client):
        return outcome(client, lambda c: c.submit(inc, 1, pure=False, workers=workers).result(timeout=120))

    assert same(prog)[0][0] == "TypeError"


@pytest.mark.api("Client.map")
def test_workers_that_can_be_no_address_in_a_map(same):
    def prog(client):
        return outcome(client, lambda c: c.gather(c.map(inc, range(5000), pure=False, workers=[7])))

    assert same(prog)[0][0] == "TypeError"


@ours
@pytest.mark.parametrize("values", [{"priority": float("nan")}, {"retries": 1 << 80}, {"priority": 1 << 80},
                                    {"resources": {"A": float("nan")}}], ids=str)
def test_numbers_that_stock_never_recovers_from(rask_cluster, rask_client, values):
    processes = rask_cluster.graph_processes()
    found = outcome(rask_client, lambda c: c.submit(inc, 1, pure=False, **values).result(timeout=120))
    assert found[1:] == (2, 6, True)
    assert found[0] == 2 or found[0][0] == "ValueError"
    assert set(processes) <= set(rask_cluster.graph_processes())


@pytest.mark.api("Client.cancel")
@pytest.mark.op("cancel-keys")
@pytest.mark.parametrize("values", [
    {"force": "yes"}, {"force": 5}, {"force": []}, {"reason": 5}, {"reason": b"x"}, {"reason": []}, {"reason": True},
    {"msg": 2.5}, {"msg": ("a", 1)}, {"reason": "why", "msg": "text"}, {"reason": 0}], ids=str)
def test_cancel_with_odd_reasons(same, values):
    def call(client):
        future = client.submit(inc, 1, key="to-cancel", pure=False)
        future.result(timeout=120)
        client.cancel([future], **values)
        return future.result(timeout=120)

    found = same(lambda client: outcome(client, call))
    assert found[0][0] == "FutureCancelledError" and found[1:] == (2, 6, True)


@pytest.mark.op("subscribe-topic", "log_event", "events")
@pytest.mark.parametrize("topic", [5, None, (1, 2), b"x"], ids=ascii)
def test_topics_that_are_no_texts(same, topic):
    def call(client):
        client.subscribe_topic(topic, print)
        client.unsubscribe_topic(topic)
        return None if topic is None else client.get_events(topic)

    assert same(lambda client: outcome(client, call))[1:] == (2, 6, True)


@pytest.mark.parametrize("key", [None, ("a", None), frozenset("a")], ids=ascii)
def test_futures_of_what_can_be_no_key(same, key):
    assert same(lambda client: outcome(client, lambda c: Future(key, c).status))[0] == "pending"


@pytest.mark.parametrize("size", [1 << 20, 10_000_000])
def test_a_key_of_megabytes(same, size):
    def call(client):
        x = client.submit(inc, 1, key="x" * size)
        y = client.submit(inc, x, key=("y" * size, 1))
        value = y.result(timeout=120)
        return value, {len(key): len(who) for key, who in client.who_has([x]).items()}

    assert same(lambda client: outcome(client, call))[0] == (3, {size: 1})


def is_one(held, other=None):
    return held[0] is other or held[-1] is other


@pytest.mark.api("Client.submit", "Client.map")
def test_one_object_inside_an_argument_and_as_a_keyword(same):
    def prog(client):
        one = ["an object"]
        deep = client.submit(keywords, [1, {"k": [one]}], b=one, pure=False).result()
        graph = dask.delayed(is_one)
        return client.submit(is_one, [one], other=one, pure=False).result(), \
            client.gather(client.map(is_one, [[one], [[2]]], other=one, pure=False)), \
            client.gather(client.map(is_one, [[one], [[2]], [one, 3]], [one] * 3, pure=False)), \
            client.compute(graph([5, one], other=one)).result(), deep

    assert same(prog)[:3] == (True, [True, False], [True, False, True])


@ours
@pytest.mark.timeout(300)
def test_a_second_graph_process_when_the_first_is_busy(fresh, tmp_path):
    """A client's graphs stay in order at one process; another's go to a second one meanwhile."""
    cluster = fresh()
    slow = Gate(tmp_path)
    with cluster.client() as first, cluster.client() as second:
        assert first.submit(inc, 0, pure=False).result(timeout=120) == 1
        (old,) = cluster.graph_processes()
        held = first.submit(inc, OpensSlowly(slow), pure=False)
        assert slow.wait_started() == old
        behind = first.submit(inc, 10, pure=False)
        assert second.submit(inc, 1, pure=False).result(timeout=120) == 2
        until(lambda: len(cluster.graph_processes()) == 2, "a second graph process")
        assert second.submit(inc, 2, pure=False).result(timeout=120) == 3
        assert (held.status, behind.status) == ("pending", "pending")
        assert old in cluster.graph_processes()
        slow.open()
        assert first.gather([held, behind]) == [42, 11]
        assert slow.started() == [old]


class OpensSlowly:
    """An argument that unpickles to 41, where it is unpickled first, once a gate is open."""

    def __init__(self, gate):
        self.gate = gate

    def __reduce__(self):
        return self.gate, (41,)
