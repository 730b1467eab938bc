"""`rask worker`: the options of `dask worker`, with a native worker behind them.

The command is stock's own, with another worker class and `--pin` added, so every option of every
supported release means here what it means there. One worker runs in this process; several run
under stock's nannies, or, with `--no-nanny`, in a process each that nobody restarts.

Answers to: distributed/cli/dask_worker.py.
"""

from __future__ import annotations

import copy
import os

import click
from distributed.cli.dask_worker import main as stock_command

from rask._native import _worker
from rask.cli.several import become_one_of, count_workers

WORKER_CLASS = "rask.worker.Worker"


def _option(command: click.Command, name: str) -> click.Option:
    return next(option for option in command.params if option.name == name)


def _start(pin: str, n_workers: str, nanny: bool | None, name: str, **options) -> None:
    if pin != "none":
        os.environ["RASK_WORKER_PIN"] = pin  # nannies hand their environment on
    if nanny is None:
        nanny = n_workers not in (None, "1", 1)
    count, nthreads = count_workers(n_workers, options["nthreads"])
    if not nanny and count > 1:
        if options["listen_address"] or options["pid_file"]:
            raise click.UsageError("--listen-address and --pid-file are for one worker")
        number = become_one_of(count)
        name = f"{name}-{number}" if name else name
        options["nthreads"] = nthreads
        n_workers = "1"
    if not nanny:  # nannies say it by the environment: distributed.nanny.pre-spawn-environ
        _worker.keep_freed_memory()
    stock_command.callback(nanny=nanny, n_workers=n_workers, name=name, **options)


def _command() -> click.Command:
    command = copy.copy(stock_command)
    command.params = [copy.copy(option) for option in stock_command.params]
    _option(command, "worker_class").default = WORKER_CLASS
    _option(command, "nanny").default = None
    command.params.append(
        click.Option(
            ["--pin"],
            type=click.Choice(["none", "core", "numa"]),
            default="none",
            show_default=True,
            help="Bind each executor thread to a core or to a NUMA node",
        )
    )
    command.callback = _start
    command.help = "Start a native worker in place of `dask worker`."
    return command


worker = _command()

if __name__ == "__main__":
    worker()
