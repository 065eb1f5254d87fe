"""A source says where the rows of a table are: in a file, in a database, on a server, or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sfumato.errors import InvalidPolicy

POSTGRES, SPARK = "postgresql", "sc"
_POSTGRES = (POSTGRES, "postgres")
_FORMATS = ("parquet", "csv", "delta", "iceberg")
_SECRETS = {"password", "sslpassword", "token"}
_OF_LIBPQ = (
    "host hostaddr port user dbname service application_name connect_timeout target_session_attrs client_encoding "
    "passfile sslmode sslrootcert sslcert sslkey sslcrl sslcrldir sslsni ssl_min_protocol_version "
    "ssl_max_protocol_version channel_binding require_auth requirepeer gssencmode krbsrvname keepalives "
    "keepalives_idle keepalives_interval keepalives_count tcp_user_timeout schema"
)
_OF_CONNECT = "user_id use_ssl session_id user_agent"
_HARMLESS = {*_OF_LIBPQ.split(), *_OF_CONNECT.split()}
"""The parameters of an address that hold no secret: any other may."""


@dataclass(frozen=True)
class File:
    """A file holds a table of its own: CSV or Parquet, or a pattern that several such files match."""

    path: Path

    def __repr__(self) -> str:
        return f"<File {self.path}>"


@dataclass(frozen=True)
class DatabaseTable:
    """A database table is a table or view inside a database file."""

    path: Path
    relation: str

    def __repr__(self) -> str:
        return f"<DatabaseTable {self.relation} in {self.path}>"


@dataclass(frozen=True)
class InMemory:
    """An in-memory table is held by this process: Arrow, pandas or polars."""

    table: Any

    def __repr__(self) -> str:
        return "<InMemory: a table that this process holds>"  # never its rows


@dataclass(frozen=True)
class PostgresTable:
    """A PostgreSQL table is a table, a partitioned table or a view that a server holds."""

    address: str
    """The server and its database, such as postgresql://host/clinic, without a password."""
    relation: str
    version: str | None = None
    """What the owner calls the rows as they are now: while it stays, stored answers are reused."""

    def __repr__(self) -> str:
        return f"<PostgresTable {self.relation} at {self.address}>"


@dataclass(frozen=True)
class SparkTable:
    """A Spark table is a table of a catalog, or files of one format, that a Spark Connect server reads."""

    address: str
    """The server, such as sc://host:15002."""
    relation: str | None = None
    path: str | None = None
    format: str | None = None
    version: str | None = None
    """The version of a Delta table or the snapshot of an Iceberg table that is read: the newest where none is named."""

    def __repr__(self) -> str:
        return f"<SparkTable {self.relation or self.path} at {self.address}>"


@dataclass(frozen=True, eq=False)
class SparkFrame:
    """A Spark frame is a DataFrame of Spark's, classic or Connect, that this process holds."""

    frame: Any

    def __repr__(self) -> str:
        return "<SparkFrame: a DataFrame that this process holds>"  # never its rows


Source = File | DatabaseTable | InMemory | PostgresTable | SparkTable | SparkFrame
"""Where a table's rows are."""
OnServer = PostgresTable | SparkTable


def source_of(
    given: Any, relation: str | None, *, path: str | None, form: str | None, version: str | None, place: str
) -> Source:
    """Read a source as it may be written: a path, the address of a server, or a table that this process holds."""
    if isinstance(given, Source):
        return given
    scheme = given.partition("://")[0] if isinstance(given, str) and "://" in given else ""
    if scheme in _POSTGRES:
        return _postgres(given, relation, path, form, version, place)
    if scheme == SPARK:
        return _spark(given, relation, path, form, version, place)
    if scheme:
        raise InvalidPolicy(
            "a source is a file on this machine, or a table of a server that is known here",
            place=f"{place}.source",
            fix="name a file, postgresql://host/database, or sc://host:15002 for Spark",
        )
    for name, value in (("path", path), ("format", form), ("version", version)):
        if value is not None:
            raise InvalidPolicy(f"{name} is said of a table on a server", place=f"{place}.{name}", fix=f"remove {name}")
    if not isinstance(given, (str, Path)):
        return SparkFrame(given) if _of_spark(given) else InMemory(given)
    return File(Path(given)) if relation is None else DatabaseTable(Path(given), relation)


def engine_of(source: Source) -> tuple[str, str]:
    """Name the engine that reads a source, and where it is: tables of one policy are read by one engine in one
    place.
    """
    if isinstance(source, PostgresTable):
        return "PostgreSQL", source.address
    if isinstance(source, SparkTable):
        return "Spark", source.address
    return ("Spark", "a DataFrame") if isinstance(source, SparkFrame) else ("DuckDB", "this machine")


def check_one_engine(private: Sequence[tuple[str, Source]]) -> None:
    """Refuse private tables that live in two places: an engine joins no rows that another one holds."""
    for name, source in private[1:]:
        if engine_of(source) != engine_of(private[0][1]):
            raise InvalidPolicy(
                "the private tables of a policy live in one engine, at one address",
                place=f"tables.{name}.source",
                fix=f"keep it where {private[0][0]} is, or give it a policy of its own",
            )


def _of_spark(given: object) -> bool:
    """Tell a DataFrame of Spark's by where its class is defined: nothing is imported to find out."""
    return any(each.__module__.split(".")[:2] == ["pyspark", "sql"] for each in type(given).__mro__)


def _postgres(
    address: str, relation: str | None, path: str | None, form: str | None, version: str | None, place: str
) -> PostgresTable:
    _check_address(address, f"{place}.source", 'source = "postgresql://host/database"')
    for name, value in (("path", path), ("format", form)):
        if value is not None:
            raise InvalidPolicy(
                "a table of PostgreSQL is named by its relation", place=f"{place}.{name}", fix=f"remove {name}"
            )
    if relation is None:
        raise InvalidPolicy(
            "a source on a PostgreSQL server names its table",
            place=f"{place}.relation",
            fix='write relation = "public.visits"',
        )
    return PostgresTable(address, relation, _version(version, place))


def _spark(
    address: str, relation: str | None, path: str | None, form: str | None, version: str | None, place: str
) -> SparkTable:
    _check_address(address, f"{place}.source", 'source = "sc://host:15002"')
    if (relation is None) == (path is None):
        raise InvalidPolicy(
            "a source on a Spark server is a table of a catalog, or files at a path",
            place=f"{place}.relation",
            fix='write relation = "catalog.schema.table", or path and format = "parquet"',
        )
    if (path is None) != (form is None) or (form is not None and form not in _FORMATS):
        raise InvalidPolicy(
            "files at a path have a format",
            place=f"{place}.format",
            fix=f"write format as one of {', '.join(_FORMATS)}",
        )
    if path is not None and (not isinstance(path, str) or not path.strip()):
        raise InvalidPolicy("a path is a text", place=f"{place}.path", fix='write path = "/data/visits"')
    return SparkTable(address, relation, path, form, _version(version, place))


def _version(version: object, place: str) -> str | None:
    if version is None or (isinstance(version, str) and 0 < len(version) <= 100 and version.isprintable()):
        return version
    raise InvalidPolicy(
        "a version is a text of 1 to 100 visible letters", place=f"{place}.version", fix='write version = "2024-06"'
    )


def _check_address(address: str, place: str, example: str) -> None:
    """Refuse an address that is none, and one with a password in it: a policy is read by many."""
    try:
        parts = urlsplit(address)
        named = {each.lower() for each in parse_qs(f"{parts.query}&{parts.path}".replace(";", "&"))}
        secret = parts.password is not None or bool(named & _SECRETS)
        unknown = bool(named - _HARMLESS)
        plain = address.isprintable() and " " not in address and (parts.port is None or parts.port > 0)
    except ValueError:
        secret, unknown, plain = False, False, False
    if secret:
        raise InvalidPolicy(
            "a policy holds no password",
            place=place,
            fix="remove it: passwords are read from the environment, a password file or a service",
        )
    if unknown:
        known = (_OF_CONNECT if address.startswith(f"{SPARK}://") else _OF_LIBPQ).split()
        raise InvalidPolicy(
            "an address in a policy has only parameters that are known to hold no secret",
            place=place,
            fix=f"leave out all but {', '.join(known)}",
        )
    if not plain:
        raise InvalidPolicy("this is no address of a server", place=place, fix=f"write {example}")


def check_ledger(ledger: object) -> None:
    """Refuse to keep the ledger of a policy anywhere but in a database, or in the file beside the policy's own."""
    if ledger is None:
        return
    if not isinstance(ledger, str) or ledger.split("://")[0] not in _POSTGRES:
        raise InvalidPolicy(
            "a policy names the ledger only where it is kept in a database",
            place="ledger",
            fix='write ledger = "postgresql://host/db" without a password, or leave it out',
        )
    _check_address(ledger, "ledger", 'ledger = "postgresql://host/database"')
