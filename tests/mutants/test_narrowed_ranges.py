"""Seeded bugs in the ranges of sums and means that conditions narrow."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SAFETY = "safety/test_narrowed_ranges.py"
_ENFORCED = f"{_SAFETY}::test_engines_enforce_a_range_that_rows_leave"
_NUMBERS = f"{_SAFETY}::test_numbers_are_those_of_the_rows"
_IMPLIED = f"{_SAFETY}::test_only_what_conditions_imply_narrows_a_range"
MUTANTS = (
    Mutant(
        "a column is clamped at the scan, so a narrower range of it is not enforced",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:value_in_steps",
        "isinstance(expression, Column) and _holds_range(least_value, greatest_value, expression.domain)",
        "isinstance(expression, Column)",
        (_ENFORCED,),
    ),
    Mutant(
        "a range is enforced at its low end alone",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:_holds_range",
        "low <= least and greatest <= high",
        "low <= least",
        (_ENFORCED,),
    ),
    Mutant(
        "a range that ends one before the declared one is not enforced",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:_holds_range",
        "greatest <= high",
        "greatest <= high + 1",
        (_ENFORCED,),
    ),
    Mutant(
        "a range that begins one after the declared one is not enforced",
        Kind.SENSITIVITY,
        "engine.lowering.unit_lowering:_holds_range",
        "low <= least",
        "low - 1 <= least",
        (_ENFORCED,),
    ),
    Mutant(
        "a moment is made from a mean of another origin",
        Kind.RANGES,
        "plan.sharing:_with_narrowed_ranges",
        "narrow_range(measure, tests, fixed, summed)",
        "narrow_range(measure, tests, (), summed)",
        (_NUMBERS,),
    ),
    Mutant(
        "measures taken together have the range of the first",
        Kind.RANGES,
        "plan.aggregates.value_measures:_interval_hull",
        "return (min((low for low, _ in ranges)), max((high for _, high in ranges)))",
        "return ranges[0]",
        (_NUMBERS,),
    ),
    Mutant(
        "the ends of a narrowed range are rounded inward",
        Kind.ROUNDING,
        "plan.aggregates.value_measures:_rounded_outward",
        "math.ceil(high / unit) * unit",
        "math.floor(high / unit) * unit",
        (_IMPLIED,),
    ),
    Mutant(
        "the predicate of another measure narrows a range",
        Kind.RANGES,
        "plan.aggregates.value_measures:_range_under_conditions",
        "conditions if measure.where is None else (*conditions, measure.where)",
        "conditions",
        (_IMPLIED,),
    ),
    Mutant(
        "a sum that is made from a narrowed mean has the noise of a large origin",
        Kind.RANGES,
        "plan.aggregates.value_measures:narrow_range",
        "if any((member in summed for member in members))",
        "if False",
        (_IMPLIED,),
    ),
)

test_the_tests_of_narrowed_ranges_notice = suite(MUTANTS)
