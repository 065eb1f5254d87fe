"""What went wrong elsewhere, and here before: each named, each on the whole path from text to totals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import tuples
from safety.worlds import question
from sfumato.curator.curators import Curator
from sfumato.curator.proposals.questions import Question
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit
from sfumato.release.prices import Price
from sfumato.release.pricing import price_release

_COLUMNS: dict[str, Any] = {
    "region": {"values": ["north", "south"]},
    "age": {"type": "integer", "bounds": [0, 100]},
    "cost": {"type": "real", "bounds": [0, 50], "grid": "0.5"},
    "wide": {"type": "real", "bounds": ["-1e16", "1e16"]},
    "diagnosis": {"type": "text"},
}
_PUBLIC = {
    "big": pa.table({"number": pa.array([2**53, 2**53 + 1, 7], pa.int64())}),
    "small": pa.table({"number": pa.array([1, 2, 3], pa.int64()), "label": ["a", "b", "c"]}),
    "pairs": pa.table({"region": ["north", "north", "south"], "weight": [1, 2, 3]}),
}
_ROW = {"who": 1.0, "region": "north", "age": 40, "cost": 10.0, "wide": float(2**53), "diagnosis": "flu"}


def _policy(rows: list[dict[str, Any]], *, units: bool = True, relation: str = "add-remove", **types: Any) -> Policy:
    kinds = {"who": pa.float64(), "region": pa.string(), "age": pa.int64(), "cost": pa.float64(), "wide": pa.float64()}
    kinds |= {"diagnosis": pa.string(), **types}
    source = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
    people = Table("people", source, _COLUMNS, id="who" if units else "row", max_rows=4 if units else None)
    public = {name: Table(name, table, public=True) for name, table in _PUBLIC.items()}
    budget = Budget(100, "1e-6", neighbours=relation)
    return Policy(PrivacyUnit("person", every_row=not units), budget, {"people": people, **public}, size=10)


def _asked(text: str, rows: list[dict[str, Any]] | None = None, **how: Any) -> Question:
    policy = _policy([_ROW] if rows is None else rows, **how)
    return question(DuckDB(policy), policy, text)


def _totals(asked: Question, strategy: Strategy | None = None) -> list[tuple[Fraction, ...]]:
    """Exact numbers, in the measures' own terms."""
    bounded = next(each for each in asked.bounding_options if strategy in (None, each.strategy))
    values = [each.unit_value for each in bounded.measures for _ in range(each.coordinates)]
    found = tuples(asked._context.engine.read(GroupTotals(bounded, asked.groups), 7))
    return [tuple(total * each for total, each in zip(row, values, strict=True)) for row in found]


def _reach(text: str, **how: Any) -> Fraction:
    """What one row can move a sum by."""
    (bounded,) = _asked(text, units=False, **how).bounding_options
    return bounded.measures[0].sensitivity.l1 * bounded.measures[0].unit_value


def test_a_redefined_column_has_lost_its_bounds() -> None:
    """OpenDP #2949: truncation kept after a column was redefined."""
    assert _reach("SELECT SUM(age) FROM people") == 100
    assert _reach("SELECT SUM(age) FROM (SELECT age * 1000 AS age FROM people) t") == 100_000
    assert _reach("WITH t AS (SELECT age + 900 AS age FROM people) SELECT SUM(age) FROM t") == 1000
    with pytest.raises(Unsupported) as raised:
        _asked("SELECT SUM(age) FROM (SELECT CAST(diagnosis AS INTEGER) AS age FROM people) t")
    assert raised.value.code == "unbounded"


def test_replacing_a_unit_moves_twice_what_it_holds() -> None:
    """OpenDP #2945: a group of k used where 2k is right."""
    text = "SELECT region, COUNT(*) FROM people GROUP BY region"
    added, replaced = (
        _asked(text, relation=each).bounding_options[0].measures[0] for each in ("add-remove", "replace")
    )
    assert replaced.sensitivity.l1 == 2 * added.sensitivity.l1


@pytest.mark.parametrize(
    "inner",
    [
        "SELECT age FROM people LIMIT 1",
        "SELECT DISTINCT age FROM people",
        "SELECT age FROM people ORDER BY age",
        "SELECT SUM(age) OVER () AS age FROM people",
        "SELECT ROW_NUMBER() OVER () AS age FROM people",
        "SELECT age FROM people GROUP BY age",
        "SELECT random() AS age FROM people",
        "SELECT (SELECT MAX(age) FROM people) AS age FROM people",
        "SELECT age FROM people TABLESAMPLE 10%",
        "SELECT age FROM people QUALIFY TRUE",
    ],
)
def test_what_is_not_row_by_row_is_refused(inner: str) -> None:
    """OpenDP #2944: a "row-by-row" function that was not."""
    with pytest.raises(Unsupported):
        _asked(f"SELECT SUM(LEAST(GREATEST(age, 0), 9)) FROM ({inner}) t")


def test_sums_are_exact_in_any_order() -> None:
    """OpenDP #2923: rounding makes a sum depend on the order of rows."""
    tiny = [{**_ROW, "who": float(who), "cost": 0.5} for who in range(999)]
    rows = [{**_ROW, "who": 5000.0, "cost": 50.0}, *tiny]
    for each in (rows, rows[::-1]):
        assert _totals(_asked("SELECT SUM(cost) FROM people", each, units=False)) == [(Fraction(1099, 2),)]


def test_nothing_is_free(tmp_path: Path) -> None:
    """OpenDP #2938 to #2940: "invariants" that were not. Empty groups get noise too, and totals are never exact."""
    with Curator(_policy([_ROW]), tmp_path / "l.ledger") as curator:
        asked = curator.sql("SELECT region, COUNT(*) AS n FROM people GROUP BY region")
        south = {asked.release(epsilon="0.1", fresh=True).rows[1] for _ in range(40)}
    assert {region for region, _ in south} == {"south"}
    assert len(south) > 5  # forty equal draws of this noise have a chance far below 1e-6


def test_a_nan_row_does_not_make_the_answer_nan() -> None:
    rows = [_ROW, {**_ROW, "who": 2.0, "cost": float("nan")}, {**_ROW, "who": 3.0, "cost": float("inf")}]
    # both are made from the distances to the two bounds, 0 and 50: 10 + 50 from one, 40 + 0 to the other
    assert _totals(_asked("SELECT SUM(cost), COUNT(cost) FROM people", rows)) == [(60, 40)]


def test_rows_without_an_owner_are_nobodys() -> None:
    """PipelineDP: NaN ids counted as a thousand units."""
    rows = [_ROW, *[{**_ROW, "who": float("nan")}] * 1000, *[{**_ROW, "who": None}] * 10]
    text = "SELECT COUNT(DISTINCT who), COUNT(*) FROM people"
    for strategy in (Strategy.CLIP_L1, Strategy.SAMPLE):
        assert _totals(_asked(text, rows), strategy) == [(1, 1)]


def test_zero_and_minus_zero_are_one_unit() -> None:
    rows = [{**_ROW, "who": 0.0}, {**_ROW, "who": -0.0}]
    assert _totals(_asked("SELECT COUNT(DISTINCT who) FROM people", rows)) == [(1,)]


def test_narrow_columns_do_not_overflow() -> None:
    """Sums of int8 that wrapped around."""
    rows = [{**_ROW, "age": 100} for _ in range(1000)]
    found = _asked("SELECT SUM(age), SUM(age * age) FROM people", rows, units=False, age=pa.int8())
    assert _totals(found) == [(100_000, 10_000_000)]


@pytest.mark.parametrize("selected", ["AVG(cost)", "AVG(cost), COUNT(*)", "SUM(cost) / COUNT(cost), AVG(age)"])
def test_every_aggregate_is_paid_for(selected: str) -> None:
    """SmartNoise #202: AVG charged once for the two numbers it is made of."""
    asked = _asked(f"SELECT {selected} FROM people")
    prepared = price_release(asked.bounding_options, Price(1))
    spent = sum(
        each.sensitivity.l1 / mechanism.scale
        for each, mechanism in zip(prepared.bounded.measures, prepared.totals_mechanisms, strict=True)
    )
    assert Fraction(99, 100) < spent <= 1
    assert prepared.curve.epsilon(0) <= 1
    for each in prepared.bounded.measures:
        assert each.coordinates == 1 or each.sensitivity.l1 == prepared.bounded.limits.total * (each.size << each.bits)


@pytest.fixture
def curator(tmp_path: Path) -> Iterator[Curator]:
    with Curator(_policy([_ROW]), tmp_path / "l.ledger") as made:
        yield made


@pytest.mark.parametrize(
    "price",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": float("inf")},
        {"epsilon": float("nan")},
        {"epsilon": 1e308},
        {"epsilon": 1, "delta": 2},
        {"epsilon": 1, "delta": -1},
        {"epsilon": 1, "delta": 1},
        {"rho": -1},
        {"rho": float("inf")},
        {"epsilon": True},
        {"epsilon": "1; DROP"},
        {},
    ],
)
def test_no_such_price(curator: Curator, price: dict[str, Any]) -> None:
    """δ = 2, ε = −1, ε = ∞ and ε = 1e308 were accepted elsewhere."""
    with pytest.raises(sf.errors.SfumatoError):
        curator.sql("SELECT COUNT(*) FROM people").release(**price)
    assert [line.kind for line in curator.ledger] == ["account-open", "source"]


def test_an_error_prints_no_cell(curator: Curator) -> None:
    """``CAST(diagnosis AS INTEGER)`` printed the diagnosis it could not cast."""
    answer = curator.sql("SELECT COUNT(*) FROM people WHERE CAST(diagnosis AS INTEGER) > 1").release(epsilon=1)
    assert "flu" not in repr(answer)
    assert len(answer.rows) == 1


def test_division_by_zero_where_a_person_is() -> None:
    text = "SELECT SUM(LEAST(1 / (age - 40), 9)), COUNT(1 / (age - 40)) FROM people"
    with pytest.raises(Unsupported):
        _asked(text)
    assert _totals(_asked("SELECT COUNT(1 / (age - 40)) FROM people")) == [(0,)]
    assert _totals(_asked("SELECT SUM(LEAST(GREATEST(1 / (age - 40), 0), 9)) FROM people")) == [(0,)]


def test_missing_bounds_are_a_refusal() -> None:
    """SmartNoise #317: no bounds meant no noise."""
    with pytest.raises(Unsupported, match="no declared bounds"):
        _asked("SELECT SUM(CAST(diagnosis AS INTEGER)) FROM people")


def test_joined_rows_are_counted_as_often_as_they_join() -> None:
    (bounded,) = _asked("SELECT COUNT(*) FROM people JOIN pairs USING (region)", units=False).bounding_options
    assert bounded.measures[0].sensitivity.l1 == 2
    (bounded,) = _asked(
        "SELECT COUNT(*) FROM people JOIN pairs USING (region) JOIN pairs q ON people.region = q.region", units=False
    ).bounding_options
    assert bounded.measures[0].sensitivity.l1 == 4


@pytest.mark.parametrize("on", ["wide = big.number", "big.number = wide + 0", "age / 1 = big.number"])
def test_a_real_joins_no_two_whole_numbers(on: str) -> None:
    """Here: 2^53 and 2^53 + 1 are one double, so one row met two of them while the claim was one."""
    with pytest.raises(Unsupported) as raised:
        _asked(f"SELECT COUNT(*) FROM people JOIN big ON {on}", units=False)
    assert raised.value.code == "join-real"


def test_a_real_may_join_small_whole_numbers() -> None:
    rows = [{**_ROW, "cost": 2.0}, {**_ROW, "cost": 2.5}]
    assert _totals(_asked("SELECT COUNT(*) FROM people JOIN small ON cost = small.number", rows, units=False)) == [(1,)]


def test_limits_are_tightened_only() -> None:
    asked = _asked("SELECT COUNT(*) FROM people")
    assert asked.limit(rows=2).bounding_options[0].limits.rows == 2
    with pytest.raises(InvalidParameter):
        asked.limit(rows=5)


def test_a_receipt_cannot_test_a_guess(tmp_path: Path) -> None:
    """Who knows every row but one must not find the last by trying: neither the data's version nor the line's hash is a
    function of what can be guessed.
    """
    receipts = []
    for index in range(2):
        with Curator(_policy([_ROW]), tmp_path / f"{index}.ledger") as curator:
            curator.sql("SELECT COUNT(*) FROM people").release(epsilon="0.1")
            (answer,) = [line for line in curator.ledger.lines() if line.kind == "answer"]
            receipts.append(json.loads(answer.body)["purchase"])
    assert receipts[0]["data"] == "version 1"
    assert receipts[0]["salt"] != receipts[1]["salt"]
    assert len(receipts[0]["salt"]) == 32
