"""Types of values on the wire: their oids, and the text and binary encodings of cells and parameters.

An answer's types are few: integers are sent as INT8, reals as FLOAT8. Encoding raises ``CellOutOfRange`` for an integer
beyond 64 bits in binary form; the text form has no such limit. Decoding a parameter raises ``InvalidParameterValue``
whatever its bytes are.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from sfumato.policy import Type
from sfumato.quick_dataclass import dataclass

BOOL, INT8, INT2, INT4, TEXT, FLOAT4, FLOAT8 = 16, 20, 21, 23, 25, 700, 701
VARCHAR, BPCHAR, NAME, UNKNOWN, DATE, TIMESTAMP, NUMERIC = 1043, 1042, 19, 705, 1082, 1114, 1700
OID_BY_TYPE = {
    Type.INTEGER: INT8,
    Type.REAL: FLOAT8,
    Type.TEXT: TEXT,
    Type.BOOLEAN: BOOL,
    Type.DATE: DATE,
    Type.TIMESTAMP: TIMESTAMP,
}
SIZES = {BOOL: 1, INT8: 8, INT2: 2, INT4: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIMESTAMP: 8, NAME: 64, 26: 4, 18: 1}
"""Bytes of a value of fixed size, by oid; every other type is of variable size, -1."""
_EPOCH = dt.date(2000, 1, 1)
_EPOCH_TIME = dt.datetime(2000, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_MAX_DIGITS, _MAX_EXPONENT = 380, 300
"""Digits and size of a numeric parameter: more than any declared bound has."""


class InvalidParameterValue(Exception):
    """A parameter that is no value of its type."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name


class CellOutOfRange(Exception):
    """A number that its binary form cannot hold."""


# ── cells ──────────────────────────────────────────────────────────────────────────────────────


def cell_text(value: Any) -> str:
    """Return the text of a value as PostgreSQL writes it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(map(_array_item_text, value)) + "}"
    return str(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _array_item_text(value: Any) -> str:
    if value is None:
        return "NULL"
    item = cell_text(value)
    if isinstance(value, (list, tuple)) or (item and item.isalnum() and item.upper() != "NULL"):
        return item
    escaped = item.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def encode_text(value: Any, oid: int = TEXT) -> bytes | None:
    if value is None:
        return None
    text = " ".join(map(cell_text, value)) if oid in _VECTORS and isinstance(value, (list, tuple)) else cell_text(value)
    return text.replace("\0", "").encode(errors="replace")


def encode_binary(value: Any, oid: int) -> bytes | None:
    """Encode a cell in the binary form of its type; types without one here are sent as their text, which is the binary
    form of texts.
    """
    if value is None:
        return None
    encode = _BINARY.get(oid)
    try:
        if oid in _ELEMENTS and isinstance(value, (list, tuple)):
            return _encode_array(value, _ELEMENTS[oid])
        return encode_text(value) if encode is None else encode(value)
    except (struct.error, OverflowError, TypeError, ValueError):
        raise CellOutOfRange from None


def encode_numeric(value: Any) -> bytes:
    """Encode a number as NUMERIC: groups of four decimal digits."""
    number = Decimal(value)
    if number.is_nan():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    if number.is_infinite():
        return struct.pack("!hhHh", 0, 0, 0xD000 if number > 0 else 0xF000, 0)
    sign, digit_tuple, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    digits = "".join(map(str, digit_tuple)) + "0" * max(0, exponent)
    whole, fraction = (digits[:-scale], digits[-scale:].rjust(scale, "0")) if scale else (digits, "")
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[start : start + 4]) for start in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and not groups[0]:
        groups, weight = groups[1:], weight - 1
    while groups and not groups[-1]:
        groups = groups[:-1]
    header = struct.pack("!hhHh", len(groups), weight if groups else 0, 0x4000 if sign else 0, scale)
    return header + struct.pack(f"!{len(groups)}h", *groups)


_ELEMENTS = {1000: BOOL, 1005: INT2, 1007: INT4, 1016: INT8, 1028: 26, 1009: TEXT, 1003: NAME, 1002: 18, 1015: VARCHAR,
             22: INT2, 30: 26, 1022: FLOAT8}  # fmt: skip
"""Element types of the arrays that catalogs hold, by oid."""
_VECTORS = (22, 30)
"""``int2vector`` and ``oidvector``, whose text has no braces."""


def _encode_array(values: Sequence[Any], element: int) -> bytes:
    if not values:
        return struct.pack("!iii", 0, 0, element)
    has_null = any(value is None for value in values)
    header = struct.pack("!iiiii", 1, has_null, element, len(values), 1)
    cells = (encode_binary(value, element) for value in values)
    return header + b"".join(
        b"\xff\xff\xff\xff" if cell is None else struct.pack("!i", len(cell)) + cell for cell in cells
    )


_BINARY: Mapping[int, Callable[[Any], bytes]] = {
    BOOL: lambda value: b"\1" if value else b"\0",
    INT2: lambda value: struct.pack("!h", value),
    INT4: lambda value: struct.pack("!i", value),
    26: lambda value: struct.pack("!I", value),
    INT8: lambda value: struct.pack("!q", value),
    FLOAT4: lambda value: struct.pack("!f", value),
    FLOAT8: lambda value: struct.pack("!d", value),
    DATE: lambda value: struct.pack("!i", (value - _EPOCH).days),
    TIMESTAMP: lambda value: struct.pack("!q", (value - _EPOCH_TIME) // _MICROSECOND),
    NUMERIC: encode_numeric,
}


# ── parameters ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ParameterType:
    """A type of parameters: its name, and how its text and its binary form are read."""

    name: str
    parse: Callable[[str], Any]
    unpack: Callable[[bytes], Any] | None = None
    """None where the binary form is the text."""


def _unpacker(form: str) -> Callable[[bytes], Any]:
    def unpack(raw: bytes) -> Any:
        (value,) = struct.unpack(form, raw)
        return value

    return unpack


def _parse_integer(value: str) -> int:
    if len(value) > _MAX_DIGITS or not value.strip().lstrip("+-").isascii():
        raise ValueError
    return int(value)


def _parse_decimal(value: str) -> Any:
    if len(value) > _MAX_DIGITS:
        raise ValueError
    return simplest_number(Decimal(value.strip()))


_TEMPORAL = re.compile(
    r"\s*(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?\s*(?:Z|[+-]\d{2}(?::?\d{2}){0,2})?\s*",
    re.ASCII,
)
"""A day, perhaps a time, perhaps a zone: drivers send all three where they do not know the type of the parameter."""


def _parse_date(value: str) -> dt.date:
    """Parse a day; as in PostgreSQL, a time or a zone after it does not count."""
    match = _TEMPORAL.fullmatch(value)
    return dt.date.fromisoformat(value if match is None else match[1])


def _parse_timestamp(value: str) -> dt.datetime:
    """Parse a day and a time; as in PostgreSQL, a zone after them does not count."""
    match = _TEMPORAL.fullmatch(value)
    return dt.datetime.fromisoformat(value if match is None else f"{match[1]} {match[2] or '00:00'}").replace(
        tzinfo=None
    )


def _parse_bool(value: str) -> bool:
    spelled = value.strip().lower()
    if spelled in ("t", "true", "on", "yes", "y", "1"):
        return True
    if spelled in ("f", "false", "off", "no", "n", "0"):
        return False
    raise ValueError


def _unpack_bool(raw: bytes) -> bool:
    if raw not in (b"\0", b"\1"):
        raise ValueError
    return raw == b"\1"


def _float_unpacker(form: str) -> Callable[[bytes], Any]:
    unpack = _unpacker(form)
    return lambda raw: simplest_number(Decimal(repr(unpack(raw))))


def _unpack_numeric(raw: bytes) -> Any:
    count, weight, sign, _ = struct.unpack("!hhHh", raw[:8])
    groups = struct.unpack(f"!{count}h", raw[8:])
    if sign not in (0, 0x4000) or abs(weight) > _MAX_DIGITS // 4 or any(not 0 <= group < 10_000 for group in groups):
        raise ValueError
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    return simplest_number(Decimal(f"{'-' if sign else ''}{digits}e{4 * (weight + 1 - len(groups))}"))


def _unpack_array(raw: bytes) -> list[Any]:
    """Unpack an array of at most one dimension; only statements about the catalog have such parameters."""
    dimensions, _, element = struct.unpack("!iii", raw[:12])
    if dimensions == 0:
        return []
    if dimensions != 1 or element not in _ELEMENTS.values():
        raise ValueError
    count, offset, values = struct.unpack("!i", raw[12:16])[0], 20, list[Any]()
    while offset < len(raw):
        (length,) = struct.unpack("!i", raw[offset : offset + 4])
        cell = None if length == -1 else raw[offset + 4 : offset + 4 + length]
        if length < -1 or (cell is not None and len(cell) != length):
            raise ValueError
        values.append(decode_parameter(cell, element, 1))
        offset += 4 + max(0, length)
    if len(values) != count:
        raise ValueError
    return values


def simplest_number(value: Decimal) -> int | Decimal:
    """Return a number as an integer if it is one, so that the same number asks the same question however the client
    wrote it: 40, 40.0 or 4e1.
    """
    if not value.is_finite() or abs(value.adjusted()) > _MAX_EXPONENT:
        raise ValueError
    return int(value) if value == value.to_integral_value() else value


_TEXT_TYPE = ParameterType("text", str)
_PARAMETER_TYPES: Mapping[int, ParameterType] = {
    0: _TEXT_TYPE,
    **dict.fromkeys((TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN), _TEXT_TYPE),
    BOOL: ParameterType("boolean", _parse_bool, _unpack_bool),
    INT2: ParameterType("smallint", _parse_integer, _unpacker("!h")),
    INT4: ParameterType("integer", _parse_integer, _unpacker("!i")),
    INT8: ParameterType("bigint", _parse_integer, _unpacker("!q")),
    FLOAT4: ParameterType("real", _parse_decimal, _float_unpacker("!f")),
    FLOAT8: ParameterType("double precision", _parse_decimal, _float_unpacker("!d")),
    NUMERIC: ParameterType("numeric", _parse_decimal, _unpack_numeric),
    26: ParameterType("oid", _parse_integer, _unpacker("!I")),
    **{oid: ParameterType("array", str, _unpack_array) for oid in (1000, 1005, 1007, 1009, 1016, 1028)},
    DATE: ParameterType("date", _parse_date, lambda raw: _EPOCH + dt.timedelta(days=_unpacker("!i")(raw))),
    TIMESTAMP: ParameterType(
        "timestamp",
        _parse_timestamp,
        lambda raw: _EPOCH_TIME + dt.timedelta(microseconds=_unpacker("!q")(raw)),
    ),
}


def decode_parameter(raw: bytes | None, oid: int, form: int) -> Any:
    """Decode a parameter; NULL is None. The text of an unknown type is a text; its binary form is not known."""
    if raw is None:
        return None
    kind = _PARAMETER_TYPES.get(oid, _TEXT_TYPE)
    if form and oid not in _PARAMETER_TYPES:
        raise InvalidParameterValue(f"with oid {oid}, in binary")
    try:
        if form and kind.unpack is not None:
            return kind.unpack(raw)
        return kind.parse(raw.decode())
    except (struct.error, ValueError, OverflowError, InvalidOperation, ArithmeticError):
        raise InvalidParameterValue(kind.name) from None


_SAMPLES: Mapping[int, Any] = {
    BOOL: True,
    **dict.fromkeys((INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC), 1),
    DATE: dt.date(2000, 1, 1),
    TIMESTAMP: dt.datetime(2000, 1, 1),
}


def sample_value(oid: int) -> Any:
    """Return a value of a type, with which a statement is described before its parameters are known."""
    return _SAMPLES.get(oid, "")


def json_parameter(value: Any) -> Any:
    """Return a parameter as a question's spec takes it: what JSON has no type for as a text with its type."""
    if isinstance(value, dt.datetime):
        return {"type": "timestamp", "value": value.isoformat()}
    if isinstance(value, dt.date):
        return {"type": "date", "value": value.isoformat()}
    if isinstance(value, Decimal):  # which is no integer, so the zeros at its end are decimals
        return {"type": "decimal", "value": f"{value:f}".rstrip("0")}
    return value
