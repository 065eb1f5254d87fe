"""Subqueries about one unit's rows: texts that mean the same, ranges, and refusals whose fixes work."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from plan.described import CATALOG
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.unit_measures import MAX_ROWS, UnitFirst, UnitMean, UnitMeasure, UnitSum
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import PerUnit, Window, relations
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.warnings import undeclared_value_warnings
from sfumato.policy import Domain


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "SELECT AVG(n) AS a FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) AS t",
            "WITH c AS (SELECT COUNT(*) AS visits, patient_id AS p FROM visits v GROUP BY v.patient_id) "
            "SELECT AVG(visits) AS a FROM c",
        ),
        (
            "SELECT SUM(s) AS a FROM (SELECT SUM(age) AS s, COUNT(*) AS n FROM visits GROUP BY patient_id) WHERE n > 1",
            "SELECT SUM(s) AS a FROM (SELECT SUM(age) AS s FROM visits GROUP BY patient_id HAVING COUNT(*) > 1)",
        ),
        (
            "SELECT AVG(x) AS a FROM (SELECT ARG_MIN(age, day) AS x FROM visits GROUP BY patient_id)",
            "SELECT AVG(y) AS a FROM (SELECT MIN_BY(age, day) AS y FROM visits GROUP BY patient_id)",
        ),
        (
            "SELECT AVG(x) AS a FROM (SELECT LAST(age ORDER BY day) AS x FROM visits GROUP BY patient_id)",
            "SELECT AVG(x) AS a FROM (SELECT FIRST(age ORDER BY day DESC NULLS FIRST, age DESC NULLS FIRST) AS x "
            "FROM visits GROUP BY patient_id)",
        ),
        (
            "SELECT COUNT(*) AS a FROM (SELECT age FROM visits QUALIFY "
            "ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) = 1)",
            "SELECT COUNT(*) AS a FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) AS n "
            "FROM visits) WHERE n = 1",
        ),
    ],
)
def test_texts_that_mean_the_same_have_the_same_plan(first: str, second: str) -> None:
    assert digest(parse(first, CATALOG).plan) == digest(parse(second, CATALOG).plan)


def test_columns_of_results_are_told_apart() -> None:
    inner = "SELECT SUM(age) AS a, SUM(CAST(age AS DOUBLE)) AS b FROM visits GROUP BY patient_id"
    text = f"SELECT SUM(a), SUM(b) FROM ({inner})"
    (node,) = [each for each in relations(parse(text, CATALOG).plan.source) if isinstance(each, PerUnit)]
    assert [name for name, _ in node.results] == ["SUM(age) per unit", "SUM(age) per unit (2)"]
    assert [made.domain.type.value for _, made in node.results] == ["integer", "real"]


@pytest.mark.parametrize(
    ("domain", "cap", "low", "high"),
    [
        (Domain("integer", bounds=(0, 9)), 5, 0, 45),
        (Domain("integer", bounds=(3, 9)), 5, 3, 45),
        (Domain("integer", bounds=(-9, -3)), 5, -45, -3),
        (Domain("integer", bounds=(-2, 9)), 5, -10, 45),
        (Domain("real", bounds=("0.25", 9), grid="0.25"), 3, "0.25", 27),
        (Domain("real", bounds=("-1.5", "2.25")), 4, -6, 9),
    ],
)
def test_ranges_of_sums(domain: Domain, cap: int, low: object, high: object) -> None:
    value = Column(Field(0, "t", "x"), domain)
    assert UnitSum(value, None, cap).domain.range == Domain("real", bounds=(low, high)).range  # type: ignore[arg-type]
    mean: UnitMeasure = UnitMean(value)
    assert mean.domain.range == domain.range


def test_a_sum_beyond_64_bits_is_refused() -> None:
    wide = replace(CATALOG.tables["visits"], columns={"x": Domain("integer", bounds=(0, 2**61))})
    catalog = replace(CATALOG, tables={"visits": wide})
    with pytest.raises(Unsupported, match="64 bits") as refused:
        parse("SELECT COUNT(s) FROM (SELECT SUM(x) AS s FROM visits GROUP BY patient_id)", catalog)
    assert refused.value.code == "unbounded"


REFUSED = (
    "SELECT AVG(s) FROM (SELECT SUM(age) OVER (PARTITION BY region) AS s FROM visits)",
    "SELECT AVG(s) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id) AS s FROM visits)",
    "SELECT AVG(s) FROM (SELECT FIRST(age) AS s FROM visits GROUP BY patient_id)",
    "SELECT AVG(n) FROM (SELECT LEAST(COUNT(*), 0) AS n FROM visits GROUP BY patient_id)",
    "SELECT AVG(s) FROM (SELECT SUM(score) AS s FROM visits GROUP BY patient_id)",
)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_told_to_write_is_answered(text: str) -> None:
    with pytest.raises(Unsupported) as refused:
        parse(text, CATALOG)
    fix = str(refused.value.fix)
    told = re.search(r"write (GROUP BY [^,]+(?:, region)?|OVER \(.*?\)|FIRST\(.*\)|LEAST\(.*\))", fix)
    assert told is not None, fix
    written = told[1].replace("…", "ORDER BY day").replace("<column>", "day").replace("low", "0").replace("high", "9")
    if written.startswith("GROUP BY"):
        text = text.removesuffix(")").partition(" GROUP BY")[0] + f" {written})"
    elif written.startswith("OVER"):
        text = re.sub(r"OVER \(.*?\)", written, text)
    elif written.startswith("LEAST(GREATEST"):
        text = text.replace("score", written)
    else:
        text = re.sub(r"FIRST\(age\)|LEAST\(COUNT\(\*\), 0\)", written, text)
    assert parse(text, CATALOG)


def test_warnings_about_results() -> None:
    inner = "SELECT COUNT(*) AS n, FIRST(region ORDER BY day) AS r FROM visits GROUP BY patient_id"
    text = f"SELECT COUNT(*) FROM ({inner})"
    (beyond,) = undeclared_value_warnings(parse(f"{text} WHERE n >= 20", CATALOG))
    assert beyond.startswith(
        "Values of COUNT(*) per unit outside its range count as the nearest end of the range: no row"
    )
    (unmet,) = undeclared_value_warnings(parse(f"{text} WHERE r = 'up'", CATALOG))
    assert unmet.startswith("'up' is not a declared value of FIRST(region ORDER BY day, region) per unit, so no row")
    assert not undeclared_value_warnings(parse(f"{text} WHERE n >= 3", CATALOG))


# What a subquery may hold, at the edges


def refusal(text: str, catalog: Catalog = CATALOG) -> str | None:
    try:
        parse(text, catalog)
    except Unsupported as refused:
        return refused.code
    return None


def over(count: int) -> str:
    windows = ", ".join(f"SUM(age + {number}) OVER (PARTITION BY patient_id) AS w{number}" for number in range(count))
    return f"SELECT COUNT(*) FROM (SELECT {windows} FROM visits) WHERE w0 > 3"


def test_windows_and_firsts_are_limited() -> None:
    assert refusal(over(20)) is None
    assert refusal(over(21)) == "too-many-windows"
    twice = over(20).replace(" FROM visits", ", SUM(age + 0) OVER (PARTITION BY patient_id) AS again FROM visits")
    assert refusal(twice) is None  # the same function again is the same column
    for count, code in ((20, None), (21, "too-many-windows")):
        firsts = ", ".join(f"FIRST(age + {number} ORDER BY day) AS f{number}" for number in range(count))
        assert refusal(f"SELECT COUNT(*) FROM (SELECT {firsts}, COUNT(*) AS n FROM visits GROUP BY patient_id)") == code


def test_keys_of_a_subquery_are_limited() -> None:
    for count, code in ((19, None), (20, "too-many-columns")):
        keys = ", ".join(f"age + {number}" for number in range(1, count + 1))
        assert refusal(f"SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY patient_id, {keys})") == code


@pytest.mark.parametrize(
    ("inner", "keys"),
    [
        ("SELECT patient_id, region, COUNT(*) AS n FROM visits GROUP BY patient_id, region", ["region"]),
        ("SELECT patient_id, region, COUNT(*) AS n FROM visits GROUP BY 1, 2", ["region"]),
        ("SELECT patient_id, region, COUNT(*) AS n FROM visits GROUP BY ALL", ["region"]),
        ("SELECT patient_id, age + 1 AS older, COUNT(*) AS n FROM visits GROUP BY patient_id, older", ["(age + 1)"]),
        ("SELECT patient_id, age + 1 AS age, COUNT(*) AS n FROM visits GROUP BY patient_id, age", None),
        ("SELECT patient_id, region, COUNT(*) AS n FROM visits GROUP BY patient_id, region, region", ["region"]),
        ("SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id", []),
    ],
)
def test_what_a_subquery_is_grouped_by(inner: str, keys: list[str] | None) -> None:
    (node,) = (
        each
        for each in relations(parse(f"SELECT COUNT(*) FROM ({inner})", CATALOG).plan.source)
        if isinstance(each, PerUnit)
    )
    names = [name for name, _ in node.keys]
    assert names == (["age"] if keys is None else keys)
    assert not node.single
    assert node.max_rows_per_unit == (None if names else 1)


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        ("SELECT COUNT(*) AS n FROM visits GROUP BY patient_id, 0", "ordinal"),
        ("SELECT COUNT(*) AS n FROM visits GROUP BY patient_id, 2", "ordinal"),
        ("SELECT COUNT(*) AS n FROM visits GROUP BY patient_id, 1.5", "ordinal"),
        ("SELECT COUNT(*) AS n FROM visits GROUP BY patient_id, 'x'", "constant-key"),
        ("SELECT COUNT(*) AS n, age FROM visits GROUP BY patient_id", "not-grouped"),
        ("SELECT COUNT(*) AS n, MAX(age) AS N FROM visits GROUP BY patient_id", "duplicate-column"),
        ("SELECT patient_id AS n, COUNT(*) AS n FROM visits GROUP BY patient_id", "duplicate-column"),
        ("SELECT COUNT(*) AS n FROM visits GROUP BY patient_id HAVING COUNT(*)", "type-mismatch"),
        ("SELECT age FROM visits QUALIFY SUM(age) OVER (PARTITION BY patient_id)", "type-mismatch"),
        ("SELECT MODE(DISTINCT age) AS n FROM visits GROUP BY patient_id", "aggregate"),
    ],
)
def test_subqueries_that_are_refused(inner: str, code: str) -> None:
    assert refusal(f"SELECT COUNT(*) FROM ({inner}) AS t") == code


def measured(text: str) -> list[UnitMeasure]:
    plan = parse(f"SELECT COUNT(x) FROM (SELECT {text} AS x FROM visits GROUP BY patient_id)", CATALOG).plan
    (node,) = (each for each in relations(plan.source) if isinstance(each, PerUnit))
    return [measure for _, measure in node.results]


def test_modes_order_rows_by_how_often_their_value_occurs() -> None:
    (mode,) = measured("MODE(age)")
    assert measured("MODE() WITHIN GROUP (ORDER BY age)") == [mode]
    (filtered,) = measured("MODE(age) FILTER (WHERE urgent)")
    assert filtered != mode
    assert isinstance(mode, UnitFirst)
    frequency, value = mode.order
    assert (frequency.descending, frequency.nulls_first, value.descending) == (True, False, False)
    assert frequency.expression.domain.range == (0, MAX_ROWS)
    plan = parse(
        "SELECT COUNT(x) FROM (SELECT MODE(age) AS x, MODE(age) + 1 AS y FROM visits GROUP BY patient_id)", CATALOG
    )
    (window,) = (each for each in relations(plan.plan.source) if isinstance(each, Window))
    assert len(window.functions) == 1


def test_the_unit_itself_counts_once_in_its_rows() -> None:
    (units,) = measured("COUNT(DISTINCT patient_id)")
    assert units.domain.range == (1, 1)
    (some,) = measured("COUNT(DISTINCT patient_id) FILTER (WHERE urgent)")
    assert some.domain.range == (0, 1)
    (regions,) = measured("COUNT(DISTINCT region)")
    assert regions.domain.range == (0, 4)


def test_having_and_qualify_name_columns_of_the_subquery() -> None:
    first = "SELECT COUNT(*) FROM (SELECT COUNT(*) AS Visits FROM visits GROUP BY patient_id HAVING visits > 2)"
    second = "SELECT COUNT(*) FROM (SELECT COUNT(*) AS v FROM visits GROUP BY patient_id HAVING COUNT(*) > 2)"
    assert digest(parse(first, CATALOG).plan) == digest(parse(second, CATALOG).plan)
    named = (
        "SELECT age, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) AS Place FROM visits QUALIFY place <= 2"
    )
    window = "SELECT age FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) <= 2"
    plans = {digest(parse(f"SELECT SUM(age) AS s FROM ({text})", CATALOG).plan) for text in (named, window)}
    assert len(plans) == 1
