"""Descriptions: what there is to ask, from the policy alone, and questions that can be copied as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from engine.tables import DATA
from sfumato.curator.describing import describe_policy, example_questions, open_without_data
from sfumato.policy import read

HEAD = """[unit]
name = "patient"
budget = {{ epsilon = 3{delta} }}
{unit}
"""
VISITS = """[tables.visits]
source = "nowhere.csv"
id = {id}
{limits}
[tables.visits.columns]
"day of visit" = {{ type = "date", bounds = ["2020-01-01", "2024-12-31"] }}
"Größe" = {{ type = "real", bounds = [0, 2.5] }}
select = {{ values = ["it's", 'a "word"'] }}
month = {{ type = "integer", bounds = [1, 12] }}
count = {{ type = "integer", bounds = [-5, 5000] }}
sick = {{ type = "boolean" }}
since = {{ values = [2020-01-01, 2021-01-01] }}
seen = {{ type = "timestamp" }}
note = {{ type = "text" }}
free = {{ type = "integer" }}
"""
PATHS = """
[tables.drugs]
source = "nowhere.parquet"
id = { via = "visits", on = "visit" }
max_rows = 7
[tables.drugs.columns]
name = { type = "text" }
dose = { type = "real", bounds = [0, 100] }
tags = { values = ["x", "y"], most_items = 3 }
"""
POLICIES = {
    "ids": HEAD.format(delta=", delta = 1e-6", unit="") + VISITS.format(id='"who"', limits="max_rows = 20"),
    "groups": HEAD.format(delta="", unit="size = 5\nneighbours = 'replace'")
    + VISITS.format(id='"who"', limits="max_rows = 20\nmax_groups = 3\nmax_rows_per_group = 9"),
    "rows": HEAD.format(delta=", delta = 1e-6", unit="").replace('"patient"', '"row"')
    + VISITS.format(id='"row"', limits=""),
    "declared id": HEAD.format(delta="", unit="") + VISITS.format(id='"month"', limits="max_rows = 1"),
    "paths": HEAD.format(delta=", delta = 1e-6", unit="id_type = 'integer'")
    + VISITS.format(id='"who"', limits="max_rows = 20").replace("note = {", "visit = {")
    + PATHS,
}

POLICIES["days"] = POLICIES["ids"].replace("[tables", 'period = { column = "day of visit", every = "day" }\n[tables', 1)
POLICIES["accounts"] = POLICIES["days"].replace("delta = 1e-6", 'delta = 1e-6, per = "year"')


def policy(folder: Path, kind: str) -> sf.Policy:
    (folder / "clinic.toml").write_text(POLICIES[kind])
    return read(folder / "clinic.toml")


@pytest.fixture(params=POLICIES, scope="module")
def described(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[sf.Policy, Any]:
    """A policy of each kind, and what is told of it."""
    declared = policy(tmp_path_factory.mktemp("described"), request.param)
    return declared, describe_policy(declared)


def test_every_question_to_copy_is_understood_and_priced(described: tuple[sf.Policy, Any]) -> None:
    declared, descriptions = described
    with open_without_data(declared) as alone:
        for table in alone.catalog.tables.values():
            asked = example_questions(declared, table)
            assert len(asked) >= 3
            for each in asked:
                assert alone.question(each.sql).error(epsilon=1, delta=each.delta).columns
            questions = descriptions[table.name].questions
            assert [each.sql for each in questions] == [each.sql for each in asked]
            assert all(each.error and each.price for each in questions)


def test_every_column_is_named_and_no_internal_value_is_shown(described: tuple[sf.Policy, Any]) -> None:
    declared, descriptions = described
    said = str(descriptions)
    for table in declared.tables.values():
        assert all(name in said for name in (*table.columns, *table.lists))
    assert not {"Domain(", "Type.", "Fraction(", "<", "None"} & set(said.replace("(", "( ").split())
    assert "Domain(" not in said


def test_no_source_and_no_ledger_are_opened_or_made(tmp_path: Path) -> None:
    describe_policy(policy(tmp_path, "ids"))
    assert [each.name for each in tmp_path.iterdir()] == ["clinic.toml"]


def test_it_is_said_what_stands_in_the_way(tmp_path: Path) -> None:
    visits = describe_policy(policy(tmp_path, "ids"))["visits"]
    beyond = "rows beyond that count less or not at all, and ± does not cover this"
    assert visits.about == f"private; at most 20 rows of one patient count; {beyond}"
    assert "needs a δ" in visits.columns["note"]
    assert "no bounds" in visits.columns["free"]
    assert "COUNT(DISTINCT who)" in visits.columns["who"]
    needs = [each for each in visits.questions if each.delta]
    assert [each.price for each in needs] == ["ε = 1, δ = 1e-09"]
    without = describe_policy(policy(tmp_path, "groups"))["visits"]
    assert not any(each.delta for each in without.questions)
    assert "this account has no δ to find them" in without.columns["note"]


def test_periods_are_said(tmp_path: Path) -> None:
    days = describe_policy(policy(tmp_path, "days"))["visits"]
    assert days.about.startswith(
        "private; at most 20 rows of one patient in one day count; rows beyond that count less or not at all"
    )
    assert days.columns["who"] == "identifies the patient of a row"
    accounts = describe_policy(policy(tmp_path, "accounts"))["visits"]
    assert accounts.questions[0].price == "ε = 1 in each of 5 accounts: 5 years from 2020 to 2024"
    endless = POLICIES["accounts"].replace(', bounds = ["2020-01-01", "2024-12-31"]', "")
    (tmp_path / "clinic.toml").write_text(endless)
    (one,) = describe_policy(tmp_path / "clinic.toml")["visits"].questions
    assert one.price == "ε = 1 in the account of 2024"


def test_a_curator_says_the_same(tmp_path: Path) -> None:
    path = sf.example(tmp_path / "flights")
    alone = describe_policy(path)
    with sf.open(path) as made:
        tables, printed = made.tables, repr(made)
        spent = made.budget.remaining["pure"]
    assert list(tables) == ["flights", "airlines"]
    assert tables["flights"] == alone["flights"]
    assert len(tables) == 2
    assert spent == 3
    assert "flights protects all rows of one plane, add-remove neighbours: ε = 3, δ = 1e-06 for life" in printed
    assert "SELECT COUNT(*) AS n FROM flights" in printed
    assert printed == repr(made), "a curator that is closed can still be printed"
    assert "<p>flights protects" in tables._repr_html_()
    assert "<strong>flights: private" in tables["flights"]._repr_html_()
    assert tables._ipython_key_completions_() == ["flights", "airlines"]


def test_a_table_is_found_by_its_name_in_any_case(tmp_path: Path) -> None:
    tables = describe_policy(policy(tmp_path, "ids"))
    assert tables.find("VISITS") is tables["visits"]
    with pytest.raises(sf.Unsupported, match="no declared table is called visit"):
        tables.find("visit")


def test_a_public_table_is_described_by_what_the_policy_says_of_it(tmp_path: Path) -> None:
    airlines = f'[tables.airlines]\nsource = "{DATA / "flights" / "airlines.parquet"}"\npublic = true\n'
    (tmp_path / "clinic.toml").write_text(POLICIES["ids"] + airlines)
    assert "DESCRIBE lists them" in describe_policy(tmp_path / "clinic.toml")["airlines"].about
    (tmp_path / "clinic.toml").write_text(POLICIES["ids"] + airlines + 'columns = { carrier = { type = "text" } }\n')
    assert describe_policy(tmp_path / "clinic.toml")["airlines"].columns == {"carrier": "text"}


@pytest.mark.parametrize(
    ("column", "years"),
    [
        ('yearID = { type = "integer", bounds = [1000, 2020] }', True),
        ('born = { type = "integer", bounds = [1900, 2020] }', True),
        ('steps = { type = "integer", bounds = [0, 2020] }', False),
        ('kcal = { type = "integer", bounds = [1200, 2000] }', False),
        ('years = { type = "integer", bounds = [0, 110] }', False),
        ('year = { type = "real", bounds = [1900, 2020] }', False),
    ],
)
def test_years_are_counted_by_decade_and_not_added_up(tmp_path: Path, column: str, years: bool) -> None:
    name = column.partition(" ")[0]
    declared = (
        HEAD.format(delta="", unit="") + f'[tables.t]\nsource = "t.csv"\nid = "row"\n[tables.t.columns]\n{column}'
    )
    (tmp_path / "clinic.toml").write_text(declared.replace('"patient"', '"row"'))
    asked = [each.sql for each in describe_policy(tmp_path / "clinic.toml")["t"].questions]
    assert f"SELECT MEDIAN({name}) AS middle FROM t" in asked
    assert any("decade" in each for each in asked) is years
    assert any(f"AVG({name})" in each or f"SUM({name})" in each for each in asked) is not years
