"""The Python half of a rask worker: executors, packing, plugins. The other half is native."""

from rask.worker.facade import Worker

__all__ = ["Worker"]
