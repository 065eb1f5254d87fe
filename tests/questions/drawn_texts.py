"""Texts of questions with errors of types, grammar and spelling in them: many are refused, none may break the parser.

``audit.asked_questions`` draws questions that can be answered. Here each text has a rate of errors: at that rate an
expression of another type, an unsuitable function or a strange literal stands where one was wanted, so that the rules
of every function meet what they do not expect. Afterwards tokens are deleted, repeated and exchanged.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from sfumato.plan.values.functions import FUNCTIONS
from sfumato.policy import Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

VISITS = {
    "ward": {"values": ["north", "south", "it's", ""]},
    "age": {"type": "integer", "bounds": [0, 110]},
    "cost": {"type": "real", "bounds": [-5, 5000], "grid": "0.01"},
    "urgent": {"type": "boolean"},
    "code": {"type": "integer", "values": [1, 2, 3]},
    "day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
    "at": {"type": "timestamp", "bounds": ["2024-01-01 00:00:00", "2024-12-31 23:59:59"]},
    "note": {"type": "text"},
    "tags": {"values": ["a", "b"], "most_items": 3},
}
_STORED = {
    "who": pa.int64(),
    "ward": pa.string(),
    "age": pa.int64(),
    "cost": pa.float64(),
    "urgent": pa.bool_(),
    "code": pa.int64(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "note": pa.string(),
    "tags": pa.list_(pa.string()),
}
_OPENED = [dt.date(2000, 1, day) for day in (1, 2, 3)]
_PLACES = {"ward": ["north", "south", None], "weight": [1, 2, 3], "opened": _OPENED}


def empty_policy() -> Policy:
    """Two private tables of no rows about the same people, and a public one, with columns of every type."""
    visits = pa.table({name: pa.array([], kind) for name, kind in _STORED.items()})
    tables = {
        "visits": Table("visits", visits, VISITS, id="who", max_rows=6, max_groups=3, max_rows_per_group=4),
        "stays": Table("stays", visits, VISITS, id="who", max_rows=2),
        "places": Table("places", pa.table(_PLACES), public=True),
    }
    return Policy(PrivacyUnit("person"), Budget(10**6, "1e-3"), tables, size=1000, allow_large_delta=True)


COLUMNS = {
    "number": ("age", "cost", "code", "age", "cost"),
    "text": ("ward", "ward", "note"),
    "date": ("day", "day", "at"),
    "truth": ("urgent",),
}
"""Columns that are in every private table, or in most, by kind."""
STRANGE_COLUMNS = (
    "who", "tags", "weight", "opened", "n", "r", "visits.age", "s.cost", "p.ward", "nowhere", '"age"', '"a""b"',
)  # fmt: skip
LITERALS = {
    "number": ("0", "1", "-1", "2", "2.5", "40"),
    "text": ("'north'", "'it''s'", "''", "'2024-02-29'"),
    "date": ("DATE '2024-02-29'", "DATE '2024-07-01'", "TIMESTAMP '2024-01-01 05:06:07'"),
    "truth": ("TRUE", "FALSE"),
}
STRANGE_LITERALS = (
    "1e400", "1e-400", "-0.0", "00012", "9223372036854775808", "1" * 400, "0x1F", "1_000", ".5", "5.", "NULL", "*",
    "'%'", "'\\'", "E'\\n'", "'2024-02-30'", "'\U0001f642'", "'" + "x" * 3000 + "'", "x'ff'", "NaN", "'nan'::DOUBLE",
    "DATE '9999-12-31'", "DATE '0001-01-01'", "DATE 'never'", "TIME '05:06'", "'infinity'::DATE", "INTERVAL '1' DAY",
    "INTERVAL 3 MONTH", "INTERVAL '1-2' YEAR TO MONTH", "[1, 2]", "(1, 2)", "{'a': 1}", "$1", "?", ":name",
    "CURRENT_DATE", "NOW()", "(SELECT 1)", "(SELECT MAX(weight) FROM places)",
)  # fmt: skip
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")
ARITHMETIC = ("+", "-", "*", "/", "//", "%")
STRANGE_OPERATORS = (
    "^", "**", "||", "!=", "XOR", "LIKE", "ILIKE", "SIMILAR TO", "~", "IS", "IS NOT", "&", "|", "<<", ">>", "->",
    "@>", "COLLATE", "AND", "OR",
)  # fmt: skip
TYPES = ("INT", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN")
STRANGE_TYPES = ("DECIMAL(9, 2)", "TEXT", "INT[]", "JSON", "TIME", "HUGEINT", "nothing")
PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "dow")
STRANGE_PARTS = ("epoch", "century", "nothing", "1", "NULL", "ward")
_WORDS = ("AND", "OR", "NOT", "BETWEEN", "IN", "CASE", "LIKE", "ILIKE", "CAST")
NAMES = tuple(name for name in FUNCTIONS if name[0].isalpha() and " " not in name and name not in _WORDS)
FORMS = {
    "number": (
        "ABS({number})", "ROUND({number}, 1)", "FLOOR({number})", "SQRT({number})", "LENGTH({text})",
        "GREATEST({number}, {number})", "LEAST({number}, 3)", "COALESCE({number}, {number})",
        "NULLIF({number}, {number})", "EXTRACT({part} FROM {date})", "DATE_DIFF('{part}', {date}, {date})",
        "CAST({number} AS {type})", "CAST({text} AS {type})", "-{number}", "LN({number})", "POWER({number}, 2)",
        "WIDTH_BUCKET({number}, 0, 9, 3)", "FLOOR({number} / 10) * 10",
    ),
    "text": (
        "UPPER({text})", "LOWER({text})", "SUBSTRING({text}, 1, {number})", "{text} || {text}",
        "CONCAT({text}, {number})", "CAST({number} AS VARCHAR)", "CAST({date} AS {type})",
        "STRFTIME({date}, '%Y-%m')", "TRIM({text})", "LEFT({text}, 2)", "REPLACE({text}, 'n', {text})",
        "DAYNAME({date})", "COALESCE({text}, 'none')", "REGEXP_EXTRACT({text}, '[a-z]+')",
    ),
    "date": (
        "DATE_TRUNC('{part}', {date})", "{date} + INTERVAL {number} {part}", "{date} - INTERVAL '1' {part}",
        "CAST({date} AS {type})", "DATE_ADD({date}, INTERVAL 2 {part})", "COALESCE({date}, {date})",
        "{date} + {number}", "LAST_DAY({date})",
    ),
    "truth": (
        "NOT {truth}", "{truth} AND {truth}", "{truth} OR {truth}", "{number} {comparison} {number}",
        "{text} {comparison} {text}", "{date} {comparison} {date}", "{number} IN ({number}, 2, {number})",
        "{text} NOT IN ('north', {text})", "{number} BETWEEN {number} AND 40",
        "{date} NOT BETWEEN {date} AND DATE '2024-09-09'", "{text} LIKE 'n%'", "{text} ILIKE '%N_'",
        "{number} IS NULL", "{truth} IS NOT TRUE", "STARTS_WITH({text}, 'n')", "({truth})",
        "who IN (SELECT who FROM stays WHERE {truth})", "EXISTS (SELECT 1 FROM stays s WHERE s.who = visits.who)",
        "REGEXP_MATCHES({text}, 'n+')", "{number} > ALL (SELECT weight FROM places)",
    ),
}  # fmt: skip
"""Expressions by the kind that they are of; braces stand for another of that kind."""
AGGREGATES = (
    "COUNT(*)", "COUNT(*)", "COUNT(*)", "COUNT({any})", "COUNT(DISTINCT who)", "COUNT(DISTINCT {any})",
    "SUM({number})", "SUM({number})", "AVG({number})", "MIN({number})", "MAX({date})", "MEDIAN({number})",
    "STDDEV({number})", "VAR_POP({number})", "BOOL_OR({truth})", "COUNT_IF({truth})", "QUANTILE_CONT({number}, 0.9)",
    "QUANTILE_CONT({number}, [0.1, {number}])", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {number})",
    "SUM(DISTINCT {number})", "COUNT(*) FILTER (WHERE {truth})", "SUM({number}) FILTER (WHERE {truth})",
    "SUM({number}) / COUNT(*)", "COUNT(*) * {number}", "100.0 * SUM(CASE WHEN {truth} THEN 1 ELSE 0 END) / COUNT(*)",
    "ROUND(AVG({number}), 1)", "COUNT(*) > 5",
)  # fmt: skip
UNIT_AGGREGATES = (
    *AGGREGATES, "FIRST({any} ORDER BY day)", "LAST({any} ORDER BY {any})", "ARG_MAX({any}, {any})",
    "CORR({number}, {number})",
)  # fmt: skip
STRANGE_AGGREGATES = (
    "MODE({any})", "STRING_AGG({text}, ',')", "GROUPING({any})", "LIST({any})", "COUNT()", "SUM()", "MAX()",
    "SUM(COUNT(*))", "APPROX_COUNT_DISTINCT({any})", "QUANTILE_CONT({any})", "SUM({any}, {any})",
    "AVG(DISTINCT {any}) OVER ()", "FIRST({any})", "SUM(COUNT(*)) OVER ()", "RANK() OVER (ORDER BY COUNT(*))",
    "COUNT(*) OVER (PARTITION BY {any})", "{any}", "SUM(*)", "CORR({any})", "CORR({number}, {number})",
    "REGR_SLOPE({number}, {number})", "APPROX_TOP_K({any}, 3)", "APPROX_TOP_K({any}, {any})", "APPROX_TOP_K()",
    "MODE()", "MEDIAN()", "QUANTILE_CONT()", "CORR()", "MODE() WITHIN GROUP (ORDER BY {any})", "BOOL_OR()",
    "COUNT_IF()", "VAR_POP()", "FIRST()", "ARG_MAX()", "COUNT(DISTINCT)", "SUM(DISTINCT *)",
    "COUNT(* EXCLUDE (age))", "COUNT({any}, {any})",
)  # fmt: skip
WINDOWS = (
    "ROW_NUMBER()", "ROW_NUMBER()", "RANK()", "DENSE_RANK()", "LAG({any})", "LEAD({number}, 2, {number})",
    "FIRST_VALUE({any})", "LAST_VALUE({any})", "COUNT(*)", "SUM({number})", "AVG({number})", "MAX({number})",
    "NTILE(4)", "LAG({any}, {any}, {any})", "MIN({any})", "STDDEV({any})",
)  # fmt: skip
STRANGE_WINDOWS = (
    "LAG()", "FIRST_VALUE()", "SUM()", "MAX()", "ROW_NUMBER({any})", "COUNT(DISTINCT {any})", "MODE({any})",
    "NTH_VALUE({any}, 2)",
)  # fmt: skip
FRAMES = (
    "", "", "", " ROWS UNBOUNDED PRECEDING", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " RANGE {number} PRECEDING",
)  # fmt: skip
JOINS = (
    "visits JOIN places p ON visits.ward = p.ward", "visits LEFT JOIN places p ON p.ward = visits.ward",
    "visits JOIN places USING (ward)", "visits JOIN stays s ON visits.who = s.who",
    "visits LEFT JOIN stays s USING (who)", "visits v JOIN visits w ON v.who = w.who AND v.day < w.day",
    "visits CROSS JOIN UNNEST(tags) AS u(tag)", "visits, UNNEST(tags) AS u(tag)",
    "visits SEMI JOIN stays USING (who)",
)  # fmt: skip
STRANGE_JOINS = (
    "visits JOIN stays ON {truth}", "visits RIGHT JOIN places p ON {truth}", "visits FULL JOIN stays USING (who)",
    "visits, stays", "visits NATURAL JOIN stays", "visits ASOF JOIN stays ON {truth}", "places", "nowhere", "t",
    '"Visits"', "visits JOIN places",
    "visits JOIN (SELECT {any} AS n, COUNT(*) AS r FROM stays GROUP BY who) q ON {truth}", "UNNEST(tags)",
    "visits AS s(n, r)",
)  # fmt: skip
PARAMETERS: tuple[Any, ...] = (
    None, [], [1], ["x", None], {"name": 2.5}, {"name": dt.date(2024, 1, 1)}, [float("nan")], 7,
)  # fmt: skip
KEYS = ("ward", "ward", "code", "urgent", "{any}", "{text}", "DATE_TRUNC('month', day)")
LIMITS = ("-1", "0", "x", "1.5", "ALL", "9" * 20, "10 OFFSET 2", "NULL")
STRANGE_TOKENS = ("", ";", "--", "/*", "'", '"', "\0", "\u00a0", "((((", ")", ",", "é", "SELECT ", "NOT ", "NULL")
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\w+|\s+|[<>!=|*/-]+|.", re.DOTALL)
_HOLE = re.compile(r"\{(number|text|date|truth|any|part|type|comparison)\}")
_KINDS = ("number", "text", "date", "truth")
_DEEPEST = 3


class DrawnText:
    """One text, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._errors = self._random.choice((0, 0.01, 0.03, 0.1, 0.3))
        """How often something unsuitable is drawn."""

    def question(self) -> tuple[str, Any]:
        """Draw a text, and the values that are given beside it."""
        text = self._union() if self._happens(0.05) else self._select(0)
        for _ in range(self._random.choice((0, 0, 0, 0, 0, 1, 2))):
            text = self._mutated(text)
        given = re.search(r"\?|\$1|:name", text) is not None and self._happens(0.7)
        return text, self._random.choice(PARAMETERS) if given else None

    def _happens(self, often: float) -> bool:
        return self._random.random() < often

    def _one(self, usual: Sequence[str], strange: Sequence[str] = ()) -> str:
        return self._random.choice(strange if strange and self._happens(self._errors) else usual)

    def _mutated(self, text: str) -> str:
        """Delete, repeat, exchange or replace a token, or put one in brackets."""
        tokens = _TOKEN.findall(text)
        place, other = (self._random.randrange(len(tokens)) for _ in range(2))
        match self._random.randrange(6):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, tokens[other])
            case 2:
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 3:
                kind = self._random.choice(_KINDS)
                tokens[place] = self._random.choice((*COLUMNS[kind], *STRANGE_COLUMNS, *STRANGE_LITERALS, *COMPARISONS))
            case 4:
                tokens[place] = f"({tokens[place]})"
            case _:
                tokens[place] = self._random.choice(STRANGE_TOKENS)
        return "".join(tokens) or "SELECT"

    def _filled(self, form: str, depth: int = 1) -> str:
        """Draw something for every hole of a form."""

        def drawn(hole: re.Match[str]) -> str:
            match hole[1]:
                case "part":
                    return self._one(PARTS, STRANGE_PARTS)
                case "type":
                    return self._one(TYPES, STRANGE_TYPES)
                case "comparison":
                    return self._one(COMPARISONS, STRANGE_OPERATORS)
            return self._value(hole[1], depth)

        return _HOLE.sub(drawn, form)

    def _value(self, kind: str, depth: int = 1) -> str:
        """Draw an expression of a kind, or now and then of another."""
        kind = self._random.choice(_KINDS) if kind == "any" or self._happens(self._errors) else kind
        if self._happens(self._errors / 4):
            given = ", ".join(self._value("any", depth + 1) for _ in range(self._random.randint(0, 3)))
            return f"{self._random.choice(NAMES)}({given})"
        if depth >= _DEEPEST or self._happens(0.5):
            if self._happens(0.7):
                return self._one(COLUMNS[kind], STRANGE_COLUMNS)
            return self._one(LITERALS[kind], STRANGE_LITERALS)
        if self._happens(0.15):
            test = (
                f"CASE WHEN {{truth}} THEN {{{kind}}}"
                if self._happens(0.8)
                else f"CASE {{any}} WHEN {{any}} THEN {{{kind}}}"
            )
            return self._filled(f"{test} ELSE {{{kind}}} END" if self._happens(0.6) else f"{test} END", depth + 1)
        if kind == "number" and self._happens(0.3):
            operator = self._one(ARITHMETIC, STRANGE_OPERATORS)
            return self._filled(f"({{number}} {operator} {{number}})", depth + 1)
        return self._filled(self._random.choice(FORMS[kind]), depth + 1)

    def _aggregate(self, *, of_unit: bool = False) -> str:
        return self._filled(self._one(UNIT_AGGREGATES if of_unit else AGGREGATES, STRANGE_AGGREGATES))

    def _select(self, depth: int) -> str:
        """Draw a question that aggregates."""
        keys = [self._filled(self._one(KEYS, STRANGE_COLUMNS)) for _ in range(self._random.randint(0, 2))]
        shown = [*keys, *(f"{self._aggregate()}{self._alias()}" for _ in range(self._random.randint(1, 2)))]
        text = f"SELECT {self._one(('',), ('DISTINCT ',))}{', '.join(shown)} FROM {self._source(depth)}"
        if self._happens(0.35):
            text += f" WHERE {self._value('truth', 0)}"
        if keys or self._happens(self._errors):
            text += f" GROUP BY {self._grouping(keys)}"
        if self._happens(0.15):
            text += f" HAVING {self._aggregate()} {self._one(COMPARISONS, STRANGE_OPERATORS)} {self._value('number')}"
        if self._happens(self._errors):
            text += f" QUALIFY {self._window()} <= 2"
        if self._happens(0.2):
            ordered = self._one((*keys, "1", self._aggregate()), ("7", "n", "nowhere", "-1"))
            text += f" ORDER BY {ordered}{self._one(('', ' DESC'), (' NULLS FIRST',))}"
        if self._happens(0.1):
            text += f" LIMIT {self._one(('1', '10'), LIMITS)}"
        if depth == 0 and self._happens(0.07):
            recursive = self._one(("",), (" RECURSIVE",))
            return f"WITH{recursive} visits AS ({self._rows(1)}), u AS (SELECT * FROM visits) {text}"
        return text

    def _alias(self) -> str:
        return self._one(("", " AS n", " AS r", " AS x"), (" n", ' AS "a b"', " AS age", " AS who"))

    def _grouping(self, keys: Sequence[str]) -> str:
        listed = ", ".join(keys) or "1"
        sets = self._one((f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ())", "1"))
        return self._one((listed, listed, listed, listed, "ALL", sets), ("()", "1, 2, 3", "-1", "NULL", "who"))

    def _source(self, depth: int) -> str:
        """Draw tables, a join, or the rows of a subquery."""
        if depth < 2 and self._happens(0.35):
            return f"({self._rows(depth + 1)}){self._one(('', ' AS s', ' AS visits'), (' AS s(n, r)',))}"
        if self._happens(0.25):
            return self._filled(self._one(JOINS, STRANGE_JOINS))
        return self._one(("visits", "visits", "stays"), STRANGE_JOINS)

    def _rows(self, depth: int) -> str:
        """Draw a question that gives rows: of each person, of a window, or some columns of some rows."""
        form = self._random.randrange(5)
        if form == 0:
            made = f"{self._aggregate(of_unit=True)} AS age, {self._aggregate(of_unit=True)} AS cost"
            grouped = self._one(("who", "who", "who, ward"), ("1", "ward", "who, {any}"))
            having = f" HAVING {self._aggregate(of_unit=True)} > 1" if self._happens(0.15) else ""
            return f"SELECT who, {made} FROM {self._source(depth)} GROUP BY {self._filled(grouped)}{having}"
        if form == 1:
            shown = self._one(("*", "ward, day", "cost, urgent"))
            text = f"SELECT {shown}, {self._window()} AS age FROM {self._source(depth)}"
            test = f" QUALIFY {self._window()} {self._one(COMPARISONS)} {self._value('number', 2)}"
            return f"{text}{test}" if self._happens(0.2) else text
        if form == 2:
            star = self._one(("*",), ("* EXCLUDE (age)", "* REPLACE (1 AS age)"))
            return f"SELECT {star} FROM {self._source(depth)} WHERE {self._value('truth')}"
        if form == 3 and depth < 2:
            return self._select(depth + 1)
        columns = {
            "age": "number",
            "cost": "number",
            "code": "number",
            "ward": "text",
            "day": "date",
            "urgent": "truth",
        }
        named = (f"{self._value(kind)} AS {name}" if self._happens(0.4) else name for name, kind in columns.items())
        return f"SELECT {', '.join(named)} FROM {self._source(depth)}"

    def _union(self) -> str:
        word = self._one(("UNION ALL", "UNION ALL"), ("UNION", "EXCEPT", "INTERSECT", "UNION ALL BY NAME"))
        both = f"{self._rows(2)} {word} {self._rows(2)}"
        return self._one((f"SELECT COUNT(*) FROM ({both})", f"SELECT ward, SUM(age) FROM ({both}) GROUP BY 1"), (both,))

    def _window(self) -> str:
        over = self._one(("PARTITION BY who", "PARTITION BY who", "PARTITION BY who, ward"), ("", "PARTITION BY age"))
        order = self._one((" ORDER BY day", " ORDER BY day", " ORDER BY {any} DESC"), ("", " ORDER BY 1"))
        return self._filled(f"{self._one(WINDOWS, STRANGE_WINDOWS)} OVER ({over}{order}{self._one(FRAMES)})", 2)
