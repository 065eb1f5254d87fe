"""A question spends the accounts of the periods that it can read, which follow from its text and the policy alone.

*Claim.* A unit whose account is not among ``spent`` changes nothing that a ``restricted`` plan reads. Every private
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
from sfumato.plan.nodes import Aggregate, Filter, PerUnit, Relation, Scan, SemiJoin, Union, UnitJoin, relations
from sfumato.plan.values import calendar
from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.narrowing import Limit, as_comparison, limits
from sfumato.policy import Policy, Type
from sfumato.policy.values import ACCOUNT_PERIODS

MOST_PERIODS = 2000
"""The most accounts that one question spends: each has a line in the ledger."""

Runs = tuple[tuple[int, int], ...]
"""Periods by their count (``calendar.count``): stretches from one to another, in order, apart from each other."""


def spent(aggregate: Aggregate, policy: Policy) -> Runs:
    """Find the periods that rows of a plan can lie in; too many, none, or no end of them is refused."""
    found = _lying(aggregate.source, policy)
    if not found:
        rule = f"the conditions leave no {policy.per}: no row can meet them"
        raise Unsupported("no-period", rule, fix="widen WHERE, or the bounds that the policy declares")
    count = sum(last - first + 1 for first, last in found)
    if count > MOST_PERIODS:
        columns = {policy.period_column(scan.table) for scan in _scans(aggregate.source)}
        named = " and ".join(sorted(each for each in columns if each is not None))
        raise Unsupported(
            "too-many-periods",
            f"a question spends the account of every {policy.per} that it may read, and of at most {MOST_PERIODS:,}",
            place=named,
            fix=f"add a condition such as WHERE {named} >= DATE '2024-01-01' AND {named} < DATE '2024-02-01', or "
            "declare its bounds in the policy",
        )
    return found


def restricted(aggregate: Aggregate, policy: Policy, periods: Runs) -> Aggregate:
    """Give the plan in which every private scan keeps the rows of these periods alone."""
    return replace(aggregate, source=_restricted(aggregate.source, policy, periods))


def keeps_to(relation: Relation, policy: Policy, periods: Runs) -> bool:
    """Tell whether every private scan of a plan keeps rows of these periods alone, by the condition right above it."""
    found = _either((_kept(relation, policy),))
    return _both(found, periods) == found


def names(periods: Runs, per: str) -> tuple[str, ...]:
    """Name each of the periods, as its account is named: 2024-03-05, 2024-W10, 2024-03, 2024-Q1, 2024."""
    every = (counted for first, last in periods for counted in range(first, last + 1))
    return tuple(_name(calendar.starting(per, counted), per) for counted in every)


def counted(name: str, per: str) -> int:
    """Find the count of a period by its name; any other text is refused."""
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
    if start is None or _name(start, per) != name:
        rule = f"a {per} as its account is named, such as {_name(dt.date(2024, 4, 1), per)}"
        raise InvalidParameter("period", name, rule)
    return calendar.count(per, start)


def runs(named: Iterable[str], per: str) -> Runs:
    """Find the periods that have these names."""
    return _either(((number, number),) for number in (counted(each, per) for each in named))


def words(named: tuple[str, ...], per: str) -> str:
    """Say which periods these are, in a few words."""
    if len(named) <= 3:
        return " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else named[0]
    return f"{len(named):,} {per}s from {named[0]} to {named[-1]}"


def _name(start: dt.date, per: str) -> str:
    year, week, _ = start.isocalendar()
    return {
        "day": start.isoformat(),
        "week": f"{year:04}-W{week:02}",
        "month": f"{start.year:04}-{start.month:02}",
        "quarter": f"{start.year:04}-Q{start.month // 3 + 1}",
        "year": f"{start.year:04}",
    }[per]


def _scans(relation: Relation) -> Iterator[Scan]:
    return (node for node in relations(relation) if isinstance(node, Scan))


# ── which periods rows can lie in ──────────────────────────────────────────────────────────────────


def _lying(relation: Relation, policy: Policy) -> Runs:
    """Find the periods of all units that a relation can have rows of."""
    match relation:
        case Scan():
            return _declared(relation, policy)
        case Filter(input, predicate):
            return _both(_lying(input, policy), _met(predicate, _telling(input, policy), policy))
        case UnitJoin(left, right, outer=outer):
            return _lying(left, policy) if outer else _both(_lying(left, policy), _lying(right, policy))
        case SemiJoin(input, other, anti=anti):
            return _lying(input, policy) if anti else _both(_lying(input, policy), _lying(other, policy))
        case Union():
            return _either(_lying(each, policy) for each in relation.inputs)
    return _lying(relation.inputs[0], policy)


def _kept(relation: Relation, policy: Policy) -> Runs:
    """Find the periods of all rows that the private scans of a plan keep."""
    match relation:
        case Filter(Scan() as scan, predicate):
            return _both(_declared(scan, policy), _met(predicate, frozenset((_column(scan, policy),)), policy))
        case Scan():
            return _declared(relation, policy)
    return _either(_kept(each, policy) for each in relation.inputs)


def _declared(scan: Scan, policy: Policy) -> Runs:
    bounds = policy.tables[scan.table].columns[_column(scan, policy).name].bounds or (None, None)
    return _run(Limit(*bounds), policy)


def _run(limit: Limit, policy: Policy) -> Runs:
    """Find the periods that values within a limit lie in."""
    low = calendar.count(policy.per, dt.date.min if limit.low is None else limit.low)
    high = calendar.count(policy.per, dt.date.max if limit.high is None else limit.high)
    return ((low, high),) if low <= high else ()


def _met(condition: Expression, telling: frozenset[Reference], policy: Policy) -> Runs:
    """Find the periods of the rows that meet a condition: all where it tells nothing of them."""
    if isinstance(condition, Call):
        if condition.function == "AND":
            found = _run(Limit(), policy)
            for each in condition.arguments:
                found = _both(found, _met(each, telling, policy))
            return found
        if condition.function == "OR":
            return _either(_met(each, telling, policy) for each in condition.arguments)
        comparison = as_comparison(condition)
        if comparison is not None and comparison.operator == "IN":
            operand = comparison.operand
            each_equal = (call("=", operand, literal(operand.domain.type, value)) for value in comparison.values)
            return _either(_limited(each, telling, policy) for each in each_equal)
    return _limited(condition, telling, policy)


def _limited(condition: Expression, telling: frozenset[Reference], policy: Policy) -> Runs:
    found = _run(Limit(), policy)
    for operand, limit in limits((condition,)).items():
        if isinstance(operand, Column) and operand.reference in telling:
            found = _both(found, _run(limit, policy))
    return found


def _telling(relation: Relation, policy: Policy) -> frozenset[Reference]:
    """List the columns of a relation that lie in the same account as the row that they are in, wherever they are
    there.
    """
    match relation:
        case Scan():
            return frozenset((_column(relation, policy),))
        case PerUnit():
            below = _telling(relation.input, policy)
            made = (name for name, key in relation.keys if _tells(key, below, policy))
            return frozenset(Field(relation.source, "", name) for name in made)
        case Union():
            below_each = [_telling(each, policy) for each in relation.inputs]
            lists = zip(*(made for _, made in relation.members), strict=True)
            told = [all(_tells(key, at, policy) for key, at in zip(each, below_each, strict=True)) for each in lists]
            return frozenset(each for each, tells in zip(relation.columns, told, strict=True) if tells)
        case UnitJoin(left, right, outer=False):
            return _telling(left, policy) | _telling(right, policy)
    return _telling(relation.inputs[0], policy)


def _tells(key: Expression, below: frozenset[Reference], policy: Policy) -> bool:
    """Tell whether a key stays in the account of the column it is made from: the column, or the start of a part of such
    a period.
    """
    if isinstance(key, Call) and key.function == "DATE_TRUNC":
        unit, inner = key.arguments
        nested = isinstance(unit, Literal) and policy.per in ACCOUNT_PERIODS.get(str(unit.value), ())
        return nested and _tells(inner, below, policy)
    if isinstance(key, Call) and key.function == "CAST":
        kinds = {key.domain.type, key.arguments[0].domain.type}
        return kinds <= {Type.DATE, Type.TIMESTAMP} and _tells(key.arguments[0], below, policy)
    return isinstance(key, Column) and key.reference in below


def _both(first: Runs, second: Runs) -> Runs:
    pairs = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return tuple(sorted((low, high) for low, high in pairs if low <= high))


def _either(found: Iterable[Runs]) -> Runs:
    together: list[tuple[int, int]] = []
    for first, last in sorted(run for each in found for run in each):
        if together and first <= together[-1][1] + 1:
            together[-1] = (together[-1][0], max(last, together[-1][1]))
        else:
            together.append((first, last))
    return tuple(together)


# ── keeping to them ────────────────────────────────────────────────────────────────────────────────


def _restricted(relation: Relation, policy: Policy, periods: Runs) -> Relation:
    def again(each: Relation) -> Relation:
        return _restricted(each, policy, periods)

    match relation:
        case Filter(Scan() as scan, predicate) if predicate == _within(scan, policy, periods):
            return relation
        case Scan():
            column = _column(relation, policy)
            domain = policy.tables[relation.table].columns[column.name]
            scan = replace(relation, columns={**relation.columns, column: relation.columns.get(column, domain)})
            within = _within(scan, policy, periods)
            return relation if within is None else Filter(scan, within)
        case UnitJoin(left, right):
            return replace(relation, left=again(left), right=again(right))
        case SemiJoin(input, other):
            return replace(relation, input=again(input), other=again(other))
        case Union(members):
            return replace(relation, members=tuple((again(member), made) for member, made in members))
    return replace(relation, input=again(relation.inputs[0]))


def _within(scan: Scan, policy: Policy, periods: Runs) -> Expression | None:
    """Write the condition that a row of a scan lies in one of the periods; None where every row of it does."""
    column, ((low, high),) = _column(scan, policy), _declared(scan, policy)
    known = Column(column, policy.tables[scan.table].columns[column.name])
    inside = [(first, last) for first, last in periods if first <= high and last >= low] or list(periods)
    parts = [_stretch(known, first, last, (low, high), policy.per) for first, last in inside]
    if [] in parts:
        return None
    joined = [part[0] if len(part) == 1 else call("AND", *part) for part in parts]
    return joined[0] if len(joined) == 1 else call("OR", *joined)


def _stretch(column: Column, first: int, last: int, declared: tuple[int, int], per: str) -> list[Expression]:
    """Write that a row lies in a stretch of periods, as far as the declared bounds leave that open."""
    kind, (low, high) = column.domain.type, declared
    start = calendar.starting(per, first)
    above = [call(">=", column, literal(kind, _moment(start, kind)))] if first > low else []
    end = calendar.shifted(calendar.starting(per, last), 1, per) if last < high else None
    return above if end is None else [*above, call("<", column, literal(kind, _moment(end, kind)))]


def _moment(day: dt.date, kind: Type) -> dt.date:
    return day if kind is Type.DATE else dt.datetime(day.year, day.month, day.day)


def _column(scan: Scan, policy: Policy) -> Field:
    """Find the column that says when a row of a scan was."""
    name = policy.period_column(scan.table)
    assert name is not None
    return Field(scan.source, scan.table, name)
