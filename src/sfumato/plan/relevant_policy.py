"""The part of a policy that decides what a question means: a bought answer stays free until this part changes.

*Claim.* Under two policies with equal relevant parts, a plan reads the same numbers of the same data, and bounds each
unit alike. The rows of a table, their owners and their cells follow from the unit, the id types, the declarations of
the table itself and of the tables on the path to its owner, and from the declarations of the columns that the plan, an
id, a path or a period reads. The plan holds its own expressions, and the engine identifies the data as a whole. Nothing
else of a policy reaches a statement. So the released answer is, as it is shown, an answer to the question now asked,
and to show it again is post-processing. ∎

``FIELDS`` classifies every field. A field that nobody classified counts, for every question, once it is declared: at
worst an answer is bought twice. A field at its default is left out, so a field added later changes no earlier key.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.caching import once_per_instance
from sfumato.plan.nodes import PublicJoin, Scan
from sfumato.plan.values.expressions import Field
from sfumato.policy import Domain, ListColumn, Policy, Table, Via
from sfumato.policy.codings import Coding, Level
from sfumato.policy.domains import WIDE_PREFIX
from sfumato.privacy import Budget, PrivacyUnit

Declarations = list[Any]
"""Names and values of declared fields, sorted, with plain values and domains as leaves."""
_LEAVES = (str, int, float, Fraction, dt.date, Domain)
"""The classes of values that ``canonical.digest`` hashes; any other value is hashed as its text."""
ReadColumns = dict[str, set[str]]
"""For each table that is read, the names of the columns that are read, in lower case."""


class Relevance(Enum):
    """The questions that a field of a policy counts for."""

    ALWAYS = "every question that reads the table"
    COLUMN = "questions that read the column"
    CELL = "releases of the column's cells"
    CELLS = "releases of the table's cells"
    NEVER = "no question"


_ALWAYS, _NEVER = Relevance.ALWAYS, Relevance.NEVER

FIELDS: Mapping[type, Mapping[str, Relevance]] = {
    Policy: {
        "unit": _ALWAYS,
        "budget": _ALWAYS,
        "tables": _ALWAYS,  # those that are read
        "id_type": _ALWAYS,
        "per": _ALWAYS,
        "size": _NEVER,  # forecasts
        "analysts": _NEVER,
        "path": _NEVER,
        "account": _NEVER,  # an answer is looked up in its account
        "ledger": _NEVER,
        "allow_large_delta": _NEVER,
        "approval": _NEVER,  # who agrees to a release, not what it means
    },
    Budget: {
        "neighbours": _ALWAYS,
        "epsilon": _NEVER,
        "delta": _NEVER,
        "reserve": _NEVER,
        "order": _NEVER,
        "spent_pure": _NEVER,
        "spent_renyi": _NEVER,
        "spent_failure": _NEVER,
        "allowances": _NEVER,
    },
    Table: {
        "name": _ALWAYS,
        "source": _NEVER,  # the engine identifies the data
        "relation": _ALWAYS,
        "id": _ALWAYS,
        "period": _ALWAYS,
        "public": _ALWAYS,
        "max_rows": _ALWAYS,
        "max_groups": _ALWAYS,
        "max_rows_per_group": _ALWAYS,
        "possible_rows": _ALWAYS,
        "row_ceiling": _NEVER,  # checked when the table is opened, and enforced in no statement
        "columns": Relevance.COLUMN,
        "lists": Relevance.COLUMN,
        "codings": Relevance.CELL,
        "impossible": Relevance.CELLS,
        "implies": Relevance.CELLS,
        "rules": Relevance.COLUMN,
        "nulls": _ALWAYS,
    },
}
"""The relevance of each field; fields of other classes, and fields that are not listed, count with what holds them."""

FIRST_HASHED: Mapping[type, frozenset[str]] = {
    Policy: frozenset(("unit", "budget", "tables", "id_type", "per")),
    PrivacyUnit: frozenset(("name", "every_row", "period", "path", "period_column")),
    Budget: frozenset(("neighbours",)),  # an account has one definition of neighbours for life
    Table: frozenset(
        (
            *("name", "relation", "id", "period", "public", "max_rows", "max_groups", "max_rows_per_group"),
            *("columns", "lists", "codings", "impossible", "implies"),
        )
    ),
    Via: frozenset(("via", "on", "key")),
    Domain: frozenset(("type", "bounds", "values", "grid", "nullable", "max_length", "other")),
    ListColumn: frozenset(("items", "max_items")),
    Coding: frozenset(("starts", "end", "levels", "spikes")),
    Level: frozenset(("parts", "name", "labels")),
}
"""The fields in the first form of a policy's version (``curator.context``), which later forms extend."""


def declarations_for_plan(plan: object, policy: Policy, *, reads_cells: bool) -> Declarations:
    """Return the declarations that the answer to a plan depends on; ``reads_cells`` is for releases of coded cells."""
    return _relevant_tables(read_columns(plan, policy), policy, reads_cells=reads_cells)


def _relevant_tables(read: ReadColumns, policy: Policy, *, reads_cells: bool) -> Declarations:
    tables = [_table_declarations(policy.tables[name], read[name], reads_cells) for name in sorted(read)]
    declarations = [_declarations_beside_tables(policy), tables]
    has_later = any(
        _declares_newer_fields(policy.tables[name], read[name], table)
        for name, table in zip(sorted(read), tables, strict=True)
    )
    # what later versions declare of cells may depend on which columns give rows of any table an owner
    return [*declarations, _owner_declarations(policy)] if has_later else declarations


@once_per_instance
def _declarations_beside_tables(policy: Policy) -> Declarations:
    return _included_declarations(policy, lambda name, _: name != "tables")


def _declares_newer_fields(table: Table, read: AbstractSet[str], declarations: Declarations) -> bool:
    """Return whether the relevant declarations of a table hold anything that their first form did not."""
    first_hashed, by_column = _registry_entry(FIRST_HASHED, table), (table.columns, table.lists)
    is_later = any(name not in first_hashed for name, _ in declarations)
    return is_later or any(newer_field_declarations(_column_entries(columns, read)) for columns in by_column)


def _owner_declarations(policy: Policy) -> Declarations:
    return [[name, _plain_json(table.id), table.period] for name, table in sorted(policy.tables.items())]


def declarations_for_rows(table: str, policy: Policy) -> Declarations:
    """Return the declarations that the rows of a table and their owners depend on, with all rules about its cells."""
    read: ReadColumns = {table: set()}
    _add_owner_columns(table, policy, read)
    return _relevant_tables(read, policy, reads_cells=True)


def declarations_for_columns(table: Table, names: Iterable[str]) -> Declarations:
    """Return the declarations of some columns of a table, with their cells."""
    read = {name.lower() for name in names}
    by_column = (Relevance.COLUMN, Relevance.CELL)
    chosen = sorted(name for name, relevance in _relevance_by_field(table).items() if relevance in by_column)
    entries = {name: _column_entries(getattr(table, name), read) for name in chosen}
    return [[name, _plain_json(declared)] for name, declared in entries.items() if declared]


def read_columns(plan: object, policy: Policy) -> ReadColumns:
    """Return the columns that a plan reads of each table, with those that give its rows an owner."""
    read: ReadColumns = {}
    for part in _hashed_plan_parts(plan):
        if isinstance(part, (Scan, PublicJoin)):
            read.setdefault(part.table, set())
        if isinstance(part, PublicJoin):
            joined = [column for _, column in part.pairs] + [column for _, _, column in part.bands]
            read[part.table].update(map(str.lower, joined))
        if isinstance(part, Field) and part.table:
            read.setdefault(part.table, set()).add(part.name.removeprefix(WIDE_PREFIX).lower())
    for name in tuple(read):
        _add_owner_columns(name, policy, read)
    return read


def newer_field_declarations(value: object, path: str = "") -> Declarations:
    """Return what is declared in fields that the first form of a policy's version does not hold, with their paths."""
    if isinstance(value, Mapping):
        return [item for key in sorted(value) for item in newer_field_declarations(value[key], f"{path}.{key}")]
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return [item for index, part in enumerate(value) for item in newer_field_declarations(part, f"{path}.{index}")]
    if not dataclasses.is_dataclass(value):
        return []
    first_hashed = _registry_entry(FIRST_HASHED, value)
    if first_hashed is None:
        return []
    declarations: Declarations = []
    for name, declared in _fields_not_at_default(value):
        if name in first_hashed:
            declarations += newer_field_declarations(declared, f"{path}.{name}")
        elif _relevance_by_field(value).get(name) is not _NEVER:
            declarations.append([f"{path}.{name}", _plain_json(declared)])
    return declarations


def _add_owner_columns(name: str, policy: Policy, read: ReadColumns) -> None:
    """Add the columns that name the owner and the period of a table's rows, in it and in every table on its path."""
    unit_id, period = policy.tables[name].id, policy.period_column(name)
    columns = read.setdefault(name, set())
    columns.update(column.lower() for column in (period, unit_id) if isinstance(column, str))
    if isinstance(unit_id, Via):
        columns.add(unit_id.on.lower())
        read.setdefault(unit_id.via, set()).add(unit_id.key.lower())
        _add_owner_columns(unit_id.via, policy, read)


def _table_declarations(table: Table, read: AbstractSet[str], reads_cells: bool) -> Declarations:
    def is_counted(_: str, relevance: Relevance) -> bool:
        return reads_cells or relevance not in (Relevance.CELL, Relevance.CELLS)

    return _included_declarations(table, is_counted, read)


def _included_declarations(
    value: object, is_counted: Callable[[str, Relevance], bool], read: AbstractSet[str] = frozenset()
) -> Declarations:
    relevances = _relevance_by_field(value)
    declarations: Declarations = []
    for name, declared in _fields_not_at_default(value):
        relevance = relevances.get(name, _ALWAYS)
        if relevance is _NEVER or not is_counted(name, relevance):
            continue
        if relevance in (Relevance.COLUMN, Relevance.CELL):
            declared = _column_entries(declared, read)
            if not declared:
                continue
        declarations.append([name, _plain_json(declared)])
    return sorted(declarations)


def _column_entries(by_column: Mapping[str, Any], read: AbstractSet[str]) -> dict[str, Any]:
    return {name: declared for name, declared in by_column.items() if name.lower() in read}


def _plain_json(value: Any) -> Any:
    """Return plain lists with domains, numbers and dates as leaves, which ``canonical.digest`` hashes."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Domain):
        return _encode_domain(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _included_declarations(value, lambda _, __: True)
    if isinstance(value, Mapping):
        return sorted([str(name), _plain_json(entry)] for name, entry in value.items())
    if isinstance(value, (tuple, list)):
        return [_plain_json(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    return value if value is None or isinstance(value, _LEAVES) else repr(value)


def _encode_domain(domain: Domain) -> Any:
    """Return a domain, with what is declared in fields that its hash leaves out."""
    kind: Any = type(domain)
    compared = _compared_fields(kind)
    hidden = [
        [name, _plain_json(declared)] for name, declared in _fields_not_at_default(domain) if name not in compared
    ]
    return [domain, hidden] if hidden else domain


def _fields_not_at_default(value: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over the fields of a value that are declared, not computed from others, and not at their defaults."""
    kind: Any = type(value)
    for name, default in _fields_with_defaults(kind):
        declared = getattr(value, name)
        if not (type(declared) is type(default) and declared == default):
            yield name, declared


@cache
def _fields_with_defaults(kind: type) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a class that are not computed from others, with their defaults."""
    fields = [field for field in dataclasses.fields(kind) if field.init]
    return tuple(
        (field.name, field.default if field.default_factory is dataclasses.MISSING else field.default_factory())
        for field in fields
    )


@cache
def _compared_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.compare)


def _relevance_by_field(value: Any) -> Mapping[str, Relevance]:
    return _registry_entry(FIELDS, value) or {}


def _registry_entry(registry: Mapping[type, Any], value: Any) -> Any:
    """Return the entry of a value's class, or of the first of its bases that has one."""
    kind = type(value)
    return registry[kind] if kind in registry else next((registry[k] for k in kind.__mro__ if k in registry), None)


def _hashed_plan_parts(plan: object) -> Iterator[object]:
    """Iterate over all parts of a plan that its hash covers; without recursion, since trees are deep."""
    stack: list[Any] = [plan]
    while stack:
        part = stack.pop()
        kind: Any = type(part)
        if isinstance(part, (tuple, list)):
            stack.extend(part)
        elif _is_dataclass(kind) and not isinstance(part, Domain):
            yield part
            stack.extend([getattr(part, name) for name in _compared_fields(kind)])


@cache
def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)
