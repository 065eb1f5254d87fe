"""The privacy loss of a release, or of a composition of releases, readable in every currency.

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
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, NeighboursDiffer
from sfumato.privacy import codec, shape
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.losses import (
    BoundedRangeLoss,
    ConcentratedLoss,
    Loss,
    PairLoss,
    ResponseLoss,
    sum_with_counts_rounded_up,
)
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, GaussianLoss, LaplaceLoss
from sfumato.privacy.numbers import (
    BELOW_ONE,
    INSIDE_UNIT,
    NONNEGATIVE,
    POSITIVE,
    PROBABILITY,
    Number,
    Range,
    decimal_float_above,
    exact,
    exact_integer,
    means_plus_infinity,
)
from sfumato.privacy.pairs import Distribution, aligned_masses
from sfumato.privacy.sensitivity import Sensitivity
from sfumato.privacy.shape import PrivacyLoss, best_false_negative_bound, least_rho
from sfumato.privacy.subsampled_losses import SubsampledLoss
from sfumato.privacy.threshold_losses import GaussianKeyThresholdLoss, LaplaceKeyThresholdLoss
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.plots.picture import Picture

Part = tuple[Loss, int]

_RATE = Range("a number in (0, 1]", Fraction(0), Fraction(1), low_open=True)
_FROM_ONE = Range("a number in [1, 1e12], or infinity", Fraction(1), Fraction(10**12))
ROUNDED_UP = 2.0**-45
"""The margin that is added to a computed divergence of order α when it is charged, divided by α − 1."""


@codec.serialisable("curve")
@dataclass(frozen=True)
class Curve:
    """The privacy loss of a release, for every ε, δ and Rényi order at once.

    >>> Curve.laplace(scale=2).epsilon(0)
    0.5
    >>> round(Curve.gaussian(sigma=4.2246789).epsilon(1e-6), 6)
    1.0
    """

    parts: tuple[Part, ...]
    neighbours: Neighbours
    group_size: ClassVar[int]
    """How many units change together, where ``group`` said so; it is not written down with the curve."""

    def __init__(self, parts: Iterable[Part], neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> None:
        counts_by_loss: dict[Loss, list[int]] = {}
        for part in _checked_sequence(parts, "parts"):
            if not isinstance(part, (tuple, list)) or len(part) != 2 or not isinstance(part[0], Loss):
                raise InvalidParameter("parts", part, "a list of pairs (loss, count)")
            if not part[0].is_trivial:
                counts_by_loss.setdefault(part[0], []).append(exact_integer(part[1], "count"))
        combined = [(loss, sum(counts)) for loss, counts in counts_by_loss.items() if any(counts)]
        object.__setattr__(self, "parts", tuple(sorted(combined, key=lambda part: part[0].sort_key)))
        object.__setattr__(self, "neighbours", Neighbours.of(neighbours))
        object.__setattr__(self, "group_size", 1)

    # ── built from ─────────────────────────────────────────────────────────────────────────────

    @classmethod
    def laplace(cls, scale: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the loss of continuous Laplace noise of this scale on every coordinate (Dwork, McSherry, Nissim &
        Smith 2006).
        """
        b, change = exact(scale, "scale", POSITIVE), Sensitivity.of(sensitivity)
        parts = ((LaplaceLoss(size / b), count) for size, count in change.coordinates)
        return cls(parts, change.neighbours)

    @classmethod
    def discrete_laplace(cls, scale: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the loss of discrete Laplace noise, P(x) ∝ e^{−|x|/scale} on the integers; fractional sensitivities
        are rounded up.
        """
        b, change = exact(scale, "scale", POSITIVE), _round_change_up_to_integers(Sensitivity.of(sensitivity))
        parts = ((LaplaceLoss(size / b, 1 / b), count) for size, count in change.coordinates)
        return cls(parts, change.neighbours)

    @classmethod
    def gaussian(cls, sigma: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the loss of continuous Gaussian noise: only the L2 sensitivity matters (Balle & Wang 2018)."""
        s, change = exact(sigma, "sigma", POSITIVE), Sensitivity.of(sensitivity)
        return cls([(GaussianLoss(change.squares / s**2), 1)], change.neighbours)

    @classmethod
    def discrete_gaussian(cls, sigma: Number, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the loss of discrete Gaussian noise, P(x) ∝ e^{−x²/2σ²} on the integers (Canonne, Kamath & Steinke
        2020).

        If every coordinate may move by the full ``per_group``, that shift is the worst one. If an L1 or L2 bound
        excludes it, the worst shift within the bounds is used where the candidates are few or σ is not small
        (``noise_losses``); otherwise only ρ = Δ₂²/2σ² is known.
        """
        s, change = exact(sigma, "sigma", POSITIVE), _round_change_up_to_integers(Sensitivity.of(sensitivity))
        if change.squares == change.groups * change.per_group**2:
            full = DiscreteGaussianLoss(s**2, int(change.per_group))
            return cls([(full, change.groups)], change.neighbours)
        shift_bounds = change.groups, *map(math.floor, (change.per_group, change.total, change.squares))
        vector = DiscreteGaussianVectorLoss(s**2, *shift_bounds)
        part = (
            vector
            if vector.is_nearly_continuous or vector.products_to_maximise
            else ConcentratedLoss(change.squares / (2 * s**2))
        )
        return cls([(part, 1)], change.neighbours)

    @classmethod
    def randomized_response(cls, epsilon: Number, choices: int = 2) -> Curve:
        """Return the loss of randomised response by each unit (Warner 1965): the number of reports is public, so it is
        stated for replace neighbours only.
        """
        return cls([(ResponseLoss(exact(epsilon, "epsilon", NONNEGATIVE), choices), 1)], Neighbours.REPLACE)

    @classmethod
    def bounded_range(cls, epsilon: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """Return the loss of a selection whose privacy loss spans at most ε, such as the exponential mechanism (Dong,
        Durfee & Rogers 2020).
        """
        return cls([(BoundedRangeLoss(exact(epsilon, "epsilon", NONNEGATIVE)), 1)], neighbours)

    @classmethod
    def pure(cls, epsilon: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """Return a loss that dominates every ε-DP release."""
        return cls([(ResponseLoss(exact(epsilon, "epsilon", NONNEGATIVE)), 1)], neighbours)

    @classmethod
    def approximate(cls, epsilon: Number, delta: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """Return a loss that dominates every (ε, δ)-DP release."""
        promise = Guarantee(epsilon, delta)
        return cls([(ResponseLoss(promise.epsilon, 2, promise.delta), 1)], neighbours)

    @classmethod
    def concentrated(cls, rho: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """Return the loss of any ρ-zCDP release (Bun & Steinke 2016)."""
        return cls([(ConcentratedLoss(exact(rho, "rho", NONNEGATIVE)), 1)], neighbours)

    @classmethod
    def gdp(cls, mu: Number, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """Return a loss that dominates every μ-GDP release (Dong, Roth & Su 2022)."""
        return cls([(GaussianLoss(exact(mu, "mu", NONNEGATIVE) ** 2), 1)], neighbours)

    @classmethod
    def pair(cls, p: Distribution, q: Distribution, neighbours: Neighbours | str = Neighbours.ADD_REMOVE) -> Curve:
        """Return the loss of a release with finitely many outcomes, from its distributions with and without the unit.

        Each must sum to exactly 1: write Fraction(1, 3) or "1/3", not the float 1/3. Mass that rounding left out
        (at most 1e-9) becomes failure in both directions; a sum above 1 is refused.
        """
        return cls([(PairLoss(*aligned_masses(p, q)), 1)], neighbours)

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
        """Return the loss of showing the keys whose count plus discrete Laplace noise passes a threshold, where δ
        bounds the probability that a key held by one unit alone passes (``noise_losses``).
        """
        units_moved = 2 if Neighbours.of(neighbours) is Neighbours.REPLACE else 1
        b, reveal = exact(scale, "scale", POSITIVE), exact(delta, "delta", INSIDE_UNIT)
        return cls([(LaplaceKeyThresholdLoss(b, threshold, reveal, weight, most, units_moved), 1)], neighbours)

    @classmethod
    def gaussian_threshold(
        cls,
        sigma: Number,
        keys: int,
        epsilon: Number,
        delta: Number,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> Curve:
        """Return the loss of a key threshold with discrete Gaussian noise: the noise is (ε, δ/2)-DP, the failure is
        δ/2.
        """
        units_moved = 2 if Neighbours.of(neighbours) is Neighbours.REPLACE else 1
        promise, s = Guarantee(epsilon, delta), exact(sigma, "sigma", POSITIVE)
        loss = GaussianKeyThresholdLoss(s**2, units_moved * exact_integer(keys, "keys"), promise.epsilon, promise.delta)
        return cls([(loss, 1)], neighbours)

    # ── read as ────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def failure(self) -> Fraction:
        """The probability of unbounded loss: the mass of the loss at +∞, in the worse direction."""
        return max(shape.failure(parts) for parts in self._charged_directions)

    @cached_property
    def max_divergence(self) -> Fraction | None:
        """Σ D∞ outside the failure, the cost in the pure currency; None when unbounded."""
        totals = [shape.max_divergence(parts) for parts in self._parts_in_worst_order(_max_divergence_or_infinity)]
        return None if None in totals else max(total for total in totals if total is not None)

    def epsilon(self, delta: Number) -> float:
        """Bound from above the least ε for which (ε, δ)-DP is certain; infinite when no ε will do."""
        target = exact(delta, "delta", BELOW_ONE)
        return max(shape.epsilon_range(parts, target)[1] for parts in self._composed_directions)

    def epsilon_range(self, delta: Number) -> tuple[float, float]:
        """Return certified lower and upper bounds of the least ε for this δ."""
        target = exact(delta, "delta", BELOW_ONE)
        ranges = [shape.epsilon_range(parts, target) for parts in self._composed_directions]
        lower = (
            ranges
            if self._dominated_directions is None
            else [shape.epsilon_range(parts, target) for parts in self._dominated_directions]
        )
        return max(low for low, _ in lower), max(high for _, high in ranges)

    def delta(self, epsilon: Number) -> float:
        """Bound from above the least δ for which (ε, δ)-DP is certain."""
        target = exact(epsilon, "epsilon", NONNEGATIVE)
        return max(shape.delta_range(parts, target)[1] for parts in self._composed_directions)

    def delta_range(self, epsilon: Number) -> tuple[float, float]:
        """Return certified lower and upper bounds of the least δ for this ε."""
        target = exact(epsilon, "epsilon", NONNEGATIVE)
        ranges = [shape.delta_range(parts, target) for parts in self._composed_directions]
        lower = (
            ranges
            if self._dominated_directions is None
            else [shape.delta_range(parts, target) for parts in self._dominated_directions]
        )
        return max(low for low, _ in lower), max(high for _, high in ranges)

    def renyi(self, order: Number) -> float:
        """Return the Rényi divergence of this order outside the failure: order 1 is KL, infinity max-divergence.
        Divergences of one order add under composition.
        """
        if means_plus_infinity(order):
            return math.inf if self.max_divergence is None else decimal_float_above(self.max_divergence)
        alpha = float(exact(order, "order", _FROM_ONE))
        return max(shape.renyi(parts, alpha) for parts in self._parts_in_worst_order(lambda loss: loss.renyi(alpha)))

    def renyi_above(self, order: Fraction) -> Fraction:
        """Return an exact upper bound of ``renyi``, which is what an account charges.

        D_α is computed from sums of positive terms, to a relative error far below 2^-42; the absolute term
        covers the logarithm-of-a-sum branch, whose error is divided by α − 1.
        """
        bounds_by_order = self._charged_at_order
        if order not in bounds_by_order:
            bounds_by_order[order] = self._compute_renyi_above(order)
        return bounds_by_order[order]

    @cached_property
    def _charged_at_order(self) -> dict[Fraction, Fraction]:
        """What accounts of each order charge: a held question is charged often."""
        return {}

    def _compute_renyi_above(self, order: Fraction) -> Fraction:
        alpha = float(order)
        value = max(shape.renyi(parts, alpha) for parts in self._parts_in_worst_order(lambda loss: loss.renyi(alpha)))
        if not math.isfinite(value):
            return Fraction(10**300)  # more than any account holds
        margin = ROUNDED_UP / float(order - 1) if self._needs_rounding_margin else 0.0
        return Fraction(value * (1 + 2.0**-41) + margin)

    @cached_property
    def _needs_rounding_margin(self) -> bool:
        closed_form = (GaussianLoss, ConcentratedLoss, DiscreteGaussianVectorLoss)
        return any(not isinstance(loss, closed_form) for loss, _ in self.parts)

    def rho(self) -> float:
        """Return a ρ for which this is ρ-zCDP: the sum of each part's least ρ, rounded up. Infinite when there is none,
        as with any failure.
        """
        if self.failure:
            return math.inf
        totals = (
            sum_with_counts_rounded_up((least_rho(loss), count) for loss, count in parts)
            for parts in self._parts_in_worst_order(least_rho)
        )
        return max(decimal_float_above(total) for total in totals if total is not None)

    def group(self, k: int) -> Curve:
        """Return the loss when k units change together; every part is recomputed for k units."""
        size = exact_integer(k, "k", at_least=1)
        curve = Curve(((loss.group(size), count) for loss, count in self.parts), self.neighbours)
        object.__setattr__(curve, "group_size", size * self.group_size)
        return curve

    def subsampled(
        self,
        rate: Number | None = None,
        *,
        size: int | None = None,
        of: int | None = None,
        bounds_presence: bool = False,
    ) -> Curve:
        """Return the loss of running this release once on a secret random sample of the units.

        With ``rate``, each unit is in the sample with that probability, on its own (Poisson): for add-remove curves;
        ``for_neighbours`` and ``group`` of the result count how many of the changed units are sampled. With ``size``
        and ``of``, that many of a public number of units are drawn without replacement: for replace curves. For
        one unit of a Poisson sample the pair is tight, and ranges are certified on both sides; otherwise it is an
        upper bound, and a range is that of the bound (``subsampled_losses``). The sample must stay secret, and each
        release needs a fresh one.

        A replace curve has a ``rate`` with ``bounds_presence`` alone, which states that it bounds what adding or
        removing one unit leaks, too: the size of a Poisson sample varies.

        >>> round(Curve.pure(1).subsampled("0.1").epsilon(0), 4)  # ln(1 + 0.1·(e − 1))
        0.1586
        """
        share, population = self._sampling_rate_and_population(rate, size, of, bounds_presence)
        if self.group_size > 1:
            raise InvalidParameter(
                "curve",
                self,
                "the curve of one unit",
                fix="sample first, then group the units: curve.subsampled(…).group(k)",
            )
        if share == 1 or not self.parts:
            return self
        exchanged = rate is not None and self.neighbours is Neighbours.REPLACE
        loss = SubsampledLoss(self.parts, share, population=population, exchanged=exchanged)
        return Curve([(loss, 1)], self.neighbours)

    def _sampling_rate_and_population(
        self, rate: Number | None, size: int | None, of: int | None, bounds_presence: bool
    ) -> tuple[Fraction, int]:
        """Return the share of the units in a sample, and their public number, 0 for Poisson sampling."""
        if (rate is None) == (size is None) or (size is None) != (of is None):
            rule = "given alone, or left out if size=… and of=… are both given"
            fix = "write subsampled('0.1') or subsampled(size=100, of=1000)"
            raise InvalidParameter("rate", rate, rule, fix=fix)
        if rate is not None:
            if self.neighbours is Neighbours.REPLACE and not bounds_presence:
                fix = "sample the add-remove curve, then convert: curve.subsampled(rate).for_neighbours('replace')"
                rule = "left out under replace neighbours, because a Poisson sample has no fixed size"
                raise InvalidParameter("rate", rate, rule, fix=fix)
            return exact(rate, "rate", _RATE), 0
        if self.neighbours is Neighbours.ADD_REMOVE:
            fix = "use rate=…, or convert first: curve.for_neighbours('replace').subsampled(size=…, of=…)"
            raise InvalidParameter(
                "size", size, "left out under add-remove neighbours, where the number of units is secret", fix=fix
            )
        drawn, population = exact_integer(size or 0, "size", at_least=1), exact_integer(of or 0, "of", at_least=1)
        if drawn > population:
            raise InvalidParameter("size", size, f"at most {population}, the number of units")
        return Fraction(drawn, population), population

    def for_neighbours(self, neighbours: Neighbours | str) -> Curve:
        """Return the loss under the other neighbouring relation: replacing a unit is removing one and adding one."""
        relation = Neighbours.of(neighbours)
        if relation is self.neighbours:
            return self
        if relation is Neighbours.ADD_REMOVE:
            raise NeighboursDiffer(
                self.neighbours.value,
                relation.value,
                place="Curve.for_neighbours",
                fix="use an add-remove mechanism: a replace guarantee says nothing about adding a unit",
            )
        return Curve(self.group(2).parts, relation)

    def tradeoff(self, false_positive_rate: Number) -> float:
        """Bound the least false negative rate of any test for one unit at this false positive rate (Wasserman & Zhou
        2010).

        A lower bound: every (ε, δ(ε)) gives two lines under the trade-off function, and the best ε is searched for.
        """
        alpha = float(exact(false_positive_rate, "false_positive_rate", PROBABILITY))
        if self.failure == 1:
            return 0.0
        floor = self.failure + (1 - self.failure) / 10**12
        return best_false_negative_bound(self.delta, min(700.0, self.epsilon(floor)), alpha)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw δ against ε, the trade-off of a test for one unit, and the tail of the privacy loss of the dominating
        pair. With a path (.svg, .png, .html) the picture is saved, too.
        """
        from sfumato.plots.picture import save_if_path
        from sfumato.privacy.pictures import draw_loss_curves  # most curves are never drawn

        floor = float(self.failure) + (1 - float(self.failure)) * 1e-9
        largest_epsilon = min(600.0, self.epsilon(floor)) if floor < 1 else 1.0
        footnotes = [f"neighbours: {self.neighbours.value}", "upper bounds of δ, lower bounds of false-negative rates"]
        return save_if_path(
            draw_loss_curves(self.delta, self.loss().tail, 1.15 * largest_epsilon or 1.0, footnotes), path
        )

    def loss(self) -> PrivacyLoss:
        """Return the privacy-loss random variable of the dominating pair, in the worse direction: mean, tail,
        quantiles.

        It is the pair's loss, not the mechanism's. A dominating pair bounds δ(ε), which is what composes; it does not
        bound how often the loss of a dominated pair passes a value: the pair of ``bounded_range(1)`` passes 0.5 with
        probability 0.35, some exponential mechanisms do with 0.62. What holds for every mechanism with this curve is
        P(L > t) ≤ δ(ε)/(1 − e^{ε−t}) for any ε < t; ``sf.reading`` uses the best.
        """
        directions = self._composed_directions
        worse_direction = max(directions, key=lambda parts: (shape.failure(parts), shape.renyi(parts, 1.0)))
        return PrivacyLoss(worse_direction, directions[-1] if worse_direction is directions[0] else directions[0])

    def _parts_in_worst_order(self, divergence: Callable[[Loss], float | Fraction]) -> tuple[tuple[Part, ...], ...]:
        """Return the parts to charge: in both directions or, under replace, each part in its worse order."""
        if self.neighbours is Neighbours.ADD_REMOVE:
            return self._charged_directions
        return (tuple((max(loss, loss.reversed(), key=divergence), count) for loss, count in self.parts),)

    @cached_property
    def _composed_directions(self) -> tuple[shape.Pairs, ...]:
        return shape.composed_directions(self.parts, self.neighbours)

    @cached_property
    def _dominated_directions(self) -> tuple[shape.Pairs, ...] | None:
        """The parts that bound a composition from below, where those to compose bound it from above alone."""
        is_alone = len(self.parts) == 1 and self.parts[0][1] == 1
        if is_alone or not any(loss.dominated_factors for loss, _ in self.parts):
            return None
        return tuple(
            tuple(
                (factor, times * count)
                for loss, count in parts
                for factor, times in loss.dominated_factors or loss.factors
            )
            for parts in self._charged_directions
        )

    @cached_property
    def _charged_directions(self) -> tuple[tuple[Part, ...], ...]:
        return shape.charged_directions(self.parts, self.neighbours)

    def __repr__(self) -> str:
        first_parts = ", ".join(f"{loss!r} × {count}" for loss, count in self.parts[:3])
        omitted = f", … {len(self.parts) - 3} more" if len(self.parts) > 3 else ""
        return f"<Curve {self.neighbours.value}: {first_parts + omitted or 'nothing'}>"


def _max_divergence_or_infinity(loss: Loss) -> float | Fraction:
    return math.inf if loss.pure_epsilon is None else loss.pure_epsilon


def compose(curves: Iterable[Curve | tuple[Curve, int]]) -> Curve:
    """Compose the curves of several releases; ``(curve, count)`` stands for count independent releases of one kind.

    The parameters must be fixed in advance: for an analyst who picks the next release after seeing answers, use an
    account (``Budget``).

    >>> compose([(Curve.laplace(10), 10)]).epsilon(0)
    1.0
    """
    curve_counts = normalise_counted_curves(curves)
    if len(curve_counts) == 1 and curve_counts[0][1] == 1:
        return curve_counts[0][0]
    relations = {curve.neighbours for curve, _ in curve_counts}
    if len(relations) > 1:
        raise NeighboursDiffer(
            Neighbours.ADD_REMOVE.value,
            Neighbours.REPLACE.value,
            place="compose",
            fix="give all curves the same neighbours: curve.for_neighbours('replace') converts an add-remove curve",
        )
    parts = [(loss, count * times) for curve, times in curve_counts for loss, count in curve.parts]
    composed = Curve(parts, relations.pop() if relations else Neighbours.ADD_REMOVE)
    object.__setattr__(composed, "group_size", max((curve.group_size for curve, _ in curve_counts), default=1))
    return composed


def normalise_counted_curves(curves: Iterable[Curve | tuple[Curve, int]]) -> list[tuple[Curve, int]]:
    """Normalise a list of curves, or of pairs (curve, count), to such pairs; refuse anything else."""
    curve_counts = []
    for item in _checked_sequence(curves, "curves"):
        pair = tuple(item) if isinstance(item, (tuple, list)) else (item, 1)
        if len(pair) != 2 or not isinstance(pair[0], Curve):
            raise InvalidParameter("curves", item, "a list of curves, or of pairs (curve, count)")
        curve_counts.append((pair[0], exact_integer(pair[1], "count")))
    return curve_counts


def _checked_sequence(items: object, name: str) -> Iterable[Any]:
    """Check that the argument is a sequence. Mappings are refused: iterating one would silently drop its counts."""
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise InvalidParameter(name, items, "a list, not a string or a mapping")
    return items


def _round_change_up_to_integers(change: Sensitivity) -> Sensitivity:
    """Round the change of each coordinate up to an integer; keep the L1 and L2 bounds only where they stay integral.

    An integer vector within real bounds is within their integer parts, but rounding a real change may add up to one
    step per coordinate, so bounds are rounded up.
    """
    if change.per_group.denominator == 1 and change.total.denominator == 1:
        if change.squares.denominator == 1:
            return change
        squares = math.floor(change.squares)
        return Sensitivity(change.groups, change.per_group, change.total, squares, change.neighbours)
    return Sensitivity(change.groups, math.ceil(change.per_group), None, None, change.neighbours)
