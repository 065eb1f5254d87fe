"""Rewrite the texts of cells by the rules of their column, so that grammars read them: one text by itself, and total.

A rule turns a text into the text that a grammar reads, or into NULL where it does not fit; no rule converts a value, so
whether a day exists, and what a number means, is decided where every cell is read. The same scalars are written for
every engine. Parts of a text are taken before it is known to match, so each operation here is total on every text.
"""

from __future__ import annotations

from collections.abc import Iterable

from sfumato.engine.lowering.relational import Constant, Scalar, ScalarFunction, apply, integer_constant
from sfumato.engine.lowering.row_lowering import RowLowering, missing
from sfumato.plan.values.grammars import GRAMMARS
from sfumato.plan.values.written_forms import (
    MAX_DATE_LETTERS,
    MONTHS,
    SPACES,
    any_case,
    date_pattern,
    number_pattern,
    read_directives,
)
from sfumato.policy import Type
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.date_formats import FormatPart, parse_format

_PIVOT = "(69|[7-9][0-9])"
"""The two digits of years in the 1900s; those of the 2000s are 00 to 68."""
_AFTERNOON = "[Pp][Mm]"


def rewrites(rules: CellRules, kind: Type) -> bool:
    """Return whether rules rewrite the texts of a column of this type; ``nulls`` alone rewrite none."""
    if kind.temporal:
        return bool(rules.format)
    if kind.numeric:
        return bool(rules.decimal or rules.thousands or rules.currency)
    return bool(rules.true or rules.false) if kind is Type.BOOLEAN else bool(rules.trim or rules.case or rules.map)


def rewritten(rows: RowLowering, text: Scalar, rules: CellRules, kind: Type) -> Scalar:
    """Rewrite a text of at most ``LONGEST`` bytes as the grammar of its type reads it; NULL where no rule fits."""
    if kind.temporal:
        return _dates(rows, text, rules)
    if kind.numeric:
        return _number(text, rules)
    return _truth(text, rules) if kind is Type.BOOLEAN else _listed_text(rows, text, rules)


def is_listed(text: Scalar, words: Iterable[str]) -> Scalar:
    """Test whether a text is one of these words, apart from the spaces around it."""
    trimmed = apply(ScalarFunction.TRIM, text, detail=(" ", True, True))
    return apply(ScalarFunction.IN, trimmed, *map(_text, words))


def _text(value: str) -> Constant:
    return Constant(value, Type.TEXT)


def _matches(text: Scalar, pattern: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, text, detail=(pattern,))


# Dates and times


def _dates(rows: RowLowering, text: Scalar, rules: CellRules) -> Scalar:
    """Write a date or time as ISO does, by the first format under which its day exists."""
    is_short = apply(ScalarFunction.AT_MOST, apply(ScalarFunction.LENGTH, text), integer_constant(MAX_DATE_LETTERS))
    short = rows.shared(apply(ScalarFunction.CASE, is_short, text, missing(Type.TEXT)))
    candidates = [_iso(rows, short, parse_format(each)) for each in rules.format]
    if len(candidates) == 1:
        return candidates[0]
    shared = [rows.shared(candidate) for candidate in candidates]
    pairs = [scalar for each in shared for scalar in (_matches(each, GRAMMARS[Type.TIMESTAMP]), each)]
    return apply(ScalarFunction.CASE, *pairs, missing(Type.TEXT))


def _iso(rows: RowLowering, text: Scalar, parts: tuple[FormatPart, ...]) -> Scalar:
    pattern, directives = date_pattern(parts), read_directives(parts)
    groups = {
        directive: rows.shared(apply(ScalarFunction.GROUP, text, detail=(pattern, number)))
        for number, directive in enumerate(directives, 1)
    }
    pieces = [_year(groups), _text("-"), _month(groups), _text("-"), _padded(groups["d"])]
    if "H" in groups or "I" in groups:
        pieces += [_text(" "), _hour(rows, groups), _text(":"), _padded(groups["M"]) if "M" in groups else _text("00")]
        pieces += [_text(":"), _padded(groups["S"])] if "S" in groups else []
        pieces += [_text("."), groups["f"]] if "f" in groups else []
        pieces += [groups["z"]] if "z" in groups else []
    iso = apply(ScalarFunction.JOIN, *pieces)
    return apply(ScalarFunction.CASE, _matches(text, pattern), iso, missing(Type.TEXT))


def _padded(digits: Scalar) -> Scalar:
    """Write a number of one digit with two."""
    two_digits = apply(ScalarFunction.JOIN, _text("0"), digits)
    is_single = apply(ScalarFunction.EQUAL, apply(ScalarFunction.LENGTH, digits), integer_constant(1))
    return apply(ScalarFunction.CASE, is_single, two_digits, digits)


def _year(groups: dict[str, Scalar]) -> Scalar:
    if "Y" in groups:
        return groups["Y"]
    century = apply(ScalarFunction.CASE, _matches(groups["y"], _PIVOT), _text("19"), _text("20"))
    return apply(ScalarFunction.JOIN, century, groups["y"])


def _month(groups: dict[str, Scalar]) -> Scalar:
    if "m" in groups:
        return _padded(groups["m"])
    name = groups.get("b") or groups["B"]
    pairs = [
        scalar
        for number, month in enumerate(MONTHS, 1)
        for scalar in (_matches(name, f"{any_case(month[:3])}[A-Za-z]*"), _text(f"{number:02}"))
    ]
    return apply(ScalarFunction.CASE, *pairs, missing(Type.TEXT))


def _hour(rows: RowLowering, groups: dict[str, Scalar]) -> Scalar:
    """Write an hour with two digits, from 00 to 23: 12 AM is the first hour of a day, 12 PM the first after noon."""
    if "H" in groups:
        return _padded(groups["H"])
    hour = rows.shared(_padded(groups["I"]))
    tests = [apply(ScalarFunction.EQUAL, hour, _text(f"{number:02}")) for number in range(1, 13)]
    afternoon = [scalar for number, test in enumerate(tests, 1) for scalar in (test, _text(f"{number % 12 + 12}"))]
    return apply(
        ScalarFunction.CASE,
        *(_matches(groups["p"], _AFTERNOON), apply(ScalarFunction.CASE, *afternoon, missing(Type.TEXT))),
        *(tests[-1], _text("00")),
        hour,
    )


# Numbers, truths and listed texts


def _number(text: Scalar, rules: CellRules) -> Scalar:
    """Write a number with a decimal point, without its currency and separators."""
    digits = text
    removed = (rules.currency, *SPACES, "" if rules.thousands == " " else rules.thousands)
    for part in filter(None, removed):
        digits = apply(ScalarFunction.REPLACE, digits, _text(part), _text(""))
    if rules.decimal == ",":
        digits = apply(ScalarFunction.REPLACE, digits, _text(","), _text("."))
    return apply(ScalarFunction.CASE, _matches(text, number_pattern(rules)), digits, missing(Type.TEXT))


def _truth(text: Scalar, rules: CellRules) -> Scalar:
    words = ((rules.true, "true"), (rules.false, "false"))
    pairs = [scalar for entries, truth in words if entries for scalar in (is_listed(text, entries), _text(truth))]
    return apply(ScalarFunction.CASE, *pairs, text)


def _listed_text(rows: RowLowering, text: Scalar, rules: CellRules) -> Scalar:
    """Trim a text, turn its letters and replace it, in this order; a target of ``map`` stays."""
    trimmed = rows.shared(apply(ScalarFunction.TRIM, text, detail=(" ", True, True))) if rules.trim else text
    folded = trimmed
    if rules.case:
        change_case = ScalarFunction.LOWER if rules.case == "lower" else ScalarFunction.UPPER
        folded = rows.shared(apply(change_case, trimmed))
    sources: dict[str, list[str]] = {}
    for source, target in rules.map:
        sources.setdefault(target, []).append(source)
    pairs = [
        scalar
        for target, texts in sources.items()
        for scalar in (apply(ScalarFunction.IN, folded, *map(_text, texts)), _text(target))
    ]
    turned = [target for target in sources if rules.fold(target) != target]
    kept = [apply(ScalarFunction.IN, trimmed, *map(_text, turned)), trimmed] if turned else []
    return apply(ScalarFunction.CASE, *kept, *pairs, folded) if pairs else folded
