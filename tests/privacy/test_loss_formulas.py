"""Closed forms of losses beside the same number by another route: sums over outcomes and integrals in 40 digits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from refusals import assert_refused
from sfumato.privacy import losses, pairs
from sfumato.privacy.losses import BoundedRangeLoss, ConcentratedLoss, PairLoss, ResponseLoss
from sfumato.privacy.subsampled_losses import LatticeLoss, TangentLoss

F = Fraction
MP = mpmath.MPContext()
MP.dps = 40


def mp(value: Fraction | float) -> Any:
    return MP.mpf(F(value).numerator) / F(value).denominator


def atoms_of_response(epsilon: Fraction, choices: int, reveal: Fraction) -> list[tuple[Any, Any]]:
    """List (P, loss) where the loss is finite."""
    growth = MP.exp(mp(epsilon))
    total, kept = growth + choices - 1, 1 - mp(reveal)
    return [
        (kept * growth / total, mp(epsilon)),
        (kept / total, -mp(epsilon)),
        (kept * (choices - 2) / total, MP.mpf(0)),
    ]


def log_moment(atoms: list[tuple[Any, Any]], z: complex) -> Any:
    exponent = MP.mpc(mp(z.real), mp(z.imag))
    return MP.log(MP.fsum(p * MP.exp(exponent * loss) for p, loss in atoms))


ORDERS = (0.5 + 0j, 3.25 + 0j, 0.75 + 2j, 2.0 - 0.3j, 11.0 + 0.125j)


def same_up_to_turns(found: complex, truth: Any, slack: float) -> bool:
    """Whether two logarithms are one number's: the imaginary part is known up to 2π."""
    turns = round((found.imag - float(truth.imag)) / (2 * math.pi))
    return abs(found - complex(truth) - 2j * math.pi * turns) <= slack


# ── randomised response ────────────────────────────────────────────────────────────────────────


def test_a_group_of_a_response_sums_its_failures_along_the_chain() -> None:
    for epsilon, reveal, k in (
        (F(1, 3), F(1, 10**4), 2),
        (F(2), F(1, 10**9), 5),
        (F(0), F(1, 50), 7),
        (F(350), F(1, 10**300), 2),
    ):
        group = ResponseLoss(epsilon, 2, reveal).group(k)
        truth = mp(reveal) * MP.fsum(MP.exp(i * mp(epsilon)) for i in range(k))
        assert (group.epsilon, group.choices) == (k * epsilon, 2)
        assert truth <= mp(group.reveal) <= truth * (1 + MP.mpf("1.1e-12"))
    several = ResponseLoss(F(1), 5)
    assert several.group(1) is several
    assert several.group(3) == ResponseLoss(F(3))  # the answers of others need not stay where they were
    failing = ResponseLoss(F(1), 2, F(1, 100))
    assert failing.group(1) is failing
    quarter = ResponseLoss(F(0), 2, F(1, 4))
    assert F(3, 4) < quarter.group(3).reveal < F(3, 4) + F(1, 10**11)
    for loss, k in (
        (quarter, 4),
        (quarter, 5),
        (ResponseLoss(F(800), 2, F(1, 10**9)), 2),
        (ResponseLoss(F(701, 2), 2, F(1, 10**300)), 2),
    ):
        assert_refused(lambda loss=loss, k=k: loss.group(k), "δ stays below 1")


@pytest.mark.parametrize(("epsilon", "choices", "reveal"), [(F(1), 2, F(0)), (F(3, 10), 7, F(1, 9)), (F(9), 3, F(0))])
def test_moments_of_a_response_are_sums_over_its_answers(epsilon: Fraction, choices: int, reveal: Fraction) -> None:
    loss, atoms = ResponseLoss(epsilon, choices, reveal), atoms_of_response(epsilon, choices, reveal)
    found = loss.log_moment(np.array(ORDERS), *loss.log_moment_parameters)
    for z, value in zip(ORDERS, found, strict=True):
        assert same_up_to_turns(complex(value), log_moment(atoms, z), 2e-14 * (1 + abs(z) * float(epsilon)))
    heights = np.array([0.0, 0.3, 1.7, 20.0])
    for c in (0.5, 4.0):
        decay = loss.log_decay(c, heights, *loss.log_moment_parameters)
        for height, bound in zip(heights.tolist(), decay.tolist(), strict=True):
            truth = (log_moment(atoms, complex(c, height)) - log_moment(atoms, complex(c, 0))).real
            assert bound >= truth - 1e-15
            high, low = (MP.exp(mp(c) * each) * p for p, each in ((p, x) for p, x in atoms[:2]))
            rest = MP.exp(log_moment(atoms, complex(c, 0)).real) - high - low
            at = mp(height) * mp(epsilon)
            apart = rest + abs(high * MP.expj(at) + low * MP.expj(-at))
            assert bound <= MP.log(apart / (high + low + rest)) + 1e-12
        assert (loss.log_bound(c, 3.0, *loss.log_moment_parameters)[0] - log_moment(atoms, complex(c, 0)).real) < 1e-13


def test_a_response_s_profile_is_within_its_error() -> None:
    for epsilon, choices, reveal in (
        (F(1), 2, F(0)),
        (F(3, 10), 7, F(1, 9)),
        (F(1, 10**9), 2, F(0)),
        (F(30), 2, F(1, 10**12)),
    ):
        loss = ResponseLoss(epsilon, choices, reveal)
        growth = MP.exp(mp(epsilon))
        for share in (0.0, 0.25, 0.999, 1.0, 1.5):
            at = float(epsilon) * share
            truth = mp(reveal) + (1 - mp(reveal)) * max(MP.mpf(0), growth - MP.exp(mp(at))) / (growth + choices - 1)
            value, error = loss.delta_and_error(at)
            assert abs(value - truth) <= error <= 2.0**-48 * (value + float(epsilon))
            gap = float(growth - MP.exp(mp(min(at, float(epsilon))))) / float(growth)
            assert error == pytest.approx(2.0**-49 * (value + float(epsilon) * (1 - gap)), rel=1e-6)  # 8 last places


# ── bounded range ──────────────────────────────────────────────────────────────────────────────


def worst_two_atoms(eta: Fraction, order: float) -> Any:
    """Search the two-atom pair of this range whose divergence is largest."""
    x, alpha = mp(eta), mp(order)

    def divergence(t: Any) -> Any:
        q = MP.expm1(t - x) / (MP.exp(t - x) - MP.exp(t))
        p = q * MP.exp(t)
        if alpha == 1:
            return p * t + (1 - p) * (t - x)
        return MP.log1p(p * MP.expm1((alpha - 1) * t) + (1 - p) * MP.expm1((alpha - 1) * (t - x))) / (alpha - 1)

    low, high, golden = x / 10**6, x * (1 - MP.mpf(1) / 10**6), (MP.sqrt(5) - 1) / 2
    for _ in range(36):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (left, high) if divergence(left) < divergence(right) else (low, right)
    return divergence((low + high) / 2)


@pytest.mark.parametrize("eta", [F(1, 1000), F(1), F(12), F(35)])
def test_a_bounded_range_s_divergence_is_that_of_the_worst_pair(eta: Fraction) -> None:
    for order in (1.0, 1.5, 9.0):
        truth = worst_two_atoms(eta, order)
        assert abs(BoundedRangeLoss(eta).renyi(order) - truth) <= truth * MP.mpf("3e-13"), (eta, order)
    assert BoundedRangeLoss(F(0)).renyi(2.0) == 0.0


@pytest.mark.parametrize("eta", [F(1, 100), F(2), F(20)])
def test_moments_of_a_bounded_range_are_integrals_of_its_density(eta: Fraction) -> None:
    loss, x = BoundedRangeLoss(eta), mp(eta)

    def moment(z: complex) -> Any:
        at = MP.mpc(mp(z.real), mp(z.imag)) + MP.mpf(1) / 2
        return (MP.exp(at * x) - MP.exp(-at * x)) / at / (4 * MP.sinh(x / 2))

    found = loss.log_moment(np.array(ORDERS), *loss.log_moment_parameters)
    for z, moment_at in zip(ORDERS, np.ravel(found), strict=True):
        assert same_up_to_turns(complex(moment_at), MP.log(moment(z)), 1e-13 * (1 + abs(z) * float(eta)))
    for c, t in ((0.5, 0.0), (2.0, 1.0), (0.25, 40.0), (3.0, 5.0)):
        bound = float(np.ravel(loss.log_bound(c, t, *loss.log_moment_parameters))[0])
        for s in (t, 1.3 * t + 0.1, 3 * t + 2, 100 * t + 7):
            assert bound >= float(MP.log(abs(moment(complex(c, s))))) - 1e-14
        ends = mp(c) * x + MP.log(
            (1 + MP.exp(-(2 * mp(c) + 1) * x)) / (1 - MP.exp(-x)) / abs(MP.mpc(2 * mp(c) + 1, 2 * mp(t)))
        )
        assert bound <= min(ends, MP.log(abs(moment(complex(c, 0))))) + 1e-13
    for share in (0.0, 0.3, 0.999, 1.0, 1.0000001):
        at = float(eta) * share
        truth = MP.expm1(min(MP.mpf(0), (mp(at) - x) / 2)) ** 2 / -MP.expm1(-x)
        value, error = loss.delta_and_error(at)
        assert abs(value - truth) <= error <= 2.0**-46 * (float(eta) + value + 2.0**-40)
    assert loss.delta_and_error(float(eta) * 1.01) == (0.0, 0.0)
    assert loss.group(3) == BoundedRangeLoss(3 * eta)
    assert loss.pure_epsilon == loss.largest_finite_loss == eta


def test_concentrated_losses_of_a_group_grow_with_the_square() -> None:
    loss = ConcentratedLoss(F(1, 6))
    assert loss.group(3) == ConcentratedLoss(F(3, 2))
    assert loss.renyi(6.0) == pytest.approx(1.0, rel=1e-15)
    assert loss.pure_epsilon is None
    assert ConcentratedLoss(F(0)).pure_epsilon == 0
    assert not loss.moments_known
    assert ConcentratedLoss(F(0)).is_trivial
    assert not loss.is_trivial


# ── finite pairs ───────────────────────────────────────────────────────────────────────────────

P, Q = (F(1, 2), F(1, 4), F(3, 20), F(1, 10), F(0)), (F(1, 4), F(1, 2), F(1, 20), F(0), F(1, 5))
SPREAD_P, SPREAD_Q = (F(1) - F(1, 10**30), F(1, 10**30)), (F(1, 10**40), F(1) - F(1, 10**40))


def test_a_pair_is_read_outside_its_failures() -> None:
    """P given Q > 0 against Q given P > 0, by the definition of each divergence."""
    for p, q in ((P, Q), (SPREAD_P, SPREAD_Q), ((F(1, 3), F(2, 3)), (F(2, 3), F(1, 3)))):
        loss = PairLoss(p, q)
        common = [(mp(a), mp(b)) for a, b in zip(p, q, strict=True) if a and b]
        mass_p, mass_q = MP.fsum(a for a, _ in common), MP.fsum(b for _, b in common)
        assert loss.failure == 1 - sum(a for a, b in zip(p, q, strict=True) if a and b)
        assert (
            loss.reversed().failure == loss._reverse_failure == 1 - sum(b for a, b in zip(p, q, strict=True) if a and b)
        )
        ratios = [MP.log((a / mass_p) / (b / mass_q)) for a, b in common]
        for order in (1.0, 1.5, 2.0, 30.0):
            shares = [(a / mass_p, ratio) for (a, _), ratio in zip(common, ratios, strict=True)]
            if order == 1:
                truth = MP.fsum(share * ratio for share, ratio in shares)
            else:
                truth = MP.log(MP.fsum(share * MP.exp(mp(order - 1) * ratio) for share, ratio in shares)) / mp(
                    order - 1
                )
            assert abs(loss.renyi(order) - truth) <= truth * MP.mpf("1e-13"), (order, truth)
        top = max(MP.log(a / b) for a, b in common)
        for bound, truth in ((loss.pure_epsilon, max(ratios)), (loss.largest_finite_loss, top)):
            assert bound is not None
            assert truth <= mp(bound) <= truth * (1 + MP.mpf("1e-14"))
        assert loss.magnitude == pytest.approx(float(max(abs(MP.log(a / b)) for a, b in common)), rel=1e-14)
        found = loss.log_moment(np.array(ORDERS), *loss.log_moment_parameters)
        atoms = [(a, MP.log(a / b)) for a, b in common]
        for z, value in zip(ORDERS, np.ravel(found), strict=True):
            assert same_up_to_turns(complex(value), log_moment(atoms, z), 1e-12 * (1 + abs(z)))
    underflowing = PairLoss((F(1, 2), F(1, 2)), (F(1, 10**300), 1 - F(1, 10**300)))
    assert underflowing.reversed().renyi(3.0) == pytest.approx(float(MP.log(4)) / 2, rel=1e-12)
    rare = PairLoss._unchecked((F(1, 10**400), 1 - F(1, 10**400)), (F(1, 10**401), 1 - F(1, 10**401)))
    assert rare.renyi(50.0) == 0.0  # a share below all floats adds nothing
    assert PairLoss(P, P).is_trivial
    assert not PairLoss(P, Q).is_trivial
    assert PairLoss((F(1, 2), F(1, 2), F(0)), (F(1, 2), F(0), F(1, 2))).is_zero_where_finite
    assert not PairLoss(P, Q).is_zero_where_finite


def test_a_pair_s_profile_is_the_sum_over_outcomes() -> None:
    for p, q in ((P, Q), (SPREAD_P, SPREAD_Q)):
        loss = PairLoss(p, q)
        for epsilon in (0.0, 0.3, 0.7, 5.0, 90.0):
            growth = MP.exp(mp(epsilon))
            truth = MP.fsum(max(MP.mpf(0), mp(a) - growth * mp(b)) for a, b in zip(p, q, strict=True))
            value, error = loss.delta_and_error(epsilon)
            assert abs(value - truth) <= error <= 2.0**-48 * (1 + epsilon)
    tiny = F(1, 10**300)
    far = PairLoss((1 - tiny, tiny), (tiny, 1 - tiny))
    for epsilon in (699.0, 705.0, 720.0):
        truth = max(MP.mpf(0), 1 - MP.exp(mp(epsilon)) * mp(tiny))
        assert far.delta_and_error(epsilon)[0] == pytest.approx(float(truth), abs=1e-12)


def test_a_group_of_a_pair_is_its_chain_or_the_rule_for_its_guarantee() -> None:
    loss = PairLoss((F(3, 5), F(2, 5)), (F(2, 5), F(3, 5)))
    assert loss.group(1) is loss
    for k in (2, 8):
        assert loss.group(k) == PairLoss(*pairs.group_pair(loss.p, loss.q, k))
    assert loss.group(9) == ResponseLoss(loss.pure_epsilon).group(9)
    lopsided = PairLoss((F(1, 2), F(49, 100), F(1, 100)), (F(1, 3), F(2, 3), F(0)))
    long = lopsided.group(9)
    worst = max(lopsided.pure_epsilon, lopsided.reversed().pure_epsilon)
    assert long == ResponseLoss(worst, 2, F(1, 100)).group(9) == lopsided.reversed().group(9)


def test_an_excess_of_a_power_is_known_where_the_power_overflows() -> None:
    for b in (1e-200, 0.25):
        for y, order in (
            (0.5, 3.0),
            (-0.5, 3.0),
            (29.0, 1.0),
            (31.0, 1.0),
            (20.0, 2.0),
            (-40.0, 2.0),
            (1e-6, 1.0),
            (70.0, 9.0),
        ):
            x = MP.exp(mp(y))
            truth = x * mp(y) - (x - 1) if order == 1 else x ** mp(order) - 1 - mp(order) * (x - 1)
            found = losses.weighted_power_excess(b, y, order)
            assert abs(found - b * truth) <= abs(b * truth) * MP.mpf("2e-13"), (b, y, order)
    assert losses.weighted_power_excess(0.0, 50.0, 2.0) == losses.weighted_power_excess(0.0, 50.0, 1.0) == 0.0


def test_few_terms_are_summed_exactly_and_many_are_rounded_up() -> None:
    terms = [
        (F(1, prime), n) for n, prime in enumerate((3, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61), 2)
    ]
    total = sum(count * value for value, count in terms)
    assert losses.sum_with_counts_rounded_up(terms) == total
    more = losses.sum_with_counts_rounded_up([*terms, (F(1, 67), 5)])
    assert more is not None
    assert 0 < more - total - F(5, 67) <= F(sum(count for _, count in terms) + 5, 10**30)
    assert (more * 10**30).denominator == 1
    assert losses.sum_with_counts_rounded_up([*terms, (None, 5)]) is None
    assert losses.sum_with_counts_rounded_up([]) == 0


# ── finitely many values ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reverse", [False, True])
def test_losses_on_a_lattice_are_read_atom_by_atom(reverse: bool) -> None:
    spacing, steps, masses = F(1, 8), (-5, 0, 3, 8), (0.1, 0.3, 0.4, 0.15)
    loss = LatticeLoss(spacing, steps, masses, 0.05, 0.02)
    atoms = [(mp(mass), mp(step * spacing)) for step, mass in zip(steps, masses, strict=True)]
    if reverse:
        loss, atoms = loss.reversed(), [(p * MP.exp(-value), -value) for p, value in atoms]
        assert (loss.mass_at_infinity, loss.reverse_mass_at_infinity) == (0.02, 0.05)
        assert loss.steps == (-8, -3, 0, 5)
    found = loss.log_moment(np.array(ORDERS), *loss.log_moment_parameters)
    for z, moment_at in zip(ORDERS, np.ravel(found), strict=True):
        assert same_up_to_turns(complex(moment_at), log_moment(atoms, z), 1e-14 * (1 + abs(z)))
    heights = np.array([0.0, 0.7, 30.0])
    for height, value in zip(heights, np.ravel(loss.log_decay(1.5, heights, *loss.log_moment_parameters)), strict=True):
        truth = (log_moment(atoms, complex(1.5, height)) - log_moment(atoms, complex(1.5, 0))).real
        assert abs(value - truth) <= 1e-13
    mass_p, mass_q = MP.fsum(p for p, _ in atoms), MP.fsum(p * MP.exp(-value) for p, value in atoms)
    shifted = [(p / mass_p, value + MP.log(mass_q / mass_p)) for p, value in atoms]
    for order in (1.0, 1.25, 3.0, 60.0):
        if order == 1:
            truth = MP.fsum(p * value for p, value in shifted)
        else:
            truth = MP.log(MP.fsum(p * MP.exp(mp(order - 1) * value) for p, value in shifted)) / mp(order - 1)
        assert abs(loss.renyi(order) - truth) <= MP.mpf("1e-14") * (1 + truth)
    assert loss.largest_finite_loss == (F(5, 8) if reverse else F(1))
    assert loss.magnitude == 1.0
    assert loss.spacing_and_offset == (spacing, F(0))
    assert loss.failure == F(0.02 if reverse else 0.05)
    bound = mp(loss.largest_finite_loss) - MP.log(1 - mp(loss.failure))
    assert bound <= mp(loss.pure_epsilon) <= bound * (1 + MP.mpf("1e-13"))


def test_losses_without_atoms_have_no_moment() -> None:
    nothing = LatticeLoss(F(1), (), (), 1.0, 1.0)
    assert nothing.largest_finite_loss == nothing.magnitude == 0
    assert (
        np.ravel(nothing.log_moment(np.array([1 + 0j, 2j]), *nothing.log_moment_parameters)).real.tolist()
        == [-math.inf] * 2
    )
    only_negative = LatticeLoss(F(1), (-3,), (0.5,), 0.5, 0.0)
    assert only_negative.largest_finite_loss == 0
    assert only_negative.magnitude == 3.0
    tangents = TangentLoss((-2.0, 0.5), (0.3, 0.6), 0.1)
    assert tangents.largest_finite_loss == F(1, 2)
    assert tangents.magnitude == 2.0
    assert tangents.failure == F(0.1)
    assert TangentLoss((-2.0,), (0.3,), 0.1).largest_finite_loss == 0


def test_two_atoms_decay_as_the_worst_of_what_else_there_is() -> None:
    for high, low, phase in ((0.6, 0.4, 0.3), (0.5, 0.2, 2.0), (0.1, 0.0, 9.0), (0.3, 0.3, math.pi / 2)):
        truth = MP.log(1 - mp(high) - mp(low) + abs(mp(high) * MP.expj(mp(phase)) + mp(low) * MP.expj(-mp(phase))))
        bound = losses.two_atom_decay(*(np.array([each]) for each in (high, low, phase)))[0]
        assert truth <= bound
        assert MP.exp(bound) - MP.exp(truth) <= 2.0**-48 * (1 + phase)
