"""Vectors of mechanisms: half-widths, tails, thresholds, splits of ε and rates, by sums over the law that is drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

import sfumato as sf
from sfumato.mechanisms import confidence_limits, grids, key_thresholds, laplace, noise_sums, scores, weighted_sums
from sfumato.mechanisms.earlier_quantiles import EarlierQuantiles
from sfumato.mechanisms.factorisations import Factorisation
from sfumato.mechanisms.group_choices import FrequentValues
from sfumato.mechanisms.key_thresholds import KeyThreshold
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.response import OptimalLocalHashing, OptimizedUnaryEncoding, RandomizedResponse, _normal_width
from sfumato.mechanisms.selection import NoisyMax, TopK, _affordable, best_selection
from sfumato.mechanisms.sparse import AboveThreshold
from vectors.laws import (
    MP,
    Law,
    Real,
    as_fraction,
    at_least,
    beyond,
    binomial,
    down,
    gaussian_law,
    half_width,
    hockey_stick,
    laplace_law,
    least_value,
    lower,
    moved,
    most_value,
    partitions,
    real,
    renyi,
    response,
    root,
    summed,
    up,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            tuple(
                f"mechanisms/{name}.py"
                for name in (
                    "additive",
                    "confidence_limits",
                    "earlier_quantiles",
                    "group_choices",
                    "key_thresholds",
                    "noise_sums",
                    "quantiles",
                    "response",
                    "scores",
                    "selection",
                    "sparse",
                    "weighted_sums",
                )
            ),
            words=frozenset(
                "chance chernoff classical closed cost curve debiased epsilon error errors far gaussian leak lean least"
                " lengths lost miss rarely rate scale scales sensitivity share split tail tails threshold truth unequal"
                " variance width widths within".split()
            ),
            parameters=frozenset({"confidence", "miss"}),
        ),
        Scope(("mechanisms/laplace.py", "mechanisms/grids.py", "mechanisms/factorisations.py"), frozenset({"half", "in", "lengths"})),
    ),
    exempt={
        "mechanisms.key_thresholds.KeyThreshold.gaussian": "it calibrates noise, and its threshold has vectors",
        "mechanisms.noise_sums._least": "it halves an interval until a property holds",
        "mechanisms.quantiles._moved": "it multiplies rows_to_lean by a sign",
        "mechanisms.response.Estimate.interval": "it multiplies standard errors by a normal quantile, which has vectors",
    },
)


# ── additive noise ─────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("mechanisms.laplace.half_width")
def _laplace_half_width() -> Iterator[Vector]:
    """The least whole w, also where noise is below one step, and a miss is far out."""
    for scale, miss in (("2", 0.05), ("0.1", 0.05), ("0.001", 0.05), ("0.2", 0.01), ("10", 1e-12), ("3.7", 1e-30), ("1", 0.9)):
        yield exact(half_width(laplace_law(F(scale)), MP.mpf(miss)), laplace.half_width, F(scale), miss)


def _width_of_all(law: Law, confidence: Any, k: int) -> int:
    """Find the least w within which all of k independent noises lie."""
    return next(w for w in range(max(law)) if (1 - beyond(law, w)) ** k >= real(confidence))


@REGISTRY.formula("mechanisms.additive.Laplace.error")
@REGISTRY.formula("mechanisms.additive._miss")
def _laplace_error() -> Iterator[Vector]:
    for scale, confidence, k in (("2", "0.95", 1), ("2", "0.95", 7), ("0.3", "0.99", 3), ("5", "0.999999999999", 2), ("1", "0.01", 1)):
        yield exact(F(_width_of_all(laplace_law(F(scale)), confidence, k)), lambda s=scale, c=confidence, k=k: sf.Laplace(s).error(c, k))
    fine = F(_width_of_all(laplace_law(F(4)), "0.9", 1)) / 8
    yield exact(fine, lambda: sf.Laplace("0.5", grid="0.125").error("0.9"))
    yield exact(F(_width_of_all(laplace_law(F(5)), "0.95", 2)), lambda: sf.Laplace([1, 5, 2]).error("0.95", 2))


@REGISTRY.formula("mechanisms.additive.Gaussian.error")
@REGISTRY.formula("mechanisms.additive._gaussian_width")
def _gaussian_error() -> Iterator[Vector]:
    for sigma, confidence, k in (("2", "0.95", 1), ("1", "0.95", 1), ("0.2", "0.999", 4), ("7.3", "0.999999999999", 3), ("0.001", "0.5", 1)):
        yield exact(F(_width_of_all(gaussian_law(F(sigma)), confidence, k)), lambda s=sigma, c=confidence, k=k: sf.Gaussian(s).error(c, k))
    yield exact(F(_width_of_all(gaussian_law(F(6)), "0.9", 1)) * 4, lambda: sf.Gaussian(24, grid=4).error("0.9"))
    for confidence, more in (("0.95", 0), ("0.999999", 0), ("0.3", 1)):  # beyond 2,000 steps by an integral; inside σ a step more
        sums = np.cumsum(np.exp(-((np.arange(50_000, 0, -1) / 2500.0) ** 2) / 2))[::-1]
        outside = 2 * sums / (2 * sums[0] + 1)  # Σ over |y| ≥ 1, 2, …
        least = int(np.count_nonzero(outside > float(1 - F(confidence))))
        yield between(F(least), F(least + more), lambda c=confidence: sf.Gaussian(2500).error(c))


@REGISTRY.formula("mechanisms.additive._rarely")
@REGISTRY.formula("mechanisms.additive.Laplace.sum_error")
@REGISTRY.formula("mechanisms.noise_sums.laplace_width")
def _laplace_sums() -> Iterator[Vector]:
    """Sums of noises, by convolution: a bound, at most this many steps above the least."""
    for scale, terms, confidence, k, more in (("2", 3, "0.95", 1, 1), ("5", 2, "0.999", 4, 1), ("0.5", 5, "0.95", 1, 1), ("1", 2, "0.99999999999999", 1, 8)):
        least = half_width(summed(*[laplace_law(F(scale))] * terms), (1 - real(confidence)) / k)
        fresh = F(scale) / F(4), F(1, 4)  # on a grid, so that no other test has computed it

        def call(scale: str = scale, terms: int = terms, confidence: str = confidence, k: int = k, fresh: Any = fresh) -> F:
            noise_sums.laplace_width.cache_clear()
            return sf.Laplace(fresh[0], grid=fresh[1]).sum_error(terms, confidence, k) * 4

        yield between(F(least), F(least + more), call)


@REGISTRY.formula("mechanisms.additive.Gaussian.sum_error")
@REGISTRY.formula("mechanisms.noise_sums.gaussian_miss")
@REGISTRY.formula("mechanisms.noise_sums.gaussian_chernoff")
def _gaussian_sums() -> Iterator[Vector]:
    for sigma, terms, confidence, k, more in (("2", 3, "0.95", 1, 0), ("4", 4, "0.9999", 3, 0), ("0.6", 3, "0.95", 1, 2), ("0.3", 4, "0.9", 1, 2)):
        least = half_width(summed(*[gaussian_law(F(sigma))] * terms), (1 - real(confidence)) / k)

        def call(sigma: str = sigma, terms: int = terms, confidence: str = confidence, k: int = k) -> Fraction:
            noise_sums.gaussian_miss.cache_clear()
            return sf.Gaussian(F(sigma) / 8, grid="0.125").sum_error(terms, confidence, k) * 8

        yield between(F(least), F(least + more), call)


@REGISTRY.formula("mechanisms.noise_sums._waiting_tail")
def _waiting_tail() -> Iterator[Vector]:
    """The difference of two waiting times, integrated over one of them."""
    for reach, terms in ((3.0, 1), (2.5, 2), (0.5, 3), (12.0, 6)):
        gamma = MP.factorial(terms - 1)

        def density(x: Real, k: int = terms, gamma: Real = gamma, t: float = reach) -> Real:
            longer = MP.exp(-(x + t)) * MP.fsum((x + t) ** j / MP.factorial(j) for j in range(k))
            return x ** (k - 1) * MP.exp(-x) / gamma * longer

        with MP.workdps(25):
            truth = 2 * MP.quad(density, [0, 1, 4, 12, 60])
        yield between(up(truth), up(truth * (1 + MP.mpf("1e-12"))) + 2e-14, noise_sums._waiting_tail, reach, terms)
    yield between(1.0, 1.0 + 2e-14, noise_sums._waiting_tail, 0.0, 2)


@REGISTRY.formula("mechanisms.noise_sums._few_tails")
def _few_tails() -> Iterator[Vector]:
    """How many tails come before the k-th head: a path of coins at a time."""
    for terms in (2, 3, 5):
        law = [F(math.comb(n + terms - 1, n), 2 ** (n + terms)) for n in range(terms)]
        wanted = [float(sum(law[: terms - j])) for j in range(terms)]
        yield exact(wanted, noise_sums._few_tails.__wrapped__, terms, terms)


def _log_moment(scale: Any, slope: Real) -> Real:
    """ln E e^{sY} of the discrete Laplace, summed over both sides as geometric series."""
    q = MP.exp(-1 / real(scale))
    up_side, down_side = q * MP.exp(slope), q * MP.exp(-slope)
    return MP.log((1 - q) / (1 + q) * (1 + up_side / (1 - up_side) + down_side / (1 - down_side)))


@REGISTRY.formula("mechanisms.noise_sums._laplace_chernoff")
def _laplace_chernoff() -> Iterator[Vector]:
    for scale, terms, miss in (("2", 3, 1e-13), ("0.5", 1, 1e-20), ("20", 10, 1e-15)):
        truth = least_value(lambda x, s=scale, k=terms, m=miss: (k * _log_moment(s, x / real(s)) + MP.log(2 / MP.mpf(m))) / (x / real(s)), "1e-6", "0.999999", 60)
        yield upper(truth, 1e-3, noise_sums._laplace_chernoff, float(scale), terms, miss)


@REGISTRY.formula("mechanisms.additive.Laplace.closed_form")
def _laplace_closed() -> Iterator[Vector]:
    for epsilon in ("0.5", "3", "0.1"):
        ratio = max(p / q for p, q in moved(laplace_law(1 / F(epsilon)), 1))
        yield exact(real(epsilon), lambda e=epsilon, r=ratio: float(MP.log(r)) + 0 * sf.Laplace.closed_form(epsilon=F(e), rho=None))
        yield exact(1 / F(epsilon), sf.Laplace.closed_form, epsilon=F(epsilon), rho=None)


@REGISTRY.formula("mechanisms.additive.Gaussian.closed_form")
def _gaussian_closed() -> Iterator[Vector]:
    """The σ at which αρ is the divergence of order α, for a whole shift and a whole order."""
    for rho in ("0.125", "0.02", "0.005"):
        truth = root(lambda s, r=rho: 2 * real(r) - renyi(moved(gaussian_law(F(MP.nstr(s, 30))), 1), 2), 1, 12) if rho == "0.125" else 1 / MP.sqrt(2 * real(rho))
        yield between(as_fraction(truth * (1 - MP.mpf(10) ** -25)), as_fraction(truth * (1 + MP.mpf("1e-12"))), sf.Gaussian.closed_form, epsilon=None, rho=F(rho))


@REGISTRY.formula("mechanisms.additive.Gaussian.classical")
def _classical() -> Iterator[Vector]:
    for epsilon, delta, change in (("0.5", "1e-6", 1), ("0.9", "0.01", 3), ("0.1", "1e-9", sf.Sensitivity(4, 1))):
        length = MP.sqrt(real(sf.Sensitivity.of(change).squares))
        log = MP.quad(lambda x: 1 / x, [real(delta), 2 * real(delta), MP.mpf("1.25")])
        truth = length * MP.sqrt(2 * log) / real(epsilon)
        yield upper(truth, 2e-12, lambda e=epsilon, d=delta, c=change: sf.Gaussian.classical(e, d, c).sigma)


@REGISTRY.formula("mechanisms.additive._unequal_gaussian")
def _unequal() -> Iterator[Vector]:
    """Of all placements of a change on unequal coordinates the worst."""
    for sigmas, change in (((2, 3, 5), sf.Sensitivity(2, 2)), ((2, 3, 5), sf.Sensitivity(3, 3, 4)), ((4, 1), sf.Sensitivity(1, "1.5")), ((1, 2), sf.Sensitivity(5, 1))):
        most = math.ceil(change.per_group)
        whole = change.per_group.denominator == 1
        placed = [
            v
            for v in itertools.product(range(most + 1), repeat=len(sigmas))
            if sum(1 for x in v if x) <= change.groups and (not whole or sum(v) <= change.total)
        ]
        worst = max(sum(F(x * x, 2 * s * s) for x, s in zip(v, sigmas, strict=True)) for v in placed)
        yield exact(worst, lambda s=sigmas, c=change: sf.Gaussian(list(s)).curve(c).parts[0][0].rho)


@REGISTRY.formula("mechanisms.additive._split")
def _split() -> Iterator[Vector]:
    """Σ|vᵢ|/bᵢ of the worst change; a total that cuts corners off takes the smallest scale for all."""
    for scales, change, wanted in (
        ((2, 3, 6), sf.Sensitivity(2, 2), F(2, 2) + F(2, 3)),
        ((6, 2, 3), sf.Sensitivity(1, 3), F(3, 2)),
        ((2, 3, 6), sf.Sensitivity(3, 2, 4), F(4, 2)),
        ((5, 5), sf.Sensitivity(2, 1, neighbours="replace"), F(2, 5)),
    ):
        yield exact(wanted, lambda s=scales, c=change: sf.Laplace(list(s)).curve(c).max_divergence)


@REGISTRY.formula("mechanisms.grids.in_steps")
def _in_steps() -> Iterator[Vector]:
    """All positions of two numbers on a fine lattice are rounded, before and after they move."""
    for grid, per_group, total, groups in ((F(1, 4), F(1, 3), F(1, 2), 2), (F(1), F(2), F(3), 2), (F(2), F(3), F(3), 1), (F(1, 2), F(1, 5), F(1, 5), 1)):
        lattice = [F(n, 60) for n in range(0, int(60 * grid), 5 if grid < 1 else 12)]
        moves = [m for n in range(61) if (m := per_group * F(n, 60)) <= per_group]

        def steps(start: F, move: F, grid: F = grid) -> int:
            return math.floor((start + move) / grid + F(1, 2)) - math.floor(start / grid + F(1, 2))

        reach = {move: max(steps(start, move) for start in lattice) for move in moves}
        one = max(reach.values())
        both = max(sum(reach[m] for m in pair) for pair in itertools.product(moves, repeat=groups) if sum(pair) <= total)
        change = sf.Sensitivity(groups, per_group, total)
        yield between((one, both), (one, both + groups), lambda c=change, g=grid: ((s := grids.in_steps(c, g)).linf, s.l1))


# ── limits of frequencies ──────────────────────────────────────────────────────────────────────


@REGISTRY.formula("mechanisms.confidence_limits.upper_tail")
def _upper_tail() -> Iterator[Vector]:
    for successes, trials, chance in ((3, 10, "0.2"), (9, 10, "0.5"), (60, 100, "0.5"), (1, 50, "0.001"), (40, 100, "0.5")):
        truth = MP.fsum(binomial(trials, chance)[successes:])
        if successes > trials * F(chance):
            yield upper(truth, 2e-7, confidence_limits.upper_tail, successes, trials, float(chance))
        else:  # the other side is bounded from above, so this one lies below
            yield lower(truth, 2e-7, confidence_limits.upper_tail, successes, trials, float(chance))
    yield exact((1.0, 0.0, 0.0, 1.0), lambda: tuple(confidence_limits.upper_tail(*at) for at in ((0, 5, 0.5), (6, 5, 0.5), (2, 5, 0.0), (2, 5, 1.0))))


@REGISTRY.formula("mechanisms.confidence_limits.at_least")
@REGISTRY.formula("mechanisms.confidence_limits.at_most")
def _frequency_limits() -> Iterator[Vector]:
    """The p at which so many successes, or so few, have the probability of a miss."""
    for successes, trials, miss in ((3, 20, "0.025"), (19, 20, "0.001"), (5, 30, "1e-6")):
        low = root(lambda p, s=successes, n=trials, m=miss: MP.fsum(binomial(n, p)[s:]) - real(m), 0, 1, 50)
        high = root(lambda p, s=successes, n=trials, m=miss: real(m) - MP.fsum(binomial(n, p)[: s + 1]), 0, 1, 50)
        yield between(
            (down(low * (1 - MP.mpf("1e-6"))), up(high)),
            (down(low), up(high + (1 - high) * MP.mpf("1e-6"))),
            lambda s=successes, n=trials, m=miss: (confidence_limits.at_least(s, n, float(m)), confidence_limits.at_most(s, n, float(m))),
        )


# ── weighted sums ──────────────────────────────────────────────────────────────────────────────


def _weighted(law: Law, weights: tuple[int, ...]) -> Law:
    return summed(*({a * x: mass for x, mass in law.items()} for a in weights))


@REGISTRY.formula("mechanisms.weighted_sums.gaussian_widths")
@REGISTRY.formula("mechanisms.weighted_sums._normal_width")
def _gaussian_widths() -> Iterator[Vector]:
    """Whole weights, by convolution: a bound, above the least width by what smoothing adds."""
    for sigma, weights, miss, gap in (("6", (1, 2), 0.05, 0.9), ("12", (1, 1, 3), 0.01, 0.4), ("3", (2, 1), 1e-6, 0.4)):
        least = half_width(_weighted(gaussian_law(F(sigma)), weights), MP.mpf(miss))
        length = math.sqrt(sum(a * a for a in weights))
        smooth = 1 / math.sqrt(1 / 1.5**2 - 1 / float(sigma) ** 2)
        normal = length * math.hypot(float(sigma), smooth) * float(MP.sqrt(2) * MP.erfinv(1 - MP.mpf(miss)))
        yield between(float(least) - 1, normal * (1 + gap), lambda s=sigma, n=length, k=len(weights), m=miss: float(weighted_sums.gaussian_widths(np.array([n]), k, float(s), m)[0]))
    for sigma, miss in ((2.0, 0.05), (100.0, 1e-12)):  # noise too small, or a miss too rare, for anything but moments
        truth = 3 * MP.mpf(sigma) * MP.sqrt(2 * MP.log(2 / MP.mpf(miss)))
        yield upper(truth, 2e-9, lambda s=sigma, m=miss: float(weighted_sums.gaussian_widths(np.array([3.0]), 2, s, m)[0]) + 0 * weighted_sums._normal_width(m))
    main = MP.sqrt(2) * MP.erfinv(1 - MP.mpf("0.05") * MP.mpf("0.99"))
    rest = MP.sqrt(2) * MP.erfinv(1 - MP.mpf("0.05") / 100)
    small = 1 / MP.sqrt(1 / MP.mpf("2.25") - MP.mpf(1) / 2500)
    truth = main * MP.sqrt(2500 + small**2) + rest * small
    yield upper(truth, 1e-8, lambda: float(weighted_sums.gaussian_widths(np.array([1.0]), 1, 50.0, 0.05)[0]))


def _mixed_tail(sizes: tuple[Real, ...], reach: Real) -> Real:
    """P(|Σ bᵢXᵢ| > u) for different bᵢ: the law is a mixture of Laplace laws, by partial fractions."""
    found = MP.mpf(0)
    for i, b in enumerate(sizes):
        share = MP.mpf(1)
        for j, other in enumerate(sizes):
            if j != i:
                share *= b * b / (b * b - other * other)
        found += share * MP.exp(-reach / b)
    return found


@REGISTRY.formula("mechanisms.weighted_sums.continuous_widths")
@REGISTRY.formula("mechanisms.weighted_sums._characteristic")
def _continuous_widths() -> Iterator[Vector]:
    for weights, miss in ((("1", "0.5"), "0.05"), (("1", "0.8", "0.3"), "0.01"), (("2", "1"), "0.001"), (("1",), "0.1")):
        sizes = tuple(map(real, weights))
        truth = root(lambda u, b=sizes, m=miss: real(m) * MP.mpf("0.99") - _mixed_tail(b, u), 0, 80)
        matrix = np.array([[float(a) for a in weights]])
        yield upper(truth, 1e-3, lambda a=matrix, m=miss: float(weighted_sums.continuous_widths(a, float(m))[0]))


@REGISTRY.formula("mechanisms.weighted_sums._far")
def _far() -> Iterator[Vector]:
    for weights, miss in ((("1", "0.5"), "0.05"), (("1", "1", "1"), "1e-6"), (("1",), "0.01")):
        squares = MP.fsum(real(a) ** 2 for a in weights)
        truth = least_value(lambda x, t=squares, m=miss: (-t * MP.log(1 - x * x) + MP.log(2 / real(m))) / x, "1e-6", "0.9999999", 70)
        yield upper(truth, 2e-3, lambda a=weights, m=miss: float(weighted_sums._far(np.array([[float(x) for x in a]]), float(m))[0]))


@REGISTRY.formula("mechanisms.weighted_sums._chernoff")
def _weighted_chernoff() -> Iterator[Vector]:
    for scale, weights, miss in (("2", (1, 2), "1e-12"), ("10", (3,), "1e-11"), ("5", (1, 1, 1), "0.01")):
        largest = max(weights)
        terms = MP.fsum(MP.mpf(a * a) for a in weights) / largest**2
        truth = least_value(lambda x, s=scale, k=terms, m=miss: (k * _log_moment(s, x / real(s)) + MP.log(2 / real(m))) / (x / real(s)), "1e-5", "0.99999", 60) * largest
        yield upper(truth, 5e-3, lambda s=scale, a=weights, m=miss: float(weighted_sums._chernoff(np.array([a], float), float(s), float(m))[0]))


@REGISTRY.formula("mechanisms.weighted_sums.laplace_widths")
def _laplace_widths() -> Iterator[Vector]:
    """Whole weights, by convolution: never below the least width; above it by what smoothing adds."""
    for scale, weights, miss, gap in (("4", (1, 2), 0.05, 0.25), ("5", (1, 2), 0.01, 0.15), ("3", (2, 3), 1e-11, 0.25)):
        least = half_width(_weighted(laplace_law(F(scale)), weights), MP.mpf(miss))
        matrix = np.array([weights], float)
        yield between(float(least), float(least) * (1 + gap), lambda a=matrix, s=scale, m=miss: float(weighted_sums.laplace_widths(a, weighted_sums.continuous_widths(a, m), float(s), m)[0]))
    smooth = MP.coth(1 / (2 * MP.mpf(20))) / 2
    added = MP.sqrt(13 * MP.log(2 / MP.mpf("0.0005")) / 2)
    yield upper(smooth * 5 + added, 1e-8, lambda: float(weighted_sums.laplace_widths(np.array([[2.0, 3.0]]), np.array([5.0]), 20.0, 0.05)[0]))


@REGISTRY.formula("mechanisms.factorisations.Factorisation.lengths")
def _lengths() -> Iterator[Vector]:
    """The least-squares estimate of each running total, solved in exact arithmetic."""
    yield exact([MP.sqrt(i) / 4 for i in (1, 2, 3, 4)], lambda: Factorisation("each day", 4, 2).lengths)
    for made in (Factorisation("tree", 4, 0, 2), Factorisation("tree", 5, 1, 3), Factorisation("square root", 4, 6)):
        rows = [[MP.mpf(int(x)) for x in row] for row in made.weights]
        matrix = MP.matrix(rows)
        gram = matrix.T * matrix
        wanted = []
        for day in range(made.periods):
            ones = MP.matrix([MP.mpf(1 if j <= day else 0) for j in range(made.periods)])
            solved = MP.lu_solve(gram, ones)
            wanted.append(MP.sqrt((ones.T * solved)[0]))  # the variance of 1ᵀ(BᵀB)⁻¹Bᵀ·noise
        again = Factorisation(made.form, made.periods, made.bits, made.branching)
        yield exact(wanted, lambda f=again: f.lengths)


# ── key thresholds ─────────────────────────────────────────────────────────────────────────────


def _alone(law: Law, threshold: int, split: tuple[int, ...]) -> Real:
    hidden = MP.mpf(1)
    for weight in split:
        hidden *= 1 - at_least(law, threshold - weight)
    return 1 - hidden


@REGISTRY.formula("mechanisms.key_thresholds.leak")
def _leak() -> Iterator[Vector]:
    for scale, threshold, groups, weighted in (("3", 20, 3, False), ("4", 15, 4, True), ("0.5", 4, 2, True), ("2", 2, 5, False)):
        law = laplace_law(F(scale))
        splits = partitions(groups, groups) if weighted else [(1,) * groups]
        truth = max(_alone(law, threshold, split) for split in splits)
        yield between(as_fraction(truth), as_fraction(truth) + F(2, 10**40), key_thresholds.leak, threshold, F(scale), groups, weighted)


@REGISTRY.formula("mechanisms.key_thresholds._threshold")
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

        def call(e: str = epsilon, d: str = delta, g: int = groups, w: bool = weighted, n: str = neighbours) -> tuple[Any, ...]:
            key_thresholds._threshold.cache_clear()
            made = KeyThreshold(e, d, g, w, neighbours=n)
            return made.threshold, made.scale

        yield exact((least, F(moves) / F(epsilon)), call)


@lru_cache(maxsize=8)
def _kept(epsilon: Fraction, delta: Fraction) -> tuple[Real, ...]:
    """The largest π(0), π(1), … until 1: both conditions of (ε, δ)-DP for a key that is shown, and for one that is not."""
    found = [MP.mpf(0)]
    while found[-1] < 1:
        shown = MP.exp(real(epsilon)) * found[-1] + real(delta)
        hidden = root(lambda p, c=found[-1]: (1 - c) - MP.exp(real(epsilon)) * (1 - p) - real(delta), 0, 2)
        found.append(min(shown, hidden, MP.mpf(1)))
    return tuple(found)


@REGISTRY.formula("mechanisms.key_thresholds._keep_cuts")
@REGISTRY.formula("mechanisms.key_thresholds.KeyThreshold._each")
def _optimal_rule() -> Iterator[Vector]:
    """One key per unit: the least count that is surely kept, and the chance of those below."""
    for epsilon, delta, neighbours in (("1", "0.01", "add-remove"), ("0.5", "1e-4", "add-remove"), ("2", "0.01", "replace")):
        parts = 2 if neighbours == "replace" else 1
        each = F(epsilon) / parts, F(delta) / parts
        chances = _kept(*each)
        sure = len(chances) - 1
        wanted = [chances[n] for n in (1, sure // 2, sure - 1)]

        def call(e: str = epsilon, d: str = delta, n: str = neighbours, sure: int = sure) -> tuple[Any, ...]:
            key_thresholds._keep_cuts.cache_clear()
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
    for made, law, confidence in ((KeyThreshold(1, "1e-3", 2), laplace_law(F(2)), "0.95"), (KeyThreshold(2, "1e-5", 3, weighted=True), laplace_law(F(3, 2)), "0.999"), (KeyThreshold(1, "1e-3", 2), laplace_law(F(2)), "0.01")):
        least = next(n for n in range(1, 200) if at_least(law, made.threshold - n) >= real(confidence))
        yield exact(float(least), made.error, confidence)


@REGISTRY.formula("mechanisms.key_thresholds._gaussian_tail")
def _gaussian_tail() -> Iterator[Vector]:
    for sigma, t, gap in (("3", 9, 0.05), ("3", 2, 1e-8), ("3", -4, 1e-8), ("0.7", 1, 1e-8), ("20", 80, 3e-3)):
        yield upper(at_least(gaussian_law(F(sigma)), t), gap, key_thresholds._gaussian_tail, F(sigma), t)


@REGISTRY.formula("mechanisms.key_thresholds._gaussian_threshold")
def _gaussian_thresholds() -> Iterator[Vector]:
    for sigma, delta, groups in (("3", "0.005", 2), ("8", "1e-6", 10), ("2.5", "1e-9", 1)):
        law = gaussian_law(F(sigma))
        least = next(t for t in range(1, 300) if 1 - (1 - at_least(law, t - 1)) ** groups <= real(delta))
        yield exact(least, key_thresholds._gaussian_threshold.__wrapped__, F(sigma), F(delta), groups)


# ── sparse vector ──────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("mechanisms.sparse.AboveThreshold.scales")
def _scales() -> Iterator[Vector]:
    """ε₁ + ε₂ = ε to the last digit, and of all splits the one with the least variance, searched for."""
    for epsilon, positives, sensitivity, monotone in (("1", 1, 1, False), ("0.5", 3, 2, False), ("2", 4, 1, True), ("1", 1, 3, True)):
        factor = positives * (1 if monotone else 2)
        least = least_value(lambda e, x=epsilon, s=sensitivity, f=factor: (s / e) ** 2 + (f * s / (real(x) - e)) ** 2, real(epsilon) / 1000, real(epsilon) * MP.mpf("0.999"))
        place = root(lambda e, x=epsilon, f=factor: MP.mpf(f) ** 2 / (real(x) - e) ** 3 - 1 / e**3, real(epsilon) / 10**6, real(epsilon) * (1 - MP.mpf(10) ** -6))
        made = AboveThreshold(epsilon, 10, positives, sensitivity, monotone, values_epsilon="0.25")

        def call(m: AboveThreshold = made, f: int = factor, s: int = sensitivity) -> tuple[Any, ...]:
            first, second, third = m.scales
            return s / first + F(f * s) / second, float(first**2 + second**2), float(first), third

        yield exact((F(epsilon), least, sensitivity / place, 4 * F(positives * sensitivity)), call)


@REGISTRY.formula("mechanisms.sparse.AboveThreshold.error")
@REGISTRY.formula("mechanisms.sparse.AboveThreshold.value_error")
def _sparse_error() -> Iterator[Vector]:
    for epsilon, positives, questions, confidence in (("4", 1, 1, "0.95"), ("6", 2, 20, "0.99"), ("20", 1, 5, "0.999999")):
        made = AboveThreshold(epsilon, 5, positives, values_epsilon=3)
        first, second, third = (laplace_law(scale) for scale in made.scales)
        miss = 1 - real(confidence)
        wanted = half_width(first, miss / 2) + half_width(second, miss / 2 / questions), half_width(third, miss)
        yield exact(tuple(map(float, wanted)), lambda m=made, q=questions, c=confidence: (m.error(q, c), m.value_error(c)))


@REGISTRY.formula("mechanisms.sparse.AboveThreshold.curve")
def _sparse_curve() -> Iterator[Vector]:
    for epsilon, values, neighbours in (("1", None, "add-remove"), ("0.5", "0.25", "add-remove"), ("2", "1", "replace")):
        whole = F(epsilon) + F(values or 0)
        made = AboveThreshold(epsilon, 5, values_epsilon=values, neighbours=neighbours)
        yield exact((whole, renyi(response(whole), 7)), lambda m=made: ((c := m.curve()).max_divergence, c.renyi(7)))


# ── selections ─────────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("mechanisms.selection.Scored.rate")
def _rate() -> Iterator[Vector]:
    """Δ counts as whole steps: 1/3 is two steps of 1/4, and three halves."""
    for named, wanted in (
        ({"epsilon": 1}, F(1, 2)),
        ({"epsilon": 1, "monotone": True}, F(1)),
        ({"epsilon": 2, "sensitivity": "1/3", "grid": "0.25"}, F(2)),
        ({"epsilon": 2, "sensitivity": 3, "grid": 2, "neighbours": "replace"}, F(1, 4)),
    ):
        yield exact(wanted, lambda n=named: sf.Exponential(**n).rate)  # type: ignore[arg-type]


@REGISTRY.formula("mechanisms.scores.derived_grid")
def _derived_grid() -> Iterator[Vector]:
    for sensitivity, epsilon in (("1", "1"), ("1/3", "2"), ("10000000", "0.5"), ("8", "3")):
        most = F(sensitivity) / max(F(1), F(epsilon)) / 2**20
        wanted = next(F(2) ** -n for n in range(200) if F(2) ** -n <= most)
        yield exact(wanted, scores.derived_grid, F(sensitivity), F(epsilon))


def _lost(candidates: int, rate: Any, miss: Real) -> Real:
    """Where all others lie so far below the best that even as many as all candidates weigh no more than the miss."""
    return root(lambda gap: miss - candidates * MP.exp(-real(rate) * gap), 0, 10**6)


@REGISTRY.formula("mechanisms.selection.Scored.error")
@REGISTRY.formula("mechanisms.selection.Scored._lost")
def _selection_error() -> Iterator[Vector]:
    for epsilon, candidates, confidence in (("1", 10, "0.95"), ("0.1", 1000, "0.999999999999"), ("3", 2, "0.5")):
        truth = _lost(candidates, F(epsilon) / 2, 1 - real(confidence))
        yield exact(truth, lambda e=epsilon, n=candidates, c=confidence: sf.Exponential(e).error(n, c, on_grid=True))
        coarse = lambda e=epsilon, n=candidates, c=confidence: sf.PermuteAndFlip(e, grid="0.25").error(n, c)  # noqa: E731
        yield exact(truth + MP.mpf("0.25"), coarse)
    fine = F(1, 2**60)  # the best is told from others up to 4 points below it alone
    yield exact(math.inf, lambda: sf.Exponential(1, sensitivity=1, grid=fine).error(10))
    yield exact(_lost(2, F(1, 2), real("0.5")) + real(fine), lambda: sf.Exponential(1, sensitivity=1, grid=fine).error(2, "0.5"))


@REGISTRY.formula("mechanisms.selection.NoisyMax._lost")
@REGISTRY.formula("mechanisms.selection._tail")
def _noisy_max_error() -> Iterator[Vector]:
    """Two Laplace noises of n, each within the width that all but β of each lie in."""
    for noise, times in (("laplace", 2), ("gumbel", 1), ("exponential", 1)):
        truth = times * _lost(12, F(1, 4), 1 - real("0.99"))
        yield exact(truth, lambda n=noise: NoisyMax("0.5", noise=n).error(12, "0.99", on_grid=True))


@REGISTRY.formula("mechanisms.selection.TopK._lost")
@REGISTRY.formula("mechanisms.selection.TopK.curve")
def _top_k() -> Iterator[Vector]:
    for epsilon, k, candidates in (("1", 1, 10), ("1", 3, 10), ("2", 5, 100)):
        truth = _lost(candidates, F(epsilon) / (2 * k), (1 - real("0.95")) / k)
        one = most_value(lambda t, e=F(epsilon) / k: renyi(_ranged(e, t), 4), real(F(epsilon) / k) / 1000, real(F(epsilon) / k) * MP.mpf("0.999"))

        def call(e: str = epsilon, k: int = k, n: int = candidates) -> tuple[Any, ...]:
            made = TopK(e, k=k)
            return made.error(n, on_grid=True), made.curve().renyi(4), made.curve().max_divergence

        yield exact((truth, k * one, F(epsilon)), call)


def _ranged(eta: Any, t: Real) -> list[tuple[Real, Real]]:
    """Two outcomes of loss t and t − η."""
    high, low = MP.exp(t), MP.exp(t - real(eta))
    q = (1 - low) / (high - low)
    return [(q * high, q), ((1 - q) * low, 1 - q)]


@REGISTRY.formula("mechanisms.selection._affordable")
def _afforded() -> Iterator[Vector]:
    for order, price in (("22", "0.5"), ("2", "0.01"), ("8", "3")):
        truth = root(lambda e, o=order, r=price: renyi(response(e), o) - real(r), 0, 20)
        yield lower(truth, 3e-9, _affordable, lambda e: sf.Curve.pure(e), F(order), F(price))


@REGISTRY.formula("mechanisms.selection.best_selection")
def _best() -> Iterator[Vector]:
    """Both kinds at the ε they afford, on one best candidate and n − 1 equal others: who loses less."""
    for order, price, n in (("22", "0.5", 10), ("1.05", "0.7", 3), ("60", "0.05", 1000)):
        with MP.workdps(20):
            flipped = root(lambda e, o=order, r=price: renyi(response(e), o) - real(r), 0, 20)
            bounded = _bounded(order, price)
            lost_bounded = most_value(lambda x, n=n: x * (n - 1) * MP.exp(-x) / (1 + (n - 1) * MP.exp(-x)), 0, 40) * 2 / bounded
            lost_flipped = most_value(lambda x, n=n: x * (1 - (1 - (1 - MP.exp(-x)) ** n) / (n * MP.exp(-x))), "0.001", 40) * 2 / flipped
        wanted = "Exponential" if lost_bounded <= lost_flipped else "PermuteAndFlip"
        yield exact(wanted, lambda o=order, r=price, n=n: type(best_selection(o, r, n)).__name__)


def _bounded(order: str, price: str) -> Real:
    def short(epsilon: Real) -> Real:
        worst = -least_value(lambda t: -renyi(_ranged(epsilon, t), order), epsilon / 1000, epsilon * MP.mpf("0.999"), 30)
        return worst - real(price)

    low, high = MP.mpf("0.001"), MP.mpf(20)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if short(middle) > 0 else (middle, high)
    return low


# ── responses ──────────────────────────────────────────────────────────────────────────────────


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


@REGISTRY.formula("mechanisms.response._normal_width")
def _normal() -> Iterator[Vector]:
    for confidence, k in (("0.95", 1), ("0.999999999999", 1), ("0.9", 50)):
        truth = 3 * _two_sided((1 - real(confidence)) / k)
        yield exact(truth, _normal_width, 3.0, confidence, k)


@REGISTRY.formula("mechanisms.response.RandomizedResponse.error")
def _response_error() -> Iterator[Vector]:
    for epsilon, choices, reports, k in (("1", 2, 1000, 1), ("0.5", 10, 50, 3), ("4", 3, 10**6, 1)):
        both = response(epsilon, choices)
        truth = _two_sided(real("0.05") / k) * MP.sqrt(_rare(both[0][0], both[1][0], reports))
        yield exact(truth, lambda e=epsilon, c=choices, n=reports, k=k: RandomizedResponse(e, c).error("0.95", k, reports=n))


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


@REGISTRY.formula("mechanisms.response._debiased")
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
        yield exact((counts, errors), lambda e=epsilon, r=given, k=len(reports): ((found := RandomizedResponse(e, k).estimate(r)).counts, found.standard_errors))


# ── choices in groups, quantiles ───────────────────────────────────────────────────────────────


@REGISTRY.formula("mechanisms.group_choices.FrequentValues.rate")
@REGISTRY.formula("mechanisms.group_choices.FrequentValues.curve")
@REGISTRY.formula("mechanisms.group_choices.FrequentValues.error")
def _frequent() -> Iterator[Vector]:
    """A unit's rows raise logarithms by rate·rows in all groups together; twice that where it is replaced."""
    for epsilon, rows, k, neighbours, groups in (("1", 1, 1, "add-remove", 1), ("2", 3, 2, "add-remove", 5), ("1", 2, 1, "replace", 1)):
        moves = rows * (2 if neighbours == "replace" else 1)
        rate = F(epsilon) / k / moves
        truth = _lost(8, rate, (1 - real("0.95")) / k / groups)
        made = FrequentValues(epsilon, rows, k, neighbours)
        one = F(epsilon) / k
        divergence = k * most_value(lambda t, e=one: renyi(_ranged(e, t), 3), real(one) / 1000, real(one) * MP.mpf("0.999"))
        yield exact((rate, truth, divergence), lambda m=made, g=groups: (m.rate, m.error(8, "0.95", g), m.curve().renyi(3)))


_QUARTILES = ("0.25", "0.5", "0.75")


@REGISTRY.formula("mechanisms.quantiles.Quantiles._within")
@REGISTRY.formula("mechanisms.quantiles.Quantiles._score_sensitivity")
@REGISTRY.formula("mechanisms.quantiles.Quantiles._level_epsilon")
def _one_quantile() -> Iterator[Vector]:
    """All numbers within bounds at the distance of the error weigh no more than the miss, at ε/(2·rows·v) a row."""
    for chance, neighbours, rows, grouped, moves in (
        ("0.5", "add-remove", 1, False, F(1, 2)),
        ("0.9", "add-remove", 3, False, F(27, 10)),
        ("0.9", "replace", 1, False, F(1)),
        ("0.9", "replace", 2, True, F(36, 10)),
    ):
        rate = F(1) / (2 * moves)
        truth = _lost(101, rate, 1 - real("0.95"))
        yield exact(truth, Quantiles(chance, 1, (0, 100), rows, neighbours, grouped).error, "0.95")


@REGISTRY.formula("mechanisms.quantiles.Quantiles.errors")
@REGISTRY.formula("mechanisms.quantiles._Node.share")
def _several_quantiles() -> Iterator[Vector]:
    """The middle one first; the others lie half way between it and an end, so they add half of its error."""
    for neighbours, first, second in (("add-remove", F(1, 2), F(1, 2)), ("replace", F(1), F(1))):
        for k in (1, 4):
            miss = (1 - real("0.95")) / 3 / k
            middle, outer = (_lost(11, F(1, 4) / moves, miss) for moves in (first, second))
            yield exact((middle / 2 + outer, middle, middle / 2 + outer), Quantiles(_QUARTILES, 1, (5, 15), 1, neighbours).errors, "0.95", k)
    # 0.2 in (0, 1), then 0.1 half way below it; 0.9 is an eighth from the end above it
    miss = (1 - real("0.9")) / 3
    top, low, high = (_lost(11, F(1, 4) / moves, miss) for moves in (F(8, 10), F(1, 2), F(7, 8)))
    yield exact((top / 2 + low, top, top / 8 + high), Quantiles(("0.1", "0.2", "0.9"), 1, (0, 10)).errors, "0.9")


@REGISTRY.formula("mechanisms.quantiles.Quantiles.rows_to_lean")
def _rows_to_lean() -> Iterator[Vector]:
    for chances, k in ((("0.5",), 1), (("0.5",), 6), (_QUARTILES, 2)):
        levels = 1 if len(chances) == 1 else 2
        most = _lost(101, F(1, 2 * levels) / F(1, 2), (1 - real("0.95")) / (2 * len(chances) * k))
        yield exact(1 + int(MP.ceil(most)), Quantiles(chances, 1, (0, 100)).rows_to_lean, "0.95", k)
    edge = _lost(101, F(1, 2), (1 - real("0.95")) / 2)
    yield exact(1 + int(MP.floor(edge)), lambda: Quantiles.minimum(1, (0, 100)).offset)
    yield exact(-1 - int(MP.floor(edge)), lambda: Quantiles.maximum(1, (0, 100)).offset)


@REGISTRY.formula("mechanisms.earlier_quantiles.EarlierQuantiles.curve")
@REGISTRY.formula("mechanisms.earlier_quantiles.EarlierQuantiles._cost")
def _earlier() -> Iterator[Vector]:
    """Levels cost alike; under replace one after the first twice its worst share."""
    for chances, neighbours, parts in ((_QUARTILES, "add-remove", (1, 1)), (_QUARTILES, "replace", (1, 1)), (("0.1", "0.2", "0.9"), "replace", (1, F(7, 4)))):
        whole = sum(parts)
        truth = MP.fsum(renyi(response(F(2) * part / whole), 5) for part in parts)
        yield exact((F(2), truth), lambda q=chances, n=neighbours: ((c := EarlierQuantiles(q, 2, (0, 9), 1, n).curve()).max_divergence, c.renyi(5)))


# ── calibration ────────────────────────────────────────────────────────────────────────────────


@REGISTRY.formula("privacy.calibration.least_by")
def _calibrated() -> Iterator[Vector]:
    """The σ at which the sum over the discrete law is δ, searched for; Laplace noise is Δ/ε, a round number."""
    for epsilon, delta, low, high in (("1", "1e-6", 4, 5), ("0.5", "0.01", 2, 4), ("3", "1e-3", "0.5", 2)):
        with MP.workdps(22):
            truth = root(lambda s, e=epsilon, d=delta: real(d) - hockey_stick(moved(_gaussian(s), 1), e), low, high, 52)
        yield upper(truth * (1 - MP.mpf(10) ** -15), 1e-10, lambda e=epsilon, d=delta: sf.calibrate(sf.Gaussian, sf.Guarantee(e, d)).sigma)
    yield exact(F(20, 3), lambda: sf.calibrate(sf.Laplace, sf.Guarantee("0.3"), 2).scale)
    yield exact(F(4), lambda: sf.calibrate(sf.Laplace, sf.Guarantee("0.5"), sf.Sensitivity(2, 1)).scale)


def _gaussian(sigma: Real) -> Law:
    """The same law for a deviation of many digits, few of which are looked at."""
    reach = int(10 * sigma) + 4
    weights = {x: MP.exp(-MP.mpf(x * x) / (2 * sigma**2)) for x in range(-reach, reach + 1)}
    total = MP.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
