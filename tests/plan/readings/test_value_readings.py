"""How many different values one unit can have: the sample of pairs keeps no more."""

from __future__ import annotations

import datetime as dt

import pytest

from sfumato.plan.limits import Limits
from sfumato.plan.readings.value_readings import pair_limits
from sfumato.plan.values.expressions import Column, Field
from sfumato.policy import Domain, Type

DAY = dt.date(2024, 2, 28)
VALUES = Field(0, "visits", "value")


@pytest.mark.parametrize(
    ("domain", "most"),
    [
        (Domain(Type.TEXT, values=("a", "b", "c")), 3),
        (Domain(Type.INTEGER, values=(4,)), 1),
        (Domain(Type.BOOLEAN), 2),
        (Domain(Type.INTEGER, bounds=(0, 4)), 5),
        (Domain(Type.INTEGER, bounds=(-3, -3)), 1),
        (Domain(Type.DATE, bounds=(DAY, dt.date(2024, 3, 1))), 3),
        (Domain(Type.REAL, bounds=(0, 1)), 9),
        (Domain(Type.TEXT), 9),
        (Domain(Type.INTEGER, bounds=(0, 8)), 9),
        (Domain(Type.INTEGER, bounds=(0, 100)), 9),
    ],
    ids=str,
)
def test_pairs_are_limited_by_the_values_there_can_be(domain: Domain, most: int) -> None:
    limits = Limits(rows=20, groups=2, rows_per_group=9)
    assert pair_limits(limits, Column(VALUES, domain)).rows_per_group == most
