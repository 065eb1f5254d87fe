"""Exact selection under noise: every candidate has a noisy key, and the least key wins ("a race").

Candidate h draws an exponential E_h and has a key that depends on it and on its score; the least key wins. With gap
g_h ≥ 0 steps below the best score and c > 0 per step, the keys are

- Gumbel:      ln E_h + c·g_h − ln m_h      P(h) ∝ m_h·e^{−c·g_h}: the exponential mechanism, m_h candidates
  standing in one place
- exponential: c·g_h − E_h                  the largest noisy score under exponential noise: permute-and-flip (Ding
  et al. 2021)
- Laplace:     c·g_h ∓ E_h                  the largest noisy score under Laplace noise

Keys are computed in floating point with a bound on their error. Candidates whose intervals overlap at the finish
are run again in exact arithmetic from the same bits, with more bits as needed, until one is surely first:
probabilities are never rounded, however small.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.mechanisms import bits
from sfumato.quick_dataclass import dataclass

Gaps = NDArray[np.uint64]

_WIDTH = 63
_UNIT = 2.0**-63
_CHUNK = 1 << 16


@dataclass(frozen=True)
class RaceKey:
    """How a key is computed: in floating point for arrays, and exactly for one candidate.

    Winners under Gumbel noise have the smallest E, so there E = −ln(1 − U), precise near U = 0; the others have the
    largest, so there E = −ln U.
    """

    keys: Callable[[Floats, NDArray[np.bool_], Floats], Floats]
    """(E, sign, c·g) → keys"""
    exact: Callable[[Decimal, bool, Decimal, Context], Decimal]
    smallest: bool
    """Whether winners have the smallest E."""


def _exact_gumbel_key(e: Decimal, _: bool, gap: Decimal, context: Context) -> Decimal:
    return context.add(e.ln(context), gap)  # of 0 it is minus infinity


GUMBEL = RaceKey(lambda e, _, gap: np.log(e) + gap, _exact_gumbel_key, smallest=True)
EXPONENTIAL = RaceKey(lambda e, _, gap: gap - e, lambda e, _, gap, context: context.subtract(gap, e), smallest=False)
LAPLACE = RaceKey(
    lambda e, sign, gap: np.where(sign, gap + e, gap - e),
    lambda e, sign, gap, context: context.add(gap, e) if sign else context.subtract(gap, e),
    smallest=False,
)


@dataclass
class _UnrankedCandidate:
    """A candidate that floating point could not rank, with the bits of U so far."""

    index: int
    v: int
    width: int
    sign: bool
    gap: Fraction
    multiplicities: int

    def key(self, kind: RaceKey, context: Context) -> tuple[Decimal, Decimal]:
        """Bound the key over the interval that U is known to lie in."""
        # 1 − U cancels where U is small: add as many digits as U has.
        wide_context = bits.decimal_context(context.prec + self.width // 3)
        ends = []
        for v in (self.v, self.v + 1):
            numerator = (1 << self.width) - v if kind.smallest else v
            u = wide_context.divide(Decimal(numerator), Decimal(1 << self.width))
            e = u.ln(wide_context).copy_negate()  # infinite where U may be 0
            gap = context.subtract(bits.to_decimal(self.gap, context), Decimal(self.multiplicities).ln(context))
            ends.append(kind.exact(e, self.sign, gap, context))
        low, high = min(ends), max(ends)
        return (
            context.subtract(low, bits.rounding_slack(low, context)),
            context.add(high, bits.rounding_slack(high, context)),
        )


def draw_winners(
    kind: RaceKey, gaps: Gaps, rate: Fraction, count: int = 1, multiplicities: NDArray[Any] | None = None
) -> NDArray[np.int64]:
    """Return the ``count`` candidates with the least keys, first to last."""
    words = np.concatenate([bits.random_uint64(min(_CHUNK, gaps.size - i)) for i in range(0, gaps.size, _CHUNK)])
    # Distances from the count-th best, not from the best: one far leader must not blur the field behind it.
    base = np.partition(gaps, count - 1)[count - 1]
    keys, errors = np.empty(gaps.size), np.empty(gaps.size)
    for i in range(0, gaps.size, _CHUNK):
        part = slice(i, i + _CHUNK)
        keys[part], errors[part] = _keys_with_errors(
            kind, words[part], gaps[part], base, rate, None if multiplicities is None else multiplicities[part]
        )
    # A candidate whose key is surely above the count-th upper bound cannot be among the first.
    cutoff = np.partition(keys + errors, count - 1)[count - 1]
    finalists = np.flatnonzero(keys - errors <= cutoff)
    order = finalists[np.argsort(keys[finalists], kind="stable")]
    low, high = keys[order] - errors[order], keys[order] + errors[order]
    if np.all(np.maximum.accumulate(high)[:-1] < low[1:]):
        return order[:count].astype(np.int64)
    return np.array(_rank_exactly(kind, order, words, gaps, rate, multiplicities)[:count], np.int64)


def draw_winners_of_rows(kind: RaceKey, gaps: Gaps, rate: Fraction, count: int = 1) -> NDArray[np.int64]:
    """Return, for each row of a table, the ``count`` candidates with the least keys, first to last."""
    words = np.concatenate([bits.random_uint64(min(_CHUNK, gaps.size - i)) for i in range(0, gaps.size, _CHUNK)])
    words = words.reshape(gaps.shape)
    # Distances from the count-th best of each row: one far leader must not blur the field behind it.
    base = np.partition(gaps, count - 1, axis=1)[:, count - 1 : count]
    keys, errors = _keys_with_errors(kind, words, gaps, base, rate, None)
    order = np.argsort(keys, axis=1, kind="stable")
    low, high = (np.take_along_axis(bounds, order, axis=1) for bounds in (keys - errors, keys + errors))
    latest_before = np.maximum.accumulate(high, axis=1)[:, :-1]  # upper bound of the keys before each rank
    earliest_after = np.minimum.accumulate(low[:, :0:-1], axis=1)[:, ::-1]  # lower bound of the keys after it
    chosen = order[:, :count].astype(np.int64)
    for row in np.flatnonzero(~(latest_before < earliest_after)[:, :count].all(axis=1)).tolist():
        cutoff = np.partition(high[row], count - 1)[count - 1]  # a candidate surely above it is not among the first
        chosen[row] = _rank_exactly(kind, order[row][low[row] <= cutoff], words[row], gaps[row], rate, None)[:count]
    return chosen


def draw_winners_of_groups(
    kind: RaceKey, gaps: Gaps, rate: Fraction, begin: NDArray[np.intp], multiplicities: NDArray[Any]
) -> NDArray[np.intp]:
    """Return, for each group, the candidate with the least key; a group's candidates are contiguous from ``begin`` on,
    and the best of each has a gap of 0.
    """
    words = np.concatenate([bits.random_uint64(min(_CHUNK, gaps.size - i)) for i in range(0, gaps.size, _CHUNK)])
    keys, errors = _keys_with_errors(kind, words, gaps, np.uint64(0), rate, multiplicities)
    group = np.repeat(np.arange(begin.size), np.diff(np.append(begin, gaps.size)))
    # A candidate whose key is surely above another's upper bound cannot be first.
    finalists = np.flatnonzero(keys - errors <= np.minimum.reduceat(keys + errors, begin)[group])
    group_start = np.searchsorted(group[finalists], np.arange(begin.size))
    chosen = finalists[group_start]
    for index in np.flatnonzero(np.diff(np.append(group_start, finalists.size)) > 1).tolist():
        tied = finalists[
            group_start[index] : group_start[index + 1] if index + 1 < group_start.size else finalists.size
        ]
        chosen[index] = _rank_exactly(kind, tied, words, gaps, rate, multiplicities)[0]
    return chosen


def _keys_with_errors(
    kind: RaceKey,
    words: NDArray[np.uint64],
    gaps: Gaps,
    base: np.uint64 | Gaps,
    rate: Fraction,
    multiplicities: NDArray[Any] | None,
) -> tuple[Floats, Floats]:
    """Return the keys, and a bound on the error of each: rounding, and the width of U's interval."""
    v = (words >> np.uint64(1)).astype(np.float64)
    u = (v + 0.5) * _UNIT
    e = -np.log1p(-np.minimum(u, 1 - 2.0**-53)) if kind.smallest else -np.log(u)
    is_ahead = gaps < base
    distance = np.where(is_ahead, base - gaps, gaps - base).astype(np.float64) * float(rate)
    np.negative(distance, where=is_ahead, out=distance)
    if multiplicities is not None:
        distance = distance - np.log(multiplicities.astype(np.float64))
    keys = kind.keys(e, (words & np.uint64(1)).astype(bool), distance)
    # U lies within one unit of 2⁻⁶³ around u, and u's float within 2⁻⁵³: near 0 both ln E and E move by at most
    # 2/v; near 1,
    # where −ln(1 − U) is steep, by at most 2¹¹/(2⁶³ − v).
    error = np.where(v == 0, np.inf, 2 / np.maximum(v, 1.0))
    if kind.smallest:
        distance_to_one = 2.0**63 - v
        error += np.where(distance_to_one > 2.0**13, 2.0**11 / np.maximum(distance_to_one, 1.0), np.inf)
    return keys, error + 2.0**-46 * (np.abs(distance) + np.abs(keys) + e + 1)


def _rank_exactly(
    kind: RaceKey,
    order: NDArray[np.intp],
    words: NDArray[np.uint64],
    gaps: Gaps,
    rate: Fraction,
    multiplicities: NDArray[Any] | None,
) -> list[int]:
    """Return the exact order of the few candidates that floating point could not separate."""
    runners = [
        _UnrankedCandidate(
            int(index),
            int(words[index]) >> 1,
            _WIDTH,
            bool(words[index] & np.uint64(1)),
            int(gaps[index]) * rate,
            1 if multiplicities is None else int(multiplicities[index]),
        )
        for index in order
    ]
    precision = 60
    while True:
        context = bits.decimal_context(precision)
        ranked = sorted(((runner.key(kind, context), runner) for runner in runners), key=lambda pair: pair[0])
        tied = {
            side for i in range(len(ranked) - 1) if not ranked[i][0][1] < ranked[i + 1][0][0] for side in (i, i + 1)
        }
        if not tied:
            return [runner.index for _, runner in ranked]
        for i in tied:
            runner = ranked[i][1]
            runner.v, runner.width = (runner.v << 64) | bits.random_bits(64), runner.width + 64
        precision += 40
