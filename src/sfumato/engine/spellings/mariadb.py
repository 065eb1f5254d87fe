"""The MariaDB spelling of the relational form.

It is MariaDB with the settings that ``engine.mariadb.connection`` pins: ``||`` joins texts, backslashes in literals are
letters, and the collation of every text is one that compares bytes without padding.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from sfumato.engine.lowering.relational_form import Kind, Wide
from sfumato.engine.spellings.spelling import (
    CollatedSpelling,
    ExtremesOfNull,
    Literals,
    anchored,
    like_without_escapes,
    storable_text,
)
from sfumato.plan.values.grammars import ZONED
from sfumato.policy import Type, Value
from sfumato.quick_dataclass import dataclass

TYPES: Mapping[Kind, str] = {
    Type.INTEGER: "SIGNED",
    Type.BOOLEAN: "SIGNED",
    Type.DATE: "DATE",
    Type.TIMESTAMP: "DATETIME(6)",
    Type.REAL: "DOUBLE",
    Type.TEXT: "CHAR",
    Wide.INTEGER: "DECIMAL(65,0)",
}
COLLATION = "utf8mb4_nopad_bin"
"""Texts are compared by their bytes, and a space at the end is a letter. None holds U+0000: neither cells, literals and
carried texts, nor what a function makes of them.
"""
_ENDS = r"\A", r"\z"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)\z"
_DAYS_BEFORE_YEAR_1 = 366
"""What MariaDB counts, by FROM_DAYS and TO_SECONDS, before the year 1."""
_PARTS = {
    "week": "WEEK({0}, 3)",
    "dow": "(DAYOFWEEK({0}) - 1)",
    "isodow": "(WEEKDAY({0}) + 1)",
    "doy": "DAYOFYEAR({0})",
    "microsecond": "(SECOND({0}) * 1000000 + MICROSECOND({0}))",
}
_DAYS_INTO = {
    "year": "(DAYOFYEAR({0}) - 1)",
    "quarter": "(DAYOFMONTH({0}) - 1)",
    "month": "(DAYOFMONTH({0}) - 1)",
    "week": "WEEKDAY({0})",
    "day": "0",
}
"""The days from the start of a unit to a date; a quarter's months come after its days."""
_SECONDS_INTO_DAY = {
    "hour": "HOUR({0}) * 3600",
    "minute": "HOUR({0}) * 3600 + MINUTE({0}) * 60",
    "second": "HOUR({0}) * 3600 + MINUTE({0}) * 60 + SECOND({0})",
}


def text(value: str) -> str:
    return storable_text(value, "MariaDB")


LITERALS = Literals(TYPES, text)
quote_identifier = LITERALS.name


@dataclass(frozen=True)
class MariaDBSpelling(ExtremesOfNull, CollatedSpelling):
    """The MariaDB dialect: a double that overflows is an error (none does within our range), no double is infinite, and
    truths are the numbers 1 and 0.
    """

    types = TYPES
    literals = LITERALS
    bytewise = COLLATION
    staged = " LIMIT 9223372036854775807"  # what ends so is not merged into what selects from it
    length = "CHAR_LENGTH"

    def constant(self, value: Value | None, kind: Kind) -> str:
        if isinstance(value, dt.datetime):
            return self.convert(f"'{value.isoformat(sep=' ')}'", Type.TIMESTAMP)
        return super().constant(value, kind)

    def timestamp_text(self, x: str) -> str:
        """Write a time as text: it always has six digits of a fraction before zeros are cut."""
        digits = f"CAST({self.convert(x, Type.TIMESTAMP)} AS CHAR)"
        return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {digits}))"

    def nearest_integer(self, x: str) -> str:
        return f"CAST({x} AS SIGNED)"

    def toward_zero(self, x: str) -> str:
        return f"CAST({self.truncate(x)} AS SIGNED)"

    def floor(self, x: str) -> str:
        return _keep_all_digits(f"FLOOR({x})")

    def ceiling(self, x: str) -> str:
        return _keep_all_digits(f"CEIL({x})")

    def truncate(self, x: str) -> str:
        return _keep_all_digits(f"TRUNCATE({x}, 0)")

    def round_half_away(self, x: str) -> str:
        """Round halves away from zero; MariaDB's own ROUND takes halves of doubles to even."""
        whole = f"TRUNCATE({x}, 0)"
        return _keep_all_digits(f"{whole} + CASE WHEN ABS({x} - {whole}) >= 0.5 THEN SIGN({x}) ELSE 0 END")

    def divide_integers(self, x: str, y: str) -> str:
        return f"({x} DIV {y})"

    def divide_wide_integers(self, x: str, y: str) -> str:
        """Divide exactly: DIV returns 64 bits. A quotient without a remainder has at most 61 digits."""
        return f"CAST(({x} - {x} % {y}) / {y} AS DECIMAL(65,0))"

    def like(self, x: str, pattern: str) -> str:
        return like_without_escapes(x, pattern, text)

    def matches(self, x: str, grammar: str, at_start: bool = True, at_end: bool = True) -> str:
        return f"({x} REGEXP {text(anchored(grammar, at_start, at_end, _ENDS))})"

    def group_of_whole_match(self, x: str, pattern: str, number: int) -> str:
        whole = text(anchored(pattern, True, True, _ENDS))
        return f"REGEXP_REPLACE({x}, {whole}, '\\{number}')"

    def read(self, x: str, sql_type: Type) -> str:
        """Parse a text. A moment beyond the calendar, which only a zone can lead to, is NULL or in the year 0."""
        plain = self.trim(x, " ", start=True, end=True)
        if sql_type is not Type.TIMESTAMP:
            return self.convert(plain, sql_type)
        zone, local = f"REGEXP_SUBSTR({plain}, '{_ZONE}')", f"REGEXP_REPLACE({plain}, '{_ZONE}', '')"
        minutes = (
            f"CASE WHEN {zone} = 'Z' THEN 0 ELSE CAST(SUBSTR({zone}, 2, 2) AS SIGNED) * 60 +"
            f" CASE WHEN CHAR_LENGTH({zone}) > 3 THEN CAST(RIGHT({zone}, 2) AS SIGNED) ELSE 0 END END"
        )
        ahead = f"CASE WHEN LEFT({zone}, 1) = '-' THEN -1 ELSE 1 END * {minutes}"
        moment = f"CAST({local} AS DATETIME(6)) - INTERVAL ({ahead}) MINUTE"
        return f"CASE WHEN {self.matches(x, ZONED)} THEN {moment} ELSE CAST({plain} AS DATETIME(6)) END"

    def lower(self, x: str) -> str:
        """Convert to lower case; İ is replaced by i before, where a server's own rule yields another letter."""
        return self.change_case("LOWER", f"REPLACE({x}, 'İ', 'i')")

    def trim(self, x: str, characters: str, start: bool, end: bool) -> str:
        if len(characters) == 1:
            side = "BOTH" if start and end else "LEADING" if start else "TRAILING"
            return f"TRIM({side} {text(characters)} FROM {x})"
        trimmed = "".join(rf"\x{{{ord(letter):x}}}" for letter in characters)
        ends = [rf"\A[{trimmed}]+"] * start + [rf"[{trimmed}]+\z"] * end
        return f"REGEXP_REPLACE({x}, '{'|'.join(ends)}', '')" if characters else x

    def ordinal(self, x: str, *texts: str) -> str:
        return f"NULLIF(FIELD({x}, {self.literals.literal_list(texts)}), 0)"

    def count_distinct_residues(self, x: str) -> str:
        return f"CAST(BIT_COUNT(BIT_OR(1 << {x})) AS SIGNED)"

    def number_set(self, x: str) -> str:
        return f"CAST(BIT_OR(1 << {x}) AS SIGNED)"

    def members_below(self, number_set: str, x: str) -> str:
        return f"CAST(BIT_COUNT({number_set} & ((1 << {x}) - 1)) AS SIGNED)"

    def fingerprint(self, x: str) -> str:
        return f"CAST(CONV(LEFT(MD5({x}), 15), 16, 10) AS SIGNED)"

    def hash(self, x: str) -> str:
        return f"LEFT(SHA2({x}, 256), 16)"

    def part(self, x: str, part: str) -> str:
        return f"CAST({_PARTS.get(part, part.upper() + '({0})').format(x)} AS SIGNED)"

    def start(self, x: str, unit: str, sql_type: Type) -> str:
        if unit == "millisecond":
            return f"({x} - INTERVAL (MICROSECOND({x}) % 1000) MICROSECOND)"
        day = f"CAST({x} AS DATE)"
        if unit in _SECONDS_INTO_DAY:
            moment = f"CAST({day} AS DATETIME(6)) + INTERVAL ({_SECONDS_INTO_DAY[unit].format(x)}) SECOND"
            return self.convert(moment, sql_type)
        start = f"({day} - INTERVAL {_DAYS_INTO[unit].format(x)} DAY)"
        if unit == "quarter":
            start = f"({start} - INTERVAL ((MONTH({x}) - 1) % 3) MONTH)"
        return self.convert(start, sql_type)

    def add_interval(self, x: str, amount: int, unit: str, sql_type: Type) -> str:
        return self.convert(f"({x} + INTERVAL ({amount}) {unit.upper()})", sql_type)

    def days(self, first: str, last: str) -> str:
        return f"CAST(DATEDIFF({last}, {first}) AS SIGNED)"

    def seconds(self, x: str) -> str:
        return f"CAST(TO_SECONDS({x}) - {_DAYS_BEFORE_YEAR_1 * 86_400} AS SIGNED)"

    def moment(self, x: str) -> str:
        day = f"FROM_DAYS({x} DIV 86400 + {_DAYS_BEFORE_YEAR_1})"
        return f"(CAST({day} AS DATETIME(6)) + INTERVAL ({x} % 86400) SECOND)"

    def sort_key(self, x: str, descending: bool, nulls_first: bool) -> str:
        return f"({x} IS NULL){' DESC' if nulls_first else ''}, {x}{' DESC' if descending else ''}"

    def shifted(self, function: str, x: str, offset: int, default: str | None, over: str) -> str:
        """Write LEAD or LAG, whose default is written beside: there is a row where a constant can be taken from it."""
        value = f"{function}({x}, {offset}){over}"
        if default is None:
            return value
        return f"CASE WHEN {function}(1, {offset}){over} IS NULL THEN {default} ELSE {value} END"

    def select_parameter_list(self, number: int, _: Type) -> str:
        raise AssertionError(number)  # declared values are listed in this process

    def span(self, first: Value | None, count: int, kind: Kind) -> str:
        """Generate the numbers on the server."""
        recursion = f"SELECT 0 AS i UNION ALL SELECT i + 1 FROM s WHERE i < {count - 1}"
        numbers = f"WITH RECURSIVE s AS ({recursion}) SELECT i FROM s"
        return f"SELECT {self.constant(first, kind)} + i AS x FROM ({numbers}) AS q"


def _keep_all_digits(x: str) -> str:
    """Make a rounded double one of any size: what is known to be whole is otherwise cut at 17 digits where a stage
    keeps it.
    """
    return f"CAST({x} AS DOUBLE)"
