"""A caller is who makes a call, as far as everything behind the door has to know."""

from __future__ import annotations

from dataclasses import dataclass, field

from sfumato.errors import NotAllowed
from sfumato.server.people.known_people import Login, Role, Token


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
