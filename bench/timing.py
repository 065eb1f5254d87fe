"""CPU time of a call, and a table that puts ours beside theirs."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from types import ModuleType


def cpu_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time of a few runs, all threads counted."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def installed(name: str) -> ModuleType | None:
    """A peer's module, or None when it is not here or does not import."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def row(name: str, ours: float, theirs: float | None = None, note: str = "") -> None:
    beside = "" if theirs is None else f"{theirs * 1e3:>12.3f} ms  {theirs / ours:>9.1f}×"
    print(f"{name:<58}{ours * 1e3:>12.4f} ms  {beside:<26}{note}")
