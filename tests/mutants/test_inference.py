"""Seeded bugs in what is inferred from released numbers: noise that is left out, and rows that are counted twice."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_ESTIMATES = "inference/test_survival_estimates.py"
_SCORES = "inference/test_score_tests.py"
_TESTS = "inference/test_hypothesis_tests.py"
_CURVES = "curator/proposals/test_survival.py"
MUTANTS = (
    Mutant(
        "a number at risk has the noise of one count",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable.at_risk_deviation",
        "2 * remaining * self.law.variance",
        "self.law.variance + 0 * remaining",
        (_ESTIMATES,),
    ),
    Mutant(
        "numbers at risk are taken to be exact in bands",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable.noise_weights",
        "at_risk_part = -hazard * (cell >= period)",
        "at_risk_part = 0 * hazard * (cell >= period)",
        (_ESTIMATES,),
    ),
    Mutant(
        "a number at risk depends on one later cell",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable.noise_weights",
        "(cell >= period)",
        "(cell == period)",
        (_ESTIMATES,),
    ),
    Mutant(
        "bands leave out the noise",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable._simulated",
        "return (noise, noise + sampling)",
        "return (noise, sampling)",
        (f"{_ESTIMATES}::test_bands_and_intervals_cover",),
    ),
    Mutant(
        "bands leave out the sampling error",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable._simulated",
        "return (noise, noise + sampling)",
        "return (noise, noise)",
        (f"{_ESTIMATES}::test_bands_and_intervals_cover",),
    ),
    Mutant(
        "a band holds at each time alone",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable.band_width",
        ".max(axis=1)",
        ".mean(axis=1)",
        (f"{_ESTIMATES}::test_bands_and_intervals_cover",),
    ),
    Mutant(
        "a band ends above 0 where everybody left has the event",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable.limits",
        "if first < self.length:",
        "if first < 0:",
        (f"{_ESTIMATES}::test_bands_cover_where_nearly_all_have_the_event",),
    ),
    Mutant(
        "one event more than all of a few makes a variance negative",
        Kind.RANGES,
        "inference.survival_estimates:LifeTable.greenwood",
        "np.minimum(np.maximum(self.hazard, 0.0) + 1 / self.at_risk[:self.length], _MAX_HAZARD)",
        "np.maximum(self.hazard, 0.0) + 1 / self.at_risk[:self.length]",
        (f"{_ESTIMATES}::test_a_curve_lies_within_its_ranges_whatever_its_hazards",),
    ),
    Mutant(
        "the null of the log-rank test has no noise",
        Kind.RANGES,
        "inference.survival_estimates:log_rank",
        "seeded.poisson(means, draws) + law.draw(seeded, draws, *means.shape)",
        "seeded.poisson(means, draws)",
        (f"{_ESTIMATES}::test_the_log_rank_test_keeps_its_level_under_noise_and_finds_a_difference",),
    ),
    Mutant(
        "a patient who is replaced is in one cell of a survival curve, not in two",
        Kind.NEIGHBOURS,
        "plan.bounding:_for_neighbours",
        "total = min(changed.total, euclidean)",
        "total = min(added.total, euclidean)",
        (f"{_CURVES}::test_a_unit_is_in_one_cell_whatever_the_number_of_periods",),
    ),
    Mutant(
        "a unit with several rows is in several cells",
        Kind.LIMITS,
        "curator.proposals.survival:_require_one_row",
        "max_rows(question) == 1",
        "True",
        (f"{_CURVES}::test_several_rows_of_a_unit_are_refused",),
    ),
    Mutant(
        "the null of independence has no noise",
        Kind.RANGES,
        "inference.score_tests:independence",
        "seeded.poisson(expected, draws) + law.draw(seeded, draws, *cells.shape)",
        "seeded.poisson(expected, draws)",
        (f"{_SCORES}::test_the_level_is_kept_under_noise",),
    ),
    Mutant(
        "the null of a fit has no noise",
        Kind.RANGES,
        "inference.score_tests:fit",
        "seeded.poisson(expected, draws) + law.draw(seeded, draws, len(cells))",
        "seeded.poisson(expected, draws)",
        (f"{_SCORES}::test_the_level_is_kept_under_noise",),
    ),
    Mutant(
        "the null of equal means has half the noise",
        Kind.FACTOR_TWO,
        "inference.score_tests:_simulate_scores",
        "noise = groups.law.draw(seeded, draws, 2, len(sizes))",
        "noise = 0.5 * groups.law.draw(seeded, draws, 2, len(sizes))",
        (f"{_SCORES}::test_the_level_is_kept_under_noise",),
    ),
    Mutant(
        "the null of a correlation has no noise of products",
        Kind.RANGES,
        "inference.score_tests:correlation",
        "sampling + pairs.product_law.draw(seeded, draws)",
        "sampling",
        (f"{_SCORES}::test_the_level_is_kept_under_noise",),
    ),
    Mutant(
        "the noise of a share is forgotten in its p-value",
        Kind.RANGES,
        "inference.score_tests:share_tails",
        "distance = (count - numbers) / law.unit",
        "distance = (count - numbers) / law.unit * 1000",
        (_SCORES,),
    ),
    Mutant(
        "an answer that HAVING or LIMIT cut is tested",
        Kind.KEYS,
        "inference.released_numbers:require_plain",
        "finish.having is not None or finish.limit is not None or finish.offset",
        "False",
        (f"{_TESTS}::test_what_cannot_be_tested_is_refused",),
    ),
    Mutant(
        "groups that were found in the data are tested",
        Kind.KEYS,
        "inference.released_numbers:ReleasedNumbers.of",
        "measured.selection is not None",
        "False",
        (f"{_TESTS}::test_groups_that_were_found_in_the_data_are_not_tested",),
    ),
    Mutant(
        "several rows of a unit are tested as independent ones",
        Kind.LIMITS,
        "inference.released_numbers:ReleasedNumbers.of",
        "max_rows > 1",
        "False",
        (f"{_TESTS}::test_several_rows_of_a_unit_are_no_independent_rows",),
    ),
)

test_the_tests_of_inference_notice = suite(MUTANTS)
