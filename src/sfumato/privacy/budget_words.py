"""Words for the remaining budget, in the ε that people type; the currencies behind it are details.

An account counts in two ways at once (``budget``): it adds up ε, which is how ordinary answers are paid for, and it
adds up Rényi divergence, in which Gaussian noise is cheap. Gaussian noise has no finite ε: it closes the first total.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sfumato.errors import LEAST_USEFUL, at_most
from sfumato.privacy.numbers import chance, text

Amounts = Mapping[str, Fraction | None]

ENDS = "the plain ε total"
AFTERWARDS = "all later answers are then charged in Rényi divergence"


def promised(epsilon: Fraction, delta: Fraction) -> str:
    """Format a guarantee as people say it: δ is named only if there is one.

    >>> promised(Fraction(2), Fraction(0)), promised(Fraction(3), Fraction("1e-6"))
    ('ε = 2', 'ε = 3, δ = 1e-06')
    """
    return f"ε = {text(epsilon)}" + (f", δ = {chance(delta)}" if delta else "")


def left_words(allowed: Amounts, spent: Amounts, left: Mapping[str, Fraction], largest: Fraction) -> str:
    """Format the ε left for ordinary answers, whose price is an ε alone.

    While the plain ε total is open, that is its remainder. Afterwards ``largest`` is the most that one answer may take.

    >>> left_words({"pure": Fraction(3)}, {"pure": Fraction(2)}, {"pure": Fraction(1)}, Fraction(1))
    'ε = 1 of 3'
    >>> left_words({"pure": Fraction(3)}, {"pure": None}, {}, Fraction(0))
    'nothing'
    """
    allowance, remaining = allowed.get("pure"), left.get("pure")
    if allowance is not None and remaining is not None and (remaining >= LEAST_USEFUL or largest < LEAST_USEFUL):
        return f"ε = {at_most(remaining)} of {at_most(allowance)}"
    if largest < LEAST_USEFUL:
        return "nothing"
    return f"up to ε = {at_most(largest)} in one answer, {why_ended(allowed, spent)}"


def why_ended(allowed: Amounts, spent: Amounts) -> str:
    """Explain why the plain ε total is closed: Gaussian noise was used, or ordinary answers exceeded its allowance."""
    if spent.get("pure") is None:
        return "since Gaussian noise was used"
    return f"since the answers bought add up to ε = {at_most(allowed.get('pure') or Fraction(0))} or more"


def closing(left: Mapping[str, Fraction]) -> str:
    """Warn that a release with Gaussian noise closes the pure currency; "" where that is closed already, or where
    nothing is left to pay for such a release.
    """
    if "pure" not in left or not left.get("renyi"):
        return ""
    return f"Gaussian noise ends {ENDS} (ε = {at_most(left['pure'])} is left of it): {AFTERWARDS}."
