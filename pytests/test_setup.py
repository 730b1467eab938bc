"""Set-up on a machine where packages are missing, and what the package itself needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1] / "tools"


def fake(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def set_up(directory: Path, missing: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs setup_system.sh as a user without rights, on a machine that lacks these packages."""
    fake(directory, "dpkg-query", 'for last; do :; done\ncase " ' + " ".join(missing) +
         ' " in *" $last "*) exit 1;; *) echo installed;; esac')
    fake(directory, "id", "echo 1000")
    fake(directory, "sudo", "exit 1")
    fake(directory, "apt-get", f"touch {directory}/installed-something")
    return subprocess.run([str(TOOLS / "setup_system.sh")], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60,
                          env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"})


def test_missing_packages_are_named_exactly_and_nothing_is_installed(tmp_path):
    wanted = [line for line in (TOOLS / "system_packages.txt").read_text().splitlines()
              if line and not line.startswith("#")]
    missing = [wanted[0], wanted[-1]]
    done = set_up(tmp_path, missing)
    assert done.returncode != 0
    assert [line.strip() for line in done.stderr.splitlines() if line.startswith("  ")] == missing
    assert f"apt-get install --no-install-recommends {' '.join(missing)}\n" in done.stderr
    assert not (tmp_path / "installed-something").exists()


def test_a_machine_that_has_everything_is_left_alone(tmp_path):
    done = set_up(tmp_path, [])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "installed-something").exists()


def test_a_cluster_needs_no_numpy():
    """What the package requires is what dask and distributed require; arrays are their users' affair."""
    program = """
import sys
sys.modules["numpy"] = sys.modules["pandas"] = None  # as if not installed
import rask.cli.worker, rask.graph.serve, rask.worker.facade
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
