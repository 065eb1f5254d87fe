"""No refusal sends anyone in a circle: what its fix proposes is read when it is written so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import sfumato as sf
from plan.described import CATALOG, described
from plan.samples import read
from plan.sql.test_sql_expressions import REFUSED
from plan.test_keys import engine as engine
from plan.test_sql import pairs
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import Unsupported
from sfumato.plan.keys import conditions_met_by_rows, possible_group_keys
from sfumato.plan.sql.statements import parse
from sfumato.policy import Domain

EXPRESSIONS = [
    ("name LIKE colour", "the pattern as a literal", "name LIKE 'red'"),
    ("SUM(age) OVER ()", "GROUP BY", "age"),
    ("born = 5", "EXTRACT(year FROM …)", "EXTRACT(year FROM born) = 5"),
    ("member = 5", "CASE WHEN … THEN 1 ELSE 0 END", "CASE WHEN member THEN 1 ELSE 0 END = 5"),
    ("CURRENT_DATE", "DATE '2024-01-31'", "DATE '2024-01-31'"),
    ("name SIMILAR TO 'x'", "REGEXP_MATCHES(text, 'pattern')", "REGEXP_MATCHES(name, 'x')"),
    ("name SIMILAR TO 'x'", "REGEXP_FULL_MATCH(text, 'pattern')", "REGEXP_FULL_MATCH(name, 'x')"),
    ("name ~* 'x'", "REGEXP_MATCHES(LOWER(text), 'pattern in lower case')", "REGEXP_MATCHES(LOWER(name), 'x')"),
    (
        "REGEXP_MATCHES(name, 'x', 'i')",
        "REGEXP_MATCHES(LOWER(x), 'pattern in lower case')",
        "REGEXP_MATCHES(LOWER(name), 'x')",
    ),
    (
        "REGEXP_EXTRACT(name, 'x')",
        "CASE WHEN REGEXP_MATCHES(text, 'pattern') THEN 'a' ELSE 'b' END",
        "CASE WHEN REGEXP_MATCHES(name, 'x') THEN 'a' ELSE 'b' END",
    ),
    ("REGEXP_EXTRACT(name, 'x')", "SUBSTR(text, 1, 3)", "SUBSTR(name, 1, 3)"),
    ("REGEXP_EXTRACT(name, 'x')", "REPLACE(text, 'old', 'new')", "REPLACE(name, 'old', 'new')"),
    ("name GLOB 'x'", "LIKE 'start%'", "name LIKE 'start%'"),
    ("name GLOB 'x'", "REGEXP_MATCHES(text, '^start')", "REGEXP_MATCHES(name, '^start')"),
    ("REGEXP_MATCHES(name, colour)", "a literal", "REGEXP_MATCHES(name, 'red')"),
    ("REGEXP_MATCHES(name || name, 'x')", "LEFT(x, 1000)", "REGEXP_MATCHES(LEFT(name || name, 1000), 'x')"),
    ("name LIKE 'x' ESCAPE '!'", "REPLACE", "REPLACE(name, '!', '') LIKE 'x'"),
    ("name COLLATE nocase", "LOWER(x) = 'text'", "LOWER(name) = 'text'"),
    ("STRPOS(name, 'x')", "LIKE '%part%'", "name LIKE '%x%'"),
    ("GETVARIABLE('x')", "COALESCE", "COALESCE(name, 'x')"),
    ("CONCAT_WS(',', name)", "CONCAT(text, …)", "CONCAT(',', name)"),
    ("FOO(age)", "FLOOR(x)", "FLOOR(age)"),
    ("HISTOGRAM(age)", "WIDTH_BUCKET(x, 0, 100, 10)", "WIDTH_BUCKET(age, 0, 100, 10)"),
    ("LOG(age)", "LN(x) / LN(10)", "LN(age) / LN(10)"),
    ("age & 1", "x % 2", "age % 2"),
    ("age & 1", "POW", "POW(2, age)"),
    ("INTERVAL 1 DAY", "d + INTERVAL '3 day'", "born + INTERVAL '3 day'"),
    ("DATE_SUB('day', born, seen)", "DATE_DIFF('day', a, b)", "DATE_DIFF('day', born, seen)"),
    ("DATE_ADD(born, 3)", "d + INTERVAL '3 day'", "born + INTERVAL '3 day'"),
    ("age < count < 5", "a < b AND b < c", "age < count AND count < 5"),
    ("age < count < 5", "parentheses", "(age < count) = TRUE"),
    ("age = 'x'", "CAST", "CAST(age AS VARCHAR) = 'x'"),
    ("born = name", "DATE '2024-01-31'", "born = DATE '2024-01-31'"),
    ("born = name", "CAST", "born = CAST(name AS DATE)"),
    ("age + 'x'", "CAST(… AS DOUBLE)", "age + CAST('x' AS DOUBLE)"),
    ("age || 'x'", "CAST(… AS VARCHAR)", "CAST(age AS VARCHAR) || 'x'"),
    ("weight || 'x'", "CAST(CAST(… AS BIGINT) AS VARCHAR)", "CAST(CAST(weight AS BIGINT) AS VARCHAR) || 'x'"),
    ("NOT age", "x IS NOT NULL", "NOT (age IS NOT NULL)"),
    ("NOT age", "x = 1", "NOT (age = 1)"),
    ("born + 3", "x + INTERVAL '3 day'", "born + INTERVAL '3 day'"),
    ("born + 3", "DATE_DIFF", "DATE_DIFF('day', born, seen) + 3"),
    ("ABS(born)", "EXTRACT(year FROM …)", "ABS(EXTRACT(year FROM born))"),
    ("ABS(born)", "DATE_DIFF('day', …, …)", "ABS(DATE_DIFF('day', born, seen))"),
    ("ABS(age > 10)", "CASE WHEN … THEN 1 ELSE 0 END", "ABS(CASE WHEN age > 10 THEN 1 ELSE 0 END)"),
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
    ("EXTRACT(timezone FROM paid)", "isodow", "EXTRACT(isodow FROM born)"),
    ("DATE_TRUNC('fortnight', born)", "quarter", "DATE_TRUNC('quarter', born)"),
    ("STRPTIME(name, '%Q')", "'%d.%m.%Y' or '%Y-%m-%d %H:%M:%S'", "STRPTIME(name, ['%d.%m.%Y', '%Y-%m-%d %H:%M:%S'])"),
    ("STRPTIME(name, '%d.%m')", "'%d.%m.%Y'", "STRPTIME(name, '%d.%m.%Y')"),
    ("STRPTIME(name, '%d%f%m%Y')", "'%d.%m.%Y'", "STRPTIME(name, '%d.%m.%Y')"),
    ("STRPTIME(name, [])", "STRPTIME(text, '%d.%m.%Y')", "STRPTIME(name, '%d.%m.%Y')"),
    (
        "TO_DATE(name, 'DD.MM.YYYY')",
        "CAST(STRPTIME(text, '%d.%m.%Y') AS DATE)",
        "CAST(STRPTIME(name, '%d.%m.%Y') AS DATE)",
    ),
    ("TO_CHAR(born, 'YYYY')", "STRFTIME(date, '%Y-%m')", "STRFTIME(born, '%Y-%m')"),
    ("AGE(born, seen)", "EXTRACT(year FROM AGE(later, earlier))", "EXTRACT(year FROM AGE(born, seen))"),
    ("AGE(born, seen)", "DATE_DIFF('day', earlier, later)", "DATE_DIFF('day', seen, born)"),
    ("TIME_BUCKET(age, born)", "TIME_BUCKET(INTERVAL '2 week', x)", "TIME_BUCKET(INTERVAL '2 week', born)"),
    (
        "TIME_BUCKET(INTERVAL '2 months', born, DATE '2020-01-15')",
        "TIME_BUCKET(INTERVAL '7 month', x, DATE '2024-01-01')",
        "TIME_BUCKET(INTERVAL '7 month', born, DATE '2024-01-01')",
    ),
    ("EXTRACT(year FROM AGE(moment, seen))", "CAST(… AS DATE)", "EXTRACT(year FROM AGE(CAST(moment AS DATE), seen))"),
    (
        "TIME_BUCKET(INTERVAL '2 days', born, seen)",
        "DATE '2024-01-01'",
        "TIME_BUCKET(INTERVAL '2 days', born, DATE '2024-01-01')",
    ),
    ("born + INTERVAL '1 month 2 days'", "INTERVAL '3 month'", "born + INTERVAL '3 month'"),
    ("age IN ()", "x IN (1, 2, …)", "age IN (1, 2)"),
]
BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
BY_UNIT = "FROM visits GROUP BY patient_id"
QUESTIONS = [
    ("SELECT age FROM visits", "GROUP BY age", "SELECT age, COUNT(*) FROM visits GROUP BY age"),
    ("SELECT age FROM visits", "AVG(age)", "SELECT AVG(age) FROM visits"),
    (
        "SELECT SKEWNESS(age) FROM visits",
        "COUNT, SUM, AVG, MEDIAN, VARIANCE, CORR or MODE",
        "SELECT COUNT(age), MEDIAN(age), VARIANCE(age), CORR(age, cost) FROM visits",
    ),
    (
        "SELECT SUM(score) FROM visits",
        "LEAST(GREATEST(score, low), high)",
        "SELECT SUM(LEAST(GREATEST(score, 0), 9)) FROM visits",
    ),
    ("SELECT SUM(ward) FROM visits", "CASE", "SELECT SUM(CASE WHEN ward = 'a' THEN 1 ELSE 0 END) FROM visits"),
    ("SELECT AVG('age') FROM visits", 'double quotes: "age"', 'SELECT AVG("age") FROM visits'),
    ("SELECT MEDIAN('age') FROM visits", 'double quotes: "age"', 'SELECT MEDIAN("age") FROM visits'),
    ("SELECT SUM(ward) FROM visits", "use COUNT", "SELECT COUNT(ward) FROM visits"),
    (
        "SELECT MEDIAN(score) FROM visits",
        "LEAST(GREATEST(score, low), high)",
        "SELECT MEDIAN(LEAST(GREATEST(score, 0), 9)) FROM visits",
    ),
    ("SELECT MAX(ward) FROM visits", "CASE", "SELECT MAX(CASE WHEN ward = 'a' THEN 1 ELSE 0 END) FROM visits"),
    ("SELECT MAX(ward) FROM visits", "LENGTH", "SELECT MAX(LENGTH(ward)) FROM visits"),
    ("SELECT MAX(ward) FROM visits", "EXTRACT", "SELECT MAX(EXTRACT(month FROM day)) FROM visits"),
    (
        "SELECT MEDIAN(CAST(ward AS DATE)) FROM visits",
        "LEAST(GREATEST(CAST(ward AS DATE), DATE '2024-01-01'), DATE '2024-12-31')",
        "SELECT MEDIAN(LEAST(GREATEST(CAST(ward AS DATE), DATE '2024-01-01'), DATE '2024-12-31')) FROM visits",
    ),
    (
        "SELECT QUANTILE_CONT(age, 1) FROM visits",
        "a fraction such as 0.5",
        "SELECT QUANTILE_CONT(age, 0.5) FROM visits",
    ),
    ("SELECT QUANTILE_CONT(age, 1) FROM visits", "MIN(x) and MAX(x)", "SELECT MIN(age), MAX(age) FROM visits"),
    (
        "SELECT QUANTILE_CONT(age, 50 / 100) FROM visits",
        "QUANTILE_CONT(x, 0.9), or PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",
        "SELECT QUANTILE_CONT(age, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age) AS p FROM visits",
    ),
    ("SELECT REGR_SLOPE(age) FROM visits", "REGR_SLOPE(cost, age)", "SELECT REGR_SLOPE(cost, age) FROM visits"),
    ("SELECT REGR_COUNT(age) FROM visits", "REGR_COUNT(cost, age)", "SELECT REGR_COUNT(cost, age) FROM visits"),
    (
        "SELECT MODE(region, age) FROM visits",
        "write MODE(x)",
        "SELECT MODE(region) FROM visits",
    ),
    ("SELECT CORR(age, cost, cost) FROM visits", "write CORR(y, x)", "SELECT CORR(cost, age) FROM visits"),
    (
        "SELECT APPROX_QUANTILE(age, 0.5, 100) FROM visits",
        "use QUANTILE_CONT(x, 0.9) instead",
        "SELECT QUANTILE_CONT(age, 0.9) FROM visits",
    ),
    (
        "SELECT APPROX_COUNT_DISTINCT(age, 5) FROM visits",
        "use COUNT(DISTINCT x) instead",
        "SELECT COUNT(DISTINCT age) FROM visits",
    ),
    ("SELECT QUANTILE_CONT(age, []) AS q FROM visits", "QUANTILE_CONT(x, 0.9)", "SELECT MEDIAN(age) FROM visits"),
    (
        "SELECT 2 * QUANTILE_CONT(age, [0.25, 0.5]) AS q FROM visits",
        "select it on its own, and compute with its columns in an outer SELECT",
        "SELECT 2 * q_25 AS a FROM (SELECT QUANTILE_CONT(age, [0.25, 0.75]) AS q FROM visits) AS t",
    ),
    (
        "SELECT MIN(age, 3) FROM visits",
        "QUANTILE_CONT(x, [0.01, 0.05])",
        "SELECT QUANTILE_CONT(age, [0.01, 0.05]) FROM visits",
    ),
    (
        "SELECT SUM(DISTINCT age) FROM visits",
        "COUNT(DISTINCT patient_id)",
        "SELECT COUNT(DISTINCT patient_id) FROM visits",
    ),
    ("SELECT MEDIAN(DISTINCT age) FROM visits", "leave out DISTINCT", "SELECT MEDIAN(age) FROM visits"),
    (
        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, cost) FROM visits",
        "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",
        "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age) FROM visits",
    ),
    (
        "SELECT region, MEDIAN(age) FROM visits GROUP BY ROLLUP (region)",
        "one question for each grouping",
        "SELECT region, MEDIAN(age) FROM visits GROUP BY region",
    ),
    ("SELECT COUNT(*) FROM visits WHERE age", "compare it", "SELECT COUNT(*) FROM visits WHERE age = 1"),
    (
        "SELECT COUNT(*) FROM visits RIGHT JOIN hospitals ON hospital = id",
        "FROM visits JOIN hospitals … GROUP BY a column of hospitals",
        "SELECT city, COUNT(*) FROM visits JOIN hospitals ON hospital = id GROUP BY city",
    ),
    (
        "SELECT COUNT(*) FROM visits TABLESAMPLE 10%",
        "its name and, if needed, an alias",
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
        "use h or v",
        "SELECT COUNT(*) FROM visits v JOIN hospitals h ON v.hospital = h.id WHERE v.age > 5",
    ),
    ("SELECT region FROM visits", "COUNT(region)", "SELECT COUNT(region) FROM visits"),
    (
        f"SELECT AVG(s) FROM (SELECT MEDIAN(age) AS s {BY_UNIT})",
        "LAST(x ORDER BY y)",
        f"SELECT AVG(s) FROM (SELECT LAST(age ORDER BY day) AS s {BY_UNIT})",
    ),
    (
        f"SELECT AVG(n) FROM (SELECT LEAST(COUNT(*), 0) AS n {BY_UNIT})",
        "LEAST(COUNT(*), 50)",
        f"SELECT AVG(n) FROM (SELECT LEAST(COUNT(*), 50) AS n {BY_UNIT})",
    ),
    (f"SELECT DISTINCT n FROM ({BY_REGION})", "SELECT, FROM", f"SELECT n FROM ({BY_REGION})"),
    (
        "SELECT COUNT(*) FROM visits, UNNEST(tags) AS visits(tag)",
        "an alias with AS",
        "SELECT COUNT(*) FROM visits, UNNEST(tags) AS t(tag)",
    ),
    (
        "SELECT AVG(s) FROM (SELECT SUM(age) OVER (PARTITION BY patient_id ORDER BY day ROWS BETWEEN 2 PRECEDING AND"
        " CURRENT ROW) AS s FROM visits)",
        "ROWS UNBOUNDED PRECEDING",
        "SELECT AVG(s) FROM (SELECT SUM(age) OVER (PARTITION BY patient_id ORDER BY day ROWS UNBOUNDED PRECEDING) AS s"
        " FROM visits)",
    ),
    (
        "SELECT region, GROUPING(age) AS g, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region)",
        "GROUPING(<column of GROUP BY>)",
        "SELECT region, GROUPING(region) AS g, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region)",
    ),
    (
        "SELECT COUNT(*) AS n FROM visits GROUP BY CUBE (region, urgent, hospital, age, day, ward, at)",
        "list only those you need",
        "SELECT COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((region, urgent), (region))",
    ),
    (
        "SELECT COUNT(*) FROM visits JOIN hospitals ON age > LENGTH(city)",
        "x >= public.low AND x < public.high",
        "SELECT COUNT(*) FROM visits JOIN hospitals ON age >= hospitals.beds AND age < hospitals.id",
    ),
    (
        "SELECT COUNT(*) FROM visits JOIN hospitals ON age > LENGTH(city)",
        "ON private.column = public.column",
        "SELECT COUNT(*) FROM visits JOIN hospitals ON visits.hospital = hospitals.id",
    ),
    (
        "SELECT COUNT(*) FROM visits, UNNEST(doses) AS t(a), UNNEST(tags) AS u(b)",
        "one list at a time",
        "SELECT COUNT(*) FROM visits, UNNEST(doses) AS t(a)",
    ),
    (
        "SELECT COUNT(*) FROM visits JOIN visits AS other USING (age)",
        "add patient_id to USING",
        "SELECT COUNT(*) FROM visits JOIN visits AS other USING (age, patient_id)",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE tags = 'new'",
        "FROM visits CROSS JOIN UNNEST(visits.tags) AS t(item)",
        "SELECT COUNT(*) FROM visits CROSS JOIN UNNEST(visits.tags) AS t(item) WHERE item = 'new'",
    ),
    (
        "SELECT COUNT(*) FROM visits LEFT JOIN UNNEST(tags) AS t(tag) ON TRUE",
        "FROM visits CROSS JOIN UNNEST(visits.tags) AS t(item)",
        "SELECT COUNT(*) FROM visits CROSS JOIN UNNEST(visits.tags) AS t(item)",
    ),
    (
        "SELECT UNNEST(tags) AS tag, COUNT(*) FROM visits GROUP BY tag",
        "FROM <table> CROSS JOIN UNNEST(<list>) AS t(item)",
        "SELECT item, COUNT(*) FROM visits CROSS JOIN UNNEST(tags) AS t(item) GROUP BY item",
    ),
    (
        "SELECT COUNT(*) FROM visits v JOIN visits w ON v.patient_id = w.patient_id, UNNEST(v.tags) AS t(tag)",
        "FROM visits AS v CROSS JOIN UNNEST(v.tags) AS t(item) JOIN …",
        "SELECT COUNT(*) FROM visits AS v CROSS JOIN UNNEST(v.tags) AS t(item)"
        " JOIN visits w ON v.patient_id = w.patient_id",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT * FROM visits) AS v, UNNEST(v.tags) AS t(tag)",
        "beside its own table",
        "SELECT COUNT(*) FROM visits AS v, UNNEST(v.tags) AS t(tag)",
    ),
    (
        "SELECT COUNT(*) FROM visits, UNNEST(tag) AS t(tag)",
        "did you mean tags?",
        "SELECT COUNT(*) FROM visits, UNNEST(tags) AS t(tag)",
    ),
    (
        "SELECT COUNT(*) FROM visits, UNNEST(region) AS t(x)",
        "use doses or tags",
        "SELECT COUNT(*) FROM visits, UNNEST(doses) AS t(x)",
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT DISTINCT region FROM visits)",
        "with GROUP BY and COUNT(*), without DISTINCT",
        f"SELECT COUNT(*) AS n FROM ({BY_REGION})",
    ),
    (
        f"SELECT AVG(s) FROM (SELECT FIRST(age) AS s {BY_UNIT})",
        "FIRST(age ORDER BY <column>)",
        f"SELECT AVG(s) FROM (SELECT FIRST(age ORDER BY day) AS s {BY_UNIT})",
    ),
    ("SHOW TABLES", "SELECT … FROM … [WHERE] [GROUP BY]", "SELECT COUNT(*) FROM visits WHERE age > 5 GROUP BY region"),
    (
        "SELECT q, COUNT(*) FROM (SELECT NTILE(5) OVER (ORDER BY cost DESC) AS q FROM visits) GROUP BY q",
        "CASE WHEN cost > (SELECT QUANTILE_CONT(cost, 0.8) FROM visits) THEN 1 WHEN",
        "SELECT CASE WHEN cost > (SELECT QUANTILE_CONT(cost, 0.8) FROM visits) THEN 1 ELSE 2 END AS q, COUNT(*) "
        "FROM visits GROUP BY q",
    ),
    (
        "SELECT AVG(q) FROM (SELECT NTILE(2) OVER (PARTITION BY region ORDER BY cost) AS q FROM visits)",
        "SELECT region, QUANTILE_CONT(cost, [0.5]) FROM visits GROUP BY region",
        "SELECT region, QUANTILE_CONT(cost, [0.5]) FROM visits GROUP BY region",
    ),
    (
        "SELECT AVG(s) FROM (SELECT PERCENT_RANK() OVER (ORDER BY age + 1) AS s FROM visits)",
        "QUANTILE_CONT(age + 1, [0.25, 0.5, 0.75])",
        "SELECT QUANTILE_CONT(age + 1, [0.25, 0.5, 0.75]) FROM visits",
    ),
    (
        "SELECT AVG(s) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id) AS s FROM visits)",
        "OVER (PARTITION BY patient_id ORDER BY <column>)",
        "SELECT AVG(s) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY day) AS s FROM visits)",
    ),
    (
        f"SELECT n, COUNT(*) AS k FROM ({BY_REGION}) GROUP BY n",
        "group by a key of the inner SELECT",
        f"SELECT region, SUM(n) AS k FROM ({BY_REGION}) GROUP BY region",
    ),
    (
        f"SELECT n, COUNT(*) AS k FROM ({BY_REGION}) GROUP BY n",
        "to select rows by a noisy number n, write a condition such as WHERE n > 100",
        f"SELECT COUNT(*) AS k FROM ({BY_REGION}) WHERE n > 5",
    ),
    (
        "SELECT AVG(s) FROM (SELECT SUM(age) OVER (ORDER BY day) AS s FROM visits)",
        "OVER (PARTITION BY patient_id …)",
        "SELECT AVG(s) FROM (SELECT SUM(age) OVER (PARTITION BY patient_id ORDER BY day) AS s FROM visits)",
    ),
    (
        "SELECT AVG(s) FROM (SELECT SUM(age) OVER (PARTITION BY region ORDER BY day) AS s FROM visits)",
        "OVER (PARTITION BY patient_id, region …)",
        "SELECT AVG(s) FROM (SELECT SUM(age) OVER (PARTITION BY patient_id, region ORDER BY day) AS s FROM visits)",
    ),
    (
        f"SELECT n FROM (SELECT COUNT(*) AS n {BY_UNIT})",
        "GROUP BY n",
        f"SELECT n FROM (SELECT COUNT(*) AS n {BY_UNIT}) GROUP BY n",
    ),
    (
        f"SELECT n FROM (SELECT COUNT(*) AS n {BY_UNIT})",
        "AVG(n)",
        f"SELECT AVG(n) FROM (SELECT COUNT(*) AS n {BY_UNIT})",
    ),
    (
        f"SELECT region, SUM(n) AS s FROM ({BY_REGION})",
        "GROUP BY region",
        f"SELECT region, SUM(n) AS s FROM ({BY_REGION}) GROUP BY region",
    ),
    (
        f"SELECT region, SUM(n) AS s FROM ({BY_REGION})",
        "COUNT(region)",
        f"SELECT COUNT(region), SUM(n) AS s FROM ({BY_REGION})",
    ),
    (
        f"SELECT AVG(age) FROM (SELECT age, COUNT(*) AS n {BY_UNIT})",
        "add age to GROUP BY",
        f"SELECT AVG(age) FROM (SELECT age, COUNT(*) AS n {BY_UNIT}, age)",
    ),
    (
        f"SELECT AVG(age) FROM (SELECT age, COUNT(*) AS n {BY_UNIT})",
        "MAX(age)",
        f"SELECT AVG(age) FROM (SELECT MAX(age) AS age, COUNT(*) AS n {BY_UNIT})",
    ),
    (
        f"SELECT COUNT(*) FROM visits v JOIN ({BY_REGION}) w ON v.region = w.region",
        "write GROUP BY patient_id, region",
        f"SELECT COUNT(*) FROM visits v JOIN (SELECT patient_id, region, COUNT(*) AS n {BY_UNIT}, region) w "
        "ON v.patient_id = w.patient_id AND v.region = w.region",
    ),
    (
        f"SELECT COUNT(*) FROM visits v JOIN ({BY_REGION}) w ON v.region = w.region",
        "aggregate in the outermost SELECT",
        BY_REGION,
    ),
    (
        "SELECT COUNT(*) FROM (SELECT age FROM visits LIMIT 10)",
        "the outermost SELECT",
        "SELECT COUNT(*) FROM (SELECT age FROM visits) LIMIT 10",
    ),
    (
        "SELECT region FROM visits GROUP BY region UNION SELECT region FROM visits GROUP BY region",
        "add COUNT(*) to each SELECT",
        f"{BY_REGION} UNION {BY_REGION}",
    ),
    (
        f"SELECT * FROM ({BY_REGION} INTERSECT {BY_REGION})",
        "join on the keys: FROM a JOIN b USING (month)",
        f"SELECT region, a.n FROM ({BY_REGION}) a JOIN ({BY_REGION}) b USING (region)",
    ),
    (
        f"{BY_REGION} EXCEPT {BY_REGION}",
        "join them on their keys: FROM a JOIN b USING (month)",
        f"SELECT region, a.n FROM ({BY_REGION}) a JOIN ({BY_REGION}) b USING (region)",
    ),
    ("SELECT COUNT(*) FROM", "a missing comma, quote or parenthesis", "SELECT COUNT(*) FROM visits"),
    ("SELECT COUNT(*) FROM visits; SELECT 1", "one question at a time", "SELECT COUNT(*) FROM visits"),
    ("SELECT region, COUNT(*) AS n FROM visits GROUP BY 2", "GROUP BY ALL", f"{BY_REGION[: -len('region')]}ALL"),
    ("SELECT region, COUNT(*) AS n FROM visits GROUP BY 3", "name the column", BY_REGION),
    (
        "SELECT COUNT(*) FROM hospitals",
        "FROM <private table> JOIN <public table>",
        "SELECT COUNT(*) FROM visits JOIN hospitals ON hospital = id",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1 FROM hospitals WHERE id < age)",
        "join the public table in FROM",
        "SELECT COUNT(*) FROM visits JOIN hospitals ON age = id",
    ),
    (
        "WITH RECURSIVE t AS (SELECT age FROM visits) SELECT COUNT(*) FROM t",
        "write the steps out",
        "WITH t AS (SELECT age FROM visits), u AS (SELECT age + 1 AS age FROM t) SELECT COUNT(*) FROM u",
    ),
    (
        f"SELECT MEDIAN(n) AS m FROM ({BY_REGION})",
        "MAX, CORR or REGR_SLOPE, or compute it from the answer in pandas, which is free",
        f"SELECT MAX(n) AS m, CORR(n, n) AS c FROM ({BY_REGION})",
    ),
    ("SELECT DISTINCT region, COUNT(*) AS n FROM visits GROUP BY region", "leave out DISTINCT", BY_REGION),
    ("SELECT DISTINCT * FROM visits", "name the columns", "SELECT DISTINCT region, urgent FROM visits"),
    (
        "SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY ROLLUP (region)",
        "COUNT(*)",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region)",
    ),
    (
        "SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY ROLLUP (region)",
        "one question for each grouping",
        "SELECT region, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY region",
    ),
    (
        "SELECT DISTINCT patient_id FROM visits",
        "COUNT(DISTINCT patient_id)",
        "SELECT COUNT(DISTINCT patient_id) FROM visits",
    ),
    (f"SELECT x.n FROM ({BY_REGION}) AS t", "use t", f"SELECT t.n FROM ({BY_REGION}) AS t"),
    (f"SELECT m FROM ({BY_REGION})", "use n or region", f"SELECT n, region FROM ({BY_REGION})"),
    (
        "SELECT s.double, COUNT(*) AS n FROM (SELECT age * 2 AS double FROM visits) AS s GROUP BY s.double"
        " HAVING n > 10 AND MAX_OF IS NULL",
        "use double",
        "SELECT s.double, COUNT(*) AS n FROM (SELECT age * 2 AS double FROM visits) AS s GROUP BY s.double"
        " HAVING n > 10 AND double IS NULL",
    ),
    (
        f"SELECT SUM(n) OVER (ORDER BY region RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) AS m FROM ({BY_REGION})",
        "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW",
        f"SELECT SUM(n) OVER (ORDER BY region ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) AS m FROM ({BY_REGION})",
    ),
    (
        f"SELECT LAG(n) OVER () AS m FROM ({BY_REGION})",
        "LAG(n) OVER (ORDER BY month)",
        f"SELECT LAG(n) OVER (ORDER BY region) AS m FROM ({BY_REGION})",
    ),
    (
        "SELECT AVG(s) FROM (SELECT COUNT(DISTINCT region) OVER (PARTITION BY patient_id) AS s FROM visits)",
        "LAST_VALUE, COUNT,",
        "SELECT AVG(s) FROM (SELECT COUNT(region) OVER (PARTITION BY patient_id) AS s FROM visits)",
    ),
    (
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING RANK() OVER (ORDER BY COUNT(*)) < 3",
        "use QUALIFY instead of HAVING",
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region QUALIFY RANK() OVER (ORDER BY COUNT(*)) < 3",
    ),
    (
        "SELECT SUM(age) OVER (PARTITION BY patient_id) FROM visits",
        "SELECT AVG(x) FROM (SELECT SUM(age) OVER (PARTITION BY patient_id) AS x FROM visits)",
        "SELECT AVG(x) FROM (SELECT SUM(age) OVER (PARTITION BY patient_id) AS x FROM visits)",
    ),
    (
        "SELECT COUNT(*) OVER () AS n FROM visits",
        "SELECT AVG(x) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id) AS x FROM visits)",
        "SELECT AVG(x) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id) AS x FROM visits)",
    ),
    (
        "SELECT COUNT(*) OVER (PARTITION BY region) FROM visits",
        "SELECT AVG(x) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id, region) AS x FROM visits)",
        "SELECT AVG(x) FROM (SELECT COUNT(*) OVER (PARTITION BY patient_id, region) AS x FROM visits)",
    ),
    (
        "SELECT AVG(s) FROM (SELECT LAG(age, 5000) OVER (PARTITION BY patient_id ORDER BY day) AS s FROM visits)",
        "LAG(x, 1)",
        "SELECT AVG(s) FROM (SELECT LAG(age, 1) OVER (PARTITION BY patient_id ORDER BY day) AS s FROM visits)",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT age FROM visits QUALIFY age > 3)",
        "use WHERE",
        "SELECT COUNT(*) FROM (SELECT age FROM visits WHERE age > 3)",
    ),
    (
        f"SELECT COUNT(*) FROM (SELECT COUNT(*) AS n {BY_UNIT} QUALIFY n > 3)",
        "use HAVING",
        f"SELECT COUNT(*) FROM (SELECT COUNT(*) AS n {BY_UNIT} HAVING COUNT(*) > 3)",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT RANK(age) OVER (PARTITION BY patient_id ORDER BY day) AS n FROM visits)",
        "RANK() OVER (…)",
        "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY patient_id ORDER BY day) AS n FROM visits)",
    ),
]
WHOLE = [
    ("SUM(age)", "put the aggregate in SELECT or HAVING", "SELECT SUM(age) FROM visits HAVING SUM(age) > 5"),
    ("age IN (SELECT 1)", "x IN (1, 2)", "SELECT COUNT(*) FROM visits WHERE age IN (1, 2)"),
    (
        "age IN (SELECT 1)",
        "join a public table in FROM",
        "SELECT COUNT(*) FROM visits JOIN hospitals ON hospital = id",
    ),
    ("?", "sql(question, [40])", "SELECT COUNT(*) FROM visits WHERE age > 40"),
]
"""Expressions whose fix is about the whole question."""
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


@pytest.mark.parametrize(("text", "proposed", "applied"), WHOLE)
def test_what_an_expression_is_refused_for_is_asked_otherwise(text: str, proposed: str, applied: str) -> None:
    assert proposed in refusal(text, whole=False).fix
    parse(applied, CATALOG)


def test_a_parameter_is_given_as_proposed() -> None:
    text = "SELECT COUNT(*) AS n FROM visits WHERE age > $1"
    assert "sql(question, [40])" in refusal(text, whole=True).fix
    assert described(parse(text, CATALOG, [40])) == described(parse(text.replace("$1", "40"), CATALOG))


@pytest.mark.parametrize(
    "question",
    [
        "SELECT AVG(alter) FROM visits",
        "SELECT ALTER, COUNT(*) FROM visits GROUP BY ALTER",
        "SELECT COUNT(*) FROM visits WHERE alter > 3",
        "SELECT COUNT(*) FROM visits GROUP BY alter",
    ],
)
def test_a_column_that_is_a_word_of_sql_is_written_in_quotes(question: str) -> None:
    alter = {"alter": Domain("integer", values=(1, 2, 3, 4))}
    catalog = replace(CATALOG, tables={"visits": replace(CATALOG.tables["visits"], columns=alter)})
    with pytest.raises(sf.Unsupported) as refused:
        parse(question, catalog)
    assert refused.value.code == "not-sql"
    assert (refused.value.line, refused.value.column) == (1, question.lower().index("alter") + len("alter"))
    assert refused.value.fix.endswith('is a word of SQL: write the column in double quotes, "alter"')
    assert parse(re.sub("alter", '"alter"', question, flags=re.IGNORECASE), catalog)
    with pytest.raises(sf.Unsupported) as other:
        parse(question, CATALOG)
    assert "double quotes, " not in other.value.fix


@pytest.mark.parametrize("step", ["where", "derive", "agg", "group_by"])
def test_a_part_of_a_question_says_so_too(tmp_path: Path, step: str) -> None:
    (tmp_path / "t.csv").write_text("id,alter\na,3\n")
    (tmp_path / "t.toml").write_text(ALTER)
    with sf.open(tmp_path / "t.toml") as curator:
        rows = curator.table("t")
        steps: dict[str, Callable[[], object]] = {
            "where": lambda: rows.where("alter > 3"),
            "derive": lambda: rows.derive(older="alter + 1"),
            "agg": lambda: rows.agg(n="SUM(alter)"),
            "group_by": lambda: rows.group_by(decade="alter // 10").agg(n=sf.count()),
        }
        with pytest.raises(sf.Unsupported) as refused:
            steps[step]()
    assert refused.value.fix == 'alter is a word of SQL: write the column in double quotes, "alter"'


ALTER = """
[unit]
name = "person"
budget = { epsilon = 1 }
[tables.t]
source = "t.csv"
id = "id"
max_rows = 1
columns = { alter = { type = "integer", bounds = [0, 100] } }
"""


@pytest.mark.parametrize(("key", "proposed", "applied", "where"), KEYS)
def test_a_proposed_key_has_groups(engine: DuckDB, key: str, proposed: str, applied: str, where: str) -> None:
    query = parse(f"SELECT COUNT(*) FROM visits GROUP BY {key}", CATALOG)
    with pytest.raises(sf.Unsupported) as refused:
        possible_group_keys(query.plan.keys, engine.values)
    assert proposed in refused.value.fix
    query = parse(f"SELECT COUNT(*) FROM visits WHERE {where} GROUP BY {applied}", CATALOG)
    assert possible_group_keys(query.plan.keys, engine.values, conditions_met_by_rows(query.plan.source))


def test_every_proposal_among_the_refusals_is_tried() -> None:
    """A fix that names a function or an operator of SQL is one of those above; a new one is to be added there."""
    texts = [text for text, _, _ in (*EXPRESSIONS, *WHOLE)]
    tried = {(found.code, found.fix) for text in texts for found in [refusal(text, whole=False)]}
    missing = []
    for text in REFUSED:
        found = refusal(text, whole=False)
        if re.search(r"[A-Z]{2,}|%", found.fix) and (found.code, found.fix) not in tried:
            missing.append((text, found.fix))
    assert not missing


def test_every_fix_among_the_questions_is_tried() -> None:
    """Whatever the fixtures are refused for; parameters, which are given beside the text, have a test of their own."""
    texts = [text for text, _, _ in QUESTIONS]
    tried = {(found.code, found.fix) for text in texts for found in [refusal(text, whole=True)]}
    asked = [text for text, expected in pairs() if expected[0].startswith("refused ")]
    refused = [(text, found) for text in asked for found in [_refused(text)] if found is not None]
    missing = [(text, found.code, found.fix) for text, found in refused if (found.code, found.fix) not in tried]
    assert not [each for each in missing if each[1] != "parameter"]


def _refused(text: str) -> Unsupported | None:
    try:
        parse(text, CATALOG)
    except Unsupported as refused:
        return refused
    return None
