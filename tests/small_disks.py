"""A real disk of a few megabytes that a test fills up."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    """A mounted file system of its own."""

    folder: Path

    def fill(self) -> None:
        """Write until nothing more fits."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for block in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        filler.write(b"x" * block)
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017

    def empty(self) -> None:
        (self.folder / "filler").unlink()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a tmpfs; skipped where this user may not mount."""
    folder.mkdir()
    options = f"size={megabytes}m,mode=0700"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"this user may not mount a disk: {mounted.stderr.decode().strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
