"""A session is one connection to the server that keeps a ledger: its checks, and the meaning of a driver's errors.

A child never closes or collects its parent's connection: libpq would send a termination message in the parent's name,
and end its session. It sets the connection aside, and opens one of its own.

Whether a server listens at an address is tested at the sockets, and not by the words of an error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from psycopg import pq
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from sfumato.errors import LedgerDamaged, LedgerUnavailable
from sfumato.ledger.stores.postgres_schema import require_current_version
from sfumato.ledger.stores.server_addresses import ServerAddress

_PORT = "5432"
_MAX_SOCKET_PATH = 107
"""Bytes of the longest name of a socket; libpq connects to none with a longer one."""
_UNREACHABLE = {
    errno.ECONNREFUSED,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.EHOSTDOWN,
    errno.ENETUNREACH,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
}
"""With these the system says that no connection can be made; with any other, somebody may be there."""
_UNKNOWN_HOST = {socket.EAI_NONAME, socket.EAI_NODATA}
"""With these the system says that a name is unknown, and not that nobody could be asked."""


class Listener(NamedTuple):
    """One place at which a server may listen: a folder with its socket, or one address of one host."""

    host: str
    hostaddr: str
    port: str


def database_and_possible_listeners(conninfo: str, timeout: float) -> tuple[str, list[Listener]]:
    """Return the name of the database that the driver would ask for, and the places at which somebody listens, or may.

    The hosts are those that libpq takes from the address, the environment and the service together. Nobody listens
    where a connection is refused or not made in time, where there is no such socket, and where the name of the host is
    unknown.
    """
    database, configured_listeners = _database_and_configured_listeners(conninfo)
    return database, [
        listener
        for configured in configured_listeners
        for listener in _resolve_host(configured)
        if _may_listen(listener, timeout)
    ]


def _database_and_configured_listeners(conninfo: str) -> tuple[str, list[Listener]]:
    """Ask libpq how it resolves all its settings: it begins to connect, and is stopped."""
    connection = pq.PGconn.connect_start(conninfo.encode())
    try:
        options = {option.keyword.decode(): os.fsdecode(option.val or b"") for option in connection.info}
        database = os.fsdecode(connection.db)
    finally:
        connection.finish()
    hosts, addresses, ports = (options[name].split(",") for name in ("host", "hostaddr", "port"))
    count = len(addresses if options["hostaddr"] else hosts)
    hosts, addresses = (values if any(values) else [""] * count for values in (hosts, addresses))
    ports = ports * count if len(ports) == 1 else ports
    return database, [Listener(*host_address_port) for host_address_port in zip(hosts, addresses, ports, strict=True)]


def _resolve_host(listener: Listener) -> list[Listener]:
    """Return one place for each address of a host, and none for a host whose name is unknown."""
    host, hostaddr, port = listener.host, listener.hostaddr, listener.port or _PORT
    if hostaddr:
        return [Listener(host, hostaddr, port)]
    if not host:
        return [Listener(_default_folder(), "", port)]
    if host.startswith(("/", "@")):
        return [Listener(host, "", port)]
    try:
        address_infos = socket.getaddrinfo(host, int(port), proto=socket.IPPROTO_TCP, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [] if error.errno in _UNKNOWN_HOST else [Listener(host, "", port)]
    return [Listener(host, str(address_info[4][0]), port) for address_info in address_infos]


def _default_folder() -> str:
    connection = pq.PGconn.connect_start(b"host='' hostaddr=''")
    try:
        return os.fsdecode(connection.host)
    finally:
        connection.finish()


def _may_listen(listener: Listener, timeout: float) -> bool:
    try:
        if listener.hostaddr:
            socket.create_connection((listener.hostaddr, int(listener.port)), timeout).close()
        elif listener.host.startswith(("/", "@")):
            return _accepts_on_socket(f"{listener.host}/.s.PGSQL.{listener.port}", timeout)
    except TimeoutError:
        return False
    except OSError as error:
        return error.errno not in _UNREACHABLE
    return True


def _accepts_on_socket(socket_path: str, timeout: float) -> bool:
    path = os.fsencode(socket_path)
    if len(path) > _MAX_SOCKET_PATH:
        return False
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout)
        client.connect(b"\0" + path[1:] if socket_path.startswith("@") else path)
    return True


T = TypeVar("T")
_SERVER_STATE = """
BEGIN READ ONLY; SET LOCAL search_path = pg_catalog;
SELECT current_setting('server_encoding'), current_setting('fsync'), current_setting('full_page_writes'),
    pg_is_in_recovery(), current_setting('default_transaction_read_only'),
    to_regnamespace('{schema}') IS NOT NULL, to_regclass('{schema}.book') IS NOT NULL,
    pg_has_role(current_user, coalesce((SELECT nspowner FROM pg_namespace WHERE nspname = '{schema}'), 10), 'MEMBER'),
    (SELECT coalesce(bool_or(pg_has_role(current_user, owner, 'MEMBER')), false) FROM (
        SELECT relowner FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')
        UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = to_regnamespace('{schema}')) AS owners (owner));
COMMIT
"""
_KEEPALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "4", "tcp_user_timeout": "30000"}
_UTF8 = "UTF8"
_PRIMARY_FIX = "connect to the primary server; if the address lists several, add target_session_attrs=read-write to it"
_READ_ONLY_FIX = "set default_transaction_read_only to off for this role, database or server"
_WARNING = "01"
"""The class of the server's codes for warnings."""
_REFUSED = "FATAL:  "
"""What a server that refuses a connection says first, where it speaks English."""
_inherited: list[object] = []
"""Connections of a parent process, which are never touched again."""


class Book(NamedTuple):
    """The identity of a ledger, and the rights of whoever is connected."""

    version: int
    id: str
    key: str
    is_owner: bool
    """Whoever is connected is the schema's owner, or the server's administrator."""
    can_change: bool
    """Whoever is connected could change lines: as an owner of the schema, of a table or of the function in it."""


Statement = tuple[str, tuple[Any, ...]]
"""A statement with the values that stand in it."""


class Connection(psycopg.Connection[TupleRow]):
    """A connection that is cut when an answer does not come in time: a server that waits for a standby which is gone
    waits for ever, and to cancel the wait would make it report success.
    """

    _cut_at: float | None = None

    @contextlib.contextmanager
    def cut_after(self, seconds: float) -> Iterator[None]:
        """Cut the connection after so many seconds, if the block has not ended by then."""
        self._cut_at = time.monotonic() + seconds
        try:
            yield
        finally:
            self._cut_at = None

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        return super().wait(gen if self._cut_at is None else self._with_deadline(gen, self._cut_at), *args, **kwargs)

    def _with_deadline(self, gen: PQGen[T], cut_at: float) -> PQGen[T]:
        """Check the deadline whenever the driver does anything, which is every tenth of a second at least."""
        try:
            wait_for = next(gen)
            while True:
                ready = yield wait_for
                if time.monotonic() >= cut_at:
                    self._cut()
                wait_for = gen.send(ready)
        except StopIteration as stop:
            return cast(T, stop.value)

    def _cut(self) -> None:
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self.pgconn.socket)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)


class PostgresSession:
    """One connection of one process."""

    def __init__(self, address: ServerAddress, timeout: float, place: str) -> None:
        self.place = place
        self._process = os.getpid()
        self._connection = _open_connection(address, timeout)
        self.peer = (self._connection.info.host, self._connection.info.port, self._connection.info.dbname)
        self._connection.add_notice_handler(self._record_warning)
        self.warned = False
        """The server has warned in the last COMMIT: it stopped waiting for its standbys."""
        try:
            self.book = self._read_book(address.schema)
        except BaseException:
            self._connection.close()
            raise

    @property
    def is_ours(self) -> bool:
        """Whether this process has opened it."""
        return self._process == os.getpid()

    @property
    def is_open(self) -> bool:
        return not self._connection.closed

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open, and no statement runs."""
        return self._connection.info.transaction_status is TransactionStatus.IDLE

    @property
    def is_outcome_unknown(self) -> bool:
        """Whether the outcome of the last statement is unknown: it was sent, and no answer to it was read."""
        return self._connection.info.transaction_status in (TransactionStatus.UNKNOWN, TransactionStatus.ACTIVE)

    def run(self, text: str, values: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement, and return its rows."""
        cursor = self._require_ours.execute(text.encode(), values)
        return cursor.fetchall() if cursor.description else []

    def run_all(self, text: str) -> list[list[tuple[Any, ...]]]:
        """Run several statements in one round trip, and return the rows of each that has some."""
        result_sets, cursor = [], self._require_ours.execute(text.encode())
        while True:
            if cursor.description:
                result_sets.append(cursor.fetchall())
            if not cursor.nextset():
                return result_sets

    def _record_warning(self, notice: psycopg.errors.Diagnostic) -> None:
        self.warned = self.warned or (notice.sqlstate or "").startswith(_WARNING)

    def send(self, statements: list[Statement], *, commit_within: float | None = None) -> None:
        """Run statements that return no rows, and COMMIT if a time is given for it, in one round trip; after one that
        fails none of the others is run. A COMMIT that is not answered in time loses the connection.

        All of them are one message, with the values quoted in it. In a pipeline, a client that stands still between two
        messages would hold its locks for ever: the server's clock for idle transactions does not run there.
        """
        cursor = psycopg.ClientCursor(self._require_ours)
        texts = [cursor.mogrify(text.encode(), values) for text, values in statements]
        if commit_within is None:
            cursor.execute("; ".join(texts).encode())
        else:
            self.warned = False
            with self._connection.cut_after(commit_within):
                cursor.execute("; ".join([*texts, "COMMIT"]).encode())
        while cursor.nextset():
            pass
        if commit_within is not None and cursor.statusmessage != "COMMIT":
            raise psycopg.errors.TransactionRollback("the server rolled the transaction back: nothing was written")

    @property
    def _require_ours(self) -> Connection:
        if not self.is_ours:
            raise LedgerUnavailable(
                "a transaction can only be used in the process that began it",
                place=self.place,
                fix="fork while no transaction is open, and begin a new transaction in the child process",
            )
        return self._connection

    def close(self) -> None:
        """Close the connection; a parent's is left alone, for ever."""
        if self.is_ours:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        else:
            _inherited.append(self._connection)

    def _read_book(self, schema: str) -> Book:
        """Raise for a server or a schema on which a charge could be lost, or is not understood."""
        with translate_errors(self.place):
            settings = self.run_all(_SERVER_STATE.format(schema=schema))[0][0]
            encoding, fsync, pages, recovering, read_only, has_schema, has_book, is_owner, owns_part = settings
            self._require_durable(fsync, pages)
            self._require_writable(recovering, read_only, encoding)
            if not has_schema or not has_book:
                raise LedgerUnavailable(
                    f"there is no ledger in schema {schema!r}",
                    place=self.place,
                    fix="as the database's owner, create it with `sfumato ledger init ADDRESS`, or name the schema of "
                    "an existing ledger",
                )
            books = self.run(f"SELECT version, id, key FROM {schema}.book")
        if len(books) != 1:
            raise LedgerDamaged(None, f"its table book has {len(books)} rows instead of one")
        require_current_version(books[0][0], self.place)
        version, ledger, key = books[0]
        return Book(version, ledger, key, is_owner, is_owner or owns_part)

    def _require_durable(self, fsync: str, pages: str) -> None:
        if (fsync, pages) != ("on", "on"):
            raise LedgerUnavailable(
                "a charge must be on disk when the call returns, and this server does not guarantee that: fsync "
                f"is {fsync}, full_page_writes is {pages}",
                place=self.place,
                fix="set both to on in the server's configuration",
            )

    def _require_writable(self, recovering: bool, read_only: str, encoding: str) -> None:
        if recovering or read_only == "on":
            state, fix = (
                ("is a standby or is still recovering", _PRIMARY_FIX)
                if recovering
                else ("is read-only (default_transaction_read_only)", _READ_ONLY_FIX)
            )
            raise LedgerUnavailable(
                f"a ledger needs a server that accepts writes, and this one {state}",
                place=self.place,
                fix=fix,
            )
        if encoding != _UTF8:
            raise LedgerUnavailable(
                f"a ledger needs a database with encoding UTF8; this one has {encoding}",
                place=self.place,
                fix="create a database with ENCODING 'UTF8'",
            )


def connect_as_owner(address: ServerAddress, timeout: float, place: str) -> Connection:
    """Open a connection as the owner, to create a schema: nothing is asked of what is in it."""
    with translate_errors(place):
        return _open_connection(address, timeout)


def key_and_last_line(address: ServerAddress, timeout: float) -> tuple[str, list[tuple[str, str]]] | None:
    """Read the key of the ledger at an address, and kind and detail of its last line; None if it is lost.

    It is lost where a server lets us look and keeps none there. Where no session can be had, it is lost only if at each
    host of the address no connection to a port or socket can be made, or a server says in just these words that this
    database does not exist. Whatever else is said, and by whom: somebody listens, and who may not look is refused.
    """
    place = f"PostgreSQL, schema {address.schema}"
    try:
        connection = _open_connection(address, timeout)
    except psycopg.Error as error:
        with translate_errors(place):
            database, candidates = database_and_possible_listeners(
                make_conninfo(address.url, **_connection_options(address, timeout)), timeout
            )
            if all(_lacks_database(listener, database, address, timeout) for listener in candidates):
                return None
        raise refusal_for_error(error, place) from None
    with translate_errors(place), contextlib.closing(connection):
        if not connection.execute("SELECT to_regclass(%s)", (f"{address.schema}.book",)).fetchall()[0][0]:
            return None
        ((key,),) = connection.execute(f"SELECT key FROM {address.schema}.book".encode())
        query = f"SELECT kind, detail FROM {address.schema}.lines ORDER BY number DESC LIMIT 1"
        return key, connection.execute(query.encode()).fetchall()


def _lacks_database(listener: Listener, database: str, address: ServerAddress, timeout: float) -> bool:
    """Return whether the server that listens there says that there is no such database. The driver has no code for it,
    and the name of a role or a host may hold any words: what the server says is compared as a whole.
    """
    try:
        _open_connection(address, timeout, **listener._asdict()).close()
    except psycopg.OperationalError as error:
        return str(error).partition(_REFUSED)[2].strip() == f'database "{database}" does not exist'
    return False


def _open_connection(address: ServerAddress, timeout: float, **overrides: str) -> Connection:
    options = {**_connection_options(address, timeout), **overrides}
    return Connection.connect(address.url, autocommit=True, prepare_threshold=None, **options)


def _connection_options(address: ServerAddress, timeout: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        **address.options(),
        "client_encoding": "UTF8",
        "connect_timeout": max(2, int(timeout) + 1),
    }
    query_string = address.url.partition("?")[2]
    options |= {name: value for name, value in _KEEPALIVE.items() if name not in query_string}
    return options | ({} if "application_name" in query_string else {"application_name": "sfumato ledger"})


@contextlib.contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Convert the driver's errors to refusals; its own words could hold a value, so they are not repeated."""
    try:
        yield
    except psycopg.Error as error:
        raise refusal_for_error(error, place) from None
    except UnicodeEncodeError:
        raise LedgerUnavailable(_UNSTORABLE[0], place=place, fix=_UNSTORABLE[1]) from None


def refusal_for_error(error: psycopg.Error, place: str) -> LedgerUnavailable:
    """Return the refusal that a driver's error means."""
    state = error.sqlstate or ""
    if state in ("XX001", "XX002"):
        return LedgerDamaged(None, "the server reports damaged pages or indexes")
    if state in _TROUBLES:
        rule, fix = _TROUBLES[state]
    elif isinstance(error, psycopg.DataError):
        rule, fix = _UNSTORABLE
    elif not state or state[:2] in _LOST:
        rule, fix = _explain_connection_failure(error)
    else:
        rule, fix = (
            f"the ledger's server refused a statement (SQLSTATE {state})",
            "verify it: `sfumato ledger verify ADDRESS`",
        )
    return LedgerUnavailable(rule, place=place, fix=fix)


def _explain_connection_failure(error: psycopg.Error) -> tuple[str, str]:
    """Explain why no connection could be made, or was lost. libpq has no code for that, so its message is searched."""
    message, pgconn = str(error), error.pgconn
    if "authentication failed" in message or "pg_hba.conf" in message or (pgconn is not None and pgconn.needs_password):
        return (
            "the ledger's server refused this user's login",
            "check the user name, and the password in PGPASSWORD, ~/.pgpass or the service file",
        )
    if "too many" in message or "remaining connection slots" in message:
        return _TROUBLES["53300"]
    if "does not exist" in message:
        return "there is no such database or role on the ledger's server", "correct the address of the ledger"
    if "certificate" in message or "SSL" in message:
        return (
            "the TLS certificate of the ledger's server could not be verified",
            "add sslrootcert=FILE to the address, where FILE holds the CA certificate of the server",
        )
    return (
        "the ledger's server cannot be reached, or the connection to it was lost; nothing was charged",
        "check that the server is running and that the ledger's address is right, then try again",
    )


_LOST = {"08", "57"}
_LOCKED = ("the ledger is locked by another process", "wait and try again; nothing was charged")
_RIGHTS = (
    "this role does not have the rights of a spender",
    "as the owner of the schema, run `sfumato ledger init ADDRESS --spender ROLE`",
)
_FULL = ("the disk is full: nothing more can be charged", "make room on the disk of the ledger's server")
_MISSING = ("the tables of this ledger do not exist", "name the schema of the ledger, or restore it from a backup")
_SLOW = ("the server ended a transaction that was idle for too long; nothing was charged", "try again")
_UNSTORABLE = (
    "the database cannot store a text with NUL or an incomplete character; nothing was written",
    "leave out such characters",
)
_TROUBLES = {
    "55P03": _LOCKED,
    "40P01": _LOCKED,
    "53100": _FULL,
    "58030": ("the ledger's server could not read or write its disk", "check that disk, then try again"),
    "42501": _RIGHTS,
    "42P01": _MISSING,
    "3F000": _MISSING,
    "42703": _MISSING,
    "25006": ("the ledger's server is read-only now", "connect to the primary server"),
    "25P03": _SLOW,
    "57014": ("the server ended a statement that took too long; nothing was charged", "try again"),
    "53300": ("the ledger's server has no free connection", "raise max_connections there, or try again later"),
    "23505": (
        "another program wrote lines without waiting for the lock; nothing was charged",
        "let only Sfumato write to the ledger, and verify it: `sfumato ledger verify ADDRESS`",
    ),
}
