"""A ledger lives in a file on a local file system, readable by its owner alone.

Threads take turns by locks, and an interrupt between two instructions leaves nobody waiting for ever.

A process is known to have ended for ever, although its number is given to others.

A process is named by the boot of its machine, its namespace, its number and its start. Where the system does not say
these, or another namespace hides the process, nobody knows.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from sfumato.errors import InvalidParameter, LedgerUnavailable

MOUNTS = Path("/proc/self/mountinfo")

# Locks and shared memory do not hold between the machines that see such a file system.
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\w*|ncpfs|afs|coda|ceph|lustre|gfs2?|ocfs2|gpfs|beegfs|pvfs2|orangefs|9p|virtiofs|vboxsf|vmhgfs"
    r"|prl_fs|davfs2?|fuse\.(?!fuseblk|gocryptfs|encfs|mergerfs).*|fuse)"
)


def resolve(path: object) -> Path:
    """Resolve the real path of a ledger, in a folder that exists."""
    found = Path(os.path.realpath(address(path, "path")))
    if not found.parent.is_dir():
        raise LedgerUnavailable(
            "the ledger's folder does not exist", place=str(found.parent), fix="make the folder, or correct the path"
        )
    if found.is_dir():
        raise LedgerUnavailable("the ledger is one file", place=str(found), fix="name a file inside this folder")
    return found


def address(path: object, what: str) -> str:
    """Write a path as text that can be kept: not empty, and made of whole characters."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidParameter(what, path, "the path of a file, in whole characters")
    return text


def anchor_folder() -> Path:
    """Name the folder in which this user remembers ledgers that are in databases."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "sfumato" / "anchors"


def require_local(path: Path) -> None:
    """Refuse network file systems: a budget that two machines spend without seeing each other is no budget."""
    kind = filesystem(path, MOUNTS.read_text(errors="replace")) if MOUNTS.exists() else None
    if kind is not None and _NETWORK.fullmatch(kind):
        raise LedgerUnavailable(
            f"a ledger cannot live on a network file system ({kind}): its locks do not hold between machines",
            place=str(path),
            fix="keep the ledger on a local disk and say so with ledger=…",
        )


def require_one_name(path: Path) -> None:
    """Refuse a file with a second name. The log of what is not yet in the file is kept under the file's name: two
    names, two logs, two budgets.
    """
    mounted = MOUNTS.exists() and any(point == str(path) for point, _ in _mounted(MOUNTS.read_text(errors="replace")))
    if mounted or os.stat(path).st_nlink != 1:
        raise LedgerUnavailable(
            "a ledger has one name, and this file has another (a hard link, or it is mounted by itself)",
            place=str(path),
            fix="remove the other name; mount the folder, not the file",
        )


def filesystem(path: Path, mounts: str) -> str | None:
    """Find the type of the file system that holds a path, by its longest mount point; of equals the last mounted."""
    best, kind = -1, None
    for point, found in _mounted(mounts):
        if path.is_relative_to(point) and len(point) >= best:
            best, kind = len(point), found
    return kind


def _mounted(mounts: str) -> Iterator[tuple[str, str]]:
    """List every mount point and the type of its file system."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) >= 5 and after:
            yield re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]), after.split(" ")[0]


def create(path: Path) -> None:
    """Make the file if it is missing, for its owner's eyes only, and make its name durable.

    A file that is there is never opened here: closing it again would drop every lock this process has on it. Nor is
    anything about it changed before it is known to be a ledger.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, 0o600)
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(path)


def close_to_others(path: Path) -> None:
    """Make a ledger, and the log and the memory that SQLite keeps beside it, readable by the owner alone."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with contextlib.suppress(FileNotFoundError):
            if stat.S_IMODE(os.stat(name).st_mode) & 0o077:
                os.chmod(name, 0o600)


def scratch(target: Path) -> Path:
    """A new empty file beside another, for its owner's eyes only, to be finished and then given its name."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    os.close(handle)
    return Path(name)


def sync(path: Path) -> None:
    """Wait until the disk holds a file as it is now."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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


PROCESSES = Path("/proc")
_UNKNOWN = "?"


def this_process() -> str:
    return _named(os.getpid())


def alive(name: str, *, elsewhere: bool = False) -> bool | None:
    """Tell whether the process of this name still runs; None where that cannot be known. With ``elsewhere`` it may be
    one of another machine: another boot is then no sign of an end.
    """
    boot, space, number, start = name.split(" ")
    here = _named(os.getpid()).split(" ")
    if _UNKNOWN in (boot, here[0]):
        return None
    if boot != here[0]:
        return None if elsewhere else False
    return _start(int(number)) == start if space == here[1] else None


@lru_cache(maxsize=1)
def _named(number: int) -> str:
    try:
        boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink(PROCESSES / "self/ns/pid")
    except OSError:
        boot = space = _UNKNOWN
    return f"{boot} {space} {number} {_start(number)}"


def _start(number: int) -> str:
    """Read when it started, in the system's ticks; empty for one that has ended, buried or not."""
    try:
        fields = (PROCESSES / str(number) / "stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
