"""The three kinds of mechanism, as the rest of the system sees them.

An *additive* mechanism adds noise to whole totals. A *selection* releases one candidate of many. An *interactive* one
answers a series of questions while it keeps a secret in between. Each knows how it is drawn, what it leaks (``curve``)
and how it is called in words; whoever uses one never asks which it is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol

from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.numbers import Number


class Mechanism(Protocol):
    """What every mechanism says of itself."""

    interactive: ClassVar[bool]
    """Whether a secret stays open between its answers: then it is charged whole before the first."""


class Additive(Mechanism, Protocol):
    """Noise on whole totals."""

    pure: ClassVar[bool]
    """Whether what it leaks is bounded by an ε alone, so that an account's pure currency stays open."""
    order: ClassVar[int]
    """The noise it needs grows with the L1 norm (1) or the L2 norm (2) of what one unit changes."""

    @classmethod
    def of_size(cls, size: Fraction) -> Additive:
        """The mechanism whose noise has this size."""
        ...

    @classmethod
    def norm(cls, change: Sensitivity) -> Fraction:
        """What one unit changes, by the norm that the noise grows with."""
        ...

    @classmethod
    def closed_form(cls, *, epsilon: Fraction | None, rho: Fraction | None) -> Fraction | None:
        """The size of noise, for a change of norm 1, that costs exactly this; None where no closed form is known."""
        ...

    def apply(self, values: Any) -> Any:
        """The values plus fresh noise."""
        ...

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        """What it leaks when one unit moves the values by at most this."""
        ...

    def error(self, confidence: Number = "0.95", k: int = 1) -> Fraction:
        """The half-width that holds all of k noises with this confidence."""
        ...

    def words(self, unit_value: Fraction = Fraction(1)) -> str:
        """The noise in words, in terms in which one whole number of the totals has this value."""
        ...


class Selection(Mechanism, Protocol):
    """One candidate, or a few, of many."""

    def choose(self, scores: Any) -> Any:
        """The candidates chosen by their scores."""
        ...

    def curve(self) -> Curve:
        """What it leaks when one unit moves every score by at most the mechanism's own sensitivity."""
        ...

    def words(self) -> str:
        """The choice in words."""
        ...


class Interactive(Mechanism, Protocol):
    """A series of answers around one secret."""

    def start(self) -> Any:
        """Draw the secret, which lives in memory only, and begin to answer."""
        ...

    def curve(self) -> Curve:
        """What the whole series leaks, however long it becomes."""
        ...

    def words(self) -> str:
        """The series in words."""
        ...
