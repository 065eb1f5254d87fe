"""Random compositions of unlike kinds against 50 digits: finite pairs of every sign pattern, lattices, continuous noise
and failures together. Both bounds of δ(ε) and of ε(δ) are checked.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import mpmath
import pytest
from mpmath import mpf

import sfumato as sf
from privacy import exact
from privacy.exact import Pairs, number

DIGITS = 50
CASES, LONG_CASES, BLOCKS = 18, 5000, 6
_MOST_ATOMS = 600
_TINY = mpf(10) ** -45

Profile = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Part:
    """One kind of release: our curve of it, and its outcomes or its continuous profile at any real ε."""

    curve: sf.Curve
    outcomes: Pairs | None = None
    profile: Profile | None = None


def _share(rng: random.Random, size: int) -> list[Fraction]:
    weights = [rng.choice([1, 1, 2, 3, 5, 20, 400]) for _ in range(size)]
    return [Fraction(w, sum(weights)) for w in weights]


def _scaled(values: list[Fraction], mass: Fraction) -> list[Fraction]:
    return [value * mass for value in values]


def finite_pair(rng: random.Random) -> Part:
    """A pattern says which signs the finite losses may have, and whether P or Q has mass of its own."""
    pattern = rng.choice(["any", "below", "above", "flat", "disjoint", "powers"])
    size = rng.randint(1, 3)
    shares = _share(rng, size)
    mass, other = rng.choice(["0.7", "0.4", "0.999"]), rng.choice(["0.7", "0.25", "1"])
    m, n = Fraction(mass), Fraction(other)
    if (
        pattern == "below"
    ):  # every finite loss is negative: shown with probability 1 − m when present, never when absent
        p, q = [*_scaled(shares, m), 1 - m], [*shares, Fraction(0)]
    elif pattern == "above":
        p, q = [*shares, Fraction(0)], [*_scaled(shares, m), 1 - m]
    elif pattern == "flat":  # the finite loss is always 0
        p, q = [*_scaled(shares, m), 1 - m, Fraction(0)], [*_scaled(shares, m), Fraction(0), 1 - m]
    elif pattern == "disjoint":
        p, q = [m, 1 - m, Fraction(0)], [n * m, Fraction(0), 1 - n * m]
    elif pattern == "powers":  # losses are multiples of ln 2 but on no rational lattice
        p, q = [Fraction(2, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 3)]
    else:
        p, q = _share(rng, size + 1), _share(rng, size + 1)
    return Part(sf.Curve.pair(p, q), exact.pairs_of(p, q))


def lattice(rng: random.Random) -> Part:
    kind = rng.choice(["laplace", "laplace", "response", "gaussian"])
    if kind == "laplace":
        scale, shift = rng.choice(["1", "2", "3", "0.5", "1.7", "4.3"]), rng.randint(1, 3)
        return Part(sf.Curve.discrete_laplace(scale, shift), exact.discrete_laplace(scale, shift))
    if kind == "response":
        epsilon = rng.choice(["0.5", "1", "0.31415", "2"])
        return Part(sf.Curve.pure(epsilon), exact.response(epsilon))
    sigma, shift = rng.choice(["0.7", "1", "1.3"]), rng.randint(1, 2)
    outcomes = [(p, q) for p, q in exact.discrete_gaussian(sigma, shift) if p + q > mpf(10) ** -40]
    return Part(sf.Curve.discrete_gaussian(sigma, shift), outcomes)


def failing(rng: random.Random) -> Part:
    epsilon, delta = rng.choice(["0", "0.2", "1"]), rng.choice(["1e-9", "1e-4", "0.05"])
    kept = [(p * (1 - number(delta)), q * (1 - number(delta))) for p, q in exact.response(epsilon)]
    return Part(sf.Curve.approximate(epsilon, delta), [*kept, (number(delta), mpf(0)), (mpf(0), number(delta))])


def continuous(rng: random.Random) -> Part:
    kind = rng.choice(["gaussian", "laplace", "range"])
    size = rng.choice(["0.2", "0.7", "1.5"])
    x = number(size)
    if kind == "gaussian":

        def gaussian(e: mpf) -> mpf:
            return mpmath.ncdf(x / 2 - e / x) - mpmath.exp(e) * mpmath.ncdf(-x / 2 - e / x)

        return Part(sf.Curve.gdp(size), profile=gaussian)
    if kind == "laplace":

        def laplace(e: mpf) -> mpf:
            if abs(e) >= x:
                return max(mpf(0), 1 - mpmath.exp(e))
            return 1 - mpmath.exp((e - x) / 2)

        return Part(sf.Curve.laplace(1 / Fraction(size)), profile=laplace)

    def ranged(e: mpf) -> mpf:
        if abs(e) >= x:
            return max(mpf(0), 1 - mpmath.exp(e))
        return (1 - mpmath.exp((e - x) / 2)) ** 2 / (1 - mpmath.exp(-x))

    return Part(sf.Curve.bounded_range(size), profile=ranged)


@dataclass(frozen=True)
class Case:
    curves: list[tuple[sf.Curve, int]]
    outcomes: Pairs
    profile: Profile | None

    def delta(self, epsilon: object) -> mpf:
        """The worse direction's hockey-stick divergence; what is lost by leaving out tails is below 1e-38."""
        return max(self._one_way(epsilon, 0), self._one_way(epsilon, 1))

    def _one_way(self, epsilon: object, side: int) -> mpf:
        ordered = [(pq[side], pq[1 - side]) for pq in self.outcomes]
        if self.profile is None:
            return exact.hockey_stick(ordered, epsilon)
        e = number(epsilon)
        return mpmath.fsum(p * self.profile(e - mpmath.log(p / q)) if q else p for p, q in ordered if p)


def draw(rng: random.Random) -> Case:
    """Two to four kinds, each one to three times, as long as enumerating them stays cheap."""
    smooth = continuous(rng) if rng.random() < 0.35 else None
    most = 24 if smooth else _MOST_ATOMS
    curves, outcomes = [], [(mpf(1), mpf(1))]
    for make in rng.choices([finite_pair, finite_pair, lattice, lattice, failing], k=rng.randint(2, 4)):
        part = make(rng)
        assert part.outcomes is not None
        for _ in range(rng.randint(1, 3)):
            if len(outcomes) * len(part.outcomes) > most:
                break
            outcomes = [(p * a, q * b) for (p, q), (a, b) in product(outcomes, part.outcomes) if p * a or q * b]
            curves.append((part.curve, 1))
    if smooth:
        curves.append((smooth.curve, 1))
    return Case(curves, outcomes, smooth.profile if smooth else None)


def check(case: Case, rng: random.Random) -> None:
    curve = sf.compose(case.curves)
    slack = mpf(10) ** -36  # tails of the discrete Gaussian that the enumeration leaves out
    for epsilon in ["0", rng.choice(["0.1", "0.5", "1.5"]), f"{rng.uniform(0, 4):.3f}"]:
        low, high = curve.delta_range(epsilon)
        truth = case.delta(epsilon)
        assert number(low) <= truth + slack, (case.curves, epsilon)
        assert truth <= number(high) + slack, (case.curves, epsilon)
        assert high - low <= 5e-3 * high + 1e-9, (case.curves, epsilon)
    delta = f"{10 ** rng.uniform(-8, -0.5):.3g}"
    least, most = curve.epsilon_range(delta)
    if math.isfinite(most):
        assert case.delta(most) <= number(delta) + slack, (case.curves, delta)
    if 0 < least < 700:
        assert case.delta(least) >= number(delta) - slack, (case.curves, delta)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_bounds_of_random_compositions_hold(block: int, long: bool) -> None:
    rng = random.Random(f"composition {block}")
    with mpmath.workdps(DIGITS):
        for _ in range((LONG_CASES if long else CASES) // BLOCKS + 1):
            check(draw(rng), rng)


def test_a_loss_that_is_never_positive_has_its_own_lattice() -> None:
    """Shown with probability 0.3 when present, never when absent: its only finite loss, ln 0.7, lies on no lattice."""
    shown = sf.Curve.pair({"s": "0.3", "n": "0.7"}, {"n": 1})
    curve = sf.compose([shown, (sf.Curve.discrete_laplace(1), 3)])
    with mpmath.workdps(DIGITS):
        pair = [(mpf("0.3"), mpf(0)), (mpf("0.7"), mpf(1))]
        case = Case([], exact.together([(pair, 1), (exact.discrete_laplace(1, 1), 3)]), None)
        low, high = curve.delta_range("1.5")
        assert low <= case.delta("1.5") <= high
    assert high == pytest.approx(0.48632, abs=1e-4)
