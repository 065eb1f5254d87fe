"""People are whom a server knows: users with a role, the tokens they show, the sessions they are signed in to.

A caller is who makes a call, as far as everything behind the door has to know.

A refusal tells whoever asks about their call, and only the owner about the server's own files.

Where a ledger lies, and which file cannot be read, is for whoever runs the server: owners are told, and for calls of
others it is printed where the server runs. Which refusals are kept so is decided by their kind and by the form of their
place, never by what is on the disk, so nobody can test a guess of a path.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from sfumato.errors import LedgerBehind, LedgerDamaged, LedgerInDoubt, LedgerUnavailable, NotAllowed, SfumatoError


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


@dataclass(frozen=True)
class Credentials:
    """Credentials are what a call shows: a token, or the cookie of a session. They are never printed."""

    token: str | None = field(default=None, repr=False)
    cookie: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Caller:
    """A caller is a user who is known, and what they showed."""

    user: str
    role: Role
    token: Token | None = None
    session: Login | None = None

    def require(self, call: str, *roles: Role) -> None:
        """Refuse a call that belongs to other roles."""
        if self.role not in roles:
            raise NotAllowed(self.role.value, call)


_FIX = "try again later; if it stays so, ask the owner, who is told why"


def told(error: BaseException, role: Role | None) -> BaseException:
    """Give what is told of an error to somebody in a role, or to nobody that is known."""
    if role is Role.OWNER or not isinstance(error, SfumatoError):
        return error
    if isinstance(error, (LedgerDamaged, LedgerBehind)) and role is Role.AUDITOR:
        return error  # that is what auditors look for, and it names lines
    if isinstance(error, LedgerInDoubt):
        # It is about the call: whoever asked must know that it may be charged, and how to ask again for nothing.
        return LedgerInDoubt(error.first, error.last, error.request_id, place="the server")
    if isinstance(error, LedgerUnavailable):
        print(f"{type(error).__name__}: {error.rule} ({error.place})", file=sys.stderr, flush=True)  # noqa: T201
        return LedgerUnavailable("the server's files cannot be used now", place="the server", fix=_FIX)
    if type(error) is SfumatoError or error.place.startswith(os.sep):
        return SfumatoError("the server cannot do this now", place="the server", fix=_FIX)
    return error
