"""Open a source on Spark as a DataFrame with the original names and stored types of its columns, and a change token.

Files are identified by paths, sizes and times. Delta and Iceberg tables are read as of one version. A view, a DataFrame
that a user passes and a table of any other provider have no version that Spark knows: their rows are copied on the
executors whenever they are read, since a statement reads them up to three times and a mixed reading would be of no
table at all; and no stored answer is reused for them.

Spark's types become a few plain ones: numbers, booleans, dates, timestamps, and texts without their collations.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urlsplit

from sfumato.engine.sources.clean_cells import Stored
from sfumato.engine.sources.clean_scans import ITEM, CleanItem, StoredColumn
from sfumato.engine.spark.sessions import CSV, SparkConnection, without_cause
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spark import SparkSpelling, quote_identifier, real
from sfumato.errors import EngineFailed, InvalidPolicy
from sfumato.mechanisms import bits
from sfumato.plan.values.grammars import LONGEST, LONGEST_ID
from sfumato.policy.table_sources import SparkFrame, SparkTable
from sfumato.quick_dataclass import dataclass

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
_TYPES_WITH_TEXT = {Stored.INTEGER, Stored.NUMBER, Stored.BOOLEAN, Stored.DATE, Stored.TIMESTAMP}
"""Types, other than text, with a text form that every engine would give."""
_NAN = "CAST('NaN' AS DOUBLE)"
_MIN_BIGINT, _ABOVE_BIGINT = real(-(2.0**63)), real(2.0**63)
_LIST = "array<"


def stored_column(column: str, type_name: str) -> StoredColumn:
    """Return the stored column for Spark's name of its type; the item type of an array is inside <>."""
    if type_name.startswith(_LIST):
        return StoredColumn(column, Stored.LIST, type_name, stored_column(ITEM, type_name[len(_LIST) : -1]))
    return StoredColumn(column, _KINDS.get(_type_family(type_name), Stored.OTHER), type_name)


def _type_family(type_name: str) -> str:
    return type_name.partition("(")[0].partition(" ")[0]


class SparkCells:
    """The SQL that converts Spark columns to plain cells; it fails on no cell."""

    def plain(self, column: StoredColumn) -> str:
        x = quote_identifier(column.name)
        match column.kind:
            case Stored.INTEGER:
                return x if column.type_name == "bigint" else f"CAST({x} AS BIGINT)"
            case Stored.NUMBER:
                return f"CAST({x} AS DOUBLE)"
            case Stored.REAL:
                return f"NULLIF({_double(column)}, {_NAN})"
            case Stored.DATE:  # not every date beyond the calendar has a timestamp
                return (
                    f"CASE WHEN {x} > DATE '9999-12-31' THEN date_add(DATE '9999-12-31', 1)"
                    f" WHEN {x} < DATE '0001-01-01' THEN date_sub(DATE '0001-01-01', 1) ELSE {x} END"
                )
            case Stored.TIMESTAMP:
                return x if column.type_name == "timestamp_ntz" else f"CAST({x} AS TIMESTAMP_NTZ)"
            case Stored.TEXT:
                return _bytewise_text(column)
        return x

    def short(self, column: StoredColumn) -> str:
        x = self.plain(column)
        return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST} THEN {x} END"

    def text(self, column: StoredColumn) -> str | None:
        if column.kind is Stored.TEXT:
            return _bytewise_text(column)
        return f"CAST({quote_identifier(column.name)} AS STRING)" if column.kind in _TYPES_WITH_TEXT else None

    def is_integer(self, column: StoredColumn) -> str:
        x = quote_identifier(column.name)
        return f"({x} = FLOOR({x}))" if column.kind is Stored.NUMBER else f"({x} = rint({x}))"

    def nearest_integer(self, column: StoredColumn) -> str:
        """Return whole numbers only: the cast truncates toward zero, and turns 2^63 into 2^63 − 1."""
        x = quote_identifier(column.name)
        in_range = (
            f"{x} = FLOOR({x})" if column.kind is Stored.NUMBER else f"{x} >= {_MIN_BIGINT} AND {x} < {_ABOVE_BIGINT}"
        )
        return f"CASE WHEN {in_range} THEN TRY_CAST({x} AS BIGINT) END"

    def is_present(self, column: StoredColumn) -> str:
        return f"({quote_identifier(column.name)} IS NOT NULL)"

    def clean_list(self, column: StoredColumn, max_items: int, item: CleanItem) -> str:
        fields = ", ".join(f"'{cell}', {sql}" for sql, cell in item.cells.items())
        plain = f"transform(slice({quote_identifier(column.name)}, 1, {max_items}), {ITEM} -> named_struct({fields}))"
        return f"transform({plain}, {ITEM} -> {Generator(SparkSpelling(), str).scalar(item.inline())})"

    def key(self, column: StoredColumn) -> str:
        if column.kind is Stored.REAL:  # −0 equals 0: both get one text
            x = _double(column)
            return f"CASE WHEN {x} = 0 THEN {real(0.0)} ELSE NULLIF({x}, {_NAN}) END"
        if column.kind is Stored.BYTES:
            x = quote_identifier(column.name)
            return f"CASE WHEN OCTET_LENGTH({x}) <= {LONGEST_ID} THEN hex({x}) END"
        if column.kind is Stored.TEXT:
            return f"CASE WHEN OCTET_LENGTH({self.plain(column)}) <= {LONGEST_ID} THEN {self.plain(column)} END"
        # dates beyond the calendar are distinct units, and so are decimals in all their digits
        return self.plain(column) if column.kind is Stored.INTEGER else quote_identifier(column.name)


def _double(column: StoredColumn) -> str:
    x = quote_identifier(column.name)
    return x if column.type_name == "double" else f"CAST({x} AS DOUBLE)"


def _bytewise_text(column: StoredColumn) -> str:
    """Return a text that compares byte by byte: a cast to STRING drops a collation, which would group different texts
    together; and the padding of a CHAR is not part of its text.
    """
    x = quote_identifier(column.name)
    if _type_family(column.type_name) == "char":
        return f"RTRIM(CAST({x} AS STRING))"
    return x if column.type_name == "string" else f"CAST({x} AS STRING)"


Frame = Any
_FILE_FORMATS = {"parquet", "csv", "orc", "text"}
_LINE_FORMATS = {"csv", "json", "xml"}
_CHAR_METADATA = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key that marks a text column as CHAR or VARCHAR."""
_PARTITIONS = re.compile(r"(/[^/=]+=[^/]*)+$")
"""The partition folders inside a table, such as day=2024-06-01."""
MAX_FILE_ADDRESSES = 100
"""A table of more files than this is identified by its folder alone."""
_VERSIONED_FORMATS = ("delta", "iceberg")


@dataclass(frozen=True)
class SparkSource:
    """An open table of Spark."""

    frame: Frame
    """Its rows, with the columns as the source names them."""
    columns: tuple[StoredColumn, ...]
    addresses: tuple[str, ...]
    """Its locations for the ledger, under every name; none for a DataFrame that a user passes, which is identified by
    its rows.
    """
    change_token: Callable[[], str]
    """Returns a token that changes whenever the rows do; reads no row."""
    has_version: bool = True
    """Whether ``look`` detects every change; otherwise rows are copied where they are read."""


def open_source(source: SparkTable | SparkFrame, session: SparkConnection, policy_path: str) -> SparkSource:
    """Open a source; every error of Spark becomes one refusal."""
    try:
        return without_cause(lambda: _open_source(source, session, policy_path))
    except EngineFailed:
        raise InvalidPolicy(
            "Spark cannot read this table: it does not exist, or the user has no right to read it",
            place=policy_path,
            fix="check the relation (or the path and format) and the user's rights",
        ) from None


def _open_source(source: SparkTable | SparkFrame, session: SparkConnection, policy_path: str) -> SparkSource:
    if isinstance(source, SparkFrame):
        nonce = str(bits.random_bits(128))
        return _source_of_frame(session.move_frame(source.frame), (), lambda: nonce, held=False)
    described = {} if source.relation is None else _describe_table(source.relation, session)
    form = source.format if source.relation is None else described.get("provider", "").lower()
    addresses = _canonical_addresses(source, described)
    if form in _VERSIONED_FORMATS:
        return _open_version(source, form, session, addresses, policy_path)
    if source.version is not None:
        raise InvalidPolicy(
            "only Delta and Iceberg tables have a version",
            place=policy_path.removesuffix("source") + "version",
            fix="remove version",
        )
    if source.relation is not None and form in _LINE_FORMATS:
        raise InvalidPolicy(
            f"a catalog table stored as {form} is read with its own options, so a single malformed line "
            "can make every query fail",
            place=policy_path.removesuffix("source") + "relation",
            fix='name its files with path and format = "csv", or store the table as Parquet',
        )
    load = _table_reader(source, session)
    if form in _FILE_FORMATS:
        if _is_cached(load()):
            raise InvalidPolicy(
                "Spark has cached rows of this table, which may be older than its files",
                place=policy_path,
                fix="remove the table from the cache (UNCACHE TABLE, or unpersist)",
            )
        return _source_of_frame(
            frame := load(), (*addresses, *_file_addresses(frame, source)), lambda: _file_listing_hash(load, session)
        )
    nonce = str(bits.random_bits(128))
    return _source_of_frame(frame := load(), (*addresses, *_file_addresses(frame, source)), lambda: nonce, held=False)


def _canonical_addresses(source: SparkTable, described: Mapping[str, str]) -> tuple[str, ...]:
    """Return canonical addresses of a source: by its catalog name, and by the location of its files."""
    server = _host_and_port(source.address)
    if source.relation is None:
        return (_location_address(source.path or "", server),)
    parts = [described.get(part, "") for part in ("catalog", "database", "table")]
    qualified = ".".join(parts) if all(parts) else described.get("name") or source.relation.replace("`", "")
    location = described.get("location", "")
    return (f"spark://{server}/{qualified}", *([_location_address(location, server)] if location else []))


def _file_addresses(frame: Frame, source: SparkTable) -> list[str]:
    """Return the folders that hold the rows, whatever view or pattern leads there, and the files where they are few: a
    single file shares its folder with other tables.
    """
    server, paths = _host_and_port(source.address), [unquote(path) for path in frame.inputFiles()]
    folders = [_PARTITIONS.sub("", posixpath.dirname(path)) for path in paths]
    source_address = _location_address(source.path or "", server)
    addresses = dict.fromkeys(
        _location_address(path, server) for path in (*folders, *(paths if len(paths) <= MAX_FILE_ADDRESSES else ()))
    )
    return (
        []
        if [_location_address(path, server) for path in paths] == [source_address]
        else [address for address in addresses if address != source_address]
    )


def _location_address(path: str, server: str) -> str:
    """Return the canonical address of a path. A file belongs to its server; object storage is the same for every
    server.

    >>> _location_address("file:///data//visits/", "host:1"), _location_address("/data/visits", "host:1")
    ('spark://host:1/data/visits', 'spark://host:1/data/visits')
    >>> _location_address("s3a://clinic/visits/", "host:1")
    'spark://s3/clinic/visits'
    """
    parts = urlsplit(path)
    folder = posixpath.normpath("/" + parts.path.lstrip("/"))
    if parts.scheme in ("", "file"):
        return f"spark://{server}{folder}"
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    return f"spark://{scheme}/{parts.netloc}{folder}"


def _table_reader(source: SparkTable, session: SparkConnection) -> Callable[[], Frame]:
    if source.relation is not None:
        relation = _quote_relation(source.relation)
        return lambda: session.spark.table(relation)
    options = CSV if source.format == "csv" else {}
    return lambda: session.spark.read.options(**options).format(source.format).load(source.path)


def _open_version(
    source: SparkTable, form: str, session: SparkConnection, addresses: tuple[str, ...], policy_path: str
) -> SparkSource:
    """Open one version of a Delta or Iceberg table: the one that is named, or the newest."""
    if source.version is not None and not (source.version.isascii() and source.version.isdigit()):
        raise InvalidPolicy(
            "the version of a Delta or Iceberg table must be a whole number: a branch or tag can change",
            place=policy_path.removesuffix("source") + "version",
            fix="write the version or snapshot number from the table's history",
        )
    if form == "iceberg" and source.path is not None and "/" not in source.path:
        raise InvalidPolicy(
            "for Iceberg, a path without '/' names a table of the catalog, which is declared with relation instead",
            place=policy_path.removesuffix("source") + "path",
            fix='write relation = "catalog.schema.table" instead of path and format',
        )
    try:
        version = source.version or str(_newest_version(source, form, session.spark).collect()[0][0])
        load = partial(_version_frame, source, form, session.spark, version)
        return _source_of_frame(load(), addresses, lambda: _version_token(source, form, session.spark, version, load))
    except Exception:
        raise InvalidPolicy(
            f"Spark cannot open this {form.capitalize()} table",
            place=policy_path,
            fix=f"check that the table and its version exist and that Spark has the {form.capitalize()} extension, or "
            "use Parquet files",
        ) from None


def _version_frame(source: SparkTable, form: str, spark: Any, version: str) -> Frame:
    """Read a version with the columns it had.

    A table in a catalog is read with Spark's own time travel: Iceberg's ``snapshot-id`` would show the columns that the
    table has now, and a column that was dropped and added again would be empty in rows that have it.
    """
    if source.relation is not None:
        return spark.read.option("versionAsOf", version).table(_quote_relation(source.relation))
    option = "snapshot-id" if form == "iceberg" else "versionAsOf"
    return spark.read.format(form).option(option, version).load(source.path)


def _version_token(source: SparkTable, form: str, spark: Any, version: str, load: Callable[[], Frame]) -> str:
    """Return the token of a version, which must still be readable.

    An Iceberg snapshot has a unique number. Delta counts from 0 in every table, so the table's id is included: another
    table may have been created in its place.
    """
    _ = load().schema  # Spark checks that the version exists; reads no row
    if form == "iceberg":
        return version
    (table_id,) = spark.sql(f"DESCRIBE DETAIL {_delta_name(source)}").select("id").collect()
    return f"{version} of {table_id[0]}"


def _newest_version(source: SparkTable, form: str, spark: Any) -> Frame:
    """Return the newest version of a table: the last operation in Delta's history, or Iceberg's main branch."""
    if form == "delta":
        return spark.sql(f"DESCRIBE HISTORY {_delta_name(source)} LIMIT 1").select("version")
    if source.relation is None:
        branches = spark.read.format(form).load(f"{source.path}#refs")
    else:
        branches = spark.table(f"{_quote_relation(source.relation)}.refs")
    return branches.filter("name = 'main'").select("snapshot_id")


def _delta_name(source: SparkTable) -> str:
    return (
        f"delta.{quote_identifier(source.path or '')}" if source.relation is None else _quote_relation(source.relation)
    )


def _source_of_frame(
    frame: Frame, addresses: tuple[str, ...], look: Callable[[], str], *, held: bool = True
) -> SparkSource:
    columns = tuple(stored_column(field.name, _type_name(field)) for field in frame.schema.fields)
    return SparkSource(frame, columns, addresses, look, held)


def _type_name(field: Any) -> str:
    return str((field.metadata or {}).get(_CHAR_METADATA) or field.dataType.simpleString())


def _describe_table(relation: str, session: SparkConnection) -> Mapping[str, str]:
    """Return what the catalog says of a table: its full name, provider and location; a view has no provider."""
    described = session.spark.sql(f"DESCRIBE TABLE EXTENDED {_quote_relation(relation)}").collect()
    start = next((index for index, row in enumerate(described) if str(row[0]).startswith("# Detailed")), 0)
    details = {str(row[0]).lower(): str(row[1]) for row in described[start:]} if start else {}
    return {key: value for key, value in details.items() if key != "provider" or details.get("type") != "VIEW"}


def _is_cached(frame: Frame) -> bool:
    """Return whether a DataFrame would be read from the cache, which all sessions of a Spark share."""
    return "InMemoryRelation" in frame._explain_string("simple")  # noqa: SLF001 - nothing public gives the text


def _file_listing_hash(load: Callable[[], Frame], session: SparkConnection) -> str:
    """Hash the paths, sizes and times of the files that a DataFrame would be read from now; fail if it is cached."""
    frame = load()
    if _is_cached(frame):
        raise EngineFailed
    paths = [_escape_path(path) for path in sorted(frame.inputFiles())]
    if not paths:
        return sha256(b"no files").hexdigest()
    files = session.spark.read.format("binaryFile").load(paths).select("path", "length", "modificationTime").collect()
    return sha256(repr(sorted((row[0], row[1], str(row[2])) for row in files)).encode()).hexdigest()


def _escape_path(address: str) -> str:
    """Convert a file's URL to a path that matches this file only: decode "%20" to a blank, and escape the brackets and
    stars that are wildcards in a path.

    >>> print(_escape_path("file:/data/two%20words/part%20[1].parquet"))
    file:/data/two words/part \\[1\\].parquet
    """
    return re.sub(r"([][{}*?\\])", r"\\\1", unquote(address))


def _quote_relation(relation: str) -> str:
    """Quote a name part by part: catalog.schema.table."""
    return ".".join(quote_identifier(part.strip("`")) for part in relation.split("."))


def _host_and_port(address: str) -> str:
    parts = urlsplit(address)
    return f"{(parts.hostname or '').lower()}:{parts.port or 15002}"


def hash_content(source: SparkSource, session: SparkConnection) -> str:
    """Hash all rows, whatever their order, on the executors; reads the whole source."""
    frame = source.frame.toDF(*(f"c{index}" for index, _ in enumerate(source.columns)))  # names may repeat
    hashable: Sequence[str] = [
        f"c{index}" for index, column in enumerate(source.columns) if "map<" not in column.type_name
    ]
    row = f"xxhash64({', '.join(hashable)})"
    aggregates = ("COUNT(*)", f"SUM(CAST({row} AS DECIMAL(38,0)))", f"bit_xor(xxhash64({row}, 1))")
    rows = without_cause(lambda: frame.groupBy().agg(*map(session.expression, aggregates)).collect())
    return sha256(repr([str(total) for total in rows[0]]).encode()).hexdigest()
