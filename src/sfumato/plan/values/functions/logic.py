"""Conditions, CASE and CAST.

CAST converts between the six types and is total: what cannot be converted is NULL, as with TRY_CAST.

Texts are read by the grammars of ``plan.grammars``, as the scan reads them. A real becomes the nearest whole number,
ties to even. A whole number, a date, a time or a truth has one text (17, 2024-01-31, 2024-01-31 23:59:00.5, true); a
real has none that engines share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    BOTH,
    FOLDING,
    as_common_type,
    as_real,
    as_timestamp,
    boolean_domain,
    call,
    declare_function,
    is_any_nullable,
    is_null_literal,
    null_literal,
    parse_iso_literal,
    require_boolean,
    require_literal,
    require_text,
    union_domain,
)
from sfumato.policy.domains import Domain, Type

TypedCall = tuple[Sequence[Expression], Domain]


def _comparison(x: Expression, y: Expression) -> TypedCall:
    pair = as_common_type((x, y))
    return pair, boolean_domain(*pair)


def _connective(*conditions: Expression) -> TypedCall:
    operands = [require_boolean(condition) for condition in conditions]
    return operands, boolean_domain(*operands)


for _name, _words in {
    "=": "equal",
    "<>": "not equal",
    "<": "less",
    "<=": "at most",
    ">": "greater",
    ">=": "at least",
}.items():
    declare_function(_name, f"x {_name} y", f"{_words}: two numbers, texts, dates or booleans")(_comparison)

declare_function("AND", "a AND b", "true where both are")(_connective)
declare_function("OR", "a OR b", "true where at least one is")(_connective)


@declare_function("NOT", "NOT a", "the negation")
def _not(x: Expression) -> TypedCall:
    return [require_boolean(x)], boolean_domain(x)


@declare_function("BETWEEN", "x BETWEEN low AND high", "at least low and at most high")
def _between(x: Expression, low: Expression, high: Expression) -> TypedCall:
    converted = as_common_type((x, low, high))
    return converted, boolean_domain(*converted)


@declare_function("IN", "x IN (1, 2, …)", "equal to one of the listed values")
def _in(x: Expression, first: Expression, *others: Expression) -> TypedCall:
    converted = as_common_type((x, first, *others))
    for literal_value in converted[1:]:
        if not is_null_literal(literal_value):
            require_literal(literal_value, literal_value.domain.type, "each value of IN")
    return converted, boolean_domain(*converted)


def _like(x: Expression, pattern: Expression) -> TypedCall:
    require_literal(pattern, Type.TEXT, "the pattern", example="'J%'")
    return [require_text(x), pattern], boolean_domain(x)


def _matching_cost(node: Call) -> int:
    """Return letters × letters of the pattern: after a % the rest of it is tried at every letter."""
    letters, pattern = node.arguments[0].domain.max_letters, node.arguments[1]
    assert isinstance(pattern, Literal)
    positions = letters if "%" in str(pattern.value).rstrip("%") else 1
    return 10 + positions * (len(str(pattern.value)) + 1)


def _folded_matching_cost(node: Call) -> int:
    """Return the steps of matching after folding all letters."""
    return _matching_cost(node) + FOLDING * node.arguments[0].domain.max_letters


declare_function(
    "LIKE",
    "text LIKE 'pattern'",
    "matches the pattern: % is any text, _ any one character; there is no escape character",
    row_cost=_matching_cost,
)(_like)
declare_function(
    "ILIKE",
    "text ILIKE 'pattern'",
    "LIKE with both sides in lower case",
    row_cost=_folded_matching_cost,
    row_bytes=lambda node: 4 * node.arguments[0].domain.max_letters,
)(_like)


@declare_function("IS NULL", "x IS [NOT] NULL", "true where x is NULL")
def _is_null(x: Expression) -> TypedCall:
    return [x], boolean_domain()


def _truth_test(x: Expression) -> TypedCall:
    return [require_boolean(x)], boolean_domain()


declare_function("IS TRUE", "a IS [NOT] TRUE", "true, and not NULL")(_truth_test)
declare_function("IS FALSE", "a IS [NOT] FALSE", "false, and not NULL")(_truth_test)


@declare_function(
    "CASE", "CASE WHEN a THEN x … [ELSE y] END", "the value of the first true condition, otherwise y or NULL"
)
def _case(*arguments: Expression) -> TypedCall:
    if len(arguments) < 2:
        raise Unsupported(
            "arguments",
            "CASE needs WHEN with a condition, and THEN with a value",
            fix="write CASE WHEN a THEN x ELSE y END",
        )
    otherwise = arguments[-1] if len(arguments) % 2 else null_literal()
    conditions = [require_boolean(condition) for condition in arguments[: len(arguments) // 2 * 2 : 2]]
    values = as_common_type((*arguments[1::2], otherwise))
    domain = union_domain(values, nullable=is_any_nullable(*values))
    branches = [operand for pair in zip(conditions, values, strict=False) for operand in pair]
    return [*branches, values[-1]], domain


@declare_function("IF", "IF(a, x, y)", "x where a is true, otherwise y")
def _if(condition: Expression, x: Expression, y: Expression) -> Expression:
    return call("CASE", condition, x, y)


@declare_function("COALESCE", "COALESCE(x, y, …)", "the first that is not NULL")
def _coalesce(x: Expression, *others: Expression) -> TypedCall:
    converted = as_common_type((x, *others))
    return converted, union_domain(converted, nullable=all(argument.domain.nullable for argument in converted))


@declare_function("NULLIF", "NULLIF(x, y)", "x, but NULL where it equals y")
def _nullif(x: Expression, y: Expression) -> TypedCall:
    converted = as_common_type((x, y))
    return converted, union_domain(converted[:1], nullable=True)


_LETTERS = 32
"""The most letters of a number, a date or a truth as text."""


def _cast_cost(node: Call) -> int:
    """Return the steps to parse and to write texts letter by letter."""
    output_steps = _LETTERS * 2 if node.domain.type is Type.TEXT else 0
    return 10 + 3 * node.arguments[0].domain.max_letters + output_steps


def _cast_bytes(node: Call) -> int:
    return _LETTERS if node.domain.type is Type.TEXT else 8


@declare_function(
    "CAST",
    "CAST(x AS type), TRY_CAST, x::type",
    "x as another type, NULL where that fails; reals round to whole numbers with ties to even and never become text; "
    "dates never become numbers",
    row_cost=_cast_cost,
    row_bytes=_cast_bytes,
)
def _cast(x: Expression, target: Expression) -> Expression | TypedCall:
    kind = Type.of(str(require_literal(target, Type.TEXT, "the type", example="'BIGINT'")))
    if is_null_literal(x):
        return null_literal(kind)
    if x.domain.type is kind:
        return x
    if isinstance(x, Literal) and isinstance(x.value, str) and kind.temporal:
        return _convert_date(parse_iso_literal(x), kind)
    return _convert(x, kind)


def _convert(x: Expression, sql_type: Type) -> Expression | TypedCall:
    source_type = x.domain.type
    nullable = x.domain.nullable
    if sql_type is Type.TEXT and source_type is Type.REAL:
        raise Unsupported(
            "type-mismatch",
            "a real number cannot become text, since databases format it differently",
            fix="use ROUND and CAST(… AS BIGINT) first, or compare numbers as numbers",
        )
    if sql_type is Type.TEXT:
        return (x,), Domain(sql_type, nullable=nullable, max_length=_LETTERS)
    if source_type is Type.TEXT:
        return (x,), Domain(sql_type, values=BOTH if sql_type is Type.BOOLEAN else None, nullable=True)
    if source_type.temporal and sql_type.temporal:
        return _convert_date(x, sql_type)
    if source_type.temporal or sql_type.temporal:
        raise Unsupported(
            "type-mismatch",
            "a date cannot become a number or a boolean",
            fix="use EXTRACT(year FROM …), or DATE_DIFF('day', …, …)",
        )
    if sql_type is Type.BOOLEAN:
        return (x,), Domain(sql_type, values=BOTH, nullable=nullable)
    if source_type is Type.BOOLEAN:
        return (x,), Domain(sql_type, values=(0, 1), nullable=nullable)
    return as_real(x) if sql_type is Type.REAL else ((x,), _rounded_domain(x.domain))


def _rounded_domain(domain: Domain) -> Domain:
    """Return the domain of a real rounded to an integer, halves to even; NULL where 64 bits do not hold it."""
    ends = intervals.double_range(domain)
    integer_domain = ends and intervals.integer_domain(round(ends[0]), round(ends[1]), nullable=domain.nullable)
    return integer_domain or Domain(Type.INTEGER, nullable=True)


def _convert_date(x: Expression, sql_type: Type) -> Expression | TypedCall:
    """Convert between dates and times: a time becomes its day."""
    if x.domain.type is sql_type:
        return x
    if sql_type is Type.TIMESTAMP:
        return as_timestamp(x)
    time_range: Any = x.domain.range
    bounds = time_range and (time_range[0].date(), time_range[1].date())
    return (x,), Domain(sql_type, bounds=bounds, nullable=x.domain.nullable)
