"""Sfumato: a trusted curator for tables about people, with differential privacy.

import sfumato as sf
sf.Curve.laplace(scale=2).epsilon(0)
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from sfumato import errors
from sfumato.errors import InvalidParameter, NeighboursDiffer, Overspent, SessionClosed, SfumatoError
from sfumato.mechanisms import (
    AboveThreshold,
    Exponential,
    Gaussian,
    KeyThreshold,
    Laplace,
    NoisyMax,
    OptimalLocalHashing,
    OptimizedUnaryEncoding,
    PermuteAndFlip,
    Quantiles,
    RandomizedResponse,
    TopK,
    best_selection,
)
from sfumato.privacy import (
    Budget,
    Cost,
    Curve,
    Guarantee,
    Neighbours,
    Noise,
    Odometer,
    PrivacyLoss,
    PrivacyUnit,
    Reading,
    Sensitivity,
    calibrate,
    compose,
    divergences,
    dumps,
    loads,
    odometer,
    reading,
    theorems,
)

__version__ = "0.1.0"

__all__ = [
    "AboveThreshold",
    "Budget",
    "Cost",
    "Curve",
    "Exponential",
    "Gaussian",
    "Guarantee",
    "InvalidParameter",
    "KeyThreshold",
    "Laplace",
    "Neighbours",
    "NeighboursDiffer",
    "Noise",
    "NoisyMax",
    "Odometer",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "Overspent",
    "PermuteAndFlip",
    "PrivacyLoss",
    "PrivacyUnit",
    "Quantiles",
    "RandomizedResponse",
    "Reading",
    "Sensitivity",
    "SessionClosed",
    "SfumatoError",
    "TopK",
    "__version__",
    "audit",
    "best_selection",
    "calibrate",
    "compose",
    "divergences",
    "dumps",
    "errors",
    "loads",
    "odometer",
    "reading",
    "theorems",
]

_ON_FIRST_USE = {"audit"}


def __getattr__(name: str) -> ModuleType:
    """Packages that only some users need are imported when they are first named."""
    if name in _ON_FIRST_USE:
        return import_module(f"sfumato.{name}")
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
