"""The command line: `rask scheduler` beside `dask scheduler`.

Deployment tools read log lines, files and exit codes, so these are part of the interface.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import distributed
import pytest
import yaml
from conftest import ENV, SCHEDULER, make_cluster
from programs import free_port, inc, until

RASK = [sys.executable, "-m", "rask"]
STOCK = [sys.executable, "-m", "dask"]
plain_yaml = yaml.safe_load
KIND = RASK if SCHEDULER == "rask" else STOCK


def call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**os.environ, **ENV})


def whole_json(path: Path) -> dict | None:
    """None as long as the file is not there or still being written."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


@pytest.fixture
def started(request):
    """Starts a scheduler with options; gives the cluster of no workers."""
    clusters = []

    def start(*options: str, kind: str = SCHEDULER, env: dict[str, str] | None = None):
        cluster = make_cluster(kind, "stock", n_workers=0, scheduler_options=options,
                               env=env or {})
        clusters.append(cluster)
        return cluster.start()

    yield start
    for cluster in clusters:
        cluster.close()


def test_version_and_help_answer():
    for command in (RASK, [*RASK, "scheduler"]):
        version = call(*command, "--version")
        assert version.returncode == 0 and re.search(r"rask, version \d+\.\d+", version.stdout)
        shown = call(*command, "--help")
        assert shown.returncode == 0 and "Usage:" in shown.stdout


@pytest.mark.parametrize("text", [
    Path(distributed.__file__).with_name("distributed.yaml").read_text(),
    "a: 0x10\nb: 010\nc: 1_000\nd: 5 minutes\ne: 2026-01-02\nf: ~\ng: [yes, no, 'on', .inf, 1e3]\n",
    "base: &b {x: 1}\nmore: {<<: *b, y: 2}\n? [1, 2]\n: |\n  two\n  lines\n",
    "", "a: [1\n", "a: b: c\n", "\tx: 1\n", "a: !!python/object:os.system 1\n", "a: &b 1\nc: *d\n",
])
def test_configuration_files_say_what_they_say_to_stock(text):
    from rask.cli.quick_yaml import quick_yaml

    def read():
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            return type(error), str(error)

    stock = read()
    with quick_yaml():
        assert yaml.safe_load is not plain_yaml
        assert read() == stock
    assert yaml.safe_load is plain_yaml


def test_every_stock_option_is_taken():
    from distributed.cli.dask_scheduler import main as stock

    from rask.cli.scheduler import scheduler as ours

    def options(command):
        return {name for parameter in command.params
                for name in [*parameter.opts, *parameter.secondary_opts] if name.startswith("--")}

    assert options(stock) - options(ours) == set()


def test_a_bad_option_is_refused_with_stocks_exit_code():
    ours, stock = (call(*kind, "scheduler", "--no-such-option") for kind in (RASK, STOCK))
    assert ours.returncode == stock.returncode != 0
    assert "no-such-option" in ours.stderr


@pytest.mark.parametrize("bad", [
    ("--port", "many"), ("--interface", "no-such-card"), ("--idle-timeout", "soon"), ("surplus",),
    ("--tls-cert", "/no/such/file"), ("--protocol", "carrier-pigeon"), ("--use-xheaders", "perhaps"),
], ids=lambda bad: bad[0].strip("-"))
def test_a_bad_value_is_refused_as_stock_refuses_it(bad):
    ours, stock = (call(*kind, "scheduler", *bad) for kind in (RASK, STOCK))
    assert ours.returncode == stock.returncode != 0
    assert bad[-1] in ours.stderr
    assert "Scheduler at" not in ours.stderr


def test_a_taken_port_ends_with_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = call(*KIND, "scheduler", "--host", "127.0.0.1", "--port", port)
    assert ended.returncode != 0
    assert "address already in use" in ended.stderr.lower()


def test_encryption_is_never_dropped_silently():
    ended = call(*RASK, "scheduler", "--protocol", "tls", "--port", "0")
    assert ended.returncode != 0 and "tls" in ended.stderr


def test_the_address_line_is_stocks(started):
    lines = {}
    for kind in (SCHEDULER, "stock"):
        log = started(kind=kind).scheduler.log_text()
        (line,) = [line for line in log.splitlines() if "Scheduler at:" in line]
        lines[kind] = re.sub(r"^[\d :,-]+ - |:\d+$", "", line)
    assert lines[SCHEDULER] == lines["stock"]


def test_the_scheduler_file_says_how_to_connect(started, tmp_path):
    fields = {}
    for kind in (SCHEDULER, "stock"):
        path = tmp_path / f"{kind}.json"
        cluster = started("--scheduler-file", str(path), kind=kind)
        content = until(lambda: whole_json(path), "the whole scheduler file")
        assert content["address"] == cluster.address
        fields[kind] = {"type": content["type"], "keys": set(content)}
        cluster.scheduler.stop(timeout=60)
        assert not path.exists()
    assert fields["stock"]["keys"] - fields[SCHEDULER]["keys"] == set()
    assert fields["stock"]["type"] == fields[SCHEDULER]["type"]


def test_a_client_connects_by_scheduler_file(started, tmp_path):
    from distributed import Client

    path = tmp_path / "file.json"
    cluster = started("--scheduler-file", str(path))
    cluster.add_worker()
    with Client(scheduler_file=str(path), set_as_default=False) as client:
        assert client.submit(inc, 1).result() == 2


def test_the_pid_file_is_written_and_removed(started, tmp_path):
    path = tmp_path / "pid"
    cluster = started("--pid-file", str(path))
    assert int(path.read_text()) == cluster.scheduler.pid
    cluster.scheduler.stop(timeout=60)
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_signals_end_it_with_stocks_exit_code(started, number):
    codes, last = {}, {}
    for kind in (SCHEDULER, "stock"):
        cluster = started(kind=kind)
        cluster.add_worker()
        cluster.scheduler.signal(number)
        codes[kind] = cluster.scheduler.popen.wait(timeout=60)
        last[kind] = cluster.scheduler.log_text().rstrip().splitlines()[-1].split(" - ")[-1]
    assert codes[SCHEDULER] == codes["stock"]
    assert last[SCHEDULER] == last["stock"] == "End scheduler"


@pytest.mark.parametrize("first", ["workers", pytest.param("scheduler", marks=pytest.mark.skipif(
    SCHEDULER != "rask", reason="what a stock scheduler says makes stock workers hang"))])
def test_a_signal_to_all_at_once_ends_stock_workers_too(started, first):
    """As Ctrl-C and `docker compose down` send it. Whoever acts first, none waits for another."""
    cluster = started()
    for _ in range(3):
        cluster.add_worker(wait=False)
    cluster.wait_for_workers()
    with cluster.client() as client:
        client.gather(client.map(inc, range(10)))
    everyone = [*cluster.workers.values(), cluster.scheduler]
    if first == "scheduler":
        cluster.scheduler.popen.terminate()
        next(iter(cluster.workers.values())).wait_for("Stopping worker")
    for process in everyone:
        process.popen.terminate()
    until(lambda: not any(process.alive() for process in everyone), "all to end")


def test_no_process_is_left_behind(started):
    import psutil

    cluster = started()
    cluster.add_worker()
    with cluster.client() as client:
        client.submit(inc, 1).result()
    children = psutil.Process(cluster.scheduler.pid).children(recursive=True)
    cluster.scheduler.kill()
    until(lambda: not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE
                          for child in children), "the children to end")


def test_the_idle_timeout_ends_it(started):
    cluster = started("--idle-timeout", "500 ms")
    assert cluster.scheduler.popen.wait(timeout=60) == 0


def test_configuration_from_the_environment_is_honoured(started):
    cluster = started(env={"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"})
    cluster.add_worker()
    with cluster.client() as client:
        error = client.submit(os._exit, 1, key="poison").exception(timeout=120)
    assert type(error).__name__ == "KilledWorker"


@pytest.mark.skipif(SCHEDULER != "rask", reason="stock has these")
def test_options_that_come_later_say_so_once(started):
    later = {"--jupyter": (), "--dashboard-prefix": ("/x",), "--dashboard-address": (":0",),
             "--preload": ("no_such_module",)}
    log = started(*(word for name, value in later.items() for word in (name, *value))) \
        .scheduler.log_text()
    assert {name: log.count(f"{name}:") for name in later} == dict.fromkeys(later, 1)


def test_host_port_and_interface_say_where_it_listens(started):
    port = free_port()
    # Later words win over those of ProcessCluster.
    assert started("--port", str(port)).address == f"tcp://127.0.0.1:{port}"
    by_card = started("--host", "", "--interface", "lo", "--show", "--no-jupyter")
    assert by_card.address.startswith("tcp://127.0.0.1:")
    by_uri = started("--host", "tcp://127.0.0.1:0", "--protocol", "tcp", "--no-show")
    assert by_uri.address.startswith("tcp://127.0.0.1:")


def test_the_checkout_runs_without_being_installed():
    import rask

    assert Path(rask.__file__).parent.name == "rask"
    assert re.fullmatch(r"\d+\.\d+\.\d+", rask.__version__)
