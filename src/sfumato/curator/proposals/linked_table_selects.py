"""Find how tables of a policy belong together, and write the SELECTs that their models are fitted to.

A child refers to its parent by the unit's id, if a unit has one parent, or by a foreign key (``via``). All SELECTs are
parsed, bounded and priced like any other question: rows of two tables meet only within one unit, and the numbers of
children and the previous child are computed from rows of the same unit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from sfumato.curator.proposals.selected_columns import require_all_coded
from sfumato.error_facts import join_with_or
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.text_positions import fix_for_unknown_name
from sfumato.policy import Policy, Table
from sfumato.policy.policies import Via
from sfumato.publish.links import (
    BETWEEN,
    FIRST,
    LAST,
    ONLY,
    POSITIONS,
    TableLink,
    child_count_bands,
    link_to_parent,
    links_to_children,
)
from sfumato.publish.marginals.attributes import measurable_column_names
from sfumato.publish.synthesis.private_cells import ColumnOrigin
from sfumato.quick_dataclass import dataclass

MAX_GIVEN_CELLS = 1 << 17
"""The most combinations of columns that children are drawn given, if memory allows."""
_CHILD_ROWS, _PARENT_COUNT = "child rows", "parent rows"
_BEFORE, _AFTER = "row before", "row after"
"""Whether there is a child of the same parent before a row, and after it: 1 or 0."""
_POSITION_SQL = (
    f"CASE WHEN c.\"{_BEFORE}\" = 0 THEN CASE WHEN c.\"{_AFTER}\" = 0 THEN '{ONLY}' ELSE '{FIRST}' END "
    f"WHEN c.\"{_AFTER}\" = 0 THEN '{LAST}' ELSE '{BETWEEN}' END"
)
_PLACE = "the tables to synthesize"


@dataclass(frozen=True)
class LinkedPair:
    """Two tables of a policy, and the columns by which their rows meet."""

    parent: Table
    child: Table
    parent_unit: str
    child_unit: str
    via: Via | None
    """The foreign key; None if rows meet by the unit alone."""

    @property
    def parent_key(self) -> str:
        return self.parent_unit if self.via is None else self.via.key

    @property
    def child_key(self) -> str:
        return self.child_unit if self.via is None else self.via.on


@dataclass(frozen=True)
class LinkedTables:
    """Tables of a policy as a tree: every table but the first is the child of one before it."""

    pairs: tuple[LinkedPair, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables, parents before children."""
        return self.pairs[0].parent, *(pair.child for pair in self.pairs)

    def pairs_below(self, table: Table) -> tuple[LinkedPair, ...]:
        return tuple(pair for pair in self.pairs if pair.parent.name == table.name)

    def pair_above(self, table: Table) -> LinkedPair | None:
        """Return the pair in which a table is the child; None for the first."""
        return next((pair for pair in self.pairs if pair.child.name == table.name), None)

    def key_columns(self, table: Table) -> tuple[str, ...]:
        """Return the columns of a table that are keys: they are drawn anew."""
        above, below = self.pair_above(table), self.pairs_below(table)
        referring = () if above is None else (above.child_unit, above.child_key)
        return tuple(
            dict.fromkeys((*referring, *(key for pair in below for key in (pair.parent_unit, pair.parent_key))))
        )

    def is_unique_key(self, table: Table, key: str) -> bool:
        """Return whether no two drawn rows of a table have the same value of a key."""
        above = self.pair_above(table)
        is_own_key = any(pair.parent_key == key for pair in self.pairs_below(table))
        return table.max_rows == 1 or (is_own_key and (above is None or above.child_key != key))

    def non_key_columns(self, table: Table) -> tuple[str, ...]:
        """Return the columns of a table that are no keys."""
        keys = {key.lower() for key in self.key_columns(table)}
        return tuple(name for name in table.columns if name.lower() not in keys)

    def chosen_columns(self, table: Table, chosen: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns of a table that are synthesized: those chosen, or all if none of it was."""
        declared = {f"{table.name}.{name}".lower(): name for name in self.non_key_columns(table)}
        chosen_names = tuple(dict.fromkeys(declared[name.lower()] for name in chosen or () if name.lower() in declared))
        if chosen_names:
            return chosen_names
        keys = {key.lower() for key in self.key_columns(table)}
        require_all_coded(table, [name for name in table.columns if name.lower() in keys])
        return tuple(name for name in measurable_column_names(table) if name.lower() not in keys)

    def require_known_columns(self, chosen: Any) -> None:
        """Refuse names that are no columns of the tables."""
        columns = [f"{table.name}.{name}" for table in self.tables for name in self.non_key_columns(table)]
        lower_names = {name.lower() for name in columns}
        is_list = isinstance(chosen, (list, tuple)) and all(isinstance(name, str) for name in chosen)
        if chosen is not None and (not is_list or not chosen):
            raise InvalidParameter("columns", chosen, f'a list of columns such as ["{columns[-1]}"]')
        for name in chosen or ():
            if name.lower() not in lower_names:
                raise self._unknown_column(name, columns)

    def _unknown_column(self, name: str, columns: Sequence[str]) -> Unsupported:
        matches = [column for column in columns if column.lower().partition(".")[2] == name.lower()]
        if matches:
            rule = f"the column '{name[:60]}' must be written with the name of its table"
            fix = f"write {join_with_or([quoted(column) for column in matches])}"
        else:
            tables = join_with_or([f"'{table.name}'" for table in self.tables])
            rule = f"'{name[:60]}' is not a column of {tables} that can be chosen"
            fix = fix_for_unknown_name(name, columns)
        return Unsupported("unknown-column", rule, fix=fix)


# ── which table belongs to which ─────────────────────────────────────────────────────────────────


def link_tables(policy: Policy, names: Sequence[str]) -> LinkedTables:
    """Return the tables as a tree; refuse what is not one parent with tables below it, all of one unit.

    A table with a foreign key to another of them is its child. The first of the others is the parent of the rest.
    """
    if isinstance(names, str) or len(names) < 2 or len({*names}) != len(names):
        fix = 'name a parent and its children: synthesize(["patients", "visits"])'
        raise InvalidParameter("tables", names, "a list of two or more different tables", fix=fix)
    tables = [_require_private_table(policy, name) for name in names]
    first = next(table for table in tables if not _refers_to_any(table, names))
    pairs: list[LinkedPair] = []
    remaining = [table for table in tables if table is not first]
    while remaining:
        linked_names = {first.name, *(pair.child.name for pair in pairs)}
        table = next(table for table in remaining if not _refers_to_any(table, names) or table.id.via in linked_names)
        pairs.append(_link_to_parent(policy, first, table, names))
        remaining.remove(table)
    linked = LinkedTables(tuple(pairs))
    _refuse_ambiguous_keys(linked)
    return linked


def _refers_to_any(table: Table, names: Sequence[str]) -> bool:
    """Return whether a table has a foreign key to one of these tables."""
    return isinstance(table.id, Via) and table.id.via in names


def _link_to_parent(policy: Policy, first: Table, table: Table, names: Sequence[str]) -> LinkedPair:
    if isinstance(table.id, Via) and table.id.via in names:
        return _linked_by_key(policy, policy.tables[table.id.via], table, table.id)
    return _linked_by_unit(policy, first, table)


def _refuse_ambiguous_keys(linked: LinkedTables) -> None:
    """Refuse a column that refers to a parent and identifies rows for children too: drawn keys cannot do both."""
    for pair in linked.pairs:
        for below in linked.pairs_below(pair.child):
            if below.parent_key.lower() == pair.child_key.lower():
                rule = (
                    f"the column '{below.parent.name}.{below.parent_key}' refers to '{pair.parent.name}', so it cannot "
                    f"also be the key that rows of '{below.child.name}' refer to"
                )
                fix = f"leave out '{below.child.name}', and synthesize it in a separate call"
                raise Unsupported("ambiguous-key", rule, fix=fix, place=_PLACE)


def _require_private_table(policy: Policy, name: object) -> Table:
    table = policy.tables.get(name) if isinstance(name, str) else None
    if table is None:
        fix = fix_for_unknown_name(str(name), list(policy.tables))
        raise Unsupported("unknown-table", f"the policy has no table called {str(name)[:60]}", fix=fix, place=_PLACE)
    if table.public:
        rule = f"{table.name} is public: it can be shared as it is"
        raise Unsupported(
            "public-table",
            rule,
            fix=f"leave {table.name} out: its real rows can be joined to the synthetic ones",
            place=_PLACE,
        )
    if table.every_row:
        rule = f"every row of {table.name} is a unit of its own, so no row of it belongs to a row of another table"
        raise Unsupported(
            "different-units", rule, fix=f"synthesize {table.name} alone, or give it an id in the policy", place=_PLACE
        )
    if policy.unit.period is not None:
        rule = "linked tables are not available if the unit is a person in one period"
        raise Unsupported("unit-with-period", rule, fix="synthesize each table alone", place=_PLACE)
    return table


def _linked_by_key(policy: Policy, parent: Table, child: Table, via: Via) -> LinkedPair:
    for table, column in ((parent, via.key), (child, via.on)):
        if column not in table.columns:
            reference = f"{child.name}.{via.on} refers to {parent.name}.{via.key}"
            rule = f"{reference}, but {table.name} does not declare {column}"
            raise Unsupported(
                "undeclared-key", rule, fix=f"declare the column {column} of {table.name} in the policy", place=_PLACE
            )
    return LinkedPair(parent, child, unit_column(policy, parent), unit_column(policy, child), via)


def _linked_by_unit(policy: Policy, parent: Table, child: Table) -> LinkedPair:
    if parent.max_rows != 1:
        rule = (
            f"one {policy.unit.name} may have {parent.max_rows} rows in '{parent.name}', and the policy does not "
            f"say which of them a row of '{child.name}' belongs to"
        )
        fix = f"list a table with max_rows = 1 before the others, or give '{child.name}' a foreign key: "
        fix += f'id = {{ via = "{parent.name}", on = "…" }}'
        raise Unsupported("several-parents", rule, fix=fix, place=_PLACE)
    return LinkedPair(parent, child, unit_column(policy, parent), unit_column(policy, child), None)


def unit_column(policy: Policy, table: Table) -> str:
    """Return the name of the unit's id in a table, followed through foreign keys."""
    while isinstance(table.id, Via):
        table = policy.tables[table.id.via]
    return str(table.id)


# ── what the models are fitted to ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class LinkOptions:
    """What a request chooses: columns of the tables, those that children depend on, and an order of children."""

    synthesised_columns: Sequence[str] | None = None
    given_columns: Sequence[str] | None = None
    order_columns: str | Sequence[str] | None = None
    marks_first_and_last: bool = False
    max_cells: int = MAX_GIVEN_CELLS
    """The most combinations of given columns."""
    max_cells_to_buy: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By table, the columns whose cells are bought, and the most cells of each."""


def build_links(linked: LinkedTables, options: LinkOptions) -> tuple[TableLink, ...]:
    """Return the links with the columns of all models; given columns have at most so many cells together."""
    linked.require_known_columns(options.synthesised_columns)
    names = {table.name: linked.chosen_columns(table, options.synthesised_columns) for table in linked.tables}
    _require_existing_columns(
        "given", options.given_columns, {pair.parent.name: names[pair.parent.name] for pair in linked.pairs}
    )
    _require_existing_columns(
        "order", options.order_columns, {pair.child.name: names[pair.child.name] for pair in linked.pairs}
    )
    if options.marks_first_and_last and options.order_columns is None:
        rule = "left out, because the child rows have no order"
        raise InvalidParameter(
            "ends", options.marks_first_and_last, rule, fix='name the column that orders them, such as order="day"'
        )
    for pair in linked.pairs:
        if len(orders := _matching_columns(pair.child, names[pair.child.name], options.order_columns)) > 1:
            rule = f"one column of each table, but {pair.child.name} has {', '.join(orders)}"
            fix = f'write order={{"{pair.child.name}": "{orders[0]}"}}'
            raise InvalidParameter("order", options.order_columns, rule, fix=fix)
    _refuse_implied_keys(linked, names)
    cells = {
        table.name: {name: _cell_count(table, name) for name in names[table.name]}
        | dict(options.max_cells_to_buy.get(table.name, {}))
        for table in linked.tables
    }
    links: list[TableLink] = []
    for pair in linked.pairs:
        links.append(_build_link(pair, names, options, links, cells))
    return tuple(links)


ColumnSizes = Mapping[str, int]
"""The number of cells of each column of a table, with that of missing values."""


def _build_link(
    pair: LinkedPair,
    names: Mapping[str, tuple[str, ...]],
    options: LinkOptions,
    above: Sequence[TableLink],
    cells: Mapping[str, ColumnSizes],
) -> TableLink:
    parent, child = pair.parent, pair.child
    max_children = child.max_rows or 1
    room = max(1, min(MAX_GIVEN_CELLS, options.max_cells) // (len(child_count_bands(max_children)) + 1))
    order = next(iter(_matching_columns(child, names[child.name], options.order_columns)), "")
    previous: tuple[str, ...] = ()
    if order:
        room = max(1, room // (len(POSITIONS) + 1)) if options.marks_first_and_last else room
        previous, room = _previous_columns_and_room(cells[child.name], names[child.name], order, room)
    given = _conditioning_columns(parent, cells[parent.name], names[parent.name], options.given_columns, room)
    room //= _joint_cell_count(cells[parent.name], given)
    return TableLink(
        parent.name,
        child.name,
        pair.parent_key,
        pair.child_key,
        pair.parent_unit,
        parent.max_rows or 1,
        max_children,
        names[parent.name],
        names[child.name],
        given,
        previous,
        order,
        _columns_that_fit(_cells_by_inheritable_column(cells, above, parent.name), room),
        options.marks_first_and_last and bool(order),
    )


def _matching_columns(table: Table, columns: Sequence[str], chosen: Sequence[str] | str | None) -> tuple[str, ...]:
    """Return the columns of a table that are named, by themselves or after the name of the table and a point."""
    by_name = {text.lower(): name for name in columns for text in (name, f"{table.name}.{name}")}
    texts = [chosen] if isinstance(chosen, str) else chosen or ()
    return tuple(dict.fromkeys(by_name[text.lower()] for text in texts if text.lower() in by_name))


def _require_existing_columns(option: str, chosen: Any, columns: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse what names no column of these tables: one text for an order, a list for given columns."""
    if chosen is None:
        return
    is_one = option == "order" and not isinstance(chosen, (list, tuple))
    texts = [chosen] if is_one else chosen
    lower_names = {
        text.lower() for table, names in columns.items() for name in names for text in (name, f"{table}.{name}")
    }
    is_list = isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts)
    if not is_list or any(text.lower() not in lower_names for text in texts):
        is_short = len(columns) == 1
        column_names = [name if is_short else f"{table}.{name}" for table, names in columns.items() for name in names]
        rule = f"{'a column' if is_one else 'a list of columns'} of {' or '.join(columns)}: {', '.join(column_names)}"
        raise InvalidParameter(option, chosen, rule)


def _refuse_implied_keys(linked: LinkedTables, names: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse an implication between a key and another column that drawn rows would break: keys are drawn anew, and
    rows with the same key one by one.
    """
    for table in linked.tables:
        keys = {key.lower() for key in linked.key_columns(table)}
        drawn = keys | {name.lower() for name in names[table.name]}
        for deciding, decided in table.implies.items():
            pair = {deciding.lower(), decided.lower()}
            if pair & keys and pair <= drawn and not linked.is_unique_key(table, deciding):
                others = [f"{table.name}.{name}" for name in names[table.name] if name.lower() not in pair]
                rule = (
                    f"the policy says that {table.name}.{deciding} determines {decided}; synthetic rows get new keys, "
                    "so this rule cannot be kept"
                )
                is_left_out = others and not pair <= keys
                fix = (
                    f"leave the column out: columns={others}"
                    if is_left_out
                    else f"remove {deciding} from implies of {table.name}"
                )
                raise Unsupported("implied-key", rule, fix=fix, place=_PLACE)


def _cells_by_inheritable_column(
    cells: Mapping[str, ColumnSizes], links: Sequence[TableLink], parent: str
) -> dict[str, int]:
    """Return the columns of tables above the parent that its model is given, and the number of cells of each."""
    above = link_to_parent(links, parent)
    if above is None:
        return {}
    linked_columns = {above.linked_name(name): cells[above.parent][name] for name in above.linked_columns}
    further = _cells_by_inheritable_column(cells, links, above.parent).items()
    return {**linked_columns, **{name: count for name, count in further if name in above.inherited_columns}}


def _columns_that_fit(cells: Mapping[str, int], room: int) -> tuple[str, ...]:
    """Return the columns, in order, whose combinations of cells leave room."""
    fitting: list[str] = []
    for name, count in cells.items():
        if count <= room:
            fitting.append(name)
            room //= count
    return tuple(fitting)


def _cell_count(table: Table, name: str) -> int:
    """Return the number of cells of a column, with that of missing values."""
    coding, domain = table.codings.get(name), table.columns[name]
    if coding is not None and coding.starts:
        return len(coding.spikes) + len(coding.starts) + 1
    return len(domain.values or (False, True)) + 1


def _joint_cell_count(cells: ColumnSizes, names: Sequence[str]) -> int:
    """Return the number of combinations of cells of these columns."""
    return math.prod(cells[name] for name in names)


def _conditioning_columns(
    parent: Table, cells: ColumnSizes, names: tuple[str, ...], given: Sequence[str] | None, room: int
) -> tuple[str, ...]:
    """Return the columns of the parent that children depend on: those named, or all in order that leave room if none
    of this table is.
    """
    chosen = _matching_columns(parent, names, given)
    if given is None or (given and not chosen):
        return _columns_that_fit({name: cells[name] for name in names}, room)
    joint = _joint_cell_count(cells, chosen)
    if joint > room:
        rule = f"rows can depend on at most {room:,} combinations of values; {', '.join(map(repr, chosen))} " + (
            f"have {joint:,} together" if len(chosen) > 1 else f"has {joint:,} values"
        )
        raise Unsupported(
            "too-many-cells", rule, fix="pass fewer columns as given=[…], or declare coarser bins for them"
        )
    return chosen


def _previous_columns_and_room(
    cells: ColumnSizes, names: tuple[str, ...], order: str, room: int
) -> tuple[tuple[str, ...], int]:
    """Return the columns of the previous child that a child depends on, the order first, and the room that is left."""
    chosen: list[str] = []
    for name in (order, *(name for name in names if name != order)):
        if _joint_cell_count(cells, (*chosen, name)) <= math.isqrt(room) * 4:
            chosen.append(name)
    return tuple(chosen), max(1, room // _joint_cell_count(cells, chosen))


def column_origins(
    links: Sequence[TableLink], table: str, bought_cells: Mapping[str, ColumnSizes]
) -> dict[str, ColumnOrigin]:
    """Return where the columns of a table's model whose cells are bought come from, by their names there."""
    link, bought = link_to_parent(links, table), bought_cells[table]
    columns = links[0].parent_columns if link is None else link.child_columns
    table_origins = {name: ColumnOrigin() for name in columns if name in bought}
    if link is None:
        return table_origins
    previous = {link.previous_name(name): ColumnOrigin(name) for name in link.previous_columns if name in bought}
    above = column_origins(links, link.parent, bought_cells)
    columns_above = link.parent_conditioning_columns.items()
    return {
        **table_origins,
        **previous,
        **{name: ColumnOrigin(is_given=True) for column, name in columns_above if column in above},
    }


def fitted_rows_select(linked: LinkedTables, links: Sequence[TableLink], table: Table) -> str:
    """Return the SELECT that a table's model is fitted to: rows with columns of their parents, the band of the number
    of their siblings, the previous row, and the band of the number of their children in each table below.
    """
    pair, link = linked.pair_above(table), link_to_parent(links, table.name)
    if pair is None or link is None:
        return _first_table_select(linked.pairs_below(table), links_to_children(links, table.name))
    return _child_select(linked, links, pair, link)


def _first_table_select(pairs: Sequence[LinkedPair], links: Sequence[TableLink]) -> str:
    """Return the SELECT of the first table."""
    unit, parents = quoted(pairs[0].parent_unit), quoted(links[0].parent)
    columns = [f"p.{quoted(name)} AS {quoted(name)}" for name in links[0].parent_columns]
    counts, joins = _band_columns_and_joins("p", "c", pairs, links)
    columns += counts
    if links[0].max_parents > 1:
        columns.append(f'p."{_PARENT_COUNT}" AS {quoted(links[0].parent_count_column)}')
        parents = f'(SELECT *, COUNT(*) OVER (PARTITION BY {unit}) AS "{_PARENT_COUNT}" FROM {parents})'
    return f"SELECT {', '.join(columns)} FROM {parents} AS p {' '.join(joins)}"


def _band_columns_and_joins(
    parent: str, alias: str, pairs: Sequence[LinkedPair], links: Sequence[TableLink]
) -> tuple[list[str], list[str]]:
    """Return the bands of the numbers of children in each table, and the joins that they are read from."""
    columns, joins = [], []
    for number, (pair, link) in enumerate(zip(pairs, links, strict=True)):
        child = f"{alias}{number or ''}"
        unit, key = quoted(pair.child_unit), "" if pair.via is None else f", {quoted(pair.via.on)}"
        counted = f'SELECT {unit}{key}, COUNT(*) AS "{_CHILD_ROWS}" FROM {quoted(link.child)} GROUP BY {unit}{key}'
        band = _band_label_sql(link, f"COALESCE({child}.{quoted(_CHILD_ROWS)}, 0)", 0)
        columns.append(f"{band} AS {quoted(link.child_count_column)}")
        joins.append(f"LEFT JOIN ({counted}) AS {child} ON {_join_condition(pair, parent, child)}")
    return columns, joins


def _child_select(linked: LinkedTables, links: Sequence[TableLink], pair: LinkedPair, link: TableLink) -> str:
    """Return the SELECT of a child table; rows without a parent, or below one without, are left out."""
    below = linked.pairs_below(pair.child)
    parent_columns, parent_joins = _ancestor_columns_and_joins(linked, links, pair, link)
    counts, count_joins = _band_columns_and_joins("c", "t", below, links_to_children(links, link.child))
    columns = [
        *(f"c.{quoted(name)} AS {quoted(name)}" for name in link.child_columns),
        f"{_band_label_sql(link, f'c.{quoted(_CHILD_ROWS)}', 1)} AS {quoted(link.child_count_column)}",
        *([f"{_POSITION_SQL} AS {quoted(link.position_column)}"] if link.ends else ()),
        *parent_columns,
        *(f"c.{quoted(link.previous_name(name))}" for name in link.previous_columns),
        *counts,
    ]
    children = _siblings_subquery(pair, link, [quoted(lower.parent_key) for lower in below])
    return f"SELECT {', '.join(columns)} FROM {children} AS c {' '.join((*parent_joins, *count_joins))}"


def _siblings_subquery(pair: LinkedPair, link: TableLink, child_keys: Sequence[str]) -> str:
    """Return the subquery of children with the number of their siblings, and the previous one."""
    key = [] if pair.via is None else [quoted(pair.via.on)]
    partition = ", ".join((quoted(pair.child_unit), *key))
    windows = [f'COUNT(*) OVER (PARTITION BY {partition}) AS "{_CHILD_ROWS}"']
    over = f"OVER (PARTITION BY {partition} ORDER BY {quoted(link.order)})"
    windows += [f"LAG({quoted(name)}) {over} AS {quoted(link.previous_name(name))}" for name in link.previous_columns]
    if link.ends:
        windows += [f"LAG(1, 1, 0) {over} AS {quoted(_BEFORE)}", f"LEAD(1, 1, 0) {over} AS {quoted(_AFTER)}"]
    keys = [quoted(pair.child_unit), *key]
    keys += [name for name in dict.fromkeys(child_keys) if name not in keys]
    return f"(SELECT {', '.join((*keys, *map(quoted, link.child_columns), *windows))} FROM {quoted(link.child)})"


def _ancestor_columns_and_joins(
    linked: LinkedTables, links: Sequence[TableLink], pair: LinkedPair, link: TableLink
) -> tuple[list[str], list[str]]:
    """Return the given columns of the parent and of the tables above it, and the joins that they are read from."""
    columns = [f"p.{quoted(name)} AS {quoted(link.linked_name(name))}" for name in link.linked_columns]
    joins = [f"JOIN {quoted(link.parent)} AS p ON {_join_condition(pair, 'p', 'c')}"]
    lower, upper_pair, upper = "p", linked.pair_above(pair.parent), link_to_parent(links, link.parent)
    while upper_pair is not None and upper is not None:
        alias = f"{lower}p"
        joins.append(f"JOIN {quoted(upper.parent)} AS {alias} ON {_join_condition(upper_pair, alias, lower)}")
        inherited = {upper.linked_name(name): name for name in upper.linked_columns}
        columns += [
            f"{alias}.{quoted(inherited[name])} AS {quoted(name)}"
            for name in link.inherited_columns
            if name in inherited
        ]
        lower, upper_pair = alias, linked.pair_above(upper_pair.parent)
        upper = link_to_parent(links, upper.parent)
    return columns, joins


def _join_condition(pair: LinkedPair, parent: str, child: str) -> str:
    condition = f"{parent}.{quoted(pair.parent_unit)} = {child}.{quoted(pair.child_unit)}"
    if pair.via is None:
        return condition
    return f"{condition} AND {parent}.{quoted(pair.via.key)} = {child}.{quoted(pair.via.on)}"


def _band_label_sql(link: TableLink, rows: str, first: int) -> str:
    """Return the CASE that maps a number of rows to the label of its band."""
    labels = [*zip(link.bands, link.band_labels, strict=True)][first:]
    branches = " ".join(f"WHEN {rows} >= {low} THEN '{label}'" for low, label in reversed(labels[1:]))
    return f"CASE {branches} ELSE '{labels[0][1]}' END" if branches else f"'{labels[0][1]}'"
