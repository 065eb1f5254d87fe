"""A client's text as statements: split at its semicolons, each with what it asks of the session."""

from __future__ import annotations

from sfumato.server.postgres.error_reports import UNFINISHED
from sfumato.server.postgres.lexing import MAX_TOKENS, StatementText, TooManyTokens, UnfinishedText, split_statements
from sfumato.server.postgres.statements import Refusal, Statement, classify_statement
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
    except Refusal as refusal:
        if refusal.position:
            refusal.position += text.offset
        raise


def split_text(sql: str) -> list[StatementText]:
    """Split a client's text into statements; refuse one that is too long or ends inside a quote or comment."""
    if len(sql.encode(errors="replace")) > MAX_SQL_BYTES:
        rule = f"a query string can have at most {MAX_SQL_BYTES:,} bytes"
        raise Refusal("54000", rule, hint="Send shorter statements, one after the other.")
    try:
        texts = split_statements(sql)
    except UnfinishedText as unfinished:
        rule = UNFINISHED.format(unfinished.what)
        raise Refusal(
            "42601", rule, hint="Close the open quote or comment.", position=unfinished.position + 1
        ) from None
    except TooManyTokens:
        rule = f"a statement can have at most {MAX_TOKENS:,} words and symbols"
        raise Refusal("54001", rule, hint="Send a shorter statement.") from None
    if len(texts) > MAX_STATEMENTS_PER_TEXT:
        rule = f"a query string can have at most {MAX_STATEMENTS_PER_TEXT} statements"
        raise Refusal("54000", rule, hint="Send fewer statements at once.")
    return texts
