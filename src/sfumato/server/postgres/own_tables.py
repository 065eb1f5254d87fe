"""The tables of the schema ``sfumato``: the budget, the caller's own history, and the columns of the policy. Free.

They are shown whole, in chosen columns and up to a LIMIT: a table that tells what was spent needs no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.curator.listings import Listing
from sfumato.curator.standings import CURRENCIES
from sfumato.server.gateway import Gateway
from sfumato.server.people.users import Caller
from sfumato.server.postgres import types
from sfumato.server.postgres.lexing import SqlToken, TokenKind, UnfinishedText, dotted_name, tokenize
from sfumato.server.postgres.results import Result, ResultColumn, ResultColumns
from sfumato.server.postgres.statements import Refusal, quote_name

SCHEMA = "sfumato"
_HISTORY_LINES = 1000
Read = Callable[[Gateway, Caller, str], list[tuple[Any, ...]]]


def _read_budget(gateway: Gateway, caller: Caller, policy: str) -> list[tuple[Any, ...]]:
    standing = gateway.budget(caller, policy)
    by_period: Mapping[str, Any] = getattr(standing, "periods", None) or {"life": standing}
    return [(str(period), *row) for period, each in by_period.items() for row in each.rows()]


def _read_history(gateway: Gateway, caller: Caller, policy: str) -> list[tuple[Any, ...]]:
    page = gateway.history(caller, policy, 0, _HISTORY_LINES)
    return [
        (line.number, line.time.replace(tzinfo=None), line.kind, line.question, line.cost.words, page.buyer(line))
        for line in page.lines
    ]


def _read_columns(gateway: Gateway, caller: Caller, policy: str) -> list[tuple[Any, ...]]:
    def listed(sql: str) -> tuple[tuple[str, ...], ...]:
        listing = gateway.call_free(caller, policy, "questions", "propose", {"sql": sql})
        assert isinstance(listing, Listing)
        return listing.rows

    tables = [name for name, *_ in listed("SHOW TABLES")]
    return [(name, *row) for name in tables for row in listed(f"DESCRIBE {quote_name(name)}")]


_HISTORY_COLUMNS = {
    "line": types.INT8, "time": types.TIMESTAMP, "kind": types.TEXT, "question": types.TEXT, "cost": types.TEXT,
    "buyer": types.TEXT,
}  # fmt: skip
_TABLES: Mapping[str, tuple[Mapping[str, int], Read]] = {
    "budget": (dict.fromkeys(("period", *CURRENCIES), types.TEXT), _read_budget),
    "history": (_HISTORY_COLUMNS, _read_history),
    "columns": (dict.fromkeys(("table_name", "column_name", "type", "declared"), types.TEXT), _read_columns),
}


@dataclass(frozen=True)
class OwnTable:
    """A selection from one of the tables."""

    name: str
    columns: ResultColumns
    limit: int | None

    def run(self, gateway: Gateway, caller: Caller, policy: str) -> Result:
        declared, read = _TABLES[self.name]
        gateway.count_read(caller)
        names = list(declared)
        indices = [names.index(column.name) for column in self.columns]
        rows = read(gateway, caller, policy)[: self.limit]
        return Result(self.columns, [tuple(row[index] for index in indices) for row in rows])


def find(sql: str) -> OwnTable | None:
    """Return the table that a statement selects from; None if it selects from none of these.

    Raises: Refusal: It selects from one of these, in a way that they do not offer.
    """
    try:
        tokens = tokenize(sql)
    except UnfinishedText:
        return None
    start = next((index for index, token in enumerate(tokens) if token.is_word("from", "table")), None)
    if start is None:
        return None
    parts, rest = dotted_name(tokens[start + 1 :])
    if len(parts) < 2 or parts[-2] != SCHEMA:
        return None
    name = parts[-1]
    if name not in _TABLES:
        raise Refusal("42P01", f'relation "sfumato.{name[:60]}" does not exist', hint=f"There are {_names()}.")
    columns = _chosen_columns(name, tokens[:start])
    return OwnTable(name, columns, _limit(rest, name))


def _names() -> str:
    return ", ".join(f"sfumato.{name}" for name in _TABLES)


def _chosen_columns(name: str, tokens: Sequence[SqlToken]) -> ResultColumns:
    declared = _TABLES[name][0]
    selected = tokens[1:]
    if not tokens or (len(selected) == 1 and selected[0].is_symbol("*")):
        return tuple(ResultColumn(column, oid) for column, oid in declared.items())
    chosen = []
    for index, token in enumerate(selected):
        if index % 2 and not token.is_symbol(","):
            raise _too_much(name)
        if index % 2 == 0:
            if token.kind not in (TokenKind.WORD, TokenKind.QUOTED) or token.identifier not in declared:
                raise Refusal("42703", f"sfumato.{name} has no such column", hint=f"It has {', '.join(declared)}.")
            chosen.append(ResultColumn(token.identifier, declared[token.identifier]))
    return tuple(chosen)


def _limit(tokens: Sequence[SqlToken], name: str) -> int | None:
    if not tokens:
        return None
    is_limit = len(tokens) == 2 and tokens[0].is_word("limit") and tokens[1].kind is TokenKind.NUMBER
    if not is_limit or not tokens[1].value.isdigit() or len(tokens[1].value) > 9:
        raise _too_much(name)
    return int(tokens[1].value)


def _too_much(name: str) -> Refusal:
    rule = f"sfumato.{name} is shown whole: conditions, orders and joins are not known for it"
    return Refusal("0A000", rule, hint=f"Write SELECT * FROM sfumato.{name}, or name its columns; LIMIT is possible.")
