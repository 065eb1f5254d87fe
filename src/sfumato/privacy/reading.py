"""What a guarantee means for one person, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import BELOW_ONE, INSIDE_UNIT, Number, exact


@codec.value("reading")
@dataclass(frozen=True)
class Reading:
    """How far anyone's belief about one unit can move, whatever else they know (Kasiviswanathan & Smith 2014)."""

    epsilon: float
    delta: float
    prior: float
    """What was believed before: the probability of the guess."""
    membership: float | None
    """The most that can be believed afterwards that the unit is in the data: odds times e^ε. None when membership
    is public.
    """
    attribute: float
    """The most that can be believed about a value of a unit known to be there: odds times e^{2ε} (add-remove) or
    e^ε (replace).
    """
    false_positive_rate: float
    true_positive_rate: float
    """The most true positives a test for one unit can have at that false positive rate."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            object.__setattr__(self, each.name, None if value is None else float(value))

    def __str__(self) -> str:
        lines = [f"At ε = {self.epsilon:.4g}{f', δ = {self.delta:.3g}' if self.delta else ''}, for any one unit:"]
        if self.membership is not None:
            lines.append(f"- being in the data: a belief of {self.prior:.3%} becomes at most {self.membership:.3%}")
        lines.append(f"- a value of theirs: a belief of {self.prior:.3%} becomes at most {self.attribute:.3%}")
        lines.append(
            f"- a test that is wrong {self.false_positive_rate:.1%} of the time when they are absent "
            f"finds them at most {self.true_positive_rate:.1%} of the time"
        )
        if self.delta:
            lines.append(
                f"The first statements hold outside an event of probability {self.delta:.3g}; the last includes it."
            )
        return "\n".join(lines)


def reading(
    promise: Guarantee | Curve,
    prior: Number = "0.01",
    *,
    delta: Number | None = None,
    neighbours: Neighbours | str | None = None,
    false_positive_rate: Number = "0.05",
) -> Reading:
    """A guarantee, or a curve at a δ, read for one person who was believed with probability ``prior`` to be or to
    have something.

    >>> print(reading(Guarantee(1)))
    At ε = 1, for any one unit:
    - being in the data: a belief of 1.000% becomes at most 2.672%
    - a value of theirs: a belief of 1.000% becomes at most 6.945%
    - a test that is wrong 5.0% of the time when they are absent finds them at most 13.6% of the time
    """
    belief = float(exact(prior, "prior", INSIDE_UNIT))
    curve = _curve(promise, neighbours)
    if isinstance(promise, Guarantee) and delta is not None:
        raise InvalidParameter("delta", delta, "left out for a guarantee, which has its own")
    own = promise.delta if isinstance(promise, Guarantee) else 0
    spare = exact(own if delta is None else delta, "delta", BELOW_ONE)
    epsilon = curve.epsilon(spare)
    if epsilon == math.inf:
        raise InvalidParameter("delta", delta, f"above {float(curve.failure):.3g} for this curve: it is not pure")
    replaced = curve.neighbours is Neighbours.REPLACE
    return Reading(
        epsilon=epsilon,
        delta=float(spare),
        prior=belief,
        membership=None if replaced else _posterior(belief, epsilon),
        attribute=_posterior(belief, epsilon if replaced else 2 * epsilon),
        false_positive_rate=float(exact(false_positive_rate, "false_positive_rate", INSIDE_UNIT)),
        true_positive_rate=1 - curve.tradeoff(false_positive_rate),
    )


def _curve(promise: Guarantee | Curve, neighbours: Neighbours | str | None) -> Curve:
    if isinstance(promise, Curve):
        if neighbours is not None and Neighbours.of(neighbours) is not promise.neighbours:
            raise InvalidParameter("neighbours", neighbours, "left out for a curve, which knows its own")
        return promise
    if not isinstance(promise, Guarantee):
        raise InvalidParameter("promise", promise, "a Guarantee or a Curve")
    return Curve.approximate(
        promise.epsilon, promise.delta, Neighbours.ADD_REMOVE if neighbours is None else neighbours
    )


def _posterior(prior: float, log_odds: float) -> float:
    """The probability whose odds are e^{log_odds} times those of ``prior``."""
    return 1 / (1 + (1 - prior) / prior * math.exp(-min(700.0, log_odds)))
