"""Conditions and choices are declared here.

CAST leads among the six types and is total: what cannot be converted is NULL, as with TRY_CAST.

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
    any_nullable,
    boolean,
    call,
    function,
    is_null,
    moment,
    null,
    real,
    same,
    text,
    timestamp,
    truth,
    union,
    written,
)
from sfumato.policy.domains import Domain, Type

Made = tuple[Sequence[Expression], Domain]


def _comparison(x: Expression, y: Expression) -> Made:
    pair = same((x, y))
    return pair, truth(*pair)


def _both(*conditions: Expression) -> Made:
    typed = [boolean(each) for each in conditions]
    return typed, truth(*typed)


for _name, _words in {
    "=": "equal",
    "<>": "not equal",
    "<": "less",
    "<=": "at most",
    ">": "greater",
    ">=": "at least",
}.items():
    function(_name, f"x {_name} y", f"{_words}: two numbers, texts, dates or truths")(_comparison)

function("AND", "a AND b", "both hold")(_both)
function("OR", "a OR b", "one holds, or both")(_both)


@function("NOT", "NOT a", "the contrary")
def _not(x: Expression) -> Made:
    return [boolean(x)], truth(x)


@function("BETWEEN", "x BETWEEN low AND high", "at least low and at most high")
def _between(x: Expression, low: Expression, high: Expression) -> Made:
    typed = same((x, low, high))
    return typed, truth(*typed)


@function("IN", "x IN (1, 2, …)", "equal to one of the values written out")
def _in(x: Expression, first: Expression, *others: Expression) -> Made:
    typed = same((x, first, *others))
    for each in typed[1:]:
        if not is_null(each):
            written(each, each.domain.type, "each value of IN")
    return typed, truth(*typed)


def _pattern(x: Expression, pattern: Expression) -> Made:
    written(pattern, Type.TEXT, "the pattern")
    return [text(x), pattern], truth(x)


def _matching(node: Call) -> int:
    """Count letters × letters of the pattern as steps: after a % the rest of it is tried at every letter."""
    letters, pattern = node.arguments[0].domain.letters, node.arguments[1]
    assert isinstance(pattern, Literal)
    tried = letters if "%" in str(pattern.value).rstrip("%") else 1
    return 10 + tried * (len(str(pattern.value)) + 1)


def _folded(node: Call) -> int:
    """Count the steps of matching, once all letters are small."""
    return _matching(node) + FOLDING * node.arguments[0].domain.letters


function("LIKE", "text LIKE 'pattern'", "matches: % is any text, _ any one letter, nothing an escape", steps=_matching)(
    _pattern
)
function(
    "ILIKE",
    "text ILIKE 'pattern'",
    "LIKE, both sides in small letters",
    steps=_folded,
    held=lambda node: 4 * node.arguments[0].domain.letters,
)(_pattern)


@function("IS NULL", "x IS [NOT] NULL", "the value is missing")
def _is_null(x: Expression) -> Made:
    return [x], truth()


def _is(x: Expression) -> Made:
    return [boolean(x)], truth()


function("IS TRUE", "a IS [NOT] TRUE", "holds, and is not missing")(_is)
function("IS FALSE", "a IS [NOT] FALSE", "does not hold, and is not missing")(_is)


@function("CASE", "CASE WHEN a THEN x … [ELSE y] END", "the first value whose condition holds, else y or NULL")
def _case(*arguments: Expression) -> Made:
    if len(arguments) < 2:
        raise Unsupported("arguments", "CASE needs a condition and a value", fix="write CASE WHEN a THEN x ELSE y END")
    otherwise = arguments[-1] if len(arguments) % 2 else null()
    conditions = [boolean(each) for each in arguments[: len(arguments) // 2 * 2 : 2]]
    values = same((*arguments[1::2], otherwise))
    domain = union(values, nullable=any_nullable(*values))
    pairs = [each for pair in zip(conditions, values, strict=False) for each in pair]
    return [*pairs, values[-1]], domain


@function("IF", "IF(a, x, y)", "x where a holds, else y")
def _if(condition: Expression, x: Expression, y: Expression) -> Expression:
    return call("CASE", condition, x, y)


@function("COALESCE", "COALESCE(x, y, …)", "the first that is not missing")
def _coalesce(x: Expression, *others: Expression) -> Made:
    typed = same((x, *others))
    return typed, union(typed, nullable=all(each.domain.nullable for each in typed))


@function("NULLIF", "NULLIF(x, y)", "x, but missing where it equals y")
def _nullif(x: Expression, y: Expression) -> Made:
    typed = same((x, y))
    return typed, union(typed[:1], nullable=True)


_LETTERS = 32
"""Of a number, a date or a truth as text, at most."""


def _steps(node: Call) -> int:
    """Texts are read letter by letter, and written likewise."""
    written = _LETTERS * 2 if node.domain.type is Type.TEXT else 0
    return 10 + 3 * node.arguments[0].domain.letters + written


def _bytes(node: Call) -> int:
    return _LETTERS if node.domain.type is Type.TEXT else 8


@function(
    "CAST",
    "CAST(x AS type), TRY_CAST, x::type",
    "converted, NULL where that fails; reals to whole numbers with ties to even, never to text; dates never to numbers",
    steps=_steps,
    held=_bytes,
)
def _cast(x: Expression, target: Expression) -> Expression | Made:
    kind = Type.of(str(written(target, Type.TEXT, "the type")))
    if is_null(x):
        return null(kind)
    if x.domain.type is kind:
        return x
    if isinstance(x, Literal) and isinstance(x.value, str) and kind.temporal:
        return _dated(moment(x), kind)
    return _converted(x, kind)


def _converted(x: Expression, kind: Type) -> Expression | Made:
    found = x.domain.type
    nullable = x.domain.nullable
    if kind is Type.TEXT and found is Type.REAL:
        raise Unsupported(
            "type-mismatch",
            "a real number cannot become text: it would be written otherwise by every engine",
            fix="use ROUND and CAST(… AS BIGINT) first, or compare numbers as numbers",
        )
    if kind is Type.TEXT:
        return (x,), Domain(kind, nullable=nullable, max_length=_LETTERS)
    if found is Type.TEXT:
        return (x,), Domain(kind, values=BOTH if kind is Type.BOOLEAN else None, nullable=True)
    if found.temporal and kind.temporal:
        return _dated(x, kind)
    if found.temporal or kind.temporal:
        raise Unsupported(
            "type-mismatch",
            "a date cannot become a number or a truth",
            fix="use EXTRACT, or DATE_DIFF",
        )
    if kind is Type.BOOLEAN:
        return (x,), Domain(kind, values=BOTH, nullable=nullable)
    if found is Type.BOOLEAN:
        return (x,), Domain(kind, values=(0, 1), nullable=nullable)
    return real(x) if kind is Type.REAL else ((x,), _rounded(x.domain))


def _rounded(domain: Domain) -> Domain:
    """Round a real to a whole number, halves to even; NULL where 64 bits do not hold it."""
    found = intervals.ends(domain)
    whole = found and intervals.whole(round(found[0]), round(found[1]), nullable=domain.nullable)
    return whole or Domain(Type.INTEGER, nullable=True)


def _dated(x: Expression, kind: Type) -> Expression | Made:
    """Convert between dates and times: a time becomes its day."""
    if x.domain.type is kind:
        return x
    if kind is Type.TIMESTAMP:
        return timestamp(x)
    found: Any = x.domain.range
    bounds = found and (found[0].date(), found[1].date())
    return (x,), Domain(kind, bounds=bounds, nullable=x.domain.nullable)
