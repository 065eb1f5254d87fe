"""Half-widths of sums of noises beside the widths of each row alone, and what rows of an answer rely on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from plan.described import CATALOG
from sfumato.mechanisms import noise_sums
from sfumato.plan.aggregates.measures import GroupEstimate
from sfumato.plan.sql.statements import parse
from sfumato.release.noisy_rows.finishing import (
    FinishedRows,
    count_jointly_held_ranges,
    count_noises_behind_answer,
    finish,
    selects_by_noise,
    with_intervals,
)
from sfumato.release.noisy_rows.key_functions import answer_rows, one_row_per_set
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm
from sfumato.release.noisy_rows.noisy_columns import ConfidenceStatement, NumberColumn
from sfumato.release.parts.scales import NoisyScale

LAPLACE, SMALL, GAUSSIAN = (
    NoisyScale(2, sf.Laplace(30)),
    NoisyScale("0.5", sf.Laplace(11)),
    NoisyScale(3, sf.Gaussian(80)),
)
LARGE = NoisyScale(7, sf.Laplace(30))
"""A measure in larger units than LAPLACE's, with the same mechanism."""
BLOCKS = ((LAPLACE, 3), (SMALL, 2), (None, 1), (GAUSSIAN, 3), (LAPLACE, 2), (LARGE, 2))
NOISES = IndependentNoises(BLOCKS, Fraction("0.9"))


def form(*rows: dict[int, float]) -> NoiseForm:
    starts = np.cumsum([0, *(len(row) for row in rows)])
    noises, weights = ([each for row in rows for each in part(row)] for part in (dict.keys, dict.values))
    return NoiseForm(starts, np.array(noises, np.intp), np.array(weights, float))


ROWS: tuple[dict[int, float], ...] = (
    {},
    {0: 1.0},
    {4: -3.0},
    {7: 2.0},
    {0: 1.0, 2: -1.0},
    {1: 2.0, 9: 2.0},
    {6: 1.0, 7: 1.0, 8: -1.0},
    {0: 1.0, 1: 2.0},
    {0: 1.0, 3: 1.0},
    {0: 1.0, 7: 1.0},
    {6: 1.0, 7: 3.0},
    {0: 2.0, 3: -1.0, 6: 0.5, 8: 0.25},
    {11: 1.0},
    {11: 1.0, 12: -1.0},
    {0: 1.0, 11: 1.0},
    {},
)


def expected(row: dict[int, float], statements: int) -> float:
    """The half-width of one number, from the laws of its noises."""
    scales = [next(scale for start, (scale, count) in zip((0, 3, 5, 6, 9, 11), BLOCKS, strict=True)
                   if start <= noise < start + count) for noise in row]  # fmt: skip
    weights = [abs(weight) for weight in row.values()]
    miss = Fraction("0.1") if statements == 1 else Fraction("0.1") * Fraction("0.9")
    if not row:
        return 0.0
    if len(set(weights)) == 1 and len(set(scales)) == 1:
        (scale,) = set(scales)
        assert scale is not None
        if len(row) == 1:
            return weights[0] * scale.width("0.9", statements)
        return weights[0] * scale.sum_width(len(row), 1 - miss, statements)
    kinds = [scale.mechanism.order for scale in scales if scale is not None]
    share = float(miss) / statements * (1 - 1e-12) * (0.5 if len(set(kinds)) == 2 else 1.0)
    width = 0.0
    for kind, law in ((1, noise_sums.mixed_laplace_widths), (2, noise_sums.mixed_gaussian_widths)):
        weighted = [(weight, scale) for weight, scale in zip(weights, scales, strict=True) if scale is not None]
        parts = [
            (weight * float(scale.unit_value), float(max(scale.mechanism.sizes)))
            for weight, scale in weighted
            if scale.mechanism.order == kind
        ]
        if parts:
            chosen, sizes = (np.array([part]) for part in zip(*parts, strict=True))
            width += float(law(chosen, sizes, share)[0])
    return width


@pytest.mark.parametrize("statements", [1, 3])
def test_every_row_has_the_width_that_it_has_alone(statements: int) -> None:
    widths = NOISES.widths(form(*ROWS), statements)
    for width, row in zip(widths, ROWS, strict=True):
        assert width == pytest.approx(expected(row, statements), rel=2e-14), row
        assert NOISES.widths(form(row), statements).tolist() == [pytest.approx(width, rel=1e-9)]
    assert NOISES.widths(form({}, {}), statements).tolist() == [0, 0]
    assert NOISES.widths(NoiseForm.zero(0), statements).tolist() == []


@pytest.mark.parametrize(
    ("noises", "weight"),
    [((2, 1, 0), 2.0), ((6, 7), -3.0), ((3,), 0.5), ((0, 3), 1.5), ((0, 9, 2), -2.0), ((9, 11), 1.0), ((), 1.0)],
)
def test_a_column_of_one_noise_each_has_the_widths_of_its_rows(noises: tuple[int, ...], weight: float) -> None:
    column = NoiseForm.single_noise_form(np.array(noises, np.intp), weight)
    for statements in (1, 3):
        widths = IndependentNoises(BLOCKS, Fraction("0.9")).widths(column, statements).tolist()
        assert widths == [pytest.approx(expected({noise: weight}, statements), rel=1e-12) for noise in noises]
    doubled = column.plus(column)
    assert NOISES.widths(doubled, 1).tolist() == [2 * width for width in NOISES.widths(column, 1).tolist()]


def test_a_total_that_was_rounded_adds_its_rounding() -> None:
    rounded = NoisyScale(1, sf.Laplace(30), rounding=Fraction(1, 2))
    noises = IndependentNoises(((rounded, 2),), Fraction("0.9"))
    exact = IndependentNoises(((NoisyScale(1, sf.Laplace(30)), 2),), Fraction("0.9"))
    mixed = form({0: 1.0, 1: -3.0})
    assert noises.widths(mixed, 1)[0] == pytest.approx(exact.widths(mixed, 1)[0] + 0.5 * (1 + 3))


def test_lengths_are_rounded_up_only_where_there_are_many() -> None:
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(50)), 300),), Fraction("0.95"))
    few, many = (
        NoiseForm.single_noise_form(np.arange(300)).sum_over_ranges(np.zeros(count, int), np.arange(1, count + 1))
        for count in (64, 200)
    )
    assert few is not None
    assert many is not None
    scale = noises.blocks[0][0]
    assert scale is not None
    miss = Fraction("0.95")
    widths = noises.widths(few, 1)
    assert widths[63] == scale.sum_width(64, miss, 1)
    assert widths[40] == scale.sum_width(41, miss, 1)
    wide = noises.widths(many, 1)
    for terms in (2, 40, 63, 64, 65, 66, 127, 129, 131, 199):
        step = 2 ** max(0, math.floor(math.log2(terms)) - 5)
        assert wide[terms - 1] == scale.sum_width(math.ceil(terms / step) * step, miss, 1), terms


def test_lengths_of_few_kinds_stay_as_they_are() -> None:
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(50)), 300),), Fraction("0.95"))
    ends = np.resize([101, 67, 203], 200)
    made = NoiseForm.single_noise_form(np.arange(300)).sum_over_ranges(np.zeros(200, int), ends)
    assert made is not None
    scale = noises.blocks[0][0]
    assert scale is not None
    assert noises.widths(made, 1)[:3].tolist() == [scale.sum_width(int(end), "0.95", 1) for end in ends[:3]]


def test_two_mixed_rows_have_their_own_widths() -> None:
    rows = {0: 1.0, 1: 2.0}, {0: 5.0, 3: 1.0}
    assert NOISES.widths(form(*rows), 1).tolist() == [pytest.approx(expected(row, 1), rel=2e-14) for row in rows]


def test_equal_rows_are_taken_and_ranged() -> None:
    assert form({0: 1.0}).take(np.array([-1, 0])).starts.tolist() == [0, 0, 1]
    assert (len(NoiseForm.zero(3)), len(NoiseForm.zero(3).weights), len(NoiseForm.zero(3).noises)) == (3, 0, 0)
    made = form({0: 1.0}, {}, {1: 2.0, 2: 3.0})
    taken = made.take(np.array([2, -1, 0, 2]))
    assert (taken.starts.tolist(), taken.noises.tolist()) == ([0, 2, 2, 3, 5], [1, 2, 0, 1, 2])
    assert taken.weights.tolist() == [2, 3, 1, 2, 3]
    assert NoiseForm.zero(0).take(np.array([-1, -1])).starts.tolist() == [0, 0, 0]
    summed = made.sum_over_ranges(np.array([0, 2, 3]), np.array([3, 1, 3]))
    assert summed is not None
    assert (summed.starts.tolist(), summed.noises.tolist()) == ([0, 3, 3, 3], [0, 1, 2])


def query(text: str) -> Any:
    return parse(text, CATALOG)


INNER = "SELECT region, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY region"


@pytest.mark.parametrize(
    ("text", "selecting", "ranges", "draws"),
    [
        (INNER, False, 2, 7 * 3),
        ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", False, 1, 7),
        ("SELECT region FROM visits GROUP BY region", False, 1, 0),
        (f"{INNER} HAVING COUNT(*) > 3", True, 7 * 3, 7 * 3),
        (f"{INNER} ORDER BY n LIMIT 2", True, 7 * 3, 7 * 3),
        (f"{INNER} ORDER BY n", False, 2, 7 * 3),
        (f"{INNER} ORDER BY region LIMIT 2", False, 2, 7 * 3),
        ("SELECT region, RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits GROUP BY region", False, 7 * 2, 7 * 2),
        ("SELECT region, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS r FROM visits GROUP BY region HAVING AVG(age) > 3",
         True, 7 * 4, 7 * 4),
        ("SELECT region, SUM(COUNT(*)) OVER () AS r FROM visits GROUP BY region ORDER BY SUM(age)", False, 21, 21),
        (f"SELECT MAX(n) AS a, MIN(m) AS b FROM ({INNER})", False, 7 * 5, 7 * 5),
        (f"SELECT n, RANK() OVER (ORDER BY m) AS a FROM ({INNER})", False, 7 * 4, 7 * 4),
    ],
)  # fmt: skip
def test_ranges_that_hold_at_once_are_counted(text: str, selecting: bool, ranges: int, draws: int) -> None:
    asked = query(text)
    assert selects_by_noise(asked) == selecting
    assert count_noises_behind_answer(asked, 7) == draws
    assert count_jointly_held_ranges(asked, lambda: 7, False) == ranges
    assert count_jointly_held_ranges(asked, lambda: 7, True) == max(1, draws)


def test_the_number_of_groups_is_asked_for_only_where_it_matters() -> None:
    def refuse() -> int:
        raise AssertionError

    assert count_jointly_held_ranges(query(INNER), refuse, False) == 2


def statements(*counts: tuple[int, int]) -> Any:
    return frozenset(ConfidenceStatement(-index, one, all_) for index, (one, all_) in enumerate(counts, 1))


def test_intervals_are_made_for_as_many_statements_as_each_column_needs() -> None:
    asked: list[int] = []

    def finished_for(draws: int) -> FinishedRows:
        asked.append(draws)
        cells = np.full(2, float(draws))
        first = NumberColumn(cells, cells, cells, statements((1, 2)))
        second = NumberColumn(cells, cells, cells, statements((1, 2), (3, 6)))
        return FinishedRows((first, second), np.arange(2), np.ones(2, bool), statements((1, 2), (3, 6), (5, 11)))

    apart = with_intervals(finished_for, joint=False, combined=True)
    assert [column.value[0] for column in apart.columns] == [1, 4]  # type: ignore[union-attr]
    for combined, count in ((False, 8), (True, 19)):
        joint = with_intervals(finished_for, joint=True, combined=combined)
        assert [column.value[0] for column in joint.columns] == [count] * 2  # type: ignore[union-attr]


def test_a_forecast_is_made_for_as_many_candidates_as_there_may_be() -> None:
    asked: list[int] = []

    def estimated(draws: int) -> list[GroupEstimate]:
        asked.append(draws)
        return [GroupEstimate(np.ones(2), np.zeros(2), np.ones(2))]

    counted = query("SELECT region, COUNT(*) AS n FROM visits GROUP BY region")
    for candidates, draws in ((None, 2), (50, 50)):
        finish(counted, answer_rows((), [("a",), ("b",)]), estimated, joint=True, candidates=candidates)
        assert asked[-1] == draws


KEYS = (("a", 1), ("b", 1), ("a", 2), (None, 2))


def test_rows_of_grouping_sets_sum_their_groups() -> None:
    rows = answer_rows(((0,), (), (0, 1)), KEYS)
    assert list(rows.keys) == [("a", None), ("b", None), (None, None), (None, None), *KEYS]
    assert rows.summed_over.tolist() == [[False, True]] * 3 + [[True, True]] + [[False, False]] * 4
    assert rows.sum_groups(np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [101, 10, 1000, 1111, 1, 10, 100, 1000]
    assert (rows.groups_per_row.tolist(), rows.has_sums, rows.width) == ([2, 1, 1, 4, 1, 1, 1, 1], True, 2)
    plain = answer_rows((), KEYS)
    assert (list(plain.keys), plain.has_sums, plain.width) == (list(KEYS), False, 2)
    assert plain.sum_groups(np.array([1.0, 10.0, 100.0, 1000.0])).tolist() == [1, 10, 100, 1000]
    assert not plain.summed_over.any()
    empty = answer_rows((), (), 3)
    assert (len(empty.keys), empty.width, empty.summed_over.shape) == (0, 3, (0, 3))


def test_a_forecast_has_one_row_for_the_longest_sum_of_each_set() -> None:
    rows = one_row_per_set(((0,), (), (0, 1)), KEYS)
    assert list(rows.keys) == [(None, None)] * 3
    assert rows.groups_per_row.tolist() == [2, 4, 1]
    assert rows.groups.tolist() == [0, 1, 0, 1, 2, 3, 0]
    assert rows.summed_over.tolist() == [[False, True], [True, True], [False, False]]
    assert (rows.has_sums, rows.width) == (True, 2)
    plain = one_row_per_set((), KEYS)
    assert (list(plain.keys), plain.has_sums, plain.width) == ([(None, None)], False, 2)


def test_a_limit_is_certain_only_in_a_public_order() -> None:
    text = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY {} LIMIT 2 OFFSET 1"
    values = np.array([5.0, 2.0, 9.0, 1.0])
    groups = [("d",), ("c",), ("b",), ("a",)]
    estimate = GroupEstimate(values, values - 1, values + 1)
    for order, shown, certain in (("region", [2, 1], True), ("n", [1, 0], False), ("n DESC", [0, 1], False)):
        made = finish(query(text.format(order)), answer_rows((), groups), lambda _: [estimate], joint=False)
        assert made.shown.tolist() == shown
        assert made.sure.tolist() == [certain] * 4
        assert bool(made.statements) == (not certain)
    unlimited = query("SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 2")
    made = finish(unlimited, answer_rows((), groups), lambda _: [estimate], joint=False)
    assert made.shown.tolist() == [0, 2]
    assert made.sure.tolist() == [True, False, True, True]
    selected = query(
        "SELECT region, COUNT(*) AS n FROM visits GROUP BY region HAVING COUNT(*) > 2 ORDER BY region LIMIT 3"
    )
    made = finish(selected, answer_rows((), groups), lambda _: [estimate], joint=False)
    assert made.shown.tolist() == [2, 0]
    assert not made.sure.any()
    beyond = query("SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY region OFFSET 1")
    assert finish(beyond, answer_rows((), groups), lambda _: [estimate], joint=False).shown.tolist() == [2, 1, 0]
