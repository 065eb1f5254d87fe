"""How a price is split: exact costs, nothing left over, and promises that the whole of all steps keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

import sfumato as sf
from publish.synthesis.clinic import PRICES, exact, people, policy_of
from sfumato.privacy import Curve, Sensitivity
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
