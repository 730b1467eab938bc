"""`rask worker` beside `dask worker`: options, several workers of one command, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ENV, WORKER
from programs import Gate, free_port, inc, until, workers_of

from rask.worker import Worker

pytestmark = pytest.mark.skipif(WORKER != "rask", reason="of rask workers")


def addresses(client) -> list[str]:
    return list(workers_of(client))


def test_every_stock_option_is_taken():
    from distributed.cli.dask_worker import main as stock

    from rask.cli.worker import worker as ours

    def options(command):
        return {name for option in command.params for name in option.opts}

    assert options(stock) <= options(ours)


def test_several_workers_without_nannies_are_a_process_each(fresh):
    cluster = fresh(n_workers=0)
    with cluster.connected() as client:
        # A later --name is the one that counts.
        command = cluster.add_worker(options=("--nworkers", "3", "--name", "team"))
        client.wait_for_workers(3)
        names = {w["name"] for w in workers_of(client).values()}
        assert names == {"team-0", "team-1", "team-2"}
        pids = set(client.run(os.getpid).values())
        assert len(pids) == 3 and command.pid not in pids
        assert client.gather(client.map(inc, range(30))) == list(range(1, 31))

        # One that is killed is not missed by the others, and not replaced.
        os.kill(pids.pop(), signal.SIGKILL)
        until(lambda: len(addresses(client)) == 2, "the loss to be noticed")
        assert client.gather(client.map(inc, range(30, 60))) == list(range(31, 61))
        assert command.alive()

        command.signal(signal.SIGTERM)
        until(lambda: not addresses(client), "all to leave")
        until(lambda: not command.alive(), "the command to end")
        assert command.popen.returncode == 128 + signal.SIGKILL


def test_a_worker_without_any_option_but_the_address(fresh, tmp_path):
    """As a newcomer types it: listens everywhere, and is called where the scheduler can reach it."""
    cluster = fresh(n_workers=0)
    with cluster.connected() as client:
        command = subprocess.Popen([sys.executable, "-m", "rask", "worker", cluster.address, "--no-nanny"],
                                   env=ENV, cwd=tmp_path)
        try:
            client.wait_for_workers(1, timeout=120)
            assert addresses(client)[0].startswith("tcp://127.0.0.1:")
            assert client.submit(inc, 1).result(timeout=120) == 2
        finally:
            command.terminate()
            command.wait(60)


def test_several_workers_end_with_their_command(fresh):
    cluster = fresh(n_workers=0)
    with cluster.connected() as client:
        command = cluster.add_worker(options=("--nworkers", "2"))
        client.wait_for_workers(2)
        command.kill()
        until(lambda: not addresses(client), "all to leave")


def test_one_address_is_not_for_several_workers():
    found = subprocess.run(
        [sys.executable, "-m", "rask", "worker", "tcp://127.0.0.1:1", "--no-nanny", "--nworkers",
         "2", "--listen-address", "tcp://127.0.0.1:0"],
        capture_output=True, text=True, timeout=120, env={**os.environ, **ENV})
    assert found.returncode != 0 and "--listen-address" in found.stderr


def test_options_are_seen_in_the_workers_information(fresh, tmp_path):
    pid_file = tmp_path / "pid"
    options = ("--nthreads", "3", "--name", "optioned", "--memory-limit", "700MB", "--resources",
               "GPU=2 FOO=0.5", "--local-directory", str(tmp_path), "--pid-file", str(pid_file),
               "--dashboard-address", "127.0.0.1:0")
    cluster = fresh(n_workers=0)
    with cluster.connected() as client:
        command = cluster.add_worker(options=options)
        ((address, worker),) = workers_of(client).items()
        assert worker["name"] == "optioned" and worker["nthreads"] == 3
        assert worker["memory_limit"] == 700_000_000
        assert worker["resources"] == {"GPU": 2.0, "FOO": 0.5}
        assert worker["local_directory"].startswith(str(tmp_path))
        assert int(pid_file.read_text()) == command.pid
        port = worker["services"]["dashboard"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=120) as page:
            assert page.read() == b"ok"
        future = client.submit(inc, 1, resources={"GPU": 1, "FOO": 0.5})
        assert future.result(timeout=120) == 2
        command.signal(signal.SIGTERM)
        until(lambda: not command.alive(), "the end")
        until(lambda: not pid_file.exists(), "the file to be removed")


def test_a_worker_is_called_by_its_contact_address(fresh):
    cluster = fresh(n_workers=0)
    port = free_port()
    # Of two --host the later counts; --listen-address stands instead of it.
    command = [sys.executable, "-m", "rask", "worker", cluster.address, "--no-nanny",
               "--listen-address", f"tcp://0.0.0.0:{port}", "--contact-address",
               f"tcp://127.0.0.1:{port}"]
    worker = subprocess.Popen(command, env=cluster.env, stderr=subprocess.DEVNULL)
    try:
        with cluster.connected() as client:
            client.wait_for_workers(1, timeout=120)
            assert addresses(client) == [f"tcp://127.0.0.1:{port}"]
            assert client.submit(inc, 1).result() == 2
    finally:
        worker.terminate()
        worker.wait(60)


def test_options_of_where_to_listen_and_whom_to_join(fresh, tmp_path):
    """Both workers are given the same ports: the second takes the next that is free."""
    cluster = fresh(n_workers=0)
    command = [sys.executable, "-m", "rask", "worker", "--scheduler-file", str(tmp_path / "file"),
               "--no-nanny", "--interface", "lo", "--protocol", "tcp", "--worker-port",
               "41200:41299", "--local-directory", str(tmp_path)]
    with cluster.connected() as client:
        client.write_scheduler_file(str(tmp_path / "file"))
        workers = [subprocess.Popen(command, env=cluster.env, stderr=subprocess.DEVNULL)
                   for _ in range(2)]
        try:
            client.wait_for_workers(2, timeout=60)
            assert all(address.startswith("tcp://127.0.0.1:412") for address in addresses(client))
            assert client.gather(client.map(inc, range(4))) == [1, 2, 3, 4]
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait(60)


@pytest.mark.parametrize("pin", ["none", "core", "numa"])
def test_executors_are_bound_as_asked(fresh, pin):
    def allowed():
        return len(os.sched_getaffinity(0))  # of the calling thread

    cluster = fresh(n_workers=1, worker_options=("--pin", pin))
    with cluster.connected() as client:
        (worker,) = workers_of(client).values()
        assert worker["topology"]["pin"] == pin and worker["topology"]["cores"] >= 1
        (elsewhere,) = client.run(allowed).values()
        assert elsewhere == len(os.sched_getaffinity(0)), "only executors are bound"
        found = client.submit(allowed).result()
        topology = worker["topology"]
        wide = {"core": topology["threads"] // topology["cores"], "none": elsewhere}
        assert found == wide.get(pin, found) <= elsewhere


def run_worker(*options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "rask", "worker", *options], capture_output=True,
                          text=True, timeout=120, env={**os.environ, **ENV})


def test_a_worker_without_a_scheduler_gives_up_when_told():
    found = run_worker(f"tcp://127.0.0.1:{free_port()}", "--no-nanny", "--death-timeout", "2s")
    assert found.returncode != 0


def test_encryption_is_refused_clearly():
    found = run_worker("tls://127.0.0.1:1", "--no-nanny")
    assert found.returncode != 0 and "cannot encrypt yet" in found.stderr


@pytest.mark.parametrize("address", ["tcp://127.0.0.1", "tcp://127.0.0.1:port", "ucx://127.0.0.1:1"])
def test_an_address_that_cannot_be_one_ends_the_worker_at_once(address):
    found = run_worker(address, "--no-nanny", "--death-timeout", "100s")
    assert found.returncode != 0 and "Timed out" not in found.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_tears_plugins_and_preloads_down(fresh, tmp_path, number):
    (tmp_path / "marking.py").write_text(
        f"def dask_teardown(worker):\n    open({str(tmp_path / 'down')!r}, 'w').close()\n")
    cluster = fresh(n_workers=0)
    with cluster.connected() as client:
        worker = cluster.add_worker(options=("--preload", str(tmp_path / "marking.py")))
        gate = Gate(tmp_path)
        client.submit(gate, pure=False)  # runs on and on; nobody waits for it
        gate.wait_started()
        worker.signal(number)
        until(lambda: not worker.alive(), "the end")
        assert worker.popen.returncode == 0 and (tmp_path / "down").exists()


@pytest.mark.parametrize("option", [{"data": {}}, {"executor": ThreadPoolExecutor(1)}], ids=lambda o: next(iter(o)))
def test_what_a_rask_worker_keeps_to_itself_is_refused(option):
    with pytest.raises(NotImplementedError, match="rask workers"):
        Worker("tcp://127.0.0.1:1", **option)


@pytest.mark.parametrize("settings", [{}, {"MALLOC_TRIM_THRESHOLD_": "65536"}], ids=["ours", "the user's"])
def test_memory_that_a_task_gave_back_is_there_for_the_next(fresh, settings):
    """Unless the environment says what malloc is to do."""
    def faults(rounds=200):
        import resource

        import numpy as np

        def work():
            arrays = [np.ones(40_000) for _ in range(8)]  # 320 kB each, all gone at the end
            return len(arrays)

        work()
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        for _ in range(rounds):
            work()
        return (resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before) / rounds

    with fresh(n_workers=1, env=settings).connected() as client:
        found = client.submit(faults).result()
        assert found > 100 if settings else found < 5
