"""Seeded bugs where a synthetic table is bought: what one unit moves, what steps cost, and what is never shown."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOVES = ("publish/synthesis/test_scores.py::test_one_unit_moves_every_score_and_count_within_its_bound",)
_COSTS = (
    "publish/synthesis/test_budget.py::test_all_steps_together_cost_what_was_claimed_and_no_more_than_the_price",
    "publish/synthesis/test_budget.py::test_noise_and_choices_never_cost_more_than_is_meant_for_them",
)
_LEDGER = ("curator/proposals/test_synthesis.py::test_the_ledger_has_every_step_and_nothing_else",)
_ROWS = ("curator/proposals/test_synthesis.py::test_the_number_of_rows_is_never_exact_and_rests_on_what_was_released",)

MUTANTS = (
    Mutant(
        "a weight does not count in how far a score moves",
        Kind.SENSITIVITY,
        "plan.readings.cell_rows:ColumnSetDistances.sensitivity",
        "weight * cells_sensitivity(self.bounded, 1 + has_several_cells).total",
        "1 * cells_sensitivity(self.bounded, 1 + has_several_cells).total",
        _MOVES,
    ),
    Mutant(
        "scores need not be whole",
        Kind.SENSITIVITY,
        "plan.readings.cell_rows:ColumnSetDistances.__post_init__",
        "values.dtype != np.int64",
        "values.dtype == object",
        ("publish/synthesis/test_scores.py::test_scores_are_whole_numbers_or_refused",),
    ),
    Mutant(
        "a replaced unit moves counts of coded rows as an added one",
        Kind.NEIGHBOURS,
        "plan.readings.cell_rows:CellCounts.sensitivity",
        "return cells_sensitivity(self.bounded, self.size)",
        "return cells_sensitivity(self.bounded, 1)",
        _MOVES,
    ),
    Mutant(
        "indices of cells wrap",
        Kind.WRAP,
        "plan.readings.cell_rows:CodedRows._count_cells",
        "np.min_scalar_type(cells)",
        "np.min_scalar_type(cells // 2)",
        ("publish/synthesis/test_scores.py::test_cells_are_counted_whatever_integers_hold_them",),
    ),
    Mutant(
        "rows with different weights count as the first",
        Kind.SENSITIVITY,
        "plan.readings.cell_rows:CodedRows._common_total",
        "bool((self.totals == total).all())",
        "True",
        ("publish/synthesis/test_scores.py::test_cells_are_counted_whatever_integers_hold_them",),
    ),
    Mutant(
        "the exact number of rows is released",
        Kind.REUSE,
        "publish.tab_steps:MeasureStep.draw",
        "return self.to_outcome(measurement.draw(self.view.extract(read(self.readings[0]))))",
        "exact = self.view.extract(read(self.readings[0]))\n"
        "    return self.to_outcome(measurement.draw(exact) if self.view.attribute_set else exact)",
        _ROWS,
    ),
    Mutant(
        "a choice costs nothing",
        Kind.CHARGE_ORDER,
        "publish.synthesis.budget:Concentrated.choice_cost",
        "8",
        "80",
        _COSTS,
    ),
    Mutant(
        "a choice of what to measure next is free",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisStepRunner.charge_and_run",
        "run_steps(steps, self._release_step)",
        "run_steps(steps, lambda s: self._release_step(s) if isinstance(s, MeasureStep) else s.draw(lambda r:"
        " self.tab_series.engine.read(r, 1)))",
        _LEDGER,
    ),
    Mutant(
        "more is spent than there is",
        Kind.CHARGE_ORDER,
        "publish.synthesis.budget:SynthesisBudget.charge",
        "if cost > self.remaining:",
        "if cost > 2 * self.remaining:",
        ("publish/synthesis/test_budget.py::test_what_is_spent_never_passes_what_there_is",),
    ),
    Mutant(
        "a promise in ε and δ is kept by continuous Gaussian noise alone",
        Kind.CHARGE_ORDER,
        "publish.synthesis.budget:price_in_currency",
        "meets(Curve.concentrated(1 / size), guarantee)",
        "meets(Curve.gaussian(size / 2, 1), guarantee)",
        ("publish/synthesis/test_budget.py::test_a_promise_in_epsilon_and_delta_is_kept_by_all_of_rho",),
    ),
    Mutant(
        "what is held leaves out how charges are rounded up",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:amount_to_hold",
        "units_rounded_up(rounded_up)",
        "0 * units_rounded_up(rounded_up)",
        ("curator/proposals/test_synthesis.py::test_at_every_order_of_the_account_what_is_held_covers_all_steps",),
    ),
    Mutant(
        "an interrupt of a synthesis gives nothing back",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisStepRunner.charge_and_run",
        "except KeyboardInterrupt:\n        self.tab.stop()",
        "except KeyboardInterrupt:\n        self._end_at_time_limit()",
        ("curator/proposals/test_synthesis.py::test_an_interrupt_between_steps_gives_the_rest_back",),
    ),
    Mutant(
        "a clock gives back",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisStepRunner.charge_and_run",
        "except _TimeLimitReached:\n        self._end_at_time_limit()",
        "except _TimeLimitReached:\n        self.tab.stop()",
        ("curator/proposals/test_synthesis.py::test_when_the_time_is_up_the_model_so_far_is_given_and_nothing_back",),
    ),
    Mutant(
        "a step that the clock refuses gives back",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisStepRunner.charge_and_run",
        "raise\n        self._end_at_time_limit()",
        "raise\n        self.tab.stop()",
        ("curator/proposals/test_synthesis.py::test_a_step_that_the_clock_refuses_leaves_the_model_so_far",),
    ),
    Mutant(
        "the last round leaves some of the price",
        Kind.CHARGE_ORDER,
        "publish.synthesis.methods:_choose_and_measure",
        "course.budget.remaining if is_last else amounts.measurement",
        "amounts.measurement / 2 if is_last else amounts.measurement",
        _COSTS,
    ),
    Mutant(
        "impossible cells are measured and modelled like others",
        Kind.REUSE,
        "publish.synthesis.candidates:zeros_from_policy",
        "        if attribute_set and cells.any():",
        "        if attribute_set and cells.all():",
        ("curator/proposals/test_synthesis.py::test_impossible_cells_stay_empty",),
    ),
    Mutant(
        "cells of one marginal share their noise",
        Kind.REUSE,
        "publish.tab_steps:MeasureStep.draw",
        "return self.to_outcome(measurement.draw(self.view.extract(read(self.readings[0]))))",
        "own = self.view.extract(read(self.readings[0]))\n    return self.to_outcome(own + "
        "measurement.draw(0 * own[:1]))",
        ("safety/test_drawn_apart.py::test_every_number_is_drawn_for_itself[synthetic_tables]",),
    ),
    Mutant(
        "empty cells have no noise",
        Kind.KEYS,
        "publish.tab_steps:MeasureStep.draw",
        "return self.to_outcome(measurement.draw(self.view.extract(read(self.readings[0]))))",
        "own = self.view.extract(read(self.readings[0]))\n"
        "    return self.to_outcome(np.where(own == 0, 0, measurement.draw(own)))",
        ("safety/test_drawn_apart.py::test_every_number_is_drawn_for_itself[synthetic_tables]",),
    ),
    Mutant(
        "the largest score is chosen",
        Kind.REUSE,
        "publish.tab_steps:ChooseStep.draw",
        "return ChosenCandidate(int(measurement.draw(self.scores.extract(read(self.readings[0])))))",
        "return ChosenCandidate(int(np.argmax(self.scores.extract(read(self.readings[0])))) + 0 * bool(measurement))",
        ("publish/synthesis/test_scores.py::test_a_choice_is_drawn_and_not_the_largest_score",),
    ),
    Mutant(
        "a model forgets which column decides another",
        Kind.KEYS,
        "publish.synthesis.state:SynthesisState.finish",
        "if ruled_out:",
        "if not ruled_out:",
        ("publish/synthesis/test_implications.py::test_every_row_keeps_what_columns_decide",),
    ),
    Mutant(
        "the pair of a column that decides another is not measured",
        Kind.KEYS,
        "publish.synthesis.state:SynthesisState.measure_dependent_pairs",
        "for pair in self.setting.pairs:",
        "for pair in self.setting.pairs[:0]:",
        ("publish/synthesis/test_implications.py::test_every_row_keeps_what_columns_decide",),
    ),
    Mutant(
        "older models draw rows that break what columns decide",
        Kind.KEYS,
        "publish.synthetic:Synthetic.sampling_model",
        "self.model.conditioned_on_zeros([*missing, *decided])",
        "self.model.conditioned_on_zeros([*missing])",
        ("publish/synthesis/test_implications.py::test_models_that_were_fitted_without_it_open_and_keep_it",),
    ),
    Mutant(
        "columns that are never NULL are drawn as NULL",
        Kind.NAN,
        "publish.synthetic:Synthetic.sampling_model",
        "self.model.conditioned_on_zeros([*missing, *decided])",
        "self.model.conditioned_on_zeros([*decided])",
        ("publish/synthesis/test_implications.py::test_columns_that_are_not_nullable_are_drawn_without_nulls",),
    ),
    Mutant(
        "quality is told of another law than rows are drawn from",
        Kind.AUDIT,
        "publish.synthetic:Synthetic.quality",
        "model_quality(self.sampling_model, ",
        "model_quality(self.model, ",
        (
            ""
            "publish/synthesis/test_implications.py::test_the_mass_of_what_is_missing_goes_to_the_declared_cells_by_their_shares",
        ),
    ),
    Mutant(
        "a town is decided to have no region",
        Kind.NAN,
        "publish.synthesis.candidates:zeros_from_model",
        "impossible[:, -1] = decided in required",
        "impossible[:, -1] = False",
        ("publish/synthesis/test_implications.py::test_the_decided_cell_is_none_that_is_known_to_be_empty",),
    ),
    Mutant(
        "a decided bin has any value in every row",
        Kind.KEYS,
        "publish.synthetic:Synthetic.typed_rows",
        "for deciding, attribute_index in self._decided_binned_columns:",
        "for deciding, attribute_index in self._decided_binned_columns[:0]:",
        ("publish/synthesis/test_implications.py::test_other_shapes_of_what_decides_are_kept",),
    ),
    Mutant(
        "a column leaves the model that decides another",
        Kind.KEYS,
        "publish.synthesis.candidates:implied_columns",
        "if decided not in dict(pairs):",
        "if decided:",
        (
            ""
            "publish/synthesis/test_implications.py::test_levels_that_say_how_are_kept_where_the_decided_column_is_asked_for",
        ),
    ),
    Mutant(
        "a forecast leaves out the sets within those of the workload",
        Kind.AUDIT,
        "publish.synthesis.candidates:_column_subsets",
        "for sets in index_arrays",
        "for sets in index_arrays if sets.shape[1] == count",
        ("publish/synthesis/test_candidates.py::test_sets_as_arrays_are_those_of_the_closure_in_its_order",),
    ),
    Mutant(
        "a forecast takes sets of any size",
        Kind.AUDIT,
        "publish.synthesis.forecasting:_nearest_in_size",
        "np.lexsort((near * _GOLDEN % 1, distances[near]))",
        "np.lexsort((distances[near], near * _GOLDEN % 1))",
        ("publish/synthesis/test_forecasting.py::test_sets_are_ordered_by_how_near_their_size_is",),
    ),
    Mutant(
        "a synthesis is bounded for a unit that is added, whatever the neighbours are",
        Kind.NEIGHBOURS,
        "curator.proposals.synthesis:SynthesisProposal._bounded_plan",
        "return for_neighbours(bounded, self._context.policy.neighbours)",
        "return bounded",
        _MOVES,
    ),
    Mutant(
        "rows of a synthesis are read before its first charge",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis_series:SynthesisStepRunner.__post_init__",
        "self.tab = self.tab_series.tab",
        "self.tab = self.tab_series.tab\n    self.tab_series.engine.read(self.synthesis.setting.reading, 1)",
        ("curator/proposals/test_synthesis.py::test_each_step_is_charged_before_it_reads_and_rows_are_read_once",),
    ),
    Mutant(
        "marginals are kept by their shapes",
        Kind.REUSE,
        "plan.readings.cell_rows:CodedRows.marginal",
        "if columns in self._cached_marginals:\n        return self._cached_marginals[columns]",
        "alike = {tuple((self.sizes[one] for one in key)): kept for key, kept in self._cached_marginals.items()}\n"
        "    if (shape := tuple((self.sizes[one] for one in columns))) in alike:\n"
        "        return alike[shape]",
        ("publish/synthesis/test_scores.py::test_marginals_of_coded_rows_are_those_of_the_rows",),
    ),
    Mutant(
        "a score that is too large to be a number ends a synthesis",
        Kind.WRAP,
        "plan.readings.cell_rows:ColumnSetDistances.extract",
        "return np.array([max(-LARGEST_INTEGER, min(LARGEST_INTEGER, score)) for score in scores], np.int64)",
        "return np.array(scores, np.int64)",
        ("publish/synthesis/test_scores.py::test_scores_beyond_what_a_number_holds_are_cut",),
    ),
    Mutant(
        "candidates are compared with an older model",
        Kind.REUSE,
        "publish.synthesis.state:SynthesisState.fit",
        "self._predicted = {}",
        "pass",
        ("publish/synthesis/test_scores.py::test_scores_are_of_the_model_as_it_was_fitted_last",),
    ),
)

test_the_tests_of_synthesis_notice = suite(MUTANTS)
