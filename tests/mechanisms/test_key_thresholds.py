from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.mechanisms import key_thresholds
from sfumato.mechanisms.key_thresholds import leak_probability


def tail(scale: float, t: int) -> float:
    q = math.exp(-1 / scale)
    return q**t / (1 + q) if t >= 1 else 1 - q ** (1 - t) / (1 + q)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-3"), ("0.3", "0.01"), ("3", "1e-6")])
def test_the_optimal_rule_is_private_and_cannot_be_raised(epsilon: str, delta: str) -> None:
    """π satisfies the four inequalities of (ε, δ)-DP between n and n+1 units, one of them with equality."""
    mechanism = sf.KeyThreshold(epsilon, delta)
    e, d = math.exp(float(epsilon)), float(delta)
    chances = [mechanism.chance(n) for n in range(mechanism.threshold + 3)]
    assert chances[0] == 0
    assert chances[-1] == 1
    for less, more in pairwise(chances):
        assert more <= e * less + d + 1e-12
        assert 1 - less <= e * (1 - more) + d + 1e-12
        assert less <= more
        tight = (e * less + d - more, e * (1 - more) + d - (1 - less), 1 - more)
        assert min(abs(t) for t in tight) < 1e-12


def _alone(mechanism: sf.KeyThreshold, weights: tuple[int, ...]) -> float:
    """The exact probability that some key which only this unit holds is shown."""
    hidden = 1.0
    for w in weights:
        hidden *= 1 - mechanism.chance(w)
    return 1 - hidden


@pytest.mark.parametrize("g", [1, 2, 3, 4])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-3"), ("0.5", "0.02")])
def test_delta_by_exact_enumeration(g: int, epsilon: str, delta: str) -> None:
    """For up to four keys: δ is kept, and a threshold one lower would break it."""
    for weighted in (False, True):
        mechanism = sf.KeyThreshold(epsilon, delta, g, weighted)
        splits = (
            [w for w in product(range(g + 1), repeat=g) if sum(w) <= g]
            if weighted
            else [(1,) * k for k in range(g + 1)]
        )
        assert max(_alone(mechanism, w) for w in splits) <= float(delta) * (1 + 1e-12)
        if g > 1:
            assert float(leak_probability(mechanism.threshold, mechanism.scale, g, weighted)) == pytest.approx(
                max(_alone(mechanism, w) for w in splits), rel=1e-12
            )
            assert leak_probability(mechanism.threshold - 1, mechanism.scale, g, weighted) > Fraction(delta)


@pytest.mark.parametrize("g", [1, 2, 3])
def test_the_whole_release_is_private_on_small_worlds(g: int) -> None:
    """Shown sets of three keys, with and without a unit that holds g of them: hockey-stick at ε is at most δ."""
    epsilon, delta = 0.8, 0.05
    mechanism = sf.KeyThreshold(str(epsilon), str(delta), g)
    for others in product(range(0, 12, 3), repeat=3):
        with_unit = [n + (i < g) for i, n in enumerate(others)]
        p, q = (_sets([mechanism.chance(n) for n in counts]) for counts in (with_unit, others))
        for a, b in ((p, q), (q, p)):
            assert np.maximum(0, a - math.exp(epsilon) * b).sum() <= delta * (1 + 1e-9)


def _passing(mechanism: sf.KeyThreshold, count: int) -> float:
    """The probability that a key with so many units is shown, also with Gaussian noise, where ``chance`` is a bound."""
    if mechanism.sigma is None or not count:
        return mechanism.chance(count)
    sigma = float(mechanism.sigma)
    x = np.arange(-math.ceil(15 * sigma), math.ceil(15 * sigma) + 1)
    weights = np.exp(-((x / sigma) ** 2) / 2)
    return float(weights[count + x >= mechanism.threshold].sum() / weights.sum())


def _sets(chances: list[float]) -> np.ndarray:
    law = np.ones(1)
    for c in chances:
        law = np.concatenate([law * (1 - c), law * c])
    return law


@pytest.mark.parametrize("g", [1, 2])
def test_two_units_together_and_one_replaced(g: int) -> None:
    """Both hold the same keys, perhaps alone: within the group of two; and a unit that changes its key."""
    epsilon, delta = 0.8, 0.05
    mechanism = sf.KeyThreshold(str(epsilon), str(delta), g)
    pair, replaced = mechanism.curve().group(2), mechanism.curve().for_neighbours("replace")
    for others in product(range(0, 9, 2), repeat=2):
        alone = _sets([mechanism.chance(n) for n in others])
        both = _sets([mechanism.chance(n + 2 * (i < g)) for i, n in enumerate(others)])
        one, other = (_sets([mechanism.chance(n + (i == k)) for i, n in enumerate(others)]) for k in (0, 1))
        for e in (0.0, 0.4, 0.8, 1.6):
            for a, b in ((both, alone), (alone, both)):
                assert np.maximum(0, a - math.exp(e) * b).sum() <= pair.delta(e) + 1e-9
            assert np.maximum(0, one - math.exp(e) * other).sum() <= replaced.delta(e) + 1e-9
    if g == 1:
        assert mechanism.chance(2) > 2 * delta  # two failures of one unit each would not have covered it


@pytest.mark.parametrize("kind", ["one", "laplace", "weighted", "gaussian"])
def test_a_replaced_unit_on_small_worlds(kind: str) -> None:
    """Every way in which a unit holds its keys, alone or not, against every other: (ε, δ) as it is stated."""
    epsilon, delta, g = "0.8", "0.05", 1 if kind == "one" else 2
    mechanism = (
        sf.KeyThreshold.gaussian(epsilon, delta, g, "replace")
        if kind == "gaussian"
        else sf.KeyThreshold(epsilon, delta, g, kind == "weighted", neighbours="replace")
    )
    claim = mechanism.curve()
    assert (claim.max_divergence, claim.failure) == (Fraction(epsilon), Fraction(delta))
    assert sf.loads(sf.dumps(mechanism)) == mechanism
    assert "replace" in repr(mechanism)
    most = g if kind == "weighted" else 1
    units = [w for w in product(range(most + 1), repeat=3) if sum(w) <= g]
    near = mechanism.threshold
    worst = 0.0
    counts = (0, 1, near - 3, near - 1, near)
    passing = {n: _passing(mechanism, n) for n in {n + w for n in counts for w in range(most + 1)}}
    for others in product(counts, repeat=3):
        laws = [_sets([passing[n + w] for n, w in zip(others, unit, strict=True)]) for unit in units]
        for a, b in product(laws, repeat=2):
            worst = max(worst, float(np.maximum(0, a - math.exp(0.8) * b).sum()))
    assert worst <= 0.05 * (1 + 1e-9)
    assert worst > 0.01  # the worlds are hard ones: half of the noise would not do


def test_one_key_too_many_is_seen() -> None:
    """A unit that holds more keys than was said breaks the promise, and the same enumeration shows it."""
    mechanism = sf.KeyThreshold("0.8", "0.05", 1)
    p, q = _sets([mechanism.chance(1)] * 3), _sets([0.0] * 3)
    assert np.maximum(0, p - math.exp(0.8) * q).sum() > 0.05 * 2


@pytest.mark.parametrize("g", [1, 3])
def test_draws_follow_the_chances(g: int) -> None:
    mechanism = sf.KeyThreshold(1, "0.001", g)
    count = 40_000
    for n in (1, 3, mechanism.threshold // 2, mechanism.threshold - 1, mechanism.threshold + 5):
        kept = mechanism.choose(np.full(count, n)).sum()
        chance = mechanism.chance(n)
        assert abs(kept - count * chance) <= 5.5 * math.sqrt(count * chance * (1 - chance)) + 6
    assert not mechanism.choose(np.zeros(count, np.int64)).any()
    assert mechanism.choose([10**15]).all()


@pytest.mark.parametrize("g", [1, 2, 30])
def test_gaussian_thresholds(g: int) -> None:
    mechanism = sf.KeyThreshold.gaussian(1, "1e-5", g)
    assert sf.loads(sf.dumps(mechanism)) == mechanism
    sigma = float(mechanism.sigma or 0)
    x = np.arange(-int(20 * sigma), int(20 * sigma) + 1)
    weights = np.exp(-((x / sigma) ** 2) / 2)
    passing = weights[x >= mechanism.threshold - 1].sum() / weights.sum()
    assert 1 - (1 - passing) ** g <= 0.5e-5
    lower = weights[x >= mechanism.threshold - 2].sum() / weights.sum()
    assert 1 - (1 - lower) ** g > 0.5e-5 * 0.9
    claim = mechanism.curve()
    assert (claim.max_divergence, claim.failure) == (1, Fraction("1e-5"))
    assert claim.delta(1) <= 1e-5
    assert mechanism._noise_curve.delta(1) <= 0.5e-5
    count = 20_000
    for n in (1, mechanism.threshold - int(sigma), mechanism.threshold, mechanism.threshold + int(sigma)):
        chance = mechanism.chance(n)
        kept = mechanism.choose(np.full(count, n)).sum()
        assert abs(kept - count * chance) <= 5.5 * math.sqrt(count * chance * (1 - chance)) + 6
    if g == 30:
        assert mechanism.threshold < sf.KeyThreshold(1, "1e-5", g).threshold
    with pytest.raises(sf.InvalidParameter, match=r"KeyThreshold\.gaussian"):
        sf.KeyThreshold(1, "1e-5", g, sigma=sigma / 2)


def test_strict_at_the_boundary() -> None:
    """count + noise = τ passes, τ − 1 does not: the chance at one unit is exactly P(Y ≥ τ − 1)."""
    mechanism = sf.KeyThreshold(1, "1e-6", 2)
    assert mechanism.chance(1) == pytest.approx(tail(2, mechanism.threshold - 1), rel=1e-12)


def test_curves_and_accounts() -> None:
    assert sf.KeyThreshold(1, "1e-6").curve() == sf.Curve.approximate(1, "1e-6")
    several = sf.KeyThreshold(1, "1e-8", 5).curve()
    assert several.failure == Fraction(1, 10**8)
    assert several.epsilon("1e-8") == 1
    assert sf.Budget(2, "1e-6").charge(several).remaining["failure"] == Fraction(9, 10**8)
    assert sf.loads(sf.dumps(sf.KeyThreshold(1, "1e-6", 4, weighted=True))) == sf.KeyThreshold(
        1, "1e-6", 4, weighted=True
    )
    assert repr(sf.KeyThreshold(1, "1e-6", 4)) == "KeyThreshold(epsilon=1, delta=0.000001, max_groups=4)"


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.KeyThreshold(0, "1e-6"),
        lambda: sf.KeyThreshold(1, 0),
        lambda: sf.KeyThreshold(1, 1),
        lambda: sf.KeyThreshold(math.nan, "1e-6"),
        lambda: sf.KeyThreshold(1, "1e-6", 0),
        lambda: sf.KeyThreshold(1, "1e-6", 10**6),
        lambda: sf.KeyThreshold(1, "1e-6", 2, weighted=1),  # type: ignore[arg-type]
        lambda: sf.KeyThreshold("1e-20", "1e-6"),
        lambda: sf.KeyThreshold(1, "1e-45", 2),
        lambda: sf.KeyThreshold("1e-9", "1e-12"),
        lambda: sf.KeyThreshold(1, "1e-6", 1500, weighted=True),
        lambda: sf.KeyThreshold(1, "1e-6").choose([-1]),
        lambda: sf.KeyThreshold(1, "1e-6").choose([1.5]),
        lambda: sf.KeyThreshold(1, "1e-6").choose(None),
        lambda: sf.KeyThreshold(1, "1e-6").chance(-1),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_a_threshold_for_ten_keys_costs_less_than_any_release_so_private() -> None:
    """What an account of (1, 1e-6) pays for it at (1, 1e-7), as failure δ plus the noise's own curve."""
    order = sf.Budget(1, "1e-6").order
    assert order is not None
    assert sf.Curve.approximate(1, "1e-7").renyi(order) == pytest.approx(0.985, abs=1e-3)
    assert sf.KeyThreshold(1, "1e-7", 10).curve().renyi(order) == pytest.approx(0.702, abs=1e-3)


def test_gaussian_noise_for_all_of_delta_is_refused() -> None:
    """Half of δ is the threshold's: noise that is (ε, δ)-DP by itself would make the keys (ε, 1.5·δ)-DP."""
    whole = sf.calibrate(sf.Gaussian, sf.Guarantee(1, "1e-4"), sf.Sensitivity(groups=5)).sigma
    half = sf.calibrate(sf.Gaussian, sf.Guarantee(1, "5e-5"), sf.Sensitivity(groups=5)).sigma
    assert sf.KeyThreshold(1, "1e-4", 5, sigma=half).sigma == half  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter, match="large enough for"):
        sf.KeyThreshold(1, "1e-4", 5, sigma=whole)  # type: ignore[arg-type]


def test_the_ends_of_what_a_key_threshold_accepts() -> None:
    """Each pair: the last parameters that are accepted, and the first that are not."""
    for accepted, refused in (
        ({"delta": "1e-30"}, {"delta": "9.9e-31"}),
        ({"max_groups": 10_000}, {"max_groups": 10_001}),
        ({"max_groups": 200, "weighted": True}, {"max_groups": 201, "weighted": True}),
        # 2·ln(1/δ)/ε and, where two decisions are made at half of both, 4·ln(2/δ)/ε units, a million at most
        ({"epsilon": "2.7632e-5"}, {"epsilon": "2.7630e-5"}),
        ({"epsilon": "5.8035e-5", "neighbours": "replace"}, {"epsilon": "5.8034e-5", "neighbours": "replace"}),
        # the scale of the noise
        ({"epsilon": 1000}, {"epsilon": "1000.1"}),
        ({"epsilon": 2000, "neighbours": "replace"}, {"epsilon": "2000.1", "neighbours": "replace"}),
        ({"epsilon": 3000, "max_groups": 3}, {"epsilon": "3000.1", "max_groups": 3}),
        ({"epsilon": "2e-12", "max_groups": 2}, {"epsilon": "1.99e-12", "max_groups": 2}),
        ({"max_groups": 2, "sigma": 9}, {"max_groups": 2, "sigma": 9, "weighted": True}),
    ):
        asked = {"epsilon": 1, "delta": "1e-6"}
        sf.KeyThreshold(**asked | accepted)  # type: ignore[arg-type]
        assert_refused(lambda asked=asked, refused=refused: sf.KeyThreshold(**asked | refused))


def test_no_key_is_kept_with_more_than_certainty() -> None:
    assert key_thresholds._gaussian_tail_bound(Fraction(2), -60) == 1.0
    assert key_thresholds._gaussian_tail_bound(Fraction(3000), -40_000) == 1.0
    law = {x: math.exp(-((x / 2.5) ** 2) / 2) for x in range(-40, 41)}
    total = math.fsum(law.values())
    for t in (-30, -3, 0, 1, 2, 3):  # nearer than σ the sum itself, a billionth above it
        truth = math.fsum(weight for x, weight in law.items() if x >= t) / total
        assert key_thresholds._gaussian_tail_bound(Fraction(5, 2), t) == pytest.approx(
            min(1, truth * (1 + 1e-9)), rel=1e-14
        )
    for sigma, t in ((2.5, 4), (2.5, 9), (2500.0, 10), (2500.0, 9000)):
        beyond = math.erfc((t - 0.5) / (sigma * math.sqrt(2))) / 2
        assert key_thresholds._gaussian_tail_bound(Fraction(sigma), t) == pytest.approx(
            beyond * (1 + 1e-9), rel=1e-14, abs=0
        )
