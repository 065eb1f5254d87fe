"""Seeded bugs of sums whose totals are rounded: what a unit moves them by, and how far they lie from the exact ones."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TOTALS = "engine/test_rounded_totals.py"
_RANGES = "release/test_rounded_values.py"
MUTANTS = (
    Mutant(
        "totals that one unit changes are taken to be rounded together",
        Kind.SENSITIVITY,
        "plan.bounding:_sensitivity_after_rounding",
        "math.ceil(sensitivity.total / unit) + touched - 1",
        "math.ceil(sensitivity.total / unit)",
        (_TOTALS,),
    ),
    Mutant(
        "a total of part of a unit is taken to move by none",
        Kind.SENSITIVITY,
        "plan.bounding:_sensitivity_after_rounding",
        "math.ceil(sensitivity.per_group / unit)",
        "math.floor(sensitivity.per_group / unit)",
        (_TOTALS,),
    ),
    Mutant(
        "a total is cut to units, and said to be rounded",
        Kind.RANGES,
        "engine.lowering.cell_lowering:_rounded_quotient",
        "Constant(_BEYOND_TOTALS + unit // 2, Wide.INTEGER)",
        "Constant(_BEYOND_TOTALS, Wide.INTEGER)",
        (_TOTALS,),
    ),
    Mutant(
        "values are rounded to the units of the noise",
        Kind.RANGES,
        "plan.aggregates.measures:MAX_VALUE_STEPS",
        "MAX_VALUE_STEPS = 2 ** 58",
        "MAX_VALUE_STEPS = MAX_STEPS",
        (_RANGES,),
    ),
)

test_the_tests_of_rounded_sums_notice = suite(MUTANTS)
