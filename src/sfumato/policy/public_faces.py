"""A public face is what a policy says to whoever may ask: no source, no path, and no analyst but the one who reads it.

Everything in a policy is public knowledge of the data. Where the data are stored is not about them, and who else asks,
with which share, is the owner's business; so neither is here, by construction: no field could hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from sfumato.errors import InvalidParameter
from sfumato.policy.codings import Coding, cell_words
from sfumato.policy.domains import Domain, ListColumn
from sfumato.privacy import Budget, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import exact

_LONGEST = 1 << 30
"""Letters of a face's JSON text: more than any policy has."""


@codec.value("public-column")
@dataclass(frozen=True)
class PublicColumn:
    """A column has a name and what is declared of its values, or of the items of its lists."""

    name: str
    domain: Domain
    cells: tuple[str, ...] = ()
    """How it is cut into cells, in words."""
    most_items: int | None = None
    """Of a list, how many of its items count; None of a column that is no list."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        _require(isinstance(self.domain, Domain), "domain", self.domain, "what is declared of a column")


@codec.value("foreign-key")
@dataclass(frozen=True)
class ForeignKey:
    """Rows belong to the owners of the rows of another table: those whose ``key`` equals the ``column`` of this one."""

    column: str
    table: str
    key: str

    def __post_init__(self) -> None:
        codec.check_fields(self)


@codec.value("public-table")
@dataclass(frozen=True)
class PublicTable:
    """A table is told with its columns, its limits and whose rows it holds; where it is stored is not told."""

    name: str
    public: bool
    columns: tuple[PublicColumn, ...]
    """Those that may be asked about; a public table may declare none, and then has those of its source."""
    id: str = ""
    """The column that says whose a row is; empty where every row is a unit, another table says it, or it is public."""
    foreign_key: ForeignKey | None = None
    """Where another table says whose a row is, how it is found there."""
    max_rows: int | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    period: str = ""
    """The column that says in which period of its unit a row lies; empty where the unit has none."""
    impossible: tuple[str, ...] = ()
    """Conditions that no row meets."""
    implies: tuple[tuple[str, str], ...] = ()
    """Pairs of columns, of which the first decides the second."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        _all_of(self.columns, PublicColumn, "columns")
        known = self.foreign_key is None or isinstance(self.foreign_key, ForeignKey)
        _require(known, "foreign_key", self.foreign_key, "a foreign key, or null")

    def column(self, name: str) -> PublicColumn:
        """Give the column of this name."""
        for each in self.columns:
            if each.name == name:
                return each
        raise InvalidParameter("column", name, "one of " + ", ".join(each.name for each in self.columns))


@codec.value("public-face")
@dataclass(frozen=True)
class PublicFace:
    """A public face is a policy as an analyst may read it."""

    account: str
    unit: PrivacyUnit
    neighbours: Neighbours
    budget: Budget
    """What may be spent in all, with nothing spent: how much is left says a standing."""
    tables: tuple[PublicTable, ...]
    size: int | None = None
    """The declared number of units."""
    per: str = ""
    """The period of which each has an account of its own; empty where there is one account for life."""
    analyst: str = ""
    """Who reads it; empty where nobody is named."""
    share: Fraction | None = None
    """The part of every allowance that is theirs at most."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        _require(isinstance(self.unit, PrivacyUnit), "unit", self.unit, "a privacy unit")
        _require(isinstance(self.budget, Budget), "budget", self.budget, "a budget")
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        _all_of(self.tables, PublicTable, "tables")
        if self.share is not None:
            object.__setattr__(self, "share", exact(self.share, "share"))

    def __repr__(self) -> str:
        named = ", ".join(each.name for each in self.tables)
        return f"<PublicFace of {self.account}: protects {self.protects}; tables {named}>"

    @property
    def protects(self) -> str:
        """Say in words whom it protects."""
        return f"{self.unit}, {self.neighbours.value} neighbours"

    def table(self, name: str) -> PublicTable:
        """Give the table of this name."""
        for each in self.tables:
            if each.name == name:
                return each
        raise InvalidParameter("table", name, "one of " + ", ".join(each.name for each in self.tables))

    def to_json(self) -> str:
        """Write the face as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> PublicFace:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source, longest=_LONGEST)


class FacedTable(Protocol):
    """This is a table of a policy, as far as its face is concerned: its source is no part of it."""

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


def table_face(table: FacedTable, period: str | None) -> PublicTable:
    """Say of a table what its readers may know."""
    plain = [
        PublicColumn(name, domain, tuple(cell_words(table.codings.get(name)))) for name, domain in table.columns.items()
    ]
    lists = [PublicColumn(name, each.items, (), each.most_items) for name, each in table.lists.items()]
    own = table.id if isinstance(table.id, str) and not table.every_row else ""
    leads = hasattr(table.id, "via")
    return PublicTable(
        table.name,
        table.public,
        (*plain, *lists),
        own,
        ForeignKey(table.id.on, table.id.via, table.id.key) if leads else None,
        table.max_rows,
        table.max_groups,
        table.max_rows_per_group,
        period or "",
        table.impossible,
        tuple(table.implies.items()),
    )


def unspent(budget: Budget) -> Budget:
    """Give the same budget with nothing spent."""
    return Budget(
        budget.epsilon, budget.delta, reserve=budget.reserve, order=budget.order, neighbours=budget.neighbours
    )


def _all_of(found: object, kind: type, name: str) -> None:
    right = isinstance(found, tuple) and all(isinstance(each, kind) for each in found)
    _require(right, name, found, f"a list of {name}")


def _require(holds: bool, name: str, found: object, allowed: str) -> None:
    if not holds:
        raise InvalidParameter(name, found, allowed)
