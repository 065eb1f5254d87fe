from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, strategies as st

import sfumato as sf


def test_norms_of_a_count_with_limits() -> None:
    """m rows, g groups, c rows per group: theory's table for counts."""
    m, g, c = 10, 4, 3
    change = sf.Sensitivity(groups=g, per_group=c, total=m)
    assert (change.l0, change.linf, change.l1) == (4, 3, 10)
    assert change.squares == 3 * 3**2 + 1 <= c * min(m, g * c)
    assert change.l2 == pytest.approx(math.sqrt(28))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 9), st.booleans())
def test_norms_are_the_largest_over_all_whole_changes(g: int, c: int, total: int, cut: bool) -> None:
    change = sf.Sensitivity(groups=g, per_group=c, total=total if cut else None)
    vectors = [v for v in itertools.product(range(c + 1), repeat=g) if not cut or sum(v) <= total]
    assert change.l1 == max(sum(v) for v in vectors)
    assert change.squares == max(sum(x * x for x in v) for v in vectors)
    assert change.linf == max(max(v) for v in vectors)
    assert Fraction(change.l2) ** 2 >= change.squares


@pytest.mark.parametrize(
    ("limits", "norms"),
    [
        ({"groups": 4, "per_group": 3, "squares": 4}, (2, 4, 4)),
        ({"groups": 4, "per_group": 1, "squares": 4}, (1, 4, 4)),
        ({"groups": 1, "per_group": "0.5", "squares": "0.3"}, (Fraction(1, 2), Fraction(1, 2), Fraction(1, 4))),
        ({"groups": 9, "per_group": 2, "squares": 1}, (1, 3, 1)),
        ({"groups": 5, "per_group": 2, "squares": 5}, (2, 5, 5)),
        ({"groups": 1, "per_group": "1/3", "squares": "1/9"}, (Fraction(1, 3), Fraction(1, 3), Fraction(1, 9))),
        ({"groups": 9, "per_group": 2, "total": 2, "squares": 100}, (2, 2, 4)),
    ],
)
def test_a_bound_of_squares_bounds_the_other_norms(limits: dict[str, Any], norms: tuple[Fraction, ...]) -> None:
    """‖·‖∞ ≤ ‖·‖₂ and ‖·‖₁ ≤ √g·‖·‖₂: both only where they are less than what was declared."""
    change = sf.Sensitivity(**limits)
    assert (change.linf, change.l1, change.squares) == norms


@given(st.integers(1, 2), st.integers(1, 2), st.integers(0, 4))
def test_replacing_is_the_difference_of_two_contributions(g: int, c: int, total: int) -> None:
    change = sf.Sensitivity(groups=g, per_group=c, total=total)
    for signed in (False, True):
        values = range(-c if signed else 0, c + 1)
        one = [v for v in itertools.product(values, repeat=4) if sum(map(bool, v)) <= g and sum(map(abs, v)) <= total]
        gaps = [[a - b for a, b in zip(v, w, strict=True)] for v in one for w in one]
        replaced = change.for_neighbours("replace", signed=signed)
        assert replaced.l1 >= max(sum(map(abs, d)) for d in gaps)
        assert replaced.squares >= max(sum(x * x for x in d) for d in gaps)
        assert replaced.linf >= max(max(map(abs, d)) for d in gaps)
        assert replaced.l0 >= max(sum(map(bool, d)) for d in gaps)


def test_a_replace_sensitivity_says_nothing_about_adding() -> None:
    replaced = sf.Sensitivity(neighbours="replace")
    with pytest.raises(sf.NeighboursDiffer):
        replaced.for_neighbours("add-remove")
    assert replaced.for_neighbours("replace") is replaced


@pytest.mark.parametrize(
    "wrong",
    [{"groups": 0}, {"groups": 1.5}, {"per_group": -1}, {"total": math.nan}, {"squares": "x"}, {"neighbours": "all"}],
    ids=str,
)
def test_hostile_parameters(wrong: dict[str, object]) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.Sensitivity(**wrong)  # type: ignore[arg-type]
