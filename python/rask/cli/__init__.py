"""The `rask` command: a group whose sub-commands take the options of their stock namesakes.

Answers to: `dask` with its sub-commands `scheduler` and `worker`.
"""

from __future__ import annotations

import click

from rask.cli.io_plan import io_plan
from rask.cli.scheduler import scheduler
from rask.cli.version import version_option
from rask.cli.worker import worker


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """rask: a native runtime for Dask."""


main.add_command(io_plan)
main.add_command(scheduler)
main.add_command(worker)
