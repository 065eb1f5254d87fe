"""Releases in progress, stored answers, and how much free work counts against the rate limit.

A release in progress has a row in the people file until it is answered. Processes see each other's releases there: one
user may have so many at once in all processes together, and a request that runs in another process is waited for.
Answers are stored there too, with the request, so that they can be shown again.

Free work counts by what it costs to answer, so that it cannot take the server from everybody else. The count depends on
the request, the policy and the price alone, never on rows, and is known before the work is done. A workload counts by
its questions, and everything by the bytes that were sent. Once the proposal is made, its size counts: the groups of a
question, the column sets of marginals, the pairs of periods of running totals. A preview takes longest. Its duration is
forecast before any row is invented; it counts as the questions that could be asked meanwhile, and one that would take
too long is refused. A model fitted in rounds counts one question per round, and a price found for a target width, which
tries many prices, one per column.

A cache of recent proposals, so that the same spec is parsed once; and decoding of stored answers.

A proposal holds no rows and no answer: it is what a curator makes of a spec and its policy. Every user has their own
entries, so nobody learns from the response time what somebody else has asked.

A stored answer is the JSON text that was sent, and is decoded from that alone: later changes of the policy or the data
do not change what was bought.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from sfumato.curator.listings import Listing
from sfumato.curator.proposals.combined_questions import CombinedQuestion
from sfumato.curator.proposals.degrees import DegreesProposal
from sfumato.curator.proposals.hypothesis_tests import TestProposal
from sfumato.curator.proposals.linked_tables import LinkedTablesProposal
from sfumato.curator.proposals.marginals import MarginalsProposal
from sfumato.curator.proposals.mwem import MwemProposal
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.running_counts import RunningTotalsProposal
from sfumato.curator.proposals.survival import SurvivalProposal
from sfumato.curator.proposals.synthesis import SynthesisProposal
from sfumato.curator.proposals.workloads import WorkloadProposal
from sfumato.errors import InvalidParameter, RequestDiffers, Unsupported
from sfumato.ledger import local_files
from sfumato.plan.values.expressions import noise_count
from sfumato.policy import Policy, Type
from sfumato.privacy import codec
from sfumato.publish.published_files import FittedModel
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.synthetic_tables import SyntheticTables
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.server.people.database import PeopleDatabase

_MAX_CACHED = 256


class ProposalKey(NamedTuple):
    """Cache key of a proposal: user, kind, spec, whether it may spend, and the last ledger line whose answers it
    finds.
    """

    user: str
    kind: str
    spec: str
    spends: bool
    until: int | None


@dataclass(frozen=True)
class ProposalFacts:
    """What is known of a proposal without a price: its text, columns and warnings."""

    text: str
    columns: Columns | dict[str, Columns]
    warnings: tuple[str, ...]
    free: bool

    @classmethod
    def from_proposal(cls, proposal: Any) -> ProposalFacts:
        warnings, free = getattr(proposal, "warnings", ()), getattr(proposal, "free", False)
        return cls(getattr(proposal, "text", ""), proposal.columns, tuple(warnings), free)


@dataclass(frozen=True)
class DescribedQuestion:
    """The columns of a question's answer, known before it is asked."""

    columns: Columns
    noisy_columns: tuple[str, ...]
    """The names of the columns of noisy numbers, which have an interval."""
    free: bool
    """Whether it needs no price: a listing of what the policy declares."""

    @classmethod
    def from_proposal(cls, proposal: Any) -> DescribedQuestion:
        if isinstance(proposal, Listing):
            return cls(tuple(AnswerColumn(name, Type.TEXT) for name in proposal.columns), (), True)
        numbers = [column.name for column in proposal.columns if column.type.numeric]
        noises = {output.name: noise_count(output.expression) for output in proposal.query.outputs}
        return cls(proposal.columns, tuple(name for name in numbers if noises[name]), False)


class ProposalCache:
    """A least-recently-used cache of the proposals of one opened curator."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: OrderedDict[ProposalKey, tuple[Policy, Any]] = OrderedDict()

    def get_or_make(self, key: ProposalKey, policy: Policy, make: Callable[[], Any]) -> Any:
        """Return the cached proposal of this key under this very policy object, or make it."""
        with self._lock:
            cached = self._cache.get(key)
            if cached is not None and cached[0] is policy:
                self._cache.move_to_end(key)
                return cached[1]
        proposal = make()
        with self._lock:
            self._cache[key] = policy, proposal
            self._cache.move_to_end(key)
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return proposal


_FILE_CLASSES: dict[str, type[FittedModel | Synthetic | SyntheticTables]] = {
    "fitted-model": FittedModel,
    "synthetic": Synthetic,
    "synthetic-tables": SyntheticTables,
}
"""By kind, the classes with a file format of their own."""


def decode_stored_answer(text: str) -> Any:
    """Decode a stored answer; its receipt says that it is free now."""
    file_class = _FILE_CLASSES.get(str(json.loads(text)["kind"]).partition("/")[0])
    answer: Any = codec.loads(text, longest=len(text)) if file_class is None else file_class.from_json(text)
    receipt = getattr(answer, "receipt", None)
    return answer if receipt is None else replace(answer, receipt=replace(receipt, free=True))


MAX_TEXTS_PER_LINE = 16
"""Answer texts of one line that are stored per user; each request's spec is stored in a row of its own."""
_STORED_COLUMNS = "line, kind, spec, price, coalesce(text, '') FROM answers LEFT JOIN texts ON hash = answer"


class Phase(StrEnum):
    """The phase of a release, as clients that poll see it; none of them depends on rows."""

    QUEUED = "queued"
    CHARGED = "charged"
    DONE = "done"


@dataclass(frozen=True)
class ReleaseProgress:
    """The phase of a release, and the ledger line of its answer once it is done: 0 if nothing was bought."""

    phase: Phase
    line: int | None = None


@dataclass(frozen=True)
class ReleaseKey:
    """The identity of a release: account, user, and the id that the user gave it."""

    account: str
    user: str
    id: str


@dataclass(frozen=True)
class StoredRelease:
    """A request and its answer, from which the answer can be shown again."""

    line: int
    kind: str
    spec: str
    price: str
    answer: str = ""
    """The answer as JSON text, independent of later policy changes; empty until answered."""

    @classmethod
    def requested(cls, kind: str, spec: Mapping[str, Any], price: Mapping[str, Any]) -> StoredRelease:
        """Build the record of a request that is not answered yet."""
        return cls(0, kind, canonical_json(spec), canonical_json(price))

    def require_same(self, requested: StoredRelease) -> None:
        """Raise ``RequestDiffers`` if a different request uses this one's id."""
        if (self.kind, self.spec, self.price) != (requested.kind, requested.spec, requested.price):
            raise RequestDiffers(
                "this request id was already used for a different release",
                place="request_id",
                fix="give each release its own id",
            )


def canonical_json(fields: Mapping[str, Any]) -> str:
    """Encode a spec or price canonically, so that equal requests have equal texts."""
    try:
        return json.dumps(dict(fields), sort_keys=True)
    except (TypeError, ValueError):
        fix = "use only strings, numbers, booleans, lists and mappings"
        raise InvalidParameter("spec", type(fields).__name__, "a value that JSON can hold", fix=fix) from None


class RunningReleases:
    """The releases in progress in all processes, and the stored answers."""

    def __init__(self, database: PeopleDatabase, max_running: int) -> None:
        self._database = database
        self._at_once = max_running

    def begin_if_user_has_slot(self, request: ReleaseKey, ended_requests: Iterable[ReleaseKey] = ()) -> bool:
        """Start a release; return False if its user has too many, or an equal request is running.

        ``ended_requests`` are requests that ended in this process while their rows could not be deleted; they are
        deleted first.
        """
        with self._database.write_transaction() as transaction:
            _delete_dead_processes(transaction)
            _delete_ended(transaction, ended_requests)
            (user_count,) = transaction.execute(
                "SELECT count(*) FROM running WHERE user = ?", (request.user,)
            ).fetchone()
            key_values = (request.account, request.user, request.id)
            is_running = transaction.execute(
                "SELECT 1 FROM running WHERE account = ? AND user = ? AND request = ?", key_values
            ).fetchone()
            if user_count >= self._at_once or is_running:
                return False
            transaction.execute(
                "INSERT INTO running VALUES (?, ?, ?, ?, ?)",
                (*key_values, Phase.QUEUED.value, local_files.current_process_name()),
            )
        return True

    def require_writable(self) -> None:
        """Write and delete a row; raise ``LedgerUnavailable`` if the file cannot be written."""
        with self._database.write_transaction() as transaction:
            transaction.execute(
                "INSERT INTO running VALUES ('', '', '', ?, ?)", (Phase.DONE, local_files.current_process_name())
            )
            transaction.execute("DELETE FROM running WHERE account = '' AND user = '' AND request = ''")

    def mark_charged(self, request: ReleaseKey) -> None:
        """Mark a release as charged."""
        with self._database.write_transaction() as transaction:
            transaction.execute(
                "UPDATE running SET phase = ? WHERE account = ? AND user = ? AND request = ?",
                (Phase.CHARGED.value, request.account, request.user, request.id),
            )

    def finish(self, key: ReleaseKey, answer: StoredRelease | None, overruns: int) -> None:
        """End a release, store its answer, and add to the count of overruns."""
        with self._database.write_transaction() as transaction:
            key_values = (key.account, key.user, key.id)
            transaction.execute("DELETE FROM running WHERE account = ? AND user = ? AND request = ?", key_values)
            if answer is not None:
                _store_release(transaction, key, answer)
            if overruns:
                _add_overruns(transaction, key.account, overruns)

    def count_overrun(self, account: str) -> None:
        """Count one opening of a policy that took longer than the clock allows."""
        with self._database.write_transaction() as transaction:
            _add_overruns(transaction, account, 1)

    def store_copy(self, request: ReleaseKey, stored: StoredRelease) -> None:
        """Store a free copy of an earlier answer. A copy with other column names is another text: beyond the first few
        per user and line, only the request is stored.
        """
        with self._database.write_transaction() as transaction:
            _store_release(
                transaction,
                request,
                stored if _has_room_for_copy(transaction, request, stored) else replace(stored, answer=""),
            )

    def phase(self, request: ReleaseKey) -> Phase | None:
        """Return the phase of a release in any process; None if it is not running, or its process has died."""
        with self._database.read_transaction() as transaction:
            row = transaction.execute(
                "SELECT phase, process FROM running WHERE account = ? AND user = ? AND request = ?",
                (request.account, request.user, request.id),
            ).fetchone()
        return None if row is None or local_files.is_process_alive(row[1]) is False else Phase(row[0])

    def stored_release(self, request: ReleaseKey) -> StoredRelease | None:
        """Find what a request was answered with."""
        with self._database.read_transaction() as transaction:
            row = transaction.execute(
                f"SELECT {_STORED_COLUMNS} WHERE account = ? AND user = ? AND request = ?",
                (request.account, request.user, request.id),
            ).fetchone()
        return None if row is None else StoredRelease(*row)

    def stored_on_line(self, account: str, line: int, user: str | None) -> tuple[ReleaseKey, StoredRelease] | None:
        """Return the stored answer of a ledger line: that of one user, or the first of any user if ``user`` is None."""
        user_filter, filter_values = ("", ()) if user is None else (" AND user = ?", (user,))
        with self._database.read_transaction() as transaction:
            row = transaction.execute(
                f"SELECT user, request, {_STORED_COLUMNS} WHERE account = ? AND line = ?{user_filter}"
                " ORDER BY answers.rowid LIMIT 1",
                (account, line, *filter_values),
            ).fetchone()
        return None if row is None else (ReleaseKey(account, row[0], row[1]), StoredRelease(*row[2:]))

    def lines_of_kinds(self, account: str, kinds: Iterable[str], user: str | None) -> tuple[int, ...]:
        """Return the ledger lines with answers of some kinds: to one user, or to anybody if ``user`` is None."""
        user_filter, filter_values = ("", ()) if user is None else (" AND user = ?", (user,))
        names = tuple(kinds)
        marks = ", ".join("?" * len(names))
        with self._database.read_transaction() as transaction:
            line_rows = transaction.execute(
                f"SELECT DISTINCT line FROM answers WHERE account = ? AND line > 0 AND kind IN ({marks}){user_filter}"
                " ORDER BY line",
                (account, *names, *filter_values),
            )
            return tuple(line for (line,) in line_rows)

    def lines_with_answers(self, account: str, numbers: Iterable[int], user: str | None) -> frozenset[int]:
        """Return those of the ledger lines whose answers can be shown again: to one user, or to anybody if ``user`` is
        None.
        """
        user_filter, filter_values = ("", ()) if user is None else (" AND user = ?", (user,))
        lines = tuple(numbers)
        marks = ", ".join("?" * len(lines))
        with self._database.read_transaction() as transaction:
            line_rows = transaction.execute(
                f"SELECT DISTINCT line FROM answers WHERE account = ? AND line IN ({marks}){user_filter}",
                (account, *lines, *filter_values),
            )
            return frozenset(line for (line,) in line_rows)

    def first_sender_by_request(self, account: str, requests: Iterable[str], besides: Iterable[str]) -> dict[str, str]:
        """Return who first sent each of these requests, leaving out users whose lines carry their names anyway."""
        ids, excluded_users = tuple(requests), frozenset(besides)
        marks = ", ".join("?" * len(ids))
        with self._database.read_transaction() as transaction:
            senders = transaction.execute(
                f"SELECT request, user FROM answers WHERE account = ? AND request IN ({marks}) ORDER BY rowid DESC",
                (account, *ids),
            ).fetchall()
        return {request: user for request, user in senders if user not in excluded_users}

    def overrun_count(self, account: str) -> int:
        """Count the releases and openings that took longer than the clock allows. For the owner alone."""
        with self._database.read_transaction() as transaction:
            row = transaction.execute("SELECT number FROM overruns WHERE account = ?", (account,)).fetchone()
        return 0 if row is None else int(row[0])


def _delete_dead_processes(transaction: sqlite3.Connection) -> None:
    """Delete the rows of processes that have ended."""
    for number, process in transaction.execute("SELECT rowid, process FROM running").fetchall():
        if local_files.is_process_alive(process) is False:
            transaction.execute("DELETE FROM running WHERE rowid = ?", (number,))


def _delete_ended(transaction: sqlite3.Connection, ended_requests: Iterable[ReleaseKey]) -> None:
    """Delete the rows of ended flights of this process."""
    transaction.executemany(
        "DELETE FROM running WHERE account = ? AND user = ? AND request = ? AND process = ?",
        [(ended.account, ended.user, ended.id, local_files.current_process_name()) for ended in ended_requests],
    )


def _add_overruns(transaction: sqlite3.Connection, account: str, late: int) -> None:
    transaction.execute(
        "INSERT INTO overruns VALUES (?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
        (account, late),
    )


def _has_room_for_copy(transaction: sqlite3.Connection, request: ReleaseKey, stored: StoredRelease) -> bool:
    """Return whether the text is stored already, or the user has only a few copies of the line."""
    if transaction.execute("SELECT 1 FROM texts WHERE hash = ?", (_hash_or_empty(stored.answer),)).fetchone():
        return True
    copies = transaction.execute(
        "SELECT 1 FROM answers WHERE account = ? AND line = ? AND user = ? LIMIT ?",
        (request.account, stored.line, request.user, MAX_TEXTS_PER_LINE),
    )
    return len(copies.fetchall()) < MAX_TEXTS_PER_LINE


def _store_release(transaction: sqlite3.Connection, request: ReleaseKey, stored: StoredRelease) -> None:
    """Store a request and its answer. Equal texts are stored once, so repeated requests take little space."""
    text_hash = _hash_or_empty(stored.answer)
    inserted = transaction.execute(
        "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (request.user, request.account, request.id, stored.line, stored.kind, stored.spec, stored.price, text_hash),
    )
    if inserted.rowcount and text_hash:
        transaction.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (text_hash, stored.answer))


def _hash_or_empty(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


MAX_PREVIEW_SECONDS = 10.0
"""The longest forecast duration of a preview, in seconds."""
BYTES, QUESTIONS, SETS, GROUPS, LINES_PER_QUESTION = 512, 4, 25, 2000, 200
"""Bytes, questions, column sets, groups or ledger lines that cost about as much as one free question."""
_PREVIEW_QUESTIONS = 5
_GROUP_SECONDS, _CELL_SECONDS = 1e-4, 1.5e-5
"""Upper bounds on a preview's seconds per group of a question, and per cell of marginals (measured)."""
_POWER_SECONDS = 0.05
"""Seconds per group, and a tenth of those of any test, to simulate the tables of its power (measured)."""
_ROOT_UNIT_SECONDS = 1e-4
"""Seconds for the power of a share, times the root of the number of units (measured: 3 s for a billion)."""
_PERIOD_PAIR_SECONDS = 3e-6
"""Seconds per pair of periods to choose the factorisation of running totals (measured: 13 s for 2,000)."""


def request_cost_in_questions(act: str, spec: Mapping[str, Any]) -> int:
    """Return how many free questions a call counts as, by the size of its request alone."""
    first = _PREVIEW_QUESTIONS if act == "preview" else 1
    return first + max(0, len(spec.get("questions", ())) - 1) // QUESTIONS + len(canonical_json(spec)) // BYTES


def proposal_cost_in_questions(proposal: Any, act: str, price: Mapping[str, Any], per_second: float) -> int:
    """Return how many more free questions a call counts as, by the size of its proposal, before it is answered."""
    if act in ("propose", "columns"):
        return 0
    extra = sum(len(question.groups) for question in _questions_with_groups(proposal)) // GROUPS
    if isinstance(proposal, RunningTotalsProposal):
        extra += int(_PERIOD_PAIR_SECONDS * len(proposal.periods) ** 2 * per_second)
    if isinstance(proposal, MarginalsProposal):
        extra += len(proposal.workload.sets) // SETS
    if price.get("within") is not None:
        extra += len(proposal.columns) - 1
    if act == "power":
        seconds = _POWER_SECONDS * (10 + sum(len(question.groups) for question in _questions_with_groups(proposal)))
        if isinstance(proposal, TestProposal) and proposal.options.of is not None:
            seconds += _ROOT_UNIT_SECONDS * math.sqrt(proposal.options.of)
        return extra + _questions_in_seconds("forecasts of power", seconds, per_second)
    return extra + _preview_cost_in_questions(proposal, price, per_second) if act == "preview" else extra


def _questions_with_groups(proposal: Any) -> Iterator[Question]:
    """List the questions of a proposal whose groups are known."""
    if isinstance(proposal, CombinedQuestion):
        yield from proposal.parts
    elif isinstance(proposal, Question):
        yield proposal
    elif isinstance(proposal, DegreesProposal | RunningTotalsProposal | SurvivalProposal | TestProposal):
        yield proposal.question
    elif isinstance(proposal, WorkloadProposal):
        yield from proposal.questions.values()


def _preview_cost_in_questions(proposal: Any, price: Mapping[str, Any], per_second: float) -> int:
    """Return how many questions could be asked while a preview runs."""
    if isinstance(proposal, MwemProposal):
        return proposal.rounds
    return _questions_in_seconds("previews", _preview_seconds(proposal, price), per_second)


def _questions_in_seconds(what: str, seconds: float, per_second: float) -> int:
    """Return how many questions could be asked in so many seconds; refuse what would take too long."""
    if seconds > MAX_PREVIEW_SECONDS:
        raise Unsupported(
            "long-rehearsal",
            f"a server runs {what} for at most {MAX_PREVIEW_SECONDS:g} s, and this would take about {seconds:.3g} s",
            fix="use fewer groups, columns or rows (such as rows=1000), or sets of fewer columns; or, as the owner, "
            "run it without the server",
        )
    return int(seconds * per_second)


def _preview_seconds(proposal: Any, price: Mapping[str, Any]) -> float:
    """Forecast the duration of a preview, beyond the fixed cost of every one."""
    if isinstance(proposal, SynthesisProposal | LinkedTablesProposal):
        return proposal.forecast(**price).seconds
    if isinstance(proposal, MarginalsProposal):
        sizes = [attribute.size for attribute in proposal.attributes]
        return _CELL_SECONDS * sum(
            math.prod(sizes[column_index] for column_index in column_indices)
            for column_indices in proposal.workload.sets
        )
    return _GROUP_SECONDS * sum(len(question.groups) for question in _questions_with_groups(proposal))
