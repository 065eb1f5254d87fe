"""Windows over a few rows beside the same windows row by row in plain Python: numbers, ranges and what they rely on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.plan.noisy_rows import Frame, NoisyWindow
from sfumato.plan.values.expressions import Column, NoisyColumn, Order
from sfumato.policy import Domain, Type
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
from sfumato.release.noisy_rows.row_totals import Presence
from sfumato.release.noisy_rows.window_functions import evaluate_window
from sfumato.release.parts.scales import NoisyScale

NAN, INFINITY = math.nan, math.inf
ABOUT, ABOUT_KEYS, ABOUT_ROWS = (ConfidenceStatement(-1 - each, 1, 20 + each) for each in range(3))
PARTITION, KEY, SECOND_KEY, ARGUMENT, DEFAULT = range(5)
REAL = Domain(Type.REAL)
Triple = tuple[float, float, float]
FRAMES = (None, Frame(None, 0), Frame(-2, 1), Frame(1, 3), Frame(-3, -1), Frame(-1, None), Frame(None, None))


@dataclass
class World:
    """Rows of a partition key, an order key and an argument, of which noise has selected some."""

    rows: int
    partition: list[str | None]
    key: list[Triple]
    argument: list[Triple]
    """A number with its range; not a number is NULL."""
    null_sure: list[bool]
    present: list[bool]
    sure: list[bool]
    columns: dict[int, Evaluated] = field(default_factory=dict)

    @property
    def presence(self) -> Presence:
        return Presence(np.array(self.present, bool), np.array(self.sure, bool), frozenset([ABOUT_ROWS]))

    def ordered(self, row: int, *, descending: bool = False) -> list[int]:
        """The present rows of a row's partition in the order of the key, then in their own."""
        sign = -1 if descending else 1
        peers = [r for r in range(self.rows) if self.partition[r] == self.partition[row] and self.present[r]]
        return sorted(peers, key=lambda r: (sign * self.key[r][0], r))

    def frame(self, row: int, frame: Frame | None) -> list[int]:
        ordered = self.ordered(row)
        if frame is None:
            return [r for r in ordered if self.key[r][0] <= self.key[row][0]]
        place = ordered.index(row)
        first = 0 if frame.start is None else max(0, place + frame.start)
        end = len(ordered) if frame.end is None else place + frame.end + 1
        return ordered[first : max(end, 0)]


def world(seed: str, *, exact_key: bool, certain: bool, rows: int = 9) -> World:
    random = Random(seed)

    def ranged(nulls: float) -> Triple:
        value = float(random.randint(-4, 6))
        below, above = random.randint(0, 3), random.randint(0, 3)
        return (NAN if random.random() < nulls else value, value - below, value + above)

    keys = [float(random.randint(0, 4)) for _ in range(rows)]
    made = World(
        rows,
        [random.choice(["a", "b", None]) for _ in range(rows)],
        [(key, key, key) if exact_key else (key, key - random.choice([0, 1]), key + random.choice([0, 2]))
         for key in keys],
        [ranged(0.25) for _ in range(rows)],
        [random.random() < 0.6 for _ in range(rows)],
        [True] * rows if certain else [random.random() < 0.75 for _ in range(rows)],
        [True] * rows if certain else [False, *(random.random() < 0.7 for _ in range(rows - 1))],
    )  # fmt: skip
    key_columns = numbers(made.key, statements=frozenset() if exact_key else frozenset([ABOUT_KEYS]))
    made.columns = {
        PARTITION: ExactColumn(object_array(made.partition)),
        KEY: key_columns,
        ARGUMENT: numbers(made.argument, made.null_sure, frozenset([ABOUT])),
    }
    return made


def numbers(cells: Sequence[Triple], null_sure: Sequence[bool] | None = None, statements: Any = frozenset()) -> Any:
    columns = [np.array(part, float) for part in zip(*cells, strict=True)]
    return NumberColumn(*columns, statements, None if null_sure is None else np.array(null_sure, bool))


def column(index: int, noises: int = 0) -> Column:
    return Column(NoisyColumn(index, noises), REAL)


def asked(function: str, *, noisy: bool = False, descending: bool = False, **options: Any) -> NoisyWindow:
    return NoisyWindow(
        function,
        partition=(column(PARTITION),),
        order=(Order(column(KEY, int(noisy)), descending, nulls_first=False),),
        **options,
    )


def found(over: NoisyWindow, made: World) -> Any:
    return evaluate_window(over, lambda expression: made.columns[expression.reference.index], made.presence)  # type: ignore[union-attr]


def assert_equal(made: Evaluated, expected: Sequence[Triple], statements: Any, nulls_sure: Any = None) -> None:
    assert isinstance(made, NumberColumn)
    cells = np.array([made.value, made.low, made.high]).T
    np.testing.assert_allclose(cells, np.array(expected, float), rtol=1e-12, atol=1e-12)
    assert made.statements == statements
    assert (None if made.nulls_sure is None else made.nulls_sure.tolist()) == nulls_sure


def total(function: str, made: World, rows: Sequence[int]) -> tuple[Triple, bool]:
    """An aggregate of rows whose argument may be NULL: of every choice of them that ranges allow."""
    here = [r for r in rows if not math.isnan(made.argument[r][0])]
    surely = [r for r in here if made.null_sure[r]]
    possibly = [r for r in rows if r in here or not made.null_sure[r]]
    is_sure = bool(surely) or not possibly
    lows, highs = ({r: made.argument[r][end] for r in possibly} for end in (1, 2))
    if function == "COUNT":
        return (len(here), len(surely), len(possibly)), True
    values = [made.argument[r][0] for r in here]
    low, high = min(lows.values(), default=INFINITY), max(highs.values(), default=-INFINITY)
    if function == "MIN":
        sure_high = min((highs[r] for r in surely), default=high)
        return (min(values, default=NAN), low, sure_high), is_sure
    if function == "MAX":
        sure_low = max((lows[r] for r in surely), default=low)
        return (max(values, default=NAN), sure_low, high), is_sure
    sums = [
        sum(lows[r] if r in surely else min(lows[r], 0) for r in possibly),
        sum(highs[r] if r in surely else max(highs[r], 0) for r in possibly),
    ]
    if function == "SUM":
        return (sum(values) if values else NAN, *sums), is_sure
    if len(surely) == len(possibly):
        return ((sum(values) / len(values), sums[0] / len(values), sums[1] / len(values)) if values
                else (NAN, NAN, NAN)), is_sure  # fmt: skip
    return (sum(values) / len(values) if values else NAN, low, high), is_sure


TOTALS = ("COUNT", "SUM", "AVG", "MIN", "MAX")


@pytest.mark.parametrize("frame", FRAMES)
def test_totals_of_frames_are_those_of_their_rows(frame: Frame | None) -> None:
    for function, seed in itertools.product(TOTALS, range(4)):
        made = world(f"{frame} {seed}", exact_key=True, certain=True, rows=9 if seed else 1)
        totals = [total(function, made, made.frame(row, frame)) for row in range(made.rows)]
        over = asked(function, argument=column(ARGUMENT), frame=frame)
        expected = [cells for cells, _ in totals]
        assert_equal(
            found(over, made), expected, statements_over_rows(frozenset([ABOUT])), [is_sure for _, is_sure in totals]
        )
        rows = [(float(len(made.frame(row, frame))),) * 3 for row in range(made.rows)]
        counted = asked("COUNT", frame=frame)
        assert_equal(found(counted, made), rows, frozenset())  # type: ignore[arg-type]


@pytest.mark.parametrize("function", TOTALS)
def test_a_window_without_an_order_is_about_its_whole_partition(function: str) -> None:
    for seed, frame in itertools.product(range(2), (None, Frame(-1, 0))):
        made = world(f"whole {seed}", exact_key=True, certain=True)
        made.key = [(0.0, 0.0, 0.0)] * made.rows
        over = NoisyWindow(function, column(ARGUMENT), partition=(column(PARTITION),), frame=frame)
        expected = [total(function, made, made.frame(row, frame))[0] for row in range(made.rows)]
        result = found(over, made)
        np.testing.assert_equal(result.value, [cells[0] for cells in expected])
        assert isinstance(result, NumberColumn)
    named = NoisyWindow("LAST_VALUE", column(ARGUMENT), partition=(column(PARTITION),))
    last = [made.frame(row, None)[-1] for row in range(made.rows)]
    expected = [made.argument[row] for row in last]
    assert_equal(found(named, made), expected, frozenset([ABOUT]), [made.null_sure[row] for row in last])


def test_rows_that_are_surely_absent_are_in_no_frame() -> None:
    made = world("absent", exact_key=True, certain=True)
    made.present = [row % 3 != 1 for row in range(made.rows)]
    made.columns[ARGUMENT] = linear([float(row) for row in range(made.rows)])
    for function, frame in itertools.product(("SUM", "AVG"), FRAMES):
        result = found(asked(function, argument=column(ARGUMENT), frame=frame), made)
        assert isinstance(result, LinearColumn)
        for row in range(made.rows):
            rows = made.frame(row, frame) if made.present[row] else []
            divisor = max(len(rows), 1) if function == "AVG" else 1
            np.testing.assert_equal(result.value[row], sum(rows) / divisor if rows else NAN)
            np.testing.assert_allclose(dense(result.form)[row], [(r in rows) / divisor for r in range(20)])


def test_other_totals_of_linear_numbers_have_their_ranges() -> None:
    made = world("linear ranges", exact_key=True, certain=True)
    argument = linear([float(row * row) for row in range(made.rows)])
    made.columns[ARGUMENT], frame = argument, Frame(-1, 1)
    made.argument = list(zip(argument.value, argument.ranged.low, argument.ranged.high, strict=True))
    made.null_sure = [True] * made.rows
    for function in ("MIN", "MAX", "COUNT"):
        expected = [total(function, made, made.frame(row, frame))[0] for row in range(made.rows)]
        assert_equal(found(asked(function, argument=column(ARGUMENT), frame=frame), made), expected,
                     statements_over_rows(argument.ranged.statements), [True] * made.rows)  # fmt: skip


def test_a_running_total_of_too_many_rows_has_the_sum_of_their_ranges() -> None:
    """4,000 rows would have more than eight million weights."""
    rows, one = 4000, np.arange(4000.0)
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(7)), rows),), Fraction("0.95"))
    argument = LinearColumn(
        one, one, NoiseForm.single_noise_form(np.arange(rows)), noises, 1, ConfidenceStatement.about(rows)
    )
    order = NumberColumn(one, one, one)
    over = NoisyWindow("SUM", column(ARGUMENT), order=(Order(column(KEY), False, False),))
    result: Any = evaluate_window(over, lambda each: {KEY: order, ARGUMENT: argument}[each.reference.index],  # type: ignore[union-attr]
                         Presence.everywhere(rows))  # fmt: skip
    assert isinstance(result, NumberColumn)
    np.testing.assert_allclose(result.low, np.cumsum(argument.ranged.low))
    np.testing.assert_allclose(result.value, np.cumsum(one))


def test_an_infinite_end_is_one_of_the_sums_that_hold_it_alone() -> None:
    made = world("infinite", exact_key=True, certain=True)
    made.partition, made.key = ["a"] * 9, [(float(r),) * 3 for r in range(9)]  # type: ignore[misc]
    made.argument = [(1.0, -INFINITY if r == 3 else 0.0, INFINITY if r == 5 else 2.0) for r in range(9)]
    made.null_sure = [True] * 9
    made.columns = {PARTITION: ExactColumn(object_array(made.partition)), KEY: numbers(made.key),
                    ARGUMENT: numbers(made.argument, made.null_sure)}  # fmt: skip
    for function, frame in itertools.product(TOTALS, (Frame(-1, 1), Frame(None, 0))):
        expected = [total(function, made, made.frame(row, frame))[0] for row in range(9)]
        assert_equal(found(asked(function, argument=column(ARGUMENT), frame=frame), made), expected,
                     frozenset(), [True] * 9)  # fmt: skip


def any_total(function: str, made: World, row: int, value: float) -> Triple:
    """An aggregate of any rows of the partition that may be there and have a value."""
    possible = [
        r
        for r in range(made.rows)
        if made.partition[r] == made.partition[row]
        and (made.present[r] or not made.sure[r])
        and (not math.isnan(made.argument[r][0]) or not made.null_sure[r])
    ]
    if function == "COUNT":
        return value, 0, len(possible)
    lows, highs = ([made.argument[r][end] for r in possible] for end in (1, 2))
    if function == "SUM":
        low, high = sum(min(each, 0) for each in lows), sum(max(each, 0) for each in highs)
    else:
        low, high = min(lows, default=INFINITY), max(highs, default=-INFINITY)
    return value, np.fmin(low, value), np.fmax(high, value)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("noisy", [True, False])
def test_frames_that_noise_decided_may_hold_any_rows(frame: Frame | None, noisy: bool) -> None:
    for function, seed in itertools.product(TOTALS, range(3)):
        made = world(f"any {frame} {seed}", exact_key=not noisy, certain=noisy)
        over = asked(function, argument=column(ARGUMENT), frame=frame, noisy=noisy)
        values = [total(function, made, made.frame(row, frame))[0][0] if made.present[row] else NAN
                  for row in range(made.rows)]  # fmt: skip
        expected = [any_total(function, made, row, value) for row, value in enumerate(values)]
        relied = frozenset([ABOUT, ABOUT_ROWS, *([ABOUT_KEYS] if noisy else [])])
        assert_equal(found(over, made), expected, statements_over_rows(relied))


def test_counted_rows_in_an_order_of_noise_may_be_all() -> None:
    made = world("counted", exact_key=False, certain=True)
    result = found(asked("COUNT", noisy=True), made)
    sizes = [float(made.partition.count(cell)) for cell in made.partition]
    assert (result.low.tolist(), result.high.tolist()) == ([0] * made.rows, sizes)


def linear(values: Sequence[float], first_noise: int = 0) -> LinearColumn:
    noises = IndependentNoises(((NoisyScale(1, sf.Laplace(7)), 20),), Fraction("0.95"))
    value = np.array(values, float)
    form = NoiseForm.single_noise_form(first_noise + np.arange(len(values)))
    return LinearColumn(value, value + 0.25, form, noises, 1, ConfidenceStatement.about(len(values)))


def dense(form: NoiseForm) -> Any:
    matrix = np.zeros((len(form), 20))
    np.add.at(matrix, (form.row_of_weight, form.noises), form.weights)
    return matrix


@pytest.mark.parametrize("frame", FRAMES)
def test_linear_totals_of_frames_add_up_the_noises_of_their_rows(frame: Frame | None) -> None:
    for function, seed in itertools.product(("SUM", "AVG"), range(3)):
        made = world(f"linear {frame} {seed}", exact_key=True, certain=True)
        values = [NAN if Random(f"{seed} {r}").random() < 0.3 else float(r * r) for r in range(made.rows)]
        made.columns[ARGUMENT] = linear(values)
        result = found(asked(function, argument=column(ARGUMENT), frame=frame), made)
        assert isinstance(result, LinearColumn)
        for row in range(made.rows):
            rows = [r for r in made.frame(row, frame) if not math.isnan(values[r])]
            divisor = len(rows) if function == "AVG" else 1
            expected = sum(values[r] for r in rows) / divisor if rows else NAN
            centre = sum(values[r] + 0.25 for r in rows) / divisor if rows else NAN
            weights = [(r in rows) / max(divisor, 1) for r in range(20)]
            np.testing.assert_allclose([result.value[row], result.centre[row]], [expected, centre], rtol=1e-12)
            np.testing.assert_allclose(dense(result.form)[row], weights, rtol=1e-12)


PICKED = (("LAG", 2), ("LAG", None), ("LEAD", 1), ("LEAD", 3), ("FIRST_VALUE", None), ("LAST_VALUE", None),
          ("NTH_VALUE", 1), ("NTH_VALUE", 3))  # fmt: skip


def picked_row(function: str, number: int | None, frame: Frame | None, made: World, row: int) -> int | None:
    offset = 1 if number is None else number
    if function in ("LAG", "LEAD"):
        rows = made.ordered(row)
        place = rows.index(row) + (offset if function == "LEAD" else -offset)
    else:
        rows = made.frame(row, frame)
        place = {"FIRST_VALUE": 0, "LAST_VALUE": len(rows) - 1, "NTH_VALUE": offset - 1}[function]
    return rows[place] if 0 <= place < len(rows) else None


@pytest.mark.parametrize(("function", "number"), PICKED)
def test_values_of_other_rows_are_theirs(function: str, number: int | None) -> None:
    for seed, (place, frame) in itertools.product(range(2), enumerate(FRAMES)):
        made = world(f"picked {place} {seed}", exact_key=True, certain=True)
        made.columns[DEFAULT] = numbers([(9.0, 8.0, 11.0)] * made.rows)
        texts = object_array([f"row {r}" for r in range(made.rows)])
        for with_default in (False, True):
            default = column(DEFAULT) if with_default else None
            over = asked(function, argument=column(ARGUMENT), number=number, frame=frame, default=default)
            rows = [picked_row(function, number, frame, made, row) for row in range(made.rows)]
            missing = (9.0, 8.0, 11.0) if with_default else (NAN, NAN, NAN)
            expected = [missing if r is None else made.argument[r] for r in rows]
            sure = [True if r is None else made.null_sure[r] for r in rows]
            assert_equal(found(over, made), expected, frozenset([ABOUT]), sure)
        keys = World(**vars(made) | {"columns": made.columns | {ARGUMENT: ExactColumn(texts)}})
        shown = found(asked(function, argument=column(ARGUMENT), number=number, frame=frame), keys)
        assert shown.value.tolist() == [None if r is None else f"row {r}" for r in rows]
        assert not shown.chosen_by_noise


def test_a_row_picked_by_noise_may_be_any_other() -> None:
    made = world("any other", exact_key=False, certain=True)
    over = asked("LAG", argument=column(ARGUMENT), noisy=True)
    made.columns[ARGUMENT] = ExactColumn(object_array(["x"] * made.rows))
    assert found(over, made).chosen_by_noise
    everywhere = np.ones(made.rows, bool)
    made.columns[ARGUMENT] = TruthColumn(everywhere, everywhere, everywhere)
    truth = found(over, made)
    assert not truth.sure.any()
    assert truth.statements == statements_over_rows(frozenset([ABOUT_KEYS, ABOUT_ROWS]))


def rank(function: str, made: World, row: int, *, descending: bool) -> int:
    """The rank of a row, present or not, among the present rows of its partition."""
    sign = -1 if descending else 1
    own = sign * made.key[row][0], row
    others = [(sign * made.key[r][0], r) for r in made.ordered(row)]
    if function == "ROW_NUMBER":
        return 1 + sum(other < own for other in others)
    lower = [other[0] for other in others if other[0] < own[0]]
    return 1 + (len(lower) if function == "RANK" else len(set(lower)))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("function", ["RANK", "DENSE_RANK", "ROW_NUMBER"])
def test_ranks_and_the_ranks_that_ranges_allow(function: str, descending: bool) -> None:
    for seed, certain in itertools.product(range(8), (True, False)):
        made = world(f"rank {seed} {certain}", exact_key=False, certain=certain)
        result = found(asked(function, noisy=True, descending=descending), made)
        expected = []
        for row in range(made.rows):
            low, high = made.key[row][1:] if not descending else (-made.key[row][2], -made.key[row][1])
            ends = {r: made.key[r][1:] if not descending else (-made.key[r][2], -made.key[r][1])
                    for r in range(made.rows) if made.partition[r] == made.partition[row]}  # fmt: skip
            surely = sum(made.present[r] and made.sure[r] and ends[r][1] < low for r in ends)
            possibly = sum((made.present[r] or not made.sure[r]) and ends[r][0] <= high for r in ends if r != row)
            least = 1 if function == "DENSE_RANK" else 1 + surely
            expected.append((float(rank(function, made, row, descending=descending)), least, 1 + possibly))
        assert_equal(result, expected, statements_over_rows(frozenset([ABOUT_ROWS, ABOUT_KEYS])))


@pytest.mark.parametrize("function", ["RANK", "DENSE_RANK", "ROW_NUMBER"])
def test_ranks_by_two_keys_are_exact_or_any(function: str) -> None:
    for seed, certain, noisy in itertools.product(range(4), (True, False), (True, False)):
        made = world(f"two {seed}", exact_key=True, certain=certain)
        second = [float(Random(f"{seed} {r}").randint(0, 1)) for r in range(made.rows)]
        made.columns[SECOND_KEY] = numbers([(each, each, each) for each in second])
        over = NoisyWindow(
            function,
            partition=(column(PARTITION),),
            order=(Order(column(KEY), False, False), Order(column(SECOND_KEY, int(noisy)), True, False)),
        )
        result = found(over, made)
        made.key = [(2 * key[0] - each,) * 3 for key, each in zip(made.key, second, strict=True)]  # type: ignore[misc]
        expected = []
        for row in range(made.rows):
            value = float(rank(function, made, row, descending=False))
            size = sum(made.present[r] or not made.sure[r]
                       for r in range(made.rows) if made.partition[r] == made.partition[row])  # fmt: skip
            expected.append((value, value, value) if all(made.sure) and not noisy else (value, 1.0, max(size, 1)))
        assert_equal(result, expected, statements_over_rows(frozenset([ABOUT_ROWS])))


@pytest.mark.parametrize("nulls_first", [True, False])
def test_keys_that_are_null_are_peers_at_one_end(nulls_first: bool) -> None:
    first, second = ["b", None, "a", "b", None, "b"], [1, None, None, None, 2, 2]
    made = world("nulls", exact_key=True, certain=True, rows=6)
    made.columns |= {KEY: ExactColumn(object_array(first)), SECOND_KEY: ExactColumn(object_array(second))}
    over = NoisyWindow("RANK", order=tuple(Order(column(key), False, nulls_first) for key in (KEY, SECOND_KEY)))
    end = -1 if nulls_first else 9
    keys = [(end if a is None else ord(a[0]) - ord("a"), end if b is None else b)
            for a, b in zip(first, second, strict=True)]  # fmt: skip
    expected = [1 + sum(other < key for other in keys) for key in keys]
    assert_equal(found(over, made), [(rank,) * 3 for rank in expected], statements_over_rows(frozenset([ABOUT_ROWS])))  # type: ignore[misc]
    single = NoisyWindow("RANK", order=(Order(column(KEY), False, nulls_first),))
    assert found(single, made).low.tolist() == [1 + sum(other[0] < key[0] for other in keys) for key in keys]


def test_ranks_by_linear_numbers_have_the_ranges_of_these() -> None:
    made = world("linear keys", exact_key=True, certain=True)
    made.columns[KEY] = linear([float(30 * row) for row in range(made.rows)])
    ranged = made.columns[KEY].ranged
    made.key = list(zip(ranged.value, ranged.low, ranged.high, strict=True))
    result = found(NoisyWindow("RANK", order=(Order(column(KEY, 1), False, False),)), made)
    lows = [1 + sum(other[2] < key[1] for other in made.key) for key in made.key]
    highs = [sum(other[1] <= key[2] for other in made.key) for key in made.key]
    assert (result.low.tolist(), result.high.tolist()) == (lows, highs)
    assert lows != highs
    assert result.statements == statements_over_rows(ranged.statements | {ABOUT_ROWS})


def test_a_rank_in_a_partition_that_may_be_empty_is_one() -> None:
    made = world("empty", exact_key=True, certain=True, rows=3)
    made.partition, made.present, made.sure = ["a", "b", "b"], [False, True, True], [True, True, False]
    made.columns[PARTITION] = ExactColumn(object_array(made.partition))
    made.columns[KEY] = ExactColumn(object_array([1, 2, 3]))
    result = found(asked("RANK"), made)
    assert (result.low.tolist(), result.high.tolist()) == ([1, 1, 1], [1, 2, 2])


def test_a_rank_by_a_number_that_may_be_null_may_be_any() -> None:
    made = world("null keys", exact_key=False, certain=True)
    made.partition = ["a"] * made.rows
    made.columns[PARTITION] = ExactColumn(object_array(made.partition))
    for index, unknown in enumerate([(NAN, NAN, NAN), (2.0, NAN, 2.0), (2.0, 2.0, NAN)]):
        cells = [*made.key[:index], unknown, *made.key[index + 1 :]]
        made.columns[KEY] = numbers(cells)
        result = found(asked("RANK", noisy=True), made)
        assert result.low.tolist() == [1] * made.rows
        assert result.high.tolist() == [made.rows] * made.rows
    made.columns[KEY] = numbers(made.key, [row != 4 for row in range(made.rows)])
    assert found(asked("RANK", noisy=True), made).high.tolist() == [made.rows] * made.rows


SHARES = (("PERCENT_RANK", None), ("CUME_DIST", None), ("NTILE", 1), ("NTILE", 2), ("NTILE", 3), ("NTILE", 7))


def share(function: str, buckets: int, made: World, row: int) -> float:
    rows = made.ordered(row)
    if function == "PERCENT_RANK":
        return 0.0 if len(rows) == 1 else sum(made.key[r][0] < made.key[row][0] for r in rows) / (len(rows) - 1)
    if function == "CUME_DIST":
        return sum(made.key[r][0] <= made.key[row][0] for r in rows) / len(rows)
    sizes = [len(rows) // buckets + (bucket < len(rows) % buckets) for bucket in range(buckets)]
    numbered = [bucket + 1 for bucket, size in enumerate(sizes) for _ in range(size)]
    return float(numbered[rows.index(row)])


@pytest.mark.parametrize(("function", "number"), SHARES)
def test_shares_are_exact_where_the_order_is(function: str, number: int | None) -> None:
    for seed in range(12):
        for exact_key, certain in itertools.product((True, False), repeat=2):
            made = world(f"share {seed}", exact_key=exact_key, certain=certain)
            if seed % 2:
                made.partition = ["a"] * made.rows
                made.columns[PARTITION] = ExactColumn(object_array(made.partition))
            values = [share(function, number or 1, made, row) if made.present[row] else NAN
                      for row in range(made.rows)]  # fmt: skip
            ends = (1.0, float(number)) if number else (0.0, 1.0)
            is_exact = exact_key and all(made.sure)
            expected = [(value, value, value) if is_exact else (value, *ends) for value in values]
            relied = [ABOUT_ROWS, *([] if exact_key else [ABOUT_KEYS])]
            assert_equal(found(asked(function, number=number), made), expected, statements_over_rows(frozenset(relied)))


def test_a_share_in_an_order_that_was_chosen_by_noise_may_be_any() -> None:
    made = world("chosen", exact_key=True, certain=True)
    made.columns[KEY] = ExactColumn(object_array([key[0] for key in made.key]))
    exact = found(asked("CUME_DIST"), made)
    assert exact.low.tolist() == exact.high.tolist() == [share("CUME_DIST", 1, made, row) for row in range(made.rows)]
    made.columns[KEY] = ExactColumn(object_array([key[0] for key in made.key]), chosen_by_noise=True)
    for function, ends in (("CUME_DIST", (0.0, 1.0)), ("PERCENT_RANK", (0.0, 1.0))):
        result = found(asked(function), made)
        assert (set(result.low.tolist()), set(result.high.tolist())) == ({ends[0]}, {ends[1]})


def test_windows_over_no_rows_have_none() -> None:
    empty = World(0, [], [], [], [], [], [])
    none = NumberColumn(np.zeros(0), np.zeros(0), np.zeros(0))
    empty.columns = {PARTITION: ExactColumn(object_array([])), KEY: none, ARGUMENT: none}
    for function in (*TOTALS, "CUME_DIST", "LAG"):
        over = asked(function, argument=column(ARGUMENT), frame=None)
        assert len(found(over, empty).value) == 0
