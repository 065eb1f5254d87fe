"""Vectors of what an account is charged, holds and has left: by hand in whole units, and by enumerated divergences."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sfumato as sf
from sfumato.ledger.accounts.period_accounts import _max_totals
from sfumato.ledger.accounts.reservations import _min_epsilon, release_epsilon
from sfumato.ledger.spending import Charged, Spending, merge_equal_parts
from sfumato.privacy import Cost
from sfumato.privacy.numbers import UNIT
from vectors.laws import (
    MP,
    as_fraction,
    conversion,
    gaussian_law,
    hockey_stick,
    laplace_law,
    moved,
    real,
    renyi,
    response,
    root,
    upper,
)
from vectors.registry import Registry, Scope, Vector, between, exact

F = Fraction

REGISTRY = Registry(
    scopes=(
        Scope(
            ("ledger/spending.py", "ledger/spending.py", "ledger/accounts", "privacy/budget.py"),
            words=frozenset(
                [
                    "after",
                    "charged",
                    "cost",
                    "covers",
                    "epsilon",
                    "gathered",
                    "held",
                    "least",
                    "less",
                    "most",
                    "remaining",
                    "total",
                ]
            ),
        ),
    ),
    exempt={
        "privacy.budget._remaining_pure_units": "it is the pure part of Budget.remaining, which has vectors",
        "ledger.accounts.approvals.ApprovalCondition._covers_charge": (
            "it compares a sum of exact fractions with a granted share: tests/ledger/test_approval_requests.py"
        ),
    },
)


def _units(number: Any) -> int:
    """Count units of 1e-30, rounded up."""
    amount = as_fraction(number) if isinstance(number, MP.mpf) else F(number)
    return -(-amount.numerator * UNIT // amount.denominator)


@REGISTRY.formula("privacy.budget.Budget.cost")
def _cost() -> Iterator[Vector]:
    """Pure ε and failures exactly, or up to the unit where a denominator is beyond 10⁹.

    A divergence is at most a part in 1e12 and 3e-14/(α−1) above.
    """
    account = sf.Budget(1, "1e-6")
    order = account.order
    assert order is not None
    noise = moved(laplace_law(F(7)), 1)
    cases = (
        (sf.Curve.pure("1/7"), F(1, 7), renyi(response(F(1, 7)), order), F(0)),
        (sf.Laplace(7).curve(), F(1, 7), renyi(noise, order), F(0)),
        (sf.Curve.approximate("0.1", "1/3000000"), F(1, 10), renyi(response("0.1"), order), F(1, 3000000)),
        (sf.Curve.pure(F(1, 10**9)), F(1, 10**9), renyi(response(F(1, 10**9)), order), F(0)),
    )
    for curve, pure, divergence, failure in cases:
        low, high = _units(divergence), _units(divergence * (1 + MP.mpf("1e-12")) + MP.mpf("3e-14") / (real(order) - 1))
        yield between(
            (pure * 10**30, low, failure * 10**30),
            (pure * 10**30, high, failure * 10**30),
            lambda c=curve: ((cost := account.cost(c)).pure, cost.renyi, cost.failure),
        )
    for long in (F(1, 10**9 + 7), F(10**9 + 8, 10**9 + 7)):
        yield exact(
            -((-(10**30) * long.numerator) // long.denominator), lambda c=long: sf.Budget(3).cost(sf.Curve.pure(c)).pure
        )
    whole = _units(real(order) / 200)
    yield between(
        (None, whole, 0),
        (None, whole + whole // 10**12 + 1, 0),
        lambda: ((cost := account.cost(sf.Gaussian(10).curve())).pure, cost.renyi, cost.failure),
    )


@REGISTRY.formula("privacy.budget.Cost.minus")
def _less() -> Iterator[Vector]:
    for held, spent, left in (
        (Cost(10, 7, 3), Cost(4, 7, 1), (6, 0, 2)),
        (Cost(10, None, 0), Cost(1, None, 0), (9, None, 0)),
        (Cost(None, 7, 3), Cost(4, 2, 3), (None, 5, 0)),
        (Cost(5, 7, 3), Cost(0, None, 0), (5, 7, 3)),
    ):
        yield exact(left, lambda h=held, s=spent: ((c := h.minus(s)).pure, c.renyi, c.failure))


@REGISTRY.formula("privacy.budget.Budget.remaining")
def _remaining() -> Iterator[Vector]:
    yield exact((F(7, 10),), lambda: sf.Budget(1).charge(sf.Curve.pure("0.3")).remaining)
    spent = sf.Budget(1, "1e-6").charge(sf.Curve.approximate("0.25", "4e-8"))
    allowed, used = spent.allowances.renyi or 0, spent.spent_renyi or 0
    yield exact((F(6, 10**8), F(3, 4), F(allowed - used, UNIT)), lambda: spent.remaining)
    closed = sf.Budget(1, "1e-6").charge(sf.Gaussian(30).curve())
    rest = (closed.allowances.renyi or 0) - (closed.spent_renyi or 0)
    yield exact((F(1, 10**7), F(rest, UNIT)), lambda: closed.remaining)


@REGISTRY.formula("ledger.spending.Spending.after")
@REGISTRY.formula("ledger.spending.Spending.total")
def _spending() -> Iterator[Vector]:
    """Costs and holds of a short history, added up by hand."""
    none = Cost(0, None, 0)
    opened = Spending().after(none, none, Cost(100, 50, 9))  # a tab holds
    stepped = opened.after(Cost(30, 20, 2), Cost(100, 50, 9), Cost(70, 30, 7))  # a step moves what it costs
    closed = stepped.after(none, Cost(70, 30, 7), none)  # what is unspent is free again
    endless = closed.after(none, none, Cost(None, 5, 0))  # a hold without a bound
    for state, more, wanted in (
        (opened, Cost(1, 1, 1), (101, 51, 10)),
        (stepped, Cost(0, 0, 0), (100, 50, 9)),
        (closed, Cost(5, 6, 7), (35, 26, 9)),
        (endless, Cost(1, 1, 0), (None, 26, 2)),
        (endless.after(none, Cost(None, 5, 0), none), Cost(1, 1, 0), (31, 21, 2)),
        (closed.after(Cost(None, 3, 0)), Cost(1, 1, 0), (None, 24, 2)),
    ):
        yield exact(wanted, lambda s=state, m=more: ((t := s.after(m).total).pure, t.renyi, t.failure))


@REGISTRY.formula("ledger.spending.merge_equal_parts")
@REGISTRY.formula("ledger.spending.Charged.curve")
def _charged() -> Iterator[Vector]:
    """Equal parts are one part run as often; its curve is that of as many releases."""
    one, other = Charged(sf.Laplace(8), 1), Charged(sf.PermuteAndFlip("0.5"))
    for parts, times, pure in (
        ([one, other, one], (2, 1), F(1, 4)),
        ([one], (1,), F(1, 8)),
        ([other, Charged(sf.Laplace(8), 1, 3), one], (1, 4), F(1, 2)),
    ):
        again = [Charged(each.mechanism, each.sensitivity, each.times) for each in parts]

        def call(parts: list[Charged] = again) -> tuple[Any, ...]:
            found = merge_equal_parts(parts)
            return tuple(each.times for each in found), max(
                each.curve.max_divergence or F(0) for each in found if each.sensitivity is not None
            )

        yield exact((times, pure), call)


@REGISTRY.formula("ledger.accounts.reservations.release_epsilon")
def _epsilon_of() -> Iterator[Vector]:
    """Its pure ε; else the ε at the account's δ, by the sum over the law, or from a divergence: r + ln(1/δ)/(α−1)."""
    account = sf.Budget(1, "1e-6", order=20)
    yield exact(F(3, 10), release_epsilon, Cost(_units("0.3"), 5, 1), None, account)
    yield exact(None, release_epsilon, Cost(None, None, 0), sf.Curve.gdp(1), sf.Budget(1))
    log = MP.quad(lambda x: 1 / x, [MP.mpf(10) ** -6, MP.mpf(10) ** -3, 1])
    for spent in ("0.5", "0.001"):
        yield upper(real(spent) + log / 19, 2e-12, release_epsilon, Cost(None, _units(spent), 0), None, account)
    pairs = moved(gaussian_law(F(5)), 1)
    truth = root(lambda e: MP.mpf(10) ** -6 - hockey_stick(pairs, e), 0, 3, 60)
    yield upper(
        truth * (1 - MP.mpf(10) ** -14),
        1e-8,
        release_epsilon,
        Cost(None, _units("0.4"), 0),
        sf.Gaussian(5).curve(),
        account,
    )


@REGISTRY.formula("ledger.accounts.reservations._min_epsilon")
def _least_epsilon() -> Iterator[Vector]:
    """The ε at which an order proves δ from no divergence at all."""
    for order, backed in (("20", "1e-6"), ("3", "0.01"), ("1.5", "1e-12")):
        truth = MP.log(conversion(order, 0, 0) / real(backed)) / (real(order) - 1)
        low, high = (as_fraction(truth + side * MP.mpf(10) ** -34) for side in (-1, 1))
        yield between(low, high, _min_epsilon, F(order), F(backed))
    yield exact(F(0), _min_epsilon, None, F(1, 100))


@REGISTRY.formula("ledger.accounts.period_accounts._max_totals")
def _fullest() -> Iterator[Vector]:
    for totals, wanted in (
        ([Cost(1, 9, 4), Cost(5, 2, 3)], (5, 9, 4)),
        ([Cost(None, 2, 0), Cost(5, None, 1)], (None, 2, 1)),
        ([Cost(7, None, 0)], (7, None, 0)),
    ):
        yield exact(wanted, lambda t=totals: ((c := _max_totals(t)).pure, c.renyi, c.failure))


test_vectors, test_every_formula_has_vectors = REGISTRY.tests()
