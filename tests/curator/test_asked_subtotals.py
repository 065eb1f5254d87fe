"""Subtotals, outer SELECTs and listings, from question to answer: what they cost and what they show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import sfumato as sf
from sfumato.curator.proposals.selected_columns import FreeDeclaredValues

POLICY = """
[unit]
name = "guest"
neighbours = "{neighbours}"
size = 60
budget = {{ epsilon = 10000.0, delta = 1e-6 }}

[tables.stays]
source = "stays.csv"
id = "guest"
max_rows = {rows}
max_groups = 3

[tables.stays.columns]
city = {{ values = ["Ulm", "Bonn", "Kiel"] }}
month = {{ type = "integer", bounds = [1, 4] }}
nights = {{ type = "integer", bounds = [0, 9] }}
"""
ROLLUP = "SELECT city, month, COUNT(*) AS n, SUM(nights) AS nights, AVG(nights) AS mean FROM stays GROUP BY {}"
SETS = ("ROLLUP (city, month)", "CUBE (city, month)", "GROUPING SETS ((city, month), ())")


def opened(folder: Path, neighbours: str, rows: int = 6) -> sf.Curator:
    """Sixty guests, of whom every tenth has one stay more than may count when ``rows`` is 6."""
    stays = [
        f"{guest},{('Ulm', 'Bonn', 'Kiel')[(guest + k) % 3]},{1 + (guest * k) % 4},{(guest + 2 * k) % 10}"
        for guest in range(60)
        for k in range(7 if guest % 10 == 0 else 1 + guest % 3)
    ]
    (folder / "stays.csv").write_text("\n".join(["guest,city,month,nights", *stays]) + "\n")
    (folder / "hotel.toml").write_text(POLICY.format(neighbours=neighbours, rows=rows))
    return sf.open(folder / "hotel.toml")


@pytest.fixture(params=["add-remove", pytest.param("replace", marks=pytest.mark.long)])
def hotel(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[sf.Curator]:
    with opened(tmp_path, request.param) as curator:
        yield curator


def charges(curator: sf.Curator) -> int:
    return sum(line.kind == "charge" for line in curator.history())


@pytest.mark.parametrize("grouping", SETS)
def test_subtotals_cost_what_their_groups_cost_and_are_bought_with_them(hotel: sf.Curator, grouping: str) -> None:
    """The same noise is charged as for the groups alone, under either relation; afterwards the totals are free."""
    plain = hotel.sql(ROLLUP.format("city, month"))
    ask = hotel.sql(ROLLUP.format(grouping))
    assert ask.identity == plain.identity
    first, again = plain.release(epsilon=1), ask.release(epsilon=1)
    assert again.receipt.free
    assert again.receipt.line == first.receipt.line
    assert again.rows[:12] == first.rows
    assert charges(hotel) == 1


@pytest.mark.parametrize("grouping", SETS)
def test_totals_agree_with_the_rows_they_are_made_of(hotel: sf.Curator, grouping: str) -> None:
    """Limits cut guests with 7 stays to parts of rows, and still every total is the sum of what is printed."""
    rows = hotel.sql(ROLLUP.format(grouping)).release(epsilon=1).rows
    cells = rows[:12]
    for city, month, n, nights, _ in rows[12:]:
        below = [row for row in cells if city in (None, row[0]) and month in (None, row[1])]
        assert n == sum(row[2] for row in below)
        assert nights == sum(row[3] for row in below)


@pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
def test_without_noise_to_speak_of_totals_are_those_of_sql(tmp_path: Path) -> None:
    columns = "city, month, GROUPING(city, month) AS g, COUNT(*) AS n, SUM(nights) AS s"
    with opened(tmp_path, "add-remove", rows=7) as curator:
        found = curator.sql(f"SELECT {columns} FROM stays GROUP BY CUBE (city, month)").release(epsilon=5000).rows
    exact = duckdb.sql(f"SELECT {columns} FROM '{tmp_path / 'stays.csv'}' GROUP BY CUBE (city, month)").fetchall()
    assert {row for row in found if row[3]} == set(exact)  # groups without rows are shown too


def test_a_forecast_is_of_the_widest_total_and_explain_names_it(hotel: sf.Curator) -> None:
    ask = hotel.sql("SELECT city, month, COUNT(*) AS n FROM stays GROUP BY ROLLUP (city, month)")
    answer = ask.release(epsilon=1)
    widths = [(high - low) / 2 for low, high in answer.intervals["n"]]  # type: ignore[misc]
    assert max(widths) - 0.5 <= float(ask.error(epsilon=1)["n"]) <= max(widths) + 6  # type: ignore[arg-type]
    assert min(widths) < max(widths) < 12 * min(widths)
    assert "subtotals  sums of up to 12 groups" in str(ask.explain(epsilon=1))
    assert ask.error(epsilon=ask.price({"n": 40}))["n"] <= 40  # type: ignore[operator]


RANK_FUNCTIONS = ("RANK()", "DENSE_RANK()", "ROW_NUMBER()", "NTILE(2)", "PERCENT_RANK()", "CUME_DIST()")


@pytest.mark.parametrize("function", RANK_FUNCTIONS)
def test_ranks_of_noisy_numbers_are_points_with_a_note(hotel: sf.Curator, function: str) -> None:
    inner = f"SELECT city, COUNT(*) AS n, {function} OVER (ORDER BY COUNT(*)) AS r FROM stays GROUP BY city"
    for text in (
        inner,
        f"SELECT city, n, r FROM ({inner}) WHERE r >= 0",
        f"SELECT city, n, r FROM ({inner}) UNION ALL SELECT city, n, r FROM ({inner})",
        f"SELECT city, COUNT(*) AS n, {function} OVER (ORDER BY city) AS r FROM stays GROUP BY city "
        "HAVING COUNT(*) > 0",  # noise decides which rows are ranked
    ):
        question = hotel.sql(text)
        answer = question.release(epsilon=1)
        assert set(answer.intervals) == {"n"}
        assert answer.keys == ("city",)
        assert answer.chosen == {"r": "noise can change ranks: they have no ±"}
        assert "r: noise can change ranks" in str(answer)
        assert set(answer.to_pandas().columns) == {"city", "n", "r", "n_low", "n_high"}
        assert sf.Answer.from_json(answer.to_json()) == answer
        assert "r" not in question.error(epsilon=1).columns


def test_a_rank_of_keys_is_exact_and_what_is_computed_from_ranks_keeps_its_range(hotel: sf.Curator) -> None:
    text = (
        "SELECT city, RANK() OVER (ORDER BY city) AS line, 4 - RANK() OVER (ORDER BY COUNT(*)) AS points "
        "FROM stays GROUP BY city"
    )
    answer, forecast = hotel.sql(text).release(epsilon=1), hotel.sql(text).error(epsilon=1)
    assert answer.intervals["line"] == ((3.0, 3.0), (1.0, 1.0), (2.0, 2.0))
    assert forecast["line"] == 0
    shown = zip(answer.column("points"), answer.intervals["points"], strict=True)
    assert all(ends is not None and ends[0] <= points <= ends[1] for points, ends in shown)
    assert not answer.chosen


def test_rows_that_a_noisy_rank_selects_have_ranges_that_hold_together(hotel: sf.Curator) -> None:
    counts = "SELECT city, COUNT(*) AS n FROM stays GROUP BY city"
    joint, each = (hotel.sql(counts).error(epsilon=1, joint=joint)["n"] for joint in (True, False))
    for chosen in ("QUALIFY ROW_NUMBER() OVER (ORDER BY n DESC) <= 2", "ORDER BY n DESC LIMIT 2"):
        assert hotel.sql(f"{counts} {chosen}").error(epsilon=1)["n"] == joint > each


def test_an_outer_select_is_free_once_the_inner_one_is_bought(hotel: sf.Curator) -> None:
    inner = "SELECT city, COUNT(*) AS n FROM stays GROUP BY city"
    bought = dict(hotel.sql(inner).release(epsilon=1).rows)
    last = 1 + sum(each > min(bought.values()) for each in bought.values())  # two noisy counts may be equal
    for text, wanted in (
        (
            f"SELECT SUM(n) AS n, MAX(n) AS most, COUNT(*) AS k FROM ({inner})",
            (sum(bought.values()), max(bought.values()), 3),
        ),
        (f"SELECT AVG(n) AS n FROM ({inner}) WHERE city <> 'Ulm'", ((bought["Bonn"] + bought["Kiel"]) / 2,)),
        (f"WITH t AS ({inner}) SELECT n FROM t WHERE city = 'Kiel'", (bought["Kiel"],)),
        (f"SELECT RANK() OVER (ORDER BY n DESC) AS r FROM ({inner}) ORDER BY n LIMIT 1", (last,)),
    ):
        answer = hotel.sql(text).release(epsilon=1)
        assert answer.receipt.free
        assert answer.rows == (wanted,)
        forecast = hotel.sql(text).error(epsilon=1)
        assert forecast.columns or forecast.chosen
        assert "outer" in str(hotel.sql(text).explain()) or "having" in str(hotel.sql(text).explain())
    assert charges(hotel) == 1


def test_answers_with_subtotals_are_read_back(hotel: sf.Curator) -> None:
    answer = hotel.sql(ROLLUP.format("CUBE (city, month)")).release(epsilon=1)
    assert sf.Answer.from_json(answer.to_json()) == answer
    assert "NULL" in str(answer)


def test_declared_values_are_listed_free_and_never_charged(hotel: sf.Curator) -> None:
    """From the policy alone: the same whatever rows there are, and no line in the ledger."""
    before = [line.kind for line in hotel.history()]
    ask = hotel.sql("SELECT DISTINCT city, month AS m FROM stays WHERE month < 3 ORDER BY m DESC, city")
    assert isinstance(ask, FreeDeclaredValues)
    answer = ask.release()
    assert answer.rows == (("Bonn", 2), ("Kiel", 2), ("Ulm", 2), ("Bonn", 1), ("Kiel", 1), ("Ulm", 1))
    assert ask.price() == 0
    assert not ask.error(epsilon=1).columns
    assert "no row was read" in str(ask.explain())
    assert "no line" in str(answer.receipt)
    assert answer.warnings == ("These are the declared values, whether or not any row has them.",)
    assert hotel.sql("SELECT city FROM stays GROUP BY city").release(epsilon=1).rows == (("Ulm",), ("Bonn",), ("Kiel",))
    assert [line.kind for line in hotel.history()] == before


def test_a_listing_reads_no_private_row(hotel: sf.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(hotel._context.engine), "read", refuse)
    assert len(hotel.sql("SELECT DISTINCT city FROM stays").release().rows) == 3
