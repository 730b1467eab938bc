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
    Show("an exception with its traceback", exception),
    Show("worker killed -9 while computing", killed_while_computing),
    Show("only holder of a key killed -9", only_holder_killed),
]
