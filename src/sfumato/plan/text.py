"""From text to one SELECT, without ever being hurt by the text."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import Unsupported
from sfumato.plan.text_positions import refuse

LONGEST = 64 * 1024
DEEPEST = 24
MOST_TOKENS = 10_000

_OPENING = {TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET, TokenType.R_BRACE}
_CHAINED = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def select(text: object) -> exp.Select:
    """The one SELECT statement a text holds; anything else is refused before it is looked at closely."""
    if not isinstance(text, str):
        raise Unsupported("not-text", "a question is SQL text", fix="give it as one string")
    if len(text) > LONGEST:
        raise Unsupported("too-long", "a question is at most 64 KB of text", fix="ask less at once")
    if "\0" in text or not _encodable(text):
        raise Unsupported("not-text", "a question is plain text", fix="remove what is no character")
    try:
        _check_tokens(sqlglot.tokenize(text, dialect="duckdb"))
        with _quietly():
            statements = [each for each in sqlglot.parse(text, dialect="duckdb") if each is not None]
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        raise _not_sql(error) from None
    if not statements:
        raise Unsupported("one-statement", "the question is empty", fix="ask with SELECT … FROM … [WHERE] [GROUP BY]")
    if len(statements) != 1:
        raise Unsupported("one-statement", "a question is one SELECT statement", fix="ask one question at a time")
    statement = statements[0]
    if not isinstance(statement, exp.Select):
        what = (
            "sets of rows cannot be combined"
            if isinstance(statement, exp.SetOperation)
            else "only SELECT is understood"
        )
        raise refuse(statement, "not-select", what, "ask with SELECT … FROM … [WHERE] [GROUP BY]")
    return statement


_parsing = ContextVar("_parsing", default=False)
logging.getLogger("sqlglot").addFilter(lambda _: not _parsing.get())


@contextmanager
def _quietly() -> Iterator[None]:
    """The parser writes what it does not know into the log, and an analyst's text belongs to nobody else: while we
    parse, in this thread, it writes nothing.
    """
    before = _parsing.set(True)
    try:
        yield
    finally:
        _parsing.reset(before)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_tokens(tokens: list[Token]) -> None:
    """Depth is measured on tokens, because the parser itself recurses."""
    if len(tokens) > MOST_TOKENS:
        raise Unsupported("too-long", f"a question has at most {MOST_TOKENS:,} words", fix="ask less at once")
    depth = run = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        run = run + 1 if token.token_type in _CHAINED else 0
        if depth > DEEPEST or run > DEEPEST:
            raise _too_deep()


def _too_deep() -> Unsupported:
    return Unsupported(
        "too-deep",
        f"parentheses, CASE and subqueries nest at most {DEEPEST} deep",
        fix="flatten it, for instance with WITH",
    )


def _not_sql(error: SqlglotError) -> Unsupported:
    facts = getattr(error, "errors", None) or [{}]
    return Unsupported(
        "not-sql",
        "this is not SQL that can be read",
        fix="look for a missing comma, quote or parenthesis near the place",
        line=facts[0].get("line"),
        column=facts[0].get("col"),
    )


def fragment(text: object, kind: type[exp.Expr]) -> exp.Expr:
    """A part of a statement of the given kind, read by the same parser and within the same limits."""
    if not isinstance(text, str) or "\0" in text or not _encodable(text):
        raise Unsupported("not-text", "an expression is SQL text", fix="give it as one string")
    if len(text) > LONGEST:
        raise Unsupported("too-long", "an expression is at most 64 KB of text", fix="ask less at once")
    parser = sqlglot.Dialect.get_or_raise("duckdb").parser()
    try:
        tokens = sqlglot.tokenize(text, dialect="duckdb")
        _check_tokens(tokens)
        with _quietly():
            found = [each for each in parser.parse_into(kind, tokens, text) if each is not None]
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        raise _not_sql(error) from None
    if len(found) != 1:
        raise Unsupported("one-expression", "one expression is read at a time", fix="write one, such as cost > 10")
    return found[0]
