"""Amplification by sampling: against exact enumeration of samples, against mpmath, and beside dp-accounting."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import mpmath
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import sfumato as sf
from refusals import assert_refused
from sfumato.privacy.losses import ResponseLoss
from sfumato.privacy.subsampled_losses import SubsampledLoss

MP = mpmath.MPContext()
MP.dps = 40
RATE = Fraction(1, 4)
Law = dict[Any, Any]


@cache
def _count_law(rows: tuple[int, ...], odds: int = 3) -> Law:
    """Σ rows plus two-sided geometric noise of ratio 1/odds, within ±30; a rational law, and tails of mass < 1e-13."""
    total, q = sum(rows), Fraction(1, odds)
    return {total + t: (1 - q) / (1 + q) * q ** abs(t) for t in range(-30, 31)}


def _mixed(laws: list[tuple[Fraction, Law]]) -> Law:
    mixture: Law = {}
    for weight, law in laws:
        for outcome, mass in law.items():
            mixture[outcome] = mixture.get(outcome, 0) + weight * mass
    return mixture


@cache
def _poisson(rows: tuple[int, ...], rate: Fraction) -> Law:
    """The law on a Poisson sample, by listing every sample."""
    picks = product((0, 1), repeat=len(rows))
    return _mixed(
        [
            (
                rate ** sum(pick) * (1 - rate) ** (len(rows) - sum(pick)),
                _count_law(tuple(row for row, taken in zip(rows, pick, strict=True) if taken)),
            )
            for pick in picks
        ]
    )


def _without_replacement(rows: tuple[int, ...], size: int) -> Law:
    samples = list(combinations(range(len(rows)), size))
    return _mixed([(Fraction(1, len(samples)), _count_law(tuple(rows[i] for i in sample))) for sample in samples])


def _excess(p: Law, q: Law, growth: Fraction) -> Fraction:
    return sum((max(Fraction(0), mass - growth * q.get(outcome, 0)) for outcome, mass in p.items()), Fraction(0))


NOISE = sf.Curve.discrete_laplace(Fraction(1) / Fraction(math.log(3)))
"""The curve of that noise, for counts that one unit moves by 1; its scale is 1/ln 3, up to rounding."""
GROWTHS = (Fraction(1), Fraction(11, 10), Fraction(5, 4), Fraction(7, 5))


def _log(growth: Fraction) -> Fraction:
    return Fraction(math.log(growth))


@pytest.mark.parametrize("growth", GROWTHS)
def test_poisson_sampling_is_exact_in_both_directions(growth: Fraction) -> None:
    """No other unit, so no mixture over samples: the pair of the theorem is the law itself."""
    with_unit, without = _poisson((1,), RATE), _poisson((), RATE)
    loss = NOISE.subsampled(RATE).parts[0][0]
    for side, p, q in ((loss, with_unit, without), (loss.reversed(), without, with_unit)):
        low, high = side.delta_range(math.log(growth))
        assert low <= high <= low + 1e-12
        assert float(_excess(p, q, growth)) == pytest.approx(high, abs=2e-12)


@pytest.mark.parametrize("growth", GROWTHS)
def test_no_database_leaks_more_than_a_sample_of_it_may(growth: Fraction) -> None:
    curve = NOISE.subsampled(RATE)
    replaced = curve.for_neighbours("replace")
    three = curve.group(3)
    epsilon = _log(growth)
    for others in ((), (1,), (0, 1, 1)):
        base = _poisson(others, RATE)
        more = _poisson((*others, 1), RATE)
        for p, q in ((base, more), (more, base)):
            assert _excess(p, q, growth) <= curve.delta(epsilon) + 1e-12
        for p, q in ((more, _poisson((*others, 0), RATE)), (more, _poisson((*others, -1), RATE))):
            assert _excess(p, q, growth) <= replaced.delta(epsilon) + 1e-12
            assert _excess(q, p, growth) <= replaced.delta(epsilon) + 1e-12
        for changed in ((1, 1, 1), (1, 1), (1,)):  # three units join, or two leave while one joins, or the reverse
            p, q = _poisson((*others, *changed), RATE), _poisson((*others, *([-1] * (3 - len(changed)))), RATE)
            assert _excess(p, q, growth) <= three.delta(epsilon) + 1e-12
            assert _excess(q, p, growth) <= three.delta(epsilon) + 1e-12


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_samples_without_replacement_under_replace(growth: Fraction, size: int) -> None:
    """Rows are 0 or 1, so that a replaced one moves a count by at most 1."""
    base = sf.Curve(NOISE.parts, "replace")
    curve, two = base.subsampled(size=size, of=4), base.subsampled(size=size, of=4).group(2)
    epsilon = _log(growth)
    for others in ((0, 0, 0), (1, 0, 1)):
        p, q = _without_replacement((1, *others), size), _without_replacement((0, *others), size)
        assert _excess(p, q, growth) <= curve.delta(epsilon) + 1e-12
        assert _excess(q, p, growth) <= curve.delta(epsilon) + 1e-12
        p, q = _without_replacement((1, 1, *others[1:]), size), _without_replacement((0, 0, *others[1:]), size)
        assert _excess(p, q, growth) <= two.delta(epsilon) + 1e-12
    if size == 1:  # nobody else matters there: the bound is attained
        alone = _without_replacement((1, 0, 0, 0), 1), _without_replacement((0, 0, 0, 0), 1)
        assert float(_excess(*alone, growth)) == pytest.approx(curve.delta(epsilon), abs=1e-12)


def test_how_many_changed_units_are_sampled() -> None:
    parts = ((ResponseLoss(Fraction(1)), 1),)
    assert SubsampledLoss(parts, RATE, 3).sampled_weights == {
        1: Fraction(27, 64),
        2: Fraction(9, 64),
        3: Fraction(1, 64),
    }
    fixed = SubsampledLoss(parts, Fraction(2, 5), 2, 5)
    assert fixed.sampled_weights == {1: Fraction(6, 10), 2: Fraction(1, 10)}
    samples = list(combinations(range(5), 2))
    for changed in (1, 2):
        share = Fraction(sum(len({0, 1} & set(sample)) == changed for sample in samples), len(samples))
        assert fixed.sampled_weights[changed] == share


@pytest.mark.parametrize("rate", ["0.01", "0.3", "0.99"])
def test_gaussian_noise_on_a_sample_against_its_integral(rate: str) -> None:
    """∫ (P − e^ε·Q)⁺ between the roots of a monotone ratio, in mpmath, both ways."""
    q, sigma = MP.mpf(rate), MP.mpf(2)

    def phi(x: Any, mean: int) -> Any:
        return MP.ncdf((x - mean) / sigma)

    curve = sf.Curve.gaussian(2).subsampled(rate)
    forward = curve.parts[0][0]
    for epsilon in (0.001, 0.004, 0.2):
        growth = MP.exp(MP.mpf(epsilon))
        ratio = (growth - 1 + q) / q  # e^{(2x − 1)/2σ²} at the edge
        edge = sigma**2 * MP.log(ratio) + MP.mpf(1) / 2
        expected = q * (1 - phi(edge, 1)) + (1 - q) * (1 - phi(edge, 0)) - growth * (1 - phi(edge, 0))
        low, high = forward.delta_range(epsilon)
        assert low <= expected <= high
        assert high - low < 1e-11 * high
        share = 1 - growth * (1 - q)
        if share > 0:
            edge = sigma**2 * MP.log(share / (growth * q)) + MP.mpf(1) / 2
            expected = phi(edge, 0) - growth * ((1 - q) * phi(edge, 0) + q * phi(edge, 1))
        else:
            expected = MP.mpf(0)
        low, high = forward.reversed().delta_range(epsilon)
        assert low <= expected <= high


def test_pure_releases_have_the_known_epsilon() -> None:
    """ln(1 + q(e^ε − 1)): Li, Qardaji & Su 2012 (Poisson); with m/n in place of q without replacement."""
    for rate in ("0.1", "0.5"):
        known = MP.log(1 + MP.mpf(rate) * (MP.exp(1) - 1))
        got = sf.Curve.pure(1).subsampled(rate).epsilon(0)
        assert known <= got <= known * (1 + 1e-12)
    got = sf.Curve.pure(1, "replace").subsampled(size=10, of=100).epsilon(0)
    assert got == pytest.approx(float(MP.log(1 + (MP.exp(1) - 1) / 10)), rel=1e-12)
    assert sf.Curve.pure(1).subsampled(1) == sf.Curve.pure(1)
    both = sf.compose([sf.Curve.laplace(4), sf.Curve.laplace(2)]).subsampled("0.2")  # one sample for the whole release
    assert both.epsilon(0) == pytest.approx(math.log1p(0.2 * math.expm1(0.75)), rel=1e-12)
    assert both.delta("0.1") <= 0.2 * sf.compose([sf.Curve.laplace(4), sf.Curve.laplace(2)]).delta(
        math.log1p(math.expm1(0.1) / 0.2)
    ) * (1 + 1e-9)


@pytest.mark.parametrize(
    "curve",
    [
        sf.Curve.pure(1),
        sf.Curve.pair(["0.9", "0.1"], ["0.5", "0.5"]),
        sf.Curve.approximate("0.5", "0.01"),
        pytest.param(sf.Curve.laplace(1), marks=pytest.mark.long),
    ],
    ids=repr,
)
def test_one_pair_dominates_and_is_dominated_by_another_at_every_epsilon(curve: sf.Curve) -> None:
    """At losses of both signs: h is between the lines that touch it from below and its own chords."""
    forward = curve.subsampled("0.3").parts[0][0]
    for loss in (forward, forward.reversed()):
        outer, inner = loss.lattice_pair, loss.dominated_tangent_pair
        mass, value = (column[:, 0] for column in outer.log_moment_parameters)
        assert math.fsum(mass) + outer.mass_at_infinity == pytest.approx(1, abs=1e-12)
        q_mass = math.fsum(mass * [math.exp(-each) for each in value])
        assert q_mass + outer.reverse_mass_at_infinity == pytest.approx(1, abs=1e-12)
        for step in range(-60, 60):
            epsilon = step / 50
            low, high = loss.delta_range(epsilon) if step >= 0 else loss.reversed().delta_range(-epsilon)
            if step < 0:
                low, high = (1 - math.exp(epsilon) + math.exp(epsilon) * bound for bound in (low, high))
            assert low - 1e-15 <= _profile(outer, epsilon) <= low + 1e-4
            assert high - 1e-4 <= _profile(inner, epsilon) <= high + 1e-15


def _profile(pair: Any, epsilon: float) -> float:
    mass, value = (column[:, 0] for column in pair.log_moment_parameters)
    above = [p - math.exp(epsilon - each) * p for p, each in zip(mass, value, strict=True) if each > epsilon]
    return pair.mass_at_infinity + math.fsum(above)


def test_composed_samples_beside_dp_accounting() -> None:
    """Theirs bound the truth from both sides; ours is between, and within 0.1 % of their upper bound."""
    ours = sf.compose([(sf.Curve.gaussian(1).subsampled("0.01"), 100)])
    low, high = ours.epsilon_range("1e-6")
    theirs = [
        pld.from_gaussian_mechanism(
            1.0,
            sampling_prob=0.01,
            pessimistic_estimate=upper,
            use_connect_dots=upper,
            value_discretization_interval=5e-4,
        )
        .self_compose(100)
        .get_epsilon_for_delta(1e-6)
        for upper in (False, True)
    ]
    assert theirs[0] <= high <= theirs[1] * 1.001
    assert theirs[0] <= low <= theirs[1]
    assert high - low < 3e-4
    assert high >= theirs[1] * 0.999
    one = pld.from_laplace_mechanism(2.0, sampling_prob=0.2, value_discretization_interval=1e-3)
    curve = sf.Curve.laplace(2).subsampled("0.2")
    for epsilon in (0.01, 0.05):
        assert curve.delta_range(epsilon)[0] <= one.get_delta_for_epsilon(epsilon)
        assert curve.delta(epsilon) == pytest.approx(one.get_delta_for_epsilon(epsilon), rel=1e-3)


def test_the_bounds_of_a_composition_are_not_those_of_one_pair() -> None:
    """Two releases of finite laws: the truth by listing all pairs of outcomes, strictly between both bounds."""
    p, q = [Fraction(9, 10), Fraction(1, 10)], [Fraction(1, 2), Fraction(1, 2)]
    rate, growth = Fraction(3, 10), Fraction(6, 5)
    mixed = [(1 - rate) * b + rate * a for a, b in zip(p, q, strict=True)]
    one = sf.Curve.pair(p, q).subsampled(rate)
    sides = ((mixed, q), (q, mixed))
    truth = max(
        sum(max(Fraction(0), x[i] * x[j] - growth * y[i] * y[j]) for i in (0, 1) for j in (0, 1)) for x, y in sides
    )
    both = sf.compose([(one, 2)])
    low, high = both.delta_range(_log(growth))
    assert low <= truth <= high
    ((loss, _),) = one.parts
    assert both._dominated_directions == (
        ((loss.dominated_tangent_pair, 2),),
        ((loss.reversed().dominated_tangent_pair, 2),),
    )
    assert both._composed_directions == (((loss.lattice_pair, 2),), ((loss.reversed().lattice_pair, 2),))
    assert high - low < 1e-3


def test_a_failure_is_as_rare_as_the_unit_is_sampled() -> None:
    """The unit is in the sample and the release fails: q·δ; one that is not there cannot be given away."""
    curve = sf.Curve.approximate(1, "0.01").subsampled("0.2")
    loss = curve.parts[0][0]
    assert float(loss.failure) == pytest.approx(0.002, rel=1e-12)
    assert loss.reversed().failure == 0
    assert curve.delta(5) == pytest.approx(0.002, rel=1e-12)
    assert sf.compose([(curve, 2)]).delta(5) == pytest.approx(1 - 0.998**2, rel=1e-9)
    assert curve.epsilon("0.001") == math.inf


def test_samples_are_drawn_before_units_are_counted() -> None:
    curve = sf.Curve.laplace(1)
    assert_refused(lambda: curve.group(2).subsampled("0.1"), "the curve of one unit")
    assert_refused(lambda: sf.compose([curve, curve.group(2)]).subsampled("0.1"), "the curve of one unit")
    twice = curve.subsampled("0.1").subsampled("0.2")  # a sample of a sample
    assert twice.delta("0.01") == pytest.approx(curve.subsampled("0.02").delta("0.01"), rel=1e-9)
    assert_refused(lambda: sf.Curve(curve.subsampled("0.1").parts, "replace").epsilon(0), "under replace neighbours")
    for text in (
        sf.dumps(curve.subsampled("0.1")).replace('"0.1"', '"2"'),
        '{"kind":"subsampled-loss/1","parts":[1],"rate":"0.5"}',
    ):
        assert_refused(lambda text=text: sf.loads(text))
    assert curve.subsampled("0.1").group(2).epsilon(0) == pytest.approx(
        math.log1p((1 - 0.9**2) * math.expm1(2)), rel=1e-9
    )
    assert curve.subsampled("0.1").group(1) == curve.subsampled("0.1")
    assert curve.subsampled("0.1").group(2).group(2) == curve.subsampled("0.1").group(4)
    stored = sf.loads(sf.dumps(curve.subsampled("0.1")))
    assert stored == curve.subsampled("0.1")


def test_losses_too_large_to_matter_count_as_failure() -> None:
    """Beyond ε = 500 a finite loss is no longer told from an unbounded one: more is claimed, never less."""
    huge = sf.Curve.laplace("0.001").subsampled("0.1")
    assert huge.epsilon(0) == math.inf
    assert 0.0999 < huge.delta(300) <= 0.1 * (1 + 1e-9)
    assert sf.compose([(huge, 2)]).delta(300) >= 1 - 0.901**2


def test_a_charge_of_a_sampled_release_covers_it() -> None:
    curve = sf.Curve.laplace(1).subsampled("0.1")
    budget = sf.Budget(1).charge(curve)
    assert budget.spent["pure"] >= curve.max_divergence
    assert curve.renyi(2) <= sf.Curve.laplace(1).renyi(2)
    ratio = [(0.9 + 0.1 * math.exp(1 - 2 * max(0.0, min(1.0, x)))) for x in (k / 4000 for k in range(4001))]
    assert curve.rho() >= math.log(max(ratio)) ** 2 / 8  # no less than what its range allows at least


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: sf.Curve.laplace(1).subsampled(), "given alone"),
        (lambda: sf.Curve.laplace(1).subsampled("0.1", size=2, of=3), "given alone"),
        (lambda: sf.Curve.laplace(1).subsampled(size=2), "given alone"),
        (lambda: sf.Curve.laplace(1).subsampled(0), "(0, 1]"),
        (lambda: sf.Curve.laplace(1).subsampled("1.5"), "(0, 1]"),
        (lambda: sf.Curve.laplace(1).subsampled("x"), "(0, 1]"),
        (lambda: sf.Curve.laplace(1).subsampled(size=2, of=3), "under add-remove"),
        (lambda: sf.Curve.pure(1, "replace").subsampled("0.1"), "under replace"),
        (lambda: sf.Curve.pure(1, "replace").subsampled(size=5, of=3), "at most 3"),
        (lambda: sf.Curve.pure(1, "replace").subsampled(size=0, of=3), "≥ 1"),
        (lambda: sf.Curve.laplace(1).subsampled("0.1").group(2000), "at most 1000"),
    ],
)
def test_what_is_no_sample_is_refused(call: Any, rule: str) -> None:
    assert_refused(call, rule)


def test_the_pair_below_diverges_no_more_than_the_pair_above() -> None:
    loss = SubsampledLoss(((ResponseLoss(Fraction(1)), 1),), RATE)
    for order in (1, 2, 8):
        below, above = loss.dominated_tangent_pair.renyi(order), loss.lattice_pair.renyi(order)
        assert 0 < below <= above
        assert below > 0.9 * above


@pytest.mark.parametrize("backward", [False, True])
def test_a_profile_is_rounded_outward(backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of q·δ, where δ is 1/2 at every ε and the sample costs nothing at ε = 0: 2^-48 apart from it."""
    loss = SubsampledLoss(((ResponseLoss(1), 1),), RATE, backward=backward)
    monkeypatch.setattr(SubsampledLoss, "_delta_bound_without_sampling", lambda *_: 0.5)
    high, low = (Fraction(loss.profile_bound(0.0, above=above)) * 8 - 1 for above in (True, False))
    margin = Fraction(2 if backward else 1, 2**48)
    assert abs(high - margin) < Fraction(1, 2**51)
    assert abs(low + margin) < Fraction(1, 2**51)
