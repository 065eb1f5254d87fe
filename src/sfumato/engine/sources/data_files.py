"""Data in files are identified here, for the ledger, which registers what identifies data and opens none of them.

Reading a file to know its content is the owner's act: the ledger asks for it only when the file does not look as it did
when it was read before, and no question causes it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from functools import partial
from hashlib import sha256

from sfumato.engine.seam import Data
from sfumato.errors import InvalidParameter, LedgerUnavailable

_BLOCK = 1 << 20
_SETTLING = 2_000_000_000  # a file touched in the last two seconds may change again without its times showing it


def identified(path: str | os.PathLike[str]) -> Data:
    """Identify a file as it is now: by its real path, its size, its place on the disk, its times, and its content when
    asked.
    """
    address = os.path.realpath(os.fspath(path).removeprefix("file://"))
    try:
        found = os.stat(address)
    except OSError as error:
        raise _unreadable(address, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise InvalidParameter("source", address, "a file", fix="join every file of a folder by itself")
    settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _SETTLING
    return Data(
        address,
        partial(_content, address, _look(found)),
        size=str(found.st_size),
        file=f"{found.st_dev} {found.st_ino}",
        look=_look(found) if settled else "",
    )


def _content(path: str, look: str) -> str:
    """Hash the file's bytes, of the version that looked so."""
    try:
        with open(path, "rb") as file:
            start = os.fstat(file.fileno())
            content = _digest(iter(lambda: file.read(_BLOCK), b""))
            end = os.fstat(file.fileno())
    except OSError as error:
        raise _unreadable(path, error) from error
    if not look == _look(start) == _look(end):
        raise LedgerUnavailable(
            "data must not change while they are read, and these did",
            place=path,
            fix="join them when they are still",
        )
    return content


def _look(found: os.stat_result) -> str:
    parts = found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
    return " ".join(map(str, parts))


def _digest(blocks: Iterable[bytes]) -> str:
    seal = sha256()
    for block in blocks:
        seal.update(block)
    return seal.hexdigest()


def _unreadable(path: str, error: OSError) -> LedgerUnavailable:
    reason = os.strerror(error.errno or 0)
    return LedgerUnavailable(f"the data cannot be read ({reason})", place=path, fix="give a file that can be read")
