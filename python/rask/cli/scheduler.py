"""`rask scheduler`: takes the options of `dask scheduler` and becomes the native scheduler.

This command resolves what is easier in Python (addresses and interfaces by stock's own rules,
configuration, the limit on open files) and then replaces itself by `rask-scheduler`: the process
id stays, signals and exit code are the native program's own.

Options whose feature is not there yet are accepted and named once in the log. TLS is the
exception: a scheduler that was asked for encryption refuses to start rather than run without.

Answers to: distributed/cli/dask_scheduler.py.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from typing import Any

import click

from rask.cli.version import version_option

PEM_FILE = click.Path(exists=True, resolve_path=True)
LATER = {  # option -> what the log says when it is used
    "dashboard_address": "--dashboard-address: the HTTP server",
    "dashboard_prefix": "--dashboard-prefix: the HTTP server",
    "jupyter": "--jupyter: the Jupyter server",
    "preload": "--preload: scheduler preloads",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--host", default="", help="URI, IP or hostname to listen on")
@click.option("--port", default=None, help="Port to listen on; 0 takes a free one  [default: 8786]")
@click.option("--interface", default=None, help="Network interface like 'eth0' or 'ib0'")
@click.option("--protocol", default=None, help="Protocol: tcp")
@click.option("--tls-ca-file", type=PEM_FILE, default=None, help="CA certificates in PEM format")
@click.option("--tls-cert", type=PEM_FILE, default=None, help="Certificate in PEM format")
@click.option("--tls-key", type=PEM_FILE, default=None, help="Private key in PEM format")
@click.option("--dashboard-address", default=None, help="Address of the HTTP server")
@click.option("--dashboard/--no-dashboard", default=True, help="Serve the dashboard pages")
@click.option("--dashboard-prefix", default="", help="Prefix of all HTTP routes")
@click.option("--jupyter/--no-jupyter", default=False, help="Start a Jupyter server")
@click.option("--show/--no-show", default=False, help="Ignored, as in dask scheduler")
@click.option("--use-xheaders", type=bool, default=False, help="Ignored, as in dask scheduler")
@click.option("--pid-file", default="", help="File to write the process id to")
@click.option("--scheduler-file", default="", help="File to write connection information to")
@click.option("--preload", multiple=True, help="Module to load in the scheduler's host process")
@click.option("--idle-timeout", default=None, help="Stop after this time without work, like '1h'")
@version_option
@click.argument("preload_argv", nargs=-1, type=click.UNPROCESSED)
def scheduler(**options: Any) -> None:
    """Start the native scheduler in place of `dask scheduler`."""
    if options["preload_argv"] and not options["preload"]:
        unexpected = next((a for a in options["preload_argv"] if a.startswith("-")), None)
        if unexpected:
            raise click.NoSuchOption(unexpected)
        raise click.UsageError(f"Got unexpected extra argument ({options['preload_argv'][0]})")
    arguments = native_arguments(options)
    for name, feature in LATER.items():
        if options[name]:
            _log(f"{feature} is not there yet; the option is ignored")
    _raise_open_file_limit()
    os.execv(arguments[0], arguments)


def native_arguments(options: dict[str, Any]) -> list[str]:
    """The command line of the native program for these options."""
    from dask.utils import parse_timedelta

    from rask import NATIVE_DIR
    from rask.cli.configuration import config_file

    protocol, host, port = listen_address(options)
    program = NATIVE_DIR / "rask-scheduler"
    if not program.exists():
        raise click.ClickException(f"{program} is missing: build it with `make build`")
    arguments = [str(program), "--config", config_file(), "--python", sys.executable,
                 "--protocol", protocol, "--host", host, "--port", str(port)]
    if options["scheduler_file"]:
        arguments += ["--scheduler-file", options["scheduler_file"]]
    if options["pid_file"]:
        arguments += ["--pid-file", options["pid_file"]]
    if options["idle_timeout"]:
        arguments += ["--idle-timeout", str(parse_timedelta(options["idle_timeout"]))]
    return arguments


def listen_address(options: dict[str, Any]) -> tuple[str, str, int]:
    """Protocol, host ("" for all interfaces) and port, found by stock's own rules."""
    from distributed.comm.addressing import address_from_user_args, parse_address
    from distributed.comm.addressing import parse_host_port
    from distributed.security import Security

    for name in ("port", "protocol", "interface"):
        if "," in (options[name] or ""):
            raise click.ClickException(f"--{name}: more than one listener is not supported")
    host = options["host"]
    port = int(options["port"]) if options["port"] else None
    if port is None and (not host or not re.search(r":\d", host)):
        port = 8786
    if not host and any(options[f"tls_{part}"] for part in ("ca_file", "cert", "key")):
        host = "tls://"
    address = address_from_user_args(
        host=host, port=port, interface=options["interface"], protocol=options["protocol"],
        security=Security(), default_port=8786,
    )
    protocol, location = parse_address(address)
    if protocol != "tcp":
        raise click.ClickException(f"{protocol}:// is not supported: this scheduler speaks tcp://")
    bind_host, bind_port = parse_host_port(location, 0)
    return protocol, bind_host or "", int(bind_port or 0)


def _raise_open_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard // 2), hard))


def _log(text: str) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S") + f",{int(time.time() * 1000) % 1000:03d}"
    print(f"{stamp} - distributed.scheduler - INFO - {text}", file=sys.stderr, flush=True)
