"""Values and names become DuckDB's SQL so."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engine.lowering.relational import Kind, Wide
from sfumato.engine.spellings.literals import COMMON_TYPES, Literals
from sfumato.policy import Type

TYPES: Mapping[Kind, str] = {**COMMON_TYPES, Type.REAL: "DOUBLE", Type.TEXT: "VARCHAR", Wide.INTEGER: "HUGEINT"}
LITERALS = Literals(TYPES)
literal, real, listed, name = LITERALS.literal, LITERALS.real, LITERALS.listed, LITERALS.name
