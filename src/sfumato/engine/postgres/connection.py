"""A session at a PostgreSQL server runs read-only transactions, with every setting pinned that changes a meaning.

Only generated statements run here, each one SELECT. A failure never tells its cause: a server's message may quote a
cell. A forked process leaves its parent's sessions alone.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import EngineClosed, EngineFailed, InvalidParameter, InvalidPolicy

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_SIZE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})? ?[KMGT]i?B")
Parameters = Sequence[object]
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
}
"""These hold for one transaction, and are its first statement: behind a pool the next may be in another session, where
others may have left temporary tables and types, which are found last where they are named, and first where not.
"""
_SINCE = {"transaction_timeout": (170000, "0")}
"""Settings that servers know since a version."""
OLDEST = 140000
"""PostgreSQL 14: older ones have no infinite decimal numbers, and extract parts of times as doubles."""
_CONNECT_SECONDS = 20
_LOCAL = ("localhost", "127.0.0.1", "::1")
_VERIFIED = "verify-full"
_REMEMBERED = 1_000
"""Statements kept for the log."""
_IDLE = 4
"""Sessions that are kept open when nothing reads."""


class ServerSessions:
    """A server gives sessions, ends what runs in them, and closes them."""

    def __init__(self, address: str, place: str, memory: str | None = None) -> None:
        self.address, self.place = address, place
        self.statements: deque[str] = deque(maxlen=_REMEMBERED)
        self._memory = memory
        self._process = os.getpid()
        self._lock = Lock()
        self._idle: list[psycopg.Connection[Any]] = []
        self._active: dict[psycopg.Connection[Any], int] = {}
        self._interrupted: set[psycopg.Connection[Any]] = set()

    def take(self) -> psycopg.Connection[Any]:
        """Give a session whose transaction has begun, with every setting pinned and no snapshot taken yet; it is in use
        until it is given back. A session that ended while nobody used it is replaced.
        """
        self.check_process()
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        found = self._begun(idle) if idle is not None else None
        if found is None:
            found = self._begun(connected(self.address, self.place))
        if found is None:
            raise InvalidPolicy(
                "the server does not let a session have the settings under which questions have one meaning",
                place=self.place,
                fix="connect to PostgreSQL itself, and not through a pool that keeps settings",
            )
        with self._lock:
            if not self._process:
                found.close()
                raise EngineClosed
            self._active[found] = get_ident()
        return found

    def give_back(self, session: psycopg.Connection[Any]) -> None:
        """End the session's transaction, and keep it for the next use; not one that was interrupted, whose next
        statement the interrupt might end.
        """
        if os.getpid() != self._process:
            return
        with suppress(Exception):
            session.rollback()
        with self._lock:
            self._active.pop(session, None)
            sound = not session.closed and not session.broken and session not in self._interrupted
            self._interrupted.discard(session)
            if self._process and sound and len(self._idle) < _IDLE:
                self._idle.append(session)
                return
        with suppress(Exception):
            session.close()

    def owned_by(self, session: psycopg.Connection[Any], thread: int) -> None:
        """Say which thread's interrupts end what runs in a session."""
        with self._lock:
            if session in self._active:
                self._active[session] = thread

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection[Any]]:
        taken = self.take()
        try:
            yield taken
        finally:
            self.give_back(taken)

    def run(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Give the rows of one generated SELECT, in a transaction of its own."""
        with self.session() as session:
            return self.rows(session, statement, parameters)

    def rows(
        self, session: psycopg.Connection[Any], statement: str, parameters: Parameters = ()
    ) -> list[tuple[Any, ...]]:
        """Give the rows of a statement in a session's transaction, whole numbers exact, and remember it for the log."""
        import psycopg

        self.statements.append(statement)
        return finished(lambda: psycopg.RawCursor(session).execute(statement.encode(), parameters or None).fetchall())

    def interrupt(self, thread: int | None = None) -> None:
        """End every statement that is running, or those of one thread: they fail as ``EngineFailed``.

        No session changes hands meanwhile, so no other thread's statement is ended.
        """
        if os.getpid() == self._process:
            with self._lock:
                for each in [each for each, owner in self._active.items() if thread in (None, owner)]:
                    self._interrupted.add(each)
                    with suppress(Exception):
                        each.cancel()

    def close(self) -> None:
        """End what is running and close every session. A forked process leaves its parent's alone."""
        if os.getpid() != self._process:
            return
        self.interrupt()
        with self._lock:
            self._process = 0
            sessions = [*self._idle, *self._active]
            self._idle.clear()
        for each in sessions:
            with suppress(Exception):
                each.close()

    def check_process(self) -> None:
        if os.getpid() != self._process:
            raise EngineClosed

    def _begun(self, session: psycopg.Connection[Any]) -> psycopg.Connection[Any] | None:
        """Begin a transaction under our settings; None where the session has ended or may not have them."""
        settings = dict(_SETTINGS)
        if self._memory is not None:
            settings["work_mem"] = _memory(self._memory)
        try:
            finished(lambda: _begin(session, settings))
        except EngineFailed:
            with suppress(Exception):
                session.close()
            return None
        return session


def _memory(written: str) -> str:
    """Write how much memory a part of a statement takes before it works on disk, as PostgreSQL spells it."""
    if not isinstance(written, str) or not _SIZE.fullmatch(written):
        raise InvalidParameter("memory_limit", written, "a size such as '4GB'")
    number, unit = float(written.rstrip("KMGTiB ")), written.strip("0123456789. ")[0]
    return f"{max(64, min(2_000_000_000, int(number * 1024 ** ('KMGT'.index(unit)))))}kB"


def finished(action: Callable[[], T]) -> T:
    """Give what the action gives, or ``EngineFailed`` without its cause: a cause may quote a cell."""
    try:
        return action()
    except EngineClosed:
        raise
    except Exception:  # whatever it was, what is said of it is the same
        pass
    raise EngineFailed


def connected(address: str, place: str) -> psycopg.Connection[Any]:
    """Open a session: over a network it is encrypted, and the server's certificate is verified."""
    psycopg = _driver(place)
    options = _options(address, place)
    failure = None
    try:
        session = psycopg.connect(**options, autocommit=True)
    except psycopg.Error as error:
        failure = error
    if failure is not None:
        raise _unreachable(failure, place) from None
    return session


def _driver(place: str) -> Any:
    try:
        import psycopg
    except ImportError:
        psycopg = None  # type: ignore[assignment]
    if psycopg is None:
        raise InvalidPolicy(
            "tables on a PostgreSQL server are read with psycopg, which is not installed",
            place=place,
            fix="pip install 'sfumato[postgres]'",
        )
    return psycopg


def _options(address: str, place: str) -> dict[str, Any]:
    """Read an address; whatever is not said there libpq takes from its environment, a service or a password file."""
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        given: dict[str, Any] | None = conninfo_to_dict(address)
    except Error:
        given = None
    if given is None:
        raise InvalidPolicy(
            "this is no address of a PostgreSQL server",
            place=place,
            fix='write source = "postgresql://user@host/database"',
        )
    named = given.get("host") or os.environ.get("PGHOST")
    numbered = given.get("hostaddr") or os.environ.get("PGHOSTADDR")
    hosts = [str(each) for each in (named, numbered) if each]
    if any("," in host for host in hosts):
        raise InvalidPolicy(
            "a source is on one server: of several hosts another may answer next time",
            place=place,
            fix="name one host",
        )
    local = all(host.startswith(("/", "@")) or host in _LOCAL for host in hosts)
    served = "service" in given or "PGSERVICE" in os.environ  # a service may number a host that is called otherwise
    remote = not local or (served and not numbered)
    verified = {"sslmode": _VERIFIED, "gssencmode": "disable"}  # where Kerberos encrypts, no certificate is looked at
    if remote and any(given.get(name, value) != value for name, value in verified.items()):
        raise InvalidPolicy(
            "over a network the server's certificate is verified",
            place=place,
            fix=f"write sslmode={_VERIFIED} or leave it out, with sslrootcert=<file> if the certificate is your own, "
            "and leave out gssencmode",
        )
    if remote:
        given |= verified
    return {"connect_timeout": _CONNECT_SECONDS, "application_name": "sfumato", **given, "client_encoding": "UTF8"}


_REFUSED = {
    "28P01": ("the password was not accepted", "set PGPASSWORD, or write the password into a password file"),
    "28000": ("the server does not let this role in", "check the role and the server's pg_hba.conf"),
    "3D000": ("there is no such database on the server", "name a database that exists"),
    "53300": ("the server has no room for another session", "close some, or raise max_connections"),
    "08001": (
        "the server does not prove over TLS that it is the one that is named",
        "name the certificate that vouches for it, sslrootcert=<file>, and the host as it is named there",
    ),
}


def _unreachable(error: Any, place: str) -> InvalidPolicy:
    """Say why there is no session, in words of our own: no message of a server is passed on."""
    said = str(error)
    code = getattr(error, "sqlstate", None) or next((each for words, each in _SAID.items() if words in said), None)
    rule, fix = _REFUSED.get(
        code or "", ("the PostgreSQL server cannot be reached", "check the address, and that it runs")
    )
    return InvalidPolicy(rule, place=place, fix=fix)


_SAID = {
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
"""A failed start of a session has a text and no code: by the first of these words in it is told which it is."""


def _begin(session: psycopg.Connection[Any], settings: dict[str, str]) -> None:
    """Begin a transaction and pin its settings: by SET, which unlike SELECT takes no snapshot yet."""
    from psycopg import IsolationLevel
    from psycopg.adapt import Loader

    class Whole(Loader):
        """This reads decimal numbers, of which only whole ones are sent."""

        def load(self, data: Any) -> int:
            return int(bytes(data))

    if session.autocommit:  # it is new
        session.adapters.register_loader("numeric", Whole)
        session.autocommit = False
        session.isolation_level = IsolationLevel.REPEATABLE_READ
        session.read_only = True
        session.prepare_threshold = None
    known = {name: value for name, (since, value) in _SINCE.items() if session.info.server_version >= since}
    pinned = (f"SET LOCAL {name} = {_quoted(value)}" for name, value in (settings | known).items())
    session.execute("; ".join(pinned).encode())


def _quoted(value: str) -> str:
    """Write a setting, each part of a list by itself: in one text, several schemas would be one schema's name."""
    return ", ".join(f"'{each}'" for each in value.split(", "))
