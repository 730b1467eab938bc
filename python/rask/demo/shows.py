"""What the demo shows: small programs that take a client (and its cluster) and give a value.

Each runs once on rask and once on stock Dask. The two that kill workers catch their task in the
act by a file it writes, so nothing here depends on timing.
"""

from __future__ import annotations

import operator
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Show:
    name: str
    run: Callable[..., Any]
    equal: Callable[[Any, Any], bool] = operator.eq
    repeatable: bool = True


def inc(x: int) -> int:
    return x + 1


def submit(client: Any, _cluster: Any) -> int:
    return client.submit(inc, 41).result()


def map_thousand(client: Any, _cluster: Any) -> int:
    return sum(client.gather(client.map(inc, range(1000))))


def lambda_from_main(client: Any, _cluster: Any) -> int:
    main: dict[str, Any] = {"__name__": "__main__"}
    exec("triple = lambda x: x * 3", main)
    return client.submit(main["triple"], 14).result()


def delayed_tree(_client: Any, _cluster: Any) -> int:
    from dask import delayed

    level = [delayed(inc)(i) for i in range(128)]
    while len(level) > 1:
        level = [delayed(operator.add)(a, b) for a, b in zip(level[::2], level[1::2])]
    return level[0].compute()


def array(_client: Any, _cluster: Any) -> float:
    import dask.array as da

    x = da.arange(1_000_000, chunks=50_000).reshape(1000, 1000).rechunk((250, 250))
    return (x + x.T).sum().compute()


def groupby(_client: Any, _cluster: Any) -> dict[str, int]:
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame({"name": ["ann", "bob", "cy"] * 2000, "x": range(6000)})
    return dd.from_pandas(frame, npartitions=8).groupby("name").x.sum().compute() \
        .sort_index().to_dict()


def bag(_client: Any, _cluster: Any) -> list[tuple[int, int]]:
    import dask.bag as db

    numbers = db.from_sequence(range(10_000), npartitions=8)
    return sorted(numbers.filter(odd).foldby(last_digit, operator.add).compute())


def odd(x: int) -> bool:
    return x % 2 == 1


def last_digit(x: int) -> int:
    return x % 10


def shuffle(_client: Any, _cluster: Any) -> tuple[int, int, list[int]]:
    """Rows, a sum over them, and the sizes of the partitions."""
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame({"id": [x * 7 % 31 for x in range(6000)], "row": range(6000)})
    out = dd.from_pandas(frame, npartitions=8).shuffle("id", shuffle_method="p2p")
    done = out.compute()
    return len(done), int((done.id * done.row).sum()), \
        sorted(out.map_partitions(len).compute())


def rechunk(method: str) -> Callable[..., int]:
    def run(_client: Any, _cluster: Any) -> int:
        import dask.array as da
        import numpy as np

        x = da.arange(400 * 400, chunks=400 * 50).reshape(400, 400)
        # Without the limit P2P would merge such small blocks first.
        y = x.rechunk((400, 40), method=method, block_size_limit=400 * 50 * 8).compute()
        return int((y @ np.arange(400)).sum())

    return run


def xarray(_client: Any, _cluster: Any) -> float:
    import numpy as np
    import pandas as pd
    import xarray as xr

    days = pd.date_range("2021-01-01", periods=360, freq="D")
    data = np.random.default_rng(3).normal(size=(360, 12, 16))
    field = xr.DataArray(data, dims=("time", "lat", "lon"), coords={"time": days})
    field = field.chunk({"time": 60})
    by_month = field.groupby("time.month")
    return float((by_month - by_month.mean()).std().compute())


def clustered_load(_client: Any, _cluster: Any) -> int:
    """125 blocks of a file, read by rask's scheduler in buffers of at most 25 of them."""
    import dask
    import dask.array as da
    import numpy as np

    import rask.io

    with tempfile.TemporaryDirectory() as directory:
        np.save(f"{directory}/cube.npy", np.arange(100**3, dtype="u4").reshape(100, 100, 100))
        x = da.from_array(rask.io.npy(f"{directory}/cube.npy"), chunks=20)
        with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": 25 * 20**3 * 4}}):
            return int((x % 1000).sum().compute())


def histogram(block: Any) -> Any:
    import numpy as np

    return np.histogram(block, bins=64, range=(0, 1))[0]


def spliter(_client: Any, _cluster: Any) -> int:
    """The largest count of a histogram, by a task per worker and not per block."""
    import dask.array as da

    import rask

    x = da.random.default_rng(2).random((20_000, 5), chunks=(50, 5)).persist()
    return int(rask.spliter(x).reduce(operator.add, histogram).result().max())


def exception(client: Any, _cluster: Any) -> str:
    def divide(x: int) -> float:
        return x / 0

    future = client.submit(divide, 1)
    error = future.exception()
    return f"{error!r} in {traceback.extract_tb(future.traceback())[-1].name}"


def wait_for_go(directory: str) -> int:
    """A task that says it has started and waits until it is let go."""
    with open(f"{directory}/pids", "a") as file:
        file.write(f"{os.getpid()}\n")
    while not os.path.exists(f"{directory}/go"):
        time.sleep(0.005)
    return 42


def killed_while_computing(client: Any, _cluster: Any) -> int:
    with tempfile.TemporaryDirectory() as directory:
        pids = Path(directory) / "pids"
        future = client.submit(wait_for_go, directory, pure=False)
        while not (pids.exists() and pids.read_text()):
            time.sleep(0.005)
        os.kill(int(pids.read_text().split()[0]), signal.SIGKILL)
        Path(directory, "go").touch()
        return future.result()


def only_holder_killed(client: Any, cluster: Any) -> int:
    future = client.submit(inc, 41)
    future.result()
    ((holder,),) = client.who_has([future]).values()
    cluster.worker_process(holder).kill()
    return client.submit(inc, future).result() - 1


SHOWS = [
    Show("submit(inc, 41)", submit),
    Show("sum of map(inc, range(1000))", map_thousand),
    Show("a lambda from __main__", lambda_from_main),
    Show("a delayed tree of 255", delayed_tree),
    Show("array (x + x.T).sum()", array),
    Show("DataFrame groupby", groupby),
    Show("bag filter and foldby", bag),
    Show("DataFrame shuffle (P2P)", shuffle),
    Show("rechunk rows to columns by tasks", rechunk("tasks")),
    Show("rechunk rows to columns by P2P", rechunk("p2p")),
    Show("xarray: anomalies by month", xarray),
    Show("a file's blocks in buffers", clustered_load),
    Show("SplIter: histogram of 400 blocks", spliter),
    Show("an exception with its traceback", exception),
    Show("worker killed -9 while computing", killed_while_computing, repeatable=False),
    Show("only holder of a key killed -9", only_holder_killed, repeatable=False),
]
