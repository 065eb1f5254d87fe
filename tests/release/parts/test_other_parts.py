"""Parts that are not totals: what each measurement costs of its share, worked out by hand on stand-ins for plans."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.errors import Unsupported
from sfumato.mechanisms import FrequentValues, Gaussian, Laplace
from sfumato.plan.limits import Strategy
from sfumato.privacy import Neighbours, Sensitivity
from sfumato.release.parts import other_parts
from sfumato.release.parts.other_parts import DistinctValuesPart, FrequentValuesPart, QuantilesPart
from sfumato.release.parts.scales import NoisyScale
from sfumato.release.parts.shares import (
    EXTREME_TOTALS,
    NoiseStrength,
    NoisyTotals,
    rounded_down_to_13_digits,
)
from sfumato.release.prices import Price

F = Fraction
ZERO, MOST, LEAST = EXTREME_TOTALS


@pytest.fixture(autouse=True)
def plain_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ValueTable", "DistinctValueReading", "MatchedValueReading", "Measurement"):
        monkeypatch.setattr(other_parts, name, lambda *arguments, name=name: (name, *arguments))


def exact_draw() -> Any:
    return SimpleNamespace(draw=lambda totals: totals, reading=SimpleNamespace(extract=lambda totals: totals))


def test_frequent_values_share_the_epsilon_of_their_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four choices at a half of ε = 2 have ε = 1 together; of ρ each has a quarter of the half."""
    view = SimpleNamespace(rows_per_unit=3, neighbours=Neighbours.REPLACE)
    monkeypatch.setattr(other_parts, "ValueFrequencies", lambda reading: view if reading[0] == "ValueTable" else None)
    requests: Any = (SimpleNamespace(k=4, value="v", place=2), SimpleNamespace(k=4, value="v", place=0))
    bounded: Any = SimpleNamespace(measures=["measure"])
    part = FrequentValuesPart(bounded, requests, tuple("abcdef"))
    for strength, epsilon in (
        (NoiseStrength(Laplace, Price(2)), F(1)),
        (NoiseStrength(Laplace, None, F(3)), 4 * rounded_down_to_13_digits(F(1, 24))),
        (NoiseStrength(Gaussian, None, F(1, 2)), 4 * rounded_down_to_13_digits(2 * F((1 / 8) ** 0.5) * 2)),
    ):
        ((_, measured, selection),) = part.measurements(strength, [F(1, 2)])  # type: ignore[misc]
        assert (measured, selection) == (view, FrequentValues(epsilon, 3, 4, "replace"))
    assert (part.shares, part.share_index(1), part.numbers_per_group) == (1, 0, 6)
    assert part.numbers_of_hypothetical_group(9) == (0, 0)
    assert part.steps([0, 1]) == ("measure", "measure")
    assert part.draw_at_extreme_totals([exact_draw()]).tolist() == [[LEAST, ZERO], [ZERO, MOST], [MOST, LEAST]]
    priced: Any = SimpleNamespace(mechanism=SimpleNamespace(epsilon=F(2, 3)))
    assert part.accuracy_for_reuse([priced]) == {"values": F(3, 2)}
    assert FrequentValuesPart(bounded, requests, tuple("abcd")).numbers_per_group == 4
    monkeypatch.setattr(other_parts, "expression_sql", str)
    with pytest.raises(Unsupported) as refusal:
        FrequentValuesPart(bounded, requests, tuple("abc"))
    assert refusal.value.code == "too-few-values"
    without: Any = (SimpleNamespace(k=1, value="v", place=0),)
    with pytest.raises(Unsupported) as undeclared:
        FrequentValuesPart(bounded, without, ())
    assert undeclared.value.code == "too-few-values"
    assert undeclared.value.fix != refusal.value.fix
    assert FrequentValuesPart(bounded, without, ("a",)).numbers_per_group == 1


def sampled(rows_per_group: int = 5, total: int = 40, strategy: Strategy = Strategy.SAMPLE, moved: int = 12) -> Any:
    limits = SimpleNamespace(rows_per_group=rows_per_group, total=total)
    return SimpleNamespace(
        strategy=strategy, limits=limits, measures=[SimpleNamespace(sensitivity=Sensitivity(1, moved))]
    )


def test_numbers_of_a_hypothetical_group_are_those_expected_of_so_many_rows() -> None:
    """Three for each quantile, as it may have an interval; a sample has its share of the rows."""
    quantiles: Any = (SimpleNamespace(probability=F(1, 2)), SimpleNamespace(probability=F(1)))
    assert QuantilesPart(sampled(), quantiles).numbers_per_group == 6
    members = [
        SimpleNamespace(unit_value=F(1, 2), middle_row_contributions=(F(3), F(1, 4))),
        SimpleNamespace(unit_value=F(4), middle_row_contributions=(F(1),)),
    ]
    for sample, numbers in ((None, (60, 5, 2)), (F(1, 5), (12, 1, 0))):
        bounded: Any = SimpleNamespace(sample=sample, members=members)
        assert NoisyTotals(bounded).numbers_of_hypothetical_group(10) == numbers


def test_values_are_matched_where_that_counts_an_eighth_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """512 values and noise of an eighth: √(2·8) = 4 values of each unit."""
    monkeypatch.setattr(other_parts, "bound_distinct_values", lambda bounded, limit: ("matched", bounded, limit))
    requests: Any = (SimpleNamespace(value="v"),)
    strength = NoiseStrength(Laplace, Price(16))
    for plan, limit in ((sampled(), 4), (sampled(3), 3), (sampled(5, 32), 4), (sampled(1, 8), 1)):
        found = DistinctValuesPart(plan, requests, 512).at_strength(strength, [F(1, 2)])
        assert found == DistinctValuesPart(("matched", plan, limit), requests, 512, plan)  # type: ignore[arg-type]
    for plan, values in ((sampled(5, 31), 512), (sampled(), None), (sampled(strategy=Strategy.WHOLE), 512)):
        part = DistinctValuesPart(plan, requests, values)
        assert part.at_strength(strength, [F(1, 2)]) is part


def test_distinct_values_have_the_noise_of_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    view = SimpleNamespace(sensitivity=Sensitivity(4, 3))
    readings: list[Any] = []
    monkeypatch.setattr(other_parts, "DistinctCounts", lambda reading: readings.append(reading) or view)
    requests: Any = (SimpleNamespace(value="v"),)
    plan, matched = sampled(), sampled(moved=3)
    part = DistinctValuesPart(plan, requests)
    both = DistinctValuesPart(matched, requests, 512, plan)
    for each in (part, both):
        measurement = each.measurements(NoiseStrength(Laplace, Price(2)), [F(1, 4)])
        assert measurement == (("Measurement", view, Laplace(24)),)
    assert readings == [("DistinctValueReading", plan, "v", ()), ("MatchedValueReading", matched, "v", ())]
    drawn: Any = [SimpleNamespace(mechanism=Laplace(5))]
    assert part.scales_for_reuse(drawn) == part.scales(drawn) == both.scales(drawn) == (NoisyScale(F(1), Laplace(5)),)
    # one unit moves 12 values where they are sampled, and 3 where they are matched
    assert both.scales_for_reuse(drawn) == (NoisyScale(F(1), Laplace(20)),)
    assert (part.shares, part.share_index(7), part.numbers_per_group) == (1, 0, 1)
    assert part.numbers_of_hypothetical_group(9) == (9,)
    assert part.steps([0, 0]) == (plan.measures[0],) * 2
    assert part.draw_at_extreme_totals([exact_draw()]).tolist() == np.array([[ZERO], [MOST], [LEAST]]).tolist()
