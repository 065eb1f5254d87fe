"""Users, roles, tokens and sessions, and which details of an error each role may see.

Errors about the server's own files (where the ledger is, which file cannot be read) are shown to owners; for other
callers they are printed on the server. Which errors are redacted depends on their class and on the form of their place,
never on the disk, so nobody can test guesses of a path.


"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from sfumato.errors import (
    InvalidParameter,
    LedgerBehind,
    LedgerDamaged,
    LedgerInDoubt,
    LedgerUnavailable,
    NotAllowed,
    SfumatoError,
)
from sfumato.ledger.accounts.reservations import SpendingLimit
from sfumato.quick_dataclass import dataclass


class Role(StrEnum):
    """A role decides which calls a user may make."""

    OWNER = "owner"
    """Manages users, tokens, shares, amendments and pauses; sees all history."""
    ANALYST = "analyst"
    """Asks questions within the share that a policy grants; sees their own history."""
    AUDITOR = "auditor"
    """Sees all history and receipts, verifies and exports the ledger; asks nothing."""


@dataclass(frozen=True)
class User:
    """A person or a program with an account on the server."""

    name: str
    role: Role
    made: datetime
    disabled: bool = False


@dataclass(frozen=True)
class Token:
    """A bearer token of a user. Its secret text is shown once; only a hash is stored."""

    number: int
    user: str
    label: str
    made: datetime
    expires: datetime | None
    most: Fraction | None
    """The lifetime limit on the ε of all releases it pays for; None for no limit of its own."""
    spent: Fraction
    """The ε used up: by charges, and by reservations of processes that died before settling them."""
    revoked: bool = False

    def end_reason(self, now: datetime) -> str:
        """Return why the token no longer works, "revoked" or "expired"; empty while it does."""
        if self.revoked:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else ""


@dataclass(frozen=True)
class BrowserSession:
    """A signed-in browser session."""

    user: str
    expires: datetime
    form_token: str
    """The CSRF token that every form must send back."""


@dataclass(frozen=True)
class Act:
    """A recorded act of an owner; never changed or removed."""

    number: int
    time: datetime
    by: str
    act: str
    about: str


@dataclass(frozen=True)
class Credentials:
    """The token or session cookie sent with a call. Never printed."""

    token: str | None = field(default=None, repr=False)
    cookie: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Caller:
    """An authenticated user, with the token or session that they used."""

    user: str
    role: Role
    token: Token | None = None
    session: BrowserSession | None = None
    limit: SpendingLimit | None = field(default=None, compare=False, repr=False)
    """The spending limit of the connection on which they call; None if it has none."""

    def require(self, call: str, *roles: Role) -> None:
        """Raise ``NotAllowed`` unless the caller has one of these roles."""
        if self.role not in roles:
            raise NotAllowed(self.role.value, call)

    def require_no_other_owner(self, user: User) -> None:
        """Refuse to sign in as another owner: the approvals of two owners are those of two people."""
        if user.role is Role.OWNER and user.name != self.user:
            rule = "yourself, an analyst or an auditor: whoever signs in as another owner could approve in their name"
            fix = "run `sfumato token new` or `sfumato user link` on the server's machine"
            raise InvalidParameter("user", user.name, rule, fix=fix)


_FIX = "try again later; if it fails again, ask the owner, who can see the reason"


def redact_error(error: BaseException, role: Role | None) -> BaseException:
    """Return the error as a caller in this role may see it (None: nobody is signed in), with details about the server's
    files removed.
    """
    if role is Role.OWNER or not isinstance(error, SfumatoError):
        return error
    if isinstance(error, (LedgerDamaged, LedgerBehind)) and role is Role.AUDITOR:
        return error  # auditors look for exactly this, and it names lines only
    if isinstance(error, LedgerInDoubt):
        # The caller must know that the call may be charged, and how to repeat it for free.
        return LedgerInDoubt(error.first, error.last, error.request_id, place="the server")
    if isinstance(error, LedgerUnavailable):
        print(f"{type(error).__name__}: {error.rule} ({error.place})", file=sys.stderr, flush=True)  # noqa: T201
        return LedgerUnavailable("the server cannot read or write its files", place="the server", fix=_FIX)
    if type(error) is SfumatoError or error.place.startswith(os.sep):
        return SfumatoError("the server cannot do this at the moment", place="the server", fix=_FIX)
    return error


@contextmanager
def redacted_errors(role: Role | None) -> Iterator[None]:
    """Replace raised errors by their redacted form for this role."""
    try:
        yield
    except SfumatoError as error:
        redacted = redact_error(error, role)
        if redacted is error:
            raise
        raise redacted from None
