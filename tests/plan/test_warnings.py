"""What a question may miss because nobody declared it."""

from __future__ import annotations

import pytest

from plan.described import HOSPITALS
from sfumato.plan.catalog import Catalog, CatalogTable
from sfumato.plan.sql.statements import parse
from sfumato.plan.warnings import undeclared_value_warnings
from sfumato.policy import Domain

VISITS = {
    "state": Domain("text", values=("CA", "NY", "WA")),
    "town": Domain("text", values=("Ulm", "Bonn"), nullable=True),
    "country": Domain("text", values=("France", "Spain"), other="elsewhere"),
    "age": Domain("integer", bounds=(0, 110)),
    "ward": Domain("text"),
    "urgent": Domain("boolean"),
    "hospital": Domain("integer", bounds=(1, 20)),
    "day": Domain("date", bounds=("2000-01-01", "2020-12-31")),
}
CATALOG = Catalog(
    {"visits": CatalogTable("visits", VISITS, False, "id"), "hospitals": CatalogTable("hospitals", HOSPITALS, True)},
    lambda *_: 1,
)


def told(text: str) -> tuple[str, ...]:
    return undeclared_value_warnings(parse(text, CATALOG))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM visits WHERE state = 'CA' OR state IN ('NY', 'WA')",
        "SELECT COUNT(*) FROM visits WHERE country <> 'France' AND country <> 'elsewhere'",
        "SELECT country, COUNT(*) FROM visits GROUP BY country",
        "SELECT town, COUNT(*) FROM visits GROUP BY town",
        "SELECT age, COUNT(*) FROM visits WHERE age <> 3 AND ward <> 'x' GROUP BY age",
        "SELECT urgent, COUNT(*) FROM visits WHERE NOT urgent GROUP BY urgent",
        "SELECT COUNT(*) FROM visits WHERE COALESCE(state, '?') <> 'CA'",
        "SELECT COUNT(*) FROM visits WHERE COALESCE(country, 'Italy') <> 'France'",
        "SELECT COUNT(*) FROM visits WHERE COALESCE(state, '?') IN ('CA', 'NY')",
        "SELECT COUNT(*) FROM visits WHERE age >= 0 AND age <= 110 AND age BETWEEN 0 AND 110 AND age > 0 AND age < 110",
        "SELECT COUNT(*) FROM visits WHERE day >= DATE '2000-01-01' AND day < TIMESTAMP '2020-12-31 00:00:00'",
        "SELECT country, COUNT(*) AS n FROM visits GROUP BY country HAVING country = 'Spain' AND n > 1000000",
        "SELECT CASE WHEN state = 'CA' THEN 'x' ELSE 'y' END AS c, COUNT(*) FROM visits GROUP BY c",
        "SELECT city, COUNT(*) FROM visits JOIN hospitals h ON hospital = h.id WHERE city <> 'Ulm' GROUP BY city",
    ],
)
def test_questions_that_miss_nothing_say_nothing(text: str) -> None:
    assert told(text) == ()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("country = 'Italy'", "'Italy' is not a declared value of country, so no row equals it."),
        ("state IN ('CA', 'TX')", "'TX' is not a declared value of state, so no row equals it."),
        ("age = 200", "200 is outside the declared bounds of age, so no row equals it."),
    ],
)
def test_a_literal_that_no_row_equals_is_named(where: str, said: str) -> None:
    assert told(f"SELECT COUNT(*) FROM visits WHERE {where}") == (said,)
    assert told(f"SELECT COUNT(*) FILTER (WHERE {where}) FROM visits") == (said,)
    assert told(f"SELECT SUM(CASE WHEN {where} THEN 1 ELSE 0 END) FROM visits") == (said,)


@pytest.mark.parametrize(
    "where",
    [
        "state NOT IN ('CA', 'NY')",
        "state <> 'CA'",
        "NOT (state = 'CA' OR age > 3)",
        "state LIKE 'C%'",
        "state > 'CA'",
        "UPPER(state) = 'CA'",
        "(state = 'CA') IS FALSE",
        "state IS NOT NULL",
    ],
)
def test_a_condition_that_undeclared_values_never_meet_says_so(where: str) -> None:
    (said,) = told(f"SELECT COUNT(*) FROM visits WHERE {where}")
    assert "state" in said
    assert "declared" in said


def test_a_literal_that_no_group_equals_is_named_after_the_aggregate_too() -> None:
    said = "'Italy' is not a declared value of country, so no row equals it."
    grouped = "FROM visits GROUP BY country"
    assert told(f"SELECT country, COUNT(*) AS n {grouped} HAVING country = 'Italy'") == (said,)
    assert told(f"SELECT country AS c, COUNT(*) AS n {grouped} HAVING n > 3 OR c IN ('Italy', 'Spain')") == (said,)
    assert told(f"SELECT CASE WHEN country = 'Italy' THEN 1 ELSE 0 END AS c, COUNT(*) AS n {grouped}") == (said,)
    assert told(f"SELECT country, COUNT(*) AS n {grouped} ORDER BY country = 'Italy'") == (said,)
    assert told("SELECT town, COUNT(*) FROM visits GROUP BY town HAVING town <> 'Ulm'") == (
        "Rows with an undeclared value of town never meet (town <> 'Ulm'), so they are left out.",
    )
    years = "SELECT EXTRACT(year FROM day) AS y, COUNT(*) FROM visits GROUP BY y HAVING y = 1980"
    assert told(years) == ("EXTRACT(year FROM day) can never be 1980, so no row equals it.",)


@pytest.mark.parametrize(
    ("test", "value"),
    [
        ("COALESCE(state, 'Italy') = 'Italy'", "'Italy'"),
        ("'CA' = COALESCE(state, 'CA')", "'CA'"),
        ("COALESCE(state, 'CA') <> 'CA'", "'CA'"),
        ("COALESCE(state, '?') IN ('NY', '?')", "'?'"),
        ("COALESCE(state, 'Italy') LIKE 'I%'", "'Italy'"),
        ("UPPER(COALESCE(state, 'ca')) = 'CA'", "'ca'"),
    ],
)
def test_a_default_that_undeclared_values_are_taken_for_is_named(test: str, value: str) -> None:
    (said,) = told(f"SELECT COUNT(*) FROM visits WHERE {test}")
    assert said.startswith(f"Undeclared values of state count as {value} in COALESCE(state, ")


def test_a_group_of_defaults_says_what_else_is_in_it() -> None:
    assert told("SELECT COALESCE(state, 'CA') AS s, COUNT(*) FROM visits GROUP BY s") == (
        "Undeclared values of state count as 'CA' in COALESCE(state, 'CA').",
    )


@pytest.mark.parametrize(
    ("where", "column", "said"),
    [
        ("age > 200", "age", "no row meets (age > 200)"),
        ("200 <= age", "age", "no row meets (200 <= age)"),
        ("age > 110", "age", "no row meets (age > 110)"),
        ("age < 0", "age", "no row meets (age < 0)"),
        ("age < 200", "age", "they meet (age < 200)"),
        ("age >= -5", "age", "they meet (age >= -5)"),
        ("age > 200.0", "age", "no row meets (age > 200)"),
        ("age BETWEEN 111 AND 200", "age", "no row meets (age BETWEEN 111 AND 200)"),
        ("age BETWEEN 50 AND 200", "age", "they may meet (age BETWEEN 50 AND 200)"),
        ("day < DATE '1999-01-01'", "day", "no row meets (day < '1999-01-01')"),
        ("day >= TIMESTAMP '2021-01-01 00:00:00'", "day", "no row meets (day >= '2021-01-01 00:00:00')"),
    ],
)
def test_a_condition_beyond_the_bounds_says_that_rows_are_held_to_them(where: str, column: str, said: str) -> None:
    expected = f"Values of {column} outside its declared bounds count as the nearest bound: {said}."
    assert told(f"SELECT COUNT(*) FROM visits WHERE {where}") == (expected,)
    assert told(f"SELECT COUNT(*) FILTER (WHERE {where}) FROM visits") == (expected,)


def test_what_is_made_of_a_bounded_column_has_bounds_too() -> None:
    assert told("SELECT COUNT(*) FROM visits WHERE EXTRACT(year FROM day) < 1999") == (
        "With the declared values of day, no row can meet (EXTRACT(year FROM day) < 1999).",
    )


def test_groups_without_a_place_for_undeclared_values_say_so() -> None:
    assert told("SELECT state, COUNT(*) FROM visits GROUP BY state") == (
        "Rows with an undeclared value of state are in no group.",
    )
    assert told("SELECT LOWER(state) AS s, COUNT(*) FROM visits GROUP BY s") != ()


def test_sentences_stand_once_and_are_few() -> None:
    many = " OR ".join(f"state = 'x{index}'" for index in range(50))
    assert len(told(f"SELECT COUNT(*) FROM visits WHERE {many}")) == 10
    assert len(told("SELECT COUNT(*) FROM visits WHERE state <> 'CA' AND state <> 'CA'")) == 1
