"""DuckDB writes the relational form so."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sfumato.engine.relational import Kind, Wide
from sfumato.engine.spellings.duckdb_literals import listed, literal, name, real
from sfumato.plan.grammars import ZONED
from sfumato.plan.intervals import nearest
from sfumato.policy import Type, Value

_MICROSECONDS_BEFORE_1970 = 62_135_596_800_000_000
"""From the start of the year 1, the calendar's first, so that no time counts below 0."""


TYPES: Mapping[Kind, str] = {
    Type.INTEGER: "BIGINT",
    Type.REAL: "DOUBLE",
    Type.TEXT: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "TIMESTAMP",
    Wide.INTEGER: "HUGEINT",
}


_STEPS: Mapping[Kind, str] = {
    Type.DATE: "to_days(CAST(i AS INTEGER))",
    Type.TIMESTAMP: "to_hours(CAST(i AS INTEGER))",
}


class DuckDBSpelling:
    """This is how DuckDB computes: doubles never fail (they become infinite), CAST rounds to even, LEAST and GREATEST
    pass over NULL.
    """

    types = TYPES
    staged = ""  # projections are computed one after the other

    def name(self, identifier: str) -> str:
        return name(identifier)

    def constant(self, value: Value | None, kind: Kind) -> str:
        if value is None:
            return f"CAST(NULL AS {self.types[kind]})"
        if kind is Wide.INTEGER:
            return f"CAST({value} AS HUGEINT)"
        return real(nearest(Fraction(value))) if kind is Type.REAL else literal(value)  # type: ignore[arg-type]

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

    def half_away(self, x: str) -> str:
        return f"ROUND({x})"

    def divide_whole(self, x: str, y: str) -> str:
        return f"({x} // {y})"

    def divide_wide(self, x: str, y: str) -> str:
        return f"({x} // {y})"

    def least(self, *xs: str) -> str:
        return f"LEAST({', '.join(xs)})"

    def greatest(self, *xs: str) -> str:
        return f"GREATEST({', '.join(xs)})"

    def like(self, x: str, pattern: str) -> str:
        return f"({x} LIKE {literal(pattern)})"

    def matches(self, x: str, grammar: str) -> str:
        return f"regexp_full_match({x}, {literal(grammar)})"

    def read(self, x: str, kind: Type) -> str:
        if kind is not Type.TIMESTAMP:
            return f"TRY_CAST({x} AS {self.types[kind]})"
        moment = f"make_timestamp(epoch_us(TRY_CAST({x} AS TIMESTAMPTZ)))"
        return f"CASE WHEN {self.matches(x, ZONED)} THEN {moment} ELSE {self.read_local(x)} END"

    def read_local(self, x: str) -> str:
        """Read a text that is a time without a zone: this cast passes over a zone, and admits no space after a day."""
        return f"TRY_CAST({self.trim(x, ' ', start=True, end=True)} AS TIMESTAMP)"

    def lower(self, x: str) -> str:
        return f"LOWER({x})"

    def upper(self, x: str) -> str:
        """DuckDB's capital of ß is ẞ, which is taken back: in one pass, so that no letter is dearer than another."""
        return f"REPLACE(UPPER({x}), 'ẞ', 'ß')"

    def trim(self, x: str, letters: str, start: bool, end: bool) -> str:
        function = "TRIM" if start and end else "LTRIM" if start else "RTRIM"
        return f"{function}({x}, {literal(letters)})"

    def slice(self, x: str, first: str, count: str) -> str:
        return f"SUBSTR({x}, {first}, {count})"

    def code(self, x: str, *texts: str) -> str:
        return f"TRY_CAST({x} AS ENUM({listed(texts)}))"

    def digest(self, *texts: str) -> str:
        return f"md5(concat_ws('|', {', '.join(texts)}))"

    def part(self, x: str, part: str) -> str:
        return f"CAST(date_part('{part}', {x}) AS BIGINT)"

    def start(self, x: str, unit: str, kind: Type) -> str:
        return f"CAST(date_trunc('{unit}', {x}) AS {self.types[kind]})"

    def moved(self, x: str, amount: int, unit: str, kind: Type) -> str:
        return f"CAST({x} + to_{unit}s({amount}) AS {self.types[kind]})"

    def days(self, first: str, last: str) -> str:
        return f"date_diff('day', {first}, {last})"

    def seconds(self, x: str) -> str:
        return f"((epoch_us({x}) + {_MICROSECONDS_BEFORE_1970}) // 1000000)"

    def wide_sum(self, x: str, over: str = "") -> str:
        return f"CAST(SUM({x}){over} AS HUGEINT)"

    def listed(self, number: int, kind: Type) -> str:
        return f"SELECT unnest(CAST(${number} AS {self.types[kind]}[]))"

    def items(self, x: str) -> str:
        return f"unnest({x})"

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Let the engine itself make the values, one step after another."""
        moved = f"{self.constant(first, kind)} + {_STEPS.get(kind, 'i')}"
        return f"SELECT CAST({moved} AS {self.types[kind]}) FROM range({count}) AS r(i)"
