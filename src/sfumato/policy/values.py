"""A policy is one population, its budget and its tables, as frozen values. Everything in it is public."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.policy.codings import Coding, coding_of, is_coded, leaves
from sfumato.policy.domains import Domain, ListColumn, Type, check_keys, check_name, distinct, implied
from sfumato.policy.dummies import dummies
from sfumato.policy.public_faces import PublicFace, table_face, unspent
from sfumato.policy.table_sources import DatabaseTable, OnServer, check_ledger, check_one_engine, source_of
from sfumato.privacy import Budget, Neighbours, PrivacyUnit
from sfumato.privacy.numbers import Range, exact, whole

ROW = "row"
"""Declared as a table's id: every row is a unit of its own."""
PERIODS = ("day", "week", "month")
"""How long a period may be."""
ACCOUNT_PERIODS = {
    "day": ("day", "week", "month", "quarter", "year"),
    "week": ("week",),
    "month": ("month", "quarter", "year"),
    "quarter": ("quarter", "year"),
    "year": ("year",),
}
"""The periods that are made up of whole days, weeks, …: these may have accounts of their own beside such units."""
ID_TYPES = (Type.INTEGER, Type.TEXT)
"""What ids may be declared as: types in which no two ids become one."""

T = TypeVar("T")
_SHARE = Range("a number in (0, 1]", Fraction(0), Fraction(1), low_open=True)
_CELLS = ("bins", "levels", "spikes")
_COLUMN = ("type", "bounds", "values", "grid", "nullable", "max_length", "other", "most_items", *_CELLS)
MOST_IMPOSSIBLE = 1_000
"""Conditions that a table may declare impossible."""
MOST_ROWS = 2**40
"""No ceiling is higher: totals are bounded by it."""
ROW_CEILING = 2**32
"""Of a table that declares no ceiling."""


@dataclass(frozen=True)
class Via:
    """A row belongs to every unit that owns a row of another table with its key.

    Picking one of several owners, or passing over keys that several share, would let one person's rows decide whose
    rows other rows are; so each owner has a copy of its own.
    """

    via: str
    """The table whose rows have owners already."""
    on: str
    """The column of this table that names a row of that one."""
    key: str = ""
    """The column of that table which it equals: of the same name if none is given."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.key or self.on)

    def __str__(self) -> str:
        return f"{self.on} = {self.via}.{self.key}"


@dataclass(frozen=True)
class Table:
    """A table says where it lives, whose rows it holds, and what is declared about its columns.

    >>> columns = {"age": {"type": "integer", "bounds": (0, 110)}, "ward": {"values": ["A", "B"]}}
    >>> Table("visits", "visits.parquet", columns, id="patient_id", max_rows=3).columns
    {'age': integer from 0 to 110, 'ward': text, one of 2 values}
    """

    name: str
    source: Any
    """Where its rows are: a ``Source``, or the path of a file (CSV, Parquet, DuckDB with ``relation``), an address of a
    server (postgresql://host/database, sc://host:15002), or a table in memory (Arrow, pandas, polars, Spark)."""
    columns: Mapping[str, Domain] = field(default_factory=dict)
    """The columns that may be asked about, in their order, each as a Domain or as a dict of its fields. A public table
    may leave them out: all are known."""
    id: Any = None
    """Whose row it is: the column that says it, "row", or a ``Via`` (or a dict of its fields) where another table does;
    None for a public table."""
    max_rows: int | None = None
    """Rows of one unit that count, enforced in the query."""
    max_groups: int | None = None
    """Groups that one unit may touch."""
    max_rows_per_group: int | None = None
    """Rows of one unit that count in one group."""
    public: bool = False
    relation: str | None = None
    """The table inside a DuckDB database file or on a server, when the source is one."""
    row_ceiling: int = ROW_CEILING
    """The most rows the source may have, seen when its owner opens it: what a question costs is bounded by them. Where
    rows are found through another table, each owner's copy of a row is one."""
    period: Any = None
    """Where the unit has a period, the column that a row's is read from, if it is another than the unit's."""
    lists: Mapping[str, ListColumn] = field(default_factory=dict)
    """The columns that are lists: those among ``columns`` that say how many of their items count (``most_items``)."""
    codings: Mapping[str, Coding] = field(default_factory=dict)
    """How columns are cut into cells: of those among ``columns`` that have ``bins``, ``levels`` or ``spikes``."""
    impossible: tuple[str, ...] = ()
    """Conditions that no row meets, over coded columns: public knowledge, compared with no row."""
    implies: Mapping[str, str] = field(default_factory=dict)
    """Of a column, the column that its value decides, such as the region of a city."""
    path: InitVar[str | None] = None
    format: InitVar[str | None] = None
    version: InitVar[str | None] = None
    """Of rows on a server: where files are, in which format, and which version of them; kept in the source."""

    def __repr__(self) -> str:
        kind = "public" if self.public else f"private, {self.max_rows or 'all'} rows of one unit count"
        return f"<Table {self.name}: {kind}; columns {', '.join(self.columns) or 'as in its source'}>"

    def __post_init__(self, path: str | None, format: str | None, version: str | None) -> None:  # noqa: A002 - a key
        place = f"tables.{self.name}"
        check_name(self.name, "a table", place)
        object.__setattr__(self, "codings", _codings(self.columns, self.codings, f"{place}.columns"))
        declared = _columns(self.columns, f"{place}.columns") | _columns(self.lists, f"{place}.lists")
        lists = {name: each for name, each in declared.items() if isinstance(each, ListColumn)}
        object.__setattr__(self, "columns", {name: each for name, each in declared.items() if name not in lists})
        object.__setattr__(self, "lists", lists)
        self._check_source(place, path, format, version)
        if not isinstance(self.public, bool):
            raise InvalidPolicy("public is true or false", place=f"{place}.public", fix="write public = true")
        if type(self.row_ceiling) is not int or not 1 <= self.row_ceiling <= MOST_ROWS:
            raise InvalidPolicy(
                "a ceiling of rows is a whole number between 1 and 2^40",
                place=f"{place}.row_ceiling",
                fix="give it as, say, 10000000",
            )
        if self.public:
            self._check_public(place)
        else:
            self._check_private(place)
        self._check_cells(place)

    def _check_cells(self, place: str) -> None:
        """Check what is said of coded columns; conditions are read where questions are (``plan.declared_cells``)."""
        for name in self.codings:
            if name not in self.columns:
                raise InvalidPolicy(
                    "cells are of a declared column", place=f"{place}.codings.{name}", fix="declare the column"
                )
        object.__setattr__(self, "impossible", _conditions(self.impossible, f"{place}.impossible"))
        if not isinstance(self.implies, Mapping):
            raise InvalidPolicy(
                "columns are listed by name, each with the one it decides",
                place=f"{place}.implies",
                fix='write { city = "region" }',
            )
        object.__setattr__(self, "implies", dict(self.implies))
        for name, decided in self.implies.items():
            at = f"{place}.implies.{name}"
            if name == decided:
                raise InvalidPolicy("a column decides another one", place=at, fix="name another column, or remove it")
            for each in (name, decided):
                self._check_coded(each, at)

    def _check_coded(self, name: object, place: str) -> None:
        if not isinstance(name, str) or name not in self.columns:
            known = ", ".join(each for each in self.columns if self.coded(each)) or "none yet"
            raise InvalidPolicy(
                f"{self.name} declares no column {str(name)[:60]}", place=place, fix=f"name one of: {known}"
            )
        if not self.coded(name):
            raise InvalidPolicy(
                f"{name} has no cells: a column is coded when its values are listed, or it is boolean, or it has bins",
                place=place,
                fix=f"add values or bins to {self.name}.{name}",
            )

    def coded(self, name: str) -> bool:
        """Tell whether a column has finitely many cells."""
        return is_coded(self.columns[name], self.codings.get(name))

    def _check_source(self, place: str, path: str | None, form: str | None, version: str | None) -> None:
        if self.source is None or isinstance(self.source, (bool, int, float)):
            raise InvalidPolicy(
                "a table has a source",
                place=f"{place}.source",
                fix="name a CSV, Parquet or DuckDB file, or give a table in memory",
            )
        if self.relation is not None and (not isinstance(self.relation, str) or not self.relation.strip()):
            raise InvalidPolicy(
                "relation names a table inside a DuckDB database or on a server",
                place=f"{place}.relation",
                fix=f'write relation = "{self.name}"',
            )
        source = source_of(self.source, self.relation, path=path, form=form, version=version, place=place)
        if isinstance(source, DatabaseTable | OnServer):
            if self.relation not in (None, source.relation):
                raise InvalidPolicy(
                    "a table in a database is named once",
                    place=f"{place}.relation",
                    fix="leave relation out where the source names it",
                )
            object.__setattr__(self, "relation", source.relation)
        object.__setattr__(self, "source", source)

    def _check_public(self, place: str) -> None:
        for name in ("id", "max_rows", "max_groups", "max_rows_per_group", "period"):
            if getattr(self, name) is not None:
                raise InvalidPolicy(
                    "a public table protects nobody",
                    place=f"{place}.{name}",
                    fix=f"remove {name}, or remove public = true",
                )
        for name in ("codings", "impossible", "implies"):
            if getattr(self, name):
                what = "bins, levels and spikes" if name == "codings" else name
                raise InvalidPolicy(
                    "a public table is published already: its columns need no cells",
                    place=f"{place}.{'columns' if name == 'codings' else name}",
                    fix=f"remove {what}",
                )
        for name in self.lists:
            raise InvalidPolicy(
                "the lists of a public table are not read",
                place=f"{place}.columns.{name}.most_items",
                fix="store a row for each item, and leave most_items out",
            )

    def _check_private(self, place: str) -> None:
        object.__setattr__(self, "id", _whose(self.id, f"{place}.id"))
        object.__setattr__(self, "period", _period_column(self.period, f"{place}.period"))
        if self.id is None:
            raise InvalidPolicy(
                "every private table says whose rows it holds",
                place=f"{place}.id",
                fix='add id = "<the column naming the unit>", or id = "row" when every row is a unit, or public = true',
            )
        if not self.declares:
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
                        "a unit has one row where every row is one", place=f"{place}.{name}", fix=f"remove {name}"
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
        return bool(self.id == ROW)

    @property
    def declares(self) -> bool:
        """Tell whether it says which columns may be asked about."""
        return bool(self.columns or self.lists)


@dataclass(frozen=True)
class Policy:
    """A policy is one population with its budget for life, its tables and its analysts."""

    unit: PrivacyUnit
    budget: Budget
    tables: Mapping[str, Table]
    size: int | None = None
    """The declared number of units: public, and used to forecast errors only (under replace it is exact)."""
    analysts: Mapping[str, Fraction] = field(default_factory=dict)
    """Each analyst's share of every allowance."""
    path: Path | None = None
    """The file it was read from: names the account and places the ledger."""
    id_type: Any = None
    """What every id is read as, "integer" or "text"; None where the sources store all of them in one type."""
    per: Any = None
    """The period of which each has an account of its own with this budget; None where there is one account for life."""
    account: str | None = None
    """The name of its account; without one it is that of its file, or else of its unit."""
    ledger: Any = None
    """The database that keeps its ledger, postgresql://host/db; None where it is a file, beside the policy's own."""

    def __repr__(self) -> str:
        return f"<Policy protecting {self.unit}, {self.budget.promise}; tables {', '.join(self.tables)}>"

    def __post_init__(self) -> None:
        for name, kind in (("unit", PrivacyUnit), ("budget", Budget), ("tables", Mapping), ("analysts", Mapping)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidPolicy(f"{name} is a {kind.__name__}", place=name, fix=f"give {name} as a {kind.__name__}")
        object.__setattr__(self, "tables", dict(self.tables))
        object.__setattr__(self, "analysts", _shares(self.analysts))
        if self.size is not None:
            object.__setattr__(self, "size", placed("unit", lambda: whole(self.size or 0, "size", at_least=1)))
        if self.neighbours is Neighbours.REPLACE and self.size is None:
            raise InvalidPolicy(
                "replace neighbours make the number of units public",
                place="unit.size",
                fix="add size = <how many units there are>",
            )
        if not any(not table.public for table in self.tables.values()):
            raise InvalidPolicy("a policy has a private table", place="tables", fix="declare one with [tables.<name>]")
        object.__setattr__(self, "id_type", _id_type(self.id_type))
        check_ledger(self.ledger)
        distinct(self.tables, "tables")
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
        check_one_engine([(name, each.source) for name, each in self.tables.items() if not each.public])
        _check_paths(self.tables)
        _check_periods(self.unit, self.tables)
        if self.per is not None:
            _check_accounts(self)
            self.account_budget  # noqa: B018 - refused now, not when it is opened

    @property
    def account_budget(self) -> Budget:
        """Give the budget that an account is opened with: half of the policy's where a replaced unit may lie in the
        period of another account, so that both together keep what is promised (``ledger.period_accounts``).
        """
        whole = self.budget
        if self.per is None or self.neighbours is not Neighbours.REPLACE:
            return whole
        usual = Budget(whole.epsilon, whole.delta, reserve=whole.reserve, neighbours=whole.neighbours)
        order = None if usual.order == whole.order else whole.order
        half = Fraction(1, 2)
        return placed(
            "unit.budget",
            lambda: Budget(
                whole.epsilon * half,
                whole.delta * half,
                reserve=whole.reserve * half,
                order=order,
                neighbours=whole.neighbours,
            ),
        )

    def period_column(self, table: str) -> str | None:
        """Name the column that says in which period a row of a private table lies, where the unit has one."""
        declared = self.tables[table]
        return None if self.unit.period is None or declared.public else declared.period or self.unit.period_column

    @property
    def neighbours(self) -> Neighbours:
        return self.budget.neighbours

    @property
    def account_name(self) -> str:
        """Give the name of its account: its own, or that of its file, or of its unit when it has none."""
        if self.account is not None:
            return self.account
        return self.path.stem if self.path is not None else self.unit.name

    def public_face(self, analyst: str | None = None) -> PublicFace:
        """Say what whoever may ask is told of it: with the share of the analyst who reads it, and of no other."""
        if analyst is not None and analyst not in self.analysts:
            raise InvalidParameter("analyst", analyst, "an analyst of the policy", fix="add [analysts.<name>] to it")
        return PublicFace(
            self.account_name,
            self.unit,
            self.neighbours,
            unspent(self.budget),
            tuple(table_face(each, self.period_column(name)) for name, each in self.tables.items()),
            self.size,
            self.per or "",
            analyst or "",
            None if analyst is None else self.analysts[analyst],
        )

    def dummy(self, rows: int = 1_000) -> dict[str, Any]:
        """Invent an Arrow table for each table, to write code against: of this policy alone, the same every time."""
        return dummies(self.tables, rows, self.id_type)


def placed(place: str, make: Callable[[], T]) -> T:
    """Give what ``make`` gives; a parameter it refuses is named by its path in the policy."""
    try:
        return make()
    except InvalidParameter as refused:
        rule, at, fix = refused.rule, f"{place}.{refused.parameter}", refused.fix
    raise InvalidPolicy(rule, place=at, fix=fix)


def _whose(written: object, place: str) -> str | Via | None:
    """Read a table's id, in each form that it may be written in."""
    if isinstance(written, (list, tuple)):
        raise InvalidPolicy(
            "a row with two owners has no unit: to take one of them away would take rows from the other",
            place=place,
            fix='write id = "row": the row, say an edge between two people, is then the unit; or name one owner',
        )
    if isinstance(written, Mapping):
        check_keys(written, ("via", "on", "key"), place)
        for name in ("via", "on"):
            if name not in written:
                raise InvalidPolicy(
                    "an id in another table says through which table and by which column it is found",
                    place=f"{place}.{name}",
                    fix='write id = { via = "visits", on = "visit_id" }',
                )
        written = Via(**written)
    if isinstance(written, Via):
        for name in ("via", "on", "key"):
            check_name(getattr(written, name), "a table" if name == "via" else "a column", f"{place}.{name}")
    elif written is not None:
        check_name(written, "a column", place)
    return written  # type: ignore[return-value]


def _check_paths(tables: Mapping[str, Table]) -> None:
    """Every path leads through private tables of the policy to one whose rows carry ids."""
    for name, table in tables.items():
        seen = [name]
        for step in _steps(table, tables):
            place, parent = f"tables.{seen[-1]}.id.via", tables.get(step.via)
            if parent is None:
                others = [each for each, known in tables.items() if each not in seen and not known.public]
                raise InvalidPolicy(
                    f"there is no table {step.via}",
                    place=place,
                    fix=f"name one of {', '.join(others)}"
                    if others
                    else f'declare [tables."{step.via}"], or write id = "<the column naming the unit>"',
                )
            if parent.public:
                raise InvalidPolicy(
                    f"{step.via} is public, so its rows are nobody's",
                    place=place,
                    fix="go through a private table, or declare the table public if it is about nobody",
                )
            if step.via in seen:
                raise InvalidPolicy(
                    "a path to an id does not come back: " + " → ".join([*seen, step.via]),
                    place=place,
                    fix=f'store the id in one of them and name its column: id = "<column>" in [tables.{step.via}]',
                )
            seen.append(step.via)


def _steps(table: Table, tables: Mapping[str, Table]) -> Iterator[Via]:
    """List the hops from a table to the one that has ids, nearest first."""
    at: Table | None = table
    while at is not None and isinstance(at.id, Via):
        yield at.id
        at = tables.get(at.id.via)


def _check_periods(unit: PrivacyUnit, tables: Mapping[str, Table]) -> None:
    """Either every private table has a column that says in which period a row lies, or none names one."""
    if unit.period is not None and unit.period not in PERIODS:
        raise InvalidPolicy(
            "a period is a day, a week or a month", place="unit.period.every", fix='write every = "day"'
        )
    for name, table in tables.items():
        place = f"tables.{name}.period"
        if table.period is not None and (table.public or unit.period is None):
            raise InvalidPolicy(
                "a period is part of the unit, which is declared once",
                place=place,
                fix="remove period: the table is public"
                if table.public
                else 'add period = { column = "day", every = "day" } to [unit]',
            )
        if unit.period is not None and not table.public:
            _check_period(table, table.period or unit.period_column, unit, place)


def _check_accounts(policy: Policy) -> None:
    """An account is kept for a period that is made up of whole periods of the unit, which every row tells."""
    unit, per, place = policy.unit.period, policy.per, "unit.budget.per"
    known = ACCOUNT_PERIODS["day"]
    if not isinstance(per, str) or per not in known:
        listed = f"{', '.join(known[:-1])} or {known[-1]}"
        raise InvalidPolicy(f"an account is kept for each {listed}", place=place, fix='write per = "month"')
    if unit is None:
        raise InvalidPolicy(
            "accounts of periods are for units that lie in one period each",
            place=place,
            fix=f'add period = {{ column = "day", every = "{per if per in PERIODS else "month"}" }} to [unit], or '
            "remove per",
        )
    allowed = ACCOUNT_PERIODS[unit]
    if per not in allowed:
        finer = known.index(per) < known.index(unit)
        why = f"a {unit} lies in several {per}s" if finer else f"a {unit} may lie in two {per}s, which then overlap"
        raise InvalidPolicy(
            f"each unit, one {policy.unit.name}-{unit}, lies in one account: {why}",
            place=place,
            fix="write " + " or ".join(f'per = "{each}"' for each in allowed),
        )
    for name, table in policy.tables.items():
        column = policy.period_column(name)
        if column is not None and table.columns[column].values is not None:
            raise InvalidPolicy(
                "a list of values would move rows to another period, and this column says which account they are of",
                place=f"tables.{name}.columns.{column}.values",
                fix="declare bounds instead of values",
            )


def _check_period(table: Table, column: str | None, unit: PrivacyUnit, place: str) -> None:
    domain = None if column is None else table.columns.get(column)
    if domain is not None and domain.type in (Type.DATE, Type.TIMESTAMP):
        return
    rule = f"the unit is one {unit.name}-{unit.period}, so every private table declares a date or a time that says when"
    missing = f"{table.name} declares no {column or 'such column'}"
    found = missing if domain is None else f"{column} is {domain.type.value}"
    raise InvalidPolicy(
        f"{rule}: {found}",
        place=place,
        fix=f'declare "{column or "day"}" = {{ type = "date" }} in [tables.{table.name}.columns], or name the column '
        f'that says it with period = {{ column = "<date>" }} in [tables.{table.name}]',
    )


def _period_column(written: object, place: str) -> str | None:
    """Name the column that a table names as its own."""
    if isinstance(written, Mapping):
        if "every" in written:
            raise InvalidPolicy(
                "the length of a period is declared once for all tables",
                place=f"{place}.every",
                fix='write period = { column = "day", every = "day" } in [unit], and here { column = "<date>" }',
            )
        check_keys(written, ("column",), place)
        written = written.get("column", "")
    if written is not None:
        check_name(written, "a column", f"{place}.column")
    return written  # type: ignore[return-value]


def _id_type(written: Any) -> Type | None:
    """Name the type that ids are declared as."""
    if written is None or written in ID_TYPES:
        return written
    if written not in [each.value for each in ID_TYPES]:
        raise InvalidPolicy("ids are whole numbers or texts", place="unit.id_type", fix='write id_type = "integer"')
    return Type(written)


def _columns(columns: object, place: str) -> dict[str, Domain | ListColumn]:
    if not isinstance(columns, Mapping):
        raise InvalidPolicy(
            "columns are listed by name", place=place, fix='write age = { type = "integer", bounds = [0, 110] }'
        )
    for column in columns:
        check_name(column, "a column", f"{place}.{column}")
    distinct(columns, place)
    return {name: _domain(value, f"{place}.{name}") for name, value in columns.items()}


def _domain(value: object, place: str) -> Domain | ListColumn:
    if isinstance(value, (Domain, ListColumn)):
        return value
    if not isinstance(value, Mapping):
        raise InvalidPolicy("a column is declared by its type", place=place, fix='write { type = "text" }')
    check_keys(value, _COLUMN, place)
    declared = _with_leaves(value)
    most = declared.pop("most_items", None)
    if most is not None and any(name in value for name in _CELLS):
        raise InvalidPolicy(
            "a list column has no cells", place=f"{place}.most_items", fix="remove bins, levels and spikes"
        )
    kind = declared.pop("type", None) or implied(declared.get("values"))
    if kind is None:
        raise InvalidPolicy(
            "a column has a type, or lists values of one type",
            place=f"{place}.type",
            fix='add type = "integer", or "real", "text", "boolean", "date", "timestamp"',
        )
    domain = placed(place, lambda: Domain(kind, **declared))
    return domain if most is None else placed(place, lambda: ListColumn(domain, most))


def _with_leaves(written: Mapping[str, Any]) -> dict[str, Any]:
    """Give what is declared of a column without its bins and levels; levels may list its values."""
    declared = {name: each for name, each in written.items() if name not in _CELLS}
    levels = written.get("levels")
    if "values" not in declared and "bounds" not in declared and "bins" not in written and _lists_values(levels):
        declared["values"] = leaves(levels)
    return declared


def _lists_values(levels: object) -> bool:
    """Tell whether levels are values within lists, and not edges or periods."""
    return isinstance(levels, Mapping) or (
        isinstance(levels, (list, tuple)) and bool(levels) and all(isinstance(each, (list, tuple)) for each in levels)
    )


def _codings(columns: object, given: object, place: str) -> dict[str, Coding]:
    """Read the bins and levels of all columns that have some, beside those that are given as codings."""
    found = dict(given) if isinstance(given, Mapping) else {}
    for name, written in columns.items() if isinstance(columns, Mapping) else ():
        if isinstance(written, Mapping) and any(each in written for each in _CELLS):
            domain = _domain(written, f"{place}.{name}")
            assert isinstance(domain, Domain)
            cells = [written.get(each) for each in _CELLS]
            found[name] = placed(f"{place}.{name}", lambda d=domain, c=cells: coding_of(d, *c))  # type: ignore[misc]
    return found


def _conditions(written: object, place: str) -> tuple[str, ...]:
    if not isinstance(written, (list, tuple)) or len(written) > MOST_IMPOSSIBLE:
        raise InvalidPolicy(
            f"impossible is a list of at most {MOST_IMPOSSIBLE:,} conditions",
            place=place,
            fix='write ["age < 15 AND married"]',
        )
    for index, each in enumerate(written):
        if not isinstance(each, str) or not each.strip():
            raise InvalidPolicy(
                "a condition is SQL text", place=f"{place}[{index}]", fix='write "age < 15 AND married"'
            )
    return tuple(written)


def _shares(analysts: Mapping[str, Any]) -> dict[str, Fraction]:
    """Read the shares, which may overlap: each is a limit of its own, and the account is the limit of all."""
    for name in analysts:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 100:
            raise InvalidPolicy("an analyst has a name", place="analysts", fix="write [analysts.ana]")
    return {
        name: placed(f"analysts.{name}", lambda share=share: exact(share, "share", _SHARE))  # type: ignore[misc]
        for name, share in analysts.items()
    }


def _limit(value: Any, place: str) -> int:
    if type(value) is int and 1 <= value <= 10**6:
        return value
    raise InvalidPolicy("a limit is a whole number between 1 and 1,000,000", place=place, fix="give it as, say, 10")
