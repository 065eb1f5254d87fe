"""The tables and columns that a query may refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from sfumato.errors import Unsupported
from sfumato.plan.limits import ONE_ROW, ContributionLimits
from sfumato.plan.values.expressions import Expression
from sfumato.policy import Domain, ListColumn, Policy, Table, Value, Via
from sfumato.policy.codings import Coding
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class Period:
    """The time component of a unit: the rows of an id in one day, week or month are a unit of their own."""

    column: str
    """The column of this table that holds the date."""
    every: str
    """A day, a week or a month."""


@dataclass(frozen=True)
class CatalogTable:
    """A table as analysts see it."""

    name: str
    columns: Mapping[str, Domain]
    public: bool
    id: str | None = None
    """The column that names the unit; with ``via``, that of the table at the end of the path. None when every row is a
    unit, for a public table, and where the table has another column of that name."""
    limits: ContributionLimits = ONE_ROW
    """The default limits of one unit."""
    via: str | None = None
    """For a table whose units are named by another table: the path to it, in words."""
    period: Period | None = None
    """For a unit that is an id in a period: the date column and the length."""
    lists: Mapping[str, ListColumn] = field(default_factory=dict)
    """The list columns, which only UNNEST may read."""
    codings: Mapping[str, Coding] = field(default_factory=dict)
    """The cells of the columns with bins or levels."""
    possible_rows: int | None = None
    """The most rows that one unit can have; None where nobody declared it."""

    @property
    def every_row(self) -> bool:
        """Whether every row is a unit of its own."""
        return not self.public and self.id is None and self.via is None


def catalog_table(policy: Policy, name: str, columns: Mapping[str, Domain]) -> CatalogTable:
    """Describe a table of a policy as analysts see it, with the columns that queries may read."""
    table, period_column = policy.tables[name], policy.period_column(name)
    period = None if period_column is None else Period(period_column, str(policy.unit.period))
    via = str(table.id) if isinstance(table.id, Via) else None
    unit_id = None if table.public or table.every_row else _unit_id_column(table, policy)
    is_shadowed = via is not None and str(unit_id).lower() in map(str.lower, columns)
    unit_id = None if is_shadowed else unit_id
    further = (table.lists, table.codings, table.possible_rows)
    return CatalogTable(
        name, columns, table.public, unit_id, ContributionLimits.from_table(table), via, period, *further
    )


def _unit_id_column(table: Table, policy: Policy) -> str:
    """Return the id column at the end of a path of foreign keys."""
    return _unit_id_column(policy.tables[table.id.via], policy) if isinstance(table.id, Via) else str(table.id)


def _refuse_bands(table: str, *_: object) -> int:
    """Refuse band joins: the engine cannot count their matches."""
    raise Unsupported("bands", f"{table} can only be joined with =", fix="write ON private.column = public.column")


def _refuse_public_values(table: str, *_: object) -> Sequence[Value | None]:
    """Refuse subqueries over public tables: there are no rows to evaluate them on."""
    fix = "write the values out, as in x IN (1, 2), or join the public table in FROM"
    raise Unsupported("public-subquery", f'"{table}" cannot be read in a subquery here', fix=fix)


@dataclass(frozen=True)
class Catalog:
    tables: Mapping[str, CatalogTable]
    multiplicity: Callable[[str, tuple[str, ...]], int]
    """Return the most rows of a public table that share one value of these columns."""
    overlap: Callable[[str, tuple[str, ...], tuple[tuple[str, str], ...]], int] = _refuse_bands
    """Return the most rows of a public table that share one value of these columns and match one value by these
    comparisons, each as (operator, column)."""
    public_values: Callable[[str, Expression, Expression | None], Sequence[Value | None]] = _refuse_public_values
    """Return the value of an expression in each row of a public table that meets a condition."""
    databases: frozenset[str] = frozenset()
    """Names that may stand before the schema of a table, as in clinic.public.visits, in lower case."""

    def column_names(self) -> Iterator[str]:
        """Yield the names of all columns that queries may read."""
        for table in self.tables.values():
            yield from table.columns
