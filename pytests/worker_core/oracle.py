"""Stock's WorkerState with its chance taken out, and nothing else changed.

Stock iterates over sets of objects hashed by address, so one and the same sequence of events may
legally give different instructions. Here each such set has a fixed order, one that stock could
have come up with, and the core under test takes the same one:

* sets of tasks and addresses: oldest first;
* dependents of a task: least urgent first (recommendations are taken newest first, so the most
  urgent dependent gets the free thread);
* keys of one transfer: least urgent first;
* equal peers: the lower address (`rng` draws the same number for all).

DIFFERENCES lists where our core means to differ. Those that stock answers with an exception, which
closes a stock worker, end a sequence; the others are patched here, each under its name. Stock's
checks of its own state (off in production) run beside it: a sequence goes on when they fail, but from
then on our core's checks may fail too.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableSet
from typing import Any

import distributed.collections as stock_collections
import distributed.worker_state_machine as wsm

DIFFERENCES = {
    "conflict": "a compute-task for a key in `fetch`, `missing` or `error` whose dependencies are not"
    " here makes stock raise RecommendationsConflict; our core fetches them (the later"
    " recommendation wins)",
    "actor": "a compute-task for an actor whose key is in `fetch`, `missing` or `error`: stock forgets"
    " that it is an actor when it passes through `released`; our core does not (no instruction"
    " differs)",
    "replica-in-use": "remove-replicas while a dependent runs: stock raises; our core keeps the value"
    " and answers add-keys",
    "scatter": "a value scattered onto a task that runs or is in flight: stock's assertions fail or it"
    " loses the value when the transfer ends; our core keeps the task running, or the value",
    "released-outcome": "one settled task releases another whose transfer has just ended: stock asserts"
    " that this cannot be; our core lets the value go",
    "cancel-compute": "cancel-compute for a task that has dependents: stock asserts; our core takes it"
    " back (no scheduler sends this message any more)",
    "absurd": "a change that no transition leads to: stock raises InvalidTransition; our core notes it"
    " and goes on",
}


class OrderedSet(MutableSet):
    """A set that remembers the order of insertion."""

    def __init__(self, items: Any = ()) -> None:
        self._items = dict.fromkeys(items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Any) -> None:
        self._items[item] = None

    def discard(self, item: Any) -> None:
        self._items.pop(item, None)

    def clear(self) -> None:
        self._items.clear()


class Dependents(OrderedSet):
    """Dependents, least urgent first."""

    def __iter__(self) -> Iterator:
        return iter(sorted(self._items, key=lambda ts: ts.priority or (), reverse=True))


StockTaskState = wsm.TaskState


class OracleTaskState(StockTaskState):
    def __post_init__(self) -> None:
        StockTaskState.__post_init__(self)
        self.dependencies = OrderedSet()
        self.dependents = Dependents()
        self.waiting_for_data = OrderedSet()
        self.waiters = OrderedSet()
        self.who_has = OrderedSet()


def later_wins(*args: wsm.RecsInstrs) -> wsm.RecsInstrs:
    """merge_recs_instructions without its exception: the difference named "conflict"."""
    recs: wsm.Recs = {}
    instructions: wsm.Instructions = []
    for some_recs, some_instructions in args:
        recs.update(some_recs)
        instructions += some_instructions
    return recs, instructions


class InFlight(dict):
    """in_flight_workers whose keys come least urgent first."""

    def __init__(self, state: Oracle) -> None:
        self.state = state

    def __setitem__(self, worker: str, keys: Any) -> None:
        super().__setitem__(worker, OrderedSet(reversed(self.state.gather_order)))


class NoChance:
    def random(self) -> float:
        return 0.5


class Oracle(wsm.WorkerState):
    """WorkerState whose answer to a sequence of events is always the same."""

    def __init__(self, *, throttle_threshold: int, **kwargs: Any) -> None:
        super().__init__(validate=False, transition_counter_max=50_000, **kwargs)
        self.rng = NoChance()
        self.gather_order: list = []
        self.in_flight_workers = InFlight(self)
        self.transfer_incoming_bytes_throttle_threshold = throttle_threshold

    def _select_keys_for_gather(self, available: Any) -> tuple[list, int]:
        tasks, nbytes = super()._select_keys_for_gather(available)
        self.gather_order = [ts.key for ts in tasks]
        return tasks, nbytes


def take_chance_out() -> None:
    """Gives this process's WorkerState ordered sets. For good: use a process of its own."""
    wsm.set = OrderedSet
    stock_collections.set = OrderedSet
    wsm.TaskState = OracleTaskState
    wsm.merge_recs_instructions = later_wins
    # A dependency whose transfer failed to deserialize stays in `error` while its dependents wait;
    # validate_state does not know that, handle_stimulus does it.
    wsm.WAITING_FOR_DATA = wsm.WAITING_FOR_DATA | {"error", "cancelled"}
