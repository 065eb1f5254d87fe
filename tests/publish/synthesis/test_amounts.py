"""Every step of a synthesis is paid for, whatever was drawn before it: for all methods and shapes of a policy."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from covering_cases import covering
from publish.synthesis.clinic import METHODS, PRICES
from sfumato.curator.context import Context
from sfumato.curator.proposals.synthesis import SynthesisProposal, propose_synthesis
from sfumato.curator.proposals.synthesis_series import SynthesisOptions, run_steps
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.errors import SfumatoError, Unsupported
from sfumato.publish.graph.models import GraphicalModel
from sfumato.publish.synthesis import state as synthesis_state
from sfumato.publish.synthesis.budget import SynthesisBudget
from sfumato.publish.synthesis.candidates import NoisyCells, Outcome, Pairs, Step
from sfumato.publish.synthesis.methods import aim, independent, mst, mwem
from sfumato.publish.synthesis.private_cells import MAX_BINS
from sfumato.publish.synthesis.state import StepGenerator, SynthesisSetting, SynthesisState, pairs_with
from sfumato.publish.tab_steps import ChooseStep, ChosenCandidate, MeasureStep, QuantileCells
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
STEPS: dict[str, Callable[[SynthesisState], StepGenerator]] = dict(
    zip(METHODS, (aim, mst, mwem, independent), strict=True)
)
OUTCOMES = ((0, 1e18), (40, 0.0), (10**7, 0.0), (10**7, 1e18))
"""The noisy number of rows, by which AIM plans for 2d or 4d rounds, and how much the model moves in a round."""
WIDE = 10


def policy_of(rows: int, columns: int, implies: dict[str, str], *, private: bool = False) -> sf.Policy:
    """Columns of three values that are equal in every row; the first may have cells to be bought, and then implies
    nothing.
    """
    names = [f"c{index}" for index in range(columns)]
    values = pa.array([row % 3 for row in range(rows)], pa.int64())
    bounded: dict[str, Any] = {"type": "integer", "bounds": [0, 40]}
    kept = {by: decided for by, decided in implies.items() if not private or "c0" not in (by, decided)}
    domains = {name: bounded if private and name == "c0" else {"values": [0, 1, 2]} for name in names}
    table = sf.Table("people", pa.table(dict.fromkeys(names, values)), domains, id="row", implies=kept)
    return sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(50, "1e-6"), {"people": table}, size=100)


@cache
def proposal_of(columns: int, private: bool, method: str = "aim") -> SynthesisProposal:
    with closing(DuckDB(policy := policy_of(3, columns, {}, private=private))) as engine:
        context = Context(policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
        return propose_synthesis(context, engine.catalog(), SynthesisOptions("people", method, min(2, columns)))


def implied_pairs(columns: int) -> Iterator[Pairs]:
    """No pair, one, a chain, a chain that ends where it starts, and all columns that decide the last one."""
    chain = tuple(itertools.pairwise(range(columns)))
    return iter(dict.fromkeys([(), chain[:1], chain, (*chain, (columns - 1, 0))[-columns if columns > 1 else 1 :],
                               tuple((place, columns - 1) for place in range(columns - 1))]))  # fmt: skip


def outcome_of(step: Step, rows: int, pick: int) -> Outcome:
    """Return an outcome that some noise leads to: so many rows, all in the first cell, and any choice."""
    if isinstance(step, ChooseStep):
        return ChosenCandidate(pick % len(step.scores.views))
    if isinstance(step, MeasureStep):
        counts = np.zeros(step.view.size, np.int64)
        counts[0] = rows
        return NoisyCells.from_counts(counts)
    return QuantileCells(tuple(range(MAX_BINS - 1)))


@pytest.fixture
def without_fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Models stay uniform, as amounts depend on a fit by one number: whether the model moved. The list holds it."""
    moved = [0.0]

    def fit(state: SynthesisState, *_: object, **__: object) -> None:
        state._predicted = {}
        state._model = GraphicalModel.from_potentials(state.setting.sizes, [], 1.0)

    with monkeypatch.context() as patch:
        patch.setattr(SynthesisState, "fit", fit)
        patch.setattr(synthesis_state, "l1_change", lambda *_: moved[0])
        yield moved


def run(setting: SynthesisSetting, method: str, rows: int, pick: int = 0) -> SynthesisState:
    state = SynthesisState(setting)
    run_steps(STEPS[method](state), lambda step: outcome_of(step, rows, pick))
    return state


def assert_spends_its_price(budget: SynthesisBudget, price: Price) -> None:
    """In ε exactly; in ρ but for what is rounded where noise and choices have decimals."""
    total = budget.currency.total
    assert total * (1 - Fraction(1, 10**6) * (price != Price(2))) <= budget.spent <= total


def settings(setting: SynthesisSetting, method: str) -> Iterator[SynthesisSetting]:
    """Vary what a policy implies, the target, and what an earlier table told of some columns, as in linked tables."""
    columns = len(setting.sizes)
    targets: list[int | None] = [None, *((0, columns - 1) if method == "aim" and columns > 1 else ())]
    for implies, target in itertools.product(implied_pairs(columns), targets):
        yield replace(setting, implies=implies, target=target)
    if method == "aim" and columns > 1:
        for implies in implied_pairs(columns):
            yield replace(setting, implies=implies, measured_columns=tuple(range(1, columns)))


@pytest.mark.parametrize("columns", [1, 3, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 5))])
@pytest.mark.parametrize("method", METHODS)
def test_every_step_fits_whatever_is_drawn(method: str, columns: int, without_fits: list[float], long: bool) -> None:
    """No charge is refused, the whole price is spent, and no set that is measured first is paid for twice. A choice
    costs the same among few candidates, so few are compared. By default settings have two of the outcomes in turn.
    """
    workload = {(place,): Fraction(1) for place in range(columns)}
    for private, paid in itertools.product((False, True), (Price(2), Price(rho="0.5"))):
        setting_of_proposal = replace(proposal_of(columns, private).setting(paid), workload=workload)
        for number, setting in enumerate(settings(setting_of_proposal, method)):
            for pick in range(4) if long else (number % 2, number % 2 + 2):
                rows, without_fits[0] = OUTCOMES[pick]
                state = run(setting, method, rows, pick)
                assert_spends_its_price(state.budget, paid)
                assert_measured_once(state)


def assert_measured_once(state: SynthesisState) -> None:
    first = Counter(measured.attribute_set for measured, each in state.released if each.what == "first")
    assert {*first.values()} <= {1}
    assert {*first} >= {*state.setting.pairs, *state.setting.target_pairs}


@pytest.mark.parametrize("method", ["aim", "mwem"])
def test_every_step_of_a_wide_table_fits(
    method: str, without_fits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a round compares a part of the pairs."""
    monkeypatch.setattr(synthesis_state, "max_compared", lambda *_: 2)
    price = Price(2)
    setting = proposal_of(WIDE, private=True).setting(price)
    without_fits[0] = 1e18
    for varied in settings(setting, method):
        assert_spends_its_price(run(varied, method, 0, 1).budget, price)


@pytest.mark.parametrize(
    ("method", "private", "rho"),
    [
        ("aim", True, False),
        ("aim", True, True),
        ("mwem", True, True),
        ("mst", True, False),
        ("aim", False, False),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (("aim", False, True), ("mwem", True, False), ("mst", True, True))
        ),
    ],
)
def test_a_price_that_is_accepted_pays_for_the_cheapest_choice(
    method: str, private: bool, rho: bool, without_fits: list[float]
) -> None:
    """The least price that is not refused before the charge, to a thousandth, is enough for every later step."""

    def price(exponent: int) -> Price:
        amount = Fraction(round(Fraction(1001, 1000) ** exponent * 10**6), 10**26 if rho else 10**18)
        return Price(rho=amount) if rho else Price(amount)

    def is_refused(exponent: int) -> bool:
        try:
            proposal.setting_after_dry_run(price(exponent))
        except SfumatoError:
            return True
        return False

    proposal = proposal_of(3, private, method)
    low, high = 0, 1 << 15
    assert is_refused(low)
    assert not is_refused(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_refused(middle) else (low, middle)
    for setting, rows in itertools.product(settings(proposal.setting(price(high)), method), (0, 1 << 55)):
        without_fits[0] = 0.0
        assert_spends_its_price(run(setting, method, rows).budget, price(high))


# ── releases ─────────────────────────────────────────────────────────────────────────────────────


CHAIN = {"c0": "c1", "c1": "c2", "c2": "c3"}


@covering(
    {
        "rows": (0, 1, 40, 20_000),
        "options": ({"target": "c3"}, {"target": "c0"}, {"method": "mst"}, {"method": "mwem"}),
        "implies": (CHAIN, CHAIN | {"c3": "c0"}),
        "private": (False, True),
        "price": PRICES,
    }
)
def test_every_charged_release_answers_and_spends_its_price(
    tmp_path: Path,
    rows: int,
    options: dict[str, Any],
    implies: dict[str, str],
    private: bool,
    price: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budgets: list[SynthesisBudget] = []
    finish = SynthesisState.finish
    monkeypatch.setattr(SynthesisState, "finish", lambda own: (budgets.append(own.budget), finish(own))[1])
    with sf.Curator(policy_of(rows, 4, implies, private=private), tmp_path / "people.ledger") as curator:
        synthetic = curator.synthesize("people", ways=2, **options).release(**price)
        assert synthetic.released.complete
        assert_spends_its_price(budgets[-1], Price(**price))
        account = curator._context.account
        assert not account.open_tabs()
        assert "pure" not in account.spent or price != {"epsilon": 2} or account.spent["pure"] == 2


def test_a_star_is_refused_that_the_model_cannot_hold_beside_what_is_implied(tmp_path: Path) -> None:
    """A star alone has four small tables, and with a chain of the other columns larger ones."""
    names = {"c0": "c1", "c1": "c2"}
    for implies in ({}, names):
        with sf.Curator(policy_of(9, 4, implies), tmp_path / f"{len(implies)}.ledger") as curator:
            options: dict[str, Any] = {"ways": 1, "memory": 4096 * 60}
            if not implies:
                assert curator.synthesize("people", target="c3", **options).target == 3
                continue
            assert curator.synthesize("people", **options).learned_implications == ((0, 1), (1, 2))
            with pytest.raises(Unsupported, match="measuring c3 together with every other column"):
                curator.synthesize("people", target="c3", **options)


def test_a_pair_of_the_star_that_is_implied_too_has_the_noise_of_the_star() -> None:
    setting = proposal_of(4, private=False).setting(Price(2))
    star = pairs_with(3, 4)
    setting = replace(setting, implies=((2, 3), (1, 0), (0, 1)), target=3)
    assert setting.target_and_implied_pairs == (*star, (0, 1))
    amounts = amounts_of(setting)
    assert {*amounts} == {*star, (0, 1)}
    assert len({*amounts.values()}) == 1
    assert Fraction("0.7999") * 2 * Fraction(199, 200) < sum(amounts.values()) <= Fraction("0.8") * 2


def amounts_of(setting: SynthesisSetting) -> dict[Sequence[int], Fraction]:
    """Return what AIM pays for each set before its first choice."""
    state = SynthesisState(setting)
    steps = aim(state)
    step, amounts = next(steps), {}
    while isinstance(step, MeasureStep):
        if step.view.columns:
            amounts[step.view.columns] = state.budget.currency.noise_cost(step.noise, step.view.sensitivity)
        step = steps.send(outcome_of(step, 40, 0))
    return amounts
