"""Cell rules: how the stored cells of a column are written, where that is not how the grammars read them.

Rules are declared and public. Each turns one cell by itself into a clean cell or a missing one, before the column's
type, bounds and values apply, and none can fail:

- ``nulls`` lists the cells that are missing, by their text without the spaces around it; an entry that is a value of
  the column's type also matches cells that have this value, however they are written or stored. A column's own list
  replaces that of its table.
- ``format`` lists the formats of dates and times, of which the first that gives an existing
  day counts. It applies to texts and whole numbers; dates and times that are stored as such stay.
- ``true`` and ``false`` list further words for truths, compared as ``nulls`` are.
- ``decimal``, ``thousands`` and ``currency`` are how numbers are written in texts; numbers stored as such stay.
- ``trim``, ``case`` and ``map`` apply, in this order, to a text with listed values: spaces around it are removed, its
  letters are turned, and it is replaced. A cell that is already a target of ``map`` stays.
- ``possible`` is the outer range of a bounded column: a cell that is not provably inside it is missing. It is not
  clamped: a number that cannot be one says nothing, and bounds would clamp it once more. What ``bounds`` then moves
  lies inside, which is what a worst case is computed from (``plan.clipping``).

What fits no rule of its column is missing, or the column's ``other``.

Letter case as every engine has it: Unicode's simple mappings, one letter for one, wherever a letter stands.

İ becomes i and every Σ becomes σ; a letter without a single capital is left as it is, and ẞ is written ß. Texts
therefore keep their length, and a pattern can be folded apart from its text.

A format is a grammar of our own, never an engine's strptime. A cell is read as a whole; spaces around it are passed
over, and a space in a format stands for one or more. Names of months and weekdays are English, in any letter case; the
weekday is not compared with the date. Two digits of a year from 69 on belong to the 1900s, others to the 2000s.

A number may leave out its leading zeros (``5.3.2024``), unless it stands directly beside another number: ``%d%m%Y``
needs two digits of each. So every cell has at most one reading, whichever way an engine searches for it.

A format of the clock alone, such as ``%I:%M %p``, reads times of 1900-01-01, as strptime does.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from sfumato.error_facts import join_with_or, quote_parameter
from sfumato.errors import InvalidParameter
from sfumato.policy.domains import Domain, Type, Value, describe_range, parse_range, parse_value
from sfumato.privacy import codec
from sfumato.privacy.codec import constructor_repr
from sfumato.quick_dataclass import dataclass

DIRECTIVES = {
    "Y": "the year in four digits",
    "y": "the year in two digits",
    "m": "the month as a number",
    "b": "the month's short English name",
    "B": "the month's English name",
    "d": "the day of the month",
    "a": "the weekday's short English name",
    "A": "the weekday's English name",
    "H": "the hour from 0 to 23",
    "I": "the hour from 1 to 12",
    "p": "AM or PM",
    "M": "the minute",
    "S": "the second",
    "f": "one to six digits of a second",
    "z": "the offset from UTC, such as +0200, or Z",
}
"""The directives of a format, with what each reads."""
MAX_FORMATS = 10
"""The most formats of one column."""
MAX_FORMAT_LENGTH = 60
"""The most characters of a format."""
_NUMBERS = "YymdHIMSf"
_RULE = "written with the year (%Y or %y), the month (%m, %b or %B) and the day (%d), or with a time of day only"


@dataclass(frozen=True)
class FormatPart:
    """A directive of a format, or the text between two directives."""

    directive: str = ""
    literal: str = ""
    is_padded: bool = False
    """Whether a number must have its leading zeros, since another number stands directly beside it."""

    @property
    def is_number(self) -> bool:
        return bool(self.directive) and self.directive in _NUMBERS


def parse_format(text: object) -> tuple[FormatPart, ...]:
    """Split a format into its parts; refuse one that is incomplete, or under which a cell could have two readings.

    >>> [part.directive or part.literal for part in parse_format("%d.%m.%Y")]
    ['d', '.', 'm', '.', 'Y']
    """
    if not isinstance(text, str) or not 0 < len(text) <= MAX_FORMAT_LENGTH or not text.isprintable():
        rule = f'a string of 1 to {MAX_FORMAT_LENGTH} visible characters, such as "%d.%m.%Y"'
        raise InvalidParameter("format", text, rule)
    parts = _split_directives(text)
    _check_complete(text, [part.directive for part in parts if part.directive])
    _check_unambiguous(text, parts)
    beside = {index for index, pair in enumerate(pairwise(parts)) if all(part.is_number for part in pair)}
    return tuple(
        FormatPart(part.directive, part.literal, is_padded=bool({index - 1, index} & beside))
        for index, part in enumerate(parts)
    )


def has_date(text: str) -> bool:
    """Return whether a format reads a date, and not the clock alone."""
    return any(part.directive == "d" for part in parse_format(text))


def _split_directives(text: str) -> list[FormatPart]:
    parts: list[FormatPart] = []
    letters = iter(text)
    for letter in letters:
        directive = next(letters, "") if letter == "%" else ""
        if letter == "%" and directive not in (*DIRECTIVES, "%"):
            raise _unknown_directive(text, directive)
        if directive and directive != "%":
            parts.append(FormatPart(directive))
        elif parts and not parts[-1].directive:
            parts[-1] = FormatPart(literal=parts[-1].literal + letter)
        else:
            parts.append(FormatPart(literal=letter))
    return parts


def _unknown_directive(text: str, directive: str) -> InvalidParameter:
    directives = " ".join(f"%{name}" for name in DIRECTIVES)
    advice = {
        "e": "%d",
        "k": "%H",
        "l": "%I",
        "h": "%b",
        "F": "%Y-%m-%d",
        "T": "%H:%M:%S",
        "D": "%m/%d/%y",
        "R": "%H:%M",
    }
    fix = (
        f"write {advice[directive]} for %{directive}"
        if directive in advice
        else f"remove %{directive}, or write %% for a percent sign"
    )
    return InvalidParameter(
        "format",
        text,
        f"written without %{directive}: the directives are {directives}, and %% for a percent sign",
        fix=fix,
    )


def _check_complete(text: str, directives: Sequence[str]) -> None:
    """Refuse a format that does not give each part of a date once, or a clock without its larger parts."""
    repeated = next((name for name in directives if directives.count(name) > 1), None)
    if repeated is not None:
        raise InvalidParameter(
            "format",
            text,
            "written without repeated directives",
            fix=f"remove one %{repeated}",
        )
    names = set(directives)
    is_clock = bool(names & {"H", "I"}) and not names & set("YymbBdaA")
    for part, alternatives in (("year", "Yy"), ("month", "mbB"), ("day", "d")):
        written = names.intersection(alternatives)
        if len(written) != 1 and not is_clock:
            repeats = " and ".join(f"%{name}" for name in directives if name in written)
            fix = f"keep only one of {repeats}" if written else f"add the {part}: %{alternatives[0]}"
            raise InvalidParameter("format", text, _RULE, fix=fix)
    for name, needed in (("I", "p"), ("p", "I"), ("S", "M"), ("f", "S")):
        if name in names and needed not in names:
            raise InvalidParameter(
                "format",
                text,
                f"completed with %{needed}, because it has %{name}",
                fix=f"add %{needed}, or remove %{name}",
            )
    if {"H", "I"} <= names:
        raise InvalidParameter("format", text, "written with %H or with %I and %p, not with all three", fix="remove %H")
    if not names & {"H", "I"} and names & {"M", "z"}:
        raise InvalidParameter(
            "format",
            text,
            "completed with the hour, because it has minutes or a time zone",
            fix="add the hour, for example as %H:%M",
        )


def _check_unambiguous(text: str, parts: Sequence[FormatPart]) -> None:
    for part, following in pairwise(parts):
        ends_in_digits = part.is_number or part.directive == "z" or part.literal[-1:].isdigit()
        starts_with_digits = following.is_number or following.literal[:1].isdigit()
        is_open = part.directive in ("f", "z") or bool(part.literal) or bool(following.literal)
        if ends_in_digits and starts_with_digits and is_open and (part.directive or following.directive):
            rule = "written with a separator between its numbers"
            raise InvalidParameter("format", text, rule, fix="put a space, - or another separator between the numbers")


def lower(text: str) -> str:
    """Return what LOWER makes of a text.

    >>> lower("ΑΣ İ ß")
    'ασ i ß'
    """
    return "".join("i" if letter == "İ" else letter.lower() for letter in text)


def upper(text: str) -> str:
    """Return what UPPER makes of a text.

    >>> upper("straße ŉ ᾳ")
    'STRAßE ŉ ᾼ'
    """
    return "".join(map(_simple_capital, text))


def _simple_capital(character: str) -> str:
    """Return Unicode's simple capital: upper() is the full one, and title() is single where a capital exists."""
    single_letters = (capital for capital in (character.upper(), character.title()) if len(capital) == 1)
    capital = next(single_letters, character)
    return "ß" if capital == "ẞ" else capital


MAX_WORDS = 100
"""The most entries of ``nulls``, ``true`` or ``false``."""
MAX_WORD_LENGTH = 100
"""The most characters of an entry."""
MAX_MAPPED = 1_000
"""The most entries of ``map``."""
MAX_CURRENCY_LENGTH = 8
THOUSANDS = (".", ",", " ", "'", "’", "_")
"""The characters between groups of three digits; a space also stands for U+00A0 and U+202F."""
CASES: dict[str, Callable[[str], str]] = {"lower": lower, "upper": upper}
_KEY_TYPES = {
    "format": (Type.DATE, Type.TIMESTAMP),
    "true": (Type.BOOLEAN,),
    "false": (Type.BOOLEAN,),
    "decimal": (Type.INTEGER, Type.REAL),
    "thousands": (Type.INTEGER, Type.REAL),
    "currency": (Type.INTEGER, Type.REAL),
    "case": (Type.TEXT,),
    "trim": (Type.TEXT,),
    "map": (Type.TEXT,),
    "possible": (Type.INTEGER, Type.REAL, Type.DATE, Type.TIMESTAMP),
}
"""The types of columns that each rule fits; ``nulls`` fits all."""


@codec.serialisable("cell-rules")
@dataclass(frozen=True)
class CellRules:
    """The rules of one column; each field is the policy key of the same name.

    >>> CellRules(decimal=",", thousands=".").describe()
    ['numbers such as 1.234,5']
    """

    format: tuple[str, ...] = ()
    nulls: tuple[str, ...] | None = None
    """None where the column declares none: then its table's apply."""
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    decimal: str = ""
    thousands: str = ""
    currency: str = ""
    case: str = ""
    trim: bool = False
    map: tuple[tuple[str, str], ...] = ()
    possible: tuple[Value, Value] | None = None
    """The least and the largest cell that is not missing; it holds the column's bounds."""

    __repr__ = constructor_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", _parse_formats(self.format))
        object.__setattr__(self, "nulls", None if self.nulls is None else parse_words(self.nulls, "nulls"))
        for name in ("true", "false"):
            object.__setattr__(self, name, parse_words(getattr(self, name), name))
        object.__setattr__(self, "map", _parse_map(self.map))
        self._check_numbers()
        if self.case not in ("", *CASES):
            raise InvalidParameter("case", self.case, "lower or upper")
        if not isinstance(self.trim, bool):
            raise InvalidParameter("trim", self.trim, "true or false")
        self._check_disjoint()

    def _check_numbers(self) -> None:
        if self.decimal not in ("", ".", ","):
            raise InvalidParameter(
                "decimal",
                self.decimal,
                "a comma or a point",
                fix='for numbers such as 3,14 write decimal = ","; for 3.14 leave it out',
            )
        if self.thousands not in ("", *THOUSANDS):
            allowed = join_with_or([f'"{separator}"' for separator in THOUSANDS])
            raise InvalidParameter(
                "thousands", self.thousands, f"one of {allowed}", fix='for numbers such as 1,234 write thousands = ","'
            )
        if self.thousands and self.thousands == (self.decimal or "."):
            other = "," if self.thousands == "." else "."
            raise InvalidParameter(
                "thousands", self.thousands, "different from the decimal separator", fix=f'add decimal = "{other}"'
            )
        if not _is_currency(self.currency):
            rule = (
                f"a symbol or word of at most {MAX_CURRENCY_LENGTH} characters, without digits, spaces, commas, + or -"
            )
            raise InvalidParameter("currency", self.currency, rule, fix='write currency = "€"')

    def _check_disjoint(self) -> None:
        """Refuse an entry that two rules would read differently."""
        lists = {"nulls": self.nulls or (), "true": self.true, "false": self.false, "map": [key for key, _ in self.map]}
        seen: dict[str, str] = {}
        for name, words in lists.items():
            for word in words:
                if seen.setdefault(word.strip(" "), name) != name:
                    other = quote_parameter(seen[word.strip(" ")])
                    rule = f"a list that has no entry in common with {other}"
                    fix = f'remove "{word}" from {quote_parameter(name)} or from {other}'
                    raise InvalidParameter(name, word, rule, fix=fix)

    @property
    def keys(self) -> dict[str, Any]:
        """The declared keys with their values, as a policy writes them."""
        declared = {field.name: getattr(self, field.name) for field in fields(self)}
        keys = {name: value for name, value in declared.items() if value is not None and value not in ((), "", False)}
        keys |= {"nulls": ()} if self.nulls == () else {}
        keys |= {"format": self.format[0]} if len(self.format) == 1 else {}
        return {**keys, "map": dict(self.map)} if self.map else keys

    def describe(self) -> list[str]:
        """Describe the rules in words, one phrase each."""
        phrases = [f"written as {' or '.join(self.format)}"] if self.format else []
        words = (("missing", self.nulls or ()), ("true", self.true), ("false", self.false))
        phrases += [f"{name} if {_quote_all(entries)}" for name, entries in words if entries]
        if self.decimal or self.thousands or self.currency:
            number = f"1{self.thousands}234{self.decimal or '.'}5"
            phrases.append(f"numbers such as {number}{f' {self.currency}' if self.currency else ''}")
        phrases += ["surrounding spaces removed"] if self.trim else []
        phrases += [f"in {self.case} case"] if self.case else []
        phrases += [] if self.possible is None else [f"missing if outside {describe_range(self.possible)}"]
        mapped = [f"{source} read as {target}" for source, target in self.map[:3]]
        return [*phrases, *mapped, *(["…"] if len(self.map) > 3 else [])]

    def check_fit(self, domain: Domain) -> None:
        """Refuse rules that do not fit the type of a column, or lead to a value that it does not list."""
        for name, kinds in _KEY_TYPES.items():
            if getattr(self, name) and domain.type not in kinds:
                types = join_with_or([kind.value for kind in kinds])
                rule = f"left out for a column of type {domain.type.value}: it is for columns of type {types}"
                raise InvalidParameter(
                    name, getattr(self, name), rule, fix=f'remove {name}, or write type = "{kinds[0].value}"'
                )
            if getattr(self, name) and kinds == (Type.TEXT,) and domain.values is None:
                raise InvalidParameter(
                    name,
                    getattr(self, name),
                    "left out for a text column without listed values",
                    fix=f'remove {name}, or list the values of the column, such as values = ["north", "south"]',
                )
        for text in self.format if domain.type is Type.DATE else ():
            if not has_date(text):
                rule = "a format with year, month and day, because the column holds dates"
                fix = 'write type = "timestamp": times without a date then get the day 1900-01-01'
                raise InvalidParameter("format", text, rule, fix=fix)
        self._check_map_and_values_are_folded(domain)
        self._check_possible(domain)

    def _check_possible(self, domain: Domain) -> None:
        if self.possible is None:
            return
        if domain.bounds is None:
            rule = "left out for a column without bounds"
            raise InvalidParameter("possible", self.possible, rule, fix="add bounds = [low, high], or remove possible")
        (low, high), (least, largest) = domain.bounds, self.possible
        if not (least <= low and high <= largest):  # type: ignore[operator]
            rule = f"a range that contains the bounds {describe_range(domain.bounds)}"
            raise InvalidParameter("possible", self.possible, rule, fix="widen possible, or narrow bounds")

    def null_values(self, sql_type: Type) -> tuple[Value, ...]:
        """Return the entries of ``nulls`` that are values of a type, by which cells are missing however they are
        written: numbers without an exponent, and ISO dates and times.
        """
        pattern = _VALUE_PATTERNS.get(sql_type)
        entries = [word for word in self.nulls or () if pattern is not None and pattern.fullmatch(word)]
        values = [_value_or_none(sql_type, word) for word in entries]
        return tuple(dict.fromkeys(value for value in values if value is not None))

    def fold(self, text: str) -> str:
        """Return what ``trim`` and ``case`` make of a text."""
        trimmed = text.strip(" ") if self.trim else text
        return CASES[self.case](trimmed) if self.case else trimmed

    def _check_map_and_values_are_folded(self, domain: Domain) -> None:
        forms = [
            *([f"in {self.case} case"] if self.case else []),
            *(["without spaces at the ends"] if self.trim else []),
        ]
        folded_rule = f"written {' '.join(forms)}, because the cells of this column are compared in that form"
        targets = {target for _, target in self.map}
        for source, target in self.map:
            if self.fold(source) != source:
                fix = f'write "{self.fold(source)}" for "{source}"'
                raise InvalidParameter("map", source, f"a mapping from texts {folded_rule}", fix=fix)
            if target not in (domain.values or ()):
                raise InvalidParameter(
                    "map", target, "a mapping to listed values of the column", fix=f'add "{target}" to values'
                )
            if source in (domain.values or ()):
                raise InvalidParameter(
                    "map", source, "a mapping from texts that are not listed values", fix=f'remove "{source}" from map'
                )
        for value in (domain.values or ()) if self.trim or self.case else ():
            if self.fold(str(value)) != value and value not in (*targets, domain.other):
                folded = self.fold(str(value))
                fix = f'write "{folded}", or add "{folded}" = "{value}" to map'
                raise InvalidParameter("values", value, folded_rule, fix=fix)


_NUMBER = re.compile(r"[+-]?[0-9]{1,40}([.][0-9]{1,40})?")
_VALUE_PATTERNS = {
    Type.INTEGER: _NUMBER,
    Type.REAL: _NUMBER,
    Type.DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Type.TIMESTAMP: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?"),
}
"""The entries of ``nulls`` that are compared as values, by the type of the column."""


def _value_or_none(sql_type: Type, word: str) -> Value | None:
    try:
        return parse_value(sql_type, word, "nulls")
    except InvalidParameter:  # a number with decimals in a column of whole numbers, or a day that does not exist
        return None


RULE_KEYS = tuple(field.name for field in fields(CellRules))
"""The policy keys of a column that are cell rules."""


def parse_rules(declared: Mapping[str, Any], domain: Domain) -> CellRules:
    """Parse the rules of a column as a policy declares them."""
    given = {name: value for name, value in declared.items() if name in RULE_KEYS}
    if isinstance(given.get("format"), str):
        given["format"] = (given["format"],)
    for name, value in given.items():
        if value in ((), [], "", {}) and name != "nulls":
            raise InvalidParameter(name, value, "non-empty", fix=f"remove {name}, or give it a value")
    if given.get("possible") is not None and domain.type in _KEY_TYPES["possible"]:
        given["possible"] = parse_range(domain.type, given["possible"], "possible")
    rules = CellRules(**given)
    rules.check_fit(domain)
    return rules


def effective_rules(
    rules: Mapping[str, CellRules], nulls: tuple[str, ...], columns: Iterable[str], exempt: Collection[str]
) -> dict[str, CellRules]:
    """Return the rules of each column that has any, with its table's ``nulls`` unless it has its own or is exempt."""
    if not rules and not nulls:
        return {}
    resolved, exempt_names = {}, {name.lower() for name in exempt}
    for name in columns:
        column_rules = rules.get(name, CellRules())
        inherits = column_rules.nulls is None and name.lower() not in exempt_names
        effective = replace(column_rules, nulls=(nulls if inherits else column_rules.nulls) or None)
        if effective != CellRules():
            resolved[name] = effective
    return resolved


def parse_words(declared: object, name: str) -> tuple[str, ...]:
    """Parse a list of cells, which are compared without the spaces around them; numbers and dates become texts."""
    if not isinstance(declared, (list, tuple)) or len(declared) > MAX_WORDS:
        example = '["NA", ""]' if name == "nulls" else '["Y"]' if name == "true" else '["N"]'
        raise InvalidParameter(name, declared, f"a list of at most {MAX_WORDS} strings, such as {example}")
    words = tuple(map(_cell_text, declared))
    for word in words:
        if not isinstance(word, str) or len(word) > MAX_WORD_LENGTH or not _is_storable(word):
            rule = f"a list of strings of at most {MAX_WORD_LENGTH} characters"
            raise InvalidParameter(name, word, rule, fix='write each entry as a short text in quotes, such as "NA"')
        if word != word.strip(" "):
            raise InvalidParameter(
                name,
                word,
                "written without spaces at the ends, because cells are compared without them",
                fix=f'write "{word.strip(" ")}"',
            )
    if len(set(words)) != len(words):
        raise InvalidParameter(name, declared, "a list without repeated entries")
    return words


def _cell_text(value: Any) -> Any:
    is_number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    return str(value) if is_number or isinstance(value, dt.date) else value


def _parse_formats(declared: object) -> tuple[str, ...]:
    if not isinstance(declared, (list, tuple)) or len(declared) > MAX_FORMATS:
        rule = f"a format such as %d.%m.%Y, or a list of at most {MAX_FORMATS} formats"
        raise InvalidParameter("format", declared, rule, fix='for example, write format = "%d.%m.%Y"')
    for text in declared:
        parse_format(text)
    if len(set(declared)) != len(declared):
        raise InvalidParameter("format", declared, "a list without repeated formats")
    return tuple(declared)


def _parse_map(declared: object) -> tuple[tuple[str, str], ...]:
    pairs = declared.items() if isinstance(declared, Mapping) else declared
    rule = f'a mapping of at most {MAX_MAPPED:,} texts, such as {{ "F" = "female" }}'
    try:
        parsed = tuple((source, target) for source, target in pairs)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InvalidParameter("map", declared, rule) from None
    texts = [text for pair in parsed for text in pair]
    if len(parsed) > MAX_MAPPED or len({source for source, _ in parsed}) != len(parsed):
        raise InvalidParameter("map", declared, rule)
    for text in texts:
        if not isinstance(text, str) or len(text) > MAX_WORD_LENGTH or not _is_storable(text):
            raise InvalidParameter("map", text, f"{rule}, each of at most {MAX_WORD_LENGTH} characters")
    return parsed


def _is_currency(text: object) -> bool:
    """Return whether this is no currency at all, or one that has a character which no number has."""
    if not isinstance(text, str) or len(text) > MAX_CURRENCY_LENGTH or not text.isprintable():
        return False
    has_number_letters = any(letter.isdigit() or letter.isspace() or letter in "+-,'’_" for letter in text)
    return not text or (not has_number_letters and bool(set(text) - set("eE.")))


def _is_storable(text: str) -> bool:
    """Return whether engines can store a text: no NUL, no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _quote_all(texts: tuple[str, ...]) -> str:
    quoted_texts = ", ".join(f'"{text}"' for text in texts[:5])
    return quoted_texts + (", …" if len(texts) > 5 else "")
