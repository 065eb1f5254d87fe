"""Files of queries, separated by semicolons; each is known by its number and its line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import SfumatoError, Unsupported, shorten
from sfumato.quick_dataclass import dataclass

LONGEST = 8 << 20
MAX_QUESTIONS = 5_000
_PLACE = "the file of questions"


@dataclass(frozen=True)
class WrittenQuestion:
    """A query of a file."""

    text: str
    line: int
    """The line on which it begins, from 1."""


def split_questions(source: str) -> tuple[WrittenQuestion, ...]:
    """Split a text into its statements; comments between them belong to none. At least one is required."""
    if len(source) > LONGEST:
        raise Unsupported(
            "too-long",
            f"a file of questions can have at most {LONGEST >> 20} MB of text",
            fix="split the file",
            place=_PLACE,
        )
    try:
        tokens = sqlglot.tokenize(source, dialect="duckdb")
    except SqlglotError:
        rule = "a file of questions must be SQL, with semicolons between the questions"
        raise Unsupported(
            "not-sql", rule, fix="close every quote and every comment in the file", place=_PLACE
        ) from None
    token_spans, first = [], None
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            first = None
            continue
        if first is None:
            first = token
            token_spans.append([token, token])
        token_spans[-1][1] = token
    if not token_spans:
        raise Unsupported(
            "no-question", "the file has no questions", fix="write at least one SELECT … FROM …;", place=_PLACE
        )
    if len(token_spans) > MAX_QUESTIONS:
        raise Unsupported(
            "too-many-questions",
            f"a file can have at most {MAX_QUESTIONS:,} questions",
            fix="split the file",
            place=_PLACE,
        )
    return tuple(
        WrittenQuestion(source[start.start : end.end + 1], source.count("\n", 0, start.start) + 1)
        for start, end in token_spans
    )


def split_first_statement(source: str) -> tuple[str, str] | None:
    r"""Split a text after its first statement, which a semicolon ends; None where no statement is whole yet.

    >>> split_first_statement("SELECT ';' -- not here; \n AS a; SELECT 2")
    ("SELECT ';' -- not here; \n AS a", ' SELECT 2')
    >>> split_first_statement("SELECT 'it is open; ") is None
    True
    """
    end = source.find(";")
    while 0 <= end < LONGEST:
        tokens = _tokenize(source[: end + 1])
        if tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            return source[:end], source[end + 1 :]
        end = source.find(";", end + 1)
    return None


def is_blank(source: str) -> bool:
    """Return whether a text holds nothing but spaces and comments."""
    return _tokenize(source) == []


def has_open_quote(source: str) -> bool:
    """Return whether a text ends inside a quote or a comment.

    >>> has_open_quote("SELECT 'north"), has_open_quote("SELECT 'north' -- it's")
    (True, False)
    """
    return _tokenize(source) is None


def _tokenize(source: str) -> list[Token] | None:
    """Return the tokens of a text, or None while a quote or a comment in it is open."""
    try:
        return sqlglot.tokenize(source, dialect="duckdb")
    except SqlglotError:
        return None


@contextmanager
def question_in_refusals(number: int | None, written: WrittenQuestion, name: str = "") -> Iterator[None]:
    """Add to a refusal which query it is about: by its number and line in a file, or by its name."""
    try:
        yield
    except SfumatoError as refusal:
        excerpt = shorten(" ".join(written.text.split()), 80)
        numbered = f"question {number}, line {written.line} of the file, {excerpt}"
        where = f"question {name}" if number is None else f"question {number} ({name}), {excerpt}" if name else numbered
        raise refusal.within(where) from None
