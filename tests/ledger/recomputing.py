"""Every charge computed again from the line that paid it: what was run, and on what sensitivity."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import sfumato as sf
from sfumato.errors import WeakLedger
from sfumato.ledger import spending
from sfumato.ledger.spending import write_cost
from sfumato.ledger.stores.sqlite import APPLICATION
from sfumato.ledger.transaction import Terms
from sfumato.privacy import codec


def ledgers(folder: Path) -> Iterator[Path]:
    """The ledgers under a folder: SQLite files with our number in their header."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size > 100:
            with path.open("rb") as file:
                head = file.read(72)
            if head.startswith(b"SQLite format 3") and head[68:72] == APPLICATION.to_bytes(4, "big"):
                yield path


_CHARGES = ("charge", "period", "step", "tab-open")


_Charges = set[tuple[str | None, ...]]
_RIGHT: _Charges = set()
"""Charges that were found to be right: what they cost follows from how the account was opened and from what was run."""


def _charges(path: Path) -> _Charges | None:
    """The charges of a ledger, each with the terms of its account; None where they cannot be read so quickly."""
    compared = "opening.detail, charge.kind, charge.parts, charge.cost, charge.left"
    opening = "lines AS opening ON opening.kind = 'account-open' AND opening.account = charge.account"
    found = f"SELECT {compared} FROM lines AS charge LEFT JOIN {opening} WHERE charge.kind IN {_CHARGES}"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return {*connection.execute(found)}
    except sqlite3.Error:
        return None


def _is_right(terms: str | None, kind: str, parts: str, cost: str, left: str | None) -> bool:
    """Whether a charge is surely right, by what the ledger says alone: else it is opened, and accounts are asked."""
    try:
        curve, price = _curve(parts), None
        if curve is not None:
            price = _terms(terms).budget.cost(curve)
    except Exception:
        return False
    paid = {cost, left} if kind == "tab-open" else {cost}
    if price is not None and write_cost(price) not in paid:
        return False
    _RIGHT.add((terms, kind, parts, cost, left))
    return True


@lru_cache(maxsize=1024)
def _terms(text: str | None) -> Terms:
    terms = codec.loads(text or "")
    assert isinstance(terms, Terms)
    return terms


def wrong(path: Path) -> list[str]:
    """What is wrong with the charges of a ledger; of one that was damaged on purpose, nothing is asked."""
    charges = _charges(path)
    if charges is not None and all(charge in _RIGHT or _is_right(*charge) for charge in charges):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakLedger)  # rolled back on purpose
        try:
            with sf.Ledger.open(path, timeout=0) as ledger:
                return _wrong_unless_damaged(ledger, charges or set())
        except sf.LedgerUnavailable:
            return []


def _wrong_unless_damaged(ledger: sf.Ledger, charges: _Charges) -> list[str]:
    """What is wrong, if the chain of hashes holds: it is verified where something is, which is seldom. Where nothing
    is, these charges are right in any ledger.
    """
    try:
        found = list(_wrong(ledger))
    except Exception:
        if ledger.verify().holds:
            raise
        return []
    if not found:
        _RIGHT.update(charges)
    return found if found and ledger.verify().holds else []


def _wrong(ledger: sf.Ledger) -> Iterator[str]:
    accounts = {name: ledger.account(name) for name in ledger.accounts}
    with ledger._guarded.reading() as transaction:
        rows = [row for kind in _CHARGES for row in transaction.page({"kind": kind})]
    for row in rows:
        curve = _curve(row.parts)
        paid = {row.cost, row.left} if row.kind == "tab-open" else {row.cost}  # a tab holds it, or has spent it whole
        if curve is None:
            continue
        price = accounts[row.account].cost(curve)
        if paid.isdisjoint({write_cost(price), write_cost(price.in_whole_units())}):  # before fractions were kept
            yield f"line {row.number} of {ledger._guarded.store.place} cost {row.cost} for {row.parts}"


@lru_cache(maxsize=4096)
def _curve(parts: str) -> sf.Curve | None:
    found = spending.read_parts(parts)
    return spending.compose_parts(found) if found else None
