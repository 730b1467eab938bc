"""Writes one submission to the link: keys, blobs, annotation sets and columns of records.

A task record never copies what siblings share: shared bytes are blobs, sent once and named by
number. Records are collected into slices of at most SLICE_RECORDS or about SLICE_BYTES, so that the
scheduler stages a huge graph piece by piece while we still work on the rest.

Invariant: a record goes out after every blob, key and annotation set it names. The columns are
those of scheduler/frontend/README.md.
"""

from __future__ import annotations

import sys
from array import array
from itertools import chain

import msgpack

from rask.graph.link import MEMFD_MIN, Link, Region, address_of

SLICE_RECORDS = 2048
SLICE_BYTES = 3 << 18  # below MEMFD_MIN, so that an ordinary slice goes through the socket
_BLOBS_MAX = 1024
NONE = 0xFFFFFFFF
_ORDINARY = {str, int, float, bytes}

assert array("I").itemsize == 4 and sys.byteorder == "little"


def _plain(key):
    """Numbers that are not Python's own (numpy's, mostly) as msgpack knows them."""
    if hasattr(key, "__index__"):
        return key.__index__()
    if hasattr(key, "__float__"):
        return float(key)
    raise TypeError(f"Unexpected key type {type(key)} (value: {key!r})")


def pack_keys(keys: list) -> bytes:
    if not _are_ordinary(keys):
        for key in keys:
            _check(key)
    return msgpack.packb(keys, use_bin_type=True, default=_plain)


def _are_ordinary(keys: list) -> bool:
    """Whether all are of Dask's types, or flat tuples of them; quick to say for most graphs."""
    kinds = set(map(type, keys))
    if tuple in kinds:
        tuples = keys if len(kinds) == 1 else [key for key in keys if type(key) is tuple]
        kinds.discard(tuple)
        kinds.update(map(type, chain.from_iterable(tuples)))
    return kinds <= _ORDINARY


def _check(key) -> None:
    """What the scheduler would refuse as a key is the graph's fault, not ours."""
    if type(key) is tuple:
        for part in key:
            _check(part)
    elif not isinstance(key, (str, int, float, bytes)):
        _plain(key)


class Emitter:
    def __init__(self, link: Link, submission: int, regions: list[Region] = ()):
        self._link = link
        self._id = submission
        self._regions = [r for r in regions if r.length >= MEMFD_MIN]
        self._blob_count = 0
        self._blobs: list = []  # not sent yet
        self._blob_bytes = 0
        self._refs: list = []
        self._buffer_numbers: dict = {}  # (id of owner, size) -> blob
        self._alive: list = []  # owners, so that ids stay unique
        self._next = 0  # number of the next record's key
        self.fifo_timeout: float | None = None  # to be told to the scheduler, if it asked
        self._new_slice()

    def open(self, append: bool, tasks: int | None) -> None:
        header = {"op": "open", "id": self._id, "append": append, "tasks": tasks}
        if self.fifo_timeout is not None:
            header["fifo_timeout"] = self.fifo_timeout
        self._link.write(header)

    def keys(self, keys: list, outside: bool = False) -> None:
        for at in range(0, len(keys), SLICE_RECORDS):
            packed = pack_keys(keys[at : at + SLICE_RECORDS])
            self._link.write({"op": "keys", "id": self._id, "outside": outside}, [packed])

    def annotations(self, sets: list[dict]) -> None:
        if sets:
            self._link.write({"op": "annotations", "id": self._id, "sets": sets})

    def barriers(self, barriers: list[dict]) -> None:
        if barriers:
            self._flush_blobs()
            self._link.write({"op": "barriers", "id": self._id, "barriers": barriers})

    # ---- blobs --------------------------------------------------------------------------------

    def blob(self, data) -> int:
        """The number of a new blob with these bytes."""
        number = self._blob_count
        self._blob_count += 1
        size = memoryview(data).nbytes
        if size >= MEMFD_MIN and (ref := self._inside(data, size)) is not None:
            self._refs.append((len(self._blobs) + 1, *ref))
            data = b""
        elif size < MEMFD_MIN:
            self._blob_bytes += size
        self._blobs.append(data)
        if self._blob_bytes >= SLICE_BYTES or len(self._blobs) >= _BLOBS_MAX:
            self._flush_blobs()
        return number

    def buffer(self, buffer) -> int:
        """The blob of an out-of-band buffer (PickleBuffer); the same for the same owner."""
        view = buffer.raw()
        owner = memoryview(buffer).obj
        key = (id(owner), view.nbytes)
        number = self._buffer_numbers.get(key)
        if number is None:
            number = self._buffer_numbers[key] = self.blob(view)
            self._alive.append(owner)
        return number

    def _inside(self, data, size: int):
        """(frame, offset, length) if the bytes lie in a memfd the scheduler sent."""
        if not self._regions:
            return None
        address = address_of(data)
        for region in self._regions:
            offset = address - region.address
            if 0 <= offset and offset + size <= region.length:
                return region.frame, offset, size
        return None

    def _flush_blobs(self) -> None:
        if not self._blobs:
            return
        header = {"op": "blobs", "id": self._id}
        if self._refs:
            header["refs"] = self._refs
        self._link.write(header, self._blobs)
        self._blobs, self._refs, self._blob_bytes = [], [], 0

    # ---- records ------------------------------------------------------------------------------

    def _new_slice(self) -> None:
        self._own: list[bytes] = []
        self._own_bytes = 0
        self._dependency_ends = array("I", [0])
        self._dependencies = array("I")
        self._buffer_ends = array("I", [0])
        self._buffers = array("I")
        self._flags = bytearray()
        self._annotation_sets = array("I")
        self._priorities = array("q")
        self._tails = array("I")

    def record(
        self, own: bytes, tail: int, dependencies, buffers, flag: int, annotation: int, priority: int
    ) -> None:
        """One task, for the next key in order. `tail` and `annotation`: NONE for none."""
        self._own.append(own)
        self._own_bytes += len(own)
        self._dependencies.extend(dependencies)
        self._dependency_ends.append(len(self._dependencies))
        if buffers:
            self._buffers.extend(buffers)
        self._buffer_ends.append(len(self._buffers))
        self._flags.append(flag)
        self._annotation_sets.append(annotation)
        self._priorities.append(priority)
        self._tails.append(tail)
        if len(self._own) >= SLICE_RECORDS or self._own_bytes >= SLICE_BYTES:
            self.flush()

    def flush(self) -> None:
        n = len(self._own)
        if not n:
            return
        first_tail = self._tails[0]
        one_tail = self._tails.count(first_tail) == n
        plain_order = self._priorities == array("q", range(self._next, self._next + n))
        self.records(
            self._own,
            tail=first_tail if one_tail else None,
            dependencies=(self._dependency_ends, self._dependencies),
            buffers=(self._buffer_ends, self._buffers),
            flags=self._flags if any(self._flags) else b"",
            annotations=(
                self._annotation_sets if self._annotation_sets.count(NONE) < n else b""
            ),
            priorities=b"" if plain_order else self._priorities,
            tails=b"" if one_tail else self._tails,
        )
        self._new_slice()

    def records(
        self,
        own: list[bytes],
        tail: int | None,
        dependencies=None,
        buffers=None,
        flags=b"",
        annotations=b"",
        priorities=b"",
        tails=b"",
    ) -> None:
        """A whole slice at once; columns that are all defaults may be empty."""
        self._flush_blobs()
        has_dependencies = dependencies is not None and len(dependencies[1])
        has_buffers = buffers is not None and len(buffers[1])
        self._link.write(
            {
                "op": "records",
                "id": self._id,
                "first": self._next,
                "n": len(own),
                "tail": None if tail == NONE else tail,
            },
            [
                array("I", map(len, own)).tobytes(),
                b"".join(own),
                dependencies[0].tobytes() if has_dependencies else b"",
                dependencies[1].tobytes() if has_dependencies else b"",
                buffers[0].tobytes() if has_buffers else b"",
                buffers[1].tobytes() if has_buffers else b"",
                bytes(flags),
                annotations.tobytes() if annotations else b"",
                priorities.tobytes() if priorities else b"",
                tails.tobytes() if tails else b"",
            ],
        )
        self._next += len(own)

    def commit(self) -> None:
        self.flush()
        self._link.write({"op": "commit", "id": self._id})
