"""Seeded bugs in what is told for nothing: advice, descriptions, checks, and a δ that changes nothing."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "a ratio of totals has one width for all sizes",
        Kind.RANGES,
        "curator.previews.error_forecasts:_are_widths_constant",
        "type(reference) in (Key, Result)",
        "True",
        ("curator/previews/test_error_forecasts.py",),
    ),
    Mutant(
        "a mean has one width for all sizes",
        Kind.RANGES,
        "curator.previews.error_forecasts:_are_widths_constant",
        "isinstance(result.estimator, TotalEstimate)",
        "True",
        ("curator/previews/test_error_forecasts.py",),
    ),
    Mutant(
        "what is said to be from the policy alone opens the data",
        Kind.REUSE,
        "engine.public_tables:policy_over_empty_tables",
        "empty = {name: replace(table, source=_empty_table(table, policy), relation=None) for",
        "empty = {name: replace(table, source=table.source) for",
        ("curator/test_policy_alone.py::test_no_row_is_in_it",),
    ),
    Mutant(
        "exact figures are found where only what is public was asked for",
        Kind.REUSE,
        "curator.checking:_check_table",
        "private and (not table.public)",
        "not table.public",
        ("curator/test_checking.py::test_opening_and_asking_do_not_depend_on_it",),
    ),
    Mutant(
        "what a tighter limit gives is told of the limit as it is",
        Kind.LIMITS,
        "curator.previews.advising:_with_tightened_limit",
        "return limits.tighten(rows, groups, rows_per_group)",
        "return limits.tighten(None, None, rows_per_group)",
        ("curator/previews/test_advising.py",),
    ),
    Mutant(
        "an advised bound is beyond what WHERE leaves",
        Kind.SENSITIVITY,
        "curator.previews.advising:_clamp_function_and_old_and_new_bound",
        "cast('Sum | Mean', narrow_range(measure, predicates)).clamp_range",
        "measure.clamp_range",
        ("curator/previews/test_advising.py::test_an_advised_bound_narrows_what_the_conditions_leave",),
    ),
    Mutant(
        "a bound that is advised leaves the range of its column",
        Kind.SENSITIVITY,
        "curator.previews.advising:_clamp_function_and_old_and_new_bound",
        "if not low < new_bound < high:",
        "if not new_bound < high:",
        ("curator/previews/test_advising.py::test_a_bound_is_not_moved_out_of_the_range",),
    ),
    Mutant(
        "the advice of an earlier answer stands beside one with another confidence",
        Kind.REUSE,
        "curator.proposals.question_advice:_cached_best_tip",
        "last_prepared is not prepared or last_request != request",
        "last_prepared is not prepared",
        ("curator/previews/test_advising.py::test_advice_beside_a_repeated_release_is_that_of_its_own_terms",),
    ),
    Mutant(
        "the advice of an earlier answer stands beside one at another price",
        Kind.REUSE,
        "curator.proposals.question_advice:_cached_best_tip",
        "last_prepared is not prepared or last_request != request",
        "last_prepared is None",
        ("curator/previews/test_advising.py::test_advice_beside_a_repeated_release_is_that_of_its_own_terms",),
    ),
    Mutant(
        "rows of nobody are among those that a limit leaves out",
        Kind.LIMITS,
        "engine.duckdb.inspection:_inspection_statement",
        "'sf_cells WHERE k'",
        "'sf_cells'",
        ("curator/test_checking.py::test_losses_by_limit",),
    ),
)


test_the_tests_of_advice_notice = suite(MUTANTS)
