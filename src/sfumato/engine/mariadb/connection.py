"""Sessions at a MariaDB server: read-only transactions on one snapshot, with every setting pinned that affects results.

Passwords are read from ``MYSQL_PWD`` or the ``[client]`` group of ``~/.my.cnf``, as MariaDB's own clients do.
"""

from __future__ import annotations

import configparser
import os
import re
import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from sfumato.engine.server_sessions import (
    Parameters,
    SessionPool,
    T,
    certificate_check,
    import_client,
    without_cause,
)
from sfumato.engine.spellings.mariadb import COLLATION
from sfumato.errors import InvalidPolicy

if TYPE_CHECKING:
    import pymysql

_SQL_MODE = (
    "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)
_SWITCHES_ON = (
    "index_merge index_merge_union index_merge_sort_union index_merge_intersection index_condition_pushdown "
    "derived_merge derived_with_keys firstmatch loosescan materialization in_to_exists semijoin subquery_cache "
    "partial_match_rowid_merge partial_match_table_scan outer_join_with_cache semijoin_with_cache "
    "join_cache_incremental join_cache_hashed join_cache_bka optimize_join_buffer_size table_elimination extended_keys "
    "exists_to_in orderby_uses_equalities condition_pushdown_for_derived split_materialized "
    "condition_pushdown_for_subquery rowid_filter condition_pushdown_from_having"
)
_SWITCHES_OFF = "index_merge_sort_intersection mrr mrr_cost_based mrr_sort_keys not_null_range_scan"
_SWITCHES = [*(f"{name}=on" for name in _SWITCHES_ON.split()), *(f"{name}=off" for name in _SWITCHES_OFF.split())]
"""What the optimiser may do: as a server has it that nobody configured; it is not inherited from this one."""
_SETTINGS = {
    "sql_mode": f"'{_SQL_MODE}'",
    "character_set_client": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": COLLATION,
    "time_zone": "'+00:00'",
    "default_week_format": "0",
    "div_precision_increment": "4",
    "default_regex_flags": "''",
    "in_predicate_conversion_threshold": "0",
    "optimizer_switch": f"'{','.join(_SWITCHES)}'",
    "old_mode": "''",
    "sql_auto_is_null": "0",
    "standard_compliant_cte": "1",
    "join_cache_level": "8",
    "join_buffer_size": "67108864",
    "join_buffer_space_limit": "268435456",
    "max_recursive_iterations": "4294967295",
    "max_sort_length": "65536",
    "sort_buffer_size": "33554432",
    "sql_select_limit": "18446744073709551615",
    "sql_big_selects": "1",
    "max_statement_time": "3600",
    "lock_wait_timeout": "60",
    "wait_timeout": "86400",
    "idle_transaction_timeout": "0",
    "idle_readonly_transaction_timeout": "0",
    "tmp_disk_table_size": "18446744073709551615",
    "tmp_memory_table_size": "16777216",
    "max_heap_table_size": "16777216",
    "max_session_mem_used": "9223372036854775807",
    "completion_type": "'NO_CHAIN'",
    "tx_isolation": "'REPEATABLE-READ'",
    "tx_read_only": "1",
}
"""Set before each transaction. Sort keys longer than ``max_sort_length`` bytes would be cut: no text has so many. Long
lists of IN would become joins, and texts of joins are too long for an index, but not for a hash.
"""
_OLD_SETTINGS = {"big_tables": "0"}
"""Set where the server still has them."""
_CONNECT_SECONDS = 20
_READ_SECONDS = 3_700
"""Longer than a statement may take on the server: a server that says nothing for so long is gone."""
_LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1")
OLDEST = (10, 11)


class MariaDBSessions(SessionPool):
    """The sessions at one MariaDB server."""

    server_name = "MariaDB"
    _settings: dict[str, str] | None = None

    def open(self) -> pymysql.Connection[Any]:
        return open_session(self.address, self.place)

    def begin(self, session: pymysql.Connection[Any]) -> None:
        """Begin a transaction with our settings; its snapshot is of the moment of the first row that is read."""
        if self._settings is None:
            names = ", ".join(f"'{name}'" for name in _OLD_SETTINGS)
            stored = self.fetch(session, f"SHOW VARIABLES WHERE variable_name IN ({names})", ())
            self._settings = _SETTINGS | {name: _OLD_SETTINGS[name] for name, _ in stored}
        session.query("SET SESSION " + ", ".join(f"{name} = {value}" for name, value in self._settings.items()))
        session.query("START TRANSACTION READ ONLY")

    def fetch(self, session: pymysql.Connection[Any], statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        assert not parameters  # a statement holds all its values
        with session.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def cancel(self, session: pymysql.Connection[Any]) -> None:
        with closing(self.open()) as other:
            other.query(f"KILL QUERY {session.thread_id()}")

    def is_alive(self, session: pymysql.Connection[Any]) -> bool:
        return bool(session.open)

    def run_in_savepoint(self, _: Any, action: Callable[[], T]) -> T:
        """Run an action; a statement that fails does not end a transaction here."""
        return without_cause(action)


def open_session(address: str, policy_path: str) -> pymysql.Connection[Any]:
    """Open a session; over a network it is encrypted and the server's certificate is verified."""
    client = import_client("pymysql", "PyMySQL", "MariaDB", "mariadb", policy_path)
    options = _connection_options(address, policy_path)
    failure = None
    try:
        session = client.connect(**options, conv=_decoders(client))
    except (client.Error, OSError, RuntimeError) as error:
        failure = error
    if failure is not None:
        raise _connection_refusal(failure, policy_path) from None
    if "ssl" in options and not isinstance(getattr(session, "_sock", None), ssl.SSLSocket):
        session.close()
        raise _connection_refusal(None, policy_path)
    return session


def _decoders(client: Any) -> dict[Any, Any]:
    """Return the client's decoders of results; of decimals only whole ones are sent."""
    return {**client.converters.conversions, client.constants.FIELD_TYPE.NEWDECIMAL: int}


def _connection_options(address: str, policy_path: str) -> dict[str, Any]:
    """Parse an address; over a network the server's certificate must be verified."""
    parts = urlsplit(address)
    parameters = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host, socket = unquote(parts.hostname or ""), parameters.get("unix_socket")
    database = unquote(parts.path.lstrip("/"))
    if not database or "/" in database:
        raise InvalidPolicy(
            "the address of a MariaDB server must name one database",
            place=policy_path,
            fix='write source = "mariadb://user@host/database"',
        )
    options = {
        "host": host or "localhost",
        "port": parts.port or 3306,
        "database": database,
        "charset": "utf8mb4",
        "connect_timeout": _CONNECT_SECONDS,
        "read_timeout": _READ_SECONDS,
        "write_timeout": _READ_SECONDS,
        "password": _password(policy_path),
        "program_name": "sfumato",
        "autocommit": None,
    }
    options |= {"user": unquote(parts.username)} if parts.username else {}
    if host not in _LOCAL_HOSTS:
        if socket is not None:
            raise InvalidPolicy(
                "this address names both another host and a socket, but a socket is always on this machine",
                place=policy_path,
                fix="leave out unix_socket, or write mariadb://user@localhost/database?unix_socket=…",
            )
        return options | {"ssl": certificate_check(parameters.get("ssl_ca"), "ssl_ca", policy_path)}
    return options | {"unix_socket": socket, "ssl_disabled": True}


def _password(policy_path: str) -> str:
    """Return the password that MariaDB's own clients would send; none if none is configured. What is wrong in a file is
    not quoted: it may be the password.
    """
    from pymysql.optionfile import Parser

    if "MYSQL_PWD" in os.environ:
        return os.environ["MYSQL_PWD"]
    options = Parser(strict=False, interpolation=None)
    try:
        options.read(Path.home() / ".my.cnf", encoding="utf-8")
        return options.get("client", "password") if options.has_option("client", "password") else ""
    except (configparser.Error, UnicodeDecodeError, OSError):
        pass
    raise InvalidPolicy(
        "~/.my.cnf cannot be read as an options file in UTF-8",
        place=policy_path,
        fix="write password=… under [client] in it, or set MYSQL_PWD",
    )


_REFUSALS = {
    1045: (
        "the server did not accept the account or its password",
        "set MYSQL_PWD, or write password=… under [client] in ~/.my.cnf",
    ),
    1698: ("the server does not allow this account to connect", "check the account and its authentication method"),
    1044: ("this account may not use the database", "run GRANT SELECT on its tables to the account"),
    1049: ("there is no such database on the server", "name a database that exists"),
    1040: ("the server has no free connection", "close some sessions, or raise max_connections"),
    1203: ("the server has no free connection", "close some sessions, or raise max_user_connections"),
    2026: (
        "the server's TLS certificate could not be verified",
        "set ssl_ca=<file> to the certificate of its authority, and name the host as the certificate does",
    ),
}


def _connection_refusal(error: Any, policy_path: str) -> InvalidPolicy:
    """Explain why a session could not be opened, in our own words: no message of a server is passed on."""
    code: int = 2026 if error is None or "certificate" in str(error).lower() else next(iter(error.args), 0)
    rule, fix = _REFUSALS.get(
        code, ("the MariaDB server cannot be reached", "check the address, and that the server is running")
    )
    return InvalidPolicy(rule, place=policy_path, fix=fix)


def is_supported(version: str) -> bool:
    """Return whether a server's version is one of MariaDB, and not too old.

    >>> is_supported("10.11.6-MariaDB-0+deb12u1"), is_supported("10.6.1-MariaDB"), is_supported("8.0.36")
    (True, False, False)
    """
    numbers = re.match(r"([0-9]+)\.([0-9]+)", version)
    return "MariaDB" in version and numbers is not None and tuple(map(int, numbers.groups())) >= OLDEST
