"""Questions about a child table joined to tables above it, asked of one table that has the columns of all.

A published model of children holds columns of their parents. ``visits JOIN patients`` on the key is that model: the
join is removed, and the parent's columns are read under the names that they have there. So is a chain of such joins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from sfumato.error_facts import join_with_or
from sfumato.plan.sql.text_positions import refusal_at
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class Ancestor:
    """A table above another: its key, and the column of the table right below that refers to it."""

    table: str
    key: str
    reference: str
    columns: Mapping[str, str]
    """The name in the view of each of its columns, which are in lower case."""


@dataclass(frozen=True)
class LinkedView:
    """A table whose rows carry columns of the tables above it."""

    table: str
    columns: frozenset[str]
    """In lower case."""
    ancestors: tuple[Ancestor, ...]
    """Nearest first."""

    def ancestors_joining(self, names: set[str]) -> tuple[Ancestor, ...] | None:
        """Return the ancestors if these are the table and the nearest tables above it, otherwise None."""
        path = self.ancestors[: len(names) - 1]
        return path if names == {self.table.lower(), *(ancestor.table.lower() for ancestor in path)} else None


class ViewQuestion(NamedTuple):
    """A question about one view of linked tables."""

    table: str
    """The lowest table of the view, in lower case."""
    select: exp.Select


def replace_joins_by_view(statement: exp.Select, views: Sequence[LinkedView]) -> ViewQuestion:
    """Return the question about the view that answers; a question without a join is left as it is."""
    joins, source = statement.args.get("joins") or [], statement.args.get("from_")
    if not joins or source is None:
        names = {table.name.lower() for table in statement.find_all(exp.Table)}
        queried_tables = [view.table.lower() for view in views if view.table.lower() in names]
        return ViewQuestion((queried_tables or [views[0].table.lower()])[0], statement)
    tables = [node for node in (source.this, *(join.this for join in joins)) if isinstance(node, exp.Table)]
    aliases = {table.name.lower(): table.alias_or_name for table in tables}
    view, path = _view_and_joined_ancestors(joins, aliases, views)
    _check_join_keys(joins, view, path, aliases)
    statement.set("joins", None)
    source.set("this", next(table for table in tables if table.name.lower() == view.table.lower()))
    columns_by_alias = {aliases[ancestor.table.lower()].lower(): ancestor for ancestor in path}
    for column in list(statement.find_all(exp.Column)):
        _replace_by_view_column(column, view, columns_by_alias)
    return ViewQuestion(view.table.lower(), statement)


_ROWS = 'tables.write("folder")'


def _view_and_joined_ancestors(
    joins: Sequence[exp.Join], aliases: Mapping[str, str], views: Sequence[LinkedView]
) -> tuple[LinkedView, tuple[Ancestor, ...]]:
    """Return the view of the lowest of the joined tables, and the others; refuse tables that are no chain of links."""
    if len(aliases) == len(joins) + 1:
        for view in views:
            path = view.ancestors_joining({*aliases})
            if path:
                return view, path
    possible_joins = [
        f"'{' JOIN '.join((view.table, *(ancestor.table for ancestor in view.ancestors)))}'"
        for view in views
        if view.ancestors
    ]
    rule = f"joins must follow the links of these tables, with each table once: {join_with_or(possible_joins)}"
    raise refusal_at(joins[0], "join", rule, f"join the tables in this way, or draw rows and query them: {_ROWS}")


def _check_join_keys(
    joins: Sequence[exp.Join], view: LinkedView, path: Sequence[Ancestor], aliases: Mapping[str, str]
) -> None:
    """Refuse joins of another kind, or by anything but the keys of neighbours on the path."""
    lower_tables = [view.table, *(ancestor.table for ancestor in path)]
    keys = []
    for lower_table, ancestor in zip(lower_tables, path, strict=False):
        lower, upper = (aliases[name.lower()].lower() for name in (lower_table, ancestor.table))
        keys.append(((lower, ancestor.reference.lower()), (upper, ancestor.key.lower())))
    used = [_matched_key(join, keys) for join in joins]
    for join, key in zip(joins, used, strict=True):
        if key is None or used.count(key) > 1 or join.side or join.kind not in ("", "INNER"):
            conditions = " and ".join(f"{a}.{key} = {b}.{other}" for (b, other), (a, key) in keys)
            tables = f"{', '.join(lower_tables[:-1])} and {lower_tables[-1]}"
            raise refusal_at(
                join, "join", f"{tables} can only be joined by their keys", f"write JOIN … ON {conditions}"
            )


_Key = tuple[tuple[str, str], tuple[str, str]]
"""Alias and column below, alias and column above."""


def _matched_key(join: exp.Join, keys: Sequence[_Key]) -> _Key | None:
    """Return the key that a join's condition compares, or None."""
    using = [name.name.lower() for name in join.args.get("using") or ()]
    on = join.args.get("on")
    sides = [on.this, on.expression] if isinstance(on, exp.EQ) else []
    compared = {(side.table.lower(), side.name.lower()) for side in sides if isinstance(side, exp.Column)}
    alias = join.this.alias_or_name.lower()
    for key in keys:
        (lower, reference), (upper, name) = key
        is_using = using == [name] == [reference] and alias in (lower, upper)
        if compared == {*key} or is_using:
            return key
    return None


def _replace_by_view_column(column: exp.Column, view: LinkedView, ancestors: Mapping[str, Ancestor]) -> None:
    """Replace a column by the view's; an output keeps its name."""
    name, owner = column.name.lower(), column.table.lower()
    column.set("table", None)
    if owner and owner not in ancestors:
        return
    candidates = [ancestors[owner]] if owner else [] if name in view.columns else list(ancestors.values())
    view_names = [ancestor.columns[name] for ancestor in candidates if name in ancestor.columns]
    if not view_names and owner:
        ancestor = ancestors[owner]
        rule = f"the model of {view.table} does not include {ancestor.table}.{column.name}"
        fix = f"name one of {', '.join(ancestor.columns)}" if ancestor.columns else f"query {ancestor.table} alone"
        raise refusal_at(column, "unknown-column", rule, fix)
    if len(view_names) > 1:
        fix = f"write {candidates[0].table}.{column.name}, or the name of another of the joined tables"
        raise refusal_at(column, "ambiguous-column", f"several of the joined tables have a column {column.name}", fix)
    if not view_names:
        return
    read = exp.column(exp.to_identifier(view_names[0], quoted=True))
    is_output = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
    column.replace(exp.alias_(read, column.name) if is_output else read)
