"""The PostgreSQL spelling of the relational form."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engine.lowering.relational import Kind, Wide
from sfumato.engine.spellings.spelling import (
    COMMON_TYPES,
    SECONDS_BEFORE_1970,
    CommonSpelling,
    Literals,
    anchored,
    quote,
)
from sfumato.errors import Unsupported
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
_MAX_POSITION = 1_000_000_000
"""No text is so long: a position or a count beyond it is this one, which PostgreSQL's 32 bits hold."""


def text(value: str) -> str:
    """Write a text as a literal; PostgreSQL has none with a NUL, nor a surrogate."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Unsupported(
            "engine-limits", "PostgreSQL cannot store the character U+0000 in a text", fix="leave that character out"
        )
    return quote(value)


LITERALS = Literals(TYPES, lambda value: f"({text(value)} {BYTES})")
quote_identifier = LITERALS.name


@dataclass(frozen=True)
class PostgresSpelling(CommonSpelling):
    """The PostgreSQL dialect: doubles that overflow or underflow are errors (none do within our range), and a text
    carries its collation.
    """

    letters: str | None = None
    """The collation under which LOWER and UPPER turn letters one for one; None where the server has none."""

    types = TYPES
    literals = LITERALS
    staged = " OFFSET 0"  # what ends so is not merged into what selects from it

    def convert(self, x: str, kind: Kind) -> str:
        converted = super().convert(x, kind)
        return f"({converted} {BYTES})" if kind is Type.TEXT else converted

    def round_half_away(self, x: str) -> str:
        """Round halves away from zero; PostgreSQL's own ROUND takes halves of doubles to even."""
        return f"(TRUNC({x}) + CASE WHEN ABS({x} - TRUNC({x})) >= 0.5 THEN SIGN({x}) ELSE 0 END)"

    def divide_whole(self, x: str, y: str) -> str:
        return f"({x} / {y})"

    def divide_wide(self, x: str, y: str) -> str:
        return f"DIV({x}, {y})"

    def like(self, x: str, pattern: str) -> str:
        return f"({x} LIKE {text(pattern)} ESCAPE '')"

    def matches(self, x: str, grammar: str, at_start: bool = True, at_end: bool = True) -> str:
        return f"({x} ~ {text(anchored(grammar, at_start, at_end, ('^', '$')))})"

    def group(self, x: str, pattern: str, number: int) -> str:
        return f"((REGEXP_MATCH({x}, {text(f'^(?:{pattern})$')}))[{number}] {BYTES})"

    def read(self, x: str, kind: Type) -> str:
        plain = self.trim(x, " ", start=True, end=True)
        if kind is not Type.TIMESTAMP:
            return f"CAST({plain} AS {self.types[kind]})"
        moment = f"(CAST({plain} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"
        return f"CASE WHEN {self.matches(x, ZONED)} THEN {moment} ELSE CAST({plain} AS TIMESTAMP) END"

    def lower(self, x: str) -> str:
        """Convert to lower case; İ is replaced by i before, where a server's own rule yields two letters."""
        return self._change_case("LOWER", f"REPLACE(REPLACE({x}, 'İ', 'i'), 'Σ', 'σ')")

    def upper(self, x: str) -> str:
        """Convert to upper case; ẞ becomes ß again, since not every server knows that capital."""
        return f"REPLACE({self._change_case('UPPER', x)}, 'ẞ', 'ß')"

    def _change_case(self, function: str, x: str) -> str:
        if self.letters is None:
            raise Unsupported(
                "engine-limits",
                f"{function} needs a collation that maps letters one to one, and this server has none",
                fix="use the text without this function, or ask the owner for a server with the collation C.UTF-8",
            )
        return f"({function}({x} COLLATE {self.letters}) {BYTES})"

    def trim(self, x: str, letters: str, start: bool, end: bool) -> str:
        function = "BTRIM" if start and end else "LTRIM" if start else "RTRIM"
        return f"{function}({x}, {text(letters)})"

    def slice(self, x: str, first: str, count: str) -> str:
        return f"SUBSTR({x}, {_position(first)}, {_position(count)})"

    def ordinal(self, x: str, *texts: str) -> str:
        """Count the texts up to this one, by bisection."""
        return f"CAST(WIDTH_BUCKET({x}, ARRAY[{self.literals.literal_list(texts)}]) AS BIGINT)"

    def distinct_residues(self, x: str) -> str:
        return f"BIT_COUNT(CAST(BIT_OR(CAST(1 AS BIGINT) << CAST({x} AS INTEGER)) AS BIT(64)))"

    def fingerprint(self, x: str) -> str:
        return f"CAST(CAST('x' || LEFT(MD5({x}), 15) AS BIT(60)) AS BIGINT)"

    def hash(self, x: str) -> str:
        return f"(LEFT(ENCODE(SHA256(CONVERT_TO({x}, 'UTF8')), 'hex'), 16) {BYTES})"

    def part(self, x: str, part: str) -> str:
        extracted = f"EXTRACT({part} FROM {x})"
        return f"CAST({f'FLOOR({extracted})' if part == 'second' else extracted} AS BIGINT)"

    def start(self, x: str, unit: str, kind: Type) -> str:
        return f"CAST(DATE_TRUNC('{unit}', CAST({x} AS TIMESTAMP)) AS {self.types[kind]})"

    def add_interval(self, x: str, amount: int, unit: str, kind: Type) -> str:
        months = _MONTHS.get(unit)
        interval = f"{amount} {unit}" if months is None else f"{months * amount} month"
        return f"CAST({x} + INTERVAL '{interval}' AS {self.types[kind]})"

    def days(self, first: str, last: str) -> str:
        return f"CAST(CAST({last} AS DATE) - CAST({first} AS DATE) AS BIGINT)"

    def seconds(self, x: str) -> str:
        return f"(CAST(FLOOR(EXTRACT(EPOCH FROM {x})) AS BIGINT) + {SECONDS_BEFORE_1970})"

    def moment(self, x: str) -> str:
        """Add an interval, whose microseconds are computed as a double: whole seconds of this calendar are exact, being
        multiples of 2^6 microseconds below 2^59.
        """
        return f"(TIMESTAMP '0001-01-01 00:00:00' + {x} * INTERVAL '1 second')"

    def select_parameter_list(self, number: int, kind: Type) -> str:
        unnested = f"UNNEST(CAST(${number} AS {self.types[kind]}[]))"
        return f"SELECT {f'({unnested} {BYTES})' if kind is Type.TEXT else unnested} AS x"

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Generate the values on the server."""
        step = "i * INTERVAL '1 hour'" if kind is Type.TIMESTAMP else "i"
        moved = f"{self.constant(first, kind)} + {step}"
        return f"SELECT CAST({moved} AS {self.types[kind]}) AS x FROM GENERATE_SERIES(0, {count - 1}) AS s(i)"


def _position(x: str) -> str:
    """Clamp a position or a count to PostgreSQL's 32 bits; NULL stays NULL."""
    return f"CAST(CASE WHEN {x} > {_MAX_POSITION} THEN {_MAX_POSITION} ELSE {x} END AS INTEGER)"
