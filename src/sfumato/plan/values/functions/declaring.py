"""A function is a name, words for people, and a rule that types its arguments and finds its range.

Arguments are typed by few rules: NULL fits everywhere, whole numbers become real, ISO text becomes a date; no
more.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.policy.domains import Domain, Type, Value

Rule = Callable[..., "Expression | tuple[Sequence[Expression], Domain]"]
"""Given the arguments: the arguments as they are computed with and the domain, or an equal expression."""


Most = Callable[[Call], int]
"""The most of something that one row can cost, from what is known of the arguments."""


def steps(node: Call) -> int:
    """Count a few steps for every argument; texts are compared letter by letter, ten at a time."""
    return 5 + sum(2 + each.domain.letters // 10 for each in node.arguments)


def held(node: Call) -> int:
    """Bound the bytes that a number takes, or the place of a text."""
    return 16 if node.domain.type is Type.TEXT else 8


FOLDING = 15
"""Steps to find one letter's capital or small letter, where it is beyond ASCII and is replaced afterwards."""


@dataclass(frozen=True)
class Function:
    """A function is a line of the table of what can be asked."""

    name: str
    signature: str
    meaning: str
    rule: Rule
    steps: Most
    """Steps of about 3 ns."""
    held: Most
    """Bytes that are made."""


LARGEST = 10_000
"""Nodes of one expression."""
DEEPEST = 150
"""Levels of one expression."""

FUNCTIONS: dict[str, Function] = {}
"""The allow-list, by name, in the order of the table."""


def function(
    name: str, signature: str, meaning: str, *, steps: Most = steps, held: Most = held
) -> Callable[[Rule], Rule]:
    """Declare a function: its rule takes expressions by position."""

    def declare(rule: Rule) -> Rule:
        FUNCTIONS[name] = Function(name, signature, meaning, rule, steps, held)
        return rule

    return declare


def call(name: str, *arguments: Expression) -> Expression:
    """Apply the function to the arguments, with its domain; or raise ``Unsupported``."""
    declared = FUNCTIONS.get(name)
    if declared is None:
        raise Unsupported("function", f"{name} is not among the functions", fix="see the list of what can be asked")
    try:
        _signature(declared.rule).bind(*arguments)
    except TypeError:
        raise Unsupported(
            "arguments", f"{name} does not take {len(arguments)} arguments", fix=f"write {declared.signature}"
        ) from None
    made: Any = declared.rule(*arguments)
    if not isinstance(made, tuple):
        return made
    return _checked(Call(name, tuple(made[0]), made[1]))


def _checked(made: Call) -> Call:
    """Refuse what is too large: put together from subqueries it could double at every level, and is walked by
    recursion.
    """
    if made.size > LARGEST:
        rule = f"an expression has at most {LARGEST:,} parts after its subqueries are put in place"
        raise Unsupported("too-large", rule, fix="derive less")
    if made.depth > DEEPEST:
        rule = f"an expression is at most {DEEPEST} levels deep after its subqueries are put in place"
        raise Unsupported("too-deep", rule, fix="use IN, or fewer steps")
    return made


_signature = functools.cache(inspect.signature)


def never_null(expression: Expression) -> bool:
    """Tell whether the value is there in every row: a column's never surely is."""
    if isinstance(expression, Literal):
        return expression.value is not None
    if not isinstance(expression, Call):
        return False
    surely = [never_null(each) for each in expression.arguments]
    match expression.function:
        case "COALESCE" | "LEAST" | "GREATEST" | "CONCAT":
            return any(surely)
        case "CASE":
            return len(surely) % 2 == 1 and all(surely[1::2]) and surely[-1]
        case "IS NULL" | "IS TRUE" | "IS FALSE":
            return True
        case "AND" | "OR" | "NOT" | "=" | "<>" | "<" | "<=" | ">" | ">=":
            return all(surely)
    return False


BOTH = (False, True)
LISTED = 1_000
"""Values of a computed domain are listed up to this many: each part of a question would make the list again."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_WORDS = {
    Type.INTEGER: "a whole number",
    Type.REAL: "a number",
    Type.TEXT: "text",
    Type.BOOLEAN: "true or false",
    Type.DATE: "a date",
    Type.TIMESTAMP: "a time",
}
_FIXES = {
    Type.REAL: "convert it with CAST(… AS DOUBLE): what is no number becomes NULL",
    Type.INTEGER: "convert it with CAST(… AS BIGINT), or write a whole number",
    Type.TEXT: "convert it with CAST(… AS VARCHAR)",
    Type.BOOLEAN: "write a condition, such as x = 1 or x IS NOT NULL",
    Type.DATE: "convert it with CAST(… AS DATE): what is no date becomes NULL",
    Type.TIMESTAMP: "convert it with CAST(… AS TIMESTAMP): what is no time becomes NULL",
}
_WHOLE_TEXT = "convert it with CAST(CAST(… AS BIGINT) AS VARCHAR): a real number has no text of its own"
_PART_OF_DATE = "take a number from it: EXTRACT(year FROM …), or DATE_DIFF('day', …, …)"
_NO_DATE = "use a column of dates, or write DATE '2024-01-31': numbers and truths are no dates"


def literal(kind: Type, value: Value) -> Literal:
    """Make a literal of a value written in the question: its range is itself."""
    try:
        return Literal(value, Domain(kind, values=(value,)))
    except InvalidParameter as error:
        raise Unsupported("literal", f"a literal must be {error.allowed}", fix="write one that is") from None


def null(kind: Type = Type.TEXT) -> Literal:
    return Literal(None, Domain(kind, nullable=True, max_length=length(kind, ())))


def length(kind: Type, found: Iterable[Domain]) -> int | None:
    """Give the most letters of a text that is one of these; None for what is no text."""
    return max((1, *(each.letters for each in found))) if kind is Type.TEXT else None


def is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def mismatch(found: Expression, wanted: Type) -> Unsupported:
    rule = f"{_WORDS[wanted]} is needed here, and this is {_WORDS[found.domain.type]}"
    return Unsupported("type-mismatch", rule, fix=_fix(found.domain.type, wanted))


def _fix(found: Type, wanted: Type) -> str:
    """Say how a value becomes one of the wanted type, where it can."""
    if wanted is Type.TEXT and found is Type.REAL:
        return _WHOLE_TEXT
    if wanted.numeric and found.temporal:
        return _PART_OF_DATE
    if wanted.temporal and not found.temporal and found is not Type.TEXT:
        return _NO_DATE
    return _FIXES[wanted]


def boolean(found: Expression) -> Expression:
    return _exactly(found, Type.BOOLEAN)


def text(found: Expression) -> Expression:
    return _exactly(found, Type.TEXT)


def number(found: Expression) -> Expression:
    if is_null(found):
        return null(Type.REAL)
    if not found.domain.type.numeric:
        raise mismatch(found, Type.REAL)
    return found


def real(found: Expression) -> Expression:
    """Convert a number to the engine's double."""
    found = number(found)
    if found.domain.type is Type.REAL:
        return found
    if isinstance(found, Literal) and isinstance(found.value, int):
        return literal(Type.REAL, Fraction(found.value))
    values = found.domain.values
    if values is not None and len(values) <= LISTED:
        exact = tuple(dict.fromkeys(Fraction(intervals.nearest(each)) for each in values))  # type: ignore[arg-type]
        return Call("CAST", (found,), Domain(Type.REAL, values=exact, nullable=found.domain.nullable))
    found_ends = intervals.ends(found.domain)
    domain = intervals.real(found_ends and map(float, found_ends), nullable=found.domain.nullable)
    return Call("CAST", (found,), domain)


def temporal(found: Expression) -> Expression:
    if is_null(found):
        return null(Type.TIMESTAMP)
    if isinstance(found, Literal) and isinstance(found.value, str):
        return moment(found)
    if not found.domain.type.temporal:
        raise mismatch(found, Type.DATE)
    return found


def timestamp(found: Expression) -> Expression:
    """Convert a date to its midnight."""
    found = temporal(found)
    if found.domain.type is Type.TIMESTAMP:
        return found
    if isinstance(found, Literal):
        return literal(Type.TIMESTAMP, midnight(found.value))
    shown = found.domain
    listed = shown.values is not None and len(shown.values) <= LISTED
    bounds, values = None if listed else shown.range, shown.values if listed else None
    domain = Domain(
        Type.TIMESTAMP,
        bounds=bounds and (midnight(bounds[0]), midnight(bounds[1])),
        values=values and tuple(midnight(each) for each in values),
        nullable=shown.nullable,
    )
    return Call("CAST", (found,), domain)


def midnight(day: object) -> dt.datetime:
    assert isinstance(day, dt.date)
    return dt.datetime(day.year, day.month, day.day)


def moment(found: Literal) -> Literal:
    """Read ISO text as the date or time it writes."""
    written = str(found.value)
    try:
        if _DATE.fullmatch(written):
            return literal(Type.DATE, dt.date.fromisoformat(written))
        if _TIME.fullmatch(written):
            return literal(Type.TIMESTAMP, dt.datetime.fromisoformat(written))
    except ValueError:  # 2023-02-30
        pass
    raise Unsupported(
        "date-literal",
        "a date is written YYYY-MM-DD and a time YYYY-MM-DD HH:MM:SS",
        fix="write DATE '2024-01-31' or TIMESTAMP '2024-01-31 23:59:00'",
    )


def same(found: Iterable[Expression]) -> list[Expression]:
    """Convert all arguments to one type, the narrowest that holds them all."""
    arguments = list(found)
    kinds = {each.domain.type for each in arguments if not is_null(each)}
    if any(kind.temporal for kind in kinds):
        arguments = [_dated(each, kinds) for each in arguments]
        kinds = {each.domain.type for each in arguments if not is_null(each)}
    kind = _widest(arguments, kinds)
    return [as_type(each, kind) for each in arguments]


def _dated(found: Expression, kinds: set[Type]) -> Expression:
    """Text written beside dates is read as a date; beside times as a date or a time."""
    if not isinstance(found, Literal) or not isinstance(found.value, str):
        return found
    read = moment(found)
    if Type.TIMESTAMP not in kinds and read.domain.type is Type.TIMESTAMP:
        raise Unsupported("date-literal", "a date is compared with a date", fix="write it YYYY-MM-DD, or CAST the date")
    return read


def as_type(found: Expression, kind: Type) -> Expression:
    if is_null(found):
        return null(kind)
    if found.domain.type is kind:
        return found
    return real(found) if kind is Type.REAL else timestamp(found)


def _widest(arguments: list[Expression], kinds: set[Type]) -> Type:
    if len(kinds) < 2:
        return kinds.pop() if kinds else arguments[0].domain.type
    if all(kind.numeric for kind in kinds):
        return Type.REAL
    if all(kind.temporal for kind in kinds):
        return Type.TIMESTAMP
    first = next(each for each in arguments if not is_null(each))
    other = next(each for each in arguments if not is_null(each) and each.domain.type is not first.domain.type)
    words = f"{_WORDS[first.domain.type]} and {_WORDS[other.domain.type]} do not go together"
    fix = "write numbers without quotes and texts within them, or convert one side with CAST"
    raise Unsupported("type-mismatch", words, fix=fix)


def union(found: list[Expression], *, nullable: bool) -> Domain:
    """Find the domain of a value that is one of these, all of one type."""
    kind = found[0].domain.type
    domains = list({id(each.domain): each.domain for each in found if not is_null(each)}.values())
    if not domains:
        return Domain(kind, nullable=True, max_length=length(kind, ()))
    grid = _grid(domains)
    if all(each.values is not None for each in domains) and sum(len(each.values or ()) for each in domains) <= LISTED:
        values = tuple(dict.fromkeys(value for each in domains for value in each.values or ()))
        return Domain(kind, values=values, grid=grid, nullable=nullable)
    return Domain(kind, bounds=hull(domains), grid=grid, nullable=nullable, max_length=length(kind, domains))


def hull(domains: Iterable[Domain]) -> tuple[Value, Value] | None:
    ranges = [each.range for each in domains]
    if any(each is None for each in ranges):
        return None
    lows, highs = zip(*(each for each in ranges if each is not None), strict=True)
    return min(lows), max(highs)


def _grid(domains: list[Domain]) -> Fraction | None:
    """Find one grid that all share; values written in the question lie on it when they are its multiples."""
    grids = {each.grid for each in domains if each.grid is not None}
    if len(grids) != 1:
        return None
    (grid,) = grids
    plain = [each for each in domains if each.grid is None]
    on_it = all(each.values is not None and all(value % grid == 0 for value in each.values) for each in plain)  # type: ignore[operator]
    return grid if on_it else None


def any_nullable(*found: Expression) -> bool:
    return any(each.domain.nullable for each in found)


def truth(*found: Expression) -> Domain:
    return Domain(Type.BOOLEAN, values=BOTH, nullable=any_nullable(*found))


def written(found: Expression, kind: Type, what: str) -> Value:
    """Give the value of an argument that must be written out in the question."""
    if not isinstance(found, Literal) or found.value is None or found.domain.type is not kind:
        rule = f"{what} must be {_WORDS[kind]} written in the question"
        raise Unsupported("literal-needed", rule, fix=f"write {what} as a literal, such as 'J%' or 3")
    return found.value


def _exactly(found: Expression, kind: Type) -> Expression:
    if is_null(found):
        return null(kind)
    if found.domain.type is not kind:
        raise mismatch(found, kind)
    return found
