"""Detect numbers of one release that share a noise draw: their difference would be exact.

The price of a release assumes independent noise. Here one release is drawn several times over the same exact totals,
through the whole path of a real release after its rows are read, and the totals are subtracted. If p is the
probability of the likeliest value of the narrowest noise, two independent draws are equal in all n repetitions, or
opposite in all of them, with probability at most 2pⁿ. So n is chosen such that the false-alarm probability over all
pairs stays below the allowed one (union bound). All pairs of numbers are compared, whether or not a generated unit
changes them differently, so the choice of neighbours hides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.curator import Question
from sfumato.engine.protocols import Engine
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.quick_dataclass import dataclass
from sfumato.release.pricing import PricedRelease
from sfumato.release.releasing import Read

E = TypeVar("E")
Noise = NDArray[np.int64]
"""A row per group, a column per number of a group."""
NoiseFault = Callable[[Noise, Sequence[Additive]], Noise]
"""Injects a fault: maps the noise of one release and the mechanism of each column to faulty noise."""

_SAMPLING_KEY = 7
_MAX_DRAWS = 2_000


@dataclass(frozen=True)
class NoiseComparison:
    """The comparison of all noise values of one release over repeated draws."""

    numbers: int
    draws: int
    shared: tuple[tuple[int, int], ...]
    """Index pairs of numbers with equal noise in every draw, counted group by group."""

    @property
    def holds(self) -> bool:
        return not self.shared

    def __str__(self) -> str:
        if self.holds:
            return f"no two of {self.numbers:,} numbers share their noise"
        first, second = self.shared[0]
        return (
            f"numbers {first + 1:,} and {second + 1:,} of {self.numbers:,} share their noise in all {self.draws} draws"
        )


def compare_noise(
    question: Question,
    prepared: PricedRelease,
    engine: Engine,
    error_probability: Fraction,
    fault: NoiseFault | None = None,
) -> NoiseComparison | None:
    """Draw a release until any two independent noise values agree every time with probability at most
    ``error_probability``.

    Returns None if fewer than two numbers are noisy, if groups are discovered in the data, or if the noise is so narrow
    that it would need too many draws. ``fault`` injects one.
    """
    if question.discovered_keys:
        return None
    kind, read = question.release_strategy(prepared), _cached_reader(engine)
    columns = list(column_mechanisms(prepared))
    mechanisms = [mechanism for mechanism in columns if mechanism is not None]
    numbers = len(question.groups) * len(mechanisms)
    draws = _required_draws(mechanisms, numbers, error_probability)
    if draws is None:
        return None
    exact, is_noisy = (
        _exact_columns(question, prepared, read),
        np.array([mechanism is not None for mechanism in columns]),
    )
    drawn_noise = [(np.array(kind.draw(read).columns, np.int64).T - exact)[:, is_noisy] for _ in range(draws)]
    compared = drawn_noise if fault is None else [fault(noise, mechanisms) for noise in drawn_noise]
    return NoiseComparison(
        numbers, draws, tuple(_equal_or_opposite_rows(np.array([noise.ravel() for noise in compared]).T))
    )


def _cached_reader(engine: Engine) -> Read:
    """Read the exact totals of generated rows once per reading, so that draws differ in their noise alone."""
    cache: dict[Any, Any] = {}

    def read(reading: PlanReading[E]) -> E:
        if reading not in cache:
            cache[reading] = engine.read(reading, _SAMPLING_KEY)
        totals: E = cache[reading]
        return totals

    return read


def column_mechanisms(prepared: PricedRelease) -> Iterator[Additive | None]:
    """Yield the mechanism of each drawn column; None for selections."""
    for part, measurements in zip(prepared.parts, prepared.measurements, strict=True):
        if all(measurement.sensitivity is not None for measurement in measurements):
            for index, scale in enumerate(part.scales(measurements)):
                yield from [measurements[part.share_index(index)].mechanism] * scale.columns
        else:
            yield from [None] * sum(scale.columns for scale in part.scales(measurements))


def _exact_columns(question: Question, prepared: PricedRelease, read: Read) -> Noise:
    """Return the exact numbers that noise is added to, column by column; zeros for selections."""
    columns = []
    for part, measurements in zip(prepared.parts, prepared.measurements, strict=True):
        totals: Any = read(part.reading(question.groups)) if measurements else None
        if all(measurement.sensitivity is not None for measurement in measurements):
            columns += [
                measurement.reading.extract(totals).reshape(len(question.groups), -1) for measurement in measurements
            ]
        else:
            width = sum(scale.columns for scale in part.scales(measurements))
            columns.append(np.zeros((len(question.groups), width), np.int64))
    return np.hstack(columns)


def _required_draws(mechanisms: Sequence[Additive], numbers: int, miss: Fraction) -> int | None:
    """Return the least n with (pairs)·2pⁿ ≤ miss."""
    if numbers < 2:
        return None
    probability = max(_likeliest_value_probability_bound(mechanism) for mechanism in mechanisms)
    if probability >= 1:  # rounds to 1: the noise is almost always 0
        return None
    pairs = numbers * (numbers - 1) // 2
    draws = math.ceil(
        (math.log(2 * pairs) - math.log(miss.numerator) + math.log(miss.denominator)) / -math.log(probability)
    )
    return draws if draws <= _MAX_DRAWS else None


def _likeliest_value_probability_bound(mechanism: Additive) -> float:
    """Bound the probability of 0, the likeliest noise value.

    Laplace: (1 − q)/(1 + q) with q = e^{−1/b}. Gaussian: 1/Σe^{−x²/2σ²}, where the sum is at least its three middle
    terms, and at least σ√2π (Poisson summation).
    """
    scale = float(min(mechanism.sizes))
    if mechanism.order == 1:
        return math.tanh(1 / (2 * scale))
    return 1 / max(scale * math.sqrt(2 * math.pi), 1 + 2 * math.exp(-1 / (2 * scale**2)))


def _equal_or_opposite_rows(noise: Noise) -> Iterator[tuple[int, int]]:
    """Yield each row that equals an earlier one or its negation; zero rows equal each other."""
    first_index: dict[bytes, int] = {}
    for index, row in enumerate(noise):
        leading = row[np.flatnonzero(row)[:1]]
        normalized = (row * (np.sign(leading[0]) if leading.size else 1)).tobytes()
        if normalized in first_index:
            yield first_index[normalized], index
        first_index.setdefault(normalized, index)
