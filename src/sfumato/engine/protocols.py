"""What the system requires of an engine, in terms that name no database.

A driver implements ``Engine``. It decides nothing about privacy: limits, ranges and sensitivities are in the bounded
plan of a reading, and a driver is correct when it returns what the reading means, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, Self

from sfumato.policy import Domain, InMemory
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:  # opening a policy reads nothing
    from sfumato.plan.catalog import Catalog
    from sfumato.plan.keys import ValueCombinations
    from sfumato.plan.nodes import GroupValues
    from sfumato.plan.readings.total_readings import E, PlanReading


@dataclass(frozen=True)
class DataIdentity:
    """Where data are, and how to tell whether two of them are the same. PRIVATE."""

    address: str
    """The real path of a file, or another address."""
    fingerprint: Callable[[], str] = field(repr=False, compare=False)
    """Hashes the content. It may read a whole file, so it is called only where nothing else can tell."""
    file_size: str = ""
    file_identity: str = ""
    """An id shared by all names of one file; empty where the data are not a file."""
    change_token: str = ""
    """A token that changes whenever the content does; empty where none is known."""
    table: str = ""
    """The one table of a database file that is read, in canonical spelling, or the name of a table in memory; empty
    where all of a file may be read.
    """


class OpenReading(Protocol):
    """What ``check`` bound: it reads after the charge, and is closed by whoever opened it.

    For an engine on a server it holds a transaction, whose locks fix the shape of the tables and whose snapshot is what
    all its readings see.
    """

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        """Return the value of the reading, as in ``Reader.read``, from what was bound."""
        ...

    def close(self) -> None:
        """Release what was bound; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True)
class FetchedTable(InMemory):
    """The rows of a public table on a server, fetched when a policy was opened."""

    data: tuple[DataIdentity, ...]
    """Where they were fetched from: this identifies them, whatever their content is."""


@dataclass(frozen=True)
class StatelessReading:
    """An open reading of a reader that holds nothing between its check and its reading."""

    reader: Reader

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        return self.reader.read(reading, sampling_key)

    def close(self) -> None:
        """Do nothing: nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reader(Protocol):
    """Reads exact values for a release that has been charged: an engine, or a snapshot of one.

    It may be used by several threads at once. Every failure of a driver raises an error of ``sfumato.errors`` whose
    text does not depend on rows.
    """

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Refuse unless these can be read now: the engine is open, and the sources are those that were opened.

        It is called before every charge, for a repeated query too. No row is read. The result reads them after the
        charge, from what was bound, and must be closed.
        """
        ...

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        """Return the value of the reading in exact 64-bit integers.

        A total beyond ±2^62 is clamped, which moves no two totals further apart. The key is fresh and secret: it
        decides which rows a sample keeps, and which units are read where the plan reads a sample of them
        (``plan.limits``). This is the only call that reads private rows, and it is made after the
        charge.
        """
        ...

    def interrupt(self, thread: int | None = None) -> None:
        """Interrupt what the thread with this id is reading, or what every thread is."""
        ...


class Snapshot(Reader, Protocol):
    """The rows of each table as they were when it was first read, until it is closed.

    A series of releases reads it step by step; each step is charged first, and all steps see the same rows, whatever
    happens to the source. Only ``release`` receives one.
    """

    def close(self) -> None:
        """Forget the rows; every later call is refused."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Engine(Reader, Protocol):
    """The calls an engine answers, of which only ``read`` reads private rows."""

    @property
    def matches_values(self) -> bool:
        """Whether it matches values to units (``MatchedValueReading``): it reads pairs of both, not totals alone."""
        ...

    def catalog(self) -> Catalog:
        """Return the catalog of tables and columns that queries may use."""
        ...

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:
        """List the distinct results of expressions on declared values; reads no table."""
        ...

    def open_snapshot(self) -> Snapshot:
        """Begin a snapshot. No row is read before its first reading."""
        ...

    def identity(self) -> str:
        """Return the version of the data that were opened: equal data as opened have equal versions."""
        ...

    def check_files(self) -> None:
        """Raise ``SourceChanged`` where a file is no longer the one that was opened, as far as a check without a
        transaction shows.
        """
        ...

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that the rows of all public, or of all private, tables come from."""
        ...

    def close(self) -> None:
        """Interrupt what is being read and forget the data; every later call is refused."""
        ...


@dataclass(frozen=True)
class ColumnCost:
    """For one column, the shares of the counted rows whose cell is not what the source has. PRIVATE."""

    clamped: float
    """Moved to a bound, truncated to the maximum length, or replaced by the value for undeclared ones."""
    nulled: float
    """Set to NULL: not of the declared type, or not among the values."""
    missing: float
    """NULL in the source already, or missing by the column's rules."""
    clamped_low: float = 0.0
    clamped_high: float = 0.0
    """Moved to the lower, and to the upper bound: both are included in ``clamped``."""
    missing_by_rules: float = 0.0
    """Missing by the column's rules: included in ``missing``."""

    @property
    def nulled_share(self) -> float:
        """The share of the present values that are set to NULL."""
        present = 1.0 - self.missing
        return round(self.nulled / present, 9) if present > 0 else 0.0  # rounded, so that 0.5 is exactly 0.5


@dataclass(frozen=True)
class Inspection:
    """What a policy's bounds and limits lose of one table, exactly. PRIVATE."""

    rows: int
    without_id: float
    """Share of all rows without an id."""
    columns: Mapping[str, ColumnCost]
    units: int
    """Number of units with rows."""
    units_over_limit: int
    """Number of units with more rows than the limit."""
    rows_over_limit: float
    """Share of the rows with an id that are over their unit's limit."""
    lost_by_row_limit: Mapping[int, float] = field(default_factory=dict)
    """The same for each of ``LIMITS``; empty where every row is a unit."""
    lost_by_group_limit: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """By column with listed values, for each limit: share of the (unit, group) pairs that are over it."""


LIMITS = tuple(digit * 10**power for power in range(6) for digit in (1, 2, 5))
"""The limits whose cost is shown to an owner: 1, 2, 5, 10, … 500,000."""


class Inspector(Protocol):
    """Shows exact figures to the owner only; nothing an analyst can reach may open one."""

    def columns(self, table: str) -> Mapping[str, Domain]:
        """Return the columns that queries may use."""
        ...

    def fingerprint(self, table: str) -> str:
        """Hash the table's content. PRIVATE unless the table is public."""
        ...

    def remarks(self, table: str) -> tuple[str, ...]:
        """Return what an owner should know about where the rows are: whole sentences that reveal nothing of the
        rows.
        """
        ...

    def inspect(self, table: str) -> Inspection:
        """Compute what the policy's bounds and limits cost one private table."""
        ...

    def lost_texts(self, table: str, column: str, extra_texts: Collection[str]) -> Mapping[str, int]:
        """Count the most frequent stored texts of a private column that are read as NULL or are among ``extra_texts``;
        none if the column is not stored as text.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
