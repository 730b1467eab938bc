"""Dask's configuration read by libyaml while the commands are imported.

Dask and distributed read their YAML files as they are imported, with PyYAML's loader in Python; for
distributed's defaults alone that takes 18 ms, a sixteenth of a worker's start. libyaml's loader, which comes
with PyYAML, gives the same values in 2 ms. What it refuses goes to the other one, so that errors read as
they do in stock Dask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import yaml


@contextlib.contextmanager
def quick_yaml() -> Iterator[None]:
    """Within the block `yaml.safe_load` is quick, where PyYAML was built with libyaml."""
    plain = yaml.safe_load
    if not hasattr(yaml, "CSafeLoader"):
        yield
        return

    def safe_load(source):
        text = source.read() if hasattr(source, "read") else source
        try:
            return yaml.load(text, yaml.CSafeLoader)
        except yaml.YAMLError:
            return plain(text)

    yaml.safe_load = safe_load
    try:
        yield
    finally:
        yaml.safe_load = plain
