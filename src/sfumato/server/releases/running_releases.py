"""A release under way has a row in the people file until it is answered.

Processes see each other's releases there: one user has so many at once, whichever process runs them, and a request that
runs elsewhere is waited for. What was answered is kept there, too, as it was asked for, so that it can be shown again.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sfumato.errors import InvalidParameter, RequestDiffers
from sfumato.ledger import processes
from sfumato.server.people.database import PeopleDatabase

MOST_TEXTS = 16
"""Free texts of one line that are kept for a user. How each request was asked is kept beside, in a row of its own."""
_KEPT = "line, kind, spec, price, coalesce(text, '') FROM answers LEFT JOIN texts ON hash = answer"


class Phase(StrEnum):
    """A phase is what is told of a release while it is waited for; none of them is told by rows."""

    QUEUED = "queued"
    CHARGED = "charged"
    DONE = "done"


@dataclass(frozen=True)
class Request:
    """A request is what names a release: the account, who asks, and the id that they gave it."""

    account: str
    user: str
    id: str


@dataclass(frozen=True)
class Kept:
    """This is what is kept of a release that was answered, so that it can be shown again."""

    line: int
    kind: str
    spec: str
    price: str
    answer: str = ""
    """The answer itself as JSON text, which no later policy changes; empty until it is there."""

    @classmethod
    def asked(cls, kind: str, spec: Mapping[str, Any], price: Mapping[str, Any]) -> Kept:
        """Write what a caller asks for, which no line holds yet."""
        return cls(0, kind, written(spec), written(price))

    def require_same(self, asked: Kept) -> None:
        """Refuse what is asked under the id of this one and is something else."""
        if (self.kind, self.spec, self.price) != (asked.kind, asked.spec, asked.price):
            raise RequestDiffers(
                "a request id names one release for ever; this one was used for another",
                place="request_id",
                fix="give each release its own id",
            )


def written(given: Mapping[str, Any]) -> str:
    """Write what a caller sent in one way, so that the same request is known again."""
    try:
        return json.dumps(dict(given), sort_keys=True)
    except (TypeError, ValueError):
        raise InvalidParameter("spec", type(given).__name__, "what JSON can hold") from None


class RunningReleases:
    """These are the releases under way in all processes, and what is kept of those that were answered."""

    def __init__(self, database: PeopleDatabase, at_once: int) -> None:
        self._database = database
        self._at_once = at_once

    def begin(self, request: Request, landed: Iterable[Request] = ()) -> bool:
        """Begin a release, unless its user has enough of them, or the same request runs already.

        Rows of requests that have landed in this process, and could not be ended then, hold nobody up.
        """
        with self._database.writing() as rows:
            _forget_the_dead(rows)
            _forget_the_landed(rows, landed)
            (mine,) = rows.execute("SELECT count(*) FROM running WHERE user = ?", (request.user,)).fetchone()
            named = (request.account, request.user, request.id)
            same = rows.execute(
                "SELECT 1 FROM running WHERE account = ? AND user = ? AND request = ?", named
            ).fetchone()
            if mine >= self._at_once or same:
                return False
            rows.execute(
                "INSERT INTO running VALUES (?, ?, ?, ?, ?)",
                (*named, Phase.QUEUED.value, processes.this_process()),
            )
        return True

    def charged(self, request: Request) -> None:
        """Say that a release has been charged."""
        with self._database.writing() as rows:
            rows.execute(
                "UPDATE running SET phase = ? WHERE account = ? AND user = ? AND request = ?",
                (Phase.CHARGED.value, request.account, request.user, request.id),
            )

    def end(self, request: Request, kept: Kept | None, late: int) -> None:
        """End a release, keep what shows its answer again, and count how often its reading was late."""
        with self._database.writing() as rows:
            named = (request.account, request.user, request.id)
            rows.execute("DELETE FROM running WHERE account = ? AND user = ? AND request = ?", named)
            if kept is not None:
                _keep(rows, request, kept)
            if late:
                _count(rows, request.account, late)

    def count_overrun(self, account: str) -> None:
        """Count that a policy took longer to open than the clock allowed."""
        with self._database.writing() as rows:
            _count(rows, account, 1)

    def keep(self, request: Request, kept: Kept) -> None:
        """Keep what shows an answer again that was stored before, and is free. Under other names of its columns it is
        another text: once a user has enough of those of one line, how it was asked for is kept alone.
        """
        with self._database.writing() as rows:
            _keep(rows, request, kept if _has_room(rows, request, kept) else replace(kept, answer=""))

    def phase(self, request: Request) -> Phase | None:
        """Say how far a release is, in whatever process; None where it is not under way, or its process has ended."""
        with self._database.reading() as rows:
            found = rows.execute(
                "SELECT phase, process FROM running WHERE account = ? AND user = ? AND request = ?",
                (request.account, request.user, request.id),
            ).fetchone()
        return None if found is None or processes.alive(found[1]) is False else Phase(found[0])

    def kept(self, request: Request) -> Kept | None:
        """Find what a request was answered with."""
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT {_KEPT} WHERE account = ? AND user = ? AND request = ?",
                (request.account, request.user, request.id),
            ).fetchone()
        return None if found is None else Kept(*found)

    def kept_line(self, account: str, line: int, user: str | None) -> tuple[Request, Kept] | None:
        """Find what shows the answer of a line: for one user, or for whoever may see all."""
        mine, given = ("", ()) if user is None else (" AND user = ?", (user,))
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT user, request, {_KEPT} WHERE account = ? AND line = ?{mine} ORDER BY answers.rowid LIMIT 1",
                (account, line, *given),
            ).fetchone()
        return None if found is None else (Request(account, found[0], found[1]), Kept(*found[2:]))

    def kept_lines(self, account: str, numbers: Iterable[int], user: str | None) -> frozenset[int]:
        """Find the lines among these whose answers can be shown again: to one user, or to whoever may see all."""
        mine, given = ("", ()) if user is None else (" AND user = ?", (user,))
        lines = tuple(numbers)
        marks = ", ".join("?" * len(lines))
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT DISTINCT line FROM answers WHERE account = ? AND line IN ({marks}){mine}",
                (account, *lines, *given),
            )
            return frozenset(line for (line,) in found)

    def users(self, account: str, requests: Iterable[str], besides: Iterable[str]) -> dict[str, str]:
        """Find who sent these requests first, beside users of whom the ledger's own lines say so."""
        ids, others = tuple(requests), frozenset(besides)
        marks = ", ".join("?" * len(ids))
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT request, user FROM answers WHERE account = ? AND request IN ({marks}) ORDER BY rowid DESC",
                (account, *ids),
            ).fetchall()
        return {request: user for request, user in found if user not in others}

    def overruns(self, account: str) -> int:
        """Count the releases and openings that took longer to read than the clock allowed: for the owner alone."""
        with self._database.reading() as rows:
            found = rows.execute("SELECT number FROM overruns WHERE account = ?", (account,)).fetchone()
        return 0 if found is None else int(found[0])


def _forget_the_dead(rows: sqlite3.Connection) -> None:
    """Remove what processes left that have ended."""
    for number, process in rows.execute("SELECT rowid, process FROM running").fetchall():
        if processes.alive(process) is False:
            rows.execute("DELETE FROM running WHERE rowid = ?", (number,))


def _forget_the_landed(rows: sqlite3.Connection, landed: Iterable[Request]) -> None:
    """Remove what flights of this process left that have landed."""
    rows.executemany(
        "DELETE FROM running WHERE account = ? AND user = ? AND request = ? AND process = ?",
        [(each.account, each.user, each.id, processes.this_process()) for each in landed],
    )


def _count(rows: sqlite3.Connection, account: str, late: int) -> None:
    rows.execute(
        "INSERT INTO overruns VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
        (account, late),
    )


def _has_room(rows: sqlite3.Connection, request: Request, kept: Kept) -> bool:
    """Tell whether a text is there already, or the user has asked for the line a few times only."""
    if rows.execute("SELECT 1 FROM texts WHERE hash = ?", (_hash(kept.answer),)).fetchone():
        return True
    mine = rows.execute(
        "SELECT 1 FROM answers WHERE account = ? AND line = ? AND user = ? LIMIT ?",
        (request.account, kept.line, request.user, MOST_TEXTS),
    )
    return len(mine.fetchall()) < MOST_TEXTS


def _keep(rows: sqlite3.Connection, request: Request, kept: Kept) -> None:
    """Keep what a request was answered with. A text is written once: asked again under new ids, it takes no room."""
    text = _hash(kept.answer)
    added = rows.execute(
        "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (request.user, request.account, request.id, kept.line, kept.kind, kept.spec, kept.price, text),
    )
    if added.rowcount and text:
        rows.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (text, kept.answer))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""
