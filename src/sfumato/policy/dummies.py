"""Dummies: invented tables with the columns, types and limits of a policy.

Each value is computed from the policy alone, by a fixed mixing function of column name and row number (SplitMix64:
Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014). A dummy is therefore reproducible and
statistically meaningless, and code that runs on it runs on the real table.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidParameter
from sfumato.policy.domains import Domain, ListColumn, Type
from sfumato.privacy.numbers import exact_integer

if TYPE_CHECKING:
    import pyarrow

MAX_ROWS = 10_000_000
_MAX_PUBLIC_ROWS = 100
_MAX_ROWS_PER_UNIT = 10
_TEXT_COUNT = 20
_EPOCH = dt.datetime(1970, 1, 1)
_DEFAULT_BOUNDS: dict[Type, tuple[Any, Any]] = {
    Type.INTEGER: (0, 100),
    Type.REAL: (Fraction(0), Fraction(100)),
    Type.DATE: (dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
    Type.TIMESTAMP: (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
}
"""The bounds of invented values in columns that declare none."""

Words = NDArray[np.uint64]


class DeclaredTable(Protocol):
    """The parts of a policy's table that a dummy needs."""

    @property
    def columns(self) -> Mapping[str, Domain]: ...
    @property
    def lists(self) -> Mapping[str, ListColumn]: ...
    @property
    def id(self) -> Any: ...
    @property
    def max_rows(self) -> int | None: ...
    @property
    def public(self) -> bool: ...
    @property
    def every_row(self) -> bool: ...
    @property
    def has_columns(self) -> bool: ...


def invent_tables(tables: Mapping[str, DeclaredTable], rows: int, id_type: Type | None) -> dict[str, pyarrow.Table]:
    """Invent a table for each that declares columns, with ``rows`` rows if it is private.

    Raises:
        InvalidParameter: if ``rows`` is not a whole number from 1 to ``MAX_ROWS``.
    """
    import pyarrow

    count = exact_integer(rows, "rows", at_least=1)
    if count > MAX_ROWS:
        raise InvalidParameter("rows", rows, f"a whole number of at most {MAX_ROWS:,}")
    invented = {}
    for name, table in tables.items():
        if table.has_columns:
            row_count = min(count, _MAX_PUBLIC_ROWS) if table.public else count
            keys = _invent_key_columns(name, table, tables, row_count, id_type)
            invented[name] = pyarrow.table({**keys, **_invent_value_columns(name, table, row_count, set(keys))})
    return invented


def _invent_value_columns(name: str, table: DeclaredTable, rows: int, taken: set[str]) -> dict[str, Any]:
    """Invent every declared column that is not a key."""
    columns = {key: invent_column(domain, rows, f"{name}.{key}") for key, domain in table.columns.items()}
    lists = {key: _invent_list_column(declared, rows, f"{name}.{key}") for key, declared in table.lists.items()}
    return {key: values for key, values in {**columns, **lists}.items() if key not in taken}


def _key_names(name: str, table: DeclaredTable, tables: Mapping[str, DeclaredTable]) -> set[str]:
    """Return the columns that hold ids or keys: the table's own, and those that paths of other tables end at."""
    key_names = {other.id.key for other in tables.values() if getattr(other.id, "via", None) == name}
    if isinstance(table.id, str) and not table.every_row:
        key_names.add(table.id)
    return key_names | ({table.id.on} if hasattr(table.id, "on") else set())


def _invent_key_columns(
    name: str, table: DeclaredTable, tables: Mapping[str, DeclaredTable], rows: int, id_type: Type | None
) -> dict[str, Any]:
    """Invent ids, none with more rows than count, and keys that match rows of the other table."""
    import pyarrow

    key_columns = {}
    for key in sorted(_key_names(name, table, tables)):
        numbers = np.arange(rows, dtype=np.int64)
        if key == table.id:
            sizes = np.arange(rows, dtype=np.int64) % min(table.max_rows or 1, _MAX_ROWS_PER_UNIT) + 1
            numbers = np.repeat(np.arange(rows, dtype=np.int64), sizes)[:rows]
        declared = table.columns.get(key)
        kind = declared.type if declared is not None else id_type
        key_values = pyarrow.array(numbers + 1)
        key_columns[key] = key_values.cast(pyarrow.string()) if kind is Type.TEXT else key_values
    return key_columns


def invent_column(domain: Domain, rows: int, name: str) -> pyarrow.Array:
    """Invent the values of one column within its domain; if it is nullable, one in twenty is NULL."""
    import pyarrow
    from pyarrow import compute

    words = _pseudorandom_words(name, rows)
    values = _invent_values(domain, words)
    if not domain.nullable:
        return values
    return compute.if_else(
        pyarrow.array(_pseudorandom_words(f"{name} missing", rows) % np.uint64(20) > 0), values, None
    )


def _invent_list_column(declared: ListColumn, rows: int, name: str) -> pyarrow.Array:
    import pyarrow

    sizes = (_pseudorandom_words(f"{name} sizes", rows) % np.uint64(declared.max_items + 1)).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    items = invent_column(declared.items, int(ends[-1]), name)
    return pyarrow.ListArray.from_arrays(pyarrow.array(ends), items)


def _pseudorandom_words(name: str, count: int) -> Words:
    """Return 64 deterministic pseudorandom bits for each row, from its number and a name."""
    key = np.uint64(int.from_bytes(sha256(name.encode()).digest()[:8], "big"))
    mixed = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _invent_values(domain: Domain, words: Words) -> pyarrow.Array:
    import pyarrow

    if domain.type is Type.BOOLEAN and domain.values is None:
        return pyarrow.array(words % np.uint64(2) == 0)
    choices: Any = domain.values
    if choices is None and domain.type is Type.TEXT:
        choices = tuple(f"text {number}"[: domain.max_letters] for number in range(1, _TEXT_COUNT + 1))
    if choices is not None:
        python_values = [float(choice) if isinstance(choice, Fraction) else choice for choice in choices]
        return pyarrow.array(python_values).take(pyarrow.array(words % np.uint64(len(python_values))))
    low, high = domain.bounds or _DEFAULT_BOUNDS[domain.type]
    return _values_between(domain, low, high, words)


def _values_between(domain: Domain, low: Any, high: Any, words: Words) -> pyarrow.Array:
    """Spread numbers, days or seconds between two bounds."""
    import pyarrow

    if domain.type is Type.REAL:
        return pyarrow.array(_reals_between(float(low), float(high), domain.grid, words))
    if domain.type is Type.INTEGER:
        return pyarrow.array(_integers_between(low, high, words))
    if domain.type is Type.DATE:
        first, last = (day.toordinal() - _EPOCH.toordinal() for day in (low, high))
        return pyarrow.array(_integers_between(first, last, words).astype(np.int32)).cast(pyarrow.date32())
    first, last = ((moment - _EPOCH) // dt.timedelta(microseconds=1) for moment in (low, high))
    moments = _integers_between(first, last, words)
    return pyarrow.array(np.maximum(moments - moments % 1_000_000, first)).cast(pyarrow.timestamp("us"))


def _integers_between(low: int, high: int, words: Words) -> NDArray[np.int64]:
    """Add in wrapping 64-bit arithmetic: the result lies between the bounds even if the sum overflows."""
    offsets = words % np.uint64(high - low + 1)
    return (offsets + np.uint64(low % 2**64)).view(np.int64)


def _reals_between(low: float, high: float, grid: Fraction | None, words: Words) -> NDArray[np.float64]:
    fractions = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = low * (1 - fractions) + high * fractions
    if grid is not None:
        step = float(grid)
        values = np.round(values / step) * step if abs(high) / step < 2.0**53 and abs(low) / step < 2.0**53 else values
    return np.clip(values, low, high)
