"""Values and names become Spark's SQL so."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engine.lowering.relational import Kind, Wide
from sfumato.engine.spellings.literals import COMMON_TYPES, Literals
from sfumato.policy import Type

TYPES: Mapping[Kind, str] = {
    **COMMON_TYPES,
    Type.REAL: "DOUBLE",
    Type.TEXT: "STRING",
    Type.TIMESTAMP: "TIMESTAMP_NTZ",
    Wide.INTEGER: "DECIMAL(38,0)",
}
_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024"})
"""In a text a backslash begins an escape; and ``${…}`` stands for a setting, wherever in a statement it is written."""


def _text(value: str) -> str:
    return "'" + value.translate(_ESCAPED) + "'"


LITERALS = Literals(TYPES, _text, mark="`")
literal, real, listed, name = LITERALS.literal, LITERALS.real, LITERALS.listed, LITERALS.name
