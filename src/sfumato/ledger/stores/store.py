"""A store is whatever keeps the lines: it appends in an exclusive durable transaction and selects by equality.

Everything the ledger knows about money is above it; everything about files, locks and drivers is below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from sfumato.ledger.sealed_rows import Row


class Starting(NamedTuple):
    """This stands for all values of a column that begin with a text, which is not empty."""

    text: str

    @property
    def after(self) -> str:
        """Give the least text, in the order of letters, that is after all of them."""
        return self.text[:-1] + chr(ord(self.text[-1]) + 1)


Where = Mapping[str, str | int]
"""Columns and the values they must have."""


class UnderWay(NamedTuple):
    """A charge is under way until it is answered. Others who ask the same wait for it instead of paying."""

    number: int
    """The line of the charge."""
    time: int
    account: str
    analyst: str
    request: str
    plan: str
    data: str
    accuracy: str
    """JSON: the half-widths that the answer will have."""
    payer: str
    """The process that charged and will answer."""


class Rows(Protocol):
    """These are the lines inside one transaction."""

    def select(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int
    ) -> Sequence[Row]:
        """Select lines whose columns equal these, by number (``newest``: from the last), strictly between after and
        before; a negative limit is none.
        """

    def starting(self, equal: Where, plan: Starting, *, after: int, limit: int) -> Sequence[Row]:
        """Select the first answers after a line whose plan starts so and whose other columns equal these, by number."""

    def append(self, row: Row) -> None: ...

    def under_way(self, equal: Where) -> Sequence[UnderWay]:
        """List the charges under way whose columns equal these, by number."""

    def begin(self, charge: UnderWay) -> None: ...

    def end(self, number: int) -> None:
        """The charge of this number is answered or stopped; nothing happens if it was not under way."""

    def now(self) -> int:
        """Tell the time where the lines are kept, in microseconds since 1970, UTC."""


class Bodies(Protocol):
    """These are the large answers of one ledger, each under its SHA-256."""

    def keep(self, body: str) -> str:
        """Write a body; the hash that names it. It is durable on return."""

    def read(self, digest: str) -> str | None:
        """Read the body of this hash; None where it is missing or was changed."""


class Store(Protocol):
    @property
    def name(self) -> str:
        """Give what people call it: a file's name, or a database."""

    @property
    def place(self) -> str:
        """Say where the lines are kept, in words for people."""

    @property
    def address(self) -> str:
        """Write how it is opened again: by its path, or by its address with the schema."""

    @property
    def identity(self) -> str:
        """Tell this ledger from every other one."""

    @property
    def is_backup(self) -> bool:
        """Tell whether it was made as a backup, which may lack what was charged since."""

    @property
    def bodies(self) -> Bodies:
        """Give where large answers are kept."""

    @property
    def anchor_places(self) -> tuple[Path, ...]:
        """List the files in which this user's anchors of it are kept."""

    @property
    def shared(self) -> bool:
        """Tell whether processes on other machines write to it, too."""

    @property
    def durability(self) -> str:
        """Say in words what a commit waits for."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """List by what charges could be forgotten or changed, which its owner should know."""

    def reading(self, numbers: Sequence[int] = ()) -> AbstractContextManager[Rows]:
        """Open one consistent view, in which lines of these ``numbers`` are looked at in any case."""

    def writing(self, numbers: Sequence[int] = (), *, moving: bool = False) -> AbstractContextManager[Rows]:
        """Nobody else writes meanwhile; what was appended is durable when the block has ended, or nothing is.

        Lines of these ``numbers`` are looked at in any case: a store that is far away fetches them at once. Whoever is
        ``moving`` the ledger may take long between two statements.
        """

    def settled(self, number: int, seal: str) -> bool:
        """Tell whether this line was written, once nobody can be writing it any more."""

    def now(self) -> int:
        """Tell the time where the lines are kept, in microseconds since 1970, UTC."""

    def key(self) -> bytes:
        """Read the random key in its header, made with it and never changed."""

    def misshapen(self) -> str | None:
        """Find what is wrong with its shape: tables, indexes, triggers. Quick."""

    def fault(self) -> str | None:
        """Find what is wrong with its content apart from the lines: indexes, structure. This reads all of it."""

    def backup(self, place: object) -> None:
        """Make a copy of this moment, with all large answers that its lines refer to."""

    def require_owner(self) -> None:
        """Refuse whoever may spend, and may not move the ledger."""

    def close(self) -> None: ...
