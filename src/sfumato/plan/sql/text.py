"""Parse a text into one SELECT, within limits on its size and depth.

TO_DATE and TO_TIMESTAMP of a literal are read in PostgreSQL's own format, since Superset writes the ends of every time
range in this way. Only a literal is read: a column's texts are parsed by STRPTIME.

Files of queries, separated by semicolons; each is known by its number and its line.
"""

from __future__ import annotations

import datetime as dt
import logging
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import SfumatoError, Unsupported, shorten
from sfumato.plan.sql.dialect import DIALECT, TYPED_NAME, find_nodes, list_nodes
from sfumato.plan.sql.parameters import (
    Parameters,
    bind_parameters_in_place,
    insert_parameters as parameters_written,
    locate_parameters,
    parameter_literals,
)
from sfumato.plan.sql.text_positions import fix_for_unknown_name, refusal_at, suggest_keyword, suggest_quotes
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

LONGEST_FILE = 8 << 20
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
    if len(source) > LONGEST_FILE:
        raise Unsupported(
            "too-long",
            f"a file of questions can have at most {LONGEST_FILE >> 20} MB of text",
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
    while 0 <= end < LONGEST_FILE:
        tokens = _tokenize_file(source[: end + 1])
        if tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            return source[:end], source[end + 1 :]
        end = source.find(";", end + 1)
    return None


def is_blank(source: str) -> bool:
    """Return whether a text holds nothing but spaces and comments."""
    return _tokenize_file(source) == []


def has_open_quote(source: str) -> bool:
    """Return whether a text ends inside a quote or a comment.

    >>> has_open_quote("SELECT 'north"), has_open_quote("SELECT 'north' -- it's")
    (True, False)
    """
    return _tokenize_file(source) is None


def _tokenize_file(source: str) -> list[Token] | None:
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


LONGEST = 64 * 1024
DEEPEST = 24
MAX_TOKENS = 10_000
_OPENING = {TokenType.L_PAREN, TokenType.CASE, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.END, TokenType.R_BRACKET, TokenType.R_BRACE}
_CHAINED = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}


def parse_select(text: object, parameters: Parameters | None = None, column_names: Iterable[str] = ()) -> exp.Select:
    """Return the only SELECT statement of a text; refuse anything else before it is looked at closely.

    ``column_names`` are the declared ones: one that is a word of SQL is found where the parser fails.
    """
    statement = _parse_only_statement(text, parameters, column_names)
    if isinstance(statement, exp.Union):
        statement = _select_from_union(statement)
    if isinstance(statement, exp.Pivot):
        statement = _select_from_pivot(statement)
    if not isinstance(statement, exp.Select):
        if isinstance(statement, exp.SetOperation):
            rule, fix = "INTERSECT and EXCEPT between query results are not supported", "join them on their keys: "
            raise refusal_at(statement, "not-select", rule, f"{fix}FROM a JOIN b USING (month)")
        rule = "only SELECT, SHOW TABLES, DESCRIBE and SUMMARIZE are supported"
        fix = suggest_keyword(str(text)) or "write SELECT … FROM … [WHERE] [GROUP BY]"
        raise refusal_at(statement, "not-select", rule, fix)
    return _normalise_select(statement)


def _select_from_union(union: exp.Union) -> exp.Select:
    """Return SELECT * over a union, with the ORDER BY and LIMIT that stand behind it."""
    clauses = {part: union.args.get(part) for part in ("with_", "order", "limit", "offset")}
    for part in clauses:
        union.set(part, None)
    select = exp.select("*").from_(exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier("answers"))))
    for part, value in clauses.items():
        select.set(part, value)
    return select


def _select_from_pivot(statement: exp.Pivot) -> exp.Select:
    """Return SELECT * over the table of a PIVOT or UNPIVOT statement."""
    source, with_clause = statement.this, statement.args.get("with_")
    for part in ("this", "with_"):
        statement.set(part, None)
    source.set("pivots", [statement])
    select = exp.select("*").from_(source)
    select.set("with_", with_clause)
    return select


def text_with_parameters(text: str, parameters: Parameters | None) -> str:
    """Write a query as it is stored and shown to people, with the values of its parameters inserted."""
    if parameters is None:
        return text
    _, parameter_positions = locate_parameters(_tokenize(text))
    query_text = parameters_written(text, parameter_positions, parameter_literals(parameter_positions, parameters))
    if len(query_text) > LONGEST:
        raise Unsupported(
            "too-long",
            "a question with its parameter values can have at most 64 KB of text",
            fix="split it into several questions",
        )
    return query_text


@dataclass(frozen=True)
class ListingRequest:
    """What SHOW TABLES, DESCRIBE or SUMMARIZE asks for."""

    table: str | None
    """The table to describe; None for the list of all tables."""
    summarize: bool = False
    """Whether priced questions about each column are listed too."""


def parse_listing(text: object) -> ListingRequest | None:
    """Parse SHOW TABLES, DESCRIBE and SUMMARIZE; return None for any other text."""
    if not isinstance(text, str) or not _LISTING_COMMAND.match(text):
        return None
    statement = _parse_only_statement(text, None)
    if isinstance(statement, exp.Show) and statement.name.upper() == "TABLES" and not statement.args.get("from_"):
        return ListingRequest(None)
    table = statement.this if isinstance(statement, (exp.Describe, exp.Summarize)) else None
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
        _strip_schema(table)
        if not any(value for part, value in table.args.items() if part != "this"):
            name = unicodedata.normalize("NFC", table.name)
            return ListingRequest(name, summarize=isinstance(statement, exp.Summarize))
    raise refusal_at(
        statement,
        "listing",
        "only the tables and their columns can be listed",
        "write SHOW TABLES, DESCRIBE <table> or SUMMARIZE <table>",
    )


_LISTING_COMMAND = re.compile(r"\s*(SHOW|DESCRIBE|DESC|SUMMARIZE|PRAGMA)\b", re.IGNORECASE)


def _parse_only_statement(text: object, parameters: Parameters | None, column_names: Iterable[str] = ()) -> exp.Expr:
    """Parse the only statement of a text, with literals in the place of its parameters."""
    if not isinstance(text, str):
        raise Unsupported("not-text", "a question must be SQL text", fix="pass one string")
    if len(text) > LONGEST:
        raise Unsupported(
            "too-long", "a question can have at most 64 KB of text", fix="split it into several questions"
        )
    if "\0" in text or not _is_utf8(text):
        raise Unsupported("not-text", "a question must be plain text", fix="remove NUL characters and invalid UTF-8")
    tokens, parameter_positions = locate_parameters(_tokenize(text))
    values = parameter_literals(parameter_positions, parameters)
    try:
        with _silence_parser_log():
            statements = _parse_statements(tokens, text)
    except RecursionError:
        raise _too_deep_refusal() from None
    except SqlglotError as error:
        raise _not_sql_refusal(error, text, column_names) from None
    if not statements:
        raise Unsupported("one-statement", "the question is empty", fix="write SELECT … FROM … [WHERE] [GROUP BY]")
    if len(statements) != 1:
        raise Unsupported("one-statement", "a question must be one SELECT statement", fix="ask one question at a time")
    return bind_parameters_in_place(statements[0], parameter_positions, values)


def _parse_statements(tokens: list[Token], text: str) -> list[exp.Expr]:
    """Parse all statements of a text; the parser does not know the ORDER BY and LIMIT behind a PIVOT statement."""
    end = _trailing_clause_start(tokens)
    statements = [part for part in _QuantileParser(dialect=DIALECT).parse(tokens[:end], text) if part is not None]
    if end is None or len(statements) != 1 or not isinstance(statements[0], exp.Pivot):
        return statements
    ordered = _QuantileParser(dialect=DIALECT).parse([*_tokenize("FROM answers"), *tokens[end:]], text)
    if len(ordered) != 1 or not isinstance(ordered[0], exp.Select):
        return [*statements, *(part for part in ordered if part is not None)]
    select = _select_from_pivot(statements[0])
    for part in ("order", "limit", "offset"):
        select.set(part, ordered[0].args.get(part))
    return [select]


def _trailing_clause_start(tokens: list[Token]) -> int | None:
    """Return where the ORDER BY, LIMIT or OFFSET behind a statement that begins with PIVOT begins; None without."""
    if not tokens or tokens[0].token_type not in (TokenType.PIVOT, TokenType.UNPIVOT):
        return None
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type in (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET):
            return index
    return None


def _with_typed_name(name: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader of a function that remembers by which name it was typed, as the parser's own table does."""

    def parse_and_note_name(parser: Any) -> Any:
        node = read(parser)
        if isinstance(node, exp.Func):
            node.meta.setdefault(TYPED_NAME, name)
        return node

    return parse_and_note_name


class _QuantileParser(DuckDB.Parser):  # type: ignore[valid-type, misc]
    """DuckDB's parser, but it drops no argument of a quantile: a third one is refused as for any other function. And ~
    is not taken for REGEXP_MATCHES, which finds a part of a text where DuckDB's ~ matches the whole.
    """

    RANGE_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **DuckDB.Parser.RANGE_PARSERS,
        TokenType.TILDE: DuckDB.Parser.RANGE_PARSERS[TokenType.SIMILAR_TO],
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: _with_typed_name(name, read)
        for name, read in DuckDB.Parser.FUNCTION_PARSERS.items()
        if not name.startswith("QUANTILE")
    }


def _tokenize(text: str) -> list[Token]:
    _check_word_count(text)
    try:
        tokens = sqlglot.tokenize(text, dialect="duckdb")
    except SqlglotError as error:
        raise _not_sql_refusal(error) from None
    _check_token_nesting(tokens)
    return tokens


_SCHEMAS = ("main", "public", "sfumato")
"""Schema names that may qualify a table, and are ignored."""


def _normalise_select(statement: exp.Select) -> exp.Select:
    """Normalise a statement: LIMIT for FETCH FIRST, tables without a schema, composed accents, windows and dates
    written out.
    """
    nodes = list_nodes(statement)
    cte_names = {cte.alias.lower() for cte in nodes if isinstance(cte, exp.CTE)}
    for node in nodes:
        if isinstance(node, exp.Table) and node.name.lower() not in cte_names:  # what WITH defines has no schema
            _strip_schema(node)
        elif isinstance(node, exp.Column) and node.args.get("catalog") is None and node.text("db").lower() in _SCHEMAS:
            node.set("db", None)
    if _fold_written_dates(nodes):
        nodes = list_nodes(statement)
    for node in nodes:
        if isinstance(node, exp.Identifier) and not node.name.isascii():
            node.set("this", unicodedata.normalize("NFC", node.name))
    for fetch in nodes:
        if not isinstance(fetch, exp.Fetch):
            continue
        options = fetch.args.get("limit_options")
        if options is None or not (options.args.get("percent") or options.args.get("with_ties")):
            count = fetch.args.get("count") or exp.Literal.number(1)
            fetch.replace(exp.Limit(expression=count))
    if any(isinstance(node, exp.Window) and node.args.get("alias") for node in nodes):
        for select in statement.find_all(exp.Select):
            _inline_named_windows(select)
    return statement


def _inline_named_windows(select: exp.Select) -> None:
    """Write out the windows of a WINDOW clause where a function names one: ``OVER w``, ``OVER (w ORDER BY …)``."""
    definitions: dict[str, exp.Window] = {}
    copied = 0
    for window in [*(select.args.get("windows") or []), *select.find_all(exp.Window)]:
        if window.parent_select is select and window.name.lower() not in definitions:
            copied += _inherit_parts_and_count_nodes(window, definitions)
            if copied > MAX_TOKENS:  # a long definition may be named often
                raise _too_long_refusal()
            if isinstance(window.this, exp.Identifier):
                definitions[window.name.lower()] = window
    select.set("windows", None)


def _inherit_parts_and_count_nodes(window: exp.Window, definitions: Mapping[str, exp.Window]) -> int:
    """Give a window the parts of the one it names that it has not itself; return the number of nodes copied."""
    name = window.args.get("alias")
    if not isinstance(name, exp.Identifier):
        return 0
    definition = definitions.get(name.name.lower())
    if definition is None:
        rule = f"no window is named {escape_unprintable(name.name[:60])}"
        raise refusal_at(window, "window", rule, fix_for_unknown_name(name.name, definitions))
    before = sum(1 for _ in window.walk())
    for part in ("partition_by", "order", "spec"):
        value = definition.args.get(part)
        if value and not window.args.get(part):
            window.set(part, [item.copy() for item in value] if isinstance(value, list) else value.copy())
    window.set("alias", None)
    return sum(1 for _ in window.walk()) - before


def _strip_schema(table: exp.Table) -> None:
    if table.args.get("catalog") is None and table.text("db").lower() in _SCHEMAS:
        table.set("db", None)


def strip_database(statement: exp.Select, databases: Collection[str]) -> None:
    """Drop the name of this database, and no other, before the schema of a table or a column."""
    for name in find_nodes(statement, exp.Table, exp.Column):
        if name.text("catalog").lower() in databases and name.text("db").lower() in _SCHEMAS:
            name.set("catalog", None)
            name.set("db", None)


_parsing = ContextVar("_parsing", default=False)
logging.getLogger("sqlglot").addFilter(lambda _: not _parsing.get())


@contextmanager
def _silence_parser_log() -> Iterator[None]:
    """Silence the parser's log in this thread: it writes what it does not know, and an analyst's text belongs to nobody
    else.
    """
    previous = _parsing.set(True)
    try:
        yield
    finally:
        _parsing.reset(previous)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_WORD_PATTERN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\$\w*\$.*?(?:\$\w*\$|\Z)|\w+"""
    r"""|[^\w\s'"]{1,3}""",
    re.DOTALL,
)
"""A comment, a quoted text, a word, or up to three signs, which may be one operator."""


def _check_word_count(text: str) -> None:
    """Refuse a text with too many words before it is tokenized, which takes a hundred times as long as this. They are
    about as many as the parser's tokens, which are counted afterwards.
    """
    if len(text) > MAX_TOKENS:
        words = (match for match in _WORD_PATTERN.finditer(text) if match.lastgroup is None)
        if next(islice(words, MAX_TOKENS, None), None) is not None:
            raise _too_long_refusal()


def _too_long_refusal() -> Unsupported:
    return Unsupported(
        "too-long", f"a question can have at most {MAX_TOKENS:,} SQL tokens", fix="split it into several questions"
    )


def _check_token_nesting(tokens: list[Token]) -> None:
    """Refuse deep nesting, measured on tokens because the parser itself recurses."""
    if len(tokens) > MAX_TOKENS:
        raise _too_long_refusal()
    depth = run = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        run = run + 1 if token.token_type in _CHAINED else 0
        if depth > DEEPEST or run > DEEPEST:
            raise _too_deep_refusal()


def _too_deep_refusal() -> Unsupported:
    return Unsupported(
        "too-deep",
        f"parentheses, CASE and subqueries can be nested at most {DEEPEST} levels deep",
        fix="use fewer nested subqueries, for example with WITH",
    )


def _not_sql_refusal(error: SqlglotError, text: str = "", column_names: Iterable[str] = ()) -> Unsupported:
    error_details = getattr(error, "errors", None) or [{}]
    line, column = error_details[0].get("line"), error_details[0].get("col")
    if "number of provided arguments" in str(error_details[0].get("description")):
        rule, fix = "this function takes fewer arguments", "leave out the last arguments"
        return Unsupported("arguments", rule, fix=fix, line=line, column=column)
    default_fix = "look for a missing comma, quote or parenthesis at this place; put names with spaces in double quotes"
    word = str(error_details[0].get("highlight"))
    fix = suggest_quotes(word, column_names) or suggest_keyword(text) or default_fix
    return Unsupported("not-sql", "this is not valid SQL", fix=fix, line=line, column=column)


def parse_fragment(text: object, kind: type[exp.Expr], column_names: Iterable[str] = ()) -> exp.Expr:
    """Parse a part of a statement of the given kind, by the same parser and within the same limits.

    ``column_names`` are those that a refusal may suggest to quote.
    """
    if not isinstance(text, str) or "\0" in text or not _is_utf8(text):
        raise Unsupported("not-text", "an expression must be SQL text", fix="pass one string")
    if len(text) > LONGEST:
        raise Unsupported(
            "too-long", "an expression can have at most 64 KB of text", fix="split it into several questions"
        )
    try:
        tokens = _tokenize(text)
        with _silence_parser_log():
            parsed = [
                node for node in _QuantileParser(dialect=DIALECT).parse_into(kind, tokens, text) if node is not None
            ]
    except RecursionError:
        raise _too_deep_refusal() from None
    except SqlglotError as error:
        raise _not_sql_refusal(error, column_names=column_names) from None
    if len(parsed) != 1:
        raise Unsupported("one-expression", "the text must be a single expression", fix="write one, such as cost > 10")
    return parsed[0]


_DIRECTIVES = {
    "YYYY": "%Y",
    "MM": "%m",
    "DD": "%d",
    "HH24": "%H",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "MS": "%f",
}
"""The strptime directive of each pattern of PostgreSQL that is known here."""
_PATTERN = re.compile("|".join(_DIRECTIVES) + r'|"[^"]*"|.', re.DOTALL)
_SEPARATORS = frozenset(" -/.:,")


def _fold_written_dates(nodes: Iterable[exp.Expr]) -> bool:
    """Replace each TO_DATE and TO_TIMESTAMP of two literals by the date or timestamp that it means; return whether any
    was replaced.
    """
    has_folded = False
    for node in nodes:
        if not isinstance(node, (exp.Anonymous, exp.UnixToTime)):
            continue
        is_date = isinstance(node, exp.Anonymous) and node.name.lower() == "to_date"
        arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this, node.args.get("scale")]
        if (
            (is_date or isinstance(node, exp.UnixToTime))
            and len(arguments) == 2
            and all(map(_is_text_literal, arguments))
        ):
            moment = _parse_written(node, arguments[0].name, arguments[1].name)
            value = moment.date().isoformat() if is_date else moment.isoformat(sep=" ")
            node.replace(exp.cast(exp.Literal.string(value), "DATE" if is_date else "TIMESTAMP"))
            has_folded = True
    return has_folded


def _is_text_literal(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _parse_written(node: exp.Expr, text: str, pattern: str) -> dt.datetime:
    directives = _strptime_format(pattern)
    try:
        return dt.datetime.strptime(text, directives) if directives else _raise_unreadable_date(node)
    except ValueError:
        return _raise_unreadable_date(node)


def _strptime_format(pattern: str) -> str:
    """Return the format in strptime's letters; empty if a part of it is not known."""
    parts = _PATTERN.findall(pattern)
    directives = [_DIRECTIVES.get(part) or _plain_format_part(part) for part in parts]
    return "" if None in directives else "".join(map(str, directives))


def _plain_format_part(part: str) -> str | None:
    if part in _SEPARATORS:
        return part
    return part[1:-1].replace("%", "%%") if part.startswith('"') and len(part) > 1 else None


def _raise_unreadable_date(node: exp.Expr) -> dt.datetime:
    raise refusal_at(
        node,
        "date-literal",
        "this text is not a date in this format; the supported parts of a format are YYYY, MM, DD, HH24, MI, SS, "
        "MS and US",
        "write the date as DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'",
    )
