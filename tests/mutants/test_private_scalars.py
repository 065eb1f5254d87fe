"""Seeded bugs of questions whose rows are compared with a released number."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_SAFETY = "safety/test_private_scalars.py"
_LAW = f"{_SAFETY}::test_no_outcome_of_both_steps_is_more_than_the_price_likelier_next_door"
_ADDED = f"{_SAFETY}::test_the_shares_add_up_to_the_price"
_SAME_NOISE = f"{_SAFETY}::test_the_noise_and_the_groups_are_the_same_whatever_the_number_is"
_PENDING = f"{_SAFETY}::test_what_has_no_number_yet_is_never_read"
_FACADE = "curator/proposals/test_private_scalars.py"
_SHOWN = f"{_FACADE}::test_the_number_shown_is_the_one_that_rows_are_compared_with"
_SPENT = f"{_FACADE}::test_the_tab_spends_all_steps_once"
_CLAMPED = f"{_FACADE}::test_released_numbers_are_clamped_to_what_is_declared"
_READ = f"{_FACADE}::test_a_dry_charge_has_what_every_step_reads"
_BOUND = f"{_FACADE}::test_a_step_that_cannot_be_bound_is_refused_before_the_first_is_charged"
_APPROVED = "server/test_approvals.py::test_a_released_number_of_another_table_needs_its_approval"
_SHARED = "server/test_approvals.py::test_a_share_covers_what_every_released_number_reads"
_DELTA = "curator/test_default_delta.py::test_a_stored_answer_is_free_once_no_delta_is_left"
_SCALARS = "curator.proposals.private_scalars"
MUTANTS = (
    Mutant(
        "the released number costs nothing",
        Kind.CHARGE_ORDER,
        f"{_SCALARS}:PricedSteps.curves",
        "for step in self.steps",
        "for step in (self.outer,)",
        (_LAW,),
    ),
    Mutant(
        "the second step has the whole price",
        Kind.FACTOR_TWO,
        f"{_SCALARS}:_split_price",
        "(VALUE_SHARE / count, 1 - VALUE_SHARE)",
        "(VALUE_SHARE / count, Fraction(1))",
        (_ADDED,),
    ),
    Mutant(
        "several released numbers have a share each",
        Kind.FACTOR_TWO,
        f"{_SCALARS}:_split_price",
        "(VALUE_SHARE / count, 1 - VALUE_SHARE)",
        "(VALUE_SHARE, 1 - VALUE_SHARE)",
        (_ADDED,),
    ),
    Mutant(
        "the forecast has the range that one number leaves",
        Kind.RANGES,
        f"{_SCALARS}:ScalarQuestion.outer",
        "query = replace(self.query, value_queries=())",
        "query = with_released_values(replace(self.query, value_queries=()), "
        "[value.domain.range[0] for value in self.query.value_queries])",
        (_SAME_NOISE,),
    ),
    Mutant(
        "a released number has no range",
        Kind.SENSITIVITY,
        "plan.sql.released_scalars:_value_domain",
        "possible is None",
        "True",
        (_SAME_NOISE,),
    ),
    Mutant(
        "what has no number yet is compared with nothing",
        Kind.NAN,
        "engine.lowering.row_lowering:RowLowering.lower",
        "self.columns[expression.reference]",
        "self.columns.get(expression.reference, null_constant(expression.domain.type))",
        (_PENDING,),
    ),
    Mutant(
        "the number is drawn again to be shown",
        Kind.REUSE,
        f"{_SCALARS}:ScalarQuestion._run_steps",
        "results = [*map(steps.with_opening_line, (*measured, outer))]",
        "measured = [steps.charge_and_release(release, 'again') for release in self._value_releases(prepared)]; "
        "results = [*map(steps.with_opening_line, (*measured, outer))]",
        (_SHOWN, _SPENT),
    ),
    Mutant(
        "the rows are compared with another number than is shown",
        Kind.REUSE,
        f"{_SCALARS}:ScalarQuestion._run_steps",
        "self._outer_release(prepared, self._released_values(measured))",
        "self._outer_release(prepared, extreme_value_combinations(self._value_domains)[1])",
        (_SHOWN,),
    ),
    Mutant(
        "the second number takes the place of the first",
        Kind.REUSE,
        "plan.sql.released_scalars:lower_with_released_scalars",
        "queries.index(value)",
        "0",
        (f"{_FACADE}::test_without_noise_it_is_what_duckdb_computes",),
    ),
    Mutant(
        "a released number is not clamped at its upper end",
        Kind.RANGES,
        "plan.released_values:value_in_domain",
        "min(number, Fraction(high))",
        "number",
        (_CLAMPED,),
    ),
    Mutant(
        "a question with a released number is part of a workload without it",
        Kind.CHARGE_ORDER,
        f"{_SCALARS}:ScalarQuestion.bounding_options",
        "require_no_released_values(self.query)",
        "pass",
        (f"{_FACADE}::test_what_is_made_of_one_release_refuses_it_before_it_is_charged",),
    ),
    Mutant(
        "approval rules see the first step alone",
        Kind.CONSENT,
        "curator.proposals.tab_releases:SteppedRelease.open_tab_and_run",
        "check(*first.readings, *later_readings)",
        "check(*first.readings)",
        (_APPROVED,),
    ),
    Mutant(
        "approval rules see the first number and the question",
        Kind.CONSENT,
        f"{_SCALARS}:ScalarQuestion.release",
        "[*_readings_of(others), *self._outer_readings_at_extreme_values(prepared)]",
        "self._outer_readings_at_extreme_values(prepared)",
        (_SHARED,),
    ),
    Mutant(
        "the last number is not bound before the charge",
        Kind.CHARGE_ORDER,
        f"{_SCALARS}:ScalarQuestion.release",
        "_readings_of(others)",
        "_readings_of(others[:-1])",
        (
            _READ,
            _BOUND,
        ),
    ),
    Mutant(
        "the question itself is not bound before the charge",
        Kind.CHARGE_ORDER,
        f"{_SCALARS}:ScalarQuestion._outer_readings_at_extreme_values",
        "_readings_of((self._outer_release(prepared, values) for values in combinations))",
        "[]",
        (_BOUND,),
    ),
    Mutant(
        "numbers at different ends are not bound",
        Kind.CHARGE_ORDER,
        "plan.released_values:extreme_value_combinations",
        "(lows, highs, *mixed, (None,) * len(ends))",
        "(lows, highs, (None,) * len(ends))",
        (_BOUND,),
    ),
    Mutant(
        "a question without any number is not bound",
        Kind.CHARGE_ORDER,
        "plan.released_values:extreme_value_combinations",
        "(lows, highs, *mixed, (None,) * len(ends))",
        "(lows, highs, *mixed)",
        (_BOUND,),
    ),
    Mutant(
        "numbers at their upper ends are not bound",
        Kind.CHARGE_ORDER,
        "plan.released_values:extreme_value_combinations",
        "(lows, highs, *mixed, (None,) * len(ends))",
        "(lows, *mixed, (None,) * len(ends))",
        (_BOUND,),
    ),
    Mutant(
        "an answer too large to store is found after the first step is charged",
        Kind.CHARGE_ORDER,
        f"{_SCALARS}:ScalarQuestion._dry_run_answer",
        "releasing.dry_run(release).value",
        "release.result_at_extreme_totals()",
        (f"{_FACADE}::test_an_answer_too_large_to_store_is_refused_before_the_first_step_is_charged",),
    ),
    Mutant(
        "a stored answer gives every request a delta",
        Kind.DELTA,
        "curator.proposals.question_advice:with_offered_delta",
        "offered if release is None or not is_stored(release, question.plan_key, context) else assumed",
        "assumed",
        (_DELTA,),
    ),
)

test_the_tests_of_released_numbers_notice = suite(MUTANTS)
