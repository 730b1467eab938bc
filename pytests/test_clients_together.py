"""Several clients, clients inside tasks, and futures that pass between them."""

from __future__ import annotations

import pytest
from programs import add, double, inc, until


@pytest.mark.api("Client")
def test_two_clients_share_a_key_and_release_it_apart(same):
    def prog(client, cluster):
        with cluster.client() as other:
            mine = client.submit(inc, 1, key="ours")
            theirs = other.submit(inc, 1, key="ours")
            values = mine.result(), theirs.result()
            mine.release()
            return values, other.submit(double, theirs).result()

    assert same(prog) == ((2, 2), 4)


@pytest.mark.api("Future")
@pytest.mark.op("client-desires-keys", "report-key")
def test_a_future_by_key_finds_the_task_of_another_client(same):
    def prog(client, cluster):
        from distributed import Future

        with cluster.client() as other:
            mine = client.submit(inc, 1, key="by-key")
            mine.result()
            theirs = Future("by-key", other)
            other._inform_scheduler_of_futures()
            return theirs.result(timeout=120)

    assert same(prog) == 2


def test_a_future_of_one_client_is_an_argument_of_another(same):
    def prog(client, cluster):
        with cluster.client() as other:
            x = client.submit(inc, 1)
            x.result()
            return other.submit(add, x, 40).result()

    same(prog)


@pytest.mark.smoke
@pytest.mark.api("worker_client", "get_client")
def test_a_task_submits_tasks(same):
    def prog(client):
        def fibonacci(n):
            from distributed import worker_client

            if n < 2:
                return n
            with worker_client() as inner:
                a, b = inner.submit(fibonacci, n - 1), inner.submit(fibonacci, n - 2)
                return sum(inner.gather([a, b]))

        return client.submit(fibonacci, 4).result()

    assert same(prog) == 3


@pytest.mark.smoke
@pytest.mark.api("secede", "rejoin")
def test_a_task_secedes_and_rejoins(same):
    def prog(client):
        def outer(x):
            from distributed import get_client, rejoin, secede

            inner = get_client()
            futures = inner.map(lambda y: y + 1, range(x))
            secede()
            values = inner.gather(futures)
            rejoin()
            return sum(values)

        return client.submit(outer, 10).result()

    assert same(prog) == 55


def test_futures_hidden_in_a_closure_fail_as_in_stock(same):
    def prog(client):
        futures = client.map(inc, range(3))

        def wait_inside():
            from distributed import secede

            secede()
            return [future.result() for future in futures]

        return client.submit(wait_inside).result()

    with pytest.raises(RuntimeError, match="not properly initialized"):
        same(prog)


@pytest.mark.api("Client.close")
def test_what_a_closed_client_wanted_is_released(same):
    def prog(client, cluster):
        other = cluster.client()
        future = other.submit(inc, 1, key="left-behind")
        future.result()
        held = "left-behind" in str(client.who_has())
        other.close()
        until(lambda: "left-behind" not in str(client.who_has()), "the key to leave")
        return held

    assert same(prog) is True


@pytest.mark.api("Client")
def test_a_client_may_be_asynchronous(same):
    def prog(client, cluster):
        import asyncio

        from distributed import Client

        async def main():
            async with Client(cluster.address, asynchronous=True, set_as_default=False) as inner:
                futures = inner.map(inc, range(10))
                one = await inner.submit(double, 21)
                return one, await inner.gather(futures)

        return asyncio.run(main())

    assert same(prog) == (42, list(range(1, 11)))


@pytest.mark.api("Client.get_executor")
def test_the_executor_interface(same):
    def prog(client):
        with client.get_executor() as executor:
            return executor.submit(inc, 1).result(), list(executor.map(inc, [1, 2, 3]))

    assert same(prog) == (2, [2, 3, 4])
