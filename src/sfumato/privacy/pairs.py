"""Finite pairs of distributions: parsing, trade-off curves, and chains of several neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from sfumato.errors import InvalidParameter, ValueWords
from sfumato.privacy.numbers import NONNEGATIVE, Number, exact

Distribution = Mapping[Hashable, Number] | Sequence[Number]
Exact = tuple[Fraction, ...]

_ZERO = Fraction(0)
_TOLERANCE = Fraction(1, 10**9)  # numbers that should sum to one may miss it by rounding, not by more


def aligned_masses(p: Distribution, q: Distribution) -> tuple[Exact, Exact]:
    """Return two distributions over the same outcomes as exact probabilities, which sum to exactly 1.

    Nothing is known about mass that rounding took away, so what P misses becomes an outcome that Q never has, and the
    other way round: wherever the mass truly lies, that can only raise P(S) − e^ε·Q(S), in both directions. Mass beyond
    1 is refused: scaling it down could lower what leaks.
    """
    p_masses, q_masses = paired_masses(p, q)
    p_missing, q_missing = _mass_missing_from_one(p_masses, "p"), _mass_missing_from_one(q_masses, "q")
    if p_missing or q_missing:
        p_masses, q_masses = (*p_masses, p_missing, _ZERO), (*q_masses, _ZERO, q_missing)
    return p_masses, q_masses


def normalised_masses(p: Distribution, q: Distribution) -> tuple[Exact, Exact]:
    """Divide two distributions over the same outcomes, each by its sum, which may miss 1 by rounding: for reading a
    definition, not for stating what a release leaks.
    """
    p_masses, q_masses = paired_masses(p, q)
    return _normalise_probabilities(p_masses, "p"), _normalise_probabilities(q_masses, "q")


def paired_masses(p: Distribution, q: Distribution) -> tuple[Exact, Exact]:
    """Return the exact numbers of both, outcome by outcome; mappings are joined by key."""
    if isinstance(p, Mapping) and isinstance(q, Mapping):
        keys = list(dict.fromkeys([*p, *q]))
        p_values: Iterable[Number] = [p.get(key, 0) for key in keys]
        q_values: Iterable[Number] = [q.get(key, 0) for key in keys]
    elif isinstance(p, Mapping) or isinstance(q, Mapping):
        raise InvalidParameter(
            "p and q",
            ValueWords(f"a {type(p).__name__} and a {type(q).__name__}"),
            "two mappings or two sequences",
            fix="write both as lists, or both as mappings",
        )
    else:
        p_values, q_values = _as_nonempty_list(p, "p"), _as_nonempty_list(q, "q")
    p_masses = tuple(exact(value, "p", NONNEGATIVE) for value in p_values)
    q_masses = tuple(exact(value, "q", NONNEGATIVE) for value in q_values)
    if len(p_masses) != len(q_masses):
        raise InvalidParameter(
            "q",
            len(q_masses),
            f"a sequence of {len(p_masses)} probabilities, as many as p has",
            fix="give p and q the same length",
        )
    return p_masses, q_masses


def _as_nonempty_list(values: object, name: str) -> list[Number]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidParameter(
            name, values, "a one-dimensional sequence of probabilities", fix="write a list such as [0.25, 0.75]"
        )
    return list(values)


def _mass_missing_from_one(values: Exact, name: str) -> Fraction:
    """Return how much the probabilities lack of 1."""
    missing = 1 - sum(values, _ZERO)
    if not 0 <= missing <= _TOLERANCE:
        excess = f"{abs(float(missing)):.3g} {'above' if missing < 0 else 'below'} 1"
        raise InvalidParameter(
            name,
            ValueWords(f"{len(values)} numbers whose sum is {excess}"),
            "probabilities that sum to exactly 1",
            fix="write exact numbers, such as Fraction(1, 3) or '1/3': the float 1/3 is 0.3333333333333333",
        )
    return missing


def _normalise_probabilities(values: Exact, name: str) -> Exact:
    total = sum(values, _ZERO)
    if abs(total - 1) > _TOLERANCE:
        got = ValueWords(f"{len(values)} numbers that sum to {float(total)!r}" if values else "an empty list")
        fix = "divide the probabilities by their sum" if total else "write a list such as [0.25, 0.75]"
        raise InvalidParameter(name, got, "probabilities that sum to 1", fix=fix)
    return tuple(value / total for value in values)


Corner = tuple[Fraction, Fraction]


def roc_corners(p: Exact, q: Exact) -> list[Corner]:
    """Return the corners (false positive, true positive) of the best tests of P against Q: reject P where Q/P is
    largest.

    The true positive rate is a concave, piecewise linear function of the false positive rate between them.
    """
    outcomes = sorted(
        zip(p, q, strict=True), key=lambda pq: (pq[0] == 0, pq[1] / pq[0] if pq[0] else Fraction(0)), reverse=True
    )
    corners, false_positive, true_positive = [(Fraction(0), Fraction(0))], Fraction(0), Fraction(0)
    for p_mass, q_mass in outcomes:
        false_positive, true_positive = false_positive + p_mass, true_positive + q_mass
        corners.append((false_positive, true_positive))
    return concave_hull(corners)


def concave_hull(corners: Iterable[Corner]) -> list[Corner]:
    """Return the least concave function above the corners, as its corners from left to right."""
    upper: list[Corner] = []
    for x, y in sorted(set(corners)):
        if upper and upper[-1][0] == x and len(upper) > 1:
            upper.pop()  # the same false positive rate, more power
        while len(upper) > 1 and _is_below_chord(upper[-2], upper[-1], (x, y)):
            upper.pop()
        upper.append((x, y))
    return upper


def _is_below_chord(a: Corner, b: Corner, c: Corner) -> bool:
    """Return whether b lies on or under the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


def symmetrised_masses(p: Exact, q: Exact) -> tuple[Exact, Exact]:
    """Return the least pair whose hockey-stick divergence is at least that of (p, q) and of (q, p) at every real ε.

    The divergence at ε is the most that a power curve rises above the line of slope e^ε through the origin, so that
    of the concave hull of both power curves is the larger of the two (Dong, Roth & Su 2022, Prop. 2.12).
    """
    return _pair_from_power_curve(concave_hull([*roc_corners(p, q), *roc_corners(q, p)]))


def group_pair(p: Exact, q: Exact, k: int) -> tuple[Exact, Exact]:
    """Return a pair whose trade-off is 1 − (1−f)^{∘k}, f the weaker of both directions of (p, q)."""
    power = concave_hull([*roc_corners(p, q), *roc_corners(q, p)])
    chain = power
    for _ in range(k - 1):
        chain = _compose_curves(power, chain)
    return _pair_from_power_curve(chain)


def _pair_from_power_curve(power: list[Corner]) -> tuple[Exact, Exact]:
    """Return the pair with this power curve. A vertical first step is mass of Q where P is 0; a flat last one is the
    reverse.
    """
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(power)]
    return tuple(x for x, _ in steps), tuple(y for _, y in steps)


def _compose_curves(outer: list[Corner], inner: list[Corner]) -> list[Corner]:
    """Compose outer ∘ inner, with corners at inner's corners and where inner passes outer's."""
    points = [(x, _evaluate_curve(outer, y)) for x, y in inner]
    for (x0, y0), (x1, y1) in pairwise(inner):
        points += [(x0 + (x1 - x0) * (corner - y0) / (y1 - y0), power) for corner, power in outer if y0 < corner < y1]
    return concave_hull([(Fraction(0), Fraction(0)), *points])  # both end at (1, 1)


def _evaluate_curve(corners: list[Corner], x: Fraction) -> Fraction:
    """Evaluate the concave function at x; at a vertical step its upper end."""
    for (x0, y0), (x1, y1) in reversed(list(pairwise(corners))):
        if x0 <= x <= x1:
            return y1 if x0 == x1 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return corners[-1][1]
