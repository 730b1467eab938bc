"""What `spliter` can take apart: a persisted Dask array, DataFrame or bag, or a list of futures.

A `Source` is the collection as blocks in array order: one future per block, its place in the grid
of blocks, and how long the blocks are along each axis where that is known. Everything that can be
wrong with the input is found here or in `states.py` and said in one sentence.

Invariant: blocks are in array order (C order of the grid), and no key occurs twice.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from distributed import Future, default_client


class SpliterError(ValueError):
    """The collection cannot be split as asked; the text says why and what to do."""


@dataclass
class Source:
    """A collection as blocks in array order."""

    kind: str  # "array", "dataframe", "bag" or "futures"
    blocks: list[Future]
    shape: tuple[int, ...]  # of the grid of blocks
    chunks: tuple[tuple[float, ...], ...] | None  # lengths per axis, nan where unknown
    collection: Any
    client: Any
    name: str | None = None  # if the keys of all blocks are this and their place

    def label(self, numbers: list[int]) -> bytes:
        """Says which blocks these are, as bytes."""
        if self.name is None:
            return repr([self.blocks[i].key for i in numbers]).encode()
        return self.name.encode() + array("q", numbers).tobytes()

    @property
    def itemsize(self) -> int | None:
        """Bytes of one element, if all elements have as many."""
        dtype = getattr(self.collection, "dtype", None) if self.kind == "array" else None
        return None if dtype is None or dtype.hasobject else dtype.itemsize

    def known(self) -> bool:
        return self.chunks is not None and not any(any(map(math.isnan, axis)) for axis in self.chunks)

    def names(self, numbers: list[int]) -> str | list[Any]:
        """Keys of these blocks; their common name where the rest of a key is the block's place."""
        return self.name if self.name is not None else [self.blocks[i].key for i in numbers]


def read(x: Any, client: Any = None) -> Source:
    """`x` as a Source; SpliterError or TypeError in words if it is not one."""
    kind, name = _kind(x), None
    if kind == "futures":
        blocks = _futures(list(x))
        shape, chunks = (len(blocks),), None
    else:
        keys, held = _array(x) if kind == "array" else _keys(x, kind)
        blocks = _persisted(keys, held, kind)
        shape = x.numblocks if kind == "array" else (len(blocks),)
        chunks = x.chunks if kind == "array" else None
    client = client or (blocks[0].client if blocks else default_client())
    if not blocks:
        raise SpliterError(f"nothing to split: the {kind} has no blocks")
    found = [block.key for block in blocks]
    # An array may also be made of any futures, whose keys then say nothing of their places.
    if kind == "array" and found == keys:
        name = x.name
    elif len(set(found)) != len(found):
        raise SpliterError("a block occurs twice; each block may be in one partition only")
    if any(other is not client for other in _clients(blocks)):
        raise SpliterError("the blocks belong to different clients; gather them under one")
    if client.asynchronous:
        raise TypeError("spliter needs a synchronous client; this one is asynchronous")
    return Source(kind, blocks, tuple(shape), chunks, x, client, name)


def _clients(blocks: list[Future]) -> set[Any]:
    """Whose the blocks are. What `Future.client` looks up for each costs more than all the rest."""
    found = {block._client for block in blocks}
    return found if None not in found else {block.client for block in blocks}


def _kind(x: Any) -> str:
    if isinstance(x, (list, tuple)):
        return "futures"
    module, name = type(x).__module__, type(x).__name__
    if module.startswith("dask.array") and name == "Array":
        return "array"
    if module.startswith("dask.bag") and name == "Bag":
        return "bag"
    if module.startswith("dask.dataframe") and name in ("DataFrame", "Series", "Index"):
        return "dataframe"
    raise TypeError("spliter takes a persisted Dask array, DataFrame or bag, or a list of futures;"
                    f" got {type(x).__name__}")


def _futures(items: list[Any]) -> list[Future]:
    for position, item in enumerate(items):
        if not isinstance(item, Future):
            raise TypeError(f"element {position} of the list is a {type(item).__name__}, "
                            "not a future")
    return items


def _array(x: Any) -> tuple[list[Any], Mapping[Any, Any]]:
    keys = list(product([x.name], *map(range, x.numblocks)))
    graph = x.__dask_graph__()
    # The blocks of a persisted array are one layer; to flatten the graph would copy them all.
    layer = graph.layers.get(x.name) if hasattr(graph, "layers") else None
    return keys, getattr(layer, "mapping", None) or dict(graph)


def _keys(x: Any, kind: str) -> tuple[list[Any], dict[Any, Any]]:
    from dask.core import flatten

    # A persisted DataFrame is an expression over a dict; its own keys are names not yet lowered.
    expr = getattr(x, "expr", None)
    if kind == "dataframe" and expr is not None:
        if type(expr).__name__ != "FromGraph":
            raise _unpersisted(kind)
        return list(expr.operand("keys")), dict(expr.operand("layer"))
    return list(flatten(x.__dask_keys__())), dict(x.__dask_graph__())


def _persisted(keys: list[Any], held: Mapping[Any, Any], kind: str) -> list[Future]:
    # To compare keys in their order takes half as long as to look each of them up.
    blocks = list(held.values()) if list(held) == keys else list(map(held.get, keys))
    if not all(issubclass(kind_of, Future) for kind_of in set(map(type, blocks))):
        raise _unpersisted(kind)
    return blocks


def _unpersisted(kind: str) -> SpliterError:
    return SpliterError(f"the {kind} is not persisted, so its blocks are on no worker; "
                        f"call x = x.persist() first (also after slicing or mapping)")
