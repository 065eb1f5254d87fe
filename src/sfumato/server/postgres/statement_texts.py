"""A client's text as statements: split at its semicolons, with the parameters of each.

PostgreSQL infers the type of a parameter that has none from its context. Here the context is what stands beside the
parameter: a cast, LIMIT, or a column of the policy that it is compared with. Everything else is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sfumato.policy import Type
from sfumato.server.postgres import types
from sfumato.server.postgres.error_reports import UNFINISHED
from sfumato.server.postgres.lexing import (
    MAX_TOKENS,
    SqlToken,
    StatementText,
    TokenKind,
    TooManyTokens,
    UnfinishedText,
    split_statements,
)
from sfumato.server.postgres.statements import SqlRefusal, Statement, classify_statement
from sfumato.server.requests.calls import run_in_thread

MAX_SQL_BYTES = 65536
MAX_STATEMENTS_PER_TEXT = 100
_MAX_INLINE_LETTERS = 2048
"""Longer texts are split and classified in a worker thread, so that other connections do not wait for it."""


async def classify_text(sql: str) -> list[tuple[StatementText, Statement]]:
    """Return the statements of a client's text with what each asks for."""
    return _classify_all(sql) if len(sql) <= _MAX_INLINE_LETTERS else await run_in_thread(_classify_all, sql)


def _classify_all(sql: str) -> list[tuple[StatementText, Statement]]:
    return [(text, _classify(text)) for text in split_text(sql)]


def _classify(text: StatementText) -> Statement:
    try:
        return classify_statement(text)
    except SqlRefusal as refusal:
        if refusal.position:
            refusal.position += text.offset
        raise


def split_text(sql: str) -> list[StatementText]:
    """Split a client's text into statements; refuse one that is too long or ends inside a quote or comment."""
    if len(sql.encode(errors="replace")) > MAX_SQL_BYTES:
        rule = f"a query string can have at most {MAX_SQL_BYTES:,} bytes"
        raise SqlRefusal("54000", rule, hint="Send shorter statements, one after the other.")
    try:
        texts = split_statements(sql)
    except UnfinishedText as unfinished:
        rule = UNFINISHED.format(unfinished.what)
        raise SqlRefusal(
            "42601", rule, hint="Close the open quote or comment.", position=unfinished.position + 1
        ) from None
    except TooManyTokens:
        rule = f"a statement can have at most {MAX_TOKENS:,} words and symbols"
        raise SqlRefusal("54001", rule, hint="Send a shorter statement.") from None
    if len(texts) > MAX_STATEMENTS_PER_TEXT:
        rule = f"a query string can have at most {MAX_STATEMENTS_PER_TEXT} statements"
        raise SqlRefusal("54000", rule, hint="Send fewer statements at once.")
    return texts


MAX_PARAMETERS = 1000
_MAX_LOOK_BACK = 100
"""How many tokens before a parameter are searched for the column it is compared with."""
_CASTS = {
    "bool": types.BOOL, "boolean": types.BOOL, "int": types.INT8, "integer": types.INT8, "int4": types.INT8,
    "int8": types.INT8, "bigint": types.INT8, "smallint": types.INT8, "int2": types.INT8, "float8": types.FLOAT8,
    "double": types.FLOAT8, "real": types.FLOAT8, "float4": types.FLOAT8, "float": types.FLOAT8,
    "numeric": types.NUMERIC, "decimal": types.NUMERIC, "date": types.DATE, "timestamp": types.TIMESTAMP,
    "text": types.TEXT, "varchar": types.TEXT,
}  # fmt: skip
_COMPARISONS = ("=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/")
_BETWEEN_OPERANDS = ("and", "or", "not", "in", "between", "like", "ilike")
_COLUMN_OIDS = {**types.OID_BY_TYPE, Type.INTEGER: types.FLOAT8}
"""A number compared with an integer column need not be one: ``age > 17.5``."""


def parameter_count(tokens: Iterable[SqlToken]) -> int:
    """Return the highest number of a parameter."""
    numbers = [token.value[1:] for token in tokens if token.kind is TokenKind.PARAMETER]
    if any(len(number) > 4 or not 1 <= int(number) <= MAX_PARAMETERS for number in numbers):
        rule = f"a statement can have parameters from $1 to ${MAX_PARAMETERS}"
        raise SqlRefusal("54000", rule, hint="Use fewer parameters.")
    return max(map(int, numbers), default=0)


def parameter_oids(
    tokens: Sequence[SqlToken], given_oids: Sequence[int], column_types: Mapping[str, Type]
) -> tuple[int, ...]:
    """Return the type of every parameter: as given, or else inferred."""
    inferred: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token.kind is TokenKind.PARAMETER and int(token.value[1:]) not in inferred:
            inferred[int(token.value[1:])] = _infer_oid(tokens, index, column_types) or 0
    count = max(parameter_count(tokens), len(given_oids))
    sent = [*given_oids, *([0] * (count - len(given_oids)))]
    return tuple(
        oid if oid not in (0, types.UNKNOWN) else inferred.get(number, 0) or types.TEXT
        for number, oid in enumerate(sent, 1)
    )


def _infer_oid(tokens: Sequence[SqlToken], index: int, column_types: Mapping[str, Type]) -> int | None:
    before, after = tokens[max(0, index - 1) : index], tokens[index + 1 : index + 3]
    if len(after) == 2 and (after[0].is_symbol("::") or after[0].is_word("as")):
        return _CASTS.get(after[1].value.lower(), types.TEXT)
    if before and before[0].is_word("limit", "offset", "first", "next"):
        return types.INT8
    if before and before[0].is_word("date", "timestamp"):
        return types.TEXT
    if after and after[0].is_any_symbol(_COMPARISONS) and len(after) == 2:
        column_oid = _column_oid(after[1], column_types)
        if column_oid is not None:
            return column_oid
    return _compared_column_oid(tokens, index, column_types)


def _compared_column_oid(tokens: Sequence[SqlToken], index: int, column_types: Mapping[str, Type]) -> int | None:
    """Return the type of the column that an operator before the parameter compares it with: ``age BETWEEN $1 AND $2``,
    ``region IN ($1, $2)``.
    """
    has_operator = False
    for token in reversed(tokens[max(0, index - _MAX_LOOK_BACK) : index]):
        if token.kind in (TokenKind.PARAMETER, TokenKind.NUMBER, TokenKind.STRING) or token.value in ("(", ","):
            continue
        if token.is_any_symbol(_COMPARISONS) or token.is_word(*_BETWEEN_OPERANDS):
            has_operator = True
            continue
        return _column_oid(token, column_types) if has_operator else None
    return None


def _column_oid(token: SqlToken, column_types: Mapping[str, Type]) -> int | None:
    if token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
        return None
    column_type = column_types.get(token.value.lower())
    return None if column_type is None else _COLUMN_OIDS[column_type]
