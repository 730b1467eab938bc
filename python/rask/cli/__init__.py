"""The `rask` command: a group whose sub-commands take the options of their stock namesakes.

Answers to: `dask` with its sub-commands `scheduler` and `worker`.
"""

from __future__ import annotations

import gc

# What imports make is kept for good. To look for garbage in it costs a tenth of a worker's start, and
# again at every full collection with the GIL held; so the collector never sees it.
gc.disable()

import click  # noqa: E402

from rask.cli.quick_yaml import quick_yaml  # noqa: E402

with quick_yaml():
    from rask.cli.io_plan import io_plan
    from rask.cli.scheduler import scheduler
    from rask.cli.version import version_option
    from rask.cli.worker import worker

gc.freeze()
gc.enable()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """rask: a native runtime for Dask."""


main.add_command(io_plan)
main.add_command(scheduler)
main.add_command(worker)
