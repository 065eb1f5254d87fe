"""What is added up once, counted instead or grouped by its code gives the totals that the plan means."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from engine.tables import policy_of, tuples
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import sampled_rows
from sfumato.engine.lowering.relational_form import integer_constant
from sfumato.plan.bounding import BoundedPlan, ContributionLimits, Strategy, candidate_bounded_plans
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.plan.sql.statements import parse
from sfumato.policy import Table

PLACES = ["north", 'it\'s "here"', "a|b", "Süd", "", "Ä"]
COSTS = [-3, None, 12, 5, 0, 4, None, 7, 10, 10]
ROWS = [(who % 4, PLACES[number % 6], COSTS[(who + number) % 10]) for number in range(6) for who in range(9)]
ASKED = (
    "SELECT place, COUNT(*), SUM(cost), AVG(cost), AVG(cost) FILTER (WHERE cost > 2), SUM(cost) FILTER (WHERE cost > 2)"
    " FROM t GROUP BY place"
)


def _engine(unit: str, **limits: int) -> DuckDB:
    source = pa.table({name: [row[index] for row in ROWS] for index, name in enumerate(("who", "place", "cost"))})
    columns = {"place": {"values": PLACES}, "cost": {"type": "integer", "bounds": [-2, 10]}}
    return DuckDB(policy_of(Table("t", source, columns, id=unit, **limits)))  # type: ignore[arg-type]


def _asked(engine: DuckDB, text: str, strategy: Strategy) -> BoundedPlan:
    plan, limits = parse(text, engine.catalog()).plan, ContributionLimits.from_table(engine._policy.tables["t"])
    return next(each for each in candidate_bounded_plans(plan, limits, len(PLACES)) if each.strategy is strategy)


def _reckoned(place: str) -> tuple[int, ...]:
    """Count; sum; both sums of the mean; both where the cost is above 2; the sum there."""
    clamped = [None if cost is None else max(-2, min(10, cost)) for _, each, cost in ROWS if each == place]
    costs = [cost for cost in clamped if cost is not None]
    dear = [cost for cost in costs if cost > 2]
    means = [sum(cost + 2 for cost in costs), sum(10 - cost for cost in costs)]
    means += [sum(cost + 2 for cost in dear), sum(10 - cost for cost in dear)]
    return (len(clamped), sum(costs), *means, sum(dear))


def test_sums_that_follow_from_others_are_exact() -> None:
    engine = _engine("row")
    bounded = _asked(engine, ASKED, Strategy.WHOLE)
    reading = GroupTotals(bounded, tuple((each,) for each in PLACES))
    assert tuples(engine.read(reading, 0)) == [_reckoned(each) for each in PLACES]
    assert len(re.findall(r"SUM\(", engine._statement(reading, 0))) == 6  # four different ones, two of them twice


@pytest.mark.parametrize("strategy", [Strategy.REWEIGHT, Strategy.CLIP_L1, Strategy.CLIP_L2, Strategy.SAMPLE])
def test_units_within_their_limits_are_not_changed(strategy: Strategy) -> None:
    """Whatever the keys are: their codes stand for the texts they are, however these are written."""
    engine = _engine("who", max_rows=50, max_groups=6)
    bounded = _asked(engine, ASKED, strategy)
    found: Any = tuples(engine.read(GroupTotals(bounded, tuple((each,) for each in PLACES)), 0))
    finer = [each.bits for each in bounded.measures for _ in range(each.coordinates)]
    assert "ENUM" in engine._statement(GroupTotals(bounded, ()), 0)
    assert found == [tuple(n << bits for n, bits in zip(_reckoned(each), finer, strict=True)) for each in PLACES]


def test_another_key_is_another_sample() -> None:
    """A statement is remembered only where no key is in it: 40 keys that keep the same rows are one chance in 3⁴⁰."""
    engine = _engine("who", max_rows=1, max_groups=1)
    places = tuple((each,) for each in PLACES)
    sampled = GroupTotals(_asked(engine, "SELECT place, COUNT(*) FROM t GROUP BY place", Strategy.SAMPLE), places)
    assert len({str(tuples(engine.read(sampled, 10**17 + key))) for key in range(40)}) > 1
    plain = GroupTotals(_asked(engine, "SELECT place, COUNT(*) FROM t GROUP BY place", Strategy.REWEIGHT), places)
    assert engine._statement(plain, 10**17) is engine._statement(plain, 10**17 + 1)
    assert engine._statement(sampled, 10**17) != engine._statement(sampled, 10**17 + 1)


def test_codes_are_ordered_as_their_texts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose ranks tie are ordered by their keys."""
    monkeypatch.setattr(sampled_rows, "mixed_rank", lambda *_: integer_constant(0))
    source = {"who": [1, 1], "a": ["a|b", "a"], "b": ["c", "b|c"]}
    kept = Counter[tuple[Any, ...]]()
    for values in (["a|b", "a"], ["a", "a|b"]):
        columns = {"a": {"values": values}, "b": {"values": ["c", "b|c"]}}
        engine = DuckDB(policy_of(Table("t", pa.table(source), columns, id="who", max_rows=1)))
        bounded = _asked(engine, "SELECT a, b, COUNT(*) FROM t GROUP BY a, b", Strategy.SAMPLE)
        kept[tuple(tuples(engine.read(GroupTotals(bounded, (("a", "b|c"), ("a|b", "c"))), 3)))] += 1
    assert kept == {((1,), (0,)): 2}  # "a" before "a|b", in whatever order they are declared
