"""Spark's meaning depends on settings: a session of our own has every one of them pinned, and read back.

Whoever runs a cluster may give it defaults of any kind. What decides how a statement is read, what a cell becomes or
which rows a file has is set here for each session that is opened, and none is used in which it did not stay so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import InvalidPolicy

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
