"""What is run, and how large. One `Sizes` for `make bench-io`, one for `--quick`.

Times need the real size: 700³ numbers of two bytes in 125 blocks, behind 200 requests a second.
Counts are exact at any size, and a traced access takes long, so they use a cube of 140³.
"""

from __future__ import annotations

from dataclasses import dataclass

EXPERIMENTS = {
    "strategies": "every strategy with plain reads and writes: seeks counted and predicted",
    "seeks": "Dask programs with and without the pass: seeks counted and predicted",
    "split": "one array to block files on a throttled device (experiments 1 and 2)",
    "formats": "the same from HDF5, NetCDF and zarr (experiment 3)",
    "merge": "block files to one array on a throttled device",
    "fast": "split and merge in memory: what the pass costs where it cannot pay",
}
THROTTLED = ("split", "formats", "merge")


@dataclass(frozen=True)
class Sizes:
    cube: int = 700
    block: int = 140
    count_cube: int = 140
    count_block: int = 28
    ragged: int = 133  # of count_cube, so that the last block is shorter
    keep_to: tuple[int, ...] = (20, 35)  # of count_block: the seed's 140 to 100 and to 175
    budgets: tuple[int, ...] = (1, 4, 5, 10, 25)  # blocks
    merge_budgets: tuple[int, ...] = (1, 5, 25)
    format_depth: int = 280  # of cube: two fifths of the data, for the sake of time
    iops: int = 200
    dirty: int = 32 << 20  # bytes that the throttled device may have unwritten
    image: int = 3 << 30
    fast_repeats: int = 4
    limit: str = "1 GB"  # memory of the worker


FULL = Sizes()
QUICK = Sizes(cube=100, block=20, count_cube=60, count_block=12, ragged=57, keep_to=(10, 15),
              budgets=(5, 25), merge_budgets=(25,), format_depth=40, iops=1000, image=256 << 20,
              fast_repeats=2)
