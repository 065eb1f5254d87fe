"""Find numbers of one release that share a noise: their difference would be exact.

A release's price is that of independent noises. Here one release is drawn several times over the same exact totals,
through everything that a bought release goes through after its rows were read, and the totals are subtracted. If p is
the probability of the likeliest value of the narrowest noise, two independent noises are equal in all n draws, or
opposite in all of them, with probability at most 2pⁿ. So n is chosen by which no pair of a sound release is doubted
with more than the allowed probability (union bound over all pairs). Two numbers are compared whether or not invented
units move them differently, so the choice of neighbours hides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.curator import Question
from sfumato.engine.seam import Engine
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.readings.total_readings import PlanReading
from sfumato.release.preparing import Prepared
from sfumato.release.releasing import Read

E = TypeVar("E")
Noise = NDArray[np.int64]
"""A row for each group, a column for each number of a group."""
Spoil = Callable[[Noise, Sequence[Additive]], Noise]
"""Makes a broken twin's noise, from that of one release and the mechanism of each column."""

_KEY = 7
_MOST_DRAWS = 2_000


@dataclass(frozen=True)
class ComparedNoise:
    """The result of comparing all noises of one release, drawn so many times."""

    numbers: int
    draws: int
    shared: tuple[tuple[int, int], ...]
    """The places of numbers that had one noise in every draw, counted group by group."""

    @property
    def holds(self) -> bool:
        return not self.shared

    def __str__(self) -> str:
        if self.holds:
            return f"no two of {self.numbers:,} numbers have one noise"
        first, second = self.shared[0]
        return f"numbers {first + 1:,} and {second + 1:,} of {self.numbers:,} have one noise in all {self.draws} draws"


def compare_noise(
    question: Question, prepared: Prepared, engine: Engine, miss: Fraction, spoil: Spoil | None = None
) -> ComparedNoise | None:
    """Draw a release often enough that no two independent noises agree every time but with probability ``miss``.

    None where fewer than two numbers get noise, where groups are found in the data, and where the noise is so narrow
    that it would take too many draws. ``spoil`` plants a fault.
    """
    if question.found:
        return None
    kind, read = question.kind(prepared), _reading_once(engine)
    columns = list(_columns(prepared))
    mechanisms = [each for each in columns if each is not None]
    numbers = len(question.groups) * len(mechanisms)
    draws = _enough_draws(mechanisms, numbers, miss)
    if draws is None:
        return None
    exact, noised = _exact(question, prepared, read), np.array([each is not None for each in columns])
    seen = [(np.array(kind.draw(read).columns, np.int64).T - exact)[:, noised] for _ in range(draws)]
    kept = seen if spoil is None else [spoil(each, mechanisms) for each in seen]
    return ComparedNoise(numbers, draws, tuple(_equal_rows(np.array([each.ravel() for each in kept]).T)))


def _reading_once(engine: Engine) -> Read:
    """Read exact totals of invented rows, each reading once: draws differ in their noise alone."""
    kept: dict[Any, Any] = {}

    def read(reading: PlanReading[E]) -> E:
        if reading not in kept:
            kept[reading] = engine.read(reading, _KEY)
        found: E = kept[reading]
        return found

    return read


def _columns(prepared: Prepared) -> Iterator[Additive | None]:
    """List the mechanism of each column that is drawn; None for what is chosen."""
    for part, measured in zip(prepared.parts, prepared.measured, strict=True):
        if all(each.sensitivity is not None for each in measured):
            for scale, each in zip(part.scales(measured), measured, strict=True):
                yield from [each.mechanism] * scale.columns
        else:
            yield from [None] * sum(scale.columns for scale in part.scales(measured))


def _exact(question: Question, prepared: Prepared, read: Read) -> Noise:
    """Give the numbers to which noise is added, column by column; zeros for what is chosen."""
    found = []
    for part, measured in zip(prepared.parts, prepared.measured, strict=True):
        own: Any = read(part.reading(question.groups)) if measured else None
        if all(each.sensitivity is not None for each in measured):
            found += [each.reading.of(own).reshape(len(question.groups), -1) for each in measured]
        else:
            width = sum(scale.columns for scale in part.scales(measured))
            found.append(np.zeros((len(question.groups), width), np.int64))
    return np.hstack(found)


def _enough_draws(mechanisms: Sequence[Additive], numbers: int, miss: Fraction) -> int | None:
    """Compute the least n with (pairs)·2pⁿ ≤ miss."""
    if numbers < 2:
        return None
    chance = max(_likeliest(each) for each in mechanisms)
    if chance >= 1:  # in floats: the noise is hardly ever anything but 0
        return None
    pairs = numbers * (numbers - 1) // 2
    draws = math.ceil((math.log(2 * pairs) - math.log(miss.numerator) + math.log(miss.denominator)) / -math.log(chance))
    return draws if draws <= _MOST_DRAWS else None


def _likeliest(mechanism: Additive) -> float:
    """Bound the probability of 0. Laplace's is (1 − q)/(1 + q) with q = e^{−1/b}. A Gaussian's is 1/Σe^{−x²/2σ²}, and
    that sum is at least its three middle terms, and at least σ√2π (Poisson summation).
    """
    size = float(min(mechanism.sizes))
    if mechanism.order == 1:
        return math.tanh(1 / (2 * size))
    return 1 / max(size * math.sqrt(2 * math.pi), 1 + 2 * math.exp(-1 / (2 * size**2)))


def _equal_rows(noise: Noise) -> Iterator[tuple[int, int]]:
    """Find each row that equals, or is the opposite of, one before it; rows of zeros equal each other."""
    first: dict[bytes, int] = {}
    for place, row in enumerate(noise):
        leading = row[np.flatnonzero(row)[:1]]
        name = (row * (np.sign(leading[0]) if leading.size else 1)).tobytes()
        if name in first:
            yield first[name], place
        first.setdefault(name, place)
