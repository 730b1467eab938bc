"""P2P shuffles, merges and rechunks: faults in the middle of them, and where outputs lie.

Plain P2P is in test_collections.py. Here a Gate (programs.py) holds one input or one output while a
worker is killed, a run is cancelled or another shuffle begins; row for row the result must be the
same as pandas', NumPy's and stock's.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter

import dask
import numpy as np
import pandas as pd
import pytest
from conftest import SCHEDULER
from programs import Gate, until, workers_of

ROWS, PARTS = 480, 6


def part(number: int, gate: Gate | None = None, bad: str = "") -> pd.DataFrame:
    """One partition of a frame; part 0 waits at the gate."""
    if gate is not None and number == 0:
        gate()
    if bad and number == PARTS - 1:
        raise ValueError(bad)
    rows = np.arange(number, ROWS, PARTS)
    return pd.DataFrame({"id": rows % 37, "row": rows, "half": rows / 2})


def frame(gate: Gate | None = None, bad: str = ""):
    import dask.dataframe as dd

    return dd.from_map(part, list(range(PARTS)), gate=gate, bad=bad,
                       meta=META, enforce_metadata=False)


def at_gate(block, gate: Gate):
    """The block, once the gate is open; only the first one waits."""
    if not gate.started() or not gate.open_file.exists():
        if _claims(gate):
            gate()
    return block


def _claims(gate: Gate) -> bool:
    """True for one caller, and for its second try in another process after a kill."""
    try:
        os.close(os.open(f"{gate.started_file}.claim", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def rechunked(x, chunks, block: int):
    """By P2P; without the limit small blocks are merged first and nothing is left to shuffle."""
    return x.rechunk(chunks, method="p2p", block_size_limit=block * x.dtype.itemsize)


def sums(df) -> tuple[int, int, float, int]:
    """Row count, order-free checks of every column, and how many rows are there twice."""
    return len(df), int((df.id * df.row).sum()), float(df.half.sum()), int(df.row.duplicated().sum())


META = part(0).iloc[:0]
EXPECTED = sums(pd.concat([part(i) for i in range(PARTS)]))


def states(client, prefix: str) -> dict[str, int]:
    """How many tasks of a prefix are in which state."""
    found = client.sync(client.scheduler.get_task_prefix_states)
    return found.get(prefix, {})


def transferred(client, prefix: str):
    until(lambda: states(client, prefix).get("memory", 0) > 0, "a finished transfer")


def forgotten(client, prefix: str) -> bool:
    """Nothing of a prefix is left; resubmitting before that races with the release, in stock too."""
    return not any(states(client, prefix).values())


def other_worker(cluster, pid: int):
    (other,) = [w for w in cluster.workers.values() if w.alive() and w.pid != pid]
    return other


# ---- a worker killed -9 ------------------------------------------------------------------------


@pytest.mark.fault("W6")
@pytest.mark.op("shuffle_get", "shuffle_get_or_create", "shuffle_barrier", "shuffle_restrict_task")
@pytest.mark.parametrize("who", ["receiver", "sender"])
def test_a_worker_killed_while_rows_are_transferred(same, who):
    def prog(client, cluster):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            future = client.compute(frame(gate).shuffle("id", shuffle_method="p2p"))
            pid = gate.wait_started()
            transferred(client, "shuffle-transfer")
            if who == "sender":
                os.kill(pid, signal.SIGKILL)
            else:
                other_worker(cluster, pid).kill()
            gate.open()
            return sums(future.result(timeout=120))

    assert same(prog) == EXPECTED


@pytest.mark.fault("W7")
@pytest.mark.parametrize("who", ["idle", "busy"])
def test_a_worker_killed_while_outputs_are_made(same, who):
    def prog(client, cluster):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            out = frame().shuffle("id", shuffle_method="p2p")
            future = client.compute(out.map_partitions(at_gate, gate, meta=META))
            pid = gate.wait_started()
            if who == "busy":
                os.kill(pid, signal.SIGKILL)
            else:
                other_worker(cluster, pid).kill()
            gate.open()
            return sums(future.result(timeout=120))

    assert same(prog) == EXPECTED


@pytest.mark.fault("W6")
def test_a_worker_killed_while_an_array_is_rechunked(same):
    def prog(client, cluster):
        import dask.array as da

        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            x = da.arange(48 * 48, chunks=48 * 8).reshape(48, 48)
            x = x.map_blocks(at_gate, gate, dtype=int, meta=np.empty((0, 0), int))
            with dask.config.set({"optimization.fuse.active": False}):  # transfers keep their names
                future = client.compute(rechunked(x, (48, 8), 48 * 8) * 2)
            pid = gate.wait_started()
            transferred(client, "rechunk-transfer")
            other_worker(cluster, pid).kill()
            gate.open()
            return future.result(timeout=120)

    assert np.array_equal(same(prog), np.arange(48 * 48).reshape(48, 48) * 2)


@pytest.mark.fault("W7")
def test_a_worker_killed_while_both_sides_of_a_merge_are_read(same):
    def prog(client, cluster):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            right = frame()[["id", "row"]].rename(columns={"row": "other"})
            merged = frame().merge(right, on="id", shuffle_method="p2p", broadcast=False)
            future = client.compute(merged.map_partitions(at_gate, gate, meta=merged._meta))
            pid = gate.wait_started()
            other_worker(cluster, pid).kill()
            gate.open()
            done = future.result(timeout=120)
            return len(done), int((done.row * done.other).sum())

    left = pd.concat([part(i) for i in range(PARTS)])
    right = left[["id", "row"]].rename(columns={"row": "other"})
    merged = left.merge(right, on="id")
    assert same(prog) == (len(merged), int((merged.row * merged.other).sum()))


# ---- cancelled, erred, several at once ---------------------------------------------------------


@pytest.mark.fault("C7")
def test_a_shuffle_cancelled_in_the_middle_runs_again(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            out = frame(gate).shuffle("id", shuffle_method="p2p")
            first = client.compute(out)
            gate.wait_started()
            transferred(client, "shuffle-transfer")
            first.cancel()
            gate.open()
            until(lambda: forgotten(client, "shuffle-transfer"), "the cancelled shuffle to be forgotten")
            return first.status, sums(client.compute(out).result(timeout=120))

    assert same(prog) == ("cancelled", EXPECTED)


def test_a_shuffle_whose_input_errs(same):
    def prog(client):
        return frame(bad="no such part").shuffle("id", shuffle_method="p2p").compute()

    with pytest.raises(ValueError, match="no such part"):
        same(prog)


def test_a_shuffle_that_fails_while_transferring(same):
    def prog(client):
        import dask.dataframe as dd

        wrong = dd.from_map(lambda i: part(i).rename(columns={"row": "rows"}), range(3),
                            meta=META, enforce_metadata=False)
        return wrong.shuffle("id", shuffle_method="p2p").compute()

    with pytest.raises(RuntimeError, match="P2P .* failed during transfer phase"):
        same(prog)


def test_a_shuffle_that_failed_runs_again(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            df = frame().map_partitions(fails_once, gate, meta=META)
            out = df.shuffle("id", shuffle_method="p2p")
            error = client.compute(out).exception(timeout=120)
            gate.open()
            until(lambda: forgotten(client, "shuffle-transfer"), "the failed shuffle to be forgotten")
            return type(error).__name__, str(error), sums(client.compute(out).result(timeout=120))

    assert same(prog) == ("ValueError", "once", EXPECTED)


def fails_once(block, gate: Gate):
    if not gate.open_file.exists():
        raise ValueError("once")
    return block


def test_several_shuffles_at_the_same_time(same):
    def prog(client):
        import dask.array as da

        x = da.arange(60 * 60, chunks=600).reshape(60, 60)
        cube = da.from_array(np.arange(60 * 60).reshape(15, 16, 15), chunks=(15, 16, 2))
        shuffled = frame().shuffle("id", shuffle_method="p2p")
        merged = frame().merge(frame(), on="row", shuffle_method="p2p", broadcast=False)
        again = shuffled.shuffle("row", shuffle_method="p2p")
        rows, pairs, twice, columns, cubes = client.gather(client.compute([
            shuffled, merged, again, rechunked(x, (60, 7), 600), rechunked(cube, (4, 5, 6), 600)]))
        return sums(rows), len(pairs), sums(twice), columns, cubes.reshape(60, 60)

    found = same(prog)
    assert found[0] == found[2] == EXPECTED and found[1] == ROWS
    assert np.array_equal(found[3], np.arange(60 * 60).reshape(60, 60))
    assert np.array_equal(found[4], found[3])


def test_two_clients_shuffle_the_same_frame(same):
    def prog(client, cluster):
        with cluster.client() as other:
            futures = [c.compute(frame().shuffle("id", shuffle_method="p2p"))
                       for c in (client, other, client)]
            return [sums(future.result(timeout=120)) for future in futures]

    assert same(prog) == [EXPECTED] * 3


def test_a_shuffle_restricted_to_one_worker(same):
    def prog(client):
        from distributed import wait

        one = min(workers_of(client))
        # By another column: keys that an earlier test has left behind would keep their places.
        shuffled = frame().shuffle("half", shuffle_method="p2p")
        with dask.annotate(workers=[one]):
            out = client.persist(shuffled, optimize_graph=False)
        wait(out)
        holders = {holder for held in client.who_has(out).values() for holder in held}
        return holders == {one}, sums(out.compute())

    assert same(prog) == (True, EXPECTED)


# ---- where outputs lie -------------------------------------------------------------------------


@pytest.mark.skipif(SCHEDULER != "rask", reason="stock leaves workers out")
def test_outputs_of_a_rechunk_in_many_dimensions_are_spread_evenly(fresh):
    """Stock counts only the axis before each when it numbers chunks, and leaves workers out."""
    import dask.array as da
    from distributed import wait

    with fresh(n_workers=3).connected() as client:
        values = np.arange(6 * 6 * 6 * 12).reshape(6, 6, 6, 12)
        x = da.from_array(values, chunks=(6, 6, 6, 2))
        out = client.persist(rechunked(x, (2, 2, 2, 12), 6 * 6 * 6 * 2))
        wait(out)
        held = Counter(holder for holders in client.who_has(out).values() for holder in holders)
        assert sorted(held.values()) == [9, 9, 9]
        assert np.array_equal(out.compute(), values)


def test_workers_in_a_shuffle_are_not_chosen_for_closing(same):
    def prog(client, cluster):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            future = client.compute(frame(gate).shuffle("id", shuffle_method="p2p"))
            gate.wait_started()
            transferred(client, "shuffle-transfer")
            chosen = client.sync(client.scheduler.workers_to_close, n=2)
            gate.open()
            future.result(timeout=120)
            until(lambda: client.sync(client.scheduler.workers_to_close, n=1), "the end of the run")
            return chosen

    assert not same(prog)
