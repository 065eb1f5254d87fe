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


class TextTrial:
    """Counted texts, read under each of several column declarations. PRIVATE."""

    def __init__(self, texts: Mapping[str, int], declarations: Sequence[Mapping[str, Any]]) -> None:
        import pyarrow as pa

        self._columns = [f"c{index}" for index in range(len(declarations))]
        cells = pa.array(list(texts), pa.string())
        numbers = {_COUNT: pa.array(texts.values(), pa.int64()), _POSITION: pa.array(range(len(texts)), pa.int64())}
        rows = pa.table({**numbers, **dict.fromkeys(self._columns, cells)})
        integers = {name: {"type": "integer"} for name in numbers}
        columns: dict[str, Any] = {**integers, **dict(zip(self._columns, declarations, strict=True))}
        table = Table("texts", InMemory(rows), columns, id="row")
        self._sources = Sources(Policy(PrivacyUnit("row", every_row=True), Budget(1), {"texts": table}))

    def fits(self) -> list[int]:
        """Return how many cells each declaration reads."""
        return self._count([f"{column} IS NOT NULL" for column in self._columns])

    def conflicts(self, first: int, others: Sequence[int]) -> list[int]:
        """Return how many cells each of the others reads in another way than the first, both of one family of types."""
        return self._count([f"{self._columns[first]} <> {self._columns[other]}" for other in others])

    def readings(self, index: int) -> list[Any]:
        """Return what one declaration reads from each text, in the order of the texts."""
        statement = f"SELECT {self._columns[index]} FROM {self._scan} ORDER BY {_POSITION}"
        return [value for (value,) in self._sources.run(statement)]

    def _count(self, conditions: Sequence[str]) -> list[int]:
        counts = ", ".join(f"coalesce(sum({_COUNT}) FILTER ({condition}), 0)" for condition in conditions)
        return (
            [int(count) for count in self._sources.run(f"SELECT {counts} FROM {self._scan}")[0]] if conditions else []
        )

    @property
    def _scan(self) -> str:
        return self._sources.scan("texts")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sources.close()
