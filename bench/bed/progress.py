"""Says on screen how far a long bench is."""

from __future__ import annotations

import time


class Progress:
    """One line per measured cell."""

    def __init__(self, total: int):
        self.total = total
        self.at = 0
        self.began = time.monotonic()

    def step(self) -> None:
        self.at += 1

    def say(self, text: str) -> None:
        took = time.monotonic() - self.began
        print(f"[{self.at:2}/{self.total} {took // 60:02.0f}:{took % 60:02.0f}] {text}", flush=True)
