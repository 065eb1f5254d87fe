"""What a guarantee means for one person, in numbers and in words.

(ε, δ)-DP does not say that the privacy loss L stays below ε outside an event of probability δ: a Gaussian calibrated
to (1, 1e-6) has P(L > 1) = 2.0e-5. What follows from δ(ε), for every mechanism that has it and all neighbours:

Theorem. For t > ε, P(L > t) ≤ δ(ε)/(1 − e^{ε−t}). Proof: on S = {L > t}, Q(S) ≤ e^{−t}·P(S), so
δ(ε) ≥ P(S) − e^ε·Q(S) ≥ (1 − e^{ε−t})·P(S). ∎ So, except with probability p, the loss is at most the least
ε − ln(1 − δ(ε)/p). With a bare (ε, δ) that is ε + h except with probability δ/(1 − e^{−h}).

Odds move by e^L for a reader who knows all other rows, and by no more for one whose beliefs about the others do not
depend on the unit: both likelihoods are then averages over one law of the other rows. For any other reader the two
conclusions, with and without the unit in the data, have odds within e^{2ε} of each other if ε is pure (compare
Kasiviswanathan & Smith 2014). The exception is counted where the guess is true; where it is false, L > t is rarer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.html_fragments import paragraph
from sfumato.privacy import codec
from sfumato.privacy.curve import Curve
from sfumato.privacy.guarantee import Guarantee, Neighbours
from sfumato.privacy.numbers import BELOW_ONE, INSIDE_UNIT, Number, exact, float_above, format_percent
from sfumato.quick_dataclass import dataclass

_SMALLEST_SHARE = Fraction(1, 10**300)
_ROUND_UP = 1 + 2.0**-45  # what is computed here is known to far better than this


@codec.serialisable("reading")
@dataclass(frozen=True)
class Reading:
    """How far the belief about one unit can move, of a reader who knows all other units, or whose beliefs about them do
    not depend on this one.
    """

    epsilon: float
    """Except with probability ``delta`` the odds that the unit is in the data (where membership is public: that a value
    is theirs) rise at most e^epsilon times.
    """
    delta: float
    """The probability that the statements about belief do not hold. Not the δ of an (ε, δ) guarantee."""
    prior: float
    """What was believed before: the probability of the guess."""
    membership: float | None
    """The most that can be believed afterwards that the unit is in the data. None when membership is public."""
    attribute: float
    """The most that can be believed about a value of a unit known to be there: under add-remove neighbours the unit
    is taken out and put back with another value, which is a change of two units.
    """
    false_positive_rate: float
    true_positive_rate: float
    """The most true positives a test for one unit can have at that false positive rate, without exception."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            object.__setattr__(self, field.name, None if value is None else float(value))

    def __str__(self) -> str:
        head = f"Except with probability {self.delta:.3g}" if self.delta else f"At ε = {self.epsilon:.4g}"
        lines = [f"{head}, for any one unit:"]
        belief = f"a belief of {format_percent(self.prior)} becomes at most"
        if self.membership is not None:
            lines.append(f"- being in the data: {belief} {_percent_rounded_up(self.membership)}")
        lines.append(f"- a value of theirs: {belief} {_percent_rounded_up(self.attribute)}")
        test = (
            f"a test that is wrong {format_percent(self.false_positive_rate)} of the time when they are absent "
            f"finds them at most {_percent_rounded_up(self.true_positive_rate)} of the time"
        )
        return "\n".join([*lines, f"Without exception, {test}" if self.delta else f"- {test}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return paragraph(str(self))


def reading(
    promise: Guarantee | Curve,
    prior: Number = "0.01",
    *,
    delta: Number | None = None,
    neighbours: Neighbours | str | None = None,
    false_positive_rate: Number = "0.05",
) -> Reading:
    """Interpret a guarantee, or a curve, for one person about whom something was believed with probability ``prior``.

    What is said about beliefs holds except with probability ``delta``. It can be left out for what is pure, where
    there is no exception, and for a bare (ε, δ), where it is ten times the δ of what is said about values: it must be
    larger than δ, since what an (ε, δ) guarantee forgives can move odds without any limit.

    >>> print(reading(Guarantee(1)))
    At ε = 1, for any one unit:
    - being in the data: a belief of 1 % becomes at most 2.7 %
    - a value of theirs: a belief of 1 % becomes at most 7.0 %
    - a test that is wrong 5 % of the time when they are absent finds them at most 13.6 % of the time
    """
    belief = float(exact(prior, "prior", INSIDE_UNIT))
    curve = _curve_of_promise(promise, neighbours)
    is_replace = curve.neighbours is Neighbours.REPLACE
    swapped = curve if is_replace else _replacement_curve(curve)
    default_exception = _default_delta(curve, swapped) if isinstance(promise, Guarantee) else Fraction(0)
    exception = default_exception if delta is None else exact(delta, "delta", BELOW_ONE)
    epsilon = _log_odds_bound(curve, exception)
    if epsilon == math.inf:
        raise InvalidParameter(
            "delta",
            delta,
            f"above {float(curve.failure):.3g}: this curve has no finite ε at a smaller δ",
            fix=f"set delta to a value above {float(curve.failure):.3g}",
        )
    attribute = epsilon if is_replace else _log_odds_bound(swapped, exception)
    return Reading(
        epsilon=epsilon,
        delta=float(exception),
        prior=belief,
        membership=None if is_replace else posterior(belief, epsilon),
        attribute=posterior(belief, attribute),
        false_positive_rate=float(exact(false_positive_rate, "false_positive_rate", INSIDE_UNIT)),
        true_positive_rate=min(1.0, (1 - curve.tradeoff(false_positive_rate)) * _ROUND_UP),
    )


def _curve_of_promise(promise: Guarantee | Curve, neighbours: Neighbours | str | None) -> Curve:
    if isinstance(promise, Curve):
        if neighbours is not None and Neighbours.of(neighbours) is not promise.neighbours:
            raise InvalidParameter("neighbours", neighbours, "left out for a curve, which states its own")
        return promise
    if not isinstance(promise, Guarantee):
        raise InvalidParameter(
            "promise", promise, "a Guarantee or a Curve", fix="pass a guarantee, such as sf.Guarantee(1) for ε = 1"
        )
    return Curve.approximate(
        promise.epsilon, promise.delta, Neighbours.ADD_REMOVE if neighbours is None else neighbours
    )


def _replacement_curve(curve: Curve) -> Curve | None:
    """Return the curve for exchanging one unit for another; None where nothing is known."""
    try:
        return curve.for_neighbours(Neighbours.REPLACE)
    except InvalidParameter:
        return None


def _default_delta(curve: Curve, replacement_curve: Curve | None) -> Fraction:
    """Return ten times the δ of an exchange, or of one unit where that is 1 or more."""
    shares = [10 * candidate.failure for candidate in (replacement_curve, curve) if candidate is not None]
    return next((share for share in shares if share < 1), (1 + curve.failure) / 2)


def _log_odds_bound(curve: Curve | None, share: Fraction) -> float:
    """Return the least ε − ln(1 − δ(ε)/share): a bound of the loss, except with this probability.

    Any ε gives a bound. The best is found by ternary search over the log-odds of δ(ε)/share.
    """
    if curve is None or (share and share <= curve.failure):
        return math.inf
    if not share:
        return curve.epsilon(0)
    floor = max(curve.failure, _SMALLEST_SHARE)

    def bound(part: float) -> float:
        spent = floor + max(_SMALLEST_SHARE, Fraction(part) * (share - floor))
        return curve.epsilon(spent) - math.log1p(-float_above(spent / share)) if spent < share else math.inf

    best = min(
        curve.epsilon(curve.failure) - math.log1p(-float_above(curve.failure / share)),
        _minimum_by_ternary_search(bound),
    )
    return min(best * _ROUND_UP, curve.epsilon(0))


def _minimum_by_ternary_search(bound: Callable[[float], float]) -> float:
    """Return the least value of a function on (0, 1) that ternary search sees, by log-odds between −20 and 7."""
    low, high, best = -20.0, 7.0, math.inf
    while high - low > 0.05:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        a, b = (bound(1 / (1 + math.exp(-log_odds))) for log_odds in (left, right))
        best = min(best, a, b)
        low, high = (low, right) if a < b else (left, high)
    return best


def posterior(prior: float, log_odds: float) -> float:
    """Return the probability whose odds are e^{log_odds} times those of ``prior``, rounded up."""
    return min(1.0, _ROUND_UP / (1 + (1 - prior) / prior * math.exp(-log_odds)))


def _percent_rounded_up(share: float) -> str:
    """Format a share as a percentage rounded up: one decimal, or three below 1 %."""
    decimals = 1 if share >= 0.01 else 3
    scale = 10**decimals
    return f"{min(100.0, math.ceil(share * 100 * scale * (1 - 2.0**-40)) / scale):.{decimals}f} %"
