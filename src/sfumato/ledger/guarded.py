"""A guarded store: it writes nothing to a ledger that has lost lines known from elsewhere."""

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
from fractions import Fraction
from itertools import count, groupby
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
from sfumato.ledger.entries import Entry, PublicationIndex, StoredAnswer
from sfumato.ledger.local_files import DiskReserve, hold_unheld_lock
from sfumato.ledger.proofs import anchors
from sfumato.ledger.proofs.anchors import Anchor, Marks, ProcessAnchor, WrittenLines
from sfumato.ledger.proofs.verifying import LOST
from sfumato.ledger.sealed_rows import KeyedHash, Row
from sfumato.ledger.spending import MAX_ROUNDINGS_PER_LINE, read_totals
from sfumato.ledger.stores.store import LARGE_ANSWER_BYTES, Store
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Budget, Cost, codec

T = TypeVar("T")
_store_numbers = count()
_ANCHOR_NOT_SAVED = (
    "this process could not write its anchor file ({}): if the process is killed and a failover of the ledger's server "
    "loses its charges, the loss will not be detected"
)
Periods = tuple[str, ...]
"""Periods with their own accounts, by name; empty where the account itself pays."""


def period_account_name(account: str, period: str) -> str:
    """Return the name of the account of one period."""
    return entries.checked_name(f"{account} {period}", "account")


class GuardedStore:
    """A store, with what is known about its lines from elsewhere: anchors, and what this process wrote."""

    def __init__(
        self, store: Store, anchors: tuple[Anchor, ...], keyed: KeyedHash, running: tuple[ProcessAnchor, ...] = ()
    ) -> None:
        self.store = store
        self.anchors = (*anchors, *(process.anchor for process in running))
        self.keyed_hash = keyed
        """The keyed hash under which identifiers of private rows are written."""
        self.damage: LedgerDamaged | None = None
        """Damage found at opening: the ledger can be read, and nothing more is written."""
        self.missing: int | None = None
        """A line that an anchor knows and the ledger lacked at opening."""
        self.wrote = False
        self.unrecorded_stops: dict[int, str] = {}
        """Charges of this process that stopped without an answer: the next transaction records it."""
        self._terms: dict[int, Terms] = {}
        self._epsilons: dict[int, tuple[Fraction, ...]] = {}
        """By the line with the terms in force: every ε until then."""
        self._shares: dict[tuple[int, str], Budget] = {}
        """By the line with the terms, and the share of them."""
        self._last_data_hash = "", ""
        """The last data version, and its keyed hash."""
        self.memory = WrittenLines()
        """What this process wrote."""
        self._write_numbers, self._number = count(), next(_store_numbers)
        self._process_anchors = running
        """Anchors of processes that may have ended."""
        self._save_locks: dict[int, threading.RLock] = {}
        """One thread at a time saves the anchor. By process: a forked child starts with an unlocked one."""
        self._has_warned = False
        self.reserve: DiskReserve | None = None
        """Space that is given up when the answer to a charge could not be written."""
        self.shelves = PublicationIndex()
        """Published answers this process has read."""

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self.store.reading() as rows:
            yield Transaction(rows, self.keyed_hash.origin)

    @contextmanager
    def writing(self, *, acknowledging: bool = False, moving: str = "") -> Iterator[Transaction]:
        with self.store.writing(self._watched_lines(), moving=bool(moving)) as rows:
            transaction = Transaction(rows, self.keyed_hash.origin)
            start, write_number = transaction.head, next(self._write_numbers)
            self._require_intact(transaction, acknowledging=acknowledging)
            _require_not_moved(start, moving)
            shared_marks = self.memory.lines_before(transaction)
            reported = [
                number for number, seal in list(self.unrecorded_stops.items()) if transaction.has_line(number, seal)
            ]
            for number in reported:
                transaction.stop_charge(number)
            yield transaction
            appended = [(row, self._terms_for_row(transaction, row)) for row in transaction.appended]
        for number in reported:
            self.unrecorded_stops.pop(number, None)
        if appended:
            self._record_written(write_number, shared_marks, appended)

    def write_answer(self, write: Callable[[], T]) -> T:
        """Write the answer to a charge: wait for a store that is away; then give up the disk's reserve and try once
        more.

        A line that may have been written already is not written again.
        """
        try:
            return self.store.retry(write)
        except LedgerInDoubt:
            raise
        except LedgerUnavailable:
            if self.reserve is None or not self.reserve.free():
                raise
        return write()

    def _record_written(self, write_number: int, shared_marks: Marks, appended: Sequence[tuple[Row, Terms]]) -> None:
        """Remember what was written and, if other machines write to the ledger too, save it in a file.

        This happens after COMMIT: an interrupt here strikes after the line is on disk, and a file that cannot be
        written fails no charge; it is reported once, as a warning.
        """
        with hold_unheld_lock(self._save_lock):
            self.wrote = True
            self.memory.add(write_number, shared_marks, appended)
            if self.store.shared:
                self._save_anchor_file()

    @property
    def _save_lock(self) -> threading.RLock:
        return self._save_locks.setdefault(os.getpid(), threading.RLock())

    def _save_anchor_file(self) -> None:
        try:
            self.memory.save(self._process_anchor_path)
        except OSError as error:
            has_warned, self._has_warned = self._has_warned, True
            if not has_warned:
                # Even where warnings are errors, or their log is full, this one does not raise: the line is written.
                with suppress(WeakLedger, OSError):
                    warnings.warn(_ANCHOR_NOT_SAVED.format(os.strerror(error.errno or 0)), WeakLedger, stacklevel=2)

    @property
    def _process_anchor_path(self) -> Path:
        return anchors.process_anchor_path(self.store.anchor_paths, self._number)

    def _terms_for_row(self, transaction: Transaction, row: Row) -> Terms:
        """Return the terms of a line that was just written; they are usually cached."""
        if row.terms == row.number:
            self._terms[row.number] = codec.loads_as(Terms, row.detail)
        return self._terms_in_line(transaction, row.terms)

    def save_anchors(self) -> None:
        """Save the anchors that this user keeps. If the ledger lacks a line that one of them knows, that anchor stays
        as it is, and what this process wrote stays in its own file, as it does if its own lines are lost.
        """
        places = self.store.anchor_paths
        # An older anchor is still valid: if this cannot be written, fewer lines are covered, none wrongly.
        ignore_failures = suppress(OSError, LedgerUnavailable, LedgerDamaged)
        with ignore_failures, anchors.lock_anchor_file(places[0]), self.reading() as transaction:
            process_anchor = self.memory.anchor
            is_lost = process_anchor is not None and not process_anchor.holds(transaction)
            if is_lost or not anchors.renew_anchors(places, transaction):
                if process_anchor is not None:
                    with hold_unheld_lock(self._save_lock):
                        self.memory.save(self._process_anchor_path)
                return
            with hold_unheld_lock(self._save_lock):
                if self.memory.anchor == process_anchor:
                    self._process_anchor_path.unlink(missing_ok=True)
            for process in self._process_anchors:
                process.forget(places, transaction)

    def save_anchors_of_ended_processes(self) -> None:
        """Save the anchors at opening if processes that may have ended left files: an anchor of the whole ledger covers
        the same lines.
        """
        if any(process.ended for process in self._process_anchors):
            self.save_anchors()

    def anchors_to_check(self, given: Anchor | None) -> tuple[Anchor, ...]:
        """Return the given anchor, or those that the ledger was opened with, and that of lines this process wrote, if
        they are lost: the next line it writes would forget them.
        """
        anchors = self.anchors if given is None else (given,)
        process_anchor = self.memory.anchor
        with self.reading() as transaction:
            return (
                anchors if process_anchor is None or process_anchor.holds(transaction) else (*anchors, process_anchor)
            )

    def require_sealed(self, transaction: Transaction) -> None:
        """Refuse to charge a database ledger that was moved and has lost the line that sealed it: its id shows that it
        is the old one.
        """
        for anchor in anchors.anchors_of_same_id(self.store.anchor_paths) if self.store.shared else ():
            if anchor.moved and not transaction.has_line(anchor.number, anchor.hash):
                raise LedgerUnavailable(
                    f"this ledger was moved to {anchor.moved} and has lost the line that records the move: "
                    "charging it again would spend its budget twice",
                    place=self.store.place,
                    fix="use the ledger that it was moved to, and remove this one",
                )

    def _watched_lines(self) -> list[int]:
        """Return the numbers of the lines that every transaction checks before it writes."""
        lineage_numbers = [number for number, _ in self.memory.lineage[:1]]
        return [*lineage_numbers, *(anchor.number for anchor in self.anchors if anchor.number), *self.unrecorded_stops]

    def columns_to_write(self, entry: Entry) -> dict[str, str]:
        """Return an entry as the columns of a line."""
        return {**entry.columns, "data": self.hash_data_version(entry.data)}

    def hash_data_version(self, data: str) -> str:
        """Return the data version of a release as a line stores it."""
        if not data:
            return ""
        last_data, data_hash = self._last_data_hash
        if data != last_data:
            data_hash = self.keyed_hash("data", data)
            self._last_data_hash = data, data_hash
        return data_hash

    def store_body(self, body: str) -> dict[str, str]:
        """Store an answer and return its columns: a large one goes to a file, durable before the line that refers to
        it.
        """
        if len(body) > LARGE_ANSWER_BYTES or len(body.encode()) > LARGE_ANSWER_BYTES:
            return {"file": self.store.bodies.write_body(body)}
        return {"body": body}

    def read_answer(self, row: Row) -> StoredAnswer:
        """Read the answer that a line holds or refers to."""
        body = self.store.bodies.read(row.file) if row.file else row.body
        if body is None:
            raise LedgerDamaged(
                row.number, LOST, fix="restore the file from a backup, or pay for a new answer: fresh=True"
            )
        return StoredAnswer.from_row(row, body)

    def terms_in_force(self, transaction: Transaction, account: str) -> Terms:
        """Return the terms in force."""
        return self._terms_in_line(transaction, transaction.last_account_line(account).terms)

    def _terms_in_line(self, transaction: Transaction, number: int) -> Terms:
        """Return the terms that a line holds. Lines never change, so each is read once."""
        if number not in self._terms:
            self._terms[number] = transaction.terms(number)
        return self._terms[number]

    def epsilon_history(self, transaction: Transaction, account: str) -> tuple[Fraction, ...]:
        """Return every ε the account has had, oldest first. Lines never change, so each history is read once."""
        number = transaction.last_account_line(account).terms
        if number not in self._epsilons:
            all_epsilons = [terms.budget.epsilon for terms in self._terms_history(transaction, account)]
            self._epsilons[number] = tuple(epsilon for epsilon, _ in groupby(all_epsilons))
        return self._epsilons[number]

    def _terms_history(self, transaction: Transaction, account: str) -> list[Terms]:
        """List all terms since the account was opened, oldest first: each amendment follows a line under the terms
        before.
        """
        history = [self.terms_in_force(transaction, account)]
        number = transaction.last_account_line(account).terms
        while earlier_rows := transaction.page({"account": account}, newest=True, before=number, limit=1):
            number = earlier_rows[0].terms
            history.append(transaction.terms(number))
        return history[::-1]

    def budgets(
        self, transaction: Transaction, account: str, analyst: str = "", periods: Periods = ()
    ) -> list[tuple[Budget, str]]:
        """Return every budget that must afford a charge, at spent plus held, with its name: the account's, and the
        analyst's share; or those of the accounts of all ``periods``.
        """
        analyst_row = transaction.newest(account=account, analyst=analyst) if analyst else None
        share = analyst_row.share if analyst_row is not None else ""
        if periods:
            by_period = [self._period_budgets(transaction, account, analyst, share, period) for period in periods]
            return [budget for period_budgets in by_period for budget in period_budgets]
        last = transaction.last_account_line(account)
        budget = self._terms_in_line(transaction, last.terms).budget
        budgets = [(budget.with_spent(read_totals(last.totals).total), "the account")]
        if analyst_row is not None and share:
            share_budget = self._cached_share_budget(last.terms, budget, share)
            analyst_budget = share_budget.with_spent(read_totals(analyst_row.own).total)
            budgets.append((analyst_budget, "the analyst's share"))
        return budgets

    def _period_budgets(
        self, transaction: Transaction, account: str, analyst: str, share: str, period: str
    ) -> list[tuple[Budget, str]]:
        """Return the budgets of one period, which opens with the account's own terms when it is first needed."""
        name = period_account_name(account, period)
        last = transaction.newest(account=name)
        terms = (
            self.terms_in_force(transaction, account) if last is None else self._terms_in_line(transaction, last.terms)
        )
        if last is not None and terms.period_of != account:
            raise AccountDiffers(
                f"{name!r} is the account of another policy, but {account!r} needs this name for one of its periods",
                place=f"account {name!r}",
                fix="rename one of the two policies",
            )
        budgets = [
            (terms.budget.with_spent(read_totals(last.totals if last else "").total), f"the account of {period}")
        ]
        if share:
            analyst_row = transaction.newest(account=name, analyst=analyst)
            analyst_spent = read_totals(analyst_row.own if analyst_row else "").total
            analyst_budget = terms.budget.share(share).with_spent(analyst_spent)
            budgets.append((analyst_budget, f"the analyst's share of {period}"))
        return budgets

    def _cached_share_budget(self, number: int, budget: Budget, share: str) -> Budget:
        """Return a share of the budget in the terms of this line. Lines never change, so each is computed once."""
        if (number, share) not in self._shares:
            self._shares[number, share] = budget.share(share)
        return self._shares[number, share]

    def append_charge(
        self, transaction: Transaction, account: str, columns: Mapping[str, str], cost: Cost, periods: Periods = ()
    ) -> Row:
        """Append a charge and, with ``periods``, a line that spends the same amount in the account of each.

        All are appended in one transaction: either every period has paid, or none.
        """
        charge = transaction.append("charge", account, columns, cost=cost)
        for period in periods:
            name = period_account_name(account, period)
            if transaction.newest(account=name) is None:
                terms = replace(self.terms_in_force(transaction, account), per="", period_of=account)
                transaction.append("account-open", name, {"detail": codec.dumps(terms)})
            period_columns = {
                "analyst": columns["analyst"],
                "parts": columns["parts"],
                "detail": json.dumps(charge.number),
                "question": f"{period}, for line {charge.number}",
            }
            transaction.append("period", name, period_columns, cost=cost)
        return charge

    def admit(
        self,
        account: str,
        analyst: str,
        cost: Cost,
        write: Callable[[Transaction], Row],
        convert: Callable[[Row], T],
        periods: Periods = (),
    ) -> T:
        """Check and append in one transaction, durable on return; a refusal is computed after the transaction, when
        nothing is locked.
        """
        rows: list[Row] = []
        try:
            with self.writing() as transaction:
                refusal = self.first_refusal_maker(transaction, account, analyst, cost, periods)
                if refusal is None:
                    rows.append(write(transaction))
            if refusal is not None:
                raise refusal()
            return convert(rows[0])
        except BaseException as error:
            # Ctrl-C may strike after the line is on disk: then the caller learns that it was charged.
            if not rows or not self.may_be_on_disk(rows[0]) or isinstance(error, LedgerInDoubt):
                raise
            raise Unanswered(rows[0].number) from None

    def first_refusal_maker(
        self, transaction: Transaction, account: str, analyst: str, cost: Cost, periods: Periods = ()
    ) -> Callable[[], Overspent] | None:
        """Return a function that computes the refusal of the first budget that cannot afford this cost; None if all
        can.

        The refusal proposes no more than every budget would accept. What costs nothing more, such as a step whose tab
        was admitted, is refused only if more is certainly spent than allowed, not because a total has since been
        rounded up.
        """
        budgets = self.budgets(transaction, account, analyst, periods)
        if cost.is_zero and transaction.head is not None:
            max_roundings = MAX_ROUNDINGS_PER_LINE * transaction.head.number + 1
            budgets = [
                (budget.with_spent(budget.totals.minus_roundings(max_roundings)), budget_name)
                for budget, budget_name in budgets
            ]
        exceeded = next((labelled for labelled in budgets if not labelled[0].admits(cost)), None)
        return (
            None
            if exceeded is None
            else lambda: exceeded[0].refusal(cost, exceeded[1], *(budget for budget, _ in budgets))
        )

    def may_be_on_disk(self, row: Row) -> bool:
        """Return whether a line that was being written is on disk. Where that cannot be seen, count it as written."""
        error = sys.exception()
        if isinstance(error, LedgerInDoubt) and error.first <= row.number <= error.last:
            return True
        if error is not None:
            traceback.clear_frames(
                error.__traceback__
            )  # release a transaction that an interrupted frame still holds open
        try:
            return self.store.is_written(row.number, row.hash)
        except LedgerUnavailable:
            return True

    def find_missing_line(self, transaction: Transaction) -> int | None:
        """Return the number of a line that is known to exist and is missing, or None."""
        for anchor in self.anchors:
            if not anchor.holds(transaction):
                return anchor.number
        last = self.memory.last
        if last is None or transaction.has_line(*last):
            return None
        process_anchor = self.memory.anchor
        return None if process_anchor is None or process_anchor.holds(transaction) else process_anchor.number

    def _require_intact(self, transaction: Transaction, *, acknowledging: bool) -> None:
        if self.damage is not None:
            raise LedgerDamaged(self.damage.number, self.damage.why)
        missing = None if acknowledging else self.find_missing_line(transaction)
        if missing is not None:
            raise LedgerBehind(missing)


def _require_not_moved(head: Row | None, moving: str) -> None:
    """Refuse to write to a ledger that was moved, except to finish moving it to the same place."""
    if head is None or head.kind != "moved":
        return
    if head.moved_to != moving:
        raise LedgerUnavailable(
            f"this ledger was moved to {head.moved_to}: it can still be read and verified, but not charged",
            place=f"line {head.number}",
            fix="use the ledger that it was moved to",
        )
