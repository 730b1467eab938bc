"""rask.compare: every mode does the same work and is told beside the others; the model is a formula."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from programs import workers_of

import rask
from rask.spliter.comparison import MODES, same_value
from rask.spliter.cost import Rates, Work, predict


def histogram(block):
    return np.histogram(block, bins=8, range=(0, 1))[0]


def fragmented(client):
    """120 blocks that alternate between two workers, as an array."""
    workers = sorted(workers_of(client))
    blocks = client.map(np.random.default_rng(3).random, [(50, 4)] * 120, pure=False)
    blocks = [client.submit(np.copy, block, workers=[workers[i % 2]], pure=False)
              for i, block in enumerate(blocks)]
    return da.Array({("x", i, 0): block for i, block in enumerate(blocks)}, "x",
                    ((50,) * 120, (4,)), dtype=float)


def test_all_modes_agree_and_are_counted(rask_client):
    x = fragmented(rask_client)
    found = rask.compare(x, histogram, passes=2, show=False)
    assert [row.mode for row in found] == list(MODES)
    assert not any(row.skipped for row in found)
    assert [row.calls for row in found] == [240, 240] + [2 * found["materialized"].pieces] * 3
    assert {row.items for row in found} == {2 * x.size}
    assert all((row.value == histogram(x.compute())).all() for row in found)
    assert all(row.seconds > 0 and row.predicted > 0 for row in found)
    block = x.nbytes // 120
    # Partials travel, blocks do not; Dask moves about half of everything.
    assert found["spliter"].moved < block and found["materialized"].moved < block
    assert found["rechunk-tasks"].moved > x.nbytes // 8
    assert found["rechunk-p2p"].moved > x.nbytes // 8
    text = str(found)
    assert text.startswith("120 blocks, 0.2 MB, ") and "2 passes" in text
    assert all(mode in text for mode in MODES)
    assert found.fastest.seconds == min(row.seconds for row in found)


def test_a_dataframe_has_no_p2p_rechunk_and_says_so(rask_client, capsys):
    df = dd.from_pandas(pd.DataFrame({"a": range(300)}), npartitions=9).persist()
    found = rask.compare(df, lambda frame: int(frame.a.sum()))
    assert {row.value for row in found if not row.skipped} == {sum(range(300))}
    assert [row.mode for row in found if row.skipped] == ["rechunk-p2p"]
    assert "P2P cuts arrays anew" in capsys.readouterr().out


def test_a_kernel_that_depends_on_the_cut_is_found_out(rask_client):
    x = da.arange(60, chunks=3).persist()
    with pytest.raises(AssertionError, match="give different results"):
        rask.compare(x, lambda block: 1, modes=("spliter", "materialized"), show=False)


@pytest.mark.parametrize("options,text", [
    ({"modes": ("blocks", "magic")}, "choose among"), ({"modes": ()}, "choose among"),
    ({"passes": 0}, "at least one")])
def test_bad_options_are_refused(options, text):
    with pytest.raises(ValueError, match=text):
        rask.compare([], len, **options)


def test_results_are_equal_up_to_rounding():
    assert same_value(0.1 + 0.2, 0.3) and not same_value(1.0, 1.001)
    assert same_value((np.ones(3), "a"), (np.ones(3) + 1e-12, "a")) and not same_value("a", "b")
    assert not same_value((1, 2), (1, 2, 3))
    assert same_value(pd.Series([1.0, np.nan]), pd.Series([1.0, np.nan]))


RATES = Rates(query=0.1, per_task=1e-3, per_call=1e-5, kernel_blocks=4e-9, kernel_whole=2e-9,
              copy=1e9, link=1e8)
WORK = Work(nbytes=2 * 10**9, busiest=10**9, blocks=10_000, blocks_on_busiest=5000, partitions=2,
            workers=2, passes=3, moved=10**9, cut=10)


@pytest.mark.parametrize("mode,seconds", [
    ("blocks", 3 * 4 + 3 * 10),
    ("spliter", 0.1 + 3 * 4 + 3 * 0.05 + 3 * 0.002),
    ("materialized", 0.1 + 1 + 0.002 + 3 * 2 + 3 * 0.002),
    ("rechunk-tasks", 5 + 1 + 0.022 + 3 * 2 + 3 * 0.002),
    ("rechunk-p2p", 5 + 1 + 10.002 + 3 * 2 + 3 * 0.002),
])
def test_the_model_is_the_formula_of_the_page(mode, seconds):
    assert predict(mode, RATES, WORK) == pytest.approx(seconds)
