"""Outcomes of programs and what it means for two of them to be the same.

Values are compared deeply, with their types: 1 and 1.0 and numpy.int64(1) are three different
answers. NumPy, pandas and xarray objects are compared by their own strict rules (dtype, index,
names). Of exceptions the type and the text count; addresses, process ids and random tokens in
texts are blanked first, because they differ between two clusters of the same kind too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BLANKED = (
    (re.compile(r"(tcp|tls)://[\d.]+:\d+"), "<address>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<token>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"0x[0-9a-f]+"), "<pointer>"),
)


def blanked(text: str) -> str:
    for pattern, name in BLANKED:
        text = pattern.sub(name, text)
    return text


@dataclass
class Outcome:
    """What a program did: gave a value or raised."""

    value: Any = None
    error: BaseException | None = None

    @classmethod
    def of(cls, prog: Callable[..., Any], *args: Any) -> Outcome:
        try:
            return cls(value=prog(*args))
        except Exception as error:  # the program's failure is its outcome
            return cls(error=error)

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def describe(self) -> str:
        if self.error is None:
            return f"value {self.value!r:.500}"
        return f"raised {type(self.error).__name__}: {str(self.error):.2000}"


def describe_difference(a: Outcome, b: Outcome) -> str | None:
    """None if the two are the same, else one line that says where they part."""
    if (a.error is None) != (b.error is None):
        return "one gave a value, the other raised"
    if a.error is not None:
        return different(a.error, b.error, "exception")
    return different(a.value, b.value, "value")


def different(a: Any, b: Any, path: str) -> str | None:
    if type(a) is not type(b):
        return f"{path}: type {_type_name(a)} against {_type_name(b)}"
    for matches, compare in RULES:
        if matches(a):
            return compare(a, b, path)
    return None if a == b else f"{path}: {a!r:.200} against {b!r:.200}"


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _library(name: str, *types: str) -> Callable[[Any], bool]:
    def matches(value: Any) -> bool:
        return type(value).__module__.partition(".")[0] == name and type(value).__name__ in types
    return matches


def _exceptions(a: Any, b: Any, path: str) -> str | None:
    if blanked(str(a)) != blanked(str(b)):
        return f"{path}: text {blanked(str(a))!r:.1000} against {blanked(str(b))!r:.1000}"
    return different(a.__cause__, b.__cause__, path + ".__cause__")


def _floats(a: Any, b: Any, path: str) -> str | None:
    return None if a == b or (math.isnan(a) and math.isnan(b)) else f"{path}: {a!r} against {b!r}"


def _sequences(a: Any, b: Any, path: str) -> str | None:
    if len(a) != len(b):
        return f"{path}: length {len(a)} against {len(b)}"
    found = (different(x, y, f"{path}[{i}]") for i, (x, y) in enumerate(zip(a, b)))
    return next(filter(None, found), None)


def _mappings(a: Any, b: Any, path: str) -> str | None:
    if list(a) != list(b):
        return f"{path}: keys {list(a)!r:.300} against {list(b)!r:.300}"
    return next(filter(None, (different(a[k], b[k], f"{path}[{k!r}]") for k in a)), None)


def _arrays(a: Any, b: Any, path: str) -> str | None:
    import numpy as np

    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{path}: {a.dtype}{a.shape} against {b.dtype}{b.shape}"
    if a.dtype == object:
        return different(a.tolist(), b.tolist(), path)
    same = np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM")
    return None if same else f"{path}: {a!r:.300} against {b!r:.300}"


def _pandas(a: Any, b: Any, path: str) -> str | None:
    import pandas.testing as check

    name = type(a).__name__
    assert_equal = {"DataFrame": check.assert_frame_equal, "Series": check.assert_series_equal}
    try:
        assert_equal.get(name, check.assert_index_equal)(a, b, check_exact=True)
    except AssertionError as error:
        return f"{path}: {error}"
    return None


def _xarrays(a: Any, b: Any, path: str) -> str | None:
    return None if a.identical(b) else f"{path}: {a!r:.500} against {b!r:.500}"


RULES: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, str], str | None]], ...] = (
    (lambda v: isinstance(v, BaseException), _exceptions),
    (lambda v: isinstance(v, float), _floats),
    (lambda v: isinstance(v, (list, tuple)), _sequences),
    (lambda v: isinstance(v, dict), _mappings),
    (_library("numpy", "ndarray", "MaskedArray"), _arrays),
    (_library("pandas", "DataFrame", "Series", "Index", "RangeIndex", "DatetimeIndex",
              "MultiIndex"), _pandas),
    (_library("xarray", "DataArray", "Dataset", "Variable"), _xarrays),
)
