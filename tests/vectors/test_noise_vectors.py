"""Vectors of additive noise: half-widths, tails of plain and weighted sums, calibration, from the laws drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import optimize, stats

import sfumato as sf
from sfumato.mechanisms import confidence_limits, grids, laplace, noise_sums
from sfumato.mechanisms.factorisations import Factorisation
from vectors.formula_words import NOISE_PARAMETERS, NOISE_WORDS
from vectors.laws import (
    MP,
    Law,
    Real,
    as_fraction,
    beyond,
    binomial,
    down,
    gaussian_law,
    gaussian_sum,
    half_width,
    hockey_stick,
    laplace_law,
    laplace_sum,
    least_value,
    lower,
    moved,
    real,
    renyi,
    root,
    up,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            (
                "mechanisms/additive.py",
                "mechanisms/confidence_limits.py",
                "mechanisms/noise_sums.py",
                "mechanisms/noise_sums.py",
            ),
            words=NOISE_WORDS,
            parameters=NOISE_PARAMETERS,
        ),
    ),
    exempt={
        "mechanisms.additive._format_largest_scale": "it writes the largest scale that is accepted for a message",
        "mechanisms.noise_sums._continuous_laplace_widths": "a part of mixed_laplace_widths",
        "mechanisms.noise_sums._bisect_least": "it halves an interval until a property holds",
    },
)


@REGISTRY.formula("mechanisms.laplace.half_width")
def _laplace_half_width() -> Iterator[Vector]:
    """The least whole w, also where noise is below one step, and a miss is far out."""
    for scale, miss in (
        ("2", 0.05),
        ("0.1", 0.05),
        ("0.001", 0.05),
        ("0.2", 0.01),
        ("10", 1e-12),
        ("3.7", 1e-30),
        ("1", 0.9),
    ):
        yield exact(half_width(laplace_law(F(scale)), MP.mpf(miss)), laplace.half_width, F(scale), miss)


def _width_of_all(law: Law, confidence: Any, k: int) -> int:
    """Find the least w within which all of k independent noises lie."""
    return next(w for w in range(max(law)) if (1 - beyond(law, w)) ** k >= real(confidence))


@REGISTRY.formula("mechanisms.additive.Laplace.error")
@REGISTRY.formula("mechanisms.additive._independent_miss")
def _laplace_error() -> Iterator[Vector]:
    for scale, confidence, k in (
        ("2", "0.95", 1),
        ("2", "0.95", 7),
        ("0.3", "0.99", 3),
        ("5", "0.999999999999", 2),
        ("1", "0.01", 1),
    ):
        yield exact(
            F(_width_of_all(laplace_law(F(scale)), confidence, k)),
            lambda s=scale, c=confidence, k=k: sf.Laplace(s).error(c, k),
        )
    fine = F(_width_of_all(laplace_law(F(4)), "0.9", 1)) / 8
    yield exact(fine, lambda: sf.Laplace("0.5", grid="0.125").error("0.9"))
    yield exact(F(_width_of_all(laplace_law(F(5)), "0.95", 2)), lambda: sf.Laplace([1, 5, 2]).error("0.95", 2))


@REGISTRY.formula("mechanisms.additive.Gaussian.error")
@REGISTRY.formula("mechanisms.additive._gaussian_half_width")
def _gaussian_error() -> Iterator[Vector]:
    for sigma, confidence, k in (
        ("2", "0.95", 1),
        ("1", "0.95", 1),
        ("0.2", "0.999", 4),
        ("7.3", "0.999999999999", 3),
        ("0.001", "0.5", 1),
    ):
        yield exact(
            F(_width_of_all(gaussian_law(F(sigma)), confidence, k)),
            lambda s=sigma, c=confidence, k=k: sf.Gaussian(s).error(c, k),
        )
    yield exact(F(_width_of_all(gaussian_law(F(6)), "0.9", 1)) * 4, lambda: sf.Gaussian(24, grid=4).error("0.9"))
    for confidence, more in (
        ("0.95", 0),
        ("0.999999", 0),
        ("0.3", 1),
    ):  # beyond 2,000 steps by an integral; inside σ a step more
        sums = np.cumsum(np.exp(-((np.arange(50_000, 0, -1) / 2500.0) ** 2) / 2))[::-1]
        outside = 2 * sums / (2 * sums[0] + 1)  # Σ over |y| ≥ 1, 2, …
        least = int(np.count_nonzero(outside > float(1 - F(confidence))))
        yield between(F(least), F(least + more), lambda c=confidence: sf.Gaussian(2500).error(c))


@REGISTRY.formula("mechanisms.additive._union_bound_miss")
@REGISTRY.formula("mechanisms.additive.Laplace.sum_error")
@REGISTRY.formula("mechanisms.noise_sums.laplace_sum_width")
def _laplace_sums() -> Iterator[Vector]:
    """Sums of noises, by convolution: a bound, at most this many steps above the least."""
    for scale, terms, confidence, k, more in (
        ("2", 3, "0.95", 1, 1),
        ("5", 2, "0.999", 4, 1),
        ("0.5", 5, "0.95", 1, 1),
        ("1", 2, "0.99999999999999", 1, 8),
    ):
        least = half_width(laplace_sum(F(scale), (1,) * terms), (1 - real(confidence)) / k)
        fresh = F(scale) / F(4), F(1, 4)  # on a grid, so that no other test has computed it

        def call(terms: int = terms, confidence: str = confidence, k: int = k, fresh: Any = fresh) -> F:
            noise_sums.laplace_sum_width.cache_clear()
            return sf.Laplace(fresh[0], grid=fresh[1]).sum_error(terms, confidence, k) * 4

        yield between(F(least), F(least + more), call)


@REGISTRY.formula("mechanisms.additive.Gaussian.sum_error")
@REGISTRY.formula("mechanisms.noise_sums.single_gaussian_miss")
@REGISTRY.formula("mechanisms.noise_sums.gaussian_sum_chernoff_width")
def _gaussian_sums() -> Iterator[Vector]:
    for sigma, terms, confidence, k, more in (
        ("2", 3, "0.95", 1, 0),
        ("4", 4, "0.9999", 3, 0),
        ("0.6", 3, "0.95", 1, 2),
        ("0.3", 4, "0.9", 1, 2),
    ):
        least = half_width(gaussian_sum(F(sigma), (1,) * terms), (1 - real(confidence)) / k)

        def call(sigma: str = sigma, terms: int = terms, confidence: str = confidence, k: int = k) -> Fraction:
            noise_sums.single_gaussian_miss.cache_clear()
            return sf.Gaussian(F(sigma) / 8, grid="0.125").sum_error(terms, confidence, k) * 8

        yield between(F(least), F(least + more), call)


@REGISTRY.formula("mechanisms.noise_sums._laplace_sum_tail")
def _waiting_tail() -> Iterator[Vector]:
    """The difference of two waiting times, integrated over one of them."""
    for reach, terms in ((3.0, 1), (2.5, 2), (0.5, 3), (12.0, 6)):
        gamma = MP.factorial(terms - 1)

        def density(x: Real, k: int = terms, gamma: Real = gamma, t: float = reach) -> Real:
            longer = MP.exp(-(x + t)) * MP.fsum((x + t) ** j / MP.factorial(j) for j in range(k))
            return x ** (k - 1) * MP.exp(-x) / gamma * longer

        with MP.workdps(25):
            truth = 2 * MP.quad(density, [0, 1, 4, 12, 60])
        yield between(up(truth), up(truth * (1 + MP.mpf("1e-12"))) + 4e-14, noise_sums._laplace_sum_tail, reach, terms)
    yield between(1.0, 1.0 + 4e-14, noise_sums._laplace_sum_tail, 0.0, 2)
    for reach, terms in ((60.0, 80), (200.0, 400), (500.0, 3000), (400.0, 20000), (1300.0, 20000)):
        truth = _late_by(real(reach), terms)  # rare: rounding of large logarithms would be as large as they are
        yield between(up(truth), up(truth * (1 + MP.mpf("1e-7"))) + 1e-12, noise_sums._laplace_sum_tail, reach, terms)


def _late_by(reach: Real, terms: int) -> Real:
    """P(|sum of Laplace variables| > reach), each probability from the one before it, in 50 digits."""
    chance, few, tails = MP.mpf(2) ** -terms, MP.mpf(0), []
    for n in range(terms):
        few += chance
        tails.append(few)
        chance = chance * (n + terms) / (2 * (n + 1))
    event, total = MP.exp(-reach), MP.mpf(0)
    for j in range(terms):
        total += event * tails[terms - 1 - j]
        event = event * reach / (j + 1)
    return 2 * total


@REGISTRY.formula("mechanisms.noise_sums._negative_binomial_bounds")
def _few_tails() -> Iterator[Vector]:
    """How many tails come before the k-th head: a path of coins at a time."""
    for terms in (2, 3, 5):
        law = [F(math.comb(n + terms - 1, n), 2 ** (n + terms)) for n in range(terms)]
        wanted = [float(sum(law[: terms - j])) for j in range(terms)]
        yield between(
            wanted,
            [number + 1e-13 for number in wanted],
            noise_sums._negative_binomial_bounds.__wrapped__,
            terms,
            terms,
        )


def _log_moment(scale: Any, slope: Real) -> Real:
    """ln E e^{sY} of the discrete Laplace, summed over both sides as geometric series."""
    q = MP.exp(-1 / real(scale))
    up_side, down_side = q * MP.exp(slope), q * MP.exp(-slope)
    return MP.log((1 - q) / (1 + q) * (1 + up_side / (1 - up_side) + down_side / (1 - down_side)))


@REGISTRY.formula("mechanisms.noise_sums._laplace_chernoff_width")
def _laplace_chernoff() -> Iterator[Vector]:
    for scale, terms, miss in (("2", 3, 1e-13), ("0.5", 1, 1e-20), ("20", 10, 1e-15)):
        truth = least_value(
            lambda x, s=scale, k=terms, m=miss: (
                (k * _log_moment(s, x / real(s)) + MP.log(2 / MP.mpf(m))) / (x / real(s))
            ),
            "1e-6",
            "0.999999",
            60,
        )
        yield upper(truth, 1e-3, noise_sums._laplace_chernoff_width, float(scale), terms, miss)


@REGISTRY.formula("mechanisms.additive.Laplace.closed_form")
def _laplace_closed() -> Iterator[Vector]:
    for epsilon in ("0.5", "3", "0.1"):
        ratio = max(p / q for p, q in moved(laplace_law(1 / F(epsilon)), 1))
        yield exact(
            real(epsilon),
            lambda e=epsilon, r=ratio: float(MP.log(r)) + 0 * sf.Laplace.closed_form(epsilon=F(e), rho=None),
        )
        yield exact(1 / F(epsilon), sf.Laplace.closed_form, epsilon=F(epsilon), rho=None)


@REGISTRY.formula("mechanisms.additive.Gaussian.closed_form")
def _gaussian_closed() -> Iterator[Vector]:
    """The σ at which αρ is the divergence of order α, for a whole shift and a whole order."""
    for rho in ("0.125", "0.02", "0.005"):
        truth = (
            root(lambda s, r=rho: 2 * real(r) - renyi(moved(gaussian_law(F(MP.nstr(s, 30))), 1), 2), 1, 12)
            if rho == "0.125"
            else 1 / MP.sqrt(2 * real(rho))
        )
        yield between(
            as_fraction(truth * (1 - MP.mpf(10) ** -25)),
            as_fraction(truth * (1 + MP.mpf("1e-12"))),
            sf.Gaussian.closed_form,
            epsilon=None,
            rho=F(rho),
        )


@REGISTRY.formula("mechanisms.additive.Gaussian.classical")
def _classical() -> Iterator[Vector]:
    for epsilon, delta, change in (("0.5", "1e-6", 1), ("0.9", "0.01", 3), ("0.1", "1e-9", sf.Sensitivity(4, 1))):
        length = MP.sqrt(real(sf.Sensitivity.of(change).squares))
        log = MP.quad(lambda x: 1 / x, [real(delta), 2 * real(delta), MP.mpf("1.25")])
        truth = length * MP.sqrt(2 * log) / real(epsilon)
        yield upper(truth, 2e-12, lambda e=epsilon, d=delta, c=change: sf.Gaussian.classical(e, d, c).sigma)


@REGISTRY.formula("mechanisms.additive._unequal_gaussian_curve")
def _unequal() -> Iterator[Vector]:
    """Of all placements of a change on unequal coordinates the worst."""
    for sigmas, change in (
        ((2, 3, 5), sf.Sensitivity(2, 2)),
        ((2, 3, 5), sf.Sensitivity(3, 3, 4)),
        ((4, 1), sf.Sensitivity(1, "1.5")),
        ((1, 2), sf.Sensitivity(5, 1)),
    ):
        most = math.ceil(change.per_group)
        whole = change.per_group.denominator == 1
        placed = [
            v
            for v in itertools.product(range(most + 1), repeat=len(sigmas))
            if sum(1 for x in v if x) <= change.groups and (not whole or sum(v) <= change.total)
        ]
        worst = max(sum(F(x * x, 2 * s * s) for x, s in zip(v, sigmas, strict=True)) for v in placed)
        yield exact(worst, lambda s=sigmas, c=change: sf.Gaussian(list(s)).curve(c).parts[0][0].rho)


@REGISTRY.formula("mechanisms.additive._split_change_by_scale")
def _split() -> Iterator[Vector]:
    """Σ|vᵢ|/bᵢ of the worst change; a total that cuts corners off takes the smallest scale for all."""
    for scales, change, wanted in (
        ((2, 3, 6), sf.Sensitivity(2, 2), F(2, 2) + F(2, 3)),
        ((6, 2, 3), sf.Sensitivity(1, 3), F(3, 2)),
        ((2, 3, 6), sf.Sensitivity(3, 2, 4), F(4, 2)),
        ((5, 5), sf.Sensitivity(2, 1, neighbours="replace"), F(2, 5)),
    ):
        yield exact(wanted, lambda s=scales, c=change: sf.Laplace(list(s)).curve(c).max_divergence)


@REGISTRY.formula("mechanisms.grids.sensitivity_in_steps")
def _in_steps() -> Iterator[Vector]:
    """All positions of two numbers on a fine lattice are rounded, before and after they move."""
    for grid, per_group, total, groups in (
        (F(1, 4), F(1, 3), F(1, 2), 2),
        (F(1), F(2), F(3), 2),
        (F(2), F(3), F(3), 1),
        (F(1, 2), F(1, 5), F(1, 5), 1),
    ):
        lattice = [F(n, 60) for n in range(0, int(60 * grid), 5 if grid < 1 else 12)]
        moves = [m for n in range(61) if (m := per_group * F(n, 60)) <= per_group]

        def steps(start: F, move: F, grid: F = grid) -> int:
            return math.floor((start + move) / grid + F(1, 2)) - math.floor(start / grid + F(1, 2))

        reach = {move: max(steps(start, move) for start in lattice) for move in moves}
        one = max(reach.values())
        both = max(
            sum(reach[m] for m in pair) for pair in itertools.product(moves, repeat=groups) if sum(pair) <= total
        )
        change = sf.Sensitivity(groups, per_group, total)
        yield between(
            (one, both),
            (one, both + groups),
            lambda c=change, g=grid: ((s := grids.sensitivity_in_steps(c, g)).linf, s.l1),
        )


@REGISTRY.formula("mechanisms.confidence_limits.binomial_upper_tail")
def _upper_tail() -> Iterator[Vector]:
    for successes, trials, chance in (
        (3, 10, "0.2"),
        (9, 10, "0.5"),
        (60, 100, "0.5"),
        (1, 50, "0.001"),
        (40, 100, "0.5"),
    ):
        truth = MP.fsum(binomial(trials, chance)[successes:])
        if successes > trials * F(chance):
            yield upper(truth, 2e-7, confidence_limits.binomial_upper_tail, successes, trials, float(chance))
        else:  # the other side is bounded from above, so this one lies below
            yield lower(truth, 2e-7, confidence_limits.binomial_upper_tail, successes, trials, float(chance))
    term, far = MP.mpf(math.comb(40_000, 20_100)) / MP.mpf(2) ** 40_000, MP.mpf(0)
    for k in range(20_100, 21_500):  # hundreds of terms matter
        term, far = term * (40_000 - k) / (k + 1), far + term
    yield upper(far, 2e-7, confidence_limits.binomial_upper_tail, 20_100, 40_000, 0.5)
    yield exact(
        (1.0, 0.0, 0.0, 1.0),
        lambda: tuple(
            confidence_limits.binomial_upper_tail(*at) for at in ((0, 5, 0.5), (6, 5, 0.5), (2, 5, 0.0), (2, 5, 1.0))
        ),
    )


@REGISTRY.formula("mechanisms.confidence_limits.lower_confidence_limit")
@REGISTRY.formula("mechanisms.confidence_limits.upper_confidence_limit")
def _frequency_limits() -> Iterator[Vector]:
    """The p at which so many successes, or so few, have the probability of a miss."""
    for successes, trials, miss in ((3, 20, "0.025"), (19, 20, "0.001"), (5, 30, "1e-6")):
        low = root(lambda p, s=successes, n=trials, m=miss: MP.fsum(binomial(n, p)[s:]) - real(m), 0, 1, 50)
        high = root(lambda p, s=successes, n=trials, m=miss: real(m) - MP.fsum(binomial(n, p)[: s + 1]), 0, 1, 50)
        yield between(
            (down(low * (1 - MP.mpf("1e-6"))), up(high)),
            (down(low), up(high + (1 - high) * MP.mpf("1e-6"))),
            lambda s=successes, n=trials, m=miss: (
                confidence_limits.lower_confidence_limit(s, n, float(m)),
                confidence_limits.upper_confidence_limit(s, n, float(m)),
            ),
        )


@REGISTRY.formula("mechanisms.noise_sums.gaussian_widths")
@REGISTRY.formula("mechanisms.noise_sums._normal_half_width_of_miss")
def _gaussian_widths() -> Iterator[Vector]:
    """Whole weights, by convolution: a bound, above the least width by what smoothing adds."""
    for sigma, weights, miss, gap in (("6", (1, 2), 0.05, 0.9), ("12", (1, 1, 3), 0.01, 0.4), ("3", (2, 1), 1e-6, 0.4)):
        least = half_width(gaussian_sum(F(sigma), weights), MP.mpf(miss))
        length = math.sqrt(sum(a * a for a in weights))
        smooth = 1 / math.sqrt(1 / 1.5**2 - 1 / float(sigma) ** 2)
        normal = length * math.hypot(float(sigma), smooth) * float(MP.sqrt(2) * MP.erfinv(1 - MP.mpf(miss)))
        yield between(
            float(least) - 1,
            normal * (1 + gap),
            lambda s=sigma, n=length, k=weights, m=miss: float(
                noise_sums.gaussian_widths(np.array([n]), len(k), float(s), m)[0]
            ),
        )
    for sigma, miss in ((2.0, 0.05), (100.0, 1e-12)):  # noise too small, or a miss too rare, for anything but moments
        truth = 3 * MP.mpf(sigma) * MP.sqrt(2 * MP.log(2 / MP.mpf(miss)))
        yield upper(
            truth,
            2e-9,
            lambda s=sigma, m=miss: (
                float(noise_sums.gaussian_widths(np.array([3.0]), 2, s, m)[0])
                + 0 * noise_sums._normal_half_width_of_miss(m)
            ),
        )
    main = MP.sqrt(2) * MP.erfinv(1 - MP.mpf("0.05") * MP.mpf("0.99"))
    rest = MP.sqrt(2) * MP.erfinv(1 - MP.mpf("0.05") / 100)
    small = 1 / MP.sqrt(1 / MP.mpf("2.25") - MP.mpf(1) / 2500)
    truth = main * MP.sqrt(2500 + small**2) + rest * small
    yield upper(truth, 1e-8, lambda: float(noise_sums.gaussian_widths(np.array([1.0]), 1, 50.0, 0.05)[0]))


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


@REGISTRY.formula("mechanisms.noise_sums.continuous_widths")
@REGISTRY.formula("mechanisms.noise_sums._laplace_characteristic_function")
def _continuous_widths() -> Iterator[Vector]:
    for weights, miss in (
        (("1", "0.5"), "0.05"),
        (("1", "0.8", "0.3"), "0.01"),
        (("2", "1"), "0.001"),
        (("1",), "0.1"),
    ):
        sizes = tuple(map(real, weights))
        truth = root(lambda u, b=sizes, m=miss: real(m) * MP.mpf("0.99") - _mixed_tail(b, u), 0, 80)
        matrix = np.array([[float(a) for a in weights]])
        yield upper(truth, 1e-3, lambda a=matrix, m=miss: float(noise_sums.continuous_widths(a, float(m))[0]))


@REGISTRY.formula("mechanisms.noise_sums._continuous_chernoff_widths")
def _far() -> Iterator[Vector]:
    for weights, miss in ((("1", "0.5"), "0.05"), (("1", "1", "1"), "1e-6"), (("1",), "0.01")):
        squares = MP.fsum(real(a) ** 2 for a in weights)
        truth = least_value(
            lambda x, t=squares, m=miss: (-t * MP.log(1 - x * x) + MP.log(2 / real(m))) / x, "1e-6", "0.9999999", 70
        )
        yield upper(
            truth,
            2e-3,
            lambda a=weights, m=miss: float(
                noise_sums._continuous_chernoff_widths(np.array([[float(x) for x in a]]), float(m))[0]
            ),
        )


@REGISTRY.formula("mechanisms.noise_sums._discrete_chernoff_widths")
def _weighted_chernoff() -> Iterator[Vector]:
    for scale, weights, miss in (("2", (1, 2), "1e-12"), ("10", (3,), "1e-11"), ("5", (1, 1, 1), "0.01")):
        largest = max(weights)
        terms = MP.fsum(MP.mpf(a * a) for a in weights) / largest**2
        truth = (
            least_value(
                lambda x, s=scale, k=terms, m=miss: (
                    (k * _log_moment(s, x / real(s)) + MP.log(2 / real(m))) / (x / real(s))
                ),
                "1e-5",
                "0.99999",
                60,
            )
            * largest
        )
        yield upper(
            truth,
            5e-3,
            lambda s=scale, a=weights, m=miss: float(
                noise_sums._discrete_chernoff_widths(np.array([a], float), float(s), float(m))[0]
            ),
        )


@REGISTRY.formula("mechanisms.noise_sums.laplace_widths")
def _laplace_widths() -> Iterator[Vector]:
    """Whole weights, by convolution: never below the least width; above it by what smoothing adds."""
    for scale, weights, miss, gap in (("4", (1, 2), 0.05, 0.25), ("5", (1, 2), 0.01, 0.15), ("3", (2, 3), 1e-11, 0.25)):
        least = half_width(laplace_sum(F(scale), weights), MP.mpf(miss))
        matrix = np.array([weights], float)
        yield between(
            float(least),
            float(least) * (1 + gap),
            lambda a=matrix, s=scale, m=miss: float(
                noise_sums.laplace_widths(a, noise_sums.continuous_widths(a, m), float(s), m)[0]
            ),
        )
    smooth = MP.coth(1 / (2 * MP.mpf(20))) / 2
    added = MP.sqrt(13 * MP.log(2 / MP.mpf("0.0005")) / 2)
    yield upper(
        smooth * 5 + added,
        1e-8,
        lambda: float(noise_sums.laplace_widths(np.array([[2.0, 3.0]]), np.array([5.0]), 20.0, 0.05)[0]),
    )


@REGISTRY.formula("mechanisms.factorisations.Factorisation.decoder_row_norms")
def _lengths() -> Iterator[Vector]:
    """The least-squares estimate of each running total, solved in exact arithmetic."""
    yield exact([MP.sqrt(i) / 4 for i in (1, 2, 3, 4)], lambda: Factorisation("each day", 4, 2).decoder_row_norms)
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
        yield exact(wanted, lambda f=again: f.decoder_row_norms)


@REGISTRY.formula("privacy.calibration.least_parameter_by_shortfall")
def _calibrated() -> Iterator[Vector]:
    """The σ at which the sum over the discrete law is δ, searched for; Laplace noise is Δ/ε, a round number."""
    for epsilon, delta, low, high in (("1", "1e-6", 4, 5), ("0.5", "0.01", 2, 4), ("3", "1e-3", "0.5", 2)):
        with MP.workdps(22):
            truth = root(lambda s, e=epsilon, d=delta: real(d) - hockey_stick(moved(_gaussian(s), 1), e), low, high, 52)
        yield upper(
            truth * (1 - MP.mpf(10) ** -15),
            1e-10,
            lambda e=epsilon, d=delta: sf.calibrate(sf.Gaussian, sf.Guarantee(e, d)).sigma,
        )
    yield exact(F(20, 3), lambda: sf.calibrate(sf.Laplace, sf.Guarantee("0.3"), 2).scale)
    yield exact(F(4), lambda: sf.calibrate(sf.Laplace, sf.Guarantee("0.5"), sf.Sensitivity(2, 1)).scale)


def _gaussian(sigma: Real) -> Law:
    """The same law for a deviation of many digits, few of which are looked at."""
    reach = int(10 * sigma) + 4
    weights = {x: MP.exp(-MP.mpf(x * x) / (2 * sigma**2)) for x in range(-reach, reach + 1)}
    total = MP.fsum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


@REGISTRY.formula("mechanisms.noise_sums.mixed_gaussian_widths")
def _mixed_gaussian() -> Iterator[Vector]:
    """The normal law of the whole sum from below, and Chernoff's bound above."""
    for weights, sigmas, miss in (
        ([1.0, 2.0], [30.0, 50.0], 0.05),
        ([3.0, 1.0, 1.0], [9.0, 8.0, 7.0], 0.01),
        ([1.0, 4.0], [0.7, 2.0], 0.1),
    ):
        deviation = math.sqrt(sum((a * s) ** 2 for a, s in zip(weights, sigmas, strict=True)))
        ask = lambda a, s, m: float(noise_sums.mixed_gaussian_widths(np.array([a]), np.array([s]), m)[0])  # noqa: E731
        chernoff = deviation * math.sqrt(2 * math.log(2 / miss))
        yield between(stats.norm.isf(miss / 2) * deviation, chernoff * (1 + 1e-8), ask, weights, sigmas, miss)


@REGISTRY.formula("mechanisms.noise_sums.mixed_laplace_widths")
def _mixed_laplace() -> Iterator[Vector]:
    """P(|pX + qY| > w) = (p²e^{−w/p} − q²e^{−w/q})/(p² − q²) for continuous noises with p = ab > q = a′b′."""
    for weights, scales, miss in (
        ([1.0, 3.0], [40.0, 20.0], 0.05),
        ([2.0, 1.0], [60.0, 30.0], 0.01),
        ([1.0, 1.0], [90.0, 20.0], 0.1),
    ):
        q, p = sorted(a * b for a, b in zip(weights, scales, strict=True))
        tail = lambda w: (p**2 * math.exp(-w / p) - q**2 * math.exp(-w / q)) / (p**2 - q**2)  # noqa: B023, E731
        least = optimize.brentq(lambda w: tail(w) - miss, 0, 60 * p)  # noqa: B023
        ask = lambda a, b, m: float(noise_sums.mixed_laplace_widths(np.array([a]), np.array([b]), m)[0])  # noqa: E731
        yield between(least, least * 1.04 + 4, ask, weights, scales, miss)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
