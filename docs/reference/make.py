"""Writes what-can-be-asked.md from the code. Run with: .venv/bin/python docs/reference/make.py"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sfumato.curator.release_kinds import ReleaseKind, all_kinds, spec_fields
from sfumato.plan.costs import MAX_BYTES, MAX_MATCHES, MAX_STEPS
from sfumato.plan.sql.outer import FINISHING, MAX_COLUMNS
from sfumato.plan.sql.rows import MAX_JOINS
from sfumato.plan.sql.text import DEEPEST, LONGEST, MAX_TOKENS
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.plan.values.functions.declaring import Function
from sfumato.policy.domains import MAX_LETTERS

PAGE = Path(__file__).parent / "what-can-be-asked.md"

INTRODUCTION = f"""\
One statement about the tables of one policy, nearly always a `SELECT`, in the dialect of DuckDB. What is not on
this page is refused before any data are read, with a stable code, the place in the text, the rule and the nearest
thing that works. A question has at most {LONGEST // 1024} KB, {MAX_TOKENS:,} SQL tokens and {MAX_COLUMNS} columns,
and can be nested at most {DEEPEST} levels deep.

Its computing time is limited too, from its text and the policy, before anything is charged (`too-costly`):
on one row of the private table at most {MAX_STEPS:,} steps (of about 3 ns; a `LIKE` takes the letters of the text
times those of the pattern) and at most {MAX_BYTES // 1024} KiB of texts made. A column of texts is cut at its declared
`max_length`, {MAX_LETTERS:,} letters if none is declared: with a smaller one, a question can use more
patterns. Joins with public tables and items of lists make of one row at most {MAX_MATCHES:,}; a question joins at most
{MAX_JOINS} of them.

A real is 0 or between 2⁻⁵⁰⁰ and 2⁵⁰⁰ in size, in data, policies and questions: a computed one that is larger becomes
NULL, a smaller one 0. Texts become numbers, booleans and dates in `CAST` as the cells of a CSV file do
([how](policy.md#what-happens-to-a-cell)); a text of an infinite number becomes NULL. Groups that `WHERE` excludes,
whatever the data, are left out. You may group by an undeclared column if `WHERE` lists or bounds its values:
`WHERE n BETWEEN 1 AND 5`, `WHERE name IN ('a', 'b')`.

A real within bounds may be grouped by once it is rounded to few enough values: `FLOOR(x)`, `ROUND(x, 1)`,
`CAST(x AS INTEGER)`, `WIDTH_BUCKET`, and what is made of them. Dates in words (`STRFTIME`, `DAYNAME`,
`MONTHNAME`) are sorted by time.

A list that the policy declares (`most_items`) is asked about item by item: `FROM visits, UNNEST(tags) AS t(tag)`, with
`CROSS JOIN`, or `SELECT UNNEST(tags) AS tag FROM visits` in a subquery. One row becomes at most `most_items` rows, a
row whose list is empty none, and the limits of one unit grow by that factor.

Names with spaces, accents or quotes stand within double quotes: `"Total Cost €"`. A table may be written with the
schema `main`, `public` or `sfumato` before it."""

ABOUT_FUNCTIONS = """\
Each has a type and a range that follow from those of its arguments, and is total: it never fails, whatever a row
holds. Those marked · may also be applied to noisy numbers; all of them to the keys of groups in `SELECT`, `HAVING` and
`ORDER BY`."""

AGGREGATES = (
    ("COUNT(*)", "rows", "SELECT COUNT(*) FROM flights"),
    ("COUNT(x)", "rows where x is not missing", "SELECT COUNT(delay) FROM flights"),
    ("COUNT(DISTINCT id)", "units; of the id alone", "SELECT COUNT(DISTINCT tailnum) FROM flights"),
    (
        "COUNT(DISTINCT x)",
        "distinct values; APPROX_COUNT_DISTINCT(x) means the same",
        "SELECT COUNT(DISTINCT distance) FROM flights",
    ),
    (
        "COUNT(DISTINCT x, y)",
        "distinct tuples of rows without NULL; of COUNT(DISTINCT (x, y)) NULL is a value too",
        "SELECT COUNT(DISTINCT origin, carrier) FROM flights",
    ),
    (
        "MODE(x)",
        "the most frequent of listed values; also MODE() WITHIN GROUP (ORDER BY x)",
        "SELECT MODE(origin) FROM flights",
    ),
    (
        "APPROX_TOP_K(x, k)",
        "the k most frequent of listed values, in k columns",
        "SELECT origin, APPROX_TOP_K(carrier, 2) AS top FROM flights GROUP BY origin",
    ),
    ("COUNT_IF(a)", "rows where a holds", "SELECT COUNT_IF(delay > 60) FROM flights"),
    ("SUM(x)", "the sum; x has known bounds", "SELECT SUM(distance) FROM flights"),
    ("AVG(x)", "the mean; x has known bounds", "SELECT AVG(delay) FROM flights"),
    (
        "VARIANCE(x), VAR_SAMP, VAR_POP, STDDEV, STDDEV_SAMP, STDDEV_POP",
        "how x is spread, of a sample or of all ([how](../how-to/spread.md))",
        "SELECT STDDEV(delay) FROM flights",
    ),
    (
        "COVAR_SAMP(y, x), COVAR_POP, CORR, REGR_SLOPE, REGR_INTERCEPT, REGR_R2, REGR_COUNT, REGR_AVGX, REGR_AVGY",
        "how y and x go together, over the rows where both are there",
        "SELECT CORR(delay, distance) FROM flights",
    ),
    (
        "MEDIAN(x), QUANTILE_CONT(x, 0.9), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)",
        "quantiles, by rank; x has known bounds; _DISC keeps the column's type ([how](../how-to/medians.md))",
        "SELECT MEDIAN(delay), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY delay) FROM flights",
    ),
    (
        "MEDIAN, quantiles, MIN and MAX of dates and times",
        "the same of a bounded date, shown as a date",
        "SELECT origin, MEDIAN(day) AS half FROM flights GROUP BY origin",
    ),
    (
        "QUANTILE_CONT(x, [0.25, 0.5, 0.75])",
        "several at once, a column for each",
        "SELECT QUANTILE_CONT(delay, [0.25, 0.5, 0.75]) AS q FROM flights",
    ),
    (
        "MIN(x), MAX(x)",
        "the ends, aimed at from within: at a rank that the price decides",
        "SELECT MIN(distance), MAX(distance) FROM flights",
    ),
    (
        "… FILTER (WHERE a)",
        "any of these, over the rows where a holds",
        "SELECT AVG(delay) FILTER (WHERE distance > 1000) FROM flights",
    ),
)
"""How it is written, what it means, and a question about the example that uses it."""

CLAUSES = (
    ("FROM table [AS name]", "a private table", "SELECT COUNT(*) FROM flights AS f WHERE f.delay > 0"),
    (
        "JOIN public ON a = b, USING (a)",
        "public tables: INNER on either side, LEFT after the private table",
        "SELECT name, COUNT(*) FROM flights JOIN airlines USING (carrier) GROUP BY name",
    ),
    (
        "JOIN public ON x >= low AND x < high",
        "small public tables of bands",
        "SELECT COUNT(*) FROM flights JOIN airlines ON origin < airlines.carrier",
    ),
    (
        "JOIN private ON a.id = b.id, USING (id)",
        "private tables within one unit, INNER or LEFT, with further conditions; a table with itself",
        "SELECT COUNT(*) FROM flights a JOIN flights b ON a.tailnum = b.tailnum AND a.delay < b.delay",
    ),
    (
        "EXISTS, NOT EXISTS, IN, NOT IN (SELECT …)",
        "whether the unit has such rows; joined with other conditions by AND, OR and NOT",
        "SELECT COUNT(*) FROM flights WHERE origin = 'JFK' OR tailnum IN (SELECT tailnum FROM flights WHERE delay > 9)",
    ),
    (
        "subqueries over a public table",
        "one value, IN (SELECT …) or EXISTS: the values are written into the question",
        "SELECT COUNT(*) FROM flights WHERE carrier IN (SELECT carrier FROM airlines WHERE name LIKE 'A%')",
    ),
    (
        "one number of private rows, in an expression on rows",
        "one aggregate, released first at a quarter of the price "
        "([how](../how-to/subtotals.md#compare-rows-with-a-number))",
        "SELECT COUNT(*) FROM flights WHERE delay > (SELECT AVG(delay) FROM flights)",
    ),
    (
        "x IN (SELECT … FROM public), EXISTS (SELECT … FROM public WHERE column = x)",
        "whether a value is in a public table, anywhere in a condition; NULLs as in SQL",
        "SELECT COUNT(*) FROM flights WHERE carrier IN (SELECT carrier FROM airlines WHERE name LIKE '%Air%')",
    ),
    (
        "WINDOW w AS (…)",
        "a window with a name, for OVER w",
        "SELECT origin, COUNT(*) AS n, RANK() OVER w AS place FROM flights GROUP BY origin"
        " WINDOW w AS (ORDER BY COUNT(*) DESC)",
    ),
    (
        "(… UNION ALL …) in FROM",
        "rows of private tables one after the other",
        "SELECT COUNT(*) FROM (SELECT delay FROM flights UNION ALL SELECT delay FROM flights WHERE delay > 60)",
    ),
    (
        "WITH, subqueries in FROM",
        "row by row: choose, rename and compute columns",
        "WITH late AS (SELECT origin, delay FROM flights WHERE delay > 15) SELECT COUNT(*) FROM late",
    ),
    (
        "GROUP BY id in a subquery",
        "one row for each unit: COUNT, SUM, AVG, MIN, MAX, BOOL_OR, BOOL_AND, FIRST, LAST, MODE, ARG_MIN, ARG_MAX "
        "([how](../how-to/per-person.md))",
        "SELECT AVG(n) FROM (SELECT tailnum, COUNT(*) AS n FROM flights GROUP BY tailnum HAVING COUNT(*) > 1)",
    ),
    (
        "OVER (PARTITION BY id ORDER BY …), QUALIFY in a subquery",
        "ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, FIRST_VALUE, LAST_VALUE; running COUNT, SUM, AVG, MIN, MAX",
        "SELECT COUNT(*) FROM (SELECT RANK() OVER (PARTITION BY tailnum ORDER BY day) AS n FROM flights) WHERE n <= 3",
    ),
    (
        "WHERE",
        "any condition on one row",
        "SELECT COUNT(*) FROM flights WHERE origin = 'JFK' AND delay BETWEEN 5 AND 50",
    ),
    (
        "GROUP BY",
        "declared values, finite expressions, keys of public tables; every group is answered, empty ones too. "
        "Other values are [found in the data](../how-to/unknown-groups.md), with a δ",
        "SELECT DATE_TRUNC('month', day) AS month, origin, COUNT(*) FROM flights GROUP BY month, origin",
    ),
    (
        "GROUP BY ALL, GROUP BY 1, GROUP BY ()",
        "every column that is no aggregate; the first column; no key",
        "SELECT origin, carrier, COUNT(*) FROM flights GROUP BY ALL",
    ),
    (
        "ROLLUP, CUBE, GROUPING SETS, GROUPING(a)",
        "subtotals, which are sums of the groups: free beside them ([how](../how-to/subtotals.md))",
        "SELECT origin, carrier, GROUPING(carrier) AS over, COUNT(*) FROM flights GROUP BY ROLLUP (origin, carrier)",
    ),
    (
        "SELECT … FROM (SELECT … GROUP BY …)",
        "over noisy rows: columns, WHERE, ORDER BY, LIMIT, GROUP BY keys with COUNT, SUM, AVG, MIN, MAX, CORR, "
        "REGR_SLOPE; free",
        "SELECT MAX(n) - MIN(n) AS gap FROM (SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin)",
    ),
    (
        "… OVER ([PARTITION BY …] [ORDER BY …] [ROWS …])",
        "COUNT, SUM, AVG, MIN, MAX of noisy rows, also running and rolling; LAG, LEAD, FIRST_VALUE, LAST_VALUE, "
        "NTH_VALUE; RANK, DENSE_RANK, ROW_NUMBER, PERCENT_RANK, CUME_DIST, NTILE; free "
        "([how](../how-to/time-series.md))",
        "SELECT DATE_TRUNC('month', day) AS month, AVG(COUNT(*)) OVER (ORDER BY month ROWS 2 PRECEDING) AS rolling "
        "FROM flights GROUP BY month",
    ),
    (
        "QUALIFY",
        "which noisy rows are kept, by a window: free; all ranges then hold at once",
        "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier QUALIFY RANK() OVER (ORDER BY n DESC) <= 3",
    ),
    (
        "JOIN, LEFT, RIGHT, FULL JOIN of SELECTs that aggregate",
        "on equal group keys, all keys of one side; the SELECTs are bought together, at one price",
        "WITH a AS (SELECT origin, COUNT(*) AS n FROM flights WHERE delay > 60 GROUP BY origin), b AS (SELECT origin, "
        "COUNT(*) AS n FROM flights GROUP BY origin) SELECT origin, 100.0 * a.n / b.n AS percent FROM a JOIN b "
        "USING (origin)",
    ),
    (
        "SELECT … UNION [ALL] SELECT …",
        "answers one below the other, bought together, at one price; without ALL, one of several equal rows",
        "SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin UNION ALL SELECT 'all', COUNT(*) FROM flights",
    ),
    (
        "(SELECT …) as a number",
        "an aggregate without GROUP BY, bought together with the rest",
        "SELECT origin, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM flights) AS percent FROM flights GROUP BY origin",
    ),
    (
        "PIVOT, UNPIVOT",
        "of noisy rows: free. The columns are the values after IN, or those that the policy declares, never those of "
        "rows",
        "WITH m AS (SELECT origin, carrier, COUNT(*) AS n FROM flights GROUP BY ALL) "
        "PIVOT m ON origin IN ('EWR', 'JFK') USING SUM(n) GROUP BY carrier",
    ),
    (
        "SELECT DISTINCT",
        "values that are declared, whether any row has them or not; from the policy, free",
        "SELECT DISTINCT origin, carrier FROM flights",
    ),
    (
        "HAVING, ORDER BY, LIMIT, OFFSET",
        "on the noisy numbers: free",
        "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier HAVING n > 100 ORDER BY n DESC LIMIT 3 OFFSET 1",
    ),
    (
        "FETCH FIRST n ROWS ONLY",
        "the same as LIMIT n",
        "SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC FETCH FIRST 3 ROWS ONLY",
    ),
    (
        "functions of keys",
        "evaluated on the groups' keys, which are public: free",
        "SELECT MONTHNAME(DATE_TRUNC('month', day)) AS month, COUNT(*) FROM flights GROUP BY DATE_TRUNC('month', day)",
    ),
    (
        "SHOW TABLES, DESCRIBE table",
        "what the policy declares: free, and never what the data hold",
        "DESCRIBE flights",
    ),
    (
        "SUMMARIZE table",
        "the same, and beside each column a question about its quartiles or counts, to ask at a price: free",
        "SUMMARIZE flights",
    ),
    (
        "arithmetic over aggregates",
        "on the noisy numbers, with ranges that follow",
        "SELECT 100.0 * COUNT_IF(delay > 60) / COUNT(*) AS percent FROM flights",
    ),
)

REFUSED = (
    ("rows themselves", "SELECT * FROM flights", "star", "COUNT, SUM, AVG"),
    ("the id", "SELECT COUNT(*) FROM flights WHERE tailnum = 'N1'", "unit-column", "COUNT(DISTINCT id)"),
    ("lists of values", "SELECT LIST(delay) FROM flights", "aggregate", "quantiles, or counts by group"),
    (
        "windows over rows in the answer",
        "SELECT SUM(delay) OVER () FROM flights",
        "window",
        "a subquery with the window",
    ),
    (
        "windows over several units",
        "SELECT SUM(s) FROM (SELECT SUM(delay) OVER (ORDER BY day) AS s FROM flights)",
        "not-by-unit",
        "PARTITION BY id",
    ),
    (
        "units in subtotals",
        "SELECT origin, COUNT(DISTINCT tailnum) FROM flights GROUP BY ROLLUP (origin)",
        "subtotals-of-units",
        "COUNT(*), or one question for each grouping",
    ),
    (
        "noisy numbers as keys",
        "SELECT n, COUNT(*) FROM (SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin) GROUP BY n",
        "noisy-key",
        "WHERE n > …",
    ),
    (
        "a join without the unit",
        "SELECT COUNT(*) FROM flights a JOIN flights b ON a.delay = b.delay",
        "join-without-unit",
        "AND a.id = b.id",
    ),
    (
        "a public table on the preserved side",
        "SELECT COUNT(*) FROM airlines LEFT JOIN flights USING (carrier)",
        "public-preserved",
        "FROM private JOIN public … GROUP BY",
    ),
    (
        "a value for each group of other rows",
        "SELECT COUNT(*) FROM flights f WHERE delay > (SELECT AVG(delay) FROM flights g WHERE g.origin = f.origin)",
        "subquery-value",
        "SELECT origin, AVG(delay) FROM flights GROUP BY origin",
    ),
    ("the clock", "SELECT COUNT(*) FROM flights WHERE day < CURRENT_DATE", "clock", "DATE '2013-08-01'"),
    ("chance", "SELECT COUNT(*) FROM flights WHERE RANDOM() < 0.5", "random", "nothing: noise is ours to add"),
    (
        "regular expressions that may take long",
        "SELECT COUNT(*) FROM flights WHERE REGEXP_MATCHES(origin, '(J)\\1')",
        "regex",
        "patterns without back-references",
    ),
    ("texts of rows", "SELECT STRING_AGG(origin, ',') FROM flights", "aggregate", "counts by value"),
    ("two statements", "SELECT COUNT(*) FROM flights; SELECT 1", "one-statement", "one at a time"),
)
"""What, an example, the stable code of its refusal, and what works instead."""

ABOUT_KINDS = """\
Beside questions in SQL there are other kinds of release. Each has a spec, which `curator.propose` takes; the table
says which a server accepts. Most have a method of the curator too, and a command."""

_KINDS = {
    "logic": "Conditions and choices",
    "numeric": "Numbers",
    "textual": "Text",
    "temporal": "Dates and times",
}


def page() -> str:
    return "\n".join(
        [
            "# What can be asked",
            "",
            "<!-- Written by docs/reference/make.py from the code; a test keeps it up to date. -->",
            "",
            INTRODUCTION,
            "",
            "## Aggregates",
            "",
            *_examples(AGGREGATES),
            "",
            "## Clauses",
            "",
            *_examples(CLAUSES),
            "",
            "## Functions of one row",
            "",
            ABOUT_FUNCTIONS,
            *_functions(),
            "",
            "## Other releases",
            "",
            ABOUT_KINDS,
            "",
            *_table(("spec", "does", "at a server", "fields"), map(_kind, all_kinds().values())),
            "",
            "## Refused",
            "",
            *_table(
                ("what", "example", "code", "instead"),
                ((what, f"`{example}`", f"`{code}`", instead) for what, example, code, instead in REFUSED),
            ),
            "",
        ]
    )


def _examples(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    return _table(
        ("write", "means", "for example"), ((f"`{write}`", means, f"`{example}`") for write, means, example in rows)
    )


def _functions() -> list[str]:
    found: list[str] = []
    for kind, title in _KINDS.items():
        mine = [each for each in FUNCTIONS.values() if each.rule.__module__.endswith(f".{kind}")]
        found += ["", f"### {title}", "", *_table(("write", "means", ""), map(_function, mine))]
    return found


def _kind(kind: ReleaseKind) -> tuple[str, str, str, str]:
    module, name = kind.spec.__module__.removeprefix("sfumato.curator."), kind.spec.__name__
    fields = ", ".join(f"`{field.name}`" for field in spec_fields(kind.spec))
    refused = kind.refusal_by_skin.get("rest")
    return f"`{module}.{name}`", f"{kind.summary}.", f"`{kind.name}`" if refused is None else refused.rule, fields


def _function(each: Function) -> tuple[str, str, str]:
    return f"`{each.signature}`", each.meaning, "·" if each.name in FINISHING else ""


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


if __name__ == "__main__":
    PAGE.write_text(page())
