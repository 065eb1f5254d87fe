"""Seeded bugs of regressions: what a unit moves in a Gram matrix, its noise, and the intervals made of it."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_MOMENTS = "inference/test_moments.py"
_LINEAR = "inference/test_linear.py"
_COMPONENTS = "inference/test_components.py"
_FACADE = "curator/proposals/test_regressions.py"
_MOVED = f"{_MOMENTS}::test_no_unit_moves_the_moments_further_than_is_charged"
MUTANTS = (
    Mutant(
        "a pair of columns counts once in the norm",
        Kind.SENSITIVITY,
        "inference.moments:moment_weight",
        "WEIGHT ** 2 * entries",
        "WEIGHT ** 2 * entries ** 2",
        (_MOVED,),
    ),
    Mutant(
        "cross-moments are charged with half of what a row moves",
        Kind.FACTOR_TWO,
        "inference.moments:MomentTotals.sensitivity",
        "(WEIGHT * self.rows_per_unit * self.max_row_norm) ** 2",
        "(WEIGHT * self.rows_per_unit * self.max_row_norm) ** 2 // 2",
        (_MOVED,),
    ),
    Mutant(
        "a replaced unit moves no more than an added one",
        Kind.NEIGHBOURS,
        "inference.moments:MomentTotals.sensitivity",
        "replaced = 2 if",
        "replaced = 1 if",
        (_MOVED,),
    ),
    Mutant(
        "the target is not in the norm of a row",
        Kind.SENSITIVITY,
        "inference.moments:MomentTotals.max_row_norm",
        "for column in self.design.blocks",
        "for column in self.design.blocks[:-1]",
        (_MOVED,),
    ),
    Mutant(
        "a unit counts as one row",
        Kind.LIMITS,
        "inference.moments:MomentTotals.rows_per_unit",
        "int(self.bounded.measures[0].add_remove_sensitivity.total)",
        "1",
        (_MOVED,),
    ),
    Mutant(
        "products get less noise than is charged",
        Kind.SAMPLING,
        "inference.moment_releases:MomentsRelease.draw_from",
        "measurement.draw(measurement.reading.extract(totals))",
        "measurement.draw(measurement.reading.extract(totals)) // 2",
        (f"{_MOMENTS}::test_the_noise_has_the_deviation_that_is_charged",),
    ),
    Mutant(
        "all moments share one noise",
        Kind.REUSE,
        "inference.moment_releases:MomentsRelease.draw_from",
        "measurement.draw(measurement.reading.extract(totals))",
        "measurement.reading.extract(totals) + measurement.draw(measurement.reading.extract(totals)[:1] * 0)[0]",
        (f"{_MOMENTS}::test_each_moment_has_a_noise_of_its_own",),
    ),
    Mutant(
        "times of one day are one value of a category",
        Kind.SENSITIVITY,
        "inference.design:value_literal",
        "isinstance(value, dt.datetime)",
        "False",
        (f"{_MOMENTS}::test_a_row_is_in_one_value_of_a_category_of_every_type",),
    ),
    Mutant(
        "a row with a missing value counts in the moments of the others",
        Kind.NAN,
        "inference.design:Design.row_condition",
        "for name in self.names",
        "for name in self.names[:1]",
        (f"{_MOMENTS}::test_a_row_with_a_missing_value_counts_in_no_moment",),
    ),
    Mutant(
        "values that exclude each other are taken to meet",
        Kind.SENSITIVITY,
        "inference.design:DesignBuilder.add_block",
        "self.blocks.append(coordinates[0].column)",
        "self.blocks.extend((coordinate.column for coordinate in coordinates[2:]))",
        (_MOVED,),
    ),
    Mutant(
        "a column is scaled by half of its range",
        Kind.SENSITIVITY,
        "inference.design:_scaled",
        "width, middle = (high - low, (low + high) / 2)",
        "width, middle = ((high - low) / 2, (low + high) / 2)",
        (f"{_MOMENTS}::test_scaling_is_decided_by_the_policy_alone",),
    ),
    Mutant(
        "rows are clipped moment by moment",
        Kind.LIMITS,
        "inference.moments:MomentTotals.__post_init__",
        "(Strategy.WHOLE, Strategy.SAMPLE)",
        "tuple(Strategy)",
        (f"{_MOMENTS}::test_only_whole_rows_are_measured",),
    ),
    Mutant(
        "the interval forgets the noise in the Gram matrix",
        Kind.RANGES,
        "inference.linear:ScoreTest.variance",
        "along = self.noise @ path @ direction",
        "along = 0 * (self.noise @ path @ direction)",
        (_LINEAR,),
    ),
    Mutant(
        "a coefficient that noise hides has an interval with ends",
        Kind.RANGES,
        "inference.linear:ScoreTest.interval",
        "leading = 1 - square * c",
        "leading = abs(1 - square * c)",
        (f"{_LINEAR}::test_a_coefficient_that_noise_hides_has_no_ends",),
    ),
    Mutant(
        "rows of one person are taken to be independent",
        Kind.RANGES,
        "curator.proposals.regressions:RegressionProposal.one_row_per_unit",
        "self.moments.rows_per_unit == 1",
        "True",
        (f"{_FACADE}::test_with_several_rows_per_unit_only_the_noise_is_shown",),
    ),
    Mutant(
        "a component is turned by no more than half of its error",
        Kind.RANGES,
        "inference.components:ComponentsFit.covariance_error",
        "math.sqrt(trace + ",
        "0.1 * math.sqrt(trace + ",
        (f"{_COMPONENTS}::test_variances_and_angles_hold_and_a_broken_twin_is_caught",),
    ),
    Mutant(
        "moments that were bought for one price are taken for another",
        Kind.CHARGE_ORDER,
        "inference.moment_releases:MomentsRelease.required_accuracy",
        "{'moments': self.mechanism.error('0.95')}",
        "{'moments': 1}",
        (f"{_FACADE}::test_it_is_charged_once_and_found_again",),
    ),
    Mutant(
        "weighted moments wrap around at 64 bits",
        Kind.WRAP,
        "inference.moments:MomentTotals.extract",
        "np.clip(totals[0], -_LARGEST // weights, _LARGEST // weights) * weights",
        "totals[0] * weights",
        (f"{_MOMENTS}::test_totals_beyond_64_bits_are_clamped_and_neighbours_stay_close",),
    ),
    Mutant(
        "the errors' variance forgets the noise of the residual squares",
        Kind.RANGES,
        "inference.linear:LinearFit.error_variance",
        "max(squares + deviation, deviation)",
        "max(squares, deviation)",
        (f"{_LINEAR}::test_the_errors_variance_is_raised_by_one_deviation_of_its_noise",),
    ),
    Mutant(
        "components take the number of rows to be exact",
        Kind.RANGES,
        "inference.components:ComponentsFit._noise",
        "change - gram * change[0, 0]",
        "change",
        (f"{_COMPONENTS}::test_the_noise_of_the_covariance_is_its_derivative",),
    ),
)

test_the_tests_of_regressions_notice = suite(MUTANTS)
