"""Texts are Unicode code points here, compared by their UTF-8 bytes whatever the language; a space is U+0020.

What is joined or replaced is cut at LONGEST letters, so texts cannot grow.

Every text has a most number of letters: that of its column, which is cut there at the scan, or of what it is made from.
So the letters that a function reads, and the bytes it makes before anything is cut, are known before it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.errors import Unsupported
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import (
    FOLDING,
    any_nullable,
    function,
    is_null,
    mismatch,
    never_null,
    null,
    text,
    truth,
    written,
)
from sfumato.policy.domains import LONGEST_TEXT, Domain, Type

Made = tuple[Sequence[Expression], Domain]

LONGEST = LONGEST_TEXT
"""Joined texts keep this many letters: memory could otherwise run out for one person's row alone."""
MOST_JOINED = 100
"""Texts joined at once: engines nest them."""
_BYTES = 4  # of one letter, at most
_REPLACEMENT = 32
_FARTHEST = 2**31


def _plain(letters: int, *found: Expression) -> Domain:
    return Domain(Type.TEXT, nullable=any_nullable(*found), max_length=max(1, min(letters, LONGEST)))


def _read(node: Call) -> int:
    """Take for every letter that is read the dearest there is: one of four bytes, or one that is replaced."""
    return 10 + 5 * sum(each.domain.letters for each in node.arguments)


def _folded(node: Call) -> int:
    """Letters beyond ASCII are looked up, and a few are then replaced."""
    return 10 + FOLDING * node.arguments[0].domain.letters


def _made(node: Call) -> int:
    return _BYTES * node.domain.letters


def _unary(x: Expression) -> Made:
    return (text(x),), _plain(x.domain.letters, x)


def _trim(x: Expression, letters: Expression | None = None) -> Made:
    if letters is None:
        return _unary(x)
    written(letters, Type.TEXT, "the letters to trim")
    return (text(x), letters), _plain(x.domain.letters, x)


def _trimming(node: Call) -> int:
    """Every letter is looked for among those to trim."""
    sought = node.arguments[1].domain.letters if len(node.arguments) > 1 else 1
    return 10 + node.arguments[0].domain.letters * (5 + sought)


function(
    "LOWER",
    "LOWER(text)",
    "in small letters, one for one, wherever they stand: İ is i, Σ is σ",
    steps=_folded,
    held=_made,
)(_unary)
function(
    "UPPER",
    "UPPER(text)",
    "in capital letters, one for one: what has no single capital stays, and ẞ is written ß",
    steps=_folded,
    held=_made,
)(_unary)
for _name, _where in {"TRIM": "at either end", "LTRIM": "at the start", "RTRIM": "at the end"}.items():
    function(
        _name,
        f"{_name}(text [, 'letters'])",
        f"without spaces (or these letters) {_where}",
        steps=_trimming,
        held=_made,
    )(_trim)


def _position(x: Expression) -> Expression:
    """Read a whole number with a range that the engine's text functions take."""
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
    steps=_read,
    held=_made,
)
def _substr(x: Expression, start: Expression, length: Expression | None = None) -> Made:
    positions = [_position(each) for each in (start, length) if each is not None]
    return (text(x), *positions), _plain(x.domain.letters, x, *positions)


def _side(x: Expression, count: Expression) -> Made:
    letters = x.domain.letters
    if isinstance(count, Literal) and isinstance(count.value, int) and count.value >= 0:
        letters = min(letters, count.value)
    return (text(x), _position(count)), _plain(letters, x, count)


function("LEFT", "LEFT(text, n)", "the first n letters; all but the last -n where n < 0", steps=_read, held=_made)(
    _side
)
function("RIGHT", "RIGHT(text, n)", "the last n letters; all but the first -n where n < 0", steps=_read, held=_made)(
    _side
)


@function("LENGTH", "LENGTH(text)", "the number of letters", steps=_read)
def _length(x: Expression) -> Made:
    x = text(x)
    lengths = [0, x.domain.letters] if x.domain.values is None else [len(str(each)) for each in x.domain.values]
    return (x,), Domain(Type.INTEGER, bounds=(min(lengths), max(lengths)), nullable=x.domain.nullable)


def _joined(node: Call) -> int:
    """Count all letters, before they are cut."""
    return _BYTES * sum(each.domain.letters for each in node.arguments)


def _texts(found: Sequence[Expression]) -> tuple[list[Expression], int]:
    """Find what is joined, and how many letters that has."""
    if len(found) > MOST_JOINED:
        raise Unsupported("joined", f"at most {MOST_JOINED} texts are joined at once", fix="join fewer")
    typed = [text(each) for each in found]
    return typed, sum(each.domain.letters for each in typed)


@function(
    "CONCAT",
    "CONCAT(text, …)",
    f"the texts joined, missing ones passed over; cut at {LONGEST:,} letters",
    steps=_read,
    held=_joined,
)
def _concat(x: Expression, *others: Expression) -> Made:
    typed, letters = _texts((x, *others))
    nullable = not any(map(never_null, typed)) and any_nullable(*typed)
    return typed, replace(_plain(letters), nullable=nullable)


@function(
    "||",
    "text || text",
    f"the texts joined, NULL where one is missing; cut at {LONGEST:,} letters",
    steps=_read,
    held=_joined,
)
def _join(x: Expression, *others: Expression) -> Made:
    typed, letters = _texts((x, *others))
    return typed, _plain(letters, *typed)


def _replaced(node: Call) -> int:
    """Bound the letters that come out of it before they are cut: old ones side by side, all made new."""
    letters, old, new = (each.domain.letters for each in node.arguments)
    return max(letters, letters // max(1, old) * new + letters % max(1, old))


def _replacing(node: Call) -> int:
    """Old is looked for at every letter."""
    letters, old, _ = (each.domain.letters for each in node.arguments)
    return 10 + letters * (2 + old) + _replaced(node)


@function(
    "REPLACE",
    "REPLACE(text, 'old', 'new')",
    f"every old made new; cut at {LONGEST:,} letters",
    steps=_replacing,
    held=lambda node: _BYTES * _replaced(node),
)
def _replace(x: Expression, old: Expression, new: Expression) -> Made:
    written(old, Type.TEXT, "the text to replace")
    if len(str(written(new, Type.TEXT, "the replacement"))) > _REPLACEMENT:
        rule = f"the replacement has at most {_REPLACEMENT} letters"
        raise Unsupported("replacement", rule, fix="use CASE WHEN x = 'old' THEN 'new' ELSE x END")
    typed = text(x), old, new
    grown = _replaced(Call("REPLACE", typed, x.domain))
    return typed, _plain(grown, x)


@function("STARTS_WITH", "STARTS_WITH(text, start)", "the text begins so", steps=_read)
def _starts_with(x: Expression, start: Expression) -> Made:
    typed = text(x), text(start)
    return typed, truth(*typed)
