"""First light: each thing `make demo` shows, as a test against stock Dask.

One test per line of the demo. If one of these fails, nothing else matters yet.
"""

from __future__ import annotations

import os
import signal
import tempfile
import traceback

import pytest
from programs import Gate, add, inc

pytestmark = pytest.mark.smoke


@pytest.mark.op("task-finished")
@pytest.mark.api("Client.submit")
@pytest.mark.op("update-graph", "register-client", "identity", "gather")
def test_a_submitted_call_gives_its_value(same):
    assert same(lambda client: client.submit(inc, 1).result()) == 2


@pytest.mark.api("Client.map", "Client.gather")
def test_a_map_of_a_thousand_gives_a_thousand_values(same):
    assert same(lambda client: client.gather(client.map(inc, range(1000)))) == list(range(1, 1001))


def test_a_lambda_from_main_travels_by_value(same):
    def prog(client):
        main = {"__name__": "__main__"}
        exec("triple = lambda x: x * 3", main)
        return client.submit(main["triple"], 14).result()

    assert same(prog) == 42


@pytest.mark.api("dask.delayed")
def test_a_delayed_tree_is_reduced(same):
    def prog(client):
        from dask import delayed

        level = [delayed(inc)(i) for i in range(64)]
        while len(level) > 1:
            level = [delayed(add)(a, b) for a, b in zip(level[::2], level[1::2])]
        return level[0].compute()

    assert same(prog) == sum(range(1, 65))


@pytest.mark.api("dask.array")
def test_an_array_plus_its_transpose_is_summed(same):
    def prog(client):
        import dask.array as da

        x = da.arange(10_000, chunks=2_500).reshape(100, 100).rechunk((30, 30))
        return (x + x.T).sum().compute()

    assert same(prog) == 2 * sum(range(10_000))


@pytest.mark.api("dask.dataframe")
def test_a_dataframe_is_grouped(same):
    def prog(client):
        import dask.dataframe as dd
        import pandas as pd

        frame = pd.DataFrame({"name": ["ann", "bob", "cy", "ann"] * 25, "x": range(100)})
        return dd.from_pandas(frame, npartitions=4).groupby("name").x.sum().compute().sort_index()

    assert same(prog).to_dict() == {"ann": 2475, "bob": 1225, "cy": 1250}


@pytest.mark.op("task-erred")
@pytest.mark.api("Future.traceback")
def test_an_exception_arrives_with_its_traceback(same):
    def prog(client):
        def divide(x):
            return x / 0

        future = client.submit(divide, 1)
        with pytest.raises(ZeroDivisionError) as caught:
            future.result()
        names = [frame.name for frame in traceback.extract_tb(future.traceback())]
        return future.status, str(caught.value), repr(future.exception()), names

    assert same(prog)[-1][-1] == "divide"


@pytest.mark.fault("W1")
def test_a_task_whose_worker_is_killed_runs_elsewhere(same):
    def prog(client, cluster):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            future = client.submit(gate, 42)
            os.kill(gate.wait_started(), signal.SIGKILL)
            gate.wait_started(runs=2)
            gate.open()
            return future.result(), len(set(gate.started()))

    assert same(prog) == (42, 2)


@pytest.mark.fault("W2")
@pytest.mark.op("who_has")
def test_a_key_whose_only_holder_is_killed_is_computed_again(same):
    def prog(client, cluster):
        x = client.submit(inc, 1, key="only-copy")
        x.result()
        ((holder,),) = client.who_has([x]).values()
        cluster.worker_process(holder).kill()
        return client.submit(add, x, 40).result(), x.result(), x.status

    assert same(prog) == (42, 2, "finished")
