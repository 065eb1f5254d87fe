"""The line beside a number: which limit, bound or undeclared value can move it, from the plan and the policy alone."""

from __future__ import annotations

import pytest

from plan.described import HOSPITALS
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.caveats import RowLimits, caveat_by_column, contains_warning
from sfumato.plan.limits import ContributionLimits
from sfumato.plan.sql.statements import parse
from sfumato.policy import Domain

COLUMNS = {
    "state": Domain("text", values=("CA", "NY", "WA")),
    "town": Domain("text", values=("Ulm", "Bonn"), nullable=True),
    "country": Domain("text", values=("France", "Spain"), other="elsewhere"),
    "age": Domain("integer", bounds=(0, 110)),
    "cost": Domain("real", bounds=(-5, "300.5")),
    "floor": Domain("integer", values=(1, 2, 3)),
    "hospital": Domain("integer", bounds=(1, 20)),
    "day": Domain("date", bounds=("2000-01-01", "2020-12-31")),
}
ROWS = CatalogTable("visits", COLUMNS, False)
OWNED = CatalogTable("visits", COLUMNS, False, "id", limits=ContributionLimits(10, 4, 5))
PUBLIC = CatalogTable("hospitals", HOSPITALS, True)


def caveats(
    text: str, table: CatalogTable = ROWS, *, groups: int | None = None, reweights: bool = False
) -> dict[str, str]:
    catalog = Catalog({"visits": table, "hospitals": PUBLIC}, lambda *_: 1)
    query = parse(text, catalog)
    limits = query.plan.limits
    said = caveat_by_column(query, RowLimits(limits, "patient", groups, reweights))
    assert all(line.endswith("; ± does not cover these effects") for line in said.values())
    return {name: line.removesuffix("; ± does not cover these effects") for name, line in said.items()}


@pytest.mark.parametrize(
    "question",
    [
        "SELECT COUNT(*) AS n FROM visits",
        "SELECT state, COUNT(*) AS n FROM visits GROUP BY state",
        "SELECT country, COUNT(*) AS n FROM visits WHERE country <> 'Spain' GROUP BY country",
        "SELECT COUNT(*) AS n FROM visits WHERE age >= 40 AND age < 110 AND age BETWEEN 1 AND 109 AND age <> 5",
        "SELECT COUNT(*) AS n FROM visits WHERE age > 0 AND age <= 109 AND age IN (3, 4) AND 50 >= age",
        "SELECT COUNT(*) FILTER (WHERE day >= DATE '2010-01-01') AS n FROM visits",
        "SELECT COUNT(cost) AS n FROM visits",
        "SELECT SUM(LEAST(GREATEST(cost, 0), 100)) AS n FROM visits",
        "SELECT SUM(GREATEST(LEAST(age, 100), 10)) AS n FROM visits",
        "SELECT AVG(CASE WHEN age >= 18 THEN 1 ELSE 0 END) AS n FROM visits",
        "SELECT COUNT(*) AS n FROM visits JOIN hospitals h ON state = h.city WHERE beds > 3",
    ],
)
def test_numbers_that_nothing_can_move_say_nothing(question: str) -> None:
    assert caveats(question) == {}


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("SELECT AVG(cost) AS n FROM visits", "cost outside -5…300.5 counts as -5 or 300.5"),
        ("SELECT SUM(LEAST(cost, 100)) AS n FROM visits", "cost below -5 counts as -5"),
        ("SELECT SUM(LEAST(cost, 400)) AS n FROM visits", "cost outside -5…300.5 counts as -5 or 300.5"),
        ("SELECT SUM(GREATEST(cost, -5)) AS n FROM visits", "cost above 300.5 counts as 300.5"),
        ("SELECT MEDIAN(age) AS n FROM visits", "age outside 0…110 counts as 0 or 110"),
        ("SELECT STDDEV(age) AS n FROM visits", "age outside 0…110 counts as 0 or 110"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age >= 0", "age below 0 counts as 0"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age <= 110", "age above 110 counts as 110"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age < 111", "age above 110 counts as 110"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age > 110", "age above 110 counts as 110"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age = 110", "age above 110 counts as 110"),
        ("SELECT COUNT(*) AS n FROM visits WHERE age % 7 = 3", "age outside 0…110 counts as 0 or 110"),
        (
            "SELECT COUNT(*) AS n FROM visits WHERE day >= DATE '2000-01-01'",
            "day below 2000-01-01 counts as 2000-01-01",
        ),
        (
            "SELECT EXTRACT(year FROM day) AS y, COUNT(*) AS n FROM visits GROUP BY y",
            "day outside 2000-01-01…2020-12-31 counts as 2000-01-01 or 2020-12-31",
        ),
        ("SELECT SUM(floor) AS n FROM visits", "undeclared values of floor do not count"),
        (
            "SELECT COUNT(*) AS n FROM visits WHERE state <> 'CA'",
            "rows with an undeclared value of state never meet (state <> 'CA'), so they are left out",
        ),
        ("SELECT town, COUNT(*) AS n FROM visits GROUP BY town", "undeclared values of town count as missing"),
        (
            "SELECT state, COUNT(*) AS n FROM visits GROUP BY ROLLUP (state)",
            "rows with an undeclared value of state are in no group",
        ),
    ],
)
def test_a_line_names_the_bound_or_value_that_moves_a_number(question: str, line: str) -> None:
    assert caveats(question) == {"n": line}


def test_each_column_has_the_lines_of_the_results_it_is_computed_from() -> None:
    said = caveats(
        "SELECT COUNT(*) AS n, SUM(cost) AS c, SUM(age) AS a, SUM(cost) / SUM(age) AS both, 1 AS one FROM visits"
    )
    cost, age = "cost outside -5…300.5 counts as -5 or 300.5", "age outside 0…110 counts as 0 or 110"
    assert said == {"c": cost, "a": age, "both": f"{cost}; {age}"}


def test_an_outer_query_and_a_window_carry_the_lines_of_what_they_read() -> None:
    inner = "SELECT state, SUM(cost) AS c, COUNT(*) AS n FROM visits GROUP BY state"
    said = caveats(f"SELECT MAX(c) AS top, SUM(n) AS all_rows FROM ({inner})")
    lost = "rows with an undeclared value of state are in no group"
    assert said == {"top": f"cost outside -5…300.5 counts as -5 or 300.5; {lost}", "all_rows": lost}
    shared = caveats("SELECT state, SUM(SUM(cost)) OVER () AS all_costs FROM visits GROUP BY state")
    assert shared == {"all_costs": "cost outside -5…300.5 counts as -5 or 300.5"}


def test_limits_on_the_rows_of_a_unit_are_named_with_their_numbers() -> None:
    grouped = "SELECT state, COUNT(*) AS n FROM visits GROUP BY state"
    assert caveats("SELECT COUNT(*) AS n FROM visits", OWNED) == {
        "n": "rows beyond the limit of 5 per patient count less or not at all"
    }
    assert caveats(grouped, OWNED) == {
        "n": "rows beyond the limit of 10 per patient, 4 groups or 5 in one group count less or not at all"
    }
    assert caveats(grouped, OWNED, groups=4) == {
        "n": "rows beyond the limit of 10 per patient or 5 in one group count less or not at all"
    }
    assert caveats(grouped, OWNED, reweights=True) == {
        "n": "rows beyond the limit of 10 per patient count less or not at all"
    }
    sampled = caveats("SELECT state, MEDIAN(age) AS m FROM visits GROUP BY state", OWNED, reweights=True)["m"]
    assert sampled.startswith("rows beyond the limit of 10 per patient, 4 groups or 5 in one group")


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("MODE(town)", ["undeclared values of town count as missing"]),
        (
            "ARG_MAX(town, age)",
            ["age outside 0…110 counts as 0 or 110", "undeclared values of town count as missing"],
        ),
        (
            "COUNT(DISTINCT town, age)",
            ["COUNT(DISTINCT town, age) per unit above 10 counts as 10", "age outside 0…110 counts as 0 or 110"],
        ),
    ],
)
def test_lines_of_values_per_unit_name_columns_as_they_were_typed(value: str, lines: list[str]) -> None:
    inner = f"SELECT id, {value} AS x FROM visits GROUP BY id"
    said = caveats(f"SELECT x, COUNT(*) AS n FROM ({inner}) GROUP BY x", OWNED)["n"].split("; ")
    assert [line for line in said if not line.startswith("one patient")] == lines


def test_a_count_of_tuples_is_named_as_it_was_typed() -> None:
    query = parse("SELECT COUNT(DISTINCT town, age) FROM visits", Catalog({"visits": ROWS}, lambda *_: 1))
    assert [output.name for output in query.outputs] == ["count(distinct town, age)"]


def test_a_line_says_what_a_warning_says_only_in_the_same_words() -> None:
    lost = "rows with an undeclared value of state are in no group"
    assert contains_warning([f"cost above 3 counts as 3; {lost}; ± does not cover these effects"], f"R{lost[1:]}.")
    assert not contains_warning([f"{lost} of any ward; ± does not cover these effects"], f"R{lost[1:]}.")


def test_rows_beyond_all_accounts_are_not_said_to_count_as_a_bound() -> None:
    """The scan drops them; what is left beyond a bound lies in the account of the bound, and is clamped."""
    query = parse("SELECT MEDIAN(day) AS d, SUM(age) AS a FROM visits", Catalog({"visits": ROWS}, lambda *_: 1))
    limits = RowLimits(query.plan.limits, "patient", None, False, "month", frozenset([("visits", "day")]))
    said = caveat_by_column(query, limits)
    days = "day outside 2000-01-01…2020-12-31 does not count, except in the month of the bound"
    assert said["d"] == f"{days}; ± does not cover these effects"
    assert "counts as 0 or 110" in said["a"]


def test_a_limit_of_one_row_says_that_one_counts() -> None:
    single = CatalogTable("visits", COLUMNS, False, "id", limits=ContributionLimits(1, 1, 1))
    assert caveats("SELECT COUNT(*) AS n FROM visits", single) == {
        "n": "rows beyond the limit of 1 per patient count less or not at all"
    }


def test_counts_of_units_say_what_limits_them_only_where_there_are_groups() -> None:
    assert caveats("SELECT COUNT(DISTINCT id) AS n FROM visits", OWNED) == {}
    assert caveats("SELECT state, COUNT(DISTINCT id) AS n FROM visits GROUP BY state", OWNED) == {
        "n": "one patient counts in at most 4 groups"
    }
    assert caveats("SELECT state, COUNT(DISTINCT id) AS n FROM visits GROUP BY state", OWNED, groups=4) == {}


def test_results_over_a_units_rows_are_moved_by_the_limit_on_rows() -> None:
    per_unit = "(SELECT id, COUNT(*) AS k, SUM(age) AS s FROM visits GROUP BY id)"
    assert caveats(f"SELECT COUNT(*) AS n FROM {per_unit} WHERE k > 3", OWNED) == {}
    assert caveats(f"SELECT AVG(k) AS n FROM {per_unit}", OWNED) == {"n": "COUNT(*) per unit above 10 counts as 10"}
    said = caveats(f"SELECT AVG(s) AS n FROM {per_unit}", OWNED)["n"]
    assert said == "SUM(age) per unit outside 0…1100 counts as 0 or 1100; age outside 0…110 counts as 0 or 110"
