"""A guarded store writes nothing to a file that has lost lines which are known from elsewhere."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TypeVar

from sfumato.errors import (
    AccountDiffers,
    LedgerBehind,
    LedgerDamaged,
    LedgerInDoubt,
    LedgerUnavailable,
    Overspent,
    Unanswered,
    WeakLedger,
)
from sfumato.ledger import entries
from sfumato.ledger.entries import Entry, Shelves, StoredAnswer
from sfumato.ledger.local_files import locked
from sfumato.ledger.proofs import anchors
from sfumato.ledger.proofs.anchors import Anchor, Marks, Memory, ProcessAnchor
from sfumato.ledger.proofs.verifying import LOST
from sfumato.ledger.sealed_rows import KeyedHash, Row
from sfumato.ledger.spending import ROUNDINGS, read_spending
from sfumato.ledger.stores.store import LARGE, Store
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Budget, Cost, codec

T = TypeVar("T")
_numbers = count()
_UNKEPT = (
    "what this process has charged could not be kept in a file of this user ({}): should it be killed, and a failover "
    "forget its lines, nobody would notice"
)
Periods = tuple[str, ...]
"""Periods that have accounts of their own, by name; none where the account itself pays."""


def period_account(account: str, period: str) -> str:
    """Name the account of one period."""
    return entries.name(f"{account} {period}", "account")


class GuardedStore:
    """A guarded store is a store with what is known about its lines from elsewhere: an anchor, and what this process
    wrote itself.
    """

    def __init__(
        self, store: Store, anchors: tuple[Anchor, ...], keyed: KeyedHash, running: tuple[ProcessAnchor, ...] = ()
    ) -> None:
        self.store = store
        self.anchors = (*anchors, *(each.anchor for each in running))
        self.keyed = keyed
        """What identifies private rows is written through this."""
        self.damage: LedgerDamaged | None = None
        """What was found wrong when it was opened: it can be read, and nothing more is written."""
        self.missing: int | None = None
        """A line that was known to exist when it was opened, and did not."""
        self.wrote = False
        self.unsaid: dict[int, str] = {}
        """Charges of this process that stopped without an answer: the next line that is written says so."""
        self._terms: dict[int, Terms] = {}
        self.memory = Memory()
        """What this process wrote."""
        self._turns, self._number = count(), next(_numbers)
        self._running = running
        """What processes have kept that may have ended."""
        self._keeping: dict[int, threading.RLock] = {}
        """One thread at a time keeps what was written. By process: a child begins with one that nobody holds."""
        self._told = False
        self.shelves = Shelves()
        """What this process has read of published answers."""

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self.store.reading() as rows:
            yield Transaction(rows, self.keyed.origin)

    @contextmanager
    def writing(self, *, acknowledging: bool = False, moving: str = "") -> Iterator[Transaction]:
        with self.store.writing(self._watched(), moving=bool(moving)) as rows:
            transaction = Transaction(rows, self.keyed.origin)
            start, turn = transaction.head, next(self._turns)
            self._require_whole(transaction, acknowledging=acknowledging)
            _require_here(start, moving)
            before = self.memory.shared(transaction)
            said = [number for number, seal in list(self.unsaid.items()) if transaction.has(number, seal)]
            for number in said:
                transaction.stop(number)
            yield transaction
            written = [(row, self._terms_of(transaction, row)) for row in transaction.appended]
        for number in said:
            self.unsaid.pop(number, None)
        if written:
            self._keep(turn, before, written)

    def _keep(self, turn: int, before: Marks, written: Sequence[tuple[Row, Terms]]) -> None:
        """Keep in mind what was written, and of a ledger that others write too, in a file as well.

        All of this is after COMMIT. A Ctrl-C in here is one that strikes after the line is on disk, and a file that
        cannot be written fails no charge: it is told, once.
        """
        with locked(self._one_keeps):
            self.wrote = True
            self.memory.add(turn, before, written)
            if self.store.shared:
                self._keep_file()

    @property
    def _one_keeps(self) -> threading.RLock:
        return self._keeping.setdefault(os.getpid(), threading.RLock())

    def _keep_file(self) -> None:
        try:
            self.memory.save(self._running_place)
        except OSError as error:
            told, self._told = self._told, True
            if not told:
                # Where warnings are errors, or the log that they go to is full, this one is none: the line is written.
                with suppress(WeakLedger, OSError):
                    warnings.warn(_UNKEPT.format(os.strerror(error.errno or 0)), WeakLedger, stacklevel=2)

    @property
    def _running_place(self) -> Path:
        return anchors.running_place(self.store.anchor_places, self._number)

    def _terms_of(self, transaction: Transaction, row: Row) -> Terms:
        """Give the terms of a line that was just written; most often they are known."""
        if row.terms == row.number:
            self._terms[row.number] = codec.loads_as(Terms, row.detail)
        return self._terms_at(transaction, row.terms)

    def remember(self) -> None:
        """Save the anchors that this user keeps. Where the ledger lacks a line that one of them knows, it stays as it
        is, and what this process wrote stays in a file of its own, as it does where its own lines are lost.
        """
        places = self.store.anchor_places
        # An older anchor is still a true one: where this cannot be written, less is vouched for, nothing wrongly.
        unwritten = suppress(OSError, LedgerUnavailable, LedgerDamaged)
        with unwritten, anchors.alone(places[0]), self.reading() as transaction:
            own = self.memory.anchor
            lost = own is not None and not own.holds(transaction)
            if lost or not anchors.renew(places, transaction):
                if own is not None:
                    with locked(self._one_keeps):
                        self.memory.save(self._running_place)
                return
            with locked(self._one_keeps):
                if self.memory.anchor == own:
                    self._running_place.unlink(missing_ok=True)
            for each in self._running:
                each.forget(places, transaction)

    def remember_ended(self) -> None:
        """Save the anchors of a ledger that is opened, if processes have left files that may have ended: an anchor of
        the whole ledger knows as much.
        """
        if any(each.ended for each in self._running):
            self.remember()

    def known_anchors(self, given: Anchor | None) -> tuple[Anchor, ...]:
        """List the anchor that is given, or those that this ledger was opened with, and that of lines which this
        process wrote, if they are lost: the next line that it writes would forget them.
        """
        known = self.anchors if given is None else (given,)
        own = self.memory.anchor
        with self.reading() as transaction:
            return known if own is None or own.holds(transaction) else (*known, own)

    def require_sealed(self, transaction: Transaction) -> None:
        """Refuse to go on with a ledger in a database that was moved, where the line that sealed it is lost: it is
        known by its id that it is the old one.
        """
        for known in anchors.of_its_id(self.store.anchor_places) if self.store.shared else ():
            if known.moved and not transaction.has(known.number, known.hash):
                raise LedgerUnavailable(
                    f"this ledger was moved to {known.moved}, and has lost the line that says so: charged again, its "
                    "budget would be spent twice",
                    place=self.store.place,
                    fix="name the ledger that it was moved to, and remove this one",
                )

    def _watched(self) -> list[int]:
        """List the lines that every transaction looks at before it writes."""
        known = [number for number, _ in self.memory.lineage[:1]]
        return [*known, *(anchor.number for anchor in self.anchors if anchor.number), *self.unsaid]

    def columns(self, entry: Entry) -> dict[str, str]:
        """Write an entry as a line stores it."""
        return {**entry.columns, "data": self.data(entry.data)}

    def data(self, data: str) -> str:
        """Write the data of a release as a line stores them."""
        return self.keyed("data", data) if data else ""

    def body(self, body: str) -> dict[str, str]:
        """Write an answer as a line stores it: a large one is in a file, durable before the line that refers to it."""
        if len(body) > LARGE or len(body.encode()) > LARGE:
            return {"file": self.store.bodies.keep(body)}
        return {"body": body}

    def stored(self, row: Row) -> StoredAnswer:
        """Read the answer that a line holds, or refers to."""
        body = self.store.bodies.read(row.file) if row.file else row.body
        if body is None:
            raise LedgerDamaged(row.number, LOST, fix="bring the file back from a backup, or ask afresh: fresh=True")
        return StoredAnswer.of(row, body)

    def terms(self, transaction: Transaction, account: str) -> Terms:
        """Give the terms in force."""
        return self._terms_at(transaction, transaction.last(account).terms)

    def _terms_at(self, transaction: Transaction, number: int) -> Terms:
        """Give the terms that a line holds. It never changes, so each is read once."""
        if number not in self._terms:
            self._terms[number] = transaction.terms(number)
        return self._terms[number]

    def every_terms(self, transaction: Transaction, account: str) -> list[Terms]:
        """List all terms since the account was opened, oldest first: an amendment follows a line under the terms
        before.
        """
        found = [self.terms(transaction, account)]
        number = transaction.last(account).terms
        while before := transaction.page({"account": account}, newest=True, before=number, limit=1):
            number = before[0].terms
            found.append(transaction.terms(number))
        return found[::-1]

    def budgets(
        self, transaction: Transaction, account: str, analyst: str = "", periods: Periods = ()
    ) -> list[tuple[Budget, str]]:
        """List every budget that must afford a charge, at spent and held together: the account's, and the analyst's; or
        those of the accounts of all ``periods``.
        """
        mine = transaction.newest(account=account, analyst=analyst) if analyst else None
        share = mine.share if mine is not None else ""
        if periods:
            each = [self._of_period(transaction, account, analyst, share, period) for period in periods]
            return [budget for found in each for budget in found]
        budget = self.terms(transaction, account).budget
        found = [(budget.at(read_spending(transaction.last(account).totals).total), "the account")]
        if mine is not None and share:
            found.append((budget.share(share).at(read_spending(mine.own).total), "the analyst's share"))
        return found

    def _of_period(
        self, transaction: Transaction, account: str, analyst: str, share: str, period: str
    ) -> list[tuple[Budget, str]]:
        """List the budgets of one period, which is opened with the account's own terms when it is first needed."""
        name = period_account(account, period)
        last = transaction.newest(account=name)
        terms = self.terms(transaction, account) if last is None else self._terms_at(transaction, last.terms)
        if last is not None and terms.period_of != account:
            raise AccountDiffers(
                f"the account {name!r} is not that of a period of {account!r}",
                place=f"account {name!r}",
                fix="rename the policy that it belongs to: no policy is called as a period of another is",
            )
        found = [(terms.budget.at(read_spending(last.totals if last else "").total), f"the account of {period}")]
        if share:
            mine = transaction.newest(account=name, analyst=analyst)
            own = read_spending(mine.own if mine else "").total
            found.append((terms.budget.share(share).at(own), f"the analyst's share of {period}"))
        return found

    def pay(
        self, transaction: Transaction, account: str, columns: Mapping[str, str], cost: Cost, periods: Periods = ()
    ) -> Row:
        """Append a charge; with ``periods``, also a line that spends as much in the account of each of them.

        All are appended in one transaction: either every period has paid, or none.
        """
        paid = transaction.append("charge", account, columns, cost=cost)
        copied = {"analyst": columns["analyst"], "parts": columns["parts"], "detail": json.dumps(paid.number)}
        for period in periods:
            name = period_account(account, period)
            if transaction.newest(account=name) is None:
                terms = replace(self.terms(transaction, account), per="", period_of=account)
                transaction.append("account-open", name, {"detail": codec.dumps(terms)})
            words = f"{period}, for line {paid.number}"
            transaction.append("period", name, {**copied, "question": words}, cost=cost)
        return paid

    def admitted(
        self,
        account: str,
        analyst: str,
        cost: Cost,
        write: Callable[[Transaction], Row],
        given: Callable[[Row], T],
        periods: Periods = (),
    ) -> T:
        """Check and append in one transaction, durable on return; a refusal is worked out when nobody waits for it."""
        written: list[Row] = []
        try:
            with self.writing() as transaction:
                short = self.short(transaction, account, analyst, cost, periods)
                if short is None:
                    written.append(write(transaction))
            if short is not None:
                raise short()
            return given(written[0])
        except BaseException as error:
            # A Ctrl-C may strike after the line is on disk: then whoever asked is told that it is.
            if not written or not self.stands(written[0]) or isinstance(error, LedgerInDoubt):
                raise
            raise Unanswered(written[0].number) from None

    def short(
        self, transaction: Transaction, account: str, analyst: str, cost: Cost, periods: Periods = ()
    ) -> Callable[[], Overspent] | None:
        """Find the first budget that cannot afford this, and give what works out its refusal; None when all can.

        It proposes no more than every budget would accept. What costs nothing more, such as a step whose tab was
        admitted, is refused where more is surely spent than allowed: not because a total was rounded up since.
        """
        budgets = self.budgets(transaction, account, analyst, periods)
        if cost.nothing and transaction.head is not None:
            most = ROUNDINGS * transaction.head.number + 1
            budgets = [(budget.at(budget.totals.without(most)), place) for budget, place in budgets]
        short = next((each for each in budgets if not each[0].admits(cost)), None)
        return None if short is None else lambda: short[0].refusal(cost, short[1], *(each for each, _ in budgets))

    def stands(self, row: Row) -> bool:
        """Tell whether a line that was being written is on disk. Where that cannot be seen, count it as made."""
        error = sys.exception()
        if isinstance(error, LedgerInDoubt) and error.first <= row.number <= error.last:
            return True
        if error is not None:
            traceback.clear_frames(error.__traceback__)  # a transaction that an interrupted frame still holds open
        try:
            return self.store.settled(row.number, row.hash)
        except LedgerUnavailable:
            return True

    def behind(self, transaction: Transaction) -> int | None:
        """Find the number of a line that is known to exist and does not, or None."""
        for anchor in self.anchors:
            if not anchor.holds(transaction):
                return anchor.number
        last = self.memory.last
        if last is None or transaction.has(*last):
            return None
        own = self.memory.anchor
        return None if own is None or own.holds(transaction) else own.number

    def _require_whole(self, transaction: Transaction, *, acknowledging: bool) -> None:
        if self.damage is not None:
            raise LedgerDamaged(self.damage.number, self.damage.why)
        missing = None if acknowledging else self.behind(transaction)
        if missing is not None:
            raise LedgerBehind(missing)


def _require_here(head: Row | None, moving: str) -> None:
    """Refuse to write to a ledger that was moved, but for who finishes moving it to the same place."""
    if head is None or head.kind != "moved":
        return
    if head.moved_to != moving:
        raise LedgerUnavailable(
            f"this ledger was moved to {head.moved_to}: it can be read and verified for ever, and charges nothing more",
            place=f"line {head.number}",
            fix="name the ledger that it was moved to",
        )
