"""An account knows which data its people are in, by path, by content and by file.

Somebody who registers the same table under another name would get a second budget for the same people. So what one
account knows is refused by every other, and no such file may be declared public. Reading a file to know its content is
the owner's act; no question causes it. Whatever identifies rows is kept as a keyed hash.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from sfumato.errors import InvalidParameter, LedgerUnavailable
from sfumato.ledger import entries, local_files
from sfumato.ledger.keyed_hashes import KeyedHash
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import codec

_BLOCK = 1 << 20
_SETTLING = 2_000_000_000  # a file touched in the last two seconds may change again without its times showing it
_NO_CONTENT = sha256().hexdigest()

MEMORY = "memory://"
_ELSEWHERE = re.compile(r"(memory|postgres|postgresql|spark|s3|https?|gs|az)://")
"""Addresses of data that are no file here; anything else is a path."""


@codec.value("source")
@dataclass(frozen=True)
class Source:
    """Data at one moment: where they were in plain, what they were in keyed hashes, each empty where it is unknown."""

    path: str
    """The real path of a file, or any other address. Of data in memory, which are known by content alone, no more than
    that they were there.
    """
    fingerprint: str = ""
    """Of the content."""
    size: str = ""
    file: str = ""
    """Of the file's device and inode, which all its names share."""
    look: str = ""
    """Of size, device, inode, modification and change time, once these tell every change."""

    def __post_init__(self) -> None:
        entries.prose(self.path, "source")
        for what in ("fingerprint", "size", "file", "look"):
            if getattr(self, what) != "":
                entries.name(getattr(self, what), what)


Joined = Sequence[tuple[str, Source]]
"""Accounts and the sources that were joined to them, oldest first."""


def joined(transaction: Transaction) -> Joined:
    return [(row.account, codec.loads(row.detail)) for row in transaction.page({"kind": "source"})]


def known(transaction: Transaction, account: str) -> list[Source]:
    return [source for owner, source in joined(transaction) if owner == account]


def changed(source: Source, before: Sequence[Source]) -> bool:
    """Whether this is not what was joined last under the same path; data in memory have none."""
    if source.path == MEMORY:
        return source not in before
    return source != _last(source.path, before)


def version(before: Sequence[Source]) -> int:
    """How many contents were joined one after another: changes are counted, whether or not an old content came back."""
    last: dict[str, str] = {}
    count = 0
    for source in before:
        place = f"{MEMORY}{source.fingerprint}" if source.path == MEMORY else source.path
        count += last.get(place) != source.fingerprint
        last[place] = source.fingerprint
    return count


def taken(all_joined: Joined, account: str, source: Source, keyed: KeyedHash) -> str | None:
    """The other account that knows this path, this content or this file."""
    return next((owner for owner, other in all_joined if owner != account and _same(source, other, keyed)), None)


def protected(
    all_joined: Joined, source: str | os.PathLike[str], fingerprint: str | None, keyed: KeyedHash
) -> str | None:
    """The account that knows these data. A file is read only if a file of its size was joined."""
    found = _glance(source, fingerprint, keyed)
    if found.size and not found.fingerprint and any(other.size == found.size for _, other in all_joined):
        found = look(source, None, (), keyed)
    return taken(all_joined, "", found, keyed)


def _same(source: Source, other: Source, keyed: KeyedHash) -> bool:
    """Empty files are about nobody, and all alike. A system gives the inode of a removed file to another, so a file is
    the same only if the path that was joined is gone or still names it.
    """
    place = source.path == other.path != MEMORY
    content = source.fingerprint == other.fingerprint not in ("", keyed("content", _NO_CONTENT))
    one_file = bool(source.file) and source.file == other.file and _file_at(other.path, keyed) in ("", other.file)
    return place or content or one_file


def look(source: str | os.PathLike[str], fingerprint: str | None, before: Sequence[Source], keyed: KeyedHash) -> Source:
    """The source as it is now: a file is read, unless it looks as it did when it was read before."""
    found = _glance(source, fingerprint, keyed)
    if found.fingerprint or _ELSEWHERE.match(found.path):
        return found
    return _look_at_file(found.path, before, keyed)


def _glance(source: str | os.PathLike[str], fingerprint: str | None, keyed: KeyedHash) -> Source:
    """The source as far as it is known without reading it."""
    address = local_files.address(source, "source").removeprefix("file://")
    content = "" if fingerprint is None else keyed("content", entries.name(fingerprint, "fingerprint"))
    if address.startswith(MEMORY):
        return Source(MEMORY, content)
    if _ELSEWHERE.match(address):
        return Source(address, content)
    path = entries.prose(os.path.realpath(address), "source")
    try:
        size = keyed("size", str(os.stat(path).st_size))
    except OSError:
        size = ""
    return Source(path, content, size, _file_at(path, keyed))


def _look_at_file(path: str, before: Sequence[Source], keyed: KeyedHash) -> Source:
    try:
        with open(path, "rb") as file:
            start = os.fstat(file.fileno())
            if not stat.S_ISREG(start.st_mode):
                raise InvalidParameter("source", path, "a file", fix="join every file of a folder by itself")
            last = _last(path, before)
            if last is not None and last.look == _look(start, keyed):
                return last
            content = _digest(iter(lambda: file.read(_BLOCK), b""))
            end = os.fstat(file.fileno())
    except OSError as error:
        raise LedgerUnavailable(
            f"the data cannot be read ({os.strerror(error.errno or 0)})", place=path, fix="give a file that can be read"
        ) from error
    if _look(start, keyed) != _look(end, keyed):
        raise LedgerUnavailable(
            "the data changed while they were read", place=path, fix="join them when they are still"
        )
    settled = time.time_ns() - max(end.st_mtime_ns, end.st_ctime_ns) > _SETTLING
    found = Source(path, keyed("content", content), keyed("size", str(end.st_size)), _file(end, keyed))
    return replace(found, look=_look(end, keyed)) if settled else found


def _last(path: str, before: Sequence[Source]) -> Source | None:
    """What was joined last under this path."""
    return next((source for source in reversed(before) if source.path == path), None)


def _file_at(path: str, keyed: KeyedHash) -> str:
    try:
        return _file(os.stat(path), keyed)
    except (OSError, ValueError):
        return ""


def _file(found: os.stat_result, keyed: KeyedHash) -> str:
    return keyed("file", f"{found.st_dev} {found.st_ino}")


def _look(found: os.stat_result, keyed: KeyedHash) -> str:
    parts = found.st_size, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns
    return keyed("look", " ".join(map(str, parts)))


def _digest(blocks: Iterable[bytes]) -> str:
    seal = sha256()
    for block in blocks:
        seal.update(block)
    return seal.hexdigest()
