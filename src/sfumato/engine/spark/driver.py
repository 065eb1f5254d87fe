"""Spark is an engine: plans become frames over the clean scans of its tables, and their rows become arrays of totals.

Only expressions written from our own plan run there: no function of a user's, no Python on a worker, no temporary view
and no DDL. The engine that holds the rows adds up exact totals per group, and nothing but those totals leaves it.

Public tables are fetched here from a Spark, each in a session of its own at the one that it names.

An owner sees here, exactly, what a policy's bounds and limits cost tables on Spark; nobody else may. PRIVATE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache, partial
from hashlib import sha256
from itertools import count
from threading import Lock, Thread, get_ident
from typing import Any, Self, cast

from sfumato.engine.carried_tables import MOST_ROWS, CarriedTables, too_large, unread
from sfumato.engine.lowering.reading_statements import counted_statement, in_arrays
from sfumato.engine.lowering.relational import StagedSelect
from sfumato.engine.seam import DataIdentity, Fetched, Inspection, OpenReading, Unheld
from sfumato.engine.sources import inspected_tables
from sfumato.engine.spark.frames import Frame, FrameWriter, Scans, carried, prove
from sfumato.engine.spark.sessions import SparkConnection, at_address, beside, quietly
from sfumato.engine.spark.sources import SparkSource, content, opened
from sfumato.engine.spellings.spark import name
from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy, SourceChanged
from sfumato.mechanisms import bits
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import World
from sfumato.plan.nodes import GroupKey, tables
from sfumato.plan.readings.total_readings import E, PlanReading
from sfumato.policy import Domain, Policy, Table
from sfumato.policy.table_sources import SparkFrame


def session_of(table: Table) -> SparkConnection:
    """Open a session of our own where the rows of a table are."""
    place = f"tables.{table.name}.source"
    if isinstance(table.source, SparkFrame):
        return beside(table.source.frame, place)
    return at_address(table.source.address, place)


def fetch(table: Table) -> Fetched:
    """Read the rows of a public table at the Spark that it names, or that its frame is of."""
    session = session_of(table)
    try:
        source = opened(table.source, session, f"tables.{table.name}.source")
        rows = quietly(source.frame.limit(MOST_ROWS + 1).toArrow)
        if rows.num_rows > MOST_ROWS:
            raise too_large(table.name)
        hashed = content(source, session)
    except EngineFailed:
        raise unread(table.name) from None
    finally:
        session.close()
    if not source.addresses:
        return Fetched(rows, (DataIdentity(f"memory://{hashed}", partial(str, hashed), part=table.name),))
    return Fetched(rows, tuple(DataIdentity(each, partial(str, hashed)) for each in source.addresses))


_REMEMBERED = 1000
_ENDING = 60.0
"""For how many seconds it is waited that what is running ends, before a session is closed all the same."""


class SparkReader:
    """A Spark reader makes one frame for each reading, over the clean scans of the sources of one policy."""

    def __init__(self, tables: SparkTables) -> None:
        self.tables = tables
        self._bound: set[StagedSelect] = set()

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        """Analyse the frames, and see that the engine is open and the sources are those that were opened.

        No row is read.
        """
        self._check_unchanged()
        for reading in readings:
            statement = counted_statement(reading, 0)
            if statement not in self._bound:
                quietly(lambda made=statement: self._frame(made, self._scan).schema)  # type: ignore[misc]
                self._bound = {statement} if len(self._bound) > _REMEMBERED else self._bound | {statement}
        return Unheld(self)

    def read(self, reading: PlanReading[E], key: int) -> E:
        """Collect the rows of one frame and give them in arrays."""
        scans = self._copies(reading)
        statement = counted_statement(reading, key)
        rows = self.tables.run(lambda: self._frame(statement, lambda each: scans.get(each) or self._scan(each)))
        self._check_unchanged()  # what was changed while it was read is not the version that was charged
        return cast("E", in_arrays(rows, reading))

    def interrupt(self, token: int | None = None) -> None:
        self.tables.interrupt(token)

    def _frame(self, statement: StagedSelect, scan: Any) -> Frame:
        return FrameWriter(scan, self.tables.session.expression).statement(statement)

    def _scan(self, table: str) -> Frame:
        return self.tables.scan(table)

    def _copies(self, reading: PlanReading[Any]) -> Mapping[str, Frame]:
        """Copy the rows of tables that have no version, read once: a statement would read them again and again."""
        return {each: self.tables.copy(each) for each in _read(reading) if not self.tables.held(each)}

    def _check_unchanged(self) -> None:
        self.tables.check_unchanged()


class Spark(SparkReader):
    """Spark works behind the seam: no SQL, type or hash of its own is seen outside."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(SparkTables(policy))
        self._policy = policy

    def catalog(self) -> Catalog:
        """List what questions may refer to."""
        return self.tables.here.catalog()

    def values(self, world: World) -> Sequence[GroupKey]:
        """List the distinct results of expressions on declared values, in this process: no server is asked."""
        return self.tables.here.values(world)

    def hold(self) -> SparkSnapshot:
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
    """A snapshot holds the rows of every table that has been read, as they were at its first reading: copies that the
    executors keep. One that is lost with its executor is not read again: the reading fails.
    """

    def __init__(self, tables: SparkTables) -> None:
        super().__init__(tables)
        self._copied: dict[str, Frame] = {}
        self._closed = False
        self._lock = Lock()

    def check(self, *readings: PlanReading[Any]) -> OpenReading:
        if self._closed:
            raise EngineClosed
        if any(each not in self._copied for reading in readings for each in _read(reading)):
            self.tables.check_unchanged()
        return super().check(*readings)

    def _copies(self, reading: PlanReading[Any]) -> Mapping[str, Frame]:
        with self._lock:
            if self._closed:
                raise EngineClosed
            missing = [each for each in _read(reading) if each not in self._copied]
            made = {each: self.tables.copy(each) for each in missing}
            if missing:
                self.tables.check_unchanged()
            self._copied |= made
            return dict(self._copied)

    def _scan(self, table: str) -> Frame:
        return self._copied[table] if table in self._copied else super()._scan(table)

    def _check_unchanged(self) -> None:
        """Pass but for being open: what is read are copies, and no source matters to them any more."""
        self.tables.require_open()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._copied.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(reading: PlanReading[Any]) -> list[str]:
    return list(dict.fromkeys(tables(reading.bounded.plan.source)))


class SparkTables:
    """These are a policy's tables at one Spark, to be asked generated frames only."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._process = os.getpid()
        self._lock = Lock()
        self._tag = f"sfumato-{bits.integer(64):x}"
        self._numbers, self._identities = count(), count()
        self._running: dict[str, int] = {}
        """From the tag of a reading to the thread that it is of."""
        self._public: dict[str, Frame] = {}
        private = [each for each in policy.tables.values() if not each.public]
        self.session = session_of(private[0])
        try:
            prove(self.session, _place(private[0]))
            self._sources = {each.name: opened(each.source, self.session, _place(each)) for each in private}
            self._looks = {each: quietly(source.look) for each, source in self._sources.items()}
            self.scans = Scans(policy, self._sources, self.session.expression)
            self._scans = {each.name: _made(self.scans, each) for each in private}
            for each in private:
                self._check_ceiling(each)
            self.here = CarriedTables(policy)
        except BaseException:
            self.session.close()
            raise

    def scan(self, table: str) -> Frame:
        """Give the frame of a table's clean rows."""
        if table in self._scans:
            return self._scans[table]
        with self._lock:
            if table not in self._public:
                self._public[table] = carried(self.here.rows(table), self.session)
            return self._public[table]

    def source(self, table: str) -> SparkSource:
        return self._sources[table]

    def held(self, table: str) -> bool:
        """Tell whether a table is known to stay as it was opened; one that is found through others is if they are."""
        return table not in self._sources or all(each.held for each in self._sources.values())

    def copy(self, table: str) -> Frame:
        """Read a table's clean rows once, and keep them on the executors."""
        return self.running(lambda: self.session.copied(self.scan(table)))

    def run(self, make: Any) -> list[tuple[Any, ...]]:
        """Give the rows of one frame, whole numbers exact. Any failure is the one ``EngineFailed``."""
        rows = self.running(lambda: make().collect())
        return [tuple(map(_plain, row)) for row in rows]

    def running(self, action: Any) -> Any:
        """Run an action of this thread, which ``interrupt`` can end."""
        with self._lock:
            self.require_open()
            tag = f"{self._tag}-{next(self._numbers)}"
            self._running[tag] = get_ident()
        try:
            with self.session.tagged(tag):
                return quietly(action)
        except Exception:
            raise
        except BaseException:  # such as Ctrl-C: nobody waits for the rows any more
            self._end_elsewhere(tag)
            raise
        finally:
            with self._lock:
                del self._running[tag]

    def interrupt(self, thread: int | None = None) -> None:
        """End what every thread, or one of them, is running: it fails as ``EngineFailed``."""
        if os.getpid() == self._process:
            for tag in self._tags(thread):
                self._end(tag)

    def _tags(self, thread: int | None) -> list[str]:
        with self._lock:
            return [tag for tag, runner in self._running.items() if thread in (None, runner)]

    def _end(self, tag: str) -> None:
        with suppress(EngineFailed):
            quietly(lambda: self.session.interrupt(tag))

    def _end_elsewhere(self, tag: str) -> None:
        """End what this thread left behind: its own line to Spark still waits for the rows."""
        ending = Thread(target=self._end, args=(tag,), daemon=True)
        ending.start()
        ending.join(_ENDING)

    def check_unchanged(self) -> None:
        """Raise ``SourceChanged`` unless every source is still the one that was opened, and Spark answers."""
        self.require_open()
        quietly(lambda: self.session.spark.conf.get("spark.sql.ansi.enabled"))
        self.here.check_unchanged()
        for table, source in self._sources.items():
            try:
                same = quietly(source.look) == self._looks[table]
            except EngineFailed:
                same = False
            if not same:
                raise SourceChanged(table)

    def identity(self) -> str:
        """Give the version of the data: a digest over every source's look, as opened, and over the public tables. While
        nothing tells whether a source changed, no two versions are one.
        """
        changing = [] if all(each.held for each in self._sources.values()) else [next(self._identities)]
        return sha256(repr([sorted(self._looks.items()), changing, self.here.identity()]).encode()).hexdigest()

    def data(self, *, public: bool) -> tuple[DataIdentity, ...]:
        if public:
            return self.here.data()
        return tuple(each for table, source in self._sources.items() for each in self._data(table, source))

    def _data(self, table: str, source: SparkSource) -> tuple[DataIdentity, ...]:
        """A table is known by its name and by where its files are, and its rows are hashed once for both."""
        hashed = cache(partial(content, source, self.session))
        if not source.addresses:
            return (DataIdentity(f"memory://{hashed()}", hashed, part=table),)
        look = self._looks[table] if source.held else ""
        return tuple(DataIdentity(each, hashed, look=look) for each in source.addresses)

    def remarks(self, table: str) -> tuple[str, ...]:
        """Say what an owner should know of where the rows of a table are."""
        if table not in self._sources:
            return ()
        told = ["Whoever runs this Spark sees exact counts in its logs, its web page and its shuffle files."]
        if not self._sources[table].held:
            told.append(
                "Nothing tells whether the rows of this table changed: it is trusted to give the same rows whenever it "
                "is read, and to make each row from the rows of one unit; no stored answer is reused."
            )
        return tuple(told)

    def require_open(self) -> None:
        if os.getpid() != self._process:
            raise EngineClosed

    def close(self) -> None:
        """End what is running and forget the data. A forked process leaves its parent's session alone."""
        if os.getpid() == self._process:
            with self._lock:
                self._process = 0
            self._end_all()
            self.here.close()
            self.session.close()

    def _end_all(self) -> None:
        """End what is running until nothing is, again and again: a server may not have heard of it yet."""
        end = time.monotonic() + _ENDING
        while (tags := self._tags(None)) and time.monotonic() < end:
            for tag in tags:
                self._end(tag)
            if tags == self._tags(get_ident()):  # a thread does not wait for itself
                return
            time.sleep(0.02)

    def _check_ceiling(self, table: Table) -> None:
        """Refuse a source with more rows than declared: now, when its owner opens it, and never in a question."""
        counted = (self._sources[table.name].frame, self._scans[table.name])  # each owner of a row has a copy
        if any(quietly(each.count) > table.row_ceiling for each in counted):
            raise InvalidPolicy(
                f"the source of {table.name} has more rows than its row_ceiling",
                place=f"tables.{table.name}.row_ceiling",
                fix="raise it if a question may take longer, or give a source with fewer rows",
            )


def _place(table: Table) -> str:
    return f"tables.{table.name}.source"


def _made(scans: Scans, table: Table) -> Frame:
    """Make a clean scan, which Spark analyses now: what it has against it is a refusal of the policy."""
    frame = scans.scan(table.name)
    quietly(lambda: frame.schema)
    return frame


def _plain(value: Any) -> Any:
    """Give a wide number as a whole number of Python's own."""
    return int(value) if isinstance(value, Decimal) else value


_FATES = range(1, 6)


class SparkInspector:
    """An inspector has a policy's sources, opened for their owner to look at."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self._engine = policy, Spark(policy)
        self._tables = self._engine.tables

    def columns(self, table: str) -> Mapping[str, Domain]:
        return self._engine.catalog().tables[table].columns

    def fingerprint(self, table: str) -> str:
        if self._policy.tables[table].public:
            return self._tables.here.fingerprint(table)
        return content(self._tables.source(table), self._tables.session)

    def remarks(self, table: str) -> tuple[str, ...]:
        return self._tables.remarks(table)

    def inspect(self, table: str) -> Inspection:
        """Compare one private table with what the scan makes of it, cell by cell, and count its units' rows."""
        declared = self._policy.tables[table]
        found = list(self._only(self._fates(table)))
        keys = [each for each, domain in declared.columns.items() if domain.values is not None]
        if not declared.every_row:
            found += self._only(self._losses(table, keys))
        return inspected_tables.inspection(found, list(declared.columns), keys, owned=not declared.every_row)

    def _fates(self, table: str) -> Frame:
        """Count rows, those that are somebody's, and for each column what became of the cells of these."""
        rows, cells = self._tables.scans.inspected(table)
        fates = [f"{inspected_tables.fate(cell)} AS f{place}" for place, cell in enumerate(cells)]
        counts = [
            f"COUNT(CASE WHEN k = 1 AND f{place} = {each} THEN 1 END)" for place in range(len(fates)) for each in _FATES
        ]
        seen = rows.selectExpr("k", *fates)
        return self._aggregated(seen, "COUNT(*)", "COUNT(CASE WHEN k = 1 THEN 1 END)", *counts)

    def _losses(self, table: str, keys: list[str]) -> Frame:
        """Count units, those beyond the limit, and what of their rows and groups is beyond each."""
        expression, limit = self._tables.session.expression, self._policy.tables[table].max_rows or 1
        distinct = [f"COUNT(DISTINCT {name(key)}) AS g{place}" for place, key in enumerate(keys)]
        made = [expression(each) for each in ("COUNT(*) AS n", *distinct)]
        units = self._tables.scan(table).groupBy(expression("sf_unit")).agg(*made)
        beyond = [f"COUNT(CASE WHEN n > {limit} THEN 1 END)", f"COALESCE(SUM(GREATEST(n - {limit}, 0)), 0)"]
        losses = [
            each for column in ("n", *(f"g{at}" for at in range(len(keys)))) for each in inspected_tables.lost(column)
        ]
        return self._aggregated(units, "COALESCE(SUM(n), 0)", "COUNT(*)", *beyond, *losses)

    def _aggregated(self, frame: Frame, *totals: str) -> Frame:
        return frame.groupBy().agg(*map(self._tables.session.expression, totals))

    def _only(self, frame: Frame) -> tuple[Any, ...]:
        (row,) = self._tables.run(lambda: frame)
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()
