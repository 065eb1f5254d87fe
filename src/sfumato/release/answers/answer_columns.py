"""The columns of an answer are known before it is bought: their names and types follow from the question alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    """Give the columns of a marginal: its keys, and the count under a name that no key has."""
    found = tuple(keys)
    called = "count"
    while called in {each.name for each in found}:
        called += "_"
    return (*found, AnswerColumn(called, Type.REAL))
