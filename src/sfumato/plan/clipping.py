"""Count what limits and bounds cut from an answer: units beyond a limit, and clamped cells among the rows that count.

Theorem (units). A unit is beyond a limit or not: that is a function of its own rows (unit-wiseness, ``nodes``), and one
row of 0 or 1 stands for the unit (``PerUnit``). Added or removed, a unit changes one of the two sums (units beyond,
units within) by 1, whatever rows it has; replaced, it changes each of them by at most 1. The *rows* beyond a limit have
no such bound: one unit can have any number of them, so they are never counted. ∎

Theorem (cells). Of each unit at most T rows are kept (``bounding``, sample), and every row has one cell of a column. So
a unit changes the numbers of clamped and of other cells by at most T together, and replaced by at most T each. ∎

Both sums are the coordinates of one mean (``measures.Mean``), so that the share, the number and the total are computed
from two noisy sums and one price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from sfumato.plan.aggregates.measures import Mean, Measure, Sum, not_null_predicate
from sfumato.plan.aggregates.unit_measures import UnitDistinct, UnitGreatest, UnitMeasure, UnitRowCount, UnitSum
from sfumato.plan.bounding import proven_rows_per_unit
from sfumato.plan.caveats import ClampedEnds, beyond_bound_phrase, can_limits_drop_rows, clipping_columns
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import (
    Aggregate,
    Filter,
    LimitRowsPerUnit,
    PerUnit,
    Query,
    Relation,
    Scan,
    Union,
    relations,
    unused_source_number,
)
from sfumato.plan.noisy_rows import Finish, Output
from sfumato.plan.values.expressions import Column, Expression, Field, Result
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type
from sfumato.policy.domains import WIDE_PREFIX, widen_bounds
from sfumato.quick_dataclass import dataclass


@dataclass(frozen=True)
class ClippingQuestion:
    """A question about one limit or bound: the share, and the number, of units or cells beyond it."""

    name: str
    """The limit in words, such as "more than 10 rows"."""
    query: Query
    limits: ContributionLimits
    strategy: Strategy | None = None
    """The bounding of kept rows; None where the plan proves what a unit contributes."""
    column: Field | None = None
    """The column whose cells are counted; None where units are."""


def clipping_questions(
    query: Query, limits: ContributionLimits, max_groups: int | None
) -> tuple[ClippingQuestion, ...]:
    """List what can be counted about the limits and bounds that move a question; empty where nothing can.

    ``max_groups`` is the most groups of one unit that count; None where no answer has more.
    """
    plan = query.plan
    by_name: dict[str, ClippingQuestion] = {}
    for count in (
        *_row_limit_questions(plan, limits, max_groups),
        *_join_limit_questions(plan),
        *_bound_questions(plan, limits),
    ):
        name, number = count.name, 1
        while name in by_name and by_name[name].query != count.query:  # both sides of a join have a limit
            number += 1
            name = f"{count.name} ({number})"
        by_name[name] = replace(count, name=name)
    return tuple(by_name.values())


# Units beyond a limit


def _row_limit_questions(
    plan: Aggregate, limits: ContributionLimits, max_groups: int | None
) -> Iterator[ClippingQuestion]:
    """Count the units with more rows or groups than count in the question."""
    if not can_limits_drop_rows(plan, limits) or all(measure.once_per_unit for measure in plan.measures):
        return
    if not plan.keys:
        yield _units_over_row_limit_question(plan.source, min(limits.rows, limits.rows_per_group))
        return
    by_group = _row_counts_per_unit_and_group(_rows_in_groups(plan), plan.keys, limits.rows + 1)
    rows_in_group = _column_of_per_unit(by_group, "rows")
    source = unused_source_number(by_group)
    results: list[tuple[str, UnitMeasure]] = [("rows", UnitSum(rows_in_group)), ("most", UnitGreatest(rows_in_group))]
    results.append(("groups", UnitRowCount(None, limits.groups + 1)))
    unit = PerUnit(by_group, source, (), tuple(results))
    exceeded = [(_column_of_per_unit(unit, "rows"), limits.rows, count_with_noun(limits.rows, "row"))]
    if max_groups is not None and max_groups < limits.rows:
        exceeded.append((_column_of_per_unit(unit, "groups"), max_groups, count_with_noun(max_groups, "group")))
    if limits.rows_per_group < limits.rows:
        exceeded.append(
            (
                _column_of_per_unit(unit, "most"),
                limits.rows_per_group,
                f"{count_with_noun(limits.rows_per_group, 'row')} in one group",
            )
        )
    *others, last = (text for _, _, text in exceeded)
    name = f"more than {', '.join(others)} or {last}" if others else f"more than {last}"
    yield _units_beyond_question(unit, _any_exceeds([(column, limit) for column, limit, _ in exceeded]), name)


def _rows_in_groups(plan: Aggregate) -> Relation:
    """Return the rows that are in some group: the others are dropped before rows are limited."""
    relation: Relation = plan.source
    for key in (key for key in plan.keys if not key.domain.nullable):
        relation = Filter(relation, not_null_predicate(key))
    return relation


def _join_limit_questions(plan: Aggregate) -> Iterator[ClippingQuestion]:
    """Count the units with more rows than are joined, or than the results over their rows count."""
    for node in relations(plan.source):
        if isinstance(node, LimitRowsPerUnit):
            yield _units_over_row_limit_question(node.input, node.rows, " before a join")
        elif isinstance(node, PerUnit):
            for cap in sorted({cap for _, result in node.results if (cap := _row_cap(result)) is not None}):
                if not node.keys or node.single:
                    yield _units_over_row_limit_question(node.input, cap, " for a result over them")
                else:
                    by_group = _row_counts_per_unit_and_group(node.input, [key for _, key in node.keys], cap + 1)
                    most = UnitGreatest(_column_of_per_unit(by_group, "rows"))
                    unit = PerUnit(by_group, unused_source_number(by_group), (), (("most", most),))
                    name = f"more than {count_with_noun(cap, 'row')} in one group, for a result over them"
                    yield _units_beyond_question(unit, _any_exceeds([(_column_of_per_unit(unit, "most"), cap)]), name)


def _row_cap(result: UnitMeasure) -> int | None:
    """Return the most rows that a result over a unit's rows takes into account; None where it takes all."""
    return result.cap if isinstance(result, (UnitRowCount, UnitSum, UnitDistinct)) else None


def _units_over_row_limit_question(relation: Relation, limit: int, where: str = "") -> ClippingQuestion:
    unit = PerUnit(relation, unused_source_number(relation), (), (("rows", UnitRowCount(None, limit + 1)),))
    name = f"more than {count_with_noun(limit, 'row')}{where}"
    return _units_beyond_question(unit, _any_exceeds([(_column_of_per_unit(unit, "rows"), limit)]), name)


def _row_counts_per_unit_and_group(relation: Relation, keys: Sequence[Expression], cap: int) -> PerUnit:
    named_keys = tuple((f"key {index}", key) for index, key in enumerate(keys))
    return PerUnit(relation, unused_source_number(relation), named_keys, (("rows", UnitRowCount(None, cap)),))


def _column_of_per_unit(node: PerUnit, name: str) -> Column:
    field = Field(node.source, "", name)
    return Column(field, node.columns[field])


def _any_exceeds(columns_and_limits: Sequence[tuple[Column, int]]) -> Expression:
    tests = [call(">", column, literal(Type.INTEGER, limit)) for column, limit in columns_and_limits]
    return tests[0] if len(tests) == 1 else call("OR", *tests)


def _units_beyond_question(unit: PerUnit, is_beyond: Expression, name: str) -> ClippingQuestion:
    value = call("CASE", is_beyond, literal(Type.INTEGER, 1), literal(Type.INTEGER, 0))
    query = _share_query(unit, value, ("share", "units beyond", "units"))
    return ClippingQuestion(name, query, query.plan.limits)


# Cells beyond a bound


def _bound_questions(plan: Aggregate, limits: ContributionLimits) -> Iterator[ClippingQuestion]:
    """Count the cells that a bound moves, of each column whose bounds can move the question."""
    scans = {field: scan for scan in relations(plan.source) if isinstance(scan, Scan) for field in scan.columns}
    for field, (domain, ends) in clipping_columns(plan).items():
        if field in scans:
            relation = next(node for node in relations(plan.source) if field in node.columns)
            kept_rows = limits.total if plan.keys else min(limits.rows, limits.rows_per_group)
            row_limit = kept_rows if relation is plan.source else relation.limits.rows
            relation = _rows_in_groups(plan) if relation is plan.source else relation
            yield _cells_beyond_question(relation, field, domain, ends, row_limit)


def _cells_beyond_question(
    relation: Relation, field: Field, domain: Domain, ends: ClampedEnds, row_limit: int
) -> ClippingQuestion:
    wide = Column(replace(field, name=WIDE_PREFIX + field.name), widen_bounds(domain))
    assert domain.bounds is not None
    (low, high), kind = domain.bounds, domain.type
    tests = [call("<", wide, literal(kind, low))] if ends & ClampedEnds.LOW else []
    tests += [call(">", wide, literal(kind, high))] if ends & ClampedEnds.HIGH else []
    is_beyond = tests[0] if len(tests) == 1 else call("OR", *tests)
    one, zero = literal(Type.INTEGER, 1), literal(Type.INTEGER, 0)
    value = call("CASE", is_beyond, one, call("NOT", is_beyond), zero)  # a missing cell is neither
    query = _share_query(_with_scan_column(relation, wide), value, ("share", "clamped cells", "cells"))
    strategy = None if proven_rows_per_unit(relation) is not None else Strategy.SAMPLE
    name = beyond_bound_phrase(str(field), domain, ends)
    return ClippingQuestion(name, query, ContributionLimits(row_limit, 1, row_limit), strategy, field)


def _share_query(relation: Relation, value: Expression, names: tuple[str, str, str]) -> Query:
    """Ask for the mean of a value of 0 or 1, its sum, and its number: two sums of one measure."""
    measures: tuple[Measure, ...] = (mean := Mean(value), Sum(value), mean.rows)
    outputs = tuple(
        Output(name, Column(Result(index, measure.noise_count), measure.result))
        for index, (name, measure) in enumerate(zip(names, measures, strict=True))
    )
    return Query(Aggregate(relation, (), measures), Finish(outputs))


def _with_scan_column(relation: Any, column: Column) -> Any:
    """Return the relation with one more column of its scan."""
    assert isinstance(column.reference, Field)
    if isinstance(relation, Scan):
        is_scanned = relation.source == column.reference.source
        return (
            replace(relation, columns={**relation.columns, column.reference: column.domain}) if is_scanned else relation
        )
    if isinstance(relation, Union):
        members = tuple((_with_scan_column(member, column), expressions) for member, expressions in relation.members)
        return replace(relation, members=members)
    inputs = {field.name for field in fields(relation)} & {"input", "left", "right", "other"}
    return replace(relation, **{name: _with_scan_column(getattr(relation, name), column) for name in inputs})
