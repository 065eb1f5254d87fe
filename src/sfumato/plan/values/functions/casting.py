"""CAST leads among the six types and is total: what cannot be converted is NULL, as with TRY_CAST.

Texts are read by the grammars of ``plan.grammars``, as the scan reads them. A real becomes the nearest whole number,
ties to even. A whole number, a date, a time or a truth has one text (17, 2024-01-31, 2024-01-31 23:59:00.5, true); a
real has none that engines share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import Unsupported
from sfumato.plan.values import intervals
from sfumato.plan.values.expressions import Call, Expression, Literal
from sfumato.plan.values.functions.declaring import function
from sfumato.plan.values.functions.typing import BOTH, is_null, moment, null, real, timestamp, written
from sfumato.policy.domains import Domain, Type

Made = tuple[Sequence[Expression], Domain]


_LETTERS = 32
"""Of a number, a date or a truth as text, at most."""


def _steps(node: Call) -> int:
    """Texts are read letter by letter, and written likewise."""
    written = _LETTERS * 2 if node.domain.type is Type.TEXT else 0
    return 10 + 3 * node.arguments[0].domain.letters + written


def _bytes(node: Call) -> int:
    return _LETTERS if node.domain.type is Type.TEXT else 8


@function(
    "CAST",
    "CAST(x AS type), TRY_CAST, x::type",
    "converted, NULL where that fails; reals to whole numbers with ties to even, never to text; dates never to numbers",
    steps=_steps,
    held=_bytes,
)
def _cast(x: Expression, target: Expression) -> Expression | Made:
    kind = Type.of(str(written(target, Type.TEXT, "the type")))
    if is_null(x):
        return null(kind)
    if x.domain.type is kind:
        return x
    if isinstance(x, Literal) and isinstance(x.value, str) and kind.temporal:
        return _dated(moment(x), kind)
    return _converted(x, kind)


def _converted(x: Expression, kind: Type) -> Expression | Made:
    found = x.domain.type
    nullable = x.domain.nullable
    if kind is Type.TEXT and found is Type.REAL:
        raise Unsupported(
            "type-mismatch",
            "a real number cannot become text: it would be written otherwise by every engine",
            fix="use ROUND and CAST(… AS BIGINT) first, or compare numbers as numbers",
        )
    if kind is Type.TEXT:
        return (x,), Domain(kind, nullable=nullable, max_length=_LETTERS)
    if found is Type.TEXT:
        return (x,), Domain(kind, values=BOTH if kind is Type.BOOLEAN else None, nullable=True)
    if found.temporal and kind.temporal:
        return _dated(x, kind)
    if found.temporal or kind.temporal:
        raise Unsupported(
            "type-mismatch",
            "a date cannot become a number or a truth",
            fix="use EXTRACT, or DATE_DIFF",
        )
    if kind is Type.BOOLEAN:
        return (x,), Domain(kind, values=BOTH, nullable=nullable)
    if found is Type.BOOLEAN:
        return (x,), Domain(kind, values=(0, 1), nullable=nullable)
    return real(x) if kind is Type.REAL else ((x,), _rounded(x.domain))


def _rounded(domain: Domain) -> Domain:
    """Round a real to a whole number, halves to even; NULL where 64 bits do not hold it."""
    found = intervals.ends(domain)
    whole = found and intervals.whole(round(found[0]), round(found[1]), nullable=domain.nullable)
    return whole or Domain(Type.INTEGER, nullable=True)


def _dated(x: Expression, kind: Type) -> Expression | Made:
    """Convert between dates and times: a time becomes its day."""
    if x.domain.type is kind:
        return x
    if kind is Type.TIMESTAMP:
        return timestamp(x)
    found: Any = x.domain.range
    bounds = found and (found[0].date(), found[1].date())
    return (x,), Domain(kind, bounds=bounds, nullable=x.domain.nullable)
