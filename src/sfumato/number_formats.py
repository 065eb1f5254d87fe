"""How exact numbers are written and parsed: all digits, or six of them in messages about a budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal, Inexact
from fractions import Fraction
from typing import Any

_EXACT = re.compile(r"-?[0-9]{1,1300}(\.[0-9]{1,1300}|/[0-9]{1,1300})?")
_DECIMALS = Context(prec=200, traps=[Inexact])
_SIX_DIGITS_DOWN = Context(prec=6, rounding=ROUND_FLOOR)


def format_amount(amount: Any) -> Any:
    """Format an exact number, or a mapping to such, as texts; None stays None."""
    if isinstance(amount, Mapping):
        return {name: format_amount(number) for name, number in amount.items()}
    return None if amount is None else exact_text(Fraction(amount))


def exact_text(value: Fraction) -> str:
    """Format an exact number: as a decimal where one exists, otherwise as "p/q"."""
    try:
        return f"{_DECIMALS.divide(Decimal(value.numerator), Decimal(value.denominator)):f}"
    except Inexact:
        return str(value)


def parse_optional_exact(text: Any) -> Fraction | None:
    """Parse an exact number; raise ``ValueError`` for anything else."""
    if text is None:
        return None
    if not isinstance(text, str) or not _EXACT.fullmatch(text):
        raise ValueError("this text is not an exact number, such as 0.1 or 1/3")
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError("this text is not an exact number, such as 0.1 or 1/3") from None


def format_rounded_down(value: Fraction) -> str:
    """Format an amount with six digits, rounded down, so that a remaining amount as shown is accepted.

    >>> format_rounded_down(Fraction("0.4493679999")), format_rounded_down(Fraction(3, 10))
    ('0.449367', '0.3')
    """
    return f"{float(_SIX_DIGITS_DOWN.divide(Decimal(value.numerator), Decimal(value.denominator))):.6g}"


def format_requested(amount: Fraction | None) -> str:
    """Format a requested amount with six digits; None is unbounded."""
    return "unbounded" if amount is None else f"{float(amount):.6g}"
