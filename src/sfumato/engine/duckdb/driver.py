"""DuckDB as an engine: plans become statements of its own, and their rows become arrays of totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import repeat
from operator import itemgetter
from threading import Event, Thread, get_ident
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engine import lowering
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.generator import Generator
from sfumato.engine.relational import Statement
from sfumato.engine.seam import Data
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.errors import EngineFailed, Unsupported
from sfumato.plan.bounding import Bounded
from sfumato.plan.catalog import Catalog, described
from sfumato.plan.intervals import nearest
from sfumato.plan.keys import Span, World
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Policy, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER

_REMEMBERED = 1000
FREE_SECONDS = 5
"""How long the keys of a question may be looked for: it costs nothing, so it may not take long."""


class DuckDB:
    """DuckDB behind the seam: no SQL, type or hash of its own is seen outside."""

    def __init__(self, policy: Policy, memory: str | None = None) -> None:
        self._policy = policy
        self.sources = Sources(policy, memory_limit=memory)
        self._bound: set[str] = set()

    def catalog(self) -> Catalog:
        """What questions may refer to."""
        tables = {name: described(self._policy, name, self.sources.columns(name)) for name in self._policy.tables}
        return Catalog(tables, self.sources.multiplicity, self.sources.overlap)

    def values(self, world: World) -> Sequence[GroupKey]:
        """The distinct results of expressions on every combination of declared values: reads no table."""
        lists = [[_parameter(value) for value in each] for _, _, each in world.choices if not isinstance(each, Span)]
        asked = self._written(lowering.distinct(world))
        found = self._in_time(lambda: self.sources.run(asked, lists))
        kinds = [each.domain.type for each in world.expressions]
        if Type.REAL not in kinds:
            return found
        return [tuple(_exact(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in found]

    def _in_time(self, action: Callable[[], list[Any]]) -> list[Any]:
        """What the action gives, unless it takes longer than what is free may take."""
        done, thread = Event(), get_ident()
        late: list[bool] = []

        def watch() -> None:
            wait: float = FREE_SECONDS
            while not done.wait(wait):  # again and again: what has not begun yet is not ended
                late.append(True)
                self.sources.interrupt(thread)
                wait = 0.01

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return action()
        except EngineFailed:
            if not late:
                raise
        finally:
            done.set()
            watcher.join()  # so that nothing that runs later is ended by it
        rule = f"finding all groups may take at most {FREE_SECONDS} seconds"
        raise Unsupported("keys-too-costly", rule, fix="group by a simpler expression")

    def check(self, bounded: Bounded) -> None:
        """Bind the statement, and see that the engine is open and the sources are those that were opened.

        No row is read. Views are fixed at opening, so what was bound once stays bound; whether the engine still runs
        statements is seen each time, since it may have been closed, forked or broken after that.
        """
        self.sources.check_unchanged()
        text = self._statement(bounded, 0)
        self.sources.bind("SELECT 1" if text in self._bound else text)
        self._bound = {text} if len(self._bound) > _REMEMBERED else self._bound | {text}

    def totals(self, bounded: Bounded, groups: Sequence[GroupKey], key: int) -> NDArray[np.int64]:
        """Exact totals for every group, in the order given; absent groups are zero."""
        found = self.sources.run(self._statement(bounded, key))
        self.sources.check_unchanged()  # a file replaced while it was read is not the version that was charged
        kinds = [each.domain.type for each in bounded.plan.keys]
        return _aligned(found, groups, kinds, sum(each.coordinates for each in bounded.measures))

    def _statement(self, bounded: Bounded, key: int) -> str:
        return self._written(lowering.statement(bounded, key))

    def _written(self, statement: Statement) -> str:
        return Generator(DuckDBSpelling(), self.sources.scan).statement(statement)

    def data(self, *, public: bool) -> tuple[Data, ...]:
        """The data that rows come from: files, or the content of tables in memory."""
        chosen = [name for name, table in self._policy.tables.items() if table.public is public]
        return tuple(found for name in chosen for found in self.sources.data(name))

    def identity(self) -> str:
        return self.sources.identity()

    def interrupt(self, token: int | None = None) -> None:
        self.sources.interrupt(token)

    def close(self) -> None:
        self.sources.close()


def _parameter(value: Value) -> Any:
    """A real is the double nearest to it."""
    return nearest(value) if isinstance(value, Fraction) else value


def _aligned(
    found: Sequence[tuple[Any, ...]], groups: Sequence[GroupKey], kinds: Sequence[Type], coordinates: int
) -> NDArray[np.int64]:
    """The totals of rows (key…, total…) in the order of the groups, zero where a group has no row."""
    totals = np.zeros((len(groups), coordinates), dtype=np.int64)
    if not found or not groups:
        return totals
    own = _held([_column(found, len(kinds) + number) for number in range(coordinates)]).T
    if not kinds:  # all rows are one group
        totals[:] = own
        return totals
    rows = dict(zip(_named(found, kinds), range(len(found)), strict=True))
    row = np.fromiter(map(rows.get, _named(groups, kinds), repeat(-1)), dtype=np.intp, count=len(groups))
    totals[row >= 0] = own[row[row >= 0]]
    return totals


def _column(rows: Sequence[tuple[Any, ...]], number: int) -> list[Any]:
    return list(map(itemgetter(number), rows))


def _held(columns: list[list[int]]) -> NDArray[np.int64]:
    """Exact totals within what 64 bits hold: cutting moves two totals no further apart."""
    try:
        totals: NDArray[Any] = np.array(columns, dtype=np.int64)
    except OverflowError:  # beyond 64 bits somewhere: as whole numbers of any size
        totals = np.array(columns, dtype=object)
    return np.clip(totals, -LARGEST_INTEGER, LARGEST_INTEGER).astype(np.int64)


def _named(rows: Sequence[tuple[Any, ...]], kinds: Sequence[Type]) -> Iterator[tuple[Any, ...]]:
    """The keys that rows begin with, to look up by: a real, declared or computed, is the double nearest to it."""
    columns = [(_column(rows, number), kind) for number, kind in enumerate(kinds)]
    return zip(*(map(_double, each) if kind is Type.REAL else each for each, kind in columns), strict=True)


def _double(value: Any) -> float | None:
    return None if value is None else float(value)


def _exact(value: Any, kind: Type) -> Any:
    """A key as it is declared: a double is the number it shows."""
    if value is None or kind is not Type.REAL:
        return value
    return Fraction(repr(float(value)))
