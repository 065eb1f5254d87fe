from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sfumato as sf
from privacy.families import distributions
from sfumato.privacy.divergences import hockey_stick, kl, max_divergence, renyi

P = [0.5, 0.3, 0.2, 0]
Q = [0.25, 0.25, 0.5, 0]


def test_plain_values() -> None:
    assert kl(P, Q) == pytest.approx(0.5 * math.log(2) + 0.3 * math.log(1.2) + 0.2 * math.log(0.4), rel=1e-14)
    assert max_divergence(P, Q) == pytest.approx(math.log(2), rel=1e-15)
    assert renyi(P, Q, 2) == pytest.approx(math.log(1 + 0.36 + 0.08), rel=1e-14)
    assert renyi(P, Q, 0.5) == pytest.approx(
        -2 * math.log(math.sqrt(0.125) + math.sqrt(0.075) + math.sqrt(0.1)), rel=1e-14
    )
    assert renyi(P, Q, math.inf) == max_divergence(P, Q)
    assert hockey_stick(P, Q, 0) == pytest.approx(0.3)


def test_arrays_dicts_and_fractions_agree() -> None:
    as_dict = {"a": Fraction(1, 2), "b": Fraction(3, 10), "c": Fraction(1, 5)}, {"c": 0.5, "a": 0.25, "b": "0.25"}
    for order in (0.5, 1, 2, 7, math.inf):
        assert renyi(np.array(P), np.array(Q), order) == renyi(*as_dict, order) == renyi(P, Q, order)  # type: ignore[arg-type]


def test_an_outcome_possible_under_p_alone() -> None:
    p, q = [0.9, 0.1, 0.0], [0.9, 0.0, 0.1]
    assert kl(p, q) == renyi(p, q, 3) == max_divergence(p, q) == math.inf
    assert hockey_stick(p, q, 5) == pytest.approx(0.1, rel=1e-15)
    assert renyi([1, 0], [0, 1], 0.5) == math.inf


@settings(max_examples=30)
@given(distributions(4), distributions(4))
def test_renyi_rises_with_the_order(p: list[Fraction], q: list[Fraction]) -> None:
    values = [renyi(p, q, order) for order in (0.3, 0.9, 1, 1.1, 2, 10, 100, math.inf)]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(values))


@settings(max_examples=30)
@given(distributions(4), distributions(4), st.lists(distributions(3), min_size=4, max_size=4), st.floats(0, 2))
def test_post_processing_never_raises_a_divergence(
    p: list[Fraction], q: list[Fraction], channel: list[list[Fraction]], epsilon: float
) -> None:
    def sent(d: list[Fraction]) -> list[Fraction]:
        return [sum(d[i] * channel[i][j] for i in range(4)) for j in range(3)]

    for order in (0.5, 1, 2, 17, math.inf):
        assert renyi(sent(p), sent(q), order) <= renyi(p, q, order) + 1e-12
    assert hockey_stick(sent(p), sent(q), epsilon) <= hockey_stick(p, q, epsilon) + 1e-12


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([], []),
        ([0.5, 0.4], [0.5, 0.5]),
        ([0.5, 0.5], [1.0]),
        ([-0.5, 1.5], [0.5, 0.5]),
        ([math.nan, 1], [0.5, 0.5]),
        ("ab", [0.5, 0.5]),
        (None, [0.5, 0.5]),
        ([[0.5], [0.5]], [0.5, 0.5]),
        ({"a": 1}, [1]),
    ],
    ids=str,
)
def test_hostile_distributions(p: object, q: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        kl(p, q)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [0, -1, math.nan, "x", None])
def test_hostile_orders(order: object) -> None:
    with pytest.raises(sf.InvalidParameter, match="order"):
        renyi(P, Q, order)  # type: ignore[arg-type]
