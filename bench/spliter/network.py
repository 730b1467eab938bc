"""A network of our own: each process of a cluster in its own namespace, links of a chosen rate.

This process becomes the switch: it leaves the machine's network for a new namespace with a bridge,
and every peer hangs on a port of that bridge. All counters are therefore here, in one file. Nothing
is left behind: namespaces end with the processes in them.

Invariant: the client talks to the scheduler only (Dask's default), so what workers sent and the
scheduler did not get, other workers got.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
CLIENT = "10.77.0.1"
_libc = ctypes.CDLL(None, use_errno=True)


class NoNamespaces(RuntimeError):
    """This machine or user cannot make network namespaces."""


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise NoNamespaces(f"{' '.join(argv)}: {done.stderr.strip()}")


def why_not() -> str | None:
    """Why namespaces cannot be used here; None if they can."""
    if os.geteuid() != 0:
        return "not root"
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "tc"))):
        return "iproute2 or util-linux is missing"
    probe = subprocess.run(["unshare", "-n", "sh", "-c",
                            "ip link add br0 type bridge && ip link add v0 type veth peer name v1 &&"
                            "tc qdisc add dev v0 root tbf rate 1gbit burst 64kb latency 400ms"],
                           capture_output=True, text=True)
    return None if probe.returncode == 0 else probe.stderr.strip() or "unshare failed"


@dataclass
class Peer:
    """A namespace with one address on the bridge."""

    name: str
    address: str
    holder: subprocess.Popen[bytes]

    def command(self, argv: list[str]) -> list[str]:
        """`argv`, run inside."""
        return ["nsenter", "--net", "-t", str(self.holder.pid), "--", *argv]


class Network:
    """The bridge and its peers. Made once per process, before threads exist."""

    def __init__(self) -> None:
        if _libc.unshare(CLONE_NEWNET) != 0:
            raise NoNamespaces(os.strerror(ctypes.get_errno()))
        for argv in (["lo", "up"], ["br0", "up"]):
            if argv[0] == "br0":
                _run("ip", "link", "add", "br0", "type", "bridge")
                _run("ip", "addr", "add", f"{CLIENT}/16", "dev", "br0")
            _run("ip", "link", "set", *argv)
        self.peers: dict[str, Peer] = {}
        self._made = 0

    def peer(self, name: str, rate: str | None = None) -> Peer:
        """A new namespace; `rate` (as tc writes it) shapes both directions of its link."""
        self._made += 1
        address = f"10.77.{self._made // 250}.{self._made % 250 + 2}"
        # An idle process keeps the namespace; it says a line when it is in there.
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo in; exec sleep infinity"],
                                  stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  preexec_fn=_die_with_parent)
        assert holder.stdout is not None
        if holder.stdout.readline() != b"in\n":
            raise NoNamespaces("unshare --net failed")
        peer = Peer(name, address, holder)
        port = f"p-{name}"
        _run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
             str(holder.pid))
        _run("ip", "link", "set", port, "master", "br0", "up")
        _run(*peer.command(["ip", "addr", "add", f"{address}/16", "dev", "eth0"]))
        for device in ("eth0", "lo"):
            _run(*peer.command(["ip", "link", "set", device, "up"]))
        if rate:
            shape = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]
            _run("tc", "qdisc", "add", "dev", port, *shape)
            _run(*peer.command(["tc", "qdisc", "add", "dev", "eth0", *shape]))
        self.peers[name] = peer
        return peer

    def close(self) -> None:
        for peer in self.peers.values():
            peer.holder.kill()
            peer.holder.wait()

    def between_workers(self) -> int:
        """Bytes, headers included, that workers have sent to workers so far.

        Workers send to the scheduler and to each other; what the scheduler got and the client did
        not send came from workers.
        """
        sent, got = 0, 0
        for device, received, transmitted in _devices():
            if device == "br0":
                got -= transmitted
            elif device == "p-scheduler":
                got += transmitted
            elif device.startswith("p-"):
                sent += received
        return max(0, sent - got)


def _devices() -> list[tuple[str, int, int]]:
    """(name, bytes received, bytes transmitted) of each device of this namespace."""
    found = []
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        columns = numbers.split()
        found.append((name.strip(), int(columns[0]), int(columns[8])))
    return found


def _die_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
