"""Forecasts, goals and free answers of proposals, with stand-ins for what they ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.curator.proposals import bought_synopses, combined_questions, limit_proposals
from sfumato.curator.proposals.combined_questions import CombinedQuestion
from sfumato.curator.proposals.limit_proposals import ClippedProposal, ClippedQuestion
from sfumato.curator.proposals.logistic import LogisticProposal
from sfumato.curator.proposals.regressions import RegressionProposal
from sfumato.errors import InvalidParameter
from sfumato.plan.aggregates.measures import DistinctUnits


@pytest.mark.parametrize(
    ("within", "expected"),
    [(4, 3), ({"age": 4}, 2), ({"cost": 4}, 3), ({"age": 2, "cost": 6}, 4), ({"age": 8, "cost": 12}, 1)],
)
def test_a_price_meets_the_goals_of_the_terms_that_have_one(within: Any, expected: int) -> None:
    """At ε the forecast is 8/ε for age and 12/ε for cost: the goal itself is enough."""
    forecasts: list[Any] = []

    def forecast(draw: Any, confidence: Any, basis: Any) -> Any:
        forecasts.append((draw, confidence, basis))
        widths = {"age": Fraction(8) / draw, "cost": Fraction(12) / draw}
        return type("Forecast", (dict,), {"terms": tuple(widths)})(widths)

    def least_epsilon(delta: Any, is_within: Any) -> float:
        assert delta == "1e-6"
        return float(next(epsilon for epsilon in range(1, 99) if is_within(Fraction(epsilon))))

    proposal: Any = SimpleNamespace(
        _forecast=forecast,
        _forecast_basis=lambda: "released before",
        _strategy_at=lambda price: price.epsilon,
        _least_epsilon=least_epsilon,
    )
    assert RegressionProposal.price(proposal, within, delta="1e-6", confidence="0.9") == expected
    assert forecasts[0] == (1, "0.9", "released before")
    for wrong in ({}, {"age": 3, "other": 1}, {"other": 1}, {"age": 0}):
        with pytest.raises(InvalidParameter):
            RegressionProposal.price(proposal, wrong, delta="1e-6", confidence="0.9")


def test_the_deviation_of_a_gradient_is_that_of_its_widest_entry() -> None:
    """The first total counts rows."""
    noise: Any = SimpleNamespace(mechanisms=[SimpleNamespace(sizes=(Fraction(size), 99)) for size in (3, 5)])
    for units, widest in (([9.0, 2.0, 4.0, 1.0], 4.0), ([9.0, 7.0, 4.0, 1.0], 7.0)):
        proposal: Any = SimpleNamespace(scan_weights=SimpleNamespace(deviation_units=np.array(units)))
        assert LogisticProposal._gradient_deviations(proposal, noise) == [3 * widest, 5 * widest]


@dataclass(frozen=True)
class Forecast:
    accepted: bool
    warnings: tuple[str, ...] = ("w",)
    stored: bool = False
    left: str = "?"
    assumed_delta: Fraction = Fraction(-1)


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize(
    ("in_ledger", "fresh", "stored"), [(True, False, True), (True, True, False), (False, False, False)]
)
@pytest.mark.parametrize("delta", [0, "1e-9"])
def test_a_forecast_says_what_is_stored_left_and_assumed(
    monkeypatch: pytest.MonkeyPatch, accepted: bool, in_ledger: bool, fresh: bool, stored: bool, delta: Any
) -> None:
    monkeypatch.setattr(combined_questions, "offered_delta_notes", lambda _, assumed: (f"note {assumed}",))
    question: Any = SimpleNamespace(
        assumed_delta=Fraction(1, 10**6),
        price_release=lambda _: SimpleNamespace(curve="curve"),
        forecast=lambda *_: Forecast(accepted),
        workload=SimpleNamespace(is_stored=lambda _: in_ledger),
        _context=SimpleNamespace(
            epsilon_total_warnings=lambda curve: (f"total {curve}",),
            budgets=("budget",),
            remaining_after_text=lambda curve, budgets: f"left after {curve} of {', '.join(budgets)}",
        ),
    )
    assumed = Fraction(1, 10**6) if delta == 0 else Fraction(0)
    found: Any = CombinedQuestion.error(question, 1, delta=delta, fresh=fresh)
    assert found.stored == stored
    assert found.assumed_delta == assumed
    assert found.left == ("left after curve of budget" if accepted else "")
    assert found.warnings == (("w",) if stored else ("w", f"note {assumed}", "total curve"))
    with pytest.raises(InvalidParameter):
        CombinedQuestion.error(question, 1, delta=delta, sample="10 %")


class Synopses:
    """Publications that answer with widths of their own, and those that cannot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, fixed: int) -> None:
        self.asked: list[Any] = []
        monkeypatch.setattr(
            bought_synopses, "ranked_synopses_and_refusals", lambda *_: ([*range(count)], ["one refusal"])
        )
        monkeypatch.setattr(bought_synopses, "_answers_and_refusals", self.answer)
        monkeypatch.setattr(bought_synopses, "_has_fixed_widths", lambda _, answer: answer < fixed)
        monkeypatch.setattr(bought_synopses, "_note_best_of", lambda number, each, level: (number, each.answer, level))

    def answer(self, publications: list[int], question: Any, context: Any) -> Any:
        self.asked.append((question.confidence, context.policy.per))
        return [SimpleNamespace(answer=number) for number in publications], ["another"]


@dataclass(frozen=True)
class Question:
    confidence: Any
    query: Any
    limits: Any = None


def context(per: Any = None, public: bool = False) -> Any:
    return SimpleNamespace(policy=SimpleNamespace(per=per, tables={"people": SimpleNamespace(public=public)}))


def test_the_best_of_several_free_answers_shares_the_chance_of_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of n ranges that are looked at, each misses with an nth of the chance, unless widths were fixed beforehand."""
    question: Any = Question("0.9", SimpleNamespace(plan=SimpleNamespace(table="people")))
    for count, fixed, levels in (
        (0, 0, ["0.9"]),
        (1, 0, ["0.9"]),
        (2, 2, ["0.9"]),
        (2, 1, ["0.9", Fraction(19, 20)]),
        (4, 0, ["0.9", Fraction(39, 40)]),
    ):
        synopses = Synopses(monkeypatch, count, fixed)
        answers, refusals = bought_synopses._free_answers_and_refusals(question, context())
        assert [level for level, _ in synopses.asked] == levels
        shown: Any = answers
        if len(levels) == 1:
            assert [each.answer for each in shown] == [*range(count)]
        else:
            assert shown == [(count, number, "0.9") for number in range(count)]
        assert refusals == ["one refusal", "another"]
    for other in (context(per="month"), context(public=True)):
        synopses = Synopses(monkeypatch, 2, 0)
        answers, refusals = bought_synopses._free_answers_and_refusals(question, other)
        assert (answers, len(refusals), synopses.asked) == ([], 1, [])


@dataclass(frozen=True)
class Plan:
    source: str
    measures: tuple[Any, ...] = (1, 2)


@dataclass(frozen=True)
class Query:
    plan: Plan


def test_counts_of_units_are_moved_by_what_selects_the_rows_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_proposals, "caveat_by_column", lambda query, limits: (query, limits))
    about: Any = SimpleNamespace(query=Query(Plan("the rows of the question")))
    own = Query(Plan("a subquery of units"))
    for column, cut, expected in (
        (None, about, replace(own, plan=replace(about.query.plan, measures=(DistinctUnits(), DistinctUnits())))),
        ("cost", about, own),
        (None, None, own),
    ):
        question: Any = SimpleNamespace(column=column, about=cut, query=own, row_limits=lambda text: f"limits {text}")
        assert ClippedQuestion.caveat_by_column(question, "s") == (expected, "limits s")


@dataclass(frozen=True)
class Answer:
    advice: str = "own"


def test_the_worst_case_is_told_below_the_last_count(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(limit_proposals.WorkloadProposal, "combine_answers", lambda _, *given: shown.append(given))
    monkeypatch.setattr(limit_proposals, "worst_cases", lambda *_: "cases")
    proposal: Any = object.__new__(ClippedProposal)
    about = SimpleNamespace(row_limits=lambda _: SimpleNamespace(unit="person"), query=None)
    questions = {name: SimpleNamespace(column=name.upper()) for name in ("a", "b")}
    object.__setattr__(proposal, "about", about)
    object.__setattr__(proposal, "questions", questions)
    answers: Any = {"a": Answer(), "b": Answer()}
    for lines, last in (({}, "own"), ({"n": "at most 3", "s": "at most 7"}, "n: at most 3; s: at most 7")):
        monkeypatch.setattr(
            limit_proposals,
            "_worst_case_lines",
            lambda cases, by_column, unit, lines=lines: (
                lines if (cases, [*by_column], unit) == ("cases", ["A", "B"], "person") else {"wrong": "arguments"}
            ),
        )
        proposal.combine_answers(answers, None)
        assert shown[-1] == ({"a": Answer(), "b": Answer(last)}, None)
