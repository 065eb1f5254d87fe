"""Totals are found by their keys, whatever the order, number and types of the keys."""

from __future__ import annotations

import math
import random
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.tables import policy_of
from sfumato.engine import arrays
from sfumato.engine.arrays import _shared_codes, align_totals
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import EngineFailed
from sfumato.plan.bounding import candidate_bounded_plans
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table

KEYS: list[list[Any]] = [[0, 1, None], ["a", "b", "c", None], [True, False], [0.5, math.inf, 1.0]]


@pytest.mark.parametrize("columns", [1, 2, 4])
@pytest.mark.parametrize("largest", [arrays.LARGEST_INTEGER, 5])
def test_keys_share_a_number_if_and_only_if_they_are_equal(
    columns: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the number of combinations passes what a number holds, and they are numbered anew."""
    monkeypatch.setattr(arrays, "LARGEST_INTEGER", largest)
    generator = random.Random(columns)
    rows, groups = ([tuple(map(generator.choice, KEYS[:columns])) for _ in range(count)] for count in (40, 60))
    first, second = _shared_codes(list(map(list, zip(*rows, strict=True))), list(map(list, zip(*groups, strict=True))))
    keys, codes = [*rows, *groups], np.concatenate([first, second])
    equal = [[key == other for other in keys] for key in keys]
    assert (np.equal.outer(codes, codes) == equal).all()
    assert (len(first), len(second)) == (40, 60)


def test_a_group_that_arrives_twice_has_no_total() -> None:
    """Neither row is its total: another group may be short by the other one."""
    table = Table("t", pa.table({"who": [0], "place": ["a"]}), {"place": {"values": ["a", "b"]}}, id="who", max_rows=1)
    with closing(DuckDB(policy_of(table))) as engine:
        plan = parse("SELECT place, COUNT(*) FROM t GROUP BY place", engine.catalog()).plan
    bounded = candidate_bounded_plans(plan, ContributionLimits.from_table(table), 2)[0]
    reading = GroupTotals(bounded, (("a",), ("b",)))
    assert align_totals([("b", 3)], reading).tolist() == [[0], [3]]
    with pytest.raises(EngineFailed):
        align_totals([("b", 3), ("a", 1), ("b", 1)], reading)
