"""Lifetime spending limits of tokens: every charge reserves its ε before it is made.

*Claim.* The ε of all charges that a token paid for add up to at most its limit, with any number of processes and
crashes. Every charge is preceded by a reservation of its ε, written in a transaction that admits it only if it fits
with all that is spent and reserved. A reservation leaves that sum only when the charge is known not to have been made;
one whose process has ended counts as spent. ∎

A reservation whose process was killed before the charge is lost to the token: the alternative would let it spend more
than its limit.

A charge is permitted at the moment it is made, not only when it was requested, because a release may wait long in the
queue. In the last step before the account is charged, the permit checks again that the policy is not paused, the user
is enabled and the token is valid. Only a charge that is already being written when the owner acts may still go through.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from fractions import Fraction
from functools import reduce

from sfumato.errors import NotSignedIn, Overspent
from sfumato.ledger import local_files
from sfumato.ledger.accounts.reservations import Reservation
from sfumato.privacy import amounts
from sfumato.privacy.amounts import charge_amount
from sfumato.privacy.numbers import amount_from_units
from sfumato.quick_dataclass import dataclass
from sfumato.server.people.database import PeopleDatabase
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.users import Caller


@dataclass(frozen=True)
class TokenLimit:
    """The spending limit of one token (``ledger.accounts.reservations``)."""

    database: PeopleDatabase
    token: int

    def reserve(self, epsilon: Fraction | None) -> _PendingTokenCharge:
        """Durably reserve this ε if it fits. Raises ``Overspent`` if it does not, ``NotSignedIn`` if the token was
        revoked.
        """
        with self.database.write_transaction() as transaction:
            _settle_dead_processes(transaction, self.token)
            limit, spent, revoked = transaction.execute(
                "SELECT most, spent, revoked FROM tokens WHERE number = ?", (self.token,)
            ).fetchone()
            if revoked:
                raise NotSignedIn
            reserved = [
                amounts.parse_amount(amount) for (amount,) in transaction.execute(_SELECT_RESERVED, (self.token,))
            ]
            remaining_units = (
                None
                if limit is None
                else max(
                    0,
                    amounts.parse_amount(limit) - reduce(amounts.add_rounded_up, reserved, amounts.parse_amount(spent)),
                )
            )
            amount = 0 if epsilon is None else charge_amount(epsilon)
            if remaining_units is None or (epsilon is not None and amount <= remaining_units):
                number = transaction.execute(
                    "INSERT INTO reservations (token, amount, process) VALUES (?, ?, ?)",
                    (self.token, amounts.format_amount(amount), local_files.current_process_name()),
                ).lastrowid
                assert number is not None
                return _PendingTokenCharge(self.database, number)
        remaining = amount_from_units(remaining_units)
        raise Overspent({"pure": epsilon}, {"pure": remaining}, remaining, place="this token")


_SELECT_RESERVED = "SELECT amount FROM reservations WHERE token = ? ORDER BY number"


@dataclass(frozen=True)
class _PendingTokenCharge:
    """An amount reserved while the account is being charged."""

    database: PeopleDatabase
    number: int

    def settle(self, *, charged: bool) -> None:
        """Turn the reservation into spending, or return it; if that cannot be written it stays reserved and is never
        spent.
        """
        with suppress(Exception), self.database.write_transaction() as transaction:
            _settle_reservation(transaction, self.number, charged=charged)


def _settle_reservation(transaction: sqlite3.Connection, number: int, *, charged: bool) -> None:
    reservation = transaction.execute(
        "DELETE FROM reservations WHERE number = ? RETURNING token, amount", (number,)
    ).fetchone()
    if reservation is not None and charged:
        (spent,) = transaction.execute("SELECT spent FROM tokens WHERE number = ?", (reservation[0],)).fetchone()
        total = amounts.format_amount(
            amounts.add_rounded_up(amounts.parse_amount(spent), amounts.parse_amount(reservation[1]))
        )
        transaction.execute("UPDATE tokens SET spent = ? WHERE number = ?", (total, reservation[0]))


def _settle_dead_processes(transaction: sqlite3.Connection, token: int) -> None:
    """Count reservations of ended processes as spent: it is not known here whether they charged."""
    for number, process in transaction.execute(
        "SELECT number, process FROM reservations WHERE token = ?", (token,)
    ).fetchall():
        if local_files.is_process_alive(process) is False:
            _settle_reservation(transaction, number, charged=True)


class ConnectionLimit:
    """The spending limit of one connection (``ledger.accounts.reservations``), kept in memory until it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent = Fraction(0)
        self.most: Fraction | None = None
        """None for no limit of its own."""

    def reserve(self, epsilon: Fraction | None) -> _PendingConnectionCharge:
        """Reserve this ε if it fits; Gaussian noise has no ε to count, and never fits a limit."""
        amount = Fraction(0) if epsilon is None else amount_from_units(charge_amount(epsilon))
        with self._lock:
            if self.most is None or (epsilon is not None and self._spent + amount <= self.most):
                self._spent += amount
                return _PendingConnectionCharge(self, amount)
            remaining = max(Fraction(0), self.most - self._spent)
        raise Overspent({"pure": epsilon}, {"pure": remaining}, remaining, place="this connection (sfumato.most)")

    def release_amount(self, amount: Fraction) -> None:
        with self._lock:
            self._spent -= amount


@dataclass(frozen=True)
class _PendingConnectionCharge:
    """An amount reserved while the account is being charged."""

    limit: ConnectionLimit
    amount: Fraction

    def settle(self, *, charged: bool) -> None:
        if not charged:
            self.limit.release_amount(self.amount)


class NoSpending:
    """A spending limit that allows no charge: only stored answers can be returned."""

    def reserve(self, epsilon: Fraction | None) -> _PendingTokenCharge:  # noqa: ARG002
        raise AnswerNotStored


class AnswerNotStored(Exception):
    """The answer is not stored and would have to be bought."""


@dataclass(frozen=True)
class ChargePermit:
    """Permission to charge one caller for one policy, within their token's limit (a ``ledger.accounts.reservations``
    limit).
    """

    people: PeopleFile
    policy: str
    caller: Caller

    def reserve(self, epsilon: Fraction | None) -> Reservation:
        """Check again that the policy and the user are not shut out, then reserve this ε for the token."""
        token = self.caller.token
        self.people.require_enabled(self.caller.user, None if token is None else token.number)
        self.people.require_not_paused(self.policy)
        if token is None:
            return _NoReservation()
        by_connection = (self.caller.limit or ConnectionLimit()).reserve(epsilon)
        try:
            return _BothReservations(by_connection, TokenLimit(self.people.database, token.number).reserve(epsilon))
        except BaseException:
            by_connection.settle(charged=False)
            raise


@dataclass(frozen=True)
class _BothReservations:
    """The reservations of a charge with its connection and with its token."""

    by_connection: Reservation
    by_token: Reservation

    def settle(self, *, charged: bool) -> None:
        self.by_connection.settle(charged=charged)
        self.by_token.settle(charged=charged)


class _NoReservation:
    """The empty reservation of a caller without a token, who is limited by the account alone."""

    def settle(self, *, charged: bool) -> None:
        """Do nothing."""
