"""Dask's collections on the cluster: delayed, bag, array, DataFrame, xarray, joblib.

Each program builds its collection from fixed data and gives back the computed value.
"""

from __future__ import annotations

import dask
import pytest
from programs import add, double, inc


def frame():
    """A pandas frame with a bit of everything, always the same."""
    import numpy as np
    import pandas as pd

    n = 600
    rng = np.random.default_rng(7)
    return pd.DataFrame({
        "id": np.arange(n) % 50, "x": rng.normal(size=n), "y": rng.integers(0, 1000, n),
        "name": rng.choice(["ann", "bob", "cy", "dee"], n),
        "when": pd.date_range("2020-01-01", periods=n, freq="h"),
    })


def sorted_rows(df):
    return df.sort_values(list(df.columns)).reset_index(drop=True)


# ---- delayed, compute, persist, get ------------------------------------------------------------


@pytest.mark.api("dask.delayed")
def test_delayed_with_containers_and_attributes(same):
    def prog(client):
        parts = [dask.delayed(inc)(i) for i in range(5)]
        whole = dask.delayed(sum)(parts) + dask.delayed({"a": parts[0]})["a"]
        text = dask.delayed("a,b").split(",")
        pair = dask.delayed(divmod, nout=2)(17, 5)
        return dask.compute(whole, text, *pair)

    assert same(prog) == (16, ["a", "b"], 3, 2)


@pytest.mark.api("dask.compute", "Client.compute")
def test_compute_of_many_collections_at_once(same):
    def prog(client):
        import dask.array as da
        import dask.bag as db

        x, b = da.ones(100, chunks=10), db.range(20, npartitions=4)
        now = dask.compute(x.sum(), b.sum(), {"k": [x.mean()]})
        futures = client.compute([x.sum(), b.max()])
        return now, client.gather(futures), client.compute(x.sum(), sync=True)

    assert same(prog)[1] == [100.0, 19]


@pytest.mark.api("dask.persist", "Client.persist")
def test_persist_keeps_values_and_later_work_uses_them(same):
    def prog(client):
        import dask.array as da
        from distributed import futures_of, wait

        x = client.persist(da.arange(100, chunks=10) + 1)
        wait(x)
        (y,) = dask.persist(x * 2)
        return len(futures_of(x)), (x + y).sum().compute()

    assert same(prog) == (10, 3 * 5050)


@pytest.mark.api("Client.get")
def test_get_takes_a_plain_graph_with_legacy_tuples(same):
    def prog(client):
        graph = {"a": 1, "b": (inc, "a"), "c": (add, "a", "b"), ("d", 0): (sum, ["a", "b", "c"]),
                 "e": (double, (inc, ("d", 0)))}
        return client.get(graph, ["e", ["b", ("d", 0)]]), client.get(graph, "c")

    assert same(prog) == ([14, [2, 6]], 3)


@pytest.mark.api("Client.get")
def test_get_leaves_a_graph_alone_if_told_to(same):
    def prog(client):
        graph = {"x": (inc, 1), "y": (inc, "x"), "alias": "y"}
        return client.get(graph, ["alias", "x"], optimize_graph=False)

    assert same(prog) == [3, 2]


@pytest.mark.api("Client.compute")
def test_compute_without_optimisation(same):
    def prog(client):
        import dask.array as da

        x = (da.ones(20, chunks=5) + 1).sum()
        return client.compute(x, optimize_graph=False).result()

    assert same(prog) == 40.0


def test_a_wide_merge(same):
    def prog(client):
        return dask.delayed(sum)([dask.delayed(inc)(i) for i in range(500)]).compute()

    assert same(prog) == sum(range(1, 501))


# ---- bag ---------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.api("dask.bag")
def test_bags_map_filter_fold_and_group(same):
    def prog(client):
        import dask.bag as db

        bag = db.from_sequence(range(100), npartitions=7)
        folded = bag.map(inc).filter(lambda x: x % 2 == 0).fold(add)
        groups = bag.groupby(lambda x: x % 3).map(lambda kv: (kv[0], sum(kv[1])))
        return folded.compute(), sorted(groups.compute()), bag.frequencies().count().compute()

    assert same(prog)[0] == 2550


@pytest.mark.api("dask.bag")
def test_a_bag_becomes_a_frame(same):
    def prog(client):
        import dask.bag as db

        rows = db.from_sequence([{"a": i, "b": str(i)} for i in range(20)], npartitions=3)
        return rows.to_dataframe().compute().reset_index(drop=True)

    assert len(same(prog)) == 20


# ---- array -------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.api("dask.array")
def test_array_algebra(same):
    def prog(client):
        import dask.array as da
        import numpy as np

        x = da.from_array(np.arange(400.0).reshape(20, 20), chunks=7)
        return (x @ x.T).compute(), x.std(axis=0).compute(), da.linalg.norm(x).compute(), \
            x[::3, x.sum(axis=0).compute() > 100].compute()

    same(prog)


@pytest.mark.api("dask.array")
def test_overlapping_blocks_and_reductions(same):
    def prog(client):
        import dask.array as da

        x = da.arange(1000, chunks=100).astype(float)
        return x.map_overlap(lambda b: (b[:-2] + b[2:]) if len(b) > 2 else b, depth=1,
                             trim=False, boundary="none", dtype=float).sum().compute(), \
            da.cumsum(x).compute()[-1], da.histogram(x, bins=5, range=(0, 1000))[0].compute()

    same(prog)


@pytest.mark.api("dask.array")
def test_tall_skinny_qr(same):
    def prog(client):
        import dask.array as da
        import numpy as np

        x = da.from_array(np.random.default_rng(1).normal(size=(400, 5)), chunks=(100, 5))
        q, r = da.linalg.qr(x)
        return bool(np.allclose((q @ r).compute(), x.compute())), r.compute().shape

    assert same(prog) == (True, (5, 5))


@pytest.mark.api("dask.array")
@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_rechunk_columns_to_rows(same, method):
    def prog(client):
        import dask.array as da

        x = da.arange(60 * 60, chunks=600).reshape(60, 60).rechunk((60, 5), method="tasks")
        y = x.rechunk((5, 60), method=method, block_size_limit=60 * 5 * 8)
        return y.compute(), y.chunks

    same(prog)


# ---- DataFrame ---------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.api("dask.dataframe")
def test_groupby_with_several_aggregates(same):
    def prog(client):
        import dask.dataframe as dd

        df = dd.from_pandas(frame(), npartitions=6)
        return df.groupby("name").agg({"y": ["min", "max", "sum"], "id": "count"}).compute() \
            .sort_index()

    assert list(same(prog).index) == ["ann", "bob", "cy", "dee"]


@pytest.mark.api("dask.dataframe")
@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_merge_by_a_column(same, method):
    def prog(client):
        import dask.dataframe as dd

        left = dd.from_pandas(frame()[["id", "y"]], npartitions=5)
        right = dd.from_pandas(frame()[["id", "name"]].drop_duplicates("id"), npartitions=3)
        return sorted_rows(left.merge(right, on="id", shuffle_method=method,
                                      broadcast=False).compute())

    assert len(same(prog)) == 600


@pytest.mark.smoke
@pytest.mark.api("dask.dataframe")
@pytest.mark.parametrize("method", ["tasks", "p2p"])
def test_shuffle_keeps_every_row(same, method):
    def prog(client):
        import dask.dataframe as dd

        df = dd.from_pandas(frame(), npartitions=6)
        out = df.shuffle("id", shuffle_method=method)
        spread = out.map_partitions(lambda part: part.id.drop_duplicates()).compute()
        return sorted_rows(out.compute()), spread.is_unique

    assert same(prog)[1]


@pytest.mark.api("dask.dataframe")
def test_set_index_sorts(same):
    def prog(client):
        import dask.dataframe as dd

        df = dd.from_pandas(frame(), npartitions=4)
        out = df.set_index("y").compute()
        return out.index.is_monotonic_increasing, len(out), int(out.id.sum())

    assert same(prog)[:2] == (True, 600)


@pytest.mark.api("dask.dataframe")
def test_windows_and_quantiles(same):
    def prog(client):
        import dask.dataframe as dd

        df = dd.from_pandas(frame().set_index("when"), npartitions=4)
        return df.x.rolling("5h").mean().compute(), df.y.value_counts().compute().sort_index(), \
            df.describe().compute()

    same(prog)


@pytest.mark.api("dask.dataframe")
def test_parquet_out_and_in(same, tmp_path):
    def prog(client):
        import dask.dataframe as dd

        path = str(tmp_path / client.id)
        dd.from_pandas(frame(), npartitions=3).to_parquet(path)
        return sorted_rows(dd.read_parquet(path).compute())

    assert len(same(prog)) == 600


# ---- xarray, zarr, joblib ----------------------------------------------------------------------


def test_xarray_groupby_anomaly(same):
    def prog(client):
        import numpy as np
        import pandas as pd
        import xarray as xr

        times = pd.date_range("2021-01-01", periods=120, freq="D")
        data = np.random.default_rng(3).normal(size=(120, 4, 5))
        array = xr.DataArray(data, dims=("time", "lat", "lon"), coords={"time": times}, name="t")
        array = array.chunk({"time": 20})
        climate = array.groupby("time.month").mean()
        return (array.groupby("time.month") - climate).mean(("lat", "lon")).compute()

    assert same(prog).sizes["time"] == 120


def test_zarr_out_and_in(same, tmp_path):
    def prog(client):
        import dask.array as da

        path = str(tmp_path / client.id)
        da.arange(1000, chunks=100).to_zarr(path)
        return (da.from_zarr(path) * 2).sum().compute()

    assert same(prog) == 999_000


def test_scikit_learn_through_joblib(same):
    def prog(client):
        import joblib
        from sklearn.datasets import make_classification
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV

        x, y = make_classification(n_samples=200, n_features=6, random_state=0)
        search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0, 10.0]}, cv=3)
        with joblib.parallel_config(backend="dask"):
            search.fit(x, y)
        return search.best_params_, round(search.best_score_, 6)

    same(prog)


def test_futures_inside_a_collection(same):
    def prog(client):
        import dask.dataframe as dd

        parts = client.map(lambda i: frame()[i * 100:(i + 1) * 100], range(6))
        df = dd.from_delayed([dask.delayed(part) for part in parts], meta=frame().head(0))
        return int(df.y.sum().compute())

    same(prog)
