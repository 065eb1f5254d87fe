"""Additive mechanisms: frozen values that draw their noise, state its privacy loss and bound its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, ValueWords
from sfumato.mechanisms import gaussian, grids, laplace, noise_sums, outcome_laws
from sfumato.mechanisms.outcome_laws import OutcomeDistribution
from sfumato.mechanisms.protocols import Additive
from sfumato.privacy import Curve, Guarantee, Sensitivity, codec, compose
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    Range,
    exact,
    exact_integer,
    format_exact,
    format_number,
    least_integer_where,
)
from sfumato.quick_dataclass import dataclass

Size = Fraction | tuple[Fraction, ...]

LEAST_STEPS, MAX_STEPS = Fraction(1, 1000), Fraction(10**12)
"""The range of scales, in grid steps, in which every draw is exact and bounded in time."""
_TAIL = Range("a probability from 1e-29 to 0.5", Fraction(1, 10**29), Fraction(1, 2))
_FURTHEST_STEP = 1 << 50
"""Inputs and outcomes of which a law is stated: further out, sums on a grid are clamped."""
_TABLE_PAYS = {"laplace": 1 << 19, "gaussian": 1 << 16}
"""The number of draws after which building a table has paid."""


def _parse_sizes(value: Number | Iterable[Number], name: str, grid: Fraction | None) -> Size:
    """Parse one scale, or one per element, within the range in which every draw is exact and bounded in time."""
    is_sequence = (
        isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)) and np.ndim(value) > 0
    )
    raw_scales: list[Any] = list(cast("Iterable[Number]", value)) if is_sequence else [value]
    scales = [exact(scale, name, POSITIVE) for scale in raw_scales]
    for scale in scales:
        if not LEAST_STEPS <= scale / (grid or 1) <= MAX_STEPS:
            raise InvalidParameter(
                name,
                scale,
                "between 0.001 and 1e12 times the grid (which is 1 if none is given)",
                fix=f"change {name}, or pass a grid that is closer to it in size",
            )
    if not scales:
        rule = "one number, or a list with one number for each value"
        raise InvalidParameter(name, value, rule, fix=f"for example, set {name} to 2")
    return tuple(scales) if is_sequence else scales[0]


def _format_size(size: Size) -> str:
    if isinstance(size, Fraction):
        return format_exact(size)
    ellipsis = ", …" if len(size) > 4 else ""
    return f"[{', '.join(format_exact(scale) for scale in size[:4])}{ellipsis}]"


@codec.serialisable("laplace")
@dataclass(frozen=True)
class Laplace:
    """Discrete Laplace noise, P(x) ∝ e^{−|x|/scale} on the integers, or on multiples of a power-of-two ``grid``.

    Drawn exactly; ε-DP with ε = Δ₁/scale (Dwork, McSherry, Nissim & Smith 2006; on ℤ: Ghosh, Roughgarden &
    Sundararajan 2009). A sequence of scales gives each element its own.

    >>> Laplace(scale=2).curve(sensitivity=1).epsilon(0)
    0.5
    """

    interactive: ClassVar[bool] = False
    pure: ClassVar[bool] = True
    order: ClassVar[int] = 1

    scale: Size
    grid: Fraction | None = None

    def __init__(self, scale: Number | Iterable[Number], grid: Number | None = None) -> None:
        step = grids.parse_grid(grid)
        object.__setattr__(self, "grid", step)
        object.__setattr__(self, "scale", _parse_sizes(scale, "scale", step))

    @classmethod
    def of_size(cls, size: Fraction) -> Laplace:
        return cls(size)

    @classmethod
    def norm(cls, change: Sensitivity) -> Fraction:
        return change.l1

    @classmethod
    def closed_form(cls, *, epsilon: Fraction | None, rho: Fraction | None) -> Fraction | None:  # noqa: ARG003
        """Return the scale for a change of norm 1, by ε = Δ₁/scale."""
        return None if epsilon is None else 1 / epsilon

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        return _divided_by_grid(self.scale, self.grid)

    def apply(self, values: Any) -> Any:
        """Add fresh noise to the values: an int gives an int, an array gives an array."""
        return _add_noise_to_values(self, values)

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the privacy loss of the noise as drawn, for values of this sensitivity."""
        change = grids.sensitivity_in_steps(Sensitivity.of(sensitivity), self.grid)
        return compose(Curve.discrete_laplace(size, part) for size, part in _split_change_by_scale(self.sizes, change))

    def distribution(self, value: Number, tail: Number = "1e-12") -> OutcomeDistribution:
        """Return the exact law of one noisy value; the outcomes listed leave out at most ``tail`` of it."""
        return _noisy_value_distribution(self, outcome_laws.laplace_probability, value, tail)

    def loss(self, outcome: Any, x: Any, y: Any) -> Fraction:
        """Return ln P[M(x) = outcome]/P[M(y) = outcome] = Σ (|outcome − y| − |outcome − x|)/scale, exactly: the
        privacy loss of one outcome for one pair of inputs, which may be lists.
        """
        return _total_log_ratio(self, outcome, x, y)

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> Fraction:
        """Return the least half-width w with P(all of k noises within ±w) ≥ confidence, by the exact tail 2q^{t}/(1+q).

        With several scales it is that of the largest. The rounding of values to a grid, at most half a step, is not
        included.
        """
        return laplace.half_width(max(self.sizes), _independent_miss(confidence, k)) * (self.grid or Fraction(1))

    def sum_error(self, terms: int, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> Fraction:
        """Return the half-width for k sums of ``terms`` noises each, which may share noises (``noise_sums``; a union
        bound).
        """
        width = noise_sums.laplace_sum_width(float(max(self.sizes)), terms, _union_bound_miss(confidence, k))
        return width * (self.grid or Fraction(1))

    def words(self, unit_value: Fraction = Fraction(1), digits: int = 6) -> str:
        return f"Laplace, scale {_format_largest_scale(self.scale, unit_value, digits)}"

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler("laplace", self.sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Laplace, (self.scale, self.grid)

    def __repr__(self) -> str:
        grid = "" if self.grid is None else f", grid={format_exact(self.grid)}"
        return f"Laplace(scale={_format_size(self.scale)}{grid})"


@codec.serialisable("gaussian")
@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise, P(x) ∝ e^{−x²/2σ²} on the integers, or on multiples of a power-of-two ``grid``.

    Drawn exactly; ρ-zCDP with ρ = Δ₂²/2σ² (Canonne, Kamath & Steinke 2020). A sequence of sigmas gives each element
    its own.

    >>> Gaussian(sigma=10).curve(sensitivity=1).rho()
    0.005
    """

    interactive: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    order: ClassVar[int] = 2

    sigma: Size
    grid: Fraction | None = None

    def __init__(self, sigma: Number | Iterable[Number], grid: Number | None = None) -> None:
        step = grids.parse_grid(grid)
        object.__setattr__(self, "grid", step)
        object.__setattr__(self, "sigma", _parse_sizes(sigma, "sigma", step))

    @classmethod
    def of_size(cls, size: Fraction) -> Gaussian:
        return cls(size)

    @classmethod
    def norm(cls, change: Sensitivity) -> Fraction:
        return Fraction(change.l2)

    @classmethod
    def closed_form(cls, *, epsilon: Fraction | None, rho: Fraction | None) -> Fraction | None:  # noqa: ARG003
        """Return the σ for a change of norm 1, by ρ = Δ₂²/2σ², rounded up by more than a square root may be off."""
        return None if rho is None else Fraction(math.sqrt(1 / (2 * rho))) * (1 + Fraction(1, 2**40))

    @classmethod
    def classical(cls, epsilon: Number, delta: Number, sensitivity: Sensitivity | Number = 1) -> Gaussian:
        """Return the textbook mechanism, σ = Δ₂√(2 ln(1.25/δ))/ε, for ε < 1 only (Dwork & Roth 2014, Thm A.1).

        For comparison: ``calibrate(Gaussian, …)`` finds less noise for the same promise, and for any ε.
        """
        promise = Guarantee(epsilon, delta)
        if not 0 < promise.epsilon < 1:
            rule = "above 0 and below 1, where the classical theorem holds"
            raise InvalidParameter(
                "epsilon", epsilon, rule, fix="use calibrate(Gaussian, Guarantee(epsilon, delta)) instead"
            )
        if not promise.delta:
            raise InvalidParameter("delta", delta, "above 0")
        change = Sensitivity.of(sensitivity)
        sigma = change.l2 * math.sqrt(2 * math.log(1.25 / float(promise.delta))) / float(promise.epsilon)
        return cls(f"{sigma * (1 + 1e-12):.13g}")

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        return _divided_by_grid(self.sigma, self.grid)

    def apply(self, values: Any) -> Any:
        """Add fresh noise to the values: an int gives an int, an array gives an array."""
        return _add_noise_to_values(self, values)

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the privacy loss of the noise as drawn, for values of this sensitivity."""
        change = grids.sensitivity_in_steps(Sensitivity.of(sensitivity), self.grid)
        if len(self.sizes) == 1:
            return Curve.discrete_gaussian(self.sizes[0], change)
        return _unequal_gaussian_curve(self.sizes, change)

    def distribution(self, value: Number, tail: Number = "1e-12") -> OutcomeDistribution:
        """Return the exact law of one noisy value; the outcomes listed leave out at most ``tail`` of it."""
        return _noisy_value_distribution(self, outcome_laws.gaussian_probability, value, tail)

    def loss(self, outcome: Any, x: Any, y: Any) -> Fraction:
        """Return ln P[M(x) = outcome]/P[M(y) = outcome] = Σ ((outcome − y)² − (outcome − x)²)/2σ², exactly: the
        privacy loss of one outcome for one pair of inputs, which may be lists.
        """
        return _total_log_ratio(self, outcome, x, y)

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> Fraction:
        """Return the least half-width w with P(all of k noises within ±w) ≥ confidence, by the exact tail."""
        beta, sigma = _independent_miss(confidence, k), float(max(self.sizes))
        return _gaussian_half_width(sigma, beta) * (self.grid or Fraction(1))

    def sum_error(self, terms: int, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> Fraction:
        """Return the half-width for k sums of ``terms`` noises each, which may share noises (``noise_sums``; a union
        bound).
        """
        miss, sigma = _union_bound_miss(confidence, k), float(max(self.sizes))
        single_miss = noise_sums.single_gaussian_miss(sigma, terms, miss)
        width = math.ceil(noise_sums.gaussian_sum_chernoff_width(sigma, terms, miss))
        if single_miss > 0:
            width = min(width, _gaussian_half_width(sigma * math.sqrt(terms) * (1 + 1e-12), single_miss))
        return width * (self.grid or Fraction(1))

    def words(self, unit_value: Fraction = Fraction(1), digits: int = 6) -> str:
        return f"Gaussian, σ {_format_largest_scale(self.sigma, unit_value, digits)}"

    @cached_property
    def sampler(self) -> Sampler:
        return Sampler("gaussian", self.sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Gaussian, (self.sigma, self.grid)

    def __repr__(self) -> str:
        grid = "" if self.grid is None else f", grid={format_exact(self.grid)}"
        return f"Gaussian(sigma={_format_size(self.sigma)}{grid})"


def _noisy_value_distribution(
    mechanism: Laplace | Gaussian, noise_law: Callable[[Fraction], Callable[[int], Decimal]], value: Any, tail: Number
) -> OutcomeDistribution:
    if len(mechanism.sizes) > 1:
        rule = "a single number, because a distribution is only listed for one scale"
        raise InvalidParameter(
            "scale",
            ValueWords(f"{len(mechanism.sizes)} scales"),
            rule,
            fix="list the distribution of each scale separately",
        )
    grid, start = mechanism.grid or Fraction(1), _value_in_grid_steps(mechanism, value, "value", rounded=True)
    reach = int(mechanism.error(1 - exact(tail, "tail", _TAIL)) / grid)
    if 2 * reach + 1 > outcome_laws.MAX_OUTCOMES:
        raise InvalidParameter(
            "distribution",
            ValueWords(f"that of {mechanism}, which has {2 * reach + 1:,} outcomes"),
            f"one with at most {outcome_laws.MAX_OUTCOMES:,} outcomes, because each of them is listed",
            fix="choose a coarser grid or a larger tail",
        )
    probability = noise_law(mechanism.sizes[0])

    def mass(outcome: Any) -> Fraction | None:
        try:
            steps = _value_in_grid_steps(mechanism, outcome, "outcome")
        except InvalidParameter:
            return None  # no value of this mechanism
        return outcome_laws.probability_rounded_down(probability(steps - start))

    outcomes = [step if mechanism.grid is None else step * grid for step in range(start - reach, start + reach + 1)]
    return OutcomeDistribution(outcomes, mass, outcome_laws.ROUNDING)


def _total_log_ratio(mechanism: Laplace | Gaussian, outcome: Any, x: Any, y: Any) -> Fraction:
    """Add the losses of all coordinates: their noises are independent."""
    rows = [list(row) if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in (outcome, x, y)]
    if len({len(row) for row in rows}) > 1 or len(mechanism.sizes) not in (1, len(rows[0])):
        lengths = ValueWords(", ".join(f"{len(row):,}" for row in rows))
        sizes = len(mechanism.sizes)
        rule = "equal" if sizes == 1 else f"{sizes:,}, the number of scales of the noise"
        raise InvalidParameter("lengths of outcome, x and y", lengths, rule)
    total = Fraction(0)
    for index, (result, first, second) in enumerate(zip(*rows, strict=True)):
        size = mechanism.sizes[index % len(mechanism.sizes)]
        outcome_steps = _value_in_grid_steps(mechanism, result, "outcome")
        from_x = abs(outcome_steps - _value_in_grid_steps(mechanism, first, "x", rounded=True)) ** mechanism.order
        from_y = abs(outcome_steps - _value_in_grid_steps(mechanism, second, "y", rounded=True)) ** mechanism.order
        total += Fraction(from_y - from_x) / (mechanism.order * size**mechanism.order)
    return total


def _value_in_grid_steps(mechanism: Laplace | Gaussian, value: Any, name: str, *, rounded: bool = False) -> int:
    """Return a number in grid steps: an input is rounded to the grid as in a release, an outcome lies on it."""
    number = Fraction(value) if isinstance(value, float) and math.isfinite(value) else exact(value, name)
    steps = number / (mechanism.grid or 1)
    if rounded and mechanism.grid is not None:
        steps = Fraction((2 * steps + 1) // 2)
    if steps.denominator != 1 or abs(steps) > _FURTHEST_STEP:
        rule = "a whole number" if mechanism.grid is None else f"a multiple of the grid {format_exact(mechanism.grid)}"
        raise InvalidParameter(
            name, value, f"{rule} of at most 2^50{' times the grid' if mechanism.grid else ''} in absolute value"
        )
    return int(steps)


def _format_largest_scale(size: Size, unit_value: Fraction, digits: int) -> str:
    return format_number(float(max(size) if isinstance(size, tuple) else size) * float(unit_value), digits)


def _divided_by_grid(size: Size, grid: Fraction | None) -> tuple[Fraction, ...]:
    sizes = size if isinstance(size, tuple) else (size,)
    return sizes if grid is None else tuple(scale / grid for scale in sizes)


def _add_noise_to_values(mechanism: Laplace | Gaussian, values: Any) -> Any:
    sampler = mechanism.sampler
    if type(values) is int and mechanism.grid is None and len(sampler.sizes) == 1:
        return sampler.add_noise(values)
    is_scalar = type(values) is int or isinstance(values, Fraction)
    numbers: Any = values if is_scalar else grids.as_numeric_array(values, mechanism.grid, "values")
    if len(sampler.sizes) > 1 and np.shape(numbers)[-1:] != (len(sampler.sizes),):
        rule = f"a list of {len(sampler.sizes)} numbers, one for each scale, or rows of such lists"
        raise InvalidParameter("values", grids.describe_array(np.asarray(numbers)), rule)
    return grids.add_noise_on_grid(numbers, mechanism.grid, sampler.add_noise, sampler.draw_function(np.size(numbers)))


class Sampler:
    """Draws from one law by table, vectorised or one at a time, whichever is cheapest."""

    def __init__(self, kind: str, sizes: tuple[Fraction, ...]) -> None:
        self.kind = kind
        self.sizes = sizes

    @property
    def _law_module(self) -> Any:
        return laplace if self.kind == "laplace" else gaussian

    @cached_property
    def add_noise(self) -> Callable[[int], int]:
        """A function that adds one draw to a value."""
        sampler = laplace.LaplaceSampler if self.kind == "laplace" else gaussian.GaussianSampler
        return sampler(self.sizes[0]).add_noise

    def draw_function(self, count: int) -> Any:
        """Return a function (start, length) → noise, for ``count`` draws in all."""
        if len(self.sizes) > 1:
            return lambda start, length: self._batch.draw(
                self._scale_index[np.arange(start, start + length) % len(self.sizes)]
            )
        (size,) = self.sizes
        table = self._table_sampler(size) if count >= _TABLE_PAYS[self.kind] else None
        if table is not None:
            return lambda _, length: table.draw(length)
        return lambda _, length: self._law_module.draw(size, length)

    def _table_sampler(self, size: Fraction) -> gaussian.GuideTable | gaussian.GaussianBlockSampler | None:
        if size <= gaussian.LARGEST:
            return gaussian.build_guide_table(self.kind, size)
        return gaussian.block_sampler_or_none(size) if self.kind == "gaussian" else None

    @cached_property
    def _index_by_scale(self) -> dict[Fraction, int]:
        return {size: index for index, size in enumerate(dict.fromkeys(self.sizes))}

    @cached_property
    def _scale_index(self) -> NDArray[np.intp]:
        return np.array([self._index_by_scale[size] for size in self.sizes])

    @cached_property
    def _batch(self) -> laplace.LaplaceBatch | gaussian.GaussianBatch:
        batch = laplace.LaplaceBatch if self.kind == "laplace" else gaussian.GaussianBatch
        return batch(list(self._index_by_scale))


def _split_change_by_scale(sizes: tuple[Fraction, ...], change: Sensitivity) -> list[tuple[Fraction, Sensitivity]]:
    """Split the worst change over coordinates of unequal scales into changes at single scales.

    Larger noise is smaller noise plus independent noise, so it leaks less. If every coordinate may move fully, the
    worst change is on the smallest scales. If an L1 bound excludes that, all scales are taken as the smallest: safe.
    """
    if len(sizes) == 1 or change.total < change.groups * change.per_group:
        return [(min(sizes), change)]
    smallest = sorted(sizes)[: change.groups]
    return [(size, Sensitivity(1, change.per_group, neighbours=change.neighbours)) for size in smallest]


def _unequal_gaussian_curve(sizes: tuple[Fraction, ...], change: Sensitivity) -> Curve:
    """Return the curve of ρ = max Σvᵢ²/2σᵢ²: convex in v, so attained with the largest changes on the smallest σ."""
    ascending = sorted(sizes)
    moves = [size for size, count in change.coordinates for _ in range(min(count, len(ascending)))]
    pairs = zip(moves, ascending, strict=False)
    rho = sum((Fraction(math.ceil(move)) ** 2 / (2 * sigma**2) for move, sigma in pairs), Fraction(0))
    return Curve.concentrated(rho, change.neighbours)


def _independent_miss(confidence: Number, k: int) -> float:
    """Return the probability that one of k independent noises may lie outside, so that all lie inside with
    ``confidence``.
    """
    outside = float(1 - exact(confidence, "confidence", CONFIDENCE))
    return -math.expm1(math.log1p(-outside) / exact_integer(k, "k", at_least=1)) * (1 - 1e-14)


def _union_bound_miss(confidence: Number, k: int) -> float:
    """Return the probability that each of k dependent events may fail (a union bound)."""
    return float(1 - exact(confidence, "confidence", CONFIDENCE)) / exact_integer(k, "k", at_least=1) * (1 - 1e-14)


def _gaussian_half_width(sigma: float, beta: float) -> int:
    """Return the least w with P(|Y| > w) ≤ β.

    Small σ by summing the law. Large σ: for w + ½ > σ the density is convex, so each term is below its integral
    over a unit around it, and P(|Y| > w) ≤ erfc((w + ½)/σ√2).
    """
    if sigma < 2000:
        x = np.arange(0, math.ceil(40 * sigma) + 3)
        weight = np.exp(-((x / sigma) ** 2) / 2)
        tail = 2 * np.cumsum(weight[::-1])[::-1]  # Σ over |y| ≥ x, for x ≥ 1
        total = tail[0] - weight[0]
        return int(np.searchsorted(-tail[1:] / total * (1 + 1e-12), -beta, side="left"))

    def fits(width: int) -> bool:
        beyond = (width + (0.5 if width > sigma else 0.0)) / (sigma * math.sqrt(2))
        return math.erfc(beyond) * (1 + 1e-12) <= beta

    return least_integer_where(fits, 0)


FAMILIES: tuple[type[Additive], ...] = (Laplace, Gaussian)
"""The kinds of noise that a release chooses between."""
