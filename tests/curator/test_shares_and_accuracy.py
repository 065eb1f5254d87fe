"""Accuracy first, analysts' shares, and what a receipt says of an answer that was bought before."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.standings import Standing

COUNT = "SELECT COUNT(*) AS n FROM flights"


@pytest.fixture
def flights() -> sf.Curator:
    return sf.open(sf.example())


def test_the_error_of_a_sum_does_not_depend_on_its_group(flights: sf.Curator) -> None:
    """It did: whole sums are shown rounded, which moved the half-width by a little."""
    ask = flights.sql("SELECT SUM(distance) AS miles, SUM(delay) AS minutes FROM flights")
    for width in ask.error(epsilon=1).columns.values():
        assert isinstance(width, float)
    assert ask.error(epsilon=ask.price({"miles": 4_000_000}))["miles"] <= 4_000_000


def test_one_number_means_every_column(flights: sf.Curator) -> None:
    ask = flights.sql("SELECT COUNT(*) AS n, COUNT(delay) AS flown FROM flights")
    assert ask.price(500) == ask.price({"n": 500, "flown": 500})
    with pytest.raises(sf.InvalidParameter, match="a mapping from columns to half-widths"):
        ask.price({})
    with pytest.raises(sf.InvalidParameter, match="left out if epsilon or rho is given"):
        ask.error(within=500, epsilon=1)


def test_the_least_price_is_enough_and_a_little_less_is_not(flights: sf.Curator) -> None:
    ask = flights.sql(COUNT)
    price = ask.price({"n": 500})
    assert ask.error(epsilon=price)["n"] <= 500 < ask.error(epsilon=price * 0.999)["n"]


def test_a_forecast_says_whether_the_account_and_the_share_would_accept(flights: sf.Curator) -> None:
    ana = flights.as_analyst("ana")
    for curator, most in ((flights, 3), (ana, Fraction(3, 2))):
        ask = curator.sql(COUNT)
        assert ask.error(epsilon=most).accepted
        assert not ask.error(epsilon=most + Fraction(1, 10)).accepted
    ana.sql(COUNT).release(epsilon="1.5")
    assert not ana.sql(COUNT).error(epsilon="0.1").accepted
    assert flights.sql(COUNT).error(epsilon="1.5").accepted
    with pytest.raises(sf.Overspent, match="the analyst's share"):
        ana.sql(COUNT).release(epsilon="0.1", fresh=True)


def test_a_stored_answer_keeps_the_promise_it_was_bought_with(flights: sf.Curator) -> None:
    bought = flights.sql(COUNT).release(epsilon=1)
    again = flights.sql(COUNT).release(epsilon="0.2")
    assert again.receipt.free
    assert not bought.receipt.free
    for part in ("guarantee", "mechanisms", "strategy", "hash", "line", "time"):
        assert getattr(again.receipt, part) == getattr(bought.receipt, part), part
    assert again.intervals == bought.intervals


def test_what_would_be_accepted_fits_every_budget() -> None:
    whole = sf.Budget(3, "1e-6")
    standing = Standing.of(whole.charge(sf.Curve.pure("2.75")), whole.share("0.5"))
    assert standing.largest["Laplace"] == 0.25
    assert standing.left["pure"] == Fraction("1.5")
    assert "Gaussian noise: nothing\n" in str(Standing.of(whole.charge(sf.Curve.pure(3))))
    ended = Standing.of(sf.Budget(1).charge(sf.Curve.pure(1)))
    assert str(ended).startswith("budget left for ordinary answers: ε = 0 of 1\n")
    assert ended.details() == ["largest release accepted now: none"]
    assert Standing.of(sf.Budget(1, neighbours="replace")).largest == {"Laplace": 1}


def test_bars_span_from_zero_with_whiskers_at_the_ends_of_the_range(flights: sf.Curator) -> None:
    answer = flights.sql("SELECT origin, COUNT(*) AS n FROM flights GROUP BY origin").release(epsilon=1)
    for line in answer.bars("n", width=40).splitlines():
        bar = line[5:45]
        assert bar.startswith("█")
        assert bar.rstrip().endswith("┤") or bar.rstrip().endswith("┼")
        assert bar.index("┼") <= len(bar.rstrip()) - 1
    with pytest.raises(sf.InvalidParameter):
        answer.bars("origin")
    with pytest.raises(sf.InvalidParameter):
        answer.bars("n", width=1)
    signed = flights.sql("SELECT COUNT(*) - 100000 AS below FROM flights").release(epsilon=1)
    assert "█" in signed.bars("below")


def test_a_curator_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "x")
    sf.open(policy).close()
    policy.write_text(policy.read_text().replace("epsilon = 3.0", "epsilon = 4.0"))
    with pytest.raises(sf.AccountDiffers):
        sf.open(policy)
    held = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink() and each.exists()]
    assert not [name for name in held if str(tmp_path) in name]


JOINT_QUESTIONS = {
    "groups": "SELECT origin, COUNT(*) AS n, SUM(distance) AS m FROM flights GROUP BY origin",
    "alone": "SELECT COUNT(*) AS n FROM flights",
    "subtotals": "SELECT origin, COUNT(*) AS n FROM flights GROUP BY ROLLUP (origin)",
    "windows": "SELECT origin, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS every FROM flights GROUP BY origin",
}


@pytest.mark.parametrize("name", JOINT_QUESTIONS)
@pytest.mark.parametrize("joint", [False, True])
def test_the_width_that_was_forecast_is_the_width_that_is_answered(flights: sf.Curator, name: str, joint: bool) -> None:
    """For each number, or for all of them at once."""
    question = flights.sql(JOINT_QUESTIONS[name])
    forecast, answer = (
        question.error(epsilon="0.2", joint=joint),
        question.release(epsilon="0.2", joint=joint, fresh=True),
    )
    for column, width in forecast.columns.items():
        assert isinstance(width, float)
        answered = max(high - low for low, high in answer.intervals[column]) / 2
        assert answered <= width <= answered + 3  # a forecast includes rounding to whole numbers
    each, all_at_once = (question.error(epsilon="0.2", joint=choice)["n"] for choice in (False, True))
    assert (each < all_at_once) is (name != "alone")


def test_an_error_wanted_for_all_numbers_at_once_is_kept_by_all_at_once(flights: sf.Curator) -> None:
    question = flights.sql(JOINT_QUESTIONS["groups"])
    for joint in (False, True):
        answer = question.release(within={"n": 2000}, joint=joint, fresh=True)
        assert max(high - low for low, high in answer.intervals["n"]) / 2 <= 2000 * (1 + 1e-9)
    assert question.price({"n": 2000}, joint=True) > question.price({"n": 2000})
    goals = {"a": {"n": 2000}, "b": 2000}
    workload = flights.workload({"a": JOINT_QUESTIONS["groups"], "b": JOINT_QUESTIONS["alone"]})
    assert workload.price(goals, joint=True) > workload.price(goals)
    answers = workload.release(within=goals, joint=True, fresh=True)
    assert max(high - low for low, high in answers["a"].intervals["n"]) / 2 <= 2000 * (1 + 1e-9)
    each, all_at_once = (workload.error(epsilon="0.2", joint=choice)["a"]["n"] for choice in (False, True))
    assert each < all_at_once
