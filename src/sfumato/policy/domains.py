"""A domain says what is publicly known of a value: its type, its range, its finite choices. Data never decide it.

Names of tables, columns and keys of a policy are checked here.
"""

from __future__ import annotations

import datetime as dt
import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.privacy import codec
from sfumato.privacy.codec import spelled
from sfumato.privacy.numbers import POSITIVE, Range, exact, text

Value = int | Fraction | str | bool | dt.date | dt.datetime
"""A public value of one of the types, exact."""

LARGEST_INTEGER = 2**62
"""Whole numbers are held in 64 bits with room for one addition."""
LARGEST_REAL, SMALLEST_REAL = Fraction(2**500), Fraction(1, 2**500)
"""A real is 0 or between these in size, in data, policies and questions: the product and the quotient of two of them
are doubles, and every engine can keep to it. What is computed and larger is NULL, what is smaller is 0.
"""
MOST_VALUES = 100_000
MOST_LETTERS = 1_000
"""Of a text that nothing is declared about: what is longer is cut at the scan."""
LONGEST_TEXT = 10_000
"""Letters that any text may have."""
_WHOLE = Range("a whole number of at most 2^62 in size", Fraction(-LARGEST_INTEGER), Fraction(LARGEST_INTEGER))


class Type(Enum):
    """The types a column or an expression may have."""

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"

    @classmethod
    def of(cls, value: Type | str) -> Type:
        try:
            return cls(value)
        except ValueError:
            names = [each.value for each in cls]
            close = difflib.get_close_matches(str(value)[:20].lower(), names, n=1, cutoff=0.5)
            fix = f"did you mean {close[0]}?" if close else ""
            raise InvalidParameter("type", value, "one of " + ", ".join(names), fix=fix) from None

    @property
    def numeric(self) -> bool:
        return self in (Type.INTEGER, Type.REAL)

    @property
    def temporal(self) -> bool:
        return self in (Type.DATE, Type.TIMESTAMP)


@codec.value("domain")
@dataclass(frozen=True)
class Domain:
    """A domain says what is publicly known of a column or an expression.

    ``bounds`` are enforced by clamping at the scan, ``values`` by turning anything else into NULL, or into ``other``
    where that is named: it is then the last of the values. ``grid`` is the step to which a real is rounded before it
    is added up. ``nullable`` says that NULL is a key of its own when grouping; any value may be missing. A text without
    ``values`` is cut at ``max_length`` letters.

    >>> Domain("integer", bounds=(0, 110))
    integer from 0 to 110
    """

    type: Type
    bounds: tuple[Value, Value] | None = None
    values: tuple[Value, ...] | None = None
    grid: Fraction | None = None
    nullable: bool = False
    max_length: int | None = None
    other: Value | None = None
    letters: int = field(init=False, repr=False, compare=False, default=0)
    """The most letters a text has: those of its longest value, or where it is cut."""

    def __post_init__(self) -> None:
        kind = Type.of(self.type)
        object.__setattr__(self, "type", kind)
        if not isinstance(self.nullable, bool):
            raise InvalidParameter("nullable", self.nullable, "true or false")
        object.__setattr__(self, "bounds", _bounds(kind, self.bounds))
        object.__setattr__(self, "values", _values(kind, self.values))
        object.__setattr__(self, "max_length", _length(kind, self.max_length, self.values))
        self._take_other()
        object.__setattr__(self, "letters", _letters(kind, self.max_length, self.values))
        if self.bounds is not None and self.values is not None:
            raise InvalidParameter("bounds", self.bounds, "left out when values are listed")
        if self.grid is not None:
            if kind is not Type.REAL:
                raise InvalidParameter("grid", self.grid, "left out unless the type is real")
            object.__setattr__(self, "grid", _real(exact(self.grid, "grid", POSITIVE), "grid"))

    def __hash__(self) -> int:
        """Hash only the ends of a long list: the hash is asked for again and again."""
        ends = self.values and (len(self.values), self.values[0], self.values[-1])
        return hash((self.type, self.bounds, ends, self.grid, self.nullable, self.max_length, self.other))

    def _take_other(self) -> None:
        if self.other is None:
            return
        if self.values is None:
            raise InvalidParameter("other", self.other, "left out unless values are listed")
        other = as_value(self.type, self.other, "other")
        object.__setattr__(self, "other", other)
        if other not in self.values:
            object.__setattr__(self, "values", _values(self.type, (*self.values, other)))

    @property
    def range(self) -> tuple[Value, Value] | None:
        """Give the least and the greatest value, from bounds or values; None when nothing is declared."""
        if self.bounds is not None:
            return self.bounds
        if self.values is None or not self.values or self.type in (Type.TEXT, Type.BOOLEAN):
            return None
        ordered: list[Any] = sorted(self.values)
        return ordered[0], ordered[-1]

    def __repr__(self) -> str:
        known = self.type.value
        if self.values is not None:
            known += f", one of {len(self.values):,} values"
        elif self.range is not None:
            known += f" from {_shown(self.range[0])} to {_shown(self.range[1])}"
        known += "" if self.grid is None else f" in steps of {text(self.grid)}"
        return f"{known}, may be missing" if self.nullable else known


MOST_ITEMS = 1_000
"""Elements of a list that may count."""


@dataclass(frozen=True)
class ListColumn:
    """A list column holds several values in one row, of which the first ``most_items`` count: what comes after them is
    cut at the scan, and each of the others is what the domain says.

    >>> ListColumn(Domain("text", values=("a", "b")), 5)
    ListColumn(items=text, one of 2 values, most_items=5)
    """

    items: Domain
    most_items: int

    __repr__ = spelled

    def __post_init__(self) -> None:
        if type(self.most_items) is not int or not 1 <= self.most_items <= MOST_ITEMS:
            raise InvalidParameter("most_items", self.most_items, f"a whole number between 1 and {MOST_ITEMS:,}")


def as_value(kind: Type, value: object, name: str) -> Value:
    """Read a public value as the given type: exact numbers, ISO dates, plain text."""
    reader = _READERS[kind]
    return reader(value, name)


def implied(values: object) -> Type | None:
    """Find the one type all listed values have as written: texts, whole numbers, dates, times, true and false."""
    kinds = {_kind(each) for each in values} if isinstance(values, (tuple, list)) else set()
    return Type.REAL if kinds == {Type.INTEGER, Type.REAL} else kinds.pop() if len(kinds) == 1 else None


def _kind(value: object) -> Type | None:
    for kind, python in _WRITTEN:
        if isinstance(value, python):
            return kind
    return None


# In this order: true is a whole number to Python, and a time is a date.
_WRITTEN: tuple[tuple[Type, tuple[type, ...]], ...] = (
    (Type.BOOLEAN, (bool,)),
    (Type.INTEGER, (int,)),
    (Type.REAL, (float, Decimal, Fraction)),
    (Type.TEXT, (str,)),
    (Type.TIMESTAMP, (dt.datetime,)),
    (Type.DATE, (dt.date,)),
)


def _integer(value: object, name: str) -> int:
    number = exact(value, name, _WHOLE)  # type: ignore[arg-type]
    if number.denominator != 1:
        raise InvalidParameter(name, value, _WHOLE.words)
    return number.numerator


def _real(value: object, name: str) -> Fraction:
    number = exact(value, name)  # type: ignore[arg-type]
    if number and not SMALLEST_REAL <= abs(number) <= LARGEST_REAL:
        raise InvalidParameter(name, value, "a number that is 0 or between 2^-500 and 2^500 in size")
    return number


def _text(value: object, name: str) -> str:
    if (
        not isinstance(value, str)
        or len(value) > LONGEST_TEXT
        or "\0" in value
        or (not value.isascii() and _broken(value))
    ):
        raise InvalidParameter(name, value, "a text of at most 10,000 characters")
    return value


def _broken(value: str) -> bool:
    """Lone surrogates are no text: an engine cannot store them."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


def _boolean(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(name, value, "true or false")
    return value


def _date(value: object, name: str) -> dt.date:
    if isinstance(value, dt.datetime):
        raise InvalidParameter(name, value, "a date such as 2024-01-31")
    if isinstance(value, dt.date):
        return value
    try:
        return dt.date.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidParameter(name, value, "a date such as 2024-01-31") from None


def _timestamp(value: object, name: str) -> dt.datetime:
    rule = "a time such as 2024-01-31 23:59:00, without a time zone"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    try:
        found = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidParameter(name, value, rule) from None
    if found.tzinfo is not None:
        raise InvalidParameter(name, value, rule)
    return found


_READERS: dict[Type, Any] = {
    Type.INTEGER: _integer,
    Type.REAL: _real,
    Type.TEXT: _text,
    Type.BOOLEAN: _boolean,
    Type.DATE: _date,
    Type.TIMESTAMP: _timestamp,
}


def _bounds(kind: Type, bounds: object) -> tuple[Value, Value] | None:
    if bounds is None:
        return None
    if kind in (Type.TEXT, Type.BOOLEAN):
        raise InvalidParameter("bounds", bounds, f"left out for the type {kind.value}", fix="list its values instead")
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InvalidParameter("bounds", bounds, "two values, [low, high]")
    low, high = (as_value(kind, each, "bounds") for each in bounds)
    if low > high:  # type: ignore[operator]
        low, high = (text(each) if isinstance(each, Fraction) else str(each) for each in (high, low))
        raise InvalidParameter("bounds", bounds, "[low, high] with low ≤ high", fix=f"perhaps [{low}, {high}] is meant")
    return low, high


def _values(kind: Type, values: object) -> tuple[Value, ...] | None:
    if values is None:
        return None
    if not isinstance(values, (tuple, list)) or not 1 <= len(values) <= MOST_VALUES:
        raise InvalidParameter("values", values, f"a list of 1 to {MOST_VALUES:,} values")
    found = tuple(as_value(kind, each, "values") for each in values)
    told = {float(each) for each in found} if kind is Type.REAL else set(found)  # type: ignore[arg-type]
    if len(told) != len(found):
        raise InvalidParameter("values", values, "a list in which no value stands twice")
    return found


def _length(kind: Type, length: object, values: object) -> int | None:
    if length is None:
        return None
    if kind is not Type.TEXT or values is not None:
        raise InvalidParameter("max_length", length, "left out unless the type is text, without values")
    if type(length) is not int or not 1 <= length <= LONGEST_TEXT:
        raise InvalidParameter("max_length", length, f"a whole number between 1 and {LONGEST_TEXT:,}")
    return None if length == MOST_LETTERS else length  # which is what nothing declared means


def _letters(kind: Type, length: int | None, values: tuple[Value, ...] | None) -> int:
    if kind is not Type.TEXT:
        return 0
    if values is None:
        return MOST_LETTERS if length is None else length
    return max(len(str(each)) for each in values)


def _shown(value: object) -> str:
    return text(value) if isinstance(value, Fraction) else str(value)


LONGEST_NAME = 63
"""Letters of a table's or a column's name."""
_KEPT = "sf_"


def check_name(name: object, what: str, place: str) -> None:
    if isinstance(name, str) and name.lower().startswith(_KEPT):
        raise InvalidPolicy("names beginning with sf_ are kept for generated columns", place=place, fix="rename it")
    if not is_name(name):
        raise InvalidPolicy(
            f"{what} has a name of 1 to {LONGEST_NAME} visible letters in normal form (NFC), without spaces around it",
            place=place,
            fix="rename it in a view or in the file",
        )


def is_name(name: object) -> bool:
    """Tell whether a table or a column may be called so: by visible letters and spaces, which mean the same wherever
    they are printed, and not as what is generated.
    """
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return False
    if name != name.strip() or not unicodedata.is_normalized("NFC", name) or unicodedata.combining(name[0]):
        return False
    return not name.lower().startswith(_KEPT)


def distinct(names: Iterable[str], place: str) -> None:
    """SQL does not tell capital letters from small ones in names."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise InvalidPolicy(
                f"{other} and {name} are the same name in SQL", place=f"{place}.{name}", fix="rename one of them"
            )


def check_keys(
    found: Mapping[str, object],
    known: Iterable[str],
    place: str,
    rule: str = "this key is not known",
    otherwise: str = "remove it: known here are",
) -> None:
    """Refuse a key that nobody reads, and name the known one it is nearest to, or else all of them."""
    from difflib import get_close_matches

    names = tuple(known)
    for key in found:
        if key not in names:
            near = get_close_matches(str(key), names, 1)
            fix = f"did you mean {near[0]}?" if near else f"{otherwise} {', '.join(names)}"
            raise InvalidPolicy(rule, place=f"{place}.{key}" if place else str(key), fix=fix)
