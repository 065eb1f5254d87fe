"""The dialect of questions: DuckDB's, with the name of each function as the analyst typed it.

The parser has one class for all spellings of a function (``StrToTime`` for strptime, ``DateBin`` for time_bucket), so
a refusal would otherwise name a function that nobody wrote.
"""

from __future__ import annotations

import re

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB

TYPED_NAME = "typed_name"
DIALECT = DuckDB()
DIALECT.ORIGINAL_NAME_META_KEY = TYPED_NAME

_CALL = re.compile(r"([A-Za-z_]\w*)\(")
_COMMON_NAMES = {"LISTAGG": "STRING_AGG"}


def function_name(node: exp.Expr) -> str:
    """Return the name of a function in upper case, as it was typed; for an operator, its own name."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, (exp.Ceil, exp.Floor)):  # written as ROUND where they have digits
        return node.key.upper()
    typed_name = node.meta.get(TYPED_NAME)
    if typed_name is not None:
        return str(typed_name).upper()
    call = _CALL.match(node.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE))
    return _COMMON_NAMES.get(call[1], call[1]).upper() if call else node.key.upper()
