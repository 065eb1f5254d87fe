"""Seeded bugs in formulas of what is printed and charged: of those drawn by rule, the ones that only vectors notice."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "a probability below all floats is said to be 0",
        Kind.DELTA,
        "privacy.theorems:_upper_probability",
        "max(5e-324, math.exp(min(0.0, log_probability)) * _ROUND_UP)",
        "math.exp(min(0.0, log_probability)) * _ROUND_UP",
        ("vectors/test_theorem_vectors.py::test_vectors[privacy.theorems.renyi_to_delta]",),
    ),
    Mutant(
        "a large group's failure at a key threshold is that of one unit",
        Kind.DELTA,
        "privacy.threshold_losses:LaplaceKeyThresholdLoss.group",
        "return ResponseLoss(self.pure_epsilon, 2, self.reveal).group(k)",
        "return ResponseLoss(self.pure_epsilon, 2, self.reveal)",
        ("vectors/test_curve_vectors.py::test_vectors[privacy.threshold_losses.LaplaceKeyThresholdLoss.group]",),
    ),
    Mutant(
        "rounding errors near order 1 take from ρ",
        Kind.ROUNDING,
        "privacy.losses:PairLoss.renyi",
        "0 < z < largest and z * largest <= 1",
        "False",
        ("privacy/test_shape.py::test_no_rounding_near_order_one_takes_from_rho",),
    ),
    Mutant(
        "equal outcomes of a large loss are counted against each other",
        Kind.FACTOR_TWO,
        "privacy.losses:PairLoss.renyi",
        "return (log_largest + math.log(scaled)) / z if z else self._mean_loss()",
        "return (log_largest - math.log(scaled)) / z if z else self._mean_loss()",
        ("vectors/test_loss_vectors.py::test_vectors[privacy.losses.PairLoss.renyi]",),
    ),
    Mutant(
        "the regret of a player who is alone in its type does not count",
        Kind.LIMITS,
        "games.mediation:MediatorAdvice.regret",
        "present = game.population > 0",
        "present = game.population > 1",
        ("vectors/test_game_vectors.py::test_vectors[games.mediation.MediatorAdvice.regret]",),
    ),
    Mutant(
        "reports are scaled beyond themselves when payments are drawn",
        Kind.SAMPLING,
        "games.exact_truthfulness:PaymentMechanism.release",
        "reduction = 1 - (2 * bits.random_bits",
        "reduction = 1 - (3 * bits.random_bits",
        ("games/test_money.py::test_reports_are_scaled_by_the_middles_of_equal_parts",),
    ),
    Mutant(
        "noise for all of δ is taken beside a key threshold that needs half of it",
        Kind.DELTA,
        "mechanisms.key_thresholds:KeyThreshold.__init__",
        "Guarantee(epsilon, promise.delta / 2))",
        "Guarantee(epsilon, promise.delta))",
        ("mechanisms/test_key_thresholds.py::test_gaussian_noise_for_all_of_delta_is_refused",),
    ),
    Mutant(
        "far below the largest loss of very little noise nothing leaks",
        Kind.DELTA,
        "privacy.noise_losses:_scaled_expm1",
        "math.exp(min(700.0, float(y - beta)))",
        "math.exp(min(700.0, float(y + beta)))",
        ("vectors/test_loss_vectors.py::test_vectors[privacy.noise_losses.LaplaceLoss.delta_and_error]",),
    ),
    Mutant(
        "the rounding of large logarithms hides in the tail of a sum of many noises",
        Kind.RANGES,
        "mechanisms.noise_sums:_negative_binomial_bounds",
        "math.fsum(np.log1p(-0.5 / np.arange(1, terms))) - math.log(2)",
        "math.lgamma(2 * terms - 1) - 2 * math.lgamma(terms) - (2 * terms - 1) * math.log(2)",
        ("vectors/test_noise_vectors.py::test_vectors[mechanisms.noise_sums._laplace_sum_tail]",),
    ),
)

test_the_vectors_notice = suite(MUTANTS)
