"""Online sessions on record: weights made whole, gates and their widths, hypotheses and their updates."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from claims.flattening import claims_of, outcome
from claims.recorded import Claim, check_claims
from mechanisms.recorded import keyed
from publish.tables import ATTRIBUTES, counts, people, planned, published
from sfumato.privacy import Neighbours
from sfumato.publish.cells import answering
from sfumato.publish.cells.answering import GroupedTotals
from sfumato.publish.mwem import CandidateCounts
from sfumato.publish.online import (
    Hypothesis,
    build_gate,
    close_score_bound,
    first_hypothesis,
    round_to_steps,
    with_integer_weights,
    worst_error_in_row_effects,
)
from sfumato.publish.synopsis import Synopsis

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM people WHERE sex = 'f' AND smokes AND age >= 40",
    "SELECT sex, COUNT(*) AS n FROM people WHERE smokes AND age < 18 GROUP BY sex",
    "SELECT SUM(CASE WHEN sex = 'f' AND smokes THEN 2.5 WHEN age < 18 THEN -1.25 ELSE 0 END) AS s FROM people",
    "SELECT smokes, AVG(CASE WHEN sex = 'f' AND age < 18 THEN 3 ELSE 1 END) AS a FROM people GROUP BY smokes",
    "SELECT SUM(CASE WHEN sex = 'f' AND smokes AND age < 40 THEN 0.3333333 ELSE 7 END) AS s FROM people",
    "SELECT SUM(CASE WHEN sex = 'f' AND smokes AND age < 40 THEN 1100000 ELSE 7 END) AS s FROM people",
)
ROWS = counts(people(1)).sum((3, 4, 5))


@cache
def synopsis() -> Synopsis:
    with keyed("an online session"):
        return published(planned([("sex",), ("age",), ("smokes",)], attributes=ATTRIBUTES[:3]), ROWS, noisy=True)


def asked(question: str) -> list[tuple[GroupedTotals, ...]]:
    """The totals that a session is asked to settle."""
    found: list[tuple[GroupedTotals, ...]] = []

    def settle(own: tuple[GroupedTotals, ...], share: float) -> None:
        found.append(own)
        shares.append(share)

    shares: list[float] = []
    answering.answer_sql(synopsis().face, question, resolve_totals=settle)
    return found


@pytest.mark.parametrize("turn", range(len(QUESTIONS)))
def test_totals_and_updates(turn: int) -> None:
    found: dict[str, Claim] = {}
    for measure, own in enumerate(asked(QUESTIONS[turn])):
        made = with_integer_weights(own)
        if made is None:
            found[f"{measure}"] = None
            continue
        exact = made.extract(ROWS.astype(np.int64))
        found |= claims_of(
            f"{measure}", {"scale": made.scale, "reach": made.max_row_effect, "axes": made.axes, "exact": exact}
        )
        found |= claims_of(f"{measure} large", made.extract(ROWS.astype(np.int64) << 50))
        for textbook in (False, True):
            guess = first_hypothesis(synopsis()._synopsis_estimates, textbook=textbook)
            now = np.concatenate([guess.guess_totals(each) for each in made.parts])
            label = f"{measure} {textbook}"
            found |= claims_of(f"{label} guess", now)
            found |= claims_of(
                f"{label} score",
                worst_error_in_row_effects(exact, round_to_steps(now, Fraction(1)), made.max_row_effect),
            )
            for near, far in ((0.5, 30.0), (40.0, 30.0), (0.5, 900.0)):
                moved = guess.updated(made, exact.astype(float), near, far)
                said = [moved.total, np.concatenate([moved.guess_totals(each) for each in made.parts])]
                found |= claims_of(f"{label} {near} {far}", said)
            found |= claims_of(f"{label} over", guess.marginal((0, 2)))
    check_claims(f"online/totals_{turn}", found)


def test_gates() -> None:
    found: dict[str, Claim] = {}
    for epsilon, most in ((Fraction(1, 10), 1), (Fraction(1), 3), (Fraction(5), 40)):
        for relation in Neighbours:
            gate = build_gate(epsilon, most, relation)
            label = f"{epsilon} {most} {relation.value}"
            found |= claims_of(
                label, {"threshold": gate.threshold, "scales": gate.scales, "leak": gate.curve().epsilon(0)}
            )
            for rounds, beta in ((1, 0.05), (20, 0.05), (20, 1e-4)):
                found[f"{label} {rounds} {beta}"] = close_score_bound(gate, rounds, beta)
    for step in (Fraction(1), Fraction(1, 8), Fraction(3)):
        found |= claims_of(f"steps {step}", round_to_steps(np.array([1.3, -2.6, 1e30, -1e30]), step))
    found |= claims_of(
        "score", [worst_error_in_row_effects(np.array([1, 9]), np.array([4, 2]), reach) for reach in (1, 2, 7, 8)]
    )
    whole = Hypothesis(np.arange(12.0).reshape(3, 4), 66.0)
    found |= claims_of("over", [whole.marginal((0,)), whole.marginal((1,)), whole.marginal(())])
    check_claims("online/gates", found)


class View:
    """A view of so many numbers."""

    def __init__(self, size: int, cells: Any = None) -> None:
        self.size, self.cells = size, cells


def test_candidates_by_place() -> None:
    found: dict[str, Claim] = {}
    views: Any = (View(3, (0,)), View(1, (1,)), View(4, (2,)))
    for each in (False, True):
        own = CandidateCounts(views, each)
        found[f"{each} count"] = len(own)
        for place in range(len(own)):
            found |= claims_of(f"{each} {place}", outcome(lambda: own.view(place).cells))
    check_claims("online/candidates", found)
