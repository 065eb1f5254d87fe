"""Laws give the exact probability of every outcome of a choice, from the mechanism that draws it.

Probabilities are whole weights over their sum. They are exact where they are rational, and otherwise every one is
within ``error`` of the truth, far below 10⁻⁵⁰: e^ε is irrational for every rational ε ≠ 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidParameter
from sfumato.mechanisms import Exponential, MaxNoise, NoisyMax, PermuteAndFlip, exact_decisions
from sfumato.mechanisms.selection import Scored, field_of
from sfumato.privacy.numbers import PROBABILITY, Number, exact
from sfumato.privacy.spelled_values import spelled

_DIGITS = 80
_UNIT = 10**70
MOST_CANDIDATES = 400


@dataclass(frozen=True)
class Law:
    """Outcome s has probability weights[s]/Σ weights, within ``error``."""

    weights: tuple[int, ...]
    error: Fraction = Fraction(0)
    payments: tuple[Fraction, ...] = ()
    """What each player (or each type, where players are alike) pays in expectation, where money is taken."""

    __repr__ = spelled

    @property
    def probabilities(self) -> tuple[Fraction, ...]:
        total = sum(self.weights)
        return tuple(Fraction(weight, total) for weight in self.weights)

    def mean(self, values: Sequence[int]) -> Fraction:
        """Give the expectation of a number for each outcome."""
        return Fraction(sum(w * v for w, v in zip(self.weights, values, strict=True)), sum(self.weights))


def stated(probabilities: Iterable[Number], outcomes: int) -> Law:
    """Read a law that somebody states: numbers in [0, 1] with sum 1, one for each outcome."""
    if not isinstance(probabilities, Iterable):
        raise InvalidParameter("probabilities", probabilities, f"{outcomes} numbers with sum exactly 1")
    given = [exact(each, "probability", PROBABILITY) for each in probabilities]
    if len(given) != outcomes or sum(given) != 1:
        rule = f"{outcomes} numbers with sum exactly 1"
        raise InvalidParameter("probabilities", f"{len(given)} numbers with sum {float(sum(given)):.6g}", rule)
    unit = math.lcm(*(each.denominator for each in given))
    return Law(tuple(int(each * unit) for each in given))


def law_of(selection: Scored, scores: Sequence[Fraction | int]) -> Law:
    """Compute the law by which a selection chooses among these scores: of the gaps and the rate its draw is made from.

    Exponential (and noisy max under Gumbel noise): P(h) ∝ e^{−c·gap}. Permute-and-flip (and exponential noise):
    candidate h comes at a uniform time t and is kept with k_h = e^{−c·gap}; the others that came before were not,
    so P(h) = k_h·∫₀¹ Π_{j≠h}(1 − t·k_j) dt.
    """
    gaps, rate = field_of(list(scores), selection)
    if gaps.size > MOST_CANDIDATES:
        raise InvalidParameter("outcomes", int(gaps.size), f"at most {MOST_CANDIDATES} for an exact law")
    context = exact_decisions.digits(_DIGITS)
    powers = [context.exp(exact_decisions.decimal(-rate * int(gap), context)) for gap in gaps]
    keep = [int(context.scaleb(power, 70)) for power in powers]  # whole units of 10⁻⁷⁰, at most one too few
    known = all(gap == 0 for gap in gaps)
    kind: Any = selection.noise if isinstance(selection, NoisyMax) else type(selection)
    if kind in (Exponential, MaxNoise.GUMBEL):
        return Law(tuple(keep), Fraction(0) if known else Fraction(2 * len(keep) + 2, _UNIT))
    if kind in (PermuteAndFlip, MaxNoise.EXPONENTIAL):
        if known:
            return Law((1,) * len(keep))
        return _flipped(keep)
    raise InvalidParameter(
        "mechanism", selection, "Exponential or PermuteAndFlip", fix="Laplace noise has no finite exact law"
    )


def _flipped(keep: list[int]) -> Law:
    """Compute the law of permute-and-flip by its polynomial: the coefficients of Π(1 − t·k_j) once, each factor divided
    out in turn.

    Coefficients are below 2ⁿ and rounded n² times: 4n + 64 bits beyond the units of 10⁻⁷⁰ drown all of that, so what
    is left is that each k_h may be a unit too small.
    """
    n = len(keep)
    lift = 4 * n + 64
    unit = _UNIT << lift
    factors = [k << lift for k in keep]
    product = [unit]
    for k in factors:
        product = [a - b * k // unit for a, b in zip([*product, 0], [0, *product], strict=True)]
    weights = []
    for k in factors:
        rest, integral = 0, 0
        for i, c in enumerate(product[:-1]):
            rest = c + rest * k // unit
            integral += rest // (i + 1)
        weights.append(max(0, k * integral // unit >> lift))
    return Law(tuple(weights), Fraction(8 * (n + 1) ** 2, _UNIT))
