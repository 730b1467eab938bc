"""What a stock client's own calls do: submit, map, gather, scatter, futures, cancel, retry.

Every program runs on stock Dask and on the pairing under test and must come out the same.
Collections are in test_collections.py, annotations and actors in test_annotations.py.
"""

from __future__ import annotations

import operator
import tempfile

import pytest
from programs import Gate, dec, div, double, inc, keywords, throws, total, until

# ---- submit and map ---------------------------------------------------------------------------


@pytest.mark.api("Client.submit")
def test_submit_takes_keywords_and_a_key(same):
    def prog(client):
        future = client.submit(keywords, 1, 2, x=3, key="my-key")
        return future.key, future.result()

    assert same(prog) == ("my-key", ((1, 2), {"x": 3}))


@pytest.mark.api("Client.submit")
def test_submit_of_the_same_pure_call_gives_the_same_key(same):
    def prog(client):
        a, b = client.submit(inc, 1), client.submit(inc, 1)
        c, d = client.submit(inc, 1, pure=False), client.submit(inc, 1, pure=False)
        return a.key == b.key, c.key == d.key, client.gather([a, b, c, d])

    assert same(prog) == (True, False, [2, 2, 2, 2])


@pytest.mark.api("Client.submit")
def test_a_builtin_a_method_and_a_partial_can_be_submitted(same):
    def prog(client):
        from functools import partial

        calls = [client.submit(len, [1, 2]), client.submit("a-b".split, "-"),
                 client.submit(partial(div, 8), 2), client.submit(operator.mul, 6, 7)]
        return client.gather(calls)

    assert same(prog) == [2, ["a", "b"], 4.0, 42]


@pytest.mark.api("Client.map")
def test_map_takes_several_iterables_and_keywords(same):
    def prog(client):
        futures = client.map(keywords, [1, 2, 3], [4, 5, 6], y=7)
        return client.gather(futures)

    assert same(prog)[2] == ((3, 6), {"y": 7})


@pytest.mark.api("Client.map")
def test_map_in_batches_gives_the_same_values(same):
    def prog(client):
        return client.gather(client.map(inc, range(57), batch_size=10))

    assert same(prog) == list(range(1, 58))


@pytest.mark.api("Client.map")
def test_map_takes_keys_of_its_own(same):
    def prog(client):
        futures = client.map(inc, [1, 2], key=["one", ("two", 0)])
        return [future.key for future in futures], client.gather(futures)

    assert same(prog) == (["one", ("two", 0)], [2, 3])


@pytest.mark.smoke
@pytest.mark.api("Client.map")
def test_map_over_futures_chains(same):
    def prog(client):
        first = client.map(inc, range(20))
        second = client.map(double, first)
        return client.submit(total, second).result()

    assert same(prog) == 2 * sum(range(1, 21))


@pytest.mark.api("Client.map")
def test_map_over_nothing_gives_nothing(same):
    assert same(lambda client: client.gather(client.map(inc, []))) == []


def test_a_big_closure_shared_by_many_tasks(same):
    def prog(client):
        table = list(range(10_000))
        return sum(client.gather(client.map(lambda i: table[i], range(300))))

    assert same(prog) == sum(range(300))


@pytest.mark.smoke
def test_big_arguments_and_results_travel_whole(same):
    def prog(client):
        import numpy as np

        x = np.arange(2_000_000)
        y = client.submit(inc, x)
        return y.result().sum(), client.submit(len, b"x" * 10_000_000).result()

    assert same(prog) == (2_000_001_000_000, 10_000_000)


# ---- futures ----------------------------------------------------------------------------------


@pytest.mark.api("Future.type", "Future.exception")
@pytest.mark.api("Future.result", "Future.status", "Future.done")
def test_a_future_knows_its_status_and_type(same):
    def prog(client):
        ok, bad = client.submit(inc, 1), client.submit(throws, "no")
        ok.result(), bad.exception()
        return ok.status, ok.done(), ok.type, bad.status, bad.done(), repr(bad.exception())

    assert same(prog) == ("finished", True, int, "error", True, "RuntimeError('no')")


@pytest.mark.api("Client.submit")
def test_futures_are_found_in_nested_arguments(same):
    def prog(client):
        x, y = client.submit(inc, 1), client.submit(inc, 2)
        return client.submit(keywords, [x, {"y": [y, (x,)]}], z={"deep": [y]}).result()

    assert same(prog) == (([2, {"y": [3, (2,)]}],), {"z": {"deep": [3]}})


def test_a_chain_of_five_hundred(same):
    def prog(client):
        future = client.submit(inc, 0)
        for _ in range(499):
            future = client.submit(inc, future)
        return future.result()

    assert same(prog) == 500


@pytest.mark.api("Future.add_done_callback")
def test_callbacks_run_when_a_future_is_done(same):
    def prog(client):
        seen = []
        future = client.submit(inc, 1)
        future.add_done_callback(lambda f: seen.append(f.result()))
        until(lambda: seen, "the callback")
        return seen

    assert same(prog) == [2]


@pytest.mark.smoke
@pytest.mark.api("as_completed", "wait")
def test_as_completed_and_wait(same):
    def prog(client):
        from distributed import as_completed, wait

        futures = client.map(inc, range(20))
        values = sorted(future.result() for future in as_completed(futures))
        done, not_done = wait(client.map(dec, range(5)))
        pairs = sorted(result for _, result in as_completed(futures, with_results=True))
        return values, len(done), len(not_done), pairs

    assert same(prog)[0] == list(range(1, 21))


@pytest.mark.api("Future.release")
@pytest.mark.op("client-releases-keys")
def test_a_released_key_leaves_the_cluster(same):
    def prog(client):
        future = client.submit(inc, 1, key="leaves")
        future.result()
        held = "leaves" in str(client.who_has())
        future.release()
        until(lambda: "leaves" not in str(client.who_has()), "the key to leave")
        return held

    assert same(prog) is True


@pytest.mark.api("Client.gather")
def test_gather_keeps_the_shape_of_what_it_is_given(same):
    def prog(client):
        x, y = client.submit(inc, 1), client.submit(inc, 2)
        return client.gather({"a": x, "b": [y, (x, 7)]}), client.gather(x)

    assert same(prog) == ({"a": 2, "b": [3, (2, 7)]}, 2)


@pytest.mark.smoke
@pytest.mark.api("Client.gather")
def test_gather_skips_or_raises_errors_as_asked(same):
    def prog(client):
        futures = [client.submit(inc, 1), client.submit(throws, "bad"), client.submit(inc, 2)]
        skipped = client.gather(futures, errors="skip")
        with pytest.raises(RuntimeError, match="bad"):
            client.gather(futures)
        return skipped

    assert same(prog) == [2, 3]


# ---- errors -----------------------------------------------------------------------------------


def test_an_error_travels_down_a_chain(same):
    def prog(client):
        bad = client.submit(div, 1, 0)
        last = client.submit(inc, client.submit(double, bad))
        return last.result()

    with pytest.raises(ZeroDivisionError):
        same(prog)


def test_an_exception_class_of_the_users_own(same):
    def prog(client):
        class Strange(ValueError):
            def __init__(self, code):
                super().__init__(f"code {code}")
                self.code = code

            def __reduce__(self):
                return Strange, (self.code,)

        def fail():
            raise Strange(7)

        error = client.submit(fail).exception()
        return type(error).__name__, type(error).__mro__[1], error.code, str(error)

    assert same(prog) == ("Strange", ValueError, 7, "code 7")


def test_an_exception_that_cannot_be_pickled_still_arrives(same):
    def prog(client):
        class Unpicklable(Exception):
            def __reduce__(self):
                raise TypeError("not me")

        def fail():
            raise Unpicklable("inside")

        error = client.submit(fail).exception()
        return type(error).__name__, "inside" in str(error)

    same(prog)


def test_an_exception_whose_text_cannot_be_had_still_arrives(same):
    def prog(client):
        class Silent(Exception):
            def __str__(self):
                raise RuntimeError("no text")

        def fail():
            raise Silent

        async def fail_later():
            raise Silent

        errors = [client.submit(f).exception(timeout=60) for f in (fail, fail_later)]
        return list(map(repr, errors)), client.submit(inc, 1, pure=False).result(timeout=60)

    assert same(prog) == (["RuntimeError('no text')"] * 2, 2)


@pytest.mark.smoke
@pytest.mark.api("Client.retry", "Future.retry")
@pytest.mark.op("retry")
def test_a_failed_task_can_be_retried(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            def flaky(path, gate):
                import os
                if not os.path.exists(path):
                    raise OSError("not yet")
                return gate("now")

            path = f"{directory}/flag"
            # A client takes what it hears of a key before the answer to its retry for old news.
            one, two = Gate(directory, "one"), Gate(directory, "two")
            future = client.submit(flaky, path, one)
            after = client.submit(lambda text, gate: gate(len(text)), future, two)
            first = repr(future.exception()), repr(after.exception())
            open(path, "w").close()
            future.retry()
            one.open()
            second = future.result()
            after.retry()
            two.open()
            return first, second, after.result()

    assert same(prog)[1:] == ("now", 3)


@pytest.mark.api("Client.submit")
def test_retries_are_used_up_before_an_error_shows(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            def flaky(path, good_from):
                with open(path, "a") as file:
                    file.write("x")
                if len(open(path).read()) < good_from:
                    raise ValueError("again")
                return len(open(path).read())

            good = client.submit(flaky, f"{directory}/a", 3, retries=5)
            bad = client.submit(flaky, f"{directory}/b", 5, retries=2)
            return good.result(), repr(bad.exception()), len(open(f"{directory}/b").read())

    assert same(prog) == (3, "ValueError('again')", 3)


# ---- cancel and loss ---------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.api("Future.cancelled")
@pytest.mark.api("Client.cancel", "Future.cancel")
@pytest.mark.op("cancel-keys")
def test_a_cancelled_future_says_so(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            running = client.submit(gate, 1, key="gate")
            after = client.submit(inc, running, key="after")
            gate.wait_started()
            running.cancel()
            until(running.cancelled, "the cancellation")
            until(after.cancelled, "its dependent")
            gate.open()
            return running.status, after.status, after.result()

    from distributed import CancelledError
    with pytest.raises(CancelledError):
        same(prog)


def test_work_submitted_on_a_cancelled_future_fails(same):
    def prog(client):
        x = client.submit(inc, 1, key="gone-x")
        x.result()
        client.cancel([x])
        until(x.cancelled, "the cancellation")
        return client.submit(inc, x, key="on-gone-x").result()

    from distributed import CancelledError
    with pytest.raises(CancelledError):
        same(prog)


def test_a_cancelled_key_can_be_submitted_again(same):
    def prog(client, cluster):
        x = client.submit(inc, 1, key="again")
        x.result()
        x.cancel()
        until(lambda: "again" not in str(client.who_has()), "the key to leave")
        with cluster.client() as other:  # the first may still hear of its cancellation
            return other.submit(inc, 41, key="again").result()

    assert same(prog) == 42


def test_two_graphs_that_use_one_key(same):
    def prog(client):
        first = client.submit(inc, 1, key="shared")
        first.result()
        second = client.submit(inc, 100, key="shared")
        return first.result(), second.result()

    assert same(prog) == (2, 2)


@pytest.mark.smoke
@pytest.mark.api("fire_and_forget")
def test_fire_and_forget_runs_without_a_future(same):
    def prog(client):
        from distributed import fire_and_forget

        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)

            def touch(path):
                gate()
                open(path, "w").close()

            from pathlib import Path
            path = Path(directory) / "done"
            fire_and_forget(client.submit(touch, str(path)))
            # What comes behind it on the stream is done: the scheduler has heard of it before the task
            # is over. Else stock keeps the result for ever.
            client.submit(inc, 1, pure=False).result()
            gate.open()
            until(path.exists, "the task")
        return True

    assert same(prog)


# ---- scatter -----------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.api("Client.scatter")
@pytest.mark.op("scatter")
def test_scatter_keeps_the_shape_of_what_it_is_given(same):
    def prog(client):
        as_list = client.scatter([1, 2, 3])
        as_dict = client.scatter({"a": 1, "b": [2]})
        single = client.scatter("text")
        return (client.gather(as_list), client.gather(as_dict), single.result(),
                client.submit(total, as_list).result(), sorted(as_dict))

    assert same(prog) == ([1, 2, 3], {"a": 1, "b": [2]}, "text", 6, ["a", "b"])


@pytest.mark.api("Client.scatter")
def test_scatter_to_every_worker(same):
    def prog(client):
        import numpy as np

        future = client.scatter(np.arange(100_000), broadcast=True)
        holders = client.who_has([future])[future.key]
        return len(holders), client.submit(operator.itemgetter(99_999), future).result()

    assert same(prog)[0] == 2


@pytest.mark.api("Client.scatter")
def test_scatter_straight_to_workers_and_by_the_scheduler(same):
    def prog(client):
        return [client.submit(inc, client.scatter(40 + i, direct=direct, hash=False)).result()
                for i, direct in enumerate([True, False])]

    assert same(prog) == [41, 42]


@pytest.mark.api("Client.gather")
def test_gather_straight_from_workers_and_by_the_scheduler(same):
    def prog(client):
        futures = client.map(inc, range(10))
        return client.gather(futures, direct=True) == client.gather(futures, direct=False)

    assert same(prog) is True
