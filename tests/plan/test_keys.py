"""Groups come from the policy: every key is there, impossible ones are not."""

from __future__ import annotations

import datetime as dt

import pytest

import sfumato as sf
from plan.described import CATALOG, VISITS
from sfumato.engine.duckdb import DuckDB
from sfumato.plan.keys import groups
from sfumato.plan.nodes import GroupKey
from sfumato.plan.sql import parse


@pytest.fixture(scope="module")
def engine() -> DuckDB:
    import pyarrow

    columns = {name: pyarrow.array([], pyarrow.string()) for name in VISITS}
    empty = pyarrow.table({**columns, "patient_id": pyarrow.array([], pyarrow.int64())})
    table = sf.Table("visits", empty, VISITS, id="patient_id", max_rows=1)
    return DuckDB(sf.Policy(sf.PrivacyUnit("patient"), sf.Budget(1), {"visits": table}))


def keys(engine: DuckDB, expressions: str) -> tuple[GroupKey, ...]:
    query = parse(f"SELECT COUNT(*) AS n FROM visits GROUP BY {expressions}", CATALOG)
    return groups(query.plan.keys, engine.values)


def test_no_group_is_one_group(engine: DuckDB) -> None:
    assert groups((), engine.values) == ((),)


def test_declared_values_are_the_keys_in_their_order(engine: DuckDB) -> None:
    assert keys(engine, "region") == (("north",), ("south",), ("east",), ("west",))


def test_a_bucket_of_a_bounded_column(engine: DuckDB) -> None:
    assert keys(engine, "FLOOR(age / 10) * 10") == tuple((10 * k,) for k in range(12))


def test_a_case_has_the_values_it_can_have(engine: DuckDB) -> None:
    assert set(keys(engine, "CASE WHEN age < 18 THEN 'child' WHEN age > 200 THEN 'giant' ELSE 'adult' END")) == {
        ("child",),
        ("adult",),
    }


def test_months_of_a_declared_year(engine: DuckDB) -> None:
    found = keys(engine, "DATE_TRUNC('month', day)")
    assert found[0] == (dt.date(2024, 1, 1),)
    assert len(found) == 12


def test_keys_over_one_column_are_found_together(engine: DuckDB) -> None:
    """Months and quarters of the same day: twelve pairs, not forty-eight."""
    assert len(keys(engine, "DATE_TRUNC('month', day), EXTRACT(quarter FROM day)")) == 12
    assert len(keys(engine, "EXTRACT(quarter FROM day), region")) == 16


def test_hours_of_a_declared_time(engine: DuckDB) -> None:
    assert len(keys(engine, "DATE_TRUNC('hour', at)")) == 48
    assert len(keys(engine, "EXTRACT(hour FROM at)")) == 24
    assert len(keys(engine, "DATE_TRUNC('minute', at)")) == 48 * 60


def test_null_is_a_key_only_where_it_may_be(engine: DuckDB) -> None:
    assert keys(engine, "urgent") == ((False,), (True,))
    assert (None,) in keys(engine, "CASE WHEN age > 5 THEN 'old' END")
    assert ("none",) in keys(engine, "COALESCE(region, 'none')")


@pytest.mark.parametrize("text", ["ward", "score", "LOWER(ward)", "cost", "at"])
def test_unknown_keys_are_refused(engine: DuckDB, text: str) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        keys(engine, text)
    assert refusal.value.code == "unknown-keys"


def test_too_many_groups_are_refused(engine: DuckDB) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        keys(engine, "age, day, hospital")
    assert refusal.value.code == "too-many-groups"
