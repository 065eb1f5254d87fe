"""Exact vectors of what is printed and charged of published objects: synopses, synthetic tables, scores, sessions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
from mpmath import mp, mpf
from scipy import optimize

from publish.tables import counts, people, planned, published
from publish.worlds import attributes
from sfumato.mechanisms import Exponential, Gaussian, Laplace, Quantiles
from sfumato.mechanisms.sparse import AboveThreshold
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.publish.marginals import (
    blocks as block_algebra,
    charge_verification,
    estimating,
    group_totals,
    measuring,
    planning,
)
from sfumato.publish.marginals.estimating import MeasuredMarginal, least_squares
from sfumato.publish.marginals.group_totals import (
    AdaptiveGaussianError,
    AdaptiveLaplaceError,
    AmountBounds,
    BoundedTotals,
    LaplaceShare,
    PlannedGaussianError,
    SynopsisEstimates,
)
from sfumato.publish.model_cards import _compare_marginal
from sfumato.publish.online import close_score_bound
from sfumato.publish.row_rules import _share_of_bin
from sfumato.publish.scoring import CandidateScore
from sfumato.publish.synthesis.budget import Concentrated, Pure
from vectors import routes
from vectors.registry import Registry, Scope, Vector, between, exact

UP = 1 + 1e-9
"""Computed half-widths are rounded up by a billionth."""
WORDS = {
    "width",
    "widths",
    "interval",
    "range",
    "ranges",
    "eta",
    "precisions",
    "share",
    "shares",
    "charge",
    "cost",
    "error",
}
PARAMETERS = {"beta", "confidence", "miss", "sure"}
REGISTRY = Registry(
    (Scope(("publish",), frozenset(WORDS), frozenset(PARAMETERS)),),
    {
        "publish.synthesis.budget.SynthesisBudget.charge": "it subtracts an amount from what is left",
        "publish.synthesis.budget.SynthesisBudget.used_share": "it divides what is spent by the total",
        "publish.online.worst_error_in_row_effects": "a score: what gates do with it is tested by exact laws",
        "publish.marginals.group_totals.SynopsisEstimates._error_distribution": "it chooses one that has vectors",
        "publish.links.TableLink.band_widths": "it counts the whole numbers of a band, and is no half-width",
        "publish.model_cards.ModelCard._error_table": "it shows numbers that have vectors, in words",
        "publish.marginals.planning.with_range_levels.error": "it only ranks ways to join cells, and is never shown",
        "publish.marginals.measuring.expected_width": "it only ranks which synopsis is asked, whose own range is shown",
        "publish.marginals.attributes._shares_of_decided_cells": "it spreads the rows of a model: no share of a chance",
        "publish.marginals.estimating._squared_shares": "it bounds the length of a step of an optimiser",
    },
)
formula = REGISTRY.formula


# ── half-widths ────────────────────────────────────────────────────────────────────────────────


@formula("publish.marginals.estimating.gaussian_half_width")
def _half_width() -> Iterator[Vector]:
    for variance, beta, cells in ((1, 0.05, 1), (7.25, 0.01, 3), (0.04, 1e-6, 1000), (1e6, 0.5, 1)):
        yield exact(routes.planned_width(variance, beta / cells), estimating.gaussian_half_width, variance, beta, cells)
    yield between(1.9637632, 1.96376325 * (1 + 1e-6), estimating.gaussian_half_width, 1, 0.05)  # of the contract


@formula("publish.marginals.estimating.unit_variance_half_width")
def _width_of_one() -> Iterator[Vector]:
    for beta, cells in ((0.05, 1), (0.1, 7), (1e-9, 1)):
        yield exact(routes.planned_width(1, beta / cells), estimating.unit_variance_half_width, beta, cells)


@formula("publish.marginals.estimating.coarse_gaussian_half_width")
def _coarse_half_width() -> Iterator[Vector]:
    for variance, beta, cells in ((1, 0.05, 1), (9, 0.001, 4), (0.5, 0.2, 1)):
        width = routes.sub_gaussian(beta / cells, variance)
        yield exact(width * UP, estimating.coarse_gaussian_half_width, variance, beta, cells)


def _chernoff(noises: list[tuple[list[float], float]], variance: float, miss: float) -> float:
    """The least Chernoff bound of a sum of discrete Laplace noises, from E exp(tZ) added up over all whole numbers."""
    top = min(1 / (scale * max(map(abs, own))) for own, scale in noises)

    def bound(slope: mpf) -> mpf:
        logs = slope**2 * mpf(variance) / 2
        for own, scale in noises:
            q = mp.exp(-1 / mpf(scale))
            for each in own:
                t = slope * mpf(abs(each))
                up, down = q * mp.exp(t), q * mp.exp(-t)
                logs += mp.log((1 - q) / (1 + q) * (1 + up / (1 - up) + down / (1 - down)))
        return (logs + mp.log(2 / mpf(miss))) / slope

    return routes.least(bound, top * 1e-6, top * (1 - 1e-6))


@formula("publish.marginals.estimating.laplace_half_width")
def _laplace_half_width() -> Iterator[Vector]:
    cases: list[tuple[list[tuple[list[float], float]], float, int, float]] = [
        ([([1.0], 10.0)], 0.05, 1, 0.0),
        ([([1.0, -0.5, 0.5], 3.0)], 0.01, 4, 0.0),
        ([([1.0, 1.0], 2.0), ([0.25], 40.0)], 0.05, 1, 9.0),
    ]
    for noises, beta, cells, variance in cases:
        own = [(np.array(values), scale) for values, scale in noises]
        lower = _chernoff(noises, variance, beta / cells)  # slopes are tried at 400 places: at most 0.3 % are lost
        yield between(lower, lower * 1.003, estimating.laplace_half_width, own, beta, cells, variance=variance)


@formula("publish.marginals.estimating.adaptive_half_width")
def _adaptive_half_width() -> Iterator[Vector]:
    yield between(1.00707085, 1.00707095, estimating.adaptive_half_width, [(1, 10)], 0.05, 4)  # of the contract
    for blocks, beta, eta, cells in (([(2.0, 3.0)], 0.1, 1.0, 1), ([(1.0, 5.0), (0.5, 2.0), (0.0, 9.0)], 0.05, 2.0, 3)):
        asked = [(norm, known) for norm, known in blocks if norm]
        each = beta / cells / len(asked)
        wanted = sum(norm * routes.mixture_width(known, eta, each) for norm, known in asked)
        yield exact(wanted, estimating.adaptive_half_width, blocks, beta, eta, cells)


@formula("publish.marginals.estimating._mixture_half_width")
def _mixture() -> Iterator[Vector]:
    for precision, eta, beta in ((10.0, 4.0, 0.05), (0.3, 2.0, 0.001), (100.0, 1.0, 0.2)):
        yield exact(routes.mixture_width(precision, eta, beta), estimating._mixture_half_width, precision, eta, beta)


@formula("publish.marginals.estimating._beta_per_cell")
def _each() -> Iterator[Vector]:
    for beta, cells in ((0.05, 1), (0.05, 20), (0.3, 7)):
        yield exact(float(Fraction(str(beta)) / cells), estimating._beta_per_cell, beta, cells)


def _part_width(cells: float, beta: float) -> float:
    log = mp.log(2 / mpf(beta))
    return routes.least(lambda s: mpf("1.2") * min(s, mpf("0.5")) * cells + log / min(s, mpf("0.5")), 1e-9, 0.5)


@formula("publish.marginals.estimating.adaptive_laplace_width")
def _laplace_part_width() -> Iterator[Vector]:
    for cells, beta in ((1, 0.05), (40, 0.01), (3.5, 1e-6)):
        yield exact(_part_width(cells, beta) * UP, estimating.adaptive_laplace_width, cells, beta)


@lru_cache
def _unsigned_sum(laplace: bool, cells: int, miss: float) -> tuple[float, float, float]:
    """The mean of Σ|Z|, its exact quantile by convolution and its least Chernoff bound: of Laplace noise of scale 2, or
    of Gaussian noise of deviation 1.
    """
    weights = [math.exp(-k / 2) for k in range(90)] if laplace else [math.exp(-k * k / 2) for k in range(12)]
    law = np.array(weights) * [1.0, *[2.0] * (len(weights) - 1)]
    law /= math.fsum(law)
    added = reduce(np.convolve, [law] * cells)
    quantile = next(k for k in range(len(added)) if math.fsum(added[k + 1 :]) <= miss)
    steps = np.arange(len(law))
    least = optimize.minimize_scalar(
        lambda s: (cells * math.log(math.fsum(law * np.exp(s * steps))) - math.log(miss)) / s,
        bounds=(1e-3, 0.499 if laplace else 6),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return cells * math.fsum(law * steps), float(quantile), float(least.fun)


@formula("publish.marginals.estimating.noise_l1_mean_and_bound")
def _noise_size() -> Iterator[Vector]:
    for laplace, cells, beta in ((False, 1, 0.05), (False, 3, 0.01), (True, 2, 0.05)):  # slopes lose 1 % at most
        mean, quantile, chernoff = _unsigned_sum(laplace, cells, beta)
        low = mean * (1 - 1e-12), max(quantile, chernoff * (1 - 1e-9))
        high = mean * (1 + 1e-12), chernoff * 1.01
        yield between(
            low, high, estimating.noise_l1_mean_and_bound, cells, 2.0 if laplace else 1.0, beta, laplace=laplace
        )


# ── totals of groups ───────────────────────────────────────────────────────────────────────────


@formula("publish.marginals.group_totals.PlannedGaussianError.width")
def _normal_half_width() -> Iterator[Vector]:
    variances = np.array([1.0, 6.25])
    for beta, cells in ((0.05, 1), (0.01, 6)):
        wanted = [routes.planned_width(each, beta / cells) for each in variances]
        yield exact(wanted, PlannedGaussianError(variances, has_fine_grid=True).width, beta, cells)
        wanted = [routes.sub_gaussian(beta / cells, each) * UP for each in variances]
        yield exact(wanted, PlannedGaussianError(variances, has_fine_grid=False).width, beta, cells)


@formula("publish.marginals.group_totals.AdaptiveGaussianError.width")
def _adaptive_width() -> Iterator[Vector]:
    """Three blocks of two groups: each has a third of β, in each of the cells that hold together."""
    norms = ((np.array([1.0, 0.5]), 10.0, 4.0), (np.array([0.25, 0.0]), 3.0, 1.0), (np.array([2.0, 1.0]), 5.0, 4.0))
    for blocks, cells in ((norms[:1], 1), (norms[:2], 1), (norms, 1), (norms, 7)):
        share = 0.05 / cells / len(blocks)
        wanted = [
            sum(float(norm[group]) * routes.mixture_width(known, eta, share) for norm, known, eta in blocks)
            for group in (0, 1)
        ]
        yield exact(wanted, AdaptiveGaussianError(blocks).width, 0.05, cells)


@formula("publish.marginals.group_totals.LaplaceShare.width")
def _laplace_share_width() -> Iterator[Vector]:
    for turn, share, scale, cells in ((1, 1.0, 3.0, 1.0), (2, 0.5, 10.0, 4.0), (7, 0.125, 2.0, 12.0)):
        own = float(mpf("0.05") / turn - mpf("0.05") / (turn + 1))  # 1/t − 1/(t + 1): all turns together have β
        yield exact(share * scale * _part_width(cells, own) * UP, LaplaceShare(turn, share, scale, cells).width, 0.05)


@formula("publish.marginals.group_totals.AdaptiveLaplaceError.width")
def _adaptive_laplace_width() -> Iterator[Vector]:
    first, second = LaplaceShare(1, 0.75, 2.0, 3.0), LaplaceShare(3, 0.25, 5.0, 1.0)
    blocks = ((np.array([1.0]), (first, second)), (np.array([0.5]), (second,)))
    for own, cells in ((blocks[:1], 1), (blocks, 1), (blocks, 4)):
        share = 0.1 / len(own) / cells
        wanted = sum(
            float(norm[0]) * each.share * each.scale * _part_width(each.cells, share / (each.turn * (each.turn + 1)))
            for norm, parts in own
            for each in parts
        )
        yield exact([wanted * UP], AdaptiveLaplaceError(own).width, 0.1, cells)


def _measured(sizes: tuple[int, ...], places: tuple[int, ...], size: int, *, laplace: bool = False) -> MeasuredMarginal:
    shape = tuple(sizes[place] for place in places)
    return MeasuredMarginal(places, np.zeros(shape, np.int64), Fraction(size), laplace)


def _stacked(sizes: tuple[int, ...], measured: list[MeasuredMarginal]) -> tuple[np.ndarray, np.ndarray]:
    """The matrix of all that was measured, over the whole table, and the variance of each row of it."""
    cells = list(itertools.product(*map(range, sizes)))
    rows, variances = [], []
    for each in measured:
        for cell in itertools.product(*(range(sizes[place]) for place in each.attribute_set)):
            rows.append(
                [float(all(one[p] == c for p, c in zip(each.attribute_set, cell, strict=True))) for one in cells]
            )
            variances.append(each.variance)
    return np.array(rows), np.array(variances)


def _coefficients(sizes: tuple[int, ...], measured: list[MeasuredMarginal], query: np.ndarray) -> np.ndarray:
    """How much the best linear estimate of a query over the whole table takes of each number: weighted least squares
    by the pseudo-inverse of the stacked matrix, with no blocks.
    """
    matrix, variances = _stacked(sizes, measured)
    weighted = matrix / np.sqrt(variances)[:, None]
    return np.linalg.pinv(weighted).T @ query.ravel() / np.sqrt(variances)


SIZES = (2, 3, 4)
MEASURED = [_measured(SIZES, (0, 1), 5000), _measured(SIZES, (1, 2), 8000)]


def _query(places: tuple[int, ...], cell: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(tuple(SIZES[place] for place in places))
    found[cell] = 1
    return found


def _spread_out(query: np.ndarray, places: tuple[int, ...]) -> np.ndarray:
    shape = tuple(size if place in places else 1 for place, size in enumerate(SIZES))
    return np.broadcast_to(query.reshape(shape), SIZES)


@formula("publish.marginals.estimating.BlockEstimates.half_width")
def _estimates_half_width() -> Iterator[Vector]:
    found = least_squares(attributes(SIZES), (), MEASURED)
    for places, cell in (((0, 1), (1, 2)), ((1, 2), (0, 3)), ((1,), (1,))):
        query = _query(places, cell)
        weights = _coefficients(SIZES, MEASURED, _spread_out(query, places))
        variance = float((weights**2 * _stacked(SIZES, MEASURED)[1]).sum())
        width = routes.planned_width(variance, 0.05 / 3)
        yield between(width * (1 - 1e-10), width * (1 + 1e-10), found.half_width, query, places, 0.05, 3)
    coarse = [_measured(SIZES, (0, 1), 50), _measured(SIZES, (1, 2), 4, laplace=True)]
    query = _query((1,), (1,))
    weights = _coefficients(SIZES, coarse, _spread_out(query, (1,)))
    gaussian, laplace = weights[:6], weights[6:]
    width = _chernoff([(laplace.tolist(), 4.0)], float((gaussian**2).sum() * 2500), 0.05)
    mixed = least_squares(attributes(SIZES), (), coarse)
    yield between(width * (1 - 1e-9), width * 1.003, mixed.half_width, query, (1,), 0.05)


def _block_parts(query: np.ndarray) -> dict[tuple[int, ...], float]:
    """‖q_B‖ of every subset of the axes, by inclusion and exclusion of means: no chains, no lifting."""
    axes = range(query.ndim)
    found = {}
    for kept in (each for k in range(query.ndim + 1) for each in itertools.combinations(axes, k)):
        part = np.zeros_like(query)
        for size in range(len(kept) + 1):
            for inner in itertools.combinations(kept, size):
                gone = tuple(axis for axis in axes if axis not in inner)
                part = part + (-1) ** (len(kept) - size) * query.mean(gone, keepdims=True)
        lengths = math.prod(query.shape[axis] for axis in axes if axis not in kept)
        found[kept] = float(np.sqrt((part**2).sum() / lengths))
    return found


def _precisions(places: tuple[int, ...], measured: list[MeasuredMarginal], sizes: tuple[int, ...]) -> float:
    """V_B of a block: what every marginal that has it tells of it."""
    return sum(
        1 / (each.variance * math.prod(sizes[p] for p in each.attribute_set if p not in places))
        for each in measured
        if set(places) <= set(each.attribute_set)
    )


@formula("publish.marginals.estimating.BlockEstimates.adaptive_half_width")
def _estimates_adaptive() -> Iterator[Vector]:
    found = least_squares(attributes(SIZES), (), MEASURED)
    for places, cell, cells in (((0, 1), (1, 2), 1), ((1, 2), (0, 3), 5), ((1,), (1,), 1)):
        query = _query(places, cell)
        parts = {tuple(places[axis] for axis in kept): norm for kept, norm in _block_parts(query).items() if norm > 0}
        share = 0.05 / cells / len(parts)
        eta = 1e-7
        wanted = sum(
            norm * routes.mixture_width(_precisions(block, MEASURED, SIZES), eta, share)
            for block, norm in parts.items()
        )
        yield between(
            wanted * (1 - 1e-9), wanted * (1 + 1e-9), found.adaptive_half_width, query, places, 0.05, eta, cells
        )


@formula("publish.marginals.estimating.MeasuredMarginal.deviation_in_steps")
def _deviation() -> Iterator[Vector]:
    for size in (Fraction(1, 2), Fraction(3), Fraction(40)):
        weights = [math.exp(-k / size) for k in range(int(60 * size) + 60)]
        variance = math.fsum(2 * k**2 * each for k, each in enumerate(weights)) / (2 * math.fsum(weights) - 1)
        one = MeasuredMarginal((), np.zeros((), np.int64), size, laplace=True)
        yield exact(math.sqrt(variance), lambda each: MeasuredMarginal.deviation_in_steps.fget(each), one)  # type: ignore[attr-defined]
    yield exact(7.5, lambda: MeasuredMarginal((), np.zeros((), np.int64), Fraction(15, 2)).deviation_in_steps)


@formula("publish.marginals.group_totals.SynopsisEstimates._laplace_shares")
def _known_shares() -> Iterator[Vector]:
    """What the estimate of a block takes of a measurement is the coefficient of least squares, on one cell of it."""
    measured = [_measured(SIZES, (), 2, laplace=True), _measured(SIZES, (0, 1), 3, laplace=True)]
    measured.append(_measured(SIZES, (1, 2), 7, laplace=True))
    known = SynopsisEstimates(least_squares(attributes(SIZES), (), measured), ((0, 1), (1, 2)), {})
    for block, places in (((), ()), (((1, 1),), (1,)), (((0, 1), (1, 1)), (0, 1))):
        holding = [(turn, each) for turn, each in enumerate(measured, 1) if set(places) <= set(each.attribute_set)]
        total = _precisions(places, measured, SIZES)
        wanted = []
        for turn, each in holding:
            cells = math.prod(SIZES[p] for p in each.attribute_set if p not in places)
            wanted += [turn, 1 / (each.variance * cells) / total, float(each.size), cells]
        found = lambda own: [[s.turn, s.share, s.scale, s.cells] for s in known._laplace_shares(own)]  # noqa: E731
        yield exact(wanted, found, block)


# ── bounds outside what was measured ───────────────────────────────────────────────────────────


@formula("publish.marginals.group_totals._summed_half_width")
def _bound_width() -> Iterator[Vector]:
    """One of n bounds has β/n on its own side; a bound of three noises has a third of that for each of them."""
    plain, fine = (
        PlannedGaussianError(np.array(4.0), has_fine_grid=True),
        AdaptiveGaussianError(((np.array(1.0), 10.0, 4.0),)),
    )
    yield exact(routes.planned_width(4, 0.05), group_totals._summed_half_width, (plain,), 0.05, 1, 1)
    for count in (2, 5):
        yield exact(
            routes.planned_width(4, 0.05 / count * 2), group_totals._summed_half_width, (plain,), 0.05, count, 1
        )
        yield exact(routes.mixture_width(10, 4, 0.05 / count), group_totals._summed_half_width, (fine,), 0.05, count, 1)
        three = 3 * routes.planned_width(4, 0.05 / count * 2 / 3)
        yield exact(three, group_totals._summed_half_width, (plain, plain, plain), 0.05, count, 1)
    yield exact(routes.mixture_width(10, 4, 0.05), group_totals._summed_half_width, (fine,), 0.05, 1, 1)


def _bounded(
    lowers: list[float], uppers: list[float], *, sharing: int, share: float = 1.0, nonnegative: bool = True
) -> BoundedTotals:
    """Bounds whose noise has the variance 1, on the finest grid."""
    noise = (PlannedGaussianError(np.array(1.0), has_fine_grid=True),)
    own = (tuple((np.array(each), noise) for each in side) for side in (lowers, uppers))
    return BoundedTotals(np.array(0.0), *own, np.array(False), nonnegative, sharing, share)


@formula("publish.marginals.group_totals.BoundedTotals.ends")
def _bounded_range() -> Iterator[Vector]:
    for sharing, share in ((3, 1.0), (7, 0.1), (20, 0.1)):
        wide = routes.planned_width(1, 0.05 * share / sharing * 2)
        found = _bounded([40.0, 10.0], [90.0, 70.0], sharing=sharing, share=share)
        yield exact((40 - wide, 70 + wide), found.ends, 0.05, 1)
        # cut at nothing below, and never nearer above than the noise
        yield exact((0.0, wide), _bounded([-9.0], [-30.0, 5.0], sharing=sharing, share=share).ends, 0.05, 1)
        yield exact((0.0, 0.5 + wide), _bounded([0.25], [0.5], sharing=sharing, share=share).ends, 0.05, 1)
        # bounds that cross by noise: each end is as far beyond the other as the noise
        crossed = _bounded([70.0], [40.0], sharing=sharing, share=share)
        yield exact((40 + wide - wide, 70 - wide + wide), crossed.ends, 0.05, 1)
        signed = _bounded([-9.0], [-30.0, 5.0], sharing=sharing, share=share, nonnegative=False)
        yield exact((-30.0, -9.0), signed.ends, 0.05, 1)
    wide = routes.planned_width(1, 0.05 / 4 * 2 / 6)
    yield exact((40 - wide, 70 + wide), _bounded([40.0], [70.0], sharing=4).ends, 0.05, 6)


@formula("publish.marginals.group_totals.max_bound_count")
def _possible_bounds() -> Iterator[Vector]:
    """Listed one by one: each smaller set bounds from both sides, each pair that has everything from below."""
    for attributes_ in range(6):
        every = frozenset(range(attributes_))
        smaller = [frozenset(each) for k in range(attributes_) for each in itertools.combinations(every, k)]
        pairs = [one for one in itertools.combinations(smaller, 2) if one[0] | one[1] == every]
        yield exact(2 * len(smaller) + len(pairs), group_totals.max_bound_count, attributes_)


def _shares_of(found: BoundedTotals) -> list[Any]:
    return [
        found.bound_count,
        found.share,
        [len(noises) for _, noises in (*found.lower_bounds_with_errors, *found.upper_bounds_with_errors)],
    ]


@formula("publish.marginals.group_totals.bound_totals")
def _bounded_totals() -> Iterator[Vector]:
    """A conjunction of three attributes of which pairs were measured: three bounds above by pairs and one by all rows,
    and three below, of three noises each.
    """
    pairs = [_measured((2, 2, 2), each, 5000) for each in ((0, 1), (0, 2), (1, 2))]
    for measured, sets in ((pairs, 3), (pairs[:2], 2)):
        estimates = least_squares(attributes((2, 2, 2)), (), measured)
        query = np.zeros((2, 2, 2))
        query[0, 0, 0] = 1
        conjunctions = [3] * (sets * (sets - 1) // 2)
        uppers = [1] * (sets + 1)
        sharing = len(conjunctions) + len(uppers)
        places = tuple(each.attribute_set for each in measured)
        ask = lambda known: _shares_of(group_totals.bound_totals(known, AmountBounds(query, query), (0, 1, 2), ()))  # noqa: B023, E731
        yield exact([sharing, 1.0, conjunctions + uppers], ask, SynopsisEstimates(estimates, places))
        # measured adaptively, every bound that there might have been has its share: two for each of 7 sets, and 6 pairs
        adaptive = SynopsisEstimates(estimates, places, dict.fromkeys(estimates.parts, 1.0))
        yield exact([20, 1 - 0.9, conjunctions + uppers], ask, adaptive)
    inside = lambda known: _shares_of(group_totals.bound_totals(known, AmountBounds(query[0], query[0]), (0, 1), ()))  # noqa: E731
    estimates = least_squares(attributes((2, 2, 2)), (), pairs)
    places = tuple(each.attribute_set for each in pairs)
    yield exact([1, 1.0, 1, 1], inside, SynopsisEstimates(estimates, places))
    yield exact([1, 0.9, 1, 1], inside, SynopsisEstimates(estimates, places, dict.fromkeys(estimates.parts, 1.0)))
    bounds = AmountBounds(query[0] * 0, query[0])
    cut = lambda known: _shares_of(group_totals.bound_totals(known, bounds, (0, 1), ()))  # noqa: E731
    yield exact([2, 1.0, 1, 1], cut, SynopsisEstimates(estimates, places))


@formula("publish.marginals.group_totals._lower_bounds_from_two_marginals")
def _conjunctions() -> Iterator[Vector]:
    """N(abc) ≥ N(ab) + N(ac) − N(a), whose three noises are all of the range: in every cell, by the brute force of
    least squares over the whole table."""
    sizes = (2, 2, 3)
    rng = np.random.default_rng(5)
    for seed in range(3):
        table = rng.integers(0, 30, sizes)
        measured = [
            MeasuredMarginal((0, 1), table.sum(2), Fraction(5000)),
            MeasuredMarginal((0, 2), table.sum(1), Fraction(9000)),
        ]
        cell = (seed % 2, 1, seed)
        query = np.zeros(sizes)
        query[cell] = 1
        known = SynopsisEstimates(least_squares(attributes(sizes), (), measured), ((0, 1), (0, 2)))
        below, widths = [], []
        for places in ((0, 1), (0, 2), (0,)):
            one = np.ones(sizes)
            for axis in places:
                one = one * np.expand_dims(np.arange(sizes[axis]) == cell[axis], [a for a in range(3) if a != axis])
            matrix, variances = _stacked(sizes, measured)
            weighted = matrix / np.sqrt(variances)[:, None]
            weights = np.linalg.pinv(weighted).T @ one.ravel() / np.sqrt(variances)
            below.append(float((one * table).sum()))
            # 3 upper bounds and 1 lower one, on one side each, and three noises: 2β/4/3
            widths.append(routes.planned_width(float((weights**2 * variances).sum()), 0.05 * 2 / 4 / 3))
        wanted = below[0] + below[1] - below[2] - sum(widths)

        def lower_end(known: SynopsisEstimates, query: np.ndarray) -> float:
            found = group_totals.bound_totals(known, AmountBounds(query, query), (0, 1, 2), ())
            ((value, noises),) = found.lower_bounds_with_errors
            return float((value - group_totals._summed_half_width(noises, 0.05, found.bound_count, 1)).item())

        near = 1e-9 * abs(wanted)
        yield between(wanted - near, wanted + near, lower_end, known, query)


# ── plans and charges ──────────────────────────────────────────────────────────────────────────


@formula("publish.marginals.measuring.cell_half_width")
def _plan_width() -> Iterator[Vector]:
    """The vectors of the contract: n = (2, 3, 4), all pairs, 2ρ = m = 1."""
    plan = planning.plan_gaussian(planning.MarginalWorkload(((0, 1), (0, 2), (1, 2))), attributes(SIZES))
    for places, variance in (((0, 1), 2.4529694634), ((1, 2), 1.6336939508)):
        wide = routes.planned_width(variance, 0.05)
        yield between(
            wide * (1 - 1e-9), wide * (1 + 1e-7), measuring.cell_half_width, plan.at_price(Fraction(1, 2)), places, 0.95
        )
    pure = planning.plan_laplace(planning.MarginalWorkload(((0, 1), (1, 2))), attributes(SIZES), epsilon=1)
    for each in pure.marginals:
        wide = routes.laplace_half_width(each.scale, 1 - mpf("0.95"))
        yield exact(float(wide), measuring.cell_half_width, pure, each.attribute_set, 0.95)


@formula("publish.marginals.planning._block_cost")
def _plan_cost() -> Iterator[Vector]:
    """p_B = Π(1 − 1/n), by enumeration of what a row adds to a block; four times that for a replaced one."""
    own = attributes(SIZES)
    for block in (((0, 1),), ((0, 1), (2, 1)), ((0, 1), (1, 1), (2, 1))):
        kept = [p for p, _ in block]
        row = np.zeros([SIZES[p] for p in kept])
        row[(0,) * len(kept)] = 1
        centred = _block_parts(row)[tuple(range(len(kept)))]
        yield exact(centred**2, planning._block_cost, block, own, Neighbours.ADD_REMOVE, False)
    yield exact(1.0, planning._block_cost, (), own, Neighbours.ADD_REMOVE, False)
    yield exact(0.0, planning._block_cost, (), own, Neighbours.REPLACE, True)


@formula("publish.marginals.planning.range_factors")
def _range_factors() -> Iterator[Vector]:
    """Every range by itself, and what it asks of the mean and of the rest."""
    for cells in (2, 3, 5):
        (own,) = attributes((cells + 1,))
        whole = rest = 0.0
        for low in range(cells):
            for high in range(low, cells):
                query = np.zeros(cells + 1)
                query[low : high + 1] = 1
                parts = _block_parts(query)
                whole, rest = whole + parts[()] ** 2, rest + parts[0,] ** 2
        yield exact([whole, rest], planning.range_factors, own.hierarchy, cells)


@formula("publish.marginals.measuring.price_share_by_set")
def _plan_shares() -> Iterator[Vector]:
    for sizes, sets in (((2, 3, 4), ((0, 1), (1, 2))), ((2, 2), ((0, 1),)), ((5, 3), ((0,), (1,)))):
        plan = planning.plan_gaussian(planning.MarginalWorkload(sets), attributes(sizes)).at_price(Fraction(1, 2))
        costs = {}
        for each in plan.blocks:
            places = block_algebra.block_attribute_indices(each.block)
            change = math.prod((1 - Fraction(1, sizes[p]) for p in places), start=Fraction(1))
            scale = each.grid * math.prod(sizes[p] for p in places)
            costs[places] = change * scale**2 / (2 * each.deviation**2)
        total = sum(costs.values())
        yield exact({places: float(each / total) for places, each in costs.items()}, measuring.price_share_by_set, plan)


def _run(*parts: tuple[Any, Sensitivity, int]) -> tuple[Any, ...]:
    from sfumato.ledger import Charged

    return tuple(Charged(mechanism, moved, times) for mechanism, moved, times in parts)


@formula("publish.marginals.charge_verification.exact_cost")
def _exact_cost() -> Iterator[Vector]:
    moved = Sensitivity(3, 2, total=4, squares=6)
    yield exact(Fraction(6, 2 * 49), charge_verification.exact_cost, _run((Gaussian(7), moved, 1)))
    yield exact(Fraction(4, 5) * 3, charge_verification.exact_cost, _run((Laplace(5), moved, 3)))
    both = _run((Gaussian(3), moved, 2), (Gaussian(Fraction(1, 2)), Sensitivity(1, 1), 1))
    yield exact(Fraction(2 * 6, 18) + 2, charge_verification.exact_cost, both)


@formula("publish.marginals.charge_verification.step_cost")
def _step_cost() -> Iterator[Vector]:
    from sfumato.ledger import Charged

    choice = Charged(Exponential(Fraction(1, 3), 1), None, 4)
    yield exact(Fraction(4, 3), charge_verification.step_cost, choice, pure=True)
    yield exact(Fraction(4, 72), charge_verification.step_cost, choice, pure=False)
    quartiles = Charged(Quantiles(["0.25", "0.5", "0.75"], Fraction(1, 3), (0, 9)), None, 1)
    yield exact(Fraction(1, 3), charge_verification.step_cost, quartiles, pure=True)
    yield exact(Fraction(2, 288), charge_verification.step_cost, quartiles, pure=False)
    yield exact(Fraction(1, 8), charge_verification.step_cost, Charged(Gaussian(2), Sensitivity(1, 1), 1), pure=False)
    yield exact(None, charge_verification.step_cost, Charged(Gaussian(2), Sensitivity(1, 1), 1), pure=True)


MOVED = Sensitivity(3, 2, total=4, squares=6)


@formula("publish.synthesis.budget.Concentrated.noise_cost")
def _concentrated_noise() -> Iterator[Vector]:
    for sigma in (Fraction(1), Fraction(7, 2), Fraction(1000, 3)):
        yield exact(Fraction(3) / sigma**2, Concentrated(Fraction(1)).noise_cost, Gaussian(sigma), MOVED)


@formula("publish.synthesis.budget.Concentrated.choice_cost")
def _concentrated_choice() -> Iterator[Vector]:
    for epsilon in (Fraction(1), Fraction(1, 10), Fraction(7, 3)):
        yield exact(epsilon * epsilon / 8, Concentrated(Fraction(1)).choice_cost, Exponential(epsilon, 1))


@formula("publish.synthesis.budget.Concentrated.quantiles_cost")
def _concentrated_quantiles() -> Iterator[Vector]:
    """Fifteen quantiles are four levels, of a quarter of ε each: 4·(ε/4)²/8."""
    for epsilon in (Fraction(1), Fraction(1, 10), Fraction(7, 3)):
        quantiles = Quantiles([Fraction(index, 16) for index in range(1, 16)], epsilon, (0, 99))
        yield exact(epsilon * epsilon / 32, Concentrated(Fraction(1)).quantiles_cost, quantiles)


@formula("publish.synthesis.budget.Pure.noise_cost")
def _pure_noise() -> Iterator[Vector]:
    for scale in (Fraction(1), Fraction(7, 2), Fraction(1000, 3)):
        yield exact(4 / scale, Pure(Fraction(1)).noise_cost, Laplace(scale), MOVED)


# ── sessions, scores, quality ──────────────────────────────────────────────────────────────────


@formula("publish.online.close_score_bound")
def _close_width() -> Iterator[Vector]:
    """T + a + b with C·P(ξ > a) + P(ν > b) ≤ β, each noise on one side: the least whole a and b with β/2 each."""
    for epsilon, rounds, beta in ((Fraction(1, 2), 3, 0.05), (Fraction(2), 1, 0.01), (Fraction(1, 5), 10, 0.1)):
        gate = AboveThreshold(epsilon, 37, 1, 2, False, None, Neighbours.ADD_REMOVE)
        first, second, _ = gate.scales
        a = next(w for w in itertools.count() if rounds * routes.laplace_tail(first, w) <= mpf(beta) / 2)
        b = next(w for w in itertools.count() if routes.laplace_tail(second, w) <= mpf(beta) / 2)
        yield exact(37 + a + b, close_score_bound, gate, rounds, beta)


def _score(**more: Any) -> CandidateScore:
    given = {"columns": ("a", "b"), "k": 2, "sets": 3, "worst": False, "candidate_rows": 8, "distance": 600}
    given |= {"noise": Laplace(20), "unit_value": Fraction(1), "grid": 2, "total": 100}
    return CandidateScore(**(given | more))


def _wide(score: CandidateScore, confidence: str) -> Fraction:
    """Of the distance in rows: the noise in steps of 1/(2·grid·sets) rows, and rounding of every predicted count."""
    off = routes.laplace_half_width(score.noise.scale, 1 - mpf(confidence))
    sets = 1 if score.worst else score.sets
    return Fraction(off) * score.unit_value / (2 * score.grid * sets) + Fraction(score.candidate_rows) / 4 / score.grid


SCORES = (_score(), _score(worst=True, distance=200), _score(unit_value=Fraction(1, 4), total=400, distance=900))


@formula("publish.scoring.CandidateScore._distance_half_width")
def _score_width() -> Iterator[Vector]:
    for each, sure in ((SCORES[0], "0.95"), (SCORES[1], "0.99"), (SCORES[0], "0.5")):
        yield exact(float(_wide(each, sure)), each._distance_half_width, Fraction(sure))


@formula("publish.scoring.CandidateScore.interval")
def _score_interval() -> Iterator[Vector]:
    for each, sure in ((SCORES[0], "0.95"), (SCORES[1], "0.99"), (_score(distance=300, total=90), "0.9")):
        step = each.unit_value / (2 * each.grid * (1 if each.worst else each.sets))
        ends = [(each.distance * step + sign * _wide(each, sure)) / (each.total * each.unit_value) for sign in (1, -1)]
        wanted = [float(1000 * (1 - min(Fraction(1), max(Fraction(0), end)))) for end in ends]
        yield exact(wanted, each.interval, sure)


def _nist_ends(score: CandidateScore, wide: Fraction, rows: list[Fraction]) -> list[float]:
    """The least and the greatest (D ± w ± |n̂ − n|/2)/n at every whole number of steps that n may be."""
    middle = score.distance * score.unit_value / (2 * score.grid * (1 if score.worst else score.sets))
    at = score.total * score.unit_value
    low = min((middle - wide - abs(n - at) / 2) / n for n in rows)
    high = max((middle + wide + abs(n - at) / 2) / n for n in rows)
    return [float(1000 * (1 - min(Fraction(1), max(Fraction(0), end)))) for end in (high, low)]


@formula("publish.scoring.CandidateScore.nist_interval")
def _nist_interval() -> Iterator[Vector]:
    """Both ranges have half of the chance to miss; n is every number within its range, one after the other."""
    for scale, sure in ((4, "0.95"), (6, "0.9"), (2, "0.99")):
        each = _score(rows_noise=Laplace(scale), distance=300)
        off = routes.laplace_half_width(scale, (1 - mpf(sure)) / 2)
        rows = [Fraction(n) for n in range(max(1, 100 - off), 100 + off + 1)]
        wide = Fraction(routes.laplace_half_width(20, (1 - mpf(sure)) / 2), 12) + 1
        yield exact(_nist_ends(each, wide, rows), each.nist_interval, sure)
    assumed = _score(assumed=True, distance=60, grid=4)
    wide = Fraction(routes.laplace_half_width(20, 1 - mpf("0.95")), 24) + Fraction(1, 2)
    off = 2 * (Fraction(60, 24) + wide)
    rows = [100 - off, Fraction(100), 100 + off]
    yield exact(_nist_ends(assumed, wide, rows), assumed.nist_interval, "0.95")


@formula("publish.scoring.CandidateScore._width_with_noisy_rows")
def _noisy_rows() -> Iterator[Vector]:
    """n lies within the half-width of its noise around n̂, and is at least one step."""
    for scale, sure, total in ((4, "0.95", 100), (6, "0.9", 100), (50, "0.99", 20)):
        score = _score(rows_noise=Laplace(scale), total=total)
        rows_error = routes.laplace_half_width(scale, 1 - mpf(sure))
        wanted = [float(_wide(score, sure)), float(max(1, total - rows_error)), float(total + rows_error)]
        yield exact(wanted, score._width_with_noisy_rows, Fraction(sure))


@formula("publish.scoring.CandidateScore._width_with_assumed_rows")
def _assumed() -> Iterator[Vector]:
    for each, sure in ((SCORES[0], "0.95"), (SCORES[1], "0.9"), (_score(distance=-500), "0.95")):
        step = Fraction(1, 4 * (1 if each.worst else 3))
        wide = _wide(each, sure)
        off = 2 * max(Fraction(0), each.distance * step + wide)
        wanted = [float(wide), float(max(Fraction(1), 100 - off)), float(100 + off)]
        yield exact(wanted, each._width_with_assumed_rows, Fraction(sure))


@formula("publish.row_rules._share_of_bin")
def _share_of_bin_vectors() -> Iterator[Vector]:
    """Of four steps one is a quarter; of a length of 8 without steps, two values are weighed as 2/8; a point is all."""
    sampler = SimpleNamespace(step_counts=np.array([4, 0, 0]), ends=np.array([[0, 4], [2, 10], [3, 3]]))
    for cell, allowed, share in ((0, 1, 0.25), (0, 3, 0.75), (1, 2, 0.25), (2, 1, 1.0)):
        yield exact(share, _share_of_bin, sampler, cell, allowed)


@formula("publish.model_cards._compare_marginal")
def _quality() -> Iterator[Vector]:
    """½‖y − M‖₁/n̂, and around it ½ of what Σ|Z| exceeds with β: here of one cell, added up term by term."""
    for value, modelled in ((40, 38.0), (10, 30.0), (25, 25.0)):
        measured = MeasuredMarginal((0,), np.array([value]), Fraction(2), laplace=True)
        mean, quantile, chernoff = _unsigned_sum(True, 1, 0.05)
        apart, most = abs(value - modelled), chernoff
        ends = max(0.0, (apart - most) / 200), (apart + most) / 200
        middle = min(max((apart - mean) / 200, ends[0]), ends[1])
        near = 0.01 * chernoff / 200 + 1e-12

        def compared(measured: MeasuredMarginal, modelled: float) -> list[float]:
            found = _compare_marginal(measured, np.array([modelled]), ("a",), 100.0, 0.05)
            return [found.distance, found.low, found.high]

        low = [middle - near, ends[0] - near, max(apart + quantile, ends[1] * 200 - 1e-9) / 200]
        yield between(low, [middle + near, ends[0] + 1e-12, ends[1] + near], compared, measured, modelled)


# ── precisions that are fixed beforehand ───────────────────────────────────────────────────────


def _synthetic(variances: list[float], method: str = "aim", complete: bool = True) -> Any:
    measured = [SimpleNamespace(variance=each) for each in variances]
    parts = dict.fromkeys([(), ((0, 1),), ((0, 1), (1, 1))])
    return SimpleNamespace(
        released=SimpleNamespace(measured=measured, method=method, complete=complete),
        estimates=SimpleNamespace(parts=parts),
    )


@formula("publish.synthetic.Synthetic._first_measurement_precisions")
def _synthetic_etas() -> Iterator[Vector]:
    """Of the number of rows, and of the first measurement after it: what noise decided later does not move them."""
    from sfumato.publish.synthetic import Synthetic

    for variances in ([4.0, 25.0, 1.0], [4.0, 25.0, 100.0, 1e-3], [0.5, 8.0]):
        first = 1 / variances[1]
        wanted = {(): 1 / variances[0], ((0, 1),): first, ((0, 1), (1, 1)): first}
        yield exact(wanted, Synthetic._first_measurement_precisions, _synthetic(variances))
    yield exact(
        {(): 0.5, ((0, 1),): 0.5, ((0, 1), (1, 1)): 0.5}, Synthetic._first_measurement_precisions, _synthetic([2.0])
    )
    yield exact(None, Synthetic._first_measurement_precisions, _synthetic([4.0, 25.0], "independent"))
    early = _synthetic([4.0, 25.0, 9.0], "independent", complete=False)
    yield exact({(): 0.25, ((0, 1),): 0.04, ((0, 1), (1, 1)): 0.04}, Synthetic._first_measurement_precisions, early)


@formula("publish.synopsis.Synopsis._first_release_precisions")
def _synopsis_etas() -> Iterator[Vector]:
    """1/σ_B² of the first release, whatever was bought later; blocks that it has not have that of its total."""
    table = counts(people(1))
    first = published(planned([["sex"]]), table, line=3)
    later = [published(planned([["sex", "smokes"]], rho=rho), table, line=4) for rho in (Fraction(1, 2), Fraction(9))]
    known = {each.block: each for each in first.plan.blocks}
    scale = {block: Fraction(each.deviation) / each.grid for block, each in known.items()}
    total, sex = scale[()], scale[(0, 1),] / 3  # P_B·m_B was released times 3, the cells of sex
    for other in later:
        both = first + other
        wanted = {block: float(1 / (sex if block == ((0, 1),) else total) ** 2) for block in both.estimates.parts}
        yield exact(wanted, both._first_release_precisions)
    yield exact(None, first._first_release_precisions)


@formula("publish.mwem.MwemFit._prior_precision")
def _fit_eta() -> Iterator[Vector]:
    """The precision of a block in one measurement of the set that has the fewest cells beside it."""
    from sfumato.publish.mwem import MwemFit

    own = SimpleNamespace(
        attributes=attributes(SIZES),
        sets=((0, 1), (1, 2), (0, 1, 2)),
        rows_noise=Gaussian(8),
        noise=Gaussian(5),
        unit_value=Fraction(1, 2),
    )
    measured = [MeasuredMarginal(each, np.zeros(()), Fraction(5), unit_value=Fraction(1, 2)) for each in own.sets]
    yield exact(1 / 4.0**2, MwemFit._prior_precision, own, ())
    for block in (((1, 1),), ((1, 1), (2, 1)), ((0, 1), (2, 1))):
        places = tuple(place for place, _ in block)
        wanted = max(_precisions(places, [each], SIZES) for each in measured)
        yield exact(wanted, MwemFit._prior_precision, own, block)


# ── answers ────────────────────────────────────────────────────────────────────────────────────


def _sex(table: np.ndarray, **more: Any) -> tuple[Any, float, float]:
    """A synopsis of one column of three cells without noise, and the variances of the total and of a cell."""
    found = published(planned([["sex"]]), table, **more)
    own = {each.block: float(Fraction(each.deviation) / each.grid) for each in found.plan.blocks}
    total, sex = own[()], own[(0, 1),] / 3
    return found, total**2, total**2 / 9 + sex**2 * (1 - 1 / 3)


@formula("publish.cells.answering.answer_query")
def _answered() -> Iterator[Vector]:
    found, total, cell = _sex(counts(people(1)))
    rows = counts(people(1)).sum(tuple(range(1, 6)))
    ask = lambda question, **more: found.sql(question, **more).intervals["n"]  # noqa: E731
    for sure in ("0.95", "0.999"):
        wide = routes.planned_width(total, float(1 - Fraction(sure)))
        yield exact((400 - wide, 400 + wide), ask, "SELECT COUNT(*) AS n FROM people", confidence=sure)
    for together, share in ((False, 1), (True, 2)):
        wide = routes.planned_width(cell, 0.05 / share)
        wanted = [(float(each) - wide, float(each) + wide) for each in rows[:2]]
        question = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
        yield exact(wanted, ask, question, together=together)


@formula("publish.cells.answering._estimate_measure")
def _estimate() -> Iterator[Vector]:
    """A mean is at an end where one of its sums is most and the other least; both hold together, with β/2 each."""
    from sfumato.plan.aggregates.measures import Count, Mean, Sum
    from sfumato.plan.values.expressions import Column, Field
    from sfumato.policy import Domain
    from sfumato.publish.cells.answering import ResolvedTotals, _estimate_measure

    value = Column(Field(0, "t", "x"), Domain("integer", bounds=(10, 30)))

    def settled(middle: float, reach: float) -> ResolvedTotals:
        return ResolvedTotals(
            np.array([middle]), lambda *_: (np.array([middle - reach]), np.array([middle + reach])), "measured"
        )

    def ends(measure: Any, *own: ResolvedTotals) -> list[float]:
        found = _estimate_measure(measure, [own], 0.05, 1)
        return [found.value[0], found.low[0], found.high[0]]

    for above, below, reach in ((40.0, 60.0, 5.0), (3.0, 80.0, 9.0), (200.0, 100.0, 1.0)):
        corners = [
            10 + 20 * a / (a + b)
            for a in (max(above - reach, 0.0), above + reach)
            for b in (max(below - reach, 0.0), below + reach)
        ]
        wanted = [10 + 20 * above / (above + below), min(corners), max(corners)]
        yield exact(wanted, ends, Mean(value), settled(above, reach), settled(below, reach))
    yield exact([17.0, 14.25, 19.25], ends, Count(), settled(16.75, 2.5))
    yield exact([17.0, 14.25, 19.25], ends, Sum(value), settled(16.75, 2.5))


@formula("publish.synopsis.Synopsis.marginal")
def _marginal_ranges() -> Iterator[Vector]:
    table = counts(people(1))
    rows = table.sum(tuple(range(1, 6)))
    found, _, cell = _sex(table)
    for sure, together in (("0.95", False), ("0.95", True), ("0.8", False)):
        wide = routes.planned_width(cell, float(1 - Fraction(sure)) / (3 if together else 1))
        wanted = [(float(each) - wide, float(each) + wide) for each in rows]
        ask = lambda **more: found.marginal(["sex"], consistent=False, **more).intervals["count"]  # noqa: E731
        yield exact(wanted, ask, confidence=sure, together=together)


@formula("publish.synopsis.Synopsis._marginal_answer")
def _consistent_ranges() -> Iterator[Vector]:
    """Counts that noise put below zero have the range of the noise above it: never [0, 0]."""
    shape = counts(people(1)).shape
    for cells in ((-40, 5, 100), (-1, -2, 7), (1000, 0, 30)):
        table = np.zeros(shape, np.int64)
        table[:, 0, 0, 0, 0, 0] = cells
        found, _, cell = _sex(table)
        wide = routes.planned_width(cell, 0.05)
        wanted = [(max(0.0, each - wide), max(0, each) + wide) for each in cells]
        yield between(
            [end * (1 - 1e-11) for each in wanted for end in each],
            [end * (1 + 1e-11) for each in wanted for end in each],
            lambda own: own.marginal(["sex"]).intervals["consistent"],
            found,
        )


@formula("publish.model_cards.model_quality")
def _model_quality() -> Iterator[Vector]:
    from sfumato.publish.model_cards import model_quality

    for value, sure in ((40, "0.95"), (10, "0.9"), (25, "0.999")):
        measured = MeasuredMarginal((0,), np.array([value]), Fraction(2), laplace=True)
        model = SimpleNamespace(total=100.0, marginals=lambda _: [np.array([20.0])])
        _, _, chernoff = _unsigned_sum(True, 1, float(1 - Fraction(sure)))
        ends = max(0.0, (abs(value - 20) - chernoff) / 200), (abs(value - 20) + chernoff) / 200
        near = 0.05 * chernoff / 200  # slopes end at 0.8 of what a law allows: a small chance loses up to 5 %

        def quality(own: Any, measured: MeasuredMarginal, sure: str) -> list[float]:
            (found,) = model_quality(own, ("a",), [measured], (90.0, 110.0), Fraction(sure)).marginals
            return [found.low, found.high]

        yield between(
            [ends[0] - near, ends[1] - 1e-12], [ends[0] + 1e-12, ends[1] + near], quality, model, measured, sure
        )


@formula("publish.synthetic.Synthetic.quality")
def _synthetic_quality() -> Iterator[Vector]:
    """The number of rows is within the width of its noise; below zero it is moved there first."""
    from sfumato.publish.synthetic import Synthetic

    class SynopsisEstimates:
        def __init__(self, middle: float) -> None:
            self.middle = middle

        def marginal(self, _: tuple[int, ...]) -> float:
            return self.middle

        def totals_and_errors(self, *_: object) -> tuple[float, PlannedGaussianError]:
            return self.middle, PlannedGaussianError(np.array(9.0), has_fine_grid=True)

    for middle, sure in ((100.0, "0.95"), (2.0, "0.99"), (-50.0, "0.95")):
        own = SimpleNamespace(
            _synopsis_estimates=SynopsisEstimates(middle),
            sampling_model=SimpleNamespace(total=100.0, marginals=lambda _: []),
            released=SimpleNamespace(columns=("a",), measured=()),
        )
        wide = routes.planned_width(9, float(1 - Fraction(sure)))
        wanted = max(0.0, middle - wide), max(0.0, middle) + wide
        yield exact(wanted, lambda own, sure: Synthetic.quality(own, confidence=sure).total_range, own, sure)


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
