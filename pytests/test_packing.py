"""Values as bytes on a worker: the short cuts give what stock's serializers give."""

from __future__ import annotations

import numpy as np
import pytest
from distributed.protocol import deserialize, serialize

from rask.worker.packing import own, pack, unpack


def read_only(array):
    array.flags.writeable = False
    return array


ARRAYS = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "in Fortran's order": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "every other": np.arange(12)[::2],
    "read-only": read_only(np.arange(6, dtype="u2")),
    "nothing": np.zeros((0, 3)),
    "a scalar": np.array(3.5),
    "repeated": np.broadcast_to(np.zeros(1), (5,)),
    "times": np.arange(3).astype("M8[ns]"),
    "text": np.array(["a", "bc"]),
    "records": np.zeros(3, dtype=[("a", int), ("b", "f4")]),
    "objects": np.array([None, "x", 1], dtype=object),
    "a matrix": np.asmatrix(np.eye(2)),
    "masked": np.ma.array([1, 2, 3], mask=[True, False, True]),
}


@pytest.mark.parametrize("frame", (bytes, bytearray), ids=("frames read-only", "frames writable"))
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read_as_stock_reads_them(name, frame):
    array = ARRAYS[name]
    expected = deserialize(*serialize(array))
    kind, header, frames = pack(array)[0]
    for _ in range(3):  # the first of a kind is read by stock's code
        found = unpack((kind, header, [frame(bytes(part)) for part in frames]))
        assert type(found) is type(expected)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.flags.f_contiguous == expected.flags.f_contiguous
        assert found.flags.writeable == (array.flags.writeable or expected.flags.writeable)
        assert np.array_equal(np.asarray(found), np.asarray(expected))
        assert repr(found) == repr(array)


def test_an_array_that_was_read_keeps_its_bytes_to_itself():
    kind, header, frames = pack(np.arange(4))[0]
    first, second = (unpack((kind, header, [bytearray(frames[0])])) for _ in range(2))
    first[0] = 99
    assert second.tolist() == [0, 1, 2, 3]


def test_a_frame_that_is_too_short_is_an_error():
    kind, header, frames = pack(np.arange(4.0))[0]
    unpack((kind, header, frames))
    with pytest.raises((TypeError, ValueError), match="buffer"):
        unpack((kind, header, [bytes(frames[0])[:-1]]))


def kept(value):
    """As a worker calls it: the caller's caller has the value too."""
    return own(value)


def inner_bins():
    return np.zeros((6,) * 5)[(slice(1, 5),) * 5]


def test_a_view_that_alone_keeps_a_large_array_is_copied():
    view = inner_bins()
    copy = kept(view)
    assert copy.base is None
    assert copy.flags.c_contiguous
    assert np.array_equal(copy, view)


@pytest.mark.parametrize("name", ("half", "read-only", "objects", "large", "base in use", "in use"))
def test_other_views_stay_as_they_are(name):
    base = None
    if name == "half":
        view = np.zeros(10)[:6]
    elif name == "read-only":
        view = read_only(inner_bins())
    elif name == "objects":
        view = np.zeros(10, dtype=object)[:2]
    elif name == "large":
        view = np.zeros(1 << 20)[: 1 << 18]
    elif name == "base in use":
        base = np.zeros(10)
        view = base[:2]
    else:
        view = inner_bins()
        base = [view]
    assert kept(view) is view
    del base
