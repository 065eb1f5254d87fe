"""Domains: the public type, bounds and values of a column or an expression, never taken from the data.

Names of tables and columns, and the keys of a policy, are validated here too.
"""

from __future__ import annotations

import datetime as dt
import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.error_facts import quote_parameter
from sfumato.errors import InvalidParameter, InvalidPolicy
from sfumato.privacy import codec
from sfumato.privacy.codec import constructor_repr
from sfumato.privacy.numbers import POSITIVE, Range, exact, format_exact
from sfumato.quick_dataclass import dataclass

Value = int | Fraction | str | bool | dt.date | dt.datetime
"""A public value, exact."""

LARGEST_INTEGER = 2**62
"""Integers are stored in 64 bits, with room for one addition."""
LARGEST_REAL, SMALLEST_REAL = Fraction(2**500), Fraction(1, 2**500)
"""A real is 0 or has an absolute value between these, in data, policies and questions: so the product and the quotient
of two reals are doubles in every engine. A larger computed value is NULL, a smaller one is 0.
"""
MAX_VALUES = 100_000
MAX_LETTERS = 1_000
"""The length at which a text without ``max_length`` is truncated at the scan."""
MAX_TEXT_LENGTH = 10_000
"""The most characters of any text."""
_INTEGER_RANGE = Range(
    "a whole number of at most 2^62 in absolute value", Fraction(-LARGEST_INTEGER), Fraction(LARGEST_INTEGER)
)


class Type(Enum):
    """The type of a column or an expression."""

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
            names = [member.value for member in cls]
            close_matches = difflib.get_close_matches(str(value)[:20].lower(), names, n=1, cutoff=0.5)
            fix = f"did you mean {close_matches[0]}?" if close_matches else ""
            raise InvalidParameter("type", value, "one of " + ", ".join(names), fix=fix) from None

    @property
    def numeric(self) -> bool:
        return self in (Type.INTEGER, Type.REAL)

    @property
    def temporal(self) -> bool:
        return self in (Type.DATE, Type.TIMESTAMP)


@codec.serialisable("domain")
@dataclass(frozen=True)
class Domain:
    """What is publicly known of a column or an expression.

    ``bounds`` are enforced by clamping at the scan, ``values`` by replacing any other value by NULL, or by ``other`` if
    that is declared; ``other`` is then the last of the values. ``grid`` is the step to which a real is rounded before
    it is summed. ``nullable`` makes NULL a group of its own; any column may have missing values. A text without
    ``values`` is truncated to ``max_length`` characters.

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
    max_letters: int = field(init=False, repr=False, compare=False, default=0)
    """The most characters of a text: the length of its longest value, or where it is truncated."""

    def __post_init__(self) -> None:
        kind = Type.of(self.type)
        object.__setattr__(self, "type", kind)
        if not isinstance(self.nullable, bool):
            raise InvalidParameter(
                "nullable", self.nullable, "true or false", fix="write nullable = true, or remove it"
            )
        object.__setattr__(self, "bounds", _parse_bounds(kind, self.bounds))
        object.__setattr__(self, "values", _parse_values(kind, self.values))
        object.__setattr__(self, "max_length", _parse_length(kind, self.max_length, self.values))
        self._set_other()
        object.__setattr__(self, "max_letters", _max_letters(kind, self.max_length, self.values))
        if self.bounds is not None and self.values is not None:
            raise InvalidParameter(
                "bounds", self.bounds, "left out, because values are listed", fix="remove bounds or values"
            )
        if self.grid is not None:
            if kind is not Type.REAL:
                raise InvalidParameter(
                    "grid", self.grid, "left out, because only the type real has a grid", fix="remove grid"
                )
            object.__setattr__(self, "grid", _parse_real(exact(self.grid, "grid", POSITIVE), "grid"))

    def __hash__(self) -> int:
        """Hash only the ends of a long list of values: the hash is computed often."""
        ends = self.values and (len(self.values), self.values[0], self.values[-1])
        return hash((self.type, self.bounds, ends, self.grid, self.nullable, self.max_length, self.other))

    def _set_other(self) -> None:
        if self.other is None:
            return
        if self.values is None:
            raise InvalidParameter(
                "other", self.other, "left out, because no values are listed", fix='remove "other", or list the values'
            )
        other = parse_value(self.type, self.other, "other")
        object.__setattr__(self, "other", other)
        if other not in self.values:
            object.__setattr__(self, "values", _parse_values(self.type, (*self.values, other)))

    @property
    def range(self) -> tuple[Value, Value] | None:
        """The minimum and maximum, from bounds or values; None if neither is declared."""
        if self.bounds is not None:
            return self.bounds
        if self.values is None or not self.values or self.type in (Type.TEXT, Type.BOOLEAN):
            return None
        sorted_values: list[Any] = sorted(self.values)
        return sorted_values[0], sorted_values[-1]

    def __repr__(self) -> str:
        description = self.type.value
        if self.values is not None:
            description += f", one of {len(self.values):,} values"
        elif self.range is not None:
            description += f" from {_format_value(self.range[0])} to {_format_value(self.range[1])}"
        description += "" if self.grid is None else f" in steps of {format_exact(self.grid)}"
        return f"{description}, may be missing" if self.nullable else description


MAX_ITEMS = 1_000
"""The most items of a list that can count."""


@dataclass(frozen=True)
class ListColumn:
    """A column with several values per row, of which the first ``most_items`` count.

    Further items are dropped at the scan; ``items`` is the domain of each item.

    >>> ListColumn(Domain("text", values=("a", "b")), 5)
    ListColumn(items=text, one of 2 values, max_items=5)
    """

    items: Domain
    max_items: int

    __repr__ = constructor_repr

    def __post_init__(self) -> None:
        if type(self.max_items) is not int or not 1 <= self.max_items <= MAX_ITEMS:
            raise InvalidParameter("most_items", self.max_items, f"a whole number between 1 and {MAX_ITEMS:,}")


WIDE_PREFIX = "sf_wide_"
"""The prefix of a column as it is before its bounds are applied; no declared column has it."""


def widen_bounds(domain: Domain) -> Domain:
    """Return a domain whose bounds reach beyond those of a bounded one, so that a scan shows which cells it clamps.

    An end at the limit of its type stays: no cell that can be read lies beyond it.
    """
    assert domain.bounds is not None
    low, high = domain.bounds
    return replace(domain, bounds=(_value_outside_bound(low, -1), _value_outside_bound(high, 1)))


def _value_outside_bound(bound: Value, sign: int) -> Value:
    """Return a value beyond a bound, or the bound where its type has none."""
    if isinstance(bound, Fraction):
        return max(-LARGEST_REAL, min(LARGEST_REAL, bound + sign * (1 + abs(bound))))
    if isinstance(bound, int):
        return max(-LARGEST_INTEGER, min(LARGEST_INTEGER, bound + sign))
    assert isinstance(bound, dt.date)
    try:
        return bound + sign * dt.timedelta(days=1)
    except OverflowError:
        return bound


def parse_value(sql_type: Type, value: object, name: str) -> Value:
    """Parse a public value as the given type: exact numbers, ISO dates, plain text."""
    parse = _PARSERS[sql_type]
    return parse(value, name)


def parse_entries(sql_type: Type, entries: Iterable[object], name: str) -> list[Any]:
    """Parse the values of a list; a refusal says that its rule is for each value."""
    try:
        return [parse_value(sql_type, entry, name) for entry in entries]
    except InvalidParameter as refusal:
        value, rule = refusal.value, refusal.allowed
        fix = refusal.fix.replace(f"set {quote_parameter(name)} to", "write")
    raise InvalidParameter(name, value, rule, fix=fix, each=True)


def common_type(values: object) -> Type | None:
    """Return the common type of listed values as they are written, or None if they have none."""
    kinds = {_python_value_type(value) for value in values} if isinstance(values, (tuple, list)) else set()
    return Type.REAL if kinds == {Type.INTEGER, Type.REAL} else kinds.pop() if len(kinds) == 1 else None


def _python_value_type(value: object) -> Type | None:
    for kind, python_types in _PYTHON_TYPES:
        if isinstance(value, python_types):
            return kind
    return None


# The order matters: in Python a bool is an int, and a datetime is a date.
_PYTHON_TYPES: tuple[tuple[Type, tuple[type, ...]], ...] = (
    (Type.BOOLEAN, (bool,)),
    (Type.INTEGER, (int,)),
    (Type.REAL, (float, Decimal, Fraction)),
    (Type.TEXT, (str,)),
    (Type.TIMESTAMP, (dt.datetime,)),
    (Type.DATE, (dt.date,)),
)


def _parse_integer(value: object, name: str) -> int:
    if type(value) is int and -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        return value
    number = exact(value, name, _INTEGER_RANGE)  # type: ignore[arg-type]
    if number.denominator != 1:
        raise InvalidParameter(name, value, _INTEGER_RANGE.words)
    return number.numerator


def _parse_real(value: object, name: str) -> Fraction:
    number = exact(value, name)  # type: ignore[arg-type]
    if number and abs(number) < SMALLEST_REAL:
        raise InvalidParameter(name, value, "0, or a number of at least 2^-500 in absolute value")
    if abs(number) > LARGEST_REAL:
        raise InvalidParameter(name, value, "a number of at most 2^500 in absolute value", fix="write a smaller number")
    return number


def _parse_text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH:
        fix = "shorten the text" if isinstance(value, str) else ""
        raise InvalidParameter(name, value, f"text of at most {MAX_TEXT_LENGTH:,} characters", fix=fix)
    if "\0" in value or (not value.isascii() and _has_lone_surrogate(value)):
        rule = "text without NUL characters or unpaired surrogates, which no engine can store"
        raise InvalidParameter(name, value, rule, fix="remove these characters")
    return value


def _has_lone_surrogate(value: str) -> bool:
    """Return whether a text has lone surrogates, which no engine can store."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return True
    return False


def _parse_boolean(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(name, value, "true or false")
    return value


_DATE_RULE, _DATE_FIX = "a date such as 2024-01-31", 'write dates as "2024-01-31"'


def _parse_date(value: object, name: str) -> dt.date:
    if isinstance(value, dt.datetime):
        raise InvalidParameter(name, value, _DATE_RULE, fix=_DATE_FIX)
    if isinstance(value, dt.date):
        return value
    try:
        return dt.date.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidParameter(name, value, _DATE_RULE, fix=_DATE_FIX) from None


def _parse_timestamp(value: object, name: str) -> dt.datetime:
    rule, fix = "a time such as 2024-01-31 23:59:00, without a time zone", 'write times as "2024-01-31 23:59:00"'
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    try:
        timestamp = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidParameter(name, value, rule, fix=fix) from None
    if timestamp.tzinfo is not None:
        raise InvalidParameter(name, value, rule, fix=fix)
    return timestamp


_PARSERS: dict[Type, Any] = {
    Type.INTEGER: _parse_integer,
    Type.REAL: _parse_real,
    Type.TEXT: _parse_text,
    Type.BOOLEAN: _parse_boolean,
    Type.DATE: _parse_date,
    Type.TIMESTAMP: _parse_timestamp,
}


def _parse_bounds(sql_type: Type, bounds: object) -> tuple[Value, Value] | None:
    if bounds is None:
        return None
    if sql_type in (Type.TEXT, Type.BOOLEAN):
        raise InvalidParameter(
            "bounds", bounds, f"left out for the type {sql_type.value}", fix="list its values instead"
        )
    return parse_range(sql_type, bounds, "bounds")


def parse_range(sql_type: Type, ends: object, name: str) -> tuple[Value, Value]:
    """Parse the two ends of a range of numbers or times."""
    if not isinstance(ends, (tuple, list)) or len(ends) != 2:
        example = '["2024-01-01", "2024-12-31"]' if sql_type.temporal else "[0, 100]"
        raise InvalidParameter(name, ends, "two values, [low, high]", fix=f"for example, write {example}")
    low, high = parse_entries(sql_type, ends, name)
    if low > high:
        low, high = _format_value(high), _format_value(low)
        raise InvalidParameter(name, ends, "[low, high] with low ≤ high", fix=f"did you mean [{low}, {high}]?")
    return low, high


def describe_range(ends: tuple[Value, Value]) -> str:
    """Describe a range as it stands beside a number, such as 0…110."""
    return "…".join(map(_format_value, ends))


def _parse_values(sql_type: Type, values: object) -> tuple[Value, ...] | None:
    if values is None:
        return None
    if not isinstance(values, (tuple, list)) or not 1 <= len(values) <= MAX_VALUES:
        raise InvalidParameter("values", values, f"a list of 1 to {MAX_VALUES:,} values")
    parsed = tuple(parse_entries(sql_type, values, "values"))
    distinguished = {float(value) for value in parsed} if sql_type is Type.REAL else set(parsed)
    if len(distinguished) != len(parsed):
        raise InvalidParameter("values", values, f"a list without repeated values{equal_reals_note(sql_type)}")
    return parsed


def equal_reals_note(sql_type: Type) -> str:
    """Return what a refusal of repeated values adds for reals, which may repeat though their digits differ."""
    return ", compared as 64-bit floating-point numbers" if sql_type is Type.REAL else ""


def _parse_length(sql_type: Type, length: object, values: object) -> int | None:
    if length is None:
        return None
    if sql_type is not Type.TEXT or values is not None:
        reason = "only texts have a length" if values is None else "the listed values have a known length"
        raise InvalidParameter("max_length", length, f"left out, because {reason}", fix="remove max_length")
    if type(length) is not int or not 1 <= length <= MAX_TEXT_LENGTH:
        raise InvalidParameter("max_length", length, f"a whole number between 1 and {MAX_TEXT_LENGTH:,}")
    return None if length == MAX_LETTERS else length  # the default, which is stored as None


def _max_letters(sql_type: Type, length: int | None, values: tuple[Value, ...] | None) -> int:
    if sql_type is not Type.TEXT:
        return 0
    if values is None:
        return MAX_LETTERS if length is None else length
    return max(len(str(value)) for value in values)


def _format_value(value: object) -> str:
    return format_exact(value) if isinstance(value, Fraction) else str(value)


MAX_NAME_LENGTH = 63
"""The most characters of the name of a table or a column."""
_RESERVED_PREFIX = "sf_"


def check_name(name: object, kind: str, place: str) -> None:
    if isinstance(name, str) and name.lower().startswith(_RESERVED_PREFIX):
        raise InvalidPolicy(
            "names that begin with sf_ are reserved for generated columns",
            place=place,
            fix=f"choose another name, such as {name[len(_RESERVED_PREFIX) :] or 'visits'}",
        )
    if not is_name(name):
        rule = f"the name of {kind} must have 1 to {MAX_NAME_LENGTH} visible characters{_name_fault(name)}"
        raise InvalidPolicy(rule, place=place, fix="rename it in a view or in the file")


def _name_fault(name: object) -> str:
    """Return which further rule a name of permitted length breaks."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        return ""
    if name != name.strip():
        return ", without leading or trailing spaces"
    if unicodedata.combining(name[0]):
        return ", of which the first is not a combining mark"
    return ", in the composed form of Unicode (NFC): a letter with an accent is one character, not two"


def is_name(name: object) -> bool:
    """Return whether this can name a table or a column: visible characters in NFC, no reserved prefix."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
        return False
    if name != name.strip() or not unicodedata.is_normalized("NFC", name) or unicodedata.combining(name[0]):
        return False
    return not name.lower().startswith(_RESERVED_PREFIX)


def check_distinct_names(names: Iterable[str], place: str) -> None:
    """Refuse names that differ only in case, which SQL ignores."""
    names_by_lower_case: dict[str, str] = {}
    for name in names:
        if (earlier := names_by_lower_case.setdefault(name.lower(), name)) != name:
            raise InvalidPolicy(
                f"{earlier} and {name} are the same name in SQL, which ignores case",
                place=f"{place}.{name}",
                fix="rename one of them",
            )


def check_keys(
    mapping: Mapping[str, object],
    allowed: Iterable[str],
    place: str,
    rule: str = "this key is unknown",
    fallback_fix: str = "remove it, or use one of",
) -> None:
    """Refuse an unknown key; suggest the closest known one, or list all of them."""
    from difflib import get_close_matches

    names = tuple(allowed)
    for key in mapping:
        if key not in names:
            close_matches = get_close_matches(str(key), names, 1)
            listed = ", ".join(names)
            fallback = (
                f"{fallback_fix} {listed}" if len(names) != 1 else f"{fallback_fix.removesuffix(' one of')} {listed}"
            )
            fix = f"did you mean {close_matches[0]}?" if close_matches else fallback
            raise InvalidPolicy(rule, place=f"{place}.{key}" if place else str(key), fix=fix)
