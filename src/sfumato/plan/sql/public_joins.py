"""Joins of private rows with a public table, by equal columns or by comparisons with the ends of bands.

A row is joined with public rows by its own cells alone, so the join is unit-wise (``plan.nodes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.nodes import PublicJoin, unused_source_number
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text_positions import refusal_at, suggest_name
from sfumato.plan.sql.unit_joins import NamedRelation, conjuncts
from sfumato.plan.values.coded_keys import MIRRORED
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions import call
from sfumato.policy import Domain, Type
from sfumato.quick_dataclass import dataclass

LARGEST_EXACT = 2**53
"""Every integer up to this size is an exact double."""

_OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True)
class MatchedPublicTable:
    """A public table under an alias."""

    alias: str
    table: CatalogTable

    def column(self, name: str, node: exp.Expr) -> str:
        for column in self.table.columns:
            if column.lower() == name.lower():
                return column
        column_names = self.table.columns
        raise refusal_at(
            node, "unknown-column", f"{self.alias} has no column named {name[:60]}", suggest_name(name, column_names)
        )


def lower_public_join(
    left: NamedRelation, right: MatchedPublicTable, node: exp.Join, outer: bool, catalog: Catalog
) -> tuple[PublicJoin, tuple[str, ...]]:
    """Lower a join with a public table; return it with the columns of USING."""
    using = tuple(right.column(column_node.name, node) for column_node in node.args.get("using") or [])
    _check_id_declared(left, [exp.column(name) for name in using], node)
    pairs = [(left.resolve(None, name), name) for name in using]
    bands: list[tuple[str, Expression, str]] = []
    for part in conjuncts(node.args.get("on")):
        _check_id_declared(left, part.find_all(exp.Column), node)
        for operator, operand, column in _public_column_comparisons(left, right, part):
            if operator == "=":
                pairs.append((operand, column))
            else:
                bands.append((operator, operand, column))
    if not pairs and not bands:
        raise refusal_at(
            node, "join-condition", "a join needs a condition", "add ON a.column = b.column, or USING (column)"
        )
    for operand, column in (*pairs, *((operand, column) for _, operand, column in bands)):
        call("=", operand, Column(Field(0, right.table.name, column), right.table.columns[column]))
        _check_exact_real_join(operand, right.table.columns[column], node)
    equalities, comparisons = tuple(sorted(set(pairs), key=repr)), tuple(sorted(set(bands), key=repr))
    multiplicity = _max_matches(right.table.name, equalities, comparisons, catalog)
    source = unused_source_number(left.relation)
    return PublicJoin(
        left.relation, right.table.name, source, equalities, outer, multiplicity, right.table.columns, comparisons
    ), using


def _check_id_declared(left: NamedRelation, columns: Iterable[exp.Column], node: exp.Join) -> None:
    """Refuse a join on an id that is no declared column: the owner decides whether its values may be compared."""
    for column in columns:
        sides = [names for alias, names in left.scope.items() if column.table.lower() in ("", alias.lower())]
        declared = any(column.name.lower() in map(str.lower, names) for names in sides)
        if sides and not declared and left.is_unit_id(column):
            name = column.name[:60]
            rule = f"{name} is an id, and a public table can be joined on it only if the policy declares it as a column"
            raise refusal_at(node, "public-id", rule, f"add {name} to the columns of its table in the policy")


def _max_matches(
    table: str,
    pairs: tuple[tuple[Expression, str], ...],
    bands: tuple[tuple[str, Expression, str], ...],
    catalog: Catalog,
) -> int:
    """Return the most rows that one row matches: among those with equal columns, the most that one compared value
    matches.
    """
    equal_columns = tuple(sorted({column for _, column in pairs}))
    upper_bounds = [catalog.multiplicity(table, equal_columns)] if equal_columns else []
    for operand in dict.fromkeys(operand for _, operand, _ in bands):
        operand_bands = tuple((operator, column) for operator, band_operand, column in bands if band_operand == operand)
        upper_bounds.append(catalog.overlap(table, equal_columns, operand_bands))
    return max(1, min(upper_bounds))


def _check_exact_real_join(operand: Expression, domain: Domain, node: exp.Join) -> None:
    """Refuse a join that may take two values for one, since rows that share a value are counted as the column holds it:
    integers beyond 2^53 are not all distinct once they are compared with a real.
    """
    if operand.domain.type is not Type.REAL or domain.type is not Type.INTEGER:
        return
    largest = None if domain.range is None else max(abs(int(end)) for end in domain.range)  # type: ignore[arg-type]
    if largest is None or largest > LARGEST_EXACT:
        raise refusal_at(
            node,
            "join-real",
            "a real number can only be joined with whole numbers of at most 2^53 in absolute value",
            "write CAST(… AS INTEGER) on the private side",
        )


def _public_column_comparisons(
    left: NamedRelation, right: MatchedPublicTable, part: exp.Expr
) -> Iterator[tuple[str, Expression, str]]:
    """Return the comparisons with columns of the public table, each as (operator, operand, column)."""
    if isinstance(part, exp.Between):
        ends = ((">=", part.args["low"]), ("<=", part.args["high"]))
        if all(isinstance(end, exp.Column) and _is_public_column(end, left, right) for _, end in ends):
            for operator_name, end in ends:
                yield operator_name, lower_expression(part.this, left.resolve), right.column(end.name, part)
            return
    operator = _OPERATORS.get(type(part))
    if operator is not None:
        mirrored = (part.expression, part.this, MIRRORED.get(operator, operator))
        for operand, public_node, direction in ((part.this, part.expression, operator), mirrored):
            if isinstance(public_node, exp.Column) and _is_public_column(public_node, left, right):
                yield direction, lower_expression(operand, left.resolve), right.column(public_node.name, part)
                return
    raise refusal_at(
        part,
        "join-condition",
        "a join with a public table must compare an expression with a column of that table",
        "write ON private.column = public.column, or x >= public.low AND x < public.high",
    )


def _is_public_column(column: exp.Column, left: NamedRelation, right: MatchedPublicTable) -> bool:
    if column.table:
        return column.table.lower() == right.alias.lower()
    left_names = {name.lower() for columns in left.scope.values() for name in columns}
    return column.name.lower() not in left_names and column.name.lower() in {
        name.lower() for name in right.table.columns
    }
