"""What each way over the blocks of a collection should take, from a few measured rates. Pure.

The model of partitions, materialised partitions and rechunk: moving and copying are paid once,
the kernel is paid once per pass, and every task or call has a price. Seconds and bytes throughout;
`rates.py` measures the rates on small samples, `comparison.py` prints predictions beside what happened.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Rates:
    """What was measured on samples, with every worker busy as it will be in earnest."""

    query: float  # seconds of spliter()
    per_task: float  # seconds that one more trivial task adds to a map
    per_call: float  # seconds that one more block adds to a partition's task, beside the kernel
    kernel_blocks: float  # seconds of kernel per byte, called block by block
    kernel_whole: float  # the same, called on joined blocks
    copy: float  # bytes per second of joining blocks
    link: float  # bytes per second into one worker from another


@dataclass
class Work:
    """What is to be done."""

    nbytes: int  # of the whole collection
    busiest: int  # bytes on the worker with the most, divided by the threads that share them
    blocks: int
    blocks_on_busiest: int  # that one thread walks along
    partitions: int
    workers: int
    passes: int
    moved: int  # bytes that change their worker when the collection is cut anew
    cut: int  # blocks that are taken apart then


def predict(mode: str, rates: Rates, work: Work) -> float:
    """Seconds of `mode`, all passes."""
    by_blocks = work.passes * work.busiest * rates.kernel_blocks
    as_whole = work.passes * work.busiest * rates.kernel_whole
    if mode == "blocks":
        return by_blocks + work.passes * work.blocks * rates.per_task
    if mode == "spliter":
        calls = work.passes * work.blocks_on_busiest * rates.per_call
        return rates.query + by_blocks + calls + work.passes * work.partitions * rates.per_task
    whole = as_whole + work.passes * work.partitions * rates.per_task
    if mode == "materialized":
        return rates.query + work.busiest / rates.copy + work.partitions * rates.per_task + whole
    # Every worker sends and receives at the same time. Blocks that stay whole are joined as they are, by
    # P2P too if no two new blocks share one.
    moving = work.moved / max(1, work.workers) / rates.link
    pieces = work.blocks if work.cut and mode == "rechunk-p2p" else 2 * work.cut
    return moving + work.busiest / rates.copy + (pieces + work.partitions) * rates.per_task + whole
