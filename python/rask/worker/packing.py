"""Values as bytes: what a worker sends to peers and clients, and what it gets back.

A payload is `(kind, header, frames)`: kind 1 is Dask's `__Serialized__` bundle (msgpack sub-header
and sub-frames), kind 2 its `__Pickled__` bundle, kind 3 a value with such bundles inside it and
kind 0 plain msgpack. The native side carries payloads without looking inside. Any form stock's
`distributed.protocol` can read is legal; plain values take a short cut through pickle (bytes alone
stand for such a payload), all others go through stock's own serializers.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable

import dask
import msgpack
from dask.utils import typename
from distributed.protocol.compression import decompress
from distributed.protocol.core import loads, maybe_compress
from distributed.protocol.serialize import (
    Serialize,
    merge_and_deserialize,
    msgpack_decode_default,
    msgpack_encode_default,
    serialize_and_split,
)
from distributed.protocol.utils import msgpack_opts
from distributed.worker import dumps_function

from rask._native import _worker

SERIALIZED = 1
PICKLED = 2

#: Types whose pickle is small and cheap, so they are packed while the GIL is held anyway.
SIMPLE_TYPES = frozenset({int, float, bool, complex, type(None)})
SHORT_TYPES = frozenset({str, bytes, bytearray})
CONTAINER_TYPES = frozenset({list, tuple, dict, set, frozenset})
EAGER_BYTES = 64 * 1024
EAGER_ITEMS = 64
COPIED_BYTES = 1 << 20
#: Frames up to this size are not split as stock splits them: readers would have to join them again.
WHOLE_BELOW = 1 << 30

_PICKLE_HEADER = _worker.PICKLE_HEADER
_types: dict[type, _worker.TypeInfo] = {}
_array_headers: dict[tuple, bytes] = {}
_array_readers: dict[bytes, Callable] = {}
_MOST_ARRAY_KINDS = 1_000


def describe_type(kind: type) -> _worker.TypeInfo:
    """The name and the pickle of a result's class, as task-finished carries them."""
    try:
        return _types[kind]
    except KeyError:
        described = _worker.TypeInfo(typename(kind), dumps_function(kind))
        if len(_types) < 10_000:
            _types[kind] = described
        return described


def pack_if_cheap(value):
    """The payload of `value` if making it costs next to nothing, else None."""
    kind = type(value)
    if kind in SIMPLE_TYPES or (kind in SHORT_TYPES and len(value) <= EAGER_BYTES):
        return pickle.dumps(value, 5)
    if kind in CONTAINER_TYPES:
        return pickle.dumps(value, 5) if is_small(value, EAGER_ITEMS) >= 0 else None
    return pack(value)[0] if exports_buffer(value) else None


def compression():
    """What is configured; without the detours of `dask.config.get`, which cost more than packing does."""
    try:
        return dask.config.config["distributed"]["comm"]["compression"]
    except (KeyError, TypeError):
        return dask.config.get("distributed.comm.compression")


def is_small(value, left: int) -> int:
    """How many of `left` plain items remain when those of `value` are counted; < 0: not small."""
    kind = type(value)
    if kind in SIMPLE_TYPES:
        return left - 1
    if kind in SHORT_TYPES:
        return left - 1 if len(value) <= 256 else -1
    if kind not in CONTAINER_TYPES or len(value) > left:
        return -1
    left -= 1  # before what is inside, which may be the value itself
    items = value.items() if kind is dict else value
    for item in items:
        if left < 0:
            break
        left = is_small(item, left)
    return left


def exports_buffer(value) -> bool:
    """True for values whose bytes can be sent from where they lie: plain NumPy arrays and bytes."""
    kind = type(value)
    if kind in SHORT_TYPES:
        return kind is not str
    if is_array(kind):
        flags = value.flags
        return not value.dtype.hasobject and (flags.c_contiguous or flags.f_contiguous)
    return False


def own(value):
    """`value`, or in place of a view that alone keeps a much larger array alive, a copy of it.

    Dask does so for slices of its arrays. What a function cut out of something temporary (the inner
    bins of a histogram) is as frequent; as it is, it holds memory that no one counts, and whoever sends
    it copies it. The caller has the value from its caller, and nobody else may have it.
    """
    if not is_array(type(value)):
        return value
    base = value.base
    if (
        base is None
        or not is_array(type(base))
        or not base.flags.owndata
        or base.nbytes < 2 * value.nbytes
        or value.nbytes > COPIED_BYTES
        or value.dtype.hasobject
        or not value.flags.writeable
        or sys.getrefcount(base) > 3
        or sys.getrefcount(value) > 4
    ):
        return value
    return value.copy(order="K")


def is_array(kind: type) -> bool:
    return kind.__module__ == "numpy" and kind.__name__ == "ndarray"


def pack(value) -> tuple[tuple, str]:
    """The payload of any value, by the serializers stock would use, and why it failed, or "".

    A value that cannot be serialized becomes a payload that raises where it is read, as in stock.
    """
    wanted = compression()
    if not wanted and is_array(type(value)) and is_plain(value):
        return pack_array(value), ""
    return pack_by_stock(value, wanted)


def pack_failure(value, error: BaseException) -> tuple:
    """A payload that raises where it is read; for a value that ends more than its own pickling."""
    def refuse(self, protocol):
        raise TypeError(repr(error))

    stand_in = type(type(value).__name__, (), {"__reduce_ex__": refuse})
    return pack_by_stock(stand_in(), None)[0]


def is_plain(array) -> bool:
    """Whether stock sends nothing but a header and the bytes: numbers, in one frame."""
    dtype = array.dtype
    return (dtype.kind in "biuf" and dtype.itemsize <= 8 and 0 < array.nbytes < WHOLE_BELOW
            and 0 not in array.strides)  # fmt: skip


def pack_array(array) -> tuple:
    """The payload of a plain array. Stock's header says what kind of array it is, not what is in it,
    and to make one takes longer than many a task: it is made once per kind."""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy(order="C")  # as stock does
    kind = array.dtype, array.shape, array.strides, array.flags.writeable
    header = _array_headers.get(kind)
    if header is not None:
        return SERIALIZED, header, [array.ravel(order="K").data]
    payload = pack_by_stock(array, None)[0]
    if len(_array_headers) < _MOST_ARRAY_KINDS and len(payload[2]) == 1:
        _array_headers[kind] = payload[1]
    return payload


def pack_by_stock(value, wanted) -> tuple[tuple, str]:
    """The payload by stock's serializers, compressed as `wanted`."""
    header, frames = serialize_and_split(Serialize(value), size=None if wanted else WHOLE_BELOW)
    if wanted:
        compression = list(header.get("compression", [None] * len(frames)))
        for i, frame in enumerate(frames):
            if compression[i] is None:
                compression[i], frames[i] = maybe_compress(frame, compression=wanted)
        header["compression"] = tuple(compression)
    header["num-sub-frames"] = len(frames)
    packed = msgpack.dumps(header, default=msgpack_encode_default, use_bin_type=True)
    failure = ""
    if header.get("serializer") == "error":
        failure = f"Could not serialize object of type {type(value).__name__}"
    return (SERIALIZED, packed, frames), failure


def unpack(payload):
    """The value of a payload."""
    kind, header, frames = payload
    if kind == SERIALIZED:
        if header == _PICKLE_HEADER:
            return pickle.loads(frames[0])
        if (read := _array_readers.get(header)) is not None:
            return read(frames[0])
    # Stock's readers index and slice frames, so they get memoryviews.
    frames = [memoryview(frame) for frame in frames]
    if kind == PICKLED:
        header = msgpack.loads(header)
        if "compression" in header:
            frames = decompress(header, frames)
        return pickle.loads(header["pickled-obj"], buffers=frames)
    if kind == SERIALIZED:
        told = msgpack.loads(
            header, object_hook=msgpack_decode_default, use_list=False, **msgpack_opts
        )
        if is_plain_header(told) and len(_array_readers) < _MOST_ARRAY_KINDS:
            _array_readers[header] = array_reader(told["sub-header"])
        if "compression" in told:
            frames = decompress(told, frames)
        return merge_and_deserialize(told, frames)
    return loads([header, *frames])


def is_plain_header(header: dict) -> bool:
    """Whether stock would make of one frame, as it is, an array of numbers."""
    if (
        header.get("serializer") != "dask"
        or header.get("type") != "numpy.ndarray"
        or header.get("compression", (None,)) != (None,)
        or header.get("split-num-sub-frames") != (1,)
        or header.get("num-sub-frames") != 1
    ):
        return False
    array = header["sub-header"]
    return set(array) == {"dtype", "shape", "strides", "writeable"} and not array["dtype"][0]


def array_reader(header: dict) -> Callable:
    """Makes arrays of one kind of their bytes, as stock does when it has read the header."""
    import numpy as np

    dtype, shape, strides = np.dtype(header["dtype"][1]), header["shape"], header["strides"]
    (writeable,) = header["writeable"]

    def read(frame):
        array = np.ndarray(shape, dtype, frame, 0, strides)
        if array.flags.writeable == writeable:
            return array
        if writeable:
            return np.require(array, requirements=["W"])
        array.flags.writeable = False
        return array

    return read
