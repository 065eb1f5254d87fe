"""Mechanisms: how noise is drawn, what it leaks, how wrong it is, each in one frozen value.

bits                       the only source of randomness
lazily                     exact decisions about a uniform number known bit by bit
laplace, gaussian, tables  the exact laws: vectorised, scalar, and from guide tables
grids                      whole steps in, whole steps plus noise out
additive, response         the values users hold
"""

from sfumato.mechanisms.additive import Gaussian, Laplace
from sfumato.mechanisms.response import (
    Estimate,
    OptimalLocalHashing,
    OptimizedUnaryEncoding,
    RandomizedResponse,
)

__all__ = [
    "Estimate",
    "Gaussian",
    "Laplace",
    "OptimalLocalHashing",
    "OptimizedUnaryEncoding",
    "RandomizedResponse",
]
