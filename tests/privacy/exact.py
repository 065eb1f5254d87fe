"""Independent arithmetic in 40 digits: pmfs, convolutions of losses, hockey-stick sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product

import mpmath
from mpmath import mpf

Pairs = list[tuple[mpf, mpf]]
DIGITS = 40


def number(x: object) -> mpf:
    exact = Fraction(str(x)) if not isinstance(x, Fraction) else x
    return mpf(exact.numerator) / exact.denominator


def discrete_laplace(scale: object, shift: int) -> Pairs:
    """(P, Q) outcome by outcome; the two rays outside the shift have one loss each and are summed in closed form."""
    q = mpmath.exp(-1 / number(scale))
    unit = (1 - q) / (1 + q)
    left, right = 1 / (1 + q), q**shift / (1 + q)
    inside = [(unit * q**x, unit * q ** (shift - x)) for x in range(1, shift)]
    return [(left, right), *inside, (right, left)]


def discrete_gaussian(sigma: object, shift: int) -> Pairs:
    s = number(sigma)
    reach = int(14 * s) + 10 + shift
    total = mpmath.fsum(mpmath.exp(-(mpf(x) ** 2) / (2 * s * s)) for x in range(-reach, reach + 1))

    def mass(x: int) -> mpf:
        return mpmath.exp(-(mpf(x) ** 2) / (2 * s * s)) / total

    return [(mass(x), mass(x - shift)) for x in range(-reach, reach + shift + 1)]


def response(epsilon: object, choices: int = 2) -> Pairs:
    e = mpmath.exp(number(epsilon))
    total = e + choices - 1
    return [(e / total, 1 / total), (1 / total, e / total)] + [(1 / total, 1 / total)] * (choices - 2)


def together(parts: Iterable[tuple[Pairs, int]]) -> Pairs:
    """The product of all pairs, outcomes with equal likelihood ratio (to 30 digits) merged."""
    total: Pairs = [(mpf(1), mpf(1))]
    for pairs, count in parts:
        for _ in range(count):
            merged: dict[str, list[mpf]] = {}
            for (p, q), (a, b) in product(total, pairs):
                key = mpmath.nstr(p * a / (q * b), 30) if q * b else "inf"
                cell = merged.setdefault(key, [mpf(0), mpf(0)])
                cell[0] += p * a
                cell[1] += q * b
            total = [(p, q) for p, q in merged.values()]
    return total


def hockey_stick(pairs: Pairs, epsilon: object) -> mpf:
    growth = mpmath.exp(number(epsilon))
    return mpmath.fsum(max(mpf(0), p - growth * q) for p, q in pairs)


def renyi(pairs: Pairs, order: object) -> mpf:
    alpha = number(order)
    if alpha == 1:
        return mpmath.fsum(p * mpmath.log(p / q) for p, q in pairs if p)
    return mpmath.log(mpmath.fsum(p**alpha * q ** (1 - alpha) for p, q in pairs)) / (alpha - 1)


def pairs_of(p: Sequence[Fraction], q: Sequence[Fraction]) -> Pairs:
    return [(number(a), number(b)) for a, b in zip(p, q, strict=True)]
