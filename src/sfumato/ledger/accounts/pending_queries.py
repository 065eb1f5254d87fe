"""A query is answered from a stored answer, by an equal query under way, or by paying for it.

Which of the three is decided inside the transaction that would charge, so that of all equal queries at once, in
whatever threads and processes, one pays. The others wait for its answer. A payer that stops records it; one that died
is detected by whoever waits for it.

A request id names one charge forever: repeating it returns the answer of that charge, waits for it, or reports that it
was charged and stopped. A repeated request never pays twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from sfumato.errors import AnswerPending, RequestDiffers, Unanswered
from sfumato.ledger import entries, local_files
from sfumato.ledger.accounts.approvals import ConditionalCharge
from sfumato.ledger.entries import Entry, Line, StoredAnswer
from sfumato.ledger.guarded import GuardedStore, Periods
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.store import PendingCharge, Where
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Cost

UNCONDITIONAL = ConditionalCharge()
MAX_WAIT_SECONDS = 600.0
"""Seconds after which waiting ends, whatever the reason; nothing was charged then, and the query may be repeated."""
_PAGE = 20
_MIN_PAUSE, _MAX_PAUSE = 0.002, 0.05  # seconds between two checks for the answer


class TabOpening(NamedTuple):
    """A tab that is opened instead of a charge: what it spends now, what it holds, and its line's columns."""

    spent: Cost
    held: Cost
    columns: dict[str, str]


class PendingQuery:
    """One query to an account. Either ``begin`` finds an answer, or this query pays and must answer or ``stop``."""

    def __init__(
        self,
        guarded: GuardedStore,
        account: str,
        entry: Entry,
        cost: Cost,
        accuracy: Mapping[str, Fraction],
        *,
        fresh: bool,
        periods: Periods = (),
        reserving: Callable[[Callable[[], bool]], AbstractContextManager[None]] = lambda _: nullcontext(),
        opening: TabOpening | None = None,
        until: int | None = None,
        searched: int | None = None,
        former_plan: str = "",
        conditional: ConditionalCharge = UNCONDITIONAL,
    ) -> None:
        self._guarded = guarded
        self._until = until
        self._searched = searched
        """The last line up to which an answer was looked up, in vain; None where nothing was."""
        self._account = account
        self._entry = entry
        self._plans = (entry.plan, former_plan) if former_plan else (entry.plan,)
        """The keys of this query: a request id that was used for any of them is the same request."""
        self._cost = cost
        self._accuracy = accuracy
        self._fresh = fresh
        self._periods = periods
        self._reserve = reserving
        """Reserves the cost of this query within a limit beside the account, while it may be charged."""
        self._opening = opening
        self._conditional = conditional
        self._columns = guarded.columns_to_write(entry) if opening is None else opening.columns
        self._charge: Row | None = None

    @property
    def line(self) -> Line:
        """The charge, once ``begin`` has returned without an answer."""
        if self._charge is None:
            raise RuntimeError("nothing was charged")
        return Line.from_row(self._charge)

    def begin(self, seconds: float | None = None, waiting: Callable[[], None] = lambda: None) -> StoredAnswer | None:
        """Return the answer if it was bought before or is being bought by an equal query; None when this query has
        paid.

        Waiting ends after ``seconds``, or after the default patience. A ``fresh`` query reuses and joins only its own
        request.
        """
        answer, last_seen = self._find_answer_and_last_line()
        result = answer or self._charge_or_join(last_seen)
        if isinstance(result, PendingCharge):
            waiting()
            result = self._wait_for_answer(
                result, MAX_WAIT_SECONDS if seconds is None else min(seconds, MAX_WAIT_SECONDS)
            )
        return None if result is None else self._guarded.read_answer(result)

    def is_charged(self) -> bool:
        """Return whether this query was charged, whatever was interrupted."""
        return self._charge is not None and self._guarded.may_be_on_disk(self._charge)

    def stop(self) -> None:
        """Record that no answer will come; if that cannot be written now, the next charge records it."""
        if self._charge is not None:
            self._guarded.unrecorded_stops[self._charge.number] = self._charge.hash
            with suppress(BaseException), self._guarded.writing():
                pass  # every transaction records stopped charges

    def _find_answer_and_last_line(self) -> tuple[Row | None, int]:
        """Return an answer, and the number of the last line at that time: searching here keeps writers from waiting.

        Where an answer was looked up before, in vain, only later lines can hold one, and the charge's transaction reads
        them.
        """
        if self._searched is not None:
            return None, self._searched
        if self._entry.request_id is None and not self._can_reuse_answer:
            return None, 0
        newest = None
        with self._guarded.reading() as transaction:
            answer, last_seen = self._find_requested(transaction), transaction.last_number
            if answer is None and self._can_reuse_answer:
                newest = newest_answer(transaction, self._answer_columns, self._until)
        return answer or first_accurate_from(self._guarded, self._answer_columns, self._accuracy, newest), last_seen

    @property
    def _can_reuse_answer(self) -> bool:
        """Whether an earlier answer to the same query may be used."""
        return not self._fresh and bool(self._entry.plan and self._entry.data)

    def _charge_or_join(self, last_seen: int) -> Row | PendingCharge | None:
        with self._reserve(self.is_charged):
            return self._charge_unless_found(last_seen)

    def _charge_unless_found(self, last_seen: int) -> Row | PendingCharge | None:
        with self._guarded.writing() as transaction:
            result = self._find_answered_or_pending(transaction, last_seen)
            if result is not None:
                return result
            account, columns, cost, periods = self._account, self._columns, self._cost, self._periods
            refusal = self._guarded.first_refusal_maker(transaction, account, columns["analyst"], cost, periods)
            if refusal is None:
                pay = partial(self._append_payment, transaction)
                self._charge = self._conditional.append(transaction, account, columns, cost, pay)
                self._mark_pending(transaction, self._charge)
                return None
        raise refusal()

    def _append_payment(self, transaction: Transaction) -> Row:
        if self._opening is None:
            return self._guarded.append_charge(transaction, self._account, self._columns, self._cost, self._periods)
        opening = self._opening
        return transaction.append("tab-open", self._account, self._columns, cost=opening.spent, left=opening.held)

    def _find_answered_or_pending(self, transaction: Transaction, last_seen: int) -> Row | PendingCharge | None:
        """Return what was answered since the last search, or is under way."""
        answer = self._find_requested(transaction)
        pending = self._pending_same_request(transaction)
        if self._fresh or answer is not None or pending is not None:
            return answer or pending
        if self._can_reuse_answer:
            later_answers = transaction.page(
                self._answer_columns, newest=True, after=last_seen, before=_exclusive_line_limit(self._until)
            )
            answer = _first_accurate(later_answers, self._accuracy)
        return answer or next(iter(self._pending_equal_charges(transaction)), None)

    @property
    def _answer_columns(self) -> dict[str, str]:
        columns = self._columns
        return {"kind": "answer", "account": self._account, "plan": columns["plan"], "data": columns["data"]}

    def _find_requested(self, transaction: Transaction) -> Row | None:
        entry = self._entry
        return find_requested_answer(
            transaction, self._account, entry.request_id, entry.analyst, entry.question, self._plans
        )

    def _pending_same_request(self, transaction: Transaction) -> PendingCharge | None:
        """Return the same request, under way or ended without an answer; refuse one for another query."""
        columns = self._columns
        if not columns["request"]:
            return None
        where = {"account": self._account, "analyst": columns["analyst"], "request": columns["request"]}
        pending = transaction.pending_charges(where)
        for charge in pending:
            _require_same_query(transaction.line(charge.number), self._entry.question, self._plans)
        return pending[-1] if pending else None

    def _pending_equal_charges(self, transaction: Transaction) -> list[PendingCharge]:
        """Return the charges under way for the same query and data whose answers will be accurate enough."""
        columns = self._columns
        if not columns["plan"] or not columns["data"]:
            return []
        live_charges = self._live_pending_charges(transaction, {"plan": columns["plan"], "data": columns["data"]})
        return [
            charge
            for charge in live_charges
            if entries.is_accurate_enough(entries.read_widths(charge.accuracy), self._accuracy)
        ]

    def _live_pending_charges(self, transaction: Transaction, where: Where) -> list[PendingCharge]:
        """Return charges whose payer may still answer; those of dead payers are stopped on the way."""
        live_charges = []
        for charge in transaction.pending_charges({"account": self._account, **where}):
            if transaction.ending_line(charge.number) is not None:
                continue
            is_alive = self._is_payer_alive(charge)
            if is_alive is False:
                transaction.stop_charge(charge.number)
            elif is_alive or not self._is_past_wait_limit(charge):
                live_charges.append(charge)
        return live_charges

    def _is_payer_alive(self, charge: PendingCharge) -> bool | None:
        """Return whether a payer still runs; None if it may run on another machine, or this is unknown."""
        return local_files.is_process_alive(charge.payer, elsewhere=self._guarded.store.shared)

    def _is_past_wait_limit(self, charge: PendingCharge) -> bool:
        """Return whether a charge is too old to wait for if its payer may be gone."""
        return self._guarded.store.now() - charge.time >= MAX_WAIT_SECONDS * 1e6

    def _mark_pending(self, transaction: Transaction, row: Row) -> None:
        if row.request or (row.plan and row.data):
            accuracy, payer = entries.write_widths(self._accuracy), local_files.current_process_name()
            identity = row.account, row.analyst, row.request, row.plan, row.data
            transaction.add_pending_charge(PendingCharge(row.number, row.time, *identity, accuracy, payer))

    def _wait_for_answer(self, charge: PendingCharge, seconds: float) -> Row:
        """Wait for another charge's answer, by repeated reads; nothing is locked."""
        deadline, pause = time.monotonic() + seconds, _MIN_PAUSE
        while True:
            with self._guarded.reading() as transaction:
                ending = self._find_requested(transaction) or transaction.ending_line(charge.number)
                seal = self._guarded.unrecorded_stops.get(charge.number)
                is_stopped = seal is not None and transaction.has_line(charge.number, seal)
            if ending is not None and ending.kind == "answer":
                return ending
            is_alive = self._is_payer_alive(charge)
            is_own_request = bool(charge.request) and charge.request == self._columns["request"]
            if (
                ending is not None
                or is_stopped
                or (is_own_request and is_alive is None and self._is_past_wait_limit(charge))
            ):
                raise Unanswered(charge.number, charged=is_own_request)
            if is_alive is False:
                with self._guarded.writing() as transaction:
                    transaction.stop_charge(charge.number)
            elif time.monotonic() >= deadline:
                raise AnswerPending(charge.number)
            else:
                time.sleep(pause)
                pause = min(1.5 * pause, _MAX_PAUSE)


def find_stored_answer(
    guarded: GuardedStore, questions: Sequence[Where], accuracy: Mapping[str, Fraction], until: int | None = None
) -> Row | None:
    """Return the newest answer to the first of these queries that has one at least as accurate in every requested
    column; with ``until``, among the lines up to this one.
    """
    with guarded.reading() as transaction:
        newest = newest_answers(transaction, questions, accuracy, until)
    searches = zip(questions, newest, strict=False)
    answers = (first_accurate_from(guarded, question, accuracy, answer) for question, answer in searches)
    return next(filter(None, answers), None)


def newest_answers(
    transaction: Transaction, questions: Sequence[Where], accuracy: Mapping[str, Fraction], until: int | None
) -> list[Row | None]:
    """Return the newest answer to each of these queries, up to the first that is accurate enough."""
    newest: list[Row | None] = []
    for question in questions:
        answer = newest_answer(transaction, question, until)
        newest.append(answer)
        if answer is not None and _first_accurate([answer], accuracy) is not None:
            break
    return newest


def newest_answer(transaction: Transaction, question: Where, until: int | None) -> Row | None:
    """Return the newest answer to this query, which is nearly always accurate enough; no other line is read."""
    return next(iter(transaction.page(question, newest=True, before=_exclusive_line_limit(until), limit=1)), None)


def first_accurate_from(
    guarded: GuardedStore, question: Where, accuracy: Mapping[str, Fraction], newest: Row | None
) -> Row | None:
    """Return this answer to a query or the first before it that is accurate enough: each page is read in its own
    transaction.
    """
    rows = [] if newest is None else [newest]
    while rows:
        answer = _first_accurate(rows, accuracy)
        if answer is not None:
            return answer
        with guarded.reading() as transaction:
            rows = transaction.page(question, newest=True, before=rows[-1].number, limit=_PAGE)
    return None


def _exclusive_line_limit(until: int | None) -> int:
    return 0 if until is None else until + 1


def find_requested_answer(
    transaction: Transaction,
    account: str,
    request_id: str | None,
    analyst: str | None,
    question: str | None,
    plans: Sequence[str],
) -> Row | None:
    """Return the first answer to a request; its id names one query forever, by its plan or else by its text."""
    if request_id is None:
        return None
    where = {"kind": "answer", "account": account, "analyst": analyst or "", "request": request_id}
    rows = transaction.page(where, limit=1)
    if rows:
        _require_same_query(transaction.line(rows[0].about), question, plans)
    return rows[0] if rows else None


def _require_same_query(charge: Row | None, question: str | None, plans: Sequence[str]) -> None:
    if charge is None:
        return
    if (charge.plan not in plans) if any(plans) else (question is not None and question != charge.question):
        raise RequestDiffers(
            "a request id belongs to one query, and this id was already used for another",
            place="request_id",
            fix="use a new request id for each query",
        )


def _first_accurate(rows: Iterable[Row], accuracy: Mapping[str, Fraction]) -> Row | None:
    return next((row for row in rows if entries.is_accurate_enough(entries.read_widths(row.detail), accuracy)), None)
