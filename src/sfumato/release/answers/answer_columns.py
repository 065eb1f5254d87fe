"""The columns of an answer are known before it is bought: their names and types follow from the question alone.

Columns of an answer have types: what JSON writes as text becomes a date or a real number again.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

from sfumato.errors import InvalidParameter
from sfumato.policy import Type
from sfumato.privacy import codec


@codec.value("answer-column")
@dataclass(frozen=True)
class AnswerColumn:
    """A column of an answer has a name and a type."""

    name: str
    type: Type

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "type", Type.of(self.type))

    def to_json(self) -> str:
        """Write the column as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> AnswerColumn:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


Columns = tuple[AnswerColumn, ...]


def with_counts(keys: Iterable[AnswerColumn]) -> Columns:
    """Return the columns of a marginal: its keys, and the count under a name that no key has."""
    found = tuple(keys)
    called = "count"
    while called in {each.name for each in found}:
        called += "_"
    return (*found, AnswerColumn(called, Type.REAL))


_D = TypeVar("_D", bound=dt.date)


def is_typed(values: Iterable[Any], kind: Type) -> bool:
    """Return whether each of these is a value of the type as Python holds it, or None."""
    return set(map(type, values)) <= {_TYPES[kind][0], type(None)}


def typed_column(values: Sequence[Any], kind: Type, name: str) -> Sequence[Any]:
    """Read the same values, each of the column's type or None; written forms are read, and anything else is refused."""
    native, read = _TYPES[kind]
    try:
        return [each if each is None or type(each) is native else read(each) for each in values]
    except (TypeError, ValueError):
        raise InvalidParameter(f"rows, column {name}", values, f"values of the type {kind.value}, or null") from None


def _refused(value: object) -> Any:
    raise TypeError(type(value))


def _whole(value: object) -> int:
    if isinstance(value, Fraction) and value.denominator == 1:
        return value.numerator
    raise TypeError(type(value))


def _time(read: Callable[[str], _D]) -> Callable[[object], _D]:
    """One form is read: the one that is written."""

    def checked(value: object) -> _D:
        if not isinstance(value, str) or (found := read(value)).isoformat() != value:
            raise TypeError(type(value))
        return found

    return checked


_TYPES: dict[Type, tuple[type, Callable[[Any], Any]]] = {
    Type.INTEGER: (int, _whole),
    Type.REAL: (float, lambda value: codec.real(value, "a real number")),
    Type.TEXT: (str, _refused),
    Type.BOOLEAN: (bool, _refused),
    Type.DATE: (dt.date, _time(dt.date.fromisoformat)),
    Type.TIMESTAMP: (dt.datetime, _time(dt.datetime.fromisoformat)),
}
"""What a value of each type is in Python, and how another form of it is read."""
