"""Clean scans of tables on a server, in the relational form: every cell becomes what the policy declares.

The meaning is that of every scan (``engine.duckdb.scan`` writes the same for DuckDB): each rule works on one cell, or
on one row for its id, by itself, so two tables that differ in one unit's rows differ in that unit's rows after the scan
too. No rule can raise. A driver reports how its columns are stored, and writes each as one of a few plain cells
(``CellExpressions``); the generator writes the rest for every engine alike.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sfumato.engine.lowering.applications import choice, not_null_test, null_constant, real_constant
from sfumato.engine.lowering.relation_lowering import UNIT, all_of, unrenamed_columns, with_shared_columns
from sfumato.engine.lowering.relational_form import (
    AggregateFunction,
    Apply,
    CleanTable as Source,
    Constant,
    GroupTotal,
    Reference,
    Relation,
    RelationalJoin,
    Scalar,
    ScalarFunction,
    Select,
    StagedSelect,
    apply,
    integer_constant,
)
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.engine.sources import clean_cells
from sfumato.engine.sources.clean_cells import (
    READ,
    Stored,
    ends_of,
    from_int64,
    has_rewriting_rules,
    integer_scalar,
    is_listed_test,
    largest_exact_integer,
    limited_real,
    moment_scalar,
    parse_double,
    rewritten_text,
    truth_scalar,
)
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.errors import InvalidPolicy
from sfumato.plan.values import calendar
from sfumato.plan.values.grammars import EXACT, GRAMMARS
from sfumato.policy import Domain, ListColumn, Policy, Table, Type, Via
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.domains import WIDE_PREFIX, widen_bounds
from sfumato.quick_dataclass import dataclass

_KEY, _PERIOD = "sf_key", "sf_period"


AS_TYPES = {
    Stored.INTEGER: Type.INTEGER,
    Stored.NUMBER: Type.REAL,
    Stored.REAL: Type.REAL,
    Stored.BOOLEAN: Type.BOOLEAN,
    Stored.DATE: Type.DATE,
    Stored.TIMESTAMP: Type.TIMESTAMP,
    Stored.TEXT: Type.TEXT,
}
"""The type that a plain cell has."""

_SINGLE_PRECISION = {"real", "float", "float4"}
"""What servers call numbers of 32 bits with a point, by the first word of the type."""
_NUMBERS = {Stored.INTEGER, Stored.NUMBER, Stored.REAL, Stored.BOOLEAN}
_TIMES = {Stored.DATE, Stored.TIMESTAMP}
_NO_CELLS = {Stored.BYTES, Stored.LIST, Stored.OTHER}
"""What is no cell of any declared type."""
ITEM = "sf_item"
"""What an item of a list is called where it is cleaned."""


@dataclass(frozen=True)
class StoredColumn:
    """A column as a server stores it."""

    name: str
    kind: Stored
    type_name: str
    """The stored type in the server's own words, for people and to tell whether it changed."""
    item: StoredColumn | None = None
    """What a list is of, under the name ``ITEM``."""


class CellExpressions(Protocol):
    """A dialect's expressions for the cells of a stored column, over the columns of its source."""

    def plain(self, column: StoredColumn) -> str:
        """Write the cell in the type of its kind: a number (of any kind but INTEGER and BOOLEAN) as a double that may
        be infinite and is NULL where it is no number, a date that can be converted to a time, a time in UTC, a text
        compared by its bytes.
        """
        ...

    def short(self, column: StoredColumn) -> str:
        """Write a text as ``plain`` does where grammars may read it; NULL if it has more than ``LONGEST`` bytes."""
        ...

    def text(self, column: StoredColumn) -> str | None:
        """Write the cell as the text that every engine gives it; None if its type has no text that engines share."""
        ...

    def is_integer(self, column: StoredColumn) -> str:
        """Test whether a decimal number or a double is whole; an infinite one is."""
        ...

    def nearest_integer(self, column: StoredColumn) -> str:
        """Round a decimal number or a double to the nearest 64-bit whole number; NULL if there is none."""
        ...

    def is_present(self, column: StoredColumn) -> str:
        """Test whether the cell is not NULL in its source."""
        ...

    def clean_list(self, column: StoredColumn, max_items: int, item: CleanItem) -> str:
        """Write the list of the first ``max_items`` items of a list, each cleaned; NULL or empty if it has no item."""
        ...

    def key(self, column: StoredColumn) -> str:
        """Write the cell in a type whose equality separates units as the source does; NULL where it is no number."""
        ...


@dataclass(frozen=True)
class StoredTable:
    """The SQL of a table's source on a server, and the columns stored there."""

    source: str
    columns: Sequence[StoredColumn]


@dataclass(frozen=True)
class InspectedCell:
    """The columns in which an owner inspects a cell: clean, converted to its type alone, and its presence."""

    clean: str
    raw: str
    is_there: str
    lower_bound: str | None
    """The lower bound, where the column has bounds."""
    is_null: str | None = None
    """Whether the cell is missing by its rules, where the column has any."""
    text: str | None = None
    """The stored text, where the column is stored as text; NULL if it is long."""


@dataclass(frozen=True)
class CleanScan:
    """A select over plain cells of sources, which a driver writes in its dialect."""

    select: Select
    cells: Mapping[str, Mapping[str, str]]
    """For each source that is read, the SQL of its plain cells and the names that the select has for them."""


@dataclass(frozen=True)
class CleanItem:
    """The cleaning of a list item: a value over its plain cells, and the stages that compute it."""

    cells: Mapping[str, str]
    """The SQL of the item's plain cells, and the names that the value has for them."""
    value: Scalar
    rows: RowLowering

    def select(self, source: Relation) -> Select:
        """Select the value from the plain cells, stage by stage."""
        return Select((("v", self.value),), _staged_source(source, self.rows))

    def inline(self) -> Scalar:
        """Return the value over the fields of ``ITEM``, without stages, for a dialect whose lists have none."""
        return _inlined(self.value, {name: scalar for stage in self.rows.take_new_stages() for name, scalar in stage})


@dataclass(frozen=True)
class CleanScans:
    """The clean scans of a policy's private tables on one server."""

    policy: Policy
    tables: Mapping[str, StoredTable]
    cells: CellExpressions
    spelling: Spelling

    def scan(self, table: str, rename: Callable[[str], str] = str, only: Collection[str] | None = None) -> CleanScan:
        """Select the declared columns, or ``only`` these, clean, and ``sf_unit`` when rows belong to units."""
        build, declared, rows = _ScanBuilder(self), self.policy.tables[table], RowLowering({})
        columns: dict[str, Scalar] = {}
        for name in (*declared.columns, *declared.lists) if only is None else only:
            if name.startswith(WIDE_PREFIX):
                column_name = name.removeprefix(WIDE_PREFIX)
                wide_domain = widen_bounds(declared.columns[column_name])
                columns[name] = build.clean(rows, build.declared_cell(table, column_name, wide_domain))
            elif name in declared.columns:
                columns[name] = build.clean(rows, build.declared_cell(table, name, declared.columns[name]))
            else:
                columns[name] = build.items(declared, name, declared.lists[name])
        renamed_columns = tuple((rename(name), scalar) for name, scalar in columns.items())
        return build.finish(build.with_units(declared, rows, renamed_columns or (("sf_row", integer_constant(0)),)))

    def text(self, table: str, only: Collection[str] | None = None) -> str:
        """Write the scan of a table, or of ``only`` these of its columns, as a SELECT."""
        return self.select_sql(self.scan(table, self.spelling.name, only))

    def select_sql(self, scan: CleanScan) -> str:
        """Write a scan as a SELECT over the sources."""

        def source(table: Source) -> str:
            cells = ", ".join(f"{sql} AS {name}" for sql, name in scan.cells.get(table.name, {}).items())
            return f"(SELECT {cells or '1 AS r0'} FROM {self.tables[table.name].source})"

        return Generator(self.spelling, source).statement(StagedSelect((), scan.select))

    def rows(self, table: str) -> str:
        """Write the SELECT of a source's row count; where rows are owned through another table, with a copy for each
        owner.
        """
        build, declared = _ScanBuilder(self), self.policy.tables[table]
        if not isinstance(declared.id, Via):
            return f"SELECT COUNT(*) AS n FROM {self.tables[table].source}"
        owned = build.with_units(declared, RowLowering({}), (("c", integer_constant(0)),))
        copies = self.select_sql(build.finish(Select((("n", GroupTotal(AggregateFunction.COUNT)),), owned)))
        source_rows = f"SELECT COUNT(*) AS n FROM {self.tables[table].source}"
        return f"SELECT MAX(n) AS n FROM ({copies} UNION ALL {source_rows}) AS r"

    def inspected(self, table: str) -> tuple[CleanScan, list[InspectedCell]]:
        """Select what the scan makes of every row's cells, with a column k that is 1 where the row has an owner; the
        cells are named in the order of the columns.
        """
        build, declared, rows = _ScanBuilder(self), self.policy.tables[table], RowLowering({})
        columns: list[tuple[str, Scalar]] = []
        cells = []
        for index, (name, domain) in enumerate(declared.columns.items()):
            cell = build.declared_cell(table, name, domain)
            clean, typed, is_present = build.clean(rows, cell), build.typed(rows, cell), build.is_present(rows, cell)
            columns += [(f"v{index}", clean), (f"r{index}", typed), (f"m{index}", is_present)]
            is_null, text = build.is_null(rows, cell), build.short_text(cell)
            columns += [(f"n{index}", is_null)] if is_null is not None else []
            columns += [(f"t{index}", text)] if text is not None else []
            low = None if domain.bounds is None or domain.values is not None else ends_of(domain)[0]
            low_sql = None if low is None else Generator(self.spelling, str).scalar(low)
            names = (f"n{index}" if is_null is not None else None, f"t{index}" if text is not None else None)
            cells.append(InspectedCell(f"v{index}", f"r{index}", f"m{index}", low_sql, *names))
        return build.finish(build.with_owner_flag(declared, rows, tuple(columns))), cells

    def stored(self, table: str, column: str, policy_path: str) -> StoredColumn:
        """Return the stored column of that name; raise if its type has no text that engines share."""
        return _require_shared_type(self._find_column(table, column, policy_path), column, policy_path)

    def stored_list(self, table: str, column: str, policy_path: str) -> tuple[StoredColumn, StoredColumn]:
        """Return the stored list column of that name, and the column of its items."""
        list_column = self._find_column(table, column, policy_path)
        if list_column.item is None:
            raise InvalidPolicy(
                f"'{column}' is not a list in its source",
                place=f"{policy_path}.most_items",
                fix="remove most_items, or name an array column whose items have a built-in type",
            )
        return list_column, _require_shared_type(list_column.item, column, policy_path)

    def rules(self, table: str) -> Mapping[str, CellRules]:
        """Return the rules by which the cells of a table's columns are read."""
        return self.policy.cell_rules(table)

    def _find_column(self, table: str, column: str, policy_path: str) -> StoredColumn:
        columns = [(stored.name, stored) for stored in self.tables[table].columns]
        fix = "name a column of the source that this role may read"
        return clean_cells.find_column(columns, column, policy_path, fix)


def _require_shared_type(stored: StoredColumn, column: str, policy_path: str) -> StoredColumn:
    """Raise for a column whose type has no text that engines share."""
    if stored.kind is Stored.OTHER:
        raise InvalidPolicy(
            f"'{column}' is stored as {stored.type_name}, a type that cannot be read",
            place=policy_path,
            fix="convert it to a number, a text, a date or a timestamp, in a view or in a new column",
        )
    return stored


_NO_RULES = CellRules()
_TEXTS = {Stored.TEXT, Stored.INTEGER}
"""What cell rules rewrite: texts, and the digits of whole numbers."""
Read = Callable[[RowLowering, StoredColumn, str], Scalar]
"""A key in the type in which it is compared; NULL where it is not of that type."""


@dataclass(frozen=True)
class _Owner:
    key: Scalar
    period: Scalar | None
    links: Select | None


@dataclass(frozen=True)
class _DeclaredCell:
    """A stored column with what the policy declares of it."""

    table: str
    column: StoredColumn
    domain: Domain
    policy_path: str
    rules: CellRules = _NO_RULES


class _ScanBuilder:
    """A builder of one statement over the sources of a server; records the cells that it reads."""

    def __init__(self, scans: CleanScans) -> None:
        self.scans, self.policy = scans, scans.policy
        self._read: dict[str, dict[str, str]] = {}

    def finish(self, select: Select) -> CleanScan:
        return CleanScan(select, self._read)

    def _cell(self, table: str, sql: str) -> Reference:
        cell_names = self._read.setdefault(table, {})
        return Reference(cell_names.setdefault(sql, f"r{len(cell_names)}"))

    # Cells

    def declared_cell(self, table: str, name: str, domain: Domain) -> _DeclaredCell:
        policy_path = f"tables.{table}.columns.{name}"
        rules = self.scans.rules(table).get(name, _NO_RULES)
        return _DeclaredCell(table, self.scans.stored(table, name, policy_path), domain, policy_path, rules)

    def clean(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        """Convert a cell to its domain; NULL where it is missing, or is not of the declared type."""
        clean, is_null = self.limited(rows, cell), self.is_null(rows, cell)
        if is_null is not None:
            clean = apply(ScalarFunction.CASE, is_null, null_constant(cell.domain.type), clean)
        if cell.domain.other is None:
            return clean
        other = apply(ScalarFunction.CASE, self.is_present(rows, cell), Constant(cell.domain.other, cell.domain.type))
        return apply(ScalarFunction.COALESCE, clean, other)

    def items(self, table: Table, name: str, declared: ListColumn) -> Scalar:
        """Select the first items of a list, each cleaned by itself."""
        policy_path = f"tables.{table.name}.columns.{name}"
        column, item = self.scans.stored_list(table.name, name, policy_path)
        build, rows = _ScanBuilder(self.scans), RowLowering({})
        value = build.clean(rows, _DeclaredCell(table.name, item, declared.items, policy_path))
        clean = CleanItem(build._read.get(table.name, {}), value, rows)
        return self._cell(table.name, self.scans.cells.clean_list(column, declared.max_items, clean))

    def limited(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        """Convert a cell to its domain; NULL where it is not of the declared type."""
        domain, kind = cell.domain, cell.domain.type
        if domain.values is not None:
            base_domain = Domain(kind) if kind is not Type.TEXT else domain
            x = rows.compute_once(self._as_declared_type(rows, replace(cell, domain=base_domain)))
            is_declared = apply(ScalarFunction.IN, x, *(Constant(value, kind) for value in domain.values))
            return apply(ScalarFunction.CASE, is_declared, x, null_constant(kind))
        typed = self._as_declared_type(rows, cell)
        if kind is not Type.TEXT:
            return typed
        text = rows.compute_once(typed)
        return apply(ScalarFunction.SLICE, text, integer_constant(1), integer_constant(domain.max_letters))

    def _as_declared_type(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        cells, table, column, domain = self.scans.cells, cell.table, cell.column, cell.domain
        kind = domain.type
        if kind is Type.TEXT or column.kind in _NO_CELLS:
            return self._text_of(rows, cell)
        if column.kind is Stored.TEXT or self._is_rewritten(cell):
            return READ[kind](rows, self._rewritten_text(rows, cell), domain)
        x: Scalar = self._cell(table, cells.plain(column))
        if kind.temporal:
            return moment_scalar(rows, x, column.kind, domain) if column.kind in _TIMES else null_constant(kind)
        if column.kind not in _NUMBERS:
            return null_constant(kind)
        if kind is Type.BOOLEAN:
            return x if column.kind is Stored.BOOLEAN else truth_scalar(x, column.kind)
        if column.kind is Stored.BOOLEAN:
            x = rows.compute_once(choice(x, integer_constant(1), integer_constant(0)))
        if column.kind in (Stored.INTEGER, Stored.BOOLEAN):
            return from_int64(x, domain)
        if kind is Type.REAL:
            return limited_real(rows, x, domain)
        is_whole = self._cell(table, cells.is_integer(column))
        return integer_scalar(rows, x, is_whole, self._cell(table, cells.nearest_integer(column)), domain)

    # Cell rules

    def _is_rewritten(self, cell: _DeclaredCell) -> bool:
        """Return whether rules rewrite a cell; a whole number needs no separators of its own."""
        is_text = cell.column.kind in _TEXTS and (cell.column.kind is Stored.TEXT or not cell.domain.type.numeric)
        return is_text and has_rewriting_rules(cell.rules, cell.domain.type)

    def short_text(self, cell: _DeclaredCell) -> Scalar | None:
        """Return a cell as a text that grammars may read; None if it is stored as neither text nor whole numbers."""
        if cell.column.kind is Stored.TEXT:
            return self._cell(cell.table, self.scans.cells.short(cell.column))
        is_whole = cell.column.kind is Stored.INTEGER
        return self.text(cell.table, cell.column, cell.policy_path) if is_whole else None

    def _rewritten_text(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        """Return a text cell as its rules rewrite it."""
        text = self.short_text(cell)
        assert text is not None
        return (
            rows.compute_once(rewritten_text(rows, text, cell.rules, cell.domain.type))
            if self._is_rewritten(cell)
            else text
        )

    def _text_of(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        """Return a cell as text, rewritten unless it is longer than any cell that rules read."""
        text = self.text(cell.table, cell.column, cell.policy_path)
        return (
            apply(ScalarFunction.COALESCE, self._rewritten_text(rows, cell), text) if self._is_rewritten(cell) else text
        )

    def is_null(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar | None:
        """Test whether the rules of a column call a cell missing, by its text or its value; None if none do."""
        text, kind = self.short_text(cell) if cell.rules.nulls else None, cell.domain.type
        tests = [] if text is None else [is_listed_test(text, cell.rules.nulls or ())]
        values = [Constant(value, kind) for value in cell.rules.null_values(kind)]
        possible = cell.rules.possible
        if values or possible is not None:
            value = rows.compute_once(self._as_declared_type(rows, replace(cell, domain=Domain(kind))))
            tests += [apply(ScalarFunction.IN, value, *values)] if values else []
        nulls: list[Scalar] = [apply(ScalarFunction.COALESCE, test, Constant(False, Type.BOOLEAN)) for test in tests]
        if possible is not None:
            is_inside = apply(ScalarFunction.BETWEEN, value, *ends_of(Domain(kind, possible)))
            is_surely_inside = apply(ScalarFunction.COALESCE, is_inside, Constant(False, Type.BOOLEAN))
            is_there = not_null_test(rows.compute_once(self.limited(rows, cell)))  # a number or a time, however large
            nulls.append(all_of([is_there, apply(ScalarFunction.NOT, is_surely_inside)]))
        return rows.compute_once(apply(ScalarFunction.OR, *nulls) if len(nulls) > 1 else nulls[0]) if nulls else None

    def text(self, table: str, column: StoredColumn, policy_path: str) -> Scalar:
        """Return a cell as text; raise if its type has none that engines share."""
        sql = self.scans.cells.text(column)
        if sql is None:
            subject = "an item" if column.name == ITEM else f"'{column.name}'"
            raise InvalidPolicy(
                f"{subject} is stored as {column.type_name}, which has no portable text form",
                place=policy_path,
                fix="convert it to text in a view, or declare it as a number or a time if it holds such values",
            )
        return self._cell(table, sql)

    def typed(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        """Convert a cell to its declared type, without bounds and values; a real keeps its size."""
        kind, column = cell.domain.type, cell.column
        if kind is Type.REAL and column.kind in (Stored.REAL, Stored.NUMBER):
            return self._cell(cell.table, self.scans.cells.plain(column))
        if kind is Type.REAL and column.kind is Stored.TEXT:
            return parse_double(rows, self._rewritten_text(rows, cell))
        return self._as_declared_type(rows, replace(cell, domain=Domain(kind)))

    def is_present(self, rows: RowLowering, cell: _DeclaredCell) -> Scalar:
        """Test whether a cell is neither NULL in its source nor missing by its rules."""
        is_present, is_null = (
            self._cell(cell.table, self.scans.cells.is_present(cell.column)),
            self.is_null(rows, cell),
        )
        if is_null is None:
            return is_present
        return apply(ScalarFunction.CASE, is_null, Constant(False, Type.BOOLEAN), is_present)

    # Owners

    def with_owner_flag(self, table: Table, rows: RowLowering, columns: tuple[tuple[str, Scalar], ...]) -> Select:
        """Select columns of every row, with k: 1 where the row has an owner."""
        owner = self._owner(table, rows)
        if owner is None:
            return Select((("k", integer_constant(1)), *columns), _staged_source(Source(table.name), rows))
        tests = [not_null_test(name) for name in (owner.key, owner.period) if name is not None]
        if owner.links is None:
            has_owner = apply(ScalarFunction.CASE, all_of(tests), integer_constant(1), integer_constant(0))
            return Select((("k", has_owner), *columns), _staged_source(Source(table.name), rows))
        names = (_KEY,) if owner.period is None else (_KEY, _PERIOD)
        owner_columns = ((_KEY, owner.key), *(() if owner.period is None else ((_PERIOD, owner.period),)))
        owner_rows = Select((*columns, *owner_columns), _staged_source(Source(table.name), rows))
        conditions = [apply(ScalarFunction.EQUAL, Reference(name, "r"), Reference(name, "l")) for name in names]
        linked_keys = Select(unrenamed_columns(names), owner.links, group_by=names)
        has_owner = apply(
            ScalarFunction.CASE, not_null_test(Reference(_KEY, "l")), integer_constant(1), integer_constant(0)
        )
        visible_columns = tuple((name, Reference(name, "r")) for name, _ in columns)
        return Select(
            (("k", has_owner), *visible_columns),
            owner_rows,
            joins=(RelationalJoin(linked_keys, "l", all_of(conditions), outer=True),),
        )

    def with_units(self, table: Table, rows: RowLowering, columns: tuple[tuple[str, Scalar], ...]) -> Select:
        """Select columns with ``sf_unit`` beside them: a row for each of its owners."""
        owner = self._owner(table, rows)
        source: Relation = Source(table.name)
        if owner is None:
            return Select(columns, _staged_source(source, rows))
        tests = [not_null_test(scalar) for scalar in (owner.key, owner.period) if scalar is not None]
        if owner.links is None:
            return Select(
                (*columns, (UNIT, _unit(owner.key, owner.period))), _staged_source(source, rows), where=tuple(tests)
            )
        inner_names = tuple((f"c{index}", scalar) for index, (_, scalar) in enumerate(columns))
        inner_columns = (*inner_names, (_KEY, owner.key), *(() if owner.period is None else ((_PERIOD, owner.period),)))
        inner_rows = Select(inner_columns, _staged_source(source, rows), where=tuple(tests))
        conditions = [apply(ScalarFunction.EQUAL, Reference(_KEY, "r"), Reference(_KEY, "l"))]
        if owner.period is not None:
            conditions.append(apply(ScalarFunction.EQUAL, Reference(_PERIOD, "r"), Reference(_PERIOD, "l")))
        visible_columns = tuple((name, Reference(f"c{index}", "r")) for index, (name, _) in enumerate(columns))
        unit = (UNIT, Reference(UNIT, "l"))
        return Select(
            (*visible_columns, unit), inner_rows, joins=(RelationalJoin(owner.links, "l", all_of(conditions)),)
        )

    def _owner(self, table: Table, rows: RowLowering) -> _Owner | None:
        if table.public or table.every_row:
            return None
        period = self._period(table, rows)
        if not isinstance(table.id, Via):
            read_key = self._id_reader(table)
            column = self.scans.stored(table.name, table.id, f"tables.{table.name}.id")
            return _Owner(rows.compute_once(read_key(rows, column, table.name)), period, None)
        parent = self.policy.tables[table.id.via]
        child_key = self.scans.stored(table.name, table.id.on, f"tables.{table.name}.id.on")
        key = self.scans.stored(parent.name, table.id.key, f"tables.{table.name}.id.key")
        read_both = self._common_key_reader((child_key, key)) or self._mixed_key_reader((child_key, key))
        return _Owner(
            rows.compute_once(read_both(rows, child_key, table.name)), period, self._key_owners(parent, key, read_both)
        )

    def _key_owners(self, table: Table, key: StoredColumn, read_key: Read) -> Select:
        """Select the keys of a table's rows, each once with every unit that owns such a row."""
        rows = RowLowering({})
        owner = self._owner(table, rows)
        assert owner is not None
        linked = rows.compute_once(read_key(rows, key, table.name))
        tests = [not_null_test(scalar) for scalar in (linked, owner.key, owner.period) if scalar is not None]
        names = [_KEY, UNIT] if owner.period is None else [_KEY, UNIT, _PERIOD]
        if owner.links is None:
            scalars: list[Scalar] = [linked, _unit(owner.key, owner.period)]
            scalars += [] if owner.period is None else [owner.period]
            links = Select(
                tuple(zip(names, scalars, strict=True)), _staged_source(Source(table.name), rows), where=tuple(tests)
            )
        else:
            child_columns = [("sf_link", linked), (_KEY, owner.key)]
            child_columns += [] if owner.period is None else [(_PERIOD, owner.period)]
            child_rows = Select(tuple(child_columns), _staged_source(Source(table.name), rows), where=tuple(tests))
            conditions = [
                apply(ScalarFunction.EQUAL, Reference(name, "r"), Reference(name, "l")) for name in (_KEY, _PERIOD)
            ]
            link_columns = [
                (_KEY, Reference("sf_link", "r")),
                (UNIT, Reference(UNIT, "l")),
                (_PERIOD, Reference(_PERIOD, "r")),
            ]
            join = RelationalJoin(owner.links, "l", all_of(conditions if owner.period is not None else conditions[:1]))
            links = Select(tuple(link_columns[: len(names)]), child_rows, joins=(join,))
        return Select(unrenamed_columns(names), links, group_by=tuple(names))

    def _period(self, table: Table, rows: RowLowering) -> Scalar | None:
        """Compute the start of a row's period. No bound is applied before: two days would become one."""
        column = self.policy.period_column(table.name)
        if column is None:
            return None
        kind, policy_path = table.columns[column].type, f"tables.{table.name}.period"
        stored = self.scans.stored(table.name, column, policy_path)
        moment = self.limited(rows, _DeclaredCell(table.name, stored, Domain(kind), policy_path))
        start: Scalar = apply(ScalarFunction.START, moment, detail=(self.policy.unit.period, kind))
        day = start if kind is Type.DATE else apply(ScalarFunction.CONVERT, start, detail=(Type.DATE,))
        bounds = table.columns[column].bounds
        if self.policy.per is None or bounds is None:
            return rows.compute_once(day)
        return rows.compute_once(_null_outside_account_periods(rows.compute_once(day), self.policy.per, bounds))

    def _id_reader(self, table: Table) -> Read:
        """Return the conversion of ids to the one type that all tables of the population have."""
        if self.policy.id_type is not None:
            return self._id_reader_of_type(self.policy.id_type)
        id_tables = [root for root in self.policy.tables.values() if not root.public and not isinstance(root.id, Via)]
        columns = [self.scans.stored(root.name, root.id, f"tables.{root.name}.id") for root in id_tables]
        read_key = self._common_key_reader(columns)
        if read_key is not None:
            return read_key
        id_column = self.scans.stored(table.name, table.id, f"tables.{table.name}.id")
        other, column = next(
            (root, column)
            for root, column in zip(id_tables, columns, strict=True)
            if self._common_key_reader((id_column, column)) is None
        )
        raise InvalidPolicy(
            f"ids must have one type in all tables, but they are {id_column.type_name} in {table.name} and "
            f"{column.type_name} in {other.name}",
            place=f"tables.{table.name}.id",
            fix='declare id_type = "integer" in [unit], which makes 007 and 7 one id, or id_type = "text", '
            "which makes them two; rows whose id is not of that type are dropped",
        )

    def _common_key_reader(self, columns: Sequence[StoredColumn]) -> Read | None:
        """Return how keys of several sources are compared without conversion; None if they cannot be."""
        kinds = {column.kind for column in columns}
        is_comparable = len({column.type_name for column in columns}) == 1 or kinds in ({Stored.INTEGER}, {Stored.TEXT})
        return self._key if is_comparable else None

    def _key(self, _: RowLowering, column: StoredColumn, table: str) -> Scalar:
        """Return a key in its stored type; a list has no text, and is refused."""
        if column.kind is Stored.LIST:
            return self.text(table, column, f"tables.{table}.id")
        return self._cell(table, self.scans.cells.key(column))

    def _mixed_key_reader(self, columns: Sequence[StoredColumn]) -> Read:
        """Return how keys stored in two types are compared: as whole numbers if one of them is a number."""
        kinds = {column.kind for column in columns}
        numbers = _NUMBERS - {Stored.BOOLEAN}
        return self._id_reader_of_type(
            Type.INTEGER if kinds & numbers and kinds <= numbers | {Stored.TEXT} else Type.TEXT
        )

    def _id_reader_of_type(self, sql_type: Type) -> Read:
        if sql_type is Type.TEXT:
            return self._text_id
        return self._integer_id

    def _text_id(self, rows: RowLowering, column: StoredColumn, table: str) -> Scalar:
        if column.kind is Stored.TEXT:
            return self._key(rows, column, table)
        return self.text(table, column, f"tables.{table}.id")

    def _integer_id(self, rows: RowLowering, column: StoredColumn, table: str) -> Scalar:
        """Read an id as a whole number, or NULL, where nobody's id could be another's.

        A double that stands for two whole numbers would make two people one unit, and one person two where another
        table has the id in digits. Both break the bound on what one person changes, by a factor of two. One who comes
        to a unit that stays changes its rows, as if it were removed and another added; one who is two units changes
        both. So rows of such ids are nobody's, under either relation: which ones is decided by the row alone.
        """
        cell = _DeclaredCell(table, column, Domain(Type.INTEGER), f"tables.{table}.id")
        number = rows.compute_once(self._as_declared_type(rows, cell))
        if column.kind is Stored.TEXT:
            text = self._cell(table, self.scans.cells.short(column))
            is_exact = [
                apply(ScalarFunction.MATCHES, text, detail=(grammar,)) for grammar in (GRAMMARS[Type.INTEGER], EXACT)
            ]
            return apply(ScalarFunction.CASE, is_exact[0], number, is_exact[1], number, null_constant(Type.INTEGER))
        if column.kind is Stored.REAL:
            limit = real_constant(largest_exact_integer(column.type_name.partition(" ")[0] in _SINGLE_PRECISION))
            size = apply(ScalarFunction.ABS, self._cell(table, self.scans.cells.plain(column)))
            return apply(
                ScalarFunction.CASE, apply(ScalarFunction.LESS, size, limit), number, null_constant(Type.INTEGER)
            )
        return number


def _staged_source(source: Relation, rows: RowLowering) -> Relation | Select:
    """Compute common subexpressions in stages over a source."""
    return with_shared_columns(source, rows)  # type: ignore[arg-type]


def _unit(key: Scalar, period: Scalar | None) -> Scalar:
    """Identify a unit by its id, or per period by a text of both: ten letters of the day, then the id."""
    if period is None:
        return key
    return apply(
        ScalarFunction.JOIN, *(apply(ScalarFunction.CONVERT, scalar, detail=(Type.TEXT,)) for scalar in (period, key))
    )


def _null_outside_account_periods(start: Scalar, per: str, bounds: Any) -> Scalar:
    """Map a period start to NULL where its account lies outside the declared bounds, as every scan does."""
    first, last = (_as_date(calendar.truncate(per, end)) for end in bounds)
    end = calendar.shift(last, 1, per)
    tests = [apply(ScalarFunction.AT_LEAST, start, Constant(first, Type.DATE))]
    if end is not None:
        tests.append(apply(ScalarFunction.LESS, start, Constant(_as_date(end), Type.DATE)))
    return apply(ScalarFunction.CASE, all_of(tests), start, null_constant(Type.DATE))


def _as_date(moment: dt.date) -> dt.date:
    return dt.date(moment.year, moment.month, moment.day)


def _inlined(scalar: Scalar, stages: Mapping[str, Scalar]) -> Scalar:
    """Substitute staged scalars where they are referred to."""
    if isinstance(scalar, Reference):
        return _inlined(stages[scalar.name], stages) if scalar.name in stages else Reference(scalar.name, ITEM)
    if isinstance(scalar, Apply):
        return replace(scalar, arguments=tuple(_inlined(argument, stages) for argument in scalar.arguments))
    return scalar
