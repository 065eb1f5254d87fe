"""The catalog's engine as the server sees it: a child process that is started when needed and ended when it hangs."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.catalog import engine_process
from sfumato.server.postgres.catalog.engine_process import Rows, StatementLimits

IDLE_SECONDS = engine_process.IDLE_SECONDS - 10
"""A process that was idle for so long is replaced before it ends by itself."""

START_SECONDS, GRACE_SECONDS = 60.0, 2.0
"""How long the process may take to fill its database, and to stop a statement after its time is over."""


@dataclass(frozen=True)
class EngineSetup:
    """What the process is started with: DuckDB's settings, statements with their parameters, and bytes of memory."""

    settings: Mapping[str, Any]
    statements: tuple[tuple[str, Mapping[str, Any] | None], ...]
    memory: int


class CatalogEngine:
    """Runs one statement at a time; only ``interrupt`` may be called by other threads."""

    def __init__(self, setup: EngineSetup) -> None:
        self._setup = setup
        self._process: subprocess.Popen[bytes] | None = None
        self._ends_idle = 0.0
        self._is_interrupted = False

    def run(self, statement: str, limits: StatementLimits) -> tuple[Rows, int] | None:
        """Return rows and the number of their letters; None where the engine fails or exceeds a limit.

        Address space that statements leave behind is never given back, so where it runs out, or the process dies
        without being killed, the statement runs once more in a new process, if there were others before it.
        """
        is_new, self._is_interrupted = not self._is_running(), False
        answer = self._run_in_process(statement, limits)
        if answer == engine_process.OUT_OF_MEMORY:
            self.stop()
            answer = None if is_new or self._is_interrupted else self._run_in_process(statement, limits)
        return None if isinstance(answer, str) else answer

    def _run_in_process(self, statement: str, limits: StatementLimits) -> tuple[Rows, int] | str | None:
        try:
            process = self._running_process()
            answer: tuple[Rows, int] | str | None = _exchange_pickles(
                process, (statement, *limits), limits.seconds + GRACE_SECONDS
            )
        except (OSError, EOFError, pickle.UnpicklingError):  # it has died of the statement, or was killed
            return None if self._is_killed() else engine_process.OUT_OF_MEMORY
        return answer

    def _is_killed(self) -> bool:
        """Say whether the process was ended by ``interrupt``, for its time or by the kernel; it is stopped in any
        case.
        """
        process = self._process
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
        self.stop()
        return process is None or process.returncode == -signal.SIGKILL

    def interrupt(self) -> None:
        """Kill the process, from any thread: ``run`` returns None, and the next statement starts another."""
        self._is_interrupted = True
        process = self._process
        if process is not None:
            process.kill()

    def stop(self) -> None:
        """End the process; the next statement starts another."""
        if self._process is not None:
            _kill_process(self._process)
            self._process = None

    def _is_running(self) -> bool:
        return self._process is not None and time.monotonic() < self._ends_idle and self._process.poll() is None

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._is_running():
            self._ends_idle = time.monotonic() + IDLE_SECONDS
            return self._process
        self.stop()
        self._process = _start_process()
        weakref.finalize(self, _kill_process, self._process)
        opening = sys.path, dict(self._setup.settings), self._setup.statements, self._setup.memory
        _exchange_pickles(self._process, opening, START_SECONDS)
        self._ends_idle = time.monotonic() + IDLE_SECONDS
        return self._process


def _start_process() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", engine_process.__file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _exchange_pickles(process: subprocess.Popen[bytes], request: object, seconds: float) -> Any:
    """Send a request and return its reply; kill a process that does not reply in time."""
    assert process.stdin is not None and process.stdout is not None  # noqa: PT018
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    finally:
        timer.cancel()


def _kill_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()
