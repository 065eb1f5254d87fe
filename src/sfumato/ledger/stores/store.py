"""A store is whatever keeps the lines: it appends in an exclusive durable transaction and selects by equality.

Everything the ledger knows about money is above it; everything about files, locks and drivers is below.

Large answers are kept as files beside the ledger, each named by its SHA-256.

A file is written and synced before the line that refers to it, so an answer that a line knows is on disk. A file never
changes: one whose content has another hash was changed by somebody else, and is as good as missing. Only the answer it
holds is lost then; what was spent is in the lines.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from sfumato.errors import LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.sealed_rows import Row


class Starting(NamedTuple):
    """This stands for all values of a column that begin with a text, which is not empty."""

    text: str

    @property
    def after(self) -> str:
        """Give the least text, in the order of letters, that is after all of them."""
        return self.text[:-1] + chr(ord(self.text[-1]) + 1)


Where = Mapping[str, str | int]
"""Columns and the values they must have."""


class PendingCharge(NamedTuple):
    """A charge is under way until it is answered. Others who ask the same wait for it instead of paying."""

    number: int
    """The line of the charge."""
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
    """These are the lines inside one transaction."""

    def select(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int
    ) -> Sequence[Row]:
        """Select lines whose columns equal these, by number (``newest``: from the last), strictly between after and
        before; a negative limit is none.
        """

    def starting(self, equal: Where, plan: Starting, *, after: int, limit: int) -> Sequence[Row]:
        """Select the first answers after a line whose plan starts so and whose other columns equal these, by number."""

    def append(self, row: Row) -> None: ...

    def under_way(self, equal: Where) -> Sequence[PendingCharge]:
        """List the charges under way whose columns equal these, by number."""

    def begin(self, charge: PendingCharge) -> None: ...

    def end(self, number: int) -> None:
        """The charge of this number is answered or stopped; nothing happens if it was not under way."""

    def now(self) -> int:
        """Tell the time where the lines are kept, in microseconds since 1970, UTC."""


class Bodies(Protocol):
    """These are the large answers of one ledger, each under its SHA-256."""

    def keep(self, body: str) -> str:
        """Write a body; the hash that names it. It is durable on return."""

    def read(self, digest: str) -> str | None:
        """Read the body of this hash; None where it is missing or was changed."""


class Store(Protocol):
    @property
    def name(self) -> str:
        """Give what people call it: a file's name, or a database."""

    @property
    def place(self) -> str:
        """Say where the lines are kept, in words for people."""

    @property
    def address(self) -> str:
        """Write how it is opened again: by its path, or by its address with the schema."""

    @property
    def identity(self) -> str:
        """Tell this ledger from every other one."""

    @property
    def is_backup(self) -> bool:
        """Tell whether it was made as a backup, which may lack what was charged since."""

    @property
    def bodies(self) -> Bodies:
        """Give where large answers are kept."""

    @property
    def anchor_places(self) -> tuple[Path, ...]:
        """List the files in which this user's anchors of it are kept."""

    @property
    def shared(self) -> bool:
        """Tell whether processes on other machines write to it, too."""

    @property
    def durability(self) -> str:
        """Say in words what a commit waits for."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """List by what charges could be forgotten or changed, which its owner should know."""

    def reading(self, numbers: Sequence[int] = ()) -> AbstractContextManager[StoreRows]:
        """Open one consistent view, in which lines of these ``numbers`` are looked at in any case."""

    def writing(self, numbers: Sequence[int] = (), *, moving: bool = False) -> AbstractContextManager[StoreRows]:
        """Nobody else writes meanwhile; what was appended is durable when the block has ended, or nothing is.

        Lines of these ``numbers`` are looked at in any case: a store that is far away fetches them at once. Whoever is
        ``moving`` the ledger may take long between two statements.
        """

    def settled(self, number: int, seal: str) -> bool:
        """Tell whether this line was written, once nobody can be writing it any more."""

    def now(self) -> int:
        """Tell the time where the lines are kept, in microseconds since 1970, UTC."""

    def key(self) -> bytes:
        """Read the random key in its header, made with it and never changed."""

    def misshapen(self) -> str | None:
        """Find what is wrong with its shape: tables, indexes, triggers. Quick."""

    def fault(self) -> str | None:
        """Find what is wrong with its content apart from the lines: indexes, structure. This reads all of it."""

    def backup(self, place: object) -> None:
        """Make a copy of this moment, with all large answers that its lines refer to."""

    def require_owner(self) -> None:
        """Refuse whoever may spend, and may not move the ledger."""

    def close(self) -> None: ...


LARGE = 1 << 16
"""Answers of more bytes than this are kept as files."""


class BodyFiles:
    """This is the folder of one ledger's large answers; it is made with the first of them."""

    def __init__(self, ledger: Path) -> None:
        self.folder = Path(f"{ledger}.answers")

    def keep(self, body: str) -> str:
        """Write a body and sync it; the hash that names it. It is durable on return."""
        content = body.encode()
        digest = sha256(content).hexdigest()
        try:
            self._write(digest, content)
        except OSError as error:
            raise LedgerUnavailable(
                f"a large answer could not be written beside the ledger ({os.strerror(error.errno or 0)})",
                place=str(self.folder),
                fix="make the folder writable for this user, and leave room on the disk",
            ) from error
        return digest

    def read(self, digest: str) -> str | None:
        """Read the body of this hash; None where its file is missing or was changed."""
        try:
            content = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return content.decode() if sha256(content).hexdigest() == digest else None

    def copy(self, target: BodyFiles) -> None:
        """Copy every file, as it is, for a backup: files are never removed, so all that its lines refer to are here."""
        if self.folder.is_dir():
            for path in sorted(self.folder.glob("[0-9a-f]" * 64)):
                target._write(path.name, path.read_bytes())

    def _write(self, digest: str, content: bytes) -> None:
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, exist_ok=True)
            local_files.sync_folder(self.folder)
        target = self.folder / digest
        partial = local_files.scratch(target)
        try:
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        local_files.sync_folder(target)
