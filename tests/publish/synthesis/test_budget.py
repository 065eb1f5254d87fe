"""How a price is split: exact costs, nothing left over, and promises that the whole of all steps keeps."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import sfumato as sf
from publish.synthesis.clinic import PRICES, exact, people, policy_of
from refusals import assert_refused
from sfumato.mechanisms import Exponential, Gaussian, Laplace, Quantiles
from sfumato.privacy import Curve, Neighbours, Sensitivity
from sfumato.publish.synthesis import budget
from sfumato.publish.synthesis.budget import (
    Concentrated,
    Pure,
    RoundAmounts,
    SynthesisBudget,
    price_in_currency,
    round_amount_down,
)
from sfumato.publish.synthesis.methods import aim, independent, mst, mwem
from sfumato.publish.synthesis.state import SynthesisState
from sfumato.publish.tab_steps import ChooseStep, MeasureStep
from sfumato.release.prices import Price

RUN = {"aim": aim, "mst": mst, "mwem": mwem, "independent": independent}


def steps_of(method: str, price: Price, **more: Any) -> Iterator[tuple[SynthesisState, Any]]:
    """All steps of a run, each drawn from the rows without a ledger."""
    proposal, rows = exact(policy_of(people(1, 40), **more), price, method=method)
    course = SynthesisState(proposal.setting(price))
    steps = RUN[method](course)
    step = next(steps)
    while True:
        yield course, step
        try:
            step = steps.send(step.draw(lambda _: rows))
        except StopIteration:
            return


KINDS = list(itertools.product(RUN, PRICES, (False, True), ("add-remove", "replace")))
COVERING = [
    (method, price, bool((one + two) % 2), ("add-remove", "replace")[(one + two // 2) % 2])
    for one, method in enumerate(RUN)
    for two, price in enumerate(PRICES)
]
"""Every method at every price, with either unit and under either relation."""


@pytest.mark.parametrize(
    ("method", "price", "units", "relation"),
    [pytest.param(*each, marks=[] if each in COVERING else [pytest.mark.long]) for each in KINDS],
    ids=str,
)
def test_all_steps_together_cost_what_was_claimed_and_no_more_than_the_price(
    method: str, price: dict[str, Any], units: bool, relation: str
) -> None:
    costs, found = [], list(steps_of(method, Price(**price), units=units, relation=relation))
    course = found[-1][0]
    for _, step in found:
        if isinstance(step, MeasureStep):
            moved, pure = step.view.sensitivity, "scale" in vars(step.noise)
            size = step.noise.scale if pure else step.noise.sigma  # type: ignore[attr-defined]
            costs.append(moved.total / size if pure else moved.squares / (2 * size**2))
        else:
            assert isinstance(step, ChooseStep)
            assert step.mechanism.sensitivity >= step.scores.sensitivity
            pure = Price(**price).delta == 0 and Price(**price).rho is None
            costs.append(step.mechanism.epsilon if pure else step.mechanism.epsilon**2 / 8)
    own = price_in_currency(Price(**price))
    assert sum(costs) == course.budget.spent
    if isinstance(own, Pure):
        assert course.budget.spent == Price(**price).epsilon
    else:
        assert own.rho * (1 - Fraction(1, 10**8)) <= course.budget.spent <= own.rho
    assert course.marginals[0].attribute_set == ()


@pytest.mark.parametrize("method", ["mst", "mwem", "independent"])
def test_a_price_that_no_decimals_write_is_spent_to_the_end(method: str) -> None:
    price = Price("1/3")
    assert [*steps_of(method, price, units=True, relation="add-remove")][-1][0].budget.spent == price.epsilon


@given(st.integers(1, 10**6), st.integers(1, 10**5))
def test_noise_and_choices_never_cost_more_than_is_meant_for_them(amount: int, moved: int) -> None:
    given_amount, change = Fraction(amount, 10**6), Sensitivity(1, moved)
    for own in (Concentrated(Fraction(1)), Pure(Fraction(1))):
        cost = own.noise_cost(own.noise(given_amount, change), change)
        assert given_amount * (1 - Fraction(1, 10**6)) <= cost <= given_amount


def test_half_the_noise_costs_four_times_in_rho_and_twice_in_epsilon() -> None:
    one = Sensitivity(1, 1)
    for own, factor in ((Concentrated(Fraction(1)), 4), (Pure(Fraction(1)), 2)):
        amounts = RoundAmounts.of_round(Fraction(1, 1000))
        sizes = [own.noise(each.measurement, one).error("0.95") for each in (amounts, amounts.with_halved_noise(own))]
        assert amounts.with_halved_noise(own).total == factor * amounts.total
        assert float(sizes[1] / sizes[0]) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("epsilon", "delta"), [("0.1", "1e-9"), (1, "1e-9"), (10, "1e-6")])
def test_a_promise_in_epsilon_and_delta_is_kept_by_all_of_rho(epsilon: Any, delta: str) -> None:
    """By any release that is ρ-zCDP: steps are chosen adaptively, so nothing tighter may be used."""
    own = price_in_currency(Price(epsilon, delta))
    assert isinstance(own, Concentrated)
    assert Price(epsilon, delta).is_satisfied_by(Curve.concentrated(own.rho))
    assert not Price(epsilon, delta).is_satisfied_by(Curve.concentrated(own.rho * Fraction(101, 100)))


def test_what_is_spent_never_passes_what_there_is() -> None:
    funds = SynthesisBudget(Pure(Fraction(1)))
    with pytest.raises(sf.InvalidParameter):
        funds.charge(Fraction(11, 10))
    assert funds.charge(Fraction(1)).remaining == 0
    assert round_amount_down(Fraction(1, 3)) == Fraction(333333333333333, 10**15)
    assert round_amount_down(Fraction(1, 10**9) + Fraction(9, 10**16)) == Fraction(1, 10**9)
    assert round_amount_down(Fraction(1, 3 * 10**9)) == Fraction(333333333333333333333, 10**30)


@pytest.mark.parametrize("price", [{"epsilon": "1e-9"}, {"rho": "1e-22"}])
def test_a_price_that_cannot_buy_the_columns_is_refused(price: dict[str, Any]) -> None:
    proposal, _ = exact(policy_of(people(1, 9)), Price(2))
    with pytest.raises(sf.InvalidParameter):
        proposal.setting_after_dry_run(Price(**price))


# ── each formula beside its literal, in exact numbers ────────────────────────────────────────────


STEP = Fraction(1, 10**12)
ONE = Sensitivity(1, 1)
SCORES: Any = SimpleNamespace(sensitivity=Fraction(5), neighbours=Neighbours.REPLACE)
RANKS: Any = SimpleNamespace(rows_per_unit=3, neighbours=Neighbours.REPLACE, ends=(0, 20))
QUARTERS = [Fraction(index, 4) for index in (1, 2, 3)]
"""Quantiles of two levels."""


def test_roots_are_rounded_up_to_twelve_decimals() -> None:
    for value, root in (
        (Fraction(4), 2 + STEP),
        (Fraction(1, 2), 707106781187 * STEP),
        (Fraction(35, 10**25), 3 * STEP),  # 3.5 steps² is rounded up before the root
        (Fraction(1, 10**30), 2 * STEP),
    ):
        assert budget._root_rounded_up(value) == root
        assert root**2 > value


def test_noise_choices_and_quantiles_in_rho_are_those_of_the_formulas() -> None:
    """ρ = Δ₂²/2σ² for noise, ε²/8 for a choice, and T·(ε/T)²/8 for the T levels of quantiles."""
    own = Concentrated(Fraction(7, 2))
    assert own.total == Fraction(7, 2) - Fraction(7, 2 * 10**9)
    assert own.noise(Fraction(2, 9), Sensitivity(9, 9, squares=4)) == Gaussian(3 + STEP)
    assert own.noise_cost(Gaussian(3), Sensitivity(9, 9, squares=4)) == Fraction(4, 18)
    assert own.choice(Fraction(9, 8), SCORES).epsilon == Fraction(10**12, 333333333334)  # 1/√(1/9)
    assert own.choice_cost(Exponential(3, 1)) == Fraction(9, 8)
    assert own.quantiles_cost(Quantiles(QUARTERS, 6, (0, 20))) == 2 * Fraction(3**2, 8)
    bought = own.quantiles(Fraction(9, 4), RANKS, QUARTERS)
    assert bought == Quantiles(QUARTERS, Fraction(2 * 10**12, 333333333334), (0, 20), 3, "replace")
    assert Fraction(9, 4) * (1 - 10 * STEP) < own.quantiles_cost(bought) < Fraction(9, 4)
    assert own.total_curve(Neighbours.REPLACE) == Curve.concentrated("3.5", Neighbours.REPLACE)
    assert own.first_round_sharpness(7) == 3.5**0.5


def test_noise_choices_and_quantiles_in_epsilon_are_those_of_the_formulas() -> None:
    own = Pure(Fraction(7, 2))
    assert own.total == Fraction(7, 2)
    assert own.noise(Fraction(2, 9), Sensitivity(1, 4)) == Laplace(18)
    assert own.noise_cost(Laplace(18), Sensitivity(1, 4)) == Fraction(2, 9)
    assert own.choice(Fraction(9, 8), SCORES).epsilon == own.choice_cost(Exponential("9/8", 1)) == Fraction(9, 8)
    assert own.quantiles(Fraction(9, 4), RANKS, QUARTERS) == Quantiles(QUARTERS, "9/4", (0, 20), 3, "replace")
    assert own.quantiles_cost(Quantiles(QUARTERS, 6, (0, 20))) == 6
    assert own.total_curve(Neighbours.REPLACE) == Curve.pure("3.5", Neighbours.REPLACE)
    assert own.first_round_sharpness(9) == pytest.approx(3.5 * 0.05625**0.5 / 3, rel=1e-12)


def test_choices_are_charged_for_their_scores_and_have_an_epsilon_that_can_be_drawn() -> None:
    own = Pure(Fraction(1))
    assert own.choice(Fraction(1), SCORES) == Exponential(1, 5, neighbours=Neighbours.REPLACE, grid=1)
    assert own.choice(Fraction(10**4), SCORES).epsilon == 1000
    assert own.choice(Fraction(1, 10**9), SCORES).epsilon == Fraction(1, 10**9)
    assert own.quantiles(Fraction(3, 10**9), RANKS, QUARTERS).epsilon == Fraction(3, 10**9)
    assert own.quantiles(Fraction(10**4), RANKS, QUARTERS).epsilon == 1000
    refusals: list[Callable[[], Any]] = [
        lambda: own.choice(Fraction(1, 10**9) - Fraction(1, 10**20), SCORES),
        lambda: own.quantiles(Fraction(3, 10**9) - Fraction(1, 10**20), RANKS, QUARTERS),
        lambda: own.noise(Fraction(1, 10**12) - Fraction(1, 10**20), ONE),
    ]
    for refused in refusals:
        assert assert_refused(refused).parameter == "price"
    assert own.noise(Fraction(1, 10**12), ONE) == Laplace(10**12)
    assert own.noise(Fraction(10**9), ONE) == Laplace("1/1000")
    # at a third of the least ε: three times the price in ε, and a little more than nine times in ρ
    for priced, amount, factor in ((own, Fraction(1, 3 * 10**9), 3), (Concentrated(Fraction(1)), _rho_of(3), 10)):
        assert f" {factor} " in str(assert_refused(lambda priced=priced, amount=amount: priced.choice(amount, SCORES)))


def _rho_of(parts: int) -> Fraction:
    """Return the ρ of a choice with this part of the least ε."""
    return Fraction(1, 8 * (parts * 10**9) ** 2)


def test_amounts_are_rounded_down_and_rounds_and_budgets_add_up() -> None:
    assert round_amount_down(Fraction(1, 10**9)) == Fraction(1, 10**9)
    assert round_amount_down(Fraction(10**6, 10**15) + Fraction(1, 10**16)) == Fraction(1, 10**9)
    small = Fraction(10**6, 10**15) - Fraction(1, 10**25)  # thirty decimals
    assert round_amount_down(small + Fraction(1, 10**31)) == small
    amounts = RoundAmounts.of_round(Fraction(1, 3))
    assert amounts.choice == Fraction(33333333333333, 10**15)
    assert amounts.total == amounts.measurement + amounts.choice == Fraction(1, 3)
    for own, factor in ((Concentrated(Fraction(1)), 4), (Pure(Fraction(1)), 2)):
        assert amounts.with_halved_noise(own) == RoundAmounts(factor * amounts.measurement, factor * amounts.choice)
    funds = SynthesisBudget(Pure(Fraction(4)))
    assert funds.used_share == 0
    once = funds.charge(Fraction(1)).charge(Fraction(2))
    assert (once.spent, once.remaining, once.used_share) == (3, 1, 0.75)


def test_the_currency_of_a_price() -> None:
    assert price_in_currency(Price(rho="0.3")) == Concentrated(Fraction(3, 10))
    assert price_in_currency(Price("0.3")) == Pure(Fraction(3, 10))
    assert budget.sigma_or_scale(Gaussian(7)) == budget.sigma_or_scale(Laplace(7)) == 7
