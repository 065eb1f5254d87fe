"""A policy gets a session of its own at a Spark, classic or Connect: nothing of a user's session is changed.

A server at an address gets a Connect session. A frame that somebody hands over stays in the cluster it is of: a session
beside its own is made there, and its plan is moved into that. pyspark is imported when there is something to open.

Spark's meaning depends on settings: a session of our own has every one of them pinned, and read back.

Whoever runs a cluster may give it defaults of any kind. What decides how a statement is read, what a cell becomes or
which rows a file has is set here for each session that is opened, and none is used in which it did not stay so.
"""

from __future__ import annotations

import logging
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from threading import get_ident
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sfumato.errors import EngineFailed, InvalidPolicy

PINNED: dict[str, str] = {
    # what statements mean
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",  # ${…} in a text would become a setting of that name
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.timeTravelVersionKey": "versionAsOf",  # else a table would be read as it is now
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.readSideCharPadding": "true",
    # which rows a source has, and what its cells are
    "spark.sql.files.ignoreCorruptFiles": "false",  # a table is read whole, or not at all
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # else an old date fails, and with it the question
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # one unit's folder decides the others' type
    # the ends of a column that a file states leave NaN out, and one unit's row moves them: no row is skipped by them
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.optimizer.metadataOnly": "false",
    # a large table of units beyond their limits takes its time
    "spark.sql.broadcastTimeout": "36000",
}
CONNECT = {"spark.sql.adaptive.enabled": "false"}
"""What is pinned beside at a Connect server: there an interrupt ends the thread of a statement and the jobs that it has
begun. A plan that is adapted while it runs begins its jobs in other threads: one of them was begun after the interrupt
in half of the readings that were ended early, and it ran to its end with nobody waiting for it.
"""
WHERE_KNOWN: Mapping[str, str] = {
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.functionResolution.sessionOrder": "second",  # no function of a user's stands before Spark's own
}
"""Settings that have no value at first, or that not every version has."""
OLDEST = (4, 0)
CSV = {
    "header": "true",
    "enforceSchema": "false",  # every file has the same header, or the question fails
    "inferSchema": "false",
    "multiLine": "false",  # one line is one record, so that one unit's line hides no other
    "sep": ",",
    "quote": '"',
    "escape": '"',
    "encoding": "UTF-8",
    "mode": "PERMISSIVE",  # a record that is too short is filled with NULL, one too long is cut
    "nullValue": "\x00sfumato: nothing\x00",  # else a quoted cell without letters would be NULL too
    "emptyValue": "",
    "maxColumns": "4000000",  # a line with more cells fails every question; Spark's own limit is 20,480
    "maxCharsPerColumn": "-1",
}
"""How CSV files are read: every cell as text, which the scan reads as what is declared."""


def pin(session: Any, pinned: Mapping[str, str], place: str) -> None:
    """Refuse a Spark that is too old, and set what decides meaning; a setting that does not stay is a refusal."""
    if _version(session.version) < OLDEST:
        raise InvalidPolicy(
            f"Spark is of version {'.'.join(map(str, OLDEST))} or newer; this one is older",
            place=place,
            fix="name a newer server",
        )
    changed = {name: value for name, value in pinned.items() if not _same(session.conf.get(name), value)}
    changed |= {name: value for name, value in WHERE_KNOWN.items() if session.conf.isModifiable(name)}
    for name, value in changed.items():
        session.conf.set(name, value)
    for name, value in changed.items():
        if not _same(session.conf.get(name), value):
            raise InvalidPolicy(
                f"a server lets a session set {name}, since what Spark computes depends on it; this one does not",
                place=place,
                fix=f"ask whoever runs the server to allow {name} = {value}",
            )


def _same(found: object, wanted: str) -> bool:
    """Compare as settings are shown: some are times, shown with their unit."""
    return str(found) in (wanted, f"{wanted}s", f"{wanted}000ms")


def _version(written: str) -> tuple[int, ...]:
    """Read the first two numbers of a version, such as 4.1.0-preview.

    >>> _version("4.1.0-preview"), _version("3.5")
    ((4, 1), (3, 5))
    """
    return tuple(int(part) if part.isdigit() else 0 for part in written.split(".")[:2])


T = TypeVar("T")
_PORT = 15002
_SECONDS = 20
"""How long a server may take to accept a connection."""
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of pyspark's that write down an error with the cell that caused it."""
_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True)
class SparkConnection:
    """A session is one of our own at a Spark, with all that decides meaning pinned."""

    spark: Any
    expression: Callable[[str], Any]
    """``expr`` of the same kind."""
    connect: bool
    cloned: bool = False
    """Whether it began with the settings, views and functions of a user's session."""

    @contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """Let whatever runs in this thread be ended by a tag, used once; in a classic session it is a group of jobs."""
        if self.connect:
            self.spark.addTag(tag)
            try:
                yield
            finally:
                self.spark.removeTag(tag)
            return
        jobs = self.spark.sparkContext
        before = jobs.getLocalProperty(_GROUP)
        jobs.setLocalProperty(_GROUP, tag)
        try:
            yield
        finally:
            jobs.setLocalProperty(_GROUP, before)

    def interrupt(self, tag: str) -> None:
        """End what runs under a tag, and whatever would still be begun under it.

        Connect ends the one thread that begins jobs (``settings.CONNECT``); a classic session begins no further job of
        a group that was ended.
        """
        if self.connect:
            self.spark.interruptTag(tag)
        else:
            self.spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(tag)  # noqa: SLF001 - it has no public name

    def moved(self, frame: Any) -> Any:
        """Give a frame of another session of the same Spark as one of this."""
        if self.connect:
            return type(frame)(frame._plan, self.spark)  # noqa: SLF001 - a plan has no public name
        java = self.spark._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001 - nor has a session's Java
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        return type(frame)(java.ofRows(self.spark._jsparkSession, plan), self.spark)  # noqa: SLF001

    def copied(self, frame: Any) -> Any:
        """Keep the rows of a frame on the executors, read once; lost with an executor, they are not read again."""
        with self._active():
            return frame.localCheckpoint(eager=True)

    @contextmanager
    def _active(self) -> Iterator[None]:
        """Connect makes the frame of a copy in the session that is active in the thread."""
        if not self.connect:
            yield
            return
        active = type(self.spark)._active_session  # noqa: SLF001 - it can be set in no other way without a default
        before = getattr(active, "session", None)
        active.session = self.spark
        try:
            yield
        finally:
            active.session = before

    def close(self) -> None:
        """End a Connect session; a classic one is forgotten, since stopping it would end the user's own."""
        if self.connect:
            try:
                self.spark.client.set_retry_policies([])  # else a server that is gone is waited for, for minutes
                self.spark.client.release_session()
                self.spark.client.close()
            except Exception:  # a server that is gone has forgotten the session
                return


def at_address(address: str, place: str) -> SparkConnection:
    """Open a session at a Spark Connect server."""
    connect = _pyspark("pyspark.sql.connect.session", place)
    _require_server(address, place)
    return _opened(lambda: connect.SparkSession(connection=address), True, place)


def beside(frame: Any, place: str) -> SparkConnection:
    """Open a session beside that of a frame, at the same Spark."""
    own = frame.sparkSession
    if not type(frame).__module__.startswith("pyspark.sql.connect"):
        return _opened(own.newSession, False, place)
    # a clone knows the views and files that a plan refers to; a view may have the name of another table
    session = _opened(lambda: own.cloneSession(), True, place, cloned=True)
    try:
        quietly(lambda: _require_own_functions(session, place))
    except (EngineFailed, InvalidPolicy):
        session.close()
        raise
    return session


def _require_own_functions(session: SparkConnection, place: str) -> None:
    """Refuse a user's functions that are called like Spark's own: a statement could mean either."""
    users, owned = (
        {str(row[0]).lower().rpartition(".")[2] for row in session.spark.sql(f"SHOW {whose} FUNCTIONS").collect()}
        for whose in ("USER", "SYSTEM")
    )
    for function in sorted(users & owned):
        raise InvalidPolicy(
            f"a function of the session's own is called {function}, as one of Spark's is",
            place=place,
            fix="register it under another name, in a new session",
        )


def _opened(make: Callable[[], Any], connect: bool, place: str, *, cloned: bool = False) -> SparkConnection:
    kind = "pyspark.sql.connect.functions" if connect else "pyspark.sql.functions.builtin"
    session = None
    try:
        session = SparkConnection(quietly(make), _pyspark(kind, place).expr, connect, cloned)
        quietly(lambda: pin(session.spark, PINNED | CONNECT if connect else PINNED, place))
    except (EngineFailed, InvalidPolicy) as refused:
        if session is not None:
            session.close()
        if isinstance(refused, InvalidPolicy):
            raise
        raise InvalidPolicy(
            "this Spark does not let a session be opened and set up",
            place=place,
            fix="check the address and, in SPARK_CONNECT_AUTHENTICATE_TOKEN, the token; Spark is 4.0 or newer",
        ) from None
    return session


def _pyspark(module: str, place: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of a pandas that is not used here
            return import_module(module)
    except ImportError:
        raise InvalidPolicy(
            "tables on Spark are read with pyspark, which is not here", place=place, fix="install sfumato[spark]"
        ) from None


def _require_server(address: str, place: str) -> None:
    """Refuse at once where nothing listens: Connect itself would try for minutes."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or _PORT), timeout=_SECONDS).close()
    except (OSError, ValueError):
        raise InvalidPolicy(
            "no Spark Connect server listens at this address",
            place=place,
            fix="start one (sbin/start-connect-server.sh), or check the host and the port",
        ) from None


def quietly(action: Callable[[], T]) -> T:
    """Give what the action gives, or ``EngineFailed`` without its cause, written down nowhere: it may quote a cell."""
    try:
        with _silent():
            return action()
    except InvalidPolicy:
        raise
    except Exception:  # whatever it was, what is said of it is the same
        pass
    raise EngineFailed


@contextmanager
def _silent() -> Iterator[None]:
    """Keep this thread's errors out of the loggers in which pyspark writes them down, with the cells they quote."""
    from pyspark.logger import PySparkLogger

    thread = get_ident()

    def others(_: logging.LogRecord) -> bool:
        return get_ident() != thread

    loggers = [PySparkLogger.getLogger(each) for each in _LOGGERS]
    for logger in loggers:
        logger.addFilter(others)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(others)
