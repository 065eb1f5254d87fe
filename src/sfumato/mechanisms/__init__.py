"""Mechanisms: frozen values that draw their noise, state their privacy loss and bound their error.

bits                            the only source of randomness; exact decisions about uniform numbers
protocols                       the three kinds: additive, selection, interactive
laplace, gaussian               exact samplers: vectorised, scalar, and by guide table (gaussian)
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

Names are imported on first use: an account is opened without any mechanism.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.privacy import codec

if TYPE_CHECKING:
    from sfumato.mechanisms.additive import Gaussian as Gaussian, Laplace as Laplace
    from sfumato.mechanisms.key_thresholds import KeyThreshold as KeyThreshold
    from sfumato.mechanisms.quantiles import Quantiles as Quantiles
    from sfumato.mechanisms.response import (
        Estimate as Estimate,
        OptimalLocalHashing as OptimalLocalHashing,
        OptimizedUnaryEncoding as OptimizedUnaryEncoding,
        RandomizedResponse as RandomizedResponse,
    )
    from sfumato.mechanisms.selection import (
        Exponential as Exponential,
        FrequentValues as FrequentValues,
        MaxNoise as MaxNoise,
        NoisyMax as NoisyMax,
        PermuteAndFlip as PermuteAndFlip,
        TopK as TopK,
        best_selection as best_selection,
    )
    from sfumato.mechanisms.sparse import (
        AboveThreshold as AboveThreshold,
        Session as Session,
        SessionReceipt as SessionReceipt,
    )

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

# fmt: off
_EXPORTS = {
    "additive": ("Gaussian", "Laplace",),
    "key_thresholds": ("KeyThreshold",),
    "quantiles": ("Quantiles",),
    "response": ("Estimate", "OptimalLocalHashing", "OptimizedUnaryEncoding", "RandomizedResponse",),
    "selection": ("Exponential", "FrequentValues", "MaxNoise", "NoisyMax", "PermuteAndFlip", "TopK", "best_selection",),
    "sparse": ("AboveThreshold", "Session", "SessionReceipt",),
}
# fmt: on
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
for _module in _EXPORTS:
    codec.register_module(f"sfumato.mechanisms.{_module}")


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"sfumato.mechanisms.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'sfumato.mechanisms' has no attribute {name!r}")
