"""Refusals of whole statements are placed in the text, with the nearest thing that works."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.parser import Parser

from sfumato.errors import Unsupported
from sfumato.plan.sql_expressions import position
from sfumato.safe_text import printable


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


def quoted(name: str) -> str:
    """Write a name as it is written in SQL: within quotes where it needs them.

    >>> quoted("age"), quoted("Total Cost €")
    ('age', '"Total Cost €"')
    """
    if _PLAIN.fullmatch(name) and sqlglot.tokenize(name, dialect="duckdb")[0].token_type in Parser.ID_VAR_TOKENS:
        return name
    return '"' + name.replace('"', '""') + '"'


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shown(node: exp.Expr) -> str:
    """Show the analyst's own text of a node, cut short."""
    try:
        written = node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE)
        text = printable(node.name if isinstance(node, exp.Literal) else written)
    except (ValueError, RecursionError):
        return "this"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


_LONGEST = 60
