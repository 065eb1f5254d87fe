"""The Spark spelling of the relational form.

It is Spark with ANSI on, in UTC, with the settings that ``engine.spark.sessions`` pins: a sum of 64-bit numbers or a
cast beyond its type would fail, so sums are formed in DECIMAL(38, 0) and casts are of what surely fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from sfumato.engine.lowering.relational_form import Kind, Wide
from sfumato.engine.spellings.spelling import (
    COMMON_TYPES,
    SECONDS_BEFORE_1970,
    CommonSpelling,
    Literals,
    anchored,
    like_without_escapes,
)
from sfumato.plan.values import grammars
from sfumato.policy import Type, Value

TYPES: Mapping[Kind, str] = {
    **COMMON_TYPES,
    Type.REAL: "DOUBLE",
    Type.TEXT: "STRING",
    Type.TIMESTAMP: "TIMESTAMP_NTZ",
    Wide.INTEGER: "DECIMAL(38,0)",
}
_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024"})
"""In a text a backslash begins an escape; and ``${…}`` stands for a setting, wherever in a statement it is written."""


def _text(text: str) -> str:
    return "'" + text.translate(_ESCAPED) + "'"


LITERALS = Literals(TYPES, _text, identifier_quote="`")
literal, real, literal_list, quote_identifier = LITERALS.literal, LITERALS.real, LITERALS.literal_list, LITERALS.name


__all__ = ["TYPES", "SparkSpelling"]

_WHOLE_FROM = "CAST('4503599627370496.0' AS DOUBLE)"
"""2^52: every double from there on is whole; FLOOR and CEIL give 64-bit numbers here and fail beyond them."""
_PARTS = {
    "dow": "(dayofweek({}) - 1)",
    "isodow": "(weekday({}) + 1)",
    "doy": "dayofyear({})",
    "week": "weekofyear({})",
    "microsecond": "(extract(SECOND FROM {}) * 1000000)",
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_STEPS: Mapping[Kind, str] = {
    Type.DATE: "date_add({}, CAST(i AS INT))",
    Type.TIMESTAMP: "({} + make_dt_interval(0, CAST(i AS INT)))",
}
_MAX_POSITION = 2**31 - 1
"""Places in a text are 32-bit numbers here."""
_TIMES = "CAST({} AS DECIMAL(38,0))"
_LAST_CASED = 0x1F000
"""No letter from here on has a small or a capital form."""


_ENDS = r"\A", r"\z"


class SparkSpelling(CommonSpelling):
    """The Spark dialect with these settings: doubles become infinite, and division by 0, a cast that does not fit and a
    sum that leaves its type fail. A projection is not merged into one that uses a column of it twice, unless that is
    cheap.
    """

    types = TYPES
    literals = LITERALS

    def nearest_integer(self, x: str) -> str:
        return f"CAST(rint({x}) AS BIGINT)"

    def toward_zero(self, x: str) -> str:
        return f"CAST({x} AS BIGINT)"

    def floor(self, x: str) -> str:
        return self._keep_large_doubles(x, f"FLOOR({x})")

    def ceiling(self, x: str) -> str:
        return self._keep_large_doubles(x, f"CEIL({x})")

    def truncate(self, x: str) -> str:
        return self._keep_large_doubles(x, f"CAST({x} AS BIGINT)")

    def _keep_large_doubles(self, x: str, rounded: str) -> str:
        return f"CASE WHEN ABS({x}) < {_WHOLE_FROM} THEN CAST({rounded} AS DOUBLE) ELSE {x} END"

    def round_half_away(self, x: str) -> str:
        """Round halves away from zero: ROUND goes by the shortest decimal of a double, which ends in .5 only where the
        double itself does.
        """
        return f"ROUND({x}, 0)"

    def divide_integers(self, x: str, y: str) -> str:
        return f"({x} DIV {y})"

    def divide_wide_integers(self, x: str, y: str) -> str:
        """Divide exactly: DIV of decimals returns 64 bits, and more is lost. A quotient without a remainder is exact up
        to 32 digits.
        """
        return f"CAST(({x} - {x} % {y}) / {y} AS DECIMAL(38,0))"

    def like(self, x: str, pattern: str) -> str:
        return like_without_escapes(x, pattern, literal)

    def matches(self, x: str, grammar: str, at_start: bool = True, at_end: bool = True) -> str:
        return f"({x} RLIKE {literal(anchored(grammar, at_start, at_end, _ENDS))})"

    def group_of_whole_match(self, x: str, pattern: str, number: int) -> str:
        whole = literal(rf"\A(?:{pattern})\z")
        return f"regexp_extract({x}, {whole}, {number})"

    def read(self, x: str, sql_type: Type) -> str:
        """Parse a text. A time without a zone is one of UTC. After a clock without seconds no zone is read, so they are
        added.
        """
        if sql_type is not Type.TIMESTAMP:
            return f"TRY_CAST({x} AS {self.types[sql_type]})"
        clock = literal("([ T][0-9]{2}:[0-9]{2})([Z+-])")
        return f"CAST(TRY_CAST(regexp_replace({x}, {clock}, {literal('$1:00$2')}) AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"

    def lower(self, x: str) -> str:
        return f"translate({x}, {_translate_arguments(grammars.lower)})"

    def upper(self, x: str) -> str:
        return f"translate({x}, {_translate_arguments(grammars.upper)})"

    def trim(self, x: str, characters: str, start: bool, end: bool) -> str:
        return f"TRIM({'BOTH' if start and end else 'LEADING' if start else 'TRAILING'} {literal(characters)} FROM {x})"

    def slice(self, x: str, first: str, count: str) -> str:
        return f"SUBSTRING({x}, {_clamped_position(first)}, {_clamped_position(count)})"

    def ordinal(self, x: str, *texts: str) -> str:
        return f"array_position(array({literal_list(texts)}), {x})"

    def count_distinct_residues(self, x: str) -> str:
        return f"CAST(bit_count(bit_or(shiftleft(CAST(1 AS BIGINT), CAST({x} AS INT)))) AS BIGINT)"

    def number_set(self, x: str) -> str:
        return f"bit_or(shiftleft(CAST(1 AS BIGINT), CAST({x} AS INT)))"

    def members_below(self, number_set: str, x: str) -> str:
        lower = f"(shiftleft(CAST(1 AS BIGINT), CAST({x} AS INT)) - 1)"
        return f"CAST(bit_count({number_set} & {lower}) AS BIGINT)"

    def fingerprint(self, x: str) -> str:
        return f"CAST(conv(left(md5(CAST({x} AS BINARY)), 15), 16, 10) AS BIGINT)"

    def hash(self, x: str) -> str:
        return f"left(sha2(CAST({x} AS BINARY), 256), 16)"

    def part(self, x: str, part: str) -> str:
        return f"CAST({_PARTS.get(part, part + '({})').format(x)} AS BIGINT)"

    def add_interval(self, x: str, amount: int, unit: str, sql_type: Type) -> str:
        """Add an interval: months as months, shorter units as seconds."""
        if unit in _MONTHS:
            return f"CAST(({x} + make_ym_interval(0, {amount * _MONTHS[unit]})) AS {self.types[sql_type]})"
        if sql_type is Type.DATE:
            return f"date_add({x}, {amount * _SECONDS[unit] // _SECONDS['day']})"
        return f"({x} + make_dt_interval(0, 0, 0, CAST({amount * _SECONDS[unit]} AS DECIMAL(18,6))))"

    def days(self, first: str, last: str) -> str:
        return f"CAST(datediff(CAST({last} AS DATE), CAST({first} AS DATE)) AS BIGINT)"

    def seconds(self, x: str) -> str:
        return f"(unix_seconds(CAST({x} AS TIMESTAMP_LTZ)) + {SECONDS_BEFORE_1970})"

    def moment(self, x: str) -> str:
        return f"CAST(timestamp_seconds({x} - {SECONDS_BEFORE_1970}) AS TIMESTAMP_NTZ)"

    def sum_as_wide_integer(self, x: str, over: str = "") -> str:
        return f"SUM(CAST({x} AS DECIMAL(38,0))){over}"

    def narrow_sum(self, x: str, over: str = "") -> str:
        """Add up 21, 21 and 22 bits of each number by themselves, which takes a fraction of the time of decimals.

        x = 2^42 · (x >> 42) + 2^21 · (x >> 21 & 2^21 − 1) + (x & 2^21 − 1), where >> rounds down. Each part is within
        ±2^21, so no sum leaves 64 bits before 2^42 rows; a table has at most 2^40.
        """
        parts = f"shiftright({x}, 42)", f"shiftright({x}, 21) & 2097151L", f"{x} & 2097151L"
        high, middle, low = (f"CAST(SUM({part}){over} AS DECIMAL(38,0))" for part in parts)
        return f"({high} * {_TIMES.format(2**42)} + {middle} * {_TIMES.format(2**21)} + {low})"

    def select_parameter_list(self, number: int, sql_type: Type) -> str:
        return f"SELECT explode(CAST(:p{number} AS ARRAY<{self.types[sql_type]}>)) AS x"

    def items(self, x: str) -> str:
        return f"explode({x})"

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Generate the values in the engine."""
        moved = _STEPS.get(kind, "({} + i)").format(self.constant(first, kind))
        return f"SELECT {moved} AS x FROM (SELECT explode(sequence(0L, {count - 1}L)) AS i)"


def _clamped_position(x: str) -> str:
    return f"CAST(CASE WHEN {x} > {_MAX_POSITION} THEN {_MAX_POSITION} ELSE {x} END AS INT)"


@cache
def _translate_arguments(change_case: Callable[[str], str]) -> str:
    """Write the two arguments of translate() for all letters that change case: Spark's own tables are those of its Java
    or its ICU, map one letter to several, and depend on its neighbours. A translation is looked up letter by letter.
    """
    cased_letters = (
        letter
        for letter in map(chr, range(_LAST_CASED))
        if {letter.lower(), letter.upper(), letter.title()} != {letter}
    )
    pairs = [
        (letter, replacement)
        for letter, replacement in ((cased_letter, change_case(cased_letter)) for cased_letter in cased_letters)
        if letter != replacement
    ]
    return ", ".join(literal("".join(letters)) for letters in zip(*pairs, strict=True))
