"""A session: the state of one connection after its sign-in, and the replies to its messages.

*When budget is spent.* Parse, Bind and Describe spend nothing: columns follow from the question and the policy. Execute
asks once per portal and keeps the rows in the portal, so a second Execute continues with them. In a text of several
statements at most one may be a question, and a text with two is refused before either is asked.

*Transactions* exist in name: nothing is written. ROLLBACK restores settings and refunds nothing; a notice says so.

*Callers.* The token is authenticated again for each reply, whatever is asked: a user who was removed or disabled since
the connection was opened learns nothing more.

*Timing.* A reply ``AT_ONCE`` was made of the client's messages, the session's settings, the policy and the file of
users and tokens; one ``AT_TICK`` of a call to the curator as well. ``listening`` says when either leaves.

*Failures.* After an error in the extended protocol everything up to the next Sync is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import islice, zip_longest
from typing import Any, Protocol

from sfumato.policy import Type
from sfumato.privacy.numbers import exact
from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres import protocol, types
from sfumato.server.postgres.answering import StatementSource, StatementTerms
from sfumato.server.postgres.lexing import StatementText
from sfumato.server.postgres.results import (
    ResultColumns,
    StatementResult,
    copy_messages,
    encode_cells,
    formats_by_column,
    row_description_message,
    text_result,
)
from sfumato.server.postgres.session_settings import REPORTED, SessionSettings
from sfumato.server.postgres.statement_texts import (
    classify_text,
    error_message,
    notice_message,
    parameter_count,
    parameter_oids,
    rule_if_unsupported,
)
from sfumato.server.postgres.statements import (
    CloseCursor,
    CopyOut,
    Deallocate,
    DeclareCursor,
    Discard,
    Explain,
    FetchCursor,
    NoEffect,
    ResetSetting,
    RowsStatement,
    SetSetting,
    ShowSetting,
    SqlRefusal,
    Statement,
    TransactionCommand,
)

MAX_STATEMENTS, MAX_PORTALS = 1000, 100
"""Prepared statements and portals of one connection."""
AUTHENTICATED_SECONDS = 1.0
"""For how long the messages of one reply count as authenticated."""
_RECALLED_MESSAGES, _RECALLED_BYTES = 64, 256
_IDLE, _OPEN, _FAILED = "I", "T", "E"
_ROLLBACK_NOTICE = "questions asked in this transaction stay charged: their answers have been released"
_EXPLAIN_COLUMNS = text_result(("QUERY PLAN",), []).columns


class Outbox(Protocol):
    """Collects replies; ``send`` may wait until the client has read some of them."""

    async def send(self, data: bytes) -> None: ...


class Reply(IntEnum):
    """Whether the client waits for a reply now, and when it may leave."""

    LATER = 0
    AT_TICK = 1
    AT_ONCE = 2


@dataclass(frozen=True)
class PreparedStatement:
    """A parsed statement: None for an empty text."""

    statement: Statement | None
    parameter_oids: tuple[int, ...]
    ranges: bool
    """Whether intervals were shown when it was parsed: its columns never change."""
    sql: str = ""


@dataclass
class Portal:
    """A statement with its parameters, and what is left of its result."""

    statement: Statement | None
    parameters: tuple[Any, ...] = ()
    formats: tuple[int, ...] = ()
    ranges: bool = False
    holds: bool = False
    """Whether it outlives its transaction."""
    columns: ResultColumns | None = None
    remaining: Iterator[Sequence[Any]] | None = None
    """The rows not sent yet; None until it is executed."""
    sql: str = ""


class _Cancellable:
    """Entered while a statement runs, which may be cancelled until it ends."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self._is_running = False

    def __enter__(self) -> None:
        self.cancelled.clear()
        self._is_running = True

    def __exit__(self, *_: object) -> None:
        self._is_running = False

    def cancel(self) -> None:
        if self._is_running:
            self.cancelled.set()


class ClientSession:
    """The session of one connection."""

    def __init__(
        self,
        source: StatementSource,
        settings: SessionSettings,
        column_types: Callable[[], Mapping[str, Type]],
        outbox: Outbox,
    ) -> None:
        self._source = source
        self._settings = settings
        self._column_types = column_types
        self._outbox = outbox
        self._transaction = _IDLE
        self._savepoints = 0
        self._has_charged = False
        """Whether a question was charged in the open transaction."""
        self._prepared: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}
        self._skips_to_sync = False
        self._cancellable = _Cancellable()
        self._asks_curator = False
        """Whether the curator was asked for something in the reply that is being made."""
        self._authenticated_until = 0.0
        self._recall_message = lru_cache(_RECALLED_MESSAGES)(protocol.decode_message)
        """Decodes short messages, which clients repeat; not shared, so that nobody's time tells what others send."""

    def cancel(self) -> None:
        """Cancel the statement that is running, if one is."""
        self._cancellable.cancel()

    @property
    def ready(self) -> bytes:
        return protocol.ready_for_query(self._transaction)

    async def handle_frame(self, kind: bytes, body: bytes) -> Reply:
        """Decode and handle one message; return whether the client waits for a reply now.

        A body that cannot be decoded is an error like any other: the next message begins where its length says.
        """
        try:
            message = (self._recall_message if len(body) <= _RECALLED_BYTES else protocol.decode_message)(kind, body)
        except protocol.ProtocolViolation as violation:
            if kind not in protocol.STATEMENT_MESSAGES:
                raise
            await self._report_error(violation, "")
            self._skips_to_sync = kind != protocol.QUERY
            if kind != protocol.QUERY:
                return Reply.LATER
            await self._outbox.send(self.ready)
            return self._end_reply()
        return await self.handle(message)

    async def handle(self, message: protocol.FrontendMessage) -> Reply:
        """Handle one message; return whether the client waits for a reply now."""
        if isinstance(message, protocol.SimpleQuery):
            with self._cancellable:
                await self._simple_query(message.sql)
            await self._outbox.send(self.ready)
            return self._end_reply()
        if isinstance(message, protocol.Sync):
            self._skips_to_sync = False
            self._end_implicit_transaction()
            await self._outbox.send(self.ready)
            return self._end_reply()
        if isinstance(message, protocol.Flush):
            return self._end_reply()
        if isinstance(message, protocol.IgnoredCopyMessage) or self._skips_to_sync:
            return Reply.LATER
        try:
            with self._cancellable:
                await self._authenticate()
                await self._handle_extended_message(message)
        except Exception as error:  # whatever it is, it is reported as an error of this message
            self._skips_to_sync = True
            await self._report_error(error, *self._sql_and_offset(message))
        return Reply.LATER

    def _end_reply(self) -> Reply:
        """Return when the reply leaves, and begin the next one."""
        reply = Reply.AT_TICK if self._asks_curator else Reply.AT_ONCE
        self._asks_curator, self._authenticated_until = False, 0.0
        return reply

    async def _authenticate(self) -> None:
        """Authenticate the token again, once for the messages that are answered together."""
        now = asyncio.get_running_loop().time()
        if now >= self._authenticated_until:
            await self._source.authenticate()
            self._authenticated_until = now + AUTHENTICATED_SECONDS

    def _sql_and_offset(self, message: protocol.FrontendMessage) -> tuple[str, int]:
        """Return the client's text that a message is about, and where its question begins."""
        target: PreparedStatement | Portal | None = None
        if isinstance(message, protocol.Execute):
            target = self._portals.get(message.portal)
        elif isinstance(message, protocol.Describe):
            target = (self._prepared if message.kind == "S" else self._portals).get(message.name)
        if target is None or target.statement is None:
            return "", 0
        return target.sql, _question_offset(target.statement)

    async def _report_error(self, error: Exception, sql: str, offset: int = 0) -> None:
        if self._transaction == _OPEN:
            self._transaction = _FAILED
        rule = rule_if_unsupported(error)
        if rule is not None:
            self._source.count_refusal(rule)
        await self._outbox.send(error_message(error, sql[offset:], offset))

    # ── simple protocol ────────────────────────────────────────────────────────────────────────

    async def _simple_query(self, sql: str) -> None:
        offset = 0
        try:
            await self._authenticate()
            statements = [statement for _, statement in await classify_text(sql)]
            await self._require_one_question(statements)
            if not statements:
                await self._outbox.send(protocol.EMPTY_QUERY)
            for statement in statements:
                offset = _question_offset(statement)
                self._require_no_failed_transaction(statement)
                await self._run_simple_statement(statement)
        except Exception as error:  # the rest of the text is not run
            await self._report_error(error, sql, offset)
        self._end_implicit_transaction()

    async def _require_one_question(self, statements: Sequence[Statement]) -> None:
        """Refuse a text with two questions before either is asked: its reader could see the price of one only."""
        selections = self._selected_columns_to_run(statements)
        if len(selections) < 2:
            return
        questions = [selection for selection in selections if await self._source.is_question(selection.sql)]
        if len(questions) > 1:
            raise SqlRefusal(
                "0A000",
                "one query string contains more than one question",
                detail="None was answered, and nothing was spent.",
                hint="Send them one after the other.",
            )

    def _selected_columns_to_run(self, statements: Sequence[Statement]) -> list[RowsStatement]:
        """Return what the statements of a text select, and what the open cursors do that it fetches for the first
        time.
        """
        selections: list[RowsStatement] = []
        cursors: dict[str, RowsStatement] = {}
        declared: set[str] = set()
        for statement in statements:
            match statement:
                case RowsStatement():
                    selections.append(statement)
                case CopyOut(rows=rows):
                    selections.append(rows)
                case DeclareCursor(name=name, rows=rows):
                    selections.append(rows)
                    declared.add(name)
                case FetchCursor(name=name) if name not in declared and name in self._portals:
                    portal = self._portals[name]
                    if isinstance(portal.statement, RowsStatement) and portal.remaining is None:
                        cursors[name] = portal.statement
        return [*selections, *cursors.values()]

    async def _run_simple_statement(self, statement: Statement) -> None:
        portal = Portal(statement, ranges=self._shows_ranges)
        if isinstance(statement, FetchCursor) and statement.shows:
            await self._outbox.send(row_description_message(await self._cursor_columns(statement.name)))
        await self._execute(portal, describe=True)

    # ── extended protocol ──────────────────────────────────────────────────────────────────────

    async def _handle_extended_message(self, message: protocol.FrontendMessage) -> None:
        match message:
            case protocol.Parse():
                await self._parse(message)
                await self._outbox.send(protocol.PARSE_COMPLETE)
            case protocol.Bind():
                self._bind(message)
                await self._outbox.send(protocol.BIND_COMPLETE)
            case protocol.Describe(kind="S"):
                await self._describe_statement(message.name)
            case protocol.Describe():
                await self._describe_portal(message.name)
            case protocol.Execute():
                await self._execute_portal(message)
            case protocol.Close():
                (self._prepared if message.kind == "S" else self._portals).pop(message.name, None)
                await self._outbox.send(protocol.CLOSE_COMPLETE)
            case _:
                raise protocol.ProtocolViolation("a message that is not allowed at this point")

    async def _parse(self, message: protocol.Parse) -> None:
        classified = await classify_text(message.sql)
        if len(classified) > 1:
            raise SqlRefusal(
                "42601", "a prepared statement can contain only one statement", hint="Prepare them one by one."
            )
        if message.name and message.name in self._prepared:
            raise SqlRefusal(
                "42P05", "this prepared statement exists already", hint="Close it first, or use another name."
            )
        if len(self._prepared) >= MAX_STATEMENTS:
            rule = f"a connection can have at most {MAX_STATEMENTS:,} prepared statements"
            raise SqlRefusal("54000", rule, hint="Close one with DEALLOCATE name, or all with DEALLOCATE ALL.")
        if not classified:
            self._prepared[message.name] = PreparedStatement(None, (), False)
            return
        text, statement = classified[0]
        self._require_no_failed_transaction(statement)
        given = await self._given_oids(message, statement, text)
        oids = parameter_oids(text.tokens, given, self._column_types())
        self._prepared[message.name] = PreparedStatement(statement, oids, self._shows_ranges, message.sql)

    async def _given_oids(self, message: protocol.Parse, statement: Statement, text: StatementText) -> tuple[int, ...]:
        """Return the types of parameters that the client or the catalog says; 0 where neither does."""
        count = parameter_count(text.tokens)
        if not isinstance(statement, RowsStatement) or not count:
            return message.parameter_oids
        said = await self._source.parameter_oids(statement.sql, count)
        if said is None:
            return message.parameter_oids
        padded = [*message.parameter_oids, *([0] * (count - len(message.parameter_oids)))]
        return tuple(oid or inferred for oid, inferred in zip_longest(padded, said, fillvalue=types.TEXT))

    def _bind(self, message: protocol.Bind) -> None:
        prepared = self._require_prepared(message.statement)
        if message.portal and message.portal in self._portals:
            raise SqlRefusal("42P03", "this portal exists already", hint="Close it first, or use another name.")
        if len(self._portals) >= MAX_PORTALS and message.portal not in self._portals:
            raise SqlRefusal(
                "54000",
                f"a connection can have at most {MAX_PORTALS} open portals (cursors)",
                hint="Close one with CLOSE name, or all with CLOSE ALL.",
            )
        expected = len(prepared.parameter_oids)
        if len(message.parameters) != expected or len(message.parameter_formats) not in (0, 1, expected):
            rule = f"Bind has {len(message.parameters)} parameters, and the statement has {expected}"
            raise protocol.ProtocolViolation(rule)
        formats = formats_by_column(message.parameter_formats, expected)
        parameters = tuple(
            types.decode_parameter(raw, oid, form)
            for raw, oid, form in zip(message.parameters, prepared.parameter_oids, formats, strict=True)
        )
        self._portals[message.portal] = Portal(
            prepared.statement, parameters, message.result_formats, prepared.ranges, sql=prepared.sql
        )

    def _require_prepared(self, name: str) -> PreparedStatement:
        if name not in self._prepared:
            raise SqlRefusal("26000", "this prepared statement does not exist", hint="Prepare it first.")
        return self._prepared[name]

    def _require_portal(self, name: str) -> Portal:
        if name not in self._portals:
            hint = "Declare or bind it first; portals end with their transaction."
            raise SqlRefusal("34000", f'the cursor or portal "{name[:60]}" does not exist', hint=hint)
        return self._portals[name]

    async def _describe_statement(self, name: str) -> None:
        prepared = self._require_prepared(name)
        await self._outbox.send(protocol.parameter_description(prepared.parameter_oids))
        samples = tuple(map(types.sample_value, prepared.parameter_oids))
        columns = await self._columns(Portal(prepared.statement, samples, ranges=prepared.ranges))
        await self._outbox.send(protocol.NO_DATA if columns is None else row_description_message(columns))

    async def _describe_portal(self, name: str) -> None:
        portal = self._require_portal(name)
        columns = await self._columns(portal)
        portal.columns = columns
        await self._outbox.send(
            protocol.NO_DATA if columns is None else row_description_message(columns, portal.formats)
        )

    async def _columns(self, portal: Portal) -> ResultColumns | None:
        """Return the columns of a portal's result; None if it has none. Spends nothing."""
        statement = portal.statement
        if portal.columns is not None:
            return portal.columns
        match statement:
            case RowsStatement():
                await self._record_whether_curator_asked(statement)
                cancelled = self._cancellable.cancelled
                return await self._source.describe(statement, portal.parameters, cancelled, ranges=portal.ranges)
            case DeclareCursor():
                return None
            case FetchCursor(shows=True):
                return await self._cursor_columns(statement.name)
            case Explain():
                return _EXPLAIN_COLUMNS
            case ShowSetting():
                return self._setting_result(statement.name).columns
            case _:
                return None

    async def _cursor_columns(self, name: str) -> ResultColumns:
        cursor = self._require_portal(name)
        if cursor.columns is None:
            cursor.columns = await self._columns(cursor)
        return cursor.columns or ()

    async def _execute_portal(self, message: protocol.Execute) -> None:
        portal = self._require_portal(message.portal)
        if portal.statement is None:
            await self._outbox.send(protocol.EMPTY_QUERY)
            return
        self._require_no_failed_transaction(portal.statement)
        await self._execute(portal, message.max_rows)

    # ── execution ──────────────────────────────────────────────────────────────────────────────

    def _require_no_failed_transaction(self, statement: Statement) -> None:
        """Refuse everything but the end of a failed transaction."""
        ends = isinstance(statement, TransactionCommand) and statement.action in ("commit", "rollback", "rollback to")
        if self._transaction == _FAILED and not ends:
            rule = "current transaction is aborted, commands ignored until end of transaction block"
            raise SqlRefusal("25P02", rule, hint="Send ROLLBACK.")

    async def _execute(self, portal: Portal, max_rows: int = 0, *, describe: bool = False) -> None:
        """Run a portal, or continue it: a question is asked at most once. Send its rows and its tag."""
        statement = portal.statement
        match statement:
            case RowsStatement() | Explain() | ShowSetting():
                await self._run_portal_once(portal, describe=describe)
                await self._send_rows(
                    portal, max_rows or None, "SELECT" if isinstance(statement, RowsStatement) else None
                )
            case FetchCursor():
                await self._fetch_from_cursor(statement, portal.formats)
            case CopyOut():
                await self._copy_out(statement, portal)
            case None:
                await self._outbox.send(protocol.EMPTY_QUERY)
            case _:
                await self._outbox.send(protocol.command_complete(await self._run_utility_statement(statement, portal)))

    async def _run_portal_once(self, portal: Portal, *, describe: bool) -> None:
        """Run the statement of a portal unless it was run before, and keep its rows there."""
        if portal.remaining is not None:
            return
        result = await self._run_portal(portal)
        portal.columns, portal.remaining = result.columns, iter(result.rows)
        await self._send_notes(result)
        if describe:
            await self._outbox.send(row_description_message(result.columns))

    async def _run_portal(self, portal: Portal) -> StatementResult:
        statement = portal.statement
        if isinstance(statement, ShowSetting):
            return self._setting_result(statement.name)
        if isinstance(statement, Explain):
            await self._record_whether_curator_asked(statement.rows)
            price = self._settings.price(statement.rows.price)
            return await self._source.explain(statement.rows, portal.parameters, price)
        assert isinstance(statement, RowsStatement)
        return await self._run_rows_statement(statement, portal.parameters, portal.columns, ranges=portal.ranges)

    async def _run_rows_statement(
        self, rows: RowsStatement, parameters: Sequence[Any], columns: ResultColumns | None, *, ranges: bool
    ) -> StatementResult:
        await self._record_whether_curator_asked(rows)
        self._source.limit.most = None if self._settings.most is None else exact(self._settings.most, "most")
        terms = StatementTerms(self._settings.price(rows.price), ranges, self._cancellable.cancelled)
        result = await self._source.run(rows, parameters, columns, terms)
        self._has_charged |= result.charged
        return result

    async def _record_whether_curator_asked(self, rows: RowsStatement) -> None:
        self._asks_curator = self._asks_curator or not await self._source.reads_catalog(rows.sql)

    async def _send_notes(self, result: StatementResult) -> None:
        for note in result.notices:
            await self._outbox.send(notice_message(note))
        for warning in result.warnings:
            await self._outbox.send(notice_message(warning, severity="WARNING", code="01000"))

    async def _send_rows(self, portal: Portal, count: int | None, verb: str | None) -> None:
        assert portal.columns is not None and portal.remaining is not None  # noqa: PT018
        formats = formats_by_column(portal.formats, len(portal.columns))
        sent = 0
        for row in islice(portal.remaining, count):
            await self._outbox.send(protocol.data_row(encode_cells(row, portal.columns, formats)))
            sent += 1
        if count is not None and sent == count:
            await self._outbox.send(protocol.PORTAL_SUSPENDED)
            return
        tag = {Explain: "EXPLAIN", ShowSetting: "SHOW"}.get(type(portal.statement), "") if verb is None else verb
        await self._outbox.send(protocol.command_complete(f"{tag} {sent}" if verb else tag))

    async def _fetch_from_cursor(self, statement: FetchCursor, formats: Sequence[int]) -> None:
        cursor = self._require_portal(statement.name)
        await self._run_portal_once(cursor, describe=False)
        assert cursor.columns is not None and cursor.remaining is not None  # noqa: PT018
        column_formats = formats_by_column(formats, len(cursor.columns))
        moved = 0
        for row in islice(cursor.remaining, statement.count):
            if statement.shows:
                await self._outbox.send(protocol.data_row(encode_cells(row, cursor.columns, column_formats)))
            moved += 1
        await self._outbox.send(protocol.command_complete(f"{'FETCH' if statement.shows else 'MOVE'} {moved}"))

    async def _copy_out(self, statement: CopyOut, portal: Portal) -> None:
        result = await self._run_rows_statement(statement.rows, portal.parameters, None, ranges=portal.ranges)
        await self._send_notes(result)
        for message in copy_messages(result, statement.format):
            await self._outbox.send(message)
        await self._outbox.send(protocol.command_complete(f"COPY {len(result.rows)}"))

    def _setting_result(self, name: str) -> StatementResult:
        if name == "all":
            rows = [(key, value, "") for key, value in self._settings.items()]
            return text_result(("name", "setting", "description"), rows)
        return text_result((REPORTED.get(name, name),), [(self._settings.show(name),)])

    # ── commands ───────────────────────────────────────────────────────────────────────────────

    async def _run_utility_statement(self, statement: Statement, portal: Portal) -> str:
        """Run a statement without rows; return its tag."""
        match statement:
            case SetSetting():
                await self._change_settings(
                    lambda: self._settings.set(statement.name, statement.value, local=statement.local)
                )
                return "SET"
            case ResetSetting():
                await self._change_settings(lambda: self._settings.reset(statement.name))
                return "RESET"
            case TransactionCommand():
                return await self._run_transaction_command(statement)
            case Discard():
                await self._discard(statement)
                return statement.tag
            case Deallocate():
                self._deallocate(statement.name)
                return "DEALLOCATE ALL" if statement.name is None else "DEALLOCATE"
            case DeclareCursor():
                self._declare(statement, portal)
                return "DECLARE CURSOR"
            case CloseCursor():
                self._close_cursor(statement.name)
                return "CLOSE CURSOR ALL" if statement.name is None else "CLOSE CURSOR"
            case NoEffect():
                return statement.tag
            case _:
                raise AssertionError(statement)

    async def _change_settings(self, change: Callable[[], None]) -> None:
        """Change settings, and tell the client of those it is told of."""
        before = self.reported_settings()
        change()
        for name, value in self.reported_settings().items():
            if before[name] != value:
                await self._outbox.send(protocol.parameter_status(name, value))

    def reported_settings(self) -> dict[str, str]:
        """Return the settings that the client is told of, as it spells them."""
        return {reported_name: self._settings.show(name) for name, reported_name in REPORTED.items()}

    async def _run_transaction_command(self, statement: TransactionCommand) -> str:
        if statement.action == "begin":
            if self._transaction == _IDLE:
                self._transaction, self._savepoints, self._has_charged = _OPEN, 0, False
                self._settings.begin()
            else:
                await self._warn("there is already a transaction in progress", "25001")
            return statement.tag
        if statement.action in ("commit", "rollback"):
            return await self._end_transaction(statement)
        if self._transaction == _IDLE:
            raise SqlRefusal("25P01", "savepoints can only be used in transaction blocks", hint="Send BEGIN first.")
        if statement.action == "savepoint":
            self._savepoints += 1
        elif not self._savepoints:
            raise SqlRefusal("3B001", "this savepoint does not exist", hint="Send SAVEPOINT first.")
        else:
            self._transaction = _OPEN
        return statement.tag

    async def _end_transaction(self, statement: TransactionCommand) -> str:
        if self._transaction == _IDLE:
            await self._warn("there is no transaction in progress", "25P01")
            return statement.tag
        rolls_back = statement.action == "rollback" or self._transaction == _FAILED
        if rolls_back and self._has_charged:
            await self._outbox.send(notice_message(_ROLLBACK_NOTICE))
        await self._change_settings(self._settings.roll_back if rolls_back else self._settings.commit)
        self._transaction = _IDLE
        self._drop_portals()
        return "ROLLBACK" if rolls_back else statement.tag

    async def _warn(self, text: str, code: str) -> None:
        await self._outbox.send(notice_message(text, severity="WARNING", code=code))

    def _end_implicit_transaction(self) -> None:
        if self._transaction == _IDLE:
            self._drop_portals()

    def _drop_portals(self) -> None:
        self._portals = {name: portal for name, portal in self._portals.items() if portal.holds}

    async def _discard(self, statement: Discard) -> None:
        if not statement.everything:
            return
        if self._transaction != _IDLE:
            raise SqlRefusal("25001", "DISCARD ALL cannot run inside a transaction", hint="Send COMMIT first.")
        await self._change_settings(lambda: self._settings.reset(None))
        self._prepared, self._portals = {}, {}

    def _deallocate(self, name: str | None) -> None:
        if name is None:
            self._prepared = {}
        else:
            self._require_prepared(name)
            del self._prepared[name]

    def _declare(self, statement: DeclareCursor, portal: Portal) -> None:
        if self._transaction == _IDLE and not statement.holds:
            rule = "DECLARE CURSOR can only be used in transaction blocks"
            raise SqlRefusal("25P01", rule, hint="Send BEGIN first, or declare the cursor WITH HOLD.")
        if statement.name in self._portals:
            raise SqlRefusal("42P03", "this cursor exists already", hint="Close it first, or use another name.")
        if len(self._portals) >= MAX_PORTALS:
            raise SqlRefusal(
                "54000",
                f"a connection can have at most {MAX_PORTALS} open portals (cursors)",
                hint="Close one with CLOSE name, or all with CLOSE ALL.",
            )
        self._portals[statement.name] = Portal(
            statement.rows, portal.parameters, ranges=portal.ranges, holds=statement.holds
        )

    def _close_cursor(self, name: str | None) -> None:
        if name is None:
            self._portals = {}
        else:
            self._require_portal(name)
            del self._portals[name]

    @property
    def _shows_ranges(self) -> bool:
        return self._settings.ranges or self._source.published is not None


def _question_offset(statement: Statement) -> int:
    """Return where the question of a statement begins in the client's text."""
    rows = statement.rows if isinstance(statement, (CopyOut, DeclareCursor, Explain)) else statement
    return rows.offset if isinstance(rows, RowsStatement) else 0
