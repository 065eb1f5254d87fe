"""The PostgreSQL spelling of the relational form."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engine.lowering.relational_form import Kind, Wide
from sfumato.engine.spellings.spelling import (
    COMMON_TYPES,
    SECONDS_BEFORE_1970,
    CollatedSpelling,
    Literals,
    anchored,
    storable_text,
)
from sfumato.plan.values.grammars import ZONED
from sfumato.policy import Type, Value
from sfumato.quick_dataclass import dataclass

TYPES: Mapping[Kind, str] = {
    **COMMON_TYPES,
    Type.REAL: "DOUBLE PRECISION",
    Type.TEXT: "TEXT",
    Wide.INTEGER: "NUMERIC",
}
BYTES = 'COLLATE "C"'
"""Texts are compared by their bytes, whatever collation their source or the database has."""
_MONTHS = {"quarter": 3}


def text(value: str) -> str:
    return storable_text(value, "PostgreSQL")


LITERALS = Literals(TYPES, lambda value: f"({text(value)} {BYTES})")
quote_identifier = LITERALS.name


@dataclass(frozen=True)
class PostgresSpelling(CollatedSpelling):
    """The PostgreSQL dialect: doubles that overflow or underflow are errors (none do within our range), and a text
    carries its collation.
    """

    types = TYPES
    literals = LITERALS
    bytewise = '"C"'
    staged = " OFFSET 0"  # what ends so is not merged into what selects from it

    def convert(self, x: str, kind: Kind) -> str:
        converted = super().convert(x, kind)
        return f"({converted} {BYTES})" if kind is Type.TEXT else converted

    def round_half_away(self, x: str) -> str:
        """Round halves away from zero; PostgreSQL's own ROUND takes halves of doubles to even."""
        return f"(TRUNC({x}) + CASE WHEN ABS({x} - TRUNC({x})) >= 0.5 THEN SIGN({x}) ELSE 0 END)"

    def divide_integers(self, x: str, y: str) -> str:
        return f"({x} / {y})"

    def divide_wide_integers(self, x: str, y: str) -> str:
        return f"DIV({x}, {y})"

    def like(self, x: str, pattern: str) -> str:
        return f"({x} LIKE {text(pattern)} ESCAPE '')"

    def matches(self, x: str, grammar: str, at_start: bool = True, at_end: bool = True) -> str:
        return f"({x} ~ {text(anchored(grammar, at_start, at_end, ('^', '$')))})"

    def group_of_whole_match(self, x: str, pattern: str, number: int) -> str:
        return f"((REGEXP_MATCH({x}, {text(f'^(?:{pattern})$')}))[{number}] {BYTES})"

    def read(self, x: str, sql_type: Type) -> str:
        plain = self.trim(x, " ", start=True, end=True)
        if sql_type is not Type.TIMESTAMP:
            return f"CAST({plain} AS {self.types[sql_type]})"
        moment = f"(CAST({plain} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"
        return f"CASE WHEN {self.matches(x, ZONED)} THEN {moment} ELSE CAST({plain} AS TIMESTAMP) END"

    def lower(self, x: str) -> str:
        """Convert to lower case; İ is replaced by i before, where a server's own rule yields two letters."""
        return self.change_case("LOWER", f"REPLACE(REPLACE({x}, 'İ', 'i'), 'Σ', 'σ')")

    def trim(self, x: str, characters: str, start: bool, end: bool) -> str:
        function = "BTRIM" if start and end else "LTRIM" if start else "RTRIM"
        return f"{function}({x}, {text(characters)})"

    def position(self, x: str) -> str:
        return f"CAST({super().position(x)} AS INTEGER)"

    def ordinal(self, x: str, *texts: str) -> str:
        """Count the texts up to this one, by bisection."""
        return f"CAST(WIDTH_BUCKET({x}, ARRAY[{self.literals.literal_list(texts)}]) AS BIGINT)"

    def count_distinct_residues(self, x: str) -> str:
        return f"BIT_COUNT(CAST(BIT_OR(CAST(1 AS BIGINT) << CAST({x} AS INTEGER)) AS BIT(64)))"

    def number_set(self, x: str) -> str:
        return f"BIT_OR(CAST(1 AS BIGINT) << CAST({x} AS INTEGER))"

    def members_below(self, number_set: str, x: str) -> str:
        lower = f"((CAST(1 AS BIGINT) << CAST({x} AS INTEGER)) - 1)"
        return f"BIT_COUNT(CAST({number_set} & {lower} AS BIT(64)))"

    def fingerprint(self, x: str) -> str:
        return f"CAST(CAST('x' || LEFT(MD5({x}), 15) AS BIT(60)) AS BIGINT)"

    def hash(self, x: str) -> str:
        return f"(LEFT(ENCODE(SHA256(CONVERT_TO({x}, 'UTF8')), 'hex'), 16) {BYTES})"

    def part(self, x: str, part: str) -> str:
        extracted = f"EXTRACT({part} FROM {x})"
        return f"CAST({f'FLOOR({extracted})' if part == 'second' else extracted} AS BIGINT)"

    def start(self, x: str, unit: str, sql_type: Type) -> str:
        return f"CAST(DATE_TRUNC('{unit}', CAST({x} AS TIMESTAMP)) AS {self.types[sql_type]})"

    def add_interval(self, x: str, amount: int, unit: str, sql_type: Type) -> str:
        months = _MONTHS.get(unit)
        interval = f"{amount} {unit}" if months is None else f"{months * amount} month"
        return f"CAST({x} + INTERVAL '{interval}' AS {self.types[sql_type]})"

    def days(self, first: str, last: str) -> str:
        return f"CAST(CAST({last} AS DATE) - CAST({first} AS DATE) AS BIGINT)"

    def seconds(self, x: str) -> str:
        return f"(CAST(FLOOR(EXTRACT(EPOCH FROM {x})) AS BIGINT) + {SECONDS_BEFORE_1970})"

    def moment(self, x: str) -> str:
        """Add an interval, whose microseconds are computed as a double: whole seconds of this calendar are exact, being
        multiples of 2^6 microseconds below 2^59.
        """
        return f"(TIMESTAMP '0001-01-01 00:00:00' + {x} * INTERVAL '1 second')"

    def select_parameter_list(self, number: int, sql_type: Type) -> str:
        unnested = f"UNNEST(CAST(${number} AS {self.types[sql_type]}[]))"
        return f"SELECT {f'({unnested} {BYTES})' if sql_type is Type.TEXT else unnested} AS x"

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Generate the values on the server."""
        step = "i * INTERVAL '1 hour'" if kind is Type.TIMESTAMP else "i"
        moved = f"{self.constant(first, kind)} + {step}"
        return f"SELECT CAST({moved} AS {self.types[kind]}) AS x FROM GENERATE_SERIES(0, {count - 1}) AS s(i)"
