"""Refusals of statements with the position in the text, and the nearest name that works."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sfumato.errors import Unsupported
from sfumato.plan.quoting import double_quotes_advice, quoted
from sfumato.plan.sql.dialect import DIALECT
from sfumato.plan.sql.sql_expressions import line_and_column
from sfumato.untrusted import escape_unprintable


def refusal_at(node: exp.Expr, code: str, rule: str, fix: str) -> Unsupported:
    """Return the refusal of a node at its position; of a text where a column was probably meant, say how to name it."""
    line, column = line_and_column(node)
    if code == "type-mismatch" and isinstance(node, exp.Literal) and node.is_string:
        fix = double_quotes_advice(node.name)
    return Unsupported(code, rule, fix=fix, line=line, column=column)


def suggest_name(word: str, known_names: Iterable[str]) -> str:
    """Suggest a fix for an unknown name: the closest known one, or all of them."""
    names = sorted(known_names)
    close = difflib.get_close_matches(word[:100].lower(), [name.lower() for name in names], n=1)
    if close:
        return f"did you mean {quoted(next(name for name in names if name.lower() == close[0]))}?"
    return f"available: {', '.join(map(quoted, names[:20]))}" if names else "no names can be used here"


_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "DISTINCT", "BETWEEN", "JOIN", "UNION")
_SIMILARITY_CUTOFF = 0.75
"""The similarity at which a word is taken for a keyword: FORM and FROM just reach it."""


def suggest_keyword(text: str) -> str:
    """Suggest the keyword that a word of an unreadable text was perhaps meant to be; empty where none is close.

    >>> suggest_keyword("SELEC COUNT(*) FROM flights"), suggest_keyword("SELECT COUNT(* FROM flights")
    ('did you mean SELECT instead of SELEC?', '')
    """
    try:
        words = [token for token in sqlglot.tokenize(text, dialect="duckdb") if token.token_type is TokenType.VAR]
    except SqlglotError:  # a quote or a comment is open, and so is what was meant
        return ""
    for word in words:
        close = difflib.get_close_matches(word.text[:20].upper(), _KEYWORDS, n=1, cutoff=_SIMILARITY_CUTOFF)
        if close and close[0] != word.text.upper():
            return f"did you mean {close[0]} instead of {escape_unprintable(word.text[:20])}?"
    return ""


def suggest_quotes(word: str, column_names: Iterable[str]) -> str:
    """Suggest double quotes around a word of SQL that is also the name of a column; empty for any other word.

    >>> suggest_quotes("alter", ["age", "alter"]), suggest_quotes("age", ["age", "alter"])
    ('alter is a word of SQL: write the column in double quotes, "alter"', '')
    """
    for name in column_names:
        if name.lower() == word.lower() and quoted(name) != name:
            return f"{word} is a word of SQL: write the column in double quotes, {quoted(name)}"
    return ""


_MAX_LENGTH = 60


def node_text(node: exp.Expr) -> str:
    """Return the analyst's own text of a node, with functions as they were typed, truncated."""
    return _sql_excerpt(node, DIALECT).replace("LISTAGG(", "STRING_AGG(")


def full_sql_text(node: exp.Expr) -> str:
    """Return the analyst's own text of a node in full, to be typed again."""
    return _sql_excerpt(node, DIALECT, longest=None)


def _sql_excerpt(node: exp.Expr, dialect: DuckDB, longest: int | None = _MAX_LENGTH) -> str:
    try:
        node_sql = _with_typed_tuples(node).sql(dialect=dialect, unsupported_level=ErrorLevel.IGNORE)
        text = escape_unprintable(node.name if isinstance(node, exp.Literal) else node_sql)
    except (ValueError, RecursionError):
        return "this"
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _with_typed_tuples(node: exp.Expr) -> exp.Expr:
    """Keep DISTINCT a, b as it was typed: the dialect would write a CASE."""
    if all(len(counted.expressions) < 2 for counted in node.find_all(exp.Distinct)):
        return node
    typed = node.copy()
    for counted in list(typed.find_all(exp.Distinct)):
        parts = ", ".join(part.sql(dialect=DIALECT) for part in counted.expressions)
        counted.set("expressions", [exp.Var(this=parts)])
    return typed


def default_column_name(node: exp.Expr) -> str:
    """Name an unnamed column by its own text, as databases do: keywords in lower case, names and texts as written."""
    identifiers = {name_node.name for name_node in node.find_all(exp.Identifier)}

    def spell(word: re.Match[str]) -> str:
        is_verbatim = word[0][0] in "'\"" or (word[0] in identifiers and not word.string.startswith("(", word.end()))
        return word[0] if is_verbatim else word[0].lower()

    return _WORD_PATTERN.sub(spell, _sql_excerpt(node, DuckDB()))


_WORD_PATTERN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d]\w*""")
