"""The accounting periods that a query can read, and so is charged to: they follow from its text and the policy alone.

*Claim.* A unit whose account is not among the charged ones changes nothing that a restricted plan reads. Every private
scan in it keeps the rows of these periods alone, by a condition of the plan itself. The account of a row follows from
its column as it is after the scan: a period is read before clamping, rows of accounts outside the declared bounds are
dropped by the scan, and what is left is clamped within its own account, since days that are clamped lie beyond the day
of the bound and no later than the account that holds it. So a unit of another account has no row in any scan. ∎

The claim does not depend on how the periods were found. They are found so that nothing is lost: by unit-wiseness
(``nodes``) what a plan holds of a unit is made from that unit's rows, so a condition on one side of a join, or outside
of a subquery, tells in which periods all the rows that it is made from lie.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.nodes import (
    Aggregate,
    AnySemiJoin,
    Filter,
    PerUnit,
    Relation,
    Scan,
    SemiJoin,
    Union,
    UnitJoin,
    relations,
)
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.narrowing import Limit, as_comparison, limits_by_expression
from sfumato.policy import Policy, Type
from sfumato.policy.policies import ACCOUNT_PERIODS

MAX_PERIODS = 2000
"""The most accounts that one query is charged to: each has a line in the ledger."""

PeriodIntervals = tuple[tuple[int, int], ...]
"""Inclusive intervals of period numbers (``calendar.count``), sorted and disjoint."""


def charged_periods(aggregate: Aggregate, policy: Policy) -> PeriodIntervals:
    """Return the periods that rows of a plan can lie in; refuse a plan with none, or with too many."""
    periods = _readable_periods(aggregate.source, policy)
    if not periods:
        rule = f"the conditions exclude every {policy.per}, so no row can meet them"
        raise Unsupported(
            "no-period", rule, fix="use a wider range of dates in WHERE, or declare wider bounds in the policy"
        )
    count = sum(last - first + 1 for first, last in periods)
    if count > MAX_PERIODS:
        period_columns = {policy.period_column(scan.table) for scan in _scan_nodes(aggregate.source)}
        columns = " and ".join(sorted(column for column in period_columns if column is not None))
        raise Unsupported(
            "too-many-periods",
            f"a question can read at most {MAX_PERIODS:,} {policy.per}s, since it is charged to each of them",
            place=columns,
            fix=f"add a condition such as WHERE {columns} >= DATE '2024-01-01' AND {columns} < DATE '2024-02-01', or "
            f"declare bounds for {columns} in the policy",
        )
    return periods


def restrict_to_periods(aggregate: Aggregate, policy: Policy, periods: PeriodIntervals) -> Aggregate:
    """Return the plan in which every private scan keeps only the rows of these periods."""
    return replace(aggregate, source=_restrict_scans(aggregate.source, policy, periods))


def reads_only_periods(relation: Relation, policy: Policy, periods: PeriodIntervals) -> bool:
    """Return whether every private scan of a plan keeps only rows of these periods, by the filter directly above it."""
    scanned = _union_of_intervals((_scanned_periods(relation, policy),))
    return _intersect_intervals(scanned, periods) == scanned


def period_names(periods: PeriodIntervals, per: str) -> tuple[str, ...]:
    """Return the account name of each period: 2024-03-05, 2024-W10, 2024-03, 2024-Q1, 2024."""
    numbers = (number for first, last in periods for number in range(first, last + 1))
    return tuple(_period_name(calendar.period_start(per, number), per) for number in numbers)


def parse_period(name: str, per: str) -> int:
    """Parse the account name of a period into its number; refuse any other text."""
    year, _, rest = name.partition("-") if isinstance(name, str) else ("", "", "")
    try:
        if per == "week":
            start = dt.date.fromisocalendar(int(year), int(rest.removeprefix("W")), 1)
        elif per == "quarter":
            start = dt.date(int(year), 3 * int(rest.removeprefix("Q")) - 2, 1)
        else:
            start = dt.date.fromisoformat(name + {"day": "", "month": "-01", "year": "-01-01"}[per])
    except (ValueError, TypeError):
        start = None
    if start is None or _period_name(start, per) != name:
        rule = f"a {'date' if per == 'day' else per} such as {_period_name(dt.date(2024, 4, 1), per)}"
        raise InvalidParameter("period", name, rule)
    return calendar.period_number(per, start)


def parse_periods(period_names: Iterable[str], per: str) -> PeriodIntervals:
    """Return the periods that have these names."""
    return _union_of_intervals(((number, number),) for number in (parse_period(name, per) for name in period_names))


def describe_periods(period_names: tuple[str, ...], per: str) -> str:
    """Describe periods in a few words."""
    if len(period_names) <= 3:
        return (
            " and ".join([", ".join(period_names[:-1]), period_names[-1]]) if len(period_names) > 1 else period_names[0]
        )
    return f"{len(period_names):,} {per}s from {period_names[0]} to {period_names[-1]}"


def _period_name(start: dt.date, per: str) -> str:
    year, week, _ = start.isocalendar()
    return {
        "day": start.isoformat(),
        "week": f"{year:04}-W{week:02}",
        "month": f"{start.year:04}-{start.month:02}",
        "quarter": f"{start.year:04}-Q{start.month // 3 + 1}",
        "year": f"{start.year:04}",
    }[per]


def _scan_nodes(relation: Relation) -> Iterator[Scan]:
    return (node for node in relations(relation) if isinstance(node, Scan))


# ── which periods rows can lie in ──────────────────────────────────────────────────────────────────


def _readable_periods(relation: Relation, policy: Policy) -> PeriodIntervals:
    """Return the periods of all units that a relation can have rows of."""
    match relation:
        case Scan():
            return _declared_periods(relation, policy)
        case Filter(input, predicate):
            return _intersect_intervals(
                _readable_periods(input, policy),
                _periods_satisfying(predicate, _columns_within_row_period(input, policy), policy),
            )
        case UnitJoin(left, right, outer=outer):
            return (
                _readable_periods(left, policy)
                if outer
                else _intersect_intervals(_readable_periods(left, policy), _readable_periods(right, policy))
            )
        case SemiJoin(input, other, anti=anti):
            return (
                _readable_periods(input, policy)
                if anti
                else _intersect_intervals(_readable_periods(input, policy), _readable_periods(other, policy))
            )
        case Union():
            return _union_of_intervals(_readable_periods(member, policy) for member in relation.inputs)
    return _readable_periods(relation.inputs[0], policy)


def _scanned_periods(relation: Relation, policy: Policy) -> PeriodIntervals:
    """Return the periods of all rows that the private scans of a plan keep."""
    match relation:
        case Filter(Scan() as scan, predicate):
            return _intersect_intervals(
                _declared_periods(scan, policy),
                _periods_satisfying(predicate, frozenset((_period_field(scan, policy),)), policy),
            )
        case Scan():
            return _declared_periods(relation, policy)
    return _union_of_intervals(_scanned_periods(member, policy) for member in relation.inputs)


def _declared_periods(scan: Scan, policy: Policy) -> PeriodIntervals:
    bounds = policy.tables[scan.table].columns[_period_field(scan, policy).name].bounds or (None, None)
    return _periods_within(Limit(*bounds), policy)


def _periods_within(limit: Limit, policy: Policy) -> PeriodIntervals:
    """Return the periods that values within a limit lie in."""
    low = calendar.period_number(policy.per, dt.date.min if limit.low is None else limit.low)
    high = calendar.period_number(policy.per, dt.date.max if limit.high is None else limit.high)
    return ((low, high),) if low <= high else ()


def _periods_satisfying(condition: Expression, period_columns: frozenset[Reference], policy: Policy) -> PeriodIntervals:
    """Return the periods of the rows that meet a condition: all where it does not limit them."""
    if isinstance(condition, Call):
        if condition.function == "AND":
            periods = _periods_within(Limit(), policy)
            for conjunct in condition.arguments:
                periods = _intersect_intervals(periods, _periods_satisfying(conjunct, period_columns, policy))
            return periods
        if condition.function == "OR":
            return _union_of_intervals(
                _periods_satisfying(disjunct, period_columns, policy) for disjunct in condition.arguments
            )
        comparison = as_comparison(condition)
        if comparison is not None and comparison.operator == "IN":
            operand = comparison.operand
            equalities = (call("=", operand, literal(operand.domain.type, value)) for value in comparison.values)
            return _union_of_intervals(
                _periods_within_limits(equality, period_columns, policy) for equality in equalities
            )
    return _periods_within_limits(condition, period_columns, policy)


def _periods_within_limits(
    condition: Expression, period_columns: frozenset[Reference], policy: Policy
) -> PeriodIntervals:
    periods = _periods_within(Limit(), policy)
    for operand, limit in limits_by_expression((condition,)).items():
        if isinstance(operand, Column) and operand.reference in period_columns:
            periods = _intersect_intervals(periods, _periods_within(limit, policy))
    return periods


def _columns_within_row_period(relation: Relation, policy: Policy) -> frozenset[Reference]:
    """Return the columns of a relation that, wherever they are not NULL, lie in the same account as their row."""
    match relation:
        case Scan():
            return frozenset((_period_field(relation, policy),))
        case PerUnit():
            input_columns = _columns_within_row_period(relation.input, policy)
            key_names = (name for name, key in relation.keys if _stays_in_period(key, input_columns, policy))
            return frozenset(Field(relation.source, "", name) for name in key_names)
        case Union():
            member_columns = [_columns_within_row_period(member, policy) for member in relation.inputs]
            keys_by_column = zip(*(expressions for _, expressions in relation.members), strict=True)
            stays = [
                all(
                    _stays_in_period(key, input_columns, policy)
                    for key, input_columns in zip(keys, member_columns, strict=True)
                )
                for keys in keys_by_column
            ]
            return frozenset(column for column, is_period in zip(relation.columns, stays, strict=True) if is_period)
        case UnitJoin(left, right, outer=False):
            return _columns_within_row_period(left, policy) | _columns_within_row_period(right, policy)
    return _columns_within_row_period(relation.inputs[0], policy)


def _stays_in_period(key: Expression, input_columns: frozenset[Reference], policy: Policy) -> bool:
    """Return whether a key stays in the account of the column it is computed from: the column itself, or its truncation
    to a part of the period.
    """
    if isinstance(key, Call) and key.function == "DATE_TRUNC":
        unit, inner = key.arguments
        nested = isinstance(unit, Literal) and policy.per in ACCOUNT_PERIODS.get(str(unit.value), ())
        return nested and _stays_in_period(inner, input_columns, policy)
    if isinstance(key, Call) and key.function == "CAST":
        kinds = {key.domain.type, key.arguments[0].domain.type}
        return kinds <= {Type.DATE, Type.TIMESTAMP} and _stays_in_period(key.arguments[0], input_columns, policy)
    return isinstance(key, Column) and key.reference in input_columns


def _intersect_intervals(first: PeriodIntervals, second: PeriodIntervals) -> PeriodIntervals:
    pairs = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return tuple(sorted((low, high) for low, high in pairs if low <= high))


def _union_of_intervals(interval_sets: Iterable[PeriodIntervals]) -> PeriodIntervals:
    united: list[tuple[int, int]] = []
    for first, last in sorted(run for intervals in interval_sets for run in intervals):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(last, united[-1][1]))
        else:
            united.append((first, last))
    return tuple(united)


# ── keeping to them ────────────────────────────────────────────────────────────────────────────────


def _restrict_scans(relation: Relation, policy: Policy, periods: PeriodIntervals) -> Relation:
    def restrict(input_relation: Relation) -> Relation:
        return _restrict_scans(input_relation, policy, periods)

    match relation:
        case Filter(Scan() as scan, predicate) if predicate == _period_condition(scan, policy, periods):
            return relation
        case Scan():
            column = _period_field(relation, policy)
            domain = policy.tables[relation.table].columns[column.name]
            scan = replace(relation, columns={**relation.columns, column: relation.columns.get(column, domain)})
            within = _period_condition(scan, policy, periods)
            return relation if within is None else Filter(scan, within)
        case UnitJoin(left, right):
            return replace(relation, left=restrict(left), right=restrict(right))
        case SemiJoin(input, other):
            return replace(relation, input=restrict(input), other=restrict(other))
        case AnySemiJoin(input, _, tests):
            restricted = tuple(replace(test, other=restrict(test.other)) for test in tests)
            return replace(relation, input=restrict(input), tests=restricted)
        case Union(members):
            return replace(relation, members=tuple((restrict(member), expressions) for member, expressions in members))
    return replace(relation, input=restrict(relation.inputs[0]))


def _period_condition(scan: Scan, policy: Policy, periods: PeriodIntervals) -> Expression | None:
    """Return the condition that a row of a scan lies in one of the periods; None where every row does."""
    column, ((low, high),) = _period_field(scan, policy), _declared_periods(scan, policy)
    period_column = Column(column, policy.tables[scan.table].columns[column.name])
    relevant_periods = [(first, last) for first, last in periods if first <= high and last >= low] or list(periods)
    interval_conditions = [
        _interval_conditions(period_column, first, last, (low, high), policy.per) for first, last in relevant_periods
    ]
    if [] in interval_conditions:
        return None
    alternatives = [
        conditions[0] if len(conditions) == 1 else call("AND", *conditions) for conditions in interval_conditions
    ]
    return alternatives[0] if len(alternatives) == 1 else call("OR", *alternatives)


def _interval_conditions(
    column: Column, first: int, last: int, declared_periods: tuple[int, int], per: str
) -> list[Expression]:
    """Return the comparisons that a row lies in an interval of periods, without those that the declared bounds
    imply.
    """
    kind, (low, high) = column.domain.type, declared_periods
    start = calendar.period_start(per, first)
    lower_bound = [call(">=", column, literal(kind, _date_as_type(start, kind)))] if first > low else []
    end = calendar.shift(calendar.period_start(per, last), 1, per) if last < high else None
    return lower_bound if end is None else [*lower_bound, call("<", column, literal(kind, _date_as_type(end, kind)))]


def _date_as_type(day: dt.date, sql_type: Type) -> dt.date:
    return day if sql_type is Type.DATE else dt.datetime(day.year, day.month, day.day)


def _period_field(scan: Scan, policy: Policy) -> Field:
    """Return the column that dates the rows of a scan."""
    name = policy.period_column(scan.table)
    assert name is not None
    return Field(scan.source, scan.table, name)
