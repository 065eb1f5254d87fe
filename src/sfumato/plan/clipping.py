"""Count what limits and bounds cut from an answer: units beyond a limit, and clamped cells among the rows that count.

Theorem (units). A unit is beyond a limit or not: that is a function of its own rows (unit-wiseness, ``nodes``), and one
row of 0 or 1 stands for the unit (``PerUnit``). Added or removed, a unit changes one of the two sums (units beyond,
units within) by 1, whatever rows it has; replaced, it changes each of them by at most 1. The *rows* beyond a limit have
no such bound: one unit can have any number of them, so they are never counted. ∎

Theorem (cells). Of each unit at most T rows are kept (``bounding``, sample), and every row has one cell of a column. So
a unit changes the numbers of clamped and of other cells by at most T together, and replaced by at most T each. ∎

Both sums are the coordinates of one mean (``measures.Mean``), so that the share, the number and the total are computed
from two noisy sums and one price.

Bound what limits and bounds can have moved a number by, against the outer limits that the policy declares.

*Setting.* One unit has at most P rows (``possible_rows``), and the cells of a column with bounds [a, b] lie in [p, q]
(``possible``). Both are enforced before anything else reads a row: further rows are left out, other cells are missing.
So what follows needs no trust in the data. Let c(x) be a cell x moved to the bounds. Under every strategy of
``bounding`` a row counts with a weight 0 ≤ w ≤ 1, which is 1 for the rows of a unit within all limits: a row is sampled
or not, or a unit's rows in a group are scaled toward 0 by one factor; a contribution that is rounded toward 0 is one of
a smaller weight. The number *without limits and bounds* is the same one with w = 1 and c(x) = x.

*Theorem (sums and counts).* Let units within all limits have K cells beyond the bounds, and let B units be beyond a
limit. Without limits and bounds a sum is larger by at most K·(q − b) + B·P·max(q, q − b) and smaller by at most
K·(a − p) + B·P·max(−p, a − p), where each maximum is at least 0. A count is larger by at most B·P, and never smaller.
*Proof.* A row moves the sum by x − w·c(x), linear in w: x − c(x), in [p − a, q − b], at w = 1 and x, in [p, q],
at w = 0. Rows of units within have w = 1, and only cells beyond the bounds have x ≠ c(x). A unit beyond a limit has at
most P rows. A count is the sum of x = 1. ∎

*Theorem (means).* Let there be N cells. Without limits and bounds a mean is larger by at most
(K·(q − b) + B·P·(q − a))/N, never by more than q − a, and by at most q − b where no unit can be beyond a limit; it is
smaller by at most (K·(a − p) + B·P·(b − p))/N. *Proof.* Let m = Σw·c(x)/Σw, which lies in [a, b]. As Σw·(c(x) − m) = 0,
the mean without limits is m + Σ(x − m − w·(c(x) − m))/N. The term of a row is linear in w: x − c(x) at w = 1, x − m at
w = 0, both at most q − a and at least p − b; it is x − c(x) for the rows of units within. ∎ (Rounding a scaled
contribution moves m by less than 2^-20 of the width of the bounds, and is not counted.)

Counts are of the whole table. Every count of a group is at most that, so the theorem on sums bounds each group's number
as well. The *share* of a group's cells that are beyond the bounds is not bounded by that of all cells: counts narrow no
mean of a group, or of the rows of a FILTER.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from sfumato.plan.aggregates.measures import AggregateRequest, Count, Mean, Measure, Sum, not_null_predicate
from sfumato.plan.aggregates.unit_measures import UnitDistinct, UnitGreatest, UnitMeasure, UnitRowCount, UnitSum
from sfumato.plan.bounding import proven_rows_per_unit
from sfumato.plan.caveats import (
    NOT_COVERED,
    ClampedEnds,
    RowLimits,
    beyond_bound_phrase,
    can_limits_drop_rows,
    can_value_clipping_change_rows,
    caveat_phrases_by_result,
    clipping_columns,
    limit_phrases,
)
from sfumato.plan.descriptions import count_with_noun
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.nodes import (
    Aggregate,
    Filter,
    LimitRowsPerUnit,
    PerUnit,
    PublicJoin,
    Query,
    Relation,
    Scan,
    Union,
    max_rows_per_private_row,
    relations,
    unused_source_number,
)
from sfumato.plan.noisy_rows import Finish, Output
from sfumato.plan.values.expressions import Column, Expression, Field, Result
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Type
from sfumato.policy.domains import WIDE_PREFIX, describe_range, widen_bounds
from sfumato.privacy.numbers import format_exact, format_number
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
        *_questions_on_units_over_limits(plan, limits, max_groups),
        *_questions_on_units_over_join_limits(plan),
        *_questions_on_cells_beyond_bounds(plan, limits),
    ):
        name, number = count.name, 1
        while name in by_name and by_name[name].query != count.query:  # both sides of a join have a limit
            number += 1
            name = f"{count.name} ({number})"
        by_name[name] = replace(count, name=name)
    return tuple(by_name.values())


# Units beyond a limit


def _questions_on_units_over_limits(
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


def _questions_on_units_over_join_limits(plan: Aggregate) -> Iterator[ClippingQuestion]:
    """Count the units with more rows than are joined, or than the results over their rows count."""
    for node in relations(plan.source):
        if isinstance(node, LimitRowsPerUnit):
            yield _units_over_row_limit_question(node.input, node.rows, " before a join")
        elif isinstance(node, PerUnit):
            for cap in sorted({cap for _, result in node.results if (cap := _row_cap(result)) is not None}):
                if not node.keys or node.single:
                    yield _units_over_row_limit_question(node.input, cap, " in a subquery")
                else:
                    by_group = _row_counts_per_unit_and_group(node.input, [key for _, key in node.keys], cap + 1)
                    most = UnitGreatest(_column_of_per_unit(by_group, "rows"))
                    unit = PerUnit(by_group, unused_source_number(by_group), (), (("most", most),))
                    name = f"more than {count_with_noun(cap, 'row')} in one group of a subquery"
                    yield _units_beyond_question(unit, _any_exceeds([(_column_of_per_unit(unit, "most"), cap)]), name)


def _row_cap(result: UnitMeasure) -> int | None:
    """Return the most rows that a result over a unit's rows takes into account; None where it takes all."""
    return result.cap if isinstance(result, (UnitRowCount, UnitSum, UnitDistinct)) else None


def _units_over_row_limit_question(relation: Relation, limit: int, where: str = "") -> ClippingQuestion:
    unit = PerUnit(relation, unused_source_number(relation), (), (("rows", UnitRowCount(None, limit + 1)),))
    name = f"more than {count_with_noun(limit, 'row')}{where}"
    return _units_beyond_question(unit, _any_exceeds([(_column_of_per_unit(unit, "rows"), limit)]), name)


def _row_counts_per_unit_and_group(relation: Relation, keys: Sequence[Expression], cap: int) -> PerUnit:
    key_columns = tuple((f"key {index}", key) for index, key in enumerate(keys))
    return PerUnit(relation, unused_source_number(relation), key_columns, (("rows", UnitRowCount(None, cap)),))


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


def _questions_on_cells_beyond_bounds(plan: Aggregate, limits: ContributionLimits) -> Iterator[ClippingQuestion]:
    """Count the cells that a bound moves, of each column whose bounds can move the question."""
    scans = {field: scan for scan in relations(plan.source) if isinstance(scan, Scan) for field in scan.columns}
    for field, (domain, ends) in clipping_columns(plan).items():
        if field in scans:
            relation = next(node for node in relations(plan.source) if field in node.columns)
            question_row_limit = limits.total if plan.keys else min(limits.rows, limits.rows_per_group)
            row_limit = question_row_limit if relation is plan.source else relation.limits.rows
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


@dataclass(frozen=True)
class Shift:
    """The number without limits and bounds is at most ``more`` above the released one, and ``less`` below it."""

    more: Fraction
    less: Fraction

    def multiplied_by(self, factor: Fraction | int) -> Shift:
        return Shift(self.more * factor, self.less * factor)

    def plus(self, other: Shift) -> Shift:
        return Shift(self.more + other.more, self.less + other.less)

    def capped_by(self, other: Shift) -> Shift:
        return Shift(min(self.more, other.more), min(self.less, other.less))

    def __str__(self) -> str:
        sides = [f"{_format_rounded_up(self.more)} more"] if self.more or not self.less else []
        return " or ".join([*sides, *([f"{_format_rounded_up(self.less)} less"] if self.less else [])])


NO_SHIFT = Shift(Fraction(0), Fraction(0))


@dataclass(frozen=True)
class CutCounts:
    """Upper ends of what was counted beyond limits and bounds, and the lower end of the number of cells."""

    units: Fraction = Fraction(0)
    """Units beyond a limit."""
    clamped: Fraction = Fraction(0)
    """Cells beyond a bound."""
    share: Fraction = Fraction(1)
    """Their share of all cells."""
    cells: Fraction = Fraction(0)
    """All cells, at least."""


@dataclass(frozen=True)
class WorstCase:
    """What one clamped cell, and one unit beyond a limit, can have moved a number by."""

    cell: Shift
    """Of one cell beyond a bound; for a mean, times the share of such cells."""
    unit: Shift
    """Of all rows of one unit beyond a limit; for a mean, divided by the number of cells."""
    is_mean: bool
    limits_rows: bool
    """Whether a unit can be beyond a limit."""
    rows: int
    """The most rows of one unit."""
    value: str = ""
    """The bounded column, where one is clamped."""
    bounds: str = ""
    possible: tuple[str, str] = ("", "")
    is_part: bool = False
    """Whether it is computed from a part of the counted rows: a group, or the rows of a FILTER."""

    @property
    def whole_mean(self) -> Shift:
        """The bound of a mean, however many cells and units are beyond."""
        return self.unit.multiplied_by(Fraction(1, self.rows)) if self.limits_rows else self.cell

    def proven_shift(self, counts: CutCounts) -> Shift:
        """Return the bound that the counts prove: for a mean never more than what holds without any."""
        if not self.is_mean:
            return self.cell.multiplied_by(counts.clamped).plus(self.unit.multiplied_by(counts.units))
        if self.is_part:
            return self.whole_mean
        clamped = self.cell.multiplied_by(counts.share)
        if not self.limits_rows:
            return clamped.capped_by(self.whole_mean)
        if counts.cells <= 0:
            return self.whole_mean
        return clamped.plus(self.unit.multiplied_by(counts.units / counts.cells)).capped_by(self.whole_mean)

    def describe(self, unit: str) -> str:
        """Describe the worst case that holds whatever was cut."""
        if self.is_mean and self.limits_rows:
            return f"at most {self.whole_mean}, however many rows and values exceed the limits"
        if self.is_mean:
            ends = [(self.cell.more, "more", self.possible[1]), (self.cell.less, "less", self.possible[0])]
            sides = [
                f"{_format_rounded_up(size)} {word}, if every {self.value} were {end}"
                for size, word, end in ends
                if size
            ]
            return f"at most {', or '.join(sides)}" if sides else "at most 0 more"
        sides = [f"{self.cell} for each {self.value} outside {self.bounds}"] if self.value else []
        sides += [f"{self.unit} for each {unit} beyond the limit"] if self.limits_rows else []
        return f"at most {', and '.join(sides)}"

    def describe_counted(self, counts: CutCounts, unit: str, confidence: str) -> str:
        """Describe the worst case that bought counts prove."""
        if self.is_mean and self.is_part:
            return self.describe(unit)
        ends = " or ".join(dict.fromkeys(self.possible))
        causes = [f"every {self.value} outside {self.bounds} were {ends}"] if self.value else []
        causes += [f"every {unit} beyond the limit had {self.rows:,} such rows"] if self.limits_rows else []
        return (
            f"at most {self.proven_shift(counts)}, if {' and '.join(causes)} (by the released counts, with "
            f"{confidence} confidence each)"
        )


def worst_cases(query: Query, row_limits: RowLimits) -> dict[str, WorstCase]:
    """Return the worst case of each column that is one sum, mean or count, and is moved by limits and bounds alone
    whose outer limits are declared.
    """
    if (
        query.outer
        or query.combined is not None
        or query.finish.sets
        or not _reads_one_private_table(query.plan.source)
    ):
        return {}
    candidates: dict[str, tuple[int, WorstCase]] = {}
    for output in query.finish.outputs:
        reference = output.expression.reference if isinstance(output.expression, Column) else None
        if isinstance(reference, Result):
            worst_case = _worst_case(query.plan, query.plan.measures[reference.index], row_limits)
            candidates |= {} if worst_case is None else {output.name: (reference.index, worst_case)}
    phrases = caveat_phrases_by_result(query, row_limits) if candidates else []
    return {
        name: worst_case
        for name, (index, worst_case) in candidates.items()
        if phrases[index] and phrases[index] <= limit_phrases(query.plan, query.plan.measures[index], row_limits)
    }


def with_worst_cases(lines: Mapping[str, str], worst_cases: Mapping[str, str]) -> dict[str, str]:
    """Add the worst case to the line of each column that has one."""
    ending = f"; {NOT_COVERED}"
    return {
        name: f"{line.removesuffix(ending)}; {worst_cases[name]}{ending}" if name in worst_cases else line
        for name, line in lines.items()
    }


def _reads_one_private_table(relation: Relation) -> bool:
    """Return whether rows are those of one table, filtered and joined with public tables."""
    return all(isinstance(node, (Scan, Filter, PublicJoin)) for node in relations(relation))


def _worst_case(plan: Aggregate, measure: AggregateRequest, row_limits: RowLimits) -> WorstCase | None:
    if type(measure) not in (Count, Sum, Mean):
        return None
    limits = row_limits.limits
    (scan,) = (node for node in relations(plan.source) if isinstance(node, Scan))
    rows = (scan.possible_rows or 1) * max_rows_per_private_row(plan.source)
    within = min(limits.rows, limits.rows_per_group, *((limits.groups,) if plan.keys else ()))
    cuts_rows = can_limits_drop_rows(plan, limits) and (scan.possible_rows is None or rows > within)
    if (scan.possible_rows is None) if cuts_rows else (measure.value is None):
        return None
    if can_value_clipping_change_rows(plan, measure):
        return None
    if measure.value is None:
        return WorstCase(NO_SHIFT, Shift(Fraction(rows), Fraction(0)), is_mean=False, limits_rows=True, rows=rows)
    worst_case = _worst_case_of_value(measure, row_limits, cuts_rows, rows)
    is_part = bool(plan.keys) or measure.where is not None
    return None if worst_case is None else replace(worst_case, is_part=is_part)


def _worst_case_of_value(
    measure: AggregateRequest, row_limits: RowLimits, cuts_rows: bool, rows: int
) -> WorstCase | None:
    """Return the worst case of a sum or a mean of one column."""
    value = measure.value
    if not isinstance(value, Column) or not isinstance(value.reference, Field) or value.domain.bounds is None:
        return None
    ends = row_limits.possible.get((value.reference.table, value.reference.name))
    if ends is None:
        return None
    low, high = (Fraction(end) for end in value.domain.bounds)  # type: ignore[arg-type]
    least, largest = (Fraction(end) for end in ends)  # type: ignore[arg-type]
    cell, is_mean = Shift(largest - high, low - least), isinstance(measure, Mean)
    if is_mean:
        row = Shift(largest - low, high - least)
    else:
        row = Shift(max(largest, largest - high, Fraction(0)), max(-least, low - least, Fraction(0)))
    words = str(value.reference), describe_range(value.domain.bounds), (format_exact(least), format_exact(largest))
    return WorstCase(cell, row.multiplied_by(rows) if cuts_rows else NO_SHIFT, is_mean, cuts_rows, rows, *words)


def _format_rounded_up(value: Fraction) -> str:
    """Format a bound with four digits, rounded up."""
    if value.denominator == 1 and value < 10**9:
        return f"{int(value):,}"
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 3)
    return format_number(float(math.ceil(value / unit) * unit))
