"""What a client can submit, beyond test_client_api.py and test_collections.py: odd graphs, futures in
odd places, annotations on whole collections, work inside work.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dask
import pytest
from dask._task_spec import Task
from programs import Gate, add, double, inc, total, until, workers_of
from test_collections import frame, sorted_rows


def name_of_worker(*_):
    from distributed import get_worker

    return get_worker().name


def fails_once(path: str, x):
    """Raises at its first run."""
    first = not Path(path).exists()
    Path(path).touch()
    if first:
        raise ValueError("not yet")
    return x


# ---- graphs ------------------------------------------------------------------------------------


@pytest.mark.api("Client.get")
def test_get_without_waiting_gives_futures(same):
    def prog(client):
        graph = {"g-a": (inc, 1), ("g-b", 0): (add, "g-a", 10)}
        futures = client.get(graph, [("g-b", 0), ["g-a"]], sync=False)
        return [type(futures[0]).__name__, futures[0].key, client.gather(futures)]

    assert same(prog) == ["Future", ("g-b", 0), [12, [2]]]


def test_get_sync_agrees_with_the_cluster(same):
    def prog(client):
        from dask.local import get_sync

        graph = {"s": 1, "t": (inc, "s"), "u": (total, ["s", "t", (double, "t")]), "v": "u"}
        keys = ["v", ["s", "u"]]
        return get_sync(graph, keys), client.get(graph, keys), \
            dask.delayed(inc)(1).compute(scheduler="sync")

    assert same(prog) == ((7, (1, 7)), [7, [1, 7]], 2)


def test_keys_may_be_strings_numbers_and_nested_tuples(same):
    def prog(client):
        graph = {"k": 1, ("k", 0, "x"): (inc, "k"), ("k", ("n", 1)): (add, "k", ("k", 0, "x")),
                 7: (double, ("k", ("n", 1))), 2.5: (inc, 7)}
        return client.get(graph, [2.5, 7, ("k", ("n", 1)), "k"], optimize_graph=False)

    assert same(prog) == [7, 6, 3, 1]


def test_a_key_of_bytes_is_refused(same):
    def prog(client):
        return client.get({b"k": (inc, 1)}, b"k", optimize_graph=False)

    with pytest.raises(TypeError, match="Unexpected key type"):
        same(prog)


def test_a_graph_of_nested_lists_dicts_and_data(same):
    def prog(client):
        graph = {"d": {"one": 1}, "l": [1, [2, {"three": 3}]], "e": (inc, 0),
                 "f": (len, ["e", ["e", "l"]]), "g": (dict, [["a", "e"], ["b", "f"]])}
        return client.get(graph, ["d", "l", "f", "g"])

    assert same(prog) == [{"one": 1}, [1, [2, {"three": 3}]], 2, {"a": 1, "b": 2}]


def test_graph_manipulation_on_the_cluster(same):
    def prog(client):
        import dask.array as da
        from dask.graph_manipulation import checkpoint, clone, wait_on

        x = da.arange(20, chunks=5)
        return checkpoint(x + 1).compute(), clone(x).compute(), wait_on(x).compute()

    assert same(prog)[1].sum() == 190


def test_a_blockwise_graph_that_is_not_optimised(same):
    def prog(client):
        import dask.array as da

        x = da.ones((12, 12), chunks=4)
        y = ((x + x.T) * 2).sum(axis=0)
        return dask.compute(y, optimize_graph=False)[0], client.persist(y, optimize_graph=False).compute()

    same(prog)


@pytest.mark.parametrize("size", [2, 1000])
def test_one_object_in_two_places_of_a_call_is_one_object(same, size):
    def prog(client):
        def one(a, b):
            return a is b

        class Self:
            def __eq__(self, other):
                return self is other

        it, values = Self(), list(range(size))
        calls = {f"one-{i}": Task(f"one-{i}", one, values, values) for i in range(3)}
        return client.submit(one, values, b=values).result(), \
            client.submit(it.__eq__, it).result(), client.gather(client.map(it.__eq__, [it, 1])), \
            client.gather(client.map(one, [values] * 3, [values] * 3)), \
            client.gather(client.map(one, [values] * 3, b=values)), \
            client.gather(client.map(one, [values, []], [values, values])), \
            client.get(calls, list(calls), optimize_graph=False)

    assert same(prog) == (True, True, [True, False], [True] * 3, [True] * 3, [True, False], [True] * 3)


def test_functions_of_one_call_share_their_globals(same):
    def prog(client):
        names = {"__name__": "only_here"}
        exec("calls = []\ndef add(x): calls.append(x)\ndef use(f, x, g=None): f(x), g and g(x); return len(calls)",
             names)
        add, use = names["add"], names["use"]
        return client.submit(use, add, 1).result(), client.gather(client.map(use, [add] * 3, range(3))), \
            client.submit(use, add, 1, g=add).result(), \
            client.gather(client.map(use, [add] * 3, range(3), g=add)), \
            client.submit(use, len, "x", g=add).result(), client.gather(client.map(use, [len], ["x"], g=add))

    assert same(prog) == (1, [1, 1, 1], 2, [2, 2, 2], 1, [1])


# ---- futures in odd places -----------------------------------------------------------------------


@pytest.mark.api("Client.map")
def test_a_map_finds_futures_in_containers_and_keywords(same):
    def prog(client):
        a, b = client.map(inc, [1, 10])
        lists = client.map(total, [[a, b], [b, 5]])
        batched = client.map(lambda x, y: x + y["k"][0], [1, 2, 3], y={"k": [b]}, batch_size=2)
        return client.gather([lists, batched])

    assert same(prog) == [[13, 16], [12, 13, 14]]


def test_a_future_travels_inside_a_delayed_graph(same):
    def prog(client):
        future = client.submit(inc, 1)
        tree = dask.delayed(total)([future, {"k": future}["k"], dask.delayed(double)(future)])
        return tree.compute(), client.compute(dask.delayed(add)(future, y=future)).result()

    assert same(prog) == (8, 4)


def test_a_task_hands_its_own_futures_on(same):
    def prog(client):
        def outer(x):
            from distributed import worker_client

            with worker_client() as inner:
                first = inner.submit(inc, x, pure=False)
                return inner.submit(lambda values: sum(values), [first, 100]).result()

        return client.gather(client.map(outer, range(3), pure=False))

    assert same(prog) == [101, 102, 103]


def test_a_task_computes_a_collection(same):
    def prog(client):
        def outer():
            import dask.array as da
            from distributed import worker_client

            with worker_client():
                return float(da.arange(100, chunks=10).sum().compute())

        return client.submit(outer).result()

    assert same(prog) == 4950.0


def test_a_failed_key_runs_again_once_it_was_let_go(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/ran"
            first = client.submit(fails_once, path, 7, key="again")
            after = client.submit(inc, first, key="again-2")
            found = type(after.exception()).__name__
            first.release(), after.release()
            until(lambda: not {"again", "again-2"} & set(client.futures), "the release")
            again = client.submit(fails_once, path, 7, key="again")
            return found, client.submit(inc, again, key="again-2").result()

    assert same(prog) == ("ValueError", 8)


@pytest.mark.api("Client.retry")
def test_a_retry_runs_what_failed_and_all_that_hung_on_it(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)

            def once_then_wait(path):
                return gate(fails_once(path, 1))

            root = client.submit(once_then_wait, f"{directory}/ran")
            leaves = client.map(add, [root] * 3, [1, 2, 3])
            end = client.submit(total, leaves)
            failed = type(end.exception()).__name__
            end.retry()
            # A client takes what it hears of a key before the answer to its retry for old news.
            gate.open()
            return failed, end.result(), client.gather(leaves)

    assert same(prog) == ("ValueError", 9, [2, 3, 4])


# ---- annotations on collections ------------------------------------------------------------------


@pytest.mark.api("dask.annotate")
def test_workers_retries_and_priority_of_a_layer(same):
    def prog(client):
        import dask.array as da

        first, second = sorted(w["name"] for w in workers_of(client).values())
        with tempfile.TemporaryDirectory() as directory:
            with dask.annotate(workers=[first], priority=3):
                x = da.ones(8, chunks=2).map_blocks(lambda b: b, dtype=float)
            with dask.annotate(workers=[second], allow_other_workers=True, retries=1):
                y = x.map_blocks(lambda b: b + fails_once(f"{directory}/{b.sum()}", 1),
                                 dtype=float)
            return y.sum().compute(optimize_graph=False)

    assert same(prog) == 16.0


@pytest.mark.api("Client.compute", "Client.persist")
def test_compute_and_persist_take_restrictions(same):
    def prog(client):
        first, second = sorted(w["name"] for w in workers_of(client).values())
        names = [dask.delayed(name_of_worker)(i) for i in range(4)]
        computed = client.compute(names, workers=[first], priority=2, retries=1,
                                  optimize_graph=False)
        kept = client.persist(names, workers=[second], optimize_graph=False)
        return set(client.gather(computed)) == {first}, \
            {client.compute(k).result() for k in kept} <= {first, second}

    assert same(prog) == (True, True)


@pytest.mark.api("dask.annotate")
def test_resources_of_a_collection(same):
    def prog(client, cluster):
        worker = cluster.add_worker(options=("--resources", "GPU=1"))
        try:
            with dask.annotate(resources={"GPU": 1}):
                names = [dask.delayed(name_of_worker)(i) for i in range(3)]
            return set(dask.compute(*names, optimize_graph=False)) == {worker.name}
        finally:
            cluster.workers.pop(worker.name).stop()

    assert same(prog)


@pytest.mark.api("dask.annotate")
def test_the_executor_of_a_collection(same):
    def prog(client):
        import threading

        with dask.annotate(executor="offload"):
            name = dask.delayed(lambda: threading.current_thread().name)()
        (found,) = dask.compute(name, optimize_graph=False)
        return found.split("_")[0]

    assert "Offload" in same(prog)


# ---- frames and labelled arrays ------------------------------------------------------------------


@pytest.mark.api("dask.dataframe")
@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_set_index_and_a_join_on_it(same, method):
    def prog(client):
        import dask.dataframe as dd

        df = dd.from_pandas(frame()[["id", "y"]], npartitions=4)
        left = df.set_index("id", shuffle_method=method)
        right = dd.from_pandas(frame().groupby("id")[["x"]].mean(), npartitions=2)
        joined = left.join(right).compute()
        return sorted_rows(joined.reset_index()), left.known_divisions

    assert len(same(prog)[0]) == 600


@pytest.mark.api("dask.dataframe")
@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_groups_that_need_a_shuffle(same, method):
    def prog(client):
        import dask.dataframe as dd

        with dask.config.set({"dataframe.shuffle.method": method}):
            df = dd.from_pandas(frame(), npartitions=5)
            ranges = df.groupby("name").y.apply(lambda part: part.max() - part.min(),
                                                meta=("y", "int64"))
            medians = df.groupby("id").x.median()
            wide = df.groupby("id").agg({"y": "sum"}, split_out=3)
            return ranges.compute().sort_index(), medians.compute().sort_index(), \
                wide.compute().sort_index()

    assert len(same(prog)[2]) == 50


@pytest.mark.api("dask.dataframe")
def test_a_merge_of_two_shuffles_is_grouped(same):
    def prog(client):
        import dask.dataframe as dd

        left = dd.from_pandas(frame()[["id", "y"]], npartitions=4)
        right = dd.from_pandas(frame()[["id", "name"]], npartitions=3)
        merged = left.merge(right, on="id", broadcast=False)
        return merged.groupby("name").y.sum().compute().sort_index()

    assert len(same(prog)) == 4


def test_xarray_differences_windows_and_chunks(same):
    def prog(client):
        import numpy as np
        import xarray as xr

        u = xr.DataArray(np.random.default_rng(5).normal(size=(24, 12, 10)),
                         dims=("time", "y", "x")).chunk({"time": 6, "y": 4})
        vorticity = u.diff("x").isel(y=slice(1, None)) - u.diff("y").isel(x=slice(1, None))
        smooth = vorticity.rolling(time=3).mean().chunk({"time": -1, "y": 3})
        doubled = xr.apply_ufunc(np.multiply, smooth, 2, dask="parallelized",
                                 output_dtypes=[float])
        return doubled.std("time").compute(), float(doubled.max())

    same(prog)
