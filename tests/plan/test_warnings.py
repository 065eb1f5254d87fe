"""What a question may miss because nobody declared it."""

from __future__ import annotations

import pytest
from tests.plan.described import HOSPITALS

from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.sql import parse
from sfumato.plan.warnings import undeclared
from sfumato.policy import Domain

VISITS = {
    "state": Domain("text", values=("CA", "NY", "WA")),
    "town": Domain("text", values=("Ulm", "Bonn"), nullable=True),
    "country": Domain("text", values=("France", "Spain"), other="elsewhere"),
    "age": Domain("integer", bounds=(0, 110)),
    "ward": Domain("text"),
    "urgent": Domain("boolean"),
    "hospital": Domain("integer", bounds=(1, 20)),
}
CATALOG = Catalog(
    {"visits": Described("visits", VISITS, False, "id"), "hospitals": Described("hospitals", HOSPITALS, True)},
    lambda *_: 1,
)


def told(text: str) -> tuple[str, ...]:
    return undeclared(parse(text, CATALOG))


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
        "SELECT CASE WHEN state = 'CA' THEN 'x' ELSE 'y' END AS c, COUNT(*) FROM visits GROUP BY c",
        "SELECT city, COUNT(*) FROM visits JOIN hospitals h ON hospital = h.id WHERE city <> 'Ulm' GROUP BY city",
    ],
)
def test_questions_that_miss_nothing_say_nothing(text: str) -> None:
    assert told(text) == ()


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("country = 'Italy'", "'Italy' is not among the declared values of country: no row equals it."),
        ("state IN ('CA', 'TX')", "'TX' is not among the declared values of state: no row equals it."),
        ("age = 200", "200 lies outside the declared bounds of age: no row equals it."),
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


def test_groups_without_a_place_for_undeclared_values_say_so() -> None:
    assert told("SELECT state, COUNT(*) FROM visits GROUP BY state") == (
        "Rows whose state is not among its declared values are in no group.",
    )
    assert told("SELECT LOWER(state) AS s, COUNT(*) FROM visits GROUP BY s") != ()


def test_sentences_stand_once_and_are_few() -> None:
    many = " OR ".join(f"state = 'x{index}'" for index in range(50))
    assert len(told(f"SELECT COUNT(*) FROM visits WHERE {many}")) == 10
    assert len(told("SELECT COUNT(*) FROM visits WHERE state <> 'CA' AND state <> 'CA'")) == 1
