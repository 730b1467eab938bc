"""Clustered I/O on clusters: unmodified Dask programs, switched on, give what stock gives.

Each program runs on stock Dask, where the switches mean nothing, and on the pairing under test.
`buffers_seen` tells whether buffers were there while blocks were worked on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import xarray as xr
import zarr
from conftest import SCHEDULER
from distributed import wait
from loaders import Halves
from programs import Gate, until, workers_of

import rask
import rask.io

ON = {"io": {"cluster": True, "buffer-bytes": "40 kB"}}


def buffers_seen(block):
    """How many buffers this worker holds, in place of each element."""
    from distributed import get_worker

    held = [k for k in get_worker().data.keys() if str(k).startswith("('rask-io-load")]
    return np.full(block.shape, len(held))


def clustered(x) -> bool:
    """Whether the loads of an array are in buffers on this cluster."""
    seen = x.map_blocks(buffers_seen, dtype=int, token=uuid.uuid4().hex)
    return bool(seen.max().compute())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same numbers in every format."""
    folder = tmp_path_factory.mktemp("io")
    values = np.arange(20 * 20 * 20, dtype="f4").reshape(20, 20, 20)
    np.save(folder / "x.npy", values)
    values.T.tofile(folder / "x.raw")
    with h5py.File(folder / "x.h5", "w") as f:
        f.create_dataset("plain", data=values)
        f.create_dataset("chunked", data=values, chunks=(5, 5, 5), compression="gzip")
    z = zarr.create_array(str(folder / "x.zarr"), shape=values.shape, chunks=(5, 5, 5), dtype="f4")
    z[...] = values
    z = zarr.create_array(str(folder / "s.zarr"), shape=values.shape, chunks=(5, 5, 5),
                          shards=(10, 10, 10), dtype="f4")  # fmt: skip
    z[...] = values
    z = zarr.create_array(str(folder / "2.zarr"), shape=values.shape, chunks=(5, 5, 5), dtype="f4",
                          zarr_format=2)  # fmt: skip
    z[...] = values
    netcdf = xr.Dataset({"x": (("a", "b", "c"), values)})
    netcdf.to_netcdf(folder / "x.nc", engine="h5netcdf")
    packed = {"x": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 1.0, "_FillValue": -1}}
    netcdf.to_netcdf(folder / "packed.nc", engine="h5netcdf", encoding=packed)
    return folder


FORMATS = {
    "npy": lambda folder: da.from_array(rask.io.npy(folder / "x.npy"), chunks=7),
    "raw": lambda folder: da.from_array(rask.io.raw(folder / "x.raw", "f4", (20, 20, 20), 0, "F"), chunks=7),
    "hdf5": lambda folder: da.from_array(h5py.File(folder / "x.h5", "r")["plain"], chunks=7),
    "hdf5 by rask": lambda folder: da.from_array(rask.io.hdf5(folder / "x.h5", "plain"), chunks=7),
    "hdf5 chunked": lambda folder: da.from_array(h5py.File(folder / "x.h5", "r")["chunked"], chunks=(7, 20, 20)),
    "hdf5 locked": lambda folder: da.from_array(h5py.File(folder / "x.h5", "r")["chunked"],
                                                chunks=(7, 20, 20), lock=True, inline_array=True),
    "zarr": lambda folder: da.from_zarr(str(folder / "x.zarr"), chunks=(7, 20, 20)),
    "zarr sharded": lambda folder: da.from_zarr(str(folder / "s.zarr"), chunks=(7, 20, 20)),
    "zarr 2": lambda folder: da.from_zarr(str(folder / "2.zarr"), chunks=(7, 20, 20)),
    "netcdf": lambda folder: xr.open_dataset(folder / "x.nc", engine="h5netcdf",
                                             chunks={"a": 7, "b": 7, "c": 7}).x.data,
    "netcdf decoded": lambda folder: xr.open_dataset(folder / "packed.nc", engine="h5netcdf",
                                                     chunks={"a": 7, "b": 7, "c": 7}).x.data,
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_loads_of_every_format(same, files, kind):
    def prog(client):
        x = FORMATS[kind](files)
        with dask.annotate(rask=ON):
            whole = x.compute()
            total = (x[3:, 1:19] + 1).sum(axis=0).compute()
        return whole, total

    whole, _ = same(prog)
    assert whole.astype("f4").tobytes() == np.load(files / "x.npy").tobytes()


@pytest.mark.parametrize("kind", FORMATS)
def test_loads_of_every_format_are_clustered(rask_client, files, kind):
    x = FORMATS[kind](files)
    with dask.annotate(rask=ON):
        assert clustered(x) == (SCHEDULER == "rask")
    until(lambda: not clustered(x), "buffers to be gone")


def test_settings_of_the_scheduler_are_for_all_its_clients(fresh, files):
    cluster = fresh()
    x = FORMATS["npy"](files)
    with cluster.connected() as client:
        rask.configure(client, {"io.cluster": True, "io.buffer-bytes": "20 kB"})
    with cluster.connected() as client:
        assert clustered(x) == (SCHEDULER == "rask")
        with dask.annotate(rask={"io": {"cluster": False}}):
            until(lambda: not clustered(x), "buffers to be gone")
        rask.configure(client, {"io.cluster": None})
        assert not clustered(x)


def test_the_schedulers_own_environment_switches_it_on(fresh, files):
    cluster = fresh(env={"DASK_RASK__IO__CLUSTER": "True", "DASK_RASK__IO__BUFFER_BYTES": "20kB"})
    with cluster.connected():
        x = FORMATS["npy"](files)
        assert clustered(x) == (SCHEDULER == "rask")
        np.testing.assert_array_equal(x.compute(), np.load(files / "x.npy"))


def test_the_bound_comes_from_the_workers_if_it_is_not_set(fresh, files):
    with fresh().connected():
        x = FORMATS["npy"](files)
        with dask.annotate(rask={"io": True}):
            assert clustered(x) == (SCHEDULER == "rask")
            np.testing.assert_array_equal(x.compute(), np.load(files / "x.npy"))


@pytest.mark.skipif(SCHEDULER == "stock", reason="a stock scheduler does not look at settings")
def test_a_misspelled_setting_is_an_error_of_the_graph(rask_client, files):
    with dask.annotate(rask={"io": {"bufer-bytes": 1}}):
        with pytest.raises(ValueError, match="no setting is called 'io.bufer-bytes'"):
            FORMATS["npy"](files).sum().compute()


def test_persisted_blocks_are_those_of_plain_loads(same, files):
    def prog(client):
        with dask.annotate(rask=ON):
            x = FORMATS["npy"](files).persist()
        return sorted(map(str, x.__dask_keys__()[0][0])), (x + 1).compute()

    same(prog)


def targets(folder, kind):
    if kind == "zarr":
        return zarr.create_array(str(folder / "out.zarr"), shape=(20, 20, 20), chunks=(5, 7, 7),
                                 dtype="f4", overwrite=True)  # fmt: skip
    if kind == "hdf5":
        with h5py.File(folder / "out.h5", "w") as f:
            f.create_dataset("x", (20, 20, 20), "f4")
        return rask.io.hdf5(folder / "out.h5", "x")
    return rask.io.raw(folder / f"out.{kind}", "f4", (20, 20, 20), 0, kind, "w+")


def test_a_kind_of_array_that_the_user_registers_is_clustered(same, files, tmp_path):
    """Blocks of 7 lie in rows of three: one access of the array per row, where there is a pass."""
    log = tmp_path / "log"

    def prog(client):
        x = da.from_array(Halves(files / "x.npy", log), chunks=7, name=uuid.uuid4().hex)
        log.write_text("")  # Dask has looked at it
        with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": 7 * 7 * 20 * 8}}):
            found = x.compute()
        accesses.append(len(log.read_text().splitlines()))
        return found

    accesses: list[int] = []
    np.testing.assert_array_equal(same(prog), np.load(files / "x.npy") / 2)
    assert accesses == [27, 9 if SCHEDULER == "rask" else 27]


@pytest.mark.parametrize("kind", ["C", "F", "hdf5", "zarr"])
def test_stores_of_every_format(same, files, tmp_path, kind):
    def prog(client):
        x = da.from_array(rask.io.npy(files / "x.npy"), chunks=(5, 7, 7)) * 2
        out = targets(tmp_path, kind)
        with dask.annotate(rask=ON):
            given = da.store(x, out, lock=False)
        first = out[...]
        with dask.annotate(rask=ON):
            back = da.store(x + 1, out, lock=False, return_stored=True)
            back = back.compute()
        return given, first, back, out[...]

    given, first, back, last = same(prog)
    expected = np.load(files / "x.npy") * 2
    assert given is None
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(back, expected + 1)
    np.testing.assert_array_equal(last, expected + 1)


@pytest.mark.skipif(SCHEDULER == "stock", reason="there, blocks that share chunks need a lock")
def test_blocks_that_share_chunks_are_stored_together(rask_client, files, tmp_path):
    x = da.from_array(rask.io.npy(files / "x.npy"), chunks=(5, 7, 7)) * 2
    out = zarr.create_array(str(tmp_path / "z"), shape=x.shape, chunks=(10, 20, 20), dtype="f4")
    with dask.annotate(rask=ON):
        da.store(x, out, lock=False)
    np.testing.assert_array_equal(out[...], np.load(files / "x.npy") * 2)


def test_to_zarr_and_whole_files(same, files, tmp_path):
    def prog(client):
        x = FORMATS["npy"](files) - 1
        with dask.annotate(rask=ON):
            stack = str(tmp_path / f"{uuid.uuid4().hex}.zarr")
            x.rechunk((10, 10, 10)).to_zarr(stack)
            path = rask.io.to_npy(x, tmp_path / "t.npy", order="F")
            hdf5 = rask.io.to_hdf5(x, tmp_path / "t.h5", "a/x", create={"chunks": (5, 10, 20), "compression": "gzip"})
        with h5py.File(hdf5, "r") as f:
            return np.load(path), zarr.open(stack)[...], f["a/x"][...]

    found, *others = same(prog)
    np.testing.assert_array_equal(found, np.load(files / "x.npy") - 1)
    for other in others:
        np.testing.assert_array_equal(other, found)
    assert sorted(name for name in os.listdir(tmp_path) if "zarr" not in name) == ["t.h5", "t.npy"]


def test_to_hdf5_of_dask_fails_as_on_stock(same, files, tmp_path):
    def prog(client):
        with dask.annotate(rask=ON):
            try:
                FORMATS["npy"](files).to_hdf5(tmp_path / f"{uuid.uuid4().hex}.h5", "/x")
            except Exception as e:
                return type(e).__name__

    assert same(prog) is not None


def test_a_file_that_shrinks_or_vanishes_is_an_error_that_names_it(rask_client, tmp_path):
    path = tmp_path / "shrinks"
    np.arange(1000, dtype="u1").tofile(path)
    x = da.from_array(rask.io.raw(path, "u1", (10, 100)), chunks=(2, 100))
    os.truncate(path, 500)
    with dask.annotate(rask=ON):
        with pytest.raises(OSError, match="ends at byte [5-8]00.* on worker tcp.*shrinks"):
            x.sum().compute()
        half = x[:4].sum().compute()
    assert half == np.arange(400, dtype="u1").sum()
    os.remove(path)
    with dask.annotate(rask=ON), pytest.raises(OSError, match="No such file.* on worker tcp.*shrinks"):
        (x + 1).sum().compute()


def test_hdf5_files_that_are_cut_off_or_damaged_are_errors_that_name_them(rask_client, files, tmp_path):
    """Never other numbers: neither where blocks are read natively nor where h5py reads them."""
    whole = (files / "x.h5").read_bytes()
    with h5py.File(files / "x.h5", "r") as f:
        (chunk,) = [f["chunked"].id.get_chunk_info(i).byte_offset for i in (20,)]
    damaged, short = tmp_path / "damaged.h5", tmp_path / "short.h5"
    damaged.write_bytes(whole[:chunk] + b"\xff" * 40 + whole[chunk + 40 :])
    short.write_bytes(whole)
    x = da.from_array(rask.io.hdf5(damaged, "chunked"), chunks=(7, 20, 20))
    y = da.from_array(rask.io.hdf5(short, "plain"), chunks=(1, 10, 20))
    os.truncate(short, len(whole) // 4)
    for array, path in ((x, damaged), (y, short)):
        with dask.annotate(rask=ON), pytest.raises(OSError) as e:
            array.sum().compute()
        if SCHEDULER == "rask":
            assert str(path) in str(e.value) and "on worker tcp" in str(e.value)


def test_a_file_that_came_to_hold_another_array_is_an_error(rask_client, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((8, 100)))

    def loaded():
        return da.from_array(rask.io.npy(path), chunks=(1, 50), name=uuid.uuid4().hex)

    before = loaded()
    np.save(path, np.ones((8, 100)))  # other numbers of the same kind are what a plain load gives, too
    with dask.annotate(rask=ON):
        assert before.sum().compute() == 800
    before = loaded()
    np.save(path, np.ones((80, 100), "f4"))
    with dask.annotate(rask=ON), pytest.raises(OSError, match="holds another array by now on worker tcp.*x.npy"):
        before.sum().compute()


def test_a_file_that_one_worker_cannot_see_is_an_error_that_names_both(fresh, tmp_path):
    """The path leads to another folder in each process."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    values = np.arange(800, dtype="u2").reshape(8, 100)
    values.tofile(here / "data")
    cluster = fresh(n_workers=2, nthreads=1)
    with cluster.connected() as client:
        sees, blind = sorted(workers_of(client))
        client.run(os.chdir, str(here), workers=[sees])
        client.run(os.chdir, str(elsewhere), workers=[blind])

        def loaded():  # under names of its own: the client may still hold what failed
            raw = rask.io.raw("/proc/self/cwd/data", "u2", values.shape)
            return da.from_array(raw, chunks=(1, 100), name=False)

        with dask.annotate(rask=ON):
            with dask.annotate(workers=[blind]), pytest.raises(OSError, match="No such file") as e:
                loaded().sum().compute(optimize_graph=False)
            with dask.annotate(workers=[sees]):
                assert loaded().sum().compute(optimize_graph=False) == values.sum()
    assert "/proc/self/cwd/data" in str(e.value) and blind in str(e.value)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_fills_in_the_middle_of_a_merge(fresh, small_disk):
    """An error that names file, worker and reason; under the file's name there is nothing."""
    x = da.ones((40, 100, 100), chunks=(4, 50, 50), dtype="f8")  # 3.2 MB
    with fresh().connected(), dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": "200 kB"}}):
        with pytest.raises(OSError, match=r"No space left on device on worker tcp.*whole\.npy"):
            rask.io.to_npy(x, small_disk / "whole.npy")
        assert not (small_disk / "whole.npy").exists()
        for left in small_disk.iterdir():
            left.unlink()
        with open(small_disk / "sparse", "wb") as f:
            f.truncate(x.nbytes)  # room is found missing only when blocks come
        target = rask.io.raw(small_disk / "sparse", "f8", x.shape, 0, "C", "r+")
        with pytest.raises(OSError, match=r"No space left on device.* on worker tcp.*sparse"):
            da.store(x, target, lock=False)
        os.unlink(small_disk / "sparse")
        with pytest.raises(OSError):
            rask.io.to_hdf5(x, small_disk / "whole.h5", "x")
        # Tasks of the first attempt may still be at work, and make its temporary file anew.
        assert [f.name for f in small_disk.iterdir() if not f.name.startswith("whole.npy.")] == []


def test_chunks_that_meet_a_full_disk_are_an_error(rask_client, small_disk):
    x = da.ones((40, 100, 100), chunks=(4, 50, 50), dtype="f8")  # 3.2 MB
    stack = zarr.create_array(str(small_disk / "z"), shape=x.shape, chunks=(4, 50, 100), dtype="f8",
                              compressors=None)  # fmt: skip
    with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": "200 kB"}}):
        with pytest.raises(OSError, match="No space left on device") as e:
            da.store(x, stack, lock=False)
    if SCHEDULER == "rask":
        assert " on worker tcp" in str(e.value) and "/z" in str(e.value)


def the_last_waits(block, gate, block_info=None):
    if block_info[None]["chunk-location"] == (3, 1, 0):
        gate()
    return block * 2


def test_a_worker_killed_in_the_middle_of_a_merge(fresh, files, tmp_path):
    """Some buffers are in the file, one waits for a block: the file is whole in the end, and the only one."""
    out, gate = tmp_path / "out", Gate(tmp_path)
    out.mkdir()
    values = np.arange(4 * 16 * 8, dtype="f8").reshape(4, 16, 8)
    cluster = fresh(n_workers=2, nthreads=2)
    with cluster.connected() as client:
        x = da.from_array(values, chunks=(1, 8, 8)).map_blocks(the_last_waits, gate, dtype="f8")
        with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": 16 * 8 * 8}}):
            done = client.compute(rask.io.to_npy(x, out / "whole.npy", compute=False))
        busy = gate.wait_started()
        until(lambda: [p for p in out.iterdir() if p.name.endswith(".part")], "a block to be stored")
        assert not (out / "whole.npy").exists()
        os.kill(busy, signal.SIGKILL)
        gate.wait_started(2)
        gate.open()
        assert done.result(timeout=60) == str(out / "whole.npy")
    np.testing.assert_array_equal(np.load(out / "whole.npy"), values * 2)
    assert os.listdir(out) == ["whole.npy"]


def test_a_worker_killed_in_the_middle_of_bounded_loads(fresh, files, tmp_path):
    """Buffers that were being worked on are loaded again elsewhere."""
    gate = Gate(tmp_path)
    values = np.arange(4 * 1000 * 250, dtype="f8").reshape(4, 1000, 250)  # four buffers of 2 MB
    np.save(tmp_path / "x.npy", values)
    cluster = fresh(n_workers=2, nthreads=2, worker_options=("--memory-limit", "1 GB"))
    with cluster.connected():
        x = da.from_array(rask.io.npy(tmp_path / "x.npy"), chunks=(1, 500, 250))
        y = x.map_blocks(the_last_waits, gate, dtype="f8").sum()
        with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": "2 MB"}}):
            done = y.persist()
        os.kill(gate.wait_started(), signal.SIGKILL)
        gate.wait_started(2)
        gate.open()
        assert done.compute() == 2 * values.sum()


def test_a_corrupt_chunk_fails_as_a_plain_load_does(rask_client, tmp_path):
    z = zarr.create_array(str(tmp_path / "z"), shape=(12, 4), chunks=(4, 4), dtype="f8")
    z[...] = 1.0
    damaged = tmp_path / "z" / "c" / "1" / "0"
    damaged.write_bytes(b"\x00" * 7)
    x = da.from_zarr(str(tmp_path / "z"), chunks=(6, 4))
    with dask.annotate(rask=ON), pytest.raises(Exception, match="Zstd decompression error") as e:
        x.sum().compute()
    if SCHEDULER == "rask":
        assert "on worker tcp" in str(e.value) and "/z" in str(e.value)


def test_several_arrays_and_threads_at_one_device(fresh, files):
    cluster = fresh(n_workers=1, nthreads=4)
    with cluster.connected() as client:
        rask.configure(client, {"io.cluster": True, "io.buffer-bytes": 4000,
                                "io.concurrency": {"default": 1, str(files): 2}})  # fmt: skip
        x, y = FORMATS["npy"](files), FORMATS["hdf5"](files)
        np.testing.assert_array_equal((x + y.T).compute(), np.load(files / "x.npy") + np.load(files / "x.npy").T)


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(SCHEDULER == "stock", reason="a stock scheduler makes no buffers")
def test_a_block_that_is_held_does_not_hold_its_buffer(fresh, tmp_path):
    """Of a buffer of 160 MB a client keeps a block of 10: that is what is told, and what stays in memory."""
    np.save(tmp_path / "x.npy", np.ones((16, 1_250_000)))
    cluster = fresh(n_workers=1, nthreads=2, worker_options=("--memory-limit", "2 GB"))
    with cluster.connected() as client:
        client.run(np.ones, 2)
        (before,) = client.run(resident).values()
        x = da.from_array(rask.io.npy(tmp_path / "x.npy"), chunks=(1, 1_250_000))
        with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": "200 MB"}}):
            blocks = client.persist(x)
        wait(blocks)
        (peak,) = client.run(resident).values()
        assert peak - before > 150e6
        kept = client.persist(blocks[:1])
        wait(kept)
        del blocks

        def told() -> int:
            sizes = client.nbytes(summary=False)  # also of what is only known how to load again
            (held,) = client.has_what().values()
            return sum(sizes[key] for key in held if key in sizes)

        until(lambda: told() < 25e6, "the other blocks to be released")
        until(lambda: next(iter(client.run(resident).values())) - before < 60e6, "their memory to be given back")
        assert kept.sum().compute() == 1_250_000


def where_it_runs(block):
    """The number in the name of this worker, in place of each element."""
    from distributed import get_worker

    return np.full(block.shape, int(str(get_worker().name).removeprefix("w")))


def fetches(client) -> dict:
    """How often each worker has fetched something from another."""
    return client.run(lambda dask_worker: dask_worker.state.transfer_incoming_count_total)


@pytest.mark.skipif(SCHEDULER == "stock", reason="a stock scheduler makes no buffers")
def test_blocks_are_worked_on_where_their_buffer_is(fresh, tmp_path):
    """Eight buffers on two workers, the work on their blocks follows, and no worker fetches a byte."""
    np.save(tmp_path / "x.npy", np.zeros((8, 100, 100)))
    # An idle worker may steal a block and its buffer with it; here placement alone decides.
    cluster = fresh(n_workers=2, env={"DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False"})
    with cluster.connected() as client:
        x = da.from_array(rask.io.npy(tmp_path / "x.npy"), chunks=(1, 25, 100), inline_array=True)
        with dask.annotate(rask={"io": {"cluster": True, "buffer-bytes": 80_000}}):
            done = x.map_blocks(where_it_runs, dtype=int).persist()
            wait(done)
            assert set(fetches(client).values()) == {0}
            assert clustered(x)
        found = done.compute()
    assert set(found.flat) == {0, 1}
    for plane in found:  # one buffer
        assert len(set(plane.flat)) == 1
