"""The tables of the schema ``sfumato``: the budget, the caller's own history, receipts and refusals, and the policy's
columns.

They are free. They are shown whole, in chosen columns and up to a LIMIT: what tells what was spent needs no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.curator.listings import Listing
from sfumato.curator.standings import CURRENCIES
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.server.gateway import Gateway
from sfumato.server.people.users import Caller, Role
from sfumato.server.postgres import types
from sfumato.server.postgres.error_reports import RefusalCounts
from sfumato.server.postgres.lexing import SqlToken, TokenKind, UnfinishedText, dotted_name_and_rest, tokenize
from sfumato.server.postgres.results import ResultColumn, ResultColumns, StatementResult
from sfumato.server.postgres.statements import SqlRefusal, always_quoted

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
