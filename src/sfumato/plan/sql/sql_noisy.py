"""Expressions over noisy rows are read from SQL: which functions may be applied to them, aggregates of them and
windows.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sfumato.plan.noisy_rows import FINISHING, Over, RowTotal
from sfumato.plan.sql.text_positions import refuse, shown
from sfumato.plan.values.expressions import Call, Expression, Order, noises, of_keys
from sfumato.policy import Domain, Type

Read = Callable[[exp.Expr], Expression]

ROW_TOTALS: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
}
_RANKS: dict[type[exp.Expr], str] = {exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK", exp.RowNumber: "ROW_NUMBER"}


def check_finishing(made: Expression, node: exp.Expr) -> None:
    """Refuse what is not computed on noisy rows. What reads keys alone is public: any function may be applied to it."""
    if not isinstance(made, Call) or of_keys(made):
        return
    if made.function == "CAST" and not made.domain.type.numeric:
        raise refuse(
            node, "finish-cast", "a noisy number stays a number", "cast it to INTEGER or DOUBLE, or not at all"
        )
    if made.function not in FINISHING:
        raise refuse(
            node,
            "finish-function",
            f"{made.function.upper()} is not applied to noisy numbers",
            "use arithmetic, comparisons, CASE, COALESCE, ROUND, ABS, LEAST, GREATEST",
        )
    for each in made.arguments:
        check_finishing(each, node)


def row_total(node: exp.Expr, read: Read) -> tuple[RowTotal, Domain]:
    """Read an aggregate over noisy rows, and what is known of it."""
    where, inner = None, node
    if isinstance(node, exp.Filter):
        where, inner = read(node.expression.this), node.this
    function, argument = _aggregate(inner, read)
    return RowTotal(function, argument, where), _result(function, argument)


def over(node: exp.Window, read: Read) -> tuple[Over, Domain]:
    """Read a window over noisy rows, and what is known of it."""
    for part, value in node.args.items():
        if value and part not in ("this", "partition_by", "order", "over"):
            rule = "a window over noisy rows is OVER ([PARTITION BY …] [ORDER BY …])"
            raise refuse(node, "window", rule, "leave out frames and window names")
    partition = tuple(read(each) for each in node.args.get("partition_by") or ())
    for each, made in zip(node.args.get("partition_by") or (), partition, strict=True):
        check_key(made, each, "PARTITION BY")
    ordered = node.args["order"].expressions if node.args.get("order") else ()
    if type(node.this) in _RANKS:
        if not ordered:
            rule = f"{_RANKS[type(node.this)]} needs an order"
            raise refuse(node, "window", rule, f"write {_RANKS[type(node.this)]}() OVER (ORDER BY n DESC)")
        return Over(_RANKS[type(node.this)], None, partition, orders(ordered, read)), Domain(Type.INTEGER)
    if ordered:
        rule = "running totals of noisy rows are not answered"
        raise refuse(node, "window", rule, "leave out ORDER BY: SUM(n) OVER (PARTITION BY …)")
    function, argument = _aggregate(node.this, read)
    return Over(function, argument, partition), _result(function, argument)


def orders(ordered: list[exp.Expr], read: Read) -> tuple[Order, ...]:
    """ORDER BY inside a window."""
    for each in ordered:
        if not isinstance(each, exp.Ordered) or each.args.get("with_fill"):
            raise refuse(each, "order", "ORDER BY takes columns with ASC or DESC", "name a column of the answer")
    return tuple(
        Order(read(each.this), bool(each.args.get("desc")), bool(each.args.get("nulls_first"))) for each in ordered
    )


def check_key(made: Expression, node: exp.Expr, clause: str) -> None:
    """Noisy rows are put together by keys alone: which rows belong together is then certain."""
    if noises(made):
        noisy = "a noisy number" if made.domain.type.numeric else "decided by noise"
        rule = f"{clause} over noisy rows takes keys; {shown(node)} is {noisy}"
        raise refuse(
            node, "noisy-key", rule, "group by a key of the inner SELECT, or ask with WHERE for one case at a time"
        )


def _aggregate(node: exp.Expr, read: Read) -> tuple[str, Expression | None]:
    if type(node) not in ROW_TOTALS or node.args.get("expressions") or isinstance(node.this, exp.Distinct):
        fix = "use COUNT, SUM, AVG, MIN, MAX, or RANK() OVER (ORDER BY …)"
        raise refuse(node, "row-aggregate", f"{shown(node)} of noisy rows is not answered", fix)
    function, inner = ROW_TOTALS[type(node)], node.this
    if function == "COUNT" and (inner is None or isinstance(inner, (exp.Star, exp.Literal))):
        return function, None
    argument = read(inner)
    if not argument.domain.type.numeric and function != "COUNT":
        rule = f"only numbers are added up or compared; {shown(inner)} is {argument.domain.type.value}"
        raise refuse(node, "type-mismatch", rule, "count it, or turn it into a number with CASE")
    return function, argument


def _result(function: str, argument: Expression | None) -> Domain:
    """Noise knows no bounds; of no rows there is no sum."""
    if function == "COUNT":
        return Domain(Type.INTEGER)
    whole = argument is not None and argument.domain.type is Type.INTEGER and function != "AVG"
    return Domain(Type.INTEGER if whole else Type.REAL, nullable=True)
