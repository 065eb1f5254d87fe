"""A selection chooses one of many: only the choice is released, never the scores.

Scores are numbers of any kind, taken as they are and rounded to a public ``grid`` (``scores``). A unit changes every
score by at most ``sensitivity``; where scores are computed in floating point, that includes what rounding adds.
``monotone`` says that all scores move the same way when a unit is added (counts do): then half the noise is enough,
under add-remove neighbours only.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import grids, races, scores as scoring
from sfumato.privacy import Curve, Neighbours, codec, compose
from sfumato.privacy.numbers import ABOVE_ONE, CONFIDENCE, POSITIVE, Number, exact, shown, text, whole

_EPSILON = (Fraction(1, 10**9), Fraction(1000))
_SENSITIVITY = (Fraction(1, 10**9), Fraction(10**15))


def _checked(value: Number, name: str, limits: tuple[Fraction, Fraction]) -> Fraction:
    number = exact(value, name, POSITIVE)
    if not limits[0] <= number <= limits[1]:
        raise InvalidParameter(name, value, f"a number in [{float(limits[0]):g}, {float(limits[1]):g}]")
    return number


@dataclass(frozen=True)
class Scored:
    """Every selection by scores is made of its price, how far a unit moves scores, in which way, and on which grid
    scores are compared, a power of two that is derived from price and sensitivity unless it is named.
    """

    interactive: ClassVar[bool] = False
    called: ClassVar[str]
    """What it is called in words."""

    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool
    neighbours: Neighbours
    grid: Fraction

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grid: Number | None = None,
    ) -> None:
        relation = Neighbours.of(neighbours)
        if not isinstance(monotone, bool):
            raise InvalidParameter("monotone", monotone, "True or False")
        if monotone and relation is Neighbours.REPLACE:
            raise InvalidParameter(
                "monotone", monotone, "False under replace neighbours", fix="a replaced unit moves scores both ways"
            )
        object.__setattr__(self, "epsilon", _checked(epsilon, "epsilon", _EPSILON))
        object.__setattr__(self, "sensitivity", _checked(sensitivity, "sensitivity", _SENSITIVITY))
        object.__setattr__(self, "monotone", monotone)
        object.__setattr__(self, "neighbours", relation)
        object.__setattr__(self, "grid", grids.power_of_two(grid) or self.derived_grid)

    @property
    def derived_grid(self) -> Fraction:
        """Choose the grid of a selection that names none."""
        return scoring.derived_grid(self.sensitivity, self.epsilon)

    @property
    def rate(self) -> Fraction:
        """Give the rate at which the logarithm of a candidate's weight falls per point of its score: ε/2Δ, or ε/Δ when
        monotone.

        Δ counts as the whole steps of the grid that hold it.
        """
        return self.epsilon / ((1 if self.monotone else 2) * -(-self.sensitivity // self.grid) * self.grid)

    def in_parts(self, parts: int, grid: Number | None = None) -> Self:
        """Give the same selection of scores given as whole numbers of 1/``parts``: a public unit in which they are
        exact.
        """
        finer = copy(self)
        object.__setattr__(finer, "sensitivity", _checked(self.sensitivity * parts, "sensitivity", _SENSITIVITY))
        object.__setattr__(finer, "grid", grids.power_of_two(grid) or finer.derived_grid)
        return finer

    def error(self, candidates: int, confidence: Number = "0.95", *, on_grid: bool = False) -> float:
        """Bound how far the chosen score lies below the best, with this confidence.

        Rounding two scores to the grid may hide a step more, unless they are whole numbers of steps (``on_grid``), as
        whole numbers are where no grid is named. Beyond the furthest distance that is told apart nothing is known.
        """
        lost = self._lost(candidates, confidence)
        if lost > float(scoring.FURTHEST * self.grid):
            return math.inf
        return lost if on_grid else lost + float(self.grid)

    def _lost(self, candidates: int, confidence: Number) -> float:
        """Bound the loss by the exponential mechanism's (ln n + ln 1/β)/rate (Dwork & Roth 2014, Thm 3.11), which holds
        a fortiori for permute-and-flip (McKenna & Sheldon 2020, Prop. 2 and Cor. 1).
        """
        return _tail(candidates, confidence) / float(self.rate)

    def words(self) -> str:
        return f"{self.called}, ε {shown(float(self.epsilon), 6)}"

    def __repr__(self) -> str:
        parts = [f"epsilon={text(self.epsilon)}"]
        if self.sensitivity != 1:
            parts.append(f"sensitivity={text(self.sensitivity)}")
        parts += ["monotone=True"] if self.monotone else []
        parts += [] if self.neighbours is Neighbours.ADD_REMOVE else [f"neighbours={self.neighbours.value!r}"]
        parts += [] if self.grid == self.derived_grid else [f"grid={text(self.grid)}"]
        return f"{type(self).__name__}({', '.join(parts + self._more())})"

    def _more(self) -> list[str]:
        return []


def field_of(scores: Any, mechanism: Scored) -> tuple[NDArray[np.uint64], Fraction]:
    """Give how many steps each score lies below the best, and the rate per step."""
    return scoring.gaps(scores, mechanism.grid), mechanism.rate * mechanism.grid


def _log(value: Fraction) -> float:
    """Compute ln of a positive fraction of any size."""
    return math.log(value.numerator) - math.log(value.denominator)


@codec.value("exponential")
@dataclass(frozen=True, repr=False, init=False)
class Exponential(Scored):
    """The exponential mechanism chooses h with P(h) ∝ e^{ε·s(h)/2Δ} (McSherry & Talwar 2007). Its loss spans at most ε:
    bounded range.

    >>> Exponential(1).choose([0, 100, 0])
    1
    """

    called: ClassVar[str] = "exponential mechanism"

    def choose(self, scores: Any) -> int:
        """Choose one candidate and give its index; ties are broken uniformly."""
        return int(races.winners(races.GUMBEL, *field_of(scores, self))[0])

    def curve(self) -> Curve:
        return Curve.bounded_range(self.epsilon, self.neighbours)


@codec.value("permute-and-flip")
@dataclass(frozen=True, repr=False, init=False)
class PermuteAndFlip(Scored):
    """Permute-and-flip (McKenna & Sheldon 2020) never has a worse expected error than the exponential mechanism at
    equal ε.

    Drawn as the largest score under exponential noise, which is the same law (Ding et al. 2021). Its range is not
    bounded, so it is charged as any ε-DP release.
    """

    called: ClassVar[str] = "permute-and-flip"

    def choose(self, scores: Any) -> int:
        """Choose one candidate and give its index; ties are broken uniformly."""
        return int(races.winners(races.EXPONENTIAL, *field_of(scores, self))[0])

    def curve(self) -> Curve:
        return Curve.pure(self.epsilon, self.neighbours)


class MaxNoise(Enum):
    """Scores are compared under one of these kinds of noise."""

    LAPLACE = "laplace"
    EXPONENTIAL = "exponential"
    GUMBEL = "gumbel"


@codec.value("noisy-max")
@dataclass(frozen=True, repr=False, init=False)
class NoisyMax(Scored):
    """Report noisy max: noise of scale 2Δ/ε (Δ/ε when monotone) on every score, and only the place of the largest
    is released.

    Laplace noise: Dwork & Roth 2014, Claim 3.9. Exponential noise is permute-and-flip, Gumbel noise the exponential
    mechanism.
    """

    called: ClassVar[str] = "the largest noisy score"

    noise: MaxNoise

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grid: Number | None = None,
        noise: MaxNoise | str = MaxNoise.LAPLACE,
    ) -> None:
        super().__init__(epsilon, sensitivity, monotone, neighbours, grid)
        try:
            object.__setattr__(self, "noise", MaxNoise(noise))
        except ValueError:
            raise InvalidParameter("noise", noise, "'laplace', 'exponential' or 'gumbel'") from None

    def choose(self, scores: Any) -> int:
        """Choose the index of the largest noisy score."""
        kind = {MaxNoise.LAPLACE: races.LAPLACE, MaxNoise.EXPONENTIAL: races.EXPONENTIAL, MaxNoise.GUMBEL: races.GUMBEL}
        return int(races.winners(kind[self.noise], *field_of(scores, self))[0])

    def curve(self) -> Curve:
        if self.noise is MaxNoise.GUMBEL:
            return Curve.bounded_range(self.epsilon, self.neighbours)
        return Curve.pure(self.epsilon, self.neighbours)

    def _lost(self, candidates: int, confidence: Number) -> float:
        """Bound the loss under Laplace noise: all noises lie within (ln n/β)/rate, so the choice is at most twice that
        below the best.
        """
        twice = 2 if self.noise is MaxNoise.LAPLACE else 1
        return twice * _tail(candidates, confidence) / float(self.rate)

    def words(self) -> str:
        return f"{super().words()}, {self.noise.value} noise"

    def _more(self) -> list[str]:
        return [f"noise={self.noise.value!r}"]


@codec.value("top-k")
@dataclass(frozen=True, repr=False, init=False)
class TopK(Scored):
    """TopK chooses the k best, in order, by one shot of Gumbel noise: the law of k exponential mechanisms of ε/k each,
    peeled one after the other (Durfee & Rogers 2019, Lemma 4.2).
    """

    called: ClassVar[str] = "the largest scores under Gumbel noise"

    k: int

    def __init__(
        self,
        epsilon: Number,
        sensitivity: Number = 1,
        monotone: bool = False,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        grid: Number | None = None,
        k: int = 1,
    ) -> None:
        super().__init__(epsilon, sensitivity, monotone, neighbours, grid)
        object.__setattr__(self, "k", whole(k, "k", at_least=1))

    def choose(self, scores: Any) -> list[int]:
        """Choose the indices of so many candidates, best first."""
        gaps, rate = field_of(scores, self)
        if gaps.size < self.k:
            raise InvalidParameter("scores", "fewer candidates", f"at least k = {self.k} candidates")
        return [int(index) for index in races.winners(races.GUMBEL, gaps, rate / self.k, self.k)]

    def curve(self) -> Curve:
        return compose([(Curve.bounded_range(self.epsilon / self.k, self.neighbours), self.k)])

    def _lost(self, candidates: int, confidence: Number) -> float:
        """Bound by a union over the k rounds: each choice is this close to the best of what was left."""
        miss = 1 - exact(confidence, "confidence", CONFIDENCE)
        return _tail(candidates, 1 - miss / self.k) / float(self.rate / self.k)

    def words(self) -> str:
        return f"{super().words()}, the best {self.k}"

    def _more(self) -> list[str]:
        return [f"k={self.k}"]


def _tail(candidates: int, confidence: Number) -> float:
    """Compute ln n + ln(1/β)."""
    miss = 1 - exact(confidence, "confidence", CONFIDENCE)
    return math.log(whole(candidates, "candidates", at_least=1)) - _log(miss)


def best_selection(
    order: Number,
    divergence: Number,
    candidates: int,
    sensitivity: Number = 1,
    monotone: bool = False,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> Exponential | PermuteAndFlip:
    """Choose the mechanism that errs less when a release may cost this Rényi divergence of this order.

    At equal ε permute-and-flip never errs more, but the exponential mechanism's bounded range costs less: it
    affords a larger ε. Their largest expected shortfalls are compared on the hardest scores, one best candidate and
    n − 1 equal others: the others win with probability 1 − 1/(1 + (n−1)e^{−x}) and 1 − (1 −
    (1−e^{−x})ⁿ)/(n·e^{−x}), x the gap times the rate.
    """
    alpha, price = exact(order, "order", ABOVE_ONE), exact(divergence, "divergence", POSITIVE)
    n = whole(candidates, "candidates", at_least=2)
    if alpha > 10**6 or n > 10**12:
        raise InvalidParameter("order", order, "at most 1e6, with at most 1e12 candidates")
    settings = (sensitivity, monotone, neighbours)
    ranged = Exponential(_affordable(lambda e: Curve.bounded_range(e), alpha, price), *settings)
    flipped = PermuteAndFlip(_affordable(lambda e: Curve.pure(e), alpha, price), *settings)
    x = np.linspace(0, 60 + math.log(n), 20_000)
    p = np.exp(-x)
    lost_ranged = (x * (1 - 1 / (1 + (n - 1) * p))).max() / float(ranged.rate)
    lost_flipped = (x * (1 + np.expm1(n * np.log1p(-np.minimum(p, 1 - 1e-16))) / (n * p))).max() / float(flipped.rate)
    return ranged if lost_ranged <= lost_flipped else flipped


def _affordable(curve: Any, order: Fraction, price: Fraction) -> Fraction:
    """Find the largest ε, to nine digits, whose divergence fits the price."""
    low, high = _EPSILON
    if curve(low).renyi_above(order) > price:
        raise InvalidParameter("divergence", price, "enough for a selection of ε = 1e-9")
    while high / low > 1 + Fraction(1, 10**9):
        middle = Fraction(math.sqrt(low * high)).limit_denominator(10**20)
        if not low < middle < high:
            break
        low, high = (middle, high) if curve(middle).renyi_above(order) <= price else (low, middle)
    return low
