"""Seeded bugs in the exact laws of mechanisms, in distances of databases, and in how small δ must be."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

LAWS, HISTOGRAMS = "mechanisms/test_outcome_laws.py", "privacy/test_histograms.py"
NOISE = f"{LAWS}::test_noise_has_the_law_of_its_definition"
SELECTIONS = f"{LAWS}::test_selections_have_the_law_of_their_definition"
LOSSES = f"{LAWS}::test_the_loss_of_an_outcome_is_the_log_ratio_of_both_laws"

MUTANTS = (
    Mutant(
        "a computed probability may be too high",
        Kind.ROUNDING,
        "mechanisms.outcome_laws:probability_rounded_down",
        "math.floor(surely_below * 10 ** _DECIMALS)",
        "math.ceil(surely_below * 10 ** _DECIMALS)",
        (NOISE,),
    ),
    Mutant(
        "the mass of no Laplace noise at all is doubled",
        Kind.FACTOR_TWO,
        "mechanisms.outcome_laws:laplace_probability",
        "context.divide(context.subtract(Decimal(1), q), context.add(Decimal(1), q))",
        "context.subtract(Decimal(1), q)",
        (NOISE,),
    ),
    Mutant(
        "Gaussian weights fall by e^{−x²/σ²}",
        Kind.FACTOR_TWO,
        "mechanisms.outcome_laws:gaussian_probability",
        "(2 * sigma ** 2)",
        "sigma ** 2",
        (NOISE,),
    ),
    Mutant(
        "the negative half of Gaussian noise is not counted",
        Kind.FACTOR_TWO,
        "mechanisms.outcome_laws:_gaussian_normaliser",
        "(Decimal(1), Decimal(2))",
        "(Decimal(1), Decimal(1))",
        (NOISE,),
    ),
    Mutant(
        "permute-and-flip is given the law of the exponential mechanism",
        Kind.SAMPLING,
        "mechanisms.selection:PermuteAndFlip._probability_by_candidate",
        "outcome_laws.permute_and_flip_law",
        "outcome_laws.exponential_mechanism_law",
        (SELECTIONS,),
    ),
    Mutant(
        "noisy max is given the law of the exponential mechanism",
        Kind.SAMPLING,
        "mechanisms.selection:NoisyMax._probability_by_candidate",
        "outcome_laws.laplace_max_law",
        "outcome_laws.exponential_mechanism_law",
        (SELECTIONS,),
    ),
    Mutant(
        "the loss of an outcome has the wrong sign",
        Kind.AUDIT,
        "mechanisms.additive:_total_log_ratio",
        "Fraction(from_y - from_x)",
        "Fraction(from_x - from_y)",
        (LOSSES,),
    ),
    Mutant(
        "the loss under Gaussian noise is twice as large",
        Kind.FACTOR_TWO,
        "mechanisms.additive:_total_log_ratio",
        "/ (mechanism.order * size ** mechanism.order)",
        "/ size ** mechanism.order",
        (LOSSES,),
    ),
    Mutant(
        "randomised response of odds e^ε for the truth reports it with the probability of a lie",
        Kind.SAMPLING,
        "mechanisms.response:RandomizedResponse.distribution",
        "high if j == answer else low",
        "low if j == answer else high",
        (f"{LAWS}::test_equal_scores_and_rational_odds_give_rational_laws",),
    ),
    Mutant(
        "at ε = 0 counts are estimated from reports that mean nothing",
        Kind.HOSTILE,
        "mechanisms.response:RandomizedResponse.estimate",
        "if not self.epsilon:",
        "if self.epsilon < 0:",
        (f"{LAWS}::test_no_noise_at_all_leaks_at_epsilon_zero",),
    ),
    Mutant(
        "databases of different size count as replace neighbours",
        Kind.NEIGHBOURS,
        "privacy.sensitivity:neighbours",
        "return differing <= 2 and ",
        "return differing <= 2 or ",
        (HISTOGRAMS,),
    ),
    Mutant(
        "add-remove neighbours may differ in two units",
        Kind.NEIGHBOURS,
        "privacy.sensitivity:neighbours",
        "return differing <= 1",
        "return differing <= 2",
        (HISTOGRAMS,),
    ),
    Mutant(
        "δ of a security parameter is 2^(1−κ)",
        Kind.DELTA,
        "privacy.theorems:kappa_secure",
        "Fraction(1, 2 ** bits)",
        "Fraction(2, 2 ** bits)",
        ("privacy/test_theorems.py::test_two_to_the_minus_kappa_is_negligible",),
    ),
    Mutant(
        "2^−κ is called negligible one κ too early",
        Kind.DELTA,
        "privacy.theorems:negligible_from",
        "return next(too_small, 0) + 1",
        "return next(too_small, 0)",
        ("privacy/test_theorems.py::test_two_to_the_minus_kappa_is_negligible",),
    ),
    Mutant(
        "a δ of optimal composition that is below all floats is promised as 0",
        Kind.DELTA,
        "privacy.theorems:optimal",
        "np.maximum(deltas, float(_SMALLEST))",
        "deltas",
        ("privacy/test_moment_functions.py::test_the_textbook_refuses_what_it_does_not_compute",),
    ),
    Mutant(
        "a δ of optimal composition that rounds to 1 is promised as a little less, which may be below the truth",
        Kind.DELTA,
        "privacy.theorems:optimal",
        "bound) for i, bound in enumerate(bounds) if bound < 1)",
        "min(bound, 1 - _SMALLEST)) for i, bound in enumerate(bounds))",
        ("privacy/test_moment_functions.py::test_the_textbook_refuses_what_it_does_not_compute",),
    ),
    Mutant(
        "a δ of optimal composition of many releases is rounded up less than its logarithms are rounded",
        Kind.DELTA,
        "privacy.theorems:optimal",
        "delta * round_up",
        "delta * (1 - 2.0**-49 * log_all)",
        ("privacy/test_theorems.py::test_optimal_composition_of_many_releases_is_rounded_up",),
    ),
    Mutant(
        "a δ that a float states is compared as the binary number below it",
        Kind.DELTA,
        "privacy.calibration:log_excess",
        "max(Fraction(value), Fraction(str(float(value))))",
        "Fraction(value)",
        ("privacy/test_calibration.py::test_no_guarantee_is_met_by_a_delta_that_only_its_float_is_below",),
    ),
)

test_the_tests_notice = suite(MUTANTS)
