"""Random legal sequences of events for a worker, made while stock's WorkerState lives through them.

A small cluster is played: a dozen keys in a fixed graph, five peers, and the answers that the
oracle's own instructions call for (each Execute and each GatherDep is answered once, at some later
time). `wild` sequences also hold what no sane scheduler sends, for example freeing a dependency
that is in use; when stock raises on such an event, the sequence ends before it.
"""

from __future__ import annotations

import logging
import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .encode import plain_instruction, state_facts, stock_event
from .oracle import Oracle

ADDRESS = "tcp://10.0.0.1:1000"
PEERS = [f"tcp://10.0.0.{host}:{port}" for host, port in ((1, 1001), (1, 1002), (2, 1), (3, 1), (4, 1))]
NO_LIMIT = 2**63
PROCESSING = {"waiting", "ready", "constrained", "executing", "long-running"}
RUNNING = {"executing", "long-running"}

logging.getLogger("distributed.worker.state_machine").setLevel(logging.CRITICAL)


@dataclass
class Sequence:
    """What was fed to stock, and what stock did."""

    seed: int
    config: dict
    events: list[dict] = field(default_factory=list)
    instructions: list[list] = field(default_factory=list)
    facts: dict[int, set[str]] = field(default_factory=dict)  # index of event -> state after it
    ended_by: str | None = None  # what stock raised, if it did
    odd_from: int | None = None  # index of the event after which stock's own checks fail
    seen: Counter = field(default_factory=Counter)  # (op, state of its task before)


def reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.name}: {last.line}"


class Maker:
    def __init__(self, seed: int, length: int, digest_every: int) -> None:
        self.rng = random.Random(seed)
        self.length = length
        self.digest_every = digest_every
        self.wild = self.rng.random() < 0.2
        self.out = Sequence(seed, self.make_config())
        self.state = self.make_oracle()
        self.keys = [f"k{i:02d}" for i in range(self.rng.choice((4, 8, 12)))]
        self.graph = {
            key: self.rng.sample(self.keys[:i], min(i, self.rng.choice((0, 1, 1, 2, 3))))
            for i, key in enumerate(self.keys)
        }
        self.executing: dict[str, int] = {}  # key -> run id of its Execute
        self.gathering: dict[str, tuple[list[str], int]] = {}  # peer -> keys, bytes
        self.busy: list[str] = []  # peers to be retried
        self.run_id = 0
        self.choices = self.make_choices()

    def make_config(self) -> dict:
        rng = self.rng
        return {
            "address": ADDRESS,
            "nthreads": rng.choice((1, 1, 2, 3)),
            "resources": {"R": 2.0, "GPU": 1.0},
            "count_limit": rng.choice((1, 2, 50)),
            "throttle_threshold": rng.choice((0, 50, 10_000_000)),
            "bytes_limit": rng.choice((50, 200, NO_LIMIT, NO_LIMIT)),
            "message_bytes_limit": rng.choice((20, 100, 50_000_000)),
        }

    def make_oracle(self) -> Oracle:
        config = self.out.config
        return Oracle(
            address=config["address"],
            nthreads=config["nthreads"],
            resources=config["resources"],
            transfer_incoming_count_limit=config["count_limit"],
            throttle_threshold=config["throttle_threshold"],
            transfer_incoming_bytes_limit=config["bytes_limit"],
            transfer_message_bytes_limit=config["message_bytes_limit"],
        )

    def make_choices(self) -> list[tuple[float, Callable[[], dict | None]]]:
        """(weight, maker of an event or None if it is not legal now)"""
        return [
            (24, self.compute_task),
            (10, self.free_keys),
            (3, self.remove_replicas),
            (6, self.acquire_replicas),
            (4, self.steal_request),
            (5, self.refresh_who_has),
            (2, self.remove_worker),
            (0.5, self.cancel_compute),
            (22, self.gather_done),
            (4, self.retry_busy_worker),
            (22, self.execute_done),
            (5, self.secede),
            (1.5, self.pause),
            (3, self.unpause),
            (2, self.update_data),
            (3, self.find_missing),
        ]

    # ---- one step --------------------------------------------------------------------------------

    def run(self) -> Sequence:
        weights, makers = zip(*self.choices)
        while len(self.out.events) < self.length:
            event = self.rng.choices(makers, weights)[0]()
            if event is not None and not self.feed(event):
                return self.out  # Stock raised half-way: its state is no yardstick.
        self.out.events[-1]["digest"] = True
        self.out.facts[len(self.out.events) - 1] = state_facts(self.state)
        return self.out

    def feed(self, event: dict) -> bool:
        _, total_nbytes = self.gathering.get(event.get("worker", ""), ([], 0))
        for key in self.keys_of(event):
            self.out.seen[event["op"], self.story_state(key)] += 1
        try:
            instructions = self.state.handle_stimulus(stock_event(event, total_nbytes))
        except Exception as error:
            self.out.ended_by = f"{event['op']}: {reason(error)}"
            return False
        plain = [plain_instruction(i, self.state) for i in instructions]
        if self.out.odd_from is None and not self.is_valid():
            self.out.odd_from = len(self.out.events)
        self.digest_event(event)
        self.follow(event, plain)
        self.out.events.append(event)
        self.out.instructions.append(plain)
        return True

    def is_valid(self) -> bool:
        self.state.validate = True
        try:
            self.state.validate_state()
        except Exception:
            return False
        finally:
            self.state.validate = False
        return True

    def digest_event(self, event: dict) -> None:
        index = len(self.out.events)
        event["digest"] = index % self.digest_every == 0
        if event["digest"]:
            self.out.facts[index] = state_facts(self.state)

    def follow(self, event: dict, instructions: list[list]) -> None:
        """Remembers which answers are still owed."""
        op = event["op"]
        if op.startswith("gather-dep-"):
            del self.gathering[event["worker"]]
        if op in ("execute-success", "execute-failure", "reschedule"):
            del self.executing[event["key"]]
        if op == "retry-busy-worker":
            self.busy.remove(event["worker"])
        for name, *fields in instructions:
            if name == "execute":
                self.executing[fields[0]] = fields[1]
            elif name == "gather-dep":
                self.gathering[fields[0]] = (fields[1], fields[2])
            elif name == "retry-busy-worker-later":
                self.busy.append(fields[0])

    def keys_of(self, event: dict) -> list[str]:
        if event["op"].startswith("gather-dep-"):
            return self.gathering[event["worker"]][0]
        if "replicas" in event and event["op"] != "compute-task":
            return [key for key, *_ in event["replicas"]]
        return event.get("keys", []) or ([event["key"]] if "key" in event else [])

    def story_state(self, key: str) -> str:
        ts = self.state.tasks.get(key)
        if ts is None:
            return "unknown"
        return f"{ts.state}({ts.previous})" if ts.previous else ts.state

    # ---- choices ---------------------------------------------------------------------------------

    def state_of(self, key: str) -> str | None:
        ts = self.state.tasks.get(key)
        return ts.state if ts else None

    def used_by(self, key: str, states: set[str]) -> list[str]:
        ts = self.state.tasks.get(key)
        return [d.key for d in ts.dependents if d.state in states] if ts else []

    def nbytes(self) -> int:
        return self.rng.choice((1, 10, 30, 60, 300))

    def workers(self, key: str, at_least: int = 1) -> list[str]:
        workers = self.rng.sample(PEERS, self.rng.randint(at_least, 3))
        if self.state_of(key) == "memory" and self.rng.random() < 0.2:
            workers.append(ADDRESS)
        return workers

    def replica(self, key: str, at_least: int = 1) -> list:
        return [key, self.nbytes(), self.workers(key, at_least)]

    def some_keys(self, allowed: Callable[[str], bool]) -> list[str]:
        keys = [key for key in self.keys if self.wild and self.rng.random() < 0.3 or allowed(key)]
        return self.rng.sample(keys, min(len(keys), self.rng.choice((1, 1, 2, 3))))

    # ---- events of the scheduler -----------------------------------------------------------------

    def compute_task(self) -> dict | None:
        key = self.rng.choice(self.keys)
        dependencies = self.graph[key]
        if not self.wild and any(self.state_of(d) in PROCESSING for d in dependencies):
            return None
        self.run_id += 1
        resources = self.rng.choice([{}] * 6 + [{"R": 1.0}, {"R": 2.0}, {"GPU": 1.0}, {"R": 1.0, "GPU": 1.0}])
        return {
            "op": "compute-task",
            "key": key,
            "run_id": self.run_id,
            "priority": [self.rng.randint(-1, 2) for _ in range(self.rng.choice((1, 3)))],
            "replicas": [self.replica(d) for d in dependencies],
            "resources": resources,
            "actor": self.rng.random() < 0.05,
        }

    def free_keys(self) -> dict | None:
        keys = self.some_keys(lambda key: True)
        if not self.wild:
            # What needs a freed key is freed with it.
            for key in keys:
                keys += [d for d in self.used_by(key, PROCESSING | {"cancelled", "resumed"}) if d not in keys]
            self.rng.shuffle(keys)
        return {"op": "free-keys", "keys": keys}

    def remove_replicas(self) -> dict | None:
        keys = self.some_keys(lambda key: not self.used_by(key, PROCESSING))
        # Stock raises: the difference named "replica-in-use".
        keys = [key for key in keys if not self.used_by(key, RUNNING)]
        return {"op": "remove-replicas", "keys": keys} if keys else None

    def acquire_replicas(self) -> dict | None:
        keys = self.some_keys(lambda key: self.state_of(key) not in PROCESSING)
        return {"op": "acquire-replicas", "replicas": [self.replica(k) for k in keys]} if keys else None

    def steal_request(self) -> dict:
        return {"op": "steal-request", "key": self.rng.choice([*self.keys, "unknown"])}

    def refresh_who_has(self) -> dict:
        keys = self.some_keys(lambda key: self.state_of(key) in ("fetch", "missing", "flight", "cancelled"))
        replicas = [self.replica(key, at_least=self.rng.randint(0, 1)) for key in keys]
        return {"op": "refresh-who-has", "replicas": replicas}

    def remove_worker(self) -> dict:
        return {"op": "remove-worker", "worker": self.rng.choice(PEERS)}

    def cancel_compute(self) -> dict | None:
        key = self.rng.choice(self.keys)
        return None if self.used_by(key, PROCESSING) else {"op": "cancel-compute", "key": key}

    # ---- answers ---------------------------------------------------------------------------------

    def gather_done(self) -> dict | None:
        if not self.gathering:
            return None
        worker = self.rng.choice(list(self.gathering))
        end = self.rng.choices(("success", "busy", "network-failure", "failure"), (12, 3, 2, 1))[0]
        event: dict = {"op": f"gather-dep-{end}", "worker": worker}
        if end == "success":
            keys, _ = self.gathering[worker]
            found = list(keys)
            if self.rng.random() < 0.25:
                found = self.rng.sample(found, self.rng.randint(0, len(found)))
            if self.rng.random() < 0.05:
                found.append("unasked")
            event["data"] = [[key, self.nbytes()] for key in found]
        return event

    def retry_busy_worker(self) -> dict | None:
        return {"op": "retry-busy-worker", "worker": self.rng.choice(self.busy)} if self.busy else None

    def execute_done(self) -> dict | None:
        if not self.executing:
            return None
        key = self.rng.choice(list(self.executing))
        op = self.rng.choices(("execute-success", "execute-failure", "reschedule"), (12, 3, 2))[0]
        event: dict = {"op": op, "key": key}
        if op != "reschedule":
            event["run_id"] = self.executing[key]
        if op == "execute-success":
            event["nbytes"] = self.nbytes()
        return event

    def secede(self) -> dict | None:
        if not self.executing:
            return None
        return {"op": "secede", "key": self.rng.choice(list(self.executing)), "compute_duration": 1.5}

    # ---- the worker itself -----------------------------------------------------------------------

    def pause(self) -> dict:
        return {"op": "pause"}

    def unpause(self) -> dict:
        return {"op": "unpause"}

    def update_data(self) -> dict | None:
        calm = (None, "released", "memory", "fetch", "missing", "error")
        keys = [key for key in self.keys if self.state_of(key) in calm]
        keys = self.rng.sample(keys, min(len(keys), self.rng.choice((1, 2))))
        return {"op": "update-data", "data": [[key, self.nbytes()] for key in keys]} if keys else None

    def find_missing(self) -> dict:
        return {"op": "find-missing"}


def make_sequence(seed: int, length: int = 60, digest_every: int = 10) -> Sequence:
    return Maker(seed, length, digest_every).run()
