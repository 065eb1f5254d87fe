"""Seeded bugs in what is said of a published table: bounds, ranges, files, checks."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_ROWS = ("publish/cells/test_answering.py::test_random_questions_hold_the_answer_of_the_rows",)
_SURE = ("publish/cells/test_answering.py::test_without_noise_the_answer_is_that_of_the_rows",)
_BINS = ("publish/cells/test_answering.py::test_what_bins_do_not_tell_is_bounded",)
_TIGHT = ("publish/cells/test_answering.py::test_bounds_are_as_tight_as_the_marginals_allow",)
_SEALS = ("publish/test_synopsis.py::test_a_manifest_with_another_hash_is_refused",)
_TOTALS = ("publish/marginals/test_group_totals.py",)
_EDITS = ("publish/test_synopsis.py::test_every_edit_of_a_file_is_found",)
_CAREFUL = ("publish/test_synopsis.py::test_careful_edits_are_found_too",)
_SIZES = ("publish/test_synopsis.py::test_sizes_are_checked_before_anything_is_made",)
_PROMISES = ("publish/test_synopsis.py::test_promises_that_are_not_kept_are_found",)
_LINES = ("publish/test_synopsis.py::test_the_line_is_looked_up_in_an_export",)
MUTANTS = (
    Mutant(
        "two marginals bound any question as they bound conjunctions",
        Kind.AUDIT,
        "publish.marginals.group_totals:_lower_bounds_from_two_marginals",
        "if not bool((u + v - w <= greatest.weights).all()):",
        "if not bool((u + v - w <= 1).all()):",
        _ROWS,
    ),
    Mutant(
        "bounds are taken from the middle of a cut bin",
        Kind.AUDIT,
        "publish.marginals.group_totals:bound_totals",
        "np.where(possible, weights.high, -np.inf)",
        "np.where(possible, weights.middle, -np.inf)",
        _ROWS,
    ),
    Mutant(
        "conjunctions are not bounded from below",
        Kind.AUDIT,
        "publish.marginals.group_totals:bound_totals",
        "        lower_bounds += _lower_bounds_from_two_marginals(greatest, sets)\n",
        "        lower_bounds += _lower_bounds_from_two_marginals(greatest, sets[:1])\n",
        _TIGHT,
    ),
    Mutant(
        "a cell that is cut counts as measured",
        Kind.AUDIT,
        "publish.marginals.group_totals:_measured_totals",
        "measured = np.asarray(~weights.ambiguous_cells.any(summed_axes, keepdims=True))",
        "measured = np.asarray(~weights.ambiguous_cells.all(summed_axes, keepdims=True))",
        _BINS,
    ),
    Mutant(
        "the variance of a group takes deviations for variances",
        Kind.ROUNDING,
        "publish.marginals.group_totals:_squared_coefficients_by_level",
        "difference.cell_variances",
        "difference.cell_variances ** 2",
        _TOTALS,
    ),
    Mutant(
        "sums of releases have the ranges of a plan that was fixed beforehand",
        Kind.AUDIT,
        "publish.synopsis:Synopsis._synopsis_estimates",
        "self._combined_releases.measured_sets, self._first_release_precisions())",
        "self._combined_releases.measured_sets)",
        _TOTALS,
    ),
    Mutant(
        "a bin holds its upper edge",
        Kind.ROUNDING,
        "publish.cells.cell_values:_cell_interval",
        "    if not cell.closed:\n        high = _adjacent_number(high, sql_type, -1)\n",
        "    if not cell.closed:\n        high = high + 0\n",
        _SURE,
    ),
    Mutant(
        "a missing text is unequal to every other",
        Kind.NAN,
        "publish.cells.cell_functions:_compare_texts",
        "~true & ~null",
        "~true",
        _SURE,
    ),
    Mutant(
        "what bins leave out is taken for missing",
        Kind.NAN,
        "publish.cells.cell_values:_uncovered_range",
        "    if at_low and at_high:\n",
        "    if at_low or at_high:\n",
        _BINS,
    ),
    Mutant(
        "the zip around the members may say anything",
        Kind.AUDIT,
        "publish.files.sealed_files:FileKind.read",
        "if list(members) != names or build_zip(members) != content:",
        "if list(members) != names:",
        _EDITS,
    ),
    Mutant(
        "a manifest is not compared with its hash",
        Kind.AUDIT,
        "publish.files.sealed_files:is_sealed",
        "isinstance(stated_hash, str) and sha256_hex(manifest.replace(_hash_entry(stated_hash), "
        "_hash_entry(''), 1).encode()) == stated_hash",
        "isinstance(stated_hash, str)",
        _SEALS,
    ),
    Mutant(
        "numbers are not compared with their hash",
        Kind.AUDIT,
        "publish.files.sealed_files:FileKind.read",
        "if self.data_member is not None and sha256_hex(other) != parsed.members[self.data_member]:",
        "if self.data_member is not None and not parsed.members[self.data_member]:",
        _CAREFUL,
    ),
    Mutant(
        "a plan may cost more than the file says",
        Kind.CHARGE_ORDER,
        "publish.files.synopsis_files:read",
        "    if manifest.charge != plan_cost(manifest.plan):",
        "    if manifest.charge > plan_cost(manifest.plan):",
        _CAREFUL,
    ),
    Mutant(
        "an Arrow file is opened whatever its size",
        Kind.WRAP,
        "publish.files.sealed_files:NumberMember.read",
        "if not 0 <= len(content) - 8 * count <= _OVERHEAD:",
        "if count < 0:",
        _SIZES,
    ),
    Mutant(
        "a promise is believed",
        Kind.DELTA,
        "publish.marginals.charge_verification:_check_release",
        "is_kept = price.is_satisfied_by(spending.compose_parts(run))",
        "is_kept = price is not None",
        _PROMISES,
    ),
    Mutant(
        "what a line paid for is not compared",
        Kind.CHARGE_ORDER,
        "publish.marginals.charge_verification:_check_payment",
        "cost == expected_cost",
        "cost != 0",
        _LINES,
    ),
)

test_the_tests_of_synopses_notice = suite(MUTANTS)
