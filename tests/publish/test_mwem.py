"""MWEM: what one unit moves in scores and counts, what steps are charged, what a model learns, what is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from engine.refilling import refill
from refusals import assert_refused
from sfumato.curator.context import Context
from sfumato.curator.proposals.mwem import MwemProposal, propose_mwem
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.ledger import Tab
from sfumato.mechanisms import Exponential, Laplace
from sfumato.plan.readings.dense_readings import CountDistances, MarginalView
from sfumato.privacy import codec
from sfumato.publish.marginals.group_totals import AdaptiveGaussianError
from sfumato.publish.mwem import CellView, FitRound, MwemModel, MwemRound, NoisyCounts, replay_rounds
from sfumato.publish.published_files import FittedModel
from sfumato.publish.tab_steps import ChosenCandidate
from sfumato.release.measurement import Measurement
from sfumato.release.prices import Price
from sfumato.release.running_work import ignore_progress

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")

COLUMNS: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "age": {"type": "integer", "bounds": [0, 9], "bins": [0, 3, 5, 9]},
    "smokes": {"type": "boolean"},
}
NAMES = list(COLUMNS)
STORED = {"who": pa.int64(), "sex": pa.string(), "age": pa.int64(), "smokes": pa.bool_()}
PRICES: tuple[dict[str, Any], ...] = ({"epsilon": 2}, {"epsilon": 1, "delta": "1e-9"}, {"rho": "0.5"})
RELATIONS = ("add-remove", "replace")
Row = tuple[Any, ...]


def people(seed: int, count: int) -> list[Row]:
    """Women are young and men are not; only the old smoke."""
    draw = Random(seed)
    found = []
    for who in range(count):
        sex = draw.choice("fm")
        age = draw.randint(0, 2) if sex == "f" else draw.randint(3, 9)
        found.append((who, sex, age, age > 4))
    return found


def policy_of(rows: list[Row], *, units: bool = False, relation: str = "add-remove") -> sf.Policy:
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(STORED)
    table = pa.table({name: pa.array(each, STORED[name]) for name, each in zip(STORED, cells, strict=True)})
    limits = {"max_rows": 3} if units else {}
    own = sf.Table("people", table, COLUMNS, id="who" if units else "row", **limits)
    unit = sf.PrivacyUnit("person", every_row=not units)
    return sf.Policy(unit, sf.Budget(50, "1e-6", neighbours=relation), {"people": own}, size=100)


@contextmanager
def curator(tmp_path: Path, rows: list[Row], **more: Any) -> Iterator[sf.Curator]:
    with sf.Curator(policy_of(rows, **more), tmp_path / "people.ledger") as opened:
        yield opened


def exact(policy: sf.Policy, price: Price, **more: Any) -> tuple[MwemProposal, Any]:
    """The proposal, and what it reads before noise."""
    with closing(DuckDB(policy)) as engine:
        found = proposed_to(engine, **more)
        return found, engine.read(found._reading(price), 3)


def proposed_to(engine: DuckDB, **more: Any) -> MwemProposal:
    context = Context(engine.sources.policy, engine, None, ignore_progress, "version 1")  # type: ignore[arg-type]
    ways, rounds = None if "queries" in more else 2, more.pop("rounds", 3)
    return propose_mwem(context, engine.catalog(), "people", NAMES, ways, rounds, **more)


def worlds(relation: str, units: bool) -> list[list[Row]]:
    """Tables that are pairwise neighbours under replace, and of the first under add-remove."""
    base = [(each % 4 if units else each, *row[1:]) for each, row in enumerate(people(1, 9))]
    one, other, gone = (99, "f", 1, False), (99, "m", 8, True), (99, None, None, None)
    if units:
        owned = [[one], [one] * 3, [other] * 3, [one] * 4, [other] * 50, [one, other, gone] * 3, [gone] * 5]
    else:
        owned = [[one], [other], [gone]]
    return [base + each for each in ([[]] if relation == "add-remove" else []) + owned]


def pairs(relation: str, found: list[Any]) -> list[tuple[Any, Any]]:
    if relation == "add-remove":
        return [(found[0], each) for each in found[1:]]
    return list(combinations(found, 2))


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_one_unit_moves_every_score_and_count_within_its_bound(relation: str, units: bool) -> None:
    """On neighbours, exactly: with models of every kind the bounds hold, and some neighbour attains them."""
    policies = [policy_of(each, units=units, relation=relation) for each in worlds(relation, units)]
    with closing(DuckDB(policies[0])) as engine:
        for textbook in (False, True):
            _check_moves(engine, policies, relation, textbook)


def _check_moves(engine: DuckDB, policies: list[sf.Policy], relation: str, textbook: bool) -> None:
    price, proposal = Price(2), proposed_to(engine, textbook=textbook)
    reading = proposal._reading(price)
    found = [refill(engine, each).read(reading, 3) for each in policies]
    candidates, steps = proposal._candidates(price), proposal._steps_for_price(price)
    generator = np.random.default_rng(1)
    furthest: float = 0
    guesses = [lambda view, top=scale: generator.integers(0, top + 1, view.size) for scale in (0, 1, 50, 5000)]
    guesses += [lambda view, own=world: view.extract(own) for world in found]  # a model that knows all but one unit
    for guess in guesses:
        scores = candidates.scores(guess)
        assert steps.selection.sensitivity == scores.sensitivity
        assert not steps.selection.monotone
        for one, other in pairs(relation, [scores.extract(rows) for rows in found]):
            moved = np.abs(one - other).max()
            assert moved <= scores.sensitivity
            furthest = max(furthest, moved / float(scores.sensitivity))
    assert furthest == 1
    for view in (MarginalView(candidates.views[0].reading, ()), *map(candidates.view, range(len(candidates)))):
        for one, other in pairs(relation, [view.extract(rows) for rows in found]):
            moved = np.abs(one - other)
            assert moved.sum() <= view.sensitivity.total
            assert (moved**2).sum() <= view.sensitivity.squares
            assert view.sensitivity.total <= steps.sensitivity.total or view.attribute_set == ()


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_choice_is_as_likely_on_neighbours_as_its_price_says(relation: str) -> None:
    """The exact law of the exponential mechanism, where one score rises and another falls as far as they can."""
    price = Price(2)
    policies = [policy_of(each, relation=relation) for each in worlds(relation, False)]
    with closing(DuckDB(policies[0])) as engine:
        proposal = proposed_to(engine)
        tables = [refill(engine, each).read(proposal._reading(price), 3) for each in policies]
    choice, candidates = proposal._steps_for_price(price).selection, proposal._candidates(price)
    generator, widest = np.random.default_rng(3), 0.0
    for _ in range(60):
        scores = candidates.scores(lambda view: generator.integers(0, 9, view.size))
        laws = [_law(scores.extract(each), choice) for each in tables]
        for one, other in pairs(relation, laws):
            losses = one - other
            widest = max(widest, float(np.abs(losses).max()), float(losses.max() - losses.min()))
    assert float(choice.epsilon) / 3 < widest <= float(choice.epsilon) + 1e-9


def _law(scores: Any, choice: Exponential) -> Any:
    logs = scores.astype(float) * float(choice.rate)
    return logs - np.logaddexp.reduce(logs)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("textbook", [False, True])
def test_a_twentieth_pays_for_the_rows_and_choices_and_measurements_share_the_rest(
    relation: str, textbook: bool
) -> None:
    """In ε, and in ρ, of which hardly anything is held back."""
    with closing(DuckDB(policy_of(people(1, 9), units=True, relation=relation))) as engine:
        proposal = proposed_to(engine, textbook=textbook)
        for price, total in ((Price(2), 2.0), (Price(rho="0.5"), 0.5), (Price(1, "1e-9"), None)):
            steps = proposal._steps_for_price(price)
            rows, measured = MarginalView(proposal._reading(price), ()).sensitivity, steps.sensitivity
            (count,), (noise,) = steps.row_count_step.noise.sizes, steps.noise.sizes
            epsilon = steps.selection.epsilon
            if price.allows_gaussian:
                spent = [rows.squares / (2 * count**2), epsilon**2 / 8, measured.squares / (2 * noise**2)]
            else:
                spent = [rows.total / count, epsilon, measured.total / noise]
            whole = float(spent[0] + proposal.rounds * (spent[1] + spent[2]))
            shares = [float(part) / whole for part in spent]
            assert shares == pytest.approx([0.05, *[0.95 / (2 * proposal.rounds)] * 2])
            assert total is None or (1 - 1e-6) * total <= whole <= total


@pytest.mark.parametrize("monotone", [True, False])
def test_scores_are_never_chosen_as_if_they_were_monotone(monotone: bool) -> None:
    price = Price(2)
    proposal, _ = exact(policy_of(people(1, 9)), price)
    scores = proposal._candidates(price).scores(lambda view: np.zeros(view.size, np.int64))
    assert isinstance(scores, CountDistances)
    if not monotone:
        Measurement(scores, Exponential(1, scores.sensitivity))
        return
    for wrong in (Exponential(1, scores.sensitivity, monotone=True), Exponential(1, scores.sensitivity / 2)):
        with pytest.raises(sf.InvalidParameter):
            Measurement(scores, wrong)


@pytest.mark.parametrize("price", PRICES, ids=str)
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_charge_is_that_of_all_steps_and_nothing_is_left_over(
    tmp_path: Path, price: dict[str, Any], relation: str
) -> None:
    with curator(tmp_path, people(1, 40), relation=relation) as clinic:
        before = clinic._context.account.spent
        model = clinic.mwem("people", NAMES, 2, rounds=3).release(**price)
        lines = list(clinic.history())
        steps = [each for each in lines if each.kind == "step"]
        assert len(steps) == 1 + 2 * 3
        assert [each.kind for each in lines].count("tab-close") == 1
        account = clinic._context.account
        proposal = clinic.mwem("people", NAMES, 2, rounds=3)
        curves = proposal._steps_for_price(Price(**price)).row_choice_and_measurement_curves
        costs = [account.cost(curves[0]), *(account.cost(each) for _ in range(3) for each in curves[1:])]
        assert [account.recomputed(each) for each in steps] == costs
        for name, spent in account.spent.items():
            paid = [each.amounts[name] for each in costs]
            assert spent is None or spent - (before[name] or 0) == sum(filter(None, paid))
        if price == {"epsilon": 2}:
            assert account.spent["pure"] == 2
        assert Price(**price).is_satisfied_by(proposal._steps_for_price(Price(**price)).curve)
        assert len(model.rounds) == model.planned == 3
        assert not account.open_tabs()


@pytest.mark.parametrize(
    ("order", "price"),
    [
        ("1.0001", {"rho": "1e-10"}),
        ("30", {"epsilon": "0.01", "delta": "1e-9"}),
        ("1.0001", {"epsilon": "1e-4"}),
        pytest.param("30", {"rho": "1e-10"}, marks=pytest.mark.long),
        pytest.param("1.0001", {"epsilon": "0.01", "delta": "1e-9"}, marks=pytest.mark.long),
        pytest.param("30", {"epsilon": "1e-4"}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_small_charges_that_the_ledger_rounds_up_fit_what_is_held(
    tmp_path: Path, order: str, price: dict[str, Any]
) -> None:
    own = policy_of(people(1, 40))
    budget = sf.Budget(10**7, "1e-6", order=order)
    with sf.Curator(sf.Policy(own.unit, budget, own.tables, size=100), tmp_path / "people.ledger") as clinic:
        assert len(clinic.mwem("people", ways=2, rounds=12).release(**price).fit.rounds) == 12
        assert not clinic._context.account.open_tabs()


@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_model_comes_close_and_closer_than_it_began(tmp_path: Path, price: dict[str, Any]) -> None:
    rows = people(2, 5000)
    with curator(tmp_path, rows) as clinic:
        found = clinic.mwem("people", NAMES, 2, rounds=4).release(**price)
    truth = {("f", "0 to below 3"): 0, ("m", "3 to below 5"): 0, ("m", "5 to 9"): 0}
    for _, sex, age, _ in rows:
        truth[sex, "0 to below 3" if age < 3 else "3 to below 5" if age < 5 else "5 to 9"] += 1
    answer = found.marginal(["sex", "age"])
    off = sum(abs(count - truth.get((sex, age), 0)) for sex, age, count in answer.rows)
    uniform = sum(abs(5000 / 12 - truth.get((sex, age), 0)) for sex, age, _ in answer.rows)
    assert off < uniform / 4
    assert abs(found.total - 5000) < 500
    assert sum(count for *_, count in answer.rows) == pytest.approx(found.total)
    turned = {(sex, age): count for age, sex, count in found.marginal(["age", "sex"]).rows}
    assert turned == pytest.approx({(sex, age): count for sex, age, count in answer.rows})


@pytest.mark.parametrize("textbook", [False, True])
def test_a_model_is_replayed_to_the_bit_from_what_was_released(tmp_path: Path, textbook: bool) -> None:
    with curator(tmp_path, people(3, 200)) as clinic:
        proposal = clinic.mwem("people", NAMES, 2, rounds=4, textbook=textbook)
        found = proposal.release(epsilon=3)
    again = replay_rounds(proposal._initial_model(round(found.model.total)), found.model.rounds)
    assert np.array_equal(again.fitted_weights, found.model.fitted_weights)
    assert all((each.cells is not None) is textbook for each in found.rounds)
    assert (found.model.fitted_weights >= 0).all()


def test_the_textbooks_update_is_the_published_one() -> None:
    """Hardt, Ligett & McSherry 2012, figure 1: A(x) ∝ A(x)·e^{q(x)(m − q(A))/2n}, and the mean of all rounds."""
    proposal, _ = exact(policy_of([]), Price(2), textbook=True)
    view = proposal._candidates(Price(2)).view(4)
    start = proposal._initial_model(100)
    model = start.updated(MwemRound(view, (60,))).updated(MwemRound(view, (55,)))
    q = np.zeros(proposal.cells).reshape(3, 4, 3)
    q[1, 0] = 1  # the fifth cell of sex × age
    one = start.weights
    seen = []
    for measured in (60, 55):
        one = one * np.exp(q * (measured - (q * one).sum()) / 200)
        one = one * 100 / one.sum()
        seen.append(one)
    assert np.allclose(model.fitted_weights, sum(seen) / 2, rtol=1e-12)


def test_the_notes_update_is_the_one_that_was_written_down() -> None:
    """p ∝ p·(1 − s·√(ln|X|/T)·q) where the measured error is above 2α, s its sign; else p is answered from."""
    proposal, _ = exact(policy_of([]), Price(2), rounds=20, update="notes")
    view = proposal._candidates(Price(2)).view(4)
    start = proposal._initial_model(100, Fraction(30))
    q = np.zeros(proposal.cells).reshape(3, 4, 3)
    q[1, 0] = 1
    p, eta = start.weights / 100, np.sqrt(np.log(36) / 20)
    below = start.updated(MwemRound(view, (60,)))  # 8.3 predicted, 51.7 too low: the weights of the query rise
    raised = p * (1 + eta * q)
    assert np.allclose(below.weights, 100 * raised / raised.sum(), rtol=1e-12)
    lowered = p * (1 - eta * q)
    above = start.updated(MwemRound(view, (-40,)))
    assert np.allclose(above.weights, 100 * lowered / lowered.sum(), rtol=1e-12)
    quiet = below.updated(MwemRound(view, (40,)))
    assert quiet.weights is below.weights
    later = quiet.updated(MwemRound(view, (90,)))
    assert not np.array_equal(later.weights, below.weights)
    assert later.fitted_weights is below.weights  # of the last round that changed nothing
    assert below.fitted_weights is below.weights  # there was none yet


@pytest.mark.parametrize("seed", range(4))
def test_the_notes_update_stops_before_its_rounds_are_over(seed: int) -> None:
    """The theorem with every noise as large as it may be, either way: fewer than T updates, then all within 4α."""
    generator = np.random.default_rng(seed)
    cells, rounds, total = 12, 2500, 1_000_000
    truth = generator.dirichlet(np.full(cells, 0.1)) * total
    queries = np.array([generator.random(cells) < 0.5 for _ in range(80)])
    alpha = 2 * np.sqrt(np.log(cells) / rounds) * total
    model = MwemModel.thresholded((cells,), total, rounds, 2 * alpha)
    updates = 0
    for _ in range(rounds):
        errors = queries @ (model.weights - truth)
        worst = int(np.argmax(np.abs(errors)))
        noise = np.copysign(alpha, errors[worst]) * (1 if generator.random() < 0.7 else -1)
        view = CellView((0,), tuple(np.flatnonzero(queries[worst]).tolist()))
        before = model.weights
        model = model.updated(MwemRound(view, (round(queries[worst] @ truth - noise),)))
        updates += model.weights is not before
    assert 5 < updates < rounds
    assert np.abs(queries @ (model.fitted_weights - truth)).max() <= 4 * alpha


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_model_by_the_notes_is_released_replayed_and_read_back(tmp_path: Path, relation: str) -> None:
    with curator(tmp_path, people(3, 400), relation=relation) as clinic:
        proposal = clinic.mwem("people", NAMES, 2, rounds=15, update="notes")
        found = proposal.release(epsilon=20)
        steps, candidates = proposal._steps_for_price(Price(20)), len(proposal._candidates(Price(20)))
        again = FittedModel.from_json(found.to_json())
    threshold = proposal._update_threshold(steps, candidates, found.model.measured)
    steepest = 2 * np.sqrt(np.log(36) / 15) * found.model.measured
    assert found.model.threshold == threshold >= 2 * steepest
    assert threshold >= 2 * steps.noise.error(1 - Fraction(1, 600))
    assert isinstance(steps.noise, sf.Laplace)
    start = proposal._initial_model(found.model.measured, threshold)
    assert np.array_equal(replay_rounds(start, found.model.rounds).fitted_weights, found.model.fitted_weights)
    assert np.array_equal(again.model.fitted_weights, found.model.fitted_weights)
    assert all(each.cells is not None for each in found.rounds)
    assert "notes' update" in proposal.question


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"update": "other", "rounds": 20}, "'notes', or left out"),
        ({"update": "notes", "rounds": 14}, "at least 15 for a table of 36 cells"),
        ({"update": "notes", "rounds": 20, "textbook": True}, "left out"),
    ],
)
def test_updates_that_no_theorem_covers_are_refused(tmp_path: Path, given: dict[str, Any], rule: str) -> None:
    with curator(tmp_path, []) as clinic:
        assert_refused(lambda: clinic.mwem("people", NAMES, 2, **given), rule)
        notes = clinic.mwem("people", NAMES, 2, update="notes", rounds=15)
        assert_refused(lambda: notes.explain(epsilon=1, delta="1e-6"), "left out at a price with δ")
        plain = clinic.mwem("people", NAMES, 2, textbook=True, rounds=15)
        assert plain.identity != notes.identity


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_an_empty_table_has_a_model(tmp_path: Path, units: bool, relation: str) -> None:
    with curator(tmp_path, [], units=units, relation=relation) as clinic:
        found = clinic.mwem("people", NAMES, 1, rounds=2).release(epsilon=1)
    assert len(found.rounds) == 2
    assert np.isfinite(found.model.fitted_weights).all()
    assert found.total > 0


def test_noise_as_large_as_can_be_keeps_a_model_finite() -> None:
    proposal, _ = exact(policy_of([]), Price(2))
    view = proposal._candidates(Price(2)).views[0]
    for rows in (-(2**62), 0, 2**62):
        model = proposal._initial_model(rows)
        for values in ((2**62,) * view.size, (-(2**62),) * view.size):
            model = model.updated(MwemRound(view, values))
            assert np.isfinite(model.fitted_weights).all()
            assert (np.abs(model.predicted_counts(view)) <= 2**61).all()


@pytest.mark.parametrize("done", [0, 1, 2])
def test_an_interrupt_between_steps_gives_the_model_so_far(
    tmp_path: Path, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    updated, seen = MwemModel.updated, []

    def interrupted(model: MwemModel, found: MwemRound) -> MwemModel:
        if len(seen) == done:
            raise KeyboardInterrupt
        seen.append(found)
        return updated(model, found)

    monkeypatch.setattr(MwemModel, "updated", interrupted)
    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.mwem("people", NAMES, 2, rounds=4).release(epsilon=4)
        account = clinic._context.account
        assert account.spent["pure"] == Fraction("0.2") + Fraction("0.475") * 2 * (done + 1)
        assert not account.open_tabs()
        assert len(found.rounds) == done
        assert found.planned == 4


def test_an_interrupt_within_a_step_spends_what_was_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with curator(tmp_path, people(1, 40)) as clinic:
        monkeypatch.setattr(CountDistances, "extract", interrupted)
        with pytest.raises(sf.errors.Unanswered):
            clinic.mwem("people", NAMES, 2, rounds=2).release(epsilon=1)
        assert clinic._context.account.spent["pure"] == 1
        assert not clinic._context.account.open_tabs()


def test_a_ctrl_c_within_a_step_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score, sent = CountDistances.extract, []

    def interrupted(*given: Any) -> Any:
        sent.append(os.kill(os.getpid(), signal.SIGINT) if len(sent) == 1 else None)
        return score(*given)

    with curator(tmp_path, people(1, 40)) as clinic:
        monkeypatch.setattr(CountDistances, "extract", interrupted)
        found = clinic.mwem("people", NAMES, 2, rounds=4).release(epsilon=4)
        account = clinic._context.account
        assert account.spent["pure"] == Fraction("0.2") + Fraction("0.475") * 3
        assert not account.open_tabs()
    assert len(found.rounds) == 1
    assert len(sent) == 2


def test_each_step_is_charged_before_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    step, count, score = Tab.step, MarginalView.extract, CountDistances.extract
    monkeypatch.setattr(Tab, "step", lambda tab, entry: (order.append("charge"), step(tab, entry))[1])
    monkeypatch.setattr(CountDistances, "extract", lambda own, exact: (order.append("choose"), score(own, exact))[1])
    with curator(tmp_path, people(1, 40)) as clinic:
        clinic.mwem("people", NAMES, 2, rounds=2).release(epsilon=1)
    assert order == ["charge"] + ["charge", "choose", "charge"] * 2
    assert count is MarginalView.extract


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"columns": ["sex", "weight"]}, "weight"),
        ({"columns": ["sex", "height"]}, "cannot be counted by values or bins"),
        ({"columns": []}, "columns"),
        ({"columns": ["sex", "sex"]}, "a list of different columns"),
        ({"columns": ["sex", "age", "code", "zip"], "ways": 1}, "10,000,000"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": -1}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"rounds": 10**6}, "rounds"),
        ({"ways": []}, "ways"),
        ({"ways": 0}, "ways"),
        ({"ways": 4}, "ways"),
        ({"ways": [["sex", "weight"]]}, "weight"),
        ({"ways": [["sex"], ["SEX"]]}, "a list of different sets"),
        ({"ways": [[]]}, "ways"),
        ({"ways": None}, "queries"),
        ({"queries": [{"sex": "f"}]}, "ways"),
        ({"ways": None, "queries": []}, "queries"),
        ({"ways": None, "queries": [{}]}, "queries"),
        ({"ways": None, "queries": ["sex"]}, "queries"),
        ({"ways": None, "queries": [{"weight": 1}]}, "weight"),
        ({"ways": None, "queries": [{"sex": "x"}]}, "bins of 'sex'"),
        ({"ways": None, "queries": [{"sex": []}]}, "bins of 'sex'"),
        ({"ways": None, "queries": [{"sex": "f"}, {"SEX": ["f"]}]}, "a list of different counts"),
        ({"textbook": 1}, "textbook"),
        ({"rows": 2}, "every row"),
    ],
    ids=str,
)
def test_what_cannot_be_fitted_is_refused_for_nothing(wide: sf.Curator, given: dict[str, Any], word: str) -> None:
    with pytest.raises(sf.SfumatoError, match=word):
        wide.mwem("people", **{"columns": NAMES, "ways": 2, **given})
    assert wide._context.account.spent["pure"] == 0


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """People with a column that has no cells, and with two of many cells."""
    more = {
        "height": {"type": "real", "bounds": [0, 3]},
        "code": {"type": "integer", "bounds": [0, 5000], "bins": 1000},
        "zip": {"type": "integer", "bounds": [0, 1000], "bins": 1000},
    }
    rows = pa.table({"sex": ["f"], "age": [1], "smokes": [True], "height": [1.0], "code": [1], "zip": [1]})
    own = sf.Table("people", rows, COLUMNS | more, id="row")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(5), {"people": own})
    with sf.Curator(policy, tmp_path_factory.mktemp("wide") / "people.ledger") as opened:
        yield opened


def test_what_is_free_spends_nothing_and_a_price_too_high_is_refused(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 40), units=True) as clinic:
        proposal = clinic.mwem("people", NAMES, 2, rounds=3, rows=2)
        assert "3 times" in str(proposal.explain(epsilon=1))
        wide, narrow = proposal.error(epsilon=1), proposal.error(epsilon=10)
        assert narrow < wide
        # two rows of a unit count: Δ₁ = 2, ε = 0.95/6 for each measurement
        assert wide == pytest.approx(float(Laplace(2 * 6 / 0.95).error("0.95")), rel=0.1)
        with pytest.raises(sf.Overspent), pytest.warns(sf.WeakPrivacy):
            proposal.release(epsilon=51)
        assert clinic._context.account.spent["pure"] == 0
        found = proposal.release(epsilon=1)
        assert clinic._context.account.spent["pure"] == 1
        with pytest.raises(sf.InvalidParameter):
            found.marginal(["weight"])
        assert "3 of 3 rounds" in repr(found)
        assert found.receipt.guarantee == "ε = 1"


@pytest.mark.parametrize("value", [NoisyCounts((3, -1)), ChosenCandidate(2)])
def test_what_a_step_releases_reads_back(value: Any) -> None:
    assert codec.loads(codec.dumps(value)) == value


def test_what_is_measured_has_noise(tmp_path: Path) -> None:
    """Of thirty-odd noisy numbers with scales above 10 not all are exact: the chance of that is below 1e-20."""
    rows = people(1, 40)
    with curator(tmp_path, rows) as clinic:
        found = clinic.mwem("people", NAMES, 2, rounds=4).release(epsilon="0.5")
    _, truth = exact(policy_of(rows), Price(2))
    measured = [np.array(each.values) - each.view.extract(truth) for each in found.model.rounds]
    assert all(np.count_nonzero(each) > each.size / 2 for each in measured)


QUERIES: list[dict[str, Any]] = [{"sex": "f", "age": ["0 to below 3", None]}, {"smokes": True}, {"age": "5 to 9"}]


@pytest.mark.parametrize("textbook", [False, True])
@pytest.mark.parametrize("relation", RELATIONS)
def test_queries_count_the_rows_of_their_cells(tmp_path: Path, relation: str, textbook: bool) -> None:
    rows = [*people(4, 60), (61, "f", None, None), (62, None, 1, True)]
    given: dict[str, Any] = {"queries": QUERIES, "textbook": textbook}
    proposal, read = exact(policy_of(rows, relation=relation), Price(2), **given)
    truth = [
        sum(sex == "f" and (age is None or age < 3) for _, sex, age, _ in rows),
        sum(smokes is True for *_, smokes in rows),
        sum(age is not None and age >= 5 for _, _, age, _ in rows),
    ]
    candidates = proposal._candidates(Price(2))
    assert [candidates.view(place).extract(read).tolist() for place in range(3)] == [[each] for each in truth]
    scores = candidates.scores(lambda view: np.full(view.size, 5))
    assert scores.extract(read).tolist() == [abs(each - 5) for each in truth]
    assert (
        scores.sensitivity == proposal._steps_for_price(Price(2)).sensitivity.total == 1
    )  # for replacement too: a count is 0 or 1
    with curator(tmp_path, rows, relation=relation) as clinic:
        found = clinic.mwem("people", NAMES, rounds=3, **given).release(epsilon=2)
        assert clinic._context.account.spent["pure"] == 2
    assert all(len(each.counts) == 1 and each.cells for each in found.rounds)


# ── what a model answers, and its file ─────────────────────────────────────────────────────────

GAUSSIAN: dict[str, Any] = {"epsilon": 4, "delta": "1e-6"}
ASKED = (
    "SELECT COUNT(*) AS n FROM people",
    "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex",
    "SELECT sex, age, COUNT(*) AS n FROM people GROUP BY sex, age",
    "SELECT COUNT(*) AS n FROM people WHERE sex = 'f' AND age < 3 AND NOT smokes",
    "SELECT COUNT(*) AS n FROM people WHERE age < 4",
)


def fitted(tmp_path: Path, rows: list[Row], *, price: dict[str, Any] = GAUSSIAN, **more: Any) -> Any:
    given = {"ways": [["sex", "age"], ["age", "smokes"]], "rounds": 3, **more}
    units = given.pop("units", False)
    with curator(tmp_path, rows, units=units) as clinic:
        return clinic.mwem("people", NAMES, **given).release(**price)


@pytest.mark.parametrize("units", [False, True])
def test_questions_are_measured_or_bounded_and_their_ranges_hold_the_truth(tmp_path: Path, units: bool) -> None:
    rows = people(5, 400)
    found = fitted(tmp_path, rows, units=units)
    together = {places for places in ((0, 1), (1, 2)) if found.face.estimates.covers(places)}
    assert together
    women = [row for row in rows if row[1] == "f"]
    truths = {
        0: [400],
        1: [len(women), 400 - len(women)],
        3: [sum(age < 3 and not smokes for _, _, age, smokes in women)],
        4: [sum(age < 4 for _, _, age, _ in rows)],
    }
    for place, question in enumerate(ASKED):
        answer = found.sql(question, confidence="0.999999", together=True)
        assert answer.receipt.free
        assert answer.receipt.confidence == "0.999999"
        for truth, (low, high) in zip(truths.get(place, ()), answer.intervals["n"], strict=False):
            assert low <= truth <= high
        if place == 0:
            assert answer.basis == {"n": ("measured",)}
        if place in (3, 4):
            assert answer.basis == {"n": ("bounded",)}
            assert answer.warnings
    assert isinstance(found.face.estimates.totals_and_errors(np.ones(()), (), (), ())[1], AdaptiveGaussianError)
    assert "ranges" not in str(found.receipt)
    assert "ranges" not in str(found.marginal(["sex"]).receipt)
    assert "ranges" in str(found.sql(ASKED[0]).receipt)


def test_precisions_are_fixed_by_what_was_asked_for_and_not_by_what_was_chosen(tmp_path: Path) -> None:
    one = fitted(tmp_path, people(5, 400))
    known = one.face.estimates
    assert known.prior_precisions is not None
    sigma = float(max(one.fit.noise.sizes))
    expected = {(): 1 / float(max(one.fit.rows_noise.sizes)) ** 2, ((1, 1),): 1 / (3 * sigma**2)}
    for block, eta in expected.items():
        assert known.prior_precisions[block] == pytest.approx(eta)
    chosen = replace(one.fit, rounds=one.fit.rounds[:1]).estimates_from_measurements
    assert chosen.prior_precisions == {block: known.prior_precisions[block] for block in chosen.estimates.parts}


@pytest.mark.parametrize("textbook", [False, True])
@pytest.mark.parametrize("price", PRICES, ids=str)
def test_a_model_is_written_and_read_back_to_the_bit(tmp_path: Path, price: dict[str, Any], textbook: bool) -> None:
    found = fitted(tmp_path, people(5, 60), price=price, textbook=textbook, where="age IS NOT NULL")
    path = tmp_path / "people.sfu"
    found.save(path)
    again = sf.synopsis(path)
    assert isinstance(again, FittedModel)
    assert np.array_equal(again.model.fitted_weights, found.model.fitted_weights)
    assert codec.dumps(again.fit) == codec.dumps(found.fit)
    assert again.rounds == found.rounds
    assert (again.total, again.planned, again.guarantee) == (found.total, found.planned, found.guarantee)
    assert again.receipt.remaining == "not said in a file"
    assert again.marginal(["smokes", "sex"]).rows == found.marginal(["smokes", "sex"]).rows
    if "delta" in price or "rho" in price:
        assert [again.sql(each).rows for each in ASKED] == [found.sql(each).rows for each in ASKED]
        assert again.sql(ASKED[3]).basis == {"n": ("bounded",)}
    else:
        with pytest.raises(sf.Unsupported, match="a price in ε alone"):
            again.sql(ASKED[0])
    again = FittedModel.from_json(found.to_json())
    assert np.array_equal(again.model.fitted_weights, found.model.fitted_weights)
    assert again.receipt == found.receipt
    assert again.to_json() == found.to_json()


def test_every_edit_of_a_file_is_found(tmp_path: Path) -> None:
    found = fitted(tmp_path, people(5, 60))
    path = tmp_path / "people.sfu"
    found.save(path)
    content, draw = path.read_bytes(), Random(3)
    edits = [content[: draw.randrange(len(content))] for _ in range(40)]
    for _ in range(160):
        at = draw.randrange(len(content))
        edits.append(content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :])
    for edit in [*edits, b"", content + b"x"]:
        path.write_bytes(edit)
        with pytest.raises(sf.SynopsisDamaged):
            sf.synopsis(path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": (FitRound((0, 1), None, (1, 2)),)},
        {"rounds": (FitRound((0, 9), None, (1,)),)},
        {"rounds": (FitRound((0,), (5,), (1,)),)},
        {"rounds": (FitRound((0,), (1, 0), (1,)),)},
        {"rounds": ("round",)},
        {"planned": 0},
        {"planned": 1001},
        {"noise": Laplace(3)},
        {"rows": "7"},
        {"unit_value": 0},
        {"attributes": ()},
        {"sets": ((7,),)},
        {"choice": None},
    ],
    ids=str,
)
def test_a_fit_that_cannot_be_is_refused(one_round: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(sf.InvalidParameter):
        replace(one_round.fit, **wrong)


@pytest.fixture(scope="module")
def one_round(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fitted(tmp_path_factory.mktemp("fitted"), people(5, 20), rounds=1)


@pytest.mark.parametrize("given", [{"delta": 0}, {"delta": "1e-9"}])
def test_the_least_price_gives_the_error_that_was_wanted(tmp_path: Path, given: dict[str, Any]) -> None:
    with curator(tmp_path, people(1, 20), units=True) as clinic:
        proposal = clinic.mwem("people", NAMES, 2, rounds=3)
        found = proposal.price(40, **given)
        assert proposal.error(epsilon=str(found), **given) <= 40 < proposal.error(epsilon=str(found * 0.98), **given)


def test_noise_is_told_in_rows(tmp_path: Path) -> None:
    """Where units have several rows, noise is drawn in parts of a row: 1.96 deviations are still the half-width."""
    with sf.Curator(policy_of(people(1, 20), units=True), tmp_path / "people.ledger") as opened:
        ask = opened.mwem("people", NAMES, 2, rounds=2)
        assert ".release() fits it" in repr(ask)
        told = next(each.what for each in ask.explain(rho="0.5").operators if each.name == "measure")
        width = ask.error(rho="0.5")
    deviation = float(told.removeprefix("Gaussian, σ ").partition(", ")[0].replace(",", ""))
    assert width == pytest.approx(1.96 * deviation, rel=0.01)
