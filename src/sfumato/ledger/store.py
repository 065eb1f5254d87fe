"""A store is whatever keeps the lines: it appends in an exclusive durable transaction and selects by equality.

Everything the ledger knows about money is above it; everything about files, locks and drivers is below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from sfumato.ledger.bodies import Bodies
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

    def starting(self, equal: Where, plan: Starting, *, limit: int) -> Sequence[Row]:
        """Select the newest answers whose plan starts so and whose other columns equal these, from the last."""

    def append(self, row: Row) -> None: ...

    def under_way(self, equal: Where) -> Sequence[UnderWay]:
        """List the charges under way whose columns equal these, by number."""

    def begin(self, charge: UnderWay) -> None: ...

    def end(self, number: int) -> None:
        """The charge of this number is answered or stopped; nothing happens if it was not under way."""


class Store(Protocol):
    place: str
    """Where the lines are kept, in words for people."""
    bodies: Bodies
    """Where large answers are kept."""

    def reading(self) -> AbstractContextManager[Rows]:
        """Open one consistent view."""

    def writing(self) -> AbstractContextManager[Rows]:
        """Nobody else writes meanwhile; what was appended is durable when the block has ended, or nothing is."""

    def key(self) -> bytes:
        """Read the random key in its header, made with it and never changed."""

    def misshapen(self) -> str | None:
        """Find what is wrong with its shape: tables, indexes, triggers. Quick."""

    def fault(self) -> str | None:
        """Find what is wrong with its content apart from the lines: indexes, structure. This reads all of it."""

    def backup(self, place: object) -> None:
        """Make a copy of this moment, with all large answers that its lines refer to."""

    def close(self) -> None: ...
