"""A relation under construction, and the names that a query may use for its columns.

UNNEST is one of them: a row for each item of a list column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass, replace
from typing import Any

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.nodes import (
    Filter,
    Numbered,
    PublicJoin,
    Relation,
    Scan,
    Union,
    Unnest,
    relations,
    unused_source_number,
)
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.per_unit import SubqueryRows
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.syntax_trees import has_node
from sfumato.plan.sql.text_positions import fix_for_unknown_name, node_text, refusal_at
from sfumato.plan.sql.unit_joins import period_expressions_of, period_sql
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.policy import Domain, ListColumn
from sfumato.quick_dataclass import dataclass

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
    reads_rows_before = any(has_node(output, exp.AggFunc, exp.Window) for output in select.expressions)
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
                rule = f"{name[:60]} is a list, so it must first be unnested into one row per item"
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
        rule = "UNNEST takes a declared list of a table that comes before it in FROM, and these tables have no lists"
        fix = "declare it in the policy with most_items = <items per row>, and write UNNEST beside its own table"
        raise refusal_at(node, "unnest", rule, fix)
    rule = f"UNNEST takes a declared list of a table that comes before it in FROM, and {node_text(node)} is not one"
    raise refusal_at(node, "unnest", rule, fix_for_unknown_name(node.name, list_names))


def _without_lateral(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Lateral) else node


def _unnest_refusal(node: exp.Join, rule: str, lists: Lists, more: str = "") -> Unsupported:
    declared_lists = [(alias, items) for alias, columns in lists.items() for items, _ in columns.values()]
    fix = (
        _unnest_example(*declared_lists[0])
        if declared_lists
        else "declare a list column in the policy, with most_items"
    )
    return refusal_at(node, "unnest", rule, fix + more)


def _unnest_example(alias: str, items: Field) -> str:
    """Write FROM with the items of a list beside the table that holds it."""
    table = quoted(items.table) if alias.lower() == items.table.lower() else f"{quoted(items.table)} AS {quoted(alias)}"
    return f"write FROM {table} CROSS JOIN UNNEST({quoted(alias)}.{quoted(items.name)}) AS t(item)"


@dataclass(frozen=True)
class RowSource:
    """A relation under construction: its node, and by alias the columns that can be named."""

    relation: Relation
    scope: Mapping[str, Mapping[str, Expression]]
    table: CatalogTable
    """The first private table."""
    unit_columns: Mapping[str, tuple[str, ...]]
    """By alias, the names of the id columns of the unit."""
    catalog: Catalog
    """The tables and columns that the query may refer to."""
    merged: frozenset[tuple[str, str]] = frozenset()
    """(alias, column) of the right sides of USING: not ambiguous with the left."""
    public: frozenset[str] = frozenset()
    """Aliases of public tables, in lower case: no unit has rows there."""
    lists: Lists = field(default_factory=dict)
    """By alias, the lists that UNNEST may read."""

    def resolve(self, qualifier: str | None, name: str) -> Expression:
        """Return the expression that a column name stands for; names are compared without case, as in SQL."""
        matches = [
            (alias, column, definition)
            for alias, columns in self.scope.items()
            if qualifier is None or alias.lower() == qualifier.lower()
            for column, definition in columns.items()
            if column.lower() == name.lower() and not (qualifier is None and (alias, column) in self.merged)
        ]
        if len(matches) == 1:
            return matches[0][2]
        if matches:
            raise Unsupported(
                "ambiguous-column",
                f"more than one table has a column named '{name[:60]}'",
                fix=f"write {quoted(matches[0][0])}.{quoted(name[:60])}",
            )
        if qualifier is not None and qualifier.lower() not in {alias.lower() for alias in self.scope}:
            rule = f"no table in this question is named '{qualifier[:60]}'"
            raise Unsupported("unknown-alias", rule, fix=fix_for_unknown_name(qualifier, filter(None, self.scope)))
        column_names = {column for columns in self.scope.values() for column in columns}
        if self._id_aliases(qualifier, name):
            table, unit = self.table, quoted(name[:60])
            unit = unit if table.period is None else f"({unit}, {period_sql(table)})"
            rule = f"{name[:60]} identifies the unit of each row, and ids are never released"
            fix = f"count units: SELECT COUNT(DISTINCT {unit}) FROM {quoted(table.name)}"
            raise Unsupported("unit-column", rule, fix=fix)
        refusal = list_column_refusal(name, self.lists)
        if refusal is not None:
            raise refusal
        raise Unsupported(
            "unknown-column",
            f"the policy declares no column named '{name[:60]}'",
            fix=fix_for_unknown_name(name, column_names),
        )

    def is_unit_id(self, node: exp.Expr) -> bool:
        """Return whether a node is the id of the unit, and no other column of that name."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return False
        aliases = {alias.lower() for alias in self.scope}
        if node.table and node.table.lower() not in aliases:
            lower_expression(node, self.resolve)  # says that there is no such table
        unit_aliases = self._id_aliases(node.table or None, node.name)
        other_aliases = [
            alias
            for alias, columns in self.scope.items()
            if (not node.table or alias.lower() == node.table.lower())
            and alias not in unit_aliases
            and node.name.lower() in map(str.lower, columns)
            and (alias, node.name) not in self.merged
        ]
        return bool(unit_aliases) and not other_aliases

    @property
    def subquery_rows(self) -> SubqueryRows:
        """The rows as a subquery's SELECT sees them."""
        names = [name for names in self.unit_columns.values() for name in names]
        every_row = any(isinstance(node, Scan) and node.every_row for node in relations(self.relation))
        unit = None if every_row else next(iter(names), "<id>")
        if self.table.period is None:
            return SubqueryRows(self.relation, self.resolve, self.is_unit_id, unit)
        period, period_expressions = period_sql(self.table), period_expressions_of(self.relation, self.catalog)
        single_periods = period_expressions_of(self.relation, self.catalog, single=True)
        return SubqueryRows(
            self.relation, self.resolve, self.is_unit_id, unit, period, period_expressions, single_periods
        )

    def _id_aliases(self, qualifier: str | None, name: str) -> list[str]:
        """Return the aliases under which a name is the unit's id."""
        return [
            alias
            for alias, names in self.unit_columns.items()
            if (qualifier is None or alias.lower() == qualifier.lower()) and name.lower() in map(str.lower, names)
        ]


def with_distinct_source_numbers(right: RowSource, left: RowSource) -> RowSource:
    """Return the right rows with source numbers that the left has not."""
    offset = unused_source_number(left.relation)
    scope = {
        alias: {name: shift_sources(definition, offset) for name, definition in columns.items()}
        for alias, columns in right.scope.items()
    }
    return replace(right, relation=shift_sources(right.relation, offset), scope=scope)


def with_materialised_columns(right: RowSource) -> RowSource:
    """Turn computed columns into columns of their own: a row without a match has none of them, whatever a function
    makes of NULLs.
    """
    definitions = [
        (f"{alias}.{name}", definition)
        for alias, columns in right.scope.items()
        for name, definition in columns.items()
    ]
    if all(isinstance(definition, Column) for _, definition in definitions):
        return right
    source = unused_source_number(right.relation)
    typed_names = tuple((name, definition.domain) for name, definition in definitions)
    relation = Union(((right.relation, tuple(definition for _, definition in definitions)),), source, typed_names)
    scope = {
        alias: {
            name: Column(Field(source, "", f"{alias}.{name}"), definition.domain)
            for name, definition in columns.items()
        }
        for alias, columns in right.scope.items()
    }
    return replace(right, relation=relation, scope=scope)


def as_nullable(column: Expression) -> Expression:
    """Make a column nullable: a row may have no match on its side."""
    assert isinstance(column, Column)
    return replace(column, domain=replace(column.domain, nullable=True))


def shift_sources(part: Any, offset: int) -> Any:
    """Shift every source number in a relation, expression or column, so that two trees share none."""
    if isinstance(part, Field):
        return replace(part, source=part.source + offset)
    if isinstance(part, tuple):
        return tuple(shift_sources(member, offset) for member in part)
    if isinstance(part, Mapping):
        return {shift_sources(key, offset): shift_sources(value, offset) for key, value in part.items()}
    if not is_dataclass(part) or isinstance(part, (type, Domain, ContributionLimits)):
        return part
    shifted = {
        attribute.name: shift_sources(getattr(part, attribute.name), offset)
        for attribute in fields(part)
        if attribute.init
    }
    if isinstance(part, Numbered):
        shifted["source"] = part.source + offset
    return replace(part, **shifted)
