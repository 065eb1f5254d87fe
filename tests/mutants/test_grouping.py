"""Seeded bugs in subtotals and outer SELECTs: narrow ranges, totals that do not agree, rows taken for sure."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_WIDTHS = ("mechanisms/test_noise_sums.py",)
_OUTER = ("release/test_outer_rows.py",)
MUTANTS = (
    Mutant(
        "a subtotal has the range of one group",
        Kind.SENSITIVITY,
        "release.noisy_rows.noise_forms:IndependentNoises._sum_width",
        "    if terms == 1:",
        "    if terms >= 1:",
        ("release/test_subtotals.py::test_ranges_of_subtotals_hold",),
    ),
    Mutant(
        "sums of Laplace noises have a smaller scale",
        Kind.ROUNDING,
        "mechanisms.noise_sums:laplace_sum_width",
        "continuous_scale = 0.5 / math.tanh(0.5 / scale)",
        "continuous_scale = 0.95 * scale",
        _WIDTHS,
    ),
    Mutant(
        "totals are rounded for themselves",
        Kind.ROUNDING,
        "release.measured:_linear_estimate",
        "value, centre = (rows.sum_groups(value), rows.sum_groups(centre))",
        "value, centre = (np.round(rows.sum_groups(centre)), rows.sum_groups(centre))",
        ("release/test_subtotals.py::test_every_total_is_the_sum_of_what_is_shown_below_it",),
    ),
    Mutant(
        "units of several groups are added up",
        Kind.KEYS,
        "plan.sql.statements:_check_subtotals",
        "building.source.relation.max_rows_per_unit != 1",
        "building.source.relation.max_rows_per_unit == 1",
        ("plan/sql/test_grouping.py::test_subtotals_of_units_are_refused_unless_a_unit_has_one_row",),
    ),
    Mutant(
        "rows that noise has picked are taken for sure",
        Kind.LIMITS,
        "release.noisy_rows.row_totals:Presence.where",
        "self.sure & test.sure | self.sure & ~self.present | test.sure & ~true",
        "self.sure",
        _OUTER,
    ),
    Mutant(
        "comparisons of noisy numbers are taken for sure",
        Kind.LIMITS,
        "release.noisy_rows.noisy_columns:_is_comparison_sure",
        "return np.asarray(alike & (disjoint | both_exact | is_ordering) & ~unknown, bool)",
        "return np.asarray(alike | True, bool)",
        _OUTER,
    ),
    Mutant(
        "rows cut by a noisy LIMIT are taken for sure",
        Kind.LIMITS,
        "release.noisy_rows.finishing:_finish_rows",
        "bool(present.sure.all()) and (not any((noise_count(order.expression) for order in query.order)))",
        "True or not any((noise_count(order.expression) for order in query.order))",
        ("release/test_outer_rows.py::test_rows_that_a_noisy_limit_picks_are_not_sure",),
    ),
    Mutant(
        "rows that may be there add nothing to a range",
        Kind.LIMITS,
        "release.noisy_rows.row_totals:_sum_groups",
        "np.where(possibly, np.maximum(column.high, 0), 0)",
        "0",
        _OUTER,
    ),
    Mutant(
        "ranks have no range upward",
        Kind.LIMITS,
        "release.noisy_rows.window_functions:_rank_rows",
        "1.0, 1 + certainly_before), 1 + possibly_before)",
        "1.0, 1 + certainly_before), value)",
        _OUTER,
    ),
    Mutant(
        "noisy rows are grouped by noisy numbers",
        Kind.KEYS,
        "plan.sql.noisy_windows:check_noiseless_key",
        "    if noise_count(expression):",
        "    if noise_count(expression) > 10:",
        ("plan/test_sql.py::test_a_question_means_what_is_written_below_it",),
    ),
    Mutant(
        "rows of units are taken for noisy rows",
        Kind.KEYS,
        "plan.sql.outer:inner_aggregate_select",
        "level.args.get('group')",
        "level.args.get('group') is None",
        ("plan/test_sql.py::test_a_question_means_what_is_written_below_it",),
    ),
)

test_the_tests_of_grouping_notice = suite(MUTANTS)
