"""Where the pairing under test may differ from stock Dask, and why.

DEVIATIONS: test function name -> which of our parts differs ("scheduler" or "worker"), and the
reason. A listed test must really differ: an entry that is no longer needed fails its test. Keep this
short; every line is a promise broken on purpose.

LATER: test id -> what is missing, for features of the rask scheduler that are not there yet. Such a
test is expected to fail, and fails the run as soon as it passes.
"""

from __future__ import annotations

DEVIATIONS: dict[str, tuple[str, str]] = {
    "test_a_story_tells_what_each_change_led_to": (
        "scheduler", "a story of ours names each change of a task, not what it recommends for others: "
        "kept per change, that would cost memory for every edge of a graph"),
    "test_all_keys_are_named_in_the_order_of_their_making": (
        "scheduler", "records of forgotten tasks are used again, so keys that nobody asked for by name "
        "come in no particular order"),
}

LATER: dict[str, str] = {}
