"""Functions that the rows run as tasks.

They live in an importable module because that is what a program's own functions are; rows that
want a lambda or a closure build it in the client (`bed.rows`), as a notebook would.
"""

from __future__ import annotations

import time


def inc(x):
    return x + 1


def add(x, y):
    return x + y


def total(xs):
    return sum(xs)


def stencil(*neighbours):
    return sum(neighbours) % 1_000_003


def stencil_slow(*neighbours):
    time.sleep(0.001)
    return sum(neighbours) % 1_000_003


def block(nbytes, seed=0):
    return bytes([seed % 251]) * nbytes


def small_dict(n):
    return {str(i): [i, float(i)] for i in range(n)}


def array_of(nbytes):
    import numpy

    return numpy.ones(nbytes, dtype="u1")


def length(data):
    return len(data)


def first_byte(array):
    return int(array[0])


def sleep(seconds):
    time.sleep(seconds)


def frame(rows):
    """A live object that can only be pickled, with the GIL."""
    import pandas

    return pandas.DataFrame({"a": range(rows), "b": [str(i) for i in range(rows)]})


def hold_gil(seconds, kept=None):
    """Holds the GIL inside one C call; `kept` is a value that must stay on the worker meanwhile."""
    import ctypes

    ctypes.PyDLL(None).usleep(int(seconds * 1e6))
    return seconds


def spin(seconds, kept=None):
    """Plain Python that never sleeps: gives up the GIL only when asked."""
    end = time.perf_counter() + seconds
    n = 0
    while time.perf_counter() < end:
        n += 1
    return n
