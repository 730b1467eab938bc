"""How long a worker takes from its start to being registered: `cd bench && python -m bed.start [N]`.

Stock and rask workers start in turn on one stock scheduler and one rask scheduler; beside them
stands a Python process that only imports distributed.worker, which is the floor of both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from bed.cluster import BACKENDS, environment
from rask.processes import ProcessCluster

FLOOR = [sys.executable, "-c", "import distributed.worker"]


def start_once(cluster: ProcessCluster) -> float:
    """Seconds from the start of a worker process to its line in the log; the worker then ends."""
    begun = time.perf_counter()
    worker = cluster.add_worker(wait=False)
    worker.wait_for("Registered to:", interval=0.001)
    taken = time.perf_counter() - begun
    worker.stop()
    del cluster.workers[worker.name]
    return taken


def main(repeats: int) -> None:
    env = environment(BACKENDS["stock"])
    pairs = [(scheduler, worker) for scheduler in ("stock", "rask") for worker in ("stock", "rask")]
    clusters = {"/".join(pair): ProcessCluster(*pair, n_workers=0, env=env) for pair in pairs}
    found: dict[str, list[float]] = {name: [] for name in [*clusters, "imports alone"]}
    try:
        for cluster in clusters.values():
            cluster.start()
        for _ in range(repeats + 1):
            for name, cluster in clusters.items():
                found[name].append(start_once(cluster))
            begun = time.perf_counter()
            subprocess.run(FLOOR, check=True, env=env)
            found["imports alone"].append(time.perf_counter() - begun)
    finally:
        for cluster in clusters.values():
            cluster.close()
    for name, seconds in found.items():
        kept = seconds[1:]  # the first round reads files into the page cache
        print(json.dumps({"scheduler/worker": name, "median_s": round(statistics.median(kept), 3),
                          "best_s": round(min(kept), 3), "n": len(kept)}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
