"""A device on which seeks are dear: a loop device behind the kernel's own throttle of requests.

Every request of 200 a second costs 5 ms, however large it is (up to what the kernel makes of one), as
a disk's head does. The throttle is set for the device's number in the topmost group of the blkio
controller, so that it also meets what the kernel writes back later. Dirty pages are limited, or
memory would hide a whole merge; caches are dropped by unmounting.

Invariant: after `close` nothing of the device is left: mount, loop device, throttle, image.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

BLKIO = Path("/sys/fs/cgroup/blkio")
_libc = ctypes.CDLL(None, use_errno=True)


def sync(folder: str | os.PathLike) -> None:
    """Writes back one file system, not those of others."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        if _libc.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "syncfs", str(folder))
    finally:
        os.close(fd)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Throttled:
    """A file system at `folder`; `throttle()` and `free()` switch the limit, `forget()` the cache."""

    def __init__(self, image: int, iops: int, dirty: int):
        self.iops = iops
        self.loop = ""
        self.base = Path(tempfile.mkdtemp(prefix="rask-bench-io-", dir="/var/tmp"))
        self.folder = self.base / "mnt"
        try:
            self._make(image, dirty)
        except BaseException:
            self.close()
            raise

    def _make(self, image: int, dirty: int) -> None:
        file = self.base / "image"
        with open(file, "wb") as f:
            os.posix_fallocate(f.fileno(), 0, image)
        self.folder.mkdir()
        self.loop = _run("losetup", "--find", "--show", "--direct-io=on", str(file))
        self.block = Path("/sys/block") / Path(self.loop).name
        self.number = (self.block / "dev").read_text().strip()
        _run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", self.loop)
        bdi = Path("/sys/class/bdi") / self.number
        (bdi / "strict_limit").write_text("1")
        (bdi / "max_bytes").write_text(str(dirty))
        self._limit(0)
        self._mount()

    def _limit(self, iops: int) -> None:
        for what in ("read", "write"):
            (BLKIO / f"blkio.throttle.{what}_iops_device").write_text(f"{self.number} {iops}")

    def _mount(self) -> None:
        _run("mount", self.loop, str(self.folder))

    def throttle(self) -> None:
        self._limit(self.iops)

    def free(self) -> None:
        self._limit(0)

    def forget(self) -> None:
        """What the kernel remembers of the files."""
        _run("umount", str(self.folder))
        self._mount()

    def requests(self) -> tuple[int, int]:
        """Reads and writes that the device was asked for so far."""
        fields = (self.block / "stat").read_text().split()
        return int(fields[0]), int(fields[4])

    def close(self) -> None:
        if self.loop:
            if hasattr(self, "number"):
                self._limit(0)
                (Path("/sys/class/bdi") / self.number / "strict_limit").write_text("0")
            if os.path.ismount(self.folder):
                _run("umount", str(self.folder))
            _run("losetup", "-d", self.loop)
        shutil.rmtree(self.base, ignore_errors=True)

    def __enter__(self) -> Throttled:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def why_not() -> str | None:
    """Why this machine cannot have such a device; None: it can."""
    if os.geteuid() != 0:
        return "not root"
    if not (BLKIO / "blkio.throttle.read_iops_device").exists():
        return "no blkio controller (control groups, version 1)"
    try:
        Throttled(16 << 20, 200, 1 << 20).close()
    except OSError as e:
        return str(e)
    return None
