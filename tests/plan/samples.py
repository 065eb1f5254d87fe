"""Columns of every type, with and without a declared range, and questions about them."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal
from sfumato.policy import Domain

COLUMNS = {
    "age": Domain("integer", bounds=(0, 110)),
    "count": Domain("integer"),
    "share": Domain("real", bounds=(0, "0.5")),
    "pay": Domain("real", bounds=(-100, 1000), grid="0.01"),
    "weight": Domain("real"),
    "name": Domain("text"),
    "colour": Domain("text", values=("red", "blue")),
    "town": Domain("text", values=("Ulm", "Bonn"), nullable=True),
    "member": Domain("boolean"),
    "born": Domain("date", bounds=("2020-01-01", "2020-12-31")),
    "seen": Domain("date"),
    "paid": Domain("timestamp", bounds=("2020-01-01 00:00:00", "2020-01-02 12:00:00")),
    "moment": Domain("timestamp"),
}


def resolve(table: str | None, name: str) -> Expression:
    if table not in (None, "t") or name not in COLUMNS:
        raise Unsupported("no-column", "there is no such column", fix="use one of the declared columns")
    return Column(Field(0, "visits", name), COLUMNS[name])


def read(text: str) -> Expression:
    """The expression that a piece of SQL stands for."""
    return lower_expression(sqlglot.parse_one(f"SELECT {text}", read="duckdb").expressions[0], resolve)


def shown(node: Expression) -> str:
    """A tree on one line: (function argument …)."""
    if isinstance(node, Column):
        return str(node.reference)
    if isinstance(node, Literal):
        return "NULL" if node.value is None else f"{node.domain.type.value}:{node.value}"
    assert isinstance(node, Call)
    target = f" {node.domain.type.value}" if node.function == "CAST" else ""
    return f"({node.function}{target} {' '.join(map(shown, node.arguments))})"


NESTED = {
    "division": ("weight", "(1 / hole)"),
    "remainder": ("age", "7 % hole"),
    "negation": ("age", "-hole"),
    "case": ("age", "CASE WHEN member THEN hole ELSE 1 END"),
    "coalesce": ("weight", "COALESCE(hole * 2, 1)"),
    "nullif": ("weight", "NULLIF(hole * 2, share)"),
    "clamp": ("weight", "LEAST(GREATEST(hole, 1), count)"),
    "text": ("name", "UPPER(hole || 'x')"),
    "date": ("seen", "hole + INTERVAL 1 DAY"),
    "bucket": ("weight", "WIDTH_BUCKET(hole, 0, 10, 5)"),
    "cast": ("name", "CAST(CAST(hole AS BIGINT) AS VARCHAR)"),
}


def nested(form: str, levels: int) -> Expression:
    """A form put into itself: built as a tree, since the parser's own depth is limited."""
    start, step = NESTED[form]
    node: exp.Expr = exp.column(start)
    for _ in range(levels):
        outer = sqlglot.parse_one(f"SELECT {step}", read="duckdb").expressions[0]
        (hole,) = (each for each in outer.find_all(exp.Column) if each.name == "hole")
        hole.replace(node)
        node = outer
    return lower_expression(node, resolve)
