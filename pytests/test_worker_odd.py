"""Odd things that tasks raise, return and do: each must come out as it does on stock Dask."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback

import dask
import numpy as np
import pytest
from conftest import WORKER
from distributed import Lock, Semaphore, WorkerPlugin, as_completed, get_client, get_worker, secede, span, wait, \
    worker_client
from programs import inc, until, workers_of

rask_workers = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


def told(function):
    """What a call gives, or the type and the text of what it raises."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[:1]


# ---- errors --------------------------------------------------------------------------------------


class MuteError(Exception):
    def __str__(self):
        raise ValueError("no str")


class ShyError(Exception):
    def __repr__(self):
        raise ValueError("no repr")


class StuckError(Exception):
    def __reduce__(self):
        raise TypeError("no reduce")


class TwoArgumentsError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, first, second):
        super().__init__("of two")


class ShyArgument:
    def __repr__(self):
        raise ValueError("no repr of an argument")


def _noted() -> Exception:
    error = ValueError("noted")
    error.add_note("a note")
    return error


ERRORS = {
    "mute": lambda: MuteError(), "shy": lambda: ShyError("x"), "stuck": lambda: StuckError("x"),
    "two arguments": lambda: TwoArgumentsError(1, 2), "noted": _noted,
    "long": lambda: ValueError("x" * 5_000_000), "an array": lambda: ValueError(np.ones(1_000_000)),
    "group": lambda: ExceptionGroup("several", [ValueError("a"), TypeError("b")]),
    "stop iteration": lambda: StopIteration(3), "cancelled": lambda: asyncio.CancelledError("c"),
    "surrogate": lambda: ValueError("\ud800"), "of the system": lambda: OSError(2, "nope", "file"),
}


def fail(name: str) -> None:
    raise ERRORS[name]()


async def fail_later(name: str) -> None:
    raise ERRORS[name]()


def seen(future) -> tuple:
    error = future.exception(timeout=120)
    frames = [frame.name for frame in traceback.extract_tb(future.traceback(timeout=120))]
    return type(error).__name__, str(error)[:200], len(str(error)), getattr(error, "__notes__", None), frames[:1]


@pytest.mark.parametrize("function", [fail, fail_later])
def test_errors_of_every_kind_arrive(same, function):
    """What cannot even be described is an error of its task, and its thread goes on."""
    def prog(client):
        # Stock's client waits for ever for a coroutine that raises CancelledError.
        names = [name for name in ERRORS if function is fail or name != "cancelled"]
        futures = {name: client.submit(function, name, pure=False) for name in names}
        found = {name: seen(future) for name, future in futures.items()}
        for name in ("mute", "shy"):  # those begin in Dask's own frames
            found[name] = found[name][:4]
        return found, client.gather(client.map(inc, range(4), pure=False))

    found, after = same(prog)
    assert found["mute"][:2] == ("ValueError", "no str") and found["noted"][3] == ["a note"]
    assert after == [1, 2, 3, 4]


def test_an_argument_without_repr_hides_no_error_for_ever(same):
    def prog(client):
        error = client.submit(lambda argument: 1 / 0, ShyArgument(), pure=False).exception(timeout=120)
        return type(error).__name__, client.submit(inc, 1, pure=False).result()

    same(prog)


# ---- results -------------------------------------------------------------------------------------


class Sized:
    """Says of its size what it is told to say."""

    def __init__(self, size):
        self.size = size

    def __dask_sizeof__(self):
        return self.size

    __sizeof__ = __dask_sizeof__


def _deep(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def _recursive() -> list:
    value: list = []
    value.append(value)
    return value


RESULTS = {
    "lambda": lambda: lambda x: x, "module": lambda: os, "class": lambda: type("Made", (), {}),
    "recursive": _recursive, "deep": lambda: _deep(200), "big int": lambda: 10**4000, "empty": lambda: "",
    "surrogate": lambda: "\ud800", "memoryview": lambda: memoryview(b"abc"), "error": lambda: ValueError("kept"),
    "masked": lambda: np.ma.masked_array([1, 2], [0, 1]), "texts": lambda: np.array(["a", "bb"]),
    "delayed": lambda: dask.delayed(inc)(1), "future": lambda: get_client().submit(inc, 1, key="inside"),
    "not implemented": lambda: NotImplemented, "bytes of a kind": lambda: type("Kind", (bytes,), {})(b"x"),
}


def make(name: str):
    return RESULTS[name]()


def kind(value, place) -> str:
    return type(value).__name__


def test_results_of_odd_kinds_travel(same):
    def prog(client):
        here, there = sorted(workers_of(client))
        found = {}
        for name in RESULTS:
            made = client.submit(make, name, workers=[here], pure=False)
            moved = [client.submit(kind, made, place, workers=[place], pure=False) for place in (here, there)]
            found[name] = told(lambda made=made: type(made.result(timeout=120)).__name__), \
                [told(lambda m=m: m.result(timeout=120)) for m in moved]
        return found

    same(prog)


def test_results_that_cannot_travel_can_be_used_where_they_are(same):
    makers = [threading.Lock, lambda: (i for i in range(3)), lambda: {"inside": [threading.Lock()]},
              lambda: _deep(5000)]

    def prog(client):
        here = sorted(workers_of(client))[0]
        found = []
        for maker in makers:
            made = client.submit(maker, workers=[here], pure=False)
            used = client.submit(kind, made, 0, workers=[here], pure=False)
            found.append((used.result(timeout=120), made.status, told(lambda m=made: m.result(timeout=120))[0]))
        return found

    assert [used for used, _, _ in same(prog)] == ["lock", "generator", "dict", "list"]


@rask_workers
def test_whatever_a_result_says_of_its_size_its_task_is_done(rask_client):
    def register(dask_worker=None):
        from dask.sizeof import sizeof  # by name: all that is registered here need not be there

        sizeof.register(Sized, lambda value: value.size)

    rask_client.run(register)
    for size in (-5, 1.5, np.float64(7.5), 2**80):
        future = rask_client.submit(Sized, size, pure=False)
        wait(future, timeout=120)
        assert future.status == "finished"
    assert rask_client.gather(rask_client.map(inc, range(4), pure=False)) == [1, 2, 3, 4]


@rask_workers
def test_a_pickle_that_exits_is_an_error_for_its_reader(rask_client):
    class Leaving:
        def __reduce__(self):
            raise SystemExit(4)

    future = rask_client.submit(Leaving, pure=False)
    with pytest.raises(TypeError, match="Could not serialize object of type Leaving"):
        future.result(timeout=120)
    assert rask_client.submit(inc, 1, pure=False).result() == 2


@rask_workers  # with stock workers the client waits for ever, or the worker ends
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("c")], ids=repr)
def test_a_coroutine_that_exits_is_an_error_of_its_task(rask_client, error):
    async def leave():
        raise error

    found = rask_client.submit(leave, pure=False).exception(timeout=120)
    assert type(found) is type(error) and rask_client.submit(inc, 1, pure=False).result() == 2


def test_a_workers_tasks_and_values_can_be_sent(same):
    def prog(client):
        here = sorted(workers_of(client))[0]
        client.submit(inc, 1, key="kept", workers=[here]).result()
        tasks = client.run(lambda dask_worker: dask_worker.state.tasks, workers=[here])[here]
        return type(tasks).__name__, list(tasks), tasks["kept"].state

    assert same(prog) == ("dict", ["kept"], "memory")


KEYS = [("tuple", 1, "x"), ("nested", (1, 2)), "ключ", "a\nb", "a\x00b", "k" * 100_000]


def test_keys_of_every_kind(same):
    def prog(client):
        futures = [client.submit(inc, i, key=key) for i, key in enumerate(KEYS)]
        on = [client.submit(inc, future, pure=False) for future in futures]
        return client.gather(futures), client.gather(on), [f.key for f in futures] == KEYS

    assert same(prog)[2]


# ---- what tasks do -------------------------------------------------------------------------------


def test_clients_in_tasks_nest(same):
    def nested(n):
        with worker_client() as outer, worker_client() as inner:
            return outer is inner, sorted(f.result() for f in as_completed(inner.map(inc, range(n))))

    def fib(n):
        if n < 2:
            return n
        futures = get_client().map(fib, [n - 1, n - 2])
        secede()
        return sum(get_client().gather(futures))

    def collections():
        import dask.array as da

        return int(da.ones(10, chunks=5).sum().compute()), dask.delayed(inc)(1).compute(), \
            dask.config.get("scheduler", None)

    def prog(client):
        return client.submit(nested, 5).result(timeout=120), client.submit(fib, 7).result(timeout=120), \
            client.submit(collections, pure=False).result(timeout=120)

    assert same(prog)[1] == 13


def test_locks_and_scattered_data_in_tasks(same):
    def locked(i):
        with Lock("odd-lock"), Semaphore(2, name="odd-semaphore"):
            return i

    def scatter():
        client = get_client()
        spread = client.scatter([1, 2, 3], direct=True)
        return client.submit(sum, spread).result(), client.gather(spread, direct=True)

    def prog(client):
        return client.gather(client.map(locked, range(6), pure=False)), \
            client.submit(scatter, pure=False).result(timeout=120)

    assert same(prog) == ([0, 1, 2, 3, 4, 5], (6, [1, 2, 3]))


def test_workers_and_clients_are_found_in_threads_of_a_task_as_on_stock(same):
    def ask():
        found = []

        def inside():
            found.append(told(lambda: type(get_worker()).__bases__[-1].__name__ != ""))

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        return found

    def prog(client):
        return client.submit(ask, pure=False).result(timeout=120), told(get_worker)

    same(prog)


def test_spans_are_passed_on_to_tasks_of_every_kind(same):
    def named():
        return dask.get_annotations()["span"]["name"]

    async def named_later():
        return dask.get_annotations()["span"]["name"]

    def prog(client):
        with span("of mine"):
            futures = [client.submit(function, pure=False) for function in (named, named_later)]
            with dask.annotate(executor="offload"):
                futures.append(client.submit(named, pure=False))
        return [told(lambda f=f: f.result(timeout=120)) for f in futures]

    same(prog)


class Counter:
    count = 0

    def __init__(self, start=0):
        self.count = start

    def inc(self):
        self.count += 1
        return self.count

    def fail(self):
        raise ValueError("of an actor")

    def ask(self, other):
        return other.inc().result()

    def submit(self, x):
        return get_client().submit(inc, x).result()


def test_actors_are_passed_around(same):
    def use(counter):
        return counter.inc().result()

    def prog(client):
        here, there = sorted(workers_of(client))
        options = {"actor": True, "pure": False}
        future = client.submit(Counter, 5, workers=[here], **options)
        counter = future.result(timeout=120)
        other = client.submit(Counter, 10, workers=[there], **options).result(timeout=120)
        by_tasks = [client.submit(use, actor, workers=[place], pure=False).result(timeout=120)
                    for actor in (future, counter) for place in (here, there)]
        broken = client.submit(Counter, 1, 2, 3, **options)
        return (by_tasks, told(lambda: counter.fail().result(timeout=120)), counter.count,
                told(lambda: counter.nothing), other.ask(counter).result(timeout=120),
                counter.submit(4).result(timeout=120), type(broken.exception(timeout=120)).__name__)

    assert same(prog)[0] == [6, 7, 8, 9]


# ---- plugins, and how it ends --------------------------------------------------------------------


class Later(WorkerPlugin):
    name = "later"

    async def setup(self, worker):
        await asyncio.sleep(0)
        worker.later = "up"

    async def teardown(self, worker):
        await asyncio.sleep(0)
        worker.later = "down"


def test_plugins_may_be_asynchronous_and_be_replaced(same):
    def state(dask_worker):
        return dask_worker.later

    def prog(client):
        found = []
        for _ in range(2):
            client.register_plugin(Later())
            found.append(sorted(client.run(state).values()))
        client.unregister_worker_plugin("later")
        found.append(sorted(client.run(state).values()))
        return found, told(lambda: client.unregister_worker_plugin("nobody"))

    assert same(prog)[0] == [["up"] * 2, ["up"] * 2, ["down"] * 2]


def test_a_worker_told_to_leave_gracefully_hands_its_data_on(same):
    async def leave(dask_worker):
        dask_worker._leaving = asyncio.ensure_future(dask_worker.close_gracefully())

    def prog(client, cluster):
        here, there = sorted(workers_of(client))
        kept = client.submit(inc, 1, workers=[here], allow_other_workers=True, pure=False)
        kept.result()
        client.run(leave, workers=[here])
        until(lambda: here not in workers_of(client), "the worker to leave")
        found = client.who_has([kept])[kept.key] == (there,), kept.result(timeout=120)
        cluster.repair()
        return found

    assert same(prog) == (True, 2)
