"""Sources: where the rows of a table are, in a file, a database, a server, or memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from sfumato.errors import InvalidPolicy
from sfumato.quick_dataclass import dataclass

POSTGRES, SPARK = "postgresql", "sc"
_POSTGRES_SCHEMES = (POSTGRES, "postgres")
_MARIADB_SCHEMES = ("mariadb", "mysql")
_SPARK_FORMATS = ("parquet", "csv", "delta", "iceberg")
_SECRET_PARAMETERS = {"password", "sslpassword", "token"}
_OBJECT_STORES = {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs"}
_PATH_SECRET = re.compile(r"[?&](sig|signature|token|password|awsaccesskeyid|x-(amz|goog)-[a-z-]+)=", re.IGNORECASE)
"""Parameters of signed addresses, which give access to whoever has the address."""
_LIBPQ_PARAMETERS = (
    "host hostaddr port user dbname service application_name connect_timeout target_session_attrs client_encoding "
    "passfile sslmode sslrootcert sslcert sslkey sslcrl sslcrldir sslsni ssl_min_protocol_version "
    "ssl_max_protocol_version channel_binding require_auth requirepeer gssencmode krbsrvname keepalives "
    "keepalives_idle keepalives_interval keepalives_count tcp_user_timeout schema"
)
_SPARK_PARAMETERS = "user_id use_ssl session_id user_agent"
_MARIADB_PARAMETERS = "unix_socket ssl_ca"
_ALLOWED_PARAMETERS = {*_LIBPQ_PARAMETERS.split(), *_SPARK_PARAMETERS.split(), *_MARIADB_PARAMETERS.split()}
"""Address parameters that hold no secret; any other parameter is refused."""


@dataclass(frozen=True)
class File:
    """A CSV or Parquet file, or a glob pattern of several such files."""

    path: Path

    def __repr__(self) -> str:
        return f"<File {self.path}>"


@dataclass(frozen=True)
class DatabaseTable:
    """A table or view in a database file."""

    path: Path
    relation: str

    def __repr__(self) -> str:
        return f"<DatabaseTable {self.relation} in {self.path}>"


@dataclass(frozen=True)
class InMemory:
    """An Arrow, pandas or polars table in this process."""

    table: Any

    def __repr__(self) -> str:
        return "<InMemory: a table in this process>"  # never its rows


@dataclass(frozen=True)
class PostgresTable:
    """A table, partitioned table or view on a PostgreSQL server."""

    address: str
    """The server and its database, such as postgresql://host/clinic, without a password."""
    relation: str
    version: str | None = None
    """The owner's name for the current state of the rows; stored answers are reused until it changes."""

    def __repr__(self) -> str:
        return f"<PostgresTable {self.relation} at {self.address}>"


@dataclass(frozen=True)
class MariaDBTable:
    """A table on a MariaDB server."""

    address: str
    """The server and its database, such as mariadb://reader@host/clinic, without a password."""
    relation: str
    version: str | None = None
    """The owner's name for the current state of the rows; stored answers are reused until it changes."""

    def __repr__(self) -> str:
        return f"<MariaDBTable {self.relation} at {self.address}>"


@dataclass(frozen=True)
class SparkTable:
    """A catalog table, or files of one format, read by a Spark Connect server."""

    address: str
    """The server, such as sc://host:15002."""
    relation: str | None = None
    path: str | None = None
    format: str | None = None
    version: str | None = None
    """The version of a Delta table or the snapshot of an Iceberg table; the newest if None."""

    def __repr__(self) -> str:
        return f"<SparkTable {self.relation or self.path} at {self.address}>"


@dataclass(frozen=True, eq=False)
class SparkFrame:
    """A Spark DataFrame, classic or Connect, in this process."""

    frame: Any

    def __repr__(self) -> str:
        return "<SparkFrame: a DataFrame in this process>"  # never its rows


Source = File | DatabaseTable | InMemory | PostgresTable | MariaDBTable | SparkTable | SparkFrame
"""Where the rows of a table are."""
OnServer = PostgresTable | MariaDBTable | SparkTable


def parse_source(
    source: Any, relation: str | None, *, path: str | None, format_name: str | None, version: str | None, place: str
) -> Source:
    """Parse a source in any notation: a path, the address of a server, or a table in memory."""
    if isinstance(source, Source):
        return source
    scheme = source.partition("://")[0] if isinstance(source, str) and "://" in source else ""
    if scheme in _POSTGRES_SCHEMES:
        return _database_table(PostgresTable, source, relation, path, format_name, version, place)
    if scheme in _MARIADB_SCHEMES:
        return _database_table(MariaDBTable, source, relation, path, format_name, version, place)
    if scheme == SPARK:
        return _spark_table(source, relation, path, format_name, version, place)
    if scheme.lower() in _OBJECT_STORES:
        raise InvalidPolicy(
            "files in an object store can only be read by a Spark server, which has the credentials for them",
            place=f"{place}.source",
            fix='write source = "sc://host:15002", this address as path, and format = "parquet"',
        )
    if scheme:
        raise InvalidPolicy(
            "a source must be a file on this machine, or a table on a PostgreSQL, MariaDB or Spark server",
            place=f"{place}.source",
            fix="name a file, postgresql://host/database, mariadb://host/database, or sc://host:15002 for Spark",
        )
    for name, value in (("path", path), ("format", format_name), ("version", version)):
        if value is not None:
            raise InvalidPolicy(
                f"{name} can only be set for a table on a server", place=f"{place}.{name}", fix=f"remove {name}"
            )
    if not isinstance(source, (str, Path)):
        return SparkFrame(source) if _is_spark_frame(source) else InMemory(source)
    return File(Path(source)) if relation is None else DatabaseTable(Path(source), relation)


def engine_and_address(source: Source) -> tuple[str, str]:
    """Return the name of the engine that reads a source, and its address."""
    if isinstance(source, PostgresTable | MariaDBTable):
        return _DATABASES[type(source)][0], source.address
    if isinstance(source, SparkTable):
        return "Spark", source.address
    return ("Spark", "a DataFrame") if isinstance(source, SparkFrame) else ("DuckDB", "this machine")


def is_on_server(source: Source) -> bool:
    """Return whether an engine outside this process reads a source."""
    return engine_and_address(source)[0] != "DuckDB"


def check_same_engine(private: Sequence[tuple[str, Source]]) -> None:
    """Refuse private tables in different engines or at different addresses: they could not be joined."""
    for name, source in private[1:]:
        if engine_and_address(source) != engine_and_address(private[0][1]):
            raise InvalidPolicy(
                "all private tables of a policy must be in one engine, at one address",
                place=f"tables.{name}.source",
                fix=f"store this table where the table {private[0][0]} is, or declare it in another policy",
            )


def _is_spark_frame(table: object) -> bool:
    """Return whether this is a Spark DataFrame, by the module of its class; pyspark is not imported."""
    return any(base.__module__.split(".")[:2] == ["pyspark", "sql"] for base in type(table).__mro__)


_DATABASES: dict[type[PostgresTable | MariaDBTable], tuple[str, str, str]] = {
    PostgresTable: ("PostgreSQL", "postgresql", "public.visits"),
    MariaDBTable: ("MariaDB", "mariadb", "visits"),
}
"""The engine of a table in a database, the scheme of its address, and how a relation is named there."""


def _database_table(
    kind: type[PostgresTable | MariaDBTable],
    address: str,
    relation: str | None,
    path: str | None,
    form: str | None,
    version: str | None,
    place: str,
) -> PostgresTable | MariaDBTable:
    engine, scheme, example = _DATABASES[kind]
    _check_address(address, f"{place}.source", f'source = "{scheme}://host/database"')
    for name, value in (("path", path), ("format", form)):
        if value is not None:
            raise InvalidPolicy(
                f"{name} cannot be set for a {engine} table, which is not read from a file",
                place=f"{place}.{name}",
                fix=f"remove {name}",
            )
    if relation is None:
        raise InvalidPolicy(
            f"a {engine} source needs the name of its table",
            place=f"{place}.relation",
            fix=f'write relation = "{example}"',
        )
    return kind(address, relation, _check_version(version, place))


def _spark_table(
    address: str, relation: str | None, path: str | None, form: str | None, version: str | None, place: str
) -> SparkTable:
    _check_address(address, f"{place}.source", 'source = "sc://host:15002"')
    if (relation is None) == (path is None):
        raise InvalidPolicy(
            "a Spark source must be either a catalog table (relation) or files (path)",
            place=f"{place}.relation",
            fix='write relation = "catalog.schema.table", or path and format = "parquet"',
        )
    if (path is None) != (form is None) or (form is not None and form not in _SPARK_FORMATS):
        raise InvalidPolicy(
            "files at a path need a format",
            place=f"{place}.format",
            fix=f"write format as one of {', '.join(_SPARK_FORMATS)}",
        )
    if path is not None and (not isinstance(path, str) or not path.strip()):
        raise InvalidPolicy("path must be a string", place=f"{place}.path", fix='write path = "/data/visits"')
    if path is not None and _has_credentials(path):
        raise InvalidPolicy(
            "a policy must not contain credentials",
            place=f"{place}.path",
            fix="remove them from the path: give them to the Spark server in its own settings",
        )
    return SparkTable(address, relation, path, form, _check_version(version, place))


def _has_credentials(path: str) -> bool:
    """Return whether a path has a key and its secret before the bucket, as s3a://key:secret@bucket, or a signature.

    A secret may have slashes, and no bucket has a colon. A container may stand before an account, as in
    abfss://container@account.dfs.core.windows.net.
    """
    scheme, is_url, rest = path.partition("://")
    authority, is_azure = rest.partition("/")[0], scheme.lower().startswith(("abfs", "wasb"))
    has_port = scheme.lower() not in _OBJECT_STORES
    before_host, at_sign, _ = authority.rpartition("@")
    has_key = (bool(at_sign) and not is_azure) or ":" in (before_host if has_port else authority)
    return bool(is_url) and (has_key or _PATH_SECRET.search(rest) is not None)


def _check_version(version: object, place: str) -> str | None:
    if version is None or (isinstance(version, str) and 0 < len(version) <= 100 and version.isprintable()):
        return version
    raise InvalidPolicy(
        "version must be a string of 1 to 100 visible characters",
        place=f"{place}.version",
        fix='write version = "2024-06"',
    )


def _check_address(address: str, place: str, example: str) -> None:
    """Refuse an invalid address, and one with a password or an unknown parameter: policies are read by many."""
    try:
        parts = urlsplit(address)
        parameter_names = {name.lower() for name in parse_qs(f"{parts.query}&{parts.path}".replace(";", "&"))}
        has_secret = parts.password is not None or bool(parameter_names & _SECRET_PARAMETERS)
        has_unknown = bool(parameter_names - _ALLOWED_PARAMETERS)
        is_valid = address.isprintable() and " " not in address and (parts.port is None or parts.port > 0)
    except ValueError:
        has_secret, has_unknown, is_valid = False, False, False
    if has_secret:
        raise InvalidPolicy(
            "a policy must not contain a password",
            place=place,
            fix="remove it: passwords are read from the environment, a password file or a service",
        )
    if has_unknown:
        parameters = {SPARK: _SPARK_PARAMETERS, **dict.fromkeys(_MARIADB_SCHEMES, _MARIADB_PARAMETERS)}
        allowed = parameters.get(address.partition("://")[0], _LIBPQ_PARAMETERS).split()
        raise InvalidPolicy(
            "this address has a parameter that could contain a secret, and a policy must not contain secrets",
            place=place,
            fix=f"remove all parameters except {', '.join(allowed)}",
        )
    if not is_valid:
        raise InvalidPolicy("this is not a valid server address", place=place, fix=f"write {example}")


def check_ledger(ledger: object) -> None:
    """Refuse a ledger address other than a PostgreSQL database; without one, the ledger is a file beside the policy."""
    if ledger is None:
        return
    if not isinstance(ledger, str) or ledger.split("://")[0] not in _POSTGRES_SCHEMES:
        raise InvalidPolicy(
            "the ledger of a policy must be a PostgreSQL database, or be left out for a file beside the policy",
            place="ledger",
            fix='write ledger = "postgresql://host/db" without a password, or leave it out',
        )
    _check_address(ledger, "ledger", 'ledger = "postgresql://host/database"')
