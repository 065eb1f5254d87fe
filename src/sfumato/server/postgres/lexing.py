"""Tokens of SQL text as PostgreSQL reads it, to split a text into statements and to find settings and parameters.

Only the skeleton of a statement is read here; a question's own SQL is parsed by ``plan.sql``. The time is linear in the
length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain

from sfumato.quick_dataclass import dataclass

_MAX_COMMENT_DEPTH = 64
MAX_TOKENS = 5_000
"""The most tokens of one statement."""
MAX_NAME_PARTS = 4
"""Catalog, schema, table and column."""


class TokenKind(Enum):
    WORD = "word"
    QUOTED = "quoted identifier"
    STRING = "string"
    NUMBER = "number"
    PARAMETER = "parameter"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class SqlToken:
    """A token: its kind, its value without quotes, and where it stands in the text."""

    kind: TokenKind
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        return self.kind is TokenKind.WORD and self.value.lower() in words

    def is_symbol(self, symbol: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.value == symbol

    def is_any_symbol(self, symbols: Sequence[str]) -> bool:
        return self.kind is TokenKind.SYMBOL and self.value in symbols

    @property
    def identifier(self) -> str:
        """The name that a word or a quoted identifier stands for: words are folded to lower case."""
        return self.value if self.kind is TokenKind.QUOTED else self.value.lower()


class UnfinishedText(Exception):
    """A string, a quoted name or a comment that does not end."""

    def __init__(self, what: str, position: int) -> None:
        super().__init__(what)
        self.what = what
        self.position = position


class TooManyTokens(Exception):
    """A statement of more than ``MAX_TOKENS`` tokens."""


_SPACE = re.compile(r"\s+")
_LINE_COMMENT = re.compile(r"--[^\r\n]*")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_DOLLAR_QUOTE = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_PLAIN = re.compile(
    r"(?P<word>[^\W\d][\w$]*)|(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<parameter>\$\d+)"
    r"|(?P<symbol>::|:=|<=|>=|<>|!=|=>|.)",
    re.DOTALL,
)
_KINDS = {
    "word": TokenKind.WORD,
    "number": TokenKind.NUMBER,
    "parameter": TokenKind.PARAMETER,
    "symbol": TokenKind.SYMBOL,
}


def tokenize(sql: str) -> list[SqlToken]:
    """Return the tokens of a text without its comments; raise ``UnfinishedText`` for a quote or comment that does not
    end.
    """
    return [*_iterate_tokens(sql)]


def _iterate_tokens(sql: str) -> Iterator[SqlToken]:
    position = 0
    while position < len(sql):
        skipped = _skip_one_space_or_comment(sql, position)
        if skipped > position:
            position = skipped
            continue
        token = _next_token(sql, position)
        yield token
        position = token.end


def _skip_one_space_or_comment(sql: str, position: int) -> int:
    """Return the position after white space or a comment that begins here."""
    blank = _SPACE.match(sql, position) or _LINE_COMMENT.match(sql, position)
    if blank:
        return blank.end()
    return _comment_end(sql, position) if sql.startswith("/*", position) else position


def _comment_end(sql: str, start: int) -> int:
    depth = 0
    for mark in _COMMENT_MARK.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
        if depth > _MAX_COMMENT_DEPTH:
            break
    raise UnfinishedText("comment", start)


def _next_token(sql: str, position: int) -> SqlToken:
    letter = sql[position]
    if letter == '"':
        return _quoted_token(sql, position, position, '"', TokenKind.QUOTED)
    if letter == "'":
        return _quoted_token(sql, position, position, "'", TokenKind.STRING)
    if letter in "eE" and sql.startswith("'", position + 1):
        return _escaped_string_token(sql, position)
    opening = _DOLLAR_QUOTE.match(sql, position) if letter == "$" else None
    if opening:
        end = sql.find(opening[0], opening.end())
        if end < 0:
            raise UnfinishedText("dollar-quoted string", position)
        return SqlToken(TokenKind.STRING, sql[opening.end() : end], position, end + len(opening[0]))
    match = _PLAIN.match(sql, position)
    assert match is not None and match.lastgroup is not None  # noqa: PT018 - the last alternative matches any letter
    return SqlToken(_KINDS[match.lastgroup], match[0], position, match.end())


# Possessive: a doubled quote is always a part, and an unfinished text fails in linear time.
_QUOTED_PARTS = {quote: re.compile(f"(?:[^{quote}]+|{quote}{quote})*+{quote}") for quote in "'\""}
_ESCAPED_PART = re.compile(r"(?:[^'\\]+|\\.|'')*+'", re.DOTALL)


def _quoted_token(sql: str, start: int, quote_at: int, quote: str, kind: TokenKind) -> SqlToken:
    match = _QUOTED_PARTS[quote].match(sql, quote_at + 1)
    if match is None:
        raise UnfinishedText(kind.value, start)
    return SqlToken(kind, match[0][:-1].replace(quote * 2, quote), start, match.end())


def _escaped_string_token(sql: str, start: int) -> SqlToken:
    match = _ESCAPED_PART.match(sql, start + 2)
    if match is None:
        raise UnfinishedText("string", start)
    value = re.sub(r"\\(.)", r"\1", match[0][:-1].replace("''", "'"), flags=re.DOTALL)
    return SqlToken(TokenKind.STRING, value, start, match.end())


@dataclass(frozen=True)
class StatementText:
    """One statement of a text: its tokens, its own text, and its position in the whole."""

    sql: str
    tokens: tuple[SqlToken, ...]
    """With positions in ``sql``."""
    offset: int


def split_statements(sql: str) -> list[StatementText]:
    """Split a text at its semicolons; empty statements are left out.

    Raises: TooManyTokens: A statement is too long; what follows it is not read.
    """
    statements: list[StatementText] = []
    start, tokens = 0, list[SqlToken]()
    for token in chain(_iterate_tokens(sql), [SqlToken(TokenKind.SYMBOL, ";", len(sql), len(sql))]):
        if not token.is_symbol(";"):
            tokens.append(replace(token, start=token.start - start, end=token.end - start) if start else token)
            if len(tokens) > MAX_TOKENS:
                raise TooManyTokens
            continue
        if tokens:
            statements.append(StatementText(sql[start : token.start], tuple(tokens), start))
        start, tokens = token.end, []
    return statements


def skip_words(tokens: Sequence[SqlToken], *words: str) -> Sequence[SqlToken]:
    """Leave out these words at the beginning, in any order and number."""
    first_other = next((index for index, token in enumerate(tokens) if not token.is_word(*words)), len(tokens))
    return tokens[first_other:]


def dotted_name_and_rest(tokens: Sequence[SqlToken]) -> tuple[list[str], Sequence[SqlToken]]:
    """Read a name of one to ``MAX_NAME_PARTS`` parts, and return the tokens after it; no parts where no name begins."""
    parts: list[str] = []
    index = 0
    while index < len(tokens) and tokens[index].kind in _NAMES:
        parts.append(tokens[index].identifier)
        index += 1
        if len(parts) == MAX_NAME_PARTS or index == len(tokens) or not tokens[index].is_symbol("."):
            break
        index += 1
    return parts, tokens[index:]


def blank_out_database_name(sql: str, database: str) -> str:
    """Write blanks over the database in names of three parts, such as clinic.public.visits, so that every other letter
    stays where it is; a text that cannot be read is left as it is.
    """
    if database.lower() not in sql.lower():
        return sql
    try:
        tokens = tokenize(sql)
    except (UnfinishedText, TooManyTokens):
        return sql
    for index, (name, dot, schema, second_dot) in enumerate(
        zip(*(tokens[offset:] for offset in range(4)), strict=False)
    ):
        begins = index == 0 or not tokens[index - 1].is_symbol(".")
        names = name.kind in _NAMES and name.identifier == database and schema.kind in _NAMES
        if begins and names and schema.identifier == "public" and dot.is_symbol(".") and second_dot.is_symbol("."):
            sql = sql[: name.start] + " " * (dot.end - name.start) + sql[dot.end :]
    return sql


_NAMES = (TokenKind.WORD, TokenKind.QUOTED)
