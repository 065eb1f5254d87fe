"""Where the rows of a statement come from: the session's own tables, the catalog, a synthetic table that was bought, or
a question to the curator.

Only ``run`` of a question spends, through the gateway's ``start``, as REST does. ``describe`` and ``explain`` ask the
gateway's free calls, which read no row. A session authenticates its token again before every statement, so a revoked
one ends at once. Catalog statements run in a queue of their own, and what was answered before comes from memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from sfumato.mechanisms import bits
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE
from sfumato.quick_dataclass import dataclass
from sfumato.server.gateway import Gateway
from sfumato.server.people.people_file import ProvenToken
from sfumato.server.people.token_spending_limits import ConnectionLimit
from sfumato.server.people.users import Caller
from sfumato.server.postgres import synthetic_tables, types
from sfumato.server.postgres.catalog_queue import CatalogQueue
from sfumato.server.postgres.lexing import blank_out_database_name
from sfumato.server.postgres.results import (
    ResultColumn,
    ResultColumns,
    StatementResult,
    answer_result,
    described_columns,
    text_result,
)
from sfumato.server.postgres.session_settings import NO_PRICE_HINT, has_amount
from sfumato.server.postgres.statement_texts import RefusalCounts
from sfumato.server.postgres.statements import RowsStatement, SqlRefusal
from sfumato.server.postgres.synthetic_rows import OuterSelectOverAnswer, may_name_range_column, split_outer_select
from sfumato.server.postgres.synthetic_tables import PublishedTables
from sfumato.server.releases.flights import Flight, FlightResult
from sfumato.server.releases.running_releases import DescribedQuestion
from sfumato.server.requests.calls import run_in_thread

PUBLISHED = "_published"
"""What follows a policy's name in the name of the database of what was published."""
_KIND = "questions"
_T = TypeVar("_T")
_EXPLAIN_TERMS = ("epsilon", "delta", "rho", "within", "confidence", "mechanism")


class StatementColumn(Protocol):
    """A column of a catalog result."""

    @property
    def name(self) -> str: ...
    @property
    def oid(self) -> int: ...


class DescribedRows(Protocol):
    """The result of a catalog statement."""

    @property
    def columns(self) -> Sequence[StatementColumn]: ...
    @property
    def rows(self) -> Sequence[Sequence[object]]: ...


class StatementCatalog(Protocol):
    """Answers statements about the system catalogs and constants, from the policy alone."""

    def covers(self, sql: str) -> bool: ...
    def describe(self, sql: str, parameter_count: int) -> Sequence[StatementColumn]: ...
    def parameter_oids(self, sql: str, parameter_count: int) -> tuple[int, ...]: ...
    def run(self, sql: str, parameters: Sequence[str | None]) -> DescribedRows: ...
    def recall(self, act: str, sql: str, *details: object) -> Any | None: ...
    def interrupt(self) -> None: ...


@dataclass(frozen=True)
class StatementTerms:
    """On what terms a statement is run: the price, whether intervals are shown, and the event that cancels it."""

    price: Mapping[str, Any]
    ranges: bool
    cancelled: asyncio.Event


@dataclass
class TokenProof:
    """When a connection's token was looked up last."""

    proven: ProvenToken | None = None


@dataclass(frozen=True)
class StatementSource:
    """Where the rows of one connection's statements come from."""

    gateway: Gateway
    user: str
    token: int
    policy: str
    policy_catalog: StatementCatalog
    database: str = ""
    process: int = 0
    """The number of the connection, as the client knows it."""
    published: PublishedTables | None = None
    """The synthetic tables of a free database, whose questions are answered by what was bought alone, for nothing."""
    limit: ConnectionLimit = field(default_factory=ConnectionLimit)
    queue: CatalogQueue = field(default_factory=CatalogQueue)
    refusals: RefusalCounts = field(default_factory=RefusalCounts)
    proof: TokenProof = field(default_factory=TokenProof)

    @property
    def catalog(self) -> StatementCatalog:
        """The catalog: of the policy, and of what was published."""
        return self.policy_catalog if self.published is None else self.published.catalog

    def caller(self) -> Caller:
        """Authenticate the connection's token again."""
        return replace(self.gateway.caller_of_token(self.token, "postgres"), limit=self.limit)

    async def authenticate(self) -> None:
        """Refuse a caller who was removed or disabled, or whose token has ended, since the connection was opened.

        While the file of users and tokens has not changed, what was looked up before holds, and no thread is needed.
        """
        if self.published is None and self.gateway.people.is_proof_current(self.proof.proven):
            return
        await asyncio.get_running_loop().run_in_executor(None, self._authenticate)  # never behind questions

    def _authenticate(self) -> None:
        change_count = (
            self.gateway.people.database.change_counters_or_none()
        )  # before the look-up: a later change is noticed
        caller = self.caller()
        self.proof.proven = None if caller.token is None else ProvenToken(caller.token, change_count)
        if self.published is not None:
            self.published.refresh(caller)

    def count_refusal(self, rule: str) -> None:
        """Count a statement that was refused with 0A000."""
        self.refusals.count(self.user, rule)

    async def reads_catalog(self, sql: str) -> bool:
        """Return whether a statement reads only the catalog or constants."""
        if synthetic_tables.find_service_table(sql) is not None or await self._reads_synthetic(sql):
            return False
        if _asks_backend_pid(sql):
            return True
        covered: bool | None = self.catalog.recall("covers", sql)
        return await run_in_thread(self.catalog.covers, sql) if covered is None else covered

    async def is_question(self, sql: str) -> bool:
        """Return whether a statement asks the curator, and so may spend."""
        if synthetic_tables.find_service_table(sql) is not None or await self._reads_synthetic(sql):
            return False
        return not await self.reads_catalog(sql)

    async def _reads_synthetic(self, sql: str) -> bool:
        """Return whether a statement reads synthetic tables: it is parsed in a worker thread."""
        if self.published is None or not self.published.may_read(sql):
            return False
        return await run_in_thread(self.published.reads, sql)

    async def _outer_select_over_answer(self, sql: str) -> OuterSelectOverAnswer | None:
        """Return the parts of a statement about an answer's ranges; only where no question costs anything."""
        if self.published is None or not may_name_range_column(sql):
            return None
        return await run_in_thread(split_outer_select, sql)

    async def parameter_oids(self, sql: str, parameter_count: int) -> tuple[int, ...] | None:
        """Return the types of a catalog statement's parameters; None if it is no catalog statement."""
        if not await self.reads_catalog(sql):
            return None
        return await run_in_thread(self.catalog.parameter_oids, sql, parameter_count)

    async def describe(
        self, rows: RowsStatement, parameters: Sequence[Any], cancelled: asyncio.Event, *, ranges: bool
    ) -> ResultColumns:
        """Return the columns of a statement's result. Free, and reads no row."""
        split = await self._outer_select_over_answer(rows.sql)
        if split is not None:
            columns = await self.describe(replace(rows, sql=split.question_sql), parameters, cancelled, ranges=True)
            return await self.queue.run(self.user, partial(split.describe, columns), _no_interrupt, cancelled)
        if _asks_backend_pid(rows.sql):
            return _PROCESS_COLUMNS
        if self.published is not None and await self._reads_synthetic(rows.sql):
            call = partial(self.published.describe, rows.sql, parameters)
            return await self._ask_synthetic(self.published, call, cancelled)
        if not await self.reads_catalog(rows.sql):
            return await run_in_thread(self._describe_table_or_question, rows, parameters, ranges)
        catalog_columns: Sequence[StatementColumn] | None = self.catalog.recall("describe", rows.sql, len(parameters))
        if catalog_columns is None:
            catalog_columns = await self._run_in_turn(
                partial(self.catalog.describe, rows.sql, len(parameters)), cancelled
            )
        return _result_columns(catalog_columns)

    async def run(
        self, rows: RowsStatement, parameters: Sequence[Any], columns: ResultColumns | None, terms: StatementTerms
    ) -> StatementResult:
        """Return the rows of a statement, in the columns that were described, if any were."""
        if _asks_backend_pid(rows.sql):
            return StatementResult(_PROCESS_COLUMNS, [(self.process,)])
        if await self.reads_catalog(rows.sql):
            return await self._run_catalog(rows.sql, parameters, terms.cancelled)
        split = await self._outer_select_over_answer(rows.sql)
        if split is not None:
            answer = await self.run(
                replace(rows, sql=split.question_sql), parameters, None, replace(terms, ranges=True)
            )
            return await self.queue.run(self.user, partial(split.run_outer, answer), _no_interrupt, terms.cancelled)
        if self.published is not None and await self._reads_synthetic(rows.sql):
            confidence = str(terms.price.get("confidence", DEFAULT_CONFIDENCE))
            call = partial(self.published.run, rows.sql, parameters, columns, confidence)
            return await self._ask_synthetic(self.published, call, terms.cancelled)
        begun = await run_in_thread(self._read_or_start_release, rows, parameters, terms.price)
        if isinstance(begun, StatementResult):
            return begun
        released = await self._wait(begun, terms.cancelled)
        return answer_result(released.answer, columns, ranges=terms.ranges, charged=not released.free)

    async def explain(
        self, rows: RowsStatement, parameters: Sequence[Any], price: Mapping[str, Any]
    ) -> StatementResult:
        """Explain a question and forecast its error. Free, and reads no row."""
        if self.published is not None and await self._reads_synthetic(rows.sql):
            call = partial(self.published.explain, rows.sql, parameters)
            lines = await self._ask_synthetic(self.published, call, asyncio.Event())
            return text_result(("QUERY PLAN",), [(line,) for line in lines])
        if not await self.is_question(rows.sql):
            raise SqlRefusal(
                "0A000", "EXPLAIN works on questions only", hint="Write EXPLAIN SELECT … FROM a table that \\dt lists."
            )
        lines = await run_in_thread(self._explain_question, rows, parameters, price)
        return text_result(("QUERY PLAN",), [(line,) for line in lines])

    # ── blocking calls, in worker threads ──────────────────────────────────────────────────────

    def _describe_table_or_question(
        self, rows: RowsStatement, parameters: Sequence[Any], ranges: bool
    ) -> ResultColumns:
        service_table = synthetic_tables.find_service_table(rows.sql)
        if service_table is not None:
            return service_table.columns
        described = self._describe_question(rows, parameters)
        return described_columns(described, ranges=ranges and not described.free)

    def _read_or_start_release(
        self, rows: RowsStatement, parameters: Sequence[Any], price: Mapping[str, Any]
    ) -> StatementResult | Flight:
        """Return the rows of one of the session's own tables, or start the release of a question."""
        service_table = synthetic_tables.find_service_table(rows.sql)
        if service_table is not None:
            return service_table.run(
                synthetic_tables.ServiceTableContext(self.gateway, self.caller(), self.policy, self.refusals)
            )
        price = self._require_price(rows, parameters, price)
        request_id = f"wire-{bits.random_bits(128):032x}"
        return self.gateway.start(
            self.caller(), self.policy, _KIND, self._question_spec(rows, parameters), price, request_id
        )

    def _describe_question(self, rows: RowsStatement, parameters: Sequence[Any]) -> DescribedQuestion:
        described: DescribedQuestion = self._free_call("describe", rows, parameters)
        return described

    def _free_call(
        self, act: str, rows: RowsStatement, parameters: Sequence[Any], price: Mapping[str, Any] | None = None
    ) -> Any:
        return self.gateway.call_free(
            self.caller(), self.policy, _KIND, act, self._question_spec(rows, parameters), price
        )

    def _question_spec(self, rows: RowsStatement, parameters: Sequence[Any]) -> dict[str, Any]:
        spec: dict[str, Any] = {"sql": blank_out_database_name(rows.sql, self.database) if self.database else rows.sql}
        return {**spec, "parameters": [types.json_parameter(value) for value in parameters]} if parameters else spec

    def _require_price(
        self, rows: RowsStatement, parameters: Sequence[Any], price: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the price of a question; refuse one without an amount, unless it needs none."""
        if self.published is not None:
            return {"free": True, **{name: price[name] for name in ("within", "confidence") if name in price}}
        if not has_amount(price) and not self._describe_question(rows, parameters).free:
            raise SqlRefusal("22023", "this question has no price", detail="Nothing was spent.", hint=NO_PRICE_HINT)
        return price

    def _explain_question(self, rows: RowsStatement, parameters: Sequence[Any], price: Mapping[str, Any]) -> list[str]:
        terms = {name: price[name] for name in _EXPLAIN_TERMS if name in price}
        lines = str(self._free_call("explain", rows, parameters, terms)).splitlines()
        if has_amount(price):
            lines += ["", *str(self._free_call("error", rows, parameters, terms)).splitlines()]
        return lines

    # ── the catalog ────────────────────────────────────────────────────────────────────────────

    async def _run_catalog(self, sql: str, parameters: Sequence[Any], cancelled: asyncio.Event) -> StatementResult:
        texts = tuple(None if value is None else types.cell_text(value) for value in parameters)
        answer: DescribedRows | None = self.catalog.recall("run", sql, texts)
        if answer is None:
            answer = await self._run_in_turn(partial(self.catalog.run, sql, texts), cancelled)
        return StatementResult(_result_columns(answer.columns), answer.rows)

    async def _run_in_turn(self, call: Callable[[], _T], cancelled: asyncio.Event) -> _T:
        return await self.queue.run(self.user, call, self.catalog.interrupt, cancelled)

    # ── synthetic tables ───────────────────────────────────────────────────────────────────────

    async def _ask_synthetic(self, tables: PublishedTables, call: Callable[[], _T], cancelled: asyncio.Event) -> _T:
        """Ask synthetic tables in the queue of catalog statements: they cost time as those do, and no budget."""

        def ask() -> _T:
            self.gateway.rate_limit_read(self.caller())
            return call()

        return await self.queue.run(self.user, ask, tables.interrupt, cancelled)

    # ── releases ───────────────────────────────────────────────────────────────────────────────

    async def _wait(self, flight: Flight, cancelled: asyncio.Event) -> FlightResult:
        """Wait for the answer or for a cancellation, whichever comes first."""
        if flight.future.done():  # a stored answer
            return flight.wait_for_result()
        answered = asyncio.ensure_future(self.gateway.wait(flight))
        cancelling = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({answered, cancelling}, return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                return answered.result()
        finally:
            cancelling.cancel()
        flight.withdrawn = True
        answered.cancel()
        raise SqlRefusal(
            "57014",
            "canceling statement due to user request",
            detail="If it was charged already, its answer is stored.",
            hint="Ask again: a stored answer is free; SELECT * FROM sfumato.history lists what was charged.",
        )


def _no_interrupt() -> None:
    """Interrupt nothing: a few rows are read, within the limits of time of their engine."""


def _asks_backend_pid(sql: str) -> bool:
    """Return whether a statement asks for the number of the connection, which no catalog of several has."""
    return _PROCESS.fullmatch(sql) is not None


_PROCESS = re.compile(r"\s*SELECT\s+(pg_catalog\.)?pg_backend_pid\(\s*\)\s*", re.IGNORECASE)
_PROCESS_COLUMNS = (ResultColumn("pg_backend_pid", types.INT4),)


def _result_columns(columns: Sequence[StatementColumn]) -> ResultColumns:
    return tuple(ResultColumn(column.name, column.oid) for column in columns)
