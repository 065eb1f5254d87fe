"""Seeded bugs in measures of disjoint rows, which are taken for one price."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SAFETY = "safety/test_disjoint.py"
_NUMBERS = f"{_SAFETY}::test_numbers_of_disjoint_measures_are_those_of_each_alone"
_ONCE = f"{_SAFETY}::test_what_is_asked_twice_is_measured_once"
_ONLY = f"{_SAFETY}::test_only_disjoint_rows_are_taken_together"
MUTANTS = (
    Mutant(
        "lists of values that differ are taken for disjoint",
        Kind.RANGES,
        "plan.aggregates.disjoint:_are_disjoint",
        "one[1].isdisjoint(other[1])",
        "one[1] != other[1]",
        (_ONLY,),
    ),
    Mutant(
        "numbers that are one double are taken for two values",
        Kind.RANGES,
        "plan.aggregates.disjoint:_operand_and_values",
        " or comparison.operand.domain.type is Type.REAL",
        "",
        (_ONLY,),
    ),
    Mutant(
        "a row adds to every member whose predicate holds",
        Kind.SENSITIVITY,
        "plan.aggregates.disjoint:DisjointMeasures.contributions",
        "replace(contribution, part=index, parts=predicates)",
        "replace(contribution, part=0, parts=(predicates[index],))",
        (f"{_SAFETY}::test_a_row_adds_to_one_member_even_if_members_overlap",),
    ),
    Mutant(
        "a counted row beside a mean is one step large",
        Kind.SENSITIVITY,
        "plan.aggregates.disjoint:DisjointMeasures.max_row_contribution",
        "return self._representative_member.max_row_contribution(low, high)",
        "return 1",
        (f"{_SAFETY}::test_a_row_adds_to_one_member_even_if_members_overlap",),
    ),
    Mutant(
        "rows that a predicate knows nothing of are in no part",
        Kind.NAN,
        "plan.aggregates.disjoint:_none_of",
        "if not is_never_null(any_of)",
        "if any_of.domain.nullable",
        (_NUMBERS,),
    ),
    Mutant(
        "counts that share rows are taken as disjoint",
        Kind.SENSITIVITY,
        "plan.aggregates.disjoint:_can_join_group",
        "all((_are_disjoint(candidate, member) for member in group))",
        "True",
        (_ONLY,),
    ),
    Mutant(
        "limits that meet in one value exclude each other",
        Kind.ROUNDING,
        "plan.values.narrowing:Limit.is_empty",
        "self.low > self.high",
        "self.low >= self.high",
        (_ONLY,),
    ),
    Mutant(
        "the range of a sum of totals has the width of its first one",
        Kind.RANGES,
        "release.measured:linear_factors",
        "return estimator.factors",
        "return (estimator.factors[0], *(Fraction(0) for _ in estimator.factors[1:]))",
        (f"{_SAFETY}::test_the_range_of_a_count_of_several_totals_covers_it",),
    ),
    Mutant(
        "a count beside a mean is in units of the mean",
        Kind.ROUNDING,
        "plan.bounding:ScaledMeasure._member",
        "self.unit_value / (self.size * self.step)",
        "self.unit_value",
        (_NUMBERS,),
    ),
    Mutant(
        "a sum is not NULL where one of its terms is not",
        Kind.NAN,
        "plan.aggregates.disjoint:_is_never_null",
        "all((_is_never_null(argument, conditions) for argument in value.arguments))",
        "any((_is_never_null(argument, conditions) for argument in value.arguments))",
        (_ONCE,),
    ),
    Mutant(
        "a remainder is not NULL where both its operands are not",
        Kind.NAN,
        "plan.aggregates.disjoint:_is_never_null",
        "value.function not in ('+', '-', '*')",
        "value.function == ''",
        (_ONCE,),
    ),
    Mutant(
        "a count that a mean gives is computed as the sum that was typed",
        Kind.ROUNDING,
        "plan.sharing:_measured_request",
        "needed.canonical_requests[request]",
        "request",
        (_ONCE,),
    ),
    Mutant(
        "two spellings of one measure are both measured",
        Kind.ROUNDING,
        "plan.sharing:_NeededMeasures.from_requests",
        "request if _has_mean_among(request, means) else canonical_request(request, tests)",
        "request",
        (_ONCE,),
    ),
    Mutant(
        "a sum beside its mean is measured apart, under another spelling",
        Kind.ROUNDING,
        "plan.sharing:_has_mean_among",
        "type(request) is Sum and",
        "type(request) is Mean and",
        ("plan/test_sharing.py",),
    ),
)

test_the_tests_of_disjoint_measures_notice = suite(MUTANTS)
