"""The keys of an answer's groups are stored with it: every value once, and which group has which."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Type, Value
from sfumato.privacy import codec
from sfumato.privacy.numbers import exact

_READ: dict[Type, Any] = {
    Type.REAL: lambda written: exact(written, "key"),
    Type.DATE: dt.date.fromisoformat,
    Type.TIMESTAMP: dt.datetime.fromisoformat,
}
"""How a value that is written as text is read back; other types are written as they are."""


@codec.value("key-column")
@dataclass(frozen=True)
class KeyColumn:
    """A key column holds the values of one key, each once, in the order in which the groups first have them; None is
    NULL.
    """

    value_type: Type
    values: tuple[Value | None, ...]

    def __init__(self, value_type: Type | str, values: Sequence[Any]) -> None:
        kind = Type.of(value_type)
        read = _READ.get(kind)
        found = values if read is None else [read(each) if isinstance(each, str) else each for each in values]
        object.__setattr__(self, "value_type", kind)
        object.__setattr__(self, "values", tuple(found))


@codec.value("group-keys")
@dataclass(frozen=True)
class GroupKeys:
    """Group keys are the keys of all groups in order: all combinations of the values, or those that ``codes`` list."""

    columns: tuple[KeyColumn, ...]
    codes: tuple[tuple[int, ...], ...] = ()
    """For each column, which of its values each group has; left out where the groups are all combinations in order."""
    count: int = 1
    """How many groups there are where there is no key: one in every real answer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "codes", tuple(map(tuple, self.codes)))
        if self.codes and len(self.codes) != len(self.columns):
            raise InvalidParameter("codes", f"{len(self.codes)} columns", "one list of codes for each column")

    @classmethod
    def of(cls, groups: Sequence[GroupKey], types: Sequence[Type]) -> GroupKeys:
        """Store the keys of these groups, in their order."""
        if not types:
            return cls((), count=len(groups))
        listed = [list(map(operator.itemgetter(index), groups)) for index in range(len(types))]
        distinct = [tuple(dict.fromkeys(column)) for column in listed]
        columns = tuple(KeyColumn(kind, values) for kind, values in zip(types, distinct, strict=True))
        if math.prod(map(len, distinct)) == len(groups) and all(map(operator.eq, groups, itertools.product(*distinct))):
            return cls(columns)
        places = [{value: index for index, value in enumerate(values)} for values in distinct]
        return cls(columns, tuple(tuple(map(place.get, column)) for place, column in zip(places, listed, strict=True)))  # type: ignore[arg-type]

    @property
    def groups(self) -> tuple[GroupKey, ...]:
        """Give every group's key."""
        values = [column.values for column in self.columns]
        if not self.codes:
            return tuple(itertools.product(*values)) * self.count
        chosen = (map(known.__getitem__, codes) for known, codes in zip(values, self.codes, strict=True))
        return tuple(zip(*chosen, strict=True))


ONE_GROUP = GroupKeys(())
"""The keys of an answer without keys."""
