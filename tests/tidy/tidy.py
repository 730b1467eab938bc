#!/usr/bin/env python3
"""House rules that a machine can check: fast, no dependencies, same answer at every commit.

Checks every file of the checkout: how it opens, how long it and its functions are, who includes
whom, what the pure cores may touch, that each test is registered, that READMEs name files that
exist, and that generated tables in docs/ are up to date. Prints one line per breach; the exit
code is their presence. `python tests/tidy/tidy.py` or `make tidy` or ctest.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {"build", ".git", ".venv", ".venvs", ".stamps", "dist", "wheels", "_native", "__pycache__",
           ".pytest_cache", ".cache", "results"}
LINES_MAX = 600
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 120  # aim for 100

Breach = tuple[Path, int, str]

# Who may include whom. Room -> prefixes of project headers it may include.
BASE, WIRE, NET = "protocol/base/", "protocol/wire/", "protocol/net/"
SCHEDULER_SIDE = [BASE, WIRE, NET, "scheduler/core/", "scheduler/shell/", "scheduler/frontend/",
                  "scheduler/http/", "scheduler/ordering/"]
WORKER_SIDE = [BASE, WIRE, NET, "worker/core/", "worker/shell/"]
MAY_INCLUDE = {
    "protocol/base/": [BASE],
    "protocol/wire/": [BASE, WIRE],
    "protocol/net/": [BASE, WIRE, NET],
    "scheduler/core/": [BASE, "scheduler/core/"],
    "scheduler/ordering/": [BASE, "scheduler/ordering/"],
    "scheduler/": SCHEDULER_SIDE,
    "worker/core/": [BASE, "worker/core/"],
    "worker/shell/": WORKER_SIDE,
    "worker/io/": [BASE, "worker/io/"],
    "worker/binding/": [*WORKER_SIDE, "worker/io/", "worker/binding/"],
    "worker/": WORKER_SIDE,
}
PYTHON_ROOMS = ("worker/binding/", "scheduler/frontend/binding/")
PYTHON_HEADERS = re.compile(r"Python\.h|nanobind/")
# The cores are pure: no clock, thread, file, socket, chance or environment.
CORES = ("scheduler/core/", "worker/core/")
CORE_HEADERS = re.compile(
    r"(chrono|ctime|time\.h|thread|mutex|condition_variable|future|atomic|filesystem|fstream|"
    r"iostream|random|cstdio|stdio\.h|unistd\.h|sys/.*|uv\.h|openssl/.*|msgpack.*|fmt/.*)")
CORE_CALLS = re.compile(
    r"\b(std::chrono|std::rand|rand|srand|getenv|clock_gettime|gettimeofday|usleep|printf|puts|"
    r"fopen|system_clock|steady_clock)\s*(\(|::)|\b(throw|catch)\b|std::unordered_")
UV_ROOMS = ("protocol/net/", "scheduler/", "worker/shell/", "bench/", "tests/")
BANNED_WORDS = re.compile(r"(manager|helper|util|common)", re.IGNORECASE)
ROOM_README = ["protocol", "scheduler", "worker", "python", "tests", "pytests", "bench", "docker"]


def files(*endings: str) -> Iterator[Path]:
    def walk(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if path.name in SKIPPED or path.is_symlink():
                continue
            if path.is_dir():
                yield from walk(path)
            elif path.name.endswith(endings):
                yield path

    yield from walk(ROOT)


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of C++ without comments and string contents."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.sub(r'"(\\.|[^"\\])*"', '""', line).partition("//")[0]


# ---- checks of every source file ---------------------------------------------------------------


def opening(path: Path, text: str) -> Iterator[Breach]:
    first = text.lstrip().splitlines()[0] if text.strip() else ""
    if path.suffix in (".cc", ".h"):
        # A .cc that opens with its own header points to the essay there.
        own = f'#include "{place(path.with_suffix(".h"))}"'
        good = first.startswith("//!") or (first == own and path.with_suffix(".h").exists())
    elif path.suffix == ".py":
        good = bool(ast.get_docstring(ast.parse(text)))
    else:
        rest = text.splitlines()[1:] if first.startswith("#!") else [first]
        good = bool(rest) and rest[0].startswith("#")
    if not good:
        yield path, 1, "does not open by saying what it is"


def lengths(path: Path, text: str) -> Iterator[Breach]:
    lines = text.splitlines()
    if len(lines) > LINES_MAX:
        yield path, LINES_MAX, f"has {len(lines)} lines; {LINES_MAX} is the hard stop"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX and "http" not in line:
            yield path, number, f"is {len(line)} columns wide; {COLUMNS_MAX} is the limit"


def leftovers(path: Path, text: str) -> Iterator[Breach]:
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b", line):
            yield path, number, "leaves something to do; do it or write an issue"


def names(path: Path, text: str) -> Iterator[Breach]:
    if BANNED_WORDS.search(path.stem):
        yield path, 1, "is named by a banned word"
    if path.suffix == ".py":
        found = ((node.lineno, node.name) for node in ast.walk(ast.parse(text))
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)))
    else:
        found = ((n, m[1]) for n, line in code_lines(text)
                 for m in re.finditer(r"\b(?:class|struct|namespace)\s+(\w+)", line))
    for number, name in found:
        if BANNED_WORDS.search(name):
            yield path, number, f"{name}: banned word in a name"


def python_functions(path: Path, text: str) -> Iterator[Breach]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield path, node.lineno, f"{node.name} has {length} lines"


def cpp_functions(path: Path, text: str) -> Iterator[Breach]:
    """Functions at the left margin; a closing brace there ends them."""
    start, lines = 0, text.splitlines()
    for number, line in enumerate(lines, 1):
        if re.match(r"(namespace|struct|class|enum|extern|union)\b|#|//", line):
            start = 0
        elif re.match(r"[A-Za-z_~].*[({,]$", line) and not start:
            start = number
        elif line.startswith("}"):
            if start and number - start + 1 > FUNCTION_LINES_MAX:
                yield path, start, f"function has {number - start + 1} lines"
            start = 0


# ---- checks of C++ rooms -----------------------------------------------------------------------


def includes(path: Path, text: str) -> Iterator[Breach]:
    where = place(path)
    room = next((prefix for prefix in sorted(MAY_INCLUDE, key=len, reverse=True)
                 if where.startswith(prefix)), None)
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'#include\s+(["<])([^">]+)', line)
        if not match:
            continue
        mark, header = match.groups()
        if PYTHON_HEADERS.match(header) and not where.startswith(PYTHON_ROOMS):
            yield path, number, f"{header}: Python only in {' and '.join(PYTHON_ROOMS)}"
        if header == "uv.h" and not where.startswith(UV_ROOMS):
            yield path, number, "uv.h: libuv only in net and the shells"
        if where.startswith(CORES) and mark == "<" and CORE_HEADERS.fullmatch(header):
            yield path, number, f"<{header}>: the core is pure"
        if room and mark == '"' and not header.startswith(tuple(MAY_INCLUDE[room])):
            yield path, number, f"{header}: {room} may not include this"


def core_calls(path: Path, text: str) -> Iterator[Breach]:
    if place(path).startswith(CORES):
        for number, line in code_lines(text):
            if match := CORE_CALLS.search(line):
                yield path, number, f"{match[0].strip()}: the core is pure and deterministic"


def header_guard(path: Path, text: str) -> Iterator[Breach]:
    if path.suffix == ".h" and "#pragma once" not in text:
        yield path, 1, "has no #pragma once"


# ---- checks of the whole house -----------------------------------------------------------------


def registered_tests() -> Iterator[Breach]:
    listed = (ROOT / "tests/CMakeLists.txt").read_text()
    for path in files(".cc"):
        where = path.relative_to(ROOT)
        own = path.with_name("CMakeLists.txt")
        if where.parts[0] != "tests" or where.relative_to("tests").as_posix() in listed:
            continue
        if not own.exists() or path.name not in own.read_text():
            yield path, 1, "is registered neither in tests/CMakeLists.txt nor beside it"


def readmes() -> Iterator[Breach]:
    for room in ROOM_README:
        if (ROOT / room).is_dir() and not (ROOT / room / "README.md").exists():
            yield ROOT / room, 1, "room without a README.md"
    for readme in files("README.md"):
        for number, line in enumerate(readme.read_text().splitlines(), 1):
            for name in re.findall(r"^\| `([\w/.-]+\.(?:h|cc|py|sh))`", line):
                if not (readme.parent / name).exists():
                    yield readme, number, f"{name} does not exist"


def generated_tables() -> Iterator[Breach]:
    tool = ROOT / "tools/compat_table.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    for line in filter(None, done.stdout.splitlines()):
        yield tool, 1, line


EVERY: list[Callable[[Path, str], Iterator[Breach]]] = [opening, lengths, leftovers]
PYTHON = [*EVERY, names, python_functions]
CPP = [*EVERY, names, cpp_functions, includes, core_calls, header_guard]


def breaches() -> Iterator[Breach]:
    for endings, checks in (((".cc", ".h"), CPP), ((".py",), PYTHON),
                            ((".sh", ".cmake", "CMakeLists.txt"), EVERY)):
        for path in files(*endings):
            text = path.read_text()
            for check in checks:
                yield from check(path, text)
    yield from registered_tests()
    yield from readmes()
    yield from generated_tables()


def main() -> int:
    found = list(breaches())
    for path, line, text in found:
        print(f"{place(path)}:{line}: {text}")
    print(f"tidy: {len(found)} breaches" if found else "tidy: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
