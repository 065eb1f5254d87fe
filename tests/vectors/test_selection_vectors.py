"""Vectors of key thresholds, sparse vector, selections, responses and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sfumato as sf
from sfumato.mechanisms import key_thresholds, selection
from sfumato.mechanisms.key_thresholds import KeyThreshold
from sfumato.mechanisms.quantiles import LegacyQuantiles, Quantiles
from sfumato.mechanisms.response import (
    OptimalLocalHashing,
    OptimizedUnaryEncoding,
    RandomizedResponse,
    _union_bound_half_width,
)
from sfumato.mechanisms.selection import FrequentValues, NoisyMax, TopK, _largest_affordable_epsilon, best_selection
from sfumato.mechanisms.sparse import AboveThreshold
from vectors.formula_words import NOISE_PARAMETERS, NOISE_WORDS
from vectors.laws import (
    MP,
    Law,
    Real,
    as_fraction,
    at_least,
    gaussian_law,
    half_width,
    laplace_law,
    least_value,
    lost_within,
    lower,
    most_value,
    partitions,
    ranged,
    real,
    renyi,
    response,
    root,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            (
                "mechanisms/quantiles.py",
                "mechanisms/selection.py",
                "mechanisms/key_thresholds.py",
                "mechanisms/quantiles.py",
                "mechanisms/response.py",
                "mechanisms/selection.py",
                "mechanisms/selection.py",
                "mechanisms/sparse.py",
            ),
            words=NOISE_WORDS,
            parameters=NOISE_PARAMETERS,
        ),
    ),
    exempt={
        "mechanisms.key_thresholds.KeyThreshold.gaussian": "it calibrates noise, and its threshold has vectors",
        "mechanisms.key_thresholds.is_gaussian_surely_no_better": "its answer is yes or no, enumerated over prices",
        "mechanisms.quantiles._with_safe_inward_offset": "it multiplies rows_to_lean by a sign",
        "mechanisms.response.Estimate.interval": "it multiplies standard errors by a normal quantile",
    },
)


def _alone(law: Law, threshold: int, split: tuple[int, ...]) -> Real:
    hidden = MP.mpf(1)
    for weight in split:
        hidden *= 1 - at_least(law, threshold - weight)
    return 1 - hidden


@REGISTRY.formula("mechanisms.key_thresholds.leak_probability")
def _leak() -> Iterator[Vector]:
    for scale, threshold, groups, weighted in (
        ("3", 20, 3, False),
        ("4", 15, 4, True),
        ("0.5", 4, 2, True),
        ("2", 2, 5, False),
    ):
        law = laplace_law(F(scale))
        splits = partitions(groups, groups) if weighted else [(1,) * groups]
        truth = max(_alone(law, threshold, split) for split in splits)
        yield between(
            as_fraction(truth),
            as_fraction(truth) + F(2, 10**40),
            key_thresholds.leak_probability,
            threshold,
            F(scale),
            groups,
            weighted,
        )


@REGISTRY.formula("mechanisms.key_thresholds._laplace_threshold")
@REGISTRY.formula("mechanisms.key_thresholds.KeyThreshold.threshold")
@REGISTRY.formula("mechanisms.key_thresholds.KeyThreshold.scale")
def _thresholds() -> Iterator[Vector]:
    """The least τ, walking up; under replace twice as many counts move, and the same keys are held alone."""
    for epsilon, delta, groups, weighted, neighbours in (
        ("1", "1e-3", 2, False, "add-remove"),
        ("2", "1e-5", 3, True, "add-remove"),
        ("2", "1e-3", 2, False, "replace"),
        ("3", "0.01", 2, True, "replace"),
    ):
        moves = groups * (2 if neighbours == "replace" else 1)
        law = laplace_law(F(moves) / F(epsilon))
        splits = partitions(groups, groups) if weighted else [(1,) * groups]
        least = next(t for t in range(1, 500) if max(_alone(law, t, split) for split in splits) <= real(delta))

        def call(
            e: str = epsilon, d: str = delta, g: int = groups, w: bool = weighted, n: str = neighbours
        ) -> tuple[Any, ...]:
            key_thresholds._laplace_threshold.cache_clear()
            made = KeyThreshold(e, d, g, w, neighbours=n)
            return made.threshold, made.scale

        yield exact((least, F(moves) / F(epsilon)), call)


@lru_cache(maxsize=8)
def _kept(epsilon: Fraction, delta: Fraction) -> tuple[Real, ...]:
    """The largest π(0), π(1), … until 1: (ε, δ)-DP of a key that is shown, and of one that is not."""
    found = [MP.mpf(0)]
    while found[-1] < 1:
        shown = MP.exp(real(epsilon)) * found[-1] + real(delta)
        hidden = root(lambda p, c=found[-1]: (1 - c) - MP.exp(real(epsilon)) * (1 - p) - real(delta), 0, 2)
        found.append(min(shown, hidden, MP.mpf(1)))
    return tuple(found)


@REGISTRY.formula("mechanisms.key_thresholds._keep_probability_cuts")
@REGISTRY.formula("mechanisms.key_thresholds.KeyThreshold._decision_budget")
def _optimal_rule() -> Iterator[Vector]:
    """One key per unit: the least count that is surely kept, and the chance of those below."""
    for epsilon, delta, neighbours in (
        ("1", "0.01", "add-remove"),
        ("0.5", "1e-4", "add-remove"),
        ("2", "0.01", "replace"),
    ):
        parts = 2 if neighbours == "replace" else 1
        each = F(epsilon) / parts, F(delta) / parts
        chances = _kept(*each)
        sure = len(chances) - 1
        wanted = [chances[n] for n in (1, sure // 2, sure - 1)]

        def call(e: str = epsilon, d: str = delta, n: str = neighbours, sure: int = sure) -> tuple[Any, ...]:
            key_thresholds._keep_probability_cuts.cache_clear()
            made = KeyThreshold(e, d, neighbours=n)
            return made.threshold, [made.chance(count) for count in (1, sure // 2, sure - 1)]

        yield exact((sure, wanted), call)


@REGISTRY.formula("mechanisms.key_thresholds.KeyThreshold.chance")
def _chance() -> Iterator[Vector]:
    for made, law in (
        (KeyThreshold(1, "1e-3", 2), laplace_law(F(2))),
        (KeyThreshold(3, "1e-3", 2, weighted=True, neighbours="replace"), laplace_law(F(4, 3))),
    ):
        for count in (1, made.threshold, made.threshold + 5):
            yield exact(at_least(law, made.threshold - count), made.chance, count)
    noisy = KeyThreshold(1, "0.02", 3, sigma=8)
    for count in (2, noisy.threshold, noisy.threshold + 9):
        yield upper(at_least(gaussian_law(F(8)), noisy.threshold - count), 0.01, noisy.chance, count)
    yield exact(0.0, KeyThreshold(1, "1e-3", 2).chance, 0)


@REGISTRY.formula("mechanisms.key_thresholds.KeyThreshold.error")
def _keys_error() -> Iterator[Vector]:
    for made, law, confidence in (
        (KeyThreshold(1, "1e-3", 2), laplace_law(F(2)), "0.95"),
        (KeyThreshold(2, "1e-5", 3, weighted=True), laplace_law(F(3, 2)), "0.999"),
        (KeyThreshold(1, "1e-3", 2), laplace_law(F(2)), "0.01"),
    ):
        least = next(n for n in range(1, 200) if at_least(law, made.threshold - n) >= real(confidence))
        yield exact(float(least), made.error, confidence)


@REGISTRY.formula("mechanisms.key_thresholds._gaussian_tail_bound")
def _gaussian_tail() -> Iterator[Vector]:
    for sigma, t, gap in (("3", 9, 0.05), ("3", 2, 1e-8), ("3", -4, 1e-8), ("0.7", 1, 1e-8), ("20", 80, 3e-3)):
        yield upper(at_least(gaussian_law(F(sigma)), t), gap, key_thresholds._gaussian_tail_bound, F(sigma), t)


@REGISTRY.formula("mechanisms.key_thresholds._gaussian_threshold")
def _gaussian_thresholds() -> Iterator[Vector]:
    for sigma, delta, groups in (("3", "0.005", 2), ("8", "1e-6", 10), ("2.5", "1e-9", 1)):
        law = gaussian_law(F(sigma))
        least = next(t for t in range(1, 300) if 1 - (1 - at_least(law, t - 1)) ** groups <= real(delta))
        yield exact(least, key_thresholds._gaussian_threshold.__wrapped__, F(sigma), F(delta), groups)


@REGISTRY.formula("mechanisms.sparse.AboveThreshold.scales")
def _scales() -> Iterator[Vector]:
    """ε₁ + ε₂ = ε to the last digit, and of all splits the one with the least variance, searched for."""
    for epsilon, positives, sensitivity, monotone in (
        ("1", 1, 1, False),
        ("0.5", 3, 2, False),
        ("2", 4, 1, True),
        ("1", 1, 3, True),
    ):
        factor = positives * (1 if monotone else 2)
        least = least_value(
            lambda e, x=epsilon, s=sensitivity, f=factor: (s / e) ** 2 + (f * s / (real(x) - e)) ** 2,
            real(epsilon) / 1000,
            real(epsilon) * MP.mpf("0.999"),
        )
        place = root(
            lambda e, x=epsilon, f=factor: MP.mpf(f) ** 2 / (real(x) - e) ** 3 - 1 / e**3,
            real(epsilon) / 10**6,
            real(epsilon) * (1 - MP.mpf(10) ** -6),
        )
        made = AboveThreshold(epsilon, 10, positives, sensitivity, monotone, values_epsilon="0.25")

        def call(m: AboveThreshold = made, f: int = factor, s: int = sensitivity) -> tuple[Any, ...]:
            first, second, third = m.scales
            return s / first + F(f * s) / second, float(first**2 + second**2), float(first), third

        yield exact((F(epsilon), least, sensitivity / place, 4 * F(positives * sensitivity)), call)


@REGISTRY.formula("mechanisms.sparse.AboveThreshold.error")
@REGISTRY.formula("mechanisms.sparse.AboveThreshold.value_error")
def _sparse_error() -> Iterator[Vector]:
    for epsilon, positives, questions, confidence in (
        ("4", 1, 1, "0.95"),
        ("6", 2, 20, "0.99"),
        ("20", 1, 5, "0.999999"),
    ):
        made = AboveThreshold(epsilon, 5, positives, values_epsilon=3)
        first, second, third = (laplace_law(scale) for scale in made.scales)
        miss = 1 - real(confidence)
        wanted = half_width(first, miss / 2) + half_width(second, miss / 2 / questions), half_width(third, miss)
        yield exact(
            tuple(map(float, wanted)), lambda m=made, q=questions, c=confidence: (m.error(q, c), m.value_error(c))
        )


@REGISTRY.formula("mechanisms.sparse.AboveThreshold.curve")
def _sparse_curve() -> Iterator[Vector]:
    for epsilon, values, neighbours in (
        ("1", None, "add-remove"),
        ("0.5", "0.25", "add-remove"),
        ("2", "1", "replace"),
    ):
        whole = F(epsilon) + F(values or 0)
        made = AboveThreshold(epsilon, 5, values_epsilon=values, neighbours=neighbours)
        yield exact((whole, renyi(response(whole), 7)), lambda m=made: ((c := m.curve()).max_divergence, c.renyi(7)))


@REGISTRY.formula("mechanisms.selection.ScoreSelection.rate")
def _rate() -> Iterator[Vector]:
    """Δ counts as whole steps: 1/3 is two steps of 1/4, and three halves."""
    for named, wanted in (
        ({"epsilon": 1}, F(1, 2)),
        ({"epsilon": 1, "monotone": True}, F(1)),
        ({"epsilon": 2, "sensitivity": "1/3", "grid": "0.25"}, F(2)),
        ({"epsilon": 2, "sensitivity": 3, "grid": 2, "neighbours": "replace"}, F(1, 4)),
    ):
        yield exact(wanted, lambda n=named: sf.Exponential(**n).rate)  # type: ignore[arg-type]


@REGISTRY.formula("mechanisms.selection.derived_grid")
def _derived_grid() -> Iterator[Vector]:
    for sensitivity, epsilon in (("1", "1"), ("1/3", "2"), ("10000000", "0.5"), ("8", "3")):
        most = F(sensitivity) / max(F(1), F(epsilon)) / 2**20
        wanted = next(F(2) ** -n for n in range(200) if F(2) ** -n <= most)
        yield exact(wanted, selection.derived_grid, F(sensitivity), F(epsilon))


@REGISTRY.formula("mechanisms.selection.ScoreSelection.error")
@REGISTRY.formula("mechanisms.selection.ScoreSelection._shortfall_of_choice")
def _selection_error() -> Iterator[Vector]:
    for epsilon, candidates, confidence in (("1", 10, "0.95"), ("0.1", 1000, "0.999999999999"), ("3", 2, "0.5")):
        truth = lost_within(candidates, F(epsilon) / 2, 1 - real(confidence))
        yield exact(truth, lambda e=epsilon, n=candidates, c=confidence: sf.Exponential(e).error(n, c, on_grid=True))
        coarse = lambda e=epsilon, n=candidates, c=confidence: sf.PermuteAndFlip(e, grid="0.25").error(n, c)  # noqa: E731
        yield exact(truth + MP.mpf("0.25"), coarse)
    fine = F(1, 2**60)  # the best is told from others up to 4 points below it alone
    yield exact(math.inf, lambda: sf.Exponential(1, sensitivity=1, grid=fine).error(10))
    yield exact(
        lost_within(2, F(1, 2), real("0.5")) + real(fine),
        lambda: sf.Exponential(1, sensitivity=1, grid=fine).error(2, "0.5"),
    )


@REGISTRY.formula("mechanisms.selection.NoisyMax._shortfall_of_choice")
@REGISTRY.formula("mechanisms.selection._log_candidates_over_miss")
def _noisy_max_error() -> Iterator[Vector]:
    """Two Laplace noises of n, each within the width that all but β of each lie in."""
    for noise, times in (("laplace", 2), ("gumbel", 1), ("exponential", 1)):
        truth = times * lost_within(12, F(1, 4), 1 - real("0.99"))
        yield exact(truth, lambda n=noise: NoisyMax("0.5", noise=n).error(12, "0.99", on_grid=True))


@REGISTRY.formula("mechanisms.selection.TopK._shortfall_of_choice")
@REGISTRY.formula("mechanisms.selection.TopK.curve")
def _top_k() -> Iterator[Vector]:
    for epsilon, k, candidates in (("1", 1, 10), ("1", 3, 10), ("2", 5, 100)):
        truth = lost_within(candidates, F(epsilon) / (2 * k), (1 - real("0.95")) / k)
        one = most_value(
            lambda t, e=epsilon, k=k: renyi(ranged(F(e) / k, t), 4),
            real(F(epsilon) / k) / 1000,
            real(F(epsilon) / k) * MP.mpf("0.999"),
        )

        def call(e: str = epsilon, k: int = k, n: int = candidates) -> tuple[Any, ...]:
            made = TopK(e, k=k)
            return made.error(n, on_grid=True), made.curve().renyi(4), made.curve().max_divergence

        yield exact((truth, k * one, F(epsilon)), call)


@REGISTRY.formula("mechanisms.selection._largest_affordable_epsilon")
def _afforded() -> Iterator[Vector]:
    for order, price in (("22", "0.5"), ("2", "0.01"), ("8", "3")):
        truth = root(lambda e, o=order, r=price: renyi(response(e), o) - real(r), 0, 20)
        yield lower(truth, 3e-9, _largest_affordable_epsilon, lambda e: sf.Curve.pure(e), F(order), F(price))


@REGISTRY.formula("mechanisms.selection.best_selection")
def _best() -> Iterator[Vector]:
    """Both kinds at the ε they afford, on one best candidate and n − 1 equal others: who loses less."""
    for order, price, n in (("22", "0.5", 10), ("1.05", "0.7", 3), ("60", "0.05", 1000)):
        with MP.workdps(20):
            flipped = root(lambda e, o=order, r=price: renyi(response(e), o) - real(r), 0, 20)
            bounded = _bounded(order, price)
            lost_bounded = (
                most_value(lambda x, n=n: x * (n - 1) * MP.exp(-x) / (1 + (n - 1) * MP.exp(-x)), 0, 40) * 2 / bounded
            )
            lost_flipped = (
                most_value(lambda x, n=n: x * (1 - (1 - (1 - MP.exp(-x)) ** n) / (n * MP.exp(-x))), "0.001", 40)
                * 2
                / flipped
            )
        wanted = "Exponential" if lost_bounded <= lost_flipped else "PermuteAndFlip"
        yield exact(wanted, lambda o=order, r=price, n=n: type(best_selection(o, r, n)).__name__)


def _bounded(order: str, price: str) -> Real:
    def short(epsilon: Real) -> Real:
        worst = -least_value(lambda t: -renyi(ranged(epsilon, t), order), epsilon / 1000, epsilon * MP.mpf("0.999"), 30)
        return worst - real(price)

    low, high = MP.mpf("0.001"), MP.mpf(20)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if short(middle) > 0 else (middle, high)
    return low


@REGISTRY.formula("mechanisms.response.RandomizedResponse.truth")
def _truth() -> Iterator[Vector]:
    for epsilon, choices in (("1", 2), ("0.1", 7), ("5", 100)):
        yield exact(response(epsilon, choices)[0][0], lambda e=epsilon, k=choices: RandomizedResponse(e, k).truth)
    yield exact(0.75, lambda: RandomizedResponse.two_coins().truth)


def _rare(p: Real, q: Real, reports: int) -> Real:
    """The variance of (C − nq)/(p − q), C a sum of events of chance q each: E[C²] − E[C]², outcome by outcome."""
    one = q * 1 - q * q
    return reports * one / (p - q) ** 2


def _two_sided(miss: Real) -> Real:
    """The w with P(|N| > w) ≤ miss, by halving the integral of the density."""
    with MP.workdps(25):
        return root(lambda w: miss - MP.erfc(w / MP.sqrt(2)), 0, 40)


@REGISTRY.formula("mechanisms.response._union_bound_half_width")
def _normal() -> Iterator[Vector]:
    for confidence, k in (("0.95", 1), ("0.999999999999", 1), ("0.9", 50)):
        truth = 3 * _two_sided((1 - real(confidence)) / k)
        yield exact(truth, _union_bound_half_width, 3.0, confidence, k)


@REGISTRY.formula("mechanisms.response.RandomizedResponse.error")
def _response_error() -> Iterator[Vector]:
    for epsilon, choices, reports, k in (("1", 2, 1000, 1), ("0.5", 10, 50, 3), ("4", 3, 10**6, 1)):
        both = response(epsilon, choices)
        truth = _two_sided(real("0.05") / k) * MP.sqrt(_rare(both[0][0], both[1][0], reports))
        yield exact(
            truth, lambda e=epsilon, c=choices, n=reports, k=k: RandomizedResponse(e, c).error("0.95", k, reports=n)
        )


@REGISTRY.formula("mechanisms.response.OptimizedUnaryEncoding.variance")
def _unary_variance() -> Iterator[Vector]:
    for epsilon, reports in (("1", 1000), ("0.1", 7), ("6", 10**6)):
        q = response(epsilon)[1][0]
        yield exact(_rare(MP.mpf("0.5"), q, reports), OptimizedUnaryEncoding(epsilon, 9).variance, reports)


@REGISTRY.formula("mechanisms.response.OptimalLocalHashing.variance")
def _hashing_variance() -> Iterator[Vector]:
    for epsilon, reports, hashed in (("1", 1000, 4), ("0.1", 7, 2), ("3", 100, 21)):
        p = response(epsilon, hashed)[0][0]
        yield exact(_rare(p, MP.mpf(1) / hashed, reports), OptimalLocalHashing(epsilon, 50).variance, reports)


@REGISTRY.formula("mechanisms.response._debiased_estimate")
@REGISTRY.formula("mechanisms.response.RandomizedResponse.estimate")
def _debiased() -> Iterator[Vector]:
    """p·x + q·(n − x) = c is solved for x; the variance is that of the reports of holders and of others."""
    for epsilon, reports in (("1", (30, 70)), ("0.5", (10, 25, 15)), ("3", (90, 10))):
        p, n = response(epsilon, len(reports))[0][0], sum(reports)
        q = (1 - p) / (len(reports) - 1)
        counts = [(c - n * q) / (p - q) for c in reports]
        shares = [min(MP.mpf(1), max(MP.mpf(0), x / n)) for x in counts]
        errors = [MP.sqrt(n * (f * p * (1 - p) + (1 - f) * q * (1 - q))) / (p - q) for f in shares]
        given = [answer for answer, many in enumerate(reports) for _ in range(many)]
        yield exact(
            (counts, errors),
            lambda e=epsilon, r=given, k=reports: (
                (found := RandomizedResponse(e, len(k)).estimate(r)).counts,
                found.standard_errors,
            ),
        )


@REGISTRY.formula("mechanisms.selection.FrequentValues.rate")
@REGISTRY.formula("mechanisms.selection.FrequentValues.curve")
@REGISTRY.formula("mechanisms.selection.FrequentValues.error")
def _frequent() -> Iterator[Vector]:
    """A unit's rows raise logarithms by rate·rows in all groups together; twice that where it is replaced."""
    for epsilon, rows, k, neighbours, groups in (
        ("1", 1, 1, "add-remove", 1),
        ("2", 3, 2, "add-remove", 5),
        ("1", 2, 1, "replace", 1),
    ):
        moves = rows * (2 if neighbours == "replace" else 1)
        rate = F(epsilon) / k / moves
        truth = lost_within(8, rate, (1 - real("0.95")) / k / groups)
        made = FrequentValues(epsilon, rows, k, neighbours)
        one = F(epsilon) / k
        divergence = k * most_value(
            lambda t, e=one: renyi(ranged(e, t), 3), real(one) / 1000, real(one) * MP.mpf("0.999")
        )
        yield exact(
            (rate, truth, divergence), lambda m=made, g=groups: (m.rate, m.error(8, "0.95", g), m.curve().renyi(3))
        )


_QUARTILES = ("0.25", "0.5", "0.75")


@REGISTRY.formula("mechanisms.quantiles.Quantiles._row_error")
@REGISTRY.formula("mechanisms.quantiles.Quantiles._score_sensitivity")
@REGISTRY.formula("mechanisms.quantiles.Quantiles.level_epsilon")
def _one_quantile() -> Iterator[Vector]:
    """All numbers within bounds at the distance of the error weigh no more than the miss, at ε/(2·rows·v) a row."""
    for chance, neighbours, rows, grouped, moves in (
        ("0.5", "add-remove", 1, False, F(1, 2)),
        ("0.9", "add-remove", 3, False, F(27, 10)),
        ("0.9", "replace", 1, False, F(1)),
        ("0.9", "replace", 2, True, F(36, 10)),
    ):
        rate = F(1) / (2 * moves)
        truth = lost_within(101, rate, 1 - real("0.95"))
        yield exact(truth, Quantiles(chance, 1, (0, 100), rows, neighbours, grouped).error, "0.95")


@REGISTRY.formula("mechanisms.quantiles.Quantiles.errors")
@REGISTRY.formula("mechanisms.quantiles._QuantileNode.share")
def _several_quantiles() -> Iterator[Vector]:
    """The middle one first; the others lie half way between it and an end, so they add half of its error."""
    for neighbours, first, second in (("add-remove", F(1, 2), F(1, 2)), ("replace", F(1), F(1))):
        for k in (1, 4):
            miss = (1 - real("0.95")) / 3 / k
            middle, outer = (lost_within(11, F(1, 4) / moves, miss) for moves in (first, second))
            yield exact(
                (middle / 2 + outer, middle, middle / 2 + outer),
                Quantiles(_QUARTILES, 1, (5, 15), 1, neighbours).errors,
                "0.95",
                k,
            )
    # 0.2 in (0, 1), then 0.1 half way below it; 0.9 is an eighth from the end above it
    miss = (1 - real("0.9")) / 3
    top, low, high = (lost_within(11, F(1, 4) / moves, miss) for moves in (F(8, 10), F(1, 2), F(7, 8)))
    yield exact((top / 2 + low, top, top / 8 + high), Quantiles(("0.1", "0.2", "0.9"), 1, (0, 10)).errors, "0.9")


@REGISTRY.formula("mechanisms.quantiles.Quantiles.safety_offset_rows")
def _rows_to_lean() -> Iterator[Vector]:
    for chances, k in ((("0.5",), 1), (("0.5",), 6), (_QUARTILES, 2)):
        levels = 1 if len(chances) == 1 else 2
        most = lost_within(101, F(1, 2 * levels) / F(1, 2), (1 - real("0.95")) / (2 * len(chances) * k))
        yield exact(1 + int(MP.ceil(most)), Quantiles(chances, 1, (0, 100)).safety_offset_rows, "0.95", k)
    edge = lost_within(101, F(1, 2), (1 - real("0.95")) / 2)
    yield exact(1 + int(MP.floor(edge)), lambda: Quantiles.minimum(1, (0, 100)).offset)
    yield exact(-1 - int(MP.floor(edge)), lambda: Quantiles.maximum(1, (0, 100)).offset)


@REGISTRY.formula("mechanisms.quantiles.LegacyQuantiles.curve")
@REGISTRY.formula("mechanisms.quantiles.LegacyQuantiles._relative_level_cost")
def _earlier() -> Iterator[Vector]:
    """Levels cost alike; under replace one after the first twice its worst share."""
    for chances, neighbours, parts in (
        (_QUARTILES, "add-remove", (1, 1)),
        (_QUARTILES, "replace", (1, 1)),
        (("0.1", "0.2", "0.9"), "replace", (1, F(7, 4))),
    ):
        whole = sum(parts)
        truth = MP.fsum(renyi(response(F(2) * part / whole), 5) for part in parts)
        yield exact(
            (F(2), truth),
            lambda q=chances, n=neighbours: (
                (c := LegacyQuantiles(q, 2, (0, 9), 1, n).curve()).max_divergence,
                c.renyi(5),
            ),
        )


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
