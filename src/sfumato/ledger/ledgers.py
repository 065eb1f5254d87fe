"""The ledger: what was spent, by whom, on what, for every population, for ever."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Self

from sfumato.errors import AccountDiffers, InvalidParameter
from sfumato.ledger import entries
from sfumato.ledger.accounts import Account
from sfumato.ledger.book import Book
from sfumato.ledger.desk import Terms
from sfumato.ledger.entries import Line
from sfumato.ledger.sqlite import SQLiteStore
from sfumato.ledger.verifying import Checker, Verification
from sfumato.privacy import Budget, PrivacyUnit, codec
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact

_PAGE = 1000


class Ledger:
    """An append-only, hash-chained book of every charge and answer, in one file.

    Safe from threads and processes, and across fork. A charge is checked and written in one exclusive transaction and
    is on disk when it returns.
    """

    def __init__(self, book: Book) -> None:
        self._book = book

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: Number = 30) -> Self:
        """The ledger in this file, made when it is missing; ``timeout``: how many seconds to wait for a lock."""
        store = SQLiteStore(path, float(exact(timeout, "timeout", NONNEGATIVE)))
        return cls(Book(store, None))

    def account(self, name: str, *, unit: PrivacyUnit | None = None, budget: Budget | None = None) -> Account:
        """A population's account: opened on first use with these terms, which then are fixed for life."""
        entries.name(name, "account")
        asked = None if unit is None and budget is None else Terms(unit, budget)  # type: ignore[arg-type]
        with self._book.reading() as desk:
            known = desk.newest(account=name) is not None
        if not known:
            if asked is None:
                raise InvalidParameter("account", name, "an account of this ledger, or given with unit and budget")
            self._open_account(name, asked)
        with self._book.reading() as desk:
            terms = self._book.terms(desk, name)
        if asked is not None:
            _require_same(name, terms, asked)
        return Account(self._book, name, terms)

    def _open_account(self, name: str, terms: Terms) -> None:
        with self._book.writing() as desk:
            if desk.newest(account=name) is None:
                desk.append("account-open", name, {"detail": codec.dumps(terms)})

    def lines(
        self,
        *,
        account: str | None = None,
        analyst: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[Line]:
        """Lines in order, of one account or analyst, from ``since`` on and before ``until``."""
        equal = {key: value for key, value in (("account", account), ("analyst", analyst)) if value is not None}
        start = None if since is None else entries.microseconds(since, "since")
        end = None if until is None else entries.microseconds(until, "until")
        after = 0
        while True:
            with self._book.reading() as desk:
                rows = desk.page(equal, after=after, limit=_PAGE)
            for row in rows:
                if end is not None and row.time >= end:
                    return
                if start is None or row.time >= start:
                    yield Line.of(row)
            if len(rows) < _PAGE:
                return
            after = rows[-1].number

    def __iter__(self) -> Iterator[Line]:
        return self.lines()

    def verify(self) -> Verification:
        """Check everything: the file, every line, every link, every total; names the first bad line."""
        fault = self._book.store.fault()
        checker, after = Checker(), 0
        while True:
            with self._book.store.reading() as rows:
                page = rows.select({}, after=after, limit=_PAGE)
            found = checker.check(page)
            if not found.holds or len(page) < _PAGE:
                break
            after = page[-1].number
        return Verification(found.lines, None, fault) if found.holds and fault else found

    def close(self) -> None:
        self._book.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _require_same(name: str, terms: Terms, asked: Terms) -> None:
    differing = [part for part in ("unit", "budget") if getattr(terms, part) != getattr(asked, part)]
    if differing:
        raise AccountDiffers(
            f"the account was opened with another {' and another '.join(differing)}: {terms.unit}, {terms.budget!r}",
            place=f"account {name!r}",
            fix="open it with the terms it has; the owner may change a budget with account.amend(budget, reason=…)",
        )
