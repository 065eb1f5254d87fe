"""Questions draw their error before anything is spent; a budget draws what its ledger tells."""

from __future__ import annotations

import re

import pytest

import sfumato as sf


@pytest.fixture(scope="module")
def flights() -> sf.Curator:
    return sf.open(sf.example())


def test_the_error_is_drawn_against_epsilon_for_free(flights: sf.Curator) -> None:
    ask = flights.sql("SELECT origin, COUNT(*) AS n, AVG(delay) AS late FROM flights GROUP BY origin")
    before = flights.budget.spent
    picture = ask.plot()  # type: ignore[union-attr]
    assert flights.budget.spent == before
    assert "left: ε = 3" in picture.svg
    assert "nothing was spent" in picture.svg
    words = re.findall(r">([^<>]*)</text>", picture.svg)
    assert {"group of 100", "group of 1,000", "group of 10,000"} <= set(words)
    assert [each for each in words if "half-width (±)" in each] == ["n: half-width (±)", "late: half-width (±)"]
    assert words.count("left: ε = 3") == words.count("ε") == 2  # flights and minutes have axes of their own
    half = ask.error(epsilon="0.01")["n"]  # type: ignore[union-attr]
    assert f"ε = 0.01: ±{half:,.0f}"[:12] in picture.svg
    with pytest.raises(sf.InvalidParameter, match="least"):
        ask.plot(least=2, most=1)  # type: ignore[union-attr]


def test_errors_of_many_columns_fit_on_a_page(flights: sf.Curator) -> None:
    columns = ", ".join(f"COUNT(*) FILTER (WHERE delay > {each}) AS n{each}" for each in range(7))
    picture = flights.sql(f"SELECT {columns} FROM flights").plot()  # type: ignore[union-attr]
    assert picture.svg.count("half-width (±)</text>") == 6
    assert "only the first 6 of 7 columns are shown" in picture.svg
    assert picture.height <= 1000


def test_a_budget_is_drawn_as_stairs_of_what_was_charged(flights: sf.Curator) -> None:
    assert "0 charges" in flights.budget.plot().svg
    ask = flights.sql("SELECT COUNT(*) AS n FROM flights")
    for epsilon in ("0.3", "0.6"):
        ask.release(epsilon=epsilon, fresh=True)  # type: ignore[union-attr]
    picture = flights.budget.plot()
    assert "2 charges" in picture.svg
    assert "ordinary answers 30 %" in picture.svg
    stairs = [way for way in re.findall(r'd="(M[^"]*)"', picture.svg) if way.count("H") == 3 and way.count("V") == 3]
    heights = [float(each) for each in re.findall(r"V([0-9.]+)", stairs[0])]
    bottom = float(re.match(r"M[0-9.]+ ([0-9.]+)", stairs[0])[1])  # type: ignore[index]
    assert (bottom - heights[1]) / (bottom - heights[0]) == pytest.approx(3, rel=1e-2)
    assert "SELECT" not in picture.svg  # what was asked is nobody's to read here


def test_a_budget_with_a_history_is_equal_to_one_without(flights: sf.Curator) -> None:
    own = flights.budget
    plain = own.with_spent(own.totals)
    assert own == plain
    assert sf.dumps(own) == sf.dumps(plain)
    assert repr(own) == repr(plain)
    assert own.plot().svg != plain.plot().svg
