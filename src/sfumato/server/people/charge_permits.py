"""A charge over a server is permitted at the moment it is made, and not only when it was asked for.

A release may wait long for its turn. So every charge asks once more, in the last step before the account is charged,
whether its policy is paused by now, its user is still let in, and its token still counts. Only a charge that has begun
at the very moment of the owner's act may still be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato.ledger.accounts.spending_limits import Reservation
from sfumato.server.people.caller import Caller
from sfumato.server.people.people_file import PeopleFile
from sfumato.server.people.token_limits import TokenLimit


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
