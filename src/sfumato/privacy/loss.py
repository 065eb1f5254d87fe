"""Privacy losses are defined here where they are known exactly: one frozen value per dominating pair (P, Q).

For z ~ P the privacy loss is L = ln(P(z)/Q(z)). Every family here says the same few things about it, all for one
direction; ``reversed()`` is the other (P and Q exchanged), and symmetric pairs are their own reverse:

- ``pure``: the max-divergence D∞ of the pair outside its failure, or None where it is infinite
- ``failure``: the mass of P where Q = 0, the atom of L at +∞
- ``top``: the largest finite value of L, or None
- ``renyi(order)``: D_α of the pair outside its failure, order 1 (KL) included, infinity not
- ``delta(epsilon)``: the hockey-stick divergence in closed form for ε ≥ 0, failure included, with a bound on its
  rounding error; None where only the moments are known in closed form
- ``log_moment(z, *parameters)``: ln E_P[e^{zL}; L < ∞] for complex z with Re z > 0, vectorised over z and over many
  members of the family at once; ``log_bound(c, t, *parameters)``: at least ln|E e^{(c+is)L}| for every s ≥ t
- ``lattice``: (spacing, offset) when L lives on offset + spacing·ℤ, else None
- ``group(k)``: the loss when k units change together
- ``factors``: pairs whose product dominates this one, by which it is composed, where it is not itself such a pair

Why one pair may stand for a mechanism: a pair dominates when its hockey-stick divergence is at least that of every
pair of neighbours, for every ε; products of dominating pairs dominate adaptive compositions (Zhu, Dong & Wang 2022,
Thm 10 and Prop. 8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.numbers import charge_units, from_units, text

Complex = NDArray[np.complexfloating[Any, Any]]
Real = NDArray[np.floating[Any]]

LARGE = 30.0
"""Beyond this e^x − 1 is e^x to the last bit, and logarithms are taken term by term."""
ROUNDING = 8 * 2.0**-52
"""A few units in the last place: what each elementary step of a closed form may be off."""
ZERO = Fraction(0)


@dataclass(frozen=True)
class Loss(ABC):
    """All families share this: a symmetric pair without failure, nothing known in closed form but its moments."""

    moments_known: ClassVar[bool] = True

    @property
    def pure(self) -> Fraction | None:
        return None

    @property
    def top(self) -> Fraction | None:
        return self.pure

    @property
    def failure(self) -> Fraction:
        return ZERO

    @property
    def lattice(self) -> tuple[Fraction, Fraction] | None:
        return None

    @property
    def trivial(self) -> bool:
        """Tell whether both worlds look alike: nothing leaks."""
        return self.pure == 0 and not self.failure

    @property
    def flat(self) -> bool:
        """Tell whether the loss is 0 wherever it is finite: such a loss lies on every lattice."""
        return self.pure == 0

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Order equal bags of losses in one way; floats decide quickly, exact fields only between equal floats."""
        exact_fields = tuple(getattr(self, f.name) for f in fields(self))
        return type(self).__name__, tuple(float(x) for x in exact_fields if isinstance(x, Fraction)), exact_fields

    def __repr__(self) -> str:
        written = (f"{f.name}={_show(getattr(self, f.name))}" for f in fields(self))
        return f"{type(self).__name__}({', '.join(written)})"

    @property
    def factors(self) -> tuple[tuple[Loss, int], ...]:
        """Give the pairs, and how often each, that stand for this one where losses are composed."""
        return ((self, 1),)

    @property
    def alternatives(self) -> tuple[tuple[Loss, tuple[tuple[Loss, int], ...]], ...]:
        """Give the products of pairs of which the worst stands for this loss where it is alone, each after a loss that
        bounds it; none where it is known otherwise.
        """
        return ()

    def reversed(self) -> Loss:
        return self

    def symmetrised(self) -> Loss:
        """Find a loss that dominates this one and its reverse at every real ε."""
        return self

    @abstractmethod
    def renyi(self, order: float) -> float:
        """Give D_α of the pair outside its failure."""

    def delta(self, epsilon: float) -> tuple[float, float] | None:  # noqa: ARG002
        return None

    @abstractmethod
    def group(self, k: int) -> Loss:
        """Give the loss when k units change together."""

    @property
    def magnitude(self) -> float:
        """Bound |L| up to Gaussian tails: rounding errors of ``log_moment`` scale with it."""
        return float(self.top or 0)


@dataclass(frozen=True, repr=False)
class FamilyLoss(Loss):
    """This is a loss of a family whose moments are known in closed form: many of it are composed at once."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[Any, ...]:
        """Give what ``log_moment`` takes, as floats (or, for a finite pair, arrays)."""

    @staticmethod
    @abstractmethod
    def log_moment(z: Complex, *parameters: Any) -> Complex:
        """Give ln E_P[e^{zL}; L < ∞] at each z, for many members of the family at once."""

    @classmethod
    def log_bound(cls, c: float, t: float, *parameters: Any) -> Real:  # noqa: ARG003
        """Bound |E e^{(c+is)L}| by E e^{cL}: always true, and all that holds for a loss on a lattice."""
        return cls.log_moment(np.array([c + 0j]), *parameters).real

    @classmethod
    def log_decay(cls, c: float, heights: Real, *parameters: Any) -> Real:
        """Bound ln|M(c + it)/M(c)| from above at each height t, for all members or each: cheaper than the moment."""
        at_c = cls.log_moment(np.array([c + 0j]), *parameters).real
        return cls.log_moment(c + 1j * heights, *parameters).real - at_c


def two_atoms(high: Real, low: Real, phase: Real) -> Real:
    """Compute ln of a bound of |E e^{itL}| when L = ±x with these probabilities, phase = tx, and anything otherwise.

    |high·e^{i·phase} + low·e^{−i·phase}|² = (high + low)² − 4·high·low·sin²(phase).
    """
    both = high + low
    turned = np.sqrt(np.maximum(0.0, both * both - 4 * high * low * np.sin(phase) ** 2))
    return np.log(np.maximum(0.0, 1 - both) + turned + ROUNDING * (1 + np.abs(phase)))


def _show(value: object) -> str:
    if isinstance(value, tuple):
        more = ", …" if len(value) > 4 else ""
        return f"({', '.join(_show(each) for each in value[:4])}{more})"
    return text(value) if isinstance(value, Fraction) else str(value)


def sum_above(values: Iterable[tuple[Fraction | None, int]]) -> Fraction | None:
    """Sum count·value: exact for a few kinds, each rounded up to 1e-30 for many, whose denominators would explode."""
    known = []
    for value, count in values:
        if value is None:
            return None
        known.append((value, count))
    if len(known) <= 16:
        return sum((count * value for value, count in known), ZERO)
    return from_units(sum(count * charge_units(value) for value, count in known))
