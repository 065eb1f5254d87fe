"""A mechanism is one of three kinds, and this is what the rest of the system asks of each.

An *additive* mechanism adds noise to whole totals. A *selection* releases one candidate of many. An *interactive* one
answers a series of questions while it keeps a secret in between. Each knows how it is drawn, what it leaks (``curve``),
how wrong it may be (``error``) and how it is called in words; whoever uses one never asks which class it is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.numbers import Number


class Mechanism(Protocol):
    """Every mechanism says this of itself."""

    interactive: ClassVar[bool]
    """Whether a secret stays open between its answers: then it is charged whole before the first."""


@runtime_checkable
class Additive(Mechanism, Protocol):
    """Additive noise is added to whole totals, or to whole steps of a grid.

    Its law is P(x) ∝ exp(−|x|^p/(p·s^p)), where p is its ``order`` and s its size.
    """

    pure: ClassVar[bool]
    """Whether what it leaks is bounded by an ε alone, so that an account's pure currency stays open."""
    order: ClassVar[int]
    """The noise it needs grows with the L1 norm (1) or the L2 norm (2) of what one unit changes."""

    @property
    def grid(self) -> Fraction | None:
        """Give the step on which values and noise lie; None is 1."""
        ...

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        """Give the size of the noise in steps of the grid: one for all elements, or one for each."""
        ...

    @classmethod
    def of_size(cls, size: Fraction) -> Additive:
        """Make the mechanism whose noise has this size."""
        ...

    @classmethod
    def norm(cls, change: Sensitivity) -> Fraction:
        """Measure what one unit changes, by the norm that the noise grows with."""
        ...

    @classmethod
    def closed_form(cls, *, epsilon: Fraction | None, rho: Fraction | None) -> Fraction | None:
        """Find the size of noise, for a change of norm 1, that costs exactly this; None without a closed form."""
        ...

    def apply(self, values: Any) -> Any:
        """Add fresh noise to the values."""
        ...

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Give the curve of what it leaks when one unit moves the values by at most this."""
        ...

    def error(self, confidence: Number = "0.95", k: int = 1) -> Fraction:
        """Give the half-width that holds all of k noises with this confidence."""
        ...

    def sum_error(self, terms: int, confidence: Number = "0.95", k: int = 1) -> Fraction:
        """Give the half-width that holds all of k sums, of so many noises each, with this confidence."""
        ...

    def words(self, unit_value: Fraction = Fraction(1), digits: int = 6) -> str:
        """Say the noise in words, in terms in which one whole number of the totals has this value: its size has so
        many digits.
        """
        ...


@runtime_checkable
class SelectionMechanism(Mechanism, Protocol):
    """A selection chooses one candidate, or a few, of many: by scores, ranks or counts, or the report that stands for a
    unit's own answer.

    What one unit changes of that is stated by the mechanism itself.
    """

    def choose(self, exact: Any) -> Any:
        """Choose what is chosen, given the exact scores, values, counts or answers."""
        ...

    def curve(self) -> Curve:
        """Give the curve of what it leaks when one unit changes what is given by at most the mechanism's own
        sensitivity.
        """
        ...

    def error(self, *about: Any, **more: Any) -> float:
        """Bound, with a confidence, how far what is chosen lies from what is best, in the terms that the mechanism
        states.
        """
        ...

    def words(self) -> str:
        """Say the choice in words."""
        ...


@runtime_checkable
class Interactive(Mechanism, Protocol):
    """An interactive mechanism gives a series of answers around one secret."""

    def start(self) -> Any:
        """Draw the secret, which lives in memory only, and begin to answer."""
        ...

    def curve(self) -> Curve:
        """Bound what the whole series leaks, however long it becomes."""
        ...

    def error(self, questions: int, confidence: Number = "0.95") -> float:
        """Bound, with this confidence, by how much any answer among so many questions is wrong."""
        ...

    def words(self) -> str:
        """Say the series in words."""
        ...
