"""An amount of one currency, as accounts add it, and what remains in the ε that people type.

An ``Amount`` counts units of 1e-30. It is an ``int``, or a ``Fraction`` in lowest terms where it is no whole number of
units: ε = 0.1 is 10²⁹, and ε = 1/3 is 10³⁰/3.

- *A charge* (``charge_amount``) is the exact ε or δ where that is a whole number of units, or where its denominator is
  at most 10⁹; anything else is rounded up to whole units. It depends on the release alone.
- *A sum* (``add_rounded_up``) is exact while the denominator of its ε or δ is at most 10⁶⁰, and is rounded up to whole
  units where it would be more. Nobody can therefore make a total longer than about 200 bits beyond its whole part,
  whatever prices are chosen: adding takes constant time and a written total is short. After a rounding the total is
  whole again, and later charges are exact as before.
- *What a hold leaves* (``subtract_rounded_down``) is exact under the same limit, and is rounded down where it is not.
- *An allowance* is the exact ε or δ: nothing is added to it, so nothing grows.

Theorem (a recorded total is at least the true sum, and at most a unit per rounding above it). Let t₀ = 0 and
tᵢ = add(tᵢ₋₁, cᵢ), where cᵢ is at least the true price pᵢ. Then tᵢ ≥ tᵢ₋₁ + cᵢ, because ``add_rounded_up`` returns the
sum or a larger number, so by induction tₙ ≥ Σcᵢ ≥ Σpᵢ. Also tᵢ < tᵢ₋₁ + cᵢ + 1 where tᵢ is rounded, so tₙ is less than
k units above Σcᵢ after k roundings. An account that admits a charge only where tᵢ ≤ ε has Σpᵢ ≤ ε; while no denominator
passes its limit, tₙ = Σcᵢ, and three charges of 1/3 fill ε = 1. ∎

Theorem (a hold gives back at most what it held). Let h be the recorded sum of what all open tabs hold, with h ≥ Σlⱼ. A
line on tab j changes lⱼ to l′ⱼ ≤ lⱼ, and h to h′ = add(h − lⱼ, l′ⱼ) ≥ h − (lⱼ − l′ⱼ) ≥ Σl after it: what is free again
is at most lⱼ − l′ⱼ, and nothing that is held is forgotten. For a step of cost c, l′ⱼ = subtract(lⱼ, c) ≤ lⱼ − c, so all
steps and what is left never come to more than the hold. ∎

Rounded sums depend on the order of the lines, so a total is defined as the fold over an account's lines in their order.
Each line records the total after it: whoever replays the lines, from the first or from any other, computes the same
numbers, and a process that appends a line needs the line before it alone. Because of the roundings, *admission*
compares the recorded total with the allowance, and an *accusation* that more was spent than allowed compares the
recorded total less one unit for each rounding there can have been (``ledger.guarded``,
``reports.bundles``).

A whole number of units is written as that number, as it was before fractions were kept; a fraction is written as the
ε or δ itself, in lowest terms, such as ``1/3``. Old lines therefore read and add up as they did, and every amount has
one written form.

An account counts in two ways at once (``budget``): it adds up ε, which is how ordinary answers are paid for, and it
adds up Rényi divergence, in which Gaussian noise is cheap. Gaussian noise has no finite ε: it closes the first total.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sfumato.error_facts import quote_parameter
from sfumato.errors import MIN_USEFUL_EPSILON, InvalidParameter
from sfumato.number_formats import format_rounded_down
from sfumato.privacy import codec
from sfumato.privacy.numbers import UNIT, amount_from_units, format_exact, format_probability

Amount = int | Fraction

CHARGE_DENOMINATOR = 10**9
"""The largest denominator of an ε or δ that is charged as it is, beside whole numbers of units."""
SUM_DENOMINATOR = 10**60
"""The largest denominator of a sum of them."""

_WRITTEN = re.compile(r"[1-9][0-9]{0,400}/[1-9][0-9]{0,60}")


def exact_amount(value: Fraction) -> Amount:
    """Convert an ε or δ to units, whatever its denominator."""
    whole, rest = divmod(value.numerator * UNIT, value.denominator)
    return value * UNIT if rest else whole


def charge_amount(value: Fraction) -> Amount:
    """Convert the ε or δ of a release to the amount charged: exact, or rounded up to whole units."""
    units = exact_amount(value)
    return units if type(units) is int or value.denominator <= CHARGE_DENOMINATOR else math.ceil(units)


def add_rounded_up(first: Amount, second: Amount) -> Amount:
    """Return the sum, rounded up to whole units if its denominator passes the limit."""
    total = first + second
    return total if type(total) is int else round_up_if_long(total)


def subtract_rounded_down(whole: Amount, part: Amount) -> Amount:
    """Return the difference, rounded down to whole units if its denominator passes the limit."""
    return round_down_if_long(whole - part)


def round_down_if_long(amount: Amount) -> Amount:
    """Round down to whole units an amount whose denominator passes the limit of a sum."""
    reduced = _int_if_whole(amount)
    return reduced if _has_short_denominator(reduced) else math.floor(reduced)


def round_up_if_long(amount: Amount) -> Amount:
    """Round up to whole units an amount whose denominator passes the limit of a sum; any other is returned as it is."""
    reduced = _int_if_whole(amount)
    return reduced if _has_short_denominator(reduced) else math.ceil(reduced)


def _has_short_denominator(amount: Amount) -> bool:
    """Return whether the denominator of the ε or δ is within the limit of a sum."""
    return type(amount) is int or amount_from_units(amount).denominator <= SUM_DENOMINATOR


def _int_if_whole(amount: Amount) -> Amount:
    return amount.numerator if amount.denominator == 1 else amount


def format_amount(amount: Amount) -> str:
    """Format units as a whole number, or else the ε or δ as a fraction."""
    if type(amount) is int:
        return str(amount)
    value = amount_from_units(amount)
    if value.denominator > SUM_DENOMINATOR:
        raise InvalidParameter("amount", value, "a fraction with a denominator of at most 10^60")
    return f"{value.numerator}/{value.denominator}"


def parse_amount(text: str) -> Amount:
    """Parse what ``format_amount`` wrote; any other text is refused, also a fraction that is whole or not in lowest
    terms.
    """
    if "/" not in text:
        return int(text)
    if _WRITTEN.fullmatch(text):
        top, _, bottom = text.partition("/")
        value = Fraction(int(top), int(bottom))
        amount = exact_amount(value)
        if type(amount) is Fraction and value.denominator == int(bottom) <= SUM_DENOMINATOR:
            return amount
    raise InvalidParameter("amount", text, "a whole number (in units of 1e-30), or a fraction in lowest terms")


def checked_amount(value: object, name: str) -> Amount:
    """Return a nonnegative amount, as it is or as JSON holds it, or refuse anything else."""
    amount = parse_amount(value) if type(value) is str and "/" in value else value
    if (type(amount) is int or type(amount) is Fraction) and amount >= 0:
        return _int_if_whole(amount)
    rule = 'an amount ≥ 0: the text of a fraction, such as "1/3", or a whole number in units of 1e-30'
    raise InvalidParameter(name, value, rule, fix=f'for example, set {quote_parameter(name)} to "1/3"')


def _encode_amount(amount: Amount | None) -> int | str | None:
    return amount if amount is None or type(amount) is int else format_amount(amount)


WRITTEN: Mapping[str, Any] = MappingProxyType({codec.WRITER: _encode_amount})
"""The metadata of a dataclass field that is an amount."""


Amounts = Mapping[str, Fraction | None]

PURE_TOTAL = "the plain ε total"


@lru_cache(maxsize=256)
def format_guarantee(epsilon: Fraction, delta: Fraction) -> str:
    """Format a guarantee as people say it: δ is named only if there is one.

    >>> format_guarantee(Fraction(2), Fraction(0)), format_guarantee(Fraction(3), Fraction("1e-6"))
    ('ε = 2', 'ε = 3, δ = 1e-06')
    """
    return f"ε = {format_exact(epsilon)}" + (f", δ = {format_probability(delta)}" if delta else "")


def format_remaining(allowed: Amounts, spent: Amounts, left: Mapping[str, Fraction], largest: Fraction) -> str:
    """Format the ε left for ordinary answers, whose price is an ε alone.

    While the plain ε total is open, that is its remainder. Afterwards ``largest`` is the most that one answer may take.

    >>> format_remaining({"pure": Fraction(3)}, {"pure": Fraction(2)}, {"pure": Fraction(1)}, Fraction(1))
    'ε = 1 of 3'
    >>> format_remaining({"pure": Fraction(3)}, {"pure": None}, {}, Fraction(0))
    'nothing'
    """
    allowance, remaining = allowed.get("pure"), left.get("pure")
    if (
        allowance is not None
        and remaining is not None
        and (remaining >= MIN_USEFUL_EPSILON or largest < MIN_USEFUL_EPSILON)
    ):
        return f"ε = {format_rounded_down(remaining)} of {format_rounded_down(allowance)}"
    if largest < MIN_USEFUL_EPSILON:
        return "nothing"
    return f"up to ε = {format_rounded_down(largest)} in one answer, {explain_closed_total(allowed, spent)}"


def explain_closed_total(allowed: Amounts, spent: Amounts) -> str:
    """Explain why the plain ε total is closed: Gaussian noise was used, or ordinary answers exceeded its allowance."""
    if spent.get("pure") is None:
        return "since Gaussian noise was used"
    return f"since the answers so far add up to ε = {format_rounded_down(allowed.get('pure') or Fraction(0))} or more"


def gaussian_warning(left: Mapping[str, Fraction]) -> str:
    """Warn that a release with Gaussian noise closes the pure currency; "" where that is closed already, or where
    nothing is left to pay for such a release.
    """
    if "pure" not in left or not left.get("renyi"):
        return ""
    remaining = format_rounded_down(left["pure"])
    return (
        "After a Gaussian answer, all later answers are charged to the budget for Gaussian noise (in Rényi "
        f"divergence), and the ε = {remaining} left in {PURE_TOTAL}, where the ε of each answer is added, can no "
        "longer be spent."
    )
