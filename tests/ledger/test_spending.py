"""Totals after lines of all kinds beside sums in fractions, and what is written of them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from random import Random

import pytest

import sfumato as sf
from sfumato.errors import InvalidParameter
from sfumato.ledger import Charged
from sfumato.ledger.spending import (
    NO_COST,
    RunningTotals,
    SampledCharge,
    Spending,
    checked_parts,
    compose_parts,
    merge_equal_parts,
    read_cost,
    read_parts,
    read_totals,
    write_cost,
    write_parts,
)
from sfumato.privacy import Cost

THIRD = Fraction(10**30, 3)
PURE = (0, 5, THIRD, None)
RENYI = (0, 7, None)
FAILURE = (0, 3, THIRD)
COSTS = tuple(Cost(*parts) for parts in itertools.product(PURE, RENYI, FAILURE))


@pytest.mark.parametrize("cost", COSTS, ids=str)
def test_a_cost_is_read_as_it_was_written(cost: Cost) -> None:
    assert read_cost(write_cost(cost)) == cost


def plus(a: object, b: object) -> object:
    return None if a is None or b is None else a + b  # type: ignore[operator]


def either(a: int | None, b: int | None) -> int | None:
    return None if a is None and b is None else (a or 0) + (b or 0)


def test_every_line_adds_its_cost_and_what_its_tab_holds_more() -> None:
    """Whatever the currencies are: unbounded ones are counted where they are held, and unstated ones stay so."""
    random = Random(8)
    for _ in range(60):
        tabs: dict[int, Cost] = {}
        spending, running = Spending(), RunningTotals(Spending())
        spent: list[object] = [0, None, 0]
        for _ in range(8):
            cost = random.choice([*COSTS, NO_COST, NO_COST])
            tab = random.randrange(3)
            before = tabs.get(tab, NO_COST)
            left = random.choice([before, before, *COSTS])
            tabs[tab] = left
            spending = spending.after(cost, before, left)
            assert running.add_line(cost, before, left) == str(spending) == running.text
            spent = [plus(spent[0], cost.pure), either(spent[1], cost.renyi), plus(spent[2], cost.failure)]  # type: ignore[arg-type]
            held = [tab_cost for tab_cost in tabs.values() if tab_cost is not NO_COST]
            assert (spending.pure, spending.renyi, spending.failure) == tuple(spent)
            assert spending.held_pure == sum(each.pure or 0 for each in held)
            assert spending.held_failure == sum(each.failure for each in held)
            assert (spending.held_renyi or 0) == sum(each.renyi or 0 for each in held)
            assert spending.unbounded == sum(each.pure is None for each in held)
            assert read_totals(str(spending)) == spending
            pure = None if spending.unbounded else spending.held_pure
            assert spending.held == Cost(pure, spending.held_renyi, spending.held_failure)
            assert spending.spent == Cost(*spent)  # type: ignore[arg-type]
            assert spending.total == spending.spent + spending.held


def test_a_currency_that_was_never_held_is_not_stated() -> None:
    assert Spending().after(Cost(1, 2, 3)).held_renyi is None
    assert Spending().after(NO_COST, NO_COST, Cost(1, 2, 3)).held_renyi == 2
    assert Spending().after(NO_COST, NO_COST, Cost(1, None, 3)).held_renyi is None
    opened = Spending().after(NO_COST, NO_COST, Cost(1, 2, 3))
    assert opened.after(Cost(1, 2, 3), Cost(1, 2, 3), NO_COST).held_renyi == 0
    assert read_totals("") == Spending()
    running = RunningTotals(Spending(1, 2, 3, 4, 5, 6, 1))
    assert running.add_line(Cost(10, 20, 30)) == running.text == "11 22 33 4 5 6 1"
    assert running.add_line(Cost(10, 20, 30)) == "21 42 63 4 5 6 1"


def test_equal_parts_are_charged_once_with_a_count() -> None:
    laplace, gaussian = Charged(sf.Laplace(2), 1), Charged(sf.Gaussian(3), 1)
    merged = merge_equal_parts([laplace, gaussian, Charged(sf.Laplace(2), 1, 4), laplace])
    assert merged == (Charged(sf.Laplace(2), 1, 6), gaussian)
    assert merge_equal_parts([]) == ()
    assert merged[0].curve.epsilon(0) == pytest.approx(6 * 0.5)
    assert Charged(sf.Laplace(2), 3).curve.epsilon(0) == 1.5


def test_parts_are_written_and_composed() -> None:
    curve, laplace = sf.Curve.pure("0.25"), Charged(sf.Laplace(4), 1, 2)
    sampled = SampledCharge([laplace], "0.5")
    assert read_parts(write_parts((sampled, curve))) == (sampled, curve)
    for parts in ((curve,), (laplace,), (curve, laplace)):
        assert read_parts(write_parts(parts)) == parts
        epsilons = [each.epsilon(0) if isinstance(each, sf.Curve) else each.curve.epsilon(0) for each in parts]
        assert compose_parts(parts).epsilon(0) == pytest.approx(sum(epsilons))
    assert read_parts("") == read_parts("[]") == ()
    assert checked_parts(curve) == checked_parts([curve]) == (curve,)
    for wrong in ((), [], 3, [curve, 3], None):
        with pytest.raises(InvalidParameter):
            checked_parts(wrong)


def test_a_charge_has_a_sensitivity_if_and_only_if_its_noise_is_added() -> None:
    with pytest.raises(InvalidParameter, match="sensitivity"):
        Charged(sf.Laplace(2))
    with pytest.raises(InvalidParameter, match="mechanism"):
        Charged(3, 1)  # type: ignore[arg-type]
    for times in (0, -1, "2.5"):
        with pytest.raises(InvalidParameter, match="times"):
            Charged(sf.Laplace(2), 1, times)  # type: ignore[arg-type]
    for wrong in ((), [sf.Curve.pure(1)], 3):
        with pytest.raises(InvalidParameter, match="charges"):
            SampledCharge(wrong, "0.5")  # type: ignore[arg-type]
    for rate in (0, 1, 2):
        with pytest.raises(InvalidParameter, match="rate"):
            SampledCharge([Charged(sf.Laplace(2), 1)], rate)


@pytest.mark.parametrize(
    ("mechanism", "sensitivity"),
    [(sf.Laplace, 1), (sf.Gaussian, 1), (sf.PermuteAndFlip, None), (sf.AboveThreshold, None)],
)
def test_a_class_of_mechanisms_is_no_mechanism(mechanism: type, sensitivity: int | None) -> None:
    with pytest.raises(InvalidParameter, match="mechanism"):
        Charged(mechanism, sensitivity)  # type: ignore[arg-type]


def test_a_sample_costs_what_amplification_says() -> None:
    """ε′ = ln(1 + q(e^ε − 1)) of one Laplace noise (Li, Qardaji & Su 2012)."""
    charge = SampledCharge([Charged(sf.Laplace(1), 1)], Fraction(1, 4))
    assert charge.curve.epsilon(0) == pytest.approx(math.log(1 + 0.25 * (math.e - 1)), rel=1e-6)


def test_a_charge_pays_for_each_of_its_runs() -> None:
    laplace, choice = sf.Laplace(10), sf.Exponential(1, 1)
    for times in (1, 2, 3):
        assert Charged(laplace, 1, times).curve.max_divergence == Fraction(times, 10)
        assert Charged(choice, None, times).curve == sf.compose([(choice.curve(), times)])
    assert Charged(choice).sensitivity is None
    assert Charged(sf.AboveThreshold(1, 5)).curve.max_divergence == 1
    for mechanism in ("laplace", 3, None):
        for sensitivity in (1, None):
            with pytest.raises(InvalidParameter) as refusal:
                Charged(mechanism, sensitivity)  # type: ignore[arg-type]
            assert refusal.value.parameter == "mechanism"
    for mixed, sensitivity in ((laplace, None), (choice, 1)):
        with pytest.raises(InvalidParameter) as refusal:
            Charged(mixed, sensitivity)
        assert refusal.value.parameter == "sensitivity"
        assert ("leave" in refusal.value.fix) is (sensitivity is not None)
    with pytest.raises(InvalidParameter) as refusal:
        SampledCharge([Charged(choice)], "0.5")
    assert refusal.value.parameter == "charges"
    replaced = sf.Sensitivity(2, neighbours="replace")
    sampled = SampledCharge([Charged(laplace, replaced), Charged(sf.Laplace(5), replaced)], "0.5").curve
    whole = sf.compose([laplace.curve(replaced), sf.Laplace(5).curve(replaced)])
    assert sampled == whole.subsampled("0.5", bounds_presence=True)
    assert compose_parts(()).max_divergence == 0
    assert compose_parts([sf.Curve.pure(1), Charged(laplace, 1)]).max_divergence == Fraction(11, 10)
