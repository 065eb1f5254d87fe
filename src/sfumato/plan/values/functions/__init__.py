"""The allow-list of functions of one row, each with its types, its range rule and its description."""

from sfumato.plan.values.functions import logic, numeric, temporal, textual
from sfumato.plan.values.functions.declaring import FUNCTIONS, Function, call, literal, never_null, null

__all__ = [
    "FUNCTIONS",
    "Function",
    "call",
    "casting",
    "literal",
    "logic",
    "never_null",
    "null",
    "numeric",
    "temporal",
    "textual",
]
