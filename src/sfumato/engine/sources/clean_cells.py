"""Convert the cells of a server's columns to what the policy declares: each rule works on one cell by itself, and none
can raise.

Columns are looked up in their source by one rule, whichever engine holds it.

Rewrite the texts of cells by the rules of their column, so that grammars read them: one text by itself, and total.

A rule turns a text into the text that a grammar reads, or into NULL where it does not fit; no rule converts a value, so
whether a day exists, and what a number means, is decided where every cell is read. The same scalars are written for
every engine. Parts of a text are taken before it is known to match, so each operation here is total on every text.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from typing import TypeVar

from sfumato.engine.lowering.applications import not_null_test, null_constant, real_constant
from sfumato.engine.lowering.date_lowering import iso_text
from sfumato.engine.lowering.relational_form import Constant, Scalar, ScalarFunction, apply, integer_constant
from sfumato.engine.lowering.row_lowering import RowLowering
from sfumato.errors import InvalidPolicy
from sfumato.plan.values.grammars import (
    BEYOND,
    FALSE,
    GRAMMARS,
    SPACES,
    TRUE,
    ZERO,
    number_pattern,
)
from sfumato.policy import Domain, Type
from sfumato.policy.cell_rules import CellRules
from sfumato.policy.domains import SMALLEST_REAL
from sfumato.privacy.numbers import decimal_float_above, decimal_float_below

_CALENDAR = {Type.DATE: (dt.date.min, dt.date.max), Type.TIMESTAMP: (dt.datetime.min, dt.datetime.max)}


class Stored(Enum):
    """The kind of cells that a column has on a server."""

    INTEGER = "whole numbers of at most 64 bits"
    NUMBER = "decimal numbers of any size"
    REAL = "doubles"
    BOOLEAN = "truths"
    DATE = "dates"
    TIMESTAMP = "times"
    TEXT = "texts"
    BYTES = "bytes, which tell units apart and are nothing else"
    LIST = "lists of any of these"
    OTHER = "values without a text of their own"


def largest_exact_integer(single: bool) -> Fraction:
    """Return the bound below which a float of 32 or 64 bits represents one whole number alone."""
    return Fraction(2**24 if single else 2**53)


def inner_bounds(low: Fraction, high: Fraction) -> tuple[float, float]:
    """Return the least and the largest double inside exact bounds; the nearest double if none is inside."""
    least, largest = decimal_float_above(low), decimal_float_below(high)
    return (least, largest) if least <= largest else (float(low), float(low))


def _clamp(x: Scalar, domain: Domain) -> Scalar:
    """Clamp a value to its bounds; LEAST and GREATEST skip NULL, so NULL is handled separately."""
    assert domain.bounds is not None
    low, high = (Constant(end, domain.type) for end in domain.bounds)
    clamped = apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, x, low), high)
    return apply(ScalarFunction.CASE, not_null_test(x), clamped, null_constant(domain.type))


def ends_of(domain: Domain) -> tuple[Scalar, Scalar]:
    """Return what infinite values become: the bounds, or NULL."""
    if domain.bounds is None:
        return null_constant(domain.type), null_constant(domain.type)
    if domain.type is not Type.REAL:
        low, high = (Constant(end, domain.type) for end in domain.bounds)
        return low, high
    least_inside, greatest_inside = inner_bounds(*domain.bounds)  # type: ignore[arg-type]
    return real_constant(least_inside), real_constant(greatest_inside)


def from_int64(x: Scalar, domain: Domain) -> Scalar:
    """Convert a 64-bit whole number to its domain; a real approximates it."""
    if domain.type is Type.INTEGER:
        return x if domain.bounds is None else _clamp(x, domain)
    number = apply(ScalarFunction.CONVERT, x, detail=(Type.REAL,))
    if domain.bounds is None:
        return number
    low, high = ends_of(domain)
    clamped = apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, number, low), high)
    return apply(ScalarFunction.CASE, not_null_test(x), clamped, null_constant(Type.REAL))


def limited_real(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    """Clamp a double to its bounds, or without bounds limit it to what a real may be."""
    if domain.bounds is None:
        return rows.limit_real(x)
    low, high = ends_of(domain)
    pairs = [
        *(apply(ScalarFunction.LESS, x, low), low),
        *(apply(ScalarFunction.GREATER, x, high), high),
        *(not_null_test(x), x),
    ]
    if domain.bounds[0] <= 0 <= domain.bounds[1]:  # type: ignore[operator]
        is_small = apply(ScalarFunction.LESS, apply(ScalarFunction.ABS, x), real_constant(SMALLEST_REAL))
        pairs = [is_small, real_constant(0), *pairs]
    return apply(ScalarFunction.CASE, *pairs, null_constant(Type.REAL))


def integer_scalar(rows: RowLowering, x: Scalar, is_whole: Scalar, nearest: Scalar, domain: Domain) -> Scalar:
    """Convert a number to the whole number that it is; one beyond 64 bits is beyond every bound."""
    shared_nearest = rows.compute_once(nearest)
    if domain.bounds is None:
        return apply(ScalarFunction.CASE, is_whole, shared_nearest, null_constant(Type.INTEGER))
    low, high = ends_of(domain)
    clamped = apply(ScalarFunction.LEAST, apply(ScalarFunction.GREATEST, shared_nearest, low), high)
    is_negative, is_positive = (
        apply(comparison, x, real_constant(0)) for comparison in (ScalarFunction.LESS, ScalarFunction.GREATER)
    )
    return apply(
        ScalarFunction.CASE,
        *(apply(ScalarFunction.NOT, is_whole), null_constant(Type.INTEGER)),
        *(not_null_test(shared_nearest), clamped),
        *(is_negative, low),
        *(is_positive, high),
        null_constant(Type.INTEGER),
    )


def truth_scalar(x: Scalar, stored: Stored) -> Scalar:
    zero, one = (
        (integer_constant(0), integer_constant(1)) if stored is Stored.INTEGER else (real_constant(0), real_constant(1))
    )
    false, true = (Constant(value, Type.BOOLEAN) for value in (False, True))
    return apply(
        ScalarFunction.CASE,
        apply(ScalarFunction.EQUAL, x, zero),
        false,
        apply(ScalarFunction.EQUAL, x, one),
        true,
        null_constant(Type.BOOLEAN),
    )


def moment_scalar(rows: RowLowering, x: Scalar, stored: Stored, domain: Domain) -> Scalar:
    """Clamp a date or a time to its bounds, or without bounds to the calendar."""
    kind = domain.type
    if stored.name != kind.name:
        x = rows.compute_once(apply(ScalarFunction.CONVERT, x, detail=(kind,)))
    return _clamp(x, domain) if domain.bounds is not None else rows.null_outside_calendar(x, *_CALENDAR[kind], kind)


def _matches(x: Scalar, grammar: str) -> Scalar:
    return apply(ScalarFunction.MATCHES, x, detail=(grammar,))


def _converted_or_range_end(
    x: Scalar, source_text: Scalar, converted: Scalar, domain: Domain, sql_type: Type
) -> Scalar:
    """Return the converted value where there is one, or the bound for a text that lies beyond every number or date."""
    if domain.bounds is None:
        return converted
    ends = zip(BEYOND[sql_type], ends_of(domain), strict=True)
    infinities = [scalar for grammar, end in ends for scalar in (_matches(x, grammar), end)]
    return apply(ScalarFunction.CASE, not_null_test(source_text), converted, *infinities, null_constant(domain.type))


def parse_double(rows: RowLowering, x: Scalar) -> Scalar:
    """Parse a text as a double, 0 where its exponent makes it so."""
    parsed = apply(ScalarFunction.READ, x, detail=(Type.REAL,))
    number = apply(
        ScalarFunction.CASE,
        _matches(x, GRAMMARS[Type.REAL]),
        parsed,
        _matches(x, ZERO),
        real_constant(0),
        null_constant(Type.REAL),
    )
    return rows.compute_once(number)


def _parse_real(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    number = parse_double(rows, x)
    return _converted_or_range_end(x, number, limited_real(rows, number, domain), domain, Type.REAL)


def _parse_integer(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    """Parse digits exactly, and any other number as the double that it denotes."""
    is_digits = _matches(x, GRAMMARS[Type.INTEGER])
    parsed = rows.compute_once(
        apply(
            ScalarFunction.CASE,
            is_digits,
            apply(ScalarFunction.READ, x, detail=(Type.INTEGER,)),
            null_constant(Type.INTEGER),
        )
    )
    parsed_real = parse_double(rows, x)
    is_small = apply(ScalarFunction.LESS, apply(ScalarFunction.ABS, parsed_real), real_constant(SMALLEST_REAL))
    number = rows.compute_once(apply(ScalarFunction.CASE, is_small, real_constant(0), parsed_real))
    is_in_range = apply(
        ScalarFunction.BETWEEN, number, real_constant(-Fraction(2**63)), real_constant(Fraction(2**63 - 1024))
    )
    nearest = apply(
        ScalarFunction.CASE, is_in_range, apply(ScalarFunction.NEAREST, number), null_constant(Type.INTEGER)
    )
    is_whole = apply(ScalarFunction.EQUAL, number, apply(ScalarFunction.TRUNCATE, number))
    other = _converted_or_range_end(
        x, number, integer_scalar(rows, number, is_whole, nearest, domain), domain, Type.REAL
    )
    return apply(ScalarFunction.CASE, not_null_test(parsed), from_int64(parsed, domain), other)


def _parse_boolean(_: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    false, true = (Constant(value, domain.type) for value in (False, True))
    return apply(ScalarFunction.CASE, _matches(x, FALSE), false, _matches(x, TRUE), true, null_constant(domain.type))


def _parse_moment(rows: RowLowering, x: Scalar, domain: Domain) -> Scalar:
    kind = domain.type
    time = apply(ScalarFunction.READ, x, detail=(Type.TIMESTAMP,))
    pairs = [_matches(x, GRAMMARS[Type.TIMESTAMP]), time]
    if kind is Type.DATE:
        day = apply(ScalarFunction.READ, x, detail=(Type.DATE,))
        day_of_time = apply(ScalarFunction.CONVERT, time, detail=(Type.DATE,))
        pairs = [_matches(x, GRAMMARS[Type.DATE]), day, _matches(x, GRAMMARS[Type.TIMESTAMP]), day_of_time]
    value = rows.compute_once(apply(ScalarFunction.CASE, *pairs, null_constant(kind)))
    clamped = (
        _clamp(value, domain)
        if domain.bounds is not None
        else rows.null_outside_calendar(value, *_CALENDAR[kind], kind)
    )
    return _converted_or_range_end(x, value, clamped, domain, kind)


READ: dict[Type, Callable[[RowLowering, Scalar, Domain], Scalar]] = {
    Type.INTEGER: _parse_integer,
    Type.REAL: _parse_real,
    Type.BOOLEAN: _parse_boolean,
    Type.DATE: _parse_moment,
    Type.TIMESTAMP: _parse_moment,
}


T = TypeVar("T")


def fold_name(name: str) -> str:
    """Fold a name: lower case, accents composed, since a source may write é as two letters."""
    return unicodedata.normalize("NFC", name).lower()


def find_column(columns: Sequence[tuple[str, T]], column: str, policy_path: str, otherwise: str) -> T:
    """Return the column of that name: an exact match or, if there is only one, a match after folding.

    ``otherwise`` is the advice where no column has a similar name.
    """
    matches = [stored for stored_name, stored in columns if stored_name == column]
    matches = matches or [stored for stored_name, stored in columns if fold_name(stored_name) == fold_name(column)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InvalidPolicy(
            f"the source has several columns named '{column}'", place=policy_path, fix="rename all but one of them"
        )
    close_names = get_close_matches(column, [stored_name for stored_name, _ in columns], 1)
    fix = f"did you mean {close_names[0]}?" if close_names else otherwise
    raise InvalidPolicy(f"the source has no column '{column}'", place=policy_path, fix=fix)


def has_rewriting_rules(rules: CellRules, sql_type: Type) -> bool:
    """Return whether rules rewrite the texts of a column of this type; ``nulls`` alone rewrite none."""
    if sql_type.temporal:
        return bool(rules.format)
    if sql_type.numeric:
        return bool(rules.decimal or rules.thousands or rules.currency)
    return bool(rules.true or rules.false) if sql_type is Type.BOOLEAN else bool(rules.trim or rules.case or rules.map)


def rewritten_text(rows: RowLowering, text: Scalar, rules: CellRules, sql_type: Type) -> Scalar:
    """Rewrite a text of at most ``LONGEST`` bytes as the grammar of its type reads it; NULL where no rule fits."""
    if sql_type.temporal:
        return iso_text(rows, text, rules.format)
    if sql_type.numeric:
        return _number_text(text, rules)
    return _truth_text(text, rules) if sql_type is Type.BOOLEAN else _replaced_text(rows, text, rules)


def is_listed_test(text: Scalar, texts: Iterable[str]) -> Scalar:
    """Test whether a text is one of these, apart from the spaces around it."""
    trimmed = apply(ScalarFunction.TRIM, text, detail=(" ", True, True))
    return apply(ScalarFunction.IN, trimmed, *map(_text, texts))


def _text(value: str) -> Constant:
    return Constant(value, Type.TEXT)


# Numbers, truths and listed texts


def _number_text(text: Scalar, rules: CellRules) -> Scalar:
    """Write a number with a decimal point, without its currency and separators."""
    digits = text
    removed = (rules.currency, *SPACES, "" if rules.thousands == " " else rules.thousands)
    for part in filter(None, removed):
        digits = apply(ScalarFunction.REPLACE, digits, _text(part), _text(""))
    if rules.decimal == ",":
        digits = apply(ScalarFunction.REPLACE, digits, _text(","), _text("."))
    return apply(ScalarFunction.CASE, _matches(text, number_pattern(rules)), digits, null_constant(Type.TEXT))


def _truth_text(text: Scalar, rules: CellRules) -> Scalar:
    words = ((rules.true, "true"), (rules.false, "false"))
    pairs = [scalar for entries, truth in words if entries for scalar in (is_listed_test(text, entries), _text(truth))]
    return apply(ScalarFunction.CASE, *pairs, text)


def _replaced_text(rows: RowLowering, text: Scalar, rules: CellRules) -> Scalar:
    """Trim a text, turn its letters and replace it, in this order; a target of ``map`` stays."""
    trimmed = rows.compute_once(apply(ScalarFunction.TRIM, text, detail=(" ", True, True))) if rules.trim else text
    folded = trimmed
    if rules.case:
        change_case = ScalarFunction.LOWER if rules.case == "lower" else ScalarFunction.UPPER
        folded = rows.compute_once(apply(change_case, trimmed))
    sources: dict[str, list[str]] = {}
    for source, target in rules.map:
        sources.setdefault(target, []).append(source)
    pairs = [
        scalar
        for target, texts in sources.items()
        for scalar in (apply(ScalarFunction.IN, folded, *map(_text, texts)), _text(target))
    ]
    turned = [target for target in sources if rules.fold(target) != target]
    target_pair = [apply(ScalarFunction.IN, trimmed, *map(_text, turned)), trimmed] if turned else []
    return apply(ScalarFunction.CASE, *target_pair, *pairs, folded) if pairs else folded
