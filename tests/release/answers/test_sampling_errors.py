"""Sampling errors are not below the spread of all samples there are, and are refused where no share is known."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.release.answers.answer_columns import parse_sampled_fraction

ROWS = (0, 1, 3, 3, 2, 0, 1, 3)
"""How many rows each of eight units has in a group; three at most count."""


def spread(outcomes: list[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
    """Mean and variance of values with their chances."""
    mean = sum((chance * value for chance, value in outcomes), Fraction(0))
    return mean, sum((chance * (value - mean) ** 2 for chance, value in outcomes), Fraction(0))


@pytest.mark.parametrize("share", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_counts_of_units_drawn_one_by_one_spread_no_more_than_is_said(share: Fraction) -> None:
    outcomes = []
    for drawn in product((0, 1), repeat=len(ROWS)):
        chance = math.prod(share if each else 1 - share for each in drawn)
        outcomes.append((Fraction(chance), Fraction(sum(each * rows for each, rows in zip(drawn, ROWS, strict=True)))))
    mean, variance = spread(outcomes)
    assert variance <= (1 - share) * max(ROWS) * mean
    assert variance > (1 - share) * mean  # without the rows of one unit it would be too small


@pytest.mark.parametrize("size", [1, 4, 7])
def test_counts_of_a_fixed_number_of_units_spread_no_more_than_is_said(size: int) -> None:
    every = list(combinations(ROWS, size))
    mean, variance = spread([(Fraction(1, len(every)), Fraction(sum(each))) for each in every])
    share = Fraction(size, len(ROWS))
    assert variance <= (1 - share) * max(ROWS) * mean * Fraction(len(ROWS), len(ROWS) - 1)


def test_a_share_or_a_population_says_what_was_drawn() -> None:
    assert parse_sampled_fraction("0.1", None) == Fraction(1, 10)
    assert parse_sampled_fraction(1000, 250) == Fraction(1, 4)
    assert parse_sampled_fraction(250, 250) == 1
    for given, size in ((1000, None), (100, 250), (0, 250), (-1, None)):
        with pytest.raises(sf.InvalidParameter, match="sample_of"):
            parse_sampled_fraction(given, size)


@pytest.fixture(scope="module")
def answer() -> sf.Answer:
    with sf.open(sf.example()) as flights:
        ask = flights.sql(
            "SELECT origin, COUNT(*) AS n, COUNT(delay) AS m, AVG(delay) AS late FROM flights GROUP BY origin"
        )
        spent = flights.budget.spent
        with pytest.raises(sf.InvalidParameter, match="a share below 1"):
            ask.release(epsilon=1, sample_of=10**6)
        assert flights.budget.spent == spent  # refused before the charge
        return ask.release(epsilon=1, sample_of="0.1")  # type: ignore[return-value]


def test_half_widths_are_those_of_the_theorem(answer: sf.Answer) -> None:
    assert answer.sampling is not None
    assert set(answer.sampling) == {"n", "m", "late"}
    rows, sure = 100, 1.959963984540054  # rows of one plane; the normal quantile of 95 %
    for interval, half in zip(answer.intervals["n"], answer.sampling["n"], strict=True):
        assert interval is not None
        assert half == pytest.approx(sure * math.sqrt(0.9 * rows * interval[1]))
    low, high = answer.possible["late"]
    for row, half in enumerate(answer.sampling["late"]):
        counted, mean = answer.intervals["m"][row], answer.intervals["late"][row]
        assert counted is not None
        assert mean is not None
        near = min(max((low + high) / 2, mean[0]), mean[1])
        assert half == pytest.approx(sure * math.sqrt(0.9 * rows * (high - near) * (near - low) / counted[0]))


def test_sampling_is_shown_beside_noise(answer: sf.Answer, tmp_path: Path) -> None:
    assert "(sampling ± " in repr(answer)
    assert "sampling: about how far another sample" in repr(answer)
    assert "sampling error" in answer.plot().svg
    assert list(answer.to_pandas()) == [
        *answer.columns,
        *(f"{name}_{end}" for name in ("n", "m", "late") for end in ("low", "high")),
        "n_sampling",
        "m_sampling",
        "late_sampling",
    ]
    assert answer.to_csv().splitlines()[0].endswith("n_sampling,m_sampling,late_sampling")
    assert sf.Answer.from_json(answer.to_json()) == answer
    answer.plot(str(tmp_path / "sampled.svg"))
    assert (tmp_path / "sampled.svg").read_text() == answer.plot().svg


def test_numbers_that_are_too_noisy_are_marked(answer: sf.Answer) -> None:
    plain = answer.cells()
    assert not any(cell.endswith("*") for row in plain for cell in row)
    flagged = answer.flagged("1e-9")
    assert all(cell.endswith(" *") for row in flagged.cells() for cell in row[1:])
    assert "* too noisy to rely on: ± is more than" in repr(flagged)
    unmarked = answer.flagged(10**6)
    assert not any(cell.endswith("*") for row in unmarked.cells() for cell in row)
    assert "too noisy to rely on" not in repr(unmarked)
    assert sf.Answer.from_json(flagged.to_json()) == flagged
    for wrong in (0, -1, "much"):
        with pytest.raises(sf.InvalidParameter, match="above"):
            answer.flagged(wrong)


def test_a_range_of_exactly_half_is_not_too_noisy() -> None:
    from sfumato.release.answers.answer_pictures import is_too_noisy

    assert not is_too_noisy(100, (50.0, 150.0))
    assert is_too_noisy(100, (49.0, 150.0))
    assert is_too_noisy(-100, (-151.0, -50.0))
    assert is_too_noisy(0, (-1.0, 1.0))
    assert is_too_noisy(5, (-math.inf, math.inf))
    assert not is_too_noisy(None, None)
