"""Space held back on the ledger's disk, so that the answer to a charge can still be written when the disk is full.

A charge without a stored answer costs budget and gives nothing. So a server holds a file of a few megabytes beside its
ledger: it is there before anything is charged, and it is deleted when an answer cannot be written, which makes room for
that answer. No further charge is accepted until the space can be held again.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from sfumato.errors import LedgerUnavailable

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
                fix=f"free at least {self.size + _CHARGE_BYTES >> 20} MiB on that disk; a server then continues by "
                "itself",
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
