"""Seeded bugs in moments, in what is shared by several numbers, and in how a price is split."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_HOLDS = "plan/aggregates/test_moments.py::test_a_range_holds_whenever_every_total_is_within_its_half_width"
_SHARING = "plan/test_sharing.py"
MUTANTS = (
    Mutant(
        "a mean counts rows where its value is missing",
        Kind.NAN,
        "plan.sharing:_NeededMeasures._mean_by_row_count",
        "canonical_request(mean.rows, self.tests): mean",
        "Count(mean.where): mean",
        (f"{_SHARING}::test_rows_are_never_counted_by_a_mean",),
    ),
    Mutant(
        "a range forgets that the number of rows is noisy",
        Kind.ROUNDING,
        "plan.aggregates.moments:_row_count_ends",
        "(low_sum[1] + high_sum[1]) / axis.width",
        "(low_sum[0] + high_sum[0]) / axis.width",
        (f"{_HOLDS}[var_pop]",),
    ),
    Mutant(
        "a correlation without spread is found at a corner",
        Kind.ROUNDING,
        "plan.aggregates.moments:_quotient_or_infinity",
        "return np.where(denominator != 0, numerator / denominator, np.inf)",
        "return np.where(denominator != 0, numerator / denominator, 0.0)",
        (f"{_HOLDS}[corr]", f"{_HOLDS}[regr_slope]"),
    ),
    Mutant(
        "the least correlation is looked for at corners alone",
        Kind.ROUNDING,
        "plan.aggregates.moments:_largest_quotient",
        "for m, w in (*corners, *points)])",
        "for m, w in corners])",
        (f"{_HOLDS}[corr]", f"{_HOLDS}[regr_slope]"),
    ),
    Mutant(
        "shares add up to more than the price",
        Kind.CHARGE_ORDER,
        "release.parts.shares:split_for_least_error",
        "Fraction(units, sum(share_units))",
        "Fraction(units, max(share_units))",
        ("release/parts/test_splitting.py::test_shares_are_positive_and_add_up_to_one",),
    ),
    Mutant(
        "every number is made from clipped totals",
        Kind.LIMITS,
        "curator.proposals.questions:Question._declared_group_boundings",
        "if bounded.strategy.norm_order is None)",
        "if bounded.strategy)",
        ("curator/test_spread.py::test_units_with_more_rows_than_count_weigh_alike_in_all_moments",),
    ),
    Mutant(
        "a square is held to half of its range",
        Kind.SENSITIVITY,
        "plan.bounding:_scale_measure",
        "size = measure.max_row_contribution(low, high)",
        'size = max(1, measure.max_row_contribution(low, high) // (2 if type(measure).__name__ == "Squares" else 1))',
        ("safety/test_tightness.py::test_claims_of_moments_are_reached_and_half_of_them_is_caught",),
    ),
)

test_the_tests_of_moments_notice = suite(MUTANTS)
