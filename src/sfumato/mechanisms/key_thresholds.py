"""Key thresholds: which keys may be shown, where naming a rare one would reveal its holder."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import bits, gaussian, grids, laplace
from sfumato.mechanisms.additive import Gaussian
from sfumato.privacy import Curve, Guarantee, Neighbours, Sensitivity, calibrate, codec
from sfumato.privacy.calibration import least_parameter_by_shortfall, log_delta_excess, meets, noise_size_near
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
    least_integer_where,
)
from sfumato.privacy.threshold_losses import laplace_tail
from sfumato.quick_dataclass import dataclass

MAX_KEYS, MAX_WEIGHT = 10_000, 200
"""The most keys that one unit holds, or the most weight that it spreads over them."""
_SMALLEST_DELTA = Fraction(1, 10**30)


@codec.serialisable("key-threshold", 2)
@dataclass(frozen=True)
class KeyThreshold:
    """A threshold on the noisy number of units that hold a key. A unit holds at most ``max_groups`` = g keys.

    One key per unit: a key with n units is kept with probability π(n), the largest possible at (ε, δ): π(0) = 0,
    π(n+1) = min(e^ε·π(n) + δ, 1 − e^{−ε}(1 − π(n) − δ), 1) (Desfontaines, Voss, Gipson & Mandayam 2022, Thm 1).

    Several: discrete Laplace noise of scale g/ε on every count, and a key passes when count + noise ≥ τ, the least
    threshold for which any of the ≤ g keys that a unit holds alone passes with probability ≤ δ. Outside that event,
    which keys pass follows from the noisy counts of keys that other units hold too; one unit moves at most g of them
    by 1, which is ε-DP, so the rule is (ε, δ)-DP (proof: ``privacy.noise_losses``). With ``weighted`` a unit
    spreads whole weights of at most g in all over its keys, as many as it likes: δ then is the worst over all ways to
    split g, and no key need be dropped by sampling.

    ``KeyThreshold.gaussian`` uses discrete Gaussian noise instead, whose deviation grows with √g: half of δ pays
    for it, half for the threshold. It wins when units hold many keys.

    Under *replace* (u by v, with the same others): a key that u and v both hold is there either way. Some key that u
    holds alone passes with probability ≤ δ, and the same is true of v; outside these events the keys that both worlds
    know differ by 1 in at most 2g counts (weighted: by 2g in all). So noise for 2g of them and the same threshold rule
    give (ε, δ). One key per unit: two independent decisions move, and each is made at (ε/2, δ/2).
    """

    interactive: ClassVar[bool] = False

    epsilon: Fraction
    delta: Fraction
    max_groups: int
    weighted: bool
    sigma: Fraction | None
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __init__(
        self,
        epsilon: Number,
        delta: Number,
        max_groups: int = 1,
        weighted: bool = False,
        sigma: Number | None = None,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    ) -> None:
        promise = Guarantee(epsilon, delta)
        groups = exact_integer(max_groups, "max_groups", at_least=1)
        if not promise.epsilon or not promise.delta:
            raise _zero_promise_error(promise)
        if promise.delta < _SMALLEST_DELTA:
            raise InvalidParameter("delta", delta, "at least 1e-30")
        max_allowed = MAX_WEIGHT if weighted else MAX_KEYS
        if groups > max_allowed:
            raise InvalidParameter("max_groups", max_groups, f"at most {max_allowed:,}")
        relation = Neighbours.of(neighbours)
        units_moved = 2 if relation is Neighbours.REPLACE else 1
        least_epsilon = 2 * units_moved * math.log(units_moved / promise.delta) / 10**6
        if groups == 1 and sigma is None and promise.epsilon < least_epsilon:
            least = Context(prec=3, rounding=ROUND_CEILING).create_decimal_from_float(least_epsilon)
            rule = f"at least {least:f}, so that a group of a million units can be shown"
            raise InvalidParameter("epsilon", epsilon, rule, fix=f"set epsilon to {least:f} or more")
        if not isinstance(weighted, bool):
            raise InvalidParameter("weighted", weighted, "True or False")
        if not Fraction(1, 1000) <= units_moved * groups / promise.epsilon <= 10**12:
            raise InvalidParameter(
                "epsilon",
                epsilon,
                "an ε that gives noise of a scale between 0.001 and 1e12",
                fix="for example, set epsilon to 0.5",
            )
        object.__setattr__(self, "epsilon", promise.epsilon)
        object.__setattr__(self, "delta", promise.delta)
        object.__setattr__(self, "max_groups", groups)
        object.__setattr__(self, "weighted", weighted)
        object.__setattr__(self, "sigma", None if sigma is None else exact(sigma, "sigma", POSITIVE))
        object.__setattr__(self, "neighbours", relation)
        if self.sigma is not None and weighted:
            raise InvalidParameter("sigma", sigma, "left out when weighted is True", fix="leave out sigma or weighted")
        if self.sigma is not None and not meets(self._noise_curve, Guarantee(epsilon, promise.delta / 2)):
            rule = "large enough for (epsilon, delta/2)-DP"
            raise InvalidParameter("sigma", sigma, rule, fix="use KeyThreshold.gaussian(epsilon, delta, max_groups)")

    @classmethod
    def gaussian(
        cls, epsilon: Number, delta: Number, max_groups: int, neighbours: Neighbours | str = Neighbours.ADD_REMOVE
    ) -> KeyThreshold:
        """Return a threshold with Gaussian noise, the least that half of δ allows."""
        promise = Guarantee(epsilon, delta)
        change = _count_sensitivity(exact_integer(max_groups, "max_groups", at_least=1), Neighbours.of(neighbours))
        if not promise.epsilon or not promise.delta:
            raise _zero_promise_error(promise)
        noise = calibrate(Gaussian, Guarantee(promise.epsilon, promise.delta / 2), change)
        sigma = cast("Fraction", noise.sigma)
        return cls(promise.epsilon, promise.delta, max_groups, sigma=sigma, neighbours=neighbours)

    @property
    def _noise_curve(self) -> Curve:
        if self.sigma is None:
            return Curve.pure(self.epsilon, self.neighbours)
        return Gaussian(self.sigma).curve(_count_sensitivity(self.max_groups, self.neighbours))

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on a count: as many counts may move as one unit holds keys, or two under replace."""
        return self._changed_unit_count * self.max_groups / self.epsilon

    @property
    def _changed_unit_count(self) -> int:
        """The number of units that are added or removed between neighbours."""
        return 2 if self.neighbours is Neighbours.REPLACE else 1

    @property
    def _decision_budget(self) -> tuple[Fraction, Fraction]:
        """The ε and δ of one decision, where each is made by the optimal rule."""
        return self.epsilon / self._changed_unit_count, self.delta / self._changed_unit_count

    @property
    def threshold(self) -> int:
        """The least count + noise that passes; for one key per unit, the least count that surely passes."""
        if self._uses_optimal_rule:
            return len(_keep_probability_cuts(*self._decision_budget))
        if self.sigma is not None:
            return _gaussian_threshold(self.sigma, self.delta / 2, self.max_groups)
        return _laplace_threshold(self.scale, self.delta, self.max_groups, self.weighted)

    @property
    def _uses_optimal_rule(self) -> bool:
        return self.max_groups == 1 and self.sigma is None

    def choose(self, counts: Any) -> NDArray[np.bool_]:
        """Return which keys to keep, given how many units (or how much weight) each has; a key without units is never
        kept.
        """
        unit_counts = grids.round_to_steps(grids.as_numeric_array(counts, None, "counts"), None)
        if unit_counts.ndim != 1 or (unit_counts < 0).any():
            given = grids.describe_array(unit_counts)
            given = ValueWords("a list with a number below 0") if unit_counts.ndim == 1 else given
            raise InvalidParameter("counts", given, "a list of whole numbers ≥ 0")
        is_kept = np.empty(unit_counts.size, bool)
        for start in range(0, unit_counts.size, grids.CHUNK):
            chunk = unit_counts[start : start + grids.CHUNK]
            is_kept[start : start + grids.CHUNK] = (
                self._select_keys_by_optimal_rule(chunk)
                if self._uses_optimal_rule
                else self._select_keys_by_noisy_count(chunk)
            )
        return is_kept & (unit_counts > 0)

    def _select_keys_by_noisy_count(self, unit_counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        law, size = (laplace, self.scale) if self.sigma is None else (gaussian, self.sigma)
        return np.minimum(unit_counts, 1 << 60) + law.draw(size, unit_counts.size) >= self.threshold

    def _select_keys_by_optimal_rule(self, unit_counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Decide V < π(n) from 64 bits, and exactly where these touch the cut."""
        cuts = np.array(_keep_probability_cuts(*self._decision_budget), np.uint64)
        words = bits.random_uint64(unit_counts.size)
        is_sure = unit_counts >= len(cuts)
        row_cuts = cuts[np.minimum(unit_counts, len(cuts) - 1)]
        is_kept = is_sure | (words < row_cuts)
        is_close = (
            ~is_sure & (words >= row_cuts - np.minimum(row_cuts, np.uint64(1))) & (words <= row_cuts + np.uint64(1))
        )
        for index in np.flatnonzero(is_close):
            is_kept[index] = bits.is_uniform_below(
                int(words[index]), 64, keep_probability(*self._decision_budget, int(unit_counts[index]))
            )
        return is_kept

    def curve(self) -> Curve:
        """Return the loss: a failure beside the noise's own curve, in one loss, so that groups are priced together.

        One key per unit: the optimal rule is (ε, δ)-DP, with equality, and nothing tighter is stated.
        """
        if self._uses_optimal_rule:
            return Curve.approximate(self.epsilon, self.delta, self.neighbours)
        if self.sigma is not None:
            return Curve.gaussian_threshold(self.sigma, self.max_groups, self.epsilon, self.delta, self.neighbours)
        max_weight = self.max_groups if self.weighted else 1
        return Curve.laplace_threshold(
            self.scale, self.threshold, self.delta, weight=self.max_groups, most=max_weight, neighbours=self.neighbours
        )

    def chance(self, count: int) -> float:
        """Return the probability that a key with so many units is kept; with Gaussian noise an upper bound on the
        probability (``_gaussian_tail_bound``).
        """
        unit_count = exact_integer(count, "count")
        if unit_count == 0:
            return 0.0
        if self._uses_optimal_rule:
            context = bits.decimal_context(40)
            return (
                1.0
                if unit_count >= self.threshold
                else float(keep_probability(*self._decision_budget, unit_count)(context))
            )
        if self.sigma is not None:
            return _gaussian_tail_bound(self.sigma, self.threshold - unit_count)
        return float(laplace_tail(self.scale, self.threshold - unit_count))

    def error(self, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return the least number of units with which a key is kept with at least this confidence."""
        level = exact(confidence, "confidence", CONFIDENCE)
        if self._uses_optimal_rule:
            return float(bisect_left(_keep_probability_cuts(*self._decision_budget), math.ceil(level * 2**64)))
        return float(least_integer_where(lambda units: self.chance(units) >= float(level), 1))

    def words(self) -> str:
        promise = f"ε {format_number(float(self.epsilon), 6)}, δ {format_number(float(self.delta), 6)}"
        if self._uses_optimal_rule:
            return f"keys of at least {self.threshold} units, and smaller ones with some probability, {promise}"
        return f"keys of at least {self.threshold} noisy units, {promise}"

    def __repr__(self) -> str:
        more = (
            ", weighted=True" if self.weighted else "" if self.sigma is None else f", sigma={format_exact(self.sigma)}"
        )
        promise = f"epsilon={format_exact(self.epsilon)}, delta={format_exact(self.delta)}"
        more += "" if self.neighbours is Neighbours.ADD_REMOVE else f", neighbours={self.neighbours.value!r}"
        return f"{type(self).__name__}({promise}, max_groups={self.max_groups}{more})"


@codec.serialisable("key-threshold")
@dataclass(frozen=True, init=False, repr=False)
class LegacyKeyThreshold(KeyThreshold):
    """A key threshold of old ledgers, charged as any (ε, δ)-DP release: the cost of a line is computed again from the
    line alone.
    """

    def curve(self) -> Curve:
        return Curve.approximate(self.epsilon, self.delta, self.neighbours)


def is_gaussian_surely_no_better(laplace_threshold: KeyThreshold) -> bool:
    """Return whether Gaussian noise at the same price surely shows no smaller groups, without calibrating it: not even
    with a σ that is too small for the price, a little below that of continuous noise.
    """
    epsilon, delta = laplace_threshold.epsilon, laplace_threshold.delta / 2
    promise, groups = Guarantee(epsilon, delta), laplace_threshold.max_groups
    change = _count_sensitivity(groups, laplace_threshold.neighbours)
    continuous_sigma = least_parameter_by_shortfall(
        lambda sigma: log_delta_excess(Curve.gaussian(sigma, change), promise),
        f"{promise}",
        Fraction(1, 256),
        near=change.l2 * noise_size_near(promise),
    )
    sigma = continuous_sigma * Fraction(63, 64)
    passing = _gaussian_threshold(sigma, delta, groups)
    least_shown = least_integer_where(
        lambda units: _gaussian_tail_bound(sigma, passing - units) >= float(DEFAULT_CONFIDENCE), 1
    )
    return least_shown >= laplace_threshold.error() and not meets(Gaussian(sigma).curve(change), promise)


def _zero_promise_error(guarantee: Guarantee) -> InvalidParameter:
    """Refuse an ε or a δ of 0: which keys exist is private, and a release of keys needs both."""
    name, example = ("delta", "1e-9") if guarantee.epsilon else ("epsilon", "0.5")
    rule = "above 0 to show keys that the policy does not list"
    return InvalidParameter(name, 0, rule, fix=f"for example, set {name} to {example}")


def _count_sensitivity(groups: int, neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of the counts of distinct units."""
    return Sensitivity(groups=groups).for_neighbours(neighbours, signed=False)


def keep_probability(epsilon: Fraction, delta: Fraction, count: int) -> Callable[[Context], Decimal]:
    """Return a function that computes π(count) to any precision."""

    def compute(context: Context) -> Decimal:
        growth = bits.to_decimal(epsilon, context).exp(context)
        delta_decimal = bits.to_decimal(delta, context)
        keep = Decimal(0)
        for _ in range(count):
            upward = context.add(context.multiply(growth, keep), delta_decimal)
            hidden = context.subtract(context.subtract(Decimal(1), keep), delta_decimal)
            downward = context.subtract(Decimal(1), context.divide(hidden, growth))
            keep = min(upward, downward, Decimal(1))
        return keep

    return compute


@lru_cache(maxsize=256)
def _keep_probability_cuts(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Return ⌊π(n)·2⁶⁴⌋ for n = 0, 1, … while π(n) < 1."""
    context = bits.decimal_context(60)
    growth, delta_decimal = bits.to_decimal(epsilon, context).exp(context), bits.to_decimal(delta, context)
    cuts, keep = [], Decimal(0)
    while keep < 1:
        cuts.append(min(int(context.multiply(keep, Decimal(1 << 64))), (1 << 64) - 2))
        hidden = context.subtract(context.subtract(Decimal(1), keep), delta_decimal)
        downward = context.subtract(Decimal(1), context.divide(hidden, growth))
        keep = min(context.add(context.multiply(growth, keep), delta_decimal), downward, Decimal(1))
    return tuple(cuts)


def _gaussian_tail_bound(sigma: Fraction, t: int) -> float:
    """Return an upper bound on the probability P(Y ≥ t) of the discrete Gaussian.

    Beyond σ the density is convex, so every term is below its integral over a unit around it; the normalising sum
    is at least σ√2π (Canonne, Kamath & Steinke 2020, Fact 19). For small σ the bound is up to a third above the
    probability. Nearer to the centre the sum itself, or for σ > 2000 the same expression, there an approximation.
    """
    s = float(sigma)
    if t - 0.5 > s or s > 2000:
        return min(1.0, math.erfc((t - 0.5) / (s * math.sqrt(2))) / 2 * (1 + 1e-9))
    reach = math.ceil(12 * s) + 1
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-((x / s) ** 2) / 2)
    return min(1.0, float(weights[x >= t].sum() / weights.sum()) * (1 + 1e-9))


@lru_cache(maxsize=256)
def _gaussian_threshold(sigma: Fraction, delta: Fraction, groups: int) -> int:
    """Return the least τ beyond σ for which any of g keys of one unit passes with probability at most δ."""

    def fits(threshold: int) -> bool:
        # the bound is a billionth above the probability: more than these logarithms and δ's float lose to rounding
        return -math.expm1(groups * math.log1p(-_gaussian_tail_bound(sigma, threshold - 1))) <= float(delta)

    return least_integer_where(fits, math.ceil(sigma) + 2)


@lru_cache(maxsize=256)
def _laplace_threshold(scale: Fraction, delta: Fraction, groups: int, weighted: bool) -> int:
    """Return the least τ with δ(τ) ≤ δ."""
    return least_integer_where(lambda threshold: leak_probability(threshold, scale, groups, weighted) <= delta, 1)


def leak_probability(threshold: int, scale: Fraction, groups: int, weighted: bool) -> Fraction:
    """Bound the largest probability that some key which one unit holds alone passes the threshold, rounded up at 40
    digits.

    1 − Π(1 − P(wᵢ + Y ≥ τ)), over all whole weights with Σwᵢ ≤ g; unweighted, g keys of weight 1.
    """
    context = bits.decimal_context(50)
    weights = range(1, groups + 1) if weighted else range(1, 2)
    passing = {w: laplace_tail(scale, threshold - w) for w in weights}
    if not weighted:
        all_hidden = context.power(context.subtract(Decimal(1), passing[1]), Decimal(groups))
    else:
        # The least product of (1 − p(w)) over partitions, by how much weight is used: each weight as often as it fits.
        best = [Decimal(1)] * (groups + 1)
        for used in range(1, groups + 1):
            best[used] = min(
                context.multiply(best[used - w], context.subtract(Decimal(1), passing[w])) for w in range(1, used + 1)
            )
        all_hidden = min(best)
    return Fraction(context.subtract(Decimal(1), all_hidden)) + Fraction(1, 10**40)
