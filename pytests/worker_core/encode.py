"""Events, instructions and state as plain values, the same for stock and for our core.

Events are maps with an "op"; instructions are lists that begin with a name; the state is a set of
texts, one per fact. tests/worker/core_driver.cc and digest.cc are the other side.
"""

from __future__ import annotations

from typing import Any

import distributed.worker_state_machine as wsm
from dask.sizeof import sizeof
from distributed.protocol.serialize import Serialize

STIMULUS = "test"
ERROR = {
    "exception": Serialize(None),
    "traceback": None,
    "exception_text": "",
    "traceback_text": "",
}


class Sized:
    """A value of a given size."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


@sizeof.register(Sized)
def sizeof_sized(value: Sized) -> int:
    return value.nbytes


def replicas_of(event: dict) -> tuple[dict, dict]:
    who_has = {key: list(workers) for key, _, workers in event["replicas"]}
    nbytes = {key: size for key, size, _ in event["replicas"]}
    return who_has, nbytes


def scheduler_event(event: dict) -> wsm.StateMachineEvent | None:
    op = event["op"]
    sid = {"stimulus_id": STIMULUS}
    if op == "compute-task":
        who_has, nbytes = replicas_of(event)
        return wsm.ComputeTaskEvent(
            key=event["key"],
            run_id=event["run_id"],
            who_has=who_has,
            nbytes=nbytes,
            priority=tuple(event["priority"]),
            run_spec=wsm.ComputeTaskEvent.dummy_runspec(event["key"]),
            resource_restrictions=dict(event["resources"]),
            actor=event["actor"],
            annotations={},
            span_id=None,
            **sid,
        )
    if op == "acquire-replicas":
        who_has, nbytes = replicas_of(event)
        return wsm.AcquireReplicasEvent(who_has=who_has, nbytes=nbytes, **sid)
    if op == "refresh-who-has":
        return wsm.RefreshWhoHasEvent(who_has=replicas_of(event)[0], **sid)
    if op == "free-keys":
        return wsm.FreeKeysEvent(keys=event["keys"], **sid)
    if op == "remove-replicas":
        return wsm.RemoveReplicasEvent(keys=event["keys"], **sid)
    if op == "steal-request":
        return wsm.StealRequestEvent(key=event["key"], **sid)
    if op == "cancel-compute":
        return wsm.CancelComputeEvent(key=event["key"], **sid)
    if op == "remove-worker":
        return wsm.RemoveWorkerEvent(worker=event["worker"], **sid)
    return None


def transfer_event(event: dict, total_nbytes: int) -> wsm.StateMachineEvent | None:
    op = event["op"]
    if op == "retry-busy-worker":
        return wsm.RetryBusyWorkerEvent(worker=event["worker"], stimulus_id=STIMULUS)
    end = {"worker": event.get("worker"), "total_nbytes": total_nbytes, "stimulus_id": STIMULUS}
    if op == "gather-dep-success":
        return wsm.GatherDepSuccessEvent(data={k: Sized(n) for k, n in event["data"]}, **end)
    if op == "gather-dep-busy":
        return wsm.GatherDepBusyEvent(**end)
    if op == "gather-dep-network-failure":
        return wsm.GatherDepNetworkFailureEvent(**end)
    if op == "gather-dep-failure":
        return wsm.GatherDepFailureEvent(**end, **ERROR)
    return None


def own_event(event: dict) -> wsm.StateMachineEvent:
    op = event["op"]
    sid = {"stimulus_id": STIMULUS}
    if op == "execute-success":
        return wsm.ExecuteSuccessEvent(
            key=event["key"],
            run_id=event["run_id"],
            value=None,
            start=0.0,
            stop=1.0,
            nbytes=event["nbytes"],
            type=type(None),
            **sid,
        )
    if op == "execute-failure":
        times = {"start": None, "stop": None}
        return wsm.ExecuteFailureEvent(
            key=event["key"], run_id=event["run_id"], **times, **ERROR, **sid
        )
    if op == "reschedule":
        return wsm.RescheduleEvent(key=event["key"], **sid)
    if op == "secede":
        return wsm.SecedeEvent(key=event["key"], compute_duration=event["compute_duration"], **sid)
    if op == "update-data":
        return wsm.UpdateDataEvent(data={k: Sized(n) for k, n in event["data"]}, **sid)
    plain = {"pause": wsm.PauseEvent, "unpause": wsm.UnpauseEvent, "find-missing": wsm.FindMissingEvent}
    return plain[op](**sid)


def stock_event(event: dict, total_nbytes: int) -> wsm.StateMachineEvent:
    """`total_nbytes` of the GatherDep that a gather-dep-… event answers."""
    return scheduler_event(event) or transfer_event(event, total_nbytes) or own_event(event)


def plain_instruction(instruction: wsm.Instruction, state: wsm.WorkerState) -> list:
    match instruction:
        case wsm.GatherDep(worker=worker, to_gather=keys, total_nbytes=nbytes):
            return ["gather-dep", worker, sorted(keys), nbytes]
        case wsm.Execute(key=key):
            return ["execute", key, state.tasks[key].run_id]
        case wsm.RetryBusyWorkerLater(worker=worker):
            return ["retry-busy-worker-later", worker]
        case wsm.TaskFinishedMsg(key=key, run_id=run_id, nbytes=nbytes):
            return ["task-finished", key, run_id, nbytes]
        case wsm.TaskErredMsg(key=key, run_id=run_id):
            return ["task-erred", key, run_id]
        case wsm.LongRunningMsg(key=key, run_id=run_id, compute_duration=seconds):
            return ["long-running", key, run_id, -1.0 if seconds is None else seconds]
        case wsm.AddKeysMsg(keys=[key]):
            return ["add-keys", key]
        case wsm.RequestRefreshWhoHasMsg(keys=keys):
            return ["request-refresh-who-has", sorted(keys)]
        case wsm.StealResponseMsg(key=key, state=state_name):
            return ["steal-response", key, str(state_name)]
        case wsm.ReleaseWorkerDataMsg(key=key) | wsm.RescheduleMsg(key=key):
            return [instruction.op, key]
    raise TypeError(instruction)


def task_facts(ts: Any) -> list[tuple[str, object]]:
    def names(tasks: Any) -> str:
        return ",".join(sorted(t.key for t in tasks))

    facts: list[tuple[str, object]] = [
        ("state", ts.state),
        ("previous", ts.previous),
        ("run_id", ts.run_id),
        ("who_has", ",".join(sorted(ts.who_has))),
        ("dependencies", names(ts.dependencies)),
        ("waiting_for_data", names(ts.waiting_for_data)),
        ("waits_on", names(d for d in ts.dependencies if ts in d.waiters)),
        ("priority", "".join(f"{part}," for part in ts.priority or ())),
    ]
    if ts.nbytes is not None:
        facts.append(("nbytes", ts.nbytes))
    if ts.coming_from is not None:
        facts.append(("coming_from", ts.coming_from))
    return facts


def state_facts(state: wsm.WorkerState) -> set[str]:
    facts = {f"{ts.key} {what} {value}" for ts in state.tasks.values() for what, value in task_facts(ts)}
    facts |= {f"busy {worker}" for worker in state.busy_workers}
    facts |= {f"in_flight {w} {','.join(sorted(keys))}" for w, keys in state.in_flight_workers.items()}
    facts |= {f"available {name} {int(n)}" for name, n in state.available_resources.items()}
    return facts | {
        f"executing {state.executing_count}",
        f"executed {state.executed_count}",
        f"nbytes {state.nbytes}",
        f"incoming_bytes {state.transfer_incoming_bytes}",
        f"incoming_total {state.transfer_incoming_count_total}",
        f"running {state.running}",
    }
