"""Partitions back into Dask collections, and Dask's own rechunk beside them.

An untouched split gives its collection back. Mapped partitions become a collection with the same
grid of blocks; materialised ones a collection whose blocks are the partitions, in their order: rows
are then grouped by worker, and `get_item_indexes()` says where each came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed import Future

from rask.spliter import indexes as places
from rask.spliter import tasks
from rask.spliter.collection import SpliterError

if TYPE_CHECKING:
    from rask.spliter.partitions import Partitions


def collected(parts: Partitions) -> Any:
    source = parts.source
    if all(part.held is None for part in parts):
        return source.collection
    blocks = _blocks(parts)
    if source.kind == "futures":
        return blocks
    if source.kind == "bag":
        import dask.bag

        name = f"spliter-{parts[0].token[-32:]}"
        return dask.bag.Bag({(name, i): block for i, block in enumerate(blocks)}, name, len(blocks))
    if source.kind == "dataframe":
        import dask.dataframe

        return dask.dataframe.from_delayed(blocks, verify_meta=False)
    return _array(parts, blocks)


def _blocks(parts: Partitions) -> list[Future]:
    """Futures of all blocks in array order, or of the joined partitions in their order."""
    if parts.joined is not None:
        return [part.held for part in parts]
    found: list[Any] = [None] * len(parts.source.blocks)
    for part in parts:
        for number, block in zip(part.numbers, part.blocks):
            found[number] = block
    return found


def _array(parts: Partitions, blocks: list[Future]) -> Any:
    import dask.array

    extents = parts.extents()
    dtype = extents[0][1]
    if dtype is None:
        raise SpliterError("the results are not arrays; take the futures, or a reduce")
    if parts.joined is None:
        chunks, shape = parts.lengths(), parts.source.shape
    else:
        chunks, shape = _stacked([lengths for lengths, _ in extents], parts)
    name = f"spliter-{parts[0].token[-32:]}"
    graph = {(name, *tasks.place_of(i, shape)): block for i, block in enumerate(blocks)}
    return dask.array.Array(graph, name, chunks, dtype=dtype)


def _stacked(lengths: list[tuple[int, ...]],
             parts: Partitions) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Chunks of an array that has the joined partitions one after the other along one axis."""
    axis = places.default_axis(parts.source.shape)
    if any(a[:axis] + a[axis + 1:] != lengths[0][:axis] + lengths[0][axis + 1:] for a in lengths):
        raise SpliterError("the joined partitions differ in shape, so they are no Dask array; "
                           "work on them by map or reduce")
    chunks = [(length,) for length in lengths[0]]
    if chunks:
        chunks[axis] = tuple(length[axis] for length in lengths)
    return tuple(chunks), tuple(len(axis) for axis in chunks)


def rechunked(parts: Partitions, method: str) -> Any:
    """The collection in as many blocks as there are partitions, all along one axis. Lazy."""
    if method not in ("tasks", "p2p"):
        raise ValueError(f"method={method!r} is not \"tasks\" or \"p2p\"")
    source, count = parts.source, len(parts)
    if source.kind == "futures":
        raise SpliterError("a list of futures has no order to cut anew; rechunk a collection")
    x = source.collection
    if source.kind != "array":
        if method == "p2p":
            raise SpliterError(f"P2P cuts arrays anew, not a {source.kind}; take method=\"tasks\"")
        return x.repartition(npartitions=count)
    if not source.known():
        raise SpliterError("rechunk needs known chunk sizes; call x.compute_chunk_sizes() first")
    axis = places.default_axis(source.shape)
    total = sum(source.chunks[axis]) if source.chunks else 0
    cuts = places.even_cuts(total, count)
    lengths = tuple(b - a for a, b in zip(cuts, cuts[1:]) if b > a) or (total,)
    chunks = {a: -1 for a in range(x.ndim)} | {axis: lengths} if x.ndim else ()
    return x.rechunk(chunks, method=method)
