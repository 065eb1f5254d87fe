"""A release under way has a row in the people file until it is answered.

Processes see each other's releases there: one user has so many at once, whichever process runs them, and a request that
runs elsewhere is waited for. What was answered is kept there, too, as it was asked for, so that it can be shown again.

Free work is counted by what it takes to answer: it must not take a server's time from everybody else.

That is decided by what was sent, the policy and the price alone, never by rows, and it is known before the work is
done. A workload counts by its questions, and everything by the bytes of what was sent. What a proposal is made of
counts once it is made: the groups of a question, the sets of columns of marginals, the pairs of periods of running
totals. A rehearsal takes longest. How long
is forecast before any row is invented; it counts as the questions that could be asked meanwhile, and one that would
take too long is refused. A model that is fitted in rounds counts as a question for each of them, and a price that is
found for a width, which is tried at many prices, as one for each column.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sfumato.curator.proposals.degrees import DegreeHistogram
from sfumato.curator.proposals.marginals import MarginalsProposal
from sfumato.curator.proposals.mwem import MwemProposal
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.running_counts import RunningTotals
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.curator.proposals.workloads import Workload
from sfumato.errors import InvalidParameter, RequestDiffers, Unsupported
from sfumato.ledger import local_files
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
class ReleaseKey:
    """A request is what names a release: the account, who asks, and the id that they gave it."""

    account: str
    user: str
    id: str


@dataclass(frozen=True)
class StoredRelease:
    """This is what is kept of a release that was answered, so that it can be shown again."""

    line: int
    kind: str
    spec: str
    price: str
    answer: str = ""
    """The answer itself as JSON text, which no later policy changes; empty until it is there."""

    @classmethod
    def asked(cls, kind: str, spec: Mapping[str, Any], price: Mapping[str, Any]) -> StoredRelease:
        """Write what a caller asks for, which no line holds yet."""
        return cls(0, kind, written(spec), written(price))

    def require_same(self, asked: StoredRelease) -> None:
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

    def begin(self, request: ReleaseKey, landed: Iterable[ReleaseKey] = ()) -> bool:
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
                (*named, Phase.QUEUED.value, local_files.this_process()),
            )
        return True

    def charged(self, request: ReleaseKey) -> None:
        """Say that a release has been charged."""
        with self._database.writing() as rows:
            rows.execute(
                "UPDATE running SET phase = ? WHERE account = ? AND user = ? AND request = ?",
                (Phase.CHARGED.value, request.account, request.user, request.id),
            )

    def end(self, request: ReleaseKey, kept: StoredRelease | None, late: int) -> None:
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

    def keep(self, request: ReleaseKey, kept: StoredRelease) -> None:
        """Keep what shows an answer again that was stored before, and is free. Under other names of its columns it is
        another text: once a user has enough of those of one line, how it was asked for is kept alone.
        """
        with self._database.writing() as rows:
            _keep(rows, request, kept if _has_room(rows, request, kept) else replace(kept, answer=""))

    def phase(self, request: ReleaseKey) -> Phase | None:
        """Say how far a release is, in whatever process; None where it is not under way, or its process has ended."""
        with self._database.reading() as rows:
            found = rows.execute(
                "SELECT phase, process FROM running WHERE account = ? AND user = ? AND request = ?",
                (request.account, request.user, request.id),
            ).fetchone()
        return None if found is None or local_files.alive(found[1]) is False else Phase(found[0])

    def kept(self, request: ReleaseKey) -> StoredRelease | None:
        """Find what a request was answered with."""
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT {_KEPT} WHERE account = ? AND user = ? AND request = ?",
                (request.account, request.user, request.id),
            ).fetchone()
        return None if found is None else StoredRelease(*found)

    def kept_line(self, account: str, line: int, user: str | None) -> tuple[ReleaseKey, StoredRelease] | None:
        """Find what shows the answer of a line: for one user, or for whoever may see all."""
        mine, given = ("", ()) if user is None else (" AND user = ?", (user,))
        with self._database.reading() as rows:
            found = rows.execute(
                f"SELECT user, request, {_KEPT} WHERE account = ? AND line = ?{mine} ORDER BY answers.rowid LIMIT 1",
                (account, line, *given),
            ).fetchone()
        return None if found is None else (ReleaseKey(account, found[0], found[1]), StoredRelease(*found[2:]))

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
        if local_files.alive(process) is False:
            rows.execute("DELETE FROM running WHERE rowid = ?", (number,))


def _forget_the_landed(rows: sqlite3.Connection, landed: Iterable[ReleaseKey]) -> None:
    """Remove what flights of this process left that have landed."""
    rows.executemany(
        "DELETE FROM running WHERE account = ? AND user = ? AND request = ? AND process = ?",
        [(each.account, each.user, each.id, local_files.this_process()) for each in landed],
    )


def _count(rows: sqlite3.Connection, account: str, late: int) -> None:
    rows.execute(
        "INSERT INTO overruns VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
        (account, late),
    )


def _has_room(rows: sqlite3.Connection, request: ReleaseKey, kept: StoredRelease) -> bool:
    """Tell whether a text is there already, or the user has asked for the line a few times only."""
    if rows.execute("SELECT 1 FROM texts WHERE hash = ?", (_hash(kept.answer),)).fetchone():
        return True
    mine = rows.execute(
        "SELECT 1 FROM answers WHERE account = ? AND line = ? AND user = ? LIMIT ?",
        (request.account, kept.line, request.user, MOST_TEXTS),
    )
    return len(mine.fetchall()) < MOST_TEXTS


def _keep(rows: sqlite3.Connection, request: ReleaseKey, kept: StoredRelease) -> None:
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


LONGEST = 10.0
"""The seconds that a rehearsal may be expected to take here."""
BYTES, QUESTIONS, SETS, GROUPS, LINES = 512, 4, 25, 2000, 200
"""So many of these take about as long as one more question; of lines, those of a ledger that are read."""
_REHEARSAL = 5
_GROUP_SECONDS, _CELL_SECONDS = 1e-4, 1.5e-5
"""What a rehearsal takes for each group of a question, and for each cell of marginals, at most (measured)."""
_PERIOD_PAIR_SECONDS = 3e-6
"""What it takes to choose how running totals are measured, for each pair of periods (measured: 13 s for 2,000)."""


def for_what_was_sent(act: str, spec: Mapping[str, Any]) -> int:
    """Say as how many free questions one counts, by its text alone: before anything is made of it."""
    first = _REHEARSAL if act == "rehearse" else 1
    return first + max(0, len(spec.get("questions", ())) - 1) // QUESTIONS + len(written(spec)) // BYTES


def for_what_is_proposed(proposal: Any, act: str, price: Mapping[str, Any], per_second: float) -> int:
    """Say as how many free questions more one counts, by what is proposed, before it is answered."""
    if act in ("propose", "columns"):
        return 0
    more = sum(len(each.groups) for each in _questions(proposal)) // GROUPS
    if isinstance(proposal, RunningTotals):
        more += int(_PERIOD_PAIR_SECONDS * len(proposal.periods) ** 2 * per_second)
    if isinstance(proposal, MarginalsProposal):
        more += len(proposal.workload.sets) // SETS
    if price.get("within") is not None:
        more += len(proposal.columns) - 1
    return more + _rehearsed(proposal, price, per_second) if act == "rehearse" else more


def _questions(proposal: Any) -> Iterator[Question]:
    """List the questions whose groups are known."""
    if isinstance(proposal, Question):
        yield proposal
    elif isinstance(proposal, DegreeHistogram | RunningTotals):
        yield proposal.question
    elif isinstance(proposal, Workload):
        yield from proposal.questions.values()


def _rehearsed(proposal: Any, price: Mapping[str, Any], per_second: float) -> int:
    """Count the questions that could be asked while a rehearsal runs; one that takes too long is refused."""
    if isinstance(proposal, MwemProposal):
        return proposal.rounds
    seconds = _seconds(proposal, price)
    if seconds > LONGEST:
        raise Unsupported(
            "long-rehearsal",
            f"a rehearsal takes at most {LONGEST:g} s at a server, and this one is expected to take {seconds:.3g} s",
            fix="rehearse fewer groups, rows (rows=1000) or columns, or smaller sets of them; or, as the owner, "
            "without the server",
        )
    return int(seconds * per_second)


def _seconds(proposal: Any, price: Mapping[str, Any]) -> float:
    """Say how long a rehearsal takes, beyond what every one does."""
    if isinstance(proposal, SynthesisProposal):
        return proposal.forecast(**price).seconds
    if isinstance(proposal, MarginalsProposal):
        sizes = [each.size for each in proposal.attributes]
        return _CELL_SECONDS * sum(math.prod(sizes[place] for place in each) for each in proposal.workload.sets)
    return _GROUP_SECONDS * sum(len(each.groups) for each in _questions(proposal))
