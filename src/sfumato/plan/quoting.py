"""Names as SQL writes them: within quotes where they need them."""

from __future__ import annotations

import re


def quoted(name: str) -> str:
    """Write a name as an SQL identifier.

    >>> quoted("age"), quoted("Total Cost €")
    ('age', '"Total Cost €"')
    """
    import sqlglot  # here: whoever opens a policy imports this module, and needs no parser
    from sqlglot.parser import Parser

    if _PLAIN.fullmatch(name) and sqlglot.tokenize(name, dialect="duckdb")[0].token_type in Parser.ID_VAR_TOKENS:
        return name
    return '"' + name.replace('"', '""') + '"'


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
