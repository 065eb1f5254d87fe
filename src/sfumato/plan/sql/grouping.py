"""GROUP BY: which keys the groups have, and which sets of them rows are shown for.

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
from dataclasses import dataclass

from sqlglot import exp

from sfumato.plan.sql.rows import RowSource
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.text_positions import refuse
from sfumato.plan.values.expressions import Expression, columns

MOST_KEYS = 100
MOST_SETS = 64

Items = tuple[exp.Expr, ...]


@dataclass(frozen=True)
class Grouping:
    """A grouping has all keys of a question, and the sets of them that rows are shown for, by their places."""

    keys: tuple[Expression, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """None where there is one set, of all keys."""


def grouping(select: exp.Select, source: RowSource) -> Grouping:
    """Say what GROUP BY means."""
    group = select.args.get("group")
    if select.args.get("distinct"):
        _check_distinct(select)
        return Grouping(tuple(dict.fromkeys(_key(each, select, source) for each in select.expressions)))
    if group is None:
        return Grouping()
    sets = _sets(group, select)
    keys: dict[Expression, int] = {}
    placed = [_placed(each, keys, select, source) for each in sets]
    if len(keys) > MOST_KEYS:
        raise refuse(group, "too-many-columns", f"GROUP BY takes at most {MOST_KEYS} columns", "group by fewer")
    return Grouping(tuple(keys), tuple(placed) if len(placed) > 1 else ())


def _placed(items: Items, keys: dict[Expression, int], select: exp.Select, source: RowSource) -> tuple[int, ...]:
    found = (keys.setdefault(_key(each, select, source), len(keys)) for each in items)
    return tuple(dict.fromkeys(found))


def _key(node: exp.Expr, select: exp.Select, source: RowSource) -> Expression:
    made = expression(_meant(node.unalias(), select, source), source.resolve)
    if not columns(made):
        raise refuse(node, "constant-key", "a group is a column or made from one", "group by a column")
    return made


def _check_distinct(select: exp.Select) -> None:
    """SELECT DISTINCT lists what columns may hold, as GROUP BY them does."""
    aggregated = any(each.find(exp.AggFunc, exp.Window) for each in select.expressions)
    if select.args["distinct"].args.get("on") or select.args.get("group") or aggregated:
        rule = "SELECT DISTINCT lists values of columns, and groups nothing"
        raise refuse(select, "select-distinct", rule, "leave out DISTINCT: every group is shown once")
    if any(each.is_star for each in select.expressions):
        raise refuse(select, "star", "rows are never shown", "name the columns whose values are to be listed")


def _sets(group: exp.Group, select: exp.Select) -> list[Items]:
    for part, value in group.args.items():
        if value and part not in ("expressions", "all", "rollup", "cube"):
            rule = f"GROUP BY {part.upper()} is not answered"
            raise refuse(group, "grouping-sets", rule, "use ROLLUP, CUBE, GROUPING SETS, or name the columns")
    if group.args.get("all"):
        return [tuple(each.unalias() for each in select.expressions if _groups(each))]
    after = [each for name in ("rollup", "cube") for each in group.args.get(name) or []]
    if after:  # GROUP BY a, b WITH ROLLUP
        return _listed(type(after[0])(expressions=group.expressions), group)
    if len(group.expressions) > MOST_KEYS:
        raise refuse(group, "too-many-columns", f"GROUP BY takes at most {MOST_KEYS} columns", "group by fewer")
    found: list[Items] = [()]
    for item in group.expressions:
        found = [(*before, *each) for before in found for each in _listed(item, group)]
        if len(found) > MOST_SETS:
            raise _too_many(group)
    return found


def _groups(item: exp.Expr) -> bool:
    """Tell whether GROUP BY ALL groups by an item: a column, or made from some, and no aggregate."""
    return item.find(exp.AggFunc, exp.Window) is None and item.find(exp.Column) is not None


def _listed(item: exp.Expr, group: exp.Group) -> list[Items]:
    """List the sets that one item of GROUP BY stands for."""
    if isinstance(item, exp.GroupingSets):
        found = [each for part in item.expressions for each in _listed(part, group)]
    elif isinstance(item, exp.Rollup):
        parts = [_together(each) for each in item.expressions]
        found = [tuple(itertools.chain(*parts[:count])) for count in range(len(parts), -1, -1)]
    elif isinstance(item, exp.Cube):
        parts = [_together(each) for each in item.expressions]
        if 2 ** len(parts) > MOST_SETS:
            raise _too_many(group)
        sizes = range(len(parts), -1, -1)
        found = [tuple(itertools.chain(*each)) for size in sizes for each in itertools.combinations(parts, size)]
    else:
        found = [_together(item)]
    if len(found) > MOST_SETS:
        raise _too_many(group)
    return found


def _together(item: exp.Expr) -> Items:
    """Read (a, b) as two keys, and () as none."""
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.unnest(),)


def _too_many(group: exp.Group) -> Exception:
    return refuse(group, "grouping-sets", f"a question has at most {MOST_SETS} grouping sets", "list those you need")


def _meant(node: exp.Expr, select: exp.Select, source: RowSource) -> exp.Expr:
    """Find what a GROUP BY item stands for: an ordinal, an output's alias, or itself."""
    item: exp.Expr | None = None
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.this) if node.this.isdigit() else 0
        if not 1 <= index <= len(select.expressions):
            raise refuse(node, "ordinal", "GROUP BY <number> counts the columns of SELECT from 1", "name the column")
        item = select.expressions[index - 1]
        if item.find(exp.AggFunc, exp.Window) is not None:
            rule = f"column {index} of SELECT is made of the groups, so it cannot be grouped by"
            raise refuse(node, "ordinal", rule, "name a column of the table, or use GROUP BY ALL")
    elif isinstance(node, exp.Column) and not node.table and not names_column(node, source):
        named = (each for each in select.expressions if isinstance(each, exp.Alias))
        item = next((each for each in named if each.alias.lower() == node.name.lower()), None)
    return node if item is None else item.unalias()


def names_column(node: exp.Column, source: RowSource) -> bool:
    """Tell whether a column of the table is called so, whatever the answer's columns are called."""
    return any(node.name.lower() == name.lower() for names in source.scope.values() for name in names)
