"""The lines of a ledger are written to a new SQLite file: as they are, under the same key, all of them or none."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from sfumato.errors import LedgerInDoubt, LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.bodies import BodyFiles
from sfumato.ledger.stores.sqlite import APPLICATION, BACKUP, BEGIN_CHARGE, INSERT_LINE, MIGRATIONS, UNREAD
from sfumato.ledger.stores.store import UnderWay


class Content(NamedTuple):
    """This is all that a ledger holds, to be written elsewhere."""

    key: str
    rows: Callable[[], Iterable[Row]]
    under_way: Sequence[UnderWay]
    """The charges under way go along where the ledger moves: whoever asks again under their ids is not charged."""
    body: Callable[[str], str | None]
    """Finds a large answer by its hash."""


def write_copy(place: object, content: Content) -> None:
    """Write lines, and the large answers that they refer to, as a backup under a name that must be new."""
    with copied(place, content, mark=BACKUP):
        pass


@contextmanager
def copied(place: object, content: Content, *, begun: Path | None = None, mark: int = 0) -> Iterator[Path]:
    """Write lines to a file that gets its name, for good, when the block has ended; inside, it can be looked at. A file
    that was ``begun`` before is written already.
    """
    target = local_files.resolve(place)
    local_files.require_local(target)
    if target.exists():
        raise LedgerUnavailable(
            "a copy never overwrites a file", place=str(target), fix="give the name of a file that is not there"
        )
    partial = begun or local_files.scratch(target)
    try:
        if begun is None:
            _fill(partial, content, BodyFiles(target), mark)
            local_files.sync(partial)
            local_files.sync_folder(partial)
        yield partial
    except LedgerInDoubt:
        raise  # the old ledger may be sealed: what was begun is needed to finish
    except BaseException:
        if begun is None:
            partial.unlink(missing_ok=True)
        raise
    _name(partial, target)
    partial.unlink(missing_ok=True)
    local_files.sync_folder(target)


def _fill(path: Path, content: Content, bodies: BodyFiles, mark: int) -> None:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as copy:
            copy.execute("BEGIN IMMEDIATE")
            for migration in MIGRATIONS:
                for statement in migration:
                    copy.execute(statement)
            copy.execute("INSERT INTO header VALUES (?)", (content.key,))
            copy.executemany(INSERT_LINE, _with_bodies(content, bodies))
            copy.executemany(BEGIN_CHARGE, content.under_way)
            copy.execute(f"PRAGMA application_id = {APPLICATION}")
            copy.execute(f"PRAGMA user_version = {UNREAD + len(MIGRATIONS) + mark}")
            copy.execute("COMMIT")
    except (sqlite3.Error, OSError):
        raise LedgerUnavailable(
            "the copy could not be written", place=str(path.parent), fix="leave room on the disk, and let it be written"
        ) from None


def _with_bodies(content: Content, bodies: BodyFiles) -> Iterator[Row]:
    """Write every large answer before its line; one that is lost stays so."""
    for row in content.rows():
        body = content.body(row.file) if row.file else None
        if body is not None:
            bodies.keep(body)
        yield row


def lost_target(place: str) -> LedgerUnavailable:
    """Refuse to fill a ledger again from the one that was moved to it: what was charged since would be forgotten."""
    return LedgerUnavailable(
        "this ledger was moved before, and the one that it was moved to is lost, with all that was charged there",
        place=place,
        fix="bring that ledger back from a backup; or, as the owner, accept that its charges are forgotten: "
        "sfumato ledger copy --accept-loss",
    )


def _name(partial: Path, target: Path) -> None:
    try:
        os.link(partial, target)  # fails where another file has appeared meanwhile
    except OSError as error:
        raise LedgerUnavailable(
            f"the copy could not be given its name ({os.strerror(error.errno or 0)})",
            place=str(target),
            fix="give the name of a file that is not there",
        ) from None
