"""The synthetic tables of a free database: each purchase as tables that answer any number of statements for nothing.

*Who sees which.* The tables of a connection are those whose releases its user can read over REST: their own, and to
owners and auditors all. They are listed again for every reply, so a table that was bought meanwhile is there, and one
that the user may not read any more is not.

*What answers.* A question about the people (counts, sums, means by groups and conditions) is answered from what was
measured, with the range of each number in columns _low and _high. Everything else (``SELECT *``, joins of several
purchases, other aggregates) is computed over rows that were drawn from the model; it has no ranges, and a notice says
so. Which of the two it is follows from the text and the types of its parameters, so that a statement's columns are
known before its parameters are. Both are post-processing of what was released.

The tables of the schema ``sfumato``: the budget, the caller's own history, receipts and refusals, and the policy's
columns.

They are free. They are shown whole, in chosen columns and up to a LIMIT: what tells what was spent needs no more.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sfumato.caching import cached_property
from sfumato.curator.listings import Listing
from sfumato.curator.standings import CURRENCIES
from sfumato.errors import NotThere, Unsupported
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE
from sfumato.publish.synthetic import Synthetic
from sfumato.publish.synthetic_tables import SyntheticTables
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.server.gateway import Gateway
from sfumato.server.people.users import Caller, Role
from sfumato.server.postgres import types
from sfumato.server.postgres.catalog.relations import DescribedColumn, DescribedRelation
from sfumato.server.postgres.lexing import (
    SqlToken,
    TokenKind,
    UnfinishedText,
    blank_out_database_name,
    dotted_name_and_rest,
    tokenize,
)
from sfumato.server.postgres.results import ResultColumn, ResultColumns, StatementResult, answer_result
from sfumato.server.postgres.statement_texts import RefusalCounts
from sfumato.server.postgres.statements import SqlRefusal, always_quoted
from sfumato.server.postgres.synthetic_rows import RowsAnswer, SyntheticRows, synthetic_tables_read, write_table_files

if TYPE_CHECKING:
    import pyarrow

SCHEMA = "sfumato"
_HISTORY_LINES, _RECEIPT_LINES = 1000, 100
_SEES_ALL = (Role.OWNER, Role.AUDITOR)


@dataclass(frozen=True)
class ServiceTableContext:
    """Who reads a table, and where its rows come from."""

    gateway: Gateway
    caller: Caller
    policy: str
    refusals: RefusalCounts


Read = Callable[[ServiceTableContext], list[tuple[Any, ...]]]


def _read_budget(reader: ServiceTableContext) -> list[tuple[Any, ...]]:
    standing = reader.gateway.budget(reader.caller, reader.policy)
    by_period: Mapping[str, Any] = getattr(standing, "periods", None) or {"life": standing}
    return [(str(period), *row) for period, period_standing in by_period.items() for row in period_standing.rows()]


def _read_history(reader: ServiceTableContext) -> list[tuple[Any, ...]]:
    page = reader.gateway.history(reader.caller, reader.policy, 0, _HISTORY_LINES)
    return [
        (line.number, line.time.replace(tzinfo=None), line.kind, line.question, line.cost.words, page.buyer(line))
        for line in page.lines
    ]


def _read_receipts(reader: ServiceTableContext) -> list[tuple[Any, ...]]:
    """Return what protects the last answers that can be shown again, the newest first."""
    page = reader.gateway.latest_history(reader.caller, reader.policy, limit=_RECEIPT_LINES)
    rows: list[tuple[Any, ...]] = []
    for line in page.lines:
        answer = (
            reader.gateway.answer_on_line(reader.caller, reader.policy, line.number).answer
            if line.number in page.answered
            else None
        )
        if isinstance(answer, Answer):
            moment, paid = line.time.replace(tzinfo=None), str(answer.receipt.guarantee)
            rows.append((line.number, moment, answer.receipt.question, paid, answer.short_receipt()))
    return rows


def _read_columns(reader: ServiceTableContext) -> list[tuple[Any, ...]]:
    def list_rows(sql: str) -> tuple[tuple[str, ...], ...]:
        listing = reader.gateway.call_free(reader.caller, reader.policy, "questions", "propose", {"sql": sql})
        assert isinstance(listing, Listing)
        return listing.rows

    tables = [name for name, *_ in list_rows("SHOW TABLES")]
    return [(name, *row) for name in tables for row in list_rows(f"DESCRIBE {always_quoted(name)}")]


def _read_refusals(reader: ServiceTableContext) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    rows += reader.refusals.rows(None if reader.caller.role in _SEES_ALL else reader.caller.user)
    return rows


_RECEIPT_COLUMNS = {
    "line": types.INT8, "time": types.TIMESTAMP, "question": types.TEXT, "cost": types.TEXT, "receipt": types.TEXT,
}  # fmt: skip
_HISTORY_COLUMNS = {
    "line": types.INT8, "time": types.TIMESTAMP, "kind": types.TEXT, "question": types.TEXT, "cost": types.TEXT,
    "buyer": types.TEXT,
}  # fmt: skip
_TABLES: Mapping[str, tuple[Mapping[str, int], Read]] = {
    "budget": (dict.fromkeys(("period", *CURRENCIES), types.TEXT), _read_budget),
    "history": (_HISTORY_COLUMNS, _read_history),
    "receipts": (_RECEIPT_COLUMNS, _read_receipts),
    "refusals": ({"user_name": types.TEXT, "rule": types.TEXT, "count": types.INT8}, _read_refusals),
    "columns": (dict.fromkeys(("table_name", "column_name", "type", "declared"), types.TEXT), _read_columns),
}


@dataclass(frozen=True)
class ServiceTable:
    """A selection from one of the tables."""

    name: str
    columns: ResultColumns
    selected: tuple[int, ...]
    """By column, its position in the table."""
    limit: int | None

    def run(self, reader: ServiceTableContext) -> StatementResult:
        reader.gateway.rate_limit_read(reader.caller)
        rows = _TABLES[self.name][1](reader)[: self.limit]
        return StatementResult(self.columns, [tuple(row[index] for index in self.selected) for row in rows])


def find_service_table(sql: str) -> ServiceTable | None:
    """Return the table that a statement selects from; None if it selects from none of these.

    Raises: SqlRefusal: It selects from one of these, in a way that they do not offer.
    """
    if SCHEMA not in sql.lower():
        return None
    try:
        tokens = tokenize(sql)
    except UnfinishedText:
        return None
    start = next((index for index, token in enumerate(tokens) if token.is_word("from", "table")), None)
    if start is None:
        return None
    parts, rest = dotted_name_and_rest(tokens[start + 1 :])
    if len(parts) < 2 or parts[-2] != SCHEMA:
        return None
    name = parts[-1]
    if name not in _TABLES:
        raise SqlRefusal(
            "42P01", f'relation "sfumato.{name[:60]}" does not exist', hint=f"There are {_service_table_list()}."
        )
    alias, rest = _alias_and_rest(rest, "limit")
    chosen = _selected_columns_with_index(name, tokens[:start], alias or name)
    columns, selected = zip(*chosen, strict=True)
    return ServiceTable(name, columns, selected, _parse_limit(rest, name))


def _alias_and_rest(tokens: Sequence[SqlToken], *reserved: str) -> tuple[str, Sequence[SqlToken]]:
    """Read the other name of a table or a column, after AS or alone, and return the tokens after it."""
    alias_tokens = tokens[1:] if tokens and tokens[0].is_word("as") else tokens
    if (
        not alias_tokens
        or alias_tokens[0].kind not in (TokenKind.WORD, TokenKind.QUOTED)
        or alias_tokens[0].is_word(*reserved)
    ):
        return "", tokens
    return alias_tokens[0].identifier, alias_tokens[1:]


def _service_table_list() -> str:
    return ", ".join(f"sfumato.{name}" for name in _TABLES)


def _selected_columns_with_index(name: str, tokens: Sequence[SqlToken], alias: str) -> list[tuple[ResultColumn, int]]:
    """Return the columns that a SELECT list names, with their positions in the table; all for TABLE."""
    if not tokens:
        return _all_columns_with_index(name)
    items: list[list[SqlToken]] = [[]]
    for token in tokens[1:]:
        if token.is_symbol(","):
            items.append([])
        else:
            items[-1].append(token)
    return [column for item in items for column in _columns_of_select_item(name, item, alias)]


def _all_columns_with_index(name: str) -> list[tuple[ResultColumn, int]]:
    return [(ResultColumn(column, oid), index) for index, (column, oid) in enumerate(_TABLES[name][0].items())]


def _columns_of_select_item(name: str, item: Sequence[SqlToken], alias: str) -> list[tuple[ResultColumn, int]]:
    """Return the columns of one item: a star, or a column; after the table's name or not, under another name or not."""
    is_star = bool(item) and item[-1].is_symbol("*")
    parts, rest = dotted_name_and_rest(item[:-2] if is_star else item)
    column_alias, rest = _alias_and_rest(rest)
    qualifier = (parts if is_star else parts[:-1])[-1:]
    if rest or not (parts or is_star) or qualifier not in ([], [alias]) or (is_star and len(item) == 2):
        raise _whole_table_refusal(name)
    if is_star:
        return _all_columns_with_index(name)
    for column, index in _all_columns_with_index(name):
        if column.name == parts[-1]:
            return [(replace(column, name=column_alias or column.name), index)]
    raise SqlRefusal(
        "42703", f'sfumato.{name} has no column "{parts[-1]}"', hint=f"It has {', '.join(_TABLES[name][0])}."
    )


def _parse_limit(tokens: Sequence[SqlToken], name: str) -> int | None:
    if not tokens:
        return None
    is_limit = len(tokens) == 2 and tokens[0].is_word("limit") and tokens[1].kind is TokenKind.NUMBER
    if not is_limit or not tokens[1].value.isdigit() or len(tokens[1].value) > 9:
        raise _whole_table_refusal(name)
    return int(tokens[1].value)


def _whole_table_refusal(name: str) -> SqlRefusal:
    rule = f"sfumato.{name} can only be read whole: WHERE, ORDER BY and joins are not supported on it"
    return SqlRefusal(
        "0A000", rule, hint=f"Write SELECT * FROM sfumato.{name}, or name its columns, with or without LIMIT."
    )


KINDS = ("synthesis", "linked")
"""The kinds of releases from which rows are drawn."""
MAX_LOADED = 1_000_000
"""The most rows of a table that statements over rows see."""
_SUFFIX = "_synthetic_"
_MAX_NAME = 63
_MAX_PURCHASES, _MAX_ENGINES, _MAX_REFUSALS = 64, 4, 256
_UNKNOWN_NAMES = ("unknown-column", "unknown-table", "ambiguous-column")
_SAMPLES: Mapping[type, Any] = {
    **{type(value): value for value in map(types.sample_value, types.OID_BY_TYPE.values())},
    **dict.fromkeys((float, Decimal), types.sample_value(types.FLOAT8)),
}
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True, eq=False)
class BoughtModel:
    """A bought model, or linked ones, with their tables as this database names them."""

    line: int
    model: Synthetic | SyntheticTables
    guarantee: str
    originals: Mapping[str, str]
    """By the name of each table here, that of the private table."""

    @classmethod
    def from_line(cls, line: int, model: Synthetic | SyntheticTables, policy_tables: Sequence[str]) -> BoughtModel:
        """Name the tables of a model after their private tables and the line on which it was bought."""
        if isinstance(model, SyntheticTables):
            names = [_unused_table_name(table, line, policy_tables) for table in model.names]
            originals = dict(zip(names, model.names, strict=True))
            return cls(line, model.renamed(*names), str(model.price), originals)
        table = model.released.table or "rows"
        name = _unused_table_name(table, line, policy_tables)
        renamed = replace(model, released=replace(model.released, table=name))
        return cls(line, renamed, str(model.guarantee), {name: table})

    @cached_property
    def relations(self) -> tuple[DescribedRelation, ...]:
        """The tables as the catalog lists them."""
        return tuple(
            DescribedRelation("public", name, tuple(_described_columns(first)), self._comment(name))
            for name, first in self._draw_tables(1).items()
        )

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """The rows of each table, by its name in lower case: drawn once, and kept as long as the purchase is."""
        folder = tempfile.mkdtemp(prefix="sfumato-synthetic-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return {name.lower(): path for name, path in write_table_files(Path(folder), self._draw_tables(MAX_LOADED))}

    def answer(self, sql: str, parameters: Sequence[Any], confidence: str) -> Answer:
        """Answer a question about the people from what was measured."""
        answer = self.model.sql(sql, parameters or None, confidence=confidence)
        return answer.changed(receipt=replace(answer.receipt, free=True))

    def _draw_tables(self, max_rows: int) -> dict[str, pyarrow.Table]:
        """Draw n̂ rows, or as many as the limit. One table's rows are the same after a restart: the line seeds them."""
        if isinstance(self.model, SyntheticTables):
            parents = min(round(self.model.parent.total), self.model.parents_within(max_rows))
            return self.model.draw(max(1, parents))
        (name,) = self.originals
        return {name: self.model.sample(min(self.model.default_rows, max_rows), seed=self.line)}

    def _comment(self, name: str) -> str:
        model = f"the model bought on line {self.line} for {self.guarantee}"
        drawn = f"synthetic rows of {self.originals[name]}, drawn from {model}"
        return f"{drawn}: no row is a real person's, and reading them is free"


def _unused_table_name(table: str, line: int, policy_tables: Sequence[str]) -> str:
    suffix = f"{_SUFFIX}{line}"
    name = table[: _MAX_NAME - len(suffix.encode())].encode()[: _MAX_NAME - len(suffix)].decode(errors="ignore")
    while f"{name}{suffix}".lower() in policy_tables:
        suffix += "_"
    return f"{name}{suffix}"


def _described_columns(rows: pyarrow.Table) -> list[DescribedColumn]:
    return [DescribedColumn(column.name, _postgres_type_name(str(column.type))) for column in rows.schema]


def _postgres_type_name(arrow_type: str) -> str:
    names = {
        "bool": "bool",
        "int": "int8",
        "double": "float8",
        "float": "float8",
        "date": "date",
        "timest": "timestamp",
    }
    return next((name for prefix, name in names.items() if arrow_type.startswith(prefix)), "text")


class _PolicyLine(NamedTuple):
    policy: str
    line: int


class PurchaseCache:
    """The purchases that connections of one server have read, and engines over their rows. Thread-safe."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._drawing = threading.Lock()
        """Held while rows are drawn, so that all connections see the same."""
        self._purchases: OrderedDict[_PolicyLine, BoughtModel | None] = OrderedDict()
        self._engines: OrderedDict[tuple[str, tuple[BoughtModel, ...]], SyntheticRows] = OrderedDict()

    def list_purchases(self, caller: Caller, policy: str) -> tuple[BoughtModel, ...]:
        """Return what the caller may read, in the order of the ledger."""
        lines = self._gateway.bought_lines(caller, policy, KINDS)
        purchases = [
            self._get_or_make(self._purchases, _PolicyLine(policy, line), self._purchase_reader(caller), _MAX_PURCHASES)
            for line in lines
        ]
        return tuple(purchase for purchase in purchases if purchase is not None)

    def _purchase_reader(self, caller: Caller) -> Callable[[_PolicyLine], BoughtModel | None]:
        def read(key: _PolicyLine) -> BoughtModel | None:
            try:
                model = self._gateway.answer_on_line(caller, key.policy, key.line).answer
            except NotThere:  # an earlier version kept no text of it
                return None
            policy_tables = [name.lower() for name in self._gateway.served.curator(key.policy).policy.tables]
            return BoughtModel.from_line(key.line, model, policy_tables)

        return read

    def engine(self, user: str, purchases: Sequence[BoughtModel]) -> SyntheticRows:
        """Return the engine of one user over the rows of some purchases, whose files stay as long as it does."""
        key = user, tuple(purchases)
        with self._drawing:
            files = {name: path for purchase in purchases for name, path in purchase.files.items()}
        return self._get_or_make(self._engines, key, lambda _: SyntheticRows(files), _MAX_ENGINES)

    def _get_or_make(self, cache: OrderedDict[_K, _V], key: _K, make: Callable[[_K], _V], max_entries: int) -> _V:
        """Return what is kept under a key, or make it; what was unused for longest is forgotten beyond the limit."""
        with self._lock:
            if key in cache:
                cache.move_to_end(key)
                return cache[key]
        entry = make(key)
        with self._lock:
            entry = cache.setdefault(key, entry)
            while len(cache) > max_entries:
                cache.popitem(last=False)
        return entry


@dataclass
class PublishedTables:
    """The synthetic tables that one connection sees."""

    cache: PurchaseCache
    policy: str
    database: str
    user: str
    build_catalog: Callable[[tuple[DescribedRelation, ...]], Any]
    """Builds the catalog of the database with these tables beside those of the policy."""
    catalog: Any = field(init=False)
    """The catalog with the tables that were listed last."""
    _purchases: Mapping[str, BoughtModel] = field(default_factory=dict)
    """By the lower-cased name of each table."""
    _refusals: dict[tuple[object, ...], Unsupported | None] = field(default_factory=dict)
    """By text and parameters' types, why no model answers; None if one does."""
    _running: SyntheticRows | None = None

    def __post_init__(self) -> None:
        self.catalog = self.build_catalog(())

    def refresh(self, caller: Caller) -> None:
        """List what the caller may read now, in the catalog too."""
        purchase_by_name = {
            name.lower(): purchase
            for purchase in self.cache.list_purchases(caller, self.policy)
            for name in purchase.originals
        }
        if purchase_by_name != self._purchases:
            relations = (
                relation for purchase in dict.fromkeys(purchase_by_name.values()) for relation in purchase.relations
            )
            self.catalog = self.build_catalog(tuple(relations))
            self._purchases, self._refusals = purchase_by_name, {}

    def may_read(self, sql: str) -> bool:
        """Return False for a text that surely reads none of the tables, without parsing it."""
        return bool(self._purchases) and _SUFFIX in sql.lower()

    def reads(self, sql: str) -> bool:
        """Return whether a statement reads one of the tables."""
        return self._tables_read(sql) is not None

    def describe(self, sql: str, parameters: Sequence[Any]) -> ResultColumns:
        """Return the columns of a statement's result."""
        samples = tuple(_sample_of_same_type(value) for value in parameters)
        if self._is_answered_by_model(sql, samples):
            answer = self._ask_model(sql, samples, DEFAULT_CONFIDENCE)
            return answer_result(answer, None, ranges=True, charged=False).columns
        return _result_columns(self._run_over_rows(sql, samples, lambda rows: rows.describe(sql, samples)))

    def run(
        self, sql: str, parameters: Sequence[Any], columns: ResultColumns | None, confidence: str = DEFAULT_CONFIDENCE
    ) -> StatementResult:
        """Return the rows of a statement."""
        samples = tuple(_sample_of_same_type(value) for value in parameters)
        if self._is_answered_by_model(sql, samples):
            answer = self._ask_model(sql, parameters, confidence)
            return answer_result(answer, columns, ranges=True, charged=False)
        answer_rows: RowsAnswer = self._run_over_rows(sql, samples, lambda rows: rows.run(sql, parameters))
        lines = ", ".join(str(purchase.line) for purchase in self._purchases_in(sql))
        note = f"computed over synthetic rows of line {lines}, not over real ones: no ± is known"
        return StatementResult(_result_columns(answer_rows.columns), answer_rows.rows, (note,))

    def explain(self, sql: str, parameters: Sequence[Any]) -> list[str]:
        """Say what answers a statement."""
        lines = ", ".join(str(purchase.line) for purchase in self._purchases_in(sql))
        if self._is_answered_by_model(sql, tuple(_sample_of_same_type(value) for value in parameters)):
            return [f"free: answered from the model bought on line {lines}, with ± ranges"]
        return [f"free: computed over synthetic rows of line {lines}, without ± ranges"]

    def interrupt(self) -> None:
        """End the statement over rows that runs, from another thread."""
        if self._running is not None:
            self._running.interrupt()

    def _tables_read(self, sql: str) -> list[str] | None:
        return synthetic_tables_read(sql, self._purchases.keys(), self.database) if self.may_read(sql) else None

    def _purchases_in(self, sql: str) -> list[BoughtModel]:
        names = self._tables_read(sql) or ()
        return list(dict.fromkeys(self._purchases[name] for name in names))

    def _is_answered_by_model(self, sql: str, samples: Sequence[Any]) -> bool:
        return self._model_refusal(sql, samples) is None

    def _model_refusal(self, sql: str, samples: Sequence[Any]) -> Unsupported | None:
        """Return why no model answers; it is asked once, with sample values of the parameters' types."""
        key = (sql, *map(type, samples))
        if key not in self._refusals:
            if len(self._refusals) >= _MAX_REFUSALS:
                self._refusals.clear()
            self._refusals[key] = self._model_refusal_uncached(sql, samples)
        return self._refusals[key]

    def _ask_model(self, sql: str, parameters: Sequence[Any], confidence: str) -> Answer:
        (purchase,) = self._purchases_in(sql)
        return purchase.answer(blank_out_database_name(sql, self.database), parameters, confidence)

    def _model_refusal_uncached(self, sql: str, samples: Sequence[Any]) -> Unsupported | None:
        if len(self._purchases_in(sql)) > 1:
            return Unsupported(
                "join",
                "synthetic tables that were bought separately cannot be joined: no model covers both",
                fix="read the rows of each table, and join them yourself",
            )
        try:
            self._ask_model(sql, samples, DEFAULT_CONFIDENCE)
        except Unsupported as refusal:
            return refusal
        return None

    def _run_over_rows(self, sql: str, samples: Sequence[Any], ask: Callable[[SyntheticRows], _V]) -> _V:
        """Ask the rows; a name that neither they nor the model know is refused in the model's words."""
        self._running = self.cache.engine(self.user, self._purchases_in(sql))
        try:
            return ask(self._running)
        except Unsupported as over_rows:
            refusal = self._model_refusal(sql, samples)
            raise refusal if refusal is not None and refusal.code in _UNKNOWN_NAMES else over_rows from None
        finally:
            self._running = None


def _sample_of_same_type(value: Any) -> Any:
    """Return a value of the same type, with which columns and route are found."""
    return _SAMPLES.get(type(value), value)


def _result_columns(columns: Sequence[Any]) -> ResultColumns:
    return tuple(ResultColumn(column.name, column.oid) for column in columns)
