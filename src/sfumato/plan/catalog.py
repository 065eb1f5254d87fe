"""The catalog says what a question may refer to: it is the public face of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sfumato.errors import Unsupported
from sfumato.plan.limits import ONE_ROW, Limits
from sfumato.policy import Domain, ListColumn, Policy, Table, Via
from sfumato.policy.codings import Coding


@dataclass(frozen=True)
class Period:
    """A period is the part of a unit that is not its id: the rows of one day, week or month are a unit of their own."""

    column: str
    """The column of this table that it is read from."""
    every: str
    """A day, a week or a month."""


@dataclass(frozen=True)
class Described:
    """This is a table as analysts see it."""

    name: str
    columns: Mapping[str, Domain]
    public: bool
    id: str | None = None
    """What names the unit: the column that says whose row it is, or where another table knows it, that table's. None
    when every row is a unit, for a public table, and where the table has another column of that name."""
    limits: Limits = ONE_ROW
    """What of one unit counts unless less is asked for."""
    via: str | None = None
    """Where another table knows whose rows these are: how it is found, in words."""
    period: Period | None = None
    """Where the unit is an id in a period: by which column, and how long."""
    lists: Mapping[str, ListColumn] = field(default_factory=dict)
    """The columns that are lists, which only UNNEST may name."""
    codings: Mapping[str, Coding] = field(default_factory=dict)
    """How columns are cut into cells, of those that have bins or levels."""

    @property
    def every_row(self) -> bool:
        """Every row is a unit of its own."""
        return not self.public and self.id is None and self.via is None


def described(policy: Policy, name: str, columns: Mapping[str, Domain]) -> Described:
    """Describe a table of a policy as analysts see it, with the columns that questions may name."""
    table, column = policy.tables[name], policy.period_column(name)
    period = None if column is None else Period(column, str(policy.unit.period))
    via = str(table.id) if isinstance(table.id, Via) else None
    known = None if table.public or table.every_row else _id(table, policy)
    taken = via is not None and str(known).lower() in map(str.lower, columns)
    known = None if taken else known
    return Described(name, columns, table.public, known, Limits.of(table), via, period, table.lists, table.codings)


def _id(table: Table, policy: Policy) -> str:
    """Find the name of the id at the end of a path."""
    return _id(policy.tables[table.id.via], policy) if isinstance(table.id, Via) else str(table.id)


def _unknown(table: str, *_: object) -> int:
    """Refuse for an engine that cannot tell."""
    raise Unsupported("bands", f"rows of {table} are found by equal columns here", fix="join by equality")


@dataclass(frozen=True)
class Catalog:
    tables: Mapping[str, Described]
    multiplicity: Callable[[str, tuple[str, ...]], int]
    """The most rows of a public table that share one value of these columns."""
    overlap: Callable[[str, tuple[str, ...], tuple[tuple[str, str], ...]], int] = _unknown
    """The most rows of a public table that share one value of these columns and that one value meets by these
    comparisons, each as (operator, column)."""
