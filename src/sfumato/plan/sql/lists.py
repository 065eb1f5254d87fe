"""UNNEST makes a row of each item of a list that a table holds."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.nodes import Filter, Join, Relation, Scan, Unnest, next_source
from sfumato.plan.sql.text_positions import nearest, refuse
from sfumato.plan.values.expressions import Field
from sfumato.plan.written_names import quoted
from sfumato.policy import ListColumn

Lists = Mapping[str, Mapping[str, tuple[Field, ListColumn]]]
"""By alias and name, the lists of the tables in FROM."""


def is_unnest(join: exp.Join) -> bool:
    """Tell whether what is joined are the items of a list."""
    return isinstance(_inner(join.this), exp.Unnest)


def unnest(join: exp.Join, relation: Relation, lists: Lists) -> tuple[str, str, Unnest]:
    """Read what items of a list are joined under: the alias, the name of the items, and the rows."""
    named = join.this.args.get("alias")
    columns = [] if named is None else named.args.get("columns") or []
    written = _inner(join.this)
    inner = not join.side and (join.kind or "") in ("", "INNER", "CROSS") and not join.method
    if not inner or join.args.get("using") or join.args.get("on") not in (None, exp.true()):
        raise _refused(join, "UNNEST has a row for each item, and none for an empty list", lists)
    if written.args.get("offset") or len(written.expressions) != 1 or len(columns) != 1 or not named.name:
        raise _refused(join, "UNNEST takes one list, and gives a table and a column for its items a name", lists)
    items, column = _found(written.expressions[0], lists)
    base = relation
    while isinstance(base, (Filter, Join, Unnest)):
        base = base.input
    if not isinstance(base, Scan):
        rule = "a list is unnested before its table is joined with another private one"
        raise _refused(join, rule, lists, " JOIN …: UNNEST comes right after the table")
    source = next_source(relation)
    return named.name, columns[0].name, Unnest(relation, items, source, column.most_items, column.items)


def in_from(select: exp.Select) -> exp.Select:
    """SELECT UNNEST(list) AS item, … FROM table as SELECT t.item, … FROM table, UNNEST(list) AS t(item)."""
    found = [item for item in select.expressions if isinstance(item.unalias(), exp.Explode)]
    several = any(each.find(exp.AggFunc, exp.Window) for each in select.expressions)  # they look at rows before that
    if len(found) != 1 or not found[0].alias or several or select.args.get("group"):
        return select
    place, moved = select.expressions.index(found[0]), select.copy()
    item = moved.expressions[place]
    alias, name = exp.to_identifier(_ALIAS, quoted=True), item.args["alias"].copy()
    named = exp.TableAlias(this=alias, columns=[name])
    moved.append("joins", exp.Join(this=exp.Unnest(expressions=[item.this.this.copy()], alias=named), kind="CROSS"))
    item.set("this", exp.Column(this=name.copy(), table=alias.copy()))
    return moved


_ALIAS = "sf items"
"""No table is called so."""


def list_column(name: str, lists: Lists) -> Unsupported | None:
    """Make the refusal of a list that is named where a single value is meant; None where no list is called so."""
    for alias, columns in lists.items():
        for known, (items, _) in columns.items():
            if known.lower() == name.lower():
                rule = f"{name[:60]} is a list: questions are about its items, each in a row of its own"
                return Unsupported("list-column", rule, fix=_example(alias, items) + " and ask about item")
    return None


def _found(node: exp.Expr, lists: Lists) -> tuple[Field, ListColumn]:
    """Find the list that a column names."""
    if isinstance(node, exp.Column) and not node.args.get("db"):
        found = [
            each
            for alias, columns in lists.items()
            if not node.table or alias.lower() == node.table.lower()
            for name, each in columns.items()
            if name.lower() == node.name.lower()
        ]
        if len(found) == 1:
            return found[0]
        if found:
            fix = f"write UNNEST({quoted(next(iter(lists)))}.{quoted(node.name)})"
            raise refuse(node, "ambiguous-column", f"{node.name[:60]} is a list of more than one table", fix)
    known = [quoted(name) for columns in lists.values() for name in columns]
    if not known:
        rule = (
            "UNNEST takes a list that the policy declares of a table before it in FROM, and none is declared of these"
        )
        fix = "declare it with most_items = <how many items of one row count>, and name it beside its own table"
        raise refuse(node, "unnest", rule, fix)
    rule = "UNNEST takes a list that the policy declares of a table before it in FROM"
    raise refuse(node, "unnest", rule, nearest(node.name, known))


def _inner(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Lateral) else node


def _refused(node: exp.Join, rule: str, lists: Lists, more: str = "") -> Unsupported:
    known = [(alias, items) for alias, columns in lists.items() for items, _ in columns.values()]
    fix = _example(*known[0]) if known else "declare a list of the table in the policy, with most_items"
    return refuse(node, "unnest", rule, fix + more)


def _example(alias: str, items: Field) -> str:
    """Write FROM with the items of a list beside the table that holds it."""
    table = quoted(items.table) if alias.lower() == items.table.lower() else f"{quoted(items.table)} AS {quoted(alias)}"
    return f"write FROM {table} CROSS JOIN UNNEST({quoted(alias)}.{quoted(items.name)}) AS t(item)"
