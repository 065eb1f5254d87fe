"""Exact enumeration of every mechanism against its curve."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import sfumato as sf
from refusals import assert_refused


@pytest.mark.parametrize(
    ("mechanism", "inputs", "sensitivity"),
    [
        (sf.Laplace("0.7"), (0, 1), 1),
        (sf.Laplace(3), (0, 1), 1),
        (sf.Laplace(3), (4, 1), 3),
        (sf.Gaussian("0.8"), (0, 1), 1),
        (sf.Gaussian(3), (0, 2), 2),
        (sf.Laplace("0.5"), ((0, 0), (1, 1)), sf.Sensitivity(groups=2)),
        (sf.Gaussian("0.6"), ((0, 0), (1, 1)), sf.Sensitivity(groups=2)),
        (sf.Laplace(["0.4", "0.6"]), ((0, 0), (1, 1)), sf.Sensitivity(groups=2)),
        (sf.Laplace("0.5", grid="0.25"), (0, 1), 1),
        (sf.Laplace("0.4"), ((0, 0), (1, 0)), 1),
        (sf.RandomizedResponse("0.7", 4), (0, 3), 1),
        (sf.RandomizedResponse.two_coins(), (0, 1), 1),
    ],
    ids=str,
)
def test_every_mechanism_keeps_its_curve(mechanism: object, inputs: tuple[object, object], sensitivity: object) -> None:
    found = sf.audit.enumerate(mechanism, inputs, sensitivity)  # type: ignore[arg-type]
    assert found.holds, str(found)
    assert abs(float(sum(p for p, _ in found.outcomes)) - 1) < 1e-12
    assert found.largest[1] - found.largest[0] <= Fraction(1, 10**30)
    for epsilon in ("0", "0.1", "0.5"):
        low, high = found.delta(epsilon)
        assert high - low <= Fraction(1, 10**30)
        # The pair enumerated is the worst one, so the claim is met with equality.
        assert float(high) == pytest.approx(found.claim.delta(epsilon), rel=1e-4, abs=1e-12)


def test_rational_worlds_are_exact() -> None:
    found = sf.audit.enumerate(sf.RandomizedResponse.of_odds("7/2", 3), (0, 2))
    assert found.exact
    assert found.ratio == Fraction(7, 2)
    assert sf.audit.enumerate(sf.Laplace(1), (0, 1)).ratio is None


@pytest.mark.parametrize(
    ("mechanism", "inputs", "sensitivity"),
    [(sf.Laplace(3), (0, 2), 1), (sf.Gaussian(2), (0, 2), 1), (sf.Laplace(1), ((0, 0), (1, 1)), 1)],
    ids=str,
)
def test_a_wrong_sensitivity_is_seen(mechanism: object, inputs: tuple[object, object], sensitivity: int) -> None:
    found = sf.audit.enumerate(mechanism, inputs, sensitivity)
    assert not found.holds
    assert "DOES NOT HOLD" in str(found)


def test_the_largest_loss_is_the_pure_epsilon() -> None:
    low, high = sf.audit.enumerate(sf.Laplace(2), (0, 1)).largest
    assert low <= Fraction(1, 2) <= high
    low, high = sf.audit.enumerate(sf.RandomizedResponse(1, 3), (0, 1)).largest
    assert low <= 1 <= high
    assert math.isclose(float(low), 1)
    low, high = sf.audit.enumerate(sf.Laplace("0.005"), (0, 1)).largest
    assert low <= 200 <= high


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.audit.enumerate(sf.Laplace(1), 1),
        lambda: sf.audit.enumerate(sf.Laplace(1), (0, 1.5)),
        lambda: sf.audit.enumerate(sf.Laplace(1), ((0, 1), (1,))),
        lambda: sf.audit.enumerate(sf.Laplace(1000), ((0, 0), (1, 1))),
        lambda: sf.audit.enumerate("Laplace", (0, 1)),
        lambda: sf.audit.enumerate(sf.Laplace(1), (0, 10**7)),
        lambda: sf.audit.enumerate(sf.Laplace(1), (2**63, 2**63 + 1)),
        lambda: sf.audit.enumerate(sf.Laplace(1), (0, 2**70)),
        lambda: sf.audit.enumerate(sf.Laplace([1, 2, 3]), (0, 1)),
        lambda: sf.audit.enumerate(sf.RandomizedResponse(1), (0, 7)),
        lambda: sf.audit.enumerate(sf.RandomizedResponse(1), ("a", None)),
    ],
)
def test_hostile_worlds(call: object) -> None:
    assert_refused(call)
