"""A promise of (ε, δ) is met only where the failure is within δ too."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.privacy.calibration import meets


@pytest.mark.parametrize(
    ("failure", "delta", "met"),
    [("0.1", "0.01", False), ("0.1", "0", False), ("0.1", "0.1", True), ("0.01", "0.1", True)],
)
def test_what_fails_more_often_than_promised_does_not_meet_the_promise(failure: str, delta: str, met: bool) -> None:
    assert meets(sf.Curve.approximate(1, failure), sf.Guarantee(1, delta)) is met
    assert meets(sf.Curve.approximate(1, failure), sf.Guarantee(2, delta)) is met
