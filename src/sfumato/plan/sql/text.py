"""A text becomes one SELECT, without ever doing harm."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import Unsupported
from sfumato.plan.sql.parameters import Parameters, bound, literals, placed, written as parameters_written
from sfumato.plan.sql.text_positions import misspelt, refuse

LONGEST = 64 * 1024
DEEPEST = 24
MOST_TOKENS = 10_000

_OPENING = {TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET, TokenType.R_BRACE}
_CHAINED = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def select(text: object, parameters: Parameters | None = None) -> exp.Select:
    """The one SELECT statement a text holds; anything else is refused before it is looked at closely."""
    statement = _statement(text, parameters)
    if not isinstance(statement, exp.Select):
        what = (
            "sets of rows cannot be combined"
            if isinstance(statement, exp.SetOperation)
            else "only SELECT, SHOW TABLES and DESCRIBE are understood"
        )
        fix = misspelt(str(text)) or "ask with SELECT … FROM … [WHERE] [GROUP BY]"
        raise refuse(statement, "not-select", what, fix)
    return _usual(statement)


def written(text: str, parameters: Parameters | None) -> str:
    """Write a question as it is kept and shown to people, with the values of its parameters in their places."""
    if parameters is None:
        return text
    _, places = placed(_tokens(text))
    found = parameters_written(text, places, literals(places, parameters))
    if len(found) > LONGEST:
        raise Unsupported("too-long", "a question and its values are at most 64 KB of text", fix="ask less at once")
    return found


TABLES = ""
"""Asked for by SHOW TABLES."""


def listing(text: object) -> str | None:
    """Read what a text asks to be listed: one table's columns, by its name, or the ``TABLES``; None for any other
    text.
    """
    if not isinstance(text, str) or not _LISTING.match(text):
        return None
    statement = _statement(text, None)
    if isinstance(statement, exp.Show) and statement.name.upper() == "TABLES" and not statement.args.get("from_"):
        return TABLES
    table = statement.this if isinstance(statement, exp.Describe) else None
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
        _strip_schema(table)
        if not any(value for part, value in table.args.items() if part != "this"):
            return unicodedata.normalize("NFC", table.name)
    raise refuse(
        statement, "listing", "only tables and their columns are listed", "write SHOW TABLES or DESCRIBE <table>"
    )


_LISTING = re.compile(r"\s*(SHOW|DESCRIBE|DESC|SUMMARIZE|PRAGMA)\b", re.IGNORECASE)


def _statement(text: object, parameters: Parameters | None) -> exp.Expr:
    """Parse the one statement in a text, with literals in the place of its parameters."""
    if not isinstance(text, str):
        raise Unsupported("not-text", "a question is SQL text", fix="give it as one string")
    if len(text) > LONGEST:
        raise Unsupported("too-long", "a question is at most 64 KB of text", fix="ask less at once")
    if "\0" in text or not _encodable(text):
        raise Unsupported("not-text", "a question is plain text", fix="remove what is no character")
    tokens, places = placed(_tokens(text))
    values = literals(places, parameters)
    try:
        with _quietly():
            statements = [each for each in _Reader(dialect="duckdb").parse(tokens, text) if each is not None]
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        raise _not_sql(error, text) from None
    if not statements:
        raise Unsupported("one-statement", "the question is empty", fix="ask with SELECT … FROM … [WHERE] [GROUP BY]")
    if len(statements) != 1:
        raise Unsupported("one-statement", "a question is one SELECT statement", fix="ask one question at a time")
    return bound(statements[0], places, values)


class _Reader(DuckDB.Parser):  # type: ignore[valid-type, misc]
    """This reads DuckDB's SQL, and drops no argument of a quantile: a third one is refused as of any other function."""

    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: read for name, read in DuckDB.Parser.FUNCTION_PARSERS.items() if not name.startswith("QUANTILE")
    }


def _tokens(text: str) -> list[Token]:
    _check_words(text)
    try:
        tokens = sqlglot.tokenize(text, dialect="duckdb")
    except SqlglotError as error:
        raise _not_sql(error) from None
    _check_tokens(tokens)
    return tokens


_SCHEMAS = ("main", "public", "sfumato")
"""Names that stand before a table's as its schema, and say nothing."""


def _usual(statement: exp.Select) -> exp.Select:
    """Rewrite a statement in the words that are read: LIMIT for FETCH FIRST, tables without a schema, composed
    accents.
    """
    named = {each.alias.lower() for each in statement.find_all(exp.CTE)}
    for table in statement.find_all(exp.Table):
        if table.name.lower() not in named:  # what WITH defines has no schema
            _strip_schema(table)
    for column in statement.find_all(exp.Column):
        if column.args.get("catalog") is None and column.text("db").lower() in _SCHEMAS:
            column.set("db", None)
    for name in statement.find_all(exp.Identifier):
        name.set("this", unicodedata.normalize("NFC", name.name))
    for fetch in list(statement.find_all(exp.Fetch)):
        options = fetch.args.get("limit_options")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            count = fetch.args.get("count") or exp.Literal.number(1)
            fetch.replace(exp.Limit(expression=count))
    return statement


def _strip_schema(table: exp.Table) -> None:
    if table.args.get("catalog") is None and table.text("db").lower() in _SCHEMAS:
        table.set("db", None)


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


_WORD = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\$\w*\$.*?(?:\$\w*\$|\Z)|\w+"""
    r"""|[^\w\s'"]{1,3}""",
    re.DOTALL,
)
"""A comment, a quoted text, a word, or up to three signs, which may be one operator."""


def _check_words(text: str) -> None:
    """Refuse a text that has too many words before it is taken apart, which takes a hundred times as long as this. They
    are about as many as the parser's own, which are counted once it is.
    """
    if len(text) > MOST_TOKENS:
        words = (each for each in _WORD.finditer(text) if each.lastgroup is None)
        if next(islice(words, MOST_TOKENS, None), None) is not None:
            raise _too_long()


def _too_long() -> Unsupported:
    return Unsupported("too-long", f"a question has at most {MOST_TOKENS:,} words", fix="ask less at once")


def _check_tokens(tokens: list[Token]) -> None:
    """Depth is measured on tokens, because the parser itself recurses."""
    if len(tokens) > MOST_TOKENS:
        raise _too_long()
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


def _not_sql(error: SqlglotError, text: str = "") -> Unsupported:
    facts = getattr(error, "errors", None) or [{}]
    line, column = facts[0].get("line"), facts[0].get("col")
    if "number of provided arguments" in str(facts[0].get("description")):
        rule, fix = "this function has more arguments than are understood", "leave out those after the first ones"
        return Unsupported("arguments", rule, fix=fix, line=line, column=column)
    usual = "look for a missing comma, quote or parenthesis there; names with spaces stand within double quotes"
    fix = misspelt(text) or usual
    return Unsupported("not-sql", "this is not SQL that can be read", fix=fix, line=line, column=column)


def fragment(text: object, kind: type[exp.Expr]) -> exp.Expr:
    """Read a part of a statement of the given kind, by the same parser and within the same limits."""
    if not isinstance(text, str) or "\0" in text or not _encodable(text):
        raise Unsupported("not-text", "an expression is SQL text", fix="give it as one string")
    if len(text) > LONGEST:
        raise Unsupported("too-long", "an expression is at most 64 KB of text", fix="ask less at once")
    try:
        tokens = _tokens(text)
        with _quietly():
            found = [each for each in _Reader(dialect="duckdb").parse_into(kind, tokens, text) if each is not None]
    except RecursionError:
        raise _too_deep() from None
    except SqlglotError as error:
        raise _not_sql(error) from None
    if len(found) != 1:
        raise Unsupported("one-expression", "one expression is read at a time", fix="write one, such as cost > 10")
    return found[0]
