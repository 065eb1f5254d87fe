"""The dialect of questions: DuckDB's, with the name of each function as the analyst typed it.

The parser has one class for all spellings of a function (``StrToTime`` for strptime, ``DateBin`` for time_bucket), so
a refusal would otherwise name a function that nobody wrote. Refusals of parts of an expression name the function as it
was typed, and propose what works when it is typed.

Walks of syntax trees, in a quarter of the time of the parser's own: lowering a question walks its tree often.
"""

from __future__ import annotations

import difflib
import re
from typing import TypeVar

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB

from sfumato.errors import Unsupported
from sfumato.plan.values.functions import FUNCTIONS

N = TypeVar("N", bound=exp.Expr)


def list_nodes(tree: exp.Expr) -> list[exp.Expr]:
    """List a tree's nodes breadth first, itself included, as ``tree.walk()`` yields them."""
    nodes = [tree]
    for node in nodes:  # grows meanwhile
        for value in node.args.values():
            if value is None or value.__class__ in _LEAVES:
                continue
            if isinstance(value, exp.Expr):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, exp.Expr)]
    return nodes


def find_nodes(tree: exp.Expr, *kinds: type[N]) -> list[N]:
    """List the nodes of some kinds, breadth first."""
    return [node for node in list_nodes(tree) if isinstance(node, kinds)]


def has_node(tree: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Return whether a tree has a node of some kind, itself included."""
    return any(isinstance(node, kinds) for node in list_nodes(tree))


_LEAVES = frozenset([str, bool])
"""The usual values of arguments that are no nodes: ``isinstance`` of these takes most of a walk."""


TYPED_NAME = "typed_name"
DIALECT = DuckDB()
DIALECT.ORIGINAL_NAME_META_KEY = TYPED_NAME
_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_COMMON_NAMES = {"LISTAGG": "STRING_AGG"}


def function_name(node: exp.Expr) -> str:
    """Return the name of a function in upper case, as it was typed; for an operator, its own name."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, (exp.Ceil, exp.Floor)):  # written as ROUND where they have digits
        return node.key.upper()
    typed_name = node.meta.get(TYPED_NAME)
    if typed_name is not None:
        return str(typed_name).upper()
    call = _CALL.match(node.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE))
    return _COMMON_NAMES.get(call[1], call[1]).upper() if call else node.key.upper()


_CLOCK = (
    "clock",
    "the current date and time are not supported, since answers must not change with the time of day",
    "write the date as a literal, such as DATE '2024-01-31'",
)
_CHANCE = (
    "random",
    "random functions are not supported, since only the privacy mechanism may add randomness",
    "leave out the random function",
)
_REGEX_OPERATOR = (
    "regex",
    "~ and SIMILAR TO match a part of the text in some databases, and the whole text in others",
    "write REGEXP_MATCHES(text, 'pattern') to find a part, or REGEXP_FULL_MATCH(text, 'pattern') for the whole text",
)
_REGEX_CASE = (
    "regex",
    "regular expressions that ignore letter case are not supported",
    "write REGEXP_MATCHES(LOWER(text), 'pattern in lower case')",
)
_REGEX_PARTS = (
    "regex",
    "regular expressions can test a text, but not extract or replace a part of it: databases differ in the part "
    "they match",
    "write CASE WHEN REGEXP_MATCHES(text, 'pattern') THEN 'a' ELSE 'b' END, SUBSTR(text, 1, 3) or "
    "REPLACE(text, 'old', 'new')",
)
_FORMATTED = ("function", "only STRFTIME can format dates", "write STRFTIME(date, '%Y-%m')")
_GLOB = ("regex", "GLOB is not supported", "write text LIKE 'start%', or REGEXP_MATCHES(text, '^start')")
_SUBQUERY = (
    "subquery",
    "a subquery inside an expression is not supported",
    "write the values out, as in x IN (1, 2), or join a public table in FROM",
)
_BITS = ("bits", "bitwise operators are not supported", "use arithmetic, such as x % 2 or POW(2, x)")
_NESTED = ("nested", "lists, maps, structs and JSON are not supported here", "use columns of plain values")
_PARAMETER = ("parameter", "this parameter has no value", "write the value itself, or pass it: sql(question, [40])")
_WINDOW = ("window", "window functions are not supported here", "use GROUP BY instead")
_AGGREGATE = (
    "aggregate",
    "aggregates are not supported here",
    "put the aggregate in SELECT or HAVING, not in WHERE or inside another aggregate",
)
_STAR = ("star", "* can only be used in COUNT(*)", "name the columns")
_ZONE = ("time-zone", "time zones are not supported", "compare timestamps as they are stored")
_UNNEST = (
    "unnest",
    "UNNEST can only be used in FROM, or once in a subquery without GROUP BY, aggregates or windows",
    "write FROM <table> CROSS JOIN UNNEST(<list>) AS t(item), and use item as a column",
)
_CLASSES: list[tuple[tuple[type[exp.Expr], ...], tuple[str, str, str]]] = [
    ((exp.Window, exp.WindowSpec), _WINDOW),
    ((exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls), _AGGREGATE),
    ((exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentDatetime), _CLOCK),
    ((exp.Rand, exp.Randn, exp.Uuid), _CHANCE),
    ((exp.SimilarTo,), _REGEX_OPERATOR),
    ((exp.RegexpILike,), _REGEX_CASE),
    ((exp.RegexpExtract, exp.RegexpReplace, exp.RegexpExtractAll, exp.RegexpSplit), _REGEX_PARTS),
    ((exp.Glob,), _GLOB),
    ((exp.ToChar,), _FORMATTED),
    ((exp.Subquery, exp.Query, exp.Exists, exp.Any, exp.All), _SUBQUERY),
    (
        (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
        _BITS,
    ),
    ((exp.Array, exp.Struct, exp.Map, exp.Bracket, exp.JSONExtract, exp.Dot, exp.Tuple, exp.Lambda), _NESTED),
    ((exp.Placeholder, exp.Parameter), _PARAMETER),
    ((exp.Star, exp.Columns), _STAR),
    ((exp.AtTimeZone,), _ZONE),
    (
        (exp.Escape,),
        (
            "like-escape",
            "LIKE … ESCAPE is not supported",
            "use STARTS_WITH(text, 'start'), or remove the character first with REPLACE(text, '%', '')",
        ),
    ),
    (
        (exp.Log,),
        (
            "function",
            "only the natural logarithm LN is supported: the base of LOG differs between databases",
            "write LN(x), LN(x) / LN(10) for LOG10, or LN(x) / LN(2) for LOG2",
        ),
    ),
    (
        (exp.Interval,),
        ("interval", "an INTERVAL can only be added to a date or subtracted from one", "write d + INTERVAL '3 day'"),
    ),
    (
        (exp.DateAdd, exp.DateSub),
        (
            "function",
            "DATE_ADD and DATE_SUB are not supported, since databases write them differently",
            "write d + INTERVAL '3 day'",
        ),
    ),
    (
        (exp.StrPosition,),
        (
            "function",
            "functions that search for a position in a text are not supported",
            "use LIKE '%part%' or STARTS_WITH(text, 'start')",
        ),
    ),
    ((exp.Collate,), ("function", "COLLATE is not supported", "compare in lower case: LOWER(x) = 'text'")),
    ((exp.Explode, exp.Unnest), _UNNEST),
    ((exp.Alias,), ("alias", "AS cannot be used here", "use AS in SELECT")),
]
_NAMES = {
    **dict.fromkeys(
        ("now", "today", "get_current_timestamp", "transaction_timestamp", "current_localtimestamp"), _CLOCK
    ),
    **dict.fromkeys(("random", "setseed", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"), _CHANCE),
    **dict.fromkeys(("regexp_extract", "regexp_replace", "regexp_substr", "regexp_split_to_array"), _REGEX_PARTS),
    "histogram": (
        "aggregate",
        "HISTOGRAM(x) is not supported",
        "count by bins: SELECT WIDTH_BUCKET(x, 0, 100, 10) AS bin, COUNT(*) … GROUP BY bin",
    ),
    "date_sub": (
        "function",
        "DATE_SUB is not supported, since its meaning differs between databases",
        "to count days between dates, write DATE_DIFF('day', a, b); to subtract days, write d - INTERVAL '3 day'",
    ),
    "age": (
        "function",
        "AGE returns an interval, which is not a number",
        "write EXTRACT(year FROM AGE(later, earlier)) with two dates, or DATE_DIFF('day', earlier, later); "
        "subtract dates of an answer in pandas, which is free",
    ),
    **dict.fromkeys(
        ("to_date", "to_timestamp", "str_to_date", "date_parse", "parse_date"),
        (
            "function",
            "only STRPTIME can parse dates with a format",
            "write CAST(STRPTIME(text, '%d.%m.%Y') AS DATE)",
        ),
    ),
    **dict.fromkeys(("to_char", "date_format", "format_date"), _FORMATTED),
}


def refusal(node: exp.Expr) -> Unsupported:
    """Return the refusal of a node that is not supported."""
    for classes, (code, rule, fix) in _CLASSES:
        if isinstance(node, classes):
            return Unsupported(code, rule, fix=fix)
    name, kind = function_name(node), "a supported function" if isinstance(node, exp.Func) else "supported"
    code, rule, fix = _NAMES.get(
        name.lower(), ("function", f"{name[:40]} is not {kind}", _nearest_function_advice(name))
    )
    return Unsupported(code, rule, fix=fix)


def _nearest_function_advice(name: str) -> str:
    names = [function_name for function_name in FUNCTIONS if function_name[0].isalpha()]
    close = difflib.get_close_matches(name[:40].upper(), names, n=1, cutoff=0.75)
    if close:
        first_spelling, closing, _ = FUNCTIONS[close[0]].signature.partition("), ")
        return f"did you mean {first_spelling}{closing[:1]}?"
    return "use one of " + ", ".join(name for name in names if FUNCTIONS[name].signature.startswith(f"{name}("))
