"""Partitions: the blocks of a collection that sit on one worker, as one unit of work.

`Partitions` is a sequence of `Partition`s with the operations on them. A partition either lists
its blocks (one future each) or is held: one future, on the home worker, that refers to all of them;
`hold()` and `map_blocks()` give held ones, on which a task has one dependency instead of many.

Invariant: a task on a partition depends on its blocks by key, and its pin is soft. Where the blocks
were when the split was made decides how fast a task runs, never what it gives.
"""

from __future__ import annotations

import array
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dask._task_spec import TaskRef
from distributed import Future

from rask.spliter import indexes as places
from rask.spliter import placement, states, tasks
from rask.spliter.collection import Source, SpliterError, read
from rask.spliter.submission import Batch, call_token, key_for, token_of

MANY = 256  # blocks, of which it pays to tell by their name and numbers
PASS_AS = ("iter", "list", "concat")


@dataclass(eq=False)
class Partition:
    """Blocks that sit on one worker, in array order."""

    number: int
    worker: str
    numbers: list[int]  # of the blocks, counted in array order
    token: str
    owner: Partitions = field(repr=False)
    held: Future | None = field(default=None, repr=False)

    @property
    def blocks(self) -> list[Future]:
        """One future per block, in array order; a held partition makes them when asked."""
        if self.held is None:
            source = self.owner.source.blocks
            return [source[i] for i in self.numbers]
        return self.owner.block_futures(self)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Future]:
        return iter(self.blocks)

    def submit(self, fn: Callable[..., Any], *args: Any, pass_as: str = "iter", pure: bool = True,
               retries: int = 0, priority: int = 0, **kwargs: Any) -> Future:
        """`fn(blocks, *args, **kwargs)` on this partition alone, as `Partitions.map` does on each:
        for arguments that differ by partition, such as its item indexes."""
        return self.owner.map_some([self], fn, args, kwargs, pass_as, pure,
                                   {"retries": retries, "priority": priority})[0]

    def input(self) -> Any:
        """What a task on this partition takes as its blocks."""
        source = self.owner.source
        if self.held is None and source.name is not None and len(self) >= MANY:
            return tasks.refs(source.name, source.shape, array.array("I", self.numbers))
        if self.held is None:
            return [TaskRef(source.blocks[i].key) for i in self.numbers]
        return self.held if self.owner.joined is None else [self.held]

    def places(self) -> list[tuple[int, ...]]:
        return [tasks.place_of(i, self.owner.source.shape) for i in self.numbers]

    def get_indexes(self) -> list[Any]:
        """Places of the blocks in the collection: tuples for arrays, numbers otherwise."""
        return self.places() if self.owner.source.kind == "array" else list(self.numbers)

    def get_item_indexes(self, axis: int | str | None = None) -> Any:
        """Positions in the collection of this partition's items, in the partition's order.

        Counted along `axis`; by default the only axis with several blocks, else the first. "flat"
        counts elements of the flattened array. Lengths that are not known are measured once, by
        one task per partition.
        """
        return self.owner.item_indexes(self, axis)


class Partitions(Sequence[Partition]):
    """What `rask.spliter` gives: partitions of a collection, and what can be done with them."""

    def __init__(self, source: Source, per: str | int, cut: str,
                 groups: list[tuple[str, list[int]]]):
        self.source = source
        self.client = source.client
        self.per = per
        self.cut = cut
        # How the blocks of a partition were joined, once `materialize` did.
        self.joined: list[places.Layout] | None = None
        self._measured: Any = None
        self._groups: list[tuple[str, list[int], str, Future | None]] = [
            (worker, numbers, token_of(worker, source.label(numbers)), None)
            for worker, numbers in groups]

    @property
    def parts(self) -> list[Partition]:
        # Made anew each time: kept, they and this object would hold each other, and blocks that
        # nobody wants any more would stay on the workers until the garbage collector comes by.
        return [Partition(number, worker, numbers, token, self, held)
                for number, (worker, numbers, token, held) in enumerate(self._groups)]

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, index: Any) -> Any:
        return self.parts[index]

    def __repr__(self) -> str:
        blocks = sum(len(numbers) for _, numbers, _, _ in self._groups)
        workers = len({worker for worker, _, _, _ in self._groups})
        return (f"<{len(self.parts)} partitions of {blocks} {self.source.kind} blocks "
                f"on {workers} workers>")

    # ---- work ------------------------------------------------------------------------------

    def map(self, fn: Callable[..., Any], *args: Any, pass_as: str = "iter", pure: bool = True,
            retries: int = 0, priority: int = 0, **kwargs: Any) -> list[Future]:
        """One task per partition: `fn(blocks, *args, **kwargs)`. Gives one future each, in order.

        `pass_as`: "iter", an iterator of the blocks; "list"; "concat", one object made of them.
        Futures among the arguments arrive as their results.
        """
        return self.map_some(self.parts, fn, args, kwargs, pass_as, pure,
                             {"retries": retries, "priority": priority})

    def map_some(self, parts: Sequence[Partition], fn: Callable[..., Any], args: tuple[Any, ...],
                 kwargs: dict[str, Any], pass_as: str, pure: bool,
                 options: dict[str, Any]) -> list[Future]:
        if pass_as not in PASS_AS:
            raise ValueError(f"pass_as={pass_as!r} is not one of {PASS_AS}")
        return self._run("whole", fn, args, kwargs, pure, options, parts, pass_as=pass_as)

    def map_blocks(self, fn: Callable[..., Any], *args: Any, pure: bool = True, retries: int = 0,
                   priority: int = 0, **kwargs: Any) -> Partitions:
        """`fn(block, *args, **kwargs)` for every block, one task per partition.

        Gives held partitions of the results in the same places; `to_dask()` makes a collection.
        """
        futures = self._run("each", fn, args, kwargs, pure,
                            {"retries": retries, "priority": priority})
        return self._holding(futures, "each")

    def reduce(self, combine: Callable[..., Any], fn: Callable[..., Any] | None = None, *args: Any,
               many: bool = False, ordered: bool = False, split_every: int = 8, pure: bool = True,
               retries: int = 0, priority: int = 0, **kwargs: Any) -> Future:
        """All of `fn(block, *args, **kwargs)` combined, near the blocks first. Gives one future.

        Partials are combined inside a partition, then on its worker, then over workers by a tree
        of `split_every`. `combine` takes two partials, or with `many=True` a list of them, and
        must be associative and commutative: what is combined with what depends on where blocks
        are. For any other, `ordered=True` combines the results of single blocks in array order,
        in one task, at the price of moving them all there.
        """
        from rask.spliter.reduction import tree

        return tree(self, combine, fn, args, kwargs, many=many, ordered=ordered,
                    split_every=split_every, pure=pure,
                    options={"retries": retries, "priority": priority})

    def materialize(self) -> Partitions:
        """One contiguous object per partition, made on its worker. Needs the memory twice while
        the blocks live. Gives held partitions of one block each."""
        layouts = [self.layout_of(part) for part in self.parts]
        batch = Batch(self.client)
        keys = [self.add(batch, part, "join", tasks.join, "join", (), {}, {}, layout=layout)
                for part, layout in zip(self.parts, layouts)]
        joined = self._holding(batch.send(keys), "join")
        joined.joined = layouts
        return joined

    def hold(self) -> Partitions:
        """The same partitions, each as one value on its worker that refers to the blocks.

        Tasks then depend on one key, not on every block: for many passes over many blocks. Held
        blocks stay in memory: the worker cannot spill them to any use. Partitions of one block each
        are left as they are.
        """
        if any(part.held is not None for part in self.parts) or all(len(part) == 1 for part in self.parts):
            return self
        batch = Batch(self.client)
        keys = [batch.add(key_for(tasks.hold, part.token), tasks.hold, part.input(), home=part.worker)
                for part in self.parts]
        return self._holding(batch.send(keys), "hold")

    # ---- collections -----------------------------------------------------------------------

    def rechunk(self, method: str = "tasks") -> Any:
        """The collection cut anew into as many blocks as there are partitions: Dask's way."""
        from rask.spliter.collections_out import rechunked

        return rechunked(self, method)

    def to_dask(self) -> Any:
        """A Dask collection (or a list of futures, if that was given) of the partitions' blocks.

        Materialised partitions are the blocks of the result, in the order of the partitions.
        """
        from rask.spliter.collections_out import collected

        return collected(self)

    def refresh(self, timeout: float | None = None) -> Partitions:
        """Asks again where the blocks are; new partitions if that has changed, else these."""
        if any(part.held is not None for part in self.parts):
            return self
        groups = cut_groups(self.source, self.per, self.cut, timeout)
        if groups == [(part.worker, part.numbers) for part in self.parts]:
            return self
        return Partitions(self.source, self.per, self.cut, groups)

    # ---- places ----------------------------------------------------------------------------

    def lengths(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the blocks along each axis; measured if the collection does not know."""
        if self._measured is None:
            known = self.source.known() and not self._changed
            self._measured = self.source.chunks if known else self._measure()[0]
        return self._measured

    _changed = False

    def item_indexes(self, part: Partition, axis: int | str | None) -> Any:
        chunks = self.lengths()
        if axis == "flat":
            return places.flat_items(part.places(), chunks)
        if axis is None:
            axis = places.default_axis(self.source.shape)
        if not isinstance(axis, int) or not -len(chunks) <= axis < len(chunks):
            raise ValueError(f"axis={axis!r}: the blocks have {len(chunks)} axes; or \"flat\"")
        axis %= len(chunks)
        found = part.places()
        if self.joined is not None:
            how, where, _ = self.joined[part.number]
            if how == "box" or where != axis:
                # Joined side by side, blocks that share a place along this axis share items.
                found = [(0,) * axis + (i,) for i in sorted({index[axis] for index in found})]
        return places.items(found, chunks, axis)

    def layout_of(self, part: Partition) -> places.Layout:
        return self.layout_for(part.numbers)

    def layout_for(self, numbers: list[int]) -> places.Layout:
        """How these blocks can be joined into one."""
        if self.source.kind != "array":
            return "axis", 0, None
        chunks = None if not self.source.known() or self._changed else self.source.chunks
        try:
            return places.layout([tasks.place_of(i, self.source.shape) for i in numbers],
                                 chunks)
        except ValueError as error:
            raise SpliterError(str(error)) from None

    def extents(self) -> list[tuple[tuple[int, ...], Any]]:
        """(lengths, dtype) of every block, in array order, measured by one task per partition."""
        batch = Batch(self.client)
        futures = batch.send([self.add(batch, part, "measure", tasks.extent, "extent", (), {}, {})
                              for part in self.parts])
        found: list[Any] = [None] * (len(self) if self.joined else len(self.source.blocks))
        for part, extents in zip(self.parts, self.client.gather(futures)):
            for i, extent in zip([part.number] if self.joined else part.numbers, extents):
                found[i] = extent
        return found

    def _measure(self) -> tuple[tuple[tuple[int, ...], ...], Any]:
        extents = self.extents()
        shape = self.source.shape
        axes: list[dict[int, int]] = [{} for _ in shape]
        for number, (lengths, _) in enumerate(extents):
            index = tasks.place_of(number, shape)
            if len(lengths) < len(shape):
                raise SpliterError(f"block {index} has no length, so its items have no numbers")
            for axis, place in enumerate(index):
                if axes[axis].setdefault(place, lengths[axis]) != lengths[axis]:
                    raise SpliterError(f"block {index} is {lengths[axis]} long along axis {axis}, "
                                       f"its neighbours {axes[axis][place]}")
        return tuple(tuple(axis[i] for i in range(len(axis))) for axis in axes), extents[0][1]

    # ---- tasks -----------------------------------------------------------------------------

    def _run(self, action: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pure: bool,
             options: dict[str, Any], parts: Sequence[Partition] | None = None,
             **spec: Any) -> list[Future]:
        if fn is not None and not callable(fn):
            raise TypeError(f"fn must be callable, not {type(fn).__name__}")
        token = call_token(pure, action, fn, args, kwargs, sorted(spec.items(), key=str))
        if spec.get("pass_as") == "concat":
            spec = {**spec, "layout": None}
        batch = Batch(self.client)
        return batch.send([self.add(batch, part, action, fn, token, args, kwargs, options, **spec)
                           for part in (self.parts if parts is None else parts)])

    def add(self, batch: Batch, part: Partition, action: str, fn: Any, token: str,
            args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any],
            **spec: Any) -> str:
        """One task on a partition, by its key."""
        if "layout" in spec and spec["layout"] is None:
            spec["layout"] = self.layout_of(part)
        spec = {**spec, "action": action, "fn": fn, "number": part.number, "of": len(self),
                "numbers": array.array("I", () if self.joined else part.numbers),
                "shape": self.source.shape,
                "keys": self.source.names(part.numbers)}
        key = key_for(fn or action, token, part.token)
        return batch.add(key, tasks.run, spec, part.input(), args, kwargs, home=part.worker,
                         lazy=None if part.held else streaming(spec), **options)

    def _holding(self, futures: list[Future], what: str) -> Partitions:
        """These partitions with other contents."""
        other = Partitions(self.source, self.per, self.cut, [])
        other._groups = [(worker, numbers, key_for(what, future.key), future)
                         for (worker, numbers, _, _), future in zip(self._groups, futures)]
        other._changed = self._changed or what == "each"
        other.joined = self.joined
        return other

    def block_futures(self, part: Partition) -> list[Future]:
        """A future for each block of a held partition."""
        if self.joined is not None:
            return [part.held]
        keys = [key_for("block", part.token, str(i)) for i in range(len(part))]
        return self.client.map(tasks.by_value(tasks.pick), [part.held] * len(part),
                               range(len(part)), key=keys, workers=[part.worker],
                               allow_other_workers=True)


def streaming(spec: dict[str, Any]) -> dict[str, Any]:
    """What a rask cluster is told of a task that reads its blocks one at a time, and whether it puts
    them together all the same: then it needs as much memory as they all."""
    joins = spec["action"] == "join" or spec.get("pass_as") in ("list", "concat")
    return {"lazy": 1, "joins": True} if joins else {"lazy": 1}


def cut_groups(source: Source, per: str | int, cut: str,
               timeout: float | None) -> list[tuple[str, list[int]]]:
    """Asks where the blocks are and cuts them into partitions."""
    client = source.client
    holders, workers = states.locate(source, timeout)
    if per == "numa":
        states.with_numa(client, workers)
    weights = block_bytes(source)
    home = placement.homes(holders, weights, workers)
    return placement.partition(home, weights, workers, per, cut)


def block_bytes(source: Source) -> list[int]:
    """Bytes of each block: by the chunks where they are known, else as the scheduler knows."""
    if source.itemsize is None or not source.known():
        return states.sizes_of(source.client, [block.key for block in source.blocks])
    assert source.chunks is not None
    whole = [int(axis[0]) for axis in source.chunks if len(axis) == 1]
    weights = [math.prod(whole, start=source.itemsize)]
    for axis in source.chunks:
        if len(axis) != 1:
            weights = [weight * int(length) for weight in weights for length in axis]
    return weights


def split(x: Any, per: str | int = "worker", *, cut: str = "bytes", client: Any = None,
          timeout: float | None = None) -> Partitions:
    """Partitions of `x`; see `rask.spliter`."""
    placement.check_options(per, cut)
    if timeout is not None and (math.isnan(timeout) or timeout < 0):
        raise ValueError(f"timeout={timeout}: seconds, or None to wait as long as it takes")
    source = read(x, client)
    return Partitions(source, per, cut, cut_groups(source, per, cut, timeout))
