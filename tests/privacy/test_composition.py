"""Composed curves against exact enumeration and against an independent accountant."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings, strategies as st

import sfumato as sf
from privacy import exact
from privacy.families import distributions
from sfumato.privacy import inversion


def _holds(curve: sf.Curve, truth: exact.Pairs, *, gap: float) -> None:
    """Both bounds are bounds at every ε tried, and close to each other."""
    for epsilon in ("0", "0.05", "0.3", "0.777", "1", "1.7", "4"):
        low, high = curve.delta_range(epsilon)
        value = exact.hockey_stick(truth, epsilon)
        assert mpmath.mpf(low) <= value * (1 + mpmath.mpf(10) ** -25) + mpmath.mpf(10) ** -30
        assert value <= mpmath.mpf(high) + mpmath.mpf(10) ** -30
        assert high - low <= gap * high + 1e-13
    for delta in ("1e-9", "1e-5", "0.01", "0.2"):
        low, high = curve.epsilon_range(delta)
        assert exact.hockey_stick(truth, Fraction(high)) <= exact.number(delta)
        if low > 0:
            assert exact.hockey_stick(truth, Fraction(low) * Fraction("0.999999999999")) >= exact.number(delta)


@pytest.mark.parametrize(
    ("curves", "parts"),
    [
        ([(sf.Curve.pure("0.2"), 7)], [(exact.response("0.2"), 7)]),
        (
            [(sf.Curve.pure("0.2"), 3), (sf.Curve.pure("0.3"), 3)],
            [(exact.response("0.2"), 3), (exact.response("0.3"), 3)],
        ),
        ([(sf.Curve.discrete_laplace(3), 5)], [(exact.discrete_laplace(3, 1), 5)]),
        (
            [(sf.Curve.discrete_laplace(3, 4), 2), (sf.Curve.discrete_laplace(2, 3), 2)],
            [(exact.discrete_laplace(3, 4), 2), (exact.discrete_laplace(2, 3), 2)],
        ),
        ([(sf.Curve.discrete_laplace("0.4"), 2)], [(exact.discrete_laplace("0.4", 1), 2)]),
    ],
    ids=["responses", "two kinds of response", "Laplace", "two kinds of Laplace", "little noise"],
)  # fmt: skip
def test_lattices_by_enumeration(curves: list[tuple[sf.Curve, int]], parts: list[tuple[exact.Pairs, int]]) -> None:
    with mpmath.workdps(exact.DIGITS):
        _holds(sf.compose(curves), exact.together(parts), gap=1e-8)


def test_discrete_gaussians_by_enumeration() -> None:
    with mpmath.workdps(exact.DIGITS):
        pairs = exact.discrete_gaussian("0.9", 1)
        _holds(sf.compose([(sf.Curve.discrete_gaussian("0.9"), 3)]), exact.together([(pairs, 3)]), gap=1e-8)
        wide = sf.Curve.discrete_gaussian("0.9", sf.Sensitivity(groups=3))
        _holds(wide, exact.together([(pairs, 3)]), gap=1e-8)


def test_losses_without_a_common_lattice_by_enumeration() -> None:
    """Incommensurable steps: only smoothing ends the sum, and its bounds still enclose the truth."""
    with mpmath.workdps(exact.DIGITS):
        curves = [sf.Curve.pure("0.31415926535"), sf.Curve.pure("0.27182818284"), sf.Curve.pure("0.1414213562")]
        parts = [(exact.response(e), 1) for e in ("0.31415926535", "0.27182818284", "0.1414213562")]
        _holds(sf.compose(curves), exact.together(parts), gap=2e-3)
        # At a loss that has mass of its own smoothing raises δ the most.
        corner = Fraction("0.31415926535") + Fraction("0.27182818284") - Fraction("0.1414213562")
        low, high = sf.compose(curves).delta_range(corner)
        assert exact.number(low) <= exact.hockey_stick(exact.together(parts), corner) <= exact.number(high)
        assert high - low < 1e-3 * high


@settings(max_examples=10)
@given(
    st.lists(
        st.tuples(distributions(3, zeros=True), distributions(3, zeros=True), st.integers(1, 2)), min_size=2, max_size=3
    )
)
def test_finite_pairs_by_enumeration(items: list[tuple[list[Fraction], list[Fraction], int]]) -> None:
    curve = sf.compose([(sf.Curve.pair(p, q), count) for p, q, count in items])
    with mpmath.workdps(exact.DIGITS):
        forward = exact.together([(exact.pairs_of(p, q), count) for p, q, count in items])
        backward = exact.together([(exact.pairs_of(q, p), count) for p, q, count in items])
        for epsilon in ("0", "0.2", "1.1"):
            low, high = curve.delta_range(epsilon)
            truth = max(exact.hockey_stick(forward, epsilon), exact.hockey_stick(backward, epsilon))
            assert low - 1e-13 <= truth <= high + 1e-13
            assert high - low <= 5e-3 * high + 1e-9


def test_continuous_laplace_twice_by_integration() -> None:
    """δ₂(ε) = E[δ₁(ε − L)] with L the loss of the first release."""
    x = 0.7
    curve = sf.compose([(sf.Curve.laplace(1 / Fraction("0.7")), 2)])

    def once(epsilon: mpmath.mpf) -> mpmath.mpf:
        if epsilon >= x:
            return mpmath.mpf(0)
        return 1 - mpmath.exp(epsilon) if epsilon < -x else 1 - mpmath.exp((epsilon - x) / 2)

    with mpmath.workdps(25):
        for epsilon in (0.0, 0.2, 0.7, 1.1, 1.3):
            kinks = sorted({-x, x, *(k for k in (epsilon - x, epsilon + x) if -x < k < x)})
            inside = mpmath.quad(lambda u: mpmath.exp((u - x) / 2) / 4 * once(epsilon - u), kinks)  # noqa: B023
            truth = once(epsilon - x) / 2 + inside + mpmath.exp(-mpmath.mpf(x)) / 2 * once(epsilon + x)
            low, high = curve.delta_range(epsilon)
            assert low <= truth <= high <= truth * (1 + 5e-4)
            assert high - low <= 2e-3 * high


def _random_composition(rng: random.Random) -> tuple[list[tuple[sf.Curve, int]], list[tuple[object, object, int]]]:
    """Curves of ours beside the same mechanisms of the independent accountant, pessimistic and optimistic."""
    ours: list[tuple[sf.Curve, int]] = []
    theirs: list[tuple[object, object, int]] = []
    size = rng.uniform(1, 20)
    for _ in range(rng.randint(2, 6)):
        scale = round(size * rng.uniform(1, 4), 2)
        count = rng.randint(1, 8)
        kind = rng.choice(["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
        step = 2e-5

        def make(pessimistic: bool, kind: str = kind, scale: float = scale, step: float = step) -> object:
            options = {"value_discretization_interval": step, "pessimistic_estimate": pessimistic}
            if kind == "laplace":
                return pld.from_laplace_mechanism(scale, **options)
            if kind == "gaussian":
                return pld.from_gaussian_mechanism(scale, **options)
            if kind == "discrete_laplace":
                return pld.from_discrete_laplace_mechanism(1 / scale, **options)
            return pld.from_discrete_gaussian_mechanism(scale, **options)

        ours.append((getattr(sf.Curve, kind)(scale), count))
        theirs.append((make(True), make(False), count))
    return ours, theirs


def _their_epsilon(parts: list[tuple[object, int]], delta: float) -> float:
    total = None
    for distribution, count in parts:
        repeated = distribution.self_compose(count)  # type: ignore[attr-defined]
        total = repeated if total is None else total.compose(repeated)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", [0, 5, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2, 3, 4))])
def test_against_an_independent_accountant(block: int, long: bool) -> None:
    """Never below its optimistic bound, within 1e-3 of its pessimistic one."""
    rng = random.Random(block)
    for _ in range(50 if long else 1):
        ours, theirs = _random_composition(rng)
        delta = 10.0 ** rng.uniform(-9, -3)
        low, high = sf.compose(ours).epsilon_range(delta)
        pessimistic = _their_epsilon([(up, count) for up, _, count in theirs], delta)
        optimistic = _their_epsilon([(down, count) for _, down, count in theirs], delta)
        assert optimistic <= high * (1 + 1e-9)
        assert low <= pessimistic * (1 + 1e-9)
        assert high == pytest.approx(pessimistic, rel=1e-3)
        assert high - low <= 1e-3 * high


def test_the_field_s_benchmark_composition() -> None:
    """500 Laplace and 500 Gaussian at δ = 1e-6: the accountants of the field say at most 0.93934."""
    scales = [f"{100 + 100 * i / 499:.10f}" for i in range(500)]
    curve = sf.compose([f(scale) for f in (sf.Curve.laplace, sf.Curve.gaussian) for scale in scales])
    low, high = curve.epsilon_range("1e-6")
    assert high - low <= 1e-9
    assert high == pytest.approx(0.939319984, abs=1e-8)


def test_the_same_with_the_noise_that_is_drawn() -> None:
    """500 discrete Laplace and 500 discrete Gaussian, all scales different: no lattice and no decay ends the sum."""
    scales = [100 + Fraction(i, 5) for i in range(500)]
    curve = sf.compose([f(scale) for f in (sf.Curve.discrete_laplace, sf.Curve.discrete_gaussian) for scale in scales])
    low, high = curve.epsilon_range("1e-6")
    smooth = sf.compose([f(scale) for f in (sf.Curve.laplace, sf.Curve.gaussian) for scale in scales])
    assert 0 < high - low <= 1e-6
    assert (
        low > smooth.epsilon("1e-6") - 1e-6
    )  # a discrete Laplace of shift 1 leaks a little more than a continuous one
    assert high == pytest.approx(0.9404535, abs=1e-6)


@pytest.mark.parametrize("mu", ["0.0001", "0.01", "0.3", "1.5"])
def test_two_smoothings_bound_what_is_smoothed_from_below(mu: str) -> None:
    """(1+λ)·smooth_μ − λ·smooth_{rμ} ≤ (1 − e^k)⁺ at every k, with equality at 0; with a smaller λ it fails there."""
    with mpmath.workdps(40):
        narrow, wide = mpmath.mpf(mu), inversion._WIDER * mpmath.mpf(mu)
        share = mpmath.erf(narrow / mpmath.sqrt(8)) / mpmath.erf(wide / mpmath.sqrt(8))
        weight = share / (1 - share)

        def smooth(k: mpmath.mpf, size: mpmath.mpf) -> mpmath.mpf:
            return mpmath.ncdf(size / 2 - k / size) - mpmath.exp(k) * mpmath.ncdf(-size / 2 - k / size)

        for step in range(-60, 61):
            k = step * narrow / 10
            found = (1 + weight) * smooth(k, narrow) - weight * smooth(k, wide)
            assert found <= max(mpmath.mpf(0), 1 - mpmath.exp(k)) + mpmath.mpf(10) ** -35
        less = weight * mpmath.mpf("0.999")
        assert (1 + less) * smooth(mpmath.mpf(0), narrow) - less * smooth(mpmath.mpf(0), wide) > 0


def test_a_million_equal_mechanisms() -> None:
    curve = sf.compose([(sf.Curve.gaussian(4200), 10**6)])
    alone = sf.Curve.gdp(Fraction(1000, 4200))
    assert curve.epsilon("1e-6") == pytest.approx(alone.epsilon("1e-6"), rel=1e-8)
    assert curve.epsilon("1e-6") >= alone.epsilon_range("1e-6")[0]
    assert sf.compose([(sf.Curve.laplace(10**6), 10**6)]).epsilon(0) == 1


def test_composition_with_what_is_only_concentrated() -> None:
    """Bounded by Rényi conversion above, by the Gaussian that attains it below."""
    curve = sf.compose([sf.Curve.concentrated("0.1"), sf.Curve.laplace(5)])
    low, high = curve.epsilon_range("1e-6")
    assert low <= sf.compose([sf.Curve.gdp(Fraction(math.sqrt(0.2))), sf.Curve.laplace(5)]).epsilon("1e-6") * (1 + 1e-6)
    proven = min(sf.theorems.renyi_to_epsilon(order, Fraction(curve.renyi(order)), "1e-6") for order in range(2, 40))
    assert low < high <= proven * (1 + 1e-9)
