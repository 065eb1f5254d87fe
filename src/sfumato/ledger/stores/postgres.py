"""A ledger store in a schema of a PostgreSQL database, so that curators on several machines share one budget.

A charge is one transaction in READ COMMITTED. It first locks the book, the one row that every writer locks, so that
each later statement sees the newest line; COMMIT returns when the server has it on disk. No session lock and no named
statement is used, so that it works behind a pool of connections. If the connection is lost at COMMIT the store asks
again, behind the same lock, whether the line was written: the lock is granted only when the lost transaction has ended.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from sfumato.errors import LedgerBehind, LedgerDamaged, LedgerInDoubt, LedgerUnavailable
from sfumato.ledger import local_files
from sfumato.ledger.local_files import hold_unheld_lock
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.postgres_connections import Book, PostgresSession, refusal_for_error, translate_errors
from sfumato.ledger.stores.postgres_schema import INSERT_LINE, SELECT_LINE, SHAPE, change_book, expected_shape
from sfumato.ledger.stores.server_addresses import ServerAddress
from sfumato.ledger.stores.sqlite import LedgerContent, lost_target_error, write_copy
from sfumato.ledger.stores.store import PendingCharge, Prefix, Where

T = TypeVar("T")
_CONDITIONS = {"analyst": "analyst <> ''", "tab": "tab <> 0", "about": "about <> 0", "plan": "plan <> ''"}
_CONDITIONS |= {"request": "request <> ''"}
_BUFFERED_LINES = 1000
"""Statements that are buffered to be sent together."""
_MIN_IDLE_TIMEOUT = 5.0
"""Seconds for which a spender may stand still inside a transaction, at least."""
_MOVING_IDLE_TIMEOUT = 3600.0
"""Seconds for which an owner may stand still who moves the ledger: all of the other one is read meanwhile."""
_MIN_COMMIT_TIMEOUT = 5.0
"""Seconds that a server has to answer COMMIT, at least, before it is asked by another connection what became of it."""
_RETRY_SECONDS = 0.1
_STANDBYS = "SELECT current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication)"
_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


class PostgresStore:
    """A store of the lines of one schema. One connection per process, taken in turns by its threads."""

    shared = True
    is_backup = False

    def __init__(self, address: ServerAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.RLock()
        self._held: list[PostgresSession] = []
        self._open: PostgresRows | None = None
        self._book: Book | None = None
        self._closed = False
        self.place = f"PostgreSQL, schema {address.schema}"
        with self._lock:
            session = self._session()
        host, port, database = session.peer
        self.name = f"schema {address.schema} of database {database}"
        self.place = f"PostgreSQL at {host}:{port}, database {database}, schema {address.schema}"
        self.bodies = PostgresBodies(self)
        self._book = book = session.book
        self._key = book.key
        self.identity = book.id
        self.address = address.with_schema
        self.anchor_paths = _anchor_paths(book.id, f"{host}\0{port}\0{database}\0{address.schema}")
        _stores.add(self)
        weakref.finalize(self, _close_all, self._held)

    @property
    def durability(self) -> str:
        synchronous, _ = self._synchronous_names_and_attached_count()
        if synchronous:
            return (
                "a charge is synced to the disk of the server, and of the standbys that it waits for "
                f"({synchronous}), before it counts"
            )
        return "a charge is synced to the disk of the server before it counts; the server waits for no standby"

    def _synchronous_names_and_attached_count(self) -> tuple[str, int]:
        """Return the standbys that a commit waits for, as the server names them, and the number of all that follow
        it.
        """
        with self.reading() as rows:
            ((names, attached),) = rows.run(_STANDBYS)
        return names, attached

    @property
    def warnings(self) -> tuple[str, ...]:
        messages, (synchronous, standbys) = [], self._synchronous_names_and_attached_count()
        if self._book is not None and self._book.can_change:
            messages.append(
                "this curator is connected as the owner of the ledger's schema or of a table in it, or as an "
                "administrator, who can change recorded charges: connect as a role made with `sfumato ledger init "
                "--spender`"
            )
        if not _is_writable(self.anchor_paths[0].parent):
            messages.append(
                "the folder for this user's anchors of the ledger cannot be written, so a failover that loses charges "
                f"would not be detected ({self.anchor_paths[0].parent})"
            )
        if standbys and not synchronous:
            messages.append(
                "the ledger's server does not wait for its standbys, so a failover can lose the last charges: set "
                "synchronous_standby_names"
            )
        return tuple(messages)

    # ── transactions ───────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def reading(self, numbers: Sequence[int] = ()) -> Iterator[PostgresRows]:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = pg_catalog;"
        with hold_unheld_lock(self._lock), self._transaction(begin, numbers) as transaction:
            yield transaction

    @contextlib.contextmanager
    def writing(self, numbers: Sequence[int] = (), *, moving: bool = False) -> Iterator[PostgresRows]:
        with (
            hold_unheld_lock(self._lock),
            self._transaction(self._begin_writing_sql(long_idle=moving), numbers) as transaction,
        ):
            yield transaction

    def _begin_writing_sql(self, *, long_idle: bool = False) -> str:
        """Return the statements that begin a transaction and lock out other writers."""
        idle = _MOVING_IDLE_TIMEOUT if long_idle else max(self._timeout / 2, _MIN_IDLE_TIMEOUT)
        begin = (
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path = pg_catalog; "
            f"SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {max(1, int(self._timeout * 1000))}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(idle * 1000)};"
        )
        return f"{begin}SELECT version, id, key FROM {self._address.schema}.book FOR UPDATE;"

    @contextlib.contextmanager
    def _transaction(self, begin: str, numbers: Sequence[int]) -> Iterator[PostgresRows]:
        """Open a transaction in this thread's turn, and commit it when the block has ended."""
        number_list = ", ".join(f"{int(number)}" for number in numbers)
        with translate_errors(self.place):
            if self._rows_of_open_transaction is not None:
                raise RuntimeError("a transaction is open already")
            try:
                self._open = self._begin_and_read_newest_line(
                    begin + _first_query(self._address.schema, number_list), number_list
                )
                yield self._open
                self._commit(self._open)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._open = None

    @property
    def _rows_of_open_transaction(self) -> PostgresRows | None:
        """The lines of the open transaction. One that an interrupt left behind has ended."""
        rows = self._open
        return rows if rows is not None and rows.session in self._held and not rows.session.is_idle else None

    def _begin_and_read_newest_line(self, text: str, numbers: str) -> PostgresRows:
        """Begin a transaction and read the newest line, in one round trip. A connection that was lost since the last
        one is replaced: nothing was asked of it yet.
        """
        was_connected = bool(self._held)
        session = self._session()
        try:
            result_sets = session.run_all(text)
        except psycopg.OperationalError:
            if not was_connected or not session.is_outcome_unknown:
                raise
            self._roll_back()
            session = self._session()
            result_sets = session.run_all(text)
        for books in result_sets[:-2]:
            self._require_same_book([tuple(book) for book in books])
        return PostgresRows(session, self._address.schema, result_sets[-2], result_sets[-1], numbers)

    def _require_same_book(self, books: list[tuple[Any, ...]]) -> None:
        """Raise if the book is no longer the one that was opened."""
        if self._book is not None and books != [self._book[:3]]:
            raise LedgerUnavailable(
                "this address now holds a different ledger from the one that was opened",
                place=self.place,
                fix="restore the ledger that was there, or open the ledger that is there now",
            )

    def _commit(self, transaction: PostgresRows) -> None:
        try:
            transaction.finish(max(self._timeout, _MIN_COMMIT_TIMEOUT))
        except psycopg.Error as error:
            if not transaction.session.is_outcome_unknown or not transaction.appended:
                raise
            self._resolve_unanswered_commit(transaction, error)
        else:
            if transaction.appended and transaction.session.warned:  # somebody has stopped its wait for a standby
                raise _in_doubt_error(transaction.appended)

    def _resolve_unanswered_commit(self, transaction: PostgresRows, error: psycopg.Error) -> None:
        """Find out whether lines were written whose COMMIT was not answered; raise LedgerInDoubt if nobody can tell."""
        self._roll_back()
        self._open = None
        last_line = transaction.appended[-1]
        try:
            was_written = self.retry(lambda: self._has_line(last_line.number, last_line.hash))
        except LedgerUnavailable:
            raise _in_doubt_error(transaction.appended) from None
        if not was_written:
            raise refusal_for_error(error, self.place) from None

    def retry(self, call: Callable[[], T]) -> T:
        """Repeat a call until the server answers, or has been away for the store's timeout.

        A refusal that waiting cannot change is not repeated, nor is one that leaves open what was written.
        """
        deadline = None
        while True:
            try:
                return call()
            except (LedgerDamaged, LedgerBehind, LedgerInDoubt):
                raise
            except LedgerUnavailable:
                deadline = time.monotonic() + self._timeout if deadline is None else deadline
                if time.monotonic() >= deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    def is_written(self, number: int, seal: str) -> bool:
        """Return whether this line was written, behind the lock that its writer would still hold."""

        def ask() -> bool:
            with hold_unheld_lock(self._lock):
                return self._has_line(number, seal)

        return self.retry(ask)

    def _has_line(self, number: int, line_hash: str) -> bool:
        with self._transaction(self._begin_writing_sql(), (number,)) as transaction:
            return [row.hash for row in transaction.select({"number": number}, limit=1)] == [line_hash]

    def _roll_back(self) -> None:
        """Roll back what is not committed. A connection that cannot even do that is dropped: the next call opens
        one.
        """
        for session in self._held[:]:
            try:
                is_usable = session.is_ours and not session.is_outcome_unknown
                if is_usable and not session.is_idle:
                    session.run("ROLLBACK")
            except psycopg.Error:
                is_usable = False
            if not is_usable:
                self._held.remove(session)
                session.close()

    def _session(self) -> PostgresSession:
        """Return the connection of this process, opening it when it is missing."""
        if self._closed:
            raise LedgerUnavailable(
                "this ledger is closed", place=self.place, fix="open it again: Ledger.open(address)"
            )
        self._roll_back()  # where a signal struck between two lines of this module
        if self._held:
            return self._held[0]
        with translate_errors(self.place):
            session = PostgresSession(self._address, self._timeout, self.place)
        self._held.append(session)
        self._require_same_book([session.book[:3]])
        return session

    # ── the store itself ───────────────────────────────────────────────────────────────────────

    def now(self) -> int:
        with self._lock:  # a transaction of another thread is not ours to ask
            if self._rows_of_open_transaction is not None:
                return self._rows_of_open_transaction.now()
        with self.reading() as rows:
            return rows.now()

    def key(self) -> bytes:
        try:
            return bytes.fromhex(self._key)
        except ValueError:
            raise LedgerDamaged(None, "its table book does not contain the key of the ledger") from None

    def schema_fault(self) -> str | None:
        """Return a fault if the schema is not the one we made: a trigger or an index more or less changes what a line
        means.
        """
        with self.reading() as rows:
            actual_shape = set(rows.run(SHAPE.format(schema=self._address.schema)))
        return None if actual_shape == expected_shape(self._address.schema) else "its schema was changed"

    def storage_fault(self) -> str | None:
        """Let the server check its indexes or, if it cannot, count every index against its table."""
        from sfumato.ledger.stores.postgres_schema import index_fault

        with self.reading() as rows:
            return index_fault(rows.run, self._address.schema)

    def backup(self, path: object) -> None:
        """Write a copy of one moment as a SQLite ledger, under a name that must be new."""
        with self.reading() as rows:
            write_copy(path, LedgerContent(self._key, rows.all_lines, (), self.bodies.read))

    @contextlib.contextmanager
    def fill_empty(self, content: LedgerContent, last: Row | None, *, refill: bool) -> Iterator[Iterator[Row]]:
        """Fill this ledger, which is empty, as its owner; yield its lines, which count when the block has ended. One
        that was filled before, up to the ``last`` line, stays as it is; without ``refill`` an empty one is not filled
        again.
        """
        self.require_owner()
        if shape_fault := self.schema_fault():
            raise LedgerDamaged(None, shape_fault)
        with self.writing(moving=True) as rows:
            head = next(iter(rows.select({}, newest=True, limit=1)), None)
            if head is not None and (last is None or head.hash != last.hash):
                raise LedgerUnavailable(
                    "a ledger can only be copied into an empty one, and the target already has lines",
                    place=self.place,
                    fix="name another schema, and create it with `sfumato ledger init`",
                )
            if head is None and last is not None and not refill:
                raise lost_target_error(self.place)
            if head is None:
                self._insert_content(rows, content)
            yield rows.all_lines()

    def require_owner(self) -> None:
        """Raise unless the ledger's owner is connected, who alone moves it into a database or out of it."""
        if self._book is None or not self._book.is_owner:
            raise LedgerUnavailable(
                "only the owner of its schema may copy a ledger into or out of a database",
                place=self.place,
                fix="connect as the owner, who ran `sfumato ledger init`",
            )

    def _insert_content(self, transaction: PostgresRows, content: LedgerContent) -> None:
        change_book(
            lambda text, *values: transaction.run(text, values or None), self._address.schema, "key", content.key
        )
        for row in content.rows():
            body = content.body(row.file) if row.file else None
            if body is not None:
                self.bodies.write_body(body)
            transaction.append(row)
        for charge in content.pending_charges:
            transaction.add_pending_charge(charge)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            _close_all(self._held)

    def run(self, text: str, values: tuple[Any, ...], *, writing: bool) -> list[tuple[Any, ...]]:
        """Run a statement inside the transaction that is open, or in one of its own."""
        with self._lock, translate_errors(self.place):
            if self._rows_of_open_transaction is not None:
                return self._rows_of_open_transaction.run(text, values)
        with self.writing() if writing else self.reading() as rows:
            return rows.run(text, values)

    def after_fork(self) -> None:
        """Reset in a child: its parent's connection is set aside, and no thread of the parent holds a lock."""
        self._lock = threading.RLock()
        self._open = None
        _close_all(self._held)


class PostgresRows:
    """The lines inside a transaction. Appended lines are buffered, and sent with COMMIT or before the next statement
    that reads.
    """

    def __init__(
        self,
        session: PostgresSession,
        schema: str,
        clock: list[tuple[Any, ...]],
        first_rows: list[tuple[Any, ...]],
        numbers: str,
    ) -> None:
        self.session = session
        self._schema = schema
        self._clock, self._started = clock[0][0], time.monotonic()
        lines = {row[0]: _row_from_columns(row) for row in first_rows}
        self._head = lines[max(lines)] if lines else None
        self._seen = {int(number): lines.get(int(number)) for number in numbers.split(", ") if number}
        self._pending: list[tuple[str, tuple[Any, ...]]] = []
        self.appended: list[Row] = []
        """The lines that were appended, of which nobody knows whether they were written until COMMIT has returned."""

    def run(self, text: str, values: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement after all that was buffered."""
        self._flush()
        return self.session.run(text, values)

    def select(
        self, equal: Where, *, newest: bool = False, after: int = 0, before: int = 0, limit: int
    ) -> Sequence[Row]:
        if not self.appended and not after and not before and limit == 1:
            if not equal and newest:
                return [] if self._head is None else [self._head]
            number = equal.get("number")
            if len(equal) == 1 and number in self._seen:
                seen_line = self._seen[int(number)]
                return [] if seen_line is None else [seen_line]
        conditions = [f'"{column}" = %s' for column in equal if column != "kind"]
        conditions += [_CONDITIONS[column] for column in equal if column in _CONDITIONS and equal[column]]
        conditions += [f"kind = '{equal['kind']}'"] if equal.get("kind") else []
        values: list[str | int] = [value for column, value in equal.items() if column != "kind"]
        for text, bound in (("number > %s", after), ("number < %s", before)):
            if bound > 0:
                conditions.append(text)
                values.append(bound)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        limit_clause = f" LIMIT {int(limit)}" if limit >= 0 else ""
        order = "DESC" if newest else "ASC"
        return self._lines(
            f"SELECT {SELECT_LINE} FROM {self._schema}.lines{where} ORDER BY number {order}{limit_clause}", values
        )

    def answers_with_plan_prefix(self, equal: Where, plan: Prefix, *, after: int, limit: int) -> Sequence[Row]:
        conditions = "".join(f' AND "{column}" = %s' for column in equal)
        numbers = (  # by itself, so that the index of plans is walked, and not all lines by their number
            f"SELECT number FROM {self._schema}.lines WHERE kind = 'answer' AND plan <> '' "
            f"AND plan >= %s AND plan < %s{conditions} AND number > %s OFFSET 0"
        )
        text = (
            f"SELECT {SELECT_LINE} FROM {self._schema}.lines WHERE number IN "
            f"(SELECT number FROM ({numbers}) AS found ORDER BY number LIMIT {int(limit)}) ORDER BY number"
        )
        return self._lines(text, [plan.text, plan.after, *equal.values(), after])

    def _lines(self, text: str, values: Sequence[str | int]) -> list[Row]:
        return [_row_from_columns(columns) for columns in self.run(text, tuple(values))]

    def all_lines(self) -> Iterator[Row]:
        """Yield every line from the first, a thousand at a time."""
        after = 0
        while page := self.select({}, after=after, limit=_BUFFERED_LINES):
            yield from page
            after = page[-1].number

    def append(self, row: Row) -> None:
        self.appended.append(row)
        self._buffer_statement(INSERT_LINE.format(schema=self._schema), tuple(row))

    def pending_charges(self, equal: Where) -> Sequence[PendingCharge]:
        where = " AND ".join(f'"{column}" = %s' for column in equal) or "true"
        columns = ", ".join(f'"{column}"' for column in PendingCharge._fields)
        text = f"SELECT {columns} FROM {self._schema}.under_way WHERE {where} ORDER BY number"
        return [PendingCharge(*values) for values in self.run(text, tuple(equal.values()))]

    def add_pending_charge(self, charge: PendingCharge) -> None:
        marks = ", ".join(["%s"] * len(charge))
        self._buffer_statement(f"INSERT INTO {self._schema}.under_way VALUES ({marks})", tuple(charge))

    def remove_pending_charge(self, number: int) -> None:
        self._buffer_statement(f"DELETE FROM {self._schema}.under_way WHERE number = %s", (number,))

    def now(self) -> int:
        return int(self._clock + (time.monotonic() - self._started) * 1e6)

    def finish(self, seconds: float) -> None:
        """Send what was buffered, and COMMIT within these seconds; on return the server has it on disk."""
        pending, self._pending = self._pending, []
        self.session.send(pending, commit_within=seconds)

    def _buffer_statement(self, text: str, values: tuple[Any, ...]) -> None:
        self._pending.append((text, values))
        if len(self._pending) >= _BUFFERED_LINES:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            self.session.send(pending)


class PostgresBodies:
    """The large answers in the database, each under its SHA-256."""

    def __init__(self, store: PostgresStore) -> None:
        self._store: PostgresStore = weakref.proxy(store)
        self._table = f"{store._address.schema}.bodies"  # noqa: SLF001 - of one module

    def write_body(self, body: str) -> str:
        """Write a body and return its hash. It is durable on return, or with the transaction that is open."""
        content = body.encode()
        digest = sha256(content).hexdigest()
        insert = f"INSERT INTO {self._table} VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._store.run(insert, (digest, content), writing=True)
        if self.read(digest) is None:
            raise LedgerUnavailable(
                "a large answer could not be stored: the database already holds different content under its hash, "
                "which means that somebody has changed it",
                place=self._store.place,
                fix="ask the administrator of the database to find the cause, and to remove that content",
            )
        return digest

    def read(self, digest: str) -> str | None:
        """Read the body of this hash; None if it is missing or was changed."""
        result_rows = self._store.run(f"SELECT content FROM {self._table} WHERE hash = %s", (digest,), writing=False)
        if not result_rows or sha256(result_rows[0][0]).hexdigest() != digest:
            return None
        return bytes(result_rows[0][0]).decode()


def _first_query(schema: str, numbers: str) -> str:
    """Return the query for the time, and for the newest line and those of these numbers."""
    newest = f"SELECT {SELECT_LINE} FROM {schema}.lines ORDER BY number DESC LIMIT 1"
    chosen = f" UNION SELECT {SELECT_LINE} FROM {schema}.lines WHERE number IN ({numbers})" if numbers else ""
    return f"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; ({newest}){chosen}"


def _in_doubt_error(lines: Sequence[Row]) -> LedgerInDoubt:
    request = next((row.request for row in lines if row.request), None)
    return LedgerInDoubt(lines[0].number, lines[-1].number, request)


def _is_writable(folder: Path) -> bool:
    """Return whether files can be written to a folder, or the folder be created."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _row_from_columns(columns: tuple[Any, ...]) -> Row:
    return tuple.__new__(Row, columns)  # as Row._make does, without counting columns that the schema has counted


def _anchor_paths(ledger: str, address: str) -> tuple[Path, ...]:
    """Return the files of this user that anchor a ledger: by its id, which it keeps wherever it moves, and by its
    address, at which another could be put in its place.
    """
    folder = local_files.anchor_folder()
    return folder / f"{ledger}.anchor", folder / f"at-{sha256(address.encode()).hexdigest()[:32]}.anchor"


def _close_all(sessions: list[PostgresSession]) -> None:
    while sessions:
        sessions.pop().close()


def _after_fork() -> None:
    for store in list(_stores):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
