"""Each measurement of a question gets its share of the price, for the least error of what is asked.

How far a result moves with one total is looked at where a group has many rows, whose values are spread evenly but not
around the middle of their range, and where pairs of values are somewhat correlated: at such a point no moment is
without effect. It is public, and so are the shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.plan.aggregates.measures import Estimator, Floats
from sfumato.plan.bounding import Scaled
from sfumato.plan.sharing import Made
from sfumato.release.parts.question_parts import Family, NoisyTotals, Part
from sfumato.release.parts.splitting import Wanted, even, split, times_alone

_ROWS = 10_000
_NOISE = 1e-3
"""Of all rows' largest contributions: so little noise that its effect is proportional to it."""
_TILT = Fraction(1, 4)
"""The values lie above the middle by this part of half the range."""


@dataclass(frozen=True)
class Weighed:
    """This is what is asked, each with a weight: how much its error counts."""

    made: tuple[Made, ...]
    weights: tuple[Fraction, ...]


@dataclass(frozen=True)
class Split:
    """A split says which share of the price every measurement of every part has, and how wrong each result then is."""

    shares: tuple[tuple[Fraction, ...], ...]
    times: tuple[float, ...] = ()
    """For everything that is asked, how many times as wrong it is as it would be alone at the whole price,"""
    evenly: tuple[float, ...] = ()
    """and how many times it would be if all shares were equal."""

    @property
    def even(self) -> bool:
        """Tell whether all shares are equal."""
        return len({each for part in self.shares for each in part}) <= 1


def shared_out(parts: Sequence[Part], asked: Weighed | None, family: Family) -> Split:
    """Split a price over all measurements of these parts; evenly where it is not said what is made of them."""
    counts = [each.shares for each in parts]
    if asked is None:
        return Split(_by_part(even(sum(counts)), counts))
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
    return Split(_by_part(found, counts), times, evenly)


def _by_part(shares: Sequence[Fraction], counts: Sequence[int]) -> tuple[tuple[Fraction, ...], ...]:
    starts = [sum(counts[:index]) for index in range(len(counts))]
    return tuple(tuple(shares[start : start + count]) for start, count in zip(starts, counts, strict=True))


def _wanted(made: Made, weight: Fraction, parts: Sequence[Part]) -> Wanted:
    """Say which measurements a result reads. What reads one alone is as wrong as that is, whatever its terms."""
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


def _supposed(scaled: Scaled) -> tuple[Fraction, ...]:
    """Give the totals of many rows."""
    totals = [_ROWS * each for each in scaled.middle]
    if len(totals) == 1:
        return tuple(totals)
    above, below = totals
    return above * (1 + _TILT), below * (1 - _TILT)


def _moving(scaled: Scaled) -> Fraction:
    """Give a little noise, in the measure's own terms."""
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
