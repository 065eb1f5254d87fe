"""Questions that try to make an answer's form depend on people, or to reach the engine with words of their own.

The list only grows: whatever once got through is added here.
"""

from __future__ import annotations

MARK = "zqx"
"""Stands in every name and text that an attacker chooses: it may reach the engine inside a quoted text only."""

# fmt: off
VALUES = (
    "CAST(note AS INTEGER)", "CAST(note AS DOUBLE)", "TRY_CAST(note AS INTEGER)", "1 / age", "1 / 0", "age / 0",
    "1 / (age - age)", "cost / (age - 7)", "SQRT(-1)", "SQRT(cost)", "SQRT(age - 50)", "LN(0)", "LN(cost)", "LN(-age)",
    "1e308 * 1e308", "cost * 1e308 * 1e308", "EXP(1000)", "EXP(cost)", "EXP(EXP(EXP(cost)))", "POW(cost, 1000)",
    "POW(0, -1)", "POW(-8, 0.5)", "POW(age, age)", "age * age * age * age * age * age * age * age * age * age",
    "4611686018427387904 * age", "age + 4611686018427387904", "-(-4611686018427387904)", "age % 0", "age % (age - 7)",
    "cost % 0", "ABS(age - 4611686018427387904)", "ROUND(cost, 300)", "ROUND(cost, -300)", "FLOOR(1e300)",
    "CEIL(cost / 1e-300)", "CAST(1e300 AS INTEGER)", "CAST(cost * 1e30 AS INTEGER)", "CAST(flag AS INTEGER)",
    "LENGTH(note)", "LENGTH(note || note || note)", "LENGTH(REPLACE(note, 'a', 'aaaaaaaaaaaaaaaaaaaa'))",
    "LENGTH(SUBSTR(note, -5, -3))", "LENGTH(SUBSTR(note, 0))", "LENGTH(SUBSTR(note, 9223372036854775807))",
    "LENGTH(SUBSTR(note, 1, -9223372036854775807))", "LENGTH(LEFT(note, -1))", "LENGTH(RIGHT(note, -1))",
    "WIDTH_BUCKET(cost, 0, 0, 5)", "WIDTH_BUCKET(cost, 10, 0, 5)", "WIDTH_BUCKET(cost, 0, 10, 0)",
    "WIDTH_BUCKET(cost, -1e308, 1e308, 5)", "EXTRACT(year FROM day)", "EXTRACT(epoch FROM day)",
    "EXTRACT(day FROM day + INTERVAL 1 MONTH)", "EXTRACT(year FROM day + INTERVAL 9000 YEAR)",
    "EXTRACT(year FROM day - INTERVAL 2147483647 YEAR)", "DATE_DIFF('day', day, DATE '9999-12-31')",
    "DATE_DIFF('microsecond', day, DATE '0001-01-01')", "EXTRACT(year FROM CAST(note AS DATE))",
    "EXTRACT(hour FROM CAST(note AS TIMESTAMP))", "DATE_DIFF('day', CAST(note AS DATE), day)",
    "CASE WHEN note = 'abc' THEN 1 / 0 ELSE 1 END", "COALESCE(CAST(note AS INTEGER), 1 / 0)", "NULLIF(age, 7)",
    "age // 0", "age // (age - 7)", "CAST(note AS INTEGER) // -1", "CAST(note AS INTEGER) // CAST(note AS INTEGER)",
    "cost // 2", "TRUNC(cost * 1e300)", "CAST(cost AS DECIMAL(5, 2))", "LENGTH(STRFTIME(day, '%A %B %j'))",
    "LENGTH(STRFTIME(CAST(note AS TIMESTAMP), '%Y-%m-%d %H:%M:%S'))", "LENGTH(STRFTIME(day, note))", "ISODOW(day)",
    "GREATEST(age, CAST(note AS INTEGER))", "error('zqx')", "getenv('HOME')", "random()", "nextval('s')",
)
CONDITIONS = (
    "CAST(note AS INTEGER) = 1", "1 / (age - 7) > 0", "CAST(note AS DATE) > DATE '2024-01-01'", "CAST(note AS BOOLEAN)",
    "note LIKE '%a%a%a%a%a%a%a%a%a%a%a%a%a%a%a%b'", f"note LIKE '{'%a' * 400}'", f"note LIKE '{'_' * 5000}'",
    "note LIKE '\\'", "note ILIKE '%İ%'", "note = ''''", "note IN ('abc', NULL)", "age IN (1, 2, NULL)", "NULL", "age",
    "SQRT(age - 100) > 1", "LN(age - 7) > 0", "age * 4611686018427387904 * 4611686018427387904 > 0",
    "day + INTERVAL 9999999 DAY > day", "day = DATE '0000-00-00'", "day = DATE '99999-01-01'", "day > '2024-13-45'",
    "STARTS_WITH(note, 'abc')", "note ~ '(a+)+$'", "regexp_matches(note, '(a+)+$')", "age BETWEEN 9 AND 1",
    "EXISTS (SELECT 1 FROM people WHERE age = 7)", "age > (SELECT AVG(age) FROM people)", "who = 7", "sf_unit = 7",
    "rowid = 7", "note = (SELECT note FROM people)", "TRUE OR 1 / 0 > 0", "note IS DISTINCT FROM 'abc'",
    "note IS NOT DISTINCT FROM region", "age BETWEEN SYMMETRIC 9 AND 1", "CONTAINS(note, '%')", "CONTAINS(note, note)",
    "ENDS_WITH(note, 'c')", "SUFFIX(note, note)", "ISNULL(note)", "IFF(flag, age > 7, 1 / 0 > 1)", "note = $1",
)
KEYS = (
    "region", "flag", "code", "day", "note", "age", "cost", "CASE WHEN note = 'abc' THEN 1 ELSE 0 END", "1 / code",
    "CAST(note AS INTEGER)", "CASE WHEN age = 7 THEN 1 / (age - 7) END", "DATE_TRUNC('week', day)", "age > 7", "who",
    "DATE_TRUNC('century', day)", "EXTRACT(dow FROM day)", "WIDTH_BUCKET(cost, 0, 100, 10)", "UPPER(region)", "1",
    "SUBSTR(region, -1)", "code % 0", "SQRT(code - 2)", "LN(code - 1)", "day + INTERVAL 1 MONTH",
    "COALESCE(region, '')", "age // 10", "code // 0", "FLOOR(cost)", "FLOOR(cost / 10) * 10", "ROUND(cost, -1)",
    "CAST(cost AS INTEGER) // 7", "TRUNC(-cost / 9)", "ROUND(cost, 15)", "FLOOR(cost * 1e300)", "DAYNAME(day)",
    "STRFTIME(day, '%b %Y')", "STRFTIME(day, 'zqx%')", "FLOOR(cost) + cost",
)
WHOLE = (
    "", ";", "SELECT", "SELECT 1", "SELECT * FROM people", "SELECT note FROM people", "SELECT MAX(age) FROM people",
    "SELECT MEDIAN(age), MIN(cost) FROM people", "SELECT region, MEDIAN(cost), COUNT(*) FROM people GROUP BY region",
    "SELECT COUNT(*) FROM people; DROP TABLE people", "DROP TABLE people", "SELECT COUNT(*) FROM nowhere",
    "SELECT COUNT(*) FROM sf_people", "SELECT COUNT(*) FROM sf_memory_people", "SELECT COUNT(*) FROM duckdb_settings()",
    "SELECT COUNT(*) FROM 'people.parquet'", "SELECT COUNT(*) FROM read_csv('/etc/passwd')",
    "SELECT COUNT(*) FROM query('SELECT 1')", "SELECT COUNT(*) FROM people, people", "SELECT COUNT(*) FROM people p "
    "JOIN people q ON p.age = q.age", "SELECT COUNT(*) FROM people CROSS JOIN places", "SELECT COUNT(*) FROM people "
    "NATURAL JOIN places", "SELECT COUNT(*) FROM people RIGHT JOIN places USING (region)", "SELECT COUNT(*) FROM "
    "people FULL JOIN places USING (region)", "SELECT COUNT(*) FROM people JOIN places ON age > weight",
    "SELECT COUNT(*) FROM people TABLESAMPLE 10%", "SELECT COUNT(*) FROM people LIMIT 0", "SELECT COUNT(*) FROM people "
    "LIMIT -1", "SELECT COUNT(*) FROM people OFFSET 5", "SELECT COUNT(*) FROM people QUALIFY TRUE",
    "SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*) FROM people", "SELECT DISTINCT COUNT(*) FROM people",
    "SELECT COUNT(DISTINCT age) FROM people", "SELECT COUNT(DISTINCT who) FROM people", "SELECT who FROM people",
    "SELECT SUM(DISTINCT age) FROM people", "SELECT SUM(note) FROM people", "SELECT SUM(cost) OVER () FROM people",
    "SELECT COUNT(*) FROM (SELECT age FROM people LIMIT 1) t",
    "SELECT COUNT(*) FROM (SELECT DISTINCT age FROM people) t",
    "SELECT COUNT(*) FROM (SELECT age FROM people ORDER BY age) t", "WITH RECURSIVE t AS (SELECT 1) SELECT COUNT(*) "
    "FROM t", "SELECT COUNT(*) FROM people GROUP BY ROLLUP (region)", "SELECT COUNT(*) FROM people GROUP BY ALL",
    "SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) > 1 ORDER BY n DESC, region LIMIT 2",
    "SELECT region, COUNT(*) AS n FROM people GROUP BY 1 HAVING 1 / COUNT(*) > 0 ORDER BY 1 / COUNT(*)",
    "SELECT SUM(age) / COUNT(*), SQRT(SUM(age)), AVG(cost) / SUM(cost), 1 / COUNT(*), SUM(age) % COUNT(*) FROM people",
    "SELECT CAST(SUM(cost) * 1e300 * 1e300 AS INTEGER), COUNT(*) * 1e308 * 10 FROM people",
    "SELECT ROUND(AVG(cost), 400), ROUND(SUM(age), -400) FROM people", "SELECT NULLIF(COUNT(*), 0) FROM people",
    "SELECT kind, COUNT(*), SUM(weight) FROM people JOIN places USING (region) GROUP BY kind",
    "SELECT kind, COUNT(*) FROM people LEFT JOIN places USING (region) GROUP BY kind",
    "SELECT UPPER(region), LENGTH(region) * COUNT(*), region || '!' FROM people GROUP BY region "
    "HAVING LEFT(region, 1) < 'n'",
    "SELECT STRFTIME(day, '%A'), COUNT(*) FROM people GROUP BY day ORDER BY DAYNAME(day) FETCH FIRST 3 ROWS ONLY",
    "SELECT LN(code - 1), 1 / code, SQRT(code - 2), COUNT(*) FROM people GROUP BY code",
    "SUMMARIZE people", "DESCRIBE sf_people", "SELECT COUNT(*) FROM main.people", "SELECT COUNT(*) FROM system.people",
    "(" * 60 + "SELECT 1" + ")" * 60, "SELECT COUNT(*) FROM people WHERE " + "NOT " * 200 + "flag",
    "SELECT COUNT(*) FROM people WHERE " + " AND ".join(["age > 1"] * 300), "SELECT " + "COUNT(*), " * 200 + "1",
    "SELECT COUNT(*) FROM people WHERE note = '" + "x" * 70_000 + "'", "SELECT COUNT(*) FROM people\0", "\ud800",
)
INJECTIONS = (
    f'SELECT COUNT(*) AS "{MARK}; DROP TABLE people; --" FROM people', f"SELECT COUNT(*) AS {MARK} FROM people",
    f"SELECT COUNT(*) FROM people AS {MARK} WHERE {MARK}.age > 1", f'SELECT COUNT(*) FROM people AS "{MARK}\'"',
    f"SELECT COUNT(*) FROM people WHERE note = '{MARK}''; DROP TABLE people; --'",
    f"SELECT COUNT(*) FROM people -- {MARK}",
    f"SELECT COUNT(*) FROM people WHERE note = '{MARK}\\'' OR 1=1 --'", f"SELECT COUNT(*) /* {MARK} */ FROM people",
    f"SELECT COUNT(*) FROM people WHERE note = '{MARK}/*' AND note <> '*/'", f"SELECT COUNT(*) FROM {MARK}",
    f"SELECT COUNT(*) FROM people WHERE note = $${MARK}'$$", f"SELECT COUNT(*) FROM people WHERE note = $t${MARK}'$t$",
    f"SELECT COUNT(*) FROM people WHERE note = E'{MARK}\\x27'", f"SELECT COUNT(*) FROM people WHERE note = x'{MARK}'",
    f"SELECT COUNT(*) FROM people WHERE note = '{MARK}’ OR ‘1’=‘1'",
    f"SELECT COUNT(*) FROM people WHERE note = ‘{MARK}’",
    f"SELECT COUNT(*) FROM people WHERE note = '{MARK}\u02bc; --'", f"SELECT COUNT(*) FROM people WHERE \"{MARK}\" = 1",
    f"SELECT COUNT(*) FROM people WHERE note LIKE '{MARK}%' ESCAPE ''''", f'SELECT "{MARK}" FROM people',
    f"SELECT COUNT(*) FROM people WHERE note = '{MARK}' COLLATE {MARK}",
    f"SELECT COUNT(*) FROM people WHERE note = ?{MARK}",
    f"SELECT COUNT(*) FROM people WHERE note = :{MARK}", f"SELECT COUNT(*) FROM people WHERE note = @{MARK}",
    f"WITH {MARK} AS (SELECT note AS {MARK}2 FROM people) SELECT COUNT({MARK}2) FROM {MARK}",
    f"SELECT COUNT(*) FROM (SELECT CONCAT(note, '{MARK}'' || ') AS {MARK} FROM people) t WHERE {MARK} LIKE '%{MARK}%'",
    f"SELECT CASE WHEN note = '{MARK}'';' THEN '{MARK}--' ELSE '\"{MARK}' END AS {MARK}, COUNT(*) FROM people "
    "GROUP BY 1",
    f"SELECT SUM(LENGTH(REPLACE(SUBSTR(note, 1, 10), '{MARK}''', '\"{MARK}'))) FROM people",
    f"SELECT COUNT(*) FROM people WHERE EXTRACT('{MARK}' FROM day) = 1",
    f"SELECT COUNT(*) FROM people WHERE DATE_TRUNC('{MARK}''', day) = day",
    f"SELECT COUNT(*) FROM people WHERE CAST(note AS {MARK}) = 1", f"SELECT {MARK}(*) FROM people",
    f"SELECT COUNT(*) FROM people WHERE day + INTERVAL '{MARK}' DAY > day", f"SELECT COUNT(*) FROM people.{MARK}",
    f"SELECT COUNT(*) FROM people PIVOT ({MARK})", f"SELECT COUNT(*) FROM people WHERE note = '{MARK}\n--\n'",
)
# fmt: on
QUESTIONS = (
    *(f"SELECT SUM(LEAST(GREATEST({value}, -9), 9)) FROM people" for value in VALUES),
    *(
        f"SELECT region, AVG(LEAST(GREATEST({value}, -9), 9)), COUNT({value}) FROM people GROUP BY 1"
        for value in VALUES
    ),
    *(f"SELECT COUNT(*) FROM people WHERE {condition}" for condition in CONDITIONS),
    *(f"SELECT COUNT(*) FILTER (WHERE {condition}), COUNT(*) FROM people" for condition in CONDITIONS),
    *(f"SELECT {key}, COUNT(*), SUM(cost) FROM people GROUP BY {key}" for key in KEYS),
    *WHOLE,
    *INJECTIONS,
)
