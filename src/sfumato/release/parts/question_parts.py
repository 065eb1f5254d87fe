"""Parts of a question become measurements: noise on totals, or selections by rank.

Each measurement gets a share of the price. What a share buys depends on the noise family: shares of ε are ε's for
Laplace noise, and shares of ρ for Gaussian noise, where a selection of range η costs ρ = η²/8 (Cesar & Rogers 2021)
and noise of size σ on a sensitivity of 1 costs ρ = 1/2σ².
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.array_types import Integers
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms.additive import FAMILIES, LEAST_STEPS, MAX_STEPS
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.aggregates.measures import MeasureSteps
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.nodes import GroupValues
from sfumato.plan.readings.total_readings import GroupTotals, MeasureTotals, PlanReading
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.privacy import Sensitivity
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass
from sfumato.release.measurement import Measurement
from sfumato.release.parts.scales import NoiseScale, NoisyScale, SampledScale
from sfumato.release.prices import Price

Family = type[Additive]
NamedNoise = Family | str
"""A family of noise as a caller names it: by its class, or as "laplace" or "gaussian"."""
EXTREME_TOTALS = (0, LARGEST_INTEGER, -LARGEST_INTEGER)
"""Totals at the ends of their range, for dry runs."""


def noise_family(name_or_class: NamedNoise | None) -> Family | None:
    """Resolve a noise family from its class or its case-insensitive name; None for None.

    >>> noise_family("gaussian").__name__
    'Gaussian'
    """
    if name_or_class is None or (isinstance(name_or_class, type) and name_or_class in FAMILIES):
        return name_or_class
    family = (
        {family_class.__name__.lower(): family_class for family_class in FAMILIES}.get(name_or_class.lower())
        if isinstance(name_or_class, str)
        else None
    )
    if family is None:
        raise InvalidParameter(
            "mechanism",
            name_or_class,
            '"laplace", "gaussian", sf.Laplace or sf.Gaussian',
            fix='write mechanism="gaussian"',
        )
    return family


@dataclass(frozen=True)
class NoiseStrength:
    """The strength of measurements: turns a share of the price into a noise size, or the ε of a selection."""

    family: Family
    price: Price | None = None
    """The price, where a closed form gives the noise."""
    size_without_price: Fraction = Fraction(1)
    """Without a price, the noise relative to that of a whole price of 1."""

    def size(self, share: Fraction) -> Fraction:
        """Return the noise size for totals whose sensitivity is 1 in the family's norm."""
        if self.price is not None:
            epsilon, rho = (
                None if budget is None else budget * share for budget in (self.price.epsilon, self.price.rho)
            )
            closed_form_size = self.family.closed_form(epsilon=epsilon, rho=rho)
            assert closed_form_size is not None
            return closed_form_size
        return self.size_without_price / (share if self.family.order == 1 else Fraction(math.sqrt(share)))

    def epsilon(self, share: Fraction) -> Fraction:
        """Return the ε of a selection."""
        if self.price is not None:
            assert self.price.epsilon is not None
            return self.price.epsilon * share
        unscaled_epsilon = share if self.family.order == 1 else 2 * Fraction(math.sqrt(share))
        return rounded_down_to_13_digits(unscaled_epsilon / self.size_without_price)


class QuestionPart(Protocol):
    """A part of a question under one bounding strategy: how it is read, measured and stored."""

    def share_index(self, index: int) -> int:
        """Return the index of the share that pays for the measure at this index."""
        ...

    @property
    def bounded(self) -> BoundedPlan: ...

    @property
    def shares(self) -> int:
        """Count the shares of the price that this part takes."""
        ...

    def reading(self, groups: tuple[GroupValues, ...]) -> PlanReading[Any]:
        """Return the reading of these groups."""
        ...

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        """Return the measurements at this strength."""
        ...

    def draw(self, measurements: Sequence[Measurement], exact: Any) -> Integers:
        """Draw the stored numbers, one row per group, from what was read."""
        ...

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        """Return how the stored numbers are decoded, in the order of the results made from them."""
        ...

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        """Return the measures at these indices, in integer steps."""
        ...

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        """Draw for three groups whose totals are at the extremes; reads no data."""
        ...

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:
        """Return the numbers of a hypothetical group of so many rows, spread evenly over the measure's range."""
        ...


class OtherPart(QuestionPart, Protocol):
    """A part that is not a noisy total: a selection, a histogram or a rank."""

    noisy: ClassVar[bool]
    """Whether noise is added; otherwise a value is selected."""

    @property
    def numbers_per_group(self) -> int:
        """Count the numbers per group that are held in memory while it is measured."""
        ...

    def at_strength(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> OtherPart:
        """Return the part as it is measured at this strength, where its limits follow from the price."""
        ...

    def with_ranges_if_sold(self, confidence: Fraction | None) -> OtherPart:
        """Return the part with confidence intervals around selected values, where those can be bought."""
        ...

    def scales_for_reuse(self, measurements: Sequence[Measurement]) -> tuple[NoiseScale, ...]:
        """Return the scales whose half-widths are compared with those of stored answers."""
        ...

    def accuracy_for_reuse(self, measurements: Sequence[Measurement]) -> Mapping[str, Number]:
        """Return quality figures of the selections by name, beside half-widths; less is better."""
        ...

    def words(self, measurements: Sequence[Measurement], confidence: Number) -> tuple[str, str]:
        """Describe what is drawn, and how good it is."""
        ...


@dataclass(frozen=True)
class NoisyTotals:
    """All totals of a question with additive noise, each measure with its own share of the price.

    Where groups are discovered, a last share pays for the discovery.
    """

    bounded: BoundedPlan

    @property
    def shares(self) -> int:
        return len(self.bounded.measures)

    def share_index(self, index: int) -> int:
        return self.bounded.members[index].share_index

    def reading(self, groups: tuple[GroupValues, ...]) -> GroupTotals:
        return GroupTotals(self.bounded, groups)

    def measurements(self, strength: NoiseStrength, shares: Sequence[Fraction]) -> tuple[Measurement, ...]:
        return tuple(
            Measurement(MeasureTotals(self.bounded, index), calibrated_noise(strength, scaled.sensitivity, share))
            for index, (scaled, share) in enumerate(zip(self.bounded.noisy_measures, shares, strict=False))
        )

    def draw(self, measurements: Sequence[Measurement], exact: Integers) -> Integers:
        noisy_totals = [measurement.draw(measurement.reading.extract(exact)) for measurement in measurements]
        return np.hstack(noisy_totals) if noisy_totals else np.zeros((len(exact), 0), np.int64)

    def scales(self, measurements: Sequence[Measurement]) -> tuple[NoisyScale | SampledScale, ...]:
        by_member: list[NoisyScale] = []
        by_value: dict[NoisyScale, NoisyScale] = {}  # equal ones are one object, described and encoded once
        for member in self.bounded.members:
            mechanism = measurements[member.share_index].mechanism
            scale = NoisyScale(member.unit_value, mechanism, member.coordinates, member.rounding)
            by_member.append(by_value.setdefault(scale, scale))
        scales = tuple(by_member)
        rate = self.bounded.sample
        if rate is None:
            return scales
        limits = (
            self.bounded.noisy_measures[member.share_index].add_remove_sensitivity.per_group * member.unit_value
            for member in self.bounded.members
        )
        return tuple(SampledScale(scale, rate, limit) for scale, limit in zip(scales, limits, strict=True))

    def steps(self, indices: Sequence[int]) -> tuple[MeasureSteps, ...]:
        return tuple(self.bounded.members[index] for index in indices)

    def draw_at_extreme_totals(self, measurements: Sequence[Measurement]) -> Integers:
        width = sum(measure.coordinates for measure in self.bounded.measures)
        return self.draw(measurements, np.array([[end] * width for end in EXTREME_TOTALS], np.int64))

    def numbers_of_hypothetical_group(self, size: int) -> tuple[int, ...]:
        share = self.bounded.sample or 1
        return tuple(
            int(share * size * total / member.unit_value)
            for member in self.bounded.members
            for total in member.middle_row_contributions
        )


def calibrated_noise(strength: NoiseStrength, change: Sensitivity, share: Fraction) -> Additive:
    """Return the noise that a share buys for totals of this sensitivity."""
    family = strength.family
    size = family.norm(change) * strength.size(share)
    if size > MAX_STEPS:
        rule = "higher: at this price the noise is too large to draw exactly"
        fix = "pay more, ask for fewer columns, or declare narrower bounds"
        raise InvalidParameter(
            "price", ValueWords(f"a price that needs noise of size {float(size):.3g}"), rule, fix=fix
        )
    keeps_exact_size = family.pure and strength.price is not None
    return family.of_size(max(size if keeps_exact_size else rounded_up_to_13_digits(size), LEAST_STEPS))


def rounded_up_to_13_digits(size: Fraction) -> Fraction:
    """Round a size up to thirteen significant digits, so that it prints exactly."""
    power = Fraction(10) ** (13 - math.ceil(math.log10(size)))
    return Fraction(math.ceil(size * power)) / power


def rounded_down_to_13_digits(size: Fraction) -> Fraction:
    """Round an ε down to thirteen significant digits, so that it prints exactly."""
    power = Fraction(10) ** (13 - math.ceil(math.log10(size)))
    return Fraction(math.floor(size * power)) / power
