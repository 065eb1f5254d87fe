"""Seeded bugs in questions over a secret sample: one key for all, a wrong rate, a charge without a curve of its own."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

LAW = "safety/test_sampled_questions.py"
SINGLE = f"{LAW}::test_a_single_count_leaks_just_what_is_charged"
WITHIN = f"{LAW}::test_what_is_released_is_within_the_curve_that_is_charged"
SECRET = f"{LAW}::test_each_release_has_a_secret_key_of_its_own"
UNITS = f"{LAW}::test_all_rows_of_a_unit_are_read_or_none_in_every_table"
THRESHOLD = f"{LAW}::test_the_threshold_is_the_rate_rounded_down"
COVERED = "release/parts/test_sampled_scales.py::test_a_range_misses_no_more_often_than_it_says"
QUESTIONS = "curator/proposals/test_sampled_questions.py"
REFUSED = f"{QUESTIONS}::test_a_question_that_a_sample_cannot_answer_is_refused"

MUTANTS = (
    Mutant(
        "all samples have one key",
        Kind.REUSE,
        "release.releasing:_timed_reader",
        "bits.random_bits(UNIT_KEY_BITS)",
        "7",
        (SECRET,),
    ),
    Mutant(
        "the key of a sample has 62 bits",
        Kind.SAMPLING,
        "release.releasing:_timed_reader",
        "bits.random_bits(UNIT_KEY_BITS)",
        "bits.random_bits(ROW_KEY_BITS)",
        (SECRET,),
    ),
    Mutant(
        "a statement with the key of an earlier sample is used again",
        Kind.REUSE,
        "engine.duckdb.driver:StatementReader._statement",
        "isinstance(reading, GroupTotals) and reading.bounded.sample is None",
        "isinstance(reading, GroupTotals)",
        (SECRET,),
    ),
    Mutant(
        "the hash of a unit has no key",
        Kind.SAMPLING,
        "engine.lowering.relation_lowering:_is_sampled",
        "apply(ScalarFunction.JOIN, prefix, text)",
        "text",
        (UNITS,),
    ),
    Mutant(
        "twice the units are sampled that are charged",
        Kind.FACTOR_TWO,
        "plan.limits:hash_threshold",
        "rate * 2 ** 64",
        "min(2 * rate, 1) * (2 ** 64 - 1)",
        (SINGLE, THRESHOLD),
    ),
    Mutant(
        "the share of a sample is rounded up",
        Kind.ROUNDING,
        "plan.limits:hash_threshold",
        "math.floor(rate * 2 ** 64)",
        "math.ceil(rate * 2 ** 64)",
        (THRESHOLD,),
    ),
    Mutant(
        "half the rate is charged",
        Kind.FACTOR_TWO,
        "ledger.spending:SampledCharge.curve",
        "subsampled(self.rate, bounds_presence=True)",
        "subsampled(self.rate / 2, bounds_presence=True)",
        (SINGLE, WITHIN),
    ),
    Mutant(
        "each noise of a release is amplified by itself, as if it had its own sample",
        Kind.SAMPLING,
        "ledger.spending:SampledCharge.curve",
        "compose((charge.curve for charge in self.charges)).subsampled(self.rate, bounds_presence=True)",
        "compose((charge.curve.subsampled(self.rate, bounds_presence=True) for charge in self.charges))",
        (f"{LAW}::test_several_noises_share_one_sample",),
    ),
    Mutant(
        "an exchanged unit leaks like an added one",
        Kind.NEIGHBOURS,
        "privacy.subsampled_losses:SubsampledLoss.is_symmetric",
        "self.units > 1 or self.is_replace",
        "self.units > 1 or self.population > 0",
        (SINGLE,),
    ),
    Mutant(
        "a price buys the noise of more than is charged",
        Kind.CHARGE_ORDER,
        "release.pricing:_epsilon_before_sampling",
        "math.log1p(math.expm1(epsilon) / rate)",
        "epsilon / rate",
        (WITHIN,),
    ),
    Mutant(
        "the δ of a price is not divided by the rate but for_multiplied_rows",
        Kind.DELTA,
        "release.pricing:price_before_sampling",
        "price.delta / rate",
        "price.delta / rate ** 2",
        (f"{LAW}::test_gaussian_noise_on_a_sample_keeps_its_price",),
    ),
    Mutant(
        "numbers of a sample are not scaled to all units",
        Kind.RANGES,
        "release.parts.scales:SampledScale.unit_value",
        "self.noise.unit_value / self.rate",
        "self.noise.unit_value",
        (SECRET,),
    ),
    Mutant(
        "the range of a sample is that of the noise",
        Kind.RANGES,
        "release.parts.scales:SampledScale.widths",
        "(largest - totals) * (1 + 1e-09)",
        "np.full(len(totals), noise / rate)",
        (COVERED,),
    ),
    Mutant(
        "what a unit may add to a total of a sample is taken as one",
        Kind.RANGES,
        "release.parts.scales:SampledScale.widths",
        "limit = float(self.unit_limit)",
        "limit = 1.0",
        ("release/parts/test_sampled_scales.py::test_a_unit_that_may_add_more_makes_the_range_wider",),
    ),
    Mutant(
        "noise and sampling each miss as often as both may",
        Kind.RANGES,
        "release.parts.scales:SampledScale.widths",
        "math.log(4 * parts / float(1 - level))",
        "math.log(4 * parts / float(1 - level)) / 8",
        (COVERED,),
    ),
    Mutant(
        "an answer from a sample is found for a question to all",
        Kind.REUSE,
        "curator.proposals.sampled_questions:key_with_sample",
        "key if rate is None else key.derive(lambda plan: digest(plan, 'sample', str(rate)))",
        "key",
        (SECRET,),
    ),
    Mutant(
        "a sample of rows without ids is allowed",
        Kind.LIMITS,
        "curator.proposals.sampled_questions:_policy_objection",
        "if every_row:",
        "if False:",
        (f"{QUESTIONS}::test_a_policy_without_ids_of_units_is_refused",),
    ),
    Mutant(
        "sums of both signs are asked of a sample",
        Kind.RANGES,
        "curator.proposals.sampled_questions:_has_signed_totals",
        "contribution.low < 0",
        "False",
        (REFUSED,),
    ),
    Mutant(
        "each reading of a release has a sample of its own",
        Kind.SAMPLING,
        "release.releasing:_timed_reader",
        "return unit_keys[0]",
        "return unit_keys.pop()",
        (f"{LAW}::test_all_readings_of_a_release_share_its_sample_and_no_row_key",),
    ),
    Mutant(
        "a range of a sample leaves nothing to the noise and holds by itself alone",
        Kind.RANGES,
        "release.parts.scales:SampledScale.widths",
        "math.log(4 * parts / float(1 - level))",
        "math.log(2 / float(1 - level))",
        ("release/parts/test_sampled_scales.py::test_sampling_alone_misses_a_quarter_as_often_on_each_side",),
    ),
    Mutant(
        "a range of a sample is as wide with others as by itself",
        Kind.RANGES,
        "release.parts.scales:SampledScale.widths",
        "math.log(4 * parts / float(1 - level))",
        "math.log(4 / float(1 - level))",
        ("release/parts/test_sampled_scales.py::test_a_range_that_holds_with_others_is_wider",),
    ),
    Mutant(
        "an answer from a small sample is found for a question to a larger one",
        Kind.REUSE,
        "curator.proposals.sampled_questions:key_with_sample",
        "digest(plan, 'sample', str(rate))",
        "digest(plan, 'sample')",
        (
            f"{QUESTIONS}::test_an_answer_from_a_small_sample_is_none_from_a_larger_one",
            f"{QUESTIONS}::test_each_rate_has_a_key_of_its_own",
        ),
    ),
    Mutant(
        "a unit of a sample adds one step to a sum",
        Kind.RANGES,
        "release.parts.shares:NoisyTotals.scales",
        "self.bounded.noisy_measures[member.share_index].add_remove_sensitivity.per_group * member.unit_value",
        "member.unit_value",
        (f"{QUESTIONS}::test_a_unit_adds_all_its_rows_at_the_bound",),
    ),
)

test_the_tests_notice = suite(MUTANTS)
