"""Advice: which limit or bound makes the error, by the forecasts of the tighter questions themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest

import sfumato as sf
from sfumato.curator.previews.advising import Advice, ladder

COLUMNS = {
    "ward": {"values": ["A", "B", "C"]},
    "cost": {"type": "integer", "bounds": (0, 1000)},
    "debt": {"type": "integer", "bounds": (-800, 100)},
    "year": {"type": "integer", "bounds": (1990, 2020)},
}


def curator(folder: Path, rows: int = 0, *, neighbours: str = "add-remove", **limits: int) -> sf.Curator:
    held = {
        "who": list(range(rows)),
        "ward": ["A"] * rows,
        "cost": [7] * rows,
        "debt": [0] * rows,
        "year": [2000] * rows,
    }
    types = [("who", pyarrow.int64()), ("ward", pyarrow.string())]
    schema = pyarrow.schema([*types, *((name, pyarrow.int64()) for name in ("cost", "debt", "year"))])
    table = sf.Table("visits", pyarrow.table(held, schema=schema), COLUMNS, id="who", **(limits or {"max_rows": 20}))
    budget = sf.Budget(100, "1e-6", neighbours=sf.Neighbours(neighbours))
    policy = sf.Policy(sf.PrivacyUnit("patient"), budget, {"visits": table}, size=100)
    return sf.Curator(policy, folder / f"{rows}.ledger")


@pytest.fixture
def visits(tmp_path: Path) -> Iterator[sf.Curator]:
    with curator(tmp_path) as made:
        yield made


COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("question", "change"),
    [
        (COUNT, {"rows": 5}),
        ("SELECT SUM(cost) AS total FROM visits", {"rows": 5}),
        ("SELECT AVG(cost) AS mean FROM visits", {"rows": 5}),
        ("SELECT ward, COUNT(*) AS n, SUM(cost) AS total FROM visits GROUP BY ward", {"rows": 5}),
    ],
)
def test_what_is_advised_is_what_the_tighter_question_is_told(
    tmp_path: Path, neighbours: str, question: str, change: dict[str, int]
) -> None:
    with curator(tmp_path, neighbours=neighbours) as made:
        ask = made.sql(question)
        tip = ask.advise(epsilon="0.5").tips[0]
        assert tip.change == ".limit(rows=5)"
        for limited, width in ((ask, tip.now), (ask.limit(**change), tip.then)):  # type: ignore[union-attr]
            assert width.split(" in a group of")[0] in str(limited.error(epsilon="0.5"))


def test_a_limit_of_twenty_makes_95_per_cent(visits: sf.Curator) -> None:
    said = str(visits.sql("SELECT SUM(cost) AS total FROM visits").advise(epsilon=1).tips[0])
    assert said == "max_rows 20 causes 95 % of this error; .limit(rows=5) gives ±14,980 instead of ±59,920"


def test_the_line_stands_in_the_explanation_as_text_html_and_json(visits: sf.Curator) -> None:
    ask = visits.sql(COUNT)
    told = ask.explain(epsilon=1)
    assert told.advice == str(ask.advise(epsilon=1).tips[0])
    assert f"\nadvice   {told.advice}\n" in str(told)
    assert told.advice in told._repr_html_()
    assert sf.curator.Explanation.from_json(told.to_json()) == told


@pytest.mark.parametrize(
    ("asked", "change"),
    [
        ("SUM(cost)", "SUM(LEAST(cost, 500))"),
        ("SUM(debt)", "SUM(GREATEST(debt, -400))"),
        ("AVG(cost)", "AVG(LEAST(cost, 500))"),
    ],
)
def test_a_bound_that_is_advised_can_be_written_so(visits: sf.Curator, asked: str, change: str) -> None:
    ask = visits.sql(f"SELECT {asked} AS x FROM visits")
    tip = next(each for each in ask.advise(epsilon=1).tips if each.change == change)
    written = visits.sql(f"SELECT {change} AS x FROM visits").error(epsilon=1)
    assert tip.then in str(written)


def test_a_bound_is_not_moved_out_of_the_range(visits: sf.Curator) -> None:
    """Half of 2020 is no year: a sum of years has no bound to narrow."""
    tips = visits.sql("SELECT SUM(year) AS x FROM visits").advise().tips
    assert [each.change for each in tips] == [".limit(rows=5)"]


def test_a_value_that_has_no_name_to_write_gets_no_bound(visits: sf.Curator) -> None:
    per_unit = "SELECT AVG(n) AS x FROM (SELECT who, COUNT(*) AS n FROM visits GROUP BY who)"
    for text in (per_unit, "SELECT SUM(LEAST(cost, 9)) AS x FROM visits", "SELECT SUM(cost * 2) AS x FROM visits"):
        assert not [each for each in visits.sql(text).advise().tips if "bound" in each.cause]


def test_groups_are_advised_where_they_decide(tmp_path: Path) -> None:
    with curator(tmp_path, max_rows=100, max_groups=8) as made:
        tips = made.sql("SELECT ward, COUNT(DISTINCT who) AS n FROM visits GROUP BY ward").advise().tips
    assert [str(each).split(" gives")[0] for each in tips] == [
        "max_groups 8 causes 63 % of this error; .limit(groups=2)"
    ]


def test_limits_of_a_question_are_called_by_their_own_name(visits: sf.Curator) -> None:
    tips = visits.sql(COUNT).limit(rows=8).advise().tips
    assert str(tips[0]).startswith(".limit(rows=8) causes 8")


def test_errors_in_rows_are_told_in_rows(visits: sf.Curator) -> None:
    tip = visits.sql("SELECT MEDIAN(cost) AS middle FROM visits").advise().tips[0]
    assert tip.now.endswith(" rows")
    assert "±" not in str(tip)


def test_nothing_is_advised_where_nothing_helps(tmp_path: Path) -> None:
    with curator(tmp_path, max_rows=1) as made:
        for text in ("SELECT COUNT(*) AS n FROM visits", "SELECT DISTINCT ward FROM visits", "SHOW TABLES"):
            advice = made.sql(text).advise()
            assert advice.tips == ()
            assert "fewer columns would help" in str(advice)
        assert made.sql("SELECT COUNT(*) AS n FROM visits").explain().advice == ""


def test_advice_is_free_and_knows_no_data(tmp_path: Path) -> None:
    said = set()
    for rows in (0, 50):
        with curator(tmp_path, rows) as made:
            said.add(str(made.sql(COUNT).advise(epsilon=1, delta="1e-9")))
            assert made.budget.remaining["pure"] == 100
    assert len(said) == 1


@pytest.mark.parametrize("price", [{}, {"rho": "0.1"}, {"within": 50}, {"epsilon": 1, "mechanism": "laplace"}])
def test_every_price_is_understood(visits: sf.Curator, price: dict[str, object]) -> None:
    assert visits.sql(COUNT).advise(**price).tips  # type: ignore[arg-type]


def test_advice_is_read_back(visits: sf.Curator) -> None:
    advice = visits.sql(COUNT).advise()
    assert Advice.from_json(advice.to_json()) == advice
    assert "max_rows 20" in advice._repr_html_()
    with pytest.raises(sf.InvalidParameter):
        Advice("q", "ε = 1", ("a tip",))  # type: ignore[arg-type]


def test_the_ladder() -> None:
    assert [ladder(most) for most in (1, 4, 100)] == [(1,), (1, 2), (1, 2, 5, 10, 20, 50, 100)]
