"""Values can be given beside a question, for its ``?``, ``$1``, ``$name`` and ``:name``.

A value becomes a literal of the parsed question, of the value's own type; it is never made text and read again, so no
value can change what is asked. The question is the one with the literal written in: the same plan, the same stored
answer.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import Unsupported
from sfumato.untrusted import printable

Parameters = Sequence[Any] | Mapping[Any, Any]
"""Values by place, from 1, or by name."""

_NAME = re.compile(r"[^\W\d]\w{0,62}|[1-9][0-9]{0,3}")
_ENDS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN}
_ENDS |= {TokenType.R_BRACKET, TokenType.R_BRACE}
"""What ends a value: a colon after it begins no name."""


@dataclass(frozen=True)
class ParameterPosition:
    """This is where a question names a parameter."""

    name: str
    first: int
    last: int
    line: int
    column: int

    @property
    def shown(self) -> str:
        return f"${self.name}"


def placed(tokens: list[Token]) -> tuple[list[Token], list[ParameterPosition]]:
    """Give the words of a question with every parameter written $name, and where they are; ``?`` is the next number."""
    made: list[Token] = []
    places: list[ParameterPosition] = []
    highest = 0
    waiting = iter(enumerate(tokens))
    for index, token in waiting:
        name = _named(tokens, index)
        if name is None:
            made.append(token)
            continue
        if name:
            last = next(waiting)[1].end
        else:
            name, last = str(highest + 1), token.end
        highest = max(highest, int(name) if name.isdecimal() else 0)
        places.append(ParameterPosition(name, token.start, last, token.line, token.col))
        made += [
            Token(TokenType.PARAMETER, "$", token.line, token.col, token.start, token.start),
            Token(TokenType.VAR, name, token.line, token.col, token.start, last),
        ]
    return made, places


def _named(tokens: list[Token], index: int) -> str | None:
    """Read the name of the parameter that begins here, empty for ``?``; None where none begins."""
    token = tokens[index]
    if token.token_type is TokenType.PLACEHOLDER:
        return ""
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if following is None or following.start != token.end + 1 or not _NAME.fullmatch(following.text):
        return None
    if token.token_type is TokenType.PARAMETER:
        return following.text
    before = tokens[index - 1].token_type if index else None
    return following.text if token.token_type is TokenType.COLON and before not in _ENDS else None


def literals(places: list[ParameterPosition], given: Parameters | None) -> dict[str, exp.Expr]:
    """Make the literal of every parameter, by name; what is missing, surplus or no value is refused by name."""
    values = _by_name(given)
    asked = {each.name: each for each in reversed(places)}
    for name, place in asked.items():
        if name not in values:
            fix = "give a value for it: sql(question, [40]), sql(question, {'name': 40}) or --param name=40"
            rule = f"no value is given for the parameter {place.shown}"
            raise Unsupported("parameter", rule, fix=fix, line=place.line, column=place.column)
    surplus = [name for name in values if name not in asked]
    if surplus:
        rule = f"the question has no parameter {', '.join(f'${printable(name[:60])}' for name in surplus[:5])}"
        raise Unsupported("parameter", rule, fix="leave out its value, or name it in the question")
    return {name: _literal(name, value) for name, value in values.items()}


def _by_name(given: Parameters | None) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): value for name, value in given.items()}
    if isinstance(given, (list, tuple)):
        return {str(place): value for place, value in enumerate(given, 1)}
    fix = "give sql(question, [40, 'Rome']) or sql(question, {'age': 40})"
    raise Unsupported("parameter", "values of parameters are a list, or a dict by name", fix=fix)


def bound(statement: exp.Expr, places: list[ParameterPosition], values: Mapping[str, exp.Expr]) -> exp.Expr:
    """Put literals into the statement in the place of its parameters; a parameter that stands for no value is
    refused.
    """
    found = [node for node in statement.find_all(exp.Placeholder) if node.name in values]
    if len(found) != len(places) or not all(map(_is_value, found)):
        rule = "a parameter stands for a value, never for a name"
        raise Unsupported("parameter", rule, fix="write names of tables, columns and functions in the question")
    for node in found:
        node.replace(values[node.name].copy())
    return statement


def _is_value(node: exp.Expr) -> bool:
    return node.arg_key not in ("alias", "using") and not isinstance(node.parent, (exp.Table, exp.TableAlias))


def written(text: str, places: list[ParameterPosition], values: Mapping[str, exp.Expr]) -> str:
    """Write the question as it is kept and shown to people, with the literals written in; it is not read again."""
    return "".join(_pieces(text, places, values))


def _pieces(text: str, places: list[ParameterPosition], values: Mapping[str, exp.Expr]) -> Iterator[str]:
    done = 0
    for place in places:
        before, value = text[done : place.first], values[place.name]
        yield before + " " * before[-1:].isalnum()
        yield f"({value.sql()})" if isinstance(value, exp.Neg) else value.sql(dialect="duckdb")
        done = place.last + 1
    yield text[done:]


def _literal(name: str, value: Any) -> exp.Expr:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    made = _made(value)
    if made is None:
        raise Unsupported(
            "parameter",
            f"the value of ${printable(name[:60])} is no number, text, truth, date or time without a zone, nor None",
            fix="give such a value, or write IN (…) with one parameter for each value",
        )
    return made


def _made(value: Any) -> exp.Expr | None:
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(str(value)) if _plain(value) else None
    if isinstance(value, dt.datetime):
        return _moment(value.isoformat(sep=" "), "TIMESTAMP") if value.tzinfo is None else None
    if isinstance(value, dt.date):
        return _moment(value.isoformat(), "DATE")
    return _number(value)


def _plain(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _moment(written: str, kind: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(written), kind, dialect="duckdb")


def _number(value: Any) -> exp.Expr | None:
    """Write a number as its digits; one below 0 is the opposite of its size, as where it is written."""
    if not isinstance(value, (int, float, Decimal, Fraction)) or not _is_finite(value):
        return None
    size = abs(value)
    digits = _decimal(size) if isinstance(size, Fraction) else str(size)
    if digits is None:
        return None
    made = exp.Literal.number(digits)
    return exp.Neg(this=made) if value < 0 else made


def _is_finite(value: float | Decimal | Fraction) -> bool:
    """Tell whether a number is one that 64 bits can be near: what is larger is as good as without end."""
    try:
        return math.isfinite(value)
    except (OverflowError, ValueError):  # a whole number or a fraction beyond all floats; a signalling NaN
        return False


def _decimal(size: Fraction) -> str | None:
    """Write a fraction that has an end in decimal digits."""
    if size.denominator == 1:
        return str(size.numerator)
    for places in range(1, 100):
        if 10**places % size.denominator == 0:
            digits = str(size.numerator * (10**places // size.denominator)).rjust(places + 1, "0")
            return f"{digits[:-places]}.{digits[-places:]}"
    return None
