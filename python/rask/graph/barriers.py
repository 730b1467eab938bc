"""What the scheduler must know of P2P shuffles: read from the barrier tasks of a graph.

A barrier's spec says how many output partitions there are; from that the scheduler chooses a worker
for each. The spec itself travels unopened: the scheduler puts its pickle into the run spec that
workers ask for. Its buffers are in the pickle, so that it can be put into another one.

Answers to: distributed.shuffle._scheduler_plugin, ShuffleSchedulerPlugin._create.
"""

from __future__ import annotations

from distributed.protocol.pickle import dumps as dask_dumps
from distributed.shuffle._core import P2PBarrierTask, id_from_key

from rask.graph.emit import Emitter


def barriers(keys: list, nodes: dict, emitter: Emitter) -> list[dict]:
    """The barriers among the tasks, as the link wants them; `keys` in the order of their numbers."""
    found = []
    for number, key in enumerate(keys):
        if type(key) is str and id_from_key(key) and isinstance(nodes[key], P2PBarrierTask):
            spec = nodes[key].spec
            fields = _fields(spec)
            if fields is not None:
                fields |= {
                    "key": number,
                    "shuffle": spec.id,
                    "spec": emitter.blob(dask_dumps(spec)),
                }
                found.append(fields)
    return found


def _fields(spec) -> dict | None:
    # By name: importing the classes would need pandas and numpy.
    kind = type(spec).__name__
    if kind == "DataFrameShuffleSpec":
        return {
            "kind": "dataframe",
            "npartitions": int(spec.npartitions),
            "parts_out": list(map(int, spec.output_partitions)),
        }
    if kind == "ArrayRechunkSpec":
        return {"kind": "array", "chunks": [len(axis) for axis in spec.new]}
    return None
