"""Pieces of pickles, and how to join them.

A run spec on the template path is one pickle spliced from parts: `own`, the task's own bytes, pushes
its values and its key; `tail`, shared by all tasks of a kind, moves those into the memo, builds the
node around them and stops. The parts are chosen so that they do not disturb each other:

- values are the C pickler's output without PROTO, FRAME and STOP; they own the memo from 0 on;
- keys are written here without memo entries, so they may follow anything;
- a tail says its protocol again (values may be of protocol 3), then stores what it finds on the
  stack with explicit BINPUTs from 0 on, over entries nobody needs any more, and fetches from there;
- anything else (a function by value, constants) is a pickle of its own inside: pickle.loads(<bytes>).
"""

from __future__ import annotations

import pickle
import struct
from types import BuiltinFunctionType, FunctionType

from distributed.protocol.pickle import dumps as dask_dumps

PROTO = b"\x80\x05"
STOP = b"."
SLOTS_MAX = 200  # BINPUT and BINGET name 256 memo entries

_FRAME = 0x95
_FRAMED_MIN = 1 << 16  # what is as long as that lies outside of frames, and a frame of what follows behind it
_LONG = {b"B": 4, b"X": 4, b"\x8e": 8, b"\x8d": 8}  # opcodes of long bytes and strings -> bytes of their length
_NEXT_BUFFER = b"\x97"
_TUPLES = {1: b"\x85", 2: b"\x86", 3: b"\x87"}


class Unspliceable(Exception):
    """The value needs the general path."""


# ---- values -------------------------------------------------------------------------------------


def body(pickled: bytes, nestable: bool = True) -> bytes:
    """The opcodes of one pickled value, to be put into another pickle before anything else.

    `nestable`: false if it uses out-of-band buffers, which a pickle inside would not see.
    """
    if len(pickled) < _FRAMED_MIN and pickled[2] != _FRAME or _is_long_atom(pickled):
        return pickled[2:-1]
    if pickled[2] == _FRAME and int.from_bytes(pickled[3:11], "little") == len(pickled) - 11:
        return pickled[11:-1]
    # Several frames: their lengths would be wrong once the STOP is gone.
    if not nestable:
        raise Unspliceable
    return nested(pickled)


def bodies(values: tuple, pickled: bytes) -> bytes:
    """As body, but pushes the elements of a pickled tuple one by one, not the tuple."""
    if len(pickled) < _FRAMED_MIN and pickled[2] != _FRAME:
        inner = pickled[2:-3]
    elif pickled[2] == _FRAME and int.from_bytes(pickled[3:11], "little") == len(pickled) - 11:
        inner = pickled[11:-3]
    else:
        raise Unspliceable
    return inner[1:] if len(values) > 3 else inner


def _is_long_atom(pickled: bytes) -> bool:
    """One long string or bytes, and behind it at most a MEMOIZE and the STOP, too short for a frame."""
    width = _LONG.get(pickled[2:3])
    return width is not None and len(pickled) - int.from_bytes(pickled[3 : 3 + width], "little") - width <= 5


def nested(pickled) -> bytes:
    """pickle.loads(<pickled>), the bytes inside."""
    return LOADS + b"\x8e" + struct.pack("<Q", len(pickled)) + pickled + b"\x85R"


def key(value) -> bytes:
    """A Dask key, without memo entries."""
    kind = type(value)
    if kind is str:
        data = value.encode("utf-8", "surrogatepass")
        if len(data) < 256:
            return b"\x8c" + bytes((len(data),)) + data
        return b"X" + struct.pack("<I", len(data)) + data
    if kind is int:
        if 0 <= value < 256:
            return b"K" + bytes((value,))
        if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        return body(pickle.dumps(value, 5))
    if kind is tuple:
        parts = b"".join(map(key, value))
        return tuple_of(len(value), parts)
    if kind is float:
        return b"G" + struct.pack(">d", value)
    if kind is bool:
        return b"\x88" if value else b"\x89"
    raise Unspliceable


def keys(values: list) -> list[bytes]:
    """As key, for many; quick for strings of one length, as a map makes them."""
    if set(map(type, values)) == {str}:
        size = len(values[0])
        joined = "".join(values)
        if 0 < size < 256 and joined.isascii() and set(map(len, values)) == {size}:
            data = joined.encode()
            head = b"\x8c" + bytes((size,))
            return [head + data[i : i + size] for i in range(0, len(data), size)]
    return list(map(key, values))


# ---- structure ----------------------------------------------------------------------------------


def tuple_of(count: int, parts: bytes) -> bytes:
    if count == 0:
        return b")"
    if count <= 3:
        return parts + _TUPLES[count]
    return b"(" + parts + b"t"


def get(index: int) -> bytes:
    return b"h" + bytes((index,))


def store(count: int) -> bytes:
    """Moves `count` values from the stack into memo entries 0 to count - 1, in push order."""
    moves = (b"q" + bytes((i,)) + b"0" for i in reversed(range(count)))
    return PROTO + b"".join(moves)


def name(module: str, qualname: str) -> bytes:
    return key(module) + key(qualname) + b"\x93"


def called(function: bytes, count: int, arguments: bytes) -> bytes:
    return function + tuple_of(count, arguments) + b"R"


LOADS = name("pickle", "loads")
LOADS_BUFFER = called(LOADS, 1, _NEXT_BUFFER)  # pickle.loads(<next out-of-band buffer>)
BYTES_BUFFER = called(name("builtins", "bytes"), 1, _NEXT_BUFFER)  # bytes(<the same>)


def by_reference(value) -> bytes | None:
    """The opcodes that import `value`, or None if it must travel by value."""
    if not isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        return None
    qualname = getattr(value, "__qualname__", None) or value.__name__
    try:
        module = pickle.whichmodule(value, qualname)
        if module == "__main__":
            return None
        opcodes = name(module, qualname)
        return opcodes if pickle.loads(PROTO + opcodes + STOP) is value else None
    except Exception:
        return None


def embedded(value) -> bytes:
    """Opcodes for any value, independent of what surrounds them; by value where stock does so."""
    return by_reference(value) or nested(dask_dumps(value))
