"""What a question may refer to: the public face of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sfumato.policy import Domain, Policy, Via


@dataclass(frozen=True)
class Period:
    """The part of a unit that is not its id: the rows of one day, week or month are a unit of their own."""

    column: str
    """The column of this table that it is read from."""
    every: str
    """A day, a week or a month."""


@dataclass(frozen=True)
class Described:
    """A table as analysts see it."""

    name: str
    columns: Mapping[str, Domain]
    public: bool
    id: str | None = None
    """The column that names the unit; None when every row is a unit, when another table knows it, or when public."""
    via: str | None = None
    """Where another table knows whose rows these are: how it is found, in words."""
    period: Period | None = None
    """Where the unit is an id in a period: by which column, and how long."""

    @property
    def every_row(self) -> bool:
        """Every row is a unit of its own."""
        return not self.public and self.id is None and self.via is None


def described(policy: Policy, name: str, columns: Mapping[str, Domain]) -> Described:
    """A table of a policy as analysts see it, with the columns that questions may name."""
    table, column = policy.tables[name], policy.period_column(name)
    period = None if column is None else Period(column, str(policy.unit.period))
    if isinstance(table.id, Via):
        return Described(name, columns, public=False, via=str(table.id), period=period)
    return Described(name, columns, table.public, None if table.every_row else table.id, period=period)


@dataclass(frozen=True)
class Catalog:
    tables: Mapping[str, Described]
    multiplicity: Callable[[str, tuple[str, ...]], int]
    """The most rows of a public table that share one value of these columns."""
