"""A dummy is an invented table: columns, types and limits are those of a policy, and no row is anybody's.

It is computed from what the policy declares and from nothing else, by a fixed mixing function of the names and the
number of a row (SplitMix64: Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014). So it is the
same whenever it is made, it is worth nothing as a statistic, and code that runs on it runs on the real table.
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
from sfumato.privacy.numbers import whole

if TYPE_CHECKING:
    import pyarrow

MOST_ROWS = 10_000_000
_PUBLIC_ROWS = 100
_ROWS_OF_ONE = 10
_TEXTS = 20
_EPOCH = dt.datetime(1970, 1, 1)
_USUAL: dict[Type, tuple[Any, Any]] = {
    Type.INTEGER: (0, 100),
    Type.REAL: (Fraction(0), Fraction(100)),
    Type.DATE: (dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
    Type.TIMESTAMP: (dt.datetime(2024, 1, 1), dt.datetime(2024, 12, 31)),
}
"""The ranges of columns that declare none."""

Words = NDArray[np.uint64]


class Declared(Protocol):
    """This is a table of a policy, as far as a dummy of it is concerned."""

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
    def declares(self) -> bool: ...


def dummies(tables: Mapping[str, Declared], rows: int, id_type: Type | None) -> dict[str, pyarrow.Table]:
    """Make a table for each that declares its columns: of private ones so many rows."""
    import pyarrow

    count = whole(rows, "rows", at_least=1)
    if count > MOST_ROWS:
        raise InvalidParameter("rows", rows, f"a whole number of at most {MOST_ROWS:,}")
    found = {}
    for name, table in tables.items():
        if table.declares:
            own = min(count, _PUBLIC_ROWS) if table.public else count
            keys = _keys(name, table, tables, own, id_type)
            found[name] = pyarrow.table({**keys, **_columns(name, table, own, set(keys))})
    return found


def _columns(name: str, table: Declared, rows: int, taken: set[str]) -> dict[str, Any]:
    """Make every declared column that is no key."""
    columns = {each: column(domain, rows, f"{name}.{each}") for each, domain in table.columns.items()}
    lists = {each: _listed(declared, rows, f"{name}.{each}") for each, declared in table.lists.items()}
    return {each: made for each, made in {**columns, **lists}.items() if each not in taken}


def _key_names(name: str, table: Declared, tables: Mapping[str, Declared]) -> set[str]:
    """List the columns of a table that name units or rows: its own id or path, and what paths through it end at."""
    found = {each.id.key for each in tables.values() if getattr(each.id, "via", None) == name}
    if isinstance(table.id, str) and not table.every_row:
        found.add(table.id)
    return found | ({table.id.on} if hasattr(table.id, "on") else set())


def _keys(
    name: str, table: Declared, tables: Mapping[str, Declared], rows: int, id_type: Type | None
) -> dict[str, Any]:
    """Make ids, of which none has more rows than count, and keys that lead to rows of the other table."""
    import pyarrow

    found = {}
    for each in sorted(_key_names(name, table, tables)):
        numbers = np.arange(rows, dtype=np.int64)
        if each == table.id:
            sizes = np.arange(rows, dtype=np.int64) % min(table.max_rows or 1, _ROWS_OF_ONE) + 1
            numbers = np.repeat(np.arange(rows, dtype=np.int64), sizes)[:rows]
        declared = table.columns.get(each)
        kind = declared.type if declared is not None else id_type
        made = pyarrow.array(numbers + 1)
        found[each] = made.cast(pyarrow.string()) if kind is Type.TEXT else made
    return found


def column(domain: Domain, rows: int, name: str) -> pyarrow.Array:
    """Make the values of one column, within what is declared; where NULL is a key, one in twenty is."""
    import pyarrow
    from pyarrow import compute

    words = _words(name, rows)
    made = _values(domain, words)
    if not domain.nullable:
        return made
    return compute.if_else(pyarrow.array(_words(f"{name} missing", rows) % np.uint64(20) > 0), made, None)


def _listed(declared: ListColumn, rows: int, name: str) -> pyarrow.Array:
    import pyarrow

    sizes = (_words(f"{name} sizes", rows) % np.uint64(declared.most_items + 1)).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    items = column(declared.items, int(ends[-1]), name)
    return pyarrow.ListArray.from_arrays(pyarrow.array(ends), items)


def _words(name: str, count: int) -> Words:
    """Make of the number of each row and a name 64 bits that look random, and are not."""
    key = np.uint64(int.from_bytes(sha256(name.encode()).digest()[:8], "big"))
    mixed = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _values(domain: Domain, words: Words) -> pyarrow.Array:
    import pyarrow

    if domain.type is Type.BOOLEAN and domain.values is None:
        return pyarrow.array(words % np.uint64(2) == 0)
    listed: Any = domain.values
    if listed is None and domain.type is Type.TEXT:
        listed = tuple(f"text {number}"[: domain.letters] for number in range(1, _TEXTS + 1))
    if listed is not None:
        plain = [float(each) if isinstance(each, Fraction) else each for each in listed]
        return pyarrow.array(plain).take(pyarrow.array(words % np.uint64(len(plain))))
    low, high = domain.bounds or _USUAL[domain.type]
    return _within(domain, low, high, words)


def _within(domain: Domain, low: Any, high: Any, words: Words) -> pyarrow.Array:
    """Spread numbers, days or seconds between two ends."""
    import pyarrow

    if domain.type is Type.REAL:
        return pyarrow.array(_reals(float(low), float(high), domain.grid, words))
    if domain.type is Type.INTEGER:
        return pyarrow.array(_whole(low, high, words))
    if domain.type is Type.DATE:
        first, last = (each.toordinal() - _EPOCH.toordinal() for each in (low, high))
        return pyarrow.array(_whole(first, last, words).astype(np.int32)).cast(pyarrow.date32())
    first, last = ((each - _EPOCH) // dt.timedelta(microseconds=1) for each in (low, high))
    moments = _whole(first, last, words)
    return pyarrow.array(np.maximum(moments - moments % 1_000_000, first)).cast(pyarrow.timestamp("us"))


def _whole(low: int, high: int, words: Words) -> NDArray[np.int64]:
    """Add in 64 bits that wrap: the result is between the ends, whatever the sum was."""
    offsets = words % np.uint64(high - low + 1)
    return (offsets + np.uint64(low % 2**64)).view(np.int64)


def _reals(low: float, high: float, grid: Fraction | None, words: Words) -> NDArray[np.float64]:
    parts = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    made = low * (1 - parts) + high * parts
    if grid is not None:
        step = float(grid)
        made = np.round(made / step) * step if abs(high) / step < 2.0**53 and abs(low) / step < 2.0**53 else made
    return np.clip(made, low, high)
