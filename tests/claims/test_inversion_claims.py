"""The sums behind δ(ε) on record: every part of their certified error, on each of the ways that a sum is ended."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from claims.outcomes import logarithms, numbers, to_digits
from claims.recorded import Claim, check_claims
from sfumato.privacy import inversion
from sfumato.privacy.inversion import Inversion, Moments
from sfumato.privacy.losses import BoundedRangeLoss, ConcentratedLoss, Loss, PairLoss, ResponseLoss
from sfumato.privacy.noise_losses import DiscreteGaussianLoss, DiscreteGaussianVectorLoss, GaussianLoss, LaplaceLoss

F = Fraction
TILTED = PairLoss((F(1, 2), F(1, 3), F(1, 6)), (F(1, 5), F(2, 5), F(2, 5)))
PARTS: dict[str, list[tuple[Loss, int]]] = {
    "lattice": [(LaplaceLoss(F(1, 5), F(1, 10)), 20), (LaplaceLoss(F(2, 5), F(1, 10)), 3)],
    "lattice of gaussians": [(DiscreteGaussianLoss(F(9), 2), 6)],
    "decay of gaussians": [(GaussianLoss(F(1, 9)), 3), (ConcentratedLoss(F(1, 50)), 2)],
    "decay of a rounding": [
        (DiscreteGaussianVectorLoss(F(10**4), 30, 90, 2000, 180000), 2),
        (ResponseLoss(F(1, 5)), 3),
    ],
    "smoothed laplaces": [(LaplaceLoss(F(1, 10)), 9), (LaplaceLoss(F(1, 3)), 2)],
    "smoothed pairs": [(TILTED, 5), (ResponseLoss(F(1, 7), 3), 4)],
    "ranges": [(BoundedRangeLoss(F(1, 4)), 12), (ResponseLoss(F(0), 2, F(1, 100)), 1)],
    "large losses": [(LaplaceLoss(F(9)), 2), (ResponseLoss(F(7)), 1)],
}
HEIGHTS = np.array([0.0, 0.4, 2.0, 9.0, 60.0])


def _facts(moments: Moments) -> dict[str, Claim]:
    real = np.array([0.05, 0.6, 4.0, 30.0])
    return {
        "gaussian": moments.gaussian_mu_squared,
        "slack": moments.slack,
        "known": moments.moments_known,
        "top": moments.largest_finite_loss,
        "lattice": numbers(moments.spacing_and_offset),
        "count": moments.count,
        "magnitude": moments.magnitude,
        "counts": tuple(numbers(stack.counts) for stack in moments.stacks),
        "log": logarithms(moments.log_moment(np.array([0.3 + 0j, 2 + 0.5j, 9 + 40j]))),
        "rounding": numbers(moments.rounding_error(real)),
        "log_bound": tuple(logarithms(moments.log_bound(c, t)) for c in (0.2, 3.0) for t in (0.1, 5.0, 90.0)),
        "log_decay": tuple(logarithms(stack.log_decay(0.8, HEIGHTS)) for stack in moments.stacks),
        "chernoff": numbers(inversion.chernoff_epsilon_and_log_delta(moments, real)),
        "aliases": tuple(
            inversion._alias_slope_and_log(moments, 0.8, w, 0.5, s) for w in (9.0, 40.0) for s in (0.0, 0.1)
        ),
        "unaliased": tuple(
            inversion._period_without_aliases(moments, c, 0.5, g) for c in (0.3, 5.0) for g in (-12.0, -60.0)
        ),
        "decayed": tuple(
            inversion._last_node_and_truncation_error(moments, 2.0, s, 0.4, a)
            for s in (0.01, 0.3)
            for a in (1e-3, 1e-12)
        ),
        "log_chernoff": tuple(inversion._log_chernoff_delta(moments, c, e) for c in (0.3, 5.0) for e in (0.0, 2.0)),
    }


def _written(sum_: Inversion) -> dict[str, Claim]:
    return {
        "wrap": sum_.period,
        "nodes": len(sum_.heights),
        "heights": numbers(sum_.heights[[1, len(sum_.heights) // 2, -1]]),
        "terms": to_digits(np.abs(sum_.terms[[0, 1, min(40, len(sum_.terms) - 1)]])),
        "log_peak": sum_.log_peak,
        "lost": to_digits(sum_.truncation_error),
        "rounding": sum_.constant_and_growing_error,
        "smoothing": sum_.smoothing_mu,
        "lattice": (sum_.spacing, sum_.offset),
        "above": sum_.alias_slope_and_log,
        "widened": None
        if sum_.second_smoothing is None
        else (sum_.second_smoothing.log_peak, sum_.second_smoothing.smoothing_mu),
        "bounds": tuple(_bounds(sum_, epsilon) for epsilon in (0.0, 0.11, 0.7, 2.05, 6.0)),
    }


def _bounds(sum_: Inversion, epsilon: float) -> Claim:
    """Return what a sum says at ε where it was made for such an ε: elsewhere its bounds are wide, and noise decides."""
    low, high = sum_.lower_delta(epsilon), sum_.upper_delta(epsilon)
    if not 0.999 * high < low < high < 1:
        return None
    wide = 0.0 if sum_.second_smoothing is None else sum_.second_smoothing.smoothed_delta(epsilon, +1)
    return to_digits((low, high, sum_.smoothed_delta(epsilon, +1), sum_.smoothed_delta(epsilon, -1), wide))


@pytest.mark.parametrize("name", PARTS)
def test_moments(name: str) -> None:
    with np.errstate(all="ignore"):
        check_claims(f"compositions/moments_of_{name.replace(' ', '_')}", _facts(Moments.from_pairs(PARTS[name])))


@pytest.mark.parametrize("name", PARTS)
def test_sums(name: str) -> None:
    moments = Moments.from_pairs(PARTS[name])
    claims: dict[str, Claim] = {}
    with np.errstate(all="ignore"):
        for c, epsilon, log_delta in ((0.4, 0.5, -1.5), (2.5, 1.0, -7.0), (12.0, 3.0, -30.0)):
            made = inversion.build_inversion(moments, c, epsilon, log_delta)
            claims |= {f"at c = {c}: {fact}": value for fact, value in _written(made).items()}
    check_claims(f"compositions/sum_of_{name.replace(' ', '_')}", claims)


def test_small_parts_of_a_sum() -> None:
    z = np.array([0.2 + 0j, 1 + 1j, 5 + 70j])
    rising = lambda c: c < 0.37  # noqa: E731 - a condition
    stack = Moments.from_pairs([(LaplaceLoss(F(k, 10)), k) for k in range(1, 8)]).stacks[0]
    pair_stack = Moments.from_pairs([(TILTED, 2)]).stacks[0]
    claims: dict[str, Any] = {
        "kernel": numbers(inversion._summation_kernel(z, 0.0)),
        "kernel of a lattice": numbers(inversion._summation_kernel(z, 0.3)),
        "search": tuple(inversion._last_c_where(rising, rounds=n) for n in (1, 2, 6)),
        "search beyond": tuple(inversion._last_c_where(lambda c, k=k: c < k, rounds=2) for k in (1e-9, 1e20)),
        "smoothed": tuple(inversion._smoothing_mu_and_error(t, a) for t in (0.5, 40.0, 1e6) for a in (1e-3, 1e-12)),
        "pieces": tuple(numbers(p.counts) for n in (1, 3, 9) for p in stack.split_members(n, 9)),
        "pieces of few": tuple(numbers(p.parameters) for p in stack.split_members(4, 8)),
        "pieces of a pair": numbers([p.counts for p in pair_stack.split_members(9, 1)]),
        "spread": numbers(stack.with_members_interleaved().counts),
        "spread parameters": numbers(stack.with_members_interleaved().parameters),
        "spread pair": numbers(pair_stack.with_members_interleaved().parameters),
    }
    check_claims("compositions/small_parts", claims)


def test_ends_of_a_sum() -> None:
    with np.errstate(all="ignore"):
        made = inversion.build_inversion(Moments.from_pairs(PARTS["smoothed laplaces"]), 2.5, 1.0, -7.0)
    assert made.second_smoothing is not None
    lattices = ([F(1, 2**20), F(1)], [F(1, 2**21), F(1)], [F(1), F(1, 2**21)], [F(2, 3), F(3, 4)], [F(1)], [])
    claims: dict[str, Claim] = {
        "peaks": tuple(
            replace(made, log_peak=p).smoothed_delta(0.0, s) for p in (599.0, 600.0, 601.0) for s in (1, -1)
        ),
        "not finite": tuple(replace(made, truncation_error=math.inf).smoothed_delta(1.0, side) for side in (1, -1)),
        "equal smoothings": replace(
            made, second_smoothing=replace(made.second_smoothing, smoothing_mu=made.smoothing_mu)
        ).lower_delta(1.0),
        "at the top": tuple(
            replace(made, moments=replace(made.moments, largest_finite_loss=1.0)).upper_delta(e)
            for e in (0.5, 1.0, 1.5)
        ),
        "lattices": tuple(
            numbers(inversion._common_spacing_and_offset([(ResponseLoss(e, 3), 2) for e in each])) for each in lattices
        ),
        "flat": numbers(
            inversion._common_spacing_and_offset([(ResponseLoss(F(0), 2, F(1, 9)), 1), (ResponseLoss(F(1, 3)), 3)])
        ),
        "none": numbers(inversion._common_spacing_and_offset([(ResponseLoss(F(1, 3)), 3), (LaplaceLoss(F(1)), 1)])),
    }
    check_claims("compositions/ends_of_a_sum", claims)


def test_pruned_nodes() -> None:
    claims: dict[str, Claim] = {}
    for name in ("lattice", "decay of a rounding", "smoothed laplaces", "smoothed pairs", "large losses"):
        moments = Moments.from_pairs(PARTS[name])
        nodes = 0.8 + 0.05j * np.arange(700)
        sizes = 1 / (1 + nodes.imag)
        for smoothing, floor in ((0.0, 1e-9), (0.2, 1e-4), (0.2, 1e-40)):
            near, left_out = inversion._possible_nodes(moments, nodes, smoothing, sizes, floor)
            kept, values, dropped = inversion._significant_nodes(moments, nodes, smoothing, sizes, floor)
            claims[f"{name}, smoothed by {smoothing}, floor {floor}"] = (
                *(near.size, left_out, kept.size, dropped),
                numbers(values[[0, 1, len(values) // 2]]),
            )
    check_claims("compositions/pruned_nodes", claims)


def test_ranges() -> None:
    claims: dict[str, Claim] = {}
    for name, parts in PARTS.items():
        moments = Moments.from_pairs(parts)
        for epsilon in (0.0, 0.3, 1.4, 4.0, math.floor(min(moments.largest_finite_loss, 20.0)) - 1.0):
            claims[f"{name}: delta at {epsilon}"] = to_digits(inversion.delta_range_of(moments, epsilon))
        for least, most in ((1e-9, 1.1e-9), (1e-4, 1e-4), (0.2, 0.21), (0.0, 1e-7)):
            claims[f"{name}: epsilon at {least}"] = to_digits(inversion.epsilon_range_of(moments, least, most))
    check_claims("compositions/ranges_of_sums", claims)
