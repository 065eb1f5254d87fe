"""A question is answered from what was bought, joined to an equal question under way, or paid for.

Which of the three is decided inside the transaction that would charge, so that of all who ask the same at once, in
whatever threads and processes, one pays. The others wait for its answer. A payer that stops says so; one that died is
found out by whoever waits for it.

A request id names one charge for ever: whoever asks again under it gets the answer of that charge, waits for it, or is
told that it was charged and stopped. Nobody who only asks again pays twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from fractions import Fraction
from typing import NamedTuple

from sfumato.errors import AnswerPending, RequestDiffers, Unanswered
from sfumato.ledger import entries, local_files
from sfumato.ledger.entries import Entry, Line, StoredAnswer
from sfumato.ledger.guarded import GuardedStore, Periods
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.store import PendingCharge, Where
from sfumato.ledger.transaction import Transaction
from sfumato.privacy import Cost

PATIENCE = 600.0
"""Seconds after which who waits is told so, whatever the reason; then nothing was charged, and they may ask again."""
_PAGE = 20
_SHORTEST, _LONGEST = 0.002, 0.05  # seconds between two looks at whether the answer is there


class Opening(NamedTuple):
    """A tab is opened instead of a charge: what it spends now, what it holds, and its line's columns."""

    spent: Cost
    held: Cost
    columns: dict[str, str]


class Asking:
    """Asking is one question to an account. Either ``begin`` finds an answer, or this one pays and must answer or
    ``stop``.
    """

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
        opening: Opening | None = None,
        until: int | None = None,
    ) -> None:
        self._guarded = guarded
        self._until = until
        self._account = account
        self._entry = entry
        self._cost = cost
        self._accuracy = accuracy
        self._fresh = fresh
        self._periods = periods
        self._reserving = reserving
        """Sets aside what this question costs while it may be charged, for a limit beside the account."""
        self._opening = opening
        self._columns = guarded.columns(entry) if opening is None else opening.columns
        self._paid: Row | None = None

    @property
    def line(self) -> Line:
        """Give the charge, once ``begin`` has returned without an answer."""
        if self._paid is None:
            raise RuntimeError("nothing was charged")
        return Line.of(self._paid)

    def begin(self, seconds: float | None = None, waiting: Callable[[], None] = lambda: None) -> StoredAnswer | None:
        """Find the answer, if it was bought before or is bought now by an equal question; None when this one has paid.

        Waiting ends after ``seconds``, or after ``PATIENCE``. A ``fresh`` question finds and joins its own request
        alone.
        """
        known, seen = self._look()
        found = known or self._entered(seen)
        if isinstance(found, PendingCharge):
            waiting()
            found = self._wait(found, PATIENCE if seconds is None else min(seconds, PATIENCE))
        return None if found is None else self._guarded.stored(found)

    def stands(self) -> bool:
        """Tell whether this question was charged, whatever interrupted whom."""
        return self._paid is not None and self._guarded.stands(self._paid)

    def stop(self) -> None:
        """Tell those who wait that no answer will come; what cannot be said now is said with the next charge."""
        if self._paid is not None:
            self._guarded.unsaid[self._paid.number] = self._paid.hash
            with suppress(BaseException), self._guarded.writing():
                pass  # every transaction says what is unsaid

    def _look(self) -> tuple[Row | None, int]:
        """Find an answer, and the number of the last line when it was looked for: no writer waits for a long search."""
        if self._entry.request_id is None and not self._searches:
            return None, 0
        rows: list[Row] = []
        with self._guarded.reading() as transaction:
            found, seen = self._requested(transaction), transaction.head.number if transaction.head else 0
            if found is None and self._searches:
                rows = _page(transaction, self._question, _before(self._until))
        return found or _search(self._guarded, self._question, self._accuracy, rows), seen

    @property
    def _searches(self) -> bool:
        """Tell whether an earlier answer to the same question will do."""
        return not self._fresh and bool(self._entry.plan and self._entry.data)

    def _entered(self, seen: int) -> Row | PendingCharge | None:
        with self._reserving(self.stands):
            return self._enter(seen)

    def _enter(self, seen: int) -> Row | PendingCharge | None:
        with self._guarded.writing() as transaction:
            found = self._ahead(transaction, seen)
            if found is not None:
                return found
            account, columns, cost, periods = self._account, self._columns, self._cost, self._periods
            short = self._guarded.short(transaction, account, columns["analyst"], cost, periods)
            if short is None:
                self._paid = self._pay(transaction)
                self._fly(transaction, self._paid)
                return None
        raise short()

    def _pay(self, transaction: Transaction) -> Row:
        if self._opening is None:
            return self._guarded.pay(transaction, self._account, self._columns, self._cost, self._periods)
        opening = self._opening
        return transaction.append("tab-open", self._account, self._columns, cost=opening.spent, left=opening.held)

    def _ahead(self, transaction: Transaction, seen: int) -> Row | PendingCharge | None:
        """Find what was answered since the last look, or is under way."""
        found = self._requested(transaction)
        again = self._repeated(transaction)
        if self._fresh or found is not None or again is not None:
            return found or again
        if self._searches:
            found = _accurate(transaction.page(self._question, newest=True, after=seen), self._accuracy)
        return found or next(iter(self._equal(transaction)), None)

    @property
    def _question(self) -> dict[str, str]:
        columns = self._columns
        return {"kind": "answer", "account": self._account, "plan": columns["plan"], "data": columns["data"]}

    def _requested(self, transaction: Transaction) -> Row | None:
        entry = self._entry
        return requested(transaction, self._account, entry.request_id, entry.analyst, entry.question, entry.plan)

    def _repeated(self, transaction: Transaction) -> PendingCharge | None:
        """Find the same request, under way or ended without an answer; one that asks something else is refused."""
        columns = self._columns
        if not columns["request"]:
            return None
        where = {"account": self._account, "analyst": columns["analyst"], "request": columns["request"]}
        found = transaction.under_way(where)
        for other in found:
            _require_same(transaction.line(other.number), self._entry.question, self._entry.plan)
        return found[-1] if found else None

    def _equal(self, transaction: Transaction) -> list[PendingCharge]:
        """Find the same question on the same data, under way, whose answer will be accurate enough."""
        columns = self._columns
        if not columns["plan"] or not columns["data"]:
            return []
        found = self._living(transaction, {"plan": columns["plan"], "data": columns["data"]})
        return [other for other in found if entries.within(entries.read_widths(other.accuracy), self._accuracy)]

    def _living(self, transaction: Transaction, where: Where) -> list[PendingCharge]:
        """List charges whose payer may still answer; those of payers that died are stopped on the way."""
        found = []
        for other in transaction.under_way({"account": self._account, **where}):
            if transaction.ended(other.number) is not None:
                continue
            lives = self._lives(other)
            if lives is False:
                transaction.stop(other.number)
            elif lives or not self._is_old(other):
                found.append(other)
        return found

    def _lives(self, other: PendingCharge) -> bool | None:
        """Tell whether a payer still runs; None where it may run on another machine, or nobody knows."""
        return local_files.alive(other.payer, elsewhere=self._guarded.store.shared)

    def _is_old(self, other: PendingCharge) -> bool:
        """Tell whether a charge is so old that nobody waits for it whose payer may be gone."""
        return self._guarded.store.now() - other.time >= PATIENCE * 1e6

    def _fly(self, transaction: Transaction, row: Row) -> None:
        if row.request or (row.plan and row.data):
            accuracy, payer = entries.write_widths(self._accuracy), local_files.this_process()
            given = row.account, row.analyst, row.request, row.plan, row.data
            transaction.begin(PendingCharge(row.number, row.time, *given, accuracy, payer))

    def _wait(self, other: PendingCharge, seconds: float) -> Row:
        """Wait for the other's answer. Reading goes on meanwhile, and nothing is locked."""
        end, pause = time.monotonic() + seconds, _SHORTEST
        while True:
            with self._guarded.reading() as transaction:
                found = self._requested(transaction) or transaction.ended(other.number)
                seal = self._guarded.unsaid.get(other.number)
                stopped = seal is not None and transaction.has(other.number, seal)
            if found is not None and found.kind == "answer":
                return found
            lives = self._lives(other)
            mine = bool(other.request) and other.request == self._columns["request"]
            if found is not None or stopped or (mine and lives is None and self._is_old(other)):
                raise Unanswered(other.number, charged=mine)
            if lives is False:
                with self._guarded.writing() as transaction:
                    transaction.stop(other.number)
            elif time.monotonic() >= end:
                raise AnswerPending(other.number)
            else:
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST)


def stored(
    guarded: GuardedStore, question: Where, accuracy: Mapping[str, Fraction], until: int | None = None
) -> Row | None:
    """Find the newest answer to this question that is at least as accurate in every column asked for; with ``until``,
    among the lines up to this one.
    """
    with guarded.reading() as transaction:
        rows = _page(transaction, question, _before(until))
    return _search(guarded, question, accuracy, rows)


def _search(
    guarded: GuardedStore, question: Where, accuracy: Mapping[str, Fraction], rows: Sequence[Row]
) -> Row | None:
    """Find the first accurate answer among these, the newest to a question, and those before them: each page is read
    in a transaction of its own.
    """
    while True:
        found = _accurate(rows, accuracy)
        if found is not None or len(rows) < _PAGE:
            return found
        with guarded.reading() as transaction:
            rows = _page(transaction, question, rows[-1].number)


def _page(transaction: Transaction, question: Where, before: int) -> list[Row]:
    return transaction.page(question, newest=True, before=before, limit=_PAGE)


def _before(until: int | None) -> int:
    return 0 if until is None else until + 1


def requested(
    transaction: Transaction,
    account: str,
    request_id: str | None,
    analyst: str | None,
    question: str | None,
    plan: str | None,
) -> Row | None:
    """Find the first answer to a request; its id names one question for ever, by its plan or else by its text."""
    if request_id is None:
        return None
    where = {"kind": "answer", "account": account, "analyst": analyst or "", "request": request_id}
    rows = transaction.page(where, limit=1)
    if rows:
        _require_same(transaction.line(rows[0].about), question, plan)
    return rows[0] if rows else None


def _require_same(paid: Row | None, question: str | None, plan: str | None) -> None:
    if paid is None:
        return
    if (plan != paid.plan) if plan else (question is not None and question != paid.question):
        raise RequestDiffers(
            "a request id names one question for ever; this one was used for another question",
            place="request_id",
            fix="give each question its own id",
        )


def _accurate(rows: Iterable[Row], accuracy: Mapping[str, Fraction]) -> Row | None:
    return next((row for row in rows if entries.within(entries.read_widths(row.detail), accuracy)), None)
