"""Policies as frozen values: one population, its budget and its tables. Everything in a policy is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.approval_rules import ApprovalRules
from sfumato.policy.cell_rules import CellRules, effective_rules, parse_words
from sfumato.policy.codings import (
    CELLS_RULE,
    Coding,
    declared_rules,
    is_coded,
    parse_codings,
    parse_column_rules,
    parse_columns,
    parse_conditions,
    with_policy_path,
)
from sfumato.policy.domains import Domain, ListColumn, Type, check_distinct_names, check_keys, check_name
from sfumato.policy.dummies import invent_tables
from sfumato.policy.public_faces import PublicFace, public_table, without_spending
from sfumato.policy.table_sources import DatabaseTable, OnServer, check_ledger, check_same_engine, parse_source
from sfumato.privacy import Budget, Neighbours, PrivacyUnit
from sfumato.privacy.numbers import Range, exact, exact_integer

ROW = "row"
"""The id of a table in which every row is a unit."""
PERIODS = ("day", "week", "month")
"""The possible lengths of a unit's period."""
ACCOUNT_PERIODS = {
    "day": ("day", "week", "month", "quarter", "year"),
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
}
"""For each period of a unit, the account periods that consist of whole such periods."""
ID_TYPES = (Type.INTEGER, Type.TEXT)
"""The types of ids: those in which different ids stay different."""
_SHARE_RANGE = Range("a number in (0, 1]", Fraction(0), Fraction(1), low_open=True)
MAX_ROWS = 2**40
"""The highest row ceiling; totals are bounded by it."""
ROW_CEILING = 2**32
"""The row ceiling of a table that declares none."""


@dataclass(frozen=True)
class Via:
    """A path to an id in another table: a row belongs to every unit that owns a row there with the same key.

    Choosing one of several owners, or skipping shared keys, would let one person's rows decide the owner of other rows;
    so each owner gets a copy of the row.
    """

    via: str
    """The table whose rows have known owners."""
    on: str
    """The column of this table that refers to a row of that table."""
    key: str = ""
    """The column of that table that it equals; by default the one of the same name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.on)

    def __str__(self) -> str:
        return f"{self.on} = {self.via}.{self.key}"


@dataclass(frozen=True)
class Table:
    """A table of a policy: its source, its id, and the declarations of its columns.

    >>> columns = {"age": {"type": "integer", "bounds": (0, 110)}, "ward": {"values": ["A", "B"]}}
    >>> Table("visits", "visits.parquet", columns, id="patient_id", max_rows=3).columns
    {'age': integer from 0 to 110, 'ward': text, one of 2 values}
    """

    name: str
    source: Any
    """Where its rows are: a ``Source``, the path of a file (CSV, Parquet, DuckDB with ``relation``), the address of a
    server (postgresql://host/database, sc://host:15002), or a table in memory (Arrow, pandas, polars, Spark)."""
    columns: Mapping[str, Domain] = field(default_factory=dict)
    """The columns that can be asked about, in order, each a Domain or a dict of its fields. A public table may leave
    them out: then all of its columns can be asked about."""
    id: Any = None
    """The unit of a row: the column with its id, "row", or a ``Via`` (or a dict of its fields) if the id is in another
    table; None for a public table."""
    max_rows: int | None = None
    """The most rows of one unit that count, enforced in the query."""
    max_groups: int | None = None
    """The most groups that one unit contributes to."""
    max_rows_per_group: int | None = None
    """The most rows of one unit that count in one group."""
    public: bool = False
    relation: str | None = None
    """The name of the table in a DuckDB database file or on a server."""
    row_ceiling: int = ROW_CEILING
    """The most rows the source may have, checked when its owner opens it: it bounds the cost of a question. If ids are
    found through another table, each owner's copy of a row counts."""
    period: Any = None
    """The column with the period of a row, if it differs from the unit's period column."""
    lists: Mapping[str, ListColumn] = field(default_factory=dict)
    """The list columns: those declared with ``most_items``."""
    codings: Mapping[str, Coding] = field(default_factory=dict)
    """The codings of columns declared with ``bins``, ``levels`` or ``spikes``."""
    impossible: tuple[str, ...] = ()
    """Conditions over coded columns that no row meets: public knowledge, never checked against rows."""
    implies: Mapping[str, str] = field(default_factory=dict)
    """For a column, the column that its value determines, such as the region of a city."""
    rules: Mapping[str, CellRules] = field(default_factory=dict)
    """The cell rules of columns declared with ``format``, ``nulls`` and the like."""
    nulls: tuple[str, ...] = ()
    """The cells that are missing, in every column without ``nulls`` of its own."""
    possible_rows: int | None = None
    """The most rows that one unit can have: a question leaves further ones out before anything else. Worst cases are
    computed from it."""
    path: InitVar[str | None] = None
    format: InitVar[str | None] = None
    version: InitVar[str | None] = None
    """For rows on a server: the path, format and version of files; stored in the source."""

    def __repr__(self) -> str:
        kind = "public" if self.public else f"private, {self.max_rows or 'all'} rows of one unit count"
        return f"<Table {self.name}: {kind}; columns {', '.join(self.columns) or 'as in its source'}>"

    def __post_init__(self, path: str | None, format: str | None, version: str | None) -> None:  # noqa: A002 - a key
        place = f"tables.{self.name}"
        check_name(self.name, "a table", place)
        object.__setattr__(self, "codings", parse_codings(self.columns, self.codings, f"{place}.columns"))
        column_rules = declared_rules(self.columns, self.rules)
        declarations = parse_columns(self.columns, f"{place}.columns") | parse_columns(self.lists, f"{place}.lists")
        lists = {name: declaration for name, declaration in declarations.items() if isinstance(declaration, ListColumn)}
        object.__setattr__(
            self, "columns", {name: declaration for name, declaration in declarations.items() if name not in lists}
        )
        object.__setattr__(self, "lists", lists)
        self._check_source(place, path, format, version)
        if not isinstance(self.public, bool):
            raise InvalidPolicy("public must be true or false", place=f"{place}.public", fix="write public = true")
        if type(self.row_ceiling) is not int or not 1 <= self.row_ceiling <= MAX_ROWS:
            raise InvalidPolicy(
                "row_ceiling must be a whole number between 1 and 2^40",
                place=f"{place}.row_ceiling",
                fix="write row_ceiling = 10000000",
            )
        if self.public:
            self._check_public(place)
        else:
            self._parse_private_declarations(place)
        self._check_cells(place)
        object.__setattr__(self, "nulls", with_policy_path(place, lambda: parse_words(self.nulls, "nulls")))
        object.__setattr__(
            self, "rules", parse_column_rules(column_rules, self.columns, self.lists, f"{place}.columns")
        )

    def _check_cells(self, place: str) -> None:
        """Check codings, conditions and implications; conditions are parsed later (``plan.sql.fragments``)."""
        for name in self.codings:
            if name not in self.columns:
                rule = "bins, levels and spikes can only be set for a declared column"
                raise InvalidPolicy(rule, place=f"{place}.codings.{name}", fix="declare the column")
        object.__setattr__(self, "impossible", parse_conditions(self.impossible, f"{place}.impossible"))
        if not isinstance(self.implies, Mapping):
            raise InvalidPolicy(
                "implies must map a column to the column that it determines",
                place=f"{place}.implies",
                fix='write { city = "region" }',
            )
        object.__setattr__(self, "implies", dict(self.implies))
        for name, implied_name in self.implies.items():
            path = f"{place}.implies.{name}"
            if name == implied_name:
                raise InvalidPolicy("a column cannot imply itself", place=path, fix="name another column, or remove it")
            for column in (name, implied_name):
                self._check_coded(column, path)

    def _check_coded(self, name: object, place: str) -> None:
        if not isinstance(name, str) or name not in self.columns:
            coded_names = ", ".join(column for column in self.columns if self.is_coded(column))
            fix = f"name a column such as {coded_names}" if coded_names else "declare columns with values or bins first"
            raise InvalidPolicy(f"{self.name!r} declares no column {str(name)[:60]!r}", place=place, fix=fix)
        if not self.is_coded(name):
            raise InvalidPolicy(
                f'"{name}" cannot be counted by values or bins: {CELLS_RULE}',
                place=place,
                fix=f"add values or bins to {self.name}.{name}",
            )

    def is_coded(self, name: str) -> bool:
        """Return whether a column has finitely many cells."""
        return is_coded(self.columns[name], self.codings.get(name))

    def _check_source(self, place: str, path: str | None, form: str | None, version: str | None) -> None:
        if self.source is None or isinstance(self.source, (bool, int, float)):
            raise InvalidPolicy(
                "a table needs a source",
                place=f"{place}.source",
                fix="name a CSV, Parquet or DuckDB file, or give a table in memory",
            )
        if self.relation is not None and (not isinstance(self.relation, str) or not self.relation.strip()):
            raise InvalidPolicy(
                "relation must be the name of a table in a DuckDB database or on a server",
                place=f"{place}.relation",
                fix=f'write relation = "{self.name}"',
            )
        source = parse_source(self.source, self.relation, path=path, format_name=form, version=version, place=place)
        if isinstance(source, DatabaseTable | OnServer):
            if self.relation not in (None, source.relation):
                raise InvalidPolicy(
                    "source and relation name different tables",
                    place=f"{place}.relation",
                    fix="remove relation: source already names the table",
                )
            object.__setattr__(self, "relation", source.relation)
        object.__setattr__(self, "source", source)

    def _check_public(self, place: str) -> None:
        for name in ("id", "max_rows", "max_groups", "max_rows_per_group", "possible_rows", "period"):
            if getattr(self, name) is not None:
                raise InvalidPolicy(
                    "ids, limits and periods cannot be set for a public table, whose rows belong to no unit",
                    place=f"{place}.{name}",
                    fix=f"remove {name}, or remove public = true",
                )
        for name in ("codings", "impossible", "implies"):
            if getattr(self, name):
                removed_keys = "bins, levels and spikes" if name == "codings" else name
                raise InvalidPolicy(
                    f"{removed_keys} cannot be set for a public table: they describe private rows",
                    place=f"{place}.{'columns' if name == 'codings' else name}",
                    fix=f"remove {removed_keys}",
                )
        for name in self.lists:
            raise InvalidPolicy(
                "list columns of a public table are not supported",
                place=f"{place}.columns.{name}.most_items",
                fix="store one row per item, and remove most_items",
            )

    def _parse_private_declarations(self, place: str) -> None:
        object.__setattr__(self, "id", _parse_id(self.id, f"{place}.id"))
        object.__setattr__(self, "period", _parse_period_column(self.period, f"{place}.period"))
        if self.id is None:
            raise InvalidPolicy(
                "a private table needs an id",
                place=f"{place}.id",
                fix='add id = "<the unit\'s id column>", or id = "row" if every row is a unit, or public = true',
            )
        if not self.has_columns:
            raise InvalidPolicy(
                "a private table must declare the columns that queries may use",
                place=f"{place}.columns",
                fix='declare each column with its type, such as age = { type = "integer", bounds = [0, 110] }',
            )
        for name in ("max_rows", "max_groups", "max_rows_per_group", "possible_rows"):
            limit = getattr(self, name)
            if limit is not None:
                object.__setattr__(self, name, _check_limit(limit, f"{place}.{name}"))
        if self.every_row:
            for name in ("max_rows", "max_groups", "max_rows_per_group", "possible_rows"):
                if getattr(self, name) not in (None, 1):
                    raise InvalidPolicy(
                        f'{name} cannot be set with id = "row": each unit then has only one row',
                        place=f"{place}.{name}",
                        fix=f"remove {name}",
                    )
                object.__setattr__(self, name, None if name == "possible_rows" else 1)
        elif self.max_rows is None:
            raise InvalidPolicy(
                "a unit can have several rows in this table, so the policy must limit how many of them count",
                place=f"{place}.max_rows",
                fix="for example, write max_rows = 10: at most 10 rows of each unit then count",
            )
        self._check_possible_rows(f"{place}.possible_rows")

    def _check_possible_rows(self, place: str) -> None:
        if self.possible_rows is None:
            return
        if self.max_rows is not None and self.possible_rows < self.max_rows:
            raise InvalidPolicy(
                f"possible_rows must be at least max_rows, which is {self.max_rows:,}",
                place=place,
                fix=f"write possible_rows = {self.max_rows} or more, or lower max_rows",
            )
        if self.lists:
            raise InvalidPolicy(
                "possible_rows cannot be set for a table with list columns",
                place=place,
                fix="remove possible_rows, or store one row per item and remove most_items",
            )

    @property
    def every_row(self) -> bool:
        return bool(self.id == ROW)

    @property
    def has_columns(self) -> bool:
        """Whether the table declares columns."""
        return bool(self.columns or self.lists)


@dataclass(frozen=True)
class Policy:
    """One population with its lifetime budget, its tables and its analysts."""

    unit: PrivacyUnit
    budget: Budget
    tables: Mapping[str, Table]
    size: int | None = None
    """The public number of units, used to forecast errors only (under replace neighbours it is exact)."""
    analysts: Mapping[str, Fraction] = field(default_factory=dict)
    """Each analyst's share of every allowance."""
    path: Path | None = None
    """The policy file, which determines the name of the account and the place of the ledger."""
    id_type: Any = None
    """The type that ids are cast to, "integer" or "text"; None if all sources store them in one type."""
    per: Any = None
    """The period of each account, which has this budget; None for one account for life."""
    account: str | None = None
    """The name of its account; by default that of its file, or else of its unit."""
    ledger: Any = None
    """The database of its ledger, postgresql://host/db; None for a file beside the policy."""
    allow_large_delta: bool = False
    """Whether a new account may have a δ of 1/1000 or more."""
    approval: ApprovalRules | None = None
    """Which releases wait for the owners of a server; None: no release does."""

    def __repr__(self) -> str:
        return f"<Policy protecting {self.unit}, {self.budget.promise}; tables {', '.join(self.tables)}>"

    def __post_init__(self) -> None:
        for name, kind in (("unit", PrivacyUnit), ("budget", Budget), ("tables", Mapping), ("analysts", Mapping)):
            if not isinstance(getattr(self, name), kind):
                example = {"unit": 'sf.PrivacyUnit("patient")', "budget": "sf.Budget(epsilon=3)"}.get(name, "{name: …}")
                rule = f"{name} must be a {'mapping' if kind is Mapping else kind.__name__}"
                raise InvalidPolicy(rule, place=name, fix=f"for example, pass {name}={example}")
        object.__setattr__(self, "tables", dict(self.tables))
        object.__setattr__(self, "analysts", _parse_shares(self.analysts))
        if self.size is not None:
            object.__setattr__(
                self, "size", with_policy_path("unit", lambda: exact_integer(self.size or 0, "size", at_least=1))
            )
        if self.neighbours is Neighbours.REPLACE and self.size is None:
            raise InvalidPolicy(
                'neighbours = "replace" needs the public number of units',
                place="unit.size",
                fix="add the number of units to [unit], such as size = 40000",
            )
        if not any(not table.public for table in self.tables.values()):
            raise InvalidPolicy(
                "a policy needs a private table", place="tables", fix="declare one with [tables.<name>]"
            )
        object.__setattr__(self, "id_type", _parse_id_type(self.id_type))
        if not isinstance(self.allow_large_delta, bool):
            raise InvalidPolicy(
                "allow_large_delta must be true or false",
                place="unit.budget.allow_large_delta",
                fix="write allow_large_delta = true, or remove it",
            )
        check_ledger(self.ledger)
        if self.approval is not None:
            self.approval.check_tables(self.tables)
        check_distinct_names(self.tables, "tables")
        for name, table in self.tables.items():
            if name != table.name:
                raise InvalidPolicy(
                    "a table must be listed under its own name", place=f"tables.{name}", fix=f"list it as {table.name}"
                )
            if not table.public and table.every_row != self.unit.every_row:
                raise InvalidPolicy(
                    "all private tables of a policy must protect the same unit",
                    place=f"tables.{name}.id",
                    fix='write id = "row" for every private table, or for none of them',
                )
        check_same_engine([(name, table.source) for name, table in self.tables.items() if not table.public])
        _check_paths(self.tables)
        _check_periods(self.unit, self.tables)
        _check_rules(self)
        if self.per is not None:
            _check_accounts(self)
            self.account_budget  # noqa: B018 - an invalid budget is refused now, not when the account is opened

    @property
    def account_budget(self) -> Budget:
        """The budget of each account. With accounts per period under replace neighbours it is half of the policy's
        budget: a replaced unit may move to another account's period, and both accounts together must keep the
        guarantee (``ledger.period_accounts``).
        """
        declared = self.budget
        if self.per is None or self.neighbours is not Neighbours.REPLACE:
            return declared
        default = Budget(declared.epsilon, declared.delta, reserve=declared.reserve, neighbours=declared.neighbours)
        order = None if default.order == declared.order else declared.order
        half = Fraction(1, 2)
        return with_policy_path(
            "unit.budget",
            lambda: Budget(
                declared.epsilon * half,
                declared.delta * half,
                reserve=declared.reserve * half,
                order=order,
                neighbours=declared.neighbours,
            ),
        )

    def period_column(self, table: str) -> str | None:
        """Return the period column of a table; None if it is public or the unit has no period."""
        declared = self.tables[table]
        return None if self.unit.period is None or declared.public else declared.period or self.unit.period_column

    @property
    def neighbours(self) -> Neighbours:
        return self.budget.neighbours

    @property
    def account_name(self) -> str:
        """The name of the account: declared, or that of the file, or of the unit."""
        if self.account is not None:
            return self.account
        return self.path.stem if self.path is not None else self.unit.name

    @property
    def database_names(self) -> frozenset[str]:
        """The names, in lower case, under which clients know the policy as a database: its account and its file."""
        file_name = [] if self.path is None else [self.path.stem]
        return frozenset(name.lower() for name in (self.account_name, *file_name))

    def public_face(self, analyst: str | None = None) -> PublicFace:
        """Return the policy as an analyst may read it, with their own share and no other."""
        if analyst is not None and analyst not in self.analysts:
            raise InvalidParameter(
                "analyst", analyst, "one of the analysts in the policy", fix="add [analysts.<name>] to the policy"
            )
        return PublicFace(
            self.account_name,
            self.unit,
            self.neighbours,
            without_spending(self.budget),
            tuple(
                public_table(table, self.period_column(name), self.cell_rules(name))
                for name, table in self.tables.items()
            ),
            self.size,
            self.per or "",
            analyst or "",
            None if analyst is None else self.analysts[analyst],
        )

    def cell_rules(self, table: str) -> dict[str, CellRules]:
        """Return the rules by which the cells of a table's columns are read, with those of the whole table; columns
        that decide the unit of a row have none.
        """
        declared = self.tables[table]
        return effective_rules(declared.rules, declared.nulls, declared.columns, _unit_deciding_columns(self, table))

    def dummy(self, rows: int = 1_000) -> dict[str, Any]:
        """Invent an Arrow table for each table, from the policy alone and always the same, to develop code against."""
        return invent_tables(self.tables, rows, self.id_type)


def _parse_id(declared: object, place: str) -> str | Via | None:
    """Parse a table's id in any notation."""
    if isinstance(declared, (list, tuple)):
        raise InvalidPolicy(
            "a row must have one owner: removing one of two owners would remove rows of the other",
            place=place,
            fix='write id = "row" to protect each row, such as an edge between two people; or name one owner column',
        )
    if isinstance(declared, Mapping):
        check_keys(declared, ("via", "on", "key"), place)
        for name in ("via", "on"):
            if name not in declared:
                raise InvalidPolicy(
                    "an id in another table needs the name of that table (via) and of the column that refers to it "
                    "(on)",
                    place=f"{place}.{name}",
                    fix='for example, for a table of tests: id = { via = "visits", on = "visit_id" }',
                )
        declared = Via(**declared)
    if isinstance(declared, Via):
        for name in ("via", "on", "key"):
            check_name(getattr(declared, name), "a table" if name == "via" else "a column", f"{place}.{name}")
    elif declared is not None:
        check_name(declared, "a column", place)
    return declared  # type: ignore[return-value]


def _check_paths(tables: Mapping[str, Table]) -> None:
    """Check that every path leads through private tables to a table with an id column."""
    for name, table in tables.items():
        visited = [name]
        for step in _path_steps(table, tables):
            place, parent = f"tables.{visited[-1]}.id.via", tables.get(step.via)
            if parent is None:
                candidates = [key for key, candidate in tables.items() if key not in visited and not candidate.public]
                raise InvalidPolicy(
                    f"there is no table {step.via}",
                    place=place,
                    fix=f"name one of {', '.join(candidates)}"
                    if candidates
                    else f'declare [tables."{step.via}"], or write id = "<the unit\'s id column>"',
                )
            if parent.public:
                raise InvalidPolicy(
                    f"{step.via} is public, so its rows have no owner",
                    place=place,
                    fix="use a private table, or declare this table public if it contains nothing about the units",
                )
            if step.via in visited:
                raise InvalidPolicy(
                    "a path to an id cannot be circular: " + " → ".join([*visited, step.via]),
                    place=place,
                    fix=f'store the id in one of these tables, and write id = "<column>" in [tables.{step.via}]',
                )
            visited.append(step.via)


def _path_steps(table: Table, tables: Mapping[str, Table]) -> Iterator[Via]:
    """Yield the steps of the path from a table to the one with ids, nearest first."""
    current: Table | None = table
    while current is not None and isinstance(current.id, Via):
        yield current.id
        current = tables.get(current.id.via)


def _check_periods(unit: PrivacyUnit, tables: Mapping[str, Table]) -> None:
    """Check that every private table has a period column if the unit has a period, and none otherwise."""
    if unit.period is not None and unit.period not in PERIODS:
        raise InvalidPolicy(
            "a period must be a day, a week or a month", place="unit.period.every", fix='write every = "day"'
        )
    for name, table in tables.items():
        place = f"tables.{name}.period"
        if table.period is not None and (table.public or unit.period is None):
            raise InvalidPolicy(
                "a period belongs to the unit, and must be declared in [unit]",
                place=place,
                fix="remove period: the table is public"
                if table.public
                else 'add period = { column = "day", every = "day" } to [unit]',
            )
        if unit.period is not None and not table.public:
            _check_period(table, table.period or unit.period_column, unit, place)


def _check_accounts(policy: Policy) -> None:
    """Check that account periods consist of whole periods of the unit, which every row has."""
    unit_period, account_period, place = policy.unit.period, policy.per, "unit.budget.per"
    periods = ACCOUNT_PERIODS["day"]
    if not isinstance(account_period, str) or account_period not in periods:
        period_list = f"{', '.join(periods[:-1])} or {periods[-1]}"
        raise InvalidPolicy(
            f"per must be {period_list}, the period of each account", place=place, fix='for example, per = "month"'
        )
    if unit_period is None:
        every = account_period if account_period in PERIODS else "month"
        raise InvalidPolicy(
            "budget.per gives each period its own account, but [unit] has no period",
            place=place,
            fix=f'add period = {{ column = "day", every = "{every}" }} to [unit], or remove per',
        )
    allowed = ACCOUNT_PERIODS[unit_period]
    if account_period not in allowed:
        finer = periods.index(account_period) < periods.index(unit_period)
        reason = (
            f"a {unit_period} has several {account_period}s"
            if finer
            else f"a {unit_period} can span two {account_period}s"
        )
        raise InvalidPolicy(
            f"each unit (one {policy.unit.name} in one {unit_period}) must be charged to a single account: {reason}",
            place=place,
            fix="write " + " or ".join(f'per = "{name}"' for name in allowed),
        )
    for name, table in policy.tables.items():
        column = policy.period_column(name)
        if column is not None and table.columns[column].values is not None:
            raise InvalidPolicy(
                "values cannot be listed for this column: it decides the period of a row, and so the account "
                "that is charged",
                place=f"tables.{name}.columns.{column}.values",
                fix="declare bounds instead of values",
            )


def _check_period(table: Table, column: str | None, unit: PrivacyUnit, place: str) -> None:
    domain = None if column is None else table.columns.get(column)
    if domain is not None and domain.type in (Type.DATE, Type.TIMESTAMP):
        return
    rule = f"the unit is one {unit.name}-{unit.period}, so every private table needs a date or timestamp column"
    missing_words = f"{table.name} declares no {column or 'such column'}"
    problem = missing_words if domain is None else f"{column} is {domain.type.value}"
    raise InvalidPolicy(
        f"{rule}, but {problem}",
        place=place,
        fix=f'declare "{column or "day"}" = {{ type = "date" }} in [tables.{table.name}.columns], or name another '
        f'column with period = {{ column = "<date>" }} in [tables.{table.name}]',
    )


def _unit_deciding_columns(policy: Policy, table: str) -> dict[str, str]:
    """Return the columns of a table that decide the unit of a row, here or in another table, with the role of each."""
    declared, roles = policy.tables[table], {}
    if isinstance(declared.id, Via):
        roles[declared.id.on] = "refers to the owner of a row"
    elif isinstance(declared.id, str) and not declared.every_row:
        roles[declared.id] = "is the id"
    for other in policy.tables.values():
        if isinstance(other.id, Via) and other.id.via == table:
            roles[other.id.key] = f"is the key of {other.name}"
    period = policy.period_column(table)
    return roles if period is None else {**roles, period: "is the period of a row"}


def _check_rules(policy: Policy) -> None:
    """Refuse cell rules on columns that decide the unit, and missing cells among listed values.

    A rule that turns two ids into one, or none into one, would merge or split units: the account of before it and that
    of after it would then protect other people. Such columns are refused for new accounts too.
    """
    for name, table in policy.tables.items():
        roles = {column.lower(): role for column, role in _unit_deciding_columns(policy, name).items()}
        for column in table.rules.keys() if roles else ():
            role = roles.get(column.lower(), "")
            for key in table.rules[column].keys if role else ():
                raise InvalidPolicy(
                    f"{column!r} {role}, so {key} cannot be set for it: converted cells could merge or split units",
                    place=f"tables.{name}.columns.{column}.{key}",
                    fix=f"remove {key}, and convert the column in a view or in the file",
                )
        if table.nulls and not table.columns:
            raise InvalidPolicy(
                "nulls can only be set if the columns of the table are declared",
                place=f"tables.{name}.nulls",
                fix="declare the columns of the table",
            )
        for column, rules in policy.cell_rules(name).items():
            lost = next((word for word in rules.nulls or () if word in (table.columns[column].values or ())), None)
            if lost is not None:
                raise InvalidPolicy(
                    f'"{lost}" cannot be both a missing value and a listed value',
                    place=f"tables.{name}.columns.{column}.nulls",
                    fix=f'remove "{lost}" from the values, or write nulls = [] here to keep it as a value',
                )


def _parse_period_column(declared: object, place: str) -> str | None:
    """Parse the period column that a table declares for itself."""
    if isinstance(declared, Mapping):
        if "every" in declared:
            raise InvalidPolicy(
                "the length of a period must be declared only once, in [unit]",
                place=f"{place}.every",
                fix='write period = { column = "day", every = "day" } in [unit], and here { column = "<date>" }',
            )
        check_keys(declared, ("column",), place)
        declared = declared.get("column", "")
    if declared is not None:
        check_name(declared, "a column", f"{place}.column")
    return declared  # type: ignore[return-value]


def _parse_id_type(declared: Any) -> Type | None:
    """Parse the declared type of ids."""
    if declared is None or declared in ID_TYPES:
        return declared
    if declared not in [kind.value for kind in ID_TYPES]:
        raise InvalidPolicy(
            'id_type must be "integer" or "text"', place="unit.id_type", fix='write id_type = "integer"'
        )
    return Type(declared)


def _parse_shares(analysts: Mapping[str, Any]) -> dict[str, Fraction]:
    """Parse the shares. Their sum may exceed 1: each limits one analyst, and the account limits all."""
    for name in analysts:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100:
            raise InvalidPolicy(
                "the name of an analyst must have 1 to 100 visible characters",
                place="analysts",
                fix="write [analysts.ana]",
            )
    return {
        name: with_policy_path(f"analysts.{name}", lambda share=share: exact(share, "share", _SHARE_RANGE))  # type: ignore[misc]
        for name, share in analysts.items()
    }


def _check_limit(value: Any, place: str) -> int:
    if type(value) is int and 1 <= value <= 10**6:
        return value
    raise InvalidPolicy(
        "a limit must be a whole number between 1 and 1,000,000", place=place, fix="write a number such as 10"
    )
