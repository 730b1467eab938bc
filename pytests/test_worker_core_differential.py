"""Our worker core against Python's own WorkerState, event by event.

Both live through the same random sequences; after each event their instructions must be equal in
content and order, and every few events their whole state. pytests/worker_core/oracle.py says how
stock is made deterministic and lists the few intended differences.

RASK_SEQUENCES (2000) and RASK_SEQUENCE_LENGTH (60) make it longer; RASK_SEQUENCE_SEED (0) picks the
first seed.
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

pytestmark = pytest.mark.timeout(3600)


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
    try:
        return merge([json.loads(process.communicate()[0]) for process in processes])
    finally:
        for process in processes:
            process.kill()


def merge(reports: list[dict]) -> dict:
    out: dict = {"ended_by": {}, "seen": {}}
    for table in ("differences", "sequences", "events"):
        out[table] = sum((one[table] for one in reports), start=type(reports[0][table])())
    for one in reports:
        for table in ("ended_by", "seen"):
            for name, count in one[table].items():
                out[table][name] = out[table].get(name, 0) + count
    return out


def test_every_event_has_stocks_instructions_and_leaves_stocks_state(report):
    assert report["sequences"] >= COUNT
    assert not report["differences"], "\n\n".join(report["differences"][:3])


def test_few_sequences_end_because_stock_raises(report):
    ended = sum(report["ended_by"].values())
    assert ended <= 0.02 * report["sequences"], report["ended_by"]


QUEUED = "waiting ready constrained"
RUNNING = "executing long-running"
FETCHED = "fetch flight missing"
CANCELLED = "cancelled(executing) cancelled(long-running) cancelled(flight)"
RESUMED = "resumed(executing) resumed(long-running) resumed(flight)"
ANY = f"unknown {QUEUED} {RUNNING} {FETCHED} memory error {CANCELLED} {RESUMED}"
IN_FLIGHT = "flight cancelled(flight) resumed(flight)"
IN_THREAD = f"{RUNNING} cancelled(executing) cancelled(long-running) resumed(executing)"
REACHED = {
    "compute-task": f"{ANY} released",
    "free-keys": ANY,
    "steal-request": ANY,
    "acquire-replicas": f"unknown {FETCHED} memory error {CANCELLED} {RESUMED}",
    "remove-replicas": "memory",
    "gather-dep-success": IN_FLIGHT,
    "gather-dep-busy": IN_FLIGHT,
    "gather-dep-network-failure": IN_FLIGHT,
    "gather-dep-failure": IN_FLIGHT,
    "execute-success": f"{IN_THREAD} resumed(long-running)",
    "execute-failure": f"{IN_THREAD} resumed(long-running)",
    "reschedule": IN_THREAD,
    "secede": IN_THREAD,
}


@pytest.mark.skipif(COUNT < 1000, reason="too few sequences to reach everything")
@pytest.mark.parametrize("op", REACHED)
def test_sequences_reach_every_state_an_event_can_meet(report, op):
    missed = [state for state in REACHED[op].split() if not report["seen"].get(f"{op} {state}")]
    assert not missed
