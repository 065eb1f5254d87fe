"""Upper bounds on the success of any attack against answers with a privacy guarantee, for any side knowledge.

A guarantee here is for **replace** neighbours: one person's values are exchanged and everybody else's stay. Under
add-remove neighbours a change of values is a change of two units, (2ε, δ(1 + e^ε)): see ``replacement_guarantee``.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import binomial_upper_tail
from sfumato.privacy import Curve, Guarantee, Neighbours, theorems
from sfumato.privacy.numbers import INSIDE_UNIT, PROBABILITY, Number, exact, exact_integer

_MAX_EPSILON = 700.0
"""For a larger ε the ceiling is 1 in floating point."""


def replacement_guarantee(guarantee: Guarantee, neighbours: Neighbours | str) -> Guarantee:
    """Return the guarantee for replacing one person's values: unchanged under replace neighbours, that of a group of
    two under add-remove (``theorems.group``; Dwork & Roth 2014, Theorem 2.2, is the case δ = 0).
    """
    promise = Guarantee.of(guarantee)
    return promise if Neighbours.of(neighbours) is Neighbours.REPLACE else theorems.group(promise, 2)


def guess_ceiling(guarantee: Guarantee, prior: Number = "1/2", choices: int = 2) -> float:
    """Bound the probability of guessing one person's value by p(e^ε + (k − 1)δ) / (p·e^ε + 1 − p).

    The value is one of k = ``choices``, of which the likeliest has probability p = ``prior``.

    Let g(j|v) be the probability of the guess j when v is the value. For v ≠ j a guarantee under replace neighbours
    gives g(j|v) ≥ e^−ε(g(j|j) − δ). Weighted by the prior π, all guesses add up to one:
    1 ≥ S + Σⱼ(1 − πⱼ)e^−ε(g(j|j) − δ) ≥ S(1 + e^−ε(1 − p)/p) − e^−ε(k − 1)δ, where S = Σπⱼg(j|j) is the probability of
    a right guess. For a uniform bit this is (e^ε + δ)/(1 + e^ε), no more than e^ε/(1 + e^ε) + δ.

    >>> round(guess_ceiling(Guarantee(1)), 4)
    0.7311
    """
    promise = Guarantee.of(guarantee)
    p, k = float(exact(prior, "prior", INSIDE_UNIT)), exact_integer(choices, "choices", at_least=2)
    if p * k < 1 - 1e-9:
        raise InvalidParameter(
            "prior",
            prior,
            f"at least 1/{k}, since the likeliest of {k} values is at least that likely",
            fix=f"for example, write prior={math.ceil(100 / k) / 100}",
        )
    exp_minus_epsilon = math.exp(-min(float(promise.epsilon), _MAX_EPSILON))
    return min(1.0, p * (1 + (k - 1) * float(promise.delta) * exp_minus_epsilon) / (p + (1 - p) * exp_minus_epsilon))


def account_guess_ceiling(guarantee: Guarantee, neighbours: Neighbours | str) -> float:
    """Bound the probability of guessing a fair coin about one unit from all answers of an account.

    It is 1 if ε is so large that the δ of two units exceeds 1.
    """
    try:
        return guess_ceiling(replacement_guarantee(guarantee, neighbours))
    except InvalidParameter:
        return 1.0


def curve_guess_ceiling(curve: Curve) -> float:
    """Bound the probability of guessing a fair coin between two neighbours from the privacy curve: ½(1 + δ(0)).

    δ(0) bounds the total variation distance between the two output distributions, and the likelihood-ratio test is
    correct with probability one half plus half of that distance (Neyman & Pearson 1933). On the trade-off curve it is
    the largest 1 − ½(a + b) over false alarms a and misses b.

    >>> round(curve_guess_ceiling(Curve.pure(1)), 4)
    0.7311
    """
    return min(1.0, (1 + curve.delta(0)) / 2)


def power_ceiling(guarantee: Guarantee, false_alarms: Number) -> float:
    """Bound the power of a test with false-alarm rate a: the smaller of e^ε·a + δ and 1 − e^−ε(1 − δ − a).

    This is the trade-off curve (Wasserman & Zhou 2010; with δ, Kairouz, Oh & Viswanath 2015). For a person's presence
    use the guarantee of the account; for a person's value that of ``replacement_guarantee``.

    >>> round(power_ceiling(Guarantee(1), "0.05"), 4)
    0.1359
    """
    promise = Guarantee.of(guarantee)
    rate = float(exact(false_alarms, "false_alarms", PROBABILITY))
    exp_epsilon, delta = math.exp(min(float(promise.epsilon), _MAX_EPSILON)), float(promise.delta)
    return max(rate, min(1.0, exp_epsilon * rate + delta, 1 - (1 - delta - rate) / exp_epsilon))


def max_correct(trials: int, ceiling: float, alarm: Number = "1e-6") -> int:
    """Return the count of correct guesses that is exceeded with probability at most ``alarm``, if each of ``trials``
    guesses is correct with probability at most ``ceiling`` given all others.

    Guesses from one ε-DP release satisfy this: given the answers and all other bits, a uniform bit is guessed with
    probability at most e^ε/(1 + e^ε), so the guesses are dominated by independent coins (Steinke, Nasr & Jagielski
    2023, Theorem 5.2, for δ = 0).
    """
    trial_count, error_probability = (
        exact_integer(trials, "trials", at_least=1),
        float(exact(alarm, "alarm", INSIDE_UNIT)),
    )
    if not 0 <= ceiling <= 1:
        raise InvalidParameter("ceiling", ceiling, "a probability from 0 to 1")
    low, high = 0, trial_count  # counts above ``high`` are impossible
    while low < high:
        midpoint = (low + high) // 2
        if binomial_upper_tail(midpoint + 1, trial_count, ceiling) <= error_probability:
            high = midpoint
        else:
            low = midpoint + 1
    return high


def epsilon_lower_bound(right: int, trials: int, alarm: Number = "1e-6") -> float:
    """Return a lower bound on ε from correct guesses of uniform bits, valid except with probability ``alarm``.

    It is 0 if blind guessing would plausibly do as well.
    """
    trial_count, correct = exact_integer(trials, "trials", at_least=1), exact_integer(right, "right")
    if correct > trial_count:
        raise InvalidParameter("right", right, f"at most {trial_count}, the number of trials")
    error_probability = float(exact(alarm, "alarm", INSIDE_UNIT))
    low, high = 0.0, 50.0
    if correct == 0 or binomial_upper_tail(correct, trial_count, 0.5) > error_probability:
        return 0.0
    while high - low > 1e-9:
        midpoint = (low + high) / 2
        if binomial_upper_tail(correct, trial_count, 1 / (1 + math.exp(-midpoint))) > error_probability:
            high = midpoint
        else:
            low = midpoint
    return low


def format_percent_up(share: float) -> str:
    """Format a ceiling in percent, rounded up, so that it is never below the bound.

    >>> format_percent_up(0.7310585)
    '73.2 %'
    """
    return f"{min(1000, math.ceil(1000 * Fraction(share))) / 10:.1f} %"
