"""Noisy totals as they are stored and read back: all that is needed to print an answer, now or years later."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.protocols import Additive
from sfumato.plan.measures import Estimate, Estimator
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.release.preparing import Prepared


@codec.value("scale")
@dataclass(frozen=True)
class Scale:
    """How to read one measure's totals."""

    worth: Fraction
    """Of one whole number in the totals."""
    mechanism: Additive
    estimator: Estimator

    def __post_init__(self) -> None:
        object.__setattr__(self, "worth", exact(self.worth, "worth"))


@codec.value("measured")
@dataclass(frozen=True)
class Measured:
    """Noisy whole totals: one row for each group, one number for each coordinate."""

    scales: tuple[Scale, ...]
    totals: tuple[tuple[int, ...], ...]
    price: str = ""
    """What was promised when it was bought: whoever reads it later gets that promise, not the one they asked for."""
    bounding: str = ""
    """How a unit's part was limited when it was measured."""
    limits: str = ""
    bounds: tuple[str, ...] = ()
    data: str = ""
    """Its version, as readers are told."""
    salt: str = ""
    """Random: the hash of the line that holds this is printed in receipts, and must not let a guess be tested."""


def scales(prepared: Prepared) -> tuple[Scale, ...]:
    return tuple(
        Scale(measure.worth, mechanism, measure.estimator)
        for measure, mechanism in zip(prepared.bounded.measures, prepared.mechanisms, strict=True)
    )


def estimates(measured: Measured, confidence: Number, parts: int) -> list[Estimate]:
    """Every measure, with ranges that hold for ``parts`` noises at once with this confidence."""
    numbers = np.array(measured.totals, dtype=object).reshape(len(measured.totals), -1)
    found, index = [], 0
    for scale in measured.scales:
        width = float(scale.mechanism.error(confidence, parts) * scale.worth)
        own = range(index, index + scale.estimator.coordinates)
        found.append(scale.estimator.estimate([(numbers[:, k] * scale.worth).astype(np.float64) for k in own], width))
        index = own.stop
    return found
