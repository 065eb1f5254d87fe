"""Dialects have these words in common; each of them says only what it writes otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sfumato.engine.lowering.relational import Kind, Wide
from sfumato.engine.spellings.literals import Literals
from sfumato.policy import Type, Value

SECONDS_BEFORE_1970 = 62_135_596_800
"""From the start of the year 1, the calendar's first, so that no time counts below 0."""


class CommonSpelling:
    """These are the words of a ``Spelling`` that are the same SQL on most engines: CAST rounds to even, LEAST and
    GREATEST pass over NULL, FLOOR, CEIL and TRUNC give doubles.
    """

    types: Mapping[Kind, str]
    literals: Literals
    staged = ""

    def name(self, identifier: str) -> str:
        return self.literals.name(identifier)

    def constant(self, value: Value | None, kind: Kind) -> str:
        if value is None or kind is Wide.INTEGER:
            return self.convert("NULL" if value is None else str(value), kind)
        return self.literals.literal(Fraction(value) if kind is Type.REAL else value)  # type: ignore[arg-type]

    def convert(self, x: str, kind: Kind) -> str:
        return f"CAST({x} AS {self.types[kind]})"

    def nearest(self, x: str) -> str:
        return f"CAST({x} AS BIGINT)"

    def toward_zero(self, x: str) -> str:
        return f"CAST(TRUNC({x}) AS BIGINT)"

    def floor(self, x: str) -> str:
        return f"FLOOR({x})"

    def ceiling(self, x: str) -> str:
        return f"CEIL({x})"

    def truncate(self, x: str) -> str:
        return f"TRUNC({x})"

    def least(self, *xs: str) -> str:
        return f"LEAST({', '.join(xs)})"

    def greatest(self, *xs: str) -> str:
        return f"GREATEST({', '.join(xs)})"

    def code(self, x: str, *_: str) -> str:
        return x

    def start(self, x: str, unit: str, kind: Type) -> str:
        return self.convert(f"date_trunc('{unit}', {x})", kind)

    def wide_sum(self, x: str, over: str = "") -> str:
        return self.convert(f"SUM({x}){over}", Wide.INTEGER)

    def narrow_sum(self, x: str, over: str = "") -> str:
        return self.wide_sum(x, over)

    def items(self, x: str) -> str:
        return f"unnest({x})"
