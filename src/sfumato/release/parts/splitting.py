"""One price is split over several noisy totals so that what is asked has the least error, in its own terms.

Total j moves by at most s_j with one unit, in the norm of its noise. With the share f_j of the price its noise has the
size s_j·f_j^{−1/k}, in units of what the whole price gives to a total that moves by one: k = 1 for Laplace noise, whose
price is ε = Σ s_j/b_j, and k = 2 for Gaussian noise, whose price is ρ = Σ s_j²/2σ_j². Result i is wrong by at most
Σ_j a_ij·(noise of j), because its range holds whenever every total is within its own: a_ij says how far the result
moves with one total, at a group size and a spread that are public. Let c_ij = a_ij·s_j.

Theorem. Σ_j C_j·f_j^{−1/k} with Σ f_j = 1 is least at f_j ∝ C_j^{k/(k+1)}, where it is (Σ_j C_j^{k/(k+1)})^{(k+1)/k}.
Proof: by Hölder's inequality with exponents (k+1)/k and k+1, applied to C_j^{k/(k+1)} = X_j·Y_j with
X_j = (C_j·f_j^{−1/k})^{k/(k+1)} and Y_j = f_j^{1/(k+1)}, Σ C_j^{k/(k+1)} is at most the k/(k+1)-th power of
Σ C_j·f_j^{−1/k}, times (Σ f_j)^{1/(k+1)} = 1; they are equal where C_j·f_j^{−1/k} is proportional to f_j. ∎

A result alone would have the error u_i of this theorem with c_ij. What is made least is Σ_i w_i·error_i/u_i: how many
times as wrong each result is as it would be alone, by weight. That is Σ_j C_j·f_j^{−1/k}, C_j = Σ_i w_i·c_ij/u_i.
Shares follow from policy, question and price alone, so nothing is learnt from them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import POSITIVE, Number, exact

_FINEST = 2**24
"""Shares are whole parts of a whole: the largest has so many,"""
_LEAST = 2**14
"""and the smallest at least so many: for a thousandth, a total that hardly matters has noise that can be drawn."""


@dataclass(frozen=True)
class Wanted:
    """A wanted result says which totals it reads, and how far it moves when one of them does."""

    effects: Mapping[int, float]
    """For the place of each total that is read, how far the result moves when the total moves by one."""
    weight: Fraction = field(default=Fraction(1))
    """How much its error counts."""

    def __init__(self, effects: Mapping[int, float], weight: Number = 1) -> None:
        object.__setattr__(self, "effects", dict(effects))
        object.__setattr__(self, "weight", exact(weight, "weight", POSITIVE))
        if not self.effects or not all(0 <= each < math.inf for each in self.effects.values()):
            raise InvalidParameter("effects", self.effects, "finite numbers of at least 0, one for each total")


def split(sizes: Sequence[float], wanted: Sequence[Wanted], order: int) -> tuple[Fraction, ...]:
    """Give each total its share of the price, so that the wanted results have the least error; they add up to one.

    ``sizes`` are how far one unit moves each total, and ``order`` is the norm of the noise: 1 or 2.
    """
    costs = [0.0] * len(sizes)
    for result in wanted:
        unit = _alone(sizes, result, order)
        for total, effect in result.effects.items():
            costs[total] += float(result.weight) * effect * sizes[total] / unit if unit else 0.0
    parts = [cost ** (order / (order + 1)) for cost in costs]
    most = max(parts)
    whole = [max(_LEAST, round(_FINEST * part / most)) if most else 1 for part in parts]
    return tuple(Fraction(each, sum(whole)) for each in whole)


def even(count: int) -> tuple[Fraction, ...]:
    """Give every total the same share."""
    return (Fraction(1, count),) * count


def times_alone(sizes: Sequence[float], result: Wanted, shares: Sequence[Fraction], order: int) -> float:
    """Say how many times as wrong a result is with these shares as it would be alone at the whole price."""
    unit = _alone(sizes, result, order)
    found = sum(effect * sizes[each] / float(shares[each]) ** (1 / order) for each, effect in result.effects.items())
    return found / unit if unit else 1.0


def _alone(sizes: Sequence[float], result: Wanted, order: int) -> float:
    power = order / (order + 1)
    return math.fsum((effect * sizes[total]) ** power for total, effect in result.effects.items()) ** (1 / power)
