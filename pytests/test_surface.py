"""The lists in surface.py cover the installed distributed; every marker names one of their rows."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import surface

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import compat_table  # noqa: E402


def test_the_lists_cover_every_operation_of_the_installed_release():
    from distributed import Scheduler

    async def handlers():
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as stock:
            return set(stock.handlers), set(stock.stream_handlers)

    rpc, stream = asyncio.run(handlers())
    assert rpc - set(surface.RPC_OPS) == set()
    assert stream - set(surface.STREAM_OPS) == set()


def test_every_marker_names_a_row():
    found = compat_table.markers()
    assert set(found["op"]) - {*surface.RPC_OPS, *surface.STREAM_OPS} == set()
    assert set(found["api"]) - set(surface.CALLS) == set()
    assert set(found["refused"]) - {*surface.RPC_OPS, *surface.STREAM_OPS, *surface.CALLS} == set()
    assert set(found["fault"]) - set(compat_table.FAULTS) == set()


def test_the_lists_cover_every_public_method_of_a_client():
    from distributed import Client

    public = {name for name in dir(Client) if not name.startswith("_")}
    listed = {name.removeprefix("Client.") for name in surface.CALLS if name.startswith("Client.")}
    assert public - listed - set(surface.LOCAL) == set()


def test_every_row_is_proved_or_refused():
    found = compat_table.markers()
    proved = {*found["op"], *found["api"], *found["refused"]}
    assert {*surface.RPC_OPS, *surface.STREAM_OPS, *surface.CALLS} - proved == set()
    assert {*found["op"], *found["api"]} & set(found["refused"]) == set()
