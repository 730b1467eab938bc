"""P2P shuffles and rechunks on rask workers, and on rask and stock workers in one shuffle."""

from __future__ import annotations

import dask
import numpy as np
import pandas as pd
import pytest
from conftest import SCHEDULER, make_cluster
from deviations import LATER
from programs import until

pytestmark = pytest.mark.skipif(
    SCHEDULER == "rask" and "test_windows_and_quantiles" in LATER,
    reason="the scheduler's side of P2P shuffles")


def frame(rows: int = 20_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"key": rng.integers(0, 500, rows), "x": rng.random(rows),
                         "text": rng.choice(["a", "bb", "ccc"], rows)})


def shuffle(client) -> tuple:
    import dask.dataframe as dd

    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        shuffled = dd.from_pandas(frame(), npartitions=8).shuffle("key", npartitions=6)
        parts = client.gather(client.compute(shuffled.to_delayed()))
    keys = [set(part["key"]) for part in parts]
    apart = all(not a & b for i, a in enumerate(keys) for b in keys[i + 1:])
    # dask.dataframe makes other strings of ours, so rows are compared as plain values.
    same_rows = sorted(pd.concat(parts).values.tolist()) == sorted(frame().values.tolist())
    return apart, same_rows, sum(map(len, parts))


def rechunk(client) -> bool:
    import dask.array as da

    values = np.arange(600 * 400).reshape(600, 400)
    with dask.config.set({"array.rechunk.method": "p2p"}):
        array = da.from_array(values, chunks=(60, 400)).rechunk((600, 40))
        return bool((array.compute() == values).all())


def test_a_shuffle_keeps_every_row_once(same):
    assert same(shuffle) == (True, True, 20_000)


def test_a_rechunk_gives_the_same_array(same):
    assert same(rechunk) is True


def test_rask_and_stock_workers_share_a_shuffle(fresh):
    cluster = fresh(SCHEDULER, "rask", n_workers=2)
    # Stock workers join the same scheduler.
    guests = make_cluster(SCHEDULER, "stock", n_workers=2)
    guests.address = cluster.address
    try:
        for i in range(2):
            guests.add_worker(options=("--name", f"guest-{i}"))
        with cluster.connected() as client:
            client.wait_for_workers(4)
            assert shuffle(client) == (True, True, 20_000)
            assert rechunk(client)
            holders = client.run(lambda dask_worker: type(dask_worker).__module__)
            assert set(holders.values()) == {"rask.worker.facade", "distributed.worker"}
    finally:
        guests.close()


@pytest.mark.fault("W6")
def test_a_shuffle_survives_a_killed_worker(fresh):
    import dask.dataframe as dd

    cluster = fresh(n_workers=3)
    with cluster.connected() as client, dask.config.set({"dataframe.shuffle.method": "p2p"}):
        rows = dd.from_pandas(frame(60_000), npartitions=24).shuffle("key", npartitions=12)
        total = client.compute(rows.x.sum())
        victim = next(iter(cluster.workers.values()))
        def moving():
            return any("shuffle" in str(key) for keys in client.processing().values()
                       for key in keys)

        until(lambda: moving() or total.done(), "the shuffle to start")
        victim.kill()
        assert np.isclose(total.result(timeout=200), frame(60_000).x.sum())
