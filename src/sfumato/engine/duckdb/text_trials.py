"""Read sampled texts of a private column under several declarations, to compare them. PRIVATE.

The texts are read by the same scan as a policy's columns, so a declaration that is proposed means what it will mean in
the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sfumato.engine.duckdb.connection import Sources
from sfumato.policy import InMemory, Policy, Table
from sfumato.privacy import Budget, PrivacyUnit

_COUNT, _POSITION = "n", "i"


Declaration = Mapping[str, Any]


class TextTrials:
    """The counted texts of columns, each read under several declarations. PRIVATE."""

    def __init__(self, columns: Mapping[str, tuple[Mapping[str, int], Sequence[Declaration]]]) -> None:
        self._names = {column: f"t{index}" for index, column in enumerate(columns)}
        self._declared = {column: len(declarations) for column, (_, declarations) in columns.items()}
        tables = {
            self._names[column]: _texts_table(self._names[column], texts, declarations)
            for column, (texts, declarations) in columns.items()
        }
        self._sources = Sources(Policy(PrivacyUnit("row", every_row=True), Budget(1), tables))

    def fits(self, column: str) -> list[int]:
        """Return how many cells each declaration reads."""
        return self._count(column, [f"c{index} IS NOT NULL" for index in range(self._declared[column])])

    def conflicts(self, column: str, first: int, others: Sequence[int]) -> list[int]:
        """Return how many cells each of the others reads in another way than the first, both of one family of types."""
        return self._count(column, [f"c{first} <> c{other}" for other in others])

    def readings(self, column: str, index: int) -> list[Any]:
        """Return what one declaration reads from each text, in the order of the texts."""
        statement = f"SELECT c{index} FROM {self._scan(column)} ORDER BY {_POSITION}"
        return [value for (value,) in self._sources.run(statement)]

    def _count(self, column: str, conditions: Sequence[str]) -> list[int]:
        if not conditions:
            return []
        counts = ", ".join(f"coalesce(sum({_COUNT}) FILTER ({condition}), 0)" for condition in conditions)
        return [int(count) for count in self._sources.run(f"SELECT {counts} FROM {self._scan(column)}")[0]]

    def _scan(self, column: str) -> str:
        return self._sources.scan(self._names[column])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()


def _texts_table(name: str, texts: Mapping[str, int], declarations: Sequence[Declaration]) -> Table:
    """Return a table with the same texts in one column per declaration, beside their counts and positions."""
    import pyarrow as pa

    cells = pa.array(list(texts), pa.string())
    numbers = {_COUNT: pa.array(texts.values(), pa.int64()), _POSITION: pa.array(range(len(texts)), pa.int64())}
    columns: dict[str, Any] = {each: {"type": "integer"} for each in numbers}
    columns |= {f"c{index}": declaration for index, declaration in enumerate(declarations)}
    rows = pa.table({**numbers, **{each: cells for each in columns if each not in numbers}})
    return Table(name, InMemory(rows), columns, id="row")
