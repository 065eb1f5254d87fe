"""Sources: which data an account's people are in, by path and by content.

Somebody who registers the same table under another name would get a second budget for the same people. So a path or
a content that one account knows is refused by every other. Reading a file to know its content is the owner's act; no
question causes it.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from sfumato.errors import InvalidParameter, LedgerUnavailable
from sfumato.ledger import entries, places
from sfumato.ledger.desk import Desk
from sfumato.privacy import codec
from sfumato.privacy.numbers import whole

_BLOCK = 1 << 20
_SETTLING = 2_000_000_000  # a file touched in the last two seconds may change again without its times showing it


_ELSEWHERE = re.compile(r"(memory|postgres|postgresql|spark|s3|https?|gs|az)://")
"""Addresses of data that are no file here; anything else is a path."""


@codec.value("source")
@dataclass(frozen=True)
class Source:
    """Data at one moment: where, what, and how the file looked when it was read."""

    path: str
    """The real path of a file, or any other address."""
    fingerprint: str = ""
    """SHA-256 of the content; empty when unknown."""
    size: int = 0
    inode: tuple[int, ...] = ()
    """Device, number, modification and change time in nanoseconds; empty when these say nothing."""

    def __post_init__(self) -> None:
        entries.prose(self.path, "source")
        if self.fingerprint != "":
            entries.name(self.fingerprint, "fingerprint")
        object.__setattr__(self, "size", whole(self.size, "size"))
        if not isinstance(self.inode, (tuple, list)) or not all(type(part) is int for part in self.inode):
            raise InvalidParameter("inode", self.inode, "whole numbers")
        object.__setattr__(self, "inode", tuple(self.inode))


def known(desk: Desk, account: str) -> list[Source]:
    return [codec.loads(row.detail) for row in desk.page({"kind": "source"}) if row.account == account]


def taken(desk: Desk, account: str, source: Source) -> str | None:
    """The other account that knows this path or this content. Empty files are about nobody, and all alike."""
    for row in desk.page({"kind": "source"}):
        other: Source = codec.loads(row.detail)
        alike = bool(source.fingerprint) and source.size != 0 and source.fingerprint == other.fingerprint
        same = source.path == other.path or (bool(source.inode) and source.inode[:2] == other.inode[:2])
        if row.account != account and (alike or same):
            return row.account
    return None


def look(source: str | os.PathLike[str], fingerprint: str | None, before: Sequence[Source]) -> Source:
    """The source as it is now: a file is read, unless it looks as it did when it was read before."""
    address = places.address(source, "source").removeprefix("file://")
    elsewhere = _ELSEWHERE.match(address) is not None
    if fingerprint is not None:
        return Source(address if elsewhere else os.path.realpath(address), entries.name(fingerprint, "fingerprint"), 1)
    if elsewhere:
        return Source(address)
    return _look_at_file(os.path.realpath(address), before)


def _look_at_file(path: str, before: Sequence[Source]) -> Source:
    entries.prose(path, "source")
    try:
        with open(path, "rb") as file:
            start = os.fstat(file.fileno())
            if not stat.S_ISREG(start.st_mode):
                raise InvalidParameter("source", path, "a file", fix="join every file of a folder by itself")
            unchanged = _unchanged(path, start, before)
            if unchanged is not None:
                return unchanged
            seal = _digest(iter(lambda: file.read(_BLOCK), b""))
            end = os.fstat(file.fileno())
    except OSError as error:
        raise LedgerUnavailable(
            f"the data cannot be read ({os.strerror(error.errno or 0)})", place=path, fix="give a file that can be read"
        ) from error
    if _look(start) != _look(end):
        raise LedgerUnavailable(
            "the data changed while they were read", place=path, fix="join them when they are still"
        )
    settled = time.time_ns() - max(end.st_mtime_ns, end.st_ctime_ns) > _SETTLING
    return Source(path, seal, end.st_size, _look(end) if settled else ())


def _unchanged(path: str, found: os.stat_result, before: Sequence[Source]) -> Source | None:
    """What was joined last under this path, if the file still looks the same."""
    last = next((source for source in reversed(before) if source.path == path), None)
    return last if last is not None and (last.size, last.inode) == (found.st_size, _look(found)) else None


def _look(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _digest(blocks: Iterable[bytes]) -> str:
    seal = sha256()
    for block in blocks:
        seal.update(block)
    return seal.hexdigest()
