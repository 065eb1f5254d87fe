"""A policy as frozen values: one population, its account, its tables. Everything in it is public."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidPolicy
from sfumato.policy.domains import Domain
from sfumato.privacy import Budget, Neighbours, PrivacyUnit
from sfumato.privacy.numbers import whole

ROW = "row"
"""Declared as a table's id: every row is a unit of its own."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
"""What a table or a column may be called: such names need no quoting anywhere."""


@dataclass(frozen=True)
class Table:
    """One table: where it lives, whose rows it holds, and what is declared about its columns."""

    name: str
    source: Path | Any
    """A file (CSV, Parquet file or glob, or a DuckDB database), or a table in memory (Arrow, pandas, polars)."""
    columns: Mapping[str, Domain] = field(default_factory=dict)
    """The columns that may be asked about, in their order. A public table may leave them out: all are known."""
    id: str | None = None
    """The column that says whose row it is, or "row"; None for a public table."""
    max_rows: int | None = None
    """Rows of one unit that count, enforced in the query."""
    max_groups: int | None = None
    """Groups that one unit may touch."""
    max_rows_per_group: int | None = None
    """Rows of one unit that count in one group."""
    public: bool = False
    relation: str | None = None
    """The table inside a DuckDB database file, when the source is one."""

    def __post_init__(self) -> None:
        place = f"tables.{self.name}"
        _named(self.name, "a table", place)
        for column in self.columns:
            _named(column, "a column", f"{place}.columns")
        if self.public:
            self._check_public(place)
        else:
            self._check_private(place)

    def _check_public(self, place: str) -> None:
        for name in ("id", "max_rows", "max_groups", "max_rows_per_group"):
            if getattr(self, name) is not None:
                raise InvalidPolicy(
                    "a public table protects nobody",
                    place=f"{place}.{name}",
                    fix=f"remove {name}, or remove public = true",
                )

    def _check_private(self, place: str) -> None:
        if self.id is None:
            raise InvalidPolicy(
                "every private table says whose rows it holds",
                place=f"{place}.id",
                fix='add id = "<the column naming the unit>", or id = "row" when every row is a unit, or public = true',
            )
        if not self.columns:
            raise InvalidPolicy(
                "a private table declares the columns that may be asked about",
                place=f"{place}.columns",
                fix="declare each column with its type",
            )
        for name in ("max_rows", "max_groups", "max_rows_per_group"):
            limit = getattr(self, name)
            if limit is not None:
                object.__setattr__(self, name, _limit(limit, f"{place}.{name}"))
        if self.every_row:
            for name in ("max_rows", "max_groups", "max_rows_per_group"):
                if getattr(self, name) not in (None, 1):
                    raise InvalidPolicy(
                        "a unit that is one row has one row", place=f"{place}.{name}", fix=f"remove {name}"
                    )
                object.__setattr__(self, name, 1)
        elif self.max_rows is None:
            raise InvalidPolicy(
                "a unit with several rows needs a limit on how many of them count",
                place=f"{place}.max_rows",
                fix="add max_rows = <rows of one unit that count>",
            )

    @property
    def every_row(self) -> bool:
        return self.id == ROW


@dataclass(frozen=True)
class Policy:
    """One population, its budget for life, its tables, its analysts."""

    unit: PrivacyUnit
    budget: Budget
    tables: Mapping[str, Table]
    size: int | None = None
    """The declared number of units: public, and used to forecast errors only (under replace it is exact)."""
    analysts: Mapping[str, Fraction] = field(default_factory=dict)
    """Each analyst's share of every allowance."""
    path: Path | None = None
    """The file it was read from: names the account and places the ledger."""

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", whole(self.size, "size", at_least=1))
        if self.neighbours is Neighbours.REPLACE and self.size is None:
            raise InvalidPolicy(
                "replace neighbours make the number of units public",
                place="unit.size",
                fix="add size = <how many units there are>",
            )
        if not any(not table.public for table in self.tables.values()):
            raise InvalidPolicy("a policy has a private table", place="tables", fix="declare one with [tables.<name>]")
        for name, table in self.tables.items():
            if name != table.name:
                raise InvalidPolicy(
                    "a table is listed under its own name", place=f"tables.{name}", fix=f"list it as {table.name}"
                )
            if not table.public and table.every_row != self.unit.every_row:
                raise InvalidPolicy(
                    "all private tables of one population protect the same unit",
                    place=f"tables.{name}.id",
                    fix='give every private table id = "row", or none',
                )

    @property
    def neighbours(self) -> Neighbours:
        return self.budget.neighbours


def _named(name: object, what: str, place: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidPolicy(
            f"{what} has a plain name: letters, digits and _, not starting with a digit",
            place=place,
            fix="rename it in a view or in the file",
        )


def _limit(value: Any, place: str) -> int:
    if type(value) is not int or not 1 <= value <= 10**6:
        raise InvalidPolicy("a limit is a whole number between 1 and 1,000,000", place=place, fix="give it as, say, 10")
    return value
