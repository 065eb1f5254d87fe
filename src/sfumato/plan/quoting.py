"""Names as SQL writes them: within quotes where they need them."""

from __future__ import annotations

import re
from functools import lru_cache

from sfumato.untrusted import escape_unprintable


@lru_cache(maxsize=1024)
def quoted(name: str) -> str:
    """Write a name as an SQL identifier.

    >>> quoted("age"), quoted("Total Cost €")
    ('age', '"Total Cost €"')
    """
    import sqlglot  # here: whoever opens a policy imports this module, and needs no parser
    from sqlglot.parser import Parser

    if _PLAIN.fullmatch(name) and sqlglot.tokenize(name, dialect="duckdb")[0].token_type in Parser.ID_VAR_TOKENS:
        return name
    return _double_quoted(name)


def double_quotes_advice(text: str) -> str:
    """Return the fix for a text in single quotes where a text is refused: it may be meant as a column."""
    return (
        f"single quotes mark a text; write a column in double quotes: {escape_unprintable(_double_quoted(text[:60]))}"
    )


def _double_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
