"""An exhibit is a mechanism that claims more privacy than it keeps, beside its correct twin.

The museum draws its noise from numpy's generator with a seed, so that every visitor sees the same figures.

It is for demonstrations alone: no answer about anybody's data is made with it, and nothing else imports it. Noise that
protects people comes from ``sfumato.mechanisms``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy import Guarantee, Neighbours

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


@dataclass(frozen=True)
class DemonstrationNoise:
    """Demonstration noise is repeatable: the same labels give the same draws, other labels give others."""

    generator: Any

    @classmethod
    def of(cls, *labels: object) -> DemonstrationNoise:
        """Make the noise that these labels stand for."""
        return cls(np.random.default_rng([zlib.crc32(str(each).encode()) for each in labels]))  # noqa: TID251

    def laplace(self, scale: float, *shape: int) -> Whole:
        """Draw whole numbers with P(x) ∝ e^(−|x|/scale), as differences of two geometric numbers; of scale 0, zeros."""
        if not scale:
            return np.zeros(shape, np.int64)
        return self.two_sided(-math.expm1(-1 / scale), *shape)

    def two_sided(self, success: float, *shape: int) -> Whole:
        """Draw whole numbers with P(x) ∝ (1 − success)^|x|."""
        return np.asarray(self.generator.geometric(success, shape) - self.generator.geometric(success, shape), np.int64)

    def floating_laplace(self, scale: float, *shape: int) -> Real:
        """Draw Laplace noise as a textbook does, in floating point."""
        return np.asarray(self.generator.laplace(0.0, scale, shape))

    def floating_gaussian(self, deviation: float, *shape: int) -> Real:
        """Draw Gaussian noise as a textbook does, in floating point."""
        return np.asarray(self.generator.normal(0.0, deviation, shape))

    def gaussian(self, deviation: float, *shape: int) -> Whole:
        """Draw Gaussian noise rounded to whole numbers: added to a whole number it is the rounded noisy number, so
        that nothing more leaks than from the noise of real numbers.
        """
        return np.rint(self.floating_gaussian(deviation, *shape)).astype(np.int64)

    def gumbel(self, scale: float, *shape: int) -> Real:
        """Draw noise whose largest among scores is the choice of an exponential mechanism."""
        return np.asarray(self.generator.gumbel(0.0, scale, shape))

    def happens(self, chance: float, *shape: int) -> NDArray[np.bool_]:
        """Toss coins that fall on one side with this chance."""
        return np.asarray(self.generator.random(shape) < chance)

    def whole(self, low: int, high: int, *shape: int) -> Whole:
        """Draw whole numbers from low to high, both included, each with the same chance."""
        return np.asarray(self.generator.integers(low, high + 1, shape), np.int64)


Outputs = NDArray[Any]
Mechanism = Callable[[DemonstrationNoise, Any, int], Outputs]
"""From noise, one of two neighbouring inputs and a count to that many outputs."""


_USUAL = Guarantee(1)


@dataclass(frozen=True)
class Exhibit:
    """An exhibit shows one mistake: a broken mechanism, its correct twin, and two inputs that tell them apart."""

    name: str
    wrong: str
    """What went wrong, in whole sentences."""
    mended: str
    """What the correct twin does."""
    seen: str
    """What gives the broken one away, in an audit."""
    source: str
    """Where it was published: a paper, or a public bug report."""
    inputs: tuple[Any, Any]
    """What the mechanism is run on in two neighbouring worlds."""
    worlds: str
    """The same in words."""
    broken: Mechanism
    correct: Mechanism
    claim: Guarantee = _USUAL
    """What both of them say of themselves."""
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    samples: int = 10_000
    """As many runs of each world show the mistake; more prove a larger ε."""

    def __str__(self) -> str:
        return f"{self.name}: {self.wrong} ({self.source})"

    def __repr__(self) -> str:
        return f"Exhibit({self.name!r})"


@dataclass(frozen=True)
class Room:
    """A room holds the exhibits of one kind of mistake."""

    title: str
    about: str
    exhibits: tuple[Exhibit, ...]


def least(rows: Outputs) -> Outputs:
    """Give the least number of each row: it is large only where all of them are, which tells a change of all at once
    apart best.
    """
    return np.asarray(rows.min(axis=1))


def coded(answers: NDArray[Any], base: int = 2) -> NDArray[np.int64]:
    """Write each row of digits as one number, so that an audit sees them together."""
    return np.asarray(answers.astype(np.int64) @ base ** np.arange(answers.shape[1] - 1, -1, -1), np.int64)
