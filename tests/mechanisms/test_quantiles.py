from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from mechanisms.test_laws import passes
from sfumato.mechanisms import quantiles


def law(data: list[int], q: float, rate: float, low: int, high: int) -> np.ndarray:
    """P(y) ∝ e^{−rate·distance of qn from [#{x<y}, #{x≤y}]} over all numbers within the bounds."""
    target = q * len(data)
    distance = []
    for y in range(low, high + 1):
        under, upto = sum(x < y for x in data), sum(x <= y for x in data)
        distance.append(max(under - target, target - upto, 0))
    weights = np.exp(-rate * np.array(distance))
    return weights / weights.sum()


@pytest.mark.parametrize("data", [[], [5], [5] * 6, [0, 3, 3, 9, 10], [1, 2, 3, 4, 8, 8, 20]], ids=str)
@pytest.mark.parametrize("q", ["0.5", "0.25", "0.9"])
def test_draws_follow_the_exact_law(data: list[int], q: str) -> None:
    mechanism = sf.Quantiles(q, "1.5", (0, 12))
    clamped = [min(12, max(0, x)) for x in data]
    expected = law(clamped, float(q), 1.5 / (2 * max(float(q), 1 - float(q))), 0, 12)
    count = 4000
    for draw in (
        lambda: mechanism.choose(data),
        lambda: mechanism.choose_histogram(*np.unique(np.array(data, np.int64), return_counts=True)),
    ):
        seen = np.bincount([draw()[0] for _ in range(count)], minlength=13)
        assert passes(float(((seen - count * expected) ** 2 / (count * expected)).sum()), 13)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_curve_covers_every_small_world(neighbours: str) -> None:
    """All data of up to four rows in 0…3: adding, or exchanging, one row."""
    q, epsilon = 0.3, 1.1
    mechanism = sf.Quantiles(str(q), str(epsilon), (0, 3), neighbours=neighbours)
    sensitivity = 1.0 if neighbours == "replace" else 0.7
    rate = epsilon / (2 * sensitivity)
    claims = {e: mechanism.curve().delta(e) for e in (0.0, 0.3, 0.7)}
    for size in range(4):
        for data in itertools.combinations_with_replacement(range(4), size):
            for row in range(4):
                other = [*data[1:], row] if neighbours == "replace" else [*data, row]
                if neighbours == "replace" and not data:
                    continue
                p, r = law(list(data), q, rate, 0, 3), law(other, q, rate, 0, 3)
                losses = np.log(p / r)
                assert losses.max() - losses.min() <= epsilon + 1e-9
                for e, claim in claims.items():
                    assert np.maximum(0, p - math.exp(e) * r).sum() <= claim + 1e-9
                    assert np.maximum(0, r - math.exp(e) * p).sum() <= claim + 1e-9


def test_several_quantiles_are_recursive_and_ordered() -> None:
    data = np.sort(np.random.default_rng(3).integers(0, 10_000, 50_000))
    mechanism = sf.Quantiles(["0.1", "0.25", "0.5", "0.75", "0.9"], 2, (0, 10_000))
    found = mechanism.choose(data)
    assert found == sorted(found)
    ranks = np.searchsorted(data, found) / data.size
    assert np.abs(ranks - [0.1, 0.25, 0.5, 0.75, 0.9]).max() < mechanism.error("0.999999") / data.size
    assert len(mechanism.curve().parts) == 1
    assert mechanism.curve().epsilon(0) == pytest.approx(2)
    replaced = sf.Quantiles(["0.1", "0.5", "0.9"], 2, (0, 100), neighbours="replace")
    assert replaced.curve().epsilon(0) == pytest.approx(2)
    assert replaced._level_epsilon == 2 / (1 + 2 * Fraction(4, 5))


def test_long_decimals_do_not_change_the_law_with_the_number_of_rows() -> None:
    """A regression: distances were once cut off at a rank that depended on n."""
    mechanism = sf.Quantiles(1 / 3, "0.01", (0, 10**6))
    data = [5 * i for i in range(10_000)]
    for rows in (data, [*data, 10**6]):
        found = [mechanism.choose(rows)[0] for _ in range(60)]
        assert sum(abs(y - 16_667) < 8000 for y in found) > 45
    assert mechanism.probabilities == (Fraction(333333, 10**6),)


def test_rows_per_unit_cost_their_number() -> None:
    one, five = (sf.Quantiles("0.5", 1, (0, 100), rows_per_unit=c) for c in (1, 5))
    assert five.error() == pytest.approx(5 * one.error())
    assert five._score_sensitivity(Fraction(1, 2)) == Fraction(5, 2)


def test_every_row_is_in_one_part() -> None:
    """Released values at the ends of the bounds: no row is counted twice or lost, and nothing fails."""
    for data in ([0] * 50, [10] * 50, [0] * 25 + [10] * 25):
        for _ in range(20):
            found = sf.Quantiles(["0.2", "0.5", "0.8"], 50, (0, 10)).choose(data)
            assert found == sorted(found)
            assert all(0 <= y <= 10 for y in found)


def test_values_are_clamped_and_bounds_are_wide() -> None:
    assert 0 <= sf.Quantiles("0.5", 1, (0, 5)).choose([-(10**18), 10**18])[0] <= 5
    wide = sf.Quantiles("0.5", 5, (-(2**61), 2**61)).choose(np.arange(100_000))
    assert -1000 < wide[0] < 101_000
    huge = sf.Quantiles("0.123456789", 5, (0, 10)).choose_histogram([3, 7], [10**9, 10**10])
    assert huge == [7]
    assert sf.Quantiles("0.5", 10, (0, 100)).choose_histogram([10, 20, 90], [2**62] * 3) == [20]
    assert len(sf.Quantiles("0.5", 1, (-(2**61), 2**61)).choose([])) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.Quantiles([], 1, (0, 1)),
        lambda: sf.Quantiles(0, 1, (0, 1)),
        lambda: sf.Quantiles(1, 1, (0, 1)),
        lambda: sf.Quantiles("nan", 1, (0, 1)),
        lambda: sf.Quantiles("0.5", 0, (0, 1)),
        lambda: sf.Quantiles("0.5", -1, (0, 1)),
        lambda: sf.Quantiles("0.5", 1, (1, 0)),
        lambda: sf.Quantiles("0.5", 1, (0, 0.5)),  # type: ignore[arg-type]
        lambda: sf.Quantiles("0.5", 1, 7),  # type: ignore[arg-type]
        lambda: sf.Quantiles("0.5", 1, (0, 2**70)),
        lambda: sf.Quantiles("0.5", "1e-300", (0, 10), rows_per_unit=10**9),
        lambda: sf.Quantiles("1e-9", 1, (0, 10)),
        lambda: sf.Quantiles("0.5", 1, (0, 1), rows_per_unit=0),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose([3, 1]),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose([0.5]),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose(None),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose_histogram([1, 2], [1]),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose_histogram([1], [-1]),
    ],
)
def test_hostile_parameters(call: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        call()  # type: ignore[operator]


def test_written_and_read_back() -> None:
    mechanism = sf.Quantiles(["0.75", "0.25"], "0.5", (0, 9), rows_per_unit=2)
    assert sf.loads(sf.dumps(mechanism)) == mechanism
    assert repr(mechanism).startswith("Quantiles([0.25, 0.75]")


# ── the mechanism's own law, with its own rate, on every small world ───────────────────────────


Law = dict[tuple[int, ...], float]


def joint_law(mechanism: sf.Quantiles, data: list[int], monkeypatch: pytest.MonkeyPatch) -> Law:
    """P of every list of quantiles: the release is run with each choice forced in turn, and each forced choice has the
    probability that its own race gives it."""
    low, high = mechanism.bounds
    law: Law = {}
    for forced in itertools.product(range(low, high + 1), repeat=len(mechanism.probabilities)):
        left, chance = list(forced), [1.0]

        def winner(race: quantiles._Race, left: list[int] = left, chance: list[float] = chance) -> int:
            value = left.pop()
            weights = [m * math.exp(-g * race.rate) for m, g in zip(race.places, race.distance, strict=True)]
            inside = (race.starts <= value) & (value < race.starts + race.places)
            chance[0] *= float((np.array(weights) / race.places)[inside].sum()) / sum(weights)
            return value

        with monkeypatch.context() as patch:
            patch.setattr(quantiles._Race, "winner", winner)
            found = tuple(mechanism.choose(sorted(data)))
        if chance[0]:
            assert sorted(found) == list(found)
            law[found] = law.get(found, 0.0) + chance[0]
    return law


def _neighbours(data: tuple[int, ...], rows: int, values: range, relation: str) -> list[list[int]]:
    """What a unit of so many rows makes of a table: it comes, or its rows become others."""
    many = list(itertools.combinations_with_replacement(values, rows))
    if relation == "replace":
        return [[*data[rows:], *other] for other in many] if len(data) >= rows else []
    return [[*data, *other] for other in many]


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("q", ["0.3", "0.5", "0.9"])
def test_one_quantile_loses_what_its_own_rate_says(
    q: str, rows: int, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses span at most ε, and somewhere nearly ε: half the sensitivity, or twice, would be seen."""
    epsilon, values = 1.2, range(4)
    mechanism = sf.Quantiles(q, str(epsilon), (0, 3), rows, relation)
    span = 0.0
    for size in range(5):
        for data in itertools.combinations_with_replacement(values, size):
            p = joint_law(mechanism, list(data), monkeypatch)
            assert sum(p.values()) == pytest.approx(1)
            for other in _neighbours(data, rows, values, relation):
                r = joint_law(mechanism, other, monkeypatch)
                losses = [math.log(p[y] / r[y]) for y in p]
                span = max(span, max(losses) - min(losses))
    assert 0.45 * epsilon < span <= epsilon + 1e-9


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("chances", [["0.25", "0.5", "0.75"], ["0.1", "0.5"], ["0.5", "0.9"]], ids=str)
def test_several_quantiles_lose_what_they_cost_together(
    chances: list[str], relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The joint law of all of them, over every table of up to three rows and every neighbour."""
    values = range(3)
    mechanism = sf.Quantiles(chances, 2, (0, 2), 1, relation)
    worst = 0.0
    for size in range(4):
        for data in itertools.combinations_with_replacement(values, size):
            p = joint_law(mechanism, list(data), monkeypatch)
            for other in _neighbours(data, 1, values, relation):
                r = joint_law(mechanism, other, monkeypatch)
                assert p.keys() == r.keys()
                worst = max(worst, *(abs(math.log(p[y] / r[y])) for y in p))
    assert 0.4 < worst <= 2 + 1e-9
    assert mechanism.curve().epsilon(0) >= worst - 1e-9


def test_distances_are_in_a_public_unit() -> None:
    """The unit is the share's own denominator, whatever the number of rows has in common with it."""
    for rows in (1, 2, 3, 6):
        race = quantiles._Race.of(np.array([0]), np.array([0, rows]), (0, 2), Fraction(1, 6), Fraction(1), (0, 1), None)
        assert race.rate == Fraction(1, 6)
        assert race.distance.tolist() == [0, 5 * rows]
