"""Clusters for the applications: workers that can be added while the cluster lives.

With a `Network` the scheduler and each worker have a namespace of their own, and bytes between
workers are read from the bridge. Without one everything is on loopback and those bytes are not
known; that blocks stayed where they were is known either way, from the scheduler's replicas.
"""

from __future__ import annotations

import os
from typing import Any

from bed.cluster import BACKENDS, environment
from rask.processes import Process, ProcessCluster
from spliter.network import Network


class Bed(ProcessCluster):
    """A scheduler and workers of one backend; `grow(n)` adds workers until there are n."""

    def __init__(self, backend: str, threads: int, network: Network | None = None,
                 rate: str | None = None, amm: bool = True):
        chosen = BACKENDS[backend]
        env = environment(chosen)
        # Without the memory manager replicas stay, and show exactly which blocks moved.
        env["DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START"] = str(amm)
        env["OPENBLAS_NUM_THREADS"] = "1"
        env["DASK_DISTRIBUTED__WORKER__MEMORY__SPILL"] = "False"
        env["DASK_DISTRIBUTED__WORKER__MEMORY__TARGET"] = "False"
        super().__init__(chosen.scheduler, chosen.worker, n_workers=0, nthreads=threads,
                         worker_options=("--memory-limit", "8GB"), env=env)
        self.backend = backend
        self.network = network
        self.rate = rate

    def _peer(self, name: str) -> Any:
        assert self.network is not None
        return self.network.peers.get(name) or self.network.peer(
            name, None if name == "scheduler" else self.rate)

    def _spawn(self, name: str, command: list[str]) -> Process:
        if self.network is not None:
            peer = self._peer(name)
            command = peer.command([*command, "--host", peer.address])
        return super()._spawn(name, command)

    def grow(self, workers: int) -> None:
        while len(self.workers) < workers:
            self.add_worker(wait=False)
        self.wait_for_workers()
        self.n_workers = workers

    def moved(self) -> int | None:
        return None if self.network is None else self.network.between_workers()

    def close(self) -> None:
        super().close()
        if self.network is not None:
            self.network.close()
            self.network.peers.clear()


def quiet_logs() -> None:
    """Clients warn of closed connections while clusters end; that is no news here."""
    import logging

    for name in ("distributed", "distributed.client", "distributed.core"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
