"""Public faces: a policy as its analysts may read it, without sources, paths or other analysts.

What a policy declares about the data is public. Where the data are stored, and which other analysts there are with
which shares, is not: no field of a public face can hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol

from sfumato.errors import InvalidParameter
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.codings import Coding, describe_cells
from sfumato.policy.domains import Domain, ListColumn
from sfumato.privacy import Budget, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import exact
from sfumato.quick_dataclass import dataclass

_MAX_JSON_LENGTH = 1 << 30
"""The most characters of a face's JSON text."""


@codec.serialisable("public-column")
@dataclass(frozen=True)
class PublicColumn:
    """A column with the domain of its values, or of the items of its lists."""

    name: str
    domain: Domain
    cells: tuple[str, ...] = ()
    """A description of its cells, in words."""
    most_items: int | None = None
    """The most items of a list that count; None for other columns."""
    rules: CellRules | None = None
    """How its stored cells are read, where the policy says so."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        _require_valid(isinstance(self.domain, Domain), "domain", self.domain, "the domain of a column")
        has_rules = self.rules is None or isinstance(self.rules, CellRules)
        _require_valid(has_rules, "rules", self.rules, "cell rules, or null")


@codec.serialisable("foreign-key")
@dataclass(frozen=True)
class ForeignKey:
    """The units of a table's rows are those of another table's rows whose ``key`` equals this table's ``column``."""

    column: str
    table: str
    key: str

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)


@codec.serialisable("public-table")
@dataclass(frozen=True)
class PublicTable:
    """A table with its columns, its limits and its id, but not its source."""

    name: str
    public: bool
    columns: tuple[PublicColumn, ...]
    """The columns that can be asked about; a public table that declares none has those of its source."""
    id: str = ""
    """The id column; empty if every row is a unit, the id is in another table, or the table is public."""
    foreign_key: ForeignKey | None = None
    """How the unit of a row is found if the id is in another table."""
    max_rows: int | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    period: str = ""
    """The column that gives the period of a row; empty if the unit has no period."""
    impossible: tuple[str, ...] = ()
    """Conditions that no row meets."""
    implies: tuple[tuple[str, str], ...] = ()
    """Pairs of columns, of which the first determines the second."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        _require_tuple_of(self.columns, PublicColumn, "columns")
        is_valid = self.foreign_key is None or isinstance(self.foreign_key, ForeignKey)
        _require_valid(is_valid, "foreign_key", self.foreign_key, "a foreign key, or null")

    def column(self, name: str) -> PublicColumn:
        """Return the column of this name; refuse an unknown one."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InvalidParameter("column", name, "one of " + ", ".join(column.name for column in self.columns))


@codec.serialisable("public-face")
@dataclass(frozen=True)
class PublicFace:
    """A policy as an analyst may read it."""

    account: str
    unit: PrivacyUnit
    neighbours: Neighbours
    budget: Budget
    """The whole budget with nothing spent; a standing says how much is left."""
    tables: tuple[PublicTable, ...]
    size: int | None = None
    """The declared number of units."""
    per: str = ""
    """The period of each account; empty if there is one account for life."""
    analyst: str = ""
    """The analyst who reads it; empty if none is named."""
    share: Fraction | None = None
    """The analyst's share of every allowance."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        _require_valid(
            isinstance(self.unit, PrivacyUnit), "unit", self.unit, 'a PrivacyUnit, such as sf.PrivacyUnit("patient")'
        )
        _require_valid(isinstance(self.budget, Budget), "budget", self.budget, "a Budget, such as sf.Budget(epsilon=3)")
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        _require_tuple_of(self.tables, PublicTable, "tables")
        if self.share is not None:
            object.__setattr__(self, "share", exact(self.share, "share"))

    def __repr__(self) -> str:
        table_names = ", ".join(table.name for table in self.tables)
        return f"<PublicFace of {self.account}: protects {self.protects}; tables {table_names}>"

    @property
    def protects(self) -> str:
        """The privacy unit and its neighbours, in words."""
        return f"{self.unit}, {self.neighbours.value} neighbours"

    def table(self, name: str) -> PublicTable:
        """Return the table of this name; refuse an unknown one."""
        for table in self.tables:
            if table.name == name:
                return table
        raise InvalidParameter("table", name, "one of " + ", ".join(table.name for table in self.tables))

    def to_json(self) -> str:
        """Return the face as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> PublicFace:
        """Parse what ``to_json`` wrote; refuse any other text."""
        return codec.loads_as(cls, source, longest=_MAX_JSON_LENGTH)


class DescribedTable(Protocol):
    """The parts of a policy's table that its face needs; its source is not among them."""

    @property
    def name(self) -> str: ...
    @property
    def public(self) -> bool: ...
    @property
    def columns(self) -> Mapping[str, Domain]: ...
    @property
    def lists(self) -> Mapping[str, ListColumn]: ...
    @property
    def codings(self) -> Mapping[str, Coding]: ...
    @property
    def id(self) -> Any: ...
    @property
    def every_row(self) -> bool: ...
    @property
    def max_rows(self) -> int | None: ...
    @property
    def max_groups(self) -> int | None: ...
    @property
    def max_rows_per_group(self) -> int | None: ...
    @property
    def impossible(self) -> tuple[str, ...]: ...
    @property
    def implies(self) -> Mapping[str, str]: ...


def public_table(table: DescribedTable, period: str | None, rules: Mapping[str, CellRules]) -> PublicTable:
    """Return the public face of a table, whose columns are read by these cell rules."""
    value_columns = [
        PublicColumn(name, domain, tuple(describe_cells(table.codings.get(name))), rules=rules.get(name))
        for name, domain in table.columns.items()
    ]
    list_columns = [
        PublicColumn(name, list_column.items, (), list_column.max_items) for name, list_column in table.lists.items()
    ]
    id_column = table.id if isinstance(table.id, str) and not table.every_row else ""
    has_path = hasattr(table.id, "via")
    return PublicTable(
        table.name,
        table.public,
        (*value_columns, *list_columns),
        id_column,
        ForeignKey(table.id.on, table.id.via, table.id.key) if has_path else None,
        table.max_rows,
        table.max_groups,
        table.max_rows_per_group,
        period or "",
        table.impossible,
        tuple(table.implies.items()),
    )


def without_spending(budget: Budget) -> Budget:
    """Return the same budget with nothing spent."""
    return Budget(
        budget.epsilon, budget.delta, reserve=budget.reserve, order=budget.order, neighbours=budget.neighbours
    )


def _require_tuple_of(values: object, kind: type, name: str) -> None:
    is_valid = isinstance(values, tuple) and all(isinstance(entry, kind) for entry in values)
    _require_valid(is_valid, name, values, f"a list of {name}")


def _require_valid(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise InvalidParameter(name, value, allowed)
