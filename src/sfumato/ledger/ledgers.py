"""The ledger: a permanent record of what was spent, by whom and on what, for every population."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Self

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
from sfumato.ledger.accounts.account import Account
from sfumato.ledger.accounts.period_accounts import PeriodAccounts
from sfumato.ledger.guarded import GuardedStore
from sfumato.ledger.local_files import DiskReserve
from sfumato.ledger.proofs import anchors
from sfumato.ledger.proofs.anchors import (
    Anchor,
    accept_lost_lines,
    anchored_numbers,
    current_anchor,
    line_marks,
    mark_numbers,
)
from sfumato.ledger.proofs.verifying import Verification
from sfumato.ledger.sealed_rows import KeyedHash
from sfumato.ledger.stores.opening import open_store
from sfumato.ledger.stores.store import LOCK_TIMEOUT
from sfumato.ledger.transaction import Terms
from sfumato.privacy import Budget, PrivacyUnit, codec
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact, exact_integer

if TYPE_CHECKING:
    from sfumato.ledger.accounts import joined_sources
    from sfumato.ledger.entries import Line
    from sfumato.ledger.stores.store import Store

_PAGE = 1000
_LATEST_PAGE = 128
_BEHIND_ADVICE = (
    "More was spent than this ledger shows. Nothing can be charged until its owner acknowledges the loss with "
    "`sfumato ledger acknowledge`"
)


class Ledger:
    """An append-only, hash-chained record of every charge and answer, in one file; large answers are files beside it.

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
        timeout: Number = LOCK_TIMEOUT,
    ) -> Self:
        """Open the ledger in this file, which is created if missing, or in this database ("postgresql://host/db") and
        ``schema``, which ``sfumato ledger init`` has created; ``timeout`` is how many seconds to wait for a lock.

        The lines since the last checkpoint (every thousandth line) are verified. If the ledger lacks the line of an
        ``anchor``, or of the anchor that this user keeps (beside the file; for a database, among their own files), you
        are warned, and nothing more can be charged until the owner acknowledges the loss.
        """
        guarded = open_guarded(path, schema, anchor, timeout)
        messages = list(guarded.store.warnings)
        if guarded.missing is not None:
            messages.append(f"{LedgerBehind(guarded.missing).rule}. {_BEHIND_ADVICE}")
        for message in messages:
            warnings.warn(f"{message} ({guarded.store.place})", WeakLedger, stacklevel=2)
        return cls(guarded)

    @property
    def durability(self) -> str:
        """What a charge waits for before it counts, in words."""
        return self._guarded.store.durability

    def use_reserve(self, reserve: DiskReserve) -> None:
        """Give up this space when the answer to a charge cannot be written; whoever charges holds it before."""
        self._guarded.reserve = reserve

    @property
    def accounts(self) -> tuple[str, ...]:
        """The names of all accounts, in the order in which they were opened."""
        with self._guarded.reading() as transaction:
            return tuple(row.account for row in transaction.page({"kind": "account-open"}))

    @property
    def head(self) -> tuple[int, str]:
        """Number and hash of the last line, which change with every write; (0, "") before the first."""
        with self._guarded.reading() as transaction:
            return (transaction.head.number, transaction.head.hash) if transaction.head else (0, "")

    def account(
        self, name: str, *, unit: PrivacyUnit | None = None, budget: Budget | None = None, per: str = ""
    ) -> Account:
        """Open a population's account, on first use with these terms, which are then fixed for its lifetime.

        With ``per`` every such period has its own account with this budget (``PeriodAccounts``).
        """
        entries.checked_name(name, "account")
        requested_terms = None if unit is None and budget is None else Terms(unit, budget, per)  # type: ignore[arg-type]
        with self._guarded.reading() as transaction:
            exists = transaction.newest(account=name) is not None
        if not exists:
            if requested_terms is None:
                fix = "correct the name, or give unit and budget to open a new account"
                raise InvalidParameter("account", name, "the name of an account in this ledger", fix=fix)
            self._open_account(name, requested_terms)
        with self._guarded.reading() as transaction:
            terms = self._guarded.terms_in_force(transaction, name)
        if requested_terms is not None:
            _require_same_terms(name, terms, requested_terms)
        return (PeriodAccounts if terms.per else Account)(self._guarded, name, terms)

    def _open_account(self, name: str, terms: Terms) -> None:
        with self._guarded.writing() as transaction:
            if transaction.newest(account=name) is None:
                transaction.append("account-open", name, {"detail": codec.dumps(terms)})

    def require_public(self, source: joined_sources.SourceDescription, *, fingerprint: str | None = None) -> None:
        """Refuse data that an account protects: declared public, they would be read without charge."""
        from sfumato.ledger.accounts import joined_sources

        with self._guarded.reading() as transaction:
            joined = joined_sources.joined_sources(transaction)
        account = joined_sources.protecting_account(joined, source, fingerprint, self._guarded.keyed_hash)
        if account is not None:
            raise SourceTaken(
                f"this table contains private data that the account {account!r} protects, so it cannot be public",
                place="a table declared public",
                fix="remove public = true and declare the table's id; in a database file that holds a private table, "
                "other tables may be public but views may not",
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
        """Iterate over lines in order, of one account or analyst, from ``since`` on and before ``until``; with
        ``after`` only those with larger numbers.
        """
        from sfumato.ledger.entries import Line

        filters = (("account", account), ("analyst", analyst))
        equal = {key: entries.checked_name(value, key) for key, value in filters if value is not None}
        end = None if until is None else entries.checked_microseconds(until, "until")
        start = 0 if since is None else self._last_line_before(entries.checked_microseconds(since, "since"))
        after = max(start, exact_integer(after, "after", at_least=0))
        while True:
            with self._guarded.reading() as transaction:
                rows = transaction.page(equal, after=after, limit=_PAGE)
            for row in rows:
                if end is not None and row.time >= end:
                    return
                yield Line.from_row(row)
            if len(rows) < _PAGE:
                return
            after = rows[-1].number

    def latest(self, *, account: str | None = None, analyst: str | None = None, before: int = 0) -> Iterator[Line]:
        """Iterate over lines from the last one back, of one account or analyst; with ``before`` only those with smaller
        numbers. Lines are read on demand, so the first ones cost the same however long the ledger is.
        """
        from sfumato.ledger.entries import Line

        filters = (("account", account), ("analyst", analyst))
        equal = {key: entries.checked_name(value, key) for key, value in filters if value is not None}
        before = exact_integer(before, "before", at_least=0)
        while True:
            with self._guarded.reading() as transaction:
                rows = transaction.page(equal, newest=True, before=before, limit=_LATEST_PAGE)
            yield from map(Line.from_row, rows)
            if len(rows) < _LATEST_PAGE:
                return
            before = rows[-1].number

    def _last_line_before(self, time: int) -> int:
        """Return the number of the last line older than this, by bisection: times never decrease."""
        with self._guarded.reading() as transaction:
            low, high = 0, transaction.head.number if transaction.head else 0
            while low < high:
                middle = (low + high + 1) // 2
                line = transaction.line(middle)
                low, high = (middle, high) if line is not None and line.time < time else (low, middle - 1)
        return low

    def __iter__(self) -> Iterator[Line]:
        return self.lines()

    # ── integrity ──────────────────────────────────────────────────────────────────────────────

    def verify(self, *, progress: Callable[[str], None] = lambda _: None, resume: bool = False) -> Verification:
        """Check everything (the file, every seal, link and total, the anchors) and report the first bad line.

        ``progress`` is called with the current phase, in words. A run that was interrupted is continued with
        ``resume``: what it has read is not read again, and the report says so.
        """
        from sfumato.ledger.proofs import verification_runs

        verification = verification_runs.verify_everything(self._guarded.store, progress=progress, resume=resume)
        if not verification.holds:
            # Only an answer is lost: what was spent is in the lines, so charging may continue.
            self._guarded.damage = None if verification.answers else LedgerDamaged(verification.bad, verification.why)
            return verification
        with self._guarded.reading() as transaction:
            missing = self._guarded.find_missing_line(transaction)
        return verification if missing is None else replace(verification, bad=missing, why="it differs from its anchor")

    def anchor(self) -> Anchor:
        """Return head and totals as of now, to be stored elsewhere: ``ledger.anchor().save(path)``."""
        with self._guarded.reading() as transaction:
            return current_anchor(transaction)

    def lost(self, anchor: Anchor | None = None) -> tuple[Anchor, ...]:
        """Return the anchors, the given one or all that are kept, whose lines this ledger lacks, except losses that its
        owner has acknowledged.
        """
        anchors_to_check = self._guarded.anchors_to_check(anchor)
        with self._guarded.reading() as transaction:
            return tuple(candidate for candidate in anchors_to_check if not candidate.holds(transaction))

    def acknowledge(self, anchor: Anchor | None = None, *, reason: str) -> tuple[Line, ...]:
        """Accept, as the owner, that lines known to an anchor are lost: totals rise to the anchor's, and charging
        continues.
        """
        from sfumato.ledger.entries import Line

        entries.checked_reason(reason)
        lost_anchors = self._guarded.anchors_to_check(anchor)
        if not lost_anchors or not all(isinstance(candidate, Anchor) for candidate in lost_anchors):
            rule = "an Anchor saved before this ledger lost lines"
            raise InvalidParameter("anchor", anchor, rule, fix="load the newest anchor with Anchor.load(path)")
        with self._guarded.writing(acknowledging=True) as transaction:
            self._guarded.require_sealed(transaction)
            rows = accept_lost_lines(transaction, lost_anchors, reason)
        return tuple(Line.from_row(row) for row in rows)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the ledger as of now to a new file, while others continue to use it."""
        self._guarded.store.backup(path)

    def export(self, form: str, path: str | os.PathLike[str], *, complete: bool = False) -> None:
        """Write every line as "json", "csv" or "arrow" to a new file, including large answers unless they are lost.

        A ``complete`` JSON export also contains the key and the salts: a ledger can be rebuilt from it, and it is as
        secret as the ledger itself.
        """
        from sfumato.ledger.proofs.exporting import export, write_complete_export

        store = self._guarded.store
        if not complete:
            export(self.lines(), form, path, store.bodies.read)
        elif form != "json":
            rule, fix = '"json" for a complete export', 'use "json", or leave out complete'
            raise InvalidParameter("form", form, rule, fix=fix)
        else:
            with self._guarded.reading() as transaction:
                write_complete_export(transaction, path, store.key().hex(), store.address, store.bodies.read)

    def salt(self, number: int) -> str:
        """Return the salt of a published line's hash: the same each time, and without the ledger's key
        indistinguishable from 256 random bits, even to those who know the salts of other lines (``KeyedHash``).
        """
        return self._guarded.keyed_hash(
            "salt of a line that is published", str(entries.checked_line_number(number, "number"))
        )

    def body(self, line: Line) -> str | None:
        """Read the answer that a line holds or refers to; None if its file is lost."""
        return self._guarded.store.bodies.read(line.file) if line.file else line.body

    def close(self) -> None:
        """Close the ledger. What was written is already durable; the anchors that this user keeps are renewed, except
        that no line the ledger has lost is forgotten.
        """
        if self._guarded.wrote:
            self._guarded.save_anchors()
        self._guarded.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_guarded(
    path: str | os.PathLike[str],
    schema: str | None = None,
    anchor: Anchor | str | os.PathLike[str] | None = None,
    timeout: Number = LOCK_TIMEOUT,
) -> GuardedStore:
    """Open the store with everything that is known about its lines from elsewhere. Unlike ``Ledger.open`` it does not
    warn, for an owner who moves the ledger.
    """
    from sfumato.ledger.proofs import verification_runs
    from sfumato.ledger.transaction import Transaction

    store = open_store(path, schema, float(exact(timeout, "timeout", NONNEGATIVE)))
    try:
        given_anchors = (
            [anchor if isinstance(anchor, Anchor) else anchors.load_any_anchor(anchor)] if anchor is not None else []
        )
        stored_anchors = [Anchor.load(path) for path in store.anchor_paths if path.exists()]
        running = anchors.load_process_anchors(store.anchor_paths)
        verification = verification_runs.verify_newest(store)
        keyed = KeyedHash(store.key() if verification.holds else _key_or_empty(store))
        guarded = GuardedStore(store, (*given_anchors, *stored_anchors), keyed, running)
        guarded.damage = None if verification.holds else LedgerDamaged(verification.bad, verification.why)
        if verification.holds:
            # Anchors elsewhere are read before the lines: every line they know is here, or lost.
            other_anchors = {other for _, other in anchors.anchors_of_all_databases(strict=False)}
            with store.reading(
                (*mark_numbers(verification.lines), *anchored_numbers((*guarded.anchors, *other_anchors)))
            ) as rows:
                transaction = Transaction(rows, keyed.origin)
                guarded.memory.lineage = line_marks(transaction)
                if not transaction.moved_to:  # a moved ledger is charged no more
                    guarded.anchors += tuple(
                        other for other in other_anchors - {*guarded.anchors} if other.misses(transaction)
                    )
                guarded.missing = guarded.find_missing_line(transaction)
            guarded.save_anchors_of_ended_processes()
    except BaseException:
        store.close()
        raise
    return guarded


def _key_or_empty(store: Store) -> bytes:
    """Return the key of a damaged ledger if it can be read, so that the rest can still be inspected."""
    try:
        return store.key()
    except LedgerUnavailable:
        return b""


def _require_same_terms(name: str, terms: Terms, requested_terms: Terms) -> None:
    if (terms.per, terms.period_of) != (requested_terms.per, requested_terms.period_of):
        raise _periods_differ_error(name, terms)
    differing = [
        part
        for part, is_equal in (
            ("unit", terms.unit == requested_terms.unit),
            ("budget", _is_same_budget(terms.budget, requested_terms.budget)),
        )
        if not is_equal
    ]
    if differing:
        other = " and ".join(differing)
        raise AccountDiffers(
            f"the account was opened with a different {other}; its own terms are "
            f"'{terms.unit}, {terms.budget.promise}'",
            place=f"account {name!r}",
            fix="open it with its own terms; as the owner, change its budget with `sfumato budget amend "
            "--reason …`, or account.amend(…, reason=…)",
        )


def _periods_differ_error(name: str, terms: Terms) -> AccountDiffers:
    if terms.period_of:
        rule, fix = f"this is the account of one period of {terms.period_of!r}", "give the policy another name"
    else:
        existing = f"one budget for each {terms.per}" if terms.per else "one budget for all periods"
        rule = f"the account was opened with {existing}, and that cannot change"
        fix = f'write per = "{terms.per}" beside epsilon' if terms.per else "remove per from the budget"
    return AccountDiffers(rule, place=f"account {name!r}", fix=fix)


def _is_same_budget(stored: Budget, requested: Budget) -> bool:
    """Return whether two budgets are equal.

    The default order is computed in floats, to six digits: another machine may compute another last digit. It also
    depends on ε and δ, which an amendment changes while the account's order stays: a request without an order means the
    account's own. What is enforced are the account's terms in any case.
    """
    exact_fields = ("epsilon", "delta", "reserve", "neighbours")
    if not all(getattr(stored, name) == getattr(requested, name) for name in exact_fields):
        return False
    default_order = Budget(requested.epsilon, requested.delta, reserve=requested.reserve).order
    return _is_nearly_same_order(stored.order, requested.order) or (
        stored.order is not None and _is_nearly_same_order(default_order, requested.order)
    )


def _is_nearly_same_order(one: Fraction | None, other: Fraction | None) -> bool:
    return one is other if one is None or other is None else abs(one - other) <= one / 10**5
