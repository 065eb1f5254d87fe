"""Refusals of whole statements are placed in the text, with the nearest thing that works."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sfumato.errors import Unsupported
from sfumato.plan.sql.sql_expressions import position
from sfumato.plan.written_names import quoted
from sfumato.untrusted import printable


def refuse(node: exp.Expr, code: str, rule: str, fix: str) -> Unsupported:
    """Refuse a node where it begins."""
    line, column = position(node)
    return Unsupported(code, rule, fix=fix, line=line, column=column)


def nearest(word: str, known: Iterable[str]) -> str:
    """Say how a fix for an unknown name goes on: the closest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word[:100].lower(), [name.lower() for name in names], n=1)
    if close:
        return f"did you mean {quoted(next(name for name in names if name.lower() == close[0]))}?"
    return f"known here: {', '.join(map(quoted, names[:20]))}" if names else "nothing is known by name here"


_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "DISTINCT", "BETWEEN", "JOIN", "UNION")
_CLOSE = 0.75
"""How alike a word and a keyword are for one to be taken for the other: FORM and FROM just are."""


def misspelt(text: str) -> str:
    """Say of a text that cannot be read which of its words was perhaps to be a keyword; nothing where none is close.

    >>> misspelt("SELEC COUNT(*) FROM flights"), misspelt("SELECT COUNT(* FROM flights")
    ('did you mean SELECT? here it is written SELEC', '')
    """
    try:
        words = [each for each in sqlglot.tokenize(text, dialect="duckdb") if each.token_type is TokenType.VAR]
    except SqlglotError:  # a quote or a comment is open, and so is what was meant
        return ""
    for word in words:
        close = difflib.get_close_matches(word.text[:20].upper(), _KEYWORDS, n=1, cutoff=_CLOSE)
        if close and close[0] != word.text.upper():
            return f"did you mean {close[0]}? here it is written {printable(word.text[:20])}"
    return ""


def shown(node: exp.Expr) -> str:
    """Show the analyst's own text of a node, cut short."""
    try:
        written = node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
        text = printable(node.name if isinstance(node, exp.Literal) else written)
    except (ValueError, RecursionError):
        return "this"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def called(node: exp.Expr) -> str:
    """Name a column that was given no name, as databases do: by its own text, with words of the language in small
    letters, and names and texts as the analyst wrote them.
    """
    own = {each.name for each in node.find_all(exp.Identifier)}

    def spelled(word: re.Match[str]) -> str:
        kept = word[0][0] in "'\"" or (word[0] in own and not word.string.startswith("(", word.end()))
        return word[0] if kept else word[0].lower()

    return _WORDS.sub(spelled, shown(node))


_WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d]\w*""")
_LONGEST = 60
