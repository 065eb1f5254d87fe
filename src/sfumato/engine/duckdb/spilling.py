"""A folder takes rows that do not fit in memory; its owner alone can read it, and it is removed even after a kill.

A process that is killed removes nothing, so whoever opens a folder next sweeps those of dead processes. Alive is who
holds the lock on the folder's file: unlike a process number, a lock is never handed on to a stranger.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from contextlib import suppress

_PREFIX = "sfumato-spill-"
_IN_USE = "in-use"


class Spill:
    """This is a new folder, there until it is closed, forgotten, or its process ends."""

    def __init__(self) -> None:
        sweep()
        self.path = tempfile.mkdtemp(prefix=_PREFIX)
        self.close = weakref.finalize(self, _remove, self.path, _locked(self.path), os.getpid())


def sweep() -> None:
    """Remove this user's folders whose processes are dead."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with suppress(OSError):  # gone already, another's, not ours to remove, or in use
                    _sweep(entry.path)


def _sweep(folder: str) -> None:
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    lock = os.open(os.path.join(folder, _IN_USE), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def _locked(folder: str) -> int:
    """Hold the lock of a new folder: it gets its name once it is held, so that nobody finds it free before."""
    arriving = os.path.join(folder, "arriving")
    lock = os.open(arriving, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    with suppress(OSError):  # a file system without locks: the folder is then never swept
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(arriving, os.path.join(folder, _IN_USE))
    return lock


def _remove(folder: str, lock: int, process: int) -> None:
    """A forked process leaves its parent's files alone."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
