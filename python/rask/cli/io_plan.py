"""`rask io-plan`: what clustered I/O would do to a file, before anything runs."""

from __future__ import annotations

import click


@click.command("io-plan")
@click.argument("file", type=click.Path(exists=True))
@click.argument("dataset", required=False)
@click.option("--chunks", required=True, help="Blocks of the Dask array, as 140,140,140 or 140.")
@click.option("--buffer-bytes", default="256 MiB", show_default=True, help="Bound of a buffer.")
@click.option("--order", type=click.Choice(["auto", "C", "F"]), default="auto", show_default=True)
@click.option("--dtype", help="Of a raw file.")
@click.option("--shape", help="Of a raw file, as 700,700,700.")
@click.option("--offset", type=int, default=0, help="Of a raw file: bytes before the array.")
@click.option("--to-chunks", help="Also predict rewriting block files of --chunks as these blocks.")
@click.option("--png", type=click.Path(), help="Where to draw the plan; none if not given.")
def io_plan(file, dataset, chunks, buffer_bytes, order, dtype, shape, offset, to_chunks, png):
    """Prints predicted seeks and bytes of splitting FILE into blocks (or merging them into it).

    FILE is a .npy file, an HDF5 or NetCDF file with the name of a DATASET, a zarr array, or, with
    --dtype and --shape, a file of plain bytes.
    """
    from dask.utils import parse_bytes

    from rask.io import prospect

    try:
        storage = prospect.storage_of(file, dataset, dtype, _numbers(shape), offset)
        plan = prospect.Prospect(storage, _numbers(chunks), parse_bytes(buffer_bytes), order)
        click.echo(plan.table(_numbers(to_chunks)))
        if png:
            plan.draw(png)
            click.echo(f"drawn: {png}")
    except (ValueError, OSError, ImportError) as e:
        raise click.ClickException(str(e)) from e


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(n) for n in text.replace("x", ",").split(","))
    except ValueError as e:
        raise ValueError(f"{text!r}: expected numbers as 140,140,140") from e
