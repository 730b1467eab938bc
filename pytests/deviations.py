"""Where the pairing under test may differ from stock Dask, and why.

Test function name -> reason. A listed test must really differ: an entry that is no longer needed
fails its test. Keep this short; every line is a promise broken on purpose.
"""

from __future__ import annotations

DEVIATIONS: dict[str, str] = {}
