"""Seeded bugs in windows, selections and series over noisy rows: shared noise forgotten, frames and keys mistaken."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_WINDOWS = ("release/noisy_rows/test_window_functions.py",)
_COMBINED = ("curator/test_combined_questions.py",)
_FORMS = ("release/noisy_rows/test_noise_forms.py",)
_WIDTHS = ("vectors/test_release_vectors.py::test_vectors[release.noisy_rows.noise_forms.IndependentNoises.widths]",)
_NULLS = "release/noisy_rows/test_noisy_nulls.py"
MUTANTS = (
    Mutant(
        "a sum of noises of two scales is as wide as if all had the first scale",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:IndependentNoises.widths",
        "is_equal &= np.maximum.reduceat(laws, first) == np.minimum.reduceat(laws, first)",
        "pass",
        _WIDTHS,
    ),
    Mutant(
        "a sum of noises of two scales leaves out the rounding of its totals",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:IndependentNoises._mixed_widths",
        "return padded.widths(miss) + rounding",
        "return padded.widths(miss)",
        _WIDTHS,
    ),
    Mutant(
        "a slope over noisy numbers has the range of one over exact numbers",
        Kind.RANGES,
        "release.noisy_rows.row_totals:pair_total",
        "isinstance(y, LinearColumn) and present.sure.all() and is_sure(xs)[here].all()",
        "isinstance(y, LinearColumn) and present.sure.all()",
        (f"{_FORMS[0]}::test_a_slope_over_noisy_numbers_has_no_range",),
    ),
    Mutant(
        "a count over a noisy order has at least the rows that are counted",
        Kind.RANGES,
        "release.noisy_rows.window_functions:_any_frame",
        "np.zeros(len(codes)), sizes",
        "numbers(made).value, sizes",
        ("release/test_outer_rows.py::test_ranges_hold_the_numbers_of_any_exact_rows_within_them",),
    ),
    Mutant(
        "a rolling sum forgets the noise that its rows share with others",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:NoiseForm.over_ranges",
        "self.starts[np.maximum(first, end)]",
        "self.starts[np.minimum(first + 1, len(self))]",
        (f"{_WINDOWS[0]}::test_half_widths_of_gaussian_noise_are_those_of_the_covariance",),
    ),
    Mutant(
        "noise that cancels is added",
        Kind.RANGES,
        "release.noisy_rows.noisy_columns:_linear_sum",
        "right.form.scaled(np.full(len(right.value), sign))",
        "right.form",
        (f"{_WINDOWS[0]}::test_noise_that_cancels_leaves_no_range",),
    ),
    Mutant(
        "the noise of one row is kept once where a number reads it twice",
        Kind.RANGES,
        "release.noisy_rows.noise_forms:_merge",
        "np.add.reduceat(weights, first)",
        "weights[first]",
        _FORMS,
    ),
    Mutant(
        "a frame of unsure rows keeps its own range",
        Kind.RANGES,
        "release.noisy_rows.window_functions:window",
        "return made if is_certain else",
        "return made if True else",
        (f"{_WINDOWS[0]}::test_a_row_that_noisy_numbers_put_before_may_be_any",),
    ),
    Mutant(
        "LAG reads across partitions",
        Kind.KEYS,
        "release.noisy_rows.window_functions:_picked_values",
        "(picked >= low) & (picked < high)",
        "(picked >= 0) & (picked < len(position))",
        (f"{_WINDOWS[0]}::test_the_ends_of_a_series_are_null_without_a_range",),
    ),
    Mutant(
        "a mean of a frame has the noise of its sum",
        Kind.RANGES,
        "release.noisy_rows.window_functions:_frame_total",
        "form.scaled(np.nan_to_num(1 / divisor))",
        "form.scaled(np.nan_to_num(0 / divisor))",
        (f"{_WINDOWS[0]}::test_most_draws_are_covered",),
    ),
    Mutant(
        "rows that QUALIFY selects by noise have ranges of their own",
        Kind.RANGES,
        "plan.noisy_rows:selects_by_noise",
        "[stage.having, stage.qualify]",
        "[stage.having]",
        ("release/test_outer_rows.py::test_a_range_relies_on_the_statements_that_its_cell_reads",),
    ),
    Mutant(
        "a left join of noisy rows drops the keys without a match",
        Kind.KEYS,
        "release.noisy_rows.combining:_join",
        "    if join.keep_left:",
        "    if join.keep_left and join.keep_right:",
        _COMBINED,
    ),
    Mutant(
        "a join needs no key",
        Kind.KEYS,
        "plan.sql.noisy_relations:_joined_keys",
        "right.keys <= bare[1]",
        "right.keys >= bare[1]",
        _COMBINED,
    ),
    Mutant(
        "the columns of a pivot come from rows",
        Kind.KEYS,
        "plan.sql.pivots:_listed_values",
        "if not isinstance(value, (exp.Literal, exp.Boolean)):",
        "if not isinstance(value, exp.Expr):",
        _COMBINED,
    ),
    Mutant(
        "a pivot of rows drops the columns that it does not read",
        Kind.KEYS,
        "plan.sql.pivots:_selects_only",
        "<= names",
        "& names",
        ("plan/sql/test_pivots.py::test_a_pivot_groups_by_the_other_columns_and_never_drops_them",),
    ),
    Mutant(
        "a CASE that noise decides is surely not NULL",
        Kind.RANGES,
        "release.noisy_rows.noisy_columns:_select_branch",
        "yes_sure & no_sure & alike",
        "yes_sure & no_sure",
        (f"{_NULLS}::test_totals_hold_whatever_is_null",),
    ),
    Mutant(
        "a cell that may be NULL counts in every frame",
        Kind.RANGES,
        "release.noisy_rows.window_functions:_frame_total",
        "is_value & null_sure",
        "is_value",
        (f"{_NULLS}::test_windows_hold_whatever_is_null",),
    ),
    Mutant(
        "a cell that noise made NULL counts in no frame",
        Kind.RANGES,
        "release.noisy_rows.window_functions:_frame_total",
        "is_value | ~null_sure",
        "is_value",
        (f"{_NULLS}::test_windows_hold_whatever_is_null",),
    ),
    Mutant(
        "what may be NULL bounds LEAST as if it were there",
        Kind.RANGES,
        "release.noisy_rows.noisy_columns:_least",
        "are_nulls_sure(column) & ~np.isnan(column.value) for",
        "~np.isnan(column.value) for",
        (f"{_NULLS}::test_totals_hold_whatever_is_null",),
    ),
    Mutant(
        "a sum of a cell that may be NULL is as sure as one that is not",
        Kind.RANGES,
        "release.noisy_rows.noisy_columns:_as_sure_as",
        "are_nulls_sure(column) & sure",
        "are_nulls_sure(column)",
        (f"{_NULLS}::test_totals_hold_whatever_is_null",),
    ),
    Mutant(
        "a comparison with a cell that may be NULL is sure",
        Kind.RANGES,
        "release.noisy_rows.noisy_columns:_as_sure_as",
        "sure=column.sure & sure",
        "sure=column.sure",
        (f"{_NULLS}::test_totals_hold_whatever_is_null",),
    ),
)

test_the_tests_of_noisy_windows_notice = suite(MUTANTS)
