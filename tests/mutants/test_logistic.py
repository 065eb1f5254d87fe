"""Seeded bugs of logistic regressions: what a unit moves in a scan, the price of all scans, and where they are made."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LOGISTIC = "inference/test_logistic.py"
_MOVED = f"{_LOGISTIC}::test_no_unit_moves_a_scan_further_than_is_charged"
_PRICE = f"{_LOGISTIC}::test_all_scans_together_keep_the_price_and_use_it_up"
_EXACT = f"{_LOGISTIC}::test_without_noise_it_is_the_logistic_regression_of_the_rows"
_NOISE = f"{_LOGISTIC}::test_noise_has_the_deviation_that_is_charged_and_is_drawn_anew"
_WIDE = "inference/test_wide_logistic.py"
_WIDE_MOVED = f"{_WIDE}::test_no_unit_moves_a_scan_further_than_is_charged"
_BOUND = f"{_WIDE}::test_a_gradient_that_cannot_be_bound_is_refused_before_the_first_scan_is_charged"
_RANGES = f"{_WIDE}::test_every_number_is_in_exactly_one_range"
MUTANTS = (
    Mutant(
        "a gradient is not bound before the first scan is charged",
        Kind.CHARGE_ORDER,
        "curator.proposals.logistic:WideLogisticProposal._later_readings",
        "gradient.readings",
        "()",
        (_BOUND,),
    ),
    Mutant(
        "models of the same columns share one answer",
        Kind.REUSE,
        "curator.proposals.logistic:LogisticProposal.plan_key",
        "digest('logistic', key, list(map(str, SCAN_SHARES)), *terms)",
        "digest('logistic', key, list(map(str, SCAN_SHARES)))",
        (f"{_LOGISTIC}::test_a_request_of_another_model_of_the_same_columns_is_refused",),
    ),
    Mutant(
        "a unit's gradient is charged as that of one row",
        Kind.LIMITS,
        "inference.weighted_totals:WeightedTotals.sensitivity",
        "factor * self.rows_per_unit ** 2",
        "factor",
        (_MOVED,),
    ),
    Mutant(
        "a replaced unit moves a gradient no more than an added one",
        Kind.NEIGHBOURS,
        "inference.logistic:ScanWeights.totals",
        "OPPOSED",
        "1",
        (_MOVED,),
    ),
    Mutant(
        "the number of rows is measured and not charged",
        Kind.SENSITIVITY,
        "inference.logistic:ScanWeights.row_squares",
        "self.row_count_weight ** 2 + largest",
        "largest",
        (_MOVED,),
    ),
    Mutant(
        "a row is charged for one of its regressors less than it has",
        Kind.SENSITIVITY,
        "inference.logistic:ScanWeights.max_row_norm",
        "len(self.logistic.design.blocks) - 1",
        "len(self.logistic.design.blocks) - 2",
        (_MOVED,),
    ),
    Mutant(
        "the price counts one scan",
        Kind.CHARGE_ORDER,
        "inference.noise_laws:StepNoise.curve",
        "compose(self.curves)",
        "compose(self.curves[-1:])",
        (_PRICE,),
    ),
    Mutant(
        "the sigmoid ends where it is not yet 0",
        Kind.RANGES,
        "inference.logistic:ScanRowTerms.mean",
        "_FARTHEST_SCORE",
        "3",
        (f"{_LOGISTIC}::test_every_row_counts_however_far_its_score",),
    ),
    Mutant(
        "all sums of a scan share one noise",
        Kind.SAMPLING,
        "inference.logistic:ScanRelease.draw_from",
        "measurement.draw(measurement.reading.extract(totals))",
        "measurement.reading.extract(totals) + measurement.draw(measurement.reading.extract(totals)[:1] * 0)[0]",
        (_NOISE,),
    ),
    Mutant(
        "a scan is drawn with less noise than is charged",
        Kind.SAMPLING,
        "inference.logistic:ScanRelease.draw_from",
        "measurement.draw(measurement.reading.extract(totals))",
        "measurement.draw(measurement.reading.extract(totals)) // 2",
        (_NOISE,),
    ),
    Mutant(
        "an interval of odds ends where the curvature is not known",
        Kind.RANGES,
        "inference.logistic:LogisticFit.unrejected_interval",
        "start + _log1p_or_minus_infinity(low) / reach, start - _log1p_or_minus_infinity(-high) / reach",
        "start + low / reach, start + high / reach",
        (f"{_LOGISTIC}::test_a_value_without_events_has_no_end_below",),
    ),
    Mutant(
        "the fit forgets where its scan was made",
        Kind.RANGES,
        "inference.logistic:LogisticFit._coordinate_matrix",
        "-self.offset",
        "0 * self.offset",
        (_EXACT,),
    ),
    Mutant(
        "scans are made at other coefficients than they say",
        Kind.RANGES,
        "curator.proposals.logistic:LogisticProposal._run_scans",
        "totals = self.totals_at(coefficients)",
        "totals = self.totals_at(tuple(2 * each for each in coefficients))",
        (_EXACT,),
    ),
    Mutant(
        "a unit's sums of many columns are charged as those of one row",
        Kind.LIMITS,
        "inference.weighted_totals:WeightedTotals.sensitivity",
        "self.rows_per_unit ** 2",
        "self.rows_per_unit",
        (_WIDE_MOVED,),
    ),
    Mutant(
        "squares of columns are measured and not charged",
        Kind.SENSITIVITY,
        "inference.gradient_descent:GradientScans.sum_and_square_totals",
        "1 if column is None else 2",
        "1",
        (f"{_WIDE}::test_no_unit_moves_a_scan_of_numbers_and_their_squares_further_than_is_charged",),
    ),
    Mutant(
        "a gradient of many columns is charged without its intercept",
        Kind.SENSITIVITY,
        "inference.gradient_descent:GradientScans.gradient_totals",
        "len(blocks) * (self.mean_steps * scale) ** 2",
        "(len(blocks) - 1) * (self.mean_steps * scale) ** 2",
        (_WIDE_MOVED,),
    ),
    Mutant(
        "the price of many columns leaves out their spread",
        Kind.CHARGE_ORDER,
        "inference.noise_laws:StepNoise.curves",
        "zip(self.mechanisms, self.sensitivities, strict=True)",
        "list(zip(self.mechanisms, self.sensitivities, strict=True))[1:]",
        (f"{_WIDE}::test_all_scans_together_keep_the_price_and_use_it_up",),
    ),
    Mutant(
        "steps divide by a spread that noise may have made",
        Kind.RANGES,
        "inference.gradient_descent:LikelihoodDescent.starting_at_zero",
        "SPREAD_FLOOR * deviation",
        "1e-09",
        (f"{_WIDE}::test_steps_without_noise_lead_to_the_largest_likelihood",),
    ),
    Mutant(
        "a number at an edge is in two ranges",
        Kind.SENSITIVITY,
        "inference.design:_range_category",
        "f'{column} < {text}'",
        "f'{column} <= {text}'",
        (_WIDE_MOVED, _RANGES),
    ),
    Mutant(
        "a number from the last edge on is in no range",
        Kind.RANGES,
        "inference.design:_range_category",
        "f'{column} >= {text}'",
        "f'{column} > {text}'",
        (_RANGES,),
    ),
    Mutant(
        "a predicted number below an edge counts as above it",
        Kind.RANGES,
        "inference.formula:in_labelled_range",
        "numbers < high",
        "numbers <= high",
        (_RANGES,),
    ),
    Mutant(
        "a row's score is cut where the sigmoid is not yet 0",
        Kind.RANGES,
        "inference.row_expressions:LinearPredictor.negated_within",
        "COEFFICIENT_STEPS * self.design.scale",
        "self.design.scale",
        (_EXACT,),
    ),
)

test_the_tests_of_logistic_regressions_notice = suite(MUTANTS)
