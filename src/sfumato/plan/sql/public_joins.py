"""Public tables stand beside private rows: they are joined by equal columns, or by comparisons with the ends of
bands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.nodes import Join, next_source
from sfumato.plan.sql.sql_expressions import expression
from sfumato.plan.sql.text_positions import nearest, refuse
from sfumato.plan.sql.unit_joins import Known, conjuncts
from sfumato.plan.values.bands import MIRRORED
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type

LARGEST_EXACT = 2**53
"""Every whole number up to this size is a double of its own."""

_COMPARED: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True)
class Public:
    """This is a public table under an alias."""

    alias: str
    table: Described

    def column(self, name: str, node: exp.Expr) -> str:
        for column in self.table.columns:
            if column.lower() == name.lower():
                return column
        known = self.table.columns
        raise refuse(node, "unknown-column", f"{self.alias} has no column {name[:60]}", nearest(name, known))


def public_join(
    left: Known, right: Public, node: exp.Join, outer: bool, catalog: Catalog
) -> tuple[Join, tuple[str, ...]]:
    """Put every row beside its matches in a public table, and the columns that USING names."""
    using = tuple(right.column(each.name, node) for each in node.args.get("using") or [])
    pairs = [(left.resolve(None, name), name) for name in using]
    bands: list[tuple[str, Expression, str]] = []
    for part in conjuncts(node.args.get("on")):
        for operator, made, column in _comparisons(left, right, part):
            if operator == "=":
                pairs.append((made, column))
            else:
                bands.append((operator, made, column))
    if not pairs and not bands:
        raise refuse(
            node, "join-condition", "a join needs equalities between columns", "add ON a = b or USING (column)"
        )
    for made, column in (*pairs, *((made, column) for _, made, column in bands)):
        call("=", made, Column(Field(0, right.table.name, column), right.table.columns[column]))
        _check_distinct(made, right.table.columns[column], node)
    equal, ordered = tuple(sorted(set(pairs), key=repr)), tuple(sorted(set(bands), key=repr))
    most = _most(right.table.name, equal, ordered, catalog)
    source = next_source(left.relation)
    return Join(left.relation, right.table.name, source, equal, outer, most, right.table.columns, ordered), using


def _most(
    table: str,
    pairs: tuple[tuple[Expression, str], ...],
    bands: tuple[tuple[str, Expression, str], ...],
    catalog: Catalog,
) -> int:
    """Count the most rows that one row meets: among those with equal columns, the most that one compared value
    meets.
    """
    equal = tuple(sorted({column for _, column in pairs}))
    found = [catalog.multiplicity(table, equal)] if equal else []
    for made in dict.fromkeys(made for _, made, _ in bands):
        own = tuple((operator, column) for operator, each, column in bands if each == made)
        found.append(catalog.overlap(table, equal, own))
    return max(1, min(found))


def _check_distinct(made: Expression, domain: Domain, node: exp.Join) -> None:
    """Refuse a join that may take two values for one, since rows that share a value are counted as the column holds it:
    whole numbers beyond 2^53 are not all told apart once they are compared with a real.
    """
    if made.domain.type is not Type.REAL or domain.type is not Type.INTEGER:
        return
    largest = None if domain.range is None else max(abs(int(end)) for end in domain.range)  # type: ignore[arg-type]
    if largest is None or largest > LARGEST_EXACT:
        raise refuse(
            node,
            "join-real",
            "a real is joined with whole numbers of at most 2^53 in size",
            "write CAST(… AS INTEGER) on the private side",
        )


def _comparisons(left: Known, right: Public, part: exp.Expr) -> Iterator[tuple[str, Expression, str]]:
    """List what is compared with a column of the public table, each as (operator, what, column): what operator
    column.
    """
    if isinstance(part, exp.Between):
        ends = ((">=", part.args["low"]), ("<=", part.args["high"]))
        if all(isinstance(end, exp.Column) and _belongs(end, left, right) for _, end in ends):
            for test, end in ends:
                yield test, expression(part.this, left.resolve), right.column(end.name, part)
            return
    operator = _COMPARED.get(type(part))
    if operator is not None:
        mirrored = (part.expression, part.this, MIRRORED.get(operator, operator))
        for here, there, as_written in ((part.this, part.expression, operator), mirrored):
            if isinstance(there, exp.Column) and _belongs(there, left, right):
                yield as_written, expression(here, left.resolve), right.column(there.name, part)
                return
    raise refuse(
        part,
        "join-condition",
        "tables are joined by comparing something with a column of the public table",
        "write ON private.column = public.column, or x >= public.low AND x < public.high",
    )


def _belongs(column: exp.Column, left: Known, right: Public) -> bool:
    if column.table:
        return column.table.lower() == right.alias.lower()
    known = {name.lower() for columns in left.scope.values() for name in columns}
    return column.name.lower() not in known and column.name.lower() in {name.lower() for name in right.table.columns}
