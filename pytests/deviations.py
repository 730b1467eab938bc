"""Where the pairing under test may differ from stock Dask, and why.

DEVIATIONS: test function name -> reason. A listed test must really differ: an entry that is no
longer needed fails its test. Keep this short; every line is a promise broken on purpose.

LATER: test id -> what is missing, for features of the rask scheduler that are not there yet. Such a
test is expected to fail, and fails the run as soon as it passes.
"""

from __future__ import annotations

DEVIATIONS: dict[str, str] = {}

_P2P = "the scheduler's side of P2P shuffles"
LATER: dict[str, str] = {
    "test_rechunk_columns_to_rows[p2p]": _P2P,
    "test_merge_by_a_column[p2p]": _P2P,
    "test_shuffle_keeps_every_row[p2p]": _P2P,
    "test_set_index_sorts": _P2P,
    "test_windows_and_quantiles": _P2P,
}
