"""The allow-list of functions of one row, each with its types, its range rule and its description."""

from sfumato.plan.values.functions import logic, numeric, temporal, textual
from sfumato.plan.values.functions.declaring import FUNCTIONS, Function, call, is_never_null, literal, null_literal

__all__ = [
    "FUNCTIONS",
    "Function",
    "call",
    "casting",
    "is_never_null",
    "literal",
    "logic",
    "null_literal",
    "numeric",
    "temporal",
    "textual",
]
