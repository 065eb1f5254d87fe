"""The data of an account's people, known by path, by content and by file.

Registering the same table under another name would create a second budget for the same people. So data that one account
knows are refused by every other, and no such file may be declared public. The reader of data identifies them: the
ledger opens no data. Whatever identifies rows is stored as a keyed hash.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Protocol, runtime_checkable

from sfumato.errors import InvalidParameter
from sfumato.ledger import entries, local_files
from sfumato.ledger.sealed_rows import KeyedHash
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

_EMPTY_CONTENT_HASH = sha256().hexdigest()

MEMORY = "memory://"
_REMOTE_ADDRESS = re.compile(r"(memory|postgres|postgresql|spark|s3|https?|gs|az)://")
"""Addresses of data that are not local files; anything else is a path."""


@runtime_checkable
class DescribedData(Protocol):
    """Data as their reader describes them, in plain texts that are stored as keyed hashes."""

    @property
    def address(self) -> str:
        """The real path of a file, or another address."""
        ...

    @property
    def file_size(self) -> str:
        """The size of a file in bytes."""
        ...

    @property
    def file_identity(self) -> str:
        """What all names of one file share: its device and inode."""
        ...

    @property
    def change_token(self) -> str:
        """A text that changes whenever the content does; empty where none is known."""
        ...

    @property
    def table(self) -> str:
        """The one table of a file that is read; empty where all of the file may be."""
        ...

    @property
    def fingerprint(self) -> Callable[[], str]:
        """A function that hashes the content, which may read all of it."""
        ...


SourceDescription = DescribedData | str | os.PathLike[str]
"""Data as their reader described them, or an address, for which the owner provides a fingerprint."""


@codec.serialisable("source")
@dataclass(frozen=True)
class JoinedSource:
    """Data at one moment: their location in plain, their identity in keyed hashes, each empty where unknown."""

    path: str
    """The real path of a file, or another address. For data in memory, which are known by content alone, only that they
    were in memory.
    """
    fingerprint: str = ""
    """Hash of the content."""
    size: str = ""
    file: str = ""
    """Hash of the file's device and inode, which all its names share."""
    look: str = ""
    """Hash of size, device, inode, modification and change time, once these show every change."""
    part: str = ""
    """Hash of the one table of a file that is read, or of the name of a table in memory; empty where all of the file
    may be read.
    """

    def __post_init__(self) -> None:
        entries.checked_text(self.path, "source")
        for what in ("fingerprint", "size", "file", "look", "part"):
            if getattr(self, what) != "":
                entries.checked_name(getattr(self, what), what)


Joined = Sequence[tuple[str, JoinedSource]]
"""Accounts and the sources that were joined to them, oldest first."""


def joined_sources(transaction: Transaction) -> Joined:
    return [(row.account, codec.loads(row.detail)) for row in transaction.page({"kind": "source"})]


def sources_of_account(transaction: Transaction, account: str) -> list[JoinedSource]:
    return [source for owner, source in joined_sources(transaction) if owner == account]


def has_content_changed(source: JoinedSource, joined_before: Sequence[JoinedSource]) -> bool:
    """Return whether this differs from what was last joined under its path and table; data in memory have no path."""
    if source.path == MEMORY:
        return source not in joined_before
    return source != _last_at_path(source.path, [earlier for earlier in joined_before if earlier.part == source.part])


def count_content_changes(joined_before: Sequence[JoinedSource]) -> int:
    """Count the changes of content, whether or not an old content came back. Tables in memory are counted by name too:
    whether two of them are equal is private.
    """
    last: dict[str, str] = {}
    count = 0
    for source in joined_before:
        address = f"{MEMORY}{source.fingerprint} {source.part}" if source.path == MEMORY else source.path
        count += last.get(address) != source.fingerprint
        last[address] = source.fingerprint
    return count


def other_owning_account(all_joined: Joined, account: str, source: JoinedSource, keyed: KeyedHash) -> str | None:
    """Return the other account that knows this path, this content or this file."""
    return next(
        (owner for owner, other in all_joined if owner != account and _is_same_data(source, other, keyed)), None
    )


def protecting_account(
    all_joined: Joined, source: SourceDescription, fingerprint: str | None, keyed: KeyedHash
) -> str | None:
    """Return the account that knows these data. Their content is hashed only if data of their size were joined.

    A database may hold a private table and a public one: within one file, only the same table is the same data, unless
    either side may read all of the file, as a view may. Tables in memory are known by content alone, whatever their
    names.
    """
    described = _describe_without_reading(source, fingerprint, keyed)
    candidates = [(owner, other) for owner, other in all_joined if not _are_different_tables(described, other)]
    if described.size and not described.fingerprint and any(other.size == described.size for _, other in candidates):
        described = describe_source(source, None, (), keyed)
    return other_owning_account(candidates, "", described, keyed)


def _are_different_tables(source: JoinedSource, other: JoinedSource) -> bool:
    """Return whether both are single tables, and different ones, of database files."""
    return source.path != MEMORY != other.path and bool(source.part) and other.part not in ("", source.part)


def _is_same_data(source: JoinedSource, other: JoinedSource, keyed: KeyedHash) -> bool:
    """Return whether two sources are the same data. Empty files are about nobody and all alike. A system reuses the
    inode of a removed file, so a file is the same only if the path that was joined is gone or still names it.
    """
    same_path = source.path == other.path != MEMORY
    same_content = source.fingerprint == other.fingerprint not in ("", keyed("content", _EMPTY_CONTENT_HASH))
    same_file = bool(source.file) and source.file == other.file and _file_hash(other.path, keyed) in ("", other.file)
    return same_path or same_content or same_file


def describe_source(
    source: SourceDescription, fingerprint: str | None, before: Sequence[JoinedSource], keyed: KeyedHash
) -> JoinedSource:
    """Describe the source as it is now; its content is hashed unless the change token is that of the last
    description.
    """
    described = _describe_without_reading(source, fingerprint, keyed)
    if described.fingerprint or _REMOTE_ADDRESS.match(described.path):
        return described
    if not isinstance(source, DescribedData):
        rule = "a description of a file, or an address together with a fingerprint"
        fix = "pass identify_file(path) from sfumato.engine.sources.inspected_tables"
        raise InvalidParameter("source", described.path, rule, fix=fix)
    change_token, last = (
        keyed("look", source.change_token) if source.change_token else "",
        _last_at_path(described.path, before),
    )
    if change_token and last is not None and last.look == change_token:
        return replace(last, part=described.part)
    return replace(described, fingerprint=keyed("content", source.fingerprint()), look=change_token)


def _describe_without_reading(source: SourceDescription, fingerprint: str | None, keyed: KeyedHash) -> JoinedSource:
    """Describe the source as far as possible without reading the content of a file."""
    part = keyed("part", source.table) if isinstance(source, DescribedData) and source.table else ""
    if isinstance(source, DescribedData) and not _REMOTE_ADDRESS.match(source.address):
        return JoinedSource(
            source.address, "", keyed("size", source.file_size), keyed("file", source.file_identity), part=part
        )
    if isinstance(source, DescribedData):
        fingerprint, source = source.fingerprint(), source.address
    address = local_files.checked_path(source, "source").removeprefix("file://")
    content = "" if fingerprint is None else keyed("content", entries.checked_name(fingerprint, "fingerprint"))
    if address.startswith(MEMORY):
        return JoinedSource(MEMORY, content, part=part)
    if _REMOTE_ADDRESS.match(address):
        return JoinedSource(address, content)
    path = entries.checked_text(os.path.realpath(address), "source")
    try:
        size = keyed("size", str(os.stat(path).st_size))
    except OSError:
        size = ""
    return JoinedSource(path, content, size, _file_hash(path, keyed))


def _last_at_path(path: str, before: Sequence[JoinedSource]) -> JoinedSource | None:
    """Return what was last joined under this path."""
    return next((source for source in reversed(before) if source.path == path), None)


def _file_hash(path: str, keyed: KeyedHash) -> str:
    """Hash the device and inode that a path names now; empty if it names nothing."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ""
    return keyed("file", f"{status.st_dev} {status.st_ino}")
