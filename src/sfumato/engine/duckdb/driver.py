"""The DuckDB engine: plans become SQL statements, and their rows become arrays of totals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event, Lock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import ReferenceType, ref

from sfumato.engine.duckdb.connection import Sources
from sfumato.engine.lowering.relational_form import CleanTable, StagedSelect
from sfumato.engine.protocols import StatelessReading
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.errors import EngineClosed, EngineFailed, Unsupported
from sfumato.plan.catalog import catalog_table

if TYPE_CHECKING:  # opening a policy reads nothing: what statements are made of is imported by the first of them
    from sfumato.engine.protocols import DataIdentity, OpenReading
    from sfumato.plan.bounding import BoundedPlan
    from sfumato.plan.catalog import Catalog
    from sfumato.plan.keys import ValueCombinations
    from sfumato.plan.nodes import GroupValues
    from sfumato.plan.readings.total_readings import E, PlanReading
    from sfumato.plan.values.expressions import Expression
    from sfumato.policy import Policy, Value

_MAX_BOUND = 1000
_BIND_KEY = 2**61 + 1
"""The key of a statement that is only bound: its digits occur in no statement that does not use the key."""
FREE_SECONDS = 5
"""The time limit for listing the keys of a query: that costs no budget, so it may not take long."""


class StatementReader:
    """A reader that runs one statement per reading, over the clean scans of a set of sources."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._bound: set[str] = set()
        self._last_totals: tuple[ReferenceType[BoundedPlan], tuple[str | None, ...], int | None, str] | None = None

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Bind the statements, and check that the engine is open and the sources are those that were opened.

        No row is read. What statements read is fixed at opening, so a bound statement stays bound; whether the engine
        still runs statements is checked each time, since it may have been closed, forked or broken in between.
        """
        for reading in readings:
            self._check(reading)
        return StatelessReading(self)

    def _check(self, reading: PlanReading[Any]) -> None:
        self._check_unchanged()
        text = self._statement(reading, _BIND_KEY)
        if text in self._bound:
            self.sources.check_running()
        else:
            self.sources.bind(text)
            self._bound = {text} if len(self._bound) > _MAX_BOUND else self._bound | {text}

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        """Run one statement and return its rows as arrays."""
        converted = self._read_arrays(reading, self._statement(reading, sampling_key))
        self._check_unchanged()  # a file replaced during the read is not the version that was charged
        return cast("E", converted)

    def _read_arrays(self, reading: PlanReading[E], text: str) -> object:
        from sfumato.engine.arrays import ARRAY_READERS, ROW_READINGS, STREAM_READERS, totals_from_rows

        if isinstance(reading, ROW_READINGS):
            return totals_from_rows(self.sources.run(text), reading)
        if type(reading) in STREAM_READERS:
            to_arrays, batch_rows = STREAM_READERS[type(reading)]
            return self.sources.stream(text, batch_rows(reading), lambda rows: to_arrays(rows, reading))
        return ARRAY_READERS[type(reading)](self.sources.arrow(text), reading)

    def _statement(self, reading: PlanReading[E], sampling_key: int) -> str:
        """Render the statement of a reading, and cache the last one of group totals.

        Totals of the same rows are often read again, and a statement that does not contain the key's digits is the same
        for every key, any other for the same key. One over a sample of units contains a part of them.
        """
        from sfumato.engine.lowering.reading_statements import local_statement
        from sfumato.plan.readings.total_readings import GroupTotals

        is_cacheable = isinstance(reading, GroupTotals) and reading.bounded.sample is None
        scans = self._copy_names(reading) if is_cacheable else ()
        if is_cacheable and self._last_totals is not None:
            bounded, copies, key, text = self._last_totals
            if bounded() is reading.bounded and copies == scans and key in (None, sampling_key):
                return text
        text = self._render(local_statement(reading, sampling_key))
        if is_cacheable:
            self._last_totals = ref(reading.bounded), scans, sampling_key if str(sampling_key) in text else None, text
        return text

    def _render(self, select: StagedSelect) -> str:
        """Write a statement in which each scan stands once, however often it is read: DuckDB takes a millisecond to
        parse a kilobyte. It is planned as if it stood at every place.
        """
        from sfumato.engine.spellings.generator import Generator

        names: dict[str, str] = {}

        def name_scan(table: CleanTable) -> str:
            scan = self._scan(table)
            return names.setdefault(scan, f"sf_scan{len(names)}") if scan.startswith("(") else scan

        spelling = DuckDBSpelling(periods=self.sources.policy.unit.period is not None)
        text = Generator(spelling, name_scan).statement(select)
        scans = ", ".join(f"{name} AS NOT MATERIALIZED {scan}" for scan, name in names.items())
        if not scans:
            return text
        return f"WITH {scans}, {text.removeprefix('WITH ')}" if select.stages else f"WITH {scans} {text}"

    def _scan(self, table: CleanTable) -> str:
        """Return what is read for a table's clean rows: its columns that the statement reads, or a copy of it."""
        if table.columns is None:
            return self.sources.scan(table.name)
        return self.sources.narrow_scan(table.name, table.columns)

    def _copy_names(self, reading: PlanReading[E]) -> tuple[str | None, ...]:  # noqa: ARG002
        """Name the copies that are read instead of the tables of a reading."""
        return ()

    def _check_unchanged(self) -> None:
        """Raise ``SourceChanged`` unless the rows are those that were opened."""
        self.sources.check_unchanged()

    def interrupt(self, thread: int | None = None) -> None:
        self.sources.interrupt(thread)


MAX_PUBLIC_ROWS = 100_000
"""The most rows of a public table that a subquery reads, which is free."""


class DuckDB(StatementReader):
    """The DuckDB implementation of ``Engine``: no SQL, type or hash of DuckDB is visible outside."""

    matches_values = True

    def __init__(self, policy: Policy, memory: str | None = None, threads: int | None = None) -> None:
        super().__init__(Sources(policy, memory_limit=memory, threads=threads))
        self._policy = policy

    def catalog(self) -> Catalog:
        """Return the catalog of tables and columns that queries may use."""
        from sfumato.plan.catalog import Catalog

        tables = {name: catalog_table(self._policy, name, self.sources.columns(name)) for name in self._policy.tables}
        return Catalog(
            tables,
            self.sources.max_rows_per_value,
            self.sources.max_rows_matched,
            self._public_values,
            self._policy.database_names,
        )

    def _public_values(self, table: str, expression: Expression, condition: Expression | None) -> list[Value | None]:
        """Evaluate an expression on the rows of a public table that meet a condition."""
        from sfumato.engine.arrays import exact_keys
        from sfumato.engine.lowering.reading_statements import public_values_statement

        if self.sources.max_rows_per_value(table, ()) > MAX_PUBLIC_ROWS:  # this refuses a private table
            rule = f"a subquery can read a public table of at most {MAX_PUBLIC_ROWS:,} rows"
            raise Unsupported("public-subquery", rule, fix="join the public table in FROM instead")
        text = self._render(public_values_statement(table, expression, condition))
        rows = self._within_time_limit(lambda: self.sources.run(text))
        return [value for (value,) in exact_keys(rows, [expression.domain.type])]

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:
        """List the distinct results of expressions on every combination of declared values; reads no table."""
        from sfumato.engine.arrays import as_statement_parameter, exact_keys
        from sfumato.engine.lowering.reading_statements import distinct_results_statement
        from sfumato.plan.keys import KeySpan

        lists = [
            [as_statement_parameter(value) for value in keys]
            for _, _, keys in world.choices
            if not isinstance(keys, KeySpan)
        ]
        text = self._render(distinct_results_statement(world))
        rows = self._within_time_limit(lambda: self.sources.run(text, lists))
        return exact_keys(rows, [expression.domain.type for expression in world.expressions])

    def _within_time_limit(self, action: Callable[[], list[Any]]) -> list[Any]:
        """Return the action's result; refuse a query whose keys take longer to list than the limit."""
        finished, thread = Event(), get_ident()
        timeouts: list[bool] = []

        def watch() -> None:
            wait: float = FREE_SECONDS
            while not finished.wait(wait):  # repeat: an interrupt before the statement starts has no effect
                timeouts.append(True)
                self.sources.interrupt(thread)
                wait = 0.01

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return action()
        except EngineFailed:
            if not timeouts:
                raise
        finally:
            finished.set()
            watcher.join()  # so that it interrupts no later statement
        rule = f"listing all groups takes more than {FREE_SECONDS} seconds, the time limit for free steps"
        raise Unsupported(
            "keys-too-costly", rule, fix="group by a simpler expression, such as a column instead of a function of it"
        )

    def open_snapshot(self) -> DuckDBSnapshot:
        """Begin a snapshot of the data that were opened."""
        return DuckDBSnapshot(self.sources)

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that rows come from: files, or the content of tables in memory."""
        chosen = [name for name, table in self._policy.tables.items() if table.public is public]
        return tuple(identity for name in chosen for identity in self.sources.data(name))

    def identity(self) -> str:
        return self.sources.identity()

    def check_files(self) -> None:
        self.sources.check_unchanged()

    def close(self) -> None:
        self.sources.close()


class DuckDBSnapshot(StatementReader):
    """A snapshot of every table as it was at its first reading, kept as copies in the engine.

    A table is copied by the first reading of it, which has been charged like any other, in the version that was opened.
    After that, nothing outside can change what is read.
    """

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._copies: dict[str, str] = {}
        self._closed = False
        self._lock = Lock()

    def _check(self, reading: PlanReading[Any]) -> None:
        self._require_open()
        if self._uncopied_tables(reading):
            self.sources.check_unchanged()
        super()._check(reading)

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        with self._lock:
            self._require_open()
            for table in self._uncopied_tables(reading):
                self._copies[table] = self._copy(table)
        return super().read(reading, sampling_key)

    def _copy(self, table: str) -> str:
        """Copy a table, unless its file was replaced in the meantime: that is not the version that was opened."""
        copy = self.sources.copy(table)
        try:
            self.sources.check_unchanged()
        except BaseException:
            self.sources.drop(copy)
            raise
        return copy

    def _uncopied_tables(self, reading: PlanReading[E]) -> list[str]:
        """List the tables of a reading that have no copy yet."""
        from sfumato.plan.nodes import table_names

        return [table for table in table_names(reading.bounded.plan.source) if table not in self._copies]

    def _scan(self, table: CleanTable) -> str:
        return self._copies.get(table.name) or super()._scan(table)

    def _copy_names(self, reading: PlanReading[E]) -> tuple[str | None, ...]:
        from sfumato.plan.nodes import table_names

        return tuple(self._copies.get(table) for table in table_names(reading.bounded.plan.source))

    def _check_unchanged(self) -> None:
        """Do nothing: copies do not depend on their sources."""

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
