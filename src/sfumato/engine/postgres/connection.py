"""Sessions at a PostgreSQL server: read-only transactions, with every setting pinned that affects results.

Only generated statements run here, one SELECT each. Errors hide their cause: a server's message may quote a cell. A
forked process leaves its parent's sessions alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.engine.server_sessions import Parameters, SessionPool, T, import_client, without_cause
from sfumato.errors import InvalidParameter, InvalidPolicy

if TYPE_CHECKING:
    import psycopg

_SIZE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})? ?[KMGT]i?B")
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "row_security": "off",
    "client_min_messages": "error",
    "default_transaction_read_only": "on",
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
    "lock_timeout": "60s",
    "statement_timeout": "1h",
    "idle_in_transaction_session_timeout": "0",
    "work_mem": "128MB",
}
"""Set for one transaction, as its first statement: behind a connection pool the next transaction may run in another
session, where others may have left temporary tables and types; pg_temp is searched last where it is named, and first
where it is not. With the server's own 4 MB for a step, grouping people would be written to its disks.
"""
_SETTINGS_SINCE = {"transaction_timeout": (170000, "0")}
"""Settings that exist since a server version."""
OLDEST = 140000
"""PostgreSQL 14: older versions have no infinite decimals, and extract parts of timestamps as doubles."""
_CONNECT_SECONDS = 20
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_SSL_MODE = "verify-full"


class ServerSessions(SessionPool):
    """The sessions at one PostgreSQL server."""

    server_name = "PostgreSQL"

    def __init__(self, address: str, policy_path: str, memory: str | None = None) -> None:
        super().__init__(address, policy_path)
        self._settings = dict(_SETTINGS)
        if memory is not None:
            self._settings["work_mem"] = _work_mem(memory)

    def open(self) -> psycopg.Connection[Any]:
        return open_session(self.address, self.place)

    def begin(self, session: psycopg.Connection[Any]) -> None:
        """Begin a transaction with our settings; no snapshot is taken yet."""
        _pin_settings(session, self._settings)

    def fetch(self, session: psycopg.Connection[Any], statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        import psycopg

        return psycopg.RawCursor(session).execute(statement.encode(), parameters or None).fetchall()

    def cancel(self, session: psycopg.Connection[Any]) -> None:
        session.cancel()

    def is_alive(self, session: psycopg.Connection[Any]) -> bool:
        return not session.closed and not session.broken

    def run_in_savepoint(self, session: psycopg.Connection[Any], action: Callable[[], T]) -> T:
        """Run an action in a savepoint: a failure would end the transaction."""
        without_cause(lambda: session.execute("SAVEPOINT sf"))
        try:
            result = without_cause(action)
        except BaseException:
            with suppress(Exception):
                session.execute(b"ROLLBACK TO SAVEPOINT sf; RELEASE SAVEPOINT sf")
            raise
        without_cause(lambda: session.execute("RELEASE SAVEPOINT sf"))
        return result


def _work_mem(limit: str) -> str:
    """Convert a memory limit to PostgreSQL's ``work_mem``: what a step of a statement uses before it spills to disk."""
    if not isinstance(limit, str) or not _SIZE.fullmatch(limit):
        raise InvalidParameter("memory_limit", limit, "a size such as '4GB'")
    number, unit = float(limit.rstrip("KMGTiB ")), limit.strip("0123456789. ")[0]
    return f"{max(64, min(2_000_000_000, int(number * 1024 ** ('KMGT'.index(unit)))))}kB"


def open_session(address: str, policy_path: str) -> psycopg.Connection[Any]:
    """Open a session; over a network it is encrypted and the server's certificate is verified."""
    psycopg = import_client("psycopg", "psycopg", "PostgreSQL", "postgres", policy_path)
    options = _connection_options(address, policy_path)
    failure = None
    try:
        session = psycopg.connect(**options, autocommit=True)
    except psycopg.Error as error:
        failure = error
    if failure is not None:
        raise _connection_refusal(failure, policy_path) from None
    return session


def _connection_options(address: str, policy_path: str) -> dict[str, Any]:
    """Parse an address; libpq takes what is missing from its environment, a service or a password file."""
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        options: dict[str, Any] | None = conninfo_to_dict(address)
    except Error:
        options = None
    if options is None:
        raise InvalidPolicy(
            "this is not a valid address of a PostgreSQL server",
            place=policy_path,
            fix='write source = "postgresql://user@host/database"',
        )
    host = options.get("host") or os.environ.get("PGHOST")
    host_address = options.get("hostaddr") or os.environ.get("PGHOSTADDR")
    hosts = [str(part) for part in (host, host_address) if part]
    if any("," in host for host in hosts):
        raise InvalidPolicy(
            "a source must name one server, because with several hosts another may answer next time",
            place=policy_path,
            fix="name one host",
        )
    is_local = all(host.startswith(("/", "@")) or host in _LOCAL_HOSTS for host in hosts)
    uses_service = (
        "service" in options or "PGSERVICE" in os.environ
    )  # a service may set the address of a host under another name
    is_remote = not is_local or (uses_service and not host_address)
    verified = {"sslmode": _SSL_MODE, "gssencmode": "disable"}  # with Kerberos encryption no certificate is checked
    if is_remote and any(options.get(name, value) != value for name, value in verified.items()):
        raise InvalidPolicy(
            "over a network the server's certificate must be verified",
            place=policy_path,
            fix=f"write sslmode={_SSL_MODE} or leave out sslmode, which means the same here; if a private authority "
            "issued the certificate, add sslrootcert=<file>; remove gssencmode, which would bypass it",
        )
    if is_remote:
        options |= verified
    return {"connect_timeout": _CONNECT_SECONDS, "application_name": "sfumato", **options, "client_encoding": "UTF8"}


_REFUSALS = {
    "28P01": (
        "the server did not accept the password",
        "set the environment variable PGPASSWORD, or write the password into the file ~/.pgpass",
    ),
    "28000": ("the server does not allow this role to connect", "check the role and the server's pg_hba.conf"),
    "3D000": ("there is no such database on the server", "name a database that exists"),
    "53300": ("the server has no free connection", "close some sessions, or raise max_connections"),
    "08001": (
        "the server's TLS certificate could not be verified",
        "set sslrootcert=<file> to the certificate of its authority, and name the host as the certificate does",
    ),
}


def _connection_refusal(error: Any, policy_path: str) -> InvalidPolicy:
    """Explain why a session could not be opened, in our own words: no message of a server is passed on."""
    message = str(error)
    code = getattr(error, "sqlstate", None) or next(
        (state for words, state in _MESSAGE_CODES.items() if words in message), None
    )
    rule, fix = _REFUSALS.get(
        code or "", ("the PostgreSQL server cannot be reached", "check the address, and that the server is running")
    )
    return InvalidPolicy(rule, place=policy_path, fix=fix)


_MESSAGE_CODES = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28000",
    "pg_hba.conf rejects": "28000",
    "permission denied for database": "28000",
    "FATAL:  role ": "28000",
    "too many": "53300",
    "remaining connection slots": "53300",
    "certificate": "08001",
    "SSL": "08001",
    "does not exist": "3D000",
}
"""A failed connection has a message and no code: the first of these phrases in it decides."""


def _pin_settings(session: psycopg.Connection[Any], settings: dict[str, str]) -> None:
    """Set the session's transaction mode and settings: by SET, which unlike SELECT takes no snapshot yet."""
    from psycopg import IsolationLevel
    from psycopg.adapt import Loader

    class IntegerLoader(Loader):
        """Loads NUMERIC values, of which only integers are sent."""

        def load(self, data: Any) -> int:
            return int(bytes(data))

    if session.autocommit:  # a new session
        session.adapters.register_loader("numeric", IntegerLoader)
        session.autocommit = False
        session.isolation_level = IsolationLevel.REPEATABLE_READ
        session.read_only = True
        session.prepare_threshold = None
    since_version = {
        name: value for name, (since, value) in _SETTINGS_SINCE.items() if session.info.server_version >= since
    }
    statements = (f"SET LOCAL {name} = {_quote_setting(value)}" for name, value in (settings | since_version).items())
    session.execute("; ".join(statements).encode())


def _quote_setting(value: str) -> str:
    """Quote a setting, each element of a list by itself: quoted as a whole, several schemas would be one name."""
    return ", ".join(f"'{element}'" for element in value.split(", "))
