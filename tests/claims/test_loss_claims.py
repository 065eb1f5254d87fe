"""Every family of losses on record: all that a loss says of itself, at small, usual and extreme parameters."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from claims.outcomes import logarithms, numbers, outcome, outcomes
from claims.recorded import Claim, check_claims
from sfumato.privacy import numbers as stable
from sfumato.privacy.losses import (
    BoundedRangeLoss,
    ClosedFormLoss,
    ConcentratedLoss,
    Loss,
    PairLoss,
    ResponseLoss,
    two_atom_decay,
    weighted_power_excess,
)
from sfumato.privacy.noise_losses import (
    DiscreteGaussianLoss,
    DiscreteGaussianVectorLoss,
    GaussianLoss,
    LaplaceLoss,
    _scaled_expm1,
    maximal_shifts,
)
from sfumato.privacy.threshold_losses import (
    GaussianKeyThresholdLoss,
    LaplaceKeyThresholdLoss,
    laplace_tail,
    max_passing_probability,
)

F = Fraction

ORDERS = (1.0, 1.0 + 1e-2, 1.25, 2.0, 3.5, 17.0, 400.0)
EPSILONS = (0.0, 0.03, 0.3, 0.9, 1.0, 1.2, 2.9, 4.5, 12.0, 40.0)
POINTS = np.array([0.3 + 0j, 1 + 0j, 2.5 + 0.7j, 0.01 + 30j, 40 + 3j, 1e-9 + 0j])

LAPLACE = [
    *(LaplaceLoss(F(x)) for x in ("0", "1/1000", "1/5", "1", "5/2", "20", "45", "800")),
    *(LaplaceLoss(F(x), F(s)) for x, s in (("1/5", "1/10"), ("9/8", "9/8"), ("3", "1/2"), ("2", "1/100"), ("24", "3"))),
    *(LaplaceLoss(F(x), F(s)) for x, s in (("900", "900"), ("60", "20"), ("1400", "700"), ("11", "11"))),
]
GAUSSIAN = [
    *(GaussianLoss(F(x)) for x in ("0", "1/10000", "1/4", "1", "9", "400")),
    *(DiscreteGaussianLoss(F(x), s) for x, s in (("1/9", 1), ("1/2", 3), ("1", 1), ("4", 2), ("30", 7), ("1000", 0))),
]
RESPONSE = [
    *(ResponseLoss(F(x), k) for x, k in (("0", 2), ("1/50", 2), ("1", 2), ("1", 5), ("7", 3), ("90", 2), ("31", 40))),
    *(ResponseLoss(F(x), k, F(d)) for x, k, d in (("1/2", 2, "1/1000"), ("0", 2, "1/8"), ("3", 6, "1/3"))),
]
PROMISED = [
    *(BoundedRangeLoss(F(x)) for x in ("0", "1/1000", "1/3", "1", "4", "29", "50", "900")),
    *(ConcentratedLoss(F(x)) for x in ("0", "1/200", "1/2", "3")),
]
PAIRS = [
    PairLoss((F(1, 2), F(1, 2)), (F(1, 2), F(1, 2))),
    PairLoss((F(3, 4), F(1, 4)), (F(1, 4), F(3, 4))),
    PairLoss((F(1, 2), F(1, 3), F(1, 6)), (F(1, 6), F(1, 3), F(1, 2))),
    PairLoss((F(1, 2), F(3, 8), F(1, 8), F(0)), (F(1, 4), F(1, 2), F(0), F(1, 4))),
    PairLoss((F(1), F(0)), (F(0), F(1))),
    PairLoss((1 - F(1, 10**20), F(1, 10**20)), (F(1, 10**20), 1 - F(1, 10**20))),
    PairLoss((F(1, 10**40), 1 - F(1, 10**40)), (F(1, 10**60), 1 - F(1, 10**60))),
]
THRESHOLDS = [
    LaplaceKeyThresholdLoss(F(3), 30, F(1, 10**4), 3, 1, 1),
    LaplaceKeyThresholdLoss(F(8), 200, F(1, 10**6), 4, 4, 2),
    LaplaceKeyThresholdLoss(F(1, 2), 9, F(1, 100), 6, 2, 1),
    GaussianKeyThresholdLoss(F(25), 4, F(1), F(1, 10**6)),
    GaussianKeyThresholdLoss(F(9, 4), 1, F(3), F(1, 100)),
    GaussianKeyThresholdLoss(F(400), 50, F(1, 4), F(1, 10**9)),
    GaussianKeyThresholdLoss(F(4), 9, F(1, 2), F(1, 2)),
]
VECTORS = [
    DiscreteGaussianVectorLoss(F(s), *moved)
    for s, moved in (
        ("9", (3, 2, 3, 5)),
        ("40", (5, 3, 7, 19)),
        ("32", (2, 1, 2, 2)),
        ("31", (4, 2, 4, 8)),
        ("10000", (30, 90, 2000, 180000)),
        ("50", (4, 3, 0, 0)),
    )
]
FAMILIES = {
    "laplace": LAPLACE,
    "gaussian": GAUSSIAN,
    "response": RESPONSE,
    "promised": PROMISED,
    "pairs": PAIRS,
    "thresholds": THRESHOLDS,
    "vectors": VECTORS,
}

ATTRIBUTES = {
    "pure": "pure_epsilon",
    "top": "largest_finite_loss",
    "lattice": "spacing_and_offset",
    "trivial": "is_trivial",
}


def facts_of(loss: Loss) -> Iterator[tuple[str, Any]]:
    for name in (
        "pure",
        "top",
        "failure",
        "lattice",
        "trivial",
        "is_zero_where_finite",
        "magnitude",
        "moments_known",
        "sort_key",
    ):
        attribute = ATTRIBUTES.get(name, name)
        yield name, outcome(lambda attribute=attribute: getattr(loss, attribute))
    yield "renyi", outcomes(loss.renyi, ORDERS)
    yield "delta", outcomes(loss.delta_and_error, [x for x in EPSILONS if not loss.is_trivial])
    yield "reversed", numbers(loss.reversed())
    yield "symmetrised", numbers(loss.symmetrised())
    yield "factors", numbers(loss.factors)
    yield "alternatives", numbers(loss.products_to_maximise)
    for k in (1, 2, 3, 9):
        yield f"group of {k}", outcome(lambda k=k: loss.group(k))


def moments_of(loss: Loss) -> Iterator[tuple[str, Any]]:
    if not isinstance(loss, ClosedFormLoss) or loss.is_trivial:
        return
    parameters = [each if isinstance(each, np.ndarray) else np.array([[each]]) for each in loss.log_moment_parameters]
    yield "parameters", numbers(loss.log_moment_parameters)
    yield "log_moment", logarithms(type(loss).log_moment(POINTS, *parameters))
    heights = np.array([0.0, 0.1, 0.7, 3.0, 11.0, 100.0])
    for c in (0.02, 0.8, 6.0):
        yield f"log_bound at {c}", tuple(logarithms(type(loss).log_bound(c, t, *parameters)) for t in (0.01, 1.0, 50.0))
        yield f"log_decay at {c}", logarithms(type(loss).log_decay(c, heights, *parameters))


@pytest.mark.parametrize("family", FAMILIES)
def test_losses(family: str) -> None:
    claims: dict[str, Claim] = {}
    for loss in FAMILIES[family]:
        with np.errstate(all="ignore"):
            for name, fact in (*facts_of(loss), *moments_of(loss)):
                claims[f"{loss!r} {name}"] = fact
    check_claims(f"losses/{family}", claims)


def test_stable_functions() -> None:
    small = (0.0, 1e-9, 0.004, 0.29, 0.3, 0.31, 0.99, 1.0, 1.01, 4.9, 5.0, 5.1, 12.0, 35.0)
    signed = (*small, *(-y for y in small if y))
    ratios = [(F(1, 3), F(1, 3)), (F(1, 3), F(1, 2)), (F(1, 3), F(2, 3)), (F(9, 10), F(1, 10)), (F(1, 10**9), F(1))]
    ratios += [(F(1, 10**300), F(1)), (F(1), F(1, 10**300)), (F(1, 10**301), F(1)), (F(1), F(1, 10**301))]
    gaps = [(0.0, 0.0), (0.0, 0.004), (0.001, 0.0099), (0.001, 0.01), (0.3, 0.9), (0.0, 30.0), (39.0, 44.0)]
    gaps += [(40.0, 44.0), (41.0, 44.0), (500.0, 900.0)]
    turns = np.array([0j, 0.3 + 0j, 0.5 + 0.1j, -1.7 + 0.4j, 2.2 - 0.05j])
    claims = {
        "excess_exp": outcomes(stable.excess_exp, signed),
        "sinhc_minus_one": outcomes(stable.sinhc_minus_one, signed),
        "power_excess": tuple(outcomes(lambda y, a=a: stable.power_excess(y, a), signed) for a in (1, 1.5, 2, 7)),
        "weighted_power_excess": tuple(
            outcomes(lambda y, a=a, b=b: weighted_power_excess(b, y, a), (*signed, 70.0, -70.0))
            for a, b in ((1, 0.25), (1.5, 0.0), (1.5, 0.5), (2, 1e-12), (7, 0.1))
        ),
        "log_ratio": tuple(stable.log_ratio(*each) for each in ratios),
        "exprel_minus_real": outcomes(stable.exprel_minus_real, signed),
        "log_exprel_minus_ratio": tuple(stable.log_exprel_minus_ratio(*each) for each in gaps),
        "mills_ratio": outcomes(stable.mills_ratio, [*small, 60.0, 1e6]),
        "exprel_minus": numbers(stable.exprel_minus(np.array([0j, 1e-9 + 0j, 1e-8 + 0j, 0.3 + 2j, 30 - 4j]))),
        "log_theta_ratio": tuple(logarithms(stable.log_theta_ratio(turns, v)) for v in (0.1, 0.5, 0.99, 1.0, 3.0)),
        "lifted": tuple(
            _scaled_expm1(y, b) for y in (-3.0, 0.0, 0.4, 29.9, 30.0, 30.1, 900.0) for b in (0.1, 2.0, 40.0)
        ),
        "two_atoms": logarithms(
            two_atom_decay(np.array([0.5, 0.2, 1.0]), np.array([0.5, 0.1, 0.0]), np.array([0.0, 1.0, 9.0]))
        ),
    }
    check_claims("losses/stable_functions", claims)


def test_tails_and_shifts() -> None:
    claims: dict[str, Claim] = {}
    for scale in (F(1, 2), F(3), F(40)):
        claims[f"laplace_tail {scale}"] = tuple(str(laplace_tail(scale, t)) for t in (-7, -1, 0, 1, 2, 9, 200))
        for threshold, weight, most in ((2, 1, 1), (9, 3, 1), (30, 8, 4), (200, 50, 10), (3, 4, 4)):
            name = f"most_passing {scale} {threshold} {weight} {most}"
            claims[name] = max_passing_probability(scale, threshold, weight, most)
    bounds = [(1, 1, 1, 1), (3, 2, 3, 5), (4, 3, 8, 20), (2, 9, 9, 60), (5, 2, 10, 20), (9, 9, 81, 64), (9, 9, 81, 65)]
    bounds += [(9, 9, 64, 729), (9, 9, 65, 729), (8, 8, 99, 99), (64, 1, 64, 64), (65, 1, 65, 65), (3, 0, 4, 4)]
    bounds += [(40, 5, 30, 60), (6, 6, 20, 64), (2, 3, 6, 17), (0, 3, 3, 9)]
    for each in bounds:
        claims[f"largest_shifts {each}"] = numbers(maximal_shifts(*each))
    check_claims("losses/tails_and_shifts", claims)


def test_limits_of_losses() -> None:
    calls: dict[str, Any] = {
        "step that does not divide": lambda: LaplaceLoss(F(1), F(2, 3)),
        "weight that most does not divide": lambda: LaplaceKeyThresholdLoss(F(3), 30, F(1, 10), 3, 2),
        "threshold 0": lambda: LaplaceKeyThresholdLoss(F(3), 0, F(1, 10)),
        "reveal 0": lambda: LaplaceKeyThresholdLoss(F(3), 9, F(0)),
        "no choice": lambda: ResponseLoss(F(1), 1),
        "reveal 1": lambda: ResponseLoss(F(1), 2, F(1)),
        "negative range": lambda: BoundedRangeLoss(F(-1)),
        "text range": lambda: BoundedRangeLoss("0.5"),  # type: ignore[arg-type]
        "text rho": lambda: ConcentratedLoss("0.5"),  # type: ignore[arg-type]
        "text response": lambda: ResponseLoss("0.5", "3", "0.1"),  # type: ignore[arg-type]
        "text laplace": lambda: LaplaceLoss("0.5", "0.25"),  # type: ignore[arg-type]
        "text mu": lambda: GaussianLoss("0.5"),  # type: ignore[arg-type]
        "text variance": lambda: DiscreteGaussianLoss("0.5", "2"),  # type: ignore[arg-type]
        "text vector": lambda: DiscreteGaussianVectorLoss("0.5", "2", "1", "2", "2"),  # type: ignore[arg-type]
        "text threshold": lambda: LaplaceKeyThresholdLoss("2", "7", "0.5", "2", "2", "1"),  # type: ignore[arg-type]
        "text gaussian threshold": lambda: GaussianKeyThresholdLoss("2", "7", "0.5", "0.2"),  # type: ignore[arg-type]
        "variance 0": lambda: DiscreteGaussianLoss(F(0), 1),
        "no keys": lambda: GaussianKeyThresholdLoss(F(1), 0, F(1), F(1, 10)),
        "group at the last weight": lambda: LaplaceKeyThresholdLoss(F(4096), 9**9, F(1, 10), 64, 64).group(64),
        "group beyond the last weight": lambda: float(
            LaplaceKeyThresholdLoss(F(4096), 9**9, F(1, 10**40), 64, 64).group(65).failure
        ),
        "group that surely fails": lambda: LaplaceKeyThresholdLoss(F(1, 1000), 2, F(1, 10)).group(2),
        "group of many failures": lambda: ResponseLoss(F(1), 2, F(1, 10)).group(3),
        "group of large losses": lambda: float(ResponseLoss(F(350), 2, F(1, 10**300)).group(2).reveal),
        "group of larger losses": lambda: ResponseLoss(F(351), 2, F(1, 10**300)).group(2),
        "group without a loss": lambda: ResponseLoss(F(0), 2, F(1, 10)).group(9),
        "group whose failure is 1": lambda: ResponseLoss(F(0), 2, F(1, 10)).group(10),
        "longest chain": lambda: PAIRS[2].group(8),
        "longer chain": lambda: PAIRS[2].group(9),
    }
    check_claims("losses/limits", {name: outcome(call) for name, call in calls.items()})
