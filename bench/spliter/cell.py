"""The process of one experiment on one backend: owns the cluster, its network and the client.

Reads a job as JSON from stdin and prints one JSON line per measured cell. A process of its own so
that every backend meets a fresh client, and because it leaves the machine's network.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from typing import Any

from spliter import local, plan
from spliter.network import Network, why_not

LINKS = {"nodes": "100mbit", "large": "100mbit", "real": "1gbit", "growing": "1gbit"}


def say(row: dict) -> None:
    print(json.dumps(row), flush=True)


def sizes_of(job: dict) -> plan.Sizes:
    sizes = plan.QUICK if job["quick"] else plan.FULL
    if job.get("scale"):
        sizes = replace(sizes, histogram=replace(sizes.histogram, scale=job["scale"]),
                        kmeans=replace(sizes.kmeans, scale=job["scale"] * 3 / 8))
    if job.get("blocks"):
        sizes = replace(sizes, floor_blocks=tuple(job["blocks"]))
    return plan.fewer(sizes) if job["fewer"] else sizes


def on_cluster(job: dict, sizes: plan.Sizes) -> None:
    app, name = job["experiment"].split(".")
    due = time.monotonic() + job["pace"]
    reason = why_not()
    network = Network() if reason is None else None
    # Threads may exist only from here on: a namespace belongs to the thread that made it.
    from distributed import Client

    from spliter.clusters import Bed, quiet_logs
    from spliter.measure import Cells
    from spliter.series import SERIES

    quiet_logs()
    rate = LINKS.get(name) if network else None
    virtual = {"nodes": app, "large": f"{app}_large"}.get(name)
    threads = getattr(sizes, virtual).slots if virtual else 1
    bed = Bed(job["backend"], threads, network, rate, amm=name != "floor")
    labels: dict[str, Any] = {"experiment": job["experiment"], "backend": job["backend"],
                              "link": rate, "no_namespaces": reason}
    try:
        with bed, Client(bed.address, timeout=120) as client:
            try:
                SERIES[job["experiment"]](Cells(bed, client, say, due, **labels), sizes, job["probe"])
            except BaseException:
                print(bed.logs(), file=sys.stderr)
                raise
    finally:
        if network is not None:
            network.close()


def main() -> None:
    job = json.loads(sys.stdin.read())
    sizes = sizes_of(job)
    alone = local.LOCAL.get((job["experiment"], job["backend"]))
    if alone is not None:
        alone(sizes, lambda row: say({"experiment": job["experiment"], **row}))
    else:
        on_cluster(job, sizes)


if __name__ == "__main__":
    main()
