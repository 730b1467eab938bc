"""Task specs from their pickles; functions that travel by value are unpickled once.

A rask scheduler sends such a function as a pickle of its own inside the task's, the same bytes for
all its siblings: `pickle.loads(<bytes>)`. Here those bytes are looked up before they are unpickled.
Only classes and functions that can keep nothing from one call to the next are kept, never arguments,
so that no task sees what another did to its own. A function that might (a list in its closure, a
`nonlocal`) is unpickled for each task.
"""

from __future__ import annotations

import dis
import io
import pickle
import sys
from collections import OrderedDict
from itertools import chain
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType

LARGEST = 64 * 1024  # beyond, comparing costs what unpickling does
MOST = 256
ATOMS = frozenset({int, float, str, bool, bytes, complex, type(None), type(...), range})
_FRESH = object()  # in the place of a function that is unpickled for each task

_EMPTY = CellType()
_functions: OrderedDict[bytes, object] = OrderedDict()


def forget_functions() -> None:
    """Modules changed: functions that name them are looked up anew."""
    _functions.clear()


def load_function(data):
    """Takes the place of `pickle.loads` inside a spec."""
    if len(data) > LARGEST:
        return pickle.loads(data)
    data = bytes(data)
    found = _functions.get(data, _FRESH)
    if found is not _FRESH:
        return found
    loaded = pickle.loads(data)
    if data not in _functions and isinstance(loaded, (FunctionType, type)):
        _functions[data] = loaded if _is_constant(loaded, set()) else _FRESH
        while len(_functions) > MOST:
            try:
                _functions.popitem(last=False)
            except KeyError:  # another thread was faster
                break
    return loaded


def _is_constant(value, seen: set[int]) -> bool:
    """Whether nothing that a task does with the value can be seen by the next. In doubt: no."""
    kind = type(value)
    if kind in ATOMS or isinstance(value, (type, ModuleType)):
        return True  # classes: cloudpickle itself makes one of those that it meets again
    if kind is BuiltinFunctionType:
        return isinstance(value.__self__, (ModuleType, type(None)))
    if kind is tuple or kind is frozenset:
        return all(_is_constant(each, seen) for each in value)
    return kind is FunctionType and _keeps_nothing(value, seen)


def _keeps_nothing(function: FunctionType, seen: set[int]) -> bool:
    """Whether a function has no state of its own: it assigns to nothing outside, and all it holds is constant."""
    home = sys.modules.get(function.__module__)
    if id(function) in seen or getattr(home, function.__qualname__, None) is function:
        return True
    seen.add(id(function))
    if _assigns_outside(function.__code__):
        return False
    names = (v for k, v in function.__globals__.items() if not k.startswith("__"))
    cells = (cell.cell_contents for cell in function.__closure__ or () if cell != _EMPTY)
    held = chain(names, cells, function.__defaults__ or (), (function.__kwdefaults__ or {}).values(),
                 function.__dict__.values())
    return all(_is_constant(value, seen) for value in held)


def _assigns_outside(code: CodeType) -> bool:
    for step in dis.get_instructions(code):
        kind, _, where = step.opname.partition("_")
        if kind in ("STORE", "DELETE") and (
                where in ("GLOBAL", "ATTR") or where == "DEREF" and step.argval in code.co_freevars):
            return True
    return any(_assigns_outside(inner) for inner in code.co_consts if isinstance(inner, CodeType))


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
