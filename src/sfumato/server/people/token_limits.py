"""A token has a limit for all that it may ever spend, within which every charge is reserved before it is made.

*Claim.* The ε of all charges that a token paid for add up to at most its limit, whatever processes and crashes there
are. Every charge is preceded by a reservation of its ε, written in a transaction that admits it only if it fits with
all that is spent and reserved. A reservation leaves that sum only when the charge is known not to have been made; one
whose process has ended is counted as spent. ∎

What was reserved and never charged, because a process was killed in between, is lost to the token: the other way round
would let it spend more than its limit.

A charge over a server is permitted at the moment it is made, and not only when it was asked for.

A release may wait long for its turn. So every charge asks once more, in the last step before the account is charged,
whether its policy is paused by now, its user is still let in, and its token still counts. Only a charge that has begun
at the very moment of the owner's act may still be written.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from sfumato.errors import NotSignedIn, Overspent
from sfumato.ledger import local_files
from sfumato.ledger.accounts.spending_limits import Reservation
from sfumato.privacy import amounts
from sfumato.privacy.amounts import charge_amount
from sfumato.privacy.numbers import from_units
from sfumato.server.people.database import PeopleDatabase
from sfumato.server.people.known_people import Caller
from sfumato.server.people.people_file import PeopleFile


@dataclass(frozen=True)
class TokenLimit:
    """This is the spending limit of one token (``ledger.spending_limits``)."""

    database: PeopleDatabase
    token: int

    def reserve(self, epsilon: Fraction | None) -> _Reserved:
        """Set this ε aside, durably, if it fits; a token that was revoked meanwhile reserves nothing."""
        with self.database.writing() as rows:
            _count_the_dead(rows, self.token)
            most, spent, revoked = rows.execute(
                "SELECT most, spent, revoked FROM tokens WHERE number = ?", (self.token,)
            ).fetchone()
            if revoked:
                raise NotSignedIn
            held = [amounts.read(amount) for (amount,) in rows.execute(_RESERVED, (self.token,))]
            left = None if most is None else max(0, amounts.read(most) - reduce(amounts.add, held, amounts.read(spent)))
            amount = 0 if epsilon is None else charge_amount(epsilon)
            if left is None or (epsilon is not None and amount <= left):
                number = rows.execute(
                    "INSERT INTO reservations (token, amount, process) VALUES (?, ?, ?)",
                    (self.token, amounts.write(amount), local_files.this_process()),
                ).lastrowid
                assert number is not None
                return _Reserved(self.database, number)
        rest = from_units(left)
        raise Overspent({"pure": epsilon}, {"pure": rest}, rest, place="the token's limit")


_RESERVED = "SELECT amount FROM reservations WHERE token = ? ORDER BY number"


@dataclass(frozen=True)
class _Reserved:
    """This is an amount that is set aside while the account is charged."""

    database: PeopleDatabase
    number: int

    def settle(self, *, charged: bool) -> None:
        """Count it as spent, or give it back; what cannot be written stays reserved, and nobody spends it again."""
        with suppress(Exception), self.database.writing() as rows:
            _settle(rows, self.number, charged=charged)


def _settle(rows: sqlite3.Connection, number: int, *, charged: bool) -> None:
    found = rows.execute("DELETE FROM reservations WHERE number = ? RETURNING token, amount", (number,)).fetchone()
    if found is not None and charged:
        (spent,) = rows.execute("SELECT spent FROM tokens WHERE number = ?", (found[0],)).fetchone()
        total = amounts.write(amounts.add(amounts.read(spent), amounts.read(found[1])))
        rows.execute("UPDATE tokens SET spent = ? WHERE number = ?", (total, found[0]))


def _count_the_dead(rows: sqlite3.Connection, token: int) -> None:
    """Count as spent what processes reserved that have ended since: whether they charged is not known here."""
    for number, process in rows.execute(
        "SELECT number, process FROM reservations WHERE token = ?", (token,)
    ).fetchall():
        if local_files.alive(process) is False:
            _settle(rows, number, charged=True)


class NothingSpent:
    """This is a limit within which nothing can be charged: what was bought before is all there is."""

    def reserve(self, epsilon: Fraction | None) -> _Reserved:  # noqa: ARG002
        raise NotStored


class NotStored(Exception):
    """An answer would have to be bought."""


@dataclass(frozen=True)
class ChargePermit:
    """A permit lets one caller be charged for one policy, within what their token may spend: it is a spending limit
    (``ledger.spending_limits``).
    """

    people: PeopleFile
    policy: str
    caller: Caller

    def reserve(self, epsilon: Fraction | None) -> Reservation:
        """Refuse where the owner has shut the policy or the user out since; else set this ε aside for the token."""
        token = self.caller.token
        self.people.require_let_in(self.caller.user, None if token is None else token.number)
        self.people.require_open(self.policy)
        return _Unlimited() if token is None else TokenLimit(self.people.database, token.number).reserve(epsilon)


class _Unlimited:
    """This is set aside for who shows no token and has no limit beside the account: nothing."""

    def settle(self, *, charged: bool) -> None:
        """There is nothing to count or to give back."""
