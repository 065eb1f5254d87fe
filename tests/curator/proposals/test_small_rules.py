"""Small rules of proposals, each beside what it says, worked out by hand or in plain Python."""

from __future__ import annotations

import math
import os
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from release.answers.test_stacked_answers import RECEIPT
from sfumato.curator.proposals import (
    linked_table_selects,
    linked_tables,
    mwem,
    online,
    private_bounds,
    question_advice,
    scores,
    synthesis,
    synthesis_series,
)
from sfumato.curator.proposals.degrees import Degrees
from sfumato.curator.proposals.linked_tables import LinkedTablesProposal
from sfumato.curator.proposals.online import OnlineSession
from sfumato.curator.proposals.stored_answers import Answers, SessionAnswers
from sfumato.curator.proposals.survival import TimePeriods
from sfumato.curator.proposals.synthesis_series import SynthesisOptions, SynthesisStepRunner
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.plan.limits import Strategy
from sfumato.plan.readings.dense_readings import MAX_CELLS
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell, RangeCell
from sfumato.release.comparisons import ThresholdAnswer
from sfumato.release.prices import Price


@pytest.mark.parametrize(
    ("low", "high", "every", "whole", "ends"),
    [
        (0, 9, 5, True, (4, 9)),
        (3, 14, 4, True, (6, 10, 14)),
        (3, 13, 4, True, (6, 10, 13)),
        (2, 12, 4, False, (6, 10, 12)),
        (2, 10, 4, False, (6, 10)),
        (5, 5, 4, True, (5,)),
    ],
)
def test_periods_end_before_the_next_begins(
    low: int, high: int, every: int, whole: bool, ends: tuple[int, ...]
) -> None:
    periods = TimePeriods(Fraction(low), Fraction(high), Fraction(every), whole)
    assert periods.ends == ends
    if whole:  # every time lies in one period
        times = [
            time
            for start, end in zip(periods.starts, periods.ends, strict=True)
            for time in range(int(start), int(end) + 1)
        ]
        assert times == [*range(low, high + 1)]


def test_degrees_are_shown_with_their_half_width_and_the_last_counts_all_above() -> None:
    noise = sf.Laplace(2)
    error = f"{float(noise.error('0.95')):g}"
    assert Degrees((7, 0, 3), noise).cells() == [
        (name, f"{count} ± {error}") for name, count in (("0", 7), ("1", 0), ("2 or more", 3))
    ]
    assert Degrees((7,)).cells() == [("0 or more", "7")]


def test_a_session_is_a_table_with_a_row_for_every_question() -> None:
    noise = sf.Laplace(3)
    answers = (ThresholdAnswer(False), ThresholdAnswer(True, Fraction(5, 2), noise, Fraction(1)))
    for confidence in ("0.5", ""):
        receipt = RECEIPT.__class__(**{**vars(RECEIPT), "confidence": confidence})
        table = SessionAnswers(("a", "b", "c"), answers, receipt).as_answer()
        assert table.columns == ("question", "above", "value")
        assert table.rows == (("a", False, None), ("b", True, 2.5), ("c", None, None))
        half_width = float(noise.error(confidence or "0.95"))
        assert table.intervals["value"][0] is None
        assert table.intervals["value"][1] == pytest.approx((2.5 - half_width, 2.5 + half_width), abs=1)
        assert table.intervals["value"][2] is None
    narrow, wide = (
        SessionAnswers(("b",), answers[1:], RECEIPT.__class__(**{**vars(RECEIPT), "confidence": each})).as_answer()
        for each in ("0.5", "0.99")
    )
    assert narrow.intervals["value"][0][1] < wide.intervals["value"][0][1]  # type: ignore[index]
    without = SessionAnswers(("a", "b"), answers[:1], RECEIPT).as_answer()
    assert (without.columns, without.rows) == (("question", "above"), (("a", False), ("b", None)))


def test_the_receipt_of_answers_bought_before_is_the_latest() -> None:
    receipts = [RECEIPT.__class__(**{**vars(RECEIPT), "line": line}) for line in (3, 9, 5)]
    answers = tuple(sf.Answer(("n",), (sf.policy.Type.INTEGER,), ((1,),), {}, (), receipt, ()) for receipt in receipts)
    assert Answers(("a", "b", "c"), answers)._joint_or_latest_receipt is receipts[1]
    assert Answers(("a", "b", "c"), answers, receipts[2])._joint_or_latest_receipt is receipts[2]
    with pytest.raises(InvalidParameter, match="release the workload first"):
        Answers((), ())._joint_or_latest_receipt  # noqa: B018


@pytest.mark.parametrize(
    ("size", "discovered", "groups", "expected"),
    [(100, (), 7, Fraction(100, 7)), (100, (), 1, 100), (100, (), 0, 100), (None, (), 7, None), (100, ("k",), 7, None)],
)
def test_units_of_a_group_were_they_spread_evenly(size: Any, discovered: Any, groups: int, expected: Any) -> None:
    question = SimpleNamespace(declared_size=size, discovered_keys=discovered, groups=[()] * groups)
    assert question_advice._expected_units_per_group(question) == expected


def test_bounds_are_searched_for_ordered_columns_without_a_list() -> None:
    columns = {
        "age": {"type": "integer"},
        "name": {"type": "text"},
        "member": {"type": "boolean"},
        "step": {"type": "integer", "values": [1, 2]},
    }
    source = pa.table({"who": [1], "age": [1], "name": ["a"], "member": [True], "step": [1]})
    table = sf.Table("people", source, columns, id="who", max_rows=1)
    assert private_bounds._require_searchable_domain(table, "age") == table.columns["age"]
    for column, words in (
        ("who", "choose one of age, name, member, step"),
        ("other", "declared in people: age, name, member, step"),
        ("name", "a text has no bounds"),
        ("member", "a boolean has no bounds"),
        ("step", "without listed values"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            private_bounds._require_searchable_domain(table, column)
    bare: Any = SimpleNamespace(name="people", id="who", columns={})
    with pytest.raises(InvalidParameter, match="declared in people: none"):
        private_bounds._require_searchable_domain(bare, "age")


def test_scored_sets_are_bounded_in_number_and_in_cells() -> None:
    refuse = scores._refuse_too_many_sets
    for k, sizes in (
        (1, [2]),
        (2, [2, 3]),
        (2, [10] * 200),
        (1, [2] * 20_000),
        (2, [MAX_CELLS // 2, 2, 1]),
        (2, [2] * 3),
    ):
        refuse(k, sizes)
    for k, sizes in ((0, [2]), (-1, [2]), (2, [2]), (3, [2, 3])):
        with pytest.raises(InvalidParameter):
            refuse(k, sizes)
    for k, sizes in ((2, [2] * 201), (1, [2] * 20_001), (1, [MAX_CELLS + 1]), (2, [3, MAX_CELLS // 2, 1])):
        with pytest.raises(Unsupported, match="at most 20,000 marginals"):
            refuse(k, sizes)


def test_a_private_file_is_no_candidate_under_any_name(tmp_path: Path) -> None:
    private, public = tmp_path / "deep" / "deeper" / "private.csv", tmp_path / "public.csv"
    private.parent.mkdir(parents=True)
    for path in (private, public):
        path.write_text("a\n1\n")
    os.link(private, tmp_path / "linked.csv")
    addresses = {False: [str(private), str(tmp_path / "gone.csv")], True: [str(public)]}

    def data(*, public: bool | None = None) -> list[Any]:
        return [SimpleNamespace(address=address) for address in addresses[bool(public)]]

    context: Any = SimpleNamespace(engine=SimpleNamespace(data=data))
    for allowed in (str(public), public, tmp_path / "missing.csv", pa.table({"a": [1]}), [str(private)], None):
        scores._refuse_private_file(allowed, context)
    for refused in (
        private,
        str(private),
        tmp_path / "linked.csv",
        tmp_path / "*.csv",
        tmp_path / "**" / "pri*.csv",
        f"{tmp_path}/**/private.csv",
    ):
        with pytest.raises(InvalidParameter, match="public table"):
            scores._refuse_private_file(refused, context)


def test_names_are_compared_in_lowercase_and_other_values_name_nothing() -> None:
    for names in (["Age", "SEX"], ("Age", "SEX"), frozenset({"Age", "SEX"})):
        assert mwem._lowercase_names_or_empty(names) == {"age", "sex"}
    for other in ("Age", None, 3, {"Age": 1}):
        assert mwem._lowercase_names_or_empty(other) == set()


class Tab:
    """Records what is released, and fails as told."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.delayed_seconds = 0.0
        self.pending: Exception | None = None

    def raise_if_pending(self) -> None:
        self.log.append("pending?")
        if self.pending is not None:
            raise self.pending

    def progress(self, text: str) -> None:
        self.log.append(text)

    def release_step(self, step: Any, question: str, seconds: float | None) -> str:
        self.log.append((step, question, seconds))
        return "outcome"


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Tab]:
    tab, made = Tab(), object.__new__(SynthesisStepRunner)
    monkeypatch.setattr(synthesis_series, "time", SimpleNamespace(monotonic=lambda: 100.0))
    made.tab_series, made.question, made.paid = tab, "q", []  # type: ignore[assignment]
    made.synthesis = SimpleNamespace(marginals=[1], rounds=[1, 2])  # type: ignore[assignment]
    made._deadline = None
    return made, tab


STEP: Any = SimpleNamespace(batch=SimpleNamespace(mechanism_charges=["charge"]))


@pytest.mark.parametrize(
    ("deadline", "paid", "seconds"),
    [(None, ["c"], None), (107.5, ["c"], 7.5), (100.0, [], 0.001), (90.0, [], 0.001), (100.25, ["c"], 0.25)],
)
def test_a_step_is_released_in_the_time_that_is_left(
    series: tuple[Any, Tab], deadline: float | None, paid: list[str], seconds: float | None
) -> None:
    """The first step is tried whatever the time: without it there is nothing to return."""
    made, tab = series
    made._deadline, made.paid = deadline, [*paid]
    assert made._release_step(STEP) == "outcome"
    assert tab.log == ["pending?", "round 3: choosing", (STEP, "round 3: choosing, for q", seconds)]
    assert made.paid == [*paid, "charge"]


def test_no_step_begins_after_the_time_or_an_interrupt(series: tuple[Any, Tab]) -> None:
    made, tab = series
    for deadline in (100.0, 99.0):
        made._deadline, made.paid = deadline, ["c"]
        with pytest.raises(synthesis_series._TimeLimitReached):
            made._release_step(STEP)
    tab.pending = KeyboardInterrupt()  # type: ignore[assignment]
    made._deadline = None
    with pytest.raises(KeyboardInterrupt):
        made._release_step(STEP)
    assert made.paid == ["c"]
    assert set(tab.log) == {"pending?"}


def test_roots_of_a_session_are_rounded_down() -> None:
    """In exact numbers: by less than two parts in 10¹², and never up, which twelve digits once were."""
    for number in (*range(1, 200), Fraction(10**20, 7), Fraction(1, 3 * 10**15), Fraction(2, 7)):
        root = online._square_root_rounded_down(Fraction(number))
        assert root**2 <= number < (root * (1 + Fraction(2, 10**12))) ** 2


def test_the_range_of_a_close_guess_is_the_gates_and_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has half of the miss. One gate covers its own totals; with others beside them it has its share of the
    miss. Ranges that share nothing become their hull.
    """
    asked: list[Any] = []
    monkeypatch.setattr(online, "close_score_bound", lambda *arguments: asked.append(arguments) or 7)
    session: Any = SimpleNamespace(
        _hypothesis=SimpleNamespace(guess_totals=lambda _: np.array([10.0, 20.0, 30.0])),
        _batch=SimpleNamespace(gate="gate", rounds=4),
        _gate_step_size=lambda _: 0.5,
    )

    def measured(beta: float, cells: int) -> tuple[Any, Any, Any]:
        asked.append((beta, cells))
        return None, np.array([8.0, 0.0, 40.0]), np.array([30.0, 22.0, 50.0])

    quantity: Any = SimpleNamespace(estimate_with_ends=measured)
    measure: Any = SimpleNamespace(parts=("one", "two"))
    found = OnlineSession._resolve_from_hypothesis(session, quantity, measure, 0.25)
    for cells, miss in ((1, 0.04), (2, 0.04), (3, 0.01)):
        asked.clear()
        low, high = found.ends_at(0.04, cells)
        assert asked == [("gate", 4, miss / 2), (0.02, cells)]
        # the gate says ±(7 + 1)/2
        assert (low.tolist(), high.tolist()) == ([8, 16, 26], [14, 22, 50])
    assert found.values.tolist() == [10, 20, 30]


def test_cells_of_a_column_are_its_spikes_bins_or_values_and_one_for_missing_ones() -> None:
    codings = {
        "age": SimpleNamespace(starts=(0, 10, 20), spikes=(99,)),
        "town": SimpleNamespace(starts=(), spikes=()),
    }
    columns = {
        name: SimpleNamespace(values=values) for name, values in (("age", None), ("town", "abcde"), ("old", None))
    }
    table: Any = SimpleNamespace(codings=codings, columns=columns)
    assert [linked_table_selects._cell_count(table, name) for name in columns] == [1 + 3 + 1, 5 + 1, 2 + 1]


def test_linked_tables_are_paid_by_one_account() -> None:
    class Refused(Exception):
        pass

    def refuse(_: str) -> None:
        raise Refused

    proposal: Any = SimpleNamespace(_context=SimpleNamespace(require_one_account=refuse))
    with pytest.raises(Refused):
        LinkedTablesProposal.release(proposal, 1)


@pytest.mark.parametrize(
    ("method", "factor"),
    [
        # 5 rows, times 400 and 16 for each of ten columns
        (synthesis.SynthesisProposal, 5 * 560),
        # 5 rows, times 20 and 8 for each of ten rounds
        (mwem.MwemProposal, 5 * 100),
    ],
)
def test_weights_have_as_many_bits_as_their_noise_can_be_drawn_with(method: Any, factor: int) -> None:
    """From 4 to 10 bits, and no more than rows have: weights of so many bits need noise of so many trillionths."""

    def bits(amount: Any, own: int = 20, rows: int = 5, strategy: Any = Strategy.SAMPLE) -> int:
        def bounded(asked: int) -> Any:
            total = SimpleNamespace(total=Fraction(rows) * (10 if asked else 1))  # in steps, of which rows have more
            measure = SimpleNamespace(bits=min(own, asked), add_remove_sensitivity=total)
            return SimpleNamespace(strategy=strategy, measures=[measure])

        priced: Any = Price(amount) if method is mwem.MwemProposal else SimpleNamespace(total=amount)
        proposal: Any = SimpleNamespace(_bounded_plan=bounded, attributes=range(10), rounds=10)
        return int(method._weight_bits(proposal, priced))

    for power in range(4, 11):
        least = Fraction(factor * 2**power, 10**12)
        assert bits(least) == power
        assert bits(least, own=5) == min(5, power)
        if power > 4:
            assert bits(least * (1 - Fraction(1, 10**9))) == power - 1
    assert bits(Fraction(1)) == bits(Fraction(10**6)) == 10
    assert bits(Fraction(1, 10**30), strategy=Strategy.WHOLE) == 0
    # an amount above 1 buys no more bits
    assert bits(Fraction(1), rows=5 * 10**12 // (factor * 2**4)) == bits(
        Fraction(100), rows=5 * 10**12 // (factor * 2**4)
    )
    for amount, rows in ((Fraction(factor * 2**4, 10**12) * (1 - Fraction(1, 10**9)), 5), (Fraction(100), 10**12)):
        with pytest.raises(Unsupported) as refusal:
            bits(amount, rows=rows)
        assert refusal.value.code == "too-much-noise"


def test_weights_of_a_fit_have_as_many_bits_as_its_rounds_leave() -> None:
    """Rows, times 20 and 8 for each round, over what is spent of ε or ρ, at most 1: 2^bits of them are below 10¹²."""
    limit = Fraction(10**12, (20 + 8 * 10) * 2**9)  # rows of which ten rounds leave exactly 9 bits

    def bits(rows: Fraction, price: Any, own: int = 20, strategy: Any = Strategy.SAMPLE) -> int:
        total = SimpleNamespace(total=rows)
        measures = [SimpleNamespace(bits=own, add_remove_sensitivity=total), SimpleNamespace(bits=1)]
        plans = {0: SimpleNamespace(strategy=strategy, measures=measures), 10: SimpleNamespace(measures=measures)}
        return int(mwem.MwemProposal._weight_bits(SimpleNamespace(_bounded_plan=plans.get, rounds=10), price))  # type: ignore[arg-type]

    half, one, beyond = Price(Fraction(1, 2)), Price(1), 1 + Fraction(1, 10**9)
    for price, part in ((one, 1), (half, 2), (Price(rho=Fraction(1, 2)), 2), (Price(7), 1), (Price(rho=3), 1)):
        assert bits(limit / part, price) == 9
        assert bits(limit / part * beyond, price) == 8
        assert bits(limit / part * 32, price) == 4
        with pytest.raises(Unsupported):
            bits(limit / part * 32 * beyond, price)
    assert bits(limit, one, own=6) == 6
    assert bits(limit / 1024, one) == 10
    assert bits(limit * 10**9, one, strategy=Strategy.WHOLE) == 0
    priced: Any = SimpleNamespace(allows_gaussian=False, epsilon=None)
    assert bits(limit, priced) == 9


def test_cells_of_a_query_are_values_as_a_marginal_prints_them() -> None:
    """One, or a list or tuple of them; a refusal shows the first twenty."""
    town = Attribute("town", "text", (*(ListedCell(f"t{index}") for index in range(25)), OtherCell()))
    ward = Attribute("ward", "integer", (*(ListedCell(number) for number in (7, 3, 5)), OtherCell()))
    parse: Any = mwem._parse_cell_indices
    for cells, indices in (("t24", [24]), (["t3", "t1", "t3"], [1, 3]), (("t3",), [3])):
        assert parse(cells, town) == indices
    for cells, indices in ((5, [2]), (None, [3]), ((None, 7), [0, 3]), ([3], [1])):
        assert parse(cells, ward) == indices
    examples = {}
    for attribute, wrong in ((town, ("t25", 5, [], (), ["t1", "x"], [["t1"]], {"t1"})), (ward, (4, "7", [7, 4]))):
        for cells in wrong:
            with pytest.raises(InvalidParameter) as refusal:
                parse(cells, attribute)
            assert refusal.value.parameter == "queries"
            examples.setdefault(attribute.name, set()).add(refusal.value.fix)
    assert examples["ward"] == {"for example, write 7, 3, 5 or None"}
    first = ", ".join(repr(f"t{index}") for index in range(19))
    assert examples["town"] == {f"for example, write {first} or 't19'"}


def test_the_deadline_of_a_series_is_its_limit_from_now_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesis_series, "time", SimpleNamespace(monotonic=lambda: 100.0))
    for limit, deadline in ((None, None), (7.5, 107.5)):
        call = SimpleNamespace(time_limit=lambda seconds, limit=limit: limit if seconds == 9 else "wrong")
        tab_series: Any = SimpleNamespace(tab="tab", call=call, context=SimpleNamespace(seconds=9))
        runner = SynthesisStepRunner(tab_series, "q", None)  # type: ignore[arg-type]
        assert (runner._deadline, runner.paid, runner.tab) == (deadline, [], "tab")


def test_columns_of_linked_tables_are_a_list_of_names() -> None:
    tables: Any = SimpleNamespace(
        tables=[SimpleNamespace(name="people"), SimpleNamespace(name="stays")],
        non_key_columns=lambda table: {"people": ["Sex"], "stays": ["ward"]}[table.name],
        _unknown_column=lambda name, _: Unsupported("unknown-column", name, fix="name another"),
    )
    check = linked_table_selects.LinkedTables.require_known_columns
    for known in (None, ["people.sex"], ("STAYS.ward", "people.Sex")):
        check(tables, known)
    for wrong in ("people.sex", [], (), 7, [7], {"people.sex": 1}):
        with pytest.raises(InvalidParameter) as refusal:
            check(tables, wrong)
        assert refusal.value.parameter == "columns"
    with pytest.raises(Unsupported) as unknown:
        check(tables, ["people.sex", "ward"])
    assert unknown.value.code == "unknown-column"


def test_each_linked_table_is_synthesized_with_its_limit_and_half_of_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of one row is that of the table itself, so that it is not asked for."""
    asked: list[Any] = []
    own = {name: SimpleNamespace(name=name, max_rows=rows) for name, rows in (("a", 1), ("b", 3), ("c", None))}
    options = linked_tables.LinkedTablesOptions(tuple(own), ways=2, order="day", ends=True, memory=4096 * 30)
    stubs: dict[str, Any] = {
        "with_fine_cells": lambda table: ("fine", table.name),
        "replace": lambda policy, tables: (policy.name, tables),
        "link_tables": lambda policy, names: (
            asked.append((policy, names)) or SimpleNamespace(tables=list(own.values()))
        ),
        "max_bought_cells": lambda table: {table.name: 7},
        "build_links": lambda _, spec: asked.append(spec) or ("link",),
        "_column_count": lambda _, table: {"a": 1, "b": 2, "c": 3}[table],
        "_marginal_width": lambda ways, columns: min(ways, columns),
        "fitted_rows_select": lambda *arguments: f"SELECT {arguments[-1].name}",
        "SelectedCells": lambda *arguments: arguments,
        "column_origins": lambda _, table, bought: (table, bought[table]),
        "propose_synthesis": lambda *arguments: arguments[2:],
        "link_to_parent": lambda _, table: f"above {table}",
        "_with_declared_rules": lambda part, table, link: (part, table.name, link),
        "LinkedTablesProposal": lambda *arguments: arguments[1:],
    }
    for name, stub in stubs.items():
        monkeypatch.setattr(linked_tables, name, stub)
    context: Any = SimpleNamespace(policy=SimpleNamespace(name="policy", tables=own))
    links, parts = linked_tables.propose_linked_tables(context, None, options)  # type: ignore[arg-type, misc]
    fine = {name: ("fine", name) for name in own}
    bought = {name: {name: 7} for name in own}
    assert asked == [
        (("policy", fine), ("a", "b", "c")),
        linked_table_selects.LinkOptions(None, None, "day", True, 15, bought),
    ]
    assert links == ("link",)
    for name, ways, rows in (("a", 1, None), ("b", 2, 3), ("c", 2, None)):
        request = SynthesisOptions(f"SELECT {name}", ways=ways, rows=rows, memory=4096 * 30)
        assert parts[name] == ((request, (fine, (name, {name: 7}))), name, f"above {name}")


def test_the_first_step_of_a_model_is_run_dry_before_anything_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    class RanDry(Exception):
        pass

    def dry_run(step: object) -> None:
        raise RanDry(step)

    monkeypatch.setattr(mwem.releasing, "dry_run", dry_run)
    monkeypatch.setattr(mwem, "RequestedSeries", lambda *_: SimpleNamespace(find_stored=lambda: None))
    steps = SimpleNamespace(row_count_step="the number of rows")
    proposal: Any = SimpleNamespace(_context=None, question="q", plan_key="p", _steps_for_price=lambda _: steps)
    with pytest.raises(RanDry, match="the number of rows"):
        mwem.MwemProposal.release(proposal, 1)


def test_cells_are_wholly_below_others_where_no_value_is_in_both() -> None:
    """A range that does not hold its greatest value is below one that begins there."""
    is_below = linked_tables._is_wholly_below
    for cell, other, below in (
        (ListedCell(3), ListedCell(4), True),
        (ListedCell(4), ListedCell(4), False),
        (RangeCell(0, 4, False), RangeCell(4, 9), True),
        (RangeCell(0, 4, True), RangeCell(4, 9), False),
        (RangeCell(0, 5, False), RangeCell(4, 9), False),
        (RangeCell(0, 4, False), ListedCell(4), True),
        (ListedCell(4), RangeCell(4, 9), False),
        (ListedCell(3), RangeCell(4, 9), True),
    ):
        assert is_below(cell, other) is below


def test_without_a_target_no_column_is_named() -> None:
    for target, name in ((None, None), (1, "b")):
        proposal: Any = SimpleNamespace(
            target=target, attributes=[SimpleNamespace(name="a"), SimpleNamespace(name="b")]
        )
        assert synthesis.SynthesisProposal.target_name.fget(proposal) == name  # type: ignore[attr-defined]


def test_the_threshold_of_an_update_is_twice_what_every_round_may_err() -> None:
    """With 95 % for all rounds, each of which selects and measures; and no less than four times η·n̂."""
    asked: list[Any] = []
    selection = SimpleNamespace(error=lambda candidates, confidence: asked.append((candidates, confidence)) or 3.5)
    noise = SimpleNamespace(error=lambda confidence: asked.append(confidence) or Fraction(13, 3))
    steps: Any = SimpleNamespace(selection=selection, noise=noise)
    proposal: Any = SimpleNamespace(rounds=9, cells=8)
    threshold = mwem.MwemProposal._update_threshold
    assert threshold(proposal, steps, 5, 0) == 9
    assert asked == [(5, Fraction(359, 360)), Fraction(359, 360)]
    steepest = 4 * math.sqrt(math.log(8) / 9)
    assert threshold(proposal, steps, 5, 1000) == math.ceil(steepest * 1000)
    noise.error = selection.error = lambda *_: 0.0
    assert threshold(proposal, steps, 5, -7) == threshold(proposal, steps, 5, 1) == math.ceil(steepest)


def test_models_are_paid_by_one_account_and_counted_in_at_most_ten_million_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refused(Exception):
        pass

    def refuse(_: str) -> None:
        raise Refused

    context: Any = SimpleNamespace(require_one_account=refuse)
    with pytest.raises(Refused):
        mwem.propose_mwem(context, None, "t", None, 2, 3)  # type: ignore[arg-type]
    asked: list[Any] = []
    monkeypatch.setattr(synthesis, "bound_by_unit_weights", lambda *arguments: asked.append(arguments) or "bounded")
    monkeypatch.setattr(synthesis, "for_neighbours", lambda *arguments: arguments)
    policy = SimpleNamespace(neighbours="replace")
    coded = SimpleNamespace(query=SimpleNamespace(plan="plan"), limits="limits")
    for sizes, cells in (((3, 4), 12), ((10**4, 10**3), 10**7), ((10**4, 1001), 10**7)):
        attributes = [SimpleNamespace(size=size) for size in sizes]
        proposal: Any = SimpleNamespace(attributes=attributes, _coded=coded, _context=SimpleNamespace(policy=policy))
        assert synthesis.SynthesisProposal._bounded_plan(proposal, 5) == ("bounded", "replace")
        assert asked.pop() == ("plan", "limits", cells, 5)


def test_linked_tables_are_two_names_or_more() -> None:
    for names in ("ab", [], ["a"], ["a", "a"], ["a", "b", "a"]):
        with pytest.raises(InvalidParameter) as refusal:
            linked_table_selects.link_tables(None, names)  # type: ignore[arg-type]
        assert refusal.value.parameter == "tables"
