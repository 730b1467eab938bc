"""What a worker answers when it is asked directly, and by the client's calls that do so."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os

import distributed.worker
import numpy as np
import pytest
from conftest import SCHEDULER
from distributed.core import rpc
from programs import Gate, add, double, inc, until, workers_of


def ask(client, worker: str, op: str, **arguments):
    """One RPC to one worker."""
    async def call():
        async with rpc(worker) as peer:
            return await getattr(peer, op)(**arguments)

    return client.sync(call)


def first(client) -> str:
    return sorted(workers_of(client))[0]


def shape(value, depth: int = 3):
    """Names and types instead of figures that differ from run to run."""
    if isinstance(value, dict) and depth:
        return {key: shape(inner, depth - 1) for key, inner in sorted(value.items())}
    return type(value).__name__


# ---- what a worker says of itself ----------------------------------------------------------------


def test_identity_versions_and_keys(same):
    def prog(client):
        address = first(client)
        value = client.submit(inc, 1, workers=[address], key="kept")
        value.result()
        identity = ask(client, address, "identity")
        versions = ask(client, address, "versions")
        more = ask(client, address, "versions", packages=["msgpack", "no_such_package"])
        keys = ask(client, address, "keys")
        return (sorted(identity), identity["nthreads"], shape(versions), shape(more),
                type(keys).__name__, "kept" in keys, ask(client, address, "ping"))

    assert same(prog)[-3:] == ("tuple", True, b"pong")


@pytest.mark.op("worker_logs")
@pytest.mark.api("Client.get_worker_logs")
def test_logs_of_workers_reach_the_client(same):
    def log(text):
        logging.getLogger("distributed.worker").warning("said: %s", text)

    def prog(client):
        client.run(log, "hello")
        logs = client.get_worker_logs(n=5)
        said = [[line for line in lines if "said: " in line[1]] for lines in logs.values()]
        direct = ask(client, first(client), "get_logs", n=1, timestamps=True)
        none = ask(client, first(client), "get_logs", start=4e9)
        return [[(level, text.rpartition(" - ")[2]) for level, text in lines] for lines in said], \
            len(direct[0]), none

    assert same(prog) == ([[("WARNING", "said: hello")]] * 2, 3, ())


@pytest.mark.op("call_stack")
@pytest.mark.api("Client.call_stack")
def test_a_worker_shows_what_runs_on_it(same, tmp_path_factory):
    def prog(client):
        gate = Gate(tmp_path_factory.mktemp("gate"))
        address = first(client)
        future = client.submit(gate, 1, key="shown", workers=[address])
        gate.wait_started()
        stacks = ask(client, address, "call_stack")
        other = ask(client, address, "call_stack", keys=["unknown"])
        until(lambda: any("shown" in keys for _, keys in
                          ask(client, address, "profile_metadata")["keys"]), "samples of the task")
        client_side = client.call_stack([future])
        gate.open()
        future.result()
        frames = [line for line in stacks["shown"] if "programs.py" in line]
        return list(stacks), bool(frames), other, sorted(client_side[address]), \
            ask(client, address, "call_stack")

    assert same(prog) == (["shown"], True, {}, ["shown"], {})


def test_profiles_hold_the_tasks_functions(same, tmp_path_factory):
    def spin(end):
        while not os.path.exists(end):
            pass

    def functions(profile):
        yield profile["description"]["name"] if profile["description"] else ""
        for child in profile["children"].values():
            yield from functions(child)

    def prog(client):
        address = first(client)
        end = tmp_path_factory.mktemp("spin") / "end"
        future = client.submit(spin, str(end), workers=[address], key="spin-1")

        def seen():
            found = set(functions(ask(client, address, "profile")))
            by_key = set(functions(ask(client, address, "profile", key="spin")))
            return "spin" in found and "spin" in by_key and found

        # Profiles show once their cycle of a second is over.
        found = until(seen, "the profile")
        end.touch()
        future.result()
        server = ask(client, address, "profile", server=True)
        return "spin" in found, "execute" in found, sorted(server)

    assert same(prog)[:2] == (True, False)


def test_the_monitor_of_a_worker(same):
    def prog(client):
        address = first(client)
        until(lambda: ask(client, address, "get_monitor_info")["count"] > 1, "samples")
        info = ask(client, address, "get_monitor_info", recent=True)
        return sorted(info), sorted(info["range_query"])

    same(prog)


def test_a_workers_hardware_can_be_measured(rask_client):
    """Not beside stock, and at the same time: each takes about a second per size."""
    here, there = sorted(workers_of(rask_client))

    async def measure():
        async with rpc(here) as worker:
            return await asyncio.gather(worker.benchmark_disk(), worker.benchmark_memory(),
                                        worker.benchmark_network(address=there))

    stock = (distributed.worker.benchmark_disk, distributed.worker.benchmark_memory,
             distributed.worker.benchmark_network)
    for found, function in zip(rask_client.sync(measure), stock, strict=True):
        assert list(found) == list(inspect.signature(function).parameters["sizes"].default)
        assert all(rate > 0 for rate in found.values())


@pytest.mark.skipif(SCHEDULER == "rask", reason="benchmark_hardware is not there yet")
def test_hardware_of_a_whole_cluster(same):
    def prog(client):
        return shape(client.benchmark_hardware())

    same(prog)


def test_stories_tell_of_a_task(same):
    def prog(client):
        address = first(client)
        base = client.submit(inc, 1, key="told-1", workers=[address])
        told = client.submit(double, base, key="told-2", workers=[address])
        told.result()
        story = ask(client, address, "get_story", keys_or_stimuli=["told-2"])
        moves = [line[1:3] for line in story if len(line) == 7]
        return told.status, moves, ask(client, address, "get_story", keys_or_stimuli=["untold"])

    assert ("executing", "memory") in same(prog)[1]


# ---- values --------------------------------------------------------------------------------------


def test_values_may_be_put_asked_for_and_freed_directly(same):
    def prog(client):
        here, there = sorted(workers_of(client))
        values = {"put-1": 1, "put-2": np.arange(1000), "put-3": "text"}
        from distributed.protocol import to_serialize

        put = ask(client, here, "update_data", data={k: to_serialize(v) for k, v in values.items()})
        keys = sorted(ask(client, here, "keys"))
        gathered = ask(client, there, "gather", who_has={"put-2": [here], "put-3": [here]})
        nowhere = ask(client, there, "gather", who_has={"put-9": [here]})
        moved = sorted(ask(client, there, "keys"))
        for address in (here, there):
            ask(client, address, "free_keys", keys=list(values), stimulus_id="test")
        return put, keys, gathered, nowhere, moved, ask(client, here, "keys")

    found = same(prog)
    assert found[1] == ["put-1", "put-2", "put-3"] and found[4] == ["put-2", "put-3"]


def test_get_data_answers_stock_peers(same):
    from distributed.worker import get_data_from_worker

    def prog(client):
        address = first(client)
        values = client.map(np.full, [3, 4, 5], [1, 2, 3], workers=[address], pure=False)
        client.gather(values)
        keys = [value.key for value in values]

        async def fetch(keys, **options):
            return await get_data_from_worker(client.rpc, keys, address, **options)

        got = client.sync(fetch, [*keys, "unknown"])
        return got["status"], [got["data"][key].sum() for key in keys], len(got["data"])

    assert same(prog) == ("OK", [3, 8, 15], 3)


def test_askers_may_name_their_serializers(same):
    """What these cannot do becomes an error for whoever asked, not a pickle."""
    from distributed.comm import connect
    from distributed.core import send_recv

    def prog(client):
        address = first(client)
        made = {"plain": client.submit(dict, a=1, workers=[address], pure=False),
                "array": client.submit(np.ones, 3, workers=[address], pure=False),
                "slice": client.submit(slice, 1, 2, workers=[address], pure=False)}
        client.gather(list(made.values()))

        async def fetch(key):
            comm = await connect(address)
            try:
                got = await send_recv(comm, op="get_data", keys=[key], reply=True,
                                      serializers=["dask", "msgpack", "error"])
                await comm.write("OK")
                again = await send_recv(comm, op="ping", reply=True)
            finally:
                comm.abort()
            return got["data"][key], again

        found = {}
        for name, future in made.items():
            try:
                found[name] = client.sync(fetch, future.key)
            except TypeError as error:
                found[name] = str(error).splitlines()[0]
        return found

    found = same(prog)
    assert found["plain"] == ({"a": 1}, b"pong")


def test_a_question_nobody_knows_is_answered(same):
    def prog(client):
        try:
            answer = ask(client, first(client), "no_such_question")
        except Exception as error:
            answer = type(error).__name__, str(error)
        return answer, ask(client, first(client), "ping")

    same(prog)


def test_a_question_with_wrong_arguments_is_answered(same):
    def prog(client):
        try:
            answer = ask(client, first(client), "upload_file", nonsense=1)
        except Exception as error:
            answer = type(error).__name__, str(error)
        return answer, ask(client, first(client), "ping")

    same(prog)


def test_files_are_uploaded_to_one_worker(same, tmp_path):
    name = f"sent_{os.getpid()}"

    def use(name):
        return __import__(name).answer()

    def prog(client):
        address = first(client)
        found = []
        for answer in (41, 42):
            code = f"def answer():\n    return {answer}\n".encode()
            reply = ask(client, address, "upload_file", filename=f"{name}.py", data=code)
            found += [reply, client.submit(use, name, workers=[address], pure=False).result()]
        return found

    assert same(prog)[1::2] == [41, 42]


def test_a_plugin_uploads_a_file_everywhere(same, tmp_path):
    from distributed.diagnostics.plugin import UploadFile

    path = tmp_path / f"spread_{os.getpid()}.py"
    path.write_text("VALUE = 7\n")

    def use(name):
        return __import__(name).VALUE

    def prog(client):
        client.register_plugin(UploadFile(str(path)), name="spread")
        try:
            return sorted(client.run(use, path.stem).values())
        finally:
            client.unregister_worker_plugin("spread")

    assert same(prog) == [7, 7]


def test_coroutines_run_on_the_service_loop(same):
    async def meet(x, dask_worker):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        return x, loop is dask_worker.loop.asyncio_loop

    async def fail():
        raise LookupError("in a coroutine")

    def prog(client):
        address = first(client)
        one = client.run(meet, 5, workers=[address])[address]
        ignored = client.run(fail, workers=[address], on_error="ignore")
        returned = client.run(fail, workers=[address], on_error="return")[address]
        unwaited = client.run(meet, 6, workers=[address], wait=False)
        return one, ignored, type(returned).__name__, str(returned), unwaited

    assert same(prog)[0] == (5, True)


def test_a_function_that_cancels_itself_leaves_nobody_waiting(same):
    async def cancel():
        raise asyncio.CancelledError

    class MuteError(Exception):
        def __str__(self):
            raise LookupError("no str")

    def mute():
        raise MuteError

    def prog(client):
        found = []
        for function in (cancel, mute):
            try:
                client.run(function, workers=[first(client)])
            except Exception as error:
                found.append(type(error).__name__)
        return found, client.run(inc, 1)[first(client)]

    assert same(prog)[1] == 2


def test_blocked_handlers_are_blocked(fresh):
    blocked = {"DASK_DISTRIBUTED__WORKER__BLOCKED_HANDLERS": "['run','ping']"}
    cluster = fresh(n_workers=1, env=blocked)
    with cluster.connected() as client:
        assert client.submit(add, 1, 2).result() == 3
        with pytest.raises(Exception, match="'run' handler has been explicitly disallowed"):
            client.run(os.getpid)
        with pytest.raises(ValueError, match="'ping' handler has been explicitly disallowed"):
            ask(client, first(client), "ping")
