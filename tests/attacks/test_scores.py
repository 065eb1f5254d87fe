"""Scores in two worlds are held against the trade-off curve at a stated rate of false alarms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks.ceilings import power_ceiling
from sfumato.attacks.findings import Finding, Findings
from sfumato.attacks.membership import Scores, TracingResult, min_runs, plot_roc, power_notes

MISS = 1e-6
ONE = sf.Guarantee(1)


def responses(epsilon: float, count: int) -> Scores:
    """The tightest test there is: randomised response touches the curve in its corner."""
    noise = sf.RandomizedResponse(epsilon)
    return Scores(noise.choose(np.ones(count, np.int64)), noise.choose(np.zeros(count, np.int64)))


def test_points_and_area_are_those_of_plain_counting() -> None:
    draw = np.random.default_rng(3)
    true, false = draw.integers(0, 9, 40).astype(float), draw.integers(0, 7, 30).astype(float)
    scores = Scores(true, false)
    for threshold in (-1.0, 0.0, 3.0, 3.5, 9.0):
        point = scores.above(threshold)
        assert (point.hit_rate, point.false_alarm_rate) == ((true >= threshold).mean(), (false >= threshold).mean())
    wins = [(one > other) + (one == other) / 2 for one in true for other in false]
    assert scores.area == pytest.approx(np.mean(wins))
    assert scores.best == max((1 + (true >= t).mean() - (false >= t).mean()) / 2 for t in [*range(10)])
    rates = [(each.false_alarm_rate, each.hit_rate) for each in scores.points]
    assert rates == sorted(rates)
    assert rates[0] == (0, 0)
    assert rates[-1] == (1, 1)


def test_what_keeps_its_promise_is_not_refuted_and_what_breaks_it_is() -> None:
    """False alarms of the first line: one in a million runs. Its twin has twice the ε and is always caught."""
    assert responses(1, 4000).excess(ONE, MISS) <= 0
    assert responses(2, 4000).excess(ONE, MISS) > 0


def test_the_proven_epsilon_is_below_the_true_one_and_close_to_it() -> None:
    """False alarms: one in a million runs for the upper end; the lower is 40 standard deviations away."""
    assert 0.9 < responses(1, 100_000).epsilon(MISS) <= 1
    blind = np.arange(1000.0)
    assert Scores(blind, blind).epsilon(MISS) == 0


def test_a_delta_pays_for_what_is_never_seen_otherwise() -> None:
    always = Scores(np.ones(5000), np.zeros(5000))
    assert always.excess(sf.Guarantee(0, "0.99"), MISS) <= 0
    assert always.excess(sf.Guarantee(0, "0.9"), MISS) > 0
    assert always.epsilon(MISS, delta=0.99) == 0


@pytest.mark.parametrize("promise", [ONE, sf.Guarantee("0.1"), sf.Guarantee(3, "1e-5")])
def test_fewer_runs_than_least_have_no_power(promise: sf.Guarantee) -> None:
    least = min_runs(promise, MISS)
    assert least is not None
    assert Scores(np.ones(least), np.zeros(least)).excess(promise, MISS) > 0
    fewer = math.floor(least / 1.1) - 1
    assert Scores(np.ones(fewer), np.zeros(fewer)).excess(promise, MISS) <= 0


def test_a_margin_is_that_of_massart() -> None:
    """Always right scores of 200 runs are refuted by the margin alone: √(ln(2/β)/400) for each of two shares."""
    always = Scores(np.ones(200), np.zeros(200))
    margin = math.sqrt(math.log(2 / MISS) / 400)
    assert always.excess(sf.Guarantee(0), MISS) == pytest.approx(1 - 2 * margin)
    assert always.epsilon(MISS) == pytest.approx(math.log((1 - margin) / margin))
    assert always.epsilon(MISS, delta=0.5) == pytest.approx(math.log((0.5 - margin) / margin))


def test_too_few_runs_are_said_to_be_so_and_how_many_it_takes() -> None:
    least = min_runs(ONE, MISS)
    assert least is not None
    assert power_notes(least, ONE, MISS) == ()
    assert power_notes(least - 1, ONE, MISS)[0].endswith(
        f"could not have refuted the promise: {least} would be needed."
    )
    assert min_runs(sf.Guarantee(1000), MISS) is None
    assert "no number of runs would suffice" in power_notes(10, sf.Guarantee(1000), MISS)[0]


@pytest.mark.parametrize("bad", [[], [math.nan], ["a"]])
def test_scores_are_numbers(bad: list[object]) -> None:
    with pytest.raises((sf.InvalidParameter, ValueError)):
        Scores(bad, [1.0])  # type: ignore[arg-type]


@pytest.mark.parametrize("miss", [0, -1, 1.5])
def test_a_miss_is_a_probability(miss: float) -> None:
    with pytest.raises(sf.InvalidParameter, match="probability"):
        Scores([1.0], [0.0]).excess(ONE, miss)


def test_curves_are_drawn_under_theory() -> None:
    picture = plot_roc([("a test", responses(1, 100))], ONE, "Title", ["A sentence."])
    assert all(each in picture.svg for each in ("a test", "ceiling by theory", "guessing", "Title", "A sentence."))
    assert power_ceiling(ONE, 1 / (1 + math.e)) == pytest.approx(math.e / (1 + math.e))


def test_what_was_traced_reads_as_its_findings() -> None:
    findings = Findings("tracing", (Finding("tracing", "exact", 9, 10, 0.5),))
    traced = TracingResult(findings, (("exact", responses(1, 50)),), ONE)
    assert str(traced) == str(findings)
    assert Findings.from_json(traced.to_json()) == findings
    assert traced.holds
    assert "<svg" in traced.plot().svg
    assert "<table" in traced._repr_html_()
