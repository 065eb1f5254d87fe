"""Tables in DuckDB behind the engine's seam: check, totals, values, identity, close."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.engine import lowering
from sfumato.engine.generator import Generator
from sfumato.engine.relational import Statement
from sfumato.engine.sources import Sources
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.plan.bounding import Bounded
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.keys import World
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Policy, Type
from sfumato.policy.domains import LARGEST_INTEGER

_REMEMBERED = 1000


class DuckDB:
    """An engine: no SQL, type or hash of DuckDB's is seen outside."""

    def __init__(self, policy: Policy, memory: str | None = None) -> None:
        self._policy = policy
        self.sources = Sources(policy, memory_limit=memory)
        self._bound: set[str] = set()

    def catalog(self) -> Catalog:
        """What questions may refer to."""
        tables = {
            name: Described(name, self.sources.columns(name), table.public, None if table.every_row else table.id)
            for name, table in self._policy.tables.items()
        }
        return Catalog(tables, self.sources.multiplicity)

    def values(self, world: World) -> Sequence[GroupKey]:
        """The distinct results of expressions on every combination of declared values: reads no table."""
        found = self.sources.run(self._written(lowering.distinct(world)))
        kinds = [each.domain.type for each in world.expressions]
        return [tuple(_exact(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in found]

    def check(self, bounded: Bounded) -> None:
        """Bind the statement and see that the sources are those that were opened: no row is read."""
        self.sources.check_unchanged()
        text = self._statement(bounded, 0)
        if text not in self._bound:  # views are fixed at opening: what was bound once stays bound
            self.sources.bind(text)
            self._bound = {text} if len(self._bound) > _REMEMBERED else self._bound | {text}

    def totals(self, bounded: Bounded, groups: Sequence[GroupKey], key: int) -> list[tuple[int, ...]]:
        """Exact totals for every group, in the order given; absent groups are zero."""
        width = len(bounded.plan.keys)
        found = self.sources.run(self._statement(bounded, key))
        self.sources.check_unchanged()  # a file replaced while it was read is not the version that was charged
        kinds = [each.domain.type for each in bounded.plan.keys]
        known = {
            tuple(_exact(value, kind) for value, kind in zip(row[:width], kinds, strict=True)): row[width:]
            for row in found
        }
        empty = (0,) * sum(each.coordinates for each in bounded.measures)
        named = (tuple(_exact(value, kind) for value, kind in zip(group, kinds, strict=True)) for group in groups)
        return [tuple(_held(value) for value in known.get(group, empty)) for group in named]

    def _statement(self, bounded: Bounded, key: int) -> str:
        return self._written(lowering.statement(bounded, key))

    def _written(self, statement: Statement) -> str:
        return Generator(DuckDBSpelling(), self.sources.scan).statement(statement)

    def addresses(self) -> tuple[tuple[str, str | None], ...]:
        """Where private rows come from: files, or the content of tables in memory."""
        private = [name for name, table in self._policy.tables.items() if not table.public]
        return tuple(found for name in private for found in self.sources.addresses(name))

    def identity(self) -> str:
        return self.sources.identity()

    def interrupt(self, thread: int | None = None) -> None:
        self.sources.interrupt(thread)

    def close(self) -> None:
        self.sources.close()


def _held(total: int) -> int:
    """Within what 64 bits hold: cutting moves two totals no further apart."""
    return max(-LARGEST_INTEGER, min(LARGEST_INTEGER, int(total)))


def _exact(value: Any, kind: Type) -> Any:
    """A key as it is declared: a double is the number it shows."""
    if value is None or kind is not Type.REAL:
        return value
    return Fraction(repr(float(value)))
