"""What an account charges for every mechanism, against charges computed by other code in 50 digits.

A charge is never below the divergence, not by the last digit: there is no slack on that side. Above it lies what the
account adds for its own rounding and no more: 2^-41 of the divergence, and 2^-45/(α − 1) where a logarithm of a sum is
taken. The pure and the failing part are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import pytest

import sfumato as sf
from privacy import exact
from privacy.exact import number
from sfumato.mechanisms import FrequentValues, KeyThreshold, Quantiles, TopK

Truth = Callable[[Fraction], Any]
"""D_α of one release, by its order."""
_DIGITS = 50
_UNIT = 10**30
_ACCOUNTS = [{"order": "3/2"}, {"order": 2}, {}, {"order": 40}]
_RELATIONS = ("add-remove", "replace")


@dataclass(frozen=True)
class Case:
    """A release, and what it costs by the theorem that its mechanism names."""

    name: str
    curve: sf.Curve
    renyi: Truth
    pure: Fraction | None
    failure: Fraction = Fraction(0)


def of_response(epsilon: Fraction, choices: int = 2) -> Truth:
    """With two choices, the most that any ε-DP release leaks: ln[(e^{αε} + e^{(1−α)ε})/(1 + e^ε)]/(α − 1)."""
    return lambda order: exact.renyi(exact.response(epsilon, choices), order)


def of_laplace(scale: object, *moves: int) -> Truth:
    return lambda order: mpmath.fsum(exact.renyi(exact.discrete_laplace(scale, move), order) for move in moves)


def of_gaussian(rho: Fraction) -> Truth:
    return lambda order: number(order) * number(rho)


def of_range(eta: Fraction, times: int = 1) -> Truth:
    """sup over 0 < t < η of ln[p·e^{αt} + (1 − p)·e^{α(t−η)}]/(α − 1), p = (1 − e^{t−η})/(e^t − e^{t−η})."""

    def divergence(order: Fraction) -> Any:
        alpha, width = number(order), number(eta)

        def at(t: Any) -> Any:
            low, high = mpmath.exp(t - width), mpmath.exp(t)
            p = (1 - low) / (high - low)
            return mpmath.log(p * high**alpha + (1 - p) * low**alpha) / (alpha - 1)

        low, high = mpmath.mpf(0), width
        for _ in range(180):  # of one peak, and flat around it: far closer than 50 digits can tell
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if at(left) < at(right) else (low, right)
        return times * at(low)

    return divergence


def of_gaussian_keys(sigma: Fraction, keys: int, epsilon: Fraction, lost: Fraction) -> Truth:
    """What is left of the noise where its loss is within ε: ln[(e^{(α−1)αρ} + e^{−αε−(ε−ρ)²/4ρ})/(1 − δ/2)]/(α − 1),
    of an order of at least 2; never more than any ε-DP release leaks.
    """
    rho = Fraction(keys, 2) / sigma**2

    def divergence(order: Fraction) -> Any:
        alpha, e, r = number(max(order, Fraction(2))), number(epsilon), number(rho)
        kept = mpmath.exp((alpha - 1) * alpha * r) + mpmath.exp(-alpha * e - (e - r) ** 2 / (4 * r))
        return min(mpmath.log(kept / (1 - number(lost) / 2)) / (alpha - 1), of_response(epsilon)(order))

    return divergence


def _cases(relation: str) -> list[Case]:
    """Every mechanism that can be stated for these neighbours."""
    e, terms = Fraction(7, 10), {"neighbours": relation}
    moved = sf.Sensitivity(3, 2, 5, neighbours=relation)
    lost, held = Fraction(1, 10**7), 6 if relation == "replace" else 3
    wide = KeyThreshold.gaussian(e, lost, 3, relation)
    sigma = Fraction(wide.sigma or 0)
    both = sf.compose([(sf.Laplace(3).curve(sf.Sensitivity(1, 1, neighbours=relation)), 4), sf.Curve.pure(e, relation)])
    return [
        Case("Laplace", sf.Laplace("3.1").curve(moved), of_laplace("3.1", 2, 2, 1), Fraction(50, 31)),
        Case("Gaussian", sf.Gaussian("3.1").curve(moved), of_gaussian(Fraction(900, 2 * 961)), None),
        Case("exponential", sf.Exponential(e, **terms).curve(), of_range(e), e),
        Case("permute and flip", sf.PermuteAndFlip(e, **terms).curve(), of_response(e), e),
        Case("noisy max, Laplace", sf.NoisyMax(e, noise="laplace", **terms).curve(), of_response(e), e),
        Case("noisy max, Gumbel", sf.NoisyMax(e, noise="gumbel", **terms).curve(), of_range(e), e),
        Case("the best three", TopK(e, k=3, **terms).curve(), of_range(e / 3, 3), e),
        Case("frequent values", FrequentValues(e, k=2, **terms).curve(), of_range(e / 2, 2), e),
        Case("above a threshold", sf.AboveThreshold(e, 10, **terms).curve(), of_response(e), e),
        Case("pure", sf.Curve.pure(e, relation), of_response(e), e),
        Case("approximate", sf.Curve.approximate(e, "1e-7", relation), of_response(e), e, Fraction(1, 10**7)),
        Case("concentrated", sf.Curve.concentrated("0.3", relation), of_gaussian(Fraction(3, 10)), None),
        Case("one key", KeyThreshold(e, lost, 1, **terms).curve(), of_response(e), e, lost),
        Case("keys", KeyThreshold(e, lost, 3, **terms).curve(), of_laplace(held / e, *[1] * held), e, lost),
        Case("keys, Gaussian", wide.curve(), of_gaussian_keys(sigma, held, e, lost), e, lost),
        Case("quantiles", Quantiles(["0.25", "0.5", "0.75"], e, (0, 9), **terms).curve(), of_range(e / 2, 2), e),
        Case("several", both, lambda order: 4 * of_laplace(3, 1)(order) + of_response(e)(order), Fraction(4, 3) + e),
    ]


def _local_cases() -> list[Case]:
    """Reports of single people: how many there are shows, so they are stated for replace alone."""
    e, hashing = Fraction(7, 10), sf.OptimalLocalHashing("0.7", 50)
    return [
        Case("response", sf.RandomizedResponse(e, 5).curve(), of_response(e, 5), e),
        Case("unary encoding", sf.OptimizedUnaryEncoding(e, 5).curve(), of_response(e), e),
        Case("local hashing", hashing.curve(), of_response(e, hashing.cells), e),
    ]


CASES = [*(each for relation in _RELATIONS for each in _cases(relation)), *_local_cases()]


def _truth(case: Case, order: Fraction) -> Fraction:
    with mpmath.workdps(_DIGITS):
        found = case.renyi(order)
        return Fraction(int(mpmath.floor(found * mpmath.mpf(10) ** (_DIGITS - 5)))) / 10 ** (_DIGITS - 5)


def _amount(price: Fraction) -> Fraction | int:
    """A price in units: exact where its denominator is at most 10⁹, else rounded up."""
    return price * _UNIT if price.denominator <= 10**9 else math.ceil(price * _UNIT)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}, {case.curve.neighbours.value}")
@pytest.mark.parametrize("account", _ACCOUNTS, ids=lambda account: f"order {account.get('order', 'by default')}")
def test_a_charge_is_what_was_computed_independently(case: Case, account: dict[str, Any]) -> None:
    budget = sf.Budget(30, "1e-6", neighbours=case.curve.neighbours, **account)
    cost = budget.cost(case.curve)
    assert budget.order is not None
    assert cost.renyi is not None
    truth = _truth(case, budget.order)
    charged = Fraction(cost.renyi, _UNIT)
    above = truth * Fraction(1, 2**40) + Fraction(1, 2**44) / (budget.order - 1) + Fraction(1, _UNIT)
    assert truth <= charged <= truth + above
    assert cost.pure == (None if case.pure is None else _amount(case.pure))
    assert cost.failure == _amount(case.failure)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}, {case.curve.neighbours.value}")
def test_what_is_charged_is_what_is_gone(case: Case) -> None:
    """Every currency falls by the cost, of equal charges as often as they were made."""
    before = sf.Budget(300, "1e-3", neighbours=case.curve.neighbours)
    cost, after = before.cost(case.curve), before.charge(case.curve).charge(case.curve)
    assert after.spent_pure == (None if cost.pure is None else 2 * cost.pure)
    assert cost.renyi is not None
    assert (after.spent_renyi, after.spent_failure) == (2 * cost.renyi, 2 * cost.failure)
    assert not sf.Budget(0, 0, neighbours=case.curve.neighbours).affords(case.curve)
