"""A source on Spark becomes a frame with the true names and stored types of its columns, and a way to see a change.

Files are known by their paths, sizes and times. Delta and Iceberg tables are read as of one version. A view, a frame
somebody hands over and a table of any other provider have no version that Spark could tell: their rows are copied on
the executors whenever they are read, since a statement reads them up to three times and a mixed reading would be of no
table at all; and no stored answer is reused for them.

Spark's types become a few plain cells: numbers, truths, dates, times, and texts without their collations.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urlsplit

from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import ITEM, CleanItem, StoredColumn
from sfumato.engine.spark.sessions import CSV, SparkConnection, quietly
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spark import SparkSpelling, name, real
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.mechanisms import bits
from sfumato.plan.values.grammars import LONGEST
from sfumato.policy.table_sources import SparkFrame, SparkTable

_KINDS = {
    "tinyint": Stored.INTEGER,
    "smallint": Stored.INTEGER,
    "int": Stored.INTEGER,
    "bigint": Stored.INTEGER,
    "decimal": Stored.NUMBER,
    "float": Stored.REAL,
    "double": Stored.REAL,
    "boolean": Stored.BOOLEAN,
    "date": Stored.DATE,
    "timestamp": Stored.TIMESTAMP,
    "timestamp_ntz": Stored.TIMESTAMP,
    "string": Stored.TEXT,
    "char": Stored.TEXT,
    "varchar": Stored.TEXT,
    "binary": Stored.BYTES,
}
"""By the name of the type without its parameters and its collation."""
_WRITTEN = {Stored.INTEGER, Stored.NUMBER, Stored.BOOLEAN, Stored.DATE, Stored.TIMESTAMP}
"""What has a text that every engine would give it, beside texts."""
_NAN = "CAST('NaN' AS DOUBLE)"
_LOWEST, _BEYOND = real(-(2.0**63)), real(2.0**63)
_LIST = "array<"


def stored(column: str, told: str) -> StoredColumn:
    """Say what the cells of a column are whose type Spark calls so; what a list is of, it tells inside <>."""
    if told.startswith(_LIST):
        return StoredColumn(column, Stored.LIST, told, stored(ITEM, told[len(_LIST) : -1]))
    return StoredColumn(column, _KINDS.get(_family(told), Stored.OTHER), told)


def _family(told: str) -> str:
    return told.partition("(")[0].partition(" ")[0]


class SparkCells:
    """These are the expressions that make plain cells of Spark's columns; none of them fails on any cell."""

    def plain(self, column: StoredColumn) -> str:
        x = name(column.name)
        match column.kind:
            case Stored.INTEGER:
                return x if column.told == "bigint" else f"CAST({x} AS BIGINT)"
            case Stored.NUMBER:
                return f"CAST({x} AS DOUBLE)"
            case Stored.REAL:
                return f"NULLIF({_double(column)}, {_NAN})"
            case Stored.DATE:  # not every date beyond the calendar has a time
                return (
                    f"CASE WHEN {x} > DATE '9999-12-31' THEN date_add(DATE '9999-12-31', 1)"
                    f" WHEN {x} < DATE '0001-01-01' THEN date_sub(DATE '0001-01-01', 1) ELSE {x} END"
                )
            case Stored.TIMESTAMP:
                return x if column.told == "timestamp_ntz" else f"CAST({x} AS TIMESTAMP_NTZ)"
            case Stored.TEXT:
                return _letters(column)
        return x

    def short(self, column: StoredColumn) -> str:
        x = self.plain(column)
        return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"

    def text(self, column: StoredColumn) -> str | None:
        if column.kind is Stored.TEXT:
            return _letters(column)
        return f"CAST({name(column.name)} AS STRING)" if column.kind in _WRITTEN else None

    def whole(self, column: StoredColumn) -> str:
        x = name(column.name)
        return f"({x} = FLOOR({x}))" if column.kind is Stored.NUMBER else f"({x} = rint({x}))"

    def nearest(self, column: StoredColumn) -> str:
        """Write what is whole alone: the cast rounds toward zero, and takes 2^63 for 2^63 − 1."""
        x = name(column.name)
        held = f"{x} = FLOOR({x})" if column.kind is Stored.NUMBER else f"{x} >= {_LOWEST} AND {x} < {_BEYOND}"
        return f"CASE WHEN {held} THEN TRY_CAST({x} AS BIGINT) END"

    def there(self, column: StoredColumn) -> str:
        return f"({name(column.name)} IS NOT NULL)"

    def listed(self, column: StoredColumn, most: int, item: CleanItem) -> str:
        fields = ", ".join(f"'{each}', {sql}" for sql, each in item.cells.items())
        plain = f"transform(slice({name(column.name)}, 1, {most}), {ITEM} -> named_struct({fields}))"
        return f"transform({plain}, {ITEM} -> {Generator(SparkSpelling(), str).scalar(item.inline())})"

    def key(self, column: StoredColumn) -> str:
        if column.kind is Stored.REAL:  # −0 equals 0, and has one text with it so
            x = _double(column)
            return f"CASE WHEN {x} = 0 THEN {real(0.0)} ELSE NULLIF({x}, {_NAN}) END"
        if column.kind is Stored.BYTES:
            return f"hex({name(column.name)})"
        # days beyond the calendar are as many units, and so are all digits of a decimal number
        return self.plain(column) if column.kind in (Stored.INTEGER, Stored.TEXT) else name(column.name)


def _double(column: StoredColumn) -> str:
    x = name(column.name)
    return x if column.told == "double" else f"CAST({x} AS DOUBLE)"


def _letters(column: StoredColumn) -> str:
    """Write a text told apart letter by letter: a cast to STRING drops a collation, under which rows that differ would
    be grouped together; and what fills up a CHAR is no part of its text.
    """
    x = name(column.name)
    if _family(column.told) == "char":
        return f"RTRIM(CAST({x} AS STRING))"
    return x if column.told == "string" else f"CAST({x} AS STRING)"


Frame = Any
_IN_FILES = {"parquet", "csv", "orc", "text"}
_OF_LINES = {"csv", "json", "xml"}
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""Where a column of texts keeps that it is a CHAR."""
_PARTITIONS = re.compile(r"(/[^/=]+=[^/]*)+$")
"""The folders inside a table that its partitions are kept in, such as day=2024-06-01."""
MOST_FILES = 100
"""A table of more files than these is known by its folder alone."""
_KEEP_VERSIONS = ("delta", "iceberg")


@dataclass(frozen=True)
class SparkSource:
    """A source is an open table of Spark's."""

    frame: Frame
    """Its rows, the columns called as the source calls them."""
    columns: tuple[StoredColumn, ...]
    addresses: tuple[str, ...]
    """Where it is, for the ledger, by every name; none for a frame that is handed over, which is known by its rows."""
    look: Callable[[], str]
    """Finds what changes whenever the rows do; no row is read for it."""
    held: bool = True
    """Whether ``look`` tells every change: else rows are copied where they are read."""


def opened(source: SparkTable | SparkFrame, session: SparkConnection, place: str) -> SparkSource:
    """Open a source; whatever Spark says against it is one refusal."""
    try:
        return quietly(lambda: _opened(source, session, place))
    except EngineFailed:
        raise InvalidPolicy(
            "Spark does not give this table: there is none of the name, or no right to read it",
            place=place,
            fix="check the relation or the path and its format, and the rights of whoever asks",
        ) from None


def _opened(source: SparkTable | SparkFrame, session: SparkConnection, place: str) -> SparkSource:
    if isinstance(source, SparkFrame):
        nonce = str(bits.integer(128))
        return _of_frame(session.moved(source.frame), (), lambda: nonce, held=False)
    described = {} if source.relation is None else _described(source.relation, session)
    form = source.format if source.relation is None else described.get("provider", "").lower()
    addresses = _addresses(source, described)
    if form in _KEEP_VERSIONS:
        return _as_of(source, form, session, addresses, place)
    if source.version is not None:
        raise InvalidPolicy(
            "a version of its rows can be named of a Delta or an Iceberg table alone",
            place=place.removesuffix("source") + "version",
            fix="remove version",
        )
    if source.relation is not None and form in _OF_LINES:
        raise InvalidPolicy(
            f"one line may fail every question about a table that is kept in {form}, by options of its own",
            place=place.removesuffix("source") + "relation",
            fix='name its files with path and format = "csv", or keep the table in Parquet',
        )
    load = _loader(source, session)
    if form in _IN_FILES:
        if _cached(load()):
            raise InvalidPolicy(
                "Spark has rows of this table in its cache, which may be older than those in its files",
                place=place,
                fix="take the table out of the cache (UNCACHE TABLE, or unpersist)",
            )
        return _of_frame(frame := load(), (*addresses, *_files(frame, source)), lambda: _listing(load, session))
    nonce = str(bits.integer(128))
    return _of_frame(frame := load(), (*addresses, *_files(frame, source)), lambda: nonce, held=False)


def _addresses(source: SparkTable, described: Mapping[str, str]) -> tuple[str, ...]:
    """Name a source in one way, whatever it is called: by its catalog, and by where its files are."""
    server = _host(source.address)
    if source.relation is None:
        return (_located(source.path or "", server),)
    parts = [described.get(each, "") for each in ("catalog", "database", "table")]
    named = ".".join(parts) if all(parts) else described.get("name") or source.relation.replace("`", "")
    where = described.get("location", "")
    return (f"spark://{server}/{named}", *([_located(where, server)] if where else []))


def _files(frame: Frame, source: SparkTable) -> list[str]:
    """Name rows by the folders that they are kept in, whatever view or pattern leads there, and by their files where
    these are few: a single file that is named shares its folder with other tables.
    """
    server, paths = _host(source.address), [unquote(each) for each in frame.inputFiles()]
    folders = [_PARTITIONS.sub("", posixpath.dirname(each)) for each in paths]
    named = _located(source.path or "", server)
    known = dict.fromkeys(_located(each, server) for each in (*folders, *(paths if len(paths) <= MOST_FILES else ())))
    return [] if [_located(each, server) for each in paths] == [named] else [each for each in known if each != named]


def _located(path: str, server: str) -> str:
    """Spell a path in one way. A file is one of its server; what is kept elsewhere is the same for every server.

    >>> _located("file:///data//visits/", "host:1"), _located("/data/visits", "host:1")
    ('spark://host:1/data/visits', 'spark://host:1/data/visits')
    >>> _located("s3a://clinic/visits/", "host:1")
    'spark://s3/clinic/visits'
    """
    parts = urlsplit(path)
    where = posixpath.normpath("/" + parts.path.lstrip("/"))
    if parts.scheme in ("", "file"):
        return f"spark://{server}{where}"
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"spark://{scheme}/{parts.netloc}{where}"


def _loader(source: SparkTable, session: SparkConnection) -> Callable[[], Frame]:
    if source.relation is not None:
        relation = _quoted(source.relation)
        return lambda: session.spark.table(relation)
    options = CSV if source.format == "csv" else {}
    return lambda: session.spark.read.options(**options).format(source.format).load(source.path)


def _as_of(
    source: SparkTable, form: str, session: SparkConnection, addresses: tuple[str, ...], place: str
) -> SparkSource:
    """Read one version of a table that keeps its versions: the one that is named, or the newest there is now."""
    if source.version is not None and not (source.version.isascii() and source.version.isdigit()):
        raise InvalidPolicy(
            "a version of a Delta table, and a snapshot of an Iceberg table, is a whole number; a branch would move",
            place=place.removesuffix("source") + "version",
            fix="write the number that the history of the table shows",
        )
    if form == "iceberg" and source.path is not None and "/" not in source.path:
        raise InvalidPolicy(
            "Iceberg takes a path without a / for a name in a catalog, and a table has one name",
            place=place.removesuffix("source") + "path",
            fix='write relation = "catalog.schema.table" instead of path and format',
        )
    try:
        version = source.version or str(_newest(source, form, session.spark).collect()[0][0])
        load = partial(_version_frame, source, form, session.spark, version)
        return _of_frame(load(), addresses, lambda: _still_there(source, form, session.spark, version, load))
    except Exception:
        raise InvalidPolicy(
            f"this Spark cannot read a version of a table in {form}, or there is none of this name",
            place=place,
            fix=f"give the server the extension for {form}, or name files in Parquet",
        ) from None


def _version_frame(source: SparkTable, form: str, spark: Any, version: str) -> Frame:
    """Read a version with the columns it had.

    By its name a table is read as Spark's own time travel does: Iceberg's ``snapshot-id`` would show the columns that
    the table has now, and a column that was dropped and added again would be empty in rows that have it.
    """
    if source.relation is not None:
        return spark.read.option("versionAsOf", version).table(_quoted(source.relation))
    option = "snapshot-id" if form == "iceberg" else "versionAsOf"
    return spark.read.format(form).option(option, version).load(source.path)


def _still_there(source: SparkTable, form: str, spark: Any, version: str, load: Callable[[], Frame]) -> str:
    """Name a version, which must still be one that can be read.

    A snapshot of Iceberg's has a number of its own. Delta counts from 0 in every table, so the table is named beside
    it: another one may have been made in its place.
    """
    _ = load().schema  # Spark looks for the version: no row is read
    if form == "iceberg":
        return version
    (table,) = spark.sql(f"DESCRIBE DETAIL {_delta(source)}").select("id").collect()
    return f"{version} of {table[0]}"


def _newest(source: SparkTable, form: str, spark: Any) -> Frame:
    """Find the newest version of a table: the last operation of Delta's history, or where Iceberg's main branch is."""
    if form == "delta":
        return spark.sql(f"DESCRIBE HISTORY {_delta(source)} LIMIT 1").select("version")
    if source.relation is None:
        branches = spark.read.format(form).load(f"{source.path}#refs")
    else:
        branches = spark.table(f"{_quoted(source.relation)}.refs")
    return branches.filter("name = 'main'").select("snapshot_id")


def _delta(source: SparkTable) -> str:
    return f"delta.{name(source.path or '')}" if source.relation is None else _quoted(source.relation)


def _of_frame(frame: Frame, addresses: tuple[str, ...], look: Callable[[], str], *, held: bool = True) -> SparkSource:
    columns = tuple(stored(field.name, _told(field)) for field in frame.schema.fields)
    return SparkSource(frame, columns, addresses, look, held)


def _told(field: Any) -> str:
    return str((field.metadata or {}).get(_CHAR) or field.dataType.simpleString())


def _described(relation: str, session: SparkConnection) -> Mapping[str, str]:
    """Find what a catalog says of a table: its full name, what keeps its rows, and where; a view has no provider."""
    described = session.spark.sql(f"DESCRIBE TABLE EXTENDED {_quoted(relation)}").collect()
    start = next((place for place, row in enumerate(described) if str(row[0]).startswith("# Detailed")), 0)
    told = {str(row[0]).lower(): str(row[1]) for row in described[start:]} if start else {}
    return {each: value for each, value in told.items() if each != "provider" or told.get("type") != "VIEW"}


def _cached(frame: Frame) -> bool:
    """Tell whether a frame would be read from the cache, which all sessions of a Spark share."""
    return "InMemoryRelation" in frame._explain_string("simple")  # noqa: SLF001 - nothing public gives the text


def _listing(load: Callable[[], Frame], session: SparkConnection) -> str:
    """Hash the paths, sizes and times of the files that a frame would be read from now: files, and no cache."""
    frame = load()
    if _cached(frame):
        raise EngineFailed
    paths = [_alone(each) for each in sorted(frame.inputFiles())]
    if not paths:
        return sha256(b"no files").hexdigest()
    files = session.spark.read.format("binaryFile").load(paths).select("path", "length", "modificationTime").collect()
    return sha256(repr(sorted((row[0], row[1], str(row[2])) for row in files)).encode()).hexdigest()


def _alone(address: str) -> str:
    """Spell the address of a file as a path that names it alone: an address has "%20" where there is a blank, and in a
    path brackets and stars stand for other letters.

    >>> print(_alone("file:/data/two%20words/part%20[1].parquet"))
    file:/data/two words/part \\[1\\].parquet
    """
    return re.sub(r"([][{}*?\\])", r"\\\1", unquote(address))


def _quoted(relation: str) -> str:
    """Quote a name part by part: catalog.schema.table."""
    return ".".join(name(part.strip("`")) for part in relation.split("."))


def _host(address: str) -> str:
    parts = urlsplit(address)
    return f"{(parts.hostname or '').lower()}:{parts.port or 15002}"


def content(source: SparkSource, session: SparkConnection) -> str:
    """Hash all rows, whatever their order, on the executors; this reads the whole source."""
    placed = source.frame.toDF(*(f"c{place}" for place, _ in enumerate(source.columns)))  # names may occur twice
    hashed: Sequence[str] = [f"c{place}" for place, each in enumerate(source.columns) if "map<" not in each.told]
    row = f"xxhash64({', '.join(hashed)})"
    asked = ("COUNT(*)", f"SUM(CAST({row} AS DECIMAL(38,0)))", f"bit_xor(xxhash64({row}, 1))")
    found = quietly(lambda: placed.groupBy().agg(*map(session.expression, asked)).collect())
    return sha256(repr([str(each) for each in found[0]]).encode()).hexdigest()
