"""What every function makes of noisy columns, with ranges, NULLs and rows that may not be there, on record."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from claims.claimed_questions import Claims
from claims.recorded import Claim, check_claims
from sfumato.plan.noisy_rows import NoisyWindow, Order
from sfumato.plan.values.expressions import Call, Column, Expression, Key, Result
from sfumato.policy import Domain, Type
from sfumato.release.noisy_rows import noisy_columns
from sfumato.release.noisy_rows.noise_forms import IndependentNoises, NoiseForm
from sfumato.release.noisy_rows.noisy_columns import (
    ConfidenceStatement,
    Evaluated,
    ExactColumn,
    LinearColumn,
    NumberColumn,
    TruthColumn,
    evaluate_on,
    object_array,
)
from sfumato.release.noisy_rows.row_totals import Presence, aggregate_groups, dense_sort_ranks, group_codes_and_rows
from sfumato.release.noisy_rows.window_functions import evaluate_window
from sfumato.release.parts.scales import NoisyScale

NAN, INF = np.nan, np.inf
VALUES = np.array([0.0, 3.0, -2.5, 7.0, 7.0, NAN, 1e-160, 4.0])
WIDE = NumberColumn(VALUES, VALUES - [1, 2, 0.5, 9, 0, NAN, 0, INF], VALUES + np.array([1, 2, 3, 0, 0, NAN, 1, INF]))
EXACT = NumberColumn(np.array([1.0, 3, 2, -7, 0, 2, 5, NAN]), *([np.array([1.0, 3, 2, -7, 0, 2, 5, NAN])] * 2))
OTHER = NumberColumn(
    np.array([2.0, 3.5, -2, 0, 6, 1, NAN, 4]),
    np.array([1.0, 3, -4, -1, 5, 0, NAN, 3]),
    np.array([3.0, 4, -1, 1, 8, 2, NAN, 4.5]),
)


def _flags(digits: str) -> Any:
    return np.array([each == "1" for each in digits], bool)


YES = TruthColumn(_flags("10101001"), _flags("11111001"), _flags("11001101"))
NO = TruthColumn(_flags("00110011"), _flags("11110011"), _flags("01100110"))
WORDS = ExactColumn(object_array(["b", "a", None, "b", "c", "a", None, "d"]))
DECIDED = ExactColumn(object_array([1, None, 2, 1, 3, 3, 0, 2]), chosen_by_noise=True)
COLUMNS: dict[str, tuple[Evaluated, Type]] = {
    "wide": (WIDE, Type.REAL),
    "exact": (EXACT, Type.INTEGER),
    "other": (OTHER, Type.REAL),
    "yes": (YES, Type.BOOLEAN),
    "no": (NO, Type.BOOLEAN),
    "words": (WORDS, Type.TEXT),
    "decided": (DECIDED, Type.INTEGER),
}
PLACES = {name: Column(Result(place), Domain(kind)) for place, (name, (_, kind)) in enumerate(COLUMNS.items())}
NAMES = {each.reference: COLUMNS[name][0] for name, each in PLACES.items()}
NUMERIC, LOGICAL = ("wide", "exact", "other", "decided"), ("yes", "no")


def _claim(made: Evaluated) -> Claim:
    if isinstance(made, LinearColumn):
        made = made.ranged
    if isinstance(made, NumberColumn):
        return tuple(tuple(f"{each:.12g}" for each in part) for part in (made.value, made.low, made.high))
    if isinstance(made, TruthColumn):
        return tuple("".join(str(int(each)) for each in part) for part in (made.true, made.known, made.sure))
    return (*map(str, made.value), made.chosen_by_noise)


def _made(function: str, kind: Type, *names: str) -> Claim:
    arguments: tuple[Expression, ...] = tuple(PLACES[name] for name in names)
    expression = Call(function, arguments, Domain(kind))
    return _claim(evaluate_on(expression, NAMES, len(VALUES)))


UNARY = ("NEGATE", "ABS", "ROUND", "FLOOR", "CEIL", "TRUNC", "SQRT", "SIGN")
BINARY = ("+", "-", "*", "/", "//", "%", "LEAST", "GREATEST", "ROUND")
COMPARED = ("=", "<>", "<", "<=", ">", ">=")


@pytest.mark.parametrize("function", dict.fromkeys((*UNARY, *BINARY)))
def test_arithmetic(function: str) -> None:
    claims: Claims = {}
    if function in UNARY:
        claims |= {name: _made(function, Type.REAL, name) for name in (*NUMERIC, *LOGICAL)}
    if function in BINARY:
        pairs = product(NUMERIC, NUMERIC)
        claims |= {f"{one} {two}": _made(function, Type.REAL, one, two) for one, two in pairs}
    check_claims(f"noisy/arithmetic {_file(function)}", claims)


def _file(function: str) -> str:
    return f"{list(noisy_columns._FUNCTIONS).index(function)}"


def test_comparisons() -> None:
    claims: Claims = {}
    for function, one, two in product(COMPARED, NUMERIC, NUMERIC):
        claims[f"{one} {function} {two}"] = _made(function, Type.BOOLEAN, one, two)
    for function in COMPARED:
        claims[f"truths {function}"] = _made(function, Type.BOOLEAN, "yes", "no")
    for function in ("=", "<>"):
        claims[f"words {function}"] = _made(function, Type.BOOLEAN, "words", "words")
    for three in product(NUMERIC[:3], repeat=3):
        claims[f"BETWEEN {three}"] = _made("BETWEEN", Type.BOOLEAN, *three)
        claims[f"IN {three}"] = _made("IN", Type.BOOLEAN, *three)
    check_claims("noisy/comparisons", claims)


def test_logic() -> None:
    claims: Claims = {}
    for function, pair in product(("AND", "OR"), product((*LOGICAL, "decided"), repeat=2)):
        claims[f"{function} {pair}"] = _made(function, Type.BOOLEAN, *pair)
    claims["AND of three"] = _made("AND", Type.BOOLEAN, "yes", "no", "yes")
    for name in COLUMNS:
        claims[f"IS NULL {name}"] = _made("IS NULL", Type.BOOLEAN, name)
        for kind in (Type.INTEGER, Type.REAL, Type.BOOLEAN):
            if name != "words":
                claims[f"CAST {name} {kind.value}"] = _made("CAST", kind, name)
    for name in (*LOGICAL, "decided"):
        claims[f"NOT {name}"] = _made("NOT", Type.BOOLEAN, name)
    for test, kind, (yes, no) in product(LOGICAL, (Type.REAL, Type.TEXT), (("wide", "other"), ("exact", "decided"))):
        claims[f"CASE {test} {yes} {no} {kind.value}"] = _made("CASE", kind, test, yes, no)
        claims[f"CASE {test} {yes} {kind.value}"] = _made("CASE", kind, test, yes)
        claims[f"COALESCE {yes} {no} {kind.value}"] = _made("COALESCE", kind, yes, no)
        claims[f"NULLIF {yes} {no} {kind.value}"] = _made("NULLIF", kind, yes, no)
    claims["CASE of two tests"] = _made("CASE", Type.REAL, "yes", "wide", "no", "other", "exact")
    claims["CASE of words"] = _made("CASE", Type.TEXT, "yes", "words", "no", "decided")
    check_claims("noisy/logic", claims)


PRESENCES = {
    "all": Presence.everywhere(8),
    "some": Presence(np.array([1, 1, 0, 1, 1, 0, 1, 1], bool), np.ones(8, bool)),
    "unsure": Presence(np.array([1, 0, 1, 1, 0, 1, 1, 0], bool), np.array([1, 1, 0, 1, 0, 1, 0, 1], bool)),
    "none": Presence(np.zeros(8, bool), np.array([1, 0, 1, 0, 1, 0, 1, 1], bool)),
}
SUMMED = LinearColumn(
    np.nan_to_num(OTHER.value),
    np.nan_to_num(OTHER.value),
    NoiseForm.single_noise_form(np.arange(8)),
    IndependentNoises(((NoisyScale("0.25", sf.Laplace(2)), 8),), Fraction("0.95")),
    1,
    ConfidenceStatement.about(8),
)


def test_presence_and_groups() -> None:
    claims: Claims = {}
    for name, present in PRESENCES.items():
        for test in (YES, NO):
            kept = present.where(test)
            parts = (kept.present, kept.sure, kept.surely_present, kept.possibly_present)
            claims[f"{name} where {test is YES}"] = tuple("".join(map(str, part.astype(int))) for part in parts)
        for keys in ([], [WORDS], [WORDS, YES], [EXACT, DECIDED, NO]):
            codes, first = group_codes_and_rows(keys, present)
            groups = present.of_groups(codes, len(first))
            claims[f"{name} groups of {len(keys)}"] = (*codes.tolist(), *first.tolist(), *_bits(groups))
    check_claims("noisy/presence", claims)


def _bits(present: Presence) -> tuple[str, str]:
    return "".join(map(str, present.present.astype(int))), "".join(map(str, present.sure.astype(int)))


@pytest.mark.parametrize("function", ["COUNT", "SUM", "AVG", "MIN", "MAX"])
def test_row_totals(function: str) -> None:
    claims: Claims = {}
    columns: dict[str, Any] = {"wide": WIDE, "exact": EXACT, "other": OTHER, "summed": SUMMED, "decided": DECIDED}
    if function == "COUNT":
        columns |= {"yes": YES, "words": WORDS, "rows": None}
    for (name, column), (where, present), keys in product(columns.items(), PRESENCES.items(), ([], [WORDS], [YES])):
        codes, first = group_codes_and_rows(keys, present)
        made = aggregate_groups(function, column, present, codes, len(first))
        claims[f"{name} {where} {len(keys)} {keys == [YES]}"] = _claim(made)
    check_claims(f"noisy/total {function}", claims)


@pytest.mark.parametrize("function", ["RANK", "DENSE_RANK", "ROW_NUMBER"])
def test_ranks_in_windows(function: str) -> None:
    claims: Claims = {}
    names = {**NAMES, Key(0): WORDS, Key(1): ExactColumn(object_array([3, 1, 2, 2, None, 1, 3, 2]))}
    key = Column(Key(1), Domain(Type.INTEGER))
    orders = {
        "wide": (PLACES["wide"],),
        "summed": (Column(Result(50), Domain(Type.REAL)),),
        "key": (key,),
        "both": (key, PLACES["exact"]),
        "words": (Column(Key(0), Domain(Type.TEXT)),),
    }
    names[Result(50)] = SUMMED
    partitions: dict[str, tuple[Expression, ...]] = {"": (), "by words": (Column(Key(0), Domain(Type.TEXT)),)}
    for (order, made), descending, nulls_first in product(orders.items(), (False, True), (False, True)):
        for (by, partition), (where, present) in product(partitions.items(), PRESENCES.items()):
            listed = tuple(Order(each, descending, nulls_first) for each in made)
            over = NoisyWindow(function, None, partition, listed)
            found = evaluate_window(over, lambda each: evaluate_on(each, names, 8), present)
            claims[f"{order} {descending} {nulls_first} {by} {where}"] = _claim(found)
    check_claims(f"noisy/window {function}", claims)


def test_totals_in_windows() -> None:
    claims: Claims = {}
    for function, name, (where, present) in product(("SUM", "AVG", "MAX"), ("wide", "other"), PRESENCES.items()):
        over = NoisyWindow(function, PLACES[name], (PLACES["yes"],))
        found = evaluate_window(over, lambda each: evaluate_on(each, NAMES, 8), present)
        claims[f"{function} {name} {where}"] = _claim(found)
    check_claims("noisy/window totals", claims)


def test_orders() -> None:
    claims: Claims = {}
    for (name, (column, _)), descending, nulls_first in product(COLUMNS.items(), (False, True), (False, True)):
        claims[f"{name} {descending} {nulls_first}"] = tuple(dense_sort_ranks(column, descending, nulls_first).tolist())
    check_claims("noisy/orders", claims)
