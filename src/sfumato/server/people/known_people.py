"""People are whom a server knows: users with a role, the tokens they show, the sessions they are signed in to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction


class Role(StrEnum):
    """A role says which calls a user may make."""

    OWNER = "owner"
    """Users, tokens, shares, amendments, pauses and all history."""
    ANALYST = "analyst"
    """Questions within the share that a policy gives, and their own history."""
    AUDITOR = "auditor"
    """All history, receipts, verification and export; no questions."""


@dataclass(frozen=True)
class User:
    """A user is one person, or one program, that the server knows by name."""

    name: str
    role: Role
    made: datetime
    disabled: bool = False


@dataclass(frozen=True)
class Token:
    """A token lets its holder call as a user. Its text is shown once and then known as a hash alone."""

    number: int
    user: str
    label: str
    made: datetime
    expires: datetime | None
    most: Fraction | None
    """The sum of the ε of all releases that it may ever pay for; None: whatever its user may spend."""
    spent: Fraction
    """What of that is used up: by charges, and by what was reserved when a process ended without saying more."""
    revoked: bool = False


@dataclass(frozen=True)
class Login:
    """A login is a session in a browser."""

    user: str
    expires: datetime
    form_token: str
    """What a form must send back, which no other site knows."""


@dataclass(frozen=True)
class Act:
    """An act is something that an owner did, written down for ever."""

    number: int
    time: datetime
    by: str
    act: str
    about: str
