"""Drives a graph process over its link, as the scheduler would, and reads what it answers.

For tests and for bench figures of the front end: `GraphProcess.submit` takes what a stock client
would put into update-graph and returns an `Answer` whose run specs are unpickled on demand.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import resource
import socket
import struct
import subprocess
import sys
from array import array
from pathlib import Path

import msgpack
from distributed.protocol.core import dumps as frames_of
from distributed.protocol.serialize import Serialized, ToPickle, serialize, to_serialize

PACKAGE = Path(__file__).resolve().parents[1] / "python"
HERE = str(Path(__file__).resolve().parent)
MEMFD_MIN = 1 << 20
NONE = 0xFFFFFFFF


class Died(Exception):
    pass


class Answer:
    """Everything a graph process said about one submission."""

    def __init__(self):
        self.opened: dict | None = None
        self.keys: list = []
        self.outside: list = []
        self.blobs: list = []
        self.sets: list[dict] = []
        self.barriers: list[dict] = []
        self.records: dict = {}  # key -> Record
        self.error: dict | None = None
        self.slices = 0
        self.bytes = 0

    def all_keys(self) -> list:
        return self.keys + self.outside

    def exception(self) -> BaseException:
        return pickle.loads(self.error["exception"])


class Record:
    def __init__(self, answer, own, tail, dependencies, buffers, flag, annotation, priority):
        self._answer = answer
        self.own, self.tail, self.buffers = own, tail, buffers
        self.dependencies = dependencies
        self.flag, self.priority = flag, priority
        self.annotations = answer.sets[annotation] if annotation != NONE else None

    def spec(self) -> bytes:
        tail = self._answer.blobs[self.tail] if self.tail is not None else b""
        return bytes(self.own) + bytes(tail)

    def node(self, unpickler=pickle.Unpickler):
        # Writable, as what a worker reads from a socket is.
        buffers = [bytearray(self._answer.blobs[b]) for b in self.buffers]
        return unpickler(io.BytesIO(self.spec()), buffers=buffers).load()


class GraphProcess:
    def __init__(self, python: str = sys.executable, stdout=None, order: str = "dask"):
        ours, theirs = socket.socketpair()
        self.sock = ours
        self._fds: list[int] = []
        env = dict(os.environ)
        env["PYTHONPATH"] = os.pathsep.join([str(PACKAGE), HERE, env.get("PYTHONPATH", "")])
        env["PYTHONHASHSEED"] = "0"  # dask's order depends on it
        env["DASK_RASK__GRAPH__ORDER"] = order
        fd = theirs.fileno()
        self.process = subprocess.Popen(
            [python, "-c", f"import os; os.dup2({fd}, 3); from rask.graph_process import main; main()"],
            pass_fds=[fd],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
        )
        theirs.close()
        self.hello, _ = self.read()
        self._next = 0
        self.sent: dict = {}
        self.homes = lambda key: NONE  # number of the worker that holds a key of another graph
        self.asked: list[list] = []

    def close(self) -> None:
        self.sock.close()
        self.process.wait(timeout=30)
        self.usage = resource.getrusage(resource.RUSAGE_CHILDREN)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def cpu(self) -> float:
        """CPU seconds used by the graph process so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # ---- sending ------------------------------------------------------------------------------

    def post(self, expr, wanted, annotations=None, order=True, expr_ser=None, settings=None) -> int:
        self._next += 1
        if expr_ser is None:
            expr_ser = Serialized(*serialize(to_serialize(expr), on_error="raise"))
        message = {"op": "graph", "id": self._next, "expr": expr_ser, "order": order,
                   "annotations": ToPickle(annotations or {})}  # fmt: skip
        frames = frames_of(message)
        header = msgpack.unpackb(frames[0], strict_map_key=False)
        header["keys"] = len(frames)
        header["settings"] = settings
        frames.append(msgpack.packb(list(wanted)))
        self.send(header, frames[1:])
        return self._next

    def send(self, header: dict, frames=()) -> None:
        frames = [m.cast("B") if (m := memoryview(f)).nbytes else b"" for f in frames]
        fds, listed = [], []
        for i, frame in enumerate(frames):
            if len(frame) >= MEMFD_MIN:
                fd = os.memfd_create("t")
                os.truncate(fd, len(frame))
                view = frame
                while view:
                    view = view[os.write(fd, view) :]
                fds.append(fd)
                listed.append((i + 1, len(frame)))
                frames[i] = b""
        if listed:
            header = {**header, "fds": listed}
        self.sent[header.get("id")] = fds, listed
        frames = [msgpack.packb(header), *frames]
        lengths = [len(f) for f in frames]
        data = struct.pack(f"<{len(frames) + 2}Q", 8 * (len(frames) + 1) + sum(lengths),
                           len(frames), *lengths) + b"".join(frames)  # fmt: skip
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        sent = self.sock.sendmsg([data], rights)
        self.sock.sendall(data[sent:])

    # ---- receiving ----------------------------------------------------------------------------

    def _take(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            data, ancillary, _, _ = self.sock.recvmsg(
                min(size - len(out), 1 << 20), socket.CMSG_SPACE(4 * 256)
            )
            for _, _, rights in ancillary:
                fds = array("i")
                fds.frombytes(rights)
                self._fds.extend(fds)
            if not data:
                raise Died(f"exit code {self.process.wait(timeout=30)}")
            out += data
        return bytes(out)

    def read(self) -> tuple[dict, list]:
        _, count = struct.unpack("<QQ", self._take(16))
        lengths = struct.unpack(f"<{count}Q", self._take(8 * count))
        frames = [self._take(n) for n in lengths]
        header = msgpack.unpackb(frames[0], use_list=False, strict_map_key=False)
        for frame, length in header.get("fds", ()):
            fd = self._fds.pop(0)
            frames[frame] = mmap.mmap(fd, length)
            os.close(fd)
        return header, frames

    def answer(self, submission: int) -> Answer:
        answer = Answer()
        while True:
            header, frames = self.read()
            assert header["id"] == submission, header
            answer.bytes += sum(map(len, frames))
            if self._apply(answer, header, frames):
                return answer

    def _apply(self, answer: Answer, header: dict, frames: list) -> bool:
        op = header["op"]
        if op == "open":
            answer.opened = header
        elif op == "keys":
            keys = msgpack.unpackb(frames[1], use_list=False, strict_map_key=False)
            (answer.outside if header["outside"] else answer.keys).extend(keys)
        elif op == "blobs":
            blobs = frames[1:]
            fds, listed = self.sent[header["id"]]
            for frame, source, offset, length in header.get("refs", ()):
                fd = fds[[i for i, _ in listed].index(source)]
                blobs[frame - 1] = mmap.mmap(fd, 0)[offset : offset + length]
            answer.blobs.extend(blobs)
        elif op == "annotations":
            answer.sets.extend(header["sets"])
        elif op == "barriers":
            answer.barriers.extend(header["barriers"])
        elif op == "records":
            self._records(answer, header, frames)
        elif op == "homes":
            self.asked.append(msgpack.unpackb(frames[1], use_list=False, strict_map_key=False))
            held = array("I", map(self.homes, self.asked[-1]))
            self.send({"op": "homes", "id": header["id"]}, [held.tobytes()])
        elif op == "error":
            answer.error = header
            return True
        elif op == "commit":
            return True
        return False

    def _records(self, answer: Answer, header: dict, frames: list) -> None:
        n, first = header["n"], header["first"]
        answer.slices += 1

        def column(frame: int, kind: str):
            values = array(kind)
            values.frombytes(frames[frame])
            return values

        lengths = column(1, "I")
        dependency_ends, dependencies = column(3, "I"), column(4, "I")
        buffer_ends, buffers = column(5, "I"), column(6, "I")
        flags, sets, priorities = frames[7], column(8, "I"), column(9, "q")
        tails = column(10, "I")
        at = 0
        for k in range(n):
            own = frames[2][at : at + lengths[k]]
            at += lengths[k]
            tail = tails[k] if tails else header["tail"]
            answer.records[answer.keys[first + k]] = Record(
                answer,
                own,
                None if tail == NONE else tail,
                list(dependencies[dependency_ends[k] : dependency_ends[k + 1]]) if dependency_ends else [],
                list(buffers[buffer_ends[k] : buffer_ends[k + 1]]) if buffer_ends else [],
                flags[k] if flags else 0,
                sets[k] if sets else NONE,
                priorities[k] if priorities else first + k,
            )
        assert at == len(frames[2])

    def submit(self, expr, wanted, annotations=None, order=True, expr_ser=None,
               settings=None) -> Answer:
        return self.answer(self.post(expr, wanted, annotations, order, expr_ser, settings))
