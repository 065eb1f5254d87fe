"""Noisy totals as they are stored and read back: all that is needed to print an answer, now or years later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.protocols import Additive
from sfumato.plan.measures import Estimate, Estimator, Floats
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


def estimating(measured: Measured, confidence: Number) -> Callable[[int], list[Estimate]]:
    """A function from ``parts`` to every measure, with ranges that hold for so many noises at once."""
    totals = np.array(measured.totals, dtype=np.float64).reshape(len(measured.totals), -1)
    columns, index = [], 0
    for scale in measured.scales:
        own = range(index, index + scale.estimator.coordinates)
        columns.append([_worth(totals[:, k], scale.worth) for k in own])
        index = own.stop
    found: dict[int, list[Estimate]] = {}

    def estimates(parts: int) -> list[Estimate]:
        if parts not in found:
            widths = (float(scale.mechanism.error(confidence, parts) * scale.worth) for scale in measured.scales)
            scaled = zip(measured.scales, columns, widths, strict=True)
            found[parts] = [scale.estimator.estimate(own, width) for scale, own, width in scaled]
        return found[parts]

    return estimates


def _worth(totals: Floats, worth: Fraction) -> Floats:
    """Whole totals in the measure's own terms: rounded once where both are moderate, so that 5 × 0.01 is 0.05."""
    with np.errstate(over="raise"):  # found by the rehearsal, whose totals are the largest
        if max(worth.numerator, worth.denominator) < 2**900:
            return totals * float(worth.numerator) / float(worth.denominator)
        return totals * float(worth)
