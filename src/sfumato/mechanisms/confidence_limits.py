"""Exact confidence limits of a frequency (Clopper & Pearson 1934)."""

from __future__ import annotations

import math

import numpy as np

_ROUNDING, _ROUNDING_PER_TRIAL = 1e-7, 2e-14
"""More than logarithms of factorials may be wrong by, for all trials and for each of them: ln n! is about n·ln n, of
which floating point knows fifteen digits."""


def binomial_upper_tail(successes: int, trials: int, success_probability: float) -> float:
    """Return P(X ≥ successes) for X binomial: the first term times the sum of the following ratios, which fall
    geometrically.
    """
    if successes <= 0:
        return 1.0
    if success_probability <= 0 or successes > trials:
        return 0.0
    if successes <= trials * success_probability:  # sum the shorter side
        return 1.0 - binomial_upper_tail(trials - successes + 1, trials, 1 - success_probability)
    log_first = (
        math.lgamma(trials + 1)
        - math.lgamma(successes + 1)
        - math.lgamma(trials - successes + 1)
        + successes * math.log(success_probability)
        + (trials - successes) * math.log1p(-success_probability)
    )
    later_counts = np.arange(successes, successes + 8 * math.isqrt(trials))  # e^{−100} of the first term is left out
    ratios = (trials - later_counts) / (later_counts + 1) * (success_probability / (1 - success_probability))
    rounding = 1 + _ROUNDING + _ROUNDING_PER_TRIAL * trials
    return min(1.0, math.exp(min(0.0, log_first)) * (1 + float(np.cumprod(ratios).sum())) * rounding)


def lower_confidence_limit(successes: int, trials: int, miss: float) -> float:
    """Return a p that the true probability exceeds except with probability ``miss``: the p at which so many successes
    are that unlikely.
    """
    if successes == 0:
        return 0.0
    low, high = 0.0, successes / trials
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_upper_tail(successes, trials, middle) <= miss else (low, middle)
    return low


def upper_confidence_limit(successes: int, trials: int, miss: float) -> float:
    """Return a p that the true probability stays below except with probability ``miss``."""
    return 1.0 - lower_confidence_limit(trials - successes, trials, miss)
