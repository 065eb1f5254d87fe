"""Functions of noisy numbers beside every whole number, truth and NULL that their operands' ranges allow."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.plan.values.expressions import Call, Column, Literal, NoisyColumn
from sfumato.policy import Domain, Type
from sfumato.policy.domains import LARGEST_REAL, SMALLEST_REAL
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm
from sfumato.release.noisy_rows.noisy_columns import (
    ConfidenceStatement,
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    are_nulls_certain,
    are_values_certain,
    as_linear,
    as_numbers,
    as_truths,
    confidence_statements,
    count_statements,
    evaluate_on,
    null_mask,
    object_array,
    statements_over_rows,
    with_statements,
)
from sfumato.release.parts.scales import NoisyScale

NAN, INFINITY = math.nan, math.inf
REAL, INTEGER, TEXT, BOOLEAN = (Domain(kind) for kind in (Type.REAL, Type.INTEGER, Type.TEXT, Type.BOOLEAN))
ABOUT = tuple(ConfidenceStatement(-1 - each, 1 + each, 20 + each) for each in range(3))
BOXES = tuple((low, high) for low in range(-2, 3) for high in range(low, 3))
"""Small ranges of whole numbers; values are in their middle."""


def called(
    function: str,
    *columns: Evaluated,
    domain: Domain = REAL,
    noises: int | Sequence[int] = 1,
    domains: Sequence[Domain] = (),
) -> Any:
    """A function of columns, with as many rows as they have."""
    kinds = domains or [REAL] * len(columns)
    counts = [noises] * len(columns) if isinstance(noises, int) else noises
    names = [Column(NoisyColumn(index, counts[index]), kind) for index, kind in enumerate(kinds)]
    call = Call(function, tuple(names), domain)
    given = {name.reference: column for name, column in zip(names, columns, strict=True)}
    first = columns[0]
    return evaluate_on(call, given, len(first.true if isinstance(first, TruthColumn) else first.value))  # type: ignore[arg-type]


def boxed(boxes: Sequence[tuple[float, float]], about: int = 0) -> NumberColumn:
    low, high = (np.array(ends, float) for ends in zip(*boxes, strict=True))
    return NumberColumn(np.floor((low + high) / 2), low, high, frozenset([ABOUT[about]]))


def inside(box: tuple[int, int]) -> range:
    return range(box[0], box[1] + 1)


def whole_division(a: int, b: int) -> int:
    return int(Fraction(a, b))


PAIRS = tuple(itertools.product(BOXES, BOXES))
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: Fraction(a, b) if b else None,
    "//": lambda a, b: whole_division(a, b) if b else None,
}


@pytest.mark.parametrize("function", ARITHMETIC)
def test_two_numbers_have_the_range_of_all_pairs(function: str) -> None:
    left, right = boxed([a for a, _ in PAIRS]), boxed([b for _, b in PAIRS], 1)
    found = called(function, left, right)
    for row, (a, b) in enumerate(PAIRS):
        results = [ARITHMETIC[function](x, y) for x in inside(a) for y in inside(b)]
        kept = [float(result) for result in results if result is not None]
        at_value = ARITHMETIC[function](int(left.value[row]), int(right.value[row]))
        np.testing.assert_allclose(found.value[row], NAN if at_value is None else float(at_value))
        is_unbounded = len(kept) < len(results)
        low, high = (-INFINITY, INFINITY) if is_unbounded else (min(kept), max(kept))
        assert (found.low[row], found.high[row]) == (pytest.approx(low), pytest.approx(high)), (a, b)
        if function == "/":
            assert found.nulls_sure[row] == (not is_unbounded or b[0] == b[1]), (a, b)
        if function == "//":  # of a quotient by an exact 0 it is not said
            assert found.nulls_sure[row] == (not is_unbounded), (a, b)
    assert found.statements == frozenset(ABOUT[:2])


def test_remainders_may_be_any_and_are_null_by_zero() -> None:
    left, right = boxed([a for a, _ in PAIRS]), boxed([b for _, b in PAIRS], 1)
    found = called("%", left, right)
    for row, (_, b) in enumerate(PAIRS):
        x, y = left.value[row], right.value[row]
        np.testing.assert_equal(found.value[row] + 0.0, math.fmod(x, y) + 0.0 if y else NAN)
        assert found.nulls_sure[row] == (0 not in inside(b) or b[0] == b[1])
    assert (set(found.low), set(found.high)) == ({-INFINITY}, {INFINITY})


SINGLE: dict[str, Callable[[float], float]] = {
    "NEGATE": operator.neg,
    "ABS": abs,
    "FLOOR": math.floor,
    "CEIL": math.ceil,
    "TRUNC": math.trunc,
    "SIGN": lambda x: (x > 0) - (x < 0),
    "ROUND": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
}


@pytest.mark.parametrize("function", SINGLE)
def test_one_number_has_the_range_of_its_own(function: str) -> None:
    """Ranges by quarters, so that each function rounds."""
    boxes = [(low * 0.75, high * 0.75) for low, high in BOXES]
    found, expected = called(function, boxed(boxes)), SINGLE[function]
    for row, (low, high) in enumerate(boxes):
        points = [low + step * 0.25 for step in range(int((high - low) * 4) + 1)]
        assert found.value[row] == expected(math.floor((low + high) / 2))
        assert (found.low[row], found.high[row]) == (min(map(expected, points)), max(map(expected, points)))
    assert found.statements == frozenset(ABOUT[:1])
    digits = NumberColumn(*(np.full(2, 1.0),) * 3)
    rounded = called("ROUND", boxed([(2.24, 2.25), (-2.25, -2.24)]), digits)
    assert (rounded.low.tolist(), rounded.high.tolist()) == ([2.2, -2.3], [2.3, -2.2])


def test_roots_are_null_below_zero_where_noise_may_decide() -> None:
    found = called("SQRT", boxed([(-3, -1), (-1, 5), (0, 8), (4, 9), (-2, 0)]))
    assert found.nulls_sure.tolist() == [True, False, True, True, False]
    np.testing.assert_allclose(found.value, [NAN, math.sqrt(2), 2, math.sqrt(6), NAN])
    np.testing.assert_allclose(found.low[2:4], [0, 2])
    assert found.high[1:5].tolist() == [math.sqrt(5), math.sqrt(8), 3, 0]
    assert found.low[1] <= 0


def maybe(cells: Sequence[tuple[float | None, bool, tuple[int, int]]], about: int = 0) -> NumberColumn:
    """Numbers that may be NULL: a value or None, whether that is sure, and the range of the number."""
    value = np.array([NAN if cell is None else cell for cell, _, _ in cells])
    low, high = (np.array([float(box[end]) for _, _, box in cells]) for end in (0, 1))
    return NumberColumn(value, low, high, frozenset([ABOUT[about]]), np.array([sure for _, sure, _ in cells]))


CELLS = tuple(
    (value, sure, box)
    for box in ((-1, 1), (1, 1), (0, 2))
    for sure in (True, False)
    for value in (float(box[0]), None)
    if not (value is None and sure)
)
CELL_PAIRS = tuple(itertools.product(CELLS, CELLS))


def outcomes(cell: tuple[float | None, bool, tuple[int, int]]) -> list[int | None]:
    _, sure, box = cell
    return [*inside(box), *([] if sure else [None])]


@pytest.mark.parametrize("function", ["LEAST", "GREATEST"])
def test_extremes_ignore_null_whatever_noise_decides(function: str) -> None:
    pick = min if function == "LEAST" else max
    found = called(function, maybe([a for a, _ in CELL_PAIRS]), maybe([b for _, b in CELL_PAIRS], 1))
    for row, (a, b) in enumerate(CELL_PAIRS):
        worlds = [[x for x in pair if x is not None] for pair in itertools.product(outcomes(a), outcomes(b))]
        results = [pick(world) if world else None for world in worlds]
        kept = [result for result in results if result is not None]
        values = [value for value, _, _ in (a, b) if value is not None]
        np.testing.assert_equal(found.value[row], pick(values) if values else NAN)
        assert (found.low[row], found.high[row]) == (min(kept), max(kept)), (a, b)
        assert found.nulls_sure[row] == (None not in results), (a, b)
    assert found.statements == frozenset(ABOUT[:2])
    sign = 1 if function == "LEAST" else -1
    null = maybe([(None, True, (0, 2) if sign > 0 else (-2, 0))])
    beside = called(function, null, boxed([(4, 6) if sign > 0 else (-6, -4)]))
    assert (beside.high[0] if sign > 0 else beside.low[0]) == 6 * sign  # what is surely NULL bounds nothing
    nothing = NumberColumn(*(np.array([NAN]),) * 3, nulls_sure=np.array([True]))
    assert called(function, nothing, nothing).nulls_sure.tolist() == [True]


COMPARISONS = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
               ">=": operator.ge}  # fmt: skip


@pytest.mark.parametrize("function", COMPARISONS)
def test_a_comparison_is_sure_where_all_pairs_compare_alike(function: str) -> None:
    compare = COMPARISONS[function]
    left, right = boxed([a for a, _ in PAIRS]), boxed([b for _, b in PAIRS], 1)
    found = called(function, left, right, domain=BOOLEAN)
    for row, (a, b) in enumerate(PAIRS):
        results = {compare(x, y) for x in inside(a) for y in inside(b)}
        assert found.sure[row] == (len(results) == 1), (a, b)
        assert found.true[row] == compare(left.value[row], right.value[row])
    assert found.known.all()
    assert found.statements == frozenset(ABOUT[:2])
    null = np.array([NAN, 1.0, 1.0])
    spoilt = NumberColumn(null, np.array([1.0, NAN, 1.0]), np.array([1.0, 1.0, NAN]))
    for pair in ((spoilt, boxed([(5, 5)] * 3)), (boxed([(5, 5)] * 3), spoilt)):
        made = called(function, *pair, domain=BOOLEAN)
        assert (made.sure.tolist(), made.known.tolist()) == ([False] * 3, [False, True, True])
        assert not made.true[0]


def test_keys_are_compared_as_they_are() -> None:
    left, right = ExactColumn(object_array(["a", "b", None, "c"])), ExactColumn(object_array(["b", "b", "x", None]))
    found = called("<", left, right, domain=BOOLEAN)
    assert (found.true.tolist(), found.known.tolist()) == ([True, False, False, False], [True, True, False, False])
    assert found.sure.all()
    for chosen in ((True, False), (False, True)):
        pair = [ExactColumn(column.value, by_noise) for column, by_noise in zip((left, right), chosen, strict=True)]
        assert not called("=", *pair, domain=BOOLEAN).sure.any()
    mixed = called("<", ExactColumn(object_array([1, 3])), boxed([(2, 2), (2, 2)]), domain=BOOLEAN)
    assert (mixed.true.tolist(), mixed.sure.tolist()) == ([True, False], [True, True])
    mixed = called("<", boxed([(2, 2), (2, 2)]), ExactColumn(object_array([1, 3])), domain=BOOLEAN)
    assert (mixed.true.tolist(), mixed.sure.tolist()) == ([False, True], [True, True])
    truth = TruthColumn(*(np.array(part, bool) for part in ((1, 0, 0), (1, 1, 0), (1, 0, 1))))
    equal = called("=", truth, ExactColumn(object_array([True, True, True])), domain=BOOLEAN)
    assert (equal.true.tolist(), equal.known.tolist(), equal.sure.tolist()) == (
        [True, False, False], [True, True, False], [True, False, True])  # fmt: skip


TRUTHS = tuple((value, sure) for value in (True, False, None) for sure in (True, False))


def truth_column(cells: Sequence[tuple[bool | None, bool]], about: int = 0) -> TruthColumn:
    """Of what is not known it means nothing whether it is true."""
    true = [row % 2 == 0 if value is None else value for row, (value, _) in enumerate(cells)]
    known, sure = [value is not None for value, _ in cells], [is_sure for _, is_sure in cells]
    return TruthColumn(np.array(true), np.array(known), np.array(sure), frozenset([ABOUT[about]]))


def logic(function: str, values: Sequence[bool | None]) -> bool | None:
    decisive = function == "OR"
    return decisive if decisive in values else None if None in values else not decisive


@pytest.mark.parametrize("function", ["AND", "OR"])
def test_logic_is_sure_where_all_truths_give_the_same(function: str) -> None:
    triples = tuple(itertools.product(TRUTHS, repeat=3))
    columns = [truth_column([triple[part] for triple in triples], part) for part in range(3)]
    found = called(function, *columns, domain=BOOLEAN)
    for row, triple in enumerate(triples):
        worlds = itertools.product(*([value] if sure else [True, False, None] for value, sure in triple))
        results = {logic(function, world) for world in worlds}
        expected = logic(function, [value for value, _ in triple])
        assert (bool(found.true[row]), bool(found.known[row])) == (expected is True, expected is not None)
        assert found.sure[row] == (len(results) == 1), triple
    assert found.statements == frozenset(ABOUT)
    negated = called("NOT", columns[0], domain=BOOLEAN)
    for row, ((value, sure), *_) in enumerate(triples):
        assert (bool(negated.true[row]), bool(negated.known[row])) == (value is False, value is not None)
        assert negated.sure[row] == sure


def test_between_and_in_are_comparisons() -> None:
    three = tuple(itertools.product(BOXES[::2], repeat=3))
    columns = [boxed([boxes[part] for boxes in three], part) for part in range(3)]
    between, listed = (called(function, *columns, domain=BOOLEAN) for function in ("BETWEEN", "IN"))
    at_least, at_most = (called(function, columns[0], columns[part], domain=BOOLEAN)
                         for function, part in ((">=", 1), ("<=", 2)))  # fmt: skip
    equal = [called("=", columns[0], columns[part], domain=BOOLEAN) for part in (1, 2)]
    for made, function, parts in ((between, "AND", (at_least, at_most)), (listed, "OR", equal)):
        expected = called(function, *parts, domain=BOOLEAN)
        for part in ("true", "known", "sure"):
            assert (getattr(made, part) == getattr(expected, part)).all()
        assert made.statements == frozenset(ABOUT)


def test_is_null_is_as_sure_as_it_is_stated() -> None:
    cells = [(1.0, True, (0, 2)), (1.0, False, (0, 2)), (None, False, (0, 2)), (None, True, (1, 1))]
    found = called("IS NULL", maybe(cells), domain=BOOLEAN)
    assert found.true.tolist() == [False, False, True, True]
    assert found.sure.tolist() == [True, False, False, True]
    assert found.known.all()
    unstated = called("IS NULL", boxed([(1, 1), (1, 2)]), domain=BOOLEAN)
    assert unstated.sure.tolist() == [True, False]
    decided = called("IS NULL", truth_column([(True, False), (None, True)]), domain=BOOLEAN)
    assert (decided.true.tolist(), decided.sure.tolist()) == ([False, True], [False, True])
    chosen = called("IS NULL", ExactColumn(object_array(["x", None]), chosen_by_noise=True), domain=BOOLEAN)
    assert (chosen.true.tolist(), chosen.sure.tolist()) == ([False, True], [False, False])


def test_a_case_covers_its_branches() -> None:
    """The range is that of all branches, and NULL is sure where no test or branch could change it."""
    rows = tuple(itertools.product(TRUTHS, CELLS, CELLS))
    test, yes, no = truth_column([row[0] for row in rows], 2), maybe([row[1] for row in rows]), maybe(
        [row[2] for row in rows], 1)  # fmt: skip
    for function in ("CASE", "IF"):
        found = called(function, test, yes, no)
        for row, ((truth, sure), a, b) in enumerate(rows):
            chosen = a if truth else b
            np.testing.assert_equal(found.value[row], NAN if chosen[0] is None else chosen[0])
            assert found.low[row] == min(a[2][0], b[2][0])
            assert found.high[row] == max(a[2][1], b[2][1])
            stable = chosen[1] if sure else a[1] and b[1] and (a[0] is None) == (b[0] is None)
            assert found.nulls_sure[row] == stable
        assert found.statements == frozenset(ABOUT)
    alone = called("CASE", test, yes)
    for row, ((truth, sure), a, _) in enumerate(rows):
        value = a[0] if truth else None
        np.testing.assert_equal(alone.value[row], NAN if value is None else value)
        assert (alone.low[row], alone.high[row]) == (a[2][0], a[2][1])
        assert alone.nulls_sure[row] == ((a[1] if truth else True) if sure else False)


def test_a_case_takes_the_first_test_that_is_true() -> None:
    first, second = truth_column([(True, True), (False, True), (None, True)]), truth_column([(True, True)] * 3)
    one, two, three = (ExactColumn(object_array([text] * 3)) for text in ("one", "two", "three"))
    for noises in (0, 1, 2):
        found = called("CASE", first, one, second, two, three, domain=TEXT, noises=noises)
        assert found.value.tolist() == ["one", "two", "two"]
        assert found.chosen_by_noise == bool(noises)
    assert called("CASE", first, one, second, two, domain=TEXT, noises=(0, 0, 1, 0)).chosen_by_noise
    assert called("CASE", first, one, domain=TEXT, noises=0).value.tolist() == ["one", None, None]


def test_coalesce_and_nullif_say_where_null_is_sure() -> None:
    a, b = maybe([a for a, _ in CELL_PAIRS]), maybe([b for _, b in CELL_PAIRS], 1)
    found, nulled = called("COALESCE", a, b), called("NULLIF", a, b)
    for row, (left, right) in enumerate(CELL_PAIRS):
        chosen = right if left[0] is None else left
        np.testing.assert_equal(found.value[row], NAN if chosen[0] is None else chosen[0])
        assert (found.low[row], found.high[row]) == (min(left[2][0], right[2][0]), max(left[2][1], right[2][1]))
        equal = left[0] is not None and left[0] == right[0]
        np.testing.assert_equal(nulled.value[row], NAN if equal or left[0] is None else left[0])
        assert (nulled.low[row], nulled.high[row]) == left[2]
        alike = {x == y for x in outcomes(left) for y in outcomes(right)}
        if nulled.nulls_sure[row]:  # then no world changes it
            assert len(alike) == 1
            assert left[1]
        if found.nulls_sure[row]:
            worlds = itertools.product(outcomes(left), outcomes(right))
            assert len({x is None and y is None for x, y in worlds}) == 1
    sure = [row for row, (x, y) in enumerate(CELL_PAIRS) if x[1] and y[1]]
    assert found.nulls_sure[sure].all()
    assert [bool(nulled.nulls_sure[row]) for row in sure] == [
        x[2][0] == x[2][1] == y[2][0] == y[2][1] for x, y in (CELL_PAIRS[row] for row in sure)
    ]
    third = maybe([(7.0, True, (7, 7))] * len(CELL_PAIRS), 2)
    for row, value in enumerate(called("COALESCE", a, b, third).value):
        assert value == next(cell for cell in (a.value[row], b.value[row], 7.0) if not math.isnan(cell))
    assert found.statements == nulled.statements == frozenset(ABOUT[:2])
    shown = called("NULLIF", *(ExactColumn(object_array(cells)) for cells in (["a", "b"], ["b", "b"])), domain=TEXT)
    assert shown.value.tolist() == ["a", None]


def test_casts_round_and_a_truth_that_noise_decided_may_be_either() -> None:
    boxes = boxed([(0.4, 1.6), (-2.5, 3.5)])
    whole = called("CAST", boxes, domain=INTEGER)
    assert (whole.low.tolist(), whole.high.tolist()) == ([0, -2], [2, 4])
    real = called("CAST", boxes)
    assert (real.low.tolist(), real.high.tolist()) == ([0.4, -2.5], [1.6, 3.5])
    truth = truth_column([(True, True), (False, True), (None, True)])
    for domain in (REAL, INTEGER):
        noisy, public = (called("CAST", truth, domain=domain, noises=noises) for noises in (1, 0))
        assert (noisy.low.tolist(), noisy.high.tolist()) == ([0] * 3, [1] * 3)
        np.testing.assert_equal(noisy.value, [1, 0, NAN])
        np.testing.assert_equal(public.value, [1, 0, NAN])
        assert public.low[:2].tolist() == public.high[:2].tolist() == [1, 0]
    texts = ExactColumn(object_array(["x"]))
    assert called("CAST", texts, domain=TEXT) is texts
    assert called("CAST", truth, domain=BOOLEAN) is truth


def test_numbers_beyond_the_reals_of_rows_are_null_or_zero() -> None:
    largest, smallest = float(LARGEST_REAL), float(SMALLEST_REAL)
    cells = [largest, 2 * largest, -largest, -2 * largest, smallest, smallest / 2, -smallest / 2]
    column = NumberColumn(np.array(cells), np.array(cells), np.array(cells))
    found = called("+", column, NumberColumn(*(np.zeros(7),) * 3))
    np.testing.assert_equal(found.value, [largest, NAN, -largest, NAN, smallest, 0, 0])
    np.testing.assert_equal(found.low, [largest, largest, -largest, -INFINITY, smallest, 0, 0])
    np.testing.assert_equal(found.high, [largest, INFINITY, -largest, -largest, smallest, 0, 0])


def test_a_result_is_no_surer_of_null_than_its_operands() -> None:
    cells = [(1.0, True, (0, 2)), (1.0, False, (0, 2)), (None, False, (0, 2))]
    found = called("+", maybe(cells), boxed([(1, 1)] * 3, 1))
    assert found.nulls_sure.tolist() == [True, False, False]
    compared = called("<", maybe(cells), boxed([(5, 5)] * 3, 1), domain=BOOLEAN)
    assert compared.sure.tolist() == [True, False, False]
    assert called("+", boxed([(1, 1)]), boxed([(1, 2)])).nulls_sure is None


def test_literals_are_exact() -> None:
    number = evaluate_on(Literal(2, INTEGER), {}, 3)
    assert isinstance(number, NumberColumn)
    assert number.value.tolist() == number.low.tolist() == number.high.tolist() == [2, 2, 2]
    for value in (True, False):
        truth = evaluate_on(Literal(value, BOOLEAN), {}, 2)
        assert isinstance(truth, TruthColumn)
        assert truth.true.tolist() == [value] * 2
        assert truth.known.all()
        assert truth.sure.all()
    for literal in (Literal(None, INTEGER), Literal("x", TEXT)):
        text = evaluate_on(literal, {}, 2)
        assert isinstance(text, ExactColumn)
        assert text.value.tolist() == [literal.value] * 2
        assert not text.chosen_by_noise


def test_statements_are_counted_once_each() -> None:
    first, again, other = (
        ConfidenceStatement(7, 1, 12),
        ConfidenceStatement(7, 5, 9),
        ConfidenceStatement(8, 2, 4),
    )
    assert count_statements([first, again, other], jointly=False) == 5 + 2
    assert count_statements([first, again, other], jointly=True) == 12 + 4
    assert count_statements([ConfidenceStatement(9, 0, 0)], jointly=True) == 0
    assert statements_over_rows(frozenset([first])) == {ConfidenceStatement(7, 12, 12)}
    about = ConfidenceStatement.about(5, 3)
    assert (about.per_cell, about.total) == (3, 15)
    assert ConfidenceStatement.about(5).per_cell == 1
    assert about.identity != ConfidenceStatement.about(5, 3).identity
    column = boxed([(1, 2)])
    assert with_statements(column, frozenset([ABOUT[0]])) is column
    assert as_numbers(with_statements(column, frozenset([ABOUT[1]]))).statements == frozenset(ABOUT[:2])
    exact = ExactColumn(object_array(["x"]))
    assert with_statements(exact, frozenset(ABOUT)) is exact
    assert confidence_statements(column, None, exact, boxed([(1, 2)], 1)) == frozenset(ABOUT[:2])


def linear(values: Sequence[float], first_noise: int = 0, shift: float = 0.25) -> LinearColumn:
    value = np.array(values, float)
    form = NoiseForm.single_noise_form(first_noise + np.arange(len(values)))
    return LinearColumn(value, value + shift, form, NOISES, 1, ConfidenceStatement.about(len(values)))


NOISES = IndependentNoises(((NoisyScale(1, sf.Laplace(7)), 12),), Fraction("0.95"))


def dense(form: NoiseForm) -> Any:
    matrix = np.zeros((len(form), 12))
    np.add.at(matrix, (form.row_of_weight, form.noises), form.weights)
    return matrix


def assert_linear(found: Evaluated, value: Sequence[float], centre: Sequence[float], matrix: Any) -> None:
    assert isinstance(found, LinearColumn)
    np.testing.assert_allclose([found.value, found.centre], [value, centre], rtol=1e-12)
    np.testing.assert_allclose(dense(found.form), matrix, rtol=1e-12)


def rows_of(*weights: dict[int, float]) -> Any:
    return np.array([[row.get(noise, 0.0) for noise in range(12)] for row in weights])


def test_linear_functions_keep_the_noise_of_their_numbers() -> None:
    n, s = linear([4.0, NAN]), linear([10.0, 6.0], 2, -0.5)
    exact = NumberColumn(*(np.array([2.0, -3.0]),) * 3)
    assert_linear(called("+", n, s), [14, NAN], [13.75, NAN], rows_of({0: 1, 2: 1}, {1: 1, 3: 1}))
    assert_linear(called("-", n, s), [-6, NAN], [-5.25, NAN], rows_of({0: 1, 2: -1}, {1: 1, 3: -1}))
    assert_linear(called("-", s, s), [0, 0], [0, 0], rows_of({}, {}))
    assert_linear(called("-", exact, s), [-8, -9], [-7.5, -8.5], rows_of({2: -1}, {3: -1}))
    assert_linear(called("*", s, exact), [20, -18], [19, -16.5], rows_of({2: 2}, {3: -3}))
    assert_linear(called("*", exact, s), [20, -18], [19, -16.5], rows_of({2: 2}, {3: -3}))
    assert_linear(called("/", s, exact), [5, -2], [4.75, -5.5 / 3], rows_of({2: 0.5}, {3: -1 / 3}))
    by_zero = NumberColumn(*(np.array([2.0, 0.0]),) * 3)
    assert_linear(called("/", s, by_zero), [5, NAN], [4.75, NAN], rows_of({2: 0.5}, {}))
    assert_linear(called("NEGATE", s), [-10, -6], [-9.5, -5.5], rows_of({2: -1}, {3: -1}))
    assert called("CAST", s) is s
    assert called("CAST", s, domain=INTEGER, domains=[INTEGER]) is s
    apart = called("<", linear([0.0]), linear([1000.0], 1), domain=BOOLEAN)
    assert (apart.true.tolist(), apart.sure.tolist()) == ([True], [True])
    for nonlinear in (called("*", n, s), called("/", n, s), called("/", exact, s), called("CAST", s, domain=INTEGER)):
        assert isinstance(nonlinear, NumberColumn)
    ranged = boxed([(1, 2), (1, 2)])
    spread = called("ABS", s)
    assert (spread.low.tolist(), spread.high.tolist()) == (
        np.maximum(np.maximum(s.ranged.low, -s.ranged.high), 0).tolist(),
        np.maximum(-s.ranged.low, s.ranged.high).tolist(),
    )
    assert isinstance(called("/", ranged, as_linear(exact, s)), NumberColumn)  # type: ignore[arg-type]
    for function, pair in itertools.product("+-*/", ((s, ranged), (ranged, s))):
        assert isinstance(called(function, *pair), NumberColumn)


def test_linear_cases_have_the_noise_of_the_branch_of_each_row() -> None:
    n, s = linear([4.0, NAN, 1.0]), linear([10.0, 6.0, 7.0], 3, -0.5)
    first, second = (truth_column([(cell, True) for cell in cells])
                     for cells in ((True, False, None), (True, True, False)))  # fmt: skip
    assert_linear(called("CASE", first, n, s), [4, 6, 7], [4.25, 5.5, 6.5], rows_of({0: 1}, {4: 1}, {5: 1}))
    assert_linear(called("CASE", first, n, second, s), [4, 6, NAN], [4.25, 5.5, NAN], rows_of({0: 1}, {4: 1}, {}))
    assert_linear(called("IF", second, s, n), [10, 6, 1], [9.5, 5.5, 1.25], rows_of({3: 1}, {4: 1}, {2: 1}))
    numbered = NumberColumn(*(np.array([1.0, 2.0, 3.0]),) * 3)
    assert_linear(called("CASE", first, s, second, n, numbered), [10, NAN, 3], [9.5, NAN, 3],
                  rows_of({3: 1}, {1: 1}, {}))  # fmt: skip
    repeated = linear([1.0] * 5).take(np.arange(3))
    assert called("CASE", first, repeated, s).statement.total == 5
    unsure = truth_column([(True, True), (True, False), (True, True)])
    for nonlinear in (
        called("CASE", unsure, n, s),
        called("CASE", first, n, unsure, s),
        called("CASE", first, n, boxed([(1, 2)] * 3)),
    ):
        assert isinstance(nonlinear, NumberColumn)
    tests = [truth_column([(row == place, True) for row in range(3)]) for place in range(3)]
    many = called("CASE", tests[0], n, tests[1], s, tests[2], linear([7.0, 8.0, 9.0], 6), numbered)
    assert_linear(many, [4, 6, 9], [4.25, 5.5, 9.25], rows_of({0: 1}, {4: 1}, {8: 1}))
    open_ended = called("CASE", tests[1], n, tests[0], s, tests[2], linear([7.0, 8.0, 9.0], 6))
    assert_linear(open_ended, [10, NAN, 9], [9.5, NAN, 9.25], rows_of({3: 1}, {1: 1}, {8: 1}))
    assert_linear(called("COALESCE", n, s), [4, 6, 1], [4.25, 5.5, 1.25], rows_of({0: 1}, {4: 1}, {2: 1}))
    nothing = ExactColumn(object_array([None, None, Fraction(1, 2)]))
    assert_linear(called("COALESCE", nothing, n, s), [4, 6, 0.5], [4.25, 5.5, 0.5], rows_of({0: 1}, {4: 1}, {}))
    assert_linear(called("COALESCE", n, nothing), [4, NAN, 1], [4.25, NAN, 1.25], rows_of({0: 1}, {}, {2: 1}))


def test_what_is_linear_has_a_number_without_noise() -> None:
    like = linear([1.0, 2.0])
    assert as_linear(like, linear([3.0, 4.0])) is like
    for column, value in (
        (ExactColumn(object_array([1, None])), [1, NAN]),
        (ExactColumn(object_array([0.5, Fraction(1, 4)])), [0.5, 0.25]),
        (NumberColumn(*(np.array([1.0, NAN]),) * 3), [1, NAN]),
    ):
        made = as_linear(column, like)
        assert made is not None
        assert_linear(made, value, value, rows_of({}, {}))
    for column in (
        ExactColumn(object_array(["x", 1])),
        ExactColumn(object_array([True, 1])),
        ExactColumn(object_array([1, None]), chosen_by_noise=True),
        ExactColumn(object_array([1, 2]), chosen_by_noise=True),
        truth_column([(True, True)] * 2),
        boxed([(1, 1), (1, 2)]),
    ):
        assert as_linear(column, like) is None


def test_linear_numbers_beyond_the_reals_of_rows_are_null_or_zero() -> None:
    largest, smallest = float(LARGEST_REAL), float(SMALLEST_REAL)
    one = NumberColumn(*(np.ones(1),) * 3)
    assert isinstance(called("*", linear([largest]), one), LinearColumn)
    for beyond in (linear([2 * largest]), linear([-2 * largest]), linear([INFINITY])):
        assert isinstance(called("*", beyond, one), NumberColumn)
    assert called("*", linear([smallest]), one).value[0] == smallest
    assert called("*", linear([smallest / 2]), one).value[0] == 0


def test_ranges_of_linear_numbers_reach_what_was_rounded_out_of_them() -> None:
    width = NOISES.widths(NoiseForm.single_noise_form(np.arange(1)), 1)[0]
    for shift in (0.25, -0.5, 3 * width, -3 * width):
        ranged = linear([4.0], shift=shift).ranged
        assert ranged.low[0] == min(4.0, 4 + shift - width)
        assert ranged.high[0] == max(4.0, 4 + shift + width)
        assert ranged.nulls_sure is not None
        assert ranged.nulls_sure.all()
    column = linear([4.0, 5.0])
    assert column.ranged.statements == {column.statement}
    exact = as_linear(ExactColumn(object_array([1])), column)
    assert exact is not None
    assert exact.ranged.statements == frozenset()
    derived = column.take(np.array([1, -1, 0]))
    assert_linear(derived, [5, NAN, 4], [5.25, NAN, 4.25], rows_of({1: 1}, {}, {0: 1}))
    assert (derived.statement.per_cell, derived.statement.total) == (1, 3)
    assert column.take(np.array([1])).statement.total == 2
    assert derived.statement.identity != column.statement.identity


def test_what_is_sure_and_what_is_null() -> None:
    column = linear([4.0, NAN])
    assert are_nulls_certain(column).tolist() == [True, True]
    assert are_values_certain(column).tolist() == [False, False]
    assert null_mask(column).tolist() == [False, True]
    unstated = NumberColumn(
        np.array([1.0, NAN, NAN, NAN]), np.array([0.0, 1.0, 0.0, NAN]), np.array([2.0, 1.0, 2.0, NAN])
    )
    assert are_nulls_certain(unstated).tolist() == [True, True, False, True]
    truth = truth_column([(True, False), (None, True), (None, False)])
    assert are_nulls_certain(truth).tolist() == [True, True, False]
    assert null_mask(truth).tolist() == [False, True, True]
    texts = object_array(["x", None])
    assert are_nulls_certain(ExactColumn(texts)).tolist() == [True, True]
    assert are_nulls_certain(ExactColumn(texts, chosen_by_noise=True)).tolist() == [True, False]
    assert are_nulls_certain(ExactColumn(texts, nulls_sure=np.array([False, True]))).tolist() == [False, True]


def test_other_columns_as_numbers_and_as_truths() -> None:
    truth = truth_column([(True, True), (False, True), (None, True)])
    np.testing.assert_equal([as_numbers(truth).value, as_numbers(truth).low, as_numbers(truth).high], [[1, 0, NAN]] * 3)
    exact = as_numbers(ExactColumn(object_array([2, None, Fraction(1, 2)])))
    np.testing.assert_equal([exact.value, exact.low, exact.high], [[2, NAN, 0.5]] * 3)
    sure = np.array([True, False])
    chosen = as_numbers(ExactColumn(object_array([2, None]), chosen_by_noise=True, nulls_sure=sure))
    np.testing.assert_equal(chosen.value, [2, NAN])
    assert (chosen.low.tolist(), chosen.high.tolist()) == ([-INFINITY] * 2, [INFINITY] * 2)
    assert chosen.nulls_sure is sure
    made = as_truths(ExactColumn(object_array([True, False, None])))
    unknown = as_truths(ExactColumn(np.array([None, None], object)))
    assert not unknown.true.any()
    assert (made.true.tolist(), made.known.tolist()) == ([True, False, False], [True, True, False])
    assert made.sure.all()
    assert as_truths(truth) is truth


@pytest.mark.parametrize("function", ["/", "%"])
@pytest.mark.parametrize(("low", "high"), [(-1, 0), (0, 1), (-1, 1), (0, 0), (-2, -1), (1, 2)])
def test_a_divisor_that_may_be_zero_leaves_no_range_and_no_certainty(function: str, low: int, high: int) -> None:
    """Also where 0 is an end of its range; it is certainly 0, or certainly another number, where it has one value."""
    left = NumberColumn(np.array([6.0]), np.array([5.0]), np.array([7.0]))
    right = NumberColumn(np.array([(low + high) / 2]), np.array([float(low)]), np.array([float(high)]))
    found = as_numbers(called(function, left, right))
    may_be_zero = low <= 0 <= high
    if may_be_zero:
        assert (found.low[0], found.high[0]) == (-INFINITY, INFINITY)
    elif function == "/":
        ends = [a / b for a in (5, 7) for b in (low, high)]
        assert (found.low[0], found.high[0]) == (min(ends), max(ends))
    assert found.nulls_sure is not None
    assert bool(np.all(found.nulls_sure)) is (not may_be_zero or low == high)
