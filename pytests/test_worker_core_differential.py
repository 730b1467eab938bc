"""Our worker core against Python's own WorkerState, event by event.

Both live through the same random sequences; after each event their instructions must be equal in
content and order, and every few events their whole state. pytests/worker_core/oracle.py says how
stock is made deterministic and lists the few intended differences.

RASK_SEQUENCES (2000) and RASK_SEQUENCE_LENGTH (60) make it longer; RASK_SEQUENCE_SEED picks the first seed.
Answers to: distributed/worker_state_machine.py, WorkerState.handle_stimulus.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("RASK_BUILD", HERE.parent / "build" / "release"))
DRIVER = BUILD / "tests" / "worker_core_driver"
COUNT = int(os.environ.get("RASK_SEQUENCES", "2000"))
LENGTH = int(os.environ.get("RASK_SEQUENCE_LENGTH", "60"))
SEED = int(os.environ.get("RASK_SEQUENCE_SEED", "0"))


@pytest.fixture(scope="module")
def report() -> dict:
    if not DRIVER.exists():
        pytest.skip(f"{DRIVER} is not built")
    # In processes of their own: the oracle changes distributed's modules for good.
    processes = []
    jobs = os.cpu_count() or 1
    for job in range(jobs):
        args = [str(DRIVER), str(SEED + job), str(COUNT), str(jobs), str(LENGTH)]
        command = [sys.executable, "-m", "worker_core.run", *args]
        processes.append(subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True))
    reports = []
    for process in processes:
        output, _ = process.communicate(timeout=3600)
        assert process.returncode == 0
        reports.append(json.loads(output))
    return merge(reports)


def merge(reports: list[dict]) -> dict:
    out: dict = {"differences": [], "sequences": 0, "events": 0, "ended_by": {}, "seen": {}}
    for one in reports:
        out["differences"] += one["differences"]
        out["sequences"] += one["sequences"]
        out["events"] += one["events"]
        for table in ("ended_by", "seen"):
            for name, count in one[table].items():
                out[table][name] = out[table].get(name, 0) + count
    return out


def test_every_event_has_stocks_instructions_and_leaves_stocks_state(report):
    assert report["sequences"] >= COUNT
    assert not report["differences"], "\n\n".join(report["differences"][:3])


def test_few_sequences_end_because_stock_raises(report):
    ended = sum(report["ended_by"].values())
    assert ended <= 0.25 * report["sequences"], report["ended_by"]


REACHED = {
    "compute-task": "unknown released waiting ready constrained executing long-running memory error fetch"
    " flight missing cancelled(executing) cancelled(long-running) cancelled(flight) resumed(executing)"
    " resumed(long-running) resumed(flight)",
    "free-keys": "unknown waiting ready constrained executing long-running memory error fetch flight missing"
    " cancelled(executing) cancelled(flight) resumed(executing) resumed(long-running) resumed(flight)",
    "steal-request": "unknown waiting ready constrained executing long-running memory error fetch flight missing"
    " cancelled(executing) cancelled(flight) resumed(executing) resumed(flight)",
    "acquire-replicas": "unknown memory fetch flight missing error cancelled(executing) cancelled(long-running)"
    " cancelled(flight) resumed(executing) resumed(flight)",
    "gather-dep-success": "flight cancelled(flight) resumed(flight)",
    "gather-dep-busy": "flight cancelled(flight) resumed(flight)",
    "gather-dep-network-failure": "flight cancelled(flight) resumed(flight)",
    "gather-dep-failure": "flight cancelled(flight) resumed(flight)",
    "execute-success": "executing long-running cancelled(executing) cancelled(long-running)"
    " resumed(executing) resumed(long-running)",
    "execute-failure": "executing long-running cancelled(executing) cancelled(long-running)"
    " resumed(executing) resumed(long-running)",
    "reschedule": "executing long-running cancelled(executing) cancelled(long-running) resumed(executing)",
    "secede": "executing long-running cancelled(executing) cancelled(long-running) resumed(executing)",
    "remove-replicas": "memory",
}


@pytest.mark.skipif(COUNT < 1000, reason="too few sequences to reach everything")
@pytest.mark.parametrize("op", REACHED)
def test_sequences_reach_every_state_an_event_can_meet(report, op):
    missed = [state for state in REACHED[op].split() if not report["seen"].get(f"{op} {state}")]
    assert not missed
