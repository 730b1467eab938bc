"""Task specs from their pickles; functions that travel by value are unpickled once.

A rask scheduler sends such a function as a pickle of its own inside the task's, the same bytes for
all its siblings: `pickle.loads(<bytes>)`. Here those bytes are looked up before they are unpickled.
Only functions and classes are kept, never arguments, so that no task sees what another did to
its own. What a user's function keeps in itself is shared by the tasks of a worker, as it is for
functions that are imported.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from types import FunctionType

LARGEST = 64 * 1024  # beyond, comparing costs what unpickling does
MOST = 256

_functions: OrderedDict[bytes, object] = OrderedDict()


def forget_functions() -> None:
    """Modules changed: functions that name them are looked up anew."""
    _functions.clear()


def load_function(data):
    """Takes the place of `pickle.loads` inside a spec."""
    if len(data) > LARGEST:
        return pickle.loads(data)
    data = bytes(data)
    found = _functions.get(data)
    if found is not None:
        return found
    loaded = pickle.loads(data)
    if isinstance(loaded, (FunctionType, type)):
        _functions[data] = loaded
        while len(_functions) > MOST:
            try:
                _functions.popitem(last=False)
            except KeyError:  # another thread was faster
                break
    return loaded


class _SpecUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name == "loads" and module in ("pickle", "_pickle"):
            return load_function
        return super().find_class(module, name)


def load_spec_pickle(own, buffers):
    """The graph node of a pickle; `buffers` lie outside of it."""
    if type(own) is not bytes or not (buffers or b"loads" in own):
        return pickle.loads(own, buffers=buffers)
    return _SpecUnpickler(io.BytesIO(own), buffers=buffers).load()
