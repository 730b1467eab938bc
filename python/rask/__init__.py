"""rask: a native runtime for Dask.

A scheduler and a worker in C++ that speak Dask's own wire protocol. Clients stay stock
`dask.distributed` clients; this package holds the command line, the processes around the native
scheduler that must be Python, and what is needed to start a cluster.

Importing `rask` imports nothing heavy: the command line and the worker start through it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

NATIVE_DIR = Path(__file__).parent / "_native"


def __getattr__(name: str) -> Any:
    """Gives `spliter`, `compare`, `io` and `configure` on first use, and `__version__`.

    That of the package, or of the checkout's build.
    """
    if name in ("spliter", "io", "configure"):
        from importlib import import_module

        return import_module(f"rask.{name}")
    if name == "compare":
        from rask.spliter import compare

        return compare
    if name != "__version__":
        raise AttributeError(f"module 'rask' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dask-rask")
    except PackageNotFoundError:
        from rask._native import _graph

        return _graph.version()
