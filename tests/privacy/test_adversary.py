"""The exact worst adaptive adversary against an account, over menus of finite mechanisms.

The adversary sees every answer and picks the next mechanism, and which world plays P, until nothing more is accepted.
What it can achieve at the account's ε is E_P[(1 − e^{ε−L})⁺] with L the total loss, maximised over all its strategies:
dynamic programming over (what was bought, L). The account's promise is that this is at most δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest

import sfumato as sf

Menu = tuple[sf.Curve, ...]
Accepts = Callable[[tuple[int, ...]], bool]


def response(weight: int) -> sf.Curve:
    """Truth with odds weight : 1."""
    p = Fraction(weight, weight + 1)
    return sf.Curve.pair([p, 1 - p], [1 - p, p])


def binomial(n: int, p: str) -> sf.Curve:
    """Gaussian-like: a rare large loss, a small Rényi divergence."""
    up = Fraction(p)

    def masses(x: Fraction) -> list[Fraction]:
        return [math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(n + 1)]

    return sf.Curve.pair(masses(up), masses(1 - up))


def leak(mass: str) -> sf.Curve:
    """Tells the world with this probability, and nothing otherwise."""
    m = Fraction(mass)
    return sf.Curve.pair([m, 1 - m, 0], [0, 1 - m, m])


def lopsided(last: str = "0.26") -> sf.Curve:
    """Losses of three sizes, which grow with the last probability: the fewer are bought, the quicker all is tried."""
    return sf.Curve.pair(["0.5", "0.3", "0.2"], [Fraction("0.71") - Fraction(last), "0.29", last])


def worst(menu: Menu, epsilon: float, accepts: Accepts) -> float:
    """The adversary's best hockey-stick divergence at ε under an acceptance rule over what was bought."""
    moves = []
    for index, curve in enumerate(menu):
        ((loss, _),) = curve.parts
        for pair in {(loss.p, loss.q), (loss.q, loss.p)}:
            outcomes = [(float(p), math.log(p / q) if q else math.inf) for p, q in zip(*pair, strict=True) if p]
            moves.append((index, outcomes))

    @cache
    def best(bought: tuple[int, ...], key: int) -> float:
        loss = key / 10**9
        value = max(0.0, 1 - math.exp(epsilon - loss))
        for index, outcomes in moves:
            after = tuple(n + (i == index) for i, n in enumerate(bought))
            if accepts(after):
                gained = math.fsum(
                    p * (1.0 if step == math.inf else best(after, round((loss + step) * 10**9))) for p, step in outcomes
                )
                value = max(value, gained)
        return value

    return best((0,) * len(menu), 0)


def by_account(account: sf.Budget, menu: Menu) -> Accepts:
    """The rule under test: whether the real account, charged one by one, accepts."""

    @cache
    def state(bought: tuple[int, ...]) -> sf.Budget | None:
        for index, count in enumerate(bought):
            if count:
                before = state(tuple(n - (i == index) for i, n in enumerate(bought)))
                if before is not None and before.affords(menu[index]):
                    return before.charge(menu[index])
                return None
        return account

    return lambda bought: state(bought) is not None


@dataclass(frozen=True)
class World:
    account: sf.Budget
    menu: Menu


WORLDS = [
    World(sf.Budget(1, "0.05"), (response(2), binomial(3, "0.55"), leak("0.001"))),
    World(sf.Budget("0.7", "0.02", order=6), (sf.Curve.pair(["0.55", "0.45"], ["0.45", "0.55"]), binomial(4, "0.53"))),
    World(sf.Budget(2, "0.01", reserve="0.004"), (response(3), binomial(5, "0.6"), leak("0.002"))),
    World(sf.Budget("1.5", "0.1", order=3), (lopsided("0.29"), response(2), leak("0.01"))),
    World(sf.Budget(1, "0.2", reserve="0.05"), (binomial(2, "0.6"), lopsided("0.29"))),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: f"ε={float(w.account.epsilon)}")
def test_no_adversary_beats_the_account(world: World) -> None:
    value = worst(world.menu, float(world.account.epsilon), by_account(world.account, world.menu))
    assert value <= float(world.account.delta)
    # The adversary is not idle: it gets more than the failures it may buy.
    assert value > float(world.account.reserve) / 2


def each_currency_on_its_own(world: World) -> Accepts:
    """Wrong: every release pays only in the currency where it is cheaper, so both can be emptied."""
    allowed = world.account.allowances
    costs = [world.account.cost(curve) for curve in world.menu]
    assert allowed.pure is not None
    assert allowed.renyi is not None

    def accepts(bought: tuple[int, ...]) -> bool:
        pure = renyi = failure = 0
        for count, cost in zip(bought, costs, strict=True):
            assert cost.renyi is not None
            failure += count * cost.failure
            cheap = cost.pure is not None and cost.pure * allowed.renyi <= cost.renyi * allowed.pure
            pure += count * cost.pure if cheap and cost.pure is not None else 0
            renyi += 0 if cheap else count * cost.renyi
        return failure <= allowed.failure and pure <= allowed.pure and renyi <= allowed.renyi

    return accepts


def failures_forgotten(world: World) -> Accepts:
    """Wrong: the reserve is not charged."""
    account = sf.Budget(world.account.epsilon, "0.99", reserve="0.9")
    costs = [account.cost(curve) for curve in world.menu]
    allowed = world.account.allowances.pure or 0
    return lambda bought: (
        sum(count * (cost.pure or 0) for count, cost in zip(bought, costs, strict=True)) <= allowed
        and sum(bought) <= 40
    )


def test_two_currencies_spent_apart_are_caught() -> None:
    menu = (response(2), binomial(6, "0.55"))
    world = World(sf.Budget(1, "0.01"), menu)
    value = worst(menu, 1.0, each_currency_on_its_own(world))
    assert value > 0.01
    assert worst(menu, 1.0, by_account(world.account, menu)) <= 0.01


def test_a_forgotten_reserve_is_caught() -> None:
    world = World(sf.Budget(1, "0.01"), (leak("0.002"), response(2)))
    assert worst(world.menu, 1.0, failures_forgotten(world)) > 0.01
    assert worst(world.menu, 1.0, by_account(world.account, world.menu)) <= 0.01
