"""The codec against stock Dask's own: what stock writes we read and repeat byte for byte, and what we
write stock reads, field for field.

Runs tests/protocol/wire_tool.cc on messages made by `distributed.protocol.core.dumps`. Strictness is
proved with the code that would complain: the records of the worker's state machine, and the
signatures of the handlers of scheduler and client.
"""

from __future__ import annotations

import inspect
import math
import os
import pickle
import struct
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest
from dask.utils import key_split
from distributed import Client, Scheduler, Worker
from distributed.core import clean_exception, error_message
from distributed.protocol import deserialize, to_serialize
from distributed.protocol.compression import compressions
from distributed.protocol.core import dumps, loads
from distributed.protocol.serialize import Serialized, ToPickle, serialize
from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError
from distributed.shuffle._exceptions import P2PConsistencyError
from distributed.shuffle._worker_plugin import ShuffleWorkerPlugin
from distributed.stealing import WorkStealing
from distributed.utils import key_split_group
from distributed.worker_state_machine import (
    AcquireReplicasEvent,
    AddKeysMsg,
    ComputeTaskEvent,
    FreeKeysEvent,
    LongRunningMsg,
    RefreshWhoHasEvent,
    ReleaseWorkerDataMsg,
    RemoveReplicasEvent,
    RemoveWorkerEvent,
    RequestRefreshWhoHasMsg,
    RescheduleMsg,
    StealRequestEvent,
    StealResponseMsg,
    TaskErredMsg,
    TaskFinishedMsg,
)

ROOT = Path(__file__).resolve().parents[1]
TOOL = os.environ.get("RASK_WIRE_TOOL", str(ROOT / "build/release/tests/wire_tool"))


def encode(frames: list) -> bytes:
    frames = [bytes(frame) for frame in frames]
    lengths = [len(frame) for frame in frames]
    words = [8 * (len(frames) + 1) + sum(lengths), len(frames), *lengths]
    return struct.pack(f"<{len(words)}Q", *words) + b"".join(frames)


def decode(stream: bytes) -> list[list[bytes]]:
    messages = []
    while stream:
        _, count = struct.unpack_from("<QQ", stream)
        lengths = struct.unpack_from(f"<{count}Q", stream, 16)
        stream = stream[16 + 8 * count :]
        frames = []
        for length in lengths:
            frames.append(stream[:length])
            stream = stream[length:]
        messages.append(frames)
    return messages


def tool(task: str, *messages: list) -> list[list[bytes]]:
    sent = b"".join(map(encode, messages))
    done = subprocess.run([TOOL, task], input=sent, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return decode(done.stdout)


def through(task: str, message: Any) -> Any:
    [frames] = tool(task, dumps(message))
    return loads(frames)


class Opaque:
    """Compares by value after a pickle; msgpack cannot encode it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


MESSAGES = {
    "scalars": {"a": None, "b": True, "c": -1, "d": 2**64 - 1, "e": 1.5, "f": "é", "g": b"\xff"},
    "handshake": {"compression": None, "python": (3, 11, 2), "pickle-protocol": 5},
    "array keys": {("x", 0): 1, ("y", (1, 2.5)): [1, 2], 3: {}},
    "set": {"op": "update-graph", "keys": {"a", ("b", 1)}},
    "serialized": {"op": "x", "data": {"k": to_serialize(list(range(100)))}},
    "numpy": {"data": to_serialize(np.arange(10_000)), "more": [to_serialize(np.ones(3))]},
    "empty buffers": {"data": to_serialize(np.empty(0)), "bytes": to_serialize(b"")},
    "pickled": {"op": "x", "a": ToPickle({"v": 1}), "b": ToPickle(np.arange(5))},
    "fallback": {"op": "x", "nested": {"deep": [Opaque(1), {"k": Opaque("two")}]}},
    "pickled key": {Opaque(1): 2},
    "batch": [{"op": "a", "x": ToPickle(1)}, {"op": "b", "y": to_serialize(b"1" * 70_000)}],
    "deep": {"x": eval("[" * 30 + "]" * 30)},
    "bare text": "OK",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_stock_writes_is_repeated_byte_for_byte(name):
    frames = [bytes(frame) for frame in dumps(MESSAGES[name])]
    [answer] = tool("echo", frames)
    if name not in ("fallback", "pickled key"):  # there stock leaves frames that nothing names
        assert answer == frames
    assert repr(loads(answer)) == repr(loads(frames)) or loads(answer) == loads(frames)


def test_many_messages_in_one_stream_keep_their_order():
    sent = [dumps({"n": n, "data": ToPickle("x" * n * 100)}) for n in range(300)]
    assert [loads(frames)["n"] for frames in tool("echo", *sent)] == list(range(300))


def test_serialized_objects_are_relayed_unopened():
    value = Serialized(*serialize({"x": np.arange(1000), "y": "text"}))
    sent = dumps({"data": value})
    [frames] = tool("echo", sent)
    got, direct = (loads(f, deserialize=False)["data"] for f in (frames, sent))
    assert got.header == direct.header
    assert str(deserialize(got.header, got.frames)) == str(
        deserialize(value.header, value.frames))


STARTSTOPS = [
    {"action": "transfer", "start": 1.5, "stop": 2.5, "source": "tcp://127.0.0.1:1"},
    {"action": "compute", "start": 3.0, "stop": 4.0},
]


def stock_worker_messages() -> list[dict]:
    key, other = "x-1", ("y", 2)
    error = error_message(ValueError("bad"))
    sent = [
        TaskFinishedMsg(key=key, run_id=3, nbytes=28, type=b"pickle", typename="int",
                        metadata={"m": (1,)}, thread=12345, startstops=STARTSTOPS,
                        stimulus_id="s"),
        TaskFinishedMsg(key=other, run_id=3, nbytes=28, type=b"pickle", typename="int",
                        metadata={}, thread=None, startstops=STARTSTOPS, stimulus_id="s"),
        TaskErredMsg(key=key, run_id=4, exception=error["exception"],
                     traceback=error["traceback"], exception_text="e", traceback_text="t",
                     thread=None, startstops=[], stimulus_id="s"),
        ReleaseWorkerDataMsg(key=other, stimulus_id="s"),
        RescheduleMsg(key=key, stimulus_id="s"),
        LongRunningMsg(key=key, run_id=1, compute_duration=None, stimulus_id="s"),
        AddKeysMsg(keys=[key, other], stimulus_id="s"),
        RequestRefreshWhoHasMsg(keys=[key], stimulus_id="s"),
        StealResponseMsg(key=key, state="ready", stimulus_id="s"),
        StealResponseMsg(key=key, state=None, stimulus_id="s"),
    ]
    return [message.to_dict() for message in sent] + [
        {"op": "worker-status-change", "status": "paused", "stimulus_id": "s"},
        {"op": "log-event", "topic": ("a", "b"), "msg": {"x": Opaque(1)}},
    ]


def stock_scheduler_messages() -> list[dict]:
    key, other = "x-1", ("y", 2)
    compute = {
        "op": "compute-task", "key": key, "run_id": 5, "priority": (0, 1, -2.5),
        "stimulus_id": "compute-task-1", "who_has": {other: ("tcp://127.0.0.1:1",)},
        "nbytes": {other: 100}, "run_spec": ToPickle(np.arange(3)),
        "resource_restrictions": {"GPU": 1}, "actor": False,
        "annotations": {"executor": "default", "odd": Opaque(2)}, "span_id": "span",
    }
    return [
        compute,
        {**compute, "resource_restrictions": None, "annotations": {}, "span_id": None},
        {"op": "free-keys", "keys": (key, other), "stimulus_id": "s"},
        {"op": "acquire-replicas", "who_has": {key: ("a",), other: ("a", "b")},
         "nbytes": {key: 1, other: 2}, "stimulus_id": "s"},
        {"op": "steal-request", "key": other, "stimulus_id": "s"},
    ]


@pytest.mark.parametrize("make", [stock_worker_messages, stock_scheduler_messages])
def test_every_op_read_and_written_again_is_the_same(make):
    frames = dumps(make())
    [answer] = tool("reread", frames)
    got, expected = loads(answer), loads(frames)
    assert [message["op"] for message in got] == [message["op"] for message in expected]
    assert list(map(repr, map(sorted_fields, got))) == list(
        map(repr, map(sorted_fields, expected)))


def sorted_fields(message: dict) -> dict:
    return {name: getattr(value, "value", value) if isinstance(value, Opaque) else
            {k: (v.value if isinstance(v, Opaque) else v) for k, v in value.items()}
            if isinstance(value, dict) else value
            for name, value in sorted(message.items())}


@pytest.fixture(scope="module")
def samples() -> SimpleNamespace:
    names = ["to_worker", "to_scheduler", "to_client", "pickles", "error"]
    return SimpleNamespace(**dict(zip(names, map(loads, tool("samples")), strict=True)))


def test_the_worker_takes_every_message_to_it(samples):
    records = {
        "compute-task": ComputeTaskEvent, "free-keys": FreeKeysEvent,
        "remove-replicas": RemoveReplicasEvent, "acquire-replicas": AcquireReplicasEvent,
        "refresh-who-has": RefreshWhoHasEvent, "steal-request": StealRequestEvent,
        "remove-worker": RemoveWorkerEvent,
    }
    methods = {"worker-status-change": Worker.handle_worker_status_change, "close": Worker.close,
               "close-stream": lambda self: None}
    seen = set()
    for message in samples.to_worker:
        fields = dict(message)
        op = fields.pop("op")
        seen.add(op)
        if op in records:
            records[op](**fields)  # raises on one field too many or too few
        else:
            inspect.signature(methods[op]).bind(None, **fields)
    assert seen == {*records, *methods}
    first, second = (m for m in samples.to_worker if m["op"] == "compute-task")
    text, buffer = first["run_spec"]
    assert (text, bytes(buffer)) == ("spec", b"b" * 5000)
    assert first["resource_restrictions"] is None and first["span_id"] is None
    assert first["annotations"] == {} and first["actor"] is False
    assert second["resource_restrictions"] == {"GPU": 1, "MEM": 0.5}
    assert second["who_has"] == {
        "x-1": ("tcp://127.0.0.1:1",), ("y", 0.5, 0x1234): ("tcp://127.0.0.1:2",)}
    assert second["nbytes"] == {"x-1": 10, ("y", 0.5, 0x1234): 20}


def test_the_scheduler_takes_every_message_to_it(samples):
    methods = {
        "task-finished": Scheduler.handle_task_finished, "task-erred": Scheduler.handle_task_erred,
        "release-worker-data": Scheduler.release_worker_data, "add-keys": Scheduler.add_keys,
        "request-refresh-who-has": Scheduler.handle_request_refresh_who_has,
        "steal-response": WorkStealing.move_task_confirm,
        "long-running": Scheduler.handle_long_running, "reschedule": Scheduler._reschedule,
        "log-event": Scheduler.log_worker_event, "keep-alive": lambda self, worker: None,
    }
    for message in samples.to_scheduler:
        fields = dict(message)
        op = fields.pop("op")
        if op == "register-worker":
            assert fields.pop("reply") is False
            inspect.signature(Scheduler.add_worker).bind(None, None, **fields)
        elif op == "heartbeat_worker":
            inspect.signature(Scheduler.heartbeat_worker).bind(None, **fields)
            metrics = fields["metrics"]
            assert {"bandwidth", "memory", "spilled_bytes", "digests_total_since_heartbeat",
                    "cpu", "time", "transfer", "num_fds"} <= set(metrics)
        else:
            inspect.signature(methods.pop(op)).bind(None, worker="w", **fields)
    assert not methods
    finished = samples.to_scheduler[0]
    stock = loads(dumps(stock_worker_messages()[:1]))[0]
    assert set(finished) == set(stock)


def test_the_client_takes_every_message_to_it(samples):
    methods = {
        "key-in-memory": Client._handle_key_in_memory, "task-erred": Client._handle_task_erred,
        "lost-data": Client._handle_lost_data, "task-retried": Client._handle_retried_key,
        "cancelled-keys": Client._handle_cancelled_keys, "restart": Client._handle_restart,
        "event": Client._handle_event,
        "adjust-heartbeat-interval": Client._adjust_heartbeat_intervals,
    }
    seen = set()
    for message in samples.to_client:
        fields = dict(message)
        assert "status" not in fields
        op = fields.pop("op")
        seen.add(op)
        inspect.signature(methods[op]).bind(None, **fields)
    assert seen == set(methods)
    assert samples.to_client[5]["keys"] == {"x-1", ("y", 0.5, 0x1234)}


def test_hand_made_pickles_are_the_objects_they_claim(samples):
    value, key, killed, no_valid, no_worker, plugin, p2p = map(pickle.loads, samples.pickles)
    assert type(value) is ValueError and value.args == ("it's " + "x" * 300,)
    assert type(key) is KeyError and key.args == (("y", 0.5, 0x1234),)
    expected = KilledWorker("x-1", SimpleNamespace(address="tcp://127.0.0.1:1"), 3)
    assert type(killed) is KilledWorker and str(killed) == str(expected)
    assert killed.last_worker.address == "tcp://127.0.0.1:1" and killed.allowed_failures == 3
    assert type(no_valid) is NoValidWorkerError
    assert no_valid.args == (("y", 0.5, 0x1234), {"one", "two"}, set(), {"GPU": 1.0}, 2.5)
    assert str(no_valid)
    assert type(no_worker) is NoWorkerError
    assert str(no_worker) == str(NoWorkerError("x-1", 30.0))
    assert type(plugin) is ShuffleWorkerPlugin
    assert type(p2p) is P2PConsistencyError and str(p2p) == "text"


def test_an_error_reply_is_raised_by_stock(samples):
    assert samples.error["status"] == "uncaught-error"
    assert samples.error["exception_text"] == "KeyError('gone')"
    kind, exception, traceback = clean_exception(**samples.error)
    assert kind is KeyError and exception.args == ("gone",) and traceback is None


KEYS = [
    "x", "x-1", "x-1-2-3", "('x-2', 1)", "hello-world-1", "ae05086432ca935f6eba409a8ecd4896",
    "<module.submodule.myclass object at 0xdaf372", "x-abcdefab", "x-zbcdefab", "_(x)",
    "add-0123456789abcdef", "été-über-1", "x-y-9", "'quoted'", "it's", "tab\tnew\nline", "\x7f\x00",
    "sum-aggregate-abc-1", "read_csv-1234", "a" * 40, "x\u2028y", "日本-語", "x-·-y", "x-→",
    "('a', 'b,c')", "name,with-comma", "_", "1-x", "#1", "😀-y",
    1, -1, 0.5, 1e300, 1e-7, 123456789.125, -0.0001, 2**63, -(2**63), math.inf,
    ("x-2", 1), ("a", ("b", 1.5)), (("a", 1), 2), ("only",), (1, 2),
]


def test_keys_are_named_and_printed_as_in_python():
    answers = through("keys", KEYS)
    for key, (packed, prefix, group, printed, text, made) in zip(KEYS, answers, strict=True):
        assert packed == msgpack.packb(key)
        assert prefix == key_split(key)
        assert group == str(key_split_group(key))
        assert printed == repr(key)
        assert text == str(key)
        assert pickle.loads(made) == key


def test_equal_keys_have_equal_bytes():
    equal = [[1, 1.0, True], [0, 0.0, -0.0, False], [("x", 1), ("x", 1.0), ("x", True)],
             [2**53, float(2**53)], [-5, -5.0], ["x"], [b"x"]]
    for group in equal:
        answers = through("keys", group)
        assert len({packed for packed, *_ in answers}) == 1
    different = ["1", 1, b"1", ("1",), (1,), 1.5, "x", b"x"]
    assert len({packed for packed, *_ in through("keys", different)}) == len(different)


@pytest.mark.parametrize("name", ["lz4", "zstd"])
@pytest.mark.parametrize("data", [b"", b"x", b"abc" * 50_000, os.urandom(20_000)])
def test_compressed_frames_are_understood_both_ways(name, data):
    [packed] = tool("pack", dumps({"name": name, "data": data}))
    assert bytes(compressions[name].decompress(loads(packed))) == data
    stock = bytes(compressions[name].compress(data))
    assert through("unpack", {"name": name, "data": stock}) == data


