"""Expressions and measures as text for explanations, receipts and column names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from sfumato.plan.aggregates.disjoint import DisjointMeasures, members_of
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    DistinctUnits,
    Mean,
    Measure,
    Sum,
    step_rounding_error,
    value_range,
)
from sfumato.plan.aggregates.spread import PairAggregate
from sfumato.plan.aggregates.unit_measures import (
    LagLead,
    RankingFunction,
    RunningAggregate,
    UnitDistinct,
    UnitFirst,
    UnitMeasure,
    UnitRowCount,
    WindowEndValue,
    WindowFunction,
)
from sfumato.plan.aggregates.value_measures import FrequentValue, Quantile
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import Query
from sfumato.plan.noisy_rows import Finish, Frame, NoisyAggregate, NoisyWindow
from sfumato.plan.values.expressions import (
    Call,
    Column,
    Expression,
    Field,
    GroupingFlag,
    Key,
    NoisyColumn,
    Order,
    Reference,
    Result,
    WindowResult,
)
from sfumato.policy import Type
from sfumato.privacy.numbers import format_exact, format_number


def expression_sql(expression: Expression, names: Mapping[Reference, str] | None = None) -> str:
    """Write an expression as SQL, with these names for columns that have one."""
    if isinstance(expression, Column):
        return (names or {}).get(expression.reference) or _column_name(expression.reference)
    if not isinstance(expression, Call):
        return literal_sql(expression.value, expression.domain.type)
    return _call_sql(expression.function, [expression_sql(argument, names) for argument in expression.arguments])


def typed_sql(expression: Expression) -> str:
    """Write an expression as people type it; ``expression_sql`` also names columns of plans, so its words are kept."""
    if not isinstance(expression, Call):
        return expression_sql(expression)
    function, arguments = expression.function, [typed_sql(argument) for argument in expression.arguments]
    operand = expression.arguments[0] if expression.arguments else None
    match function:
        case "IS NULL":
            return f"{arguments[0]} IS NULL"
        case "NOT" if isinstance(operand, Call) and operand.function == "IS NULL":
            return arguments[0].removesuffix("NULL") + "NOT NULL"
        case "NOT":
            return f"NOT {arguments[0]}"
        case "NEGATE":
            return f"-{arguments[0]}"
        case "EXTRACT":
            part = arguments[0].strip("'")
            return f"EXTRACT({part} FROM {arguments[1]})"
        case "BETWEEN":
            return f"({arguments[0]} BETWEEN {arguments[1]} AND {arguments[2]})"
    return _call_sql(function, arguments)


def _call_sql(function: str, arguments: Sequence[str]) -> str:
    if function == "CAST":
        return arguments[0]
    if function == "IN":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if not function[0].isalpha() or function in ("AND", "OR", "LIKE", "ILIKE"):
        return f"({f' {function} '.join(arguments)})"
    return f"{function}({', '.join(arguments)})"


def _column_name(reference: Reference) -> str:
    """Write a column's name, qualified by its table unless that is the first, and quoted where SQL needs it."""
    if not isinstance(reference, Field):
        return str(reference)
    if not reference.table:  # made in the question, and named by what it is
        return reference.name
    from sfumato.plan.quoting import quoted  # who only reads words back needs no parser

    return quoted(reference.name) if reference.source == 0 else f"{quoted(reference.table)}.{quoted(reference.name)}"


def column_names_by_level(query: Query) -> list[dict[Reference, str]]:
    """Name the columns of the finish of a query, and then those of each outer SELECT."""
    keys: dict[Reference, str] = {Key(index): expression_sql(key) for index, key in enumerate(query.plan.keys)}
    keys |= {GroupingFlag(index): f"GROUPING({expression_sql(key)})" for index, key in enumerate(query.plan.keys)}
    results: dict[Reference, str] = {
        Result(index): describe_measure(measure) for index, measure in enumerate(query.plan.measures)
    }
    names_by_level = [_with_window_names(keys | results, query.finish)]
    below = query.finish
    for outer in query.outer:
        column_names: dict[Reference, str] = {
            NoisyColumn(index): output.name for index, output in enumerate(below.outputs)
        }
        aggregate_names: dict[Reference, str] = {
            Key(index): expression_sql(key, column_names) for index, key in enumerate(outer.keys)
        }
        aggregate_names |= {
            Result(index): noisy_aggregate_sql(total, column_names) for index, total in enumerate(outer.totals)
        }
        names_by_level.append(_with_window_names(column_names | aggregate_names, outer.finish))
        below = outer.finish
    return names_by_level


def noisy_aggregate_sql(total: NoisyAggregate, names: Mapping[Reference, str]) -> str:
    operands = [expression_sql(operand, names) for operand in (total.argument, total.x) if operand is not None]
    return f"{total.function}({', '.join(operands) or '*'})" + (
        f" where {expression_sql(total.where, names)}" if total.where is not None else ""
    )


def _with_window_names(column_names: dict[Reference, str], finish: Finish) -> dict[Reference, str]:
    return column_names | {
        WindowResult(index): _noisy_window_sql(window, column_names) for index, window in enumerate(finish.windows)
    }


def _noisy_window_sql(window: NoisyWindow, names: Mapping[Reference, str]) -> str:
    operands = [expression_sql(window.argument, names)] if window.argument is not None else []
    operands += ["*"] if window.function == "COUNT" and not operands else []
    operands += [] if window.number is None else [str(window.number)]
    operands += [] if window.default is None else [expression_sql(window.default, names)]
    over_clauses = (
        [f"PARTITION BY {', '.join(expression_sql(expression, names) for expression in window.partition)}"]
        if window.partition
        else []
    )
    order_terms = [expression_sql(term.expression, names) + " DESC" * term.descending for term in window.order]
    over_clauses += [f"ORDER BY {', '.join(order_terms)}"] if order_terms else []
    over_clauses += [_frame_sql(window.frame)] if window.frame is not None else []
    return f"{window.function}({', '.join(operands)}) OVER ({' '.join(over_clauses)})"


def _frame_sql(frame: Frame) -> str:
    def end(offset: int | None, unbounded: str) -> str:
        if not offset:
            return "CURRENT ROW" if offset == 0 else f"UNBOUNDED {unbounded}"
        return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"

    return f"ROWS BETWEEN {end(frame.start, 'PRECEDING')} AND {end(frame.end, 'FOLLOWING')}"


def describe_measure(measure: AggregateRequest, write_sql: Callable[[Expression], str] = expression_sql) -> str:
    """Describe what a measure counts or adds up; ``write_sql`` writes its expressions."""
    if isinstance(measure, DisjointMeasures):
        return "; ".join(describe_measure(member, write_sql) for member in measure.members)
    operand = "" if measure.value is None else f" of {write_sql(measure.value)}"
    if isinstance(measure, Quantile):
        operand = f" of {write_sql(measure.ranked_expression)}"
    if isinstance(measure, PairAggregate):
        operand = f" of {write_sql(measure.y)} and {write_sql(measure.x)}"
    rank = f" number {measure.place + 1}" if isinstance(measure, FrequentValue) and measure.k > 1 else ""
    return measure.name + rank + operand + (f" where {write_sql(measure.where)}" if measure.where is not None else "")


def unit_measure_sql(measure: UnitMeasure) -> str:
    """Write an aggregate over the rows of one unit as SQL."""
    match measure:
        case UnitRowCount():
            aggregate = "COUNT(*)"
        case UnitDistinct(value):
            aggregate = f"COUNT(DISTINCT {expression_sql(value)})"
        case UnitFirst(value, order=order):
            aggregate = f"FIRST({expression_sql(value)} ORDER BY {', '.join(map(order_sql, order))})"
        case _:
            aggregate = f"{measure.name}({'' if measure.value is None else expression_sql(measure.value)})"
    return aggregate + ("" if measure.where is None else f" FILTER (WHERE {expression_sql(measure.where)})")


def window_sql(function: WindowFunction) -> str:
    """Write a window function over the rows of one unit as SQL."""
    match function:
        case RankingFunction(counting=counting):
            function_text = f"{counting.value}()"
        case LagLead(value=value, offset=offset):
            function_text = f"{'LAG' if offset <= 0 else 'LEAD'}({expression_sql(value)}, {abs(offset)})"
        case WindowEndValue(value=value, last=last):
            function_text = f"{'LAST' if last else 'FIRST'}_VALUE({expression_sql(value)})"
        case RunningAggregate(measure=measure):
            function_text = unit_measure_sql(measure)
        case _:
            function_text = "a window"
    partition_keys = "".join(f", {expression_sql(key)}" for key in function.keys)
    order = f" ORDER BY {', '.join(map(order_sql, function.order))}" if function.order else ""
    return f"{function_text} OVER (PARTITION BY unit{partition_keys}{order})"


def order_sql(order: Order) -> str:
    """Write an ORDER BY term."""
    nulls = " NULLS FIRST" if order.nulls_first else ""
    return f"{expression_sql(order.expression)}{' DESC' if order.descending else ''}{nulls}"


def literal_sql(value: object, sql_type: Type) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Fraction):
        decimal = format_exact(value)
        return repr(float(value)) if "/" in decimal else decimal  # more digits than are read
    return f"'{value}'" if sql_type.temporal else str(value)


def describe_limits(allowed: ContributionLimits) -> str:
    rows, groups = count_with_noun(allowed.rows, "row"), count_with_noun(allowed.groups, "group")
    return f"≤ {rows}, ≤ {groups}, ≤ {count_with_noun(allowed.rows_per_group, 'row')} in a group, of one unit"


def describe_enforced_limits(bounded_plan: BoundedPlan) -> str:
    """Describe the limits that a bounding enforces: reweighting limits the rows of a unit in all groups together."""
    if bounded_plan.strategy is Strategy.REWEIGHT:
        return f"≤ {count_with_noun(bounded_plan.limits.rows, 'row')} of one unit, in all groups together"
    if bounded_plan.strategy is Strategy.MATCH:
        return f"≤ {count_with_noun(bounded_plan.limits.rows, 'value')} of one unit, in all groups together"
    return describe_limits(bounded_plan.limits)


INTERVAL_COVERAGE = "± covers the noise, not rows beyond these limits"


def describe_dropped_rows(boundings: Iterable[BoundedPlan]) -> str:
    """Describe which rows of a unit count where the rest is dropped or weighted down; empty if all rows count.

    Whether any unit has more rows is private, so the words are the same for all data.
    """
    limit_texts = dict.fromkeys(
        describe_enforced_limits(bounded) for bounded in boundings if _can_bounding_drop_rows(bounded)
    )
    return f"{' and '.join(limit_texts)}; {INTERVAL_COVERAGE}" if limit_texts else ""


def _can_bounding_drop_rows(bounded_plan: BoundedPlan) -> bool:
    """Return whether a unit with many rows may count less than all of them; an ungrouped count of units has it once."""
    counts_units = not bounded_plan.plan.keys and all(
        isinstance(scaled.measure, DistinctUnits) for scaled in bounded_plan.measures
    )
    return bounded_plan.strategy is not Strategy.WHOLE and not counts_units


def describe_bounds(scaled: ScaledMeasure) -> str | None:
    """Describe the enforced range of a summed value, up to a step; None for a count."""
    value, step = scaled.measure.value, scaled.step
    if value is None:
        return None
    whole_steps = scaled.low * step, scaled.high * step
    low, high = _clamp_range(scaled.measure) if step_rounding_error(value, step) else whole_steps
    total = f", the total in steps of {format_number(float(scaled.unit_value))}" if scaled.bits < 0 else ""
    return (
        f"{expression_sql(value)} in [{format_exact(low)}, {format_exact(high)}] in steps of "
        f"{format_number(float(step))}{total}"
    )


def _clamp_range(measure: Measure) -> tuple[Fraction, Fraction]:
    summed = next(member for member in members_of(measure) if member.value is not None)
    if isinstance(summed, (Sum, Mean)):
        return summed.clamp_range
    assert summed.value is not None
    return value_range(summed.value)


def count_with_noun(count: int, noun: str) -> str:
    """Write a count with its noun: 1 row, 2 rows."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
