"""`rask io-plan`: what it predicts and draws, and what it says of files that it cannot read."""

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import zarr

import rask.io
from rask.io import prospect


@pytest.fixture
def cube(tmp_path):
    """20³ numbers in a .npy file."""
    np.save(tmp_path / "cube.npy", np.arange(8000, dtype="u2").reshape(20, 20, 20))
    return rask.io.npy(tmp_path / "cube.npy")


def test_the_command_predicts_every_strategy_and_draws_the_plan(cube, tmp_path):
    picture = tmp_path / "plan.png"
    command = [sys.executable, "-m", "rask", "io-plan", cube.path, "--chunks", "4", "--buffer-bytes",
               "3200", "--to-chunks", "5", "--png", str(picture)]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout
    rows = {line[:16].strip(): line[16:].split()[:3] for line in said.splitlines() if line}
    # 5×5×5 blocks of 128 bytes, a bound of one slice of 25: 5 accesses; one by one 16 lines each.
    assert rows["clustered"] == ["5", "125", "130"]
    assert rows["naive blocks"] == ["2000", "125", "2125"]
    assert {"naive slabs", "buffered slabs", "multiple"} < set(rows)
    assert "KEEP" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


def predicted(path, chunks, bound, dataset=None, to_chunks=None) -> str:
    return prospect.Prospect(prospect.storage_of(str(path), dataset, None, None, 0), chunks, bound).table(to_chunks)


def test_predictions_of_chunked_storage_count_its_chunks(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", (20, 20), "u1", chunks=(10, 20))
        f.create_dataset("y", (20, 20), "u1")
    rows = [line.split() for line in predicted(tmp_path / "x.h5", (10, 5), 200, "x").splitlines()]
    # 2 × 4 blocks, four in each chunk: one by one each reads its chunk, together each chunk is read once.
    assert ["naive", "blocks", "8", "8", "16", "400", "B", "50", "B"] in rows
    assert ["clustered", "2", "8", "10", "400", "B", "200", "B"] in rows


def test_what_cannot_be_predicted_is_an_error_that_names_the_file(cube, tmp_path):
    missing, text, cut, group = (tmp_path / name for name in ("missing", "text", "cut.h5", "group"))
    text.write_text("not an array")
    with h5py.File(cut, "w") as f:
        f.create_dataset("x", data=np.ones(10_000))
    whole = cut.read_bytes()
    zarr.create_group(str(group)).create_array("x", shape=(4,), dtype="u1")
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00\xff")
    (tmp_path / "bad.zarr").mkdir()
    (tmp_path / "bad.zarr" / "zarr.json").write_text("{")
    short = tmp_path / "short.npy"
    short.write_bytes(open(cube.path, "rb").read()[:-1])

    def refused(path, chunks=(4,), bound=100, **more):
        with pytest.raises(ValueError) as e:
            predicted(path, chunks, bound, **more)
        return str(e.value)

    assert "No such file" in refused(missing) and str(missing) in refused(missing)
    assert f"{text}: not a known format" in refused(text)
    assert str(cut) in refused(cut, dataset="y")
    (tmp_path / "half.h5").write_bytes(whole[:1000])
    assert f"{tmp_path / 'half.h5'}: " in refused(tmp_path / "half.h5")
    assert "2 blocks of 2" in predicted(group, (2,), 100)  # its only array
    assert str(group) in refused(group, dataset="y")
    assert str(tmp_path / "bad.npy") in refused(tmp_path / "bad.npy")
    assert str(tmp_path / "bad.zarr") in refused(tmp_path / "bad.zarr")
    assert f"{short} has 16127 bytes" in refused(short)
    for wrong in ({"chunks": (0,)}, {"chunks": (4, 4)}, {"bound": 0}, {"bound": 2**64}, {"to_chunks": (0, 1, 1)}):
        refused(cube.path, **wrong)
    huge = rask.io.Storage((700, 700, 700), np.dtype("u2"), "huge", offset=0)
    with pytest.raises(ValueError, match="343000000 blocks of 1×1×1; at most 20000000"):
        prospect.Prospect(huge, (1,), 100)
    with pytest.raises(ValueError, match="both --dtype and --shape"):
        prospect.storage_of(str(text), None, "u1", None, 0)


def test_the_command_fails_with_one_line(cube, tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "rask", "io-plan"]
    for arguments, said in [([__file__, "--chunks", "4"], "not a known format"),
                            ([cube.path, "--chunks", "4,x"], "expected numbers as"),
                            ([cube.path, "--chunks", "4", "--png", str(tmp_path / "no" / "p.png")], "No such file"),
                            ([str(tmp_path / "no"), "--chunks", "4"], "does not exist")]:  # fmt: skip
        done = subprocess.run(command + arguments, capture_output=True, text=True, env=env)
        assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr
