"""Values as bytes: what a worker sends to peers and clients, and what it gets back.

A payload is `(kind, header, frames)`: kind 1 is Dask's `__Serialized__` bundle (msgpack sub-header
and sub-frames), kind 2 its `__Pickled__` bundle, kind 3 a value with such bundles inside it and
kind 0 plain msgpack. The native side carries payloads without looking inside. Any form stock's
`distributed.protocol` can read is legal; simple values take a short cut through pickle, all others
go through stock's own serializers.
"""

from __future__ import annotations

import pickle

import msgpack
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

SERIALIZED = 1
PICKLED = 2

#: Types whose pickle is small and cheap, so they are packed while the GIL is held anyway.
SIMPLE_TYPES = frozenset({int, float, bool, complex, type(None)})
SHORT_TYPES = frozenset({str, bytes, bytearray})
EAGER_BYTES = 64 * 1024

_PICKLE_HEADER = msgpack.dumps(
    {
        "serializer": "pickle",
        "writeable": [],
        "compression": [None],
        "num-sub-frames": 1,
    }
)


def pack_if_cheap(value):
    """The payload of `value` if making it costs next to nothing, else None."""
    kind = type(value)
    if kind in SIMPLE_TYPES or (kind in SHORT_TYPES and len(value) <= EAGER_BYTES):
        return SERIALIZED, _PICKLE_HEADER, (pickle.dumps(value, 5),)
    if exports_buffer(value):
        return pack(value)
    return None


def exports_buffer(value) -> bool:
    """True for values whose bytes can be sent from where they lie: plain NumPy arrays and bytes."""
    kind = type(value)
    if kind in SHORT_TYPES:
        return True
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        flags = value.flags
        return not value.dtype.hasobject and (flags.c_contiguous or flags.f_contiguous)
    return False


def pack(value):
    """The payload of any value, by the serializers stock would use."""
    header, frames = serialize_and_split(Serialize(value))
    compression = list(header.get("compression", [None] * len(frames)))
    for i, frame in enumerate(frames):
        if compression[i] is None:
            compression[i], frames[i] = maybe_compress(frame)
    header["compression"] = tuple(compression)
    header["num-sub-frames"] = len(frames)
    packed = msgpack.dumps(header, default=msgpack_encode_default, use_bin_type=True)
    return SERIALIZED, packed, frames


def unpack(payload):
    """The value of a payload."""
    kind, header, frames = payload
    if kind == SERIALIZED and header == _PICKLE_HEADER:
        return pickle.loads(frames[0])
    # Stock's readers index and slice frames, so they get memoryviews.
    frames = [memoryview(frame) for frame in frames]
    if kind == PICKLED:
        header = msgpack.loads(header)
        if "compression" in header:
            frames = decompress(header, frames)
        return pickle.loads(header["pickled-obj"], buffers=frames)
    if kind == SERIALIZED:
        header = msgpack.loads(
            header, object_hook=msgpack_decode_default, use_list=False, **msgpack_opts
        )
        if "compression" in header:
            frames = decompress(header, frames)
        return merge_and_deserialize(header, frames)
    return loads([header, *frames])
