"""Seeded bugs where totals follow from others, and where norms are compared once for a unit."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TIGHT = "safety/test_tightness.py::test_claims_are_reached_when_a_unit_is_added"
_COUNTS = "SELECT region, COUNT(*) FROM people GROUP BY region"
MUTANTS = (
    Mutant(
        "a missing value counts in the second sum of a mean",
        Kind.SENSITIVITY,
        "engine.lowering.cell_lowering:_split_complement",
        "(value, tested, high)",
        "(value, integer_constant(1), high)",
        ("engine/test_totals.py::test_sums_that_follow_from_others_are_exact",),
    ),
    Mutant(
        "a value that a test leaves out counts in the second sum of a mean",
        Kind.SENSITIVITY,
        "engine.lowering.cell_lowering:_split_complement",
        "apply(ScalarFunction.CASE, test, integer_constant(1))",
        "integer_constant(1)",
        ("engine/test_totals.py::test_sums_that_follow_from_others_are_exact",),
    ),
    Mutant(
        "a unit a little beyond its norm is not scaled",
        Kind.LIMITS,
        "engine.lowering.clip_scaling:ClipScaling.norm_if_too_large",
        "self.bound ** 2 if self.squared else self.bound",
        "2 * (self.bound ** 2 if self.squared else self.bound)",
        (f"{_TIGHT}[{_COUNTS}-Strategy.CLIP_L1]",),
    ),
    Mutant(
        "codes are ordered as their texts are declared",
        Kind.KEYS,
        "engine.lowering.cell_lowering:encode_keys",
        "tuple(sorted(map(str, key.domain.values)))",
        "tuple(map(str, key.domain.values))",
        ("engine/test_totals.py::test_codes_are_ordered_as_their_texts_are",),
    ),
)

test_the_tests_of_totals_notice = suite(MUTANTS)
