"""DuckDB is an engine: plans become statements of its own, and their rows become arrays of totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread, get_ident
from typing import Any, Self, cast
from weakref import ReferenceType, ref

from sfumato.engine import arrays
from sfumato.engine.arrays import FEW, exact_keys, few_in_arrays, parameter
from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.lowering import reading_statements
from sfumato.engine.lowering.reading_statements import statement
from sfumato.engine.lowering.relational import StagedSelect
from sfumato.engine.seam import DataIdentity, OpenReading, Unheld
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.errors import EngineClosed, EngineFailed, Unsupported
from sfumato.plan.bounding import BoundedPlan
from sfumato.plan.catalog import Catalog, described
from sfumato.plan.keys import KeySpan, World
from sfumato.plan.nodes import GroupKey, tables
from sfumato.plan.readings.cell_rows import CellRows
from sfumato.plan.readings.dense_readings import Marginals, ValueCounts
from sfumato.plan.readings.total_readings import E, FoundTotals, GroupTotals, PlanReading
from sfumato.policy import Policy

_REMEMBERED = 1000
_CHECKED_KEY = 2**61 + 1
"""Stands for the key of a statement that is only bound: its digits are in no statement that has no key."""
FREE_SECONDS = 5
"""How long the keys of a question may be looked for: it costs nothing, so it may not take long."""


class StatementReader:
    """A statement reader writes one statement for each reading, over the clean scans of a set of sources."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._bound: set[str] = set()
        self._last: tuple[ReferenceType[BoundedPlan], tuple[str, ...], str] | None = None

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Bind the statements, and see that the engine is open and the sources are those that were opened.

        No row is read. Views are fixed at opening, so what was bound once stays bound; whether the engine still runs
        statements is seen each time, since it may have been closed, forked or broken after that.
        """
        for reading in readings:
            self._check(reading)
        return Unheld(self)

    def _check(self, reading: PlanReading[Any]) -> None:
        self._check_unchanged()
        text = self._statement(reading, _CHECKED_KEY)
        self.sources.bind("SELECT 1" if text in self._bound else text)
        self._bound = {text} if len(self._bound) > _REMEMBERED else self._bound | {text}

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Run one statement and give its rows in arrays."""
        found = self._found(reading, self._statement(reading, key))
        self._check_unchanged()  # a file replaced while it was read is not the version that was charged
        return cast("E", found)

    def _found(self, reading: PlanReading[E], text: str) -> object:
        if isinstance(reading, FEW):
            return few_in_arrays(self.sources.run(text), reading)
        if type(reading) in _STREAMED:
            arrays, size = _STREAMED[type(reading)]
            return self.sources.stream(text, size, lambda rows: arrays(rows, reading))
        return _ARRAYS[type(reading)](self.sources.arrow(text), reading)

    def _statement(self, reading: PlanReading[E], key: int) -> str:
        """Write the statement of a reading. Totals of the same rows are often asked for again, and a statement into
        which the digits of no key were written is the same for every key: the last of these is remembered.
        """
        known, plain = self._last, isinstance(reading, GroupTotals)
        scans = tuple(map(self._scan, tables(reading.bounded.plan.source))) if plain else ()
        if plain and known is not None and known[0]() is reading.bounded and known[1] == scans:
            return known[2]
        text = self._written(statement(reading, key))
        if plain and str(key) not in text:
            self._last = ref(reading.bounded), scans, text
        return text

    def _written(self, made: StagedSelect) -> str:
        return Generator(DuckDBSpelling(), self._scan).statement(made)

    def _scan(self, table: str) -> str:
        """Give the name of the relation that holds a table's clean rows."""
        return self.sources.scan(table)

    def _check_unchanged(self) -> None:
        """Refuse unless the rows are those that were opened."""
        self.sources.check_unchanged()

    def interrupt(self, token: int | None = None) -> None:
        self.sources.interrupt(token)


class DuckDB(StatementReader):
    """DuckDB works behind the seam: no SQL, type or hash of its own is seen outside."""

    def __init__(self, policy: Policy, memory: str | None = None, threads: int | None = None) -> None:
        super().__init__(Sources(policy, memory_limit=memory, threads=threads))
        self._policy = policy

    def catalog(self) -> Catalog:
        """List what questions may refer to."""
        tables = {name: described(self._policy, name, self.sources.columns(name)) for name in self._policy.tables}
        return Catalog(tables, self.sources.multiplicity, self.sources.overlap)

    def values(self, world: World) -> Sequence[GroupKey]:
        """List the distinct results of expressions on every combination of declared values: reads no table."""
        lists = [[parameter(value) for value in each] for _, _, each in world.choices if not isinstance(each, KeySpan)]
        asked = self._written(reading_statements.distinct(world))
        found = self._in_time(lambda: self.sources.run(asked, lists))
        return exact_keys(found, [each.domain.type for each in world.expressions])

    def _in_time(self, action: Callable[[], list[Any]]) -> list[Any]:
        """Give what the action gives, unless it takes longer than what is free may take."""
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

    def hold(self) -> DuckDBSnapshot:
        """Begin a snapshot of the data that were opened."""
        return DuckDBSnapshot(self.sources)

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that rows come from: files, or the content of tables in memory."""
        chosen = [name for name, table in self._policy.tables.items() if table.public is public]
        return tuple(found for name in chosen for found in self.sources.data(name))

    def identity(self) -> str:
        return self.sources.identity()

    def check_files(self) -> None:
        self.sources.check_unchanged()

    def close(self) -> None:
        self.sources.close()


class DuckDBSnapshot(StatementReader):
    """A snapshot holds the rows of every table that has been read, as they were at its first reading: the engine's own
    copies.

    A copy is made by the first reading of its table, which has been charged like any other, and is of the version that
    was opened. After that nothing outside can change what is read.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._copies: dict[str, str] = {}
        self._closed = False
        self._lock = Lock()

    def _check(self, reading: PlanReading[Any]) -> None:
        self._require_open()
        if self._missing(reading):
            self.sources.check_unchanged()
        super()._check(reading)

    def read(self, reading: PlanReading[E], key: int) -> E:
        with self._lock:
            self._require_open()
            for table in self._missing(reading):
                self._copies[table] = self._copy(table)
        return super().read(reading, key)

    def _copy(self, table: str) -> str:
        """Copy a table, unless its file was replaced meanwhile: that is not the version that was opened."""
        made = self.sources.copy(table)
        try:
            self.sources.check_unchanged()
        except BaseException:
            self.sources.drop(made)
            raise
        return made

    def _missing(self, reading: PlanReading[E]) -> list[str]:
        """List the tables of which there is no copy yet."""
        return [table for table in tables(reading.bounded.plan.source) if table not in self._copies]

    def _scan(self, table: str) -> str:
        return self._copies.get(table) or super()._scan(table)

    def _check_unchanged(self) -> None:
        """Pass: what is read are copies, and no source matters to them any more."""

    def _require_open(self) -> None:
        if self._closed:
            raise EngineClosed

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._copies:
                self.sources.drop(self._copies.popitem()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_ARRAYS: dict[type, Callable[[Any, Any], object]] = {
    FoundTotals: arrays.in_arrays,
}
"""What becomes of a statement's rows; those of known groups are few and come as they are."""
_STREAMED: dict[type, tuple[Callable[[Any, Any], object], int]] = {
    ValueCounts: (arrays.values, arrays.BATCH),
    Marginals: (arrays.marginals, arrays.KEYED_BATCH),
    CellRows: (arrays.cell_rows, arrays.KEYED_BATCH),
}
"""Those whose rows come in a stream, so many at a time."""
