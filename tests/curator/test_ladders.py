"""Ladders: public steps that follow from a type, and the range that noisy counts of them show."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import sfumato as sf
from sfumato.curator.step_counts import (
    Ladder,
    counting_ladder,
    filled_threshold,
    heavy_run_threshold,
    ladder_for_domain,
    selection_threshold,
    span_with_values,
    trim_span,
)
from sfumato.policy import Domain

NOISE = sf.Laplace(10)
KINDS = ("integer", "real", "date", "timestamp")


def step(made: Ladder, value: object) -> int:
    """The step of a value, reckoned here: the cuts that it is beyond."""
    return sum(value > cut if below else value >= cut for cut, below in made.cuts)  # type: ignore[operator]


@pytest.mark.parametrize("kind", KINDS)
def test_the_cuts_rise_and_every_step_holds_its_ends(kind: str) -> None:
    made = ladder_for_domain(Domain(kind))
    assert 100 < len(made) < 400
    ordered = [(cut, below) for cut, below in made.cuts]
    assert ordered == sorted(ordered)
    assert len(set(ordered)) == len(ordered)
    for place in range(len(made)):
        low, high = made.bounds_of((place, place))
        assert low <= high  # type: ignore[operator]
        assert place in (step(made, low), step(made, low) + 1)
        assert place in (step(made, high), step(made, high) - 1)
    ends = [made.bounds_of((place, place)) for place in range(len(made))]
    assert all(first[1] <= second[1] and first[0] <= second[0] for first, second in pairwise(ends))  # type: ignore[operator]


def test_a_value_on_a_round_number_needs_no_larger_one() -> None:
    made = ladder_for_domain(Domain("real"))
    for value in (Fraction(500), Fraction("0.2"), Fraction(-500), Fraction(0)):
        place = step(made, value)
        low, high = made.bounds_of((place, place))
        assert abs(value) == max(abs(low), abs(high))  # type: ignore[arg-type]
    assert made.bounds_of((step(made, Fraction(0)),) * 2) == (0, 0)
    assert made.bounds_of((step(made, Fraction(3)),) * 2) == (2, 5)
    assert made.bounds_of((step(made, Fraction(-3)),) * 2) == (-5, -2)


def test_dates_end_with_the_last_day_of_a_year() -> None:
    made = ladder_for_domain(Domain("date"))
    place = step(made, dt.date(2023, 6, 1))
    assert made.bounds_of((place, place)) == (dt.date(2023, 1, 1), dt.date(2023, 12, 31))
    assert made.bounds_of((0, 0))[0] == dt.date(1, 1, 1)
    assert made.bounds_of((len(made) - 1,) * 2)[1] == dt.date(9999, 12, 31)


def test_declared_bounds_end_the_ladder() -> None:
    made = ladder_for_domain(Domain("integer", bounds=(0, 700)))
    assert made.bounds_of((0, len(made) - 1)) == (0, 700)
    assert [made.bounds_of((place, place)) for place in (0, 1, 2, len(made) - 1)] == [
        (0, 0),
        (0, 1),
        (1, 2),
        (500, 700),
    ]
    assert len(ladder_for_domain(Domain("real", bounds=(3, 4)))) == 1


def test_limits_are_every_small_number_and_round_ones() -> None:
    made = counting_ladder(1_000_000)
    limits = [made.bounds_of((place, place))[1] for place in range(len(made))]
    assert limits[:14] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 50]
    assert limits[-1] == 1_000_000


def counts(size: int = 100, **held: int) -> np.ndarray:
    made = np.zeros(size, np.int64)
    for name, count in held.items():
        made[int(name[1:])] = count
    return made


def test_filled_steps_are_spanned_and_small_ones_beside_them_taken() -> None:
    high = filled_threshold(NOISE, 100) + 1
    assert span_with_values(counts(), NOISE) is None
    assert span_with_values(counts(_30=high), NOISE) == (30, 30)
    assert span_with_values(counts(_30=high, _70=high), NOISE) == (30, 70)
    assert span_with_values(counts(_30=high, _31=50, _29=31), NOISE) == (29, 31)
    assert span_with_values(counts(_30=high, _31=29, _29=30), NOISE) == (
        30,
        30,
    )  # no more than the toll of three scales
    assert span_with_values(counts(_30=high, _31=29, _32=40), NOISE) == (30, 32)
    assert span_with_values(counts(_0=high, _99=high), NOISE) == (0, 99)


def test_many_small_steps_together_are_seen_and_few_are_not() -> None:
    spread = {f"_{place}": 60 for place in range(40, 46)}
    assert span_with_values(counts(**spread), NOISE) == (40, 45)
    assert span_with_values(counts(_40=60, _41=60), NOISE) is None
    assert math.isclose(heavy_run_threshold(NOISE, 100), 10 * math.log(100 / 0.005) / 0.95)


def test_a_heavy_run_is_found_beyond_a_gap_on_either_side() -> None:
    high, spread = filled_threshold(NOISE, 100) + 1, {f"_{place}": 60 for place in range(40, 46)}
    assert span_with_values(counts(**spread, _10=high), NOISE) == (10, 45)
    assert span_with_values(counts(**spread, _90=high), NOISE) == (40, 90)
    assert span_with_values(counts(**spread, **{f"_{place}": 70 for place in range(80, 84)}), NOISE) == (40, 83)


def test_what_need_not_be_covered_is_left_out_at_either_end() -> None:
    made = counts(_10=3, _11=400, _12=590, _13=4, _14=3)
    assert trim_span(made, (10, 14), Fraction("0.005"), Fraction("0.005")) == (11, 13)
    assert trim_span(made, (10, 14), Fraction("0.01"), Fraction("0.01")) == (11, 12)
    assert trim_span(made, (10, 14), Fraction(0), Fraction("0.4")) == (10, 12)
    assert trim_span(made, (10, 14), Fraction("0.005"), Fraction(0)) == (11, 14)
    assert trim_span(counts(_10=5), (10, 10), Fraction("0.5"), Fraction("0.5")) == (10, 10)


def test_empty_steps_hardly_ever_seem_filled() -> None:
    """At most 1 % by the claim; of 3,000 empty ladders, more than 70 would have a probability below 1e-6."""
    drawn = NOISE.apply(np.zeros((3000, 185), np.int64))
    assert sum(span_with_values(each, NOISE) is not None for each in drawn) <= 70


def test_a_step_that_holds_enough_is_inside() -> None:
    """Both ends at once with 95 %: of 2,000, more than 160 misses would have a probability below 1e-6."""
    enough = selection_threshold(NOISE, 185, "0.95")
    exact = counts(185, _50=enough, _90=enough)
    drawn = (span_with_values(each, NOISE) for each in NOISE.apply(np.tile(exact, (2000, 1))))
    assert sum(span is None or span[0] > 50 or span[1] < 90 for span in drawn) <= 160
