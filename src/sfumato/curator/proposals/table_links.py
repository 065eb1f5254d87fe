"""Find how two tables of a policy belong together, and write the SELECTs that their models are fitted to.

A child refers to its parent by the unit's id, if a unit has one parent, or by a foreign key (``via``). Both SELECTs are
parsed, bounded and priced like any other question: rows of two tables meet only within one unit, and the number of
children and the previous child are computed from rows of the same unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sfumato.curator.proposals.selected_columns import require_all_coded
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.text_positions import suggest_name
from sfumato.policy import Policy, Table
from sfumato.policy.policies import Via
from sfumato.publish.linked.links import TableLink, count_bands
from sfumato.publish.marginals.attributes import coded_names
from sfumato.quick_dataclass import dataclass

MAX_GIVEN_CELLS = 1 << 17
"""The most combinations of columns that children are drawn given, if memory allows."""
_CHILD_ROWS, _SIBLINGS = "child rows", "sibling rows"
_PLACE = "the tables to synthesize"


@dataclass(frozen=True)
class LinkedTables:
    """Two tables of a policy, and the columns by which their rows meet."""

    parent: Table
    child: Table
    parent_unit: str
    child_unit: str
    via: Via | None
    """The foreign key; None if rows meet by the unit alone."""

    @property
    def keys(self) -> dict[str, tuple[str, ...]]:
        """The columns of each table that are keys: they are drawn anew."""
        foreign_keys = ((), ()) if self.via is None else ((self.via.key,), (self.via.on,))
        return {
            self.parent.name: (self.parent_unit, *foreign_keys[0]),
            self.child.name: (self.child_unit, *foreign_keys[1]),
        }

    def names(self, table: Table, chosen: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns of a table that are synthesized: those chosen, or all if none of it was."""
        keys = {key.lower() for key in self.keys[table.name]}
        declared = {f"{table.name}.{name}".lower(): name for name in table.columns if name.lower() not in keys}
        named = tuple(dict.fromkeys(declared[name.lower()] for name in chosen or () if name.lower() in declared))
        if named:
            return named
        require_all_coded(table, [name for name in table.columns if name.lower() in keys])
        return tuple(name for name in coded_names(table) if name.lower() not in keys)

    def check_columns(self, chosen: Any) -> None:
        """Refuse names that are no columns of the two tables."""
        tables = [(table, {key.lower() for key in self.keys[table.name]}) for table in (self.parent, self.child)]
        columns = [
            f"{table.name}.{name}" for table, keys in tables for name in table.columns if name.lower() not in keys
        ]
        lower_names = {name.lower() for name in columns}
        is_list = isinstance(chosen, (list, tuple)) and all(isinstance(name, str) for name in chosen)
        if chosen is not None and (not is_list or not chosen):
            raise InvalidParameter("columns", chosen, f"a list of columns such as {columns[-1]}")
        for name in chosen or ():
            if name.lower() not in lower_names:
                rule = f"no column of {self.parent.name} or {self.child.name} is called {name[:60]}"
                raise Unsupported("unknown-column", rule, fix=suggest_name(name, columns))


# ── which table belongs to which ─────────────────────────────────────────────────────────────────


def link_tables(policy: Policy, names: Sequence[str]) -> LinkedTables:
    """Return the parent and the child among two tables; refuse what is not one parent and one child of one unit."""
    if isinstance(names, str) or len(names) != 2 or len({*names}) != 2:
        fix = 'name a parent and a child: synthesize(["patients", "visits"]); synthesize others in calls of their own'
        raise InvalidParameter("tables", names, "two different tables", fix=fix)
    first, second = (_private_table(policy, name) for name in names)
    for parent, child in ((first, second), (second, first)):
        if isinstance(child.id, Via) and child.id.via == parent.name:
            return _linked_by_key(policy, parent, child, child.id)
    return _linked_by_unit(policy, first, second)


def _private_table(policy: Policy, name: object) -> Table:
    table = policy.tables.get(name) if isinstance(name, str) else None
    if table is None:
        fix = suggest_name(str(name), list(policy.tables))
        raise Unsupported("unknown-table", f"the policy has no table called {str(name)[:60]}", fix=fix, place=_PLACE)
    if table.public:
        rule = f"{table.name} is public: it can be shared as it is"
        raise Unsupported(
            "public-table",
            rule,
            fix=f"leave {table.name} out, and join its own rows to the synthetic ones",
            place=_PLACE,
        )
    if table.every_row:
        rule = f"every row of {table.name} is a unit of its own, so no row of it belongs to a row of another table"
        raise Unsupported(
            "different-units", rule, fix=f"synthesize {table.name} alone, or give it an id in the policy", place=_PLACE
        )
    if policy.unit.period is not None:
        rule = "linked tables are not available where the unit is a person in one period"
        raise Unsupported("unit-with-period", rule, fix="synthesize each table alone", place=_PLACE)
    return table


def _linked_by_key(policy: Policy, parent: Table, child: Table, via: Via) -> LinkedTables:
    for table, column in ((parent, via.key), (child, via.on)):
        if column not in table.columns:
            reference = f"{child.name}.{via.on} refers to {parent.name}.{via.key}"
            rule = f"{reference}, but {table.name} does not declare {column}"
            raise Unsupported("undeclared-key", rule, fix=f"declare {column} in {table.name}", place=_PLACE)
    return LinkedTables(parent, child, unit_column(policy, parent), unit_column(policy, child), via)


def _linked_by_unit(policy: Policy, parent: Table, child: Table) -> LinkedTables:
    if parent.max_rows != 1:
        rule = (
            f"one {policy.unit.name} may have {parent.max_rows} rows in {parent.name}, and the policy does not say to "
        )
        fix = f"name the table with max_rows = 1 first, or give {child.name} a foreign key: "
        fix += f'id = {{ via = "{parent.name}", on = "…" }}'
        raise Unsupported(
            "several-parents", f"{rule}which of them a row of {child.name} belongs", fix=fix, place=_PLACE
        )
    return LinkedTables(parent, child, unit_column(policy, parent), unit_column(policy, child), None)


def unit_column(policy: Policy, table: Table) -> str:
    """Return the name of the unit's id in a table, followed through foreign keys."""
    while isinstance(table.id, Via):
        table = policy.tables[table.id.via]
    return str(table.id)


# ── what the models are fitted to ────────────────────────────────────────────────────────────────


def describe_link(
    linked: LinkedTables, columns: Sequence[str] | None, given: Sequence[str] | None, order: str | None, max_cells: int
) -> TableLink:
    """Return the link with the columns of both models; given columns have at most so many cells together."""
    parent, child, via = linked.parent, linked.child, linked.via
    linked.check_columns(columns)
    parent_names, child_names = linked.names(parent, columns), linked.names(child, columns)
    max_children = child.max_rows or 1
    room = max(1, min(MAX_GIVEN_CELLS, max_cells) // (len(count_bands(max_children)) + 1))
    previous: tuple[str, ...] = ()
    if order is not None:
        previous, room = _previous_columns(child, child_names, order, room)
    return TableLink(
        parent.name,
        child.name,
        linked.parent_unit if via is None else via.key,
        linked.child_unit if via is None else via.on,
        linked.parent_unit,
        parent.max_rows or 1,
        max_children,
        parent_names,
        child_names,
        _given_columns(parent, parent_names, given, room),
        previous,
        order or "",
    )


def _cell_count(table: Table, name: str) -> int:
    """Return the number of cells of a column, with that of missing values."""
    coding, domain = table.codings.get(name), table.columns[name]
    if coding is not None and coding.starts:
        return len(coding.spikes) + len(coding.starts) + 1
    return len(domain.values or (False, True)) + 1


def _joint_cells(table: Table, names: Sequence[str]) -> int:
    """Return the number of combinations of cells of these columns."""
    return math.prod(_cell_count(table, name) for name in names)


def _given_columns(parent: Table, names: tuple[str, ...], given: Sequence[str] | None, room: int) -> tuple[str, ...]:
    """Return the columns of the parent that children depend on: those named, or all in order that leave room."""
    if given is None:
        fitting: list[str] = []
        for name in names:
            if _joint_cells(parent, (*fitting, name)) <= room:
                fitting.append(name)
        return tuple(fitting)
    by_name = {name.lower(): name for name in names}
    if isinstance(given, str) or any(str(name).lower() not in by_name for name in given):
        raise InvalidParameter("given", given, f"a list of columns of {parent.name}: {', '.join(names)}")
    chosen = tuple(dict.fromkeys(by_name[name.lower()] for name in given))
    cells = _joint_cells(parent, chosen)
    if cells > room:
        rule = f"children are drawn given at most {room:,} combinations of cells; {', '.join(chosen)} have {cells:,}"
        raise Unsupported("too-many-cells", rule, fix="name fewer columns in given, or give them coarser bins")
    return chosen


def _previous_columns(child: Table, names: tuple[str, ...], order: Any, room: int) -> tuple[tuple[str, ...], int]:
    """Return the columns of the previous child that a child depends on, the order first, and the room that is left."""
    by_name = {name.lower(): name for name in names}
    if not isinstance(order, str) or order.lower() not in by_name:
        raise InvalidParameter("order", order, f"a column of {child.name}: {', '.join(names)}")
    first = by_name[order.lower()]
    chosen: list[str] = []
    for name in (first, *(name for name in names if name != first)):
        if _joint_cells(child, (*chosen, name)) <= math.isqrt(room) * 4:
            chosen.append(name)
    return tuple(chosen), max(1, room // _joint_cells(child, chosen))


def parent_select(linked: LinkedTables, link: TableLink) -> str:
    """Return the SELECT of parents with the band of the number of their children."""
    unit, child_unit = quoted(linked.parent_unit), quoted(linked.child_unit)
    key = "" if linked.via is None else f", {quoted(linked.via.on)}"
    counted = (
        f'SELECT {child_unit}{key}, COUNT(*) AS "{_CHILD_ROWS}" FROM {quoted(link.child)} GROUP BY {child_unit}{key}'
    )
    columns = [f"p.{quoted(name)} AS {quoted(name)}" for name in link.parent_columns]
    band = _band_case(link, f"COALESCE(c.{quoted(_CHILD_ROWS)}, 0)", 0)
    columns.append(f"{band} AS {quoted(link.count_column)}")
    parents = quoted(link.parent)
    if link.max_parents > 1:
        columns.append(f'p."{_SIBLINGS}" AS {quoted(link.siblings_column)}')
        parents = f'(SELECT *, COUNT(*) OVER (PARTITION BY {unit}) AS "{_SIBLINGS}" FROM {parents})'
    on = _join_condition(linked, "p", "c")
    return f"SELECT {', '.join(columns)} FROM {parents} AS p LEFT JOIN ({counted}) AS c ON {on}"


def child_select(linked: LinkedTables, link: TableLink) -> str:
    """Return the SELECT of children with columns of their parent, the band of their number, and the previous child."""
    partition = quoted(linked.child_unit) + ("" if linked.via is None else f", {quoted(linked.via.on)}")
    windows = [f'COUNT(*) OVER (PARTITION BY {partition}) AS "{_CHILD_ROWS}"']
    over = f"OVER (PARTITION BY {partition} ORDER BY {quoted(link.order)})"
    windows += [f"LAG({quoted(name)}) {over} AS {quoted(link.previous_name(name))}" for name in link.previous_columns]
    key = [] if linked.via is None else [quoted(linked.via.on)]
    inner = [quoted(linked.child_unit), *key, *map(quoted, link.child_columns), *windows]
    columns = [
        *(f"c.{quoted(name)} AS {quoted(name)}" for name in link.child_columns),
        f"{_band_case(link, f'c.{quoted(_CHILD_ROWS)}', 1)} AS {quoted(link.count_column)}",
        *(f"p.{quoted(name)} AS {quoted(link.linked_name(name))}" for name in link.linked_columns),
        *(f"c.{quoted(link.previous_name(name))}" for name in link.previous_columns),
    ]
    children = f"(SELECT {', '.join(inner)} FROM {quoted(link.child)}) AS c"
    on = _join_condition(linked, "c", "p")
    return f"SELECT {', '.join(columns)} FROM {children} JOIN {quoted(link.parent)} AS p ON {on}"


def _join_condition(linked: LinkedTables, left: str, right: str) -> str:
    parent, child = (left, right) if left == "p" else (right, left)
    condition = f"{parent}.{quoted(linked.parent_unit)} = {child}.{quoted(linked.child_unit)}"
    if linked.via is None:
        return condition
    return f"{condition} AND {parent}.{quoted(linked.via.key)} = {child}.{quoted(linked.via.on)}"


def _band_case(link: TableLink, rows: str, first: int) -> str:
    """Return the CASE that maps a number of rows to the label of its band."""
    labels = [*zip(link.bands, link.band_labels, strict=True)][first:]
    branches = " ".join(f"WHEN {rows} >= {low} THEN '{label}'" for low, label in reversed(labels[1:]))
    return f"CASE {branches} ELSE '{labels[0][1]}' END" if branches else f"'{labels[0][1]}'"
