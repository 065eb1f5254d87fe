"""Run one synthesis of another library within caps on time and memory, on one core, and keep what it measured.

Every library has the same core for itself: CPU seconds of several threads would count waiting for each other. Memory is
that of resident pages of the process and of all that it started. A run that ended is written down in a file of the
scratch folder, and not repeated by the next call.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sfumato.quick_dataclass import dataclass

_POLL_SECONDS = 0.25
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_IDLE_FACTOR = 10
"""A run that waits for so many times its CPU seconds is ended too."""


class CapExceeded(Exception):
    """A run took more time or memory than it may."""


@dataclass(frozen=True)
class Caps:
    """What one run may take."""

    seconds: float
    """Of CPU: a busy machine ends no run earlier."""
    megabytes: float

    def run(self, command: list[str]) -> str:
        """Return what the command prints; raise CapExceeded, or CalledProcessError with its messages."""
        with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as messages:
            start = time.monotonic()
            process = subprocess.Popen(
                command, stdout=printed, stderr=messages, start_new_session=True, env=os.environ | _ONE_THREAD
            )
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
            try:
                while process.poll() is None:
                    self._check(*_seconds_and_megabytes(process.pid), time.monotonic() - start)
                    time.sleep(_POLL_SECONDS)
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            printed.seek(0)
            messages.seek(0)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command, stderr=messages.read())
            return printed.read()

    def _check(self, seconds: float, megabytes: float, wall: float) -> None:
        if seconds > self.seconds or wall > _IDLE_FACTOR * self.seconds:
            raise CapExceeded(f"not done after {seconds:.0f} CPU-s")
        if megabytes > self.megabytes:
            raise CapExceeded(f"more than {self.megabytes:.0f} MB after {seconds:.0f} CPU-s")


def _seconds_and_megabytes(session: int) -> tuple[float, float]:
    """Return the CPU seconds and the resident memory of all processes of a session."""
    ticks = pages = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))  # its own, and of children that ended
                pages += int((folder / "statm").read_text().split()[1])
        except (OSError, IndexError):  # it ended meanwhile
            continue
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True)
class KeptRuns:
    """A file with a line for every run that ended: its key, and its measures or how it failed."""

    path: Path

    def run_or_read(self, key: str, run: Callable[[], dict[str, float]]) -> dict[str, float] | str:
        """Return the measures of a run, or in a text how it failed; run it unless it is in the file."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        kept: dict[str, dict[str, float] | str] = dict(map(json.loads, lines))
        if key in kept:
            return kept[key]
        try:
            found: dict[str, float] | str = run()
        except (subprocess.CalledProcessError, CapExceeded) as error:
            found = (str(getattr(error, "stderr", "") or error).strip().splitlines() or [repr(error)])[-1][:200]
        with self.path.open("a") as file:
            file.write(json.dumps([key, found]) + "\n")
        return found
