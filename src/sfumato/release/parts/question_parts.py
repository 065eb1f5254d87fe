"""A part of a question becomes measurements, at any strength: noise on totals, or choices by ranks.

Each measurement gets a share of the price. How strong a share is depends on the family of noise: shares of ε are ε's
for Laplace noise, and shares of ρ for Gaussian noise, where a choice of η in range costs ρ = η²/8 (Cesar & Rogers 2021)
and noise of size σ on a change of 1 costs ρ = 1/2σ².
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.additive import FAMILIES, LEAST_STEPS, MOST_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import MeasureSteps
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import GroupTotals, Integers, PlanReading, Totals
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import Number
from sfumato.release.measurement import Measurement
from sfumato.release.parts.scales import NoiseScale, NoisyScale
from sfumato.release.prices import Price

Family = type[Additive]
NamedNoise = Family | str
"""A family of noise as a caller names it: by its class, or as "laplace" or "gaussian"."""
ENDS = (0, LARGEST_INTEGER, -LARGEST_INTEGER)
"""Totals at the ends of what they can be."""


def noise_family(named: NamedNoise | None) -> Family | None:
    """Find the family of noise that is named, by its class or in words of any case; None where none is.

    >>> noise_family("gaussian").__name__
    'Gaussian'
    """
    if named is None or (isinstance(named, type) and named in FAMILIES):
        return named
    found = {each.__name__.lower(): each for each in FAMILIES}.get(named.lower()) if isinstance(named, str) else None
    if found is None:
        raise InvalidParameter("mechanism", named, '"laplace" or "gaussian", or the classes sf.Laplace or sf.Gaussian')
    return found


@dataclass(frozen=True)
class Strength:
    """A strength says what a share of the price buys: so much noise, or so great an ε for a choice."""

    family: Family
    price: Price | None = None
    """Where closed forms say it,"""
    factor: Fraction = Fraction(1)
    """and otherwise how many times the noise is that of a whole price of one."""

    def size(self, share: Fraction) -> Fraction:
        """Give the size of the noise on totals that one unit changes by at most 1 in norm."""
        if self.price is not None:
            epsilon, rho = (None if each is None else each * share for each in (self.price.epsilon, self.price.rho))
            found = self.family.closed_form(epsilon=epsilon, rho=rho)
            assert found is not None
            return found
        return self.factor / (share if self.family.order == 1 else Fraction(math.sqrt(share)))

    def epsilon(self, share: Fraction) -> Fraction:
        """Give the ε of a choice."""
        if self.price is not None:
            assert self.price.epsilon is not None
            return self.price.epsilon * share
        part = share if self.family.order == 1 else 2 * Fraction(math.sqrt(share))
        return rounded_down(part / self.factor)


class QuestionPart(Protocol):
    """A part of a question, under one strategy, says how it is read, measured and written down."""

    def share_of(self, place: int) -> int:
        """Give the place of the share that pays for what is asked, or measured, at this place."""
        ...

    @property
    def bounded(self) -> BoundedPlan: ...

    @property
    def shares(self) -> int:
        """Count the shares of the price that it takes."""
        ...

    def reading(self, groups: tuple[GroupKey, ...]) -> PlanReading[Any]:
        """Say what is read of these groups."""
        ...

    def measurements(self, strength: Strength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        """Say what is measured at this strength."""
        ...

    def draw(self, measurements: Sequence[Measurement], exact: Any) -> Integers:
        """Draw the numbers that are written down, a row for each group, from what was read."""
        ...

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        """Say how those numbers are read, in the order of what is made from them."""
        ...

    def steps(self, places: Sequence[int]) -> tuple[MeasureSteps, ...]:
        """Give what is measured in steps, for what is made from these places."""
        ...

    def rehearsed(self, measurements: Sequence[Measurement]) -> Integers:
        """Draw for three groups whose totals are at the ends of what they can be: no data are needed."""
        ...

    def supposed(self, size: int) -> tuple[int, ...]:
        """Give the numbers of a group of so many rows, spread evenly over the range of what is measured."""
        ...


class OtherPart(QuestionPart, Protocol):
    """This is measured beside totals."""

    noisy: ClassVar[bool]
    """Whether noise is added to something: else it is chosen."""

    @property
    def cells(self) -> int:
        """Count the numbers of a group that are held while it is measured."""
        ...

    def with_ranges(self, confidence: Fraction | None) -> OtherPart:
        """Give the same with ranges around chosen values that hold with this confidence, where those can be bought."""
        ...

    def good_enough(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        """Say by name how good what is chosen is, beside half-widths: less is better."""
        ...

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        """Say what is drawn, and how good it is."""
        ...


@dataclass(frozen=True)
class NoisyTotals:
    """All totals of a question get noise, each measure with a share of its own; a last one chooses among groups, where
    they are found.
    """

    bounded: BoundedPlan

    @property
    def shares(self) -> int:
        return len(self.bounded.measures)

    def share_of(self, place: int) -> int:
        return place

    def reading(self, groups: tuple[GroupKey, ...]) -> GroupTotals:
        return GroupTotals(self.bounded, groups)

    def measurements(self, strength: Strength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        return tuple(
            Measurement(Totals(self.bounded, index), noise(strength, scaled.sensitivity, share))
            for index, (scaled, share) in enumerate(zip(self.bounded.noised, shares, strict=False))
        )

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        drawn = [each.draw(each.reading.of(exact)) for each in measurements]
        return np.hstack(drawn) if drawn else np.zeros((len(exact), 0), np.int64)

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        return tuple(
            NoisyScale(scaled.unit_value, measurement.mechanism, scaled.coordinates, scaled.rounding)
            for scaled, measurement in zip(self.bounded.noised, measurements, strict=True)
        )

    def steps(self, places: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return tuple(self.bounded.measures[place] for place in places)

    def rehearsed(self, measurements: Sequence[Measurement]) -> Integers:
        width = sum(each.coordinates for each in self.bounded.measures)
        return self.draw(measurements, np.array([[end] * width for end in ENDS], np.int64))

    def supposed(self, size: int) -> tuple[int, ...]:
        return tuple(int(size * total / each.unit_value) for each in self.bounded.noised for total in each.middle)


def noise(strength: Strength, change: Sensitivity, share: Fraction) -> Additive:
    """Make the noise that a share buys for totals of which one unit changes so much."""
    family = strength.family
    size = family.norm(change) * strength.size(share)
    if size > MOST_STEPS:
        rule = "one whose noise can be drawn exactly: this asks for too much of it"
        fix = "give more, ask for fewer columns, or declare narrower bounds"
        raise InvalidParameter("price", float(size), rule, fix=fix)
    exactly = family.pure and strength.price is not None
    return family.of_size(max(size if exactly else rounded_up(size), LEAST_STEPS))


def rounded_up(size: Fraction) -> Fraction:
    """Round up to thirteen significant digits: a scale that prints."""
    power = Fraction(10) ** (13 - math.ceil(math.log10(size)))
    return Fraction(math.ceil(size * power)) / power


def rounded_down(size: Fraction) -> Fraction:
    """Round down to thirteen significant digits: an ε that prints."""
    power = Fraction(10) ** (13 - math.ceil(math.log10(size)))
    return Fraction(math.floor(size * power)) / power
