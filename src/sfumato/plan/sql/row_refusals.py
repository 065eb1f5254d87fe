"""Why aggregates and windows that show single rows are refused, and which statement answers the question instead.

What is proposed is a whole statement over the tables of the question, so that it works when it is typed; and where the
answer is a table that pandas can go on with, that is said, since whatever is computed from an answer is free.
"""

from __future__ import annotations

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.quoting import quoted
from sfumato.plan.sql.dialect import function_name
from sfumato.plan.sql.row_sources import RowSource
from sfumato.plan.sql.sql_expressions import cached_lowering
from sfumato.plan.sql.text_positions import full_sql_text, node_text, quantiles_instead_of_ranks_fix, refusal_at

AGGREGATE_FIX = "use COUNT, SUM, AVG, MEDIAN, VARIANCE, CORR or MODE, with FILTER (WHERE …)"
_COLLECTING = (exp.GroupConcat, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.ArrayConcatAgg)
_PICKING = (exp.First, exp.Last, exp.AnyValue, exp.FirstValue, exp.LastValue)
_SHARES = (exp.Ntile, exp.PercentRank, exp.CumeDist)
_IN_PANDAS = "in pandas, which costs no budget"


def unsupported_aggregate_refusal(node: exp.Expr, source: RowSource) -> Unsupported:
    """Return the refusal of an aggregate that is not supported over rows."""
    aggregate = node.this if isinstance(node, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)) else node
    aggregate = aggregate.this if isinstance(aggregate, exp.IgnoreNulls) else aggregate
    name, table = function_name(aggregate), quoted(source.table.name)
    if isinstance(aggregate, _COLLECTING) and not isinstance(_operand_without_modifiers(aggregate), exp.Star):
        value = full_sql_text(_operand_without_modifiers(aggregate))
        rule = f"{name} would reveal values of single rows, which is never allowed"
        counted = f"count the values: SELECT {value}, COUNT(*) FROM {table} GROUP BY {value}"
        return refusal_at(node, "aggregate", rule, f"{counted}; then join or list them {_IN_PANDAS}")
    if isinstance(aggregate, (exp.ArgMax, exp.ArgMin)) and source.table.id is not None:
        unit, extreme = quoted(source.table.id), "ARG_MAX" if isinstance(aggregate, exp.ArgMax) else "ARG_MIN"
        picked = f"{extreme}({full_sql_text(aggregate.this)}, {full_sql_text(aggregate.expression)})"
        inner = f"SELECT {unit}, {picked} AS v FROM {table} GROUP BY {unit}"
        rule = f"{name} would reveal the value of a single row, which is never allowed"
        return refusal_at(
            node, "aggregate", rule, f"pick one for each unit: SELECT v, COUNT(*) FROM ({inner}) GROUP BY v"
        )
    if isinstance(aggregate, _PICKING):
        rule = f"{name} would reveal the value of a single row, which is never allowed"
        return refusal_at(
            node,
            "aggregate",
            rule,
            f"write MODE for the most frequent value: MODE({node_text(_operand_without_modifiers(aggregate))})",
        )
    return refusal_at(node, "aggregate", f"{_typed_aggregate_text(aggregate)} is not supported", AGGREGATE_FIX)


def row_window_refusal(node: exp.Window, source: RowSource) -> Unsupported:
    """Return the refusal of a window over rows whose results would be shown."""
    name, function = function_name(node.this), node.this
    rule = f"{name}(…) OVER (…) would reveal single rows, which is never allowed"
    if isinstance(function, _SHARES):
        return refusal_at(node, "window", rule, quantiles_instead_of_ranks_fix(node))
    if source.table.id is None or function.find(exp.Distinct) is not None:
        return refusal_at(
            node, "window", rule, f"select counts or sums by group, and compute the window from the answer {_IN_PANDAS}"
        )
    within_unit = node.copy()
    if not any(map(source.is_unit_id, node.args.get("partition_by") or [])):
        unit = exp.column(exp.to_identifier(source.table.id, quoted=not source.table.id.isidentifier()))
        within_unit.set("partition_by", [unit, *(node.args.get("partition_by") or [])])
    total = "AVG" if _returns_numbers(function, source) else "COUNT"
    inner = f"SELECT {full_sql_text(within_unit)} AS x FROM {quoted(source.table.name)}"
    within_unit_fix = f"compute it within each unit: SELECT {total}(x) FROM ({inner})"
    in_pandas = f"select the counts or sums by group, and compute the window from the answer {_IN_PANDAS}"
    return refusal_at(node, "window", rule, f"{within_unit_fix}; or {in_pandas}")


def _operand_without_modifiers(node: exp.Expr) -> exp.Expr:
    """Return what an aggregate is over, without DISTINCT and ORDER BY."""
    operand = node.this
    while isinstance(operand, (exp.Order, exp.Distinct)):
        operand = operand.this if isinstance(operand, exp.Order) else operand.expressions[0]
    return operand if isinstance(operand, exp.Expr) else exp.Star()


def _typed_aggregate_text(node: exp.Expr) -> str:
    """Return an aggregate as it was typed, with the name that was typed."""
    text, name = node_text(node), function_name(node)
    return name + text[text.index("(") :] if "(" in text else text


def _returns_numbers(function: exp.Expr, source: RowSource) -> bool:
    """Return whether a window function returns numbers: a place, or a value of a numeric column."""
    argument = function.this
    lowered = cached_lowering(source.resolve)(argument) if isinstance(argument, exp.Expr) else None
    return lowered is None or lowered.domain.type.numeric or isinstance(function, exp.Count)
