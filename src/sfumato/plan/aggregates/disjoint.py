"""Measures that are taken together because no row counts in two of them: all of them for the price of one.

Theorem. Let a row add to at most one of the members, and at most M to it (to both sums of a mean together). Then it
adds at most M to the vector of all members' totals, so the vector has the sensitivity that ``bounding`` proves for one
measure of size M, under every strategy and either relation: those proofs use nothing of a measure but the size of a
row's contribution and the number of its totals. Noise of that sensitivity on every total is one measurement (parallel
composition: McSherry 2009, Thm 4, here within one vector). ∎

The members need not be disjoint for the theorem to hold: a row counts in the first member whose rows it is among, and
``Contribution.part`` makes engines enforce that. Only the numbers, not the privacy, depend on what is found disjoint.

The canonical form of a requested aggregate: what a question asks in two ways is measured once.

*Claim.* In rows that meet ``conditions``, a request and its ``canonical_request`` add the same to every total.
SUM(CASE WHEN p THEN x ELSE 0 END) adds x where p is true and nothing elsewhere, as SUM(x) FILTER (WHERE p) does, and
with x = 1 it counts the rows where p is true. AVG(CASE WHEN p THEN x END) leaves out the rows where p is not true, for
NULL is not averaged. A test that x is not NULL is true in every row where the other conditions are, if one of them
limits x, which no NULL meets (``narrowing``), or is that test; then it is left out. ∎

Only the numbers depend on the claim: the sensitivity follows from what engines add up, whichever form they are given.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.plan.aggregates.measures import (
    AggregateRequest,
    Count,
    Estimator,
    Mean,
    Measure,
    MeasureSteps,
    ReadingKind,
    RowContribution,
    Sum,
    conjunction,
)
from sfumato.plan.values.expressions import Call, Expression, Literal, conjuncts
from sfumato.plan.values.functions.declaring import call, is_never_null, literal
from sfumato.plan.values.narrowing import LimitsByExpression, as_comparison, can_hold_together, limits_by_expression
from sfumato.policy import Domain, Type
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass

Member = Count | Sum | Mean
MAX_MEMBERS = 64
"""The most members of one measure: a row is tested for each."""
MAX_NOISES_OF_COUNT = 3
"""A count is the sum of at most so many totals of disjoint members. Three noises for a whole price have √3 times the
standard deviation of one; a count apart, for half the price, would have 2 times it (Gaussian noise: √2 times), and
leave only half the price to the others."""


@codec.serialisable("disjoint-measures")
@dataclass(frozen=True)
class DisjointMeasures:
    """Counts, sums or means of one value over disjoint rows; beside means, counts too."""

    members: tuple[Member, ...]
    where: ClassVar[None] = None
    reads: ClassVar[ReadingKind] = ReadingKind.TOTALS
    once_per_unit: ClassVar[bool] = False
    name: ClassVar[str] = "disjoint totals"
    noised_phrase: ClassVar[str] = "them together"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if None in map(contributing_rows_predicate, self.members):
            raise InvalidParameter(
                "members", ValueWords("a measure of all rows"), "measures that each have a condition"
            )

    @property
    def noise_count(self) -> int:
        return sum(member.noise_count for member in self.members)

    @property
    def value(self) -> Expression | None:
        """The value that members sum; None if all count rows."""
        return next((member.value for member in self.members if member.value is not None), None)

    @property
    def reading_key(self) -> Hashable:
        return self.reads

    @property
    def result(self) -> Domain:
        return Domain(Type.REAL)

    @property
    def possible_range(self) -> tuple[Fraction, Fraction] | None:
        return None

    @property
    def _representative_member(self) -> Member:
        """A member with the step and the range of all."""
        return next((member for member in self.members if member.value is not None), self.members[0])

    def step_for_rows(self, max_rows: int) -> Fraction:
        return self._representative_member.step_for_rows(max_rows)

    def row_value_range_in_steps(self, step: Fraction) -> tuple[int, int]:
        return self._representative_member.row_value_range_in_steps(step)

    def max_row_contribution(self, low: int, high: int) -> int:
        return self._representative_member.max_row_contribution(low, high)

    def contributions(self, step: Fraction, low: int, high: int) -> tuple[RowContribution, ...]:
        """Return the contributions of all members; a counted row adds as much as a row of any other member."""
        predicates = tuple(
            predicate for member in self.members if (predicate := contributing_rows_predicate(member)) is not None
        )
        return tuple(
            replace(contribution, part=index, parts=predicates)
            for index, member in enumerate(self.members)
            for contribution in (
                (RowContribution(None, step, 0, 0, self.max_row_contribution(low, high)),)
                if member.value is None
                else member.contributions(step, low, high)
            )
        )

    def middle_row_contributions(self, step: Fraction, low: int, high: int) -> tuple[Fraction, ...]:
        return tuple(typical for member in self.members for typical in member.middle_row_contributions(step, low, high))

    def measures_for(self, all_requests: Sequence[AggregateRequest]) -> tuple[Measure, ...]:  # noqa: ARG002
        return (self,)

    def estimator(self, *measured: MeasureSteps) -> Estimator:
        raise AssertionError(f"only its members are requested, not {len(measured)} together")


def contributing_rows_predicate(member: Member) -> Expression | None:
    """Return the predicate of the rows that add to a measure; None for all rows."""
    return member.rows.where if isinstance(member, Mean) else member.where


@dataclass(frozen=True)
class MergedMeasures:
    """The measures to take, and the members that replace some of the requested ones."""

    measures: tuple[Measure, ...]
    replacements: Mapping[Measure, tuple[Measure, ...]]
    """The members whose totals add up to a requested measure, where it is not taken itself."""


def merge_disjoint_measures(measures: Sequence[Measure], *, splits_row_count: bool = True) -> MergedMeasures:
    """Find measures of disjoint rows, to be taken together; with ``splits_row_count``, COUNT(*) is the sum of such
    measures and of the rows in none of them, where that needs at most ``MAX_NOISES_OF_COUNT`` noises.
    """
    groups: list[list[_MergeCandidate]] = []
    for candidate in filter(None, map(_merge_candidate, measures)):
        group = next((group for group in groups if _can_join_group(candidate, group)), None)
        if group is None:
            groups.append([candidate])
        else:
            group.append(candidate)
    rows_split = _cheapest_group_for_row_count(groups) if splits_row_count and Count() in measures else None
    replacements: dict[Measure, tuple[Measure, ...]] = {}
    taken_by_first: dict[Measure, Measure] = {}
    for group in groups:
        members = tuple(candidate.member for candidate in group)
        if group is rows_split:
            members = (*members, Count(_none_of([candidate.predicate for candidate in group])))
            replacements[Count()] = members
        if len(members) > 1:
            replacements |= {candidate.measure: (candidate.member,) for candidate in group}
            taken_by_first[group[0].measure] = DisjointMeasures(members)
    taken = [taken_by_first.get(measure, measure) for measure in measures]
    remaining_measures = (measure for measure in taken if measure not in replacements)
    return MergedMeasures(tuple(remaining_measures), replacements)


@dataclass(frozen=True)
class _MergeCandidate:
    """A measure that may be taken together with others."""

    measure: Measure
    """The measure as it was requested;"""
    member: Member
    """an equal one whose condition is a predicate, not a CASE."""
    predicate: Expression
    limits: LimitsByExpression
    conjuncts: frozenset[Expression]

    @property
    def kind_and_value(self) -> tuple[type, Expression | None]:
        """What members have in common: how, and of which value, they are computed."""
        return type(self.member), self.member.value


def _merge_candidate(measure: Measure) -> _MergeCandidate | None:
    member = move_case_to_predicate(measure)
    predicate = None if member is None else contributing_rows_predicate(member)
    if member is None or predicate is None:
        return None
    return _MergeCandidate(
        measure, member, predicate, limits_by_expression((predicate,)), frozenset(conjuncts(predicate))
    )


def move_case_to_predicate(measure: AggregateRequest) -> Member | None:
    """Move the condition of SUM(CASE WHEN p THEN x ELSE 0 END), or of such a mean without ELSE, to the predicate.

    None for a measure that is no count, sum or mean of rows.
    """
    if type(measure) is Count:
        return measure
    if not isinstance(measure, (Sum, Mean)):
        return None
    condition, value = _case_condition_and_value(measure.value, allows_else_zero=isinstance(measure, Sum))
    if condition is None:
        return measure
    where = conjunction(measure.where, condition)
    if isinstance(measure, Sum) and isinstance(value, Literal) and value.value == 1:
        return Count(where)
    return replace(measure, value=value, where=where)


def _case_condition_and_value(value: Expression, *, allows_else_zero: bool) -> tuple[Expression | None, Expression]:
    """Split CASE WHEN p THEN x END, with ``allows_else_zero`` also one with ELSE 0; None if it is neither."""
    if not isinstance(value, Call) or value.function != "CASE" or len(value.arguments) not in (2, 3):
        return None, value
    condition, result, *default = value.arguments
    ends_in_nothing = all(
        isinstance(end, Literal) and (end.value is None or (allows_else_zero and end.value == 0)) for end in default
    )
    has_range = result.domain.range is not None and result.domain.type is value.domain.type
    return (condition, result) if ends_in_nothing and has_range else (None, value)


def _can_join_group(candidate: _MergeCandidate, group: Sequence[_MergeCandidate]) -> bool:
    return (
        len(group) < MAX_MEMBERS
        and candidate.kind_and_value == group[0].kind_and_value
        and all(_are_disjoint(candidate, member) for member in group)
    )


def _are_disjoint(first: _MergeCandidate, second: _MergeCandidate) -> bool:
    """Return whether it is certain that no row meets both predicates: their limits or lists of values exclude each
    other, or one of them requires what the other negates. An expression with a limit is not NULL.
    """
    if not can_hold_together(first.limits, second.limits):
        return True
    comparisons = [
        (_operand_and_values(one), _operand_and_values(other)) for one in first.conjuncts for other in second.conjuncts
    ]
    if any(one and other and one[0] == other[0] and one[1].isdisjoint(other[1]) for one, other in comparisons):
        return True
    return any(
        _negated(condition) in other.conjuncts or _operand_of_null_test(condition) in other.limits
        for one, other in ((first, second), (second, first))
        for condition in one.conjuncts
    )


def _operand_and_values(condition: Expression) -> tuple[Expression, frozenset[Any]] | None:
    """Return the operand of ``= value`` or ``IN (…)`` and its values; None for another condition, and for doubles,
    since literals that differ may be the same double.
    """
    comparison = as_comparison(condition) if isinstance(condition, Call) else None
    if comparison is None or comparison.operator not in ("=", "IN") or comparison.operand.domain.type is Type.REAL:
        return None
    return comparison.operand, frozenset(comparison.values)


def _operand_of_null_test(condition: Expression) -> Expression | None:
    return condition.arguments[0] if isinstance(condition, Call) and condition.function == "IS NULL" else None


def _negated(condition: Expression) -> Expression:
    if isinstance(condition, Call) and condition.function == "NOT":
        return condition.arguments[0]
    return call("NOT", condition)


def _cheapest_group_for_row_count(groups: Sequence[list[_MergeCandidate]]) -> list[_MergeCandidate] | None:
    """Return the group of counts or means from which COUNT(*) is computed with the fewest noises, if with few."""
    noises = {
        index: sum(candidate.member.noise_count for candidate in group) + 1
        for index, group in enumerate(groups)
        if not isinstance(group[0].member, Sum)
    }
    fewest = min(noises, key=noises.__getitem__, default=None)
    return None if fewest is None or noises[fewest] > MAX_NOISES_OF_COUNT else groups[fewest]


def _none_of(predicates: Sequence[Expression]) -> Expression:
    """Return the predicate that none of these is true; NULL is not true."""
    any_of = predicates[0] if len(predicates) == 1 else call("OR", *predicates)
    if not is_never_null(any_of):
        any_of = call("COALESCE", any_of, literal(Type.BOOLEAN, False))
    return _negated(any_of)


def members_of(measure: Measure) -> tuple[Measure, ...]:
    """Return the members of disjoint measures, or the measure itself."""
    return measure.members if isinstance(measure, DisjointMeasures) else (measure,)


def operands(measure: AggregateRequest) -> Iterator[Expression]:
    """Iterate over the predicates and values that a measure reads of a row."""
    members = measure.members if isinstance(measure, DisjointMeasures) else (measure,)
    return (operand for member in members for operand in (member.where, member.value) if operand is not None)


def canonical_request(request: AggregateRequest, conditions: Sequence[Expression]) -> AggregateRequest:
    """Return one form for all requests that are equal in rows that meet these conditions."""
    canonical = move_case_to_predicate(request)
    if canonical is None:
        return request
    where = _without_implied_null_tests(canonical.where, conditions)
    return canonical if where == canonical.where else replace(canonical, where=where)


def _without_implied_null_tests(where: Expression | None, conditions: Sequence[Expression]) -> Expression | None:
    """Return a predicate without the tests for NULL that are certain to hold where the rest of it does."""
    if where is None:
        return None
    tests = where.arguments if isinstance(where, Call) and where.function == "AND" else (where,)
    needed = list(tests)
    for test in tests:
        others = [other for other in needed if other is not test]
        operand = _operand_of_not_null_test(test)
        if operand is not None and _is_never_null(operand, (*conditions, *others)):
            needed = others
    if len(needed) == len(tests):
        return where
    return call("AND", *needed) if len(needed) > 1 else needed[0] if needed else None


def _operand_of_not_null_test(test: Expression) -> Expression | None:
    """Return x of the test that x is not NULL; None for any other condition."""
    if not isinstance(test, Call) or test.function != "NOT":
        return None
    (negated,) = test.arguments
    return negated.arguments[0] if isinstance(negated, Call) and negated.function == "IS NULL" else None


def _is_never_null(value: Expression, conditions: Sequence[Expression]) -> bool:
    """Return whether a value is certain not to be NULL where the conditions hold."""
    if is_never_null(value) or any(_operand_of_not_null_test(condition) == value for condition in conditions):
        return True
    if value in limits_by_expression(conditions):
        return True
    if not isinstance(value, Call) or value.function not in ("+", "-", "*") or value.domain.range is None:
        return False
    # one of these functions with a finite range is NULL only if an argument is
    return all(_is_never_null(argument, conditions) for argument in value.arguments)
