"""The DuckDB spelling of the relational form."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engine.lowering.relational_form import Kind, Wide
from sfumato.engine.spellings.spelling import COMMON_TYPES, SECONDS_BEFORE_1970, CommonSpelling, Literals, anchored
from sfumato.plan.values.grammars import ZONED
from sfumato.policy import Type, Value
from sfumato.quick_dataclass import dataclass

TYPES: Mapping[Kind, str] = {**COMMON_TYPES, Type.REAL: "DOUBLE", Type.TEXT: "VARCHAR", Wide.INTEGER: "HUGEINT"}
LITERALS = Literals(TYPES)
literal, real, literal_list, quote_identifier = LITERALS.literal, LITERALS.real, LITERALS.literal_list, LITERALS.name


__all__ = ["TYPES", "DuckDBSpelling"]

_STEPS: Mapping[Kind, str] = {
    Type.DATE: "to_days(CAST(i AS INTEGER))",
    Type.TIMESTAMP: "to_hours(CAST(i AS INTEGER))",
}


_ENDS = r"\A", r"\z"


@dataclass(frozen=True)
class DuckDBSpelling(CommonSpelling):
    """The DuckDB dialect: doubles never fail (they become infinite), and projections are computed one after the
    other.
    """

    periods: bool = False
    """Whether a unit is an id in a period: a structure of both."""

    types = TYPES
    literals = LITERALS
    staged = " OFFSET 0"
    # filters pass through what is merged; a score of a hundred values, merged into as many sums, takes minutes to plan
    longest_merged = 2_000

    def round_half_away(self, x: str) -> str:
        return f"ROUND({x})"

    def divide_integers(self, x: str, y: str) -> str:
        return f"({x} // {y})"

    divide_wide_integers = divide_integers

    def like(self, x: str, pattern: str) -> str:
        return f"({x} LIKE {literal(pattern)})"

    def matches(self, x: str, grammar: str, at_start: bool = True, at_end: bool = True) -> str:
        if at_start and at_end:
            return f"regexp_full_match({x}, {literal(grammar)})"
        return f"regexp_matches({x}, {literal(anchored(grammar, at_start, at_end, _ENDS))})"

    def group_of_whole_match(self, x: str, pattern: str, number: int) -> str:
        return f"regexp_extract({x}, {literal(f'^(?:{pattern})$')}, {number})"

    def read(self, x: str, sql_type: Type) -> str:
        if sql_type is not Type.TIMESTAMP:
            return f"TRY_CAST({x} AS {self.types[sql_type]})"
        moment = f"make_timestamp(epoch_us(TRY_CAST({x} AS TIMESTAMPTZ)))"
        return f"CASE WHEN {self.matches(x, ZONED)} THEN {moment} ELSE {self.read_local(x)} END"

    def read_local(self, x: str) -> str:
        """Parse a time without a zone: this cast ignores a zone, and admits no space after a day."""
        return f"TRY_CAST({self.trim(x, ' ', start=True, end=True)} AS TIMESTAMP)"

    def lower(self, x: str) -> str:
        return f"LOWER({x})"

    def upper(self, x: str) -> str:
        """Convert to upper case; DuckDB's capital of ß is ẞ, which is reverted in one pass, so that every letter costs
        the same.
        """
        return f"REPLACE(UPPER({x}), 'ẞ', 'ß')"

    def trim(self, x: str, characters: str, start: bool, end: bool) -> str:
        function = "TRIM" if start and end else "LTRIM" if start else "RTRIM"
        return f"{function}({x}, {literal(characters)})"

    def slice(self, x: str, first: str, count: str) -> str:
        return f"SUBSTR({x}, {first}, {count})"

    def group_code(self, x: str, *texts: str) -> str:
        return f"TRY_CAST({x} AS ENUM({literal_list(texts)}))"

    def ordinal(self, x: str, *_: str) -> str:
        return f"(CAST(enum_code({x}) AS BIGINT) + 1)"

    def unit_text(self, x: str) -> str:
        if not self.periods:
            return super().unit_text(x)
        return f"(CAST(struct_extract({x}, 'period') AS VARCHAR) || CAST(struct_extract({x}, 'id') AS VARCHAR))"

    def fingerprint(self, x: str) -> str:
        return f"CAST('0x' || left(md5({x}), 15) AS BIGINT)"

    def hash(self, x: str) -> str:
        return f"left(sha256({x}), 16)"

    def part(self, x: str, part: str) -> str:
        return f"CAST(date_part('{part}', {x}) AS BIGINT)"

    def add_interval(self, x: str, amount: int, unit: str, sql_type: Type) -> str:
        return f"CAST({x} + to_{unit}s({amount}) AS {self.types[sql_type]})"

    def days(self, first: str, last: str) -> str:
        return f"date_diff('day', {first}, {last})"

    def seconds(self, x: str) -> str:
        return f"((epoch_us({x}) + {SECONDS_BEFORE_1970 * 1_000_000}) // 1000000)"

    def moment(self, x: str) -> str:
        return f"make_timestamp(({x} - {SECONDS_BEFORE_1970}) * 1000000)"

    def select_parameter_list(self, number: int, sql_type: Type) -> str:
        return f"SELECT unnest(CAST(${number} AS {self.types[sql_type]}[])) AS x"

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Generate the values in the engine."""
        moved = f"{self.constant(first, kind)} + {_STEPS.get(kind, 'i')}"
        return f"SELECT CAST({moved} AS {self.types[kind]}) AS x FROM range({count}) AS r(i)"
