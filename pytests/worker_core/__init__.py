"""Python's own WorkerState beside our worker core: the oracle, random sequences, the comparison."""
