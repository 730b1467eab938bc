"""Bytes no honest peer sends: rows N5, X1, X2, X3, X10 of the fault catalogue.

Each test ends by using the cluster through a client that was there before: whatever a stranger
writes, only the stranger's own connection suffers.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator

import pytest
from conftest import SCHEDULER
from programs import inc, until
from rawpeer import HANDSHAKE, RawPeer, encode

native = pytest.mark.skipif(SCHEDULER != "rask", reason="a promise of the rask scheduler")

GARBAGE = {
    "http": b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls hello": bytes.fromhex("16030100c8010000c40303") + bytes(64),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "ones": b"\xff" * 64,
    "random": random.Random(1).randbytes(4096),
    "text": b"hello scheduler, are you there?\n",
}


@pytest.fixture
def unharmed(rask_cluster, rask_client) -> Iterator[str]:
    """The scheduler's address; afterwards an old and a new client still get answers."""
    before = rask_cluster.scheduler.pid
    future = rask_client.submit(inc, 1)
    future.result()
    yield rask_cluster.address
    assert rask_cluster.scheduler.alive() and rask_cluster.scheduler.pid == before
    assert rask_client.submit(inc, future).result() == 3
    with rask_cluster.client() as new:
        assert new.gather(new.map(inc, range(3))) == [1, 2, 3]


@native
@pytest.mark.fault("X1")
@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_first_bytes_end_the_connection(unharmed, kind):
    with RawPeer(unharmed) as peer:
        peer.send(GARBAGE[kind])
        assert peer.ended_by_peer()


@native
@pytest.mark.fault("X1")
def test_garbage_after_the_handshake_ends_the_connection(unharmed):
    for garbage in GARBAGE.values():
        with RawPeer(unharmed) as peer:
            assert peer.shake_hands()["pickle-protocol"]
            peer.send(garbage)
            assert peer.ended_by_peer()


WRONG = {
    "garbage": (b"", GARBAGE["http"]),
    "a wrong length": (encode(HANDSHAKE), struct.pack("<3Q", 8, 1, 100) + bytes(100)),
    "a list": (encode(HANDSHAKE), encode([1, 2])),
    "no op": (encode(HANDSHAKE), encode({"reply": True})),
}


@native
@pytest.mark.fault("X1")
@pytest.mark.parametrize("what", WRONG)
def test_the_log_says_once_whose_connection_ended_and_why(unharmed, rask_cluster, what):
    before = len(rask_cluster.scheduler.log_text())  # the port may have been another's
    with RawPeer(unharmed) as peer:
        port = peer.socket.getsockname()[1]
        peer.send(b"".join(WRONG[what]))
        assert peer.ended_by_peer()

    def lines():
        log = rask_cluster.scheduler.log_text()[before:].splitlines()
        return [line for line in log if f":{port}" in line]

    until(lines, "the line in the log")
    (line,) = lines()
    assert re.search(rf"127\.0\.0\.1:{port}\b.*: \S.*$", line)


@native
def test_the_log_names_an_unknown_op_once(unharmed, rask_cluster):
    for _ in range(3):
        with RawPeer(unharmed) as peer:
            peer.shake_hands()
            peer.send(encode({"op": "an-op-of-tomorrow", "reply": True}))
            assert peer.receive() is None
    rask_cluster.scheduler.wait_for("No handler an-op-of-tomorrow found")
    assert rask_cluster.scheduler.log_text().count("an-op-of-tomorrow") == 1


def messages() -> dict[str, bytes]:
    """What is sent, in order, by a peer that registers as a client and asks something."""
    return {
        "handshake": encode(HANDSHAKE),
        "identity": encode({"op": "identity", "reply": True, "n_workers": 0}),
        "register": encode({"op": "register-client", "client": "raw-client", "reply": False,
                            "versions": {}}),
    }


@pytest.mark.fault("N5")
@pytest.mark.parametrize("last", ["handshake", "identity", "register"])
def test_a_reset_at_every_byte_of_a_message_harms_nobody(unharmed, last):
    whole = messages()
    before = whole["handshake"] if last != "handshake" else b""
    message = whole[last]
    for cut in range(len(message)):
        peer = RawPeer(unharmed)
        peer.send(before + message[:cut])
        peer.reset()


@native
@pytest.mark.fault("X2")
@pytest.mark.parametrize("words", [
    (2**64 - 1,), (2**63, 1), (16, 2**64 - 1), (24, 2, 2**64 - 1, 2**64 - 1),
    (8 + 8 * 65, 65), (2**40, 1, 2**40),
], ids=str)
def test_declared_lengths_are_not_believed(unharmed, rask_cluster, words):
    import psutil

    process = psutil.Process(rask_cluster.scheduler.pid)
    before = process.memory_info().rss
    with RawPeer(unharmed) as peer:
        peer.send(struct.pack(f"<{len(words)}Q", *words) + bytes(64))
        assert peer.ended_by_peer()
    assert process.memory_info().rss < before + 32 * 2**20


@native
@pytest.mark.fault("X3")
@pytest.mark.parametrize("bomb", [
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x91" * 100_000, b"\x81\xa1a" * 50_000,
    b"\xc6\xff\xff\xff\xff", b"\xc1",
], ids=["array32", "map32", "deep arrays", "deep maps", "bin32", "reserved"])
def test_msgpack_bombs_end_the_connection(unharmed, bomb):
    frame = struct.pack("<3Q", 16 + len(bomb), 1, len(bomb)) + bomb
    with RawPeer(unharmed) as peer:
        peer.shake_hands()
        peer.send(frame)
        assert peer.ended_by_peer()


@native
@pytest.mark.fault("X10")
@pytest.mark.parametrize("message", [
    {"op": "no-such-op", "reply": True}, {"no": "op"}, {"op": 7, "reply": True}, ["list"], "text",
    {"op": "gather", "reply": True}, {"op": "gather", "reply": True, "keys": 5},
    {"op": "scatter", "reply": True, "data": 1}, {"op": "who_has", "reply": True, "keys": {"a": 1}},
    {"op": "register-worker", "reply": True}, {"op": "register-client", "client": 3},
    {"op": "heartbeat_worker", "reply": True, "address": "tcp://1.2.3.4:5"},
    {"op": "identity", "reply": True, "n_workers": "many", "more": [None] * 10},
    {"op": "update-graph", "client": "me"},
], ids=lambda m: str(m)[:40])
def test_wrong_messages_are_answered_or_end_their_connection(unharmed, message):
    with RawPeer(unharmed) as peer:
        peer.shake_hands()
        peer.send(encode(message))
        peer.send(encode({"op": "identity", "reply": True, "n_workers": 0, "close": True}))
        peer.ended_by_peer()


def test_an_unknown_op_is_answered_as_stock_answers_it(same):
    def prog(client, cluster):
        with RawPeer(cluster.address) as peer:
            peer.shake_hands()
            peer.send(encode({"op": "no-such-op", "reply": True}))
            answer = peer.receive()
            return answer if answer is None else sorted(map(str, answer))

    same(prog)
