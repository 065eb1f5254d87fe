"""Each measurement of a question gets its share of the price, for the least error of what is asked.

How far a result moves with one total is looked at where a group has many rows, whose values are spread evenly but not
around the middle of their range, and where pairs of values are somewhat correlated: at such a point no moment is
without effect. It is public, and so are the shares.

One price is split over several noisy totals so that what is asked has the least error, in its own terms.

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
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import Estimator, Floats
from sfumato.plan.bounding import ScaledMeasure
from sfumato.plan.sharing import Made
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.release.parts.question_parts import Family, NoisyTotals, QuestionPart

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
    """Assign each total its share of the price, so that the wanted results have the least error; they add up to one.

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
    """Assign every total the same share."""
    return (Fraction(1, count),) * count


def times_alone(sizes: Sequence[float], result: Wanted, shares: Sequence[Fraction], order: int) -> float:
    """Return how many times as wrong a result is with these shares as it would be alone at the whole price."""
    unit = _alone(sizes, result, order)
    found = sum(effect * sizes[each] / float(shares[each]) ** (1 / order) for each, effect in result.effects.items())
    return found / unit if unit else 1.0


def _alone(sizes: Sequence[float], result: Wanted, order: int) -> float:
    power = order / (order + 1)
    return math.fsum((effect * sizes[total]) ** power for total, effect in result.effects.items()) ** (1 / power)


_ROWS = 10_000
_NOISE = 1e-3
"""Of all rows' largest contributions: so little noise that its effect is proportional to it."""
_TILT = Fraction(1, 4)
"""The values lie above the middle by this part of half the range."""


@dataclass(frozen=True)
class WeightedRequest:
    """What is asked, each with a weight: how much its error counts."""

    made: tuple[Made, ...]
    weights: tuple[Fraction, ...]


@dataclass(frozen=True)
class PriceSplit:
    """A split says which share of the price every measurement of every part has, and how wrong each result then is."""

    shares: tuple[tuple[Fraction, ...], ...]
    times: tuple[float, ...] = ()
    """For everything that is asked, how many times as wrong it is as it would be alone at the whole price,"""
    evenly: tuple[float, ...] = ()
    """and how many times it would be if all shares were equal."""

    @property
    def even(self) -> bool:
        """Return whether all shares are equal."""
        return len({each for part in self.shares for each in part}) <= 1


def shared_out(parts: Sequence[QuestionPart], asked: WeightedRequest | None, family: Family) -> PriceSplit:
    """Split a price over all measurements of these parts; evenly where it is not said what is made of them."""
    counts = [each.shares for each in parts]
    if asked is None:
        return PriceSplit(_by_part(even(sum(counts)), counts))
    totals = parts[0]
    assert isinstance(totals, NoisyTotals)
    sizes = [float(family.norm(each.sensitivity) * each.unit_value) for each in totals.bounded.noised]
    sizes += [1.0] * (sum(counts) - len(sizes))  # choices err in inverse proportion to their share
    wanted = [_wanted(each, weight, parts) for each, weight in zip(asked.made, asked.weights, strict=True)]
    found = split(sizes, [*wanted, *_selection(totals)], family.order)
    same = even(len(sizes))
    times, evenly = (
        tuple(times_alone(sizes, each, shares, family.order) for each in wanted) for shares in (found, same)
    )
    return PriceSplit(_by_part(found, counts), times, evenly)


def _by_part(shares: Sequence[Fraction], counts: Sequence[int]) -> tuple[tuple[Fraction, ...], ...]:
    starts = [sum(counts[:index]) for index in range(len(counts))]
    return tuple(tuple(shares[start : start + count]) for start, count in zip(starts, counts, strict=True))


def _wanted(made: Made, weight: Fraction, parts: Sequence[QuestionPart]) -> Wanted:
    """Return which measurements a result reads. What reads one alone is as wrong as that is, whatever its terms."""
    own, totals = parts[made.part], parts[0]
    if not isinstance(own, NoisyTotals):
        start, (place,) = sum(each.shares for each in parts[: made.part]), made.measures
        return Wanted({start + own.share_of(place): 1.0}, weight)
    assert isinstance(totals, NoisyTotals)
    if len(made.measures) == 1:
        return Wanted({made.measures[0]: 1.0}, weight)
    read = [totals.bounded.measures[place] for place in made.measures]
    estimator: Any = made.asked.estimator(*read)  # a frozen value
    moved = _effects(estimator, tuple(map(_supposed, read)), tuple(map(_moving, read)))
    return Wanted(dict(zip(made.measures, moved, strict=True)), weight)


def _selection(totals: NoisyTotals) -> list[Wanted]:
    """The choice of groups counts as one result more."""
    return [Wanted({len(totals.bounded.noised): 1.0})] if totals.bounded.finds else []


def _supposed(scaled: ScaledMeasure) -> tuple[Fraction, ...]:
    """Return the totals of many rows."""
    totals = [_ROWS * each for each in scaled.middle]
    if len(totals) == 1:
        return tuple(totals)
    above, below = totals
    return above * (1 + _TILT), below * (1 - _TILT)


def _moving(scaled: ScaledMeasure) -> Fraction:
    """Return a little noise, in the measure's own terms."""
    return Fraction(_NOISE) * _ROWS * scaled.size * scaled.step


@lru_cache(maxsize=1024)
def _effects(
    estimator: Estimator, supposed: tuple[tuple[Fraction, ...], ...], moving: tuple[Fraction, ...]
) -> tuple[float, ...]:
    """Find how far a result moves when the totals of one measure do, for each of its measures."""
    columns = [np.array([float(total)]) for each in supposed for total in each]
    owners = [place for place, each in enumerate(supposed) for _ in each]

    def reach(moved: int | None) -> float:
        widths: list[float | Floats] = [float(moving[place]) if place == moved else 0.0 for place in owners]
        found = estimator.estimate(columns, widths)
        return float(found.high[0] - found.low[0]) / 2

    least = reach(None)
    found = [(reach(place) - least) / float(each) for place, each in enumerate(moving)]
    return tuple(max(each, 0.0) if np.isfinite(each) else 0.0 for each in found)
