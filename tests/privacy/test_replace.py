"""Under replace a unit may play P in one part and Q in the next: every mixture of orders stays within the curve."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import combinations_with_replacement, product

import mpmath
import pytest
from hypothesis import given, settings, strategies as st
from mpmath import mpf

import sfumato as sf
from privacy import exact
from privacy.exact import number
from privacy.families import distributions
from sfumato.privacy import pairs

P, Q = ("0.13", "0.0025", "0.8675"), ("0.5331", "0.0003", "0.4666")
EPSILONS = ("-2", "-0.3", "0", "0.2", "1", "3")

Finite = tuple[list[Fraction], list[Fraction]]
finite = st.tuples(distributions(3, zeros=True), distributions(3, zeros=True))


def worst_mixture(parts: list[Finite], epsilon: object, times: int = 1) -> mpf:
    """The largest hockey-stick divergence at ε over every choice of which world plays P in which part, all of them
    released so many times.
    """
    both = [combinations_with_replacement([exact.pairs_of(p, q), exact.pairs_of(q, p)], times) for p, q in parts]
    mixtures = (exact.together([(pair, 1) for pairs in choice for pair in pairs]) for choice in product(*both))
    return max(exact.hockey_stick(outcomes, epsilon) for outcomes in mixtures)


def test_two_parts_in_opposite_orders() -> None:
    """Each direction on its own gives 4.44e-6 at ε = 3; one part turned round gives 5.49e-4."""
    p, q = [Fraction(x) for x in P], [Fraction(x) for x in Q]
    with mpmath.workdps(30):
        mixed = worst_mixture([(p, q), (p, q)], 3)
    assert float(mixed) == pytest.approx(5.49e-4, rel=1e-2)
    assert sf.compose([(sf.Curve.pair(P, Q, "replace"), 2)]).delta(3) >= mixed
    assert sf.compose([(sf.Curve.pair(P, Q), 2)]).delta(3) == pytest.approx(
        4.44e-6, rel=1e-2
    )  # one orientation for all


@settings(max_examples=6)
@given(st.lists(finite, min_size=2, max_size=3))
def test_no_mixture_of_orders_exceeds_the_composed_curve(parts: list[Finite]) -> None:
    curve = sf.compose([sf.Curve.pair(p, q, "replace") for p, q in parts])
    with mpmath.workdps(30):
        for epsilon in ("0", "0.4", "1.3"):
            assert worst_mixture(parts, epsilon) <= number(curve.delta(epsilon))
        # Charges: divergences of every mixture, outside the failure, are within the sums of the worse orders.
        for choice in product(*(((p, q), (q, p)) for p, q in parts)):
            forward = sf.compose([sf.Curve.pair(p, q) for p, q in choice])
            assert forward.failure <= curve.failure
            assert forward.max_divergence is not None
            assert curve.max_divergence is not None
            assert forward.max_divergence <= curve.max_divergence
            for order in ("1.5", "8"):
                assert forward.renyi_above(Fraction(order)) <= curve.renyi_above(Fraction(order))


@given(finite)
def test_symmetrising_gives_the_larger_divergence_of_both_orders_and_no_more(pair: Finite) -> None:
    p, q = (tuple(x) for x in pair)
    a, b = pairs.symmetrised_masses(p, q)
    assert sum(a) == sum(b) == 1
    with mpmath.workdps(30):
        for epsilon in EPSILONS:
            both = max(
                exact.hockey_stick(exact.pairs_of(p, q), epsilon), exact.hockey_stick(exact.pairs_of(q, p), epsilon)
            )
            for x, y in ((a, b), (b, a)):
                assert abs(exact.hockey_stick(exact.pairs_of(x, y), epsilon) - both) < mpf(10) ** -25


@given(finite)
def test_one_release_alone_costs_the_same_under_both_relations(pair: Finite) -> None:
    one, other = sf.Curve.pair(*pair), sf.Curve.pair(*pair, "replace")
    assert other.failure == one.failure
    assert other.max_divergence == one.max_divergence
    assert other.renyi(3) == one.renyi(3)
    for epsilon in ("0", "0.7", "2"):
        assert other.delta(epsilon) == pytest.approx(one.delta(epsilon), rel=1e-12, abs=1e-14)


def test_a_batch_is_charged_the_worse_order_of_every_part() -> None:
    """A part and its reverse together: under add-remove they partly cancel, under replace they never do."""
    account = sf.Budget(10, "1e-6", neighbours="replace")
    there, back = sf.Curve.pair(P, Q, "replace"), sf.Curve.pair(Q, P, "replace")
    one, batch = account.cost(there), account.cost(sf.compose([there, back]))
    assert account.cost(back) == one
    assert one.pure is not None
    assert one.renyi is not None
    assert batch.pure is not None
    assert batch.renyi is not None
    assert batch.pure >= 2 * one.pure - 2
    assert batch.renyi >= 2 * one.renyi * (1 - 1e-12)
    assert float(Fraction(one.pure, 10**30)) == pytest.approx(math.log(0.0025 / 0.0003), rel=1e-12)
    assert sf.compose([there, back]).rho() >= 2 * there.rho() * (1 - 1e-12)


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 2))])
def test_no_adversary_with_mixed_orders_beats_a_replace_account(seed: int) -> None:
    """The adversary buys batches of two parts and turns either round after seeing what came before."""
    rng = random.Random(seed)
    account = sf.Budget(1, "0.05", neighbours="replace", order=4)
    parts = [_lopsided(rng) for _ in range(2)]
    batch = sf.compose([sf.Curve.pair(p, q, "replace") for p, q in parts])
    bought, spent = 0, account
    while spent.affords(batch) and bought < 4:
        spent, bought = spent.charge(batch), bought + 1
    assert bought
    with mpmath.workdps(20):
        assert worst_mixture(parts, 1, min(bought, 3)) <= number("0.05")


def _lopsided(rng: random.Random) -> Finite:
    """A rare outcome that speaks strongly one way only."""
    rare = Fraction(rng.randint(1, 4), 1000)
    lean = Fraction(rng.randint(1, 9), 100)
    p = [rare, Fraction(1, 2) + lean, Fraction(1, 2) - lean - rare]
    return p, [rare / 2, Fraction(1, 2), Fraction(1, 2) - rare / 2]


def test_long_numbers_can_be_symmetrised() -> None:
    """Differences of public numbers may have more digits than a public number: reading never refuses a curve."""
    a, b = Fraction(1, 2) + Fraction(1, 3**1500), Fraction(1, 3) + Fraction(1, 7**850)
    curve = sf.Curve.pair([a, 1 - a], [b, 1 - b], "replace")
    assert curve.delta(0) == pytest.approx(1 / 6)
    assert sf.compose([(curve, 2)]).delta(0) < 1 / 3
