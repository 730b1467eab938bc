"""Tables out of raw figures. The only place where numbers become text, for screen and docs alike.

`render` replaces what stands between the markers `<!-- bench:begin -->` and `<!-- bench:end -->`,
so a figure in docs/PERFORMANCE.md always comes from a run, never from a keyboard.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
import subprocess
from pathlib import Path

from bed.cluster import STOCK
from bed.rows import ROWS, Row

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
ROLES = ("client", "scheduler", "graph", "workers")
RAW = ("F5", "F8")  # floors that are one figure, not a client program
HEAD = ["", "wall (min)", "× stock", "client", "scheduler", "graph", "workers",
        "B peak/kept", "ping p50/p99/max ms", "calls", "bytes out/in"]


def machine() -> dict:
    import dask
    import distributed
    import numpy

    def quiet(argv):
        return subprocess.run(argv, capture_output=True, text=True).stdout.strip()

    model = [line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return {
        "cores": os.cpu_count(), "cpu": model[0] if model else platform.machine(),
        "load": round(os.getloadavg()[0], 2), "kernel": platform.release(),
        "python": platform.python_version(), "dask": dask.__version__,
        "distributed": distributed.__version__, "numpy": numpy.__version__,
        "commit": quiet(["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]),
    }


def walls(entry: dict) -> list[float]:
    """µs per unit of each timed repeat."""
    if entry["backend"] in RAW:
        return [entry["wall_us"]]
    runs = entry.get("repeats") or [entry["first"]]
    return [1e6 * r["wall_s"] / entry["n"] for r in runs]


def cpu(entry: dict, role: str) -> float | None:
    """Median CPU µs per unit of a role; None if the role does not exist there."""
    if entry["backend"] in RAW:
        return entry[role]["cpu_us"] if role in entry else None
    runs = entry.get("repeats") or [entry["first"]]
    values = [1e6 * r["cpu_s"][role] / entry["n"] for r in runs if role in r["cpu_s"]]
    middle = statistics.median(values) if values else 0.0
    return middle if middle > 0 or role == "client" else None


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "–"
    if abs(value) >= 10 ** digits or value == 0:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def micros(value: float) -> str:
    """A time in µs; long ones in seconds, so that they can be read."""
    return f"{value / 1e6:.3g} s" if value >= 1e6 else number(value)


def brief(entry: dict) -> str:
    if "error" in entry:
        return "ERROR " + entry["error"].strip().splitlines()[0]
    parts = [f"wall {micros(statistics.median(walls(entry)))}"]
    parts += [f"{role} {number(cpu(entry, role))}" for role in ROLES if cpu(entry, role)]
    if "longest_turn_ms" in entry:
        parts.append(f"longest turn {number(entry['longest_turn_ms'])} ms ({entry['longest_turn_for']}), "
                     f"most work in one {number(entry['longest_turn_cpu_ms'])} ms")
    return ", ".join(parts)


def best_stock(entries: list[dict]) -> float | None:
    medians = [statistics.median(walls(e)) for e in entries
               if e["backend"] in STOCK and "error" not in e]
    return min(medians) if medians else None


def cells(entry: dict, stock: float | None) -> list[str]:
    if "error" in entry:
        return [entry["backend"], "ERROR", *[""] * (len(HEAD) - 2)]
    times = walls(entry)
    middle = statistics.median(times)
    line = [entry["backend"], f"{micros(middle)} ({micros(min(times))})",
            f"{stock / middle:.2f}" if stock else "–"]
    line += [micros(c) if (c := cpu(entry, role)) else "–" for role in ROLES]
    n = entry.get("n", 1)
    if "peak_growth" in entry and entry["backend"] != "F1":
        grown, kept = entry["peak_growth"]["scheduler"], entry["kept"]["scheduler"]
        line.append(f"{number(grown / n)}/{number(kept / n)}")
    else:
        line.append("–")
    seen = entry.get("observed", {})
    ping = seen.get("ping", {})
    line.append("/".join(number(ping.get(k)) for k in ("p50_ms", "p99_ms", "max_ms"))
                if ping.get("count") else "–")
    calls = entry["scheduler"]["kernel_calls"] if entry["backend"] == "F8" else (
        seen["kernel_calls"] / n if seen.get("kernel_calls") else None)
    line.append(number(calls))
    line.append(f"{number(seen['sent'] / n)}/{number(seen['received'] / n)}"
                if seen.get("sent") else "–")
    return line


def verdicts(row: Row, by: dict[str, dict]) -> list[str]:
    """What the issues ask of this row, against what was measured."""
    lines = []
    for name, limit in row.limits.items():
        for who, entry in by.items():
            if "error" in entry or who in ("F1", *RAW):
                continue
            value = LIMITS[name](entry, by)
            if value is None:
                continue
            mark = "for comparison" if who in STOCK else "holds" if value <= limit else "MISSED"
            lines.append(f"{name} of {who}: {number(value, 4)} (asked ≤ {number(limit, 4)}): {mark}")
    return lines


def remarks(row: Row, by: dict[str, dict]) -> list[str]:
    """What a program measured besides time and CPU."""
    lines = []
    size = row.params.get("nbytes")
    for who, entry in by.items():
        if "error" in entry:
            continue
        parts = []
        if size and size > 10_000:
            parts.append(f"{size / statistics.median(walls(entry)) / 1e3:.2f} GB/s")
        if entry.get("register_s"):
            parts.append(f"registered in {entry['register_s']:.2f} s")
        runs = [] if who in RAW else entry["repeats"] or [entry["first"]]
        parts += extras(runs[-1]) if runs else []
        if runs and (over := slowest_over_floor(runs[-1])) is not None:
            parts.append(f"a read's p99 over its floor's, at most: {number(over)} ms")
        if parts:
            lines.append(f"{who}: " + ", ".join(parts))
    return lines


def extras(run: dict, prefix: str = "") -> list[str]:
    """What one run measured besides time and CPU; waits as p50/p99/max."""
    parts = []
    for name, value in run.items():
        label = f"{prefix} {name}".strip()
        if name in ("wall_s", "cpu_s"):
            continue
        if isinstance(value, dict) and "p50_ms" in value:
            waits = "/".join(number(value[k]) for k in ("p50_ms", "p99_ms", "max_ms"))
            parts.append(f"{label} {waits} ms")
        elif isinstance(value, dict):
            parts += extras(value, label)
        elif isinstance(value, (int, float)):
            parts.append(f"{label} {number(value)}")
    return parts


def _run(entry):
    return (entry["repeats"] or [entry["first"]])[-1]


def _over_f8(entry, by):
    mine, floor = cpu(entry, "scheduler"), by.get("F8")
    return mine - cpu(floor, "scheduler") if floor and mine is not None else None


def _over_f1_s(entry, by):
    if "F1" not in by or "error" in by["F1"]:
        return None
    return _run(entry)["wall_s"] - _run(by["F1"])["wall_s"]


def _middle(entry) -> float:
    return statistics.median(walls(entry))


def _only_ours(value):
    """A limit on our own workers: says nothing of other backends."""
    return lambda e, by: value(e, by) if e["backend"].endswith("/rask") else None


def _over(floor: str):
    return lambda e, by: _middle(e) / _middle(by[floor]) if floor in by else None


def _reads_p99(entry, by):
    """The slowest kind of value while threads spin or hold the GIL."""
    run = _run(entry)
    waits = [wait for load in ("spin", "hold") for kind, wait in run[load].items()
             if not kind.endswith("floor")]
    return max((wait["p99_ms"] for wait in waits if wait["count"]), default=None)


def slowest_over_floor(run: dict) -> float | None:
    """By how much the p99 of a kind of value is above that of its floor, at most; None: no floors."""
    over = [waits[kind]["p99_ms"] - waits[f"{kind} floor"]["p99_ms"]
            for load in ("spin", "hold") for waits in [run.get(load, {})] for kind in waits
            if waits.get(f"{kind} floor", {}).get("count") and waits[kind]["count"]]
    return max(over, default=None)


LIMITS = {
    "wall_us": _only_ours(lambda e, by: _middle(e)),
    "wall_over_f1": _only_ours(_over("F1")),
    "wall_over_f5": _only_ours(_over("F5")),
    "workers_us": _only_ours(lambda e, by: cpu(e, "workers")),
    "reads_p99_ms": _only_ours(_reads_p99),
    "scheduler_peak_bytes": lambda e, by: e["peak_growth"]["scheduler"],
    "scheduler_bytes_per_task": lambda e, by: e["peak_growth"]["scheduler"] / e["n"],
    "kept_bytes_per_task": lambda e, by: e["kept"]["scheduler"] / e["n"],
    "scheduler_over_f8_us": _over_f8,
    "graph_us": lambda e, by: cpu(e, "graph"),
    "total_s": lambda e, by: _run(e)["wall_s"],
    "over_f1_s": _over_f1_s,
    "ping_p99_ms": lambda e, by: _run(e)["ping"].get("p99_ms"),
    "ping_max_ms": lambda e, by: _run(e)["ping"].get("max_ms"),
    "longest_turn_ms": lambda e, by: e.get("longest_turn_ms"),
    "longest_turn_cpu_ms": lambda e, by: e.get("longest_turn_cpu_ms"),
    "client_b_p99_ms": lambda e, by: _run(e)["client_b"].get("p99_ms"),
    "held_over_payload": lambda e, by: _run(e)["held_over_payload"],
}


def table(head: list[str], lines: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]

    def show(line):
        return "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |"

    return [show(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(show, lines)]


def section(row: Row, entries: list[dict]) -> list[str]:
    order = {"stock": 0, "stock-inf": 1, "F1": 97, "F5": 98, "F8": 99}
    entries = sorted(entries, key=lambda e: order.get(e["backend"], 50))
    stock = best_stock(entries)
    shape = f", {row.shape}" if row.shape else ""
    lines = [f"**{row.name}**: {row.title}{shape}; µs per {row.unit}", ""]
    lines += table(HEAD, [cells(e, stock) for e in entries])
    by = {e["backend"]: e for e in entries}
    lines += [""] + [f"- {v}" for v in remarks(row, by) + verdicts(row, by)]
    return lines


def growth(run: dict) -> list[str]:
    """W3: exponent of the growth from the smallest to the largest merge; 1 is linear."""
    lines = []
    for who in dict.fromkeys(e["backend"] for e in run["results"]):
        points = sorted((e["n"], statistics.median(walls(e)) * e["n"]) for e in run["results"]
                        if e["row"].startswith("W3-") and e["backend"] == who and "error" not in e)
        if len(points) > 1:
            (n0, t0), (n1, t1) = points[0], points[-1]
            exponent = math.log(t1 / t0) / math.log(n1 / n0)
            lines.append(f"- W3 growth of {who} from {n0} to {n1}: exponent {exponent:.2f}")
    return lines + [""] if lines else []


def text(run: dict) -> str:
    m = run["machine"]
    lines = [f"{m['cores']} cores, {m['cpu']}, load {m['load']} at the start, Linux {m['kernel']}; "
             f"Python {m['python']}, dask {m['dask']}, distributed {m['distributed']}, "
             f"rask {m['commit']}.",
             "wall: median (best) of the repeats; client…workers: CPU µs; B: growth of the "
             "scheduler's memory at its peak / after release; calls, bytes: of the scheduler.", ""]
    lines += growth(run)
    names = list(dict.fromkeys(e["row"] for e in run["results"]))
    for name in names:
        if name in ROWS:
            lines += section(ROWS[name], [e for e in run["results"] if e["row"] == name]) + [""]
    return "\n".join(lines)


def render(runs: list[dict], path: Path) -> None:
    """Writes the tables of these runs into the page, each behind its command."""
    old = path.read_text()
    head, _, rest = old.partition(BEGIN)
    _, _, tail = rest.partition(END)
    tables = "\n\n".join(f"Command: `python bench/run.py {' '.join(run['argv'])}`\n\n{text(run)}"
                         for run in runs)
    path.write_text(f"{head}{BEGIN}\n{tables}\n{END}{tail}")
