"""The Spark engine: plans become DataFrames over the clean scans of its tables, and their rows become arrays of totals.

Only expressions generated from our own plan run there: no user function, no Python on a worker, no temporary view and
no DDL. Spark computes exact totals per group, and nothing but those totals leaves it.

Public tables are fetched from Spark, each in its own session at the server that it names.

The inspector shows the owner, exactly, what a policy's bounds and limits cost tables on Spark; nobody else may use it.
PRIVATE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, partial
from hashlib import sha256
from itertools import count
from threading import Lock, Thread, get_ident
from typing import Any, Self, cast

from sfumato.engine.lowering.reading_statements import (
    arrays_from_rows,
    join_server_results,
    require_few_rows,
    server_readings,
    server_statement,
)
from sfumato.engine.lowering.relational_form import StagedSelect
from sfumato.engine.protocols import DataIdentity, FetchedTable, Inspection, OpenReading, StatelessReading
from sfumato.engine.public_tables import (
    MAX_CARRIED_ROWS,
    CarriedTables,
    public_table_too_large,
    unreadable_public_table,
)
from sfumato.engine.sources import inspected_tables
from sfumato.engine.spark.frames import Frame, FrameWriter, SparkScans, public_frame, require_correct_results
from sfumato.engine.spark.sessions import SparkConnection, connect, open_sibling_session, without_cause
from sfumato.engine.spark.sources import SparkSource, hash_content, open_source
from sfumato.engine.spellings.spark import SparkSpelling, quote_identifier
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged
from sfumato.mechanisms import bits
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import ValueCombinations
from sfumato.plan.nodes import GroupValues, Scan, relations, table_names
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy import Domain, Policy, Table
from sfumato.policy.domains import WIDE_PREFIX
from sfumato.policy.table_sources import SparkFrame


def open_session(table: Table) -> SparkConnection:
    """Open our own session at the Spark that holds a table's rows."""
    policy_path = f"tables.{table.name}.source"
    if isinstance(table.source, SparkFrame):
        return open_sibling_session(table.source.frame, policy_path)
    return connect(table.source.address, policy_path)


def fetch_public_table(table: Table) -> FetchedTable:
    """Fetch the rows of a public table from the Spark that it names, or that its DataFrame belongs to."""
    session = open_session(table)
    try:
        source = open_source(table.source, session, f"tables.{table.name}.source")
        rows = without_cause(source.frame.limit(MAX_CARRIED_ROWS + 1).toArrow)
        if rows.num_rows > MAX_CARRIED_ROWS:
            raise public_table_too_large(table.name)
        content_hash = hash_content(source, session)
    except EngineFailed:
        raise unreadable_public_table(table.name) from None
    finally:
        session.close()
    if not source.addresses:
        return FetchedTable(
            rows, (DataIdentity(f"memory://{content_hash}", partial(str, content_hash), table=table.name),)
        )
    return FetchedTable(rows, tuple(DataIdentity(address, partial(str, content_hash)) for address in source.addresses))


_MAX_BOUND = 1000
_INTERRUPT_SECONDS = 60.0
"""How many seconds to wait for running work to end before a session is closed regardless."""


class SparkReader:
    """A reader that builds one DataFrame per reading, over the clean scans of a policy's sources."""

    def __init__(self, tables: SparkTables) -> None:
        self.tables = tables
        self._bound: set[StagedSelect] = set()

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Analyse the DataFrames, and check that the engine is open and the sources are those that were opened.

        No row is read.
        """
        self._check_unchanged()
        for reading in readings:
            require_few_rows(reading)
        for part in (part for reading in readings for part in server_readings(reading)):
            statement, scan = server_statement(part, 0), partial(self._scan, unclamped=_unclamped_columns(part))
            if statement not in self._bound:
                without_cause(lambda select=statement, scan=scan: self._frame(select, scan).schema)  # type: ignore[misc]
                self._bound = {statement} if len(self._bound) > _MAX_BOUND else self._bound | {statement}
        return StatelessReading(self)

    def read(self, reading: PlanReading[E], sampling_key: int) -> E:
        """Collect the rows of a DataFrame per statement and return them as arrays."""
        scans, unclamped = self._copy_unversioned_tables(reading), _unclamped_columns(reading)

        def collect(part: PlanReading[Any]) -> object:
            statement = server_statement(part, sampling_key)
            rows = self.tables.run(
                lambda: self._frame(statement, lambda table: scans.get(table) or self._scan(table, unclamped=unclamped))
            )
            return arrays_from_rows(rows, part)

        results = [collect(part) for part in server_readings(reading)]
        self._check_unchanged()  # a source changed during the read is not the version that was charged
        return cast("E", join_server_results(reading, results))

    def interrupt(self, thread: int | None = None) -> None:
        self.tables.interrupt(thread)

    def _frame(self, statement: StagedSelect, scan: Any) -> Frame:
        return FrameWriter(scan, self.tables.session.expression).statement(statement)

    def _scan(self, table: str, *, unclamped: Mapping[str, tuple[str, ...]]) -> Frame:
        return self.tables.scan(table, unclamped.get(table, ()))

    def _copy_unversioned_tables(self, reading: PlanReading[Any]) -> Mapping[str, Frame]:
        """Copy tables without a version, so that they are read once: a statement would read them several times."""
        unclamped, unversioned = (
            _unclamped_columns(reading),
            (table for table in _read_table_names(reading) if not self.tables.has_version(table)),
        )
        return {table: self.tables.copy(table, unclamped.get(table, ())) for table in unversioned}

    def _check_unchanged(self) -> None:
        self.tables.check_unchanged()


class Spark(SparkReader):
    """The Spark implementation of ``Engine``: no SQL, type or hash of Spark is visible outside."""

    matches_values = False

    def __init__(self, policy: Policy) -> None:
        super().__init__(SparkTables(policy))
        self._policy = policy

    def catalog(self) -> Catalog:
        """Return the catalog of tables and columns that queries may use."""
        return self.tables.public_tables.catalog()

    def values(self, world: ValueCombinations) -> Sequence[GroupValues]:
        """List the distinct results of expressions on declared values, computed in this process."""
        return self.tables.public_tables.values(world)

    def open_snapshot(self) -> SparkSnapshot:
        """Begin a snapshot of the data that were opened."""
        return SparkSnapshot(self.tables)

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        """Identify the data that rows come from."""
        return self.tables.data(public=public)

    def identity(self) -> str:
        return self.tables.identity()

    def check_files(self) -> None:
        self.tables.check_unchanged()

    def close(self) -> None:
        self.tables.close()


class SparkSnapshot(SparkReader):
    """A snapshot of every table as it was at its first reading, kept as copies on the executors. A copy lost with its
    executor is not read again: the reading fails.
    """

    def __init__(self, tables: SparkTables) -> None:
        super().__init__(tables)
        self._copied_frames: dict[str, Frame] = {}
        self._closed = False
        self._lock = Lock()

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        if self._closed:
            raise EngineClosed
        if any(table not in self._copied_frames for reading in readings for table in _read_table_names(reading)):
            self.tables.check_unchanged()
        return super().check(*readings)

    def _copy_unversioned_tables(self, reading: PlanReading[Any]) -> Mapping[str, Frame]:
        with self._lock:
            if self._closed:
                raise EngineClosed
            missing = [table for table in _read_table_names(reading) if table not in self._copied_frames]
            copies = {table: self.tables.copy(table) for table in missing}
            if missing:
                self.tables.check_unchanged()
            self._copied_frames |= copies
            return dict(self._copied_frames)

    def _scan(self, table: str, *, unclamped: Mapping[str, tuple[str, ...]]) -> Frame:
        return self._copied_frames[table] if table in self._copied_frames else super()._scan(table, unclamped=unclamped)

    def _check_unchanged(self) -> None:
        """Check only that the engine is open: copies do not depend on their sources."""
        self.tables.require_open()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._copied_frames.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_table_names(reading: PlanReading[Any]) -> list[str]:
    return list(dict.fromkeys(table_names(reading.bounded.plan.source)))


def _unclamped_columns(reading: PlanReading[Any]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table that are read as they are before their bounds are applied."""
    scans = [node for node in relations(reading.bounded.plan.source) if isinstance(node, Scan)]
    unclamped = {
        scan.table: tuple(field.name for field in scan.columns if field.name.startswith(WIDE_PREFIX)) for scan in scans
    }
    return {table: names for table, names in unclamped.items() if names}


class SparkTables:
    """A policy's tables at one Spark, read through generated DataFrames only."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._process = os.getpid()
        self._lock = Lock()
        self._tag = f"sfumato-{bits.random_bits(64):x}"
        self._tag_numbers, self._version_numbers = count(), count()
        self._running_threads: dict[str, int] = {}
        """From the tag of a reading to the thread that runs it."""
        self._public_frames: dict[str, Frame] = {}
        private = [table for table in policy.tables.values() if not table.public]
        self.session = open_session(private[0])
        try:
            require_correct_results(self.session, _policy_path(private[0]))
            self._sources = {
                table.name: open_source(table.source, self.session, _policy_path(table)) for table in private
            }
            self._change_tokens = {key: without_cause(source.change_token) for key, source in self._sources.items()}
            self.scans = SparkScans(policy, self._sources, self.session.expression)
            self._scan_frames = {table.name: _analysed_scan(self.scans, table) for table in private}
            for table in private:
                self._check_ceiling(table)
            self.public_tables = CarriedTables(policy)
        except BaseException:
            self.session.close()
            raise

    def scan(self, table: str, unclamped: tuple[str, ...] = ()) -> Frame:
        """Return the DataFrame of a table's clean rows, with these columns as they are before their bounds apply."""
        if table in self._scan_frames:
            return without_cause(lambda: self.scans.scan(table, unclamped)) if unclamped else self._scan_frames[table]
        with self._lock:
            if table not in self._public_frames:
                self._public_frames[table] = public_frame(self.public_tables.rows(table), self.session)
            return self._public_frames[table]

    def source(self, table: str) -> SparkSource:
        return self._sources[table]

    def has_version(self, table: str) -> bool:
        """Return whether a table is known to stay as it was opened; with tables linked by keys, all of them must."""
        return table not in self._sources or all(source.has_version for source in self._sources.values())

    def copy(self, table: str, unclamped: tuple[str, ...] = ()) -> Frame:
        """Read a table's clean rows once and keep them on the executors."""
        return self.run_interruptible(lambda: self.session.copy_frame(self.scan(table, unclamped)))

    def run(self, make: Any) -> list[tuple[Any, ...]]:
        """Return the rows of one DataFrame, integers exact. Raise ``EngineFailed`` on any failure."""
        rows = self.run_interruptible(lambda: make().collect())
        return [tuple(map(_decimal_to_int, row)) for row in rows]

    def run_interruptible(self, action: Any) -> Any:
        """Run an action of this thread that ``interrupt`` can end."""
        with self._lock:
            self.require_open()
            tag = f"{self._tag}-{next(self._tag_numbers)}"
            self._running_threads[tag] = get_ident()
        try:
            with self.session.tagged(tag):
                return without_cause(action)
        except Exception:
            raise
        except BaseException:  # such as Ctrl-C: nothing waits for the rows any more
            self._interrupt_from_thread(tag)
            raise
        finally:
            with self._lock:
                del self._running_threads[tag]

    def interrupt(self, thread: int | None = None) -> None:
        """Interrupt what every thread, or one of them, is running: it fails as ``EngineFailed``."""
        if os.getpid() == self._process:
            for tag in self._query_tags(thread):
                self._interrupt_tag(tag)

    def _query_tags(self, thread: int | None) -> list[str]:
        with self._lock:
            return [tag for tag, runner in self._running_threads.items() if thread in (None, runner)]

    def _interrupt_tag(self, tag: str) -> None:
        with suppress(EngineFailed):
            without_cause(lambda: self.session.interrupt(tag))

    def _interrupt_from_thread(self, tag: str) -> None:
        """Interrupt from another thread: this thread's connection to Spark is still waiting for the rows."""
        interrupter = Thread(target=self._interrupt_tag, args=(tag,), daemon=True)
        interrupter.start()
        interrupter.join(_INTERRUPT_SECONDS)

    def check_unchanged(self) -> None:
        """Raise ``SourceChanged`` unless every source is still the one that was opened, and Spark responds."""
        self.require_open()
        without_cause(lambda: self.session.spark.conf.get("spark.sql.ansi.enabled"))
        self.public_tables.check_unchanged()
        for table, source in self._sources.items():
            try:
                is_unchanged = without_cause(source.change_token) == self._change_tokens[table]
            except EngineFailed:
                is_unchanged = False
            if not is_unchanged:
                raise SourceChanged(table)

    def identity(self) -> str:
        """Return the version of the data: a digest over every source's change token, as opened, and over the public
        tables. Where a source has no change token, every call returns a new version.
        """
        nonce = [] if all(source.has_version for source in self._sources.values()) else [next(self._version_numbers)]
        return sha256(
            repr([sorted(self._change_tokens.items()), nonce, self.public_tables.identity()]).encode()
        ).hexdigest()

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        if public:
            return self.public_tables.data()
        return tuple(identity for table, source in self._sources.items() for identity in self._data(table, source))

    def _data(self, table: str, source: SparkSource) -> tuple[DataIdentity, ...]:
        """Identify a table by its name and by the location of its files; its rows are hashed once for both."""
        content_hash = cache(partial(hash_content, source, self.session))
        if not source.addresses:
            return (DataIdentity(f"memory://{content_hash()}", content_hash, table=table),)
        change_token = self._change_tokens[table] if source.has_version else ""
        return tuple(DataIdentity(address, content_hash, change_token=change_token) for address in source.addresses)

    def remarks(self, table: str) -> tuple[str, ...]:
        """Return what an owner should know about where a table's rows are."""
        if table not in self._sources:
            return ()
        sentences = ["Operators of this Spark can see exact counts in its logs, its web UI and its shuffle files."]
        if self.session.has_event_log:
            sentences.append(
                "This Spark writes an event log with the exact counts of every question. Only those who may "
                "read the rows should be able to read spark.eventLog.dir and the history server."
            )
        if not self._sources[table].has_version:
            sentences.append(
                "Spark cannot detect changes to this table, so stored answers are not reused. It must return "
                "the same rows at every read, and build each row from the rows of one unit."
            )
        return tuple(sentences)

    def require_open(self) -> None:
        if os.getpid() != self._process:
            raise EngineClosed

    def close(self) -> None:
        """Interrupt what is running and forget the data. A forked process leaves its parent's session alone."""
        if os.getpid() == self._process:
            with self._lock:
                self._process = 0
            self._interrupt_all()
            self.public_tables.close()
            self.session.close()

    def _interrupt_all(self) -> None:
        """Interrupt repeatedly until nothing runs: the server may not know of a statement yet."""
        deadline = time.monotonic() + _INTERRUPT_SECONDS
        while (tags := self._query_tags(None)) and time.monotonic() < deadline:
            for tag in tags:
                self._interrupt_tag(tag)
            if tags == self._query_tags(get_ident()):  # a thread does not wait for itself
                return
            time.sleep(0.02)

    def _check_ceiling(self, table: Table) -> None:
        """Refuse a source with more rows than declared when its owner opens it, never in a query."""
        frames = (
            self._sources[table.name].frame,
            self._scan_frames[table.name],
        )  # the scan has one copy of a row per owner
        if any(without_cause(frame.count) > table.row_ceiling for frame in frames):
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than row_ceiling allows",
                place=f"tables.{table.name}.row_ceiling",
                fix="raise row_ceiling if queries may take longer, or use a source with fewer rows",
            )


def _policy_path(table: Table) -> str:
    return f"tables.{table.name}.source"


def _analysed_scan(scans: SparkScans, table: Table) -> Frame:
    """Build a clean scan and let Spark analyse it now, so that an error refuses the policy."""
    frame = scans.scan(table.name)
    without_cause(lambda: frame.schema)
    return frame


def _decimal_to_int(value: Any) -> Any:
    """Convert a wide decimal to a Python int."""
    return int(value) if isinstance(value, Decimal) else value


class SparkInspector:
    """A policy's sources, opened for their owner to inspect."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._engine = policy, Spark(policy)
        self._tables = self._engine.tables

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        if self._policy.tables[table].public:
            return self._tables.public_tables.fingerprint(table)
        return hash_content(self._tables.source(table), self._tables.session)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._tables.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with its clean scan, cell by cell, and count its units' rows."""
        table_policy = self._policy.tables[table]
        figures = list(self._single_row(self._outcome_counts(table)))
        keys = [column for column, domain in table_policy.columns.items() if domain.values is not None]
        if not table_policy.every_row:
            figures += self._single_row(self._count_limit_losses(table, keys))
        return inspected_tables.inspection_from_counts(
            figures, list(table_policy.columns), keys, has_unit_ids=not table_policy.every_row
        )

    def _outcome_counts(self, table: str) -> Frame:
        """Count the rows, those with an owner and, for each column, what happened to the cells of these."""
        rows, cells = self._tables.scans.inspected(table)
        outcomes = [f"{inspected_tables.cell_outcome_sql(cell)} AS f{index}" for index, cell in enumerate(cells)]
        counts = [
            f"COUNT(CASE WHEN k = 1 AND f{index} = {outcome} THEN 1 END)"
            for index in range(len(outcomes))
            for outcome in inspected_tables.OUTCOMES
        ]
        outcome_rows = rows.selectExpr("k", *outcomes)
        return self._aggregate(outcome_rows, "COUNT(*)", "COUNT(CASE WHEN k = 1 THEN 1 END)", *counts)

    def lost_texts(self, table: str, column: str, extra_texts: Collection[str]) -> Mapping[str, int]:
        rows, cells = self._tables.scans.inspected(table)
        cell = cells[list(self._policy.tables[table].columns).index(column)]
        if cell.text is None:
            return {}
        expression, condition = (
            self._tables.session.expression,
            inspected_tables.lost_text_condition_sql(SparkSpelling(), cell, extra_texts),
        )
        lost = rows.where(expression(f"k = 1 AND {condition}")).groupBy(expression(cell.text))
        counted = lost.agg(expression("COUNT(*) AS n")).orderBy(expression("n").desc(), expression(cell.text))
        return dict(self._tables.run(lambda: counted.limit(inspected_tables.MAX_LOST_TEXTS)))

    def _count_limit_losses(self, table: str, keys: list[str]) -> Frame:
        """Count the units, those over the limit, and the rows and groups that each limit leaves out."""
        expression, limit = self._tables.session.expression, self._policy.tables[table].max_rows or 1
        distinct = [f"COUNT(DISTINCT {quote_identifier(key)}) AS g{index}" for index, key in enumerate(keys)]
        aggregates = [expression(sql) for sql in ("COUNT(*) AS n", *distinct)]
        units = self._tables.scan(table).groupBy(expression("sf_unit")).agg(*aggregates)
        over_limit = [f"COUNT(CASE WHEN n > {limit} THEN 1 END)", f"COALESCE(SUM(GREATEST(n - {limit}, 0)), 0)"]
        losses = [
            loss
            for column in ("n", *(f"g{index}" for index in range(len(keys))))
            for loss in inspected_tables.total_and_excess_sums_sql(column)
        ]
        return self._aggregate(units, "COALESCE(SUM(n), 0)", "COUNT(*)", *over_limit, *losses)

    def _aggregate(self, frame: Frame, *totals: str) -> Frame:
        return frame.groupBy().agg(*map(self._tables.session.expression, totals))

    def _single_row(self, frame: Frame) -> tuple[Any, ...]:
        (row,) = self._tables.run(lambda: frame)
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
