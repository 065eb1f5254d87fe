"""A policy written down and read again is the same policy."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.errors import InvalidPolicy
from sfumato.policy import Domain, Policy, Table, Via, read
from sfumato.policy.domains import is_name
from sfumato.policy.toml_files import to_toml
from sfumato.privacy import Budget, PrivacyUnit

plain = st.from_regex(r"[A-Za-rt-z][A-Za-z0-9_]{0,8}", fullmatch=True)
names = plain | st.text(max_size=9).filter(is_name)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
reals = st.fractions(-1000, 1000)
grids = st.sampled_from([None, Fraction(1, 100), Fraction(1, 3)])
moments = st.datetimes(dt.datetime(1900, 1, 1))


def ordered(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return st.tuples(values, values).map(lambda pair: (min(pair), max(pair)))


domains = st.one_of(
    st.builds(Domain, st.just("integer"), bounds=ordered(st.integers(-(2**62), 2**62)), nullable=st.booleans()),
    st.builds(Domain, st.just("real"), bounds=ordered(reals), grid=grids),
    st.builds(Domain, st.just("text"), values=st.none() | st.lists(texts, min_size=1, unique=True).map(tuple)),
    st.builds(Domain, st.just("text"), max_length=st.none() | st.integers(1, 10_000)),
    st.builds(Domain, st.just("text"), values=st.lists(texts, min_size=1, unique=True).map(tuple), other=texts),
    st.builds(Domain, st.just("boolean"), values=st.sampled_from([None, (True,), (False, True)])),
    st.builds(Domain, st.just("date"), bounds=ordered(st.dates(dt.date(1, 1, 1)))),
    st.builds(Domain, st.just("timestamp"), bounds=ordered(moments)),
    st.builds(Domain, st.just("timestamp"), values=st.lists(moments, min_size=1, unique=True).map(tuple)),
    st.builds(Domain, st.just("real"), values=st.lists(reals, min_size=1, unique=True).map(tuple)),
)  # fmt: skip
budgets = st.sampled_from(
    [Budget("0.1"), Budget(3, "1e-6"), Budget(1, "1e-9", reserve="1e-10"), Budget(1, "1e-6", order=30)]
)


@settings(max_examples=40)
@given(st.dictionaries(names, domains, min_size=1, max_size=5), budgets, plain, st.dictionaries(texts, st.just("1/3")))
def test_reading_inverts_drafting(
    columns: dict[str, Domain], budget: Budget, unit: str, analysts: dict[str, Any]
) -> None:
    if len({name.lower() for name in columns}) < len(columns):
        return
    with TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "policy.toml"
        table = Table("visits", path.parent / "it's a file.parquet", columns, id="person", max_rows=3, row_ceiling=99)
        shares = {name: share for name, share in analysts.items() if name.strip() and name.isprintable()}
        policy = Policy(PrivacyUnit(unit), budget, {"visits": table}, size=7, analysts=shares, path=path)
        path.write_text(to_toml(policy, path.parent), encoding="utf-8")
        assert read(path) == policy


def test_row_units_and_public_tables_are_drafted(tmp_path: Path) -> None:
    tables = {
        "visits": Table("visits", tmp_path / "clinic.duckdb", {"age": {"type": "integer"}}, id="row", relation="v"),
        "wards": Table("wards", tmp_path / "wards.csv", public=True),
    }
    policy = Policy(PrivacyUnit("visit", every_row=True), Budget(1), tables, path=tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text(to_toml(policy, tmp_path))
    assert read(tmp_path / "p.toml") == policy


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "integer", "bounds": [1, 16], "bins": 16},
        {"type": "integer", "bounds": [0, 110], "bins": 7, "levels": [[0, 110]]},
        {"type": "integer", "bounds": [0, 110], "bins": [0, 18, 65, 110], "levels": [[0, 65, 110]], "spikes": [0, 70]},
        {"type": "real", "bins": ["0.5", 2, 3]},
        {"type": "date", "bounds": [dt.date(2020, 1, 15), dt.date(2021, 3, 1)], "bins": "month", "levels": ["year"]},
        {"type": "date", "bounds": [dt.date(2020, 1, 1), dt.date(2020, 1, 5)], "bins": 5},
    ],
)
def test_bins_are_written_and_read_back(tmp_path: Path, declared: dict[str, Any]) -> None:
    tables = {"visits": Table("visits", tmp_path / "v.csv", {"column": declared}, id="row")}
    policy = Policy(PrivacyUnit("visit", every_row=True), Budget(1), tables, path=tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text(to_toml(policy, tmp_path))
    assert read(tmp_path / "p.toml") == policy


@pytest.mark.parametrize(
    "declared",
    [
        {"values": ["Oslo", "Rome", "Bergen"], "levels": {"north": ["Oslo", "Bergen"], "the south": ["Rome"]}},
        {"values": ["b", "a", "c"], "levels": [["a", "c"], ["b"]]},
        {"levels": {"A": {"A0": ["A00", "A01"], "A1": ["A10"]}, "B": {"B0": ["B00"]}}},
        {"values": ["a", "b", "rest"], "other": "rest", "levels": {"x": ["b"], "y": ["a"]}},
        {"values": ["a", "b", "rest"], "other": "rest", "levels": [["rest"], ["b", "a"]]},
        {"type": "integer", "values": [1, 2, 3], "levels": [[3, 1], [2]]},
    ],
)
def test_levels_of_listed_values_are_written_and_read_back(tmp_path: Path, declared: dict[str, Any]) -> None:
    tables = {"visits": Table("visits", tmp_path / "v.csv", {"column": declared}, id="row")}
    assert tables["visits"].codings["column"].levels
    policy = Policy(PrivacyUnit("visit", every_row=True), Budget(1), tables, path=tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text(to_toml(policy, tmp_path))
    assert read(tmp_path / "p.toml") == policy


def test_what_cannot_be_and_what_decides_what_is_written_and_read_back(tmp_path: Path) -> None:
    columns = {"age": {"type": "integer", "bounds": [0, 110], "bins": 11}, "band": {"values": ["child", "adult"]}}
    table = Table(
        "people",
        tmp_path / "p.csv",
        columns,
        id="row",
        impossible=["age > 20 AND band = 'child'"],
        implies={"age": "band"},
    )
    policy = Policy(PrivacyUnit("person", every_row=True), Budget(1), {"people": table}, path=tmp_path / "p.toml")
    (tmp_path / "p.toml").write_text(to_toml(policy, tmp_path))
    assert read(tmp_path / "p.toml") == policy


def test_a_table_in_memory_cannot_be_drafted(tmp_path: Path) -> None:
    table = Table("visits", [[1]], {"age": {"type": "integer"}}, id="row")
    policy = Policy(PrivacyUnit("visit", every_row=True), Budget(1), {"visits": table})
    with pytest.raises(InvalidPolicy, match="in memory"):
        to_toml(policy, tmp_path)


def test_paths_periods_and_the_type_of_ids_are_written_too(tmp_path: Path) -> None:
    day = {"day": {"type": "date"}, "admitted": {"type": "timestamp"}, "tags": {"values": ["a"], "most_items": 5}}
    tables = {
        "visits": Table("visits", tmp_path / "v.csv", day, id="person", max_rows=3),
        "drugs": Table("drugs", tmp_path / "d.csv", day, id={"via": "visits", "on": "visit"}, max_rows=2),
        "doses": Table(
            "doses", tmp_path / "o.csv", day, id=Via("drugs", "drug", "number"), max_rows=2, period="admitted"
        ),
    }
    unit = PrivacyUnit("patient", period="week", period_column="day")
    path = tmp_path / "policy.toml"
    policy = Policy(unit, Budget(1), tables, path=path, id_type="text")
    path.write_text(to_toml(policy, tmp_path), encoding="utf-8")
    assert read(path) == policy
    assert policy.period_column("doses") == "admitted"
    assert [str(each.id) for each in tables.values()] == ["person", "visit = visits.visit", "drug = drugs.number"]
