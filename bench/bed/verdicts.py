"""What must hold, and whether it does: rows of a table with a word each.

A verdict is computed from measured rows and from nothing else: "holds", "MISSED", or "not run".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Verdict:
    app: str
    figure: str
    claim: str
    measured: str
    holds: bool | None

    @property
    def word(self) -> str:
        return "not run" if self.holds is None else "holds" if self.holds else "**MISSED**"


def ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None or b == 0 else a / b


def check(app: str, figure: str, claim: str, value: float | None, form: str,
          low: float | None = None, high: float | None = None, note: str = "") -> Verdict:
    """A number that must be at least `low` and at most `high`."""
    if value is None:
        return Verdict(app, figure, claim, "–", None)
    holds = (low is None or value >= low) and (high is None or value <= high)
    return Verdict(app, figure, claim, form.format(value) + note, holds)


def table(found: list[Verdict], heads: str = "application | figure") -> str:
    lines = [f"| {heads} | what must hold | measured | verdict |", "|---|---|---|---|---|"]
    lines += [f"| {v.app} | {v.figure} | {v.claim} | {v.measured} | {v.word} |" for v in found]
    count = {word: sum(v.word == word for v in found) for word in ("holds", "**MISSED**", "not run")}
    lines += ["", f"{count['holds']} hold, {count['**MISSED**']} missed, {count['not run']} not run."]
    return "\n".join(lines)
