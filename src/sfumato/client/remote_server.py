"""The calls of owners and auditors to a server: users, tokens, acts, pauses and its ledger."""

from __future__ import annotations

import os
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.client.wire import Wire
from sfumato.client.wire_values import encode_named
from sfumato.errors import InvalidParameter, ServerUnavailable
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import refuse_malformed

if TYPE_CHECKING:
    from sfumato.ledger import Anchor, Verification

_EXPORT_MEDIA = {"json": "application/json", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.file"}


@dataclass(frozen=True)
class ServerUser:
    """A user of a server."""

    name: str
    role: str
    made: datetime
    disabled: bool


@dataclass(frozen=True)
class ServerToken:
    """A token of a user, without its secret text."""

    number: int
    user: str
    label: str
    made: datetime
    expires: datetime | None
    most: Fraction | None
    """The most ε that it may ever spend; None for no limit of its own."""
    spent: Fraction
    revoked: bool


@dataclass(frozen=True)
class OwnerAct:
    """A recorded act of an owner."""

    number: int
    time: datetime
    by: str
    act: str
    about: str


class RemoteServer:
    """A server, as its owners and auditors administer it with their token."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def users(self) -> tuple[ServerUser, ...]:
        return tuple(_decode_user(each) for each in self._wire.get("users")["users"])

    def add_user(self, name: str, role: str = "analyst") -> ServerUser:
        """Add an analyst, an owner or an auditor."""
        return _decode_user(self._wire.send("POST", ("users",), {"name": name, "role": role}))

    def disable_user(self, name: str, *, disabled: bool = True) -> ServerUser:
        """Lock a user out at once, or let them in again."""
        return _decode_user(self._wire.send("PUT", ("users", name), {"disabled": disabled}))

    def login_link(self, name: str) -> str:
        """Return a link with which a user signs in once, within 15 minutes."""
        return f"{self._wire.address.base.rstrip('/')}{self._wire.send('POST', ('links',), {'user': name})['path']}"

    def tokens(self) -> tuple[ServerToken, ...]:
        return tuple(_decode_token(each) for each in self._wire.get("tokens")["tokens"])

    def new_token(
        self, user: str, *, days: int | None = None, most: Number | None = None, label: str = ""
    ) -> tuple[ServerToken, str]:
        """Create a token; its secret text is returned this once."""
        reply = self._wire.send("POST", ("tokens",), encode_named(user=user, days=days, most=most, label=label))
        return _decode_token(reply["token"]), str(reply["text"])

    def revoke_token(self, number: int) -> ServerToken:
        return _decode_token(self._wire.send("DELETE", ("tokens", str(number))))

    def acts(self, after: int = 0, limit: int = 100) -> tuple[OwnerAct, ...]:
        """List the recorded acts of owners after a number, oldest first."""
        with _refuse_malformed_reply():
            replies = self._wire.get("acts", after=after, limit=limit)["acts"]
            return tuple(OwnerAct(**{**each, "time": datetime.fromisoformat(each["time"])}) for each in replies)

    def verify(self) -> Verification:
        """Verify every line of the server's ledger, at the server."""
        from sfumato.ledger import Verification

        reply = self._wire.get("ledger", "verify")
        return Verification(reply["lines"], reply["bad"], "" if reply["holds"] else str(reply["words"]))

    def anchor(self) -> Anchor:
        """Return the ledger's head and totals, to be kept elsewhere."""
        import json

        from sfumato.ledger import Anchor
        from sfumato.privacy import codec

        return codec.loads_as(Anchor, json.dumps(self._wire.get("ledger", "anchor")))

    def export(self, form: str, path: str | os.PathLike[str]) -> None:
        """Write every line of the server's ledger to a new file here, as "json", "csv" or "arrow"."""
        if not isinstance(form, str) or form not in _EXPORT_MEDIA:
            raise InvalidParameter("form", form, "one of " + ", ".join(sorted(_EXPORT_MEDIA)))
        self._wire.download(path, _EXPORT_MEDIA[form], "ledger", "export", form=form)

    def __repr__(self) -> str:
        return f"<Server {self._wire.address.label}: .users() .tokens() .acts() .verify() .export(…)>"


def _refuse_malformed_reply() -> Any:
    return refuse_malformed(lambda: ServerUnavailable("the server's reply cannot be decoded", place="the server"))


def _decode_user(reply: Any) -> ServerUser:
    with _refuse_malformed_reply():
        return ServerUser(
            str(reply["name"]), str(reply["role"]), datetime.fromisoformat(reply["made"]), bool(reply["disabled"])
        )


def _decode_token(reply: Any) -> ServerToken:
    with _refuse_malformed_reply():
        expires, most = reply["expires"], reply["most"]
        return ServerToken(
            int(reply["number"]),
            str(reply["user"]),
            str(reply["label"]),
            datetime.fromisoformat(reply["made"]),
            None if expires is None else datetime.fromisoformat(expires),
            None if most is None else Fraction(most),
            Fraction(reply["spent"]),
            bool(reply["revoked"]),
        )
