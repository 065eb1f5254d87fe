"""Exhibits: mechanisms that claim more privacy than they provide, each with its correct twin.

The museum draws its noise from numpy's seeded generator, so that every run shows the same figures. It is for
demonstrations only: no answer about real data uses it, and nothing else imports it. Noise that protects people comes
from ``sfumato.mechanisms``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy import Guarantee, Neighbours
from sfumato.quick_dataclass import dataclass

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


@dataclass(frozen=True)
class DemonstrationNoise:
    """Reproducible noise: equal labels give equal draws, different labels different ones."""

    generator: Any

    @classmethod
    def from_labels(cls, *labels: object) -> DemonstrationNoise:
        """Return the noise seeded by these labels."""
        return cls(np.random.default_rng([zlib.crc32(str(label).encode()) for label in labels]))  # noqa: TID251

    def laplace(self, scale: float, *shape: int) -> Whole:
        """Draw discrete Laplace noise, P(x) ∝ e^(−|x|/scale); zeros for scale 0."""
        if not scale:
            return np.zeros(shape, np.int64)
        return self.two_sided_geometric(-math.expm1(-1 / scale), *shape)

    def two_sided_geometric(self, success: float, *shape: int) -> Whole:
        """Draw two-sided geometric noise, P(x) ∝ (1 − success)^|x|, as a difference of two geometrics."""
        return np.asarray(self.generator.geometric(success, shape) - self.generator.geometric(success, shape), np.int64)

    def floating_laplace(self, scale: float, *shape: int) -> Real:
        """Draw Laplace noise in floating point, as textbooks do."""
        return np.asarray(self.generator.laplace(0.0, scale, shape))

    def floating_gaussian(self, deviation: float, *shape: int) -> Real:
        """Draw Gaussian noise in floating point, as textbooks do."""
        return np.asarray(self.generator.normal(0.0, deviation, shape))

    def gaussian(self, deviation: float, *shape: int) -> Whole:
        """Draw Gaussian noise rounded to integers.

        An integer plus rounded noise is the rounded noisy number, so by post-processing it leaks no more.
        """
        return np.rint(self.floating_gaussian(deviation, *shape)).astype(np.int64)

    def gumbel(self, scale: float, *shape: int) -> Real:
        """Draw Gumbel noise: the largest noisy score is the exponential mechanism's selection."""
        return np.asarray(self.generator.gumbel(0.0, scale, shape))

    def bernoulli(self, probability: float, *shape: int) -> NDArray[np.bool_]:
        """Draw Bernoulli variables with this probability."""
        return np.asarray(self.generator.random(shape) < probability)

    def uniform_integers(self, low: int, high: int, *shape: int) -> Whole:
        """Draw uniform integers from low to high, both included."""
        return np.asarray(self.generator.integers(low, high + 1, shape), np.int64)


Outputs = NDArray[Any]
Mechanism = Callable[[DemonstrationNoise, Any, int], Outputs]
"""Maps noise, one of two neighbouring inputs and a number of runs to that many outputs."""


_DEFAULT_CLAIM = Guarantee(1)


@dataclass(frozen=True)
class Exhibit:
    """One mistake: a broken mechanism, its correct twin, and two inputs that reveal it."""

    name: str
    wrong: str
    """The mistake, in full sentences."""
    mended: str
    """What the correct twin does instead."""
    seen: str
    """What reveals the mistake in an audit."""
    source: str
    """The paper or public bug report that describes it."""
    inputs: tuple[Any, Any]
    """The mechanism's inputs in two neighbouring worlds."""
    worlds: str
    """The inputs in words."""
    broken: Mechanism
    correct: Mechanism
    claim: Guarantee = _DEFAULT_CLAIM
    """The guarantee that both of them claim."""
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    samples: int = 10_000
    """Runs per world that reveal the mistake; more runs prove a larger ε."""

    def __str__(self) -> str:
        return f"{self.name}: {self.wrong} ({self.source})"

    def __repr__(self) -> str:
        return f"Exhibit({self.name!r})"


@dataclass(frozen=True)
class Room:
    """The exhibits of one kind of mistake."""

    title: str
    about: str
    exhibits: tuple[Exhibit, ...]


def row_minimum(rows: Outputs) -> Outputs:
    """Return the minimum of each row: it is large only if all numbers are, so it best reveals a joint change."""
    return np.asarray(rows.min(axis=1))


def encode_digits(answers: NDArray[Any], base: int = 2) -> NDArray[np.int64]:
    """Encode each row of digits as one number, so that an audit tests them jointly."""
    return np.asarray(answers.astype(np.int64) @ base ** np.arange(answers.shape[1] - 1, -1, -1), np.int64)
