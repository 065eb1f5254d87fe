"""Synthetic tables as proposals: charges step by step, ends before the end, refusals for nothing, hostile tables."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from covering_cases import covering
from publish.synthesis.clinic import (
    COLUMNS,
    METHODS,
    NAMES,
    PRICES,
    RELATIONS,
    curator,
    exact,
    pairs,
    people,
    policy_of,
    worlds,
)
from sfumato.curator.proposals import synthesis_series, tab_releases
from sfumato.curator.proposals.selected_columns import require_all_coded
from sfumato.curator.proposals.synthesis import parse_memory
from sfumato.curator.proposals.synthesis_series import refuse_too_many_cells
from sfumato.ledger import Tab
from sfumato.plan.readings.cell_rows import CellCounts, CodedRows, ColumnSetDistances
from sfumato.privacy import codec
from sfumato.publish.graph.fitting import Observation, fit_model
from sfumato.publish.marginals.measuring import encode_integers
from sfumato.publish.synthesis.candidates import NoisyCells
from sfumato.publish.synthesis.released import ReleasedSynthesis
from sfumato.publish.synthesis.state import SynthesisState
from sfumato.publish.tab_steps import ChooseStep, ChosenCandidate, MeasureStep
from sfumato.release.prices import Price

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")


@covering({"method": METHODS, "relation": RELATIONS, "price": PRICES})
def test_the_ledger_has_every_step_and_nothing_else(
    tmp_path: Path, method: str, relation: str, price: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    courses: list[SynthesisState] = []
    begin = SynthesisState.__init__
    monkeypatch.setattr(SynthesisState, "__init__", lambda own, setting: (courses.append(own), begin(own, setting))[1])
    with curator(tmp_path, people(1, 40), relation=relation) as clinic:
        found = clinic.synthesize("people", method, 2).release(**price).released
        account, lines = clinic._context.account, list(clinic.history())
        steps = [each for each in lines if each.kind == "step"]
        costs = [account.recomputed(each) for each in steps]
        for name, spent in account.spent.items():
            paid = [each.amounts[name] for each in costs]
            assert spent is None or spent == sum(filter(None, paid))
        if price == {"epsilon": 2}:
            assert account.spent["pure"] == 2 == courses[-1].budget.spent
        elif "rho" in price:
            claimed = courses[-1].budget.spent * account.budget.order  # the ledger's sums are rounded up
            assert claimed * (1 - Fraction(1, 3)) < account.spent["renyi"] <= claimed * (1 + Fraction(1, 10**12))
            assert courses[-1].budget.spent >= Fraction("0.4999999")
        measured = [each for each in steps if "choosing" not in each.question]
        assert len(measured) == len(found.marginals) == 1 + len(found.rounds)
        assert found.complete
        assert not account.open_tabs()


@covering({"method": METHODS, "price": [{"rho": "1e-8"}, {"epsilon": "0.1", "delta": "1e-9"}, {"epsilon": "1e-4"}]})
def test_charges_that_the_ledger_rounds_up_fit_what_is_held(tmp_path: Path, method: str, price: dict[str, Any]) -> None:
    with curator(tmp_path, people(1, 40)) as clinic:
        assert clinic.synthesize("people", method, 2).release(**price).released.complete
        assert not clinic._context.account.open_tabs()


@covering({"method": METHODS, "order": ["1.0001", "1.001", "30"]})
def test_at_every_order_of_the_account_what_is_held_covers_all_steps(tmp_path: Path, method: str, order: str) -> None:
    """Near order 1 a charge is rounded up most: there it was refused in the middle of what was bought."""
    own = policy_of(people(1, 40))
    budget = sf.Budget(10**7, "1e-6", order=order)
    with sf.Curator(sf.Policy(own.unit, budget, own.tables, size=100), tmp_path / "people.ledger") as clinic:
        assert clinic.synthesize("people", method, 2).release(rho="1e-10").released.complete


@pytest.mark.parametrize("units", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_model_comes_close(tmp_path: Path, units: bool) -> None:
    rows = people(2, 5000)
    with curator(tmp_path, rows, units=units) as clinic:
        found = clinic.synthesize("people", ways=2).release(rho=2).released
    model = model_of(found)
    truth = np.zeros((3, 4))
    for _, sex, age, _ in rows:
        truth["fm".index(sex), 0 if age < 3 else 1 if age < 5 else 2] += 1
    assert np.abs(model.marginal((0, 1)) - truth).sum() < 300
    assert abs(found.total - 5000) < 100
    assert model.marginal((1, 2))[0, 1] < 50  # no young smokers


def model_of(found: ReleasedSynthesis, zeros: Any = ()) -> Any:
    seen = [
        Observation(each.attribute_set, each.values * float(each.unit_value), each.variance**0.5)
        for each in found.measured
        if each.attribute_set
    ]
    return fit_model(seen, found.sizes, found.total, zeros=zeros, tolerance=1e-4)


def test_impossible_cells_stay_empty(tmp_path: Path) -> None:
    rule = "sex = 'f' AND smokes"
    with curator(tmp_path, people(2, 500), impossible=(rule,)) as clinic:
        proposal = clinic.synthesize("people", ways=2)
        ((places, cells),) = proposal.zeros
        assert (places, cells.sum()) == ((0, 2), 1)
        found = proposal.release(rho=1).released
    assert found.face.impossible == (rule,)
    assert model_of(found, proposal.zeros).marginal((0, 2))[cells].max() == 0


@covering({"value": range(8), "method": ["aim", "mst"]})
def test_a_charge_outlives_kill_9_at_each_step(tmp_path: Path, value: int, method: str) -> None:
    """The process dies right after the charge of a step: what was charged and what was held are spent."""
    child = multiprocessing.get_context("fork").Process(target=_killed, args=(tmp_path, method, value))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    with curator(tmp_path, people(1, 40)) as clinic:
        account = clinic._context.account
        steps = [each for each in clinic.history() if each.kind == "step"]
        assert len(steps) == value + 1
        (tab,) = account.open_tabs()
        account.abandon(tab.number, reason="its process was killed")
        assert account.spent["pure"] == 2


def _killed(folder: Path, method: str, step: int) -> None:
    charge, seen = Tab.step, []

    def dying(tab: Tab, entry: Any) -> Any:
        line = charge(tab, entry)
        seen.append(line)
        if len(seen) > step:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    Tab.step = dying  # type: ignore[method-assign]
    with curator(folder, people(1, 40)) as clinic:
        clinic.synthesize("people", method, 2).release(epsilon=2)


@pytest.mark.parametrize("after", [1, 2, 4, 5, 7])
def test_an_interrupt_between_steps_gives_the_rest_back(tmp_path: Path, after: int) -> None:
    told: list[str] = []

    def progress(phase: str) -> None:
        told.extend([phase] if phase.startswith(("counting", "round")) else [])
        if len(told) > after:
            raise KeyboardInterrupt

    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.synthesize("people", "mst", 2).release(epsilon=2, progress=progress).released
        account = clinic._context.account
        steps = [each for each in clinic.history() if each.kind == "step"]
        assert len(steps) == after
        assert account.spent["pure"] == sum(account.recomputed(each).amounts["pure"] or 0 for each in steps) < 2
        assert not account.open_tabs()
        assert len(found.marginals) == len([each for each in steps if "choosing" not in each.question])
        assert not found.complete


def test_an_interrupt_while_the_model_is_fitted_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, seen = SynthesisState.fit, []

    def interrupted(course: SynthesisState, *given: Any, **options: Any) -> None:
        seen.append(course)
        if len(seen) > 2:
            raise KeyboardInterrupt
        fit(course, *given, **options)

    monkeypatch.setattr(SynthesisState, "fit", interrupted)
    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.synthesize("people", "mwem", 2).release(epsilon=2).released
        steps = [each for each in clinic.history() if each.kind == "step"]
        assert len(found.marginals) == len([each for each in steps if "choosing" not in each.question])
        assert clinic._context.account.spent["pure"] < 2


def test_an_interrupt_within_a_step_spends_what_was_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with curator(tmp_path, people(1, 40)) as clinic:
        monkeypatch.setattr(ColumnSetDistances, "extract", interrupted)
        with pytest.raises(sf.errors.Unanswered):
            clinic.synthesize("people").release(epsilon=1)
        assert clinic._context.account.spent["pure"] == 1
        assert not clinic._context.account.open_tabs()


@pytest.mark.parametrize("part", ["measuring", "choosing"])
def test_a_ctrl_c_within_a_step_waits_for_its_end(tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is answered and kept, the rest is free again, and the handler of before is back."""
    told: list[str] = []
    interrupt_in(part, monkeypatch, times=1)
    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.synthesize("people", "mst", 2).release(epsilon=2, progress=told.append).released
        account = clinic._context.account
        steps = [each for each in clinic.history() if each.kind == "step"]
        assert account.spent["pure"] == sum(account.recomputed(each).amounts["pure"] or 0 for each in steps) < 2
        assert not account.open_tabs()
    assert len(found.marginals) == len([each for each in steps if "choosing" not in each.question]) > 0
    assert not found.complete
    (said,) = (place for place, phase in enumerate(told) if "Ctrl-C again" in phase)
    assert not any(phase.startswith("round") for phase in told[said:])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("part", ["measuring", "choosing"])
def test_a_second_ctrl_c_ends_the_step_and_spends_what_was_held(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_in(part, monkeypatch, times=2)
    with curator(tmp_path, people(1, 40)) as clinic:
        with pytest.raises(sf.errors.Unanswered):
            clinic.synthesize("people", "mst", 2).release(epsilon=2)
        assert clinic._context.account.spent["pure"] == 2
        assert not clinic._context.account.open_tabs()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupt_in(part: str, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Send a signal from within the first step of a kind."""
    owner, name = (CodedRows, "marginal") if part == "measuring" else (ColumnSetDistances, "extract")
    whole, sent = getattr(owner, name), []

    def interrupted(*given: Any) -> Any:
        while len(sent) < times:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
        return whole(*given)

    monkeypatch.setattr(owner, name, interrupted)


def test_when_the_time_is_up_the_model_so_far_is_given_and_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(synthesis_series, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def progress(phase: str) -> None:
        now[0] += 10.0 * phase.startswith(("counting", "round"))

    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.synthesize("people", "independent").release(epsilon=1, seconds=25, progress=progress).released
        account = clinic._context.account
        assert account.spent["pure"] == 1
        assert not account.open_tabs()
    assert not found.complete
    assert 1 <= len(found.marginals) <= 3


def test_time_for_which_a_step_is_held_back_is_not_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    for module in (synthesis_series, tab_releases):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def progress(phase: str) -> None:
        now[0] += 100.0 * (phase == "writing down")  # as a server does until an answer is due

    with curator(tmp_path, people(1, 40)) as clinic:
        found = clinic.synthesize("people", "independent").release(epsilon=1, seconds=25, progress=progress).released
    assert found.complete
    assert now[0] > 200


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_step_that_the_clock_refuses_leaves_the_model_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The last moment may be over while a step is checked: the first is refused for nothing, a later one ends it."""
    checks: list[int] = []

    def checked(engine: Any, readings: Any, _: float | None) -> Any:
        checks.append(0)
        if len(checks) > step:
            raise sf.Unsupported("slow-check", "the question takes too long to plan", fix="")
        return engine.check(*readings)

    monkeypatch.setattr("sfumato.release.releasing._bind_within_time_limit", checked)
    with curator(tmp_path, people(1, 40)) as clinic:
        proposal, account = clinic.synthesize("people", "independent"), clinic._context.account
        if not step:
            with pytest.raises(sf.Unsupported, match="slow-check"):
                proposal.release(epsilon=1, seconds=25)
        else:
            found = proposal.release(epsilon=1, seconds=25).released
            assert not found.complete
            assert len(found.marginals) == step
        assert account.spent["pure"] == (1 if step else 0)  # once rows were read a clock may depend on them
        assert not account.open_tabs()


def test_each_step_is_charged_before_it_reads_and_rows_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    step, count, score = Tab.step, CodedRows.marginal, ColumnSetDistances.extract
    monkeypatch.setattr(Tab, "step", lambda tab, entry: (order.append("charge"), step(tab, entry))[1])
    monkeypatch.setattr(CodedRows, "marginal", lambda own, places: (order.append("count"), count(own, places))[1])
    monkeypatch.setattr(
        ColumnSetDistances, "extract", lambda own, exact: (order.append("choose"), score(own, exact))[1]
    )
    with curator(tmp_path, people(1, 40)) as clinic:
        engine = type(clinic._context.engine)
        read = engine.read
        monkeypatch.setattr(engine, "read", lambda own, *given: (order.append("read"), read(own, *given))[1])
        clinic.synthesize("people", "mst", 2).release(epsilon=2)
    told = "".join({"charge": "$", "read": "r", "count": "c", "choose": "s"}[each] for each in order)
    assert told == "$rc" + "$c" * 3 + "$sccc" + "$scc" + "$c" * 2


def test_equal_syntheses_draw_and_are_charged_each_for_itself(tmp_path: Path) -> None:
    with curator(tmp_path, people(1, 40)) as clinic:
        ask = clinic.synthesize("people", "independent", 1)
        first, again = ask.release(rho="0.01"), ask.release(rho="0.01")
        assert clinic._context.account.spent["renyi"] > 1.99 * clinic._context.account.budget.order * Fraction("0.01")
    pairs_of_noise = zip(first.released.marginals, again.released.marginals, strict=True)
    assert sum(one.values != other.values for one, other in pairs_of_noise) > 1


@covering({"method": ["independent", "mst", "mwem"], "relation": RELATIONS})
def test_neighbours_look_alike_but_for_noise(tmp_path: Path, method: str, relation: str) -> None:
    """The same messages, phases, charges and shapes, whatever a unit's rows are."""
    seen = []
    tables = [people(1, 40), [*people(1, 39), (39, None, None, None)]]
    tables += [people(1, 39)] if relation == "add-remove" else []
    for index, rows in enumerate(tables):
        phases: list[str] = []
        (tmp_path / str(index)).mkdir()
        with curator(tmp_path / str(index), rows, relation=relation) as clinic:
            proposal = clinic.synthesize("people", method, [["sex", "age"]] if method == "mwem" else 2)
            found = proposal.release(epsilon=2, progress=phases.append).released
            charges = [(each.kind, str(each.spent)) for each in clinic.history()]
            shapes = [(each.attribute_set, each.size) for each in found.marginals] if method == "independent" else []
            told = str(proposal.explain(epsilon=2)), repr(proposal), proposal.question
        seen.append((phases, charges, shapes, told, found.columns, found.planned))
    assert all(each == seen[0] for each in seen[1:])


@covering({"price": PRICES, "relation": RELATIONS, "method": ["mst", "aim"]})
def test_on_neighbours_the_same_noise_takes_the_same_course(
    tmp_path: Path, method: str, relation: str, price: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read, and what is released of them is the same by force: then schema, messages, phases, charges, rounds
    and the model are, too. Nothing but what a step releases depends on rows.
    """
    read: list[int] = []

    def measured(step: MeasureStep, reading: Any) -> NoisyCells:
        counts = step.view.extract(reading(step.view.reading))
        read.append(int(counts.sum()))
        return NoisyCells(encode_integers(np.arange(counts.size, dtype=np.int64) * 31 % 17))

    def chosen(step: ChooseStep, reading: Any) -> ChosenCandidate:
        scores = step.scores.extract(reading(step.readings[0]))
        return ChosenCandidate(7 * len(step.scores.views) // 11 if scores.size else -1)

    monkeypatch.setattr(MeasureStep, "draw", measured)
    monkeypatch.setattr(ChooseStep, "draw", chosen)
    tables = [people(1, 40), [*people(1, 39), (39, None, None, None)]]
    tables += [people(1, 39)] if relation == "add-remove" else []
    seen = []
    for index, rows in enumerate(tables):
        phases: list[str] = []
        (tmp_path / str(index)).mkdir()
        with curator(tmp_path / str(index), rows, relation=relation) as clinic:
            proposal = clinic.synthesize("people", method, 2)
            found = proposal.release(**price, progress=phases.append)
            charges = [(each.kind, each.question, str(each.spent)) for each in clinic.history()]
            told = str(proposal.explain(**price)), repr(proposal), repr(found), str(found.table().schema)
        own = found.released
        seen.append(
            (phases, charges, told, own.rounds, own.marginals, own.total, found.model.marginal((0, 1)).tolist())
        )
    assert all(each == seen[0] for each in seen[1:])
    assert seen[0][0].count("charging") == len([each for each in seen[0][1] if each[0] == "step"]) > 7
    assert read


def test_the_number_of_rows_is_never_exact_and_rests_on_what_was_released(tmp_path: Path) -> None:
    """Of forty noisy counts of scales above 100 not all are exact: the chance of that is below 1e-80."""
    found = []
    for index in range(6):  # all equal by chance once in 1e8
        (tmp_path / str(index)).mkdir()
        with curator(tmp_path / str(index), people(1, 400)) as clinic:
            found.append(clinic.synthesize("people", "independent").release(epsilon="0.1").released)
    _, truth = exact(policy_of(people(1, 400)), Price(2))
    for each in found:
        assert any((own.values.ravel() != truth.marginal(own.attribute_set)).mean() > 0.5 for own in each.measured)
    assert len({each.total for each in found}) > 1
    assert len({int(each.measured[0].values) for each in found}) > 1
    proposal, _ = exact(policy_of(people(1, 400)), Price("0.1"), method="independent")
    again = SynthesisState(proposal.setting(Price("0.1")))
    again.released = [(own, told) for own, told in zip(found[0].measured, (None, *found[0].rounds), strict=True)]  # type: ignore[misc]
    assert again.total == found[0].total


HOSTILE_TABLES: dict[str, list[tuple[Any, ...]]] = {
    "empty": [],
    "one value": [(1, "f", 1, True)] * 30,
    "all NULL": [(each, None, None, None) for each in range(30)],
    "one unit has every row": [(7, "m", 99, True)] * 200,
}


@covering({"table": [*HOSTILE_TABLES], "units": [False, True], "method": METHODS})
def test_hostile_tables_have_a_model(tmp_path: Path, table: str, method: str, units: bool) -> None:
    with curator(tmp_path, HOSTILE_TABLES[table], units=units) as clinic:
        found = clinic.synthesize("people", method, 2).release(epsilon=1, delta="1e-9").released
        assert clinic._context.account.spent["failure"] == 0
    assert found.total >= 0.0009
    assert np.isfinite(model_of(found).marginal((0, 1, 2))).all()
    written = codec.dumps(found)
    again = codec.loads(written, longest=len(written))
    assert codec.dumps(again) == written
    assert [each.values.tolist() for each in again.measured] == [each.values.tolist() for each in found.measured]


@pytest.fixture(scope="module")
def hardly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    """A curator of a table with columns that cannot be modelled; nothing is bought from it."""
    rows = pa.table({name: pa.array([1] if name != "sex" else ["f"]) for name in (*NAMES, *MORE)})
    rows = rows.set_column(2, "smokes", pa.array([True]))
    own = sf.Table("people", rows, COLUMNS | MORE, id="row")
    policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(5), {"people": own})
    with sf.Curator(policy, tmp_path_factory.mktemp("hardly") / "people.ledger") as clinic:
        yield clinic


MORE = {
    "height": {"type": "real"},
    "code": {"type": "integer", "bounds": [0, 5000], "bins": 1000},
    "zip": {"type": "integer", "bounds": [0, 1000], "bins": 1000},
}


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"columns": None}, "height.*cannot be counted by values or bins"),
        ({"columns": ["sex", "height"]}, "cannot be counted by values or bins"),
        ({"columns": ["sex", "weight"]}, "weight"),
        ({"columns": ["sex", "sex"]}, "a list of different columns"),
        ({"columns": []}, "columns"),
        ({"columns": ["code", "zip"], "ways": [["code", "zip"]]}, "memory"),
        ({"columns": ["code", "zip"], "ways": 2}, "memory"),
        ({"ways": 0}, "ways"),
        ({"ways": []}, "ways"),
        ({"ways": [["sex", "weight"]]}, "weight"),
        ({"method": "magic"}, "method"),
        ({"rows": 0}, "rows"),
        ({"rows": 2}, "every row"),
        ({"weights": {"weight": 2}}, "weight"),
        ({"weights": {"sex": 0}}, "weights"),
        ({"weights": [3]}, "weights"),
        ({"where": "age < 0"}, "at least one possible row"),
        ({"weights": {("sex", "age", "smokes"): 2}}, "weights"),
        ({"memory": "much"}, "memory"),
        ({"memory": 0}, "memory"),
    ],
    ids=str,
)
def test_what_cannot_be_modelled_is_refused_for_nothing(hardly: sf.Curator, given: dict[str, Any], word: str) -> None:
    with pytest.raises(sf.SfumatoError, match=word):
        hardly.synthesize("people", **{"columns": NAMES, "ways": 2, **given})
    assert hardly._context.account.spent["pure"] == 0


def test_a_column_has_at_most_a_million_cells() -> None:
    refuse_too_many_cells(["code"], [10**6])
    with pytest.raises(sf.SfumatoError, match="code has 1,000,001"):
        refuse_too_many_cells(["code"], [10**6 + 1])


def test_contradictory_zeros_are_refused(tmp_path: Path) -> None:
    rules = ("sex = 'f'", "sex = 'm'", "sex IS NULL")
    with (
        curator(tmp_path, people(1, 5), impossible=rules) as clinic,
        pytest.raises(sf.SfumatoError, match="every possible row meets a condition"),
    ):
        clinic.synthesize("people")


def test_an_impossible_condition_that_cells_cannot_hold_is_refused(tmp_path: Path) -> None:
    """It is neither left out without a word, so that rows would meet it, nor evaluated on 1e10 cells."""
    wide = {name: {"type": "integer", "bounds": [0, 999], "bins": 300} for name in "abcd"}
    rows = pa.table({name: pa.array([1]) for name in wide})
    for rule, word in (
        ("a + b + c + d > 9", "a . b . c . d > 9: its columns have too many combinations"),
        ("a > 1 AND b > 1", None),
    ):
        own = sf.Table("people", rows, wide, id="row", impossible=(rule,))
        policy = sf.Policy(sf.PrivacyUnit("person", every_row=True), sf.Budget(5), {"people": own})
        with sf.Curator(policy, tmp_path / f"{len(rule)}.ledger") as clinic:
            if word is None:
                clinic.synthesize("people", ways=1)
                continue
            with pytest.raises(sf.SfumatoError, match=word):
                clinic.synthesize("people", ways=1)
            clinic.synthesize("people", columns=["a", "b"], ways=1)  # of other columns it says nothing


@pytest.mark.parametrize(
    ("where", "columns"), [("age < 4 -- children", NAMES), ("sex = 'f' OR smokes", NAMES), ("age < 4", ["sex"])]
)
def test_drawn_rows_meet_the_condition_by_which_rows_are_kept(tmp_path: Path, where: str, columns: list[str]) -> None:
    with curator(tmp_path, people(2, 500)) as clinic:
        proposal = clinic.synthesize("people", "independent", 1, where=where, columns=columns)
        found = proposal.release(epsilon="0.1")
    assert bool(proposal.zeros) == (columns == NAMES)
    for each in found.sample(2000).to_pylist():
        told = {"age": each.get("age", 1), "sex": each["sex"], "smokes": each.get("smokes")}
        young = told["age"] is not None and told["age"] < 4
        assert young if "age" in where else told["sex"] == "f" or told["smokes"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"type": "integer", "bounds": [0, 3]}, "bins = 4 to people.it"),
        ({"type": "real", "bounds": [0, 1]}, "bins = 10 to people.it"),
        ({"type": "real"}, "bounds = [0, 100], bins = 10 to people.it"),
        ({"type": "date"}, 'bounds = [2024-01-01, 2024-12-31], bins = "month" to people.it'),
        ({"type": "timestamp", "bounds": ["2024-01-01", "2024-03-01"]}, 'bins = "month" to people.it'),
        ({"type": "text"}, 'values = ["a", "b"] to people.it'),
    ],
)
def test_an_uncoded_column_is_named_with_what_to_add(declared: dict[str, Any], words: str) -> None:
    rows = pa.table({"it": pa.array([None], pa.string()), "sex": ["f"]})
    own = sf.Table("people", rows, {"it": declared, "sex": COLUMNS["sex"]}, id="row")
    with pytest.raises(sf.Unsupported) as refused:
        require_all_coded(own)
    assert words in str(refused.value)


def test_what_is_free_spends_nothing_and_reads_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with curator(tmp_path, people(1, 40), units=True) as clinic:
        monkeypatch.setattr(type(clinic._context.engine), "read", lambda *_: pytest.fail("rows were read"))
        proposal = clinic.synthesize("people", weights={"sex": 3}, rows=2)
        told = str(proposal.explain(epsilon=1, delta="1e-9"))
        assert "12 rounds, or for 6" in told
        assert "sex 3, age 4, smokes 3" in told
        wide = proposal.price(20)
        assert proposal.price(10) > wide > proposal.price(100, delta="1e-9") > 0
        phases: list[str] = []
        found = proposal.preview(epsilon=1, rows=500, progress=phases.append).released
        assert phases[0] == "counting rows"
        assert found.purchase.price == ""
        told = proposal.forecast(epsilon=1, rows=500)
        assert told.seconds > 0
        assert told.memory > 500
        assert told.accepted
        assert not proposal.forecast(epsilon=60, rows=5).accepted
        assert codec.loads(codec.dumps(told)) == told
        assert "for 500 rows" in str(told)
        assert clinic._context.account.spent["pure"] == 0
        with pytest.raises(sf.Overspent), pytest.warns(sf.WeakPrivacy):
            proposal.release(epsilon=51)
        assert list(proposal.workload.values()) == [3]
        assert clinic._context.account.spent["pure"] == 0


ROWS = [
    (1, "f", 1, True),
    (1, "m", 5, False),
    (2, "m", 2, None),
    (2, "f", 2, None),
    (3, "m", 7, True),
    (3, "m", 8, None),
]


@pytest.mark.parametrize(
    ("order", "where", "truth"),
    [
        ("age", None, {("f", 1, True), ("f", 2, None), ("m", 7, True)}),
        ("age DESC", None, {("m", 5, False), ("f", 2, None), ("m", 8, None)}),
        ("AGE desc", "age < 8", {("m", 5, False), ("f", 2, None), ("m", 7, True)}),
    ],
)
def test_one_row_of_each_unit_stands_for_it_whatever_the_order_of_rows(order: str, where: Any, truth: Any) -> None:
    """Rows that tie are told apart by what is read of them: the second unit's f comes before its m."""
    for rows in (ROWS, ROWS[::-1]):
        given = {"one_row_per": "unit", "order": order, "where": where}
        proposal, read = exact(policy_of(rows, units=True), Price(2), **given)
        assert proposal.setting(Price(2)).max_rows == 1
        cells = {tuple(int(each[row]) for each in read.codes) for row in range(len(read.totals))}
        bins = {1: 0, 2: 0, 5: 2, 7: 2, 8: 2}
        smoking = {False: 0, True: 1, None: 2}
        assert cells == {("fm".index(sex), bins[age], smoking[smokes]) for sex, age, smokes in truth}
        assert read.totals.sum() == 3


@pytest.mark.parametrize("relation", RELATIONS)
def test_where_one_row_stands_for_a_unit_all_its_rows_move_as_one(relation: str) -> None:
    given = {"one_row_per": "unit", "order": "age DESC"}
    found = [
        exact(policy_of(each, units=True, relation=relation), Price(2), **given) for each in worlds(relation, True)
    ]
    view = CellCounts(replace(found[0][0].setting(Price(2)).reading, sets=((0, 1, 2),)), (0, 1, 2))
    moved = [np.abs(view.extract(one) - view.extract(other)).sum() for (_, one), (_, other) in pairs(relation, found)]
    assert max(moved) == view.sensitivity.total == (1 if relation == "add-remove" else 2)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"one_row_per": "unit"}, "left out, because no order is given"),
        ({"order": "age"}, "because an order is given"),
        ({"one_row_per": "person", "order": "age"}, "unit"),
        ({"one_row_per": "unit", "order": "weight"}, "order"),
        ({"one_row_per": "unit", "order": "age, sex"}, "order"),
        ({"one_row_per": "unit", "order": 3}, "order"),
    ],
    ids=str,
)
def test_an_order_that_is_none_is_refused(given: dict[str, Any], word: str) -> None:
    with pytest.raises(sf.InvalidParameter, match=word):
        exact(policy_of(ROWS, units=True), Price(2), **given)


SELECT = (
    "SELECT who, sex, age, age > 4 AS old, CASE WHEN smokes THEN 'yes' ELSE 'no' END AS smoker, age // 3 AS third "
    "FROM people WHERE age < 8"
)


def test_a_select_that_treats_every_row_by_itself_is_a_source() -> None:
    """The one who says whose row it is never leaves; bins are those of the column, computed ones list their values."""
    rows = people(3, 60)
    proposal, read = exact(policy_of(rows, units=True), Price(2), SELECT)
    assert [each.name for each in proposal.attributes] == ["sex", "age", "old", "smoker", "third"]
    assert [each.size for each in proposal.attributes] == [3, 4, 3, 3, 5]
    one = int(1 / proposal.setting(Price(2)).unit_value)
    kept = [(sex, age, smokes) for _, sex, age, smokes in rows if age < 8]
    truth = [sum(sex == each for sex, *_ in kept) for each in "fm"]
    assert read.marginal((0,)).tolist() == [each * one for each in (*truth, 0)]
    assert read.marginal((2,)).tolist() == [
        one * sum((age > 4) is each for _, age, _ in kept) for each in (False, True)
    ] + [0]
    assert read.marginal((4,)).tolist() == [one * sum(age // 3 == each for _, age, _ in kept) for each in range(4)] + [
        0
    ]
    assert read.marginal((3, 4)).sum() == one * len(kept)


@pytest.mark.parametrize("relation", RELATIONS)
def test_units_move_the_rows_of_a_select_within_their_bound(relation: str) -> None:
    policies = [policy_of(each, units=True, relation=relation) for each in worlds(relation, True)]
    text = "SELECT sex, age // 3 AS third FROM people"
    found = [exact(each, Price(2), text) for each in policies]
    view = CellCounts(found[0][0].setting(Price(2)).reading, (0, 1))
    moved = [np.abs(view.extract(one) - view.extract(other)).sum() for (_, one), (_, other) in pairs(relation, found)]
    assert max(moved) == view.sensitivity.total


def test_a_select_is_released_with_its_own_columns(tmp_path: Path) -> None:
    with curator(tmp_path, people(3, 300), units=True, impossible=("sex = 'f' AND smokes",)) as clinic:
        found = clinic.synthesize(SELECT, "independent", columns=["old", "SEX"]).release(rho=1)
    assert found.table().column_names == ["old", "sex"]
    assert found.released.face.impossible == ()  # said of the table's columns, not of these


@pytest.mark.parametrize(
    ("text", "given", "word"),
    [
        ("SELECT age * 1.5 AS longer FROM people", {}, '"longer" cannot be counted by values or bins'),
        ("SELECT COUNT(*) AS n FROM people", {}, "unit|person|who"),
        ("SELECT sex FROM people LIMIT 3", {}, "row"),
        ("SELECT who FROM people", {}, "the SELECT has only the person"),
        ("SELECT sex FROM people", {"columns": ["age"]}, "age"),
        ("SELECT sex FROM people", {"where": "age < 3"}, "WHERE"),
        ("SELECT sex FROM nothing", {}, "nothing"),
        ("SELECT", {}, "SELECT"),
    ],
)
def test_a_select_that_cannot_be_a_source_is_refused(text: str, given: Any, word: str) -> None:
    with pytest.raises(sf.SfumatoError, match=word):
        exact(policy_of(people(1, 9), units=True), Price(2), text, **given)


def test_memory_is_read_as_people_write_it() -> None:
    assert [parse_memory(each) for each in ("1 GiB", "500MB", "1.5 kib", 7)] == [2**30, 5 * 10**8, 1536, 7]


def test_the_only_private_table_need_not_be_named(tmp_path: Path) -> None:
    rows = pa.table({"sex": ["f", "m"] * 20, "smokes": [True, False, False, True] * 10})
    named = {"unit": "row", "epsilon": 9, "account": "people", "values": {"sex": ["f", "m"]}}
    with sf.protect(rows, **named, ledger=tmp_path / "people.ledger") as owner:
        assert owner.synthesize(ways=2).plan_key == owner.synthesize("data", ways=2).plan_key
        assert owner.synthesize().release(epsilon=1).sample(5).num_rows == 5
    policy = policy_of(people(1, 9))
    second = sf.Table("others", pa.table({"sex": ["f"]}), {"sex": {"values": ["f", "m"]}}, id="row")
    several = sf.Policy(policy.unit, policy.budget, {**policy.tables, "others": second})
    with (
        sf.Curator(several, tmp_path / "several.ledger") as clinic,
        pytest.raises(sf.InvalidParameter, match="several private tables: people, others"),
    ):
        clinic.synthesize()
