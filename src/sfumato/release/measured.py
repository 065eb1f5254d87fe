"""Noisy totals as they are stored and read back: all that is needed to print an answer, now or years later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.nodes import Mean, result_domain
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import Number, exact
from sfumato.release.preparing import Additive, Prepared

Floats = NDArray[np.float64]


@codec.value
@dataclass(frozen=True)
class Scale:
    """How to read one measure's totals."""

    worth: Fraction
    """Of one whole number in the totals."""
    mechanism: Additive
    whole: bool
    """The exact number was a whole one: the noisy one is shown rounded."""
    mean: tuple[Fraction, Fraction] | None
    """For a mean, the range [low, high] whose two sums were measured."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "worth", exact(self.worth, "worth"))
        if self.mean is not None:
            low, high = self.mean
            object.__setattr__(self, "mean", (exact(low, "low"), exact(high, "high")))

    @property
    def coordinates(self) -> int:
        return 1 if self.mean is None else 2


@codec.value
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
        Scale(
            measure.worth,
            mechanism,
            result_domain(measure.measure).type is Type.INTEGER,
            (measure.low * measure.step, (measure.low + measure.size) * measure.step)
            if isinstance(measure.measure, Mean)
            else None,
        )
        for measure, mechanism in zip(prepared.bounded.measures, prepared.mechanisms, strict=True)
    )


@dataclass(frozen=True)
class Estimate:
    """A number per group with the range that holds the exact one; NaN is NULL."""

    value: Floats
    low: Floats
    high: Floats


def estimator(measured: Measured, confidence: Number) -> Callable[[int], list[Estimate]]:
    """A function from ``parts`` to every measure, with ranges that hold for so many noises at once.

    A mean is low + (high − low)·a/(a + b) of its two sums a = Σ(x − low), b = Σ(high − x): rising in a, falling in b,
    both of which are known to be ≥ 0, so each is moved there before its range is laid around it: no range is narrower
    than its noise. Where the noisy number of rows is not positive the mean is NULL.
    """
    totals = np.array(measured.totals, dtype=np.float64).reshape(len(measured.totals), -1)
    columns, index = [], 0
    for scale in measured.scales:
        columns.append([_worth(totals[:, index + k], scale.worth) for k in range(scale.coordinates)])
        index += scale.coordinates
    found: dict[int, list[Estimate]] = {}

    def estimates(parts: int) -> list[Estimate]:
        if parts not in found:
            scaled = zip(measured.scales, columns, strict=True)
            found[parts] = [_estimate(scale, own, confidence, parts) for scale, own in scaled]
        return found[parts]

    return estimates


def _worth(totals: Floats, worth: Fraction) -> Floats:
    """Whole totals in the measure's own terms: rounded once where both are moderate, so that 5 × 0.01 is 0.05."""
    with np.errstate(over="raise"):  # found by the rehearsal, whose totals are the largest
        if max(worth.numerator, worth.denominator) < 2**900:
            return totals * float(worth.numerator) / float(worth.denominator)
        return totals * float(worth)


def _estimate(scale: Scale, columns: list[Floats], confidence: Number, parts: int) -> Estimate:
    width = float(scale.mechanism.error(confidence, parts) * scale.worth)
    if scale.mean is not None:
        return _mean(columns[0], columns[1], width, float(scale.mean[0]), float(scale.mean[1]))
    (value,) = columns
    return Estimate(np.round(value) if scale.whole else value, value - width, value + width)


def _mean(above: Floats, below: Floats, width: float, low: float, high: float) -> Estimate:
    def between(a: Floats, b: Floats, nothing: float) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(a + b > 0, low + (high - low) * (a / (a + b)), nothing)

    least, most = np.maximum(above - width, 0), np.maximum(above, 0) + width
    fewest, many = np.maximum(below - width, 0), np.maximum(below, 0) + width
    value, lower, upper = between(above, below, np.nan), between(least, many, low), between(most, fewest, high)
    lower, upper = np.maximum(lower, low), np.minimum(upper, high)
    return Estimate(np.clip(value, lower, upper), lower, upper)
