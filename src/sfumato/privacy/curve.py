"""A curve is the privacy loss of a release, or of many together: one value, every currency.

A ``Curve`` is a bag of dominating pairs (``losses``) with multiplicities. One release has one pair or a few;
composing is putting bags together, because products of dominating pairs dominate compositions. Everything else is a
reading of it.

Under add-remove neighbours one orientation is shared by all parts (a unit is there in all of them or in none), so both
directions are kept apart and the worse one is taken at the end. Under replace a unit may play P in one part and Q in
the next (of two attributes each may take the other's value), so a part is first replaced by one that dominates both of
its orders, and charges take the worse order part by part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, NeighboursDiffer
from sfumato.privacy import codec, shape
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.losses import BoundedRangeLoss, ConcentratedLoss, Loss, PairLoss, ResponseLoss, sum_above
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, GaussianLoss, LaplaceLoss
from sfumato.privacy.numbers import (
    BELOW_ONE,
    INSIDE_UNIT,
    NONNEGATIVE,
    POSITIVE,
    PROBABILITY,
    Number,
    Range,
    above,
    exact,
    is_infinite,
    whole,
)
from sfumato.privacy.pairs import Distribution, aligned
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.privacy.shape import PrivacyLoss, best_line, least_rho
from sfumato.privacy.threshold_losses import GaussianThresholdLoss, LaplaceThresholdLoss
from sfumato.privacy.vector_losses import DiscreteGaussianVectorLoss

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture

Part = tuple[Loss, int]

_FROM_ONE = Range("a number in [1, 1e12], or infinity", Fraction(1), Fraction(10**12))
ROUNDED_UP = 2.0**-45
"""By so much, divided by α − 1, a divergence of order α is charged more than it was computed."""


@codec.value("curve")
@dataclass(frozen=True)
class Curve:
    """A curve says what a release leaks, for every ε, δ and Rényi order at once.

    >>> Curve.laplace(scale=2).epsilon(0)
    0.5
    >>> round(Curve.gaussian(sigma=4.2246789).epsilon(1e-6), 6)
    1.0
    """

    parts: tuple[Part, ...]
    neighbours: Neighbours

    def __init__(self, parts: Iterable[Part], neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> None:
        merged: dict[Loss, list[int]] = {}
        for part in _sequence(parts, "parts"):
            if not isinstance(part, (tuple, list)) or len(part) != 2 or not isinstance(part[0], Loss):
                raise InvalidParameter("parts", part, "pairs of a loss and a count")
            if not part[0].trivial:
                merged.setdefault(part[0], []).append(whole(part[1], "count"))
        kept = [(loss, sum(counts)) for loss, counts in merged.items() if any(counts)]
        object.__setattr__(self, "parts", tuple(sorted(kept, key=lambda part: part[0].sort_key)))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))

    # ── built from ─────────────────────────────────────────────────────────────────────────────

    @classmethod
    def laplace(cls, scale: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """State what continuous Laplace noise of this scale on every coordinate leaks (Dwork, McSherry, Nissim & Smith
        2006).
        """
        b, change = exact(scale, "scale", POSITIVE), Sensitivity.of(sensitivity)
        parts = ((LaplaceLoss(size / b), count) for size, count in change.coordinates)
        return cls(parts, change.neighbours)

    @classmethod
    def discrete_laplace(cls, scale: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """State what Laplace noise on whole numbers, P(x) ∝ e^{−|x|/scale}, leaks; fractional sensitivities are rounded
        up.
        """
        b, change = exact(scale, "scale", POSITIVE), _whole_steps(Sensitivity.of(sensitivity))
        parts = ((LaplaceLoss(size / b, 1 / b), count) for size, count in change.coordinates)
        return cls(parts, change.neighbours)

    @classmethod
    def gaussian(cls, sigma: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """State what continuous Gaussian noise leaks: only the Euclidean sensitivity matters (Balle & Wang 2018)."""
        s, change = exact(sigma, "sigma", POSITIVE), Sensitivity.of(sensitivity)
        return cls([(GaussianLoss(change.squares / s**2), 1)], change.neighbours)

    @classmethod
    def discrete_gaussian(cls, sigma: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """State what Gaussian noise on whole numbers, P(x) ∝ e^{−x²/2σ²}, leaks (Canonne, Kamath & Steinke 2020).

        When every coordinate may move fully, that is the worst change, coordinate by coordinate. Where a total or
        Euclidean bound cuts corners off, the worst of all changes within them counts, where these are few or σ is
        not small (``vector_losses``); else only ρ = Δ₂²/2σ² is known.
        """
        s, change = exact(sigma, "sigma", POSITIVE), _whole_steps(Sensitivity.of(sensitivity))
        if change.squares == change.groups * change.per_group**2:
            full = DiscreteGaussianLoss(s**2, int(change.per_group))
            return cls([(full, change.groups)], change.neighbours)
        moved = change.groups, *map(math.floor, (change.per_group, change.total, change.squares))
        vector = DiscreteGaussianVectorLoss(s**2, *moved)
        part = vector if vector.near or vector.alternatives else ConcentratedLoss(change.squares / (2 * s**2))
        return cls([(part, 1)], change.neighbours)

    @classmethod
    def randomized_response(cls, epsilon: Number, choices: int = 2) -> Curve:
        """State what each unit's own answer leaks when it is randomised (Warner 1965): the number of reports is public,
        so replace neighbours only.
        """
        return cls([(ResponseLoss(exact(epsilon, "epsilon", NONNEGATIVE), choices), 1)], Neighbours.REPLACE)

    @classmethod
    def bounded_range(cls, epsilon: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """State what a selection leaks whose loss spans at most ε, such as the exponential mechanism (Dong, Durfee &
        Rogers 2020).
        """
        return cls([(BoundedRangeLoss(exact(epsilon, "epsilon", NONNEGATIVE)), 1)], neighbours)

    @classmethod
    def pure(cls, epsilon: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """State what any ε-DP release leaks."""
        return cls([(ResponseLoss(exact(epsilon, "epsilon", NONNEGATIVE)), 1)], neighbours)

    @classmethod
    def approximate(cls, epsilon: Number, delta: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """State what any (ε, δ)-DP release leaks."""
        promise = Guarantee(epsilon, delta)
        return cls([(ResponseLoss(promise.epsilon, 2, promise.delta), 1)], neighbours)

    @classmethod
    def concentrated(cls, rho: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """State what any ρ-zCDP release leaks (Bun & Steinke 2016)."""
        return cls([(ConcentratedLoss(exact(rho, "rho", NONNEGATIVE)), 1)], neighbours)

    @classmethod
    def gdp(cls, mu: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """State what any μ-GDP release leaks (Dong, Roth & Su 2022)."""
        return cls([(GaussianLoss(exact(mu, "mu", NONNEGATIVE) ** 2), 1)], neighbours)

    @classmethod
    def pair(cls, p: Distribution, q: Distribution, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """State what a release leaks whose outcomes are finite, by its distributions with and without the unit.

        Each must sum to exactly 1: write Fraction(1, 3) or "1/3", not the float 1/3. What rounding leaves missing (at
        most 1e-9) is failure, in both directions; more than 1 is refused.
        """
        return cls([(PairLoss(*aligned(p, q)), 1)], neighbours)

    @classmethod
    def laplace_threshold(
        cls,
        scale: Number,
        threshold: int,
        delta: Number,
        *,
        weight: int,
        most: int = 1,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> Curve:
        """State what is leaked by showing the keys whose count and discrete Laplace noise pass a threshold, where δ
        bounds the probability that a key of one unit alone does (``threshold_losses``).
        """
        moved = 2 if Neighbours.of(neighbours) is Neighbours.REPLACE else 1
        b, failing = exact(scale, "scale", POSITIVE), exact(delta, "delta", INSIDE_UNIT)
        return cls([(LaplaceThresholdLoss(b, threshold, failing, weight, most, moved), 1)], neighbours)

    @classmethod
    def gaussian_threshold(
        cls,
        sigma: Number,
        keys: int,
        epsilon: Number,
        delta: Number,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> Curve:
        """State the same of discrete Gaussian noise that is (ε, δ/2)-DP, beside a failure of δ/2."""
        moved = 2 if Neighbours.of(neighbours) is Neighbours.REPLACE else 1
        promise, s = Guarantee(epsilon, delta), exact(sigma, "sigma", POSITIVE)
        loss = GaussianThresholdLoss(s**2, moved * whole(keys, "keys"), promise.epsilon, promise.delta)
        return cls([(loss, 1)], neighbours)

    # ── read as ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def failure(self) -> Fraction:
        """Give the probability with which nothing is promised: the mass of the loss at +∞, in the worse direction."""
        return max(shape.failure(parts) for parts in self._charged)

    @cached_property
    def max_divergence(self) -> Fraction | None:
        """Give Σ D∞ outside the failure, the cost in the pure currency; None when unbounded."""
        totals = [shape.max_divergence(parts) for parts in self._sides(_pure)]
        return None if None in totals else max(total for total in totals if total is not None)

    def epsilon(self, delta: Number) -> float:
        """Bound from above the least ε for which (ε, δ)-DP is certain; infinite when no ε will do."""
        return self.epsilon_range(delta)[1]

    def epsilon_range(self, delta: Number) -> tuple[float, float]:
        """Give certified lower and upper bounds of the least ε for this δ."""
        target = exact(delta, "delta", BELOW_ONE)
        ranges = [shape.epsilon_range(parts, target) for parts in self._directions]
        return max(low for low, _ in ranges), max(high for _, high in ranges)

    def delta(self, epsilon: Number) -> float:
        """Bound from above the least δ for which (ε, δ)-DP is certain."""
        return self.delta_range(epsilon)[1]

    def delta_range(self, epsilon: Number) -> tuple[float, float]:
        """Give certified lower and upper bounds of the least δ for this ε."""
        target = exact(epsilon, "epsilon", NONNEGATIVE)
        ranges = [shape.delta_range(parts, target) for parts in self._directions]
        return max(low for low, _ in ranges), max(high for _, high in ranges)

    def renyi(self, order: Number) -> float:
        """Give the Rényi divergence of this order outside the failure: 1 is KL, infinity max-divergence. Orders add."""
        if is_infinite(order):
            return math.inf if self.max_divergence is None else above(self.max_divergence)
        alpha = float(exact(order, "order", _FROM_ONE))
        return max(shape.renyi(parts, alpha) for parts in self._sides(lambda loss: loss.renyi(alpha)))

    def renyi_above(self, order: Fraction) -> Fraction:
        """Give ``renyi`` as an exact number that is surely not below it: an account charges this.

        D_α is computed from sums of positive terms, to a relative error far below 2^-42; the absolute term
        covers the logarithm-of-a-sum branch, whose error is divided by α − 1.
        """
        alpha = float(order)
        value = max(shape.renyi(parts, alpha) for parts in self._sides(lambda loss: loss.renyi(alpha)))
        if not math.isfinite(value):
            return Fraction(10**300)  # more than any account holds
        margin = ROUNDED_UP / float(order - 1) if self._rough else 0.0
        return Fraction(value * (1 + 2.0**-41) + margin)

    @cached_property
    def _rough(self) -> bool:
        smooth = (GaussianLoss, ConcentratedLoss, DiscreteGaussianVectorLoss)
        return any(not isinstance(loss, smooth) for loss, _ in self.parts)

    def rho(self) -> float:
        """Find a ρ for which this is ρ-zCDP: each part's least, added and rounded up. Infinite when there is none, as
        with any failure.
        """
        if self.failure:
            return math.inf
        totals = (sum_above((least_rho(loss), count) for loss, count in parts) for parts in self._sides(least_rho))
        return max(above(total) for total in totals if total is not None)

    def group(self, k: int) -> Curve:
        """Compute the loss when k units change together; every part is recomputed for k units."""
        size = whole(k, "k", at_least=1)
        return Curve(((loss.group(size), count) for loss, count in self.parts), self.neighbours)

    def for_neighbours(self, neighbours: Neighbours | str) -> Curve:
        """State the loss under the other relation: to replace a unit is to remove one and add one."""
        wanted = Neighbours.of(neighbours)
        if wanted is self.neighbours:
            return self
        if wanted is Neighbours.ADD_REMOVE:
            raise NeighboursDiffer(
                self.neighbours.value,
                wanted.value,
                place="Curve.for_neighbours",
                fix="a replace guarantee says nothing about adding a unit: use an add-remove mechanism",
            )
        return Curve(self.group(2).parts, wanted)

    def tradeoff(self, false_positive_rate: Number) -> float:
        """Bound the least false negative rate of any test for one unit at this false positive rate (Wasserman & Zhou
        2010).

        A lower bound: every (ε, δ(ε)) gives two lines under the trade-off function, and the best ε is searched for.
        """
        alpha = float(exact(false_positive_rate, "false_positive_rate", PROBABILITY))
        if self.failure == 1:
            return 0.0
        floor = self.failure + (1 - self.failure) / 10**12
        return best_line(self.delta, min(700.0, self.epsilon(floor)), alpha)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw δ against ε, the trade-off of a test for one unit, and how the privacy loss of the dominating pair is
        spread. With a path (.svg, .png, .html) the picture is saved, too.
        """
        from sfumato.plots.picture import saved
        from sfumato.privacy.pictures import draw_loss  # most curves are never drawn

        floor = float(self.failure) + (1 - float(self.failure)) * 1e-9
        most = min(600.0, self.epsilon(floor)) if floor < 1 else 1.0
        foot = [f"neighbours: {self.neighbours.value}", "upper bounds of δ, lower bounds of what a test misses"]
        return saved(draw_loss(self.delta, self.loss().tail, 1.15 * most or 1.0, foot), path)

    def loss(self) -> PrivacyLoss:
        """Give the privacy-loss random variable of the dominating pair, in the worse direction: mean, tail, quantiles.

        It is the pair's loss, not the mechanism's. A dominating pair bounds δ(ε), which is what composes; it does not
        bound how often the loss of a dominated pair passes a value: the pair of ``bounded_range(1)`` passes 0.5 with
        probability 0.35, some exponential mechanisms do with 0.62. What holds for every mechanism with this curve is
        P(L > t) ≤ δ(ε)/(1 − e^{ε−t}) for any ε < t; ``reading`` uses the best.
        """
        sides = self._directions
        worse = max(sides, key=lambda parts: (shape.failure(parts), shape.renyi(parts, 1.0)))
        return PrivacyLoss(worse, sides[-1] if worse is sides[0] else sides[0])

    def _sides(self, worse: Callable[[Loss], float | Fraction]) -> tuple[tuple[Part, ...], ...]:
        """The parts to be charged: in both directions, or, under replace, each in the order that is worse."""
        if self.neighbours is Neighbours.ADD_REMOVE:
            return self._charged
        return (tuple((max(loss, loss.reversed(), key=worse), count) for loss, count in self.parts),)

    @cached_property
    def _directions(self) -> tuple[tuple[Part, ...], ...]:
        """The parts to be composed: each as its factors, but for one that is alone and known better so."""
        if len(self.parts) == 1 and self.parts[0][1] == 1 and self.parts[0][0].alternatives:
            return self._charged
        return tuple(
            tuple((factor, times * count) for loss, count in parts for factor, times in loss.factors)
            for parts in self._charged
        )

    @cached_property
    def _charged(self) -> tuple[tuple[Part, ...], ...]:
        """Give the parts in both directions, or, under replace, each dominating both of its orders."""
        if self.neighbours is Neighbours.REPLACE:
            return (tuple((loss.symmetrised(), count) for loss, count in self.parts),)
        back = tuple((loss.reversed(), count) for loss, count in self.parts)
        return (self.parts,) if back == self.parts else (self.parts, back)

    def __repr__(self) -> str:
        inside = ", ".join(f"{loss!r} × {count}" for loss, count in self.parts[:3])
        more = f", … {len(self.parts) - 3} more" if len(self.parts) > 3 else ""
        return f"<Curve {self.neighbours.value}: {inside + more or 'nothing'}>"


def _pure(loss: Loss) -> float | Fraction:
    return math.inf if loss.pure is None else loss.pure


def compose(curves: Iterable[Curve | tuple[Curve, int]]) -> Curve:
    """Compose the curves of all these releases; ``(curve, count)`` stands for count independent releases of one kind.

    Parameters fixed in advance: an analyst who picks the next release after seeing answers is an account's
    business (``Budget``), not this function's.

    >>> compose([(Curve.laplace(10), 10)]).epsilon(0)
    1.0
    """
    pieces = counted(curves)
    relations = {curve.neighbours for curve, _ in pieces}
    if len(relations) > 1:
        raise NeighboursDiffer(
            Neighbours.ADD_REMOVE.value,
            Neighbours.REPLACE.value,
            place="compose",
            fix="state every curve for one relation: curve.for_neighbours('replace') prices an add-remove curve so",
        )
    parts = [(loss, count * times) for curve, times in pieces for loss, count in curve.parts]
    return Curve(parts, relations.pop() if relations else Neighbours.ADD_REMOVE)


def counted(curves: Iterable[Curve | tuple[Curve, int]]) -> list[tuple[Curve, int]]:
    """Turn a list of curves, or pairs of a curve and a count, into such pairs; what is neither is refused."""
    found = []
    for item in _sequence(curves, "curves"):
        pair = tuple(item) if isinstance(item, (tuple, list)) else (item, 1)
        if len(pair) != 2 or not isinstance(pair[0], Curve):
            raise InvalidParameter("curves", item, "curves, or pairs (curve, count)")
        found.append((pair[0], whole(pair[1], "count")))
    return found


def _sequence(items: object, name: str) -> Iterable[Any]:
    """Mappings are refused too: iterating one would silently drop its counts."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidParameter(name, items, "a sequence, such as a list of pairs")
    return items


def _whole_steps(change: Sensitivity) -> Sensitivity:
    """Round each coordinate of the change up to whole numbers, and keep totals only where they stay whole.

    A vector of whole numbers within real bounds is within their integer parts, but a change that was real and is
    then rounded may grow by less than one step per coordinate: round up.
    """
    if change.per_group.denominator == 1 and change.total.denominator == 1:
        squares = math.floor(change.squares)
        return Sensitivity(change.groups, change.per_group, change.total, squares, change.neighbours)
    return Sensitivity(change.groups, math.ceil(change.per_group), None, None, change.neighbours)
