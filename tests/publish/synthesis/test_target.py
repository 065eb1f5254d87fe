"""A synthesis for a column that will be learned: which pairs are measured first, what they cost, what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from covering_cases import covering
from publish.synthesis.clinic import PRICES, RELATIONS, curator, exact_worlds, pairs, people, policy_of, worlds
from sfumato.plan.readings.cell_rows import CellCounts
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.synthesis.state import SynthesisState, pairs_with
from sfumato.publish.tab_steps import MeasureStep
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
STAR = ((0, 1), (1, 2))
"""The pairs of age, the target, with the two others."""


@covering({"relation": RELATIONS, "units": [False, True], "price": PRICES})
def test_the_targets_pairs_cost_what_all_neighbours_can_move_them(
    relation: str, units: bool, price: dict[str, Any]
) -> None:
    """By enumeration, with a unit of more rows than count: for no neighbours do all pairs together lose more than what
    they are charged, which is four fifths of the price without the number of rows; for some they lose all of that.
    """
    policies = [policy_of(rows, relation=relation, units=units) for rows in worlds(relation, units)]
    proposal, read = exact_worlds(policies, Price(**price), target="age")
    course = SynthesisState(proposal.setting(Price(**price)))
    currency, steps, star = course.budget.currency, aim(course), []
    step = next(steps)
    while isinstance(step, MeasureStep):
        if step.view.columns:
            star.append(step)
        else:
            after_rows = currency.total - currency.noise_cost(step.noise, step.view.sensitivity)
        step = steps.send(step.draw(lambda _: read[0]))
    assert tuple(measured.view.columns for measured in star) == STAR  # and then a choice
    spent = sum((currency.noise_cost(each.noise, each.view.sensitivity) for each in star), start=Fraction(0))
    assert after_rows * Fraction(4, 5) * (1 - Fraction(1, 10**6)) < spent <= after_rows * Fraction(4, 5)
    losses = [
        sum(_loss(each, [each.view.extract(rows) for rows in both]) for each in star) for both in pairs(relation, read)
    ]
    assert float(spent) / 2 < max(losses) <= float(spent) * (1 + 1e-9)
    assert relation == "replace" or max(losses) > float(spent) * (1 - 1e-9)


def _loss(step: MeasureStep[Any], both: list[Any]) -> float:
    """Return what the noise of one marginal lets through of a difference: in ρ of Gaussian noise, else in ε."""
    moved = abs(both[0] - both[1])
    if hasattr(step.noise, "sigma"):
        return float((moved**2).sum() / (2 * step.noise.sigma**2))
    return float(moved.sum() / step.noise.scale)


@covering({"relation": RELATIONS, "price": PRICES})
def test_a_release_for_a_target_is_charged_as_any_other(tmp_path: Path, relation: str, price: dict[str, Any]) -> None:
    with curator(tmp_path, people(1, 40), relation=relation) as clinic:
        proposal = clinic.synthesize("people", ways=2, target="smokes")
        found = proposal.release(**price).released
        assert found.complete
        assert [each.columns for each in found.rounds[:2]] == [("sex", "smokes"), ("age", "smokes")]
        assert "to learn smokes" in proposal.question
        assert "pairs with smokes" in str(proposal.explain(**price))
        account = clinic._context.account
        if price == {"epsilon": 2}:
            assert account.spent["pure"] == 2
        assert proposal.plan_key != clinic.synthesize("people", ways=2).plan_key
        assert proposal.plan_key != clinic.synthesize("people", ways=2, target="sex").plan_key
        forecast = proposal.forecast(**price)
        assert 3 <= forecast.rounds <= 12
        assert not account.open_tabs()


def test_the_pairs_of_a_target_are_counted_whatever_the_workload_names(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 40)) as clinic:
        proposal = clinic.synthesize("people", ways=1, target="age")
        reading = proposal.setting(Price(2)).reading
        assert {*STAR} < reading.distinct_sets
        assert CellCounts(reading, STAR[0]).size == 12
        assert proposal.release(epsilon=2).released.complete
    assert pairs_with(1, 3) == STAR


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"target": "height"}, r"one of the columns of the model: sex, age, smokes"),
        ({"target": "sex", "columns": ["sex"], "ways": 1}, "left out, because the model has only one column"),
        ({"target": "sex", "method": "mst"}, "left out with method='mst'"),
        ({"target": "age", "memory": "4 KiB", "ways": 1}, "measuring age together with every other column"),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path: Path, options: dict[str, Any], word: str) -> None:
    with curator(tmp_path, people(1, 9)) as clinic, pytest.raises(sf.SfumatoError, match=word):
        clinic.synthesize("people", **options)


def test_several_tables_have_no_target(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 9)) as clinic, pytest.raises(sf.InvalidParameter, match="several tables"):
        clinic.synthesize(["people", "visits"], target="age")  # type: ignore[call-overload]
