"""A request is what a caller asks of a release: a price, or an accuracy that decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import CONFIDENCE, Number, exact
from sfumato.release.parts.question_parts import Family, NamedNoise, noise_family
from sfumato.release.prices import Price

Within = Mapping[str, Number] | Number
"""Half-widths by column, or one for every column of numbers."""
Weights = Mapping[str, Number]
"""By column, how much its error counts when the price is split; 1 where nothing is said."""


@dataclass(frozen=True)
class Request:
    """A price is named by ε, (ε, δ) or ρ; or an accuracy is, and the least price that reaches it is paid."""

    epsilon: Number | None = None
    delta: Number = 0
    rho: Number | None = None
    within: Within | None = None
    confidence: Number = "0.95"
    mechanism: NamedNoise | None = None
    weights: Weights | None = None
    range: str | None = None
    """"value" buys, beside every quantile, two numbers between which it lies with this confidence,"""
    joint: bool = False
    """for all of them at once."""

    def __post_init__(self) -> None:
        exact(self.confidence, "confidence", CONFIDENCE)
        noise_family(self.mechanism)
        if self.range not in (None, "value"):
            raise InvalidParameter("range", self.range, 'left out, or "value" for ranges of the values of quantiles')
        if self.within is not None and (self.epsilon is not None or self.rho is not None):
            raise InvalidParameter("within", self.within, "given instead of epsilon or rho")
        if self.weights is not None and not isinstance(self.weights, Mapping):
            raise InvalidParameter("weights", self.weights, 'numbers by column, such as {"visits": 2}')

    @property
    def named(self) -> bool:
        """Tell whether the request names a price or an accuracy at all."""
        return not (self.epsilon is None and self.rho is None and self.within is None)

    @property
    def family(self) -> Family | None:
        """Give the family of noise that is named, if any."""
        return noise_family(self.mechanism)

    def around(self, together: int) -> Fraction | None:
        """Give the confidence with which each of so many ranges around quantiles is bought; None where none are."""
        return None if self.range is None else 1 - (1 - exact(self.confidence, "confidence")) / together

    @property
    def price(self) -> Price:
        """Give the price that is named."""
        return Price(self.epsilon, self.delta, self.rho)
