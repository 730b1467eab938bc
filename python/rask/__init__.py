"""rask: a native runtime for Dask.

A scheduler and a worker in C++ that speak Dask's own wire protocol. Clients stay stock
`dask.distributed` clients; this package holds the command line, the processes around the native
scheduler that must be Python, and what is needed to start a cluster.

Importing `rask` imports nothing heavy: the command line and the worker start through it.
"""

from __future__ import annotations

from pathlib import Path

NATIVE_DIR = Path(__file__).parent / "_native"


def __getattr__(name: str) -> str:
    """Gives `__version__`: of the installed package, or of the build in a checkout."""
    if name != "__version__":
        raise AttributeError(f"module 'rask' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dask-rask")
    except PackageNotFoundError:
        from rask._native import _graph

        return _graph.version()
