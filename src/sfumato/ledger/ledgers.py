"""The ledger keeps what was spent, by whom, on what, for every population, for ever."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from typing import Self

from sfumato.errors import (
    AccountDiffers,
    InvalidParameter,
    LedgerBehind,
    LedgerDamaged,
    LedgerUnavailable,
    SourceTaken,
    WeakLedger,
)
from sfumato.ledger import entries
from sfumato.ledger.accounts import joined_sources
from sfumato.ledger.accounts.account import Account
from sfumato.ledger.accounts.period_accounts import PeriodAccounts
from sfumato.ledger.entries import Line
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.proofs import anchors, verifying
from sfumato.ledger.proofs.anchors import Anchor, accept, anchored, looked_at, mark_numbers, marks_of
from sfumato.ledger.proofs.exporting import export, write_complete
from sfumato.ledger.proofs.verifying import Verification
from sfumato.ledger.sealed_rows import KeyedHash
from sfumato.ledger.stores.opening import open_store
from sfumato.ledger.stores.store import Store
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Budget, PrivacyUnit, codec
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, whole

_PAGE = 1000
_LATEST = 128
_UNTOLD = (
    "more was spent than it tells, and nothing is charged until its owner has acknowledged that: sfumato ledger "
    "acknowledge"
)


class Ledger:
    """A ledger is an append-only, hash-chained record of every charge and answer, in one file; large answers are files
    beside it.

    Safe from threads and processes, and across fork. A charge is checked and written in one exclusive transaction and
    is on disk when it returns.
    """

    def __init__(self, guarded: GuardedStore) -> None:
        self._guarded = guarded

    def __repr__(self) -> str:
        return f"<Ledger in {self._guarded.store.name}: .lines(), .account(), .verify()>"

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        schema: str | None = None,
        anchor: Anchor | str | os.PathLike[str] | None = None,
        timeout: Number = 30,
    ) -> Self:
        """Open the ledger in this file, which is made when it is missing, or in this database ("postgresql://host/db")
        and ``schema``, which ``sfumato ledger init`` has made; ``timeout`` is how many seconds to wait for a lock.

        The lines since the last checkpoint (every thousandth line) are verified. An ``anchor``, and the one that this
        user keeps (beside the file; of a database, among their own files), must be in it, or you are warned, and
        nothing more is charged until the owner has acknowledged that.
        """
        guarded = open_guarded(path, schema, anchor, timeout)
        told = list(guarded.store.warnings)
        if guarded.missing is not None:
            told.append(f"{LedgerBehind(guarded.missing).rule}; {_UNTOLD}")
        for warning in told:
            warnings.warn(f"{warning} ({guarded.store.place})", WeakLedger, stacklevel=2)
        return cls(guarded)

    @property
    def durability(self) -> str:
        """Say in words what a charge waits for before it counts."""
        return self._guarded.store.durability

    @property
    def accounts(self) -> tuple[str, ...]:
        """List the names of all accounts, in the order in which they were opened."""
        with self._guarded.reading() as transaction:
            return tuple(row.account for row in transaction.page({"kind": "account-open"}))

    @property
    def head(self) -> tuple[int, str]:
        """Give number and hash of the last line, which change whenever anything is written; before the first, 0."""
        with self._guarded.reading() as transaction:
            return (transaction.head.number, transaction.head.hash) if transaction.head else (0, "")

    def account(
        self, name: str, *, unit: PrivacyUnit | None = None, budget: Budget | None = None, per: str = ""
    ) -> Account:
        """Open a population's account on first use with these terms, which then are fixed for life.

        With ``per`` every such period has an account of its own, with this budget (``PeriodAccounts``).
        """
        entries.name(name, "account")
        asked = None if unit is None and budget is None else Terms(unit, budget, per)  # type: ignore[arg-type]
        with self._guarded.reading() as transaction:
            known = transaction.newest(account=name) is not None
        if not known:
            if asked is None:
                raise InvalidParameter("account", name, "an account of this ledger, or given with unit and budget")
            self._open_account(name, asked)
        with self._guarded.reading() as transaction:
            terms = self._guarded.terms(transaction, name)
        if asked is not None:
            _require_same(name, terms, asked)
        return (PeriodAccounts if terms.per else Account)(self._guarded, name, terms)

    def _open_account(self, name: str, terms: Terms) -> None:
        with self._guarded.writing() as transaction:
            if transaction.newest(account=name) is None:
                transaction.append("account-open", name, {"detail": codec.dumps(terms)})

    def require_public(self, source: joined_sources.Given, *, fingerprint: str | None = None) -> None:
        """Refuse data that an account protects: declared public, they would be read for free."""
        with self._guarded.reading() as transaction:
            joined = joined_sources.joined(transaction)
        account = joined_sources.protected(joined, source, fingerprint, self._guarded.keyed)
        if account is not None:
            raise SourceTaken(
                f"private data cannot be declared public: the account {account!r} protects them",
                place="a table declared public",
                fix="remove public = true, and say with id = … whose rows they are; in a database file with a private"
                " table other tables may be public, views may not",
            )

    def lines(
        self,
        *,
        account: str | None = None,
        analyst: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: int = 0,
    ) -> Iterator[Line]:
        """List lines in order, of one account or analyst, from ``since`` on and before ``until``; with ``after`` only
        those whose numbers are larger.
        """
        given = (("account", account), ("analyst", analyst))
        equal = {key: entries.name(value, key) for key, value in given if value is not None}
        end = None if until is None else entries.microseconds(until, "until")
        start = 0 if since is None else self._before(entries.microseconds(since, "since"))
        after = max(start, whole(after, "after", at_least=0))
        while True:
            with self._guarded.reading() as transaction:
                rows = transaction.page(equal, after=after, limit=_PAGE)
            for row in rows:
                if end is not None and row.time >= end:
                    return
                yield Line.of(row)
            if len(rows) < _PAGE:
                return
            after = rows[-1].number

    def latest(self, *, account: str | None = None, analyst: str | None = None, before: int = 0) -> Iterator[Line]:
        """List lines from the last one back, of one account or analyst; with ``before`` those whose numbers are
        smaller. They are read as they are asked for, so how long the ledger is has no part in what the first ones cost.
        """
        given = (("account", account), ("analyst", analyst))
        equal = {key: entries.name(value, key) for key, value in given if value is not None}
        before = whole(before, "before", at_least=0)
        while True:
            with self._guarded.reading() as transaction:
                rows = transaction.page(equal, newest=True, before=before, limit=_LATEST)
            yield from map(Line.of, rows)
            if len(rows) < _LATEST:
                return
            before = rows[-1].number

    def _before(self, time: int) -> int:
        """Find the last line older than this: times never fall, so it is found by halving."""
        with self._guarded.reading() as transaction:
            low, high = 0, transaction.head.number if transaction.head else 0
            while low < high:
                middle = (low + high + 1) // 2
                found = transaction.line(middle)
                low, high = (middle, high) if found is not None and found.time < time else (low, middle - 1)
        return low

    def __iter__(self) -> Iterator[Line]:
        return self.lines()

    # ── trusting it ────────────────────────────────────────────────────────────────────────────

    def verify(self) -> Verification:
        """Check everything: the file, every seal, every link, every total, the anchor; names the first bad line."""
        found = verifying.everything(self._guarded.store)
        if not found.holds:
            # A lost answer is lost alone: what was spent is in the lines, and more may be charged.
            self._guarded.damage = None if found.answers else LedgerDamaged(found.bad, found.why)
            return found
        with self._guarded.reading() as transaction:
            missing = self._guarded.behind(transaction)
        return found if missing is None else Verification(found.lines, missing, "its anchor knows another line")

    def anchor(self) -> Anchor:
        """Head and totals of this moment, to be kept elsewhere: ``ledger.anchor().save(path)``."""
        with self._guarded.reading() as transaction:
            return anchored(transaction)

    def lost(self, anchor: Anchor | None = None) -> tuple[Anchor, ...]:
        """List the anchors, the one that is given or all that are kept, whose lines this ledger lacks; those whose loss
        its owner has accepted are left out.
        """
        known = self._guarded.known_anchors(anchor)
        with self._guarded.reading() as transaction:
            return tuple(each for each in known if not each.holds(transaction))

    def acknowledge(self, anchor: Anchor | None = None, *, reason: str) -> tuple[Line, ...]:
        """Accept, as the owner, that lines an anchor knows are lost: totals rise to the anchor's, charging goes on."""
        entries.reason(reason)
        lost = self._guarded.known_anchors(anchor)
        if not lost or not all(isinstance(each, Anchor) for each in lost):
            raise InvalidParameter("anchor", anchor, "an Anchor: the one that this ledger is behind")
        with self._guarded.writing(acknowledging=True) as transaction:
            self._guarded.require_sealed(transaction)
            rows = accept(transaction, lost, reason)
        return tuple(Line.of(row) for row in rows)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Make a copy of this moment under a new name, taken while others go on."""
        self._guarded.store.backup(path)

    def export(self, form: str, path: str | os.PathLike[str], *, complete: bool = False) -> None:
        """Write every line as "json", "csv" or "arrow" to a new file; large answers are in it, unless they are lost.

        A ``complete`` one, as JSON, also has the key and the salts: a ledger can be made of it again, and it is as
        secret as the ledger itself.
        """
        store = self._guarded.store
        if not complete:
            export(self.lines(), form, path, store.bodies.read)
        elif form != "json":
            raise InvalidParameter("form", form, '"json" where the export is complete')
        else:
            with self._guarded.reading() as transaction:
                write_complete(transaction, path, store.key().hex(), store.address, store.bodies.read)

    def salt(self, number: int) -> str:
        """Give the salt under which others are shown a hash of what a line says: equal each time, and without the
        ledger's key like 256 random bits, also to whoever knows the salts of other lines (``keyed_hashes``).
        """
        return self._guarded.keyed("salt of a line that is published", str(entries.line_number(number, "number")))

    def body(self, line: Line) -> str | None:
        """Read the answer that a line holds, or refers to; None where its file is lost."""
        return self._guarded.store.bodies.read(line.file) if line.file else line.body

    def close(self) -> None:
        """Close it. What was written is already safe; the anchors that this user keeps are renewed, and forget no line
        that the ledger has lost.
        """
        if self._guarded.wrote:
            self._guarded.remember()
        self._guarded.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_guarded(
    path: str | os.PathLike[str],
    schema: str | None = None,
    anchor: Anchor | str | os.PathLike[str] | None = None,
    timeout: Number = 30,
) -> GuardedStore:
    """Open what keeps the lines, with all that is known about them from elsewhere. Nobody is warned of what only a
    curator should not be: an owner, who moves the ledger.
    """
    store = open_store(path, schema, float(exact(timeout, "timeout", NONNEGATIVE)))
    try:
        given = [anchor if isinstance(anchor, Anchor) else anchors.load(anchor)] if anchor is not None else []
        kept = [Anchor.load(place) for place in store.anchor_places if place.exists()]
        running = anchors.running(store.anchor_places)
        found = verifying.newest(store)
        keyed = KeyedHash(store.key() if found.holds else _key(store))
        guarded = GuardedStore(store, (*given, *kept), keyed, running)
        guarded.damage = None if found.holds else LedgerDamaged(found.bad, found.why)
        if found.holds:
            # What was kept of it elsewhere is read before its lines are: all that is known there is here, or lost.
            others = {each for _, each in anchors.of_any_database(strict=False)}
            with store.reading((*mark_numbers(found.lines), *looked_at((*guarded.anchors, *others)))) as rows:
                transaction = Transaction(rows, keyed.origin)
                guarded.memory.lineage = marks_of(transaction)
                if not transaction.moved_to:  # then it charges nothing more, and others go on
                    guarded.anchors += tuple(each for each in others - {*guarded.anchors} if each.misses(transaction))
                guarded.missing = guarded.behind(transaction)
            guarded.remember_ended()
    except BaseException:
        store.close()
        raise
    return guarded


def _key(store: Store) -> bytes:
    """Read the key of a ledger that is damaged, as far as it can be read: what is there can still be looked at."""
    try:
        return store.key()
    except LedgerUnavailable:
        return b""


def _require_same(name: str, terms: Terms, asked: Terms) -> None:
    if (terms.per, terms.period_of) != (asked.per, asked.period_of):
        raise _other_periods(name, terms)
    differing = [
        part
        for part, same in (("unit", terms.unit == asked.unit), ("budget", _alike(terms.budget, asked.budget)))
        if not same
    ]
    if differing:
        other = " and another ".join(differing)
        raise AccountDiffers(
            f"the account was opened with another {other}: {terms.unit}, {terms.budget.promise}",
            place=f"account {name!r}",
            fix="open it with the terms it has; as the owner, change its budget with sfumato budget amend --reason …, "
            "or account.amend(…, reason=…)",
        )


def _other_periods(name: str, terms: Terms) -> AccountDiffers:
    if terms.period_of:
        rule, fix = f"this is the account of one period of {terms.period_of!r}", "give the policy another name"
    else:
        kept = f"one for each {terms.per}" if terms.per else "one for all"
        rule = f"the accounts of a population are kept as they were opened: {kept}"
        fix = f'write per = "{terms.per}" beside epsilon' if terms.per else "remove per from the budget"
    return AccountDiffers(rule, place=f"account {name!r}", fix=fix)


def _alike(known: Budget, asked: Budget) -> bool:
    """Tell whether two budgets are equal.

    The default order is computed in floats, to six digits: another machine may find another last one.
    It also follows ε and δ, which an amendment changes and the account's order does not: who names no order asks for
    the account's own. What is enforced are the account's terms in any case.
    """
    fixed = ("epsilon", "delta", "reserve", "neighbours")
    if not all(getattr(known, name) == getattr(asked, name) for name in fixed):
        return False
    usual = Budget(asked.epsilon, asked.delta, reserve=asked.reserve).order
    return _near(known.order, asked.order) or (known.order is not None and _near(usual, asked.order))


def _near(one: Fraction | None, other: Fraction | None) -> bool:
    return one is other if one is None or other is None else abs(one - other) <= one / 10**5
