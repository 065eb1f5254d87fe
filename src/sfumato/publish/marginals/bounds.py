"""Bounds, from marginals, on totals over columns that were not published together.

Every bound is a query of one of them, or of three.

Theorem. Let q⁻ ≤ q ≤ q⁺ be weights over the cells of the attributes of a question, and A some of these within what was
measured. Then ⟨min_{x∖A} q⁻, m_A⟩ ≤ Σ_x q(x)N(x) ≤ ⟨max_{x∖A} q⁺, m_A⟩; and for two such sets A, C with the weights
u = max_{x∖A} q⁻, v = max_{x∖C} q⁻ and w = max_{x∖(A∩C)} q⁻, if u + v − w ≤ q⁻ in every cell, the total is at least
⟨u, m_A⟩ + ⟨v, m_C⟩ − ⟨w, m_{A∩C}⟩.
Proof. N ≥ 0, and weights that do not depend on x∖A count m_A. The last is the first claim for the weights u + v − w. ∎
Conjunctions have the second property: N(abc) ≥ N(ab) + N(ac) − N(a) (Bonferroni; Fréchet).

*Groups.* Along an axis that keys are read from, the weights of one group are zero in all other cells. Where A lacks
that axis the least and the greatest are taken with 0. For two sets, let every key axis be in A or in C: in a cell of
another group either the keys of A ∩ C differ and all three vanish, or one of u, v does, and the other is at most w.

Weights that are all 0 bound the total by 0 from below: that is known without noise, and counts as no bound.

*Declared zeros.* Where N(x) = 0 the weight of x may be any number, so the least and the greatest are taken over the
other cells alone. That is the first claim for weights that are 0 there; such bounds hold if what is declared is true.

*Noise.* Every bound is a query within what was measured, with a half-width of its own; n bounds that each fail on one
side with probability β/n hold together with probability 1 − β, so the best may be taken. Where noise is symmetric, a
half-width for 2β/n fails with β/n on one side. A bound of three queries adds their half-widths, each for a third.

*Measured adaptively.* Where earlier noise decided what was measured, it decided which bounds there are too, and β over
their number is no share that was fixed beforehand: a chooser that stops when a bound fails would miss more often than
β. So every bound that there might have been has its share, whether it was measured or not. That all attributes were
measured together has ``_MEASURED`` of β. The rest is shared evenly by the lower and the upper bound of each of the
2^d − 1 smaller sets, and by the (3^d − 2·2^d + 1)/2 pairs of them that have all d attributes together: each attribute
is in the first, the second or both, less the choices where one is the whole. Each half-width holds for all rounds at
once (``half_widths``), and a union bound over all of them needs nothing else.

*What is printed.* Let every bound of a nonnegative total be laid around its estimate moved to 0 or above, so an upper
end is max(v, 0) + w; and where the best lower end is nearer than w below the best upper end, or above it, with w the
least half-width of an upper bound, each end is moved to w beyond the other. Proof that 1 − β is kept: both changes
only move ends outward, and a range that holds another one misses no more often. ∎ So no range is narrower than w: one
that noise has emptied shows what it may be by noise alone, and does not read as certainty.

*Cut bins.* Where the question tells the rows of one cell apart, q⁻ < q⁺ there; with all attributes in one marginal A
that is all, and x∖A is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.publish.marginals.blocks import AttributeSet
from sfumato.publish.marginals.chains import Floats
from sfumato.publish.marginals.group_totals import SynopsisEstimates, TotalError
from sfumato.quick_dataclass import dataclass

_ROUNDS, _MAX_STEPS = 30, 5 * 10**8
_SMALL = 1e-300
_MEASURED = 0.9
"""The share of β for a total within what was measured, if earlier noise decided whether it is."""
_MODELS_KEPT, _LARGEST_KEPT = 32, 10**6


@dataclass(frozen=True, eq=False)
class CellWeights:
    """The least and the greatest weight of every cell, over the axes of a question, and the middle of both."""

    low: Floats
    high: Floats

    @property
    def middle(self) -> Floats:
        return (self.low + self.high) / 2

    @property
    def ambiguous_cells(self) -> NDArray[np.bool_]:
        """Which cells have rows that count differently."""
        return self.low != self.high

    def masked(self, mask: NDArray[np.bool_]) -> CellWeights:
        """Return weights that are 0 outside the mask."""
        return CellWeights(np.where(mask, self.low, 0.0), np.where(mask, self.high, 0.0))

    def with_optional_cells(self, mask: NDArray[np.bool_]) -> CellWeights:
        """Return weights in which rows of the masked cells may count or not."""
        low, high = np.minimum(self.low, 0.0), np.maximum(self.high, 0.0)
        return CellWeights(np.where(mask, low, self.low), np.where(mask, high, self.high))


@dataclass(frozen=True, eq=False)
class BoundedTotals:
    """Totals of groups: a number for each, and bounds that hold the truth. All have the axes of the question, of length
    1 where no key is.
    """

    value: Floats
    lower_bounds_with_errors: tuple[tuple[Floats, tuple[TotalError, ...]], ...]
    """Lower bounds: estimates that the truth is at least, up to their noises."""
    upper_bounds_with_errors: tuple[tuple[Floats, tuple[TotalError, ...]], ...]
    """Upper bounds: estimates that the truth is at most, up to their noises."""
    measured: NDArray[np.bool_]
    """Which groups are queries within what was measured: their number is unbiased, and nothing is cut off."""
    nonnegative: bool
    """Whether no row counts less than nothing."""
    bound_count: int
    """The number of bounds that share the miss probability: fixed before any noise."""
    share: float = 1.0
    """The share of the miss probability that these bounds have together."""

    def ends(self, beta: float, cells: int) -> tuple[Floats, Floats]:
        """Return the least and the greatest that the truths of so many such totals may be, all at once."""
        lower_widths = [
            _summed_half_width(noises, beta * self.share, self.bound_count, cells)
            for _, noises in self.lower_bounds_with_errors
        ]
        upper_widths = [
            _summed_half_width(noises, beta * self.share, self.bound_count, cells)
            for _, noises in self.upper_bounds_with_errors
        ]
        lower_ends = [
            value - width for (value, _), width in zip(self.lower_bounds_with_errors, lower_widths, strict=True)
        ]
        upper_ends = [
            self._clip_at_zero(value) + width
            for (value, _), width in zip(self.upper_bounds_with_errors, upper_widths, strict=True)
        ]
        low, high = reduce(np.maximum, lower_ends), reduce(np.minimum, upper_ends)
        least_width = reduce(np.minimum, upper_widths)
        low, high = np.minimum(low, high - least_width), np.maximum(high, low + least_width)
        return self._clip_at_zero(low), high

    def _clip_at_zero(self, totals: Floats) -> Floats:
        """Clip totals to 0 or above where they are known to be, but for those that are shown as they were measured."""
        return np.where(self.measured, totals, np.maximum(totals, 0.0)) if self.nonnegative else totals

    def estimate(self, low: Floats, high: Floats) -> Floats:
        """Return the estimate: as it was measured, or a model's within the bounds."""
        return np.where(self.measured, self.value, np.clip(self.value, low, high))


def _summed_half_width(noises: tuple[TotalError, ...], beta: float, count: int, cells: int) -> Floats:
    """Add the half-widths of the noises of one of so many bounds, each of which may fail on its own side."""
    shares = count * len(noises)
    widths = (noise.width(beta if shares == 1 else noise.sides * beta / shares, cells) for noise in noises)
    return sum(widths, start=np.zeros(()))


def bound_totals(
    known: SynopsisEstimates, weights: CellWeights, axes: AttributeSet, keys: AttributeSet
) -> BoundedTotals:
    """Bound the totals of all groups: exactly within what was measured, and else as well as its marginals allow."""
    nonnegative = bool((weights.low >= 0).all())
    if known.covers(axes):
        return _measured_totals(known, weights, axes, keys, nonnegative)
    sets, possible = _maximal_measured_parts(axes, known.sets), known.possible_cells(axes)
    uppers = _ExtremeWeights(known, axes, keys, np.where(possible, weights.high, -np.inf), np.maximum)
    lowers = _ExtremeWeights(known, axes, keys, np.where(possible, weights.low, np.inf), np.minimum)
    lower_bounds = [lowers.bound_and_errors(places) for places in sets if not nonnegative or lowers.has_weight(places)]
    if nonnegative:
        are_alike = bool(possible.all()) and not weights.ambiguous_cells.any()
        greatest = uppers if are_alike else _ExtremeWeights(known, axes, keys, weights.low, np.maximum)
        lower_bounds += _bounds_from_two_marginals(greatest, sets)
    counts = _cached_model(known, axes, sets) if known.model_marginal is None else known.model_marginal(axes)
    value = _sum_to_keys(weights.middle * counts, axes, keys)
    measured = np.zeros((1,) * len(axes), bool)
    zero_bound = [(np.zeros((1,) * len(axes)), ())]
    lower, upper = tuple(lower_bounds or zero_bound), tuple(map(uppers.bound_and_errors, sets))
    if known.prior_precisions is None:
        return BoundedTotals(value, lower, upper, measured, nonnegative, len(lower) + len(upper))
    return BoundedTotals(value, lower, upper, measured, nonnegative, max_bound_count(len(axes)), 1 - _MEASURED)


def max_bound_count(attribute_count: int) -> int:
    """Count the bounds that there may be where not all attributes were measured together, whatever was measured."""
    subset_count, pair_count = 2**attribute_count - 1, 3**attribute_count - 2 * 2**attribute_count + 1
    return 2 * subset_count + pair_count // 2


def _measured_totals(
    known: SynopsisEstimates, weights: CellWeights, axes: AttributeSet, keys: AttributeSet, nonnegative: bool
) -> BoundedTotals:
    summed_axes = tuple(axis for axis, place in enumerate(axes) if place not in keys)
    low, noise = known.totals_and_errors(weights.low, axes, axes, keys)
    measured = np.asarray(~weights.ambiguous_cells.any(summed_axes, keepdims=True))
    share = (
        1.0 if known.prior_precisions is None or not axes else _MEASURED
    )  # the number of rows is measured in any case
    if bool(measured.all()):
        bound = ((low, (noise,)),)
        return BoundedTotals(low, bound, bound, measured, nonnegative, 1, share)
    high, upper_noise = known.totals_and_errors(weights.high, axes, axes, keys)
    value = (low + high) / 2
    return BoundedTotals(value, ((low, (noise,)),), ((high, (upper_noise,)),), measured, nonnegative, 2, share)


def _maximal_measured_parts(axes: AttributeSet, sets: tuple[AttributeSet, ...]) -> list[AttributeSet]:
    """Return what the measured marginals have of these attributes, without what is within another; and the total."""
    parts = {tuple(place for place in axes if place in set(part)) for part in sets}
    maximal_parts = [part for part in parts if not any(set(part) < set(other) for other in parts)]
    return sorted({*maximal_parts, ()})


class _ExtremeWeights:
    """The least, or the greatest, weights over what each marginal lacks, and their totals, cached."""

    def __init__(
        self, known: SynopsisEstimates, axes: AttributeSet, keys: AttributeSet, weights: Floats, pick: np.ufunc
    ) -> None:
        self.known, self.axes, self.keys, self.weights, self.pick = known, axes, keys, weights, pick
        self._reduced: dict[AttributeSet, Floats] = {}
        self._totals: dict[tuple[AttributeSet, bool], tuple[Floats, TotalError]] = {}

    def reduced(self, marginal_axes: AttributeSet) -> Floats:
        """Take the least or the greatest over what a marginal does not have, group by group."""
        if marginal_axes not in self._reduced:
            reduced_axes = tuple(
                axis for axis, place in enumerate(self.axes) if place not in {*marginal_axes, *self.keys}
            )
            extreme = self.pick.reduce(self.weights, axis=reduced_axes, keepdims=True)
            self._reduced[marginal_axes] = np.where(
                np.isinf(extreme), 0.0, extreme
            )  # where no row is in any of the cells
        return self._reduced[marginal_axes]

    def _with_zero(self, marginal_axes: AttributeSet) -> Floats:
        """Include 0 where the marginal lacks an axis that keys are read from."""
        extreme = self.reduced(marginal_axes)
        return np.asarray(self.pick(extreme, 0.0)) if self._lacks_keys(marginal_axes) else extreme

    def _lacks_keys(self, marginal_axes: AttributeSet) -> bool:
        return any(place not in marginal_axes and self.known.attributes[place].size > 1 for place in self.keys)

    def has_weight(self, marginal_axes: AttributeSet) -> bool:
        """Return whether some row counts: a bound of weights that are all 0 is 0."""
        return bool(self._with_zero(marginal_axes).any())

    def total_and_error(self, marginal_axes: AttributeSet, *, zero: bool = False) -> tuple[Floats, TotalError]:
        """Estimate the totals of these weights; with ``zero`` as a bound for every group."""
        zero = zero and self._lacks_keys(marginal_axes)
        if (marginal_axes, zero) not in self._totals:
            weights = self._with_zero(marginal_axes) if zero else self.reduced(marginal_axes)
            self._totals[marginal_axes, zero] = self.known.totals_and_errors(
                weights, self.axes, marginal_axes, self.keys
            )
        return self._totals[marginal_axes, zero]

    def bound_and_errors(self, marginal_axes: AttributeSet) -> tuple[Floats, tuple[TotalError, ...]]:
        value, noise = self.total_and_error(marginal_axes, zero=True)
        return value, (noise,)


def _bounds_from_two_marginals(
    greatest: _ExtremeWeights, sets: list[AttributeSet]
) -> list[tuple[Floats, tuple[TotalError, ...]]]:
    """Bound from below by two marginals that together have all attributes, where the weights allow it."""
    bounds: list[tuple[Floats, tuple[TotalError, ...]]] = []
    for first_set, second_set in combinations(sets, 2):
        if {*first_set, *second_set} != set(greatest.axes):
            continue
        shared_places = tuple(place for place in first_set if place in second_set)
        u, v, w = map(greatest.reduced, (first_set, second_set, shared_places))
        if not bool((u + v - w <= greatest.weights).all()):
            continue
        (first, a), (second, b), (third, c) = map(greatest.total_and_error, (first_set, second_set, shared_places))
        bounds.append((first + second - third, (a, b, c)))
    return bounds


def _sum_to_keys(values: Floats, axes: AttributeSet, keys: AttributeSet) -> Floats:
    """Sum over all but the key axes."""
    return np.asarray(values.sum(tuple(axis for axis, place in enumerate(axes) if place not in keys), keepdims=True))


def _cached_model(known: SynopsisEstimates, axes: AttributeSet, sets: Sequence[AttributeSet]) -> Floats:
    """Return the cached model of some attributes; large ones are computed again."""
    if axes in known.models:
        return known.models[axes]
    counts = fit_max_entropy(known, axes, sets)
    if len(known.models) < _MODELS_KEPT and counts.size <= _LARGEST_KEPT:
        known.models[axes] = counts
    return counts


def fit_max_entropy(
    known: SynopsisEstimates, axes: AttributeSet, sets: Sequence[AttributeSet], rounds: int = _ROUNDS
) -> Floats:
    """Fit the table of the largest entropy that has the marginals, by scaling it to each in turn (Deming & Stephan).

    It is a guess: nothing but the marginals says that it is near the truth.
    """
    sizes = tuple(known.attributes[place].size for place in axes)
    total = max(float(known.marginal(())), 0.0)
    table = np.full(sizes, total / max(1, int(np.prod(sizes))))
    targets = [(places, _clip_and_scale(known.marginal(places), total)) for places in sets if places]
    rounds = max(1, min(rounds, _MAX_STEPS // max(1, table.size * len(targets))))
    for _ in range(rounds if len(targets) > 1 else 1):
        for places, counts in targets:
            shape = tuple(size if place in places else 1 for place, size in zip(axes, sizes, strict=True))
            summed_axes = tuple(axis for axis, place in enumerate(axes) if place not in places)
            current = table.sum(summed_axes, keepdims=True)
            table *= np.divide(counts.reshape(shape), current, out=np.zeros(shape), where=current > _SMALL)
    return table


def _clip_and_scale(counts: Floats, total: float) -> Floats:
    """Clip a marginal at zero, and scale what is left to the total."""
    clipped = np.maximum(counts, 0.0)
    clipped_total = float(clipped.sum())
    return clipped * (total / clipped_total) if clipped_total > 0 else clipped
