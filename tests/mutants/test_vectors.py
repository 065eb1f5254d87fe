"""Seeded bugs in formulas of what is printed and charged: of those drawn by rule, the ones that only vectors notice."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "a probability below all floats is said to be 0",
        Kind.DELTA,
        "privacy/theorems.py",
        "max(5e-324, math.exp(min(0.0, log)) * _UP)",
        "math.exp(min(0.0, log)) * _UP",
        ("vectors/test_theorem_vectors.py::test_vectors[privacy.theorems.renyi_to_delta]",),
    ),
    Mutant(
        "a large group's failure at a key threshold is that of one unit",
        Kind.DELTA,
        "privacy/threshold_losses.py",
        "return ResponseLoss(self.pure, 2, self.reveal).group(k)",
        "return ResponseLoss(self.pure, 2, self.reveal)",
        ("vectors/test_curve_vectors.py::test_vectors[privacy.threshold_losses.LaplaceThresholdLoss.group]",),
    ),
    Mutant(
        "what is cut away at a key threshold is taken as rarer than Chernoff proves",
        Kind.FACTOR_TWO,
        "privacy/threshold_losses.py",
        "max(0.0, epsilon - rho) ** 2 / (4 * rho)",
        "max(0.0, epsilon - rho) ** 2 / (3 * rho)",
        ("vectors/test_curve_vectors.py::test_vectors[privacy.threshold_losses.GaussianThresholdLoss.renyi]",),
    ),
    Mutant(
        "shifts that cannot grow are taken as if they could",
        Kind.SENSITIVITY,
        "privacy/vector_losses.py",
        "2 * size + 1 <= energy",
        "2 + 1 <= energy",
        ("vectors/test_curve_vectors.py::test_vectors[privacy.vector_losses.largest_shifts]",),
    ),
    Mutant(
        "a divergence near order 1 is charged as it was computed",
        Kind.ROUNDING,
        "privacy/curve.py",
        "margin = ROUNDED_UP / float(order - 1) if self._rough else 0.0",
        "margin = 0.0",
        ("vectors/test_curve_vectors.py::test_vectors[privacy.curve.Curve.renyi_above]",),
    ),
    Mutant(
        "equal outcomes of a large loss are counted against each other",
        Kind.FACTOR_TWO,
        "privacy/losses.py",
        "return (most + math.log(scaled)) / z if z else self._mean()",
        "return (most - math.log(scaled)) / z if z else self._mean()",
        ("vectors/test_loss_vectors.py::test_vectors[privacy.losses.PairLoss.renyi]",),
    ),
    Mutant(
        "a pure promise with an exception is read without its ε",
        Kind.DELTA,
        "privacy/reading.py",
        "else min(best * _UP, curve.epsilon(0))",
        "else min(_UP, curve.epsilon(0))",
        ("vectors/test_reading_vectors.py::test_vectors[privacy.reading._log_odds]",),
    ),
    Mutant(
        "the usual exception of a weak promise is more than half way to 1",
        Kind.DELTA,
        "privacy/reading.py",
        "(1 + curve.failure) / 2)",
        "(2 + curve.failure) / 2)",
        ("vectors/test_reading_vectors.py::test_vectors[privacy.reading._usual]",),
    ),
    Mutant(
        "an odometer's order is that of ε = 1 less one",
        Kind.ROUNDING,
        "privacy/odometer.py",
        "return 1 + Fraction(",
        "return Fraction(",
        ("vectors/test_reading_vectors.py::test_vectors[privacy.odometer._default_order]",),
    ),
    Mutant(
        "the regret of a player who is alone in its type does not count",
        Kind.LIMITS,
        "games/mediation.py",
        "present = game.population > 0",
        "present = game.population > 1",
        ("vectors/test_game_vectors.py::test_vectors[games.mediation.Advice.regret]",),
    ),
    Mutant(
        "reports are scaled beyond themselves when payments are drawn",
        Kind.SAMPLING,
        "games/money.py",
        "less = 1 - (2 * bits.integer",
        "less = 1 - (3 * bits.integer",
        ("games/test_money.py::test_reports_are_scaled_by_the_middles_of_equal_parts",),
    ),
    Mutant(
        "few terms of a binomial tail are added up",
        Kind.AUDIT,
        "mechanisms/confidence_limits.py",
        "successes + 8 * math.isqrt(trials) + 200",
        "successes + 200",
        ("vectors/test_noise_vectors.py::test_vectors[mechanisms.confidence_limits.upper_tail]",),
    ),
    Mutant(
        "noise for all of δ is taken beside a key threshold that needs half of it",
        Kind.DELTA,
        "mechanisms/key_thresholds.py",
        "Guarantee(epsilon, promise.delta / 2))",
        "Guarantee(epsilon, promise.delta))",
        ("mechanisms/test_key_thresholds.py::test_gaussian_noise_for_all_of_delta_is_refused",),
    ),
    Mutant(
        "far below the largest loss of very little noise nothing leaks",
        Kind.DELTA,
        "privacy/noise_losses.py",
        "math.exp(min(700.0, y - beta))",
        "math.exp(min(700.0, y + beta))",
        ("vectors/test_loss_vectors.py::test_vectors[privacy.noise_losses.LaplaceLoss.delta]",),
    ),
)

test_the_vectors_notice = suite(MUTANTS)
