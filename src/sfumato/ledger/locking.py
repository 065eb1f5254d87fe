"""Threads take turns by locks, and an interrupt between two instructions leaves nobody waiting for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def locked(lock: threading.RLock) -> Iterator[None]:
    """Hold a lock that this thread does not hold yet.

    A Ctrl-C can strike where a ``with`` has ended and its lock is not released yet, or where it is had and the block
    has not begun. What this thread still holds then is released here, once more: one interrupt strikes once.
    """
    try:
        with lock:
            yield
    finally:
        with suppress(RuntimeError):  # most often: it is not held
            while True:
                lock.release()
