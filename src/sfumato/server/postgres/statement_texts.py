"""A client's text as statements: split at its semicolons, with the parameters of each.

PostgreSQL infers the type of a parameter that has none from its context. Here the context is what stands beside the
parameter: a cast, LIMIT, or a column of the policy that it is compared with. Everything else is text.

Errors and notices as clients see them: SQLSTATE, the rule as message, the place as DETAIL, the fix as HINT.

An unexpected exception is one fixed text: its own could depend on private rows.

Statements refused with 0A000 are counted by user and rule: nothing unknown is guessed, so this list is what to add
next. It is kept in memory, and begins anew with the server's process.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sfumato import errors
from sfumato.errors import SfumatoError, Unsupported
from sfumato.policy import Type
from sfumato.server.postgres import protocol, types
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
from sfumato.server.postgres.types import CellOutOfRange, InvalidParameterValue
from sfumato.server.requests.calls import run_in_thread
from sfumato.server.requests.responses import report_fault

_SQLSTATES: Mapping[type[SfumatoError], str] = {
    errors.Overspent: "53400",
    errors.InvalidParameter: "22023",
    errors.InvalidRequest: "22023",
    errors.Unanswered: "58000",
    errors.EngineFailed: "58000",
    errors.AnswerPending: "55P03",
    errors.NotSignedIn: "28000",
    errors.NotAllowed: "42501",
    errors.ApprovalNeeded: "42501",
    errors.RequestDecided: "55000",
    errors.NotThere: "3D000",
    errors.Paused: "55000",
    errors.SourceChanged: "55000",
    errors.TooManyRequests: "53000",
    errors.Draining: "57P01",
    errors.ServerUnavailable: "57P03",
    errors.LedgerUnavailable: "58030",
}
_UNSUPPORTED = "0A000"
_UNSUPPORTED_SQLSTATES = {
    "unknown-table": "42P01",
    "unknown-column": "42703",
    "not-sql": "42601",
    "unknown-function": "42883",
    "ambiguous-column": "42702",
    "type-mismatch": "42804",
}
FAULT_HINT = "Ask again: if the question was charged, its stored answer is free."
UNFINISHED = "the statement ends inside a {}"


def error_message(error: Exception, sql: str = "", offset: int = 0, *, fatal: bool = False) -> bytes:
    """Encode an error about a text; ``offset`` is where the refused statement begins in the client's text."""
    severity = "FATAL" if fatal else "ERROR"
    return protocol.encode_report(b"E", {"S": severity, "V": severity, **_error_fields(error, sql, offset)})


def _error_fields(error: Exception, sql: str, offset: int) -> dict[str, str]:
    if isinstance(error, SqlRefusal):
        return _fields_by_letter(error.sqlstate, error.message, error.detail, error.hint, error.position)
    if isinstance(error, InvalidParameterValue):
        rule = f"a parameter is not a valid value of type {error.type_name}"
        return _fields_by_letter("22P02", rule, "", "Check the value, and the type that the client declares for it.")
    if isinstance(error, CellOutOfRange):
        rule = "a number in the answer does not fit the binary format of its type"
        return _fields_by_letter(
            "22003", rule, "The answer is stored.", "Ask again with results as text: this is free."
        )
    if isinstance(error, protocol.ProtocolViolation):
        return _fields_by_letter(
            "08P01", str(error), "", "Check that the client speaks PostgreSQL's protocol, version 3."
        )
    if isinstance(error, SfumatoError):
        return _fields_by_letter(
            sqlstate(error), error.rule, error.place, error.fix, _client_text_position(error, sql, offset)
        )
    fault = report_fault(error, FAULT_HINT)
    return _fields_by_letter("XX000", fault.rule, fault.place, fault.fix)


def _fields_by_letter(code: str, rule: str, place: str, fix: str, position: int = 0) -> dict[str, str]:
    return {"C": code, "M": rule, "D": place, "H": fix, "P": str(position) if position else ""}


def sqlstate(error: SfumatoError) -> str:
    if isinstance(error, Unsupported):
        return _UNSUPPORTED_SQLSTATES.get(error.code, _UNSUPPORTED)
    return next((code for kind, code in _SQLSTATES.items() if isinstance(error, kind)), "58000")


def _client_text_position(error: SfumatoError, sql: str, offset: int) -> int:
    """Return the position of a refusal in the client's text, from 1; 0 where it has none."""
    line, column = getattr(error, "line", None), getattr(error, "column", None)
    if line is None or column is None:
        return 0
    lines = sql.splitlines(keepends=True)
    if line > len(lines):
        return 0
    return offset + sum(map(len, lines[: line - 1])) + min(column, len(lines[line - 1]))


def rule_if_unsupported(error: Exception) -> str | None:
    """Return the rule of an error that is 0A000; None for any other."""
    if isinstance(error, SqlRefusal):
        return error.message if error.sqlstate == _UNSUPPORTED else None
    return error.rule if isinstance(error, SfumatoError) and sqlstate(error) == _UNSUPPORTED else None


def notice_message(text: str, *, severity: str = "NOTICE", code: str = "00000", hint: str = "") -> bytes:
    return protocol.encode_report(b"N", {"S": severity, "V": severity, "C": code, "M": text, "H": hint})


MAX_RULES = 1_000
"""Rules that are counted for one user: a rule may quote a name that the client made up."""
MAX_USERS = 1_000
"""Users whose refusals are counted."""


class RefusalCounts:
    """The counts of one process. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_user: dict[str, Counter[str]] = {}

    def count(self, user: str, rule: str) -> None:
        with self._lock:
            if user not in self._by_user and len(self._by_user) < MAX_USERS:
                self._by_user[user] = Counter()
            counts = self._by_user.get(user, Counter())
            if rule in counts or len(counts) < MAX_RULES:
                counts[rule] += 1

    def rows(self, user: str | None) -> list[tuple[str, str, int]]:
        """Return user, rule and count, the most frequent first: of one user, or of all."""
        with self._lock:
            rows = [
                (name, rule, count)
                for name, counts in self._by_user.items()
                if user in (None, name)
                for rule, count in counts.items()
            ]
        return sorted(rows, key=lambda row: (-row[2], row[:2]))


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
