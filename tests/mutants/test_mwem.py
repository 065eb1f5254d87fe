"""Seeded bugs where a model is fitted step by step: what one unit moves in scores and counts, and what steps cost."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOVES = ("publish/test_mwem.py::test_one_unit_moves_every_score_and_count_within_its_bound",)
_CHARGE = ("publish/test_mwem.py::test_the_charge_is_that_of_all_steps_and_nothing_is_left_over",)

MUTANTS = (
    Mutant(
        "a replaced unit moves counts as an added one",
        Kind.NEIGHBOURS,
        "plan.readings.dense_readings:cells_sensitivity",
        "    return replaced if cells > 1 else",
        "    return replaced if cells > 10**9 else",
        _MOVES,
    ),
    Mutant(
        "a choice of a count is free",
        Kind.CHARGE_ORDER,
        "curator.proposals.mwem:_MwemSeries._run_round",
        "self._release_step(ChooseStep(scores, self.steps.selection), 'a choice')",
        "ChooseStep(scores, self.steps.selection).draw(lambda r: self.tab_series.engine.read(r, 1))",
        _CHARGE,
    ),
    Mutant(
        "every step costs as much as a round",
        Kind.CHARGE_ORDER,
        "curator.proposals.mwem:MwemProposal._steps_for_epsilon",
        "epsilon * (1 - _ROW_COUNT_SHARE) / (2 * self.rounds)",
        "epsilon * (1 - _ROW_COUNT_SHARE) / self.rounds",
        _CHARGE,
    ),
    Mutant(
        "the exact number of rows starts the model",
        Kind.REUSE,
        "publish.tab_steps:MeasureStep.draw",
        "return self.to_outcome(measurement.draw(self.view.extract(read(self.readings[0]))))",
        "return self.to_outcome(self.view.extract(read(self.readings[0])))",
        ("publish/test_mwem.py::test_what_is_measured_has_noise",),
    ),
    Mutant(
        "an interrupt of multiplicative weights gives nothing back",
        Kind.CHARGE_ORDER,
        "curator.proposals.mwem:_MwemSeries.charge_and_run",
        "self.tab_series.tab.stop()",
        "self.tab_series.tab.forfeit()",
        ("publish/test_mwem.py::test_an_interrupt_between_steps_gives_the_model_so_far",),
    ),
    Mutant(
        "ranges of a model count on marginals that were chosen beforehand",
        Kind.REUSE,
        "publish.mwem:MwemFit.estimates_from_measurements",
        "return SynopsisEstimates(estimates, sets, {block: self._prior_precision(block) for block in estimates.parts})",
        "return SynopsisEstimates(estimates, sets)",
        ("publish/test_mwem.py::test_questions_are_measured_or_bounded_and_their_ranges_hold_the_truth",),
    ),
    Mutant(
        "a model with Laplace noise has the ranges of Gaussian noise",
        Kind.SAMPLING,
        "publish.published_files:FittedModel.sql",
        "if isinstance(self.fit.noise, Laplace):",
        "if isinstance(self.fit.noise, str):",
        ("publish/test_mwem.py::test_a_model_is_written_and_read_back_to_the_bit",),
    ),
    Mutant(
        "a file names who bought it and what they have left",
        Kind.REUSE,
        "publish.files.fitted_files:to_bytes",
        "FitManifest(_FORMAT, sealed_files.member_hashes(), fit, public_receipt(receipt))",
        "FitManifest(_FORMAT, sealed_files.member_hashes(), fit, receipt)",
        ("publish/test_mwem.py::test_a_model_is_written_and_read_back_to_the_bit",),
    ),
    Mutant(
        "the notes' update is made in the wrong direction",
        Kind.SAMPLING,
        "publish.mwem:threshold_update",
        "1 - math.copysign(rate, gap)",
        "1 + math.copysign(rate, gap)",
        ("publish/test_mwem.py::test_the_notes_update_is_the_one_that_was_written_down",),
    ),
    Mutant(
        "the notes' update is made within the threshold, too",
        Kind.SAMPLING,
        "publish.mwem:threshold_update",
        "if abs(gap) <= threshold:",
        "if abs(gap) <= 0:",
        ("publish/test_mwem.py::test_the_notes_update_is_the_one_that_was_written_down",),
    ),
    Mutant(
        "the notes' step is √(T/ln|X|)",
        Kind.SAMPLING,
        "publish.mwem:MwemModel.thresholded",
        "math.log(math.prod(shape)) / rounds",
        "rounds / math.log(math.prod(shape))",
        ("publish/test_mwem.py::test_the_notes_update_is_the_one_that_was_written_down",),
    ),
    Mutant(
        "answers by the notes are taken from the last round, whatever it did",
        Kind.RANGES,
        "publish.mwem:MwemModel.fitted_weights",
        "if self.settled_weights is not None:",
        "if self.settled_weights is None and self.rounds and (not self.textbook):",
        ("publish/test_mwem.py::test_the_notes_update_is_the_one_that_was_written_down",),
    ),
    Mutant(
        "too few rounds are taken for the notes' step",
        Kind.RANGES,
        "curator.proposals.mwem:_require_valid_update",
        "math.ceil(4 * math.log(cells))",
        "math.ceil(2 * math.log(cells))",
        ("publish/test_mwem.py::test_updates_that_no_theorem_covers_are_refused",),
    ),
    Mutant(
        "the notes' threshold is α",
        Kind.FACTOR_TWO,
        "curator.proposals.mwem:MwemProposal._update_threshold",
        "math.ceil(2 * max(steepest, *errors))",
        "math.ceil(max(steepest, *errors))",
        ("publish/test_mwem.py::test_a_model_by_the_notes_is_released_replayed_and_read_back",),
    ),
    Mutant(
        "n of multiplicative weights forgets that there are two steps a round",
        Kind.FACTOR_TWO,
        "privacy.theorems:multiplicative_weights",
        "promise.epsilon / (2 * rounds)",
        "promise.epsilon / rounds",
        ("privacy/test_theorems.py::test_what_multiplicative_weights_need",),
    ),
    Mutant(
        "multiplicative weights run a quarter of their rounds",
        Kind.RANGES,
        "privacy.theorems:multiplicative_weights",
        "math.ceil(4 * math.log(cell_count)",
        "math.ceil(math.log(cell_count)",
        ("privacy/test_theorems.py::test_what_multiplicative_weights_need",),
    ),
    Mutant(
        "half as many people are said to be enough for multiplicative weights",
        Kind.FACTOR_TWO,
        "privacy.theorems:multiplicative_weights",
        "math.ceil(2 * log_term * _ROUND_UP",
        "math.ceil(log_term * _ROUND_UP",
        ("privacy/test_theorems.py::test_what_multiplicative_weights_need",),
    ),
)

test_the_tests_of_fitting_notice = suite(MUTANTS)
