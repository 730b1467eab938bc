"""Run specs of any node: the general path.

Pickles a node as distributed.protocol.pickle.dumps would, but functions and classes that cannot be
imported by workers are pickled once per submission and become out-of-band buffers shared by all
tasks: pickle.loads(<buffer>). What even that cannot pickle goes the stock way, whole.

Several such functions in one task are pickled together: cloudpickle lets functions of one pickle
share their globals, and a task may rely on it.

Answers to: distributed.scheduler._task_to_msg (ToPickle(ts.run_spec)), distributed.protocol.pickle.dumps.
"""

from __future__ import annotations

import io
import logging
import operator
import pickle
from types import FunctionType

from dask._task_spec import Task
from dask.multiprocessing import reraise
from distributed.protocol.pickle import dumps as dask_dumps

from rask.graph import opcodes
from rask.graph.emit import NONE
from rask.graph.opcodes import Unspliceable
from rask.graph.template import SHARED_MIN, Templates, pickle_value, trusted

logger = logging.getLogger("rask.graph")


class Packer:
    """Turns the nodes of one submission into (own bytes, tail blob, out-of-band blobs)."""

    def __init__(self, emitter):
        self._emitter = emitter
        self._templates = Templates(emitter) if trusted() else None
        self._functions = Functions()
        self._by_value: dict = {}  # id -> function of nodes that a plain pickle cannot hold

    def spec(self, node, key: bytes | None) -> tuple[bytes, int, list[int]]:
        """`key`: the opcodes of the node's key, None if it has none that can be spliced."""
        if self._templates is not None and key is not None:
            try:
                return self._templates.spec(node, key)
            except Unspliceable:
                pass
        try:
            return self._pickled(node)
        except Exception as e:
            # Only this task errs, where its error is seen: on the worker that would run it.
            logger.info("cannot pickle the task %r", node.key, exc_info=True)
            return self._pickled(Task(node.key, reraise, _portable(e), None))

    def _pickled(self, node) -> tuple[bytes, int, list[int]]:
        buffers: list[int] = []
        function = getattr(node, "func", None)
        if id(function) not in self._by_value:
            try:
                return pickle_value(node, self._emitter, buffers), NONE, buffers
            except Unspliceable:
                # Its siblings will not be plain either.
                self._by_value[id(function)] = function
        try:
            own, found = self._functions.pickled(node)
        except Exception:
            found = []
            own = dask_dumps(node, buffer_callback=found.append)
        return own, NONE, [self._emitter.buffer(b) for b in found]


def _portable(error: Exception) -> Exception:
    try:
        pickle.loads(dask_dumps(error))
        return error
    except Exception:
        return Exception(repr(error))


class _Bundle:
    """Stands for the tuple of all functions of one task that travel by value."""

    def __init__(self, data: bytes):
        self.data = data


class _Pickler(pickle.Pickler):
    def __init__(self, file, functions: Functions, buffers: list, bundle: tuple):
        def out_of_band(buffer):
            if buffer.raw().nbytes < SHARED_MIN:
                return True
            buffers.append(buffer)
            return False

        super().__init__(file, 5, buffer_callback=out_of_band)
        self._known = functions
        self._bundle = bundle  # (_Bundle, {id: place})
        self.met: list = []

    def reducer_override(self, obj):
        if isinstance(obj, (FunctionType, type)):
            if self._known.importable(obj):
                return NotImplemented
            self.met.append(obj)
            if self._bundle:
                bundle, places = self._bundle
                return operator.getitem, (bundle, places[id(obj)])
            return pickle.loads, (pickle.PickleBuffer(self._known.data((obj,))),)
        if type(obj) is _Bundle:
            return pickle.loads, (pickle.PickleBuffer(obj.data),)
        return NotImplemented


class Functions:
    """Functions and classes of one submission: importable, or pickled by value once."""

    def __init__(self):
        self._importable: dict[int, bool] = {}
        self._data: dict[tuple[int, ...], bytes] = {}
        self._spellings: dict[bytes, bytes] = {}
        self._alive: list = []

    def importable(self, obj) -> bool:
        known = self._importable.get(id(obj))
        if known is None:
            known = self._importable[id(obj)] = opcodes.by_reference(obj) is not None
            self._alive.append(obj)
        return known

    def data(self, objects: tuple) -> bytes:
        """The pickle of one function, or of a tuple of several."""
        key = tuple(map(id, objects))
        found = self._data.get(key)
        if found is None:
            whole = objects[0] if len(objects) == 1 else objects
            found = dask_dumps(whole)
            # A lambda made anew for each task is the same bytes each time.
            found = self._data[key] = self._spellings.setdefault(found, found)
        return found

    def pickled(self, node) -> tuple[bytes, list]:
        """The node's pickle and its out-of-band buffers."""
        data, buffers, met = self._dump(node, ())
        if len(met) < 2:
            return data, buffers
        together = tuple(sorted(met, key=id))
        places = {id(obj): i for i, obj in enumerate(together)}
        data, buffers, _ = self._dump(node, (_Bundle(self.data(together)), places))
        return data, buffers

    def _dump(self, node, bundle: tuple) -> tuple[bytes, list, list]:
        file = io.BytesIO()
        buffers: list = []
        pickler = _Pickler(file, self, buffers, bundle)
        pickler.dump(node)
        return file.getvalue(), buffers, pickler.met
