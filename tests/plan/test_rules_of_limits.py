"""Small rules of limits and measures, each by hand."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.errors import InvalidParameter
from sfumato.plan import bounding
from sfumato.plan.aggregates.spread import SumOfProducts
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.readings import dense_readings
from sfumato.plan.readings.total_readings import WeightMatrix

LIMITS = ContributionLimits(6, 3, 2)


@pytest.mark.parametrize("counts_units", [False, True])
@pytest.mark.parametrize("proven", [None, 1, 4])
@pytest.mark.parametrize("groups", [1, 5])
def test_strategies_are_listed_cheapest_first(
    monkeypatch: pytest.MonkeyPatch, counts_units: bool, proven: int | None, groups: int
) -> None:
    """A plan whose rows of a unit are proven needs none, but units in several groups are counted once in each."""
    monkeypatch.setattr(bounding, "proven_rows_per_unit", lambda _: proven)
    monkeypatch.setattr(bounding, "_bound_plan", lambda _, *rest: rest)
    measures = [SimpleNamespace(once_per_unit=False), SimpleNamespace(once_per_unit=counts_units)]
    plan: Any = SimpleNamespace(source="rows", measures=measures)
    clips = [Strategy.CLIP_L1, Strategy.CLIP_L2]
    if proven is not None and (proven == 1 or not counts_units):
        strategies = [Strategy.WHOLE]
    elif counts_units:
        strategies = [*clips, Strategy.SAMPLE]
    elif groups == 1:
        strategies = [*clips, Strategy.REWEIGHT, Strategy.SAMPLE]
    else:
        strategies = [Strategy.REWEIGHT, *clips, Strategy.SAMPLE]
    limits = LIMITS if proven is None else ContributionLimits(proven, proven, proven)
    found = bounding.candidate_bounded_plans(plan, LIMITS, groups)
    assert found == tuple((strategy, limits, groups) for strategy in strategies)


def test_steps_of_values_that_a_server_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are cells for all groups, within two ends; fewer for groups that are found in the data."""
    own: Any = {
        name: SimpleNamespace(source=name, public=name == "calendar") for name in ("calendar", "file", "server")
    }
    monkeypatch.setattr(dense_readings, "is_on_server", lambda source: source in ("calendar", "server"))
    least, most = dense_readings._LEAST_STEPS, dense_readings._MAX_STEPS
    cells = dense_readings.MAX_VALUE_CELLS

    def limit(groups: int | None, *tables: str) -> int | None:
        policy: Any = SimpleNamespace(tables={name: own[name] for name in tables})
        return dense_readings.ranked_step_limit(policy, groups)

    for groups in (None, 1, 10**6):
        assert limit(groups, "calendar", "file") is None
        assert limit(groups) is None
    assert limit(None, *own) == dense_readings._STEPS_OF_DISCOVERED
    assert limit(0, *own) == limit(1, *own) == min(most, cells)
    middle = cells // (most // 2)
    assert least < cells // middle < most
    assert limit(middle, *own) == cells // middle
    assert limit(10**12, *own) == least


def test_weights_are_kept_as_tuples() -> None:
    rows: Any = [[1, -2, 0], [3, 4, 10**12]]
    matrix = WeightMatrix(rows)
    assert matrix.rows == ((1, -2, 0), (3, 4, 10**12))
    assert hash(matrix) == hash(WeightMatrix(((1, -2, 0), (3, 4, 10**12))))
    assert (matrix.max_column_range_with_zero, matrix.max_row_range_with_zero) == (10**12, 10**12)
    for wrong in ([], [[]], [[1, 2], [3]], [[1.5]], [[True]], [[10**12 + 1]], [[-(10**12) - 1]]):
        with pytest.raises(InvalidParameter):
            WeightMatrix(wrong)  # type: ignore[arg-type]


def test_a_row_of_a_product_contributes_a_sixth_of_the_largest() -> None:
    sums: Any = object.__new__(SumOfProducts)
    assert sums.middle_row_contributions(Fraction(1, 4), -9, 12) == (Fraction(1, 2),)
