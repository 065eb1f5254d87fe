"""Mechanisms on record: their parameters, costs, thresholds and errors, at their limits and one step beyond them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from claims.outcomes import numbers, outcome, outcomes, to_digits
from claims.recorded import Claim, check_claims
from sfumato.mechanisms import (
    additive,
    bits,
    confidence_limits,
    factorisations,
    gaussian,
    grids,
    key_thresholds,
    laplace,
    noise_sums,
    selection,
    sparse,
)
from sfumato.mechanisms.factorisations import Factorisation
from sfumato.mechanisms.key_thresholds import LegacyKeyThreshold
from sfumato.mechanisms.quantiles import LegacyQuantiles
from sfumato.privacy import Sensitivity
from sfumato.privacy.curve import Curve

F = Fraction
BOTH = ("add-remove", "replace")
CONFIDENCES = ("0.01", "0.5", "0.95", "0.999999", 1 - F(1, 10**30))


def _curve(make: Callable[[], Curve]) -> Claim:
    return outcome(lambda: (make().parts, make().neighbours))


def test_additive_noise() -> None:
    changes = [1, "1.5", Sensitivity(3), Sensitivity(3, 2, 4), Sensitivity(2, 1, neighbours="replace")]
    noises = {
        "laplace": sf.Laplace("2.5"),
        "laplace on a grid": sf.Laplace("0.7", grid="1/8"),
        "laplaces": sf.Laplace([1, "0.25", 3]),
        "laplaces on a grid": sf.Laplace([1, 3], grid=2),
        "gaussian": sf.Gaussian(3),
        "gaussian on a grid": sf.Gaussian("0.7", grid="1/8"),
        "gaussians": sf.Gaussian([1, "0.5", 3]),
        "small gaussian": sf.Gaussian("0.2"),
        "large gaussian": sf.Gaussian(2000),
        "larger gaussian": sf.Gaussian("1999.5"),
        "largest laplace": sf.Laplace(10**6),
    }
    claims: dict[str, Claim] = {}
    for name, noise in noises.items():
        claims[f"{name} sizes"] = numbers(noise.sizes)
        claims[f"{name} curve"] = tuple(_curve(lambda n=noise, c=change: n.curve(c)) for change in changes)
        claims[f"{name} error"] = tuple(outcomes(lambda c, n=noise, k=k: n.error(c, k), CONFIDENCES) for k in (1, 7))
        claims[f"{name} sum_error"] = tuple(
            outcome(lambda n=noise, t=t, c=c: n.sum_error(t, c, 3)) for t in (1, 2, 40) for c in CONFIDENCES
        )
    check_claims("mechanisms/additive_noise", claims)


def test_sizes_of_noise() -> None:
    sizes: list[Any] = [
        "0.001",
        "0.00099",
        10**12,
        10**12 + 1,
        [1, 2],
        [],
        (1, "0.5"),
        np.array([2, 3]),
        "3",
        0,
        -1,
        np.array(3),
        b"3",
    ]
    grid: list[Any] = [None, "1/4", 0.25, 0.3, 3, 2.0**-60, 2.0**-61, 2**60, 2**61, 0, -2, "1/6", 2.0**60, 2**-9 * 1.0]
    promises = [("0.5", "1e-6"), ("0.999", "1e-6"), (1, "1e-6"), ("0.5", 0), (0, "1e-6"), ("0.1", "0.1")]
    claims = {
        "laplace": outcomes(sf.Laplace, sizes),
        "gaussian": outcomes(sf.Gaussian, sizes),
        "grids": outcomes(grids.parse_grid, grid),
        "size in steps": outcomes(lambda g: sf.Laplace("0.001", grid=g), ["1/4", 1, 2]),
        "closed form of laplace": tuple(sf.Laplace.closed_form(epsilon=e, rho=F(1)) for e in (None, F(1, 3))),
        "closed form of gaussian": tuple(
            numbers(sf.Gaussian.closed_form(epsilon=F(1), rho=r)) for r in (None, F(1, 8))
        ),
        "norms": numbers((sf.Laplace.norm(Sensitivity(3, 2, 4)), sf.Gaussian.norm(Sensitivity(3, 2, 4)))),
        "of_size": numbers((sf.Laplace.of_size(F(3)), sf.Gaussian.of_size(F(3)))),
        "classical": outcomes(lambda given: sf.Gaussian.classical(*given), promises),
        "classical of two": outcome(lambda: sf.Gaussian.classical("0.5", "1e-6", Sensitivity(2))),
        "in_steps": tuple(
            numbers(grids.sensitivity_in_steps(change, g))
            for change in (Sensitivity(3, "1.3", 2), Sensitivity(2, 1, neighbours="replace"))
            for g in (None, F(1, 4), F(2))
        ),
    }
    check_claims("mechanisms/sizes_of_noise", claims)


def test_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    misses = (0.5, 0.05, 1e-6, 1e-11, 1e-12, 1e-13, 1e-30)
    decoder = np.tril(np.ones((4, 4))) * np.array([1, 0.5, 2, 0.1])
    claims: dict[str, Claim] = {
        "half_width": tuple(laplace.half_width(F(s), m) for s in ("0.01", "0.5", "3", "1000") for m in misses),
        "gaussian_width": tuple(
            additive._gaussian_half_width(s, m) for s in (0.1, 0.5, 3.0, 1999.9, 2000.0, 2e6) for m in (0.9, *misses)
        ),
        "laplace_sum_width": tuple(
            noise_sums.laplace_sum_width(s, t, m)
            for s in (0.3, 4.0, 1e6)
            for t in (1, 2, 30)
            for m in (0.5, 0.05, 1e-6, *((1e-12,) if t < 3 else ()), 1e-13, 1e-30)
        ),
        "single_gaussian_miss": tuple(
            noise_sums.single_gaussian_miss(s, t, 0.05) for s in (0.49, 0.5, 0.7, 3.0) for t in (1, 2, 50)
        ),
        "gaussian_sum_chernoff_width": tuple(
            noise_sums.gaussian_sum_chernoff_width(s, t, m) for s in (0.3, 9.0) for t in (1, 9) for m in misses
        ),
        "laplace_chernoff": tuple(
            noise_sums._laplace_chernoff_width(s, t, m) for s in (0.3, 4.0, 1e6) for t in (1, 30) for m in (0.05, 1e-13)
        ),
        "waiting_tail": tuple(
            to_digits(noise_sums._laplace_sum_tail(r, t), 8) for r in (0.0, 0.5, 6.0, 80.0) for t in (1, 2, 5, 400)
        ),
        "log_factorials": numbers(noise_sums._log_factorials(6)),
        "few_tails": tuple(
            numbers(noise_sums._negative_binomial_bounds(t, m)) for t, m in ((1, 1), (2, 2), (5, 5), (50, 7))
        ),
        "least": tuple(noise_sums._bisect_least(lambda x, k=k: x >= k, 9.0) for k in (0.0, 0.3, 8.9)),
        "gaussian_widths": tuple(
            numbers(noise_sums.gaussian_widths(np.array([0.5, 3.0]), t, s, m))
            for t in (1, 1000)
            for s in (0.5, 2.99, 3.0, 3.01, 100.0)
            for m in (0.3, 0.05, 1e-10, 0.9e-10)
        ),
        "normal_width": tuple(noise_sums._normal_half_width_of_miss(m) for m in (0.9, 0.05, 1e-9)),
        "continuous_widths": tuple(
            to_digits(noise_sums.continuous_widths(decoder, m)) for m in (0.5, 0.05, 1e-6, 1e-10, 1e-11)
        ),
        "laplace_widths": tuple(
            to_digits(noise_sums.laplace_widths(decoder, noise_sums.continuous_widths(decoder, m), s, m))
            for s in (0.3, 5.0, 200.0)
            for m in (0.05, 1e-6, 1e-11)
        ),
        "chernoff": tuple(
            numbers(noise_sums._discrete_chernoff_widths(decoder, s, m))
            for s in (0.3, 5.0, 90.0)
            for m in (0.9, 0.3, 0.05, 1e-9)
        ),
        "far": tuple(numbers(noise_sums._continuous_chernoff_widths(decoder, m)) for m in (1.9, 0.9, 0.3, 0.05, 1e-9)),
        "of one": tuple(
            to_digits(noise_sums.continuous_widths(np.array([[1.0, x]]), m))
            for x in (0.0, 0.01, 0.3)
            for m in (0.5, 0.05, 2e-3, 1e-3, 1e-5)
        ),
        "characteristic": numbers(
            noise_sums._laplace_characteristic_function(decoder, np.array([[0.1, 1.0, 9.0]] * 4))
        ),
        "binomial_upper_tail": tuple(
            to_digits(confidence_limits.binomial_upper_tail(s, n, p), 8)
            for s, n in ((0, 5), (1, 5), (3, 5), (5, 5), (6, 5), (40, 100), (900, 10**5), (10**5, 10**5))
            for p in (-0.1, 0.0, 0.01, 0.4, 0.6, 0.999, 1.0, 1.1)
        ),
        "at_least": tuple(
            confidence_limits.lower_confidence_limit(s, n, m)
            for s, n in ((0, 9), (1, 9), (9, 9), (500, 9000))
            for m in (0.05, 1e-9)
        ),
        "at_most": tuple(
            confidence_limits.upper_confidence_limit(s, n, m)
            for s, n in ((0, 9), (1, 9), (9, 9), (500, 9000))
            for m in (0.05, 1e-9)
        ),
        "miss": tuple(additive._independent_miss(c, k) for c in ("0.01", "0.95", "0.999999") for k in (1, 9)),
        "rarely": tuple(additive._union_bound_miss(c, k) for c in ("0.01", "0.95", "0.999999") for k in (1, 9)),
        "large decoder": to_digits(noise_sums.continuous_widths(np.ones((1, 250_001)), 0.05)),
    }
    monkeypatch.setattr(noise_sums, "_MOST", 16)
    claims["largest decoder"] = to_digits(noise_sums.continuous_widths(decoder, 0.05))
    monkeypatch.setattr(noise_sums, "_MOST", 15)
    claims["larger decoder"] = to_digits(noise_sums.continuous_widths(decoder, 0.05))
    check_claims("mechanisms/widths", claims)


THRESHOLDS: dict[str, tuple[Any, ...]] = {
    f"{groups} keys{', weighted' if weighted else ''}, {relation}": ("0.8", "1e-6", groups, weighted, None, relation)
    for groups in (1, 2, 5)
    for weighted in (False, True)
    for relation in BOTH
}
GAUSSIAN_THRESHOLDS: dict[str, tuple[Any, ...]] = {
    f"{groups} keys at {epsilon}, {relation}": (epsilon, delta, groups, relation)
    for groups, epsilon, delta in ((1, 3, "0.02"), (4, 1, "1e-6"), (30, "0.3", "1e-9"))
    for relation in BOTH
}


def _threshold_facts(made: sf.KeyThreshold) -> Claim:
    counts = (0, 1, 2, 5, 20, 60, made.threshold - 1, made.threshold, made.threshold + 1)
    return (
        *(numbers(made), made.scale, made.threshold, made._uses_optimal_rule, numbers(made._decision_budget)),
        outcomes(made.chance, counts),
        outcomes(made.error, CONFIDENCES[1:4]),
        _curve(made.curve),
        _curve(lambda: made._noise_curve),
    )


def test_key_thresholds() -> None:
    claims = {name: _threshold_facts(sf.KeyThreshold(*given)) for name, given in THRESHOLDS.items()}
    earlier = LegacyKeyThreshold("0.8", "1e-6", 3, False, None, "replace")
    claims["half"] = tuple(sf.KeyThreshold(1, "0.5").error(c) for c in ("0.49", "0.5", "0.51"))
    claims["earlier"] = (earlier.threshold, _curve(earlier.curve))
    check_claims("mechanisms/key_thresholds", claims)


def test_gaussian_key_thresholds() -> None:
    claims = {name: _threshold_facts(sf.KeyThreshold.gaussian(*given)) for name, given in GAUSSIAN_THRESHOLDS.items()}
    check_claims("mechanisms/gaussian_key_thresholds", claims)


def test_limits_of_key_thresholds() -> None:
    given: list[tuple[Any, ...]] = [
        *(
            (1, "1e-30", 3),
            (1, "9e-31", 3),
            (1, "0.1", 10_000),
            (1, "0.1", 10_001),
            (9, "0.1", 200, True),
            (9, "0.1", 201, True),
        ),
        *(
            (1, 0),
            (0, "0.1"),
            (1, "0.1", 0),
            (1, "0.1", 2, "yes"),
            (1, "0.1", 3, False, 0),
            (2000, "0.1", 2),
            (2001, "0.1", 2),
        ),
        *(
            ("2e-12", "0.1", 2),
            ("1.9e-12", "0.1", 2),
            (1000, "0.1"),
            (1001, "0.1"),
            (2000, "0.1", 1, False, None, "replace"),
        ),
        *(("4.606e-6", "0.1"), ("4.605e-6", "0.1"), ("2.7632e-5", "1e-6"), ("2.7631e-5", "1e-6")),
        *(("1.1983e-5", "0.1", 1, False, None, "replace"), ("1.1982e-5", "0.1", 1, False, None, "replace")),
        *(
            (1, "1e-6", 4, False, 11),
            (1, "1e-6", 4, False, "8.8"),
            (1, "1e-6", 4, False, "8.6"),
            (1, "1e-6", 4, False, "8.4"),
        ),
        *((1, "1e-6", 4, True, 50), ("1e-7", "1e-6", 1, False, 10**9)),
        *((1, "1e-6", 4, False, "12.4", "replace"), (1, "1e-6", 4, False, "11.9", "replace")),
    ]
    claims = {f"{each}": outcome(lambda each=each: sf.KeyThreshold(*each)) for each in given}
    for refused in ((1, 0, 3), (0, "0.1", 3), (1, "0.1", 0)):
        claims[f"gaussian {refused}"] = outcome(lambda refused=refused: sf.KeyThreshold.gaussian(*refused))
    claims["gaussian_tail"] = tuple(
        key_thresholds._gaussian_tail_bound(F(s), t)
        for s in ("0.3", "2", "2.5", "2000", "2001")
        for t in (-9, 0, 1, 2, 3, 4, 90, 3000)
    )
    claims["gaussian_threshold"] = tuple(
        key_thresholds._gaussian_threshold(F(s), F(d), g)
        for s in ("0.3", "2", "7.5", "900")
        for d in ("0.4", "0.01", "1e-9")
        for g in (1, 6)
    )
    claims["threshold"] = tuple(
        key_thresholds._laplace_threshold(F(s), F(d), g, w)
        for s in ("0.3", "4", "50")
        for d in ("0.4", "1e-9")
        for g, w in ((1, False), (6, False), (1, True), (6, True))
    )
    claims["leak"] = tuple(
        str(key_thresholds.leak_probability(t, F(s), g, w))
        for t in (1, 5, 60)
        for s in ("0.5", "9")
        for g, w in ((1, False), (4, False), (4, True))
    )
    claims["keep_chance"] = tuple(
        str(key_thresholds.keep_probability(F(e), F(d), n)(bits.decimal_context(30)))
        for e, d in (("0.5", "0.01"), ("2", "1e-6"), ("0.1", "0.3"))
        for n in (0, 1, 2, 7, 30)
    )
    claims["keep_cuts"] = tuple(
        key_thresholds._keep_probability_cuts(F(e), F(d))
        for e, d in (("0.5", "0.01"), ("2", "1e-6"), ("20", "1e-30"), ("0.1", "0.3"))
    )
    check_claims("mechanisms/limits_of_key_thresholds", claims)


SELECTIONS: dict[str, Callable[..., Any]] = {
    "exponential": sf.Exponential,
    "permute and flip": sf.PermuteAndFlip,
    "laplace max": sf.NoisyMax,
    "exponential max": lambda *given, **more: sf.NoisyMax(*given, **more, noise="exponential"),
    "gumbel max": lambda *given, **more: sf.NoisyMax(*given, **more, noise="gumbel"),
    "top 3": lambda *given, **more: sf.TopK(*given, **more, k=3),
}


def test_selections() -> None:
    settings: dict[str, tuple[Any, ...]] = {
        "plain": (1,),
        "sensitive": ("0.3", "2.5"),
        "monotone": (2, 3, True),
        "replaced": ("0.3", 1, False, "replace"),
        "on a grid": (1, "2.5", False, "add-remove", 2),
        "of little price": ("1e-9", "1e-9"),
        "of far scores": (1, 10**15, False, "add-remove", 2**-40),
        "monotone and replaced": (1, 1, True, "replace"),
        "monotone in words": (1, 1, "yes"),
        "too little": ("0.9e-9",),
        "too much": (1001,),
        "most": (1000,),
        "too sensitive": (1, 10**15 + 1),
        "hardly sensitive": (1, "0.9e-9"),
    }
    claims: dict[str, Claim] = {}
    for name, kind in SELECTIONS.items():
        for setting, given in settings.items():
            label = f"{name}, {setting}"
            claims[label] = outcome(lambda kind=kind, given=given: kind(*given))
            if not isinstance(claims[label], str):
                made = kind(*given)
                claims[f"{label}: rate"] = made.rate
                claims[f"{label}: curve"] = _curve(made.curve)
                claims[f"{label}: error"] = tuple(
                    outcome(lambda m=made, n=n, c=c, g=g: m.error(n, c, on_grid=g))
                    for n in (1, 40)
                    for c in CONFIDENCES[1:4]
                    for g in (True, False)
                )
    parts = sf.Exponential(1, "0.5").in_parts(12)
    claims["in parts"] = (numbers(parts), parts.rate, numbers(sf.Exponential(1).in_parts(3, "1/4")))
    claims["noise in words"] = outcome(lambda: sf.NoisyMax(1, noise="normal"))
    claims["no best"] = outcome(lambda: sf.TopK(1, k=0))
    claims["derived_grid"] = tuple(
        selection.derived_grid(F(s), F(e)) for s in ("1e-9", "0.3", "1", "1e15") for e in ("1e-9", "1", "3", "1000")
    )
    check_claims("mechanisms/selections", claims)


def test_best_selections() -> None:
    given: list[tuple[Any, ...]] = [
        (2, "0.01", 2),
        (20, "0.5", 1000),
        (2, 5, 5, 2, True),
        (40, 1, 10, 1, False, "replace"),
    ]
    given += [
        (10**6, 1, 2),
        (10**6 + 1, 1, 2),
        (2, 1, 10**12),
        (2, 1, 10**12 + 1),
        (2, "1e-30", 2),
        (2, 1, 1),
        (1, 1, 2),
    ]
    claims = {f"{each}": outcome(lambda each=each: sf.best_selection(*each)) for each in given}
    for name, curve in (("pure", Curve.pure), ("ranged", Curve.bounded_range)):
        claims[f"affordable, {name}"] = tuple(
            outcome(lambda c=curve, p=p: selection._largest_affordable_epsilon(c, F(3), F(p)))
            for p in ("1/1000", "1/2", "900", "2000")
        )
    check_claims("mechanisms/best_selections", claims)


def test_scores_and_steps() -> None:
    lists: list[Any] = [[0, 5, -3], [0.5, 1.25, -7.75, np.nan, np.inf, -np.inf], [2**62, 2**62 + 1, -(2**62), -(2**63)]]
    lists += [
        [F(1, 3), F(1, 2)],
        [Decimal("0.3"), 1, 2.5],
        [Decimal("NaN"), Decimal("1e-40"), Decimal("-1e400"), Decimal("1e-28")],
    ]
    lists += [
        np.array([1, 2, 3], np.uint64),
        np.array([2**63 + 5, 3], np.uint64),
        np.array([0.1, 0.2], np.float32),
        [True, 1],
    ]
    lists += [[2**60 + 1, 2**60, 0.5], [0.5, 0.25], (2**60 + 1, 0.5)]
    lists += [
        [1e300, -1e300, 3.0],
        [1.5e18, 3.0e18, 4.6e18, -4.6e18],
        [2**61, 2.0**61 * 1.5],
        [],
        [[1]],
        ["a"],
        [1, 2.0**70],
        [np.int8(3), np.float16(0.5), 0.25],
    ]
    steps = (F(1), F(1, 4), F(8), F(1, 2**40))
    claims: dict[str, Claim] = {
        f"gaps of {index} on {grid}": outcome(lambda given=given, grid=grid: selection.score_gaps(given, grid))
        for index, given in enumerate(lists)
        for grid in steps
    }
    values = np.array([-7, -6, -5, -1, 0, 1, 2, 3, 5, 2**53, -(2**53), 2**62, -(2**62)])
    floats = np.array(
        [-0.75, -0.5, -0.25, 0.0, 0.125, 0.25, 0.5, 0.75, 1.5, 1e16, -1e16, np.nan, np.inf, -np.inf, 1e308]
    )
    for grid in (None, F(1), F(1, 4), F(4), F(2**30), F(1, 2**50)):
        claims[f"whole numbers on {grid}"] = numbers(grids.round_to_steps(values, grid))
        claims[f"large ones on {grid}"] = numbers(
            grids.round_to_steps(np.array([2**64 - 1, 2**63, 7], np.uint64), grid)
        )
        if grid is not None:
            claims[f"floats on {grid}"] = numbers(grids.round_to_steps(floats, grid))
            claims[f"nearest on {grid}"] = tuple(
                grids._round_and_clamp(F(v, 8) / grid) for v in (-13, -12, -4, 0, 3, 4, 2**60)
            )
            claims[f"restored on {grid}"] = numbers(
                grids._steps_to_floats(np.array([0, 3, -(2**53), 2**53, 2**53 + 8, -(2**60)]), grid)
            )
    ends = np.array([2**63 - 1, -(2**63), 2**63 - 5, -(2**63) + 5, 0, 100])
    claims["added"] = tuple(
        numbers(grids._add_clamped_to_int64(ends.copy(), np.full(6, noise)))
        for noise in (0, 1, -1, 10, -10, 2**62, -(2**62))
    )
    claims["held"] = tuple(grids._clamp_steps(n) for n in (0, 2**53, 2**53 + 1, -(2**53) - 1)) + tuple(
        grids._clamp_steps(n, 5) for n in (33, -33, 9)
    )
    read: list[Any] = [
        [1, 2**70, -(2**70)],
        [1.5],
        3,
        2.5,
        "a",
        [[1], [2, 3]],
        np.array([1], np.complex64),
        np.array([1.5], np.longdouble),
        [True],
        None,
    ]
    claims["as_numeric_array"] = outcomes(lambda given: grids.as_numeric_array(given, None, "values"), read)
    claims["as_numeric_array on a grid"] = outcomes(
        lambda given: grids.as_numeric_array(given, F(1), "values").tolist(), read
    )
    check_claims("mechanisms/scores_and_steps", claims)


def test_quantiles() -> None:
    claims: dict[str, Claim] = {}
    for chances in (["0.5"], ["0.25", "0.5", "0.75"], ["0.1", "0.2", "0.9", "0.95"], ["0.3", "0.6"]):
        for relation in BOTH:
            for grouped in (False, True):
                made = sf.Quantiles(chances, "0.9", (0, 1000), 2, relation, grouped)
                name = f"{chances}, {relation}, {'grouped' if grouped else 'alone'}"
                claims[name] = numbers(
                    [
                        (n.probability, n.below, n.above, n.level, n.share, made._score_sensitivity(n))
                        for n in made._nodes
                    ]
                )
                claims[f"{name}: errors"] = (
                    *tuple(made.errors(c, k) for c in ("0.5", "0.95") for k in (1, 4)),
                    made.error(),
                )
                claims[f"{name}: curve"] = _curve(made.curve)
                claims[f"{name}: lean"] = tuple(made.safety_offset_rows(c, k) for c in ("0.5", "0.95") for k in (1, 4))
                claims[f"{name}: ends"] = numbers(made.ends("0.3", "0.9", 2))
                earlier = LegacyQuantiles(chances, "0.9", (0, 1000), 2, relation, grouped)
                claims[f"{name}: earlier"] = (_curve(earlier.curve), numbers([n.probability for n in earlier._nodes]))
    for relation in BOTH:
        claims[f"minimum, {relation}"] = numbers(sf.Quantiles.minimum(1, (0, 99), 3, relation))
        claims[f"maximum, {relation}"] = numbers(sf.Quantiles.maximum("0.5", (0, 99), 1, relation, True, "0.5"))
    given: list[tuple[Any, ...]] = [
        ([], 1, (0, 1)),
        (0, 1, (0, 1)),
        (1, 1, (0, 1)),
        ("0.0000001", 1, (0, 1)),
        ("0.5", 0, (0, 1)),
    ]
    given += [
        ("0.5", 1, (1, 1)),
        ("0.5", 1, (0, "1")),
        ("0.5", 1, 3),
        ("0.5", 1, (0, 1, 2)),
        ("0.5", 1, (-(2**61), 2**61)),
    ]
    given += [
        ("0.5", 1, (0, 2**61 + 1)),
        ("0.5", 1, (-(2**61) - 1, 0)),
        ("0.5", 2000, (0, 1)),
        ("0.5", 2001, (0, 1)),
        ("0.5", 1, (0, 1), 0),
    ]
    given += [
        ("0.5", "2e-10", (0, 1)),
        ("0.5", "1.9e-10", (0, 1)),
        ("0.5", 1, (0, 1), 1, "replace", False, 2**40),
        (["0.5", 1], 1, (0, 1)),
    ]
    given += [("0.5", 1, (0, 1), 1, "replace", False, 2**40 + 1), ("0.5", 1, (0, 1), 1, "replace", False, -(2**40) - 1)]
    given += [
        ("0.5", 1, (0, 1), 1, "replace", False, -(2**40)),
        (0, 1, (0, 9), 1, "replace", False, 1),
        (1, 1, (0, 9), 1, "replace", False, -1),
    ]
    given += [
        (0, 1, (0, 9), 1, "replace", False, -1),
        (1, 1, (0, 9), 1, "replace", False, 1),
        ([0, "0.5"], 1, (0, 9), 1, "replace", False, 1),
    ]
    claims |= {f"{each}": outcome(lambda each=each: sf.Quantiles(*each)) for each in given}
    claims["earlier choice"] = outcome(lambda: LegacyQuantiles("0.5", 1, (0, 9)).choose([1]))
    check_claims("mechanisms/quantiles", claims)


def test_frequent_values() -> None:
    claims: dict[str, Claim] = {}
    for relation in BOTH:
        for k, rows in ((1, 1), (3, 2)):
            made = sf.FrequentValues("0.7", rows, k, relation)
            claims[f"{k} of {rows} rows, {relation}"] = (numbers(made), made.rate, _curve(made.curve))
            claims[f"{k} of {rows} rows, {relation}: error"] = tuple(
                made.error(n, c, g) for n in (1, 9) for c in ("0.5", "0.95") for g in (1, 8)
            )
    given: list[tuple[Any, ...]] = [
        (1000,),
        (1001,),
        ("1e-10",),
        ("0.9e-10",),
        (0,),
        (1, 0),
        (1, 1, 0),
        (2000, 1, 1, "replace"),
        (1, 1, 1, "x"),
    ]
    claims |= {f"{each}": outcome(lambda each=each: sf.FrequentValues(*each)) for each in given}
    tables: list[Any] = [[1, 2], [[1.5, 2]], [[1]], np.zeros((0, 3), int)]
    claims["tables"] = outcomes(sf.FrequentValues(1, 1, 2).choose, tables)
    check_claims("mechanisms/frequent_values", claims)


def test_responses() -> None:
    reports = np.array([0, 1, 1, 2, 0, 0, 2, 1, 1, 1])
    claims: dict[str, Claim] = {}
    for epsilon, choices in (("0.1", 3), (1, 3), ("2.5", 4), (5, 3)):
        made = sf.RandomizedResponse(epsilon, choices)
        name = f"response {epsilon} of {choices}"
        claims[name] = (numbers(made), made.truth, _curve(made.curve), tuple(made.distribution(0).values()))
        claims[f"{name}: estimate"] = numbers([made.estimate(reports), made.estimate(reports).interval("0.9")])
        claims[f"{name}: error"] = tuple(
            made.error(c, k, reports=n) for c in ("0.5", "0.95") for k in (1, 5) for n in (1, 900)
        )
        unary, hashing = sf.OptimizedUnaryEncoding(epsilon, choices), sf.OptimalLocalHashing(epsilon, choices)
        bits = np.eye(choices, dtype=np.uint8)[reports % choices]
        rows = np.stack([1 + reports * 97, reports * 1234567, reports % hashing.cells], axis=1)
        claims[f"unary {epsilon} of {choices}"] = (
            unary.variance(90),
            _curve(unary.curve),
            numbers(unary.estimate(bits)),
            unary.error(reports=90),
        )
        claims[f"hashing {epsilon} of {choices}"] = (
            hashing.cells,
            hashing.variance(90),
            _curve(hashing.curve),
            numbers(hashing.estimate(rows)),
            hashing.error(reports=90),
        )
    odds = sf.RandomizedResponse.of_odds("7/2", 5)
    claims["odds"] = (numbers(odds), odds.truth, numbers(list(odds.distribution(2).values())), _curve(odds.curve))
    claims["two coins"] = numbers(sf.RandomizedResponse.two_coins())
    given: list[tuple[Any, ...]] = [
        ("1e-6",),
        ("0.9e-6",),
        (50,),
        (51,),
        (1, 1),
        (1, 2**20),
        (1, 2**20 + 1),
        (1, 2, 3),
        (2, 2, 1),
        (0,),
    ]
    given += [
        ("1.0986122886681098", 2, 3),
        ("1.098612288668109691395245236923", 2, 3),
        ("1.09861228866810969140", 2, 3),
        ("1.09861228866810969139", 2, 3),
    ]
    claims |= {f"{each}": outcome(lambda each=each: sf.RandomizedResponse(*each)) for each in given}
    claims["hashing limits"] = outcomes(lambda e: sf.OptimalLocalHashing(e, 3), (10, "10.1"))
    made = sf.RandomizedResponse(1, 3)
    claims["answers"] = outcomes(made.estimate, [[0, 2], [0, 3], [-1], [[0]], [0.5], []])
    claims["bits"] = outcomes(
        sf.OptimizedUnaryEncoding(1, 2).estimate,
        [np.array([[0, 1]]), np.array([[0, 2]]), np.array([0, 1]), np.array([[0]])],
    )
    claims["rows"] = outcomes(
        sf.OptimalLocalHashing(1, 2).estimate, [np.array([[1, 2, 0]]), np.array([[1, 2]]), np.array([1, 2, 3])]
    )
    check_claims("mechanisms/responses", claims)


def test_sparse_vectors() -> None:
    claims: dict[str, Claim] = {}
    for positives in (1, 2, 9):
        for monotone in (False, True):
            for values in (None, "0.5"):
                made = sf.AboveThreshold("1.5", 40, positives, 2, monotone, values)
                name = f"{positives} times, {'monotone' if monotone else 'any'}, values {values}"
                claims[name] = (numbers(made.scales), _curve(made.curve))
                claims[f"{name}: error"] = tuple(made.error(n, c) for n in (1, 50) for c in CONFIDENCES) + tuple(
                    map(made.value_error, CONFIDENCES)
                )
    given: list[tuple[Any, ...]] = [
        (1, 2**62),
        (1, 2**62 + 1),
        (1, -(2**62) - 1),
        (1, 2.0),
        (0, 1),
        (1, 1, 0),
        (1, 1, 1, 0),
    ]
    given += [
        (1, 1, 1, 1, "yes"),
        (1, 1, 1, 1, True, None, "replace"),
        (1, 1, 1, 1, False, None, "replace"),
        (1, 1, 1, 1, False, 0),
    ]
    given += [
        ("7e-12", 1),
        ("6e-12", 1),
        (1500, 1),
        (4000, 1),
        (1, 1, 1, 1, False, 1000),
        (1, 1, 1, 1, False, 1001),
        (1, 1, 1, 1, False, "1e-12"),
    ]
    claims |= {f"{each}": outcome(lambda each=each: sf.AboveThreshold(*each)) for each in given}
    claims["questions"] = outcomes(sparse._require_whole_value, [3, True, np.int64(7), 2.5, "3", None])
    check_claims("mechanisms/sparse_vectors", claims)


def test_factorisations() -> None:
    claims: dict[str, Claim] = {}
    for form, periods, weight_bits, branching in (
        *(("each day", 3, 2, 0), ("tree", 7, 0, 2), ("tree", 9, 1, 3), ("tree", 10, 0, 4), ("square root", 6, 8, 0)),
        *(("optimised", 6, 10, 0), ("optimised", 1, 4, 0), ("tree", 4, 0, 2)),
    ):
        made = Factorisation(form, periods, weight_bits, branching)
        claims[f"{made}: weights"] = numbers(made.weights)
        claims[f"{made}: lengths"] = numbers(made.decoder_row_norms)
        claims[f"{made}: decoder"] = numbers(np.where(np.abs(made.decoder) < 1e-9, 0.0, np.round(made.decoder, 9)))
    given: list[tuple[Any, ...]] = [
        ("circle", 3, 0),
        ("tree", 3, 0, 1),
        ("tree", 3, 0),
        ("each day", 3, 0, 2),
        ("each day", 0, 0),
    ]
    given += [
        ("each day", 2000, 0),
        ("each day", 2001, 0),
        ("each day", 3, 12),
        ("each day", 3, 13),
        ("each day", 3, -1),
        ("tree", 3, 0, 2),
    ]
    claims |= {f"{each}": outcome(lambda each=each: Factorisation(*each)) for each in given}
    for periods in (1, 2, 3, 5, 16, 17, 400, 401, 1999):
        for order in (1, 2):
            claims[f"candidates for {periods} of order {order}"] = tuple(
                (made.form, made.branching, made.bits)
                for made in factorisations.candidate_factorisations(periods, order, 5)
            )
    check_claims("mechanisms/factorisations", claims)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_guide_tables(kind: str) -> None:
    claims: dict[str, Claim] = {}
    for size in (F(1, 100), F(1, 40), F(1, 2), F(7, 2)):
        made = gaussian.build_guide_table(kind, size)
        name = f"{size}"
        claims[name] = made is None
        if made is not None:
            undecided = np.flatnonzero(made.cells == gaussian._UNDECIDED)
            claims[f"{name}: cuts"] = numbers([str(cut) for cut in made.cuts])
            claims[f"{name}: cells"] = (
                made.first,
                undecided.size,
                numbers(undecided[::7]),
                numbers(made.cells[::1999]),
            )
        sums, error, first = gaussian._cumulative_weights_slack_and_first(kind, size)
        claims[f"{name}: sums"] = (tuple(map(str, sums[:: max(1, len(sums) // 5)])), len(sums), str(error), first)
        context = bits.decimal_context(40)
        claims[f"{name}: weights"] = tuple(map(str, gaussian._unnormalised_weights(kind, size, 4, context)))
        claims[f"{name}: reach"] = tuple(gaussian._negligible_beyond(kind, size, digits) for digits in (20, 60))
        if made is not None:
            words = (
                0,
                1,
                2**40,
                int(made.cuts[0]) - 1,
                int(made.cuts[0]) + 1,
                int(made.cuts[-1]) - 1,
                2**63,
                2**64 - 2,
            )
            claims[f"{name}: located"] = tuple(
                gaussian._outcome_containing_interval(made.law, word, 64, context) for word in words
            )
    check_claims(f"mechanisms/guide_of_{kind}", claims)
