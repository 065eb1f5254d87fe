"""The three kinds of mechanisms, and the interface of each.

An *additive* mechanism adds noise to whole totals. A *selection* releases one candidate of many. An *interactive* one
answers a series of questions while it keeps a secret in between. Each knows how it is drawn, what it leaks (``curve``),
how wrong it may be (``error``) and how it is called in words; whoever uses one never asks which class it is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeGuard, runtime_checkable
from weakref import WeakSet

from sfumato.privacy import Curve, Sensitivity
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number


class Mechanism(Protocol):
    """What every mechanism states of itself."""

    interactive: ClassVar[bool]
    """Whether a secret stays open between its answers: then it is charged whole before the first."""


@runtime_checkable
class Additive(Mechanism, Protocol):
    """A mechanism that adds noise to whole totals, or to whole steps of a grid.

    Its law is P(x) ∝ exp(−|x|^p/(p·s^p)), where p is its ``order`` and s its size.
    """

    pure: ClassVar[bool]
    """Whether what it leaks is bounded by an ε alone, so that an account's pure currency stays open."""
    order: ClassVar[int]
    """The noise it needs grows with the L1 norm (1) or the L2 norm (2) of what one unit changes."""

    @property
    def grid(self) -> Fraction | None:
        """The step on which values and noise lie; None is 1."""
        ...

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        """The size of the noise in grid steps: one for all elements, or one for each."""
        ...

    @classmethod
    def of_size(cls, size: Fraction) -> Additive:
        """Return the mechanism whose noise has this size."""
        ...

    @classmethod
    def norm(cls, change: Sensitivity) -> Fraction:
        """Return the norm of one unit's change that the noise grows with."""
        ...

    @classmethod
    def closed_form(cls, *, epsilon: Fraction | None, rho: Fraction | None) -> Fraction | None:
        """Return the size of noise, for a change of norm 1, that costs exactly this; None without a closed form."""
        ...

    def apply(self, values: Any) -> Any:
        """Add fresh noise to the values."""
        ...

    def curve(self, sensitivity: Sensitivity | Number = 1) -> Curve:
        """Return the privacy loss for values of this sensitivity."""
        ...

    def error(self, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> Fraction:
        """Return the half-width that holds all of k noises with this confidence."""
        ...

    def sum_error(self, terms: int, confidence: Number = DEFAULT_CONFIDENCE, k: int = 1) -> Fraction:
        """Return the half-width that holds all of k sums, of ``terms`` noises each, with this confidence."""
        ...

    def words(self, unit_value: Fraction = Fraction(1), digits: int = 6) -> str:
        """Describe the noise in words; its size is multiplied by ``unit_value``, the value of one unit of the totals,
        and has so many digits.
        """
        ...


_ADDITIVE_CLASSES: WeakSet[type] = WeakSet()


def is_additive(mechanism: object) -> TypeGuard[Additive]:
    """Return whether a mechanism is additive. A protocol is checked attribute by attribute, so each class once."""
    kind = type(mechanism)
    if kind in _ADDITIVE_CLASSES:
        return True
    if isinstance(mechanism, Additive):
        _ADDITIVE_CLASSES.add(kind)
        return True
    return False


@runtime_checkable
class SelectionMechanism(Mechanism, Protocol):
    """A mechanism that chooses one candidate, or a few, of many: by scores, ranks or counts, or the report that stands
    for a unit's own answer.

    The mechanism itself states the sensitivity.
    """

    def choose(self, exact: Any) -> Any:
        """Return the choice, given the exact scores, values, counts or answers."""
        ...

    def curve(self) -> Curve:
        """Return the privacy loss at the mechanism's own sensitivity."""
        ...

    def error(self, *about: Any, **more: Any) -> float:
        """Bound, with a confidence, how far the choice lies from the best, in the mechanism's own terms."""
        ...

    def words(self) -> str:
        """Describe the choice in words."""
        ...


@runtime_checkable
class Interactive(Mechanism, Protocol):
    """A mechanism that gives a series of answers around one secret."""

    def start(self) -> Any:
        """Draw the secret, which lives in memory only, and begin to answer."""
        ...

    def curve(self) -> Curve:
        """Bound the privacy loss of the whole series, however long it becomes."""
        ...

    def error(self, questions: int, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Bound, with this confidence, by how much any answer among so many questions is wrong."""
        ...

    def words(self) -> str:
        """Describe the series in words."""
        ...
