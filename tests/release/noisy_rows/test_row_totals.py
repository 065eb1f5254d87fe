"""Totals of a few noisy rows beside the same totals over every set of rows that the ranges allow, in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm
from sfumato.release.noisy_rows.noisy_columns import (
    ConfidenceStatement,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    object_array,
    statements_over_rows,
)
from sfumato.release.noisy_rows.row_totals import Presence, aggregate_groups, correlation_or_slope, group_codes_and_rows
from sfumato.release.parts.scales import NoisyScale

NAN = math.nan
ABOUT, ABOUT_ROWS = ConfidenceStatement(-1, 1, 20), ConfidenceStatement(-2, 1, 21)
GROUPS = 4
ROWS = 12
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX")
Row = tuple[int, bool, bool, bool, bool, int, int, int]
"""Its group, whether it is present, and surely so, whether it is NULL, and surely so, its number, and its range."""


def rows(seed: str, certain: bool = False) -> list[Row]:
    random = Random(seed)
    made = []
    for _ in range(ROWS):
        group, value = random.randrange(GROUPS - 1), random.randint(-4, 6)
        present, sure, null, null_sure = (random.random() < share for share in (0.75, 0.7, 0.2, 0.7))
        flags = (True, True, null, True) if certain else (present, sure, null, null_sure)
        made.append((group, *flags, value, value - random.randint(0, 3), value + random.randint(0, 3)))
    return made


def columns(made: Sequence[Row]) -> tuple[NumberColumn, Presence, Any]:
    group, present, sure, null, null_sure, value, low, high = (np.array(part) for part in zip(*made, strict=True))
    argument = NumberColumn(np.where(null, NAN, value.astype(float)), low.astype(float), high.astype(float),
                            frozenset([ABOUT]), null_sure)  # fmt: skip
    return argument, Presence(present, sure, frozenset([ABOUT_ROWS])), group


def worlds(made: Sequence[Row], group: int) -> Iterator[list[Row]]:
    """Every set of rows of a group that may have been added up."""
    choices: list[list[tuple[Row, ...]]] = []
    for row in made:
        number, present, sure, null, null_sure = row[:5]
        if number != group:
            continue
        counts = present and not null
        is_sure = (sure and null_sure) or (sure and not present) or (null_sure and null)
        choices.append([(row,)] if counts and is_sure else [()] if is_sure else [(), (row,)])
    return ([row for part in parts for row in part] for parts in itertools.product(*choices))


def of(function: str, cells: Sequence[float]) -> float:
    if function == "COUNT":
        return len(cells)
    if not cells:
        return NAN
    return {"SUM": sum, "MIN": min, "MAX": max, "AVG": lambda values: sum(values) / len(values)}[function](cells)  # type: ignore[operator, no-any-return]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_total_has_the_range_of_all_sets_of_rows_that_may_be_there(function: str) -> None:
    """Of a mean it is wider: that of the single rows."""
    for seed in range(12):
        made = rows(f"{seed}")
        argument, present, codes = columns(made)
        found = aggregate_groups(function, argument, present, codes, GROUPS)
        assert isinstance(found, NumberColumn)
        for group in range(GROUPS):
            sets = list(worlds(made, group))
            lows, highs = ([of(function, [row[end] for row in chosen]) for chosen in sets] for end in (6, 7))
            value = of(function, [row[5] for row in made if row[0] == group and row[1] and not row[3]])
            np.testing.assert_equal(found.value[group], value)
            sizes = {bool(chosen) for chosen in sets}
            if function != "COUNT":
                assert found.nulls_sure is not None
                assert found.nulls_sure[group] == (len(sizes) == 1), (seed, group)
            if function == "AVG" and len(sets) > 1:  # never beyond the ends of single rows, as a mean is not
                lows, highs = ([row[end] for row in max(sets, key=len)] for end in (6, 7))
            if function == "SUM":
                lows, highs = ([0 if math.isnan(end) else end for end in ends] for ends in (lows, highs))
            possible = [end for end in lows if not math.isnan(end)], [end for end in highs if not math.isnan(end)]
            if possible[0]:
                assert found.low[group] == pytest.approx(min(possible[0]))
                assert found.high[group] == pytest.approx(max(possible[1]))
        assert found.statements == statements_over_rows(frozenset([ABOUT, ABOUT_ROWS]))


def test_counted_rows_rely_on_what_selected_them() -> None:
    _, present, codes = columns(rows("counted"))
    found = aggregate_groups("COUNT", None, present, codes, GROUPS)
    assert isinstance(found, NumberColumn)
    for group in range(GROUPS):
        here = [row for row in rows("counted") if row[0] == group]
        assert found.value[group] == sum(row[1] for row in here)
        assert found.low[group] == sum(row[1] and row[2] for row in here)
        assert found.high[group] == sum(row[1] or not row[2] for row in here)
    assert found.statements == statements_over_rows(frozenset([ABOUT_ROWS]))


def linear(values: Sequence[float], about: ConfidenceStatement = ABOUT) -> LinearColumn:
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(7)), ROWS),), Fraction("0.95"))
    value = np.array(values, float)
    return LinearColumn(value, value + 0.25, NoiseForm.single_noise_form(np.arange(len(values))), noises, 1, about)


def dense(form: NoiseForm) -> Any:
    matrix = np.zeros((len(form), ROWS))
    np.add.at(matrix, (form.row_of_weight, form.noises), form.weights)
    return matrix


@pytest.mark.parametrize("function", ["SUM", "AVG"])
def test_a_total_of_rows_that_are_sure_adds_up_their_noises(function: str) -> None:
    for seed in range(4):
        made = rows(f"linear {seed}", certain=True)
        values = [NAN if row[3] else float(row[5]) for row in made]
        codes = np.array([row[0] for row in made])
        present = Presence(np.arange(ROWS) % 5 != 1, np.ones(ROWS, bool))
        found = aggregate_groups(function, linear(values), present, codes, GROUPS)
        assert isinstance(found, LinearColumn)
        for group in range(GROUPS):
            added = [r for r in range(ROWS) if codes[r] == group and r % 5 != 1 and not math.isnan(values[r])]
            divisor = len(added) if function == "AVG" else 1
            weights = [(r in added) / max(divisor, 1) for r in range(ROWS)]
            np.testing.assert_allclose(dense(found.form)[group], weights)
            value, centre = (sum(values[r] + more for r in added) / divisor if added else NAN for more in (0, 0.25))
            np.testing.assert_allclose([found.value[group], found.centre[group]], [value, centre])


def test_linear_rows_that_noise_selected_have_their_own_range_where_a_group_is_sure() -> None:
    values, codes = [3.0, 5.0, -2.0, 8.0], np.array([0, 0, 1, 1])
    present = Presence(np.array([True, True, True, True]), np.array([True, True, True, False]), frozenset([ABOUT_ROWS]))
    column = linear(values)
    found = aggregate_groups("SUM", column, present, codes, 2)
    exact = aggregate_groups("SUM", column, Presence.everywhere(4), codes, 2)
    assert isinstance(found, NumberColumn)
    assert isinstance(exact, LinearColumn)
    assert (found.low[0], found.high[0]) == (exact.ranged.low[0], exact.ranged.high[0])
    widths = column.ranged
    assert found.low[1] == pytest.approx(widths.low[2] + min(widths.low[3], 0))
    assert found.high[1] == pytest.approx(widths.high[2] + max(widths.high[3], 0))
    assert found.statements >= statements_over_rows(frozenset([ABOUT_ROWS]) | column.ranged.statements)
    assert len(found.statements) == 3  # of its own sums too
    smallest = aggregate_groups("MIN", column, Presence.everywhere(4), codes, 2)
    assert isinstance(smallest, NumberColumn)
    assert smallest.low.tolist() == [min(widths.low[:2]), min(widths.low[2:])]


@pytest.mark.parametrize("function", ["CORR", "REGR_SLOPE"])
def test_correlations_and_slopes_are_those_of_the_rows_with_both(function: str) -> None:
    random = Random(function)
    codes = np.array([row % 3 for row in range(ROWS)])
    y = [NAN if row == 4 else float(random.randint(-5, 9)) for row in range(ROWS)]
    x = [NAN if row == 6 else 2.0 if row % 3 == 2 else float(random.randint(0, 5)) for row in range(ROWS)]
    here = [row for row in range(ROWS) if row not in (3, 4, 6)]
    present = Presence(np.arange(ROWS) != 3, np.ones(ROWS, bool))
    exact = NumberColumn(*(np.array(x),) * 3, nulls_sure=np.ones(ROWS, bool))
    found = correlation_or_slope(function, linear(y), exact, present, codes, 3)
    ranged = correlation_or_slope(function, linear(y).ranged, exact, present, codes, 3)
    assert isinstance(ranged, NumberColumn)
    np.testing.assert_allclose(ranged.value, found.value)
    values = []
    for group in range(3):
        pairs = [(Fraction(x[row]), Fraction(y[row]), row) for row in here if codes[row] == group]
        mean_x, mean_y = (sum(pair[part] for pair in pairs) / len(pairs) for part in (0, 1))
        spread = sum((pair[0] - mean_x) ** 2 for pair in pairs)
        joint = sum((pair[0] - mean_x) * (pair[1] - mean_y) for pair in pairs)
        y_spread = sum((pair[1] - mean_y) ** 2 for pair in pairs)
        if not spread:
            values.append(NAN)
        elif function == "CORR":
            values.append(float(joint) / math.sqrt(spread * y_spread))
        else:
            values.append(float(joint / spread))
            assert isinstance(found, LinearColumn)
            weights = {row: float((at - mean_x) / spread) for at, _, row in pairs}
            np.testing.assert_allclose(dense(found.form)[group], [weights.get(row, 0) for row in range(ROWS)])
            # the weights of a slope add up to 0, so that the centres' shift is not in it
            assert found.centre[group] == pytest.approx(values[-1])
    np.testing.assert_allclose(found.value, values, rtol=1e-12)
    if function == "CORR":
        assert isinstance(found, NumberColumn)
        assert (found.low.tolist(), found.high.tolist()) == ([-1] * 3, [1] * 3)
        assert found.statements == statements_over_rows(linear(y).ranged.statements)


@pytest.mark.parametrize("spoilt", ["absent", "ranged"])
def test_a_slope_is_bounded_only_where_all_rows_and_their_x_are_exact(spoilt: str) -> None:
    x = np.array([0.0, 1.0, 3.0, 7.0])
    sure = np.array([True, True, True, spoilt != "absent"])
    column = NumberColumn(x, x, x + (spoilt == "ranged") * np.array([0, 0, 0, 1.0]))
    y = linear([1.0, 2.0, 4.0, 8.0])
    found = correlation_or_slope("REGR_SLOPE", y, column, Presence(np.ones(4, bool), sure), np.zeros(4, int), 1)
    assert isinstance(found, NumberColumn)
    assert (found.low.tolist(), found.high.tolist()) == ([-math.inf], [math.inf])
    assert found.statements == statements_over_rows(y.ranged.statements)
    beside = Presence(np.array([True, True, True, False]), np.ones(4, bool))
    assert isinstance(correlation_or_slope("REGR_SLOPE", y, column, beside, np.zeros(4, int), 1), LinearColumn)


CELLS = tuple(itertools.product((True, False), repeat=2))


def test_rows_that_satisfy_a_predicate_too() -> None:
    """Beside every world: a row whose presence, or truth, is not sure may be there or not."""
    for (present, sure), (true, known), test_sure in itertools.product(CELLS, CELLS, (True, False)):
        truth = TruthColumn(np.array([true]), np.array([known]), np.array([test_sure]), frozenset([ABOUT]))
        found = Presence(np.array([present]), np.array([sure]), frozenset([ABOUT_ROWS])).where(truth)
        outcomes = {
            here and kept
            for here in ({present} if sure else {True, False})
            for kept in ({true and known} if test_sure else {True, False})
        }
        assert found.present.tolist() == [present and true and known]
        assert found.sure.tolist() == [len(outcomes) == 1]
        assert found.surely_present.tolist() == [outcomes == {True}]
        assert found.possibly_present.tolist() == [True in outcomes]
        assert found.statements == frozenset([ABOUT, ABOUT_ROWS])


def test_rows_with_a_value_beside_every_world() -> None:
    for (present, sure), (null, null_sure) in itertools.product(CELLS, CELLS):
        one = np.ones(1)
        column = NumberColumn(np.array([NAN]) if null else one, one, 2 * one, frozenset([ABOUT]), np.array([null_sure]))
        found = Presence(np.array([present]), np.array([sure]), frozenset([ABOUT_ROWS])).not_null(column)
        outcomes = {
            here and kept
            for here in ({present} if sure else {True, False})
            for kept in ({not null} if null_sure else {True, False})
        }
        assert (found.present.tolist(), found.sure.tolist()) == ([present and not null], [len(outcomes) == 1])
        assert found.statements == frozenset([ABOUT, ABOUT_ROWS])
    column = linear([1.0, NAN])
    found = Presence.everywhere(2).not_null(column)
    assert (found.present.tolist(), found.sure.tolist(), found.statements) == ([True, False], [True] * 2, frozenset())


def test_a_group_is_there_if_one_of_its_rows_is() -> None:
    for cells in itertools.product(CELLS, repeat=3):
        present = Presence(*(np.array(part) for part in zip(*cells, strict=True)), frozenset([ABOUT_ROWS]))
        found = present.of_groups(np.array([1, 1, 2]), 3)
        for group, members in ((0, ()), (1, cells[:2]), (2, cells[2:])):
            worlds = itertools.product(*(({here} if sure else {True, False}) for here, sure in members))
            outcomes = {any(world) for world in worlds}
            assert found.present[group] == any(here for here, _ in members)
            assert found.sure[group] == (outcomes == {bool(found.present[group])}), (cells, group)
        assert found.statements == statements_over_rows(frozenset([ABOUT_ROWS]))
    taken = Presence(np.array([True, False]), np.array([False, True]), frozenset([ABOUT])).take(np.array([1, 1, 0]))
    assert (taken.present.tolist(), taken.sure.tolist()) == ([False, False, True], [True, True, False])
    assert taken.statements == frozenset([ABOUT])


def test_groups_are_numbered_by_their_first_row_the_present_ones_first() -> None:
    for seed in range(20):
        random = Random(f"groups {seed}")
        count = random.randrange(1, 9)
        first = [random.choice(["x", "y", None]) for _ in range(count)]
        second = [random.choice([1.0, 2.0, NAN]) for _ in range(count)]
        present = [random.random() < 0.6 for _ in range(count)]
        keys = [ExactColumn(object_array(first)), NumberColumn(*(np.array(second),) * 3)]
        codes, members = group_codes_and_rows(keys, Presence(np.array(present), np.ones(count, bool)))
        pairs = [(a, None if math.isnan(b) else b) for a, b in zip(first, second, strict=True)]
        order = sorted(range(count), key=lambda row: (not present[row], row))
        numbered = {pair: number for number, pair in enumerate(dict.fromkeys(pairs[row] for row in order))}
        assert codes.tolist() == [numbered[pair] for pair in pairs]
        assert members.tolist() == [next(row for row in order if pairs[row] == pair) for pair in numbered]
    codes, members = group_codes_and_rows([], Presence.everywhere(3))
    assert (codes.tolist(), members.tolist()) == ([0, 0, 0], [0])
    codes, members = group_codes_and_rows([], Presence.everywhere(0))
    assert (codes.tolist(), members.tolist()) == ([], [0])
