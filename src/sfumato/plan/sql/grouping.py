"""Lower GROUP BY to the keys of the groups, and the grouping sets.

ROLLUP, CUBE and GROUPING SETS are lists of sets of keys; several items of GROUP BY are combined, every set of one with
every set of the next, as in SQL. All keys together are what is measured: a row of a smaller set is the sum of the
groups it is made of.

*Why not measure each set by itself?* Let n groups of all keys be measured with noise of variance v each. Added up, the
rows of any set have the variance n·v together, so L sets have L·n·v. Measured apart at an L-th of the price, Laplace
noise has the variance L²·v. Least squares then makes the totals agree (Hay, Rastogi, Miklau & Suciu 2010), but leaves
all of it in the directions in which groups differ and no total does: n/2 of n for ROLLUP, n/2^k for CUBE of k keys, if
every total has two parts in each key. That alone is at least L·n·v: adding up never has more squared error in all. It
leaves the groups as exact as they are without subtotals, it costs nothing beside them, and who has bought the groups
has bought their totals. (Gaussian noise at an L-th of the price has the variance L·v where all rows of a unit are in
one group, else more: about the same in all. Sets without the one of all keys are another matter: to ask for each of
them apart has less noise once the groups of all keys are many.)
"""

from __future__ import annotations

import itertools

from sqlglot import exp

from sfumato.plan.sql.row_sources import RowSource
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.syntax_trees import has_node
from sfumato.plan.sql.text_positions import refusal_at
from sfumato.plan.values.expressions import Expression, columns
from sfumato.quick_dataclass import dataclass

MAX_KEYS = 100
MAX_SETS = 64

Items = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Grouping:
    """All keys of a query, and its grouping sets as indices of keys."""

    keys: tuple[Expression, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """Empty for the single set of all keys."""


def lower_grouping(select: exp.Select, source: RowSource) -> Grouping:
    """Lower GROUP BY, or SELECT DISTINCT."""
    group = select.args.get("group")
    if select.args.get("distinct"):
        _check_select_distinct(select)
        return Grouping(tuple(dict.fromkeys(_lower_key(item, select, source) for item in select.expressions)))
    if group is None:
        return Grouping()
    sets = _grouping_sets(group, select)
    keys: dict[Expression, int] = {}
    key_sets = [_key_indices(items, keys, select, source) for items in sets]
    if len(keys) > MAX_KEYS:
        raise refusal_at(
            group, "too-many-columns", f"GROUP BY can have at most {MAX_KEYS} columns", "group by fewer columns"
        )
    return Grouping(tuple(keys), tuple(key_sets) if len(key_sets) > 1 else ())


def _key_indices(items: Items, keys: dict[Expression, int], select: exp.Select, source: RowSource) -> tuple[int, ...]:
    indices = (keys.setdefault(_lower_key(item, select, source), len(keys)) for item in items)
    return tuple(dict.fromkeys(indices))


def _lower_key(node: exp.Expr, select: exp.Select, source: RowSource) -> Expression:
    key = lower_expression(_resolve_item(node.unalias(), select, source), source.resolve)
    if not columns(key):
        raise refusal_at(node, "constant-key", "a group key must read at least one column", "group by a column")
    return key


def _check_select_distinct(select: exp.Select) -> None:
    """Refuse SELECT DISTINCT with groups or aggregates: alone it lists values of columns, as GROUP BY does."""
    has_aggregates = any(has_node(item, exp.AggFunc, exp.Window) for item in select.expressions)
    if select.args["distinct"].args.get("on") or select.args.get("group") or has_aggregates:
        rule = "SELECT DISTINCT cannot be combined with GROUP BY, aggregates or windows"
        raise refusal_at(select, "select-distinct", rule, "leave out DISTINCT: every group appears once anyway")
    if any(item.is_star for item in select.expressions):
        raise refusal_at(
            select,
            "star",
            "rows are never shown, so SELECT DISTINCT * is not supported",
            "name the columns whose values you want",
        )


def _grouping_sets(group: exp.Group, select: exp.Select) -> list[Items]:
    for part, value in group.args.items():
        if value and part not in ("expressions", "all", "rollup", "cube"):
            rule = f"GROUP BY {part.upper()} is not supported"
            raise refusal_at(group, "grouping-sets", rule, "use ROLLUP, CUBE, GROUPING SETS, or name the columns")
    if group.args.get("all"):
        return [tuple(item.unalias() for item in select.expressions if _is_grouped_by_all(item))]
    modifiers = [modifier for name in ("rollup", "cube") for modifier in group.args.get(name) or []]
    if modifiers:  # GROUP BY a, b WITH ROLLUP
        return _expand_item(type(modifiers[0])(expressions=group.expressions), group)
    if len(group.expressions) > MAX_KEYS:
        raise refusal_at(
            group, "too-many-columns", f"GROUP BY can have at most {MAX_KEYS} columns", "group by fewer columns"
        )
    grouping_sets: list[Items] = [()]
    for item in group.expressions:
        grouping_sets = [(*prefix, *items) for prefix in grouping_sets for items in _expand_item(item, group)]
        if len(grouping_sets) > MAX_SETS:
            raise _too_many_sets(group)
    return grouping_sets


def _is_grouped_by_all(item: exp.Expr) -> bool:
    """Return whether GROUP BY ALL groups by an item: it reads a column, and is no aggregate."""
    return not has_node(item, exp.AggFunc, exp.Window) and has_node(item, exp.Column)


def _expand_item(item: exp.Expr, group: exp.Group) -> list[Items]:
    """Return the sets that one item of GROUP BY stands for."""
    if isinstance(item, exp.GroupingSets):
        grouping_sets = [items for part in item.expressions for items in _expand_item(part, group)]
    elif isinstance(item, exp.Rollup):
        parts = [_tuple_items(element) for element in item.expressions]
        grouping_sets = [tuple(itertools.chain(*parts[:count])) for count in range(len(parts), -1, -1)]
    elif isinstance(item, exp.Cube):
        parts = [_tuple_items(element) for element in item.expressions]
        if 2 ** len(parts) > MAX_SETS:
            raise _too_many_sets(group)
        sizes = range(len(parts), -1, -1)
        grouping_sets = [
            tuple(itertools.chain(*subset)) for size in sizes for subset in itertools.combinations(parts, size)
        ]
    else:
        grouping_sets = [_tuple_items(item)]
    if len(grouping_sets) > MAX_SETS:
        raise _too_many_sets(group)
    return grouping_sets


def _tuple_items(item: exp.Expr) -> Items:
    """Read (a, b) as two keys, and () as none."""
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.unnest(),)


def _too_many_sets(group: exp.Group) -> Exception:
    return refusal_at(
        group,
        "grouping-sets",
        f"a question can have at most {MAX_SETS} grouping sets",
        "list only those you need with GROUPING SETS (…)",
    )


def _resolve_item(node: exp.Expr, select: exp.Select, source: RowSource) -> exp.Expr:
    """Return the node that a GROUP BY item refers to: an ordinal, an output's alias, or itself."""
    item: exp.Expr | None = None
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.this) if node.this.isdigit() else 0
        if not 1 <= index <= len(select.expressions):
            raise refusal_at(
                node,
                "ordinal",
                "GROUP BY <number> must be the position of a column in SELECT, counted from 1",
                "name the column",
            )
        item = select.expressions[index - 1]
        if has_node(item, exp.AggFunc, exp.Window):
            rule = f"column {index} of SELECT is an aggregate, so it cannot be a group key"
            raise refusal_at(node, "ordinal", rule, "name a column of the table, or use GROUP BY ALL")
    elif isinstance(node, exp.Column) and not node.table and not is_table_column(node, source):
        aliases = (output for output in select.expressions if isinstance(output, exp.Alias))
        item = next((output for output in aliases if output.alias.lower() == node.name.lower()), None)
    return node if item is None else item.unalias()


def is_table_column(node: exp.Column, source: RowSource) -> bool:
    """Return whether a column of the table has this name, whatever the answer's columns are called."""
    return any(node.name.lower() == name.lower() for names in source.scope.values() for name in names)
