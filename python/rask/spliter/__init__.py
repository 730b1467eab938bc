"""SplIter: tasks on partitions (the blocks that already sit on one worker), not on blocks.

    parts = rask.spliter(x, per="worker")        # x: persisted array, DataFrame, bag, or futures
    total = parts.reduce(operator.add, kernel)   # one task per partition, local sums first

This module can be called: `rask.spliter(...)` is `split` of partitions.py. Works with a stock
client on rask and on stock clusters, and needs nothing installed on the workers. docs/SPLITER.md
says when to use partitions, materialised partitions or rechunk.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from rask.spliter.collection import SpliterError
from rask.spliter.comparison import compare
from rask.spliter.partitions import Partition, Partitions, split

__all__ = ["Partition", "Partitions", "SpliterError", "compare", "split"]


class _Spliter(types.ModuleType):
    """The module as a function."""

    def __call__(self, x: Any, per: str | int = "worker", *, cut: str = "bytes",
                 client: Any = None, timeout: float | None = None) -> Partitions:
        """Splits `x` into partitions: groups of blocks that sit on one worker, in array order.

        per      "worker": one partition per worker that holds blocks; "thread": one per thread;
                 "numa": one per NUMA node; a number: so many per worker. Never more than blocks.
        cut      "bytes": runs of about equal bytes; "cyclic": dealt out in turn; or a
                 self-scheduling scheme ("FAC2", "GSS", …): runs of the sizes it deals out to
                 as many takers as `per` says.
        timeout  seconds to wait for blocks that are still being computed; None: for ever.

        Raises SpliterError if `x` is not persisted, has no blocks, or blocks failed or are lost.
        """
        return split(x, per, cut=cut, client=client, timeout=timeout)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "auto":  # would look like the switch and do nothing
            raise AttributeError(
                "rask.spliter.auto is a setting of the scheduler, and a client's do not travel: call "
                'rask.configure(client, {"spliter.auto": "off", "batch" or "reduce"}), or set it in the '
                "scheduler's configuration or as DASK_RASK__SPLITER__AUTO")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Spliter
