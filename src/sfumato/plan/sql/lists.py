"""Lower UNNEST: a row for each item of a list column."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.nodes import Filter, PublicJoin, Relation, Scan, Unnest, unused_source_number
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.text_positions import refusal_at, suggest_name
from sfumato.plan.values.expressions import Field
from sfumato.policy import ListColumn

Lists = Mapping[str, Mapping[str, tuple[Field, ListColumn]]]
"""By alias and name, the lists of the tables in FROM."""


def is_unnest(join: exp.Join) -> bool:
    """Return whether a join is with the items of a list."""
    return isinstance(_without_lateral(join.this), exp.Unnest)


def lower_unnest(join: exp.Join, relation: Relation, lists: Lists) -> tuple[str, str, Unnest]:
    """Lower UNNEST; return its alias, the name of the items, and the relation."""
    table_alias = join.this.args.get("alias")
    columns = [] if table_alias is None else table_alias.args.get("columns") or []
    unnest_node = _without_lateral(join.this)
    is_inner = not join.side and (join.kind or "") in ("", "INNER", "CROSS") and not join.method
    if not is_inner or join.args.get("using") or join.args.get("on") not in (None, exp.true()):
        raise _unnest_refusal(
            join, "UNNEST returns one row per item and none for an empty list, so only CROSS JOIN is supported", lists
        )
    if unnest_node.args.get("offset") or len(unnest_node.expressions) != 1 or len(columns) != 1 or not table_alias.name:
        raise _unnest_refusal(
            join, "UNNEST takes one list, with a name for the table and for the column of items", lists
        )
    items, column = _list_field_and_column(unnest_node.expressions[0], lists)
    base = relation
    while isinstance(base, (Filter, PublicJoin, Unnest)):
        base = base.input
    if not isinstance(base, Scan):
        rule = "a list must be unnested before its table is joined with another private table"
        raise _unnest_refusal(join, rule, lists, " JOIN …: UNNEST comes right after the table")
    source = unused_source_number(relation)
    return table_alias.name, columns[0].name, Unnest(relation, items, source, column.max_items, column.items)


def move_unnest_to_from(select: exp.Select) -> exp.Select:
    """Rewrite SELECT UNNEST(list) AS item, … FROM table to SELECT t.item, … FROM table, UNNEST(list) AS t(item)."""
    exploded = [item for item in select.expressions if isinstance(item.unalias(), exp.Explode)]
    # they look at rows before that
    reads_rows_before = any(output.find(exp.AggFunc, exp.Window) for output in select.expressions)
    if len(exploded) != 1 or not exploded[0].alias or reads_rows_before or select.args.get("group"):
        return select
    item_index, rewritten = select.expressions.index(exploded[0]), select.copy()
    item = rewritten.expressions[item_index]
    alias, name = exp.to_identifier(_ALIAS, quoted=True), item.args["alias"].copy()
    items_alias = exp.TableAlias(this=alias, columns=[name])
    rewritten.append(
        "joins", exp.Join(this=exp.Unnest(expressions=[item.this.this.copy()], alias=items_alias), kind="CROSS")
    )
    item.set("this", exp.Column(this=name.copy(), table=alias.copy()))
    return rewritten


_ALIAS = "sf items"
"""An alias that no table has."""


def list_column_refusal(name: str, lists: Lists) -> Unsupported | None:
    """Return the refusal of a list that is named where a single value is meant; None where no list has this name."""
    for alias, columns in lists.items():
        for list_name, (items, _) in columns.items():
            if list_name.lower() == name.lower():
                rule = f"{name[:60]} is a list, which must first be unnested into one row per item"
                return Unsupported("list-column", rule, fix=_unnest_example(alias, items) + " and ask about item")
    return None


def _list_field_and_column(node: exp.Expr, lists: Lists) -> tuple[Field, ListColumn]:
    """Return the list that a column names."""
    if isinstance(node, exp.Column) and not node.args.get("db"):
        matches = [
            list_entry
            for alias, columns in lists.items()
            if not node.table or alias.lower() == node.table.lower()
            for name, list_entry in columns.items()
            if name.lower() == node.name.lower()
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            fix = f"write UNNEST({quoted(next(iter(lists)))}.{quoted(node.name)})"
            raise refusal_at(node, "ambiguous-column", f"more than one table has a list named {node.name[:60]}", fix)
    list_names = [quoted(name) for columns in lists.values() for name in columns]
    if not list_names:
        rule = "UNNEST takes a list that the policy declares for a table before it in FROM, and these tables have none"
        fix = "declare it in the policy with most_items = <items per row>, and write UNNEST beside its own table"
        raise refusal_at(node, "unnest", rule, fix)
    rule = "UNNEST takes a list that the policy declares for a table before it in FROM"
    raise refusal_at(node, "unnest", rule, suggest_name(node.name, list_names))


def _without_lateral(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Lateral) else node


def _unnest_refusal(node: exp.Join, rule: str, lists: Lists, more: str = "") -> Unsupported:
    known_lists = [(alias, items) for alias, columns in lists.items() for items, _ in columns.values()]
    fix = _unnest_example(*known_lists[0]) if known_lists else "declare a list column in the policy, with most_items"
    return refusal_at(node, "unnest", rule, fix + more)


def _unnest_example(alias: str, items: Field) -> str:
    """Write FROM with the items of a list beside the table that holds it."""
    table = quoted(items.table) if alias.lower() == items.table.lower() else f"{quoted(items.table)} AS {quoted(alias)}"
    return f"write FROM {table} CROSS JOIN UNNEST({quoted(alias)}.{quoted(items.name)}) AS t(item)"
