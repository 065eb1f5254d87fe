from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from mechanisms.test_laws import passes
from mechanisms.test_quantile_levels import Grouped
from refusals import assert_refused


def law(data: list[int], q: float, rate: float, low: int, high: int) -> np.ndarray:
    """P(y) ∝ e^{−rate·distance of qn from [#{x<y}, #{x≤y}]} over all numbers within the bounds."""
    target = q * len(data)
    distance = []
    for y in range(low, high + 1):
        under, upto = sum(x < y for x in data), sum(x <= y for x in data)
        distance.append(max(under - target, target - upto, 0))
    weights = np.exp(-rate * np.array(distance))
    return weights / weights.sum()


ROWS: tuple[list[int], ...] = ([], [5], [5] * 6, [0, 3, 3, 9, 10], [1, 2, 3, 4, 8, 8, 20])
FEW = [("0.5", ROWS[0]), ("0.5", ROWS[2]), ("0.25", ROWS[3]), ("0.9", ROWS[4])]
MANY = [each for each in itertools.product(("0.25", "0.5", "0.9"), ROWS) if each not in FEW]


@pytest.mark.parametrize(
    ("q", "data"), [*FEW, *(pytest.param(*each, marks=pytest.mark.long) for each in MANY)], ids=str
)
def test_draws_follow_the_exact_law(q: str, data: list[int], long: bool) -> None:
    """Draws of one table by one are few; of many groups that are all this table, made at once by the same law, many."""
    mechanism, groups = sf.Quantiles(q, "1.5", (0, 12)), sf.Quantiles(q, "1.5", (0, 12), grouped=True)
    clamped = [min(12, max(0, x)) for x in data]
    expected = law(clamped, float(q), 1.5 / (2 * max(float(q), 1 - float(q))), 0, 12)
    one_by_one, at_once = (4000, 20_000) if long else (200, 5000)
    tables = Grouped.of(tuple((group, x) for group in range(at_once) for x in data), at_once)
    histogram = np.unique(np.array(data, np.int64), return_counts=True)
    for drawn in (
        [mechanism.choose(data)[0] for _ in range(one_by_one)],
        [mechanism.choose_histogram(*histogram)[0] for _ in range(one_by_one)],
        groups.choose_groups(tables)[:, 0],
    ):
        assert passes(*chi_square(np.array(drawn), expected))


def chi_square(draws: np.ndarray, law: np.ndarray) -> tuple[float, int]:
    """Return χ² over the values of at least 20 expected draws, the others as one, and how many terms it has."""
    seen, expected = np.bincount(draws, minlength=law.size), law * draws.size
    rare = expected < 20
    seen, expected = (np.append(each[~rare], each[rare].sum()) for each in (seen, expected))
    return float(((seen - expected) ** 2 / np.maximum(expected, 1)).sum()), expected.size


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
    assert mechanism.levels == 3
    assert mechanism.curve().epsilon(0) == pytest.approx(2)
    replaced = sf.Quantiles(["0.1", "0.5", "0.9"], 2, (0, 100), neighbours="replace")
    assert replaced.curve().epsilon(0) == pytest.approx(2)
    assert [replaced._score_sensitivity(node) for node in replaced._nodes] == [
        1,
        2 * Fraction(4, 5),
        2 * Fraction(4, 5),
    ]


def test_levels_of_quartiles_are_charged_as_bounded_range() -> None:
    """What an account of (1, 1e-6) pays for them at ε = 0.1: any release so private would cost 0.0471."""
    mechanism, order = sf.Quantiles(["0.25", "0.5", "0.75"], "0.1", (0, 100)), sf.Budget(1, "1e-6").order
    assert order is not None
    assert mechanism.curve().renyi(order) == pytest.approx(0.01364, rel=1e-3)
    assert sf.compose([(sf.Curve.pure("0.05"), 2)]).renyi(order) == pytest.approx(0.0471, rel=2e-3)


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
    assert five._score_sensitivity(five._nodes[0]) == Fraction(5, 2)


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
        lambda: sf.Quantiles("0.5", 1, (0, 1), offset=2**50),
        lambda: sf.Quantiles("0.5", 1, (0, 1), offset=-(2**50)),
        lambda: sf.Quantiles(0, 1, (0, 1), offset=-1),
        lambda: sf.Quantiles(1, 1, (0, 1), offset=1),
        lambda: sf.Quantiles([0, "0.5"], 1, (0, 1), offset=1),
        lambda: sf.Quantiles("1.5", 1, (0, 1)),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose([3, 1]),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose([0.5]),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose(None),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose_histogram([1, 2], [1]),
        lambda: sf.Quantiles("0.5", 1, (0, 1)).choose_histogram([1], [-1]),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_written_and_read_back() -> None:
    for more in ({}, {"grouped": True}, {"offset": -3}):
        mechanism = sf.Quantiles(["0.75", "0.25"], "0.5", (0, 9), rows_per_unit=2, **more)
        assert sf.loads(sf.dumps(mechanism)) == mechanism
        assert repr(mechanism).startswith("Quantiles([0.25, 0.75]")
        assert all(f"{name}={value}" in repr(mechanism) for name, value in more.items())


def test_what_was_charged_earlier_is_read_and_not_run() -> None:
    fields = {"bounds": [0, 9], "epsilon": "0.5", "neighbours": "replace", "probabilities": ["0.1", "0.5", "0.9"]}
    earlier = sf.loads(json.dumps({"kind": "quantiles/1", "rows_per_unit": 1, **fields}))
    first = Fraction("0.5") / (1 + 2 * Fraction(4, 5))
    paid = sf.compose([sf.Curve.pure(first, "replace"), sf.Curve.pure(Fraction("0.5") - first, "replace")])
    assert earlier.curve().renyi(20) == paid.renyi(20)
    assert repr(earlier).startswith("LegacyQuantiles")
    with pytest.raises(sf.InvalidParameter, match="only describes old charges"):
        earlier.choose([1])


def test_rank_errors_are_smaller_where_a_part_lies_between_two_ends() -> None:
    """A quartile's target lies half-way between the median's and an end that is exact."""
    errors = sf.Quantiles(["0.25", "0.5", "0.75"], 1, (0, 10**6)).errors()
    assert errors[0] == errors[2] == pytest.approx(1.5 * errors[1])
    assert sf.Quantiles("0.5", 1, (0, 10**6)).error(k=50) > sf.Quantiles("0.5", 1, (0, 10**6)).error()
