"""The cells of a server's columns become what the policy declares: each rule works on one cell by itself, and none
can raise.

A column is found in its source by one rule, whichever engine holds it.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from sfumato.engine.lowering.relational import Constant, Scalar, ScalarFunction, apply, whole
from sfumato.engine.lowering.row_lowering import RowLowering, missing, present, real
from sfumato.errors import InvalidPolicy
from sfumato.plan.values.grammars import BEYOND, FALSE, GRAMMARS, TRUE, ZERO
from sfumato.policy import Domain, Type
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.privacy.numbers import above, below

_CALENDAR = {Type.DATE: (dt.date.min, dt.date.max), Type.TIMESTAMP: (dt.datetime.min, dt.datetime.max)}


class Stored(Enum):
    """This says what the cells of a column are on a server."""

    INTEGER = "whole numbers of at most 64 bits"
    NUMBER = "decimal numbers of any size"
    REAL = "doubles"
    BOOLEAN = "truths"
    DATE = "dates"
    TIMESTAMP = "times"
    TEXT = "texts"
    BYTES = "bytes, which tell units apart and are nothing else"
    LIST = "lists of any of these"
    OTHER = "values without a text of their own"


def largest_whole(single: bool) -> Fraction:
    """Give the whole number below which a number with a point, of 32 or 64 bits, stands for one whole number alone."""
    return Fraction(2**24 if single else 2**53)


def inner(low: Fraction, high: Fraction) -> tuple[float, float]:
    """Find the least and the largest double inside exact bounds; the nearest double when none is inside."""
    least, largest = above(low), below(high)
    return (least, largest) if least <= largest else (float(low), float(low))


def _clamped(x: Scalar, domain: Domain) -> Scalar:
    """Clamp a value to its bounds; LEAST and GREATEST skip NULL, so NULL is kept apart."""
    assert domain.bounds is not None
    low, high = (Constant(end, domain.type) for end in domain.bounds)
    held = apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, x, low), high)
    return apply(ScalarFunction.CASE, present(x), held, missing(domain.type))


def ends_of(domain: Domain) -> tuple[Scalar, Scalar]:
    """Give what infinite values become: the bounds, or NULL."""
    if domain.bounds is None:
        return missing(domain.type), missing(domain.type)
    if domain.type is not Type.REAL:
        low, high = (Constant(end, domain.type) for end in domain.bounds)
        return low, high
    least, most = inner(*domain.bounds)  # type: ignore[arg-type]
    return real(least), real(most)


def of_whole(x: Scalar, domain: Domain) -> Scalar:
    """Give a 64-bit whole number, which a real always holds nearly."""
    if domain.type is Type.INTEGER:
        return x if domain.bounds is None else _clamped(x, domain)
    number = apply(ScalarFunction.CONVERT, x, detail=(Type.REAL,))
    if domain.bounds is None:
        return number
    low, high = ends_of(domain)
    held = apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, number, low), high)
    return apply(ScalarFunction.CASE, present(x), held, missing(Type.REAL))


def limited_real(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    """Give a double within its bounds, or where there are none within what a real may be."""
    if domain.bounds is None:
        return rows.limited(x)
    low, high = ends_of(domain)
    pairs = [
        *(apply(ScalarFunction.LESS, x, low), low),
        *(apply(ScalarFunction.GREATER, x, high), high),
        *(present(x), x),
    ]
    if domain.bounds[0] <= 0 <= domain.bounds[1]:  # type: ignore[operator]
        small = apply(ScalarFunction.LESS, apply(ScalarFunction.ABS, x), real(SMALLEST_REAL))
        pairs = [small, real(0), *pairs]
    return apply(ScalarFunction.CASE, *pairs, missing(Type.REAL))


def whole_number(rows: RowLowering, x: Scalar, is_whole: Scalar, nearest: Scalar, domain: Domain) -> Scalar:
    """Give the whole number that a number is; one beyond 64 bits is beyond every bound."""
    near = rows.shared(nearest)
    if domain.bounds is None:
        return apply(ScalarFunction.CASE, is_whole, near, missing(Type.INTEGER))
    low, high = ends_of(domain)
    held = apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, near, low), high)
    below_all, above_all = (apply(each, x, real(0)) for each in (ScalarFunction.LESS, ScalarFunction.GREATER))
    return apply(
        ScalarFunction.CASE,
        *(apply(ScalarFunction.NOT, is_whole), missing(Type.INTEGER)),
        *(present(near), held),
        *(below_all, low),
        *(above_all, high),
        missing(Type.INTEGER),
    )


def truth(x: Scalar, stored: Stored) -> Scalar:
    zero, one = (whole(0), whole(1)) if stored is Stored.INTEGER else (real(0), real(1))
    no, yes = (Constant(value, Type.BOOLEAN) for value in (False, True))
    return apply(
        ScalarFunction.CASE,
        apply(ScalarFunction.EQUAL, x, zero),
        no,
        apply(ScalarFunction.EQUAL, x, one),
        yes,
        missing(Type.BOOLEAN),
    )


def moment(rows: RowLowering, x: Scalar, stored: Stored, domain: Domain) -> Scalar:
    """Give a date or a time within its bounds, or where there are none within the calendar."""
    kind = domain.type
    if stored.name != kind.name:
        x = rows.shared(apply(ScalarFunction.CONVERT, x, detail=(kind,)))
    return _clamped(x, domain) if domain.bounds is not None else rows.dated(x, *_CALENDAR[kind], kind)


def _matches(x: Scalar, grammar: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, x, detail=(grammar,))


def _or_beyond(x: Scalar, value: Scalar, made: Scalar, domain: Domain, kind: Type) -> Scalar:
    """Give what is made of a value where there is one, or the bound of a text that lies beyond every number or date."""
    if domain.bounds is None:
        return made
    ends = zip(BEYOND[kind], ends_of(domain), strict=True)
    beyond = [each for grammar, end in ends for each in (_matches(x, grammar), end)]
    return apply(ScalarFunction.CASE, present(value), made, *beyond, missing(domain.type))


def number_in(rows: RowLowering, x: Scalar) -> Scalar:
    """Read a text as a double, 0 where its exponent makes it so."""
    read = apply(ScalarFunction.READ, x, detail=(Type.REAL,))
    number = apply(
        ScalarFunction.CASE, _matches(x, GRAMMARS[Type.REAL]), read, _matches(x, ZERO), real(0), missing(Type.REAL)
    )
    return rows.shared(number)


def _read_real(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    number = number_in(rows, x)
    return _or_beyond(x, number, limited_real(rows, number, domain), domain, Type.REAL)


def _read_integer(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    """Read digits as they are, and any other number as the double it means."""
    digits = _matches(x, GRAMMARS[Type.INTEGER])
    read = rows.shared(
        apply(ScalarFunction.CASE, digits, apply(ScalarFunction.READ, x, detail=(Type.INTEGER,)), missing(Type.INTEGER))
    )
    found = number_in(rows, x)
    small = apply(ScalarFunction.LESS, apply(ScalarFunction.ABS, found), real(SMALLEST_REAL))
    number = rows.shared(apply(ScalarFunction.CASE, small, real(0), found))
    held = apply(ScalarFunction.BETWEEN, number, real(-Fraction(2**63)), real(Fraction(2**63 - 1024)))
    nearest = apply(ScalarFunction.CASE, held, apply(ScalarFunction.NEAREST, number), missing(Type.INTEGER))
    is_whole = apply(ScalarFunction.EQUAL, number, apply(ScalarFunction.TRUNCATE, number))
    other = _or_beyond(x, number, whole_number(rows, number, is_whole, nearest, domain), domain, Type.REAL)
    return apply(ScalarFunction.CASE, present(read), of_whole(read, domain), other)


def _read_boolean(_: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    no, yes = (Constant(value, domain.type) for value in (False, True))
    return apply(ScalarFunction.CASE, _matches(x, FALSE), no, _matches(x, TRUE), yes, missing(domain.type))


def _read_moment(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    kind = domain.type
    time = apply(ScalarFunction.READ, x, detail=(Type.TIMESTAMP,))
    pairs = [_matches(x, GRAMMARS[Type.TIMESTAMP]), time]
    if kind is Type.DATE:
        day = apply(ScalarFunction.READ, x, detail=(Type.DATE,))
        later = apply(ScalarFunction.CONVERT, time, detail=(Type.DATE,))
        pairs = [_matches(x, GRAMMARS[Type.DATE]), day, _matches(x, GRAMMARS[Type.TIMESTAMP]), later]
    value = rows.shared(apply(ScalarFunction.CASE, *pairs, missing(kind)))
    made = _clamped(value, domain) if domain.bounds is not None else rows.dated(value, *_CALENDAR[kind], kind)
    return _or_beyond(x, value, made, domain, kind)


READ: dict[Type, Callable[[RowLowering, Scalar, Domain], Scalar]] = {
    Type.INTEGER: _read_integer,
    Type.REAL: _read_real,
    Type.BOOLEAN: _read_boolean,
    Type.DATE: _read_moment,
    Type.TIMESTAMP: _read_moment,
}


T = TypeVar("T")


def folded(name: str) -> str:
    """Write a name without its letter case, its accents composed: a source may write é as two letters."""
    return unicodedata.normalize("NFC", name).lower()


def find(columns: Sequence[tuple[str, T]], column: str, place: str, otherwise: str) -> T:
    """Find the column of that name, exactly or, if only one is so, in other letter case, accents composed.

    ``otherwise`` is what to do where no column has a name like it.
    """
    found = [each for true, each in columns if true == column]
    found = found or [each for true, each in columns if folded(true) == folded(column)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidPolicy(
            f"the source has several columns called {column}", place=place, fix="rename all but one of them"
        )
    near = get_close_matches(column, [true for true, _ in columns], 1)
    fix = f"did you mean {near[0]}?" if near else otherwise
    raise InvalidPolicy(f"the source has no column {column}", place=place, fix=fix)
