"""Refusals of whole statements: placed in the text, with the nearest thing that works."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sqlglot import exp

from sfumato.errors import Unsupported, shorten
from sfumato.plan.sql_expressions import position


def refuse(node: exp.Expr, code: str, rule: str, fix: str) -> Unsupported:
    """The refusal of a node where it begins."""
    line, column = position(node)
    return Unsupported(code, rule, fix=fix, line=line, column=column)


def nearest(word: str, known: Iterable[str]) -> str:
    """How a fix for an unknown name goes on: the closest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word[:100].lower(), [name.lower() for name in names], n=1)
    if close:
        return f"did you mean {next(name for name in names if name.lower() == close[0])}?"
    return f"known here: {', '.join(names[:20])}" if names else "nothing is known by name here"


def shown(node: exp.Expr) -> str:
    """The analyst's own text of a node, cut short."""
    try:
        return shorten(node.sql(dialect="duckdb")).strip("'\"")
    except (ValueError, RecursionError):
        return "this"
