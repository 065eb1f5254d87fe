"""Words for the remaining budget, in the ε that people type; the currencies behind it are details.

An account counts in two ways at once (``budget``): it adds up ε, which is how ordinary answers are paid for, and it
adds up Rényi divergence, in which Gaussian noise is cheap. Gaussian noise has no finite ε: it closes the first total.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from sfumato.errors import MIN_USEFUL_EPSILON
from sfumato.number_formats import format_rounded_down
from sfumato.privacy.numbers import format_exact, format_probability

Amounts = Mapping[str, Fraction | None]

PURE_TOTAL = "the plain ε total"
AFTER_GAUSSIAN = "all later answers are then charged in Rényi divergence"


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
    return f"A Gaussian answer closes {PURE_TOTAL} (ε = {remaining} is left in it): {AFTER_GAUSSIAN}."
