"""Rows that are taken, stacked, ranked, joined and united, beside the same in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.plan.noisy_rows import NoisyJoin, NoisySource, NoisyUnion, WithScalars
from sfumato.plan.values.expressions import Column, NoisyColumn
from sfumato.policy import Domain, Type
from sfumato.release.noisy_rows.combining import evaluate_relation
from sfumato.release.noisy_rows.finishing import FinishedRows
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm
from sfumato.release.noisy_rows.noisy_columns import (
    ConfidenceStatement,
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    object_array,
    statements_over_rows,
)
from sfumato.release.noisy_rows.row_totals import dense_sort_ranks, select_rows, stack_columns, take_rows
from sfumato.release.parts.scales import NoisyScale

NAN = math.nan
ABOUT = tuple(ConfidenceStatement(-1 - each, 1, 20 + each) for each in range(3))
NOISES = IndependentNoises(((NoisyScale(1, sf.Laplace(7)), 12),), Fraction("0.95"))
TEXT = Domain(Type.TEXT)


def number(cells: Sequence[float], width: float = 1.0, about: int = 0, sure: Sequence[bool] | None = None) -> Any:
    value = np.array(cells, float)
    known = None if sure is None else np.array(sure)
    return NumberColumn(value, value - width, value + 2 * width, frozenset([ABOUT[about]]), known)


def linear(values: Sequence[float], first_noise: int = 0) -> LinearColumn:
    value = np.array(values, float)
    form = NoiseForm.single_noise_form(first_noise + np.arange(len(values)))
    return LinearColumn(value, value + 0.25, form, NOISES, 1, ConfidenceStatement.about(len(values)))


def truth(cells: Sequence[bool | None], sure: Sequence[bool], about: int = 0) -> TruthColumn:
    true, known = (np.array([test(cell) for cell in cells], bool) for test in (bool, lambda cell: cell is not None))
    return TruthColumn(true, known, np.array(sure, bool), frozenset([ABOUT[about]]))


def texts(cells: Sequence[object], *, chosen: bool = False, sure: Sequence[bool] | None = None) -> ExactColumn:
    return ExactColumn(object_array(cells), chosen, None if sure is None else np.array(sure))


def dense(form: NoiseForm) -> Any:
    matrix = np.zeros((len(form), 12))
    np.add.at(matrix, (form.row_of_weight, form.noises), form.weights)
    return matrix.tolist()


def unit(*noises: int | None) -> list[list[float]]:
    return [[float(place == noise) for place in range(12)] for noise in noises]


def test_taken_rows_are_null_where_there_is_none() -> None:
    rows = np.array([2, -1, 0])
    taken: Any = take_rows(number([1, 2, 3], sure=[True, True, False]), rows)
    np.testing.assert_equal([taken.value, taken.low, taken.high], [[3, NAN, 1], [2, NAN, 0], [5, NAN, 3]])
    assert (taken.nulls_sure.tolist(), taken.statements) == ([False, True, True], {ABOUT[0]})
    assert take_rows(number([1, 2, 3]), rows).nulls_sure is None  # type: ignore[union-attr]
    shown: Any = take_rows(texts(["a", "b", "c"], chosen=True, sure=[True, False, False]), rows)
    assert (shown.value.tolist(), shown.chosen_by_noise) == (["c", None, "a"], True)
    assert shown.nulls_sure.tolist() == [False, True, True]
    public: Any = take_rows(texts(["a"], sure=[False]), np.array([0, -1]))
    assert (public.value.tolist(), public.nulls_sure.tolist()) == (["a", None], [False, True])
    told: Any = take_rows(truth([None, False, True], [True, False, False]), np.array([0, -1, 2, 1]))
    assert told.true.tolist() == [False, False, True, False]
    assert told.known.tolist() == [False, False, True, True]
    assert told.sure.tolist() == [True, True, False, False]
    assert take_rows(truth([True, False, True], [False] * 3), rows).sure.tolist() == [False, True, False]  # type: ignore[union-attr]
    form: Any = take_rows(linear([1, 2, 3]), rows)
    assert dense(form.form) == unit(2, None, 0)


def test_columns_below_one_another() -> None:
    a, b = linear([1, 2]), linear([5, NAN, 7], 2)
    stacked: Any = stack_columns([a, b, texts([3, None])])
    np.testing.assert_equal(stacked.value, [1, 2, 5, NAN, 7, 3, NAN])
    np.testing.assert_equal(stacked.centre, [1.25, 2.25, 5.25, NAN, 7.25, 3, NAN])
    assert dense(stacked.form) == unit(0, 1, 2, 3, 4, None, None)
    assert stacked.statement.total == 2 + 3 + 2  # what has no noise counts too
    part = linear([1, 2, 3, 4]).take(np.array([3]))
    assert stack_columns([part, part]).statement.total == 4 + 4  # type: ignore[union-attr]
    plain: Any = stack_columns([number([1], 0), number([2], 0)])
    assert isinstance(plain, NumberColumn)
    assert plain.value.tolist() == [1, 2]
    public: Any = stack_columns([texts(["x"], sure=[False]), texts([None, "z"])])
    assert (public.value.tolist(), public.chosen_by_noise) == (["x", None, "z"], False)
    assert public.nulls_sure.tolist() == [False, True, True]
    for chosen in ((True, False), (False, True)):
        assert stack_columns([texts(["x"], chosen=each) for each in chosen]).chosen_by_noise  # type: ignore[union-attr]
    told: Any = stack_columns([truth([True, None], [False, True]), texts([False])])
    assert (told.true.tolist(), told.known.tolist()) == ([True, False, False], [True, False, True])
    assert (told.sure.tolist(), told.statements) == ([False, True, True], {ABOUT[0]})
    mixed: Any = stack_columns([a, number([5, NAN], about=1, sure=[False, True])])
    assert isinstance(mixed, NumberColumn)
    np.testing.assert_equal(mixed.value, [1, 2, 5, NAN])
    np.testing.assert_equal(mixed.low, [*a.ranged.low, 4, NAN])
    np.testing.assert_equal(mixed.high, [*a.ranged.high, 7, NAN])
    assert mixed.statements == {ABOUT[1]} | a.ranged.statements
    assert mixed.nulls_sure is not None
    assert mixed.nulls_sure.tolist() == [True, True, False, True]


def test_rows_of_two_columns_by_a_public_condition() -> None:
    test = np.array([True, False, True])
    chosen: Any = select_rows(linear([1, 2, 3]), number([7, 8, 9], 0), test)
    np.testing.assert_equal(chosen.value, [1, 8, 3])
    assert dense(chosen.form) == unit(0, None, 2)
    ranged: Any = select_rows(number([1, 2, 3], sure=[False, True, True]), number([7, 8, 9], 2, 1, [True] * 3), test)
    assert (ranged.value.tolist(), ranged.low.tolist(), ranged.high.tolist()) == ([1, 8, 3], [0, 6, 2], [3, 12, 5])
    assert (ranged.statements, ranged.nulls_sure.tolist()) == (frozenset(ABOUT[:2]), [False, True, True])
    other: Any = select_rows(number([7, 8, 9], 0), linear([1, 2, 3]), test)
    np.testing.assert_equal(other.value, [7, 2, 9])
    assert dense(other.form) == unit(None, 1, None)
    for pair in ((linear([1, 2, 3]), number([7, 8, 9])), (number([1, 2, 3], 0), number([7, 8, 9], 0))):
        widened: Any = select_rows(*pair, test)
        assert isinstance(widened, NumberColumn)
        assert widened.value.tolist() == [1, 8, 3]
    for by_noise in ((True, False), (False, True)):
        pair = [
            texts(cells, chosen=each) for cells, each in zip((["a", "b", "c"], ["x", "y", None]), by_noise, strict=True)
        ]
        shown: Any = select_rows(*pair, test)
        assert (shown.value.tolist(), shown.chosen_by_noise) == (["a", "y", "c"], True)
    public: Any = select_rows(texts(["a", None, "c"], sure=[False, True, True]), texts(["x", None, "z"]), test)
    assert (public.nulls_sure.tolist(), public.chosen_by_noise) == ([False, True, True], False)
    told: Any = select_rows(
        truth([True, False, None], [True, True, False]), truth([None, True, True], [False] * 3, 1), test
    )
    assert (told.true.tolist(), told.known.tolist()) == ([True, True, False], [True, True, False])
    assert (told.sure.tolist(), told.statements) == ([True, False, False], frozenset(ABOUT[:2]))
    public_truth, noisy_truth = texts([True] * 3), truth([True, None, False], [True] * 3)
    kept: Any = select_rows(public_truth, noisy_truth, test)
    assert (kept.true.tolist(), kept.known.tolist()) == ([True, False, True], [True, False, True])
    kept = select_rows(noisy_truth, public_truth, test)
    assert (kept.true.tolist(), kept.known.tolist()) == ([True, True, False], [True, True, True])


@pytest.mark.parametrize(("descending", "nulls_first"), list(itertools.product((False, True), repeat=2)))
def test_ranks_order_values_and_put_null_at_one_end(descending: bool, nulls_first: bool) -> None:
    cells = [3, None, 1, 3, Fraction(5, 2), None]
    values = sorted({cell for cell in cells if cell is not None}, reverse=descending)
    expected = [(-1 if nulls_first else len(values)) if cell is None else values.index(cell) for cell in cells]
    assert dense_sort_ranks(texts(cells), descending, nulls_first).tolist() == expected
    floats = [NAN if cell is None else float(cell) for cell in cells]
    assert dense_sort_ranks(number(floats), descending, nulls_first).tolist() == expected
    assert dense_sort_ranks(texts([5, None]), descending, nulls_first).tolist() == [0, -1 if nulls_first else 1]
    assert dense_sort_ranks(texts([]), descending, nulls_first).tolist() == []
    told = dense_sort_ranks(truth([True, None, False], [True] * 3), descending, nulls_first).tolist()
    assert told == [0 if descending else 1, -1 if nulls_first else 2, 1 if descending else 0]


def column(index: int) -> Column:
    return Column(NoisyColumn(index), TEXT)


def source(columns: Sequence[Evaluated], shown: Sequence[int], about: int = 0) -> FinishedRows:
    first = columns[0]
    count = len(first.true if isinstance(first, TruthColumn) else first.value)
    sure = np.arange(count) % 2 == 0
    return FinishedRows(tuple(columns), np.array(shown, np.intp), sure, frozenset([ABOUT[about]]))


def joined(
    left: FinishedRows, right: FinishedRows, pairs: Sequence[tuple[int, int]], keep_left: bool, keep_right: bool
) -> Any:
    join = NoisyJoin(
        NoisySource(0), NoisySource(1), tuple((column(a), column(b)) for a, b in pairs), keep_left, keep_right
    )
    return evaluate_relation(join, [left, right])


@pytest.mark.parametrize(("keep_left", "keep_right"), list(itertools.product((False, True), repeat=2)))
def test_joins_are_those_of_nested_loops(keep_left: bool, keep_right: bool) -> None:
    for seed in range(12):
        random = Random(f"{seed}")
        sides = []
        for side in range(2):
            count = random.randrange(1, 7)
            first = [random.choice(["a", "b", None]) for _ in range(count)]
            second = [random.choice([1, 2, Fraction(1, 2), 0.5, None]) for _ in range(count)]
            own = [float(10 * side + row) for row in range(count)]
            shown = random.sample(range(count), random.randrange(count + 1))
            sides.append((first, second, own, shown))
        found = joined(
            *(source([texts(first), texts(second), number(own, about=side)], shown, side)
              for side, (first, second, own, shown) in enumerate(sides)),
            [(0, 0), (1, 1)], keep_left, keep_right,
        )  # fmt: skip
        (a, b, own, shown), (c, d, other, others) = sides
        matched = [
            (x, [y for y in others if None not in (a[x], b[x]) and (a[x], b[x]) == (c[y], d[y])])
            for x in shown
        ]  # fmt: skip
        pairs: list[tuple[int | None, int | None]] = []
        for x, partners in matched:
            pairs += [(x, y) for y in partners] or ([(x, None)] if keep_left else [])
        met = {y for _, y in pairs}
        pairs += [(None, y) for y in others if y not in met] if keep_right else []
        values = [[own[x] if x is not None else NAN for x, _ in pairs],
                  [other[y] if y is not None else NAN for _, y in pairs]]  # fmt: skip
        for made, expected in zip((found.columns[2], found.columns[5]), values, strict=True):
            made_values = [NAN if cell is None else float(cell) for cell in made.value]
            np.testing.assert_equal(made_values, expected)
        assert [*found.columns[0].value] == [None if x is None else a[x] for x, _ in pairs]
        assert found.shown.tolist() == list(range(len(pairs)))
        assert found.sure.tolist() == [True] * len(pairs)
        assert found.statements == frozenset(ABOUT[:2])


def test_keys_are_matched_by_what_they_are_worth() -> None:
    """A float beside its fraction; whole numbers beyond 2⁵³ stay apart; truths and noisy numbers are keys too."""
    large = 2**53
    left = source([texts([Fraction(1, 3), large, large + 1, 2])], [0, 1, 2, 3])
    right = source([texts([large + 1, 1 / 3, 2])], [0, 1, 2])
    assert joined(left, right, [(0, 0)], False, False).columns[1].value.tolist() == [1 / 3, large + 1, 2]
    told = source([truth([True, None, False], [True] * 3)], [0, 1, 2])
    assert joined(told, source([texts([False, None, True])], [0, 1, 2]), [(0, 0)], False, False).columns[
        1
    ].value.tolist() == [True, False]
    noisy = source([number([3.0, NAN])], [0, 1])
    assert joined(noisy, source([texts([3, 4])], [0, 1]), [(0, 0)], False, False).columns[1].value.tolist() == [3]


def test_all_pairs_of_equal_keys_are_joined() -> None:
    left = source([texts(["a", "b", "a"]), number([1, 2, 3])], [0, 1, 2])
    right = source([texts(["b", "a", "a", "b"]), number([4, 5, 6, 7])], [3, 2, 1, 0])
    found = joined(left, right, [(0, 0)], False, False)
    assert [*found.columns[0].value] == ["a", "a", "b", "b", "a", "a"]
    assert found.columns[1].value.tolist() == [1, 1, 2, 2, 3, 3]
    assert found.columns[3].value.tolist() == [6, 5, 7, 4, 6, 5]


def test_a_side_without_groups_is_null() -> None:
    empty = source([texts([])], [])
    found = joined(source([texts(["a", "b"])], [0, 1]), empty, [(0, 0)], True, False)
    assert [*found.columns[1].value] == [None, None]


def united(members: Sequence[FinishedRows], distinct: bool) -> Any:
    union = NoisyUnion(tuple(NoisySource(index) for index in range(len(members))), distinct)
    return evaluate_relation(union, members)


def test_unions_put_rows_below_one_another() -> None:
    first = source([texts(["a", "b", "c"]), number([1, 2, 3])], [2, 0])
    second = source([texts(["d", "e"]), number([4, 5], about=1)], [1], 1)
    twice = united([first, first], False)
    assert twice.columns[0].value[twice.shown].tolist() == ["c", "a"] * 2
    found = united([first, second], False)
    assert found.columns[0].value[found.shown].tolist() == ["c", "a", "e"]
    assert found.columns[1].value[found.shown].tolist() == [3, 1, 5]
    assert found.sure.tolist() == [True, False, True, True, False]
    assert found.statements == frozenset(ABOUT[:2])


def test_duplicates_are_dropped_and_noise_may_have_made_them() -> None:
    first = source([texts(["a", "b", "a"]), number([1, 2, 1])], [2, 1, 0])
    second = source([texts(["b", "c"]), number([7, 5], about=1)], [0, 1], 1)
    found = united([first, second], True)
    assert found.shown.tolist() == [2, 1, 3, 4]
    # exact parts: a and b come twice, so noise decides how many are shown
    assert found.sure.tolist() == [False, False, False, False, False]
    assert found.statements == frozenset(ABOUT[:2])
    alone = united([source([texts(["a", "b"]), number([1, 2], about=2)], [0, 1])], True)
    assert alone.sure.tolist() == [True, False]
    assert alone.statements == frozenset([ABOUT[0], ABOUT[2]])
    exact = united([source([texts(["a", "a", "b"])], [0, 1, 2]), source([texts(["b", "c"])], [1, 0], 1)], True)
    assert exact.shown.tolist() == [0, 2, 4]
    assert exact.sure.tolist() == [True, False, True, True, False]
    assert exact.statements == frozenset(ABOUT[:2])
    chosen = united([source([texts(["a", "b"], chosen=True)], [0, 1])], True)
    assert chosen.sure.tolist() == [False, False]
    some = united([source([texts(["x", "x", "y"]), number([1, 2, 3])], [0, 1, 2])], True)
    assert some.sure.tolist() == [False, False, True]


def test_scalars_are_the_first_row_of_theirs() -> None:
    rows = source([texts(["a", "b"])], [1, 0])
    scalars = [source([number([4.0, 6.0], about=1)], [1, 0], 2), source([texts([])], [], 1)]
    found: Any = evaluate_relation(WithScalars(NoisySource(0), (NoisySource(1), NoisySource(2))), [rows, *scalars])
    assert found.columns[1].value.tolist() == [6, 6]
    assert found.columns[1].statements == {ABOUT[1]} | statements_over_rows(frozenset([ABOUT[2]]))
    assert [*found.columns[2].value] == [None, None]
    assert found.shown.tolist() == [1, 0]
    absent = source([number([4.0])], [], 2)
    missing: Any = evaluate_relation(WithScalars(NoisySource(0), (NoisySource(1),)), [rows, absent])
    np.testing.assert_equal(missing.columns[1].value, [NAN, NAN])
