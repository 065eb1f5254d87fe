"""A pool of sessions at one database server, each in a read-only transaction with every setting pinned.

Only generated statements run here, one SELECT each. Errors hide their cause: a server's message may quote a cell. A
forked process leaves its parent's sessions alone.
"""

from __future__ import annotations

import os
import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.util import find_spec
from threading import Lock, get_ident
from typing import Any, TypeVar

from sfumato.errors import EngineClosed, EngineFailed, InvalidPolicy
from sfumato.extras import install_command

T = TypeVar("T")
Parameters = Sequence[object]
_LOGGED_STATEMENTS = 1_000
"""How many statements the log keeps."""
_MAX_IDLE = 4
"""How many idle sessions stay open."""


def without_cause(action: Callable[[], T]) -> T:
    """Return the action's result; raise ``EngineFailed`` without the cause, which may quote a cell."""
    try:
        return action()
    except EngineClosed:
        raise
    except Exception:  # the same error whatever failed
        pass
    raise EngineFailed


def import_client(module: str, package: str, server: str, extra: str, policy_path: str) -> Any:
    """Import a server's client library, or refuse the policy with the command that installs it."""
    if find_spec(module) is None:
        raise InvalidPolicy(
            f"tables on a {server} server are read with {package}, which is not installed",
            place=policy_path,
            fix=install_command(extra),
        )
    return import_module(module)


def certificate_check(authority: str | None, name: str, policy_path: str) -> ssl.SSLContext:
    """Return the settings under which a server's certificate is verified, by our own authority if a file is named."""
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError):
        pass
    raise InvalidPolicy(
        f"the certificate of the authority ({name}) cannot be read",
        place=policy_path,
        fix=f"name a readable file as {name}=<file>",
    )


class SessionPool(ABC):
    """A pool of sessions at one server, which can interrupt what runs in them and close them."""

    server_name: str

    def __init__(self, address: str, policy_path: str) -> None:
        self.address, self.place = address, policy_path
        self.statements: deque[str] = deque(maxlen=_LOGGED_STATEMENTS)
        self._process = os.getpid()
        self._lock = Lock()
        self._cancellation = Lock()
        """Held while sessions are cancelled, which may take long; taken before the other lock."""
        self._idle_sessions: list[Any] = []
        self._owner_threads: dict[Any, int] = {}
        self._interrupted: set[Any] = set()

    # What a server's client library does

    @abstractmethod
    def open(self) -> Any:
        """Open a session, or refuse the policy with the reason."""

    @abstractmethod
    def begin(self, session: Any) -> None:
        """Begin a read-only transaction on one snapshot, with every setting pinned that affects results."""

    @abstractmethod
    def fetch(self, session: Any, statement: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, integers exact."""

    @abstractmethod
    def cancel(self, session: Any) -> None:
        """Let the server end what runs in a session."""

    @abstractmethod
    def is_alive(self, session: Any) -> bool:
        """Return whether a session can run another statement."""

    @abstractmethod
    def run_in_savepoint(self, session: Any, action: Callable[[], T]) -> T:
        """Run an action after which the transaction continues, whether it fails or not."""

    # Sessions in use

    def take(self) -> Any:
        """Return a session in a new transaction, with every setting pinned.

        It is in use until it is given back. A session that ended while idle is replaced.
        """
        self.check_process()
        with self._lock:
            idle = self._idle_sessions.pop() if self._idle_sessions else None
        session = self._begin_or_none(idle) if idle is not None else None
        if session is None:
            session = self._begin_or_none(self.open())
        if session is None:
            raise InvalidPolicy(
                "the server does not let a session change settings that results depend on, such as the time zone",
                place=self.place,
                fix=f"connect to {self.server_name} directly, not through a connection pool that keeps its own "
                "settings",
            )
        with self._lock:
            if not self._process:
                session.close()
                raise EngineClosed
            self._owner_threads[session] = get_ident()
        return session

    def _begin_or_none(self, session: Any) -> Any:
        """Begin a transaction; None where the session has ended or does not allow our settings."""
        try:
            without_cause(lambda: self.begin(session))
        except EngineFailed:
            with suppress(Exception):
                session.close()
            return None
        return session

    def give_back(self, session: Any) -> None:
        """Roll back the session's transaction and keep the session for reuse, unless it was interrupted: the interrupt
        might still end its next statement.
        """
        if os.getpid() != self._process:
            return
        with suppress(Exception):
            session.rollback()
        with self._lock:
            self._owner_threads.pop(session, None)
            is_interrupted = session in self._interrupted
            self._interrupted.discard(session)
            is_reusable = self.is_alive(session) and not is_interrupted
            if self._process and is_reusable and len(self._idle_sessions) < _MAX_IDLE:
                self._idle_sessions.append(session)
                return
        with self._cancellation if is_interrupted else nullcontext(), suppress(Exception):
            session.close()

    def assign_thread(self, session: Any, thread: int) -> None:
        """Set which thread's interrupts end what runs in a session."""
        with self._lock:
            if self._owner_threads.get(session) == thread:
                return
        with self._cancellation, self._lock:
            if session in self._owner_threads:
                self._owner_threads[session] = thread

    @contextmanager
    def session(self) -> Iterator[Any]:
        session = self.take()
        try:
            yield session
        finally:
            self.give_back(session)

    def run(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Return the rows of one generated SELECT, in a transaction of its own."""
        with self.session() as session:
            return self.rows(session, statement, parameters)

    def rows(self, session: Any, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """Log a statement, run it in a session's transaction and return its rows, integers exact."""
        self.statements.append(statement)
        return without_cause(lambda: self.fetch(session, statement, parameters))

    def interrupt(self, thread: int | None = None) -> None:
        """Interrupt every running statement, or those of one thread: they fail as ``EngineFailed``.

        None of their sessions changes hands meanwhile, so no other thread's statement is interrupted.
        """
        if os.getpid() != self._process:
            return
        with self._cancellation:
            with self._lock:
                sessions = [session for session, owner in self._owner_threads.items() if thread in (None, owner)]
                self._interrupted.update(sessions)
            for session in sessions:
                with suppress(Exception):
                    self.cancel(session)

    def close(self) -> None:
        """Interrupt what is running and close every session. A forked process leaves its parent's sessions alone."""
        if os.getpid() != self._process:
            return
        self.interrupt()
        with self._lock:
            self._process = 0
            sessions = [*self._idle_sessions, *self._owner_threads]
            self._idle_sessions.clear()
        with self._cancellation:
            for session in sessions:
                with suppress(Exception):
                    session.close()

    def check_process(self) -> None:
        if os.getpid() != self._process:
            raise EngineClosed
