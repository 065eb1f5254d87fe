"""Files of a ledger: on a local file system, readable by their owner only.

Threads take turns by locks; an interrupt between two instructions leaves no thread waiting forever.

A process is known to have ended even if its id has been reused: it is named by the boot of its machine, its PID
namespace, its id and its start time. Where the system does not provide these, or another namespace hides the process,
the result is unknown.

Space held back on the ledger's disk, so that the answer to a charge can still be written when the disk is full.

A charge without a stored answer costs budget and gives nothing. So a server holds a file of a few megabytes beside its
ledger: it is there before anything is charged, and it is deleted when an answer cannot be written, which makes room for
that answer. No further charge is accepted until the space can be held again.
"""

from __future__ import annotations

import contextlib
import errno
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

# Locks and shared memory do not work between machines on these file systems.
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\w*|ncpfs|afs|coda|ceph|lustre|gfs2?|ocfs2|gpfs|beegfs|pvfs2|orangefs|9p|virtiofs|vboxsf|vmhgfs"
    r"|prl_fs|davfs2?|fuse\.(?!fuseblk|gocryptfs|encfs|mergerfs).*|fuse)"
)


def resolve_ledger_path(path: object) -> Path:
    """Return the real path of a ledger, in a folder that exists."""
    real_path = Path(os.path.realpath(checked_path(path, "path")))
    if not real_path.parent.is_dir():
        raise LedgerUnavailable(
            "the ledger's folder does not exist",
            place=str(real_path.parent),
            fix="create the folder, or correct the path",
        )
    if real_path.is_dir():
        raise LedgerUnavailable(
            "a ledger is a file, and this is a folder", place=str(real_path), fix="name a file inside this folder"
        )
    return real_path


def checked_path(path: object, what: str) -> str:
    """Return a path as text that can be stored: not empty, and valid Unicode."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text:
        rule = "a file path: a non-empty string, or a pathlib.Path"
        raise InvalidParameter(what, path, rule, fix=f"give {what} the path of a file, in quotes")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidParameter(what, path, "a file path in valid Unicode, without NUL", fix="rename the file")
    return text


def anchor_folder() -> Path:
    """Return the folder in which this user's anchors of database ledgers are stored."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "sfumato" / "anchors"


def verification_folder() -> Path:
    """Return the folder in which this user's checkpoints of verifications are stored, apart from every ledger."""
    return anchor_folder().parent / "verifications"


def write_privately(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write a file that only its owner can read, complete or not at all; without ``replace`` one that exists stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = create_temporary(path)
    try:
        temporary.write_bytes(content)
        if replace:
            os.replace(temporary, path)
        else:
            with suppress(FileExistsError):
                os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_private_file(path: Path) -> bool:
    """Return whether a file belongs to this user and nobody else can read or replace it."""
    stats = [os.stat(path, follow_symlinks=False), os.stat(path.parent)]
    return (
        all(status.st_uid == os.geteuid() and not status.st_mode & 0o022 for status in stats)
        and not stats[0].st_mode & 0o077
    )


def require_local_filesystem(path: Path) -> None:
    """Refuse network file systems: two machines that do not see each other's charges would both spend the budget."""
    kind = filesystem_type(path, MOUNTS.read_text(errors="replace")) if MOUNTS.exists() else None
    if kind is not None and _NETWORK.fullmatch(kind):
        raise LedgerUnavailable(
            f"a ledger cannot be stored on a network file system ({kind}): its locks do not work between machines",
            place=str(path),
            fix="keep the ledger on a local disk, and name its path with ledger=…",
        )


def require_single_link(path: Path) -> None:
    """Refuse a file with a second name. SQLite's write-ahead log is kept under the file's name: two names mean two logs
    and two budgets.
    """
    is_mounted = MOUNTS.exists() and any(
        point == str(path) for point, _ in _parse_mounts(MOUNTS.read_text(errors="replace"))
    )
    if is_mounted or os.stat(path).st_nlink != 1:
        raise LedgerUnavailable(
            "a ledger file must have a single name, and this one has a second (a hard link, or a mount of the file)",
            place=str(path),
            fix="remove the second name, or mount the folder instead of the file",
        )


def filesystem_type(path: Path, mounts: str) -> str | None:
    """Return the type of the file system that holds a path, by its longest mount point; of equal ones the last
    mounted.
    """
    longest, kind, inside = -1, None, f"{path}/"
    for point, mounted_kind in _parse_mounts(mounts):
        if len(point) >= longest and inside.startswith(f"{point.rstrip('/')}/"):
            longest, kind = len(point), mounted_kind
    return kind


def _parse_mounts(mounts: str) -> Iterator[tuple[str, str]]:
    """Yield every mount point and the type of its file system."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) >= 5 and after:
            point = fields[4]
            if "\\" in point:
                point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
            yield point, after.split(" ", 1)[0]


def create_private_file_if_missing(path: Path) -> None:
    """Create the file if it is missing, readable by its owner only, and make its name durable.

    An existing file is never opened here: closing it again would drop every lock this process has on it. Nor is
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
    sync_parent_folder(path)


def restrict_to_owner(path: Path) -> None:
    """Make a ledger, and SQLite's log and shared memory beside it, readable by the owner only."""
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with contextlib.suppress(FileNotFoundError):
            if stat.S_IMODE(os.stat(name).st_mode) & 0o077:
                os.chmod(name, 0o600)


def create_temporary(target: Path) -> Path:
    """Create a new empty file beside another, readable by its owner only, to be filled and then renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    os.close(handle)
    return Path(name)


def sync_to_disk(path: Path) -> None:
    """Wait until the disk holds a file as it is now."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_parent_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def hold_unheld_lock(lock: threading.RLock) -> Iterator[None]:
    """Hold a lock that this thread does not hold yet.

    Ctrl-C can strike after a ``with`` has ended and before its lock is released, or after it is acquired and before the
    block begins. Whatever this thread still holds then is released here once more: one interrupt strikes once.
    """
    try:
        with lock:
            yield
    finally:
        with suppress(RuntimeError):  # usually it is not held
            while True:
                lock.release()


PROCESSES = Path("/proc")
_UNKNOWN_BOOT = "?"


def current_process_name() -> str:
    return _process_name(os.getpid())


def is_process_alive(name: str, *, elsewhere: bool = False) -> bool | None:
    """Return whether the process of this name still runs; None if that cannot be known. With ``elsewhere`` it may be on
    another machine: a different boot is then no sign that it ended.
    """
    boot, namespace, number, start = name.split(" ")
    current_process = _process_name(os.getpid()).split(" ")
    if _UNKNOWN_BOOT in (boot, current_process[0]):
        return None
    if boot != current_process[0]:
        return None if elsewhere else False
    return _process_start_time(int(number)) == start if namespace == current_process[1] else None


@lru_cache(maxsize=1)
def _process_name(number: int) -> str:
    try:
        boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink(PROCESSES / "self/ns/pid")
    except OSError:
        boot = namespace = _UNKNOWN_BOOT
    return f"{boot} {namespace} {number} {_process_start_time(number)}"


def _process_start_time(number: int) -> str:
    """Return when a process started, in clock ticks; empty for one that has ended, reaped or not."""
    try:
        fields = (PROCESSES / str(number) / "stat").read_bytes().rpartition(b") ")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


RESERVE_BYTES = 4 << 20
"""Enough for every answer that is stored in the ledger itself, and for files of large answers up to this size."""
_CHARGE_BYTES = 1 << 20
"""Free space beside the reserve without which nothing is charged: the charge itself is written there."""


class DiskReserve:
    """The reserve of one ledger. Several processes share its file."""

    def __init__(self, ledger: Path, size: int = RESERVE_BYTES) -> None:
        self.path = Path(f"{ledger}.reserve")
        self.size = size

    def hold(self) -> None:
        """Ensure before a charge that the space is held; raise ``LedgerUnavailable`` if the disk lacks it."""
        try:
            if not self._is_held():
                self._allocate()
            disk = os.statvfs(self.path.parent)
            if disk.f_bavail * disk.f_frsize < _CHARGE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise LedgerUnavailable(
                f"the ledger's disk has no space to store answers ({os.strerror(error.errno or 0)}); "
                "nothing was charged",
                place=str(self.path),
                fix=f"free at least {self.size + _CHARGE_BYTES >> 20} MiB on that disk; a running server then "
                "continues by itself",
            ) from error

    def free(self) -> bool:
        """Give the space back to the disk; return whether any was held."""
        with suppress(OSError):
            self.path.unlink()
            return True
        return False

    def _is_held(self) -> bool:
        with suppress(FileNotFoundError):
            return self.path.stat().st_size >= self.size
        return False

    def _allocate(self) -> None:
        descriptor = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self.size)
            os.fsync(descriptor)
        except OSError:
            self.free()  # a part would not hold the largest answer
            raise
        finally:
            os.close(descriptor)
