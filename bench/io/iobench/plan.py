"""What is run, and how large. One `Sizes` for `make bench-io`, one for `--quick`.

Times are of the real size: 700³ numbers of two bytes in 125 blocks, behind 200 requests a second. To
trace millions of accesses one by one takes hours; counts are exact at any size, so most are taken on
smaller cubes, and on 700³ those of strategies that seek seldom.
"""

from __future__ import annotations

from dataclasses import dataclass

EXPERIMENTS = {
    "planner": "a million blocks, planned",
    "strategies": "every strategy with plain reads and writes: seeks counted and predicted",
    "seeks": "Dask programs with and without the pass: seeks counted and predicted",
    "split": "one array to block files on a throttled device (experiments 1 and 2)",
    "single": "the same with one thread",
    "formats": "the same from HDF5, NetCDF and zarr (experiment 3)",
    "merge": "block files to one array on a throttled device",
    "fast": "split and merge in memory: what the pass costs where a seek costs nothing",
    "threads": "split in memory by 2, 4 and 8 threads: the worker's peak",
}
THROTTLED = ("split", "single", "formats", "merge")


@dataclass(frozen=True)
class Sizes:
    cube: int = 700
    block: int = 140
    plain_cube: int = 140  # plain reads and writes under strace
    plain_block: int = 28
    keep_to: tuple[int, ...] = (20, 35)  # edges of their output blocks, in the proportions of the seed
    large_seeks: int = 100_000  # as many at most, and a strategy is counted at the real size, too
    large_budgets: tuple[int, ...] = (5, 25)
    count_cube: int = 100  # Dask programs under strace
    count_block: int = 20
    ragged: int = 95  # of count_cube, so that the last block is shorter
    planned: int = 100  # blocks along each axis of the planner's grid
    budgets: tuple[int, ...] = (1, 4, 5, 10, 25)  # blocks
    merge_budgets: tuple[int, ...] = (4, 5, 10, 25)  # of one block the stores are as they were
    format_depth: int = 280  # of cube: two fifths of the data, for the sake of time
    close_repeats: int = 3  # of what is as fast with the pass as without
    iops: int = 200
    dirty: int = 32 << 20  # bytes that the throttled device may have unwritten
    image: int = 3 << 30
    fast_repeats: int = 4
    threads: tuple[int, ...] = (2, 4, 8)  # that load at once, in buffers of the largest of `budgets`
    limit: str = "1 GB"  # memory of the worker


FULL = Sizes()
QUICK = Sizes(cube=100, block=20, count_cube=60, count_block=12, ragged=57, plain_cube=60, plain_block=12,
              keep_to=(10, 15), large_budgets=(25,), large_seeks=10_000, planned=20,
              budgets=(5, 25), merge_budgets=(25,), format_depth=40, iops=1000, image=256 << 20,
              fast_repeats=2, close_repeats=1)
