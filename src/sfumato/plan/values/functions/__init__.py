"""These functions may be asked of one row: an allow-list, each with its types, its range rule and its words."""

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
