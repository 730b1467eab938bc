"""What `get_worker()` shows: every attribute that plugins, shuffles and user code rely on."""

from __future__ import annotations

import os
import threading
from time import process_time, sleep

import numpy as np
import pytest
from conftest import SCHEDULER
from distributed import get_worker, wait
from distributed.core import Status
from distributed.metrics import context_meter
from programs import Gate, inc, until, workers_of


def on_a_worker(function):
    """A program that gives what `function(dask_worker)` finds on one worker."""
    def prog(client):
        address = sorted(workers_of(client))[0]
        base = client.submit(inc, 1, key="base", workers=[address])
        array = client.submit(np.arange, 1000, key="array", workers=[address])
        client.gather([base, array])
        return client.run(function, workers=[address])[address]

    return prog


def test_names_and_numbers(same):
    def look(dask_worker):
        w = dask_worker
        return {
            "type": [c.__name__ for c in type(w).__mro__ if c.__module__.startswith("distributed")],
            "address": w.address == w.address_safe == w.contact_address == w.state.address,
            "name": w.name[0], "id": w.id.split("-")[0], "nthreads": w.state.nthreads,
            "local_directory": os.path.isdir(w.local_directory),
            "memory_limit": type(w.memory_manager.memory_limit).__name__,
            "status": w.status.name, "running": w.state.running,
            "plugins": [type(p).__name__ for p in w.plugins.values()][:1],  # others' may follow
            "extensions": sorted(w.extensions),
            "handlers": sorted(w.handlers), "stream_handlers": sorted(w.stream_handlers),
            "executors": sorted(w.executors), "services": sorted(w.services),
            "scheduler": w.scheduler.address.startswith("tcp://"),
            "loop": w.loop is w.io_loop, "repr": repr(w).split()[0],
            "client": w._client is None, "ip": w.ip, "host": w.host, "port": w.port > 0,
            "uptime": w.execution_state["worker"] is w,
            "actors": dict(w.state.actors), "total": dict(w.state.total_resources),
            "available": dict(w.state.available_resources),
        }

    same(on_a_worker(look))


def test_values_are_a_mapping(same):
    def look(dask_worker):
        data = dask_worker.data
        missing = None
        try:
            data["nothing"]
        except KeyError as error:
            missing = error.args
        return (sorted(data), len(data), "base" in data, "nothing" in data, data["base"],
                data["array"].sum(), dict(data)["base"], data.get("nothing", 5), missing,
                sorted(map(type, data.values()), key=str))

    assert same(on_a_worker(look))[:4] == (["array", "base"], 2, True, False)


def test_tasks_and_counts(same):
    def look(dask_worker):
        state = dask_worker.state
        ts = state.tasks["array"]
        return (sorted(state.tasks), ts.key, ts.state, ts.nbytes, len(ts.dependencies),
                sorted(t.key for t in ts.dependents), state.executing_count,
                len(state.executing), len(state.ready), len(state.constrained),
                len(state.long_running), state.in_flight_tasks_count, len(state.waiting),
                state.transfer_incoming_count, state.transfer_incoming_bytes,
                sorted(state.task_counter.current_count().items()),
                state.task_counter.current_count(False),
                dask_worker.transfer_outgoing_count, dask_worker.transfer_outgoing_bytes,
                state.nbytes, bool(state.log), state.executed_count >= 2)

    assert same(on_a_worker(look))[:4] == (["array", "base"], "array", "memory", 8000)


def test_a_running_task_sees_itself(same):
    def look():
        worker = get_worker()
        state = worker.state
        (ts,) = state.executing
        return (ts.key, ts.state, state.executing_count, worker.get_current_task(),
                worker.active_threads[threading.get_ident()], state.task_counter.current_count())

    def prog(client):
        found = client.submit(look, key="itself").result()
        return found[:5]

    # Of the threads only its own: a method of an actor that raised stays listed for ever, in stock too.
    assert same(prog) == ("itself", "executing", 1, "itself", "itself")


def test_workers_call_each_other_and_the_scheduler(same):
    async def call(dask_worker, other):
        keys = await dask_worker.scheduler.who_has(keys=["base"])
        async with dask_worker.rpc(other) as peer:
            identity = await peer.identity()
        return list(keys), identity["type"]

    def prog(client):
        here, there = sorted(workers_of(client))
        client.submit(inc, 1, key="base").result()
        return client.run(call, other=there, workers=[here])[here]

    assert same(prog) == (["base"], "Worker")


def test_events_and_metrics_reach_the_scheduler(same):
    def tell(dask_worker, topic):
        dask_worker.log_event(topic, {"from": "worker"})
        dask_worker.digest_metric(("told", "seconds"), 1.5)
        dask_worker.digest_metric("plain", 2)
        dask_worker.metrics["of_mine"] = lambda worker: 17

    def prog(client):
        address = sorted(workers_of(client))[0]
        topic = f"topic-{client.id}"
        client.run(tell, topic=topic, workers=[address])
        until(lambda: workers_of(client)[address]["metrics"].get("of_mine") == 17, "the metric")
        client.run(lambda dask_worker: dask_worker.metrics.pop("of_mine"), workers=[address])
        until(lambda: client.get_events(topic), "the event")
        return [event["from"] for _, event in client.get_events(topic)]

    assert same(prog) == ["worker"]


def test_managed_memory_is_what_the_values_weigh(same):
    def prog(client):
        address = sorted(workers_of(client))[0]

        def managed():
            metrics = workers_of(client)[address]["metrics"]
            assert metrics["memory"] > metrics["managed_bytes"]
            return metrics["managed_bytes"]

        arrays = client.map(np.ones, [100_000, 200_000], workers=[address], pure=False)
        held = until(lambda: managed() == 2_400_000, "the values to be counted")
        del arrays
        return held, until(lambda: managed() == 0, "nothing to be counted")

    assert same(prog) == (True, True)


def test_digests_count_once(same):
    def tell(dask_worker):
        dask_worker.digest_metric("told", 2.5)

    def total(dask_worker):
        return dask_worker.digests_total["told"]

    def prog(client):
        address = sorted(workers_of(client))[0]
        before = client.run(total, workers=[address])[address]
        client.run(tell, workers=[address])
        client.run(tell, workers=[address])
        return client.run(total, workers=[address])[address] - before

    assert same(prog) == 5.0


def test_the_seconds_of_tasks_are_told_by_family(same):
    def sleepy(i):
        sleep(0.3)
        return i

    def busy(i):
        end = process_time() + 0.3
        while process_time() < end:
            pass
        return i

    def metering(i):
        context_meter.digest_metric("rows", 10, "count")
        with context_meter.meter("reading"):
            sleep(0.3)
        return i

    def bad(i):
        sleep(0.2)
        raise ValueError(i)

    def seconds(dask_worker):
        """Whole tenths, without the span."""
        return {(name[2], name[3], name[4]): int(value * 10)
                for name, value in dask_worker.digests_total.items()
                if isinstance(name, tuple) and name[0] == "execute" and value >= 0.1}

    wanted = {("sleepy", "thread-noncpu", "seconds"), ("busy", "thread-cpu", "seconds"),
              ("metering", "rows", "count"), ("metering", "reading", "seconds"),
              ("bad", "failed", "seconds")}

    def prog(client):
        address = sorted(workers_of(client))[0]
        for function in sleepy, busy, metering, bad:
            wait(client.submit(function, 1, workers=[address], pure=False))
        found = until(lambda: wanted <= (told := client.run(seconds, workers=[address])[address]).keys()
                      and told, "the metrics")
        return ({name: found[name] >= 2 for name in wanted},
                {family for family, what, _ in found if what == "thread-cpu"} & {"sleepy", "metering"})

    assert same(prog)[1] == set()


@pytest.mark.skipif(SCHEDULER == "rask", reason="a stock scheduler adds spans up")
def test_spans_learn_what_their_tasks_spent(same):
    def spent(dask_scheduler):
        metrics = dask_scheduler.cumulative_worker_metrics
        spans = dask_scheduler.extensions["spans"].spans.values()
        name = ("execute", "spanned", "thread-noncpu", "seconds")
        return metrics[name] >= 0.2, max(s.cumulative_worker_metrics.get(name, 0) for s in spans) >= 0.2

    def spanned(i):
        sleep(0.3)

    def prog(client):
        wait(client.submit(spanned, 1, pure=False))
        return until(lambda: all(found := client.run_on_scheduler(spent)) and found, "the metrics")

    assert same(prog) == (True, True)


def test_background_work_of_a_plugin_is_done(same):
    async def start(dask_worker):
        import asyncio

        async def work():
            await asyncio.sleep(0)
            dask_worker.worked = True

        dask_worker._ongoing_background_tasks.call_soon(work)

    def prog(client):
        address = sorted(workers_of(client))[0]
        client.run(start, workers=[address])
        return until(lambda: client.run(lambda dask_worker: getattr(dask_worker, "worked", False),
                                        workers=[address])[address], "the work")

    assert same(prog) is True


def set_status(dask_worker, name):
    dask_worker.status = Status.lookup[name]


@pytest.fixture
def unwatched(fresh):
    """A cluster whose workers' memory monitors, stock's too, do not end every pause."""
    return fresh(env={"DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False"})


def test_user_code_pauses_and_resumes_its_worker(unwatched):
    with unwatched.connected() as client:
        address = sorted(workers_of(client))[0]

        def known():
            return workers_of(client)[address]["status"]

        assert known() == "running"
        client.run(set_status, name="paused", workers=[address])
        until(lambda: known() == "paused", "the pause to be known")
        waiting = client.submit(inc, 1, workers=[address], pure=False)
        assert client.gather(client.map(inc, range(4), pure=False)) == [1, 2, 3, 4]
        assert waiting.status == "pending"
        assert not client.run(lambda dask_worker: dask_worker.state.running)[address]
        client.run(set_status, name="running", workers=[address])
        until(lambda: known() == "running", "the end of the pause")
        assert waiting.result(timeout=120) == 2


def test_what_a_worker_runs_when_it_is_paused_ends(unwatched, tmp_path):
    """A running task ends; those that wait on the worker stay, none is lost."""
    with unwatched.connected() as client:
        gate = Gate(tmp_path)
        address = sorted(workers_of(client))[0]
        running = client.submit(gate, 3, workers=[address], pure=False)
        gate.wait_started()
        behind = client.map(inc, range(5), workers=[address], pure=False)
        client.run(set_status, name="paused", workers=[address])
        gate.open()
        assert running.result(timeout=120) == 3
        assert {future.status for future in behind} == {"pending"}
        client.run(set_status, name="running", workers=[address])
        assert client.gather(behind) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("depth", (1, 3, 150))
def test_a_stack_is_counted_as_stock_counts_it(depth):
    import sys
    import threading

    from distributed import profile

    from rask._native import _worker
    from rask.worker.profiling import MOST_FRAMES, STOP, add_stack, frames_of, stack_of

    me = threading.get_ident()

    ours, stock = profile.create(), profile.create()

    def down(n):
        if n > 1:
            return down(n - 1)
        frame = sys._getframe()
        for _ in range(2):  # on one line: a profile names the line that runs
            stack = _worker.stacks([me], MOST_FRAMES)[me]
            nodes = add_stack(ours, stack_of(frames_of(stack))), profile.process(frame, True, stock, stop=STOP)
            assert nodes[0] == nodes[1]

    down(depth)
    assert ours == stock


COLLECTED = """
import gc, threading, time
from rask._native import _worker

sampling = [False]
def callback(phase, info):  # lets the threads that are looked at run on
    if sampling[0] and threading.current_thread() is threading.main_thread():
        time.sleep(0.0005)
gc.callbacks.append(callback)
gc.set_threshold(20, 1000, 1000)

def made(k):  # frames of different sizes, so that none lies where another was
    names = ", ".join(f"v{i}" for i in range(k + 1))
    space = {}
    exec(f"def f(n, fs):\\n    {names}, *r = range({k + 1})\\n"
         f"    return fs[(n * 7 + {k}) % len(fs)](n - 1, fs) if n else [j for j in range(3)]", space)
    return space["f"]
functions = [made(k) for k in range(13)]
def work():
    for i in range(1 << 60):
        functions[i % 13](i % 9, functions)
threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
idents = [thread.ident for thread in threads]
kept, seen, end = [], 0, time.monotonic() + 5
while time.monotonic() < end:
    kept.append([[] for _ in range(seen % 25)])
    sampling[0] = True
    stacks = _worker.stacks(idents, 101)
    sampling[0] = False
    kept.append(stacks)
    seen += sum(frame.f_code.co_name == "f" for stack in stacks.values() for frame in stack)
    if len(kept) > 200:
        kept.clear()
gc.disable()
_worker.stacks(idents, 1)
print(seen > 1000, gc.isenabled(), len(_worker.stacks(idents, 1)[idents[0]]))
import os; os._exit(0)
"""


@pytest.mark.fault("W21")
def test_stacks_are_looked_at_while_garbage_is_collected():
    """sys._current_frames ends in a crash here within seconds, on Python 3.11."""
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-u", "-c", COLLECTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True False 1\n"), done.stderr


def test_samples_are_counted_first_and_put_into_the_trees_when_somebody_asks():
    import threading
    from collections import defaultdict

    from distributed import profile

    from rask.worker.profiling import Profiled

    class Base:
        low_level_profiler = False

        def __init__(self):
            self.active_threads, self.spent = {}, []
            self.profile_recent, self.profile_keys = profile.create(), defaultdict(profile.create)

        def cycle_profile(self):  # as stock's
            self.past, self.profile_recent = self.profile_recent, profile.create()
            self.profile_keys.clear()

        def digest_metric(self, name, value):
            self.spent.append(name)

    class Sampled(Profiled, Base):
        pass

    worker, inside, gate = Sampled(), threading.Event(), threading.Event()

    def task():
        inside.set()
        gate.wait()

    thread = threading.Thread(target=task)
    thread.start()
    try:
        inside.wait()
        worker.trigger_profile()  # nothing runs
        assert worker.profile_recent == profile.create()
        for key in ("task-1", "task-2", ("other", 3)):
            worker.active_threads[thread.ident] = key
            worker.trigger_profile()
        assert worker._profile_recent["count"] == 0  # only counted so far
        assert worker.profile_recent["count"] == 3
        assert {key: tree["count"] for key, tree in worker.profile_keys.items()} == {"task": 2, "other": 1}
        names, node = [], worker.profile_keys["task"]
        while node["children"]:
            (node,) = node["children"].values()
            assert node["count"] == (2 if node["children"] else 0)  # the innermost as in stock
            names.append(node["description"]["name"])
        assert "task" in names
        worker.trigger_profile()
        worker.cycle_profile()
        assert worker.spent == ["profile-duration"]
        assert worker.past["count"] == 4
        assert worker.profile_recent["count"] == 0 and not worker.profile_keys
    finally:
        gate.set()
        thread.join()
