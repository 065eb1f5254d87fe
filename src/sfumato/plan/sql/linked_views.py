"""Questions about a child table joined to its parent, asked of one table that has the columns of both.

A published model of children holds columns of their parents. ``visits JOIN patients`` on the key is that model: the
join is removed, and the parent's columns are read under the names that they have there.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.plan.sql.text_positions import refuse
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class LinkedView:
    """A child table whose rows carry columns of their parents."""

    parent: str
    child: str
    parent_key: str
    child_key: str
    child_columns: frozenset[str]
    """In lower case."""
    parent_columns: Mapping[str, str]
    """The name in the view of each of the parent's columns, which are in lower case."""


def asked_table(statement: exp.Select, view: LinkedView) -> str:
    """Return the table of the view that a question without a join reads; the child's if it joins both."""
    names = {table.name.lower() for table in statement.find_all(exp.Table)}
    return view.parent if names == {view.parent.lower()} else view.child


def fold_join(statement: exp.Select, view: LinkedView) -> exp.Select:
    """Return a question about the view, from one that joins both tables on their key; others are left as they are."""
    joins, source = statement.args.get("joins") or [], statement.args.get("from_")
    if not joins or source is None:
        return statement
    join = joins[0]
    names = {table.name.lower(): table for table in (source.this, join.this) if isinstance(table, exp.Table)}
    if len(joins) > 1 or {*names} != {view.parent.lower(), view.child.lower()}:
        rule = f"only {view.child} JOIN {view.parent} is known here, once"
        raise refuse(join, "join", rule, f"join these two, or ask the rows drawn: {_ROWS}")
    parent, child = names[view.parent.lower()], names[view.child.lower()]
    _check_key(join, view, parent.alias_or_name, child.alias_or_name)
    statement.set("joins", None)
    source.set("this", child)
    for column in list(statement.find_all(exp.Column)):
        _read_from_view(column, view, parent.alias_or_name)
    return statement


_ROWS = 'tables.write("folder")'


def _check_key(join: exp.Join, view: LinkedView, parent: str, child: str) -> None:
    """Refuse a join of another kind, or by anything but the key."""
    using = [name.name.lower() for name in join.args.get("using") or ()]
    on = join.args.get("on")
    sides = [on.this, on.expression] if isinstance(on, exp.EQ) else []
    pairs = {(side.table.lower(), side.name.lower()) for side in sides if isinstance(side, exp.Column)}
    is_key = pairs == {(parent.lower(), view.parent_key.lower()), (child.lower(), view.child_key.lower())}
    is_using = using == [view.parent_key.lower()] and view.parent_key.lower() == view.child_key.lower()
    if join.side or join.kind not in ("", "INNER") or not (is_key or is_using):
        fix = f"write JOIN … ON {parent}.{view.parent_key} = {child}.{view.child_key}"
        raise refuse(join, "join", f"{view.child} and {view.parent} are joined by their key alone", fix)


def _read_from_view(column: exp.Column, view: LinkedView, parent: str) -> None:
    """Replace a column by the view's; an output keeps its name."""
    name, owner = column.name.lower(), column.table.lower()
    is_parent = owner == parent.lower() or (not owner and name not in view.child_columns)
    column.set("table", None)
    if not is_parent or name not in view.parent_columns:
        if is_parent and owner:
            rule = f"{view.child} were modelled without {view.parent}.{column.name}"
            raise refuse(column, "unknown-column", rule, f"name one of {', '.join(view.parent_columns)}")
        return
    read = exp.column(exp.to_identifier(view.parent_columns[name], quoted=True))
    is_output = isinstance(column.parent, exp.Select) and column.arg_key == "expressions"
    column.replace(exp.alias_(read, column.name) if is_output else read)
