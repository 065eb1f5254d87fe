"""How stored numbers are decoded and ranged, beside exact sums and the law of the sample."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.mechanisms import FrequentValues, Quantiles
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.release.parts.scales import (
    FrequentValueScale,
    GroupKeys,
    KeyColumn,
    NoisyScale,
    QuantileScale,
    SampledScale,
)
from sfumato.release.parts.shares import PriceSplit, WantedResult, error_ratio, even_shares, split_for_least_error


def test_keys_are_stored_once_each_and_read_in_their_order() -> None:
    types = (Type.TEXT, Type.INTEGER)
    product = tuple(itertools.product(("a", None), (3, 1, 2)))
    for groups, listed in (
        (product, False),
        (product[::-1], False),
        (product[:-1], True),
        (product[1:], True),
        (product * 2, True),
        ((product[1], product[0], *product[2:]), True),
    ):
        keys = GroupKeys.encode(groups, types)
        assert keys.groups == tuple(groups)
        assert bool(keys.codes) == listed
        assert codec.loads_as(GroupKeys, codec.dumps(keys)) == keys
    keys = GroupKeys.encode([("a", 1), ("b", 2)], types)
    assert (keys.codes, keys.groups) == (((0, 1), (0, 1)), (("a", 1), ("b", 2)))


def test_an_answer_without_keys_has_as_many_groups_as_it_has() -> None:
    assert GroupKeys.encode([()], ()).groups == ((),)
    assert GroupKeys.encode([(), ()], ()).groups == ((), ())
    with pytest.raises(InvalidParameter, match="codes"):
        GroupKeys((KeyColumn(Type.TEXT, ["a"]),), ((0,), (0,)))
    made = GroupKeys([KeyColumn(Type.TEXT, ["a"])], [[0, 0]])  # type: ignore[arg-type]
    assert (made.columns, made.codes) == ((KeyColumn(Type.TEXT, ["a"]),), ((0, 0),))
    assert hash(made) == hash(GroupKeys((KeyColumn(Type.TEXT, ("a",)),), ((0, 0),)))


def test_keys_are_parsed_by_their_type() -> None:
    assert KeyColumn("real", ["0.5", Fraction(1, 4)]).values == (Fraction(1, 2), Fraction(1, 4))
    assert KeyColumn(Type.DATE, ["2024-02-29", None]).values == (dt.date(2024, 2, 29), None)
    assert KeyColumn(Type.TIMESTAMP, ["2024-02-29T01:02:03"]).values == (dt.datetime(2024, 2, 29, 1, 2, 3),)
    assert KeyColumn(Type.TEXT, ["0.5"]).values == ("0.5",)


def test_a_total_is_as_far_as_its_noise_and_rounding() -> None:
    noise = sf.Laplace(9)
    scale = NoisyScale("0.5", noise, rounding=Fraction(1, 4))
    for confidence, parts in (("0.9", 1), ("0.99", 3)):
        assert scale.half_width(confidence, parts) == noise.error(confidence, parts) / 2 + Fraction(1, 4)
        assert scale.width(confidence, parts) == float(scale.half_width(confidence, parts))
        assert scale.widths(np.zeros(2), confidence, parts) == scale.width(confidence, parts)
        assert scale.sum_width(4, confidence, parts) == float(noise.sum_error(4, confidence, parts) / 2 + 1)
    assert scale.rank("0.9") is None
    assert scale.columns == 1


@pytest.mark.parametrize("rate", ["0.5", "0.05"])
def test_the_range_of_a_sampled_total_ends_where_the_divergence_does(rate: str) -> None:
    """At both ends n·KL(s/n ‖ q) is ln(4·parts/β), by 50 digits, for s at the ends of the noise's range."""
    noise, limit = NoisyScale(2, sf.Laplace(3)), Fraction(3)
    scale = SampledScale(noise, Fraction(rate), limit)
    q = mpf(rate)
    for total, confidence, parts in ((4000.0, "0.95", 1), (90.0, "0.9", 4), (0.0, "0.95", 2), (-40.0, "0.95", 1)):
        reach = float(noise.half_width((1 + Fraction(confidence)) / 2, parts))
        exponent = mp.log(4 * parts / (1 - mpf(confidence)))

        def divergence(n: mpf, s: mpf, exponent: mpf = exponent) -> mpf:
            first = s * mp.log(s / (q * n)) if s else mpf(0)
            rest = n - s
            return first + (rest * mp.log(rest / ((1 - q) * n)) if rest else mpf(0)) - exponent

        low, high = (mpf(max(total * float(rate) + sign * reach, 0)) / 3 for sign in (-1, 1))
        largest = mp.findroot(lambda n, s=high: divergence(n, s), (high / q + 1, high / q * 4 + 400), solver="anderson")
        inside = divergence(low, low) <= 0 if low else True
        least = low if inside else mp.findroot(
            lambda n, s=low: divergence(n, s), (low * (1 + mpf(10) ** -9), low / q), solver="anderson"
        )  # fmt: skip
        expected = max(float(largest) * 3 - total, total - float(least) * 3)
        (found,) = scale.widths(np.array([total]), confidence, parts)
        assert found == pytest.approx(expected * (1 + 1e-9), rel=1e-11)
        assert scale.half_width(confidence, parts) == noise.half_width(confidence, parts) / Fraction(rate)
        assert scale.width(confidence, parts) == float(scale.half_width(confidence, parts))
    assert scale.unit_value == 2 / Fraction(rate)
    assert scale.sum_width(2, "0.95", 1) == math.inf
    assert (scale.rank("0.95"), scale.columns, scale.mechanism) == (None, 1, noise.mechanism)
    for wrong in ((0, limit), (1, limit), (Fraction(1, 2), -1)):
        with pytest.raises(InvalidParameter):
            SampledScale(noise, *wrong)  # type: ignore[arg-type]


def test_shares_are_those_of_the_theorem() -> None:
    """f_j ∝ C_j^{k/(k+1)}, C_j = Σ_i w_i·c_ij/u_i, to the sixteen-millionth part of the largest; none is below 2⁻¹⁰."""
    sizes = [3.0, 0.5, 20.0, 1e-9]
    results = [WantedResult({0: 2.0, 1: 1.0}, "1.5"), WantedResult({2: 0.25}, 4), WantedResult({1: 3.0, 3: 1.0})]
    for order in (1, 2):
        power = order / (order + 1)
        costs = [0.0] * 4
        alone = []
        for result in results:
            error = sum((effect * sizes[j]) ** power for j, effect in result.effect_by_total.items()) ** (1 / power)
            alone.append(error)
            for j, effect in result.effect_by_total.items():
                costs[j] += float(result.weight) * effect * sizes[j] / error
        optimal = [cost**power for cost in costs]
        units = [max(2**14, round(2**24 * each / max(optimal))) for each in optimal]
        shares = split_for_least_error(sizes, results, order)
        assert shares == tuple(Fraction(each, sum(units)) for each in units)
        assert units[3] == 2**14
        for result, error in zip(results, alone, strict=True):
            shared = sum(e * sizes[j] / float(shares[j]) ** (1 / order) for j, e in result.effect_by_total.items())
            assert error_ratio(sizes, result, shares, order) == pytest.approx(shared / error)
    assert split_for_least_error([1.0, 2.0], [WantedResult({0: 0.0})], 1) == even_shares(2) == (Fraction(1, 2),) * 2
    assert error_ratio([1.0], WantedResult({0: 0.0}), even_shares(1), 1) == 1.0
    for wrong in ({}, {0: -1.0}, {0: math.inf}, {0: math.nan}):
        with pytest.raises(InvalidParameter):
            WantedResult(wrong)
    with pytest.raises(InvalidParameter):
        WantedResult({0: 1.0}, 0)


def test_a_split_is_even_where_all_shares_are_equal() -> None:
    half, third = Fraction(1, 2), Fraction(1, 3)
    assert PriceSplit(((half,), (half,))).has_equal_shares
    assert PriceSplit(()).has_equal_shares
    assert not PriceSplit(((half,), (third, third))).has_equal_shares


def test_a_scale_keeps_few_half_widths_however_many_confidences_are_asked_for() -> None:
    scale = NoisyScale(1, sf.Laplace(3))
    widths = {index: scale.half_width(Fraction(index, 1000), 1) for index in range(800, 999)}
    assert len(scale._cached_half_widths) <= 64
    assert widths[950] == scale.half_width("0.95", 1) == sf.Laplace(3).error("0.95", 1)


def test_a_selection_by_rank_is_covered_by_ends_that_were_moved_far_enough() -> None:
    middle = Quantiles(["0.25", "0.5"], 1, (0, 99))
    lower, _ = middle.ends("0.5", "0.95")
    alone, ranged = (QuantileScale("0.5", middle, "0.5", *ends) for ends in ((), (lower,)))  # type: ignore[arg-type]
    assert (alone.unit_value, alone.probability, alone.columns, ranged.columns) == (
        Fraction(1, 2),
        Fraction(1, 2),
        1,
        3,
    )
    assert alone.width("0.95", 1) == alone.sum_width(1, "0.95", 1) == math.inf
    assert [ranged.width(confidence, 1) for confidence in ("0.9", "0.95", "0.99")] == [0, 0, math.inf]
    assert ranged.width("0.95", 20) == math.inf
    assert alone.rank("0.95") == math.ceil(middle.errors("0.95")[1]) != middle.errors("0.95")[1]
    least = Quantiles.minimum(1, (0, 99))
    extreme = QuantileScale(Fraction(1), least, Fraction(0))
    assert [extreme.width(confidence, 1) for confidence in ("0.95", "0.9999")] == [0, math.inf]
    assert extreme.rank("0.95") == least.offset + math.ceil(least.errors("0.95")[0])
    # ends of another selection do not cover the least value
    assert QuantileScale(Fraction(1), replace(least, offset=1), Fraction(0), lower).width("0.95", 1) == math.inf


def test_frequent_values_are_the_index_of_one_of_them() -> None:
    scale = FrequentValueScale(KeyColumn(Type.TEXT, ("a", "b")), FrequentValues(1))
    assert (scale.unit_value, scale.labels, scale.columns) == (1, ("a", "b"), 1)
    assert scale.width("0.95", 3) == scale.sum_width(2, "0.95", 3) == 0
    assert scale.rank("0.95") is None


def test_rounding_of_a_scale_is_exact() -> None:
    assert NoisyScale("0.5", sf.Laplace(2), rounding="0.25").rounding == Fraction(1, 4)  # type: ignore[arg-type]
