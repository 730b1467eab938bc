"""Deep equality of graph nodes, and what stock's scheduler would make of a submission."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import dask.order
import numpy as np
import pandas as pd
from dask._expr import LLGExpr
from dask._task_spec import GraphNode, TaskRef
from distributed.protocol.pickle import dumps
from distributed.scheduler import _cull, _materialize_graph


class Stock:
    """The graph as stock's scheduler holds it after update_graph."""

    def __init__(self, expr, wanted, order: bool = True):
        dsk, self.annotations = _materialize_graph(expr, validate=False)
        if isinstance(expr, LLGExpr):
            dsk = _cull(dsk, set(wanted))
        self.order = dask.order.order(dsk) if order else None
        self.nodes = {
            key: (_as_sent(node), node.dependencies, node.data_producer)
            for key, node in _cull(dsk, set(wanted)).items()
        }


def _as_sent(node) -> tuple[bytes, list[bytearray]]:
    """What a stock worker would unpickle."""
    buffers: list = []
    data = dumps(node, buffer_callback=buffers.append)
    return data, [bytearray(b.raw()) for b in buffers]


class StockProcess:
    """Answers with Stock from a process of its own, whose hash seed is that of GraphProcess."""

    def __init__(self):
        env = {**os.environ, "PYTHONHASHSEED": "0"}
        path = str(Path(__file__).parent)
        env["PYTHONPATH"] = os.pathsep.join([path, env.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import nodes; nodes.serve()"],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __call__(self, expr, wanted, order: bool = True) -> Stock:
        _write(self._process.stdin, dumps((expr, wanted, order)))
        answer = pickle.loads(_read(self._process.stdout))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(timeout=30)


def serve() -> None:
    while data := _read(sys.stdin.buffer):
        try:
            answer = dumps(Stock(*pickle.loads(data)))
        except BaseException as e:  # noqa: BLE001
            answer = dumps(e)
        _write(sys.stdout.buffer, answer)


def _write(file, data: bytes) -> None:
    file.write(len(data).to_bytes(8, "little") + data)
    file.flush()


def _read(file) -> bytes:
    size = file.read(8)
    return file.read(int.from_bytes(size, "little")) if size else b""


def differences(left: Any, right: Any, path: str = "", seen: set | None = None) -> list[str]:
    """Where two values differ, in words; empty if they are the same."""
    seen = set() if seen is None else seen
    if left is right or (id(left), id(right)) in seen:
        return []
    seen.add((id(left), id(right)))
    if type(left) is not type(right):
        # A class that travelled by value twice is two classes with one name.
        if type(left).__qualname__ != type(right).__qualname__:
            return [f"{path}: {type(left)} and {type(right)}"]
    if isinstance(left, (GraphNode, TaskRef)) and hasattr(type(left), "__slots__"):
        slots = left.get_all_slots() if isinstance(left, GraphNode) else ("key",)
        pairs = [(s, getattr(left, s, None), getattr(right, s, None)) for s in slots]
        return [d for s, a, b in pairs for d in differences(a, b, f"{path}.{s}", seen)]
    if isinstance(left, types.FunctionType):
        return _function_differences(left, right, path, seen)
    if isinstance(left, functools.partial):
        parts = [(p.func, p.args, p.keywords) for p in (left, right)]
        return differences(*parts, path, seen)
    if isinstance(left, np.ndarray):
        same = left.dtype == right.dtype and left.flags.writeable == right.flags.writeable
        equal = left.tobytes() == right.tobytes() or np.array_equal(left, right)
        return [] if same and equal and left.shape == right.shape else [f"{path}: arrays"]
    if isinstance(left, (pd.DataFrame, pd.Series, pd.Index)):
        return [] if left.equals(right) else [f"{path}: frames"]
    if isinstance(left, dict):
        if list(map(repr, left)) != list(map(repr, right)):
            return [f"{path}: keys {list(left)[:5]} and {list(right)[:5]}"]
        pairs = [(k, a, b) for (k, a), b in zip(left.items(), right.values())]
        return [d for k, a, b in pairs for d in differences(a, b, f"{path}[{k!r}]", seen)]
    if isinstance(left, (list, tuple)):
        if len(left) != len(right):
            return [f"{path}: {len(left)} and {len(right)} elements"]
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(left, right))]
        return [d for i, a, b in pairs for d in differences(a, b, f"{path}[{i}]", seen)]
    return _value_differences(left, right, path, seen)


def _function_differences(left, right, path, seen) -> list[str]:
    found = []
    for name in ("__qualname__", "__module__", "__defaults__", "__kwdefaults__", "__dict__"):
        found += differences(getattr(left, name), getattr(right, name), f"{path}.{name}", seen)
    if left.__code__.co_code != right.__code__.co_code:
        found.append(f"{path}: code")
    cells = [c.cell_contents for c in left.__closure__ or ()]
    others = [c.cell_contents for c in right.__closure__ or ()]
    return found + differences(cells, others, f"{path}.__closure__", seen)


def _value_differences(left, right, path, seen) -> list[str]:
    try:
        if bool(left == right) or (left != left and right != right):
            return []
    except Exception:
        pass
    if isinstance(left, type):
        return [] if left.__qualname__ == right.__qualname__ else [f"{path}: classes"]
    if hasattr(left, "__dict__") and left.__dict__:
        return differences(vars(left), vars(right), path, seen)
    if hasattr(left, "__reduce_ex__"):
        a, b = left.__reduce_ex__(4), right.__reduce_ex__(4)
        if isinstance(a, str):
            return [] if a == b else [f"{path}: {a} and {b}"]
        parts = [x if isinstance(x, (tuple, dict, type(None))) else [x] for x in a[:3]]
        others = [x if isinstance(x, (tuple, dict, type(None))) else [x] for x in b[:3]]
        if dumps(left) == dumps(right):
            return []
        return differences(parts, others, f"{path}.__reduce__", seen)
    return [f"{path}: {left!r} and {right!r}"]
