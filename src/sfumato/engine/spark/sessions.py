"""Open our own session at a Spark server, classic or Connect, without changing the user's session.

A server address gets a Connect session. A DataFrame that a user passes stays in its cluster: a session beside the
user's is opened there, and the plan is moved into it. pyspark is imported when there is something to open.

Spark's results depend on settings: in our own session each of them is pinned, and read back.

An administrator may give a cluster any defaults. What decides how a statement is parsed, what a cell becomes or which
rows a file has is set for each session that is opened, and a session in which it does not stay so is not used.
"""

from __future__ import annotations

import logging
import re
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from threading import get_ident
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.extras import install_command
from sfumato.quick_dataclass import dataclass

PINNED: dict[str, str] = {
    # the meaning of statements
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false",  # ${…} in a text would be replaced by a setting
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.timeTravelVersionKey": "versionAsOf",  # otherwise a table would be read as it is now
    "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.readSideCharPadding": "true",
    # the rows of a source and their cells
    "spark.sql.files.ignoreCorruptFiles": "false",  # a table is read completely or not at all
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # otherwise one old date fails the query
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # one folder would decide the others' type
    # column statistics in a file ignore NaN, and one unit's row moves them: none may skip rows
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.optimizer.metadataOnly": "false",
    # a large table of units over their limits takes long to broadcast
    "spark.sql.broadcastTimeout": "36000",
}
CONNECT = {"spark.sql.adaptive.enabled": "false"}
"""Additional settings at a Connect server, where an interrupt ends the thread of a statement and the jobs it has
started. Adaptive execution starts jobs in other threads: in half of the readings interrupted early, one of them started
after the interrupt and ran to its end with nothing waiting for it.
"""
PINNED_IF_AVAILABLE: Mapping[str, str] = {
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.functionResolution.sessionOrder": "second",  # no user function takes precedence over a built-in
}
"""Settings that have no default value, or that not every version has."""
OLDEST = (4, 0)
CSV = {
    "header": "true",
    "enforceSchema": "false",  # all files have the same header, or the query fails
    "inferSchema": "false",
    "multiLine": "false",  # one line is one record, so that no unit's line hides another's
    "sep": ",",
    "quote": '"',
    "escape": '"',
    "encoding": "UTF-8",
    "mode": "PERMISSIVE",  # a short record is padded with NULL, a long one is truncated
    "nullValue": "\x00sfumato: nothing\x00",  # otherwise a quoted empty cell would be NULL too
    "emptyValue": "",
    "maxColumns": "4000000",  # a line with more cells fails every query; Spark's default is 20,480
    "maxCharsPerColumn": "-1",
}
"""How CSV files are read: every cell as text, which the scan converts to the declared type."""


def pin(session: Any, pinned: Mapping[str, str], policy_path: str) -> None:
    """Refuse a Spark version that is too old, and set what results depend on; refuse if a setting does not stay."""
    if _parse_version(session.version) < OLDEST:
        raise InvalidPolicy(
            f"Spark {'.'.join(map(str, OLDEST))} or newer is required; this server is older",
            place=policy_path,
            fix="use a newer server",
        )
    changed = {name: value for name, value in pinned.items() if not _is_same_setting(session.conf.get(name), value)}
    changed |= {name: value for name, value in PINNED_IF_AVAILABLE.items() if session.conf.isModifiable(name)}
    for name, value in changed.items():
        session.conf.set(name, value)
    for name, value in changed.items():
        if not _is_same_setting(session.conf.get(name), value):
            raise InvalidPolicy(
                f"this server does not allow a session to set {name}, which results depend on",
                place=policy_path,
                fix=f"ask the server's administrator to allow {name} = {value}",
            )


LEAST_RESULT = 1 << 29
"""The least ``spark.driver.maxResultSize`` in bytes: four million rows of some keys and totals, 128 bytes each."""
_SIZE = re.compile(r"([0-9]+)([kmgtp]?)b?", re.IGNORECASE)


def require_large_results(session: Any, policy_path: str) -> None:
    """Refuse a driver that would end a question after its charge, since it may hold fewer rows than plans allow."""
    written = str(session.conf.get("spark.driver.maxResultSize", "1g"))
    size = _SIZE.fullmatch(written.strip())
    byte_count = int(size[1]) << (10 * " kmgtp".index(size[2].lower() or " ")) if size else 0
    if size is None or 0 < byte_count < LEAST_RESULT:
        raise InvalidPolicy(
            f"Spark's driver accepts results of at most {written}: a large question could fail after it was charged",
            place=policy_path,
            fix="start Spark with spark.driver.maxResultSize = 1g, or 0 for no limit",
        )


def _is_same_setting(reported: object, expected: str) -> bool:
    """Compare settings as Spark shows them: durations are shown with their unit."""
    return str(reported) in (expected, f"{expected}s", f"{expected}000ms")


def _parse_version(version: str) -> tuple[int, ...]:
    """Parse the first two numbers of a version, such as 4.1.0-preview.

    >>> _parse_version("4.1.0-preview"), _parse_version("3.5")
    ((4, 1), (3, 5))
    """
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])


T = TypeVar("T")
_DEFAULT_PORT = 15002
_CONNECT_SECONDS = 20
"""How long a server may take to accept a connection."""
_QUIET_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark's loggers that record an error with the cell that caused it."""
_JOB_GROUP = "spark.jobGroup.id"


@dataclass(frozen=True)
class SparkConnection:
    """Our own session at a Spark, with everything pinned that results depend on."""

    spark: Any
    expression: Callable[[str], Any]
    """``expr`` of the same kind of Spark."""
    connect: bool
    cloned: bool = False
    """Whether it started with the settings, views and functions of a user's session."""

    @property
    def has_event_log(self) -> bool:
        """Whether Spark writes the numbers of rows of every operator to a file."""
        return without_cause(lambda: str(self.spark.conf.get("spark.eventLog.enabled", "false")).lower() == "true")

    @contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """Run the body so that ``interrupt`` can end it by a tag, used once; in a classic session the tag is a job
        group.
        """
        if self.connect:
            self.spark.addTag(tag)
            try:
                yield
            finally:
                self.spark.removeTag(tag)
            return
        context = self.spark.sparkContext
        previous_group = context.getLocalProperty(_JOB_GROUP)
        context.setLocalProperty(_JOB_GROUP, tag)
        try:
            yield
        finally:
            context.setLocalProperty(_JOB_GROUP, previous_group)

    def interrupt(self, tag: str) -> None:
        """Interrupt what runs under a tag, and prevent what would still start under it.

        Connect ends the only thread that starts jobs (``settings.CONNECT``); a classic session starts no further job of
        a cancelled group.
        """
        if self.connect:
            self.spark.interruptTag(tag)
        else:
            self.spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(tag)  # noqa: SLF001 - it has no public name

    def move_frame(self, frame: Any) -> Any:
        """Return a DataFrame of another session of the same Spark as one of this session."""
        if self.connect:
            return type(frame)(frame._plan, self.spark)  # noqa: SLF001 - a plan has no public name
        java = self.spark._jvm.org.apache.spark.sql.classic.Dataset  # noqa: SLF001 - nor has a session's Java
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        return type(frame)(java.ofRows(self.spark._jsparkSession, plan), self.spark)  # noqa: SLF001

    def copy_frame(self, frame: Any) -> Any:
        """Keep the rows of a DataFrame on the executors, read once; if lost with an executor, they are not read
        again.
        """
        with self._as_active_session():
            return frame.localCheckpoint(eager=True)

    @contextmanager
    def _as_active_session(self) -> Iterator[None]:
        """Make this session the thread's active one, in which Connect creates the DataFrame of a copy."""
        if not self.connect:
            yield
            return
        active = type(self.spark)._active_session  # noqa: SLF001 - no other way to set it without a default
        previous_session = getattr(active, "session", None)
        active.session = self.spark
        try:
            yield
        finally:
            active.session = previous_session

    def close(self) -> None:
        """End a Connect session; a classic one is only dropped, since stopping it would end the user's own."""
        if self.connect:
            try:
                self.spark.client.set_retry_policies([])  # otherwise an unreachable server is retried for minutes
                self.spark.client.release_session()
                self.spark.client.close()
            except Exception:  # an unreachable server has no session to release
                return


def connect(address: str, policy_path: str) -> SparkConnection:
    """Open a session at a Spark Connect server."""
    connect = _import_pyspark("pyspark.sql.connect.session", policy_path)
    _require_server(address, policy_path)
    return _open_session(lambda: connect.SparkSession(connection=address), True, policy_path)


def open_sibling_session(frame: Any, policy_path: str) -> SparkConnection:
    """Open a session beside that of a DataFrame, at the same Spark."""
    user_session = frame.sparkSession
    if not type(frame).__module__.startswith("pyspark.sql.connect"):
        return _open_session(user_session.newSession, False, policy_path)
    # a clone has the views and files that a plan refers to; a view may hide a table of the same name
    session = _open_session(lambda: user_session.cloneSession(), True, policy_path, cloned=True)
    try:
        without_cause(lambda: _refuse_builtin_names(session, policy_path))
    except (EngineFailed, InvalidPolicy):
        session.close()
        raise
    return session


def _refuse_builtin_names(session: SparkConnection, policy_path: str) -> None:
    """Refuse user functions with the name of a built-in: a statement could mean either."""
    user_functions, builtin_functions = (
        {str(row[0]).lower().rpartition(".")[2] for row in session.spark.sql(f"SHOW {scope} FUNCTIONS").collect()}
        for scope in ("USER", "SYSTEM")
    )
    for function in sorted(user_functions & builtin_functions):
        raise InvalidPolicy(
            f"the session defines a function {function}, which is also the name of a Spark function",
            place=policy_path,
            fix="register it under another name, in a new session",
        )


def _open_session(make: Callable[[], Any], connect: bool, policy_path: str, *, cloned: bool = False) -> SparkConnection:
    kind = "pyspark.sql.connect.functions" if connect else "pyspark.sql.functions.builtin"
    session = None
    try:
        session = SparkConnection(without_cause(make), _import_pyspark(kind, policy_path).expr, connect, cloned)
        without_cause(lambda: pin(session.spark, PINNED | CONNECT if connect else PINNED, policy_path))
        without_cause(lambda: require_large_results(session.spark, policy_path))
    except (EngineFailed, InvalidPolicy) as error:
        if session is not None:
            session.close()
        if isinstance(error, InvalidPolicy):
            raise
        raise InvalidPolicy(
            "a session could not be opened on this Spark",
            place=policy_path,
            fix="check the address, the token in SPARK_CONNECT_AUTHENTICATE_TOKEN, and that Spark is 4.0 or newer",
        ) from None
    return session


def _import_pyspark(module: str, policy_path: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about pandas, which is not used here
            return import_module(module)
    except ImportError:
        raise InvalidPolicy(
            "tables on Spark are read with pyspark, which is not installed",
            place=policy_path,
            fix=install_command("spark"),
        ) from None


def _require_server(address: str, policy_path: str) -> None:
    """Refuse at once where nothing listens: Connect itself would retry for minutes."""
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or _DEFAULT_PORT), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError):
        raise InvalidPolicy(
            "no Spark Connect server listens at this address",
            place=policy_path,
            fix="start one (sbin/start-connect-server.sh), or check the host and the port",
        ) from None


def without_cause(action: Callable[[], T]) -> T:
    """Return the action's result; raise ``EngineFailed`` without the cause, which is not logged: it may quote a
    cell.
    """
    try:
        with _silence_loggers():
            return action()
    except InvalidPolicy:
        raise
    except Exception:  # the same error whatever failed
        pass
    raise EngineFailed


@contextmanager
def _silence_loggers() -> Iterator[None]:
    """Keep this thread's errors out of pyspark's loggers, which record the cells that errors quote."""
    from pyspark.logger import PySparkLogger

    thread = get_ident()

    def is_other_thread(_: logging.LogRecord) -> bool:
        return get_ident() != thread

    loggers = [PySparkLogger.getLogger(logger) for logger in _QUIET_LOGGERS]
    for logger in loggers:
        logger.addFilter(is_other_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_other_thread)
