"""GROUP BY, subtotals, outer SELECTs: pairs of SQL and plan, and what must not change what is measured."""

from __future__ import annotations

import pytest

from plan.described import CATALOG
from sfumato.errors import Unsupported
from sfumato.plan.canonical import digest
from sfumato.plan.sql.outer import inner_aggregate_select
from sfumato.plan.sql.statements import parse
from sfumato.plan.sql.text import parse_select

INNER = "(SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY region, urgent)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region, urgent)",
        "SELECT region, urgent, GROUPING(urgent) AS g, COUNT(*) AS n FROM visits GROUP BY CUBE (region, urgent)",
        "SELECT COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((region, urgent), (urgent))",
        "SELECT region, urgent, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ALL",
        f"SELECT region, SUM(n) AS n FROM {INNER} GROUP BY region",
        f"SELECT MAX(n) AS most FROM {INNER} WHERE n > 10",
        f"SELECT * FROM {INNER} ORDER BY n LIMIT 3",
        f"WITH t AS {INNER}, u AS (SELECT region, n FROM t WHERE urgent) SELECT AVG(n) AS mean FROM u",
    ],
)
def test_whatever_is_done_with_noisy_rows_the_same_is_measured(text: str) -> None:
    """The price, the noise and a stored answer depend on the plan alone."""
    plain = parse("SELECT region, urgent, COUNT(*) AS n FROM visits GROUP BY region, urgent", CATALOG)
    assert digest(parse(text, CATALOG).plan) == digest(plain.plan)


def test_an_outer_select_that_only_picks_is_the_same_question() -> None:
    inner = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
    assert parse(f"SELECT region, n FROM ({inner}) WHERE n > 5", CATALOG) == parse(f"{inner} HAVING n > 5", CATALOG)
    assert parse(f"SELECT n FROM ({inner} ORDER BY n)", CATALOG).finish.order


def test_subtotals_of_units_are_refused_unless_a_unit_has_one_row() -> None:
    """Two groups of one unit have one unit in all: a sum of noisy counts would say two."""
    with pytest.raises(Unsupported, match="subtotals-of-units"):
        parse("SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY ROLLUP (region)", CATALOG)


@pytest.mark.parametrize(
    ("text", "noisy"),
    [
        ("SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id)", False),
        ("SELECT AVG(n) FROM (SELECT patient_id AS p, COUNT(*) AS n FROM visits GROUP BY p)", False),
        ("SELECT AVG(n) FROM (SELECT region, patient_id, COUNT(*) AS n FROM visits GROUP BY ALL)", False),
        ("SELECT AVG(n) FROM (SELECT COUNT(*) AS n, patient_id FROM visits GROUP BY region, 2)", False),
        ("WITH v AS (SELECT patient_id AS p FROM visits), w AS (SELECT p AS q FROM v), "
         "t AS (SELECT q, COUNT(*) AS n FROM w GROUP BY q) SELECT AVG(n) FROM t", False),
        ("SELECT AVG(k) FROM (SELECT RANK() OVER (PARTITION BY patient_id ORDER BY day) AS k FROM visits)", False),
        ("SELECT AVG(age) FROM (SELECT age FROM visits WHERE age > 3)", False),
        ("SELECT AVG(n) FROM (SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY region)", True),
        ("WITH t AS (SELECT COUNT(*) AS n FROM visits), u AS (SELECT n FROM t) SELECT n FROM u", True),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM (SELECT patient_id, SUM(age) AS s FROM visits GROUP BY 1))", True),
    ],
)  # fmt: skip
def test_rows_of_units_are_told_from_noisy_rows(text: str, noisy: bool) -> None:
    """Who groups by the id of a unit, however it is called, has private rows."""
    assert (inner_aggregate_select(parse_select(text), CATALOG) is not None) is noisy


def test_subqueries_that_stand_upon_one_another_have_an_end() -> None:
    text = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region LIMIT 3"
    for _ in range(9):
        text = f"SELECT region, n FROM ({text}) LIMIT 3"
    with pytest.raises(Unsupported, match="too-deep"):
        parse(text, CATALOG)
