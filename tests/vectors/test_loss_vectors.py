"""Vectors of privacy losses: divergences of enumerated and integrated pairs, and of the pairs of k units."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sfumato as sf
from privacy.test_vectors import shifts, truth as worst_shift
from sfumato.privacy import divergences, theorems
from sfumato.privacy.losses import (
    BoundedRangeLoss,
    ConcentratedLoss,
    PairLoss,
    ResponseLoss,
    sum_with_counts_rounded_up,
    weighted_power_excess,
)
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, LaplaceLoss, maximal_shifts
from sfumato.privacy.subsampled_losses import TangentLoss
from vectors.formula_words import LOSS_PARAMETERS, LOSS_WORDS
from vectors.laws import (
    INVERTED,
    KNOWN,
    KNOWN_P,
    KNOWN_Q,
    MP,
    ROUNDED,
    Pairs,
    Real,
    conversion,
    enclosing,
    gaussian_delta,
    gaussian_law,
    hockey_stick,
    laplace_law,
    least_value,
    most_value,
    moved,
    ranged,
    real,
    renyi,
    response,
    up,
    upper,
    upper_fraction,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            (
                "privacy/divergences.py",
                "privacy/losses.py",
                "privacy/noise_losses.py",
            ),
            words=LOSS_WORDS,
            parameters=LOSS_PARAMETERS,
        ),
    ),
    exempt={
        "privacy.losses.ClosedFormLoss.log_bound": "composed curves of its families have vectors",
        "privacy.losses.ClosedFormLoss.log_decay": "composed curves of its families have vectors",
        "privacy.losses.ResponseLoss.log_moment": "composed curves of it have vectors",
        "privacy.losses.BoundedRangeLoss.log_moment": "composed curves of it have vectors",
        "privacy.losses.BoundedRangeLoss.log_bound": "composed curves of it have vectors",
        "privacy.losses.AtomLoss.log_moment": "composed curves of it have vectors",
        "privacy.losses.AtomLoss.log_decay": "composed curves of it have vectors",
        "privacy.losses.ResponseLoss.log_decay": "composed curves of it have vectors",
        "privacy.noise_losses.LaplaceLoss.log_moment": "composed curves of it have vectors",
        "privacy.noise_losses.LaplaceLoss.log_bound": "composed curves of it have vectors",
        "privacy.noise_losses.LaplaceLoss.log_decay": "composed curves of it have vectors",
        "privacy.noise_losses.DiscreteGaussianLoss.log_moment": "composed curves of it have vectors",
        "privacy.noise_losses.DiscreteGaussianLoss.log_decay": "composed curves of it have vectors",
    },
)


@REGISTRY.formula("privacy.losses.sum_with_counts_rounded_up")
def _sum_above() -> Iterator[Vector]:
    """Exact for up to 16 kinds; above, every value on its own is the next multiple of 1e-30."""
    few = [(F(1, n), n + 1) for n in range(2, 18)]
    yield exact(F(16) + sum(F(1, n) for n in range(2, 18)), sum_with_counts_rounded_up, few)
    many = [*few, (F(2, 7), 3)]
    units = sum(-(-(10**30) // n) * (n + 1) for n in range(2, 18)) + 3 * -(-2 * 10**30 // 7)
    yield exact(F(units, 10**30), sum_with_counts_rounded_up, many)
    yield exact(F(10), sum_with_counts_rounded_up, [(F(5, 2), 4), (F(0), 9)])
    yield exact(None, sum_with_counts_rounded_up, [(F(1), 1), (None, 1)])


_TIGHT = 1e-13
"""How close the bounds of a closed form lie."""


@REGISTRY.formula("privacy.losses.ResponseLoss.group")
def _group_of_responses() -> Iterator[Vector]:
    for epsilon, delta, k in (("1", "1e-6", 2), ("0.25", "1e-4", 7), ("0", "0.01", 3)):
        truth = real(delta) * MP.fsum(MP.exp(j * real(epsilon)) for j in range(k))
        curve = sf.Curve.approximate(epsilon, delta)
        yield upper_fraction(truth, ROUNDED, lambda curve=curve, k=k: curve.group(k).failure)


_RARE = ("0.999999", "0.000001"), ("0.999998", "0.000002")


_RARE_PAIRS: Pairs = [(real(p), real(q)) for p, q in zip(*_RARE, strict=True)]


@REGISTRY.formula("privacy.losses.AtomLoss.renyi")
def _renyi_of_atoms() -> Iterator[Vector]:
    """ln Σ pᵅq^{1−α}/(α − 1) of P and Q as probabilities, from the losses ln(p/q) and P: in 50 digits."""
    for p, q in ((("1/2", "1/3", "1/6"), ("1/4", "1/4", "1/2")), (("9/10", "1/10"), ("1/100", "99/100"))):
        pairs = [(real(F(a)), real(F(b))) for a, b in zip(p, q, strict=True)]
        loss = TangentLoss(tuple(float(MP.log(a / b)) for a, b in pairs), tuple(float(a) for a, _ in pairs), 0.0)
        for order in (1.5, 2.0, 40.0):
            exact_order = MP.mpf(order)
            total = sum(a**exact_order * b ** (1 - exact_order) for a, b in pairs)
            expected = MP.log(total) / (exact_order - 1)
            yield between(expected * (1 - 1e-13), expected * (1 + 1e-13), loss.renyi, order)
        expected = sum(a * MP.log(a / b) for a, b in pairs)
        yield between(expected * (1 - 1e-13), expected * (1 + 1e-13), loss.renyi, 1.0)


@REGISTRY.formula("privacy.divergences.renyi")
def _renyi_of_pairs() -> Iterator[Vector]:
    for order in ("0.5", "0.01", "1", "1.5", "2", "32"):
        yield exact(renyi(KNOWN, order), divergences.renyi, KNOWN_P, KNOWN_Q, order)
        yield exact(renyi(_RARE_PAIRS, order), divergences.renyi, *_RARE, order)
    far = ("0.999", "0.001", 0), (0, "1e-9", "0.999999999")
    apart = MP.log(real("0.001") ** real("0.3") * real("1e-9") ** real("0.7")) / real("-0.7")
    yield exact(apart, divergences.renyi, *far, "0.3")
    close = ("0.9", "0.1", 0), ("0.8", "0.15", "0.05")
    alone = MP.log(
        MP.fsum(real(p) ** real("0.3") * real(q) ** real("0.7") for p, q in zip(*close, strict=True))
    ) / real("-0.7")
    yield exact(alone, divergences.renyi, *close, "0.3")
    yield exact(MP.log(5), divergences.renyi, KNOWN_P, KNOWN_Q, "inf")
    yield exact(math.inf, divergences.renyi, [1, 0], [0, 1], 2)
    yield exact(math.inf, divergences.renyi, [1, 0], [0, 1], "0.5")


@REGISTRY.formula("privacy.losses.PairLoss.renyi")
def _renyi_of_exact_pairs() -> Iterator[Vector]:
    """Also where powers overflow, and outside a failure in both directions, normalised apart."""
    for order in ("1", "7", "300"):
        worst = max(renyi(KNOWN, order), renyi([(q, p) for p, q in KNOWN], order))
        yield exact(worst, lambda order=order: sf.Curve.pair(KNOWN_P, KNOWN_Q).renyi(order))
    twice = ("0.25", "0.25", "0.5"), ("0.01", "0.01", "0.98")  # two outcomes of one large loss
    large = [(real(p), real(q)) for p, q in zip(*twice, strict=True)]
    yield exact(renyi(large, 40), lambda: sf.Curve.pair(*twice).renyi(40))
    near = float(max(renyi(KNOWN, "1.001"), renyi([(q, p) for p, q in KNOWN], "1.001")))
    yield between(near - 1e-12, near + 1e-12, lambda: sf.Curve.pair(KNOWN_P, KNOWN_Q).renyi("1.001"))  # 1e-15/(α − 1)
    inside: Pairs = [
        (MP.mpf(1) / 3, MP.mpf(3) / 7),
        (MP.mpf(2) / 3, MP.mpf(4) / 7),
    ]  # of (.3, .6, .1, 0), (.3, .4, 0, .3)
    worst = max(renyi(inside, 5), renyi([(q, p) for p, q in inside], 5))
    yield exact(worst, lambda: sf.Curve.pair(("0.3", "0.6", "0.1", 0), ("0.3", "0.4", 0, "0.3")).renyi(5))


@REGISTRY.formula("privacy.losses.PairLoss._mean_loss")
def _mean_of_exact_pairs() -> Iterator[Vector]:
    """The KL divergence where e^loss is beyond e^30."""
    for rare in ("1e-20", "1e-100", "1e-200"):
        far: Pairs = [(MP.mpf("0.5"), real(rare)), (MP.mpf("0.5"), 1 - real(rare))]
        loss = PairLoss((F(1, 2), F(1, 2)), (F(rare), 1 - F(rare)))
        yield exact(renyi(far, 1), loss._mean_loss)


@REGISTRY.formula("privacy.losses.PairLoss.delta_and_error")
def _delta_of_pairs() -> Iterator[Vector]:
    for epsilon in ("0", "0.5", "1.5"):
        worst = max(hockey_stick(KNOWN, epsilon), hockey_stick([(q, p) for p, q in KNOWN], epsilon))
        yield enclosing(worst, 1e-13, sf.Curve.pair(KNOWN_P, KNOWN_Q).delta_range, epsilon)


@REGISTRY.formula("privacy.losses.PairLoss.failure")
@REGISTRY.formula("privacy.losses.PairLoss._reverse_failure")
def _failure_of_pairs() -> Iterator[Vector]:
    for p, q, failure in (
        ((1, 0, 0), ("0.5", "0.25", "0.25"), F(1, 2)),
        (("0.9", "0.1", 0), ("0.7", 0, "0.3"), F(3, 10)),
        (("0.5", "0.5"), ("0.25", "0.75"), F(0)),
    ):
        curve = sf.Curve.pair(p, q)
        yield exact(
            (failure, failure), lambda c=curve: (c.failure, sf.Curve(c.parts).failure + 0 * c.renyi_above(F(2)))
        )


@REGISTRY.formula("privacy.losses.weighted_power_excess")
def _excess_power() -> Iterator[Vector]:
    for b, y, order in (
        (0.5, 40.0, 1.0),
        (1e-200, 300.0, 2.0),
        (0.25, -50.0, 1.5),
        (0.5, -40.0, 1.0),
        (0.5, 1.0, 2.0),
        (1e-300, 20.0, 40.0),
    ):
        x, weight = MP.exp(MP.mpf(y)), MP.mpf(b)
        truth = weight * (x * y - x + 1) if order == 1 else weight * (x ** MP.mpf(order) - 1 - MP.mpf(order) * (x - 1))
        yield exact(truth, weighted_power_excess, b, y, order)
    yield exact(0.0, weighted_power_excess, 0.0, 800.0, 2.0)


def _continuous_laplace(x: Real, function: Any) -> Real:
    """Integrate over a unit Laplace and one moved by x."""
    ends = [-60 - 0 * x, MP.mpf(0), x, x + 60] if x else [-60, 0, 60]

    def at(z: Real) -> Real:
        return function(MP.exp(-abs(z)) / 2, MP.exp(-abs(z - x)) / 2)

    with MP.workdps(25):
        return MP.quad(at, ends)


def _laplace_delta(x: Any, epsilon: Any) -> Real:
    """The loss falls from x to −x over the shift: below the middle less ε/2 P is the larger."""
    cut, growth = (real(x) - real(epsilon)) / 2, MP.exp(real(epsilon))
    ends = [-MP.inf, 0, cut] if cut > 0 else [-MP.inf, cut]
    return MP.quad(lambda z: (MP.exp(-abs(z)) - growth * MP.exp(-abs(z - real(x)))) / 2, ends)


@REGISTRY.formula("privacy.noise_losses.LaplaceLoss.delta_and_error")
def _delta_of_laplace() -> Iterator[Vector]:
    for scale, epsilon in (("1", "0.5"), ("2", "0"), ("0.25", "3.5")):
        truth = _laplace_delta(1 / F(scale), epsilon)
        yield enclosing(truth, 1e-13, sf.Curve.laplace(scale).delta_range, epsilon)
    for scale, shift, epsilon in (
        ("1", 1, "0.5"),
        ("2", 3, "0.2"),
        ("10", 7, "0"),
        ("0.5", 2, "3"),
        ("3", 5, "1.6"),
        ("4", 4, "0.51"),
        ("0.01", 1, "45"),
    ):
        truth = hockey_stick(moved(laplace_law(F(scale)), shift), epsilon)
        yield enclosing(truth, 1e-13, sf.Curve.discrete_laplace(scale, shift).delta_range, epsilon)
    yield exact((0.0, 0.0), LaplaceLoss(F(3, 2), F(1, 2)).delta_and_error, 1.51)


@REGISTRY.formula("privacy.noise_losses.LaplaceLoss.renyi")
def _renyi_of_laplace() -> Iterator[Vector]:
    """Small and large products of order and loss, order 1, both kinds of noise."""
    for scale, order in (
        ("1", "2"),
        ("10", "10"),
        ("2", "32"),
        ("1", "1"),
        ("0.25", "1"),
        ("0.05", "3"),
        ("0.5", "200"),
    ):
        x, alpha = 1 / real(scale), real(order)
        if alpha == 1:
            truth = _continuous_laplace(x, lambda p, q: p * MP.log(p / q))
        else:
            truth = MP.log(_continuous_laplace(x, lambda p, q, a=alpha: p * (p / q) ** (a - 1))) / (alpha - 1)
        yield exact(truth, LaplaceLoss(1 / F(scale)).renyi, float(order))
    for scale, shift, order in (
        ("1", 1, "2"),
        ("10", 1, "10"),
        ("2", 1, "32"),
        ("3", 4, "1"),
        ("0.5", 1, "1"),
        ("0.1", 1, "1.5"),
        ("0.5", 3, "40"),
        ("20", 3, "1.0001"),
    ):
        truth = renyi(moved(laplace_law(F(scale)), shift), order)
        yield exact(truth, lambda s=scale, k=shift, o=order: sf.Curve.discrete_laplace(s, k).renyi(o))


@REGISTRY.formula("privacy.noise_losses.LaplaceLoss.group")
def _group_of_laplace() -> Iterator[Vector]:
    """k units move a number k times as far."""
    for scale, shift, k, epsilon in (("3", 1, 2, "0.3"), ("3", 2, 3, "0.3"), ("5", 1, 5, "0")):
        truth = hockey_stick(moved(laplace_law(F(scale)), k * shift), epsilon)
        curve = sf.Curve.discrete_laplace(scale, shift)
        yield enclosing(truth, 1e-13, lambda c=curve, k=k, e=epsilon: c.group(k).delta_range(e))


@REGISTRY.formula("privacy.noise_losses.GaussianLoss.delta_and_error")
def _delta_of_gaussian() -> Iterator[Vector]:
    for mu, epsilon in (("1", "4.88655411746"), ("0.25", "1"), ("2", "0"), ("3", "0.5"), ("0.1", "0.6"), ("5", "30")):
        yield enclosing(gaussian_delta(mu, epsilon), 1e-12, lambda m=mu, e=epsilon: sf.Curve.gdp(m).delta_range(e))


@REGISTRY.formula("privacy.noise_losses.GaussianLoss.renyi")
def _renyi_of_gaussian() -> Iterator[Vector]:
    for sigma, change, order in (("2", "1", "3"), ("1", "0.5", "1"), ("10", "3", "64")):
        m, a = real(change) / real(sigma), real(order)
        unit = MP.sqrt(2 * MP.pi)
        if a == 1:
            truth = MP.quad(
                lambda z, m=m, unit=unit: MP.exp(-((z - m) ** 2) / 2) / unit * (z * m - m * m / 2), [-15, 0, m, 15 + m]
            )
        else:
            peak = a * m
            raised = MP.quad(
                lambda z, m=m, a=a, unit=unit: MP.exp(-((z - m) ** 2) / 2 + (a - 1) * (z * m - m * m / 2)) / unit,
                [peak - 20, peak - 3, peak, peak + 3, peak + 20],
            )
            truth = MP.log(raised) / (a - 1)
        yield exact(truth, lambda s=sigma, c=change, o=order: sf.Curve.gaussian(s, c).renyi(o))


@REGISTRY.formula("privacy.noise_losses.GaussianLoss.group")
def _group_of_gaussian() -> Iterator[Vector]:
    for mu, k, epsilon in (("0.5", 2, "1"), ("0.25", 3, "0.1"), ("1", 4, "8")):
        truth = gaussian_delta(k * F(mu), epsilon)
        yield enclosing(truth, 1e-12, lambda m=mu, k=k, e=epsilon: sf.Curve.gdp(m).group(k).delta_range(e))


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianLoss.renyi")
def _renyi_of_discrete_gaussian() -> Iterator[Vector]:
    for sigma, shift, order in (
        ("0.3", 1, "1.5"),
        ("0.5", 2, "3"),
        ("2", 1, "1.25"),
        ("0.4", 1, "1"),
        ("0.9", 3, "2.7"),
    ):
        with MP.workdps(60):
            truth = renyi(moved(gaussian_law(F(sigma)), shift), order)
        yield exact(truth, DiscreteGaussianLoss(F(sigma) ** 2, shift).renyi, float(order))


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianLoss.group")
def _group_of_discrete_gaussian() -> Iterator[Vector]:
    for sigma, shift, k, epsilon in (("2", 1, 2, "0.5"), ("4", 2, 3, "1"), ("0.7", 1, 2, "0")):
        truth = hockey_stick(moved(gaussian_law(F(sigma)), k * shift), epsilon)
        curve = sf.Curve.discrete_gaussian(sigma, shift)
        yield enclosing(truth, INVERTED, lambda c=curve, k=k, e=epsilon: c.group(k).delta_range(e))


@REGISTRY.formula("privacy.losses.ResponseLoss.renyi")
def _renyi_of_response() -> Iterator[Vector]:
    for epsilon, choices, order in (
        ("1", 2, "2"),
        ("0.1", 5, "10"),
        ("3", 4, "40"),
        ("2", 3, "1"),
        ("1e-6", 2, "1.5"),
        ("40", 2, "1"),
    ):
        truth = renyi(response(epsilon, choices), order)
        yield exact(truth, ResponseLoss(F(epsilon), choices).renyi, float(order))


@REGISTRY.formula("privacy.losses.ResponseLoss.delta_and_error")
def _delta_of_response() -> Iterator[Vector]:
    for epsilon, choices, at in (("1", 2, "0"), ("1", 5, "0.5"), ("3", 4, "2.9")):
        truth = hockey_stick(response(epsilon, choices), at)
        yield enclosing(truth, _TIGHT, sf.Curve.randomized_response(epsilon, choices).delta_range, at)
    for epsilon, reveal, at in (("1", "0.01", "0.5"), ("0.5", "1e-6", "0"), ("1", "1e-9", "0.9")):
        truth = hockey_stick(response(epsilon, 2, reveal), at)
        yield enclosing(truth, _TIGHT, sf.Curve.approximate(epsilon, reveal).delta_range, at)


@REGISTRY.formula("privacy.losses.BoundedRangeLoss.delta_and_error")
def _delta_of_ranges() -> Iterator[Vector]:
    for eta, epsilon in (("1", "0"), ("1", "0.5"), ("0.01", "0.001"), ("6", "2")):
        truth = most_value(lambda t, e=epsilon, n=eta: hockey_stick(ranged(n, t), e), real(epsilon), real(eta))
        yield enclosing(truth, 1e-12, sf.Curve.bounded_range(eta).delta_range, epsilon)


@REGISTRY.formula("privacy.losses.BoundedRangeLoss.renyi")
def _renyi_of_ranges() -> Iterator[Vector]:
    for eta, order in (("1", "2"), ("0.1", "22"), ("1", "1"), ("3", "64"), ("50", "1"), ("1e-4", "5")):
        truth = most_value(
            lambda t, a=order, n=eta: renyi(ranged(n, t), a), real(eta) / 10**6, real(eta) * (1 - MP.mpf(10) ** -6)
        )
        yield exact(truth, BoundedRangeLoss(F(eta)).renyi, float(order))


@REGISTRY.formula("privacy.losses.BoundedRangeLoss.group")
def _group_of_ranges() -> Iterator[Vector]:
    """Ranges of a chain of neighbours add up."""
    for eta, k, epsilon in (("0.5", 2, "0.25"), ("0.1", 7, "0"), ("1", 3, "1")):
        whole = k * F(eta)
        truth = most_value(lambda t, e=epsilon, n=whole: hockey_stick(ranged(n, t), e), real(epsilon), real(whole))
        yield enclosing(truth, 1e-12, lambda n=eta, k=k, e=epsilon: sf.Curve.bounded_range(n).group(k).delta_range(e))


def _concentrated_delta(rho: Any, epsilon: Any) -> Real:
    r, e = real(rho), real(epsilon)

    def log(log_z: Real) -> Real:
        z = MP.exp(log_z)
        return MP.log(conversion(1 + z, 0, 0)) + z * ((1 + z) * r - e)

    return MP.exp(least_value(log, -4, 6, 50))


@REGISTRY.formula("privacy.losses.ConcentratedLoss.renyi")
def _delta_of_concentration() -> Iterator[Vector]:
    for rho, order in (("0.5", "2"), ("0.01", "30"), ("2", "1")):
        truth = renyi([(MP.mpf(1), MP.mpf(1))], 2) + real(rho) * real(order)
        yield exact(truth, lambda r=rho, o=order: sf.Curve.concentrated(r).renyi(o))
    for rho, epsilon in (("0.5", "5.22153444453"), ("0.01", "0.5"), ("1", "2")):
        truth = _concentrated_delta(rho, epsilon)
        yield upper(truth, 1e-8, _with_divergence, rho, epsilon)


def _with_divergence(rho: str, epsilon: str) -> float:
    assert ConcentratedLoss(F(rho)).renyi(3.0) == 3 * float(F(rho))
    return theorems.rho_to_delta(rho, epsilon)


@REGISTRY.formula("privacy.losses.ConcentratedLoss.group")
def _group_of_concentration() -> Iterator[Vector]:
    for rho, k in (("0.5", 2), ("0.01", 3), ("1", 10)):
        yield exact(
            F(rho) * sum(2 * j + 1 for j in range(k)),
            lambda r=rho, k=k: sf.Curve.concentrated(r).group(k).parts[0][0].rho,
        )


_CHANGE = sf.Sensitivity(3, 2, 3)  # squares at most 5


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianVectorLoss.renyi")
@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianVectorLoss.rho")
def _divergence_of_vectors() -> Iterator[Vector]:
    """The largest of all shifts: each coordinate's own, by sums."""
    for sigma, order in (("2", 2), ("6", 3), ("1.5", 5)):
        law = gaussian_law(F(sigma))
        worst = max(MP.fsum(renyi(moved(law, size), order) for size in shift) for shift in shifts(_CHANGE))
        loss = DiscreteGaussianVectorLoss(F(sigma) ** 2, 3, 2, 3, 5)
        yield upper(worst * (1 - MP.mpf(10) ** -15), 1e-9, loss.renyi, float(order))


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianVectorLoss.delta_and_error")
@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianVectorLoss.slack")
def _delta_of_vectors() -> Iterator[Vector]:
    """Above the worst shift's, by no more than 2/σ² of the variance costs."""
    for sigma, epsilon in (("5.7", "0.5"), ("9.45", "0"), ("9.45", "1")):
        worst = max(worst_shift(sigma, shift, epsilon) for shift in shifts(_CHANGE))
        loss = DiscreteGaussianVectorLoss(F(sigma) ** 2, 3, 2, 3, 5)
        less = gaussian_delta(MP.sqrt(5 / (real(sigma) ** 2 - 2)), epsilon)
        yield between(
            max(up(MP.mpf(worst)), up(less)),
            up(less * (1 + MP.mpf("1e-10"))),
            lambda s=loss, e=epsilon: sum(s.delta_and_error(float(e)) or ()),
        )


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianVectorLoss.continuous_mu_squared")
def _mu_squared() -> Iterator[Vector]:
    for sigma_squared, squares, wanted in ((F(34), 8, F(1, 4)), (F(52), 5, F(1, 10)), (F(102), 3, F(3, 100))):
        yield exact(
            wanted, lambda v=sigma_squared, n=squares: DiscreteGaussianVectorLoss(v, 9, 9, 99, n).continuous_mu_squared
        )


@REGISTRY.formula("privacy.noise_losses.DiscreteGaussianVectorLoss.group")
def _group_of_vectors() -> Iterator[Vector]:
    """k vectors of the set are added up, all of them."""
    few = [shift for shift in itertools.product(range(-1, 2), repeat=3) if sum(map(abs, shift)) <= 2]
    loss = DiscreteGaussianVectorLoss(F(9), 3, 1, 2, 2)
    for k in (1, 2, 3):
        sums = {tuple(map(sum, zip(*picked, strict=True))) for picked in itertools.product(few, repeat=k)}
        wanted = (
            max(sum(map(abs, s)) for s in sums),
            max(sum(x * x for x in s) for s in sums),
            max(max(map(abs, s)) for s in sums),
        )
        yield exact(wanted, lambda k=k: ((g := loss.group(k)).total, g.squares, g.per_group))


@REGISTRY.formula("privacy.noise_losses.maximal_shifts")
def _largest_shifts() -> Iterator[Vector]:
    for bounds in ((3, 2, 3, 5), (2, 3, 4, 10), (4, 1, 3, 3), (2, 3, 4, 12), (2, 3, 4, 8), (3, 4, 9, 20)):
        every = _whole_shifts(*bounds)
        grown = {s for s in every if not any(_covers(other, s) for other in every if other != s)}
        squares = sorted((sum(x * x for x in s) for s in grown), reverse=True)
        yield exact(squares, lambda b=bounds: [sum(x * x for x in s) for s in maximal_shifts.__wrapped__(*b)])


def _whole_shifts(groups: int, per_group: int, total: int, squares: int) -> set[tuple[int, ...]]:
    """List every falling vector of whole numbers within the bounds."""
    falling = (
        shift
        for length in range(1, groups + 1)
        for shift in itertools.combinations_with_replacement(range(per_group, 0, -1), length)
    )
    return {shift for shift in falling if sum(shift) <= total and sum(x * x for x in shift) <= squares}


def _covers(large: tuple[int, ...], small: tuple[int, ...]) -> bool:
    return len(large) >= len(small) and all(a >= b for a, b in zip(large, small, strict=False))


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
