"""A mechanism says how its noise is drawn, what it leaks and how wrong it is, in one frozen value.

bits                            the only source of randomness; exact decisions about a uniform number known bit by bit
protocols                       the three kinds: additive, selection, interactive
laplace, gaussian, guide_tables the exact laws: vectorised, scalar, and from guide tables
confidence_limits               exact confidence limits of a frequency
grids                           whole steps in, whole steps plus noise out
additive, response              the values users hold: noise, and reports randomised at the source
races, scores                   exact choices among many; scores on a public grid
selection, sparse               choosing one of many, above a threshold
rank_choices, quantiles         choosing by rank, in many groups at once
quantiles                       what old ledgers say of them
key_thresholds                  which keys may be shown
selection                       the most frequent values of many groups
"""

from sfumato.mechanisms.additive import Gaussian, Laplace
from sfumato.mechanisms.key_thresholds import KeyThreshold
from sfumato.mechanisms.quantiles import Quantiles
from sfumato.mechanisms.response import (
    Estimate,
    OptimalLocalHashing,
    OptimizedUnaryEncoding,
    RandomizedResponse,
)
from sfumato.mechanisms.selection import (
    Exponential,
    FrequentValues,
    MaxNoise,
    NoisyMax,
    PermuteAndFlip,
    TopK,
    best_selection,
)
from sfumato.mechanisms.sparse import AboveThreshold, Session, SessionReceipt
from sfumato.privacy import codec

__all__ = [
    "AboveThreshold",
    "Estimate",
    "Exponential",
    "FrequentValues",
    "Gaussian",
    "KeyThreshold",
    "Laplace",
    "MaxNoise",
    "NoisyMax",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "PermuteAndFlip",
    "Quantiles",
    "RandomizedResponse",
    "Session",
    "SessionReceipt",
    "TopK",
    "best_selection",
]

codec.later("sfumato.mechanisms.quantiles")
