"""An anchor keeps the head and the totals of a ledger, small enough to be kept elsewhere.

Whoever can write the file can rewrite all of it, hashes included; a chain alone cannot show that its end was cut off.
An anchor kept in another place can: a ledger that does not contain the anchor's line is refused for charging.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sfumato.errors import AccountDiffers, InvalidParameter, LedgerUnavailable
from sfumato.ledger import entries, local_files
from sfumato.ledger.sealed_rows import FIRST, Row
from sfumato.ledger.spending import NOTHING, read_cost, read_spending
from sfumato.ledger.transaction import Terms, Transaction
from sfumato.privacy import Cost, codec
from sfumato.untrusted import UNREADABLE


@codec.value("anchored-account")
@dataclass(frozen=True)
class AnchoredAccount:
    """This is an account as it stood at the anchor; what tabs held counts as spent."""

    name: str
    terms: Terms
    total: Cost

    def __post_init__(self) -> None:
        entries.name(self.name, "account")
        if not isinstance(self.terms, Terms) or not isinstance(self.total, Cost):
            raise InvalidParameter("accounts", self.name, "accounts with their terms and totals")


@codec.value("anchor")
@dataclass(frozen=True)
class Anchor:
    """Line ``number`` has this hash, and the accounts stood like this."""

    number: int
    hash: str
    accounts: tuple[AnchoredAccount, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    """Numbers and hashes of lines before it, ever further apart: they tell where another history has parted."""
    moved: str = ""
    """Where the ledger was moved to, if this line says so."""

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number < 0:
            raise InvalidParameter("number", self.number, "a whole number ≥ 0")
        if not isinstance(self.hash, str) or len(self.hash) != 64:
            raise InvalidParameter("hash", self.hash, "64 hexadecimal digits")
        known = isinstance(self.accounts, (tuple, list)) and all(isinstance(a, AnchoredAccount) for a in self.accounts)
        if not known or bool(self.accounts) is not (self.number > 0):
            raise InvalidParameter(
                "accounts", self.accounts, "the accounts of the ledger, of which the first line is one"
            )
        object.__setattr__(self, "accounts", tuple(self.accounts))
        if not isinstance(self.marks, (tuple, list)) or not all(_is_mark(mark) for mark in self.marks):
            raise InvalidParameter("marks", self.marks, "pairs of a line's number and its hash")
        object.__setattr__(self, "marks", tuple((number, seal) for number, seal in self.marks))
        if type(self.moved) is not str:
            raise InvalidParameter("moved", self.moved, "a text")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Anchor:
        file = Path(local_files.address(path, "anchor"))
        try:
            found = _decoded(file.read_text())
        except UNREADABLE as error:
            raise _unreadable(file) from error
        if not isinstance(found, Anchor):
            raise _unreadable(file)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write beside and rename: there is always a whole anchor under the name."""
        target = Path(local_files.address(path, "path"))
        partial = local_files.scratch(target)
        try:
            with open(partial, "w") as file:
                file.write(codec.dumps(self))
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

    def knows(self, transaction: Transaction) -> bool:
        """Tell whether it is of this ledger, wherever it was kept then: it knows a line that is in it."""
        return self.number > 0 and any(transaction.has(*line) for line in ((self.number, self.hash), *self.marks))

    def misses(self, transaction: Transaction) -> bool:
        """Tell whether it is of this ledger, wherever it was kept then, and knows a line that is lost. The line by
        which a ledger was moved is in the old one alone.
        """
        lines = self.marks[:1] if self.moved else ()
        return (
            self.knows(transaction)
            and not any(transaction.has(*line) for line in lines)
            and not self.holds(transaction)
        )

    def holds(self, transaction: Transaction) -> bool:
        """Tell whether the ledger still contains the anchored line, or its owner has accepted that it does not, and all
        that this anchor knows was added: another anchor of the same line may know less.
        """
        if self.number == 0 or transaction.has(self.number, self.hash):
            return True
        lost = Lost.of(self, transaction)
        return lost.accepted and all(lost.missing(account).nothing for account in self.accounts)


@dataclass(frozen=True)
class Lost:
    """This is what an anchor knows of lines that a ledger lacks."""

    anchor: Anchor
    transaction: Transaction
    common: int
    """The last line that the ledger surely shares with the anchor's history; 0 when none is known."""
    rows: tuple[Row, ...]
    """The lines in which its owner has accepted that the anchor's line is lost."""

    @classmethod
    def of(cls, anchor: Anchor, transaction: Transaction) -> Lost:
        common = max((number for number, seal in anchor.marks if transaction.has(number, seal)), default=0)
        rows = transaction.page({"kind": "acknowledge"}, after=common)
        return cls(anchor, transaction, common, tuple(row for row in rows if row.data == anchor.hash))

    @property
    def accepted(self) -> bool:
        return bool(self.rows)

    def missing(self, known: AnchoredAccount) -> Cost:
        """Compute what is to be added to an account.

        Theorem: the totals end at no less than all that was spent. Let S stand at the common line, T at the anchor's,
        and let A be accepted for the anchor's line before. A was added here, so S + A + N stands, where N are the other
        charges. T − S − A is added where that is more than nothing: at least T + N stands then. What was accepted for
        another line is part of N, so it is never taken off: it may be that of another history.
        """
        equal = {"account": known.name}
        shared = self.transaction.page(equal, newest=True, before=self.common + 1, limit=1) if self.common else []
        stands = read_spending(shared[0].totals).total if shared else NOTHING
        accepted = [read_cost(row.cost) for row in self.rows if row.account == known.name]
        return _difference(known.total, [stands, *accepted])


def looked_at(anchors: Iterable[Anchor]) -> list[int]:
    """List the numbers of all lines that anchors know: a store that is far away fetches them at once."""
    return [number for each in anchors for number, _ in ((each.number, each.hash), *each.marks) if number]


def _is_mark(mark: object) -> bool:
    return isinstance(mark, (tuple, list)) and [type(part) for part in mark] == [int, str]


def _unreadable(path: Path) -> LedgerUnavailable:
    return LedgerUnavailable(
        "the anchor cannot be read", place=str(path), fix="put back the anchor that was kept, or remove this file"
    )


def anchored(transaction: Transaction) -> Anchor:
    """Make the anchor of this moment."""
    if transaction.head is None:
        return Anchor(0, FIRST)
    accounts = tuple(_account(transaction, row.account) for row in transaction.page({"kind": "account-open"}))
    head, *marks = marks_of(transaction)
    return Anchor(*head, accounts, tuple(marks), transaction.moved_to)


def marks_of(transaction: Transaction) -> tuple[tuple[int, str], ...]:
    """Give number and hash of the last line, and of lines before it, ever further apart."""
    if transaction.head is None:
        return ()
    rows = map(transaction.line, mark_numbers(transaction.head.number))
    return tuple((row.number, row.hash) for row in rows if row is not None)


def mark_numbers(last: int) -> list[int]:
    """List the numbers of a last line and of lines before it, ever further apart."""
    return [last, *(last - (1 << power) for power in range(last.bit_length()) if last > 1 << power)] if last else []


def _account(transaction: Transaction, name: str) -> AnchoredAccount:
    last = transaction.last(name)
    return AnchoredAccount(name, transaction.terms(last.terms), read_spending(last.totals).total)


def accept(transaction: Transaction, anchors: Iterable[Anchor], reason: str) -> list[Row]:
    """Append lines that add to every account what anchors know was spent and is lost, and say that their own lines are.

    What stands here after the last common line was spent too, in another history: both count. Lost lines of which two
    anchors know count twice, because nobody can tell whether they were the same.
    """
    lost = sorted({each for each in anchors if not each.holds(transaction)}, key=lambda each: each.number)
    return [row for anchor in lost for row in _accept(transaction, anchor, reason)]


def _accept(transaction: Transaction, anchor: Anchor, reason: str) -> list[Row]:
    lost = Lost.of(anchor, transaction)
    found: list[Row] = []
    for account in anchor.accounts:
        _require_account(transaction, account)
        cost = lost.missing(account)
        if not cost.nothing or not (found or lost.accepted):
            columns = {"data": anchor.hash, "question": reason}
            found.append(transaction.append("acknowledge", account.name, columns, cost=cost))
    return found


def _require_account(transaction: Transaction, known: AnchoredAccount) -> None:
    """Open an account that is lost; refuse one that is counted in another currency."""
    if transaction.newest(account=known.name) is None:
        transaction.append("account-open", known.name, {"detail": codec.dumps(known.terms)})
    last = transaction.last(known.name)
    if transaction.terms(last.terms).budget.order != known.terms.budget.order:
        raise AccountDiffers(
            "the anchor counts this account in another currency",
            place=f"account {known.name!r}",
            fix="give the anchor that belongs to this ledger",
        )


def _difference(known: Cost, found: Sequence[Cost]) -> Cost:
    """Compute what the known totals are above the sum of those found.

    The sum is exact, since it is taken off: only the difference is rounded up where its fraction is long.
    """
    pure = None if known.pure is None else max(0, known.pure - sum(cost.pure or 0 for cost in found))
    if any(cost.pure is None for cost in found):
        pure = 0  # closed already: it stays so
    renyi = None if known.renyi is None else max(0, known.renyi - sum(cost.renyi or 0 for cost in found))
    failure = max(0, known.failure - sum(cost.failure for cost in found))
    return Cost(pure, renyi, failure).with_short_fractions()


@lru_cache(maxsize=64)
def _decoded(text: str) -> object:
    """Read what a text holds; the same texts are read whenever a ledger is opened, and few of them change."""
    return codec.loads(text)
