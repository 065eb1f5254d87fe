"""No refusal sends anyone in a circle: what its fix proposes is read when it is written so."""

from __future__ import annotations

import re

import pytest

import sfumato as sf
from plan.described import CATALOG
from plan.samples import read
from plan.test_keys import engine as engine
from plan.test_sql import pairs
from plan.test_sql_expressions import REFUSED
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unsupported
from sfumato.plan.keys import conditions, groups
from sfumato.plan.sql import parse

EXPRESSIONS = [
    ("name LIKE colour", "the pattern as a literal", "name LIKE 'red'"),
    ("SUM(age) OVER ()", "GROUP BY", "age"),
    ("CURRENT_DATE", "DATE '2024-01-31'", "DATE '2024-01-31'"),
    ("REGEXP_MATCHES(name, 'x')", "LIKE '%part%'", "name LIKE '%x%'"),
    ("REGEXP_MATCHES(name, 'x')", "STARTS_WITH", "STARTS_WITH(name, 'x')"),
    ("name LIKE 'x' ESCAPE '!'", "REPLACE", "REPLACE(name, '!', '') LIKE 'x'"),
    ("STRPOS(name, 'x')", "LIKE '%part%'", "name LIKE '%x%'"),
    ("GETVARIABLE('x')", "COALESCE", "COALESCE(name, 'x')"),
    ("CONCAT_WS(',', name)", "CONCAT(text, …)", "CONCAT(',', name)"),
    ("FOO(age)", "FLOOR(x)", "FLOOR(age)"),
    ("LOG(age)", "LN(x) / LN(10)", "LN(age) / LN(10)"),
    ("age & 1", "x % 2", "age % 2"),
    ("age & 1", "POW", "POW(2, age)"),
    ("INTERVAL 1 DAY", "d + INTERVAL '3 day'", "born + INTERVAL '3 day'"),
    ("DATE_SUB('day', born, seen)", "DATE_DIFF('day', a, b)", "DATE_DIFF('day', born, seen)"),
    ("DATE_ADD(born, 3)", "d + INTERVAL '3 day'", "born + INTERVAL '3 day'"),
    ("age < count < 5", "a < b AND b < c", "age < count AND count < 5"),
    ("age < count < 5", "parentheses", "(age < count) = TRUE"),
    ("age = 'x'", "CAST", "CAST(age AS VARCHAR) = 'x'"),
    ("age + 'x'", "CAST(… AS DOUBLE)", "age + CAST('x' AS DOUBLE)"),
    ("age || 'x'", "CAST(… AS VARCHAR)", "CAST(age AS VARCHAR) || 'x'"),
    ("weight || 'x'", "CAST(CAST(… AS BIGINT) AS VARCHAR)", "CAST(CAST(weight AS BIGINT) AS VARCHAR) || 'x'"),
    ("NOT age", "x IS NOT NULL", "NOT (age IS NOT NULL)"),
    ("NOT age", "x = 1", "NOT (age = 1)"),
    ("born + 3", "x + INTERVAL '3 day'", "born + INTERVAL '3 day'"),
    ("born + 3", "DATE_DIFF", "DATE_DIFF('day', born, seen) + 3"),
    ("ABS(born)", "EXTRACT(year FROM …)", "ABS(EXTRACT(year FROM born))"),
    ("ABS(born)", "DATE_DIFF('day', …, …)", "ABS(DATE_DIFF('day', born, seen))"),
    ("CAST(born AS INTEGER)", "EXTRACT", "EXTRACT(year FROM born)"),
    ("CAST(born AS INTEGER)", "DATE_DIFF", "DATE_DIFF('day', '2020-01-01', born)"),
    ("CAST(age AS HUGEINT)", "BIGINT", "CAST(age AS BIGINT)"),
    ("CAST(age AS HUGEINT)", "ROUND(x, 2)", "ROUND(age, 2)"),
    ("weight // 2", "FLOOR(x / y)", "FLOOR(weight / 2)"),
    ("TRUNC(weight, 2)", "TRUNC(x)", "TRUNC(weight)"),
    ("CONTAINS(name, colour)", "a literal", "CONTAINS(name, 'red')"),
    ("STRFTIME(born, '%Q')", "%B", "STRFTIME(born, '%Y, %y, %m, %B, %b, %V, %j, %d, %u, %A, %a, %w, %H, %M, %S, %%')"),
    ("STRFTIME(born, 'plain')", "'%Y-%m'", "STRFTIME(born, '%Y-%m')"),
    ("STRFTIME(born, colour)", "a literal", "STRFTIME(born, '%Y')"),
    ("STRFTIME(age, '%Y')", "DATE '2024-01-31'", "STRFTIME(DATE '2024-01-31', '%Y')"),
    ("DAYNAME(name)", "CAST(… AS DATE)", "DAYNAME(CAST(name AS DATE))"),
    ("CAST(weight AS DECIMAL(38, 30))", "ROUND(x, 2)", "ROUND(weight, 2)"),
    ("EXTRACT(hour FROM born)", "CAST(… AS TIMESTAMP)", "EXTRACT(hour FROM CAST(born AS TIMESTAMP))"),
    ("SUBSTR(name, 1.5)", "CAST(… AS BIGINT)", "SUBSTR(name, CAST(1.5 AS BIGINT))"),
    ("SUBSTR(name, 1.5)", "a whole number", "SUBSTR(name, 2)"),
    ("SUBSTR(name, count)", "LEAST(GREATEST(…, 0), 100)", "SUBSTR(name, LEAST(GREATEST(count, 0), 100))"),
    ("SUBSTR(name, count)", "a number", "SUBSTR(name, 5)"),
    ("born = 'hello'", "DATE '2024-01-31'", "born = DATE '2024-01-31'"),
    ("born = 'hello'", "TIMESTAMP '2024-01-31 23:59:00'", "born = TIMESTAMP '2024-01-31 23:59:00'"),
    ("born = '2020-01-01 10:00:00'", "YYYY-MM-DD", "born = '2020-01-01'"),
    ("born = '2020-01-01 10:00:00'", "CAST the date", "CAST(born AS TIMESTAMP) = '2020-01-01 10:00:00'"),
    ("4611686018427387905", "1e30", "1e30"),
    ("age IN (1, count)", "a literal", "age IN (1, 5)"),
    ("ROUND(weight, age)", "a literal", "ROUND(weight, 5)"),
    ("WIDTH_BUCKET(age, 10, 0, 5)", "WIDTH_BUCKET(age, 0, 100, 10)", "WIDTH_BUCKET(age, 0, 100, 10)"),
    ("WIDTH_BUCKET(age, count, 10, 5)", "a literal", "WIDTH_BUCKET(age, 5, 10, 5)"),
    ("REPLACE(name, 'a', colour)", "a literal", "REPLACE(name, 'a', 'b')"),
    (
        f"REPLACE(name, 'a', '{'x' * 33}')",
        "CASE WHEN x = 'old' THEN 'new' ELSE x END",
        "CASE WHEN name = 'a' THEN 'b' ELSE name END",
    ),
    ("EXTRACT(century FROM born)", "isodow", "EXTRACT(isodow FROM born)"),
    ("DATE_TRUNC('decade', born)", "quarter", "DATE_TRUNC('quarter', born)"),
    ("born + INTERVAL '1 month 2 days'", "INTERVAL '3 month'", "born + INTERVAL '3 month'"),
    ("age IN ()", "x IN (1, 2, …)", "age IN (1, 2)"),
]
QUESTIONS = [
    ("SELECT age FROM visits", "GROUP BY age", "SELECT age, COUNT(*) FROM visits GROUP BY age"),
    ("SELECT age FROM visits", "AVG(age)", "SELECT AVG(age) FROM visits"),
    (
        "SELECT SUM(score) FROM visits",
        "LEAST(GREATEST(score, low), high)",
        "SELECT SUM(LEAST(GREATEST(score, 0), 9)) FROM visits",
    ),
    ("SELECT SUM(ward) FROM visits", "CASE", "SELECT SUM(CASE WHEN ward = 'a' THEN 1 ELSE 0 END) FROM visits"),
    ("SELECT SUM(ward) FROM visits", "count it", "SELECT COUNT(ward) FROM visits"),
    ("SELECT MEDIAN(age) FROM visits", "AVG", "SELECT AVG(age) FILTER (WHERE age > 5) FROM visits"),
    ("SELECT COUNT(*) FROM visits WHERE age", "compare it", "SELECT COUNT(*) FROM visits WHERE age = 1"),
    (
        "SELECT COUNT(*) FROM visits RIGHT JOIN hospitals ON hospital = id",
        "JOIN … ON …",
        "SELECT COUNT(*) FROM visits JOIN hospitals ON hospital = id",
    ),
    (
        "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
        "its name and at most an alias",
        "SELECT COUNT(*) FROM visits AS v",
    ),
    ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "visits", "SELECT COUNT(*) FROM visits"),
    (
        "SELECT EXP(COUNT(*)) AS n FROM visits GROUP BY region",
        "ROUND, ABS, LEAST, GREATEST",
        "SELECT ROUND(ABS(LEAST(GREATEST(COUNT(*), 1), 5))) AS n FROM visits GROUP BY region",
    ),
    (
        "SELECT COUNT(*) AS n, COUNT(*) AS n FROM visits",
        "rename one with AS",
        "SELECT COUNT(*) AS n, COUNT(*) AS m FROM visits",
    ),
    ("SELECT COUNT(*) FROM visits LIMIT age", "LIMIT 10", "SELECT COUNT(*) FROM visits LIMIT 10"),
    ("SELECT * FROM visits", "COUNT(*)", "SELECT COUNT(*) FROM visits"),
    ("SELECT 1 FROM visits", "COUNT(*)", "SELECT COUNT(*) FROM visits"),
    ("SELECT COUNT(*)", "FROM <table>", "SELECT COUNT(*) FROM visits"),
    ("SELECT COUNT(*) FROM visit", "did you mean visits?", "SELECT COUNT(*) FROM visits"),
    ("SELECT COUNT(*) FROM visits WHERE agee > 5", "did you mean age?", "SELECT COUNT(*) FROM visits WHERE age > 5"),
    (
        "SELECT COUNT(*) FROM visits v JOIN hospitals h ON v.hospital = h.id WHERE w.age > 5",
        "known here: h, v",
        "SELECT COUNT(*) FROM visits v JOIN hospitals h ON v.hospital = h.id WHERE v.age > 5",
    ),
]
KEYS = [
    ("ward", "x IN ('a', 'b')", "ward", "ward IN ('a', 'b')"),
    ("ward", "CASE WHEN x = 'a' THEN 'a' ELSE 'other' END", "CASE WHEN ward = 'a' THEN 'a' ELSE 'other' END", "TRUE"),
    ("LOWER(ward)", "CASE WHEN x = 'a'", "CASE WHEN LOWER(ward) = 'a' THEN 'a' ELSE 'other' END", "TRUE"),
    ("score", "WIDTH_BUCKET(x, 0, 100, 10)", "WIDTH_BUCKET(score, 0, 100, 10)", "TRUE"),
    ("score", "FLOOR(x) with WHERE x BETWEEN 0 AND 9", "FLOOR(score)", "score BETWEEN 0 AND 9"),
    ("cost", "FLOOR(x) with WHERE x BETWEEN 0 AND 9", "FLOOR(cost)", "cost BETWEEN 0 AND 9"),
    ("cost", "WIDTH_BUCKET(x, 0, 100, 10)", "WIDTH_BUCKET(cost, 0, 100, 10)", "TRUE"),
    ("at", "DATE_TRUNC('day', x)", "DATE_TRUNC('day', at)", "at BETWEEN '2024-01-01' AND '2024-12-31'"),
]


def refusal(text: str, *, whole: bool) -> Unsupported:
    ask = (lambda: parse(text, CATALOG)) if whole else (lambda: read(text))
    with pytest.raises(Unsupported) as refused:
        ask()
    return refused.value


@pytest.mark.parametrize(("text", "proposed", "applied"), EXPRESSIONS)
def test_a_proposed_expression_is_read(text: str, proposed: str, applied: str) -> None:
    found = refusal(text, whole=False)
    assert proposed in f"{found.rule} / {found.fix}"
    read(applied)


@pytest.mark.parametrize(("text", "proposed", "applied"), QUESTIONS)
def test_a_proposed_question_is_read(text: str, proposed: str, applied: str) -> None:
    found = refusal(text, whole=True)
    assert proposed in f"{found.rule} / {found.fix}"
    parse(applied, CATALOG)


@pytest.mark.parametrize(("key", "proposed", "applied", "where"), KEYS)
def test_a_proposed_key_has_groups(engine: DuckDB, key: str, proposed: str, applied: str, where: str) -> None:
    query = parse(f"SELECT COUNT(*) FROM visits GROUP BY {key}", CATALOG)
    with pytest.raises(sf.Unsupported) as refused:
        groups(query.plan.keys, engine.values)
    assert proposed in refused.value.fix
    query = parse(f"SELECT COUNT(*) FROM visits WHERE {where} GROUP BY {applied}", CATALOG)
    assert groups(query.plan.keys, engine.values, conditions(query.plan.source))


def test_every_proposal_among_the_refusals_is_tried() -> None:
    """A fix that names a function or an operator of SQL is one of those above; a new one is to be added there."""
    tried = {(found.code, found.fix) for text, _, _ in EXPRESSIONS for found in [refusal(text, whole=False)]}
    missing = []
    for text in REFUSED:
        found = refusal(text, whole=False)
        if re.search(r"[A-Z]{2,}|%", found.fix) and (found.code, found.fix) not in tried and found.code not in _WORDS:
            missing.append((text, found.fix))
    assert not missing
    codes = {refusal(text, whole=True).code for text, _, _ in QUESTIONS}
    refused = [(text, expected[0].split()[1]) for text, expected in pairs() if expected[0].startswith("refused ")]
    assert {code for _, code in refused if code not in codes} <= _WORDS | _ELSEWHERE


_WORDS = {"aggregate", "subquery", "too-deep", "too-large", "joined"}
"""Their fixes say in words what to do."""
_ELSEWHERE = {
    *(
        "clause",
        "distinct",
        "grouping-sets",
        "join-condition",
        "not-row-wise",
        "not-select",
        "not-sql",
        "one-statement",
    ),
    *("parameter", "private-join", "public-first", "recursive", "unit-column"),
}
"""Refusals of whole questions whose fix is another question."""
