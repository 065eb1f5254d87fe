"""Mechanisms: frozen values that draw their noise, state their privacy loss and bound their error.

bits                            the only source of randomness; exact decisions about uniform numbers
protocols                       the three kinds: additive, selection, interactive
laplace, gaussian, guide_tables exact samplers: vectorised, scalar, and by guide table
confidence_limits               exact confidence limits of a frequency
grids                           conversion to whole grid steps and back
additive, noise_sums            Laplace and Gaussian noise; half-widths of sums of noises
response                        local mechanisms: reports randomised at the source
outcome_laws                    exact laws of noise and of selections on one input
races, selection                exact choice among many; selection by scores, and of frequent values
sparse                          the sparse vector technique
rank_choices, quantiles         selection by rank, in many groups at once
key_thresholds                  which keys may be shown
factorisations                  the matrix mechanism for running totals
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

codec.register_module("sfumato.mechanisms.quantiles")
