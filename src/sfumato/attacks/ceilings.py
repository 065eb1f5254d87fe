"""Ceilings say how far any attack can come on answers that keep a guarantee, whatever else the attacker knows.

A guarantee here is for **replace** neighbours: one person's values are exchanged for others, and everybody else stays.
Under add-remove neighbours a change of values is a change of two units, (2ε, δ(1 + e^ε)): ``for_replacing`` says so.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.confidence_limits import upper_tail
from sfumato.privacy import Curve, Guarantee, Neighbours, theorems
from sfumato.privacy.numbers import INSIDE_UNIT, PROBABILITY, Number, exact, whole

_FURTHEST = 700.0
"""A larger ε has no ceiling that differs from 1 in floating point."""


def for_replacing(guarantee: Guarantee, neighbours: Neighbours | str) -> Guarantee:
    """Say what a guarantee promises when one person's values are replaced: itself under replace neighbours, that of a
    group of two under add-remove (Dwork & Roth 2014, Theorem 2.2, with δ).
    """
    promise = Guarantee.of(guarantee)
    return promise if Neighbours.of(neighbours) is Neighbours.REPLACE else theorems.group(promise, 2)


def guess_ceiling(guarantee: Guarantee, prior: Number = "1/2", choices: int = 2) -> float:
    """Bound the probability that anybody guesses one person's value, of ``choices`` whose likeliest has the
    probability ``prior``, by p(e^ε + (k − 1)δ) / (p·e^ε + 1 − p).

    Let g(j|v) be the probability of the guess j when v is the value. For v ≠ j a guarantee under replace neighbours
    gives g(j|v) ≥ e^−ε(g(j|j) − δ). Weighted by the prior π, all guesses add up to one:
    1 ≥ S + Σⱼ(1 − πⱼ)e^−ε(g(j|j) − δ) ≥ S(1 + e^−ε(1 − p)/p) − e^−ε(k − 1)δ, where S = Σπⱼg(j|j) is the probability of
    a right guess. For a uniform bit this is (e^ε + δ)/(1 + e^ε), no more than e^ε/(1 + e^ε) + δ.

    >>> round(guess_ceiling(Guarantee(1)), 4)
    0.7311
    """
    promise = Guarantee.of(guarantee)
    p, k = float(exact(prior, "prior", INSIDE_UNIT)), whole(choices, "choices", at_least=2)
    if p * k < 1 - 1e-9:
        raise InvalidParameter("prior", prior, f"at least 1/{k}: the likeliest of {k} values has no less")
    shrink = math.exp(-min(float(promise.epsilon), _FURTHEST))
    return min(1.0, p * (1 + (k - 1) * float(promise.delta) * shrink) / (p + (1 - p) * shrink))


def account_ceiling(promise: Guarantee, neighbours: Neighbours | str) -> float:
    """Bound the probability that anybody guesses a coin about one unit, whichever of two values it decides, from all
    that an account will ever answer. Where ε is so large that δ of two units is no probability, it is 1.
    """
    try:
        return guess_ceiling(for_replacing(promise, neighbours))
    except InvalidParameter:
        return 1.0


def curve_ceiling(curve: Curve) -> float:
    """Bound the probability that anybody guesses a coin that decides between two neighbours, from the whole curve of
    what was released: ½(1 + δ(0)), since δ(0) bounds the distance in total variation between the two laws, and the
    likelier side of every outcome is right with one half and half of that distance (Neyman & Pearson 1933). On the
    trade-off curve it is the largest 1 − ½(a + b) of false alarms a and misses b.

    >>> round(curve_ceiling(Curve.pure(1)), 4)
    0.7311
    """
    return min(1.0, (1 + curve.delta(0)) / 2)


def power_ceiling(guarantee: Guarantee, false_alarms: Number) -> float:
    """Bound how often a test finds what is there, when it is wrong in a share of ``false_alarms`` where it is not: the
    trade-off curve, the smaller of e^ε·a + δ and 1 − e^−ε(1 − δ − a) (Wasserman & Zhou 2010, with δ as Kairouz, Oh &
    Viswanath 2015).

    For a person's presence take the guarantee of the account; for a person's value that of ``for_replacing``.

    >>> round(power_ceiling(Guarantee(1), "0.05"), 4)
    0.1359
    """
    promise = Guarantee.of(guarantee)
    rate = float(exact(false_alarms, "false_alarms", PROBABILITY))
    growth, delta = math.exp(min(float(promise.epsilon), _FURTHEST)), float(promise.delta)
    return max(rate, min(1.0, growth * rate + delta, 1 - (1 - delta - rate) / growth))


def most_right(trials: int, ceiling: float, alarm: Number = "1e-6") -> int:
    """Find the number of right guesses, of ``trials``, that is passed with a probability of at most ``alarm`` where
    each is right with a probability of at most ``ceiling``, whatever the others were.

    Guesses from one release are of this kind under ε alone: given the answers and all other bits, a uniform bit is
    guessed with probability at most e^ε/(1 + e^ε), so bits that are looked at one after the other are dominated by
    independent coins (Steinke, Nasr & Jagielski 2023, Theorem 5.2, for δ = 0).
    """
    many, miss = whole(trials, "trials", at_least=1), float(exact(alarm, "alarm", INSIDE_UNIT))
    if not 0 <= ceiling <= 1:
        raise InvalidParameter("ceiling", ceiling, "a probability")
    low, high = 0, many  # more than ``high`` never happens
    while low < high:
        middle = (low + high) // 2
        if upper_tail(middle + 1, many, ceiling) <= miss:
            high = middle
        else:
            low = middle + 1
    return high


def least_proven(right: int, trials: int, alarm: Number = "1e-6") -> float:
    """Find the least ε under which so many right guesses of uniform bits are no surprise: a lower bound of the ε of
    what was asked, except with probability ``alarm``; 0 where guessing blindly would do as well.
    """
    many, hits = whole(trials, "trials", at_least=1), whole(right, "right")
    if hits > many:
        raise InvalidParameter("right", right, f"at most {many}, the number of trials")
    miss = float(exact(alarm, "alarm", INSIDE_UNIT))
    low, high = 0.0, 50.0
    if hits == 0 or upper_tail(hits, many, 0.5) > miss:
        return 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if upper_tail(hits, many, 1 / (1 + math.exp(-middle))) > miss:
            high = middle
        else:
            low = middle
    return low


def percent_up(share: float) -> str:
    """Write a ceiling as percent, rounded up: what is shown is never below what theory allows.

    >>> percent_up(0.7310585)
    '73.2 %'
    """
    return f"{min(1000, math.ceil(1000 * Fraction(share))) / 10:.1f} %"
