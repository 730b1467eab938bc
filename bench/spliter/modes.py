"""The ways to run one application: on blocks, on partitions, on materialised ones, after a rechunk.

`prepare(mode, data)` gives `Units`: what one task takes. An application is written once against
them, and so does the same work in every mode.

Modes: "baseline" a task per block · "spliter" a task per partition, a kernel call per block ·
"materialized" one call per partition, joined once where it is · "rechunk-lazy" Dask's rechunk inside
each pass · "rechunk-persisted" once before · "rechunk-p2p" once, by P2P as it is today ·
"rechunk-2023" by P2P as the paper had it: no independent parts, no small pieces joined first ·
"baseline-blocks" blocks taken by `x.blocks[k]`, as the published application did.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
from distributed import Future, wait

import rask.spliter

MODES = ("baseline", "spliter", "materialized", "rechunk-lazy", "rechunk-persisted", "rechunk-p2p")
FAN_IN = 50


@dataclass
class Data:
    """A persisted array cut along its first axis, and into how many pieces a rechunk should go."""

    client: Any
    x: Any
    pieces: int
    per: str = "thread"

    def futures(self, x: Any = None) -> list[Future]:
        x = self.x if x is None else x
        graph = x.__dask_graph__()
        return [graph[x.name, i, 0] for i in range(x.numblocks[0])]

    def rechunked(self, method: str) -> Any:
        rows = self.x.shape[0]
        cuts = [rows * i // self.pieces for i in range(self.pieces + 1)]
        lengths = tuple(b - a for a, b in itertools.pairwise(cuts))
        return self.x.rechunk((lengths, (self.x.shape[1],)), method=method)


class Units:
    """What one task takes. `offsets` says where each unit's rows are in the whole array."""

    def __init__(self, client: Any):
        self.client = client

    def each(self, fn: Callable[..., Any], *args: Any) -> list[Future]:
        """`fn(block, rows, *args)` for every unit."""
        raise NotImplementedError

    def total(self, kernel: Callable[..., Any], merge: Callable[..., Any], **kwargs: Any) -> Future:
        """`kernel(block, **kwargs)` for all blocks, merged."""
        raise NotImplementedError


class Blocks(Units):
    """A future per block; merged by a tree."""

    def __init__(self, client: Any, futures: list[Future], lengths: tuple[int, ...]):
        super().__init__(client)
        self.futures = futures
        self.offsets = _offsets(lengths)

    def each(self, fn: Callable[..., Any], *args: Any) -> list[Future]:
        return [self.client.submit(fn, block, first, *args, pure=False)
                for block, first in zip(self.futures, self.offsets)]

    def total(self, kernel: Callable[..., Any], merge: Callable[..., Any], **kwargs: Any) -> Future:
        return tree(self.client, self.client.map(kernel, self.futures, pure=False, **kwargs), merge)


class Lazy(Units):
    """Blocks of an array that is not persisted: computed anew in every pass."""

    def __init__(self, client: Any, x: Any, blocks: list[Any] | None = None):
        super().__init__(client)
        self.blocks = x.to_delayed().ravel().tolist() if blocks is None else blocks
        self.offsets = _offsets(x.chunks[0])

    def each(self, fn: Callable[..., Any], *args: Any) -> list[Future]:
        call = dask.delayed(fn, pure=False)
        return self.client.compute([call(block, first, *args)
                                    for block, first in zip(self.blocks, self.offsets)])

    def total(self, kernel: Callable[..., Any], merge: Callable[..., Any], **kwargs: Any) -> Future:
        call, join = dask.delayed(kernel, pure=False), dask.delayed(merge, pure=False)
        level = [call(block, **kwargs) for block in self.blocks]
        while True:
            level = [join(level[i:i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
            if len(level) == 1:
                return self.client.compute(level[0])


class Published(Lazy):
    """Blocks taken by `x.blocks[k]`, in every pass: each look takes as long as there are blocks, and
    makes a layer and two more tasks."""

    def __init__(self, client: Any, x: Any):
        super().__init__(client, x, [])
        self.x = x

    def total(self, kernel: Callable[..., Any], merge: Callable[..., Any], **kwargs: Any) -> Future:
        self.blocks = [self.x.blocks[k].to_delayed()[0, 0] for k in range(self.x.numblocks[0])]
        return super().total(kernel, merge, **kwargs)


class Parts(Units):
    """Partitions from where blocks are."""

    def __init__(self, client: Any, parts: Any):
        super().__init__(client)
        self.parts = parts

    def each(self, fn: Callable[..., Any], *args: Any) -> list[Future]:
        return [part.submit(_on_parts(fn), part.get_item_indexes(), *args, pass_as="list",
                            pure=False) for part in self.parts]

    def total(self, kernel: Callable[..., Any], merge: Callable[..., Any], **kwargs: Any) -> Future:
        return self.parts.reduce(merge, kernel, many=True, pure=False, **kwargs)


def _on_parts(fn: Callable[..., Any]) -> Callable[..., Any]:
    from spliter import kernels

    return {kernels.fit_svm: kernels.fit_svm_parts, kernels.fit_tree: kernels.fit_tree_parts}[fn]


def _offsets(lengths: tuple[int, ...]) -> list[int]:
    return [0, *itertools.accumulate(lengths)][:len(lengths)]


def tree(client: Any, level: list[Future], merge: Callable[..., Any], fan_in: int = FAN_IN) -> Future:
    """Partials merged by tasks of `fan_in` each; the last merge is made even of one."""
    while True:
        level = [client.submit(merge, level[i:i + fan_in], pure=False)
                 for i in range(0, len(level), fan_in)]
        if len(level) == 1:
            return level[0]


def prepare(mode: str, data: Data, passes: int = 1) -> tuple[Units, dict[str, float]]:
    """The units of a mode, and seconds of parts of the preparation that are worth knowing."""
    client, x = data.client, data.x
    if mode == "baseline":
        return Blocks(client, data.futures(), x.chunks[0]), {}
    if mode == "baseline-blocks":
        return Published(client, x), {}
    if mode in ("spliter", "materialized"):
        started = time.perf_counter()
        parts = rask.spliter(x, per=data.per)
        seconds = {"split": time.perf_counter() - started}
        if mode == "materialized":
            parts = parts.materialize()
        elif passes > 1:
            parts = parts.hold()
        return Parts(client, parts), seconds
    if mode == "rechunk-lazy":
        return Lazy(client, data.rechunked("tasks")), {}
    started = time.perf_counter()
    y = {"rechunk-persisted": lambda: data.rechunked("tasks"),
         "rechunk-p2p": lambda: data.rechunked("p2p"),
         "rechunk-2023": lambda: p2p_of_2023(data)}[mode]()
    y = y.persist()
    wait(y)
    return (Blocks(client, data.futures(y), y.chunks[0]),
            {"rechunk": time.perf_counter() - started})


def p2p_of_2023(data: Data) -> Any:
    """P2P rechunk as it was in spring 2023: one shuffle of all blocks, through the disk."""
    from unittest.mock import patch

    from distributed.shuffle import _rechunk

    def whole(old_to_new: list[Any]) -> Any:
        return tuple((slice(0, len(axis)),) for axis in old_to_new)

    # The graph is made here, not in the scheduler, so that what is patched here counts.
    with (patch.object(_rechunk, "_slice_new_chunks_into_partials", whole),
          patch.object(_rechunk, "_calculate_prechunking", lambda old, *_: old),
          dask.config.set({"distributed.p2p.storage.disk": True})):
        y = data.rechunked("p2p")
        graph = dict(y.__dask_graph__())
    return da.Array(graph, y.name, y.chunks, dtype=y.dtype)
