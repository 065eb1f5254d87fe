"""Questions and what they mean, as pairs anyone can read; and texts that try to hurt the parser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlglot import exp

import sfumato as sf
from plan.described import CATALOG, described
from sfumato.errors import Unsupported
from sfumato.plan.aggregates.measures import DistinctUnits
from sfumato.plan.canonical import digest
from sfumato.plan.catalog import CatalogTable
from sfumato.plan.nodes import relations
from sfumato.plan.sql.statements import parse
from sfumato.plan.sql.text import parse_fragment, parse_select
from sfumato.policy import Domain

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.sql"))


def pairs() -> list[tuple[str, list[str]]]:
    found = []
    for block in (each for path in FIXTURES for each in path.read_text().split("\n\n")[1:]):
        lines = block.strip().splitlines()
        expected = [line.removeprefix("-- ") for line in lines if line.startswith("--")]
        found.append(("\n".join(line for line in lines if not line.startswith("--")), expected))
    return found


def outcome(text: object) -> list[str]:
    try:
        return described(parse(text, CATALOG))
    except sf.Unsupported as error:
        place = "" if error.line is None else f" {error.line}:{error.column}"
        return [f"refused {error.code}{place}"]


@pytest.mark.parametrize(("text", "expected"), pairs(), ids=lambda value: value[:60] if isinstance(value, str) else "")
def test_a_question_means_what_is_written_below_it(text: str, expected: list[str]) -> None:
    assert outcome(text) == expected


def test_texts_that_mean_the_same_have_the_same_plan() -> None:
    same = [
        "SELECT region, COUNT(*) AS n FROM visits WHERE age > 5 GROUP BY region",
        "select V.region, count( * ) total from visits AS V where V.age > 5 group by V.region order by total limit 2",
        "WITH t AS (SELECT region, age AS years FROM visits) SELECT region, COUNT(*) FROM t WHERE years > 5 GROUP BY 1",
        "SELECT s.r, COUNT(*) FROM (SELECT region AS r FROM visits WHERE age > 5) s GROUP BY s.r HAVING COUNT(*) > 0",
    ]
    assert len({digest(parse(text, CATALOG).plan) for text in same}) == 1
    other = parse("SELECT region, COUNT(*) FROM visits WHERE age > 6 GROUP BY region", CATALOG)
    assert digest(other.plan) != digest(parse(same[0], CATALOG).plan)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT COUNT(*) FROM visits WHERE " + "(" * 4000 + "age > 1" + ")" * 4000, "too-deep"),
        ("SELECT COUNT(*) FROM visits WHERE " + "NOT " * 2000 + "urgent", "too-deep"),
        ("SELECT COUNT(*) FROM visits WHERE age > " + "-" * 3000 + "1", None),
        ("SELECT " + "CASE WHEN urgent THEN 1 ELSE " * 200 + "1" + " END" * 200 + " FROM visits", "too-deep"),
        ("SELECT COUNT(*) FROM " + "(SELECT age FROM " * 60 + "visits" + ")" * 60, "too-deep"),
        ("SELECT COUNT(*) FROM visits WHERE age IN (" + ",".join("1" * 3 for _ in range(20_000)) + ")", "too-long"),
        ("SELECT COUNT(*) " + " " * 70_000 + "FROM visits", "too-long"),
        ("x" * 1_000_000, "too-long"),
        ("SELECT '\0' FROM visits", "not-text"),
        ("SELECT '\ud800' FROM visits", "not-text"),
        ("", "one-statement"),
        (";;;", "one-statement"),
        ("-- only a remark", "one-statement"),
        (None, "not-text"),
        (b"SELECT", "not-text"),
        ("SELECT 'unclosed FROM visits", "not-sql"),
        ("SELECT QUANTILE_CONT(age, 0.5, 0.9) FROM visits", "arguments"),
        ("SELECT QUANTILE(age, 0.5, 0.9) FROM visits", "arguments"),
        ("SELECT QUANTILE_DISC(age, 0.5, 0.9) FROM visits", "arguments"),
        ("SELECT MEDIAN(age, cost) FROM visits", "arguments"),
        ("COPY visits TO 'x'", "not-select"),
        ("ATTACH 'x' AS y", "not-select"),
        ("PRAGMA database_list", "not-select"),
        ("SELECT COUNT(*) FROM query('SELECT 1')", "not-a-table"),
        ("SELECT COUNT(*) FROM duckdb_settings()", "not-a-table"),
        ("SELECT COUNT(*) FROM '/etc/passwd'", "unknown-table"),
        ('SELECT COUNT(*) FROM "visits"" --"', "unknown-table"),
    ],
)
def test_hostile_texts_are_refused_by_code(text: object, code: str | None) -> None:
    with pytest.raises(sf.Unsupported) as refusal:
        parse(text, CATALOG)
    assert code is None or refusal.value.code == code
    assert refusal.value.fix


def test_doubling_subqueries_do_not_explode() -> None:
    """Substitution doubles an expression at every level: forty levels would be 2^40 parts."""
    levels = ", ".join(f"t{k} AS (SELECT x + x AS x FROM t{k - 1})" for k in range(1, 40))
    with pytest.raises(sf.Unsupported) as refusal:
        parse(f"WITH t0 AS (SELECT age AS x FROM visits), {levels} SELECT SUM(x) AS s FROM t39", CATALOG)
    assert refusal.value.code == "too-large"


def test_a_redefined_column_has_lost_its_bound() -> None:
    query = parse("SELECT SUM(age) AS s FROM (SELECT age * 1000 AS age FROM visits)", CATALOG)
    (measure,) = query.plan.measures
    assert measure.value.domain.bounds == (0, 110_000)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT COUNT(DISTINCT zz.patient_id) FROM visits", "unknown-alias"),
        ("SELECT COUNT(DISTINCT visits.patient_id) FROM visits v", "unknown-alias"),
        ("SELECT COUNT(DISTINCT h.patient_id) FROM visits JOIN hospitals h ON hospital = h.id", "unknown-column"),
        ("SELECT COUNT(DISTINCT patient_id) FROM visits JOIN hospitals h ON hospital = h.id", None),
        ("SELECT COUNT(DISTINCT V.Patient_Id) FROM visits v JOIN hospitals h ON hospital = h.id", None),
        ("SELECT COUNT(DISTINCT s.patient_id) FROM (SELECT age FROM visits) s", None),
    ],
)
def test_units_are_counted_in_a_table_that_is_there(text: str, code: str | None) -> None:
    if code is None:
        assert parse(text, CATALOG).plan.measures == (DistinctUnits(),)
        return
    with pytest.raises(Unsupported) as refusal:
        parse(text, CATALOG)
    assert refusal.value.code == code


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_public_tables_are_joined_by_dates_and_times(kind: str) -> None:
    """Bounds of dates were taken for numbers: such a join ended in a TypeError."""
    bounds = ("2024-01-01", "2024-12-31")
    calendar = CatalogTable("calendar", {"k": Domain(kind, bounds=bounds), "holiday": Domain("boolean")}, public=True)
    known = replace(CATALOG, tables={**CATALOG.tables, "calendar": calendar})
    column = "day" if kind == "date" else "at"
    query = parse(f"SELECT COUNT(*) FROM visits JOIN calendar ON {column} = calendar.k WHERE holiday", known)
    assert [type(node).__name__ for node in relations(query.plan.source)] == ["Filter", "PublicJoin", "Scan"]


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("QUANTILE_CONT(age, [0.25, 0.125])", ["quantile_25", "quantile_12_5"]),
        ("QUANTILE_CONT(age, [0.25, 0.5]) AS q", ["q_25", "q_50"]),
        ("PERCENTILE_CONT([0.1, 0.9]) WITHIN GROUP (ORDER BY age) FILTER (WHERE urgent) AS q", ["q_10", "q_90"]),
        ("APPROX_TOP_K(age, 2)", ["top_1", "top_2"]),
        ("APPROX_TOP_K(age, 3) FILTER (WHERE urgent) AS a", ["a_1", "a_2", "a_3"]),
    ],
)
def test_a_list_is_several_columns_that_can_be_named(asked: str, named: list[str]) -> None:
    query = parse(f"SELECT {asked} FROM visits HAVING {named[0]} > 3 ORDER BY {named[-1]}", CATALOG)
    assert [each.name for each in query.finish.outputs] == named
    assert len(query.plan.measures) == len(named)


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("COUNT(*)", "count(*)"),
        ("Sum(AGE)", "sum(AGE)"),
        ("COUNT(DISTINCT Patient_Id)", "count(distinct Patient_Id)"),
        ("SUM(CASE WHEN Region = 'North END' THEN Age END)", "sum(case when Region = 'North END' then Age end)"),
        ('SUM("Age" + 1)', 'sum("Age" + 1)'),
        ("SUM(Age) / COUNT(Age)", "sum(Age) / count(Age)"),
    ],
)
def test_a_column_without_a_name_is_called_as_it_is_written(item: str, name: str) -> None:
    """Words of the language are small; names and texts keep their letters, as in the table that people know."""
    (own,) = parse(f"SELECT {item} FROM visits", CATALOG).finish.outputs
    assert own.name == name
    around = "SELECT MAX(N), COUNT(*) FROM (SELECT region, COUNT(*) AS N FROM visits GROUP BY region) t"
    assert [each.name for each in parse(around, CATALOG).outer[0].finish.outputs] == ["max(N)", "count(*)"]


def test_too_many_words_are_counted_before_a_question_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking 64 KB apart takes a third of a second, and counting the first words of it a few thousandths."""
    long = "SELECT COUNT(*) FROM visits WHERE age > 1" + "+1" * 30_000
    talkative = "SELECT COUNT(*) FROM visits WHERE age > 1 -- " + "a b " * 12_000 + "\n/* " + "c " * 2000 + "*/"
    quoting = "SELECT COUNT(*) FROM visits WHERE region IN ('" + "it''s x " * 6000 + "')"
    parse_select(talkative)
    parse_select(quoting)

    def taken_apart(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("sqlglot.tokenize", taken_apart)
    for read in (parse_select, lambda text: parse_fragment(text, exp.Expression)):
        with pytest.raises(Unsupported, match="too-long"):
            read(long)
