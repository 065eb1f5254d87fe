"""Curves on record: what single releases and compositions cost in every currency, and the sums behind δ(ε)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import sfumato as sf
from claims.outcomes import numbers, outcome, outcomes, to_digits
from claims.recorded import check_claims
from sfumato.privacy.curve import Curve, compose

F = Fraction
DELTAS = ("0", "1e-12", "1e-6", "0.001", "0.3", "0.9")
EPSILONS = ("0", "0.05", "0.5", "1", "2.5", "9", "50")
BOUNDED = sf.Sensitivity(3, 2, 3)
REPLACED = sf.Sensitivity(2, 1, neighbours="replace")
LONG = sf.Sensitivity(30, 90, 2000)

SINGLE = {
    "laplace": Curve.laplace("1.5"),
    "laplace on three": Curve.laplace(4, BOUNDED),
    "laplace, replaced": Curve.laplace(4, REPLACED),
    "discrete laplace": Curve.discrete_laplace("0.7", 2),
    "discrete laplace, rounded up": Curve.discrete_laplace(3, "1.5"),
    "discrete laplace on three": Curve.discrete_laplace(3, BOUNDED),
    "gaussian": Curve.gaussian(2, BOUNDED),
    "gaussian of small noise": Curve.gaussian("0.1"),
    "discrete gaussian": Curve.discrete_gaussian("0.6", 2),
    "discrete gaussian, every coordinate": Curve.discrete_gaussian(3, sf.Sensitivity(4, 2)),
    "discrete gaussian, few shifts": Curve.discrete_gaussian(4, BOUNDED),
    "discrete gaussian, near": Curve.discrete_gaussian(400, LONG),
    "discrete gaussian, moments alone": Curve.discrete_gaussian(5, LONG),
    "discrete gaussian, squares": Curve.discrete_gaussian(7, sf.Sensitivity(3, 4, 9, "30.5")),
    "discrete gaussian, rounded up": Curve.discrete_gaussian(7, sf.Sensitivity(3, "1.5", 4)),
    "randomized response": Curve.randomized_response("1.2", 4),
    "bounded range": Curve.bounded_range("0.8"),
    "bounded range, replaced": Curve.bounded_range("2", "replace"),
    "pure": Curve.pure("1/3"),
    "approximate": Curve.approximate("0.4", "1e-5"),
    "approximate, replaced": Curve.approximate("0.4", "1e-5", "replace"),
    "concentrated": Curve.concentrated("0.02"),
    "gdp": Curve.gdp("0.7", "replace"),
    "pair": Curve.pair(["1/2", "3/8", "1/8", 0], ["1/4", "1/2", 0, "1/4"]),
    "pair, replaced": Curve.pair({"a": "0.5", "b": "0.5"}, {"a": "0.25", "c": "0.75"}, "replace"),
    "laplace threshold": Curve.laplace_threshold(4, 40, "1e-4", weight=3),
    "laplace threshold, replaced": Curve.laplace_threshold(9, 90, "1e-4", weight=4, most=2, neighbours="replace"),
    "gaussian threshold": Curve.gaussian_threshold(20, 3, 1, "1e-6"),
    "gaussian threshold, replaced": Curve.gaussian_threshold(30, 3, 1, "1e-6", "replace"),
    "nothing": Curve([]),
}
COMPOSED = {
    "laplaces": [(Curve.laplace(10), 30), (Curve.laplace(3), 2)],
    "discrete laplaces": [(Curve.discrete_laplace(10), 30), (Curve.discrete_laplace(5), 7)],
    "discrete laplaces of no lattice": [(Curve.discrete_laplace("10.007"), 3), (Curve.discrete_laplace("7.0001"), 4)],
    "discrete gaussians": [(Curve.discrete_gaussian(6, 1), 20)],
    "discrete gaussians of two sizes": [(Curve.discrete_gaussian("0.8"), 3), (Curve.discrete_gaussian("5.03"), 9)],
    "many sizes": [(Curve.discrete_gaussian(F(40 + k, 7)), 1 + k % 3) for k in range(24)],
    "many scales": [(Curve.laplace(F(100 + k, 7)), 1 + k % 3) for k in range(20)],
    "responses": [(Curve.pure("0.2"), 12), (Curve.approximate("0.1", "1e-7"), 3)],
    "responses of four": [(Curve.randomized_response("0.4", 4), 9)],
    "ranges": [(Curve.bounded_range("0.3"), 8)],
    "two ranges": [(Curve.bounded_range("5"), 2)],
    "gaussian and response": [(Curve.gaussian(3), 2), (Curve.pure("0.5"), 2)],
    "rounded gaussians": [(SINGLE["discrete gaussian, near"], 3), (Curve.gaussian(9), 1)],
    "concentrated and laplace": [(Curve.concentrated("0.05"), 2), (Curve.laplace(4), 3)],
    "pairs": [(Curve.pair(["3/4", "1/4"], ["1/4", "3/4"]), 5), (SINGLE["pair"], 2)],
    "pair of no lattice": [(Curve.pair(["1/2", "1/3", "1/6"], ["1/5", "2/5", "2/5"]), 6)],
    "replaced pairs": [(SINGLE["pair, replaced"], 2), (Curve.gdp("0.7", "replace"), 1)],
    "thresholds": [(SINGLE["laplace threshold"], 3), (SINGLE["gaussian threshold"], 2)],
    "failures": [(Curve.approximate(0, "0.001"), 70), (Curve.approximate("0.1", "0.01"), 2)],
    "failures alone": [(Curve.approximate(0, "0.001"), 64)],
    "twice": [(Curve.discrete_gaussian("2.5", 2), 2)],
}

CLOSED = ("laplace", "gaussian", "randomized response", "bounded range", "pure", "approximate", "concentrated", "pair")
"""Curves that are read quickly: their trade-offs and tails are on record too."""


def _facts(curve: Curve) -> Iterator[tuple[str, Any]]:
    yield "parts", numbers(curve.parts) if len(curve.parts) < 4 else len(curve.parts)
    yield "neighbours", curve.neighbours.value
    yield "failure", numbers(curve.failure)
    yield "max_divergence", numbers(curve.max_divergence)
    yield "epsilon", outcomes(lambda delta: to_digits(curve.epsilon_range(delta)), DELTAS)
    yield "delta", outcomes(lambda epsilon: to_digits(curve.delta_range(epsilon)), EPSILONS)
    yield "renyi", outcomes(curve.renyi, (1, "1.5", 2, 9, 200, math.inf))
    yield "charged", outcomes(curve.renyi_above, (F(9, 8), F(2), F(30)))
    yield "rho", to_digits(curve.rho(), 6)


@pytest.mark.parametrize("name", SINGLE)
def test_single_releases(name: str) -> None:
    curve = SINGLE[name]
    claims = dict(_facts(curve))
    claims["group of 3"] = outcome(lambda: curve.group(3).parts)
    claims["for replaced units"] = outcome(lambda: curve.for_neighbours("replace").parts)
    claims["for added units"] = outcome(lambda: curve.for_neighbours("add-remove").parts)
    check_claims(f"curves/{_file(name)}", claims)


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions(name: str) -> None:
    check_claims(f"compositions/{_file(name)}", dict(_facts(compose(COMPOSED[name]))))


@pytest.mark.parametrize("name", CLOSED)
def test_shapes(name: str) -> None:
    curve = SINGLE[name]
    loss = curve.loss()
    claims = {
        "tradeoff": outcomes(curve.tradeoff, (0, "0.01", "0.3", 1)),
        "mean": numbers(loss.mean),
        "tail": to_digits([loss.tail(epsilon) for epsilon in (-1, 0, "0.4", 3)], 8),
        "quantile": to_digits([math.exp(min(700.0, loss.quantile(p))) for p in ("0.001", "0.7", "0.999999")], 7),
        "forward": numbers(loss.forward),
        "backward": numbers(loss.backward),
    }
    check_claims(f"curves/shape_of_{_file(name)}", claims)


def test_limits_of_curves() -> None:
    failing = Curve.pair([1, 0], [0, 1])
    given: dict[str, Any] = {
        "infinite divergence": lambda: Curve.concentrated("1e300").renyi_above(F(10**9)),
        "largest order": lambda: Curve.concentrated("0.1").renyi(10**12),
        "larger order": lambda: Curve.concentrated("0.1").renyi(10**12 + 1),
        "order 1": lambda: Curve.laplace(1).renyi("0.999"),
        "sure failure": lambda: (
            failing.failure,
            failing.tradeoff("0.3"),
            failing.delta_range(1),
            failing.epsilon_range("0.9"),
        ),
        "sure failures": lambda: (lambda c: (c.failure, c.delta_range(1), c.epsilon_range("0.9")))(
            compose([(failing, 3), Curve.pure(1)])
        ),
        "mapping": lambda: Curve({}),  # type: ignore[arg-type]
        "text": lambda: compose("ab"),  # type: ignore[arg-type]
        "part of three": lambda: Curve([(Curve.pure(1).parts[0][0], 1, 1)]),  # type: ignore[list-item]
        "part of no loss": lambda: Curve([(1, 1)]),  # type: ignore[list-item]
        "negative count": lambda: Curve([(Curve.pure(1).parts[0][0], -1)]),
        "no count": lambda: compose([(Curve.pure(1), 0)]).parts,
        "three in one": lambda: compose([(Curve.pure(1), 1, 1)]),  # type: ignore[list-item]
        "both relations": lambda: compose([Curve.pure(1), Curve.pure(1, "replace")]),
        "nothing composed": lambda: compose([]).neighbours,
        "delta 1": lambda: Curve.pure(1).epsilon(1),
        "negative epsilon": lambda: Curve.pure(1).delta(-1),
        "group of none": lambda: Curve.pure(1).group(0),
        "no scale": lambda: Curve.laplace(0),
        "no sigma": lambda: Curve.gaussian(0),
        "keys of none": lambda: Curve.gaussian_threshold(20, 0, 1, "1e-6"),
        "delta 0": lambda: Curve.laplace_threshold(4, 40, 0, weight=3),
        "real in reading": lambda: Curve.gaussian(3).tradeoff(2),
    }
    check_claims("curves/limits", {name: outcome(call) for name, call in given.items()})


def _file(name: str) -> str:
    return name.replace(",", "").replace(" ", "_")
