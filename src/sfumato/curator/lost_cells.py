"""Name the cell rule that would read the cells a column loses, from the texts of those cells. PRIVATE.

A rule is named only if it reads most of the lost cells; which one is decided by the owner, who sees the texts anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from sfumato.errors import InvalidParameter
from sfumato.plan.values.written_forms import MONTHS, date_pattern, number_pattern
from sfumato.policy import Domain, Type
from sfumato.policy.cell_rules import THOUSANDS, CellRules
from sfumato.policy.date_formats import MAX_FORMAT_LENGTH, parse_format
from sfumato.policy.letters import lower
from sfumato.policy.toml_writing import toml_value

USUAL_NULLS = ("NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "\\N", "?", "-", "--", ".", "")
"""Texts that mostly stand for a missing cell."""
_TRUTHS = (("Y", "N"), ("Yes", "No"), ("J", "N"), ("Ja", "Nein"), ("O", "N"), ("Oui", "Non"), ("T", "F"), ("S", "N"))
_MOST = 0.5
"""The share of lost cells that a named rule reads."""
_WORDS = {
    **{month.lower(): "%B" for month in MONTHS},
    **{month[:3].lower(): "%b" for month in MONTHS if len(month) > 3},
    **dict.fromkeys(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), "%a"),
    **{f"{day}day": "%A" for day in ("mon", "tues", "wednes", "thurs", "fri", "satur", "sun")},
    "am": "%p",
    "pm": "%p",
}
_TOKENS = re.compile(r"[A-Za-z]+|[0-9]+|[^A-Za-z0-9]")
_NOT_CURRENCY = re.compile(r"[0-9.,'’_eE+\-\s]+")


def name_rule(domain: Domain, lost: Mapping[str, int], declared: CellRules) -> str:
    """Return the keys to add to a column, as a policy writes them, so that most of its lost cells are read; "" if none.

    ``lost`` counts the texts of the cells that the column reads as NULL, and those of ``USUAL_NULLS``.
    """
    listed = {*map(str, domain.values or ()), *(declared.nulls or ())}
    nulls = [word for word in USUAL_NULLS if word not in listed and any(text.strip(" ") == word for text in lost)]
    others = {text: count for text, count in lost.items() if text.strip(" ") not in USUAL_NULLS}
    keys = [f"nulls = {toml_value((*(declared.nulls or ()), *nulls))}"] if nulls else []
    rules = _best(_candidates(domain, others), others) if others and not _has_form(declared) else None
    keys += [f"{key} = {toml_value(value)}" for key, value in rules.keys.items()] if rules else []
    return ", ".join(keys)


def _has_form(rules: CellRules) -> bool:
    """Return whether rules beside ``nulls`` are declared: the owner chose the form of the cells."""
    return bool(rules.keys.keys() - {"nulls"})


def _best(candidates: Iterable[tuple[CellRules, Callable[[str], bool]]], lost: Mapping[str, int]) -> CellRules | None:
    """Return the rules that read most cells, the first of several; None if none of them reads half."""
    read = [(sum(count for text, count in lost.items() if fits(text)), rules) for rules, fits in candidates]
    count, rules = max(read, key=lambda pair: pair[0], default=(0, None))
    return rules if count > _MOST * sum(lost.values()) else None


def _candidates(domain: Domain, lost: Mapping[str, int]) -> Iterator[tuple[CellRules, Callable[[str], bool]]]:
    if domain.type.temporal:
        for text in dict.fromkeys(each for cell in lost for each in _formats(cell)):
            pattern = re.compile(date_pattern(parse_format(text)))
            yield CellRules(format=(text,)), lambda cell, pattern=pattern: pattern.fullmatch(cell) is not None  # type: ignore[misc]
    elif domain.type.numeric:
        for rules in _number_rules(lost):
            pattern = re.compile(number_pattern(rules))
            yield rules, lambda cell, pattern=pattern: pattern.fullmatch(cell) is not None  # type: ignore[misc]
    elif domain.type is Type.BOOLEAN:
        yield from map(_truth_rules, _TRUTHS)
    elif domain.values is not None:
        yield from _text_rules([str(value) for value in domain.values])


def _formats(cell: str) -> Iterator[str]:
    """Yield the formats that a cell may have: the day first, then the month, where both are numbers."""
    for order in (("%d", "%m"), ("%m", "%d")):
        text = _format(cell.strip(" "), list(order))
        if text is not None:
            yield text


def _format(cell: str, order: list[str]) -> str | None:
    """Return the format of a cell whose days and months stand in this order; None if it is no date."""
    parts, clock = [], ["%H", "%M", "%S", "%f"]
    if re.fullmatch("[0-9]{8}", cell):
        return "%Y%m%d" if order[0] == "%d" else "%d%m%Y"
    tokens = _TOKENS.findall(cell)[:MAX_FORMAT_LENGTH]
    if any(_WORDS.get(token.lower()) in ("%b", "%B") for token in tokens):
        order = ["%d"]
    for index, token in enumerate(tokens):
        in_clock = ":" in tokens[index + 1 : index + 2] or len(clock) < 4
        if token.isdigit() and len(token) == 4 and not in_clock:
            parts.append("%Y")
        elif token.isdigit():
            slots = clock if in_clock else order or ["%y"]
            parts.append(slots.pop(0) if slots else token)
        else:
            parts.append(_WORDS.get(token.lower(), token.replace("%", "%%")))
    text = "".join(parts)
    text = text.replace("%H", "%I") if "%p" in text else text
    try:
        parse_format(text)
    except InvalidParameter:
        return None
    return text


def _number_rules(lost: Mapping[str, int]) -> Iterator[CellRules]:
    signs = dict.fromkeys(sign for cell in lost for sign in _NOT_CURRENCY.split(cell) if sign)
    for currency in ("", *list(signs)[:5]):
        for decimal in ("", ","):
            for thousands in ("", *THOUSANDS):
                if thousands != (decimal or ".") and (currency or decimal or thousands):
                    try:
                        yield CellRules(decimal=decimal, thousands=thousands, currency=currency)
                    except InvalidParameter:  # a word that cannot be a currency
                        break


def _truth_rules(words: tuple[str, str]) -> tuple[CellRules, Callable[[str], bool]]:
    spellings = [tuple(dict.fromkeys((word, word.upper(), word.lower()))) for word in words]
    return CellRules(
        true=spellings[0], false=spellings[1]
    ), lambda cell: cell.strip(" ") in {*spellings[0], *spellings[1]}


def _text_rules(values: list[str]) -> Iterator[tuple[CellRules, Callable[[str], bool]]]:
    yield CellRules(trim=True), lambda cell: cell.strip(" ") in values
    if values == [lower(value) for value in values]:
        yield CellRules(case="lower"), lambda cell: lower(cell) in values
        yield CellRules(case="lower", trim=True), lambda cell: lower(cell.strip(" ")) in values
