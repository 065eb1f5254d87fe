"""Real deployments are read as the registry tells of them, and no reading is better than its theorem."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

import sfumato as sf
from sfumato.data import SCOPES, deployments
from sfumato.plots.frame import LogScale
from sfumato.privacy.pictures import PlottedPrecedent, draw_precedents
from sfumato.privacy.precedents import posterior_belief, precedents


def test_the_table_holds_41_deployments_each_of_them_once() -> None:
    found = deployments()
    assert len({each.slug for each in found}) == len(found) == 41
    assert Counter(each.is_stated for each in found) == {True: 35, False: 6}
    assert {each.scope for each in found} <= set(SCOPES)
    assert all(2010 < each.year < 2030 and each.name and each.curator for each in found)


def test_figures_are_those_of_the_registry() -> None:
    known = {each.name: each for each in deployments()}
    assert known["Redistricting Data"].rho == Fraction("2.63")
    assert (known["LinkedIn Hiring Reports"].epsilon, known["LinkedIn Hiring Reports"].delta) == (
        Fraction("4.8"),
        Fraction("4e-10"),
    )
    assert known["Broadband Coverage"].epsilon == Fraction("0.2")
    assert known["FLEX"].note


def test_deployments_stand_in_the_order_of_their_epsilon() -> None:
    found = precedents(sf.Guarantee(1, "1e-6"))
    every = [each.promise.epsilon for each in found.stated]
    assert every == sorted(every)
    assert len(found.smaller) + len(found.larger) + sum(each == 1 for each in every) == len(every) == 35
    marked = [place for place, row in enumerate(found.rows()) if row[0] == "→"]
    assert marked == [len(every) - len(found.larger)]
    assert len(found.rows()) == 42


def test_a_rho_is_told_at_the_delta_of_the_promise() -> None:
    for delta in ("1e-6", "1e-9"):
        census = next(
            each for each in precedents(sf.Guarantee(1, delta)).stated if each.deployment.name == "Redistricting Data"
        )
        assert census.promise.delta == Fraction(delta)
        assert float(census.promise.epsilon) >= sf.Curve.concentrated("2.63").epsilon(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", 0), ("1", "1e-6"), ("4.8", "4e-10"), ("0.2", "1e-5")])
def test_a_belief_is_no_better_than_the_best_bound(epsilon: str, delta: str | int) -> None:
    """The reading searches for the least bound at this exception; a closed form is above it, and within a tenth."""
    promise = sf.Guarantee(epsilon, delta)
    best = sf.reading(promise, delta=10 * promise.delta).membership
    assert best is not None
    assert best * (1 - 1e-9) <= posterior_belief(promise, "0.01") <= best * 1.1


def test_a_belief_is_rounded_up_where_it_is_shown() -> None:
    for each in precedents(sf.Guarantee(1)).stated:
        said = each.words[3]
        assert not said or said.endswith(" %")
        if said.endswith(" %") and not said.startswith("above"):
            assert float(said.removesuffix(" %")) >= 100 * each.belief - 1e-9
        elif said:
            assert each.belief > 0.999


def test_no_name_in_a_picture_is_a_tag() -> None:
    dots = [
        PlottedPrecedent("<script>alert(1)</script>", 1.0, "person"),
        PlottedPrecedent("b", 0.001, "record"),
        PlottedPrecedent("c", 500.0, "period"),
    ]
    picture = draw_precedents(dots, {"<b>": 2.0}, SCOPES, 0)
    assert "<script>" not in picture.svg
    assert "<b>" not in picture.svg
    scale = LogScale(0.001, 500.0, 0.0, 1.0)
    assert math.isclose(scale(0.001), 0.0)
    assert picture.height < 1000


def test_the_picture_of_all_deployments_is_at_most_a_page_high() -> None:
    found = precedents(sf.Guarantee(3, "1e-6"), marks={"spent so far: ε = 1": 1.0})
    picture = found.plot()
    assert picture.height <= 1000
    assert picture.svg.count("<polygon") == 35 + len(SCOPES)


def test_two_beliefs_about_one_promise_are_explained() -> None:
    """The text told 17.0 % and the table 18.4 %: they have exceptions of different probabilities."""
    found = precedents(sf.Guarantee(3, "1e-6"))
    (own,) = (each for each in found.rows() if each[0] == "→")
    assert "at most 17.0 %" in str(found)
    assert own[3] == "18.4 %"
    said = "the text above states 17.0 %, except with probability 0.000211, and this table 18.4 %"
    assert said in found.caption
    assert "1e-05" in found.caption
    assert "above" not in precedents(sf.Guarantee(3)).caption
    assert "a value of the unit" in precedents(sf.Guarantee(1, "1e-6"), neighbours="replace").caption
