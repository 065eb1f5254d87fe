"""Text: letters are Unicode code points, compared by their UTF-8 bytes whatever the language.

What is joined or replaced is cut at LONGEST letters, so texts cannot grow. A space is U+0020 and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import Unsupported
from sfumato.plan.expressions import Expression
from sfumato.plan.functions.declaring import function, never_null
from sfumato.plan.functions.typing import any_nullable, is_null, mismatch, null, text, truth, written
from sfumato.policy.domains import Domain, Type

Made = tuple[Sequence[Expression], Domain]

LONGEST = 10_000
"""Joined texts keep this many letters: memory could otherwise run out for one person's row alone."""
_REPLACEMENT = 32
_FARTHEST = 2**31


def _plain(*found: Expression) -> Domain:
    return Domain(Type.TEXT, nullable=any_nullable(*found))


def _unary(x: Expression) -> Made:
    return (text(x),), _plain(x)


def _trim(x: Expression, letters: Expression | None = None) -> Made:
    if letters is None:
        return _unary(x)
    written(letters, Type.TEXT, "the letters to trim")
    return (text(x), letters), _plain(x)


function("LOWER", "LOWER(text)", "in small letters, one for one, wherever they stand: İ is i, Σ is σ")(_unary)
function("UPPER", "UPPER(text)", "in capital letters, one for one: ß, which has no single capital, stays")(_unary)
function("TRIM", "TRIM(text [, 'letters'])", "without spaces (or these letters) at either end")(_trim)
function("LTRIM", "LTRIM(text [, 'letters'])", "without spaces (or these letters) at the start")(_trim)
function("RTRIM", "RTRIM(text [, 'letters'])", "without spaces (or these letters) at the end")(_trim)


def _position(x: Expression) -> Expression:
    """A whole number with a range that the engine's text functions take."""
    if is_null(x):
        return null(Type.INTEGER)
    if x.domain.type is not Type.INTEGER:
        raise mismatch(x, Type.INTEGER)
    found = x.domain.range
    if found is None or max(abs(int(each)) for each in found) > _FARTHEST:  # type: ignore[arg-type]
        raise Unsupported(
            "unbounded-position",
            "a position in a text must have a known range",
            fix="write it as a number, or as LEAST(GREATEST(…, 0), 100)",
        )
    return x


@function(
    "SUBSTR",
    "SUBSTR(text, start [, length])",
    "the part from the start-th letter on, counted from 1, or from the end where start < 0",
)
def _substr(x: Expression, start: Expression, length: Expression | None = None) -> Made:
    positions = [_position(each) for each in (start, length) if each is not None]
    return (text(x), *positions), _plain(x, *positions)


def _side(x: Expression, count: Expression) -> Made:
    return (text(x), _position(count)), _plain(x, count)


function("LEFT", "LEFT(text, n)", "the first n letters; all but the last -n where n < 0")(_side)
function("RIGHT", "RIGHT(text, n)", "the last n letters; all but the first -n where n < 0")(_side)


@function("LENGTH", "LENGTH(text)", "the number of letters")
def _length(x: Expression) -> Made:
    x = text(x)
    lengths = None if x.domain.values is None else [len(str(each)) for each in x.domain.values]
    bounds = lengths and (min(lengths), max(lengths))
    return (x,), Domain(Type.INTEGER, bounds=bounds or None, nullable=x.domain.nullable)


@function("CONCAT", "CONCAT(text, …)", f"the texts joined, missing ones passed over; cut at {LONGEST:,} letters")
def _concat(x: Expression, *others: Expression) -> Made:
    typed = [text(each) for each in (x, *others)]
    return typed, Domain(Type.TEXT, nullable=not any(map(never_null, typed)) and any_nullable(*typed))


@function("||", "text || text", f"the texts joined, NULL where one is missing; cut at {LONGEST:,} letters")
def _join(x: Expression, *others: Expression) -> Made:
    typed = [text(each) for each in (x, *others)]
    return typed, _plain(*typed)


@function("REPLACE", "REPLACE(text, 'old', 'new')", f"every old made new; cut at {LONGEST:,} letters")
def _replace(x: Expression, old: Expression, new: Expression) -> Made:
    written(old, Type.TEXT, "the text to replace")
    if len(str(written(new, Type.TEXT, "the replacement"))) > _REPLACEMENT:
        rule = f"the replacement has at most {_REPLACEMENT} letters"
        raise Unsupported("replacement", rule, fix="use CASE WHEN x = 'old' THEN 'new' ELSE x END")
    return (text(x), old, new), _plain(x)


@function("STARTS_WITH", "STARTS_WITH(text, start)", "the text begins so")
def _starts_with(x: Expression, start: Expression) -> Made:
    typed = text(x), text(start)
    return typed, truth(*typed)
