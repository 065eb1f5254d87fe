"""A refused expression is told why, with the nearest thing that works."""

from __future__ import annotations

import difflib

from sqlglot import exp

from sfumato.errors import Unsupported
from sfumato.plan.values.functions import FUNCTIONS

_CLOCK = ("clock", "the answer may not depend on when it is asked", "write the date as a literal, DATE '2024-01-31'")
_CHANCE = ("random", "noise comes from the mechanism alone", "leave it out: a random choice of rows is not an answer")
_REGEX = ("regex", "regular expressions are not evaluated: some never end", "use LIKE '%part%' or STARTS_WITH")
_SUBQUERY = (
    "subquery",
    "a query within an expression is not evaluated",
    "write the values out with IN (…), or join a public table in FROM",
)
_BITS = ("bits", "bits of numbers are not computed with", "use arithmetic, such as x % 2, or POW for powers")
_NESTED = ("nested", "lists, maps and structs are not values here", "use plain columns")
_PARAMETER = ("parameter", "a parameter stands for a value", "write the value, or give it: sql(question, [40])")
_WINDOW = ("window", "functions over a window of rows are not evaluated", "use GROUP BY")
_AGGREGATE = (
    "aggregate",
    "an aggregate cannot stand here",
    "put it in SELECT or HAVING, and not inside another aggregate or a condition on rows",
)
_STAR = ("star", "* stands only in COUNT(*)", "name the columns")
_ZONE = ("time-zone", "times have no zone here", "compare times as they are stored")

_UNNEST = (
    "unnest",
    "UNNEST stands in FROM, or once in a subquery that neither groups nor numbers rows",
    "write FROM <table> CROSS JOIN UNNEST(<list>) AS t(item), and ask about item",
)

_CLASSES: list[tuple[tuple[type[exp.Expr], ...], tuple[str, str, str]]] = [
    ((exp.Window, exp.WindowSpec), _WINDOW),
    ((exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls), _AGGREGATE),
    ((exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime), _CLOCK),
    ((exp.Rand, exp.Randn, exp.Uuid), _CHANCE),
    ((exp.RegexpLike, exp.RegexpILike, exp.RegexpExtract, exp.RegexpReplace, exp.SimilarTo, exp.Glob), _REGEX),
    ((exp.Subquery, exp.Query, exp.Exists, exp.Any, exp.All), _SUBQUERY),
    ((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift), _BITS),
    ((exp.Array, exp.Struct, exp.Map, exp.Bracket, exp.JSONExtract, exp.Dot, exp.Tuple, exp.Lambda), _NESTED),
    ((exp.Placeholder, exp.Parameter), _PARAMETER),
    ((exp.Star, exp.Columns), _STAR),
    ((exp.AtTimeZone,), _ZONE),
    ((exp.Escape,), ("like-escape", "LIKE takes no ESCAPE", "use STARTS_WITH, or REPLACE the letter first")),
    ((exp.Log,), ("function", "LOG has several meanings", "write LN(x), or LN(x) / LN(10)")),
    ((exp.Interval,), ("interval", "an interval stands only beside + or - and a date", "write d + INTERVAL '3 day'")),
    ((exp.DateAdd, exp.DateSub), ("function", "dates are moved with + and -", "write d + INTERVAL '3 day'")),
    ((exp.StrPosition,), ("function", "positions in texts are not found", "use LIKE '%part%' or STARTS_WITH")),
    ((exp.Explode, exp.Unnest), _UNNEST),
    ((exp.Alias,), ("alias", "a name cannot be given here", "name it in SELECT")),
]

_NAMES = {
    **dict.fromkeys(
        ("now", "today", "get_current_timestamp", "transaction_timestamp", "current_localtimestamp"), _CLOCK
    ),
    **dict.fromkeys(("random", "setseed", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"), _CHANCE),
    **dict.fromkeys(("regexp_matches", "regexp_full_match", "regexp_extract", "regexp_replace"), _REGEX),
    "histogram": (
        "aggregate",
        "HISTOGRAM(x) is not answered",
        "count by bins: SELECT WIDTH_BUCKET(x, 0, 100, 10) AS bin, COUNT(*) … GROUP BY bin",
    ),
    "date_sub": ("function", "DATE_SUB is not among the functions", "write DATE_DIFF('day', a, b)"),
}


def refusal(node: exp.Expr) -> Unsupported:
    """Make the refusal of a part of the question that is not understood."""
    for classes, (code, rule, fix) in _CLASSES:
        if isinstance(node, classes):
            return Unsupported(code, rule, fix=fix)
    name = node.name if isinstance(node, exp.Anonymous) else _typed(node)
    code, rule, fix = _NAMES.get(
        name.lower(), ("function", f"{name[:40].upper()} is not among the functions", _nearest(name))
    )
    return Unsupported(code, rule, fix=fix)


def _typed(node: exp.Expr) -> str:
    return node.sql_name() if isinstance(node, exp.Func) else node.key


def _nearest(name: str) -> str:
    names = [each for each in FUNCTIONS if each[0].isalpha()]
    close = difflib.get_close_matches(name[:40].upper(), names, n=1, cutoff=0.75)
    if close:
        return f"did you mean {FUNCTIONS[close[0]].signature}?"
    return "use one of " + ", ".join(names)
