"""What each method measures and chooses, and for how much: beside the words of ``methods``, without any rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sfumato.mechanisms import Laplace
from sfumato.privacy import Sensitivity
from sfumato.publish.synthesis import methods
from sfumato.publish.synthesis.budget import Pure, SynthesisBudget, round_amount_down

F = Fraction
ROWS_COST = F(1)
UNSPENT = F(1, 10**20)
"""What a choice costs less than was meant for it, as in ρ."""


class Course:
    """A budget, and a log of what was bought of it; the first candidate is chosen, and counts have four cells."""

    def __init__(self, columns: int, total: Fraction | int, pairs: list[Any] | None = None, **setting: Any) -> None:
        chain = [(first, second) for second in range(columns) for first in range(second)]
        self.setting: Any = SimpleNamespace(
            attributes=range(columns),
            first_columns=tuple(range(columns)),
            sizes=(3,) * columns,
            pairs=pairs or [],
            target=None,
            candidates=dict.fromkeys(chain, 1),
            zeros=(),
            max_cells=10**6,
            reading=SimpleNamespace(distinct_sets={*chain}),
            **setting,
        )
        self.budget = SynthesisBudget(Pure(F(total)))
        self.unspent = UNSPENT
        self.planned, self.total, self.log, self.released = 0, 1e9, list[Any](), list[Any]()
        self.learned: Iterator[bool] = iter(())
        self.model = SimpleNamespace(marginals=lambda sets: ("marginals", *sets))

    def count_rows_and_buy_cells(self) -> Iterator[Any]:
        self.budget = self.budget.charge(ROWS_COST)
        return
        yield

    def measure(self, attribute_set: Any, amount: Fraction, what: str, *, fit: bool = True) -> Any:
        self.budget = self.budget.charge(amount)
        self.log.append((attribute_set, amount, what, fit))
        # the model moved by half of what noise 6 in four cells is, or by a little more
        gain = 12.5 if what == "chosen" and next(self.learned, True) else 12.0
        self.released.append((SimpleNamespace(values=np.zeros(4)), SimpleNamespace(gain=gain)))
        return 6.0
        yield

    def measure_dependent_pairs(self, amount: Fraction) -> Any:
        for pair in self.setting.pairs:
            yield from self.measure(pair, amount, "first", fit=False)

    def choose(self, candidates: Any, amount: Fraction, penalty: Any) -> Any:
        self.budget = self.budget.charge(amount - self.unspent)
        penalised = penalty if isinstance(penalty, Fraction) else penalty(7)
        assert len(self.log) < 200, "it never ends"
        self.log.append(("choose", dict(candidates), amount, penalised))
        return next(iter(candidates))
        yield

    def candidates_within_model_size(self, among: Any, share: float) -> Any:
        self.log.append(("within", share))
        return among

    def fit(self) -> None:
        self.log.append("fit")

    def record_gains(self, before: Any) -> None:
        self.log.append(("gains", before))

    def run(self, method: Callable[[Any], Any]) -> list[Any]:
        assert [*method(self)] == []
        assert self.budget.spent <= self.budget.currency.total
        return self.log


@pytest.fixture(autouse=True)
def penalty_is_its_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "noise_penalty", lambda _, amount: amount)


@pytest.mark.parametrize("total", [10, F(4, 3)])
def test_independent_columns_and_decided_pairs_share_what_is_left(total: Fraction | int) -> None:
    course = Course(3, total, [(0, 2)])
    log = course.run(methods.independent)
    left, expected = F(total) - ROWS_COST, list[Any]()
    for number, measured in zip((4, 3, 2, 1), [(0,), (1,), (2,), (0, 2)], strict=True):
        amount = left if number == 1 else round_amount_down(left / number)
        expected.append((measured, amount, "first", False))
        left -= amount
    assert log == expected
    assert course.planned == 4
    assert course.budget.remaining == 0


def test_mst_pays_a_third_for_columns_a_tenth_for_choices_and_the_rest_for_pairs() -> None:
    course = Course(4, 10, [(1, 3)])
    log = course.run(methods.mst)
    tree = [(1, 3), (0, 1), (0, 2)]
    left = F(27, 5) + 2 * UNSPENT
    third = round_amount_down(left / 3)
    assert log == [
        *[((column,), F(3, 4), "first", False) for column in range(4)],
        "fit",
        ("choose", dict.fromkeys([(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)], 1), F(3, 10), 0.0),
        ("choose", dict.fromkeys([(0, 2), (1, 2), (2, 3)], 1), F(3, 10), 0.0),
        ((1, 3), third, "first", False),
        ((0, 1), third, "chosen", False),
        ((0, 2), left - 2 * third, "chosen", False),
        "fit",
        ("gains", ("marginals", *tree)),
    ]
    assert course.planned == 4 + 3
    assert course.budget.remaining == 0
    cyclic = Course(3, 10, [(0, 1), (1, 2), (0, 2)])
    assert [each[0] for each in cyclic.run(methods.mst) if each[0] in cyclic.setting.pairs] == cyclic.setting.pairs
    assert cyclic.planned == 3 + 3


def test_mst_of_thirds_spends_the_rest_in_the_end() -> None:
    course = Course(3, F(4, 3))
    course.run(methods.mst)
    assert course.budget.remaining == 0
    assert course.log[0][1] == F(37037037037037, 10**15)
    assert [each[2] for each in course.log if each[0] == "choose"] == [F(16666666666666, 10**15)] * 2


def test_mst_without_memory_for_pairs_or_of_one_column_has_columns_alone() -> None:
    course = Course(3, 10)
    course.setting.reading.distinct_sets = set()
    assert course.run(methods.mst) == [*[((column,), 1, "first", False) for column in range(3)], "fit"]
    assert course.planned == 3 + 2
    alone = Course(1, 10)
    assert alone.run(methods.mst) == [((0,), 9, "first", False)]
    assert alone.planned == 1


@pytest.mark.parametrize("total", [9, F(4, 3)])
def test_mwem_pays_the_same_for_every_round_and_the_last_takes_the_rest(total: Fraction | int) -> None:
    course = Course(3, total, [(0, 2)], workload={(0, 1): F(1), (2,): F(1)})
    log = course.run(methods.mwem)
    left = F(total) - ROWS_COST
    amount = round_amount_down(left / 4)
    expected: list[Any] = [((0, 2), amount, "first", False)]
    left -= amount
    for index, rounds_left in ((1, 3), (2, 2), (3, 1)):
        whole = left if rounds_left == 1 else round_amount_down(left / rounds_left)
        choice = round_amount_down(whole / 10)
        expected += [
            ("within", (index + 1) / 4),
            ("choose", dict.fromkeys([(0,), (1,), (2,), (0, 1)], 1), choice, whole - choice),
            ((0,), left - choice + UNSPENT if rounds_left == 1 else whole - choice, "chosen", True),
        ]
        left -= whole - UNSPENT
    assert log == expected
    assert course.planned == 4
    assert course.budget.remaining == 0


def test_aim_halves_the_noise_after_a_round_that_taught_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """In ε, half the noise costs twice as much; less than two rounds' price is the last one's."""
    monkeypatch.setattr(methods, "expected_rounds", lambda *_: 8)
    course = Course(2, 100)
    course.learned = iter((False, True, True))
    pair, within = {(0, 1): 1}, "within"
    assert course.run(methods.aim) == [
        ((0,), F("11.1375"), "first", False),
        ((1,), F("11.1375"), "first", False),
        "fit",
        (within, pytest.approx(0.2327500 + 0.12375)),
        ("choose", pair, F("1.2375"), F("11.1375")),
        ((0, 1), F("11.1375"), "chosen", True),
        (within, pytest.approx(0.3565 + 0.2475)),
        ("choose", pair, F("2.475"), F("22.275")),
        ((0, 1), F("22.275"), "chosen", True),
        (within, 1.0),
        ("choose", pair, F("3.96"), F("35.64") + 2 * UNSPENT),
        ((0, 1), F("35.64") + 3 * UNSPENT, "chosen", True),
    ]
    assert course.planned == 2 + 8
    assert course.budget.remaining == 0


def test_aim_ends_where_less_than_two_rounds_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten columns cost nine of forty rounds; of exactly two rounds that are left, both are run."""
    monkeypatch.setattr(methods, "expected_rounds", lambda *_: 40)
    course = Course(10, 41)
    course.unspent = F(0)
    choices = [each[2] for each in course.run(methods.aim) if each[0] == "choose"]
    assert choices == [F(1, 10)] * 31


def test_a_target_takes_four_fifths_of_what_is_left() -> None:
    pairs = [(0, 1), (1, 2), (0, 2)]
    setting: Any = SimpleNamespace(target=1, target_and_implied_pairs=pairs)
    amounts: Any = SimpleNamespace(measurement=F(7))
    assert methods.first_sets_and_amount(setting, F(9), amounts) == (pairs, F(12, 5))
    assert methods.first_sets_and_amount(setting, F(1), amounts)[1] == F(266666666666666, 10**15)
    without: Any = SimpleNamespace(target=None, first_columns=(1, 2), pairs=[(0, 2)])
    assert methods.first_sets_and_amount(without, F(9), amounts) == ([(1,), (2,), (0, 2)], 7)


def test_rounds_are_four_for_each_column_or_two_where_counts_are_small() -> None:
    """19 rows of different units in a cell, times √ρ, are enough: here 304 rows, two of a unit, in four cells."""
    currency = SimpleNamespace(first_round_sharpness=lambda columns: columns / 4)
    setting: Any = SimpleNamespace(max_rows=2.0, sizes=(2, 6), currency=currency)
    assert [methods.expected_rounds(setting, rows) for rows in (1.0, 303.9, 304.0, 1e9)] == [4, 4, 8, 8]


def test_pairs_fit_beside_the_cells_of_columns_and_of_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    course = Course(3, 10)
    setting = course.setting
    setting.sizes = (3, 4, 5)
    pairs = [(0, 1), (0, 2), (1, 2)]
    # columns have 12 cells; with the edge of the first two the model has 12 + 5
    for max_cells, fitting in ((25, pairs[1:]), (24, pairs[1:2]), (20, pairs[1:2]), (19, [])):
        setting.max_cells = max_cells
        assert methods._fitting_pairs(course, pairs[1:], [(0, 1)]) == fitting  # type: ignore[arg-type]
    setting.max_cells, setting.reading.distinct_sets = 100, {(0, 2)}
    assert methods._fitting_pairs(course, pairs, []) == [(0, 2)]  # type: ignore[arg-type]
    setting.zeros = (((0, 1), None), ((7,), None))
    calls: list[Any] = []
    monkeypatch.setattr(methods, "candidates_within_cells", lambda *arguments: calls.append(arguments) or ["fit"])
    assert methods._fitting_pairs(course, pairs, [(1, 2)]) == ["fit"]  # type: ignore[arg-type]
    assert calls == [([(0, 2)], course.model, [(0, 1), (7,), (1, 2)], 100)]


def test_unconnected_pairs_are_those_without_a_path() -> None:
    assert methods._unconnected_pairs([], 3) == [(0, 1), (0, 2), (1, 2)]
    assert methods._unconnected_pairs([(0, 1), (2, 3)], 4) == [(0, 2), (0, 3), (1, 2), (1, 3)]
    assert methods._unconnected_pairs([(0, 1)], 4) == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert methods._unconnected_pairs([(0, 1), (2, 3), (1, 3)], 4) == []


def test_the_penalty_is_the_mean_noise_of_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    seen: list[Any] = []
    view = SimpleNamespace(sensitivity=Sensitivity(1, 1))
    monkeypatch.setattr(methods, "CellCounts", lambda *arguments: seen.append(arguments) or view)
    course: Any = SimpleNamespace(
        setting=SimpleNamespace(reading="reading", unit_value=F(3)), budget=SynthesisBudget(Pure(F(1)))
    )
    assert course.budget.currency.noise(F(1, 2), view.sensitivity) == Laplace(2)
    assert methods.noise_penalty(course, F(1, 2))(5) == 5 * 2 * 3
    assert seen == [("reading", (0,))]
