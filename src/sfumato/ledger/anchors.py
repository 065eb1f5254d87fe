"""Anchors: the head and the totals of a ledger, small enough to keep elsewhere.

Whoever can write the file can rewrite all of it, hashes included; a chain alone cannot show that its end was cut off.
An anchor kept in another place can: a ledger that does not contain the anchor's line is refused for charging.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from sfumato.errors import InvalidParameter
from sfumato.ledger.desk import Desk, Terms
from sfumato.ledger.purse import Purse
from sfumato.privacy import Cost, codec


@codec.value
@dataclass(frozen=True)
class AnchoredAccount:
    """An account as it stood at the anchor; what tabs held counts as spent."""

    name: str
    terms: Terms
    total: Cost


@codec.value
@dataclass(frozen=True)
class Anchor:
    """Line ``number`` has this hash, and the accounts stood like this."""

    number: int
    hash: str
    accounts: tuple[AnchoredAccount, ...] = ()

    def __post_init__(self) -> None:
        if type(self.number) is not int or self.number < 0:
            raise InvalidParameter("number", self.number, "a whole number ≥ 0")
        if not isinstance(self.hash, str) or len(self.hash) != 64:
            raise InvalidParameter("hash", self.hash, "64 hexadecimal digits")
        object.__setattr__(self, "accounts", tuple(self.accounts))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Anchor:
        found = codec.loads(Path(path).read_text())
        if not isinstance(found, Anchor):
            raise InvalidParameter("anchor", type(found).__name__, "an Anchor")
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Written beside and renamed: there is always a whole anchor under the name."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(codec.dumps(self))
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

    def holds(self, desk: Desk) -> bool:
        """Whether the ledger still contains the anchored line, or its owner has accepted that it does not."""
        return (
            self.number == 0
            or desk.has(self.number, self.hash)
            or any(row.data == self.hash for row in desk.page({"kind": "acknowledge"}))
        )


def anchored(desk: Desk) -> Anchor:
    """The anchor of this moment."""
    if desk.head is None:
        accounts = tuple(_account(desk, row.account) for row in desk.page({"kind": "account-open"}))
    return Anchor(head.number, head.hash, accounts)


def _account(desk: Desk, name: str) -> AnchoredAccount:
    last = desk.newest(account=name)
    assert last is not None  # its opening is a line of its own
    return AnchoredAccount(name, desk.terms(last.terms), Purse.of(last.purse).total)
