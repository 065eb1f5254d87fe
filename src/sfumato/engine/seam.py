"""The seam says what the system asks of an engine, in terms in which no database is named.

A driver implements ``Engine``. It decides nothing about privacy: limits, ranges and sensitivities are in the bounded
plan of a reading, and a driver is right when what it reads is what the reading means, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import World
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy import Domain, InMemory


@dataclass(frozen=True)
class DataIdentity:
    """An engine identifies data by where they are, and by what tells whether they are the same. PRIVATE."""

    address: str
    """The real path of a file, or any other address."""
    fingerprint: Callable[[], str] = field(repr=False, compare=False)
    """Finds a hash of the content. It may read all of a file, so it is called only where nothing else tells."""
    size: str = ""
    file: str = ""
    """What all names of one file share; empty where the data are no file."""
    look: str = ""
    """What changes whenever the content does; empty while nothing of the kind is known."""
    part: str = ""
    """The one table of a database file that is read, spelt in one way, or the name of a table in memory; empty where
    all of a file may be.
    """


class OpenReading(Protocol):
    """An open reading is what ``check`` bound: it reads after the charge, and is closed by whoever opened it.

    An engine on a server holds a transaction in it, whose locks keep the shape of the tables and whose snapshot is what
    all its readings see.
    """

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Give what the reading means, as ``Reader.read`` says: of what was bound where that holds the reading."""
        ...

    def close(self) -> None:
        """Let go of what was bound; closing twice is closing once."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True)
class Fetched(InMemory):
    """These are the rows of a public table that a server holds, fetched from there when a policy was opened."""

    data: tuple[DataIdentity, ...]
    """Where they were fetched from: whatever their content is, they are known by that."""


@dataclass(frozen=True)
class Unheld:
    """This is an open reading of a reader that holds nothing between its check and its reading."""

    reader: Reader

    def read(self, reading: PlanReading[E], key: int) -> E:
        return self.reader.read(reading, key)

    def close(self) -> None:
        """Pass: nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader(Protocol):
    """A reader gives exact values to a release that has been charged: it is an engine, or a snapshot that one holds.

    It may be used by several threads at once. Whatever a driver fails on, it raises an error of ``sfumato.errors``
    whose text does not depend on rows.
    """

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Refuse unless these can be read now: the engine is open, the sources are those that were opened.

        It is called before every charge, the thousandth of a question like the first. No row is read. What is given
        reads them after the charge, on what was bound, and must be closed.
        """
        ...

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Give what the reading means, in whole numbers of 64 bits, exactly.

        A total beyond ±2^62 is cut there, which moves no two totals further apart. ``key`` is fresh and secret: it
        decides which rows a sample keeps. This call alone reads private rows, and it is made after the charge.
        """
        ...

    def interrupt(self, token: int | None = None) -> None:
        """End what is being read by the thread of this number, or by every thread."""
        ...


class Snapshot(Reader, Protocol):
    """A snapshot holds the rows of a table as they were when it was first read, until it is closed.

    A series of releases reads it step by step, each step charged before, and all steps see the same rows, whatever
    becomes of the source. Nothing but ``release`` is handed one.
    """

    def close(self) -> None:
        """Forget the rows; every later call is refused."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Engine(Reader, Protocol):
    """An engine answers these calls, of which ``read`` alone reads private rows."""

    def catalog(self) -> Catalog:
        """List the tables and columns that questions may refer to."""
        ...

    def values(self, world: World) -> Sequence[GroupKey]:
        """List the distinct results of expressions on declared values; no table is read."""
        ...

    def hold(self) -> Snapshot:
        """Begin a snapshot. No row is read before its first reading."""
        ...

    def identity(self) -> str:
        """Identify the version of the data that were opened: equal data as opened have equal texts."""
        ...

    def check_files(self) -> None:
        """Refuse where a file is no longer the one that was opened, as far as that is seen without a transaction."""
        ...

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that the rows of all public, or of all private, tables come from."""
        ...

    def close(self) -> None:
        """End what is being read and forget the data; every later call is refused."""
        ...


@dataclass(frozen=True)
class ColumnCost:
    """A column's cost is the shares of the counted rows in which its cell is not what the source says. PRIVATE."""

    clamped: float
    """Moved to a bound, cut to its most letters, or made the value that stands for what is not declared."""
    nulled: float
    """Made NULL: not of the declared type, or not among the values."""
    missing: float
    """NULL in the source already."""
    low: float = 0.0
    high: float = 0.0
    """Moved to the lower, and to the upper bound: these are among the clamped."""

    @property
    def lost(self) -> float:
        """Give the share of the values that are there which are made NULL."""
        there = 1.0 - self.missing
        return round(self.nulled / there, 9) if there > 0 else 0.0  # a half is a half


@dataclass(frozen=True)
class Inspection:
    """An inspection says what is lost of one table by a policy's bounds and limits, exactly. PRIVATE."""

    rows: int
    dropped: float
    """Share of all rows that carry no id."""
    columns: Mapping[str, ColumnCost]
    units: int
    """How many units have rows."""
    exceeding: int
    """Units with more rows than count."""
    lost: float
    """Share of the rows with an id that are beyond their unit's limit."""
    by_rows: Mapping[int, float] = field(default_factory=dict)
    """The same for each of ``LIMITS``; empty where every row is a unit."""
    by_groups: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """By column whose values are listed, for each limit: share of the groups of units that are beyond it."""


LIMITS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
"""The limits of which an owner is told what they cost: 1, 2, 5, 10, … 500,000."""


class Inspector(Protocol):
    """An inspector shows exact figures to the owner alone; nothing an analyst can reach may open one."""

    def columns(self, table: str) -> Mapping[str, Domain]:
        """List the columns that may be asked about."""
        ...

    def fingerprint(self, table: str) -> str:
        """Hash the table's content. PRIVATE unless the table is public."""
        ...

    def remarks(self, table: str) -> tuple[str, ...]:
        """Say what an owner should know of where the rows are: whole sentences, of which none tells of the rows."""
        ...

    def inspect(self, table: str) -> Inspection:
        """Find what the policy's bounds and limits cost one private table."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
