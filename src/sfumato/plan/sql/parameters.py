"""Query parameters: values for ``?``, ``$1``, ``$name`` and ``:name``.

A value becomes a literal of the parsed query, of the value's own type; it is never turned into text and parsed again,
so no value can change the query (no SQL injection). The query is the one with the literal inserted: the same plan, the
same stored answer.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import Unsupported
from sfumato.plan.sql.dialect import find_nodes
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

Parameters = Sequence[Any] | Mapping[Any, Any]
"""Values by position, from 1, or by name."""

_NAME = re.compile(r"[^\W\d]\w{0,62}|[1-9][0-9]{0,3}")
_ENDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN}
_ENDS |= {TokenType.R_BRACKET, TokenType.R_BRACE}
"""Tokens that end a value: a colon after one begins no name."""


@dataclass(frozen=True)
class ParameterPosition:
    """The position of a parameter in a query."""

    name: str
    first: int
    last: int
    line: int
    column: int

    @property
    def displayed_name(self) -> str:
        return f"${self.name}"


def locate_parameters(tokens: list[Token]) -> tuple[list[Token], list[ParameterPosition]]:
    """Return the tokens of a query with every parameter written $name, and their positions; ``?`` is the next
    number.
    """
    rewritten: list[Token] = []
    parameter_positions: list[ParameterPosition] = []
    highest = 0
    remaining = iter(enumerate(tokens))
    for index, token in remaining:
        name = _parameter_name(tokens, index)
        if name is None:
            rewritten.append(token)
            continue
        if name:
            last = next(remaining)[1].end
        else:
            name, last = str(highest + 1), token.end
        highest = max(highest, int(name) if name.isdecimal() else 0)
        parameter_positions.append(ParameterPosition(name, token.start, last, token.line, token.col))
        rewritten += [
            Token(TokenType.PARAMETER, "$", token.line, token.col, token.start, token.start),
            Token(TokenType.VAR, name, token.line, token.col, token.start, last),
        ]
    return rewritten, parameter_positions


def _parameter_name(tokens: list[Token], index: int) -> str | None:
    """Return the name of the parameter that begins here, empty for ``?``; None where none begins."""
    token = tokens[index]
    if token.token_type is TokenType.PLACEHOLDER:
        return ""
    next_token = tokens[index + 1] if index + 1 < len(tokens) else None
    if next_token is None or next_token.start != token.end + 1 or not _NAME.fullmatch(next_token.text):
        return None
    if token.token_type is TokenType.PARAMETER:
        return next_token.text
    previous_type = tokens[index - 1].token_type if index else None
    return next_token.text if token.token_type is TokenType.COLON and previous_type not in _ENDS else None


def parameter_literals(
    parameter_positions: list[ParameterPosition], parameters: Parameters | None
) -> dict[str, exp.Expr]:
    """Return the literal of every parameter, by name; refuse missing and surplus parameters and other types."""
    values = _values_by_name(parameters)
    positions = {position.name: position for position in reversed(parameter_positions)}
    for name, position in positions.items():
        if name not in values:
            example = "[40]" if name == "1" else f"{{'{name}': 40}}"
            fix = f"pass one: sql(question, {example}) or --param {name}=40"
            rule = f"the parameter {position.displayed_name} has no value"
            raise Unsupported("parameter", rule, fix=fix, line=position.line, column=position.column)
    surplus = [name for name in values if name not in positions]
    if surplus:
        rule = f"the question has no parameter {', '.join(f'${escape_unprintable(name[:60])}' for name in surplus[:5])}"
        raise Unsupported(
            "parameter", rule, fix="leave out the value that has no parameter, or use that parameter in the question"
        )
    return {name: _parameter_literal(name, value) for name, value in values.items()}


def _values_by_name(parameters: Parameters | None) -> dict[str, Any]:
    if parameters is None:
        return {}
    if isinstance(parameters, Mapping):
        return {str(name): value for name, value in parameters.items()}
    if isinstance(parameters, (list, tuple)):
        return {str(position): value for position, value in enumerate(parameters, 1)}
    fix = "pass them as in sql(question, [40, 'Rome']) or sql(question, {'age': 40})"
    raise Unsupported("parameter", "parameter values must be a list, or a dict by name", fix=fix)


def bind_parameters_in_place(
    statement: exp.Expr, positions: list[ParameterPosition], values: Mapping[str, exp.Expr]
) -> exp.Expr:
    """Replace the parameters of a statement by literals; refuse a parameter that stands for no value."""
    placeholders = [node for node in find_nodes(statement, exp.Placeholder) if node.name in values]
    if len(placeholders) != len(positions) or not all(map(_is_in_value_position, placeholders)):
        rule = "a parameter can only stand for a value, not for a name of a table, column or function"
        raise Unsupported(
            "parameter", rule, fix="write the names of tables, columns and functions in the question itself"
        )
    for node in placeholders:
        node.replace(values[node.name].copy())
    return statement


def _is_in_value_position(node: exp.Expr) -> bool:
    return node.arg_key not in ("alias", "using") and not isinstance(node.parent, (exp.Table, exp.TableAlias))


def insert_parameters(text: str, positions: list[ParameterPosition], values: Mapping[str, exp.Expr]) -> str:
    """Write the query as it is stored and shown to people, with the literals inserted; it is not parsed again."""
    return "".join(_text_pieces(text, positions, values))


def _text_pieces(text: str, positions: list[ParameterPosition], values: Mapping[str, exp.Expr]) -> Iterator[str]:
    copied = 0
    for position in positions:
        prefix, value = text[copied : position.first], values[position.name]
        yield prefix + " " * prefix[-1:].isalnum()
        yield f"({value.sql()})" if isinstance(value, exp.Neg) else value.sql(dialect="duckdb")
        copied = position.last + 1
    yield text[copied:]


def _parameter_literal(name: str, value: Any) -> exp.Expr:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    node = value_literal(value)
    if node is None:
        raise Unsupported(
            "parameter",
            f"the value of ${escape_unprintable(name[:60])} must be a number, text, boolean, date, "
            "timestamp (no zone) or None",
            fix="convert the value; for a list write IN ($1, $2, …) with one parameter per value",
        )
    return node


def value_literal(value: Any) -> exp.Expr | None:
    """Return a value as a literal of its own type; None where SQL has no literal for it."""
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(str(value)) if _is_utf8_without_nul(value) else None
    if isinstance(value, dt.datetime):
        return _temporal_literal(value.isoformat(sep=" "), "TIMESTAMP") if value.tzinfo is None else None
    if isinstance(value, dt.date):
        return _temporal_literal(value.isoformat(), "DATE")
    return _number_literal(value)


def _is_utf8_without_nul(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _temporal_literal(iso_text: str, kind: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(iso_text), kind, dialect="duckdb")


def _number_literal(value: Any) -> exp.Expr | None:
    """Return a number as a literal of its digits; a negative one as the negation of its size, as it is written."""
    if not isinstance(value, (int, float, Decimal, Fraction)) or not _is_finite_double(value):
        return None
    size = abs(value)
    digits = _finite_decimal_text(size) if isinstance(size, Fraction) else str(size)
    if digits is None:
        return None
    magnitude = exp.Literal.number(digits)
    return exp.Neg(this=magnitude) if value < 0 else magnitude


def _is_finite_double(value: float | Decimal | Fraction) -> bool:
    """Return whether a number is finite and within the range of floats."""
    try:
        return math.isfinite(value)
    except (OverflowError, ValueError):  # a whole number or a fraction beyond all floats; a signalling NaN
        return False


def _finite_decimal_text(size: Fraction) -> str | None:
    """Write a fraction that has a finite decimal expansion."""
    if size.denominator == 1:
        return str(size.numerator)
    for decimals in range(1, 100):
        if 10**decimals % size.denominator == 0:
            digits = str(size.numerator * (10**decimals // size.denominator)).rjust(decimals + 1, "0")
            return f"{digits[:-decimals]}.{digits[-decimals:]}"
    return None
