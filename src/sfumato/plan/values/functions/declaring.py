"""Declarations of the allow-listed functions: a name, a description, and a rule that types the arguments and derives
the range.

Arguments are converted by few rules: NULL fits everywhere, integers become reals, ISO text becomes a date.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.policy.domains import Domain, Type, Value, parse_value
from sfumato.quick_dataclass import dataclass

Rule = Callable[..., "Expression | tuple[Sequence[Expression], Domain]"]
"""Takes the arguments; returns the converted arguments and the domain, or an equal expression."""


RowCost = Callable[[Call], int]
"""A bound on the cost of one row, from what is known of the arguments."""


def default_cost(node: Call) -> int:
    """Return a few steps for every argument; texts are compared letter by letter, ten at a time."""
    return 5 + sum(2 + argument.domain.max_letters // 10 for argument in node.arguments)


def default_bytes(node: Call) -> int:
    """Return the bytes of a number, or of a reference to a text."""
    return 16 if node.domain.type is Type.TEXT else 8


FOLDING = 15
"""Steps to change the case of one letter, where it is beyond ASCII and is replaced afterwards."""


@dataclass(frozen=True)
class Function:
    """An allow-listed function."""

    name: str
    signature: str
    meaning: str
    rule: Rule
    row_cost: RowCost
    """The most steps on one row, of about 3 ns each."""
    row_bytes: RowCost
    """The most bytes allocated on one row."""


LARGEST = 10_000
"""The most nodes of one expression."""
DEEPEST = 150
"""The most levels of one expression."""

FUNCTIONS: dict[str, Function] = {}
"""The allow-list, by name, in the order of the table."""


def declare_function(
    name: str, signature: str, meaning: str, *, row_cost: RowCost = default_cost, row_bytes: RowCost = default_bytes
) -> Callable[[Rule], Rule]:
    """Declare a function: its rule takes expressions by position."""

    def declare(rule: Rule) -> Rule:
        FUNCTIONS[name] = Function(name, signature, meaning, rule, row_cost, row_bytes)
        return rule

    return declare


def call(name: str, *arguments: Expression) -> Expression:
    """Apply the function to the arguments, with its domain; or raise ``Unsupported``."""
    declared = FUNCTIONS.get(name)
    if declared is None:
        raise Unsupported(
            "function",
            f"{name} is not a supported function",
            fix="run `sfumato docs what-can-be-asked` for a list of the supported functions",
        )
    if not _takes(declared.rule, len(arguments)):
        raise Unsupported(
            "arguments",
            f"{name} does not take {len(arguments)} argument{'' if len(arguments) == 1 else 's'}",
            fix=f"write {declared.signature.replace('), ', ') or ')}",
        )
    typed: Any = declared.rule(*arguments)
    if not isinstance(typed, tuple):
        return typed
    return _require_moderate_size(Call(name, tuple(typed[0]), typed[1]))


def _require_moderate_size(expression: Call) -> Call:
    """Refuse what is too large: an expression that is substituted into subqueries could double at every level, and is
    walked by recursion.
    """
    if expression.size > LARGEST:
        rule = f"an expression can have at most {LARGEST:,} columns, values and functions, with subqueries expanded"
        raise Unsupported("too-large", rule, fix="use fewer computed columns in subqueries")
    if expression.depth > DEEPEST:
        rule = f"an expression can be at most {DEEPEST} levels deep once its subqueries are expanded"
        raise Unsupported("too-deep", rule, fix="use IN instead of many ORs, or fewer computed columns")
    return expression


@functools.lru_cache(maxsize=1024)
def _takes(rule: Rule, count: int) -> bool:
    """Return whether a rule takes this number of arguments."""
    try:
        inspect.signature(rule).bind(*[None] * count)
    except TypeError:
        return False
    return True


def is_never_null(expression: Expression) -> bool:
    """Return whether the value is surely not NULL in every row: a column's never is."""
    if isinstance(expression, Literal):
        return expression.value is not None
    if not isinstance(expression, Call):
        return False
    arguments_never_null = [is_never_null(argument) for argument in expression.arguments]
    match expression.function:
        case "COALESCE" | "LEAST" | "GREATEST" | "CONCAT":
            return any(arguments_never_null)
        case "CASE":
            return len(arguments_never_null) % 2 == 1 and all(arguments_never_null[1::2]) and arguments_never_null[-1]
        case "IS NULL" | "IS TRUE" | "IS FALSE":
            return True
        case "AND" | "OR" | "NOT" | "=" | "<>" | "<" | "<=" | ">" | ">=":
            return all(arguments_never_null)
    return False


BOTH = (False, True)
MAX_COMPUTED_VALUES = 1_000
"""The most values of a computed domain that are listed: each part of a query would build the list again."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_WORDS = {
    Type.INTEGER: "a whole number",
    Type.REAL: "a number",
    Type.TEXT: "text",
    Type.BOOLEAN: "a boolean",
    Type.DATE: "a date",
    Type.TIMESTAMP: "a time",
}
_FIXES = {
    Type.REAL: "convert it with CAST(… AS DOUBLE); text that is not a number becomes NULL",
    Type.INTEGER: "convert it with CAST(… AS BIGINT), or write a whole number",
    Type.TEXT: "convert it with CAST(… AS VARCHAR)",
    Type.BOOLEAN: "write a condition, such as x = 1 or x IS NOT NULL",
    Type.DATE: "convert it with CAST(… AS DATE); text that is not a date becomes NULL",
    Type.TIMESTAMP: "convert it with CAST(… AS TIMESTAMP); text that is not a time becomes NULL",
}
_WHOLE_TEXT = "convert it with CAST(CAST(… AS BIGINT) AS VARCHAR); the text of a real number differs between databases"
AS_NUMBER = "turn it into a number: CASE WHEN … THEN 1 ELSE 0 END"
_PART_OF_DATE = "extract a number from it: EXTRACT(year FROM …), or DATE_DIFF('day', …, …)"
_NO_DATE = "use a date column, or write DATE '2024-01-31'; numbers and booleans cannot become dates"


_LITERAL_FIXES = {True: "write a shorter text", False: "write a value in this range"}
_EXAMPLES = {Type.TEXT: "'north'", Type.INTEGER: "3", Type.REAL: "2.5"}


def literal(sql_type: Type, value: Value) -> Literal:
    """Return a literal whose range is its value."""
    try:
        return Literal(value, Domain(sql_type, values=(value,)))
    except InvalidParameter as error:
        allowed = _rule_of_one_value(sql_type, value) or error.allowed.removeprefix("a list in which each value is ")
        rule = f"a value in a question must be {allowed}"
        raise Unsupported("literal", rule, fix=_LITERAL_FIXES[sql_type is Type.TEXT]) from None


def _rule_of_one_value(sql_type: Type, value: Value) -> str:
    """Return the rule that a value breaks by itself, and not as one of a list; empty if it breaks none."""
    try:
        parse_value(sql_type, value, "value")
    except InvalidParameter as error:
        return error.allowed
    return ""


def null_literal(sql_type: Type = Type.TEXT) -> Literal:
    return Literal(None, Domain(sql_type, nullable=True, max_length=max_letters(sql_type, ())))


def max_letters(sql_type: Type, domains: Iterable[Domain]) -> int | None:
    """Return the most letters of a text that is in one of these domains; None for other types."""
    return max((1, *(domain.max_letters for domain in domains))) if sql_type is Type.TEXT else None


def is_null_literal(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def type_mismatch_refusal(argument: Expression, target: Type) -> Unsupported:
    actual = argument.domain.type
    rule = f"{_WORDS[target]} is needed here, not {'a real number' if actual is Type.REAL else _WORDS[actual]}"
    return Unsupported("type-mismatch", rule, fix=_conversion_advice(argument.domain.type, target))


def _conversion_advice(actual: Type, target: Type) -> str:
    """Suggest how to convert a value to the wanted type, where that is possible."""
    if target is Type.TEXT and actual is Type.REAL:
        return _WHOLE_TEXT
    if target.numeric and actual is Type.BOOLEAN:
        return AS_NUMBER
    if target.numeric and actual.temporal:
        return _PART_OF_DATE
    if target.temporal and not actual.temporal and actual is not Type.TEXT:
        return _NO_DATE
    return _FIXES[target]


def require_boolean(argument: Expression) -> Expression:
    return _require_type(argument, Type.BOOLEAN)


def require_text(argument: Expression) -> Expression:
    return _require_type(argument, Type.TEXT)


def require_number(argument: Expression) -> Expression:
    if is_null_literal(argument):
        return null_literal(Type.REAL)
    if not argument.domain.type.numeric:
        raise type_mismatch_refusal(argument, Type.REAL)
    return argument


def as_real(argument: Expression) -> Expression:
    """Convert a number to the engine's double."""
    argument = require_number(argument)
    if argument.domain.type is Type.REAL:
        return argument
    if isinstance(argument, Literal) and isinstance(argument.value, int):
        return literal(Type.REAL, Fraction(argument.value))
    values = argument.domain.values
    if values is not None and len(values) <= MAX_COMPUTED_VALUES:
        exact = tuple(dict.fromkeys(Fraction(intervals.nearest_double(value)) for value in values))  # type: ignore[arg-type]
        return Call("CAST", (argument,), Domain(Type.REAL, values=exact, nullable=argument.domain.nullable))
    number_ends = intervals.double_range(argument.domain)
    domain = intervals.real_domain(number_ends and map(float, number_ends), nullable=argument.domain.nullable)
    return Call("CAST", (argument,), domain)


def require_temporal(argument: Expression) -> Expression:
    if is_null_literal(argument):
        return null_literal(Type.TIMESTAMP)
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return parse_iso_literal(argument)
    if not argument.domain.type.temporal:
        raise type_mismatch_refusal(argument, Type.DATE)
    return argument


def as_timestamp(argument: Expression) -> Expression:
    """Convert a date to its midnight."""
    argument = require_temporal(argument)
    if argument.domain.type is Type.TIMESTAMP:
        return argument
    if isinstance(argument, Literal):
        return literal(Type.TIMESTAMP, midnight(argument.value))
    date_domain = argument.domain
    is_listed = date_domain.values is not None and len(date_domain.values) <= MAX_COMPUTED_VALUES
    bounds, values = None if is_listed else date_domain.range, date_domain.values if is_listed else None
    domain = Domain(
        Type.TIMESTAMP,
        bounds=bounds and (midnight(bounds[0]), midnight(bounds[1])),
        values=values and tuple(midnight(day) for day in values),
        nullable=date_domain.nullable,
    )
    return Call("CAST", (argument,), domain)


def midnight(day: object) -> dt.datetime:
    assert isinstance(day, dt.date)
    return dt.datetime(day.year, day.month, day.day)


def parse_iso_literal(text_literal: Literal) -> Literal:
    """Parse ISO text as the date or time it denotes."""
    iso_text = str(text_literal.value)
    try:
        if _DATE.fullmatch(iso_text):
            return literal(Type.DATE, dt.date.fromisoformat(iso_text))
        if _TIME.fullmatch(iso_text):
            return literal(Type.TIMESTAMP, dt.datetime.fromisoformat(iso_text))
    except ValueError:  # 2023-02-30
        pass
    raise Unsupported(
        "date-literal",
        "a date must be written YYYY-MM-DD, and a timestamp YYYY-MM-DD HH:MM:SS",
        fix="write DATE '2024-01-31' or TIMESTAMP '2024-01-31 23:59:00'",
    )


def as_common_type(arguments: Iterable[Expression]) -> list[Expression]:
    """Convert all arguments to one type, the narrowest that holds them all."""
    arguments = list(arguments)
    kinds = {argument.domain.type for argument in arguments if not is_null_literal(argument)}
    if any(kind.temporal for kind in kinds):
        arguments = [_parse_literal_as_date_type(argument, kinds) for argument in arguments]
        kinds = {argument.domain.type for argument in arguments if not is_null_literal(argument)}
    kind = _common_type(arguments, kinds)
    return [as_type(argument, kind) for argument in arguments]


def _parse_literal_as_date_type(expression: Expression, kinds: set[Type]) -> Expression:
    """Parse a text literal beside dates as a date, and beside times as a date or a time."""
    if not isinstance(expression, Literal) or not isinstance(expression.value, str):
        return expression
    parsed = parse_iso_literal(expression)
    if Type.TIMESTAMP not in kinds and parsed.domain.type is Type.TIMESTAMP:
        raise Unsupported(
            "date-literal",
            "a date cannot be compared with a timestamp",
            fix="write the timestamp as a date, YYYY-MM-DD, or CAST the date to TIMESTAMP",
        )
    return parsed


def as_type(argument: Expression, sql_type: Type) -> Expression:
    if is_null_literal(argument):
        return null_literal(sql_type)
    if argument.domain.type is sql_type:
        return argument
    return as_real(argument) if sql_type is Type.REAL else as_timestamp(argument)


def _common_type(arguments: list[Expression], kinds: set[Type]) -> Type:
    if len(kinds) < 2:
        return kinds.pop() if kinds else arguments[0].domain.type
    if all(kind.numeric for kind in kinds):
        return Type.REAL
    if all(kind.temporal for kind in kinds):
        return Type.TIMESTAMP
    first = next(argument for argument in arguments if not is_null_literal(argument))
    mismatched = next(
        argument
        for argument in arguments
        if not is_null_literal(argument) and argument.domain.type is not first.domain.type
    )
    words = f"{_WORDS[first.domain.type]} and {_WORDS[mismatched.domain.type]} cannot be combined or compared"
    fix = "write numbers without quotes and text in single quotes, or convert one side with CAST"
    if any(kind.temporal for kind in kinds):
        fix = "write the date as DATE '2024-01-31', or convert one side with CAST"
        if Type.TEXT not in kinds:
            fix = "write a date as DATE '2024-01-31', or turn it into a number with EXTRACT(year FROM …)"
    elif Type.BOOLEAN in kinds and Type.TEXT not in kinds:
        fix = "turn the boolean into a number: CASE WHEN … THEN 1 ELSE 0 END"
    raise Unsupported("type-mismatch", words, fix=fix)


def union_domain(expressions: list[Expression], *, nullable: bool) -> Domain:
    """Return the domain of a value that is one of these, all of one type."""
    kind = expressions[0].domain.type
    domains = list(
        {
            id(expression.domain): expression.domain for expression in expressions if not is_null_literal(expression)
        }.values()
    )
    if not domains:
        return Domain(kind, nullable=True, max_length=max_letters(kind, ()))
    grid = _common_grid(domains)
    if (
        all(domain.values is not None for domain in domains)
        and sum(len(domain.values or ()) for domain in domains) <= MAX_COMPUTED_VALUES
    ):
        values = tuple(dict.fromkeys(value for domain in domains for value in domain.values or ()))
        return Domain(kind, values=values, grid=grid, nullable=nullable)
    return Domain(
        kind, bounds=hull_of_ranges(domains), grid=grid, nullable=nullable, max_length=max_letters(kind, domains)
    )


def hull_of_ranges(domains: Iterable[Domain]) -> tuple[Value, Value] | None:
    ranges = [domain.range for domain in domains]
    if any(bounds is None for bounds in ranges):
        return None
    lows, highs = zip(*(bounds for bounds in ranges if bounds is not None), strict=True)
    return min(lows), max(highs)


def _common_grid(domains: list[Domain]) -> Fraction | None:
    """Return the grid that all domains share; literals lie on it when they are its multiples."""
    grids = {domain.grid for domain in domains if domain.grid is not None}
    if len(grids) != 1:
        return None
    (grid,) = grids
    gridless = [domain for domain in domains if domain.grid is None]
    are_multiples = all(
        domain.values is not None and all(value % grid == 0 for value in domain.values)  # type: ignore[operator]
        for domain in gridless
    )
    return grid if are_multiples else None


def is_any_nullable(*arguments: Expression) -> bool:
    return any(expression.domain.nullable for expression in arguments)


def boolean_domain(*arguments: Expression) -> Domain:
    return Domain(Type.BOOLEAN, values=BOTH, nullable=is_any_nullable(*arguments))


def require_literal(argument: Expression, sql_type: Type, description: str, *, example: str = "") -> Value:
    """Return the value of an argument that must be a literal, such as the example."""
    if not isinstance(argument, Literal) or argument.value is None or argument.domain.type is not sql_type:
        rule = f"{description} must be {_WORDS[sql_type]} written out in the question"
        shown = example or _EXAMPLES.get(sql_type)
        fix = f"write {description} as a literal" + (f", such as {shown}" if shown else "")
        raise Unsupported("literal-needed", rule, fix=fix)
    return argument.value


def _require_type(expression: Expression, sql_type: Type) -> Expression:
    if is_null_literal(expression):
        return null_literal(sql_type)
    if expression.domain.type is not sql_type:
        raise type_mismatch_refusal(expression, sql_type)
    return expression
