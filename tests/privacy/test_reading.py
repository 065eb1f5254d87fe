from __future__ import annotations

import math

import pytest

import sfumato as sf


def test_odds_move_by_e_to_the_epsilon() -> None:
    read = sf.reading(sf.Guarantee(1), prior="0.2")
    assert read.membership is not None
    assert read.membership / (1 - read.membership) == pytest.approx(0.25 * math.e)
    assert read.attribute / (1 - read.attribute) == pytest.approx(0.25 * math.e**2)
    assert read.true_positive_rate == pytest.approx(0.05 * math.e, rel=1e-9)


def test_under_replace_membership_is_public() -> None:
    read = sf.reading(sf.Curve.randomized_response(1), prior="0.2")
    assert read.membership is None
    assert read.attribute / (1 - read.attribute) == pytest.approx(0.25 * math.e)
    assert "being in the data" not in str(read)


def test_bayes_never_exceeds_the_reading() -> None:
    """Any prior, any outcome of a real mechanism: the posterior stays within the reading."""
    p, q = [0.75, 0.25], [0.25, 0.75]
    read = sf.reading(sf.Curve.pair(p, q), prior="0.3")
    for a, b in zip(p, q, strict=True):
        posterior = 0.3 * a / (0.3 * a + 0.7 * b)
        assert read.membership is not None
        assert posterior <= read.membership * (1 + 1e-12)


def test_delta_is_said() -> None:
    text = str(sf.reading(sf.Curve.gaussian(5), delta="1e-6"))
    assert "outside an event of probability 1e-06" in text
    assert "outside" not in str(sf.reading(sf.Guarantee(1)))


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.reading(1),  # type: ignore[arg-type]
        lambda: sf.reading(sf.Guarantee(1), prior=0),
        lambda: sf.reading(sf.Guarantee(1), prior=1),
        lambda: sf.reading(sf.Curve.pure(1), neighbours="replace"),
        lambda: sf.reading(sf.Guarantee(1), false_positive_rate=2),
    ],
)
def test_hostile_parameters(call: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        call()  # type: ignore[operator]
