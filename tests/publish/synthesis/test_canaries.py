"""One run is audited with canaries: whoever sees all that was released guesses which of them were among the rows.

Steinke, Nasr & Jagielski (2023), "Privacy auditing with one training run", theorem 5.2: of m canaries, each among the
rows by a fair coin of its own, an (ε, δ)-DP release lets r guesses be right no more often than r coins of bias
e^ε/(1 + e^ε), but with probability 2mδ. The release here is that of many parts of a table: a unit is in one of them, so
that all together keep the promise of one. Every bound is wrong with probability 1e-6 at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from publish.synthesis import clinic
from publish.synthesis.clinic import Row, exact, people, policy_of
from sfumato.mechanisms import Laplace
from sfumato.mechanisms.bits import random_array_below
from sfumato.mechanisms.confidence_limits import lower_confidence_limit
from sfumato.plan.readings.cell_rows import CodedRows
from sfumato.publish.marginals.measuring import encode_integers
from sfumato.publish.synthesis.budget import sigma_or_scale
from sfumato.publish.synthesis.candidates import NoisyCells
from sfumato.publish.synthesis.methods import aim
from sfumato.publish.synthesis.state import SynthesisState
from sfumato.publish.tab_steps import ChooseStep, MeasureStep
from sfumato.release.prices import Price

PARTS, EPSILON, MISS = 60, 1, 1e-6
FEW = 45
"""Parts that refute ε = 1 if one auditor guesses all of them: ln(p/(1 − p)) at p = 10^(−6/45) is 1.02."""
PRICES = (Price(EPSILON), Price(EPSILON, "1e-9"))
BASE = [row for row in people(1, 12) if row[1] == "f"]
CANARY: Row = (99, "m", 8, True)
Worlds = tuple[tuple[Any, CodedRows], tuple[Any, CodedRows]]


@dataclass
class Seen:
    """What one part released: its columns, its steps and what came out of them."""

    sizes: tuple[int, ...]
    steps: list[tuple[Any, Any]]


Auditor = Callable[[Seen, Worlds], float]
"""Says how surely the canary is in: below 0 that it is not."""


def worlds_of(relation: str, price: Price) -> Worlds:
    """A part without the canary, or with another row in its place, and one with it."""
    without = BASE if relation == "add-remove" else [*BASE, (99, "f", 1, False)]
    policies = [policy_of(rows, relation=relation) for rows in (without, [*BASE, CANARY])]
    one, other = (exact(each, price, columns=["sex", "age"]) for each in policies)
    return one, other


def audited(worlds: Worlds, price: Price, *auditors: Auditor, spent: Price | None = None, parts: int = PARTS) -> float:
    """Bound ε from below: each part holds its canary by a coin."""
    coins = random_array_below(2, parts)
    settings = [proposal.setting(spent or price) for proposal, _ in worlds]
    found = [run(settings[coin], worlds[coin][1]) for coin in coins]
    right = max(
        sum((guess(each, worlds) > 0) == (coin == 1) for each, coin in zip(found, coins, strict=True))
        for guess in auditors
    )
    share = lower_confidence_limit(right, parts, (MISS - 2 * parts * float(price.delta)) / len(auditors))
    return math.log(share / (1 - share))


def run(setting: Any, rows: CodedRows) -> Seen:
    steps, seen = aim(SynthesisState(setting)), []
    step: Any = next(steps)
    try:
        while True:
            seen.append((step, step.draw(lambda _: rows)))
            step = steps.send(seen[-1][1])
    except StopIteration:
        return Seen(tuple(each.size for each in setting.attributes), seen)


# ── who guesses ────────────────────────────────────────────────────────────────────────────────


def likelihood(seen: Seen, worlds: Worlds) -> float:
    """The best guess from everything that may be released: how much likelier it is with the canary."""
    (_, without), (_, within) = worlds
    return sum(_likelier(step, outcome, without, within) for step, outcome in seen.steps)


def _likelier(step: Any, outcome: Any, without: CodedRows, within: CodedRows) -> float:
    if isinstance(step, ChooseStep):
        laws = [_law(step.scores.extract(rows) * float(step.mechanism.rate)) for rows in (without, within)]
        return float(laws[1][outcome.index] - laws[0][outcome.index])
    size = float(sigma_or_scale(step.noise))
    apart = [np.abs(outcome.counts - step.view.extract(rows)) / size for rows in (without, within)]
    if isinstance(step.noise, Laplace):
        return float((apart[0] - apart[1]).sum())
    return float((apart[0] ** 2 - apart[1] ** 2).sum() / 2)


def _law(logs: Any) -> Any:
    return logs - np.logaddexp.reduce(logs)


def by_number_of_rows(seen: Seen, worlds: Worlds) -> float:
    return 1.0 if seen.steps[0][1].counts.sum() == worlds[1][1].totals.sum() else -1.0


def by_scores(seen: Seen, worlds: Worlds) -> float:
    step, outcome = next(each for each in seen.steps if isinstance(each[0], ChooseStep))
    return 1.0 if (outcome.scores == step.scores.extract(worlds[1][1])).all() else -1.0


def by_columns(seen: Seen, worlds: Worlds) -> float:
    return 1.0 if seen.sizes == tuple(each.size for each in worlds[1][0].attributes) else -1.0


# ── what is audited ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("price", "relation"),
    [
        (PRICES[0], "add-remove"),
        (PRICES[1], "replace"),
        pytest.param(PRICES[0], "replace", marks=pytest.mark.long),
        pytest.param(PRICES[1], "add-remove", marks=pytest.mark.long),
    ],
    ids=str,
)
def test_canaries_are_guessed_no_better_than_the_price_allows(price: Price, relation: str) -> None:
    assert audited(worlds_of(relation, price), price, likelihood, by_number_of_rows, by_columns) <= EPSILON


@pytest.mark.long
def test_the_audit_notices_that_more_was_spent() -> None:
    """If each of 45 guesses is right, ε is above 1.02. One is wrong with a probability below 10⁻¹⁴: half the product of
    (1 + r/2)e^{−r/2} over all that is measured, where a canary moves Laplace noise by r of its scale.
    """
    price, spent = PRICES[0], Price(100 * EPSILON)
    assert audited(worlds_of("add-remove", price), price, likelihood, spent=spent, parts=FEW) > EPSILON


def test_the_audit_notices_an_exact_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = MeasureStep.draw

    def broken(step: MeasureStep, read: Any) -> NoisyCells:
        noisy = draw(step, read)
        return noisy if step.view.columns else NoisyCells(encode_integers(step.view.extract(read(step.view.reading))))

    monkeypatch.setattr(MeasureStep, "draw", broken)
    assert audited(worlds_of("add-remove", PRICES[0]), PRICES[0], by_number_of_rows, parts=FEW) > EPSILON


def test_the_audit_notices_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = ChooseStep.draw

    def broken(step: ChooseStep, read: Any) -> Any:
        chosen = draw(step, read)
        object.__setattr__(chosen, "scores", step.scores.extract(read(step.readings[0])))
        return chosen

    monkeypatch.setattr(ChooseStep, "draw", broken)
    assert audited(worlds_of("add-remove", PRICES[0]), PRICES[0], by_scores, parts=FEW) > EPSILON


def test_the_audit_notices_values_that_are_taken_from_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen_values(rows: list[Row], **more: Any) -> Any:
        with monkeypatch.context() as own:
            own.setitem(clinic.COLUMNS, "sex", {"values": sorted({row[1] for row in rows})})
            return clinic.policy_of(rows, **more)

    monkeypatch.setattr("publish.synthesis.test_canaries.policy_of", seen_values)
    assert audited(worlds_of("replace", PRICES[0]), PRICES[0], by_columns, parts=FEW) > EPSILON
