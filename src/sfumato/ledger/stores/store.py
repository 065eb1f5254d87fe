"""The protocol of a store: it appends in an exclusive durable transaction and selects by equality.

All arithmetic of budgets is above it; everything about files, locks and drivers is below.

Large answers are stored as files beside the ledger, each named by its SHA-256.

A file is written and synced before the line that refers to it, so an answer that a line refers to is on disk. A file
never changes: one whose content has another hash was changed by somebody else, and counts as missing. Only its answer
is lost then; what was spent is in the lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from sfumato.errors import LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.sealed_rows import Row

T = TypeVar("T")
LOCK_TIMEOUT = 30
"""How many seconds a ledger's lock is waited for, unless a caller says otherwise."""


class Prefix(NamedTuple):
    """All values of a column that start with a text, which is not empty."""

    text: str

    @property
    def after(self) -> str:
        """The least text, in code point order, that is after all of them."""
        return self.text[:-1] + chr(ord(self.text[-1]) + 1)


Where = Mapping[str, str | int]
"""Columns and the values they must have."""


class PendingCharge(NamedTuple):
    """A charge that is not answered yet. Equal queries wait for it instead of paying."""

    number: int
    """The number of the charge's line."""
    time: int
    account: str
    analyst: str
    request: str
    plan: str
    data: str
    accuracy: str
    """JSON: the half-widths that the answer will have."""
    payer: str
    """The process that charged and will answer."""


class StoreRows(Protocol):
    """The lines inside one transaction."""

    def select(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int
    ) -> Sequence[Row]:
        """Select lines whose columns equal these, by number (``newest``: from the last), strictly between ``after`` and
        ``before``; a negative limit means none.
        """

    def answers_with_plan_prefix(self, equal: Where, plan: Prefix, *, after: int, limit: int) -> Sequence[Row]:
        """Select the first answers after a line whose plan starts so and whose other columns equal these, by number."""

    def append(self, row: Row) -> None: ...

    def pending_charges(self, equal: Where) -> Sequence[PendingCharge]:
        """List the pending charges whose columns equal these, by number."""

    def add_pending_charge(self, charge: PendingCharge) -> None: ...

    def remove_pending_charge(self, number: int) -> None:
        """Remove the pending charge of this number, which is answered or stopped; do nothing if there is none."""

    def now(self) -> int:
        """Return the store's time, in microseconds since 1970, UTC."""


class Bodies(Protocol):
    """The large answers of one ledger, each under its SHA-256."""

    def write_body(self, body: str) -> str:
        """Write a body durably and return the hash that names it."""

    def read(self, digest: str) -> str | None:
        """Return the body of this hash; None if it is missing or was changed."""


class Store(Protocol):
    @property
    def name(self) -> str:
        """A short name for people: a file's name, or a database."""

    @property
    def place(self) -> str:
        """Where the lines are stored, in words for people."""

    @property
    def address(self) -> str:
        """How it is opened again: its path, or its address with the schema."""

    @property
    def identity(self) -> str:
        """A text that distinguishes this ledger from every other one."""

    @property
    def is_backup(self) -> bool:
        """Whether it was made as a backup, which may lack later charges."""

    @property
    def bodies(self) -> Bodies:
        """Where large answers are stored."""

    @property
    def anchor_paths(self) -> tuple[Path, ...]:
        """The files in which this user's anchors of it are stored."""

    @property
    def shared(self) -> bool:
        """Whether processes on other machines write to it too."""

    @property
    def durability(self) -> str:
        """What a commit waits for, in words."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """How charges could be lost or changed, which its owner should know."""

    def reading(self, numbers: Sequence[int] = ()) -> AbstractContextManager[StoreRows]:
        """Open one consistent view that includes the lines of these ``numbers``."""

    def writing(self, numbers: Sequence[int] = (), *, moving: bool = False) -> AbstractContextManager[StoreRows]:
        """Open an exclusive write transaction; what was appended is durable when the block ends, or nothing is.

        Lines of these ``numbers`` will be read in any case: a remote store fetches them at once. While ``moving`` the
        ledger, long pauses between two statements are allowed.
        """

    def retry(self, call: Callable[[], T]) -> T:
        """Call it; where lines are stored on another machine, repeat it while that is away, up to the timeout.

        Only what refused with ``LedgerUnavailable`` and certainly wrote nothing is repeated. How long it takes depends
        on the store alone.
        """

    def is_written(self, number: int, seal: str) -> bool:
        """Return whether this line was written, once nobody can be writing it any more."""

    def now(self) -> int:
        """Return the store's time, in microseconds since 1970, UTC."""

    def key(self) -> bytes:
        """Read the random key in its header, created with it and never changed."""

    def schema_fault(self) -> str | None:
        """Return what is wrong with its schema (tables, indexes, triggers), None if nothing is. Quick."""

    def storage_fault(self) -> str | None:
        """Return what is wrong with its content apart from the lines (indexes, pages), None if nothing is. Reads all of
        it.
        """

    def backup(self, path: object) -> None:
        """Copy it as of now, with all large answers that its lines refer to."""

    def require_owner(self) -> None:
        """Refuse a user who may spend but may not move the ledger."""

    def close(self) -> None: ...


LARGE_ANSWER_BYTES = 1 << 16
"""Answers of more bytes than this are stored as files."""


class BodyFiles:
    """The folder of one ledger's large answers, created with the first of them."""

    def __init__(self, ledger: Path) -> None:
        self.folder = Path(f"{ledger}.answers")

    def write_body(self, body: str) -> str:
        """Write and sync a body, and return the hash that names it."""
        content = body.encode()
        digest = sha256(content).hexdigest()
        try:
            self._write(digest, content)
        except OSError as error:
            is_no_folder = isinstance(error, (FileExistsError, NotADirectoryError))
            raise LedgerUnavailable(
                f"a large answer could not be written beside the ledger ({os.strerror(error.errno or 0)})",
                place=str(self.folder),
                fix="move the file of this name away: large answers need a folder here"
                if is_no_folder
                else "make the folder writable for this user, or free space on the disk",
            ) from error
        return digest

    def read(self, digest: str) -> str | None:
        """Return the body of this hash; None if its file is missing or was changed."""
        try:
            content = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return content.decode() if sha256(content).hexdigest() == digest else None

    def copy(self, target: BodyFiles) -> None:
        """Copy every file, for a backup: files are never removed, so all that its lines refer to are here."""
        if self.folder.is_dir():
            for path in sorted(self.folder.glob("[0-9a-f]" * 64)):
                target._write(path.name, path.read_bytes())

    def _write(self, digest: str, content: bytes) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, exist_ok=True)
            local_files.sync_parent_folder(self.folder)
        target = self.folder / digest
        partial = local_files.create_temporary(target)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        local_files.sync_parent_folder(target)
