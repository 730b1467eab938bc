"""Makes sequences, runs them through the driver, prints what differed as JSON.

python -m worker_core.run DRIVER FIRST COUNT STRIDE LENGTH
runs the seeds FIRST, FIRST + STRIDE, … below FIRST + COUNT.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import msgpack

from .oracle import take_chance_out
from .sequences import Sequence, make_sequence

CHUNK = 200


def answers_of(driver: str, sequences: list[Sequence]) -> list[list]:
    packer = msgpack.Packer()
    data = b"".join(packer.pack([s.config, s.events]) for s in sequences)
    process = subprocess.run([driver], input=data, stdout=subprocess.PIPE, check=True)
    unpacker = msgpack.Unpacker(strict_map_key=False)
    unpacker.feed(process.stdout)
    return list(unpacker)


def show(sequence: Sequence, index: int, lines: list[str]) -> str:
    pairs = zip(sequence.events[:index], sequence.instructions)
    history = [f"    {i}: {event} -> {did}" for i, (event, did) in enumerate(pairs)]
    head = f"seed {sequence.seed} differs at event {index}: {sequence.events[index]}"
    return "\n".join([head, *lines, f"  config {sequence.config}", *history[-25:]])


def difference(sequence: Sequence, answers: list) -> str | None:
    for index, (instructions, complaints, facts) in enumerate(answers):
        expected = sequence.instructions[index]
        if instructions != expected:
            return show(sequence, index, [f"  stock: {expected}", f"  ours:  {instructions}"])
        if sequence.odd_from is not None and index >= sequence.odd_from:
            complaints = [text for text in complaints if text.startswith("a value")]
        if complaints:
            return show(sequence, index, [f"  ours complains: {complaints}"])
        if index in sequence.facts and set(facts) != sequence.facts[index]:
            only_stock = sorted(sequence.facts[index] - set(facts))
            only_ours = sorted(set(facts) - sequence.facts[index])
            return show(sequence, index, [f"  only stock: {only_stock}", f"  only ours: {only_ours}"])
    return None


def main(driver: str, first: int, count: int, stride: int, length: int) -> dict:
    take_chance_out()
    report: dict = {"differences": [], "sequences": 0, "events": 0, "odd": 0}
    ended_by: Counter = Counter()
    seen: Counter = Counter()
    seeds = list(range(first, first + count, stride))
    for at in range(0, len(seeds), CHUNK):
        sequences = [make_sequence(seed, length) for seed in seeds[at : at + CHUNK]]
        for sequence, answers in zip(sequences, answers_of(driver, sequences), strict=True):
            report["sequences"] += 1
            report["events"] += len(sequence.events)
            report["odd"] += sequence.odd_from is not None
            seen.update({f"{op} {state}": n for (op, state), n in sequence.seen.items()})
            if sequence.ended_by:
                ended_by[sequence.ended_by] += 1
            if found := difference(sequence, answers):
                report["differences"].append(found)
    return {**report, "ended_by": ended_by, "seen": seen}


if __name__ == "__main__":
    json.dump(main(sys.argv[1], *map(int, sys.argv[2:])), sys.stdout)
