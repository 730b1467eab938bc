"""The `--version` option shared by the commands: rask's version and that of the Dask it serves."""

from __future__ import annotations

from typing import Any

import click


def _show(context: click.Context, _parameter: Any, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from importlib.metadata import version

    import rask

    click.echo(f"rask, version {rask.__version__} (distributed {version('distributed')})")
    context.exit()


version_option = click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show,
    help="Show the version and exit.",
)
