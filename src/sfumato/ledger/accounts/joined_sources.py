"""An account knows which data its people are in, by path, by content and by file.

Somebody who registers the same table under another name would get a second budget for the same people. So what one
account knows is refused by every other, and no such file may be declared public. Whoever reads data identifies them:
the ledger opens no data. Whatever identifies rows is kept as a keyed hash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol, runtime_checkable

from sfumato.errors import InvalidParameter
from sfumato.ledger import entries, local_files
from sfumato.ledger.sealed_rows import KeyedHash
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import codec

_NO_CONTENT = sha256().hexdigest()

MEMORY = "memory://"
_ELSEWHERE = re.compile(r"(memory|postgres|postgresql|spark|s3|https?|gs|az)://")
"""Addresses of data that are no file here; anything else is a path."""


@runtime_checkable
class DescribedData(Protocol):
    """Data are described by whoever reads them, in plain texts that are kept as keyed hashes."""

    @property
    def address(self) -> str:
        """Give the real path of a file, or any other address."""
        ...

    @property
    def size(self) -> str:
        """Give the number of bytes of a file."""
        ...

    @property
    def file(self) -> str:
        """Give what all names of one file share: its device and inode."""
        ...

    @property
    def look(self) -> str:
        """Give a text that changes whenever the content does; empty while nothing of the kind is known."""
        ...

    @property
    def part(self) -> str:
        """Name the one table of a file that is read; empty where all of the file may be."""
        ...

    @property
    def fingerprint(self) -> Callable[[], str]:
        """Find a hash of the content, which may mean to read all of it."""
        ...


Given = DescribedData | str | os.PathLike[str]
"""Data that their reader identified, or an address, beside which the owner gives a fingerprint of their own making."""


@codec.value("source")
@dataclass(frozen=True)
class JoinedSource:
    """A source is data at one moment: where they were in plain, what they were in keyed hashes, each empty where it is
    unknown.
    """

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
    part: str = ""
    """Of the one table of a file that is read, or of the name of a table in memory; empty where all of the file may
    be.
    """

    def __post_init__(self) -> None:
        entries.prose(self.path, "source")
        for what in ("fingerprint", "size", "file", "look", "part"):
            if getattr(self, what) != "":
                entries.name(getattr(self, what), what)


Joined = Sequence[tuple[str, JoinedSource]]
"""Accounts and the sources that were joined to them, oldest first."""


def joined(transaction: Transaction) -> Joined:
    return [(row.account, codec.loads(row.detail)) for row in transaction.page({"kind": "source"})]


def known(transaction: Transaction, account: str) -> list[JoinedSource]:
    return [source for owner, source in joined(transaction) if owner == account]


def changed(source: JoinedSource, before: Sequence[JoinedSource]) -> bool:
    """Tell whether this differs from what was joined last under its path, of its table; data in memory have none."""
    if source.path == MEMORY:
        return source not in before
    return source != _last(source.path, [each for each in before if each.part == source.part])


def version(before: Sequence[JoinedSource]) -> int:
    """Count how many contents were joined one after another: changes are counted, whether or not an old content came
    back. Tables in memory are counted by name too: whether two of them are equal is private.
    """
    last: dict[str, str] = {}
    count = 0
    for source in before:
        place = f"{MEMORY}{source.fingerprint} {source.part}" if source.path == MEMORY else source.path
        count += last.get(place) != source.fingerprint
        last[place] = source.fingerprint
    return count


def taken(all_joined: Joined, account: str, source: JoinedSource, keyed: KeyedHash) -> str | None:
    """Find the other account that knows this path, this content or this file."""
    return next((owner for owner, other in all_joined if owner != account and _same(source, other, keyed)), None)


def protected(all_joined: Joined, source: Given, fingerprint: str | None, keyed: KeyedHash) -> str | None:
    """Find the account that knows these data. Their content is asked for only if data of their size were joined.

    A database may hold a private table and a public one: of one file, only the same table is the same data. Where
    either side may be read from all of the file, as a view may, the file is. Tables in memory are known by content
    alone, whatever they are called.
    """
    found = _glance(source, fingerprint, keyed)
    apart = [(owner, other) for owner, other in all_joined if not _tables_of_one_file(found, other)]
    if found.size and not found.fingerprint and any(other.size == found.size for _, other in apart):
        found = look(source, None, (), keyed)
    return taken(apart, "", found, keyed)


def _tables_of_one_file(source: JoinedSource, other: JoinedSource) -> bool:
    """Tell whether both are single tables, and different ones, of database files."""
    return source.path != MEMORY != other.path and bool(source.part) and other.part not in ("", source.part)


def _same(source: JoinedSource, other: JoinedSource, keyed: KeyedHash) -> bool:
    """Empty files are about nobody, and all alike. A system gives the inode of a removed file to another, so a file is
    the same only if the path that was joined is gone or still names it.
    """
    place = source.path == other.path != MEMORY
    content = source.fingerprint == other.fingerprint not in ("", keyed("content", _NO_CONTENT))
    one_file = bool(source.file) and source.file == other.file and _file_at(other.path, keyed) in ("", other.file)
    return place or content or one_file


def look(source: Given, fingerprint: str | None, before: Sequence[JoinedSource], keyed: KeyedHash) -> JoinedSource:
    """Look at the source as it is now: content is asked for, unless the data look as they did when it was last."""
    found = _glance(source, fingerprint, keyed)
    if found.fingerprint or _ELSEWHERE.match(found.path):
        return found
    if not isinstance(source, DescribedData):
        rule = "a file as its reader identifies it, or an address with a fingerprint"
        raise InvalidParameter(
            "source", found.path, rule, fix="give identified(path) of sfumato.engine.sources.inspected_tables"
        )
    seen, last = keyed("look", source.look) if source.look else "", _last(found.path, before)
    if seen and last is not None and last.look == seen:
        return replace(last, part=found.part)
    return replace(found, fingerprint=keyed("content", source.fingerprint()), look=seen)


def _glance(source: Given, fingerprint: str | None, keyed: KeyedHash) -> JoinedSource:
    """Describe the source as far as it is known without the content of a file."""
    part = keyed("part", source.part) if isinstance(source, DescribedData) and source.part else ""
    if isinstance(source, DescribedData) and not _ELSEWHERE.match(source.address):
        return JoinedSource(source.address, "", keyed("size", source.size), keyed("file", source.file), part=part)
    if isinstance(source, DescribedData):
        fingerprint, source = source.fingerprint(), source.address
    address = local_files.address(source, "source").removeprefix("file://")
    content = "" if fingerprint is None else keyed("content", entries.name(fingerprint, "fingerprint"))
    if address.startswith(MEMORY):
        return JoinedSource(MEMORY, content, part=part)
    if _ELSEWHERE.match(address):
        return JoinedSource(address, content)
    path = entries.prose(os.path.realpath(address), "source")
    try:
        size = keyed("size", str(os.stat(path).st_size))
    except OSError:
        size = ""
    return JoinedSource(path, content, size, _file_at(path, keyed))


def _last(path: str, before: Sequence[JoinedSource]) -> JoinedSource | None:
    """Find what was joined last under this path."""
    return next((source for source in reversed(before) if source.path == path), None)


def _file_at(path: str, keyed: KeyedHash) -> str:
    """Look up what a path names now: at its entry, not into the file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ""
    return keyed("file", f"{found.st_dev} {found.st_ino}")
