"""Seeded bugs of running totals: what a unit moves through a matrix, and how far sums of noises lie from zero."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOVED = "plan/readings/test_factored_totals.py"
_SUMS = "mechanisms/test_weighted_sums.py"
_FACADE = "curator/proposals/test_running_counts.py"
MUTANTS = (
    Mutant(
        "a row is in one block alone",
        Kind.SENSITIVITY,
        "plan.readings.combining:FactoredTotals.sensitivity",
        "int(magnitudes.sum(axis=0).max())",
        "int(magnitudes.max())",
        (_MOVED,),
    ),
    Mutant(
        "rows of several periods do not add up",
        Kind.SENSITIVITY,
        "plan.readings.combining:FactoredTotals._squared_norm_bound",
        "count = min(int(full_periods), periods)",
        "count = 1",
        (_MOVED,),
    ),
    Mutant(
        "columns that point away from each other are taken to point the same way",
        Kind.NEIGHBOURS,
        "plan.readings.combining:FactoredTotals.sensitivity",
        "not scaled.signed and bool((self._gram_matrix >= 0).all())",
        "True",
        (_MOVED,),
    ),
    Mutant(
        "the length of columns is found before signs are taken off",
        Kind.SENSITIVITY,
        "plan.readings.combining:FactoredTotals._squared_norm_bound",
        "largest = -np.sort(-np.abs(self._gram_matrix), axis=1)",
        "largest = -np.sort(-self._gram_matrix, axis=1)",
        (_MOVED,),
    ),
    Mutant(
        "weights are larger than those that are charged",
        Kind.FACTOR_TWO,
        "plan.readings.combining:FactoredTotals.extract",
        "@ self.weights.T).reshape(-1)",
        "@ (2 * self.weights).T).reshape(-1)",
        (_MOVED, f"{_FACADE}::test_no_unit_moves_what_is_measured_further_than_is_charged"),
    ),
    Mutant(
        "noise is calibrated to one step",
        Kind.SENSITIVITY,
        "curator.proposals.running_counts:_calibrate_noise",
        "    size = family.norm(sensitivity)\n",
        "    size = Fraction(1)\n",
        (f"{_FACADE}::test_what_is_charged_keeps_the_price",),
    ),
    Mutant(
        "the total is rounded to what was not drawn",
        Kind.ROUNDING,
        "mechanisms.factorisations:_cached_decoder",
        "    return np.linalg.solve(weights.T @ weights, _prefix_sum_matrix(factorisation.periods).T).T @ weights.T",
        "    return np.linalg.solve(weights.T @ weights, np.eye(factorisation.periods)).T @ weights.T",
        ("mechanisms/test_factorisations.py::test_running_totals_are_made_of_what_is_measured",),
    ),
    Mutant(
        "a range is of the continuous law, whatever is drawn",
        Kind.ROUNDING,
        "mechanisms.noise_sums:laplace_widths",
        "continuous_scale * standard_widths + smoothing_widths",
        "scale * standard_widths",
        (_SUMS,),
    ),
    Mutant(
        "what the series leaves out is forgotten",
        Kind.ROUNDING,
        "mechanisms.noise_sums:continuous_widths",
        "2 * truncation + miss * 0.0001 + 1e-13",
        "np.zeros_like(truncation)",
        (_SUMS,),
    ),
    Mutant(
        "the noise of every day is as if drawn once for each of its terms",
        Kind.SAMPLING,
        "mechanisms.noise_sums:gaussian_widths",
        "np.asarray(lengths)",
        "np.asarray(lengths) ** 0.5",
        (_SUMS,),
    ),
    Mutant(
        "counts of single days are taken for running totals",
        Kind.REUSE,
        "curator.proposals.running_counts:RunningTotalsProposal.plan_key",
        "self.question.plan_key.derive(lambda key: digest('running', key, self.period))",
        "self.question.plan_key",
        (f"{_FACADE}::test_they_are_bought_once_shown_again_and_read_back",),
    ),
    Mutant(
        "a question is taken whose policy proved less of it",
        Kind.SENSITIVITY,
        "curator.proposals.running_counts:propose_running_totals",
        "    if not question.belongs_to(context):\n",
        "    if False:\n",
        (f"{_FACADE}::test_a_question_of_another_curator_is_refused",),
    ),
    Mutant(
        "who made a question pays for its running totals",
        Kind.CHARGE_ORDER,
        "curator.proposals.running_counts:propose_running_totals",
        "    question = replace(question, _context=context)\n",
        "",
        (f"{_FACADE}::test_who_asks_for_running_totals_pays",),
    ),
)

test_the_tests_of_running_totals_notice = suite(MUTANTS)
